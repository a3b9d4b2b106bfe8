//! `tenure server`: runs a server, or tells about one.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use tenure_client::Client;
use tenure_client::proto::GetServerInfoResponse;
use tenure_server::access::Reload;
use tenure_server::config::{Config, Database, Telemetry};
use tenure_server::{Addresses, Server, descriptors};
use tokio::time::timeout;

use crate::config::unusable;
use crate::exit::{Exit, Failure};
use crate::human;
use crate::output::{Field, Output, Table, Tone};
use crate::part::{Part, Stop, until_signal};
use crate::ready;
use crate::report::chain;
use crate::signals::{Hangups, Signals};

/// A server says that it is ready after this at the latest: also while its database is away.
const SETTLES_WITHIN: Duration = Duration::from_secs(5);

/// Arguments of `server`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ServerArgs {
    /// A server file. Flags win over it. Default: no file, everything on loopback.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where everything is kept, in a SQLite file. Default: the database of the server file or of DATABASE_URL, else
    /// tenure in the XDG state directory.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Bring an older schema of the Postgres database up to date first. Default: refuse it.
    #[arg(long)]
    migrate: bool,
    /// Where gRPC is served, beyond loopback only with TLS; port 0 takes a free one. Default: 127.0.0.1:7070.
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Where metrics and health are served, on loopback; port 0 takes a free one. Default: 127.0.0.1:7071.
    #[arg(long, value_name = "ADDR")]
    http: Option<SocketAddr>,
    /// A file that appears once the server is ready and names the addresses, for scripts.
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) verb: Option<ServerVerb>,
}

/// What else `server` does than running one.
#[derive(Debug, Subcommand)]
pub(crate) enum ServerVerb {
    /// Versions, store, epoch, uptime, sizes.
    Info,
}

/// Runs a server until a signal.
pub(crate) async fn run(args: ServerArgs, insecure: bool, telemetry: Telemetry) -> Result<Exit, Failure> {
    let config = Config { telemetry, ..configure(&args, insecure)? };
    descriptors::raise();
    let mut signals = Signals::install()?;
    let hangups = Hangups::install()?;
    let (mut server, addresses, reload) = start_reloadable(config).await?;
    let announced = ready::announce(addresses, args.ready_file.as_deref());
    let outcome = match announced {
        Ok(()) => tokio::select! {
            // Cancel-safe: the server's task goes on.
            outcome = until_signal(Some(&mut server), None, &mut signals) => outcome,
            never = reload_at(hangups, reload, &args, insecure) => match never {},
        },
        Err(failure) => Err(failure),
    };
    let ended = server.stop(&mut signals).await;
    outcome.and(ended).map(|()| Exit::Ok)
}

/// At each SIGHUP, takes everything from the files, as they are then, that can change while a server runs. A mistake in
/// them is told, and everything stays as it was.
async fn reload_at(mut hangups: Hangups, reload: Reload, args: &ServerArgs, insecure: bool) -> Infallible {
    loop {
        hangups.next().await;
        let applied = configure(args, insecure).and_then(|config| {
            let wrong = |source: tenure_server::access::Error| unusable("server file", source);
            reload.apply(&config).map_err(wrong)
        });
        match applied {
            Ok(later) => {
                tracing::info!("the server file and the certificates were read again, and count from now on");
                if !later.is_empty() {
                    let keys = later.join(", ");
                    tracing::warn!(keys, "these were changed too, and need a restart of the server");
                }
            }
            Err(failure) => tracing::error!(error = chain(&failure), "nothing was replaced"),
        }
    }
}

fn configure(args: &ServerArgs, insecure: bool) -> Result<Config, Failure> {
    let mut config = database_config(args.config.as_deref(), args.data.is_none(), insecure)?;
    if let Some(data) = &args.data {
        config.data.clone_from(data);
        config.database = None;
    }
    config.migrate = args.migrate;
    config.listen = args.listen.unwrap_or(config.listen);
    config.http = args.http.unwrap_or(config.http);
    config.validate().map_err(|source| unusable("configuration of the server", source))?;
    Ok(config)
}

/// The server file, or the defaults. The environment's DATABASE_URL stands in where neither names a place.
pub(crate) fn database_config(
    file: Option<&Path>,
    environment: bool,
    insecure: bool,
) -> Result<Config, Failure> {
    let loaded = file
        .map_or_else(|| Ok(Config { insecure, ..Config::default() }), |path| Config::load_as(path, insecure));
    let mut config = loaded.map_err(|source| unusable("server file", source))?;
    let nowhere = config.database.is_none() && config.data == Config::default().data;
    if environment && nowhere {
        let url = std::env::var("DATABASE_URL").ok().filter(|url| !url.is_empty());
        config.database = url.map(Database::Url);
    }
    Ok(config)
}

/// Starts a server in this process.
pub(crate) async fn start(config: Config) -> Result<(Part, Addresses), Failure> {
    start_reloadable(config).await.map(|(part, addresses, _)| (part, addresses))
}

async fn start_reloadable(config: Config) -> Result<(Part, Addresses, Reload), Failure> {
    let stop = Stop::default();
    let running = Server::start(config, stop.gentle.clone())
        .await
        .map_err(|source| Failure::Component { what: "the server did not start", source: source.into() })?;
    // Ready to be called: of a server on a database, a moment passes until it is known who leads.
    drop(timeout(SETTLES_WITHIN, running.settled()).await);
    let (addresses, reload) = (running.addresses(), running.reload());
    let at_once = stop.at_once.clone();
    let part = Part::run("the server", stop, async move {
        tokio::select! {
            ended = running.wait() => ended, // cancel-safe: dropped only to end at once
            () = at_once.cancelled() => Ok(()), // cancel-safe
        }
    });
    Ok((part, addresses, reload))
}

/// `tenure server info`.
pub(crate) async fn info(client: &Client, output: &Output) -> Result<Exit, Failure> {
    let info = client.server_info().await?;
    output.show(&info, [client.endpoint()], || output.table(&details(&info, output)))?;
    Ok(Exit::Ok)
}

/// A server, a line per fact.
pub(crate) fn details(info: &GetServerInfoResponse, output: &Output) -> Table {
    let mut table = Table::default();
    let mut row = |name: &str, value: Field| table.row([name.into(), value]);
    row("server", info.version.as_str().into());
    row("store", format!("{}, schema {}", info.store, info.schema_version).into());
    row("durability", info.durability.as_str().into());
    let role = match (info.leader, info.standing.as_str(), info.leader_address.as_str()) {
        (true, _, _) => "leads".to_owned(),
        (false, "alone" | "leading", _) => "leads, and its store does not answer".to_owned(),
        (false, _, "") => "follows".to_owned(),
        (false, _, leader) => format!("follows {}", human::clean(leader)),
    };
    row("epoch", format!("{}, {role}", info.epoch).into());
    if let Some(age) = &info.renewal_age {
        row("renewed", format!("{} ago", human::wire_length(Some(age))).into());
    }
    let uptime = human::wire_length(info.uptime.as_ref());
    row("up", format!("{uptime}, since {}", output.when(info.start_time.as_ref())).into());
    row("live jobs", info.live_jobs.to_string().into());
    row("leases", info.leases.to_string().into());
    row("sessions", info.sessions.to_string().into());
    let tone = if info.reloads > 0 { Tone::Notice } else { Tone::Plain };
    row("reloads", Field::toned(info.reloads.to_string(), tone));
    table
}
