-- Why: jobs with what belongs to each of them. Locks: a new database only. Contracted by: nothing.
--
-- Instants (*_at) are whole microseconds since 1970, UTC, of the leader's clock; lengths (*_us) whole microseconds.
-- Ids are hyphenated lower-case texts, tokens `epoch << 40 | n`, flags 0 or 1. JSON columns hold what the scheduler
-- reads as a whole and SQL reads in the inv_* views only.

-- One payload of one kind with one final state, but for its payload and result.
create table jobs (
  id                 text    not null,           -- UUID v7, made by the producer or the server
  sequence           integer not null,           -- order of enqueues over all epochs; breaks ties of priority
  tenant             text    not null,           -- whose work it is
  producer           text    not null,           -- who enqueued it
  kind               text    not null,           -- type of work
  state              text    not null,           -- where it stands; the last four are final
  version            integer not null,           -- plus one at each durable change
  priority           integer not null,           -- higher first
  needs              text,                       -- JSON, slot -> units; null: its kind's at the grant
  selector           text    not null,           -- JSON, node labels that it asks for itself
  labels             text    not null,           -- JSON, for people and filters
  dedupe_key         text,                       -- business identity
  dedupe_held        integer not null,           -- whether the key still answers for this job
  fingerprint        blob    not null,           -- SHA-256 of kind, payload, content type and dedupe key
  hard_time_limit_us integer,                    -- shorter than its kind's; null: its kind's
  parent_id          text,                       -- the job that spawned it; it may be gone
  root_id            text    not null,           -- the top of its tree; itself without a parent
  depth              integer not null,           -- how many parents stand above it
  children           integer not null,           -- how many children were ever enqueued under it
  traceparent        text,                       -- W3C trace context of its enqueue
  payload_size       integer not null,           -- bytes; 0: there is no row in payloads
  round              integer not null,           -- plus one at each requeue, from 1
  failures           integer not null,           -- of this round: ran and failed or timed out
  losses             integer not null,           -- of this round: its lease ended in silence, its node or shim died
  returns            integer not null,           -- of this round: ended for a reason neither its own nor its node's
  returns_in_row     integer not null,           -- the newest of those that followed each other
  token              integer not null,           -- of the newest lease; 0: never granted
  last_outcome       text,                       -- how the execution under token ended; null: it has not
  last_node          text,                       -- where the execution under token is or was
  granted_at         integer,                    -- when token was granted
  started_at         integer,                    -- when the newest started execution began
  cancel_requested   integer not null,           -- somebody wants it to end
  created_at         integer not null,           -- when it was enqueued
  stale_at           integer,                    -- it expires if not started by then
  reason             text,                       -- why it stands where it stands, for people
  waits              text    not null,           -- JSON list, what it waited for before its newest grant
  run_at             integer,                    -- scheduled: not before
  scheduled_cause    text,                       -- scheduled: what run_at is
  queued_at          integer,                    -- queued: since when
  finished_at        integer,                    -- final: when that was recorded
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
  constraint jobs_held_has_key check (dedupe_held = 0 or dedupe_key is not null),
  constraint jobs_flags_are_flags check (dedupe_held in (0, 1) and cancel_requested in (0, 1)),
  constraint jobs_fingerprint_is_sha256 check (length(fingerprint) = 32),
  constraint jobs_round_from_one check (round >= 1),
  constraint jobs_counts_not_negative check (min(failures, losses, returns, returns_in_row, token, depth, children,
    payload_size, version, sequence) >= 0)
) strict;

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

-- A final row admits a new round, and within its round the release of its dedupe key only.
create trigger jobs_final_never_changes before update on jobs
when old.finished_at is not null and new.round <= old.round and (new.dedupe_held > old.dedupe_held
  or (new.state, new.finished_at, new.token, new.last_outcome, new.last_node, new.failures, new.losses, new.returns,
      new.returns_in_row, new.round, new.priority, new.children, new.cancel_requested, new.granted_at,
      new.started_at, new.stale_at, new.reason, new.waits)
  is not (old.state, old.finished_at, old.token, old.last_outcome, old.last_node, old.failures, old.losses,
      old.returns, old.returns_in_row, old.round, old.priority, old.children, old.cancel_requested, old.granted_at,
      old.started_at, old.stale_at, old.reason, old.waits))
begin
  select raise(abort, 'jobs_final_never_changes');
end;

-- The second wall of fencing: a token only grows.
create trigger jobs_token_never_falls before update on jobs
when new.token < old.token
begin
  select raise(abort, 'jobs_token_never_falls');
end;

-- The input of a job. Apart from jobs, so that updates of a job never rewrite it.
create table payloads (
  job_id       text not null, -- the job
  data         blob not null, -- opaque to the server
  content_type text not null, -- a media type, as the producer said; may be empty
  constraint payloads_pkey primary key (job_id),
  constraint payloads_belong_to_a_job foreign key (job_id) references jobs (id) on delete cascade
) strict;

-- The output of one execution.
create table results (
  job_id       text    not null, -- the job
  token        integer not null, -- of the lease of the execution
  data         blob    not null, -- opaque to the server
  content_type text    not null, -- a media type, as the node said; may be empty
  created_at   integer not null, -- when it was stored
  expires_at   integer not null, -- when it is swept
  constraint results_pkey primary key (job_id, token),
  constraint results_belong_to_a_job foreign key (job_id) references jobs (id) on delete cascade
) strict;

-- Result expiry, the oldest first.
create index results_due on results (expires_at);

-- Ended executions. An only execution that succeeded has no row: its times are columns of its job.
create table attempts (
  job_id     text    not null, -- the job
  token      integer not null, -- of its lease
  attempt    integer not null, -- 1-based; a returned execution repeats the number
  round      integer not null, -- of the job
  node       text    not null, -- where it ran
  outcome    text    not null, -- how it ended
  cause      text    not null, -- a short stable word
  error      text    not null, -- for people
  exit_code  integer,          -- if it exited
  granted_at integer not null, -- when its lease was granted
  started_at integer,          -- when it started, if that is known
  ended_at   integer not null, -- when its end was recorded
  constraint attempts_pkey primary key (job_id, token),
  constraint attempts_belong_to_a_job foreign key (job_id) references jobs (id) on delete cascade,
  constraint attempts_outcome_is_known check (outcome in ('succeeded', 'failed_retryable', 'failed_permanent',
    'timed_out', 'stalled', 'lost', 'returned', 'cancelled')),
  constraint attempts_number_from_one check (attempt >= 1 and round >= 1)
) strict;
