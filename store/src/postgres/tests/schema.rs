//! The schema: checks, views, and databases of other versions.

use std::collections::BTreeSet;

use sqlx::{Connection, Executor, PgConnection, Row};
use tenure_scheduler::Epoch;
use uuid::Uuid;

use super::{
    super::{
        Options, fault, open,
        schema::{MIGRATIONS, migrator},
    },
    Store, database, hand,
};
use crate::{
    Journal,
    reader::{INVARIANTS, OF_LEASES},
};

#[tokio::test]
async fn rows_of_an_older_schema_stay_as_they_were() {
    const LEASE: &str = "
insert into leases values ($2, $1, 'k', 'n', 1, '{\"node\":{},\"fleet\":{}}', 1, 1, now(), 'granted')";
    let url = database();
    let mut hand = hand(&url).await;
    migrator(&MIGRATIONS[..5]).run_direct(None, &mut hand, false).await.unwrap();
    let id = Uuid::from_u128(7);
    insert_job(&mut hand, id, "running", 3).await;
    sqlx::query(LEASE).bind(id).bind(3_i64).execute(&mut hand).await.unwrap();
    // Its job was deleted.
    sqlx::query(LEASE).bind(Uuid::from_u128(8)).bind(4_i64).execute(&mut hand).await.unwrap();
    hand.close().await.unwrap();

    let options = Options { migrate: true, ..Options::new(url.parse().unwrap()) };
    let (mut journal, _) = open(&options).await.unwrap();
    let durable = journal.takeover(Epoch(0)).await.unwrap().durable;
    let leases: Vec<_> =
        durable.leases.values().map(|lease| (lease.token.0, lease.orphaned, lease.tenant.as_str())).collect();
    assert_eq!((durable.jobs.len(), leases), (1, vec![(3, false, "t"), (4, false, "default")]));
}

#[tokio::test]
async fn checks_refuse_what_makes_no_sense() {
    let store = Store::new().await;
    let mut hand = store.hand().await;
    insert_job(&mut hand, Uuid::from_u128(1), "queued", 0).await;
    hand.execute("insert into slots values ('s', 'node', null, 0, false, null)").await.unwrap();
    lease(&mut hand, 1, Uuid::from_u128(1), "n", "unreaped", "{}").await;
    workflow(&mut hand, Uuid::from_u128(1), 1).await;
    let broken = [
        ("update jobs set state = 'pending', queued_at = null", "jobs_state_is_known"),
        ("update jobs set finished_at = now()", "jobs_final_has_finished_at"),
        ("update jobs set state = 'dead', queued_at = null", "jobs_final_has_finished_at"),
        ("update jobs set run_at = now()", "jobs_scheduled_has_run_at"),
        ("update jobs set scheduled_cause = 'run_at'", "jobs_scheduled_has_cause"),
        (
            "update jobs set state = 'scheduled', queued_at = null, run_at = now(), scheduled_cause = 'cron'",
            "jobs_cause_is_known",
        ),
        ("update jobs set queued_at = null", "jobs_queued_has_queued_at"),
        ("update jobs set state = 'running', queued_at = null", "jobs_running_has_token"),
        ("update jobs set last_outcome = 'failed'", "jobs_outcome_is_known"),
        ("update jobs set priority = 101", "jobs_priority_in_range"),
        ("update jobs set dedupe_held = true", "jobs_held_has_key"),
        ("update jobs set fingerprint = '\\x00'", "jobs_fingerprint_is_sha256"),
        ("update jobs set round = 0", "jobs_round_from_one"),
        ("update jobs set losses = -1", "jobs_counts_not_negative"),
        ("update jobs set tracestate = 'a=b'", "jobs_state_of_a_trace"),
        ("update jobs set on_parent_cancel = 'die'", "jobs_on_parent_cancel_is_known"),
        ("update jobs set on_parent_lost = 'die'", "jobs_on_parent_lost_is_known"),
        ("update jobs set waiting_at = now()", "jobs_waiting_has_waiting_at"),
        (
            "update jobs set state = 'expired', queued_at = null, finished_at = now(), detached = '{}'",
            "jobs_final_has_no_wait",
        ),
        ("update jobs set left_result = true", "jobs_left_result_of_a_success"),
        (
            "update jobs set blocked_at = now(), workflow_id = id, workflow_place = 0",
            "jobs_blocked_has_blocked_at",
        ),
        ("update jobs set state = 'blocked', queued_at = null, blocked_at = now()", "jobs_blocked_is_member"),
        ("update jobs set workflow_id = id", "jobs_member_has_place"),
        ("update workflows set state = 'partial', finished_at = now()", "workflows_state_is_known"),
        ("update workflows set finished_at = now()", "workflows_final_has_finished_at"),
        ("update workflows set fingerprint = '\\x00'", "workflows_fingerprint_is_sha256"),
        ("update workflows set members = 0", "workflows_counts_from_one"),
        ("update slots set scope = 'zone'", "slots_scope_is_known"),
        ("update slots set capacity = 1", "slots_fleet_has_capacity"),
        ("update slots set scope = 'fleet'", "slots_fleet_has_capacity"),
        ("update slots set scope = 'fleet', capacity = -1", "slots_capacity_not_negative"),
        ("update slots set paused_until = now()", "slots_until_only_paused"),
        ("update slots set rate_tokens = 0, rate_per_us = 1, rate_burst = 1", "slots_rate_from_one"),
        ("update slots set rate_tokens = 1, rate_burst = 1", "slots_rate_has_its_time"),
        ("update slots set rate_tokens = 1, rate_per_us = 1", "slots_rate_has_its_burst"),
        ("update slots set rate_full_at = now()", "slots_bucket_of_a_rate"),
        ("update slots set throttled_until = now()", "slots_throttled_of_the_fleet"),
        ("update leases set phase = 'parked'", "leases_phase_is_known"),
        ("update leases set parked = '{}'", "leases_parked_is_granted"),
        ("update leases set token = 0", "leases_token_from_one"),
        ("update leases set attempt = 0", "leases_attempt_from_one"),
        ("insert into kinds values ('k', '{}', 'maybe', '{}')", "kinds_pause_is_known"),
        (
            "insert into crons values ('c', '{}', now(), 'ann', null, 0, 0, null, '[]')",
            "crons_pause_has_its_time",
        ),
        (
            "insert into crons values ('c', '{}', now(), null, null, 0, -1, null, '[]')",
            "crons_counts_not_negative",
        ),
        (
            "insert into outbox values (1, 'w', 'e', null, '{}', now(), now(), 0, null, null, null)",
            "outbox_waits_or_failed",
        ),
        (
            "insert into outbox values (1, 'w', 'e', null, '{}', now(), now(), 0, now(), now(), null)",
            "outbox_waits_or_failed",
        ),
        (
            "insert into outbox values (0, 'w', 'e', null, '{}', now(), now(), 0, now(), null, null)",
            "outbox_id_from_one",
        ),
        (
            "insert into outbox values (1, 'w', 'e', null, '{}', now(), now(), -1, now(), null, null)",
            "outbox_tries_not_negative",
        ),
        (
            "insert into results (job_id, token, data, content_type, created_at, expires_at, object_size) select id, 1, '', '', now(), now(), 7 from jobs",
            "results_objects_are_named",
        ),
        (
            "insert into results (job_id, token, data, content_type, created_at, expires_at, object_size, object_sha256) select id, 1, '', '', now(), now(), -1, 'a' from jobs",
            "results_objects_have_a_size",
        ),
        (
            "insert into inbox (role, inserted_at, job_id, kind, payload, content_type) select 'r', now(), id, 'k', convert_to(repeat('x', 262145), 'UTF8'), '' from jobs",
            "inbox_payload_in_bounds",
        ),
        (
            "insert into inbox (role, inserted_at, job_id, kind, payload, content_type) select 'r', now(), id, 'k', '', repeat('x', 256) from jobs",
            "inbox_texts_in_bounds",
        ),
        (
            "insert into inbox (role, inserted_at, job_id, kind, payload, content_type, dedupe_key) select 'r', now(), id, 'k', '', '', repeat('x', 256) from jobs",
            "inbox_texts_in_bounds",
        ),
        (
            "insert into inbox (role, inserted_at, job_id, kind, payload, content_type, labels) select 'r', now(), id, 'k', '', '', jsonb_build_object('a', repeat('x', 65536)) from jobs",
            "inbox_maps_in_bounds",
        ),
        (
            "insert into inbox (role, inserted_at, job_id, kind, payload, content_type, run_at) select 'r', now(), id, 'k', '', '', 'infinity' from jobs",
            "inbox_run_at_in_bounds",
        ),
        (
            "insert into inbox (role, inserted_at, job_id, kind, payload, content_type, run_at) select 'r', now(), id, 'k', '', '', '-infinity' from jobs",
            "inbox_run_at_in_bounds",
        ),
        (
            "insert into log_tails select id, 1, -1, '', 0, '', now() from jobs",
            "log_tails_bytes_not_negative",
        ),
        ("insert into tenants values ('t', 0)", "tenants_weight_is_bounded"),
        ("insert into tenants values ('t', 1001)", "tenants_weight_is_bounded"),
        (
            "insert into kinds (name, policy, paused, dead_by_day, spent) values ('k', '{}', null, '{}', '[]')",
            "kinds_spent_is_an_object",
        ),
        (
            "insert into attempts (job_id, token, attempt, round, node, outcome, cause, error, exit_code, granted_at, started_at, ended_at, usage) select id, 1, 1, 1, 'n', 'lost', '', '', null, now(), null, now(), '[]' from jobs",
            "attempts_usage_is_an_object",
        ),
        ("insert into leader_fence (epoch) values (5)", "leader_fence_one_row"),
        ("insert into leader_fence (epoch, one) values (5, false)", "leader_fence_one"),
        ("update leader_fence set epoch = 8388608", "leader_fence_epoch_fits_a_token"),
        (
            "insert into attempts select id, 1, 1, 1, 'n', 'ok', '', '', null, now(), null, now(), false from jobs",
            "attempts_outcome_is_known",
        ),
        (
            "insert into attempts select id, 1, 0, 1, 'n', 'lost', '', '', null, now(), null, now(), false from jobs",
            "attempts_number_from_one",
        ),
        (
            "insert into attempts (job_id, token, attempt, round, node, outcome, cause, error, exit_code, granted_at, started_at, ended_at, checkpoint_size) select id, 1, 1, 1, 'n', 'lost', '', '', null, now(), null, now(), -1 from jobs",
            "attempts_checkpoint_has_a_size",
        ),
    ];
    for (statement, wall) in broken {
        let error = hand.execute(statement).await.expect_err(statement);
        let fault = fault::of("a hand", error);
        assert!(
            matches!(&fault, crate::journal::Error::Constraint { name, .. } if name == wall),
            "{statement}: {wall}, {fault:?}"
        );
    }
    let checks = "
select conname::text from pg_constraint
where connamespace = 'public'::regnamespace and contype = 'c' and conrelid <> '_sqlx_migrations'::regclass";
    let checks = sqlx::query(checks).fetch_all(&mut hand).await.unwrap();
    let checks: BTreeSet<String> = checks.iter().map(|row| row.get(0)).collect();
    let fired = broken.iter().map(|(_, wall)| (*wall).to_owned()).collect();
    let silent: Vec<_> = checks.difference(&fired).collect();
    assert!(silent.is_empty(), "nothing breaks {silent:?}");
}

#[tokio::test]
async fn views_show_what_must_never_be() {
    let store = Store::new().await;
    let mut hand = store.hand().await;
    assert_eq!(store.reader.violations().await.unwrap(), []);
    let id = |n: u128| Uuid::from_u128(n);
    let mut expected = BTreeSet::new();
    let mut breach = |invariant: &str, subject: &str| {
        expected.insert((invariant.to_owned(), subject.to_owned()));
    };

    // Sound rows beside the broken ones: an overdrawn slot whose capacity fell later, a job that runs.
    insert_job(&mut hand, id(3), "running", 3).await;
    let slots = "
insert into slots values
  ('lowered', 'fleet', 1, 99, false, null), ('browser', 'node', null, 0, false, null),
  ('over', 'fleet', 1, 2, false, null)";
    hand.execute(slots).await.unwrap();
    let node = "
insert into nodes values
  ('n', '', '', 1, 1, '{}', '{\"browser\":{\"units\":1,\"since\":0}}', '[]', '{}', '', false, null, now())";
    hand.execute(node).await.unwrap();
    lease(&mut hand, 3, id(3), "n", "granted", r#"{"node":{},"fleet":{"lowered":2}}"#).await;

    insert_job(&mut hand, id(4), "running", 4).await;
    breach("inv_one_live_lease", &id(4).to_string());
    lease(&mut hand, 5, id(5), "n", "granted", "{}").await;
    breach("inv_one_live_lease", &id(5).to_string());
    lease(&mut hand, 6, id(6), "n", "finished", r#"{"fleet":{"over":2}}"#).await;
    breach("inv_slots_within_capacity", "over");
    lease(&mut hand, 7, id(7), "n", "unreaped", r#"{"node":{"browser":2},"fleet":{"over":9}}"#).await;
    breach("inv_slots_within_capacity", "n/browser");
    lease(&mut hand, 8, id(8), "elsewhere", "unreaped", "{}").await;
    breach("inv_leases_have_owners", "8");
    insert_job(&mut hand, id(9), "running", 8).await;
    lease(&mut hand, 9, id(9), "n", "granted", "{}").await;
    breach("inv_leases_have_owners", "9");
    breach("inv_one_live_lease", &id(9).to_string());
    insert_job(&mut hand, id(10), "running", 10).await;
    let needs = "update jobs set needs = '{\"browser\":1,\"over\":1}' where token = 10";
    hand.execute(needs).await.unwrap();
    lease(&mut hand, 10, id(10), "n", "granted", r#"{"node":{"gpu":1},"fleet":{}}"#).await;
    breach("inv_all_or_nothing", "10");
    insert_job(&mut hand, id(11), "queued", 0).await;
    const OUTCOME: &str = "update jobs set last_outcome = 'succeeded' where id = $1";
    sqlx::query(OUTCOME).bind(id(11)).execute(&mut hand).await.unwrap();
    breach("inv_final_is_settled", &id(11).to_string());
    const RESULT: &str = "insert into results values ($1, 1, '', '', now(), now())";
    sqlx::query(RESULT).bind(id(3)).execute(&mut hand).await.unwrap();
    breach("inv_results_have_executions", &id(3).to_string());
    insert_job(&mut hand, id(12), "queued", 0).await;
    const FAILURES: &str = "update jobs set failures = 1 where id = $1";
    sqlx::query(FAILURES).bind(id(12)).execute(&mut hand).await.unwrap();
    breach("inv_attempts_are_counted", &id(12).to_string());

    for n in [13, 14, 15, 16, 17] {
        insert_job(&mut hand, id(n), "queued", 0).await;
    }
    const FIRED: &str = "update jobs set producer = 'cron:e', labels = '{\"cron.instant\":\"2026-03-29T01:00:00Z\"}' where id = $1";
    sqlx::query(FIRED).bind(id(13)).execute(&mut hand).await.unwrap();
    sqlx::query(FIRED).bind(id(14)).execute(&mut hand).await.unwrap();
    // A child of a fired one may carry its labels, and has its producer: of another instant, so that it would be told.
    const CHILD: &str = "update jobs set producer = 'cron:parent', parent_id = $2, labels = '{\"cron.instant\":\"x\"}' where id = $1";
    for n in [16, 17] {
        sqlx::query(CHILD).bind(id(n)).bind(id(13)).execute(&mut hand).await.unwrap();
    }
    hand.execute(
        "update jobs set producer = 'cron:run-by-hand' where producer not in ('cron:e', 'cron:parent')",
    )
    .await
    .unwrap();
    breach("inv_instants_fire_once", "cron:e");

    const MEMBER: &str = "update jobs set workflow_id = $2, workflow_place = 0 where id = $1";
    for (member, of) in [(30, 20), (31, 21), (32, 22)] {
        insert_job(&mut hand, id(member), "queued", 0).await;
        sqlx::query(MEMBER).bind(id(member)).bind(id(of)).execute(&mut hand).await.unwrap();
    }
    // One is whole, one has lost a member, one is final, and one is gone.
    workflow(&mut hand, id(20), 1).await;
    workflow(&mut hand, id(21), 2).await;
    breach("inv_workflows_have_members", &id(21).to_string());
    workflow(&mut hand, id(22), 1).await;
    const FINAL: &str = "update workflows set state = 'dead', finished_at = now() where id = $1";
    sqlx::query(FINAL).bind(id(22)).execute(&mut hand).await.unwrap();
    breach("inv_workflows_have_members", &id(32).to_string());
    insert_job(&mut hand, id(33), "queued", 0).await;
    sqlx::query(MEMBER).bind(id(33)).bind(id(23)).execute(&mut hand).await.unwrap();
    breach("inv_workflows_have_members", &id(33).to_string());

    let found = store.reader.violations().await.unwrap();
    let found: BTreeSet<_> = found.into_iter().map(|row| (row.invariant, row.subject)).collect();
    assert_eq!(found, expected);
    for name in INVARIANTS {
        assert!(expected.iter().any(|(invariant, _)| invariant == name), "{name} was not breached");
    }
    let sampled = store.reader.lease_violations().await.unwrap();
    let sampled: BTreeSet<_> = sampled.into_iter().map(|row| row.invariant).collect();
    assert_eq!(sampled, OF_LEASES.map(ToOwned::to_owned).into());
}

async fn lease(hand: &mut PgConnection, token: i64, job: Uuid, node: &str, phase: &str, reservation: &str) {
    const INSERT: &str =
        "insert into leases values ($1, $2, 'k', $3, 1, $5::jsonb, 1, 1, now(), $4, false, 't', null)";
    let row = sqlx::query(INSERT).bind(token).bind(job).bind(node).bind(phase).bind(reservation);
    row.execute(hand).await.unwrap();
}

async fn workflow(hand: &mut PgConnection, id: Uuid, members: i64) {
    const INSERT: &str = "
insert into workflows (id, producer, fingerprint, shape, members, state, version, round, cancel_requested, created_at,
  began_at, opened)
values ($1, 'p', decode(repeat('00', 32), 'hex'), '\"job\"', $2, 'running', 1, 1, false, now(), now(), '{}')";
    sqlx::query(INSERT).bind(id).bind(members).execute(hand).await.unwrap();
}

async fn insert_job(hand: &mut PgConnection, id: Uuid, state: &str, token: i64) {
    const INSERT: &str = "
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, selector, labels, dedupe_held,
  fingerprint, root_id, depth, children, payload_size, round, failures, losses, returns, returns_in_row, token,
  cancel_requested, created_at, waits, queued_at)
values ($1, 1, 't', 'p', 'k', $2, 1, 0, '{}', '{}', false, decode(repeat('00', 32), 'hex'), $1, 0, 0, 0, 1, 0, 0, 0,
  0, $3, false, now(), '[]', case when $2 = 'queued' then now() end)";
    sqlx::query(INSERT).bind(id).bind(state).bind(token).execute(hand).await.unwrap();
}
