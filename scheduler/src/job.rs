//! Jobs: one payload of one kind with one final state. Payloads and results never enter this crate.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::{
    budget::Usage,
    family::{Detached, OnParent},
    ids::{
        ConcurrencyKey, DedupeKey, FencingToken, Fingerprint, JobId, KindName, NodeName, Producer, Sequence,
        Tenant,
    },
    selector::{Preferences, Selector},
    slots::Needs,
    time::Wall,
    workflow::MemberOf,
};

/// The W3C trace context of an enqueue, as texts that were checked where they came in. It is handed on; nothing is
/// decided by it, and a repeated call with another one is still the same call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// `traceparent`.
    pub parent: Box<str>,
    /// `tracestate`, if there is any.
    pub state: Option<Box<str>>,
}

/// Everything of a job that is stored, but for its payload and result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Its identity.
    pub id: JobId,
    /// The order of enqueues; ties between equal priorities are broken by it.
    pub sequence: Sequence,
    /// Whose work it is.
    pub tenant: Tenant,
    /// Who enqueued it.
    pub producer: Producer,
    /// Its kind.
    pub kind: KindName,
    /// Where it stands.
    pub state: JobState,
    /// Plus one at each durable change.
    pub version: u64,
    /// −100 to 100, higher first.
    pub priority: i8,
    /// The slots that it takes, if it named its own; else its kind's, as they are when it is granted.
    pub needs: Option<Needs>,
    /// What it asked of node labels itself; and-ed with its kind's.
    pub selector: Selector,
    /// Which nodes it would rather have; its kind's preferences count after them.
    pub prefer: Preferences,
    /// For people and filters.
    pub labels: BTreeMap<String, String>,
    /// Its business identity, if it has one.
    pub dedupe_key: Option<DedupeKey>,
    /// Whether the key still answers for this job.
    pub dedupe_held: bool,
    /// What it shares with jobs that may not all run at once, if it names that.
    pub concurrency_key: Option<ConcurrencyKey>,
    /// What makes a repeated enqueue the same.
    pub fingerprint: Fingerprint,
    /// A hard limit shorter than its kind's.
    pub hard_time_limit: Option<Duration>,
    /// A soft limit shorter than its kind's.
    pub soft_time_limit: Option<Duration>,
    /// The job that spawned it.
    pub parent: Option<JobId>,
    /// The top of its tree; itself if it has no parent.
    pub root: JobId,
    /// How many parents stand above it.
    pub depth: u8,
    /// How many children were ever enqueued under it.
    pub children: u32,
    /// What becomes of it when its parent is cancelled.
    pub on_parent_cancel: OnParent,
    /// What becomes of it when an execution of its parent is lost.
    pub on_parent_lost: OnParent,
    /// W3C trace context of its enqueue.
    pub trace: Option<Arc<TraceContext>>,
    /// The size of its payload in bytes.
    pub payload_size: u64,
    /// Plus one at each requeue; from 1.
    pub round: u32,
    /// Of this round: it ran and failed, timed out or stalled.
    pub failures: u32,
    /// Of this round: its lease ended in silence, or its node or shim died.
    pub losses: u32,
    /// Of this round: ended for a reason that is neither its own nor its node's.
    pub returns: u32,
    /// The newest of those returns that followed each other without another end between.
    pub returns_in_row: u32,
    /// The newest token; [`FencingToken::NONE`] if it was never granted.
    pub token: FencingToken,
    /// How the execution under `token` ended, if it has. One that detached has not ended its attempt: none.
    pub last_outcome: Option<Outcome>,
    /// Succeeded: whether it left a result, kept still or not. None: it has not succeeded, or did so under a version that
    /// did not note it.
    pub left_result: Option<bool>,
    /// Where the execution under `token` is or was.
    pub last_node: Option<NodeName>,
    /// When `token` was granted.
    pub granted_at: Option<Wall>,
    /// When the newest started execution began, as far as it was reported before the job's last durable change.
    pub started_at: Option<Wall>,
    /// A wish that survives everything but a success stored before.
    pub cancel_requested: bool,
    /// When it was enqueued.
    pub created_at: Wall,
    /// It expires if not started by then.
    pub stale_at: Option<Wall>,
    /// Why it stands where it stands, for people. At most 4 KiB.
    pub reason: Option<Arc<str>>,
    /// The newest wait for which it detached in this round; none: none, or it is final.
    pub detached: Option<Box<Detached>>,
    /// What it waited for before its newest grant, the longest first. At most [`MAX_WAITS`].
    pub waits: Vec<Wait>,
    /// The workflow that it is a member of.
    pub workflow: Option<MemberOf>,
}

/// How many entries [`Job::waits`] has at the most.
pub const MAX_WAITS: usize = 16;

/// What one reason cost a job before it was granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// The name of the reason, as in `Deferral::name`.
    pub reason: Arc<str>,
    /// The reason and what it names, for people.
    pub message: Arc<str>,
    /// How often placement tried and did not place it for this reason.
    pub count: u64,
    /// For how long in all.
    pub duration: Duration,
}

/// Where a job stands. The last four are final and never change but by a requeue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobState {
    /// Waits for a time. A tick moves it on to `Queued`.
    Scheduled {
        /// When it goes on.
        until: Wall,
        /// What the time is.
        cause: ScheduledCause,
    },
    /// Waits for members of its workflow before it. A tick moves it on to `Queued`, or to `Cancelled` if they did not
    /// succeed as they had to.
    Blocked {
        /// Since when.
        since: Wall,
    },
    /// Waits for its slots. Placement moves it on to `Running`; a tick to `Expired`.
    Queued {
        /// Since when.
        since: Wall,
    },
    /// Has a live lease whose outcome is not recorded. Reports, expiry and operators move it on.
    Running,
    /// Waits for its children. When that is over a tick moves it on: to `Queued` if it detached, to `Running` if it parked.
    Waiting {
        /// Since when.
        since: Wall,
    },
    /// Ended well.
    Succeeded {
        /// When that was recorded.
        at: Wall,
    },
    /// Attempts are exhausted, or its error is permanent. A requeue moves it on to `Queued`.
    Dead {
        /// When that was recorded.
        at: Wall,
    },
    /// Somebody cancelled it. A requeue moves it on to `Queued`.
    Cancelled {
        /// When that was recorded.
        at: Wall,
    },
    /// Was not started in time.
    Expired {
        /// When that was recorded.
        at: Wall,
    },
}

/// What a scheduled job waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScheduledCause {
    /// The `run_at` that its producer gave.
    RunAt,
    /// The back-off after a failure, or after many returns in a row.
    Backoff,
}

impl JobState {
    /// The word for it in SQL, in the CLI and in prose.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Scheduled { .. } => "scheduled",
            Self::Blocked { .. } => "blocked",
            Self::Queued { .. } => "queued",
            Self::Running => "running",
            Self::Waiting { .. } => "waiting",
            Self::Succeeded { .. } => "succeeded",
            Self::Dead { .. } => "dead",
            Self::Cancelled { .. } => "cancelled",
            Self::Expired { .. } => "expired",
        }
    }

    /// When it became final; none while it is live.
    #[must_use]
    pub fn finished_at(&self) -> Option<Wall> {
        match *self {
            Self::Scheduled { .. }
            | Self::Blocked { .. }
            | Self::Queued { .. }
            | Self::Running
            | Self::Waiting { .. } => None,
            Self::Succeeded { at } | Self::Dead { at } | Self::Cancelled { at } | Self::Expired { at } => {
                Some(at)
            }
        }
    }

    /// Whether it is one of the four final states.
    #[must_use]
    pub fn is_final(&self) -> bool {
        self.finished_at().is_some()
    }

    /// Whether it counts towards its kind's `queue_cap`.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        match self {
            Self::Scheduled { .. } | Self::Blocked { .. } | Self::Queued { .. } => true,
            Self::Running
            | Self::Waiting { .. }
            | Self::Succeeded { .. }
            | Self::Dead { .. }
            | Self::Cancelled { .. }
            | Self::Expired { .. } => false,
        }
    }
}

impl Job {
    /// 1 + failures + losses: the number of the present or next attempt. A return repeats it.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        1 + self.failures + self.losses
    }

    /// Its counters as they were before its newest execution was taken for lost, or for undelivered.
    pub(crate) fn take_back_loss(&mut self) {
        match self.last_outcome {
            Some(Outcome::Lost) => self.losses = self.losses.saturating_sub(1),
            Some(Outcome::Returned) => {
                self.returns = self.returns.saturating_sub(1);
                self.returns_in_row = self.returns_in_row.saturating_sub(1);
            }
            Some(
                Outcome::Succeeded
                | Outcome::Failed
                | Outcome::FailedPermanent
                | Outcome::TimedOut
                | Outcome::Stalled
                | Outcome::Detached
                | Outcome::Cancelled,
            )
            | None => {}
        }
    }

    /// Whether `stale_after` still applies: only before the first start.
    #[must_use]
    pub(crate) fn may_expire(&self) -> bool {
        let never_ran =
            self.started_at.is_none() && self.failures + self.losses == 0 && self.detached.is_none();
        self.stale_at.is_some() && never_ran
    }

    /// The identity handed to the command: the dedupe key if there is one, else the id.
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        self.dedupe_key.as_ref().map_or_else(|| self.id.to_string(), ToString::to_string)
    }
}

/// How an execution ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It ended well.
    Succeeded,
    /// It failed; another attempt may help.
    Failed,
    /// It failed for good.
    FailedPermanent,
    /// A time limit ended it.
    TimedOut,
    /// It was silent for longer than its `progress_timeout` and was stopped.
    Stalled,
    /// Its lease ended in silence, or its node or shim died.
    Lost,
    /// It ended for a reason that is neither the job's nor the node's.
    Returned,
    /// It was stopped because the job was cancelled.
    Cancelled,
    /// It ended in order to wait for children. Its attempt goes on in a resume.
    Detached,
}

impl Outcome {
    /// All of them, for tables and tests.
    pub const ALL: [Self; 9] = [
        Self::Succeeded,
        Self::Failed,
        Self::FailedPermanent,
        Self::TimedOut,
        Self::Stalled,
        Self::Lost,
        Self::Returned,
        Self::Cancelled,
        Self::Detached,
    ];

    /// The word for it in SQL, in the CLI and in prose.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed_retryable",
            Self::FailedPermanent => "failed_permanent",
            Self::TimedOut => "timed_out",
            Self::Stalled => "stalled",
            Self::Lost => "lost",
            Self::Returned => "returned",
            Self::Cancelled => "cancelled",
            Self::Detached => "detached",
        }
    }
}

/// One ended execution. An only execution that succeeded has no such row: its times are columns of its job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// What it used, by counter.
    pub usage: Usage,
    /// The job.
    pub job: JobId,
    /// The token of its lease.
    pub token: FencingToken,
    /// 1-based; a returned execution repeats the number.
    pub attempt: u32,
    /// The round of the job.
    pub round: u32,
    /// Where it ran.
    pub node: NodeName,
    /// How it ended.
    pub outcome: Outcome,
    /// A short stable word: exit, signal, limit, lease_expired and so on.
    pub cause: Arc<str>,
    /// For people. At most 4 KiB.
    pub error: Arc<str>,
    /// If it exited.
    pub exit_code: Option<i32>,
    /// When its lease was granted.
    pub granted_at: Wall,
    /// When it started, if that is known.
    pub started_at: Option<Wall>,
    /// When its end was recorded.
    pub ended_at: Wall,
    /// What it left as its result is partial.
    pub partial: bool,
    /// The size of the newest checkpoint that it is known to have saved, in bytes.
    pub checkpoint_size: Option<u64>,
}
