//! The store in a SQLite file: one machine, one process, fsync at every commit.
//!
//! One writer connection and a pool of read-only ones over one file in WAL mode. A second process is kept out by an OS
//! lock on a file beside the database. It is never taken on the database itself, and nothing here opens that file by
//! other means than SQLite: its own locks are POSIX locks, which vanish when any handle of the file is closed.
//!
//! Not for network file systems: SQLite's locks and its shared memory do not work there.

mod bound;
mod columns;
mod commit;
mod fault;
mod journal;
mod lock;
mod log_tails;
mod outbox;
mod reader;
pub(crate) mod schema;
#[cfg(test)]
mod tests;

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use sqlx::{
    ConnectOptions, Connection, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};

pub use self::{journal::SqliteJournal, reader::SqliteReader};
use crate::{Reader, journal::Cause};

/// Where the store is, and what it may take.
#[derive(Debug, Clone)]
pub struct Options {
    /// The data directory; made if it is not there, for its owner only. The database is `tenure.db` in it.
    pub directory: PathBuf,
    /// How many connections read at once, at the most. Further reads wait, 1 s at the most. Default 4.
    pub readers: u32,
    /// How long one read may take, since a long one stops checkpoints and lets the log grow. Default 5 s.
    pub read_limit: Duration,
}

impl Options {
    /// The defaults, in a directory.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), readers: 4, read_limit: Duration::from_secs(5) }
    }

    /// The database.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.directory.join("tenure.db")
    }
}

/// Why a store could not be opened. Each stops the start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The data directory cannot be made.
    #[error("cannot make the data directory {}", path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Another process, or this one, has it open.
    #[error(
        "the database {} is in use by {}; stop it first, or name another data directory",
        path.display(),
        holder.as_deref().map_or_else(|| "another process".into(), |pid| format!("process {pid}"))
    )]
    InUse {
        /// The database.
        path: PathBuf,
        /// The process id that its holder wrote down.
        holder: Option<String>,
    },
    /// The lock beside the database cannot be taken.
    #[error("cannot lock {}", path.display())]
    Lock {
        /// The lock file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A later version wrote to it.
    #[error("the database has schema {found}, this version knows {known} and older: start the later version")]
    Newer {
        /// Of the database.
        found: u64,
        /// Of this version.
        known: u64,
    },
    /// A migration failed; it left no trace.
    #[error("cannot bring the schema up to date")]
    Migrate(#[source] Cause),
    /// SQLite cannot open it.
    #[error("cannot open the database {}", path.display())]
    Open {
        /// The database.
        path: PathBuf,
        /// Why.
        #[source]
        source: Cause,
    },
}

/// Opens the store, and brings its schema up to date. The journal's first call is `takeover`.
///
/// # Errors
/// Each is a sentence for the operator, and stops the start.
pub async fn open(options: &Options) -> Result<(SqliteJournal, Reader), Error> {
    make_directory(&options.directory)?;
    let file = options.file();
    let lock = lock::take(&file)?;
    let failed = |source: sqlx::Error| Error::Open { path: file.clone(), source: source.into() };
    let mut connection = connect(&file, true).await.map_err(failed)?;
    schema::bring_up_to_date(&mut connection).await?;
    // The journal opens its own at every takeover.
    connection.close().await.map_err(failed)?;
    let reader = SqliteReader::new(reading(&file), options);
    Ok((SqliteJournal::new(file, lock), Reader::Sqlite(reader)))
}

fn make_directory(path: &Path) -> Result<(), Error> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(|source| Error::Directory { path: path.into(), source })
}

/// A connection that writes. Only the start may create the file: if it vanishes later, that is the store being away,
/// not a new store.
async fn connect(file: &Path, create: bool) -> Result<SqliteConnection, sqlx::Error> {
    common(file)
        .create_if_missing(create)
        .journal_mode(SqliteJournalMode::Wal)
        // In WAL mode NORMAL would lose the newest commits with the power.
        .synchronous(SqliteSynchronous::Full)
        .pragma("fullfsync", "on") // macOS: fsync alone does not reach the disk
        .foreign_keys(true)
        .pragma("journal_size_limit", "67108864") // bytes; what the log grew to in a burst is given back
        .thread_name(|_| "tenure-journal".into())
        .connect()
        .await
}

/// For connections that only read.
fn reading(file: &Path) -> SqliteConnectOptions {
    common(file).pragma("query_only", "on").thread_name(|n| format!("tenure-reader-{n}"))
}

fn common(file: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(file)
        // The only other writer is an operator's hand.
        .busy_timeout(Duration::from_secs(5))
        // Rows that the connection's thread reads ahead: a load of a million rows is not a million switches.
        .row_buffer_size(256)
        .disable_statement_logging()
}
