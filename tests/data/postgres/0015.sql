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

CREATE TABLE public.classes (
    class text NOT NULL COLLATE pg_catalog."C",
    timeline jsonb NOT NULL
)
WITH (fillfactor='50', vacuum_truncate=off);

COMMENT ON TABLE public.classes IS 'Deferral timelines, saved at most once a second.';

COMMENT ON COLUMN public.classes.class IS 'the text of (kind, needs, selector, tenant)';

COMMENT ON COLUMN public.classes.timeline IS 'JSON list of {since, reason, message, tries, duration_us}, the oldest first';

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
    of_wait boolean DEFAULT false NOT NULL
);

COMMENT ON TABLE public.results IS 'The output of one execution.';

COMMENT ON COLUMN public.results.job_id IS 'the job';

COMMENT ON COLUMN public.results.token IS 'of the lease of the execution';

COMMENT ON COLUMN public.results.data IS 'opaque to the server';

COMMENT ON COLUMN public.results.content_type IS 'a media type, as the node said; may be empty';

COMMENT ON COLUMN public.results.created_at IS 'when it was stored';

COMMENT ON COLUMN public.results.expires_at IS 'when it is swept';

COMMENT ON COLUMN public.results.of_wait IS 'no result, but the state that an execution left which detached';

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

INSERT INTO public._sqlx_migrations (version, description, installed_on, success, checksum, execution_time) VALUES (1, 'create_jobs', '2026-11-30 18:07:23.816251+00', true, '\x49fdba08c0679199061de7833a7b44941acae0d7442bfb840c554bcc7a1ea251bf73419fd1594d7adaf46fc7efec7728', 23457743);
INSERT INTO public._sqlx_migrations (version, description, installed_on, success, checksum, execution_time) VALUES (2, 'create_leases', '2026-11-30 18:07:23.840063+00', true, '\x45b4ff949c5a94314b2d18e0efeb10f9d6fc785d0243c7aa7ef9094b8d569f615e3742b1cddb432b92dd041c13460e17', 2089973);
INSERT INTO public._sqlx_migrations (version, description, installed_on, success, checksum, execution_time) VALUES (3, 'create_fleet', '2026-11-30 18:07:23.842297+00', true, '\x5e52b888b9d0a71c1850123e9dd927d4b54e94d01724e9c535cf924f2242217705adb421215d8013fc19fda0c1769b2e', 7973712);
INSERT INTO public._sqlx_migrations (version, description, installed_on, success, checksum, execution_time) VALUES (4, 'create_leader_fence', '2026-11-30 18:07:23.851248+00', true, '\xfea7041a6bbe7fdf8e8c76df4b4032e3650c098c1aae75664f54a47cde4c80e53bcf9d5e22838d091c80ba1f7bcb617b', 8282294);
INSERT INTO public._sqlx_migrations (version, description, installed_on, success, checksum, execution_time) VALUES (5, 'create_invariants', '2026-11-30 18:07:23.859581+00', true, '\x39c52b23a3ab077d5f457a9148765b7e5f011dc2d28d44f6daf7c6d0b51fee6c939260d11c8f414fa07c9269b5555c3e', 6624891);
INSERT INTO public._sqlx_migrations (version, description, installed_on, success, checksum, execution_time) VALUES (6, 'mark_orphaned_leases', '2026-11-30 18:07:23.86638+00', true, '\x9bfd13398fdee041baf3a62b991fdf0fd9bc1fa2278e12cc94011e31166b108b37ad1d062d7ae6a05bf4daf4f85c6a07', 944955);
INSERT INTO public._sqlx_migrations (version, description, installed_on, success, checksum, execution_time) VALUES (7, 'add_tracestate', '2026-11-30 18:07:23.869728+00', true, '\x8e7ef4bb84a67e0d1f023ef8f95e6d5d9279e1a6c455b28f07f96d6850971e74063e1134bb2339e60bd80252b72c4a2e', 565419);
INSERT INTO public._sqlx_migrations (version, description, installed_on, success, checksum, execution_time) VALUES (8, 'add_slot_rates', '2026-11-30 18:07:23.870358+00', true, '\x8143c80452f42483e37e7272cbae2310c1fb57ac0bc0344dd9aa24b9f3d832e290d2b9e06058cb48ad4ca8572054f057', 869289);
INSERT INTO public._sqlx_migrations (version, description, installed_on, success, checksum, execution_time) VALUES (9, 'add_child_waits', '2026-11-30 18:07:23.871319+00', true, '\x06b53bf8ccdc1c0e9c3839221c0e942acefe5b69c3a49be17687fb3144d3109c25245c5ba89a0cbc636c373bcdfbd355', 2107139);
INSERT INTO public._sqlx_migrations (version, description, installed_on, success, checksum, execution_time) VALUES (10, 'name_tenant_of_leases', '2026-11-30 18:07:23.873528+00', true, '\xb5da171eac79707bc02254aecdfb539d299c4db854681db817726316346a9b5153b62e67e8d22dbad4eeb74c9c402803', 1694202);
INSERT INTO public._sqlx_migrations (version, description, installed_on, success, checksum, execution_time) VALUES (11, 'create_tenants', '2026-11-30 18:07:23.875365+00', true, '\x463772c1ebd80f1338c4eb0aa88063d91bd9ea8a989c3b917c5db2c139ed2f34924acaf75e236f8379248554e8a758b0', 3481682);
INSERT INTO public._sqlx_migrations (version, description, installed_on, success, checksum, execution_time) VALUES (12, 'throttle_slots', '2026-11-30 18:07:23.879017+00', true, '\x0901624ea5151ed4eff49540bddd71efdbf428a098a094d757a7ed700a2aec685c78e7ecb6e3714d9a75bae79974dc71', 589326);
INSERT INTO public._sqlx_migrations (version, description, installed_on, success, checksum, execution_time) VALUES (13, 'add_budgets', '2026-11-30 18:07:23.879702+00', true, '\x367781c0c4055f2a2a34d024c0d298eeafb7c955e131e40f93b28e26c67d899b255deaea031995955bb480cc5a44afee', 1470905);
INSERT INTO public._sqlx_migrations (version, description, installed_on, success, checksum, execution_time) VALUES (14, 'add_concurrency_keys', '2026-11-30 18:07:23.881313+00', true, '\xa2c73a6bc80a0afcb99cf86e5ee97149b860f7dce4dc746984e6690880e31ff2982d8dc650455b43858cc549fc7ce822', 1040856);
INSERT INTO public._sqlx_migrations (version, description, installed_on, success, checksum, execution_time) VALUES (15, 'add_parked_leases', '2026-11-30 18:07:23.882484+00', true, '\x65fccfb2fbbfe740ace08dc635335b5c4a0c7d736f2103893f5711e11330135a3a881ce9de127715f5f636bc2c6b7a09', 9762395);

INSERT INTO public.attempts (job_id, token, attempt, round, node, outcome, cause, error, exit_code, granted_at, started_at, ended_at, detached, usage) VALUES ('01a22da3-e151-744a-af9f-f731235387f5', 1099511627780, 1, 1, 'n1', 'failed_retryable', 'exit', 'exited with code 3', 3, '2026-11-30 18:07:24.504615+00', '2026-11-30 18:07:24.586949+00', '2026-11-30 18:07:24.618294+00', false, NULL);

INSERT INTO public.classes (class, timeline) VALUES ('paused|shell:1||default', '[{"since": 1796062045015198, "tries": 1, "reason": "kind_paused", "message": "kind paused", "duration_us": 953097}]');
INSERT INTO public.classes (class, timeline) VALUES ('licensed|license:1,shell:1||default', '[{"since": 1796062045024773, "tries": 1, "reason": "slot_busy", "message": "slot shell on n1 4/4", "duration_us": 943523}]');
INSERT INTO public.classes (class, timeline) VALUES ('shell.task|shell:1|zone=a|acme', '[{"since": 1796062045028090, "tries": 1, "reason": "slot_busy", "message": "slot shell on n1 4/4", "duration_us": 940205}]');
INSERT INTO public.classes (class, timeline) VALUES ('shell.task|shell:1||default|64s', '[{"since": 1796062045038381, "tries": 1, "reason": "slot_busy", "message": "slot shell on n1 4/4", "duration_us": 929914}]');

INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key) VALUES ('01a22da3-dfd3-77ae-9e29-b6f2d0285baf', 1099511627777, 'acme', 'local', 'shell.task', 'succeeded', 5, 0, NULL, '{}', '{}', 'the-key', true, '\x5742bbe8c3fd6ef22bb3662d5606bc78d360c69b81d089579d7824d9f1cbbc95', NULL, NULL, '01a22da3-dfd3-77ae-9e29-b6f2d0285baf', 0, 0, NULL, 17, 1, 0, 0, 0, 0, 1099511627777, 'succeeded', 'n1', '2026-11-30 18:07:24.122916+00', '2026-11-30 18:07:24.239711+00', false, '2026-11-30 18:07:24.122916+00', NULL, NULL, '[]', NULL, NULL, NULL, '2026-11-30 18:07:24.292155+00', NULL, 'cancel', 'keep', NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key) VALUES ('01a22da3-dffb-7382-840d-5495a030c5b0', 1099511627778, 'default', 'local', 'licensed', 'succeeded', 5, 0, NULL, '{}', '{}', NULL, false, '\x0c404bb7cfaca179eaa87ee9798912ac1fb2182fd888f86ac30c5bec4f96669d', NULL, NULL, '01a22da3-dffb-7382-840d-5495a030c5b0', 0, 0, NULL, 17, 1, 0, 0, 0, 0, 1099511627778, 'succeeded', 'n1', '2026-11-30 18:07:24.156727+00', '2026-11-30 18:07:24.255765+00', false, '2026-11-30 18:07:24.156727+00', NULL, NULL, '[]', NULL, NULL, NULL, '2026-11-30 18:07:24.330932+00', NULL, 'cancel', 'keep', NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key) VALUES ('01a22da3-e018-73c1-8eb1-326c46279e82', 1099511627779, 'default', 'local', 'licensed', 'succeeded', 5, 0, NULL, '{}', '{}', NULL, false, '\x0c404bb7cfaca179eaa87ee9798912ac1fb2182fd888f86ac30c5bec4f96669d', NULL, NULL, '01a22da3-e018-73c1-8eb1-326c46279e82', 0, 0, NULL, 17, 1, 0, 0, 0, 0, 1099511627779, 'succeeded', 'n1', '2026-11-30 18:07:24.330932+00', '2026-11-30 18:07:24.427115+00', false, '2026-11-30 18:07:24.192057+00', NULL, NULL, '[{"count": 1, "reason": "slot_busy", "message": "slot license 1/1", "duration_us": 138875}]', NULL, NULL, NULL, '2026-11-30 18:07:24.48407+00', NULL, 'cancel', 'keep', NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key) VALUES ('01a22da3-e151-744a-af9f-f731235387f5', 1099511627780, 'default', 'local', 'shell.task', 'dead', 5, 0, NULL, '{}', '{}', NULL, false, '\x87de9a9101ccbab86adea8caea302fa658403f011be69db424490e3d5b4c8b6c', NULL, NULL, '01a22da3-e151-744a-af9f-f731235387f5', 0, 0, NULL, 7, 1, 1, 0, 0, 0, 1099511627780, 'failed_retryable', 'n1', '2026-11-30 18:07:24.504615+00', '2026-11-30 18:07:24.586949+00', false, '2026-11-30 18:07:24.504615+00', NULL, 'exited with code 3', '[]', NULL, NULL, NULL, '2026-11-30 18:07:24.618294+00', NULL, 'cancel', 'keep', NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key) VALUES ('01a22da3-e1e1-75e9-933d-d8697f51d9a2', 1099511627781, 'default', 'local', 'licensed', 'running', 3, 0, NULL, '{}', '{}', NULL, false, '\x9d327fb21569533342246ab72cbd944e5a295097408f17349e9dfea40884391e', NULL, NULL, '01a22da3-e1e1-75e9-933d-d8697f51d9a2', 0, 0, NULL, 8, 1, 0, 0, 0, 0, 1099511627781, NULL, 'n1', '2026-11-30 18:07:24.643488+00', NULL, false, '2026-11-30 18:07:24.643488+00', NULL, NULL, '[]', NULL, NULL, NULL, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key) VALUES ('01a22da3-e232-71d3-b32d-5934ea59d6ad', 1099511627782, 'default', 'local', 'shell.task', 'running', 3, 0, NULL, '{}', '{}', NULL, false, '\x03effac869e25caf6d887b5a1be6a19c5994467f6a6db75bc45a88352f4c772e', NULL, NULL, '01a22da3-e232-71d3-b32d-5934ea59d6ad', 0, 0, NULL, 8, 1, 0, 0, 0, 0, 1099511627782, NULL, 'n1', '2026-11-30 18:07:24.724394+00', NULL, false, '2026-11-30 18:07:24.724394+00', NULL, NULL, '[]', NULL, NULL, NULL, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key) VALUES ('01a22da3-e295-7575-b4f0-4dc9d424b394', 1099511627783, 'default', 'local', 'shell.task', 'running', 3, 0, NULL, '{}', '{}', NULL, false, '\x03effac869e25caf6d887b5a1be6a19c5994467f6a6db75bc45a88352f4c772e', NULL, NULL, '01a22da3-e295-7575-b4f0-4dc9d424b394', 0, 0, NULL, 8, 1, 0, 0, 0, 0, 1099511627783, NULL, 'n1', '2026-11-30 18:07:24.822892+00', NULL, false, '2026-11-30 18:07:24.822892+00', NULL, NULL, '[]', NULL, NULL, NULL, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key) VALUES ('01a22da3-e2e3-7272-92de-4729a29fefc0', 1099511627784, 'default', 'local', 'shell.task', 'running', 3, 0, NULL, '{}', '{}', NULL, false, '\x03effac869e25caf6d887b5a1be6a19c5994467f6a6db75bc45a88352f4c772e', NULL, NULL, '01a22da3-e2e3-7272-92de-4729a29fefc0', 0, 0, NULL, 8, 1, 0, 0, 0, 0, 1099511627784, NULL, 'n1', '2026-11-30 18:07:24.900481+00', NULL, false, '2026-11-30 18:07:24.900481+00', NULL, NULL, '[]', NULL, NULL, NULL, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key) VALUES ('01a22da3-e349-7601-b825-2aff90446385', 1099511627785, 'default', 'local', 'shell.task', 'cancelled', 3, 0, NULL, '{}', '{}', NULL, false, '\x735e1faa0935c145c7ea2f6f94f169c6578d40f1aa30e023b3478731c5fe6320', NULL, NULL, '01a22da3-e349-7601-b825-2aff90446385', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, false, '2026-11-30 18:07:25.002473+00', NULL, 'not needed', '[{"count": 1, "reason": "slot_busy", "message": "slot shell on n1 4/4", "duration_us": 7053}]', NULL, NULL, NULL, '2026-11-30 18:07:25.009525+00', NULL, 'cancel', 'keep', NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key) VALUES ('01a22da3-e354-77e1-8ae3-72f11db46e49', 1099511627786, 'default', 'local', 'paused', 'queued', 1, 0, NULL, '{}', '{}', NULL, false, '\x7e03683152fe26a1c0f18a002928ed32bfa2f15139bb0614536c406a617435c7', NULL, NULL, '01a22da3-e354-77e1-8ae3-72f11db46e49', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, false, '2026-11-30 18:07:25.015198+00', NULL, NULL, '[]', NULL, NULL, '2026-11-30 18:07:25.015198+00', NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key) VALUES ('01a22da3-e35f-70d8-a2cd-a486b9bac1cb', 1099511627787, 'default', 'local', 'licensed', 'queued', 1, 0, NULL, '{}', '{}', NULL, false, '\xc6ebfe4002c5883acbfd0441f5b9269a571944503c651d97cc6cc0aff5a5a74e', NULL, NULL, '01a22da3-e35f-70d8-a2cd-a486b9bac1cb', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, false, '2026-11-30 18:07:25.024773+00', NULL, NULL, '[]', NULL, NULL, '2026-11-30 18:07:25.024773+00', NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key) VALUES ('01a22da3-e363-710a-aebe-485a59072010', 1099511627788, 'acme', 'local', 'shell.task', 'queued', 1, 30, NULL, '{"zone": "a"}', '{"team": "a"}', NULL, false, '\x735e1faa0935c145c7ea2f6f94f169c6578d40f1aa30e023b3478731c5fe6320', NULL, NULL, '01a22da3-e363-710a-aebe-485a59072010', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, false, '2026-11-30 18:07:25.02809+00', NULL, NULL, '[]', NULL, NULL, '2026-11-30 18:07:25.02809+00', NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key) VALUES ('01a22da3-e36b-7430-b1c5-cec014000c75', 1099511627789, 'default', 'local', 'shell.task', 'queued', 1, 0, NULL, '{}', '{}', 'waits', true, '\x066e3f3a309c6e311e56265ecffd531c75c8abb589b76ab590a3e547b88c1f48', 60000000, NULL, '01a22da3-e36b-7430-b1c5-cec014000c75', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, false, '2026-11-30 18:07:25.038381+00', NULL, NULL, '[]', NULL, NULL, '2026-11-30 18:07:25.038381+00', NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key) VALUES ('01a22da3-e377-747c-8499-58f1a6e127b1', 1099511627790, 'default', 'local', 'shell.task', 'scheduled', 1, 0, NULL, '{}', '{}', NULL, false, '\x735e1faa0935c145c7ea2f6f94f169c6578d40f1aa30e023b3478731c5fe6320', NULL, NULL, '01a22da3-e377-747c-8499-58f1a6e127b1', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, false, '2026-11-30 18:07:25.048498+00', NULL, NULL, '[]', '2036-11-27 18:07:25.048498+00', 'run_at', NULL, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL);
INSERT INTO public.jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key) VALUES ('01a22da3-e37a-74ba-901e-73c62fe04a00', 1099511627791, 'default', 'local', 'shell.task', 'expired', 3, 0, NULL, '{}', '{}', NULL, false, '\x735e1faa0935c145c7ea2f6f94f169c6578d40f1aa30e023b3478731c5fe6320', NULL, NULL, '01a22da3-e37a-74ba-901e-73c62fe04a00', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, false, '2026-11-30 18:07:25.051471+00', '2026-11-30 18:07:26.051471+00', 'not started within its stale_after', '[{"count": 1, "reason": "slot_busy", "message": "slot shell on n1 4/4", "duration_us": 1000518}]', NULL, NULL, NULL, '2026-11-30 18:07:26.05199+00', NULL, 'cancel', 'keep', NULL, NULL, NULL);

INSERT INTO public.kinds (name, policy, paused, dead_by_day, spent) VALUES ('licensed', '{"fifo": false, "needs": {"shell": 1, "license": 1}, "retry": {"exponential": {"max_us": 3600000000, "initial_us": 10000000, "factor_permille": 3000, "jitter_permille": 200}}, "budget": null, "dedupe": "retained", "prefer": [], "lease_us": 10000000, "priority": 0, "selector": {}, "placement": "pack", "queue_cap": null, "max_losses": 3, "concurrency": null, "max_running": null, "keep_on_wait": [], "max_failures": 3, "node_backoff": true, "retention_us": 315360000000000, "result_ttl_us": 315360000000000, "stale_after_us": null, "reserve_after_us": 30000000, "hard_time_limit_us": 3600000000, "permanent_exit_codes": [64, 65, 66, 77, 78], "reacquire_timeout_us": 300000000}', NULL, '{}', NULL);
INSERT INTO public.kinds (name, policy, paused, dead_by_day, spent) VALUES ('shell.task', '{"fifo": false, "needs": {"shell": 1}, "retry": {"exponential": {"max_us": 3600000000, "initial_us": 10000000, "factor_permille": 3000, "jitter_permille": 200}}, "budget": null, "dedupe": "retained", "prefer": [], "lease_us": 10000000, "priority": 0, "selector": {}, "placement": "pack", "queue_cap": null, "max_losses": 5, "concurrency": null, "max_running": null, "keep_on_wait": [], "max_failures": 1, "node_backoff": true, "retention_us": 315360000000000, "result_ttl_us": 315360000000000, "stale_after_us": null, "reserve_after_us": 30000000, "hard_time_limit_us": 3600000000, "permanent_exit_codes": [64, 65, 66, 77, 78], "reacquire_timeout_us": 300000000}', NULL, '{"20787": 1}', NULL);
INSERT INTO public.kinds (name, policy, paused, dead_by_day, spent) VALUES ('paused', '{"fifo": false, "needs": {"shell": 1}, "retry": {"exponential": {"max_us": 3600000000, "initial_us": 10000000, "factor_permille": 3000, "jitter_permille": 200}}, "budget": null, "dedupe": "retained", "prefer": [], "lease_us": 10000000, "priority": 0, "selector": {}, "placement": "pack", "queue_cap": null, "max_losses": 3, "concurrency": null, "max_running": null, "keep_on_wait": [], "max_failures": 3, "node_backoff": true, "retention_us": 315360000000000, "result_ttl_us": 315360000000000, "stale_after_us": null, "reserve_after_us": 30000000, "hard_time_limit_us": 3600000000, "permanent_exit_codes": [64, 65, 66, 77, 78], "reacquire_timeout_us": 300000000}', 'hold', '{}', NULL);

INSERT INTO public.leader_fence (epoch, one, holder, holder_addr, holder_peer_addr, hb, db_ident, acquired_at, seen_at) VALUES (1, true, '5eb05623-a839-4211-be9a-c1bacb1dda89', '127.0.0.1:46451', NULL, 7, '7714018656195821899/1', '2026-11-30 18:07:23.946835+00', '2026-11-30 18:07:27.957143+00');

INSERT INTO public.leases (token, job_id, kind, node, length_us, reservation, attempt, round, granted_at, phase, orphaned, tenant, concurrency_key, parked) VALUES (1099511627781, '01a22da3-e1e1-75e9-933d-d8697f51d9a2', 'licensed', 'n1', 10000000, '{"node": {"shell": 1}, "fleet": {"license": 1}}', 1, 1, '2026-11-30 18:07:24.643488+00', 'granted', false, 'default', NULL, NULL);
INSERT INTO public.leases (token, job_id, kind, node, length_us, reservation, attempt, round, granted_at, phase, orphaned, tenant, concurrency_key, parked) VALUES (1099511627782, '01a22da3-e232-71d3-b32d-5934ea59d6ad', 'shell.task', 'n1', 10000000, '{"node": {"shell": 1}, "fleet": {}}', 1, 1, '2026-11-30 18:07:24.724394+00', 'granted', false, 'default', NULL, NULL);
INSERT INTO public.leases (token, job_id, kind, node, length_us, reservation, attempt, round, granted_at, phase, orphaned, tenant, concurrency_key, parked) VALUES (1099511627783, '01a22da3-e295-7575-b4f0-4dc9d424b394', 'shell.task', 'n1', 10000000, '{"node": {"shell": 1}, "fleet": {}}', 1, 1, '2026-11-30 18:07:24.822892+00', 'granted', false, 'default', NULL, NULL);
INSERT INTO public.leases (token, job_id, kind, node, length_us, reservation, attempt, round, granted_at, phase, orphaned, tenant, concurrency_key, parked) VALUES (1099511627784, '01a22da3-e2e3-7272-92de-4729a29fefc0', 'shell.task', 'n1', 10000000, '{"node": {"shell": 1}, "fleet": {}}', 1, 1, '2026-11-30 18:07:24.900481+00', 'granted', false, 'default', NULL, NULL);

INSERT INTO public.nodes (name, instance, boot_id, incarnation, stream, labels, slots, kinds, host, agent_version, cordoned, draining_us, last_seen_at) VALUES ('n1', '7c5eb8e0-2f55-460b-8d1f-57fb354d5ffa', '44722ab6-abac-45b2-96dd-871ce911d5c8', 1, 1, '{"zone": "a"}', '{"shell": {"since": 1099511627776, "units": 4}}', '["licensed", "paused", "shell.task"]', '{"os": "linux", "arch": "x86_64", "cpus": 2, "containment": "partial", "memory_bytes": 25276510208, "disk_free_bytes": 57284411392}', '0.1.0', false, NULL, '2026-11-30 18:07:24.101468+00');

INSERT INTO public.payloads (job_id, data, content_type) VALUES ('01a22da3-dfd3-77ae-9e29-b6f2d0285baf', '\x726573756c74206173206974207761730a', 'text/plain');
INSERT INTO public.payloads (job_id, data, content_type) VALUES ('01a22da3-dffb-7382-840d-5495a030c5b0', '\x726573756c74206173206974207761730a', 'text/plain');
INSERT INTO public.payloads (job_id, data, content_type) VALUES ('01a22da3-e018-73c1-8eb1-326c46279e82', '\x726573756c74206173206974207761730a', 'text/plain');
INSERT INTO public.payloads (job_id, data, content_type) VALUES ('01a22da3-e151-744a-af9f-f731235387f5', '\x6578697420330a', 'text/plain');
INSERT INTO public.payloads (job_id, data, content_type) VALUES ('01a22da3-e1e1-75e9-933d-d8697f51d9a2', '\x7761697420676f0a', 'text/plain');
INSERT INTO public.payloads (job_id, data, content_type) VALUES ('01a22da3-e232-71d3-b32d-5934ea59d6ad', '\x7761697420676f0a', 'text/plain');
INSERT INTO public.payloads (job_id, data, content_type) VALUES ('01a22da3-e295-7575-b4f0-4dc9d424b394', '\x7761697420676f0a', 'text/plain');
INSERT INTO public.payloads (job_id, data, content_type) VALUES ('01a22da3-e2e3-7272-92de-4729a29fefc0', '\x7761697420676f0a', 'text/plain');

INSERT INTO public.results (job_id, token, data, content_type, created_at, expires_at, of_wait) VALUES ('01a22da3-dfd3-77ae-9e29-b6f2d0285baf', 1099511627777, '\x617320697420776173', 'text/plain; charset=utf-8', '2026-11-30 18:07:24.292155+00', '2036-11-27 18:07:24.292155+00', false);
INSERT INTO public.results (job_id, token, data, content_type, created_at, expires_at, of_wait) VALUES ('01a22da3-dffb-7382-840d-5495a030c5b0', 1099511627778, '\x617320697420776173', 'text/plain; charset=utf-8', '2026-11-30 18:07:24.330932+00', '2036-11-27 18:07:24.330932+00', false);
INSERT INTO public.results (job_id, token, data, content_type, created_at, expires_at, of_wait) VALUES ('01a22da3-e018-73c1-8eb1-326c46279e82', 1099511627779, '\x617320697420776173', 'text/plain; charset=utf-8', '2026-11-30 18:07:24.48407+00', '2036-11-27 18:07:24.48407+00', false);

INSERT INTO public.slots (name, scope, capacity, capacity_since, paused, paused_until, rate_tokens, rate_per_us, rate_burst, rate_full_at, throttled_until) VALUES ('shell', 'node', NULL, 1099511627776, false, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.slots (name, scope, capacity, capacity_since, paused, paused_until, rate_tokens, rate_per_us, rate_burst, rate_full_at, throttled_until) VALUES ('license', 'fleet', 2, 1099511627784, false, NULL, NULL, NULL, NULL, NULL, NULL);

ALTER TABLE ONLY public._sqlx_migrations
    ADD CONSTRAINT _sqlx_migrations_pkey PRIMARY KEY (version);

ALTER TABLE ONLY public.attempts
    ADD CONSTRAINT attempts_pkey PRIMARY KEY (job_id, token);

ALTER TABLE public.attempts
    ADD CONSTRAINT attempts_usage_is_an_object CHECK ((jsonb_typeof(usage) = 'object'::text)) NOT VALID;

ALTER TABLE ONLY public.classes
    ADD CONSTRAINT classes_pkey EXCLUDE USING hash (class WITH =);

ALTER TABLE public.jobs
    ADD CONSTRAINT jobs_final_has_no_wait CHECK (((detached IS NULL) OR (finished_at IS NULL))) NOT VALID;

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

ALTER TABLE ONLY public.nodes
    ADD CONSTRAINT nodes_pkey PRIMARY KEY (name);

ALTER TABLE ONLY public.payloads
    ADD CONSTRAINT payloads_pkey PRIMARY KEY (job_id);

ALTER TABLE ONLY public.results
    ADD CONSTRAINT results_pkey PRIMARY KEY (job_id, token);

ALTER TABLE ONLY public.slots
    ADD CONSTRAINT slots_pkey PRIMARY KEY (name);

ALTER TABLE ONLY public.tenants
    ADD CONSTRAINT tenants_pkey PRIMARY KEY (name);

CREATE INDEX jobs_dead_of_kind ON public.jobs USING btree (kind) WHERE (state = 'dead'::text);

CREATE UNIQUE INDEX jobs_dedupe_held ON public.jobs USING btree (tenant, kind, dedupe_key) WHERE dedupe_held;

CREATE INDEX jobs_finished ON public.jobs USING btree (kind, finished_at) WHERE (finished_at IS NOT NULL);

CREATE INDEX jobs_live ON public.jobs USING btree (finished_at) WHERE (finished_at IS NULL);

CREATE INDEX jobs_newest ON public.jobs USING btree (created_at, id);

CREATE INDEX jobs_newest_dead ON public.jobs USING btree (created_at, id) WHERE (state = 'dead'::text);

CREATE INDEX jobs_newest_of_key ON public.jobs USING btree (dedupe_key, created_at, id) WHERE (dedupe_key IS NOT NULL);

CREATE INDEX jobs_newest_of_kind ON public.jobs USING btree (kind, created_at, id);

CREATE INDEX jobs_newest_of_parent ON public.jobs USING btree (parent_id, created_at, id) WHERE (parent_id IS NOT NULL);

CREATE UNIQUE INDEX leases_one_live_per_job ON public.leases USING btree (job_id) WHERE (phase <> 'unreaped'::text);

CREATE INDEX results_due ON public.results USING btree (expires_at);

CREATE TRIGGER jobs_final_never_changes BEFORE UPDATE ON public.jobs FOR EACH ROW WHEN (((old.finished_at IS NOT NULL) AND (new.round <= old.round) AND ((new.dedupe_held > old.dedupe_held) OR ((((((((((((((((((new.state IS DISTINCT FROM old.state) OR (new.finished_at IS DISTINCT FROM old.finished_at)) OR (new.token IS DISTINCT FROM old.token)) OR (new.last_outcome IS DISTINCT FROM old.last_outcome)) OR (new.last_node IS DISTINCT FROM old.last_node)) OR (new.failures IS DISTINCT FROM old.failures)) OR (new.losses IS DISTINCT FROM old.losses)) OR (new.returns IS DISTINCT FROM old.returns)) OR (new.returns_in_row IS DISTINCT FROM old.returns_in_row)) OR (new.round IS DISTINCT FROM old.round)) OR (new.priority IS DISTINCT FROM old.priority)) OR (new.children IS DISTINCT FROM old.children)) OR (new.cancel_requested IS DISTINCT FROM old.cancel_requested)) OR (new.granted_at IS DISTINCT FROM old.granted_at)) OR (new.started_at IS DISTINCT FROM old.started_at)) OR (new.stale_at IS DISTINCT FROM old.stale_at)) OR (new.reason IS DISTINCT FROM old.reason)) OR (new.waits IS DISTINCT FROM old.waits))))) EXECUTE FUNCTION public.jobs_refuse_row();

COMMENT ON TRIGGER jobs_final_never_changes ON public.jobs IS 'a final row admits a new round, or the release of its key';

CREATE TRIGGER jobs_token_never_falls BEFORE UPDATE ON public.jobs FOR EACH ROW WHEN ((new.token < old.token)) EXECUTE FUNCTION public.jobs_refuse_row();

COMMENT ON TRIGGER jobs_token_never_falls ON public.jobs IS 'the second wall of fencing: a token only grows';

ALTER TABLE ONLY public.attempts
    ADD CONSTRAINT attempts_belong_to_a_job FOREIGN KEY (job_id) REFERENCES public.jobs(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.payloads
    ADD CONSTRAINT payloads_belong_to_a_job FOREIGN KEY (job_id) REFERENCES public.jobs(id) ON DELETE CASCADE;

ALTER TABLE ONLY public.results
    ADD CONSTRAINT results_belong_to_a_job FOREIGN KEY (job_id) REFERENCES public.jobs(id) ON DELETE CASCADE;

