//! Tests that look behind the traits.

mod election;
mod fencing;
mod identity;
mod inbox;
mod parity;
mod schema;
mod statements;

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use super::{Address, Error, Options, PostgresInbox, PostgresJournal, PostgresReader, migrate, open, status};
use tenure_scheduler::Changes;

use crate::{Beside, Journal, Reader};

struct Store {
    journal: PostgresJournal,
    reader: PostgresReader,
    options: Options,
    url: String,
}

impl Store {
    async fn new() -> Self {
        let url = database();
        let options = Options { migrate: true, ..Options::new(url.parse().unwrap()) };
        let (journal, reader) = open(&options).await.unwrap();
        let Reader::Postgres(reader) = reader else { panic!("not a reader of Postgres") };
        Self { journal, reader, options, url }
    }

    /// A hand in the database.
    async fn hand(&self) -> PgConnection {
        hand(&self.url).await
    }
}

/// An empty database.
fn database() -> String {
    tenure_test_postgres::shared().unwrap().database().unwrap()
}

async fn hand(url: &str) -> PgConnection {
    PgConnection::connect(url).await.unwrap()
}

/// A constant text, made in a test.
fn sql(text: String) -> AssertSqlSafe<String> {
    AssertSqlSafe(text)
}

#[test]
fn an_address_shows_nothing_of_itself() {
    let secret = "postgres://tenure:hunter2@db.example/tenure";
    let address: Address = secret.parse().unwrap();
    assert_eq!(format!("{address:?}"), "Address(..)");
    assert!(!format!("{:?}", Options::new(address)).contains("hunter2"));
    for wrong in ["mysql://u:hunter2@h/d", "postgres://u:hunter2@h:port/d", "hunter2", ""] {
        let error = wrong.parse::<Address>().expect_err("no such URL");
        assert!(!format!("{error:?} {error}").contains("hunter2"), "{error:?}");
    }
}

#[tokio::test]
async fn an_older_schema_is_a_sentence_until_somebody_migrates() {
    let url = database();
    let options = Options::new(url.parse().unwrap());
    let error = open(&options).await.expect_err("nobody migrated");
    assert!(
        matches!(error, Error::Older { found: 0, known } if known == super::schema::newest()),
        "{error:?}"
    );
    assert!(error.to_string().contains("tenure migrate run"), "{error}");
    // It changed nothing.
    assert!(status(&options.address).await.unwrap().iter().all(|migration| !migration.applied));
    // Two at once: one applies, the other finds nothing to do.
    let (first, second) = tokio::join!(migrate(&options.address), migrate(&options.address));
    first.unwrap();
    second.unwrap();
    assert!(status(&options.address).await.unwrap().iter().all(|migration| migration.applied));
    assert!(migrate(&options.address).await.unwrap().is_empty());
    open(&options).await.unwrap();
}

#[tokio::test]
async fn a_newer_schema_is_refused_with_a_sentence() {
    let store = Store::new().await;
    let later = "insert into _sqlx_migrations values (9999, 'later', now(), true, '\\x00', 0)";
    store.hand().await.execute(later).await.unwrap();
    for migrate in [false, true] {
        let error = open(&Options { migrate, ..store.options.clone() }).await.expect_err("it is newer");
        assert!(matches!(error, Error::Newer { found: 9999, .. }), "{error:?}");
        assert!(error.to_string().contains("start the later version"), "{error}");
    }
    assert!(matches!(migrate(&store.options.address).await, Err(Error::Newer { .. })));
}

#[tokio::test]
async fn a_schema_that_lacks_one_in_between_is_an_older_one() {
    let store = Store::new().await;
    store.hand().await.execute("delete from _sqlx_migrations where version = 6").await.unwrap();
    let error = open(&Options { migrate: false, ..store.options.clone() }).await.expect_err("one is missing");
    assert!(matches!(error, Error::Older { found: 5, .. }), "{error:?}");
}

#[tokio::test]
async fn a_migration_that_was_edited_stops_the_start() {
    let store = Store::new().await;
    let edited = "update _sqlx_migrations set checksum = '\\x00' where version = 1";
    store.hand().await.execute(edited).await.unwrap();
    for migrate in [false, true] {
        let error =
            open(&Options { migrate, ..store.options.clone() }).await.expect_err("its checksum differs");
        assert!(matches!(error, Error::Changed { number: 1, .. }), "{error:?}");
    }
    assert!(matches!(migrate(&store.options.address).await, Err(Error::Changed { .. })));
}

#[tokio::test]
async fn a_slow_read_ends_and_leaves_no_connection_behind() {
    let store = Store::new().await;
    let mut reader = store.reader.clone();
    reader.limit = std::time::Duration::from_millis(200);
    for _ in 0..3 {
        let slow = reader.rows(|| sqlx::query("select pg_sleep(60)")).await;
        assert!(matches!(slow, Err(crate::reader::Error::TooSlow { limit_ms: 200 })), "{:?}", slow.err());
    }
    store.reader.ping().await.unwrap();
}

#[tokio::test]
async fn readers_cannot_write_and_tell_the_durability() {
    let store = Store::new().await;
    let written = store.reader.rows(|| sqlx::query("delete from jobs")).await;
    assert!(written.is_err());
    assert_eq!(store.reader.durability().await.unwrap(), crate::Durability::Single);
}

#[tokio::test]
async fn an_examination_tells_what_weakens_the_database() {
    let store = Store::new().await;
    let found = store.reader.examine().await.unwrap();
    // The cluster of the tests survives the death of its processes only. Nothing stands between it and us.
    let [fsync, pages] = &found.findings[..] else { panic!("{found:?}") };
    assert!(fsync.starts_with("fsync is off") && pages.starts_with("full_page_writes is off"), "{found:?}");
    assert!(found.wall.is_some());
    // As a pooler does that gives a connection to others in between.
    let mut all = Vec::new();
    for _ in 0..store.options.readers {
        let mut lost = store.reader.pool.acquire().await.unwrap();
        lost.execute("set application_name = 'psql'").await.unwrap();
        all.push(lost);
    }
    let count = all.len();
    drop(all);
    let idle = async {
        while store.reader.pool.num_idle() < count {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(10), idle).await.unwrap();
    let found = store.reader.examine().await.unwrap();
    assert!(found.findings.iter().any(|finding| finding.starts_with("settings of a session")), "{found:?}");
    let later = "insert into _sqlx_migrations values (9999, 'later', now(), true, '\\x00', 0)";
    store.hand().await.execute(later).await.unwrap();
    let found = store.reader.examine().await.unwrap();
    assert!(found.findings.iter().any(|finding| finding.contains("schema 9999")), "{found:?}");
}

#[tokio::test]
async fn commits_are_synchronous_whatever_the_database_says() {
    let mut store = Store::new().await;
    let database = store.url.split(['/', '?']).nth(3).unwrap().to_owned();
    let weak = sql(format!(
        "alter database {database} set synchronous_commit = off;
        alter database {database} set default_transaction_read_only = on;
        alter database {database} set default_transaction_isolation = 'serializable';
        alter database {database} set statement_timeout = '1ms'"
    ));
    store.hand().await.execute(weak).await.unwrap();
    store.journal.takeover(tenure_scheduler::Epoch(0)).await.unwrap();
    let connection = store.journal.connection.as_mut().unwrap();
    for (setting, value) in [
        ("synchronous_commit", "on"),
        ("transaction_isolation", "read committed"),
        ("statement_timeout", "0"),
    ] {
        let row = sqlx::query("select current_setting($1)").bind(setting).fetch_one(&mut *connection).await;
        assert_eq!(sqlx::Row::get::<String, _>(&row.unwrap(), 0), value, "{setting}");
    }
}

/// Not even the role that migrates has to be the one that serves.
#[tokio::test]
async fn a_role_with_rights_on_rows_only_can_serve() {
    let store = Store::new().await;
    let name = store.url.split(['/', '?']).nth(3).unwrap().to_owned();
    let role = sql(format!(
        "create role serves_{name} login;
        grant select, insert, update, delete on all tables in schema public to serves_{name}"
    ));
    let mut hand = store.hand().await;
    hand.execute(role).await.unwrap();
    let url = store.url.replace("postgres@", &format!("serves_{name}@"));
    let (mut journal, reader) = open(&Options::new(url.parse().unwrap())).await.unwrap();
    let taken = journal.takeover(tenure_scheduler::Epoch(0)).await.unwrap();
    journal.commit(taken.epoch, &Changes::default(), &Beside::default()).await.unwrap();
    assert_eq!(reader.violations().await.unwrap(), []);
    reader.examine().await.unwrap();
    // What holds the lock of its own older leader is cut off by the same role.
    let mut frozen = PgConnection::connect(&url).await.unwrap();
    frozen
        .execute(sql(format!("set application_name = 'tenure-leader-{}'; begin", taken.epoch.0)))
        .await
        .unwrap();
    frozen.execute("select 1 from leader_fence for key share").await.unwrap();
    journal.takeover(tenure_scheduler::Epoch(0)).await.unwrap();
    hand.execute(sql(format!("drop owned by serves_{name}; drop role serves_{name}"))).await.unwrap();
}

#[tokio::test]
async fn a_connection_that_others_prepared_on_is_a_poolers() {
    let store = Store::new().await;
    let mut hand = store.hand().await;
    sqlx::raw_sql("prepare sqlx_s_1 as select 1").execute(&mut hand).await.unwrap();
    let error = super::connect::prepare(&mut hand, super::connect::READ).await.expect_err("it is not ours");
    assert!(error.to_string().contains("session mode"), "{error:?}");
}
