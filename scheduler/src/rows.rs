//! What is stored, as plain values: the whole for loading and comparing, the difference for committing.

mod jobs;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::{
    cron::CronEntry,
    ids::{CronName, FencingToken, JobId, KindName, NodeName, SlotName, Tenant, WebhookName, WorkflowId},
    job::{Attempt, Job},
    kind::Kind,
    lease::Lease,
    node::Node,
    slots::Slot,
    tenant::TenantPolicy,
    time::Wall,
    webhook::{Delivery, DeliveryId, NewDelivery, Webhook},
    workflow::Workflow,
};

pub use jobs::JobRows;

/// Everything that a leader loads: live jobs only, and every lease row. `State::durable` gives the same back.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Durable {
    /// Declared kinds.
    pub kinds: BTreeMap<KindName, Kind>,
    /// Declared slots.
    pub slots: BTreeMap<SlotName, Slot>,
    /// Declared tenants.
    pub tenants: BTreeMap<Tenant, TenantPolicy>,
    /// Known nodes.
    pub nodes: BTreeMap<NodeName, Node>,
    /// Declared cron entries.
    pub crons: BTreeMap<CronName, CronEntry>,
    /// Jobs that are not final.
    pub jobs: JobRows,
    /// Leases that are not gone.
    pub leases: BTreeMap<FencingToken, Lease>,
    /// Workflows that are not final, each with the ends of its members.
    pub workflows: BTreeMap<WorkflowId, Workflow>,
    /// Declared webhooks.
    pub webhooks: BTreeMap<WebhookName, Webhook>,
    /// What waits to be told to them, and what could not be.
    pub deliveries: BTreeMap<DeliveryId, Delivery>,
    /// Deferral timelines as last saved, by class text. Not compared by the load property: they lag by a second.
    pub classes: BTreeMap<String, ClassRow>,
}

/// The saved deferral timeline of a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassRow {
    /// The text of (kind, needs, selector, tenant): the key of the row.
    pub class: String,
    /// The entries, oldest first.
    pub timeline: Vec<ClassEntry>,
}

/// One stretch of time in which a class waited for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassEntry {
    /// When it began.
    pub since: Wall,
    /// The name of the reason.
    pub reason: Arc<str>,
    /// The reason and what it names, for people.
    pub message: Arc<str>,
    /// How often placement tried.
    pub tries: u64,
    /// How long it lasted; of the last entry: until it was saved.
    pub duration: Duration,
}

/// What one turn changed. The store writes it in one transaction: deletes, then updates, then inserts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Changes {
    /// Jobs, each at most once; but an id that was deleted and taken again in one turn has its Delete, then its Insert.
    pub jobs: Vec<JobChange>,
    /// Leases that are new or changed.
    pub leases_put: Vec<Lease>,
    /// Leases that are gone.
    pub leases_deleted: Vec<FencingToken>,
    /// Ended executions; one that is there already is replaced (a loss by the outcome that came late).
    pub attempts_put: Vec<Attempt>,
    /// Results to keep; their bytes travel beside.
    pub results_put: Vec<ResultPut>,
    /// Results to remove.
    pub results_deleted: Vec<(JobId, FencingToken)>,
    /// Checkpoints to keep, each instead of the one that its job had; their bytes travel beside.
    pub checkpoints_put: Vec<CheckpointPut>,
    /// Kinds that are new or changed.
    pub kinds_put: Vec<Kind>,
    /// Kinds that are gone.
    pub kinds_deleted: Vec<KindName>,
    /// Slots that are new or changed.
    pub slots_put: Vec<Slot>,
    /// Slots that are gone.
    pub slots_deleted: Vec<SlotName>,
    /// Tenants that are new or changed.
    pub tenants_put: Vec<(Tenant, TenantPolicy)>,
    /// Tenants that are declared no more.
    pub tenants_deleted: Vec<Tenant>,
    /// Nodes that are new or changed.
    pub nodes_put: Vec<Node>,
    /// Nodes that are gone.
    pub nodes_deleted: Vec<NodeName>,
    /// Cron entries that are new or changed. Where one is there already, its `last_instant` never falls.
    pub crons_put: Vec<CronEntry>,
    /// Cron entries that are declared no more.
    pub crons_deleted: Vec<CronName>,
    /// Workflows that are new or changed. How their members ended is told by the rows of those.
    pub workflows_put: Vec<Workflow>,
    /// Workflows that are gone.
    pub workflows_deleted: Vec<WorkflowId>,
    /// Webhooks that are new or changed.
    pub webhooks_put: Vec<Webhook>,
    /// Webhooks that are declared no more.
    pub webhooks_deleted: Vec<WebhookName>,
    /// Deliveries that are new; their bodies travel beside, made of what each tells.
    pub deliveries_new: Vec<NewDelivery>,
    /// Deliveries that changed.
    pub deliveries_put: Vec<Delivery>,
    /// Deliveries that are gone.
    pub deliveries_deleted: Vec<DeliveryId>,
    /// Class timelines to save.
    pub classes_put: Vec<ClassRow>,
    /// Class timelines to remove.
    pub classes_deleted: Vec<String>,
}

/// What became of the row of one job.
#[derive(Debug, Clone, PartialEq)]
pub enum JobChange {
    /// A new row. Its payload, if not empty, travels beside.
    Insert(Box<Job>),
    /// A changed row.
    Update {
        /// The token that the row has: `where id = $job and token = $previous`.
        previous: FencingToken,
        /// The new row.
        job: Box<Job>,
    },
    /// No row any more, with its payload, attempts and results.
    Delete(JobId),
}

/// A result whose bytes travel beside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultPut {
    /// The job.
    pub job: JobId,
    /// The token of the execution.
    pub token: FencingToken,
    /// It is no result: it is the state that an execution left which ended in order to wait.
    pub of_wait: bool,
    /// It is partial: what there was when its execution had to end.
    pub partial: bool,
    /// When it is stored.
    pub created_at: Wall,
    /// When it is swept.
    pub expires_at: Wall,
}

/// A checkpoint whose bytes travel beside. It goes with its job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointPut {
    /// The job.
    pub job: JobId,
    /// The token of the execution that saved it.
    pub token: FencingToken,
    /// When it is stored.
    pub created_at: Wall,
}

impl Changes {
    /// Whether there is nothing to commit.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
