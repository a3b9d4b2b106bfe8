//! Attempts whose process waits for others and stays, and how attempts get on.
//!
//! Responsible for what a waiting attempt holds of this node, and for how it is listed. Not responsible for asking the
//! server (`runner/socket/wait.rs`).
//!
//! What the server has given back this node gives back, too, or the grants that follow would be refused here. It does so
//! before the server is asked: what is free here too early is granted to nobody, for the server counts as well.
//! Invariant: an attempt is listed as parked only once the server has said that it is, or it would be told to go on before
//! its wait was known.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::lease::{FencingToken, Held, Phase};
use super::words::Action;
use super::{Holdings, Link, Word};

/// What a process that waited does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WaitVerdict {
    /// It holds again all that it was granted: it goes on.
    Go,
    /// It leaves its state and ends.
    MustDetach,
}

/// A wait that goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Which of this lease.
    pub epoch: u64,
    /// The node slots that it holds meanwhile.
    pub kept: BTreeMap<String, u32>,
    /// Whether the server has said that it is parked.
    pub parked: bool,
}

impl Holdings {
    /// A process wants to wait, or the server has said that it does (`parked`: what it keeps).
    pub fn waits(&mut self, token: FencingToken, epoch: u64, parked: Option<BTreeMap<String, u32>>) {
        let Some(held) = self.leases.get_mut(&token).filter(|held| !held.gone) else { return };
        let known = held.waiting.as_ref().map_or(0, |waiting| waiting.epoch).max(held.waited);
        let news = epoch > known || (parked.is_some() && epoch == known && held.waiting.is_some());
        if news {
            let (kept, parked) = (parked.clone().unwrap_or_default(), parked.is_some());
            held.waiting = Some(Waiting { epoch, kept, parked });
        }
    }

    /// A wait is over. `kept`: what the lease holds, if it is to detach and that is known.
    pub fn wait_over(
        &mut self,
        token: FencingToken,
        epoch: u64,
        verdict: WaitVerdict,
        kept: Option<BTreeMap<String, u32>>,
    ) {
        let Some(held) = self.leases.get_mut(&token) else { return };
        let Some(waiting) = held.waiting.take_if(|waiting| waiting.epoch <= epoch) else { return };
        held.waited = held.waited.max(epoch);
        if verdict == WaitVerdict::MustDetach {
            held.slots = kept.unwrap_or(waiting.kept);
        }
    }

    /// The server says that a wait is over. Repeated orders change nothing.
    pub fn resumed(&mut self, token: FencingToken, epoch: u64, verdict: WaitVerdict) {
        let waits = |held: &Held| held.waiting.as_ref().is_some_and(|waiting| waiting.epoch == epoch);
        if self.leases.get(&token).is_some_and(waits) {
            self.wait_over(token, epoch, verdict, None);
            self.actions.push(Action::Resume { token, epoch, verdict });
        }
    }

    /// Its process said how it gets on. The newest word counts.
    pub fn gets_on(&mut self, token: FencingToken, percent: u32, message: String) {
        let Some(held) = self.leases.get_mut(&token).filter(|held| held.runs()) else { return };
        let unsaid = std::mem::replace(&mut held.progress_unsaid, self.link == Link::Up);
        held.progress = Some((percent, message));
        if held.progress_unsaid && !unsaid {
            self.unsaid.push_back((token, Word::Progress));
        }
    }

    /// A new stream: a server that has just taken over does not know how attempts get on.
    pub(super) fn tell_progress_anew(&mut self) {
        for (&token, held) in &mut self.leases {
            held.progress_unsaid = held.runs() && held.progress.is_some();
            if held.progress_unsaid {
                self.unsaid.push_back((token, Word::Progress));
            }
        }
    }
}

impl Held {
    /// The node slots that it takes now.
    pub(super) fn charged(&self) -> &BTreeMap<String, u32> {
        self.waiting.as_ref().map_or(&self.slots, |waiting| &waiting.kept)
    }

    /// The wait in which the server knows it to be parked.
    pub(super) fn parked_in(&self) -> Option<u64> {
        let parked = self.waiting.as_ref().filter(|waiting| waiting.parked);
        parked.filter(|_| self.runs()).map(|waiting| waiting.epoch)
    }

    fn runs(&self) -> bool {
        matches!(self.phase, Phase::Started { .. }) && !self.gone
    }
}
