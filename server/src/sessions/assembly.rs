//! From messages of the scheduler to frames of the wire: which go together, and which may overtake which.
//!
//! Grants wait for their payloads; `Welcome`, `Renewed` and `Stored` do not, and pass them. Everything else keeps its
//! place, so a `Revoke` never overtakes its grant. Neighbouring grants that were decided by the same `applied` share a
//! frame, so do neighbouring answers to reports; no frame passes 1 MiB.
//!
//! Pure: the session's task fetches payloads and sends frames.

use std::collections::{BTreeMap, VecDeque};

use tenure_proto::limits;
use tenure_scheduler::{Grant, JobId, Message, Ordinal, Stored};
use tenure_store::Left;

use super::{Decided, Joined, Outgoing, Want, Wanted};

/// What one answer to a report weighs at the most.
const STORED_WEIGHT: usize = 128;

/// Payload bytes that are fetched at once.
const MOST_FETCH: u64 = 1024 * 1024;

/// Payloads that are fetched at once.
const MOST_FETCHED: usize = 64;

/// What a job counts for in a fetch that may have been left something: few have, and those may have 512 KiB.
const AGAIN_WEIGHT: u64 = 128 * 1024;

/// One wire message in the scheduler's words.
#[derive(Debug, PartialEq)]
pub(crate) struct Frame {
    /// The highest `seq` of the node that was applied when the newest part was decided.
    pub(crate) applied: u64,
    /// What it says.
    pub(crate) body: Body,
}

/// What a frame says.
#[derive(Debug, PartialEq)]
pub(crate) enum Body {
    /// Anything that travels alone.
    Alone(Message),
    /// New leases.
    Grants(Vec<(Box<Grant>, Joined)>),
    /// Answers to reports.
    Stored(Vec<Stored>),
    /// What an attempt prints is wanted.
    WantLog(crate::logs::Want),
}

/// What is to be done next.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    /// Send this; these ordinals leave with it.
    Send(Frame, Vec<Ordinal>),
    /// Nothing can leave: wait for a message or for payloads.
    Wait,
}

/// The messages of one session that have not left.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    waiting: VecDeque<Outgoing>,
    /// The bytes that have come of grants that wait.
    joined: BTreeMap<JobId, Joined>,
}

impl Assembly {
    pub(super) fn push(&mut self, mut outgoing: Outgoing) {
        if let Outgoing::Decided(Decided { message: Message::Grant(grant), payload, .. }) = &mut outgoing
            && let Some(payload) = payload.take()
        {
            self.joined.insert(grant.job, Joined { payload, left: Left::default() });
        }
        self.waiting.push_back(outgoing);
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The payloads that the grants nearest to leaving wait for. They are to be fetched in one statement.
    pub(super) fn wanted(&self) -> Wanted {
        let mut wanted = Wanted::new();
        let mut weight = 0;
        for outgoing in &self.waiting {
            let Outgoing::Decided(Decided { message: Message::Grant(grant), payload_size, .. }) = outgoing
            else {
                continue;
            };
            if self.is_whole(grant, *payload_size) {
                continue;
            }
            weight += payload_size + if grant.again { AGAIN_WEIGHT } else { 0 };
            if !wanted.is_empty() && (weight > MOST_FETCH || wanted.len() >= MOST_FETCHED) {
                break;
            }
            wanted.push(Want { job: grant.job, payload: *payload_size, again: grant.again });
        }
        wanted
    }

    /// Payloads have come. Those of the wanted that did not are gone for good: their grants are dropped, and these
    /// ordinals with them.
    pub(super) fn fetched(
        &mut self,
        wanted: &Wanted,
        found: BTreeMap<JobId, Joined>,
    ) -> Vec<(Ordinal, JobId)> {
        let mut dropped = Vec::new();
        self.waiting.retain(|outgoing| {
            let Outgoing::Decided(Decided { message: Message::Grant(grant), ordinal, payload_size, .. }) =
                outgoing
            else {
                return true;
            };
            let is_gone = *payload_size > 0
                && wanted.iter().any(|want| want.job == grant.job)
                && !found.contains_key(&grant.job);
            if is_gone {
                dropped.push((*ordinal, grant.job));
            }
            !is_gone
        });
        self.joined.extend(found);
        dropped
    }

    /// What may leave now.
    pub(super) fn next(&mut self) -> Next {
        let Some(at) = self.first_free() else { return Next::Wait };
        match self.waiting.remove(at) {
            None => Next::Wait,
            Some(Outgoing::Broken(stored)) => self.stored(at, 0, stored, Vec::new()),
            Some(Outgoing::WantLog(want)) => {
                Next::Send(Frame { applied: 0, body: Body::WantLog(want) }, Vec::new())
            }
            Some(Outgoing::Decided(Decided { ordinal, applied, message, .. })) => match message {
                Message::Stored(stored) => self.stored(at, applied, stored, vec![ordinal]),
                Message::Grant(grant) => self.grants(at, (ordinal, applied), grant),
                message @ (Message::Welcome { .. }
                | Message::Renewed { .. }
                | Message::Revoke { .. }
                | Message::Drain { .. }
                | Message::Resume { .. }
                | Message::Configure { .. }) => {
                    Next::Send(Frame { applied, body: Body::Alone(message) }, vec![ordinal])
                }
            },
        }
    }

    /// The first message that nothing holds back.
    fn first_free(&self) -> Option<usize> {
        let mut held = false;
        for (at, outgoing) in self.waiting.iter().enumerate() {
            let overtakes = match outgoing {
                Outgoing::Broken(_) | Outgoing::WantLog(_) => true,
                Outgoing::Decided(Decided { message, payload_size, .. }) => match message {
                    Message::Welcome { .. } | Message::Renewed { .. } | Message::Stored(_) => true,
                    Message::Grant(grant) => !held && self.is_whole(grant, *payload_size),
                    Message::Revoke { .. }
                    | Message::Drain { .. }
                    | Message::Resume { .. }
                    | Message::Configure { .. } => !held,
                },
            };
            if overtakes {
                return Some(at);
            }
            held = true;
        }
        None
    }

    /// A frame of answers: this one and those that stand where it stood.
    fn stored(&mut self, at: usize, mut applied: u64, first: Stored, mut ordinals: Vec<Ordinal>) -> Next {
        let mut all = vec![first];
        while all.len() < limits::MESSAGE_BYTES / STORED_WEIGHT {
            match self.waiting.get(at) {
                Some(Outgoing::Decided(Decided {
                    message: Message::Stored(stored),
                    ordinal,
                    applied: newer,
                    ..
                })) => {
                    all.push(stored.clone());
                    ordinals.push(*ordinal);
                    applied = applied.max(*newer);
                }
                Some(Outgoing::Broken(stored)) => all.push(stored.clone()),
                Some(Outgoing::Decided(_) | Outgoing::WantLog(_)) | None => break,
            }
            self.waiting.remove(at);
        }
        Next::Send(Frame { applied, body: Body::Stored(all) }, ordinals)
    }

    /// A frame of grants: this one and those that follow it, decided by the same `applied`, their payloads here.
    fn grants(&mut self, at: usize, first: (Ordinal, u64), grant: Box<Grant>) -> Next {
        let (ordinal, applied) = first;
        let mut ordinals = vec![ordinal];
        let joined = self.joined.remove(&grant.job).unwrap_or_default();
        let mut weight = weight_of(&grant, joined.len());
        let mut all = vec![(grant, joined)];
        while let Some(Outgoing::Decided(next)) = self.waiting.get(at) {
            let Message::Grant(grant) = &next.message else { break };
            weight += weight_of(grant, self.joined.get(&grant.job).map_or(0, Joined::len));
            if next.applied != applied
                || !self.is_whole(grant, next.payload_size)
                || weight > limits::MESSAGE_BYTES
            {
                break;
            }
            let (grant, ordinal) = (grant.clone(), next.ordinal);
            self.waiting.remove(at);
            ordinals.push(ordinal);
            let joined = self.joined.remove(&grant.job).unwrap_or_default();
            all.push((grant, joined));
        }
        Next::Send(Frame { applied, body: Body::Grants(all) }, ordinals)
    }

    /// Whether everything is here that travels with it.
    fn is_whole(&self, grant: &Grant, size: u64) -> bool {
        size == 0 && !grant.again || self.joined.contains_key(&grant.job)
    }
}

/// At least what a grant weighs on the wire.
fn weight_of(grant: &Grant, joined: usize) -> usize {
    const FIXED: usize = 512; // ids, numbers, lengths, the media type
    let texts = grant.kind.as_str().len()
        + grant.tenant.as_str().len()
        + grant.idempotency_key.len()
        + grant
            .trace
            .as_ref()
            .map_or(0, |trace| trace.parent.len() + trace.state.as_ref().map_or(0, |state| state.len()));
    let slots: usize = grant.slots.iter().map(|(slot, _)| slot.as_str().len() + 16).sum();
    FIXED + texts + slots + joined
}

#[cfg(test)]
mod tests;
