//! When a node should come back whose session ends, or does not begin: soon, but not together with all the others.
//!
//! Invariant: no delay is longer than a quarter of the shortest lease that the node may hold, so that it is heard again
//! before any of them ends.

use std::time::Duration;

use tenure_scheduler::SessionId;

/// Whoever comes back sooner may meet the same end.
const SOONEST: Duration = Duration::from_millis(100);

/// For each session, the time over which they come back together grows by this: 500 a second are welcomed with ease …
const EACH: Duration = Duration::from_millis(2);

/// … between these.
const SPREAD: (Duration, Duration) = (Duration::from_millis(400), Duration::from_secs(5));

/// When this of so many sessions should come back.
pub(crate) fn delay(session: SessionId, sessions: usize, shortest_lease: Option<Duration>) -> Duration {
    let all = EACH.saturating_mul(u32::try_from(sessions).unwrap_or(u32::MAX)).clamp(SPREAD.0, SPREAD.1);
    // Sessions are counted: a multiplication spreads their numbers evenly, whichever of them are left.
    let part = u32::try_from(session.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48).unwrap_or_default();
    let wait = SOONEST + all.saturating_mul(part) / (1 << 16);
    shortest_lease.map_or(wait, |lease| wait.min(lease / 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_sessions_there_are_the_longer_they_take_and_evenly() {
        for (sessions, spread) in [(1, 400), (50, 400), (1000, 2000), (10_000, 5000)] {
            let spread = Duration::from_millis(spread);
            let mut tenths = [0; 10];
            for session in 0..10_000 {
                let wait = delay(SessionId(session), sessions, None) - SOONEST;
                assert!(wait < spread, "{wait:?} of {sessions}");
                tenths[usize::try_from(wait.as_nanos() * 10 / spread.as_nanos()).unwrap()] += 1;
            }
            assert!(tenths.iter().all(|&count| (900..1100).contains(&count)), "{sessions}: {tenths:?}");
        }
    }

    #[test]
    fn nobody_stays_away_for_longer_than_a_quarter_of_its_shortest_lease() {
        let lease = Duration::from_secs(10);
        assert!((0..1000).all(|session| delay(SessionId(session), 10_000, Some(lease)) <= lease / 4));
    }
}
