//! `grpc.health.v1`: every service is SERVING while this server leads and its store answers.
//!
//! It is a level, looked at twice a second: who balances load wants the present, not history.

use std::{convert::Infallible, time::Duration};

use tenure_proto::{node, v1};
use tokio_util::sync::CancellationToken;
use tonic_health::{ServingStatus, server::HealthReporter};
use tracing::info;

use crate::{handle::Handle, http::store_answers};

/// How often the level is looked at.
const EVERY: Duration = Duration::from_millis(500);

/// The server as a whole, and each of its services.
const SERVICES: [&str; 6] = [
    "",
    v1::job_service_server::SERVICE_NAME,
    v1::fleet_service_server::SERVICE_NAME,
    v1::health_service_server::SERVICE_NAME,
    v1::admin_service_server::SERVICE_NAME,
    node::v1::node_service_server::SERVICE_NAME,
];

/// Keeps the answers of `grpc.health.v1` up to date until the shutdown, and says NOT_SERVING from then on.
///
/// # Errors
/// None; the type is that of a long task.
pub(crate) async fn run(
    handle: Handle,
    reporter: HealthReporter,
    shutdown: CancellationToken,
) -> Result<(), Infallible> {
    let mut told = None;
    while !shutdown.is_cancelled() {
        let serving = handle.info().leading && store_answers(&handle).await;
        if told != Some(serving) {
            info!(serving, "health changed");
            tell(&reporter, serving).await;
            told = Some(serving);
        }
        // Cancel-safe: both only wait.
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = tokio::time::sleep(EVERY) => {}
        }
    }
    tell(&reporter, false).await;
    Ok(())
}

async fn tell(reporter: &HealthReporter, serving: bool) {
    let status = if serving { ServingStatus::Serving } else { ServingStatus::NotServing };
    for service in SERVICES {
        reporter.set_service_status(service, status).await;
    }
}
