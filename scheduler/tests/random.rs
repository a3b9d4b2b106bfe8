//! Histories at random, absurd ones too. A seed is a whole history: a failure prints it, and
//! `TENURE_SCHEDULER_SEED=N` replays it with its trace. `TENURE_SCHEDULER_SEEDS=N` tries more of them than the usual run
//! does; the ignored test goes on for as long as `TENURE_SCHEDULER_SECONDS` or `TENURE_SCHEDULER_STEPS` say, and with
//! `TENURE_SCHEDULER_SPARING=1` does what costs most at some of the steps only.

mod faults;
mod flows;
mod fuzz;
mod heal;
mod pace;
mod routing;

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use self::fuzz::Fuzz;
use crate::support::Closeness;

/// How many seeds a usual run tries; about ten seconds.
const SEEDS: u64 = 25;
/// Steps of one history.
const STEPS: u32 = 400;

#[expect(clippy::disallowed_methods, reason = "a test reads its seed; the scheduler reads no environment")]
pub(crate) fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// Prints the seed of a history that fails.
pub(crate) struct OnPanic(pub(crate) u64);

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
    each_seed(1, history);
}

/// A history, each step of it looked at closely, healed at its end.
fn history(seed: u64, traced: bool) {
    let mut fuzz = Fuzz::new(seed, traced);
    (0..STEPS).for_each(|_| fuzz.step());
    fuzz.heal();
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
            fuzz.transcript = Some(0);
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

/// What many threads share that try one seed after the other.
struct Run {
    next: AtomicU64,
    steps: AtomicU64,
    most_steps: u64,
    until: Option<Instant>,
    sparing: bool,
}

impl Run {
    fn goes_on(&self) -> bool {
        let late = self.until.is_some_and(|until| present() >= until);
        !late && self.steps.load(Ordering::Relaxed) < self.most_steps
    }

    /// A whole history for each seed, healed at its end.
    fn work(&self) {
        while self.goes_on() {
            let seed = self.next.fetch_add(1, Ordering::Relaxed);
            let _replay = OnPanic(seed);
            let mut fuzz = Fuzz::new(seed, false);
            if self.sparing {
                fuzz.world.closeness = Closeness::sparing(close_looks(seed));
            }
            (0..STEPS).for_each(|_| fuzz.step());
            fuzz.heal();
            self.steps.fetch_add(u64::from(STEPS), Ordering::Relaxed);
        }
    }
}

/// One step of so many is looked at closely. Some histories have every step looked at, most have few: far more of them are
/// tried for it.
fn close_looks(seed: u64) -> u32 {
    match seed % 16 {
        0 => 1,
        1..4 => 5,
        4..8 => 15,
        _ => 40,
    }
}

#[expect(clippy::disallowed_methods, reason = "how long to try, not what happens, depends on it")]
fn present() -> Instant {
    Instant::now()
}

/// Steps of healing are not counted. A thread that fails ends the others with the history that they are in.
#[test]
#[ignore = "as long as one asks: scripts/test asks for a minute, scripts/torture for ten million steps"]
fn random_histories_for_as_long_as_one_asks() {
    if variable("TENURE_SCHEDULER_SEED").is_some() {
        return each_seed(1, history);
    }
    let first = variable("TENURE_SCHEDULER_FIRST").unwrap_or(1);
    let seconds = variable("TENURE_SCHEDULER_SECONDS");
    let steps = variable("TENURE_SCHEDULER_STEPS");
    let begun = present();
    let run = Run {
        next: AtomicU64::new(first),
        steps: AtomicU64::new(0),
        most_steps: steps.unwrap_or(if seconds.is_some() { u64::MAX } else { 100_000 }),
        until: seconds.map(|seconds| begun + Duration::from_secs(seconds)),
        sparing: variable("TENURE_SCHEDULER_SPARING") == Some(1),
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let failed = thread::scope(|scope| {
        let all: Vec<_> = (0..workers).map(|_| scope.spawn(|| run.work())).collect();
        let fails = |worker: thread::ScopedJoinHandle<'_, ()>| {
            let fails = worker.join().is_err();
            if fails {
                run.steps.store(u64::MAX / 2, Ordering::Relaxed);
            }
            fails
        };
        all.into_iter().map(fails).filter(|fails| *fails).count()
    });
    assert_eq!(failed, 0, "histories failed; their seeds are above");
    let (last, steps) = (run.next.into_inner() - 1, run.steps.into_inner());
    println!(
        "seeds {first} to {last}, {steps} steps and their healing, {workers} threads, {:?}",
        begun.elapsed()
    );
}
