//! The cgroup of one attempt: made, joined, killed, seen to be empty, removed.
//!
//! Responsible for its files. Not responsible for when (`shim/`), nor for which limits (`cgroup.rs`).
//! Invariants: a process is killed one by one only while the kernel says that it is in this cgroup; a cgroup that is not
//! there is empty.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

use super::{Place, Setting};

/// Cgroups that a job may have made below its own and that are looked into for pids: more cost only a look.
const MOST_BELOW: usize = 1_000;
/// How often the last step of a removal is tried: the kernel may need a moment after the last process.
const REMOVALS: u32 = 20;

/// The cgroup of one attempt, by its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cgroup {
    dir: PathBuf,
}

/// Moves this process, all of its threads, into a cgroup.
pub(crate) fn join(dir: &Path) -> io::Result<()> {
    write(&dir.join("cgroup.procs"), "0")
}

impl Place {
    /// For the shim: goes where shims are, and makes the attempt's cgroup with its limits. Nobody is in it yet.
    pub(crate) fn enter(&self) -> io::Result<()> {
        join(&self.shims)?;
        DirBuilder::new().create(&self.attempt).or_else(|error| {
            // Empty, it is what a start that failed has left.
            let cgroup = Cgroup { dir: self.attempt.clone() };
            let reused = error.kind() == io::ErrorKind::AlreadyExists && !cgroup.is_populated()?;
            if reused { Ok(()) } else { Err(error) }
        })?;
        self.limit().inspect_err(|_| Cgroup { dir: self.attempt.clone() }.remove())
    }

    fn limit(&self) -> io::Result<()> {
        for Setting { file, value, optional } in &self.settings {
            match write(&self.attempt.join(file), value) {
                Err(error) if *optional && error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(io::Error::new(error.kind(), format!("{file} = {value}: {error}"))),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// The attempt's cgroup.
    pub(crate) fn cgroup(&self) -> Cgroup {
        Cgroup { dir: self.attempt.clone() }
    }
}

impl Cgroup {
    /// At a path that is known to be an attempt's.
    pub(crate) fn at(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Whether a process of it, or below it, lives. Zombies do not count.
    pub(crate) fn is_populated(&self) -> io::Result<bool> {
        let events = match fs::read_to_string(self.dir.join("cgroup.events")) {
            Ok(events) => events,
            Err(error) if is_absent(&error) => return Ok(false),
            Err(error) => return Err(error),
        };
        Ok(number(&events, "populated") != Some(0))
    }

    /// Every process of it, and below it as far as that is looked at.
    pub(crate) fn pids(&self) -> Vec<i32> {
        let mut pids = Vec::new();
        let mut open = vec![self.dir.clone()];
        let mut seen = 0;
        while let Some(dir) = open.pop() {
            let text = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
            pids.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()));
            seen += 1;
            if seen < MOST_BELOW {
                open.extend(below(&dir));
            }
        }
        pids
    }

    /// SIGKILL to all of it, in one stroke that no fork escapes. Repeat it until nothing lives.
    pub(crate) fn kill(&self) -> io::Result<()> {
        match write(&self.dir.join("cgroup.kill"), "1") {
            // Before Linux 5.14.
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.dir.is_dir() => {
                self.freeze_and_kill();
                Ok(())
            }
            Err(error) if is_absent(&error) => Ok(()),
            other => other,
        }
    }

    /// The same where the kernel has no word for it: what is frozen cannot fork, and dies of SIGKILL nevertheless.
    pub(crate) fn freeze_and_kill(&self) {
        // Before Linux 5.2 nothing freezes; then the rounds that follow are what ends a tree that forks.
        write(&self.dir.join("cgroup.freeze"), "1").ok();
        for pid in self.pids() {
            self.kill_one(pid);
        }
        write(&self.dir.join("cgroup.freeze"), "0").ok();
    }

    fn kill_one(&self, pid: i32) {
        let Some(pid) = Pid::from_raw(pid) else { return };
        // The pidfd holds the process before it is compared: what is killed is what was compared.
        let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { return };
        if pid != getpid() && self.holds(pid) {
            // One that has ended is what we want, one that refuses is met again in the next round.
            pidfd_send_signal(pidfd, Signal::KILL).ok();
        }
    }

    /// Whether the kernel says that this process is in it now. Its path may begin above what is mounted here, so the
    /// end of it is compared, which no other cgroup has: it names agent and token.
    fn holds(&self, pid: Pid) -> bool {
        let text = fs::read_to_string(format!("/proc/{}/cgroup", pid.as_raw_pid())).unwrap_or_default();
        let path = text.lines().find_map(|line| line.strip_prefix("0::"));
        let mut parts = self.dir.iter().rev();
        let (token, attempts, subtree) = (parts.next(), parts.next(), parts.next());
        path.is_some_and(|path| {
            Path::new(path).ancestors().any(|dir| {
                let mut own = dir.iter().rev();
                (own.next(), own.next(), own.next()) == (token, attempts, subtree) && subtree.is_some()
            })
        })
    }

    /// Processes of it that the kernel killed for memory, of whatever limit; None where it does not count them.
    pub(crate) fn oom_kills(&self) -> Option<u64> {
        number(&fs::read_to_string(self.dir.join("memory.events")).ok()?, "oom_kill")
    }

    /// How often a process could not be started because of `pids.max`; None where that is not counted.
    pub(crate) fn refused_tasks(&self) -> Option<u64> {
        number(&fs::read_to_string(self.dir.join("pids.events")).ok()?, "max")
    }

    /// Its path.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Removes it and what a job made below it, once it is empty. What is left is removed by the next agent.
    pub(crate) fn remove(&self) {
        for _ in 0..REMOVALS {
            match remove(&self.dir, &mut 0) {
                Err(error) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                Ok(()) | Err(_) => return,
            }
        }
    }
}

/// Removes a cgroup from its leaves up; one that is not there is removed.
fn remove(dir: &Path, seen: &mut usize) -> io::Result<()> {
    *seen += 1;
    if *seen < MOST_BELOW {
        for one in below(dir) {
            remove(&one, seen)?;
        }
    }
    match fs::remove_dir(dir) {
        Err(error) if is_absent(&error) => Ok(()),
        other => other,
    }
}

/// The cgroups right below one.
pub(super) fn below(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

/// Writes one line into a file that is there: the kernel takes it whole or not at all.
pub(super) fn write(path: &Path, value: &str) -> io::Result<()> {
    OpenOptions::new().write(true).truncate(true).open(path)?.write_all(value.as_bytes())
}

/// A cgroup that was removed, be it while its file was open.
fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::NODEV.raw_os_error())
}

/// The number after `name` in lines `name number`.
fn number(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_and_what_is_not_there_is_empty() {
        let dir = tempfile::tempdir().unwrap();
        let cgroup = Cgroup::at(dir.path().to_owned());
        assert!(!cgroup.is_populated().unwrap());
        assert_eq!((cgroup.oom_kills(), cgroup.refused_tasks()), (None, None));
        let file = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        file("cgroup.events", "populated 1\nfrozen 0\n");
        file("memory.events", "low 0\nhigh 0\nmax 7\noom 2\noom_kill 3\noom_group_kill 1\n");
        file("pids.events", "max 5\n");
        file("cgroup.procs", "11\n12\n");
        assert!(cgroup.is_populated().unwrap());
        assert_eq!((cgroup.oom_kills(), cgroup.refused_tasks()), (Some(3), Some(5)));
        assert_eq!(cgroup.pids(), [11, 12]);
        file("cgroup.events", "populated 0\nfrozen 0\n");
        assert!(!cgroup.is_populated().unwrap());
        file("cgroup.events", "");
        assert!(cgroup.is_populated().unwrap(), "what says nothing may hold somebody");
    }

    #[test]
    fn a_process_that_is_elsewhere_is_never_killed_by_its_number() {
        let mut stranger = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let cgroup = Cgroup::at(dir.path().join("tenure-0123456789abcdef/attempts/7"));
        fs::create_dir_all(cgroup.dir()).unwrap();
        fs::write(cgroup.dir().join("cgroup.procs"), stranger.id().to_string()).unwrap();
        cgroup.freeze_and_kill();
        assert!(stranger.try_wait().unwrap().is_none(), "it lives");
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }
}
