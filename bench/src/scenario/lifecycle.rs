//! `lifecycle`: from the first enqueue to the moment at which the end of the last lease is answered as stored.

use anyhow::Context as _;
use tenure_tests::clock::Moment;

use super::{Found, ceiling};
use crate::args::{Amount, Args, Store};
use crate::bed::Bed;
use crate::ceiling::Ceiling;
use crate::figure::{Figure, rate};
use crate::producers::{Load, Produced, produce};
use crate::rig::{DRAIN, Rig};

/// Callers at once, and jobs a call.
const LOADS: [(usize, usize); 2] = [(64, 1), (2, 500)];

pub(super) async fn measure(
    bed: &Bed,
    bare: &mut Ceiling,
    store: Store,
    args: &Args,
    found: &mut Found,
) -> anyhow::Result<()> {
    let payload = usize::try_from(args.payload)?;
    for (callers, batch) in LOADS {
        let mut rig = Rig::start(bed, store).await?.with_agents(args, false).await?;
        let load = Load { callers, batch, payload };
        let mut all = Produced::default();
        live(&mut rig, load, args.warm_up(), &mut all).await?;
        let (mut rates, mut ceilings) = (Vec::new(), Vec::new());
        for _ in 0..args.repetitions {
            ceilings.push(bare.lifecycles(args.amount()).await?);
            rates.push(live(&mut rig, load, args.amount(), &mut all).await?);
        }
        let name = match batch {
            1 => format!("lifecycle one by one, {callers} callers"),
            _ => format!("lifecycle batches of {batch}, {callers} callers"),
        };
        let figure = Figure::new("lifecycle", Some(store), name, "jobs/s", rates);
        let figure = figure.beside(ceiling::LIFECYCLE, &ceilings);
        let batched = batch > 1;
        found.figures.push(if batched {
            figure.at_least_share(0.35, "≥ 35 % of the ceiling")
        } else {
            figure
        });
        found.checked(rig.finish("lifecycle", all.jobs, all.busy).await?);
    }
    Ok(())
}

/// Enqueues so much and waits until the lease of each is stored as over. How many a second.
async fn live(rig: &mut Rig, load: Load, amount: Amount, all: &mut Produced) -> anyhow::Result<f64> {
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
