//! The schema: names, comments, checks, views, and databases of other versions.

use std::collections::BTreeSet;

use sqlx::{Connection, Executor, SqliteConnection};
use tenure_scheduler::Epoch;

use super::{
    super::{
        Error, Options, connect, fault, open,
        schema::{self, MIGRATIONS},
    },
    Store, insert_job,
};
use crate::{
    Journal,
    reader::{INVARIANTS, OF_LEASES},
};

#[test]
fn every_key_of_the_schema_has_a_name_when_it_fires() {
    for line in MIGRATIONS.iter().flat_map(|(_, _, text)| text.lines()).map(str::trim) {
        let word = |n| line.split_whitespace().nth(n).unwrap_or_default();
        if line.starts_with("constraint") && (word(2) == "primary" || word(2) == "unique") {
            assert!(fault::UNIQUE.iter().any(|(_, name)| *name == word(1)), "{line}");
        }
        if line.starts_with("create unique index") {
            assert!(fault::UNIQUE.iter().any(|(_, name)| *name == word(3)), "{line}");
        }
        if line.starts_with("constraint") && word(2) == "foreign" {
            assert!(fault::FOREIGN.iter().any(|(_, name)| *name == word(1)), "{line}");
        }
    }
}

#[test]
fn every_table_and_column_has_a_comment() {
    let mut before = "";
    let mut columns = 0;
    for line in MIGRATIONS.iter().flat_map(|(_, _, text)| text.lines()) {
        if ["create table", "create view", "create trigger"].iter().any(|start| line.starts_with(start)) {
            assert!(before.starts_with("--"), "{line}");
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        if line.starts_with("  ") && matches!(words[..], [_, "text" | "integer" | "blob" | "text,", ..]) {
            columns += 1;
            assert!(line.contains(" -- "), "{line}");
        }
        before = line;
    }
    assert!(columns > 80, "{columns} columns found");
}

#[tokio::test]
async fn checks_refuse_what_makes_no_sense() {
    let store = Store::new().await;
    let mut hand = store.hand().await;
    insert_job(&mut hand, "j", "queued", 0).await;
    hand.execute("insert into slots (name, scope, capacity, capacity_since, paused, paused_until) values ('s', 'node', null, 0, 0, null)").await.unwrap();
    hand.execute(
        "insert into leases values (1, 'j', 'k', 'n', 1, '{\"node\":{},\"fleet\":{}}', 1, 1, 1, 'unreaped', 0, 't', null, null)",
    )
    .await
    .unwrap();
    workflow(&mut hand, "w", 1).await;
    let broken = [
        ("update jobs set state = 'pending'", "jobs_state_is_known"),
        ("update jobs set finished_at = 1", "jobs_final_has_finished_at"),
        ("update jobs set state = 'dead', queued_at = null", "jobs_final_has_finished_at"),
        ("update jobs set run_at = 1", "jobs_scheduled_has_run_at"),
        ("update jobs set scheduled_cause = 'run_at'", "jobs_scheduled_has_cause"),
        (
            "update jobs set state = 'scheduled', queued_at = null, run_at = 1, scheduled_cause = 'cron'",
            "jobs_cause_is_known",
        ),
        ("update jobs set queued_at = null", "jobs_queued_has_queued_at"),
        ("update jobs set state = 'running', queued_at = null", "jobs_running_has_token"),
        ("update jobs set last_outcome = 'failed'", "jobs_outcome_is_known"),
        ("update jobs set priority = 101", "jobs_priority_in_range"),
        ("update jobs set dedupe_held = 1", "jobs_held_has_key"),
        ("update jobs set cancel_requested = 2", "jobs_flags_are_flags"),
        ("update jobs set fingerprint = x'00'", "jobs_fingerprint_is_sha256"),
        ("update jobs set round = 0", "jobs_round_from_one"),
        ("update jobs set losses = -1", "jobs_counts_not_negative"),
        ("update jobs set tracestate = 'a=1'", "jobs_state_of_a_trace"),
        ("update jobs set on_parent_cancel = 'die'", "jobs_on_parent_cancel_is_known"),
        ("update jobs set on_parent_lost = 'die'", "jobs_on_parent_lost_is_known"),
        ("update jobs set waiting_at = 1", "jobs_waiting_has_waiting_at"),
        (
            "update jobs set state = 'expired', queued_at = null, finished_at = 1, detached = '{}'",
            "jobs_final_has_no_wait",
        ),
        ("update jobs set left_result = 1", "jobs_left_result_of_a_success"),
        ("update jobs set left_result = 2", "jobs_left_flags_are_flags"),
        (
            "update jobs set blocked_at = 1, workflow_id = id, workflow_place = 0",
            "jobs_blocked_has_blocked_at",
        ),
        ("update jobs set state = 'blocked', queued_at = null, blocked_at = 1", "jobs_blocked_is_member"),
        ("update jobs set workflow_id = id", "jobs_member_has_place"),
        ("update workflows set state = 'partial', finished_at = 1", "workflows_state_is_known"),
        ("update workflows set finished_at = 1", "workflows_final_has_finished_at"),
        ("update workflows set cancel_requested = 2", "workflows_flags_are_flags"),
        ("update workflows set fingerprint = x'00'", "workflows_fingerprint_is_sha256"),
        ("update workflows set members = 0", "workflows_counts_from_one"),
        ("update slots set scope = 'zone'", "slots_scope_is_known"),
        ("update slots set capacity = 1", "slots_fleet_has_capacity"),
        ("update slots set scope = 'fleet'", "slots_fleet_has_capacity"),
        ("update slots set scope = 'fleet', capacity = -1", "slots_capacity_not_negative"),
        ("update slots set paused_until = 1", "slots_until_only_paused"),
        ("update slots set paused = 2", "slots_flags_are_flags"),
        ("update slots set rate_tokens = 0, rate_per_us = 1, rate_burst = 1", "slots_rate_from_one"),
        ("update slots set rate_tokens = 1, rate_burst = 1", "slots_rate_has_its_time"),
        ("update slots set rate_tokens = 1, rate_per_us = 1", "slots_rate_has_its_burst"),
        ("update slots set rate_full_at = 1", "slots_bucket_of_a_rate"),
        ("update slots set throttled_until = 1", "slots_throttled_of_the_fleet"),
        ("update leases set phase = 'parked'", "leases_phase_is_known"),
        ("update leases set parked = '{}'", "leases_parked_is_granted"),
        ("update leases set orphaned = 2", "leases_flags_are_flags"),
        ("update leases set token = 0", "leases_token_from_one"),
        ("update leases set attempt = 0", "leases_attempt_from_one"),
        (
            "insert into crons values ('c', '{}', 1, 'ann', null, 0, 0, null, '[]')",
            "crons_pause_has_its_time",
        ),
        (
            "insert into crons values ('c', '{}', 1, null, null, 0, -1, null, '[]')",
            "crons_counts_not_negative",
        ),
        (
            "insert into outbox values (1, 'w', 'e', null, '{}', 1, 1, 0, null, null, null)",
            "outbox_waits_or_failed",
        ),
        (
            "insert into outbox values (1, 'w', 'e', null, '{}', 1, 1, 0, 1, 1, null)",
            "outbox_waits_or_failed",
        ),
        ("insert into outbox values (0, 'w', 'e', null, '{}', 1, 1, 0, 1, null, null)", "outbox_id_from_one"),
        (
            "insert into outbox values (1, 'w', 'e', null, '{}', 1, 1, -1, 1, null, null)",
            "outbox_tries_not_negative",
        ),
        ("insert into tenants values ('t', 0)", "tenants_weight_is_bounded"),
        ("insert into tenants values ('t', 1001)", "tenants_weight_is_bounded"),
        (
            "insert into kinds (name, policy, paused, dead_by_day) values ('k', '{}', 'maybe', '{}')",
            "kinds_pause_is_known",
        ),
        (
            "insert into kinds (name, policy, paused, dead_by_day, spent) values ('k', '{}', null, '{}', '[]')",
            "kinds_spent_is_an_object",
        ),
        (
            "insert into attempts (job_id, token, attempt, round, node, outcome, cause, error, exit_code, granted_at, started_at, ended_at, usage) values ('j', 1, 1, 1, 'n', 'lost', '', '', null, 1, null, 1, '[]')",
            "attempts_usage_is_an_object",
        ),
        ("insert into leader_fence (epoch) values (5)", "leader_fence_one_row"),
        ("insert into leader_fence (epoch, one) values (5, 0)", "leader_fence_one"),
        ("update leader_fence set epoch = 8388608", "leader_fence_epoch_fits_a_token"),
        (
            "insert into attempts (job_id, token, attempt, round, node, outcome, cause, error, exit_code, granted_at, started_at, ended_at) values ('j', 1, 1, 1, 'n', 'ok', '', '', null, 1, null, 1)",
            "attempts_outcome_is_known",
        ),
        (
            "insert into attempts (job_id, token, attempt, round, node, outcome, cause, error, exit_code, granted_at, started_at, ended_at) values ('j', 1, 0, 1, 'n', 'lost', '', '', null, 1, null, 1)",
            "attempts_number_from_one",
        ),
        (
            "insert into attempts (job_id, token, attempt, round, node, outcome, cause, error, exit_code, granted_at, started_at, ended_at, detached) values ('j', 1, 1, 1, 'n', 'lost', '', '', null, 1, null, 1, 2)",
            "attempts_flags_are_flags",
        ),
        ("insert into results values ('j', 1, x'', '', 1, 1, 2, 0, null, null)", "results_flags_are_flags"),
        (
            "insert into results values ('j', 1, x'', '', 1, 1, 0, 2, null, null)",
            "results_partial_flags_are_flags",
        ),
        ("insert into results values ('j', 1, x'', '', 1, 1, 0, 0, 7, null)", "results_objects_are_named"),
        ("insert into results values ('j', 1, x'', '', 1, 1, 0, 0, -1, 'a')", "results_objects_have_a_size"),
        (
            "insert into attempts (job_id, token, attempt, round, node, outcome, cause, error, exit_code, granted_at, started_at, ended_at, partial) values ('j', 1, 1, 1, 'n', 'lost', '', '', null, 1, null, 1, 2)",
            "attempts_partial_flags_are_flags",
        ),
        (
            "insert into attempts (job_id, token, attempt, round, node, outcome, cause, error, exit_code, granted_at, started_at, ended_at, checkpoint_size) values ('j', 1, 1, 1, 'n', 'lost', '', '', null, 1, null, 1, -1)",
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
}

#[tokio::test]
async fn views_show_what_must_never_be() {
    let store = Store::new().await;
    let mut hand = store.hand().await;
    assert_eq!(store.reader.violations().await.unwrap(), []);
    hand.execute("pragma foreign_keys = off").await.unwrap();

    // Sound rows beside the broken ones: an overdrawn slot whose capacity fell later, a job that runs.
    insert_job(&mut hand, "sound", "running", 3).await;
    hand.execute("insert into slots (name, scope, capacity, capacity_since, paused, paused_until) values ('lowered', 'fleet', 1, 99, 0, null), ('browser', 'node', null, 0, 0, null), ('over', 'fleet', 1, 2, 0, null)").await.unwrap();
    hand.execute("insert into nodes values ('n', '', '', 1, 1, '{}', '{\"browser\":{\"units\":1,\"since\":0}}', '[]', '{}', '', 0, null, 1)").await.unwrap();
    lease(&mut hand, 3, "sound", "n", "granted", r#"{"node":{},"fleet":{"lowered":2}}"#).await;

    let mut expected = Vec::new();
    insert_job(&mut hand, "no-lease", "running", 4).await;
    expected.push(("inv_one_live_lease", "no-lease"));
    lease(&mut hand, 5, "gone", "n", "granted", "{}").await;
    expected.push(("inv_one_live_lease", "gone"));
    lease(&mut hand, 6, "a", "n", "finished", r#"{"fleet":{"over":2}}"#).await;
    expected.push(("inv_slots_within_capacity", "over"));
    lease(&mut hand, 7, "b", "n", "unreaped", r#"{"node":{"browser":2},"fleet":{"over":9}}"#).await;
    expected.push(("inv_slots_within_capacity", "n/browser"));
    lease(&mut hand, 8, "c", "elsewhere", "unreaped", "{}").await;
    expected.push(("inv_leases_have_owners", "8"));
    insert_job(&mut hand, "newer-lease", "running", 8).await;
    lease(&mut hand, 9, "newer-lease", "n", "granted", "{}").await;
    expected.push(("inv_leases_have_owners", "9"));
    expected.push(("inv_one_live_lease", "newer-lease"));
    insert_job(&mut hand, "half", "running", 10).await;
    hand.execute("update jobs set needs = '{\"browser\":1,\"over\":1}' where id = 'half'").await.unwrap();
    lease(&mut hand, 10, "half", "n", "granted", r#"{"node":{"gpu":1},"fleet":{}}"#).await;
    expected.push(("inv_all_or_nothing", "10"));
    insert_job(&mut hand, "unsettled", "queued", 0).await;
    hand.execute("update jobs set last_outcome = 'succeeded' where id = 'unsettled'").await.unwrap();
    expected.push(("inv_final_is_settled", "unsettled"));
    hand.execute("insert into results values ('sound', 1, x'', '', 1, 1, 0, 0, null, null)").await.unwrap();
    expected.push(("inv_results_have_executions", "sound"));
    insert_job(&mut hand, "miscounted", "queued", 0).await;
    hand.execute("update jobs set failures = 1 where id = 'miscounted'").await.unwrap();
    expected.push(("inv_attempts_are_counted", "miscounted"));

    for n in ["fired", "fired-again", "fired-later", "child", "child-again"] {
        insert_job(&mut hand, n, "queued", 0).await;
    }
    // A child of a fired one may carry its labels, and has its producer.
    let child =
        "update jobs set producer = 'cron:parent', parent_id = 'fired', labels = '{\"cron.instant\":\"x\"}'
where id in ('child', 'child-again')";
    hand.execute(child).await.unwrap();
    let fired = "update jobs set producer = 'cron:e', labels = '{\"cron.instant\":\"2026-03-29T01:00:00Z\"}'
where id in ('fired', 'fired-again')";
    hand.execute(fired).await.unwrap();
    hand.execute("update jobs set producer = 'cron:e' where id = 'fired-later'").await.unwrap();
    expected.push(("inv_instants_fire_once", "cron:e"));

    const MEMBER: &str = "update jobs set workflow_id = $2, workflow_place = 0 where id = $1";
    for (member, of) in [("one", "whole"), ("half-of", "lacking"), ("left", "final"), ("alone", "none")] {
        insert_job(&mut hand, member, "queued", 0).await;
        sqlx::query(MEMBER).bind(member).bind(of).execute(&mut hand).await.unwrap();
    }
    workflow(&mut hand, "whole", 1).await;
    workflow(&mut hand, "lacking", 2).await;
    expected.push(("inv_workflows_have_members", "lacking"));
    workflow(&mut hand, "final", 1).await;
    hand.execute("update workflows set state = 'dead', finished_at = 1 where id = 'final'").await.unwrap();
    expected.push(("inv_workflows_have_members", "left"));
    expected.push(("inv_workflows_have_members", "alone"));

    let mut found = store.reader.violations().await.unwrap();
    found.sort();
    let mut found: Vec<_> = found.iter().map(|row| (row.invariant.as_str(), row.subject.as_str())).collect();
    found.dedup();
    expected.sort_unstable();
    assert_eq!(found, expected);
    for name in INVARIANTS {
        assert!(expected.iter().any(|(invariant, _)| *invariant == name), "{name} was not breached");
    }
    let sampled = store.reader.lease_violations().await.unwrap();
    let sampled: BTreeSet<_> = sampled.into_iter().map(|row| row.invariant).collect();
    assert_eq!(sampled, OF_LEASES.map(ToOwned::to_owned).into());
}

#[tokio::test]
async fn a_newer_schema_is_refused_with_a_sentence() {
    let store = Store::new().await;
    let mut hand = store.hand().await;
    hand.execute("insert into _sqlx_migrations values (9999, 'later', current_timestamp, true, x'00', 0)")
        .await
        .unwrap();
    let Store { journal, options, _directory, .. } = store;
    journal.close().await;
    let error = open(&options).await.expect_err("a later version wrote to it");
    assert!(matches!(error, Error::Newer { found: 9999, .. }), "{error:?}");
    assert!(error.to_string().contains("start the later version"), "{error}");
}

#[tokio::test]
async fn a_migration_that_was_edited_stops_the_start() {
    let store = Store::new().await;
    let mut hand = store.hand().await;
    hand.execute("update _sqlx_migrations set checksum = x'00' where version = 1").await.unwrap();
    let Store { journal, options, _directory, .. } = store;
    journal.close().await;
    let error = open(&options).await.expect_err("its checksum differs");
    assert!(matches!(error, Error::Migrate(_)), "{error:?}");
}

#[tokio::test]
async fn rows_of_an_older_schema_stay_as_they_were() {
    let directory = tempfile::TempDir::new().unwrap();
    let options = Options::new(directory.path());
    let mut hand = connect(&options.file(), true).await.unwrap();
    schema::migrator(&MIGRATIONS[..5]).run_direct(None, &mut hand, false).await.unwrap();
    let id = "01900000-0000-7000-8000-000000000001";
    insert_job(&mut hand, id, "running", 3).await;
    const LEASE: &str =
        "insert into leases values ($2, $1, 'k', 'n', 1, '{\"node\":{},\"fleet\":{}}', 1, 1, 1, 'granted')";
    sqlx::query(LEASE).bind(id).bind(3).execute(&mut hand).await.unwrap();
    // Its job was deleted.
    let gone = id.replace('1', "2");
    sqlx::query(LEASE).bind(gone).bind(4).execute(&mut hand).await.unwrap();
    hand.close().await.unwrap();

    let (mut journal, _) = open(&options).await.unwrap();
    let durable = journal.takeover(Epoch(0)).await.unwrap().durable;
    let leases: Vec<_> =
        durable.leases.values().map(|lease| (lease.token.0, lease.orphaned, lease.tenant.as_str())).collect();
    assert_eq!((durable.jobs.len(), leases), (1, vec![(3, false, "t"), (4, false, "default")]));
}

async fn lease(
    hand: &mut SqliteConnection,
    token: i64,
    job: &str,
    node: &str,
    phase: &str,
    reservation: &str,
) {
    const INSERT: &str =
        "insert into leases values ($1, $2, 'k', $3, 1, $5, 1, 1, 1, $4, 0, 't', null, null)";
    let row = sqlx::query(INSERT).bind(token).bind(job).bind(node).bind(phase).bind(reservation);
    row.execute(hand).await.unwrap();
}

async fn workflow(hand: &mut SqliteConnection, id: &str, members: i64) {
    const INSERT: &str = "
insert into workflows (id, producer, fingerprint, shape, members, state, version, round, cancel_requested, created_at,
  began_at, opened)
values ($1, 'p', zeroblob(32), '\"job\"', $2, 'running', 1, 1, 0, 1, 1, '{}')";
    sqlx::query(INSERT).bind(id).bind(members).execute(hand).await.unwrap();
}
