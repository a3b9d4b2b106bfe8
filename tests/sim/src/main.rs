//! Runs histories, `tenure-sim run FIRST COUNT`, or tells the story of one, `tenure-sim replay SEED`.
#![expect(clippy::print_stdout, reason = "it is for people at a terminal")]

use std::{
    io::{self, Write as _},
    process::ExitCode,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use tenure_sim::{Counts, Options, Tracing, run};

const USAGE: &str = "usage: tenure-sim run FIRST COUNT | tenure-sim replay SEED";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["run", first, count] => match (first.parse(), count.parse()) {
            (Ok(first), Ok(count)) => run_many(first, count),
            _ => usage(),
        },
        ["replay", seed] => seed.parse().map_or_else(|_| usage(), replay),
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    println!("{USAGE}");
    ExitCode::from(2)
}

/// The whole trace. A reader that goes away early ends it.
fn replay(seed: u64) -> ExitCode {
    let outcome = run(seed, Options { tracing: Tracing::Kept, ..Options::default() });
    let told = io::stdout().lock().write_all(outcome.trace.as_bytes());
    println!("{}", outcome.counts);
    match (told, outcome.violation) {
        (Ok(()), None) => ExitCode::SUCCESS,
        (_, violation) => {
            println!("seed {seed}: {}", violation.as_deref().unwrap_or("the trace was cut off"));
            ExitCode::FAILURE
        }
    }
}

/// As many threads as there are processors; each history is one thread's own. Goes on after a violation, up to ten.
fn run_many(first: u64, count: u64) -> ExitCode {
    let next = AtomicU64::new(first);
    let total = Mutex::new((Counts::default(), Vec::new()));
    let threads = std::env::var("TENURE_SIM_THREADS").ok().and_then(|text| text.parse().ok());
    let threads = threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    let work = || {
        let mut counts = Counts::default();
        let mut failed = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count || failed.len() >= 10 {
                break;
            }
            let outcome = run(seed, Options::default());
            counts.add(&outcome.counts);
            if let Some(violation) = outcome.violation {
                println!("seed {seed}: {violation}");
                failed.push(seed);
            }
        }
        if let Ok(mut total) = total.lock() {
            total.0.add(&counts);
            total.1.extend(failed);
        }
    };
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let (counts, mut failed) = total.into_inner().unwrap_or_default();
    failed.sort_unstable();
    println!("seeds {first} to {}, {threads} threads\n{counts}", first + count - 1);
    if failed.is_empty() {
        println!("no violation");
        return ExitCode::SUCCESS;
    }
    println!("violations in seeds {failed:?}; the story of one: tenure-sim replay {}", failed[0]);
    ExitCode::FAILURE
}
