//! What is measured, in which order.
//!
//! Responsible for one run: a bed for each store, the ceilings that the scenarios are compared with, one report.

mod backlog;
mod blocked;
mod ceiling;
mod drain;
mod enqueue;
mod explain;
mod fanout;
mod fleet;
mod latency;
mod lifecycle;
mod pinned;
mod placement;
mod reattach;
mod sides;
mod sizes;
mod spawn;
mod takeover;

use crate::args::{Args, Scenario, Store};
use crate::bed::Bed;
use crate::ceiling::Ceiling;
use crate::figure::Figure;
use crate::machine::{self, Machine};
use crate::peers;
use crate::report::{Check, Report, say};
use crate::rig::Rig;

/// What one store has to say.
#[derive(Debug, Default)]
struct Found {
    figures: Vec<Figure>,
    checks: Vec<Check>,
}

impl Found {
    /// Adds what was counted; of one scenario and store together.
    fn checked(&mut self, new: Check) {
        let is_same = |old: &&mut Check| (old.scenario, old.store) == (new.scenario, new.store);
        match self.checks.iter_mut().find(is_same) {
            None => self.checks.push(new),
            Some(old) => {
                old.enqueued += new.enqueued;
                old.succeeded += new.succeeded;
                old.invariants = old.invariants.min(new.invariants);
                old.busy += new.busy;
            }
        }
    }
}

/// Measures what was asked for.
///
/// # Errors
/// If something cannot be started, a job does not succeed, a row is missing, or an invariant does not hold.
pub(crate) async fn run(args: &Args) -> anyhow::Result<Report> {
    let mut machine: Option<Machine> = None;
    let mut found = Found::default();
    if args.scenario == Scenario::Placement {
        return placement_only(args);
    }
    if args.scenario == Scenario::Whole {
        // First: it looks at the memory of this process, which the others would have used already.
        say("Placement …");
        placement::measure(args, &mut found)?;
    }
    let mut peers = Vec::new();
    for &store in args.stores() {
        let bed = Bed::make(store).await?;
        let machine = match &mut machine {
            Some(machine) => machine,
            none => none.insert(Machine::look(bed.directory())?),
        };
        let version = bed.version().await?;
        match store {
            Store::Postgres => machine.postgres = Some(version),
            Store::Sqlite => machine.sqlite = Some(version),
        }
        Box::pin(on(&bed, store, args, &mut found)).await?;
        if args.scenario == Scenario::Peers {
            peers = Box::pin(peers::run(&bed, args)).await?;
        }
    }
    let Some(mut machine) = machine else { anyhow::bail!("there is no store to measure") };
    machine.load_after = machine::load();
    Ok(Report {
        version: 1,
        machine,
        agents: args.agents,
        payload_bytes: args.payload,
        peers,
        figures: found.figures,
        checks: found.checks,
    })
}

/// No store has a part in it.
fn placement_only(args: &Args) -> anyhow::Result<Report> {
    let directory = tempfile::tempdir()?;
    let mut machine = Machine::look(directory.path())?;
    let mut found = Found::default();
    placement::measure(args, &mut found)?;
    machine.load_after = machine::load();
    Ok(Report {
        version: 1,
        machine,
        agents: 0,
        payload_bytes: 0,
        peers: Vec::new(),
        figures: found.figures,
        checks: found.checks,
    })
}

async fn on(bed: &Bed, store: Store, args: &Args, found: &mut Found) -> anyhow::Result<()> {
    let asked = |scenario: Scenario| {
        let included = args.scenario.includes(scenario, store);
        if included {
            say(&format!("{scenario:?} on {} …", store.name()));
        }
        included
    };
    // Nothing else runs while idle processes are looked at.
    if asked(Scenario::Sizes) {
        sizes::measure(bed, store, args, found).await?;
    }
    if asked(Scenario::Fleet) {
        fleet::measure(bed, store, args, "fleet", found).await?;
    }
    if asked(Scenario::Latency) {
        latency::measure(bed, store, args, found).await?;
    }
    if asked(Scenario::Reattach) {
        reattach::measure(bed, store, args, found).await?;
    }
    if asked(Scenario::Spawn) {
        spawn::measure(bed, store, args, found).await?;
    }
    let compared = [
        Scenario::Ceiling,
        Scenario::Enqueue,
        Scenario::Lifecycle,
        Scenario::Drain,
        Scenario::Fanout,
        Scenario::Backlog,
    ];
    if compared.iter().any(|&scenario| args.scenario.includes(scenario, store)) {
        let mut bare = Ceiling::open(&Rig::prepared(bed, store).await?, args.payload).await?;
        if asked(Scenario::Ceiling) {
            ceiling::measure(&mut bare, store, args, found).await?;
        }
        if asked(Scenario::Enqueue) {
            enqueue::measure(bed, &mut bare, store, args, found).await?;
        }
        if asked(Scenario::Lifecycle) {
            lifecycle::measure(bed, &mut bare, store, args, found).await?;
        }
        if asked(Scenario::Drain) {
            drain::measure(bed, &mut bare, store, args, found).await?;
        }
        if asked(Scenario::Fanout) {
            fanout::measure(bed, &mut bare, store, args, found).await?;
        }
        if asked(Scenario::Backlog) {
            backlog::measure(bed, &mut bare, store, args, found).await?;
        }
    }
    if asked(Scenario::Blocked) {
        blocked::measure(bed, store, args, found).await?;
    }
    if asked(Scenario::Explain) {
        explain::measure(bed, store, args, found).await?;
    }
    if asked(Scenario::Takeover) {
        takeover::measure(bed, args, found).await?;
    }
    if asked(Scenario::Pinned) {
        pinned::measure(bed, args, found).await?;
    }
    Ok(())
}
