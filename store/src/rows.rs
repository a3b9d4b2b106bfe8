//! Rows ↔ scheduler types: the only place where the two meet. Scheduler types carry no serde and no SQL.

/// A row that makes no sense.
#[derive(Debug, thiserror::Error)]
#[error("{table} {key}: {problem}")]
pub struct Error {
    /// The table.
    pub table: &'static str,
    /// The key of the row, as text.
    pub key: String,
    /// What is wrong, naming the column and never showing what the row holds.
    pub problem: String,
}
