//! What all services stand on: the way to the driver and to the store, and the one place where a no becomes a status.
//!
//! Invariant: each status that leaves through here is counted once and has a reason; causes go to the log, once.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use tenure_scheduler::{Command, Kind, KindName, Now, Reply, State, Wall};
use tenure_store::reader;
use tokio::sync::watch;
use tonic::{Response, Status};
use tracing::{error, warn};

use super::status::No;
use crate::{
    chain::Chain,
    config::Retention,
    handle::{Handle, Submission},
    logs::Logs,
    metrics::Metrics,
    outbox::Settings,
    results::Results,
    snapshot::Published,
};

/// What a caller is told to wait after a read that failed.
const READ_RETRY: Duration = Duration::from_secs(1);

/// Shared by all services. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    /// The way to the driver.
    pub(crate) handle: Handle,
    /// Counts refusals.
    pub(crate) metrics: Arc<Metrics>,
    /// For kinds that name none, when a fleet file is applied.
    pub(crate) retention: watch::Receiver<Retention>,
    /// What attempts print.
    pub(crate) logs: Logs,
    /// Which secrets there are, likewise.
    pub(crate) webhooks: watch::Receiver<Arc<Settings>>,
    /// Results over the inline limit.
    pub(crate) results: Results,
}

impl Api {
    /// The end of a call: an answer, or a no that is counted.
    pub(crate) fn answer<T>(&self, result: Result<T, No>) -> Result<Response<T>, Status> {
        result.map(Response::new).map_err(|no| {
            self.count(&no);
            no.into_status()
        })
    }

    /// Counts a no that does not end a call, such as that of one item of a batch.
    pub(crate) fn count(&self, no: &No) {
        self.metrics.observe_refusal(no.reason());
    }

    /// One command without bytes beside it; the answer comes after its commit.
    pub(crate) async fn submit(&self, command: Command) -> Result<Reply, No> {
        Ok(self.handle.submit(Submission { command, payload: None, more: Vec::new() }).await?)
    }

    /// A question to the committed state.
    pub(crate) async fn query<T: Send + 'static>(
        &self,
        question: impl FnOnce(&State, Now) -> T + Send + 'static,
    ) -> Result<T, No> {
        Ok(self.handle.query(question).await?)
    }

    /// The end of a read of the store.
    pub(crate) fn read<T>(&self, result: Result<T, reader::Error>) -> Result<T, No> {
        result.map_err(|fault| match fault {
            reader::Error::Unreadable(_) => {
                error!(error = %Chain(&fault), "a stored row is unreadable");
                No::internal()
            }
            reader::Error::TooSlow { .. } | reader::Error::Unavailable(_) => {
                warn!(error = %Chain(&fault), "a read of the store failed");
                No::store_away(READ_RETRY)
            }
        })
    }

    /// The present by the server's clock.
    pub(crate) fn now(&self) -> Wall {
        self.handle.clock().wall()
    }

    /// The published figures: at most a second old.
    pub(crate) fn published(&self) -> Arc<Published> {
        self.handle.snapshot()
    }

    /// Whether this server leads: else only rows can be read here.
    pub(crate) fn leads(&self) -> bool {
        self.handle.standing().leads()
    }

    /// Kinds as they are in force, for answers that show them beside jobs: as published, and what is not published
    /// yet by one question to the driver. A kind that is declared no more is absent; where only rows are read, all are.
    pub(crate) async fn kinds<'n>(
        &self,
        names: impl IntoIterator<Item = &'n KindName>,
    ) -> Result<BTreeMap<KindName, Kind>, No> {
        let published = self.published();
        let mut known = BTreeMap::new();
        let mut unknown = BTreeSet::new();
        for name in names {
            let kinds = &published.snapshot.kinds;
            match kinds.binary_search_by(|kind| kind.name.cmp(name)).ok().and_then(|at| kinds.get(at)) {
                Some(_) if known.contains_key(name) => {}
                Some(kind) => drop(known.insert(name.clone(), kind.clone())),
                None => drop(unknown.insert(name.clone())),
            }
        }
        if !unknown.is_empty() && self.leads() {
            let fresh = self.query(move |state, _| {
                let found = unknown.into_iter().filter_map(|name| state.kind(&name).cloned());
                found.map(|kind| (kind.name.clone(), kind)).collect::<Vec<_>>()
            });
            known.extend(fresh.await?);
        }
        Ok(known)
    }
}

/// The scheduler answered a command with the reply to another one: a bug of ours.
pub(crate) fn unexpected(command: &'static str) -> No {
    error!(command, "a command was answered with the reply to another");
    No::internal()
}
