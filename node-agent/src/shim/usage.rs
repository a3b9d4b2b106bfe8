//! How much an attempt has written to the disk, looked at from beside the shim's loop.
//!
//! Responsible for one bounded walk every two seconds, and for saying when there is too much. Not responsible for what
//! follows (`attempt.rs`).
//! Invariants: whatever a job makes of its directories, the walk ends, follows no link, enters no other file system, and
//! delays no deadline: it has a thread of its own. What cannot be counted counts as too much.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, Statx, StatxAttributes, StatxFlags, openat, statx,
};
use rustix::io::Errno;

use crate::clock::Clock;

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(2);
/// A look that takes long is followed by so many times that long a pause: it costs a tenth of a processor at most.
const SHARE: u32 = 9;
/// More directories below each other are too many. Each takes an open file while it is looked at.
const DEEPEST: usize = 64;
/// More entries are too many.
const MOST_ENTRIES: u64 = 1_000_000;
/// So many files with several names are counted once each; of more, every name counts.
const MOST_LINKED: usize = 100_000;
/// What a name is asked about: what the file system knows, without asking a server or a daemon for it.
const ASKED: AtFlags =
    AtFlags::SYMLINK_NOFOLLOW.union(AtFlags::NO_AUTOMOUNT).union(AtFlags::from_bits_retain(0x4000));
/// The bytes of a block as `stat` counts them, whatever the file system's are.
const BLOCK: u64 = 512;

/// Too much.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Excess {
    /// So many bytes; of more than twice the limit only that it is more.
    Bytes(u64),
    /// More entries than are counted.
    Entries,
    /// Directories deeper than are counted.
    Depth,
    /// A directory that may not be read.
    Unreadable,
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "its directories hold {bytes} bytes"),
            Self::Entries => write!(f, "its directories hold more than {MOST_ENTRIES} entries"),
            Self::Depth => write!(f, "its directories are more than {DEEPEST} deep"),
            Self::Unreadable => f.write_str("one of its directories cannot be read"),
        }
    }
}

/// The looking at some directories. Its thread ends with the process.
#[derive(Debug)]
pub(super) struct Watch {
    /// A byte for each excess.
    wake: UnixStream,
    found: Arc<Mutex<Option<Excess>>>,
}

impl Watch {
    /// Begins; the first look is due at once, so that a limit of nothing is seen soon.
    pub(super) fn start(dirs: Vec<PathBuf>, limit: u64) -> io::Result<Self> {
        let (wake, waker) = UnixStream::pair()?;
        for end in [&wake, &waker] {
            end.set_nonblocking(true)?;
        }
        let found = Arc::new(Mutex::new(None));
        let tell = Arc::clone(&found);
        thread::Builder::new().name("tenure-usage".to_owned()).stack_size(256 * 1024).spawn(move || {
            loop {
                let begun = Clock::Monotonic.now();
                if let Err(excess) = measure(&dirs, limit) {
                    *tell.lock().unwrap_or_else(PoisonError::into_inner) = Some(excess);
                    // A byte that finds no room is not needed: others wait to be read.
                    (&waker).write_all(b"x").ok();
                }
                thread::sleep(PAUSE.max(Clock::Monotonic.now().since(begun) * SHARE));
            }
        })?;
        Ok(Self { wake, found })
    }

    /// What was found since the last time, if that is too much. Does not block.
    pub(super) fn take(&self) -> Option<Excess> {
        let mut bytes = [0; 64];
        while matches!((&self.wake).read(&mut bytes), Ok(count) if count > 0) {}
        self.found.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Readable when there is something to take.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

/// Counts what is on the disk below some directories: no more than `limit` bytes, in what can be counted.
fn measure(dirs: &[PathBuf], limit: u64) -> Result<(), Excess> {
    let mut walk = Walk { used: 0, most: limit.saturating_mul(2), entries: 0, linked: BTreeSet::new() };
    for dir in dirs {
        walk.enter(dir)?;
    }
    if walk.used > limit { Err(Excess::Bytes(walk.used)) } else { Ok(()) }
}

struct Walk {
    used: u64,
    /// More need not be counted.
    most: u64,
    entries: u64,
    linked: BTreeSet<u64>,
}

impl Walk {
    /// Counts a directory and all below it, the deepest first. One that is gone holds nothing.
    fn enter(&mut self, dir: &Path) -> Result<(), Excess> {
        let Some(first) = self.open(CWD, dir)? else { return Ok(()) };
        let mut open = vec![first];
        loop {
            let depth = open.len();
            let Some(dir) = open.last_mut() else { return Ok(()) };
            let entry = match dir.read() {
                Some(Ok(entry)) => entry,
                // Removed, or broken in the middle: the next look sees it anew.
                Some(Err(_)) | None => {
                    open.pop();
                    continue;
                }
            };
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let parent = dir.fd().map_err(|_| Excess::Unreadable)?;
            let Some(facts) = look(parent, name)? else { continue };
            self.count(&facts)?;
            let is_dir = FileType::from_raw_mode(facts.stx_mode.into()) == FileType::Directory;
            // What is mounted there fills another disk, and might never answer.
            if !is_dir || facts.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
                continue;
            }
            if depth >= DEEPEST {
                return Err(Excess::Depth);
            }
            if let Some(next) = self.open(parent, name)? {
                open.push(next);
            }
        }
    }

    fn count(&mut self, facts: &Statx) -> Result<(), Excess> {
        self.entries += 1;
        if self.entries > MOST_ENTRIES {
            return Err(Excess::Entries);
        }
        let several = facts.stx_nlink > 1
            && FileType::from_raw_mode(facts.stx_mode.into()) != FileType::Directory
            && self.linked.len() < MOST_LINKED;
        if several && !self.linked.insert(facts.stx_ino) {
            return Ok(());
        }
        self.used = self.used.saturating_add(facts.stx_blocks.saturating_mul(BLOCK));
        if self.used > self.most { Err(Excess::Bytes(self.used)) } else { Ok(()) }
    }

    fn open(&self, parent: BorrowedFd<'_>, name: impl rustix::path::Arg) -> Result<Option<Dir>, Excess> {
        let flags =
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened: Result<OwnedFd, Errno> = openat(parent, name, flags, Mode::empty());
        match opened.and_then(Dir::new) {
            Ok(dir) => Ok(Some(dir)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(_) => Err(Excess::Unreadable),
        }
    }
}

fn look(parent: BorrowedFd<'_>, name: &std::ffi::CStr) -> Result<Option<Statx>, Excess> {
    let wanted =
        StatxFlags::TYPE | StatxFlags::MODE | StatxFlags::NLINK | StatxFlags::INO | StatxFlags::BLOCKS;
    match statx(parent, name, ASKED, wanted) {
        Ok(facts) => Ok(Some(facts)),
        Err(Errno::NOENT) => Ok(None),
        Err(_) => Err(Excess::Unreadable),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn everything_on_the_disk_counts_once() {
        let dir = tempfile::tempdir().unwrap();
        let measured = |limit| measure(&[dir.path().to_owned(), dir.path().join("gone")], limit);
        assert_eq!(measured(0), Ok(()));
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(dir.path().join("sub/file"), vec![1; 1 << 20]).unwrap();
        fs::hard_link(dir.path().join("sub/file"), dir.path().join("again")).unwrap();
        assert_eq!(measured(2 << 20), Ok(()));
        let Err(Excess::Bytes(bytes)) = measured(1 << 19) else { panic!("it is more than half a MiB") };
        assert!((1 << 20..2 << 20).contains(&bytes), "{bytes}");
    }

    #[test]
    fn many_entries_are_walked_in_time() {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..20_000 {
            fs::File::create(dir.path().join(n.to_string())).unwrap();
        }
        let begun = Clock::Monotonic.now();
        assert_eq!(measure(&[dir.path().to_owned()], 1 << 30), Ok(()));
        let took = Clock::Monotonic.now().since(begun);
        eprintln!("20,000 entries in {took:?}");
        assert!(took < Duration::from_secs(5), "{took:?}");
    }
}
