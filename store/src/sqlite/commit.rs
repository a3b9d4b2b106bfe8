//! What one commit writes: a handful of set-based statements whatever the batch, in the order deletes, updates,
//! inserts. A batch of rows is one JSON text, and its bytes one blob of which each row takes its part; but the columns of
//! jobs and leases are bound one by one (`bound.rs`).

use sqlx::SqliteConnection;
use tenure_scheduler::{CronName, KindName, NodeName, SlotName, Tenant, WebhookName};

use super::{
    bound::{Bound, Once},
    fault, log_tails, outbox,
};
use crate::{
    journal::Error,
    rows::{
        AttemptRow, Batch, CronRow, DeliveryChangeRow, DeliveryRow, JobRow, KindRow, LeaseRow, NodeRow,
        SlotRow, TenantRow, TimelineRow, WebhookRow, WorkflowRow, batch, int, job_columns,
    },
    turn::{self, Turn},
};

pub(super) static JOBS_INSERTED: Once = Once::new(|| Bound::new("JOB_INSERT", "jobs", JOB_INSERT));

pub(super) static JOBS_UPDATED: Once = Once::new(|| Bound::new("JOB_UPDATE", "jobs", JOB_UPDATE));

pub(super) static LEASES_PUT: Once = Once::new(|| Bound::new("LEASE_UPSERT", "leases", LEASE_UPSERT));

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
pub(super) const ALL: [&str; 24] = [
    RESULT_DELETE,
    CLASS_DELETE,
    JOB_DELETE,
    LEASE_DELETE,
    KIND_DELETE,
    SLOT_DELETE,
    TENANT_DELETE,
    NODE_DELETE,
    CRON_DELETE,
    WORKFLOW_DELETE,
    JOB_UPDATE,
    KIND_UPSERT,
    SLOT_UPSERT,
    TENANT_UPSERT,
    NODE_UPSERT,
    CRON_UPSERT,
    CLASS_UPSERT,
    WORKFLOW_UPSERT,
    JOB_INSERT,
    PAYLOAD_INSERT,
    LEASE_UPSERT,
    ATTEMPT_UPSERT,
    RESULT_INSERT,
    CHECKPOINT_UPSERT,
];

pub(super) const RESULT_DELETE: &str = "
delete from results
where (job_id, token) in (select value ->> 0, value ->> 1 from json_each($1))";

pub(super) const CLASS_DELETE: &str = "delete from classes where class in (select value from json_each($1))";

pub(super) const JOB_DELETE: &str = "delete from jobs where id in (select value from json_each($1))";

pub(super) const LEASE_DELETE: &str = "delete from leases where token in (select value from json_each($1))";

pub(super) const KIND_DELETE: &str = "delete from kinds where name in (select value from json_each($1))";

pub(super) const SLOT_DELETE: &str = "delete from slots where name in (select value from json_each($1))";

pub(super) const TENANT_DELETE: &str = "delete from tenants where name in (select value from json_each($1))";

pub(super) const NODE_DELETE: &str = "delete from nodes where name in (select value from json_each($1))";

pub(super) const CRON_DELETE: &str = "delete from crons where name in (select value from json_each($1))";

pub(super) const WORKFLOW_DELETE: &str =
    "delete from workflows where id in (select value from json_each($1))";

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
    let tenants = batch("tenants", changes.tenants_deleted.iter().map(Tenant::as_str))?;
    counted(connection, "TENANT_DELETE", TENANT_DELETE, tenants).await?;
    let nodes = batch("nodes", changes.nodes_deleted.iter().map(NodeName::as_str))?;
    counted(connection, "NODE_DELETE", NODE_DELETE, nodes).await?;
    let crons = batch("crons", changes.crons_deleted.iter().map(CronName::as_str))?;
    counted(connection, "CRON_DELETE", CRON_DELETE, crons).await?;
    let deliveries = batch("outbox", changes.deliveries_deleted.iter().map(|id| int(id.0)))?;
    counted(connection, "DELIVERY_DELETE", outbox::DELIVERY_DELETE, deliveries).await?;
    let webhooks = batch("webhooks", changes.webhooks_deleted.iter().map(WebhookName::as_str))?;
    counted(connection, "WEBHOOK_DELETE", outbox::WEBHOOK_DELETE, webhooks).await?;
    let workflows = batch("workflows", changes.workflows_deleted.iter().map(ToString::to_string))?;
    counted(connection, "WORKFLOW_DELETE", WORKFLOW_DELETE, workflows).await
}

// Jobs, leases and attempts are lists of their columns: `new.value ->> 6` is the state. See `rows/positional.rs`.

// What a job is born with (identity, kind, key, tree, payload) is not written again.
pub(super) const JOB_UPDATE: &str = "
update jobs
set
  sequence = new.value ->> 1,
  state = new.value ->> 5,
  version = new.value ->> 6,
  priority = new.value ->> 7,
  needs = new.value ->> 8,
  selector = new.value ->> 9,
  labels = new.value ->> 10,
  dedupe_held = new.value ->> 12,
  hard_time_limit_us = new.value ->> 14,
  children = new.value ->> 18,
  round = new.value ->> 22,
  failures = new.value ->> 23,
  losses = new.value ->> 24,
  returns = new.value ->> 25,
  returns_in_row = new.value ->> 26,
  token = new.value ->> 27,
  last_outcome = new.value ->> 28,
  last_node = new.value ->> 29,
  granted_at = new.value ->> 30,
  started_at = new.value ->> 31,
  cancel_requested = new.value ->> 32,
  stale_at = new.value ->> 34,
  reason = new.value ->> 35,
  waits = new.value ->> 36,
  run_at = new.value ->> 37,
  scheduled_cause = new.value ->> 38,
  queued_at = new.value ->> 39,
  finished_at = new.value ->> 40,
  waiting_at = new.value ->> 43,
  detached = new.value ->> 44,
  blocked_at = new.value ->> 49,
  left_result = new.value ->> 50
from jsonb_each(jsonb($1)) as new
where jobs.id = new.value ->> 0 and jobs.token = new.value ->> 51";

pub(super) const KIND_UPSERT: &str = "
insert into kinds (name, policy, paused, dead_by_day, spent)
select
  new.value ->> 'name', new.value ->> 'policy', new.value ->> 'paused', new.value ->> 'dead_by_day',
  new.value ->> 'spent'
from json_each($1) as new
where true
on conflict (name) do update set
  policy = excluded.policy,
  paused = excluded.paused,
  dead_by_day = excluded.dead_by_day,
  spent = excluded.spent";

pub(super) const SLOT_UPSERT: &str = "
insert into slots (name, scope, capacity, capacity_since, paused, paused_until, rate_tokens, rate_per_us,
  rate_burst, rate_full_at, throttled_until)
select
  new.value ->> 'name', new.value ->> 'scope', new.value ->> 'capacity', new.value ->> 'capacity_since',
  new.value ->> 'paused', new.value ->> 'paused_until', new.value ->> 'rate_tokens', new.value ->> 'rate_per_us',
  new.value ->> 'rate_burst', new.value ->> 'rate_full_at', new.value ->> 'throttled_until'
from json_each($1) as new
where true
on conflict (name) do update set
  scope = excluded.scope,
  capacity = excluded.capacity,
  capacity_since = excluded.capacity_since,
  paused = excluded.paused,
  paused_until = excluded.paused_until,
  rate_tokens = excluded.rate_tokens,
  rate_per_us = excluded.rate_per_us,
  rate_burst = excluded.rate_burst,
  rate_full_at = excluded.rate_full_at,
  throttled_until = excluded.throttled_until";

pub(super) const TENANT_UPSERT: &str = "
insert into tenants (name, weight)
select new.value ->> 'name', new.value ->> 'weight'
from json_each($1) as new
where true
on conflict (name) do update set
  weight = excluded.weight";

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

// What is settled stays so: a row whose last instant would fall is not written, and the count of rows tells.
pub(super) const CRON_UPSERT: &str = "
insert into crons (name, policy, last_instant, paused_by, paused_at, fired, missed, last_fired, recent)
select
  new.value ->> 'name', new.value ->> 'policy', new.value ->> 'last_instant', new.value ->> 'paused_by',
  new.value ->> 'paused_at', new.value ->> 'fired', new.value ->> 'missed', new.value ->> 'last_fired',
  new.value ->> 'recent'
from json_each($1) as new
where true
on conflict (name) do update set
  policy = excluded.policy,
  last_instant = excluded.last_instant,
  paused_by = excluded.paused_by,
  paused_at = excluded.paused_at,
  fired = excluded.fired,
  missed = excluded.missed,
  last_fired = excluded.last_fired,
  recent = excluded.recent
where crons.last_instant <= excluded.last_instant";

pub(super) const CLASS_UPSERT: &str = "
insert into classes (class, timeline)
select new.value ->> 'class', new.value ->> 'timeline'
from json_each($1) as new
where true
on conflict (class) do update set
  timeline = excluded.timeline";

// What a workflow is born with (identity, shape) is not written again.
pub(super) const WORKFLOW_UPSERT: &str = "
insert into workflows (
  id, producer, name, fingerprint, shape, members, state, version, round, cancel_requested, created_at, began_at,
  finished_at, reason, opened)
select
  new.value ->> 'id', new.value ->> 'producer', new.value ->> 'name', unhex(new.value ->> 'fingerprint'),
  new.value ->> 'shape', new.value ->> 'members', new.value ->> 'state', new.value ->> 'version',
  new.value ->> 'round', new.value ->> 'cancel_requested', new.value ->> 'created_at', new.value ->> 'began_at',
  new.value ->> 'finished_at', new.value ->> 'reason', new.value ->> 'opened'
from json_each($1) as new
where true
on conflict (id) do update set
  state = excluded.state,
  version = excluded.version,
  round = excluded.round,
  cancel_requested = excluded.cancel_requested,
  began_at = excluded.began_at,
  finished_at = excluded.finished_at,
  reason = excluded.reason,
  opened = excluded.opened";

async fn update(connection: &mut SqliteConnection, turn: &Turn<'_>) -> Result<(), Error> {
    let changes = turn.changes;
    for updated in [&turn.updated_free, &turn.updated_held] {
        let jobs = updated.iter().map(|(previous, job)| JobRow::update(*previous, job));
        JOBS_UPDATED.run(connection, jobs).await?;
    }
    let kinds = batch("kinds", changes.kinds_put.iter().map(KindRow::from))?;
    counted(connection, "KIND_UPSERT", KIND_UPSERT, kinds).await?;
    let slots = batch("slots", changes.slots_put.iter().map(SlotRow::from))?;
    counted(connection, "SLOT_UPSERT", SLOT_UPSERT, slots).await?;
    let tenants = batch("tenants", changes.tenants_put.iter().map(TenantRow::from))?;
    counted(connection, "TENANT_UPSERT", TENANT_UPSERT, tenants).await?;
    let nodes = batch("nodes", changes.nodes_put.iter().map(NodeRow::from))?;
    counted(connection, "NODE_UPSERT", NODE_UPSERT, nodes).await?;
    let crons = batch("crons", changes.crons_put.iter().map(CronRow::from))?;
    counted(connection, "CRON_UPSERT", CRON_UPSERT, crons).await?;
    let webhooks = batch("webhooks", changes.webhooks_put.iter().map(WebhookRow::from))?;
    counted(connection, "WEBHOOK_UPSERT", outbox::WEBHOOK_UPSERT, webhooks).await?;
    let deliveries = batch("outbox", changes.deliveries_put.iter().map(DeliveryChangeRow::from))?;
    counted(connection, "DELIVERY_UPDATE", outbox::DELIVERY_UPDATE, deliveries).await?;
    let classes = batch("classes", changes.classes_put.iter().map(TimelineRow::from))?;
    counted(connection, "CLASS_UPSERT", CLASS_UPSERT, classes).await?;
    let workflows = batch("workflows", changes.workflows_put.iter().map(WorkflowRow::from))?;
    counted(connection, "WORKFLOW_UPSERT", WORKFLOW_UPSERT, workflows).await
}

pub(super) const JOB_INSERT: &str = concat!(
    "insert into jobs (",
    job_columns!(),
    ")
select
  new.value ->> 0, new.value ->> 1, new.value ->> 2, new.value ->> 3, new.value ->> 4, new.value ->> 5,
  new.value ->> 6, new.value ->> 7, new.value ->> 8, new.value ->> 9, new.value ->> 10, new.value ->> 11,
  new.value ->> 12, unhex(new.value ->> 13), new.value ->> 14, new.value ->> 15, new.value ->> 16,
  new.value ->> 17, new.value ->> 18, new.value ->> 19, new.value ->> 20, new.value ->> 21,
  new.value ->> 22, new.value ->> 23, new.value ->> 24, new.value ->> 25, new.value ->> 26,
  new.value ->> 27, new.value ->> 28, new.value ->> 29, new.value ->> 30, new.value ->> 31,
  new.value ->> 32, new.value ->> 33, new.value ->> 34, new.value ->> 35, new.value ->> 36,
  new.value ->> 37, new.value ->> 38, new.value ->> 39, new.value ->> 40, new.value ->> 41,
  new.value ->> 42, new.value ->> 43, new.value ->> 44, new.value ->> 45, new.value ->> 46,
  new.value ->> 47, new.value ->> 48, new.value ->> 49, new.value ->> 50
from jsonb_each(jsonb($1)) as new"
);

pub(super) const PAYLOAD_INSERT: &str = "
insert into payloads (job_id, data, content_type)
select new.value ->> 0, substr($2, new.value ->> 1, new.value ->> 2), new.value ->> 3
from json_each($1) as new";

// What a lease is granted with (job, tenant, node, length, attempt) is not written again.
pub(super) const LEASE_UPSERT: &str = "
insert into leases (token, job_id, kind, node, length_us, reservation, attempt, round, granted_at, phase,
  orphaned, tenant, concurrency_key, parked)
select
  new.value ->> 0, new.value ->> 1, new.value ->> 2, new.value ->> 3, new.value ->> 4, new.value ->> 5,
  new.value ->> 6, new.value ->> 7, new.value ->> 8, new.value ->> 9, new.value ->> 10, new.value ->> 11,
  new.value ->> 12, new.value ->> 13
from jsonb_each(jsonb($1)) as new
where true
on conflict (token) do update set
  reservation = excluded.reservation,
  phase = excluded.phase,
  orphaned = excluded.orphaned,
  concurrency_key = excluded.concurrency_key,
  parked = excluded.parked";

pub(super) const ATTEMPT_UPSERT: &str = "
insert into attempts (job_id, token, attempt, round, node, outcome, cause, error, exit_code, granted_at, started_at,
  ended_at, detached, usage, partial, checkpoint_size)
select
  new.value ->> 0, new.value ->> 1, new.value ->> 2, new.value ->> 3, new.value ->> 4, new.value ->> 5,
  new.value ->> 6, new.value ->> 7, new.value ->> 8, new.value ->> 9, new.value ->> 10, new.value ->> 11,
  new.value ->> 12, new.value ->> 13, new.value ->> 14, new.value ->> 15
from jsonb_each(jsonb($1)) as new
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
  ended_at = excluded.ended_at,
  detached = excluded.detached,
  usage = excluded.usage,
  partial = excluded.partial,
  checkpoint_size = excluded.checkpoint_size";

pub(super) const RESULT_INSERT: &str = "
insert into results (
  job_id, token, data, content_type, created_at, expires_at, of_wait, partial, object_size, object_sha256)
select
  new.value ->> 0, new.value ->> 1, substr($2, new.value ->> 2, new.value ->> 3), new.value ->> 4, new.value ->> 5,
  new.value ->> 6, new.value ->> 7, new.value ->> 8, new.value ->> 9, new.value ->> 10
from json_each($1) as new";

// Of a job only the newest is kept.
pub(super) const CHECKPOINT_UPSERT: &str = "
insert into checkpoints (job_id, token, data, created_at)
select
  new.value ->> 0, new.value ->> 1, substr($2, new.value ->> 2, new.value ->> 3), new.value ->> 4
from json_each($1) as new
where true
on conflict (job_id) do update set
  token = excluded.token,
  data = excluded.data,
  created_at = excluded.created_at";

async fn insert(connection: &mut SqliteConnection, turn: &Turn<'_>) -> Result<(), Error> {
    JOBS_INSERTED.run(connection, turn.inserted.iter().map(|job| JobRow::insert(job))).await?;
    let mut bytes = Bytes::new();
    let payloads = turn.payloads.iter().map(|(job, payload)| {
        let (from, length) = bytes.add(&payload.data);
        (job.to_string(), from, length, &payload.content_type)
    });
    let payloads = batch("payloads", payloads)?;
    with_bytes(connection, "PAYLOAD_INSERT", PAYLOAD_INSERT, payloads, bytes).await?;
    LEASES_PUT.run(connection, turn.leases.iter().map(|lease| LeaseRow::from(*lease))).await?;
    let attempts = batch("attempts", turn.changes.attempts_put.iter().map(AttemptRow::from))?;
    counted(connection, "ATTEMPT_UPSERT", ATTEMPT_UPSERT, attempts).await?;
    let mut bytes = Bytes::new();
    let results = turn.results.iter().map(|(put, result)| {
        let (from, length) = bytes.add(&result.data);
        let (job, token) = (put.job.to_string(), int(put.token.0));
        let (created_at, expires_at) = (put.created_at.0, put.expires_at.0);
        let (of_wait, partial) = (i64::from(put.of_wait), i64::from(put.partial));
        let object = result.object.as_ref();
        let (size, sha256) = (object.map(|it| int(it.size)), object.map(|it| it.sha256.to_string()));
        (
            job,
            token,
            from,
            length,
            &result.content_type,
            created_at,
            expires_at,
            of_wait,
            partial,
            size,
            sha256,
        )
    });
    let results = batch("results", results)?;
    with_bytes(connection, "RESULT_INSERT", RESULT_INSERT, results, bytes).await?;
    let mut bytes = Bytes::new();
    let checkpoints = turn.checkpoints.iter().map(|(put, data)| {
        let (from, length) = bytes.add(data);
        (put.job.to_string(), int(put.token.0), from, length, put.created_at.0)
    });
    let checkpoints = batch("checkpoints", checkpoints)?;
    with_bytes(connection, "CHECKPOINT_UPSERT", CHECKPOINT_UPSERT, checkpoints, bytes).await?;
    log_tails::put(connection, turn).await?;
    let deliveries =
        batch("outbox", turn.deliveries.iter().map(|(delivery, body)| DeliveryRow::new(delivery, body)))?;
    counted(connection, "DELIVERY_INSERT", outbox::DELIVERY_INSERT, deliveries).await
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
    turn::sent(name);
    let done = sqlx::query(statement).bind(rows.text).execute(connection).await;
    Ok(done.map_err(|error| fault::of(name, error))?.rows_affected())
}

/// The bytes of a batch, one after the other: JSON cannot carry them, and a statement for each would cost a switch to
/// the connection's thread and back.
pub(super) struct Bytes(Vec<u8>);

impl Bytes {
    pub(super) fn new() -> Self {
        // One byte that belongs to nobody: an empty blob would be bound as null.
        Self(vec![0])
    }

    /// Where they stand from now on: the place of the first, from 1 as SQL counts, and how many they are.
    pub(super) fn add(&mut self, bytes: &[u8]) -> (usize, usize) {
        let from = self.0.len() + 1;
        self.0.extend_from_slice(bytes);
        (from, bytes.len())
    }
}

/// Runs a statement over a batch with bytes; rows affected must equal rows sent.
pub(super) async fn with_bytes(
    connection: &mut SqliteConnection,
    name: &'static str,
    statement: &'static str,
    rows: Batch,
    bytes: Bytes,
) -> Result<(), Error> {
    if rows.sent == 0 {
        return Ok(());
    }
    turn::sent(name);
    let done = sqlx::query(statement).bind(rows.text).bind(bytes.0).execute(connection).await;
    turn::expect(name, rows.sent, done.map_err(|error| fault::of(name, error))?.rows_affected())
}
