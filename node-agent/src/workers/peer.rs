//! Who connected to a socket of workers: the process that is killed if an attempt in it does not stop.
//!
//! Responsible for looking at it once, when its connection is taken. Not responsible for what it says (`door.rs`).
//!
//! Invariant: the identity is of a process of the socket's user that was there before the connection was taken. A pid that
//! another user has by now, or who started since, is refused: nobody else's process is ever killed for it. The kernel would
//! say for sure (SO_PEERPIDFD), but there is no way to ask without unsafe code; what is left is a process of the same user.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use procfs::ProcError;
use procfs::process::Process;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::time::Timespec;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tonic::transport::server::Connected;

use crate::clock::Clock;
use crate::shim::tree::Identity;

/// Why somebody may not attach.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    /// The kernel does not say who it is.
    #[error("nobody knows who connected")]
    Unknown(#[source] io::Error),
    /// Another user.
    #[error("it runs as the user {0}")]
    User(u32),
    /// It has ended, or the pid is somebody else's by now.
    #[error("the process that connected is gone")]
    Gone,
    /// `/proc` cannot be read.
    #[error("the process that connected cannot be looked at")]
    Look(#[source] ProcError),
}

/// The process at the other end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    /// Which.
    pub(super) identity: Identity,
}

/// A connection of a process that is known.
#[derive(Debug)]
pub(super) struct Connection {
    socket: UnixStream,
    peer: Peer,
}

impl Connection {
    /// Takes a connection, if it is of that user and of a process that is there.
    pub(super) fn admit(socket: UnixStream, uid: u32) -> Result<Self, Refused> {
        // Before anything is looked at: who started later has not connected.
        let ticks = ticks();
        let peer = socket.peer_cred().map_err(Refused::Unknown)?;
        if peer.uid() != uid {
            return Err(Refused::User(peer.uid()));
        }
        let pid = peer.pid().filter(|&pid| pid > 0).ok_or(Refused::Gone)?;
        let identity = look(pid, uid, ticks)?;
        Ok(Self { socket, peer: Peer { identity } })
    }
}

/// The identity of the process of that pid, if its user and its start say that it can have connected.
fn look(pid: i32, uid: u32, ticks: u64) -> Result<Identity, Refused> {
    let held = match Pid::from_raw(pid).map(|pid| pidfd_open(pid, PidfdFlags::empty())) {
        Some(Ok(held)) => held,
        Some(Err(Errno::SRCH)) | None => return Err(Refused::Gone),
        Some(Err(error)) => return Err(Refused::Unknown(error.into())),
    };
    let found = || -> Result<_, ProcError> {
        let process = Process::new(pid)?;
        Ok((process.stat()?.starttime, process.status()?))
    };
    let (start, status) = found().map_err(|error| match error {
        ProcError::NotFound(_) => Refused::Gone,
        error @ (ProcError::PermissionDenied(_)
        | ProcError::Incomplete(_)
        | ProcError::Io(..)
        | ProcError::Other(_)
        | ProcError::InternalError(_)) => Refused::Look(error),
    })?;
    // All of them: who has become somebody else is not this user's to kill.
    let users = [status.ruid, status.euid, status.suid];
    if let Some(&other) = users.iter().find(|&&user| user != uid) {
        return Err(Refused::User(other));
    }
    if start > ticks {
        return Err(Refused::Gone);
    }
    // Last: it had its pid all the while, so that both are of one process.
    let mut asked = [PollFd::new(&held, PollFlags::IN)];
    if poll(&mut asked, Some(&Timespec::default())).map_err(|error| Refused::Unknown(error.into()))? > 0 {
        return Err(Refused::Gone);
    }
    Ok(Identity { pid, start })
}

/// The present moment as starts of processes are counted: clock ticks since boot.
fn ticks() -> u64 {
    let hertz = u128::from(rustix::param::clock_ticks_per_second());
    u64::try_from(u128::from(Clock::Boottime.now().as_micros()) * hertz / 1_000_000).unwrap_or(u64::MAX)
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use tokio::net::UnixListener;

    use super::*;

    /// Where the process connects to that a test starts.
    const PATH: &str = "TENURE_TEST_CONNECT";
    const CONNECT: &str = "workers::peer::tests::a_process_that_connects_and_ends";

    fn own() -> (i32, u32) {
        (rustix::process::getpid().as_raw_nonzero().get(), rustix::process::geteuid().as_raw())
    }

    /// What the process does that a test starts; nothing in the test itself.
    #[test]
    fn a_process_that_connects_and_ends() {
        if let Some(path) = std::env::var_os(PATH) {
            std::os::unix::net::UnixStream::connect(path).unwrap();
        }
    }

    #[tokio::test]
    async fn who_connected_is_known_and_who_is_gone_by_then_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let (pid, uid) = own();
        let _here = UnixStream::connect(&path).await.unwrap();
        let taken = Connection::admit(listener.accept().await.unwrap().0, uid).unwrap();
        assert_eq!(taken.connect_info().identity, Identity::of(pid).unwrap());
        let _here = UnixStream::connect(&path).await.unwrap();
        let refused = Connection::admit(listener.accept().await.unwrap().0, uid + 1);
        assert!(matches!(refused, Err(Refused::User(user)) if user == uid), "{refused:?}");

        let mut gone = Command::new(std::env::current_exe().unwrap());
        gone.args(["--exact", CONNECT]).env(PATH, &path).stdout(Stdio::null());
        assert!(gone.status().unwrap().success());
        let refused = Connection::admit(listener.accept().await.unwrap().0, uid);
        assert!(matches!(refused, Err(Refused::Gone)), "{refused:?}");
    }

    #[test]
    fn a_pid_that_somebody_else_has_by_now_is_refused() {
        let (pid, uid) = own();
        let now = ticks();
        assert_eq!(look(pid, uid, now).unwrap(), Identity::of(pid).unwrap());
        // Whoever has it has not connected: it is another user's, or it started since.
        assert!(matches!(look(pid, uid + 1, now), Err(Refused::User(user)) if user == uid));
        let before = Identity::of(pid).unwrap().start - 1;
        assert!(matches!(look(pid, uid, before), Err(Refused::Gone)));
        // One that has ended, and is not reaped yet.
        let mut ended = Command::new("true").spawn().unwrap();
        let pid = i32::try_from(ended.id()).unwrap();
        rustix::process::waitid(
            rustix::process::WaitId::Pid(rustix::process::Pid::from_raw(pid).unwrap()),
            rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT,
        )
        .unwrap();
        assert!(matches!(look(pid, uid, ticks()), Err(Refused::Gone)));
        ended.wait().unwrap();
    }
}
