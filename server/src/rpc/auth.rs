//! The layer that judges every call, unary or streaming: who calls, and whether a holder of that role may.
//!
//! Responsible for the table of roles, for judging the holders of live streams again (`live.rs`), for callers whose calls
//! another server hands on, and for telling handlers who calls. Not responsible for what belongs to whom: a
//! handler asks its [`Caller`] which jobs it sees. Invariants: each method of the descriptors has exactly one row, or the
//! server does not start; a call whose caller is not known reaches no service; only a server is believed to call for
//! somebody else, and only by the listener for servers.

use std::{
    collections::BTreeSet,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::future::{Either, MapOk, Ready, TryFutureExt as _, ready};
use http::{HeaderMap, Request, Response};
use tenure_tls::{Identity, Role};
use tokio::sync::watch;
use tonic::body::Body;
use tower::{Layer, Service};

use super::{gate::Methods, status::No};
use crate::{
    access::{Nobody, Rules},
    clock::Clock,
    hush::Hush,
    metrics::Metrics,
    peers::told,
    tls::Peer,
};

mod caller;
mod live;

pub(crate) use self::caller::Caller;
use self::caller::Holder;

/// It judges its caller again by itself: what has to be told to the driver comes first.
pub(super) const SESSION: &str = "/tenure.node.v1.NodeService/Session";

/// It is opened where its node's session is.
pub(super) const PUSH_LOG: &str = "/tenure.node.v1.NodeService/PushLog";

const ANYBODY: &[Role] = &[Role::Producer, Role::Node, Role::Viewer, Role::Operator, Role::Admin];
const SEES: &[Role] = &[Role::Viewer, Role::Operator, Role::Admin];
const SEES_OWN: &[Role] = &[Role::Producer, Role::Viewer, Role::Operator, Role::Admin];
const DOES_OWN: &[Role] = &[Role::Producer, Role::Operator, Role::Admin];
const OPERATES: &[Role] = &[Role::Operator, Role::Admin];
const NODES: &[Role] = &[Role::Node];

/// Who may call what: one row for each method. What a producer gets of it is its own.
const TABLE: &[(&str, &[Role])] = &[
    ("/tenure.v1.JobService/Enqueue", DOES_OWN),
    ("/tenure.v1.JobService/EnqueueBatch", DOES_OWN),
    ("/tenure.v1.JobService/GetJob", SEES_OWN),
    ("/tenure.v1.JobService/ListJobs", SEES_OWN),
    ("/tenure.v1.JobService/WaitJob", SEES_OWN),
    ("/tenure.v1.JobService/WatchJob", SEES_OWN),
    ("/tenure.v1.JobService/ExplainJob", SEES_OWN),
    ("/tenure.v1.JobService/ListAttempts", SEES_OWN),
    ("/tenure.v1.JobService/GetResult", DOES_OWN),
    ("/tenure.v1.JobService/ReadLog", DOES_OWN),
    ("/tenure.v1.JobService/ReadResult", DOES_OWN),
    ("/tenure.v1.JobService/CancelJob", DOES_OWN),
    ("/tenure.v1.JobService/RequeueJob", DOES_OWN),
    ("/tenure.v1.JobService/ReprioritizeJob", DOES_OWN),
    ("/tenure.v1.JobService/DeleteJob", DOES_OWN),
    ("/tenure.v1.WorkflowService/SubmitWorkflow", DOES_OWN),
    ("/tenure.v1.WorkflowService/GetWorkflow", SEES_OWN),
    ("/tenure.v1.WorkflowService/ListWorkflows", SEES_OWN),
    ("/tenure.v1.WorkflowService/WatchWorkflow", SEES_OWN),
    ("/tenure.v1.WorkflowService/CancelWorkflow", DOES_OWN),
    ("/tenure.v1.WorkflowService/RequeueMember", DOES_OWN),
    ("/tenure.v1.FleetService/ListKinds", SEES_OWN),
    ("/tenure.v1.HealthService/GetQueueHealth", SEES_OWN),
    ("/tenure.v1.InboxService/ListInboxRefusals", SEES_OWN),
    ("/tenure.v1.InboxService/GetInbox", SEES),
    ("/tenure.v1.FleetService/GetFleet", SEES),
    ("/tenure.v1.FleetService/ListSlots", SEES),
    ("/tenure.v1.FleetService/ListNodes", SEES),
    ("/tenure.v1.FleetService/GetNode", SEES),
    ("/tenure.v1.CronService/ListCronEntries", SEES),
    ("/tenure.v1.AdminService/GetServerInfo", SEES),
    ("/tenure.v1.AdminService/CheckInvariants", SEES),
    ("/tenure.v1.FleetService/Apply", OPERATES),
    ("/tenure.v1.FleetService/PauseKind", OPERATES),
    ("/tenure.v1.FleetService/ResumeKind", OPERATES),
    ("/tenure.v1.FleetService/SetCapacity", OPERATES),
    ("/tenure.v1.FleetService/PauseSlot", OPERATES),
    ("/tenure.v1.FleetService/ResumeSlot", OPERATES),
    ("/tenure.v1.FleetService/CordonNode", OPERATES),
    ("/tenure.v1.FleetService/UncordonNode", OPERATES),
    ("/tenure.v1.FleetService/DrainNode", OPERATES),
    ("/tenure.v1.FleetService/ForgetNode", OPERATES),
    ("/tenure.v1.CronService/PauseCronEntry", OPERATES),
    ("/tenure.v1.CronService/ResumeCronEntry", OPERATES),
    ("/tenure.v1.CronService/RunCronEntry", OPERATES),
    ("/tenure.v1.WebhookService/ListWebhooks", SEES),
    ("/tenure.v1.WebhookService/ListDeliveries", SEES),
    ("/tenure.v1.WebhookService/GetDelivery", SEES),
    ("/tenure.v1.WebhookService/ResumeWebhook", OPERATES),
    ("/tenure.v1.WebhookService/TestWebhook", OPERATES),
    ("/tenure.v1.WebhookService/Redeliver", OPERATES),
    (SESSION, NODES),
    ("/tenure.node.v1.NodeService/EnqueueChildren", NODES),
    ("/tenure.node.v1.NodeService/BeginWait", NODES),
    ("/tenure.node.v1.NodeService/GetChildResults", NODES),
    (PUSH_LOG, NODES),
    ("/tenure.node.v1.NodeService/UploadResult", NODES),
    ("/tenure.node.v1.NodeService/FetchResult", NODES),
    ("/grpc.health.v1.Health/Check", ANYBODY),
    ("/grpc.health.v1.Health/Watch", ANYBODY),
    ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", SEES),
    ("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", SEES),
];

/// A method and the table disagree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path} has {rows} rows in the table of roles, and {needed} is needed")]
pub struct RowError {
    path: String,
    rows: usize,
    needed: usize,
}

/// Compares the table with the methods that there are.
///
/// # Errors
/// A method without its one row, or a row without its method.
fn check_table<'p>(paths: impl Iterator<Item = &'p str>) -> Result<(), RowError> {
    let paths: BTreeSet<&str> = paths.collect();
    for path in paths.iter().copied().chain(TABLE.iter().map(|&(path, _)| path)) {
        let needed = usize::from(paths.contains(path));
        let rows = TABLE.iter().filter(|(row, _)| *row == path).count();
        if rows != needed {
            return Err(RowError { path: path.to_owned(), rows, needed });
        }
    }
    Ok(())
}

/// Puts [`Judge`] around a service.
#[derive(Debug, Clone)]
pub(crate) struct AuthLayer {
    rules: watch::Receiver<Arc<Rules>>,
    metrics: Arc<Metrics>,
    hush: Arc<Hush>,
    /// Methods whose answers go on, and are cut off when their caller counts for nothing any more.
    live: Arc<BTreeSet<String>>,
    side: Side,
}

/// Who is at the other end of the connections of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    /// The callers themselves.
    Callers,
    /// Servers that hand their calls on.
    Servers,
}

impl AuthLayer {
    /// # Errors
    /// If the table of roles is not about exactly these methods.
    pub(crate) fn new(
        methods: &Methods,
        rules: watch::Receiver<Arc<Rules>>,
        metrics: Arc<Metrics>,
        clock: Clock,
    ) -> Result<Self, RowError> {
        check_table(methods.keys().map(String::as_str))?;
        let live = methods.iter().filter(|(path, method)| method.answers_on && *path != SESSION);
        let live = Arc::new(live.map(|(path, _)| path.clone()).collect());
        Ok(Self { rules, metrics, hush: Arc::new(Hush::new(clock)), live, side: Side::Callers })
    }

    /// The same for the listener to which other servers hand calls on.
    pub(crate) fn of_servers(&self) -> Self {
        Self { side: Side::Servers, ..self.clone() }
    }

    /// Who calls, for the handlers and for the log.
    fn caller(&self, peer: Option<&Peer>, headers: &HeaderMap) -> Result<Peer, No> {
        let peer = peer.ok_or_else(No::internal)?;
        match self.side {
            Side::Callers => Ok(peer.clone()),
            Side::Servers => self.caller_of(peer, headers),
        }
    }

    /// For whom a server calls.
    fn caller_of(&self, server: &Peer, headers: &HeaderMap) -> Result<Peer, No> {
        if let Some(certificate) = &server.certificate {
            let rules = self.rules.borrow();
            let holder = rules.holder(certificate)?;
            if holder.role != Role::Server {
                return Err(No::not_allowed(format!("{holder} may not call here: it is for servers alone")));
            }
        }
        let told = told::read(headers);
        let told = told.ok_or_else(|| No::no_identity("the call does not say for whom it is handed on"))?;
        // Where there is TLS, nobody is anybody; and where there is none, nobody was seen to hold a certificate.
        if told.certificate.is_some() != server.certificate.is_some() {
            return Err(No::no_identity("of two servers, one has TLS and the other has not"));
        }
        Ok(told)
    }

    /// Who calls, if they may call this.
    fn judge(&self, peer: &Peer, path: &str) -> Result<Caller, No> {
        let Peer { address, certificate } = peer;
        let address = *address;
        let Some(certificate) = certificate else { return Ok(Caller::local(address)) };
        let rules = self.rules.borrow();
        let holder = rules.holder(certificate)?;
        let allowed = TABLE.iter().find(|(row, _)| *row == path).map_or(&[][..], |&(_, roles)| roles);
        if !allowed.contains(&holder.role) {
            return Err(not_for(holder, path, allowed));
        }
        let limits = match holder.role {
            Role::Producer => rules.producers().get(&holder.name).cloned().unwrap_or_default(),
            Role::Node | Role::Viewer | Role::Operator | Role::Admin | Role::Server => Default::default(),
        };
        let (certificate, holder) = (Arc::clone(certificate), holder.clone());
        let holder = Holder { holder, certificate, limits, rules: self.rules.clone() };
        Ok(Caller::holder(holder, address))
    }

    /// Counts a no and says it: whoever runs the server may be asked about it.
    fn refused(&self, peer: Option<&Peer>, path: &str, no: &No) {
        self.metrics.observe_refusal(no.reason());
        if let Some(Peer { address, .. }) = peer
            && let Some(unsaid) = self.hush.may_say(address.ip(), no.reason())
        {
            let (reason, words) = (no.reason(), no.message());
            tracing::info!(peer = %address, method = path, reason, unsaid, "a call was refused: {words}");
        }
    }
}

fn not_for(holder: &Identity, path: &str, allowed: &[Role]) -> No {
    let method = path.rsplit('/').next().unwrap_or_default();
    let roles = allowed.iter().map(|role| role.name()).collect::<Vec<_>>().join(", ");
    No::not_allowed(format!("{holder} may not call {method}: it is for {roles}"))
}

impl From<Nobody> for No {
    fn from(nobody: Nobody) -> Self {
        match nobody {
            Nobody::Unknown(why) => Self::no_identity(why),
            Nobody::Denied(why) => Self::not_allowed(why),
        }
    }
}

impl<S> Layer<S> for AuthLayer {
    type Service = Judge<S>;

    fn layer(&self, inner: S) -> Judge<S> {
        Judge { inner, layer: self.clone() }
    }
}

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Judge<S> {
    inner: S,
    layer: AuthLayer,
}

type Guard = Box<dyn FnOnce(Response<Body>) -> Response<Body> + Send>;

impl<S, B> Service<Request<B>> for Judge<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Either<Ready<Result<Response<Body>, S::Error>>, MapOk<S::Future, Guard>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let (peer, path) = (request.extensions().get::<Peer>(), request.uri().path());
        let known = self.layer.caller(peer, request.headers());
        let (told, caller) = match known.and_then(|told| Ok((self.layer.judge(&told, path)?, told))) {
            Ok((caller, told)) => (told, caller),
            Err(no) => {
                self.layer.refused(peer, path, &no);
                return Either::Left(ready(Ok(no.into_status().into_http())));
            }
        };
        let guard: Guard = if caller.is_holder() && self.layer.live.contains(path) {
            let (caller, metrics) = (caller.clone(), Arc::clone(&self.layer.metrics));
            Box::new(move |response| response.map(|body| live::guarded(body, caller, metrics)))
        } else {
            Box::new(|response| response)
        };
        request.extensions_mut().insert(told);
        request.extensions_mut().insert(caller);
        Either::Right(self.inner.call(request).map_ok(guard))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_row_and_a_row_too_many_are_told() {
        let all = || TABLE.iter().map(|&(path, _)| path);
        assert_eq!(check_table(all()), Ok(()));
        let error = check_table(all().chain(["/tenure.v1.JobService/New"])).unwrap_err();
        assert_eq!((error.path.as_str(), error.rows), ("/tenure.v1.JobService/New", 0));
        assert!(check_table(all().skip(1)).is_err());
    }

    #[test]
    fn a_server_may_call_nothing() {
        assert!(TABLE.iter().all(|(_, roles)| !roles.contains(&Role::Server)));
    }
}
