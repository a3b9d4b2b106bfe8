//! One attempt, as straight-line code: prepare, wait, start, watch, report, clean up.
//!
//! Responsible for the order of these. Not responsible for any decision about the lease: the orders come from the
//! session, by a level that only rises.

use std::sync::Arc;
use std::time::Duration;

use tenure_proto::node::v1::{Grant, Report};
use tokio::sync::watch;
use tracing::Instrument as _;

use super::aftermath::{Followed, read_part};
use super::bounds::{Bounds, unless_over};
use super::indexes::Assigned;
use super::inputs::Asker;
use super::socket::{About, Desk, Lease, Of, Said, Socket, is_away};
use super::workspace::{Found, Memo, Workspace};
use super::{Event, Orders, Shared, checkpoint, detach, environment, inputs, logs, outcome, upload, words};
use crate::clock::Mono;
use crate::config::{self, Kind};
use crate::holdings::{End, FencingToken, Stop, StopReason};
use crate::own_rule::OwnRule;
use crate::shim::{self, ExitRecord, Shim, Spec};
use crate::spool::Written;
use crate::trace::AttemptSpan;

/// Without one the server would have none; it always sends one.
const DEFAULT_HARD_LIMIT: Duration = Duration::from_secs(3_600);

/// Between two tries to fetch what an execution goes on from.
const INPUTS_AGAIN: Duration = Duration::from_millis(500);
/// A checkpoint is told to the server no sooner than this after the one before: each is a commit of up to 256 KiB.
const BETWEEN_CHECKPOINTS: Duration = Duration::from_secs(10);

/// Runs one attempt to its end.
pub(super) async fn run(shared: Arc<Shared>, grant: Grant, orders: watch::Receiver<Orders>) {
    let span = tracing::info_span!(
        "attempt",
        job.id = %grant.job_id,
        job.kind = %grant.kind,
        job.attempt = grant.attempt,
        lease.token = grant.token
    );
    let trace = shared.options.spans.attempt(&grant);
    let grant = trace.enter(grant);
    let attempt = Attempt {
        token: FencingToken(grant.token),
        workspace: Workspace::new(&shared.options.attempts_dir, grant.token),
        shared,
        orders,
        told: Told::default(),
        checkpoint_due: None,
        in_memory: false,
        trace,
        desk: None,
    };
    attempt.run(grant).instrument(span).await;
}

/// Follows an attempt that an earlier agent has started, to its end. Its span has ended with that agent.
pub(super) async fn follow(shared: Arc<Shared>, followed: Followed, orders: watch::Receiver<Orders>) {
    let Followed { adopted, shim, workspace, memo, numbered } = followed;
    let span = tracing::info_span!("attempt", job.id = %adopted.job, lease.token = adopted.token.0);
    let mut attempt = Attempt {
        token: adopted.token,
        workspace,
        orders,
        told: Told { gone_by: adopted.held.gone_by, ..Told::default() },
        // The agent before may not have come to saying what was saved.
        checkpoint_due: Some(shared.options.clock.now()),
        shared,
        in_memory: false,
        trace: AttemptSpan::default(),
        desk: None,
    };
    let (job, grace) = (adopted.job, adopted.held.grace);
    let followed = async move {
        // Without it the job goes on, and cannot speak.
        if let Err(error) = attempt.open_socket(&job, &memo, numbered).await {
            tracing::error!(%error, "the socket of an attempt that was taken over cannot be made");
        }
        attempt.follow(shim, grace, &memo).await;
    };
    followed.instrument(span).await;
}

struct Attempt {
    token: FencingToken,
    workspace: Workspace,
    shared: Arc<Shared>,
    orders: watch::Receiver<Orders>,
    told: Told,
    /// When its newest checkpoint is to be told. None: it was told, or there is none.
    checkpoint_due: Option<Mono>,
    /// Whether its end could not be written to the disk.
    in_memory: bool,
    /// Its span, if spans are exported.
    trace: AttemptSpan,
    /// What its command says, and by what socket, until that has ended.
    desk: Option<(Arc<Desk>, Option<Socket>)>,
}

/// What the shim was told already.
#[derive(Default)]
struct Told {
    gone_by: Mono,
    stop: Option<Stop>,
    words: u64,
    saves: u64,
    /// When a checkpoint was told last.
    saved_at: Option<Mono>,
}

enum Input {
    Shim(Option<shim::Event>),
    Orders,
    Checkpoint,
}

impl Attempt {
    async fn run(mut self, mut grant: Grant) {
        let Some(kind) = self.shared.options.kinds.get(&grant.kind).cloned() else {
            return self.give_up(OwnRule::Kind).await;
        };
        let user = kind.user.clone().filter(|user| user.uid != rustix::process::geteuid().as_raw());
        let account = kind.user.clone().unwrap_or_else(config::own_account);
        let about = About::of(&grant);
        let memo = Memo { slots: grant.slots.clone(), result: kind.result, uid: account.uid, about };
        let owner = user.clone();
        let (workspace, remembered) = (self.workspace.clone(), memo.clone());
        let prepared = tokio::task::spawn_blocking(move || {
            let prepared = workspace.prepare(&grant, &remembered, user.as_ref());
            grant.checkpoint.iter_mut().for_each(|saved| saved.data.clear());
            grant.partial.iter_mut().for_each(|result| result.data.clear());
            grant.payload.clear(); // All is on the disk; the memory is free while the attempt runs.
            (grant, prepared)
        });
        let grant = match prepared.await {
            Ok((grant, Ok(()))) => grant,
            Ok((_, Err(error))) => {
                tracing::warn!(%error, "the directory of an attempt cannot be made; its grant is given back");
                return self.give_up(OwnRule::Workdir).await;
            }
            Err(error) => {
                tracing::error!(%error, "preparing an attempt ended early; its grant is given back");
                return self.give_up(OwnRule::Workdir).await;
            }
        };
        self.shared.tell(Event::Prepared { token: self.token }).await;
        if !self.may_start().await {
            return self.give_up(OwnRule::Draining).await;
        }
        let Some(assigned) = self.shared.indexes.take(self.token, &grant.slots) else {
            tracing::error!("more is promised of a slot than it has numbers; a grant is given back");
            return self.give_up(OwnRule::Slots).await;
        };
        if !self.remember(&assigned).await {
            return self.give_up(OwnRule::Workdir).await;
        }
        if let Err(error) = self.open_socket(&grant.job_id, &memo, !assigned.is_empty()).await {
            tracing::warn!(%error, "the socket of an attempt cannot be made; its grant is given back");
            return self.give_up(OwnRule::Workdir).await;
        }
        let inputs = match self.inputs(&grant, owner.as_ref()).await {
            Ok(inputs) => inputs,
            Err(rule) => return self.give_up(rule).await,
        };
        let mut spec = self.spec(&grant, &kind, &account, &assigned);
        spec.env.extend(environment::of_socket(&self.workspace, inputs.as_ref()));
        match Shim::start(&self.shared.options.shim, spec).await {
            // Told to stop meanwhile: dropped before its start, the shim leaves, and nothing has run.
            Ok(_) if self.orders.borrow().stop.is_some() => self.give_up(OwnRule::Draining).await,
            Ok(shim) => self.watch(shim, kind.grace, &memo).await,
            Err(error) => {
                let error = crate::Chain(&error).to_string();
                tracing::warn!(error, "the shim of an attempt cannot be started; its grant is given back");
                self.give_up(OwnRule::Shim).await;
            }
        }
    }

    /// Waits for the order to start. False: it is never to start, or nobody gives orders any more.
    async fn may_start(&mut self) -> bool {
        let decided =
            self.orders.wait_for(|orders| orders.start || orders.abandon || orders.stop.is_some()).await;
        decided.is_ok_and(|orders| orders.start && !orders.abandon && orders.stop.is_none())
    }

    /// Whether its numbers are written down, so that no other attempt gets them while its tree may live, whatever becomes
    /// of this agent.
    async fn remember(&self, assigned: &Assigned) -> bool {
        if assigned.is_empty() {
            return true;
        }
        let (workspace, assigned) = (self.workspace.clone(), assigned.clone());
        let written = tokio::task::spawn_blocking(move || workspace.remember(&assigned)).await;
        match written {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                tracing::warn!(%error, "the numbers of an attempt cannot be written; its grant is given back");
                false
            }
            Err(error) => {
                tracing::error!(%error, "writing the numbers of an attempt ended early; its grant is given back");
                false
            }
        }
    }

    /// Makes the socket of the attempt, and reads what it has said so far.
    async fn open_socket(&mut self, job: &str, memo: &Memo, numbered: bool) -> std::io::Result<()> {
        let of = Of {
            lease: Lease { job: job.to_owned(), token: self.token },
            about: memo.about.clone(),
            dir: self.workspace.dir().to_owned(),
            uid: memo.uid,
            numbered,
        };
        let (shared, orders) = (Arc::clone(&self.shared), self.orders.clone());
        let desk = tokio::task::spawn_blocking(move || Desk::new(shared, of, orders));
        let desk = Arc::new(desk.await.map_err(std::io::Error::other)?);
        let opened = Socket::open(Arc::clone(&desk));
        let failed = opened.as_ref().err().map(|error| std::io::Error::new(error.kind(), error.to_string()));
        let socket = opened.unwrap_or_else(|_told| Socket::mute(Arc::clone(&desk)));
        self.desk = Some((desk, Some(socket)));
        failed.map_or(Ok(()), Err)
    }

    /// What the command has said. From here on it says no more.
    async fn heard(&mut self) -> Said {
        let Some((desk, socket)) = &mut self.desk else { return Said::default() };
        if let Some(socket) = socket.take() {
            socket.close().await;
        }
        desk.said().await
    }

    /// Fetches what the execution goes on from, if it does, for as long as it takes.
    async fn inputs(
        &self,
        grant: &Grant,
        user: Option<&config::Account>,
    ) -> Result<Option<inputs::Inputs>, OwnRule> {
        if grant.input_results.is_none() {
            return Ok(None);
        }
        let lease = Lease { job: grant.job_id.clone(), token: self.token };
        let (calls, clock) = (&self.shared.options.calls, self.shared.options.clock);
        let asker = Asker { calls, lease: &lease, orders: &self.orders, clock };
        loop {
            match inputs::fetch(asker, self.workspace.dir(), user).await {
                Ok(inputs) => return Ok(Some(inputs)),
                Err(inputs::Error::Server(status)) if is_away(&status) => {
                    tracing::debug!(%status, "what an attempt goes on from cannot be fetched; again soon");
                }
                Err(inputs::Error::Over(rule)) => return Err(rule),
                Err(error) => {
                    let rule = if matches!(error, inputs::Error::Server(_)) {
                        OwnRule::Revoked
                    } else {
                        OwnRule::Workdir
                    };
                    let error = crate::Chain(&error).to_string();
                    tracing::warn!(
                        error,
                        "what an attempt goes on from is not there; its grant is given back"
                    );
                    return Err(rule);
                }
            }
            unless_over(&self.orders, clock, clock.sleep_until(clock.now() + INPUTS_AGAIN)).await?;
        }
    }

    fn spec(&mut self, grant: &Grant, kind: &Kind, account: &config::Account, assigned: &Assigned) -> Spec {
        let options = &self.shared.options;
        let env = environment::build(grant, kind, account, (&self.workspace, assigned), |name| {
            std::env::var(name).ok()
        });
        let mut argv = kind.command.clone();
        if let (Some(first), Some(program)) = (argv.first_mut(), options.programs.get(&grant.kind)) {
            *first = program.to_string_lossy().into_owned();
        }
        self.told.gone_by = self.orders.borrow_and_update().gone_by;
        let length = |field: Option<prost_types::Duration>| field.and_then(|length| length.try_into().ok());
        Spec {
            job: grant.job_id.clone(),
            token: grant.token,
            dir: self.workspace.dir().to_owned(),
            argv,
            env,
            workdir: kind.workdir.clone().unwrap_or_else(|| self.workspace.work()),
            stdin: Some(self.workspace.payload()),
            user: kind.user.as_ref().map(|user| shim::User {
                uid: user.uid,
                gid: user.gid,
                groups: user.groups.clone(),
            }),
            limits: kind.limits.clone(),
            filled: self.workspace.filled().to_vec(),
            cgroup: options.cgroups.place(grant.token, &kind.limits),
            clock: options.clock,
            grace: kind.grace,
            lease: length(grant.lease).unwrap_or_default(),
            hard_time_limit: length(grant.hard_time_limit).unwrap_or(DEFAULT_HARD_LIMIT),
            soft_time_limit: length(grant.soft_time_limit),
            soft_grace: kind.soft_grace,
            progress_timeout: length(grant.progress_timeout),
            gone_by: self.told.gone_by,
        }
    }

    /// Starts the command, and follows it.
    async fn watch(mut self, mut shim: Shim, grace: Duration, memo: &Memo) {
        self.follow_orders(&mut shim, grace);
        if let Err(error) = shim.go() {
            // `next` brings the consequence.
            tracing::warn!(error = %crate::Chain(&error), "the shim of an attempt is gone before its start");
        }
        self.follow(shim, grace, memo).await;
    }

    /// Follows a command until its tree is gone.
    async fn follow(mut self, mut shim: Shim, grace: Duration, memo: &Memo) {
        let (mut returning, mut broken_off) = (None, None);
        let clock = self.shared.options.clock;
        loop {
            let due = self.checkpoint_due;
            let input = tokio::select! {
                // Cancel-safe, as documented there.
                event = shim.next() => Input::Shim(event),
                // Cancel-safe: watch changed. A sender that is gone gives no more orders.
                Ok(()) = self.orders.changed() => Input::Orders,
                // Cancel-safe: the deadline stays.
                () = clock.sleep_until(due.unwrap_or(Mono::MAX)), if due.is_some() => Input::Checkpoint,
            };
            match input {
                Input::Orders => self.follow_orders(&mut shim, grace),
                Input::Checkpoint => {
                    (self.checkpoint_due, self.told.saved_at) = (None, Some(clock.now()));
                    self.shared.tell(Event::Checkpointed { token: self.token }).await;
                }
                Input::Shim(Some(shim::Event::Notified)) => {
                    tracing::info!("an attempt was asked to wrap up");
                    if let Some((desk, _)) = &self.desk {
                        desk.asked_to_wrap_up().await;
                    }
                }
                Input::Shim(Some(shim::Event::Started { .. })) => {
                    self.trace.started();
                    self.shared.tell(Event::Started { token: self.token }).await;
                }
                Input::Shim(Some(shim::Event::Ended(record))) => {
                    match outcome::end_of(&record, self.reason()) {
                        End::Returned => returning = Some(record),
                        End::Finished => broken_off = self.finish(*record, memo, grace).await,
                    }
                }
                Input::Shim(Some(shim::Event::Unkillable)) => {
                    tracing::error!("the tree of an attempt cannot be killed; its slots stay taken");
                    self.shared.tell(Event::Unkillable { token: self.token }).await;
                }
                Input::Shim(Some(shim::Event::Reaped) | None) => break,
            }
        }
        // Before anybody hears that its slots are free.
        self.shared.indexes.release(self.token);
        if let Some(record) = returning {
            let said = self.heard().await;
            let part = read_part(&self.workspace, Some(memo), &record, self.shared.limits()).await;
            let report = outcome::returned(&record, self.reason(), part, self.saved().await);
            broken_off = Some(words::with(report, &record, &said, None));
        }
        if let Some(report) = broken_off {
            self.trace.reported(&report);
            let written = self.shared.spool(report, End::Returned).await;
            return self.clean_up(written).await;
        }
        let written = if self.in_memory { Written::InMemory } else { Written::Durable };
        self.shared.tell(Event::Reaped { token: self.token }).await;
        self.clean_up(written).await;
    }

    /// Says how its command has ended. A report that gives it back is left to the caller, to be said once its tree is gone.
    async fn finish(&mut self, record: ExitRecord, memo: &Memo, grace: Duration) -> Option<Report> {
        let said = self.heard().await;
        let mut bounds = Bounds::new(self.orders.clone(), self.shared.options.clock, grace, None);
        // An agent that has taken it over may have no Welcome yet, which says how much the server takes.
        let limits = if upload::is_needed(&self.shared, &self.workspace, &record).await {
            upload::limits(&self.shared, &mut bounds).await
        } else {
            self.shared.limits()
        };
        let (workspace, memo) = (self.workspace.clone(), memo.clone());
        let report = tokio::task::spawn_blocking(move || {
            let result = if outcome::leaves_result(&record) {
                workspace.read_result(&memo, &record, limits)
            } else {
                Found::Nothing
            };
            let waits = words::wants_to_wait(&record, &said);
            let wanted = if waits { detach::read(&workspace, memo.uid) } else { None };
            let large = result.large();
            let report = outcome::finished(&record, result, checkpoint::read(workspace.dir()));
            let report = words::with(report, &record, &said, wanted);
            (logs::with_tail(report, &record, workspace.dir()), large)
        });
        match report.await {
            Ok((report, large)) => {
                let sent = upload::unless_stopped(&self.shared, report, large, &mut bounds).await;
                let (report, end) = match sent {
                    Ok(report) => (report, End::Finished),
                    Err((report, reason)) => outcome::stopped_meanwhile(*report, reason, self.saved().await),
                };
                if end == End::Returned {
                    return Some(report);
                }
                self.trace.reported(&report);
                let written = self.shared.spool(report, end).await;
                self.in_memory = written == Written::InMemory;
            }
            Err(error) => tracing::error!(%error, "reading a result ended early; its attempt will be a loss"),
        }
        None
    }

    /// Its newest checkpoint.
    async fn saved(&self) -> Option<Vec<u8>> {
        let dir = self.workspace.dir().to_owned();
        tokio::task::spawn_blocking(move || checkpoint::read(&dir)).await.ok().flatten()
    }

    /// Brings the shim up to the present orders.
    fn follow_orders(&mut self, shim: &mut Shim, grace: Duration) {
        let orders = *self.orders.borrow_and_update();
        if orders.gone_by > self.told.gone_by {
            self.told.gone_by = orders.gone_by;
            self.note(shim.renew(orders.gone_by));
        }
        self.note(shim.pause(orders.parked));
        if orders.words != self.told.words {
            self.told.words = orders.words;
            self.note(shim.heard());
        }
        if orders.saves != self.told.saves {
            self.told.saves = orders.saves;
            let now = self.shared.options.clock.now();
            let earliest = self.told.saved_at.map_or(now, |told| told + BETWEEN_CHECKPOINTS);
            self.checkpoint_due.get_or_insert(earliest.max(now));
        }
        if let Some(stop) = orders.stop.filter(|&stop| self.told.stop != Some(stop)) {
            self.told.stop = Some(stop);
            let grace = if stop.at_once { Duration::ZERO } else { grace };
            let reason = match stop.reason {
                StopReason::Drained => shim::StopReason::Drained,
                StopReason::NotLive
                | StopReason::Cancelled
                | StopReason::Unanswered
                | StopReason::Superseded => shim::StopReason::Revoked,
            };
            self.note(shim.stop(reason, grace));
        }
    }

    fn note(&self, told: Result<(), shim::Error>) {
        if let Err(error) = told {
            // Its end is on its way, or the next event says that it died.
            tracing::debug!(error = %crate::Chain(&error), "an order did not reach its shim");
        }
    }

    fn reason(&self) -> Option<StopReason> {
        self.told.stop.map(|stop| stop.reason)
    }

    /// Ends an attempt that never started.
    async fn give_up(mut self, rule: OwnRule) {
        self.trace.never_started(rule);
        self.desk = None;
        self.shared.indexes.release(self.token);
        let token = self.token;
        let shared = Arc::clone(&self.shared);
        self.clean_up(Written::Durable).await;
        shared.tell(Event::NeverStarted { token, rule }).await;
    }

    /// Removes the directory. A report that is in memory only leaves it: the exit record in it outlives a crash.
    async fn clean_up(self, written: Written) {
        if written == Written::Durable {
            self.shared.readers.gone(self.token).await;
            remove(self.workspace).await;
        }
    }
}

/// Removes a workspace. What cannot be removed now is looked at by the next agent.
pub(super) async fn remove(workspace: Workspace) {
    let removed = tokio::task::spawn_blocking(move || workspace.remove()).await;
    if let Ok(Err(error)) = removed {
        tracing::warn!(%error, "the directory of an attempt cannot be removed");
    }
}
