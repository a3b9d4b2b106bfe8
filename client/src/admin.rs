//! The health of the queues, and of the server itself.

use tenure_proto::v1::{
    CheckInvariantsRequest, CheckInvariantsResponse, GetQueueHealthRequest, GetQueueHealthResponse,
    GetServerInfoRequest, GetServerInfoResponse,
};

use crate::retry::rpc;
use crate::{Client, Error};

impl Client {
    /// The figures of every kind (or of one), and what needs attention.
    ///
    /// # Errors
    /// KIND_NOT_FOUND if a kind is named.
    pub async fn queue_health(&self, kind: Option<&str>) -> Result<GetQueueHealthResponse, Error> {
        let request = GetQueueHealthRequest { kind: kind.unwrap_or_default().to_owned() };
        Ok(rpc!(self, health.get_queue_health, request).await?.value)
    }

    /// Versions, store, epoch, uptime, sizes.
    ///
    /// # Errors
    /// What every call may meet.
    pub async fn server_info(&self) -> Result<GetServerInfoResponse, Error> {
        Ok(rpc!(self, admin.get_server_info, GetServerInfoRequest {}).await?.value)
    }

    /// Evaluates the invariants of the store and of the scheduler's memory. A violation is a bug of the server.
    ///
    /// # Errors
    /// What every call may meet.
    pub async fn check_invariants(&self) -> Result<CheckInvariantsResponse, Error> {
        Ok(rpc!(self, admin.check_invariants, CheckInvariantsRequest {}).await?.value)
    }
}
