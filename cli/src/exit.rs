//! How a command ends: its exit code, and every way in which it fails.
//!
//! Invariant: the codes are a promise to scripts (`tenure help` lists them); a code never changes its meaning.

use std::error::Error as StdError;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use tenure_client::Refusal;
use tonic::Code;

/// The exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Done, or was so already.
    Ok = 0,
    /// Failed: also a refusal that waiting does not cure, and a waited-for job that did not succeed.
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// What was named does not exist.
    NotFound = 3,
    /// A field, a file or a setting is wrong.
    BadInput = 64,
    /// No server answers, or none is ready.
    Unavailable = 69,
    /// Refused for now; `retry_after` is printed.
    RefusedForNow = 75,
    /// The caller may not do this.
    NotAllowed = 77,
    /// A job that wants to wait may not stay: it leaves its state and ends.
    MustDetach = 79,
    /// A wait ran out.
    WaitRanOut = 124,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// What the client met.
    #[error(transparent)]
    Client(#[from] tenure_client::Error),
    /// An argument is well formed but makes no sense.
    #[error("{0}")]
    Usage(String),
    /// Something was named that does not exist, and the server was not the one to say so.
    #[error("{noun} {name:?} does not exist")]
    Unknown {
        /// kind, slot, node.
        noun: &'static str,
        /// As it was given.
        name: String,
        /// What does exist.
        known: Vec<String>,
    },
    /// Neither an id nor a part of one.
    #[error(
        "{text:?} is no id, nor the beginning or end of one: that is 4 characters or more of 0-9, a-f and hyphens"
    )]
    NoId {
        /// As it was given.
        text: String,
    },
    /// A part of an id that several jobs have.
    #[error("{part:?} is the beginning or end of several ids")]
    Ambiguous {
        /// As it was given.
        part: String,
        /// Some of the jobs, each with its kind and state.
        candidates: Vec<String>,
        /// There are further ones.
        more: bool,
    },
    /// A write to a protected context that the command line does not name.
    #[error("context {context} is protected: a write has to name it")]
    Protected {
        /// Its name.
        context: String,
    },
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Stdout cannot be written.
    #[error("cannot write the output")]
    Output(#[source] io::Error),
    /// An answer cannot be shown as JSON: the descriptor set of this build and its messages disagree.
    #[error("cannot encode the answer as JSON")]
    Json(#[source] Box<dyn StdError + Send + Sync>),
    /// The person said no.
    #[error("nothing was changed")]
    Declined,
    /// A configuration cannot be used.
    #[error("the {what} cannot be used")]
    Config {
        /// Which one.
        what: String,
        /// File, line and key.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// A part that runs in this process did not start, or ended.
    #[error("{what}")]
    Component {
        /// Which part did what.
        what: &'static str,
        /// Why.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// Several calls of one command failed; each was told on stderr already.
    #[error("{failed} of {all} failed")]
    Some {
        /// How many.
        failed: usize,
        /// Of how many.
        all: usize,
        /// The code of the first.
        exit: Exit,
    },
}

impl Failure {
    /// The exit code.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Client(error) => of_client(error),
            Self::Usage(_) | Self::Protected { .. } => Exit::Usage,
            Self::Unknown { .. } => Exit::NotFound,
            Self::Read { .. } | Self::Config { .. } | Self::Ambiguous { .. } | Self::NoId { .. } => {
                Exit::BadInput
            }
            Self::Write { .. } | Self::Json(_) | Self::Declined | Self::Component { .. } => Exit::Failed,
            // A reader that has seen enough (`| head`) is no failure.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Ok,
            Self::Output(_) => Exit::Failed,
            Self::Some { exit, .. } => *exit,
        }
    }
}

fn of_client(error: &tenure_client::Error) -> Exit {
    match error {
        tenure_client::Error::Endpoint { .. } => Exit::BadInput,
        tenure_client::Error::Tls { .. } => Exit::NotAllowed,
        tenure_client::Error::Refused(refusal) => of_refusal(refusal),
        tenure_client::Error::Unavailable { .. } => Exit::Unavailable,
        tenure_client::Error::Answer { .. } => Exit::Failed,
    }
}

/// The code of a refusal. Waiting is what 75 is about, so `retry_after` comes first.
pub(crate) fn of_refusal(refusal: &Refusal) -> Exit {
    match refusal.code {
        Code::Ok => Exit::Ok,
        Code::Unavailable => Exit::Unavailable,
        Code::NotFound => Exit::NotFound,
        Code::InvalidArgument | Code::OutOfRange => Exit::BadInput,
        Code::PermissionDenied | Code::Unauthenticated => Exit::NotAllowed,
        Code::ResourceExhausted | Code::FailedPrecondition if refusal.retry_after.is_some() => {
            Exit::RefusedForNow
        }
        // Full, but nobody can tell until when: waiting cures these, and no others of their code.
        Code::ResourceExhausted if matches!(refusal.reason.as_str(), "STORE_FULL" | "CLASS_LIMIT") => {
            Exit::RefusedForNow
        }
        Code::ResourceExhausted
        | Code::FailedPrecondition
        | Code::Cancelled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::AlreadyExists
        | Code::Aborted
        | Code::Unimplemented
        | Code::Internal
        | Code::DataLoss => Exit::Failed,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tonic::Status;
    use tonic_types::{ErrorDetails, StatusExt};

    use super::*;

    fn refused(code: Code, reason: &str, retry_after: Option<Duration>) -> Exit {
        let mut details = ErrorDetails::new();
        details.set_error_info(reason, "tenure", []);
        if retry_after.is_some() {
            details.set_retry_info(retry_after);
        }
        let status = Status::with_error_details(code, "no", details);
        Failure::from(tenure_client::Error::from(Box::new(Refusal::from_status(&status)))).exit()
    }

    #[test]
    fn every_refusal_of_the_protocol_has_its_code() {
        let soon = Some(Duration::from_secs(5));
        for (code, reason, retry_after, exit) in [
            (Code::ResourceExhausted, "QUEUE_FULL", soon, 75),
            (Code::ResourceExhausted, "PRODUCER_RATE", soon, 75),
            (Code::ResourceExhausted, "STORE_FULL", None, 75),
            (Code::ResourceExhausted, "CLASS_LIMIT", None, 75),
            (Code::ResourceExhausted, "TREE_LIMIT", None, 1),
            (Code::ResourceExhausted, "BUDGET_EXHAUSTED", soon, 75),
            (Code::ResourceExhausted, "BUDGET_EXHAUSTED", None, 1),
            (Code::FailedPrecondition, "KIND_PAUSED", soon, 75),
            (Code::FailedPrecondition, "KIND_PAUSED", None, 1),
            (Code::FailedPrecondition, "IMPOSSIBLE_NEEDS", None, 1),
            (Code::FailedPrecondition, "PARENT_NOT_LIVE", None, 1),
            (Code::Unavailable, "SERVER_BUSY", soon, 69),
            (Code::Unavailable, "STORE_UNAVAILABLE", None, 69),
            (Code::NotFound, "KIND_NOT_FOUND", None, 3),
            (Code::AlreadyExists, "JOB_ID_REUSED", None, 1),
            (Code::InvalidArgument, "INVALID_FIELD", None, 64),
            (Code::InvalidArgument, "PAYLOAD_TOO_LARGE", None, 64),
            (Code::PermissionDenied, "", None, 77),
            (Code::Unauthenticated, "", None, 77),
            (Code::Internal, "", None, 1),
            (Code::Unimplemented, "", None, 1),
        ] {
            assert_eq!(refused(code, reason, retry_after) as u8, exit, "{reason}");
        }
    }

    #[test]
    fn a_closed_pipe_is_no_failure() {
        let closed = Failure::Output(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!(closed.exit(), Exit::Ok);
        assert_eq!(Failure::Output(io::Error::other("disk full")).exit(), Exit::Failed);
    }
}
