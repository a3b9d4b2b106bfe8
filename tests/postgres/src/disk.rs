//! A small disk that only one cluster sees.
//!
//! It is a file system in memory, in a mount namespace of its own, which a small shell holds open. Everybody else looks at
//! it through that shell's `/proc/PID/root`.
//!
//! Invariant: when the process of the tests is gone, however it ended, the disk is: the shell waits for the other end of a
//! pipe, Postgres ends by its own keeper, and a namespace without processes has no mounts.

use std::{
    fs::{self, OpenOptions},
    io::{BufRead as _, BufReader, Error, ErrorKind, Result, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use crate::install::Install;

/// Mounts the disk, says so, and stays until nobody holds the pipe. Who removes the files may not remove what is mounted.
const HOLDER: &str = r#"
mount -t tmpfs -o "$2" tenure-small-disk "$1" || exit 1
echo mounted
read -r _
umount -l "$1"
rmdir "$1" "${1%/*}" 2>/dev/null
"#;

/// What fills it.
const BALLAST: &str = "ballast";

/// See the module.
#[derive(Debug)]
pub(crate) struct Disk {
    holder: Child,
}

impl Disk {
    /// Makes an empty directory, and mounts a disk of so many MiB there.
    ///
    /// # Errors
    /// If it cannot be mounted, as without root.
    pub(crate) fn mount(directory: &Path, mib: u32, install: &Install) -> Result<Self> {
        fs::create_dir(directory)?;
        install.own(directory)?;
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", HOLDER, "sh"]).arg(directory);
        command.arg(format!("size={mib}m,mode=0700"));
        let mut holder = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut said = String::new();
        if let Some(out) = holder.stdout.take() {
            BufReader::new(out).read_line(&mut said)?;
        }
        let disk = Self { holder };
        if said.trim() != "mounted" {
            return Err(Error::other("a small disk cannot be mounted here: that needs root"));
        }
        install.own(&disk.seen(directory))?;
        Ok(disk)
    }

    /// A path on it, as this process sees it.
    pub(crate) fn seen(&self, path: &Path) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.id()));
        root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// A shell that sees it, as whoever may run the programs.
    pub(crate) fn enter(&self, install: &Install) -> Command {
        let mut command = install.as_root("nsenter");
        command.arg(format!("--mount=/proc/{}/ns/mnt", self.holder.id()));
        command.args(install.become_user()).arg("sh");
        command
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Its pipe closes with this; in a drop nobody can do more than try.
        drop(self.holder.stdin.take());
        self.holder.wait().map(drop).unwrap_or_default();
    }
}

/// Writes into a directory until there is no byte left.
///
/// # Errors
/// Any other than that.
pub(crate) fn fill(directory: &Path) -> Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(directory.join(BALLAST))?;
    // Ever smaller pieces, to the last page.
    for size in [1 << 20, 1 << 16, 1 << 12] {
        let piece = vec![0; size];
        loop {
            match file.write_all(&piece) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => break,
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Takes that away again.
///
/// # Errors
/// If it is not there.
pub(crate) fn free(directory: &Path) -> Result<()> {
    fs::remove_file(directory.join(BALLAST))
}
