begin;
CREATE TABLE _sqlx_migrations (
    version BIGINT PRIMARY KEY,
    description TEXT NOT NULL,
    installed_on TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    success BOOLEAN NOT NULL,
    checksum BLOB NOT NULL,
    execution_time BIGINT NOT NULL
);
insert into _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) values (1, 'create_jobs', '2026-12-01 04:03:45', 1, X'CFBBC8BDEE2C07D66023D04EBF1E940EE328D8839CDB3E3252177FE8DFB87977371C9F25F98EE3FB14FC1B8B1C96FACD', 15364594);
insert into _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) values (10, 'name_tenant_of_leases', '2026-12-01 04:03:46', 1, X'329D2575E2F9C015F366A5246F87F04299E8D42F49A629A73E767E86162DC964CC92C031BDA998C3F694978BBD1A2AFB', 11942374);
insert into _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) values (11, 'create_tenants', '2026-12-01 04:03:46', 1, X'ECECDDBA11EA6F606AC38CBF5A5F65E147D99F7127D408F8EBBE11D80924F9F2855349A692463BD652EA272CC7E653A8', 7963304);
insert into _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) values (12, 'throttle_slots', '2026-12-01 04:03:46', 1, X'560D216483E84163FE9E1D01A3033A33337E8FBD5A53095AEE5411414BA2AC7862FC561E691C1AE874C6AECC803F8B4D', 11921611);
insert into _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) values (13, 'add_budgets', '2026-12-01 04:03:46', 1, X'5588DF71604C8C731C6010233AD95CE51F73B5517E484351F915C4B3FD460A7AF66C08BDC45208C5336BAE77C601934C', 11661591);
insert into _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) values (14, 'add_concurrency_keys', '2026-12-01 04:03:46', 1, X'D477C5E24EF894D82B59808A7BFCA130B62F64F345B098D4A0FAC2B32EA5C9FB1211A075FBB29A92314D10779C421C96', 15923082);
insert into _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) values (15, 'add_parked_leases', '2026-12-01 04:03:46', 1, X'ED6D0D5D83BF89588DF9CE99519D07CEED9C11D4E28E77ADA3BCF4C3D6FC808734FD5B6C306AF1C90AC61A197C686233', 6451665);
insert into _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) values (16, 'add_partial_results', '2026-12-01 04:03:46', 1, X'E7ACAB8E356AF61201DA3D4CB74467F2828982C7D5CEE3F4CBF401905542DA906BC9795BA92417E874DB8DC8C8104D7C', 30797076);
insert into _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) values (17, 'create_workflows', '2026-12-01 04:03:46', 1, X'6639B3A41FAB40C91EB892B4DEC02D5F0169EE0D4BB2265EE92BAB88BFD084501AB3459CF6BE4AB2F3AE453AAD6FB5C2', 19976139);
insert into _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) values (18, 'create_crons', '2026-12-01 04:03:46', 1, X'D52A6C551A8F5FF85E06426FF843B614F0C37AF73309F3808D49339F8EC56798B5742901A7DADA91C9AA7B3C2C042E74', 8002244);
insert into _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) values (19, 'create_outbox', '2026-12-01 04:03:46', 1, X'3ADF0535A248EA35F49ECD43043ACA6AEE39F47A486459A69B1ADD715EB74B4ED725A014AA909F841A9E70688C7BD12A', 7923391);
insert into _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) values (2, 'create_leases', '2026-12-01 04:03:45', 1, X'839270F9D17AE32019A4CBA8C7C346536583A9AC8D953097441E44B26DDE8D4015068B38C4DDAF42E4A4D12A0E3A1279', 3874655);
insert into _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) values (20, 'add_result_objects', '2026-12-01 04:03:46', 1, X'E728969833F0CEF875428315A639FEB7471A02273921B1CC123EC18185FD19A3649040CF54743E314DA8CE303CB2A409', 22776689);
insert into _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) values (21, 'create_log_tails', '2026-12-01 04:03:46', 1, X'9F7F4C2E9C287275B92F9FED5ED0C1B6DAFE15BDAF38C56D40775FE35622742E088B0D72CFAC4C6DD76B292176521481', 10289957);
insert into _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) values (22, 'create_inbox', '2026-12-01 04:03:46', 1, X'D403120DC0B1A41C3730EF478CCA0F3228E34B7AFD94FBFCF4D829B1D26C581F32CFAF51509DF221BE4CBAF5A51519A2', 3071250);
insert into _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) values (3, 'create_fleet', '2026-12-01 04:03:45', 1, X'DAA58D6896E01D259DAF3789FCD8FBB1D846CEB939DBC18542DD2B9E732E107D97C0B3638A1AF0393BD773A329680FA4', 3571076);
insert into _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) values (4, 'create_leader_fence', '2026-12-01 04:03:45', 1, X'C86E27EB1CEE774821BECA8252D3C216FD041C82346663579D53E4A4FD5E8810E17598D236CD64DD51C67773E6DDEDD6', 3899882);
insert into _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) values (5, 'create_invariants', '2026-12-01 04:03:45', 1, X'C6128764F9601AE504621698A34BF8EA6BF4A34CF77256E2D6EF0FB32ED4B4EC9DF3F364D9C2E30C3351077356B626CF', 12250379);
insert into _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) values (6, 'mark_orphaned_leases', '2026-12-01 04:03:45', 1, X'2B541286E3DE1CA96ED0482D02BCF8D2295A0A68BCB5B5C5CF2FC60BDA6259C8C69DFB65A5D240520F9FF0862AFD2648', 7697138);
insert into _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) values (7, 'add_tracestate', '2026-12-01 04:03:45', 1, X'F8E2AB5C7523AD9F73841CBD0C7EC764A3A40CD8F03E76A2EBF275B711BD6415C9906D72B4B1E3A663D73FF5803505EC', 8081068);
insert into _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) values (8, 'add_slot_rates', '2026-12-01 04:03:46', 1, X'E52FC961FC62F3C14CFE11AA1F4DBEC8D4D20171B247F42689FAD95B210FE60821B0870D59C77AAB59ABC2D60E63E61B', 23907246);
insert into _sqlx_migrations (version, description, installed_on, success, checksum, execution_time) values (9, 'add_child_waits', '2026-12-01 04:03:46', 1, X'28DF8BE439D3F59870F921A8CD37A8732964D55B8BBDF91B336526EB870434A51ACA49F8574F39CDE0B940ABED4BB4C7', 39931695);
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
  constraint jobs_final_has_no_wait check (detached is null or finished_at is null), concurrency_key text, soft_time_limit_us integer, workflow_id text, workflow_place integer -- where in it, from 0
  constraint jobs_member_has_place check ((workflow_id is null) = (workflow_place is null)), blocked_at integer -- blocked: since when
  constraint jobs_blocked_has_blocked_at check ((state = 'blocked') = (blocked_at is not null))
  constraint jobs_blocked_is_member check (blocked_at is null or workflow_id is not null),                    -- final: when that was recorded
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
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) values ('01a22fc5-dfb6-700c-8a94-fdbb4d7c46d9', 1099511627777, 'acme', 'local', 'task', 'succeeded', 5, 0, NULL, '{}', '{"ends":"succeeded","left":"text"}', 'the-key', 1, X'8ED3C4A733A55D0EC232CD6FC680F1CD59190E71C1F999F94B0335F13F9FF077', NULL, NULL, '01a22fc5-dfb6-700c-8a94-fdbb4d7c46d9', 0, 0, NULL, 28, 1, 0, 0, 0, 0, 1099511627777, 'succeeded', 'n1', 1796097826748493, 1796097826914938, 0, 1796097826748493, NULL, NULL, '[]', NULL, NULL, NULL, 1796097827213459, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) values ('01a22fc5-dfb6-700c-8a94-fdbcce06f8a2', 1099511627778, 'default', 'local', 'task', 'succeeded', 5, 0, NULL, '{}', '{"ends":"succeeded","left":"pile"}', NULL, 0, X'B098712EBBFA9BB7CB901B8E8C84AEDF4EA6D09C3434DBCB5102B7B0617C5CED', NULL, NULL, '01a22fc5-dfb6-700c-8a94-fdbcce06f8a2', 0, 0, NULL, 12, 1, 0, 0, 0, 0, 1099511627778, 'succeeded', 'n1', 1796097826777699, 1796097826893232, 0, 1796097826777699, NULL, NULL, '[]', NULL, NULL, NULL, 1796097827038423, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) values ('01a22fc5-dfb6-700c-8a94-fdbd14e07675', 1099511627779, 'default', 'local', 'task', 'succeeded', 5, 0, NULL, '{}', '{"ends":"succeeded","left":"text"}', NULL, 0, X'AE4103A90A665E650961A2B4E54DD8E3E3E1AE678E4BF5056E8FF634547BFB66', NULL, NULL, '01a22fc5-dfb6-700c-8a94-fdbd14e07675', 0, 0, NULL, 25, 1, 0, 0, 0, 0, 1099511627779, 'succeeded', 'n1', 1796097826822276, 1796097826939075, 0, 1796097826822276, NULL, 'its result is partial: it had been asked to wrap up', '[]', NULL, NULL, NULL, 1796097827950413, NULL, 'cancel', 'keep', NULL, NULL, NULL, 1000000, NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) values ('01a22fc5-dfb6-700c-8a94-fdbe9d9c3fae', 1099511627780, 'default', 'local', 'task', 'succeeded', 5, 0, NULL, '{}', '{"ends":"succeeded"}', NULL, 0, X'BCBE03F59C5A0896F14B3A8C34F8A4FCF22ED7C75D2CC9694226506E4BAFED03', NULL, NULL, '01a22fc5-dfb6-700c-8a94-fdbe9d9c3fae', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 1099511627780, 'succeeded', 'n1', 1796097826833369, 1796097826939130, 0, 1796097826833369, NULL, NULL, '[]', NULL, NULL, NULL, 1796097826973190, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) values ('01a22fc5-dfb6-700c-8a94-fdbf0e659e33', 1099511627781, 'default', 'local', 'costly', 'succeeded', 5, 0, NULL, '{}', '{"ends":"succeeded"}', NULL, 0, X'A136C571DDB0CC46C95F607683313535F39E94F02DFDE6107CF5A72738CA5C37', NULL, NULL, '01a22fc5-dfb6-700c-8a94-fdbf0e659e33', 0, 0, NULL, 24, 1, 0, 0, 0, 0, 1099511627781, 'succeeded', 'n1', 1796097826855913, 1796097827038334, 0, 1796097826855913, NULL, NULL, '[]', NULL, NULL, NULL, 1796097827135913, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) values ('01a22fc5-e0de-7497-8007-f42f23d6f9e8', 1099511627782, 'default', 'cron:every-second', 'tick', 'queued', 1, 0, NULL, '{}', '{"cron.instant":"2026-12-01T04:03:47Z"}', NULL, 0, X'01A22FC5E0DE74978007F42F23D6F9E8FE5DD03A1F218B687FF80BD0DC290617', NULL, NULL, '01a22fc5-e0de-7497-8007-f42f23d6f9e8', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, 0, 1796097827038423, NULL, NULL, '[]', NULL, NULL, 1796097827038423, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) values ('01a22fc5-e48b-70fc-ab58-da42c89e4bb5', 1099511627783, 'default', 'local', 'task', 'dead', 5, 0, NULL, '{}', '{"ends":"dead"}', NULL, 0, X'5EC7F89A369F5FE30522657D117185B98008C247B5671106D2263604B7ED112E', NULL, NULL, '01a22fc5-e48b-70fc-ab58-da42c89e4bb5', 0, 0, NULL, 7, 1, 1, 0, 0, 0, 1099511627782, 'failed_retryable', 'n1', 1796097827980923, 1796097828093899, 0, 1796097827980923, NULL, 'exited with code 3', '[]', NULL, NULL, NULL, 1796097828105322, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) values ('01a22fc5-e4a1-703c-8005-386b89d08798', 1099511627784, 'default', 'cron:every-second', 'tick', 'queued', 1, 0, NULL, '{}', '{"cron.instant":"2026-12-01T04:03:48Z"}', NULL, 0, X'01A22FC5E4A1703C8005386B89D08798FE5DD03A1B5E8FC37FFAC794762F7867', NULL, NULL, '01a22fc5-e4a1-703c-8005-386b89d08798', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, 0, 1796097828001027, NULL, NULL, '[]', NULL, NULL, 1796097828001027, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) values ('01a22fc5-e519-7761-b735-48fa7e4de82b', 1099511627785, 'default', 'local', 'task', 'cancelled', 3, 0, NULL, '{}', '{"ends":"cancelled"}', NULL, 0, X'BCBE03F59C5A0896F14B3A8C34F8A4FCF22ED7C75D2CC9694226506E4BAFED03', NULL, NULL, '01a22fc5-e519-7761-b735-48fa7e4de82b', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, 0, 1796097828122987, NULL, 'not needed', '[{"reason":"run_at","message":"start time","count":1,"duration_us":4224}]', NULL, NULL, NULL, 1796097828127210, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) values ('01a22fc5-e52b-74ef-8e1b-6ba5ec38f60e', 1099511627786, 'default', 'local', 'held', 'expired', 3, 0, NULL, '{}', '{"ends":"expired"}', NULL, 0, X'06B8E4420F391FA4716876CD18D9526BE4EF4ED4D7AD337391EE36D2A9D4F23E', NULL, NULL, '01a22fc5-e52b-74ef-8e1b-6ba5ec38f60e', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, 0, 1796097828140892, 1796097829140892, 'not started within its stale_after', '[{"reason":"kind_paused","message":"kind paused","count":1,"duration_us":1001139}]', NULL, NULL, NULL, 1796097829142034, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) values ('01a22fc5-e888-749c-8007-f538a52c8010', 1099511627787, 'default', 'cron:every-second', 'tick', 'queued', 1, 0, NULL, '{}', '{"cron.instant":"2026-12-01T04:03:49Z"}', NULL, 0, X'01A22FC5E888749C8007F538A52C8010FE5DD03A17778B637FF80AC75AD37FEF', NULL, NULL, '01a22fc5-e888-749c-8007-f538a52c8010', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, 0, 1796097829000769, NULL, NULL, '[]', NULL, NULL, 1796097829000769, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) values ('01a22fc5-e91d-717a-9a4f-2eeb99e04097', 1099511627788, 'acme', 'local', 'task', 'running', 3, 30, NULL, '{"zone":"a"}', '{"ends":"succeeded"}', NULL, 0, X'991E7128AA81A01437570CCCDF91796FDC82BD31B90B1E8323DAF420DDE7090D', NULL, NULL, '01a22fc5-e91d-717a-9a4f-2eeb99e04097', 0, 0, NULL, 8, 1, 0, 0, 0, 0, 1099511627783, NULL, 'n1', 1796097829151076, NULL, 0, 1796097829151076, NULL, NULL, '[]', NULL, NULL, NULL, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) values ('01a22fc5-e91d-717a-9a4f-2eecdab841ab', 1099511627789, 'default', 'local', 'licensed', 'running', 3, 0, NULL, '{}', '{"ends":"succeeded"}', NULL, 0, X'9D327FB21569533342246AB72CBD944E5A295097408F17349E9DFEA40884391E', NULL, NULL, '01a22fc5-e91d-717a-9a4f-2eecdab841ab', 0, 0, NULL, 8, 1, 0, 0, 0, 0, 1099511627784, NULL, 'n1', 1796097829238301, NULL, 0, 1796097829238301, NULL, NULL, '[]', NULL, NULL, NULL, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) values ('01a22fc5-e91d-717a-9a4f-2eedc08469fc', 1099511627790, 'default', 'local', 'keyed', 'running', 3, 0, NULL, '{}', '{"ends":"succeeded"}', NULL, 0, X'F03E5C6E8EFD21711B54A6E80C732983651659114EF7115C1C691DE225910EF5', NULL, NULL, '01a22fc5-e91d-717a-9a4f-2eedc08469fc', 0, 0, NULL, 8, 1, 0, 0, 0, 0, 1099511627785, NULL, 'n1', 1796097829354442, NULL, 0, 1796097829354442, NULL, NULL, '[]', NULL, NULL, NULL, NULL, NULL, 'cancel', 'keep', NULL, NULL, '4711', NULL, NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) values ('01a22fc5-e91d-717a-9a4f-2eee2bf64288', 1099511627791, 'default', 'local', 'task', 'running', 3, 0, NULL, '{}', '{"ends":"succeeded","was":"checkpoint"}', NULL, 0, X'CAC713AC3813928826E810842F9471F0426D92A074F4CC53D2F324046B7F6A2E', NULL, NULL, '01a22fc5-e91d-717a-9a4f-2eee2bf64288', 0, 0, NULL, 61, 1, 0, 0, 0, 0, 1099511627786, NULL, 'n1', 1796097829431123, NULL, 0, 1796097829431123, NULL, NULL, '[]', NULL, NULL, NULL, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) values ('01a22fc5-eaab-76cb-87f8-3daca522d76f', 1099511627792, 'default', 'local', 'licensed', 'queued', 1, 0, NULL, '{}', '{"ends":"succeeded"}', NULL, 0, X'C6EBFE4002C5883ACBFD0441F5B9269A571944503C651D97CC6CC0AFF5A5A74E', NULL, NULL, '01a22fc5-eaab-76cb-87f8-3daca522d76f', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, 0, 1796097829549102, NULL, NULL, '[]', NULL, NULL, 1796097829549102, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) values ('01a22fc5-eaab-76cb-87f8-3dadda2c5e6a', 1099511627793, 'default', 'local', 'keyed', 'queued', 1, 0, NULL, '{}', '{"ends":"succeeded"}', NULL, 0, X'419F6E1F581D8FCA2C73A681D336D30F360C33785C71D7B9FD524663C675D9F1', NULL, NULL, '01a22fc5-eaab-76cb-87f8-3dadda2c5e6a', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, 0, 1796097829552546, NULL, NULL, '[]', NULL, NULL, 1796097829552546, NULL, NULL, 'cancel', 'keep', NULL, NULL, '4711', NULL, NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) values ('01a22fc5-eaab-76cb-87f8-3dae076515ec', 1099511627794, 'default', 'local', 'costly', 'queued', 1, 0, NULL, '{}', '{"ends":"succeeded"}', NULL, 0, X'418633D9B4826734D44A86A259280754D51D80357E77EC5DE39AD5EA45F1B882', NULL, NULL, '01a22fc5-eaab-76cb-87f8-3dae076515ec', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, 0, 1796097829555924, NULL, NULL, '[]', NULL, NULL, 1796097829555924, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) values ('01a22fc5-eaab-76cb-87f8-3daf2840f5a7', 1099511627795, 'default', 'local', 'held', 'queued', 1, 0, NULL, '{}', '{"ends":"succeeded"}', 'waits', 1, X'4E72D7F51A2C3462E504D13D8FF7E20D3DA6896C41E2136E136010F91BBBE71C', NULL, NULL, '01a22fc5-eaab-76cb-87f8-3daf2840f5a7', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, 0, 1796097829558892, NULL, NULL, '[]', NULL, NULL, 1796097829558892, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) values ('01a22fc5-eaab-76cb-87f8-3db09481af64', 1099511627796, 'default', 'local', 'task', 'scheduled', 1, 0, NULL, '{}', '{"ends":"scheduled"}', NULL, 0, X'BCBE03F59C5A0896F14B3A8C34F8A4FCF22ED7C75D2CC9694226506E4BAFED03', NULL, NULL, '01a22fc5-eaab-76cb-87f8-3db09481af64', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, 0, 1796097829562234, NULL, NULL, '[]', 2111457829562234, 'run_at', NULL, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) values ('01a22fc5-eabc-706a-8346-94fc7e6e7aae', 1099511627799, 'default', 'local', 'task', 'running', 3, 1, NULL, '{}', '{}', NULL, 0, X'16FF17CF8A8C185362A7F2C7DD03AE0A1C471B3588073B3352A2A5FC1936189A', NULL, '01a22fc5-eabc-7564-9508-79633bda5bf9', '01a22fc5-eabc-7564-9508-79633bda5bf9', 1, 0, NULL, 7, 1, 0, 0, 0, 0, 1099511627789, NULL, 'n1', 1796097829822694, NULL, 0, 1796097829822694, NULL, NULL, '[]', NULL, NULL, NULL, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) values ('01a22fc5-eabc-7564-9508-79633bda5bf9', 1099511627797, 'default', 'local', 'parent', 'waiting', 7, 0, NULL, '{}', '{"ends":"succeeded"}', NULL, 0, X'69C3DD2D1155083547307B4723D1DEB2334A52CE776D02A2AA10C5B21A047437', NULL, NULL, '01a22fc5-eabc-7564-9508-79633bda5bf9', 0, 2, NULL, 22, 1, 0, 0, 0, 0, 1099511627787, NULL, 'n1', 1796097829565647, 1796097829631885, 0, 1796097829565647, NULL, NULL, '[]', NULL, NULL, NULL, NULL, NULL, 'cancel', 'keep', 1796097829855505, '{"wait":{"children":[["01a22fc5-eabc-7677-ae76-cd21f6c7e872",null],["01a22fc5-eabc-706a-8346-94fc7e6e7aae",null]],"policy":"all","until":null},"token":1099511627787,"has_state":true,"same_node":false}', NULL, NULL, NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) values ('01a22fc5-eabc-7677-ae76-cd21f6c7e872', 1099511627798, 'default', 'local', 'task', 'running', 3, 1, NULL, '{}', '{}', NULL, 0, X'16FF17CF8A8C185362A7F2C7DD03AE0A1C471B3588073B3352A2A5FC1936189A', NULL, '01a22fc5-eabc-7564-9508-79633bda5bf9', '01a22fc5-eabc-7564-9508-79633bda5bf9', 1, 0, NULL, 7, 1, 0, 0, 0, 0, 1099511627788, NULL, 'n1', 1796097829818989, NULL, 0, 1796097829818989, NULL, NULL, '[]', NULL, NULL, NULL, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) values ('01a22fc5-ebf4-725d-8f5e-683107ec5575', 1099511627800, 'default', 'local', 'parent', 'waiting', 6, 0, NULL, '{}', '{"ends":"succeeded"}', NULL, 0, X'2EAE752BEA3FD35FE1B30A75580F45FE05744D8CCF7D77144B9581F2945641D5', NULL, NULL, '01a22fc5-ebf4-725d-8f5e-683107ec5575', 0, 2, NULL, 20, 1, 0, 0, 0, 0, 1099511627790, NULL, 'n1', 1796097829877871, NULL, 0, 1796097829877871, NULL, NULL, '[]', NULL, NULL, NULL, NULL, NULL, 'cancel', 'keep', 1796097830102072, NULL, NULL, NULL, NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) values ('01a22fc5-ebf4-7a8d-93f2-420512749396', 1099511627802, 'default', 'local', 'task', 'running', 3, 1, NULL, '{}', '{}', NULL, 0, X'16FF17CF8A8C185362A7F2C7DD03AE0A1C471B3588073B3352A2A5FC1936189A', NULL, '01a22fc5-ebf4-725d-8f5e-683107ec5575', '01a22fc5-ebf4-725d-8f5e-683107ec5575', 1, 0, NULL, 7, 1, 0, 0, 0, 0, 1099511627791, NULL, 'n1', 1796097830030015, NULL, 0, 1796097830030015, NULL, NULL, '[]', NULL, NULL, NULL, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) values ('01a22fc5-ebf4-7ffd-86f5-4f67fced09e2', 1099511627803, 'default', 'local', 'task', 'running', 3, 1, NULL, '{}', '{}', NULL, 0, X'16FF17CF8A8C185362A7F2C7DD03AE0A1C471B3588073B3352A2A5FC1936189A', NULL, '01a22fc5-ebf4-725d-8f5e-683107ec5575', '01a22fc5-ebf4-725d-8f5e-683107ec5575', 1, 0, NULL, 7, 1, 0, 0, 0, 0, 1099511627792, NULL, 'n1', 1796097830030015, NULL, 0, 1796097830030015, NULL, NULL, '[]', NULL, NULL, NULL, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) values ('01a22fc5-ec70-7825-8009-3dfc6a2a2b71', 1099511627801, 'default', 'cron:every-second', 'tick', 'queued', 1, 0, NULL, '{}', '{"cron.instant":"2026-12-01T04:03:50Z"}', NULL, 0, X'01A22FC5EC70782580093DFC6A2A2B71FE5DD03A138F87DA7FF6C20395D5D48E', NULL, NULL, '01a22fc5-ec70-7825-8009-3dfc6a2a2b71', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, 0, 1796097830000481, NULL, NULL, '[]', NULL, NULL, 1796097830000481, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) values ('01a22fc5-ecda-7906-8000-d51be6ca6132', 1099511627804, 'default', 'local', 'task', 'succeeded', 5, 0, NULL, '{}', '{"ends":"succeeded"}', NULL, 0, X'E8D2EBDC9E48C056EF210B18A7A9DC9633EDD55126309E88BA903EC91678AD70', NULL, NULL, '01a22fc5-ecda-7906-8000-d51be6ca6132', 0, 0, NULL, 28, 1, 0, 0, 0, 0, 1099511627793, 'succeeded', 'n1', 1796097830107703, 1796097830202042, 0, 1796097830107703, NULL, NULL, '[]', NULL, NULL, NULL, 1796097830209341, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, '01a22fc5-ecda-71a7-b4ee-75202888359b', 0, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) values ('01a22fc5-ecda-7906-8001-d51be6ca6132', 1099511627805, 'default', 'local', 'task', 'running', 3, 0, NULL, '{}', '{"ends":"succeeded"}', NULL, 0, X'991E7128AA81A01437570CCCDF91796FDC82BD31B90B1E8323DAF420DDE7090D', NULL, NULL, '01a22fc5-ecda-7906-8001-d51be6ca6132', 0, 0, NULL, 8, 1, 0, 0, 0, 0, 1099511627794, NULL, 'n1', 1796097830107703, NULL, 0, 1796097830107703, NULL, NULL, '[]', NULL, NULL, NULL, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, '01a22fc5-ecda-71a7-b4ee-75202888359b', 1, NULL);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) values ('01a22fc5-ecda-7906-8002-d51be6ca6132', 1099511627806, 'default', 'local', 'task', 'blocked', 1, 0, NULL, '{}', '{"ends":"succeeded"}', NULL, 0, X'86D55435D18B30AB4454287BBAE22A86A186000CD72E5F97AD5FCACED0E7A560', NULL, NULL, '01a22fc5-ecda-7906-8002-d51be6ca6132', 0, 0, NULL, 7, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, 0, 1796097830107703, NULL, NULL, '[]', NULL, NULL, NULL, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, '01a22fc5-ecda-71a7-b4ee-75202888359b', 2, 1796097830107703);
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, finished_at, tracestate, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, soft_time_limit_us, workflow_id, workflow_place, blocked_at) values ('01a22fc5-ecda-7906-8003-d51be6ca6132', 1099511627807, 'default', 'local', 'task', 'blocked', 1, 0, NULL, '{}', '{"ends":"succeeded"}', NULL, 0, X'BCBE03F59C5A0896F14B3A8C34F8A4FCF22ED7C75D2CC9694226506E4BAFED03', NULL, NULL, '01a22fc5-ecda-7906-8003-d51be6ca6132', 0, 0, NULL, 0, 1, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, 0, 1796097830107703, NULL, NULL, '[]', NULL, NULL, NULL, NULL, NULL, 'cancel', 'keep', NULL, NULL, NULL, NULL, '01a22fc5-ecda-71a7-b4ee-75202888359b', 3, 1796097830107703);
CREATE TABLE payloads (
  job_id       text not null, -- the job
  data         blob not null, -- opaque to the server
  content_type text not null, -- a media type, as the producer said; may be empty
  constraint payloads_pkey primary key (job_id),
  constraint payloads_belong_to_a_job foreign key (job_id) references jobs (id) on delete cascade
) strict;
insert into payloads (job_id, data, content_type) values ('01a22fc5-dfb6-700c-8a94-fdbb4d7c46d9', X'736179206120776F72640A726573756C74206173206974207761730A', 'text/plain');
insert into payloads (job_id, data, content_type) values ('01a22fc5-dfb6-700c-8a94-fdbcce06f8a2', X'70696C65203330303030300A', 'text/plain');
insert into payloads (job_id, data, content_type) values ('01a22fc5-dfb6-700c-8a94-fdbd14e07675', X'686565642031300A726573756C74206173206974207761730A', 'text/plain');
insert into payloads (job_id, data, content_type) values ('01a22fc5-dfb6-700c-8a94-fdbf0e659e33', X'617474656D707420757361676520746F6B656E733D31320A', 'text/plain');
insert into payloads (job_id, data, content_type) values ('01a22fc5-e48b-70fc-ab58-da42c89e4bb5', X'6578697420330A', 'text/plain');
insert into payloads (job_id, data, content_type) values ('01a22fc5-e91d-717a-9a4f-2eeb99e04097', X'7761697420676F0A', 'text/plain');
insert into payloads (job_id, data, content_type) values ('01a22fc5-e91d-717a-9a4f-2eecdab841ab', X'7761697420676F0A', 'text/plain');
insert into payloads (job_id, data, content_type) values ('01a22fc5-e91d-717a-9a4f-2eedc08469fc', X'7761697420676F0A', 'text/plain');
insert into payloads (job_id, data, content_type) values ('01a22fc5-e91d-717a-9a4f-2eee2bf64288', X'74656C6C2D6C6566740A617474656D707420636865636B706F696E74202F70726F632F7379732F6B65726E656C2F6F73747970650A7761697420676F0A', 'text/plain');
insert into payloads (job_id, data, content_type) values ('01a22fc5-eabc-706a-8346-94fc7e6e7aae', X'7761697420676F', 'application/octet-stream');
insert into payloads (job_id, data, content_type) values ('01a22fc5-eabc-7564-9508-79633bda5bf9', X'6465746163682032207461736B207761697420676F0A', 'text/plain');
insert into payloads (job_id, data, content_type) values ('01a22fc5-eabc-7677-ae76-cd21f6c7e872', X'7761697420676F', 'application/octet-stream');
insert into payloads (job_id, data, content_type) values ('01a22fc5-ebf4-725d-8f5e-683107ec5575', X'7061726B2032207461736B207761697420676F0A', 'text/plain');
insert into payloads (job_id, data, content_type) values ('01a22fc5-ebf4-7a8d-93f2-420512749396', X'7761697420676F', 'application/octet-stream');
insert into payloads (job_id, data, content_type) values ('01a22fc5-ebf4-7ffd-86f5-4f67fced09e2', X'7761697420676F', 'application/octet-stream');
insert into payloads (job_id, data, content_type) values ('01a22fc5-ecda-7906-8000-d51be6ca6132', X'736179206120776F72640A726573756C74206173206974207761730A', 'text/plain');
insert into payloads (job_id, data, content_type) values ('01a22fc5-ecda-7906-8001-d51be6ca6132', X'7761697420676F0A', 'text/plain');
insert into payloads (job_id, data, content_type) values ('01a22fc5-ecda-7906-8002-d51be6ca6132', X'6761746865720A', 'text/plain');
CREATE TABLE results (
  job_id       text    not null, -- the job
  token        integer not null, -- of the lease of the execution
  data         blob    not null, -- opaque to the server
  content_type text    not null, -- a media type, as the node said; may be empty
  created_at   integer not null, -- when it was stored
  expires_at   integer not null, of_wait integer not null default 0 -- 1: no result, but the state that an execution left which detached
  constraint results_flags_are_flags check (of_wait in (0, 1)), partial integer not null default 0 -- 1: the execution had been asked to wrap up, or was killed, before it was done
  constraint results_partial_flags_are_flags check (partial in (0, 1)), object_size integer -- bytes of its object, which then stand in object storage and not in data; null: they are in data
  constraint results_objects_have_a_size check (object_size >= 0), object_sha256 text -- the SHA-256 of its object, in hex; null: there is none
  constraint results_objects_are_named check ((object_size is null) = (object_sha256 is null)), -- when it is swept
  constraint results_pkey primary key (job_id, token),
  constraint results_belong_to_a_job foreign key (job_id) references jobs (id) on delete cascade
) strict;
insert into results (job_id, token, data, content_type, created_at, expires_at, of_wait, partial, object_size, object_sha256) values ('01a22fc5-dfb6-700c-8a94-fdbb4d7c46d9', 1099511627777, X'617320697420776173', 'text/plain; charset=utf-8', 1796097827213459, 2111457827213459, 0, 0, NULL, NULL);
insert into results (job_id, token, data, content_type, created_at, expires_at, of_wait, partial, object_size, object_sha256) values ('01a22fc5-dfb6-700c-8a94-fdbcce06f8a2', 1099511627778, X'', 'application/octet-stream', 1796097827038423, 2111457827038423, 0, 0, 300000, 'c7bd15ea029446c055c32c56ec5ba0966b92c46c625ae7c890f425757fa3134e');
insert into results (job_id, token, data, content_type, created_at, expires_at, of_wait, partial, object_size, object_sha256) values ('01a22fc5-dfb6-700c-8a94-fdbd14e07675', 1099511627779, X'617320697420776173', 'text/plain; charset=utf-8', 1796097827950413, 2111457827950413, 0, 1, NULL, NULL);
insert into results (job_id, token, data, content_type, created_at, expires_at, of_wait, partial, object_size, object_sha256) values ('01a22fc5-eabc-7564-9508-79633bda5bf9', 1099511627787, X'7B22776173223A2268657265227D', 'application/json', 1796097829855505, 32503680000000000, 1, 0, NULL, NULL);
insert into results (job_id, token, data, content_type, created_at, expires_at, of_wait, partial, object_size, object_sha256) values ('01a22fc5-ecda-7906-8000-d51be6ca6132', 1099511627793, X'617320697420776173', 'text/plain; charset=utf-8', 1796097830209341, 2111457830209341, 0, 0, NULL, NULL);
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
  constraint attempts_usage_is_an_object check (json_type(usage) = 'object'), partial integer not null default 0 -- 1: what it left as its result is partial
  constraint attempts_partial_flags_are_flags check (partial in (0, 1)), checkpoint_size integer -- bytes of the newest checkpoint that it is known to have saved; null: none
  constraint attempts_checkpoint_has_a_size check (checkpoint_size >= 0), -- when its end was recorded
  constraint attempts_pkey primary key (job_id, token),
  constraint attempts_belong_to_a_job foreign key (job_id) references jobs (id) on delete cascade,
  constraint attempts_outcome_is_known check (outcome in ('succeeded', 'failed_retryable', 'failed_permanent',
    'timed_out', 'stalled', 'lost', 'returned', 'cancelled')),
  constraint attempts_number_from_one check (attempt >= 1 and round >= 1)
) strict;
insert into attempts (job_id, token, attempt, round, node, outcome, cause, error, exit_code, granted_at, started_at, ended_at, detached, usage, partial, checkpoint_size) values ('01a22fc5-dfb6-700c-8a94-fdbd14e07675', 1099511627779, 1, 1, 'n1', 'succeeded', 'exit', '', 0, 1796097826822276, 1796097826939075, 1796097827950413, 0, NULL, 1, NULL);
insert into attempts (job_id, token, attempt, round, node, outcome, cause, error, exit_code, granted_at, started_at, ended_at, detached, usage, partial, checkpoint_size) values ('01a22fc5-dfb6-700c-8a94-fdbf0e659e33', 1099511627781, 1, 1, 'n1', 'succeeded', 'exit', '', 0, 1796097826855913, 1796097827038334, 1796097827135913, 0, '{"tokens":12}', 0, NULL);
insert into attempts (job_id, token, attempt, round, node, outcome, cause, error, exit_code, granted_at, started_at, ended_at, detached, usage, partial, checkpoint_size) values ('01a22fc5-e48b-70fc-ab58-da42c89e4bb5', 1099511627782, 1, 1, 'n1', 'failed_retryable', 'exit', 'exited with code 3', 3, 1796097827980923, 1796097828093899, 1796097828105322, 0, NULL, 0, NULL);
insert into attempts (job_id, token, attempt, round, node, outcome, cause, error, exit_code, granted_at, started_at, ended_at, detached, usage, partial, checkpoint_size) values ('01a22fc5-eabc-7564-9508-79633bda5bf9', 1099511627787, 1, 1, 'n1', 'returned', 'detach', '', 79, 1796097829565647, 1796097829631885, 1796097829855505, 1, NULL, 0, NULL);
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
insert into leases (token, job_id, kind, node, length_us, reservation, attempt, round, granted_at, phase, orphaned, tenant, concurrency_key, parked) values (1099511627783, '01a22fc5-e91d-717a-9a4f-2eeb99e04097', 'task', 'n1', 10000000, '{"node":{"shell":1},"fleet":{}}', 1, 1, 1796097829151076, 'granted', 0, 'acme', NULL, NULL);
insert into leases (token, job_id, kind, node, length_us, reservation, attempt, round, granted_at, phase, orphaned, tenant, concurrency_key, parked) values (1099511627784, '01a22fc5-e91d-717a-9a4f-2eecdab841ab', 'licensed', 'n1', 10000000, '{"node":{},"fleet":{"license":1}}', 1, 1, 1796097829238301, 'granted', 0, 'default', NULL, NULL);
insert into leases (token, job_id, kind, node, length_us, reservation, attempt, round, granted_at, phase, orphaned, tenant, concurrency_key, parked) values (1099511627785, '01a22fc5-e91d-717a-9a4f-2eedc08469fc', 'keyed', 'n1', 10000000, '{"node":{},"fleet":{}}', 1, 1, 1796097829354442, 'granted', 0, 'default', '4711', NULL);
insert into leases (token, job_id, kind, node, length_us, reservation, attempt, round, granted_at, phase, orphaned, tenant, concurrency_key, parked) values (1099511627786, '01a22fc5-e91d-717a-9a4f-2eee2bf64288', 'task', 'n1', 10000000, '{"node":{"shell":1},"fleet":{}}', 1, 1, 1796097829431123, 'granted', 0, 'default', NULL, NULL);
insert into leases (token, job_id, kind, node, length_us, reservation, attempt, round, granted_at, phase, orphaned, tenant, concurrency_key, parked) values (1099511627788, '01a22fc5-eabc-7677-ae76-cd21f6c7e872', 'task', 'n1', 10000000, '{"node":{"shell":1},"fleet":{}}', 1, 1, 1796097829818989, 'granted', 0, 'default', NULL, NULL);
insert into leases (token, job_id, kind, node, length_us, reservation, attempt, round, granted_at, phase, orphaned, tenant, concurrency_key, parked) values (1099511627789, '01a22fc5-eabc-706a-8346-94fc7e6e7aae', 'task', 'n1', 10000000, '{"node":{"shell":1},"fleet":{}}', 1, 1, 1796097829822694, 'granted', 0, 'default', NULL, NULL);
insert into leases (token, job_id, kind, node, length_us, reservation, attempt, round, granted_at, phase, orphaned, tenant, concurrency_key, parked) values (1099511627790, '01a22fc5-ebf4-725d-8f5e-683107ec5575', 'parent', 'n1', 10000000, '{"node":{},"fleet":{}}', 1, 1, 1796097829877871, 'granted', 0, 'default', NULL, '{"epoch":1,"wait":{"children":[["01a22fc5-ebf4-7a8d-93f2-420512749396",null],["01a22fc5-ebf4-7ffd-86f5-4f67fced09e2",null]],"policy":"all","until":null},"yielded":{"node":{"shell":1},"fleet":{}},"verdict":null}');
insert into leases (token, job_id, kind, node, length_us, reservation, attempt, round, granted_at, phase, orphaned, tenant, concurrency_key, parked) values (1099511627791, '01a22fc5-ebf4-7a8d-93f2-420512749396', 'task', 'n1', 10000000, '{"node":{"shell":1},"fleet":{}}', 1, 1, 1796097830030015, 'granted', 0, 'default', NULL, NULL);
insert into leases (token, job_id, kind, node, length_us, reservation, attempt, round, granted_at, phase, orphaned, tenant, concurrency_key, parked) values (1099511627792, '01a22fc5-ebf4-7ffd-86f5-4f67fced09e2', 'task', 'n1', 10000000, '{"node":{"shell":1},"fleet":{}}', 1, 1, 1796097830030015, 'granted', 0, 'default', NULL, NULL);
insert into leases (token, job_id, kind, node, length_us, reservation, attempt, round, granted_at, phase, orphaned, tenant, concurrency_key, parked) values (1099511627794, '01a22fc5-ecda-7906-8001-d51be6ca6132', 'task', 'n1', 10000000, '{"node":{"shell":1},"fleet":{}}', 1, 1, 1796097830107703, 'granted', 0, 'default', NULL, NULL);
CREATE TABLE kinds (
  name        text not null, -- its name
  policy      text not null, -- JSON, what the fleet file says of it
  paused      text,          -- hold or reject while none of its jobs may start; null: they may
  dead_by_day text not null, spent text                                     -- JSON, counter -> {since, amount}: spent in the window that began then
  constraint kinds_spent_is_an_object check (json_type(spent) = 'object'), -- JSON, day since 1970 (UTC) -> jobs that became dead
  constraint kinds_pkey primary key (name),
  constraint kinds_pause_is_known check (paused in ('hold', 'reject'))
) strict;
insert into kinds (name, policy, paused, dead_by_day, spent) values ('costly', '{"needs":{},"selector":{},"prefer":[],"node_backoff":true,"lease_us":10000000,"max_failures":3,"max_losses":5,"retry":{"exponential":{"initial_us":10000000,"factor_permille":3000,"max_us":3600000000,"jitter_permille":200}},"permanent_exit_codes":[64,65,66,77,78],"hard_time_limit_us":3600000000,"soft_time_limit_us":null,"progress_timeout_us":null,"queue_cap":null,"max_running":null,"concurrency":null,"fifo":false,"reserve_after_us":30000000,"budget":{"allowances":{"tokens":{"amount":10,"window":"month"}},"refuse":false},"stale_after_us":null,"dedupe":"retained","placement":"pack","priority":0,"result_ttl_us":315360000000000,"retention_us":315360000000000,"keep_on_wait":[],"reacquire_timeout_us":300000000}', NULL, '{}', '{"tokens":{"since":1796083200000000,"amount":12}}');
insert into kinds (name, policy, paused, dead_by_day, spent) values ('held', '{"needs":{},"selector":{},"prefer":[],"node_backoff":true,"lease_us":10000000,"max_failures":3,"max_losses":5,"retry":{"exponential":{"initial_us":10000000,"factor_permille":3000,"max_us":3600000000,"jitter_permille":200}},"permanent_exit_codes":[64,65,66,77,78],"hard_time_limit_us":3600000000,"soft_time_limit_us":null,"progress_timeout_us":null,"queue_cap":null,"max_running":null,"concurrency":null,"fifo":false,"reserve_after_us":30000000,"budget":null,"stale_after_us":null,"dedupe":"retained","placement":"pack","priority":0,"result_ttl_us":315360000000000,"retention_us":315360000000000,"keep_on_wait":[],"reacquire_timeout_us":300000000}', 'hold', '{}', NULL);
insert into kinds (name, policy, paused, dead_by_day, spent) values ('keyed', '{"needs":{},"selector":{},"prefer":[],"node_backoff":true,"lease_us":10000000,"max_failures":3,"max_losses":5,"retry":{"exponential":{"initial_us":10000000,"factor_permille":3000,"max_us":3600000000,"jitter_permille":200}},"permanent_exit_codes":[64,65,66,77,78],"hard_time_limit_us":3600000000,"soft_time_limit_us":null,"progress_timeout_us":null,"queue_cap":null,"max_running":null,"concurrency":{"key":"account","limit":1},"fifo":false,"reserve_after_us":30000000,"budget":null,"stale_after_us":null,"dedupe":"retained","placement":"pack","priority":0,"result_ttl_us":315360000000000,"retention_us":315360000000000,"keep_on_wait":[],"reacquire_timeout_us":300000000}', NULL, '{}', NULL);
insert into kinds (name, policy, paused, dead_by_day, spent) values ('licensed', '{"needs":{"license":1},"selector":{},"prefer":[],"node_backoff":true,"lease_us":10000000,"max_failures":3,"max_losses":5,"retry":{"exponential":{"initial_us":10000000,"factor_permille":3000,"max_us":3600000000,"jitter_permille":200}},"permanent_exit_codes":[64,65,66,77,78],"hard_time_limit_us":3600000000,"soft_time_limit_us":null,"progress_timeout_us":null,"queue_cap":null,"max_running":null,"concurrency":null,"fifo":false,"reserve_after_us":30000000,"budget":null,"stale_after_us":null,"dedupe":"retained","placement":"pack","priority":0,"result_ttl_us":315360000000000,"retention_us":315360000000000,"keep_on_wait":[],"reacquire_timeout_us":300000000}', NULL, '{}', NULL);
insert into kinds (name, policy, paused, dead_by_day, spent) values ('parent', '{"needs":{"shell":1},"selector":{},"prefer":[],"node_backoff":true,"lease_us":10000000,"max_failures":3,"max_losses":5,"retry":{"exponential":{"initial_us":10000000,"factor_permille":3000,"max_us":3600000000,"jitter_permille":200}},"permanent_exit_codes":[64,65,66,77,78],"hard_time_limit_us":3600000000,"soft_time_limit_us":null,"progress_timeout_us":null,"queue_cap":null,"max_running":null,"concurrency":null,"fifo":false,"reserve_after_us":30000000,"budget":null,"stale_after_us":null,"dedupe":"retained","placement":"pack","priority":0,"result_ttl_us":315360000000000,"retention_us":315360000000000,"keep_on_wait":[],"reacquire_timeout_us":300000000}', NULL, '{}', NULL);
insert into kinds (name, policy, paused, dead_by_day, spent) values ('rejecting', '{"needs":{},"selector":{},"prefer":[],"node_backoff":true,"lease_us":10000000,"max_failures":3,"max_losses":5,"retry":{"exponential":{"initial_us":10000000,"factor_permille":3000,"max_us":3600000000,"jitter_permille":200}},"permanent_exit_codes":[64,65,66,77,78],"hard_time_limit_us":3600000000,"soft_time_limit_us":null,"progress_timeout_us":null,"queue_cap":null,"max_running":null,"concurrency":null,"fifo":false,"reserve_after_us":30000000,"budget":null,"stale_after_us":null,"dedupe":"retained","placement":"pack","priority":0,"result_ttl_us":315360000000000,"retention_us":315360000000000,"keep_on_wait":[],"reacquire_timeout_us":300000000}', 'reject', '{}', NULL);
insert into kinds (name, policy, paused, dead_by_day, spent) values ('task', '{"needs":{"shell":1},"selector":{},"prefer":[],"node_backoff":true,"lease_us":10000000,"max_failures":1,"max_losses":5,"retry":{"exponential":{"initial_us":10000000,"factor_permille":3000,"max_us":3600000000,"jitter_permille":200}},"permanent_exit_codes":[64,65,66,77,78],"hard_time_limit_us":3600000000,"soft_time_limit_us":null,"progress_timeout_us":null,"queue_cap":null,"max_running":null,"concurrency":null,"fifo":false,"reserve_after_us":30000000,"budget":null,"stale_after_us":null,"dedupe":"retained","placement":"pack","priority":0,"result_ttl_us":315360000000000,"retention_us":315360000000000,"keep_on_wait":[],"reacquire_timeout_us":300000000}', NULL, '{"20788":1}', NULL);
insert into kinds (name, policy, paused, dead_by_day, spent) values ('tick', '{"needs":{},"selector":{},"prefer":[],"node_backoff":true,"lease_us":10000000,"max_failures":3,"max_losses":5,"retry":{"exponential":{"initial_us":10000000,"factor_permille":3000,"max_us":3600000000,"jitter_permille":200}},"permanent_exit_codes":[64,65,66,77,78],"hard_time_limit_us":3600000000,"soft_time_limit_us":null,"progress_timeout_us":null,"queue_cap":null,"max_running":null,"concurrency":null,"fifo":false,"reserve_after_us":30000000,"budget":null,"stale_after_us":null,"dedupe":"retained","placement":"pack","priority":0,"result_ttl_us":315360000000000,"retention_us":315360000000000,"keep_on_wait":[],"reacquire_timeout_us":300000000}', NULL, '{}', NULL);
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
insert into slots (name, scope, capacity, capacity_since, paused, paused_until, rate_tokens, rate_per_us, rate_burst, rate_full_at, throttled_until) values ('license', 'fleet', 1, 1099511627786, 0, NULL, NULL, NULL, NULL, NULL, NULL);
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
insert into nodes (name, instance, boot_id, incarnation, stream, labels, slots, kinds, host, agent_version, cordoned, draining_us, last_seen_at) values ('n1', '26490809-ca5b-4067-a983-d034dcf8c791', '6f1f7c1e-5b7e-4a53-9a35-2f0f3a6a8a01', 1, 1, '{"zone":"a"}', '{"shell":{"units":16,"since":1099511627776}}', '["costly","held","keyed","licensed","parent","rejecting","task"]', '{"cpus":2,"memory_bytes":25324732416,"disk_free_bytes":59291144192,"os":"linux","arch":"x86_64","containment":"partial"}', '0.1.0', 0, NULL, 1796097826700936);
CREATE TABLE classes (
  class    text not null, -- the text of (kind, needs, selector, tenant)
  timeline text not null, -- JSON list of {since, reason, message, tries, duration_us}, the oldest first
  constraint classes_pkey primary key (class)
) strict;
insert into classes (class, timeline) values ('tick|||default', '[{"since":1796097827038423,"reason":"no_matching_node","message":"no node runs this kind","tries":1,"duration_us":331186}]');
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
insert into leader_fence (epoch, one, holder, holder_addr, holder_peer_addr, hb, db_ident, acquired_at, seen_at) values (1, 1, NULL, NULL, NULL, 1, NULL, 1796097826352000, NULL);
CREATE TABLE tenants (
  name   text    not null, -- its name
  weight integer not null, -- of two that both have work waiting, twice the weight gets twice as much
  constraint tenants_pkey primary key (name),
  constraint tenants_weight_is_bounded check (weight between 1 and 1000)
) strict;
insert into tenants (name, weight) values ('acme', 2);
CREATE TABLE checkpoints (
  job_id     text    not null, -- the job
  token      integer not null, -- of the lease of the execution that saved it
  data       blob    not null, -- opaque to the server
  created_at integer not null, -- when it was stored
  constraint checkpoints_pkey primary key (job_id),
  constraint checkpoints_belong_to_a_job foreign key (job_id) references jobs (id) on delete cascade
) strict;
insert into checkpoints (job_id, token, data, created_at) values ('01a22fc5-e91d-717a-9a4f-2eee2bf64288', 1099511627786, X'4C696E75780A', 1796097829522834);
CREATE TABLE workflows (
  id               text    not null, -- UUID v7, made by the producer; the ids of its members are derived from it
  producer         text    not null, -- who submitted it
  name             text,             -- for people
  fingerprint      blob    not null, -- SHA-256 of its shape and of all its jobs
  shape            text    not null, -- JSON, a tree of chains, groups and chords; its leaves are the members by place
  members          integer not null, -- how many leaves that tree has
  state            text    not null, -- where it stands; the last three are final
  version          integer not null, -- plus one at each change of this row
  round            integer not null, -- plus one when a final one comes back, from 1
  cancel_requested integer not null, -- somebody wants it to end
  created_at       integer not null, -- when it was submitted
  began_at         integer not null, -- from when its deadlines count: its submission, or its last requeue
  finished_at      integer,          -- final: when that was recorded
  reason           text,             -- why it stands where it stands, for people
  opened           text    not null, -- JSON, by gate: those that opened before all of their members had ended, and without whom
  constraint workflows_pkey primary key (id),
  constraint workflows_state_is_known check (state in ('running', 'succeeded', 'dead', 'cancelled')),
  constraint workflows_final_has_finished_at check ((state = 'running') = (finished_at is null)),
  constraint workflows_flags_are_flags check (cancel_requested in (0, 1)),
  constraint workflows_fingerprint_is_sha256 check (length(fingerprint) = 32),
  constraint workflows_counts_from_one check (members >= 1 and version >= 1 and round >= 1)
) strict;
insert into workflows (id, producer, name, fingerprint, shape, members, state, version, round, cancel_requested, created_at, began_at, finished_at, reason, opened) values ('01a22fc5-ecda-71a7-b4ee-75202888359b', 'local', NULL, X'42883AF60273E41902E668B1A86B09861B212565020CFFCAB49CD9D4C075B167', '{"chain":[{"chord":{"members":["job","job"],"policy":"all","leave":false}},"job"]}', 4, 'running', 1, 1, 0, 1796097830107703, 1796097830107703, NULL, NULL, '{}');
CREATE TABLE crons (
  name         text    not null, -- its name
  policy       text    not null, -- JSON, as in the fleet file: timetable, zone, what becomes of missed firings, the job
  last_instant integer not null, -- what becomes of every instant up to this one is settled; it never falls
  paused_by    text, -- who paused it; null: it is not paused
  paused_at    integer, -- since when it is paused
  fired        integer not null, -- jobs enqueued for it
  missed       integer not null, -- instants that did not become a job
  last_fired   text, -- JSON, the newest job that was enqueued for it: instant, at, job
  recent       text    not null, -- JSON, its newest missed firings with their reasons, the newest first
  constraint crons_pkey primary key (name),
  constraint crons_pause_has_its_time check ((paused_by is null) = (paused_at is null)),
  constraint crons_counts_not_negative check (fired >= 0 and missed >= 0)
) strict;
insert into crons (name, policy, last_instant, paused_by, paused_at, fired, missed, last_fired, recent) values ('every-second', '{"kind":"tick","when":"* * * * * *","zone":"UTC","missed":"skip","jitter_us":0,"singleton":false,"payload":"","content_type":"application/octet-stream","tenant":"default","priority":null,"labels":{},"needs":null,"selector":{},"stale_after_us":null,"hard_time_limit_us":null,"concurrency_key":null}', 1796097830000000, 'local', 1796097830230280, 4, 0, '{"instant":1796097830000000,"at":1796097830000481,"job":"01a22fc5-ec70-7825-8009-3dfc6a2a2b71"}', '[]');
CREATE TABLE webhooks (
  name    text    not null, -- its name
  policy  text    not null, -- JSON, as in the fleet file: where to, the name of the secret, which ends of what; never the secret
  gone_at integer, -- since when its receiver says that it is gone (410); null: it is there
  constraint webhooks_pkey primary key (name)
) strict;
insert into webhooks (name, policy, gone_at) values ('ci', '{"url":"https://localhost:9/told","secret":"ci","events":["succeeded","dead","cancelled","expired"],"kinds":null,"workflows":false}', NULL);
CREATE TABLE outbox (
  id         integer not null, -- epoch << 40 | n, the nth of that epoch; the same over all tries
  webhook    text    not null, -- to whom
  event      text    not null, -- the type of the event, such as job.succeeded
  subject_id text, -- the job or workflow that ended; null: an operator tries whether it arrives
  body       text    not null, -- what is sent, byte for byte: JSON of the subject as it ended, without payload and result
  created_at integer not null, -- when its subject ended
  since_at   integer not null, -- from then on it is tried: its making, or an operator wanted it again
  tries      integer not null, -- how often it was tried since then
  next_at    integer, -- it is not tried before; null: it is not tried any more
  failed_at  integer, -- since when it is not tried any more; null: it waits
  error      text, -- why the last try failed, for people; null: it was not tried
  constraint outbox_pkey primary key (id),
  constraint outbox_has_a_webhook foreign key (webhook) references webhooks (name),
  constraint outbox_waits_or_failed check ((next_at is null) <> (failed_at is null)),
  constraint outbox_id_from_one check (id > 0),
  constraint outbox_tries_not_negative check (tries >= 0)
) strict;
insert into outbox (id, webhook, event, subject_id, body, created_at, since_at, tries, next_at, failed_at, error) values (1099511627777, 'ci', 'job.succeeded', '01a22fc5-dfb6-700c-8a94-fdbe9d9c3fae', '{"type":"job.succeeded","timestamp":"2026-12-01T04:03:46.973190Z","data":{"id":"01a22fc5-dfb6-700c-8a94-fdbe9d9c3fae","kind":"task","tenant":"default","producer":"local","state":"JOB_STATE_SUCCEEDED","version":"5","labels":{"ends":"succeeded"},"needs":{"slots":[{"slot":"shell","amount":1}]},"hardTimeLimit":"3600s","rootId":"01a22fc5-dfb6-700c-8a94-fdbe9d9c3fae","round":1,"maxFailures":1,"maxLosses":5,"attempt":1,"token":"1099511627780","createTime":"2026-12-01T04:03:46.833369Z","startTime":"2026-12-01T04:03:46.939130Z","finishTime":"2026-12-01T04:03:46.973190Z"}}', 1796097826973190, 1796097826973190, 3, 1796097834168609, NULL, 'Connection refused (os error 111)');
insert into outbox (id, webhook, event, subject_id, body, created_at, since_at, tries, next_at, failed_at, error) values (1099511627778, 'ci', 'job.succeeded', '01a22fc5-dfb6-700c-8a94-fdbcce06f8a2', '{"type":"job.succeeded","timestamp":"2026-12-01T04:03:47.038423Z","data":{"id":"01a22fc5-dfb6-700c-8a94-fdbcce06f8a2","kind":"task","tenant":"default","producer":"local","state":"JOB_STATE_SUCCEEDED","version":"5","labels":{"left":"pile","ends":"succeeded"},"needs":{"slots":[{"slot":"shell","amount":1}]},"hardTimeLimit":"3600s","rootId":"01a22fc5-dfb6-700c-8a94-fdbcce06f8a2","round":1,"maxFailures":1,"maxLosses":5,"attempt":1,"token":"1099511627778","createTime":"2026-12-01T04:03:46.777699Z","startTime":"2026-12-01T04:03:46.893232Z","finishTime":"2026-12-01T04:03:47.038423Z","payloadSize":"12"}}', 1796097827038423, 1796097827038423, 3, 1796097833727124, NULL, 'Connection refused (os error 111)');
insert into outbox (id, webhook, event, subject_id, body, created_at, since_at, tries, next_at, failed_at, error) values (1099511627779, 'ci', 'job.succeeded', '01a22fc5-dfb6-700c-8a94-fdbf0e659e33', '{"type":"job.succeeded","timestamp":"2026-12-01T04:03:47.135913Z","data":{"id":"01a22fc5-dfb6-700c-8a94-fdbf0e659e33","kind":"costly","tenant":"default","producer":"local","state":"JOB_STATE_SUCCEEDED","version":"5","labels":{"ends":"succeeded"},"needs":{},"hardTimeLimit":"3600s","rootId":"01a22fc5-dfb6-700c-8a94-fdbf0e659e33","round":1,"maxFailures":3,"maxLosses":5,"attempt":1,"token":"1099511627781","createTime":"2026-12-01T04:03:46.855913Z","startTime":"2026-12-01T04:03:47.038334Z","finishTime":"2026-12-01T04:03:47.135913Z","payloadSize":"24"}}', 1796097827135913, 1796097827135913, 2, 1796097830527819, NULL, 'Connection refused (os error 111)');
insert into outbox (id, webhook, event, subject_id, body, created_at, since_at, tries, next_at, failed_at, error) values (1099511627780, 'ci', 'job.succeeded', '01a22fc5-dfb6-700c-8a94-fdbb4d7c46d9', '{"type":"job.succeeded","timestamp":"2026-12-01T04:03:47.213459Z","data":{"id":"01a22fc5-dfb6-700c-8a94-fdbb4d7c46d9","kind":"task","tenant":"acme","producer":"local","state":"JOB_STATE_SUCCEEDED","version":"5","dedupeKey":"the-key","dedupeHeld":true,"labels":{"left":"text","ends":"succeeded"},"needs":{"slots":[{"slot":"shell","amount":1}]},"hardTimeLimit":"3600s","rootId":"01a22fc5-dfb6-700c-8a94-fdbb4d7c46d9","round":1,"maxFailures":1,"maxLosses":5,"attempt":1,"token":"1099511627777","createTime":"2026-12-01T04:03:46.748493Z","startTime":"2026-12-01T04:03:46.914938Z","finishTime":"2026-12-01T04:03:47.213459Z","payloadSize":"28"}}', 1796097827213459, 1796097827213459, 3, 1796097834515444, NULL, 'Connection refused (os error 111)');
insert into outbox (id, webhook, event, subject_id, body, created_at, since_at, tries, next_at, failed_at, error) values (1099511627781, 'ci', 'job.succeeded', '01a22fc5-dfb6-700c-8a94-fdbd14e07675', '{"type":"job.succeeded","timestamp":"2026-12-01T04:03:47.950413Z","data":{"id":"01a22fc5-dfb6-700c-8a94-fdbd14e07675","kind":"task","tenant":"default","producer":"local","state":"JOB_STATE_SUCCEEDED","version":"5","labels":{"left":"text","ends":"succeeded"},"needs":{"slots":[{"slot":"shell","amount":1}]},"hardTimeLimit":"3600s","rootId":"01a22fc5-dfb6-700c-8a94-fdbd14e07675","round":1,"maxFailures":1,"maxLosses":5,"attempt":1,"token":"1099511627779","createTime":"2026-12-01T04:03:46.822276Z","startTime":"2026-12-01T04:03:46.939075Z","finishTime":"2026-12-01T04:03:47.950413Z","reason":"its result is partial: it had been asked to wrap up","payloadSize":"25","softTimeLimit":"1s"}}', 1796097827950413, 1796097827950413, 2, 1796097831202118, NULL, 'Connection refused (os error 111)');
insert into outbox (id, webhook, event, subject_id, body, created_at, since_at, tries, next_at, failed_at, error) values (1099511627782, 'ci', 'job.dead', '01a22fc5-e48b-70fc-ab58-da42c89e4bb5', '{"type":"job.dead","timestamp":"2026-12-01T04:03:48.105322Z","data":{"id":"01a22fc5-e48b-70fc-ab58-da42c89e4bb5","kind":"task","tenant":"default","producer":"local","state":"JOB_STATE_DEAD","version":"5","labels":{"ends":"dead"},"needs":{"slots":[{"slot":"shell","amount":1}]},"hardTimeLimit":"3600s","rootId":"01a22fc5-e48b-70fc-ab58-da42c89e4bb5","round":1,"failures":1,"maxFailures":1,"maxLosses":5,"attempt":2,"token":"1099511627782","createTime":"2026-12-01T04:03:47.980923Z","startTime":"2026-12-01T04:03:48.093899Z","finishTime":"2026-12-01T04:03:48.105322Z","reason":"exited with code 3","payloadSize":"7"}}', 1796097828105322, 1796097828105322, 2, 1796097831461135, NULL, 'Connection refused (os error 111)');
insert into outbox (id, webhook, event, subject_id, body, created_at, since_at, tries, next_at, failed_at, error) values (1099511627783, 'ci', 'job.cancelled', '01a22fc5-e519-7761-b735-48fa7e4de82b', '{"type":"job.cancelled","timestamp":"2026-12-01T04:03:48.127210Z","data":{"id":"01a22fc5-e519-7761-b735-48fa7e4de82b","kind":"task","tenant":"default","producer":"local","state":"JOB_STATE_CANCELLED","version":"3","labels":{"ends":"cancelled"},"needs":{"slots":[{"slot":"shell","amount":1}]},"hardTimeLimit":"3600s","rootId":"01a22fc5-e519-7761-b735-48fa7e4de82b","round":1,"maxFailures":1,"maxLosses":5,"attempt":1,"createTime":"2026-12-01T04:03:48.122987Z","finishTime":"2026-12-01T04:03:48.127210Z","reason":"not needed","waits":[{"reason":"run_at","message":"start time","count":"1","duration":"0.004224s"}]}}', 1796097828127210, 1796097828127210, 2, 1796097831235771, NULL, 'Connection refused (os error 111)');
insert into outbox (id, webhook, event, subject_id, body, created_at, since_at, tries, next_at, failed_at, error) values (1099511627784, 'ci', 'job.expired', '01a22fc5-e52b-74ef-8e1b-6ba5ec38f60e', '{"type":"job.expired","timestamp":"2026-12-01T04:03:49.142034Z","data":{"id":"01a22fc5-e52b-74ef-8e1b-6ba5ec38f60e","kind":"held","tenant":"default","producer":"local","state":"JOB_STATE_EXPIRED","version":"3","labels":{"ends":"expired"},"needs":{},"hardTimeLimit":"3600s","rootId":"01a22fc5-e52b-74ef-8e1b-6ba5ec38f60e","round":1,"maxFailures":3,"maxLosses":5,"attempt":1,"createTime":"2026-12-01T04:03:48.140892Z","staleAt":"2026-12-01T04:03:49.140892Z","finishTime":"2026-12-01T04:03:49.142034Z","reason":"not started within its stale_after","waits":[{"reason":"kind_paused","message":"kind paused","count":"1","duration":"1.001139s"}]}}', 1796097829142034, 1796097829142034, 2, 1796097832228684, NULL, 'Connection refused (os error 111)');
insert into outbox (id, webhook, event, subject_id, body, created_at, since_at, tries, next_at, failed_at, error) values (1099511627785, 'ci', 'job.succeeded', '01a22fc5-ecda-7906-8000-d51be6ca6132', '{"type":"job.succeeded","timestamp":"2026-12-01T04:03:50.209341Z","data":{"id":"01a22fc5-ecda-7906-8000-d51be6ca6132","kind":"task","tenant":"default","producer":"local","state":"JOB_STATE_SUCCEEDED","version":"5","labels":{"ends":"succeeded"},"needs":{"slots":[{"slot":"shell","amount":1}]},"hardTimeLimit":"3600s","rootId":"01a22fc5-ecda-7906-8000-d51be6ca6132","round":1,"maxFailures":1,"maxLosses":5,"attempt":1,"token":"1099511627793","createTime":"2026-12-01T04:03:50.107703Z","startTime":"2026-12-01T04:03:50.202042Z","finishTime":"2026-12-01T04:03:50.209341Z","payloadSize":"28","workflowId":"01a22fc5-ecda-71a7-b4ee-75202888359b","workflowPlace":0}}', 1796097830209341, 1796097830209341, 1, 1796097831325487, NULL, 'Connection refused (os error 111)');
CREATE TABLE log_tails (
  job_id       text    not null, -- the job
  token        integer not null, -- of the lease of the execution
  stdout_bytes integer not null, -- how many bytes it printed to standard output
  stdout_tail  blob    not null, -- the last of them; any bytes
  stderr_bytes integer not null, -- how many bytes it printed to standard error
  stderr_tail  blob    not null, -- the last of them; any bytes
  created_at   integer not null, -- when it was stored
  constraint log_tails_pkey primary key (job_id, token),
  constraint log_tails_belong_to_a_job foreign key (job_id) references jobs (id) on delete cascade,
  constraint log_tails_bytes_not_negative check (stdout_bytes >= 0 and stderr_bytes >= 0)
) strict;
insert into log_tails (job_id, token, stdout_bytes, stdout_tail, stderr_bytes, stderr_tail, created_at) values ('01a22fc5-dfb6-700c-8a94-fdbb4d7c46d9', 1099511627777, 7, X'6120776F72640A', 0, X'', 1796097827213459);
insert into log_tails (job_id, token, stdout_bytes, stdout_tail, stderr_bytes, stderr_tail, created_at) values ('01a22fc5-ecda-7906-8000-d51be6ca6132', 1099511627793, 7, X'6120776F72640A', 0, X'', 1796097830209341);
CREATE TABLE inbox (
  seq                integer not null, -- the order of insertion, which need not be that of the commits
  role               text    not null, -- who inserted it: the role that logged in, as the database says
  inserted_at        integer not null, -- when, by the clock of the database; compared with nothing but that clock
  job_id             text    not null, -- a UUID v7; under it a row that is ingested again is the same job
  kind               text    not null, -- its kind
  payload            blob    not null, -- its payload
  content_type       text    not null, -- a media type; may be empty
  dedupe_key         text, -- null: none
  tenant             text, -- null: that of the producer
  priority           integer, -- null: that of the kind
  run_at             integer, -- not to be started before; null: at once
  delay_ms           integer, -- not to be started before so long after inserted_at; null: at once
  stale_after_ms     integer, -- not worth starting so long after inserted_at; null: that of the kind
  labels             text, -- JSON, text to text; null: none
  selector           text, -- JSON, label to value; null: none
  needs              text, -- JSON, slot to units; null: those of the kind
  concurrency_key    text, -- null: none
  hard_time_limit_ms integer, -- null: that of the kind
  soft_time_limit_ms integer, -- null: that of the kind
  traceparent        text, -- a W3C traceparent; null: none
  constraint inbox_pkey primary key (seq),
  constraint inbox_payload_in_bounds check (length(payload) <= 262144),
  constraint inbox_texts_in_bounds check (
    length(cast(role as blob)) <= 63 and length(cast(kind as blob)) <= 255 and length(cast(content_type as blob)) <= 255
    and length(cast(coalesce(dedupe_key, '') as blob)) <= 255 and length(cast(coalesce(tenant, '') as blob)) <= 255
    and length(cast(coalesce(concurrency_key, '') as blob)) <= 256
    and length(cast(coalesce(traceparent, '') as blob)) <= 128
  ),
  constraint inbox_maps_in_bounds check (
    length(coalesce(labels, '')) <= 65536 and length(coalesce(selector, '')) <= 65536
    and length(coalesce(needs, '')) <= 65536
  ),
  constraint inbox_run_at_in_bounds check (run_at >= 0 and run_at < 253402300800000000)
) strict;
CREATE TABLE inbox_refusals (
  seq         integer not null, -- that of the row
  role        text    not null, -- who inserted it
  producer    text    not null, -- as whom it would have enqueued
  inserted_at integer not null, -- when it was inserted, by the clock of the database
  refused_at  integer not null, -- when it was refused
  job_id      text    not null, -- the id that the job would have had; there is none under it
  kind        text    not null, -- its kind, as it was asked for
  dedupe_key  text, -- null: none
  reason      text    not null, -- the reason, as an RPC would be told it
  message     text    not null, -- the same as a sentence
  entry       text, -- JSON, the row whole, so that it can be brought back; null: it was refused for what it asks for
  constraint inbox_refusals_pkey primary key (seq)
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
CREATE INDEX workflows_live on workflows (id) where finished_at is null;
CREATE INDEX workflows_newest on workflows (created_at, id);
CREATE UNIQUE INDEX jobs_one_per_place on jobs (workflow_id, workflow_place) where workflow_id is not null;
CREATE VIEW inv_workflows_have_members (invariant, subject, detail) as
select 'inv_workflows_have_members', jobs.id, 'is ' || jobs.state || ', and its workflow is not live'
from jobs
where jobs.workflow_id is not null
  and jobs.finished_at is null
  and not exists (select 1 from workflows where workflows.id = jobs.workflow_id and workflows.finished_at is null)
union all
select 'inv_workflows_have_members', workflows.id,
  'has ' || (select count(*) from jobs where jobs.workflow_id = workflows.id) || ' of its '
    || workflows.members || ' members'
from workflows
where workflows.finished_at is null
  and workflows.members <> (select count(*) from jobs where jobs.workflow_id = workflows.id);
CREATE VIEW inv_instants_fire_once (invariant, subject, detail) as
select 'inv_instants_fire_once', jobs.producer, count(*) || ' jobs of the instant ' || (jobs.labels ->> '$."cron.instant"')
from jobs
where jobs.producer glob 'cron:*' and jobs.parent_id is null and jobs.labels ->> '$."cron.instant"' is not null
group by jobs.producer, jobs.labels ->> '$."cron.instant"'
having count(*) > 1;
CREATE INDEX results_objects on results (job_id, token) where object_size is not null;
CREATE INDEX inbox_by_kind on inbox (kind, seq);
commit;
