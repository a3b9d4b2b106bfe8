//! Calls to a server that does not lead: they are handed on to the leader, and where there is none to be reached, answered
//! from the rows or with NOT_LEADER and the leader's address.
//!
//! Responsible for which methods any server answers by itself, which are handed on, and which may be answered by a reader
//! of rows. Not for who may call (`auth`, which comes before), nor for the way to the leader (`peers`).
//! Of a session agents are told where the leader is: it is the leader's alone.
//! Invariants: no service sees a call while this server does not lead, but for the methods named here; so none answers
//! from an empty memory as if it were the leader's. A call that was handed on once is not handed on again.

use std::{
    collections::BTreeSet,
    future::{Ready, ready},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::future::Either;
use http::{HeaderName, HeaderValue, Request, Response};
use http_body::Body as _;
use tonic::{Status, body::Body};
use tonic_types::StatusExt as _;
use tower::{Layer, Service};

use super::{
    auth::{PUSH_LOG, SESSION},
    gate::{Asked, Methods},
    status::No,
};
use crate::{
    handle::{Handle, SubmitError},
    leadership::Leader,
    metrics::Metrics,
    peers::{
        Failed, Lasts, Peers,
        told::{self, CALLER},
    },
    tls::Peer,
};

/// Methods about this server, not about the fleet.
const OWN: [&str; 1] = ["/tenure.v1.AdminService/GetServerInfo"];

/// Methods of nodes that are the leader's alone, and where agents follow it themselves.
const LEADERS: [&str; 2] = [SESSION, PUSH_LOG];

/// Methods that read rows: while no leader is to be reached, any server answers them.
const READS: [&str; 10] = [
    "/tenure.v1.JobService/GetJob",
    "/tenure.v1.JobService/ListJobs",
    "/tenure.v1.JobService/ListAttempts",
    "/tenure.v1.JobService/GetResult",
    "/tenure.v1.JobService/ReadResult",
    "/tenure.v1.AdminService/CheckInvariants",
    "/tenure.v1.WorkflowService/GetWorkflow",
    "/tenure.v1.WorkflowService/ListWorkflows",
    "/tenure.v1.InboxService/GetInbox",
    "/tenure.v1.InboxService/ListInboxRefusals",
];

/// Lasts for minutes, though it has one answer.
const WAIT: &str = "/tenure.v1.JobService/WaitJob";

/// A request to read rows is kept until the leader has answered; a larger one is not.
const MOST_KEPT: usize = 64 * 1024;

/// Of an answer that was made from rows alone, by a server that does not lead.
const READ_FROM: HeaderName = HeaderName::from_static("tenure-read-from");
const ROWS: HeaderValue = HeaderValue::from_static("rows");

/// Puts [`Elsewhere`] around a service.
#[derive(Debug, Clone)]
pub(crate) struct ElsewhereLayer {
    handle: Handle,
    metrics: Arc<Metrics>,
    /// Methods whose requests or answers may go on for long.
    long: Arc<BTreeSet<String>>,
    /// None on the listener for servers: what comes from there is not handed on.
    peers: Option<Peers>,
}

/// Where a call is answered.
enum Place {
    /// By the services of this server.
    Here,
    /// The same, from rows.
    Rows,
    /// By the leader.
    There(Leader),
    /// Nowhere.
    No(No),
}

type Answer<E> = Pin<Box<dyn Future<Output = Result<Response<Body>, E>> + Send>>;

impl ElsewhereLayer {
    pub(crate) fn new(handle: Handle, metrics: Arc<Metrics>, methods: &Methods, peers: Peers) -> Self {
        let long = methods
            .iter()
            .filter(|(path, method)| method.answers_on || method.asked == Asked::Streaming || *path == WAIT);
        let long = Arc::new(long.map(|(path, _)| path.clone()).collect());
        Self { handle, metrics, long, peers: Some(peers) }
    }

    /// The same for the listener to which other servers hand calls on.
    pub(crate) fn of_servers(&self) -> Self {
        Self { peers: None, ..self.clone() }
    }

    fn place(&self, request: &Request<Body>) -> Place {
        let path = request.uri().path();
        let ours = path.starts_with("/tenure.");
        if self.peers.is_none() {
            // Nothing else is ever handed on.
            let handed_on = ours && !LEADERS.contains(&path) && !OWN.contains(&path);
            return match self.handle.standing().leads() {
                _ if !handed_on => {
                    Place::No(No::not_allowed(format!("{path} is not handed on between servers")))
                }
                true => Place::Here,
                false => Place::No(self.elsewhere()),
            };
        }
        let standing = self.handle.standing();
        // Health and reflection of gRPC are each server's own, too.
        if !ours || OWN.contains(&path) || standing.leads() {
            return Place::Here;
        }
        if self.handle.is_ending() {
            return Place::No(self.elsewhere());
        }
        let leader = standing.leader().cloned();
        let again = request.headers().contains_key(CALLER);
        match leader.filter(|leader| leader.peer_addr.is_some() && !again && !LEADERS.contains(&path)) {
            Some(leader) => Place::There(leader),
            None if READS.contains(&path) => Place::Rows,
            None => Place::No(self.elsewhere()),
        }
    }

    fn elsewhere(&self) -> No {
        self.handle.elsewhere().into()
    }

    fn refuse(&self, no: No) -> Response<Body> {
        self.metrics.observe_refusal(no.reason());
        no.into_status().into_http()
    }

    /// Hands a call on, and answers it here if that fails.
    async fn hand_on<S>(
        self,
        mut here: S,
        leader: Leader,
        request: Request<Body>,
    ) -> Result<Response<Body>, S::Error>
    where
        S: Service<Request<Body>, Response = Response<Body>>,
    {
        let path = request.uri().path().to_owned();
        let (request, again) =
            if READS.contains(&path.as_str()) { kept(request).await } else { (request, None) };
        let there = self.there(&leader, request, &path).await;
        let nobody = there.as_ref().map_or_else(|no| no.reason() == NOT_LEADER, leads_not);
        match (there, again) {
            // There was no leader to answer, and reading twice does no harm.
            (_, Some(again)) if nobody => here.call(again).await.map(from_rows),
            (Ok(response), _) => Ok(response),
            (Err(no), _) => Ok(self.refuse(no)),
        }
    }

    async fn there(
        &self,
        leader: &Leader,
        mut request: Request<Body>,
        path: &str,
    ) -> Result<Response<Body>, No> {
        let Some(peers) = &self.peers else { return Err(self.elsewhere()) };
        let caller = request.extensions().get::<Peer>().cloned();
        if !caller.is_some_and(|caller| told::write(&caller, request.headers_mut())) {
            return Err(No::internal());
        }
        let lasts = if self.long.contains(path) { Lasts::Long } else { Lasts::Briefly };
        peers.hand_on(leader, request, lasts).await.map_err(|failed| match failed {
            Failed::Busy => SubmitError::busy().into(),
            Failed::Gone(why) => self.elsewhere().because(why),
        })
    }
}

/// The reason of a no that another server, or the same one later, does not say.
const NOT_LEADER: &str = "NOT_LEADER";

/// Whether the one who was asked says that it does not lead.
fn leads_not(response: &Response<Body>) -> bool {
    let status = Status::from_header_map(response.headers());
    let info = status.and_then(|status| status.get_details_error_info());
    info.is_some_and(|info| info.reason == NOT_LEADER)
}

/// A request, and the same again, if it is small and whole.
async fn kept(request: Request<Body>) -> (Request<Body>, Option<Request<Body>>) {
    let (parts, mut body) = request.into_parts();
    let mut read = Vec::new();
    loop {
        let frame = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
        match frame.map(|frame| frame.map(http_body::Frame::into_data)) {
            Some(Ok(Ok(data))) if read.len() + data.len() <= MOST_KEPT => read.extend_from_slice(&data),
            None => break,
            // Trailers, too much, or an error.
            Some(Ok(Ok(data))) => {
                read.extend_from_slice(&data);
                return (Request::from_parts(parts, rejoined(read, body)), None);
            }
            Some(Ok(Err(_))) => break,
            Some(Err(status)) => {
                let broken = futures_util::stream::once(ready(Err::<Bytes, _>(status)));
                return (Request::from_parts(parts, Body::new(axum::body::Body::from_stream(broken))), None);
            }
        }
    }
    let read = Bytes::from(read);
    let whole = || Body::new(axum::body::Body::from(read.clone()));
    (Request::from_parts(parts.clone(), whole()), Some(Request::from_parts(parts, whole())))
}

/// A body of which a part was read.
fn rejoined(read: Vec<u8>, rest: Body) -> Body {
    use futures_util::StreamExt as _;
    let first = futures_util::stream::once(ready(Ok::<_, axum::Error>(Bytes::from(read))));
    let rest = axum::body::Body::new(rest).into_data_stream();
    Body::new(axum::body::Body::from_stream(first.chain(rest)))
}

/// Says of an answer that it was made from rows.
fn from_rows(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(READ_FROM, ROWS);
    response
}

impl<S> Layer<S> for ElsewhereLayer {
    type Service = Elsewhere<S>;

    fn layer(&self, inner: S) -> Elsewhere<S> {
        Elsewhere { inner, layer: self.clone() }
    }
}

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Elsewhere<S> {
    inner: S,
    layer: ElsewhereLayer,
}

impl<S> Service<Request<Body>> for Elsewhere<S>
where
    S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Either<Either<Ready<Result<Response<Body>, S::Error>>, S::Future>, Answer<S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let place = self.layer.place(&request);
        // Whatever a client wrote there: it means nothing but on the listener for servers, which has read it.
        request.headers_mut().remove(CALLER);
        match place {
            Place::Here => Either::Left(Either::Right(self.inner.call(request))),
            Place::No(no) => Either::Left(Either::Left(ready(Ok(self.layer.refuse(no))))),
            Place::Rows => {
                let answer = self.inner.call(request);
                Either::Right(Box::pin(async { answer.await.map(from_rows) }))
            }
            Place::There(leader) => {
                // The one that is ready, and another for the next call.
                let another = self.inner.clone();
                let here = std::mem::replace(&mut self.inner, another);
                Either::Right(Box::pin(self.layer.clone().hand_on(here, leader, request)))
            }
        }
    }
}
