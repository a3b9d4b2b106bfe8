//! `tenure-bench`: how fast Tenure is on this machine, and how near that is to what the database allows.
//!
//! Responsible for starting what a measurement needs (a private Postgres with fsync on, a real `tenure server` in a
//! process of its own, simulated agents that speak the real session), for measuring, for checking afterwards that every
//! job really ended and is really stored, and for one table. Not for tests of behaviour (`tests/`), and never part of
//! the product: nothing depends on this crate.
//!
//! The server is a process and not in-process, because that is what people run: its memory can be read from outside, its
//! allocator and its threads are its own, and the load shares nothing with it but the machine.
//!
//! Invariants: a ratio is of two figures of the same run, taken one right after the other; a figure is printed only if
//! the jobs behind it were counted in the database and the server's own invariants hold; everything that was started is
//! ended, whatever ends the bench short of SIGKILL.
//!
//! Reading order: `args` → `scenario` and `scenario/*` → `rig` (a server and its fleet) → `agents`, `sitters`, `producers` (the load)
//! → `ceiling` (the same rows by bare SQL) → `bed` (databases), `machine`, `vitals`, `metrics` → `figure`, `report` → `peers`
//! (others, for the same work).

mod agents;
mod args;
mod bed;
mod ceiling;
mod figure;
mod machine;
mod metrics;
mod peers;
mod producers;
mod report;
mod rig;
mod scenario;
mod sitters;
mod vitals;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser as _;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use args::Args;
use report::Report;

fn main() -> ExitCode {
    let args = Args::parse();
    let runtime = match Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error.into()),
    };
    match runtime.block_on(until_signal(&args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

/// Measures. A signal drops the measurement, and with it every process that it started.
async fn until_signal(args: &Args) -> anyhow::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    if args.install_only {
        return tokio::select! {
            installed = Box::pin(peers::install(args)) => installed, // dropped at a signal only
            _ = interrupt.recv() => anyhow::bail!("interrupted"), // cancel-safe
            _ = terminate.recv() => anyhow::bail!("terminated"), // cancel-safe
        };
    }
    let measured = tokio::select! {
        report = Box::pin(scenario::run(args)) => report?, // dropped at a signal only
        _ = interrupt.recv() => anyhow::bail!("interrupted"), // cancel-safe
        _ = terminate.recv() => anyhow::bail!("terminated"), // cancel-safe
    };
    show(&measured, args)
}

fn show(report: &Report, args: &Args) -> anyhow::Result<()> {
    if let Some(file) = &args.json {
        let json = serde_json::to_vec_pretty(report)?;
        std::fs::write(file, json).with_context(|| format!("cannot write {}", file.display()))?;
    }
    report.print(std::io::stdout().lock()).context("cannot print")
}

fn failed(error: &anyhow::Error) -> ExitCode {
    report::say(&format!("error: {error:#}"));
    ExitCode::FAILURE
}
