//! What the oracle says of workflows, from the rows alone: the ends of members are looked up one by one, and whether a
//! gate could still open is tried out.

use std::collections::BTreeSet;

use tenure_scheduler::{ChildEnd, Durable, JobId, JobState, Now, SynthesisPolicy, Workflow};

/// A blocked member that has nothing to wait for, or a workflow that all members have left.
pub(super) fn waits_for_nothing(now: Now, rows: &Durable, broken: &BTreeSet<JobId>) -> Option<String> {
    for workflow in rows.workflows.values() {
        let live = |place: u32| rows.jobs.get(&workflow.member(place));
        if (0..workflow.shape.size()).all(|place| live(place).is_none()) {
            return Some(format!("{} has no live member", workflow.id));
        }
        for gate in workflow.shape.gates() {
            let waits = |place: &&u32| {
                let blocked = live(**place).is_some_and(|job| matches!(job.state, JobState::Blocked { .. }));
                blocked && !broken.contains(&workflow.member(**place))
            };
            let Some(head) = gate.heads.iter().find(waits) else { continue };
            let late = gate.rule.deadline.is_some_and(|length| workflow.began_at.after(length) <= now.wall);
            let ends: Vec<Option<ChildEnd>> = gate.inputs.iter().map(|place| workflow.end(*place)).collect();
            let open = ends.iter().filter(|end| end.is_none()).count();
            if late || open == 0 || !may_be_met(gate.rule.policy, gate.rule.deadline.is_some(), &ends) {
                return Some(format!("member {head} of {} waits for {ends:?}", workflow.id));
            }
        }
    }
    None
}

/// Whether what is open could still matter.
fn may_be_met(policy: SynthesisPolicy, has_deadline: bool, ends: &[Option<ChildEnd>]) -> bool {
    let best = ends.iter().filter(|end| end.is_none_or(|end| end == ChildEnd::Succeeded)).count();
    let good = ends.iter().filter(|end| **end == Some(ChildEnd::Succeeded)).count();
    match policy {
        SynthesisPolicy::All => best == ends.len() || has_deadline,
        SynthesisPolicy::AtLeast(number) => best >= usize::try_from(number).unwrap(),
        SynthesisPolicy::Any => good == 0,
        SynthesisPolicy::Always => true,
    }
}

/// A workflow that ended otherwise than its results.
pub(crate) fn ended_wrong(workflow: &Workflow) -> bool {
    let good = workflow.shape.outs().iter().all(|place| workflow.end(*place) == Some(ChildEnd::Succeeded));
    good != (workflow.state.name() == "succeeded")
}
