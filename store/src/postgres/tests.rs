//! Tests that look behind the traits.

mod fencing;
mod parity;
mod schema;
mod statements;

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use super::{Address, Error, Options, PostgresJournal, PostgresReader, migrate, open, status};
use crate::Reader;

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
    assert!(matches!(error, Error::Older { found: 0, known: 7 }), "{error:?}");
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
async fn a_migration_that_was_edited_stops_the_start() {
    let store = Store::new().await;
    let edited = "update _sqlx_migrations set checksum = '\\x00' where version = 1";
    store.hand().await.execute(edited).await.unwrap();
    let error = open(&store.options).await.expect_err("its checksum differs");
    assert!(matches!(error, Error::Migrate(_)), "{error:?}");
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
