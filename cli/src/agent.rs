//! `tenure agent`: a node agent.

use std::convert::Infallible;
use std::path::PathBuf;
use std::pin::pin;

use clap::Args;
use tenure_node_agent::clock::Clock;
use tenure_node_agent::config::{Config, NodeFile, Overrides};
use tenure_node_agent::{Agent, Handle, Options, Running, Stop as How, drain};
use tokio_util::sync::CancellationToken;

use crate::args::Global;
use crate::config::unusable;
use crate::exit::{Exit, Failure};
use crate::notify;
use crate::part::{Part, Stop};
use crate::report::chain;
use crate::signals::{Hangups, Orders};

/// The cores belong to the jobs: an agent waits most of the time, and its work is done by a few threads on any host.
const MOST_THREADS: usize = 4;

/// What the service manager shows of an agent with a session.
const ATTACHED: &str = "attached to its server";

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
    /// Empties this host: the agent that runs here takes nothing new, lets its jobs end within `drain_deadline`, returns the
    /// rest and ends; returns once it has.
    #[arg(long)]
    drain: bool,
}

/// How many threads an agent runs on; none: as many as the environment says. On 64 cores as many threads would hold 1 MB of
/// stacks and arenas, and 850 MB of addresses, for nothing.
pub(crate) fn threads(environment_says: bool) -> Option<usize> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (!environment_says).then(|| cores.min(MOST_THREADS))
}

/// Runs an agent until a signal; or asks the one that runs here to drain.
pub(crate) async fn run(args: AgentArgs, global: &Global, traces: bool) -> Result<Exit, Failure> {
    let config = configure(&args, global)?;
    let mut orders = Orders::install()?;
    if args.drain {
        let drained = tokio::select! {
            drained = drain::drain(&config.data) => drained, // dropped, the agent drains all the same
            (signal, _) = orders.next() => {
                tracing::warn!(signal, "nobody waits for the agent any more; it goes on draining");
                return Ok(Exit::Failed);
            }
        };
        match drained {
            Ok(drain::Drained::Ended { pid }) => {
                tracing::info!(pid, "the agent has drained and ended");
                return Ok(Exit::Ok);
            }
            Ok(drain::Drained::Left { pid }) => {
                tracing::warn!(
                    pid,
                    "the agent ended and left attempts; this one takes them over, and drains"
                );
            }
            Ok(drain::Drained::Nobody) => {
                tracing::info!("no agent runs here; this one takes over what is left, and drains");
            }
            Err(source) => return Err(failed("the agent that runs here cannot be drained", source)),
        }
    }
    let hangups = Hangups::install()?;
    let options = Options { clock: Clock::Boottime, traces, ..Options::default() };
    let running = Agent::start(config.clone(), options, CancellationToken::new())
        .await
        .map_err(|source| failed("the agent did not start", source))?;
    let handle = running.handle();
    if args.drain {
        handle.stop(How::Drain);
    }
    tokio::select! {
        // Cancel-safe: neither is waited for again.
        ended = obey(running, &handle, &mut orders, args.drain) => ended.map(|()| Exit::Ok),
        never = look_at(hangups, &config, &args, global) => match never {},
        never = tell(handle.clone()) => match never {},
        never = notify::alive() => match never {},
    }
}

/// Passes on what signals say, until the agent has ended.
async fn obey(running: Running, handle: &Handle, orders: &mut Orders, asked: bool) -> Result<(), Failure> {
    let mut asked = asked;
    let mut stopped = pin!(running.stopped());
    loop {
        tokio::select! {
            // Cancel-safe: it is the same wait again.
            ended = &mut stopped => {
                return match ended {
                    Err(source) => Err(failed("the agent", source)),
                    Ok(()) if asked => Ok(()),
                    Ok(()) => Err(Failure::Component { what: "the agent", source: "it ended by itself".into() }),
                };
            }
            // Cancel-safe, as documented there.
            (signal, how) = orders.next() => {
                asked = true;
                match how {
                    How::HandOver => tracing::info!(signal, "stopping; what runs goes on"),
                    How::Drain => tracing::info!(signal, "draining; SIGINT stops at once, SIGTERM leaves what runs"),
                    How::AtOnce => tracing::warn!(signal, "stopping at once"),
                }
                match how {
                    How::HandOver | How::AtOnce => notify::stopping(),
                    How::Drain => notify::status("drains: takes nothing new, and ends once its jobs have"),
                }
                handle.stop(how);
            }
        }
    }
}

/// Tells the service manager whether there is a server: it is ready with the first. Cancel-safe.
async fn tell(agent: Handle) -> Infallible {
    notify::status("looks for a server");
    if agent.connected().await {
        notify::ready(ATTACHED);
    }
    while agent.cut_off().await {
        notify::status("cut off from its server: what runs goes on until its leases end");
        if !agent.connected().await {
            break;
        }
        notify::status(ATTACHED);
    }
    std::future::pending().await
}

fn failed(what: &'static str, source: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::Component { what, source: source.into() }
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

/// Starts an agent in this process, as a part of `tenure up`.
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
