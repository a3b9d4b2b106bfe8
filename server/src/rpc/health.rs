//! The health of queues, from the published figures: asking often costs the driver nothing, and the store little.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tenure_proto::v1::{self, health_service_server::HealthService};
use tenure_scheduler::{KindName, Refusal, Snapshot};
use tokio::sync::Mutex;
use tonic::{Request, Response, Status, async_trait};

use super::{api::Api, auth::Caller, check::Checks, convert, status::No};
use crate::config;

/// For so long a count of dead jobs answers again.
const DEAD_FRESH: Duration = Duration::from_secs(1);

/// The service.
#[derive(Debug, Clone)]
pub(crate) struct Health {
    api: Api,
    /// Whoever counts holds it, so that many callers cost one count.
    dead: Arc<Mutex<Option<Dead>>>,
}

/// Dead jobs by kind, as counted at a time of the steady clock.
#[derive(Debug)]
struct Dead {
    counted: Duration,
    by_kind: Arc<BTreeMap<KindName, u64>>,
}

impl Health {
    pub(crate) fn new(api: Api) -> Self {
        Self { api, dead: Arc::default() }
    }

    /// Final jobs are not in memory, so that the store is asked for the dead ones.
    async fn dead_by_kind(&self) -> Result<Arc<BTreeMap<KindName, u64>>, No> {
        let mut known = self.dead.lock().await;
        let steady = self.api.handle.clock().steady();
        if let Some(dead) = known.as_ref().filter(|dead| steady.saturating_sub(dead.counted) < DEAD_FRESH) {
            return Ok(Arc::clone(&dead.by_kind));
        }
        let by_kind = self.api.read(self.api.handle.reader().dead_by_kind().await)?;
        let by_kind = Arc::new(by_kind);
        *known = Some(Dead { counted: steady, by_kind: Arc::clone(&by_kind) });
        Ok(by_kind)
    }
}

#[async_trait]
impl HealthService for Health {
    async fn get_queue_health(
        &self,
        request: Request<v1::GetQueueHealthRequest>,
    ) -> Result<Response<v1::GetQueueHealthResponse>, Status> {
        let caller = Caller::of(&request)?;
        let answer = queue_health(self, &request.into_inner(), &caller).await;
        self.api.answer(answer.map(|mut health| {
            if caller.sees_only().is_some() {
                // What its kinds stand at, and nothing of nodes or of others' work.
                health.kinds.retain(|kind| caller.knows_kind(&KindName::new(kind.kind.as_str())));
                (health.attention, health.pressure) = Default::default();
            }
            health
        }))
    }
}

async fn queue_health(
    health: &Health,
    request: &v1::GetQueueHealthRequest,
    caller: &Caller,
) -> Result<v1::GetQueueHealthResponse, No> {
    let mut checks = Checks::default();
    let only = checks.optional_name("kind", &request.kind, KindName::parse);
    checks.finish()?;
    if let Some(kind) = &only
        && !caller.knows_kind(kind)
    {
        return Err(Refusal::KindNotFound { kind: kind.clone(), nearest: Vec::new() }.into());
    }
    let mut snapshot = Arc::clone(&health.api.published().snapshot);
    let lacks =
        |snapshot: &Snapshot, kind: &KindName| snapshot.health.iter().all(|figures| figures.kind != *kind);
    if only.as_ref().is_some_and(|kind| lacks(&snapshot, kind)) {
        // A kind that was declared a moment ago is not published yet.
        snapshot = Arc::new(health.api.query(|state, now| state.snapshot(now)).await?);
    }
    if let Some(kind) = &only
        && lacks(&snapshot, kind)
    {
        let known = snapshot.health.iter().map(|figures| figures.kind.as_str());
        let nearest = config::nearest(kind.as_str(), known).map(KindName::new).into_iter().collect();
        return Err(Refusal::KindNotFound { kind: kind.clone(), nearest }.into());
    }
    let dead = health.dead_by_kind().await?;
    Ok(convert::health::queue_health(&snapshot, only.as_ref(), &dead, health.api.now()))
}
