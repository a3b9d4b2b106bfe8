//! Randomness with a seed that a failing run prints.

/// SplitMix64: small, and the same everywhere.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Less than `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        if from.is_empty() { None } else { from.get(usize::try_from(self.below(from.len() as u64)).unwrap()) }
    }
}

/// The seeds of a random test: so many, or as many as `TENURE_SEEDS` says, or the one of `TENURE_SEED`, to see a failure
/// again. Printed, so that a failing test shows the last one.
pub(crate) fn seeds(count: u64) -> impl Iterator<Item = u64> {
    let many = 0..given("TENURE_SEEDS").unwrap_or(count);
    let seeds = given("TENURE_SEED").map_or(many, |seed| seed..seed + 1);
    seeds.inspect(|seed| eprintln!("TENURE_SEED={seed}"))
}

/// Whether one failure is to be seen again.
pub(crate) fn is_replay() -> bool {
    given("TENURE_SEED").is_some()
}

fn given(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}
