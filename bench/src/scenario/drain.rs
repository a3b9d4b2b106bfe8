//! `drain`: jobs that wait before anybody can run them, until the end of the last lease is answered as stored.

use anyhow::Context as _;
use tenure_tests::clock::Moment;

use super::lifecycle::BATCHES;
use super::{Found, ceiling};
use crate::agents::Fleet;
use crate::args::{Amount, Args, Store};
use crate::bed::Bed;
use crate::ceiling::Ceiling;
use crate::figure::{Figure, rate};
use crate::producers::{Load, produce};
use crate::rig::{DRAIN, Rig};

/// Jobs that wait if nobody says how many.
const MANY: u64 = 50_000;

pub(super) async fn measure(
    bed: &Bed,
    bare: &mut Ceiling,
    store: Store,
    args: &Args,
    found: &mut Found,
) -> anyhow::Result<()> {
    let waiting = args.queued(MANY);
    let (callers, batch) = BATCHES;
    let load = Load::new(callers, batch, args)?;
    let (mut rates, mut ceilings) = (Vec::new(), Vec::new());
    for _ in 0..args.repetitions {
        // Each on a database of its own: agents that are there would begin at once.
        let mut rig = Rig::start(bed, store).await?;
        ceilings.push(bare.lifecycles(args.amount()).await?);
        let produced = produce(rig.clients(), load, Amount::Jobs(waiting)).await?;
        let began = Moment::now();
        rig.join(&Fleet::of(args.agents)).await?;
        let agents = rig.agents()?;
        let drained = tokio::time::timeout(DRAIN, agents.until_reaped(waiting)).await;
        rates.push(rate(waiting, began.elapsed()));
        let reaped = agents.reaped();
        drained.with_context(|| format!("{reaped} of {waiting} leases are over after {DRAIN:?}"))??;
        found.checked(rig.finish("drain", waiting, produced.busy).await?);
    }
    let name = format!("drain {waiting} that wait");
    let figure = Figure::new("drain", Some(store), name, "jobs/s", rates);
    found.figures.push(figure.beside(ceiling::LIFECYCLE, &ceilings));
    Ok(())
}
