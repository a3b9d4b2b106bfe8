//! The end of an execution: what becomes of its job, its counters and its lease.

use std::{sync::Arc, time::Duration};

use crate::{
    budget::Usage,
    event::{AttemptEnd, Event},
    family::Detached,
    ids::FencingToken,
    job::{Job, JobState, Outcome, ScheduledCause},
    kind::KindPolicy,
    lease::Stage,
    retry::{MOST_RETRY_AFTER, backoff},
    step::{Step, text},
    time::{Now, Wall},
};

/// The cause of an attempt that said itself why it fails: its words count for more than its exit code.
const SAID: &str = "said";

/// From this many returns in a row on, the retry back-off applies.
const RETURNS_BEFORE_BACKOFF: u32 = 5;

/// How an execution ended, before it is known what that means for its job.
#[derive(Debug, Clone)]
pub(crate) struct End {
    pub(crate) outcome: Outcome,
    pub(crate) how: How,
    pub(crate) cause: Arc<str>,
    pub(crate) error: Arc<str>,
    pub(crate) exit_code: Option<i32>,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) usage: Usage,
    pub(crate) keep_result: bool,
    /// Its result, if it left one, is what there was when it had to end.
    pub(crate) partial: bool,
    /// The size of its newest checkpoint, if that travels beside.
    pub(crate) checkpoint: Option<u64>,
    /// The node found it stale before it could start.
    pub(crate) stale: bool,
    /// What it waits for, if it detached.
    pub(crate) detached: Option<Box<Detached>>,
}

/// What is known of the process tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// The command has ended; `reaped` is still to come. The lease lives.
    Ended,
    /// It is gone, or never was.
    Gone,
    /// Nobody knows. The lease is over, the node slots stay charged.
    Silent,
}

impl End {
    pub(crate) fn new(outcome: Outcome, how: How) -> Self {
        Self {
            outcome,
            how,
            cause: text(""),
            error: text(""),
            exit_code: None,
            retry_after: None,
            usage: Usage::new(),
            keep_result: false,
            partial: false,
            checkpoint: None,
            stale: false,
            detached: None,
        }
    }
}

impl Step<'_> {
    /// Ends the execution under a live lease whose outcome is open.
    pub(crate) fn end(&mut self, token: FencingToken, end: End) {
        let Some(entry) = self.state.leases.get(&token) else { return };
        let Some(job) = self.state.jobs.get(&entry.lease.job) else { return };
        let stage = match end.how {
            How::Ended => Some(Stage::Finished),
            How::Gone => None,
            How::Silent if entry.lease.reservation.node.is_empty() => None,
            How::Silent => Some(Stage::Unreaped),
        };
        let place = (entry.lease.node.clone(), entry.lease.kind.clone());
        let asks_for_later = end.retry_after.is_some();
        let attempt =
            decide(&job.job, self.policy(&job.job), self.now, token, entry.watch.started_at, stage, end);
        let (job, outcome) = (attempt.job, attempt.outcome);
        self.emit(Event::AttemptEnded(Box::new(attempt)));
        self.judge_node((&place.0, &place.1), (job, token), outcome, asks_for_later);
        self.notify(job);
        if outcome == Outcome::Lost {
            self.lose_family(job);
        }
    }

    /// A loss (or an undelivered grant) whose node came back with the outcome before anything else happened.
    pub(crate) fn replace_loss(&mut self, job: &Job, end: End) {
        let policy = self.policy(job);
        // What the row has may be the start of an earlier execution: of this one none was reported.
        let own_start =
            job.started_at.filter(|started| job.granted_at.is_none_or(|granted| granted <= *started));
        let started_at = own_start.or(job.granted_at);
        let mut before = job.clone();
        before.take_back_loss();
        let asks_for_later = end.retry_after.is_some();
        let attempt = decide(&before, policy, self.now, job.token, started_at, None, end);
        let outcome = attempt.outcome;
        self.emit(Event::LossReplaced(Box::new(attempt)));
        if let Some(node) = &job.last_node {
            self.judge_node((node, &job.kind), (job.id, job.token), outcome, asks_for_later);
        }
        self.notify(job.id);
    }

    fn policy(&self, job: &Job) -> KindPolicy {
        self.state.kind(&job.kind).map(|kind| kind.policy.clone()).unwrap_or_default()
    }
}

/// What the end of an execution means for its job.
fn decide(
    job: &Job,
    policy: KindPolicy,
    now: Now,
    token: FencingToken,
    started_at: Option<Wall>,
    lease: Option<Stage>,
    mut end: End,
) -> AttemptEnd {
    if end.outcome == Outcome::Failed
        && &*end.cause != SAID
        && end.exit_code.is_some_and(|code| policy.permanent_exit_codes.contains(&code))
    {
        end.outcome = Outcome::FailedPermanent;
    }
    if job.cancel_requested {
        end.outcome = Outcome::Cancelled;
    }
    let (next, mut reason) = next_state(job, &policy, now, &end);
    let succeeded = end.outcome == Outcome::Succeeded;
    let only = job.failures + job.losses + job.returns == 0 && job.round == 1 && job.detached.is_none();
    let partial = end.partial && end.keep_result && may_be_partial(end.outcome);
    if succeeded && partial {
        reason = Some(text("its result is partial: it had been asked to wrap up"));
    }
    let detached = end.detached.take().filter(|_| end.outcome == Outcome::Detached);
    AttemptEnd {
        token,
        job: job.id,
        outcome: end.outcome,
        keep_row: !(succeeded && only && !partial && end.usage.is_empty()),
        usage: end.usage,
        keep_result: (succeeded || partial || detached.is_some()) && end.keep_result,
        partial,
        checkpoint: end.checkpoint.filter(|_| !succeeded),
        cause: end.cause,
        error: end.error,
        exit_code: end.exit_code,
        started_at,
        next,
        reason,
        lease,
        detached,
    }
}

/// Whether what an execution left as its result may be kept as a partial one: it ran, and had its time, or had it taken away
/// for a reason that was not its own.
fn may_be_partial(outcome: Outcome) -> bool {
    match outcome {
        Outcome::Succeeded
        | Outcome::Failed
        | Outcome::FailedPermanent
        | Outcome::TimedOut
        | Outcome::Stalled
        | Outcome::Returned => true,
        Outcome::Lost | Outcome::Cancelled | Outcome::Detached => false,
    }
}

fn next_state(job: &Job, policy: &KindPolicy, now: Now, end: &End) -> (JobState, Option<Arc<str>>) {
    let at = now.wall;
    let later =
        |wait: Duration| JobState::Scheduled { until: at.after(wait), cause: ScheduledCause::Backoff };
    let said = Some(if end.error.is_empty() { end.cause.clone() } else { end.error.clone() });
    match end.outcome {
        Outcome::Succeeded => (JobState::Succeeded { at }, None),
        Outcome::Detached if end.detached.as_ref().is_some_and(|detached| !detached.wait.is_met()) => {
            (JobState::Waiting { since: at }, None)
        }
        Outcome::Detached => (JobState::Queued { since: at }, None),
        Outcome::Cancelled => (JobState::Cancelled { at }, None),
        Outcome::FailedPermanent => (JobState::Dead { at }, said),
        Outcome::Failed | Outcome::TimedOut | Outcome::Stalled if job.failures + 1 >= policy.max_failures => {
            (JobState::Dead { at }, said)
        }
        Outcome::Failed | Outcome::TimedOut | Outcome::Stalled => {
            let asked = end.retry_after.unwrap_or_default().min(MOST_RETRY_AFTER);
            (later(backoff(&policy.retry, job.id, job.attempt()).max(asked)), said)
        }
        Outcome::Lost if job.losses + 1 >= policy.max_losses => (JobState::Dead { at }, said),
        Outcome::Lost => (JobState::Queued { since: at }, said),
        Outcome::Returned if end.stale => {
            (JobState::Expired { at }, Some(text("not started within its stale_after, as its node found")))
        }
        Outcome::Returned if job.returns_in_row + 1 >= RETURNS_BEFORE_BACKOFF => {
            let nth = job.returns_in_row + 2 - RETURNS_BEFORE_BACKOFF;
            (later(backoff(&policy.retry, job.id, nth)), said)
        }
        Outcome::Returned => (JobState::Queued { since: at }, said),
    }
}
