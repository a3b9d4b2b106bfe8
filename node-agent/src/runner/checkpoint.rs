//! The newest checkpoint of an attempt: bytes that its job saved for another attempt to go on from.
//!
//! Responsible for the file in the attempt's directory, within its bound and whole or not at all. Not responsible for when
//! it is said to the server (`attempt.rs`), nor for what the job means by it. All functions block on the disk.
//!
//! Invariant: a reader finds the checkpoint that was saved last, or the one before, never a part of one.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use tenure_proto::limits;

use rustix::fs::OFlags;

use super::replace::replace;

/// The largest checkpoint, in bytes.
pub const LARGEST: usize = limits::INLINE_BYTES;
/// The name of the file in the attempt's directory.
const NAME: &str = "checkpoint";

/// Why a checkpoint was not saved. The one before it stands.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// Nothing was given: an attempt that has nothing to go on from saves nothing.
    #[error("a checkpoint cannot be empty")]
    Empty,
    /// It is over [`LARGEST`].
    #[error("a checkpoint of {bytes} bytes is over the limit of {LARGEST}: save a reference instead")]
    TooLarge {
        /// How large it is.
        bytes: usize,
    },
    /// The disk says no, or the attempt is over and its directory gone.
    #[error("the checkpoint cannot be written")]
    Disk(#[source] io::Error),
}

/// Replaces the checkpoint of the attempt whose directory this is. It is not synced: after a crash of the host nothing of
/// the attempt is left to be taken over anyway, and what the server has of it counts.
///
/// # Errors
/// If it is empty, too large or cannot be written: the checkpoint before it stands.
pub fn save(attempt_dir: &Path, bytes: &[u8]) -> Result<(), Refused> {
    if bytes.is_empty() {
        return Err(Refused::Empty);
    }
    if bytes.len() > LARGEST {
        return Err(Refused::TooLarge { bytes: bytes.len() });
    }
    replace(attempt_dir, NAME, bytes).map_err(Refused::Disk)
}

/// The newest checkpoint; None if there is none, or it cannot be read, which is said in the log.
pub(crate) fn read(attempt_dir: &Path) -> Option<Vec<u8>> {
    let found = OpenOptions::new().read(true).custom_flags(no_follow()).open(attempt_dir.join(NAME));
    let read = found.and_then(|file| {
        let mut bytes = Vec::new();
        file.take(u64::try_from(LARGEST).unwrap_or(u64::MAX)).read_to_end(&mut bytes)?;
        Ok(bytes)
    });
    match read {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            tracing::warn!(dir = %attempt_dir.display(), %error, "the checkpoint of an attempt cannot be read");
            None
        }
    }
}

/// A job of the agent's own user may have put a link there; FIFOs would block without the second flag.
fn no_follow() -> i32 {
    (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC).bits().cast_signed()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_newest_checkpoint_stands_whole_and_private() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(dir.path()), None);
        save(dir.path(), b"a long first one").unwrap();
        save(dir.path(), b"second").unwrap();
        assert_eq!(read(dir.path()).unwrap(), b"second");
        let mode = fs::metadata(dir.path().join(NAME)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn what_is_refused_leaves_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        save(dir.path(), &vec![7; LARGEST]).unwrap();
        assert!(matches!(save(dir.path(), b""), Err(Refused::Empty)));
        let large = save(dir.path(), &vec![8; LARGEST + 1]).unwrap_err();
        assert!(large.to_string().contains("262144"), "{large}");
        assert_eq!(read(dir.path()).unwrap(), vec![7; LARGEST]);
        assert!(matches!(save(&dir.path().join("gone"), b"x"), Err(Refused::Disk(_))));
    }

    #[test]
    fn a_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let secret = dir.path().join("secret");
        fs::write(&secret, b"secret").unwrap();
        std::os::unix::fs::symlink(&secret, dir.path().join(NAME)).unwrap();
        assert_eq!(read(dir.path()), None);
        save(dir.path(), b"x").unwrap();
        assert_eq!(fs::read(secret).unwrap(), b"secret");
        assert_eq!(read(dir.path()).unwrap(), b"x");
    }
}
