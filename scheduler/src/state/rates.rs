//! How often something happened over the last five minutes.

use std::time::Duration;

use crate::time::{Mono, micros};

const BUCKETS: usize = 30;
const BUCKET: Duration = Duration::from_secs(10);

/// Counts in thirty buckets of ten seconds. Integers only.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Throughput {
    buckets: [u32; BUCKETS],
    /// The number of the newest bucket since the leader began.
    newest: u64,
}

impl Throughput {
    pub(crate) fn count(&mut self, at: Mono) {
        let number = at.0 / micros(BUCKET);
        let stale = number.saturating_sub(self.newest).min(BUCKETS as u64);
        for back in 0..stale {
            *self.bucket(number - back) = 0;
        }
        self.newest = self.newest.max(number);
        let bucket = self.bucket(number);
        *bucket = bucket.saturating_add(1);
    }

    fn bucket(&mut self, number: u64) -> &mut u32 {
        let at = usize::try_from(number % BUCKETS as u64).unwrap_or(0);
        &mut self.buckets[at]
    }

    /// How often in the window that ends now.
    pub(crate) fn total(&self, now: Mono) -> u64 {
        let number = now.0 / micros(BUCKET);
        let old = number.saturating_sub(self.newest);
        (0..BUCKETS as u64)
            .filter(|back| back + old < BUCKETS as u64)
            .map(|back| {
                let at = (self.newest + BUCKETS as u64 - back) % BUCKETS as u64;
                usize::try_from(at).map_or(0, |at| u64::from(self.buckets[at]))
            })
            .sum()
    }

    /// The window: five minutes, or as long as the leader has been leading, at least ten seconds.
    pub(crate) fn window(now: Mono) -> Duration {
        Duration::from_micros(now.0).clamp(BUCKET, BUCKET * 30)
    }

    /// For people: over the window, at least a minute, so that one job in the first second is one a minute, not sixty.
    pub(crate) fn per_minute(&self, now: Mono) -> f64 {
        let total = u32::try_from(self.total(now)).unwrap_or(u32::MAX);
        f64::from(total) * 60.0 / Self::window(now).max(BUCKET * 6).as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Mono {
        Mono(seconds * 1_000_000)
    }

    #[test]
    fn what_is_older_than_five_minutes_is_forgotten() {
        let mut rate = Throughput::default();
        for second in 0..600 {
            rate.count(at(second));
        }
        assert_eq!(rate.total(at(599)), 300);
        assert_eq!(rate.total(at(599 + 150)), 150);
        assert_eq!(rate.total(at(2000)), 0);
        rate.count(at(2000));
        assert_eq!(rate.total(at(2000)), 1);
    }

    #[test]
    fn one_job_in_the_first_second_is_one_a_minute() {
        let mut rate = Throughput::default();
        rate.count(at(0));
        assert!((rate.per_minute(at(1)) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_young_leader_divides_by_its_age() {
        let mut rate = Throughput::default();
        for second in 0..60 {
            rate.count(at(second));
        }
        assert!((rate.per_minute(at(60)) - 60.0).abs() < 1.0);
    }
}
