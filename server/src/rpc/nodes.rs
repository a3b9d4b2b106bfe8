//! `NodeService`: hands each stream of a node to a session task of its own, and answers what a running job asks through
//! its node.
//!
//! Not responsible for anything that is said on a stream (`sessions`). Invariant: a call about a lease is answered to the
//! node that holds it, and to nobody else.

mod children;
mod fetches;
mod logs;
mod uploads;
mod waits;

use futures_util::{StreamExt as _, stream};
use tenure_proto::node::v1::{
    BeginWaitRequest, BeginWaitResponse, EnqueueChildrenRequest, EnqueueChildrenResponse, FetchResultRequest,
    GetChildResultsRequest, GetChildResultsResponse, NodeMessage, PushLogRequest, PushLogResponse,
    ServerMessage, UploadResultRequest, UploadResultResponse, node_service_server::NodeService,
};
use tenure_scheduler::LeaseName;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::{api::Api, auth::Caller, convert::trace, status::No};
use crate::sessions::{Lobby, MOST_WIRE, Wired};

/// The service.
#[derive(Debug, Clone)]
pub(crate) struct Nodes {
    api: Api,
    lobby: Lobby,
}

impl Nodes {
    pub(crate) fn new(api: Api, lobby: Lobby) -> Self {
        Self { api, lobby }
    }
}

#[tonic::async_trait]
impl NodeService for Nodes {
    type SessionStream = stream::Map<ReceiverStream<Wired>, fn(Wired) -> Result<ServerMessage, Status>>;

    async fn session(
        &self,
        request: Request<Streaming<NodeMessage>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let (wire, messages) = mpsc::channel(MOST_WIRE);
        // Answered at once: a client may wait for the answer's head before it says Hello.
        let caller = Caller::of(&request)?;
        self.lobby.start(request.into_inner(), wire, caller).map_err(|no| self.lobby.refused(no))?;
        let unboxed: fn(Wired) -> _ = |said| said.map(|message| *message);
        Ok(Response::new(ReceiverStream::new(messages).map(unboxed)))
    }

    async fn enqueue_children(
        &self,
        request: Request<EnqueueChildrenRequest>,
    ) -> Result<Response<EnqueueChildrenResponse>, Status> {
        let caller = Caller::of(&request)?;
        let trace = trace::of_call(request.metadata());
        self.api.answer(children::enqueue(&self.api, &caller, trace, request.into_inner()).await)
    }

    async fn begin_wait(
        &self,
        request: Request<BeginWaitRequest>,
    ) -> Result<Response<BeginWaitResponse>, Status> {
        let caller = Caller::of(&request)?;
        self.api.answer(waits::begin(&self.api, &caller, &request.into_inner()).await)
    }

    async fn get_child_results(
        &self,
        request: Request<GetChildResultsRequest>,
    ) -> Result<Response<GetChildResultsResponse>, Status> {
        let caller = Caller::of(&request)?;
        self.api.answer(waits::results(&self.api, &caller, &request.into_inner()).await)
    }

    async fn push_log(
        &self,
        request: Request<Streaming<PushLogRequest>>,
    ) -> Result<Response<PushLogResponse>, Status> {
        let caller = Caller::of(&request)?;
        self.api.answer(logs::push(&self.api, &caller, request.into_inner()).await)
    }

    async fn upload_result(
        &self,
        request: Request<Streaming<UploadResultRequest>>,
    ) -> Result<Response<UploadResultResponse>, Status> {
        let caller = Caller::of(&request)?;
        self.api.answer(uploads::upload(&self.api, caller, request.into_inner()).await)
    }

    type FetchResultStream = fetches::Fetched;

    async fn fetch_result(
        &self,
        request: Request<FetchResultRequest>,
    ) -> Result<Response<Self::FetchResultStream>, Status> {
        let caller = Caller::of(&request)?;
        self.api.answer(fetches::fetch(&self.api, &caller, &request.into_inner()).await)
    }
}

/// Whether a lease is live, open, and its caller's.
///
/// # Errors
/// LEASE_LOST, and NOT_ALLOWED for a node that speaks of another's.
async fn check_lease(api: &Api, caller: &Caller, lease: &LeaseName) -> Result<(), No> {
    caller.check_node(lease.node.as_str())?;
    let asked = lease.clone();
    let judged = api.query(move |state, _| state.open_lease(&asked).map(drop)).await?;
    Ok(judged?)
}
