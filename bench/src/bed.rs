//! Databases for one run: a private Postgres cluster that flushes every commit, or SQLite files in a directory.
//!
//! Responsible for fresh databases and for asserting that they are durable: a figure without fsync would be a lie.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, ensure};
use sqlx::{ConnectOptions as _, Connection as _, PgConnection, Row as _, SqliteConnection};
use tempfile::TempDir;
use tenure_test_postgres::Cluster;

use crate::args::Store;

/// Where databases are made.
#[derive(Debug)]
pub(crate) struct Bed {
    cluster: Option<Cluster>,
    directory: TempDir,
    made: AtomicU32,
}

/// One database.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// The data directory.
    Sqlite(PathBuf),
    /// The URL.
    Postgres(String),
}

impl Bed {
    /// Starts what the store needs.
    ///
    /// # Errors
    /// If there is no Postgres, or it would not flush commits.
    pub(crate) async fn make(store: Store) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new().prefix("tenure-bench-").tempdir()?;
        let cluster = match store {
            Store::Sqlite => None,
            Store::Postgres => Some(Cluster::start_durable()?),
        };
        let bed = Self { cluster, directory, made: AtomicU32::new(0) };
        if let Some(cluster) = &bed.cluster {
            let mut connection = postgres(&cluster.database()?).await?;
            for setting in ["fsync", "synchronous_commit", "full_page_writes"] {
                let found = show(&mut connection, setting).await?;
                ensure!(found == "on", "{setting} is {found}: figures without it mean nothing");
            }
            connection.close().await?;
        }
        Ok(bed)
    }

    /// Where its files are: what is measured of the disk is measured there.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The version of the database.
    ///
    /// # Errors
    /// If it does not say.
    pub(crate) async fn version(&self) -> anyhow::Result<String> {
        if let Some(cluster) = &self.cluster {
            let mut connection = postgres(&cluster.database()?).await?;
            let version = show(&mut connection, "server_version").await?;
            connection.close().await?;
            return Ok(version);
        }
        let mut connection = sqlx::sqlite::SqliteConnectOptions::new().in_memory(true).connect().await?;
        let row = sqlx::query("select sqlite_version()").fetch_one(&mut connection).await?;
        connection.close().await?;
        Ok(row.try_get(0)?)
    }

    /// A fresh database.
    ///
    /// # Errors
    /// What the database says.
    pub(crate) fn place(&self) -> anyhow::Result<Place> {
        match &self.cluster {
            Some(cluster) => Ok(Place::Postgres(cluster.database()?)),
            None => Ok(Place::Sqlite(self.fresh())),
        }
    }

    /// A path that nothing has yet.
    pub(crate) fn fresh(&self) -> PathBuf {
        self.directory.path().join(format!("data-{}", self.made.fetch_add(1, Ordering::Relaxed)))
    }
}

/// How many rows there are, after everything has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    /// Jobs in each state of interest.
    pub(crate) jobs: u64,
    pub(crate) succeeded: u64,
    pub(crate) queued: u64,
    pub(crate) payloads: u64,
    pub(crate) leases: u64,
}

/// The same text on both databases.
const COUNT: &str = "
select
  (select count(*) from jobs),
  (select count(*) from jobs where state = 'succeeded' and finished_at is not null),
  (select count(*) from jobs where state = 'queued'),
  (select count(*) from payloads),
  (select count(*) from leases)";

impl Place {
    /// Counts the rows.
    ///
    /// # Errors
    /// What the database says.
    pub(crate) async fn count(&self) -> anyhow::Result<Counted> {
        let counts: Vec<i64> = match self {
            Self::Postgres(url) => {
                let mut connection = postgres(url).await?;
                let row = sqlx::query(COUNT).fetch_one(&mut connection).await?;
                connection.close().await?;
                (0..5).map(|at| row.try_get(at)).collect::<Result<_, _>>()?
            }
            Self::Sqlite(data) => {
                let mut connection = sqlite(&data.join("tenure.db")).await?;
                let row = sqlx::query(COUNT).fetch_one(&mut connection).await?;
                connection.close().await?;
                (0..5).map(|at| row.try_get(at)).collect::<Result<_, _>>()?
            }
        };
        let at = |at: usize| counts.get(at).and_then(|&count| u64::try_from(count).ok());
        let counted = || {
            Some(Counted {
                jobs: at(0)?,
                succeeded: at(1)?,
                queued: at(2)?,
                payloads: at(3)?,
                leases: at(4)?,
            })
        };
        counted().context("a count is negative")
    }
}

/// A connection to Postgres, set up as the server sets up the one on which it commits.
///
/// # Errors
/// What the database says.
pub(crate) async fn postgres(url: &str) -> anyhow::Result<PgConnection> {
    let mut connection = PgConnection::connect(url).await.context("no connection to Postgres")?;
    sqlx::raw_sql(
        "set jit = off; set synchronous_commit = on; set plan_cache_mode = force_generic_plan; \
         set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off",
    )
    .execute(&mut connection)
    .await?;
    Ok(connection)
}

/// Transactions of a database so far, those included that only read, as its backends told them.
///
/// # Errors
/// What the database says.
pub(crate) async fn transactions(url: &str) -> anyhow::Result<f64> {
    const ENDED: &str = "
select (xact_commit + xact_rollback)::float8
from pg_stat_database
where datname = current_database()";
    let mut connection = PgConnection::connect(url).await.context("no connection to Postgres")?;
    let ended = sqlx::query(ENDED).fetch_one(&mut connection).await?.try_get(0)?;
    connection.close().await?;
    Ok(ended)
}

/// A connection to a SQLite file, set up as the server sets up the one on which it commits.
///
/// # Errors
/// What the database says.
pub(crate) async fn sqlite(file: &Path) -> anyhow::Result<SqliteConnection> {
    let options = sqlx::sqlite::SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(true)
        .journal_mode(sqlx::sqlite::SqliteJournalMode::Wal)
        .synchronous(sqlx::sqlite::SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(std::time::Duration::from_secs(5));
    options.connect().await.with_context(|| format!("cannot open {}", file.display()))
}

async fn show(connection: &mut PgConnection, setting: &str) -> anyhow::Result<String> {
    let row = sqlx::query("select current_setting($1)").bind(setting).fetch_one(connection).await?;
    Ok(row.try_get(0)?)
}
