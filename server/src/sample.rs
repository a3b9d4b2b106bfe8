//! Samples of the invariants: every so often the views over leases are asked whether they show anything.
//!
//! Responsible for the figure, and for one line of the log when something is found. Not for the views over all jobs, which
//! take as long as there are jobs: `tenure doctor` asks those. Not for mending anything: what is found is a bug of ours,
//! or a hand in the database.

use std::{sync::Arc, time::Duration};

use tenure_store::{Violation, reader};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::{chain::Chain, handle::Handle, metrics::Metrics};

/// Between two samples.
const EVERY: Duration = Duration::from_secs(30);

/// Samples while this server leads, until it ends. A sample that fails is left out: the store is away, which others say.
pub(crate) async fn run(
    handle: Handle,
    metrics: Arc<Metrics>,
    shutdown: CancellationToken,
) -> Result<(), std::convert::Infallible> {
    let mut known = Vec::new();
    loop {
        if handle.info().leading {
            // Cancel-safe: a read that is dropped changes nothing.
            let read = tokio::select! {
                biased;
                () = shutdown.cancelled() => return Ok(()),
                read = handle.reader().lease_violations() => read,
            };
            match read {
                Ok(found) => {
                    metrics.observe_violations(&found);
                    say(&known, &found);
                    known = found;
                }
                Err(fault) => tracing::debug!(error = %Chain(&fault), "the invariants cannot be sampled"),
            }
        }
        // Cancel-safe: both only wait.
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(()),
            () = sleep(EVERY) => {}
        }
    }
}

/// Once for as long as the same is found.
fn say(known: &[Violation], found: &[Violation]) {
    if known == found {
        return;
    }
    for violation in found.iter().filter(|violation| !known.contains(violation)) {
        let Violation { invariant, subject, detail } = violation;
        tracing::error!(%invariant, %subject, %detail, "an invariant of the store does not hold");
    }
    if found.is_empty() {
        tracing::info!(views = reader::OF_LEASES.len(), "the invariants of the store hold again");
    }
}
