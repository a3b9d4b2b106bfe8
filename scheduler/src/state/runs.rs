//! How long the runs of a kind hold their slots: a histogram of integers, kept in memory only. A new leader knows
//! nothing until runs that it granted have ended.

use std::time::Duration;

/// Durations up to this many milliseconds have a bucket of their own.
const EXACT: u64 = 16;
/// Above, each doubling has this many buckets: a duration is known to an eighth.
const PER_DOUBLING: usize = 8;
/// Doublings above [`EXACT`]; what is longer, 49 days, counts for the last bucket.
const DOUBLINGS: usize = 28;
const BUCKETS: usize = 16 + DOUBLINGS * PER_DOUBLING;
/// At so many runs all counts are halved: what was lately counts more.
const MOST: u32 = 8192;
/// A quantile of fewer runs is none.
const FEWEST: u64 = 5;

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Runs {
    /// Empty until the first run.
    buckets: Box<[u32]>,
    total: u32,
}

impl Runs {
    /// A run has ended that held its slots for so long.
    pub(crate) fn count(&mut self, held: Duration) {
        if self.buckets.is_empty() {
            self.buckets = vec![0; BUCKETS].into();
        }
        if self.total >= MOST {
            self.buckets.iter_mut().for_each(|count| *count /= 2);
            self.total = self.buckets.iter().sum();
        }
        if let Some(count) = self.buckets.get_mut(bucket(held)) {
            *count += 1;
            self.total += 1;
        }
    }

    /// Of the runs that hold their slots for longer than `already`, this many thousandths hold them for no longer than
    /// the answer. None: too few such runs are known.
    pub(crate) fn quantile(&self, already: Duration, permille: u64) -> Option<Duration> {
        let from = bucket(already);
        let longer = self.buckets.get(from..)?;
        let all: u64 = longer.iter().map(|count| u64::from(*count)).sum();
        if all < FEWEST {
            return None;
        }
        let wanted = (all * permille).div_ceil(1000).max(1);
        let mut seen = 0;
        let within = longer.iter().position(|count| {
            seen += u64::from(*count);
            seen >= wanted
        })?;
        Some(end_of(from + within))
    }
}

fn bucket(length: Duration) -> usize {
    let millis = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
    let at = if millis < EXACT {
        millis
    } else {
        let doubling = u64::from(millis.ilog2());
        let part = (millis >> (doubling - 3)) & 7;
        EXACT + (doubling - 4) * 8 + part
    };
    usize::try_from(at).unwrap_or(usize::MAX).min(BUCKETS - 1)
}

/// The longest duration of a bucket.
fn end_of(bucket: usize) -> Duration {
    let bucket = bucket as u64;
    let millis = match bucket.checked_sub(EXACT) {
        None => bucket + 1,
        Some(above) => (8 + above % 8 + 1) << (above / 8 + 1),
    };
    Duration::from_millis(millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn every_duration_lies_in_a_bucket_that_ends_at_most_an_eighth_later() {
        for millis in (0..40_000).chain([1 << 20, (1 << 31) - 1, 123_456_789]) {
            let length = Duration::from_millis(millis);
            let end = end_of(bucket(length));
            assert!(
                end > length && end <= length + length / 8 + Duration::from_millis(1),
                "{length:?} {end:?}"
            );
        }
        assert_eq!(bucket(Duration::MAX), BUCKETS - 1);
    }

    #[test]
    fn too_few_runs_tell_nothing() {
        let mut runs = Runs::default();
        assert_eq!(runs.quantile(Duration::ZERO, 500), None);
        (0..4).for_each(|_| runs.count(seconds(10)));
        assert_eq!(runs.quantile(Duration::ZERO, 500), None);
        runs.count(seconds(10));
        let half = runs.quantile(Duration::ZERO, 500).unwrap();
        assert!(half >= seconds(10) && half <= seconds(12));
    }

    #[test]
    fn who_has_run_for_long_is_compared_with_long_runs_only() {
        let mut runs = Runs::default();
        (0..100).for_each(|_| runs.count(seconds(1)));
        (0..20).for_each(|_| runs.count(seconds(600)));
        assert!(runs.quantile(Duration::ZERO, 500).unwrap() < seconds(2));
        assert!(runs.quantile(Duration::ZERO, 950).unwrap() >= seconds(600));
        assert!(runs.quantile(seconds(5), 500).unwrap() >= seconds(600));
        assert_eq!(runs.quantile(seconds(6000), 500), None, "none ran for so long");
    }

    #[test]
    fn what_was_lately_counts_more() {
        let mut runs = Runs::default();
        (0..MOST).for_each(|_| runs.count(seconds(1)));
        (0..MOST * 2).for_each(|_| runs.count(seconds(60)));
        assert!(runs.quantile(Duration::ZERO, 300).unwrap() >= seconds(60));
        assert!(runs.total <= MOST);
    }
}
