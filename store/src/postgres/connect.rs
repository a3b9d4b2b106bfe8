//! Connections: each is for one purpose, set up for it, and on a primary.
//!
//! Settings are made by `set` after connecting, not in the start packet: a pooler in session mode hands those on.

use std::time::Duration;

use sqlx::{ConnectOptions, Connection, PgConnection, Row};
use tokio::time::timeout;

use super::{Address, fault};

/// How long it may take to have a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// How long a connection may take to say goodbye.
const END_LIMIT: Duration = Duration::from_secs(1);

/// For the test that prepares each.
#[cfg(test)]
pub(super) const ALL: [&str; 1] = [IN_RECOVERY];

const IN_RECOVERY: &str = "select pg_is_in_recovery()";

/// Every connection: a peer that vanished is noticed by the server within seconds, so that it holds no lock for longer.
macro_rules! common {
    () => {
        "set client_connection_check_interval = '1s'; set tcp_user_timeout = '5s'; set tcp_keepalives_idle = 10; \
         set jit = off; set lock_timeout = 0; "
    };
}

/// The commit connection. Nobody cancels its statements: a cancelled wait for a standby would make a commit succeed that
/// is not replicated. A leader frozen inside a transaction is cut off. Plans are made once, whatever the batch, and must
/// not depend on how full a table was then: keys are looked up by index.
pub(super) const COMMIT: &str = concat!(
    common!(),
    "set application_name = 'tenure-takeover'; set synchronous_commit = on; set statement_timeout = 0; \
     set idle_in_transaction_session_timeout = '1500ms'; set plan_cache_mode = force_generic_plan; \
     set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off; \
     set default_transaction_isolation = 'read committed'; set default_transaction_read_only = off"
);

/// The connection of the election. Losing a renewal does no harm, and waiting for a slow disk must depose nobody.
pub(super) const ELECTION: &str = concat!(
    common!(),
    "set application_name = 'tenure-election'; set synchronous_commit = off; set statement_timeout = '2s'; \
     set idle_in_transaction_session_timeout = '1500ms'; set default_transaction_isolation = 'read committed'; \
     set default_transaction_read_only = off"
);

/// The connection of the inbox. What it writes is fenced like a commit, and no less durable.
pub(super) const INBOX: &str = concat!(
    common!(),
    "set application_name = 'tenure-inbox'; set synchronous_commit = on; set statement_timeout = '5s'; \
     set idle_in_transaction_session_timeout = '1500ms'; set default_transaction_isolation = 'read committed'; \
     set default_transaction_read_only = off"
);

/// Reading connections.
pub(super) const READ: &str = concat!(
    common!(),
    "set application_name = 'tenure-reader'; set statement_timeout = '5s'; \
     set idle_in_transaction_session_timeout = '5s'; set default_transaction_read_only = on"
);

/// For the schema, at the start or by an operator. A migration may take its time, but waits for no lock for long.
const OPERATOR: &str = concat!(
    common!(),
    "set application_name = 'tenure-operator'; set statement_timeout = 0; set client_min_messages = warning"
);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// What the database, or the network, said.
    #[error("no connection")]
    Database(#[source] sqlx::Error),
    /// Statements that were prepared on it are not there, or others are: it is not ours alone.
    #[error("a pooler in transaction mode stands before it: connect directly, or by one in session mode")]
    Pooled(#[source] sqlx::Error),
    /// A standby, or a primary that was demoted.
    #[error("the database is a standby: it cannot be written to")]
    Standby,
    /// It took too long.
    #[error("no connection within {} s", CONNECT_LIMIT.as_secs())]
    Slow,
}

/// 42P05: there is a prepared statement of this name already; 26000: there is none.
const PREPARED_BY_OTHERS: [&str; 2] = ["42P05", "26000"];

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        let code = error.as_database_error().map(fault::code).unwrap_or_default();
        if PREPARED_BY_OTHERS.contains(&&*code) { Self::Pooled(error) } else { Self::Database(error) }
    }
}

/// A connection of its own.
///
/// # Errors
/// If there is none in time, or it is no primary's.
pub(super) async fn open(address: &Address, settings: &'static str) -> Result<PgConnection, Error> {
    let connected = async {
        let mut connection = address.0.connect().await?;
        prepare(&mut connection, settings).await?;
        Ok(connection)
    };
    timeout(CONNECT_LIMIT, connected).await.unwrap_or(Err(Error::Slow))
}

/// A connection for what an operator does.
///
/// # Errors
/// As [`open`].
pub(super) async fn operator(address: &Address) -> Result<PgConnection, Error> {
    open(address, OPERATOR).await
}

/// Sets a new connection up.
///
/// # Errors
/// If that fails, or it is no primary's.
pub(super) async fn prepare(connection: &mut PgConnection, settings: &'static str) -> Result<(), Error> {
    sqlx::raw_sql(settings).execute(&mut *connection).await?;
    let standby: bool = sqlx::query(IN_RECOVERY).fetch_one(connection).await?.try_get(0)?;
    if standby { Err(Error::Standby) } else { Ok(()) }
}

/// Ends a connection on which nothing runs. If it does not say goodbye in time, it is dropped, which ends it as well.
pub(super) async fn end(connection: PgConnection) {
    drop(timeout(END_LIMIT, connection.close()).await);
}
