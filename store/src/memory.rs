//! The store in memory, for tests and simulation: the same promises but for the disk, and it can be told to fail.
//!
//! Its constraints have the names of the schema's, so that a bug of ours is caught in a simulation as it would be on a
//! disk. What it does not have: the `inv_*` views (the scheduler checks its own memory), bounded reads, persistence.

mod journal;
mod outbox;
mod reader;
mod tables;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use self::tables::Tables;
pub use self::{journal::MemoryJournal, reader::MemoryReader};
use crate::{Reader, election::Trust};

/// A store in memory. Clones are the same store.
#[derive(Debug, Clone)]
pub struct Memory {
    shared: Arc<Mutex<Shared>>,
    gate: watch::Sender<bool>,
    lookups: watch::Sender<bool>,
}

/// What the next commit does instead of its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Its outcome is unknown, and it was written.
    UnknownApplied,
    /// Its outcome is unknown, and nothing was written.
    UnknownLost,
    /// Another leader took over just before it.
    Deposed,
    /// A constraint of this name fires.
    Constraint(&'static str),
}

#[derive(Debug, Default)]
struct Shared {
    tables: Tables,
    /// What the next commits do, and how many of them.
    fault: Option<(Fault, u32)>,
    away: bool,
    commits: u64,
    waiting: u64,
    trust: Trust,
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self { shared: Arc::default(), gate: watch::Sender::new(false), lookups: watch::Sender::new(false) }
    }

    /// A writer. A second one is another leader: whoever took over last writes.
    #[must_use]
    pub fn journal(&self) -> MemoryJournal {
        MemoryJournal::new(self.clone())
    }

    /// A reader.
    #[must_use]
    pub fn reader(&self) -> Reader {
        Reader::Memory(MemoryReader::new(self.clone()))
    }

    /// Lets the next commit fail in this way, once.
    pub fn fail_next_commit(&self, fault: Fault) {
        self.fail_commits(fault, 1);
    }

    /// Lets so many of the next commits fail in this way.
    pub fn fail_commits(&self, fault: Fault, commits: u32) {
        self.lock().fault = (commits > 0).then_some((fault, commits));
    }

    /// While it is away, every call of every journal and reader fails.
    pub fn set_away(&self, away: bool) {
        self.lock().away = away;
    }

    /// Lets its leaders trust themselves by this, as where others can take over. Journals that are made later have it.
    pub fn let_trust(&self, trust: Trust) {
        self.lock().trust = trust;
    }

    /// While they are held, commits wait before they begin. [`Memory::waiting`] tells how many do.
    pub fn hold_commits(&self, held: bool) {
        self.gate.send_replace(held);
    }

    /// The same of lookups.
    pub fn hold_lookups(&self, held: bool) {
        self.lookups.send_replace(held);
    }

    /// How many commits and lookups wait because they are held.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.lock().waiting
    }

    /// How many commits were written.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.lock().commits
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // A panic under the lock is a failed test already; what it left behind is looked at as it is.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
