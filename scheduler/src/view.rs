//! Views: what queries see of the state between turns, on committed state only.

mod explanation;

use std::{sync::Arc, time::Duration};

use crate::{
    cron::CronEntry,
    deferral::Deferral,
    family::WaitPolicy,
    ids::{JobId, KindName, NodeName, SlotName, Tenant},
    job::Wait,
    kind::{Kind, PausePolicy},
    lease::Progress,
    node::{ClosedGroup, Node},
    slots::{Count, Slot},
    time::Wall,
    webhook::WebhookView,
};

pub use self::explanation::{
    Bracket, EarmarkView, Explanation, LineAhead, NodeExplanation, NodeGroup, SlotExplanation, SlotHolder,
    SlotTotal,
};

/// Why a stored job does not run yet, and what it waited for so far.
#[derive(Debug, Clone, PartialEq)]
pub struct DeferralView {
    /// What holds it now.
    pub reason: Deferral,
    /// Since when.
    pub since: Wall,
    /// How often placement tried its class and did not place it, since it entered its queue.
    pub count: u64,
    /// Time and count by reason since it entered its queue, the longest first.
    pub history: Vec<Wait>,
}

/// The live part of a job that its row does not tell.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveView {
    /// Why it does not run; none if it runs.
    pub deferral: Option<DeferralView>,
    /// The node of its live lease.
    pub node: Option<NodeName>,
    /// When its node reported its start, if the row does not say so yet.
    pub started_at: Option<Wall>,
    /// What it waits for, if it is a parent that waits for its children.
    pub waiting_for: Option<WaitView>,
    /// How it gets on, if it runs and its attempt said so.
    pub progress: Option<Progress>,
}

impl LiveView {
    /// The same for somebody who may know of no other job.
    #[must_use]
    pub fn without_others(mut self) -> Self {
        self.deferral = self.deferral.map(DeferralView::without_others);
        self
    }
}

impl DeferralView {
    /// The same for somebody who may know of no other job.
    #[must_use]
    pub fn without_others(self) -> Self {
        Self { reason: self.reason.without_others(), ..self }
    }
}

/// What a waiting parent waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitView {
    /// How many children it named.
    pub children: usize,
    /// How many of them have not ended.
    pub unfinished: usize,
    /// The first of those, at most 20, in the parent's order.
    pub first: Vec<JobId>,
    /// When it is over.
    pub policy: WaitPolicy,
    /// Its process stays meanwhile.
    pub parked: bool,
    /// It goes on then in any case; none: it waits for as long as it takes.
    pub until: Option<Wall>,
}

/// A slot with its use.
#[derive(Debug, Clone, PartialEq)]
pub struct SlotView {
    /// As declared.
    pub slot: Slot,
    /// Of the fleet, or summed over the nodes that are heard.
    pub count: Count,
    /// Queued jobs that need it.
    pub waiting: u64,
}

/// A tenant with what it takes. Every tenant is here that is declared, or has a lease or a queued job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantView {
    /// Its name.
    pub tenant: Tenant,
    /// Whether the fleet file declares it.
    pub declared: bool,
    /// What it is owed beside the others, 1 to 1,000.
    pub weight: u32,
    /// The largest part that its leases take of any slot, not over its weight, in thousandths. Above 1,000 only where a
    /// capacity was lowered.
    pub share_permille: u32,
    /// The slot of which it takes that part; none: it takes nothing of which there is any.
    pub dominant: Option<SlotName>,
    /// What its leases take, by slot. The capacity is the fleet's, or the sum over all nodes.
    pub used: Vec<(SlotName, Count)>,
    /// Its jobs that wait for their slots.
    pub queued: u64,
    /// Leases that take something for it, those included that are over and not reaped.
    pub leases: u64,
}

/// Whether the server hears a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeState {
    /// Its session is live.
    Live,
    /// Its session is silent for longer than it should be.
    Suspect,
    /// It has no session.
    Away,
}

/// A kind that a node is not offered for a while, since jobs of it failed there one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackoffView {
    /// The kind.
    pub kind: KindName,
    /// How many jobs failed there of late, none between having succeeded: from 3 on, and at most 9 are counted.
    pub failed: u32,
    /// Then one job of it is tried.
    pub until: Wall,
}

/// A node with what is known of it now.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeView {
    /// As stored.
    pub node: Node,
    /// Whether it is heard.
    pub state: NodeState,
    /// Its agent has said that it goes: it takes no new grants until its next Hello.
    pub leaving: bool,
    /// Slots with capacity and use, by name.
    pub slots: Vec<(SlotName, Count)>,
    /// Live leases.
    pub running: u32,
    /// Leases that are over and not reaped.
    pub unreaped: u32,
    /// How long ago it was heard; none if never since the leader began.
    pub silent_for: Option<Duration>,
    /// What its rules closed.
    pub closed: Vec<ClosedGroup>,
    /// Names that it offers and the fleet does not declare, one sentence each.
    pub warnings: Vec<String>,
    /// Kinds that it is not offered for a while, by name.
    pub backoffs: Vec<BackoffView>,
    /// What is kept on it for jobs that wait, the first in line first.
    pub earmarks: Vec<EarmarkView>,
}

/// Whether a queue moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueSignal {
    /// Nothing waits.
    Idle,
    /// Work waits and moves.
    Moving,
    /// Much came at once; it is young.
    Burst,
    /// The head does not move while its age grows.
    Stuck,
}

/// The figures of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct KindHealth {
    /// The kind.
    pub kind: KindName,
    /// Jobs queued.
    pub depth: u64,
    /// Age of the oldest queued job since it became ready.
    pub oldest_age: Option<Duration>,
    /// Jobs with a live lease whose outcome is open.
    pub running: u64,
    /// Jobs that wait for a time.
    pub scheduled: u64,
    /// Parents that wait for their children.
    pub waiting: u64,
    /// Members of workflows that wait for others.
    pub blocked: u64,
    /// Live nodes that could run it if they were empty.
    pub nodes_able: u32,
    /// Jobs that became dead, by day (days since 1970, UTC), newest first.
    pub dead_by_day: Vec<(i64, u64)>,
    /// Whether it moves.
    pub signal: QueueSignal,
    /// Why the head of the queue does not run.
    pub head: Option<Deferral>,
    /// Whether it is paused, and how.
    pub paused: Option<PausePolicy>,
    /// Over the last five minutes.
    pub arrivals_per_minute: f64,
    /// Over the last five minutes.
    pub grants_per_minute: f64,
    /// Over the last five minutes.
    pub completions_per_minute: f64,
    /// How long ago one of its jobs was granted; none since the leader began.
    pub last_grant_ago: Option<Duration>,
}

/// Everything that health and lists need, published after each commit that changed it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Snapshot {
    /// By name.
    pub kinds: Vec<Kind>,
    /// By name.
    pub health: Vec<KindHealth>,
    /// By name.
    pub slots: Vec<SlotView>,
    /// By name.
    pub nodes: Vec<NodeView>,
    /// By name, at most 10,000.
    pub tenants: Vec<TenantView>,
    /// By name.
    pub crons: Vec<CronEntry>,
    /// By name.
    pub webhooks: Vec<WebhookView>,
    /// What a person should look at, the worst first.
    pub attention: Vec<Arc<str>>,
    /// Live jobs.
    pub live_jobs: u64,
    /// Lease rows.
    pub leases: u64,
}
