//! What the next agent must know of an attempt in a worker: one small file each, written before the worker hears of it.
//!
//! Responsible for writing it whole or not at all, and for the scan at the start. Not responsible for killing.
//! Invariant: no worker runs an attempt of which no record stands.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::clock::Mono;
use crate::shim::tree::Identity;

/// The version of the file's form.
const VERSION: u32 = 1;
/// The end of its name.
const END: &str = "json";

/// An attempt that a worker runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The form of the file.
    pub(crate) version: u32,
    /// The job.
    pub(crate) job: String,
    /// The fencing token.
    pub(crate) token: u64,
    /// The boot that the pid belongs to.
    pub(crate) boot_id: String,
    /// The worker.
    pub(crate) worker: Identity,
    /// By when it must be gone, as it was at the start; renewals are not written down.
    pub(crate) gone_by: Mono,
    /// The node slots that the attempt takes.
    pub(crate) slots: BTreeMap<String, u32>,
    /// The numbers of its units of slots that have numbers.
    pub(crate) indexes: BTreeMap<String, Vec<u32>>,
}

impl Record {
    /// A record of this form.
    pub(crate) fn new(job: String, token: u64, boot_id: String, worker: Identity) -> Self {
        let (slots, indexes) = (BTreeMap::new(), BTreeMap::new());
        Self { version: VERSION, job, token, boot_id, worker, gone_by: Mono::ZERO, slots, indexes }
    }

    /// Writes it by a temporary file and a rename. Not synced: a host that crashes changes its boot id. Blocks.
    pub(crate) fn write(&self, directory: &Path) -> io::Result<()> {
        let path = path(directory, self.token);
        let temporary = path.with_extension("tmp");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        options.open(&temporary)?.write_all(&serde_json::to_vec(self)?)?;
        fs::rename(temporary, path)
    }
}

/// Where the socket of an attempt is, and what it has said. Not there if its worker has nothing to say.
pub(crate) fn attempt_dir(directory: &Path, token: u64) -> PathBuf {
    directory.join(token.to_string())
}

/// Removes the record of an attempt, of which nothing runs any more, and what it has said. Blocks.
pub(crate) fn remove(directory: &Path, token: u64) {
    remove_said(&attempt_dir(directory, token));
    if let Err(error) = fs::remove_file(path(directory, token))
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(lease.token = token, %error, "the record of a worker's attempt cannot be removed");
    }
}

fn remove_said(directory: &Path) {
    if let Err(error) = fs::remove_dir_all(directory)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(path = %directory.display(), %error, "what a worker's attempt has said cannot be removed");
    }
}

/// Every record of an earlier agent; what cannot be read says nothing and is removed, and what was said by an attempt that has
/// no record. Blocks.
pub(crate) fn scan(directory: &Path) -> io::Result<Vec<Record>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut records = Vec::new();
    let mut said = BTreeMap::new();
    for entry in entries {
        let path = entry?.path();
        if let Some(token) = path.file_name().and_then(|name| name.to_str()?.parse::<u64>().ok()) {
            said.insert(token, path);
            continue;
        }
        let end = path.extension().and_then(|end| end.to_str());
        if !matches!(end, Some(END | "tmp")) {
            continue;
        }
        let read = fs::read(&path).ok().and_then(|bytes| serde_json::from_slice::<Record>(&bytes).ok());
        match read.filter(|record| record.version == VERSION && end == Some(END)) {
            Some(record) => records.push(record),
            None => {
                tracing::warn!(path = %path.display(), "the record of a worker's attempt cannot be read");
                fs::remove_file(&path)?;
            }
        }
    }
    for record in &records {
        said.remove(&record.token);
    }
    said.values().for_each(|orphan| remove_said(orphan));
    Ok(records)
}

fn path(directory: &Path, token: u64) -> PathBuf {
    directory.join(format!("{token}.{END}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_found_again_until_it_is_removed_and_rubbish_is_not() {
        let home = tempfile::tempdir().unwrap();
        let record = Record::new("j".to_owned(), 7, "boot".to_owned(), Identity { pid: 3, start: 4 });
        record.write(home.path()).unwrap();
        fs::write(home.path().join("8.json"), "{").unwrap();
        fs::write(home.path().join("9.tmp"), "").unwrap();
        fs::write(home.path().join("0.sock"), "").unwrap();
        for token in [7, 8] {
            fs::create_dir(attempt_dir(home.path(), token)).unwrap();
        }
        assert_eq!(scan(home.path()).unwrap(), [record]);
        assert!(attempt_dir(home.path(), 7).exists() && !attempt_dir(home.path(), 8).exists());
        remove(home.path(), 7);
        remove(home.path(), 7);
        assert_eq!(scan(home.path()).unwrap(), []);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1, "a socket is no record");
        assert_eq!(scan(&home.path().join("none")).unwrap(), []);
    }
}
