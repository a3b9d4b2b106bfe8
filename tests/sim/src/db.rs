//! A model of Postgres: one row that says who leads, transactions that hold it, a queue for its lock, and everything that
//! can go wrong on the way there and back.
//!
//! Responsible for what `docs/` promises of the database: a commit is whole or absent and checks the epoch, a takeover
//! waits for commits in flight and ends those that do not come to their end. Not responsible for what servers make of an
//! answer (`server/*`), nor for when something goes wrong (`faults.rs`).

pub(crate) mod tables;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tenure_scheduler::{Changes, Durable};

use self::tables::Tables;
use crate::{
    clock::{MS, S},
    faults::Fault,
    trace::say,
    world::{Broken, Happening, World},
};

/// A takeover waits for the lock so long, then it ends the transactions that hold it.
const LOCK_TIMEOUT: u64 = S;
/// So far a takeover leaps for each timeline that the row is behind: further than the takeovers that a failover may have
/// lost. By their number, since the first leap may be lost itself.
const LEAP: u64 = 100;
/// The session setting that ends a transaction whose COMMIT does not arrive.
const IDLE_TIMEOUT: u64 = 1_500 * MS;

/// One of the connections of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Line {
    /// Renewals, takeovers, and what followers read.
    Election,
    /// Commits and loading.
    Commit,
}

/// A connection of one life of a server: answers go back by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Back {
    pub(crate) server: usize,
    pub(crate) life: u64,
    pub(crate) line: Line,
    /// Which connection of this line: a dropped one is never used again.
    pub(crate) number: u64,
    /// Of the database when it was opened.
    pub(crate) generation: u64,
}

/// The row that says who leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Fence {
    pub(crate) epoch: u64,
    /// A server and its life; none: it has resigned.
    pub(crate) holder: Option<(usize, u64)>,
    /// The renewal counter.
    pub(crate) beats: u64,
    /// On which timeline of the database it was taken.
    timeline: u64,
}

/// What a takeover finds if nobody was faster.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Expected {
    /// What a follower saw unchanged.
    Row { epoch: u64, beats: u64 },
    /// Oneself.
    Own { epoch: u64 },
}

#[derive(Debug)]
pub(crate) enum Request {
    Poll,
    Renew { epoch: u64 },
    Resign { epoch: u64 },
    Take { expected: Expected, at_least: u64 },
    Load,
    Commit { epoch: u64, changes: Box<Changes> },
}

#[derive(Debug)]
pub(crate) enum Answer {
    Row(Fence),
    Renewed(bool),
    /// The new epoch; none: somebody else has it.
    Taken(Option<u64>),
    Loaded(Box<Durable>),
    Committed,
    Deposed,
    Failed(&'static str),
}

/// What happens inside, or arrives.
#[derive(Debug)]
pub(crate) enum DbInput {
    Arrives {
        back: Back,
        request: Request,
    },
    Answers {
        back: Back,
        answer: Answer,
    },
    /// The COMMIT of a transaction arrives and is written.
    Lands {
        transaction: u64,
    },
    /// A transaction has waited for its COMMIT for too long.
    Idle {
        transaction: u64,
    },
    /// A takeover has waited for its lock for too long.
    LockTimeout {
        waiter: u64,
    },
    Up,
}

/// A transaction that has checked the epoch and holds the row.
#[derive(Debug)]
struct Open {
    number: u64,
    back: Back,
    epoch: u64,
    changes: Box<Changes>,
    /// Its COMMIT has arrived and waits for the disk.
    writing: bool,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    back: Back,
    request: Request,
}

/// What was committed and may be lost in a failover.
#[derive(Debug)]
enum Logged {
    Rows(Box<Changes>),
    Fence(Fence),
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Db {
    pub(crate) tables: Tables,
    pub(crate) fence: Fence,
    pub(crate) up: bool,
    /// Plus one whenever it lost all connections.
    pub(crate) generation: u64,
    /// Plus one at each failover.
    timeline: u64,
    open: Vec<Open>,
    queue: VecDeque<Waiter>,
    numbers: u64,
    /// Directions of connections that pass nothing on: to it, from it.
    pub(crate) held: BTreeMap<(usize, Line), (bool, bool)>,
    stuck: Vec<((usize, Line), DbInput)>,
    /// How far the standby lags behind; none: a failover loses nothing.
    pub(crate) lag: Option<u64>,
    standby: (Tables, Fence),
    log: VecDeque<(u64, Logged)>,
    /// Of the newest commit.
    newest_epoch: u64,
    pub(crate) commits: u64,
}

impl Db {
    /// With these rows, and with a standby if something may be lost.
    pub(crate) fn new(tables: Tables, lag: Option<u64>) -> Self {
        let standby = (tables.clone(), Fence::default());
        Self { tables, up: true, lag, standby, ..Self::default() }
    }

    fn is_held(&self, back: Back, inward: bool) -> bool {
        let (to, from) = self.held.get(&(back.server, back.line)).copied().unwrap_or_default();
        if inward { to } else { from }
    }
}

impl World {
    /// A server asks something. It gets its answer later, or never.
    pub(crate) fn ask_db(&mut self, back: Back, request: Request) {
        let at = self.now + self.random.between(200, 2 * MS);
        self.plan(at, Happening::Db(DbInput::Arrives { back, request }));
    }

    pub(crate) fn db_input(&mut self, input: DbInput) {
        match input {
            DbInput::Arrives { back, .. } if self.db.is_held(back, true) => self.stick(back, input),
            DbInput::Answers { back, .. } if self.db.is_held(back, false) => self.stick(back, input),
            DbInput::Arrives { back, request } => self.arrives(back, request),
            DbInput::Answers { back, answer } => self.db_answers(back, answer),
            DbInput::Lands { transaction } => self.lands(transaction),
            DbInput::Idle { transaction } => self.idle(transaction),
            DbInput::LockTimeout { waiter } => self.lock_timeout(waiter),
            DbInput::Up => {
                self.db.up = true;
                say!(self, ("postgres"), "is up");
            }
        }
    }

    fn stick(&mut self, back: Back, input: DbInput) {
        self.db.stuck.push(((back.server, back.line), input));
    }

    /// A connection passes everything on again.
    pub(crate) fn release_db(&mut self, server: usize, line: Line) {
        self.db.held.remove(&(server, line));
        let stuck = std::mem::take(&mut self.db.stuck);
        for (whose, input) in stuck {
            if whose == (server, line) {
                let at = self.now + self.random.between(100, MS);
                self.plan(at, Happening::Db(input));
            } else {
                self.db.stuck.push((whose, input));
            }
        }
    }

    fn answer(&mut self, back: Back, answer: Answer) {
        let at = self.now + self.random.between(100, MS);
        self.plan(at, Happening::Db(DbInput::Answers { back, answer }));
    }

    fn arrives(&mut self, back: Back, request: Request) {
        if !self.db.up {
            return self.answer(back, Answer::Failed("connection refused"));
        }
        if back.generation != self.db.generation {
            return self.answer(back, Answer::Failed("connection reset"));
        }
        match request {
            Request::Poll => self.answer(back, Answer::Row(self.db.fence)),
            Request::Load => {
                let rows = Box::new(self.db.tables.load());
                let at = self.now + self.random.between(5 * MS, 300 * MS);
                self.plan(at, Happening::Db(DbInput::Answers { back, answer: Answer::Loaded(rows) }));
            }
            Request::Renew { .. }
            | Request::Resign { .. }
            | Request::Take { .. }
            | Request::Commit { .. } => {
                self.db.numbers += 1;
                let number = self.db.numbers;
                if let Request::Take { .. } = request {
                    let at = self.now + LOCK_TIMEOUT;
                    self.plan(at, Happening::Db(DbInput::LockTimeout { waiter: number }));
                }
                self.db.queue.push_back(Waiter { number, back, request });
                self.pump();
            }
        }
    }

    /// Lets in whoever is first in the queue of the lock: many at once, but a takeover alone.
    fn pump(&mut self) {
        while let Some(first) = self.db.queue.front() {
            let alone =
                matches!(first.request, Request::Take { .. }) && self.broken != Broken::NoTakeoverLock;
            if alone && !self.db.open.is_empty() {
                return;
            }
            let Some(Waiter { back, request, .. }) = self.db.queue.pop_front() else { return };
            match request {
                Request::Take { expected, at_least } => self.take(back, expected, at_least),
                Request::Renew { epoch } => {
                    let mine = self.leads(back, epoch);
                    if mine {
                        self.db.fence.beats += 1;
                    }
                    self.answer(back, Answer::Renewed(mine));
                }
                Request::Resign { epoch } => {
                    if self.leads(back, epoch) {
                        let beats = self.db.fence.beats + 1;
                        self.write_fence(Fence { holder: None, beats, ..self.db.fence });
                    }
                }
                Request::Commit { epoch, changes } => self.begin_commit(back, epoch, changes),
                Request::Poll | Request::Load => {}
            }
        }
    }

    fn leads(&self, back: Back, epoch: u64) -> bool {
        self.db.fence.epoch == epoch && self.db.fence.holder == Some((back.server, back.life))
    }

    fn take(&mut self, back: Back, expected: Expected, at_least: u64) {
        let fence = self.db.fence;
        let holder = Some((back.server, back.life));
        let as_expected = match expected {
            Expected::Row { epoch, beats } => (fence.epoch, fence.beats) == (epoch, beats),
            Expected::Own { epoch } => fence.epoch == epoch && fence.holder == holder,
        };
        if !as_expected {
            return self.answer(back, Answer::Taken(None));
        }
        let timeline = self.db.timeline;
        let apart = if self.broken == Broken::NoLeap { 0 } else { timeline - fence.timeline };
        let leap = (apart * LEAP).max(1);
        let epoch = fence.epoch.max(at_least) + leap;
        self.write_fence(Fence { epoch, holder, beats: fence.beats + 1, timeline });
        say!(self, ("postgres"), "epoch {epoch} belongs to s{}", back.server);
        self.answer(back, Answer::Taken(Some(epoch)));
    }

    fn write_fence(&mut self, fence: Fence) {
        self.db.fence = fence;
        self.log(|| Logged::Fence(fence));
    }

    fn begin_commit(&mut self, back: Back, epoch: u64, changes: Box<Changes>) {
        if self.db.fence.epoch != epoch && self.broken != Broken::NoEpochCheck {
            return self.answer(back, Answer::Deposed);
        }
        self.db.numbers += 1;
        let number = self.db.numbers;
        let mut lands = self.now + self.random.between(500, 8 * MS);
        let mut writing = true;
        if self.happens(Fault::CommitSlow) {
            lands = self.now + self.random.between(500 * MS, 6 * S);
        } else if self.happens(Fault::CommitHeld) {
            writing = false;
            lands = self.now + self.random.between(500 * MS, 13 * S);
            // The half of them as if the setting were off.
            if self.random.percent(50) {
                let at = self.now + IDLE_TIMEOUT;
                self.plan(at, Happening::Db(DbInput::Idle { transaction: number }));
            }
        }
        self.db.open.push(Open { number, back, epoch, changes, writing });
        self.plan(lands, Happening::Db(DbInput::Lands { transaction: number }));
    }

    fn close_transaction(&mut self, transaction: u64) -> Option<Open> {
        let at = self.db.open.iter().position(|open| open.number == transaction)?;
        Some(self.db.open.remove(at))
    }

    fn lands(&mut self, transaction: u64) {
        let Some(open) = self.close_transaction(transaction) else { return };
        let back = open.back;
        if self.happens(Fault::CommitDeadlock) {
            self.answer(back, Answer::Failed("deadlock detected"));
        } else if self.happens(Fault::CommitLost) {
            // The database gives up before it is written, and says so too late or not at all.
        } else {
            self.apply(open);
            if !self.happens(Fault::AnswerLost) {
                self.answer(back, Answer::Committed);
            }
        }
        self.pump();
    }

    fn idle(&mut self, transaction: u64) {
        if let Some(open) = self.close_transaction(transaction) {
            say!(self, ("postgres"), "ends an idle transaction of s{}", open.back.server);
            self.pump();
        }
    }

    /// `pg_terminate_backend` for what holds the lock, and another try. A transaction whose COMMIT has arrived may be
    /// written all the same.
    fn lock_timeout(&mut self, waiter: u64) {
        if !self.db.queue.iter().any(|waiting| waiting.number == waiter) {
            return;
        }
        for open in std::mem::take(&mut self.db.open) {
            say!(self, ("postgres"), "the backend of s{} is terminated", open.back.server);
            self.counts.fault(Fault::Terminated);
            if open.writing && self.random.percent(50) {
                self.apply(open);
            }
        }
        self.pump();
    }

    /// A transaction becomes durable.
    fn apply(&mut self, mut open: Open) {
        if open.epoch < self.db.newest_epoch {
            let newest = self.db.newest_epoch;
            return self.violated(format!("I16: epoch {} commits after epoch {newest}", open.epoch));
        }
        self.db.newest_epoch = open.epoch;
        self.db.commits += 1;
        if self.broken == Broken::NoCronRow {
            open.changes.crons_put.clear();
        }
        if let Err(refused) = self.db.tables.commit(&open.changes) {
            return self.violated(format!("the schema refuses a commit of epoch {}: {refused}", open.epoch));
        }
        self.oracle_rows(&open.changes);
        self.log(|| Logged::Rows(open.changes));
    }

    /// What the standby does not have yet.
    fn log(&mut self, entry: impl FnOnce() -> Logged) {
        if self.db.lag.is_some() {
            self.db.log.push_back((self.now, entry()));
            self.replicate();
        }
    }

    fn replicate(&mut self) {
        let Some(lag) = self.db.lag else { return };
        while self.db.log.front().is_some_and(|(at, _)| *at + lag <= self.now) {
            let Some((_, entry)) = self.db.log.pop_front() else { return };
            match entry {
                Logged::Fence(fence) => self.db.standby.1 = fence,
                Logged::Rows(changes) => {
                    // It was taken once: these are the same rows.
                    drop(self.db.standby.0.commit(&changes));
                }
            }
        }
    }

    /// It goes away for so long: every connection is lost, and every transaction that has not landed.
    pub(crate) fn db_goes(&mut self, length: u64) {
        self.db.up = false;
        self.db.generation += 1;
        self.db.open.clear();
        self.db.stuck.clear();
        for waiter in std::mem::take(&mut self.db.queue) {
            self.answer(waiter.back, Answer::Failed("the server closed the connection"));
        }
        let at = self.now + length;
        self.plan(at, Happening::Db(DbInput::Up));
    }

    /// Its standby takes its place, without the newest commits.
    pub(crate) fn db_fails_over(&mut self) {
        self.replicate();
        let (mut jobs, mut tokens, mut workflows) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for (_, logged) in std::mem::take(&mut self.db.log) {
            if let Logged::Rows(changes) = logged {
                jobs.extend(changes.jobs.iter().map(|change| match change {
                    tenure_scheduler::JobChange::Insert(job)
                    | tenure_scheduler::JobChange::Update { job, .. } => job.id,
                    tenure_scheduler::JobChange::Delete(id) => *id,
                }));
                tokens.extend(changes.leases_put.iter().map(|lease| lease.token));
                tokens.extend(changes.leases_deleted.iter().copied());
                workflows.extend(changes.workflows_put.iter().map(|workflow| workflow.id));
            }
        }
        say!(
            self,
            ("postgres"),
            "fails over; changes of {} jobs and {} leases are lost",
            jobs.len(),
            tokens.len()
        );
        self.oracle.lost(&jobs, &tokens);
        // A cancel of a workflow is a change of its row, which its members follow later, some after the failover.
        let flows = workflows.iter().filter_map(|workflow| self.flows.get(workflow));
        self.oracle.forget_cancels(flows.flat_map(|flow| flow.places().map(|place| flow.id.member(place))));
        (self.db.tables, self.db.fence) = self.db.standby.clone();
        self.db.newest_epoch = 0;
        self.db.timeline += 1;
    }
}
