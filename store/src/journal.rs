//! The write side: one journal per leader, one commit per turn.
//!
//! Responsible for the words in which the driver and a store speak. Not for deciding anything, and not for retrying: a
//! commit is never repeated, whatever its error.

use std::{collections::BTreeMap, future::Future, sync::Arc};

use bytes::Bytes;
use tenure_scheduler::{
    Changes, DedupeKey, DeliveryId, Durable, Epoch, FencingToken, Job, JobId, KindName, Tenant, Workflow,
    WorkflowId,
};

use crate::{LogTail, ResultObject, election::Trust, rows};

/// The only writer of a store.
///
/// A fresh journal, and one whose last call failed or was dropped half-way, answers nothing but [`Journal::takeover`].
pub trait Journal: Send + 'static {
    /// Takes over from whoever led, oneself included: waits until nothing of an earlier commit is in flight, raises
    /// the epoch to `max(stored, at_least) + 1`, and loads everything in one snapshot. `at_least` is the highest epoch
    /// that a node has seen, or zero.
    ///
    /// # Errors
    /// [`Error::Unavailable`] while the store is away: try again later. [`Error::Unreadable`] if a row makes no sense.
    /// After an error the epoch may have risen; that does no harm.
    fn takeover(&mut self, at_least: Epoch) -> impl Future<Output = Result<Taken, Error>> + Send;

    /// Every stored job with one of these ids, and every one that holds one of these dedupe keys; each once, in no
    /// particular order. Asked before `apply`, for what memory does not hold: once a turn, and once more for keys of jobs
    /// that were found.
    ///
    /// # Errors
    /// As [`Journal::commit`].
    fn prior(
        &mut self,
        ids: &[JobId],
        keys: &[HeldKey],
    ) -> impl Future<Output = Result<Vec<Job>, Error>> + Send;

    /// Every stored workflow with one of these ids, with the ends of its members; each once. Asked before `apply`, for what
    /// memory does not hold; before [`Journal::prior`], since a workflow tells which jobs a command is about.
    ///
    /// # Errors
    /// As [`Journal::commit`].
    fn prior_workflows(
        &mut self,
        ids: &[WorkflowId],
    ) -> impl Future<Output = Result<Vec<Workflow>, Error>> + Send;

    /// Writes one turn in one transaction: epoch check, deletes, updates, inserts. OK means that it survives a crash.
    ///
    /// Of `beside` it takes what `changes` asks for, which is the payload of every inserted job whose `payload_size`
    /// is not zero, the bytes of every result and checkpoint put, the body of every new delivery and every end of a log; the
    /// rest (the payload of a deduplicated enqueue) is ignored.
    ///
    /// # Errors
    /// Any error, [`Error::is_ours`] or not, means: drop the state and take over from oneself. Nothing was written,
    /// but for [`Error::Unavailable`], after which nobody knows until the takeover has loaded.
    fn commit(
        &mut self,
        epoch: Epoch,
        changes: &Changes,
        beside: &Beside,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// Whether its leader may act as one without a commit: renew leases, and answer from memory. It is looked at before
    /// each turn, and again between the commit and what leaves after it. Without it, the leader takes over from itself.
    fn trust(&self) -> Trust {
        Trust::always()
    }

    /// Ends in order: waits until nothing is in flight, and gives the store free for the next process.
    fn close(self) -> impl Future<Output = ()> + Send;
}

/// What a takeover gives.
#[derive(Debug, Clone, PartialEq)]
pub struct Taken {
    /// The epoch in force from now on.
    pub epoch: Epoch,
    /// Everything that a leader loads.
    pub durable: Durable,
}

/// A dedupe key with what it is unique in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeldKey {
    /// Whose work.
    pub tenant: Tenant,
    /// Of which kind.
    pub kind: KindName,
    /// The key.
    pub key: DedupeKey,
}

/// Bytes that travel beside the changes of a turn. They never enter the scheduler.
#[derive(Debug, Clone, Default)]
pub struct Beside {
    /// Of enqueues, by job.
    pub payloads: BTreeMap<JobId, Payload>,
    /// Of finished reports, by job and token.
    pub results: BTreeMap<(JobId, FencingToken), ResultBytes>,
    /// Of reports that brought one, by job and token: the newest of the turn.
    pub checkpoints: BTreeMap<(JobId, FencingToken), Bytes>,
    /// Of finished reports, by job and token. Of all that is here only these are kept without being asked for by `changes`,
    /// unless their job is deleted in the same turn.
    pub log_tails: BTreeMap<(JobId, FencingToken), LogTail>,
    /// Of new deliveries: what is sent, byte for byte. Text without NUL. Deliveries that tell the same share it.
    pub bodies: BTreeMap<DeliveryId, Arc<str>>,
    /// Rows of the inbox that became jobs in this turn: they leave with it. Of a Postgres database alone: no other store
    /// has any.
    pub inbox: Vec<i64>,
}

/// The input of a job. Opaque to the server.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Payload {
    /// The bytes.
    pub data: Bytes,
    /// A media type, as the producer said; may be empty.
    pub content_type: String,
}

/// The output of one execution. Opaque to the server.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct ResultBytes {
    /// The bytes. Empty if they stand in object storage.
    pub data: Bytes,
    /// A media type, as the node said; may be empty.
    pub content_type: String,
    /// What stands in object storage instead, under the name that job, token and checksum make.
    pub object: Option<ResultObject>,
}

// Payloads and results may hold secrets, so that their text form tells their size only.
impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Payload({} bytes, {:?})", self.data.len(), self.content_type)
    }
}

impl std::fmt::Debug for ResultBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let size = self.object.map_or(self.data.len() as u64, |object| object.size);
        write!(f, "ResultBytes({size} bytes, {:?})", self.content_type)
    }
}

/// Why a journal could not do its work. Whatever it is, the driver drops its state and takes over from itself.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another leader took over: this one writes nothing any more. Nothing was written.
    #[error("epoch {epoch} was deposed")]
    Deposed {
        /// The epoch that is no longer in force.
        epoch: Epoch,
    },
    /// A later version of Tenure brought the schema up to date since the store was opened: this one leads no more.
    /// Nothing was written.
    #[error(
        "the database has schema {found} by now, this version knows {known} and older: start the later version"
    )]
    Newer {
        /// Of the database.
        found: u64,
        /// Of this version.
        known: u64,
    },
    /// The schema refused a row. A bug of ours. Nothing was written.
    #[error("constraint {name} refused a row of {statement}")]
    Constraint {
        /// The constraint, named after the fact that it states.
        name: String,
        /// The statement.
        statement: &'static str,
        /// What the database said.
        #[source]
        source: Cause,
    },
    /// The database refused a statement, or a value in it. A bug of ours. Nothing was written.
    #[error("the database refused {statement}")]
    Refused {
        /// The statement.
        statement: &'static str,
        /// What the database said.
        #[source]
        source: Cause,
    },
    /// Rows affected differ from rows sent. A bug of ours. Nothing was written.
    #[error("{statement} changed {affected} rows of {sent}")]
    RowsMismatch {
        /// The statement.
        statement: &'static str,
        /// How many rows it was sent.
        sent: u64,
        /// How many it changed.
        affected: u64,
    },
    /// The changes ask for bytes that do not travel beside. A bug of ours. Nothing was written.
    #[error("the {what} of job {job} does not travel beside")]
    NothingBeside {
        /// Payload, result or checkpoint.
        what: &'static str,
        /// Whose.
        job: JobId,
    },
    /// The changes ask for a body that does not travel beside. A bug of ours. Nothing was written.
    #[error("the body of delivery {delivery} does not travel beside")]
    NoBodyBeside {
        /// Whose.
        delivery: DeliveryId,
    },
    /// A stored row makes no sense, or a row to be stored cannot be. Nothing was written.
    #[error("a row is unreadable")]
    Unreadable(#[source] rows::Error),
    /// The store is away, full, or slow; or the journal was used after a failure without a takeover. The outcome of
    /// the commit is not known.
    #[error("the store is unavailable: {doing}")]
    Unavailable {
        /// What was being done.
        doing: &'static str,
        /// Why, if anybody knows.
        #[source]
        source: Option<Cause>,
    },
}

/// What the layer below said.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

impl Error {
    /// Whether the error is a bug of ours that the same commands would meet again: their callers are answered
    /// INTERNAL, and after the reload the first turn takes one command at a time.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        match self {
            Self::Constraint { .. }
            | Self::Refused { .. }
            | Self::RowsMismatch { .. }
            | Self::NothingBeside { .. }
            | Self::NoBodyBeside { .. }
            | Self::Unreadable(_) => true,
            Self::Deposed { .. } | Self::Newer { .. } | Self::Unavailable { .. } => false,
        }
    }
}

impl From<rows::Error> for Error {
    fn from(error: rows::Error) -> Self {
        Self::Unreadable(error)
    }
}
