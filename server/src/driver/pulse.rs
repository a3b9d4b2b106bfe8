//! The leader's sense of time: how the steady clock becomes `Now::mono`.
//!
//! Silence of a node counts only while the leader was reading (rule 4 of the session). So a gap between two beats of
//! the loop counts for at most one second, whatever it was: a frozen process, a slow commit, a host under load. The
//! reasons and the price stand in `docs/decisions/0002-stalls-stop-the-clock.md`.
//!
//! Invariant: `mono` never falls, and never runs faster than the steady clock.

use std::time::Duration;

use tenure_scheduler::{Mono, micros};

/// What a gap between two beats counts for at the most.
const LONGEST_GAP: Duration = Duration::from_secs(1);

/// The loop beats at least this often while nothing happens, so that idleness is no gap.
pub(super) const BEAT: Duration = Duration::from_millis(400);

/// One leader's time line.
#[derive(Debug)]
pub(super) struct Pulse {
    /// By the steady clock.
    last: Duration,
    /// Since this leader began, stalls left out.
    counted: Duration,
}

impl Pulse {
    /// A leader begins.
    pub(super) fn new(steady: Duration) -> Self {
        Self { last: steady, counted: Duration::ZERO }
    }

    /// The loop is about to read its inboxes, or is asked what time it is. The second value is how much of the gap was
    /// left out.
    pub(super) fn beat(&mut self, steady: Duration) -> (Mono, Duration) {
        let gap = steady.saturating_sub(self.last);
        let counted = gap.min(LONGEST_GAP);
        self.last = self.last.max(steady);
        self.counted += counted;
        (Mono(micros(self.counted)), gap - counted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn short_gaps_count_whole_and_long_ones_for_a_second() {
        let mut pulse = Pulse::new(100 * S);
        assert_eq!(pulse.beat(100 * S + S / 2), (Mono(500_000), Duration::ZERO));
        assert_eq!(pulse.beat(101 * S + S / 2), (Mono(1_500_000), Duration::ZERO));
        assert_eq!(pulse.beat(401 * S + S / 2), (Mono(2_500_000), 299 * S));
        assert_eq!(pulse.beat(402 * S), (Mono(3_000_000), Duration::ZERO));
    }

    #[test]
    fn a_clock_that_falls_back_stands_still() {
        let mut pulse = Pulse::new(10 * S);
        pulse.beat(11 * S);
        assert_eq!(pulse.beat(9 * S), (Mono(1_000_000), Duration::ZERO));
        assert_eq!(pulse.beat(11 * S), (Mono(1_000_000), Duration::ZERO));
    }
}
