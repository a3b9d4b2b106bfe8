//! One turn in the order in which it is written: deletes, then updates, then inserts. Shared by all stores.
//!
//! Unique indexes are checked row by row, so the rows that free something are written before those that may take it.

use bytes::Bytes;
use tenure_scheduler::{
    Changes, CheckpointPut, Delivery, FencingToken, Job, JobChange, JobId, Lease, ResultPut,
};

use crate::{Beside, LogTail, Payload, ResultBytes, journal::Error};

/// What a commit writes. The other rows are written as they stand in `changes`.
pub(crate) struct Turn<'a> {
    /// The rest of the turn.
    pub(crate) changes: &'a Changes,
    /// Jobs to remove.
    pub(crate) deleted: Vec<JobId>,
    /// Changed jobs that hold no dedupe key afterwards, with the token that their row has. Written in a statement of
    /// their own, before the others: a database may take the rows of an update in any order.
    pub(crate) updated_free: Vec<(FencingToken, &'a Job)>,
    /// Changed jobs that hold a dedupe key afterwards, with the token that their row has.
    pub(crate) updated_held: Vec<(FencingToken, &'a Job)>,
    /// New jobs.
    pub(crate) inserted: Vec<&'a Job>,
    /// Of the new jobs.
    pub(crate) payloads: Vec<(JobId, &'a Payload)>,
    /// New and changed leases; those that are over first.
    pub(crate) leases: Vec<&'a Lease>,
    /// New results.
    pub(crate) results: Vec<(&'a ResultPut, &'a ResultBytes)>,
    /// New checkpoints, each instead of the one that its job had.
    pub(crate) checkpoints: Vec<(&'a CheckpointPut, &'a Bytes)>,
    /// Ends of logs, each instead of the one that its execution had.
    pub(crate) log_tails: Vec<(JobId, FencingToken, &'a LogTail)>,
    /// New deliveries.
    pub(crate) deliveries: Vec<(&'a Delivery, &'a str)>,
    /// Rows of the inbox to remove.
    pub(crate) inbox: &'a [i64],
}

impl<'a> Turn<'a> {
    /// Sorts a turn.
    ///
    /// # Errors
    /// If bytes that it asks for do not travel beside.
    pub(crate) fn new(changes: &'a Changes, beside: &'a Beside) -> Result<Self, Error> {
        let (mut deleted, mut inserted) = (Vec::new(), Vec::new());
        let (mut updated_free, mut updated_held) = (Vec::new(), Vec::new());
        for change in &changes.jobs {
            match change {
                JobChange::Insert(job) => inserted.push(&**job),
                JobChange::Update { previous, job } if job.dedupe_held => {
                    updated_held.push((*previous, &**job))
                }
                JobChange::Update { previous, job } => updated_free.push((*previous, &**job)),
                JobChange::Delete(id) => deleted.push(*id),
            }
        }
        let mut leases: Vec<&Lease> = changes.leases_put.iter().collect();
        leases.sort_by_key(|lease| lease.stage.is_live());

        let mut payloads = Vec::new();
        for job in inserted.iter().filter(|job| job.payload_size > 0) {
            let missing = Error::NothingBeside { what: "payload", job: job.id };
            payloads.push((job.id, beside.payloads.get(&job.id).ok_or(missing)?));
        }
        let mut results = Vec::new();
        for put in &changes.results_put {
            let missing = Error::NothingBeside { what: "result", job: put.job };
            results.push((put, beside.results.get(&(put.job, put.token)).ok_or(missing)?));
        }
        let mut checkpoints = Vec::new();
        for put in &changes.checkpoints_put {
            let missing = Error::NothingBeside { what: "checkpoint", job: put.job };
            checkpoints.push((put, beside.checkpoints.get(&(put.job, put.token)).ok_or(missing)?));
        }
        let log_tails = beside.log_tails.iter().filter(|((job, _), _)| !deleted.contains(job));
        let log_tails = log_tails.map(|(&(job, token), tail)| (job, token, tail)).collect();
        let mut deliveries = Vec::new();
        for delivery in changes.deliveries_new.iter().map(|new| &new.delivery) {
            let missing = Error::NoBodyBeside { delivery: delivery.id };
            deliveries.push((delivery, &**beside.bodies.get(&delivery.id).ok_or(missing)?));
        }
        Ok(Self {
            changes,
            deleted,
            updated_free,
            updated_held,
            inserted,
            payloads,
            leases,
            results,
            checkpoints,
            log_tails,
            deliveries,
            inbox: &beside.inbox,
        })
    }
}

/// The length of something that is sent, as a count of rows.
pub(crate) fn count<T>(rows: &[T]) -> u64 {
    u64::try_from(rows.len()).unwrap_or(u64::MAX)
}

/// A statement of a commit is sent. Tests count them.
#[cfg(not(test))]
pub(crate) fn sent(_: &'static str) {}
#[cfg(test)]
pub(crate) use self::tests::sent;

/// Rows affected must equal rows sent.
///
/// # Errors
/// If they do not.
pub(crate) fn expect(statement: &'static str, sent: u64, affected: u64) -> Result<(), Error> {
    if sent == affected { Ok(()) } else { Err(Error::RowsMismatch { statement, sent, affected }) }
}

#[cfg(test)]
pub(crate) mod tests;
