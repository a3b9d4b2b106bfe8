-- Why: jobs with what belongs to each of them. Locks: a new database only. Contracted by: nothing.
--
-- Instants (*_at) are of the leader's clock, to the microsecond; lengths (*_us) are whole microseconds. Tokens are
-- `epoch << 40 | n`. JSON columns hold what the scheduler reads as a whole and SQL reads in the inv_* views only. Texts in
-- keys and indexes collate by their bytes: an index must not turn wrong when a host's locales are updated.

-- A new version of a row finds room on the page of the old one, so that a turn dirties fewer pages. Dead rows come by the
-- turn, not by the table's size: vacuum and statistics follow at 2 % of it. Truncating would lock out commits.
create table jobs (
  id uuid not null,
  sequence bigint not null,
  tenant text collate "C" not null,
  producer text not null,
  kind text collate "C" not null,
  state text not null,
  version bigint not null,
  priority smallint not null,
  needs jsonb,
  selector jsonb not null,
  labels jsonb not null,
  dedupe_key text collate "C",
  dedupe_held boolean not null,
  fingerprint bytea not null,
  hard_time_limit_us bigint,
  parent_id uuid,
  root_id uuid not null,
  depth smallint not null,
  children bigint not null,
  traceparent text,
  payload_size bigint not null,
  round bigint not null,
  failures bigint not null,
  losses bigint not null,
  returns bigint not null,
  returns_in_row bigint not null,
  token bigint not null,
  last_outcome text,
  last_node text collate "C",
  granted_at timestamptz,
  started_at timestamptz,
  cancel_requested boolean not null,
  created_at timestamptz not null,
  stale_at timestamptz,
  reason text,
  waits jsonb not null,
  run_at timestamptz,
  scheduled_cause text,
  queued_at timestamptz,
  finished_at timestamptz,
  constraint jobs_pkey primary key (id),
  constraint jobs_state_is_known check (state in ('scheduled', 'blocked', 'queued', 'running', 'waiting',
    'succeeded', 'dead', 'cancelled', 'expired')),
  constraint jobs_final_has_finished_at
    check ((state in ('succeeded', 'dead', 'cancelled', 'expired')) = (finished_at is not null)),
  constraint jobs_scheduled_has_run_at check ((state = 'scheduled') = (run_at is not null)),
  constraint jobs_scheduled_has_cause check ((state = 'scheduled') = (scheduled_cause is not null)),
  constraint jobs_cause_is_known check (scheduled_cause in ('run_at', 'backoff')),
  constraint jobs_queued_has_queued_at check ((state = 'queued') = (queued_at is not null)),
  constraint jobs_running_has_token check (state <> 'running' or token > 0),
  constraint jobs_outcome_is_known check (last_outcome in ('succeeded', 'failed_retryable', 'failed_permanent',
    'timed_out', 'stalled', 'lost', 'returned', 'cancelled')),
  constraint jobs_priority_in_range check (priority between -100 and 100),
  constraint jobs_held_has_key check (not dedupe_held or dedupe_key is not null),
  constraint jobs_fingerprint_is_sha256 check (length(fingerprint) = 32),
  constraint jobs_round_from_one check (round >= 1),
  constraint jobs_counts_not_negative check (least(failures, losses, returns, returns_in_row, token, depth, children,
    payload_size, version, sequence) >= 0)
)
with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02,
  vacuum_truncate = off);
comment on table jobs is 'One payload of one kind with one final state, but for its payload and result.';
comment on column jobs.id is 'UUID v7, made by the producer or the server';
comment on column jobs.sequence is 'order of enqueues over all epochs; breaks ties of priority';
comment on column jobs.tenant is 'whose work it is';
comment on column jobs.producer is 'who enqueued it';
comment on column jobs.kind is 'type of work';
comment on column jobs.state is 'where it stands; the last four are final';
comment on column jobs.version is 'plus one at each durable change';
comment on column jobs.priority is 'higher first';
comment on column jobs.needs is 'JSON, slot -> units; null: its kind''s at the grant';
comment on column jobs.selector is 'JSON, node labels that it asks for itself';
comment on column jobs.labels is 'JSON, for people and filters';
comment on column jobs.dedupe_key is 'business identity';
comment on column jobs.dedupe_held is 'whether the key still answers for this job';
comment on column jobs.fingerprint is 'SHA-256 of kind, payload, content type and dedupe key';
comment on column jobs.hard_time_limit_us is 'shorter than its kind''s; null: its kind''s';
comment on column jobs.parent_id is 'the job that spawned it; it may be gone';
comment on column jobs.root_id is 'the top of its tree; itself without a parent';
comment on column jobs.depth is 'how many parents stand above it';
comment on column jobs.children is 'how many children were ever enqueued under it';
comment on column jobs.traceparent is 'W3C trace context of its enqueue';
comment on column jobs.payload_size is 'bytes; 0: there is no row in payloads';
comment on column jobs.round is 'plus one at each requeue, from 1';
comment on column jobs.failures is 'of this round: ran and failed or timed out';
comment on column jobs.losses is 'of this round: its lease ended in silence, its node or shim died';
comment on column jobs.returns is 'of this round: ended for a reason neither its own nor its node''s';
comment on column jobs.returns_in_row is 'the newest of those that followed each other';
comment on column jobs.token is 'of the newest lease; 0: never granted';
comment on column jobs.last_outcome is 'how the execution under token ended; null: it has not';
comment on column jobs.last_node is 'where the execution under token is or was';
comment on column jobs.granted_at is 'when token was granted';
comment on column jobs.started_at is 'when the newest started execution began';
comment on column jobs.cancel_requested is 'somebody wants it to end';
comment on column jobs.created_at is 'when it was enqueued';
comment on column jobs.stale_at is 'it expires if not started by then';
comment on column jobs.reason is 'why it stands where it stands, for people';
comment on column jobs.waits is 'JSON list, what it waited for before its newest grant';
comment on column jobs.run_at is 'scheduled: not before';
comment on column jobs.scheduled_cause is 'scheduled: what run_at is';
comment on column jobs.queued_at is 'queued: since when';
comment on column jobs.finished_at is 'final: when that was recorded';

-- One job at most answers for a dedupe key.
create unique index jobs_dedupe_held on jobs (tenant, kind, dedupe_key) where dedupe_held;
-- Loading: live rows only. All its keys are null, so that it is read in the order of the table and costs little.
create index jobs_live on jobs (finished_at) where finished_at is null;
-- Retention: final rows by kind, the oldest first.
create index jobs_finished on jobs (kind, finished_at) where finished_at is not null;
-- Lists: from the newest to the oldest, by keyset; whole, of a kind, dead letters, children, one key.
create index jobs_newest on jobs (created_at, id);
create index jobs_newest_of_kind on jobs (kind, created_at, id);
create index jobs_newest_dead on jobs (created_at, id) where state = 'dead';
create index jobs_newest_of_parent on jobs (parent_id, created_at, id) where parent_id is not null;
create index jobs_newest_of_key on jobs (dedupe_key, created_at, id) where dedupe_key is not null;

-- Health: how many dead letters of each kind are kept.
create index jobs_dead_of_kind on jobs (kind) where state = 'dead';

-- What the two triggers do: refuse the row, under the trigger's own name.
create function jobs_refuse_row() returns trigger
language plpgsql
as $$
begin
  raise exception using
    errcode = 'integrity_constraint_violation', constraint = tg_name, table = tg_table_name, message = tg_name;
end
$$;
comment on function jobs_refuse_row is 'refuses a row under the name of the trigger that calls it';

-- A final row admits a new round, and within its round the release of its dedupe key only.
create trigger jobs_final_never_changes before update on jobs
for each row
when (old.finished_at is not null and new.round <= old.round and (new.dedupe_held > old.dedupe_held
  or (new.state, new.finished_at, new.token, new.last_outcome, new.last_node, new.failures, new.losses, new.returns,
      new.returns_in_row, new.round, new.priority, new.children, new.cancel_requested, new.granted_at,
      new.started_at, new.stale_at, new.reason, new.waits)
  is distinct from (old.state, old.finished_at, old.token, old.last_outcome, old.last_node, old.failures, old.losses,
      old.returns, old.returns_in_row, old.round, old.priority, old.children, old.cancel_requested, old.granted_at,
      old.started_at, old.stale_at, old.reason, old.waits)))
execute function jobs_refuse_row();
comment on trigger jobs_final_never_changes on jobs is 'a final row admits a new round, or the release of its key';

-- The second wall of fencing: a token only grows.
create trigger jobs_token_never_falls before update on jobs
for each row
when (new.token < old.token)
execute function jobs_refuse_row();
comment on trigger jobs_token_never_falls on jobs is 'the second wall of fencing: a token only grows';

create table payloads (
  job_id uuid not null,
  data bytea not null,
  content_type text not null,
  constraint payloads_pkey primary key (job_id),
  constraint payloads_belong_to_a_job foreign key (job_id) references jobs (id) on delete cascade
);
comment on table payloads is 'The input of a job. Apart from jobs, so that updates of a job never rewrite it.';
comment on column payloads.job_id is 'the job';
comment on column payloads.data is 'opaque to the server';
comment on column payloads.content_type is 'a media type, as the producer said; may be empty';

create table results (
  job_id uuid not null,
  token bigint not null,
  data bytea not null,
  content_type text not null,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  constraint results_pkey primary key (job_id, token),
  constraint results_belong_to_a_job foreign key (job_id) references jobs (id) on delete cascade
);
comment on table results is 'The output of one execution.';
comment on column results.job_id is 'the job';
comment on column results.token is 'of the lease of the execution';
comment on column results.data is 'opaque to the server';
comment on column results.content_type is 'a media type, as the node said; may be empty';
comment on column results.created_at is 'when it was stored';
comment on column results.expires_at is 'when it is swept';

-- Result expiry, the oldest first.
create index results_due on results (expires_at);

create table attempts (
  job_id uuid not null,
  token bigint not null,
  attempt bigint not null,
  round bigint not null,
  node text collate "C" not null,
  outcome text not null,
  cause text not null,
  error text not null,
  exit_code integer,
  granted_at timestamptz not null,
  started_at timestamptz,
  ended_at timestamptz not null,
  constraint attempts_pkey primary key (job_id, token),
  constraint attempts_belong_to_a_job foreign key (job_id) references jobs (id) on delete cascade,
  constraint attempts_outcome_is_known check (outcome in ('succeeded', 'failed_retryable', 'failed_permanent',
    'timed_out', 'stalled', 'lost', 'returned', 'cancelled')),
  constraint attempts_number_from_one check (attempt >= 1 and round >= 1)
);
comment on table attempts is 'Ended executions. An only execution that succeeded has no row: its times are columns of its job.';
comment on column attempts.job_id is 'the job';
comment on column attempts.token is 'of its lease';
comment on column attempts.attempt is '1-based; a returned execution repeats the number';
comment on column attempts.round is 'of the job';
comment on column attempts.node is 'where it ran';
comment on column attempts.outcome is 'how it ended';
comment on column attempts.cause is 'a short stable word';
comment on column attempts.error is 'for people';
comment on column attempts.exit_code is 'if it exited';
comment on column attempts.granted_at is 'when its lease was granted';
comment on column attempts.started_at is 'when it started, if that is known';
comment on column attempts.ended_at is 'when its end was recorded';
