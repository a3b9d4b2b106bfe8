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
use crate::report::chain;
use crate::signals::{Hangups, Signals};

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
    let config = configure(&args, global)?;
    let mut signals = Signals::install()?;
    let hangups = Hangups::install()?;
    let (mut agent, _) = start(config.clone(), Clock::Boottime, traces).await?;
    let outcome = tokio::select! {
        // Cancel-safe: the agent's task goes on.
        outcome = until_signal(None, Some(&mut agent), &mut signals) => outcome,
        never = look_at(hangups, &config, &args, global) => match never {},
    };
    let ended = agent.stop(&mut signals).await;
    outcome.and(ended).map(|()| Exit::Ok)
}

fn configure(args: &AgentArgs, global: &Global) -> Result<Config, Failure> {
    let overrides = Overrides {
        name: args.name.clone(),
        server: global.server.clone(),
        data: args.data.clone(),
        tls: global.tls()?,
        insecure: global.insecure,
    };
    NodeFile::load(&args.config)
        .and_then(|file| file.validate(overrides))
        .map_err(|source| unusable("node file", source))
}

/// At each SIGHUP, says what of the node file has changed and needs a restart, or what is wrong with it. Certificates
/// need neither: they are read for each connection.
async fn look_at(mut hangups: Hangups, began: &Config, args: &AgentArgs, global: &Global) -> Infallible {
    loop {
        hangups.next().await;
        let read = configure(args, global).and_then(|config| {
            let wrong = |source| unusable("node's certificate", source);
            config.check_certificate().map_err(wrong).map(|()| config)
        });
        match read {
            Ok(config) => match &began.changes(&config)[..] {
                [] => tracing::info!(
                    "the node file is as it was; the next connection reads the certificates again"
                ),
                keys => {
                    let keys = keys.join(", ");
                    tracing::warn!(
                        keys,
                        "these were changed in the node file, and need a restart of the agent"
                    );
                }
            },
            Err(failure) => {
                tracing::error!(
                    error = chain(&failure),
                    "the agent could not start with its files as they are now"
                );
            }
        }
    }
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
