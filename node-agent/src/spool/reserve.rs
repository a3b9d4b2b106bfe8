//! Disk space that is allocated in advance, so that a report can be written when the disk is full.
//!
//! Responsible for one file of that size beside the reports. Not responsible for who needs it.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use rustix::fs::FallocateFlags;

use super::Options;

const NAME: &str = "reserve";

/// The allocated file.
#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
    bytes: u64,
    filled: bool,
}

impl Reserve {
    pub(super) fn new(options: &Options) -> Self {
        Self { path: options.dir.join(NAME), bytes: options.reserve_bytes, filled: false }
    }

    /// Allocates it, unless it is. A disk that has no room now, or cannot allocate, is asked again at the next call.
    pub(super) fn fill(&mut self) {
        if self.filled || self.bytes == 0 {
            return;
        }
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&self.path);
        let allocated = file.and_then(|file| {
            rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, self.bytes)?;
            Ok(())
        });
        match allocated {
            Ok(()) => self.filled = true,
            Err(error) => {
                tracing::debug!(%error, "no space can be allocated in advance for reports");
                drop(fs::remove_file(&self.path));
            }
        }
    }

    /// Gives the space back to the disk. False: there was none.
    pub(super) fn release(&mut self) -> bool {
        std::mem::take(&mut self.filled) && fs::remove_file(&self.path).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_allocated_released_once_and_allocated_again() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options { dir: dir.path().to_owned(), max_bytes: 1, reserve_bytes: 1 << 20 };
        let mut reserve = Reserve::new(&options);
        reserve.fill();
        if !reserve.filled {
            return; // This file system cannot allocate in advance.
        }
        assert_eq!(fs::metadata(&reserve.path).unwrap().len(), 1 << 20);
        assert!(reserve.release());
        assert!(!reserve.path.exists() && !reserve.release());
        reserve.fill();
        assert!(reserve.path.exists());
    }
}
