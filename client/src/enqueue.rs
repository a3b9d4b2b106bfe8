//! Enqueueing, one job or many.
//!
//! Responsible for: batches that fit the wire, and one answer per job whatever happens to a part of them.
//! Invariant: no message is over 1 MiB or 1,000 jobs, unless a single job is.

use tenure_proto::limits;
use tenure_proto::v1::{
    EnqueueBatchItem, EnqueueBatchRequest, EnqueueRequest, EnqueueResponse, Job, enqueue_batch_item,
};

use crate::retry::rpc;
use crate::{Client, Error, NewJob, Refusal};

/// A job that is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Enqueued {
    /// The job; the first one if deduplicated.
    pub job: Job,
    /// A job with this dedupe key or id was there before this call; nothing was stored.
    pub deduplicated: bool,
}

impl Client {
    /// Enqueues a job. Once this returns well, the job survives a crash of the server.
    ///
    /// # Errors
    /// A refusal stores nothing. After [`Error::Unavailable`] the outcome is unknown: call again with the same value.
    pub async fn enqueue(&self, job: &NewJob) -> Result<Enqueued, Error> {
        let request = EnqueueRequest { job: Some(job.spec().clone()) };
        let answer = rpc!(self, jobs.enqueue, request).await?;
        enqueued(answer.value, job, answer.retried)
    }

    /// Enqueues many jobs, in as few messages as fit the wire. One answer per job, in their order: one bad job never
    /// sinks the others.
    ///
    /// If the server stays unavailable, every job of that message and of the messages after it gets that error; the
    /// same jobs may be sent again as they are.
    pub async fn enqueue_batch(&self, jobs: &[NewJob]) -> Vec<Result<Enqueued, Error>> {
        let mut answers = Vec::with_capacity(jobs.len());
        for chunk in chunks(jobs, limits::MESSAGE_BYTES) {
            match self.enqueue_chunk(chunk).await {
                Ok(items) => answers.extend(items),
                Err(error @ Error::Unavailable { .. }) => {
                    answers.resize(jobs.len(), Err(error));
                    break;
                }
                Err(error) => answers.extend(chunk.iter().map(|_| Err(error.clone()))),
            }
        }
        answers
    }

    async fn enqueue_chunk(&self, chunk: &[NewJob]) -> Result<Vec<Result<Enqueued, Error>>, Error> {
        let request = EnqueueBatchRequest { jobs: chunk.iter().map(|job| job.spec().clone()).collect() };
        let answer = rpc!(self, jobs.enqueue_batch, request).await?;
        if answer.value.items.len() != chunk.len() {
            return Err(Error::Answer { rpc: "enqueue_batch", missing: "answer for each of the jobs" });
        }
        let items = answer.value.items.into_iter().zip(chunk);
        Ok(items.map(|(item, job)| batch_answer(item, job, answer.retried)).collect())
    }
}

/// What became of one of several jobs.
pub(crate) fn batch_answer(item: EnqueueBatchItem, job: &NewJob, retried: bool) -> Result<Enqueued, Error> {
    match item.answer {
        Some(enqueue_batch_item::Answer::Enqueued(answer)) => enqueued(answer, job, retried),
        Some(enqueue_batch_item::Answer::Refused(status)) => {
            Err(Error::Refused(Box::new(Refusal::from_item(&status))))
        }
        None => Err(Error::Answer { rpc: "enqueue_batch", missing: "answer for one of the jobs" }),
    }
}

/// A call that was sent again may find the job that its own first try stored: to the caller that is no duplicate.
fn enqueued(answer: EnqueueResponse, sent: &NewJob, retried: bool) -> Result<Enqueued, Error> {
    let job = answer.job.ok_or(Error::Answer { rpc: "enqueue", missing: "job" })?;
    let own = retried && job.id == sent.id();
    Ok(Enqueued { deduplicated: answer.deduplicated && !own, job })
}

/// Cuts the jobs into runs that each fit one message of so many bytes.
pub(crate) fn chunks(jobs: &[NewJob], most: usize) -> impl Iterator<Item = &[NewJob]> {
    let mut rest = jobs;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = rest.iter().take(limits::BATCH_JOBS).take_while(|job| {
            bytes += job.size_in_batch();
            bytes <= most
        });
        // A job that is too large alone is sent alone: the server names its limit.
        let length = fits.count().max(1);
        let (chunk, tail) = rest.split_at_checked(length)?;
        rest = tail;
        Some(chunk)
    })
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    fn sizes(jobs: &[NewJob]) -> Vec<usize> {
        chunks(jobs, limits::MESSAGE_BYTES).map(<[NewJob]>::len).collect()
    }

    #[test]
    fn small_jobs_are_cut_by_count() {
        let jobs: Vec<NewJob> = (0..2_001).map(|_| NewJob::new("k")).collect();
        assert_eq!(sizes(&jobs), [1_000, 1_000, 1]);
        assert!(sizes(&[]).is_empty());
    }

    #[test]
    fn large_jobs_are_cut_by_the_exact_encoded_size() {
        let jobs: Vec<NewJob> = (0..9).map(|_| NewJob::new("k").payload(vec![7; 256 * 1024])).collect();
        for chunk in chunks(&jobs, limits::MESSAGE_BYTES) {
            let message = EnqueueBatchRequest { jobs: chunk.iter().map(|job| job.spec().clone()).collect() };
            assert_eq!(message.encoded_len(), chunk.iter().map(NewJob::size_in_batch).sum::<usize>());
            assert!(message.encoded_len() <= limits::MESSAGE_BYTES);
        }
        assert_eq!(sizes(&jobs), [3, 3, 3]);
    }

    #[test]
    fn a_job_over_the_limit_is_sent_alone() {
        let jobs = [
            NewJob::new("k"),
            NewJob::new("k").payload(vec![7; 2 * limits::MESSAGE_BYTES]),
            NewJob::new("k"),
        ];
        assert_eq!(sizes(&jobs), [1, 1, 1]);
    }

    #[test]
    fn the_echo_of_an_own_retry_is_no_duplicate() {
        let sent = NewJob::new("k");
        let answer = |id: &str| EnqueueResponse {
            job: Some(Job { id: id.to_owned(), ..Job::default() }),
            deduplicated: true,
        };
        assert!(!enqueued(answer(sent.id()), &sent, true).unwrap().deduplicated);
        assert!(enqueued(answer(sent.id()), &sent, false).unwrap().deduplicated);
        assert!(enqueued(answer("another"), &sent, true).unwrap().deduplicated);
    }
}
