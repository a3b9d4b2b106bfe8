//! The agent's state directory: its lock, its identity, its layout.
//!
//! Responsible for letting one agent at a time use the directory, and for the numbers that decide which stream of a
//! node wins: `instance`, made once with the directory, and `incarnation`, one more at each start. Not responsible for
//! what lies in `spool` and `attempts`.
//!
//! Invariants: an identity is on the disk before it is used; a copy of the directory never uses the original's
//! instance.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The version of the identity file. Another one is refused: it is of a newer agent.
const VERSION: u32 = 1;
const LOCK: &str = "lock";
const IDENTITY: &str = "identity.json";
const SPOOL: &str = "spool";
const ATTEMPTS: &str = "attempts";

/// A state directory that this agent has for itself, for as long as this lives.
#[derive(Debug)]
pub struct StateDir {
    root: PathBuf,
    identity: Identity,
    lock: Lock,
}

/// The lock of a state directory: nobody else takes it while a clone of this lives.
#[derive(Clone, Debug)]
pub struct Lock {
    /// Holds the OS lock.
    _file: Arc<File>,
}

/// Why the directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another agent uses it.
    #[error("another agent uses the state directory {}: stop it, or give this one its own with `data`", .0.display())]
    Taken(PathBuf),
    /// The identity is of another version.
    #[error("{} is of version {found}, and this agent knows only {VERSION}: use the agent that wrote it", path.display())]
    Version {
        /// Which file.
        path: PathBuf,
        /// What it says.
        found: u32,
    },
    /// The disk says no.
    #[error("cannot {what} {}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On which path.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Identity {
    version: u32,
    instance: String,
    /// Of the host and the directory in which `instance` was made: where they differ, this is a copy.
    machine_id: String,
    device: u64,
    inode: u64,
    incarnation: u64,
    max_epoch_seen: u64,
    /// It was found to be a copy, and what it records of the original's attempts is not forgotten yet.
    #[serde(default)]
    copy: bool,
}

impl StateDir {
    /// Takes the directory, making it if need be, and counts this start. `machine_id` is the host's. `shared`: jobs
    /// run as other users, who must be able to reach their own directories below it.
    ///
    /// # Errors
    /// If another agent has it, or the disk says no.
    pub fn open(root: &Path, machine_id: &str, shared: bool) -> Result<Self, Error> {
        let mode = if shared { 0o711 } else { 0o700 };
        make(root, mode)?;
        let lock = lock(root)?;
        make(&root.join(SPOOL), 0o700)?;
        make(&root.join(ATTEMPTS), mode)?;
        let place = fs::metadata(root).map_err(failed("look at", root))?;
        let path = root.join(IDENTITY);
        let fresh = || Identity {
            version: VERSION,
            instance: uuid::Uuid::new_v4().to_string(),
            machine_id: machine_id.to_owned(),
            device: place.dev(),
            inode: place.ino(),
            incarnation: 0,
            max_epoch_seen: 0,
            copy: false,
        };
        let mut identity = match read(&path)? {
            Some(found) if found.version != VERSION => {
                return Err(Error::Version { path, found: found.version });
            }
            Some(found) if found.is_of(machine_id, &place) => found,
            Some(copied) => {
                tracing::warn!(path = %root.display(), "the state directory is a copy; it gets an instance of its own");
                Identity { copy: true, max_epoch_seen: copied.max_epoch_seen, ..fresh() }
            }
            None => fresh(),
        };
        identity.incarnation += 1;
        let this = Self { root: root.to_owned(), identity, lock: Lock { _file: Arc::new(lock) } };
        this.save()?;
        Ok(this)
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Its lock, for who has something to do here after this value.
    pub fn lock(&self) -> Lock {
        self.lock.clone()
    }

    /// Whether it was found to be a copy of another one, or on another machine: what it records of running attempts is not
    /// this agent's, to take over or to kill.
    pub fn is_copy(&self) -> bool {
        self.identity.copy
    }

    /// What a copy records of the original's attempts is forgotten.
    ///
    /// # Errors
    /// If it cannot be written down; the next start will forget again.
    pub fn forgot_original(&mut self) -> Result<(), Error> {
        if !std::mem::take(&mut self.identity.copy) {
            return Ok(());
        }
        self.save()
    }

    /// Where reports wait for their answers.
    pub fn spool(&self) -> PathBuf {
        self.root.join(SPOOL)
    }

    /// Where each attempt has its directory, named by its token.
    pub fn attempts(&self) -> PathBuf {
        self.root.join(ATTEMPTS)
    }

    /// Random, made with the directory.
    pub fn instance(&self) -> &str {
        &self.identity.instance
    }

    /// The count of agent starts with this instance, from 1.
    pub fn incarnation(&self) -> u64 {
        self.identity.incarnation
    }

    /// The highest epoch that this node has ever seen.
    pub fn max_epoch_seen(&self) -> u64 {
        self.identity.max_epoch_seen
    }

    /// Remembers a higher epoch, on the disk. A lower one changes nothing.
    ///
    /// # Errors
    /// If it cannot be written; it is then remembered until the agent ends.
    pub fn raise_epoch(&mut self, epoch: u64) -> Result<(), Error> {
        if epoch <= self.identity.max_epoch_seen {
            return Ok(());
        }
        self.identity.max_epoch_seen = epoch;
        self.save()
    }

    /// Becomes another instance: a newer stream of the present one is not ours.
    ///
    /// # Errors
    /// If it cannot be written; the old instance is then kept.
    pub fn renew_instance(&mut self) -> Result<(), Error> {
        let before = self.identity.clone();
        self.identity.instance = uuid::Uuid::new_v4().to_string();
        self.identity.incarnation = 1;
        self.save().inspect_err(|_| self.identity = before)
    }

    /// Writes beside, syncs, renames, syncs the directory: after a crash it is the old or the new one.
    fn save(&self) -> Result<(), Error> {
        let path = self.root.join(IDENTITY);
        let text = serde_json::to_vec_pretty(&self.identity)
            .map_err(|error| failed("encode", &path)(io::Error::other(error)))?;
        let beside = path.with_extension("tmp");
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&beside)
            .map_err(failed("create", &beside))?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(failed("write", &beside))?;
        fs::rename(&beside, &path).map_err(failed("replace", &path))?;
        let directory = File::open(&self.root).map_err(failed("open", &self.root))?;
        directory.sync_all().map_err(failed("sync", &self.root))
    }
}

impl Identity {
    fn is_of(&self, machine_id: &str, place: &fs::Metadata) -> bool {
        self.machine_id == machine_id && self.device == place.dev() && self.inode == place.ino()
    }
}

fn make(path: &Path, mode: u32) -> Result<(), Error> {
    DirBuilder::new().recursive(true).mode(mode).create(path).map_err(failed("create", path))?;
    // The directory may be older than the present mode.
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(failed("set the mode of", path))
}

fn lock(root: &Path) -> Result<File, Error> {
    let path = root.join(LOCK);
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(failed("open", &path))?;
    match file.try_lock() {
        Ok(()) => {
            // For people, and for who wants the agent to drain.
            let pid = std::process::id().to_string();
            file.set_len(0)
                .and_then(|()| (&file).write_all(pid.as_bytes()))
                .map_err(failed("write", &path))?;
            Ok(file)
        }
        Err(TryLockError::WouldBlock) => Err(Error::Taken(root.to_owned())),
        Err(TryLockError::Error(source)) => Err(failed("lock", &path)(source)),
    }
}

/// Who has a state directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// No agent.
    Nobody,
    /// This process.
    Process(i32),
    /// An agent whose lock does not say which process it is.
    Unknown,
}

/// Looks at the lock of a state directory.
///
/// # Errors
/// If it cannot be looked at.
pub(crate) fn holder(root: &Path) -> io::Result<Holder> {
    let file = match File::open(root.join(LOCK)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Holder::Nobody),
        Err(error) => return Err(error),
    };
    // Shared: an agent that starts at this very moment may be refused, another look may not.
    match file.try_lock_shared() {
        Ok(()) => return Ok(Holder::Nobody),
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let mut said = String::new();
    file.take(16).read_to_string(&mut said)?;
    Ok(said.trim().parse().map_or(Holder::Unknown, Holder::Process))
}

/// Whether a process has the lock of a state directory open. A number that somebody else got since, or that is of another
/// namespace of processes, does not.
///
/// # Errors
/// If it cannot be looked at.
pub(crate) fn has_lock(root: &Path, pid: i32) -> io::Result<bool> {
    let lock = fs::metadata(root.join(LOCK))?;
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
        let open = fs::metadata(entry?.path());
        if open.is_ok_and(|open| (open.dev(), open.ino()) == (lock.dev(), lock.ino())) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Where the attempts of a state directory are.
pub(crate) fn attempts_of(root: &Path) -> PathBuf {
    root.join(ATTEMPTS)
}

/// Whether there is something in a directory.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn has_entries(path: &Path) -> io::Result<bool> {
    match fs::read_dir(path) {
        Ok(mut entries) => Ok(entries.next().transpose()?.is_some()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn read(path: &Path) -> Result<Option<Identity>, Error> {
    match fs::read(path) {
        Ok(text) => {
            let parsed = serde_json::from_slice(&text);
            Ok(parsed
                .inspect_err(|error| {
                    tracing::error!(path = %path.display(), %error, "the identity is broken; a new one is made");
                })
                .ok())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", path)(error)),
    }
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |source| Error::Io { what, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_start_counts_and_the_instance_stays() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("state");
        let mut first = StateDir::open(&root, "m1", false).unwrap();
        let instance = first.instance().to_owned();
        assert_eq!((first.incarnation(), first.max_epoch_seen()), (1, 0));
        first.raise_epoch(7).unwrap();
        first.raise_epoch(3).unwrap();
        drop(first);
        let second = StateDir::open(&root, "m1", false).unwrap();
        assert_eq!(
            (second.instance(), second.incarnation(), second.max_epoch_seen()),
            (instance.as_str(), 2, 7)
        );
        assert!(second.spool().is_dir() && second.attempts().is_dir());
    }

    #[test]
    fn a_second_agent_is_refused_with_a_sentence() {
        let home = tempfile::tempdir().unwrap();
        let first = StateDir::open(home.path(), "m1", false).unwrap();
        let error = StateDir::open(home.path(), "m1", false).unwrap_err();
        assert!(matches!(error, Error::Taken(_)));
        assert!(error.to_string().starts_with("another agent uses the state directory"), "{error}");
        let own = i32::try_from(std::process::id()).unwrap();
        assert_eq!(holder(home.path()).unwrap(), Holder::Process(own));
        let lock = first.lock();
        drop(first);
        assert!(
            matches!(StateDir::open(home.path(), "m1", false), Err(Error::Taken(_))),
            "it is still needed"
        );
        drop(lock);
        assert_eq!(holder(home.path()).unwrap(), Holder::Nobody);
    }

    #[test]
    fn a_copy_and_a_moved_disk_get_an_instance_of_their_own() {
        let home = tempfile::tempdir().unwrap();
        let (one, two) = (home.path().join("one"), home.path().join("two"));
        let mut first = StateDir::open(&one, "m1", false).unwrap();
        first.raise_epoch(9).unwrap();
        fs::create_dir(&two).unwrap();
        fs::copy(one.join(IDENTITY), two.join(IDENTITY)).unwrap();
        let copy = StateDir::open(&two, "m1", false).unwrap();
        assert_ne!(copy.instance(), first.instance());
        assert_eq!((copy.incarnation(), copy.max_epoch_seen()), (1, 9));
        assert!(copy.is_copy() && !first.is_copy());
        let instance = first.instance().to_owned();
        drop(first);
        assert_ne!(StateDir::open(&one, "m2", false).unwrap().instance(), instance);
    }

    #[test]
    fn a_broken_identity_is_replaced_and_a_newer_one_is_refused() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join(IDENTITY), "{").unwrap();
        let mut this = StateDir::open(home.path(), "m1", true).unwrap();
        let instance = this.instance().to_owned();
        this.renew_instance().unwrap();
        assert_ne!(this.instance(), instance);
        drop(this);
        let path = home.path().join(IDENTITY);
        let newer = fs::read_to_string(&path).unwrap().replace("\"version\": 1", "\"version\": 2");
        fs::write(&path, newer).unwrap();
        assert!(matches!(StateDir::open(home.path(), "m1", true), Err(Error::Version { found: 2, .. })));
    }
}
