//! What is said to a server of an earlier version, which ends the session over a word that it does not know.
//!
//! Responsible for saying the same in words of that version. What is kept in the spool stays as it is: the server that leads
//! next may know more. Pure.
//!
//! Invariant: no word of a later version goes to a server whose Welcome does not say that it knows it.

use tenure_proto::node::v1::{Finished, FinishedOutcome, Report, Welcome, report::Event};

/// What a server knows, by its Welcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    /// Waits, silence as a fault, and checkpoints.
    pub(super) waits: bool,
    /// Results in object storage. It may as well have none.
    pub(super) uploads: bool,
}

impl Known {
    /// By the Welcome of a server.
    pub(super) fn of(welcome: &Welcome) -> Self {
        Self { waits: welcome.max_checkpoint_bytes > 0, uploads: welcome.max_uploaded_result_bytes > 0 }
    }
}

/// The report in words that the server knows.
pub(super) fn reworded(mut report: Report, known: Known) -> Report {
    let Some(Event::Finished(finished)) = &mut report.event else { return report };
    if !known.uploads && finished.uploaded.is_some() {
        *finished = failed_to_store(finished);
    }
    if known.waits {
        return report;
    }
    match finished.outcome() {
        FinishedOutcome::Stalled => finished.set_outcome(FinishedOutcome::TimedOut),
        FinishedOutcome::Detached => *finished = failed_to_wait(finished),
        FinishedOutcome::Unspecified
        | FinishedOutcome::Succeeded
        | FinishedOutcome::Failed
        | FinishedOutcome::FailedPermanent
        | FinishedOutcome::TimedOut
        | FinishedOutcome::Revoked
        | FinishedOutcome::Lost => {}
    }
    report
}

/// A failure that another attempt may help, from its beginning: nobody there can wait for children. Without the exit code,
/// which may be among the permanent ones of its kind, and without the state, which is no result.
fn failed_to_wait(finished: &Finished) -> Finished {
    Finished {
        outcome: FinishedOutcome::Failed.into(),
        cause: "detach".to_owned(),
        error: "it ended in order to wait for children, which a server of this version cannot".to_owned(),
        retry_after: finished.retry_after,
        ran_for: finished.ran_for,
        throttled: finished.throttled.clone(),
        usage: finished.usage.clone(),
        ..Finished::default()
    }
}

/// A failure that another attempt may help: nobody there knows where its result is, and a success without it is none.
fn failed_to_store(finished: &Finished) -> Finished {
    Finished {
        outcome: FinishedOutcome::Failed.into(),
        exit_code: None,
        cause: "result_not_stored".to_owned(),
        error: "its result was not stored: the server that leads now takes none that are so large".to_owned(),
        partial: false,
        uploaded: None,
        ..finished.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tenure_proto::node::v1::{Detach, Reaped, ResultBytes, UploadedResult};

    use super::*;

    const NOTHING: Known = Known { waits: false, uploads: false };

    fn ended(outcome: FinishedOutcome) -> Report {
        let finished = Finished {
            outcome: outcome.into(),
            exit_code: Some(79),
            cause: "exit".to_owned(),
            result: Some(ResultBytes::default()),
            usage: BTreeMap::from([("tokens".to_owned(), 7)]),
            detach: Some(Detach::default()),
            ..Finished::default()
        };
        Report { job_id: "j".to_owned(), token: 9, event: Some(Event::Finished(finished)) }
    }

    fn finished(report: Report) -> Finished {
        assert_eq!((report.job_id.as_str(), report.token), ("j", 9));
        let Some(Event::Finished(finished)) = report.event else { panic!("{report:?}") };
        finished
    }

    #[test]
    fn later_words_are_said_in_earlier_ones_and_the_rest_as_it_is() {
        let stalled = finished(reworded(ended(FinishedOutcome::Stalled), NOTHING));
        assert_eq!((stalled.outcome(), stalled.exit_code), (FinishedOutcome::TimedOut, Some(79)));
        let detached = finished(reworded(ended(FinishedOutcome::Detached), NOTHING));
        assert_eq!((detached.outcome(), detached.exit_code), (FinishedOutcome::Failed, None));
        assert!(detached.result.is_none() && detached.detach.is_none());
        assert_eq!(detached.usage["tokens"], 7, "what it used is charged all the same");
        for report in [
            ended(FinishedOutcome::Succeeded),
            Report { event: Some(Event::Reaped(Reaped {})), ..ended(FinishedOutcome::Lost) },
        ] {
            assert_eq!(reworded(report.clone(), NOTHING), report);
        }
    }

    #[test]
    fn a_success_whose_result_the_server_cannot_find_is_a_failure_there() {
        let mut report = ended(FinishedOutcome::Succeeded);
        let Some(Event::Finished(uploaded)) = &mut report.event else { panic!() };
        (uploaded.result, uploaded.partial, uploaded.uploaded) =
            (None, true, Some(UploadedResult::default()));
        for waits in [false, true] {
            let knows = Known { waits, uploads: true };
            assert_eq!(reworded(report.clone(), knows), report);
            let failed = finished(reworded(report.clone(), Known { uploads: false, ..knows }));
            assert_eq!((failed.outcome(), failed.exit_code), (FinishedOutcome::Failed, None));
            assert_eq!((failed.cause.as_str(), failed.partial), ("result_not_stored", false));
            assert!(failed.uploaded.is_none() && failed.result.is_none());
            assert_eq!(failed.usage["tokens"], 7, "what it used is charged all the same");
        }
        let stalled = reworded(ended(FinishedOutcome::Stalled), Known { waits: true, uploads: false });
        assert_eq!(stalled, ended(FinishedOutcome::Stalled), "it knows this word");
    }

    #[test]
    fn what_a_server_knows_its_welcome_says() {
        assert_eq!(Known::of(&Welcome::default()), NOTHING);
        let waits = Welcome { max_checkpoint_bytes: 1, ..Welcome::default() };
        assert_eq!(Known::of(&waits), Known { waits: true, uploads: false });
        let uploads = Welcome { max_uploaded_result_bytes: 1, ..waits };
        assert_eq!(Known::of(&uploads), Known { waits: true, uploads: true });
    }
}
