//! Effects: what the outside is told. The driver releases them only after the commit.

use std::{sync::Arc, time::Duration};

use crate::{
    cron::CronEntry,
    family::{Child, WaitAnswer, WaitVerdict},
    ids::{Epoch, FencingToken, JobId, KindName, NodeName, Ordinal, SessionId, Tenant, WorkflowId},
    job::{Job, TraceContext},
    kind::Kind,
    lease::RevokeReason,
    refusal::LostCause,
    slots::{Needs, Slot},
    webhook::{Delivery, Webhook},
    workflow::Workflow,
};

/// Something that leaves after the commit.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// A message to a node, by the session in whose state it was decided; it dies with that session.
    Send {
        /// To whom.
        node: NodeName,
        /// By which stream.
        session: SessionId,
        /// Its place among all messages of the session. A transport message may carry several neighbours.
        ordinal: Ordinal,
        /// The highest `seq` of the node that was applied when this was decided: `seen`, and the anchor of grants.
        applied: u64,
        /// What it says.
        message: Message,
    },
    /// End a stream.
    CloseSession {
        /// Whose.
        node: NodeName,
        /// Which.
        session: SessionId,
        /// A reason of the table of errors: `SUPERSEDED_SESSION`, or `NODE_FORGOTTEN`.
        reason: &'static str,
    },
    /// The answer to the command, exactly one for each command of a producer or operator.
    Reply(Reply),
    /// The workflow changed, or one of its members: its watchers may look.
    NotifyWorkflow {
        /// Which.
        workflow: WorkflowId,
    },
    /// The job changed: its watchers may look.
    NotifyWatchers {
        /// Which.
        job: JobId,
    },
    /// Something may be due in the outbox: the deliverer may look.
    NotifyOutbox,
}

/// What the server says to a node.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// Answer to Hello.
    Welcome {
        /// In force.
        epoch: Epoch,
        /// Send a heartbeat this often.
        heartbeat_interval: Duration,
        /// The `seq` of the Hello.
        anchor: u64,
        /// Listed leases that live, with the length that counts from the anchor.
        renewed: Vec<(FencingToken, Duration)>,
        /// Names that the fleet does not declare, one sentence each.
        warnings: Vec<String>,
    },
    /// A new lease.
    Grant(Box<Grant>),
    /// Answer to a heartbeat.
    Renewed {
        /// The `seq` of the heartbeat.
        anchor: u64,
        /// Listed leases that live, with the length that counts from the anchor.
        leases: Vec<(FencingToken, Duration)>,
    },
    /// Stop these.
    Revoke {
        /// What, and why.
        leases: Vec<(FencingToken, RevokeReason)>,
    },
    /// The wait of a parked process is over.
    Resume {
        /// Its lease.
        token: FencingToken,
        /// Which wait.
        wait_epoch: u64,
        /// What it is to do.
        verdict: WaitVerdict,
    },
    /// Answer to one report.
    Stored(Stored),
    /// Take no more, finish, return the rest; or go on as before.
    Drain {
        /// Within this. None: the drain is over.
        deadline: Option<Duration>,
    },
    /// Another heartbeat interval.
    Configure {
        /// Send a heartbeat this often.
        heartbeat_interval: Duration,
    },
}

/// A new lease as its node gets it; the payload joins it on the way.
#[derive(Debug, Clone, PartialEq)]
pub struct Grant {
    /// The job.
    pub job: JobId,
    /// The token.
    pub token: FencingToken,
    /// The kind.
    pub kind: KindName,
    /// Whose work it is.
    pub tenant: Tenant,
    /// 1-based.
    pub attempt: u32,
    /// The whole lease.
    pub lease: Duration,
    /// What counts until the first renewal after `accepted`.
    pub first_lease: Duration,
    /// Refuse it if the anchor is older than this.
    pub start_window: Duration,
    /// From `started`.
    pub hard_time_limit: Duration,
    /// From `started`: it is asked to wrap up. Below `hard_time_limit`.
    pub soft_time_limit: Option<Duration>,
    /// It is stopped after so long a silence.
    pub progress_timeout: Option<Duration>,
    /// The job was granted before: what an earlier execution left for this one joins it on the way, if there is anything.
    pub again: bool,
    /// What remains of `stale_after`.
    pub stale_in: Option<Duration>,
    /// The node slots that it takes.
    pub slots: Needs,
    /// The dedupe key, else the job id.
    pub idempotency_key: String,
    /// The parent.
    pub parent: Option<JobId>,
    /// W3C trace context.
    pub trace: Option<Arc<TraceContext>>,
    /// What it goes on from, if the job detached before; none: it begins.
    pub resume: Option<Box<Resume>>,
    /// How many members of its workflow it is handed the results of; none: it waited for none.
    pub inputs: Option<u32>,
}

/// What the execution of a job that has detached goes on from. The bytes are read by their keys on the way: the state
/// under this job and token, results under each child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resume {
    /// The execution that detached.
    pub token: FencingToken,
    /// Whether it left a state.
    pub has_state: bool,
    /// The children in the order in which they were named, each with its end. One without an end has not ended: the wait
    /// took too long, or did not need it.
    pub children: Vec<Child>,
}

/// The answer to a report that needs one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Its token.
    pub token: FencingToken,
    /// Which report.
    pub report: ReportKind,
    /// What became of it.
    pub verdict: Verdict,
    /// The state of the job, if there is one.
    pub job_state: Option<&'static str>,
}

/// Reports that are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportKind {
    /// `finished`.
    Finished,
    /// `returned`.
    Returned,
    /// `reaped`.
    Reaped,
}

/// What became of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is stored, or was before.
    Stored,
    /// Its lease is gone; it changed nothing.
    LeaseLost(LostCause),
    /// The server could not store it, by a fault of its own. Said by the driver only.
    Broken,
}

/// The answer to a producer or an operator.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// To Apply: what changed, one line each.
    Applied {
        /// Empty: nothing.
        changes: Vec<String>,
    },
    /// To Enqueue and RunCron.
    Enqueued {
        /// The job; the first one if deduplicated.
        job: Box<Job>,
        /// Nothing was stored.
        deduplicated: bool,
    },
    /// To Cancel, Requeue, Reprioritize.
    Job {
        /// After the command.
        job: Box<Job>,
        /// Whether anything changed.
        changed: bool,
    },
    /// To SubmitWorkflow, CancelWorkflow and RequeueMember.
    Workflow {
        /// After the command.
        workflow: Box<Workflow>,
        /// Whether anything changed.
        changed: bool,
    },
    /// To BeginWait.
    Wait {
        /// What the process is to do.
        answer: WaitAnswer,
        /// The node slots that its lease holds now.
        kept: Needs,
    },
    /// To Delete.
    Deleted {
        /// As it stood.
        job: Box<Job>,
    },
    /// To PauseKind and ResumeKind.
    Kind {
        /// After the command.
        kind: Box<Kind>,
        /// Whether anything changed.
        changed: bool,
    },
    /// To PauseSlot, ResumeSlot, SetCapacity.
    Slot {
        /// After the command.
        slot: Box<Slot>,
        /// Whether anything changed.
        changed: bool,
    },
    /// To Cordon, Uncordon, Drain. The view of the node is read from the state.
    Node {
        /// Which.
        node: NodeName,
        /// Whether anything changed.
        changed: bool,
    },
    /// To PauseCron and ResumeCron.
    Cron {
        /// After the command.
        entry: Box<CronEntry>,
        /// Whether anything changed.
        changed: bool,
    },
    /// To SettleDeliveries.
    Settled,
    /// To Redeliver and TestWebhook.
    Delivery {
        /// After the command.
        delivery: Box<Delivery>,
        /// Whether anything changed.
        changed: bool,
    },
    /// To ResumeWebhook.
    Webhook {
        /// After the command.
        webhook: Box<Webhook>,
        /// Whether anything changed.
        changed: bool,
    },
    /// To Forget.
    Forgotten {
        /// Which.
        node: NodeName,
        /// Leases that ended as losses.
        ended: u32,
    },
    /// To Sweep.
    Swept {
        /// Jobs removed.
        jobs: u32,
        /// Results removed.
        results: u32,
        /// Workflows removed.
        workflows: u32,
    },
}
