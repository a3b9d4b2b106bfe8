//! `enqueue`: jobs stored a second. No node may run them, so that nothing else is written.

use super::{Found, ceiling};
use crate::args::{Args, Store};
use crate::bed::Bed;
use crate::ceiling::Ceiling;
use crate::figure::{Figure, rate};
use crate::producers::{Load, produce};
use crate::rig::Rig;

/// Callers at once, and jobs a call.
const LOADS: [(usize, usize); 5] = [(1, 1), (16, 1), (64, 1), (2, 500), (2, 1_000)];

pub(super) async fn measure(
    bed: &Bed,
    bare: &mut Ceiling,
    store: Store,
    args: &Args,
    found: &mut Found,
) -> anyhow::Result<()> {
    for (callers, batch) in LOADS {
        // On a database of its own each: what one load left behind slows down no other.
        let rig = Rig::start(bed, store).await?;
        let load = Load::new(callers, batch, args)?;
        let warm = produce(rig.clients(), load, args.warm_up()).await?;
        let (mut stored, mut busy) = (warm.jobs, warm.busy);
        let (mut rates, mut ceilings) = (Vec::new(), Vec::new());
        for _ in 0..args.repetitions {
            ceilings.push(bare.enqueues(args.amount()).await?);
            let produced = produce(rig.clients(), load, args.amount()).await?;
            rates.push(rate(produced.jobs, produced.took));
            stored += produced.jobs;
            busy += produced.busy;
        }
        let name = match batch {
            1 => format!("enqueue one by one, {callers} callers"),
            _ => format!("enqueue batches of {batch}, {callers} callers"),
        };
        let figure = Figure::new("enqueue", Some(store), name, "jobs/s", rates);
        found.figures.push(figure.beside(ceiling::ENQUEUE, &ceilings));
        found.checked(rig.finish("enqueue", stored, busy).await?);
    }
    Ok(())
}
