//! Tests that look behind the traits: statements, plans, names, checks and views.

use std::time::Duration;

use sqlx::{AssertSqlSafe, Executor, Row, SqliteConnection};
use tempfile::TempDir;
use tenure_scheduler::{Changes, Epoch};

use super::{
    Error, Options, SqliteJournal, SqliteReader, commit, connect, fault, journal, open, reader, schema,
};
use crate::{
    Beside, Journal, Reader,
    reader::INVARIANTS,
    rows::{AttemptRow, JobRow, LeaseRow, job_columns},
};

const MIGRATIONS: [&str; 5] = [
    include_str!("../../../migrations/sqlite/0001_create_jobs.sql"),
    include_str!("../../../migrations/sqlite/0002_create_leases.sql"),
    include_str!("../../../migrations/sqlite/0003_create_fleet.sql"),
    include_str!("../../../migrations/sqlite/0004_create_leader_fence.sql"),
    include_str!("../../../migrations/sqlite/0005_create_invariants.sql"),
];

struct Store {
    journal: SqliteJournal,
    reader: SqliteReader,
    options: Options,
    _directory: TempDir,
}

impl Store {
    async fn new() -> Self {
        Self::with(|_| ()).await
    }

    async fn with(change: impl FnOnce(&mut Options)) -> Self {
        let directory = TempDir::new().unwrap();
        let mut options = Options::new(directory.path());
        change(&mut options);
        let (journal, reader) = open(&options).await.unwrap();
        let Reader::Sqlite(reader) = reader else { panic!("not a reader of SQLite") };
        Self { journal, reader, options, _directory: directory }
    }

    /// A hand in the database.
    async fn hand(&self) -> SqliteConnection {
        connect(&self.options.file()).await.unwrap()
    }
}

/// A constant text, made in a test.
fn sql(text: String) -> AssertSqlSafe<String> {
    AssertSqlSafe(text)
}

#[tokio::test]
async fn every_statement_prepares() {
    let modules: [(&str, &[&'static str]); 4] = [
        (include_str!("commit.rs"), &commit::ALL),
        (include_str!("journal.rs"), &journal::ALL),
        (include_str!("reader.rs"), &reader::ALL),
        (include_str!("schema.rs"), &schema::ALL),
    ];
    let store = Store::new().await;
    let mut hand = store.hand().await;
    for (source, all) in modules {
        let constants =
            source.lines().filter(|line| line.contains("const ") && line.contains(": &str =")).count();
        assert_eq!(constants, all.len(), "every constant stands in ALL");
        for statement in all {
            hand.prepare(sqlx::SqlSafeStr::into_sql_str(*statement)).await.expect(statement);
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
    assert_eq!(found, 28);
    assert!(
        commit::JOB_UPDATE.ends_with("where jobs.id = new.value ->> 0 and jobs.token = new.value ->> 40")
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
            !plan.contains("TEMP B-TREE FOR ORDER BY") || statement == reader::RESULT_DUE,
            "{statement}\n{plan}"
        );
    }
}

#[test]
fn every_key_of_the_schema_has_a_name_when_it_fires() {
    for line in MIGRATIONS.iter().flat_map(|text| text.lines()).map(str::trim) {
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
    for line in MIGRATIONS.iter().flat_map(|text| text.lines()) {
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
    hand.execute("insert into slots values ('s', 'node', null, 0, 0, null)").await.unwrap();
    hand.execute(
        "insert into leases values (1, 'j', 'k', 'n', 1, '{\"node\":{},\"fleet\":{}}', 1, 1, 1, 'unreaped')",
    )
    .await
    .unwrap();
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
        ("update slots set scope = 'zone'", "slots_scope_is_known"),
        ("update slots set capacity = 1", "slots_fleet_has_capacity"),
        ("update slots set scope = 'fleet'", "slots_fleet_has_capacity"),
        ("update slots set scope = 'fleet', capacity = -1", "slots_capacity_not_negative"),
        ("update slots set paused_until = 1", "slots_until_only_paused"),
        ("update slots set paused = 2", "slots_flags_are_flags"),
        ("update leases set phase = 'parked'", "leases_phase_is_known"),
        ("update leases set token = 0", "leases_token_from_one"),
        ("update leases set attempt = 0", "leases_attempt_from_one"),
        ("insert into kinds values ('k', '{}', 'maybe', '{}')", "kinds_pause_is_known"),
        ("insert into leader_fence (epoch) values (5)", "leader_fence_one_row"),
        ("insert into leader_fence (epoch, one) values (5, 0)", "leader_fence_one"),
        ("update leader_fence set epoch = 8388608", "leader_fence_epoch_fits_a_token"),
        (
            "insert into attempts values ('j', 1, 1, 1, 'n', 'ok', '', '', null, 1, null, 1)",
            "attempts_outcome_is_known",
        ),
        (
            "insert into attempts values ('j', 1, 0, 1, 'n', 'lost', '', '', null, 1, null, 1)",
            "attempts_number_from_one",
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
    hand.execute("insert into slots values ('lowered', 'fleet', 1, 99, 0, null), ('browser', 'node', null, 0, 0, null), ('over', 'fleet', 1, 2, 0, null)").await.unwrap();
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
    insert_job(&mut hand, "newer-lease", "queued", 8).await;
    lease(&mut hand, 9, "newer-lease", "n", "unreaped", "{}").await;
    expected.push(("inv_leases_have_owners", "9"));
    insert_job(&mut hand, "half", "running", 10).await;
    hand.execute("update jobs set needs = '{\"gpu\":1,\"over\":1}' where id = 'half'").await.unwrap();
    lease(&mut hand, 10, "half", "n", "granted", r#"{"node":{"gpu":1},"fleet":{}}"#).await;
    expected.push(("inv_all_or_nothing", "10"));
    insert_job(&mut hand, "unsettled", "queued", 0).await;
    hand.execute("update jobs set last_outcome = 'succeeded' where id = 'unsettled'").await.unwrap();
    expected.push(("inv_final_is_settled", "unsettled"));
    hand.execute("insert into results values ('sound', 1, x'', '', 1, 1)").await.unwrap();
    expected.push(("inv_results_have_executions", "sound"));
    insert_job(&mut hand, "miscounted", "queued", 0).await;
    hand.execute("update jobs set failures = 1 where id = 'miscounted'").await.unwrap();
    expected.push(("inv_attempts_are_counted", "miscounted"));

    let mut found = store.reader.violations().await.unwrap();
    found.sort();
    let mut found: Vec<_> = found.iter().map(|row| (row.invariant.as_str(), row.subject.as_str())).collect();
    found.dedup();
    expected.sort_unstable();
    assert_eq!(found, expected);
    for name in INVARIANTS {
        assert!(expected.iter().any(|(invariant, _)| *invariant == name), "{name} was not breached");
    }
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
async fn a_slow_read_is_interrupted_and_gives_its_connection_back() {
    const ENDLESS: &str =
        "with recursive n (i) as (select 1 union all select i + 1 from n) select max(i) from n";
    let store = Store::with(|options| {
        options.readers = 1;
        options.read_limit = Duration::from_millis(200);
    })
    .await;
    for _ in 0..3 {
        let slow = store.reader.rows(sqlx::query(ENDLESS)).await;
        assert!(matches!(slow, Err(crate::reader::Error::TooSlow { limit_ms: 200 })), "{:?}", slow.err());
    }
    // The only connection answers: nothing runs on it any more.
    let mut reader = store.reader;
    reader.limit = Duration::from_secs(5);
    reader.ping().await.unwrap();
}

#[tokio::test]
async fn a_full_disk_is_the_store_being_away() {
    let mut store = Store::new().await;
    let taken = store.journal.takeover(Epoch(0)).await.unwrap();
    let connection = store.journal.connection.as_mut().unwrap();
    connection.execute("pragma max_page_count = 1").await.unwrap(); // as many as there are
    let job = big_job();
    let changes = Changes {
        jobs: vec![tenure_scheduler::JobChange::Insert(Box::new(job.clone()))],
        ..Changes::default()
    };
    let payload = crate::Payload { data: vec![1; 1 << 20].into(), content_type: String::new() };
    let beside = Beside { payloads: [(job.id, payload)].into(), ..Beside::default() };
    let full = store.journal.commit(taken.epoch, &changes, &beside).await;
    assert!(matches!(full, Err(crate::journal::Error::Unavailable { .. })), "{full:?}");
    // The takeover opens a connection anew; here the disk has room again.
    let taken = store.journal.takeover(Epoch(0)).await.unwrap();
    assert!(taken.durable.jobs.is_empty());
    store.journal.commit(taken.epoch, &changes, &beside).await.unwrap();
}

#[tokio::test]
async fn an_unreadable_row_names_table_and_key_and_not_its_value() {
    let mut store = Store::new().await;
    let mut hand = store.hand().await;
    let id = "01900000-0000-7000-8000-000000000001";
    insert_job(&mut hand, id, "queued", 0).await;
    for (broken, column) in [
        ("labels = '{\"secret\": 5}'", "labels"),
        ("waits = 'secret'", "waits"),
        ("depth = 4096", "depth"),
        ("root_id = 'secret'", "root_id"),
        ("state = 'blocked', queued_at = null", "state"),
    ] {
        sqlx::query(sql(format!("update jobs set {broken}"))).execute(&mut hand).await.unwrap();
        let error = store.journal.takeover(Epoch(0)).await.expect_err(broken);
        let crate::journal::Error::Unreadable(row) = &error else { panic!("{error:?}") };
        assert_eq!((row.table, row.key.as_str()), ("jobs", id));
        assert!(row.problem.contains(column) && !row.problem.contains("secret"), "{row}");
        sqlx::query("update jobs set labels = '{}', waits = '[]', depth = 0, root_id = id, state = 'queued', queued_at = 1")
            .execute(&mut hand)
            .await
            .unwrap();
    }
    assert_eq!(store.journal.takeover(Epoch(0)).await.unwrap().durable.jobs.len(), 1);
}

fn big_job() -> tenure_scheduler::Job {
    use tenure_scheduler as s;
    let id = s::JobId(uuid::Uuid::from_u128(7));
    s::Job {
        id,
        sequence: s::Sequence(1),
        tenant: s::Tenant::new("default"),
        producer: s::Producer::new("local"),
        kind: s::KindName::new("site.qa"),
        state: s::JobState::Queued { since: s::Wall(1) },
        version: 1,
        priority: 0,
        needs: None,
        selector: s::Selector::new(),
        labels: s::Selector::new(),
        dedupe_key: None,
        dedupe_held: false,
        fingerprint: s::Fingerprint([0; 32]),
        hard_time_limit: None,
        parent: None,
        root: id,
        depth: 0,
        children: 0,
        traceparent: None,
        payload_size: 1 << 20,
        round: 1,
        failures: 0,
        losses: 0,
        returns: 0,
        returns_in_row: 0,
        token: s::FencingToken::NONE,
        last_outcome: None,
        last_node: None,
        granted_at: None,
        started_at: None,
        cancel_requested: false,
        created_at: s::Wall(1),
        stale_at: None,
        reason: None,
        waits: Vec::new(),
    }
}

async fn insert_job(hand: &mut SqliteConnection, id: &str, state: &str, token: i64) {
    const INSERT: &str = "
insert into jobs (id, sequence, tenant, producer, kind, state, version, priority, selector, labels, dedupe_held,
  fingerprint, root_id, depth, children, payload_size, round, failures, losses, returns, returns_in_row, token,
  cancel_requested, created_at, waits, queued_at)
values ($1, 1, 't', 'p', 'k', $2, 1, 0, '{}', '{}', 0, zeroblob(32), $1, 0, 0, 0, 1, 0, 0, 0, 0, $3, 0, 1, '[]',
  iif($2 = 'queued', 1, null))";
    sqlx::query(INSERT).bind(id).bind(state).bind(token).execute(hand).await.unwrap();
}

async fn lease(
    hand: &mut SqliteConnection,
    token: i64,
    job: &str,
    node: &str,
    phase: &str,
    reservation: &str,
) {
    const INSERT: &str = "insert into leases values ($1, $2, 'k', $3, 1, $5, 1, 1, 1, $4)";
    let row = sqlx::query(INSERT).bind(token).bind(job).bind(node).bind(phase).bind(reservation);
    row.execute(hand).await.unwrap();
}
