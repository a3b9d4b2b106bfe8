//! Two servers side by side, one of which carries a burden: what the burden costs.
//!
//! Responsible for taking turns, repetition by repetition: a machine that gets slower half-way spoils no ratio.
//! Invariant: while one of the two is measured, nobody asks the other for anything.

use anyhow::Context as _;
use tenure_tests::clock::Moment;

use super::Found;
use crate::agents::Fleet;
use crate::args::{Amount, Args};
use crate::figure::{Figure, rate};
use crate::producers::{Load, Produced, produce};
use crate::report::Check;
use crate::rig::{DRAIN, Expected, Rig};

/// A server with its load, and what has been enqueued by that so far.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) rig: Rig,
    pub(super) load: Load,
    pub(super) all: Produced,
}

impl Side {
    /// Lets the agents of a fleet join.
    ///
    /// # Errors
    /// If one is not welcomed.
    pub(super) async fn new(mut rig: Rig, fleet: &Fleet, load: Load) -> anyhow::Result<Self> {
        rig.join(fleet).await?;
        Ok(Self { rig, load, all: Produced::default() })
    }

    /// Enqueues so much and waits until the lease of each is stored as over. How many a second.
    ///
    /// # Errors
    /// What a caller or an agent met.
    pub(super) async fn live(&mut self, amount: Amount) -> anyhow::Result<f64> {
        live(&mut self.rig, self.load, amount, &mut self.all).await
    }

    /// Checks what must hold and ends it, with so many jobs that wait beside those of the load.
    ///
    /// # Errors
    /// What does not hold.
    pub(super) async fn finish(self, scenario: &'static str, waiting: u64) -> anyhow::Result<Check> {
        let enqueued = self.all.jobs + waiting;
        let expected = Expected { enqueued, succeeded: self.all.jobs, running: 0 };
        self.rig.finish_with(scenario, expected, self.all.busy).await
    }
}

/// Enqueues so much and waits until the lease of each is stored as over. How many a second.
///
/// # Errors
/// What a caller or an agent met.
pub(super) async fn live(
    rig: &mut Rig,
    load: Load,
    amount: Amount,
    all: &mut Produced,
) -> anyhow::Result<f64> {
    let produced = produce(rig.clients(), load, amount).await?;
    all.jobs += produced.jobs;
    all.busy += produced.busy;
    let agents = rig.agents()?;
    let drained = tokio::time::timeout(DRAIN, agents.until_reaped(all.jobs)).await;
    let ended = Moment::now();
    drained
        .with_context(|| format!("{} of {} leases are over after {DRAIN:?}", agents.reaped(), all.jobs))??;
    Ok(rate(produced.jobs, ended.since(produced.began)))
}

/// What is compared, in words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words {
    pub(super) scenario: &'static str,
    pub(super) free: &'static str,
    /// Of the one with the burden.
    pub(super) burdened: &'static str,
    /// What its share of the free one should be at the least.
    pub(super) least: f64,
    pub(super) text: &'static str,
}

/// Measures both, in turn, and says what share of the free one's speed the other has.
///
/// # Errors
/// What a caller or an agent met.
pub(super) async fn compare(
    free: &mut Side,
    burdened: &mut Side,
    args: &Args,
    words: Words,
    found: &mut Found,
) -> anyhow::Result<()> {
    free.live(args.warm_up()).await?;
    burdened.live(args.warm_up()).await?;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..args.repetitions {
        without.push(free.live(args.amount()).await?);
        with.push(burdened.live(args.amount()).await?);
    }
    let store = Some(free.rig.store());
    let figure = Figure::new(words.scenario, store, words.burdened, "jobs/s", with);
    let figure = figure.beside(words.free, &without).at_least_share(words.least, words.text);
    found.figures.push(Figure::new(words.scenario, store, words.free, "jobs/s", without));
    found.figures.push(figure);
    Ok(())
}
