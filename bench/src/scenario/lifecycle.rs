//! `lifecycle`: from the first enqueue to the moment at which the end of the last lease is answered as stored.

use super::sides::{self, Side, Words, live};
use super::{Found, ceiling};
use crate::agents::Fleet;
use crate::args::{Args, Store};
use crate::bed::Bed;
use crate::ceiling::Ceiling;
use crate::figure::Figure;
use crate::producers::{Load, Produced};
use crate::rig::{Rig, Setup};

/// Callers at once, and jobs a call.
const LOADS: [(usize, usize); 2] = [(64, 1), BATCHES];
/// Those of every comparison.
pub(super) const BATCHES: (usize, usize) = (2, 500);

/// The kind of which every job takes a unit of a slot of the whole fleet, and room for more than ever run at once.
const LIMITED: &str = "bench.limited";
const LIMITED_SETUP: Setup = Setup {
    sessions: 0,
    slots: "quota = 100000",
    kinds: "[kinds.\"bench.limited\"]\nneeds = { work = 1, quota = 1 }\n",
};

pub(super) async fn measure(
    bed: &Bed,
    bare: &mut Ceiling,
    store: Store,
    args: &Args,
    found: &mut Found,
) -> anyhow::Result<()> {
    for (callers, batch) in LOADS {
        let mut rig = Rig::start(bed, store).await?.with_agents(args, false).await?;
        let load = Load::new(callers, batch, args)?;
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
    limited(bed, store, args, found).await
}

/// What a slot of the whole fleet on every job costs.
async fn limited(bed: &Bed, store: Store, args: &Args, found: &mut Found) -> anyhow::Result<()> {
    let (callers, batch) = BATCHES;
    let load = Load::new(callers, batch, args)?;
    let fleet = Fleet::of(args.agents);
    let mut free = Side::new(Rig::start(bed, store).await?, &fleet, load).await?;
    let rig = Rig::start_on(bed.place()?, store, &LIMITED_SETUP).await?;
    let load = Load { kind: LIMITED, ..load };
    let mut limited = Side::new(rig, &Fleet { kinds: &[LIMITED], ..fleet }, load).await?;
    let words = Words {
        scenario: "lifecycle",
        free: "lifecycle without a fleet slot",
        burdened: "lifecycle with a fleet slot on every job",
        least: 0.85,
        text: "≥ 85 % of without",
    };
    sides::compare(&mut free, &mut limited, args, words, found).await?;
    found.checked(free.finish("lifecycle", 0).await?);
    found.checked(limited.finish("lifecycle", 0).await?);
    Ok(())
}
