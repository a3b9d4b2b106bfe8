//! What is said to a server of an earlier version, which ends the session over a word that it does not know.
//!
//! Responsible for saying the same in words of that version. What is kept in the spool stays as it is: the server that leads
//! next may know more. Pure.
//!
//! Invariant: no word of a later version goes to a server whose Welcome does not say that it knows it.

use tenure_proto::node::v1::{Finished, FinishedOutcome, Report, Welcome, report::Event};

/// Whether the server is of a version that knows nothing of waits, of silence as a fault, and of checkpoints.
pub(super) fn is_older(welcome: &Welcome) -> bool {
    welcome.max_checkpoint_bytes == 0
}

/// The report in words that an older server knows.
pub(super) fn reworded(mut report: Report) -> Report {
    let Some(Event::Finished(finished)) = &mut report.event else { return report };
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tenure_proto::node::v1::{Detach, Reaped, ResultBytes};

    use super::*;

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
        let stalled = finished(reworded(ended(FinishedOutcome::Stalled)));
        assert_eq!((stalled.outcome(), stalled.exit_code), (FinishedOutcome::TimedOut, Some(79)));
        let detached = finished(reworded(ended(FinishedOutcome::Detached)));
        assert_eq!((detached.outcome(), detached.exit_code), (FinishedOutcome::Failed, None));
        assert!(detached.result.is_none() && detached.detach.is_none());
        assert_eq!(detached.usage["tokens"], 7, "what it used is charged all the same");
        for report in [
            ended(FinishedOutcome::Succeeded),
            Report { event: Some(Event::Reaped(Reaped {})), ..ended(FinishedOutcome::Lost) },
        ] {
            assert_eq!(reworded(report.clone()), report);
        }
    }

    #[test]
    fn a_server_that_keeps_no_checkpoints_is_older() {
        assert!(is_older(&Welcome::default()));
        assert!(!is_older(&Welcome { max_checkpoint_bytes: 1, ..Welcome::default() }));
    }
}
