//! Following one job through its changes, and through restarts of the server.
//!
//! Invariant: what is told has a version above everything told before, and a final state is told exactly once, last.

use std::time::Duration;

use tenure_proto::v1::{Job, JobState, WatchJobRequest, WatchJobResponse};
use tokio::time::Instant;
use tonic::Streaming;

use crate::retry::{random, rpc};
use crate::{Client, Error, Refusal, clock};

/// The changes of one job. Made by [`Client::watch`].
///
/// ```no_run
/// # async fn example(client: &tenure_client::Client) -> Result<(), tenure_client::Error> {
/// let mut watch = client.watch("0199a5b2-7c00-7000-8000-000000000000");
/// while let Some(job) = watch.next().await? {
///     println!("{} {:?}", job.version, job.state());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Watch {
    client: Client,
    job_id: String,
    stream: Option<Streaming<WatchJobResponse>>,
    /// The place of the server that it is of.
    server: usize,
    /// The highest version that was told.
    told: Option<u64>,
    at_end: bool,
    broken: Option<Broken>,
}

/// Since the stream last said anything.
#[derive(Debug)]
struct Broken {
    since: Instant,
    times: u32,
}

impl Client {
    /// Follows a job: as it stands, then after each change, until it is final.
    ///
    /// Level-triggered: each item is the whole job, and whoever reads slowly skips states in between, never the last.
    pub fn watch(&self, job_id: impl Into<String>) -> Watch {
        Watch {
            client: self.clone(),
            job_id: job_id.into(),
            stream: None,
            server: 0,
            told: None,
            at_end: false,
            broken: None,
        }
    }
}

impl Watch {
    /// The job after its next change; none after its final state. Waits for as long as nothing changes.
    ///
    /// Goes on through a restart of the server and a change of the leader, as far as the retry policy reaches. Cancel-safe: a call that is dropped
    /// loses nothing, and after an error the same call goes on where it stood.
    ///
    /// # Errors
    /// JOB_NOT_FOUND, also if the job is deleted meanwhile; NOT_ALLOWED once the caller is denied; TOO_MANY_WATCHES.
    pub async fn next(&mut self) -> Result<Option<Job>, Error> {
        while !self.at_end {
            let message = self.stream().await?.message().await;
            match message {
                Ok(Some(WatchJobResponse { job: Some(job) })) => {
                    self.broken = None;
                    if self.told.is_none_or(|told| told < job.version) {
                        self.told = Some(job.version);
                        self.at_end = is_final(job.state());
                        return Ok(Some(job));
                    }
                }
                Ok(Some(WatchJobResponse { job: None })) => {
                    return Err(Error::Answer { rpc: "watch_job", missing: "job" });
                }
                Ok(None) => {
                    self.stream = None;
                    return Err(Error::Answer { rpc: "watch_job", missing: "final state" });
                }
                Err(status) => {
                    self.stream = None;
                    let refusal = Refusal::from_status(&status);
                    if !refusal.is_unavailable() {
                        return Err(Error::Refused(Box::new(refusal)));
                    }
                    self.client.servers.move_on(self.server);
                    self.pause(refusal).await?;
                }
            }
        }
        Ok(None)
    }

    async fn stream(&mut self) -> Result<&mut Streaming<WatchJobResponse>, Error> {
        let stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let request = WatchJobRequest { job_id: self.job_id.clone() };
                let opened = rpc!(self.client, jobs.watch_job, request).await?;
                self.server = opened.server;
                opened.value
            }
        };
        Ok(self.stream.insert(stream))
    }

    /// Waits before the stream is opened anew. The opening has retries of its own: these are for streams that open and
    /// break without a word.
    async fn pause(&mut self, last: Refusal) -> Result<(), Error> {
        let policy = self.client.options.retry.clone();
        let broken = self.broken.get_or_insert_with(|| Broken { since: clock::now(), times: 0 });
        broken.times += 1;
        let waited = clock::now().saturating_duration_since(broken.since);
        let backoff = policy.backoff(broken.times, last.retry_after, random());
        if policy.give_up_after == Duration::ZERO || waited + backoff >= policy.give_up_after {
            let (endpoint, tries) = (self.client.endpoint.clone(), broken.times);
            self.broken = None;
            return Err(Error::Unavailable { endpoint, tries, waited, last: Box::new(last) });
        }
        tracing::debug!(job.id = self.job_id, error = %last, "the watch broke, opening it anew");
        tokio::time::sleep(backoff).await;
        Ok(())
    }
}

/// Whether a job in this state changes no more, but for a requeue.
fn is_final(state: JobState) -> bool {
    match state {
        JobState::Succeeded | JobState::Dead | JobState::Cancelled | JobState::Expired => true,
        JobState::Unspecified
        | JobState::Scheduled
        | JobState::Blocked
        | JobState::Queued
        | JobState::Running
        | JobState::Waiting => false,
    }
}
