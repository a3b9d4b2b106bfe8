//! The handshakes in front of gRPC: a connection is served once its client has shown a certificate of our authority.
//!
//! Responsible for how many handshakes and connections there are, together and by address, for how long a handshake may
//! take, and for certificates that are replaced while the server runs. Not responsible for what a holder may do
//! (`rpc/auth.rs`), or for sockets (`listener.rs`). Invariant: whoever does not end its handshake costs others nothing
//! but one of its own places, for 5 s.

use std::{
    collections::BTreeMap,
    io,
    net::IpAddr,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use rustls::ServerConfig;
use tenure_tls::Certificate;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::watch,
    task::JoinSet,
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tonic::transport::server::Connected;
use tracing::{debug, info};

use crate::{
    access::Rules,
    chain::Chain,
    config::Limits,
    listener::{Connection, Incoming},
};

/// A handshake that takes longer is cut off.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(5);

/// Handshakes at once. More connections wait in the kernel's backlog.
const MOST_HANDSHAKES: usize = 256;

/// Who is at the other end of a connection; for the layer that judges calls.
#[derive(Debug, Clone)]
pub(crate) enum Peer {
    /// Anybody who can reach the port: there is no TLS.
    Anybody,
    /// The holder of a certificate of our authority.
    Holder(Arc<Certificate>),
}

/// Takes connections, and serves them once they are known.
#[derive(Debug)]
pub(crate) struct Acceptor {
    incoming: Incoming,
    rules: watch::Receiver<Arc<Rules>>,
    handshakes: JoinSet<Option<Served>>,
    connections: Arc<PerAddress>,
    under_way: Arc<PerAddress>,
}

impl Acceptor {
    pub(crate) fn new(incoming: Incoming, rules: watch::Receiver<Arc<Rules>>, limits: &Limits) -> Self {
        Self {
            incoming,
            rules,
            handshakes: JoinSet::new(),
            connections: Arc::new(PerAddress::new(limits.max_connections_per_ip)),
            under_way: Arc::new(PerAddress::new(limits.max_handshakes_per_ip)),
        }
    }

    /// The next connection that is to be served. Cancel-safe: a handshake goes on.
    pub(crate) async fn accept(&mut self) -> Served {
        enum Input {
            Ended(Option<Served>),
            Accepted(Connection),
        }
        loop {
            let input = tokio::select! {
                // Cancel-safe: nothing is taken from the set before it is ready.
                Some(ended) = self.handshakes.join_next() => Input::Ended(ended.ok().flatten()),
                // Cancel-safe: a connection that was taken is returned at once.
                connection = self.incoming.accept(), if self.handshakes.len() < MOST_HANDSHAKES => {
                    Input::Accepted(connection)
                }
            };
            match input {
                Input::Ended(Some(served)) => return served,
                Input::Ended(None) => {}
                Input::Accepted(connection) => {
                    let settings = self.rules.borrow().tls.clone();
                    let Some(settings) = settings else { return Served::plain(connection) };
                    self.begin(connection, settings);
                }
            }
        }
    }

    fn begin(&mut self, connection: Connection, settings: Arc<ServerConfig>) {
        let Some(address) = connection.peer() else { return };
        let places = (self.connections.take(address), self.under_way.take(address));
        let (Some(place), Some(under_way)) = places else {
            debug!(%address, "a connection was closed: its address has too many");
            return;
        };
        self.handshakes.spawn(async move {
            let served = handshake(connection, settings, place).await;
            drop(under_way);
            served
        });
    }
}

async fn handshake(connection: Connection, settings: Arc<ServerConfig>, place: Place) -> Option<Served> {
    let address = place.address;
    let mut stream = match timeout(HANDSHAKE_WITHIN, TlsAcceptor::from(settings).accept(connection)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            info!(%address, error = %Chain(&error), "a TLS handshake failed");
            return None;
        }
        Err(_) => {
            debug!(%address, "a TLS handshake did not end in time");
            return None;
        }
    };
    let (connection, session) = stream.get_mut();
    connection.expect_preface();
    // Absent only if it is malformed, though its chain was verified.
    let certificate = Arc::new(tenure_tls::server::peer(session)?);
    Some(Served(Way::Tls { stream: Box::new(stream), certificate, _place: place }))
}

/// A connection that is served.
pub(crate) struct Served(Way);

enum Way {
    Plain(Connection),
    Tls { stream: Box<TlsStream<Connection>>, certificate: Arc<Certificate>, _place: Place },
}

impl Served {
    fn plain(connection: Connection) -> Self {
        Self(Way::Plain(connection))
    }
}

impl Connected for Served {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        match &self.0 {
            Way::Plain(_) => Peer::Anybody,
            Way::Tls { certificate, .. } => Peer::Holder(Arc::clone(certificate)),
        }
    }
}

/// Calls one method of whichever stream it is.
macro_rules! either {
    ($served:expr, $method:ident $(, $argument:expr)*) => {
        match &mut $served.get_mut().0 {
            Way::Plain(stream) => Pin::new(stream).$method($($argument),*),
            Way::Tls { stream, .. } => Pin::new(&mut **stream).$method($($argument),*),
        }
    };
}

impl AsyncRead for Served {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        either!(self, poll_read, context, buffer)
    }
}

impl AsyncWrite for Served {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        either!(self, poll_write, context, data)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, poll_flush, context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, poll_shutdown, context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(self, poll_write_vectored, context, data)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.0 {
            Way::Plain(stream) => stream.is_write_vectored(),
            Way::Tls { stream, .. } => stream.is_write_vectored(),
        }
    }
}

/// Counts by address, up to a bound for each.
#[derive(Debug)]
struct PerAddress {
    most: u32,
    taken: Mutex<BTreeMap<IpAddr, u32>>,
}

impl PerAddress {
    fn new(most: u32) -> Self {
        Self { most, taken: Mutex::default() }
    }

    /// A place of this address; none, if it has all of its.
    fn take(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(address).or_default();
        if *count >= self.most {
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
        let mut taken = self.of.taken.lock().unwrap_or_else(PoisonError::into_inner);
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
        let places = Arc::new(PerAddress::new(2));
        let [one, other] = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().unwrap());
        let held = [places.take(one).unwrap(), places.take(one).unwrap()];
        assert!(places.take(one).is_none());
        assert!(places.take(other).is_some());
        drop(held);
        assert!(places.take(one).is_some());
        assert!(places.taken.lock().unwrap().is_empty(), "nothing is kept of addresses that are gone");
    }
}
