//! Whether a wait is over before it has begun, of an attempt that may not stay.
//!
//! Its slots have numbers, so that it would have to detach for any wait. One that has come back from that and asks for the same
//! again, or for an earlier one, would never get further if it were told to detach each time. The server judges all other waits.
//!
//! Invariant: who goes on holds everything that it was granted: it has never parked.

use tenure_proto::v1::{JobState, WaitPolicy};
use tonic::Status;

use super::calls::is_away;
use super::desk::Desk;
use super::said::Terms;

/// Children of one question for their ends.
const MOST_NAMED: usize = 1_000;

/// How the children of a wait stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ends {
    good: usize,
    bad: usize,
    open: usize,
}

/// Whether nothing is left to wait for. A server that is away does not say so.
///
/// # Errors
/// What the server says of children that are none.
pub(super) async fn is_over(desk: &Desk, terms: &Terms) -> Result<bool, Status> {
    let mut ends = Ends::default();
    for named in terms.children.chunks(MOST_NAMED) {
        let mut from = 0;
        loop {
            let page = match desk.calls().child_results(desk.lease(), named.to_vec(), (from, true)).await {
                Err(status) if is_away(&status) => return Ok(false),
                page => page?,
            };
            page.results.iter().for_each(|end| ends.count(end.state()));
            from = page.next_index;
            if from == 0 {
                break;
            }
        }
    }
    Ok(ends.meet(terms))
}

impl Ends {
    fn count(&mut self, state: JobState) {
        match state {
            JobState::Succeeded => self.good += 1,
            // Unspecified: there is no such job.
            JobState::Dead | JobState::Cancelled | JobState::Expired | JobState::Unspecified => self.bad += 1,
            JobState::Scheduled
            | JobState::Blocked
            | JobState::Queued
            | JobState::Running
            | JobState::Waiting => self.open += 1,
        }
    }

    fn meet(self, terms: &Terms) -> bool {
        let wanted = usize::try_from(terms.at_least).unwrap_or(usize::MAX);
        let met = match WaitPolicy::try_from(terms.policy) {
            Ok(WaitPolicy::Any) => self.good > 0,
            Ok(WaitPolicy::AtLeast) => self.good >= wanted || self.good + self.open < wanted,
            Ok(WaitPolicy::FirstFailure) => self.bad > 0,
            Ok(WaitPolicy::All | WaitPolicy::Unspecified) | Err(_) => false,
        };
        met || self.open == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_over_once_its_policy_is_met_or_cannot_be_met_any_more() {
        let mut ends = Ends::default();
        for state in [JobState::Succeeded, JobState::Dead, JobState::Running] {
            ends.count(state);
        }
        let terms =
            |policy: WaitPolicy, at_least| Terms { policy: policy.into(), at_least, ..Terms::default() };
        let over = |policy, at_least| ends.meet(&terms(policy, at_least));
        assert!(over(WaitPolicy::Any, 0) && over(WaitPolicy::FirstFailure, 0));
        assert!(over(WaitPolicy::AtLeast, 1) && over(WaitPolicy::AtLeast, 3));
        assert!(!over(WaitPolicy::All, 0) && !over(WaitPolicy::AtLeast, 2));
        let nobody = Ends::default();
        assert!(nobody.meet(&terms(WaitPolicy::All, 0)) && nobody.meet(&terms(WaitPolicy::Any, 0)));
        let open = Ends { open: 1, ..nobody };
        assert!(!open.meet(&terms(WaitPolicy::Any, 0)) && !open.meet(&terms(WaitPolicy::FirstFailure, 0)));
    }
}
