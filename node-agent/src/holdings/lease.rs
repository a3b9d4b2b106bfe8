//! One lease as its node sees it: its terms, its phase, its deadline.
//!
//! Responsible for the words of this. Not responsible for transitions (`holdings.rs`).

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::waits::Waiting;
use crate::clock::Mono;
use crate::own_rule::OwnRule;

/// The stale-holder guard and the identity of a lease: one per grant, only growing; the epoch in the bits above 40.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(pub u64);

impl FencingToken {
    /// The epoch of the leader that granted it.
    pub fn epoch(self) -> u64 {
        self.0 >> 40
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a grant says, without its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The job.
    pub job: String,
    /// Its fencing token.
    pub token: FencingToken,
    /// Its kind.
    pub kind: String,
    /// The node slots that it takes.
    pub slots: BTreeMap<String, u32>,
    /// The whole lease.
    pub lease: Duration,
    /// What counts until the first renewal after `accepted`.
    pub first_lease: Duration,
    /// The node refuses the grant if its anchor is older than this.
    pub start_window: Duration,
    /// What remained of `stale_after` when it was decided. None: no limit.
    pub stale_in: Option<Duration>,
}

/// How far a lease has come. The session moves nothing: the runner's words and the server's do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The grant was read; its directory and payload are being written. The runner moves it on.
    Granted,
    /// `accepted` is said; it waits for the start limiter. The clock moves it on.
    Accepted,
    /// The runner was told to start it. Listed as accepted. The runner moves it on.
    Starting,
    /// Its process runs since then.
    Started {
        /// When it started.
        at: Mono,
    },
    /// Its tree is being killed. The runner moves it on.
    Stopping {
        /// When it had started, if it had.
        started: Option<Mono>,
    },
    /// Its command has ended and its report is in the spool; its tree is not gone yet.
    Finished {
        /// When it had started, if it had.
        started: Option<Mono>,
    },
    /// Its tree could not be killed; the runner goes on trying.
    Unkillable {
        /// When it had started, if it had.
        started: Option<Mono>,
    },
}

impl Phase {
    /// When its process started.
    pub fn started(self) -> Option<Mono> {
        match self {
            Self::Granted | Self::Accepted | Self::Starting => None,
            Self::Started { at } => Some(at),
            Self::Stopping { started } | Self::Finished { started } | Self::Unkillable { started } => started,
        }
    }

    /// Whether there may be a process.
    pub fn has_tree(self) -> bool {
        match self {
            Self::Granted | Self::Accepted => false,
            Self::Starting
            | Self::Started { .. }
            | Self::Stopping { .. }
            | Self::Finished { .. }
            | Self::Unkillable { .. } => true,
        }
    }
}

/// One lease that the node holds: from reading its grant until it has said `reaped` or `returned`.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) job: String,
    pub(super) slots: BTreeMap<String, u32>,
    pub(super) phase: Phase,
    /// The whole lease, fixed at the grant.
    pub(super) whole: Duration,
    /// What it counts on now: the first lease until the first renewal after `accepted`.
    pub(super) counted: Duration,
    /// By when its tree must be gone. Only grows.
    pub(super) gone_by: Mono,
    /// After this it must not start. None: no limit.
    pub(super) stale_at: Option<Mono>,
    /// Between SIGTERM and SIGKILL, of its kind.
    pub(super) grace: Duration,
    /// The order to stop it, once there was one.
    pub(super) stop: Option<Stop>,
    /// Whether its tree is gone, or never was. Its end still has to be said.
    pub(super) gone: bool,
    /// Whether the server was told on this stream, by a report or a listing, that it is accepted. Nothing starts before.
    pub(super) accepted_said: bool,
    /// Set if it never started and is given back.
    pub(super) give_back: Option<Return>,
    /// Its process waits for others.
    pub(super) waiting: Option<Waiting>,
    /// The newest wait of it that is over. 0: none.
    pub(super) waited: u64,
    /// How it gets on, as its process said.
    pub(super) progress: Option<(u32, String)>,
    /// Whether that is still to be said.
    pub(super) progress_unsaid: bool,
}

impl Held {
    /// The last moment at which a start still makes sense: later the shim would have to stop it at once.
    pub(super) fn start_by(&self) -> Mono {
        self.gone_by - KILL_MARGIN - self.grace.min(self.counted / 5)
    }
}

/// The shim's SIGKILL comes this long before `gone_by`.
pub(super) const KILL_MARGIN: Duration = Duration::from_secs(1);

/// A first lease is never longer. Of an adopted lease nobody knows whether it was ever renewed.
pub(super) const FIRST_LEASE: Duration = Duration::from_secs(20);

/// Why a running attempt is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The server does not know the lease, or no longer.
    NotLive,
    /// Its job was cancelled.
    Cancelled,
    /// The server had no answer to the grant in time.
    Unanswered,
    /// The drain's deadline is over, the server's or the agent's own.
    Drained,
    /// Another instance of this node won.
    Superseded,
}

/// An order to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Why. The first reason stands.
    pub reason: StopReason,
    /// SIGKILL at once, without the kind's grace.
    pub at_once: bool,
}

/// Why a grant, or a lease that never started, is given back.
#[derive(Clone, Debug, PartialEq)]
pub struct Return {
    /// An [`OwnRule`] or the id of a pressure rule.
    pub rule: String,
    /// What the rule read. Zero where it has no number.
    pub observed: f64,
    /// The close value of the rule.
    pub threshold: f64,
    /// The pressure generation in which it was refused.
    pub generation: u64,
    /// When this node may be offered the class again. None: the server's default, 30 s.
    pub retry_after: Option<Duration>,
}

impl Return {
    /// A reason without numbers.
    pub fn because(rule: OwnRule) -> Self {
        Self { rule: rule.to_string(), observed: 0.0, threshold: 0.0, generation: 0, retry_after: None }
    }

    /// With the time after which an offer makes sense again.
    #[must_use]
    pub fn retry_after(mut self, length: Duration) -> Self {
        self.retry_after = Some(length);
        self
    }

    /// With what was read and what the limit was.
    #[must_use]
    pub fn reading(mut self, observed: f64, threshold: f64) -> Self {
        (self.observed, self.threshold) = (observed, threshold);
        self
    }
}
