//! Producers: callers in a closed loop, one job a call or a batch a call.
//!
//! Responsible for counting what the server answered as stored, and for taking "busy, come back" as what it is: the same
//! jobs are sent again after the time that the server named, and counted once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use tenure_client::{Client, Error, NewJob};
use tenure_tests::clock::Moment;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::args::{Amount, Args};
use crate::rig::KIND;

/// How jobs are enqueued.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Calls at once.
    pub(crate) callers: usize,
    /// Jobs a call. 1: the single call.
    pub(crate) batch: usize,
    /// Bytes.
    pub(crate) payload: usize,
    pub(crate) kind: &'static str,
    pub(crate) priority: i32,
}

impl Load {
    /// Jobs of [`KIND`].
    pub(crate) fn new(callers: usize, batch: usize, args: &Args) -> anyhow::Result<Self> {
        Ok(Self { callers, batch, payload: usize::try_from(args.payload)?, kind: KIND, priority: 0 })
    }

    fn job(&self) -> NewJob {
        of_kind(self.kind, self.payload).priority(self.priority)
    }
}

/// What they did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Produced {
    /// Jobs that the server said to have stored.
    pub(crate) jobs: u64,
    /// Calls, or jobs of a batch, that were put off.
    pub(crate) busy: u64,
    /// From the first call to the last answer.
    pub(crate) took: Duration,
    /// When the first call was made.
    pub(crate) began: Moment,
}

/// Enqueues so much.
///
/// # Errors
/// If a job is refused, or the server is away.
pub(crate) async fn produce(clients: &[Client], load: Load, amount: Amount) -> anyhow::Result<Produced> {
    let began = Moment::now();
    let budget = Arc::new(Budget::new(amount, began));
    let mut callers = JoinSet::new();
    for number in 0..load.callers {
        let client = clients.get(number % clients.len().max(1)).context("no client")?.clone();
        callers.spawn(call(client, load, Arc::clone(&budget)));
    }
    let mut produced = Produced { began, ..Produced::default() };
    while let Some(ended) = callers.join_next().await {
        let (jobs, busy) = ended.context("a caller ended early")??;
        produced.jobs += jobs;
        produced.busy += busy;
    }
    produced.took = began.elapsed();
    ensure!(produced.jobs > 0, "nothing was enqueued");
    Ok(produced)
}

/// One job of the bench.
pub(crate) fn job(payload: usize) -> NewJob {
    of_kind(KIND, payload)
}

/// One job of a kind.
pub(crate) fn of_kind(kind: &str, payload: usize) -> NewJob {
    NewJob::new(kind).payload(vec![b'x'; payload]).content_type("text/plain")
}

/// What is left to be enqueued.
struct Budget {
    amount: Amount,
    began: Moment,
    taken: AtomicU64,
}

impl Budget {
    fn new(amount: Amount, began: Moment) -> Self {
        Self { amount, began, taken: AtomicU64::new(0) }
    }

    /// How many of these a caller may still enqueue.
    fn take(&self, wanted: u64) -> u64 {
        match self.amount {
            Amount::For(length) => {
                if self.began.elapsed() < length {
                    wanted
                } else {
                    0
                }
            }
            Amount::Jobs(all) => {
                let before = self.taken.fetch_add(wanted, Ordering::Relaxed);
                all.saturating_sub(before).min(wanted)
            }
        }
    }
}

/// One caller: how many jobs are stored, and how many were put off.
async fn call(client: Client, load: Load, budget: Arc<Budget>) -> anyhow::Result<(u64, u64)> {
    let (mut stored, mut busy) = (0, 0);
    let batch = u64::try_from(load.batch)?;
    loop {
        let count = budget.take(batch);
        if count == 0 {
            return Ok((stored, busy));
        }
        let mut jobs: Vec<NewJob> = (0..count).map(|_| load.job()).collect();
        while !jobs.is_empty() {
            let put_off =
                if load.batch == 1 { one(&client, &mut jobs).await } else { many(&client, &mut jobs).await };
            if let Some(wait) = put_off? {
                busy += u64::try_from(jobs.len())?;
                sleep(wait).await;
            }
        }
        stored += count;
    }
}

/// Leaves in `jobs` what was put off, and says for how long.
async fn one(client: &Client, jobs: &mut Vec<NewJob>) -> anyhow::Result<Option<Duration>> {
    let Some(job) = jobs.first() else { return Ok(None) };
    match judge(client.enqueue(job).await)? {
        None => {
            jobs.clear();
            Ok(None)
        }
        wait => Ok(wait),
    }
}

/// As [`one`], for a batch.
async fn many(client: &Client, jobs: &mut Vec<NewJob>) -> anyhow::Result<Option<Duration>> {
    let answers = client.enqueue_batch(jobs).await;
    ensure!(answers.len() == jobs.len(), "{} answers for {} jobs", answers.len(), jobs.len());
    let mut longest = None;
    let mut left = Vec::new();
    for (job, answer) in jobs.drain(..).zip(answers) {
        if let Some(wait) = judge(answer)? {
            longest = longest.max(Some(wait));
            left.push(job);
        }
    }
    *jobs = left;
    Ok(longest)
}

/// Whether a job is stored, anew; or for how long it was put off.
fn judge(answer: Result<tenure_client::Enqueued, Error>) -> anyhow::Result<Option<Duration>> {
    match answer {
        Ok(enqueued) if enqueued.deduplicated => bail!("{} was there before", enqueued.job.id),
        Ok(_) => Ok(None),
        Err(error) => match error.refusal().and_then(|refusal| refusal.retry_after) {
            Some(wait) => Ok(Some(wait)),
            None => Err(error.into()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_of_jobs_is_spent_exactly() {
        let budget = Budget::new(Amount::Jobs(1_100), Moment::now());
        let taken: Vec<u64> = (0..4).map(|_| budget.take(500)).collect();
        assert_eq!(taken, [500, 500, 100, 0]);
    }

    #[test]
    fn a_budget_of_time_ends_with_it() {
        let now = Moment::now();
        assert_eq!(Budget::new(Amount::For(Duration::from_secs(3_600)), now).take(500), 500);
        assert_eq!(Budget::new(Amount::For(Duration::ZERO), now).take(500), 0);
    }
}
