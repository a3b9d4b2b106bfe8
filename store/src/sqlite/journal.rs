//! The writer: one connection, closed and opened anew at every takeover.
//!
//! A dropped future leaves its statement running on the connection's thread, so that after any error, and after any
//! call that was dropped half-way, only a takeover helps: it closes the connection and waits for its thread, and the
//! first transaction on the new one raises the epoch, which waits for whatever else may still write.

use std::path::PathBuf;

use futures_util::TryStreamExt;
use sqlx::{Connection, Row, SqliteConnection, sqlite::SqliteRow};
use tenure_scheduler::{Changes, Durable, Epoch, Job, JobId, Workflow, WorkflowId};

use super::outbox::{DELIVERY_LOAD, WEBHOOK_LOAD};
use super::{
    columns::{read, read_all},
    commit, connect, fault,
    lock::Lock,
};
use crate::{
    Beside, HeldKey, Journal, Taken,
    journal::Error,
    rows::{self, Batch, Fields, KeyRow, Names, batch, int, job_columns, workflow_columns},
    turn::{self, Turn},
};

/// The writer of a SQLite file.
#[derive(Debug)]
pub struct SqliteJournal {
    file: PathBuf,
    pub(super) connection: Option<SqliteConnection>,
    /// No error, and no call dropped half-way, since the last takeover.
    ready: bool,
    /// Given back when the journal is dropped, after its connection.
    _lock: Lock,
}

/// For the test that prepares each.
#[cfg(test)]
pub(super) const ALL: [&str; 16] = [
    EPOCH_RAISE,
    EPOCH_CHECK,
    JOB_PRIOR_BY_ID,
    JOB_PRIOR_BY_KEY,
    JOB_LOAD,
    LEASE_LOAD,
    KIND_LOAD,
    SLOT_LOAD,
    TENANT_LOAD,
    NODE_LOAD,
    CRON_LOAD,
    CLASS_LOAD,
    WORKFLOW_LOAD,
    END_LOAD,
    WORKFLOW_PRIOR,
    END_PRIOR,
];

pub(super) const EPOCH_RAISE: &str = "
update leader_fence
set epoch = max(epoch, $1) + 1, hb = hb + 1, acquired_at = cast(unixepoch('subsec') * 1000000 as integer)
returning epoch";

pub(super) const EPOCH_CHECK: &str = "select 1 from leader_fence where epoch = $1";

pub(super) const JOB_PRIOR_BY_ID: &str = concat!(
    "select ",
    job_columns!(),
    "
from jobs
where id in (select value from json_each($1))"
);

pub(super) const JOB_PRIOR_BY_KEY: &str = concat!(
    "select ",
    job_columns!(),
    "
from jobs
where dedupe_held
  and (tenant, kind, dedupe_key) in (
    select value ->> 'tenant', value ->> 'kind', value ->> 'dedupe_key' from json_each($1))"
);

pub(super) const JOB_LOAD: &str = concat!(
    "select ",
    job_columns!(),
    "
from jobs
where finished_at is null"
);

pub(super) const LEASE_LOAD: &str = "
select token, job_id, kind, node, length_us, reservation, attempt, round, granted_at, phase, orphaned, tenant,
  concurrency_key, parked
from leases";

pub(super) const KIND_LOAD: &str = "select name, policy, paused, dead_by_day, spent from kinds";

pub(super) const SLOT_LOAD: &str = "
select name, scope, capacity, capacity_since, paused, paused_until, rate_tokens, rate_per_us, rate_burst, rate_full_at,
  throttled_until
from slots";

pub(super) const CRON_LOAD: &str = "
select name, policy, last_instant, paused_by, paused_at, fired, missed, last_fired, recent
from crons";

pub(super) const TENANT_LOAD: &str = "select name, weight from tenants";

pub(super) const NODE_LOAD: &str = "
select name, instance, boot_id, incarnation, stream, labels, slots, kinds, host, agent_version, cordoned, draining_us,
  last_seen_at
from nodes";

pub(super) const CLASS_LOAD: &str = "select class, timeline from classes";

pub(super) const WORKFLOW_LOAD: &str = concat!(
    "select ",
    workflow_columns!(),
    "
from workflows
where finished_at is null"
);

pub(super) const END_LOAD: &str = "
select jobs.workflow_id, jobs.workflow_place, jobs.state
from workflows
join jobs on jobs.workflow_id = workflows.id
where workflows.finished_at is null and jobs.finished_at is not null";

pub(super) const WORKFLOW_PRIOR: &str = concat!(
    "select ",
    workflow_columns!(),
    "
from workflows
where id in (select value from json_each($1))"
);

pub(super) const END_PRIOR: &str = "
select workflow_id, workflow_place, state
from jobs
where finished_at is not null and workflow_id in (select value from json_each($1))";

impl SqliteJournal {
    pub(super) fn new(file: PathBuf, lock: Lock) -> Self {
        Self { file, connection: None, ready: false, _lock: lock }
    }

    /// The connection, for one call. Until the call says that it is ready again, only a takeover helps.
    fn begin(&mut self) -> Result<&mut SqliteConnection, Error> {
        let ready = std::mem::take(&mut self.ready);
        let connection = self.connection.as_mut().filter(|_| ready);
        connection.ok_or(Error::Unavailable { doing: "using a journal that has to take over", source: None })
    }
}

impl Journal for SqliteJournal {
    async fn takeover(&mut self, at_least: Epoch) -> Result<Taken, Error> {
        self.ready = false;
        if let Some(old) = self.connection.take() {
            // Its error would be about what it did before, which nobody waits for any more.
            old.close().await.unwrap_or_default();
        }
        let connection =
            connect(&self.file, false).await.map_err(|error| fault::of("opening the database", error))?;
        let connection = self.connection.insert(connection);
        let epoch = raise_epoch(connection, at_least).await?;
        let durable = load(connection).await?;
        self.ready = true;
        Ok(Taken { epoch, durable })
    }

    async fn prior(&mut self, ids: &[JobId], keys: &[HeldKey]) -> Result<Vec<Job>, Error> {
        let connection = self.begin()?;
        let ids = batch("jobs", ids.iter().map(ToString::to_string))?;
        let keys = batch("jobs", keys.iter().map(KeyRow::from))?;
        let mut found = prior(connection, "JOB_PRIOR_BY_ID", JOB_PRIOR_BY_ID, ids).await?;
        found.extend(prior(connection, "JOB_PRIOR_BY_KEY", JOB_PRIOR_BY_KEY, keys).await?);
        found.sort_by_key(|job| job.id);
        found.dedup_by_key(|job| job.id);
        self.ready = true;
        Ok(found)
    }

    async fn prior_workflows(&mut self, ids: &[WorkflowId]) -> Result<Vec<Workflow>, Error> {
        let connection = self.begin()?;
        let ids = batch("workflows", ids.iter().map(ToString::to_string))?;
        let found = sqlx::query(WORKFLOW_PRIOR).bind(&ids.text).fetch_all(&mut *connection);
        let found = found.await.map_err(|error| fault::of("WORKFLOW_PRIOR", error))?;
        let ends = sqlx::query(END_PRIOR).bind(&ids.text).fetch_all(&mut *connection);
        let ends = ends.await.map_err(|error| fault::of("END_PRIOR", error))?;
        let found = read_all("workflows", &found, rows::read_workflow)?;
        let found = rows::put_ends(found, read_all("jobs", &ends, rows::read_end)?);
        self.ready = true;
        Ok(found.into_values().collect())
    }

    async fn commit(&mut self, epoch: Epoch, changes: &Changes, beside: &Beside) -> Result<(), Error> {
        let connection = self.begin()?;
        let turn = Turn::new(changes, beside)?;
        turn::sent("BEGIN");
        let begin = connection.begin_with("begin immediate");
        let mut transaction = begin.await.map_err(|error| fault::of("beginning a commit", error))?;
        turn::sent("EPOCH_CHECK");
        let check = sqlx::query(EPOCH_CHECK).bind(int(epoch.0)).fetch_optional(&mut *transaction);
        if check.await.map_err(|error| fault::of("EPOCH_CHECK", error))?.is_none() {
            return Err(Error::Deposed { epoch });
        }
        commit::write(&mut transaction, &turn).await?;
        turn::sent("COMMIT");
        transaction.commit().await.map_err(|error| fault::of("committing", error))?;
        self.ready = true;
        Ok(())
    }

    async fn close(mut self) {
        if let Some(connection) = self.connection.take() {
            // Nothing is in flight that anybody waits for.
            connection.close().await.unwrap_or_default();
        }
    }
}

async fn raise_epoch(connection: &mut SqliteConnection, at_least: Epoch) -> Result<Epoch, Error> {
    let failed = |error| fault::of("EPOCH_RAISE", error);
    let mut transaction = connection.begin_with("begin immediate").await.map_err(failed)?;
    let raised = sqlx::query(EPOCH_RAISE).bind(int(at_least.0)).fetch_optional(&mut *transaction);
    let row = raised.await.map_err(failed)?.ok_or_else(|| rows::Error {
        table: "leader_fence",
        key: "the row".into(),
        problem: "is missing".into(),
    })?;
    let epoch: i64 = row.try_get(0).map_err(failed)?;
    transaction.commit().await.map_err(failed)?;
    Ok(Epoch(u64::try_from(epoch).unwrap_or(0)))
}

async fn prior(
    connection: &mut SqliteConnection,
    name: &'static str,
    statement: &'static str,
    asked: Batch,
) -> Result<Vec<Job>, Error> {
    if asked.sent == 0 {
        return Ok(Vec::new());
    }
    let found = sqlx::query(statement).bind(asked.text).fetch_all(connection);
    Ok(read_all("jobs", &found.await.map_err(|error| fault::of(name, error))?, rows::read_job)?)
}

/// Everything that a leader loads, in one snapshot.
async fn load(connection: &mut SqliteConnection) -> Result<Durable, Error> {
    let mut snapshot = connection.begin().await.map_err(|error| fault::of("beginning a load", error))?;
    let mut durable = Durable::default();
    let mut names = Names::default();
    for kind in each(&mut snapshot, &mut names, "KIND_LOAD", KIND_LOAD, "kinds", rows::read_kind).await? {
        durable.kinds.insert(kind.name.clone(), kind);
    }
    for slot in each(&mut snapshot, &mut names, "SLOT_LOAD", SLOT_LOAD, "slots", rows::read_slot).await? {
        durable.slots.insert(slot.name.clone(), slot);
    }
    let tenants = each(&mut snapshot, &mut names, "TENANT_LOAD", TENANT_LOAD, "tenants", rows::read_tenant);
    durable.tenants.extend(tenants.await?);
    for node in each(&mut snapshot, &mut names, "NODE_LOAD", NODE_LOAD, "nodes", rows::read_node).await? {
        durable.nodes.insert(node.name.clone(), node);
    }
    for cron in each(&mut snapshot, &mut names, "CRON_LOAD", CRON_LOAD, "crons", rows::read_cron).await? {
        durable.crons.insert(cron.name.clone(), cron);
    }
    let webhooks =
        each(&mut snapshot, &mut names, "WEBHOOK_LOAD", WEBHOOK_LOAD, "webhooks", rows::read_webhook);
    for webhook in webhooks.await? {
        durable.webhooks.insert(webhook.name.clone(), webhook);
    }
    let deliveries =
        each(&mut snapshot, &mut names, "DELIVERY_LOAD", DELIVERY_LOAD, "outbox", rows::read_delivery);
    for delivery in deliveries.await? {
        durable.deliveries.insert(delivery.id, delivery);
    }
    for class in
        each(&mut snapshot, &mut names, "CLASS_LOAD", CLASS_LOAD, "classes", rows::read_class).await?
    {
        durable.classes.insert(class.class.clone(), class);
    }
    for lease in each(&mut snapshot, &mut names, "LEASE_LOAD", LEASE_LOAD, "leases", rows::read_lease).await?
    {
        durable.leases.insert(lease.token, lease);
    }
    let jobs = each(&mut snapshot, &mut names, "JOB_LOAD", JOB_LOAD, "jobs", rows::read_job);
    durable.jobs = jobs.await?.into();
    let live =
        each(&mut snapshot, &mut names, "WORKFLOW_LOAD", WORKFLOW_LOAD, "workflows", rows::read_workflow);
    let live = live.await?;
    let ends = each(&mut snapshot, &mut names, "END_LOAD", END_LOAD, "jobs", rows::read_end).await?;
    durable.workflows = rows::put_ends(live, ends);
    snapshot.commit().await.map_err(|error| fault::of("ending a load", error))?;
    Ok(durable)
}

async fn each<T>(
    connection: &mut SqliteConnection,
    names: &mut Names,
    name: &'static str,
    statement: &'static str,
    table: &'static str,
    make: fn(&mut Fields<'_>) -> Result<T, rows::Error>,
) -> Result<Vec<T>, Error> {
    let failed = |error| fault::of(name, error);
    let mut stream = sqlx::query(statement).fetch(connection);
    let mut all = Vec::new();
    while let Some(row) = stream.try_next().await.map_err(failed)? {
        let row: SqliteRow = row;
        all.push(read(table, &row, names, make)?);
    }
    Ok(all)
}
