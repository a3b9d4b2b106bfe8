//! Files of an attempt that are replaced as a whole.
//!
//! Responsible for the one file that a reader finds. Not responsible for what is in it, nor for who comes first if several
//! replace it at once. Blocks on the disk.
//!
//! Invariant: a reader finds what one writer wrote, or what stood there before, never a part or a mixture.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;
use uuid::Uuid;

/// Replaces the file of this name, for its owner alone. It is not synced.
///
/// # Errors
/// If the disk says no: the file is the one before.
pub(super) fn replace(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    // Of its own, so that no other writer is in it; and nobody can have put a link there.
    let beside = dir.join(format!("{name}.{}.tmp", Uuid::new_v4().simple()));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(OFlags::CLOEXEC.bits().cast_signed())
        .open(&beside)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| fs::rename(&beside, dir.join(name)));
    if written.is_err() {
        // What cannot be removed goes with the directory.
        drop(fs::remove_file(&beside));
    }
    written
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn writers_at_once_leave_what_one_of_them_wrote_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        replace(dir.path(), "file", &[0; 64 << 10]).unwrap();
        thread::scope(|scope| {
            let writers: Vec<_> = (1..=4_u8)
                .map(|writer| {
                    let dir = dir.path();
                    scope.spawn(move || {
                        for _ in 0..50 {
                            replace(dir, "file", &vec![writer; 64 << 10]).unwrap();
                        }
                    })
                })
                .collect();
            while writers.iter().any(|writer| !writer.is_finished()) {
                let found = fs::read(&path).unwrap();
                let first = found.first().copied().unwrap();
                assert!(found.len() == 64 << 10 && found.iter().all(|byte| *byte == first));
            }
        });
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing stays beside it");
    }

    #[test]
    fn a_link_is_replaced_and_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let other = dir.path().join("other");
        fs::write(&other, b"other").unwrap();
        std::os::unix::fs::symlink(&other, dir.path().join("file")).unwrap();
        replace(dir.path(), "file", b"x").unwrap();
        assert_eq!(fs::read(other).unwrap(), b"other");
        assert_eq!(fs::read(dir.path().join("file")).unwrap(), b"x");
        assert!(replace(&dir.path().join("gone"), "file", b"x").is_err());
    }
}
