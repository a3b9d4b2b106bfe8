//! Rates of fleet slots: token buckets, in whole numbers.
//!
//! A grant takes as many tokens of a slot as it takes units: who declares three units makes three times the calls of
//! who declares one. Tokens are spent by the grant and never come back: what was refilled meanwhile may be spent
//! already, and together they would exceed the limit.
//!
//! Invariant: in any stretch of time t at most `burst` + `tokens` · t / `per` units are granted, over takeovers too.

use std::{fmt, time::Duration};

use crate::time::{Mono, Now, Wall, micros};

/// How fast units of a fleet slot may be granted. Owned by the fleet file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// Units in each [`RateLimit::per`], evenly spread. 1 to 1,000,000.
    pub tokens: u32,
    /// One second, minute, hour or day.
    pub per: Duration,
    /// Units that may be granted at once after a time of rest. 1 to 1,000,000. A need above it can never be met.
    pub burst: u32,
}

impl RateLimit {
    /// The most of [`RateLimit::tokens`] and [`RateLimit::burst`].
    pub const MOST: u32 = 1_000_000;

    /// One token in parts. A bucket gains [`RateLimit::tokens`] parts in each microsecond.
    fn token(self) -> u64 {
        micros(self.per).max(1)
    }

    fn gained(self, length: Duration) -> u64 {
        micros(length).saturating_mul(u64::from(self.tokens.max(1)))
    }

    /// The parts of that many tokens. At most 1,000,000 days in microseconds, which is far from the end of the range.
    fn parts(self, tokens: u32) -> u64 {
        self.token().saturating_mul(u64::from(tokens))
    }

    /// How long that many parts take.
    fn time_for(self, parts: u64) -> Duration {
        Duration::from_micros(parts.div_ceil(u64::from(self.tokens.max(1))))
    }
}

/// As the fleet file writes it.
impl fmt::Display for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tokens, per, burst } = self;
        match per.as_secs() {
            1 => write!(f, "{tokens}/s burst {burst}"),
            60 => write!(f, "{tokens}/min burst {burst}"),
            3_600 => write!(f, "{tokens}/h burst {burst}"),
            86_400 => write!(f, "{tokens}/d burst {burst}"),
            _ => write!(f, "{tokens} in {per:?} burst {burst}"),
        }
    }
}

/// What was spent of a bucket and is not refilled. A bucket that nothing was taken from is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bucket {
    /// In parts of a token, at `at`. At most the burst.
    debt: u64,
    at: Mono,
}

impl Bucket {
    pub(crate) fn full(now: Now) -> Self {
        Self { debt: 0, at: now.mono }
    }

    /// A bucket of an earlier leader, which would have been full at that time of the wall clock. At worst it is empty:
    /// a clock that was set back keeps nobody longer than that.
    pub(crate) fn loaded(rate: RateLimit, full_at: Wall, now: Now) -> Self {
        let debt = rate.gained(full_at.since(now.wall)).min(rate.parts(rate.burst));
        Self { debt, at: now.mono }
    }

    fn debt(self, rate: RateLimit, now: Now) -> u64 {
        self.debt.saturating_sub(rate.gained(now.mono.since(self.at)))
    }

    /// How long until that many tokens are there: zero if they are, none if they never will be.
    pub(crate) fn wait(self, rate: RateLimit, tokens: u32, now: Now) -> Option<Duration> {
        let room = rate.parts(rate.burst).checked_sub(rate.parts(tokens))?;
        Some(rate.time_for(self.debt(rate, now).saturating_sub(room)))
    }

    pub(crate) fn take(&mut self, rate: RateLimit, tokens: u32, now: Now) {
        let debt = self.debt(rate, now).saturating_add(rate.parts(tokens));
        *self = Self { debt: debt.min(rate.parts(rate.burst)), at: now.mono };
    }

    /// The limit changed: what is in the bucket stays in it, as far as the new one holds that much.
    pub(crate) fn changed(self, from: RateLimit, to: RateLimit, now: Now) -> Self {
        let level = from.parts(from.burst).saturating_sub(self.debt(from, now));
        let level = u128::from(level) * u128::from(to.token()) / u128::from(from.token());
        let most = to.parts(to.burst);
        let level = u64::try_from(level).unwrap_or(u64::MAX).min(most);
        Self { debt: most - level, at: now.mono }
    }

    /// When it is full again, for the row; rounded up, so that a later leader has no part too much.
    pub(crate) fn full_at(self, rate: RateLimit, now: Now) -> Wall {
        now.wall.after(rate.time_for(self.debt(rate, now)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(tokens: u32, seconds: u64, burst: u32) -> RateLimit {
        RateLimit { tokens, per: Duration::from_secs(seconds), burst }
    }

    fn at(us: u64) -> Now {
        Now { mono: Mono(us), wall: Wall(i64::try_from(us).unwrap()) }
    }

    #[test]
    fn a_rate_that_divides_no_microsecond_loses_none() {
        // 7 a minute: a token takes 8,571,428.57… µs, and seven of them one minute exactly.
        let rate = rate(7, 60, 1);
        let (mut bucket, mut clock) = (Bucket::full(at(0)), 0);
        for _ in 0..=700 {
            clock += micros(bucket.wait(rate, 1, at(clock)).unwrap());
            bucket.take(rate, 1, at(clock));
        }
        assert!((6_000_000_000..6_000_000_700).contains(&clock), "{clock}");
    }

    #[test]
    fn the_wait_is_over_exactly_when_it_says() {
        let rate = rate(50, 60, 10);
        let mut bucket = Bucket::full(at(0));
        bucket.take(rate, 10, at(0));
        assert_eq!(bucket.wait(rate, 1, at(0)), Some(Duration::from_micros(1_200_000)));
        assert_eq!(bucket.wait(rate, 10, at(0)), Some(Duration::from_secs(12)));
        assert_eq!(bucket.wait(rate, 1, at(1_199_999)), Some(Duration::from_micros(1)));
        assert_eq!(bucket.wait(rate, 1, at(1_200_000)), Some(Duration::ZERO));
        assert_eq!(bucket.wait(rate, 11, at(1_200_000)), None, "more than it ever holds");
    }

    #[test]
    fn a_later_leader_finds_the_bucket_as_it_was_left() {
        let rate = rate(1, 86_400, 2);
        let mut bucket = Bucket::full(at(0));
        bucket.take(rate, 2, at(0));
        let full_at = bucket.full_at(rate, at(0));
        let hour = 3_600_000_000;
        let loaded = Bucket::loaded(rate, full_at, at(hour));
        assert_eq!(loaded.wait(rate, 1, at(hour)), bucket.wait(rate, 1, at(hour)));
        let set_back = Bucket::loaded(rate, full_at, Now { mono: Mono(0), wall: Wall(i64::MIN) });
        assert_eq!(
            set_back.wait(rate, 2, at(0)),
            Some(Duration::from_secs(2 * 86_400)),
            "no emptier than empty"
        );
    }

    #[test]
    fn a_changed_limit_makes_no_tokens() {
        let (old, new) = (rate(60, 60, 10), rate(10, 1, 100));
        let mut bucket = Bucket::full(at(0));
        bucket.take(old, 7, at(0));
        let changed = bucket.changed(old, new, at(0));
        assert_eq!(changed.wait(new, 3, at(0)), Some(Duration::ZERO));
        assert_eq!(changed.wait(new, 4, at(0)), Some(Duration::from_millis(100)));
        let smaller = changed.changed(new, rate(1, 60, 2), at(0));
        assert_eq!(smaller.wait(rate(1, 60, 2), 2, at(0)), Some(Duration::ZERO));
        let most = rate(RateLimit::MOST, 1, RateLimit::MOST);
        let slowest = rate(1, 86_400, RateLimit::MOST);
        let there = Bucket::full(at(0)).changed(most, slowest, at(0));
        assert_eq!(there.wait(slowest, RateLimit::MOST, at(0)), Some(Duration::ZERO));
    }
}
