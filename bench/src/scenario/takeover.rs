//! `takeover`: the leader is killed, or resigns, while many jobs wait: how long until the other server has stored a job.
//! Postgres only, since SQLite has one server.

use std::time::Duration;

use anyhow::ensure;
use rustix::process::Signal;
use tenure_client::{Client, Options, RetryPolicy};
use tenure_tests::clock::Moment;
use tenure_tests::wait::{PATIENCE, level, until};

use super::Found;
use super::backlog;
use crate::args::{Args, Store};
use crate::bed::Bed;
use crate::figure::Figure;
use crate::producers::job;
use crate::rig::{Addresses, Rig, Setup};

/// Jobs that wait if nobody says how many, what a takeover may take then, and in words.
const SIZES: [(u64, f64, &str); 2] = [(100_000, 5.0, "< 5 s"), (1_000_000, 8.0, "< 8 s")];
/// Far above what is wanted, so that a bad figure is seen.
const LONGEST: Duration = Duration::from_secs(60);
/// A caller that asks again this often sees the first commit of the new leader at once.
const AGAIN: Duration = Duration::from_millis(10);

pub(super) async fn measure(bed: &Bed, args: &Args, found: &mut Found) -> anyhow::Result<()> {
    for (many, limit, text) in SIZES {
        let waiting = args.queued(many);
        let full = Box::pin(backlog::fill(bed, Store::Postgres, args, &Setup::default(), waiting)).await?;
        let (mut rig, mut enqueued) = (full.rig, full.waiting);
        let (mut killed, mut resigned) = (Vec::new(), Vec::new());
        for repetition in 0..args.repetitions {
            for signal in [Signal::KILL, Signal::TERM] {
                let took = once(&mut rig, args, signal, repetition).await?;
                enqueued += 1;
                if signal == Signal::KILL { &mut killed } else { &mut resigned }.push(took.as_secs_f64());
            }
        }
        let figure = |name, values| Figure::new("takeover", Some(Store::Postgres), name, "s", values);
        let name = format!("kill -9 of the leader → a job is stored, {waiting} wait");
        found.figures.push(figure(name, killed).below(limit, text));
        let name = format!("the leader resigns → a job is stored, {waiting} wait");
        let resigned = figure(name, resigned);
        // What is wanted of a resignation is wanted of the smaller one.
        found.figures.push(if many == 100_000 { resigned.below(0.7, "< 0.7 s") } else { resigned });
        found.checked(rig.finish("takeover", enqueued, 0).await?);
        if args.is_queued_given() {
            break;
        }
    }
    Ok(())
}

/// Starts a follower, ends the leader, and waits for a job that is stored.
async fn once(rig: &mut Rig, args: &Args, signal: Signal, repetition: u32) -> anyhow::Result<Duration> {
    let (follower, addresses) = rig.another(&format!("server-{signal:?}-{repetition}")).await?;
    let client = caller(&addresses)?;
    let payload = usize::try_from(args.payload)?;
    let info = client.server_info().await?;
    ensure!(!info.leader, "there are two leaders: {info:?}");
    let began = Moment::now();
    rig.server().signal(signal)?;
    client.enqueue(&job(payload)).await?;
    let took = began.elapsed();
    rig.server_ended().await?;
    rig.replace_server(follower, addresses)?;
    // The next round needs a leader that answers of its own.
    until("it leads", PATIENCE, async || {
        let info = client.server_info().await.map_err(|error| error.to_string())?;
        level(info.leader, || info.standing)
    })
    .await?;
    Ok(took)
}

/// A client of one server only, which asks again soon.
fn caller(addresses: &Addresses) -> anyhow::Result<Client> {
    let retry = RetryPolicy { give_up_after: LONGEST, first_backoff: AGAIN, max_backoff: AGAIN };
    Ok(Client::connect_with(&addresses.grpc, Options { retry, ..Options::default() })?)
}
