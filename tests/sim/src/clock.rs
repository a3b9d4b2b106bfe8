//! Clocks of hosts: none runs as the true time does, and the wall clocks jump.

/// One second of true time, in the simulation's microseconds.
pub(crate) const S: u64 = 1_000_000;
/// One millisecond.
pub(crate) const MS: u64 = 1_000;

/// The fastest and the slowest clock differ by so many millionths from the true time: 5 %.
pub(crate) const MOST_DRIFT: u64 = 50_000;

/// Where every wall clock stands when a history begins: 2026-01-01.
pub(crate) const WALL: i64 = 1_767_225_600_000_000;

/// The clocks of one host: one that counts what passed, suspended or not, and the wall clock.
#[derive(Debug, Clone)]
pub(crate) struct Clock {
    /// By how many millionths it is fast.
    fast: i64,
    /// What it showed when the history began.
    from: u64,
    /// By how much the wall clock was set since then, in microseconds.
    stepped: i64,
}

impl Clock {
    pub(crate) fn new(fast: i64, from: u64) -> Self {
        Self { fast, from, stepped: 0 }
    }

    /// What it shows at a true time.
    pub(crate) fn at(&self, now: u64) -> u64 {
        let drift = i128::from(now) * i128::from(self.fast) / 1_000_000;
        self.from + u64::try_from(i128::from(now) + drift).unwrap_or(0)
    }

    /// The first true time at which it shows that, or more.
    pub(crate) fn when(&self, shown: u64) -> u64 {
        let passed = i128::from(shown.saturating_sub(self.from));
        let mut now = u64::try_from(passed * 1_000_000 / (1_000_000 + i128::from(self.fast))).unwrap_or(0);
        while self.at(now) < shown {
            now += 1;
        }
        now
    }

    /// What the wall clock shows.
    pub(crate) fn wall(&self, now: u64) -> i64 {
        let passed = i64::try_from(self.at(now) - self.from).unwrap_or(i64::MAX);
        WALL.saturating_add(passed).saturating_add(self.stepped)
    }

    /// Somebody sets the wall clock.
    pub(crate) fn step(&mut self, by: i64) {
        self.stepped = self.stepped.saturating_add(by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_fast_shows_more_and_a_deadline_is_found_on_it() {
        let clock = Clock::new(50_000, 7);
        assert_eq!(clock.at(100 * S), 105 * S + 7);
        assert_eq!(clock.at(clock.when(42 * S)), 42 * S);
        let slow = Clock::new(-50_000, 0);
        assert!(slow.at(slow.when(42 * S)) >= 42 * S && slow.at(slow.when(42 * S) - 1) < 42 * S);
    }
}
