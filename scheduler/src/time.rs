//! The two clocks that enter with every command. Nothing here reads a clock.

use std::time::Duration;

/// Microseconds since this leader began. Never stored. Leases, limits, live back-off and deferral durations use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Mono(pub u64);

/// Microseconds since the Unix epoch, UTC. Stored times, `run_at`, `stale_after` and retention use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Wall(pub i64);

/// The present, as both clocks show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Now {
    /// See [`Mono`].
    pub mono: Mono,
    /// See [`Wall`].
    pub wall: Wall,
}

/// The length in whole microseconds; at the end of the range instead of beyond it.
#[must_use]
pub fn micros(length: Duration) -> u64 {
    u64::try_from(length.as_micros()).unwrap_or(u64::MAX)
}

impl Mono {
    /// This much later; at the end of the range instead of beyond it.
    #[must_use]
    pub fn after(self, length: Duration) -> Self {
        Self(self.0.saturating_add(micros(length)))
    }

    /// How long ago `earlier` was; zero if it is not earlier.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Wall {
    /// The first instant that a comparison can name.
    pub const MIN: Self = Self(i64::MIN);
    /// The last instant that a comparison can name.
    pub const MAX: Self = Self(i64::MAX);

    /// This much later; at the end of the range instead of beyond it.
    #[must_use]
    pub fn after(self, length: Duration) -> Self {
        Self(self.0.saturating_add_unsigned(micros(length)))
    }

    /// This much earlier; at the end of the range instead of beyond it.
    #[must_use]
    pub fn before(self, length: Duration) -> Self {
        Self(self.0.saturating_sub_unsigned(micros(length)))
    }

    /// How long ago `earlier` was; zero if it is not earlier, as after a step of the clock.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Days since 1970-01-01, UTC.
    #[must_use]
    pub fn day(self) -> i64 {
        self.0.div_euclid(86_400_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(Mono(u64::MAX).after(Duration::MAX), Mono(u64::MAX));
        assert_eq!(Wall(i64::MAX - 1).after(Duration::MAX), Wall::MAX);
        assert_eq!(Wall(5).since(Wall(7)), Duration::ZERO);
        assert_eq!(Wall(i64::MAX).since(Wall(i64::MIN)), Duration::from_micros(i64::MAX.unsigned_abs()));
    }

    #[test]
    fn days_before_1970_are_negative() {
        assert_eq!(Wall(-1).day(), -1);
        assert_eq!(Wall(86_400_000_000).day(), 1);
    }
}
