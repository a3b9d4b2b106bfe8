//! The shim's door: a Unix socket in the attempt directory, at which the next agent takes the attempt over.
//!
//! Responsible for the socket and for letting in only who means this attempt and speaks this version. Not responsible
//! for what is said then (`keeper.rs`).
//! Invariants: only the agent's own user, and root, can reach the socket; whoever knocks and says nothing takes nothing
//! from the agent that is there.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::process::umask;

use super::spec::VERSION;
use super::wire::{Attach, Inbox};

/// The name of the socket in the attempt directory.
const NAME: &str = "door";

/// Where an attempt is taken over.
pub(super) struct Door {
    listener: UnixListener,
    /// Who has not said yet what it wants. A newer one takes its place.
    knocking: Option<(UnixStream, Inbox)>,
}

impl Door {
    /// Makes the socket. A process of one thread may call this: the mask for new files is another one meanwhile.
    pub(super) fn open(dir: &Path) -> io::Result<Self> {
        let (_held, path) = short(dir)?;
        let before = umask(Mode::RWXG | Mode::RWXO);
        let listener = UnixListener::bind(path);
        umask(before);
        let listener = listener?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, knocking: None })
    }

    /// What to wait for being readable.
    pub(super) fn inputs(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let knocking = self.knocking.as_ref().map(|(socket, _)| socket.as_fd());
        std::iter::once(self.listener.as_fd()).chain(knocking)
    }

    /// Takes who has come. Answers the agent that asks for this attempt, with what it has said beyond that.
    pub(super) fn answer(&mut self, token: u64) -> Option<(UnixStream, Inbox)> {
        while let Ok((socket, _)) = self.listener.accept() {
            self.knocking = socket.set_nonblocking(true).is_ok().then(|| (socket, Inbox::default()));
        }
        let (socket, inbox) = self.knocking.as_mut()?;
        let open = inbox.fill(&*socket).unwrap_or(false);
        match inbox.pop::<Attach>() {
            Ok(Some(attach)) if attach.version == VERSION && attach.token == token => self.knocking.take(),
            Ok(None) if open => None,
            Ok(Some(_) | None) | Err(_) => {
                self.knocking = None;
                None
            }
        }
    }
}

/// The path of the socket of an attempt directory, however long that directory's is: a socket's may have some hundred
/// bytes only. It means something for as long as the file beside it is open.
pub(super) fn short(dir: &Path) -> io::Result<(File, PathBuf)> {
    let held = File::open(dir)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}/{NAME}", held.as_raw_fd()));
    Ok((held, path))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn knock(dir: &Path, words: &str) -> UnixStream {
        let (_held, path) = short(dir).unwrap();
        let mut socket = UnixStream::connect(path).unwrap();
        socket.write_all(words.as_bytes()).unwrap();
        socket
    }

    #[test]
    fn only_who_means_this_attempt_is_let_in_however_long_the_path() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("d".repeat(200));
        std::fs::create_dir(&dir).unwrap();
        let mut door = Door::open(&dir).unwrap();
        assert!(door.answer(7).is_none(), "nobody is there");
        let others =
            ["{\"version\":3,\"token\":8}\n", "{\"version\":1,\"token\":7}\n", "nonsense\n", "{\"version\":"];
        for words in others {
            let _socket = knock(&dir, words);
            assert!(door.answer(7).is_none(), "{words}");
        }
        let _socket = knock(&dir, "{\"version\":3,\"token\":7}\n\"go\"\n");
        let (_, mut inbox) = door.answer(7).unwrap();
        assert!(inbox.pop::<super::super::wire::Order>().unwrap().is_some(), "what follows is not lost");
        assert_eq!(door.inputs().count(), 1);
    }

    #[test]
    fn nobody_else_may_knock() {
        use std::os::unix::fs::PermissionsExt as _;
        let home = tempfile::tempdir().unwrap();
        let _door = Door::open(home.path()).unwrap();
        let mode = std::fs::metadata(home.path().join(NAME)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
