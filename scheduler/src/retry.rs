//! Back-off: how long a failed attempt waits. Jitter is a hash of (job, attempt), so there is no randomness.

use std::time::Duration;

use crate::{ids::JobId, kind::RetryPolicy, time::micros};

/// A job's own `retry_after` counts up to this.
pub(crate) const MOST_RETRY_AFTER: Duration = Duration::from_secs(24 * 3600);

/// The wait after the `attempt`th attempt (1-based) of a job.
#[must_use]
pub(crate) fn backoff(policy: &RetryPolicy, job: JobId, attempt: u32) -> Duration {
    match policy {
        RetryPolicy::Intervals(waits) => {
            let at = usize::try_from(attempt.saturating_sub(1)).unwrap_or(usize::MAX);
            waits.get(at).or(waits.last()).copied().unwrap_or_default()
        }
        RetryPolicy::Exponential { initial, factor_permille, max, jitter_permille } => {
            let most = micros(*max);
            let mut wait = micros(*initial).min(most);
            for _ in 1..attempt {
                if wait >= most {
                    break;
                }
                wait = (wait / 1000).saturating_mul(u64::from(*factor_permille)).min(most);
            }
            jittered(wait, *jitter_permille, hash(job, u64::from(attempt)))
        }
    }
}

/// No wait of this policy is longer.
#[must_use]
pub(crate) fn longest(policy: &RetryPolicy) -> Duration {
    match policy {
        RetryPolicy::Intervals(waits) => waits.iter().max().copied().unwrap_or_default(),
        RetryPolicy::Exponential { max, .. } => max.saturating_mul(2), // with all the jitter that there can be
    }
}

/// `wait` changed by up to `permille` of itself, up or down.
fn jittered(wait: u64, permille: u32, hash: u64) -> Duration {
    let span = wait / 1000 * u64::from(permille.min(1000));
    let offset = if span == 0 { 0 } else { hash % (2 * span + 1) };
    Duration::from_micros(wait.saturating_sub(span).saturating_add(offset))
}

/// The finaliser of SplitMix64 over the two halves of the id and a number: spreads neighbours apart.
#[must_use]
pub(crate) fn hash(job: JobId, number: u64) -> u64 {
    let (high, low) = job.0.as_u64_pair();
    [high, low, number].into_iter().fold(0x9e37_79b9_7f4a_7c15, mix)
}

/// One round of it: of one state, another word gives another number.
#[must_use]
pub(crate) fn mix(state: u64, word: u64) -> u64 {
    let mut z = (state ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn job(n: u128) -> JobId {
        JobId(Uuid::from_u128(n))
    }

    #[test]
    fn intervals_repeat_their_last() {
        let policy = RetryPolicy::Intervals(vec![Duration::from_secs(10), Duration::from_secs(60)]);
        let waits: Vec<u64> = (1..=4).map(|n| backoff(&policy, job(1), n).as_secs()).collect();
        assert_eq!(waits, [10, 60, 60, 60]);
    }

    #[test]
    fn waits_grow_to_their_limit_within_the_jitter() {
        let policy = RetryPolicy::default();
        for (attempt, base) in [(1, 10.0), (2, 30.0), (3, 90.0), (20, 3600.0), (u32::MAX, 3600.0)] {
            let wait = backoff(&policy, job(7), attempt).as_secs_f64();
            assert!((base * 0.8..=base * 1.2).contains(&wait), "attempt {attempt}: {wait}");
        }
    }

    #[test]
    fn jitter_is_fixed_by_job_and_attempt_and_differs_between_jobs() {
        let policy = RetryPolicy::default();
        assert_eq!(backoff(&policy, job(1), 1), backoff(&policy, job(1), 1));
        let distinct: std::collections::BTreeSet<_> = (0..100).map(|n| backoff(&policy, job(n), 1)).collect();
        assert!(distinct.len() > 90);
    }
}
