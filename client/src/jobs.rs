//! Everything about single jobs after their enqueue.

use std::time::Duration;

use tenure_proto::v1::{
    Attempt, CancelJobRequest, CancelJobResponse, DeleteJobRequest, ExplainJobRequest, ExplainJobResponse,
    GetJobRequest, GetResultRequest, Job, ListAttemptsRequest, ListJobsRequest, ReprioritizeJobRequest,
    ReprioritizeJobResponse, RequeueJobRequest, RequeueJobResponse, WaitJobRequest,
};

use crate::retry::rpc;
use crate::{Client, Error, clock, proto, wire};

/// One long poll of `wait`. The server takes up to 10 minutes; shorter polls notice a dead connection sooner.
const WAIT_POLL: Duration = Duration::from_secs(60);
/// Attempts asked for at once.
const ATTEMPTS_PAGE: i32 = 1_000;

/// What became of a wait.
#[derive(Clone, Debug, PartialEq)]
pub struct Waited {
    /// The job as it stood at the end of the wait.
    pub job: Job,
    /// Whether it is final. False: the wait ran out.
    pub done: bool,
}

/// The pages of a list of jobs, newest first.
#[derive(Debug)]
pub struct Jobs<'a> {
    client: &'a Client,
    request: ListJobsRequest,
    page: std::vec::IntoIter<Job>,
    at_end: bool,
}

impl Jobs<'_> {
    /// The next job, or none at the end. After an error the same call goes on where it stood.
    ///
    /// # Errors
    /// What the call for the next page meets.
    pub async fn next(&mut self) -> Result<Option<Job>, Error> {
        loop {
            if let Some(job) = self.page.next() {
                return Ok(Some(job));
            }
            if self.at_end {
                return Ok(None);
            }
            let answer = rpc!(self.client, jobs.list_jobs, self.request.clone()).await?.value;
            self.at_end = answer.next_page_token.is_empty();
            self.request.page_token = answer.next_page_token;
            self.page = answer.jobs.into_iter();
        }
    }

    /// The jobs that are left, at most `limit`.
    ///
    /// # Errors
    /// What the call for a page meets.
    pub async fn take(mut self, limit: usize) -> Result<Vec<Job>, Error> {
        let mut jobs = Vec::new();
        while jobs.len() < limit {
            match self.next().await? {
                Some(job) => jobs.push(job),
                None => break,
            }
        }
        Ok(jobs)
    }
}

impl Client {
    /// One job, with its live deferral.
    ///
    /// # Errors
    /// JOB_NOT_FOUND.
    pub async fn get(&self, job_id: &str) -> Result<Job, Error> {
        let request = GetJobRequest { job_id: job_id.to_owned() };
        let answer = rpc!(self, jobs.get_job, request).await?.value;
        answer.job.ok_or(Error::Answer { rpc: "get_job", missing: "job" })
    }

    /// Jobs by filter, newest first, page by page. `page_size` and `page_token` of the request are respected.
    pub fn list(&self, filter: ListJobsRequest) -> Jobs<'_> {
        Jobs { client: self, request: filter, page: Vec::new().into_iter(), at_end: false }
    }

    /// Waits until the job is final, at most for `timeout`; without one, for as long as it takes.
    ///
    /// Goes on through a restart of the server, as far as the retry policy reaches.
    ///
    /// # Errors
    /// JOB_NOT_FOUND, also if the job is deleted meanwhile.
    pub async fn wait(&self, job_id: &str, timeout: Option<Duration>) -> Result<Waited, Error> {
        let deadline = timeout.map(clock::after);
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(clock::now()));
            let poll = left.map_or(WAIT_POLL, |left| left.min(WAIT_POLL));
            let request = WaitJobRequest { job_id: job_id.to_owned(), timeout: Some(wire::duration(poll)) };
            let answer = rpc!(self, jobs.wait_job, request, poll).await?.value;
            let job = answer.job.ok_or(Error::Answer { rpc: "wait_job", missing: "job" })?;
            if answer.done || deadline.is_some_and(|deadline| clock::now() >= deadline) {
                return Ok(Waited { job, done: answer.done });
            }
        }
    }

    /// Why a job does not run yet, as data.
    ///
    /// # Errors
    /// JOB_NOT_FOUND.
    pub async fn explain(&self, job_id: &str) -> Result<ExplainJobResponse, Error> {
        let request = ExplainJobRequest { job_id: job_id.to_owned() };
        Ok(rpc!(self, jobs.explain_job, request).await?.value)
    }

    /// Asks for the end of a job. `reason` may be empty; it is kept with the job.
    ///
    /// # Errors
    /// JOB_NOT_FOUND; FAILED_PRECONDITION if the job ended otherwise.
    pub async fn cancel(&self, job_id: &str, reason: &str) -> Result<CancelJobResponse, Error> {
        let request = CancelJobRequest { job_id: job_id.to_owned(), reason: reason.to_owned() };
        Ok(rpc!(self, jobs.cancel_job, request).await?.value)
    }

    /// Takes a dead or cancelled job back to its queue. `force` also frees one whose last processes are not known to be
    /// gone.
    ///
    /// # Errors
    /// JOB_NOT_FOUND; a refusal if the kind is gone.
    pub async fn requeue(&self, job_id: &str, force: bool) -> Result<RequeueJobResponse, Error> {
        let request = RequeueJobRequest { job_id: job_id.to_owned(), force };
        Ok(rpc!(self, jobs.requeue_job, request).await?.value)
    }

    /// Changes the priority of a job that is not final.
    ///
    /// # Errors
    /// JOB_NOT_FOUND; FAILED_PRECONDITION if it is final.
    pub async fn reprioritize(&self, job_id: &str, priority: i32) -> Result<ReprioritizeJobResponse, Error> {
        let request = ReprioritizeJobRequest { job_id: job_id.to_owned(), priority };
        Ok(rpc!(self, jobs.reprioritize_job, request).await?.value)
    }

    /// Removes a final job with its payload, attempts and result; returns it as it stood. With `validate_only` nothing
    /// changes.
    ///
    /// # Errors
    /// JOB_NOT_FOUND, also when a first try, whose answer was lost, removed it; FAILED_PRECONDITION if it is not final.
    pub async fn delete(&self, job_id: &str, validate_only: bool) -> Result<Job, Error> {
        let request = DeleteJobRequest { job_id: job_id.to_owned(), validate_only };
        let answer = rpc!(self, jobs.delete_job, request).await?.value;
        answer.job.ok_or(Error::Answer { rpc: "delete_job", missing: "job" })
    }

    /// The result of a succeeded job. [`Client::read_result`] has those of any size.
    ///
    /// # Errors
    /// NOT_FOUND if there is none, or not any more; RESULT_TOO_LARGE above 256 KiB.
    pub async fn result(&self, job_id: &str) -> Result<proto::Result, Error> {
        let request = GetResultRequest { job_id: job_id.to_owned() };
        let answer = rpc!(self, jobs.get_result, request).await?.value;
        answer.result.ok_or(Error::Answer { rpc: "get_result", missing: "result" })
    }

    /// Every ended execution of a job, oldest first.
    ///
    /// # Errors
    /// JOB_NOT_FOUND.
    pub async fn attempts(&self, job_id: &str) -> Result<Vec<Attempt>, Error> {
        let mut request = ListAttemptsRequest {
            job_id: job_id.to_owned(),
            page_size: ATTEMPTS_PAGE,
            page_token: String::new(),
        };
        let mut attempts = Vec::new();
        loop {
            let answer = rpc!(self, jobs.list_attempts, request.clone()).await?.value;
            attempts.extend(answer.attempts);
            if answer.next_page_token.is_empty() {
                return Ok(attempts);
            }
            request.page_token = answer.next_page_token;
        }
    }
}
