//! Asking the agent that runs on this host to drain.
//!
//! Responsible for finding it by the lock of its state directory, and for waiting until it has ended. Not responsible for
//! what a drain is (`holdings.rs`).
//! Invariants: a signal reaches a process only if it has the lock open, and holds it before and after its pid was made to
//! mean it; a drain is said to be over only if nothing is left.

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
    /// The agent had, and has ended. Nothing is left.
    Ended {
        /// It was this process.
        pid: i32,
    },
    /// The agent had, and has ended otherwise than by a drain: attempts are left, and may run.
    Left {
        /// It was this process.
        pid: i32,
    },
}

/// Why it cannot be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The lock, or what the agent has left, cannot be looked at.
    #[error("cannot look at {}", path.display())]
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
    let has_lock = state_dir::has_lock(state_dir, pid).map_err(|source| Error::Signal { pid, source })?;
    if !has_lock {
        return Err(Error::Unknown(state_dir.to_owned()));
    }
    if holder()? != Holder::Process(pid) {
        return Err(Error::Signal { pid, source: io::ErrorKind::NotFound.into() });
    }
    pidfd_send_signal(&process, Signal::USR1).map_err(failed)?;
    // Another agent may have it by then.
    while holder()? == Holder::Process(pid) {
        tokio::time::sleep(LOOK).await;
    }
    let path = state_dir::attempts_of(state_dir);
    let left = state_dir::has_entries(&path).map_err(|source| Error::Lock { path, source })?;
    Ok(if left { Drained::Left { pid } } else { Drained::Ended { pid } })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    #[tokio::test]
    async fn a_process_that_does_not_have_the_lock_is_not_signalled() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("lock");
        // A number of somebody else, as of another namespace of processes.
        let mut stranger = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        fs::write(&path, stranger.id().to_string()).unwrap();
        let lock = File::options().write(true).open(&path).unwrap();
        lock.lock().unwrap();
        let error = drain(home.path()).await.unwrap_err();
        let lives = stranger.try_wait().unwrap().is_none();
        stranger.kill().unwrap();
        stranger.wait().unwrap();
        assert!(lives && matches!(error, Error::Unknown(_)), "{error:?}");
        drop(lock);
        assert_eq!(drain(home.path()).await.unwrap(), Drained::Nobody);
    }
}
