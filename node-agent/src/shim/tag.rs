//! The mark in the environment of every process of an attempt.
//!
//! Responsible for its form: `<owner>-<token>-<random>`. The owner is a hash of the state directory's path, so two
//! agents of one host never take each other's processes for their own; the random part tells two attempts apart
//! whatever became of the directory. Not responsible for finding it (`tree.rs`).
//! Invariant: a tag is unique per attempt and names its owner first.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

/// The name of the variable that carries the tag.
pub(crate) const VARIABLE: &str = "TENURE_ATTEMPT_TAG";

/// Whose attempts: the hash of one state directory's path, in 16 hex digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner(String);

/// The tag of one attempt.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Tag(String);

impl Owner {
    /// The owner that `state_dir`, which exists, stands for.
    pub(crate) fn of(state_dir: &Path) -> io::Result<Self> {
        let path = state_dir.canonicalize()?;
        let hash = digest(&SHA256, path.as_os_str().as_bytes());
        Ok(Self(hex(hash.as_ref().get(..8).unwrap_or_default())))
    }

    /// Its digits.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// A fresh tag for the attempt of `token`.
    pub(crate) fn tag(&self, token: u64) -> io::Result<Tag> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Tag(format!("{}-{token}-{}", self.0, hex(&random))))
    }

    /// Whether this environment carries a tag of this owner that is none of `known`.
    pub(crate) fn owns_another(&self, environ: &[u8], known: &BTreeSet<Tag>) -> bool {
        values(environ).any(|value| {
            let ours = value.strip_prefix(self.0.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'-'));
            ours && !known.iter().any(|tag| tag.0.as_bytes() == value)
        })
    }
}

impl Tag {
    /// Whether this environment carries exactly this tag.
    pub(crate) fn marks(&self, environ: &[u8]) -> bool {
        values(environ).any(|value| value == self.0.as_bytes())
    }

    /// The digits of its owner.
    pub(crate) fn owner(&self) -> Option<&str> {
        self.0.split_once('-').map(|(owner, _)| owner)
    }

    /// The value of the variable.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether this environment carries any tag at all.
pub(crate) fn is_tagged(environ: &[u8]) -> bool {
    values(environ).next().is_some()
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Every value of the variable in the kernel's form of an environment: `NAME=value` with NUL after each.
fn values(environ: &[u8]) -> impl Iterator<Item = &[u8]> {
    environ
        .split(|byte| *byte == 0)
        .filter_map(|entry| entry.strip_prefix(VARIABLE.as_bytes())?.strip_prefix(b"="))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_found_by_itself_and_by_its_owner_alone() {
        let (mine, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (mine, other) = (Owner::of(mine.path()).unwrap(), Owner::of(other.path()).unwrap());
        let tag = mine.tag(7).unwrap();
        let environ = format!("PATH=/bin\0{VARIABLE}={tag}\0HOME=/\0");

        assert!(tag.marks(environ.as_bytes()));
        let none = BTreeSet::new();
        assert!(mine.owns_another(environ.as_bytes(), &none));
        assert!(!mine.owns_another(environ.as_bytes(), &BTreeSet::from([tag.clone()])));
        assert!(is_tagged(environ.as_bytes()));
        assert!(!other.owns_another(environ.as_bytes(), &none));
        assert!(!mine.tag(7).unwrap().marks(environ.as_bytes()), "the random part differs");
        assert!(!is_tagged(format!("X{VARIABLE}={tag}\0").as_bytes()));
    }

    #[test]
    fn an_owner_is_the_same_by_every_path_to_its_directory() {
        let dir = tempfile::tempdir().unwrap();
        let detour = dir.path().join(".");
        assert_eq!(Owner::of(dir.path()).unwrap(), Owner::of(&detour).unwrap());
    }
}
