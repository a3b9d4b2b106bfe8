//! How an attempt ended, in the protocol's words. Pure.
//!
//! Responsible for turning an exit record, a result and an order to stop into the report that the server stores. Not
//! responsible for what the outcome means to the job: the server counts.
//!
//! Invariant: an attempt that ended for a reason neither its own nor its node's is a return.

use serde::de::IgnoredAny;
use tenure_proto::node::v1::{
    Checkpoint, Finished, FinishedOutcome, Report, ResultBytes, Returned, report::Event,
};

use super::workspace::Found;
use crate::holdings::{End, StopReason};
use crate::own_rule::OwnRule;
use crate::shim::{Cause, ExitRecord};

/// The longest error text, in bytes.
const LONGEST_ERROR: usize = 4 * 1024;

/// Which report an end will become. `Returned` has to wait until the tree is gone.
pub(super) fn end_of(record: &ExitRecord, stop: Option<StopReason>) -> End {
    match record.cause {
        Cause::CutOff | Cause::Drained | Cause::Terminated => End::Returned,
        Cause::Revoked => match stop {
            Some(StopReason::Unanswered | StopReason::Superseded | StopReason::Drained) => End::Returned,
            Some(StopReason::NotLive | StopReason::Cancelled) | None => End::Finished,
        },
        Cause::Exit
        | Cause::Signal
        | Cause::Oom
        | Cause::Disk
        | Cause::Limit
        | Cause::SoftLimit
        | Cause::Stalled
        | Cause::Spawn
        | Cause::Lost => End::Finished,
    }
}

/// Whether what stands where its result may be is worth reading: it succeeded, or had to end before it was done.
pub(super) fn leaves_result(record: &ExitRecord) -> bool {
    record.started && (record.exit_code == Some(0) || had_to_end(record))
}

/// What one that is given back leaves: what there was when it had to end, if it ran at all.
pub(super) fn leaves_part(record: &ExitRecord) -> bool {
    record.started
}

/// Whether what it leaves may be large: it succeeded.
pub(super) fn leaves_whole(record: &ExitRecord) -> bool {
    record.exit_code == Some(0) && matches!(record.cause, Cause::Exit | Cause::SoftLimit)
}

/// The same end, of which the result could not be brought to the server.
pub(super) fn without_result(report: Report, why: &str) -> Report {
    let Some(Event::Finished(finished)) = report.event else { return report };
    let error = cut(format!("its result was not stored: {why}"));
    let failed =
        Finished { uploaded: None, partial: false, cause: "result_not_stored".to_owned(), error, ..finished };
    let mut failed = Finished { exit_code: None, ..failed };
    failed.set_outcome(FinishedOutcome::Failed);
    Report { event: Some(Event::Finished(failed)), ..report }
}

/// What is said instead of a success that was stopped before its result was with the server: as of a command that was stopped
/// for the same reason. `saved` is its newest checkpoint.
pub(super) fn stopped_meanwhile(report: Report, reason: StopReason, saved: Option<Vec<u8>>) -> (Report, End) {
    let Some(Event::Finished(finished)) = report.event else { return (report, End::Finished) };
    let checkpoint = saved.map(|bytes| Checkpoint { data: bytes.into() });
    let (event, end) = match reason {
        StopReason::Unanswered | StopReason::Superseded | StopReason::Drained => {
            let (rule, usage) = (reason.rule().to_string(), finished.usage);
            let returned = Returned { rule, started: true, usage, checkpoint, ..Returned::default() };
            (Event::Returned(returned), End::Returned)
        }
        StopReason::NotLive | StopReason::Cancelled => {
            let error = "stopped on the server's order before its result was stored".to_owned();
            let cause = Cause::Revoked.as_str().to_owned();
            let mut revoked = Finished { uploaded: None, partial: false, cause, error, ..finished };
            (revoked.exit_code, revoked.checkpoint) = (None, checkpoint);
            revoked.set_outcome(FinishedOutcome::Revoked);
            (Event::Finished(revoked), End::Finished)
        }
    };
    (Report { event: Some(event), ..report }, end)
}

/// Why a result is not taken, and what to do.
pub(super) fn too_large(limit: u64) -> String {
    let more = if limit <= super::DEFAULT_MAX_RESULT {
        "for more the server needs object storage ([results] of its file); or"
    } else {
        "more is the server's to allow ([results] max_bytes); or"
    };
    format!(
        "the result is larger than the limit of {limit} bytes: {more} store it elsewhere and return a reference"
    )
}

/// Whether it was asked to wrap up, or stopped at a limit of its time, so that its result is partial.
fn had_to_end(record: &ExitRecord) -> bool {
    let stopped = matches!(record.cause, Cause::Limit | Cause::SoftLimit | Cause::Stalled);
    let may_tell = stopped || matches!(record.cause, Cause::Exit | Cause::Signal | Cause::Oom | Cause::Disk);
    stopped || record.notified && may_tell
}

/// `returned`: it was stopped, be it before its command was executed, and its tree is gone. `part` is what it had written by
/// then; what is no inline result is not kept.
pub(super) fn returned(
    record: &ExitRecord,
    stop: Option<StopReason>,
    part: Found,
    saved: Option<Vec<u8>>,
) -> Report {
    let rule = match (record.cause, stop) {
        (Cause::CutOff, _) => OwnRule::CutOff,
        (Cause::Terminated, _) => OwnRule::Terminated,
        (_, Some(stop)) => stop.rule(),
        (_, None) => OwnRule::Draining,
    };
    let returned = Returned {
        rule: rule.to_string(),
        started: record.started,
        checkpoint: saved.map(|bytes| Checkpoint { data: bytes.into() }),
        result: match part {
            Found::Bytes(bytes) if leaves_part(record) => Some(inline(bytes)),
            Found::Bytes(_)
            | Found::Large(_)
            | Found::TooLarge { .. }
            | Found::Unreadable(_)
            | Found::Nothing => None,
        },
        ..Returned::default()
    };
    report(record, Event::Returned(returned))
}

/// `finished`: its command has ended, and `result` was found; `saved` is its newest checkpoint.
pub(super) fn finished(record: &ExitRecord, result: Found, saved: Option<Vec<u8>>) -> Report {
    let mut finished = ended(record, result);
    if finished.outcome() != FinishedOutcome::Succeeded {
        finished.checkpoint = saved.map(|bytes| Checkpoint { data: bytes.into() });
    }
    report(record, Event::Finished(finished))
}

fn ended(record: &ExitRecord, result: Found) -> Finished {
    let outcome = match record.cause {
        Cause::Exit if record.exit_code == Some(0) => return succeeded(record, result),
        // Stopped after its soft grace, it has done what it was asked for if it leaves something: a success. One that leaves
        // nothing has only been ended.
        Cause::SoftLimit if record.exit_code == Some(0) && result != Found::Nothing => {
            return succeeded(record, result);
        }
        Cause::Exit | Cause::Signal | Cause::Oom | Cause::Disk | Cause::Spawn => FinishedOutcome::Failed,
        Cause::Limit | Cause::SoftLimit => FinishedOutcome::TimedOut,
        Cause::Stalled => FinishedOutcome::Stalled,
        Cause::Revoked => FinishedOutcome::Revoked,
        Cause::CutOff | Cause::Drained | Cause::Terminated | Cause::Lost => FinishedOutcome::Lost,
    };
    let mut finished = describe(record, outcome, record.cause.as_str(), error(record));
    match result {
        Found::Bytes(bytes) if had_to_end(record) => {
            (finished.result, finished.partial) = (Some(inline(bytes)), true);
        }
        Found::TooLarge { limit } if had_to_end(record) => {
            let lost = format!("; its partial result is over the inline limit of {limit} bytes");
            finished.error = cut_before(finished.error, &lost);
        }
        Found::Large(_) if had_to_end(record) => {
            finished.error = cut_before(finished.error, "; its partial result is over the inline limit");
        }
        Found::Unreadable(why) if had_to_end(record) => {
            finished.error =
                cut_before(finished.error, &format!("; its partial result cannot be read: {why}"));
        }
        Found::Bytes(_)
        | Found::Large(_)
        | Found::TooLarge { .. }
        | Found::Unreadable(_)
        | Found::Nothing => {}
    }
    finished
}

/// What a person should read: its last words, and what they may leave out.
fn error(record: &ExitRecord) -> String {
    let words = record.error.as_str();
    match (record.cause, record.exit_code, record.signal) {
        (Cause::Signal, _, Some(signal)) if words.is_empty() => format!("killed by {}", signal_name(signal)),
        (Cause::Signal, _, Some(signal)) => format!("killed by {}: {words}", signal_name(signal)),
        _ if !words.is_empty() => words.to_owned(),
        (Cause::Exit, Some(code), _) => format!("exited with code {code}"),
        (Cause::Oom, ..) => "killed by SIGKILL: the host was out of memory".to_owned(),
        (Cause::Disk, ..) => "stopped because its directories had grown over limits.disk".to_owned(),
        (Cause::Limit, ..) => "stopped at its hard time limit".to_owned(),
        (Cause::SoftLimit, ..) => "stopped after its soft time limit and grace".to_owned(),
        (Cause::Stalled, ..) => "stopped: nothing was heard of it for its progress_timeout".to_owned(),
        (Cause::Revoked, ..) => "stopped on the server's order".to_owned(),
        (cause, ..) => cause.as_str().to_owned(),
    }
}

fn succeeded(record: &ExitRecord, result: Found) -> Finished {
    match result {
        Found::Nothing => describe(record, FinishedOutcome::Succeeded, "exit", String::new()),
        Found::Bytes(bytes) => {
            let ended = describe(record, FinishedOutcome::Succeeded, "exit", String::new());
            Finished { result: Some(inline(bytes)), partial: had_to_end(record), ..ended }
        }
        Found::Large(large) => {
            let ended = describe(record, FinishedOutcome::Succeeded, "exit", String::new());
            Finished { uploaded: Some(large.reference()), partial: had_to_end(record), ..ended }
        }
        Found::TooLarge { limit } => {
            describe(record, FinishedOutcome::FailedPermanent, "result_too_large", too_large(limit))
        }
        Found::Unreadable(why) => {
            let error = format!("the result cannot be read: {why}");
            describe(record, FinishedOutcome::Failed, "result_unreadable", error)
        }
    }
}

fn inline(bytes: Vec<u8>) -> ResultBytes {
    let content_type = guess(&bytes).to_owned();
    ResultBytes { data: bytes.into(), content_type }
}

fn describe(record: &ExitRecord, outcome: FinishedOutcome, cause: &str, error: String) -> Finished {
    Finished {
        outcome: outcome.into(),
        exit_code: record.exit_code,
        signal: record.signal,
        cause: cause.to_owned(),
        error: cut(error),
        ran_for: prost_types::Duration::try_from(record.ran_for).ok(),
        // What only the job itself can say, it cannot say yet.
        ..Finished::default()
    }
}

fn report(record: &ExitRecord, event: Event) -> Report {
    Report { job_id: record.job.clone(), token: record.token, event: Some(event) }
}

/// A media type that a reader can do something with.
fn guess(bytes: &[u8]) -> &'static str {
    if serde_json::from_slice::<IgnoredAny>(bytes).is_ok() {
        "application/json"
    } else if std::str::from_utf8(bytes).is_ok() {
        "text/plain; charset=utf-8"
    } else {
        "application/octet-stream"
    }
}

/// The text of an error: at most 4 KiB, between two characters.
pub(super) fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(LONGEST_ERROR));
    text
}

/// A text that is cut so that what follows it is not.
fn cut_before(mut text: String, rest: &str) -> String {
    text.truncate(text.floor_char_boundary(LONGEST_ERROR.saturating_sub(rest.len())));
    text.push_str(rest);
    cut(text)
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        10 => "SIGUSR1",
        11 => "SIGSEGV",
        12 => "SIGUSR2",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::output::Captured;

    fn record(cause: Cause) -> ExitRecord {
        ExitRecord {
            version: crate::shim::VERSION,
            job: "j".to_owned(),
            token: 1,
            started: true,
            cause,
            exit_code: None,
            signal: None,
            error: "last words".to_owned(),
            ran_for: Duration::from_secs(2),
            stdout: Captured::default(),
            stderr: Captured::default(),
            notified: false,
        }
    }

    fn exit(code: i32) -> ExitRecord {
        ExitRecord { exit_code: Some(code), ..record(Cause::Exit) }
    }

    fn words(report: &Report) -> String {
        if let Some(Event::Finished(finished)) = &report.event {
            let outcome = finished.outcome().as_str_name().trim_start_matches("FINISHED_OUTCOME_");
            return format!("{outcome} {} {}", finished.cause, finished.error);
        }
        let Some(Event::Returned(returned)) = &report.event else { panic!("{report:?}") };
        format!("returned {} {}", returned.rule, returned.started)
    }

    #[test]
    fn exit_codes_and_signals_have_their_outcome() {
        assert_eq!(words(&finished(&exit(0), Found::Nothing, None)), "SUCCEEDED exit ");
        assert_eq!(words(&finished(&exit(3), Found::Nothing, None)), "FAILED exit last words");
        let signalled = ExitRecord { signal: Some(11), ..record(Cause::Signal) };
        assert_eq!(
            words(&finished(&signalled, Found::Nothing, None)),
            "FAILED signal killed by SIGSEGV: last words"
        );
        assert_eq!(
            words(&finished(&record(Cause::Limit), Found::Nothing, None)),
            "TIMED_OUT limit last words"
        );
        assert_eq!(words(&finished(&record(Cause::Spawn), Found::Nothing, None)), "FAILED spawn last words");
        assert_eq!(words(&finished(&record(Cause::Lost), Found::Nothing, None)), "LOST lost last words");
    }

    #[test]
    fn a_failure_without_last_words_still_says_what_happened() {
        let silent = |record: ExitRecord| {
            let record = ExitRecord { error: String::new(), ..record };
            words(&finished(&record, Found::Nothing, None))
        };
        assert_eq!(silent(exit(3)), "FAILED exit exited with code 3");
        let signalled = ExitRecord { signal: Some(11), ..record(Cause::Signal) };
        assert_eq!(silent(signalled), "FAILED signal killed by SIGSEGV");
        assert_eq!(silent(record(Cause::Oom)), "FAILED oom killed by SIGKILL: the host was out of memory");
        assert_eq!(
            silent(ExitRecord { exit_code: Some(0), ..record(Cause::Disk) }),
            "FAILED disk stopped because its directories had grown over limits.disk"
        );
        assert_eq!(silent(record(Cause::Limit)), "TIMED_OUT limit stopped at its hard time limit");
        assert_eq!(silent(record(Cause::Revoked)), "REVOKED revoked stopped on the server's order");
    }

    #[test]
    fn a_result_comes_with_a_success_and_its_limit_is_named() {
        let report = finished(&exit(0), Found::Bytes(b"{\"a\": 1}".to_vec()), None);
        let Some(Event::Finished(Finished { result: Some(result), .. })) = report.event else { panic!() };
        assert_eq!(result.content_type, "application/json");
        let report = finished(&exit(0), Found::TooLarge { limit: 262_144 }, None);
        assert!(words(&report).starts_with("FAILED_PERMANENT result_too_large"), "{}", words(&report));
        assert!(words(&report).contains("262144"));
        assert_eq!(guess(b"plain"), "text/plain; charset=utf-8");
        assert_eq!(guess(&[0xff]), "application/octet-stream");
    }

    #[test]
    fn what_was_stopped_for_no_fault_of_its_own_is_a_return() {
        let cases = [
            (Cause::CutOff, None, "returned cut_off true"),
            (Cause::Drained, Some(StopReason::Drained), "returned draining true"),
            (Cause::Revoked, Some(StopReason::Unanswered), "returned revoked true"),
            (Cause::Terminated, None, "returned terminated true"),
        ];
        for (cause, stop, expected) in cases {
            assert_eq!(end_of(&record(cause), stop), End::Returned);
            assert_eq!(words(&returned(&record(cause), stop, Found::Nothing, None)), expected);
            // What it had by then is kept, like a checkpoint; what is too large for that is not.
            let part = |found| match returned(&record(cause), stop, found, None).event {
                Some(Event::Returned(returned)) => returned.result.map(|result| result.data),
                other => panic!("{other:?}"),
            };
            assert_eq!(part(Found::Bytes(b"8 of 12".to_vec())), Some("8 of 12".into()));
            assert_eq!(part(Found::TooLarge { limit: 7 }), None);
        }
        let unstarted = ExitRecord { started: false, ..record(Cause::Terminated) };
        assert_eq!(end_of(&unstarted, Some(StopReason::Drained)), End::Returned);
        assert_eq!(
            words(&returned(&unstarted, Some(StopReason::Drained), Found::Nothing, None)),
            "returned terminated false"
        );
        let cancelled = record(Cause::Revoked);
        assert_eq!(end_of(&cancelled, Some(StopReason::Cancelled)), End::Finished);
        assert_eq!(words(&finished(&cancelled, Found::Nothing, None)), "REVOKED revoked last words");
        // It had ended by itself before the order reached it.
        assert_eq!(end_of(&exit(0), Some(StopReason::Drained)), End::Finished);
    }

    #[test]
    fn a_success_that_was_stopped_while_its_result_was_sent_is_none() {
        let usage = std::collections::BTreeMap::from([("tokens".to_owned(), 7)]);
        let told = |reason| {
            let uploaded = Some(tenure_proto::node::v1::UploadedResult::default());
            let usage = usage.clone();
            let succeeded = describe(&exit(0), FinishedOutcome::Succeeded, "exit", String::new());
            let succeeded = Finished { uploaded, usage, partial: true, ..succeeded };
            let report = report(&exit(0), Event::Finished(succeeded));
            stopped_meanwhile(report, reason, Some(b"saved".to_vec()))
        };
        for (reason, expected) in [
            (StopReason::Drained, "returned draining true"),
            (StopReason::Unanswered, "returned revoked true"),
            (StopReason::Superseded, "returned superseded true"),
        ] {
            let (report, end) = told(reason);
            assert_eq!((words(&report).as_str(), end), (expected, End::Returned));
            let Some(Event::Returned(returned)) = report.event else { panic!() };
            assert_eq!((returned.usage, returned.checkpoint.unwrap().data), (usage.clone(), "saved".into()));
        }
        for reason in [StopReason::Cancelled, StopReason::NotLive] {
            let (report, end) = told(reason);
            assert!(words(&report).starts_with("REVOKED revoked stopped"), "{}", words(&report));
            let Some(Event::Finished(finished)) = report.event else { panic!() };
            assert_eq!((end, finished.uploaded, finished.partial), (End::Finished, None, false));
            assert_eq!((finished.exit_code, finished.usage), (None, usage.clone()));
        }
    }

    #[test]
    fn a_long_error_is_cut_between_characters() {
        let long = ExitRecord { error: "é".repeat(LONGEST_ERROR), ..exit(1) };
        let Some(Event::Finished(finished)) = finished(&long, Found::Nothing, None).event else { panic!() };
        assert_eq!(finished.error.len(), LONGEST_ERROR);
    }
}
