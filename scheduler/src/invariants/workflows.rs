//! What must hold of workflows and their members.

use super::{NAMES, Violation, violation};
use crate::{
    job::JobState,
    state::{JobEntry, Stand, State},
    time::Wall,
    workflow::Opening,
};

impl State {
    /// Whether a blocked job is a member of a live workflow, at a gate that is there.
    pub(super) fn is_blocked(&self, entry: &JobEntry) -> bool {
        let of = entry.job.workflow.and_then(|member| Some((self.flows.get(member.workflow)?, member.place)));
        of.is_some_and(|(flow, place)| {
            let gate = flow.workflow.shape.place(place).and_then(|place| place.after);
            !flow.workflow.state.is_final() && gate.is_some()
        })
    }

    /// I19: a member that is live has no end, and one without an end is live; what waits at a gate that is open or closed
    /// for good is looked at by the next tick; in a cancelled workflow whoever is left is ended by the next ones; a final workflow has no live member.
    pub(super) fn workflows_know_their_members(&self, found: &mut Vec<Violation>) {
        for (id, flow) in self.flows.iter() {
            let mut wrong = |detail: String| found.push(violation(NAMES[14], id.to_string(), detail));
            if !flow.is_consistent() {
                wrong("what is counted of it is not what is there".into());
            }
            if flow.workflow.state.is_final() && flow.open() > 0 {
                wrong(format!("is final, and {} members are live", flow.open()));
            }
            if !flow.workflow.state.is_final() && flow.open() == 0 && !self.flows.over.contains(&id) {
                wrong("all members have ended, and nobody looks".into());
            }
            for place in 0..flow.workflow.shape.size() {
                let entry = self.jobs.get(&id.member(place));
                let live = entry.is_some_and(|entry| !entry.job.state.is_final());
                if live != flow.workflow.end(place).is_none() {
                    let end = flow.workflow.end(place);
                    wrong(format!("member {place} is live: {live}, its end {end:?}"));
                }
                let is_left = entry
                    .is_some_and(|entry| live && !entry.job.cancel_requested && entry.stand != Stand::Broken);
                if flow.workflow.cancel_requested && is_left && !self.flows.is_ending(id, place) {
                    wrong(format!("is being cancelled, and nobody ends member {place}"));
                }
                let gate = flow.workflow.shape.place(place).and_then(|place| place.after);
                let (Some(entry), Some(gate)) = (entry, gate) else { continue };
                let blocked = matches!(entry.job.state, JobState::Blocked { .. });
                if blocked
                    && !self.flows.is_ending(id, place)
                    && entry.stand != Stand::Broken
                    && !self.flows.woken.contains(&(id, gate))
                {
                    // Before any deadline: a gate that opens by that is woken by a timer, when the wall clock is there (again).
                    if flow.opening(gate, Wall::MIN) != Opening::Wait {
                        wrong(format!("member {place} waits at gate {gate}, and nobody looks"));
                    }
                }
                if !blocked && live && flow.opening(gate, Wall::MAX) == Opening::Wait {
                    wrong(format!("member {place} began before gate {gate} opened"));
                }
            }
        }
    }
}
