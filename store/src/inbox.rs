//! The inbox: what producers in the same Postgres enqueue in their own transactions.
//!
//! Responsible for the words in which its rows are read, refused and shown. Not for what becomes of a row (the server's), nor
//! for the removal of those that became jobs, which is part of the commit that enqueues them ([`crate::Beside::inbox`]).
//! No other store has an inbox: nobody but the server can write there.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use serde::de::DeserializeOwned;
use tenure_scheduler::{JobId, Producer, Wall};

use crate::{Reader, journal::Cause, reader};

/// A row, as its producer inserted it. Nothing of it was checked but its size.
#[derive(Clone, PartialEq, Eq)]
pub struct InboxRow {
    /// Its number.
    pub seq: i64,
    /// The role that inserted it, as the database says.
    pub role: String,
    /// How long ago, by the clock of the database.
    pub waited: Duration,
    /// The id that its job gets.
    pub job: JobId,
    /// Its kind.
    pub kind: String,
    /// Its payload, at most 256 KiB.
    pub payload: Bytes,
    /// The media type of that; may be empty.
    pub content_type: String,
    /// Its dedupe key.
    pub dedupe_key: Option<String>,
    /// Its tenant.
    pub tenant: Option<String>,
    /// Its priority.
    pub priority: Option<i32>,
    /// Not to be started before.
    pub run_at: Option<Wall>,
    /// Not to be started before so long after it was inserted, in ms.
    pub delay_ms: Option<i64>,
    /// Not worth starting so long after it was inserted, in ms.
    pub stale_after_ms: Option<i64>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its selector.
    pub selector: BTreeMap<String, String>,
    /// Its needs, by slot.
    pub needs: Option<BTreeMap<String, u32>>,
    /// Its concurrency key.
    pub concurrency_key: Option<String>,
    /// Its hard limit, in ms.
    pub hard_time_limit_ms: Option<i64>,
    /// Its soft limit, in ms.
    pub soft_time_limit_ms: Option<i64>,
    /// Its trace context.
    pub traceparent: Option<String>,
    /// Columns whose JSON is not what it has to be, and what is wrong with each. They are empty above.
    pub problems: Vec<(&'static str, String)>,
}

impl InboxRow {
    /// The value of a column of JSON; nothing, and a problem more, if it is of another form.
    pub(crate) fn json<T: DeserializeOwned>(
        &mut self,
        column: &'static str,
        text: Option<String>,
    ) -> Option<T> {
        match serde_json::from_str(&text?) {
            Ok(value) => value,
            Err(error) => {
                self.problems.push((column, error.to_string()));
                None
            }
        }
    }
}

// A payload may hold secrets, so that the text form tells its size only.
impl std::fmt::Debug for InboxRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { seq, role, job, kind, payload, .. } = self;
        write!(f, "InboxRow({seq}, {role:?}, {job}, {kind:?}, {} bytes)", payload.len())
    }
}

/// A row that becomes no job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Its number.
    pub seq: i64,
    /// As whom it would have been enqueued.
    pub producer: Producer,
    /// Why, as an RPC would be told it.
    pub reason: String,
    /// The same as a sentence.
    pub message: String,
    /// The row is kept whole, so that it can be brought back: for what is no fault of its producer.
    pub whole: bool,
}

/// A row that became no job, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxRefusal {
    /// Its number.
    pub seq: i64,
    /// The role that inserted it.
    pub role: String,
    /// As whom it would have been enqueued.
    pub producer: Producer,
    /// When it was inserted, by the clock of the database.
    pub inserted_at: Wall,
    /// When it was refused.
    pub refused_at: Wall,
    /// The id that its job would have had.
    pub job: JobId,
    /// Its kind, as it was asked for.
    pub kind: String,
    /// Its dedupe key.
    pub dedupe_key: Option<String>,
    /// Why, as an RPC would be told it.
    pub reason: String,
    /// The same as a sentence.
    pub message: String,
}

/// How the inbox stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InboxState {
    /// Rows that wait; counted to a million at the most.
    pub waiting: u64,
    /// How long the one with the lowest number has waited. None: none waits.
    pub oldest: Option<Duration>,
    /// Refusals that are kept.
    pub refusals: u64,
    /// Those of them that are kept whole: a fault of the server kept them from becoming jobs. They are never swept.
    pub broken: u64,
}

/// Rows that can be ingested, and those that cannot even be read.
#[derive(Debug, Default)]
pub struct InboxBatch {
    /// In the order of their numbers.
    pub rows: Vec<InboxRow>,
    /// Rows of which a column makes no sense, with what is wrong.
    pub unreadable: Vec<(i64, String)>,
}

/// Why the inbox cannot be worked on. Whatever it is, it is tried again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another epoch is in force. Nothing was written.
    #[error("the epoch under which the inbox was written to is over")]
    Deposed,
    /// The database is away, or refused a statement.
    #[error("the inbox is not available: {doing}")]
    Unavailable {
        /// What was being done.
        doing: &'static str,
        /// Why, if anybody knows.
        #[source]
        source: Option<Cause>,
    },
}

impl Reader {
    /// How the inbox stands. Of a store without one: empty.
    ///
    /// # Errors
    /// As every read: [`reader::Error`].
    pub async fn inbox(&self) -> Result<InboxState, reader::Error> {
        match self {
            Self::Postgres(reader) => reader.inbox().await,
            Self::Sqlite(_) | Self::Memory(_) => Ok(InboxState::default()),
        }
    }

    /// Refusals from the newest to the oldest, at most `limit`, from below `before` on; those of one producer, or of all.
    ///
    /// # Errors
    /// As every read: [`reader::Error`].
    pub async fn inbox_refusals(
        &self,
        producer: Option<&Producer>,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<InboxRefusal>, reader::Error> {
        match self {
            Self::Postgres(reader) => reader.inbox_refusals(producer, before, limit).await,
            Self::Sqlite(_) | Self::Memory(_) => Ok(Vec::new()),
        }
    }
}
