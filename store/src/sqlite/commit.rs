//! What one commit writes: a handful of set-based statements whatever the batch, in the order deletes, updates,
//! inserts. A batch of rows is one JSON text; bytes go row by row through one prepared statement.

use sqlx::SqliteConnection;
use tenure_scheduler::{KindName, NodeName, SlotName};

use super::fault;
use crate::{
    journal::Error,
    rows::{
        AttemptRow, Batch, JobRow, KindRow, LeaseRow, NodeRow, SlotRow, TimelineRow, batch, int, job_columns,
    },
    turn::{self, Turn},
};

/// Writes a turn into a transaction that has checked its epoch.
///
/// # Errors
/// If a statement fails, or affects another number of rows than it was sent.
pub(super) async fn write(connection: &mut SqliteConnection, turn: &Turn<'_>) -> Result<(), Error> {
    delete(connection, turn).await?;
    update(connection, turn).await?;
    insert(connection, turn).await
}

/// For the test that prepares each.
#[cfg(test)]
pub(super) const ALL: [&str; 17] = [
    RESULT_DELETE,
    CLASS_DELETE,
    JOB_DELETE,
    LEASE_DELETE,
    KIND_DELETE,
    SLOT_DELETE,
    NODE_DELETE,
    JOB_UPDATE,
    KIND_UPSERT,
    SLOT_UPSERT,
    NODE_UPSERT,
    CLASS_UPSERT,
    JOB_INSERT,
    PAYLOAD_INSERT,
    LEASE_UPSERT,
    ATTEMPT_UPSERT,
    RESULT_INSERT,
];

pub(super) const RESULT_DELETE: &str = "
delete from results
where (job_id, token) in (select value ->> 0, value ->> 1 from json_each($1))";

pub(super) const CLASS_DELETE: &str = "delete from classes where class in (select value from json_each($1))";

pub(super) const JOB_DELETE: &str = "delete from jobs where id in (select value from json_each($1))";

pub(super) const LEASE_DELETE: &str = "delete from leases where token in (select value from json_each($1))";

pub(super) const KIND_DELETE: &str = "delete from kinds where name in (select value from json_each($1))";

pub(super) const SLOT_DELETE: &str = "delete from slots where name in (select value from json_each($1))";

pub(super) const NODE_DELETE: &str = "delete from nodes where name in (select value from json_each($1))";

async fn delete(connection: &mut SqliteConnection, turn: &Turn<'_>) -> Result<(), Error> {
    let changes = turn.changes;
    // Not counted: the result may have gone with its job, and a timeline need not have been saved yet.
    let results =
        batch("results", changes.results_deleted.iter().map(|(job, token)| (job.to_string(), int(token.0))))?;
    run(connection, "RESULT_DELETE", RESULT_DELETE, results).await?;
    let classes = batch("classes", &changes.classes_deleted)?;
    run(connection, "CLASS_DELETE", CLASS_DELETE, classes).await?;
    // Payloads, attempts and results go with their job.
    let jobs = batch("jobs", turn.deleted.iter().map(ToString::to_string))?;
    counted(connection, "JOB_DELETE", JOB_DELETE, jobs).await?;
    let leases = batch("leases", changes.leases_deleted.iter().map(|token| int(token.0)))?;
    counted(connection, "LEASE_DELETE", LEASE_DELETE, leases).await?;
    let kinds = batch("kinds", changes.kinds_deleted.iter().map(KindName::as_str))?;
    counted(connection, "KIND_DELETE", KIND_DELETE, kinds).await?;
    let slots = batch("slots", changes.slots_deleted.iter().map(SlotName::as_str))?;
    counted(connection, "SLOT_DELETE", SLOT_DELETE, slots).await?;
    let nodes = batch("nodes", changes.nodes_deleted.iter().map(NodeName::as_str))?;
    counted(connection, "NODE_DELETE", NODE_DELETE, nodes).await
}

// What a job is born with (identity, kind, key, tree, payload) is not written again.
pub(super) const JOB_UPDATE: &str = "
update jobs
set
  sequence = new.value ->> 'sequence',
  state = new.value ->> 'state',
  version = new.value ->> 'version',
  priority = new.value ->> 'priority',
  needs = new.value ->> 'needs',
  selector = new.value ->> 'selector',
  labels = new.value ->> 'labels',
  dedupe_held = new.value ->> 'dedupe_held',
  hard_time_limit_us = new.value ->> 'hard_time_limit_us',
  children = new.value ->> 'children',
  round = new.value ->> 'round',
  failures = new.value ->> 'failures',
  losses = new.value ->> 'losses',
  returns = new.value ->> 'returns',
  returns_in_row = new.value ->> 'returns_in_row',
  token = new.value ->> 'token',
  last_outcome = new.value ->> 'last_outcome',
  last_node = new.value ->> 'last_node',
  granted_at = new.value ->> 'granted_at',
  started_at = new.value ->> 'started_at',
  cancel_requested = new.value ->> 'cancel_requested',
  stale_at = new.value ->> 'stale_at',
  reason = new.value ->> 'reason',
  waits = new.value ->> 'waits',
  run_at = new.value ->> 'run_at',
  scheduled_cause = new.value ->> 'scheduled_cause',
  queued_at = new.value ->> 'queued_at',
  finished_at = new.value ->> 'finished_at'
from json_each($1) as new
where jobs.id = new.value ->> 'id' and jobs.token = new.value ->> 'previous'";

pub(super) const KIND_UPSERT: &str = "
insert into kinds (name, policy, paused, dead_by_day)
select new.value ->> 'name', new.value ->> 'policy', new.value ->> 'paused', new.value ->> 'dead_by_day'
from json_each($1) as new
where true
on conflict (name) do update set
  policy = excluded.policy,
  paused = excluded.paused,
  dead_by_day = excluded.dead_by_day";

pub(super) const SLOT_UPSERT: &str = "
insert into slots (name, scope, capacity, capacity_since, paused, paused_until)
select
  new.value ->> 'name', new.value ->> 'scope', new.value ->> 'capacity', new.value ->> 'capacity_since',
  new.value ->> 'paused', new.value ->> 'paused_until'
from json_each($1) as new
where true
on conflict (name) do update set
  scope = excluded.scope,
  capacity = excluded.capacity,
  capacity_since = excluded.capacity_since,
  paused = excluded.paused,
  paused_until = excluded.paused_until";

pub(super) const NODE_UPSERT: &str = "
insert into nodes (name, instance, boot_id, incarnation, stream, labels, slots, kinds, host, agent_version, cordoned,
  draining_us, last_seen_at)
select
  new.value ->> 'name', new.value ->> 'instance', new.value ->> 'boot_id', new.value ->> 'incarnation',
  new.value ->> 'stream', new.value ->> 'labels', new.value ->> 'slots', new.value ->> 'kinds',
  new.value ->> 'host', new.value ->> 'agent_version', new.value ->> 'cordoned', new.value ->> 'draining_us',
  new.value ->> 'last_seen_at'
from json_each($1) as new
where true
on conflict (name) do update set
  instance = excluded.instance,
  boot_id = excluded.boot_id,
  incarnation = excluded.incarnation,
  stream = excluded.stream,
  labels = excluded.labels,
  slots = excluded.slots,
  kinds = excluded.kinds,
  host = excluded.host,
  agent_version = excluded.agent_version,
  cordoned = excluded.cordoned,
  draining_us = excluded.draining_us,
  last_seen_at = excluded.last_seen_at";

pub(super) const CLASS_UPSERT: &str = "
insert into classes (class, timeline)
select new.value ->> 'class', new.value ->> 'timeline'
from json_each($1) as new
where true
on conflict (class) do update set
  timeline = excluded.timeline";

async fn update(connection: &mut SqliteConnection, turn: &Turn<'_>) -> Result<(), Error> {
    let changes = turn.changes;
    for updated in [&turn.updated_free, &turn.updated_held] {
        let jobs = batch("jobs", updated.iter().map(|(previous, job)| JobRow::update(*previous, job)))?;
        counted(connection, "JOB_UPDATE", JOB_UPDATE, jobs).await?;
    }
    let kinds = batch("kinds", changes.kinds_put.iter().map(KindRow::from))?;
    counted(connection, "KIND_UPSERT", KIND_UPSERT, kinds).await?;
    let slots = batch("slots", changes.slots_put.iter().map(SlotRow::from))?;
    counted(connection, "SLOT_UPSERT", SLOT_UPSERT, slots).await?;
    let nodes = batch("nodes", changes.nodes_put.iter().map(NodeRow::from))?;
    counted(connection, "NODE_UPSERT", NODE_UPSERT, nodes).await?;
    let classes = batch("classes", changes.classes_put.iter().map(TimelineRow::from))?;
    counted(connection, "CLASS_UPSERT", CLASS_UPSERT, classes).await
}

pub(super) const JOB_INSERT: &str = concat!(
    "insert into jobs (",
    job_columns!(),
    ")
select
  new.value ->> 'id', new.value ->> 'sequence', new.value ->> 'tenant', new.value ->> 'producer',
  new.value ->> 'kind', new.value ->> 'state', new.value ->> 'version', new.value ->> 'priority',
  new.value ->> 'needs', new.value ->> 'selector', new.value ->> 'labels', new.value ->> 'dedupe_key',
  new.value ->> 'dedupe_held', unhex(new.value ->> 'fingerprint'), new.value ->> 'hard_time_limit_us',
  new.value ->> 'parent_id', new.value ->> 'root_id', new.value ->> 'depth', new.value ->> 'children',
  new.value ->> 'traceparent', new.value ->> 'payload_size', new.value ->> 'round', new.value ->> 'failures',
  new.value ->> 'losses', new.value ->> 'returns', new.value ->> 'returns_in_row', new.value ->> 'token',
  new.value ->> 'last_outcome', new.value ->> 'last_node', new.value ->> 'granted_at', new.value ->> 'started_at',
  new.value ->> 'cancel_requested', new.value ->> 'created_at', new.value ->> 'stale_at', new.value ->> 'reason',
  new.value ->> 'waits', new.value ->> 'run_at', new.value ->> 'scheduled_cause', new.value ->> 'queued_at',
  new.value ->> 'finished_at'
from json_each($1) as new"
);

pub(super) const PAYLOAD_INSERT: &str =
    "insert into payloads (job_id, data, content_type) values ($1, $2, $3)";

// What a lease is granted with (job, node, length, attempt) is not written again.
pub(super) const LEASE_UPSERT: &str = "
insert into leases (token, job_id, kind, node, length_us, reservation, attempt, round, granted_at, phase)
select
  new.value ->> 'token', new.value ->> 'job_id', new.value ->> 'kind', new.value ->> 'node',
  new.value ->> 'length_us', new.value ->> 'reservation', new.value ->> 'attempt', new.value ->> 'round',
  new.value ->> 'granted_at', new.value ->> 'phase'
from json_each($1) as new
where true
on conflict (token) do update set
  reservation = excluded.reservation,
  phase = excluded.phase";

pub(super) const ATTEMPT_UPSERT: &str = "
insert into attempts (job_id, token, attempt, round, node, outcome, cause, error, exit_code, granted_at, started_at,
  ended_at)
select
  new.value ->> 'job_id', new.value ->> 'token', new.value ->> 'attempt', new.value ->> 'round',
  new.value ->> 'node', new.value ->> 'outcome', new.value ->> 'cause', new.value ->> 'error',
  new.value ->> 'exit_code', new.value ->> 'granted_at', new.value ->> 'started_at', new.value ->> 'ended_at'
from json_each($1) as new
where true
on conflict (job_id, token) do update set
  attempt = excluded.attempt,
  round = excluded.round,
  node = excluded.node,
  outcome = excluded.outcome,
  cause = excluded.cause,
  error = excluded.error,
  exit_code = excluded.exit_code,
  granted_at = excluded.granted_at,
  started_at = excluded.started_at,
  ended_at = excluded.ended_at";

pub(super) const RESULT_INSERT: &str = "
insert into results (job_id, token, data, content_type, created_at, expires_at)
values ($1, $2, $3, $4, $5, $6)";

async fn insert(connection: &mut SqliteConnection, turn: &Turn<'_>) -> Result<(), Error> {
    let jobs = batch("jobs", turn.inserted.iter().map(|job| JobRow::insert(job)))?;
    counted(connection, "JOB_INSERT", JOB_INSERT, jobs).await?;
    for (job, payload) in &turn.payloads {
        let row = sqlx::query(PAYLOAD_INSERT)
            .bind(job.to_string())
            .bind(&*payload.data)
            .bind(&*payload.content_type);
        row.execute(&mut *connection).await.map_err(|error| fault::of("PAYLOAD_INSERT", error))?;
    }
    let leases = batch("leases", turn.leases.iter().map(|lease| LeaseRow::from(*lease)))?;
    counted(connection, "LEASE_UPSERT", LEASE_UPSERT, leases).await?;
    let attempts = batch("attempts", turn.changes.attempts_put.iter().map(AttemptRow::from))?;
    counted(connection, "ATTEMPT_UPSERT", ATTEMPT_UPSERT, attempts).await?;
    for (put, bytes) in &turn.results {
        let row = sqlx::query(RESULT_INSERT)
            .bind(put.job.to_string())
            .bind(int(put.token.0))
            .bind(&*bytes.data)
            .bind(&*bytes.content_type)
            .bind(put.created_at.0)
            .bind(put.expires_at.0);
        row.execute(&mut *connection).await.map_err(|error| fault::of("RESULT_INSERT", error))?;
    }
    Ok(())
}

/// Runs a statement over a batch; rows affected must equal rows sent.
async fn counted(
    connection: &mut SqliteConnection,
    name: &'static str,
    statement: &'static str,
    rows: Batch,
) -> Result<(), Error> {
    let sent = rows.sent;
    turn::expect(name, sent, run(connection, name, statement, rows).await?)
}

/// Runs a statement over a batch, unless that is empty. How many rows it affected.
async fn run(
    connection: &mut SqliteConnection,
    name: &'static str,
    statement: &'static str,
    rows: Batch,
) -> Result<u64, Error> {
    if rows.sent == 0 {
        return Ok(0);
    }
    let done = sqlx::query(statement).bind(rows.text).execute(connection).await;
    Ok(done.map_err(|error| fault::of(name, error))?.rows_affected())
}
