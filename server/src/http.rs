//! `/metrics`, `/livez` and `/readyz` for those who watch the process. Loopback only, read only, no payloads.
//!
//! `/livez` says that the process answers; `/readyz` that it leads and its store answers; both are plain text.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use crate::{
    chain::Chain,
    handle::Handle,
    listener::Incoming,
    metrics::{Metrics, Scrape},
};

/// Connections to this port at once.
pub(crate) const MOST_CONNECTIONS: u32 = 64;

/// The store must answer within this for the server to be ready.
pub(crate) const STORE_PATIENCE: Duration = Duration::from_secs(1);

/// After the shutdown began, open requests have this long.
const DRAIN: Duration = Duration::from_secs(2);

/// Why serving ended otherwise than asked.
#[derive(Debug, thiserror::Error)]
#[error("serving HTTP failed")]
pub struct Error(#[source] std::io::Error);

#[derive(Debug, Clone)]
struct Watched {
    handle: Handle,
    metrics: Arc<Metrics>,
}

/// Serves until the shutdown.
///
/// # Errors
/// If the listener fails before.
pub(crate) async fn serve(
    incoming: Incoming,
    handle: Handle,
    metrics: Arc<Metrics>,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    let router = Router::new()
        .route("/metrics", get(figures))
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .with_state(Watched { handle, metrics });
    let incoming = incoming.until(shutdown.clone());
    let server = axum::serve(incoming, router).with_graceful_shutdown(shutdown.clone().cancelled_owned());
    let patience = async {
        shutdown.cancelled().await;
        tokio::time::sleep(DRAIN).await;
    };
    // Cancel-safe: a request that is still open then is cut off; whoever watches asks again.
    tokio::select! {
        served = server.into_future() => served.map_err(Error),
        () = patience => Ok(()),
    }
}

async fn figures(State(watched): State<Watched>) -> Response {
    let scrape = scrape(&watched.handle);
    match watched.metrics.text(&scrape) {
        Ok(text) => ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response(),
        Err(fault) => {
            error!(error = %Chain(&fault), "the figures cannot be written");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// What gauges are made from, as it is now.
pub(crate) fn scrape(handle: &Handle) -> Scrape {
    let published = handle.snapshot();
    let info = handle.info();
    let clock = handle.clock();
    let now = clock.wall();
    Scrape {
        snapshot: Arc::clone(&published.snapshot),
        snapshot_age: published.taken_steady.map(|taken| clock.steady().saturating_sub(taken)),
        now,
        epoch: info.epoch,
        leader: info.leading,
        reloads: info.reloads,
        terms: info.terms,
        renewed_ago: handle.renewed_ago(),
        sessions: info.sessions,
        uptime: handle.uptime(),
    }
}

async fn ready(State(watched): State<Watched>) -> Response {
    if !watched.handle.info().leading {
        let standing = watched.handle.standing();
        let said = match standing.leader() {
            Some(leader) => format!(
                "not leading; the server at {} leads\n",
                leader.addr.as_deref().unwrap_or("an unknown address")
            ),
            None => "not leading\n".to_owned(),
        };
        return (StatusCode::SERVICE_UNAVAILABLE, said).into_response();
    }
    if store_answers(&watched.handle).await {
        "ok\n".into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "the store does not answer\n").into_response()
    }
}

/// Whether the store answers in time.
pub(crate) async fn store_answers(handle: &Handle) -> bool {
    match tokio::time::timeout(STORE_PATIENCE, handle.reader().ping()).await {
        Ok(Ok(())) => true,
        Ok(Err(fault)) => {
            warn!(error = %Chain(&fault), "the store does not answer");
            false
        }
        Err(_) => {
            warn!(patience_ms = STORE_PATIENCE.as_millis(), "the store does not answer in time");
            false
        }
    }
}
