//! What an error of Postgres means.

use sqlx::error::DatabaseError;

use crate::journal::Error;

/// Somebody else holds a lock for longer than we wait.
pub(super) const LOCK_NOT_AVAILABLE: &str = "55P03";

/// What the failure of a statement means for the journal.
pub(super) fn of(statement: &'static str, error: sqlx::Error) -> Error {
    let Some(told) = error.as_database_error() else {
        // A value that cannot be bound would be met again.
        let ours = matches!(error, sqlx::Error::Encode(_));
        return if ours {
            Error::Refused { statement, source: error.into() }
        } else {
            Error::Unavailable { doing: statement, source: Some(error.into()) }
        };
    };
    let (code, name) = (code(told), told.constraint().map(str::to_owned));
    // By class: 23 integrity, 22 data, 42 a statement that makes no sense, 54 a limit of the program. Whatever else there
    // is (connections, resources, shutdown, a standby) is nothing that the rows could do about.
    match code.get(..2) {
        Some("23") => {
            let name = name.unwrap_or_else(|| not_null(told));
            Error::Constraint { name, statement, source: error.into() }
        }
        Some("22" | "42" | "54") => Error::Refused { statement, source: error.into() },
        _ => Error::Unavailable { doing: statement, source: Some(error.into()) },
    }
}

/// The state of an error, five characters.
pub(super) fn code(error: &dyn DatabaseError) -> String {
    error.code().map(Into::into).unwrap_or_default()
}

/// Whether the same read may go well on another connection, or a little later: it met a conflict, a shutdown, or a
/// connection that is gone. A pool that is exhausted was waited for long enough.
pub(super) fn is_passing(error: &sqlx::Error) -> bool {
    let Some(told) = error.as_database_error() else {
        return matches!(error, sqlx::Error::Io(_) | sqlx::Error::Protocol(_));
    };
    let code = code(told);
    // 25006: a demoted primary; its connection is not used again.
    code.starts_with("08")
        || ["40001", "40P01", LOCK_NOT_AVAILABLE, "57P01", "57P02", "57P03", "25006"].contains(&code.as_str())
}

/// A null in a column that has none carries no name of a constraint.
fn not_null(error: &dyn DatabaseError) -> String {
    error.table().map_or_else(|| "not null".into(), |table| format!("not null in {table}"))
}
