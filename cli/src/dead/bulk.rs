//! One verb on many jobs: count, ask, do, tell.
//!
//! Invariant: nothing changes before the count was shown and agreed to. One job that fails stops none of the others.

use std::time::{Duration, Instant};

use serde::Serialize;
use tenure_client::Client;
use tenure_client::proto::JobState;
use tokio::task::JoinSet;

use crate::confirm::confirm;
use crate::exit::{Exit, Failure};
use crate::output::{Output, note};
use crate::{clock, human, report};

/// Calls in flight at once; the server commits them in batches.
const IN_FLIGHT: usize = 16;
/// How often progress is told.
const PROGRESS: Duration = Duration::from_secs(2);
/// Failures told one by one; more are only counted.
const FAILURES_TOLD: usize = 10;

/// What is done to each job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    /// Back to its queue.
    Requeue,
    /// Removed.
    Purge,
}

impl Verb {
    fn done(self) -> &'static str {
        match self {
            Self::Requeue => "requeued",
            Self::Purge => "purged",
        }
    }
}

/// What became of all of them.
#[derive(Debug, Serialize)]
struct Tally {
    matched: usize,
    changed: usize,
    failed: usize,
    dry_run: bool,
}

/// Does it.
pub(super) async fn run(
    verb: Verb,
    ids: Vec<String>,
    dry_run: bool,
    yes: bool,
    client: &Client,
    output: &Output,
) -> Result<Exit, Failure> {
    let count = human::count(ids.len(), "dead letter");
    let mut tally = Tally { matched: ids.len(), changed: 0, failed: 0, dry_run };
    let mut first_failure = None;
    if !dry_run && !ids.is_empty() {
        confirm(&format!("{count} will be {}. Go on?", verb.done()), yes)?;
        first_failure = carry_out(verb, ids, client, &mut tally).await;
    }
    if output.is_data() {
        output.value(&tally)?;
    } else if dry_run {
        output.line(&format!("{count} would be {} (--dry-run)", verb.done()))?;
    } else {
        output.line(&format!("{} of {count} {}", tally.changed, verb.done()))?;
    }
    match first_failure {
        Some(exit) => Err(Failure::Some { failed: tally.failed, all: tally.matched, exit }),
        None => Ok(Exit::Ok),
    }
}

async fn carry_out(verb: Verb, ids: Vec<String>, client: &Client, tally: &mut Tally) -> Option<Exit> {
    let mut ids = ids.into_iter();
    let mut calls = JoinSet::new();
    let mut first_failure = None;
    let mut told = clock::mono();
    loop {
        while calls.len() < IN_FLIGHT
            && let Some(id) = ids.next()
        {
            let client = client.clone();
            calls.spawn(async move { (call(verb, &id, &client).await, id) });
        }
        let Some(ended) = calls.join_next().await else { return first_failure };
        match ended {
            Ok((Ok(changed), _)) => tally.changed += usize::from(changed),
            Ok((Err(failure), id)) => {
                tally.failed += 1;
                first_failure.get_or_insert(failure.exit());
                if tally.failed <= FAILURES_TOLD {
                    report::one(&id, &failure);
                }
            }
            Err(_) => {
                tally.failed += 1;
                first_failure.get_or_insert(Exit::Failed);
            }
        }
        tell_progress(tally, &mut told);
    }
}

async fn call(verb: Verb, id: &str, client: &Client) -> Result<bool, Failure> {
    match verb {
        Verb::Requeue => Ok(client.requeue(id, false).await?.changed),
        // Somebody may have requeued it, or its node came back with its end, since it was listed and a person was asked.
        Verb::Purge if client.get(id).await?.state() != JobState::Dead => Ok(false),
        Verb::Purge => client.delete(id, false).await.map(|_| true).map_err(Failure::from),
    }
}

fn tell_progress(tally: &Tally, told: &mut Instant) {
    if told.elapsed() >= PROGRESS {
        note(format!("{} of {}", tally.changed + tally.failed, tally.matched));
        *told = clock::mono();
    }
}
