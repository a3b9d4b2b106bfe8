//! The same measures for every peer in Rust. Callers and workers are tasks of one process, as its documentation shows.
//!
//! What counts as ended is what the database says: a handler that ran is only asked for first, since that is cheap.

use std::env;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};

/// Callers that enqueue one by one.
const CALLERS: usize = 64;
/// Connections that callers may use at once.
pub const CONNECTIONS: u32 = 16;
/// Connections that workers may use at once.
pub const WORKER_CONNECTIONS: u32 = 16;
/// How long the end of all jobs may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(2);

static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
static ENDED: AtomicU64 = AtomicU64::new(0);
static LENGTHS: Mutex<Vec<f64>> = Mutex::new(Vec::new());

/// What a job is given.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Work {
    text: String,
    /// When it was enqueued, in microseconds since the begin of this process, if its length is asked for.
    at: Option<u64>,
}

/// What a handler calls at its end.
pub fn ended(work: &Work) {
    if let Some(at) = work.at {
        let length = micros().saturating_sub(at) as f64 / 1e3;
        LENGTHS.lock().unwrap_or_else(PoisonError::into_inner).push(length);
    }
    ENDED.fetch_add(1, Ordering::Relaxed);
}

/// One of them.
pub trait Peer: Send + Sync + 'static {
    /// One job.
    fn enqueue(&self, work: Work) -> impl Future<Output = anyhow::Result<()>> + Send;
    /// Many, all or nothing.
    fn enqueue_many(&self, work: Vec<Work>) -> impl Future<Output = anyhow::Result<()>> + Send;
    /// Whether the database has jobs that have not ended.
    fn waits(&self) -> impl Future<Output = anyhow::Result<bool>> + Send;
    /// Takes all jobs away.
    fn clear(&self) -> impl Future<Output = anyhow::Result<()>> + Send;
    /// Starts the workers; they run until this process ends.
    fn start(&self) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// The URL of the database.
///
/// # Errors
/// If nobody named one.
pub fn url() -> anyhow::Result<String> {
    env::var("BENCH_POSTGRES").context("BENCH_POSTGRES is not set")
}

/// Who is measured: name, what was chosen, and whether a worker that lost its job can no longer say how it ended.
#[derive(Clone, Copy, Debug)]
pub struct About {
    pub peer: &'static str,
    pub about: &'static str,
    pub fenced: bool,
    /// The most jobs of drain and of each lifecycle: none, unless it is so slow that they would not end.
    pub most: Option<u64>,
}

/// Measures everything.
///
/// # Errors
/// What the peer says, or jobs that do not end.
pub async fn run<P: Peer>(peer: P, about: About) -> anyhow::Result<()> {
    LazyLock::force(&BEGAN);
    let peer = Arc::new(peer);
    let About { peer: name, about: chosen, fenced, most } = about;
    println!("{}", serde_json::json!({ "peer": name, "about": chosen, "fenced": fenced }));
    let seconds = Duration::from_secs(number("BENCH_SECONDS", 3));
    let timed = Amount { length: seconds, most: None };

    closed(&peer, CALLERS, 1, Amount { length: seconds / 4, most: None }).await?;
    let stored = closed(&peer, CALLERS, 1, timed).await?;
    say("enqueue_single", stored.jobs as f64 / stored.took);
    let stored = closed(&peer, 2, 1000, timed).await?;
    say("enqueue_batch", stored.jobs as f64 / stored.took);
    peer.clear().await?;

    let drain = number("BENCH_DRAIN", 50_000).min(most.unwrap_or(u64::MAX));
    let mut left = drain;
    while left > 0 {
        let count = left.min(1000);
        peer.enqueue_many(works(count)).await?;
        left -= count;
    }
    let began = Instant::now();
    peer.start().await?;
    let mut all = drain;
    until_ended(&peer, all).await?;
    say("drain", drain as f64 / began.elapsed().as_secs_f64());

    let lived = Amount { length: seconds, most };
    for (measure, callers, batch) in [("lifecycle_single", CALLERS, 1), ("lifecycle_batch", 2, 500)] {
        let stored = closed(&peer, callers, batch, lived).await?;
        all += stored.jobs;
        until_ended(&peer, all).await?;
        say(measure, stored.jobs as f64 / stored.began.elapsed().as_secs_f64());
    }

    let rate = number("BENCH_RATE", 50);
    let count = (rate * seconds.as_secs()).max(20);
    let mut timetable = interval(Duration::from_secs(1) / u32::try_from(rate)?);
    timetable.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut calls = JoinSet::new();
    for _ in 0..count {
        timetable.tick().await;
        let peer = Arc::clone(&peer);
        let work = Work { at: Some(micros()), ..work() };
        calls.spawn(async move { peer.enqueue(work).await });
    }
    while let Some(call) = calls.join_next().await {
        call??;
    }
    until_ended(&peer, all + count).await?;
    let mut lengths = LENGTHS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    ensure!(lengths.len() as u64 == count, "{} of {count} were timed", lengths.len());
    lengths.sort_by(f64::total_cmp);
    let share = |share: f64| lengths[((lengths.len() as f64 * share).ceil() as usize).max(1) - 1];
    say("round_trip_p50", share(0.5));
    say("round_trip_p99", share(0.99));
    Ok(())
}

fn say(measure: &str, value: f64) {
    println!("{}", serde_json::json!({ "measure": measure, "value": value }));
}

fn number(name: &str, default: u64) -> u64 {
    env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn micros() -> u64 {
    u64::try_from(BEGAN.elapsed().as_micros()).unwrap_or(u64::MAX)
}

fn work() -> Work {
    Work { text: "x".repeat(number("BENCH_PAYLOAD", 100) as usize), at: None }
}

fn works(count: u64) -> Vec<Work> {
    let one = work();
    (0..count).map(|_| one.clone()).collect()
}

#[derive(Clone, Copy)]
struct Amount {
    length: Duration,
    most: Option<u64>,
}

struct Stored {
    jobs: u64,
    began: Instant,
    took: f64,
}

/// Callers in a closed loop.
async fn closed<P: Peer>(peer: &Arc<P>, callers: usize, batch: u64, amount: Amount) -> anyhow::Result<Stored> {
    let began = Instant::now();
    let taken = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..callers {
        let (peer, taken) = (Arc::clone(peer), Arc::clone(&taken));
        tasks.spawn(async move {
            let mut jobs = 0;
            while began.elapsed() < amount.length {
                if amount.most.is_some_and(|most| taken.fetch_add(batch, Ordering::Relaxed) >= most) {
                    break;
                }
                match batch {
                    1 => peer.enqueue(work()).await?,
                    _ => peer.enqueue_many(works(batch)).await?,
                }
                jobs += batch;
            }
            anyhow::Ok(jobs)
        });
    }
    let mut jobs = 0;
    while let Some(ended) = tasks.join_next().await {
        jobs += ended??;
    }
    Ok(Stored { jobs, began, took: began.elapsed().as_secs_f64() })
}

async fn until_ended<P: Peer>(peer: &Arc<P>, count: u64) -> anyhow::Result<()> {
    let began = Instant::now();
    loop {
        let ran = ENDED.load(Ordering::Relaxed);
        ensure!(ran <= count, "{ran} jobs ran, and {count} were enqueued");
        if ran == count && !peer.waits().await? {
            return Ok(());
        }
        ensure!(began.elapsed() < PATIENCE, "{ran} of {count} jobs ran");
        sleep(LOOK).await;
    }
}
