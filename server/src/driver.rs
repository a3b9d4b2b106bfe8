//! The one loop that changes anything: collect a batch, apply it, commit it once, release what waits for that.
//!
//! Responsible for the order of these four, for time as the scheduler sees it (`pulse`), for what a failed commit leads
//! to (`reload`), and for keeping poison from coming back (`isolation`). Not for deciding (the scheduler), for storing
//! (the journal), for talking to nodes (sessions) or to callers (`rpc`).
//!
//! Two inboxes reach it: that of sessions, bounded by their credits, is drained first and never refused; that of
//! producers answers Busy when it is full. A third, of queries, is answered between turns. While a commit is on its way
//! the next batch is collected: batches grow under load and stay small without, and no timer is needed.
//!
//! Invariants: nothing leaves before the journal has committed it; a commit is never retried; queries see committed
//! state only; whoever submitted is answered exactly once.

mod ask;
mod batch;
mod commit;
mod epochs;
mod isolation;
mod log;
mod order;
mod prior;
mod pulse;
mod release;
mod reload;
mod turn;

use std::{sync::Arc, time::Duration};

use tenure_scheduler::{Epoch, Limits, Mono, Now, State};
use tenure_store::{
    Journal,
    election::Trust,
    journal::{self, Taken},
};
use tokio::{
    sync::{mpsc, watch},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use self::{
    batch::{Batch, Item},
    epochs::Claims,
    isolation::{Isolation, TrialEnd},
    order::{Taken as Commands, Waiting},
    pulse::{BEAT, Pulse},
    turn::Turn,
};
use crate::{
    calendar,
    clock::Clock,
    handle::{Inboxes, Query, ServerStatus, SubmitError},
    metrics::{Metrics, TurnFigures},
    outbox::{Bell, Watchers, body},
    rpc::status::No,
    sessions::{FromNode, Peers},
    snapshot::Publisher,
    trace::Spans,
};

/// A call whose commit is not settled by then is answered.
const PATIENCE: Duration = Duration::from_secs(3);

/// Queries answered between two turns.
const MOST_QUERIES: usize = 10;

/// What a query should take at the most.
const LONG_QUERY: Duration = Duration::from_millis(1);

/// Timetables that are computed for one turn.
const MOST_PLANS: usize = 64;

/// What an ending driver gives to calls that are in the inbox already.
const LAST_TURNS: Duration = Duration::from_secs(5);

/// What the driver needs to know.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// Ceilings; they may be replaced while the driver runs, and count from the next turn on.
    pub(crate) limits: watch::Receiver<Limits>,
}

/// The other ends of everything that the driver speaks to.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) inboxes: Inboxes,
    pub(crate) sessions: mpsc::Receiver<FromNode>,
    pub(crate) status: watch::Sender<ServerStatus>,
    pub(crate) publisher: Publisher,
    pub(crate) watchers: Watchers,
    pub(crate) bell: Bell,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) clock: Clock,
    pub(crate) spans: Spans,
}

/// Why the driver cannot lead.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another process took over the store, or brought its schema up to a later version.
    #[error("this server may lead no more")]
    Deposed(#[source] journal::Error),
    /// The takeover at the begin of a term failed.
    #[error("the store cannot be taken over")]
    Takeover(#[source] journal::Error),
}

/// The driver of one server.
#[derive(Debug)]
pub(crate) struct Driver<J> {
    options: Options,
    journal: J,
    ends: Ends,
    peers: Peers,
    /// Collected, not applied yet.
    next: Batch,
    isolation: Isolation,
    /// Turns since the last Tick.
    tickless: u32,
    /// Placement stopped at its budget, or a Tick is owed: go on at once.
    tick_soon: bool,
    claims: Claims,
    /// Whether turns may be told to nodes and callers that no commit vouches for.
    trust: Trust,
}

/// What ends a driver from outside.
#[derive(Debug, Clone)]
pub(crate) struct Signals {
    /// The server ends: what is in the inboxes is still taken.
    pub(crate) shutdown: CancellationToken,
    /// Another server leads: nothing more is said or done.
    pub(crate) lost: CancellationToken,
}

/// Which of them came.
enum Signal {
    Shutdown,
    Lost,
}

impl Signals {
    fn now(&self) -> Option<Signal> {
        if self.lost.is_cancelled() {
            Some(Signal::Lost)
        } else {
            self.shutdown.is_cancelled().then_some(Signal::Shutdown)
        }
    }

    /// Waits for either. Cancel-safe.
    async fn either(&self) -> Signal {
        tokio::select! {
            biased;
            () = self.lost.cancelled() => Signal::Lost,
            () = self.shutdown.cancelled() => Signal::Shutdown,
        }
    }
}

/// The state with its time line.
#[derive(Debug)]
pub(crate) struct Leader {
    state: State,
    pulse: Pulse,
}

/// Why the present state is led no further.
#[derive(Debug)]
enum End {
    /// The server ends.
    Shutdown,
    /// Take over from oneself, above this epoch, after this long.
    Reload { at_least: Epoch, wait: Duration },
    /// Another process leads, or only one of a later version may.
    Deposed(journal::Error),
}

impl End {
    fn by(signal: &Signal, epoch: Epoch) -> Self {
        match Unled::by(signal, epoch) {
            Unled::Shutdown => Self::Shutdown,
            Unled::Deposed(error) => Self::Deposed(error),
        }
    }
}

/// Why no state is led any more.
#[derive(Debug)]
enum Unled {
    /// The server ends.
    Shutdown,
    /// Another process leads, or only one of a later version may.
    Deposed(journal::Error),
}

impl Unled {
    fn by(signal: &Signal, epoch: Epoch) -> Self {
        match signal {
            Signal::Shutdown => Self::Shutdown,
            Signal::Lost => Self::Deposed(journal::Error::Deposed { epoch }),
        }
    }
}

/// What made the loop go on.
enum Input {
    Signal(Signal),
    /// Boxed, since it is far larger than the others.
    Item(Box<Item>),
    Query(Query),
    Time,
}

impl<J: Journal> Driver<J> {
    /// Takes over the store, for one term.
    ///
    /// # Errors
    /// If that fails: who cannot lead says so at once, and does not hold the seat while it tries.
    pub(crate) async fn begin(options: Options, mut journal: J, ends: Ends) -> Result<(Self, Leader), Error> {
        let taken = journal.takeover(Epoch(0)).await.map_err(Error::Takeover)?;
        let trust = journal.trust();
        let mut driver = Self {
            options,
            journal,
            ends,
            peers: Peers::default(),
            next: Batch::default(),
            isolation: Isolation::default(),
            tickless: 0,
            tick_soon: true,
            claims: Claims::default(),
            trust,
        };
        let leader = driver.load(taken);
        Ok((driver, leader))
    }

    /// Leads until the server ends.
    ///
    /// # Errors
    /// If another process took over the store.
    pub(crate) async fn run(mut self, mut leader: Leader, signals: Signals) -> Result<(), Error> {
        loop {
            match self.lead(&mut leader, &signals).await {
                End::Shutdown => break,
                End::Deposed(error) => {
                    self.close_sessions(&leader.state, &No::not_leader(None));
                    return Err(self.depose(error).await);
                }
                End::Reload { at_least, wait } => match self.reload(leader, (at_least, wait), &signals).await
                {
                    Ok(reloaded) => leader = reloaded,
                    Err(Unled::Shutdown) => {
                        self.journal.close().await; // there is no state for a last turn
                        return Ok(());
                    }
                    Err(Unled::Deposed(error)) => return Err(self.depose(error).await),
                },
            }
        }
        self.finish(&mut leader, &signals).await;
        self.journal.close().await;
        Ok(())
    }

    /// Its last words; whoever had a session has been told.
    async fn depose(self, error: journal::Error) -> Error {
        self.update_status(|status| ServerStatus { leading: false, ..status });
        self.journal.close().await;
        Error::Deposed(error)
    }

    /// Turn after turn, until something ends it.
    async fn lead(&mut self, leader: &mut Leader, signals: &Signals) -> End {
        let epoch = leader.state.epoch();
        loop {
            if let Some(signal) = signals.now() {
                return End::by(&signal, epoch);
            }
            let query = match self.collect(leader, signals).await {
                Input::Signal(signal) => return End::by(&signal, epoch),
                Input::Query(query) => Some(query),
                Input::Item(item) => {
                    self.next.push(*item);
                    None
                }
                Input::Time => None,
            };
            self.drain();
            self.plan_crons(leader);
            let steady = self.ends.clock.steady();
            if self.isolation.judge(steady) == TrialEnd::Reload {
                return End::Reload { at_least: Epoch(0), wait: Duration::ZERO };
            }
            if let Some(at_least) = self.claims.judge(&mut self.next, epoch, steady) {
                return End::Reload { at_least, wait: Duration::ZERO };
            }
            self.answer_queries(leader, query);
            if let Err(end) = self.turn(leader, signals, true).await {
                return end;
            }
            self.publish(leader);
        }
    }

    /// Waits until there is something to do.
    async fn collect(&mut self, leader: &mut Leader, signals: &Signals) -> Input {
        let wait = self.wait(leader);
        let Ends { sessions, inboxes, .. } = &mut self.ends;
        tokio::select! {
            biased;
            signal = signals.either() => Input::Signal(signal), // cancel-safe
            Some(from) = sessions.recv() => Input::Item(Box::new(Item::Node(from))), // cancel-safe: mpsc recv
            Some(call) = inboxes.producers.recv() => Input::Item(Box::new(Item::Call(call))), // cancel-safe: mpsc recv
            Some(query) = inboxes.queries.recv() => Input::Query(query), // cancel-safe: mpsc recv
            () = tokio::task::yield_now(), if wait.is_zero() => Input::Time,
            () = sleep(wait) => Input::Time, // cancel-safe: it is made anew
        }
    }

    /// How long nothing is due.
    fn wait(&mut self, leader: &mut Leader) -> Duration {
        let unplanned = leader.state.unplanned_crons(1).next().is_some();
        if self.tick_soon || !self.next.is_empty() || unplanned {
            return Duration::ZERO;
        }
        let now = self.now(leader);
        let due = leader.state.next_deadline(now).map_or(BEAT, |due| due.since(now.mono));
        due.min(BEAT).min(self.ends.publisher.due_in(self.ends.clock.steady()))
    }

    /// Takes what has arrived: nodes first, then callers.
    fn drain(&mut self) {
        let Self { ends: Ends { sessions, inboxes, .. }, next, .. } = self;
        while next.has_room_for_nodes()
            && let Ok(from) = sessions.try_recv()
        {
            next.push(Item::Node(from));
        }
        while next.has_room_for_calls()
            && let Ok(call) = inboxes.producers.try_recv()
        {
            next.push(Item::Call(call));
        }
    }

    /// Says how timetables go on of which the scheduler has to know more.
    fn plan_crons(&mut self, leader: &Leader) {
        if leader.state.unplanned_crons(1).next().is_none() || self.next.has_plans() {
            return;
        }
        let wall = self.ends.clock.wall();
        for entry in leader.state.unplanned_crons(MOST_PLANS) {
            let plan = Box::new(calendar::plan(entry, wall));
            self.next.push(Item::Own(tenure_scheduler::Command::PlanCron(plan)));
        }
    }

    /// Answers what was asked, on committed state: no turn is under way.
    fn answer_queries(&mut self, leader: &mut Leader, first: Option<Query>) {
        let mut next = first;
        for _ in 0..MOST_QUERIES {
            let Some(query) = next.take().or_else(|| self.ends.inboxes.queries.try_recv().ok()) else {
                return;
            };
            let now = self.now(leader);
            let begun = self.ends.clock.steady();
            query(&leader.state, now);
            let took = self.ends.clock.steady().saturating_sub(begun);
            self.ends.metrics.observe_query(took);
            if took > LONG_QUERY {
                tracing::debug!(query_us = took.as_micros(), "a query held up the loop");
            }
        }
    }

    /// One turn: apply → commit → release.
    async fn turn(&mut self, leader: &mut Leader, signals: &Signals, may_tick: bool) -> Result<(), End> {
        let begun = self.ends.clock.steady();
        let careful = self.isolation.is_careful(begun);
        let now = self.now(leader);
        let due = self.tick_soon || leader.state.next_deadline(now).is_some_and(|due| due <= now.mono);
        if !self.trust.holds() {
            return Err(self.distrusted());
        }
        if self.next.is_empty() && !due {
            return Ok(());
        }
        // Whoever is to be set aside is, before timers that know nothing of it fail again.
        let sets_aside = careful && self.next.begins_by_setting_aside();
        let may_tick = may_tick && !sets_aside;
        let waiting = Waiting {
            careful,
            may_tick,
            tickless: self.tickless,
            empty: self.next.is_empty(),
            nodes: self.next.has_nodes(),
            more: !self.ends.sessions.is_empty(),
        };
        let (taken, tick) = waiting.decide();
        let mut items = match taken {
            Commands::All => self.next.take(false),
            Commands::First => self.next.take(true),
            Commands::None => Vec::new(),
        };
        self.tickless = if tick { 0 } else { self.tickless + 1 };
        self.tick_soon = !tick && (may_tick || sets_aside);

        if self.options.limits.has_changed().unwrap_or_default() {
            leader.state.set_limits(self.options.limits.borrow_and_update().clone());
        }
        if let Err(error) = self.ask(leader, &mut items, signals).await {
            return Err(self.not_asked(items, error));
        }
        let clock = (now, begun);
        let mut turn =
            Turn::apply(&mut leader.state, &mut self.peers, &mut self.isolation, clock, items, tick);
        self.tick_soon |= turn.more && may_tick;

        let mut commit = None;
        let mut spans = None; // they end when the turn is released
        let changed = !turn.changes.is_empty() || !turn.beside.inbox.is_empty();
        if changed {
            let epoch = leader.state.epoch();
            spans = self.ends.spans.turn(now.wall, epoch, turn.commands, &turn.calls);
            let began = self.ends.clock.steady();
            let changes = std::mem::take(&mut turn.changes);
            let mut beside = std::mem::take(&mut turn.beside);
            body::add(&leader.state, &changes, &mut beside);
            let committed = self.commit(epoch, (&changes, &beside), &mut turn, signals).await;
            if let Some(spans) = &mut spans {
                spans.committed(committed.is_ok());
            }
            if let Err(error) = committed {
                return Err(self.failed(turn, error));
            }
            // It is committed, and nobody has heard of it.
            #[cfg(feature = "failpoints")]
            fail::fail_point!("driver::before_release", |_| std::process::abort());
            turn.beside = beside;
            commit = Some(self.ends.clock.steady().saturating_sub(began));
            self.ends.publisher.changed();
        }
        turn.freed.drain(..).for_each(|suspect| self.isolation.release(&suspect));
        if !self.trust.holds() {
            // Frozen meanwhile, perhaps for long: what the commit vouches for is said, and nothing to a node.
            if commit.is_none() {
                turn.answer_all(&SubmitError::away());
            }
            self.answer(leader, &mut turn);
            return Err(self.distrusted());
        }
        leader.state.committed();
        let figures = TurnFigures {
            commands: turn.commands,
            evaluations: turn.looked,
            turn: self.ends.clock.steady().saturating_sub(begun),
            commit,
        };
        self.release(leader, turn, &figures);
        drop(spans);
        Ok(())
    }

    /// Its renewals fail: another server may lead. The takeover from itself finds out.
    fn distrusted(&self) -> End {
        tracing::warn!("nothing proves any more that this server leads; reloading");
        End::Reload { at_least: Epoch(0), wait: Duration::ZERO }
    }

    /// The server ends: what is in the inboxes is still taken, nothing new is placed, sessions are closed. Agents keep
    /// their jobs.
    async fn finish(&mut self, leader: &mut Leader, signals: &Signals) {
        self.ends.inboxes.producers.close();
        self.ends.inboxes.queries.close();
        let until = self.ends.clock.steady() + LAST_TURNS;
        loop {
            self.drain();
            self.answer_queries(leader, None);
            if self.next.is_empty() {
                break;
            }
            let late = self.ends.clock.steady() > until;
            if late || self.turn(leader, signals, false).await.is_err() {
                break; // whoever is left hears that the server ends
            }
        }
        self.close_sessions(&leader.state, &No::from(SubmitError::ShuttingDown));
        self.update_status(|status| ServerStatus { leading: false, ..status });
    }

    /// A new state and time line of what was taken over.
    fn load(&mut self, taken: Taken) -> Leader {
        let steady = self.ends.clock.steady();
        let wall = self.ends.clock.wall();
        let now = Now { mono: Mono::default(), wall };
        let state =
            State::load(taken.epoch, self.options.limits.borrow_and_update().clone(), taken.durable, now);
        for suspect in self.isolation.set_aside(steady) {
            self.next.push_first(suspect.set_aside());
        }
        self.tick_soon = true;
        self.tickless = 0;
        // A commit of unknown outcome may have come through only now, and what it had to say went with its turn.
        self.ends.watchers.notify_all();
        self.ends.bell.ring();
        self.ends.publisher.changed();
        self.update_status(|status| ServerStatus {
            epoch: taken.epoch.0,
            leading: true,
            led_since: wall,
            ..status
        });
        let mut leader = Leader { state, pulse: Pulse::new(steady) };
        self.publish(&mut leader);
        leader
    }

    fn publish(&mut self, leader: &mut Leader) {
        let now = self.now(leader);
        self.ends.publisher.publish_if_due(self.ends.clock.steady(), &leader.state, now);
    }

    /// The present. Every reading is a beat of the loop.
    fn now(&self, leader: &mut Leader) -> Now {
        let (mono, left_out) = leader.pulse.beat(self.ends.clock.steady());
        if !left_out.is_zero() {
            tracing::warn!(
                stall_ms = left_out.as_millis(),
                "the loop stood still; the stall counts for nobody's silence"
            );
        }
        Now { mono, wall: self.ends.clock.wall() }
    }

    fn update_status(&self, change: impl FnOnce(ServerStatus) -> ServerStatus) {
        let sessions = u64::try_from(self.peers.len()).unwrap_or(u64::MAX);
        self.ends.status.send_if_modified(|status| {
            let new = ServerStatus { sessions, ..change(*status) };
            std::mem::replace(status, new) != new
        });
    }
}

#[cfg(test)]
mod tests;
