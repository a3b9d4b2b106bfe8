//! A TCP proxy between an agent and its server, that holds one direction as long as a test wants.
//!
//! Responsible for bytes only; it knows nothing of what they mean. Invariant: what was held is passed on later, in
//! order, and nothing is lost unless the connection is cut.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Bytes passed on at once.
const CHUNK: usize = 16 * 1024;

/// A proxy in front of one server. Dropped, it cuts every connection.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    gates: Arc<Gates>,
    #[expect(dead_code, reason = "held for its end, which ends every task")]
    tasks: JoinSet<()>,
}

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the agent to the server.
    Up,
    /// From the server to the agent.
    Down,
}

#[derive(Debug)]
struct Gates {
    up: watch::Sender<bool>,
    down: watch::Sender<bool>,
    /// Counts the cuts.
    cuts: watch::Sender<u64>,
}

impl Proxy {
    /// Listens on a free port for connections to `server`.
    ///
    /// # Errors
    /// If there is no port.
    pub async fn start(server: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("no free port for a proxy")?;
        let address = listener.local_addr()?;
        let gate = || watch::Sender::new(true);
        let gates = Arc::new(Gates { up: gate(), down: gate(), cuts: watch::Sender::new(0) });
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, server, gates.clone()));
        Ok(Self { address, gates, tasks })
    }

    /// Where the agent connects to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Holds what comes from now on in one direction.
    pub fn hold(&self, direction: Direction) {
        self.gates.of(direction).send_replace(false);
    }

    /// Passes on what was held, and what comes.
    pub fn release(&self, direction: Direction) {
        self.gates.of(direction).send_replace(true);
    }

    /// Cuts every connection; what is held is lost. New ones are accepted.
    pub fn cut(&self) {
        self.gates.cuts.send_modify(|cuts| *cuts += 1);
    }
}

impl Gates {
    fn of(&self, direction: Direction) -> &watch::Sender<bool> {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }
}

async fn accept(listener: TcpListener, server: SocketAddr, gates: Arc<Gates>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((agent, _)) = listener.accept().await else { return };
        connections.spawn(connection(agent, server, gates.clone()));
    }
}

async fn connection(agent: TcpStream, server: SocketAddr, gates: Arc<Gates>) {
    let mut cuts = gates.cuts.subscribe();
    let Ok(server) = TcpStream::connect(server).await else { return };
    let ((from_agent, to_agent), (from_server, to_server)) = (agent.into_split(), server.into_split());
    tokio::select! {
        () = pass(from_agent, to_server, gates.up.subscribe()) => {}
        () = pass(from_server, to_agent, gates.down.subscribe()) => {}
        _ = cuts.changed() => {}
    }
}

/// Passes bytes on until one side ends.
async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut open: watch::Receiver<bool>) {
    let mut chunk = vec![0; CHUNK];
    loop {
        let Ok(length) = from.read(&mut chunk).await else { return };
        if length == 0 || open.wait_for(|open| *open).await.is_err() {
            return;
        }
        let Some(bytes) = chunk.get(..length) else { return };
        if to.write_all(bytes).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn what_is_held_comes_later_and_the_other_direction_goes_on() {
        let echo = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Proxy::start(echo.local_addr().unwrap()).await.unwrap();
        let mut agent = TcpStream::connect(proxy.address()).await.unwrap();
        let (mut server, _) = echo.accept().await.unwrap();
        let mut byte = [0];

        proxy.hold(Direction::Up);
        agent.write_all(b"a").await.unwrap();
        server.write_all(b"b").await.unwrap();
        agent.read_exact(&mut byte).await.unwrap();
        assert_eq!(&byte, b"b");
        let early = tokio::time::timeout(Duration::from_millis(100), server.read_exact(&mut byte)).await;
        assert!(early.is_err(), "held");
        proxy.release(Direction::Up);
        server.read_exact(&mut byte).await.unwrap();
        assert_eq!(&byte, b"a");

        proxy.cut();
        assert_eq!(server.read(&mut byte).await.unwrap_or(0), 0);
    }
}
