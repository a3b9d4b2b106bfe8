//! `grpc.health.v1`: every service is SERVING while this server leads and its store answers; while it follows a leader to
//! which it hands calls on, every service but that of agents is.
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

/// The server as a whole, and its services for callers.
const CALLS: [&str; 7] = [
    "",
    v1::job_service_server::SERVICE_NAME,
    v1::fleet_service_server::SERVICE_NAME,
    v1::cron_service_server::SERVICE_NAME,
    v1::webhook_service_server::SERVICE_NAME,
    v1::health_service_server::SERVICE_NAME,
    v1::admin_service_server::SERVICE_NAME,
];

/// The service for agents: the leader's alone.
const SESSION_SERVICES: [&str; 1] = [node::v1::node_service_server::SERVICE_NAME];

/// What is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Served {
    calls: bool,
    sessions: bool,
}

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
        let served = level(&handle).await;
        if told != Some(served) {
            info!(calls = served.calls, sessions = served.sessions, "health changed");
            tell(&reporter, served).await;
            told = Some(served);
        }
        // Cancel-safe: both only wait.
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = tokio::time::sleep(EVERY) => {}
        }
    }
    tell(&reporter, Served::default()).await;
    Ok(())
}

/// What is served now.
async fn level(handle: &Handle) -> Served {
    if handle.info().leading {
        let answers = store_answers(handle).await;
        return Served { calls: answers, sessions: answers };
    }
    let hands_on = handle.standing().leader().is_some_and(|leader| leader.peer_addr.is_some());
    Served { calls: hands_on, sessions: false }
}

async fn tell(reporter: &HealthReporter, served: Served) {
    for (services, serving) in [(&CALLS[..], served.calls), (&SESSION_SERVICES[..], served.sessions)] {
        let status = if serving { ServingStatus::Serving } else { ServingStatus::NotServing };
        for service in services {
            reporter.set_service_status(*service, status).await;
        }
    }
}
