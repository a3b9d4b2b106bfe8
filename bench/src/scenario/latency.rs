//! `latency`: what one job takes when there is nothing to wait for.
//!
//! Jobs are enqueued on a timetable, each by a task of its own: one that is late delays none after it, and none is left
//! out because the one before was late. A bare commit on a connection of its own stands half-way between two of them.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tenure_tests::clock::Moment;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::Found;
use crate::agents::{Seen, What};
use crate::args::{Amount, Args, Store};
use crate::bed::Bed;
use crate::ceiling::Commits;
use crate::figure::{Figure, percentile_ms};
use crate::producers;
use crate::rig::{DRAIN, Rig};

/// A repetition is so many times as long as one of the others: a p99 needs many jobs, and these come slowly.
const LONGER: u32 = 4;

/// The lengths of one repetition.
#[derive(Default)]
struct Lengths {
    enqueued: Vec<Duration>,
    granted: Vec<Duration>,
    stored: Vec<Duration>,
    commits: Vec<Duration>,
}

/// The figures of one repetition: p50 and p99 of each, in milliseconds.
#[derive(Default)]
struct Columns {
    enqueued: [Vec<f64>; 2],
    granted: [Vec<f64>; 2],
    stored: [Vec<f64>; 2],
    commits: [Vec<f64>; 2],
}

pub(super) async fn measure(bed: &Bed, store: Store, args: &Args, found: &mut Found) -> anyhow::Result<()> {
    let mut rig = Rig::start(bed, store).await?.with_agents(args, true).await?;
    let mut commits = Commits::open(bed).await?;
    let mut next = 0;
    let mut columns = Columns::default();
    for repetition in 0..=args.repetitions {
        let warm_up = repetition == 0;
        let count = jobs(args, if warm_up { args.warm_up() } else { args.amount() });
        let lengths = repeat(&mut rig, &mut commits, args, count, &mut next).await?;
        if !warm_up {
            columns.take(lengths);
        }
    }
    columns.figures(store, found);
    let enqueued = u64::try_from(next)?;
    found.checked(rig.finish("latency", enqueued, 0).await?);
    Ok(())
}

fn jobs(args: &Args, amount: Amount) -> u64 {
    match amount {
        Amount::Jobs(jobs) => jobs,
        Amount::For(length) => (length * LONGER).as_secs().max(1) * u64::from(args.rate),
    }
}

async fn repeat(
    rig: &mut Rig,
    commits: &mut Commits,
    args: &Args,
    count: u64,
    next: &mut i64,
) -> anyhow::Result<Lengths> {
    let mut lengths = Lengths::default();
    let mut began: HashMap<String, Moment> = HashMap::new();
    let mut calls = JoinSet::new();
    // Twice the rate: a job, a bare commit, a job.
    let mut timetable = interval(Duration::from_secs(1) / args.rate / 2);
    timetable.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let payload = usize::try_from(args.payload)?;
    for _ in 0..count {
        timetable.tick().await;
        let job = producers::job(payload);
        let client = rig.clients().first().context("no client")?.clone();
        let began_at = Moment::now();
        began.insert(job.id().to_owned(), began_at);
        calls.spawn(async move {
            let enqueued = client.enqueue(&job).await?;
            ensure!(!enqueued.deduplicated, "{} was there before", job.id());
            anyhow::Ok(began_at.elapsed())
        });
        timetable.tick().await;
        *next += 1;
        lengths.commits.push(commits.one(*next).await?);
    }
    while let Some(call) = calls.join_next().await {
        lengths.enqueued.push(call.context("a call ended early")??);
    }
    while lengths.stored.len() < began.len() {
        let seen = timeout(DRAIN, rig.agents()?.next_seen()).await.context("a job does not end")??;
        let Seen { job, what, at } = seen;
        let length = at.since(*began.get(&job).context("a job that nobody enqueued")?);
        match what {
            What::Granted => lengths.granted.push(length),
            What::Stored => lengths.stored.push(length),
        }
    }
    Ok(lengths)
}

impl Columns {
    fn take(&mut self, lengths: Lengths) {
        let Lengths { mut enqueued, mut granted, mut stored, mut commits } = lengths;
        for (columns, lengths) in [
            (&mut self.enqueued, &mut enqueued),
            (&mut self.granted, &mut granted),
            (&mut self.stored, &mut stored),
            (&mut self.commits, &mut commits),
        ] {
            let [half, most] = columns;
            half.push(percentile_ms(lengths, 0.5));
            most.push(percentile_ms(lengths, 0.99));
        }
    }

    fn figures(self, store: Store, found: &mut Found) {
        let figure = |name: String, values| Figure::new("latency", Some(store), name, "ms", values);
        let Self { enqueued, granted, stored, commits } = self;
        let above: Vec<f64> =
            stored[1].iter().zip(&commits[1]).map(|(stored, commit)| stored - commit).collect();
        for (name, [half, most]) in
            [("bare commit", commits), ("enqueue → answered", enqueued), ("enqueue → granted", granted)]
        {
            found.figures.push(figure(format!("{name}, p50"), half));
            found.figures.push(figure(format!("{name}, p99"), most));
        }
        let [half, most] = stored;
        let name = "enqueue → granted → finished → stored";
        found.figures.push(figure(format!("{name}, p50"), half).below(2.5, "< 2.5 ms"));
        found.figures.push(figure(format!("{name}, p99"), most));
        let name = format!("{name}, p99 above the bare commit's");
        found.figures.push(figure(name, above).below(8.0, "< 8 ms"));
    }
}
