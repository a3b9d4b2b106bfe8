//! The node's only reader of time.
//!
//! Responsible for one monotonic time line, [`Mono`], that the agent, its shims and its deadlines share: the kernel's
//! own clock, so a value that one process wrote down means the same in another process of the same boot. Not
//! responsible for wall-clock time, which the node never needs, and not for deciding anything.
//!
//! Invariant: nothing else in this crate reads a clock.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};
use serde::{Deserialize, Serialize};

/// The longest single sleep of [`Clock::sleep_until`]. Tokio's timers do not count the time that a host is suspended,
/// so a long sleep is cut into pieces, each followed by a look at the clock.
///
/// Shorter, and an agent that follows 500 shims would be woken hundreds of times a second for nothing. Longer, and what
/// ran out while the host slept would be noticed late. No job runs on because of it: its own deadlines hang on the
/// kernel's timer in its shim, which counts the sleep; the agent's are the second line (a stuck shim), heartbeats, which
/// are seconds apart anyway, and drains.
const LONGEST_NAP: Duration = Duration::from_secs(10);

/// A moment on the node's monotonic time line: microseconds since the clock's own zero (usually the host's boot).
/// Comparable only within one boot and one [`Clock`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Mono(u64);

/// Which clock of the kernel the time line is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// CLOCK_BOOTTIME, which counts while the host is suspended: a lease goes on running out. The default.
    #[default]
    Boottime,
    /// CLOCK_MONOTONIC, which stands still while the host is suspended. For `tenure up`, where server and jobs share
    /// the host and therefore sleep together.
    Monotonic,
}

impl Clock {
    /// The present moment.
    pub fn now(self) -> Mono {
        Mono::from_timespec(clock_gettime(self.id()))
    }

    /// The kernel's name of this clock, for timers that wait on it.
    pub fn id(self) -> ClockId {
        match self {
            #[cfg(target_os = "linux")]
            Self::Boottime => ClockId::Boottime,
            // CLOCK_MONOTONIC counts suspended time on macOS.
            #[cfg(not(target_os = "linux"))]
            Self::Boottime => ClockId::Monotonic,
            Self::Monotonic => ClockId::Monotonic,
        }
    }

    /// Returns once `deadline` has passed on this clock; at most 10 s late after a suspend. Cancel-safe.
    pub async fn sleep_until(self, deadline: Mono) {
        loop {
            let left = deadline.since(self.now());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(LONGEST_NAP)).await;
        }
    }
}

impl Mono {
    /// The clock's zero.
    pub const ZERO: Self = Self(0);
    /// Later than any moment that can be reached.
    pub const MAX: Self = Self(u64::MAX);

    /// The moment `micros` after the clock's zero.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the clock's zero.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this is; zero if it is not after it.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }

    /// This moment as the kernel's timers take it.
    pub fn to_timespec(self) -> Timespec {
        Timespec {
            tv_sec: i64::try_from(self.0 / 1_000_000).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(self.0 % 1_000_000 * 1_000).unwrap_or(0),
        }
    }

    fn from_timespec(time: Timespec) -> Self {
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
        Self(seconds.saturating_mul(1_000_000).saturating_add(nanos / 1_000))
    }
}

impl Add<Duration> for Mono {
    type Output = Self;

    /// Saturates at [`Mono::MAX`].
    fn add(self, length: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(length.as_micros()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for Mono {
    type Output = Self;

    /// Saturates at [`Mono::ZERO`].
    fn sub(self, length: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(length.as_micros()).unwrap_or(u64::MAX)))
    }
}

impl fmt::Display for Mono {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_go_forward_and_boottime_is_not_behind() {
        let monotonic = Clock::Monotonic.now();
        let boottime = Clock::Boottime.now();
        assert!(boottime >= monotonic);
        assert!(Clock::Monotonic.now() >= monotonic);
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Mono::ZERO - Duration::from_secs(1), Mono::ZERO);
        assert_eq!(Mono::MAX + Duration::from_secs(1), Mono::MAX);
        assert_eq!(Mono::ZERO.since(Mono::MAX), Duration::ZERO);
        let moment = Mono::from_micros(1_500_001);
        assert_eq!((moment + Duration::from_micros(9)).since(moment), Duration::from_micros(9));
        assert_eq!(moment.to_string(), "1.500001");
    }

    #[tokio::test]
    async fn a_sleep_ends_with_its_deadline_and_not_with_a_nap() {
        let begun = Clock::Boottime.now();
        let deadline = begun + Duration::from_millis(30);
        Clock::Boottime.sleep_until(deadline).await;
        let now = Clock::Boottime.now();
        assert!(now >= deadline && now.since(begun) < LONGEST_NAP, "{begun} to {now}");
    }

    #[tokio::test]
    async fn a_deadline_in_the_past_does_not_sleep() {
        Clock::Monotonic.sleep_until(Mono::ZERO).await;
    }
}
