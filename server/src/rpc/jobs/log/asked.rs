//! What somebody wants to read of a log.

use tenure_proto::v1::{self, LogPlace, LogStream};
use tenure_scheduler::{FencingToken, JobId};

use crate::rpc::{check::Checks, status::No};

/// The most last lines.
const MOST_LINES: u32 = 100_000;

/// A request within its bounds.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) job: JobId,
    /// The execution to begin with; none: the newest.
    pub(super) token: Option<FencingToken>,
    /// Only executions of this attempt.
    pub(super) attempt: Option<u32>,
    pub(super) follow: bool,
    /// Unspecified: both.
    pub(super) stream: LogStream,
    pub(super) place: Option<LogPlace>,
    pub(super) tail_lines: Option<u32>,
}

impl Asked {
    /// # Errors
    /// Everything that is wrong with the request.
    pub(super) fn of(request: &v1::ReadLogRequest) -> Result<Self, No> {
        let mut checks = Checks::default();
        let job = checks.job_id("job_id", &request.job_id);
        if i64::try_from(request.token).is_err() {
            checks.refuse("token", "is no token");
        }
        if request.attempt == Some(0) {
            checks.refuse("attempt", "counts from 1");
        }
        if request.tail_lines.is_some_and(|lines| lines > MOST_LINES) {
            checks.refuse("tail_lines", format!("must be 0 to {MOST_LINES}"));
        }
        let stream = checks.choice("stream", request.stream);
        checks.finish()?;
        Ok(Self {
            job: job.ok_or_else(|| No::invalid_field("job_id", "is required"))?,
            token: (request.token > 0).then_some(FencingToken(request.token)),
            attempt: request.attempt,
            follow: request.follow,
            stream,
            place: request.place,
            tail_lines: request.tail_lines,
        })
    }

    /// Whether a stream is wanted.
    pub(super) fn wants(&self, stream: LogStream) -> bool {
        self.stream == LogStream::Unspecified || self.stream == stream
    }
}
