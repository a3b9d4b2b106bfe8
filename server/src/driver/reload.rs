//! The one recovery path: drop the state, take over from oneself, load, go on.
//!
//! Responsible for what everybody hears meanwhile: sessions end and come back; callers that were in the failed turn are
//! answered at once, those behind it wait for a second at the most, since a reload is usually quick; then they are told
//! that the store is away.

use std::time::Duration;

use tenure_scheduler::{Epoch, State};
use tenure_store::{Journal, journal};
use tokio::time::sleep;

use super::{Driver, End, Ends, Leader, Signal, Signals, Unled, batch::Item, isolation::Tried, turn::Turn};
use crate::{
    chain::Chain,
    handle::{AWAY_RETRY, Query, ServerStatus, SubmitError},
    rpc::status::No,
    sessions::{FromNode, delay},
};

/// How long a caller waits for a reload.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often callers are looked after meanwhile.
const GLANCE: Duration = Duration::from_millis(100);

/// Between two attempts to take over, at first and at the most.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

impl<J: Journal> Driver<J> {
    /// The commit of a turn failed: its callers hear of it, its state is dropped.
    pub(super) fn failed(&mut self, mut turn: Turn, error: journal::Error) -> End {
        if error.is_ours() {
            turn.answer_broken();
        } else {
            turn.answer_all(&SubmitError::away());
        }
        let tried = std::mem::replace(&mut turn.tried, Tried::Many);
        self.end_of(error, Some(tried))
    }

    /// The items could not be looked up, so they were not applied: they wait for the reload, unless they may be its
    /// cause.
    pub(super) fn not_asked(&mut self, items: Vec<Item>, error: journal::Error) -> End {
        if !error.is_ours() {
            self.next.put_back(items);
            return self.end_of(error, None);
        }
        let tried = match &items[..] {
            [only] => super::turn::tried_alone(only.command()),
            _ => Tried::Many,
        };
        let alone = items.len() == 1;
        for item in items {
            let why = super::turn::blame(item.is_row(), alone);
            item.answer(why);
        }
        self.end_of(error, Some(tried))
    }

    fn end_of(&mut self, error: journal::Error, tried: Option<Tried>) -> End {
        if let journal::Error::Deposed { .. } = error {
            return End::Deposed(error);
        }
        if !error.is_ours() {
            tracing::warn!(error = %Chain(&error), "the store is away; reloading");
            return End::Reload { at_least: Epoch(0), wait: Duration::ZERO };
        }
        tracing::error!(error = %Chain(&error), ?tried, "the store refused a turn; reloading");
        let steady = self.ends.clock.steady();
        let wait = tried.map_or(Duration::ZERO, |tried| self.isolation.failed(steady, tried));
        End::Reload { at_least: Epoch(0), wait }
    }

    /// Takes over from oneself, for as long as it takes.
    ///
    /// # Errors
    /// What it ended with instead: that the server ends, or that another one leads.
    pub(super) async fn reload(
        &mut self,
        leader: Leader,
        (at_least, wait): (Epoch, Duration),
        signals: &Signals,
    ) -> Result<Leader, Unled> {
        for from in self.next.take_nodes() {
            refuse(from);
        }
        self.close_sessions(&leader.state, &No::store_away(AWAY_RETRY));
        // Before the next one is loaded: with many jobs there is no room for two.
        drop(leader);
        self.update_status(|status| ServerStatus { leading: false, reloads: status.reloads + 1, ..status });
        // A commit of unknown outcome may have changed any job.
        self.ends.watchers.notify_all();

        let mut patience = PATIENCE;
        let (mut backoff, most) = BACKOFF;
        let mut wait = wait;
        loop {
            self.hold(wait, patience, signals).await?;
            match self.take_over(at_least, patience, signals).await? {
                Ok(leader) => return Ok(leader),
                // One that waited here for an older schema would keep the seat from whoever knows the newer one.
                Err(error @ (journal::Error::Deposed { .. } | journal::Error::Newer { .. })) => {
                    return Err(Unled::Deposed(error));
                }
                Err(error) => {
                    tracing::warn!(error = %Chain(&error), retry_ms = backoff.as_millis(), "the store cannot be taken over");
                    // It is known to be away: nobody waits for it any more.
                    patience = Duration::ZERO;
                    wait = backoff;
                    backoff = (backoff * 2).min(most);
                }
            }
        }
    }

    /// Ends all sessions for this reason, each with a delay of its own.
    pub(super) fn close_sessions(&mut self, state: &State, why: &No) {
        let sessions = self.peers.len();
        self.peers.close_all(|node, session| {
            let delay = delay(session, sessions, state.shortest_lease(node));
            why.clone().come_back_after(delay).into_status()
        });
    }

    /// One attempt, unless it is ended from outside.
    async fn take_over(
        &mut self,
        at_least: Epoch,
        patience: Duration,
        signals: &Signals,
    ) -> Result<Result<Leader, journal::Error>, Unled> {
        enum Input {
            Taken(Box<Result<tenure_store::Taken, journal::Error>>),
            Signal(Signal),
            Other(Other),
        }
        let taken = {
            let Self { journal, ends, next, .. } = self;
            let mut takeover = std::pin::pin!(journal.takeover(at_least));
            loop {
                let input = tokio::select! {
                    biased;
                    taken = &mut takeover => Input::Taken(Box::new(taken)), // dropped only with the journal
                    signal = signals.either() => Input::Signal(signal), // cancel-safe
                    other = other(ends, next.has_room_for_calls()) => Input::Other(other), // cancel-safe
                };
                match input {
                    Input::Taken(taken) => break *taken,
                    Input::Signal(signal) => return Err(Unled::by(&signal, at_least)),
                    Input::Other(other) => look_after(other, ends, next, patience),
                }
            }
        };
        Ok(taken.map(|taken| {
            tracing::info!(epoch = %taken.epoch, jobs = taken.durable.jobs.len(), "taken over from oneself");
            self.load(taken)
        }))
    }

    /// Waits, looking after callers, unless it is ended from outside.
    async fn hold(&mut self, wait: Duration, patience: Duration, signals: &Signals) -> Result<(), Unled> {
        enum Input {
            Over,
            Signal(Signal),
            Other(Other),
        }
        let mut over = std::pin::pin!(sleep(wait));
        loop {
            let Self { ends, next, .. } = self;
            let input = tokio::select! {
                biased;
                signal = signals.either() => Input::Signal(signal), // cancel-safe
                () = &mut over => Input::Over,
                other = other(ends, next.has_room_for_calls()) => Input::Other(other), // cancel-safe
            };
            match input {
                Input::Over => return Ok(()),
                Input::Signal(signal) => return Err(Unled::by(&signal, Epoch(0))),
                Input::Other(other) => look_after(other, ends, next, patience),
            }
        }
    }
}

/// What comes in while there is no state.
enum Other {
    /// Boxed, since it is far larger than the others.
    Item(Box<Item>),
    /// Dropped: whoever asked is told that the store is away.
    Query(Query),
    Glance,
}

/// Cancel-safe: nothing is taken that is not handed out.
async fn other(ends: &mut Ends, room: bool) -> Other {
    tokio::select! {
        biased;
        Some(from) = ends.sessions.recv() => Other::Item(Box::new(Item::Node(from))),
        Some(call) = ends.inboxes.producers.recv(), if room => Other::Item(Box::new(Item::Call(call))),
        Some(query) = ends.inboxes.queries.recv() => Other::Query(query),
        () = sleep(GLANCE) => Other::Glance,
    }
}

/// Whatever a node says now, it says to a state that is gone.
fn refuse(from: FromNode) {
    let status = No::store_away(delay(from.session, 0, None)).into_status();
    from.refuse(status);
}

fn look_after(other: Other, ends: &Ends, next: &mut super::Batch, patience: Duration) {
    match other {
        Other::Item(item) => match *item {
            Item::Node(from) => refuse(from),
            item @ (Item::Call(_) | Item::Own(_)) => next.push(item),
        },
        Other::Query(query) => drop(query),
        Other::Glance => {}
    }
    next.answer_older_than(ends.clock.steady().saturating_sub(patience));
}
