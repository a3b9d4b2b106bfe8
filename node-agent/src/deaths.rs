//! Agents of one state directory that died soon after each other: what runs here may be what kills them.
//!
//! Responsible for counting starts that no orderly end has followed. Not responsible for what comes of it
//! (`leftovers.rs`): after too many an agent takes nothing over, so that a job that kills each agent is a loss in the end
//! and its node gets rid of it.
//! Invariants: an agent that ends in good order is forgotten with all that died before it; one that says itself why it
//! cannot go on has not died, and is no good order either.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Mono;

/// The name of the file in the state directory.
const NAME: &str = "deaths.json";
/// So many deaths in a row are no accident.
pub const MOST: usize = 5;
/// Within this time.
pub const WITHIN: Duration = Duration::from_secs(5 * 60);

/// The record of one state directory.
#[derive(Debug, Clone)]
pub struct Deaths {
    path: PathBuf,
    /// When this agent started.
    own: Mono,
}

/// The file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Starts {
    /// The boot whose clock `at` is read on.
    boot_id: String,
    /// When agents started that have not ended in good order, oldest first.
    at: Vec<Mono>,
}

impl Deaths {
    /// Writes down that an agent starts `now`. Answers how many before it died lately, at most [`MOST`].
    ///
    /// # Errors
    /// If that cannot be written. A file that cannot be read counts for nothing.
    pub fn begin(state_dir: &Path, boot_id: &str, now: Mono) -> io::Result<(Self, usize)> {
        let path = state_dir.join(NAME);
        let read = fs::read(&path).ok().and_then(|bytes| serde_json::from_slice::<Starts>(&bytes).ok());
        let mut at =
            read.filter(|starts| starts.boot_id == boot_id).map(|starts| starts.at).unwrap_or_default();
        at.retain(|start| *start <= now && now.since(*start) < WITHIN);
        at.drain(..at.len().saturating_sub(MOST));
        let died = at.len();
        at.push(now);
        write(&path, &Starts { boot_id: boot_id.to_owned(), at })?;
        Ok((Self { path, own: now }, died))
    }

    /// The agent ends by itself, with an error: nothing killed it. What died before it still counts.
    pub fn withdraw(&self) {
        let read = fs::read(&self.path).ok().and_then(|bytes| serde_json::from_slice::<Starts>(&bytes).ok());
        let Some(mut starts) = read else { return };
        if let Some(own) = starts.at.iter().rposition(|start| *start == self.own) {
            starts.at.remove(own);
            // One that cannot be taken back counts once too often: harmless.
            write(&self.path, &starts).ok();
        }
    }

    /// The agent ends in good order.
    pub fn forget(&self) {
        // One that cannot be removed counts once too often: harmless.
        fs::remove_file(&self.path).ok();
    }
}

fn write(path: &Path, starts: &Starts) -> io::Result<()> {
    let beside = path.with_extension("tmp");
    // No fsync: a host that crashes changes its boot id.
    fs::write(&beside, serde_json::to_vec(starts)?)?;
    fs::rename(&beside, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Mono {
        Mono::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn deaths_in_a_row_are_counted_until_one_ends_in_good_order() {
        let dir = tempfile::tempdir().unwrap();
        let begin = |boot: &str, second| Deaths::begin(dir.path(), boot, at(second)).unwrap();
        let counted: Vec<_> = (0..8).map(|n| begin("a", 1_000 + n).1).collect();
        assert_eq!(counted, [0, 1, 2, 3, 4, 5, 5, 5]);
        begin("a", 1_100).0.forget();
        assert_eq!(begin("a", 1_101).1, 0);
        assert_eq!(begin("a", 1_102).1, 1);
        assert_eq!(begin("a", 1_401).1, 1, "the first is too long ago");
        assert_eq!(begin("b", 1_402).1, 0, "another boot has another clock");
        assert_eq!(begin("b", 1_000).1, 0, "a clock that went back counts nothing");
        fs::write(dir.path().join(NAME), "nonsense").unwrap();
        assert_eq!(begin("b", 1_403).1, 0);
    }

    #[test]
    fn an_agent_that_fails_by_itself_is_no_death_and_clears_none() {
        let dir = tempfile::tempdir().unwrap();
        let begin = |second| Deaths::begin(dir.path(), "a", at(second)).unwrap();
        begin(1_000);
        for second in 1_001..1_010 {
            let (own, died) = begin(second);
            assert_eq!(died, 1);
            own.withdraw();
            own.withdraw();
        }
        assert_eq!(begin(1_020).1, 1);
        let (own, died) = begin(1_021);
        assert_eq!(died, 2);
        own.forget();
        own.withdraw();
        assert_eq!(begin(1_022).1, 0);
    }
}
