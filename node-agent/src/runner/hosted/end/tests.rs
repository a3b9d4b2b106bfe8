use std::time::Duration;

use tenure_proto::node::v1::{Detach, WorkStopped};

use super::*;
use crate::holdings::Stop;

const LIMITS: Limits = Limits { inline: 4, uploaded: 0 };

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
    let (report, end) = report(("j", FencingToken(1)), ending, Spoken::default(), &course, (now, LIMITS));
    match report.event {
        Some(Event::Finished(finished)) => {
            assert_eq!((end, finished.ran_for.map(|ran| ran.seconds)), (End::Finished, Some(2)));
            let outcome = finished.outcome().as_str_name().trim_start_matches("FINISHED_OUTCOME_").to_owned();
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
    let failed = || said(work_ended::End::Failed(WorkFailed { permanent: true, ..WorkFailed::default() }));
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
    assert_eq!(words(stop(), Some(Why::Ordered(StopReason::Cancelled))), "REVOKED revoked {\"tokens\": 7}");
    assert_eq!(words(stop(), Some(Why::Ordered(StopReason::Drained))), "returned draining {\"tokens\": 7}");
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
        let it = WorkFailed { retry_after, throttled_slot: slot.to_owned(), ..WorkFailed::default() };
        failed(it, None)
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

fn spoken() -> Spoken {
    let failure = Failure {
        reason: "the provider said 429".to_owned(),
        permanent: true,
        retry_after: Some(Duration::from_secs(60)),
        throttled: Some("api".to_owned()),
    };
    let usage = BTreeMap::from([("tokens".to_owned(), 5), ("calls".to_owned(), 1)]);
    Spoken {
        said: Said { usage, failure: Some(failure), ..Said::default() },
        checkpoint: Some(b"four of ten".to_vec()),
    }
}

fn end_of(ending: Ending, spoken: Spoken, course: Course) -> Finished {
    let (report, _) =
        report(("j", FencingToken(1)), ending, spoken, &course, (Mono::from_micros(7_000_000), LIMITS));
    match report.event {
        Some(Event::Finished(finished)) => finished,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_it_said_at_its_socket_counts_with_what_its_worker_says_at_the_end() {
    let fine = end_of(success(b"1"), spoken(), course(None));
    assert_eq!((fine.usage["tokens"], fine.usage["calls"]), (12, 1));
    assert_eq!((fine.outcome(), fine.checkpoint, fine.throttled), (FinishedOutcome::Succeeded, None, None));

    let own = WorkFailed { error: "own".to_owned(), ..WorkFailed::default() };
    let failed = end_of(said(work_ended::End::Failed(own)), spoken(), course(None));
    assert_eq!((failed.outcome(), failed.error.as_str()), (FinishedOutcome::FailedPermanent, "own"));
    assert_eq!((failed.retry_after.unwrap().seconds, failed.throttled.unwrap().slot.as_str()), (60, "api"));
    assert_eq!(&failed.checkpoint.unwrap().data[..], b"four of ten");

    let late = end_of(success(b""), spoken(), course(Some(Why::Limit)));
    assert_eq!((late.outcome(), late.cause.as_str()), (FinishedOutcome::TimedOut, "limit"));
    assert!(late.throttled.is_some() && late.checkpoint.is_some());

    let drained = course(Some(Why::Ordered(StopReason::Drained)));
    let (report, _) = report(("j", FencingToken(1)), stop(), spoken(), &drained, (Mono::MAX, LIMITS));
    let Some(Event::Returned(returned)) = report.event else { panic!("it is given back") };
    assert!(returned.checkpoint.is_some() && returned.usage["tokens"] == 12);
}

#[test]
fn a_worker_that_dies_loses_nothing_of_what_was_said() {
    let died = || Ending::Over { for_another: false };
    let quiet = || Spoken { said: Said { failure: None, ..spoken().said }, ..spoken() };
    let lost = end_of(died(), quiet(), course(None));
    assert_eq!((lost.outcome(), lost.usage["tokens"]), (FinishedOutcome::Lost, 5));
    assert!(lost.checkpoint.is_some() && lost.throttled.is_none());
    let explained = end_of(died(), spoken(), course(None));
    assert_eq!((explained.outcome(), explained.cause.as_str()), (FinishedOutcome::FailedPermanent, "said"));
    assert_eq!(explained.error, "the provider said 429");
    let Some(Event::Finished(before)) = super::lost("j", FencingToken(1), "why", quiet()).event else {
        panic!("it is a loss")
    };
    assert!(before.outcome() == FinishedOutcome::Lost && before.checkpoint.is_some());
    assert_eq!(before.usage["calls"], 1);
}

#[test]
fn who_detaches_waits_unless_it_was_told_to_stop_or_waits_for_what_nobody_can() {
    let detach = |job: &str| {
        let detach = Detach { job_ids: vec![job.to_owned()], ..Detach::default() };
        let state = Some(ResultBytes { data: b"half".as_slice().into(), content_type: String::new() });
        said(work_ended::End::Detached(WorkDetached { detach: Some(detach), state }))
    };
    let job = "01900000-0000-7000-8000-000000000001";
    for why in [None, Some(Why::Detach)] {
        let waits = end_of(detach(job), Spoken::default(), course(why));
        assert_eq!((waits.outcome(), waits.cause.as_str()), (FinishedOutcome::Detached, "detach"));
        assert!(waits.detach.is_some() && waits.result.is_some_and(|state| state.data == "half"));
    }
    let bad = end_of(detach("x"), spoken(), course(None));
    assert_eq!((bad.outcome(), bad.cause.as_str()), (FinishedOutcome::Failed, "bad_wait"));
    let cancelled = Some(Why::Ordered(StopReason::Cancelled));
    assert_eq!(words(detach(job), cancelled), "REVOKED revoked {\"tokens\": 7}");
    assert_eq!(words(detach(job), Some(Why::Limit)), "TIMED_OUT limit {\"tokens\": 7}");
}

#[test]
fn who_was_silent_or_did_not_detach_has_failed_and_leaves_what_it_had() {
    assert_eq!(words(success(b"8"), Some(Why::Stalled)), "STALLED stalled {\"tokens\": 7} partial");
    assert_eq!(words(stop(), Some(Why::Stalled)), "STALLED stalled {\"tokens\": 7}");
    assert_eq!(words(Ending::Over { for_another: false }, Some(Why::Stalled)), "STALLED stalled {}");
    assert_eq!(words(stop(), Some(Why::Detach)), "FAILED must_detach {\"tokens\": 7}");
    assert_eq!(words(success(b"8"), Some(Why::Detach)), "SUCCEEDED exit {\"tokens\": 7}");
}
