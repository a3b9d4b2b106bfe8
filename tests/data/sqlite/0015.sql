begin;
CREATE TABLE _sqlx_migrations (
    version BIGINT PRIMARY KEY,
    description TEXT NOT NULL,
    installed_on TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    success BOOLEAN NOT NULL,
    checksum BLOB NOT NULL,
    execution_time BIGINT NOT NULL
);
insert into _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) values (1, 'create_jobs', '2026-11-30 18:07:18', 1, X'CFBBC8BDEE2C07D66023D04EBF1E940EE328D8839CDB3E3252177FE8DFB87977371C9F25F98EE3FB14FC1B8B1C96FACD', 4767717);
insert into _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) values (10, 'name_tenant_of_leases', '2026-11-30 18:07:18', 1, X'329D2575E2F9C015F366A5246F87F04299E8D42F49A629A73E767E86162DC964CC92C031BDA998C3F694978BBD1A2AFB', 1581603);
insert into _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) values (11, 'create_tenants', '2026-11-30 18:07:18', 1, X'ECECDDBA11EA6F606AC38CBF5A5F65E147D99F7127D408F8EBBE11D80924F9F2855349A692463BD652EA272CC7E653A8', 545947);
insert into _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) values (12, 'throttle_slots', '2026-11-30 18:07:18', 1, X'560D216483E84163FE9E1D01A3033A33337E8FBD5A53095AEE5411414BA2AC7862FC561E691C1AE874C6AECC803F8B4D', 1533828);
insert into _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) values (13, 'add_budgets', '2026-11-30 18:07:18', 1, X'5588DF71604C8C731C6010233AD95CE51F73B5517E484351F915C4B3FD460A7AF66C08BDC45208C5336BAE77C601934C', 2504250);
insert into _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) values (14, 'add_concurrency_keys', '2026-11-30 18:07:18', 1, X'D477C5E24EF894D82B59808A7BFCA130B62F64F345B098D4A0FAC2B32EA5C9FB1211A075FBB29A92314D10779C421C96', 2597022);
insert into _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) values (15, 'add_parked_leases', '2026-11-30 18:07:18', 1, X'ED6D0D5D83BF89588DF9CE99519D07CEED9C11D4E28E77ADA3BCF4C3D6FC808734FD5B6C306AF1C90AC61A197C686233', 2084356);
insert into _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) values (2, 'create_leases', '2026-11-30 18:07:18', 1, X'839270F9D17AE32019A4CBA8C7C346536583A9AC8D953097441E44B26DDE8D4015068B38C4DDAF42E4A4D12A0E3A1279', 4983387);
insert into _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) values (3, 'create_fleet', '2026-11-30 18:07:18', 1, X'DAA58D6896E01D259DAF3789FCD8FBB1D846CEB939DBC18542DD2B9E732E107D97C0B3638A1AF0393BD773A329680FA4', 4105676);
insert into _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) values (4, 'create_leader_fence', '2026-11-30 18:07:18', 1, X'C86E27EB1CEE774821BECA8252D3C216FD041C82346663579D53E4A4FD5E8810E17598D236CD64DD51C67773E6DDEDD6', 1031477);
insert into _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) values (5, 'create_invariants', '2026-11-30 18:07:18', 1, X'C6128764F9601AE504621698A34BF8EA6BF4A34CF77256E2D6EF0FB32ED4B4EC9DF3F364D9C2E30C3351077356B626CF', 4001450);
insert into _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) values (6, 'mark_orphaned_leases', '2026-11-30 18:07:18', 1, X'2B541286E3DE1CA96ED0482D02BCF8D2295A0A68BCB5B5C5CF2FC60BDA6259C8C69DFB65A5D240520F9FF0862AFD2648', 3953678);
insert into _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) values (7, 'add_tracestate', '2026-11-30 18:07:18', 1, X'F8E2AB5C7523AD9F73841CBD0C7EC764A3A40CD8F03E76A2EBF275B711BD6415C9906D72B4B1E3A663D73FF5803505EC', 3977762);
insert into _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) values (8, 'add_slot_rates', '2026-11-30 18:07:18', 1, X'E52FC961FC62F3C14CFE11AA1F4DBEC8D4D20171B247F42689FAD95B210FE60821B0870D59C77AAB59ABC2D60E63E61B', 4212819);
insert into _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) values (9, 'add_child_waits', '2026-11-30 18:07:18', 1, X'28DF8BE439D3F59870F921A8CD37A8732964D55B8BBDF91B336526EB870434A51ACA49F8574F39CDE0B940ABED4BB4C7', 8240358);
CREATE TABLE jobs (
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
  finished_at        integer, tracestate         text                        -- W3C tracestate of its enqueue, beside traceparent
  constraint jobs_state_of_a_trace check (tracestate is null or traceparent is not null), on_parent_cancel text not null default 'cancel' -- what becomes of it when its parent is cancelled
  constraint jobs_on_parent_cancel_is_known check (on_parent_cancel in ('cancel', 'keep')), on_parent_lost text not null default 'keep' -- what becomes of it when an execution of its parent is lost
  constraint jobs_on_parent_lost_is_known check (on_parent_lost in ('cancel', 'keep')), waiting_at integer -- waiting: since when
  constraint jobs_waiting_has_waiting_at check ((state = 'waiting') = (waiting_at is not null)), detached text -- JSON, the newest wait for which it detached in this round; null: none
  constraint jobs_final_has_no_wait check (detached is null or finished_at is null), concurrency_key text,                    -- final: when that was recorded
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
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key) values ('01a22da3-cb7c-7021-bb26-92032c747ae3', 1099511627777, 'acme', 'local', 'shell.task', 'succeeded', 5, 0, NULL, '{}', '{}', 'the-key', 1, X'5742BBE8C3FD6EF22BB3662D5606BC78D360C69B81D089579D7824D9F1CBBC95', NULL, NULL, '01a22da3-cb7c-7021-bb26-92032c747ae3', 0, 0, NULL, 17, 1, 0, 0, 0, 0, 1099511627777, 'succeeded', 'n1', 1796062038910929, 1796062038956978, 0, 1796062038910929, NULL, NULL, '[]', NULL, NULL, NULL, 1796062038983748, NULL, 'cancel', 'keep', NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key) values ('01a22da3-cb8b-717a-8ba5-9cd8f5c6eca1', 1099511627778, 'default', 'local', 'licensed', 'succeeded', 5, 0, NULL, '{}', '{}', NULL, 0, X'0C404BB7CFACA179EAA87EE9798912AC1FB2182FD888F86AC30C5BEC4F96669D', NULL, NULL, '01a22da3-cb8b-717a-8ba5-9cd8f5c6eca1', 0, 0, NULL, 17, 1, 0, 0, 0, 0, 1099511627778, 'succeeded', 'n1', 1796062038927610, 1796062039013803, 0, 1796062038927610, NULL, NULL, '[]', NULL, NULL, NULL, 1796062039054273, NULL, 'cancel', 'keep', NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key) values ('01a22da3-cb96-744f-a739-f43d3494bb7e', 1099511627779, 'default', 'local', 'licensed', 'succeeded', 5, 0, NULL, '{}', '{}', NULL, 0, X'0C404BB7CFACA179EAA87EE9798912AC1FB2182FD888F86AC30C5BEC4F96669D', NULL, NULL, '01a22da3-cb96-744f-a739-f43d3494bb7e', 0, 0, NULL, 17, 1, 0, 0, 0, 0, 1099511627779, 'succeeded', 'n1', 1796062039072990, 1796062039144563, 0, 1796062038935705, NULL, NULL, '[{"reason":"slot_busy","message":"slot license 1/1","count":1,"duration_us":137286}]', NULL, NULL, NULL, 1796062039168620, NULL, 'cancel', 'keep', NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key) values ('01a22da3-cc90-709b-af26-9ee9d77cf03c', 1099511627780, 'default', 'local', 'shell.task', 'dead', 5, 0, NULL, '{}', '{}', NULL, 0, X'87DE9A9101CCBAB86ADEA8CAEA302FA658403F011BE69DB424490E3D5B4C8B6C', NULL, NULL, '01a22da3-cc90-709b-af26-9ee9d77cf03c', 0, 0, NULL, 7, 1, 1, 0, 0, 0, 1099511627780, 'failed_retryable', 'n1', 1796062039185613, 1796062039262061, 0, 1796062039185613, NULL, 'exited with code 3', '[]', NULL, NULL, NULL, 1796062039297195, NULL, 'cancel', 'keep', NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key) values ('01a22da3-cd12-73e0-bf2f-5f2d384526b3', 1099511627781, 'default', 'local', 'licensed', 'running', 3, 0, NULL, '{}', '{}', NULL, 0, X'9D327FB21569533342246AB72CBD944E5A295097408F17349E9DFEA40884391E', NULL, NULL, '01a22da3-cd12-73e0-bf2f-5f2d384526b3', 0, 0, NULL, 8, 1, 0, 0, 0, 0, 1099511627781, NULL, 'n1', 1796062039315895, NULL, 0, 1796062039315895, NULL, NULL, '[]', NULL, NULL, NULL, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key) values ('01a22da3-cd63-731f-b87c-cc731c01673b', 1099511627782, 'default', 'local', 'shell.task', 'running', 3, 0, NULL, '{}', '{}', NULL, 0, X'03EFFAC869E25CAF6D887B5A1BE6A19C5994467F6A6DB75BC45A88352F4C772E', NULL, NULL, '01a22da3-cd63-731f-b87c-cc731c01673b', 0, 0, NULL, 8, 1, 0, 0, 0, 0, 1099511627782, NULL, 'n1', 1796062039396456, NULL, 0, 1796062039396456, NULL, NULL, '[]', NULL, NULL, NULL, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key) values ('01a22da3-cda8-7784-aa3f-c1a1d0fec85f', 1099511627783, 'default', 'local', 'shell.task', 'running', 3, 0, NULL, '{}', '{}', NULL, 0, X'03EFFAC869E25CAF6D887B5A1BE6A19C5994467F6A6DB75BC45A88352F4C772E', NULL, NULL, '01a22da3-cda8-7784-aa3f-c1a1d0fec85f', 0, 0, NULL, 8, 1, 0, 0, 0, 0, 1099511627783, NULL, 'n1', 1796062039465793, NULL, 0, 1796062039465793, NULL, NULL, '[]', NULL, NULL, NULL, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key) values ('01a22da3-cdec-776c-a184-ff3983a06600', 1099511627784, 'default', 'local', 'shell.task', 'running', 3, 0, NULL, '{}', '{}', NULL, 0, X'03EFFAC869E25CAF6D887B5A1BE6A19C5994467F6A6DB75BC45A88352F4C772E', NULL, NULL, '01a22da3-cdec-776c-a184-ff3983a06600', 0, 0, NULL, 8, 1, 0, 0, 0, 0, 1099511627784, NULL, 'n1', 1796062039533338, NULL, 0, 1796062039533338, NULL, NULL, '[]', NULL, NULL, NULL, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key) values ('01a22da3-ce3a-753e-a8a2-3a56088179ec', 1099511627785, 'default', 'local', 'shell.task', 'cancelled', 3, 0, NULL, '{}', '{}', NULL, 0, X'735E1FAA0935C145C7EA2F6F94F169C6578D40F1AA30E023B3478731C5FE6320', NULL, NULL, '01a22da3-ce3a-753e-a8a2-3a56088179ec', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, 0, 1796062039611292, NULL, 'not needed', '[{"reason":"slot_busy","message":"slot shell on n1 4/4","count":1,"duration_us":4035}]', NULL, NULL, NULL, 1796062039615327, NULL, 'cancel', 'keep', NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key) values ('01a22da3-ce42-7540-9d5d-6a3987d29ee0', 1099511627786, 'default', 'local', 'paused', 'queued', 1, 0, NULL, '{}', '{}', NULL, 0, X'7E03683152FE26A1C0F18A002928ED32BFA2F15139BB0614536C406A617435C7', NULL, NULL, '01a22da3-ce42-7540-9d5d-6a3987d29ee0', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, 0, 1796062039619873, NULL, NULL, '[]', NULL, NULL, 1796062039619873, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key) values ('01a22da3-ce45-7025-ba21-6e3993be7fc0', 1099511627787, 'default', 'local', 'licensed', 'queued', 1, 0, NULL, '{}', '{}', NULL, 0, X'C6EBFE4002C5883ACBFD0441F5B9269A571944503C651D97CC6CC0AFF5A5A74E', NULL, NULL, '01a22da3-ce45-7025-ba21-6e3993be7fc0', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, 0, 1796062039623177, NULL, NULL, '[]', NULL, NULL, 1796062039623177, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key) values ('01a22da3-ce4b-75e2-a713-d49d789ab5d5', 1099511627788, 'acme', 'local', 'shell.task', 'queued', 1, 30, NULL, '{"zone":"a"}', '{"team":"a"}', NULL, 0, X'735E1FAA0935C145C7EA2F6F94F169C6578D40F1AA30E023B3478731C5FE6320', NULL, NULL, '01a22da3-ce4b-75e2-a713-d49d789ab5d5', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, 0, 1796062039628658, NULL, NULL, '[]', NULL, NULL, 1796062039628658, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key) values ('01a22da3-ce51-74b3-80c6-20420f688b92', 1099511627789, 'default', 'local', 'shell.task', 'queued', 1, 0, NULL, '{}', '{}', 'waits', 1, X'066E3F3A309C6E311E56265ECFFD531C75C8ABB589B76AB590A3E547B88C1F48', 60000000, NULL, '01a22da3-ce51-74b3-80c6-20420f688b92', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, 0, 1796062039638203, NULL, NULL, '[]', NULL, NULL, 1796062039638203, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key) values ('01a22da3-ce5b-77c7-bd1d-1ade74945a62', 1099511627790, 'default', 'local', 'shell.task', 'scheduled', 1, 0, NULL, '{}', '{}', NULL, 0, X'735E1FAA0935C145C7EA2F6F94F169C6578D40F1AA30E023B3478731C5FE6320', NULL, NULL, '01a22da3-ce5b-77c7-bd1d-1ade74945a62', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, 0, 1796062039644447, NULL, NULL, '[]', 2111422039644447, 'run_at', NULL, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key) values ('01a22da3-ce61-777a-a19f-1294e776b80e', 1099511627791, 'default', 'local', 'shell.task', 'expired', 3, 0, NULL, '{}', '{}', NULL, 0, X'735E1FAA0935C145C7EA2F6F94F169C6578D40F1AA30E023B3478731C5FE6320', NULL, NULL, '01a22da3-ce61-777a-a19f-1294e776b80e', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, 0, 1796062039651129, 1796062040651129, 'not started within its stale_after', '[{"reason":"slot_busy","message":"slot shell on n1 4/4","count":1,"duration_us":1001026}]', NULL, NULL, NULL, 1796062040652157, NULL, 'cancel', 'keep', NULL, NULL, NULL);
CREATE TABLE payloads (
  job_id       text not null, -- the job
  data         blob not null, -- opaque to the server
  content_type text not null, -- a media type, as the producer said; may be empty
  constraint payloads_pkey primary key (job_id),
  constraint payloads_belong_to_a_job foreign key (job_id) references jobs (id) on delete cascade
) strict;
insert into payloads (job_id, data, content_type) values ('01a22da3-cb7c-7021-bb26-92032c747ae3', X'726573756C74206173206974207761730A', 'text/plain');
insert into payloads (job_id, data, content_type) values ('01a22da3-cb8b-717a-8ba5-9cd8f5c6eca1', X'726573756C74206173206974207761730A', 'text/plain');
insert into payloads (job_id, data, content_type) values ('01a22da3-cb96-744f-a739-f43d3494bb7e', X'726573756C74206173206974207761730A', 'text/plain');
insert into payloads (job_id, data, content_type) values ('01a22da3-cc90-709b-af26-9ee9d77cf03c', X'6578697420330A', 'text/plain');
insert into payloads (job_id, data, content_type) values ('01a22da3-cd12-73e0-bf2f-5f2d384526b3', X'7761697420676F0A', 'text/plain');
insert into payloads (job_id, data, content_type) values ('01a22da3-cd63-731f-b87c-cc731c01673b', X'7761697420676F0A', 'text/plain');
insert into payloads (job_id, data, content_type) values ('01a22da3-cda8-7784-aa3f-c1a1d0fec85f', X'7761697420676F0A', 'text/plain');
insert into payloads (job_id, data, content_type) values ('01a22da3-cdec-776c-a184-ff3983a06600', X'7761697420676F0A', 'text/plain');
CREATE TABLE results (
  job_id       text    not null, -- the job
  token        integer not null, -- of the lease of the execution
  data         blob    not null, -- opaque to the server
  content_type text    not null, -- a media type, as the node said; may be empty
  created_at   integer not null, -- when it was stored
  expires_at   integer not null, of_wait integer not null default 0 -- 1: no result, but the state that an execution left which detached
  constraint results_flags_are_flags check (of_wait in (0, 1)), -- when it is swept
  constraint results_pkey primary key (job_id, token),
  constraint results_belong_to_a_job foreign key (job_id) references jobs (id) on delete cascade
) strict;
insert into results (job_id, token, data, content_type, created_at, expires_at, of_wait) values ('01a22da3-cb7c-7021-bb26-92032c747ae3', 1099511627777, X'617320697420776173', 'text/plain; charset=utf-8', 1796062038983748, 2111422038983748, 0);
insert into results (job_id, token, data, content_type, created_at, expires_at, of_wait) values ('01a22da3-cb8b-717a-8ba5-9cd8f5c6eca1', 1099511627778, X'617320697420776173', 'text/plain; charset=utf-8', 1796062039054273, 2111422039054273, 0);
insert into results (job_id, token, data, content_type, created_at, expires_at, of_wait) values ('01a22da3-cb96-744f-a739-f43d3494bb7e', 1099511627779, X'617320697420776173', 'text/plain; charset=utf-8', 1796062039168620, 2111422039168620, 0);
CREATE TABLE attempts (
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
  ended_at   integer not null, detached integer not null default 0 -- 1: it ended in order to wait for children, and charges nothing
  constraint attempts_flags_are_flags check (detached in (0, 1)), usage text                                     -- JSON, counter -> what it used, as it reported; null: nothing
  constraint attempts_usage_is_an_object check (json_type(usage) = 'object'), -- when its end was recorded
  constraint attempts_pkey primary key (job_id, token),
  constraint attempts_belong_to_a_job foreign key (job_id) references jobs (id) on delete cascade,
  constraint attempts_outcome_is_known check (outcome in ('succeeded', 'failed_retryable', 'failed_permanent',
    'timed_out', 'stalled', 'lost', 'returned', 'cancelled')),
  constraint attempts_number_from_one check (attempt >= 1 and round >= 1)
) strict;
insert into attempts (job_id, token, attempt, round, node, outcome, cause, error, exit_code, granted_at, started_at, ended_at, detached, usage) values ('01a22da3-cc90-709b-af26-9ee9d77cf03c', 1099511627780, 1, 1, 'n1', 'failed_retryable', 'exit', 'exited with code 3', 3, 1796062039185613, 1796062039262061, 1796062039297195, 0, NULL);
CREATE TABLE leases (
  token       integer not null, -- its identity, epoch << 40 | n
  job_id      text    not null, -- the job; it may be gone
  kind        text    not null, -- of the job, for people
  node        text    not null, -- who holds it
  length_us   integer not null, -- how long it lasts without a renewal, fixed at the grant
  reservation text    not null, -- JSON, {node: slot -> units, fleet: slot -> units}
  attempt     integer not null, -- the number of the attempt
  round       integer not null, -- of the job
  granted_at  integer not null, -- when it was granted
  phase       text    not null, orphaned integer not null default 0 -- 1: another instance or boot of its node said Hello; it runs out, whoever lists it
  constraint leases_flags_are_flags check (orphaned in (0, 1)), tenant text not null default 'default', concurrency_key text, parked text -- JSON, the newest wait under it during which its process stays; null: none, or it has ended
  constraint leases_parked_is_granted check (parked is null or phase = 'granted'), -- granted: no outcome yet; finished: not reaped yet; unreaped: over
  constraint leases_pkey primary key (token),
  constraint leases_phase_is_known check (phase in ('granted', 'finished', 'unreaped')),
  constraint leases_token_from_one check (token > 0),
  constraint leases_attempt_from_one check (attempt >= 1 and round >= 1)
) strict;
insert into leases (token, job_id, kind, node, length_us, reservation, attempt, round, granted_at, phase, orphaned, tenant, concurrency_key, parked) values (1099511627781, '01a22da3-cd12-73e0-bf2f-5f2d384526b3', 'licensed', 'n1', 10000000, '{"node":{"shell":1},"fleet":{"license":1}}', 1, 1, 1796062039315895, 'granted', 0, 'default', NULL, NULL);
insert into leases (token, job_id, kind, node, length_us, reservation, attempt, round, granted_at, phase, orphaned, tenant, concurrency_key, parked) values (1099511627782, '01a22da3-cd63-731f-b87c-cc731c01673b', 'shell.task', 'n1', 10000000, '{"node":{"shell":1},"fleet":{}}', 1, 1, 1796062039396456, 'granted', 0, 'default', NULL, NULL);
insert into leases (token, job_id, kind, node, length_us, reservation, attempt, round, granted_at, phase, orphaned, tenant, concurrency_key, parked) values (1099511627783, '01a22da3-cda8-7784-aa3f-c1a1d0fec85f', 'shell.task', 'n1', 10000000, '{"node":{"shell":1},"fleet":{}}', 1, 1, 1796062039465793, 'granted', 0, 'default', NULL, NULL);
insert into leases (token, job_id, kind, node, length_us, reservation, attempt, round, granted_at, phase, orphaned, tenant, concurrency_key, parked) values (1099511627784, '01a22da3-cdec-776c-a184-ff3983a06600', 'shell.task', 'n1', 10000000, '{"node":{"shell":1},"fleet":{}}', 1, 1, 1796062039533338, 'granted', 0, 'default', NULL, NULL);
CREATE TABLE kinds (
  name        text not null, -- its name
  policy      text not null, -- JSON, what the fleet file says of it
  paused      text,          -- hold or reject while none of its jobs may start; null: they may
  dead_by_day text not null, spent text                                     -- JSON, counter -> {since, amount}: spent in the window that began then
  constraint kinds_spent_is_an_object check (json_type(spent) = 'object'), -- JSON, day since 1970 (UTC) -> jobs that became dead
  constraint kinds_pkey primary key (name),
  constraint kinds_pause_is_known check (paused in ('hold', 'reject'))
) strict;
insert into kinds (name, policy, paused, dead_by_day, spent) values ('licensed', '{"needs":{"license":1,"shell":1},"selector":{},"prefer":[],"node_backoff":true,"lease_us":10000000,"max_failures":3,"max_losses":3,"retry":{"exponential":{"initial_us":10000000,"factor_permille":3000,"max_us":3600000000,"jitter_permille":200}},"permanent_exit_codes":[64,65,66,77,78],"hard_time_limit_us":3600000000,"queue_cap":null,"max_running":null,"concurrency":null,"fifo":false,"reserve_after_us":30000000,"budget":null,"stale_after_us":null,"dedupe":"retained","placement":"pack","priority":0,"result_ttl_us":315360000000000,"retention_us":315360000000000,"keep_on_wait":[],"reacquire_timeout_us":300000000}', NULL, '{}', NULL);
insert into kinds (name, policy, paused, dead_by_day, spent) values ('paused', '{"needs":{"shell":1},"selector":{},"prefer":[],"node_backoff":true,"lease_us":10000000,"max_failures":3,"max_losses":3,"retry":{"exponential":{"initial_us":10000000,"factor_permille":3000,"max_us":3600000000,"jitter_permille":200}},"permanent_exit_codes":[64,65,66,77,78],"hard_time_limit_us":3600000000,"queue_cap":null,"max_running":null,"concurrency":null,"fifo":false,"reserve_after_us":30000000,"budget":null,"stale_after_us":null,"dedupe":"retained","placement":"pack","priority":0,"result_ttl_us":315360000000000,"retention_us":315360000000000,"keep_on_wait":[],"reacquire_timeout_us":300000000}', 'hold', '{}', NULL);
insert into kinds (name, policy, paused, dead_by_day, spent) values ('shell.task', '{"needs":{"shell":1},"selector":{},"prefer":[],"node_backoff":true,"lease_us":10000000,"max_failures":1,"max_losses":5,"retry":{"exponential":{"initial_us":10000000,"factor_permille":3000,"max_us":3600000000,"jitter_permille":200}},"permanent_exit_codes":[64,65,66,77,78],"hard_time_limit_us":3600000000,"queue_cap":null,"max_running":null,"concurrency":null,"fifo":false,"reserve_after_us":30000000,"budget":null,"stale_after_us":null,"dedupe":"retained","placement":"pack","priority":0,"result_ttl_us":315360000000000,"retention_us":315360000000000,"keep_on_wait":[],"reacquire_timeout_us":300000000}', NULL, '{"20787":1}', NULL);
CREATE TABLE slots (
  name           text    not null, -- its name
  scope          text    not null, -- node: each node reports its own; fleet: one capacity for all
  capacity       integer,          -- units of a fleet slot
  capacity_since integer not null, -- the newest token granted before its capacity last changed
  paused         integer not null, -- nothing that needs it may start
  paused_until   integer, rate_tokens  integer                           -- units that may be granted in each rate_per_us; null: no rate
  constraint slots_rate_from_one check (rate_tokens >= 1), rate_per_us  integer                           -- the time of rate_tokens
  constraint slots_rate_has_its_time check ((rate_per_us is null) = (rate_tokens is null)), rate_burst   integer                           -- units that may be granted at once after a time of rest
  constraint slots_rate_has_its_burst check ((rate_burst is null) = (rate_tokens is null)), rate_full_at integer                           -- when its bucket is full again; null: it is
  constraint slots_bucket_of_a_rate check (rate_full_at is null or rate_tokens is not null), throttled_until integer                        -- nothing that needs it may start until then: its provider said so
  constraint slots_throttled_of_the_fleet check (throttled_until is null or scope = 'fleet'),          -- when the pause ends by itself; null: it does not
  constraint slots_pkey primary key (name),
  constraint slots_scope_is_known check (scope in ('node', 'fleet')),
  constraint slots_fleet_has_capacity check ((scope = 'fleet') = (capacity is not null)),
  constraint slots_capacity_not_negative check (capacity >= 0),
  constraint slots_until_only_paused check (paused_until is null or paused),
  constraint slots_flags_are_flags check (paused in (0, 1))
) strict;
insert into slots (name, scope, capacity, capacity_since, paused, paused_until, rate_tokens, rate_per_us, rate_burst, rate_full_at, throttled_until) values ('license', 'fleet', 2, 1099511627784, 0, NULL, NULL, NULL, NULL, NULL, NULL);
insert into slots (name, scope, capacity, capacity_since, paused, paused_until, rate_tokens, rate_per_us, rate_burst, rate_full_at, throttled_until) values ('shell', 'node', NULL, 1099511627776, 0, NULL, NULL, NULL, NULL, NULL, NULL);
CREATE TABLE nodes (
  name          text    not null, -- its name
  instance      text    not null, -- random, made once with the agent's state directory
  boot_id       text    not null, -- of its host's present boot
  incarnation   integer not null, -- plus one at each start of its agent
  stream        integer not null, -- the count of Hellos in that incarnation
  labels        text    not null, -- JSON, for routing
  slots         text    not null, -- JSON, slot -> {units, since: the newest token granted before units changed}
  kinds         text    not null, -- JSON list, what it runs
  host          text    not null, -- JSON, what its host offers
  agent_version text    not null, -- for people
  cordoned      integer not null, -- it takes no new grants
  draining_us   integer,          -- it takes no new grants, and what runs ends within this; null: it is not drained
  last_seen_at  integer not null, -- when it was last heard, saved once a minute, for people
  constraint nodes_pkey primary key (name),
  constraint nodes_flags_are_flags check (cordoned in (0, 1))
) strict;
insert into nodes (name, instance, boot_id, incarnation, stream, labels, slots, kinds, host, agent_version, cordoned, draining_us, last_seen_at) values ('n1', 'f2ccfd63-ef28-4022-8ee2-cb76016f818b', '44722ab6-abac-45b2-96dd-871ce911d5c8', 1, 1, '{"zone":"a"}', '{"shell":{"units":4,"since":1099511627776}}', '["licensed","paused","shell.task"]', '{"cpus":2,"memory_bytes":25276510208,"disk_free_bytes":57341284352,"os":"linux","arch":"x86_64","containment":"partial"}', '0.1.0', 0, NULL, 1796062038900377);
CREATE TABLE classes (
  class    text not null, -- the text of (kind, needs, selector, tenant)
  timeline text not null, -- JSON list of {since, reason, message, tries, duration_us}, the oldest first
  constraint classes_pkey primary key (class)
) strict;
insert into classes (class, timeline) values ('licensed|license:1,shell:1||default', '[{"since":1796062039623177,"reason":"slot_busy","message":"slot shell on n1 4/4","tries":1,"duration_us":186243}]');
insert into classes (class, timeline) values ('paused|shell:1||default', '[{"since":1796062039619873,"reason":"kind_paused","message":"kind paused","tries":1,"duration_us":189547}]');
insert into classes (class, timeline) values ('shell.task|shell:1|zone=a|acme', '[{"since":1796062039628658,"reason":"slot_busy","message":"slot shell on n1 4/4","tries":1,"duration_us":180761}]');
insert into classes (class, timeline) values ('shell.task|shell:1||default|64s', '[{"since":1796062039638203,"reason":"slot_busy","message":"slot shell on n1 4/4","tries":1,"duration_us":171217}]');
CREATE TABLE leader_fence (
  epoch            integer not null,           -- changes only at a takeover
  one              integer not null default 1, -- there is one row
  holder           text,                       -- who leads, random per process start; null: nobody, or SQLite
  holder_addr      text,                       -- its public listener
  holder_peer_addr text,                       -- its listener for servers
  hb               integer not null default 0, -- how often it was renewed or taken over
  db_ident         text,                       -- the identity of the database cluster at the takeover
  acquired_at      integer,                    -- the database's clock at the takeover, for people, never compared
  seen_at          integer,                    -- the database's clock at the newest renewal, for people
  constraint leader_fence_pkey primary key (epoch),
  constraint leader_fence_one_row unique (one),
  constraint leader_fence_one check (one = 1),
  constraint leader_fence_epoch_fits_a_token check (epoch between 0 and 8388607)
) strict;
insert into leader_fence (epoch, one, holder, holder_addr, holder_peer_addr, hb, db_ident, acquired_at, seen_at) values (1, 1, NULL, NULL, NULL, 1, NULL, 1796062038802000, NULL);
CREATE TABLE tenants (
  name   text    not null, -- its name
  weight integer not null, -- of two that both have work waiting, twice the weight gets twice as much
  constraint tenants_pkey primary key (name),
  constraint tenants_weight_is_bounded check (weight between 1 and 1000)
) strict;
CREATE UNIQUE INDEX jobs_dedupe_held on jobs (tenant, kind, dedupe_key) where dedupe_held;
CREATE INDEX jobs_live on jobs (finished_at) where finished_at is null;
CREATE INDEX jobs_finished on jobs (kind, finished_at) where finished_at is not null;
CREATE INDEX jobs_newest on jobs (created_at, id);
CREATE INDEX jobs_newest_of_kind on jobs (kind, created_at, id);
CREATE INDEX jobs_newest_dead on jobs (created_at, id) where state = 'dead';
CREATE INDEX jobs_newest_of_parent on jobs (parent_id, created_at, id) where parent_id is not null;
CREATE INDEX jobs_newest_of_key on jobs (dedupe_key, created_at, id) where dedupe_key is not null;
CREATE INDEX jobs_dead_of_kind on jobs (kind) where state = 'dead';
CREATE TRIGGER jobs_final_never_changes before update on jobs
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
CREATE TRIGGER jobs_token_never_falls before update on jobs
when new.token < old.token
begin
  select raise(abort, 'jobs_token_never_falls');
end;
CREATE INDEX results_due on results (expires_at);
CREATE UNIQUE INDEX leases_one_live_per_job on leases (job_id) where phase <> 'unreaped';
CREATE VIEW inv_slots_within_capacity (invariant, subject, detail) as
with held (node, slot, amount, token) as (
  select null, taken.key, taken.value, leases.token
  from leases, json_each(leases.reservation, '$.fleet') as taken
  where leases.phase <> 'unreaped'
  union all
  select leases.node, taken.key, taken.value, leases.token
  from leases, json_each(leases.reservation, '$.node') as taken
),
used (node, slot, amount, newest) as (
  select held.node, held.slot, sum(held.amount), max(held.token)
  from held
  group by held.node, held.slot
)
select 'inv_slots_within_capacity', used.slot,
  used.amount || ' of ' || slots.capacity || ' taken, by a grant after the capacity changed'
from used
join slots on slots.name = used.slot
where used.node is null and used.amount > slots.capacity and used.newest > slots.capacity_since
union all
select 'inv_slots_within_capacity', used.node || '/' || used.slot,
  used.amount || ' of ' || (offered.value ->> 'units') || ' taken, by a grant after the capacity changed'
from used
join nodes on nodes.name = used.node
join json_each(nodes.slots) as offered on offered.key = used.slot
where used.amount > (offered.value ->> 'units') and used.newest > (offered.value ->> 'since');
CREATE VIEW inv_leases_have_owners (invariant, subject, detail) as
select 'inv_leases_have_owners', cast(leases.token as text), 'its node ' || leases.node || ' is not known'
from leases
where not exists (select 1 from nodes where nodes.name = leases.node)
union all
select 'inv_leases_have_owners', cast(leases.token as text), 'its job never had this token'
from leases
join jobs on jobs.id = leases.job_id
where leases.phase = 'granted' and jobs.token < leases.token;
CREATE VIEW inv_final_is_settled (invariant, subject, detail) as
select 'inv_final_is_settled', jobs.id,
  'is ' || jobs.state || ', its newest outcome is ' || coalesce(jobs.last_outcome, 'open')
from jobs
where (jobs.state = 'succeeded') <> (jobs.last_outcome is 'succeeded');
CREATE VIEW inv_results_have_executions (invariant, subject, detail) as
select 'inv_results_have_executions', results.job_id, 'result of token ' || results.token || ' without an execution'
from results
join jobs on jobs.id = results.job_id
where results.token <> jobs.token
  and not exists (
    select 1 from attempts
    where attempts.job_id = results.job_id and attempts.token = results.token);
CREATE VIEW inv_attempts_are_counted (invariant, subject, detail) as
with counted (id, failures, losses) as (
  select jobs.id,
    coalesce(sum(attempts.outcome in ('failed_retryable', 'failed_permanent', 'timed_out', 'stalled')), 0),
    coalesce(sum(attempts.outcome = 'lost'), 0)
  from jobs
  left join attempts on attempts.job_id = jobs.id and attempts.round = jobs.round
  group by jobs.id
)
select 'inv_attempts_are_counted', jobs.id,
  'counts ' || jobs.failures || ' failures and ' || jobs.losses || ' losses, its attempts '
  || counted.failures || ' and ' || counted.losses
from jobs
join counted on counted.id = jobs.id
where jobs.failures <> counted.failures or jobs.losses <> counted.losses;
CREATE VIEW inv_one_live_lease (invariant, subject, detail) as
select 'inv_one_live_lease', leases.job_id, count(*) || ' live leases'
from leases
where leases.phase <> 'unreaped'
group by leases.job_id
having count(*) > 1
union all
select 'inv_one_live_lease', jobs.id, 'runs without a lease under its token'
from jobs
where jobs.state = 'running'
  and jobs.finished_at is null
  and not exists (
    select 1 from leases
    where leases.token = jobs.token and leases.job_id = jobs.id and leases.phase = 'granted')
union all
select 'inv_one_live_lease', leases.job_id, 'lease ' || leases.token || ' is granted, its job does not run under it'
from leases
where leases.phase = 'granted'
  and not exists (
    select 1 from jobs
    where jobs.id = leases.job_id and jobs.token = leases.token
      and jobs.state = iif(leases.parked is not null and leases.parked ->> '$.verdict' is null, 'waiting', 'running'));
CREATE VIEW inv_all_or_nothing (invariant, subject, detail) as
select 'inv_all_or_nothing', cast(leases.token as text),
  'job ' || jobs.id || ' needs ' || needed.value || ' of ' || slots.scope || ' slot ' || slots.name
from leases
join jobs on jobs.id = leases.job_id and jobs.token = leases.token
join json_each(jobs.needs) as needed
join slots on slots.name = needed.key
where leases.phase = 'granted'
  and jobs.needs is not null
  and leases.reservation -> slots.scope <> '{}'
  and (leases.parked is null or leases.parked -> '$.yielded' = '{"node":{},"fleet":{}}')
  and needed.value is not (
    select taken.value from json_each(leases.reservation -> slots.scope) as taken where taken.key = needed.key)
union all
select 'inv_all_or_nothing', cast(leases.token as text), 'holds slot ' || given.key || ', which it gave back'
from leases
join json_each(leases.parked, '$.yielded.node') as given
join json_each(leases.reservation, '$.node') as held on held.key = given.key
where leases.parked is not null
union all
select 'inv_all_or_nothing', cast(leases.token as text), 'holds slot ' || given.key || ', which it gave back'
from leases
join json_each(leases.parked, '$.yielded.fleet') as given
join json_each(leases.reservation, '$.fleet') as held on held.key = given.key
where leases.parked is not null;
commit;
