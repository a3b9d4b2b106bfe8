//! `fanout`: chords, from their submission until their callers are told of their end. Members run side by side; a synthesis
//! is handed their results.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tenure_client::proto::WorkflowState;
use tenure_client::{Client, NewWorkflow, Part};
use tenure_tests::clock::Moment;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{Found, ceiling};
use crate::args::{Amount, Args, Store};
use crate::bed::Bed;
use crate::ceiling::Ceiling;
use crate::figure::{Figure, percentile_ms, rate};
use crate::producers::job;
use crate::rig::{DRAIN, Rig};

/// Callers at once, and members of each chord.
const LOADS: [(usize, usize); 3] = [(1, 10), (4, 100), (2, 1_000)];

pub(super) async fn measure(
    bed: &Bed,
    bare: &mut Ceiling,
    store: Store,
    args: &Args,
    found: &mut Found,
) -> anyhow::Result<()> {
    for (callers, members) in LOADS {
        let members = match args.amount() {
            Amount::Jobs(jobs) => members.min(usize::try_from(jobs)?),
            Amount::For(_) => members,
        };
        let mut rig = Rig::start(bed, store).await?.with_agents(args, false).await?;
        let mut all = fan_out(&rig, callers, members, args, args.warm_up()).await?.jobs;
        let (mut rates, mut lengths, mut ceilings) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..args.repetitions {
            ceilings.push(bare.lifecycles(args.amount()).await?);
            let mut fanned = fan_out(&rig, callers, members, args, args.amount()).await?;
            rates.push(rate(fanned.jobs, fanned.took));
            lengths.push(percentile_ms(&mut fanned.lengths, 0.5));
            all += fanned.jobs;
        }
        // The last leases end a moment after the last outcome.
        timeout(DRAIN, rig.agents()?.until_reaped(all)).await.context("a lease does not end")??;
        let name = format!("chords of {members} and a synthesis, {callers} callers");
        let figure = Figure::new("fanout", Some(store), name.clone(), "jobs/s", rates);
        found.figures.push(figure.beside(ceiling::LIFECYCLE, &ceilings));
        let name = format!("{name}: submitted → told of the end, p50");
        found.figures.push(Figure::new("fanout", Some(store), name, "ms", lengths));
        found.checked(rig.finish("fanout", all, 0).await?);
    }
    Ok(())
}

#[derive(Default)]
struct Fanned {
    /// Members and syntheses.
    jobs: u64,
    took: Duration,
    /// Of each chord.
    lengths: Vec<Duration>,
}

/// Callers in a closed loop, one chord after the other, each at least one.
async fn fan_out(
    rig: &Rig,
    callers: usize,
    members: usize,
    args: &Args,
    amount: Amount,
) -> anyhow::Result<Fanned> {
    let began = Moment::now();
    let payload = usize::try_from(args.payload)?;
    let submitted = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for number in 0..callers {
        let client = rig.clients().get(number % rig.clients().len().max(1)).context("no client")?.clone();
        let submitted = Arc::clone(&submitted);
        tasks.spawn(async move {
            let mut lengths = Vec::new();
            loop {
                let length = timeout(DRAIN, chord(&client, members, payload)).await;
                lengths.push(length.context("a chord does not end")??);
                let chords = submitted.fetch_add(1, Ordering::Relaxed) + 1;
                let over = match amount {
                    Amount::For(length) => began.elapsed() >= length,
                    Amount::Jobs(jobs) => chords * (u64::try_from(members)? + 1) >= jobs,
                };
                if over {
                    return anyhow::Ok(lengths);
                }
            }
        });
    }
    let mut fanned = Fanned::default();
    while let Some(ended) = tasks.join_next().await {
        fanned.lengths.extend(ended.context("a caller ended early")??);
    }
    fanned.took = began.elapsed();
    fanned.jobs = u64::try_from(fanned.lengths.len() * (members + 1))?;
    Ok(fanned)
}

/// One chord, to its end.
async fn chord(client: &Client, members: usize, payload: usize) -> anyhow::Result<Duration> {
    let workflow = NewWorkflow::new(Part::chord((0..members).map(|_| Part::job(job(payload))), job(payload)));
    let began = Moment::now();
    client.submit_workflow(&workflow).await?;
    let mut watch = client.watch_workflow(workflow.id());
    let mut last = None;
    while let Some(next) = watch.next().await? {
        last = Some(next);
    }
    let last = last.context("nothing was told of a workflow")?;
    ensure!(last.state() == WorkflowState::Succeeded, "a chord ended {:?}: {}", last.state(), last.reason);
    Ok(began.elapsed())
}
