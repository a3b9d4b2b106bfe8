//! The health of queues, from the published figures: asking often costs the driver nothing.

use std::collections::BTreeMap;

use tenure_proto::v1::{self, health_service_server::HealthService};
use tenure_scheduler::{KindName, Refusal};
use tonic::{Request, Response, Status, async_trait};

use super::{api::Api, check::Checks, convert, status::No};
use crate::config;

/// The service.
#[derive(Debug, Clone)]
pub(crate) struct Health(pub(crate) Api);

#[async_trait]
impl HealthService for Health {
    async fn get_queue_health(
        &self,
        request: Request<v1::GetQueueHealthRequest>,
    ) -> Result<Response<v1::GetQueueHealthResponse>, Status> {
        self.0.answer(queue_health(&self.0, &request.into_inner()).await)
    }
}

async fn queue_health(
    api: &Api,
    request: &v1::GetQueueHealthRequest,
) -> Result<v1::GetQueueHealthResponse, No> {
    let mut checks = Checks::default();
    let only = checks.optional_name("kind", &request.kind, KindName::parse);
    checks.finish()?;
    let published = api.published();
    let snapshot = &published.snapshot;
    if let Some(kind) = &only
        && snapshot.health.iter().all(|health| health.kind != *kind)
    {
        let known = snapshot.health.iter().map(|health| health.kind.as_str());
        let nearest = config::nearest(kind.as_str(), known).map(KindName::new).into_iter().collect();
        return Err(Refusal::KindNotFound { kind: kind.clone(), nearest }.into());
    }
    let dead: BTreeMap<KindName, u64> = BTreeMap::new();
    Ok(convert::health::queue_health(snapshot, only.as_ref(), &dead, api.now()))
}
