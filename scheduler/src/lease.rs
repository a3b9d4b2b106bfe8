//! Leases: the right to run one attempt, fenced by a token. A lease is exactly how long a node may go on without
//! hearing from the server, and how long the server waits.

use std::{sync::Arc, time::Duration};

use crate::{
    family::Parked,
    ids::{ConcurrencyKey, FencingToken, JobId, KindName, NodeName, Ordinal, Tenant},
    slots::Reservation,
    time::{Mono, Wall},
};

/// The shortest lease that a kind may have.
pub const SHORTEST_LEASE: Duration = Duration::from_secs(10);

/// An unproven lease lasts no longer than this, until the first renewal after `accepted`.
pub const FIRST_LEASE: Duration = Duration::from_secs(20);

/// After this long without an answer a grant is revoked.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// What an agent gives a process between SIGTERM and SIGKILL, unless its node file says otherwise.
const KILL_GRACE: Duration = Duration::from_secs(10);

/// A lease as it is stored. Remaining time is stored nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Its identity.
    pub token: FencingToken,
    /// Its job; it may be final or deleted long before the lease is over.
    pub job: JobId,
    /// The kind of the job, for people.
    pub kind: KindName,
    /// Whose work it is: who is charged for what it takes, also when its job is gone.
    pub tenant: Tenant,
    /// The key of the job that it holds; none: its job names none, or it holds it no more. Held as fleet slots are.
    pub concurrency_key: Option<ConcurrencyKey>,
    /// Who holds it.
    pub node: NodeName,
    /// How long it lasts without a renewal. Fixed at the grant.
    pub length: Duration,
    /// What it takes.
    pub reservation: Reservation,
    /// The number of the attempt.
    pub attempt: u32,
    /// The round of the job.
    pub round: u32,
    /// When it was granted.
    pub granted_at: Wall,
    /// How far it is, as far as that is stored.
    pub stage: Stage,
    /// The newest wait under it during which its process stays; none: none, or it has ended.
    pub parked: Option<Box<Parked>>,
    /// Another instance or another boot of its node said Hello: nobody who is left can say that its process is gone. It
    /// charges the fleet only, is renewed no more and runs out, under every later leader too.
    pub orphaned: bool,
}

impl Lease {
    /// The wait of its process, while that goes on.
    #[must_use]
    pub fn waits(&self) -> Option<&Parked> {
        self.parked.as_deref().filter(|parked| parked.verdict.is_none() && self.stage == Stage::Granted)
    }
}

/// The stored part of how far a lease is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Its node may run it. Reports, expiry and operators move it on.
    Granted,
    /// Its outcome is recorded; it lives, with its slots, until its process tree is reported gone.
    Finished,
    /// It is over; its node slots stay charged until the process tree is known to be gone.
    Unreaped,
}

impl Stage {
    /// The word for it in SQL.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Finished => "finished",
            Self::Unreaped => "unreaped",
        }
    }

    /// Whether a job may not be granted again because of it.
    #[must_use]
    pub fn is_live(self) -> bool {
        match self {
            Self::Granted | Self::Finished => true,
            Self::Unreaped => false,
        }
    }
}

/// How far a lease is on its node, as the node says. Order matters: a later one is more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The grant was sent; nothing is promised.
    Granted,
    /// The node will start it.
    Accepted,
    /// Its process runs.
    Started,
    /// Its process runs and waits for children, holding what its kind keeps only. Said in listings.
    Parked,
    /// Its tree is being killed.
    Stopping,
    /// Its command has ended.
    Finished,
    /// Its tree could not be killed; the node goes on trying.
    Unkillable,
}

/// Why a lease is taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RevokeReason {
    /// The server does not know it, or no longer.
    NotLive,
    /// Its job was cancelled.
    Cancelled,
    /// Its grant was not answered in time.
    Unanswered,
    /// The drain deadline of its node is over.
    Drained,
}

impl RevokeReason {
    /// The word for it in traces.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NotLive => "not_live",
            Self::Cancelled => "cancelled",
            Self::Unanswered => "unanswered",
            Self::Drained => "drained",
        }
    }
}

/// How a running attempt gets on, in its own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// 0 to 100.
    pub percent: u8,
    /// For people.
    pub message: Arc<str>,
    /// When the leader heard it.
    pub at: Wall,
}

/// What the leader knows of a lease beside its row. None of it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Watch {
    /// The newest phase that was applied.
    pub(crate) phase: Phase,
    /// It ends then unless it is renewed; see [`expiry`].
    pub(crate) expires: Mono,
    /// When it was granted, or loaded.
    pub(crate) since: Mono,
    /// Loaded by this leader: it has the whole lease from the takeover, and ends as a loss.
    pub(crate) loaded: bool,
    /// The grant's message on the session; none once another session took over.
    pub(crate) ordinal: Option<Ordinal>,
    /// A report of it came, or a listing: the node has read the grant.
    pub(crate) answered: bool,
    /// Its node says that it is gone and that a report of its end is to come: it lives on for that, without slots.
    pub(crate) spooled: bool,
    /// Its job was set aside: ending it in silence could not be stored. It lives on with its slots until its node speaks
    /// of its end, an operator asserts it, or another leader tries again. Nobody else may run the job meanwhile.
    pub(crate) kept: bool,
    /// It was over, and lives on for a while since its node fell silent with many others: once between two renewals.
    pub(crate) spared: bool,
    /// Its wait is over, since then, and it wants back what it gave; none: it does not.
    pub(crate) wants: Option<Mono>,
    /// The server wants it back.
    pub(crate) revoked: Option<RevokeReason>,
    /// When its process started, as its node reported.
    pub(crate) started_at: Option<Wall>,
    /// How it gets on, as it said itself.
    pub(crate) progress: Option<Box<Progress>>,
    /// The size of the newest checkpoint that this leader had of it, in bytes.
    pub(crate) checkpoint: Option<u64>,
    /// The hard limit of its attempt, as it was at the grant; of a loaded one as it is now.
    pub(crate) hard_limit: Duration,
    /// It has given back what it takes by then if it runs to its hard limit; see [`returns_by`]. Counted from its start
    /// once that is known, and until then from the latest start that its grant allows. A loaded one was granted just now
    /// as far as its row tells.
    pub(crate) returns_by: Mono,
}

impl Watch {
    /// What counts until the first renewal after `accepted`.
    pub(crate) fn is_first(&self) -> bool {
        !self.loaded && !self.spooled && self.phase < Phase::Accepted
    }
}

/// What an unproven lease of this length lasts.
#[must_use]
pub fn first_lease(length: Duration) -> Duration {
    length.min(FIRST_LEASE)
}

/// A node refuses a grant whose anchor is older than this.
#[must_use]
pub fn start_window(length: Duration) -> Duration {
    (first_lease(length) / 2).min(Duration::from_secs(10))
}

/// When the server gives up a lease that it last heard of at `heard`: 5 % and 2 s later than its node did.
#[must_use]
pub fn expiry(heard: Mono, length: Duration) -> Mono {
    heard.after(length + length / 20 + Duration::from_secs(2))
}

/// When what starts then has given back all that it takes, if it runs to its hard limit and is killed.
#[must_use]
pub(crate) fn returns_by(start: Mono, hard_limit: Duration) -> Mono {
    start.after(hard_limit).after(KILL_GRACE)
}

/// The same once its command has ended, and only its tree is to go.
#[must_use]
pub(crate) fn reaped_by(now: Mono) -> Mono {
    now.after(KILL_GRACE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_waits_longer_than_the_node() {
        let lease = Duration::from_secs(100);
        let node_gives_up = lease.mul_f64(0.95);
        assert_eq!(expiry(Mono(0), lease).since(Mono(0)), Duration::from_secs(107));
        assert!(node_gives_up < lease);
    }

    #[test]
    fn first_leases_and_windows_are_bounded() {
        assert_eq!(first_lease(Duration::from_secs(600)), Duration::from_secs(20));
        assert_eq!(first_lease(SHORTEST_LEASE), SHORTEST_LEASE);
        assert_eq!(start_window(SHORTEST_LEASE), Duration::from_secs(5));
        assert_eq!(start_window(Duration::from_secs(600)), Duration::from_secs(10));
    }
}
