//! After the commit: replies, messages to nodes, watchers, figures, and the end of sessions that were refused.
//!
//! Nothing here may fail, and nothing waits: whoever does not take its message is dealt with by its own queue.

use bytes::Bytes;
use tenure_scheduler::{Effect, JobId, Message, Refusal};
use tenure_store::{Beside, Journal, Payload};

use super::{
    Driver, Leader, log,
    turn::{Ending, Turn},
};
use crate::{
    handle::{ServerStatus, SubmitError},
    metrics::TurnFigures,
    rpc::status::No,
    sessions::{Decided, MOST_AT_HAND},
};

impl<J: Journal> Driver<J> {
    /// The commit is durable, or there was nothing to commit: everybody hears of it.
    pub(super) fn release(&mut self, leader: &Leader, mut turn: Turn, figures: &TurnFigures) {
        self.ends.metrics.observe_turn(figures, &turn.events, &turn.effects);
        self.answer(leader, &mut turn);
        for effect in turn.effects.drain(..) {
            self.tell(leader, &turn.beside, effect);
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

    /// Answers the callers of a turn, and puts what happened into the log.
    pub(super) fn answer(&self, leader: &Leader, turn: &mut Turn) {
        log::events(leader.state.epoch(), &turn.events);
        for waiting in turn.answers.drain(..) {
            if let Err(SubmitError::Refused(refusal)) = &waiting.reply {
                tracing::debug!(reason = refusal.reason(), "refused");
            }
            if let Some(answer) = waiting.answer {
                drop(answer.send(waiting.reply)); // who went away wants no answer
            }
        }
    }

    fn tell(&mut self, leader: &Leader, beside: &Beside, effect: Effect) {
        match effect {
            Effect::Send { session, ordinal, applied, message, .. } => {
                let (payload_size, payload) = if let Message::Grant(grant) = &message {
                    // A job that is granted is live. Were it not, its payload would have to be found, or nothing sent.
                    let size = leader.state.job(grant.job).map_or(1, |job| job.payload_size);
                    (size, at_hand(beside, grant.job))
                } else {
                    (0, None)
                };
                let decided = Decided { ordinal, applied, message, payload_size, payload };
                if let Some(command) = self.peers.send(session, decided) {
                    self.next.push_first(command);
                }
            }
            Effect::CloseSession { session, reason, .. } => {
                let no = No::session_ended(reason, "the session was ended by the server");
                self.peers.close(session, no.into_status());
            }
            Effect::NotifyWatchers { job } => self.ends.watchers.notify(job),
            // The id of a workflow is none of a job, and both are watched alike.
            Effect::NotifyWorkflow { workflow } => self.ends.watchers.notify(JobId(workflow.0)),
            Effect::NotifyOutbox => self.ends.bell.ring(),
            Effect::Reply(_) => tracing::error!("a reply to nobody"),
        }
    }
}

/// The payload of a job that this turn stored, if it is small. A copy: what came over the wire is a part of its whole
/// message, which may be many times as large and would live as long.
fn at_hand(beside: &Beside, job: JobId) -> Option<Payload> {
    let payload = beside.payloads.get(&job).filter(|payload| payload.data.len() <= MOST_AT_HAND)?;
    Some(Payload { data: Bytes::copy_from_slice(&payload.data), content_type: payload.content_type.clone() })
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_small_payload_is_at_hand_as_a_copy_and_a_large_one_is_read_again() {
        let message = Bytes::from(vec![7; MOST_AT_HAND * 3]);
        let (small, large) = (JobId(Uuid::from_u128(1)), JobId(Uuid::from_u128(2)));
        let mut beside = Beside::default();
        for (job, size) in [(small, MOST_AT_HAND), (large, MOST_AT_HAND + 1)] {
            let payload = Payload { data: message.slice(..size), content_type: "text/plain".to_owned() };
            beside.payloads.insert(job, payload);
        }
        let found = at_hand(&beside, small).unwrap();
        assert_eq!(Some(&found), beside.payloads.get(&small));
        assert_ne!(
            found.data.as_ptr(),
            message.as_ptr(),
            "the message does not live as long as the grant waits"
        );
        assert_eq!(at_hand(&beside, large), None);
        assert_eq!(at_hand(&beside, JobId(Uuid::from_u128(3))), None);
    }
}
