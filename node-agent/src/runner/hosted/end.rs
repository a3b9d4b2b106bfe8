//! How an attempt in a worker ended, in the protocol's words. Pure.
//!
//! Invariant: an attempt that ended for a reason neither its own nor its node's is a return.

use std::collections::BTreeMap;

use tenure_proto::node::v1::{
    Checkpoint, Finished, FinishedOutcome, Report, ResultBytes, Returned, Throttled, WorkDetached, WorkEnded,
    WorkFailed, WorkSucceeded, report::Event, work_ended,
};

use super::course::{Course, Why};
use crate::clock::Mono;
use crate::holdings::{End, FencingToken, StopReason};
use crate::own_rule::OwnRule;
use crate::runner::detach::{self, Wanted};
use crate::runner::outcome;
use crate::runner::outcome::cut;
use crate::runner::socket::{Failure, MOST_COUNTERS, MOST_USAGE, Said};
use crate::runner::upload::Limits;
use crate::runner::words;

/// A longer back-off is none that a job may ask for.
const LONGEST_BACKOFF: i64 = 24 * 3_600;

/// What ended it.
#[derive(Debug)]
pub(super) enum Ending {
    /// The worker said how.
    Said(Box<WorkEnded>),
    /// The worker's process is gone.
    Over {
        /// The agent killed it, for another attempt.
        for_another: bool,
    },
}

/// What an attempt has said at its socket by its end.
#[derive(Debug, Default)]
pub(super) struct Spoken {
    /// Its words.
    pub(super) said: Said,
    /// Its newest checkpoint.
    pub(super) checkpoint: Option<Vec<u8>>,
}

/// The report of an end, and its kind.
pub(super) fn report(
    (job, token): (&str, FencingToken),
    ending: Ending,
    spoken: Spoken,
    course: &Course,
    (now, limits): (Mono, Limits),
) -> (Report, End) {
    let Spoken { said, checkpoint } = spoken;
    let (mut event, end, usage) = match ending {
        Ending::Said(ended) => {
            let WorkEnded { end, usage, .. } = *ended;
            let (event, end) = in_its_words(end, &said, course, limits);
            (event, end, usage)
        }
        Ending::Over { for_another } => {
            let (event, end) = without_words(for_another, &said, course);
            (event, end, BTreeMap::new())
        }
    };
    if let Event::Finished(finished) = &mut event {
        finished.ran_for = prost_types::Duration::try_from(course.ran_for(now)).ok();
        // What it wanted with a provider counts as well if it did not come to end by itself.
        if matches!(finished.outcome(), FinishedOutcome::TimedOut | FinishedOutcome::Stalled)
            && let Some(failure) = &said.failure
        {
            words::heed(finished, failure);
        }
    }
    let event = with_checkpoint(with_usage(event, said.usage, usage), checkpoint);
    (Report { job_id: job.to_owned(), token: token.0, event: Some(event) }, end)
}

/// The worker says how it ended.
fn in_its_words(end: Option<work_ended::End>, said: &Said, course: &Course, limits: Limits) -> (Event, End) {
    let why = course.why;
    let partial = course.asked || matches!(why, Some(Why::Limit | Why::SoftLimit));
    let had_its_time = matches!(why, Some(Why::Limit | Why::SoftLimit | Why::Stalled));
    match end {
        Some(work_ended::End::Succeeded(it)) => match why {
            // Whatever it made of it: it had its time. What it has made is kept.
            Some(Why::Limit | Why::Stalled) => {
                (with_partial(stopped(why).0, it, limits.inline), End::Finished)
            }
            Some(Why::SoftLimit) if !it.has_result => stopped(why),
            // Asked to wrap up it has done what it was asked for if it leaves something.
            Some(Why::SoftLimit | Why::Ordered(_) | Why::CutOff | Why::Detach) | None => {
                (Event::Finished(succeeded(it, limits, partial)), End::Finished)
            }
        },
        Some(work_ended::End::Failed(it)) if !had_its_time => {
            (Event::Finished(failed(it, said.failure.as_ref())), End::Finished)
        }
        Some(work_ended::End::Detached(it)) if matches!(why, None | Some(Why::Detach)) => {
            (Event::Finished(detached(it)), End::Finished)
        }
        Some(work_ended::End::Stopped(_)) | None if why.is_none() && course.asked => {
            stopped(Some(Why::SoftLimit))
        }
        Some(work_ended::End::Stopped(_) | work_ended::End::Failed(_) | work_ended::End::Detached(_))
        | None => stopped(why),
    }
}

/// Its worker is over, and has said nothing of it.
fn without_words(for_another: bool, said: &Said, course: &Course) -> (Event, End) {
    match (course.why, &said.failure) {
        (Some(why), _) => stopped(Some(why)),
        // It has said itself that it was about to fail.
        (None, Some(failure)) => {
            let it = WorkFailed { error: failure.reason.clone(), ..WorkFailed::default() };
            let finished = Finished { cause: words::SAID.to_owned(), ..failed(it, Some(failure)) };
            (Event::Finished(finished), End::Finished)
        }
        (None, None) if for_another => (returned(OwnRule::Terminated), End::Returned),
        (None, None) => {
            let error = "its worker died, or broke its stream, while it ran".to_owned();
            (Event::Finished(finish(FinishedOutcome::Lost, "worker_died", error)), End::Finished)
        }
    }
}

/// A loss, of which nobody knows how long it ran.
pub(super) fn lost(job: &str, token: FencingToken, error: &str, spoken: Spoken) -> Report {
    let event = Event::Finished(finish(FinishedOutcome::Lost, "lost", error.to_owned()));
    let event = with_checkpoint(with_usage(event, spoken.said.usage, BTreeMap::new()), spoken.checkpoint);
    Report { job_id: job.to_owned(), token: token.0, event: Some(event) }
}

fn stopped(why: Option<Why>) -> (Event, End) {
    let rule = match why {
        // The worker leaves, and has stopped what it ran.
        None => OwnRule::Draining,
        Some(Why::CutOff) => OwnRule::CutOff,
        Some(Why::Limit) => {
            let finished =
                finish(FinishedOutcome::TimedOut, "limit", "stopped at its hard time limit".to_owned());
            return (Event::Finished(finished), End::Finished);
        }
        Some(Why::SoftLimit) => {
            let error = "stopped after its soft time limit and grace".to_owned();
            let finished = finish(FinishedOutcome::TimedOut, "soft_limit", error);
            return (Event::Finished(finished), End::Finished);
        }
        Some(Why::Stalled) => {
            let error = "stopped: nothing was heard of it for its progress_timeout".to_owned();
            return (Event::Finished(finish(FinishedOutcome::Stalled, "stalled", error)), End::Finished);
        }
        Some(Why::Detach) => {
            let error = "stopped: it held nothing to run with any more, and did not detach".to_owned();
            return (Event::Finished(finish(FinishedOutcome::Failed, "must_detach", error)), End::Finished);
        }
        Some(Why::Ordered(StopReason::NotLive | StopReason::Cancelled)) => {
            let finished =
                finish(FinishedOutcome::Revoked, "revoked", "stopped on the server's order".to_owned());
            return (Event::Finished(finished), End::Finished);
        }
        Some(Why::Ordered(
            reason @ (StopReason::Unanswered | StopReason::Drained | StopReason::Superseded),
        )) => reason.rule(),
    };
    (returned(rule), End::Returned)
}

fn returned(rule: OwnRule) -> Event {
    Event::Returned(Returned { rule: rule.to_string(), started: true, ..Returned::default() })
}

/// With the whole result in it, also one that has to be uploaded: see `upload::taken_from`.
fn succeeded(it: WorkSucceeded, limits: Limits, partial: bool) -> Finished {
    let limit = limits.inline.max(limits.uploaded);
    let WorkSucceeded { has_result, data, content_type } = it;
    let size = u64::try_from(data.len()).unwrap_or(u64::MAX);
    if size > limit {
        return finish(FinishedOutcome::FailedPermanent, "result_too_large", outcome::too_large(limit));
    }
    let result = has_result.then(|| inline(data, content_type));
    let partial = partial && has_result;
    Finished { result, partial, ..finish(FinishedOutcome::Succeeded, "exit", String::new()) }
}

fn inline(data: bytes::Bytes, content_type: String) -> ResultBytes {
    let fine = !content_type.is_empty()
        && content_type.len() <= detach::LONGEST_TYPE
        && !content_type.contains('\0');
    let content_type = if fine { content_type } else { "application/octet-stream".to_owned() };
    ResultBytes { data, content_type }
}

/// What it has made by the end of its time is kept as a partial result.
fn with_partial(event: Event, it: WorkSucceeded, limit: u64) -> Event {
    let fits = u64::try_from(it.data.len()).is_ok_and(|size| size <= limit);
    match event {
        Event::Finished(finished) if it.has_result && fits => {
            let result = Some(inline(it.data, it.content_type));
            Event::Finished(Finished { result, partial: true, ..finished })
        }
        event @ (Event::Finished(_)
        | Event::Returned(_)
        | Event::Accepted(_)
        | Event::Started(_)
        | Event::Progress(_)
        | Event::Reaped(_)
        | Event::Checkpoint(_)) => event,
    }
}

/// What it leaves out is taken from what it said before.
fn failed(it: WorkFailed, before: Option<&Failure>) -> Finished {
    let WorkFailed { permanent, error, retry_after, throttled_slot } = it;
    let permanent = permanent || before.is_some_and(|before| before.permanent);
    let outcome = if permanent { FinishedOutcome::FailedPermanent } else { FinishedOutcome::Failed };
    // What is no duration is no wish: a server could not take the report.
    let is_one =
        |after: &prost_types::Duration| after.seconds >= 0 && (0..=999_999_999).contains(&after.nanos);
    let retry_after = retry_after.filter(is_one).map(|after| {
        if after.seconds < LONGEST_BACKOFF {
            after
        } else {
            prost_types::Duration { seconds: LONGEST_BACKOFF, nanos: 0 }
        }
    });
    let throttled =
        crate::config::is_name(&throttled_slot).then_some(Throttled { slot: throttled_slot, retry_after });
    let error = if error.is_empty() { "it failed without a word".to_owned() } else { error };
    let mut finished = finish(outcome, "error", error);
    if let Some(before) = before {
        words::heed(&mut finished, before);
    }
    finished.retry_after = retry_after.or(finished.retry_after);
    finished.throttled = throttled.or(finished.throttled);
    finished
}

/// It waits for others, unless nobody can wait for that.
fn detached(it: WorkDetached) -> Finished {
    match detach::check(it) {
        Ok(Wanted { detach, state }) => Finished {
            detach: Some(detach),
            result: state,
            ..finish(FinishedOutcome::Detached, words::DETACH, String::new())
        },
        Err(why) => finish(FinishedOutcome::Failed, words::BAD_WAIT, why),
    }
}

/// What it used is charged, however it ended: what it said at its socket, and what its worker says of it at its end. What
/// cannot be charged is left out.
fn with_usage(event: Event, said: BTreeMap<String, u64>, told: BTreeMap<String, u64>) -> Event {
    let mut usage = said;
    for (counter, count) in told.into_iter().filter(|(counter, _)| crate::config::is_name(counter)) {
        let sum = usage.get(&counter).copied().unwrap_or(0).saturating_add(count);
        if sum <= MOST_USAGE && (usage.len() < MOST_COUNTERS || usage.contains_key(&counter)) {
            usage.insert(counter, sum);
        }
    }
    match event {
        Event::Finished(finished) => Event::Finished(Finished { usage, ..finished }),
        Event::Returned(returned) => Event::Returned(Returned { usage, ..returned }),
        event @ (Event::Accepted(_)
        | Event::Started(_)
        | Event::Progress(_)
        | Event::Reaped(_)
        | Event::Checkpoint(_)) => event,
    }
}

/// What it saved is for the attempt that follows.
fn with_checkpoint(event: Event, saved: Option<Vec<u8>>) -> Event {
    let checkpoint = saved.map(|bytes| Checkpoint { data: bytes.into() });
    match event {
        Event::Finished(finished) if finished.outcome() != FinishedOutcome::Succeeded => {
            Event::Finished(Finished { checkpoint, ..finished })
        }
        Event::Returned(returned) => Event::Returned(Returned { checkpoint, ..returned }),
        event @ (Event::Finished(_)
        | Event::Accepted(_)
        | Event::Started(_)
        | Event::Progress(_)
        | Event::Reaped(_)
        | Event::Checkpoint(_)) => event,
    }
}

fn finish(outcome: FinishedOutcome, cause: &str, error: String) -> Finished {
    Finished { outcome: outcome.into(), cause: cause.to_owned(), error: cut(error), ..Finished::default() }
}

#[cfg(test)]
mod tests;
