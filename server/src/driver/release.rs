//! After the commit: replies, messages to nodes, watchers, figures, and the end of sessions that were refused.
//!
//! Nothing here may fail, and nothing waits: whoever does not take its message is dealt with by its own queue.

use tenure_scheduler::{Effect, Message, Refusal};
use tenure_store::Journal;

use super::{
    Driver, Leader, log,
    turn::{Ending, Turn},
};
use crate::{
    handle::{ServerStatus, SubmitError},
    metrics::TurnFigures,
    rpc::status::No,
    sessions::Decided,
};

impl<J: Journal> Driver<J> {
    /// The commit is durable, or there was nothing to commit: everybody hears of it.
    pub(super) fn release(&mut self, leader: &Leader, mut turn: Turn, figures: &TurnFigures) {
        log::events(leader.state.epoch(), &turn.events);
        self.ends.metrics.observe_turn(figures, &turn.events, &turn.effects);
        for waiting in turn.answers.drain(..) {
            if let Err(SubmitError::Refused(refusal)) = &waiting.reply {
                tracing::debug!(reason = refusal.reason(), "refused");
            }
            if let Some(answer) = waiting.answer {
                drop(answer.send(waiting.reply)); // who went away wants no answer
            }
        }
        for effect in turn.effects.drain(..) {
            self.tell(leader, effect);
        }
        for (session, ending) in turn.ended.drain(..) {
            let no = match ending {
                Ending::Refused(refusal) => {
                    if let Refusal::NodeNameInUse { node } = &refusal {
                        // The agent that has the name is not told: a refusal changes nothing. So a person is.
                        tracing::warn!(node.id = %node, "another agent says Hello under the name of a live one");
                    }
                    No::from(refusal)
                }
                Ending::Quarantined => No::internal(),
            };
            self.ends.metrics.observe_refusal(no.reason());
            self.peers.close(session, no.into_status());
        }
        self.update_status(|status| ServerStatus { leading: true, ..status });
    }

    fn tell(&mut self, leader: &Leader, effect: Effect) {
        match effect {
            Effect::Send { session, ordinal, applied, message, .. } => {
                let payload_size = if let Message::Grant(grant) = &message {
                    // A job that is granted is live. Were it not, its payload would have to be found, or nothing sent.
                    leader.state.job(grant.job).map_or(1, |job| job.payload_size)
                } else {
                    0
                };
                let decided = Decided { ordinal, applied, message, payload_size };
                if let Some(command) = self.peers.send(session, decided) {
                    self.next.push_first(command);
                }
            }
            Effect::CloseSession { session, reason, .. } => {
                let no = No::session_ended(reason, "the session was ended by the server");
                self.peers.close(session, no.into_status());
            }
            Effect::NotifyWatchers { job } => self.ends.watchers.notify(job),
            Effect::Reply(_) => tracing::error!("a reply to nobody"),
        }
    }
}
