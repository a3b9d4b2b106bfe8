//! The directory of one attempt: what goes in before it starts, and what is read out when it has ended.
//!
//! Responsible for the payload file, the job's own directories, the result file and the removal of it all. Not
//! responsible for the shim's files in the same directory. All functions block on the disk.
//!
//! Invariants: the job's user can write below `work` and `io` alone; a result is a plain file of that user and within
//! the limit, or it is not read.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use tenure_proto::node::v1::Grant;

use super::indexes::Assigned;
use super::socket::About;
use super::upload::{Large, Limits};
use crate::config::{Account, ResultSource};
use crate::output::{self, Stream};
use crate::shim::ExitRecord;

/// The names of everything in an attempt's directory.
#[derive(Clone, Debug)]
pub(super) struct Workspace {
    dir: PathBuf,
}

/// What a restarted agent needs to know of an attempt.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Memo {
    /// The node slots that it takes.
    pub(super) slots: BTreeMap<String, u32>,
    /// Where its result is found.
    pub(super) result: ResultSource,
    /// The user that runs it.
    pub(super) uid: u32,
    /// What it may ask of itself.
    #[serde(default)]
    pub(super) about: About,
}

/// What was found where a result may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The job wrote none.
    Nothing,
    /// This.
    Bytes(Vec<u8>),
    /// More than a report holds.
    Large(Large),
    /// More than the limit.
    TooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// It is no plain file of the job's user, or the disk says no.
    Unreadable(String),
}

impl Found {
    /// What is to be uploaded.
    pub(super) fn large(&self) -> Option<Large> {
        if let Self::Large(large) = self { Some(large.clone()) } else { None }
    }
}

impl Workspace {
    pub(super) fn new(attempts_dir: &Path, token: u64) -> Self {
        Self { dir: attempts_dir.join(token.to_string()) }
    }

    pub(super) fn at(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The job's fresh directory.
    pub(super) fn work(&self) -> PathBuf {
        self.dir.join("work")
    }

    /// The file that the job may write its result to.
    pub(super) fn result(&self) -> PathBuf {
        self.dir.join("io").join("result")
    }

    /// How large the file is that the job wrote its result to; 0: there is none.
    pub(super) fn result_size(&self) -> u64 {
        fs::symlink_metadata(self.result()).map_or(0, |facts| facts.len())
    }

    /// The file that the job may write what it waits for to, before it ends.
    pub(super) fn wait(&self) -> PathBuf {
        self.dir.join("io").join("wait")
    }

    /// The directories that the job's user can write into.
    pub(super) fn filled(&self) -> [PathBuf; 2] {
        [self.work(), self.dir.join("io")]
    }

    /// The file on the job's standard input.
    pub(super) fn payload(&self) -> PathBuf {
        self.dir.join("payload")
    }

    /// What an earlier attempt saved, for the job to read. There only if something was saved.
    pub(super) fn checkpoint_before(&self) -> PathBuf {
        self.dir.join("before.checkpoint")
    }

    /// The partial result that an earlier attempt left, for the job to read. There only if one did.
    pub(super) fn partial_before(&self) -> PathBuf {
        self.dir.join("before.partial")
    }

    /// Makes everything for a grant. `user`: set if another one than the agent's runs it.
    pub(super) fn prepare(&self, grant: &Grant, memo: &Memo, user: Option<&Account>) -> io::Result<()> {
        let mode = if user.is_some() { 0o711 } else { 0o700 };
        DirBuilder::new().mode(mode).create(&self.dir)?;
        // The agent's umask may have taken bits that the job's user needs to reach its own directories.
        fs::set_permissions(&self.dir, fs::Permissions::from_mode(mode))?;
        for own in self.filled() {
            DirBuilder::new().mode(0o700).create(&own)?;
            if let Some(user) = user {
                std::os::unix::fs::chown(&own, Some(user.uid), Some(user.gid))?;
            }
        }
        let memo = serde_json::to_vec(memo).map_err(io::Error::other)?;
        new_file(&self.dir.join("memo.json"))?.write_all(&memo)?;
        let checkpoint = grant.checkpoint.as_ref().map(|saved| (self.checkpoint_before(), &saved.data));
        let partial = grant.partial.as_ref().map(|result| (self.partial_before(), &result.data));
        for (path, bytes) in checkpoint.into_iter().chain(partial) {
            new_file(&path)?.write_all(bytes)?;
            if let Some(user) = user {
                std::os::unix::fs::chown(&path, Some(user.uid), Some(user.gid))?;
            }
        }
        new_file(&self.payload())?.write_all(&grant.payload)
    }

    /// What [`Workspace::prepare`] wrote down, if it came to that.
    pub(super) fn memo(&self) -> Option<Memo> {
        serde_json::from_slice(&fs::read(self.dir.join("memo.json")).ok()?).ok()
    }

    /// Writes down which numbers of its slots the attempt has, before it starts.
    pub(super) fn remember(&self, assigned: &Assigned) -> io::Result<()> {
        let assigned = serde_json::to_vec(assigned).map_err(io::Error::other)?;
        new_file(&self.dir.join("indexes.json"))?.write_all(&assigned)
    }

    /// What [`Workspace::remember`] wrote down; nothing, if the attempt has no numbers.
    pub(super) fn assigned(&self) -> Assigned {
        let read = fs::read(self.dir.join("indexes.json")).ok();
        read.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    /// Reads the result of a command that has ended.
    pub(super) fn read_result(&self, memo: &Memo, record: &ExitRecord, limits: Limits) -> Found {
        let limit = limits.inline;
        let mut written = read_file(&self.result(), memo.uid, limit)
            .unwrap_or_else(|error| Found::Unreadable(error.to_string()));
        if matches!(written, Found::TooLarge { .. }) {
            written = Large::measure(&self.result(), memo.uid, limits.of(record))
                .unwrap_or_else(|error| Found::Unreadable(error.to_string()));
        }
        if written != Found::Nothing || memo.result == ResultSource::File {
            return written;
        }
        if record.stdout.bytes > limit.min(output::HEAD_BYTES) {
            return Found::TooLarge { limit };
        }
        match output::read_head(&self.dir, Stream::Stdout) {
            Ok(bytes) if bytes.is_empty() => Found::Nothing,
            Ok(bytes) => Found::Bytes(bytes),
            Err(error) => Found::Unreadable(error.to_string()),
        }
    }

    /// Removes everything, also what the job made unreadable for its own user.
    pub(super) fn remove(&self) -> io::Result<()> {
        let removed = fs::remove_dir_all(&self.dir).or_else(|error| {
            if error.kind() != io::ErrorKind::PermissionDenied {
                return Err(error);
            }
            make_writable(&self.dir)?;
            fs::remove_dir_all(&self.dir)
        });
        match removed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    /// Reads what a command waits for that has ended.
    pub(super) fn read_wait(&self, uid: u32, limit: u64) -> Found {
        read_file(&self.wait(), uid, limit).unwrap_or_else(|error| Found::Unreadable(error.to_string()))
    }
}

/// Opens a file that a job wrote. A symlink is not followed, and a pipe does not block.
///
/// # Errors
/// If it is not there, or is no plain file of the job's user.
pub(super) fn open_plain(path: &Path, uid: u32) -> io::Result<fs::File> {
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC).bits()).unwrap_or(0);
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let facts = file.metadata()?;
    if !facts.is_file() || facts.uid() != uid {
        return Err(io::Error::other("it is no plain file of the job's user"));
    }
    Ok(file)
}

fn read_file(path: &Path, uid: u32, limit: u64) -> io::Result<Found> {
    let file = match open_plain(path, uid) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        other => other?,
    };
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    Ok(if length > limit { Found::TooLarge { limit } } else { Found::Bytes(bytes) })
}

fn new_file(path: &Path) -> io::Result<fs::File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn make_writable(dir: &Path) -> io::Result<()> {
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            make_writable(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shim::Cause;

    fn memo(result: ResultSource) -> Memo {
        Memo {
            slots: BTreeMap::new(),
            result,
            uid: rustix::process::geteuid().as_raw(),
            about: About::default(),
        }
    }

    fn record() -> ExitRecord {
        ExitRecord {
            version: crate::shim::VERSION,
            job: "j".to_owned(),
            token: 1,
            started: true,
            cause: Cause::Exit,
            exit_code: Some(0),
            signal: None,
            error: String::new(),
            ran_for: std::time::Duration::ZERO,
            stdout: output::Captured::default(),
            stderr: output::Captured::default(),
            notified: false,
        }
    }

    fn prepared() -> (tempfile::TempDir, Workspace) {
        let home = tempfile::tempdir().unwrap();
        let workspace = Workspace::new(home.path(), 1);
        let grant = Grant { payload: "input".into(), ..Grant::default() };
        workspace.prepare(&grant, &memo(ResultSource::File), None).unwrap();
        (home, workspace)
    }

    #[test]
    fn a_workspace_is_private_and_made_once() {
        let (_home, workspace) = prepared();
        for path in [workspace.dir().to_owned(), workspace.work()] {
            assert_eq!(fs::metadata(path).unwrap().mode() & 0o777, 0o700);
        }
        assert_eq!(fs::metadata(workspace.payload()).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read(workspace.payload()).unwrap(), b"input");
        assert_eq!(workspace.memo().unwrap().result, ResultSource::File);
        assert!(workspace.prepare(&Grant::default(), &memo(ResultSource::File), None).is_err());
    }

    #[test]
    fn a_result_is_a_plain_file_within_the_limit() {
        let (_home, workspace) = prepared();
        let limits = |inline| Limits { inline, uploaded: 5 };
        let read = |limit| workspace.read_result(&memo(ResultSource::File), &record(), limits(limit));
        assert_eq!(read(4), Found::Nothing);
        fs::write(workspace.result(), b"1234").unwrap();
        assert_eq!(read(4), Found::Bytes(b"1234".to_vec()));
        assert!(matches!(read(3), Found::Large(large) if large.size() == 4));
        fs::write(workspace.result(), b"123456").unwrap();
        assert_eq!(read(3), Found::TooLarge { limit: 5 });
        assert_eq!(read(6), Found::Bytes(b"123456".to_vec()));
        let failed = ExitRecord { exit_code: Some(1), ..record() };
        let left = workspace.read_result(&memo(ResultSource::File), &failed, limits(3));
        assert_eq!(left, Found::TooLarge { limit: 3 }, "of a failure nothing is uploaded");
        fs::remove_file(workspace.result()).unwrap();
        std::os::unix::fs::symlink(workspace.payload(), workspace.result()).unwrap();
        assert!(matches!(read(100), Found::Unreadable(_)));
        fs::remove_file(workspace.result()).unwrap();
        fs::create_dir(workspace.result()).unwrap();
        assert!(matches!(read(100), Found::Unreadable(_)));
    }

    #[test]
    fn what_a_job_made_unreadable_is_removed_too() {
        let (_home, workspace) = prepared();
        let locked = workspace.work().join("a/b");
        fs::create_dir_all(&locked).unwrap();
        fs::write(locked.join("file"), b"x").unwrap();
        fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
        workspace.remove().unwrap();
        workspace.remove().unwrap();
        assert!(!workspace.dir().exists());
    }
}
