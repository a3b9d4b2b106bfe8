//! A server in a process of its own over a fresh database, with simulated agents.
//!
//! Responsible for starting it, and for what must hold at its end: every job that was answered as stored is in the
//! database, with its payload; every one that ran succeeded, and its lease is gone; the server's invariants hold.

mod launch;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rustix::process::Signal;
use tempfile::TempDir;
use tenure_client::proto::NodeState;
use tenure_client::{Client, Options, RetryPolicy};
use tenure_tests::clock::Moment;
use tenure_tests::process::Process;
use tenure_tests::tag;
use tenure_tests::wait::{PATIENCE, until};

use crate::agents::{Agents, Fleet};
use crate::args::{Args, Store};
use crate::bed::{Bed, Counted, Place};
use crate::metrics::Scrape;
use crate::report::Check;

pub(crate) use launch::{Addresses, REAL_NODE};

/// The kind of most scenarios. Its lease is the default one.
pub(crate) const KIND: &str = "bench";
/// The only slot.
pub(crate) const SLOT: &str = "work";
/// Connections beside those of sessions.
const SPARE_CONNECTIONS: u32 = 256;
/// Clients, each with a connection of its own: a connection carries 64 calls at once.
const CLIENTS: usize = 4;

/// A running server.
#[derive(Debug)]
pub(crate) struct Rig {
    place: Place,
    store: Store,
    /// Ready file, server file, log.
    files: TempDir,
    server: Process,
    addresses: Addresses,
    clients: Vec<Client>,
    agents: Option<Agents>,
    marked: Marked,
    /// Tables of the server file.
    settings: String,
}

/// What is not the same in all rigs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Setup {
    /// Sessions for which there must be room.
    pub(crate) sessions: u32,
    /// Tables of slots and kinds beside [`SLOT`] and [`KIND`], in TOML.
    pub(crate) slots: &'static str,
    pub(crate) kinds: &'static str,
}

/// What must be in the database at the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    /// Jobs that were answered as stored.
    pub(crate) enqueued: u64,
    /// Of those, how many succeeded.
    pub(crate) succeeded: u64,
    /// And how many still run.
    pub(crate) running: u64,
}

impl Rig {
    /// Starts a server on a fresh database and declares the kind.
    ///
    /// # Errors
    /// If it does not start.
    pub(crate) async fn start(bed: &Bed, store: Store) -> anyhow::Result<Self> {
        Self::start_for(bed, store, 0).await
    }

    /// The same, with room for so many sessions.
    ///
    /// # Errors
    /// If it does not start.
    pub(crate) async fn start_for(bed: &Bed, store: Store, sessions: u32) -> anyhow::Result<Self> {
        Self::start_on(bed.place()?, store, &Setup { sessions, ..Setup::default() }).await
    }

    /// The same, on a database that may have something in it.
    ///
    /// # Errors
    /// If it does not start.
    pub(crate) async fn start_on(place: Place, store: Store, setup: &Setup) -> anyhow::Result<Self> {
        let files = tempfile::Builder::new().prefix("tenure-bench-rig-").tempdir()?;
        let marked = Marked(format!("bench-{}", uuid::Uuid::now_v7()));
        let settings = match setup.sessions {
            0 => String::new(),
            sessions => format!("[limits]\nmax_connections = {}\n", sessions + SPARE_CONNECTIONS),
        };
        let launch = launch::Launch {
            place: &place,
            files: files.path(),
            name: "server",
            mark: &marked.0,
            listen: "127.0.0.1:0",
            settings: &settings,
        };
        let (server, addresses) = launch::server(launch).await?;
        let clients = connect(&addresses.grpc)?;
        let Setup { slots, kinds, .. } = setup;
        let fleet = format!(
            "[slots]\n{SLOT} = \"node\"\n{slots}\n[kinds.\"{KIND}\"]\nneeds = {{ {SLOT} = 1 }}\n{kinds}"
        );
        clients.first().context("no client")?.apply(&fleet, false).await?;
        Ok(Self { place, store, files, server, addresses, clients, agents: None, marked, settings })
    }

    /// Kills the server and starts it again at the same address. It is ready when this returns.
    ///
    /// # Errors
    /// If it does not start.
    pub(crate) async fn restart(&mut self) -> anyhow::Result<()> {
        self.server.signal(Signal::KILL)?;
        self.server.ended(PATIENCE).await?;
        let address = self.addresses.grpc.strip_prefix("http://").context("an address with TLS")?.to_owned();
        (self.server, self.addresses) = launch::server(self.launch("server", &address)).await?;
        Ok(())
    }

    fn launch<'a>(&'a self, name: &'a str, listen: &'a str) -> launch::Launch<'a> {
        let (place, files) = (&self.place, self.files.path());
        launch::Launch { place, files, name, mark: &self.marked.0, listen, settings: &self.settings }
    }

    /// Starts one more server on the same database, which follows while the first one leads. `name` is of its files.
    ///
    /// # Errors
    /// If it does not start.
    pub(crate) async fn another(&self, name: &str) -> anyhow::Result<(Process, Addresses)> {
        launch::server(self.launch(name, "127.0.0.1:0")).await
    }

    /// Ends the server in good order, and waits until it is gone.
    ///
    /// # Errors
    /// If it does not end well.
    pub(crate) async fn stop_server(&mut self) -> anyhow::Result<()> {
        self.server.signal(Signal::TERM)?;
        let status = self.server.ended(PATIENCE).await?;
        ensure!(status.success(), "the server ended with {status}\n{}", self.server.tail());
        Ok(())
    }

    /// Waits until the server is gone that was sent a signal.
    ///
    /// # Errors
    /// If it stays.
    pub(crate) async fn server_ended(&mut self) -> anyhow::Result<()> {
        self.server.ended(PATIENCE).await.map(drop)
    }

    /// Lets another server, which has taken over, be the one of this rig.
    ///
    /// # Errors
    /// If its address cannot be used.
    pub(crate) fn replace_server(&mut self, server: Process, addresses: Addresses) -> anyhow::Result<()> {
        self.clients = connect(&addresses.grpc)?;
        (self.server, self.addresses) = (server, addresses);
        Ok(())
    }

    /// Starts the server again after its end, at a new address. How long it took until it served.
    ///
    /// # Errors
    /// If it does not start.
    pub(crate) async fn start_again(&mut self) -> anyhow::Result<Duration> {
        let began = Moment::now();
        let (mut server, ready) = launch::begin_server(self.launch("server", "127.0.0.1:0"))?;
        let addresses = launch::wait_ready(&mut server, &ready).await?;
        self.replace_server(server, addresses)?;
        // Ready is said by whoever serves; a call that reads the scheduler's memory is answered by whoever leads.
        self.clients.first().context("no client")?.server_info().await?;
        Ok(began.elapsed())
    }

    /// Starts a real agent with so many slots, which runs `true` for each job of [`KIND`], and waits until it is live.
    ///
    /// # Errors
    /// If it is not.
    pub(crate) async fn real_agent(&self, slots: u32) -> anyhow::Result<Process> {
        let mut agent = launch::agent(self.files.path(), &self.marked.0, self.endpoint(), slots)?;
        let client = self.clients.first().context("no client")?;
        until("the agent is live", PATIENCE, async || {
            agent.alive().map_err(|error| error.to_string())?;
            match client.node(REAL_NODE).await {
                Ok(node) if node.state() == NodeState::Live => Ok(()),
                Ok(node) => Err(format!("it is {:?}\n{}", node.state(), agent.tail())),
                Err(error) => Err(format!("{error}\n{}", agent.tail())),
            }
        })
        .await?;
        Ok(agent)
    }

    /// What the server counts of itself, now.
    ///
    /// # Errors
    /// If it does not say.
    pub(crate) async fn scrape(&self) -> anyhow::Result<Scrape> {
        Scrape::of(&self.addresses.http).await
    }

    /// Starts simulated agents, whose jobs finish at once.
    ///
    /// # Errors
    /// If one is not welcomed.
    pub(crate) async fn with_agents(mut self, args: &Args, observed: bool) -> anyhow::Result<Self> {
        self.join(&Fleet { observed, ..Fleet::of(args.agents) }).await?;
        Ok(self)
    }

    /// Starts the simulated agents of a fleet.
    ///
    /// # Errors
    /// If one is not welcomed.
    pub(crate) async fn join(&mut self, fleet: &Fleet) -> anyhow::Result<()> {
        let agents = Agents::start(self.endpoint(), fleet).await.with_context(|| self.server.tail())?;
        self.agents = Some(agents);
        Ok(())
    }

    /// Cuts the streams of the agents that joined.
    ///
    /// # Errors
    /// If one ended before.
    pub(crate) async fn agents_leave(&mut self) -> anyhow::Result<()> {
        match self.agents.take() {
            Some(agents) => agents.stop().await,
            None => Ok(()),
        }
    }

    pub(crate) fn clients(&self) -> &[Client] {
        &self.clients
    }

    pub(crate) fn agents(&mut self) -> anyhow::Result<&mut Agents> {
        self.agents.as_mut().context("this rig has no agents")
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.addresses.grpc
    }

    pub(crate) fn client(&self) -> anyhow::Result<&Client> {
        self.clients.first().context("no client")
    }

    pub(crate) fn store(&self) -> Store {
        self.store
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    pub(crate) fn server(&self) -> &Process {
        &self.server
    }

    /// Checks what must hold, and ends everything in good order. `enqueued` is what the server said to have stored; if
    /// there are agents, all of it succeeded.
    ///
    /// # Errors
    /// What does not hold.
    pub(crate) async fn finish(
        self,
        scenario: &'static str,
        enqueued: u64,
        busy: u64,
    ) -> anyhow::Result<Check> {
        let succeeded = if self.agents.is_some() { enqueued } else { 0 };
        self.finish_with(scenario, Expected { enqueued, succeeded, running: 0 }, busy).await
    }

    /// As [`Rig::finish`]; what neither succeeded nor runs is queued.
    ///
    /// # Errors
    /// What does not hold.
    pub(crate) async fn finish_with(
        mut self,
        scenario: &'static str,
        expected: Expected,
        busy: u64,
    ) -> anyhow::Result<Check> {
        let Expected { enqueued, succeeded, running } = expected;
        let client = self.clients.first().context("no client")?;
        let answer = client.check_invariants().await.context("the invariants cannot be checked")?;
        ensure!(answer.violations.is_empty(), "invariants do not hold: {:#?}", answer.violations);
        let info = client.server_info().await?;
        ensure!(info.reloads == 0, "{} commits failed\n{}", info.reloads, self.server.tail());
        if let Some(agents) = self.agents.take() {
            agents.stop().await?;
        }
        self.stop_server().await?;
        let queued = enqueued.checked_sub(succeeded + running).context("more ran than was enqueued")?;
        let expected = Counted { jobs: enqueued, succeeded, queued, payloads: enqueued, leases: running };
        let found = self.place.count().await?;
        ensure!(found == expected, "the database holds {found:?}, not {expected:?}");
        ensure!(!answer.checked.is_empty(), "no invariant was checked");
        let invariants = answer.checked.len();
        Ok(Check { scenario, store: self.store, enqueued, succeeded, invariants, busy })
    }

    /// A database with the schema, and nobody who uses it.
    ///
    /// # Errors
    /// If a server does not start or end on it.
    pub(crate) async fn prepared(bed: &Bed, store: Store) -> anyhow::Result<Place> {
        let mut rig = Self::start(bed, store).await?;
        rig.stop_server().await?;
        Ok(rig.place.clone())
    }
}

/// The mark in the environment of every process of a rig. When it goes, they go.
#[derive(Debug)]
struct Marked(String);

impl Drop for Marked {
    fn drop(&mut self) {
        tag::end_all(&self.0);
    }
}

/// Clients that wait for an answer for as long as a busy machine takes, with a million jobs in it.
fn connect(endpoint: &str) -> anyhow::Result<Vec<Client>> {
    let retry = RetryPolicy { give_up_after: DRAIN, ..RetryPolicy::default() };
    let options = Options { retry, ..Options::default() };
    let clients = (0..CLIENTS).map(|_| Client::connect_with(endpoint, options.clone()));
    Ok(clients.collect::<Result<_, _>>()?)
}

/// A path as an argument.
pub(crate) fn text(path: &Path) -> anyhow::Result<String> {
    Ok(path.to_str().context("a path is no UTF-8")?.to_owned())
}

/// How long the end of all jobs may take once they are enqueued.
pub(crate) const DRAIN: Duration = Duration::from_secs(120);
