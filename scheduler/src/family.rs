//! Families: parents that wait for their children. What a wait is, and when it is over; pure rules below the state.
//!
//! A parent waits in one of two ways. It *detaches*: its execution ends, nothing of it is held, and it comes back as a
//! *resume*, an execution of its own that is handed the ends of the children. Or it *parks*: its process stays, and its
//! lease holds the slots that its kind keeps only. Both wait for children of the job itself, never for any other job, so
//! that nobody waits for somebody who waits for it.

use std::time::Duration;

use crate::{
    ids::{FencingToken, JobId},
    job::{Job, JobState},
    slots::Reservation,
    time::Wall,
    view::WaitView,
};

/// Children that are shown of those that have not ended.
const MOST_SHOWN: usize = 20;

/// What a parent waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildWait {
    /// The children, in the order in which the parent named them, each once.
    pub children: Vec<Child>,
    /// How many of them must have ended, and how.
    pub policy: WaitPolicy,
    /// It goes on then with the ends that there are; none: it waits for as long as it takes.
    pub until: Option<Wall>,
}

/// One child that is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Child {
    /// Which.
    pub job: JobId,
    /// How it ended; none: it has not, as far as is known.
    pub end: Option<ChildEnd>,
}

/// How a child ended. A requeue of it takes its end back for as long as its parent waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChildEnd {
    /// It ended well.
    Succeeded,
    /// Its attempts are exhausted, or its error is permanent.
    Dead,
    /// Somebody cancelled it.
    Cancelled,
    /// It was not started in time.
    Expired,
    /// There is no such job: it was deleted, or it was never enqueued.
    Missing,
}

/// When a wait is over. Each is over at the latest when no end more can come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitPolicy {
    /// All of them have ended, whatever their ends.
    All,
    /// One has succeeded, or none can any more.
    Any,
    /// So many have succeeded, or so many cannot any more. At least 1.
    AtLeast(u32),
    /// One has ended otherwise than well, or all have ended.
    FirstFailure,
}

/// What becomes of a child when something happens to its parent. Chosen at the child's enqueue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OnParent {
    /// It goes on.
    Keep,
    /// It is cancelled, as by a request.
    Cancel,
}

/// The wait of a parent that has detached, and what its resume is to be given. It stays with the job until it detaches
/// again, is requeued or is final: an execution that fails or is lost is followed by one that is given the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detached {
    /// What it waits, or waited, for.
    pub wait: ChildWait,
    /// The token of the execution that detached. Its state, if it left one, is stored under it.
    pub token: FencingToken,
    /// Whether it left a state.
    pub has_state: bool,
    /// It would like to come back to the node on which it ran.
    pub same_node: bool,
}

/// The newest wait of a job during which its process stays. It stands in the row of its lease until that ends, so that a
/// repeated call is answered with what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parked {
    /// Which wait of this lease it is. Chosen by the node: a later wait has a higher one, a repeated call the same.
    pub epoch: u64,
    /// What it waits, or waited, for.
    pub wait: ChildWait,
    /// What the lease gave back for it and does not hold.
    pub yielded: Reservation,
    /// How it ended; none: it goes on.
    pub verdict: Option<WaitVerdict>,
}

/// What a parked process is told when its wait is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitVerdict {
    /// Its lease holds again all that it gave back: it goes on.
    Go,
    /// Its lease holds only what it kept: it leaves its state and ends, or is ended as a return.
    MustDetach,
}

/// The answer to a node that wants to park a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitAnswer {
    /// It is parked, and will be told.
    Parked,
    /// It is not, or no more.
    Over(WaitVerdict),
}

/// What a node says of an execution that ended in order to wait.
#[derive(Debug, Clone, PartialEq)]
pub struct Detach {
    /// Children of the job, in its order.
    pub children: Vec<JobId>,
    /// When it goes on.
    pub policy: WaitPolicy,
    /// It goes on after this long with the ends that there are; none: it waits for as long as it takes.
    pub max_wait: Option<Duration>,
    /// It would like to come back to its node.
    pub same_node: bool,
    /// Those of the children that memory does not hold.
    pub prior: Vec<Job>,
}

impl ChildEnd {
    /// All of them, for tables and tests.
    pub const ALL: [Self; 5] = [Self::Succeeded, Self::Dead, Self::Cancelled, Self::Expired, Self::Missing];

    /// The word for it in rows and in prose.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Dead => "dead",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::Missing => "missing",
        }
    }

    /// The end that a state is; none while it is no final one.
    #[must_use]
    pub fn of(state: &JobState) -> Option<Self> {
        match state {
            JobState::Succeeded { .. } => Some(Self::Succeeded),
            JobState::Dead { .. } => Some(Self::Dead),
            JobState::Cancelled { .. } => Some(Self::Cancelled),
            JobState::Expired { .. } => Some(Self::Expired),
            JobState::Scheduled { .. }
            | JobState::Blocked { .. }
            | JobState::Queued { .. }
            | JobState::Running
            | JobState::Waiting { .. } => None,
        }
    }
}

impl WaitVerdict {
    /// The word for it in rows and traces.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Go => "go",
            Self::MustDetach => "must_detach",
        }
    }
}

impl OnParent {
    /// The word for it in rows, files and in prose.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Cancel => "cancel",
        }
    }
}

impl ChildWait {
    /// Whether it is over, by the ends that are known. Its time may be over before.
    #[must_use]
    pub fn is_met(&self) -> bool {
        let open = self.unfinished();
        let succeeded = self.children.iter().filter(|child| child.end == Some(ChildEnd::Succeeded)).count();
        let failed = self.children.len() - succeeded - open;
        let enough = |wanted: usize| succeeded >= wanted || succeeded + open < wanted;
        match self.policy {
            WaitPolicy::All => open == 0,
            WaitPolicy::Any => enough(1),
            WaitPolicy::AtLeast(wanted) => enough(usize::try_from(wanted).unwrap_or(usize::MAX)),
            WaitPolicy::FirstFailure => open == 0 || failed > 0,
        }
    }

    /// Children that have not ended.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.children.iter().filter(|child| child.end.is_none()).count()
    }

    /// For people.
    #[must_use]
    pub fn view(&self, parked: bool) -> WaitView {
        let open = self.children.iter().filter(|child| child.end.is_none());
        WaitView {
            children: self.children.len(),
            unfinished: self.unfinished(),
            first: open.map(|child| child.job).take(MOST_SHOWN).collect(),
            policy: self.policy,
            parked,
            until: self.until,
        }
    }

    /// Notes how a child ended, or that it is live again. False: nothing changed.
    pub(crate) fn note(&mut self, job: JobId, end: Option<ChildEnd>) -> bool {
        let Some(child) = self.children.iter_mut().find(|child| child.job == job) else { return false };
        std::mem::replace(&mut child.end, end) != end
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn wait(policy: WaitPolicy, ends: &[Option<ChildEnd>]) -> ChildWait {
        let child = |(n, end): (usize, &Option<ChildEnd>)| Child {
            job: JobId(Uuid::from_u128(u128::try_from(n).unwrap())),
            end: *end,
        };
        ChildWait { children: ends.iter().enumerate().map(child).collect(), policy, until: None }
    }

    #[test]
    fn a_wait_is_over_when_its_policy_is_met_or_cannot_be() {
        const OK: Option<ChildEnd> = Some(ChildEnd::Succeeded);
        const BAD: Option<ChildEnd> = Some(ChildEnd::Dead);
        const GONE: Option<ChildEnd> = Some(ChildEnd::Missing);
        for (policy, ends, met) in [
            (WaitPolicy::All, vec![OK, None], false),
            (WaitPolicy::All, vec![OK, BAD, GONE], true),
            (WaitPolicy::All, vec![], true),
            (WaitPolicy::Any, vec![BAD, None], false),
            (WaitPolicy::Any, vec![OK, None], true),
            (WaitPolicy::Any, vec![BAD, GONE], true),
            (WaitPolicy::AtLeast(2), vec![OK, None, None], false),
            (WaitPolicy::AtLeast(2), vec![OK, OK, None], true),
            (WaitPolicy::AtLeast(2), vec![OK, BAD, GONE], true),
            (WaitPolicy::AtLeast(2), vec![BAD, GONE, None], true),
            (WaitPolicy::AtLeast(9), vec![None], true),
            (WaitPolicy::FirstFailure, vec![OK, None], false),
            (WaitPolicy::FirstFailure, vec![BAD, None], true),
            (WaitPolicy::FirstFailure, vec![OK, OK], true),
        ] {
            assert_eq!(wait(policy, &ends).is_met(), met, "{policy:?} {ends:?}");
        }
    }

    #[test]
    fn an_end_is_noted_once_and_taken_back() {
        let mut all = wait(WaitPolicy::All, &[None, None]);
        let second = all.children[1].job;
        assert!(all.note(second, Some(ChildEnd::Dead)));
        assert!(!all.note(second, Some(ChildEnd::Dead)));
        assert_eq!(all.unfinished(), 1);
        assert!(all.note(second, None));
        assert!(!all.note(JobId(Uuid::from_u128(77)), None));
        assert_eq!(all.unfinished(), 2);
    }
}
