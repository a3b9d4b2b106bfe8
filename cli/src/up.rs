//! `tenure up`: a server and a node agent in one process, for one machine.
//!
//! Responsible for the order of things: everything that can be wrong is read first, the server starts before the agent,
//! the agent ends before the server. Not responsible for what either does.
//! Invariant: after the first SIGINT, SIGTERM or SIGUSR1 nothing that was started here is left running once this returns.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tenure_client::{Client, Options};
use tenure_node_agent::clock::Clock;
use tenure_node_agent::config::{NodeFile, Overrides};
use tenure_server::Addresses;
use tenure_server::clock::Base;
use tenure_server::config::{Config, Telemetry};

use crate::apply::read_text;
use crate::config::unusable;
use crate::exit::{Exit, Failure};
use crate::output::note;
use crate::part::{Part, until_signal};
use crate::ready;
use crate::signals::Signals;
use crate::{agent, server};

/// The agent usually connects at once; after this long everything else counts as ready without it.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);

/// Arguments of `up`.
#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// Where everything is kept. Default: tenure in the XDG state directory.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Where gRPC is served, on loopback; port 0 takes a free one. Default: 127.0.0.1:7070.
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Where metrics and health are served, on loopback; port 0 takes a free one. Default: 127.0.0.1:7071.
    #[arg(long, value_name = "ADDR")]
    http: Option<SocketAddr>,
    /// A fleet file, applied before anything runs. Default: the fleet that was applied last.
    #[arg(long, value_name = "FILE")]
    fleet: Option<PathBuf>,
    /// A node file: what this machine offers and runs. Default: no agent.
    #[arg(long, value_name = "FILE")]
    node: Option<PathBuf>,
    /// A file that appears once everything is ready and names the addresses, for scripts.
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
}

/// Runs both until a signal.
pub(crate) async fn run(args: UpArgs, insecure: bool, telemetry: Telemetry) -> Result<Exit, Failure> {
    let config = Config { telemetry, ..server_config(&args, insecure)? };
    let fleet = args.fleet.as_deref().map(read_text).transpose()?;
    let node = args.node.as_deref().map(NodeFile::load).transpose();
    let node = node.map_err(|source| unusable("node file", source))?;
    if let Some(node) = &node {
        // The address is not known yet; every other mistake shows before anything runs.
        agent_config(node, &config, config.listen)?;
    }
    let mut signals = Signals::install_with_drain()?;

    let (mut server, addresses) = server::start(config.clone()).await?;
    let outcome = beside_server(&args, &mut server, addresses, &config, node, fleet, &mut signals).await;
    let ended = server.stop(&mut signals).await;
    outcome.and(ended).map(|()| Exit::Ok)
}

/// Everything between the start and the end of the server.
async fn beside_server(
    args: &UpArgs,
    server: &mut Part,
    addresses: Addresses,
    config: &Config,
    node: Option<NodeFile>,
    fleet: Option<String>,
    signals: &mut Signals,
) -> Result<(), Failure> {
    let options = Options { insecure: config.insecure, ..Options::default() };
    let client = Client::connect_with(&format!("http://{}", reachable(addresses.grpc)), options)?;
    if let Some(fleet) = fleet {
        for change in client.apply(&fleet, false).await? {
            tracing::info!(change, "applied the fleet file");
        }
    }
    let without_kinds = client.kinds().await?.is_empty();
    let mut agent = None;
    let mut begun = Ok(Begun::Goes);
    if let Some(node) = &node {
        let offered = agent_config(node, config, addresses.grpc)?;
        let (part, handle) = agent::start(offered, Clock::Monotonic, config.telemetry.traces).await?;
        let part = agent.insert(part);
        begun = begin(handle.connected(), until_signal(Some(&mut *server), Some(part), signals)).await;
    }
    let outcome = match begun {
        Ok(Begun::Goes) => {
            let announced = ready::announce(addresses, args.ready_file.as_deref());
            if without_kinds || node.is_none() {
                next_commands(addresses, node.is_none());
            }
            match announced {
                Ok(()) => until_signal(Some(server), agent.as_mut(), signals).await,
                Err(failure) => Err(failure),
            }
        }
        Ok(Begun::Stopped) => Ok(()),
        Err(failure) => Err(failure),
    };
    let ended = match agent {
        Some(agent) => agent.stop(signals).await,
        None => Ok(()),
    };
    outcome.and(ended)
}

/// How the wait for the agent's first session ended.
#[derive(Debug, PartialEq, Eq)]
enum Begun {
    /// The agent is connected, or will be: everything else is ready.
    Goes,
    /// A signal came first.
    Stopped,
}

/// Waits for the agent's first session, a while, and for the end of everything meanwhile.
async fn begin(
    connected: impl Future<Output = bool>,
    ending: impl Future<Output = Result<(), Failure>>,
) -> Result<Begun, Failure> {
    enum Input {
        Ending(Result<(), Failure>),
        Waited(bool),
    }
    let input = tokio::select! {
        biased;
        ending = ending => Input::Ending(ending), // cancel-safe: the tasks go on, and signals stay
        waited = tokio::time::timeout(CONNECT_PATIENCE, connected) => Input::Waited(waited == Ok(true)), // cancel-safe
    };
    match input {
        Input::Ending(ending) => ending.map(|()| Begun::Stopped),
        Input::Waited(connected) => {
            if !connected {
                tracing::warn!("the agent is not connected yet; it goes on trying");
            }
            Ok(Begun::Goes)
        }
    }
}

fn server_config(args: &UpArgs, insecure: bool) -> Result<Config, Failure> {
    // Server and jobs share this host, so both sides count on a clock that stands still while it sleeps.
    let mut config = Config::default();
    config.clock.base = Base::Monotonic;
    if let Some(data) = &args.data {
        config.data.clone_from(data);
    }
    config.listen = args.listen.unwrap_or(config.listen);
    config.http = args.http.unwrap_or(config.http);
    config.insecure = insecure;
    let beyond = [config.listen, config.http].into_iter().find(|address| !address.ip().is_loopback());
    if let Some(address) = beyond.filter(|_| !insecure) {
        return Err(unusable("flags", without_tls(address)));
    }
    config.validate().map_err(|source| unusable("flags", source))?;
    Ok(config)
}

/// The node file with what `up` knows better: the address of its own server, and a directory beside the store.
fn agent_config(
    node: &NodeFile,
    config: &Config,
    server: SocketAddr,
) -> Result<tenure_node_agent::config::Config, Failure> {
    let overrides = Overrides {
        name: None,
        server: Some(format!("http://{}", reachable(server))),
        data: Some(config.data.join("agent")),
        insecure: config.insecure,
        ..Overrides::default()
    };
    node.clone().validate(overrides).map_err(|source| unusable("node file", source))
}

/// Why `up` does not listen there.
fn without_tls(address: SocketAddr) -> String {
    format!(
        "{address} is beyond loopback, and `tenure up` is for one machine and speaks no TLS: use 127.0.0.1:{port}, or \
         start with --insecure on a network that only you can reach; for other hosts there are `tenure server --config` \
         with [tls], and `tenure agent`",
        port = address.port()
    )
}

/// Where this process reaches its own server: one that listens everywhere is on loopback, too.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// What somebody who started without files does next.
fn next_commands(addresses: Addresses, without_node: bool) {
    let server = ready::endpoint(addresses);
    let flag =
        if server == tenure_client::DEFAULT_ENDPOINT { String::new() } else { format!(" --server {server}") };
    note("nothing can run yet. Next:");
    note(format!("  tenure apply fleet.toml{flag}        # declares kinds and slots"));
    if without_node {
        note(
            "  tenure agent --config node.toml      # offers this machine (or start with: tenure up --node node.toml)",
        );
    } else {
        note(format!("  tenure enqueue KIND{flag}            # enqueues a job"));
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test]
    async fn the_wait_for_the_agent_ends_with_a_signal_a_session_or_a_failure() {
        assert_eq!(begin(pending(), ready(Ok(()))).await.unwrap(), Begun::Stopped);
        assert_eq!(begin(ready(true), pending()).await.unwrap(), Begun::Goes);
        let broken = Failure::Usage("it ended".to_owned());
        begin(pending(), ready(Err(broken))).await.unwrap_err();
    }
}
