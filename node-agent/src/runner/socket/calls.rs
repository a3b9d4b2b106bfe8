//! Calls to the server about one lease, by the connection of the session.
//!
//! Responsible for waiting a little for a connection, and for the deadline of a call. Not responsible for what is asked
//! (`service.rs`, `wait.rs`, `runner/inputs.rs`), nor for connecting (`session.rs`).
//!
//! Invariant: a call goes to the server whose Welcome was read last, and to none while there is no session.

use std::time::Duration;

use futures_util::stream::BoxStream;
use futures_util::{FutureExt as _, StreamExt as _};
use tenure_proto::limits;
use tenure_proto::node::v1::node_service_client::NodeServiceClient;
use tenure_proto::node::v1::{
    BeginWaitRequest, BeginWaitResponse, EnqueueChildrenRequest, EnqueueChildrenResponse, FetchResultRequest,
    GetChildResultsRequest, GetChildResultsResponse, LeaseName, UploadHead, UploadResultRequest,
    UploadedResult, upload_result_request::Part,
};
use tokio::sync::watch;
use tonic::transport::Channel;
use tonic::{Request, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::holdings::FencingToken;

/// A server that is away for longer is told to the command, which may ask again.
const PATIENCE: Duration = Duration::from_secs(10);
/// One call takes no longer; a thousand children are one commit.
const DEADLINE: Duration = Duration::from_secs(30);
/// When a command may ask again while there is no server.
const AGAIN: Duration = Duration::from_secs(1);

/// The connections to a server. Bytes have one of their own: what waits for object storage must not hold up a heartbeat, and
/// the streams of one connection share its window.
#[derive(Clone, Debug)]
pub struct Lines {
    /// For calls, and the session.
    pub calls: Channel,
    /// For uploads and fetches. Connects when it is used.
    pub bytes: Channel,
}

/// The way to the server. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Calls {
    node: String,
    connection: watch::Receiver<Option<Lines>>,
}

/// A lease, of which is spoken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) job: String,
    pub(crate) token: FencingToken,
}

impl Calls {
    /// The way of the node of this name. The other end says which connection there is: it is the session's.
    pub fn new(node: String) -> (Self, watch::Sender<Option<Lines>>) {
        let (sender, connection) = watch::channel(None);
        (Self { node, connection }, sender)
    }

    /// The name of the node.
    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    /// Stores children.
    pub(crate) async fn enqueue_children(
        &self,
        lease: &Lease,
        jobs: Vec<tenure_proto::v1::JobSpec>,
    ) -> Result<EnqueueChildrenResponse, Status> {
        let request = EnqueueChildrenRequest { lease: self.name(lease), jobs };
        let mut client = self.client().await?;
        Ok(client.enqueue_children(timed(request)).await?.into_inner())
    }

    /// Parks, or asks again how that stands.
    pub(crate) async fn begin_wait(
        &self,
        lease: &Lease,
        request: BeginWaitRequest,
    ) -> Result<BeginWaitResponse, Status> {
        let request = BeginWaitRequest { lease: self.name(lease), ..request };
        let mut client = self.client().await?;
        Ok(client.begin_wait(timed(request)).await?.into_inner())
    }

    /// One page of how others ended. `takes_uploaded`: what is over the inline limit is named, and fetched on its own.
    pub(crate) async fn child_results(
        &self,
        lease: &Lease,
        job_ids: Vec<String>,
        (from_index, takes_uploaded): (u32, bool),
    ) -> Result<GetChildResultsResponse, Status> {
        let request = GetChildResultsRequest { lease: self.name(lease), job_ids, from_index, takes_uploaded };
        let mut client = self.client().await?;
        Ok(client.get_child_results(timed(request)).await?.into_inner())
    }

    /// Sends a result over the inline limit. The stream ends early if it cannot be read: the server finds that bytes are
    /// missing.
    pub(crate) async fn upload_result(
        &self,
        lease: &Lease,
        result: UploadedResult,
        bytes: BoxStream<'static, bytes::Bytes>,
    ) -> Result<(), Status> {
        let within =
            limits::TRANSFER_AT_FIRST + Duration::from_secs(result.size / limits::TRANSFER_BYTES_A_SECOND);
        let head = UploadHead { lease: self.name(lease), result: Some(result) };
        let mut client = NodeServiceClient::new(self.connection().await?.bytes);
        let sending = client.upload_result(messages(head, bytes)).boxed();
        let sent = tokio::time::timeout(within, sending).await;
        sent.map_err(|_| Status::deadline_exceeded("the upload took too long"))?.map(drop)
    }

    /// The bytes of a result over the inline limit, message by message.
    pub(crate) async fn fetch_result(
        &self,
        lease: &Lease,
        job_id: String,
    ) -> Result<BoxStream<'static, Result<bytes::Bytes, Status>>, Status> {
        let request = FetchResultRequest { lease: self.name(lease), job_id };
        let mut client = NodeServiceClient::new(self.connection().await?.bytes)
            .max_decoding_message_size(limits::DECODE_BYTES);
        let opened = tokio::time::timeout(DEADLINE, client.fetch_result(request)).await;
        let messages = opened.map_err(|_| Status::deadline_exceeded("nothing came"))??.into_inner();
        Ok(messages.map(|message| message.map(|message| message.data)).boxed())
    }

    fn name(&self, lease: &Lease) -> Option<LeaseName> {
        Some(LeaseName { node: self.node.clone(), job_id: lease.job.clone(), token: lease.token.0 })
    }

    async fn client(&self) -> Result<NodeServiceClient<Channel>, Status> {
        let channel = self.connection().await?.calls;
        Ok(NodeServiceClient::new(channel).max_decoding_message_size(limits::DECODE_BYTES))
    }

    async fn connection(&self) -> Result<Lines, Status> {
        let mut connection = self.connection.clone();
        let there = connection.wait_for(Option::is_some);
        let connection = match tokio::time::timeout(PATIENCE, there).await {
            Ok(Ok(connection)) => connection.clone(),
            Ok(Err(_)) | Err(_) => None,
        };
        connection.ok_or_else(no_server)
    }
}

fn messages(
    head: UploadHead,
    bytes: BoxStream<'static, bytes::Bytes>,
) -> BoxStream<'static, UploadResultRequest> {
    let parts = futures_util::stream::iter([Part::Head(head)]).chain(bytes.map(Part::Data));
    parts.map(|part| UploadResultRequest { part: Some(part) }).boxed()
}

/// Whether the same call may be repeated: nobody knows what became of it, or nothing did.
pub(crate) fn is_away(status: &Status) -> bool {
    use tonic::Code;
    // A connection that broke in the midst is Unknown or Cancelled to its caller.
    matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded | Code::Unknown | Code::Cancelled)
}

fn timed<T>(request: T) -> Request<T> {
    let mut request = Request::new(request);
    request.set_timeout(DEADLINE);
    request
}

fn no_server() -> Status {
    let mut details = ErrorDetails::new();
    details.set_error_info("SERVER_AWAY", "tenure", []).set_retry_info(Some(AGAIN));
    Status::with_error_details(
        tonic::Code::Unavailable,
        "the node has no session with a server; ask again",
        details,
    )
}
