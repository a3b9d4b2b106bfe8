//! `tenure agent`: a node agent.

use std::convert::Infallible;
use std::path::PathBuf;

use clap::Args;
use tenure_node_agent::clock::Clock;
use tenure_node_agent::config::{Config, NodeFile, Overrides};
use tenure_node_agent::{Agent, Handle, Options, Stop as How};
use tokio_util::sync::CancellationToken;

use crate::args::Global;
use crate::config::unusable;
use crate::exit::{Exit, Failure};
use crate::part::{Part, Stop, until_signal};
use crate::signals::Signals;

/// Arguments of `agent`.
#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    /// The node file: what this machine offers and runs.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The name of the node, instead of the file's.
    #[arg(long)]
    name: Option<String>,
    /// The state directory, instead of the file's.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

/// Runs an agent until a signal.
pub(crate) async fn run(args: AgentArgs, global: &Global, traces: bool) -> Result<Exit, Failure> {
    let overrides = Overrides {
        name: args.name,
        server: global.server.clone(),
        data: args.data,
        tls: global.tls()?,
        insecure: global.insecure,
    };
    let config = NodeFile::load(&args.config)
        .and_then(|file| file.validate(overrides))
        .map_err(|source| unusable("node file", source))?;
    let mut signals = Signals::install()?;
    let (mut agent, _) = start(config, Clock::Boottime, traces).await?;
    let outcome = until_signal(None, Some(&mut agent), &mut signals).await;
    let ended = agent.stop(&mut signals).await;
    outcome.and(ended).map(|()| Exit::Ok)
}

/// Starts an agent in this process.
pub(crate) async fn start(config: Config, clock: Clock, traces: bool) -> Result<(Part, Handle), Failure> {
    let stop = Stop::default();
    let options = Options { clock, traces, ..Options::default() };
    let running = Agent::start(config, options, stop.gentle.clone())
        .await
        .map_err(|source| Failure::Component { what: "the agent did not start", source: source.into() })?;
    let handle = running.handle();
    let hurried = hurry(stop.at_once.clone(), handle.clone());
    let part = Part::run("the agent", stop, async move {
        tokio::select! {
            ended = running.stopped() => ended,
            never = hurried => match never {},
        }
    });
    Ok((part, handle))
}

/// Passes on that the agent is to stop at once; the end of that is the agent's.
async fn hurry(at_once: CancellationToken, agent: Handle) -> Infallible {
    at_once.cancelled().await;
    agent.stop(How::AtOnce);
    std::future::pending().await
}
