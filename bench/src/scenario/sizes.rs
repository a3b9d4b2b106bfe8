//! `sizes`: what an idle server and an idle agent take, and how large the binary is.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rustix::process::{Pid, Signal};
use tenure_client::proto::NodeState;
use tenure_tests::binary;
use tenure_tests::process::Process;
use tenure_tests::wait::{PATIENCE, until};
use tokio::time::sleep;

use super::Found;
use crate::args::{Amount, Args, Store};
use crate::bed::Bed;
use crate::figure::Figure;
use crate::machine::value_of;
use crate::rig::{KIND, Rig, SLOT, text};

/// Until a process that was started counts as idle.
const SETTLE: Duration = Duration::from_secs(1);
/// Over how long processor time is taken if a repetition is counted in jobs.
const IDLE: Duration = Duration::from_secs(1);
/// What the kernel counts processor time in, in a second. Fixed for programs, whatever its own clock.
const TICKS: f64 = 100.0;
/// Bytes of a megabyte, as memory is spoken of.
const MEGABYTE: f64 = 1e6;

pub(super) async fn measure(bed: &Bed, store: Store, args: &Args, found: &mut Found) -> anyhow::Result<()> {
    let idle = match args.amount() {
        Amount::For(length) => length,
        Amount::Jobs(_) => IDLE,
    };
    let rig = Rig::start(bed, store).await?;
    let mut agent = start_agent(&rig)?;
    let client = rig.clients().first().context("no client")?.clone();
    until("the agent is live", PATIENCE, async || {
        agent.alive().map_err(|error| error.to_string())?;
        match client.node("bench-real").await {
            Ok(node) if node.state() == NodeState::Live => Ok(()),
            Ok(node) => Err(format!("it is {:?}\n{}", node.state(), agent.tail())),
            Err(error) => Err(format!("{error}\n{}", agent.tail())),
        }
    })
    .await?;
    sleep(SETTLE).await;
    let (server_pid, agent_pid) = (rig.server().pid()?, agent.pid()?);
    let before = (ticks(server_pid)?, ticks(agent_pid)?);
    sleep(idle).await;
    let busy = (ticks(server_pid)? - before.0, ticks(agent_pid)? - before.1);
    let share = |ticks: f64| vec![ticks / TICKS / idle.as_secs_f64() * 100.0];
    let figure = |name: &str, unit, values| Figure::new("sizes", Some(store), name, unit, values);
    let memory = |pid, name| memory(pid, name).map(|size| vec![size]);
    found.figures.extend([
        figure("idle server, resident", "MB", memory(server_pid, "VmRSS")?).below(40.0, "< 40 MB"),
        figure("idle server, anonymous", "MB", memory(server_pid, "RssAnon")?),
        figure("idle server, processor", "% of a core", share(busy.0)),
        figure("idle agent, resident", "MB", memory(agent_pid, "VmRSS")?).below(15.0, "< 15 MB"),
        figure("idle agent, anonymous", "MB", memory(agent_pid, "RssAnon")?),
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

/// A real agent, with nothing to do.
fn start_agent(rig: &Rig) -> anyhow::Result<Process> {
    let (file, data) = (rig.files().join("node.toml"), rig.files().join("agent"));
    let node = format!(
        "name = \"bench-real\"\nallow_root = true\n\n[slots]\n{SLOT} = 1\n\n[kinds.\"{KIND}\"]\ncommand = [\"true\"]\n"
    );
    fs::write(&file, node)?;
    let (file, data) = (text(&file)?, text(&data)?);
    let args = ["agent", "--config", &file, "--data", &data, "--server", rig.endpoint()];
    Process::tenure("the agent", &args, &rig.files().join("agent.log"), rig.mark())
}

/// Of a process, in megabytes.
fn memory(pid: Pid, name: &str) -> anyhow::Result<f64> {
    let file = format!("/proc/{}/status", pid.as_raw_nonzero());
    let kib = value_of(&file, name).and_then(|kib| kib.split(' ').next()?.parse::<f64>().ok());
    Ok(kib.with_context(|| format!("{file} has no {name}"))? * 1024.0 / MEGABYTE)
}

/// Processor time so far, its own and the kernel's for it.
fn ticks(pid: Pid) -> anyhow::Result<f64> {
    let file = format!("/proc/{}/stat", pid.as_raw_nonzero());
    let text = fs::read_to_string(&file)?;
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace().skip(11).take(2);
    let ticks: Vec<f64> = fields.map(str::parse).collect::<Result<_, _>>()?;
    ensure!(ticks.len() == 2, "{file} is cut short");
    Ok(ticks.iter().sum())
}
