//! `spawn`: real processes, each through a shim of the agent, beside plain fork, exec and wait at the same concurrency.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, ensure};
use rustix::process::Signal;
use tenure_tests::clock::Moment;
use tenure_tests::wait::{PATIENCE, level, until};

use super::Found;
use super::lifecycle::BATCHES;
use crate::args::{Amount, Args, Store};
use crate::bed::Bed;
use crate::figure::{Figure, rate};
use crate::producers::{Load, produce};
use crate::rig::{DRAIN, Expected, Rig};

/// Processes at once.
const AT_ONCE: u32 = 8;
/// Of what plain processes reach in the same time, so many run through shims, that both last about as long.
const SHARE: u64 = 4;
/// Fewer say nothing.
const LEAST: u64 = 16;

/// What both are compared in.
const PLAIN: &str = "plain fork, exec and wait";

pub(super) async fn measure(bed: &Bed, store: Store, args: &Args, found: &mut Found) -> anyhow::Result<()> {
    let rig = Rig::start(bed, store).await?;
    let mut agent = rig.real_agent(AT_ONCE).await?;
    let mut all = 0;
    // Not counted: what is read from the disk for the first time.
    shims(&rig, LEAST, args, &mut all).await?;
    let (mut through, mut plain) = (Vec::new(), Vec::new());
    for _ in 0..args.repetitions {
        let (count, speed) = without(args.amount()).await?;
        plain.push(speed);
        through.push(shims(&rig, (count / SHARE).max(LEAST), args, &mut all).await?);
        agent.alive()?;
    }
    agent.signal(Signal::TERM)?;
    let status = agent.ended(PATIENCE).await?;
    ensure!(status.success(), "the agent ended with {status}\n{}", agent.tail());
    let name = format!("processes through shims, {AT_ONCE} at once");
    let figure = Figure::new("spawn", Some(store), name, "1/s", through);
    let figure = figure.beside(PLAIN, &plain).at_least_share(0.5, "≤ 2 × its time");
    let name = format!("{PLAIN}, {AT_ONCE} at once");
    found.figures.push(Figure::new("spawn", Some(store), name, "1/s", plain));
    found.figures.push(figure);
    found.checked(rig.finish_with("spawn", Expected { enqueued: all, succeeded: all, running: 0 }, 0).await?);
    Ok(())
}

/// Plain processes: how many, and how many a second.
async fn without(amount: Amount) -> anyhow::Result<(u64, f64)> {
    let began = Moment::now();
    let taken = Arc::new(AtomicU64::new(0));
    // Threads: what waits for a process blocks.
    let threads = (0..AT_ONCE).map(|_| {
        let taken = Arc::clone(&taken);
        tokio::task::spawn_blocking(move || {
            let mut count = 0u64;
            loop {
                let number = taken.fetch_add(1, Ordering::Relaxed);
                let over = match amount {
                    Amount::For(length) => began.elapsed() >= length,
                    Amount::Jobs(jobs) => number >= jobs,
                };
                if over {
                    return anyhow::Ok(count);
                }
                let status = Command::new("true").stdin(Stdio::null()).stdout(Stdio::null()).status()?;
                ensure!(status.success(), "true ended with {status}");
                count += 1;
            }
        })
    });
    let threads: Vec<_> = threads.collect();
    let mut count = 0;
    for thread in threads {
        count += thread.await.context("a thread ended early")??;
    }
    Ok((count, rate(count, began.elapsed())))
}

/// So many jobs through the agent, from their enqueue until none is live and no lease is left: how many a second.
async fn shims(rig: &Rig, count: u64, args: &Args, all: &mut u64) -> anyhow::Result<f64> {
    let (callers, batch) = BATCHES;
    let produced = produce(rig.clients(), Load::new(callers, batch, args)?, Amount::Jobs(count)).await?;
    *all += count;
    // By the rows: what the server says of itself may be of the moment before these jobs.
    until("all processes have ended", DRAIN, async || {
        let rows = rig.place().count().await.map_err(|error| error.to_string())?;
        level(rows.succeeded == *all && rows.leases == 0, || format!("{rows:?} of {all}"))
    })
    .await?;
    Ok(rate(count, produced.began.elapsed()))
}
