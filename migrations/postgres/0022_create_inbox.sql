-- Why: a producer in the same database enqueues in its own transaction: the job is there if that commits, and only then. It
-- inserts by one function, which says who it is; the leader makes jobs of the rows, and removes them in the commit that
-- enqueues. Locks: nothing that exists. Contracted by: nothing; the version before ingests nothing, and rows wait.

create table inbox (
  seq bigint generated always as identity,
  role text collate "C" not null,
  inserted_at timestamptz not null,
  job_id uuid not null,
  kind text collate "C" not null,
  payload bytea not null,
  content_type text collate "C" not null,
  dedupe_key text collate "C",
  tenant text collate "C",
  priority integer,
  run_at timestamptz,
  delay_ms bigint,
  stale_after_ms bigint,
  labels jsonb,
  selector jsonb,
  needs jsonb,
  concurrency_key text collate "C",
  hard_time_limit_ms bigint,
  soft_time_limit_ms bigint,
  traceparent text collate "C",
  constraint inbox_pkey primary key (seq),
  constraint inbox_payload_in_bounds check (octet_length(payload) <= 262144),
  constraint inbox_texts_in_bounds check (
    octet_length(role) <= 63 and octet_length(kind) <= 255 and octet_length(content_type) <= 255
    and octet_length(coalesce(dedupe_key, '')) <= 255 and octet_length(coalesce(tenant, '')) <= 255
    and octet_length(coalesce(concurrency_key, '')) <= 256 and octet_length(coalesce(traceparent, '')) <= 128
  ),
  constraint inbox_maps_in_bounds check (
    length(coalesce(labels::text, '')) <= 65536 and length(coalesce(selector::text, '')) <= 65536
    and length(coalesce(needs::text, '')) <= 65536
  ),
  constraint inbox_run_at_in_bounds check (run_at >= timestamptz '1970-01-01 00:00:00+00' and run_at < timestamptz '10000-01-01 00:00:00+00')
);
-- By kind: rows of a kind that waits, however many they are, cost nobody else anything.
create index inbox_by_kind on inbox (kind, seq);
comment on table inbox is 'What producers in this database enqueue in their own transactions, by the function tenure_enqueue alone. The leader makes jobs of the rows and removes them; whatever stands here waits for it.';
comment on column inbox.seq is 'the order of insertion, which need not be that of the commits';
comment on column inbox.role is 'who inserted it: the role that logged in, as the database says';
comment on column inbox.inserted_at is 'when, by the clock of the database; compared with nothing but that clock';
comment on column inbox.job_id is 'a UUID v7; under it a row that is ingested again is the same job';
comment on column inbox.kind is 'its kind';
comment on column inbox.payload is 'its payload';
comment on column inbox.content_type is 'a media type; may be empty';
comment on column inbox.dedupe_key is 'null: none';
comment on column inbox.tenant is 'null: that of the producer';
comment on column inbox.priority is 'null: that of the kind';
comment on column inbox.run_at is 'not to be started before; null: at once';
comment on column inbox.delay_ms is 'not to be started before so long after inserted_at; null: at once';
comment on column inbox.stale_after_ms is 'not worth starting so long after inserted_at; null: that of the kind';
comment on column inbox.labels is 'JSON, text to text; null: none';
comment on column inbox.selector is 'JSON, label to value; null: none';
comment on column inbox.needs is 'JSON, slot to units; null: those of the kind';
comment on column inbox.concurrency_key is 'null: none';
comment on column inbox.hard_time_limit_ms is 'null: that of the kind';
comment on column inbox.soft_time_limit_ms is 'null: that of the kind';
comment on column inbox.traceparent is 'a W3C traceparent; null: none';

create table inbox_refusals (
  seq bigint not null,
  role text collate "C" not null,
  producer text collate "C" not null,
  inserted_at timestamptz not null,
  refused_at timestamptz not null,
  job_id uuid not null,
  kind text collate "C" not null,
  dedupe_key text collate "C",
  reason text collate "C" not null,
  message text collate "C" not null,
  entry jsonb,
  constraint inbox_refusals_pkey primary key (seq)
);
comment on table inbox_refusals is 'Rows of the inbox that became no job, with the reason. Kept for a while, and so many at the most.';
comment on column inbox_refusals.seq is 'that of the row';
comment on column inbox_refusals.role is 'who inserted it';
comment on column inbox_refusals.producer is 'as whom it would have enqueued';
comment on column inbox_refusals.inserted_at is 'when it was inserted, by the clock of the database';
comment on column inbox_refusals.refused_at is 'when it was refused';
comment on column inbox_refusals.job_id is 'the id that the job would have had; there is none under it';
comment on column inbox_refusals.kind is 'its kind, as it was asked for';
comment on column inbox_refusals.dedupe_key is 'null: none';
comment on column inbox_refusals.reason is 'the reason, as an RPC would be told it';
comment on column inbox_refusals.message is 'the same as a sentence';
comment on column inbox_refusals.entry is 'the row whole, so that it can be brought back; null: it was refused for what it asks for';

-- The one way in. It runs with the rights of its owner: who may execute it needs no right on a table. What it uses is named by
-- its schema, and nothing of the caller's search path counts.
do $make$
begin
  execute format($body$
create function %1$I.tenure_enqueue(
  kind text,
  payload bytea default ''::bytea,
  content_type text default '',
  job_id uuid default null,
  dedupe_key text default null,
  tenant text default null,
  priority integer default null,
  run_at timestamptz default null,
  delay interval default null,
  stale_after interval default null,
  labels jsonb default null,
  selector jsonb default null,
  needs jsonb default null,
  concurrency_key text default null,
  hard_time_limit interval default null,
  soft_time_limit interval default null,
  traceparent text default null
) returns uuid
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $function$
declare
  id uuid := tenure_enqueue.job_id;
begin
  if tenure_enqueue.kind is null or tenure_enqueue.payload is null then
    raise exception 'tenure_enqueue: kind and payload cannot be null' using errcode = 'null_value_not_allowed';
  end if;
  if session_user !~ '^[a-z0-9._-]{1,63}$' then
    raise exception 'tenure_enqueue: the role %% cannot enqueue: its name may have a-z, 0-9, dot, underscore and hyphen alone', session_user
      using errcode = 'invalid_name';
  end if;
  if id is null then
    -- A random UUID whose first 48 bits are the time in ms, and whose version says so.
    id := encode(
      set_bit(
        set_bit(
          overlay(
            uuid_send(gen_random_uuid())
            placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
            from 1 for 6
          ), 52, 1
        ), 53, 1
      ), 'hex'
    )::uuid;
  end if;
  insert into %1$I.inbox (
    role, inserted_at, job_id, kind, payload, content_type, dedupe_key, tenant, priority, run_at, delay_ms, stale_after_ms,
    labels, selector, needs, concurrency_key, hard_time_limit_ms, soft_time_limit_ms, traceparent
  ) values (
    session_user, clock_timestamp(), id, tenure_enqueue.kind, tenure_enqueue.payload,
    coalesce(tenure_enqueue.content_type, ''), tenure_enqueue.dedupe_key, tenure_enqueue.tenant, tenure_enqueue.priority,
    tenure_enqueue.run_at,
    ceil(extract(epoch from tenure_enqueue.delay) * 1000)::bigint,
    ceil(extract(epoch from tenure_enqueue.stale_after) * 1000)::bigint,
    tenure_enqueue.labels, tenure_enqueue.selector, tenure_enqueue.needs, tenure_enqueue.concurrency_key,
    ceil(extract(epoch from tenure_enqueue.hard_time_limit) * 1000)::bigint,
    ceil(extract(epoch from tenure_enqueue.soft_time_limit) * 1000)::bigint,
    tenure_enqueue.traceparent
  );
  perform pg_notify('tenure_inbox', '');
  return id;
end;
$function$
$body$, current_schema());
end;
$make$;
revoke all on function tenure_enqueue(
  text, bytea, text, uuid, text, text, integer, timestamptz, interval, interval, jsonb, jsonb, jsonb, text, interval, interval, text
) from public;
comment on function tenure_enqueue(
  text, bytea, text, uuid, text, text, integer, timestamptz, interval, interval, jsonb, jsonb, jsonb, text, interval, interval, text
) is 'Enqueues a job of Tenure in the transaction of the caller, and returns its id. Grant EXECUTE to producers; nothing else.';
