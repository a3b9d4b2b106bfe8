//! Everything on this side of the stream: what is held, what runs, how the host feels, and whether the agent is to stop.
//!
//! Responsible for feeding the pure machine with what happens here, for carrying out its orders, and for the end of the
//! agent. It goes on whether or not there is a stream. Not responsible for the server's words (`session.rs`).
//!
//! Invariant: every input is applied by a function that does not wait.

use std::sync::Arc;
use std::time::Duration;

use tenure_proto::node::v1::{Grant, PressureReading};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::wire::{self, SpoolFull};
use super::{Error, Status};
use crate::clock::{Clock, Mono};
use crate::holdings::{
    Action, End, FencingToken, Holdings, Listed, Phase, StopReason, Terms, Verdict, Violation,
};
use crate::pressure::{self, rules::Reading};
use crate::runner::{self, Event, Runner};
use crate::spool::Spool;
use crate::workers::Room;

/// When nothing runs any more, the last reports get this long to be answered. What is not answered then is said by the
/// next agent.
const ANSWERS: Duration = Duration::from_secs(5);
/// After the last order to stop, a tree gets its grace, then 60 s of killing; then the agent ends without it.
const KILLING: Duration = Duration::from_secs(65);

/// An agent that leaves what runs to the next one gets this long to say so.
const HANDING_OVER: Duration = Duration::from_secs(1);

/// This side of the stream.
#[derive(Debug)]
pub(super) struct Local {
    pub(super) holdings: Holdings,
    pub(super) runner: Runner,
    pub(super) spool: Arc<Spool>,
    pub(super) pressure: pressure::Handle,
    pub(super) readings: watch::Receiver<Arc<Reading>>,
    /// Which kinds workers have room for; its changes are part of the pressure generation.
    pub(super) room: watch::Receiver<Room>,
    pub(super) clock: Clock,
    /// Ends the agent after its jobs.
    pub(super) drain: CancellationToken,
    /// Ends the agent, and leaves what runs to the next one.
    pub(super) hand_over: CancellationToken,
    /// Ends the agent at once.
    pub(super) at_once: CancellationToken,
    pub(super) drain_deadline: Duration,
    /// The longest grace of any kind.
    pub(super) longest_grace: Duration,
    pub(super) stopping: Option<Stopping>,
    pub(super) spool_full: Option<SpoolFull>,
    /// How often `spool_full` has changed: part of the pressure generation.
    pub(super) spool_changes: u64,
    pub(super) status: watch::Sender<Status>,
    /// Deletions in the spool.
    pub(super) errands: TaskTracker,
}

/// The agent is ending.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stopping {
    /// What still runs then was told to stop.
    pub(super) deadline: Mono,
    /// It ends then, whatever is left.
    until: Mono,
    /// Set once nothing runs: it ends then, whatever is unanswered.
    answers_by: Option<Mono>,
    hurried: bool,
    /// What runs is left to the next agent: this one ends as soon as it has said what it has to.
    pub(super) hands_over: bool,
    /// The server was told.
    pub(super) told: bool,
}

/// Something that happened on this side.
#[derive(Debug)]
pub(super) enum Input {
    Runner(Result<Event, runner::Error>),
    Reading,
    Drain,
    HandOver,
    AtOnce,
    Due,
}

impl Local {
    /// The next thing that happens here. Cancel-safe.
    pub(super) async fn next(&mut self) -> Input {
        let due = self.next_due();
        let draining = self.stopping.is_some();
        let hurried = self.stopping.is_some_and(|stopping| stopping.hurried);
        let handing_over = self.is_handing_over();
        let clock = self.clock;
        tokio::select! {
            // Cancel-safe, as documented there.
            event = self.runner.next() => Input::Runner(event),
            // Cancel-safe: watch changed. The sampler's end is noticed by its owner.
            Ok(()) = self.readings.changed() => Input::Reading,
            // Cancel-safe: watch changed. Its sender lives as long as the runner.
            Ok(()) = self.room.changed() => Input::Reading,
            // Cancel-safe: a cancelled token stays cancelled.
            () = self.drain.cancelled(), if !draining => Input::Drain,
            () = self.hand_over.cancelled(), if !handing_over && !hurried => Input::HandOver,
            () = self.at_once.cancelled(), if !hurried => Input::AtOnce,
            // Cancel-safe: the deadline stays.
            () = clock.sleep_until(due) => Input::Due,
        }
    }

    /// Applies it.
    pub(super) fn apply(&mut self, input: Input) -> Result<(), Error> {
        let now = self.clock.now();
        match input {
            Input::Runner(event) => self.happened(now, event.map_err(Error::Runner)?),
            Input::Reading => {
                self.room.mark_unchanged();
                let reading = Arc::clone(&self.readings.borrow_and_update());
                self.judge_by(reading);
            }
            Input::Drain => self.begin_drain(now),
            Input::HandOver => self.begin_hand_over(now),
            Input::AtOnce => self.hurry(now),
            Input::Due => {}
        }
        self.settle();
        Ok(())
    }

    /// Carries out everything that is due now.
    pub(super) fn settle(&mut self) {
        let now = self.clock.now();
        self.look_at_spool(now);
        self.holdings.advance(now);
        for action in self.holdings.take_actions() {
            self.carry_out(action);
        }
        if let Some(stopping) = &mut self.stopping
            && self.holdings.live() == 0
        {
            stopping.answers_by.get_or_insert(now + ANSWERS);
        }
        let (live, draining) = (self.holdings.live(), self.stopping.is_some());
        self.status.send_if_modified(|status| {
            let changed = status.live != live || status.draining != draining;
            (status.live, status.draining) = (live, draining);
            changed
        });
    }

    /// A grant was read: judges it, and prepares it if it may run.
    pub(super) fn granted(&mut self, anchor: u64, terms: &Terms, grant: Grant) -> Result<(), Violation> {
        let now = self.clock.now();
        self.look_at_spool(now);
        self.judge_by(self.pressure.reading());
        if self.holdings.granted(now, anchor, terms)? {
            // The next grant is judged with what this one will take.
            let reading = self.pressure.accepted(terms.token.0, &terms.kind);
            self.judge_by(reading);
            self.runner.prepare(grant);
        }
        Ok(())
    }

    /// The reading for a Hello or heartbeat.
    pub(super) fn reading(&self) -> PressureReading {
        let now = self.clock.now();
        let mut reading = wire::pressure(&self.counted(self.pressure.reading()), now, self.spool_full);
        reading.closed.extend(wire::without_workers(&self.room.borrow(), now));
        reading
    }

    /// The generation that the server is told.
    pub(super) fn generation(&self) -> u64 {
        self.pressure.reading().generation + self.own_changes()
    }

    /// How often groups opened and closed that are no rules on pressure.
    fn own_changes(&self) -> u64 {
        self.spool_changes + self.room.borrow().changes
    }

    /// Whether and how the agent is to end now.
    pub(super) fn may_end(&self) -> Option<Result<(), Error>> {
        let stopping = self.stopping.as_ref()?;
        let now = self.clock.now();
        if stopping.hands_over {
            let heard = stopping.told || !self.holdings.is_up();
            let done = heard && self.holdings.is_handed_over() && self.runner.hosted().is_empty();
            return (done || stopping.until <= now).then_some(Ok(()));
        }
        let settled = self.holdings.is_idle() || stopping.answers_by.is_some_and(|by| by <= now);
        if self.holdings.live() == 0 && settled {
            return Some(Ok(()));
        }
        (stopping.until <= now).then(|| {
            let left: Vec<_> =
                self.holdings.heartbeat(now).into_iter().filter(has_tree).map(|held| held.token.0).collect();
            Err(Error::LeftRunning { tokens: left })
        })
    }

    /// A report in the spool cannot be read: a person has to look at it.
    pub(super) fn unreadable(&mut self, token: FencingToken) {
        for end in [End::Finished, End::Returned] {
            self.holdings.answered(token, end, Verdict::Broken);
        }
    }

    fn judge_by(&mut self, reading: Arc<Reading>) {
        self.holdings.set_pressure(self.counted(reading));
    }

    /// The reading with the groups that a full spool and full workers close counted in its generation.
    fn counted(&self, reading: Arc<Reading>) -> Arc<Reading> {
        if self.own_changes() == 0 {
            return reading;
        }
        let generation = reading.generation + self.own_changes();
        Arc::new(Reading { generation, ..Reading::clone(&reading) })
    }

    fn next_due(&self) -> Mono {
        let stopping = self.stopping.iter().flat_map(|stopping| [Some(stopping.until), stopping.answers_by]);
        let dues = stopping.flatten().chain(self.holdings.next_deadline());
        dues.min().unwrap_or(Mono::MAX)
    }

    fn happened(&mut self, now: Mono, event: Event) {
        tracing::debug!(?event, "an attempt has moved on");
        match event {
            Event::Prepared { token } => self.holdings.prepared(token),
            Event::NeverStarted { token, rule } => {
                self.pressure.ended(token.0);
                self.holdings.never_started(token, rule);
            }
            Event::Started { token } => self.holdings.started(now, token),
            Event::Progress { token, percent, message } => self.holdings.gets_on(token, percent, message),
            Event::Waits { token, epoch, parked } => self.holdings.waits(token, epoch, parked),
            Event::WaitOver { token, epoch, verdict, kept } => {
                self.holdings.wait_over(token, epoch, verdict, kept);
            }
            Event::Ended { token, job, end } => {
                self.pressure.ended(token.0);
                self.holdings.ended(token, &job, end);
            }
            Event::Checkpointed { token } => self.holdings.checkpointed(token),
            Event::Reaped { token } => self.holdings.reaped(token),
            Event::Unkillable { token } => self.holdings.unkillable(token),
        }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            // The grant is handed over with the word that takes it, in `granted`.
            Action::Prepare { .. } => {}
            Action::Abandon { token } => {
                self.pressure.ended(token.0);
                self.runner.abandon(token);
            }
            Action::Start { token, gone_by } => self.runner.go(token, gone_by),
            Action::Extend { token, gone_by } => self.runner.extend(token, gone_by),
            Action::Stop { token, stop } => {
                tracing::info!(lease.token = token.0, reason = ?stop.reason, "an attempt is stopped");
                self.runner.stop(token, stop);
            }
            Action::Resume { token, epoch, verdict } => {
                tracing::info!(lease.token = token.0, ?verdict, "the wait of an attempt is over");
                self.runner.resume(token, epoch, verdict);
            }
            Action::Forget { token } => self.errand(token, Spool::remove),
            Action::SetAside { token } => {
                tracing::error!(
                    lease.token = token.0,
                    "a report cannot be stored; it is set aside in the spool"
                );
                self.errand(token, Spool::set_aside);
            }
        }
    }

    /// Lets a blocking thread change the spool.
    fn errand(
        &self,
        token: FencingToken,
        errand: fn(&Spool, FencingToken) -> Result<(), crate::spool::Error>,
    ) {
        let spool = Arc::clone(&self.spool);
        self.errands.spawn_blocking(move || {
            if let Err(error) = errand(&spool, token) {
                tracing::warn!(lease.token = token.0, error = %crate::Chain(&error), "the spool is not tidy");
            }
        });
    }

    fn look_at_spool(&mut self, now: Mono) {
        let full = !self.spool.has_room(self.holdings.live());
        if full != self.spool_full.is_some() {
            self.spool_changes += 1;
            let (used, max) = (self.spool.used_bytes(), self.spool.max_bytes());
            self.spool_full = full.then_some(SpoolFull { used, max, since: now });
            match self.spool_full {
                Some(_) => tracing::error!(used, max, "the spool is full: nothing new is accepted"),
                None => tracing::info!("the spool has room again"),
            }
        }
        self.holdings.set_spool_full(full);
    }

    fn begin_drain(&mut self, now: Mono) {
        let deadline = now + self.drain_deadline;
        let until = deadline + self.longest_grace + KILLING;
        self.stopping = Some(Stopping { deadline, until, ..Stopping::default() });
        self.holdings.leave(now, deadline);
        tracing::info!(
            live = self.holdings.live(),
            deadline_s = self.drain_deadline.as_secs(),
            "the agent drains"
        );
    }

    fn begin_hand_over(&mut self, now: Mono) {
        // What runs in workers cannot be handed over: it is given back, and has its grace for that.
        let hosted = self.runner.hosted();
        let until =
            if hosted.is_empty() { now + HANDING_OVER } else { now + HANDING_OVER + self.longest_grace };
        self.stopping = Some(Stopping { deadline: until, until, hands_over: true, ..Stopping::default() });
        self.holdings.hand_over(now);
        for token in hosted {
            self.holdings.revoked(token, StopReason::Drained);
        }
        tracing::info!(live = self.holdings.live(), "the agent stops; what runs goes on");
    }

    /// Whether the agent ends and leaves what runs to the next one.
    pub(super) fn is_handing_over(&self) -> bool {
        self.stopping.is_some_and(|stopping| stopping.hands_over)
    }

    fn hurry(&mut self, now: Mono) {
        let answers_by = self.stopping.and_then(|stopping| stopping.answers_by);
        let until = now + KILLING;
        self.stopping =
            Some(Stopping { deadline: now, until, answers_by, hurried: true, ..Stopping::default() });
        self.holdings.leave(now, now);
        self.holdings.stop_all(StopReason::Drained, true);
        tracing::info!(live = self.holdings.live(), "the agent stops at once");
    }
}

fn has_tree(listed: &Listed) -> bool {
    listed.phase != Phase::Granted && listed.phase != Phase::Accepted
}
