//! Work that is done once for a key: whoever asks first has it done, and everybody who asks gets its answer.
//!
//! Responsible for what a key is worth beyond deduplication: that the answer is that of the same question, and that it is
//! waited for and read. Not responsible for the claim itself, which is the server's: `dedupe_key` is unique in its tenant and
//! kind, and the job that holds it is the claim, the run and the kept answer.
//!
//! Invariant: an answer is never that of another payload. The job carries a digest of what was asked as a label, so that
//! nobody has to remember it, and an older job without one is never taken for it.

use std::time::Duration;

use bytes::Bytes;
use ring::digest::{Context, SHA256};
use tenure_proto::limits;
use tenure_proto::v1::{Job, JobState};
use tonic::Code;

use crate::retry::random;
use crate::{Client, Error, NewJob};

/// The label that holds the digest of what was asked.
pub const ONCE_LABEL: &str = "once";

/// The largest answer that [`Client::once`] returns, in bytes: it is held in memory. [`Client::read_result`] has larger ones.
pub const ONCE_MOST_BYTES: u64 = limits::RESULT_BYTES;

/// Reads of one answer that may break in the midst before that is told to the caller.
const BREAKS: u32 = 5;

/// Of the digest, in hexadecimal digits.
const DIGITS: usize = 32;

/// The answer to work that is done once.
#[derive(Clone, Debug, PartialEq)]
pub struct Once {
    /// The job that did it.
    pub job: Job,
    /// What it left; empty if it left nothing.
    pub data: Bytes,
    /// The media type of that; empty if it left nothing.
    pub content_type: String,
    /// It was asked to wrap up before it was done.
    pub partial: bool,
    /// The job was there before this call: its answer was kept, or is the end of what had been begun. That may have been an earlier
    /// call of one's own; a try of this very call whose answer was lost does not count.
    pub replayed: bool,
}

/// What a job left.
#[derive(Default)]
struct Left {
    data: Bytes,
    content_type: String,
    partial: bool,
}

/// Why there is no answer.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OnceError {
    /// The job has no dedupe key: nothing could be asked again. Nothing was sent.
    #[error("the job has no dedupe key")]
    NoKey,
    /// The job has a label [`ONCE_LABEL`] of its own, which this call would overwrite. Nothing was sent.
    #[error("the label \"once\" is not for the caller to set: the digest of what is asked stands in it")]
    OwnLabel,
    /// The key stands for another payload. Nothing was stored, and nothing runs. The caller has a fault, or takes another key.
    #[error("key {key:?} was used with another payload, by job {job_id}")]
    OtherPayload {
        /// The key.
        key: String,
        /// The job that holds it.
        job_id: String,
    },
    /// The key is held by a job of another producer, of which nothing is shown.
    #[error("key {key:?} is held by a job of another producer")]
    NotYours {
        /// The key.
        key: String,
    },
    /// It ended otherwise than well, and everybody who asks hears that: its `reason` says why. The way out is
    /// [`Client::requeue`], after which the same call waits for the new round; or [`Client::delete`], after which it is done
    /// anew.
    #[error("job {} ended {}: {}", job.id, job.state().as_str_name(), job.reason)]
    Ended {
        /// The job as it stands.
        job: Box<Job>,
    },
    /// The wait ran out first. The work goes on, and the same call waits for it again.
    #[error("job {} is not done", job.id)]
    NotDone {
        /// The job as it stood.
        job: Box<Job>,
    },
    /// It was done, and its answer is larger than [`ONCE_MOST_BYTES`]: [`Client::read_result`] has it.
    #[error("the answer of job {} has {size} bytes: read_result has it", job.id)]
    TooLarge {
        /// The job.
        job: Box<Job>,
        /// The size of its answer in bytes.
        size: u64,
    },
    /// It was done before this call, and its answer is not kept any more (`result_ttl` of its kind). Also of a job that may have
    /// left none, if it ended under a server that did not note that: an empty answer is not made up.
    #[error("the answer of job {} is not kept any more, if it left one", job.id)]
    Forgotten {
        /// The job.
        job: Box<Job>,
    },
    /// What every call may meet.
    #[error(transparent)]
    Call(#[from] Error),
}

impl Client {
    /// Has a job done once for its dedupe key, and returns its answer: that of the run that this call begins, of the one that
    /// another caller has begun, or the one that is kept. Callers at the same time, later ones, and one that was killed and
    /// asks again get the same answer of one job.
    ///
    /// For the receiver of a webhook that is delivered again until it answers, and for an effect that a job must have once: as a
    /// job of its own, whose key the job derives from its own idempotency key. An execution may still be repeated when its node
    /// dies in it; what is recorded, and returned here, is one.
    ///
    /// The job gets one label more, [`ONCE_LABEL`]; it may have 31 of its own.
    ///
    /// The key answers for as long as the job is kept (`retention` of its kind), and its answer for the kind's `result_ttl`. A kind
    /// with `dedupe = "live"` lets go of a key when its job has ended: there the same call later is another run. `timeout` is for
    /// the wait; without one it takes as long as it takes.
    ///
    /// # Errors
    /// See [`OnceError`]: another payload under the key is refused, and a run that ended otherwise than well is told to all.
    pub async fn once(&self, job: &NewJob, timeout: Option<Duration>) -> Result<Once, OnceError> {
        let key = job.key().to_owned();
        if key.is_empty() {
            return Err(OnceError::NoKey);
        }
        if job.spec().labels.contains_key(ONCE_LABEL) {
            return Err(OnceError::OwnLabel);
        }
        let asked = digest(job);
        let enqueued = self.enqueue(&job.clone().label(ONCE_LABEL, asked.as_str())).await?;
        let id = enqueued.job.id.clone();
        // A try of this very call that was answered late is not what others asked before.
        let ended_before = enqueued.deduplicated && enqueued.job.state() == JobState::Succeeded;
        if enqueued.deduplicated {
            // Of another producer's job the server tells the id alone.
            if enqueued.job.kind.is_empty() {
                return Err(OnceError::NotYours { key });
            }
            if enqueued.job.labels.get(ONCE_LABEL) != Some(&asked) {
                return Err(OnceError::OtherPayload { key, job_id: id });
            }
        }
        let waited = self.wait(&id, timeout).await?;
        let done = Box::new(waited.job);
        if !waited.done {
            return Err(OnceError::NotDone { job: done });
        }
        if done.state() != JobState::Succeeded {
            return Err(OnceError::Ended { job: done });
        }
        let left = match self.left(&done).await {
            // It left nothing, or what it left is gone.
            Err(OnceError::Call(Error::Refused(no))) if no.reason == "RESULT_NOT_FOUND" => {
                let is = |what| no.metadata.get(what).is_some_and(|is| is == "true");
                // Where nobody noted whether it left one, the server judges by the `result_ttl` of today: of a job that had
                // ended before, it may have been shorter.
                if is("expired") || (ended_before && !is("left_nothing")) {
                    return Err(OnceError::Forgotten { job: done });
                }
                Left::default()
            }
            left => left?,
        };
        let Left { data, content_type, partial } = left;
        Ok(Once { job: *done, data, content_type, partial, replayed: enqueued.deduplicated })
    }

    /// What a job left, whatever its size. Read again if the connection breaks in the midst of it.
    async fn left(&self, job: &Job) -> Result<Left, OnceError> {
        let mut breaks = 0;
        loop {
            match self.read_left(job).await {
                Err(OnceError::Call(Error::Refused(no))) if no.is_unavailable() && breaks < BREAKS => {
                    breaks += 1;
                    let policy = &self.options.retry;
                    tokio::time::sleep(policy.backoff(breaks, no.retry_after, random())).await;
                }
                left => return left,
            }
        }
    }

    async fn read_left(&self, job: &Job) -> Result<Left, OnceError> {
        let stream = match self.read_result(&job.id).await {
            // An older server: it has no results that `GetResult` would refuse.
            Err(Error::Refused(no)) if no.code == Code::Unimplemented => {
                let result = self.result(&job.id).await?;
                let (content_type, partial) = (result.content_type, result.partial);
                return Ok(Left { data: result.data, content_type, partial });
            }
            stream => stream?,
        };
        let head = stream.head().clone();
        if head.size > ONCE_MOST_BYTES {
            return Err(OnceError::TooLarge { job: Box::new(job.clone()), size: head.size });
        }
        let data = stream.collect().await?.into();
        Ok(Left { data, content_type: head.content_type, partial: head.partial })
    }
}

/// What is asked: payload and media type. Each goes in with its length, so that no two give the same bytes.
fn digest(job: &NewJob) -> String {
    let (data, content_type) = job.asked();
    // What the server takes it for.
    let content_type = if content_type.is_empty() { "application/octet-stream" } else { content_type };
    let mut context = Context::new(&SHA256);
    for part in [data, content_type.as_bytes()] {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    let hex = context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    hex.chars().take(DIGITS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_of_payload_and_media_type_and_of_nothing_else() {
        let job = || NewJob::new("charge").payload("5 EUR");
        assert_eq!(digest(&job()), digest(&job().priority(3).dedupe_key("a")));
        assert_eq!(digest(&job()), digest(&job().content_type("application/octet-stream")));
        let others = [
            NewJob::new("charge").payload("6 EUR"),
            NewJob::new("charge"),
            job().content_type("text/plain"),
            NewJob::new("charge").payload("5 EURt").content_type("ext/plain"),
        ];
        for other in &others {
            assert_ne!(digest(&job()), digest(other), "{other:?}");
        }
        // The same in Python: `tests/test_once.py`.
        let json = NewJob::new("charge").payload("{\"amount\":5}").content_type("application/json");
        assert_eq!(digest(&json), "b56ecf0fe7a0b323f5bdf0772e2fe9d8");
    }
}
