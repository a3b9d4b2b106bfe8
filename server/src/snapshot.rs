//! The published view: health, slots, nodes and kinds, as they were after a commit.
//!
//! Responsible for how often it is made: after changes, at most every 250 ms, since it costs a pass over kinds and
//! nodes; once a second while anything lives, since ages grow without changes. Not for what is in it
//! (`tenure_scheduler::Snapshot`). Invariant: it is made of committed state only.

use std::{sync::Arc, time::Duration};

use tenure_scheduler::{Now, Snapshot, State, Wall};
use tokio::sync::watch;

/// No two snapshots come closer together than this.
const AT_MOST_EVERY: Duration = Duration::from_millis(250);

/// While jobs or nodes live, a snapshot is no older than this.
const AT_LEAST_EVERY: Duration = Duration::from_secs(1);

/// A snapshot with its age.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Published {
    /// The figures.
    pub snapshot: Arc<Snapshot>,
    /// When they were taken.
    pub taken_at: Wall,
    /// The same instant on the server's steady clock. None: nothing was published in this term, or there is none.
    pub taken_steady: Option<Duration>,
}

/// Decides when to publish. Owned by the driver.
#[derive(Debug)]
pub(crate) struct Publisher {
    out: watch::Sender<Arc<Published>>,
    /// By the steady clock; none before the first.
    last: Option<Duration>,
    changed: bool,
}

impl Publisher {
    pub(crate) fn new(out: watch::Sender<Arc<Published>>) -> Self {
        Self { out, last: None, changed: true }
    }

    /// The state changed, and that is committed.
    pub(crate) fn changed(&mut self) {
        self.changed = true;
    }

    /// How long until the next snapshot is due.
    pub(crate) fn due_in(&self, steady: Duration) -> Duration {
        let Some(last) = self.last else { return Duration::ZERO };
        let every = if self.changed { AT_MOST_EVERY } else { AT_LEAST_EVERY };
        (last + every).saturating_sub(steady)
    }

    /// Publishes if it is time.
    pub(crate) fn publish_if_due(&mut self, steady: Duration, state: &State, now: Now) {
        if !self.due_in(steady).is_zero() {
            return;
        }
        let snapshot = Arc::new(state.snapshot(now));
        let taken_steady = Some(steady);
        self.out.send_replace(Arc::new(Published { snapshot, taken_at: now.wall, taken_steady }));
        self.last = Some(steady);
        self.changed = false;
    }
}
