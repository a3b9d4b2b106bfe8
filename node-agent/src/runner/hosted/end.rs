//! How an attempt in a worker ended, in the protocol's words. Pure.
//!
//! Invariant: an attempt that ended for a reason neither its own nor its node's is a return.

use std::collections::BTreeMap;

use tenure_proto::node::v1::{
    Finished, FinishedOutcome, Report, ResultBytes, Returned, Throttled, WorkEnded, WorkFailed,
    WorkSucceeded, report::Event, work_ended,
};

use super::course::{Course, Why};
use crate::clock::Mono;
use crate::holdings::{End, FencingToken, StopReason};
use crate::own_rule::OwnRule;
use crate::runner::outcome::cut;
use crate::runner::socket::{MOST_COUNTERS, MOST_USAGE};
use crate::runner::upload::Limits;

/// The longest media type, in bytes.
const LONGEST_TYPE: usize = 255;
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

/// The report of an end, and its kind.
pub(super) fn report(
    (job, token): (&str, FencingToken),
    ending: Ending,
    course: &Course,
    (now, limits): (Mono, Limits),
) -> (Report, End) {
    let (event, end) = match ending {
        Ending::Said(said) => {
            let WorkEnded { end, usage, .. } = *said;
            let partial = course.asked || matches!(course.why, Some(Why::Limit | Why::SoftLimit));
            let (finished, end) = match (end, course.why) {
                // Asked to wrap up it has done what it was asked for if it leaves something.
                (Some(work_ended::End::Succeeded(it)), why) if why != Some(Why::Limit) => {
                    if why == Some(Why::SoftLimit) && !it.has_result {
                        stopped(why)
                    } else {
                        (Event::Finished(succeeded(it, limits, partial)), End::Finished)
                    }
                }
                (Some(work_ended::End::Failed(it)), why)
                    if !matches!(why, Some(Why::Limit | Why::SoftLimit)) =>
                {
                    (Event::Finished(failed(it)), End::Finished)
                }
                // Whatever it made of it: it had its time. What it has made is kept.
                (Some(work_ended::End::Succeeded(it)), why) => {
                    (with_partial(stopped(why).0, it, limits.inline), End::Finished)
                }
                (Some(work_ended::End::Stopped(_)) | None, None) if course.asked => {
                    stopped(Some(Why::SoftLimit))
                }
                (Some(work_ended::End::Stopped(_) | work_ended::End::Failed(_)) | None, why) => stopped(why),
            };
            (with_usage(finished, usage), end)
        }
        Ending::Over { for_another: true } if course.why.is_none() => {
            (returned(OwnRule::Terminated), End::Returned)
        }
        Ending::Over { .. } => match course.why {
            Some(why) => stopped(Some(why)),
            None => {
                let error = "its worker died, or detached, while it ran";
                (
                    Event::Finished(finish(FinishedOutcome::Lost, "worker_died", error.to_owned())),
                    End::Finished,
                )
            }
        },
    };
    let mut event = event;
    if let Event::Finished(finished) = &mut event {
        finished.ran_for = prost_types::Duration::try_from(now.since(course.started)).ok();
    }
    (Report { job_id: job.to_owned(), token: token.0, event: Some(event) }, end)
}

/// A loss, of which nobody knows how long it ran.
pub(super) fn lost(job: &str, token: FencingToken, error: &str) -> Report {
    let finished = finish(FinishedOutcome::Lost, "lost", error.to_owned());
    Report { job_id: job.to_owned(), token: token.0, event: Some(Event::Finished(finished)) }
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
        let error = format!(
            "the result is larger than the limit of {limit} bytes: store it elsewhere and return a reference"
        );
        return finish(FinishedOutcome::FailedPermanent, "result_too_large", error);
    }
    let result = has_result.then(|| inline(data, content_type));
    let partial = partial && has_result;
    Finished { result, partial, ..finish(FinishedOutcome::Succeeded, "exit", String::new()) }
}

fn inline(data: bytes::Bytes, content_type: String) -> ResultBytes {
    let fine = !content_type.is_empty() && content_type.len() <= LONGEST_TYPE && !content_type.contains('\0');
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

fn failed(it: WorkFailed) -> Finished {
    let WorkFailed { permanent, error, retry_after, throttled_slot } = it;
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
    Finished { retry_after, throttled, ..finish(outcome, "error", error) }
}

/// What it used is charged, however it ended; what cannot be charged is left out.
fn with_usage(event: Event, usage: BTreeMap<String, u64>) -> Event {
    let usage: BTreeMap<String, u64> = usage
        .into_iter()
        .filter(|(counter, count)| crate::config::is_name(counter) && *count <= MOST_USAGE)
        .take(MOST_COUNTERS)
        .collect();
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

fn finish(outcome: FinishedOutcome, cause: &str, error: String) -> Finished {
    Finished { outcome: outcome.into(), cause: cause.to_owned(), error: cut(error), ..Finished::default() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tenure_proto::node::v1::WorkStopped;

    use super::*;

    const LIMITS: Limits = Limits { inline: 4, uploaded: 0 };
    use crate::holdings::Stop;

    fn course(why: Option<Why>) -> Course {
        let now = Mono::from_micros(5_000_000);
        let long = Duration::from_secs(1_000);
        let mut course = Course::new(now, (long, long, long), now + long);
        match why {
            Some(Why::Ordered(reason)) => {
                course.ordered(now, Stop { reason, at_once: false });
            }
            Some(_) => course.why = why,
            None => {}
        }
        course
    }

    fn words(ending: Ending, why: Option<Why>) -> String {
        words_of(ending, course(why))
    }

    fn words_of(ending: Ending, course: Course) -> String {
        let now = Mono::from_micros(7_000_000);
        let (report, end) = report(("j", FencingToken(1)), ending, &course, (now, LIMITS));
        match report.event {
            Some(Event::Finished(finished)) => {
                assert_eq!((end, finished.ran_for.map(|ran| ran.seconds)), (End::Finished, Some(2)));
                let outcome =
                    finished.outcome().as_str_name().trim_start_matches("FINISHED_OUTCOME_").to_owned();
                let partial = if finished.partial { " partial" } else { "" };
                assert!(!finished.partial || finished.result.is_some());
                format!("{outcome} {} {:?}{partial}", finished.cause, finished.usage)
            }
            Some(Event::Returned(returned)) => {
                assert_eq!((end, returned.started), (End::Returned, true));
                format!("returned {} {:?}", returned.rule, returned.usage)
            }
            other => panic!("{other:?}"),
        }
    }

    fn said(end: work_ended::End) -> Ending {
        let usage = BTreeMap::from([("tokens".to_owned(), 7), ("Bad Name".to_owned(), 1)]);
        Ending::Said(Box::new(WorkEnded { token: 1, end: Some(end), usage }))
    }

    fn success(data: &'static [u8]) -> Ending {
        said(work_ended::End::Succeeded(WorkSucceeded {
            has_result: true,
            data: data.into(),
            content_type: String::new(),
        }))
    }

    fn stop() -> Ending {
        said(work_ended::End::Stopped(WorkStopped {}))
    }

    #[test]
    fn what_a_worker_says_counts_unless_its_time_was_over() {
        assert_eq!(words(success(b"1234"), None), "SUCCEEDED exit {\"tokens\": 7}");
        assert_eq!(words(success(b"12345"), None), "FAILED_PERMANENT result_too_large {\"tokens\": 7}");
        let failed =
            || said(work_ended::End::Failed(WorkFailed { permanent: true, ..WorkFailed::default() }));
        assert_eq!(words(failed(), None), "FAILED_PERMANENT error {\"tokens\": 7}");
        let cancelled = Some(Why::Ordered(StopReason::Cancelled));
        assert_eq!(words(success(b""), cancelled), "SUCCEEDED exit {\"tokens\": 7}");
        assert_eq!(words(success(b""), Some(Why::Limit)), "TIMED_OUT limit {\"tokens\": 7} partial");
        assert_eq!(words(failed(), Some(Why::Limit)), "TIMED_OUT limit {\"tokens\": 7}");
    }

    #[test]
    fn who_was_asked_to_wrap_up_leaves_a_partial_result_or_has_timed_out() {
        let asked = |why| {
            let mut course = course(why);
            course.asked = true;
            course
        };
        let late = asked(Some(Why::SoftLimit));
        let asked = asked(None);
        assert_eq!(words_of(success(b"8"), asked), "SUCCEEDED exit {\"tokens\": 7} partial");
        assert_eq!(words_of(stop(), asked), "TIMED_OUT soft_limit {\"tokens\": 7}");
        assert_eq!(words_of(success(b"8"), late), "SUCCEEDED exit {\"tokens\": 7} partial");
        assert_eq!(words_of(stop(), late), "TIMED_OUT soft_limit {\"tokens\": 7}");
        let nothing = said(work_ended::End::Succeeded(WorkSucceeded::default()));
        assert_eq!(words_of(nothing, late), "TIMED_OUT soft_limit {\"tokens\": 7}");
    }

    #[test]
    fn who_stopped_as_told_is_stopped_for_that_reason() {
        assert_eq!(
            words(stop(), Some(Why::Ordered(StopReason::Cancelled))),
            "REVOKED revoked {\"tokens\": 7}"
        );
        assert_eq!(
            words(stop(), Some(Why::Ordered(StopReason::Drained))),
            "returned draining {\"tokens\": 7}"
        );
        assert_eq!(words(stop(), Some(Why::CutOff)), "returned cut_off {\"tokens\": 7}");
        assert_eq!(words(stop(), None), "returned draining {\"tokens\": 7}");
    }

    #[test]
    fn a_worker_that_died_loses_what_it_had_but_not_for_the_fault_of_another() {
        let over = |for_another| Ending::Over { for_another };
        assert_eq!(words(over(false), None), "LOST worker_died {}");
        assert_eq!(words(over(true), None), "returned terminated {}");
        assert_eq!(words(over(false), Some(Why::Limit)), "TIMED_OUT limit {}");
        assert_eq!(words(over(false), Some(Why::Ordered(StopReason::Drained))), "returned draining {}");
    }

    #[test]
    fn a_failure_may_ask_for_time_and_slow_down_its_slot() {
        let after = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
        let asks = |retry_after, slot: &str| {
            failed(WorkFailed { retry_after, throttled_slot: slot.to_owned(), ..WorkFailed::default() })
        };
        let asked = asks(after(60), "anthropic");
        assert_eq!((asked.retry_after, asked.throttled.unwrap().retry_after), (after(60), after(60)));
        assert_eq!(asks(after(1 << 40), "").retry_after, after(LONGEST_BACKOFF));
        let odd = Some(prost_types::Duration { seconds: 1, nanos: 2_000_000_000 });
        assert_eq!(asks(odd, "").retry_after, None);
        assert_eq!(inline(bytes::Bytes::new(), "text\0".to_owned()).content_type, "application/octet-stream");
        let silent = asks(after(-1), "");
        assert!(silent.retry_after.is_none() && silent.throttled.is_none());
        assert_eq!(silent.error, "it failed without a word");
    }
}
