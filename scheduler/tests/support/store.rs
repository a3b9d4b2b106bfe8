//! A model of the store: plain maps, strict about everything that the schema is strict about. Whatever it refuses is a
//! bug of the scheduler.

use std::collections::BTreeMap;

use tenure_scheduler::{
    Attempt, Changes, ChildEnd, ClassRow, CronEntry, CronName, DedupeKey, Delivery, DeliveryId, Durable,
    FencingToken, Job, JobChange, JobId, JobState, Kind, KindName, Lease, Node, NodeName, Prior, ResultPut,
    Slot, SlotName, Tenant, TenantPolicy, Webhook, WebhookName, Workflow, WorkflowId,
};

/// See the module. Job rows stay when they are final, as on a disk.
#[derive(Debug, Clone, Default)]
pub(crate) struct Store {
    pub(crate) jobs: BTreeMap<JobId, Job>,
    pub(crate) attempts: BTreeMap<(JobId, FencingToken), Attempt>,
    pub(crate) results: BTreeMap<(JobId, FencingToken), ResultPut>,
    leases: BTreeMap<FencingToken, Lease>,
    kinds: BTreeMap<KindName, Kind>,
    slots: BTreeMap<SlotName, Slot>,
    tenants: BTreeMap<Tenant, TenantPolicy>,
    nodes: BTreeMap<NodeName, Node>,
    crons: BTreeMap<CronName, CronEntry>,
    webhooks: BTreeMap<WebhookName, Webhook>,
    pub(crate) deliveries: BTreeMap<DeliveryId, Delivery>,
    classes: BTreeMap<String, ClassRow>,
    /// Without the ends of their members, which are told by the rows of those.
    pub(crate) workflows: BTreeMap<WorkflowId, Workflow>,
    /// The holders of `jobs_dedupe_held`.
    held: BTreeMap<(Tenant, KindName, DedupeKey), JobId>,
    pub(crate) commits: u64,
}

impl Store {
    /// One transaction: deletes, updates (those that hold no key first), inserts.
    pub(crate) fn commit(&mut self, changes: Changes) {
        if changes.is_empty() {
            return;
        }
        self.commits += 1;
        let (mut updates, mut inserts) = (Vec::new(), Vec::new());
        for change in changes.jobs {
            match change {
                JobChange::Delete(id) => self.delete_job(id),
                JobChange::Update { previous, job } => updates.push((previous, job)),
                JobChange::Insert(job) => inserts.push(job),
            }
        }
        for token in changes.leases_deleted {
            assert!(self.leases.remove(&token).is_some(), "lease {token} is deleted and not there");
        }
        for lease in changes.leases_put {
            self.put_lease(lease);
        }
        updates.sort_by_key(|(_, job)| job.dedupe_held);
        updates.into_iter().for_each(|(previous, job)| self.update_job(previous, *job));
        inserts.into_iter().for_each(|job| self.insert_job(*job));
        for attempt in changes.attempts_put {
            assert!(self.jobs.contains_key(&attempt.job), "an attempt of no job: {attempt:?}");
            let in_order = attempt.started_at.is_none_or(|started| started >= attempt.granted_at);
            assert!(in_order, "it started before its grant: {attempt:?}");
            self.attempts.insert((attempt.job, attempt.token), attempt);
        }
        for result in changes.results_put {
            assert!(self.jobs.contains_key(&result.job), "a result of no job: {result:?}");
            let key = (result.job, result.token);
            assert!(self.results.insert(key, result).is_none(), "{key:?} has a result already");
        }
        for key in changes.results_deleted {
            self.results.remove(&key);
        }
        put_all(&mut self.kinds, changes.kinds_put, |kind| kind.name.clone());
        delete_all(&mut self.kinds, &changes.kinds_deleted);
        put_all(&mut self.slots, changes.slots_put, |slot| slot.name.clone());
        delete_all(&mut self.slots, &changes.slots_deleted);
        self.tenants.extend(changes.tenants_put);
        delete_all(&mut self.tenants, &changes.tenants_deleted);
        put_all(&mut self.nodes, changes.nodes_put, |node| node.name.clone());
        delete_all(&mut self.nodes, &changes.nodes_deleted);
        for entry in &changes.crons_put {
            let falls = self.crons.get(&entry.name).is_some_and(|row| row.last_instant > entry.last_instant);
            assert!(!falls, "the last instant of {entry:?} falls");
        }
        put_all(&mut self.crons, changes.crons_put, |entry| entry.name.clone());
        delete_all(&mut self.crons, &changes.crons_deleted);
        delete_all(&mut self.deliveries, &changes.deliveries_deleted);
        delete_all(&mut self.webhooks, &changes.webhooks_deleted);
        put_all(&mut self.webhooks, changes.webhooks_put, |webhook| webhook.name.clone());
        for delivery in changes.deliveries_put {
            let old = self.deliveries.insert(delivery.id, delivery.clone());
            let old = old.unwrap_or_else(|| panic!("{} is updated and not there", delivery.id));
            let same = (&old.webhook, old.about, old.created_at)
                == (&delivery.webhook, delivery.about, delivery.created_at);
            assert!(same, "a delivery changes what is fixed: {old:?} -> {delivery:?}");
        }
        for new in changes.deliveries_new {
            let id = new.delivery.id;
            assert!(self.deliveries.insert(id, new.delivery).is_none(), "{id} is inserted and there already");
        }
        let declared = |delivery: &Delivery| self.webhooks.contains_key(&delivery.webhook);
        assert!(self.deliveries.values().all(declared), "a delivery outlives its webhook");
        for mut workflow in changes.workflows_put {
            let old = self.workflows.get(&workflow.id).map_or(0, |old| old.version);
            assert!(workflow.version > old, "{}: its version does not rise", workflow.id);
            workflow.ends.iter_mut().for_each(|end| *end = None);
            self.workflows.insert(workflow.id, workflow);
        }
        delete_all(&mut self.workflows, &changes.workflows_deleted);
        delete_all(&mut self.classes, &changes.classes_deleted);
        put_all(&mut self.classes, changes.classes_put, |row| row.class.clone());
    }

    fn delete_job(&mut self, id: JobId) {
        let job = self.jobs.remove(&id).unwrap_or_else(|| panic!("{id} is deleted and not there"));
        self.release(&job);
        self.attempts.retain(|(job, _), _| *job != id);
        self.results.retain(|(job, _), _| *job != id);
    }

    fn insert_job(&mut self, job: Job) {
        assert!(!self.jobs.contains_key(&job.id), "{} is inserted and there already", job.id);
        self.hold(&job);
        self.jobs.insert(job.id, job);
    }

    fn update_job(&mut self, previous: FencingToken, job: Job) {
        let old = self.jobs.remove(&job.id).unwrap_or_else(|| panic!("{} is updated and not there", job.id));
        assert_eq!(old.token, previous, "{}: the token of the row differs", job.id);
        assert!(job.token >= old.token, "{}: its token falls", job.id);
        assert!(job.version > old.version, "{}: its version does not rise", job.id);
        if old.state.is_final() {
            let requeued = job.round > old.round && !matches!(job.state, JobState::Scheduled { .. });
            let same = job.round == old.round && job.state == old.state;
            assert!(requeued || same, "{}: a final row changes: {old:?} -> {job:?}", job.id);
        }
        self.release(&old);
        self.hold(&job);
        self.jobs.insert(job.id, job);
    }

    fn hold(&mut self, job: &Job) {
        if let (Some(key), true) = (&job.dedupe_key, job.dedupe_held) {
            let key = (job.tenant.clone(), job.kind.clone(), key.clone());
            let other = self.held.insert(key, job.id);
            assert_eq!(other, None, "jobs_dedupe_held fires for {}", job.id);
        }
    }

    fn release(&mut self, job: &Job) {
        if let (Some(key), true) = (&job.dedupe_key, job.dedupe_held) {
            self.held.remove(&(job.tenant.clone(), job.kind.clone(), key.clone()));
        }
    }

    fn put_lease(&mut self, lease: Lease) {
        if let Some(old) = self.leases.get(&lease.token) {
            let same = (old.job, &old.node, old.length, &old.tenant)
                == (lease.job, &lease.node, lease.length, &lease.tenant);
            assert!(same, "a lease changes what is fixed: {old:?} -> {lease:?}");
        }
        let token = lease.token;
        self.leases.insert(token, lease);
        let lease = &self.leases[&token];
        let live = self.leases.values().filter(|other| other.job == lease.job && other.stage.is_live());
        assert!(live.count() <= 1, "leases_one_live_per_job fires for {}", lease.job);
    }

    /// What a leader loads.
    pub(crate) fn load(&self) -> Durable {
        let live = self.jobs.iter().filter(|(_, job)| !job.state.is_final());
        Durable {
            kinds: self.kinds.clone(),
            slots: self.slots.clone(),
            nodes: self.nodes.clone(),
            tenants: self.tenants.clone(),
            crons: self.crons.clone(),
            webhooks: self.webhooks.clone(),
            deliveries: self.deliveries.clone(),
            jobs: live.map(|(_, job)| job.clone()).collect(),
            leases: self.leases.clone(),
            workflows: self
                .workflows
                .iter()
                .filter(|(_, workflow)| !workflow.state.is_final())
                .filter_map(|(id, _)| Some((*id, self.workflow(*id)?)))
                .collect(),
            classes: self.classes.clone(),
        }
    }

    /// A workflow with the ends of its members.
    pub(crate) fn workflow(&self, id: WorkflowId) -> Option<Workflow> {
        let mut workflow = self.workflows.get(&id)?.clone();
        let live = !workflow.state.is_final();
        for (place, end) in workflow.ends.iter_mut().enumerate() {
            // The id of one that is gone may have been taken by somebody else.
            let job = self.jobs.get(&id.member(u32::try_from(place).unwrap()));
            let job = job.filter(|job| job.workflow.is_some_and(|of| of.workflow == id));
            assert!(job.is_some() || !live, "member {place} of live workflow {id} is gone");
            *end = job.map_or(Some(ChildEnd::Missing), |job| ChildEnd::of(&job.state));
        }
        Some(workflow)
    }

    /// Final workflows of which no job is stored any more.
    pub(crate) fn due_workflows(&self) -> Vec<WorkflowId> {
        let of =
            |id: &WorkflowId| self.jobs.values().any(|job| job.workflow.is_some_and(|of| of.workflow == *id));
        let finals = self.workflows.values().filter(|workflow| workflow.state.is_final());
        finals.map(|workflow| workflow.id).filter(|id| !of(id)).collect()
    }

    pub(crate) fn class_rows(&self) -> usize {
        self.classes.len()
    }

    pub(crate) fn job(&self, id: JobId) -> Option<Box<Job>> {
        self.jobs.get(&id).cloned().map(Box::new)
    }

    pub(crate) fn prior(&self, id: JobId, key: Option<(Tenant, KindName, DedupeKey)>) -> Prior {
        let holder = key.and_then(|key| self.held.get(&key).copied());
        Prior { by_id: self.job(id), by_key: holder.and_then(|id| self.job(id)) }
    }
}

fn put_all<K: Ord, V>(table: &mut BTreeMap<K, V>, rows: Vec<V>, key: impl Fn(&V) -> K) {
    table.extend(rows.into_iter().map(|row| (key(&row), row)));
}

fn delete_all<K: Ord + std::fmt::Debug, V>(table: &mut BTreeMap<K, V>, keys: &[K]) {
    for key in keys {
        assert!(table.remove(key).is_some(), "{key:?} is deleted and not there");
    }
}
