SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

CREATE FUNCTION public.jobs_refuse_row() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
  raise exception using
    errcode = 'integrity_constraint_violation', constraint = tg_name, table = tg_table_name, message = tg_name;
end
$$;

COMMENT ON FUNCTION public.jobs_refuse_row() IS 'refuses a row under the name of the trigger that calls it';

CREATE FUNCTION public.tenure_enqueue(kind text, payload bytea DEFAULT '\x'::bytea, content_type text DEFAULT ''::text, job_id uuid DEFAULT NULL::uuid, dedupe_key text DEFAULT NULL::text, tenant text DEFAULT NULL::text, priority integer DEFAULT NULL::integer, run_at timestamp with time zone DEFAULT NULL::timestamp with time zone, delay interval DEFAULT NULL::interval, stale_after interval DEFAULT NULL::interval, labels jsonb DEFAULT NULL::jsonb, selector jsonb DEFAULT NULL::jsonb, needs jsonb DEFAULT NULL::jsonb, concurrency_key text DEFAULT NULL::text, hard_time_limit interval DEFAULT NULL::interval, soft_time_limit interval DEFAULT NULL::interval, traceparent text DEFAULT NULL::text) RETURNS uuid
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
declare
  id uuid := tenure_enqueue.job_id;
begin
  if tenure_enqueue.kind is null or tenure_enqueue.payload is null then
    raise exception 'tenure_enqueue: kind and payload cannot be null' using errcode = 'null_value_not_allowed';
  end if;
  if session_user !~ '^[a-z0-9._-]{1,63}$' then
    raise exception 'tenure_enqueue: the role % cannot enqueue: its name may have a-z, 0-9, dot, underscore and hyphen alone', session_user
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
  insert into public.inbox (
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
$_$;

COMMENT ON FUNCTION public.tenure_enqueue(kind text, payload bytea, content_type text, job_id uuid, dedupe_key text, tenant text, priority integer, run_at timestamp with time zone, delay interval, stale_after interval, labels jsonb, selector jsonb, needs jsonb, concurrency_key text, hard_time_limit interval, soft_time_limit interval, traceparent text) IS 'Enqueues a job of Tenure in the transaction of the caller, and returns its id. Grant EXECUTE to producers; nothing else.';

SET default_tablespace = '';

SET default_table_access_method = heap;

CREATE TABLE public._sqlx_migrations (
    version bigint NOT NULL,
    description text NOT NULL,
    installed_on timestamp with time zone DEFAULT now() NOT NULL,
    success boolean NOT NULL,
    checksum bytea NOT NULL,
    execution_time bigint NOT NULL
);

CREATE TABLE public.attempts (
    job_id uuid NOT NULL,
    token bigint NOT NULL,
    attempt bigint NOT NULL,
    round bigint NOT NULL,
    node text NOT NULL COLLATE pg_catalog."C",
    outcome text NOT NULL,
    cause text NOT NULL,
    error text NOT NULL,
    exit_code integer,
    granted_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone,
    ended_at timestamp with time zone NOT NULL,
    detached boolean DEFAULT false NOT NULL,
    usage jsonb,
    partial boolean DEFAULT false NOT NULL,
    checkpoint_size bigint,
    CONSTRAINT attempts_number_from_one CHECK (((attempt >= 1) AND (round >= 1))),
    CONSTRAINT attempts_outcome_is_known CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'failed_retryable'::text, 'failed_permanent'::text, 'timed_out'::text, 'stalled'::text, 'lost'::text, 'returned'::text, 'cancelled'::text])))
);

COMMENT ON TABLE public.attempts IS 'Ended executions. An only execution that succeeded has no row: its times are columns of its job.';

COMMENT ON COLUMN public.attempts.job_id IS 'the job';

COMMENT ON COLUMN public.attempts.token IS 'of its lease';

COMMENT ON COLUMN public.attempts.attempt IS '1-based; a returned execution repeats the number';

COMMENT ON COLUMN public.attempts.round IS 'of the job';

COMMENT ON COLUMN public.attempts.node IS 'where it ran';

COMMENT ON COLUMN public.attempts.outcome IS 'how it ended';

COMMENT ON COLUMN public.attempts.cause IS 'a short stable word';

COMMENT ON COLUMN public.attempts.error IS 'for people';

COMMENT ON COLUMN public.attempts.exit_code IS 'if it exited';

COMMENT ON COLUMN public.attempts.granted_at IS 'when its lease was granted';

COMMENT ON COLUMN public.attempts.started_at IS 'when it started, if that is known';

COMMENT ON COLUMN public.attempts.ended_at IS 'when its end was recorded';

COMMENT ON COLUMN public.attempts.detached IS 'it ended in order to wait for children, and charges nothing';

COMMENT ON COLUMN public.attempts.usage IS 'JSON, counter -> what it used, as it reported; null: nothing';

COMMENT ON COLUMN public.attempts.partial IS 'what it left as its result is partial';

COMMENT ON COLUMN public.attempts.checkpoint_size IS 'bytes of the newest checkpoint that it is known to have saved; null: none';

CREATE TABLE public.checkpoints (
    job_id uuid NOT NULL,
    token bigint NOT NULL,
    data bytea NOT NULL,
    created_at timestamp with time zone NOT NULL
);

COMMENT ON TABLE public.checkpoints IS 'The newest checkpoint of a job.';

COMMENT ON COLUMN public.checkpoints.job_id IS 'the job';

COMMENT ON COLUMN public.checkpoints.token IS 'of the lease of the execution that saved it';

COMMENT ON COLUMN public.checkpoints.data IS 'opaque to the server';

COMMENT ON COLUMN public.checkpoints.created_at IS 'when it was stored';

CREATE TABLE public.classes (
    class text NOT NULL COLLATE pg_catalog."C",
    timeline jsonb NOT NULL
)
WITH (fillfactor='50', vacuum_truncate=off);

COMMENT ON TABLE public.classes IS 'Deferral timelines, saved at most once a second.';

COMMENT ON COLUMN public.classes.class IS 'the text of (kind, needs, selector, tenant)';

COMMENT ON COLUMN public.classes.timeline IS 'JSON list of {since, reason, message, tries, duration_us}, the oldest first';

CREATE TABLE public.crons (
    name text NOT NULL COLLATE pg_catalog."C",
    policy jsonb NOT NULL,
    last_instant timestamp with time zone NOT NULL,
    paused_by text,
    paused_at timestamp with time zone,
    fired bigint NOT NULL,
    missed bigint NOT NULL,
    last_fired jsonb,
    recent jsonb NOT NULL,
    CONSTRAINT crons_counts_not_negative CHECK (((fired >= 0) AND (missed >= 0))),
    CONSTRAINT crons_pause_has_its_time CHECK (((paused_by IS NULL) = (paused_at IS NULL)))
);

COMMENT ON TABLE public.crons IS 'Declared cron entries: timetables that enqueue jobs.';

COMMENT ON COLUMN public.crons.name IS 'its name';

COMMENT ON COLUMN public.crons.policy IS 'JSON, as in the fleet file: timetable, zone, what becomes of missed firings, the job';

COMMENT ON COLUMN public.crons.last_instant IS 'what becomes of every instant up to this one is settled; it never falls';

COMMENT ON COLUMN public.crons.paused_by IS 'who paused it; null: it is not paused';

COMMENT ON COLUMN public.crons.paused_at IS 'since when it is paused';

COMMENT ON COLUMN public.crons.fired IS 'jobs enqueued for it';

COMMENT ON COLUMN public.crons.missed IS 'instants that did not become a job';

COMMENT ON COLUMN public.crons.last_fired IS 'JSON, the newest job that was enqueued for it: instant, at, job';

COMMENT ON COLUMN public.crons.recent IS 'JSON, its newest missed firings with their reasons, the newest first';

CREATE TABLE public.inbox (
    seq bigint NOT NULL,
    role text NOT NULL COLLATE pg_catalog."C",
    inserted_at timestamp with time zone NOT NULL,
    job_id uuid NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    payload bytea NOT NULL,
    content_type text NOT NULL COLLATE pg_catalog."C",
    dedupe_key text COLLATE pg_catalog."C",
    tenant text COLLATE pg_catalog."C",
    priority integer,
    run_at timestamp with time zone,
    delay_ms bigint,
    stale_after_ms bigint,
    labels jsonb,
    selector jsonb,
    needs jsonb,
    concurrency_key text COLLATE pg_catalog."C",
    hard_time_limit_ms bigint,
    soft_time_limit_ms bigint,
    traceparent text COLLATE pg_catalog."C",
    CONSTRAINT inbox_maps_in_bounds CHECK (((length(COALESCE((labels)::text, ''::text)) <= 65536) AND (length(COALESCE((selector)::text, ''::text)) <= 65536) AND (length(COALESCE((needs)::text, ''::text)) <= 65536))),
    CONSTRAINT inbox_payload_in_bounds CHECK ((octet_length(payload) <= 262144)),
    CONSTRAINT inbox_run_at_in_bounds CHECK (((run_at >= '1970-01-01 00:00:00+00'::timestamp with time zone) AND (run_at < '10000-01-01 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT inbox_texts_in_bounds CHECK (((octet_length(role) <= 63) AND (octet_length(kind) <= 255) AND (octet_length(content_type) <= 255) AND (octet_length(COALESCE(dedupe_key, ''::text)) <= 255) AND (octet_length(COALESCE(tenant, ''::text)) <= 255) AND (octet_length(COALESCE(concurrency_key, ''::text)) <= 256) AND (octet_length(COALESCE(traceparent, ''::text)) <= 128)))
);

COMMENT ON TABLE public.inbox IS 'What producers in this database enqueue in their own transactions, by the function tenure_enqueue alone. The leader makes jobs of the rows and removes them; whatever stands here waits for it.';

COMMENT ON COLUMN public.inbox.seq IS 'the order of insertion, which need not be that of the commits';

COMMENT ON COLUMN public.inbox.role IS 'who inserted it: the role that logged in, as the database says';

COMMENT ON COLUMN public.inbox.inserted_at IS 'when, by the clock of the database; compared with nothing but that clock';

COMMENT ON COLUMN public.inbox.job_id IS 'a UUID v7; under it a row that is ingested again is the same job';

COMMENT ON COLUMN public.inbox.kind IS 'its kind';

COMMENT ON COLUMN public.inbox.payload IS 'its payload';

COMMENT ON COLUMN public.inbox.content_type IS 'a media type; may be empty';

COMMENT ON COLUMN public.inbox.dedupe_key IS 'null: none';

COMMENT ON COLUMN public.inbox.tenant IS 'null: that of the producer';

COMMENT ON COLUMN public.inbox.priority IS 'null: that of the kind';

COMMENT ON COLUMN public.inbox.run_at IS 'not to be started before; null: at once';

COMMENT ON COLUMN public.inbox.delay_ms IS 'not to be started before so long after inserted_at; null: at once';

COMMENT ON COLUMN public.inbox.stale_after_ms IS 'not worth starting so long after inserted_at; null: that of the kind';

COMMENT ON COLUMN public.inbox.labels IS 'JSON, text to text; null: none';

COMMENT ON COLUMN public.inbox.selector IS 'JSON, label to value; null: none';

COMMENT ON COLUMN public.inbox.needs IS 'JSON, slot to units; null: those of the kind';

COMMENT ON COLUMN public.inbox.concurrency_key IS 'null: none';

COMMENT ON COLUMN public.inbox.hard_time_limit_ms IS 'null: that of the kind';

COMMENT ON COLUMN public.inbox.soft_time_limit_ms IS 'null: that of the kind';

COMMENT ON COLUMN public.inbox.traceparent IS 'a W3C traceparent; null: none';

CREATE TABLE public.inbox_refusals (
    seq bigint NOT NULL,
    role text NOT NULL COLLATE pg_catalog."C",
    producer text NOT NULL COLLATE pg_catalog."C",
    inserted_at timestamp with time zone NOT NULL,
    refused_at timestamp with time zone NOT NULL,
    job_id uuid NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    dedupe_key text COLLATE pg_catalog."C",
    reason text NOT NULL COLLATE pg_catalog."C",
    message text NOT NULL COLLATE pg_catalog."C",
    entry jsonb
);

COMMENT ON TABLE public.inbox_refusals IS 'Rows of the inbox that became no job, with the reason. Kept for a while, and so many at the most.';

COMMENT ON COLUMN public.inbox_refusals.seq IS 'that of the row';

COMMENT ON COLUMN public.inbox_refusals.role IS 'who inserted it';

COMMENT ON COLUMN public.inbox_refusals.producer IS 'as whom it would have enqueued';

COMMENT ON COLUMN public.inbox_refusals.inserted_at IS 'when it was inserted, by the clock of the database';

COMMENT ON COLUMN public.inbox_refusals.refused_at IS 'when it was refused';

COMMENT ON COLUMN public.inbox_refusals.job_id IS 'the id that the job would have had; there is none under it';

COMMENT ON COLUMN public.inbox_refusals.kind IS 'its kind, as it was asked for';

COMMENT ON COLUMN public.inbox_refusals.dedupe_key IS 'null: none';

COMMENT ON COLUMN public.inbox_refusals.reason IS 'the reason, as an RPC would be told it';

COMMENT ON COLUMN public.inbox_refusals.message IS 'the same as a sentence';

COMMENT ON COLUMN public.inbox_refusals.entry IS 'the row whole, so that it can be brought back; null: it was refused for what it asks for';

ALTER TABLE public.inbox ALTER COLUMN seq ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.inbox_seq_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.jobs (
    id uuid NOT NULL,
    sequence bigint NOT NULL,
    tenant text NOT NULL COLLATE pg_catalog."C",
    producer text NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    state text NOT NULL,
    version bigint NOT NULL,
    priority smallint NOT NULL,
    needs jsonb,
    selector jsonb NOT NULL,
    labels jsonb NOT NULL,
    dedupe_key text COLLATE pg_catalog."C",
    dedupe_held boolean NOT NULL,
    fingerprint bytea NOT NULL,
    hard_time_limit_us bigint,
    parent_id uuid,
    root_id uuid NOT NULL,
    depth smallint NOT NULL,
    children bigint NOT NULL,
    traceparent text,
    payload_size bigint NOT NULL,
    round bigint NOT NULL,
    failures bigint NOT NULL,
    losses bigint NOT NULL,
    returns bigint NOT NULL,
    returns_in_row bigint NOT NULL,
    token bigint NOT NULL,
    last_outcome text,
    last_node text COLLATE pg_catalog."C",
    granted_at timestamp with time zone,
    started_at timestamp with time zone,
    cancel_requested boolean NOT NULL,
    created_at timestamp with time zone NOT NULL,
    stale_at timestamp with time zone,
    reason text,
    waits jsonb NOT NULL,
    run_at timestamp with time zone,
    scheduled_cause text,
    queued_at timestamp with time zone,
    finished_at timestamp with time zone,
    tracestate text,
    on_parent_cancel text DEFAULT 'cancel'::text NOT NULL,
    on_parent_lost text DEFAULT 'keep'::text NOT NULL,
    waiting_at timestamp with time zone,
    detached jsonb,
    concurrency_key text,
    soft_time_limit_us bigint,
    workflow_id uuid,
    workflow_place bigint,
    blocked_at timestamp with time zone,
    CONSTRAINT jobs_cause_is_known CHECK ((scheduled_cause = ANY (ARRAY['run_at'::text, 'backoff'::text]))),
    CONSTRAINT jobs_counts_not_negative CHECK ((LEAST(failures, losses, returns, returns_in_row, token, (depth)::bigint, children, payload_size, version, sequence) >= 0)),
    CONSTRAINT jobs_final_has_finished_at CHECK (((state = ANY (ARRAY['succeeded'::text, 'dead'::text, 'cancelled'::text, 'expired'::text])) = (finished_at IS NOT NULL))),
    CONSTRAINT jobs_fingerprint_is_sha256 CHECK ((length(fingerprint) = 32)),
    CONSTRAINT jobs_held_has_key CHECK (((NOT dedupe_held) OR (dedupe_key IS NOT NULL))),
    CONSTRAINT jobs_outcome_is_known CHECK ((last_outcome = ANY (ARRAY['succeeded'::text, 'failed_retryable'::text, 'failed_permanent'::text, 'timed_out'::text, 'stalled'::text, 'lost'::text, 'returned'::text, 'cancelled'::text]))),
    CONSTRAINT jobs_priority_in_range CHECK (((priority >= '-100'::integer) AND (priority <= 100))),
    CONSTRAINT jobs_queued_has_queued_at CHECK (((state = 'queued'::text) = (queued_at IS NOT NULL))),
    CONSTRAINT jobs_round_from_one CHECK ((round >= 1)),
    CONSTRAINT jobs_running_has_token CHECK (((state <> 'running'::text) OR (token > 0))),
    CONSTRAINT jobs_scheduled_has_cause CHECK (((state = 'scheduled'::text) = (scheduled_cause IS NOT NULL))),
    CONSTRAINT jobs_scheduled_has_run_at CHECK (((state = 'scheduled'::text) = (run_at IS NOT NULL))),
    CONSTRAINT jobs_state_is_known CHECK ((state = ANY (ARRAY['scheduled'::text, 'blocked'::text, 'queued'::text, 'running'::text, 'waiting'::text, 'succeeded'::text, 'dead'::text, 'cancelled'::text, 'expired'::text])))
)
WITH (fillfactor='90', autovacuum_vacuum_scale_factor='0.02', autovacuum_analyze_scale_factor='0.02', vacuum_truncate=off);

COMMENT ON TABLE public.jobs IS 'One payload of one kind with one final state, but for its payload and result.';

COMMENT ON COLUMN public.jobs.id IS 'UUID v7, made by the producer or the server';

COMMENT ON COLUMN public.jobs.sequence IS 'order of enqueues over all epochs; breaks ties of priority';

COMMENT ON COLUMN public.jobs.tenant IS 'whose work it is';

COMMENT ON COLUMN public.jobs.producer IS 'who enqueued it';

COMMENT ON COLUMN public.jobs.kind IS 'type of work';

COMMENT ON COLUMN public.jobs.state IS 'where it stands; the last four are final';

COMMENT ON COLUMN public.jobs.version IS 'plus one at each durable change';

COMMENT ON COLUMN public.jobs.priority IS 'higher first';

COMMENT ON COLUMN public.jobs.needs IS 'JSON, slot -> units; null: its kind''s at the grant';

COMMENT ON COLUMN public.jobs.selector IS 'JSON, node labels that it asks for itself';

COMMENT ON COLUMN public.jobs.labels IS 'JSON, for people and filters';

COMMENT ON COLUMN public.jobs.dedupe_key IS 'business identity';

COMMENT ON COLUMN public.jobs.dedupe_held IS 'whether the key still answers for this job';

COMMENT ON COLUMN public.jobs.fingerprint IS 'SHA-256 of kind, payload, content type and dedupe key';

COMMENT ON COLUMN public.jobs.hard_time_limit_us IS 'shorter than its kind''s; null: its kind''s';

COMMENT ON COLUMN public.jobs.parent_id IS 'the job that spawned it; it may be gone';

COMMENT ON COLUMN public.jobs.root_id IS 'the top of its tree; itself without a parent';

COMMENT ON COLUMN public.jobs.depth IS 'how many parents stand above it';

COMMENT ON COLUMN public.jobs.children IS 'how many children were ever enqueued under it';

COMMENT ON COLUMN public.jobs.traceparent IS 'W3C trace context of its enqueue';

COMMENT ON COLUMN public.jobs.payload_size IS 'bytes; 0: there is no row in payloads';

COMMENT ON COLUMN public.jobs.round IS 'plus one at each requeue, from 1';

COMMENT ON COLUMN public.jobs.failures IS 'of this round: ran and failed or timed out';

COMMENT ON COLUMN public.jobs.losses IS 'of this round: its lease ended in silence, its node or shim died';

COMMENT ON COLUMN public.jobs.returns IS 'of this round: ended for a reason neither its own nor its node''s';

COMMENT ON COLUMN public.jobs.returns_in_row IS 'the newest of those that followed each other';

COMMENT ON COLUMN public.jobs.token IS 'of the newest lease; 0: never granted';

COMMENT ON COLUMN public.jobs.last_outcome IS 'how the execution under token ended; null: it has not';

COMMENT ON COLUMN public.jobs.last_node IS 'where the execution under token is or was';

COMMENT ON COLUMN public.jobs.granted_at IS 'when token was granted';

COMMENT ON COLUMN public.jobs.started_at IS 'when the newest started execution began';

COMMENT ON COLUMN public.jobs.cancel_requested IS 'somebody wants it to end';

COMMENT ON COLUMN public.jobs.created_at IS 'when it was enqueued';

COMMENT ON COLUMN public.jobs.stale_at IS 'it expires if not started by then';

COMMENT ON COLUMN public.jobs.reason IS 'why it stands where it stands, for people';

COMMENT ON COLUMN public.jobs.waits IS 'JSON list, what it waited for before its newest grant';

COMMENT ON COLUMN public.jobs.run_at IS 'scheduled: not before';

COMMENT ON COLUMN public.jobs.scheduled_cause IS 'scheduled: what run_at is';

COMMENT ON COLUMN public.jobs.queued_at IS 'queued: since when';

COMMENT ON COLUMN public.jobs.finished_at IS 'final: when that was recorded';

COMMENT ON COLUMN public.jobs.tracestate IS 'W3C tracestate of its enqueue, beside traceparent';

COMMENT ON COLUMN public.jobs.on_parent_cancel IS 'what becomes of it when its parent is cancelled';

COMMENT ON COLUMN public.jobs.on_parent_lost IS 'what becomes of it when an execution of its parent is lost';

COMMENT ON COLUMN public.jobs.waiting_at IS 'waiting: since when';

COMMENT ON COLUMN public.jobs.detached IS 'JSON, the newest wait for which it detached in this round; null: none';

COMMENT ON COLUMN public.jobs.concurrency_key IS 'what it shares with jobs of its tenant and kind that may not all run at once';

COMMENT ON COLUMN public.jobs.soft_time_limit_us IS 'shorter than its kind''s; null: its kind''s';

COMMENT ON COLUMN public.jobs.workflow_id IS 'the workflow that it is a member of';

COMMENT ON COLUMN public.jobs.workflow_place IS 'where in it, from 0';

COMMENT ON COLUMN public.jobs.blocked_at IS 'blocked: since when';

CREATE TABLE public.leases (
    token bigint NOT NULL,
    job_id uuid NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    node text NOT NULL COLLATE pg_catalog."C",
    length_us bigint NOT NULL,
    reservation jsonb NOT NULL,
    attempt bigint NOT NULL,
    round bigint NOT NULL,
    granted_at timestamp with time zone NOT NULL,
    phase text NOT NULL,
    orphaned boolean DEFAULT false NOT NULL,
    tenant text DEFAULT 'default'::text NOT NULL COLLATE pg_catalog."C",
    concurrency_key text,
    parked jsonb,
    CONSTRAINT leases_attempt_from_one CHECK (((attempt >= 1) AND (round >= 1))),
    CONSTRAINT leases_phase_is_known CHECK ((phase = ANY (ARRAY['granted'::text, 'finished'::text, 'unreaped'::text]))),
    CONSTRAINT leases_token_from_one CHECK ((token > 0))
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000', vacuum_truncate=off);

COMMENT ON TABLE public.leases IS 'The right to run one attempt. A row lives from the grant until its process tree is gone, past its end as phase unreaped,
  which charges node slots only. No foreign key to jobs: a lease outlives its final or deleted job. Its expiry is stored
  nowhere.';

COMMENT ON COLUMN public.leases.token IS 'its identity, epoch << 40 | n';

COMMENT ON COLUMN public.leases.job_id IS 'the job; it may be gone';

COMMENT ON COLUMN public.leases.kind IS 'of the job, for people';

COMMENT ON COLUMN public.leases.node IS 'who holds it';

COMMENT ON COLUMN public.leases.length_us IS 'how long it lasts without a renewal, fixed at the grant';

COMMENT ON COLUMN public.leases.reservation IS 'JSON, {node: slot -> units, fleet: slot -> units}';

COMMENT ON COLUMN public.leases.attempt IS 'the number of the attempt';

COMMENT ON COLUMN public.leases.round IS 'of the job';

COMMENT ON COLUMN public.leases.granted_at IS 'when it was granted';

COMMENT ON COLUMN public.leases.phase IS 'granted: no outcome yet; finished: not reaped yet; unreaped: over';

COMMENT ON COLUMN public.leases.orphaned IS 'another instance or boot of its node said Hello; it runs out, whoever lists it';

COMMENT ON COLUMN public.leases.tenant IS 'of the job: who is charged for what it takes';

COMMENT ON COLUMN public.leases.concurrency_key IS 'of the job, while it is held';

COMMENT ON COLUMN public.leases.parked IS 'JSON, the newest wait under it during which its process stays; null: none, or it has ended';

CREATE TABLE public.slots (
    name text NOT NULL COLLATE pg_catalog."C",
    scope text NOT NULL,
    capacity bigint,
    capacity_since bigint NOT NULL,
    paused boolean NOT NULL,
    paused_until timestamp with time zone,
    rate_tokens bigint,
    rate_per_us bigint,
    rate_burst bigint,
    rate_full_at timestamp with time zone,
    throttled_until timestamp with time zone,
    CONSTRAINT slots_bucket_of_a_rate CHECK (((rate_full_at IS NULL) OR (rate_tokens IS NOT NULL))),
    CONSTRAINT slots_capacity_not_negative CHECK ((capacity >= 0)),
    CONSTRAINT slots_fleet_has_capacity CHECK (((scope = 'fleet'::text) = (capacity IS NOT NULL))),
    CONSTRAINT slots_rate_from_one CHECK ((rate_tokens >= 1)),
    CONSTRAINT slots_rate_has_its_burst CHECK (((rate_burst IS NULL) = (rate_tokens IS NULL))),
    CONSTRAINT slots_rate_has_its_time CHECK (((rate_per_us IS NULL) = (rate_tokens IS NULL))),
    CONSTRAINT slots_scope_is_known CHECK ((scope = ANY (ARRAY['node'::text, 'fleet'::text]))),
    CONSTRAINT slots_throttled_of_the_fleet CHECK (((throttled_until IS NULL) OR (scope = 'fleet'::text))),
    CONSTRAINT slots_until_only_paused CHECK (((paused_until IS NULL) OR paused))
)
WITH (fillfactor='50');

COMMENT ON TABLE public.slots IS 'Declared slots. What is used of them is stored nowhere: it is the sum of the reservations.';

COMMENT ON COLUMN public.slots.name IS 'its name';

COMMENT ON COLUMN public.slots.scope IS 'node: each node reports its own; fleet: one capacity for all';

COMMENT ON COLUMN public.slots.capacity IS 'units of a fleet slot';

COMMENT ON COLUMN public.slots.capacity_since IS 'the newest token granted before its capacity last changed';

COMMENT ON COLUMN public.slots.paused IS 'nothing that needs it may start';

COMMENT ON COLUMN public.slots.paused_until IS 'when the pause ends by itself; null: it does not';

COMMENT ON COLUMN public.slots.rate_tokens IS 'units that may be granted in each rate_per_us; null: no rate';

COMMENT ON COLUMN public.slots.rate_per_us IS 'the time of rate_tokens';

COMMENT ON COLUMN public.slots.rate_burst IS 'units that may be granted at once after a time of rest';

COMMENT ON COLUMN public.slots.rate_full_at IS 'when its bucket is full again; null: it is';

COMMENT ON COLUMN public.slots.throttled_until IS 'nothing that needs it may start until then: its provider said so';

CREATE VIEW public.inv_all_or_nothing AS
 SELECT 'inv_all_or_nothing'::text AS invariant,
    (leases.token)::text AS subject,
    ((((((('job '::text || jobs.id) || ' needs '::text) || needed.value) || ' of '::text) || slots.scope) || ' slot '::text) || slots.name) AS detail
   FROM (((public.leases
     JOIN public.jobs ON (((jobs.id = leases.job_id) AND (jobs.token = leases.token))))
     CROSS JOIN LATERAL jsonb_each(jobs.needs) needed(key, value))
     JOIN public.slots ON ((slots.name = needed.key)))
  WHERE ((leases.phase = 'granted'::text) AND ((leases.reservation -> slots.scope) <> '{}'::jsonb) AND ((leases.parked IS NULL) OR ((leases.parked -> 'yielded'::text) = '{"node": {}, "fleet": {}}'::jsonb)) AND (needed.value IS DISTINCT FROM ((leases.reservation -> slots.scope) -> needed.key)))
UNION ALL
 SELECT 'inv_all_or_nothing'::text AS invariant,
    (leases.token)::text AS subject,
    (('holds slot '::text || given.slot) || ', which it gave back'::text) AS detail
   FROM ((public.leases
     CROSS JOIN ( VALUES ('node'::text), ('fleet'::text)) part(name))
     CROSS JOIN LATERAL jsonb_object_keys(((leases.parked -> 'yielded'::text) -> part.name)) given(slot))
  WHERE ((leases.parked IS NOT NULL) AND ((leases.reservation -> part.name) ? given.slot));

COMMENT ON VIEW public.inv_all_or_nothing IS 'I9, S9: a lease has all of its job''s needs, of the node and of the fleet; a part is given back as a whole; one that is parked holds nothing that it gave back';

CREATE VIEW public.inv_attempts_are_counted AS
 WITH counted(id, failures, losses) AS (
         SELECT jobs_1.id,
            count(*) FILTER (WHERE (attempts.outcome = ANY (ARRAY['failed_retryable'::text, 'failed_permanent'::text, 'timed_out'::text, 'stalled'::text]))) AS count,
            count(*) FILTER (WHERE (attempts.outcome = 'lost'::text)) AS count
           FROM (public.jobs jobs_1
             LEFT JOIN public.attempts ON (((attempts.job_id = jobs_1.id) AND (attempts.round = jobs_1.round))))
          GROUP BY jobs_1.id
        )
 SELECT 'inv_attempts_are_counted'::text AS invariant,
    (jobs.id)::text AS subject,
    ((((((('counts '::text || jobs.failures) || ' failures and '::text) || jobs.losses) || ' losses, its attempts '::text) || counted.failures) || ' and '::text) || counted.losses) AS detail
   FROM (public.jobs
     JOIN counted ON ((counted.id = jobs.id)))
  WHERE ((jobs.failures <> counted.failures) OR (jobs.losses <> counted.losses));

COMMENT ON VIEW public.inv_attempts_are_counted IS 'I13: failures and losses of the present round are those of its attempts';

CREATE VIEW public.inv_final_is_settled AS
 SELECT 'inv_final_is_settled'::text AS invariant,
    (jobs.id)::text AS subject,
    ((('is '::text || jobs.state) || ', its newest outcome is '::text) || COALESCE(jobs.last_outcome, 'open'::text)) AS detail
   FROM public.jobs
  WHERE ((jobs.state = 'succeeded'::text) <> (NOT (jobs.last_outcome IS DISTINCT FROM 'succeeded'::text)));

COMMENT ON VIEW public.inv_final_is_settled IS 'I11: a success is final, and nothing else is a success';

CREATE VIEW public.inv_instants_fire_once AS
 SELECT 'inv_instants_fire_once'::text AS invariant,
    jobs.producer AS subject,
    ((count(*) || ' jobs of the instant '::text) || (jobs.labels ->> 'cron.instant'::text)) AS detail
   FROM public.jobs
  WHERE ((jobs.producer ~~ 'cron:%'::text) AND (jobs.parent_id IS NULL) AND ((jobs.labels ->> 'cron.instant'::text) IS NOT NULL))
  GROUP BY jobs.producer, (jobs.labels ->> 'cron.instant'::text)
 HAVING (count(*) > 1);

COMMENT ON VIEW public.inv_instants_fire_once IS 'I20: an instant of a cron entry becomes one job at the most';

CREATE TABLE public.nodes (
    name text NOT NULL COLLATE pg_catalog."C",
    instance text NOT NULL,
    boot_id text NOT NULL,
    incarnation bigint NOT NULL,
    stream bigint NOT NULL,
    labels jsonb NOT NULL,
    slots jsonb NOT NULL,
    kinds jsonb NOT NULL,
    host jsonb NOT NULL,
    agent_version text NOT NULL,
    cordoned boolean NOT NULL,
    draining_us bigint,
    last_seen_at timestamp with time zone NOT NULL
)
WITH (fillfactor='50');

COMMENT ON TABLE public.nodes IS 'Known nodes, until an operator forgets them.';

COMMENT ON COLUMN public.nodes.name IS 'its name';

COMMENT ON COLUMN public.nodes.instance IS 'random, made once with the agent''s state directory';

COMMENT ON COLUMN public.nodes.boot_id IS 'of its host''s present boot';

COMMENT ON COLUMN public.nodes.incarnation IS 'plus one at each start of its agent';

COMMENT ON COLUMN public.nodes.stream IS 'the count of Hellos in that incarnation';

COMMENT ON COLUMN public.nodes.labels IS 'JSON, for routing';

COMMENT ON COLUMN public.nodes.slots IS 'JSON, slot -> {units, since: the newest token granted before units changed}';

COMMENT ON COLUMN public.nodes.kinds IS 'JSON list, what it runs';

COMMENT ON COLUMN public.nodes.host IS 'JSON, what its host offers';

COMMENT ON COLUMN public.nodes.agent_version IS 'for people';

COMMENT ON COLUMN public.nodes.cordoned IS 'it takes no new grants';

COMMENT ON COLUMN public.nodes.draining_us IS 'it takes no new grants, and what runs ends within this; null: it is not drained';

COMMENT ON COLUMN public.nodes.last_seen_at IS 'when it was last heard, saved once a minute, for people';

CREATE VIEW public.inv_leases_have_owners AS
 SELECT 'inv_leases_have_owners'::text AS invariant,
    (leases.token)::text AS subject,
    (('its node '::text || leases.node) || ' is not known'::text) AS detail
   FROM public.leases
  WHERE (NOT (EXISTS ( SELECT 1
           FROM public.nodes
          WHERE (nodes.name = leases.node))))
UNION ALL
 SELECT 'inv_leases_have_owners'::text AS invariant,
    (leases.token)::text AS subject,
    'its job never had this token'::text AS detail
   FROM (public.leases
     JOIN public.jobs ON ((jobs.id = leases.job_id)))
  WHERE ((leases.phase = 'granted'::text) AND (jobs.token < leases.token));

COMMENT ON VIEW public.inv_leases_have_owners IS 'I8: every reservation belongs to a lease of a known node, and a granted one to a token that its job had';

CREATE VIEW public.inv_one_live_lease AS
 SELECT 'inv_one_live_lease'::text AS invariant,
    (leases.job_id)::text AS subject,
    (count(*) || ' live leases'::text) AS detail
   FROM public.leases
  WHERE (leases.phase <> 'unreaped'::text)
  GROUP BY leases.job_id
 HAVING (count(*) > 1)
UNION ALL
 SELECT 'inv_one_live_lease'::text AS invariant,
    (jobs.id)::text AS subject,
    'runs without a lease under its token'::text AS detail
   FROM public.jobs
  WHERE ((jobs.state = 'running'::text) AND (jobs.finished_at IS NULL) AND (NOT (EXISTS ( SELECT 1
           FROM public.leases
          WHERE ((leases.token = jobs.token) AND (leases.job_id = jobs.id) AND (leases.phase = 'granted'::text))))))
UNION ALL
 SELECT 'inv_one_live_lease'::text AS invariant,
    (leases.job_id)::text AS subject,
    (('lease '::text || leases.token) || ' is granted, its job does not run under it'::text) AS detail
   FROM public.leases
  WHERE ((leases.phase = 'granted'::text) AND (NOT (EXISTS ( SELECT 1
           FROM public.jobs
          WHERE ((jobs.id = leases.job_id) AND (jobs.token = leases.token) AND (jobs.state =
                CASE
                    WHEN ((leases.parked IS NOT NULL) AND ((leases.parked ->> 'verdict'::text) IS NULL)) THEN 'waiting'::text
                    ELSE 'running'::text
                END))))));

COMMENT ON VIEW public.inv_one_live_lease IS 'I4: a running job, or one whose process is parked, has one live lease, and a lease whose outcome is open such a job';

CREATE TABLE public.results (
    job_id uuid NOT NULL,
    token bigint NOT NULL,
    data bytea NOT NULL,
    content_type text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    of_wait boolean DEFAULT false NOT NULL,
    partial boolean DEFAULT false NOT NULL,
    object_size bigint,
    object_sha256 text
);

COMMENT ON TABLE public.results IS 'The output of one execution.';

COMMENT ON COLUMN public.results.job_id IS 'the job';

COMMENT ON COLUMN public.results.token IS 'of the lease of the execution';

COMMENT ON COLUMN public.results.data IS 'opaque to the server';

COMMENT ON COLUMN public.results.content_type IS 'a media type, as the node said; may be empty';

COMMENT ON COLUMN public.results.created_at IS 'when it was stored';

COMMENT ON COLUMN public.results.expires_at IS 'when it is swept';

COMMENT ON COLUMN public.results.of_wait IS 'no result, but the state that an execution left which detached';

COMMENT ON COLUMN public.results.partial IS 'the execution had been asked to wrap up, or was killed, before it was done';

COMMENT ON COLUMN public.results.object_size IS 'bytes of its object, which then stand in object storage and not in data; null: they are in data';

COMMENT ON COLUMN public.results.object_sha256 IS 'the SHA-256 of its object, in hex; null: there is none';

CREATE VIEW public.inv_results_have_executions AS
 SELECT 'inv_results_have_executions'::text AS invariant,
    (results.job_id)::text AS subject,
    (('result of token '::text || results.token) || ' without an execution'::text) AS detail
   FROM (public.results
     JOIN public.jobs ON ((jobs.id = results.job_id)))
  WHERE ((results.token <> jobs.token) AND (NOT (EXISTS ( SELECT 1
           FROM public.attempts
          WHERE ((attempts.job_id = results.job_id) AND (attempts.token = results.token))))));

COMMENT ON VIEW public.inv_results_have_executions IS 'I12: every result belongs to an execution of its job';

CREATE VIEW public.inv_slots_within_capacity AS
 WITH held(node, slot, amount, token) AS (
         SELECT NULL::text AS "?column?",
            taken.key,
            (taken.value)::bigint AS value,
            leases.token
           FROM (public.leases
             CROSS JOIN LATERAL jsonb_each_text((leases.reservation -> 'fleet'::text)) taken(key, value))
          WHERE (leases.phase <> 'unreaped'::text)
        UNION ALL
         SELECT leases.node,
            taken.key,
            (taken.value)::bigint AS value,
            leases.token
           FROM (public.leases
             CROSS JOIN LATERAL jsonb_each_text((leases.reservation -> 'node'::text)) taken(key, value))
        ), used(node, slot, amount, newest) AS (
         SELECT held.node,
            held.slot,
            sum(held.amount) AS sum,
            max(held.token) AS max
           FROM held
          GROUP BY held.node, held.slot
        )
 SELECT 'inv_slots_within_capacity'::text AS invariant,
    used.slot AS subject,
    (((used.amount || ' of '::text) || slots.capacity) || ' taken, by a grant after the capacity changed'::text) AS detail
   FROM (used
     JOIN public.slots ON ((slots.name = used.slot)))
  WHERE ((used.node IS NULL) AND (used.amount > (slots.capacity)::numeric) AND (used.newest > slots.capacity_since))
UNION ALL
 SELECT 'inv_slots_within_capacity'::text AS invariant,
    ((used.node || '/'::text) || used.slot) AS subject,
    (((used.amount || ' of '::text) || ((nodes.slots -> used.slot) ->> 'units'::text)) || ' taken, by a grant after the capacity changed'::text) AS detail
   FROM (used
     JOIN public.nodes ON ((nodes.name = used.node)))
  WHERE ((used.amount > ((((nodes.slots -> used.slot) ->> 'units'::text))::bigint)::numeric) AND (used.newest > (((nodes.slots -> used.slot) ->> 'since'::text))::bigint));

COMMENT ON VIEW public.inv_slots_within_capacity IS 'I7: no slot is over its capacity, but by grants older than its capacity';

CREATE TABLE public.workflows (
    id uuid NOT NULL,
    producer text NOT NULL,
    name text,
    fingerprint bytea NOT NULL,
    shape jsonb NOT NULL,
    members bigint NOT NULL,
    state text NOT NULL,
    version bigint NOT NULL,
    round bigint NOT NULL,
    cancel_requested boolean NOT NULL,
    created_at timestamp with time zone NOT NULL,
    began_at timestamp with time zone NOT NULL,
    finished_at timestamp with time zone,
    reason text,
    opened jsonb NOT NULL,
    CONSTRAINT workflows_counts_from_one CHECK (((members >= 1) AND (version >= 1) AND (round >= 1))),
    CONSTRAINT workflows_final_has_finished_at CHECK (((state = 'running'::text) = (finished_at IS NULL))),
    CONSTRAINT workflows_fingerprint_is_sha256 CHECK ((length(fingerprint) = 32)),
    CONSTRAINT workflows_state_is_known CHECK ((state = ANY (ARRAY['running'::text, 'succeeded'::text, 'dead'::text, 'cancelled'::text])))
);

COMMENT ON TABLE public.workflows IS 'jobs behind and beside each other; how each ended is told by its own row';

COMMENT ON COLUMN public.workflows.id IS 'UUID v7, made by the producer; the ids of its members are derived from it';

COMMENT ON COLUMN public.workflows.producer IS 'who submitted it';

COMMENT ON COLUMN public.workflows.name IS 'for people';

COMMENT ON COLUMN public.workflows.fingerprint IS 'SHA-256 of its shape and of all its jobs';

COMMENT ON COLUMN public.workflows.shape IS 'JSON, a tree of chains, groups and chords; its leaves are the members by place';

COMMENT ON COLUMN public.workflows.members IS 'how many leaves that tree has';

COMMENT ON COLUMN public.workflows.state IS 'where it stands; the last three are final';

COMMENT ON COLUMN public.workflows.version IS 'plus one at each change of this row';

COMMENT ON COLUMN public.workflows.round IS 'plus one when a final one comes back, from 1';

COMMENT ON COLUMN public.workflows.cancel_requested IS 'somebody wants it to end';

COMMENT ON COLUMN public.workflows.created_at IS 'when it was submitted';

COMMENT ON COLUMN public.workflows.began_at IS 'from when its deadlines count: its submission, or its last requeue';

COMMENT ON COLUMN public.workflows.finished_at IS 'final: when that was recorded';

COMMENT ON COLUMN public.workflows.reason IS 'why it stands where it stands, for people';

COMMENT ON COLUMN public.workflows.opened IS 'JSON, by gate: those that opened before all of their members had ended, and without whom';

CREATE VIEW public.inv_workflows_have_members AS
 SELECT 'inv_workflows_have_members'::text AS invariant,
    (jobs.id)::text AS subject,
    (('is '::text || jobs.state) || ', and its workflow is not live'::text) AS detail
   FROM public.jobs
  WHERE ((jobs.workflow_id IS NOT NULL) AND (jobs.finished_at IS NULL) AND (NOT (EXISTS ( SELECT 1
           FROM public.workflows
          WHERE ((workflows.id = jobs.workflow_id) AND (workflows.finished_at IS NULL))))))
UNION ALL
 SELECT 'inv_workflows_have_members'::text AS invariant,
    (workflows.id)::text AS subject,
    (((('has '::text || ( SELECT count(*) AS count
           FROM public.jobs
          WHERE (jobs.workflow_id = workflows.id))) || ' of its '::text) || workflows.members) || ' members'::text) AS detail
   FROM public.workflows
  WHERE ((workflows.finished_at IS NULL) AND (workflows.members <> ( SELECT count(*) AS count
           FROM public.jobs
          WHERE (jobs.workflow_id = workflows.id))));

COMMENT ON VIEW public.inv_workflows_have_members IS 'I19: a member that is not final belongs to a live workflow, and a live workflow has all of its members';

CREATE TABLE public.kinds (
    name text NOT NULL COLLATE pg_catalog."C",
    policy jsonb NOT NULL,
    paused text,
    dead_by_day jsonb NOT NULL,
    spent jsonb,
    CONSTRAINT kinds_pause_is_known CHECK ((paused = ANY (ARRAY['hold'::text, 'reject'::text]))),
    CONSTRAINT kinds_spent_is_an_object CHECK ((jsonb_typeof(spent) = 'object'::text))
)
WITH (fillfactor='50');

COMMENT ON TABLE public.kinds IS 'Declared kinds.';

COMMENT ON COLUMN public.kinds.name IS 'its name';

COMMENT ON COLUMN public.kinds.policy IS 'JSON, what the fleet file says of it';

COMMENT ON COLUMN public.kinds.paused IS 'hold or reject while none of its jobs may start; null: they may';

COMMENT ON COLUMN public.kinds.dead_by_day IS 'JSON, day since 1970 (UTC) -> jobs that became dead';

COMMENT ON COLUMN public.kinds.spent IS 'JSON, counter -> {since, amount}: spent in the window that began then';

CREATE TABLE public.leader_fence (
    epoch bigint NOT NULL,
    one boolean DEFAULT true NOT NULL,
    holder uuid,
    holder_addr text,
    holder_peer_addr text,
    hb bigint DEFAULT 0 NOT NULL,
    db_ident text,
    acquired_at timestamp with time zone,
    seen_at timestamp with time zone,
    CONSTRAINT leader_fence_epoch_fits_a_token CHECK (((epoch >= 0) AND (epoch <= 8388607))),
    CONSTRAINT leader_fence_one CHECK (one)
)
WITH (fillfactor='10', vacuum_truncate=off);

COMMENT ON TABLE public.leader_fence IS 'Exactly one row. A takeover raises the epoch; every commit checks it.';

COMMENT ON COLUMN public.leader_fence.epoch IS 'changes only at a takeover';

COMMENT ON COLUMN public.leader_fence.one IS 'there is one row';

COMMENT ON COLUMN public.leader_fence.holder IS 'who leads, random per process start; null: nobody';

COMMENT ON COLUMN public.leader_fence.holder_addr IS 'its public listener';

COMMENT ON COLUMN public.leader_fence.holder_peer_addr IS 'its listener for servers';

COMMENT ON COLUMN public.leader_fence.hb IS 'how often it was renewed or taken over';

COMMENT ON COLUMN public.leader_fence.db_ident IS 'the identity of the database cluster at the takeover';

COMMENT ON COLUMN public.leader_fence.acquired_at IS 'the database''s clock at the takeover, for people, never compared';

COMMENT ON COLUMN public.leader_fence.seen_at IS 'the database''s clock at the newest renewal, for people';

CREATE TABLE public.log_tails (
    job_id uuid NOT NULL,
    token bigint NOT NULL,
    stdout_bytes bigint NOT NULL,
    stdout_tail bytea NOT NULL,
    stderr_bytes bigint NOT NULL,
    stderr_tail bytea NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT log_tails_bytes_not_negative CHECK (((stdout_bytes >= 0) AND (stderr_bytes >= 0)))
);

COMMENT ON TABLE public.log_tails IS 'The end of what executions printed; none of those that printed nothing.';

COMMENT ON COLUMN public.log_tails.job_id IS 'the job';

COMMENT ON COLUMN public.log_tails.token IS 'of the lease of the execution';

COMMENT ON COLUMN public.log_tails.stdout_bytes IS 'how many bytes it printed to standard output';

COMMENT ON COLUMN public.log_tails.stdout_tail IS 'the last of them; any bytes';

COMMENT ON COLUMN public.log_tails.stderr_bytes IS 'how many bytes it printed to standard error';

COMMENT ON COLUMN public.log_tails.stderr_tail IS 'the last of them; any bytes';

COMMENT ON COLUMN public.log_tails.created_at IS 'when it was stored';

CREATE TABLE public.outbox (
    id bigint NOT NULL,
    webhook text NOT NULL COLLATE pg_catalog."C",
    event text NOT NULL,
    subject_id uuid,
    body text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    since_at timestamp with time zone NOT NULL,
    tries bigint NOT NULL,
    next_at timestamp with time zone,
    failed_at timestamp with time zone,
    error text,
    CONSTRAINT outbox_id_from_one CHECK ((id > 0)),
    CONSTRAINT outbox_tries_not_negative CHECK ((tries >= 0)),
    CONSTRAINT outbox_waits_or_failed CHECK (((next_at IS NULL) <> (failed_at IS NULL)))
);

COMMENT ON TABLE public.outbox IS 'What is to be told to webhooks, until it has arrived or was kept for long enough.';

COMMENT ON COLUMN public.outbox.id IS 'epoch << 40 | n, the nth of that epoch; the same over all tries';

COMMENT ON COLUMN public.outbox.webhook IS 'to whom';

COMMENT ON COLUMN public.outbox.event IS 'the type of the event, such as job.succeeded';

COMMENT ON COLUMN public.outbox.subject_id IS 'the job or workflow that ended; null: an operator tries whether it arrives';

COMMENT ON COLUMN public.outbox.body IS 'what is sent, byte for byte: JSON of the subject as it ended, without payload and result';

COMMENT ON COLUMN public.outbox.created_at IS 'when its subject ended';

COMMENT ON COLUMN public.outbox.since_at IS 'from then on it is tried: its making, or an operator wanted it again';

COMMENT ON COLUMN public.outbox.tries IS 'how often it was tried since then';

COMMENT ON COLUMN public.outbox.next_at IS 'it is not tried before; null: it is not tried any more';

COMMENT ON COLUMN public.outbox.failed_at IS 'since when it is not tried any more; null: it waits';

COMMENT ON COLUMN public.outbox.error IS 'why the last try failed, for people; null: it was not tried';

CREATE TABLE public.payloads (
    job_id uuid NOT NULL,
    data bytea NOT NULL,
    content_type text NOT NULL
);

COMMENT ON TABLE public.payloads IS 'The input of a job. Apart from jobs, so that updates of a job never rewrite it.';

COMMENT ON COLUMN public.payloads.job_id IS 'the job';

COMMENT ON COLUMN public.payloads.data IS 'opaque to the server';

COMMENT ON COLUMN public.payloads.content_type IS 'a media type, as the producer said; may be empty';

CREATE TABLE public.tenants (
    name text NOT NULL COLLATE pg_catalog."C",
    weight bigint NOT NULL,
    CONSTRAINT tenants_weight_is_bounded CHECK (((weight >= 1) AND (weight <= 1000)))
);

COMMENT ON TABLE public.tenants IS 'Declared tenants. Any other has the weight 1.';

COMMENT ON COLUMN public.tenants.name IS 'its name';

COMMENT ON COLUMN public.tenants.weight IS 'of two that both have work waiting, twice the weight gets twice as much';

CREATE TABLE public.webhooks (
    name text NOT NULL COLLATE pg_catalog."C",
    policy jsonb NOT NULL,
    gone_at timestamp with time zone
);

COMMENT ON TABLE public.webhooks IS 'Declared webhooks: who is told when a job or a workflow ends.';

COMMENT ON COLUMN public.webhooks.name IS 'its name';

COMMENT ON COLUMN public.webhooks.policy IS 'JSON, as in the fleet file: where to, the name of the secret, which ends of what; never the secret';

COMMENT ON COLUMN public.webhooks.gone_at IS 'since when its receiver says that it is gone (410); null: it is there';

INSERT INTO public._sqlx_migrations (version, description, installed_on, success, checksum, execution_time) VALUES (1, 'create_jobs', '2026-12-01 04:03:52.229436+00', true, '\x49fdba08c0679199061de7833a7b44941acae0d7442bfb840c554bcc7a1ea251bf73419fd1594d7adaf46fc7efec7728', 31397271);
INSERT INTO public._sqlx_migrations (version, description, installed_on, success, checksum, execution_time) VALUES (2, 'create_leases', '2026-12-01 04:03:52.264889+00', true, '\x45b4ff949c5a94314b2d18e0efeb10f9d6fc785d0243c7aa7ef9094b8d569f615e3742b1cddb432b92dd041c13460e17', 3764402);
INSERT INTO public._sqlx_migrations (version, description, installed_on, success, checksum, execution_time) VALUES (3, 'create_fleet', '2026-12-01 04:03:52.26904+00', true, '\x5e52b888b9d0a71c1850123e9dd927d4b54e94d01724e9c535cf924f2242217705adb421215d8013fc19fda0c1769b2e', 23418654);
INSERT INTO public._sqlx_migrations (version, description, installed_on, success, checksum, execution_time) VALUES (4, 'create_leader_fence', '2026-12-01 04:03:52.292922+00', true, '\xfea7041a6bbe7fdf8e8c76df4b4032e3650c098c1aae75664f54a47cde4c80e53bcf9d5e22838d091c80ba1f7bcb617b', 6976865);
INSERT INTO public._sqlx_migrations (version, description, installed_on, success, checksum, execution_time) VALUES (5, 'create_invariants', '2026-12-01 04:03:52.300208+00', true, '\x39c52b23a3ab077d5f457a9148765b7e5f011dc2d28d44f6daf7c6d0b51fee6c939260d11c8f414fa07c9269b5555c3e', 26741025);
INSERT INTO public._sqlx_migrations (version, description, installed_on, success, checksum, execution_time) VALUES (6, 'mark_orphaned_leases', '2026-12-01 04:03:52.327444+00', true, '\x9bfd13398fdee041baf3a62b991fdf0fd9bc1fa2278e12cc94011e31166b108b37ad1d062d7ae6a05bf4daf4f85c6a07', 1202201);
INSERT INTO public._sqlx_migrations (version, description, installed_on, success, checksum, execution_time) VALUES (7, 'add_tracestate', '2026-12-01 04:03:52.328972+00', true, '\x8e7ef4bb84a67e0d1f023ef8f95e6d5d9279e1a6c455b28f07f96d6850971e74063e1134bb2339e60bd80252b72c4a2e', 1202680);
INSERT INTO public._sqlx_migrations (version, description, installed_on, success, checksum, execution_time) VALUES (8, 'add_slot_rates', '2026-12-01 04:03:52.330427+00', true, '\x8143c80452f42483e37e7272cbae2310c1fb57ac0bc0344dd9aa24b9f3d832e290d2b9e06058cb48ad4ca8572054f057', 6287656);
INSERT INTO public._sqlx_migrations (version, description, installed_on, success, checksum, execution_time) VALUES (9, 'add_child_waits', '2026-12-01 04:03:52.33729+00', true, '\x06b53bf8ccdc1c0e9c3839221c0e942acefe5b69c3a49be17687fb3144d3109c25245c5ba89a0cbc636c373bcdfbd355', 7501728);
INSERT INTO public._sqlx_migrations (version, description, installed_on, success, checksum, execution_time) VALUES (10, 'name_tenant_of_leases', '2026-12-01 04:03:52.34507+00', true, '\xb5da171eac79707bc02254aecdfb539d299c4db854681db817726316346a9b5153b62e67e8d22dbad4eeb74c9c402803', 7488407);
INSERT INTO public._sqlx_migrations (version, description, installed_on, success, checksum, execution_time) VALUES (11, 'create_tenants', '2026-12-01 04:03:52.352886+00', true, '\x463772c1ebd80f1338c4eb0aa88063d91bd9ea8a989c3b917c5db2c139ed2f34924acaf75e236f8379248554e8a758b0', 2385502);
INSERT INTO public._sqlx_migrations (version, description, installed_on, success, checksum, execution_time) VALUES (12, 'throttle_slots', '2026-12-01 04:03:52.355551+00', true, '\x0901624ea5151ed4eff49540bddd71efdbf428a098a094d757a7ed700a2aec685c78e7ecb6e3714d9a75bae79974dc71', 1842158);
INSERT INTO public._sqlx_migrations (version, description, installed_on, success, checksum, execution_time) VALUES (13, 'add_budgets', '2026-12-01 04:03:52.357638+00', true, '\x367781c0c4055f2a2a34d024c0d298eeafb7c955e131e40f93b28e26c67d899b255deaea031995955bb480cc5a44afee', 10875897);
INSERT INTO public._sqlx_migrations (version, description, installed_on, success, checksum, execution_time) VALUES (14, 'add_concurrency_keys', '2026-12-01 04:03:52.368712+00', true, '\xa2c73a6bc80a0afcb99cf86e5ee97149b860f7dce4dc746984e6690880e31ff2982d8dc650455b43858cc549fc7ce822', 658889);
INSERT INTO public._sqlx_migrations (version, description, installed_on, success, checksum, execution_time) VALUES (15, 'add_parked_leases', '2026-12-01 04:03:52.369456+00', true, '\x65fccfb2fbbfe740ace08dc635335b5c4a0c7d736f2103893f5711e11330135a3a881ce9de127715f5f636bc2c6b7a09', 8629878);
INSERT INTO public._sqlx_migrations (version, description, installed_on, success, checksum, execution_time) VALUES (16, 'add_partial_results', '2026-12-01 04:03:52.37827+00', true, '\x418d8603c6b96bd1bd39fe95f1efdeef08a895bb69e9c04c974952b5860903702505562c208257a61d725b9d9a932030', 11019434);
INSERT INTO public._sqlx_migrations (version, description, installed_on, success, checksum, execution_time) VALUES (17, 'create_workflows', '2026-12-01 04:03:52.389434+00', true, '\x04a36de04ddab387d1bf4c4c1bd8067e015040971f7a8f398fc5266657088c1c20607724ced2b3209d7edc1d72809ef2', 10947723);
INSERT INTO public._sqlx_migrations (version, description, installed_on, success, checksum, execution_time) VALUES (18, 'create_crons', '2026-12-01 04:03:52.401053+00', true, '\x762ebc7e3430ca910b4214c68c48bb5a32df362f83f590bda455fdca1a607257743e2ca703517bfcbbe90aed703155b9', 11755455);
INSERT INTO public._sqlx_migrations (version, description, installed_on, success, checksum, execution_time) VALUES (19, 'create_outbox', '2026-12-01 04:03:52.41311+00', true, '\xe273280c65c4d5628b2ab20b74b9c2a79e7b4f9bb74388a996fc9c0fffd49dcc521617cbaf67b3f1fc8de527390180ac', 8497800);
INSERT INTO public._sqlx_migrations (version, description, installed_on, success, checksum, execution_time) VALUES (20, 'add_result_objects', '2026-12-01 04:03:52.424909+00', true, '\x7dc16593a29ddc27a26fb956612b2de6947d0fc645f158d92bed19c8e81f9781f10c1e306da11d66fc53e61a6359a933', 1853590);
INSERT INTO public._sqlx_migrations (version, description, installed_on, success, checksum, execution_time) VALUES (21, 'create_log_tails', '2026-12-01 04:03:52.426946+00', true, '\x35f99c645985cb573d707db13697ba34b705c7f4babf58ab72709d56838c535c50ae05aad6f6234fb8812bf5240f7971', 5600994);
INSERT INTO public._sqlx_migrations (version, description, installed_on, success, checksum, execution_time) VALUES (22, 'create_inbox', '2026-12-01 04:03:52.432866+00', true, '\xb32318caee1616de63b834c4852da80ad1a869db704154c6f6efae8ec8c49757fc5a1af9ffefb06c21cc8b778828f772', 10889710);

INSERT INTO public.attempts (job_id, token, attempt, round, node, outcome, cause, error, exit_code, granted_at, started_at, ended_at, detached, usage, partial, checkpoint_size) VALUES ('01a22fc5-f7eb-7492-960e-36ae0f9bd2de', 1099511627781, 1, 1, 'n1', 'succeeded', 'exit', '', 0, '2026-12-01 04:03:53.112182+00', '2026-12-01 04:03:53.344922+00', '2026-12-01 04:03:53.445919+00', false, '{"tokens": 12}', false, NULL);
INSERT INTO public.attempts (job_id, token, attempt, round, node, outcome, cause, error, exit_code, granted_at, started_at, ended_at, detached, usage, partial, checkpoint_size) VALUES ('01a22fc5-f7eb-7492-960e-36acd785efac', 1099511627779, 1, 1, 'n1', 'succeeded', 'exit', '', 0, '2026-12-01 04:03:53.037758+00', '2026-12-01 04:03:53.344916+00', '2026-12-01 04:03:54.294121+00', false, NULL, true, NULL);
INSERT INTO public.attempts (job_id, token, attempt, round, node, outcome, cause, error, exit_code, granted_at, started_at, ended_at, detached, usage, partial, checkpoint_size) VALUES ('01a22fc5-fd4e-711e-9f97-808ef67ec904', 1099511627782, 1, 1, 'n1', 'failed_retryable', 'exit', 'exited with code 3', 3, '2026-12-01 04:03:54.320061+00', '2026-12-01 04:03:54.421486+00', '2026-12-01 04:03:54.428474+00', false, NULL, false, NULL);
INSERT INTO public.attempts (job_id, token, attempt, round, node, outcome, cause, error, exit_code, granted_at, started_at, ended_at, detached, usage, partial, checkpoint_size) VALUES ('01a22fc6-04fe-7317-9614-2b2e11353ff3', 1099511627787, 1, 1, 'n1', 'returned', 'detach', '', 79, '2026-12-01 04:03:56.288762+00', '2026-12-01 04:03:56.383469+00', '2026-12-01 04:03:56.688612+00', true, NULL, false, NULL);

INSERT INTO public.checkpoints (job_id, token, data, created_at) VALUES ('01a22fc6-01fb-755f-b067-bea290f6ea2c', 1099511627786, '\x4c696e75780a', '2026-12-01 04:03:56.040201+00');

INSERT INTO public.classes (class, timeline) VALUES ('tick|||default', '[{"since": 1796097833004893, "tries": 1, "reason": "no_matching_node", "message": "no node runs this kind", "duration_us": 671501}]');
INSERT INTO public.classes (class, timeline) VALUES ('licensed|license:1||default', '[{"since": 1796097836144026, "tries": 1, "reason": "slot_busy", "message": "slot license 1/1", "duration_us": 537301}]');
INSERT INTO public.classes (class, timeline) VALUES ('keyed|||default', '[{"since": 1796097836180798, "tries": 1, "reason": "concurrency_key", "message": "1 with key 4711 runs", "duration_us": 500533}]');
INSERT INTO public.classes (class, timeline) VALUES ('costly|||default', '[{"since": 1796097836202998, "tries": 1, "reason": "budget", "message": "budget of tokens spent", "duration_us": 478333}]');
INSERT INTO public.classes (class, timeline) VALUES ('held|||default', '[{"since": 1796097836240961, "tries": 1, "reason": "kind_paused", "message": "kind paused", "duration_us": 440366}]');

INSERT INTO public.crons (name, policy, last_instant, paused_by, paused_at, fired, missed, last_fired, recent) VALUES ('every-second', '{"kind": "tick", "when": "* * * * * *", "zone": "UTC", "needs": null, "labels": {}, "missed": "skip", "tenant": "default", "payload": "", "priority": null, "selector": {}, "jitter_us": 0, "singleton": false, "content_type": "application/octet-stream", "stale_after_us": null, "concurrency_key": null, "hard_time_limit_us": null}', '2026-12-01 04:03:57+00', 'local', '2026-12-01 04:03:57.394584+00', 5, 0, '{"at": 1796097837001862, "job": "01a22fc6-07c9-743f-800c-557d78bfeafc", "instant": 1796097837000000}', '[]');

INSERT INTO public.inbox (seq, role, inserted_at, job_id, kind, payload, content_type, dedupe_key, tenant, priority, run_at, delay_ms, stale_after_ms, labels, selector, needs, concurrency_key, hard_time_limit_ms, soft_time_limit_ms, traceparent) OVERRIDING SYSTEM VALUE VALUES (2, 'postgres', '2026-12-01 04:03:57.421143+00', '01a22fc6-096d-7daf-994d-f2b33ab9c2eb', 'rejecting', '\x', '', NULL, NULL, NULL, NULL, NULL, NULL, '{"ends": "succeeded"}', NULL, NULL, NULL, NULL, NULL, NULL);

INSERT INTO public.inbox_refusals (seq, role, producer, inserted_at, refused_at, job_id, kind, dedupe_key, reason, message, entry) VALUES (1, 'postgres', 'db:postgres', '2026-12-01 04:03:57.420199+00', '2026-12-01 04:03:57.428558+00', '01a22fc6-096b-74a1-8755-13ae0473e56f', 'nobody', NULL, 'KIND_NOT_FOUND', 'kind nobody is not declared', NULL);

INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) VALUES ('01a22fc5-f82c-784f-8009-854797775b8b', 1099511627779, 'default', 'cron:every-second', 'tick', 'queued', 1, 0, NULL, '{}', '{"cron.instant": "2026-12-01T04:03:53Z"}', NULL, false, '\x01a22fc5f82c784f8009854797775b8bfe5dd03a07d387b07ff67ab86888a474', NULL, NULL, '01a22fc5-f82c-784f-8009-854797775b8b', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, false, '2026-12-01 04:03:53.004893+00', NULL, NULL, '[]', NULL, NULL, '2026-12-01 04:03:53.004893+00', NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) VALUES ('01a22fc5-f7eb-7492-960e-36aa3abeaa30', 1099511627777, 'acme', 'local', 'task', 'succeeded', 5, 0, NULL, '{}', '{"ends": "succeeded", "left": "text"}', 'the-key', true, '\x8ed3c4a733a55d0ec232cd6fc680f1cd59190e71c1f999f94b0335f13f9ff077', NULL, NULL, '01a22fc5-f7eb-7492-960e-36aa3abeaa30', 0, 0, NULL, 28, 1, 0, 0, 0, 0, 1099511627777, 'succeeded', 'n1', '2026-12-01 04:03:52.945524+00', '2026-12-01 04:03:53.101054+00', false, '2026-12-01 04:03:52.945524+00', NULL, NULL, '[]', NULL, NULL, NULL, '2026-12-01 04:03:53.189565+00', NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) VALUES ('01a22fc5-f7eb-7492-960e-36ab5dc5c3db', 1099511627778, 'default', 'local', 'task', 'succeeded', 5, 0, NULL, '{}', '{"ends": "succeeded", "left": "pile"}', NULL, false, '\xb098712ebbfa9bb7cb901b8e8c84aedf4ea6d09c3434dbcb5102b7b0617c5ced', NULL, NULL, '01a22fc5-f7eb-7492-960e-36ab5dc5c3db', 0, 0, NULL, 12, 1, 0, 0, 0, 0, 1099511627778, 'succeeded', 'n1', '2026-12-01 04:03:52.977288+00', '2026-12-01 04:03:53.101082+00', false, '2026-12-01 04:03:52.977288+00', NULL, NULL, '[]', NULL, NULL, NULL, '2026-12-01 04:03:53.345022+00', NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) VALUES ('01a22fc5-f7eb-7492-960e-36adb7ec91b2', 1099511627781, 'default', 'local', 'task', 'succeeded', 5, 0, NULL, '{}', '{"ends": "succeeded"}', NULL, false, '\xbcbe03f59c5a0896f14b3a8c34f8a4fcf22ed7c75d2cc9694226506e4bafed03', NULL, NULL, '01a22fc5-f7eb-7492-960e-36adb7ec91b2', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 1099511627780, 'succeeded', 'n1', '2026-12-01 04:03:53.062814+00', '2026-12-01 04:03:53.344948+00', false, '2026-12-01 04:03:53.062814+00', NULL, NULL, '[]', NULL, NULL, NULL, '2026-12-01 04:03:53.345022+00', NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) VALUES ('01a22fc5-f7eb-7492-960e-36ae0f9bd2de', 1099511627782, 'default', 'local', 'costly', 'succeeded', 5, 0, NULL, '{}', '{"ends": "succeeded"}', NULL, false, '\xa136c571ddb0cc46c95f607683313535f39e94f02dfde6107cf5a72738ca5c37', NULL, NULL, '01a22fc5-f7eb-7492-960e-36ae0f9bd2de', 0, 0, NULL, 24, 1, 0, 0, 0, 0, 1099511627781, 'succeeded', 'n1', '2026-12-01 04:03:53.112182+00', '2026-12-01 04:03:53.344922+00', false, '2026-12-01 04:03:53.112182+00', NULL, NULL, '[]', NULL, NULL, NULL, '2026-12-01 04:03:53.445919+00', NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) VALUES ('01a22fc5-fc12-7b94-8000-83aa31091a4e', 1099511627783, 'default', 'cron:every-second', 'tick', 'queued', 1, 0, NULL, '{}', '{"cron.instant": "2026-12-01T04:03:54Z"}', NULL, false, '\x01a22fc5fc127b94800083aa31091a4efe5dd03a03ed846b7fff7c55cef6e5b1', NULL, NULL, '01a22fc5-fc12-7b94-8000-83aa31091a4e', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, false, '2026-12-01 04:03:54.002718+00', NULL, NULL, '[]', NULL, NULL, '2026-12-01 04:03:54.002718+00', NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) VALUES ('01a22fc5-f7eb-7492-960e-36acd785efac', 1099511627780, 'default', 'local', 'task', 'succeeded', 5, 0, NULL, '{}', '{"ends": "succeeded", "left": "text"}', NULL, false, '\xae4103a90a665e650961a2b4e54dd8e3e3e1ae678e4bf5056e8ff634547bfb66', NULL, NULL, '01a22fc5-f7eb-7492-960e-36acd785efac', 0, 0, NULL, 25, 1, 0, 0, 0, 0, 1099511627779, 'succeeded', 'n1', '2026-12-01 04:03:53.037758+00', '2026-12-01 04:03:53.344916+00', false, '2026-12-01 04:03:53.037758+00', NULL, 'its result is partial: it had been asked to wrap up', '[]', NULL, NULL, NULL, '2026-12-01 04:03:54.294121+00', NULL, 'cancel', 'keep', NULL, NULL, NULL, 1000000, NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) VALUES ('01a22fc5-fd4e-711e-9f97-808ef67ec904', 1099511627784, 'default', 'local', 'task', 'dead', 5, 0, NULL, '{}', '{"ends": "dead"}', NULL, false, '\x5ec7f89a369f5fe30522657d117185b98008c247b5671106d2263604b7ed112e', NULL, NULL, '01a22fc5-fd4e-711e-9f97-808ef67ec904', 0, 0, NULL, 7, 1, 1, 0, 0, 0, 1099511627782, 'failed_retryable', 'n1', '2026-12-01 04:03:54.320061+00', '2026-12-01 04:03:54.421486+00', false, '2026-12-01 04:03:54.320061+00', NULL, 'exited with code 3', '[]', NULL, NULL, NULL, '2026-12-01 04:03:54.428474+00', NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) VALUES ('01a22fc5-fdd5-71c2-ae42-fad7109fb9bc', 1099511627785, 'default', 'local', 'task', 'cancelled', 3, 0, NULL, '{}', '{"ends": "cancelled"}', NULL, false, '\xbcbe03f59c5a0896f14b3a8c34f8a4fcf22ed7c75d2cc9694226506e4bafed03', NULL, NULL, '01a22fc5-fdd5-71c2-ae42-fad7109fb9bc', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, false, '2026-12-01 04:03:54.45529+00', NULL, 'not needed', '[{"count": 1, "reason": "run_at", "message": "start time", "duration_us": 12129}]', NULL, NULL, NULL, '2026-12-01 04:03:54.467418+00', NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) VALUES ('01a22fc5-fffb-749c-8007-f538a52c8010', 1099511627787, 'default', 'cron:every-second', 'tick', 'queued', 1, 0, NULL, '{}', '{"cron.instant": "2026-12-01T04:03:55Z"}', NULL, false, '\x01a22fc5fffb749c8007f538a52c8010fe5dd03a00048b637ff80ac75ad37fef', NULL, NULL, '01a22fc5-fffb-749c-8007-f538a52c8010', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, false, '2026-12-01 04:03:55.003653+00', NULL, NULL, '[]', NULL, NULL, '2026-12-01 04:03:55.003653+00', NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) VALUES ('01a22fc5-fdee-76fa-9157-105d5d2a471e', 1099511627786, 'default', 'local', 'held', 'expired', 3, 0, NULL, '{}', '{"ends": "expired"}', NULL, false, '\x06b8e4420f391fa4716876cd18d9526be4ef4ed4d7ad337391ee36d2a9d4f23e', NULL, NULL, '01a22fc5-fdee-76fa-9157-105d5d2a471e', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, false, '2026-12-01 04:03:54.479933+00', '2026-12-01 04:03:55.479933+00', 'not started within its stale_after', '[{"count": 1, "reason": "kind_paused", "message": "kind paused", "duration_us": 1004543}]', NULL, NULL, NULL, '2026-12-01 04:03:55.48448+00', NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) VALUES ('01a22fc6-01fb-755f-b067-be9f765ebfe8', 1099511627788, 'acme', 'local', 'task', 'running', 3, 30, NULL, '{"zone": "a"}', '{"ends": "succeeded"}', NULL, false, '\x991e7128aa81a01437570cccdf91796fdc82bd31b90b1e8323daf420dde7090d', NULL, NULL, '01a22fc6-01fb-755f-b067-be9f765ebfe8', 0, 0, NULL, 8, 1, 0, 0, 0, 0, 1099511627783, NULL, 'n1', '2026-12-01 04:03:55.517364+00', NULL, false, '2026-12-01 04:03:55.517364+00', NULL, NULL, '[]', NULL, NULL, NULL, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) VALUES ('01a22fc6-01fb-755f-b067-bea0c6475d9f', 1099511627789, 'default', 'local', 'licensed', 'running', 3, 0, NULL, '{}', '{"ends": "succeeded"}', NULL, false, '\x9d327fb21569533342246ab72cbd944e5a295097408f17349e9dfea40884391e', NULL, NULL, '01a22fc6-01fb-755f-b067-bea0c6475d9f', 0, 0, NULL, 8, 1, 0, 0, 0, 0, 1099511627784, NULL, 'n1', '2026-12-01 04:03:55.623862+00', NULL, false, '2026-12-01 04:03:55.623862+00', NULL, NULL, '[]', NULL, NULL, NULL, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) VALUES ('01a22fc6-01fb-755f-b067-bea127086167', 1099511627790, 'default', 'local', 'keyed', 'running', 3, 0, NULL, '{}', '{"ends": "succeeded"}', NULL, false, '\xf03e5c6e8efd21711b54a6e80c732983651659114ef7115c1c691de225910ef5', NULL, NULL, '01a22fc6-01fb-755f-b067-bea127086167', 0, 0, NULL, 8, 1, 0, 0, 0, 0, 1099511627785, NULL, 'n1', '2026-12-01 04:03:55.721931+00', NULL, false, '2026-12-01 04:03:55.721931+00', NULL, NULL, '[]', NULL, NULL, NULL, NULL, NULL, 'cancel', 'keep', NULL, NULL, '4711', NULL, NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) VALUES ('01a22fc6-01fb-755f-b067-bea290f6ea2c', 1099511627791, 'default', 'local', 'task', 'running', 3, 0, NULL, '{}', '{"was": "checkpoint", "ends": "succeeded"}', NULL, false, '\xcac713ac3813928826e810842f9471f0426d92a074f4cc53d2f324046b7f6a2e', NULL, NULL, '01a22fc6-01fb-755f-b067-bea290f6ea2c', 0, 0, NULL, 61, 1, 0, 0, 0, 0, 1099511627786, NULL, 'n1', '2026-12-01 04:03:55.844411+00', NULL, false, '2026-12-01 04:03:55.844411+00', NULL, NULL, '[]', NULL, NULL, NULL, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) VALUES ('01a22fc6-03e4-74a6-8006-7216a92ae8b5', 1099511627792, 'default', 'cron:every-second', 'tick', 'queued', 1, 0, NULL, '{}', '{"cron.instant": "2026-12-01T04:03:56Z"}', NULL, false, '\x01a22fc603e474a680067216a92ae8b5fe5dd039fc1b8b597ff98de956d5174a', NULL, NULL, '01a22fc6-03e4-74a6-8006-7216a92ae8b5', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, false, '2026-12-01 04:03:56.004515+00', NULL, NULL, '[]', NULL, NULL, '2026-12-01 04:03:56.004515+00', NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) VALUES ('01a22fc6-044f-7123-8962-53401e21d0dc', 1099511627793, 'default', 'local', 'licensed', 'queued', 1, 0, NULL, '{}', '{"ends": "succeeded"}', NULL, false, '\xc6ebfe4002c5883acbfd0441f5b9269a571944503c651d97cc6cc0aff5a5a74e', NULL, NULL, '01a22fc6-044f-7123-8962-53401e21d0dc', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, false, '2026-12-01 04:03:56.144026+00', NULL, NULL, '[]', NULL, NULL, '2026-12-01 04:03:56.144026+00', NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) VALUES ('01a22fc6-044f-7123-8962-5341cac1f1c5', 1099511627794, 'default', 'local', 'keyed', 'queued', 1, 0, NULL, '{}', '{"ends": "succeeded"}', NULL, false, '\x419f6e1f581d8fca2c73a681d336d30f360c33785c71d7b9fd524663c675d9f1', NULL, NULL, '01a22fc6-044f-7123-8962-5341cac1f1c5', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, false, '2026-12-01 04:03:56.180798+00', NULL, NULL, '[]', NULL, NULL, '2026-12-01 04:03:56.180798+00', NULL, NULL, 'cancel', 'keep', NULL, NULL, '4711', NULL, NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) VALUES ('01a22fc6-044f-7123-8962-53429d7341c7', 1099511627795, 'default', 'local', 'costly', 'queued', 1, 0, NULL, '{}', '{"ends": "succeeded"}', NULL, false, '\x418633d9b4826734d44a86a259280754d51d80357e77ec5de39ad5ea45f1b882', NULL, NULL, '01a22fc6-044f-7123-8962-53429d7341c7', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, false, '2026-12-01 04:03:56.202998+00', NULL, NULL, '[]', NULL, NULL, '2026-12-01 04:03:56.202998+00', NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) VALUES ('01a22fc6-044f-7123-8962-5343fb8e9bd4', 1099511627796, 'default', 'local', 'held', 'queued', 1, 0, NULL, '{}', '{"ends": "succeeded"}', 'waits', true, '\x4e72d7f51a2c3462e504d13d8ff7e20d3da6896c41e2136e136010f91bbbe71c', NULL, NULL, '01a22fc6-044f-7123-8962-5343fb8e9bd4', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, false, '2026-12-01 04:03:56.240961+00', NULL, NULL, '[]', NULL, NULL, '2026-12-01 04:03:56.240961+00', NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) VALUES ('01a22fc6-044f-7123-8962-534403047f86', 1099511627797, 'default', 'local', 'task', 'scheduled', 1, 0, NULL, '{}', '{"ends": "scheduled"}', NULL, false, '\xbcbe03f59c5a0896f14b3a8c34f8a4fcf22ed7c75d2cc9694226506e4bafed03', NULL, NULL, '01a22fc6-044f-7123-8962-534403047f86', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, false, '2026-12-01 04:03:56.273297+00', NULL, NULL, '[]', '2036-11-28 04:03:56.273297+00', 'run_at', NULL, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) VALUES ('01a22fc6-04fe-74c9-a1e3-f5590d419c7e', 1099511627800, 'default', 'local', 'task', 'running', 3, 1, NULL, '{}', '{}', NULL, false, '\x16ff17cf8a8c185362a7f2c7dd03ae0a1c471b3588073b3352a2a5fc1936189a', NULL, '01a22fc6-04fe-7317-9614-2b2e11353ff3', '01a22fc6-04fe-7317-9614-2b2e11353ff3', 1, 0, NULL, 7, 1, 0, 0, 0, 0, 1099511627789, NULL, 'n1', '2026-12-01 04:03:56.587109+00', NULL, false, '2026-12-01 04:03:56.587109+00', NULL, NULL, '[]', NULL, NULL, NULL, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) VALUES ('01a22fc6-04fe-7e6f-834f-198f350752d4', 1099511627799, 'default', 'local', 'task', 'running', 3, 1, NULL, '{}', '{}', NULL, false, '\x16ff17cf8a8c185362a7f2c7dd03ae0a1c471b3588073b3352a2a5fc1936189a', NULL, '01a22fc6-04fe-7317-9614-2b2e11353ff3', '01a22fc6-04fe-7317-9614-2b2e11353ff3', 1, 0, NULL, 7, 1, 0, 0, 0, 0, 1099511627788, NULL, 'n1', '2026-12-01 04:03:56.587109+00', NULL, false, '2026-12-01 04:03:56.587109+00', NULL, NULL, '[]', NULL, NULL, NULL, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) VALUES ('01a22fc6-04fe-7317-9614-2b2e11353ff3', 1099511627798, 'default', 'local', 'parent', 'waiting', 7, 0, NULL, '{}', '{"ends": "succeeded"}', NULL, false, '\x69c3dd2d1155083547307b4723d1deb2334a52ce776d02a2aa10c5b21a047437', NULL, NULL, '01a22fc6-04fe-7317-9614-2b2e11353ff3', 0, 2, NULL, 22, 1, 0, 0, 0, 0, 1099511627787, NULL, 'n1', '2026-12-01 04:03:56.288762+00', '2026-12-01 04:03:56.383469+00', false, '2026-12-01 04:03:56.288762+00', NULL, NULL, '[]', NULL, NULL, NULL, NULL, NULL, 'cancel', 'keep', '2026-12-01 04:03:56.688612+00', '{"wait": {"until": null, "policy": "all", "children": [["01a22fc6-04fe-7e6f-834f-198f350752d4", null], ["01a22fc6-04fe-74c9-a1e3-f5590d419c7e", null]]}, "token": 1099511627787, "has_state": true, "same_node": false}', NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) VALUES ('01a22fc6-07c9-743f-800c-557d78bfeafc', 1099511627802, 'default', 'cron:every-second', 'tick', 'queued', 1, 0, NULL, '{}', '{"cron.instant": "2026-12-01T04:03:57Z"}', NULL, false, '\x01a22fc607c9743f800c557d78bfeafcfe5dd039f8368bc07ff3aa8287401503', NULL, NULL, '01a22fc6-07c9-743f-800c-557d78bfeafc', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, false, '2026-12-01 04:03:57.001862+00', NULL, NULL, '[]', NULL, NULL, '2026-12-01 04:03:57.001862+00', NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) VALUES ('01a22fc6-06d1-7eda-ae35-5b7326f819be', 1099511627803, 'default', 'local', 'task', 'running', 3, 1, NULL, '{}', '{}', NULL, false, '\x16ff17cf8a8c185362a7f2c7dd03ae0a1c471b3588073b3352a2a5fc1936189a', NULL, '01a22fc6-06d1-738f-b680-e026b86f0ac1', '01a22fc6-06d1-738f-b680-e026b86f0ac1', 1, 0, NULL, 7, 1, 0, 0, 0, 0, 1099511627791, NULL, 'n1', '2026-12-01 04:03:57.013349+00', NULL, false, '2026-12-01 04:03:57.013349+00', NULL, NULL, '[]', NULL, NULL, NULL, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) VALUES ('01a22fc6-06d1-7290-8373-f7d72f21212e', 1099511627804, 'default', 'local', 'task', 'running', 3, 1, NULL, '{}', '{}', NULL, false, '\x16ff17cf8a8c185362a7f2c7dd03ae0a1c471b3588073b3352a2a5fc1936189a', NULL, '01a22fc6-06d1-738f-b680-e026b86f0ac1', '01a22fc6-06d1-738f-b680-e026b86f0ac1', 1, 0, NULL, 7, 1, 0, 0, 0, 0, 1099511627792, NULL, 'n1', '2026-12-01 04:03:57.031368+00', NULL, false, '2026-12-01 04:03:57.031368+00', NULL, NULL, '[]', NULL, NULL, NULL, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) VALUES ('01a22fc6-06d1-738f-b680-e026b86f0ac1', 1099511627801, 'default', 'local', 'parent', 'waiting', 6, 0, NULL, '{}', '{"ends": "succeeded"}', NULL, false, '\x2eae752bea3fd35fe1b30a75580f45fe05744d8ccf7d77144b9581f2945641d5', NULL, NULL, '01a22fc6-06d1-738f-b680-e026b86f0ac1', 0, 2, NULL, 20, 1, 0, 0, 0, 0, 1099511627790, NULL, 'n1', '2026-12-01 04:03:56.755389+00', NULL, false, '2026-12-01 04:03:56.755389+00', NULL, NULL, '[]', NULL, NULL, NULL, NULL, NULL, 'cancel', 'keep', '2026-12-01 04:03:57.127553+00', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) VALUES ('01a22fc6-086d-7773-8001-2a379b71669a', 1099511627806, 'default', 'local', 'task', 'running', 3, 0, NULL, '{}', '{"ends": "succeeded"}', NULL, false, '\x991e7128aa81a01437570cccdf91796fdc82bd31b90b1e8323daf420dde7090d', NULL, NULL, '01a22fc6-086d-7773-8001-2a379b71669a', 0, 0, NULL, 8, 1, 0, 0, 0, 0, 1099511627794, NULL, 'n1', '2026-12-01 04:03:57.167382+00', NULL, false, '2026-12-01 04:03:57.167382+00', NULL, NULL, '[]', NULL, NULL, NULL, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, '01a22fc6-086d-7109-88d3-27d987427628', 1, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) VALUES ('01a22fc6-086d-7773-8000-2a379b71669a', 1099511627805, 'default', 'local', 'task', 'succeeded', 5, 0, NULL, '{}', '{"ends": "succeeded"}', NULL, false, '\xe8d2ebdc9e48c056ef210b18a7a9dc9633edd55126309e88ba903ec91678ad70', NULL, NULL, '01a22fc6-086d-7773-8000-2a379b71669a', 0, 0, NULL, 28, 1, 0, 0, 0, 0, 1099511627793, 'succeeded', 'n1', '2026-12-01 04:03:57.167382+00', '2026-12-01 04:03:57.339415+00', false, '2026-12-01 04:03:57.167382+00', NULL, NULL, '[]', NULL, NULL, NULL, '2026-12-01 04:03:57.342474+00', NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, '01a22fc6-086d-7109-88d3-27d987427628', 0, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) VALUES ('01a22fc6-086d-7773-8002-2a379b71669a', 1099511627807, 'default', 'local', 'task', 'blocked', 1, 0, NULL, '{}', '{"ends": "succeeded"}', NULL, false, '\x86d55435d18b30ab4454287bbae22a86a186000cd72e5f97ad5fcaced0e7a560', NULL, NULL, '01a22fc6-086d-7773-8002-2a379b71669a', 0, 0, NULL, 7, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, false, '2026-12-01 04:03:57.167382+00', NULL, NULL, '[]', NULL, NULL, NULL, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, '01a22fc6-086d-7109-88d3-27d987427628', 2, '2026-12-01 04:03:57.167382+00');
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) VALUES ('01a22fc6-086d-7773-8003-2a379b71669a', 1099511627808, 'default', 'local', 'task', 'blocked', 1, 0, NULL, '{}', '{"ends": "succeeded"}', NULL, false, '\xbcbe03f59c5a0896f14b3a8c34f8a4fcf22ed7c75d2cc9694226506e4bafed03', NULL, NULL, '01a22fc6-086d-7773-8003-2a379b71669a', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, false, '2026-12-01 04:03:57.167382+00', NULL, NULL, '[]', NULL, NULL, NULL, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, '01a22fc6-086d-7109-88d3-27d987427628', 3, '2026-12-01 04:03:57.167382+00');

INSERT INTO public.kinds (name, policy, paused, dead_by_day, spent) VALUES ('keyed', '{"fifo": false, "needs": {}, "retry": {"exponential": {"max_us": 3600000000, "initial_us": 10000000, "factor_permille": 3000, "jitter_permille": 200}}, "budget": null, "dedupe": "retained", "prefer": [], "lease_us": 10000000, "priority": 0, "selector": {}, "placement": "pack", "queue_cap": null, "max_losses": 5, "concurrency": {"key": "account", "limit": 1}, "max_running": null, "keep_on_wait": [], "max_failures": 3, "node_backoff": true, "retention_us": 315360000000000, "result_ttl_us": 315360000000000, "stale_after_us": null, "reserve_after_us": 30000000, "hard_time_limit_us": 3600000000, "soft_time_limit_us": null, "progress_timeout_us": null, "permanent_exit_codes": [64, 65, 66, 77, 78], "reacquire_timeout_us": 300000000}', NULL, '{}', NULL);
INSERT INTO public.kinds (name, policy, paused, dead_by_day, spent) VALUES ('licensed', '{"fifo": false, "needs": {"license": 1}, "retry": {"exponential": {"max_us": 3600000000, "initial_us": 10000000, "factor_permille": 3000, "jitter_permille": 200}}, "budget": null, "dedupe": "retained", "prefer": [], "lease_us": 10000000, "priority": 0, "selector": {}, "placement": "pack", "queue_cap": null, "max_losses": 5, "concurrency": null, "max_running": null, "keep_on_wait": [], "max_failures": 3, "node_backoff": true, "retention_us": 315360000000000, "result_ttl_us": 315360000000000, "stale_after_us": null, "reserve_after_us": 30000000, "hard_time_limit_us": 3600000000, "soft_time_limit_us": null, "progress_timeout_us": null, "permanent_exit_codes": [64, 65, 66, 77, 78], "reacquire_timeout_us": 300000000}', NULL, '{}', NULL);
INSERT INTO public.kinds (name, policy, paused, dead_by_day, spent) VALUES ('costly', '{"fifo": false, "needs": {}, "retry": {"exponential": {"max_us": 3600000000, "initial_us": 10000000, "factor_permille": 3000, "jitter_permille": 200}}, "budget": {"refuse": false, "allowances": {"tokens": {"amount": 10, "window": "month"}}}, "dedupe": "retained", "prefer": [], "lease_us": 10000000, "priority": 0, "selector": {}, "placement": "pack", "queue_cap": null, "max_losses": 5, "concurrency": null, "max_running": null, "keep_on_wait": [], "max_failures": 3, "node_backoff": true, "retention_us": 315360000000000, "result_ttl_us": 315360000000000, "stale_after_us": null, "reserve_after_us": 30000000, "hard_time_limit_us": 3600000000, "soft_time_limit_us": null, "progress_timeout_us": null, "permanent_exit_codes": [64, 65, 66, 77, 78], "reacquire_timeout_us": 300000000}', NULL, '{}', '{"tokens": {"since": 1796083200000000, "amount": 12}}');
INSERT INTO public.kinds (name, policy, paused, dead_by_day, spent) VALUES ('held', '{"fifo": false, "needs": {}, "retry": {"exponential": {"max_us": 3600000000, "initial_us": 10000000, "factor_permille": 3000, "jitter_permille": 200}}, "budget": null, "dedupe": "retained", "prefer": [], "lease_us": 10000000, "priority": 0, "selector": {}, "placement": "pack", "queue_cap": null, "max_losses": 5, "concurrency": null, "max_running": null, "keep_on_wait": [], "max_failures": 3, "node_backoff": true, "retention_us": 315360000000000, "result_ttl_us": 315360000000000, "stale_after_us": null, "reserve_after_us": 30000000, "hard_time_limit_us": 3600000000, "soft_time_limit_us": null, "progress_timeout_us": null, "permanent_exit_codes": [64, 65, 66, 77, 78], "reacquire_timeout_us": 300000000}', 'hold', '{}', NULL);
INSERT INTO public.kinds (name, policy, paused, dead_by_day, spent) VALUES ('parent', '{"fifo": false, "needs": {"shell": 1}, "retry": {"exponential": {"max_us": 3600000000, "initial_us": 10000000, "factor_permille": 3000, "jitter_permille": 200}}, "budget": null, "dedupe": "retained", "prefer": [], "lease_us": 10000000, "priority": 0, "selector": {}, "placement": "pack", "queue_cap": null, "max_losses": 5, "concurrency": null, "max_running": null, "keep_on_wait": [], "max_failures": 3, "node_backoff": true, "retention_us": 315360000000000, "result_ttl_us": 315360000000000, "stale_after_us": null, "reserve_after_us": 30000000, "hard_time_limit_us": 3600000000, "soft_time_limit_us": null, "progress_timeout_us": null, "permanent_exit_codes": [64, 65, 66, 77, 78], "reacquire_timeout_us": 300000000}', NULL, '{}', NULL);
INSERT INTO public.kinds (name, policy, paused, dead_by_day, spent) VALUES ('tick', '{"fifo": false, "needs": {}, "retry": {"exponential": {"max_us": 3600000000, "initial_us": 10000000, "factor_permille": 3000, "jitter_permille": 200}}, "budget": null, "dedupe": "retained", "prefer": [], "lease_us": 10000000, "priority": 0, "selector": {}, "placement": "pack", "queue_cap": null, "max_losses": 5, "concurrency": null, "max_running": null, "keep_on_wait": [], "max_failures": 3, "node_backoff": true, "retention_us": 315360000000000, "result_ttl_us": 315360000000000, "stale_after_us": null, "reserve_after_us": 30000000, "hard_time_limit_us": 3600000000, "soft_time_limit_us": null, "progress_timeout_us": null, "permanent_exit_codes": [64, 65, 66, 77, 78], "reacquire_timeout_us": 300000000}', NULL, '{}', NULL);
INSERT INTO public.kinds (name, policy, paused, dead_by_day, spent) VALUES ('task', '{"fifo": false, "needs": {"shell": 1}, "retry": {"exponential": {"max_us": 3600000000, "initial_us": 10000000, "factor_permille": 3000, "jitter_permille": 200}}, "budget": null, "dedupe": "retained", "prefer": [], "lease_us": 10000000, "priority": 0, "selector": {}, "placement": "pack", "queue_cap": null, "max_losses": 5, "concurrency": null, "max_running": null, "keep_on_wait": [], "max_failures": 1, "node_backoff": true, "retention_us": 315360000000000, "result_ttl_us": 315360000000000, "stale_after_us": null, "reserve_after_us": 30000000, "hard_time_limit_us": 3600000000, "soft_time_limit_us": null, "progress_timeout_us": null, "permanent_exit_codes": [64, 65, 66, 77, 78], "reacquire_timeout_us": 300000000}', NULL, '{"20788": 1}', NULL);
INSERT INTO public.kinds (name, policy, paused, dead_by_day, spent) VALUES ('rejecting', '{"fifo": false, "needs": {}, "retry": {"exponential": {"max_us": 3600000000, "initial_us": 10000000, "factor_permille": 3000, "jitter_permille": 200}}, "budget": null, "dedupe": "retained", "prefer": [], "lease_us": 10000000, "priority": 0, "selector": {}, "placement": "pack", "queue_cap": null, "max_losses": 5, "concurrency": null, "max_running": null, "keep_on_wait": [], "max_failures": 3, "node_backoff": true, "retention_us": 315360000000000, "result_ttl_us": 315360000000000, "stale_after_us": null, "reserve_after_us": 30000000, "hard_time_limit_us": 3600000000, "soft_time_limit_us": null, "progress_timeout_us": null, "permanent_exit_codes": [64, 65, 66, 77, 78], "reacquire_timeout_us": 300000000}', 'reject', '{}', NULL);

INSERT INTO public.leader_fence (epoch, one, holder, holder_addr, holder_peer_addr, hb, db_ident, acquired_at, seen_at) VALUES (1, true, '0839f6b7-8945-49ac-9db7-72606d9525ba', '127.0.0.1:43699', NULL, 8, '7714175770709923037/1', '2026-12-01 04:03:52.63271+00', '2026-12-01 04:03:57.451343+00');

INSERT INTO public.leases (token, job_id, kind, node, length_us, reservation, attempt, round, granted_at, phase, orphaned, tenant, concurrency_key, parked) VALUES (1099511627783, '01a22fc6-01fb-755f-b067-be9f765ebfe8', 'task', 'n1', 10000000, '{"node": {"shell": 1}, "fleet": {}}', 1, 1, '2026-12-01 04:03:55.517364+00', 'granted', false, 'acme', NULL, NULL);
INSERT INTO public.leases (token, job_id, kind, node, length_us, reservation, attempt, round, granted_at, phase, orphaned, tenant, concurrency_key, parked) VALUES (1099511627784, '01a22fc6-01fb-755f-b067-bea0c6475d9f', 'licensed', 'n1', 10000000, '{"node": {}, "fleet": {"license": 1}}', 1, 1, '2026-12-01 04:03:55.623862+00', 'granted', false, 'default', NULL, NULL);
INSERT INTO public.leases (token, job_id, kind, node, length_us, reservation, attempt, round, granted_at, phase, orphaned, tenant, concurrency_key, parked) VALUES (1099511627785, '01a22fc6-01fb-755f-b067-bea127086167', 'keyed', 'n1', 10000000, '{"node": {}, "fleet": {}}', 1, 1, '2026-12-01 04:03:55.721931+00', 'granted', false, 'default', '4711', NULL);
INSERT INTO public.leases (token, job_id, kind, node, length_us, reservation, attempt, round, granted_at, phase, orphaned, tenant, concurrency_key, parked) VALUES (1099511627786, '01a22fc6-01fb-755f-b067-bea290f6ea2c', 'task', 'n1', 10000000, '{"node": {"shell": 1}, "fleet": {}}', 1, 1, '2026-12-01 04:03:55.844411+00', 'granted', false, 'default', NULL, NULL);
INSERT INTO public.leases (token, job_id, kind, node, length_us, reservation, attempt, round, granted_at, phase, orphaned, tenant, concurrency_key, parked) VALUES (1099511627788, '01a22fc6-04fe-7e6f-834f-198f350752d4', 'task', 'n1', 10000000, '{"node": {"shell": 1}, "fleet": {}}', 1, 1, '2026-12-01 04:03:56.587109+00', 'granted', false, 'default', NULL, NULL);
INSERT INTO public.leases (token, job_id, kind, node, length_us, reservation, attempt, round, granted_at, phase, orphaned, tenant, concurrency_key, parked) VALUES (1099511627789, '01a22fc6-04fe-74c9-a1e3-f5590d419c7e', 'task', 'n1', 10000000, '{"node": {"shell": 1}, "fleet": {}}', 1, 1, '2026-12-01 04:03:56.587109+00', 'granted', false, 'default', NULL, NULL);
INSERT INTO public.leases (token, job_id, kind, node, length_us, reservation, attempt, round, granted_at, phase, orphaned, tenant, concurrency_key, parked) VALUES (1099511627791, '01a22fc6-06d1-7eda-ae35-5b7326f819be', 'task', 'n1', 10000000, '{"node": {"shell": 1}, "fleet": {}}', 1, 1, '2026-12-01 04:03:57.013349+00', 'granted', false, 'default', NULL, NULL);
INSERT INTO public.leases (token, job_id, kind, node, length_us, reservation, attempt, round, granted_at, phase, orphaned, tenant, concurrency_key, parked) VALUES (1099511627792, '01a22fc6-06d1-7290-8373-f7d72f21212e', 'task', 'n1', 10000000, '{"node": {"shell": 1}, "fleet": {}}', 1, 1, '2026-12-01 04:03:57.031368+00', 'granted', false, 'default', NULL, NULL);
INSERT INTO public.leases (token, job_id, kind, node, length_us, reservation, attempt, round, granted_at, phase, orphaned, tenant, concurrency_key, parked) VALUES (1099511627790, '01a22fc6-06d1-738f-b680-e026b86f0ac1', 'parent', 'n1', 10000000, '{"node": {}, "fleet": {}}', 1, 1, '2026-12-01 04:03:56.755389+00', 'granted', false, 'default', NULL, '{"wait": {"until": null, "policy": "all", "children": [["01a22fc6-06d1-7eda-ae35-5b7326f819be", null], ["01a22fc6-06d1-7290-8373-f7d72f21212e", null]]}, "epoch": 1, "verdict": null, "yielded": {"node": {"shell": 1}, "fleet": {}}}');
INSERT INTO public.leases (token, job_id, kind, node, length_us, reservation, attempt, round, granted_at, phase, orphaned, tenant, concurrency_key, parked) VALUES (1099511627794, '01a22fc6-086d-7773-8001-2a379b71669a', 'task', 'n1', 10000000, '{"node": {"shell": 1}, "fleet": {}}', 1, 1, '2026-12-01 04:03:57.167382+00', 'granted', false, 'default', NULL, NULL);

INSERT INTO public.log_tails (job_id, token, stdout_bytes, stdout_tail, stderr_bytes, stderr_tail, created_at) VALUES ('01a22fc5-f7eb-7492-960e-36aa3abeaa30', 1099511627777, 7, '\x6120776f72640a', 0, '\x', '2026-12-01 04:03:53.189565+00');
INSERT INTO public.log_tails (job_id, token, stdout_bytes, stdout_tail, stderr_bytes, stderr_tail, created_at) VALUES ('01a22fc6-086d-7773-8000-2a379b71669a', 1099511627793, 7, '\x6120776f72640a', 0, '\x', '2026-12-01 04:03:57.342474+00');

INSERT INTO public.nodes (name, instance, boot_id, incarnation, stream, labels, slots, kinds, host, agent_version, cordoned, draining_us, last_seen_at) VALUES ('n1', 'e528388a-f882-4088-9d2a-1638e8746498', '6f1f7c1e-5b7e-4a53-9a35-2f0f3a6a8a01', 1, 1, '{"zone": "a"}', '{"shell": {"since": 1099511627776, "units": 16}}', '["costly", "held", "keyed", "licensed", "parent", "rejecting", "task"]', '{"os": "linux", "arch": "x86_64", "cpus": 2, "containment": "partial", "memory_bytes": 25324732416, "disk_free_bytes": 59200163840}', '0.1.0', false, NULL, '2026-12-01 04:03:52.876884+00');

INSERT INTO public.outbox (id, webhook, event, subject_id, body, created_at, since_at, tries, next_at, failed_at, error) VALUES (1099511627778, 'ci', 'job.succeeded', '01a22fc5-f7eb-7492-960e-36ab5dc5c3db', '{"type":"job.succeeded","timestamp":"2026-12-01T04:03:53.345022Z","data":{"id":"01a22fc5-f7eb-7492-960e-36ab5dc5c3db","kind":"task","tenant":"default","producer":"local","state":"JOB_STATE_SUCCEEDED","version":"5","labels":{"ends":"succeeded","left":"pile"},"needs":{"slots":[{"slot":"shell","amount":1}]},"hardTimeLimit":"3600s","rootId":"01a22fc5-f7eb-7492-960e-36ab5dc5c3db","round":1,"maxFailures":1,"maxLosses":5,"attempt":1,"token":"1099511627778","createTime":"2026-12-01T04:03:52.977288Z","startTime":"2026-12-01T04:03:53.101082Z","finishTime":"2026-12-01T04:03:53.345022Z","payloadSize":"12"}}', '2026-12-01 04:03:53.345022+00', '2026-12-01 04:03:53.345022+00', 3, '2026-12-01 04:03:59.87523+00', NULL, 'Connection refused (os error 111)');
INSERT INTO public.outbox (id, webhook, event, subject_id, body, created_at, since_at, tries, next_at, failed_at, error) VALUES (1099511627777, 'ci', 'job.succeeded', '01a22fc5-f7eb-7492-960e-36aa3abeaa30', '{"type":"job.succeeded","timestamp":"2026-12-01T04:03:53.189565Z","data":{"id":"01a22fc5-f7eb-7492-960e-36aa3abeaa30","kind":"task","tenant":"acme","producer":"local","state":"JOB_STATE_SUCCEEDED","version":"5","dedupeKey":"the-key","dedupeHeld":true,"labels":{"ends":"succeeded","left":"text"},"needs":{"slots":[{"slot":"shell","amount":1}]},"hardTimeLimit":"3600s","rootId":"01a22fc5-f7eb-7492-960e-36aa3abeaa30","round":1,"maxFailures":1,"maxLosses":5,"attempt":1,"token":"1099511627777","createTime":"2026-12-01T04:03:52.945524Z","startTime":"2026-12-01T04:03:53.101054Z","finishTime":"2026-12-01T04:03:53.189565Z","payloadSize":"28"}}', '2026-12-01 04:03:53.189565+00', '2026-12-01 04:03:53.189565+00', 3, '2026-12-01 04:04:00.3609+00', NULL, 'Connection refused (os error 111)');
INSERT INTO public.outbox (id, webhook, event, subject_id, body, created_at, since_at, tries, next_at, failed_at, error) VALUES (1099511627780, 'ci', 'job.succeeded', '01a22fc5-f7eb-7492-960e-36ae0f9bd2de', '{"type":"job.succeeded","timestamp":"2026-12-01T04:03:53.445919Z","data":{"id":"01a22fc5-f7eb-7492-960e-36ae0f9bd2de","kind":"costly","tenant":"default","producer":"local","state":"JOB_STATE_SUCCEEDED","version":"5","labels":{"ends":"succeeded"},"needs":{},"hardTimeLimit":"3600s","rootId":"01a22fc5-f7eb-7492-960e-36ae0f9bd2de","round":1,"maxFailures":3,"maxLosses":5,"attempt":1,"token":"1099511627781","createTime":"2026-12-01T04:03:53.112182Z","startTime":"2026-12-01T04:03:53.344922Z","finishTime":"2026-12-01T04:03:53.445919Z","payloadSize":"24"}}', '2026-12-01 04:03:53.445919+00', '2026-12-01 04:03:53.445919+00', 3, '2026-12-01 04:04:00.728904+00', NULL, 'Connection refused (os error 111)');
INSERT INTO public.outbox (id, webhook, event, subject_id, body, created_at, since_at, tries, next_at, failed_at, error) VALUES (1099511627779, 'ci', 'job.succeeded', '01a22fc5-f7eb-7492-960e-36adb7ec91b2', '{"type":"job.succeeded","timestamp":"2026-12-01T04:03:53.345022Z","data":{"id":"01a22fc5-f7eb-7492-960e-36adb7ec91b2","kind":"task","tenant":"default","producer":"local","state":"JOB_STATE_SUCCEEDED","version":"5","labels":{"ends":"succeeded"},"needs":{"slots":[{"slot":"shell","amount":1}]},"hardTimeLimit":"3600s","rootId":"01a22fc5-f7eb-7492-960e-36adb7ec91b2","round":1,"maxFailures":1,"maxLosses":5,"attempt":1,"token":"1099511627780","createTime":"2026-12-01T04:03:53.062814Z","startTime":"2026-12-01T04:03:53.344948Z","finishTime":"2026-12-01T04:03:53.345022Z"}}', '2026-12-01 04:03:53.345022+00', '2026-12-01 04:03:53.345022+00', 3, '2026-12-01 04:04:01.342408+00', NULL, 'Connection refused (os error 111)');
INSERT INTO public.outbox (id, webhook, event, subject_id, body, created_at, since_at, tries, next_at, failed_at, error) VALUES (1099511627782, 'ci', 'job.dead', '01a22fc5-fd4e-711e-9f97-808ef67ec904', '{"type":"job.dead","timestamp":"2026-12-01T04:03:54.428474Z","data":{"id":"01a22fc5-fd4e-711e-9f97-808ef67ec904","kind":"task","tenant":"default","producer":"local","state":"JOB_STATE_DEAD","version":"5","labels":{"ends":"dead"},"needs":{"slots":[{"slot":"shell","amount":1}]},"hardTimeLimit":"3600s","rootId":"01a22fc5-fd4e-711e-9f97-808ef67ec904","round":1,"failures":1,"maxFailures":1,"maxLosses":5,"attempt":2,"token":"1099511627782","createTime":"2026-12-01T04:03:54.320061Z","startTime":"2026-12-01T04:03:54.421486Z","finishTime":"2026-12-01T04:03:54.428474Z","reason":"exited with code 3","payloadSize":"7"}}', '2026-12-01 04:03:54.428474+00', '2026-12-01 04:03:54.428474+00', 2, '2026-12-01 04:03:57.785797+00', NULL, 'Connection refused (os error 111)');
INSERT INTO public.outbox (id, webhook, event, subject_id, body, created_at, since_at, tries, next_at, failed_at, error) VALUES (1099511627784, 'ci', 'job.expired', '01a22fc5-fdee-76fa-9157-105d5d2a471e', '{"type":"job.expired","timestamp":"2026-12-01T04:03:55.484480Z","data":{"id":"01a22fc5-fdee-76fa-9157-105d5d2a471e","kind":"held","tenant":"default","producer":"local","state":"JOB_STATE_EXPIRED","version":"3","labels":{"ends":"expired"},"needs":{},"hardTimeLimit":"3600s","rootId":"01a22fc5-fdee-76fa-9157-105d5d2a471e","round":1,"maxFailures":3,"maxLosses":5,"attempt":1,"createTime":"2026-12-01T04:03:54.479933Z","staleAt":"2026-12-01T04:03:55.479933Z","finishTime":"2026-12-01T04:03:55.484480Z","reason":"not started within its stale_after","waits":[{"reason":"kind_paused","message":"kind paused","count":"1","duration":"1.004543s"}]}}', '2026-12-01 04:03:55.48448+00', '2026-12-01 04:03:55.48448+00', 2, '2026-12-01 04:03:58.595509+00', NULL, 'Connection refused (os error 111)');
INSERT INTO public.outbox (id, webhook, event, subject_id, body, created_at, since_at, tries, next_at, failed_at, error) VALUES (1099511627781, 'ci', 'job.succeeded', '01a22fc5-f7eb-7492-960e-36acd785efac', '{"type":"job.succeeded","timestamp":"2026-12-01T04:03:54.294121Z","data":{"id":"01a22fc5-f7eb-7492-960e-36acd785efac","kind":"task","tenant":"default","producer":"local","state":"JOB_STATE_SUCCEEDED","version":"5","labels":{"ends":"succeeded","left":"text"},"needs":{"slots":[{"slot":"shell","amount":1}]},"hardTimeLimit":"3600s","rootId":"01a22fc5-f7eb-7492-960e-36acd785efac","round":1,"maxFailures":1,"maxLosses":5,"attempt":1,"token":"1099511627779","createTime":"2026-12-01T04:03:53.037758Z","startTime":"2026-12-01T04:03:53.344916Z","finishTime":"2026-12-01T04:03:54.294121Z","reason":"its result is partial: it had been asked to wrap up","payloadSize":"25","softTimeLimit":"1s"}}', '2026-12-01 04:03:54.294121+00', '2026-12-01 04:03:54.294121+00', 2, '2026-12-01 04:03:57.545387+00', NULL, 'Connection refused (os error 111)');
INSERT INTO public.outbox (id, webhook, event, subject_id, body, created_at, since_at, tries, next_at, failed_at, error) VALUES (1099511627783, 'ci', 'job.cancelled', '01a22fc5-fdd5-71c2-ae42-fad7109fb9bc', '{"type":"job.cancelled","timestamp":"2026-12-01T04:03:54.467418Z","data":{"id":"01a22fc5-fdd5-71c2-ae42-fad7109fb9bc","kind":"task","tenant":"default","producer":"local","state":"JOB_STATE_CANCELLED","version":"3","labels":{"ends":"cancelled"},"needs":{"slots":[{"slot":"shell","amount":1}]},"hardTimeLimit":"3600s","rootId":"01a22fc5-fdd5-71c2-ae42-fad7109fb9bc","round":1,"maxFailures":1,"maxLosses":5,"attempt":1,"createTime":"2026-12-01T04:03:54.455290Z","finishTime":"2026-12-01T04:03:54.467418Z","reason":"not needed","waits":[{"reason":"run_at","message":"start time","count":"1","duration":"0.012129s"}]}}', '2026-12-01 04:03:54.467418+00', '2026-12-01 04:03:54.467418+00', 2, '2026-12-01 04:03:57.575384+00', NULL, 'Connection refused (os error 111)');
INSERT INTO public.outbox (id, webhook, event, subject_id, body, created_at, since_at, tries, next_at, failed_at, error) VALUES (1099511627785, 'ci', 'job.succeeded', '01a22fc6-086d-7773-8000-2a379b71669a', '{"type":"job.succeeded","timestamp":"2026-12-01T04:03:57.342474Z","data":{"id":"01a22fc6-086d-7773-8000-2a379b71669a","kind":"task","tenant":"default","producer":"local","state":"JOB_STATE_SUCCEEDED","version":"5","labels":{"ends":"succeeded"},"needs":{"slots":[{"slot":"shell","amount":1}]},"hardTimeLimit":"3600s","rootId":"01a22fc6-086d-7773-8000-2a379b71669a","round":1,"maxFailures":1,"maxLosses":5,"attempt":1,"token":"1099511627793","createTime":"2026-12-01T04:03:57.167382Z","startTime":"2026-12-01T04:03:57.339415Z","finishTime":"2026-12-01T04:03:57.342474Z","payloadSize":"28","workflowId":"01a22fc6-086d-7109-88d3-27d987427628","workflowPlace":0}}', '2026-12-01 04:03:57.342474+00', '2026-12-01 04:03:57.342474+00', 1, '2026-12-01 04:03:58.467173+00', NULL, 'Connection refused (os error 111)');

INSERT INTO public.payloads (job_id, data, content_type) VALUES ('01a22fc5-f7eb-7492-960e-36aa3abeaa30', '\x736179206120776f72640a726573756c74206173206974207761730a', 'text/plain');
INSERT INTO public.payloads (job_id, data, content_type) VALUES ('01a22fc5-f7eb-7492-960e-36ab5dc5c3db', '\x70696c65203330303030300a', 'text/plain');
INSERT INTO public.payloads (job_id, data, content_type) VALUES ('01a22fc5-f7eb-7492-960e-36acd785efac', '\x686565642031300a726573756c74206173206974207761730a', 'text/plain');
INSERT INTO public.payloads (job_id, data, content_type) VALUES ('01a22fc5-f7eb-7492-960e-36ae0f9bd2de', '\x617474656d707420757361676520746f6b656e733d31320a', 'text/plain');
INSERT INTO public.payloads (job_id, data, content_type) VALUES ('01a22fc5-fd4e-711e-9f97-808ef67ec904', '\x6578697420330a', 'text/plain');
INSERT INTO public.payloads (job_id, data, content_type) VALUES ('01a22fc6-01fb-755f-b067-be9f765ebfe8', '\x7761697420676f0a', 'text/plain');
INSERT INTO public.payloads (job_id, data, content_type) VALUES ('01a22fc6-01fb-755f-b067-bea0c6475d9f', '\x7761697420676f0a', 'text/plain');
INSERT INTO public.payloads (job_id, data, content_type) VALUES ('01a22fc6-01fb-755f-b067-bea127086167', '\x7761697420676f0a', 'text/plain');
INSERT INTO public.payloads (job_id, data, content_type) VALUES ('01a22fc6-01fb-755f-b067-bea290f6ea2c', '\x74656c6c2d6c6566740a617474656d707420636865636b706f696e74202f70726f632f7379732f6b65726e656c2f6f73747970650a7761697420676f0a', 'text/plain');
INSERT INTO public.payloads (job_id, data, content_type) VALUES ('01a22fc6-04fe-7317-9614-2b2e11353ff3', '\x6465746163682032207461736b207761697420676f0a', 'text/plain');
INSERT INTO public.payloads (job_id, data, content_type) VALUES ('01a22fc6-04fe-74c9-a1e3-f5590d419c7e', '\x7761697420676f', 'application/octet-stream');
INSERT INTO public.payloads (job_id, data, content_type) VALUES ('01a22fc6-04fe-7e6f-834f-198f350752d4', '\x7761697420676f', 'application/octet-stream');
INSERT INTO public.payloads (job_id, data, content_type) VALUES ('01a22fc6-06d1-738f-b680-e026b86f0ac1', '\x7061726b2032207461736b207761697420676f0a', 'text/plain');
INSERT INTO public.payloads (job_id, data, content_type) VALUES ('01a22fc6-06d1-7eda-ae35-5b7326f819be', '\x7761697420676f', 'application/octet-stream');
INSERT INTO public.payloads (job_id, data, content_type) VALUES ('01a22fc6-06d1-7290-8373-f7d72f21212e', '\x7761697420676f', 'application/octet-stream');
INSERT INTO public.payloads (job_id, data, content_type) VALUES ('01a22fc6-086d-7773-8000-2a379b71669a', '\x736179206120776f72640a726573756c74206173206974207761730a', 'text/plain');
INSERT INTO public.payloads (job_id, data, content_type) VALUES ('01a22fc6-086d-7773-8001-2a379b71669a', '\x7761697420676f0a', 'text/plain');
INSERT INTO public.payloads (job_id, data, content_type) VALUES ('01a22fc6-086d-7773-8002-2a379b71669a', '\x6761746865720a', 'text/plain');

INSERT INTO public.results (job_id, token, data, content_type, created_at, expires_at, of_wait, partial, object_size, object_sha256) VALUES ('01a22fc5-f7eb-7492-960e-36aa3abeaa30', 1099511627777, '\x617320697420776173', 'text/plain; charset=utf-8', '2026-12-01 04:03:53.189565+00', '2036-11-28 04:03:53.189565+00', false, false, NULL, NULL);
INSERT INTO public.results (job_id, token, data, content_type, created_at, expires_at, of_wait, partial, object_size, object_sha256) VALUES ('01a22fc5-f7eb-7492-960e-36ab5dc5c3db', 1099511627778, '\x', 'application/octet-stream', '2026-12-01 04:03:53.345022+00', '2036-11-28 04:03:53.345022+00', false, false, 300000, 'c7bd15ea029446c055c32c56ec5ba0966b92c46c625ae7c890f425757fa3134e');
INSERT INTO public.results (job_id, token, data, content_type, created_at, expires_at, of_wait, partial, object_size, object_sha256) VALUES ('01a22fc5-f7eb-7492-960e-36acd785efac', 1099511627779, '\x617320697420776173', 'text/plain; charset=utf-8', '2026-12-01 04:03:54.294121+00', '2036-11-28 04:03:54.294121+00', false, true, NULL, NULL);
INSERT INTO public.results (job_id, token, data, content_type, created_at, expires_at, of_wait, partial, object_size, object_sha256) VALUES ('01a22fc6-04fe-7317-9614-2b2e11353ff3', 1099511627787, '\x7b22776173223a2268657265227d', 'application/json', '2026-12-01 04:03:56.688612+00', '3000-01-01 00:00:00+00', true, false, NULL, NULL);
INSERT INTO public.results (job_id, token, data, content_type, created_at, expires_at, of_wait, partial, object_size, object_sha256) VALUES ('01a22fc6-086d-7773-8000-2a379b71669a', 1099511627793, '\x617320697420776173', 'text/plain; charset=utf-8', '2026-12-01 04:03:57.342474+00', '2036-11-28 04:03:57.342474+00', false, false, NULL, NULL);

INSERT INTO public.slots (name, scope, capacity, capacity_since, paused, paused_until, rate_tokens, rate_per_us, rate_burst, rate_full_at, throttled_until) VALUES ('shell', 'node', NULL, 1099511627776, false, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.slots (name, scope, capacity, capacity_since, paused, paused_until, rate_tokens, rate_per_us, rate_burst, rate_full_at, throttled_until) VALUES ('license', 'fleet', 1, 1099511627786, false, NULL, NULL, NULL, NULL, NULL, NULL);

INSERT INTO public.tenants (name, weight) VALUES ('acme', 2);

INSERT INTO public.webhooks (name, policy, gone_at) VALUES ('ci', '{"url": "https://localhost:9/told", "kinds": null, "events": ["succeeded", "dead", "cancelled", "expired"], "secret": "ci", "workflows": false}', NULL);

INSERT INTO public.workflows (id, producer, name, fingerprint, shape, members, state, version, round, cancel_requested, created_at, began_at, finished_at, reason, opened) VALUES ('01a22fc6-086d-7109-88d3-27d987427628', 'local', NULL, '\x42883af60273e41902e668b1a86b09861b212565020cffcab49cd9d4c075b167', '{"chain": [{"chord": {"leave": false, "policy": "all", "members": ["job", "job"]}}, "job"]}', 4, 'running', 1, 1, false, '2026-12-01 04:03:57.167382+00', '2026-12-01 04:03:57.167382+00', NULL, NULL, '{}');

SELECT pg_catalog.setval('public.inbox_seq_seq', 2, true);

ALTER TABLE ONLY public._sqlx_migrations
    ADD CONSTRAINT _sqlx_migrations_pkey PRIMARY KEY (version);

ALTER TABLE public.attempts
    ADD CONSTRAINT attempts_checkpoint_has_a_size CHECK ((checkpoint_size >= 0)) NOT VALID;

ALTER TABLE ONLY public.attempts
    ADD CONSTRAINT attempts_pkey PRIMARY KEY (job_id, token);

ALTER TABLE public.attempts
    ADD CONSTRAINT attempts_usage_is_an_object CHECK ((jsonb_typeof(usage) = 'object'::text)) NOT VALID;

ALTER TABLE ONLY public.checkpoints
    ADD CONSTRAINT checkpoints_pkey PRIMARY KEY (job_id);

ALTER TABLE ONLY public.classes
    ADD CONSTRAINT classes_pkey EXCLUDE USING hash (class WITH =);

ALTER TABLE ONLY public.crons
    ADD CONSTRAINT crons_pkey PRIMARY KEY (name);

ALTER TABLE ONLY public.inbox
    ADD CONSTRAINT inbox_pkey PRIMARY KEY (seq);

ALTER TABLE ONLY public.inbox_refusals
    ADD CONSTRAINT inbox_refusals_pkey PRIMARY KEY (seq);

ALTER TABLE public.jobs
    ADD CONSTRAINT jobs_blocked_has_blocked_at CHECK (((state = 'blocked'::text) = (blocked_at IS NOT NULL))) NOT VALID;

ALTER TABLE public.jobs
    ADD CONSTRAINT jobs_blocked_is_member CHECK (((blocked_at IS NULL) OR (workflow_id IS NOT NULL))) NOT VALID;

ALTER TABLE public.jobs
    ADD CONSTRAINT jobs_final_has_no_wait CHECK (((detached IS NULL) OR (finished_at IS NULL))) NOT VALID;

ALTER TABLE public.jobs
    ADD CONSTRAINT jobs_member_has_place CHECK (((workflow_id IS NULL) = (workflow_place IS NULL))) NOT VALID;

ALTER TABLE public.jobs
    ADD CONSTRAINT jobs_on_parent_cancel_is_known CHECK ((on_parent_cancel = ANY (ARRAY['cancel'::text, 'keep'::text]))) NOT VALID;

ALTER TABLE public.jobs
    ADD CONSTRAINT jobs_on_parent_lost_is_known CHECK ((on_parent_lost = ANY (ARRAY['cancel'::text, 'keep'::text]))) NOT VALID;

ALTER TABLE ONLY public.jobs
    ADD CONSTRAINT jobs_pkey PRIMARY KEY (id);

ALTER TABLE public.jobs
    ADD CONSTRAINT jobs_state_of_a_trace CHECK (((tracestate IS NULL) OR (traceparent IS NOT NULL))) NOT VALID;

ALTER TABLE public.jobs
    ADD CONSTRAINT jobs_waiting_has_waiting_at CHECK (((state = 'waiting'::text) = (waiting_at IS NOT NULL))) NOT VALID;

ALTER TABLE ONLY public.kinds
    ADD CONSTRAINT kinds_pkey PRIMARY KEY (name);

ALTER TABLE ONLY public.leader_fence
    ADD CONSTRAINT leader_fence_one_row UNIQUE (one);

ALTER TABLE ONLY public.leader_fence
    ADD CONSTRAINT leader_fence_pkey PRIMARY KEY (epoch);

ALTER TABLE public.leases
    ADD CONSTRAINT leases_parked_is_granted CHECK (((parked IS NULL) OR (phase = 'granted'::text))) NOT VALID;

ALTER TABLE ONLY public.leases
    ADD CONSTRAINT leases_pkey PRIMARY KEY (token);

ALTER TABLE ONLY public.log_tails
    ADD CONSTRAINT log_tails_pkey PRIMARY KEY (job_id, token);

ALTER TABLE ONLY public.nodes
    ADD CONSTRAINT nodes_pkey PRIMARY KEY (name);

ALTER TABLE ONLY public.outbox
    ADD CONSTRAINT outbox_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.payloads
    ADD CONSTRAINT payloads_pkey PRIMARY KEY (job_id);

ALTER TABLE public.results
    ADD CONSTRAINT results_objects_are_named CHECK (((object_size IS NULL) = (object_sha256 IS NULL))) NOT VALID;

ALTER TABLE public.results
    ADD CONSTRAINT results_objects_have_a_size CHECK ((object_size >= 0)) NOT VALID;

ALTER TABLE ONLY public.results
    ADD CONSTRAINT results_pkey PRIMARY KEY (job_id, token);

ALTER TABLE ONLY public.slots
    ADD CONSTRAINT slots_pkey PRIMARY KEY (name);

ALTER TABLE ONLY public.tenants
    ADD CONSTRAINT tenants_pkey PRIMARY KEY (name);

ALTER TABLE ONLY public.webhooks
    ADD CONSTRAINT webhooks_pkey PRIMARY KEY (name);

ALTER TABLE ONLY public.workflows
    ADD CONSTRAINT workflows_pkey PRIMARY KEY (id);

CREATE INDEX inbox_by_kind ON public.inbox USING btree (kind, seq);

CREATE INDEX jobs_dead_of_kind ON public.jobs USING btree (kind) WHERE (state = 'dead'::text);

CREATE UNIQUE INDEX jobs_dedupe_held ON public.jobs USING btree (tenant, kind, dedupe_key) WHERE dedupe_held;

CREATE INDEX jobs_finished ON public.jobs USING btree (kind, finished_at) WHERE (finished_at IS NOT NULL);

CREATE INDEX jobs_live ON public.jobs USING btree (finished_at) WHERE (finished_at IS NULL);

CREATE INDEX jobs_newest ON public.jobs USING btree (created_at, id);

CREATE INDEX jobs_newest_dead ON public.jobs USING btree (created_at, id) WHERE (state = 'dead'::text);

CREATE INDEX jobs_newest_of_key ON public.jobs USING btree (dedupe_key, created_at, id) WHERE (dedupe_key IS NOT NULL);

CREATE INDEX jobs_newest_of_kind ON public.jobs USING btree (kind, created_at, id);

CREATE INDEX jobs_newest_of_parent ON public.jobs USING btree (parent_id, created_at, id) WHERE (parent_id IS NOT NULL);

CREATE UNIQUE INDEX jobs_one_per_place ON public.jobs USING btree (workflow_id, workflow_place) WHERE (workflow_id IS NOT NULL);

CREATE UNIQUE INDEX leases_one_live_per_job ON public.leases USING btree (job_id) WHERE (phase <> 'unreaped'::text);

CREATE INDEX results_due ON public.results USING btree (expires_at);

CREATE INDEX results_objects ON public.results USING btree (job_id, token) WHERE (object_size IS NOT NULL);

CREATE INDEX workflows_live ON public.workflows USING btree (id) WHERE (finished_at IS NULL);

CREATE INDEX workflows_newest ON public.workflows USING btree (created_at, id);

CREATE TRIGGER jobs_final_never_changes BEFORE UPDATE ON public.jobs FOR EACH ROW WHEN (((old.finished_at IS NOT NULL) AND (new.round <= old.round) AND ((new.dedupe_held > old.dedupe_held) OR ((((((((((((((((((new.state IS DISTINCT FROM old.state) OR (new.finished_at IS DISTINCT FROM old.finished_at)) OR (new.token IS DISTINCT FROM old.token)) OR (new.last_outcome IS DISTINCT FROM old.last_outcome)) OR (new.last_node IS DISTINCT FROM old.last_node)) OR (new.failures IS DISTINCT FROM old.failures)) OR (new.losses IS DISTINCT FROM old.losses)) OR (new.returns IS DISTINCT FROM old.returns)) OR (new.returns_in_row IS DISTINCT FROM old.returns_in_row)) OR (new.round IS DISTINCT FROM old.round)) OR (new.priority IS DISTINCT FROM old.priority)) OR (new.children IS DISTINCT FROM old.children)) OR (new.cancel_requested IS DISTINCT FROM old.cancel_requested)) OR (new.granted_at IS DISTINCT FROM old.granted_at)) OR (new.started_at IS DISTINCT FROM old.started_at)) OR (new.stale_at IS DISTINCT FROM old.stale_at)) OR (new.reason IS DISTINCT FROM old.reason)) OR (new.waits IS DISTINCT FROM old.waits))))) EXECUTE FUNCTION public.jobs_refuse_row();

COMMENT ON TRIGGER jobs_final_never_changes ON public.jobs IS 'a final row admits a new round, or the release of its key';

CREATE TRIGGER jobs_token_never_falls BEFORE UPDATE ON public.jobs FOR EACH ROW WHEN ((new.token < old.token)) EXECUTE FUNCTION public.jobs_refuse_row();

COMMENT ON TRIGGER jobs_token_never_falls ON public.jobs IS 'the second wall of fencing: a token only grows';

ALTER TABLE ONLY public.attempts
    ADD CONSTRAINT attempts_belong_to_a_job FOREIGN KEY (job_id) REFERENCES public.jobs(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.checkpoints
    ADD CONSTRAINT checkpoints_belong_to_a_job FOREIGN KEY (job_id) REFERENCES public.jobs(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.log_tails
    ADD CONSTRAINT log_tails_belong_to_a_job FOREIGN KEY (job_id) REFERENCES public.jobs(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.outbox
    ADD CONSTRAINT outbox_has_a_webhook FOREIGN KEY (webhook) REFERENCES public.webhooks(name);

ALTER TABLE ONLY public.payloads
    ADD CONSTRAINT payloads_belong_to_a_job FOREIGN KEY (job_id) REFERENCES public.jobs(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.results
    ADD CONSTRAINT results_belong_to_a_job FOREIGN KEY (job_id) REFERENCES public.jobs(id) ON DELETE CASCADE;

