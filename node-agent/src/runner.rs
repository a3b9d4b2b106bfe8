//! Attempts: from a grant that may run to a tree that is gone and a report that is safe.
//!
//! Responsible for the task of each attempt, for what it writes to the disk, and for telling the session what happened,
//! as [`Event`]s. Not responsible for whether and when an attempt runs (`holdings.rs`), nor for its process (`shim.rs`).
//!
//! Invariants: an end is in the spool before it is told; nothing starts without an order; a task that ends early is an
//! error.

mod aftermath;
mod attempt;
mod bounds;
pub mod checkpoint;
mod detach;
mod environment;
mod hosted;
mod indexes;
mod inputs;
mod logs;
mod outcome;
mod replace;
mod socket;
mod upload;
mod words;
mod workspace;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenure_proto::limits;
use tenure_proto::node::v1::{Grant, Report};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};

use crate::cgroup::Subtree;
use crate::clock::{Clock, Mono};
use crate::config::Kind;
use crate::holdings::{End, FencingToken, Stop, WaitVerdict};
use crate::leftovers;
use crate::own_rule::OwnRule;
use crate::shim;
use crate::spool::{Spool, Written};
use crate::trace::Spans;
use crate::workers::Workers;

use self::aftermath::Followed;
use self::indexes::Indexes;
use self::logs::Readers;
use self::upload::Limits;

pub use self::aftermath::{Adopted, Before, Inherited};
pub(crate) use self::logs::{LogSource, Printed};
pub use self::socket::{Calls, Lines};

/// Events that wait for the session. When it is full the attempts' tasks wait; their shims go on.
const EVENTS: usize = 256;
/// The inline limit until a Welcome names another.
const DEFAULT_MAX_RESULT: u64 = limits::INLINE_BYTES as u64;

/// What the runner needs to know of its node.
#[derive(Clone, Debug)]
pub struct Options {
    /// How shims are started.
    pub shim: shim::Options,
    /// Where each attempt gets its directory.
    pub attempts_dir: PathBuf,
    /// The clock of all deadlines.
    pub clock: Clock,
    /// The boot that this agent is of: what another one left does not run any more.
    pub boot_id: String,
    /// The state directory is a copy of another, whose attempts are not this agent's.
    pub copy: bool,
    /// Nothing that runs is taken over: it may be what killed the agents before.
    pub end_all: bool,
    /// The kinds of the node file.
    pub kinds: BTreeMap<String, Kind>,
    /// The program of each advertised kind.
    pub programs: BTreeMap<String, PathBuf>,
    /// The numbers of the units of slots that have some.
    pub indexes: BTreeMap<String, Vec<u32>>,
    /// What holds attempts together.
    pub cgroups: Subtree,
    /// What attempts ask of the server.
    pub calls: Calls,
    /// Makes the spans of attempts.
    pub spans: Spans,
    /// Who runs attempts inside itself.
    pub workers: Workers,
}

/// All attempts of this agent.
#[derive(Debug)]
pub struct Runner {
    shared: Arc<Shared>,
    events: mpsc::Receiver<Event>,
    tasks: JoinSet<Option<FencingToken>>,
}

/// What happened to an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Its directory and payload are written.
    Prepared {
        /// Which lease.
        token: FencingToken,
    },
    /// Nothing was started and nothing will be.
    NeverStarted {
        /// Which lease.
        token: FencingToken,
        /// Why, if no order to stop says it.
        rule: OwnRule,
    },
    /// Its process runs.
    Started {
        /// Which lease.
        token: FencingToken,
    },
    /// Its command said how it gets on.
    Progress {
        /// Which lease.
        token: FencingToken,
        /// 0 to 100.
        percent: u32,
        /// For people.
        message: String,
    },
    /// Its command waits for others and stays.
    Waits {
        /// Which lease.
        token: FencingToken,
        /// Which wait of it.
        epoch: u64,
        /// What it keeps, once the server has said so.
        parked: Option<BTreeMap<String, u32>>,
    },
    /// Its wait is over.
    WaitOver {
        /// Which lease.
        token: FencingToken,
        /// Which wait of it.
        epoch: u64,
        /// What its process does.
        verdict: WaitVerdict,
        /// What the lease holds, if that is not all and is known.
        kept: Option<BTreeMap<String, u32>>,
    },
    /// Its job saved a checkpoint. Told at most once in ten seconds: what counts is the newest.
    Checkpointed {
        /// Which lease.
        token: FencingToken,
    },
    /// Its end is in the spool.
    Ended {
        /// Which lease.
        token: FencingToken,
        /// Its job.
        job: String,
        /// Which report. `Returned` is told once its tree is gone.
        end: End,
    },
    /// Nothing is left of its tree.
    Reaped {
        /// Which lease.
        token: FencingToken,
    },
    /// Its tree is still there 60 s after it should be gone.
    Unkillable {
        /// Which lease.
        token: FencingToken,
    },
}

/// Why the runner cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A task of it ended early: a bug. What it held runs on under its shim, until its deadlines.
    #[error("the task of an attempt ended early")]
    Task(#[source] JoinError),
    /// What an earlier agent left cannot be read.
    #[error("cannot find out what an earlier agent left")]
    Leftovers(#[source] leftovers::Error),
    /// What the workers of an earlier agent had cannot be read.
    #[error("cannot find out what the workers of an earlier agent had")]
    Records(#[source] std::io::Error),
}

/// What every task of the runner shares.
#[derive(Debug)]
struct Shared {
    options: Options,
    indexes: Indexes,
    spool: Arc<Spool>,
    /// Who reads what attempts print.
    readers: Readers,
    /// The inline limit of results, as the server named it.
    max_result: AtomicU64,
    /// Results above that and up to this are uploaded. None: no server has said so yet.
    max_upload: watch::Sender<Option<u64>>,
    /// To the task of each attempt.
    orders: Mutex<BTreeMap<FencingToken, watch::Sender<Orders>>>,
    events: mpsc::Sender<Event>,
}

/// What an attempt is to do: a level, not a queue, so it is never full and never old.
#[derive(Clone, Copy, Debug, Default)]
struct Orders {
    /// It may start.
    start: bool,
    /// By when its tree must be gone.
    gone_by: Mono,
    /// It will never start.
    abandon: bool,
    /// It is to stop.
    stop: Option<Stop>,
    /// The newest wait of it that is over, as the server said.
    resumed: Option<(u64, WaitVerdict)>,
    /// How often its job has said something: it is not stalled.
    words: u64,
    /// How often its job has saved a checkpoint.
    saves: u64,
    /// Its run clock is to stand still.
    parked: bool,
    /// It gave back what it held in order to wait, and does not get it back: it is to detach. Never false again.
    must_detach: bool,
}

impl Runner {
    /// Looks at what an earlier agent left: goes on with what has a shim that answers, begins to kill what still lives
    /// otherwise, and spools what has ended. Ends when everything is known, not when everything is gone.
    ///
    /// # Errors
    /// If that cannot be found out.
    pub async fn start(options: Options, spool: Arc<Spool>) -> Result<(Self, Before), Error> {
        let (sender, events) = mpsc::channel(EVENTS);
        let max_result = AtomicU64::new(DEFAULT_MAX_RESULT);
        let indexes = Indexes::new(options.indexes.clone());
        let shared = Arc::new(Shared {
            options,
            indexes,
            spool,
            readers: Readers::default(),
            max_result,
            max_upload: watch::Sender::new(None),
            orders: Mutex::default(),
            events: sender,
        });
        let mut tasks = JoinSet::new();
        let (followed, mut inherited) = aftermath::begin(&shared, &mut tasks).await?;
        inherited.extend(hosted::begin(&shared, &mut tasks).await?);
        let mut this = Self { shared, events, tasks };
        let adopted = followed.into_iter().map(|followed| this.follow(followed)).collect();
        Ok((this, Before { adopted, inherited }))
    }

    /// Goes on with an attempt that an earlier agent has started.
    fn follow(&mut self, followed: Followed) -> Adopted {
        let adopted = followed.adopted.clone();
        let token = adopted.token;
        let gone_by = adopted.held.gone_by;
        // Its clock stands still from the first order on, whatever becomes of its socket.
        let parked = adopted.held.waiting.as_ref().is_some_and(|waiting| waiting.parked);
        let (orders, receiver) = watch::channel(Orders { start: true, gone_by, parked, ..Orders::default() });
        self.shared.orders().insert(token, orders);
        let shared = Arc::clone(&self.shared);
        self.tasks.spawn(async move {
            attempt::follow(shared, followed, receiver).await;
            Some(token)
        });
        adopted
    }

    /// The next event.
    ///
    /// # Errors
    /// If a task ended early. Cancel-safe.
    pub async fn next(&mut self) -> Result<Event, Error> {
        loop {
            tokio::select! {
                // Cancel-safe: mpsc recv. It never ends, since `shared` has a sender.
                Some(event) = self.events.recv() => return Ok(event),
                // Cancel-safe: JoinSet join_next.
                Some(ended) = self.tasks.join_next() => {
                    if let Some(token) = ended.map_err(Error::Task)? {
                        self.shared.orders().remove(&token);
                    }
                }
            }
        }
    }

    /// Writes the directory and payload of a grant, and waits for orders.
    pub fn prepare(&mut self, grant: Grant) {
        let token = FencingToken(grant.token);
        let (orders, receiver) = watch::channel(Orders::default());
        self.shared.orders().insert(token, orders);
        let shared = Arc::clone(&self.shared);
        self.tasks.spawn(async move {
            if shared.options.workers.host(&grant.kind) {
                hosted::run(shared, grant, receiver).await;
            } else {
                attempt::run(shared, grant, receiver).await;
            }
            Some(token)
        });
    }

    /// The attempts that run in workers: nobody goes on with them when the agent ends.
    pub fn hosted(&self) -> Vec<FencingToken> {
        self.shared.options.workers.attempts()
    }

    /// Starts a prepared attempt.
    pub fn go(&self, token: FencingToken, gone_by: Mono) {
        self.shared.order(token, |orders| (orders.start, orders.gone_by) = (true, gone_by));
    }

    /// Moves a deadline.
    pub fn extend(&self, token: FencingToken, gone_by: Mono) {
        self.shared.order(token, |orders| orders.gone_by = orders.gone_by.max(gone_by));
    }

    /// Stops a tree.
    pub fn stop(&self, token: FencingToken, stop: Stop) {
        self.shared.order(token, |orders| orders.stop = Some(stop));
    }

    /// Ends a wait.
    pub fn resume(&self, token: FencingToken, epoch: u64, verdict: WaitVerdict) {
        self.shared.order(token, |orders| orders.resumed = Some((epoch, verdict)));
    }

    /// Removes what was prepared.
    pub fn abandon(&self, token: FencingToken) {
        self.shared.order(token, |orders| orders.abandon = true);
    }

    /// The directory of an attempt.
    pub fn attempt_dir(&self, token: FencingToken) -> PathBuf {
        let workers = &self.shared.options.workers;
        let directory = workers.attempt_dir(token);
        directory.unwrap_or_else(|| self.shared.options.attempts_dir.join(token.to_string()))
    }

    /// What an attempt prints.
    pub(crate) fn log_source(&self, token: FencingToken) -> LogSource {
        LogSource::new(Arc::clone(&self.shared), token)
    }

    /// The job of an attempt said something (progress, usage): it is not stalled.
    pub fn heard(&self, token: FencingToken) {
        self.shared.heard(token);
    }

    /// The job of an attempt saved a checkpoint, which stands in its directory.
    pub fn saved(&self, token: FencingToken) {
        self.shared.saved(token);
    }

    /// The run clock of an attempt stands still, or goes on.
    pub fn park(&self, token: FencingToken, parked: bool) {
        self.shared.order(token, |orders| orders.parked = parked);
    }

    /// Results above this are refused.
    pub fn limit_results(&self, bytes: u64) {
        self.shared.max_result.store(bytes.min(DEFAULT_MAX_RESULT), Ordering::Relaxed);
    }

    /// Results above the inline limit and up to this are uploaded; 0: none.
    pub fn limit_uploads(&self, bytes: u64) {
        self.shared.max_upload.send_replace(Some(bytes));
    }

    /// Waits until every task has ended: nothing runs, and every directory is removed.
    ///
    /// # Errors
    /// If a task ended early.
    pub async fn finish(mut self) -> Result<(), Error> {
        self.events.close();
        while let Some(ended) = self.tasks.join_next().await {
            ended.map_err(Error::Task)?;
        }
        Ok(())
    }
}

impl Shared {
    fn orders(&self) -> MutexGuard<'_, BTreeMap<FencingToken, watch::Sender<Orders>>> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn order(&self, token: FencingToken, change: impl FnOnce(&mut Orders)) {
        if let Some(orders) = self.orders().get(&token) {
            orders.send_modify(change);
        }
    }

    /// The job of an attempt said something: it is not stalled.
    fn heard(&self, token: FencingToken) {
        self.order(token, |orders| orders.words += 1);
    }

    /// The job of an attempt saved a checkpoint, which stands in its directory. That is a word, too.
    fn saved(&self, token: FencingToken) {
        self.order(token, |orders| (orders.words, orders.saves) = (orders.words + 1, orders.saves + 1));
    }

    /// Tells the session. It listens for as long as the agent lives; afterwards nobody wants to know.
    async fn tell(&self, event: Event) {
        drop(self.events.send(event).await);
    }

    /// Puts an end into the spool and tells the session.
    async fn spool(self: &Arc<Self>, report: Report, end: End) -> Written {
        let (token, job) = (FencingToken(report.token), report.job_id.clone());
        let shared = Arc::clone(self);
        let written = tokio::task::spawn_blocking(move || shared.spool.write(&report)).await;
        self.tell(Event::Ended { token, job, end }).await;
        written.unwrap_or(Written::InMemory)
    }

    fn max_result(&self) -> u64 {
        self.max_result.load(Ordering::Relaxed)
    }

    /// Up to which size results are taken.
    fn limits(&self) -> Limits {
        Limits { inline: self.max_result(), uploaded: self.max_upload.borrow().unwrap_or_default() }
    }

    /// The same, once a server has said so.
    async fn limits_of_server(&self) -> Limits {
        // It is never closed: this holds the sender.
        drop(self.max_upload.subscribe().wait_for(Option::is_some).await);
        self.limits()
    }
}
