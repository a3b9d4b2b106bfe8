//! Commands: everything that may change the state. What memory cannot know was looked up before and travels along.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use crate::{
    budget::Usage,
    cron::CronPlan,
    family::{Detach, OnParent, WaitPolicy},
    ids::{
        ConcurrencyKey, CronName, DedupeKey, FencingToken, Fingerprint, JobId, KindName, NodeName, Ordinal,
        Producer, SessionId, SlotName, Tenant, WebhookName, WorkflowId,
    },
    job::{Job, TraceContext},
    kind::{Fleet, PausePolicy},
    lease::Phase,
    node::{Host, Pressure},
    selector::{Preferences, Selector},
    slots::Needs,
    time::Wall,
    webhook::{DeliveryId, Tried},
    workflow::{Shape, Workflow},
};

/// Something that a producer, an operator, a node or the clock wants.
#[derive(Debug, Clone)]
pub enum Command {
    /// Make kinds, slots and tenants those of a fleet file.
    Apply {
        /// The file.
        fleet: Box<Fleet>,
        /// List the changes only.
        validate_only: bool,
    },
    /// Store a job.
    Enqueue(Box<Enqueue>),
    /// End a job.
    Cancel {
        /// Which.
        job: JobId,
        /// Kept as the job's reason.
        reason: Option<Arc<str>>,
        /// The job, if memory does not hold it.
        prior: Option<Box<Job>>,
    },
    /// Take a dead or cancelled job back.
    Requeue {
        /// Which.
        job: JobId,
        /// Free it from an execution that is not known to be gone.
        force: bool,
        /// The job, if memory does not hold it.
        prior: Option<Box<Job>>,
        /// Whether a stored job that memory does not hold holds its dedupe key: it kept the key when it became final,
        /// before the kind's keys were `live`.
        key_taken: bool,
    },
    /// Change the priority of a live job.
    Reprioritize {
        /// Which.
        job: JobId,
        /// −100 to 100.
        priority: i8,
        /// The job, if memory does not hold it.
        prior: Option<Box<Job>>,
    },
    /// Store the jobs of a workflow, all or none.
    SubmitWorkflow(Box<Submit>),
    /// End all members of a workflow that have not ended.
    CancelWorkflow {
        /// Which.
        workflow: WorkflowId,
        /// Kept as the workflow's reason.
        reason: Option<Arc<str>>,
        /// The workflow, if memory does not hold it.
        prior: Option<Box<Workflow>>,
    },
    /// Take a dead or cancelled member of a workflow back, and what is behind it.
    RequeueMember(Box<RequeueMember>),
    /// Remove a final job.
    Delete {
        /// Which.
        job: JobId,
        /// Check only.
        validate_only: bool,
        /// The job, if memory does not hold it.
        prior: Option<Box<Job>>,
    },
    /// Start no more jobs of a kind.
    PauseKind {
        /// Which.
        kind: KindName,
        /// What its enqueues meet.
        policy: PausePolicy,
    },
    /// End the pause of a kind.
    ResumeKind {
        /// Which.
        kind: KindName,
    },
    /// Start no more jobs that need a slot.
    PauseSlot {
        /// Which.
        slot: SlotName,
        /// For how long; none: until it is resumed.
        duration: Option<Duration>,
    },
    /// End the pause of a slot.
    ResumeSlot {
        /// Which.
        slot: SlotName,
    },
    /// Change the capacity of a fleet slot.
    SetCapacity {
        /// Which.
        slot: SlotName,
        /// Units in all.
        capacity: u32,
    },
    /// Give a node no more grants.
    Cordon {
        /// Which.
        node: NodeName,
    },
    /// End cordon and drain of a node.
    Uncordon {
        /// Which.
        node: NodeName,
    },
    /// Empty a node.
    Drain {
        /// Which.
        node: NodeName,
        /// What still runs then is stopped.
        deadline: Duration,
    },
    /// Remove a node.
    Forget {
        /// Which.
        node: NodeName,
        /// Its host is dead: end its leases as losses.
        lost: bool,
        /// Check only.
        validate_only: bool,
    },
    /// A node begins a session.
    Hello(Box<Hello>),
    /// A node lives, and lists what it holds.
    Heartbeat(Box<Heartbeat>),
    /// A node says something about one lease.
    Report(Box<Report>),
    /// A process wants to wait for children without ending.
    BeginWait(Box<BeginWait>),
    /// An agent is about to stop.
    NodeDraining {
        /// Whose.
        node: NodeName,
        /// By which stream.
        session: SessionId,
        /// The `seq` of the message.
        seq: u64,
        /// What the node has applied.
        seen: Ordinal,
        /// It comes back soon: its leases live on.
        restart: bool,
    },
    /// A session ended.
    SessionClosed {
        /// Whose.
        node: NodeName,
        /// Which.
        session: SessionId,
    },
    /// The session's outbound queue is full, or has room again. While it is full the node gets no grants.
    SessionBlocked {
        /// Whose.
        node: NodeName,
        /// Which.
        session: SessionId,
        /// Whether it is full.
        blocked: bool,
    },
    /// Remove final jobs and results whose time is over. What is not final, is held by a lease or may be read by a
    /// live parent stays.
    Sweep {
        /// Final jobs, as they were read.
        jobs: Vec<Job>,
        /// Results.
        results: Vec<DueResult>,
        /// Final workflows without a job.
        workflows: Vec<WorkflowId>,
    },
    /// Storing a change of this job failed alone: a waiting job is left alone until an operator requeues or deletes it;
    /// the lease of a running one does not end in silence.
    SetAside {
        /// Which.
        job: JobId,
    },
    /// Storing a firing of this entry failed alone: none fires until an operator resumes it.
    SetAsideCron {
        /// Which.
        entry: CronName,
    },
    /// The next instants of a cron entry, of which more had to be known. Of the driver.
    PlanCron(Box<CronPlan>),
    /// Fire no instant of a cron entry.
    PauseCron {
        /// Which.
        entry: CronName,
        /// Who wants that, for people.
        by: Arc<str>,
    },
    /// End the pause of a cron entry. What came meanwhile is not made up for.
    ResumeCron {
        /// Which.
        entry: CronName,
    },
    /// Enqueue a job of a cron entry now.
    RunCron {
        /// Which.
        entry: CronName,
        /// Made by the caller or by the server. The same again is the same call.
        job: JobId,
        /// The job, if memory does not hold it.
        prior: Option<Box<Job>>,
    },
    /// What became of tries to deliver. What has waited or been kept for too long goes with it. Of the deliverer.
    SettleDeliveries {
        /// One each.
        tried: Vec<Tried>,
    },
    /// Send a delivery that has not arrived, as often as a new one.
    Redeliver {
        /// Which.
        delivery: DeliveryId,
    },
    /// Send something to a webhook that is about nothing.
    TestWebhook {
        /// Which.
        webhook: WebhookName,
    },
    /// Send to a webhook again whose receiver was gone.
    ResumeWebhook {
        /// Which.
        webhook: WebhookName,
    },
    /// Do what is due, then place.
    Tick,
}

/// A result whose time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DueResult {
    /// The job.
    pub job: JobId,
    /// The token of the execution.
    pub token: FencingToken,
    /// The parent of the job, which may still want to read it.
    pub parent: Option<JobId>,
    /// The workflow of the job, whose members may still want to read it.
    pub workflow: Option<WorkflowId>,
}

/// A workflow to be stored, validated as far as that needs no state.
#[derive(Debug, Clone)]
pub struct Submit {
    /// Made by the caller.
    pub id: WorkflowId,
    /// Who submits it.
    pub producer: Producer,
    /// For people.
    pub name: Option<Arc<str>>,
    /// Of the shape and of all jobs.
    pub fingerprint: Fingerprint,
    /// How its members stand to each other.
    pub shape: Arc<Shape>,
    /// The members by place, each with the id that is derived from that of the workflow.
    pub jobs: Vec<Enqueue>,
    /// Judge only.
    pub validate_only: bool,
    /// The workflow with this id, if memory does not hold it.
    pub prior: Option<Box<Workflow>>,
}

/// A member of a workflow to be taken back.
#[derive(Debug, Clone)]
pub struct RequeueMember {
    /// Which workflow.
    pub workflow: WorkflowId,
    /// Which member, from 0.
    pub place: u32,
    /// The workflow, if memory does not hold it.
    pub prior: Option<Box<Workflow>>,
    /// Those of the member and of all behind it that memory does not hold.
    pub prior_jobs: Vec<Job>,
}

/// A job to be stored, validated as far as that needs no state.
#[derive(Debug, Clone)]
pub struct Enqueue {
    /// Made by the caller or by the server.
    pub job: JobId,
    /// Who enqueues.
    pub producer: Producer,
    /// Whose work it is, if it says so. A child's is its parent's: another one is refused.
    pub tenant: Option<Tenant>,
    /// Whose work it is if neither it nor a parent says so.
    pub default_tenant: Tenant,
    /// Its kind.
    pub kind: KindName,
    /// Of kind, payload, content type and dedupe key.
    pub fingerprint: Fingerprint,
    /// In bytes.
    pub payload_size: u64,
    /// Its business identity.
    pub dedupe_key: Option<DedupeKey>,
    /// What it shares with jobs of its kind that may not all run at once, if it names that.
    pub concurrency_key: Option<ConcurrencyKey>,
    /// If it names its own. That of a child is brought within what its parent and its root allow.
    pub priority: Option<i8>,
    /// Not before.
    pub run_at: Option<Wall>,
    /// Not before this long after now. Not together with `run_at`.
    pub delay: Option<Duration>,
    /// Instead of its kind's.
    pub stale_after: Option<Duration>,
    /// For people and filters.
    pub labels: BTreeMap<String, String>,
    /// Node labels, and-ed with its kind's.
    pub selector: Selector,
    /// Which nodes it would rather have.
    pub prefer: Preferences,
    /// Instead of its kind's.
    pub needs: Option<Needs>,
    /// May only shorten its kind's.
    pub hard_time_limit: Option<Duration>,
    /// May only shorten its kind's, and is below the hard limit.
    pub soft_time_limit: Option<Duration>,
    /// A live job of the same producer.
    pub parent: Option<JobId>,
    /// What becomes of it when its parent is cancelled.
    pub on_parent_cancel: OnParent,
    /// What becomes of it when an execution of its parent is lost.
    pub on_parent_lost: OnParent,
    /// The lease of the parent under which it is enqueued: it has to be live. None: it comes from outside.
    pub lease: Option<LeaseName>,
    /// W3C trace context.
    pub trace: Option<Arc<TraceContext>>,
    /// What its producer may give a child: only with the parent can that be judged.
    pub limits: ProducerLimits,
    /// Jobs that memory does not hold: under this id, and under this dedupe key.
    pub prior: Prior,
}

impl Enqueue {
    /// One that asks for nothing but its kind, of the producer `local`, with an empty payload. The rest is for the caller to
    /// fill in.
    #[must_use]
    pub fn new(job: JobId, kind: KindName, default_tenant: Tenant) -> Self {
        Self {
            job,
            producer: Producer::new("local"),
            tenant: None,
            default_tenant,
            kind,
            fingerprint: Fingerprint([0; 32]),
            payload_size: 0,
            dedupe_key: None,
            concurrency_key: None,
            priority: None,
            run_at: None,
            delay: None,
            stale_after: None,
            labels: BTreeMap::new(),
            selector: Selector::default(),
            prefer: Preferences::default(),
            needs: None,
            hard_time_limit: None,
            soft_time_limit: None,
            parent: None,
            on_parent_cancel: OnParent::Cancel,
            on_parent_lost: OnParent::Keep,
            lease: None,
            trace: None,
            limits: ProducerLimits::default(),
            prior: Prior::default(),
        }
    }
}

/// A lease, as the node that holds it names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseName {
    /// The node.
    pub node: NodeName,
    /// Its job.
    pub job: JobId,
    /// Its token.
    pub token: FencingToken,
}

/// What a producer is limited to, of what a child may have from its parent. An absent part limits nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProducerLimits {
    /// Whose work it may enqueue.
    pub tenants: Option<BTreeSet<Tenant>>,
    /// The highest priority that it may give. A child has a higher one only where somebody else gave that to its
    /// parent.
    pub max_priority: Option<i8>,
}

/// What the store knows of an enqueue's identities.
#[derive(Debug, Clone, Default)]
pub struct Prior {
    /// The job with this id.
    pub by_id: Option<Box<Job>>,
    /// The job that holds this dedupe key.
    pub by_key: Option<Box<Job>>,
}

/// First message of a session.
#[derive(Debug, Clone)]
pub struct Hello {
    /// The node's name.
    pub node: NodeName,
    /// The stream that it came by.
    pub session: SessionId,
    /// Its `seq` there.
    pub seq: u64,
    /// Random, made once with the state directory.
    pub instance: Arc<str>,
    /// Of the host.
    pub boot_id: Arc<str>,
    /// Plus one at each start of the agent.
    pub incarnation: u64,
    /// The count of Hellos in that incarnation.
    pub stream: u64,
    /// Routing labels.
    pub labels: BTreeMap<String, String>,
    /// What it offers.
    pub slots: BTreeMap<SlotName, u32>,
    /// What it runs.
    pub kinds: Vec<KindName>,
    /// What its host offers.
    pub host: Host,
    /// For people.
    pub agent_version: Arc<str>,
    /// It hands an execution what it goes on from: an agent of an earlier version would let it begin with nothing.
    pub inputs: bool,
    /// What its rules closed.
    pub pressure: Pressure,
    /// The highest epoch it ever saw. The driver has raised its own above it before this is applied.
    pub max_epoch_seen: u64,
    /// Every lease held.
    pub held: Vec<Held>,
    /// The whole spool.
    pub unstored: Vec<(JobId, FencingToken)>,
    /// How many unanswered grants it takes at once. At least 1.
    pub credits: u32,
}

/// One lease that a node lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// Its job.
    pub job: JobId,
    /// Its token.
    pub token: FencingToken,
    /// How far it is.
    pub phase: Phase,
    /// For how long its process has been running.
    pub elapsed: Duration,
    /// The wait in which it is parked; none: it is not.
    pub wait_epoch: Option<u64>,
}

/// What a process that stays waits for.
#[derive(Debug, Clone)]
pub struct BeginWait {
    /// Its lease.
    pub lease: LeaseName,
    /// Which wait of this lease it is: higher than those before. The same again is the same call.
    pub wait_epoch: u64,
    /// Children of the job, in its order.
    pub children: Vec<JobId>,
    /// When it goes on.
    pub policy: WaitPolicy,
    /// It goes on after this long with the ends that there are; none: it waits for as long as it takes.
    pub max_wait: Option<Duration>,
    /// Those of the children that memory does not hold.
    pub prior: Vec<Job>,
}

/// Liveness.
#[derive(Debug, Clone)]
pub struct Heartbeat {
    /// Whose.
    pub node: NodeName,
    /// By which stream.
    pub session: SessionId,
    /// Its `seq` there.
    pub seq: u64,
    /// What the node has applied.
    pub seen: Ordinal,
    /// Every lease held.
    pub held: Vec<Held>,
    /// What its rules closed.
    pub pressure: Pressure,
}

/// One statement about one lease.
#[derive(Debug, Clone)]
pub struct Report {
    /// Whose.
    pub node: NodeName,
    /// By which stream.
    pub session: SessionId,
    /// The `seq` of its message, on the last report of that message; before, none.
    pub seq: Option<u64>,
    /// What the node has applied.
    pub seen: Ordinal,
    /// The job.
    pub job: JobId,
    /// The token.
    pub token: FencingToken,
    /// What happened.
    pub statement: Statement,
    /// The job, if memory does not hold it.
    pub prior: Option<Box<Job>>,
}

/// What a report says.
#[derive(Debug, Clone, PartialEq)]
pub enum Statement {
    /// The node will start it.
    Accepted,
    /// Its process runs.
    Started {
        /// For how long already.
        elapsed: Duration,
    },
    /// It is getting on. Not kept.
    Progress {
        /// 0 to 100.
        percent: u8,
        /// For people.
        message: Arc<str>,
    },
    /// It saved a checkpoint, whose bytes travel beside this command.
    Checkpoint {
        /// Its size in bytes.
        size: u64,
    },
    /// Its command has ended.
    Finished(Finish),
    /// Its process tree is gone.
    Reaped,
    /// It never started, or it was stopped and its tree is gone; neither its own fault nor the node's.
    Returned(Return),
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Finish {
    /// How.
    pub how: FinishedHow,
    /// If it exited.
    pub exit_code: Option<i32>,
    /// A short stable word.
    pub cause: Arc<str>,
    /// For people.
    pub error: Arc<str>,
    /// The earliest retry that the job asked for.
    pub retry_after: Option<Duration>,
    /// Its provider wants no more for a while. Heeded in failures, for a fleet slot that the lease holds.
    pub throttled: Option<Throttled>,
    /// What the attempt used. At most 16 counters. It is charged to the budget of its kind, whatever the end.
    pub usage: Usage,
    /// Whether result bytes travel beside this command; of an execution that detached, its state.
    pub has_result: bool,
    /// Whether it had been asked to wrap up, or was killed, before it was done: what travels beside as its result is
    /// partial.
    pub partial: bool,
    /// The size in bytes of its newest checkpoint, if one travels beside this command.
    pub checkpoint: Option<u64>,
    /// What it waits for, if it detached.
    pub detach: Option<Box<Detach>>,
}

impl Finish {
    /// An end with the cause `exit`, of which nothing else is said.
    #[must_use]
    pub fn new(how: FinishedHow) -> Self {
        Self {
            how,
            exit_code: None,
            cause: "exit".into(),
            error: "".into(),
            retry_after: None,
            throttled: None,
            usage: Usage::new(),
            has_result: false,
            partial: false,
            checkpoint: None,
            detach: None,
        }
    }
}

/// What a provider said: not before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Throttled {
    /// The slot that stands for it.
    pub slot: SlotName,
    /// For how long. Less than 1 s counts as that, more than 24 h as 24 h.
    pub retry_after: Duration,
}

/// What a node may say of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishedHow {
    /// Exit code 0.
    Succeeded,
    /// Another attempt may help, unless the exit code is permanent for its kind.
    Failed,
    /// It failed for good.
    FailedPermanent,
    /// A time limit ended it.
    TimedOut,
    /// It was silent for too long and was stopped.
    Stalled,
    /// It was killed on the server's order.
    Revoked,
    /// Nobody knows how it ended.
    Lost,
    /// It ended in order to wait for children.
    Detached,
}

/// Why a grant was given back.
#[derive(Debug, Clone, PartialEq)]
pub struct Return {
    /// The rule or reason. `stale`: the job ends expired.
    pub rule: Arc<str>,
    /// What the rule read.
    pub observed: f64,
    /// Its close value.
    pub threshold: f64,
    /// The pressure generation in which it was refused.
    pub generation: u64,
    /// When the class may be offered there again; none: 30 s.
    pub retry_after: Option<Duration>,
    /// Whether it had started.
    pub started: bool,
    /// What the attempt used. At most 16 counters. It is charged to the budget of its kind.
    pub usage: Usage,
    /// Whether what it had written by its end travels beside this command, to be kept as a partial result. Heeded if it had
    /// started.
    pub has_result: bool,
    /// The size in bytes of its newest checkpoint, if one travels beside this command.
    pub checkpoint: Option<u64>,
}
