//! Every statement prepares, finds its index, and names its columns by the right positions.

use sqlx::{Executor, Row, SqlSafeStr};

use super::{
    super::{commit, journal, log_tails, outbox, reader, schema},
    Store, sql,
};
use crate::rows::{AttemptRow, JobRow, LeaseRow, job_columns};

#[tokio::test]
async fn every_statement_prepares() {
    let modules: [(&str, &[&'static str]); 7] = [
        (include_str!("../commit.rs"), &commit::ALL),
        (include_str!("../journal.rs"), &journal::ALL),
        (include_str!("../log_tails.rs"), &log_tails::ALL),
        (include_str!("../outbox.rs"), &outbox::ALL),
        (include_str!("../reader.rs"), &reader::ALL),
        (include_str!("../reader/objects.rs"), &reader::ALL_OF_OBJECTS),
        (include_str!("../schema.rs"), &schema::ALL),
    ];
    let store = Store::new().await;
    let mut hand = store.hand().await;
    for (source, all) in modules {
        let constants =
            source.lines().filter(|line| line.contains("const ") && line.contains(": &str =")).count();
        assert_eq!(constants, all.len(), "every constant stands in ALL");
        for statement in all {
            hand.prepare(statement.into_sql_str()).await.expect(statement);
        }
    }
}

#[test]
fn positions_in_statements_are_those_of_the_columns() {
    let (last, columns) = JobRow::COLUMNS.split_last().unwrap();
    assert_eq!(*last, "previous");
    assert_eq!(columns.join(", "), job_columns!());
    // Inserts: every column in order.
    for (statement, columns) in [
        (commit::JOB_INSERT, columns),
        (commit::LEASE_UPSERT, LeaseRow::COLUMNS),
        (commit::ATTEMPT_UPSERT, AttemptRow::COLUMNS),
    ] {
        let flat = statement.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(&format!("({})", columns.join(", "))), "{statement}");
        let positions: Vec<&str> = flat.split("new.value ->> ").skip(1).collect();
        assert_eq!(positions.len(), columns.len(), "{statement}");
        for (at, text) in positions.iter().enumerate() {
            assert!(
                text.starts_with(&format!("{at},"))
                    || text.starts_with(&format!("{at})"))
                    || text.starts_with(&format!("{at} ")),
                "{at}: {text}"
            );
        }
    }
    // The update: each column by its position.
    let mut found = 0;
    for line in commit::JOB_UPDATE.lines() {
        let Some((column, position)) = line.trim().trim_end_matches(',').split_once(" = new.value ->> ")
        else {
            continue;
        };
        if let Ok(position) = position.parse::<usize>() {
            assert_eq!(JobRow::COLUMNS.get(position), Some(&column));
            found += 1;
        }
    }
    assert_eq!(found, 32);
    assert!(
        commit::JOB_UPDATE.ends_with("where jobs.id = new.value ->> 0 and jobs.token = new.value ->> 51")
    );
}

#[tokio::test]
async fn statements_find_their_indexes() {
    let store = Store::new().await;
    let mut hand = store.hand().await;
    let plans = [
        (commit::JOB_UPDATE, "SEARCH jobs USING INDEX sqlite_autoindex_jobs_1 (id=?)"),
        (commit::JOB_DELETE, "SEARCH jobs USING INDEX sqlite_autoindex_jobs_1 (id=?)"),
        (journal::JOB_PRIOR_BY_ID, "SEARCH jobs USING INDEX sqlite_autoindex_jobs_1 (id=?)"),
        (
            journal::JOB_PRIOR_BY_KEY,
            "SEARCH jobs USING INDEX jobs_dedupe_held (tenant=? AND kind=? AND dedupe_key=?)",
        ),
        (journal::JOB_LOAD, "USING INDEX jobs_live"),
        (reader::JOB_LIST, "SEARCH jobs USING INDEX jobs_newest ((created_at,id)<(?,?))"),
        (
            reader::JOB_LIST_OF_KIND,
            "SEARCH jobs USING INDEX jobs_newest_of_kind (kind=? AND (created_at,id)<(?,?))",
        ),
        (reader::JOB_LIST_DEAD, "SEARCH jobs USING INDEX jobs_newest_dead ((created_at,id)<(?,?))"),
        (
            reader::JOB_LIST_OF_PARENT,
            "SEARCH jobs USING INDEX jobs_newest_of_parent (parent_id=? AND (created_at,id)<(?,?))",
        ),
        (
            reader::JOB_LIST_OF_KEY,
            "SEARCH jobs USING INDEX jobs_newest_of_key (dedupe_key=? AND (created_at,id)<(?,?))",
        ),
        (reader::JOB_LIST_OF_WORKFLOW, "SEARCH jobs USING INDEX jobs_one_per_place (workflow_id=?)"),
        (reader::JOB_COUNT_DEAD, "SCAN jobs USING INDEX jobs_dead_of_kind"),
        (reader::JOB_DUE, "INDEX jobs_finished (kind=? AND finished_at>? AND finished_at<?)"),
        (reader::RESULT_DUE, "SEARCH results USING INDEX results_due (expires_at<?)"),
        (reader::PAYLOAD_GET, "SEARCH payloads USING INDEX sqlite_autoindex_payloads_1 (job_id=?)"),
        (
            reader::ATTEMPT_LIST,
            "SEARCH attempts USING INDEX sqlite_autoindex_attempts_1 (job_id=? AND token>?)",
        ),
    ];
    for (statement, expected) in plans {
        let rows =
            sqlx::query(sql(format!("explain query plan {statement}"))).fetch_all(&mut hand).await.unwrap();
        let plan: Vec<String> = rows.iter().map(|row| row.get("detail")).collect();
        let plan = plan.join("\n").replace("USING COVERING INDEX", "USING INDEX");
        assert!(plan.contains(expected), "{statement}\n{plan}");
        assert!(
            !plan.contains("TEMP B-TREE FOR ORDER BY")
                || [reader::RESULT_DUE, reader::JOB_LIST_OF_WORKFLOW].contains(&statement),
            "{statement}\n{plan}"
        );
    }
}

/// One by one as in a list: the same columns at the same places.
#[tokio::test]
async fn a_row_of_a_job_is_bound_as_json_would_carry_it() {
    let store = Store::new().await;
    let mut hand = store.hand().await;
    for (bound, statement) in [
        (&commit::JOBS_INSERTED, commit::JOB_INSERT),
        (&commit::JOBS_UPDATED, commit::JOB_UPDATE),
        (&commit::LEASES_PUT, commit::LEASE_UPSERT),
    ] {
        let mut positions: Vec<usize> = Vec::new();
        for part in statement.split("new.value ->> ").skip(1) {
            let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
            positions.push(digits.parse().unwrap());
        }
        assert_eq!(bound.columns(), positions);
        positions.sort_unstable();
        positions.dedup();
        assert_eq!(positions.len(), bound.columns().len(), "a value is bound once");
        assert_eq!(bound.text().matches('?').count(), positions.len());
        assert!(!bound.text().contains("json"), "{}", bound.text());
        hand.prepare(sql(bound.text().to_owned()).into_sql_str()).await.unwrap();
        let many = bound.text_of_many();
        assert_eq!(many.matches('?').count(), 16 * positions.len(), "{many}");
        assert!(!many.contains("json"), "{many}");
        hand.prepare(sql(many.to_owned()).into_sql_str()).await.unwrap();
    }
    let by_id = "SEARCH jobs USING INDEX sqlite_autoindex_jobs_1 (id=?)";
    assert_eq!(plan_of(&mut hand, commit::JOBS_UPDATED.text()).await, [by_id]);
    let plan = plan_of(&mut hand, commit::JOBS_UPDATED.text_of_many()).await;
    assert_eq!(plan, ["SCAN 16-ROW VALUES CLAUSE", by_id]);
}

async fn plan_of(hand: &mut sqlx::SqliteConnection, statement: &str) -> Vec<String> {
    let plan = sql(format!("explain query plan {statement}"));
    let rows = sqlx::query(plan).fetch_all(hand).await.unwrap();
    rows.iter().map(|row| row.get("detail")).collect()
}

/// For each statement SQLite makes the lists of the checks anew: what writes many rows makes them once, not once a row.
#[tokio::test]
async fn the_lists_of_the_checks_are_made_once_for_many_jobs() {
    let store = Store::new().await;
    let mut hand = store.hand().await;
    for bound in [&commit::JOBS_INSERTED, &commit::JOBS_UPDATED] {
        let mut lists = Vec::new();
        for statement in [bound.text(), bound.text_of_many()] {
            let program = sql(format!("explain {statement}"));
            let program = sqlx::query(program).fetch_all(&mut hand).await.unwrap();
            let opcodes = program.iter().map(|row| row.get::<String, _>("opcode"));
            lists.push(opcodes.filter(|opcode| opcode == "OpenEphemeral").count());
        }
        // For what is new an update has a table or two of its own.
        assert!(lists[0] >= 3 && lists[1] <= lists[0] + 2, "{lists:?}");
    }
}

#[tokio::test]
async fn a_turn_takes_a_handful_of_statements() {
    let expected = [
        "BEGIN",
        "EPOCH_CHECK",
        "LEASE_DELETE",
        "JOB_UPDATE",
        "JOB_INSERT",
        "PAYLOAD_INSERT",
        "LEASE_UPSERT",
        "COMMIT",
    ];
    let store = Store::new().await;
    // Jobs and leases go by sixteen in one call, what is left by four and alone.
    crate::turn::tests::a_turn_takes_a_handful_of_statements(store.journal, &expected, 5 + 3 * 32).await;
}

#[tokio::test]
async fn rows_of_many_are_what_was_lived_through() {
    let store = Store::new().await;
    crate::turn::tests::rows_of_many_are_what_was_lived_through(store.journal).await;
}
