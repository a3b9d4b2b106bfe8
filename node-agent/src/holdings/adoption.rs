//! What an earlier agent left to this one, attempts that go on and trees that are being killed; and what this one leaves to
//! the next.
//!
//! Responsible for how they are held before the first Hello, which lists them like any other, and for the words before the
//! end. Not responsible for finding them (`leftovers.rs`).
//! Invariant: an adopted lease counts on no more than what its shim enforces anyway.

use std::time::Duration;

use super::lease::{FIRST_LEASE, Held};
use super::{End, FencingToken, Holdings, Link, Phase, Waiting};
use crate::clock::Mono;

/// An attempt of an earlier agent whose shim was taken over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Adopted {
    /// The node slots that it takes.
    pub slots: std::collections::BTreeMap<String, u32>,
    /// Its whole lease.
    pub lease: Duration,
    /// Between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// By when its shim ends it without a renewal.
    pub gone_by: Mono,
    /// When its process started. None: it has not yet.
    pub started: Option<Mono>,
    /// It is being stopped already.
    pub stopping: bool,
    /// It waited for others.
    pub waiting: Option<Waiting>,
}

impl Holdings {
    /// An attempt of an earlier agent goes on: it is held as if this one had started it. Which grant or renewal its
    /// deadline counts from is not known any more, so it stays what it is until the server renews it.
    pub fn adopted(&mut self, token: FencingToken, job: &str, adopted: Adopted) {
        let Adopted { slots, lease, grace, gone_by, started, stopping, waiting } = adopted;
        let finished = self.unstored.get(&token).is_some_and(|unstored| unstored.end == End::Finished);
        let phase = match started {
            _ if finished => Phase::Finished { started },
            _ if stopping => Phase::Stopping { started },
            Some(at) => Phase::Started { at },
            None => Phase::Starting,
        };
        let held = Held {
            slots,
            phase,
            whole: lease,
            counted: lease.min(FIRST_LEASE),
            gone_by,
            grace,
            waiting,
            ..Held::left(job)
        };
        self.leases.insert(token, held);
    }

    /// A tree of an earlier agent that is being killed. Held, and its slots taken, until it is reaped.
    pub fn left_over(
        &mut self,
        token: FencingToken,
        job: &str,
        slots: impl IntoIterator<Item = (String, u32)>,
    ) {
        self.leases.insert(token, Held { slots: slots.into_iter().collect(), ..Held::left(job) });
    }
}

impl Holdings {
    /// The agent ends and leaves what runs to the next one: what has not started is given back, and no more is taken.
    pub fn hand_over(&mut self, now: Mono) {
        self.handing_over = true;
        self.give_back_unstarted(now);
    }

    /// Whether nothing is left to say that could be said. Without a stream there is nobody to hear it; the next agent's
    /// Hello stands for it.
    pub fn is_handed_over(&self) -> bool {
        self.handing_over && (self.link != Link::Up || self.unsaid.is_empty())
    }
}

impl Held {
    /// What is known of it if nothing is.
    fn left(job: &str) -> Self {
        Self {
            job: job.to_owned(),
            slots: std::collections::BTreeMap::new(),
            phase: Phase::Stopping { started: None },
            whole: Duration::ZERO,
            counted: Duration::ZERO,
            gone_by: Mono::ZERO,
            stale_at: None,
            grace: Duration::ZERO,
            stop: None,
            gone: false,
            accepted_said: false,
            give_back: None,
            waiting: None,
            waited: 0,
            progress: None,
            progress_unsaid: false,
        }
    }
}
