//! The way from a server that follows to the one that leads: calls are handed on as they came, and answers as they are.
//!
//! Responsible for one connection to the leader, made anew when another one leads; for how many calls are on their way at
//! once; and for calls whose leader is gone, which are answered NOT_LEADER instead of left hanging. Not responsible for
//! which calls are handed on (`rpc/elsewhere.rs`), nor for judging them: this server did so before, and the leader does
//! it again, by the caller that `told` names.
//!
//! Invariants: nothing of a message is decoded or kept here; a call is handed on once; an answer that has begun ends
//! with a status, whatever becomes of the leader.

mod body;
mod connect;
pub(crate) mod told;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use http::{Request, Response, header::HOST};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tonic::{
    body::Body,
    transport::{self, Channel, Endpoint},
};
use tower::{Service as _, ServiceExt as _};

use self::connect::PeerConnector;
use crate::{
    access::Rules,
    chain::Chain,
    clock::Clock,
    hush::Hush,
    leadership::{Leader, Standings},
    listener::Streams,
    metrics::Metrics,
    rpc::status::No,
};

/// Calls of one answer that are on their way at once. Beyond: SERVER_BUSY.
const MOST_CALLS: usize = 1024;

/// Calls that go on for long, watches, waits and streams of bytes, at once. Beyond: SERVER_BUSY.
const MOST_LONG: usize = 2048;

/// What the leader takes on one connection of another server: streams for all of the above, and a few that are ending; and of
/// requests that it does not read the same as waits here of answers.
pub(crate) const STREAMS: Streams = Streams { most: 4096, windows: Some((STREAM_WINDOW, CONNECTION_WINDOW)) };

/// Connections of other servers: a fleet has few.
pub(crate) const MOST_CONNECTIONS: u32 = 64;

/// Bytes of one answer that wait here for a client that does not read them, or of one request at the leader.
const STREAM_WINDOW: u32 = 64 * 1024;

/// The same of all together: so many that no slow client, and no upload that waits for object storage, ever stops the others.
const CONNECTION_WINDOW: u32 = 256 * 1024 * 1024;

/// A leader that takes no connection within this is gone.
const CONNECT_WITHIN: Duration = Duration::from_secs(1);

/// Between two pings; without an answer to one for the second, the connection is gone.
const PING: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(3));

/// The way to the leader. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Peers(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    standings: Standings,
    rules: watch::Receiver<Arc<Rules>>,
    metrics: Arc<Metrics>,
    hush: Hush,
    /// To whom, and the connection, which heals by itself. None: nobody was asked yet.
    link: Mutex<Option<(Leader, Channel)>>,
    calls: Arc<Semaphore>,
    long: Arc<Semaphore>,
}

/// How long a call lasts by design.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lasts {
    /// As long as its answer takes.
    Briefly,
    /// As long as the caller likes.
    Long,
}

/// Why a call was not answered by the leader.
#[derive(Debug)]
pub(crate) enum Failed {
    /// It was not sent, and another try would be one too many.
    Busy,
    /// The leader is gone, or was never there. Whether it carried the call out is not known.
    Gone(Gone),
}

/// Why a leader that is known does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gone {
    /// There is no connection to where it serves servers.
    Unreachable,
    /// There is somebody, with whom there is no TLS, or who is no server of this fleet.
    NotTrusted,
    /// The connection broke with the call on it.
    Broken,
    /// It was deposed or resigned meanwhile.
    LeadsNoMore,
}

impl Gone {
    /// What an error of the transport means.
    fn by(error: &(dyn std::error::Error + 'static)) -> Self {
        let causes = || std::iter::successors(Some(error), |&cause| cause.source());
        let distrusted =
            causes().filter_map(|cause| cause.downcast_ref::<connect::Error>()).any(|cause| match cause {
                connect::Error::Tls(error) => error.is_lasting(),
                connect::Error::NoServer { .. } => true,
            });
        if distrusted {
            Self::NotTrusted
        } else if causes().any(|cause| cause.is::<tonic::ConnectError>()) {
            Self::Unreachable
        } else {
            Self::Broken
        }
    }

    /// As a part of a sentence about the leader.
    pub(crate) fn sentence(self) -> &'static str {
        match self {
            Self::Unreachable => "cannot be connected to from here",
            Self::NotTrusted => "shows no certificate of a server of this fleet",
            Self::Broken => "broke the connection",
            Self::LeadsNoMore => "leads no more",
        }
    }

    /// For programs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::NotTrusted => "not_trusted",
            Self::Broken => "broken",
            Self::LeadsNoMore => "leads_no_more",
        }
    }
}

impl Peers {
    pub(crate) fn new(
        standings: Standings,
        rules: watch::Receiver<Arc<Rules>>,
        metrics: Arc<Metrics>,
        clock: Clock,
    ) -> Self {
        let (calls, long) = (Arc::new(Semaphore::new(MOST_CALLS)), Arc::new(Semaphore::new(MOST_LONG)));
        let (hush, link) = (Hush::new(clock), Mutex::default());
        Self(Arc::new(Shared { standings, rules, metrics, hush, link, calls, long }))
    }

    /// Hands a call on to this leader, and its answer back.
    ///
    /// # Errors
    /// See [`Failed`].
    pub(crate) async fn hand_on(
        &self,
        leader: &Leader,
        request: Request<Body>,
        lasts: Lasts,
    ) -> Result<Response<Body>, Failed> {
        let answered = self.ask(leader, request, lasts).await;
        self.0.metrics.observe_handed_on(match &answered {
            Ok(_) => "answered",
            Err(Failed::Gone(_)) => "gone",
            Err(Failed::Busy) => "busy",
        });
        answered
    }

    async fn ask(
        &self,
        leader: &Leader,
        mut request: Request<Body>,
        lasts: Lasts,
    ) -> Result<Response<Body>, Failed> {
        let place = self.place(lasts).ok_or(Failed::Busy)?;
        let channel = self.channel(leader).ok_or(Failed::Gone(Gone::Unreachable))?;
        // Of the connection that it came by.
        request.headers_mut().remove(HOST);
        let answer = async {
            let mut channel = channel;
            channel.ready().await?.call(request).await
        };
        // Cancel-safe: a call that is given up is reset, which the leader hears.
        let answered = tokio::select! {
            biased;
            answered = answer => answered,
            () = leads_no_more(self.0.standings.clone(), leader.clone()) => {
                return Err(Failed::Gone(Gone::LeadsNoMore));
            }
        };
        match answered {
            Ok(response) => {
                let gone = Box::pin(leads_no_more(self.0.standings.clone(), leader.clone()));
                let metrics = Arc::clone(&self.0.metrics);
                Ok(response.map(|inner| body::handed_on(inner, gone, place, metrics)))
            }
            Err(error) => {
                self.complain(leader, &error);
                Err(Failed::Gone(Gone::by(&error)))
            }
        }
    }

    fn place(&self, lasts: Lasts) -> Option<OwnedSemaphorePermit> {
        let of = match lasts {
            Lasts::Briefly => &self.0.calls,
            Lasts::Long => &self.0.long,
        };
        Arc::clone(of).try_acquire_owned().ok()
    }

    /// The connection to this leader: the one that is there, if it is to the same.
    fn channel(&self, leader: &Leader) -> Option<Channel> {
        let mut link = self.0.link.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, channel)) = link.as_ref()
            && known == leader
        {
            return Some(channel.clone());
        }
        let channel = self.connect(leader)?;
        *link = Some((leader.clone(), channel.clone()));
        Some(channel)
    }

    /// A connection that is made with the first call.
    fn connect(&self, leader: &Leader) -> Option<Channel> {
        let address = leader.peer_addr.as_ref()?;
        let tls = self.0.rules.borrow().peers();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let endpoint = Endpoint::from_shared(format!("{scheme}://{address}")).ok()?;
        let endpoint = endpoint
            .connect_timeout(CONNECT_WITHIN)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(PING.0)
            .keep_alive_timeout(PING.1)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW);
        Some(match tls {
            Some((files, domain)) => {
                let connector = PeerConnector::new(files, domain)
                    .map_err(|error| tracing::warn!(error = %Chain(&error), "no TLS with the leader"));
                endpoint.connect_with_connector_lazy(connector.ok()?)
            }
            None => endpoint.connect_lazy(),
        })
    }

    fn complain(&self, leader: &Leader, error: &transport::Error) {
        let nowhere = std::net::IpAddr::from([0, 0, 0, 0]);
        if let Some(unsaid) = self.0.hush.may_say(nowhere, "peer") {
            let address = leader.peer_addr.as_deref().unwrap_or_default();
            tracing::warn!(leader = address, error = %Chain(error), unsaid, "a call could not be handed on to the leader");
        }
    }
}

/// Returns once somebody else leads than this one, or nobody does. Cancel-safe.
async fn leads_no_more(mut standings: Standings, leader: Leader) {
    let another = |now: &crate::leadership::Standing| now.leader() != Some(&leader);
    if standings.wait_for(another).await.is_err() {
        // The server ends: its listener has a deadline of its own for what is still open.
        std::future::pending::<()>().await;
    }
}

/// What is told to who was cut off: the same call again finds the next leader.
pub(crate) fn gone() -> No {
    No::not_leader(None)
}

#[cfg(test)]
mod tests;
