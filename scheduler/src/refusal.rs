//! Refusals: every way to say no to a caller. A refusal leaves no trace in the state.

use std::{sync::Arc, time::Duration};

use crate::{
    ids::{
        CounterName, CronName, FencingToken, JobId, KindName, NodeName, Producer, SlotName, Tenant,
        WebhookName, WorkflowId,
    },
    webhook::DeliveryId,
};

/// Why a command was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The fleet declares no such kind. The producer mends the name, or an operator applies it.
    #[error("kind {kind} is not declared")]
    KindNotFound {
        /// What was asked for.
        kind: KindName,
        /// Declared names that are close to it.
        nearest: Vec<KindName>,
    },
    /// The fleet declares no such slot.
    #[error("slot {slot} is not declared")]
    SlotNotFound {
        /// What was asked for.
        slot: SlotName,
        /// Declared names that are close to it.
        nearest: Vec<SlotName>,
    },
    /// The fleet declares no such cron entry.
    #[error("cron entry {entry} is not declared")]
    CronNotFound {
        /// What was asked for.
        entry: CronName,
        /// Declared names that are close to it.
        nearest: Vec<CronName>,
    },
    /// The fleet declares no such webhook.
    #[error("webhook {webhook} is not declared")]
    WebhookNotFound {
        /// What was asked for.
        webhook: WebhookName,
        /// Declared names that are close to it.
        nearest: Vec<WebhookName>,
    },
    /// The fleet file changes webhooks, and whoever applies it may not: only an admin may.
    #[error("the fleet file changes webhooks ({changes}), which only an admin may")]
    WebhooksNotAllowed {
        /// What it would change.
        changes: String,
    },
    /// No such delivery, or no longer: it arrived.
    #[error("delivery {delivery} is not known; one that arrived is not kept")]
    DeliveryNotFound {
        /// What was asked for.
        delivery: DeliveryId,
    },
    /// Too much waits for a webhook already.
    #[error("{limit} deliveries wait for webhook {webhook}, which is as much as may")]
    OutboxFull {
        /// Which.
        webhook: WebhookName,
        /// How many may wait.
        limit: u64,
    },
    /// No such node was ever heard of.
    #[error("node {node} is not known")]
    NodeNotFound {
        /// What was asked for.
        node: NodeName,
        /// Known names that are close to it.
        nearest: Vec<NodeName>,
    },
    /// No such job, or no longer.
    #[error("job {job} is not known")]
    JobNotFound {
        /// What was asked for.
        job: JobId,
    },
    /// Fields that only the scheduler can judge.
    #[error("{field}: {problem}")]
    InvalidField {
        /// The path of the field.
        field: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// The same job id came before with another fingerprint, or from another producer.
    #[error("job id {job} was used for another job")]
    JobIdReused {
        /// The id.
        job: JobId,
    },
    /// The needs are beyond every node ever registered, or beyond a fleet capacity.
    #[error("no node and no fleet capacity can ever satisfy the needs")]
    ImpossibleNeeds {
        /// Every slot that is short.
        short: Vec<ImpossibleNeed>,
    },
    /// The kind is paused and refuses. An operator resumes it.
    #[error("kind {kind} is paused and takes no jobs")]
    KindPaused {
        /// The kind.
        kind: KindName,
    },
    /// The budget of the kind is spent, and it refuses then. Waiting helps: the window turns.
    #[error("the budget of kind {kind} is spent: {counter}")]
    BudgetExhausted {
        /// The kind.
        kind: KindName,
        /// The counter that is spent.
        counter: CounterName,
        /// What may be spent of it in each window.
        limit: u64,
        /// When its window turns.
        retry_after: Duration,
    },
    /// The queue of the kind is at its cap. Waiting helps.
    #[error("the queue of kind {kind} is full: {depth} of {cap}")]
    QueueFull {
        /// The kind.
        kind: KindName,
        /// Its cap.
        cap: u32,
        /// Jobs that are queued or scheduled.
        depth: u32,
        /// When the depth is expected below the cap.
        retry_after: Duration,
    },
    /// It would be stale before it could start.
    #[error("the job would expire before its earliest start")]
    AlreadyStale,
    /// The parent is not live, is being cancelled, or belongs to another producer.
    #[error("parent {parent} is not a live job of this producer")]
    ParentNotLive {
        /// The parent.
        parent: JobId,
    },
    /// The tenant of the parent is none that the producer may enqueue for, or no longer.
    #[error("producer {producer} may not enqueue jobs for tenant {tenant}")]
    TenantNotAllowed {
        /// Who enqueues.
        producer: Producer,
        /// The tenant of the parent.
        tenant: Tenant,
    },
    /// The child could never run beside what its ancestors keep of their slots while they wait for it. They let go of it
    /// while they wait (`keep_on_wait`), or it asks for less.
    #[error(
        "the child needs {asked} of slot {slot}, and {holder} keeps so much of it while it waits that it could never start"
    )]
    WouldDeadlock {
        /// The slot.
        slot: SlotName,
        /// What the child needs of it.
        asked: u32,
        /// The ancestor that keeps it.
        holder: JobId,
    },
    /// The tree of jobs has grown to its limit.
    #[error("the tree of jobs is at its limit: {guard} {limit}")]
    TreeLimit {
        /// Which: depth, children, descendants.
        guard: &'static str,
        /// The limit.
        limit: u32,
    },
    /// Too many different classes of queued jobs.
    #[error("too many distinct combinations of kind, needs, selector and tenant: {limit}")]
    ClassLimit {
        /// The limit.
        limit: u32,
    },
    /// Too many live jobs.
    #[error("the job table is full: {limit} live jobs")]
    StoreFull {
        /// The limit.
        limit: u64,
    },
    /// The job is final, so this cannot be done to it.
    #[error("job {job} is {state}")]
    JobFinal {
        /// The job.
        job: JobId,
        /// Its state.
        state: &'static str,
    },
    /// The job is not final, so this cannot be done to it.
    #[error("job {job} is {state}, not final")]
    JobNotFinal {
        /// The job.
        job: JobId,
        /// Its state.
        state: &'static str,
    },
    /// No such workflow, or no longer.
    #[error("workflow {workflow} is not known")]
    WorkflowNotFound {
        /// What was asked for.
        workflow: WorkflowId,
    },
    /// The same workflow id came before with another content, or from another producer.
    #[error("workflow id {workflow} was used for another workflow")]
    WorkflowIdReused {
        /// The id.
        workflow: WorkflowId,
    },
    /// The workflow is final, or is being cancelled, so this cannot be done to it.
    #[error("workflow {workflow} is {state}")]
    WorkflowFinal {
        /// The workflow.
        workflow: WorkflowId,
        /// Its state.
        state: &'static str,
    },
    /// The job is a member of a workflow, which reads its result while it lives, or to which it comes back.
    #[error("job {job} is a member of workflow {workflow}, through which this is done")]
    JobOfWorkflow {
        /// The job.
        job: JobId,
        /// The workflow.
        workflow: WorkflowId,
    },
    /// What is behind the member in its workflow ran, or runs, on the result that it had. That one is requeued instead,
    /// or ends first.
    #[error("job {by}, which is {state}, took the result of job {job}")]
    ResultTaken {
        /// The member.
        job: JobId,
        /// Whoever took its result.
        by: JobId,
        /// The state of that job.
        state: &'static str,
    },
    /// A member of a final workflow was deleted, so that the others cannot come back: nobody knows how it ended.
    #[error("job {job} of workflow {workflow} is not stored any more")]
    MemberGone {
        /// The first such member.
        job: JobId,
        /// Its workflow.
        workflow: WorkflowId,
    },
    /// One member of a workflow is refused, and the workflow with it.
    #[error("member {place}: {refusal}")]
    OfMember {
        /// Its place, from 0.
        place: u32,
        /// Why.
        refusal: Box<Refusal>,
    },
    /// A fleet slot was asked for.
    #[error("slot {slot} is a node slot: each node reports its own capacity")]
    NotAFleetSlot {
        /// The slot.
        slot: SlotName,
    },
    /// The fleet file would orphan something.
    #[error("the fleet file cannot be applied")]
    FleetConflict {
        /// Every conflict, for people.
        conflicts: Vec<String>,
    },
    /// Leases of the node live.
    #[error("node {node} still holds {leases} leases")]
    NodeHoldsLeases {
        /// The node.
        node: NodeName,
        /// How many.
        leases: u32,
    },
    /// A session of the node is live.
    #[error("node {node} is connected")]
    NodeConnected {
        /// The node.
        node: NodeName,
    },
    /// Another live instance has this name.
    #[error("node name {node} is held by another live instance")]
    NodeNameInUse {
        /// The name.
        node: NodeName,
    },
    /// A newer stream of the node took over, or this one is not newer than the known one.
    #[error("this session is superseded")]
    SupersededSession,
    /// The node saw an epoch that this leader cannot believe.
    #[error("the node saw epoch {seen}, which is too far ahead of {epoch}")]
    EpochAhead {
        /// What it saw.
        seen: u64,
        /// The epoch in force.
        epoch: u64,
    },
    /// The lease is gone; the report changed nothing.
    #[error("lease {token} is gone: {}", cause.name())]
    LeaseLost {
        /// The token that was shown.
        token: FencingToken,
        /// Why it is gone.
        cause: LostCause,
        /// The state of the job, if there is one.
        job_state: Option<&'static str>,
    },
}

/// A need that nothing can satisfy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImpossibleNeed {
    /// The slot.
    pub slot: SlotName,
    /// What was asked for.
    pub asked: u32,
    /// The most that any node, or the fleet, has.
    pub most: u32,
}

/// Why a lease is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostCause {
    /// A newer token exists, or the token was never granted to this node.
    StaleToken,
    /// Another instance or another boot of the node said Hello: what an earlier one runs is not heard.
    SupersededSession,
    /// The lease ended in silence.
    Expired,
    /// The job was cancelled.
    Cancelled,
}

impl LostCause {
    /// The word for it on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::StaleToken => "STALE_TOKEN",
            Self::SupersededSession => "SUPERSEDED_SESSION",
            Self::Expired => "EXPIRED",
            Self::Cancelled => "CANCELLED",
        }
    }
}

impl Refusal {
    /// The stable reason on the wire, UPPER_SNAKE.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::KindNotFound { .. } => "KIND_NOT_FOUND",
            Self::SlotNotFound { .. } => "SLOT_NOT_FOUND",
            Self::CronNotFound { .. } => "CRON_NOT_FOUND",
            Self::WebhookNotFound { .. } => "WEBHOOK_NOT_FOUND",
            Self::WebhooksNotAllowed { .. } => "NOT_ALLOWED",
            Self::DeliveryNotFound { .. } => "DELIVERY_NOT_FOUND",
            Self::OutboxFull { .. } => "OUTBOX_FULL",
            Self::NodeNotFound { .. } => "NODE_NOT_FOUND",
            Self::JobNotFound { .. } => "JOB_NOT_FOUND",
            Self::InvalidField { .. } => "INVALID_FIELD",
            Self::JobIdReused { .. } => "JOB_ID_REUSED",
            Self::ImpossibleNeeds { .. } => "IMPOSSIBLE_NEEDS",
            Self::KindPaused { .. } => "KIND_PAUSED",
            Self::BudgetExhausted { .. } => "BUDGET_EXHAUSTED",
            Self::QueueFull { .. } => "QUEUE_FULL",
            Self::AlreadyStale => "ALREADY_STALE",
            Self::ParentNotLive { .. } => "PARENT_NOT_LIVE",
            Self::TenantNotAllowed { .. } => "NOT_ALLOWED",
            Self::WouldDeadlock { .. } => "WOULD_DEADLOCK",
            Self::TreeLimit { .. } => "TREE_LIMIT",
            Self::ClassLimit { .. } => "CLASS_LIMIT",
            Self::StoreFull { .. } => "STORE_FULL",
            Self::JobFinal { .. } => "JOB_FINAL",
            Self::JobNotFinal { .. } => "JOB_NOT_FINAL",
            Self::WorkflowNotFound { .. } => "WORKFLOW_NOT_FOUND",
            Self::WorkflowIdReused { .. } => "WORKFLOW_ID_REUSED",
            Self::WorkflowFinal { .. } => "WORKFLOW_FINAL",
            Self::JobOfWorkflow { .. } => "JOB_OF_WORKFLOW",
            Self::ResultTaken { .. } => "RESULT_TAKEN",
            Self::MemberGone { .. } => "MEMBER_GONE",
            Self::OfMember { refusal, .. } => refusal.reason(),
            Self::NotAFleetSlot { .. } => "NOT_A_FLEET_SLOT",
            Self::FleetConflict { .. } => "FLEET_CONFLICT",
            Self::NodeHoldsLeases { .. } => "NODE_HOLDS_LEASES",
            Self::NodeConnected { .. } => "NODE_CONNECTED",
            Self::NodeNameInUse { .. } => "NODE_NAME_IN_USE",
            Self::SupersededSession => "SUPERSEDED_SESSION",
            Self::EpochAhead { .. } => "EPOCH_AHEAD",
            Self::LeaseLost { .. } => "LEASE_LOST",
        }
    }

    /// When a repeated call may be taken, where waiting can help.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        if let Self::QueueFull { retry_after, .. } | Self::BudgetExhausted { retry_after, .. } = self {
            Some(*retry_after)
        } else if let Self::OfMember { refusal, .. } = self {
            refusal.retry_after()
        } else {
            None
        }
    }
}

/// Names that are close to what was asked for, the closest first, at most three.
pub(crate) fn nearest<'a, T: Clone + 'a>(
    asked: &str,
    known: impl Iterator<Item = &'a T>,
    text: impl Fn(&T) -> &str,
) -> Vec<T> {
    let mut close: Vec<(usize, T)> = known
        .map(|name| (distance(asked, text(name)), name.clone()))
        .filter(|&(distance, _)| distance <= 1 + asked.len() / 3)
        .collect();
    close.sort_by_key(|&(distance, _)| distance);
    close.into_iter().take(3).map(|(_, name)| name).collect()
}

/// Levenshtein distance in bytes: names are ASCII and at most 63 long.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (slot, y) in row.iter_mut().skip(1).zip(b.bytes()) {
            let here = (diagonal + usize::from(x != y)).min(left + 1).min(*slot + 1);
            diagonal = *slot;
            *slot = here;
            left = here;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

/// A short text for people, cut at 4 KiB on a character boundary.
#[must_use]
pub fn bounded_text(text: &str) -> Arc<str> {
    const MOST: usize = 4096;
    let end = (0..=text.len().min(MOST)).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    text.get(..end).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_suggested_closest_first() {
        let known = ["browser", "browsers", "shell"].map(SlotName::new);
        let near = nearest("browsr", known.iter(), SlotName::as_str);
        assert_eq!(near.iter().map(SlotName::as_str).collect::<Vec<_>>(), ["browser", "browsers"]);
    }

    #[test]
    fn distances_are_those_of_levenshtein() {
        for (a, b, want) in
            [("", "", 0), ("abc", "", 3), ("", "ab", 2), ("kitten", "sitting", 3), ("ab", "ba", 2)]
        {
            assert_eq!(distance(a, b), want, "{a} {b}");
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(bounded_text(&"ä".repeat(3000)).len(), 4096);
        assert_eq!(bounded_text("short").as_ref(), "short");
    }
}
