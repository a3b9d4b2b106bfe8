//! Tests that look behind the traits.

mod schema;
mod statements;

use std::time::Duration;

use sqlx::{AssertSqlSafe, Executor, SqliteConnection};
use tempfile::TempDir;
use tenure_scheduler::{Changes, Epoch};

use super::{Options, SqliteJournal, SqliteReader, connect, open};
use crate::{Beside, Journal, Reader};

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
        connect(&self.options.file(), false).await.unwrap()
    }
}

/// A constant text, made in a test.
fn sql(text: String) -> AssertSqlSafe<String> {
    AssertSqlSafe(text)
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
async fn a_file_that_vanished_is_the_store_being_away_and_not_a_new_store() {
    let mut store = Store::new().await;
    store.journal.takeover(Epoch(0)).await.unwrap();
    for suffix in ["", "-wal", "-shm"] {
        let mut name = store.options.file().into_os_string();
        name.push(suffix);
        std::fs::remove_file(name).unwrap();
    }
    let takeover = store.journal.takeover(Epoch(0)).await;
    assert!(matches!(takeover, Err(crate::journal::Error::Unavailable { .. })), "{takeover:?}");
    assert!(!store.options.file().exists());
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
        ("workflow_id = id, workflow_place = -1", "workflow_place"),
    ] {
        sqlx::query(sql(format!("update jobs set {broken}"))).execute(&mut hand).await.unwrap();
        let error = store.journal.takeover(Epoch(0)).await.expect_err(broken);
        let crate::journal::Error::Unreadable(row) = &error else { panic!("{error:?}") };
        assert_eq!((row.table, row.key.as_str()), ("jobs", id));
        assert!(row.problem.contains(column) && !row.problem.contains("secret"), "{row}");
        sqlx::query(
            "update jobs set labels = '{}', waits = '[]', depth = 0, root_id = id, workflow_id = null, \
             workflow_place = null",
        )
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
        selector: s::Selector::default(),
        prefer: s::Preferences::default(),
        labels: Default::default(),
        dedupe_key: None,
        dedupe_held: false,
        concurrency_key: None,
        fingerprint: s::Fingerprint([0; 32]),
        hard_time_limit: None,
        soft_time_limit: None,
        parent: None,
        root: id,
        depth: 0,
        children: 0,
        trace: None,
        payload_size: 1 << 20,
        round: 1,
        failures: 0,
        losses: 0,
        returns: 0,
        returns_in_row: 0,
        token: s::FencingToken::NONE,
        last_outcome: None,
        left_result: None,
        last_node: None,
        granted_at: None,
        started_at: None,
        cancel_requested: false,
        created_at: s::Wall(1),
        stale_at: None,
        reason: None,
        waits: Vec::new(),
        on_parent_cancel: s::OnParent::Cancel,
        on_parent_lost: s::OnParent::Keep,
        detached: None,
        workflow: None,
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
