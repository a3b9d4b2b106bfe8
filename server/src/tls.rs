//! The handshakes in front of gRPC: a connection is served once its client has shown a certificate of our authority.
//!
//! Responsible for how many handshakes and connections there are, together and by address, for how long a handshake may
//! take, for saying why one failed, and for certificates that are replaced while the server runs. Not responsible for
//! what a holder may do (`rpc/auth.rs`), or for sockets (`listener.rs`). Invariant: whoever does not end its handshake
//! costs others nothing but one of its own places, for 5 s; when all places are taken, whoever has the most of them
//! gives up its oldest, so that a new client still gets in.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use rustls::ServerConfig;
use tenure_tls::{Certificate, Failure};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::watch,
    task::{AbortHandle, Id, JoinSet},
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tonic::transport::server::Connected;
use tracing::{debug, info};

use crate::{
    access::{Nobody, Rules},
    chain::Chain,
    clock::Clock,
    hush::Hush,
    listener::{Connection, Incoming, Taken},
    metrics::Metrics,
};

mod plain;

/// A handshake that takes longer is cut off.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(5);

/// Handshakes at once.
const MOST_HANDSHAKES: usize = 256;

/// Who is at the other end of a connection; for the layer that judges calls.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    /// Where it calls from.
    pub(crate) address: SocketAddr,
    /// A certificate of our authority. None: there is no TLS, and it may be anybody who can reach the port.
    pub(crate) certificate: Option<Arc<Certificate>>,
}

/// Takes connections, and serves them once they are known.
#[derive(Debug)]
pub(crate) struct Acceptor {
    incoming: Incoming,
    handshakes: JoinSet<Option<Served>>,
    /// In the order in which they began.
    begun: Vec<Begun>,
    shared: Arc<Shared>,
}

/// A handshake that is under way.
#[derive(Debug)]
struct Begun {
    id: Id,
    remote: SocketAddr,
    abort: AbortHandle,
}

/// What every handshake looks at.
#[derive(Debug)]
struct Shared {
    rules: watch::Receiver<Arc<Rules>>,
    metrics: Arc<Metrics>,
    hush: Hush,
    connections: Arc<PerAddress>,
    under_way: Arc<PerAddress>,
}

impl Acceptor {
    pub(crate) fn new(
        incoming: Incoming,
        rules: watch::Receiver<Arc<Rules>>,
        metrics: Arc<Metrics>,
        clock: Clock,
    ) -> Self {
        let (hush, connections, under_way) = (Hush::new(clock), Arc::default(), Arc::default());
        let shared = Arc::new(Shared { rules, metrics, hush, connections, under_way });
        Self { incoming, handshakes: JoinSet::new(), begun: Vec::new(), shared }
    }

    /// The next connection that is to be served. Cancel-safe: a handshake goes on.
    pub(crate) async fn accept(&mut self) -> Served {
        enum Input {
            Ended(Id, Option<Served>),
            Accepted(Connection),
        }
        if self.shared.settings().is_none() {
            let connection = self.incoming.accept().await;
            return Served(Way::Plain { connection, unheard: Some(Arc::clone(&self.shared)) });
        }
        loop {
            let input = tokio::select! {
                biased;
                // Cancel-safe: nothing is taken from the set before it is ready.
                Some(ended) = self.handshakes.join_next_with_id() => match ended {
                    Ok((id, served)) => Input::Ended(id, served),
                    Err(displaced) => Input::Ended(displaced.id(), None),
                },
                // Cancel-safe: a connection that was taken is returned at once.
                connection = self.incoming.accept_beyond_cap() => Input::Accepted(connection),
            };
            match input {
                Input::Ended(id, served) => {
                    self.begun.retain(|begun| begun.id != id);
                    if let Some(served) = served {
                        return served;
                    }
                }
                Input::Accepted(connection) => self.begin(connection),
            }
        }
    }

    fn begin(&mut self, connection: Connection) {
        let remote = connection.remote();
        let (limits, address) = (self.shared.rules.borrow().limits, remote.ip());
        let places = (
            self.shared.connections.take(address, limits.max_connections_per_ip),
            self.shared.under_way.take(address, limits.max_handshakes_per_ip),
        );
        let (Some(place), Some(under_way)) = places else {
            return self.shared.failed(remote, Failure::TooMany, None);
        };
        if self.begun.len() >= MOST_HANDSHAKES {
            self.displace();
        }
        let (shared, room) = (Arc::clone(&self.shared), self.incoming.room());
        let abort = self.handshakes.spawn(async move {
            let shaken = timeout(HANDSHAKE_WITHIN, async {
                let served = shared.handshake(connection, place).await?;
                // An honest client waits for a place among the connections, as it would in the backlog.
                Ok::<_, Failed>(served.in_room(room.take().await))
            });
            let served = match shaken.await {
                Ok(Ok(served)) => Some(served),
                Ok(Err(Failed(failure, error))) => {
                    shared.failed(remote, failure, error.as_ref());
                    None
                }
                Err(_) => {
                    shared.failed(remote, Failure::TimedOut, None);
                    None
                }
            };
            drop(under_way);
            served
        });
        self.begun.push(Begun { id: abort.id(), remote, abort });
    }

    /// Ends the oldest handshake of the address that has the most.
    fn displace(&mut self) {
        let mut counts = BTreeMap::<IpAddr, u32>::new();
        for begun in &self.begun {
            *counts.entry(begun.remote.ip()).or_default() += 1;
        }
        let of = |begun: &Begun| counts.get(&begun.remote.ip()).copied().unwrap_or_default();
        let victim = (0..).zip(&self.begun).max_by_key(|&(at, begun)| (of(begun), Reverse(at)));
        if let Some((at, _)) = victim {
            let begun: Begun = self.begun.remove(at);
            begun.abort.abort();
            self.shared.failed(begun.remote, Failure::Displaced, None);
        }
    }
}

/// Why a handshake failed, and what TLS calls it.
struct Failed(Failure, Option<io::Error>);

impl Shared {
    fn settings(&self) -> Option<Arc<ServerConfig>> {
        self.rules.borrow().tls.clone()
    }

    async fn handshake(&self, mut connection: Connection, place: Place) -> Result<Served, Failed> {
        let (remote, settings) = (connection.remote(), self.settings());
        let gone = |error| Failed(Failure::Gone, Some(error));
        let first = connection.first_bytes().await.map_err(gone)?;
        let Some(settings) = settings.filter(|_| plain::is_tls(&first)) else {
            plain::turn_away(connection, &first).await;
            return Err(Failed(Failure::NotTls, None));
        };
        let shaken = TlsAcceptor::from(settings).accept(connection).await;
        let mut stream = shaken.map_err(|error| Failed(Failure::of(&error), Some(error)))?;
        let (connection, session) = stream.get_mut();
        connection.expect_preface();
        // Absent only if it is malformed, though its chain was verified.
        let certificate = tenure_tls::server::peer(session).ok_or(Failed(Failure::BadCertificate, None))?;
        if let Err(Nobody::Unknown(why) | Nobody::Denied(why)) = self.rules.borrow().holder(&certificate)
            && let Some(unsaid) = self.hush.may_say(remote.ip(), "nobody")
        {
            info!(peer = %remote, reason = why, unsaid, "a client counts for nobody: its calls will be refused");
        }
        let certificate = Arc::new(certificate);
        Ok(Served(Way::Tls { stream: Box::new(stream), certificate, _place: place }))
    }

    /// Counts a failure and says it: its peer can do so too, but only what TLS lets it know.
    fn failed(&self, peer: SocketAddr, failure: Failure, error: Option<&io::Error>) {
        self.metrics.observe_handshake(failure);
        let Some(unsaid) = self.hush.may_say(peer.ip(), failure.name()) else { return };
        let (reason, words) = (failure.name(), failure.words());
        let error = error.map(|error| Chain(error).to_string());
        // A port that something looks at is no news.
        if failure == Failure::Gone {
            debug!(%peer, reason, error, unsaid, "no TLS with a client: {words}");
        } else {
            info!(%peer, reason, error, unsaid, "no TLS with a client: {words}");
        }
    }
}

/// A connection that is served.
pub(crate) struct Served(Way);

enum Way {
    /// Until the first bytes are heard, somebody waits to say what is wrong with them.
    Plain {
        connection: Connection,
        unheard: Option<Arc<Shared>>,
    },
    Tls {
        stream: Box<TlsStream<Connection>>,
        certificate: Arc<Certificate>,
        _place: Place,
    },
}

impl Served {
    /// It has its place among the connections from now on.
    fn in_room(mut self, room: Option<Taken>) -> Self {
        match &mut self.0 {
            Way::Plain { connection, .. } => connection.keep(room),
            Way::Tls { stream, .. } => stream.get_mut().0.keep(room),
        }
        self
    }
}

impl Connected for Served {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        match &self.0 {
            Way::Plain { connection, .. } => Peer { address: connection.remote(), certificate: None },
            Way::Tls { stream, certificate, .. } => {
                Peer { address: stream.get_ref().0.remote(), certificate: Some(Arc::clone(certificate)) }
            }
        }
    }
}

/// Calls one method of whichever stream it is.
macro_rules! either {
    ($served:expr, $method:ident $(, $argument:expr)*) => {
        match &mut $served.as_mut().get_mut().0 {
            Way::Plain { connection, .. } => Pin::new(connection).$method($($argument),*),
            Way::Tls { stream, .. } => Pin::new(&mut **stream).$method($($argument),*),
        }
    };
}

impl AsyncRead for Served {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = either!(self, poll_read, context, buffer);
        if let Way::Plain { connection, unheard } = &mut self.get_mut().0
            && let Some(first) = buffer.filled().get(before..).filter(|first| !first.is_empty())
            && let Some(shared) = unheard.take()
            && plain::is_tls(first)
        {
            shared.failed(connection.remote(), Failure::TlsUnexpected, None);
        }
        read
    }
}

impl AsyncWrite for Served {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        either!(self, poll_write, context, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, poll_flush, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, poll_shutdown, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(self, poll_write_vectored, context, data)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.0 {
            Way::Plain { connection, .. } => connection.is_write_vectored(),
            Way::Tls { stream, .. } => stream.is_write_vectored(),
        }
    }
}

/// Counts by address.
#[derive(Debug, Default)]
struct PerAddress(Mutex<BTreeMap<IpAddr, u32>>);

impl PerAddress {
    /// A place of this address; none, if it has that many.
    fn take(self: &Arc<Self>, address: IpAddr, most: u32) -> Option<Place> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(address).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Place { address, of: Arc::clone(self) })
    }
}

/// A place. It is given back when it is dropped.
#[derive(Debug)]
struct Place {
    address: IpAddr,
    of: Arc<PerAddress>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.of.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.address) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                taken.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_by_address_and_given_back() {
        let places = Arc::new(PerAddress::default());
        let [one, other] = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().unwrap());
        let held = [places.take(one, 2).unwrap(), places.take(one, 2).unwrap()];
        assert!(places.take(one, 2).is_none());
        assert!(places.take(one, 3).is_some(), "the cap is the one in force");
        assert!(places.take(other, 2).is_some());
        drop(held);
        assert!(places.take(one, 2).is_some());
        assert!(places.0.lock().unwrap().is_empty(), "nothing is kept of addresses that are gone");
    }
}
