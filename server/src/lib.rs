//! The server of Tenure, a library: one loop over the pure scheduler, and the edges around it.
//!
//! `rpc` turns a request into a command → the driver applies a batch of commands to the scheduler's state → the
//! journal commits what changed → sessions, replies and watchers hear of it. Nothing flows backwards, and nothing
//! leaves before its commit.
//!
//! Reading order: `leadership`, `term` → `driver` and `driver/*` → `handle` → `sessions` and `sessions/*` → `snapshot`, `outbox`,
//! `retention`, `inbox` → `rpc` and `rpc/*` → `peers` → `config`, `migrate`, `access`, `listener`, `tls`, `http`, `metrics`, `trace` → `clock`,
//! `tasks`, `chain`.

pub mod access;
mod calendar;
pub mod chain;
pub mod clock;
pub mod config;
pub mod descriptors;
pub mod driver;
pub mod handle;
pub mod http;
mod hush;
mod inbox;
pub mod leadership;
pub mod listener;
mod logs;
pub mod metrics;
pub mod migrate;
pub mod outbox;
mod peers;
mod results;
mod retention;
mod rpc;
mod sample;
mod sessions;
pub mod snapshot;
pub mod tasks;
mod term;
mod tls;
mod trace;

use std::{
    future::Future,
    net::SocketAddr,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use tenure_proto::limits;
use tenure_store::{
    Journal, Reader,
    election::{Steady, Trust},
    objects, postgres, sqlite,
};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

pub use self::config::Config;
use self::{
    access::{Published as InForce, Reload, Rules},
    chain::BoxError,
    clock::Clock,
    handle::{Handle, ServerStatus, Views},
    leadership::Standing,
    listener::Incoming,
    logs::Logs,
    metrics::Metrics,
    outbox::Watchers,
    peers::Peers,
    results::Results,
    rpc::{api::Api, convert_node::Settings, nodes::Nodes, serving},
    sessions::Lobby,
    tasks::Tasks,
    term::{Seed, Term},
    tls::Acceptor,
    trace::Spans,
};

/// From the begin of a shutdown on, everything has this long to end.
const SHUTDOWN_WITHIN: Duration = Duration::from_secs(10);

/// Between two sweeps of what is past its retention.
const SWEEP_EVERY: Duration = Duration::from_secs(30);

/// What nodes are told at Welcome.
const SESSIONS: Settings = Settings {
    reconnect_min: Duration::from_millis(200),
    reconnect_max: Duration::from_secs(5),
    max_result_bytes: limits::INLINE_BYTES,
    max_uploaded_result_bytes: 0, // as object storage says
};

/// Starts servers.
#[derive(Debug)]
pub struct Server;

/// A server that runs. Dropping it cuts everything off at once, as a crash would: cancel its shutdown and wait instead.
#[derive(Debug)]
pub struct Running {
    addresses: Addresses,
    handle: Handle,
    reload: Reload,
    tasks: Tasks,
}

/// Where a server listens; ports are the real ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// gRPC.
    pub grpc: SocketAddr,
    /// `/metrics`, `/livez`, `/readyz`.
    pub http: SocketAddr,
    /// Where other servers hand calls on; none: nowhere.
    pub peer: Option<SocketAddr>,
    /// Whether gRPC is behind TLS.
    pub tls: bool,
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Settings that cannot be served.
    #[error("the settings cannot be served")]
    Config(#[from] config::Error),
    /// The store cannot be opened.
    #[error("the store cannot be opened")]
    Store(#[from] sqlite::Error),
    /// The address of the database cannot be had.
    #[error("the database is not known")]
    Database(#[from] config::Unreadable),
    /// The database cannot be opened.
    #[error("the database cannot be opened")]
    Postgres(#[from] postgres::Error),
    /// The store cannot be led.
    #[error("the server cannot lead")]
    Driver(#[from] driver::Error),
    /// Object storage cannot be used.
    #[error("object storage cannot be used")]
    Objects(#[from] objects::Error),
    /// An address cannot be had.
    #[error("the server cannot listen")]
    Listen(#[from] listener::Error),
    /// A certificate cannot be used.
    #[error("the certificates cannot be used")]
    Tls(#[from] tenure_tls::files::Error),
    /// A file of webhooks cannot be used.
    #[error("the settings of webhooks cannot be used")]
    Webhooks(#[from] outbox::SettingsError),
    /// A bug in the descriptors.
    #[error("the services cannot be put together")]
    Services(#[from] rpc::Error),
    /// A bug in the table of figures.
    #[error("the figures cannot be made")]
    Metrics(#[from] metrics::Error),
}

impl Server {
    /// Starts a server on the database, or else on the SQLite file in the data directory. It listens when this returns,
    /// and runs until `shutdown` is cancelled: see [`Running::wait`]. On a file it has loaded what is stored, and leads;
    /// on a database it leads once it has won an election, which others may have won before it.
    ///
    /// # Errors
    /// Each is a sentence for the operator; nothing is left running.
    pub async fn start(config: Config, shutdown: CancellationToken) -> Result<Running, Error> {
        config.validate()?;
        if let Some(database) = &config.database {
            let mut options = postgres::Options::new(database.address()?);
            options.migrate = config.migrate;
            let (journal, reader) = postgres::open(&options).await?;
            let clock = Clock::new(config.clock);
            let read = clock.clone();
            let steady = Steady::new(move || read.steady());
            let trust = Trust::by_renewals(steady.clone());
            let stage = Stage::set(&config, (reader, clock, trust.clone()), shutdown).await?;
            let (addr, peer_addr) = stage.addresses_for_others(&config);
            let candidate = journal.stand((steady, trust), addr, peer_addr);
            stage.seed.standing.send_replace(Standing::Following { leader: None });
            let contending = leadership::contend(stage.seed.clone(), candidate);
            return stage.open(&config, contending);
        }
        let (journal, reader) = sqlite::open(&sqlite::Options::new(&config.data)).await?;
        Self::start_on(config, journal, reader, shutdown).await
    }

    /// Starts a server on a store that is open already. For tests and simulation.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub async fn start_on<J: Journal>(
        config: Config,
        journal: J,
        reader: Reader,
        shutdown: CancellationToken,
    ) -> Result<Running, Error> {
        let clock = Clock::new(config.clock);
        let stage = Stage::set(&config, (reader, clock, Trust::always()), shutdown).await?;
        // Bound before the takeover: a second server on these addresses must not depose the first.
        let term = Term::begin(&stage.seed, journal).await?;
        stage.open(&config, leadership::alone(term))
    }
}

/// A server that is bound, and neither leads nor serves yet.
struct Stage {
    grpc: Incoming,
    web: Incoming,
    /// For other servers.
    peers: Option<Incoming>,
    reload: Reload,
    in_force: InForce,
    seed: Seed,
    tasks: Tasks,
}

impl Stage {
    /// Binds the addresses, and makes everything that does not depend on who leads.
    async fn set(
        config: &Config,
        (reader, clock, trust): (Reader, Clock, Trust),
        shutdown: CancellationToken,
    ) -> Result<Self, Error> {
        warn_of_insecure(config);
        let rules = Rules::of(config)?;
        let webhooks = outbox::Settings::of(&config.webhooks)?;
        let metrics = Arc::new(Metrics::new()?);
        let most = descriptors::connections(config.limits.max_connections);
        let grpc = Incoming::bind(config.listen, most, clock.clone()).await?;
        let web = Incoming::bind(config.http, http::MOST_CONNECTIONS, clock.clone()).await?;
        let peers = match config.peer_listen {
            Some(address) => Some(Incoming::bind(address, peers::MOST_CONNECTIONS, clock.clone()).await?),
            None => None,
        };
        let (reload, in_force) = Reload::new(config, (rules, webhooks), grpc.room());

        let (status, status_read) = watch::channel(ServerStatus::starting(&clock));
        let (snapshots, snapshots_read) = watch::channel(Arc::default());
        let (standing, standing_read) = watch::channel(Standing::Alone);
        let (ways, ways_read) = watch::channel(None);
        let watchers = Watchers::default();
        let views = Views {
            status: status_read,
            snapshots: snapshots_read,
            standing: standing_read,
            ways: ways_read,
            shutdown: shutdown.clone(),
            trust,
        };
        let handle = Handle::new(clock.clone(), reader, watchers.clone(), views);
        if config.telemetry.metrics {
            let seen = handle.clone();
            metrics::export(&metrics, clock.clone(), move || http::scrape(&seen));
        }
        let results = Results::open(config, handle.reader(), Arc::clone(&metrics))?;
        let inbox = match &config.database {
            Some(database) => Some(inbox::Options {
                address: database.address()?,
                rules: in_force.rules.clone(),
                retention: in_force.retention.clone(),
            }),
            None => None,
        };
        let seed = Seed {
            results,
            sweep_objects: config.results.sweep,
            driver: driver::Options { limits: in_force.limits.clone() },
            sweeping: retention::Options { every: SWEEP_EVERY, retention: in_force.retention.clone() },
            delivering: outbox::deliver::Options {
                settings: in_force.webhooks.clone(),
                bell: outbox::Bell::default(),
                metrics: Arc::clone(&metrics),
            },
            inbox,
            status,
            snapshots,
            ways,
            standing,
            watchers,
            metrics,
            clock,
            spans: Spans::new(config.telemetry.traces),
            handle,
            shutdown: shutdown.clone(),
        };
        Ok(Self { grpc, web, peers, reload, in_force, seed, tasks: Tasks::new(shutdown) })
    }

    /// Where clients and agents, and other servers, reach this one, if that can be known.
    fn addresses_for_others(&self, config: &Config) -> (Option<String>, Option<String>) {
        let reachable = |address: SocketAddr| (!address.ip().is_unspecified()).then(|| address.to_string());
        let addr = config.advertise.clone().or_else(|| reachable(self.grpc.address()));
        if addr.is_none() {
            tracing::warn!(
                "this server listens on every address of its host, and has no `advertise`: other servers on its database \
                 cannot say where it is"
            );
        }
        let peer_addr = config
            .peer_advertise
            .clone()
            .or_else(|| self.peers.as_ref().map(Incoming::address).and_then(reachable));
        (addr, peer_addr)
    }

    /// Serves, and lets `leadership` lead.
    fn open<E: Into<BoxError>>(
        self,
        config: &Config,
        leadership: impl Future<Output = Result<(), E>> + Send + 'static,
    ) -> Result<Running, Error> {
        let Self { grpc, web, peers, reload, in_force, seed, mut tasks, .. } = self;
        let Seed { handle, metrics, clock, spans, shutdown, results, .. } = seed;
        let addresses = Addresses {
            grpc: grpc.address(),
            http: web.address(),
            peer: peers.as_ref().map(Incoming::address),
            tls: config.tls.is_some(),
        };
        let logs = Logs::default();
        let lobby = Lobby {
            handle: handle.clone(),
            settings: Settings { max_uploaded_result_bytes: results.most(), ..SESSIONS },
            metrics: Arc::clone(&metrics),
            attaching: Arc::new(Semaphore::new(sessions::MOST_ATTACHING)),
            sessions: Arc::new(AtomicU64::new(0)),
            logs: logs.clone(),
        };
        let api = Api {
            handle: handle.clone(),
            metrics: Arc::clone(&metrics),
            retention: in_force.retention,
            logs,
            webhooks: in_force.webhooks,
            results,
        };
        let rules = in_force.rules;
        let to_leader = Peers::new(handle.standings(), rules.clone(), Arc::clone(&metrics), clock.clone());
        let layers = (clock.clone(), spans, to_leader);
        let router = rpc::router(&api, Nodes::new(api.clone(), lobby), rules.clone(), layers)?;
        let layers = (router.gate, router.auth, router.elsewhere);
        let (counts, sampled) = (Arc::clone(&metrics), Arc::clone(&metrics));
        let secure = move |incoming| Acceptor::new(incoming, rules, counts, clock);
        tasks.long("leadership", leadership);
        if let Some(peers) = peers {
            let (gate, auth, elsewhere) = &layers;
            let layers = (gate.clone(), auth.of_servers(), elsewhere.of_servers());
            let serving = (router.routes.clone(), peers::STREAMS);
            let served = listener::serve(peers, secure.clone(), serving, layers, shutdown.clone());
            tasks.long("listener for servers", served);
        }
        let serving = (router.routes, listener::STREAMS);
        tasks.long("gRPC listener", listener::serve(grpc, secure, serving, layers, shutdown.clone()));
        tasks.long("HTTP listener", http::serve(web, handle.clone(), metrics, shutdown.clone()));
        tasks.long("health reporter", serving::run(handle.clone(), router.reporter, shutdown.clone()));
        tasks.long("sampler", sample::run(handle.clone(), sampled, shutdown));
        let standing = handle.standing();
        tracing::info!(grpc = %addresses.grpc, http = %addresses.http, %standing, "serving");
        Ok(Running { addresses, handle, reload, tasks })
    }
}

/// Whoever asked for it is told each time what it means.
fn warn_of_insecure(config: &Config) {
    if config.tls.is_none() && !config.listen.ip().is_loopback() {
        tracing::warn!(address = %config.listen, "gRPC without TLS beyond loopback: whoever reaches the port may do everything");
    }
    if !config.http.ip().is_loopback() {
        tracing::warn!(address = %config.http, "HTTP beyond loopback: whoever reaches the port may read the figures");
    }
}

impl Running {
    /// Where it listens.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// The way in for callers in the same process.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Waits until it is known who leads: this server, or another one. It may be known no more a moment later.
    pub async fn settled(&self) {
        let mut standings = self.handle.standings();
        // An error would mean that the server has ended: then nothing is waited for.
        drop(standings.wait_for(|standing| standing.leads() || standing.leader().is_some()).await);
    }

    /// Replaces what the server file says while the server runs.
    #[must_use]
    pub fn reload(&self) -> Reload {
        self.reload.clone()
    }

    /// Waits until the server has ended: because its shutdown was cancelled, or by a fault, which cancels it. What is
    /// in the inboxes then is answered, sessions are closed (agents keep their jobs), and all ends within 10 s.
    ///
    /// # Errors
    /// The fault, or that something had to be cut off.
    pub async fn wait(self) -> Result<(), tasks::Error> {
        let ended = self.tasks.wait(SHUTDOWN_WITHIN).await;
        self.handle.reader().close().await;
        ended
    }
}
