//! The two files of an attempt directory that outlive the shim: `state` and `exit`.
//!
//! Responsible for writing them whole or not at all and for reading them with a limit. `state` is not fsynced: a
//! host that crashes changes its boot id, and then the file says nothing. `exit` is.
//! Invariant: a reader sees a whole file or none.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::spec::ExitRecord;
use super::tag::Tag;
use super::tree::{Identity, Tree};
use crate::cgroup::Cgroup;
use crate::clock::{Clock, Mono};

/// The name of the state file.
pub(crate) const STATE: &str = "state";
/// The name of the exit record.
pub(crate) const EXIT: &str = "exit";
/// A file longer than this is not ours, in bytes.
const LIMIT: u64 = 256 * 1024;

/// What the next agent must know of an attempt: written before anything starts, and again with the child before
/// the child may execute the command. So a state without a child never started.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct State {
    /// `spec::VERSION`.
    pub(crate) version: u32,
    /// The job.
    pub(crate) job: String,
    /// The fencing token.
    pub(crate) token: u64,
    /// The mark of its processes.
    pub(crate) tag: Tag,
    /// The boot that the pids belong to.
    pub(crate) boot_id: String,
    /// The shim; its pid is the number of the session.
    pub(crate) shim: Identity,
    /// The command; its pid is the number of its group.
    pub(crate) child: Option<Identity>,
    /// Who runs it.
    pub(crate) uid: Option<u32>,
    /// The clock of the deadlines.
    pub(crate) clock: Clock,
    /// Between SIGTERM and SIGKILL.
    pub(crate) grace: Duration,
    /// The lease.
    pub(crate) lease: Duration,
    /// From the start of the command.
    pub(crate) hard_time_limit: Duration,
    /// As it was at the start; renewals are not written down.
    pub(crate) gone_by: Mono,
    /// What holds its processes, if anything does.
    #[serde(default)]
    pub(crate) cgroup: Option<PathBuf>,
}

impl State {
    /// How its processes are known to anybody but the shim.
    pub(crate) fn tree(&self) -> Tree {
        let recorded = |dir: &PathBuf| Cgroup::recorded(dir, &self.tag, self.token);
        let cgroup = self.cgroup.as_ref().and_then(recorded);
        Tree { tag: self.tag.clone(), keeper: self.shim, uid: self.uid, zombies: false, cgroup }
    }

    /// Writes it by a temporary file and a rename.
    pub(crate) fn write(&self, dir: &Path) -> io::Result<()> {
        write(dir, STATE, self, Durable::No)
    }

    /// Reads it; `None` if there is none.
    pub(crate) fn read(dir: &Path) -> io::Result<Option<Self>> {
        read(&dir.join(STATE))
    }
}

impl ExitRecord {
    /// Writes it and waits for the disk.
    pub(crate) fn write(&self, dir: &Path) -> io::Result<()> {
        write(dir, EXIT, self, Durable::Yes)
    }

    /// Reads it; `None` if there is none.
    pub(crate) fn read(dir: &Path) -> io::Result<Option<Self>> {
        read(&dir.join(EXIT))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Durable {
    Yes,
    No,
}

fn write<T: Serialize>(dir: &Path, name: &str, content: &T, durable: Durable) -> io::Result<()> {
    let bytes = serde_json::to_vec(content)?;
    let temporary = dir.join(format!("{name}.tmp"));
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .custom_flags(no_follow())
        .open(&temporary)?;
    file.write_all(&bytes)?;
    if durable == Durable::Yes {
        file.sync_all()?;
    }
    fs::rename(&temporary, dir.join(name))?;
    if durable == Durable::Yes {
        File::open(dir)?.sync_all()?;
    }
    Ok(())
}

fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    let file = match OpenOptions::new().read(true).custom_flags(no_follow()).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(LIMIT).read_to_end(&mut bytes)?;
    Ok(Some(serde_json::from_slice(&bytes)?))
}

/// A job of the agent's own user may have put a link there; FIFOs would block without the second flag.
fn no_follow() -> i32 {
    (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed()
}
