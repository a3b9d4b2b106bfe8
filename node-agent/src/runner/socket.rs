//! The local socket of an attempt: its command says how it gets on, what it used and why it fails, has children, and waits
//! for them.
//!
//! Responsible for who gets in, and for how much of it there is at once. Not responsible for what is said (`service`),
//! kept (`said`), waited for (`wait`) or asked of the server (`calls`).
//!
//! Invariants: the socket stands in the attempt's own directory, which only the agent can write into, belongs to the user
//! of the job, and nobody else may open it; whoever is let in has that user; it is the same path under the next agent; once
//! the command has ended, nothing that is said counts.

mod calls;
mod desk;
mod heard;
mod judge;
mod kept;
mod said;
mod service;
mod wait;

use std::fs::{self, File};
use std::future::Future as _;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tenure_proto::limits;
use tenure_proto::node::v1::attempt_service_server::AttemptServiceServer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::transport::Server;
use tonic::transport::server::{Connected, UdsConnectInfo};

use self::service::Service;

pub use self::calls::{Calls, Lines};
pub(super) use self::calls::{Lease, is_away};
pub(super) use self::desk::{About, Desk, Of};
pub(super) use self::said::{Failure, MOST_COUNTERS, MOST_USAGE, Said, Stand, Wait};

/// Connections of one attempt. Beyond, one is closed at once.
const MOST_CONNECTIONS: usize = 16;
/// Calls of one connection at once. Beyond, they wait for each other. With the two others it bounds what the requests of one
/// attempt take of the agent's memory: 64 MiB.
const MOST_CALLS: u32 = 4;
/// The largest request. Clients send at most 1 MiB; and some room for one more field.
const DECODE_LIMIT: usize = limits::MESSAGE_BYTES + 1024;
/// The name of the socket in the attempt's directory.
const NAME: &str = "socket";

/// The open socket of one attempt. Dropped, it is gone, and soon its connections and calls in flight with it.
#[derive(Debug)]
pub(super) struct Socket {
    desk: Arc<Desk>,
    tasks: JoinSet<()>,
}

impl Socket {
    /// Where the socket of an attempt stands.
    pub(super) fn path(dir: &Path) -> PathBuf {
        dir.join(NAME)
    }

    /// Makes the socket, in the place of one that an earlier agent left, and serves it.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(super) fn open(desk: Arc<Desk>) -> io::Result<Self> {
        let listener = listen(desk.dir(), desk.uid())?;
        let mut tasks = JoinSet::new();
        let (sender, connections) = mpsc::channel(1);
        tasks.spawn(accept(listener, Arc::clone(&desk), sender));
        tasks.spawn(serve(connections, Arc::clone(&desk)));
        tasks.spawn(wait::drive(Arc::clone(&desk)));
        let telling = Arc::clone(&desk);
        tasks.spawn(async move { telling.tell_progress().await });
        Ok(Self { desk, tasks })
    }

    /// Ends it. When this returns, nothing that was asked there goes on, and nothing that is said there counts, whoever
    /// still has a connection.
    pub(super) async fn close(mut self) {
        self.desk.close().await;
        self.tasks.shutdown().await;
    }

    /// Of an attempt that was taken over and cannot speak: a wait that it began before has its end all the same.
    pub(super) fn mute(desk: Arc<Desk>) -> Self {
        let mut tasks = JoinSet::new();
        tasks.spawn(wait::drive(Arc::clone(&desk)));
        Self { desk, tasks }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // The tasks of connections are the transport's, which ends none of them with its own.
        self.desk.closed().cancel();
        // What cannot be removed goes with the directory.
        drop(fs::remove_file(Self::path(self.desk.dir())));
    }
}

fn listen(dir: &Path, uid: u32) -> io::Result<UnixListener> {
    // However long the path of the directory is: a socket's may have some hundred bytes only.
    let held = File::open(dir)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}/{NAME}", held.as_raw_fd()));
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let listener = std::os::unix::net::UnixListener::bind(&path)?;
    // Until its user owns it, only this one, which made the directory, can open it; afterwards nobody else.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    if uid != rustix::process::geteuid().as_raw() {
        std::os::unix::fs::chown(&path, Some(uid), None)?;
    }
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener)
}

/// Takes connections, as many as there is room for, and of the job's user alone.
async fn accept(listener: UnixListener, desk: Arc<Desk>, connections: mpsc::Sender<io::Result<Connection>>) {
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let socket = match listener.accept().await {
            Ok((socket, _)) => socket,
            Err(error) => {
                // Out of descriptors, mostly: it passes.
                tracing::warn!(%error, "a connection to the socket of an attempt cannot be taken");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                continue;
            }
        };
        match socket.peer_cred() {
            Ok(peer) if peer.uid() == desk.uid() => {}
            Ok(peer) => {
                tracing::warn!(uid = peer.uid(), "another user wanted to speak as an attempt, and may not");
                continue;
            }
            Err(error) => {
                tracing::warn!(%error, "nobody knows who wanted to speak as an attempt");
                continue;
            }
        }
        let Ok(place) = Arc::clone(&room).try_acquire_owned() else {
            tracing::debug!(most = MOST_CONNECTIONS, "an attempt has too many connections to its socket");
            continue;
        };
        let closed = Box::pin(desk.closed().clone().cancelled_owned());
        if connections.send(Ok(Connection { socket, closed, _place: place })).await.is_err() {
            return;
        }
    }
}

async fn serve(connections: mpsc::Receiver<io::Result<Connection>>, desk: Arc<Desk>) {
    let service = AttemptServiceServer::new(Service::new(desk)).max_decoding_message_size(DECODE_LIMIT);
    let served = Server::builder()
        .max_concurrent_streams(Some(MOST_CALLS))
        .add_service(service)
        .serve_with_incoming(ReceiverStream::new(connections));
    if let Err(error) = served.await {
        tracing::error!(error = %crate::Chain(&error), "the socket of an attempt is served no more");
    }
}

/// A connection with its place among all of an attempt. It breaks when that has ended.
#[derive(Debug)]
struct Connection {
    socket: UnixStream,
    closed: Pin<Box<WaitForCancellationFutureOwned>>,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    /// An error once the attempt has ended; the task is woken then.
    fn open(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.closed.as_mut().poll(context) {
            Poll::Ready(()) => Err(io::ErrorKind::ConnectionAborted.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = UdsConnectInfo;

    fn connect_info(&self) -> UdsConnectInfo {
        self.socket.connect_info()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.open(context)?;
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.open(context)?;
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
