//! The tables in memory, with the constraints of the schema. A turn writes through them and then keeps or undoes all.

use std::collections::BTreeMap;

use bytes::Bytes;
use tenure_scheduler::{
    Attempt, ChildEnd, ClassRow, CronEntry, CronName, Delivery, DeliveryId, Epoch, FencingToken, Job, JobId,
    Kind, KindName, Lease, Node, NodeName, Slot, SlotName, Tenant, TenantPolicy, Webhook, WebhookName,
    Workflow, WorkflowId,
};

use crate::{
    HeldKey, LogTail, Payload, StoredResult,
    journal::{self, Error},
    rows,
};

/// Rows by key, and what they were before the turn.
#[derive(Debug)]
pub(super) struct Table<K, V> {
    rows: BTreeMap<K, V>,
    undo: Vec<(K, Option<V>)>,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self { rows: BTreeMap::new(), undo: Vec::new() }
    }
}

impl<K: Ord + Clone, V: Clone> Table<K, V> {
    pub(super) fn rows(&self) -> &BTreeMap<K, V> {
        &self.rows
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.rows.get(key)
    }

    pub(super) fn put(&mut self, key: K, row: V) {
        let old = self.rows.insert(key.clone(), row);
        self.undo.push((key, old));
    }

    /// How many rows went: 0 or 1.
    pub(super) fn remove(&mut self, key: &K) -> u64 {
        let Some(old) = self.rows.remove(key) else { return 0 };
        self.undo.push((key.clone(), Some(old)));
        1
    }
}

/// The end of a turn, for a table of any type.
trait Undo {
    fn keep(&mut self);
    fn undo(&mut self);
}

impl<K: Ord + Clone, V: Clone> Undo for Table<K, V> {
    fn keep(&mut self) {
        self.undo.clear();
    }

    fn undo(&mut self) {
        while let Some((key, old)) = self.undo.pop() {
            match old {
                Some(row) => self.rows.insert(key, row),
                None => self.rows.remove(&key),
            };
        }
    }
}

/// A row of results.
#[derive(Debug, Clone)]
pub(super) struct ResultRow {
    pub(super) stored: StoredResult,
    /// It is the state that an execution left which detached.
    pub(super) of_wait: bool,
}

/// Everything that is stored.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) epoch: Epoch,
    pub(super) kinds: Table<KindName, Kind>,
    pub(super) slots: Table<SlotName, Slot>,
    pub(super) tenants: Table<Tenant, TenantPolicy>,
    pub(super) nodes: Table<NodeName, Node>,
    pub(super) crons: Table<CronName, CronEntry>,
    pub(super) webhooks: Table<WebhookName, Webhook>,
    pub(super) outbox: Table<DeliveryId, (Delivery, String)>,
    pub(super) jobs: Table<JobId, Job>,
    pub(super) leases: Table<FencingToken, Lease>,
    pub(super) classes: Table<String, ClassRow>,
    /// Without the ends of their members, which are told by the rows of those.
    pub(super) workflows: Table<WorkflowId, Workflow>,
    pub(super) attempts: Table<(JobId, FencingToken), Attempt>,
    pub(super) payloads: Table<JobId, Payload>,
    pub(super) results: Table<(JobId, FencingToken), ResultRow>,
    pub(super) checkpoints: Table<JobId, Bytes>,
    pub(super) log_tails: Table<(JobId, FencingToken), LogTail>,
    /// The unique index `jobs_dedupe_held`.
    held: Table<HeldKey, JobId>,
    /// The unique index `leases_one_live_per_job`.
    live: Table<JobId, FencingToken>,
}

impl Tables {
    /// The job that holds a dedupe key.
    pub(super) fn holder(&self, key: &HeldKey) -> Option<&Job> {
        self.held.get(key).and_then(|id| self.jobs.get(id))
    }

    /// A workflow with the ends of its members.
    pub(super) fn workflow(&self, id: WorkflowId) -> Option<Workflow> {
        let workflow = self.workflows.get(&id)?.clone();
        let of = |job: &Job| {
            let member = job.workflow.filter(|member| member.workflow == id)?;
            Some((id, member.place, ChildEnd::of(&job.state)?))
        };
        rows::put_ends(vec![workflow], self.jobs.rows().values().filter_map(of)).remove(&id)
    }

    pub(super) fn insert_job(&mut self, job: &Job) -> Result<(), Error> {
        if self.jobs.get(&job.id).is_some() {
            return Err(fired("jobs_pkey", "JOB_INSERT"));
        }
        let same = |row: &Job| row.workflow == job.workflow;
        if job.workflow.is_some() && self.jobs.rows().values().any(same) {
            return Err(fired("jobs_one_per_place", "JOB_INSERT"));
        }
        self.hold_key(job, "JOB_INSERT")?;
        self.jobs.put(job.id, job.clone());
        Ok(())
    }

    /// How many rows changed: 0 if the row is gone or has another token.
    pub(super) fn update_job(&mut self, previous: FencingToken, job: &Job) -> Result<u64, Error> {
        let Some(old) = self.jobs.get(&job.id).filter(|old| old.token == previous).cloned() else {
            return Ok(0);
        };
        if job.token < old.token {
            return Err(fired("jobs_token_never_falls", "JOB_UPDATE"));
        }
        if old.state.is_final() && job.round <= old.round && !releases_at_most_its_key(&old, job) {
            return Err(fired("jobs_final_never_changes", "JOB_UPDATE"));
        }
        if let Some(key) = held_key(&old) {
            self.held.remove(&key);
        }
        self.hold_key(job, "JOB_UPDATE")?;
        self.jobs.put(job.id, job.clone());
        Ok(1)
    }

    /// Removes a job with all that belongs to it, but for its leases: those outlive it.
    pub(super) fn delete_job(&mut self, id: JobId) -> u64 {
        let Some(old) = self.jobs.get(&id).cloned() else { return 0 };
        if let Some(key) = held_key(&old) {
            self.held.remove(&key);
        }
        self.payloads.remove(&id);
        for token in of_job(&self.attempts, id) {
            self.attempts.remove(&(id, token));
        }
        for token in of_job(&self.results, id) {
            self.results.remove(&(id, token));
        }
        self.checkpoints.remove(&id);
        for token in of_job(&self.log_tails, id) {
            self.log_tails.remove(&(id, token));
        }
        self.jobs.remove(&id)
    }

    pub(super) fn put_lease(&mut self, lease: &Lease) -> Result<(), Error> {
        self.release_live(lease.token);
        if lease.stage.is_live() {
            if self.live.get(&lease.job).is_some() {
                return Err(fired("leases_one_live_per_job", "LEASE_UPSERT"));
            }
            self.live.put(lease.job, lease.token);
        }
        self.leases.put(lease.token, lease.clone());
        Ok(())
    }

    pub(super) fn delete_lease(&mut self, token: FencingToken) -> u64 {
        self.release_live(token);
        self.leases.remove(&token)
    }

    pub(super) fn put_attempt(&mut self, attempt: &Attempt) -> Result<(), Error> {
        if self.jobs.get(&attempt.job).is_none() {
            return Err(fired("attempts_belong_to_a_job", "ATTEMPT_UPSERT"));
        }
        self.attempts.put((attempt.job, attempt.token), attempt.clone());
        Ok(())
    }

    pub(super) fn insert_result(&mut self, result: ResultRow) -> Result<(), Error> {
        let key = (result.stored.job, result.stored.token);
        if self.results.get(&key).is_some() {
            return Err(fired("results_pkey", "RESULT_INSERT"));
        }
        if self.jobs.get(&key.0).is_none() {
            return Err(fired("results_belong_to_a_job", "RESULT_INSERT"));
        }
        self.results.put(key, result);
        Ok(())
    }

    pub(super) fn put_checkpoint(&mut self, job: JobId, data: &Bytes) -> Result<(), Error> {
        if self.jobs.get(&job).is_none() {
            return Err(fired("checkpoints_belong_to_a_job", "CHECKPOINT_UPSERT"));
        }
        self.checkpoints.put(job, data.clone());
        Ok(())
    }

    pub(super) fn put_log_tail(&mut self, key: (JobId, FencingToken), tail: &LogTail) -> Result<(), Error> {
        if self.jobs.get(&key.0).is_none() {
            return Err(fired("log_tails_belong_to_a_job", "LOG_TAIL_UPSERT"));
        }
        self.log_tails.put(key, tail.clone());
        Ok(())
    }

    /// Makes everything written since the last end of a turn stay.
    pub(super) fn keep(&mut self) {
        for table in self.all() {
            table.keep();
        }
    }

    /// Makes everything written since the last end of a turn not have happened.
    pub(super) fn undo(&mut self) {
        for table in self.all() {
            table.undo();
        }
    }

    fn all(&mut self) -> [&mut dyn Undo; 18] {
        [
            &mut self.kinds,
            &mut self.slots,
            &mut self.tenants,
            &mut self.nodes,
            &mut self.crons,
            &mut self.webhooks,
            &mut self.outbox,
            &mut self.jobs,
            &mut self.leases,
            &mut self.classes,
            &mut self.workflows,
            &mut self.attempts,
            &mut self.payloads,
            &mut self.results,
            &mut self.checkpoints,
            &mut self.log_tails,
            &mut self.held,
            &mut self.live,
        ]
    }

    fn hold_key(&mut self, job: &Job, statement: &'static str) -> Result<(), Error> {
        let Some(key) = held_key(job) else { return Ok(()) };
        if self.held.get(&key).is_some() {
            return Err(fired("jobs_dedupe_held", statement));
        }
        self.held.put(key, job.id);
        Ok(())
    }

    fn release_live(&mut self, token: FencingToken) {
        if let Some(old) = self.leases.get(&token).filter(|old| old.stage.is_live()) {
            let job = old.job;
            self.live.remove(&job);
        }
    }
}

/// What the trigger on final rows lets pass within a round: the release of the dedupe key.
fn releases_at_most_its_key(old: &Job, new: &Job) -> bool {
    let mut released = new.clone();
    released.dedupe_held = old.dedupe_held;
    released.version = old.version;
    released == *old && new.dedupe_held <= old.dedupe_held
}

fn held_key(job: &Job) -> Option<HeldKey> {
    let key = job.dedupe_key.clone().filter(|_| job.dedupe_held)?;
    Some(HeldKey { tenant: job.tenant.clone(), kind: job.kind.clone(), key })
}

/// The tokens of the rows of one job.
fn of_job<V: Clone>(table: &Table<(JobId, FencingToken), V>, job: JobId) -> Vec<FencingToken> {
    let all = (job, FencingToken::NONE)..=(job, FencingToken(u64::MAX));
    table.rows().range(all).map(|(&(_, token), _)| token).collect()
}

/// A constraint of the schema, fired.
pub(super) fn fired(name: &str, statement: &'static str) -> Error {
    Error::Constraint {
        name: name.into(),
        statement,
        source: journal::Cause::from("refused by the store in memory"),
    }
}
