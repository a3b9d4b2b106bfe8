//! `reattach`: a fleet of sessions, and a server that is killed and started again: how long until every agent is back,
//! and what that does to the calls of producers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use tenure_client::{Client, Options, RetryPolicy};
use tenure_tests::clock::Moment;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::Found;
use crate::args::{Args, Store};
use crate::bed::Bed;
use crate::figure::{Figure, percentile_ms};
use crate::producers::job;
use crate::rig::Rig;
use crate::sitters::{Offer, Sitters};

/// How long a fleet may take to come, whatever its size.
const GATHER: Duration = Duration::from_secs(180);
/// How long it may take to come back: far above what is wanted, so that a bad figure is seen.
const BACK: Duration = Duration::from_secs(120);
/// How long calls are timed before the restart.
const BEFORE: Duration = Duration::from_secs(5);
/// Calls at once, each after a pause: a light load, that what is added can be seen.
const CALLERS: usize = 8;
const PAUSE: Duration = Duration::from_millis(20);
/// A call that meets the dead server goes on until there is one.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) async fn measure(bed: &Bed, store: Store, args: &Args, found: &mut Found) -> anyhow::Result<()> {
    let (mut took, mut before, mut during, mut ratios) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..args.repetitions {
        let rig = Rig::start_for(bed, store, args.agents).await?;
        let (rig, one) = once(rig, args).await?;
        took.push(one.back.as_secs_f64());
        before.push(one.before);
        during.push(one.during);
        ratios.push(one.during / one.before.max(f64::EPSILON));
        found.checked(rig.finish("reattach", one.enqueued, 0).await?);
    }
    let name = format!("until {} agents are back after kill -9", args.agents);
    let figure = |name: &str, unit, values| Figure::new("reattach", Some(store), name, unit, values);
    found.figures.extend([
        figure(&name, "s", took).below(30.0, "< 30 s"),
        figure("enqueue before, p99", "ms", before),
        figure("enqueue while they come back, p99", "ms", during),
        figure("while they come back beside before, p99", "×", ratios).below(4.0, "≤ 4 ×"),
    ]);
    Ok(())
}

struct Once {
    back: Duration,
    before: f64,
    during: f64,
    enqueued: u64,
}

async fn once(mut rig: Rig, args: &Args) -> anyhow::Result<(Rig, Once)> {
    let mut sitters = Sitters::start(rig.endpoint(), args.agents, Offer::Nothing, GATHER).await?;
    let calls = Calls::begin(rig.endpoint(), args)?;
    sleep(BEFORE).await;
    let (epoch, stopped) = (sitters.epoch(), Moment::now());
    rig.restart().await?;
    // From when it serves: what came before is the time that a process takes to start.
    let ready = Moment::now();
    sitters.welcome_after(epoch, BACK).await?;
    let done = Moment::now();
    let calls = calls.end().await?;
    let of = |counts: &dyn Fn(Moment, Moment) -> bool| {
        let counted = calls.iter().filter(|(began, taken)| counts(*began, began.plus(*taken)));
        percentile_ms(&mut counted.map(|call| call.1).collect::<Vec<_>>(), 0.99)
    };
    let once = Once {
        back: done.since(ready),
        // What was under way when the server was killed is neither: it waited for a process to start.
        before: of(&|_, ended| ended <= stopped),
        during: of(&|began, _| began >= ready && began < done),
        enqueued: u64::try_from(calls.len())?,
    };
    Ok((rig, once))
}

/// Calls that go on until they are told to end.
struct Calls {
    stop: Arc<AtomicBool>,
    callers: JoinSet<anyhow::Result<Vec<(Moment, Duration)>>>,
}

impl Calls {
    fn begin(endpoint: &str, args: &Args) -> anyhow::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut callers = JoinSet::new();
        let payload = usize::try_from(args.payload)?;
        for _ in 0..CALLERS {
            let retry = RetryPolicy { give_up_after: PATIENCE, ..RetryPolicy::default() };
            let client = Client::connect_with(endpoint, Options { retry, ..Options::default() })?;
            callers.spawn(call(client, payload, stop.clone()));
        }
        Ok(Self { stop, callers })
    }

    async fn end(mut self) -> anyhow::Result<Vec<(Moment, Duration)>> {
        self.stop.store(true, Ordering::Relaxed);
        let mut calls = Vec::new();
        while let Some(taken) = self.callers.join_next().await {
            calls.extend(taken.context("a caller")??);
        }
        Ok(calls)
    }
}

async fn call(
    client: Client,
    payload: usize,
    stop: Arc<AtomicBool>,
) -> anyhow::Result<Vec<(Moment, Duration)>> {
    let mut calls = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let began = Moment::now();
        client.enqueue(&job(payload)).await?;
        calls.push((began, began.elapsed()));
        sleep(PAUSE).await;
    }
    Ok(calls)
}
