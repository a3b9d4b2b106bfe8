//! Asking the agent that runs on this host to drain.
//!
//! Responsible for finding it by the lock of its state directory, and for waiting until it has ended. Not responsible for
//! what a drain is (`holdings.rs`).
//! Invariant: a signal reaches a process only if it holds the lock, before and after its pid was made to mean it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::state_dir::{self, Holder};

/// Between two looks at whether it has ended.
const LOOK: Duration = Duration::from_millis(50);

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// No agent has the state directory.
    Nobody,
    /// The agent had, and has ended.
    Ended {
        /// It was this process.
        pid: i32,
    },
}

/// Why it cannot be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The lock cannot be looked at.
    #[error("cannot look at the lock of {}", path.display())]
    Lock {
        /// Of which state directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It is held, and does not say by whom.
    #[error("an agent uses {}, and its lock does not say which process that is", .0.display())]
    Unknown(PathBuf),
    /// Its process cannot be signalled.
    #[error("cannot signal process {pid}")]
    Signal {
        /// Which.
        pid: i32,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Asks the agent that has this state directory to drain, and waits until it has ended. Dropped, it drains all the same.
///
/// # Errors
/// If it cannot be asked.
pub async fn drain(state_dir: &Path) -> Result<Drained, Error> {
    let holder =
        || state_dir::holder(state_dir).map_err(|source| Error::Lock { path: state_dir.to_owned(), source });
    let pid = match holder()? {
        Holder::Nobody => return Ok(Drained::Nobody),
        Holder::Process(pid) => pid,
        Holder::Unknown => return Err(Error::Unknown(state_dir.to_owned())),
    };
    let process = Pid::from_raw(pid).ok_or_else(|| Error::Unknown(state_dir.to_owned()))?;
    let failed = |error: rustix::io::Errno| Error::Signal { pid, source: error.into() };
    let process = pidfd_open(process, PidfdFlags::empty()).map_err(failed)?;
    if holder()? != Holder::Process(pid) {
        return Err(Error::Signal { pid, source: io::ErrorKind::NotFound.into() });
    }
    pidfd_send_signal(&process, Signal::USR1).map_err(failed)?;
    // Another agent may have it by then.
    while holder()? == Holder::Process(pid) {
        tokio::time::sleep(LOOK).await;
    }
    Ok(Drained::Ended { pid })
}
