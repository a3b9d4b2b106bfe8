//! Several real servers on the database of a fleet, and a door in front of them that leads to whoever leads.
//!
//! The fleet's own server is not among them: these are started, killed and frozen one by one.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rustix::process::Signal;
use tenure_client::proto::GetServerInfoResponse;
use tenure_client::{Client, Options, RetryPolicy};
use tenure_tests::Fleet;
use tenure_tests::clock::Moment;
use tenure_tests::process::Process;
use tenure_tests::wait::{PATIENCE, level, until};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// One server.
pub(super) struct Server {
    pub(super) process: Process,
    pub(super) grpc: SocketAddr,
    /// Asks this server alone, once.
    pub(super) client: Client,
}

impl Server {
    /// Starts one on the fleet's database, and waits until it says that it is ready.
    pub(super) async fn start(fleet: &Fleet, name: &str) -> anyhow::Result<Self> {
        let path = |name: &str| fleet.directory().join(name).display().to_string();
        let (file, ready) = (path("server.toml"), path(&format!("ready-{name}")));
        let anywhere = ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--ready-file", &ready];
        let args = [&["server", "--migrate", "--config", &file][..], &anywhere].concat();
        let mut process = fleet.process(name, &args)?;
        let announced = process.ready(Path::new(&ready)).await?;
        let line = announced.lines().find_map(|line| line.strip_prefix("TENURE_SERVER=http://"));
        let grpc = line.context("no address")?.parse()?;
        let retry = RetryPolicy { give_up_after: Duration::ZERO, ..RetryPolicy::default() };
        let client =
            Client::connect_with(&format!("http://{grpc}"), Options { retry, ..Options::default() })?;
        Ok(Self { process, grpc, client })
    }

    /// What it says of itself, if it does.
    pub(super) async fn info(&self) -> Result<GetServerInfoResponse, String> {
        let info = tokio::time::timeout(Duration::from_secs(1), self.client.server_info()).await;
        info.map_err(|_| "it does not answer".to_owned())?.map_err(|error| error.to_string())
    }

    /// Waits until it leads. How long that took.
    pub(super) async fn leads(&self, within: Duration) -> anyhow::Result<Duration> {
        let begun = Moment::now();
        until("the server leads", within, async || {
            let info = self.info().await?;
            level(info.leader, || format!("{info:?}\n{}", self.process.tail()))
        })
        .await?;
        Ok(begun.elapsed())
    }

    /// Waits until it follows that one.
    pub(super) async fn follows(&self, leader: &Self) -> anyhow::Result<()> {
        until("the server follows", PATIENCE, async || {
            let info = self.info().await?;
            let right = info.standing == "following" && info.leader_address == leader.grpc.to_string();
            level(right && !info.leader, || format!("{info:?}\n{}", self.process.tail()))
        })
        .await
    }

    /// SIGTERM. It must end well, and within 10 s.
    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        self.process.signal(Signal::TERM)?;
        let status = self.process.ended(Duration::from_secs(10)).await?;
        ensure!(status.success(), "it ended with {status}\n{}", self.process.tail());
        Ok(())
    }
}

/// An address that leads to whichever server it was last pointed at.
pub(super) struct Door {
    pub(super) address: SocketAddr,
    to: watch::Sender<SocketAddr>,
    _task: JoinSet<()>,
}

impl Door {
    pub(super) async fn to(server: &Server) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (to, mut target) = watch::channel(server.grpc);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut open = JoinSet::new();
            loop {
                // Cancel-safe: both only wait.
                tokio::select! {
                    accepted = listener.accept() => {
                        let Ok((mut near, _)) = accepted else { continue };
                        let target = *target.borrow();
                        open.spawn(async move {
                            let Ok(mut far) = TcpStream::connect(target).await else { return };
                            drop(tokio::io::copy_bidirectional(&mut near, &mut far).await);
                        });
                    }
                    changed = target.changed() => {
                        if changed.is_err() {
                            return;
                        }
                        open.shutdown().await; // as if the other end had gone
                    }
                    Some(_) = open.join_next() => {}
                }
            }
        });
        Ok(Self { address, to, _task: task })
    }

    /// Points it elsewhere; what was open is cut.
    pub(super) fn point_at(&self, server: &Server) {
        self.to.send_replace(server.grpc);
    }

    pub(super) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }
}
