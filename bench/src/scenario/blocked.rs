//! `blocked`: many jobs of a higher priority wait for a slot that one job holds; how fast others live meanwhile.

use anyhow::ensure;
use tenure_tests::wait::{PATIENCE, level, until};

use super::Found;
use super::lifecycle::BATCHES;
use super::sides::{self, Side, Words};
use crate::agents::{Agents, Fleet};
use crate::args::{Amount, Args, Store};
use crate::bed::Bed;
use crate::producers::{Load, produce};
use crate::rig::{Expected, Rig, Setup};

/// The kind that waits. It needs a slot of the agents, too, so that it competes for all of them.
const BLOCKED: &str = "bench.blocked";
const SETUP: Setup = Setup {
    sessions: 0,
    slots: "narrow = 1",
    kinds: "[kinds.\"bench.blocked\"]\nneeds = { work = 1, narrow = 1 }\n",
};
/// Above that of the others, by a band.
const PRIORITY: i32 = 50;
/// Jobs that wait if nobody says how many.
const MANY: u64 = 100_000;

pub(super) async fn measure(bed: &Bed, store: Store, args: &Args, found: &mut Found) -> anyhow::Result<()> {
    let (callers, batch) = BATCHES;
    let load = Load::new(callers, batch, args)?;
    let fleet = Fleet { kinds: &["bench", BLOCKED], ..Fleet::of(args.agents) };
    let mut free = Side::new(Rig::start_on(bed.place()?, store, &SETUP).await?, &fleet, load).await?;
    let rig = Rig::start_on(bed.place()?, store, &SETUP).await?;
    // First the one that holds the slot, on a node of its own, then those that wait for it.
    let holder = Fleet { name: "holder", kinds: &[BLOCKED], holds: true, ..Fleet::of(1) };
    let holder = Agents::start(rig.endpoint(), &holder).await?;
    let first = Load { kind: BLOCKED, priority: PRIORITY, ..Load::new(1, 1, args)? };
    produce(rig.clients(), first, Amount::Jobs(1)).await?;
    until("the slot is held", PATIENCE, async || {
        let info = rig.client().map_err(|error| error.to_string())?.server_info().await;
        let leases = info.map_err(|error| error.to_string())?.leases;
        level(leases == 1, || format!("{leases} leases"))
    })
    .await?;
    let waiting = args.queued(MANY);
    let wait = Load { callers, batch: 1_000, ..first };
    let waits = produce(rig.clients(), wait, Amount::Jobs(waiting)).await?;
    ensure!(waits.jobs == waiting, "{} of {waiting} wait", waits.jobs);
    let mut blocked = Side::new(rig, &fleet, load).await?;
    let words = Words {
        scenario: "blocked",
        free: "lifecycle, nothing blocked",
        burdened: "lifecycle behind jobs blocked on one slot",
        least: 0.5,
        text: "≥ 50 % of nothing blocked",
    };
    sides::compare(&mut free, &mut blocked, args, words, found).await?;
    found.checked(free.finish("blocked", 0).await?);
    let Side { rig, all, .. } = blocked;
    // Its lease lives on, as that of an agent that is away.
    holder.stop().await?;
    let succeeded = all.jobs;
    let expected = Expected { enqueued: succeeded + waiting + 1, succeeded, running: 1 };
    found.checked(rig.finish_with("blocked", expected, all.busy + waits.busy).await?);
    Ok(())
}
