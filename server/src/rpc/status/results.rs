//! What is said of results that stand in object storage.

use std::time::Duration;

use tenure_scheduler::NodeName;
use tonic::{Code, Status};

use super::No;
use crate::results::Full;

/// What a caller is told to wait while object storage is away, or takes in as much as it can.
const RETRY: Duration = Duration::from_secs(2);

impl No {
    /// The result of a job is larger than one message holds.
    pub(crate) fn result_not_inline(job: tenure_scheduler::JobId, size: u64) -> Self {
        let hint = "read it with ReadResult";
        let message =
            format!("the result of job {job} has {size} bytes, which one message does not hold: {hint}");
        Self::new(Code::FailedPrecondition, "RESULT_TOO_LARGE", message)
            .with("job", job.to_string())
            .with("size_bytes", size.to_string())
            .with("hint", hint)
    }

    /// A result is larger than what is taken.
    pub(crate) fn result_too_large(size: u64, limit: u64) -> Self {
        let hint = "store it elsewhere and return a reference";
        let message = format!("the result of {size} bytes is over the limit of {limit} bytes: {hint}");
        let mut no = Self::new(Code::InvalidArgument, "PAYLOAD_TOO_LARGE", message)
            .with("size_bytes", size.to_string())
            .with("limit_bytes", limit.to_string())
            .with("hint", hint);
        let problem = format!("is over the limit of {limit} bytes: {hint}");
        no.details.add_bad_request_violation("head.result.size", problem);
        no
    }

    /// This server has nowhere to put, or to find, a result over the inline limit.
    pub(crate) fn no_result_storage() -> Self {
        let message = "this server has no object storage: its [results] names none";
        Self::new(Code::FailedPrecondition, "NO_RESULT_STORAGE", message)
    }

    /// Object storage does not answer.
    pub(crate) fn result_storage_away() -> Self {
        let message = "object storage does not answer";
        Self::new(Code::Unavailable, "RESULT_STORAGE_UNAVAILABLE", message).retry(RETRY)
    }

    /// As many results are on their way as may be, or as many of this node's. `way`: which way, for people.
    pub(crate) fn no_place(way: &str, node: &NodeName, full: Full) -> Self {
        let Full { held, all } = full;
        let message = if held == 0 {
            format!("{all} results are being {way} for other nodes, as many as may be at once")
        } else {
            format!(
                "{held} results of {node} are being {way}, its share of {all} at once; the rest is for other nodes"
            )
        };
        Self::new(Code::Unavailable, "SERVER_BUSY", message)
            .with("held", held.to_string())
            .with("limit", all.to_string())
            .retry(RETRY)
    }

    /// Object storage has lost bytes that a row names.
    pub(crate) fn result_damaged(missing: u64) -> Self {
        let message = "object storage has lost the result, or a part of it";
        Self::new(Code::DataLoss, "RESULT_LOST", message).with("missing_bytes", missing.to_string())
    }

    /// The next message of a stream did not come.
    pub(crate) fn too_slow(waited: Duration) -> Self {
        let message = format!("nothing came for {} s", waited.as_secs());
        Self::new(Code::DeadlineExceeded, "REQUEST_TOO_SLOW", message)
            .with("waited_s", waited.as_secs().to_string())
    }

    /// Bytes of a stream come, or are taken, but too slowly.
    pub(crate) fn too_few(passed: u64, within: Duration) -> Self {
        let message = format!("no more than {passed} bytes passed within {} s", within.as_secs());
        Self::new(Code::DeadlineExceeded, "REQUEST_TOO_SLOW", message)
            .with("bytes", passed.to_string())
            .with("within_s", within.as_secs().to_string())
    }

    /// A stream of a caller ended before its end. Usually nobody hears it.
    pub(crate) fn stream_broke(status: &Status) -> Self {
        if status.code() == Code::OutOfRange {
            return Self::invalid_field("data", "is in a message over the limit of 4 MiB");
        }
        Self::new(Code::Cancelled, "REQUEST_CUT", "the stream broke before its end")
    }

    /// Whether it is no fault of the caller's.
    pub(crate) fn is_fault(&self) -> bool {
        matches!(
            self.code,
            Code::Unavailable | Code::Internal | Code::DataLoss | Code::Cancelled | Code::DeadlineExceeded
        )
    }
}
