//! What the command of an attempt has said of itself, kept in its directory, so that the next agent knows it too.
//!
//! Responsible for the bounds of these words and for their file. Not responsible for who may say them (`socket.rs`), nor
//! for what becomes of them (`runner/outcome.rs`, `socket/wait.rs`).
//!
//! Invariants: the file is whole or the one before; sums never exceed what the server takes; of one attempt at most one wait
//! is open. The file is not synced: after a crash of the host nothing of the attempt is left to be taken over.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::is_name;
use crate::holdings::WaitVerdict;
use crate::runner::replace::replace;

/// Counters of one attempt.
pub(crate) const MOST_COUNTERS: usize = 16;
/// The most of one counter: what a double can count.
pub(crate) const MOST_USAGE: u64 = 1 << 53;
/// Reports of usage that are known again. Callers repeat one within seconds, and few speak at once.
const MOST_REPORTS: usize = 64;
/// The name of the file in the attempt's directory.
const NAME: &str = "said.json";

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Said {
    /// What it used, by counter.
    #[serde(default)]
    pub(crate) usage: BTreeMap<String, u64>,
    /// The newest reports of it, the oldest first: each is in the sums.
    #[serde(default)]
    pub(crate) reports: VecDeque<String>,
    /// Why it is about to fail.
    #[serde(default)]
    pub(crate) failure: Option<Failure>,
    /// Its newest wait.
    #[serde(default)]
    pub(crate) wait: Option<Wait>,
    /// It was asked to wrap up. Not its own word, but one that it may ask for.
    #[serde(default)]
    pub(crate) wrap_up: bool,
}

/// Why an attempt fails, in its own words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    /// For people.
    pub(crate) reason: String,
    /// No further attempt would help.
    pub(crate) permanent: bool,
    /// Not before this long.
    pub(crate) retry_after: Option<Duration>,
    /// A fleet slot that stands for a provider that wants no more for `retry_after`.
    pub(crate) throttled: Option<String>,
}

/// A wait during which the process stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wait {
    /// Which wait of this lease, from 1.
    pub(crate) epoch: u64,
    /// Which call of the command. The same again is the same wait.
    pub(crate) id: String,
    /// What for.
    pub(crate) terms: Terms,
    /// How it stands.
    pub(crate) stand: Stand,
}

/// What a process waits for, as it said it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Terms {
    /// Ids of children.
    pub(crate) children: Vec<String>,
    /// `tenure.v1.WaitPolicy`.
    pub(crate) policy: i32,
    /// With the policy that asks for it.
    pub(crate) at_least: u32,
    /// It goes on then in any case.
    pub(crate) max_wait: Option<Duration>,
}

/// How a wait stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stand {
    /// The server was asked, or is to be; whether it parked the lease is not known.
    Asked,
    /// The lease holds this only, until the server says otherwise.
    Parked {
        /// By node slot.
        kept: BTreeMap<String, u32>,
    },
    /// It is over.
    Over {
        /// How.
        verdict: WaitVerdict,
        /// What the lease holds, if that is not all.
        kept: Option<BTreeMap<String, u32>>,
    },
    /// The server refused it.
    Refused {
        /// A `tonic::Code`.
        code: i32,
        /// For people.
        message: String,
        /// Its stable word.
        reason: String,
    },
}

impl Said {
    /// What an attempt has said so far; nothing, if there is no such file, or it cannot be read, which is logged.
    pub(crate) fn read(dir: &Path) -> Self {
        match fs::read(dir.join(NAME)) {
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_else(|error| {
                tracing::error!(dir = %dir.display(), %error, "what an attempt has said of itself is lost");
                Self::default()
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::default(),
            Err(error) => {
                tracing::error!(dir = %dir.display(), %error, "what an attempt has said of itself cannot be read");
                Self::default()
            }
        }
    }

    /// Replaces the file.
    ///
    /// # Errors
    /// If the disk says no: the file is the one before.
    pub(crate) fn write(&self, dir: &Path) -> io::Result<()> {
        let bytes = serde_json::to_vec(self).map_err(io::Error::other)?;
        replace(dir, NAME, &bytes)
    }

    /// Adds a report to what was used, unless it is one that was added before. Without an id it is always another.
    ///
    /// # Errors
    /// What is wrong with it: nothing was added.
    pub(crate) fn report(
        &mut self,
        id: String,
        used: &BTreeMap<String, u64>,
    ) -> Result<(), (String, String)> {
        if id.is_empty() {
            return self.add(used);
        }
        if self.reports.contains(&id) {
            return Ok(());
        }
        self.add(used)?;
        self.reports.push_back(id);
        while self.reports.len() > MOST_REPORTS {
            self.reports.pop_front();
        }
        Ok(())
    }

    /// Adds to what was used.
    ///
    /// # Errors
    /// What is wrong with it: nothing was added.
    fn add(&mut self, used: &BTreeMap<String, u64>) -> Result<(), (String, String)> {
        let mut sums = self.usage.clone();
        for (counter, amount) in used {
            let field = format!("usage[{counter:?}]");
            if !is_name(counter) {
                return Err((
                    field,
                    "is no name: use 1 to 63 of a-z, 0-9, dot, underscore and hyphen".into(),
                ));
            }
            let sum = sums.get(counter).copied().unwrap_or(0).saturating_add(*amount);
            if sum > MOST_USAGE {
                return Err((field, format!("would be above {MOST_USAGE}")));
            }
            sums.insert(counter.clone(), sum);
        }
        if sums.len() > MOST_COUNTERS {
            return Err((
                "usage".into(),
                format!("would be {} counters, at most {MOST_COUNTERS}", sums.len()),
            ));
        }
        self.usage = sums;
        Ok(())
    }

    /// The wait that goes on.
    pub(crate) fn open_wait(&self) -> Option<&Wait> {
        self.wait.as_ref().filter(|wait| wait.is_open())
    }
}

impl Wait {
    /// Whether it goes on.
    pub(crate) fn is_open(&self) -> bool {
        match self.stand {
            Stand::Asked | Stand::Parked { .. } => true,
            Stand::Over { .. } | Stand::Refused { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
        pairs.iter().map(|&(counter, amount)| (counter.to_owned(), amount)).collect()
    }

    #[test]
    fn usage_is_added_up_within_bounds_or_not_at_all() {
        let mut said = Said::default();
        said.add(&used(&[("tokens", 5), ("calls", 1)])).unwrap();
        said.add(&used(&[("tokens", 7)])).unwrap();
        assert_eq!(said.usage, used(&[("tokens", 12), ("calls", 1)]));
        for bad in [("Tokens", 1), ("", 1), ("a b", 1), ("tokens", MOST_USAGE), ("tokens", u64::MAX)] {
            assert!(said.add(&used(&[("calls", 1), bad])).is_err(), "{bad:?}");
        }
        let many: BTreeMap<_, _> = (0..15).map(|n| (format!("c{n}"), 1)).collect();
        assert_eq!(said.add(&many).unwrap_err().0, "usage");
        assert_eq!(said.usage, used(&[("tokens", 12), ("calls", 1)]));
    }

    #[test]
    fn the_same_report_is_added_once_also_by_the_next_agent() {
        let dir = tempfile::tempdir().unwrap();
        let mut said = Said::default();
        said.report("a".into(), &used(&[("tokens", 5)])).unwrap();
        said.report("a".into(), &used(&[("tokens", 5)])).unwrap();
        said.report("b".into(), &used(&[("tokens", 7)])).unwrap();
        assert_eq!(said.usage, used(&[("tokens", 12)]));
        // One that was refused is not known: the same id may come again with what can be added.
        assert!(said.report("c".into(), &used(&[("tokens", MOST_USAGE)])).is_err());
        said.report("c".into(), &used(&[("tokens", 1)])).unwrap();
        said.write(dir.path()).unwrap();
        let mut next = Said::read(dir.path());
        for id in ["a", "b", "c"] {
            next.report(id.into(), &used(&[("tokens", 100)])).unwrap();
        }
        assert_eq!(next.usage, used(&[("tokens", 13)]));
        // Without an id each is another.
        next.report(String::new(), &used(&[("tokens", 1)])).unwrap();
        next.report(String::new(), &used(&[("tokens", 1)])).unwrap();
        assert_eq!(next.usage, used(&[("tokens", 15)]));
        for n in 0..2 * MOST_REPORTS {
            next.report(n.to_string(), &used(&[("calls", 1)])).unwrap();
        }
        assert_eq!(next.reports.len(), MOST_REPORTS);
        next.report((2 * MOST_REPORTS - 1).to_string(), &used(&[("calls", 1)])).unwrap();
        assert_eq!(next.usage["calls"], 2 * MOST_REPORTS as u64);
    }

    #[test]
    fn what_was_said_outlives_the_agent_and_a_broken_file_is_nothing() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Said::read(dir.path()), Said::default());
        let mut said = Said::default();
        said.add(&used(&[("tokens", 5)])).unwrap();
        said.failure = Some(Failure {
            reason: "no".into(),
            permanent: true,
            retry_after: Some(Duration::from_secs(60)),
            throttled: Some("api".into()),
        });
        let stand = Stand::Parked { kept: BTreeMap::from([("mem".into(), 2)]) };
        said.wait = Some(Wait { epoch: 3, id: "w".into(), terms: Terms::default(), stand });
        said.write(dir.path()).unwrap();
        assert_eq!(Said::read(dir.path()), said);
        assert!(said.open_wait().is_some());
        fs::write(dir.path().join(NAME), b"{").unwrap();
        assert_eq!(Said::read(dir.path()), Said::default());
    }
}
