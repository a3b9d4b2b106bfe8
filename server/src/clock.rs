//! The server's only reader of time: a steady clock for everything that is measured, and the wall clock for what is
//! stored. Decides nothing: what counts as silence is the driver's business (`driver/pulse.rs`).
//!
//! Invariant: no other file of this crate reads a clock, so a test that steps the wall clock steps all of it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, UNIX_EPOCH},
};

use rustix::time::{ClockId, clock_gettime};
use tenure_scheduler::Wall;

/// Which clock the server runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// The steady clock.
    pub base: Base,
    /// Added to every reading of the wall clock, in microseconds. For tests; 0 otherwise.
    pub wall_offset_us: i64,
}

/// A steady clock of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Base {
    /// It goes on while the host sleeps: nodes on other hosts did not sleep.
    #[default]
    Boot,
    /// It stands still while the host sleeps: under `tenure up` server and node sleep together and lose nothing.
    Monotonic,
}

/// Reads both clocks. Cheap to clone; all clones share one offset.
#[derive(Debug, Clone)]
pub struct Clock {
    base: Base,
    wall_offset_us: Arc<AtomicI64>,
}

impl Clock {
    /// A clock by these options.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self { base: options.base, wall_offset_us: Arc::new(AtomicI64::new(options.wall_offset_us)) }
    }

    /// The steady clock: only differences mean anything.
    #[must_use]
    pub fn steady(&self) -> Duration {
        let id = match self.base {
            #[cfg(target_os = "linux")]
            Base::Boot => ClockId::Boottime,
            #[cfg(not(target_os = "linux"))]
            Base::Boot => ClockId::Monotonic, // no such clock there
            Base::Monotonic => ClockId::Monotonic,
        };
        Duration::try_from(clock_gettime(id)).unwrap_or_default() // it begins at the boot of the host
    }

    /// The wall clock in whole microseconds, with the offset of tests.
    #[must_use]
    pub fn wall(&self) -> Wall {
        #[expect(clippy::disallowed_methods, reason = "the server's one reader of the wall clock")]
        let now = std::time::SystemTime::now();
        let since = match now.duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_micros()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_micros()).map_or(i64::MIN, |us| -us),
        };
        Wall(since.saturating_add(self.wall_offset_us.load(Ordering::Relaxed)))
    }

    /// Steps the wall clock of this server to another offset. For tests.
    pub fn set_wall_offset_us(&self, offset: i64) {
        self.wall_offset_us.store(offset, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_the_wall_clock_reaches_every_clone_and_no_steady_reading() {
        let clock = Clock::new(Options::default());
        let other = clock.clone();
        let (steady, wall) = (other.steady(), other.wall());
        clock.set_wall_offset_us(-3_600_000_000);
        assert!(other.wall() < wall);
        assert!(other.steady() >= steady && other.steady() - steady < Duration::from_secs(60));
    }
}
