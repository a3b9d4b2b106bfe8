//! Histories at random, absurd ones too. A seed is a whole history: a failure prints it, and
//! `TENURE_SCHEDULER_SEED=N` replays it with its trace. `TENURE_SCHEDULER_SEEDS=N` tries more of them than the usual run does.

mod faults;
mod fuzz;
mod heal;
mod pace;

use self::fuzz::Fuzz;

/// How many seeds a usual run tries; about ten seconds.
const SEEDS: u64 = 25;
/// Steps of one history.
const STEPS: u32 = 400;

#[expect(clippy::disallowed_methods, reason = "a test reads its seed; the scheduler reads no environment")]
fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// Prints the seed of a history that fails.
struct OnPanic(u64);

impl Drop for OnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("replay it with TENURE_SCHEDULER_SEED={}", self.0);
        }
    }
}

fn each_seed(first: u64, run: impl Fn(u64, bool)) {
    if let Some(seed) = variable("TENURE_SCHEDULER_SEED") {
        let _replay = OnPanic(seed);
        return run(seed, true);
    }
    let seeds = variable("TENURE_SCHEDULER_SEEDS").unwrap_or(SEEDS);
    for seed in first..first + seeds {
        let _replay = OnPanic(seed);
        run(seed, false);
    }
}

#[test]
fn a_random_history_keeps_every_invariant_and_converges_once_healed() {
    each_seed(1, |seed, traced| {
        let mut fuzz = Fuzz::new(seed, traced);
        for _ in 0..STEPS {
            fuzz.step();
        }
        fuzz.heal();
    });
}

#[test]
fn the_same_history_gives_the_same_events_and_effects() {
    each_seed(1_000_000, |seed, traced| {
        if seed % 10 != 0 && !traced {
            return;
        }
        let transcript = |seed| {
            let mut fuzz = Fuzz::new(seed, traced);
            fuzz.world.paranoid = false;
            (0..STEPS).for_each(|_| fuzz.step());
            fuzz.transcript
        };
        assert_eq!(transcript(seed), transcript(seed), "seed {seed}");
    });
}

#[test]
fn a_slot_never_gives_more_than_its_burst_and_its_rate() {
    each_seed(2_000_000, |seed, _| pace::history(seed));
}
