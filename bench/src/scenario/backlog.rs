//! `backlog`: a million jobs wait. How long a start on them takes and what they add to the process, how fast others live
//! beside them, and how fast the agents take them.
//!
//! They are laid into the database by bare SQL, which is what a server finds that is started again; that they are what it
//! would have written itself is what its invariants and the counts at the end say.

use std::time::Duration;

use anyhow::ensure;
use tenure_client::proto::PausePolicy;
use tenure_tests::clock::Moment;
use tenure_tests::wait::{level, until};
use tokio::time::{sleep, timeout};

use super::lifecycle::BATCHES;
use super::sides::{self, Side, Words};
use super::sizes::SETTLE;
use super::{Found, ceiling};
use crate::agents::Fleet;
use crate::args::{Amount, Args, Store};
use crate::bed::Bed;
use crate::ceiling::Ceiling;
use crate::figure::{Figure, rate};
use crate::producers::Load;
use crate::report::say;
use crate::rig::{DRAIN, Expected, KIND, Rig, Setup};
use crate::vitals::{Memory, memory};

/// The kind of those that live beside the backlog.
const OTHER: &str = "bench.other";
const SETUP: Setup =
    Setup { sessions: 0, slots: "", kinds: "[kinds.\"bench.other\"]\nneeds = { work = 1 }\n" };
/// Jobs that wait if nobody says how many.
pub(super) const MANY: u64 = 1_000_000;

/// A server that was started on many jobs.
pub(super) struct Full {
    pub(super) rig: Rig,
    /// How many they are.
    pub(super) waiting: u64,
    /// How long the start took, and one without jobs right before it.
    load: Duration,
    empty: Duration,
    /// What each job adds to the process, in bytes.
    bytes: f64,
}

/// Starts a server, lays so many jobs of [`KIND`] into its database while it is away, and starts it again.
///
/// # Errors
/// If it does not start on them.
pub(super) async fn fill(
    bed: &Bed,
    store: Store,
    args: &Args,
    setup: &Setup,
    waiting: u64,
) -> anyhow::Result<Full> {
    let mut rig = Rig::start_on(bed.place()?, store, setup).await?;
    rig.stop_server().await?;
    let empty = rig.start_again().await?;
    sleep(SETTLE).await;
    let before = memory(rig.server().pid()?, Memory::Anonymous)?;
    rig.stop_server().await?;
    say(&format!("laying {waiting} jobs …"));
    let mut bare = Ceiling::open(rig.place(), args.payload).await?;
    let waiting = bare.lay(waiting).await?;
    bare.close().await?;
    let load = rig.start_again().await?;
    sleep(SETTLE).await;
    let after = memory(rig.server().pid()?, Memory::Anonymous)?;
    let info = rig.client()?.server_info().await?;
    ensure!(info.live_jobs == waiting, "{} of {waiting} jobs were loaded", info.live_jobs);
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52 jobs")]
    let bytes = (after - before) / waiting as f64;
    Ok(Full { rig, waiting, load, empty, bytes })
}

impl Full {
    fn figures(&self, scenario: &'static str, store: Store, found: &mut Found) {
        let Self { waiting, load, empty, bytes, .. } = self;
        let figure = |name: String, unit, value| Figure::new(scenario, Some(store), name, unit, vec![value]);
        found.figures.extend([
            figure("start without jobs".to_owned(), "s", empty.as_secs_f64()),
            figure(format!("start with {waiting} that wait"), "s", load.as_secs_f64()).below(3.0, "< 3 s"),
            figure(format!("memory of a job in the process, {waiting} wait"), "bytes", *bytes)
                .below(400.0, "≤ 400 bytes"),
        ]);
    }
}

/// Only the start and the memory.
///
/// # Errors
/// If something does not start, or an invariant does not hold.
pub(super) async fn load(
    bed: &Bed,
    store: Store,
    args: &Args,
    scenario: &'static str,
    found: &mut Found,
) -> anyhow::Result<()> {
    let full = fill(bed, store, args, &SETUP, args.queued(MANY)).await?;
    full.figures(scenario, store, found);
    found.checked(full.rig.finish(scenario, full.waiting, 0).await?);
    Ok(())
}

pub(super) async fn measure(
    bed: &Bed,
    bare: &mut Ceiling,
    store: Store,
    args: &Args,
    found: &mut Found,
) -> anyhow::Result<()> {
    let full = Box::pin(fill(bed, store, args, &SETUP, args.queued(MANY))).await?;
    full.figures("backlog", store, found);
    let waiting = full.waiting;
    let (callers, batch) = BATCHES;
    let load = Load { kind: OTHER, ..Load::new(callers, batch, args)? };
    let fleet = Fleet { kinds: &[OTHER], ..Fleet::of(args.agents) };
    let mut free = Side::new(Rig::start_on(bed.place()?, store, &SETUP).await?, &fleet, load).await?;
    let mut behind = Side::new(full.rig, &fleet, load).await?;
    let words = Words {
        scenario: "backlog",
        free: "lifecycle, nothing waits",
        burdened: "lifecycle beside the backlog",
        least: 0.8,
        text: "≥ 80 % of nothing waits",
    };
    Box::pin(sides::compare(&mut free, &mut behind, args, words, found)).await?;
    found.checked(free.finish("backlog", 0).await?);
    take(behind, bare, waiting, args, found).await
}

/// Agents that run what waits: how fast they take it, for so long; then no more is granted, and what was ends.
async fn take(
    side: Side,
    bare: &mut Ceiling,
    waiting: u64,
    args: &Args,
    found: &mut Found,
) -> anyhow::Result<()> {
    let Side { mut rig, all, .. } = side;
    rig.agents_leave().await?;
    let takers = Fleet { name: "taker", ..Fleet::of(args.agents) };
    let mut ceilings = Vec::new();
    let mut rates = Vec::new();
    for _ in 0..args.repetitions {
        ceilings.push(bare.lifecycles(args.amount()).await?);
    }
    rig.join(&takers).await?;
    for _ in 0..args.repetitions {
        let (began, before) = (Moment::now(), rig.agents()?.reaped());
        let (length, until) = match args.amount() {
            Amount::For(length) => (length, waiting),
            Amount::Jobs(jobs) => (DRAIN, (before + jobs).min(waiting)),
        };
        let agents = rig.agents()?;
        match timeout(length, agents.until_reaped(until)).await {
            Ok(reached) => reached?,
            // So long, or never so many.
            Err(_) => ensure!(matches!(args.amount(), Amount::For(_)), "too slow"),
        }
        if rig.agents()?.reaped() == before {
            break; // Nothing is left that could be measured.
        }
        let taken = rig.agents()?.reaped() - before;
        rates.push(rate(taken, began.elapsed()));
    }
    rig.client()?.pause_kind(KIND, PausePolicy::Hold).await?;
    // What the server tells of itself may be some hundred milliseconds old; what its agents have seen is not.
    let gone = until("what was granted has ended", DRAIN, async || {
        let taken = rig.agents().map_err(|error| error.to_string())?.reaped();
        let info = rig.client().map_err(|error| error.to_string())?.server_info().await;
        let info = info.map_err(|error| error.to_string())?;
        let all_told = info.leases == 0 && info.live_jobs + taken == waiting;
        level(all_told, || {
            format!("{} leases, {} of {waiting} live, {taken} taken", info.leases, info.live_jobs)
        })?;
        Ok(taken)
    })
    .await?;
    let store = Some(rig.store());
    let figure = Figure::new("backlog", store, "taken from the backlog", "jobs/s", rates);
    found.figures.push(figure.beside(ceiling::LIFECYCLE, &ceilings));
    let expected = Expected { enqueued: all.jobs + waiting, succeeded: all.jobs + gone, running: 0 };
    found.checked(rig.finish_with("backlog", expected, all.busy).await?);
    Ok(())
}
