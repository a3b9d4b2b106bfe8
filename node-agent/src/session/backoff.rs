//! When to connect again.
//!
//! Responsible for full jitter between the server's bounds, growing with each failure, for the delay that a server chose
//! for this session, and for the cap that held leases set. Not responsible for waiting.
//!
//! Invariant: while leases or unanswered reports are held, no wait is longer than the cap.

use std::time::Duration;

use crate::clock::Mono;

/// Until a Welcome names others.
const DEFAULT_MIN: Duration = Duration::from_millis(200);
/// Until a Welcome names others.
const DEFAULT_MAX: Duration = Duration::from_secs(30);
/// A session that lived this long was healthy: the next failure is the first one again.
const HEALTHY: Duration = Duration::from_secs(60);

/// The bounds in force and the failures so far.
#[derive(Debug)]
pub(super) struct Backoff {
    min: Duration,
    max: Duration,
    failures: u32,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { min: DEFAULT_MIN, max: DEFAULT_MAX, failures: 0 }
    }
}

impl Backoff {
    /// Takes the bounds of a Welcome. Absent or senseless ones change nothing.
    pub(super) fn set_bounds(&mut self, min: Option<Duration>, max: Option<Duration>) {
        let (min, max) = (min.unwrap_or(self.min), max.unwrap_or(self.max));
        if !min.is_zero() && min <= max {
            (self.min, self.max) = (min, max);
        }
    }

    /// A session has ended that was welcomed at `welcomed`, if it was.
    pub(super) fn session_ended(&mut self, welcomed: Option<Mono>, now: Mono) {
        if welcomed.is_some_and(|at| now.since(at) >= HEALTHY) {
            self.failures = 0;
        }
    }

    /// How long to wait now. `dice`: anywhere in u64; `asked`: what the server asked for, which has the jitter of all
    /// its sessions in it already, so that only a second failure in a row adds some; `within`: the cap that held leases
    /// set.
    pub(super) fn next(&mut self, dice: u64, asked: Option<Duration>, within: Option<Duration>) -> Duration {
        self.failures = self.failures.saturating_add(1);
        let grown = self.min.saturating_mul(2_u32.saturating_pow(self.failures.min(16)));
        let spread = grown.min(self.max).saturating_sub(self.min);
        let part = u64::try_from(spread.as_micros()).unwrap_or(u64::MAX);
        let jitter = Duration::from_micros(dice.checked_rem(part.saturating_add(1)).unwrap_or(0));
        let wait = match asked {
            Some(asked) if self.failures <= 1 => asked.min(DEFAULT_MAX),
            Some(asked) => asked.min(DEFAULT_MAX) + jitter,
            None => self.min + jitter,
        };
        within.map_or(wait, |within| wait.min(within))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_between_the_bounds_and_start_over_after_a_healthy_session() {
        let mut backoff = Backoff::default();
        backoff.set_bounds(Some(Duration::from_millis(100)), Some(Duration::from_secs(1)));
        let longest: Vec<_> = (0..5)
            .map(|_| backoff.next(u64::MAX / 2, None, None))
            .map(|wait| wait <= Duration::from_secs(1))
            .collect();
        assert_eq!(longest, [true; 5]);
        assert_eq!(backoff.next(0, None, None), Duration::from_millis(100));
        backoff.session_ended(Some(Mono::ZERO), Mono::from_micros(59_999_999));
        assert_eq!(backoff.failures, 6);
        backoff.session_ended(Some(Mono::ZERO), Mono::from_micros(60_000_000));
        assert_eq!(backoff.failures, 0);
        assert!(backoff.next(u64::MAX, None, None) <= Duration::from_millis(200));
    }

    #[test]
    fn held_leases_cap_the_wait_even_below_the_lower_bound() {
        let mut backoff = Backoff::default();
        backoff.set_bounds(Some(Duration::from_secs(10)), Some(Duration::from_secs(20)));
        assert_eq!(backoff.next(7, None, Some(Duration::from_secs(2))), Duration::from_secs(2));
        backoff.set_bounds(Some(Duration::from_secs(9)), Some(Duration::from_secs(1)));
        assert!(backoff.next(0, None, None) >= Duration::from_secs(10), "senseless bounds change nothing");
    }

    #[test]
    fn what_the_server_asks_for_is_kept_and_a_second_failure_adds_jitter() {
        let mut backoff = Backoff::default();
        let asked = Some(Duration::from_millis(730));
        assert_eq!(backoff.next(u64::MAX, asked, None), Duration::from_millis(730));
        let second = backoff.next(u64::MAX / 3, asked, None);
        assert!(second > Duration::from_millis(730), "{second:?}");
        assert_eq!(backoff.next(9, asked, Some(Duration::from_millis(250))), Duration::from_millis(250));
        let mut patient = Backoff::default();
        assert_eq!(
            patient.next(0, Some(Duration::from_secs(86_400)), None),
            DEFAULT_MAX,
            "nobody stays away for a day"
        );
    }
}
