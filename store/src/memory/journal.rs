//! The journal of the store in memory.

use tenure_scheduler::{Changes, Durable, Epoch, Job, JobId, Workflow, WorkflowId};

use super::{
    Fault, Memory, Shared, Tables, outbox,
    tables::{ResultRow, fired},
};
use crate::{
    Beside, HeldKey, Journal, StoredResult, Taken,
    election::Trust,
    journal::Error,
    turn::{self, Turn},
};

/// A writer of a store in memory.
#[derive(Debug)]
pub struct MemoryJournal {
    store: Memory,
    /// No error since the last takeover.
    ready: bool,
}

impl MemoryJournal {
    pub(super) fn new(store: Memory) -> Self {
        Self { store, ready: false }
    }

    /// Runs one call on the tables. Until it ends well, only a takeover helps.
    fn call<T>(&mut self, work: impl FnOnce(&mut Shared) -> Result<T, Error>) -> Result<T, Error> {
        if !std::mem::take(&mut self.ready) {
            return Err(away("using a journal that has to take over"));
        }
        let mut shared = self.store.lock();
        if shared.away {
            return Err(away("reaching the store in memory"));
        }
        let done = work(&mut shared)?;
        self.ready = true;
        Ok(done)
    }
}

impl Journal for MemoryJournal {
    async fn takeover(&mut self, at_least: Epoch) -> Result<Taken, Error> {
        self.ready = true;
        self.call(|shared| {
            let tables = &mut shared.tables;
            tables.epoch = Epoch(tables.epoch.max(at_least).0 + 1);
            Ok(Taken { epoch: tables.epoch, durable: load(tables) })
        })
    }

    async fn prior(&mut self, ids: &[JobId], keys: &[HeldKey]) -> Result<Vec<Job>, Error> {
        self.store.pass(&self.store.lookups).await;
        self.call(|Shared { tables, .. }| {
            let by_id = ids.iter().filter_map(|id| tables.jobs.get(id));
            let by_key = keys.iter().filter_map(|key| tables.holder(key));
            let mut found: Vec<Job> = by_id.chain(by_key).cloned().collect();
            found.sort_by_key(|job| job.id);
            found.dedup_by_key(|job| job.id);
            Ok(found)
        })
    }

    async fn prior_workflows(&mut self, ids: &[WorkflowId]) -> Result<Vec<Workflow>, Error> {
        self.store.pass(&self.store.lookups).await;
        self.call(|Shared { tables, .. }| Ok(ids.iter().filter_map(|id| tables.workflow(*id)).collect()))
    }

    async fn commit(&mut self, epoch: Epoch, changes: &Changes, beside: &Beside) -> Result<(), Error> {
        self.store.pass(&self.store.gate).await;
        let turn = Turn::new(changes, beside)?;
        self.call(|shared| {
            let (fault, more) = shared.fault.take().unzip();
            shared.fault =
                fault.zip(more.and_then(|commits| commits.checked_sub(1).filter(|left| *left > 0)));
            match fault {
                Some(Fault::Deposed) => shared.tables.epoch = Epoch(shared.tables.epoch.0 + 1),
                Some(Fault::Constraint(name)) => return Err(fired(name, "told by a test")),
                Some(Fault::UnknownLost) => return Err(away("committing")),
                Some(Fault::UnknownApplied) | None => (),
            }
            if shared.tables.epoch != epoch {
                return Err(Error::Deposed { epoch });
            }
            if let Err(error) = write(&mut shared.tables, &turn) {
                shared.tables.undo();
                return Err(error);
            }
            shared.tables.keep();
            shared.commits += 1;
            if fault == Some(Fault::UnknownApplied) { Err(away("committing")) } else { Ok(()) }
        })
    }

    fn trust(&self) -> Trust {
        self.store.lock().trust.clone()
    }

    async fn close(self) {}
}

impl Memory {
    async fn pass(&self, gate: &tokio::sync::watch::Sender<bool>) {
        let mut gate = gate.subscribe();
        if !*gate.borrow_and_update() {
            return;
        }
        let _waiting = Waiting::new(self);
        while *gate.borrow_and_update() {
            // An error would mean that the sender is gone, which `self` keeps.
            if gate.changed().await.is_err() {
                return;
            }
        }
    }
}

/// Counts one waiting call for as long as it lives, also if its future is dropped.
struct Waiting<'a>(&'a Memory);

impl<'a> Waiting<'a> {
    fn new(store: &'a Memory) -> Self {
        store.lock().waiting += 1;
        Self(store)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.lock().waiting -= 1;
    }
}

fn load(tables: &Tables) -> Durable {
    let live = tables.jobs.rows().iter().filter(|(_, job)| !job.state.is_final());
    Durable {
        kinds: tables.kinds.rows().clone(),
        slots: tables.slots.rows().clone(),
        nodes: tables.nodes.rows().clone(),
        tenants: tables.tenants.rows().clone(),
        crons: tables.crons.rows().clone(),
        webhooks: tables.webhooks.rows().clone(),
        deliveries: tables.outbox.rows().iter().map(|(id, (delivery, _))| (*id, delivery.clone())).collect(),
        jobs: live.map(|(_, job)| job.clone()).collect(),
        leases: tables.leases.rows().clone(),
        workflows: tables
            .workflows
            .rows()
            .iter()
            .filter(|(_, workflow)| !workflow.state.is_final())
            .filter_map(|(id, _)| Some((*id, tables.workflow(*id)?)))
            .collect(),
        classes: tables.classes.rows().clone(),
    }
}

/// Deletes, then updates, then inserts: what one row frees, another may take.
fn write(tables: &mut Tables, turn: &Turn<'_>) -> Result<(), Error> {
    delete(tables, turn)?;
    for updated in [&turn.updated_free, &turn.updated_held] {
        let mut affected = 0;
        for (previous, job) in updated {
            affected += tables.update_job(*previous, job)?;
        }
        turn::expect("JOB_UPDATE", turn::count(updated), affected)?;
    }
    put_fleet(tables, turn.changes);
    put_crons(tables, turn.changes)?;
    outbox::put(tables, turn.changes)?;
    insert(tables, turn)
}

fn delete(tables: &mut Tables, turn: &Turn<'_>) -> Result<(), Error> {
    let changes = turn.changes;
    // Not counted: the result may have gone with its job, and a timeline need not have been saved yet.
    for key in &changes.results_deleted {
        tables.results.remove(key);
    }
    for class in &changes.classes_deleted {
        tables.classes.remove(class);
    }
    each("JOB_DELETE", &turn.deleted, |id| tables.delete_job(*id))?;
    each("LEASE_DELETE", &changes.leases_deleted, |token| tables.delete_lease(*token))?;
    each("KIND_DELETE", &changes.kinds_deleted, |name| tables.kinds.remove(name))?;
    each("SLOT_DELETE", &changes.slots_deleted, |name| tables.slots.remove(name))?;
    each("TENANT_DELETE", &changes.tenants_deleted, |name| tables.tenants.remove(name))?;
    each("NODE_DELETE", &changes.nodes_deleted, |name| tables.nodes.remove(name))?;
    each("CRON_DELETE", &changes.crons_deleted, |name| tables.crons.remove(name))?;
    outbox::delete(tables, changes)?;
    each("WORKFLOW_DELETE", &changes.workflows_deleted, |id| tables.workflows.remove(id))
}

/// Removes one row per key.
pub(super) fn each<K>(
    statement: &'static str,
    keys: &[K],
    mut remove: impl FnMut(&K) -> u64,
) -> Result<(), Error> {
    let affected = keys.iter().map(&mut remove).sum();
    turn::expect(statement, turn::count(keys), affected)
}

fn put_fleet(tables: &mut Tables, changes: &Changes) {
    for kind in &changes.kinds_put {
        tables.kinds.put(kind.name.clone(), kind.clone());
    }
    for slot in &changes.slots_put {
        tables.slots.put(slot.name.clone(), slot.clone());
    }
    for (name, policy) in &changes.tenants_put {
        tables.tenants.put(name.clone(), *policy);
    }
    for node in &changes.nodes_put {
        tables.nodes.put(node.name.clone(), node.clone());
    }
    for workflow in &changes.workflows_put {
        tables
            .workflows
            .put(workflow.id, Workflow { ends: vec![None; workflow.ends.len()], ..workflow.clone() });
    }
    for class in &changes.classes_put {
        tables.classes.put(class.class.clone(), class.clone());
    }
}

/// What is settled stays so.
fn put_crons(tables: &mut Tables, changes: &Changes) -> Result<(), Error> {
    let mut affected = 0;
    for entry in &changes.crons_put {
        let known = tables.crons.get(&entry.name);
        if known.is_none_or(|known| known.last_instant <= entry.last_instant) {
            tables.crons.put(entry.name.clone(), entry.clone());
            affected += 1;
        }
    }
    turn::expect("CRON_UPSERT", turn::count(&changes.crons_put), affected)
}

fn insert(tables: &mut Tables, turn: &Turn<'_>) -> Result<(), Error> {
    for job in &turn.inserted {
        tables.insert_job(job)?;
    }
    for (job, payload) in &turn.payloads {
        tables.payloads.put(*job, (*payload).clone());
    }
    for lease in &turn.leases {
        tables.put_lease(lease)?;
    }
    for attempt in &turn.changes.attempts_put {
        tables.put_attempt(attempt)?;
    }
    for (put, bytes) in &turn.results {
        let stored = StoredResult {
            job: put.job,
            token: put.token,
            data: bytes.data.clone(),
            content_type: bytes.content_type.clone(),
            created_at: put.created_at,
            expires_at: put.expires_at,
            partial: put.partial,
            object: bytes.object,
        };
        tables.insert_result(ResultRow { stored, of_wait: put.of_wait })?;
    }
    for (put, data) in &turn.checkpoints {
        tables.put_checkpoint(put.job, data)?;
    }
    for (job, token, tail) in &turn.log_tails {
        tables.put_log_tail((*job, *token), tail)?;
    }
    outbox::insert(tables, &turn.deliveries)
}

fn away(doing: &'static str) -> Error {
    Error::Unavailable { doing, source: None }
}
