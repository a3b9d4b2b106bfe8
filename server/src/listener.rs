//! The front door: accepts connections of clients and agents, and serves gRPC on them until it is told to stop.
//!
//! Responsible for what tonic leaves open: accept errors do not spin, connections are capped, sockets get their
//! options, HTTP/2 gets its limits, and a shutdown ends in bounded time. Not responsible for what is said on a
//! connection. Invariant: no more than the cap of connections is served; more wait in the kernel's backlog, or behind
//! their handshakes.

use std::{
    convert::Infallible,
    fs::File,
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{Stream, stream};
use rustix::net::sockopt;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::{service::Routes, transport};
use tracing::{debug, debug_span, warn};

use crate::{
    chain::Chain,
    clock::Clock,
    hush::Hush,
    rpc::{auth::AuthLayer, elsewhere::ElsewhereLayer, gate::GateLayer},
    tls::{Acceptor, Served},
};

mod room;

pub(crate) use room::{Room, Taken};

/// Calls and sessions at once on one connection. More wait on the client's side.
pub(crate) const STREAMS: Streams = Streams { most: 64, windows: None };
/// Streams of one connection that ended by our own errors. Without a number hyper sets no limit.
const LOCAL_ERROR_RESETS: usize = 256;
/// A connection that is silent for so long is asked whether it lives …
const KEEPALIVE_EVERY: Duration = Duration::from_secs(10);
/// … and closed if it does not answer for so long.
const KEEPALIVE_PATIENCE: Duration = Duration::from_secs(5);
/// Headers of one request, in bytes.
const MOST_HEADERS: u32 = 16 * 1024;
/// The shortest beginning of anything: HTTP/2's preface has 24 bytes, and a request of HTTP/1.1 is not shorter.
const PREFACE: usize = 24;
/// A connection that has not said that much so long after it was accepted is closed: HTTP/2's own timers begin later.
const SPEAK_WITHIN: Duration = Duration::from_secs(10);
/// A connection on which nothing is heard for so long, or for up to twice as long, is closed. HTTP/2's answers to
/// keepalive are heard; so this is for HTTP/1.1, which has none.
const QUIET: Duration = Duration::from_secs(30);
/// After the shutdown began, open calls have this long; then their connections are cut.
const DRAIN: Duration = Duration::from_secs(8);
/// Waits after accept errors: doubled from the first to the last.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

/// Why serving ended otherwise than asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be had.
    #[error("cannot listen on {address}")]
    Bind {
        /// Which.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The transport gave up.
    #[error("serving gRPC failed")]
    Serve(#[source] transport::Error),
}

/// A bound socket with its cap of connections.
#[derive(Debug)]
pub(crate) struct Incoming {
    listener: TcpListener,
    address: SocketAddr,
    room: Room,
    /// Ends the connections on which nothing was said yet.
    stopping: CancellationToken,
    /// Ends every connection at once, when patience is over.
    cut: CancellationToken,
    /// Given up for a moment when no file descriptor is left, so that a client is closed instead of left hanging.
    spare: Option<File>,
    /// How long the next accept error is waited out.
    wait: Duration,
    hush: Hush,
}

impl Incoming {
    /// Binds an address.
    ///
    /// # Errors
    /// If it cannot be had.
    pub(crate) async fn bind(
        address: SocketAddr,
        most_connections: u32,
        clock: Clock,
    ) -> Result<Self, Error> {
        let failed = |source| Error::Bind { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let room = Room::new(most_connections);
        let (stopping, cut) = (CancellationToken::new(), CancellationToken::new());
        Ok(Self {
            listener,
            address,
            room,
            stopping,
            cut,
            spare: spare(),
            wait: BACK_OFF.0,
            hush: Hush::new(clock),
        })
    }

    /// From this shutdown on, connections on which nothing was said are closed.
    pub(crate) fn until(self, shutdown: CancellationToken) -> Self {
        Self { stopping: shutdown, ..self }
    }

    /// Where it listens; the port is the real one.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its places, whose number can be changed.
    pub(crate) fn room(&self) -> Room {
        self.room.clone()
    }

    /// The next connection, once there is room for one. Cancel-safe.
    pub(crate) async fn accept(&mut self) -> Connection {
        let taken = self.room.take().await;
        let mut connection = self.accept_beyond_cap().await;
        connection.keep(taken);
        connection
    }

    /// The next connection, without a place among those that are served. Accept errors are waited out here: most of
    /// them are about one connection, the others pass. Cancel-safe: a connection that was taken is returned at once.
    pub(crate) async fn accept_beyond_cap(&mut self) -> Connection {
        loop {
            match self.listener.accept().await {
                Ok((stream, remote)) => {
                    self.wait = BACK_OFF.0;
                    let remote = SocketAddr::new(remote.ip().to_canonical(), remote.port());
                    if let Err(error) = set_options(&stream) {
                        debug!(error = %Chain(&error), peer = %remote, "a socket took no options");
                    }
                    let stopping = self.stopping.clone();
                    let unspoken = async move {
                        drop(tokio::time::timeout(SPEAK_WITHIN, stopping.cancelled()).await);
                    };
                    return Connection {
                        stream,
                        remote,
                        missing: PREFACE,
                        patience: Box::pin(unspoken),
                        heard: false,
                        cut: Box::pin(self.cut.clone().cancelled_owned()),
                        taken: None,
                    };
                }
                Err(error) if is_about_one_connection(&error) => {
                    debug!(error = %Chain(&error), "a connection was gone before it was accepted");
                }
                Err(error) => {
                    // Kept outside, so that whoever drops this future and comes again does not begin anew.
                    let wait = self.wait;
                    self.wait = (wait * 2).min(BACK_OFF.1);
                    self.complain(&error, wait);
                    self.turn_one_away().await;
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }

    fn complain(&self, error: &io::Error, wait: Duration) {
        if let Some(unsaid) = self.hush.may_say(self.address.ip(), "accept") {
            warn!(error = %Chain(error), wait_ms = wait.as_millis(), unsaid, "cannot accept connections");
        }
    }

    /// Out of file descriptors: takes the waiting connection with the spare one and closes it, so that its client
    /// hears a no.
    async fn turn_one_away(&mut self) {
        if self.spare.take().is_some() {
            let first = tokio::time::timeout(Duration::from_millis(1), self.listener.accept()).await;
            drop(first);
        }
        self.spare = spare();
    }
}

/// Errors that say nothing about the next connection.
fn is_about_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionRefused
    )
}

fn spare() -> Option<File> {
    File::open("/dev/null").ok()
}

fn set_options(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE_EVERY)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE_PATIENCE)?;
    sockopt::set_tcp_keepcnt(stream, 3)?;
    Ok(())
}

/// An accepted connection. It gives its room back when it is dropped.
pub(crate) struct Connection {
    stream: TcpStream,
    remote: SocketAddr,
    /// What is missing of a preface, in bytes.
    missing: usize,
    /// How long silence is borne: while the preface is missing, until that took too long or the server stops; then,
    /// for another while after each in which something was heard.
    patience: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Whether anything was heard since this patience began.
    heard: bool,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
    taken: Option<Taken>,
}

impl Connection {
    /// The address of the other end.
    pub(crate) fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// It has this place until it ends.
    pub(crate) fn keep(&mut self, taken: Option<Taken>) {
        self.taken = taken;
    }

    /// What the other end said first, as far as it is there; it stays to be read.
    ///
    /// # Errors
    /// If the other end went away instead.
    pub(crate) async fn first_bytes(&mut self) -> io::Result<Vec<u8>> {
        let mut first = vec![0; PREFACE];
        let length = self.stream.peek(&mut first).await?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        first.truncate(length);
        Ok(first)
    }

    /// A handshake is over: what it took was no preface, and that has its time from now on.
    pub(crate) fn expect_preface(&mut self) {
        self.missing = PREFACE;
        self.patience = Box::pin(tokio::time::sleep(SPEAK_WITHIN));
    }

    /// An error once the connection is to end.
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        while self.patience.as_mut().poll(context).is_ready() {
            if self.missing > 0 || !std::mem::take(&mut self.heard) {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            self.patience = Box::pin(tokio::time::sleep(QUIET));
        }
        if self.cut.as_mut().poll(context).is_ready() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(())
    }

    fn hear(&mut self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        if self.missing > 0 {
            self.missing = self.missing.saturating_sub(bytes);
            if self.missing == 0 {
                self.patience = Box::pin(tokio::time::sleep(QUIET));
            }
        }
        self.heard = true;
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let bytes = buffer.filled().len() - before;
        self.hear(bytes);
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write(context, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write_vectored(context, data)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// What one connection may have open.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Streams {
    /// At once.
    pub(crate) most: u32,
    /// Bytes that nobody has read yet, of one stream and of all together. None: hyper's own windows, of which one stream
    /// fills both: it then stops the others of its connection.
    pub(crate) windows: Option<(u32, u32)>,
}

/// A transport with these limits and those of every connection.
pub(crate) fn limited(streams: Streams) -> transport::Server {
    let (of_stream, of_connection) = streams.windows.unzip();
    transport::Server::builder()
        .max_concurrent_streams(streams.most)
        .initial_stream_window_size(of_stream)
        .initial_connection_window_size(of_connection)
        .http2_max_local_error_reset_streams(Some(LOCAL_ERROR_RESETS))
        .http2_keepalive_interval(Some(KEEPALIVE_EVERY))
        .http2_keepalive_timeout(Some(KEEPALIVE_PATIENCE))
        .http2_max_header_list_size(MOST_HEADERS)
}

/// Serves gRPC, so many streams at once on each connection, until the shutdown: then no connection is accepted any more, and open calls have 8 s to end before
/// their connections are cut.
///
/// # Errors
/// If the transport gives up before.
pub(crate) async fn serve(
    incoming: Incoming,
    secure: impl FnOnce(Incoming) -> Acceptor,
    (routes, streams): (Routes, Streams),
    (gate, auth, elsewhere): (GateLayer, AuthLayer, ElsewhereLayer),
    shutdown: CancellationToken,
) -> Result<(), Error> {
    let incoming = incoming.until(shutdown.clone());
    let cut = incoming.cut.clone();
    let acceptor = secure(incoming);
    let server = limited(streams)
        .trace_fn(|request| debug_span!("rpc", method = request.uri().path()))
        .layer(gate)
        .layer(auth)
        .layer(elsewhere)
        .serve_with_incoming_shutdown(
            routes.prepare(),
            connections(acceptor),
            shutdown.clone().cancelled_owned(),
        );
    let mut server = std::pin::pin!(server);
    let patience = async {
        shutdown.cancelled().await;
        tokio::time::sleep(DRAIN).await;
    };
    // Cancel-safe: the server goes on below if its time is over first.
    tokio::select! {
        served = &mut server => return served.map_err(Error::Serve),
        () = patience => {}
    }
    warn!(drain_s = DRAIN.as_secs(), "open calls did not end in time; their connections are cut");
    cut.cancel();
    server.await.map_err(Error::Serve)
}

fn connections(acceptor: Acceptor) -> impl Stream<Item = Result<Served, Infallible>> {
    stream::unfold(acceptor, |mut acceptor| async move {
        let connection = acceptor.accept().await;
        Some((Ok(connection), acceptor))
    })
}

impl axum::serve::Listener for Incoming {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let connection = Self::accept(self).await;
        let remote = connection.remote;
        (connection, remote)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}
