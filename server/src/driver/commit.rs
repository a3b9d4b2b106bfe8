//! The commit of a turn, while the next one is collected.

use tenure_scheduler::{Changes, Epoch};
use tenure_store::{Beside, Journal, journal};
use tokio::time::sleep;

use super::{Driver, Ends, PATIENCE, Signals, batch::Item, pulse::BEAT, turn::Turn};
use crate::handle::SubmitError;

impl<J: Journal> Driver<J> {
    /// Commits a turn, and collects the next meanwhile.
    pub(super) async fn commit(
        &mut self,
        epoch: Epoch,
        (changes, beside): (&Changes, &Beside),
        turn: &mut Turn,
        signals: &Signals,
    ) -> Result<(), journal::Error> {
        #[expect(clippy::large_enum_variant, reason = "there is one at a time, and most of them are items")]
        enum Input {
            Settled(Result<(), journal::Error>),
            Lost,
            Item(Item),
            Slow,
            Glance,
        }
        let Self { journal, trust, ends: Ends { sessions, inboxes, clock, .. }, next, .. } = self;
        let mut commit = std::pin::pin!(journal.commit(epoch, changes, beside));
        let mut slow = std::pin::pin!(sleep(PATIENCE));
        let mut told = false;
        loop {
            let input = tokio::select! {
                biased;
                settled = &mut commit => Input::Settled(settled), // if it is dropped, the next takeover waits for its end
                () = signals.lost.cancelled() => Input::Lost, // cancel-safe
                Some(from) = sessions.recv(), if next.has_room_for_nodes() => Input::Item(Item::Node(from)), // cancel-safe: mpsc recv
                Some(call) = inboxes.producers.recv(), if next.has_room_for_calls() => Input::Item(Item::Call(call)), // cancel-safe: mpsc recv
                () = &mut slow => Input::Slow, // cancel-safe: it stays where it is
                () = sleep(trust.left()) => Input::Glance, // cancel-safe: it is made anew
            };
            match input {
                Input::Settled(settled) => return settled,
                Input::Lost => return Err(journal::Error::Deposed { epoch }),
                Input::Item(item) => next.push(item),
                Input::Glance => {
                    if !trust.holds() {
                        let doing = "waiting for a commit while nothing proves that this server leads";
                        return Err(journal::Error::Unavailable { doing, source: None });
                    }
                }
                Input::Slow => {
                    if !std::mem::replace(&mut told, true) {
                        tracing::warn!(%epoch, commands = turn.commands, "a commit is not settled after 3 s; its callers are answered");
                    }
                    turn.answer_all(&SubmitError::away());
                    next.answer_older_than(clock.steady().saturating_sub(PATIENCE));
                    slow.set(sleep(BEAT));
                }
            }
        }
    }
}
