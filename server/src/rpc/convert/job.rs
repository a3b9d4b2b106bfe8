//! Jobs, their deferrals, attempts, results and explanations for the wire.

use std::collections::BTreeMap;

use tenure_proto::v1;
use tenure_scheduler::{
    Attempt, Deferral, DeferralView, FencingToken, Job, JobState, Kind, LiveView, Outcome, Progress,
    ScheduledCause, Wait, WaitPolicy, WaitView,
};
use tenure_store::StoredResult;

use super::{duration, needs, requirement, timestamp};

/// A job with what is known beside its row: its kind as it is in force, and, if it lives, how it stands now.
pub(crate) fn job(job: &Job, kind: Option<&Kind>, live: Option<&LiveView>) -> v1::Job {
    let policy = kind.map(|kind| &kind.policy);
    let started_at = live.and_then(|live| live.started_at).or(job.started_at);
    let node = match (live, &job.state) {
        (Some(live), _) => live.node.as_ref(),
        (None, JobState::Running) => job.last_node.as_ref(),
        (None, _) => None,
    };
    let limit = match (job.hard_time_limit, policy.map(|policy| policy.hard_time_limit)) {
        (Some(own), Some(kinds)) => Some(own.min(kinds)),
        (own, kinds) => own.or(kinds),
    };
    let soft = job.soft_time_limit.into_iter().chain(policy.and_then(|policy| policy.soft_time_limit)).min();
    let trace = job.trace.as_deref();
    let (selector, requirements) = requirement::both(&job.selector, policy.map(|policy| &policy.selector));
    v1::Job {
        id: job.id.to_string(),
        kind: job.kind.to_string(),
        tenant: job.tenant.to_string(),
        producer: job.producer.to_string(),
        state: state(&job.state).into(),
        version: job.version,
        priority: job.priority.into(),
        dedupe_key: job.dedupe_key.as_ref().map(ToString::to_string).unwrap_or_default(),
        dedupe_held: job.dedupe_held,
        concurrency_key: job.concurrency_key.as_ref().map(ToString::to_string).unwrap_or_default(),
        labels: job.labels.clone(),
        selector,
        requirements,
        prefer: requirement::preferred(
            job.prefer.iter().chain(policy.into_iter().flat_map(|policy| policy.prefer.iter())),
        ),
        needs: job.needs.as_ref().or(policy.map(|policy| &policy.needs)).map(needs),
        hard_time_limit: limit.map(duration),
        // As for a grant: one that the hard limit forestalls is none.
        soft_time_limit: soft.filter(|soft| limit.is_none_or(|hard| *soft < hard)).map(duration),
        parent_id: job.parent.map(|parent| parent.to_string()).unwrap_or_default(),
        root_id: job.root.to_string(),
        round: job.round,
        failures: job.failures,
        losses: job.losses,
        returns: job.returns,
        max_failures: policy.map(|policy| policy.max_failures).unwrap_or_default(),
        max_losses: policy.map(|policy| policy.max_losses).unwrap_or_default(),
        attempt: job.attempt(),
        token: job.token.0,
        node: node.map(ToString::to_string).unwrap_or_default(),
        cancel_requested: job.cancel_requested,
        create_time: Some(timestamp(job.created_at)),
        run_at: run_at(&job.state),
        stale_at: job.stale_at.map(timestamp),
        start_time: started_at.map(timestamp),
        finish_time: job.state.finished_at().map(timestamp),
        reason: job.reason.as_deref().unwrap_or_default().to_owned(),
        deferral: match live {
            Some(live) => live.deferral.as_ref().map(deferral),
            None => resting(job),
        },
        traceparent: trace.map(|trace| trace.parent.to_string()).unwrap_or_default(),
        tracestate: trace.and_then(|trace| trace.state.as_deref()).unwrap_or_default().to_owned(),
        payload_size: job.payload_size,
        workflow_id: job.workflow.map(|of| of.workflow.to_string()).unwrap_or_default(),
        workflow_place: job.workflow.map(|of| of.place),
        waits: job.waits.iter().map(share).collect(),
        progress: live.and_then(|live| live.progress.as_ref()).map(progress),
        cron: super::cron::firing(job),
        waiting_for: match live {
            Some(live) => live.waiting_for.as_ref().map(child_wait),
            None => row_wait(job).as_ref().map(child_wait),
        },
    }
}

fn progress(progress: &Progress) -> v1::JobProgress {
    v1::JobProgress {
        percent: progress.percent.into(),
        message: progress.message.to_string(),
        update_time: Some(timestamp(progress.at)),
    }
}

/// What the row alone tells of a wait for children.
fn row_wait(job: &Job) -> Option<WaitView> {
    let waits = matches!(job.state, JobState::Waiting { .. });
    job.detached.as_ref().filter(|_| waits).map(|detached| detached.wait.view(false))
}

fn child_wait(view: &WaitView) -> v1::ChildWait {
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let (policy, at_least) = match view.policy {
        WaitPolicy::All => (v1::WaitPolicy::All, 0),
        WaitPolicy::Any => (v1::WaitPolicy::Any, 0),
        WaitPolicy::AtLeast(number) => (v1::WaitPolicy::AtLeast, number),
        WaitPolicy::FirstFailure => (v1::WaitPolicy::FirstFailure, 0),
    };
    v1::ChildWait {
        children: count(view.children),
        unfinished: count(view.unfinished),
        unfinished_job_ids: view.first.iter().map(ToString::to_string).collect(),
        policy: policy.into(),
        at_least,
        until: view.until.map(timestamp),
        parked: view.parked,
    }
}

/// A state of the wire.
pub(crate) fn state(state: &JobState) -> v1::JobState {
    match state {
        JobState::Scheduled { .. } => v1::JobState::Scheduled,
        JobState::Blocked { .. } => v1::JobState::Blocked,
        JobState::Queued { .. } => v1::JobState::Queued,
        JobState::Running => v1::JobState::Running,
        JobState::Waiting { .. } => v1::JobState::Waiting,
        JobState::Succeeded { .. } => v1::JobState::Succeeded,
        JobState::Dead { .. } => v1::JobState::Dead,
        JobState::Cancelled { .. } => v1::JobState::Cancelled,
        JobState::Expired { .. } => v1::JobState::Expired,
    }
}

/// The name of a state of the wire, as the store knows it.
pub(crate) fn state_name(state: v1::JobState) -> Option<&'static str> {
    match state {
        v1::JobState::Unspecified => None,
        v1::JobState::Scheduled => Some("scheduled"),
        v1::JobState::Blocked => Some("blocked"),
        v1::JobState::Queued => Some("queued"),
        v1::JobState::Running => Some("running"),
        v1::JobState::Waiting => Some("waiting"),
        v1::JobState::Succeeded => Some("succeeded"),
        v1::JobState::Dead => Some("dead"),
        v1::JobState::Cancelled => Some("cancelled"),
        v1::JobState::Expired => Some("expired"),
    }
}

/// The state of the wire with this name in the store.
pub(crate) fn state_of_name(name: &str) -> v1::JobState {
    let mut known = (0..=9).filter_map(|number| v1::JobState::try_from(number).ok());
    known.find(|state| state_name(*state) == Some(name)).unwrap_or_default()
}

fn run_at(state: &JobState) -> Option<prost_types::Timestamp> {
    if let JobState::Scheduled { until, .. } = state { Some(timestamp(*until)) } else { None }
}

/// What the row alone tells of why a job does not run: for answers that are given before placement looked at it.
fn resting(job: &Job) -> Option<v1::Deferral> {
    let (reason, since) = match job.state {
        JobState::Scheduled { until, cause: ScheduledCause::RunAt } => {
            (Deferral::RunAt { until }, job.created_at)
        }
        JobState::Scheduled { until, cause: ScheduledCause::Backoff } => {
            let since = job.granted_at.unwrap_or(job.created_at);
            (Deferral::Backoff { until }, since)
        }
        JobState::Queued { since } => (Deferral::Ready, since),
        // How many is known to its workflow alone.
        JobState::Blocked { since } => (Deferral::Blocked { predecessors: 1 }, since),
        JobState::Waiting { since } => {
            let children = row_wait(job).map_or(0, |view| view.unfinished);
            (Deferral::WaitingChildren { children: u32::try_from(children).unwrap_or(u32::MAX) }, since)
        }
        JobState::Running
        | JobState::Succeeded { .. }
        | JobState::Dead { .. }
        | JobState::Cancelled { .. }
        | JobState::Expired { .. } => return None,
    };
    Some(deferral(&DeferralView { reason, since, count: 0, history: Vec::new() }))
}

fn deferral(view: &DeferralView) -> v1::Deferral {
    v1::Deferral {
        reason: view.reason.name().to_owned(),
        parameters: parameters(&view.reason),
        message: view.reason.to_string(),
        count: view.count,
        since: Some(timestamp(view.since)),
        history: view.history.iter().map(share).collect(),
    }
}

pub(super) fn parameters(reason: &Deferral) -> BTreeMap<String, String> {
    reason.parameters().into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn share(wait: &Wait) -> v1::DeferralShare {
    v1::DeferralShare {
        reason: wait.reason.to_string(),
        message: wait.message.to_string(),
        count: wait.count,
        duration: Some(duration(wait.duration)),
    }
}

/// An ended execution.
pub(crate) fn attempt(attempt: &Attempt) -> v1::Attempt {
    v1::Attempt {
        job_id: attempt.job.to_string(),
        token: attempt.token.0,
        attempt: attempt.attempt,
        round: attempt.round,
        node: attempt.node.to_string(),
        outcome: outcome(attempt.outcome).into(),
        cause: attempt.cause.to_string(),
        error: attempt.error.to_string(),
        exit_code: attempt.exit_code,
        grant_time: Some(timestamp(attempt.granted_at)),
        start_time: attempt.started_at.map(timestamp),
        end_time: Some(timestamp(attempt.ended_at)),
        started: attempt.started_at.is_some(),
        usage: attempt.usage.iter().map(|(counter, used)| (counter.to_string(), *used)).collect(),
        partial: attempt.partial,
        checkpoint_size: attempt.checkpoint_size.unwrap_or_default(),
    }
}

/// The only execution of a job that succeeded has no row of its own: the job's columns tell it. None if the newest
/// execution did not end so.
pub(crate) fn only_attempt(job: &Job) -> Option<v1::Attempt> {
    let JobState::Succeeded { at } = job.state else { return None };
    if job.last_outcome != Some(Outcome::Succeeded) || job.token == FencingToken::NONE {
        return None;
    }
    Some(v1::Attempt {
        job_id: job.id.to_string(),
        token: job.token.0,
        attempt: job.attempt(),
        round: job.round,
        node: job.last_node.as_ref().map(ToString::to_string).unwrap_or_default(),
        outcome: v1::Outcome::Succeeded.into(),
        cause: "exit".to_owned(),
        error: String::new(),
        exit_code: Some(0),
        grant_time: job.granted_at.map(timestamp),
        start_time: job.started_at.map(timestamp),
        end_time: Some(timestamp(at)),
        started: true,
        // One that reported any, or was partial, has a row of its own.
        usage: Default::default(),
        partial: false,
        checkpoint_size: 0,
    })
}

fn outcome(outcome: Outcome) -> v1::Outcome {
    match outcome {
        Outcome::Succeeded => v1::Outcome::Succeeded,
        Outcome::Failed => v1::Outcome::FailedRetryable,
        Outcome::FailedPermanent => v1::Outcome::FailedPermanent,
        Outcome::TimedOut => v1::Outcome::TimedOut,
        Outcome::Stalled => v1::Outcome::Stalled,
        Outcome::Lost => v1::Outcome::Lost,
        Outcome::Returned => v1::Outcome::Returned,
        Outcome::Cancelled => v1::Outcome::Cancelled,
        Outcome::Detached => v1::Outcome::Detached,
    }
}

/// Output bytes.
pub(crate) fn result(result: StoredResult) -> v1::Result {
    v1::Result {
        job_id: result.job.to_string(),
        token: result.token.0,
        data: result.data,
        content_type: result.content_type,
        create_time: Some(timestamp(result.created_at)),
        expire_time: Some(timestamp(result.expires_at)),
        partial: result.partial,
    }
}
