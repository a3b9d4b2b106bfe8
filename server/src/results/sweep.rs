//! From time to time the whole object storage is compared with the rows: what nothing names goes, and what is missing is
//! told.
//!
//! Responsible for what no other sweep can know: uploads whose `finished` never came, and objects whose removal a crash or
//! an outage prevented. Only a leader does it.

use std::{
    collections::BTreeSet,
    sync::PoisonError,
    time::{Duration, UNIX_EPOCH},
};

use futures_util::TryStreamExt as _;
use tenure_scheduler::{FencingToken, JobId};
use tenure_store::{ObjectName, Reader};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{Error, MOST_LOST, NAMES_A_QUESTION, Results};
use crate::{chain::Chain, handle::Handle};

/// Rows of one read.
const ROWS_A_READ: u32 = 500;

/// Above this many objects nothing is said of missing ones: their names would take too much memory.
const MOST_COMPARED: usize = 200_000;

/// Compares object storage with the rows.
#[derive(Debug)]
pub(crate) struct Sweeper {
    results: Results,
    handle: Handle,
    every: Duration,
    /// How many were missing last time, so that each finding is told once.
    missing: usize,
}

impl Sweeper {
    pub(crate) fn new(results: Results, handle: Handle, every: Duration) -> Self {
        Self { results, handle, every, missing: 0 }
    }

    /// Sweeps at once and from time to time, until the term ends. A sweep that fails is logged; the next one tries again.
    pub(crate) async fn run(mut self, over: CancellationToken) -> Result<(), std::convert::Infallible> {
        loop {
            // Cancel-safe: what was removed was not wanted, and the rest is found again.
            let swept = tokio::select! {
                biased;
                () = over.cancelled() => return Ok(()),
                swept = self.sweep() => swept,
            };
            match swept {
                Ok(0) => {}
                Ok(removed) => tracing::info!(removed, "removed objects of results that nothing names"),
                Err(error) => {
                    tracing::warn!(error = %Chain(&error), "a sweep of object storage was cut short")
                }
            }
            // Cancel-safe: both only wait.
            tokio::select! {
                biased;
                () = over.cancelled() => return Ok(()),
                () = sleep(self.every) => {}
            }
        }
    }

    /// One look through everything. The answer is how many objects were removed.
    async fn sweep(&mut self) -> Result<u64, Error> {
        let Some(objects) = self.results.objects.clone() else { return Ok(0) };
        let reader = self.handle.reader().clone();
        let now =
            UNIX_EPOCH + Duration::from_micros(u64::try_from(self.handle.clock().wall().0).unwrap_or(0));
        let mut removed = objects.remove_unfinished(now).await?;
        let mut listed = BTreeSet::new();
        let mut names = Vec::new();
        let mut all = std::pin::pin!(objects.list());
        loop {
            let next = all.try_next().await?;
            names.extend(next);
            if names.len() >= NAMES_A_QUESTION || next.is_none() {
                removed += self.results.forget(&reader, &names).await?;
                if listed.len() <= MOST_COMPARED {
                    listed.extend(names.iter().copied());
                }
                names.clear();
            }
            if next.is_none() {
                break;
            }
        }
        if listed.len() <= MOST_COMPARED {
            self.compare(&reader, &listed).await?;
        }
        Ok(removed)
    }

    /// Rows name what has to be there.
    async fn compare(&mut self, reader: &Reader, listed: &BTreeSet<ObjectName>) -> Result<(), Error> {
        let Some(objects) = &self.results.objects else { return Ok(()) };
        let mut missing = 0;
        let mut lost = Vec::new();
        let mut after: Option<(JobId, FencingToken)> = None;
        loop {
            let rows = reader.objects(after, ROWS_A_READ).await?;
            let Some(last) = rows.last() else { break };
            after = Some((last.job, last.token));
            for name in rows.into_iter().filter(|name| !listed.contains(name)) {
                // It may have come while the list was made.
                if !objects.contains(name).await? && reader.wanted_objects(&[name]).await?.contains(&name) {
                    missing += 1;
                    lost.extend((lost.len() < MOST_LOST).then_some(name));
                    if missing > self.missing {
                        tracing::error!(job.id = %name.job, object = %name, "object storage has lost a result");
                    }
                }
            }
        }
        self.missing = missing;
        *self.results.lost.lock().unwrap_or_else(PoisonError::into_inner) = lost;
        self.results.metrics.observe_missing_objects(missing);
        Ok(())
    }
}
