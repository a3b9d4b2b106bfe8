//! A gate before a server that cuts connections while a call is in flight: what a client sees of a server that was killed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// How a connection is cut.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cut {
    /// The call was read and the connection closed in good order, with no word about the call.
    Closed,
    /// The connection was reset: the host answered for a process that is gone.
    Reset,
    /// The call was carried out, and the connection reset in the middle of its answer.
    InAnswer,
}

/// The running gate; it ends with this value.
pub(crate) struct Cutter {
    address: SocketAddr,
    cuts: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Cutter {
    /// Cuts one connection in each of these ways, and lets the next one through to `server`. `answer` stands in every
    /// answer.
    pub(crate) async fn start(server: SocketAddr, ways: &'static [Cut], answer: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound listener");
        let cuts = Arc::new(AtomicUsize::new(0));
        let counter = cuts.clone();
        let answer = answer.as_bytes().to_vec();
        #[expect(clippy::disallowed_methods, reason = "the handle is kept and aborted with the gate")]
        let task = tokio::spawn(async move {
            for way in ways {
                let (client, _) = listener.accept().await.expect("a connection");
                cut(client, server, *way, &answer).await;
                counter.fetch_add(1, Ordering::Relaxed);
            }
            let (mut client, _) = listener.accept().await.expect("a connection");
            let mut server = TcpStream::connect(server).await.expect("the server runs");
            // The test ends before the connection does.
            tokio::io::copy_bidirectional(&mut client, &mut server).await.ok();
        });
        Self { address, cuts, task }
    }

    /// Its address as a client wants it.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many connections were cut.
    pub(crate) fn cuts(&self) -> usize {
        self.cuts.load(Ordering::Relaxed)
    }
}

impl Drop for Cutter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What a client sends before its first call (preface and settings) is shorter than this, and with a call it is longer.
const CALL_BYTES: usize = 160;

async fn cut(mut client: TcpStream, server: SocketAddr, way: Cut, answer: &[u8]) {
    match way {
        Cut::Closed | Cut::Reset => {
            let mut call = Vec::new();
            while call.len() < CALL_BYTES {
                client.read_buf(&mut call).await.expect("the client still speaks");
            }
        }
        Cut::InAnswer => {
            let mut server = TcpStream::connect(server).await.expect("the server runs");
            let (mut calls, mut answers) = (Vec::new(), Vec::new());
            while !answers.windows(answer.len()).any(|window| window == answer) {
                let read = tokio::select! {
                    // Cancel-safe: a read that was not chosen has read nothing.
                    count = client.read_buf(&mut calls) => count,
                    // Cancel-safe, as above.
                    count = server.read_buf(&mut answers) => count,
                };
                read.expect("both sides still speak");
                server.write_all(&std::mem::take(&mut calls)).await.expect("the server still reads");
            }
            let half = answers.get(..answers.len() / 2).unwrap_or_default();
            client.write_all(half).await.expect("the client still reads");
        }
    }
    if !matches!(way, Cut::Closed) {
        client.set_zero_linger().expect("a socket of TCP");
    }
}
