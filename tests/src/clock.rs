//! The harness's only reader of time.
//!
//! Responsible for CLOCK_BOOTTIME, which the jobs write into their log too, so that what the harness saw and what the
//! jobs did stand on one line.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A moment: nanoseconds of CLOCK_BOOTTIME.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u64);

impl Moment {
    /// The present moment.
    pub fn now() -> Self {
        let time = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
        Self(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
    }

    /// How long after `earlier`; zero if it is not.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The moment this much later.
    #[must_use]
    pub fn plus(self, length: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// How long ago it was.
    pub fn elapsed(self) -> Duration {
        Self::now().since(self)
    }
}
