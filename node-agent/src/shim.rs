//! The process that holds one attempt: its start, its limits, its end.
//!
//! Two halves share these words. `Shim` is the agent's: it starts the process, or takes it over from an earlier agent,
//! says `go`, moves `gone_by`, stops, and hears events. [`main`] is the process itself (`tenure shim`): single-threaded, no runtime; it
//! outlives its agent, and enforces time limits and `gone_by` alone.
//! Not responsible for what an outcome means to the server (the runner), nor for finding shims of an earlier agent
//! (`leftovers`).
//! Invariants: nothing starts before `go`; an attempt is `Reaped` only when two consecutive scans found none of
//! its processes.

mod attach;
mod attempt;
pub mod deadlines;
mod door;
pub(crate) mod files;
mod handle;
mod keeper;
pub(crate) mod killer;
mod met;
mod spec;
mod sweep;
pub(crate) mod tag;
pub(crate) mod tree;
mod usage;
mod wire;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

pub(crate) use attach::attach;
pub(crate) use files::EXIT;
pub use handle::Shim;
pub use spec::{Cause, ExitRecord, Limits, Spec, StopReason, User, VERSION};
pub(crate) use spec::{OLDEST, OLDEST_ADOPTED};

/// How shims of this agent are started.
#[derive(Debug, Clone)]
pub struct Options {
    /// The executable that answers to `shim` and `exec-stage`: the `tenure` binary.
    pub exe: PathBuf,
    /// The agent's state directory: its hash is in the tag of every attempt, so that two agents of one host
    /// never kill each other's.
    pub state_dir: PathBuf,
}

/// What happened to an attempt. `Started`, `Ended`, `Reaped` come in this order, each once, but that a command which
/// could not start has no `Started`. `Unkillable` comes at most once, somewhere before `Reaped`.
#[derive(Debug)]
pub enum Event {
    /// The command was executed.
    Started {
        /// Its process.
        pid: u32,
    },
    /// It was asked to wrap up. At most once, somewhere between `Started` and `Ended`.
    Notified,
    /// The command has ended and its output is complete; its tree may still live. The record is on disk.
    Ended(Box<ExitRecord>),
    /// The tree is not gone 60 s after it should be; the shim goes on trying.
    Unkillable,
    /// No process of the attempt is left. The last event.
    Reaped,
}

/// Why a shim could not be started or told something.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The process could not be started.
    #[error("cannot start the shim")]
    Start(#[source] std::io::Error),
    /// It ended, or fell silent, before it was ready: nothing was started.
    #[error("the shim did not become ready: {0}")]
    NotReady(String),
    /// It does not answer at its door: it is gone, stuck, or not what its state file says.
    #[error("cannot take over the shim")]
    Attach(#[source] std::io::Error),
    /// It is gone or does not read: what was said will not be done. `next` brings the consequence.
    #[error("the shim cannot be told anything")]
    Gone(#[source] std::io::Error),
}

/// `tenure shim`: runs one attempt. To be called before any runtime or second thread exists.
pub fn main() -> ExitCode {
    match keeper::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Its standard error is a file in the attempt directory.
            writeln!(std::io::stderr(), "tenure shim: {}", crate::Chain(&error)).ok();
            ExitCode::FAILURE
        }
    }
}
