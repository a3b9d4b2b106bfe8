//! `NodeService`: hands each stream of a node to a session task of its own.
//!
//! Not responsible for anything that is said on it (`sessions`).

use tenure_proto::node::v1::{NodeMessage, ServerMessage, node_service_server::NodeService};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::auth::Caller;
use crate::sessions::{Lobby, MOST_WIRE};

/// The service.
#[derive(Debug, Clone)]
pub(crate) struct Nodes {
    lobby: Lobby,
}

impl Nodes {
    pub(crate) fn new(lobby: Lobby) -> Self {
        Self { lobby }
    }
}

#[tonic::async_trait]
impl NodeService for Nodes {
    type SessionStream = ReceiverStream<Result<ServerMessage, Status>>;

    async fn session(
        &self,
        request: Request<Streaming<NodeMessage>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let (wire, messages) = mpsc::channel(MOST_WIRE);
        // Answered at once: a client may wait for the answer's head before it says Hello.
        let caller = Caller::of(&request)?;
        self.lobby.start(request.into_inner(), wire, caller).map_err(|no| self.lobby.refused(no))?;
        Ok(Response::new(ReceiverStream::new(messages)))
    }
}
