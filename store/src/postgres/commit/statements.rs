//! The statements of a commit. Each takes a batch as one array per column, in the order of the columns.

use crate::rows::job_columns;

/// For the test that prepares each.
#[cfg(test)]
pub(in crate::postgres) const ALL: [&str; 25] = [
    RESULT_DELETE,
    INBOX_DELETE,
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
    CLASS_INSERT,
    WORKFLOW_UPSERT,
    JOB_INSERT,
    PAYLOAD_INSERT,
    LEASE_UPSERT,
    ATTEMPT_UPSERT,
    RESULT_INSERT,
    CHECKPOINT_UPSERT,
];

pub(in crate::postgres) const RESULT_DELETE: &str = "
delete from results
using unnest($1::uuid[], $2::bigint[]) as old (job_id, token)
where results.job_id = old.job_id and results.token = old.token";

pub(in crate::postgres) const CLASS_DELETE: &str = "delete from classes where class = any($1::text[])";

pub(in crate::postgres) const JOB_DELETE: &str = "delete from jobs where id = any($1::uuid[])";

pub(in crate::postgres) const INBOX_DELETE: &str = "delete from inbox where seq = any($1::bigint[])";

pub(in crate::postgres) const LEASE_DELETE: &str = "delete from leases where token = any($1::bigint[])";

pub(in crate::postgres) const KIND_DELETE: &str = "delete from kinds where name = any($1::text[])";

pub(in crate::postgres) const SLOT_DELETE: &str = "delete from slots where name = any($1::text[])";

pub(in crate::postgres) const TENANT_DELETE: &str = "delete from tenants where name = any($1::text[])";

pub(in crate::postgres) const NODE_DELETE: &str = "delete from nodes where name = any($1::text[])";

pub(in crate::postgres) const CRON_DELETE: &str = "delete from crons where name = any($1::text[])";

pub(in crate::postgres) const WORKFLOW_DELETE: &str = "delete from workflows where id = any($1::uuid[])";

/// A batch of jobs as a table `new`, with the token that each row has.
macro_rules! new_jobs {
    () => {
        concat!(
            "
from unnest(
  $1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::smallint[],
  $9::jsonb[], $10::jsonb[], $11::jsonb[], $12::text[], $13::boolean[], $14::bytea[], $15::bigint[],
  $16::uuid[], $17::uuid[], $18::smallint[], $19::bigint[], $20::text[], $21::text[], $22::bigint[],
  $23::bigint[], $24::bigint[], $25::bigint[], $26::bigint[], $27::bigint[], $28::bigint[], $29::text[],
  $30::text[], $31::timestamptz[], $32::timestamptz[], $33::boolean[], $34::timestamptz[], $35::timestamptz[],
  $36::text[], $37::jsonb[], $38::timestamptz[], $39::text[], $40::timestamptz[], $41::timestamptz[],
  $42::text[], $43::text[], $44::timestamptz[], $45::jsonb[], $46::text[], $47::bigint[],
  $48::uuid[], $49::bigint[], $50::timestamptz[], $51::boolean[], $52::bigint[])
  as new (",
            job_columns!(),
            ", previous)"
        )
    };
}

// What a job is born with (identity, kind, key, tree, payload) is not written again.
pub(in crate::postgres) const JOB_UPDATE: &str = concat!(
    "
update jobs
set
  sequence = new.sequence,
  state = new.state,
  version = new.version,
  priority = new.priority,
  needs = new.needs,
  selector = new.selector,
  labels = new.labels,
  dedupe_held = new.dedupe_held,
  hard_time_limit_us = new.hard_time_limit_us,
  children = new.children,
  round = new.round,
  failures = new.failures,
  losses = new.losses,
  returns = new.returns,
  returns_in_row = new.returns_in_row,
  token = new.token,
  last_outcome = new.last_outcome,
  last_node = new.last_node,
  granted_at = new.granted_at,
  started_at = new.started_at,
  cancel_requested = new.cancel_requested,
  stale_at = new.stale_at,
  reason = new.reason,
  waits = new.waits,
  run_at = new.run_at,
  scheduled_cause = new.scheduled_cause,
  queued_at = new.queued_at,
  finished_at = new.finished_at,
  waiting_at = new.waiting_at,
  detached = new.detached,
  blocked_at = new.blocked_at,
  left_result = new.left_result",
    new_jobs!(),
    "
where jobs.id = new.id and jobs.token = new.previous"
);

pub(in crate::postgres) const JOB_INSERT: &str =
    concat!("insert into jobs (", job_columns!(), ") select ", job_columns!(), new_jobs!());

pub(in crate::postgres) const KIND_UPSERT: &str = "
insert into kinds (
  name, policy, paused, dead_by_day, spent)
select
  name, policy, paused, dead_by_day, spent
from unnest(
  $1::text[], $2::jsonb[], $3::text[], $4::jsonb[], $5::jsonb[])
  as new (
    name, policy, paused, dead_by_day, spent)
on conflict (name) do update set
  policy = excluded.policy,
  paused = excluded.paused,
  dead_by_day = excluded.dead_by_day,
  spent = excluded.spent";

pub(in crate::postgres) const SLOT_UPSERT: &str = "
insert into slots (
  name, scope, capacity, capacity_since, paused, paused_until, rate_tokens, rate_per_us, rate_burst,
  rate_full_at, throttled_until)
select
  name, scope, capacity, capacity_since, paused, paused_until, rate_tokens, rate_per_us, rate_burst,
  rate_full_at, throttled_until
from unnest(
  $1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::boolean[], $6::timestamptz[], $7::bigint[], $8::bigint[],
  $9::bigint[], $10::timestamptz[], $11::timestamptz[])
  as new (
    name, scope, capacity, capacity_since, paused, paused_until, rate_tokens, rate_per_us, rate_burst,
    rate_full_at, throttled_until)
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

pub(in crate::postgres) const TENANT_UPSERT: &str = "
insert into tenants (name, weight)
select name, weight
from unnest($1::text[], $2::bigint[]) as new (name, weight)
on conflict (name) do update set
  weight = excluded.weight";

pub(in crate::postgres) const NODE_UPSERT: &str = "
insert into nodes (
  name, instance, boot_id, incarnation, stream, labels, slots, kinds, host, agent_version, cordoned,
  draining_us, last_seen_at)
select
  name, instance, boot_id, incarnation, stream, labels, slots, kinds, host, agent_version, cordoned,
  draining_us, last_seen_at
from unnest(
  $1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::jsonb[], $7::jsonb[], $8::jsonb[],
  $9::jsonb[], $10::text[], $11::boolean[], $12::bigint[], $13::timestamptz[])
  as new (
    name, instance, boot_id, incarnation, stream, labels, slots, kinds, host, agent_version, cordoned,
    draining_us, last_seen_at)
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
pub(in crate::postgres) const CRON_UPSERT: &str = "
insert into crons (
  name, policy, last_instant, paused_by, paused_at, fired, missed, last_fired, recent)
select
  name, policy, last_instant, paused_by, paused_at, fired, missed, last_fired, recent
from unnest(
  $1::text[], $2::jsonb[], $3::timestamptz[], $4::text[], $5::timestamptz[], $6::bigint[], $7::bigint[], $8::jsonb[],
  $9::jsonb[])
  as new (
    name, policy, last_instant, paused_by, paused_at, fired, missed, last_fired, recent)
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

// Without an upsert: the key is unique by a hash index, which knows no `on conflict`. Old rows were deleted before.
pub(in crate::postgres) const CLASS_INSERT: &str = "
insert into classes (class, timeline)
select class, timeline
from unnest($1::text[], $2::jsonb[]) as new (class, timeline)";

// What a workflow is born with (identity, shape) is not written again.
pub(in crate::postgres) const WORKFLOW_UPSERT: &str = "
insert into workflows (
  id, producer, name, fingerprint, shape, members, state, version, round, cancel_requested, created_at, began_at,
  finished_at, reason, opened)
select
  id, producer, name, fingerprint, shape, members, state, version, round, cancel_requested, created_at, began_at,
  finished_at, reason, opened
from unnest(
  $1::uuid[], $2::text[], $3::text[], $4::bytea[], $5::jsonb[], $6::bigint[], $7::text[], $8::bigint[], $9::bigint[],
  $10::boolean[], $11::timestamptz[], $12::timestamptz[], $13::timestamptz[], $14::text[], $15::jsonb[])
  as new (
  id, producer, name, fingerprint, shape, members, state, version, round, cancel_requested, created_at, began_at,
  finished_at, reason, opened)
on conflict (id) do update set
  state = excluded.state,
  version = excluded.version,
  round = excluded.round,
  cancel_requested = excluded.cancel_requested,
  began_at = excluded.began_at,
  finished_at = excluded.finished_at,
  reason = excluded.reason,
  opened = excluded.opened";

pub(in crate::postgres) const PAYLOAD_INSERT: &str = "
insert into payloads (job_id, data, content_type)
select job_id, data, content_type
from unnest($1::uuid[], $2::bytea[], $3::text[]) as new (job_id, data, content_type)";

// What a lease is granted with (job, tenant, node, length, attempt) is not written again.
pub(in crate::postgres) const LEASE_UPSERT: &str = "
insert into leases (
  token, job_id, kind, node, length_us, reservation, attempt, round, granted_at, phase, orphaned, tenant,
  concurrency_key, parked)
select
  token, job_id, kind, node, length_us, reservation, attempt, round, granted_at, phase, orphaned, tenant,
  concurrency_key, parked
from unnest(
  $1::bigint[], $2::uuid[], $3::text[], $4::text[], $5::bigint[], $6::jsonb[], $7::bigint[], $8::bigint[],
  $9::timestamptz[], $10::text[], $11::boolean[], $12::text[], $13::text[], $14::jsonb[])
  as new (
    token, job_id, kind, node, length_us, reservation, attempt, round, granted_at, phase, orphaned, tenant,
    concurrency_key, parked)
on conflict (token) do update set
  reservation = excluded.reservation,
  phase = excluded.phase,
  orphaned = excluded.orphaned,
  concurrency_key = excluded.concurrency_key,
  parked = excluded.parked";

pub(in crate::postgres) const ATTEMPT_UPSERT: &str = "
insert into attempts (
  job_id, token, attempt, round, node, outcome, cause, error, exit_code, granted_at, started_at, ended_at,
  detached, usage, partial, checkpoint_size)
select
  job_id, token, attempt, round, node, outcome, cause, error, exit_code, granted_at, started_at, ended_at,
  detached, usage, partial, checkpoint_size
from unnest(
  $1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::text[],
  $9::integer[], $10::timestamptz[], $11::timestamptz[], $12::timestamptz[], $13::boolean[],
  $14::jsonb[], $15::boolean[], $16::bigint[])
  as new (
    job_id, token, attempt, round, node, outcome, cause, error, exit_code, granted_at, started_at, ended_at,
    detached, usage, partial, checkpoint_size)
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

pub(in crate::postgres) const RESULT_INSERT: &str = "
insert into results (
  job_id, token, data, content_type, created_at, expires_at, of_wait, partial, object_size, object_sha256)
select job_id, token, data, content_type, created_at, expires_at, of_wait, partial, object_size, object_sha256
from unnest(
  $1::uuid[], $2::bigint[], $3::bytea[], $4::text[], $5::timestamptz[], $6::timestamptz[], $7::boolean[],
  $8::boolean[], $9::bigint[], $10::text[])
  as new (job_id, token, data, content_type, created_at, expires_at, of_wait, partial, object_size, object_sha256)";

// Of a job only the newest is kept.
pub(in crate::postgres) const CHECKPOINT_UPSERT: &str = "
insert into checkpoints (job_id, token, data, created_at)
select job_id, token, data, created_at
from unnest($1::uuid[], $2::bigint[], $3::bytea[], $4::timestamptz[]) as new (job_id, token, data, created_at)
on conflict (job_id) do update set
  token = excluded.token,
  data = excluded.data,
  created_at = excluded.created_at";
