//! What a turn has changed so far: which rows are to be written.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    ids::{CronName, FencingToken, JobId, KindName, NodeName, SlotName, Tenant, WebhookName, WorkflowId},
    job::Attempt,
    place::ClassId,
    rows::{Changes, CheckpointPut, ClassRow, JobChange, ResultPut},
    state::State,
    time::Now,
    webhook::{DeliveryId, NewDelivery, Subject},
};

/// What becomes of the row of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Row {
    Insert,
    /// The token that the row has.
    Update(FencingToken),
}

/// Changed in this turn, and whether each has a row so far: what comes and goes within one turn has none to delete.
type Named<N> = BTreeMap<N, bool>;

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Dirty {
    rows: BTreeMap<JobId, Row>,
    deletes: BTreeSet<JobId>,
    /// Deleted in this turn and not there again: `prior` must not bring them back.
    deleted: BTreeSet<JobId>,
    /// Became final in this turn.
    finals: BTreeSet<JobId>,
    leases: BTreeSet<FencingToken>,
    new_leases: BTreeSet<FencingToken>,
    leases_deleted: BTreeSet<FencingToken>,
    attempts: BTreeMap<(JobId, FencingToken), Attempt>,
    results: BTreeMap<(JobId, FencingToken), ResultPut>,
    results_deleted: BTreeSet<(JobId, FencingToken)>,
    checkpoints: BTreeMap<JobId, CheckpointPut>,
    kinds: Named<KindName>,
    slots: Named<SlotName>,
    tenants: Named<Tenant>,
    nodes: Named<NodeName>,
    crons: Named<CronName>,
    workflows: Named<WorkflowId>,
    /// Became final in this turn.
    workflow_finals: BTreeSet<WorkflowId>,
    /// Deleted in this turn: `prior` must not bring them back.
    workflows_gone: BTreeSet<WorkflowId>,
    webhooks: Named<WebhookName>,
    /// Without a row so far, with what they tell.
    new_deliveries: BTreeMap<DeliveryId, Subject>,
    deliveries: BTreeSet<DeliveryId>,
    deliveries_deleted: BTreeSet<DeliveryId>,
    classes: BTreeSet<ClassId>,
    /// Of those: without a row so far.
    new_classes: BTreeSet<ClassId>,
    classes_deleted: BTreeSet<String>,
    at: Now,
}

impl Dirty {
    pub(crate) fn is_deleted(&self, id: JobId) -> bool {
        self.deleted.contains(&id)
    }

    pub(crate) fn final_jobs(&self) -> usize {
        self.finals.len()
    }

    pub(crate) fn insert_job(&mut self, id: JobId) {
        self.deleted.remove(&id);
        self.rows.insert(id, Row::Insert);
    }

    /// A job whose row has `previous` is about to change.
    pub(crate) fn update_job(&mut self, id: JobId, previous: FencingToken) {
        self.rows.entry(id).or_insert(Row::Update(previous));
    }

    pub(crate) fn delete_job(&mut self, id: JobId) {
        if self.rows.remove(&id) != Some(Row::Insert) {
            self.deletes.insert(id);
        }
        self.deleted.insert(id);
        self.finals.remove(&id);
        self.attempts.retain(|(job, _), _| *job != id);
        self.results.retain(|(job, _), _| *job != id);
        self.results_deleted.retain(|(job, _)| *job != id);
        self.checkpoints.remove(&id);
    }

    pub(crate) fn now_final(&mut self, id: JobId) {
        self.finals.insert(id);
    }

    pub(crate) fn now_live(&mut self, id: JobId) {
        self.finals.remove(&id);
    }

    pub(crate) fn new_lease(&mut self, token: FencingToken) {
        self.new_leases.insert(token);
        self.leases.insert(token);
    }

    pub(crate) fn lease(&mut self, token: FencingToken) {
        self.leases.insert(token);
    }

    pub(crate) fn delete_lease(&mut self, token: FencingToken) {
        self.leases.remove(&token);
        if !self.new_leases.remove(&token) {
            self.leases_deleted.insert(token);
        }
    }

    pub(crate) fn attempt(&mut self, attempt: Attempt) {
        self.attempts.insert((attempt.job, attempt.token), attempt);
    }

    pub(crate) fn result(&mut self, result: ResultPut) {
        self.results.insert((result.job, result.token), result);
    }

    pub(crate) fn checkpoint(&mut self, checkpoint: CheckpointPut) {
        self.checkpoints.insert(checkpoint.job, checkpoint);
    }

    pub(crate) fn delete_result(&mut self, job: JobId, token: FencingToken) {
        self.results.remove(&(job, token)); // One of this turn has no row yet.
        self.results_deleted.insert((job, token));
    }

    /// A kind changes, comes or goes; `known`: whether it was there just before.
    pub(crate) fn kind(&mut self, name: &KindName, known: bool) {
        self.kinds.entry(name.clone()).or_insert(known);
    }

    /// A slot changes, comes or goes; `known`: whether it was there just before.
    pub(crate) fn slot(&mut self, name: &SlotName, known: bool) {
        self.slots.entry(name.clone()).or_insert(known);
    }

    /// A tenant is declared, or no more; `known`: whether it was declared just before.
    pub(crate) fn tenant(&mut self, name: &Tenant, known: bool) {
        self.tenants.entry(name.clone()).or_insert(known);
    }

    /// A cron entry changes, comes or goes; `known`: whether it was there just before.
    pub(crate) fn cron(&mut self, name: &CronName, known: bool) {
        self.crons.entry(name.clone()).or_insert(known);
    }

    /// A node changes, comes or goes; `known`: whether it was there just before.
    pub(crate) fn node(&mut self, name: &NodeName, known: bool) {
        self.nodes.entry(name.clone()).or_insert(known);
    }

    /// A workflow changes, comes or goes; `known`: whether it was there just before.
    pub(crate) fn workflow(&mut self, id: WorkflowId, known: bool) {
        self.workflows.entry(id).or_insert(known);
        self.workflows_gone.remove(&id);
    }

    pub(crate) fn delete_workflow(&mut self, id: WorkflowId) {
        self.workflows.entry(id).or_insert(true);
        self.workflow_finals.remove(&id);
        self.workflows_gone.insert(id);
    }

    pub(crate) fn workflow_final(&mut self, id: WorkflowId) {
        self.workflow_finals.insert(id);
    }

    pub(crate) fn workflow_live(&mut self, id: WorkflowId) {
        self.workflow_finals.remove(&id);
    }

    pub(crate) fn is_workflow_deleted(&self, id: WorkflowId) -> bool {
        self.workflows_gone.contains(&id)
    }

    /// The turn is committed: the workflows that became final in it.
    pub(crate) fn end_workflows(&mut self) -> BTreeSet<WorkflowId> {
        self.workflows_gone.clear();
        std::mem::take(&mut self.workflow_finals)
    }

    /// A webhook changes, comes or goes; `known`: whether it was there just before.
    pub(crate) fn webhook(&mut self, name: &WebhookName, known: bool) {
        self.webhooks.entry(name.clone()).or_insert(known);
    }

    pub(crate) fn new_delivery(&mut self, id: DeliveryId, subject: Subject) {
        self.new_deliveries.insert(id, subject);
    }

    /// A delivery changed. One of this turn is written as it is at its end.
    pub(crate) fn delivery(&mut self, id: DeliveryId) {
        if !self.new_deliveries.contains_key(&id) {
            self.deliveries.insert(id);
        }
    }

    pub(crate) fn delete_delivery(&mut self, id: DeliveryId) {
        self.deliveries.remove(&id);
        if self.new_deliveries.remove(&id).is_none() {
            self.deliveries_deleted.insert(id);
        }
    }

    pub(crate) fn class(&mut self, class: ClassId, has_row: bool, now: Now) {
        self.classes.insert(class);
        if !has_row {
            self.new_classes.insert(class);
        }
        self.at = now;
    }

    pub(crate) fn delete_class(&mut self, class: ClassId, text: String) {
        if !self.new_classes.remove(&class) {
            self.classes_deleted.insert(text);
        }
    }

    /// A row of a class that this leader has not.
    pub(crate) fn delete_orphan_class(&mut self, text: String) {
        self.classes_deleted.insert(text);
    }

    /// Everything to write; what is asked for until the commit stays: deleted and final jobs.
    pub(crate) fn take(&mut self) -> Self {
        let (deleted, finals) = (self.deleted.clone(), self.finals.clone());
        let (workflow_finals, workflows_gone) = (self.workflow_finals.clone(), self.workflows_gone.clone());
        std::mem::replace(self, Self { deleted, finals, workflow_finals, workflows_gone, ..Self::default() })
    }

    /// The turn is committed: the jobs that became final in it.
    pub(crate) fn end_turn(&mut self) -> BTreeSet<JobId> {
        self.deleted.clear();
        std::mem::take(&mut self.finals)
    }

    pub(crate) fn into_changes(self, state: &State) -> Changes {
        let mut changes =
            Changes { attempts_put: self.attempts.into_values().collect(), ..Changes::default() };
        changes.jobs.extend(self.deletes.into_iter().map(JobChange::Delete));
        for (id, row) in self.rows {
            let Some(entry) = state.jobs.get(&id) else { continue };
            let job = Box::new(entry.job.clone());
            changes.jobs.push(match row {
                Row::Insert => JobChange::Insert(job),
                Row::Update(previous) => JobChange::Update { previous, job },
            });
        }
        let leases = self.leases.iter().filter_map(|token| state.leases.get(token));
        changes.leases_put = leases.map(|entry| entry.lease.clone()).collect();
        changes.leases_deleted = self.leases_deleted.into_iter().collect();
        changes.results_put = self.results.into_values().collect();
        changes.results_deleted = self.results_deleted.into_iter().collect();
        changes.checkpoints_put = self.checkpoints.into_values().collect();
        for (name, stored) in self.kinds {
            match state.kinds.get(&name) {
                Some(entry) => changes.kinds_put.push(entry.kind.clone()),
                None if stored => changes.kinds_deleted.push(name),
                None => {}
            }
        }
        for (name, stored) in self.slots {
            match state.slots.get(&name) {
                Some(slot) => changes.slots_put.push(slot.clone()),
                None if stored => changes.slots_deleted.push(name),
                None => {}
            }
        }
        for (name, stored) in self.tenants {
            match state.tenants.get(&name).and_then(|entry| entry.declared) {
                Some(policy) => changes.tenants_put.push((name, policy)),
                None if stored => changes.tenants_deleted.push(name),
                None => {}
            }
        }
        for (name, stored) in self.nodes {
            match state.nodes.get(&name) {
                Some(entry) => changes.nodes_put.push(entry.node.clone()),
                None if stored => changes.nodes_deleted.push(name),
                None => {}
            }
        }
        for (name, stored) in self.crons {
            match state.crons.get(&name) {
                Some(cron) => changes.crons_put.push(cron.entry.clone()),
                None if stored => changes.crons_deleted.push(name),
                None => {}
            }
        }
        for (id, stored) in self.workflows {
            match state.workflow(id) {
                Some(workflow) => changes.workflows_put.push(workflow.clone()),
                None if stored => changes.workflows_deleted.push(id),
                None => {}
            }
        }
        for (name, stored) in self.webhooks {
            match state.outbox.webhooks.get(&name) {
                Some(entry) => changes.webhooks_put.push(entry.webhook.clone()),
                None if stored => changes.webhooks_deleted.push(name),
                None => {}
            }
        }
        let delivery = |id: &DeliveryId| state.outbox.deliveries.get(id).cloned();
        changes.deliveries_put = self.deliveries.iter().filter_map(delivery).collect();
        let new = |(id, subject)| Some(NewDelivery { delivery: delivery(&id)?, subject });
        changes.deliveries_new = self.new_deliveries.into_iter().filter_map(new).collect();
        changes.deliveries_deleted = self.deliveries_deleted.into_iter().collect();
        let mut deleted = self.classes_deleted;
        for id in self.classes {
            let Some(class) = state.classes.get(id) else { continue };
            let row = ClassRow { class: class.key.text(), timeline: class.timeline.rows(self.at) };
            deleted.remove(&row.class);
            changes.classes_put.push(row);
        }
        changes.classes_deleted = deleted.into_iter().collect();
        changes
    }
}
