//! Events: what happened. `State::evolve` is the only code that acts on them.
//!
//! *Durable* events change rows and are committed before anybody hears of them; *volatile* ones (heartbeats,
//! pressure, counters) change memory only. The text of an event, its line in a
//! trace, is `line.rs`.

mod line;

use std::sync::Arc;

use crate::{
    budget::Usage,
    cron::{CronEntry, CronPause, CronPlan, MissedFiring},
    deferral::Deferral,
    family::{Detached, Parked, WaitVerdict},
    ids::{
        CronName, FencingToken, JobId, KindName, NodeName, Ordinal, SessionId, SlotName, Tenant, WebhookName,
        WorkflowId,
    },
    job::{Job, JobState, Outcome, Wait},
    kind::{Kind, PausePolicy},
    lease::{Lease, Phase, RevokeReason, Stage},
    node::{Node, Pressure},
    place::{
        ClassId,
        earmarks::{Dropped, Earmark, Holder},
    },
    slots::Slot,
    state::breaker::Fallen,
    tenant::TenantPolicy,
    time::{Mono, Wall},
    webhook::{About, Delivery, DeliveryId, NewDelivery, Webhook},
    workflow::{Opened, Workflow, WorkflowState},
};

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    // Durable: fleet.
    /// A kind is declared, or declared anew.
    KindPut(Box<Kind>),
    /// A kind is declared no more.
    KindRemoved(KindName),
    /// A kind was paused or resumed.
    KindPaused {
        /// Which.
        kind: KindName,
        /// None: resumed.
        policy: Option<PausePolicy>,
    },
    /// A slot is declared, or changed.
    SlotPut(Slot),
    /// A slot is declared no more.
    SlotRemoved(SlotName),
    /// A tenant is declared, or declared anew.
    TenantPut {
        /// Which.
        tenant: Tenant,
        /// What the fleet file says of it.
        policy: TenantPolicy,
    },
    /// A tenant is declared no more.
    TenantRemoved(Tenant),

    /// A cron entry is declared, or declared anew.
    CronPut(Box<CronEntry>),
    /// A cron entry is declared no more.
    CronRemoved(CronName),
    /// A cron entry was paused, or resumed: then its timetable counts from now on.
    CronPaused {
        /// Which.
        entry: CronName,
        /// None: resumed.
        pause: Option<CronPause>,
    },
    /// A job was enqueued for a cron entry. Its payload, if there is any, is the entry's.
    CronFired {
        /// Which.
        entry: CronName,
        /// For which instant; none: an operator wanted it.
        instant: Option<Wall>,
        /// The job.
        job: JobId,
    },
    /// Instants of a cron entry did not become a job.
    CronMissed {
        /// Which.
        entry: CronName,
        /// What was missed, and why.
        missed: Box<MissedFiring>,
    },

    /// A webhook is declared, or declared anew.
    WebhookPut(Box<Webhook>),
    /// A webhook is declared no more, and nothing waits for it any more.
    WebhookRemoved(WebhookName),
    /// The receiver of a webhook said that it is gone, or an operator that it is there again.
    WebhookGone {
        /// Which.
        webhook: WebhookName,
        /// Since when; none: it is there again.
        gone: Option<Wall>,
    },
    /// Something is to be told to a webhook. It carries what it tells, of which the body is made.
    DeliveryAdded(Box<NewDelivery>),
    /// A try failed, or an operator wants more of them.
    DeliveryChanged(Box<Delivery>),
    /// A delivery has no row any more.
    DeliveryRemoved {
        /// Which.
        delivery: DeliveryId,
        /// To whom.
        webhook: WebhookName,
        /// It arrived; else it had failed, and was kept for long enough.
        arrived: bool,
    },

    // Durable: jobs.
    /// A job was stored.
    Enqueued(Box<Job>),
    /// Its time came: it is queued.
    Ready(JobId),
    /// A lease was decided: slots are charged, the job runs.
    Granted {
        /// The lease.
        lease: Box<Lease>,
        /// What the job waited for.
        waits: Vec<Wait>,
    },
    /// An execution ended, and this is what becomes of its job.
    AttemptEnded(Box<AttemptEnd>),
    /// A loss turned out to be another outcome: the node came back while nothing else had happened.
    LossReplaced(Box<AttemptEnd>),
    /// Somebody wants a running job to end.
    CancelRequested {
        /// Which.
        job: JobId,
        /// For people.
        reason: Arc<str>,
    },
    /// The wait for its children for which a job detached is over: it is queued.
    WaitOver(JobId),
    /// A job that does not run became final.
    Ended {
        /// Which.
        job: JobId,
        /// Cancelled, expired.
        state: JobState,
        /// For people.
        reason: Arc<str>,
    },
    /// A final job came back as a new round. It carries the whole job, which memory may not have held.
    Requeued(Box<Job>),
    /// A job's priority changed.
    Reprioritized {
        /// Which.
        job: JobId,
        /// The new one.
        priority: i8,
    },
    /// The members of its workflow before it ended as it wants: it is queued.
    Unblocked(JobId),
    /// A final job was removed.
    Deleted(JobId),
    /// An execution saved a checkpoint, whose bytes travel beside.
    Checkpointed {
        /// Of which job.
        job: JobId,
        /// By which execution.
        token: FencingToken,
        /// Its size in bytes.
        size: u64,
    },
    /// A result was removed.
    ResultDropped {
        /// Of which job.
        job: JobId,
        /// Of which execution.
        token: FencingToken,
    },

    // Durable: workflows.
    /// A workflow was stored. Its jobs follow.
    WorkflowSubmitted(Box<Workflow>),
    /// A gate opened before all of its members had ended, or against its policy.
    WorkflowOpened {
        /// Of which workflow.
        workflow: WorkflowId,
        /// Which.
        gate: u32,
        /// On what.
        opened: Opened,
    },
    /// Somebody wants a workflow to end.
    WorkflowCancelRequested {
        /// Which.
        workflow: WorkflowId,
        /// For people.
        reason: Arc<str>,
    },
    /// All members of a workflow have ended.
    WorkflowEnded {
        /// Which.
        workflow: WorkflowId,
        /// How.
        state: WorkflowState,
        /// For people.
        reason: Option<Arc<str>>,
    },
    /// A member of a workflow comes back, and the workflow with it, which memory may not have held. The jobs follow.
    WorkflowRequeued(Box<Workflow>),
    /// A final workflow was removed.
    WorkflowDeleted(WorkflowId),

    // Durable: leases and nodes.
    /// A process waits for children and stays: its lease gives back what its kind does not keep.
    Parked {
        /// Whose.
        job: JobId,
        /// Which lease.
        token: FencingToken,
        /// What for, and what it gives back.
        parked: Box<Parked>,
    },
    /// The wait of a parked process is over: its lease holds again what it gave back, or the process is to detach.
    Unparked {
        /// Whose.
        job: JobId,
        /// Which lease.
        token: FencingToken,
        /// Which of the two.
        verdict: WaitVerdict,
    },
    /// A lease is over; its fleet slots are free, its node slots are charged until its tree is gone.
    LeaseUnreaped(FencingToken),
    /// A lease is gone with everything that it held.
    LeaseGone(FencingToken),
    /// A lease lives on without slots: its tree is gone, and only the report of its end is to come.
    SlotsFreed(FencingToken),
    /// A lease runs out with its fleet slots only: another instance or another boot of its node said Hello.
    LeaseOrphaned(FencingToken),
    /// A node is new or changed.
    NodePut(Box<Node>),
    /// A node was removed.
    NodeForgotten(NodeName),

    // Volatile: sessions.
    /// A session began.
    SessionOpened {
        /// Of which node.
        node: NodeName,
        /// Which.
        session: SessionId,
        /// The `seq` of its Hello.
        seq: u64,
        /// Unanswered grants that it takes.
        credits: u32,
        /// What its rules closed.
        pressure: Pressure,
        /// Its agent hands an execution what it goes on from.
        inputs: bool,
    },
    /// A session ended.
    SessionClosed {
        /// Of which node.
        node: NodeName,
    },
    /// A node was heard.
    NodeHeard {
        /// Which.
        node: NodeName,
        /// The `seq` that was applied, if a whole message was.
        seq: Option<u64>,
        /// What the node has applied.
        seen: Ordinal,
    },
    /// A node has been silent for too long: it gets no grants.
    NodeSuspected(NodeName),
    /// A node's agent goes away: it gets no grants by this session.
    NodeLeaving(NodeName),
    /// A node's pressure reading changed.
    NodePressed {
        /// Which.
        node: NodeName,
        /// The reading.
        pressure: Pressure,
    },
    /// A session's outbound queue is full, or has room again.
    SessionBlocked {
        /// Of which node.
        node: NodeName,
        /// Whether it is full.
        blocked: bool,
    },
    /// A message was decided for a session.
    MessageSent {
        /// To which node.
        node: NodeName,
    },

    // Volatile: leases.
    /// A node told how far a lease is.
    Phased {
        /// Which.
        token: FencingToken,
        /// How far.
        phase: Phase,
        /// When its process started, if that is known.
        started_at: Option<Wall>,
    },
    /// A running attempt said how it gets on.
    Progressed {
        /// Of which lease.
        token: FencingToken,
        /// 0 to 100.
        percent: u8,
        /// For people.
        message: Arc<str>,
    },
    /// A lease was renewed.
    Renewed {
        /// Which.
        token: FencingToken,
        /// It ends then unless it is renewed again.
        expires: Mono,
    },
    /// A lease whose node fell silent with many others ends later than it would.
    Spared {
        /// Which.
        token: FencingToken,
        /// It ends then unless it is renewed.
        expires: Mono,
        /// How many fell silent at once.
        fallen: Fallen,
    },
    /// The server wants a lease back.
    Revoked {
        /// Which.
        token: FencingToken,
        /// Why.
        reason: RevokeReason,
    },

    /// A report named a slot to be throttled that is none of the fleet that its lease holds. Nothing came of it.
    NotThrottled {
        /// Of which lease.
        token: FencingToken,
        /// What it named.
        slot: SlotName,
    },

    /// A parked process has nothing to wait for any more: its lease wants back what it gave.
    Wants(FencingToken),

    // Volatile: webhooks.
    /// Something was not told to a webhook: too much waits for it, or ended at once.
    DeliveryDropped {
        /// Which.
        webhook: WebhookName,
        /// What.
        about: About,
    },

    // Volatile: cron.
    /// More of the timetable of a cron entry is known.
    CronPlanned(Box<CronPlan>),
    /// More of it has to be known before anything can be judged.
    CronUnplanned(CronName),

    // Volatile: placement.
    /// A window of the budget of a kind may have turned.
    BudgetTurned(KindName),
    /// The rate of a slot allows what somebody waits for.
    Refilled(SlotName),
    /// A class could not be placed.
    Deferred {
        /// Which.
        class: ClassId,
        /// The job at its head, which was tried.
        job: JobId,
        /// Why.
        reason: Deferral,
    },
    /// A node returned a class, and is not offered it for a while.
    Masked {
        /// Which node.
        node: NodeName,
        /// Which class.
        class: ClassId,
        /// The job that it returned.
        job: JobId,
        /// What it said.
        rule: Arc<str>,
        /// Until a pressure generation above this.
        generation: u64,
        /// Or until then.
        until: Mono,
    },
    /// A mask ended.
    Unmasked {
        /// Which node.
        node: NodeName,
        /// Which class.
        class: ClassId,
    },
    /// Units are kept for a job from now on.
    Earmarked(Box<Earmark>),
    /// They are kept no more.
    EarmarkDropped {
        /// Whose they were.
        holder: Holder,
        /// For which job.
        job: JobId,
        /// Where.
        node: NodeName,
        /// Why.
        why: Dropped,
    },
    /// A job failed, and its node may be what is to blame.
    Struck {
        /// Which node.
        node: NodeName,
        /// The kind of the job.
        kind: KindName,
        /// The job.
        job: JobId,
        /// The node is not offered the kind before this; none: too few of its jobs failed there.
        until: Option<Mono>,
    },
    /// A node is offered a kind again.
    BackoffOver {
        /// Which node.
        node: NodeName,
        /// Which kind.
        kind: KindName,
        /// What failed there is forgotten: a job succeeded, or an operator vouches for the node.
        forgotten: bool,
    },
    /// A job was set aside: if it waits, until an operator requeues or deletes it; if it runs, its lease does not end in
    /// silence.
    SetAside(JobId),
    /// A cron entry was set aside: no instant of it fires until an operator resumes it.
    CronSetAside(CronName),
    /// The nodes had time to come back: what is impossible may be said to be so.
    WarmedUp,
    /// Class timelines go to the store.
    TimelinesSaved(Vec<ClassId>),
}

/// How an execution ended, and what becomes of its job.
#[derive(Debug, Clone, PartialEq)]
pub struct AttemptEnd {
    /// The token of its lease.
    pub token: FencingToken,
    /// Its job.
    pub job: JobId,
    /// How.
    pub outcome: Outcome,
    /// A short stable word.
    pub cause: Arc<str>,
    /// For people.
    pub error: Arc<str>,
    /// If it exited.
    pub exit_code: Option<i32>,
    /// When it started, if that is known.
    pub started_at: Option<Wall>,
    /// The state of the job from now on.
    pub next: JobState,
    /// For people: why the job stands there.
    pub reason: Option<Arc<str>>,
    /// The row of the execution; none for an only execution that succeeded.
    pub keep_row: bool,
    /// What it used.
    pub usage: Usage,
    /// Result bytes travel beside and are to be kept.
    pub keep_result: bool,
    /// What it left as its result is partial.
    pub partial: bool,
    /// The size in bytes of its newest checkpoint, if one travels beside and is to be kept.
    pub checkpoint: Option<u64>,
    /// What becomes of the lease; none: it is gone.
    pub lease: Option<Stage>,
    /// What the job waits for, if it detached.
    pub detached: Option<Box<Detached>>,
}

impl Event {
    /// Whether it changes rows.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        match self {
            Self::KindPut(_)
            | Self::KindRemoved(_)
            | Self::KindPaused { .. }
            | Self::SlotPut(_)
            | Self::SlotRemoved(_)
            | Self::TenantPut { .. }
            | Self::TenantRemoved(_)
            | Self::CronPut(_)
            | Self::CronRemoved(_)
            | Self::CronPaused { .. }
            | Self::CronFired { .. }
            | Self::CronMissed { .. }
            | Self::WebhookPut(_)
            | Self::WebhookRemoved(_)
            | Self::WebhookGone { .. }
            | Self::DeliveryAdded(_)
            | Self::DeliveryChanged(_)
            | Self::DeliveryRemoved { .. }
            | Self::Enqueued(_)
            | Self::Ready(_)
            | Self::Granted { .. }
            | Self::AttemptEnded(_)
            | Self::LossReplaced(_)
            | Self::CancelRequested { .. }
            | Self::WaitOver(_)
            | Self::Parked { .. }
            | Self::Unparked { .. }
            | Self::Ended { .. }
            | Self::Requeued(_)
            | Self::Reprioritized { .. }
            | Self::Unblocked(_)
            | Self::WorkflowSubmitted(_)
            | Self::WorkflowOpened { .. }
            | Self::WorkflowCancelRequested { .. }
            | Self::WorkflowEnded { .. }
            | Self::WorkflowRequeued(_)
            | Self::WorkflowDeleted(_)
            | Self::Deleted(_)
            | Self::Checkpointed { .. }
            | Self::ResultDropped { .. }
            | Self::LeaseUnreaped(_)
            | Self::LeaseGone(_)
            | Self::SlotsFreed(_)
            | Self::LeaseOrphaned(_)
            | Self::NodePut(_)
            | Self::NodeForgotten(_) => true,
            Self::SessionOpened { .. }
            | Self::SessionClosed { .. }
            | Self::NodeHeard { .. }
            | Self::NodeSuspected(_)
            | Self::NodeLeaving(_)
            | Self::NodePressed { .. }
            | Self::SessionBlocked { .. }
            | Self::MessageSent { .. }
            | Self::Phased { .. }
            | Self::Progressed { .. }
            | Self::Renewed { .. }
            | Self::Spared { .. }
            | Self::Revoked { .. }
            | Self::NotThrottled { .. }
            | Self::DeliveryDropped { .. }
            | Self::CronPlanned(_)
            | Self::CronUnplanned(_)
            | Self::BudgetTurned(_)
            | Self::Refilled(_)
            | Self::Wants(_)
            | Self::Deferred { .. }
            | Self::Masked { .. }
            | Self::Unmasked { .. }
            | Self::Struck { .. }
            | Self::BackoffOver { .. }
            | Self::Earmarked(_)
            | Self::EarmarkDropped { .. }
            | Self::SetAside(_)
            | Self::CronSetAside(_)
            | Self::WarmedUp
            | Self::TimelinesSaved(_) => false,
        }
    }

    /// Whether a debug log wants a line for it: lifecycle yes, heartbeats no.
    #[must_use]
    pub fn is_notable(&self) -> bool {
        match self {
            Self::NodeHeard { .. }
            | Self::MessageSent { .. }
            | Self::Progressed { .. }
            | Self::Renewed { .. }
            | Self::NodePressed { .. }
            | Self::CronPlanned(_)
            | Self::CronUnplanned(_)
            | Self::Refilled(_)
            | Self::Deferred { .. }
            | Self::TimelinesSaved(_) => false,
            Self::KindPut(_)
            | Self::KindRemoved(_)
            | Self::KindPaused { .. }
            | Self::SlotPut(_)
            | Self::SlotRemoved(_)
            | Self::TenantPut { .. }
            | Self::TenantRemoved(_)
            | Self::CronPut(_)
            | Self::CronRemoved(_)
            | Self::CronPaused { .. }
            | Self::CronFired { .. }
            | Self::CronMissed { .. }
            | Self::WebhookPut(_)
            | Self::WebhookRemoved(_)
            | Self::WebhookGone { .. }
            | Self::DeliveryAdded(_)
            | Self::DeliveryChanged(_)
            | Self::DeliveryRemoved { .. }
            | Self::Enqueued(_)
            | Self::Ready(_)
            | Self::Granted { .. }
            | Self::AttemptEnded(_)
            | Self::LossReplaced(_)
            | Self::CancelRequested { .. }
            | Self::WaitOver(_)
            | Self::Parked { .. }
            | Self::Unparked { .. }
            | Self::Ended { .. }
            | Self::Requeued(_)
            | Self::Reprioritized { .. }
            | Self::Unblocked(_)
            | Self::WorkflowSubmitted(_)
            | Self::WorkflowOpened { .. }
            | Self::WorkflowCancelRequested { .. }
            | Self::WorkflowEnded { .. }
            | Self::WorkflowRequeued(_)
            | Self::WorkflowDeleted(_)
            | Self::Deleted(_)
            | Self::Checkpointed { .. }
            | Self::ResultDropped { .. }
            | Self::LeaseUnreaped(_)
            | Self::LeaseGone(_)
            | Self::SlotsFreed(_)
            | Self::LeaseOrphaned(_)
            | Self::NodePut(_)
            | Self::NodeForgotten(_)
            | Self::SessionOpened { .. }
            | Self::SessionClosed { .. }
            | Self::NodeSuspected(_)
            | Self::NodeLeaving(_)
            | Self::SessionBlocked { .. }
            | Self::Phased { .. }
            | Self::Spared { .. }
            | Self::Revoked { .. }
            | Self::NotThrottled { .. }
            | Self::DeliveryDropped { .. }
            | Self::BudgetTurned(_)
            | Self::Wants(_)
            | Self::Masked { .. }
            | Self::Unmasked { .. }
            | Self::Struck { .. }
            | Self::BackoffOver { .. }
            | Self::Earmarked(_)
            | Self::EarmarkDropped { .. }
            | Self::SetAside(_)
            | Self::CronSetAside(_)
            | Self::WarmedUp => true,
        }
    }
}
