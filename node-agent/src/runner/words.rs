//! What a job has said of itself, in the report of its end. Pure.
//!
//! Responsible for which words count: why it failed wins over every exit code but 0, what it used is told however it ended,
//! and exit 79 with a wait file is no failure. Not responsible for what an end is without words (`outcome.rs`).

use tenure_proto::node::v1::{Finished, FinishedOutcome, Report, Throttled, report::Event};

use super::detach::{EXIT_CODE, Wanted};
use super::socket::{Failure, Said};
use crate::shim::{Cause, ExitRecord};

/// The cause of a failure that the job has explained.
pub(super) const SAID: &str = "said";
/// The cause of an end that is none: it waits for others.
pub(super) const DETACH: &str = "detach";
/// The cause of an end that wants to wait for what cannot be read.
pub(super) const BAD_WAIT: &str = "bad_wait";

/// Whether the command ended in order to wait, if it left a wait file.
pub(super) fn wants_to_wait(record: &ExitRecord, said: &Said) -> bool {
    record.cause == Cause::Exit && record.exit_code == Some(EXIT_CODE) && said.failure.is_none()
}

/// The report with what the job has said.
pub(super) fn with(
    mut report: Report,
    record: &ExitRecord,
    said: &Said,
    wanted: Option<Result<Wanted, String>>,
) -> Report {
    match &mut report.event {
        Some(Event::Finished(finished)) => {
            finished.usage.clone_from(&said.usage);
            match wanted {
                Some(Ok(wanted)) => detached(finished, wanted),
                Some(Err(why)) => (finished.cause, finished.error) = (BAD_WAIT.to_owned(), why),
                None => {}
            }
            if let Some(failure) = &said.failure {
                failed(finished, record, failure);
            }
        }
        Some(Event::Returned(returned)) => returned.usage.clone_from(&said.usage),
        Some(_) | None => {}
    }
    report
}

fn detached(finished: &mut Finished, wanted: Wanted) {
    finished.set_outcome(FinishedOutcome::Detached);
    (finished.cause, finished.error) = (DETACH.to_owned(), String::new());
    (finished.result, finished.detach, finished.partial) = (wanted.state, Some(wanted.detach), false);
}

fn failed(finished: &mut Finished, record: &ExitRecord, failure: &Failure) {
    let spoken = matches!(record.cause, Cause::Exit | Cause::Signal) && record.exit_code != Some(0);
    let heeded = match finished.outcome() {
        FinishedOutcome::Failed | FinishedOutcome::FailedPermanent => spoken,
        FinishedOutcome::TimedOut | FinishedOutcome::Stalled => true,
        FinishedOutcome::Unspecified
        | FinishedOutcome::Succeeded
        | FinishedOutcome::Revoked
        | FinishedOutcome::Lost
        | FinishedOutcome::Detached => false,
    };
    if !heeded {
        return;
    }
    heed(finished, failure);
    if spoken {
        let permanent = failure.permanent;
        finished.set_outcome(if permanent {
            FinishedOutcome::FailedPermanent
        } else {
            FinishedOutcome::Failed
        });
        finished.cause = SAID.to_owned();
        if !failure.reason.is_empty() {
            finished.error.clone_from(&failure.reason);
        }
    }
}

/// When it may be tried again, and what is to be slowed down.
pub(super) fn heed(finished: &mut Finished, failure: &Failure) {
    let length = |length: std::time::Duration| length.try_into().ok();
    finished.retry_after = failure.retry_after.and_then(length);
    finished.throttled = failure
        .throttled
        .as_ref()
        .map(|slot| Throttled { slot: slot.clone(), retry_after: failure.retry_after.and_then(length) });
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{outcome, workspace::Found};
    use super::*;
    use crate::output::Captured;

    fn record(cause: Cause, exit_code: Option<i32>) -> ExitRecord {
        ExitRecord {
            version: crate::shim::VERSION,
            job: "j".to_owned(),
            token: 1,
            started: true,
            cause,
            exit_code,
            signal: None,
            error: "last words".to_owned(),
            ran_for: Duration::from_secs(2),
            stdout: Captured::default(),
            stderr: Captured::default(),
            notified: false,
        }
    }

    fn said(permanent: bool) -> Said {
        let failure = Failure {
            reason: "the provider said 429".to_owned(),
            permanent,
            retry_after: Some(Duration::from_secs(60)),
            throttled: Some("api".to_owned()),
        };
        Said { usage: [("tokens".to_owned(), 5)].into(), failure: Some(failure), ..Said::default() }
    }

    fn end(record: &ExitRecord, said: &Said, wanted: Option<Result<Wanted, String>>) -> Finished {
        match with(outcome::finished(record, Found::Nothing, None), record, said, wanted).event {
            Some(Event::Finished(finished)) => finished,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn words_win_over_every_exit_code_but_zero() {
        for code in [1, 75, 79] {
            let retry = end(&record(Cause::Exit, Some(code)), &said(false), None);
            assert_eq!((retry.outcome(), retry.cause.as_str()), (FinishedOutcome::Failed, SAID));
            assert_eq!(retry.error, "the provider said 429");
            assert_eq!(retry.throttled.unwrap().slot, "api");
            assert_eq!((retry.retry_after.unwrap().seconds, retry.exit_code), (60, Some(code)));
            let dead = end(&record(Cause::Exit, Some(code)), &said(true), None);
            assert_eq!(dead.outcome(), FinishedOutcome::FailedPermanent);
        }
        let killed = end(&record(Cause::Signal, None), &said(true), None);
        assert_eq!(killed.outcome(), FinishedOutcome::FailedPermanent);
        let good = end(&record(Cause::Exit, Some(0)), &said(true), None);
        assert_eq!((good.outcome(), good.throttled), (FinishedOutcome::Succeeded, None));
    }

    #[test]
    fn what_ended_it_otherwise_keeps_its_name_and_usage_is_told_anyway() {
        let late = end(&record(Cause::Limit, None), &said(true), None);
        assert_eq!((late.outcome(), late.cause.as_str()), (FinishedOutcome::TimedOut, "limit"));
        assert!(late.throttled.is_some() && late.error == "last words");
        for cause in [Cause::Oom, Cause::Lost, Cause::Revoked, Cause::Disk] {
            let other = end(&record(cause, None), &said(true), None);
            assert_eq!((other.throttled, other.usage.len()), (None, 1), "{cause:?}");
            assert_ne!(other.cause, SAID);
        }
        let returned = record(Cause::CutOff, None);
        let report =
            with(outcome::returned(&returned, None, Found::Nothing, None), &returned, &said(false), None);
        assert!(matches!(report.event, Some(Event::Returned(returned)) if returned.usage.len() == 1));
    }

    #[test]
    fn exit_79_with_a_wait_file_detaches_and_with_a_broken_one_fails() {
        let quiet = Said::default();
        let waits = record(Cause::Exit, Some(79));
        assert!(wants_to_wait(&waits, &quiet) && !wants_to_wait(&waits, &said(false)));
        assert!(!wants_to_wait(&record(Cause::Exit, Some(1)), &quiet));
        let wanted = Wanted { detach: tenure_proto::node::v1::Detach::default(), state: None };
        let detached = end(&waits, &quiet, Some(Ok(wanted)));
        assert_eq!((detached.outcome(), detached.cause.as_str()), (FinishedOutcome::Detached, DETACH));
        assert!(detached.detach.is_some() && detached.error.is_empty());
        let broken = end(&waits, &quiet, Some(Err("no".to_owned())));
        assert_eq!((broken.outcome(), broken.cause.as_str()), (FinishedOutcome::Failed, BAD_WAIT));
        assert_eq!(broken.error, "no");
        let without = end(&waits, &quiet, None);
        assert_eq!((without.outcome(), without.cause.as_str()), (FinishedOutcome::Failed, "exit"));
    }
}
