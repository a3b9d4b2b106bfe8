//! What the oracle says of parents that wait for their children, from the rows and the events alone.

use std::collections::BTreeSet;

use tenure_scheduler::{ChildEnd, ChildWait, Durable, Event, JobId, JobState, WaitPolicy};

/// Whether nothing that may still happen to a child can change that a parent goes on: counted anew, from what the row of
/// the parent tells and from which children live.
pub(super) fn is_over(wait: &ChildWait, rows: &Durable) -> bool {
    let ends = wait.children.iter().map(|child| match child.end {
        None if rows.jobs.contains_key(&child.job) => None,
        None => Some(ChildEnd::Missing),
        end => end,
    });
    let ends: Vec<Option<ChildEnd>> = ends.collect();
    let open = ends.iter().filter(|end| end.is_none()).count();
    let good = ends.iter().filter(|end| **end == Some(ChildEnd::Succeeded)).count();
    let bad = ends.len() - open - good;
    let wanted = match wait.policy {
        WaitPolicy::All => return open == 0,
        WaitPolicy::FirstFailure => return bad > 0 || open == 0,
        WaitPolicy::Any => 1,
        WaitPolicy::AtLeast(number) => usize::try_from(number).unwrap(),
    };
    good >= wanted || bad > ends.len().saturating_sub(wanted) || wanted > ends.len()
}

/// A parent that waits although it has nothing to wait for.
pub(super) fn waits_for_nothing(rows: &Durable, broken: &BTreeSet<JobId>) -> Option<JobId> {
    let parked: BTreeSet<JobId> =
        rows.leases.values().filter(|lease| lease.waits().is_some()).map(|lease| lease.job).collect();
    let waiting = rows.jobs.values().filter(|job| matches!(job.state, JobState::Waiting { .. }));
    let waiting = waiting.filter(|job| !parked.contains(&job.id));
    let mut idle = waiting.filter(|job| !broken.contains(&job.id)).filter(|job| {
        let wait = job.detached.as_ref().map(|detached| &detached.wait);
        wait.is_none_or(|wait| is_over(wait, rows))
    });
    idle.next().map(|job| job.id)
}

/// No wait ended that had something to wait for, and time. What a parent waited for is told by the row that the command
/// found: afterwards there may be none, as when the deadline of its workflow ends it in the same tick.
pub(super) fn none_ended_early(events: &[Event], before: &Durable, rows: &Durable) {
    for event in events {
        let Event::WaitOver(parent) = event else { continue };
        let detached = before.jobs.get(parent).and_then(|job| job.detached.as_ref());
        let wait = detached.map(|detached| &detached.wait);
        let over = wait.is_some_and(|wait| wait.until.is_some() || is_over(wait, rows));
        assert!(over, "the wait of {parent} is over, and has something to wait for");
    }
}
