//! Errors of the system that say nothing of the file which was read: another look may find it sound.

use std::io;

use rustix::io::Errno;

/// Whether this is one of them: no descriptor or memory to be had, or a disk that failed. What cannot be read for another
/// reason stays so.
pub(crate) fn may_pass(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::IO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_says_nothing_of_a_file_may_pass() {
        for errno in [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::IO] {
            assert!(may_pass(&errno.into()), "{errno}");
        }
        for errno in [Errno::NOENT, Errno::LOOP, Errno::ISDIR, Errno::ACCESS] {
            assert!(!may_pass(&errno.into()), "{errno}");
        }
        assert!(!may_pass(&io::ErrorKind::InvalidData.into()));
    }
}
