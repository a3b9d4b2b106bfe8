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
        // Cancel-safe: a sample that is dropped changes nothing, and the rest only waits.
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(()),
            () = sample(&handle, &metrics, &mut known) => {}
        }
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(()),
            () = sleep(EVERY) => {}
        }
    }
}

/// One sample, or none if another server leads: then what this one found is not the present any more.
async fn sample(handle: &Handle, metrics: &Metrics, known: &mut Vec<Violation>) {
    if handle.info().leading {
        match handle.reader().lease_violations().await {
            Ok(found) => {
                metrics.observe_violations(&found);
                say(known, &found);
                *known = found;
            }
            Err(fault) => tracing::debug!(error = %Chain(&fault), "the invariants cannot be sampled"),
        }
    }
    // Asked last: the term may have ended during the read.
    if !handle.standing().leads() {
        metrics.observe_violations(&[]);
        known.clear();
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

#[cfg(test)]
mod tests {
    use std::{net::SocketAddr, path::Path};

    use tenure_store::{election::Trust, memory::Memory};

    use super::*;
    use crate::{
        Config, Stage,
        clock::{self, Clock},
        leadership::Standing,
    };

    #[tokio::test]
    async fn what_was_found_does_not_outlive_the_term() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let config =
            Config { listen: any, http: any, data: Path::new("in memory").to_owned(), ..Config::default() };
        let parts = (Memory::new().reader(), Clock::new(clock::Options::default()), Trust::always());
        let stage = Stage::set(&config, parts, CancellationToken::new()).await.unwrap();
        let invariant = reader::OF_LEASES[0];
        let found =
            Violation { invariant: invariant.to_owned(), subject: "a".to_owned(), detail: "b".to_owned() };
        let (handle, metrics) = (&stage.seed.handle, &stage.seed.metrics);
        let shown = |value: u8| {
            let text = metrics.text(&crate::http::scrape(handle)).unwrap();
            let line = format!("tenure_invariant_violations{{invariant=\"{invariant}\"}} {value}");
            text.lines().any(|have| have == line)
        };
        metrics.observe_violations(std::slice::from_ref(&found));
        let mut known = vec![found];
        sample(handle, metrics, &mut known).await;
        assert!(shown(1) && known.len() == 1, "it leads, and its store is away");
        stage.seed.standing.send_replace(Standing::Following { leader: None });
        sample(handle, metrics, &mut known).await;
        assert!(shown(0) && known.is_empty());
    }
}
