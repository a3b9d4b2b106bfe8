//! Random numbers of a test, replayed by their seed.

use std::fmt;
use std::time::Duration;

/// A generator. Displayed, it names its seed and how to use it again.
#[derive(Clone, Debug)]
pub struct Random {
    seed: u64,
    state: u64,
}

impl Random {
    /// From the seed in `TENURE_SEED`, else from one that nobody chose.
    pub fn from_environment() -> Self {
        let named = std::env::var("TENURE_SEED").ok().and_then(|seed| seed.parse().ok());
        Self::new(named.unwrap_or_else(|| uuid::Uuid::now_v7().as_u64_pair().1))
    }

    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Self { seed, state: seed }
    }

    /// The next number (splitmix64).
    pub fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 if that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number().checked_rem(bound).unwrap_or(0)
    }

    /// A length from `from` to below `to`.
    pub fn between(&mut self, from: Duration, to: Duration) -> Duration {
        let span = u64::try_from(to.saturating_sub(from).as_micros()).unwrap_or(u64::MAX);
        from + Duration::from_micros(self.below(span))
    }
}

impl fmt::Display for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {0} (TENURE_SEED={0} replays it)", self.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_again_and_bounds_are_kept() {
        let (mut one, mut same) = (Random::new(7), Random::new(7));
        let (low, high) = (Duration::from_millis(3), Duration::from_millis(9));
        for _ in 0..1_000 {
            assert_eq!(one.number(), same.number());
            assert!((low..high).contains(&one.between(low, high)));
            assert_eq!(same.between(low, high).as_nanos() % 1_000, 0);
        }
        assert_eq!(one.below(0), 0);
    }
}
