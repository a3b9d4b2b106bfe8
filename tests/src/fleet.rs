//! A running fleet: one server, some agents, the directory in which their jobs meet.
//!
//! Responsible for its start, and for everything that must hold at its end. What a scenario does to its processes is in
//! `parts.rs`, what it can see in `look.rs`.
//! Invariant: when a fleet is gone, no process with its mark lives.

mod certificates;
mod database;
mod look;
mod parts;

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rustix::process::Signal;
use tempfile::TempDir;
use tenure_client::{Client, Options, RetryPolicy};
use tenure_test_postgres::Cluster;

use crate::hosts::Hosts;
use crate::older::Older;
use crate::plan::Plan;
use crate::process::{Process, tail};
use crate::proxy::Proxy;
use crate::wait::PATIENCE;
use crate::{binary, tag};

pub use self::look::Ran;

/// How long a call of a test goes on while the server is away: restarts are part of the tests.
const RETRY_FOR: Duration = Duration::from_secs(30);

/// A running fleet.
#[derive(Debug)]
pub struct Fleet {
    plan: Plan,
    directory: TempDir,
    mark: String,
    /// The store, if that is Postgres.
    postgres: Option<Cluster>,
    /// Where the agents are, unless they are where the server is.
    hosts: Option<Hosts>,
    /// Where the server serves; the same after a restart.
    grpc: SocketAddr,
    http: SocketAddr,
    client: Client,
    server: Option<Process>,
    agents: BTreeMap<String, Process>,
    proxies: BTreeMap<String, Proxy>,
    /// Between the server and its database.
    database: Option<Proxy>,
    /// Between the server and everybody else.
    older: Option<Older>,
    finished: bool,
}

/// Starts a fleet, carries out a scenario on it, and checks what must hold at the end of every one.
///
/// # Errors
/// What the scenario met, or what does not hold. The logs of all processes are printed then.
pub async fn scenario(
    plan: Plan,
    body: impl AsyncFnOnce(&mut Fleet) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut fleet = Fleet::start(plan).await?;
    // Scenarios are long: their futures live on the heap.
    Box::pin(body(&mut fleet)).await?;
    fleet.finish().await
}

impl Fleet {
    /// Starts the server, applies the fleet file, starts every agent and waits until each is heard.
    ///
    /// # Errors
    /// If anything does not start.
    pub async fn start(plan: Plan) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new().prefix("tenure-").tempdir()?;
        let mark = format!("{}-{}", std::process::id(), uuid::Uuid::now_v7());
        lay_out(directory.path(), &plan)?;
        let postgres = plan.is_on_postgres().then(|| match plan.small_disk {
            None => Cluster::start(),
            Some(mib) => Cluster::start_on_small_disk(mib),
        });
        let postgres = postgres.transpose()?;
        if let Some(cluster) = &postgres {
            fs::write(directory.path().join("database-url"), cluster.database()?)?;
            let file = format!("[server]\ndatabase_url_file = \"database-url\"\n{}", plan.server_file);
            fs::write(directory.path().join("server.toml"), file)?;
        }
        let hosts = plan.hosts.then(|| Hosts::new(u8::try_from(plan.nodes.len()).unwrap_or(u8::MAX)));
        if let Some(hosts) = &hosts {
            certificates::make(directory.path(), &plan, hosts)?;
        }
        let unknown = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut fleet = Self {
            plan,
            directory,
            mark,
            postgres,
            hosts,
            grpc: unknown,
            http: unknown,
            client: Client::connect("http://127.0.0.1:1")?,
            server: None,
            agents: BTreeMap::new(),
            proxies: BTreeMap::new(),
            database: None,
            older: None,
            finished: false,
        };
        fleet.start_server().await?;
        if fleet.plan.older {
            fleet.older = Some(Older::start(fleet.grpc).await?);
        }
        let retry = RetryPolicy { give_up_after: RETRY_FOR, ..RetryPolicy::default() };
        fleet.client = fleet.client_with(retry)?;
        let text = fleet.plan.fleet_file();
        fleet
            .client
            .apply(&text, false)
            .await
            .with_context(|| format!("the fleet file is refused:\n{text}"))?;
        let agents = if fleet.plan.up { Vec::new() } else { fleet.plan.nodes.clone() };
        for node in agents {
            if node.proxied {
                fleet.proxies.insert(node.name.clone(), Proxy::start(fleet.grpc).await?);
            }
            fleet.start_agent(&node.name)?;
        }
        for node in fleet.plan.nodes.clone() {
            fleet.node_live(&node.name).await?;
        }
        Ok(fleet)
    }

    /// The client of the tests.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Another client, that may do everything.
    ///
    /// # Errors
    /// If its certificate cannot be used.
    pub fn client_with(&self, retry: RetryPolicy) -> anyhow::Result<Client> {
        let tls = self.hosts.is_some().then(|| certificates::of_operator(self.directory.path()));
        Ok(Client::connect_with(&self.endpoint(), Options { retry, tls, ..Options::default() })?)
    }

    /// The address of the server, for a client.
    pub fn endpoint(&self) -> String {
        format!("{}://{}", if self.hosts.is_some() { "https" } else { "http" }, self.door())
    }

    /// Where clients and agents connect to, unless a node has a proxy of its own.
    fn door(&self) -> SocketAddr {
        self.older.as_ref().map_or(self.grpc, Older::address)
    }

    /// The hosts of the agents.
    ///
    /// # Errors
    /// If the plan gives them none.
    pub fn hosts(&self) -> anyhow::Result<&Hosts> {
        self.hosts.as_ref().context("all are on one host")
    }

    /// The plan that it was started from.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Where everything of it is kept.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The mark in the environment of all its processes.
    pub fn mark(&self) -> &str {
        &self.mark
    }

    /// The cluster under the server.
    ///
    /// # Errors
    /// If the store is none.
    pub fn postgres(&self) -> anyhow::Result<&Cluster> {
        self.postgres.as_ref().context("the store is not Postgres")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Checks what must hold at the end of every scenario, and ends everything in good order.
    ///
    /// # Errors
    /// What does not hold.
    pub async fn finish(mut self) -> anyhow::Result<()> {
        self.check().await?;
        for (name, agent) in &self.agents {
            // SIGTERM would leave what still runs to a next agent.
            agent.signal(Signal::INT).with_context(|| format!("at the end of agent {name}"))?;
        }
        for (name, mut agent) in std::mem::take(&mut self.agents) {
            let status = agent.ended(PATIENCE).await?;
            ensure!(status.success(), "agent {name} ended with {status}\n{}", agent.tail());
        }
        if let Some(mut server) = self.server.take() {
            server.signal(Signal::TERM)?;
            let status = server.ended(PATIENCE).await?;
            ensure!(status.success(), "the server ended with {status}\n{}", server.tail());
        }
        let left = tag::processes(&self.mark);
        ensure!(left.is_empty(), "these were left running: {left:#?}");
        self.finished = true;
        Ok(())
    }

    /// What must hold at any time: the server's invariants and the oracle over the log of the jobs.
    ///
    /// # Errors
    /// What does not hold.
    pub async fn check(&self) -> anyhow::Result<()> {
        if self.server.is_some() {
            let answer = self.client.check_invariants().await?;
            ensure!(answer.violations.is_empty(), "invariants do not hold: {:#?}", answer.violations);
            ensure!(!answer.checked.is_empty(), "no invariant was checked");
        }
        let violations = self.log()?.violations();
        ensure!(violations.is_empty(), "the oracle: {violations:#?}");
        Ok(())
    }

    fn print_logs(&self) {
        let mut names: Vec<PathBuf> = fs::read_dir(self.path("logs"))
            .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
            .unwrap_or_default();
        names.push(self.path("intervals.log"));
        names.sort();
        for name in names {
            let text = fs::read(&name).unwrap_or_default();
            eprintln!("{}", tail(&name.display().to_string(), &String::from_utf8_lossy(&text)));
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if !self.finished {
            self.print_logs();
        }
        let ended = tag::end_all(&self.mark);
        if !self.finished && !ended.is_empty() {
            eprintln!("--- ended by the harness\n{ended:#?}");
        }
    }
}

/// The directories and files in which the processes of a fleet meet. Jobs may belong to another user.
fn lay_out(directory: &Path, plan: &Plan) -> anyhow::Result<()> {
    let open_to = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode));
    open_to(directory, 0o755)?;
    for name in ["gates", "locks"] {
        fs::create_dir(directory.join(name))?;
        open_to(&directory.join(name), 0o777)?;
    }
    for name in ["logs", "nodes"] {
        fs::create_dir(directory.join(name))?;
    }
    let log = directory.join("intervals.log");
    fs::write(&log, "")?;
    open_to(&log, 0o666)?;
    fs::write(directory.join("server.toml"), &plan.server_file)?;
    if plan.has_other_users() {
        fs::copy(binary::test_job()?, directory.join("test-job"))?;
        fs::copy(binary::tenure()?, directory.join("tenure"))?;
    }
    Ok(())
}
