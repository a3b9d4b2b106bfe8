//! A TCP proxy in front of a server or a database, that holds, cuts or changes what a test wants.
//!
//! Responsible for bytes only; it knows nothing of what they mean. Invariant: what was held is passed on later, in
//! order, and nothing is lost unless the connection is cut.

mod catch;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::catch::{Hooks, Line};

pub use self::catch::{Catch, Caught};

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

/// Whom a proxy stands before.
#[derive(Clone, Debug)]
pub enum Target {
    /// A server on the network.
    Tcp(SocketAddr),
    /// One that listens on a Unix socket only, as the harness's databases do.
    Unix(PathBuf),
}

impl From<SocketAddr> for Target {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From who connected to the server.
    Up,
    /// From the server to who connected.
    Down,
}

#[derive(Debug)]
struct Gates {
    up: watch::Sender<bool>,
    down: watch::Sender<bool>,
    /// Counts the cuts.
    cuts: watch::Sender<u64>,
    /// Counts how often the connections of that moment were made half-open.
    freezes: watch::Sender<u64>,
    hooks: Hooks,
}

impl Proxy {
    /// Listens on a free port for connections to `server`.
    ///
    /// # Errors
    /// If there is no port.
    pub async fn start(server: impl Into<Target>) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("no free port for a proxy")?;
        let address = listener.local_addr()?;
        let gate = || watch::Sender::new(true);
        let gates = Arc::new(Gates {
            up: gate(),
            down: gate(),
            cuts: watch::Sender::new(0),
            freezes: watch::Sender::new(0),
            hooks: Hooks::default(),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, server.into(), gates.clone()));
        Ok(Self { address, gates, tasks })
    }

    /// Where to connect to.
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

    /// From now on nothing passes on the connections that there are, and neither side hears of it. New ones are
    /// accepted, and pass everything.
    pub fn half_open(&self) {
        self.gates.freezes.send_modify(|freezes| *freezes += 1);
    }

    /// Catches the next connection on which a chunk with `word` goes up, not before one with `after`, there. Other
    /// connections pass.
    pub fn catch(&self, after: &'static [u8], word: &'static [u8], how: Catch) -> Caught {
        self.gates.hooks.catch(after, word, how)
    }

    /// Puts `new` in the place of `old`, of the same length, in every chunk that goes up from now on.
    ///
    /// # Panics
    /// If they differ in length: messages carry theirs.
    pub fn rewrite(&self, old: &'static [u8], new: &'static [u8]) {
        assert_eq!(old.len(), new.len(), "messages carry their length");
        self.gates.hooks.rewrite(old, new);
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

async fn accept(listener: TcpListener, server: Target, gates: Arc<Gates>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((client, _)) = listener.accept().await else { return };
        let (server, gates) = (server.clone(), gates.clone());
        connections.spawn(async move {
            match server {
                Target::Tcp(address) => {
                    let Ok(server) = TcpStream::connect(address).await else { return };
                    let (from, to) = server.into_split();
                    connection(client, from, to, gates).await;
                }
                Target::Unix(path) => {
                    let Ok(server) = UnixStream::connect(path).await else { return };
                    let (from, to) = server.into_split();
                    connection(client, from, to, gates).await;
                }
            }
        });
    }
}

async fn connection(
    client: TcpStream,
    from_server: impl AsyncRead + Unpin,
    to_server: impl AsyncWrite + Unpin,
    gates: Arc<Gates>,
) {
    let mut cuts = gates.cuts.subscribe();
    let mut freezes = gates.freezes.subscribe();
    let (from_client, to_client) = client.into_split();
    let line = Arc::new(Line::default());
    let ways =
        [Direction::Up, Direction::Down].map(|way| [gates.of(way).subscribe(), line.gate(way).subscribe()]);
    let [up, down] = ways;
    let mut cut = line.cut.subscribe();
    let passing = async {
        tokio::select! {
            () = pass(from_client, to_server, up, |chunk| gates.hooks.look(chunk, &line)) => {}
            () = pass(from_server, to_client, down, |_| {}) => {}
        }
    };
    let mut passing = std::pin::pin!(passing);
    loop {
        tokio::select! {
            () = &mut passing => return,
            _ = cuts.changed() => return,
            _ = cut.changed() => return,
            Ok(()) = freezes.changed() => line.freeze(),
        }
    }
}

/// Passes bytes on until one side ends, each chunk once every gate is open.
async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut gates: [watch::Receiver<bool>; 2],
    mut look: impl FnMut(&mut [u8]),
) {
    let mut chunk = vec![0; CHUNK];
    loop {
        let Ok(length) = from.read(&mut chunk).await else { return };
        let Some(bytes) = chunk.get_mut(..length).filter(|bytes| !bytes.is_empty()) else { return };
        look(bytes);
        for gate in &mut gates {
            if gate.wait_for(|open| *open).await.is_err() {
                return;
            }
        }
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
        let mut client = TcpStream::connect(proxy.address()).await.unwrap();
        let (mut server, _) = echo.accept().await.unwrap();
        let mut byte = [0];

        proxy.hold(Direction::Up);
        client.write_all(b"a").await.unwrap();
        server.write_all(b"b").await.unwrap();
        client.read_exact(&mut byte).await.unwrap();
        assert_eq!(&byte, b"b");
        not_yet(&mut server).await;
        proxy.release(Direction::Up);
        server.read_exact(&mut byte).await.unwrap();
        assert_eq!(&byte, b"a");

        proxy.cut();
        assert_eq!(server.read(&mut byte).await.unwrap_or(0), 0);
    }

    #[tokio::test]
    async fn a_word_is_caught_on_one_connection_and_the_others_pass() {
        let echo = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Proxy::start(echo.local_addr().unwrap()).await.unwrap();
        let mut clients = Vec::new();
        for _ in 0..2 {
            let client = TcpStream::connect(proxy.address()).await.unwrap();
            clients.push((client, echo.accept().await.unwrap().0));
        }
        let [(one, at_one), (other, at_other)] = clients.as_mut_slice() else { unreachable!() };
        let mut bytes = [0; 6];

        let mut word = proxy.catch(b"mine", b"COMMIT", Catch::Word);
        one.write_all(b"COMMIT").await.unwrap();
        at_one.read_exact(&mut bytes).await.unwrap();
        one.write_all(b"mine").await.unwrap();
        at_one.read_exact(&mut bytes[..4]).await.unwrap();
        one.write_all(b"COMMIT").await.unwrap();
        word.caught().await.unwrap();
        not_yet(at_one).await;
        other.write_all(b"COMMIT").await.unwrap();
        at_other.read_exact(&mut bytes).await.unwrap();
        word.release();
        at_one.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"COMMIT");

        let mut answer = proxy.catch(b"", b"COMMIT", Catch::Answer);
        one.write_all(b"COMMIT").await.unwrap();
        at_one.read_exact(&mut bytes).await.unwrap();
        answer.caught().await.unwrap();
        at_one.write_all(b"done").await.unwrap();
        not_yet(one).await;
        answer.cut();
        assert_eq!(one.read(&mut bytes).await.unwrap_or(0), 0);

        proxy.rewrite(b"500ms", b"000ms");
        other.write_all(b"1500ms").await.unwrap();
        at_other.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"1000ms");
        proxy.half_open();
        other.write_all(b"lost").await.unwrap();
        not_yet(at_other).await;
    }

    async fn not_yet(side: &mut TcpStream) {
        let early = tokio::time::timeout(Duration::from_millis(100), side.read_u8()).await;
        assert!(early.is_err(), "held");
    }
}
