//! What an attempt waits for, and what comes of it.

use std::time::Duration;

use bytes::Bytes;
use tenure_proto::node::v1::{Detach, ResultBytes, WaitTerms, WorkDetached};
use tenure_proto::v1::{JobState, WaitPolicy};

use super::attempt::Input;
use crate::wire;

/// Children that an attempt waits for, staying ([`super::Attempt::wait`]) or not ([`super::Output::detach`]).
///
/// ```
/// use std::time::Duration;
/// use tenure_client::NewJob;
/// use tenure_client::worker::Wait;
///
/// let children = [NewJob::new("fetch"), NewJob::new("fetch")];
/// let wait = Wait::all(children.iter().map(NewJob::id)).max_wait(Duration::from_secs(600)).state("half", "text/plain");
/// assert_eq!(wait.children().len(), 2);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Wait {
    detach: Detach,
    state: Option<ResultBytes>,
}

/// What came of a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waited {
    /// It is over: how the children stand, in the order in which they were named.
    Over(Vec<Input>),
    /// The attempt may not stay: it ends with [`super::Output::detach`], within the `soft_grace` of its kind if it has given back
    /// what it held, or goes on without having waited.
    MustDetach,
}

impl Wait {
    fn new(children: impl IntoIterator<Item = impl Into<String>>, policy: WaitPolicy, at_least: u32) -> Self {
        let job_ids = children.into_iter().map(Into::into).collect();
        let detach = Detach { job_ids, policy: policy.into(), at_least, ..Detach::default() };
        Self { detach, state: None }
    }

    /// Until all have ended, whatever their ends.
    pub fn all(children: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::new(children, WaitPolicy::All, 0)
    }

    /// Until one has succeeded, or none can any more.
    pub fn any(children: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::new(children, WaitPolicy::Any, 0)
    }

    /// Until one has ended otherwise than well, or all have ended.
    pub fn first_failure(children: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::new(children, WaitPolicy::FirstFailure, 0)
    }

    /// Until so many have succeeded, or so many cannot any more.
    pub fn at_least(count: u32, children: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::new(children, WaitPolicy::AtLeast, count)
    }

    /// No longer than this: then with the ends that there are.
    #[must_use]
    pub fn max_wait(mut self, length: Duration) -> Self {
        self.detach.max_wait = Some(wire::duration(length));
        self
    }

    pub(super) fn has_max_wait(&self) -> bool {
        self.detach.max_wait.is_some()
    }

    /// Whether these ends of all its children leave nothing to wait for.
    pub(super) fn is_met_by(&self, ends: &[Input]) -> bool {
        let wanted = usize::try_from(self.detach.at_least).unwrap_or(usize::MAX);
        let (mut good, mut bad, mut open) = (0_usize, 0_usize, 0_usize);
        for end in ends {
            match end.state {
                JobState::Succeeded => good += 1,
                // Unspecified: there is no such job.
                JobState::Dead | JobState::Cancelled | JobState::Expired | JobState::Unspecified => bad += 1,
                JobState::Scheduled
                | JobState::Blocked
                | JobState::Queued
                | JobState::Running
                | JobState::Waiting => open += 1,
            }
        }
        let met = match self.detach.policy() {
            WaitPolicy::Any => good > 0,
            WaitPolicy::AtLeast => good >= wanted || good + open < wanted,
            WaitPolicy::FirstFailure => bad > 0,
            WaitPolicy::All | WaitPolicy::Unspecified => false,
        };
        met || open == 0
    }

    /// What the execution finds again with which the job comes back after it detached, at most 256 KiB, and its media type.
    #[must_use]
    pub fn state(mut self, data: impl Into<Bytes>, content_type: impl Into<String>) -> Self {
        self.state = Some(ResultBytes { data: data.into(), content_type: content_type.into() });
        self
    }

    /// After it detached it would like to come back to this node.
    #[must_use]
    pub fn same_node(mut self) -> Self {
        self.detach.same_node = true;
        self
    }

    /// Whom it waits for.
    pub fn children(&self) -> &[String] {
        &self.detach.job_ids
    }

    pub(super) fn terms(&self) -> WaitTerms {
        let Detach { job_ids, policy, at_least, max_wait, same_node: _ } = self.detach.clone();
        WaitTerms { job_ids, policy, at_least, max_wait }
    }

    pub(super) fn into_wire(self) -> WorkDetached {
        WorkDetached { detach: Some(self.detach), state: self.state }
    }
}

#[cfg(test)]
mod tests {
    use tenure_proto::node::v1::{InputResult, Work};

    use super::super::attempt::{Attempt, Before};
    use super::*;

    #[test]
    fn ends_meet_a_wait_by_its_policy_or_if_none_is_left() {
        let ends = |states: &[JobState]| -> Vec<Input> {
            let of = |&state: &JobState| InputResult { state: state.into(), ..InputResult::default() };
            states.iter().map(of).map(Input::of).collect()
        };
        let (one, none) = (["a"], [""; 0]);
        let mixed = ends(&[JobState::Succeeded, JobState::Dead, JobState::Running]);
        assert!(Wait::any(one).is_met_by(&mixed) && Wait::first_failure(one).is_met_by(&mixed));
        assert!(Wait::at_least(1, one).is_met_by(&mixed) && Wait::at_least(3, one).is_met_by(&mixed));
        assert!(!Wait::all(one).is_met_by(&mixed) && !Wait::at_least(2, one).is_met_by(&mixed));
        assert!(Wait::all(none).is_met_by(&[]) && Wait::any(none).is_met_by(&[]));
        let open = ends(&[JobState::Waiting]);
        assert!(!Wait::any(one).is_met_by(&open) && !Wait::first_failure(one).is_met_by(&open));
        assert!(Wait::any(one).is_met_by(&ends(&[JobState::Unspecified])));
    }
    #[test]
    fn who_came_back_from_a_wait_waits_anew_for_what_its_ends_do_not_meet() {
        let told = |job_id: &str, state: JobState| InputResult {
            job_id: job_id.to_owned(),
            state: state.into(),
            ..InputResult::default()
        };
        let results = vec![told("a", JobState::Succeeded), told("b", JobState::Running)];
        let work = || Work { input_results: Some(2), ..Work::default() };
        let came_back = || Attempt::new(work(), Before { results: results.clone(), state: None });
        let attempt = came_back();
        let two = ["a", "b"];
        // As often as it asks.
        assert!(attempt.came_back_from(&Wait::any(two)) && attempt.came_back_from(&Wait::any(two)));
        assert!(!attempt.came_back_from(&Wait::all(two)), "b runs");
        assert!(!attempt.came_back_from(&Wait::any(["b", "a"])));
        // Its length has ended a wait, once.
        let brief = Wait::all(two).max_wait(Duration::from_secs(1));
        assert!(attempt.came_back_from(&brief));
        assert!(!attempt.came_back_from(&brief) && !attempt.clone().came_back_from(&brief));
        assert!(!Attempt::new(Work::default(), Before::default()).came_back_from(&Wait::all([""; 0])));
    }
}
