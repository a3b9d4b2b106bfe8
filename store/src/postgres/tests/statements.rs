//! Every statement prepares, names its columns in the right order, and finds its index.

use sqlx::{Executor, Row, SqlSafeStr};

use super::{
    super::{
        commit::{batch::Joined, statements},
        connect, election, examine, identity, inbox, journal, log_tails, outbox, reader, schema,
    },
    Store, sql,
};
use crate::rows::{AttemptRow, JobRow, LeaseRow, job_columns};

#[tokio::test]
async fn every_statement_prepares() {
    let modules: [(&str, &[&'static str]); 12] = [
        (include_str!("../../postgres.rs"), &super::super::ALL),
        (include_str!("../commit/statements.rs"), &statements::ALL),
        (include_str!("../election.rs"), &election::ALL),
        (include_str!("../identity.rs"), &identity::ALL),
        (include_str!("../inbox.rs"), &inbox::ALL),
        (include_str!("../journal.rs"), &journal::ALL),
        (include_str!("../log_tails.rs"), &log_tails::ALL),
        (include_str!("../outbox.rs"), &outbox::ALL),
        (include_str!("../reader.rs"), &reader::ALL),
        (include_str!("../reader/objects.rs"), &reader::ALL_OF_OBJECTS),
        (include_str!("../schema.rs"), &schema::ALL),
        (include_str!("../examine.rs"), &examine::ALL),
    ];
    let store = Store::new().await;
    let mut hand = store.hand().await;
    for (source, all) in modules {
        let constants = source
            .lines()
            .filter(|line| !line.starts_with(' ') && line.contains("const ") && line.contains(": &str ="))
            .count();
        assert_eq!(constants, all.len(), "every constant stands in ALL");
        for statement in all.iter().filter(|statement| !statement.starts_with("lock table")) {
            hand.prepare(statement.into_sql_str()).await.expect(statement);
        }
    }
    for statement in connect::ALL {
        hand.prepare(statement.into_sql_str()).await.expect(statement);
    }
}

#[test]
fn arrays_are_bound_in_the_order_of_the_columns() {
    let (last, columns) = JobRow::COLUMNS.split_last().unwrap();
    assert_eq!(*last, "previous");
    assert_eq!(columns.join(", "), job_columns!());
    for (statement, columns) in
        [(statements::LEASE_UPSERT, LeaseRow::COLUMNS), (statements::ATTEMPT_UPSERT, AttemptRow::COLUMNS)]
    {
        let flat = statement.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(&format!("as new ( {})", columns.join(", "))), "{flat}");
        assert!(
            flat.contains(&format!("( {}) select {} from", columns.join(", "), columns.join(", "))),
            "{flat}"
        );
    }
    let updated = statements::JOB_UPDATE.lines().filter_map(|line| line.trim().split_once(" = new."));
    let updated: Vec<_> = updated.map(|(column, from)| (column, from.trim_end_matches(','))).collect();
    assert_eq!(updated.iter().filter(|(column, from)| column == from).count(), 32);
}

/// As the commit connection plans it: once, for batches of any size. An empty table is the hardest case: there a plan
/// that reads it all looks cheapest, and would still be in use when it is large.
#[tokio::test]
async fn commits_find_their_rows_by_key_even_in_plans_made_for_an_empty_table() {
    let store = Store::new().await;
    let mut hand = store.hand().await;
    connect::prepare(&mut hand, connect::COMMIT).await.unwrap();
    for (statement, index) in [
        (statements::JOB_UPDATE, "Index Scan using jobs_pkey on jobs"),
        (statements::JOB_DELETE, "jobs_pkey"),
        (statements::LEASE_DELETE, "leases_pkey"),
        (statements::RESULT_DELETE, "results_pkey"),
        (statements::INBOX_DELETE, "inbox_pkey"),
        (journal::JOB_PRIOR_BY_ID, "jobs_pkey"),
        (journal::JOB_PRIOR_BY_KEY, "jobs_dedupe_held"),
        (journal::JOB_LOAD, "jobs_live"),
        (journal::EPOCH_CHECK, "leader_fence_pkey"),
    ] {
        let plan = plan(&mut hand, statement).await;
        assert!(plan.contains(index) && !plan.contains("Seq Scan"), "{statement}\n{plan}");
    }
}

/// Those that go together are planned as they are alone.
#[tokio::test]
async fn what_goes_in_one_round_trip_finds_its_rows_by_key_too() {
    let store = Store::new().await;
    let mut hand = store.hand().await;
    connect::prepare(&mut hand, connect::COMMIT).await.unwrap();
    let ends = Joined::text(&[statements::LEASE_DELETE, statements::JOB_UPDATE]);
    assert!(ends.contains("where token = any($1::bigint[])") && ends.contains("$2::uuid[], $3::bigint[]"));
    let plan_of_ends = plan(&mut hand, &ends).await;
    for index in ["leases_pkey", "Index Scan using jobs_pkey on jobs"] {
        assert!(plan_of_ends.contains(index) && !plan_of_ends.contains("Seq Scan"), "{ends}\n{plan_of_ends}");
    }
    let new = Joined::text(&[
        statements::JOB_INSERT,
        statements::PAYLOAD_INSERT,
        statements::LEASE_UPSERT,
        statements::ATTEMPT_UPSERT,
        statements::RESULT_INSERT,
    ]);
    let plan_of_new = plan(&mut hand, &new).await;
    assert!(plan_of_new.contains("Insert on results") && !plan_of_new.contains("Seq Scan"), "{plan_of_new}");
    hand.prepare(sql(new).into_sql_str()).await.unwrap();
}

#[tokio::test]
async fn lists_find_their_indexes() {
    let store = Store::new().await;
    let mut hand = store.hand().await;
    // The tables are empty: what is cheapest on many rows is shown by forbidding what is cheapest on none.
    hand.execute("set plan_cache_mode = force_generic_plan; set enable_seqscan = off; set enable_sort = off; set enable_bitmapscan = off")
        .await
        .unwrap();
    for (statement, index) in [
        (reader::JOB_LIST, "jobs_newest "),
        (reader::JOB_LIST_OF_KIND, "jobs_newest_of_kind "),
        (reader::JOB_LIST_DEAD, "jobs_newest_dead "),
        (reader::JOB_LIST_OF_PARENT, "jobs_newest_of_parent "),
        (reader::JOB_LIST_OF_KEY, "jobs_newest_of_key "),
        (reader::JOB_DUE, "jobs_finished "),
        (reader::RESULT_DUE, "results_due "),
        (reader::PAYLOAD_GET, "payloads_pkey "),
        (reader::ATTEMPT_LIST, "attempts_pkey "),
        (inbox::ALL[0], "Index Only Scan using inbox_by_kind on inbox "),
    ] {
        let plan = plan(&mut hand, statement).await;
        assert!(plan.contains(index), "{statement}\n{plan}");
    }
}

/// There is no index in the order of that list: the members are found, and sorted.
#[tokio::test]
async fn a_list_of_a_workflow_looks_at_its_members_alone() {
    const JOBS: &str = "
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, selector, labels, dedupe_held,
  fingerprint, root_id, depth, children, payload_size, round, failures, losses, returns, returns_in_row, token,
  cancel_requested, created_at, waits, queued_at, workflow_id, workflow_place)
select job, n, 't', 'p', 'k', 'queued', 1, 0, '{}', '{}', false, decode(repeat('00', 32), 'hex'), job, 0, 0, 0, 1, 0, 0,
  0, 0, 0, false, now(), '[]', now(), workflow, case when workflow is not null then n end
from (
  select n, gen_random_uuid() as job, case when n % 2 = 0 then lpad((n % 50)::text, 32, '0')::uuid end as workflow
  from generate_series(1, 5000) as n
) as made";
    let store = Store::new().await;
    let mut hand = store.hand().await;
    hand.execute(JOBS).await.unwrap();
    hand.execute("analyze jobs; set plan_cache_mode = force_generic_plan").await.unwrap();
    let plan = plan(&mut hand, reader::JOB_LIST_OF_WORKFLOW).await;
    assert!(plan.contains("jobs_one_per_place"), "{plan}");
}

async fn plan(hand: &mut sqlx::PgConnection, statement: &str) -> String {
    let parameters = (1..=99).rev().find(|n| statement.contains(&format!("${n}"))).unwrap_or(0);
    hand.execute(sql(format!("prepare planned as {statement}"))).await.unwrap();
    let nulls = vec!["null"; parameters].join(", ");
    let execute = if parameters == 0 { String::new() } else { format!("({nulls})") };
    let explain = format!("explain execute planned{execute}");
    let rows = sqlx::raw_sql(sql(explain)).fetch_all(&mut *hand).await.unwrap();
    hand.execute("deallocate planned").await.unwrap();
    rows.iter().map(|row| row.get::<String, _>(0)).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_turn_takes_a_handful_of_statements() {
    let expected =
        ["BEGIN+EPOCH_CHECK", "LEASE_DELETE+JOB_UPDATE", "JOB_INSERT+PAYLOAD_INSERT+LEASE_UPSERT", "COMMIT"];
    let store = Store::new().await;
    let most = expected.len();
    crate::turn::tests::a_turn_takes_a_handful_of_statements(store.journal, &expected, most).await;
}

#[tokio::test]
async fn rows_of_many_are_what_was_lived_through() {
    let store = Store::new().await;
    crate::turn::tests::rows_of_many_are_what_was_lived_through(store.journal).await;
}
