//! Ways to say no to who reads or sends a log.

use tenure_scheduler::JobId;
use tonic::Code;

use super::No;

impl No {
    /// No execution of the job is one that was asked for. `why` ends a sentence about the job.
    pub(crate) fn log_not_found(job: JobId, why: &str) -> Self {
        Self::new(Code::NotFound, "LOG_NOT_FOUND", format!("job {job} has no such log: {why}"))
            .with("job", job.to_string())
            .with("why", why)
            .resource("log", job.to_string(), "A log exists once an execution of its job has started.")
    }

    /// What runs prints, and cannot be read. `why` ends a sentence about it.
    pub(crate) fn log_unavailable(job: JobId, why: &str) -> Self {
        let message = format!("what job {job} prints cannot be read now: {why}");
        Self::new(Code::FailedPrecondition, "LOG_UNAVAILABLE", message)
            .with("job", job.to_string())
            .with("why", why)
            .precondition(format!("job/{job}"))
    }

    /// A node opens a log that nobody waits for.
    pub(crate) fn log_unwanted() -> Self {
        Self::new(Code::FailedPrecondition, "LOG_UNWANTED", "nobody reads that log, or no longer")
    }
}
