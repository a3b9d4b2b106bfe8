//! Retention: what has ended and whose time is over is removed, in small turns.
//!
//! Responsible for reading what is due, off the driver, and asking for it in batches of 500. Not for deciding: the
//! scheduler keeps what is not final, or is held by a lease, whatever was read. A batch that cannot be stored is asked
//! for item by item, and what fails alone is skipped, so that one bad row stops nobody else's sweep.

use std::{collections::BTreeSet, time::Duration};

use tenure_scheduler::{Command, DueResult, FencingToken, Job, JobId, Reply, Wall, WorkflowId, micros};
use tenure_store::{KindCutoff, reader};
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;

use crate::{
    chain::Chain,
    config::Retention,
    handle::{Handle, Submission, SubmitError},
    results::Results,
};

/// Items of one turn.
const BATCH: u32 = 500;

/// Items that are skipped because they failed alone. The lowest are tried again beyond that.
const MOST_SKIPPED: usize = 500;

/// When to sweep, and what.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// Between two sweeps.
    pub(crate) every: Duration,
    /// How long final jobs of kinds are kept that are declared no more; it may be replaced meanwhile.
    pub(crate) retention: watch::Receiver<Retention>,
}

/// The sweeper of one server.
#[derive(Debug)]
pub(crate) struct Sweeper {
    options: Options,
    handle: Handle,
    objects: Results,
    skipped_jobs: BTreeSet<JobId>,
    skipped_results: BTreeSet<(JobId, FencingToken)>,
    skipped_workflows: BTreeSet<WorkflowId>,
}

/// Why a sweep stopped before everything was done. The next one goes on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("what is due cannot be read")]
    Read(#[from] reader::Error),
    #[error("what is due cannot be removed")]
    Submit(#[from] SubmitError),
}

/// What is due.
#[derive(Debug, Default)]
struct Due {
    jobs: Vec<Job>,
    results: Vec<DueResult>,
    /// Without a job.
    workflows: Vec<WorkflowId>,
}

impl Sweeper {
    pub(crate) fn new(options: Options, handle: Handle, objects: Results) -> Self {
        Self {
            options,
            handle,
            objects,
            skipped_jobs: BTreeSet::new(),
            skipped_results: BTreeSet::new(),
            skipped_workflows: BTreeSet::new(),
        }
    }

    /// Sweeps from time to time, until the server ends. A sweep that fails is logged; the next one tries again.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) -> Result<(), std::convert::Infallible> {
        loop {
            // Cancel-safe: both only wait.
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return Ok(()),
                () = sleep(self.options.every) => {}
            }
            // Cancel-safe: what was submitted is applied or not, and is read again as due if not.
            let swept = tokio::select! {
                biased;
                () = shutdown.cancelled() => return Ok(()),
                swept = self.sweep() => swept,
            };
            match swept {
                Ok(0) => {}
                Ok(removed) => tracing::info!(removed, "swept what was past its retention"),
                Err(error) => tracing::warn!(error = %Chain(&error), "a sweep was cut short"),
            }
        }
    }

    /// Removes everything that is due. The answer is how much.
    pub(crate) async fn sweep(&mut self) -> Result<u64, Error> {
        let mut removed = 0;
        loop {
            let due = self.due().await?;
            let full = due.jobs.len() + due.results.len() + due.workflows.len() >= BATCH as usize;
            let swept = match self.submit(due.jobs.clone(), due.results.clone(), due.workflows.clone()).await
            {
                Err(SubmitError::Broken) => self.one_by_one(due).await?,
                swept => swept?,
            };
            removed += swept;
            // What is due and stays (a lease holds it) must not keep the sweep going.
            if !full || swept == 0 {
                return Ok(removed);
            }
        }
    }

    async fn due(&self) -> Result<Due, Error> {
        let now = self.handle.clock().wall();
        // Asked, not read from what is published: a kind that was declared a moment ago must not count as unknown.
        let kinds = self.handle.query(|state, _| state.kinds().cloned().collect::<Vec<_>>()).await?;
        let cutoffs: Vec<KindCutoff> = kinds
            .iter()
            .map(|kind| KindCutoff {
                kind: kind.name.clone(),
                finished_until: before(now, kind.policy.retention),
            })
            .collect();
        let others = before(now, self.options.retention.borrow().final_jobs);
        let reader = self.handle.reader();
        let mut jobs = reader.due_jobs(&cutoffs, others, limit(self.skipped_jobs.len())).await?;
        jobs.retain(|job| !self.skipped_jobs.contains(&job.id));
        let mut results = reader.due_results(now, limit(self.skipped_results.len())).await?;
        results.retain(|result| !self.skipped_results.contains(&(result.job, result.token)));
        let mut workflows = reader.due_workflows(limit(self.skipped_workflows.len())).await?;
        workflows.retain(|workflow| !self.skipped_workflows.contains(workflow));
        Ok(Due { jobs, results, workflows })
    }

    async fn submit(
        &self,
        jobs: Vec<Job>,
        results: Vec<DueResult>,
        workflows: Vec<WorkflowId>,
    ) -> Result<u64, SubmitError> {
        if jobs.is_empty() && results.is_empty() && workflows.is_empty() {
            return Ok(0);
        }
        let about: Vec<JobId> =
            jobs.iter().map(|job| job.id).chain(results.iter().map(|result| result.job)).collect();
        let command = Command::Sweep { jobs, results, workflows };
        // What cannot be read now, or not removed afterwards, is found by the sweep of object storage.
        let objects = self.objects.of_jobs(self.handle.reader(), &about).await.unwrap_or_default();
        let reply = self.handle.submit(Submission { command, payload: None, more: Vec::new() }).await?;
        if let Err(error) = self.objects.forget(self.handle.reader(), &objects).await {
            tracing::warn!(error = %Chain(&error), "objects of results that were swept are not removed yet");
        }
        if let Reply::Swept { jobs, results, workflows } = reply {
            Ok(u64::from(jobs) + u64::from(results) + u64::from(workflows))
        } else {
            Err(SubmitError::Broken)
        }
    }

    /// Something among them cannot be removed. What it is, is skipped from now on.
    async fn one_by_one(&mut self, due: Due) -> Result<u64, SubmitError> {
        let mut removed = 0;
        for job in due.jobs {
            let id = job.id;
            match self.submit(vec![job], Vec::new(), Vec::new()).await {
                Err(SubmitError::Broken) => {
                    tracing::error!(job.id = %id, "a final job cannot be removed; it is skipped");
                    skip(&mut self.skipped_jobs, id);
                }
                swept => removed += swept?,
            }
        }
        for result in due.results {
            match self.submit(Vec::new(), vec![result], Vec::new()).await {
                Err(SubmitError::Broken) => {
                    tracing::error!(job.id = %result.job, lease.token = %result.token, "a result cannot be removed; it is skipped");
                    skip(&mut self.skipped_results, (result.job, result.token));
                }
                swept => removed += swept?,
            }
        }
        for workflow in due.workflows {
            match self.submit(Vec::new(), Vec::new(), vec![workflow]).await {
                Err(SubmitError::Broken) => {
                    tracing::error!(workflow.id = %workflow, "a final workflow cannot be removed; it is skipped");
                    skip(&mut self.skipped_workflows, workflow);
                }
                swept => removed += swept?,
            }
        }
        Ok(removed)
    }
}

fn before(now: Wall, length: Duration) -> Wall {
    Wall(now.0.saturating_sub(i64::try_from(micros(length)).unwrap_or(i64::MAX)))
}

fn limit(skipped: usize) -> u32 {
    BATCH.saturating_add(u32::try_from(skipped).unwrap_or(u32::MAX))
}

fn skip<T: Ord>(skipped: &mut BTreeSet<T>, item: T) {
    skipped.insert(item);
    while skipped.len() > MOST_SKIPPED {
        skipped.pop_first();
    }
}
