//! One term: from the takeover of a leader to its end, with everything that exists only meanwhile.
//!
//! Responsible for making the driver, the sweeper, the deliverer and the ways to them anew for each term, and for ending all of them
//! with it, sessions included. Not for when a term begins or is lost (`leadership`).
//! Invariant: nothing of a term outlives it. A driver or session that will not end in time is cut off where it waits;
//! one that does not even wait is the caller's to deal with: see [`Overdue`].

use std::{future::Future, sync::Arc, time::Duration};

use tenure_store::Journal;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    chain::BoxError,
    clock::Clock,
    driver::{self, Driver, Ends, Signals},
    handle::{Call, Handle, Inboxes, MOST_CALLS, MOST_QUERIES, Query, ServerStatus},
    inbox::{self, Ingest},
    leadership::Standing,
    metrics::Metrics,
    outbox::{
        Watchers,
        deliver::{self, Deliverer},
    },
    results::{self, Results},
    retention::{self, Sweeper},
    sessions::{self, FromNode},
    snapshot::{Published, Publisher},
    tasks,
    trace::Spans,
};

/// What is left of a lost term is cut off after this …
const ENDS_WITHIN: Duration = Duration::from_millis(250);

/// … and sessions of a server that ends after this: they are told so, and that takes a moment …
const TOLD_WITHIN: Duration = Duration::from_secs(2);

/// … and gone this much later.
const CUT_WITHIN: Duration = Duration::from_millis(250);

/// The ways to the driver of one term.
#[derive(Debug, Clone)]
pub(crate) struct Ways {
    pub(crate) producers: mpsc::Sender<Call>,
    pub(crate) queries: mpsc::Sender<Query>,
    pub(crate) sessions: mpsc::Sender<FromNode>,
    /// Cancelled when the term ends, or the server.
    pub(crate) over: CancellationToken,
    /// Where sessions put their tasks.
    pub(crate) tasks: Sessions,
}

impl Ways {
    /// The ways into these inboxes, of a term that `over` ends.
    pub(crate) fn new(
        (producers, queries, sessions): (mpsc::Sender<Call>, mpsc::Sender<Query>, mpsc::Sender<FromNode>),
        over: CancellationToken,
    ) -> Self {
        let tasks = Sessions { tasks: TaskTracker::new(), cut: CancellationToken::new() };
        Self { producers, queries, sessions, over, tasks }
    }
}

/// The tasks of a term's sessions.
#[derive(Debug, Clone)]
pub(crate) struct Sessions {
    tasks: TaskTracker,
    cut: CancellationToken,
}

/// What terms are made from.
#[derive(Debug, Clone)]
pub(crate) struct Seed {
    pub(crate) driver: driver::Options,
    pub(crate) sweeping: retention::Options,
    pub(crate) delivering: deliver::Options,
    pub(crate) results: Results,
    /// Between two comparisons of object storage with the rows.
    pub(crate) sweep_objects: Duration,
    /// None: the store has no inbox.
    pub(crate) inbox: Option<inbox::Options>,
    pub(crate) status: watch::Sender<ServerStatus>,
    pub(crate) snapshots: watch::Sender<Arc<Published>>,
    pub(crate) ways: watch::Sender<Option<Ways>>,
    pub(crate) standing: watch::Sender<Standing>,
    pub(crate) watchers: Watchers,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) clock: Clock,
    pub(crate) spans: Spans,
    pub(crate) handle: Handle,
    pub(crate) shutdown: CancellationToken,
}

/// A term that runs.
#[derive(Debug)]
pub(crate) struct Term {
    ways: watch::Sender<Option<Ways>>,
    status: watch::Sender<ServerStatus>,
    snapshots: watch::Sender<Arc<Published>>,
    watchers: Watchers,
    /// Driver, sweepers, deliverer, and what ingests the inbox.
    tasks: JoinSet<(&'static str, Result<(), BoxError>)>,
    sessions: Sessions,
    signals: Signals,
    over: CancellationToken,
}

/// Something of a term did not end although it was cut off: it holds a thread. Two leaders may be at work then.
#[derive(Debug, thiserror::Error)]
#[error("what is left of a lost term did not end within {} ms", (ENDS_WITHIN + CUT_WITHIN).as_millis())]
pub(crate) struct Overdue;

impl Term {
    /// Takes over the store, loads what is stored, and starts to lead.
    ///
    /// # Errors
    /// If the store cannot be taken over. Nothing is left running.
    pub(crate) async fn begin<J: Journal>(seed: &Seed, journal: J) -> Result<Self, driver::Error> {
        let (producers, calls) = mpsc::channel(MOST_CALLS);
        let (queries, questions) = mpsc::channel(MOST_QUERIES);
        let (inbox, sessions) = mpsc::channel(sessions::MOST_INBOX);
        let ends = Ends {
            inboxes: Inboxes { producers: calls, queries: questions },
            sessions,
            status: seed.status.clone(),
            publisher: Publisher::new(seed.snapshots.clone()),
            watchers: seed.watchers.clone(),
            bell: seed.delivering.bell.clone(),
            metrics: Arc::clone(&seed.metrics),
            clock: seed.clock.clone(),
            spans: seed.spans.clone(),
        };
        let (driver, leader) = Driver::begin(seed.driver.clone(), journal, ends).await?;
        let signals = Signals { shutdown: seed.shutdown.clone(), lost: CancellationToken::new() };
        let ways = Ways::new((producers, queries, inbox), seed.shutdown.child_token());
        let (over, running) = (ways.over.clone(), ways.tasks.clone());
        let sweeper = Sweeper::new(seed.sweeping.clone(), seed.handle.clone(), seed.results.clone());
        let objects = results::Sweeper::new(seed.results.clone(), seed.handle.clone(), seed.sweep_objects);
        let mut tasks = JoinSet::new();
        let run = driver.run(leader, signals.clone());
        tasks.spawn(async { ("driver", run.await.map_err(Into::into)) });
        let swept = sweeper.run(over.clone());
        tasks.spawn(async { ("sweeper", swept.await.map_err(Into::into)) });
        let swept = objects.run(over.clone());
        tasks.spawn(async { ("sweeper of object storage", swept.await.map_err(Into::into)) });
        if let Some(options) = &seed.inbox {
            let ingest = Ingest::new(options.clone(), seed.handle.clone(), Arc::clone(&seed.metrics));
            let ingested = ingest.run(over.clone());
            tasks.spawn(async { ("inbox", ingested.await.map_err(Into::into)) });
        }
        seed.status.send_modify(|status| status.terms += 1);
        seed.ways.send_replace(Some(ways));
        // It asks the driver at once.
        let delivered = Deliverer::new(seed.delivering.clone(), seed.handle.clone()).run(over.clone());
        tasks.spawn(async { ("deliverer", delivered.await.map_err(Into::into)) });
        Ok(Self {
            ways: seed.ways.clone(),
            status: seed.status.clone(),
            snapshots: seed.snapshots.clone(),
            watchers: seed.watchers.clone(),
            tasks,
            sessions: running,
            signals,
            over,
        })
    }

    /// Leads until the server ends, until something of the term does by itself, or until `lost`.
    ///
    /// # Errors
    /// [`Overdue`]; otherwise why the term ended, unless it was asked to.
    pub(crate) async fn run(
        mut self,
        lost: impl Future<Output = ()>,
    ) -> Result<Result<(), tasks::Error>, Overdue> {
        // Cancel-safe: both only wait.
        let first = tokio::select! {
            biased;
            ended = self.tasks.join_next() => ended,
            () = lost => None,
        };
        let asked = self.signals.shutdown.is_cancelled();
        let mut fault = first.and_then(|ended| tasks::fault_of(ended, asked));
        if asked {
            // Sessions hear of the end, the last turn is committed: the driver has its own deadline for that.
            while let Some(ended) = self.tasks.join_next().await {
                fault = fault.or(tasks::fault_of(ended, true));
            }
        }
        self.end(if asked { TOLD_WITHIN } else { ENDS_WITHIN }).await?;
        Ok(fault.map_or(Ok(()), Err))
    }

    /// Ends everything that is left, by force if need be.
    async fn end(mut self, patience: Duration) -> Result<(), Overdue> {
        self.ways.send_replace(None);
        self.signals.lost.cancel();
        self.over.cancel();
        self.sessions.tasks.close();
        if timeout(patience, self.ended()).await.is_err() {
            tracing::warn!(
                sessions = self.sessions.tasks.len(),
                others = self.tasks.len(),
                "what is left of a term is cut off"
            );
            self.sessions.cut.cancel();
            self.tasks.abort_all();
            timeout(CUT_WITHIN, self.ended()).await.map_err(|_| Overdue)?;
        }
        // Of what it knew nothing is shown as the present; who waits for a change asks again, elsewhere.
        self.status.send_modify(|status| (status.leading, status.sessions) = (false, 0));
        self.snapshots.send_replace(Arc::default());
        self.watchers.notify_all();
        Ok(())
    }

    async fn ended(&mut self) {
        while self.tasks.join_next().await.is_some() {}
        self.sessions.tasks.wait().await;
    }
}

impl Sessions {
    /// Starts the task of one session. It ends with the term, wherever it waits then.
    pub(crate) fn start(&self, session: impl Future<Output = ()> + Send + 'static) {
        let cut = self.cut.clone();
        self.tasks.spawn(async move {
            // Cancel-safe: what a session has in hand dies with it, as it would with a broken connection.
            tokio::select! {
                () = session => {}
                () = cut.cancelled() => {}
            }
        });
    }
}

#[cfg(test)]
mod tests;
