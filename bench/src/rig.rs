//! A server in a process of its own over a fresh database, with simulated agents.
//!
//! Responsible for starting it, and for what must hold at its end: every job that was answered as stored is in the
//! database, with its payload; every one that ran succeeded, and its lease is gone; the server's invariants hold.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rustix::process::Signal;
use tempfile::TempDir;
use tenure_client::Client;
use tenure_tests::process::Process;
use tenure_tests::tag;
use tenure_tests::wait::PATIENCE;

use crate::agents::{Agents, Fleet};
use crate::args::{Args, Store};
use crate::bed::{Bed, Counted, Place};
use crate::report::Check;

/// The only kind. Its lease is the default one.
pub(crate) const KIND: &str = "bench";
/// The only slot.
pub(crate) const SLOT: &str = "work";
/// Of each agent: more than it is ever granted at once.
const SLOTS: u32 = 512;
/// Unanswered grants that an agent takes: the most that a server lets it have.
const CREDITS: u32 = 128;
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
    endpoint: String,
    clients: Vec<Client>,
    agents: Option<Agents>,
    marked: Marked,
    /// Of the server file.
    limits: String,
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
        let files = tempfile::Builder::new().prefix("tenure-bench-rig-").tempdir()?;
        let marked = Marked(format!("bench-{}", uuid::Uuid::now_v7()));
        let place = bed.place()?;
        let limits = match sessions {
            0 => String::new(),
            _ => format!("[limits]\nmax_connections = {}\n", sessions + SPARE_CONNECTIONS),
        };
        let (server, endpoint) =
            start_server(&place, files.path(), &marked.0, "127.0.0.1:0", &limits).await?;
        let clients = (0..CLIENTS).map(|_| Client::connect(&endpoint)).collect::<Result<Vec<_>, _>>()?;
        let fleet = format!("[slots]\n{SLOT} = \"node\"\n\n[kinds.\"{KIND}\"]\nneeds = {{ {SLOT} = 1 }}\n");
        clients.first().context("no client")?.apply(&fleet, false).await?;
        Ok(Self { place, store, files, server, endpoint, clients, agents: None, marked, limits })
    }

    /// Kills the server and starts it again at the same address. It is ready when this returns.
    ///
    /// # Errors
    /// If it does not start.
    pub(crate) async fn restart(&mut self) -> anyhow::Result<()> {
        self.server.signal(Signal::KILL)?;
        self.server.ended(PATIENCE).await?;
        let address = self.endpoint.strip_prefix("http://").context("an address with TLS")?;
        let files = self.files.path();
        (self.server, _) = start_server(&self.place, files, &self.marked.0, address, &self.limits).await?;
        Ok(())
    }

    /// Starts simulated agents, whose jobs finish at once.
    ///
    /// # Errors
    /// If one is not welcomed.
    pub(crate) async fn with_agents(mut self, args: &Args, observed: bool) -> anyhow::Result<Self> {
        let fleet = Fleet { agents: args.agents, slots: SLOTS, credits: CREDITS, observed };
        self.agents = Some(Agents::start(&self.endpoint, &fleet).await.with_context(|| self.server.tail())?);
        Ok(self)
    }

    pub(crate) fn clients(&self) -> &[Client] {
        &self.clients
    }

    pub(crate) fn agents(&mut self) -> anyhow::Result<&mut Agents> {
        self.agents.as_mut().context("this rig has no agents")
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub(crate) fn files(&self) -> &Path {
        self.files.path()
    }

    pub(crate) fn mark(&self) -> &str {
        &self.marked.0
    }

    pub(crate) fn server(&self) -> &Process {
        &self.server
    }

    /// Checks what must hold, and ends everything in good order. `enqueued` is what the server said to have stored.
    ///
    /// # Errors
    /// What does not hold.
    pub(crate) async fn finish(
        mut self,
        scenario: &'static str,
        enqueued: u64,
        busy: u64,
    ) -> anyhow::Result<Check> {
        let client = self.clients.first().context("no client")?;
        let answer = client.check_invariants().await.context("the invariants cannot be checked")?;
        ensure!(answer.violations.is_empty(), "invariants do not hold: {:#?}", answer.violations);
        let info = client.server_info().await?;
        ensure!(info.reloads == 0, "{} commits failed\n{}", info.reloads, self.server.tail());
        let ran = self.agents.is_some();
        if let Some(agents) = self.agents.take() {
            agents.stop().await?;
        }
        self.stop_server().await?;
        let succeeded = if ran { enqueued } else { 0 };
        let expected = Counted {
            jobs: enqueued,
            succeeded,
            queued: enqueued - succeeded,
            payloads: enqueued,
            leases: 0,
        };
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

    async fn stop_server(&mut self) -> anyhow::Result<()> {
        self.server.signal(Signal::TERM)?;
        let status = self.server.ended(PATIENCE).await?;
        ensure!(status.success(), "the server ended with {status}\n{}", self.server.tail());
        Ok(())
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

/// Starts a server; it and its address, once it is ready.
async fn start_server(
    place: &Place,
    files: &Path,
    mark: &str,
    listen: &str,
    limits: &str,
) -> anyhow::Result<(Process, String)> {
    let config = files.join("server.toml");
    let url = files.join("database-url");
    let (store, data): (Vec<&str>, PathBuf) = match place {
        Place::Postgres(address) => {
            fs::write(&url, address)?;
            fs::write(&config, format!("[server]\ndatabase_url_file = \"database-url\"\n{limits}"))?;
            (vec!["--migrate"], PathBuf::new())
        }
        Place::Sqlite(data) => {
            fs::write(&config, limits)?;
            (vec!["--data"], data.clone())
        }
    };
    let ready = files.join("ready");
    if ready.exists() {
        fs::remove_file(&ready)?;
    }
    let (config, ready_file) = (text(&config)?, text(&ready)?);
    let data = text(&data)?;
    let mut args = vec!["server", "--config", &config, "--listen", listen, "--http", "127.0.0.1:0"];
    args.extend(["--ready-file", &ready_file]);
    args.extend(store);
    if !data.is_empty() {
        args.push(&data);
    }
    let mut server = Process::tenure("the server", &args, &files.join("server.log"), mark)?;
    let announced = server.ready(&ready).await?;
    let endpoint = announced.lines().find_map(|line| line.strip_prefix("TENURE_SERVER="));
    Ok((server, endpoint.context("the ready file names no server")?.to_owned()))
}

/// A path as an argument.
pub(crate) fn text(path: &Path) -> anyhow::Result<String> {
    Ok(path.to_str().context("a path is no UTF-8")?.to_owned())
}

/// How long the end of all jobs may take once they are enqueued.
pub(crate) const DRAIN: Duration = Duration::from_secs(120);
