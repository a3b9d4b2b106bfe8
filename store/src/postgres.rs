//! The store in a Postgres database: many machines, a server that may move.
//!
//! One dedicated connection commits, one renews, a pool reads. Leadership is a row, `leader_fence`: a takeover locks it,
//! raises the epoch and names the new holder; every commit checks the epoch under a lock that a takeover waits for, so
//! that nothing of an older epoch lands after it. The holder renews the row; who sees no renewal for long takes over.
//!
//! Invariants: every call ends within a limit; a connection on which a call failed, was slow or was dropped half-way is
//! thrown away, never used again; the database's address is shown nowhere, since it may hold a password.

mod columns;
mod commit;
mod connect;
mod election;
mod examine;
mod fault;
mod identity;
mod inbox;
mod journal;
mod log_tails;
mod outbox;
mod reader;
pub(crate) mod schema;
#[cfg(test)]
mod tests;

use std::{fmt, str::FromStr, time::Duration};

use sqlx::{ConnectOptions, Row, postgres::PgConnectOptions};

pub use self::{
    election::{Candidate, Holder, Seat},
    inbox::{MOST_REFUSALS, PostgresInbox},
    journal::PostgresJournal,
    reader::PostgresReader,
    schema::{MigrationState, migrate, plan, status},
};
use crate::{Reader, journal::Cause};

/// The oldest Postgres that is served, as the server says it: 15.0.
const OLDEST: i32 = 150_000;

/// How to reach a database: a URL, which is a secret.
#[derive(Clone)]
pub struct Address(PgConnectOptions);

impl FromStr for Address {
    type Err = Error;

    /// From a URL like `postgres://user:password@host:5432/database?sslmode=verify-full`, or with `?host=/directory` of
    /// a Unix socket.
    fn from_str(url: &str) -> Result<Self, Error> {
        let scheme = ["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme));
        // What the parser says may show a part of the URL.
        let parsed = url.parse().ok().filter(|_| scheme).ok_or(Error::Address)?;
        let parsed: PgConnectOptions = parsed;
        Ok(Self(parsed.disable_statement_logging()))
    }
}

// A URL may hold a password: its text form tells nothing.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Address(..)")
    }
}

/// Where the store is, and what it may take.
#[derive(Debug, Clone)]
pub struct Options {
    /// The database.
    pub address: Address,
    /// How many connections read at once, at the most. Further reads wait, 1 s at the most. Default 8.
    pub readers: u32,
    /// How long one read may take. Default 5 s.
    pub read_limit: Duration,
    /// How long a commit may take until its outcome is given up as unknown. Default 10 s.
    pub commit_limit: Duration,
    /// Whether an older schema is brought up to date at the start. Else it is refused. Default: refused.
    pub migrate: bool,
}

impl Options {
    /// The defaults, for a database.
    #[must_use]
    pub fn new(address: Address) -> Self {
        Self {
            address,
            readers: 8,
            read_limit: Duration::from_secs(5),
            commit_limit: Duration::from_secs(10),
            migrate: false,
        }
    }
}

/// Why a store could not be opened. Each stops the start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No URL of a Postgres database. What was given is not shown.
    #[error("the database URL is not one of Postgres, such as postgres://user@host:5432/database")]
    Address,
    /// Nobody answers there, or not to us.
    #[error("cannot reach the database")]
    Open(#[source] Cause),
    /// An old Postgres.
    #[error("the database server is Postgres {found}; 15 or later is needed")]
    Old {
        /// Its version, as it says it.
        found: String,
    },
    /// A later version of Tenure wrote to it.
    #[error("the database has schema {found}, this version knows {known} and older: start the later version")]
    Newer {
        /// Of the database.
        found: u64,
        /// Of this version.
        known: u64,
    },
    /// An earlier version of Tenure wrote to it, or none.
    #[error(
        "the database has schema {found}, this version needs {known}: run `tenure migrate run`, or start with --migrate"
    )]
    Older {
        /// Of the database; 0: it is empty.
        found: u64,
        /// Of this version.
        known: u64,
    },
    /// The database was made by another text of a migration.
    #[error(
        "migration {number:04} {name} of the database is not that of this version: it was made by an unreleased one"
    )]
    Changed {
        /// Which.
        number: u64,
        /// What it does.
        name: String,
    },
    /// A migration failed; it left no trace.
    #[error("cannot bring the schema up to date")]
    Migrate(#[source] Cause),
}

impl From<connect::Error> for Error {
    fn from(error: connect::Error) -> Self {
        Self::Open(error.into())
    }
}

/// Opens the store. The journal's first call is `takeover`, which deposes whoever leads: among several servers let it
/// [stand](PostgresJournal::stand) for election instead.
///
/// # Errors
/// Each is a sentence for the operator, and stops the start.
pub async fn open(options: &Options) -> Result<(PostgresJournal, Reader), Error> {
    let address = &options.address;
    let mut connection = connect::operator(address).await?;
    let read = |error: sqlx::Error| Error::Open(error.into());
    let about = sqlx::query(ABOUT).fetch_one(&mut connection).await.map_err(read)?;
    let (number, text, me) = (about.try_get::<i32, _>(0), about.try_get(1), about.try_get(2));
    if number.map_err(read)? < OLDEST {
        return Err(Error::Old { found: text.map_err(read)? });
    }
    schema::check(&mut connection, options.migrate).await?;
    connect::end(connection).await;
    let journal = PostgresJournal::new(address.clone(), options.commit_limit, me.map_err(read)?);
    Ok((journal, Reader::Postgres(PostgresReader::new(options))))
}

/// For the test that prepares each.
#[cfg(test)]
const ALL: [&str; 1] = [ABOUT];

/// The version, and a random id for this start of ours.
const ABOUT: &str =
    "select current_setting('server_version_num')::int, current_setting('server_version'), gen_random_uuid()";
