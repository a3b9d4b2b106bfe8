//! The rows. As strict as the schema: whatever is refused here is a bug of the scheduler or of the rules around it.

use std::collections::BTreeMap;

use tenure_scheduler::{
    Attempt, Changes, ChildEnd, ClassRow, CronEntry, CronName, DedupeKey, Durable, FencingToken,
    INSTANT_LABEL, Job, JobChange, JobId, JobState, Kind, KindName, Lease, Node, NodeName, Producer,
    ResultPut, Slot, SlotName, Tenant, TenantPolicy, Workflow, WorkflowId,
};

/// See the module. Jobs stay when they are final.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tables {
    pub(crate) jobs: BTreeMap<JobId, Job>,
    pub(crate) leases: BTreeMap<FencingToken, Lease>,
    attempts: BTreeMap<(JobId, FencingToken), Attempt>,
    results: BTreeMap<(JobId, FencingToken), ResultPut>,
    kinds: BTreeMap<KindName, Kind>,
    slots: BTreeMap<SlotName, Slot>,
    tenants: BTreeMap<Tenant, TenantPolicy>,
    nodes: BTreeMap<NodeName, Node>,
    crons: BTreeMap<CronName, CronEntry>,
    workflows: BTreeMap<WorkflowId, Workflow>,
    classes: BTreeMap<String, ClassRow>,
    /// By cron entry and instant.
    fired: BTreeMap<(Producer, String), JobId>,
    /// The unique index `jobs_dedupe_held`.
    held: BTreeMap<(Tenant, KindName, DedupeKey), JobId>,
}

impl Tables {
    /// One transaction: deletes, updates (those that let go of a key first), inserts. An error is what the schema would
    /// say; the rows are of no use then.
    pub(crate) fn commit(&mut self, changes: &Changes) -> Result<(), String> {
        let mut updates = Vec::new();
        for change in &changes.jobs {
            match change {
                JobChange::Delete(id) => self.delete_job(*id)?,
                JobChange::Update { previous, job } => updates.push((*previous, &**job)),
                JobChange::Insert(_) => {}
            }
        }
        for token in &changes.leases_deleted {
            self.leases.remove(token).ok_or_else(|| format!("lease {token} is deleted and not there"))?;
        }
        updates.sort_by_key(|(_, job)| job.dedupe_held);
        updates.into_iter().try_for_each(|(previous, job)| self.update_job(previous, job))?;
        for change in &changes.jobs {
            if let JobChange::Insert(job) = change {
                self.insert_job(job)?;
            }
        }
        changes.leases_put.iter().try_for_each(|lease| self.put_lease(lease))?;
        self.put_history(changes)?;
        put(&mut self.kinds, &changes.kinds_put, |kind| kind.name.clone());
        delete(&mut self.kinds, &changes.kinds_deleted)?;
        put(&mut self.slots, &changes.slots_put, |slot| slot.name.clone());
        delete(&mut self.slots, &changes.slots_deleted)?;
        self.tenants.extend(changes.tenants_put.iter().cloned());
        delete(&mut self.tenants, &changes.tenants_deleted)?;
        put(&mut self.nodes, &changes.nodes_put, |node| node.name.clone());
        delete(&mut self.nodes, &changes.nodes_deleted)?;
        for entry in &changes.crons_put {
            if self.crons.get(&entry.name).is_some_and(|row| row.last_instant > entry.last_instant) {
                return Err(format!("the last instant of {} falls", entry.name));
            }
        }
        put(&mut self.crons, &changes.crons_put, |entry| entry.name.clone());
        delete(&mut self.crons, &changes.crons_deleted)?;
        changes.workflows_put.iter().try_for_each(|workflow| self.put_workflow(workflow))?;
        delete(&mut self.workflows, &changes.workflows_deleted)?;
        delete(&mut self.classes, &changes.classes_deleted)?;
        put(&mut self.classes, &changes.classes_put, |row| row.class.clone());
        Ok(())
    }

    fn put_history(&mut self, changes: &Changes) -> Result<(), String> {
        for attempt in &changes.attempts_put {
            if !self.jobs.contains_key(&attempt.job) {
                return Err(format!("an attempt of no job: {} {}", attempt.job, attempt.token));
            }
            self.attempts.insert((attempt.job, attempt.token), attempt.clone());
        }
        for result in &changes.results_put {
            let key = (result.job, result.token);
            if !self.jobs.contains_key(&result.job) {
                return Err(format!("a result of no job: {key:?}"));
            }
            if self.results.insert(key, result.clone()).is_some() {
                return Err(format!("a second result of {} {}", result.job, result.token));
            }
        }
        for key in &changes.results_deleted {
            self.results.remove(key);
        }
        Ok(())
    }

    fn delete_job(&mut self, id: JobId) -> Result<(), String> {
        let job = self.jobs.remove(&id).ok_or_else(|| format!("{id} is deleted and not there"))?;
        self.let_go(&job);
        self.attempts.retain(|(job, _), _| *job != id);
        self.results.retain(|(job, _), _| *job != id);
        Ok(())
    }

    fn insert_job(&mut self, job: &Job) -> Result<(), String> {
        if self.jobs.contains_key(&job.id) {
            return Err(format!("{} is inserted and there already", job.id));
        }
        self.hold(job)?;
        if let Some(instant) = job.labels.get(INSTANT_LABEL)
            && let Some(other) = self.fired.insert((job.producer.clone(), instant.clone()), job.id)
        {
            return Err(format!("{} and {other} are of {} for {instant}", job.id, job.producer));
        }
        self.jobs.insert(job.id, job.clone());
        Ok(())
    }

    /// How its members ended is told by their own rows.
    fn put_workflow(&mut self, workflow: &Workflow) -> Result<(), String> {
        let old = self.workflows.get(&workflow.id).map_or(0, |old| old.version);
        if workflow.version <= old {
            return Err(format!("workflow {}: its version does not rise", workflow.id));
        }
        let ends = vec![None; workflow.ends.len()];
        self.workflows.insert(workflow.id, Workflow { ends, ..workflow.clone() });
        Ok(())
    }

    fn update_job(&mut self, previous: FencingToken, job: &Job) -> Result<(), String> {
        let old = self.jobs.remove(&job.id).ok_or_else(|| format!("{} is updated and not there", job.id))?;
        if old.token != previous {
            return Err(format!("{}: its row has token {}, not {previous}", job.id, old.token));
        }
        if job.token < old.token {
            return Err(format!("{}: its token falls from {} to {}", job.id, old.token, job.token));
        }
        if job.version <= old.version {
            return Err(format!("{}: its version does not rise", job.id));
        }
        if old.state.is_final() {
            // One turn may requeue it, end it, and requeue it again.
            let requeued = job.round > old.round && !matches!(job.state, JobState::Scheduled { .. });
            let same = job.round == old.round && job.state == old.state;
            if !requeued && !same {
                let (old, new) = (old.state.name(), job.state.name());
                return Err(format!("{}: a final row changes from {old} to {new}: {job:?}", job.id));
            }
        }
        self.let_go(&old);
        self.hold(job)?;
        self.jobs.insert(job.id, job.clone());
        Ok(())
    }

    fn hold(&mut self, job: &Job) -> Result<(), String> {
        if let (Some(key), true) = (&job.dedupe_key, job.dedupe_held) {
            let key = (job.tenant.clone(), job.kind.clone(), key.clone());
            if let Some(other) = self.held.insert(key, job.id) {
                return Err(format!("jobs_dedupe_held: {} and {other}", job.id));
            }
        }
        Ok(())
    }

    fn let_go(&mut self, job: &Job) {
        if let (Some(key), true) = (&job.dedupe_key, job.dedupe_held) {
            self.held.remove(&(job.tenant.clone(), job.kind.clone(), key.clone()));
        }
    }

    fn put_lease(&mut self, lease: &Lease) -> Result<(), String> {
        if let Some(old) = self.leases.insert(lease.token, lease.clone()) {
            let fixed = |lease: &Lease| (lease.job, lease.node.clone(), lease.length);
            if fixed(&old) != fixed(lease) {
                return Err(format!("lease {} is another one: {old:?}, {lease:?}", lease.token));
            }
        }
        let mut live = self.leases.values().filter(|other| other.job == lease.job && other.stage.is_live());
        match (live.next(), live.next()) {
            (Some(one), Some(two)) => {
                Err(format!("leases_one_live_per_job: {} has {} and {}", lease.job, one.token, two.token))
            }
            (Some(_) | None, _) => Ok(()),
        }
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
            jobs: live.map(|(_, job)| job.clone()).collect(),
            leases: self.leases.clone(),
            workflows: self
                .workflows
                .iter()
                .filter(|(_, row)| !row.state.is_final())
                .map(|(id, row)| (*id, self.with_ends(row)))
                .collect(),
            // Its fleet names none, so that nothing is to be told.
            webhooks: BTreeMap::new(),
            deliveries: BTreeMap::new(),
            classes: self.classes.clone(),
        }
    }

    /// A workflow with the ends of its members.
    pub(crate) fn workflow(&self, id: WorkflowId) -> Option<Workflow> {
        self.workflows.get(&id).map(|row| self.with_ends(row))
    }

    fn with_ends(&self, row: &Workflow) -> Workflow {
        let of = |job: &&Job| job.workflow.is_some_and(|of| of.workflow == row.id);
        let end = |place| match self.jobs.get(&row.id.member(place)).filter(of) {
            Some(job) => ChildEnd::of(&job.state),
            None => Some(ChildEnd::Missing),
        };
        Workflow { ends: (0..row.shape.size()).map(end).collect(), ..row.clone() }
    }

    /// The rows of all workflows, without the ends of their members.
    pub(crate) fn workflows(&self) -> impl Iterator<Item = &Workflow> {
        self.workflows.values()
    }

    /// How often a job has succeeded: each success leaves a result of its token.
    pub(crate) fn successes(&self, job: JobId) -> usize {
        let all = (job, FencingToken(0))..=(job, FencingToken(u64::MAX));
        self.results.range(all).filter(|(_, result)| !result.of_wait).count()
    }

    /// The rows of all cron entries.
    pub(crate) fn crons(&self) -> impl Iterator<Item = &CronEntry> {
        self.crons.values()
    }

    pub(crate) fn job(&self, id: JobId) -> Option<Box<Job>> {
        self.jobs.get(&id).cloned().map(Box::new)
    }

    /// The job that holds a key.
    pub(crate) fn holder(&self, key: &(Tenant, KindName, DedupeKey)) -> Option<Box<Job>> {
        self.held.get(key).and_then(|id| self.job(*id))
    }

    pub(crate) fn result(&self, job: JobId, token: FencingToken) -> bool {
        self.results.contains_key(&(job, token))
    }
}

fn put<K: Ord, V: Clone>(table: &mut BTreeMap<K, V>, rows: &[V], key: impl Fn(&V) -> K) {
    table.extend(rows.iter().map(|row| (key(row), row.clone())));
}

fn delete<K: Ord + std::fmt::Debug, V>(table: &mut BTreeMap<K, V>, keys: &[K]) -> Result<(), String> {
    for key in keys {
        table.remove(key).ok_or_else(|| format!("{key:?} is deleted and not there"))?;
    }
    Ok(())
}
