//! `sizes`: what an idle server and an idle agent take, how large the binary is; asked for alone, also what a queued job
//! and a session add, and how long a start on many jobs takes.

use std::fs;
use std::time::Duration;

use anyhow::ensure;
use rustix::process::Signal;
use tenure_tests::binary;
use tenure_tests::wait::PATIENCE;
use tokio::time::sleep;

use super::{Found, backlog, fleet};
use crate::args::{Amount, Args, Scenario, Store};
use crate::bed::Bed;
use crate::figure::Figure;
use crate::rig::Rig;
use crate::vitals::{Memory, memory, processor_seconds};

/// Until a process that was started counts as idle.
pub(super) const SETTLE: Duration = Duration::from_secs(1);
/// Over how long processor time is taken if a repetition is counted in jobs.
const IDLE: Duration = Duration::from_secs(1);
/// Bytes of a megabyte, as memory is spoken of.
const MEGABYTE: f64 = 1e6;

pub(super) async fn measure(bed: &Bed, store: Store, args: &Args, found: &mut Found) -> anyhow::Result<()> {
    idle(bed, store, args, found).await?;
    // Where more is measured these two are scenarios of their own.
    if args.scenario == Scenario::Sizes {
        Box::pin(backlog::load(bed, store, args, "sizes", found)).await?;
        Box::pin(fleet::measure(bed, store, args, "sizes", found)).await?;
    }
    Ok(())
}

async fn idle(bed: &Bed, store: Store, args: &Args, found: &mut Found) -> anyhow::Result<()> {
    let idle = idle_for(args);
    let rig = Rig::start(bed, store).await?;
    let mut agent = rig.real_agent(1).await?;
    sleep(SETTLE).await;
    let (server_pid, agent_pid) = (rig.server().pid()?, agent.pid()?);
    let before = (processor_seconds(server_pid)?, processor_seconds(agent_pid)?);
    sleep(idle).await;
    let busy = (processor_seconds(server_pid)? - before.0, processor_seconds(agent_pid)? - before.1);
    let share = |seconds: f64| vec![seconds / idle.as_secs_f64() * 100.0];
    let figure = |name: &str, unit, values| Figure::new("sizes", Some(store), name, unit, values);
    let memory = |pid, which| memory(pid, which).map(|size| vec![size / MEGABYTE]);
    found.figures.extend([
        figure("idle server, resident", "MB", memory(server_pid, Memory::Resident)?).below(40.0, "< 40 MB"),
        figure("idle server, anonymous", "MB", memory(server_pid, Memory::Anonymous)?),
        figure("idle server, processor", "% of a core", share(busy.0)),
        figure("idle agent, resident", "MB", memory(agent_pid, Memory::Resident)?).below(15.0, "< 15 MB"),
        figure("idle agent, anonymous", "MB", memory(agent_pid, Memory::Anonymous)?),
        figure("idle agent, processor", "% of a core", share(busy.1)).below(0.5, "< 0.5 % of a core"),
    ]);
    #[expect(clippy::cast_precision_loss, reason = "a file is far below 2^52 bytes")]
    let binary = fs::metadata(binary::tenure()?)?.len() as f64 / MEGABYTE;
    found.figures.push(figure("the binary tenure", "MB", vec![binary]));
    agent.signal(Signal::TERM)?;
    let status = agent.ended(PATIENCE).await?;
    ensure!(status.success(), "the agent ended with {status}\n{}", agent.tail());
    found.checked(rig.finish("sizes", 0, 0).await?);
    Ok(())
}

/// Over how long processor time is taken.
pub(super) fn idle_for(args: &Args) -> Duration {
    match args.amount() {
        Amount::For(length) => length,
        Amount::Jobs(_) => IDLE,
    }
}
