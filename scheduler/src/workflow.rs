//! Workflows: jobs behind and beside each other, and what the end of one means to the next; pure rules below the state.
//!
//! All members are stored with their workflow, those that wait for others as *blocked*. How a member ended is told by its
//! own row; that of the workflow tells its shape, and of a gate only that it opened before all had ended: everything else
//! follows from the ends. So a member costs its workflow nothing, and a synthesis, being one job from the beginning, runs
//! once.

mod shape;

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use crate::{
    family::ChildEnd,
    ids::{Fingerprint, JobId, Producer, WorkflowId},
    time::Wall,
};

pub use self::shape::{
    Chord, Gate, InvalidShape, MOST_MEMBERS, MOST_NESTING, OnDeadline, Part, Place, Rule, Shape,
    SynthesisPolicy,
};

/// Members that are named in the reason of a workflow.
const MOST_NAMED: usize = 20;

/// What a job is of a workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemberOf {
    /// Which.
    pub workflow: WorkflowId,
    /// Where in it, from 0.
    pub place: u32,
}

/// Everything of a workflow that is stored, and the ends of its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workflow {
    /// Its identity.
    pub id: WorkflowId,
    /// Who submitted it.
    pub producer: Producer,
    /// For people, if it has one.
    pub name: Option<Arc<str>>,
    /// What makes a repeated submission the same.
    pub fingerprint: Fingerprint,
    /// How its members stand to each other.
    pub shape: Arc<Shape>,
    /// Where it stands.
    pub state: WorkflowState,
    /// Plus one at each change of its row.
    pub version: u64,
    /// Plus one when a final one comes back; from 1.
    pub round: u32,
    /// A wish that survives everything but a success stored before.
    pub cancel_requested: bool,
    /// When it was submitted.
    pub created_at: Wall,
    /// From when its deadlines count: its submission, or its last requeue.
    pub began_at: Wall,
    /// Why it stands where it stands, for people: the members that failed. At most 4 KiB.
    pub reason: Option<Arc<str>>,
    /// Gates that opened before all of their members had ended, or against their policy.
    pub opened: BTreeMap<u32, Opened>,
    /// How its members ended, by place; none: it has not. In the store those are the states of the jobs.
    pub ends: Vec<Option<ChildEnd>>,
}

/// A gate that did not wait for all of its members, or opened against its policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// Its results are fewer than its policy asks for.
    pub partial: bool,
    /// The places among its inputs that had not ended. What becomes of them later changes nothing.
    pub missing: Vec<u32>,
    /// By the requeue of a head, against its policy: nobody before it ends for that, also not when its deadline passes.
    pub requeued: bool,
}

/// Where a workflow stands. The last three are final, and change by a requeue only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkflowState {
    /// A member has not ended.
    Running,
    /// All of its results are there.
    Succeeded {
        /// When that was recorded.
        at: Wall,
    },
    /// A result of it cannot be.
    Dead {
        /// When that was recorded.
        at: Wall,
    },
    /// Somebody cancelled it.
    Cancelled {
        /// When that was recorded.
        at: Wall,
    },
}

/// What a gate is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// Its policy may still be met.
    Wait,
    /// It opens.
    Open {
        /// Its results are fewer than its policy asks for.
        partial: bool,
    },
    /// Its policy cannot be met any more.
    Never,
}

/// How many inputs of a gate have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tally {
    pub(crate) succeeded: u32,
    pub(crate) failed: u32,
}

impl WorkflowState {
    /// The word for it in SQL, in the CLI and in prose.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Succeeded { .. } => "succeeded",
            Self::Dead { .. } => "dead",
            Self::Cancelled { .. } => "cancelled",
        }
    }

    /// When it became final; none while it is live.
    #[must_use]
    pub fn finished_at(self) -> Option<Wall> {
        match self {
            Self::Running => None,
            Self::Succeeded { at } | Self::Dead { at } | Self::Cancelled { at } => Some(at),
        }
    }

    /// Whether it is one of the three final states.
    #[must_use]
    pub fn is_final(self) -> bool {
        self.finished_at().is_some()
    }
}

impl SynthesisPolicy {
    /// The word for it in rows, files and in prose.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::AtLeast(_) => "at_least",
            Self::Any => "any",
            Self::Always => "always",
        }
    }
}

impl OnDeadline {
    /// The word for it in rows, files and in prose.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Leave => "leave",
        }
    }
}

impl Tally {
    pub(crate) fn count(&mut self, end: Option<ChildEnd>, by: i32) {
        let Some(end) = end else { return };
        let field = if end == ChildEnd::Succeeded { &mut self.succeeded } else { &mut self.failed };
        *field = field.saturating_add_signed(by);
    }
}

impl Gate {
    /// What it is to do, by the ends of its inputs; `over`: its deadline has passed.
    pub(crate) fn judge(&self, tally: Tally, over: bool) -> Opening {
        let total = u32::try_from(self.inputs.len()).unwrap_or(u32::MAX);
        let Tally { succeeded, failed } = tally;
        let open = total.saturating_sub(succeeded + failed);
        let over = over && self.rule.deadline.is_some();
        let enough = |wanted: u32| if succeeded >= wanted { Some(open > 0) } else { None };
        let on_what_is_there = |wanted: u32| match enough(wanted) {
            Some(partial) => Opening::Open { partial },
            None => Opening::Never,
        };
        match self.rule.policy {
            SynthesisPolicy::All if succeeded == total => Opening::Open { partial: false },
            SynthesisPolicy::All if self.rule.deadline.is_none() && failed > 0 => Opening::Never,
            // With a deadline less than all is better than nothing: at the deadline, or when no more can come.
            SynthesisPolicy::All if over || open == 0 && succeeded > 0 => match succeeded {
                0 => Opening::Never,
                _ => Opening::Open { partial: true },
            },
            SynthesisPolicy::All if open == 0 => Opening::Never,
            SynthesisPolicy::AtLeast(wanted) if succeeded + open < wanted => Opening::Never,
            SynthesisPolicy::AtLeast(wanted) if over || open == 0 => on_what_is_there(wanted),
            SynthesisPolicy::Any if succeeded > 0 => Opening::Open { partial: false },
            SynthesisPolicy::Any if over || open == 0 => Opening::Never,
            SynthesisPolicy::Always if over || open == 0 => Opening::Open { partial: open > 0 },
            SynthesisPolicy::All
            | SynthesisPolicy::AtLeast(_)
            | SynthesisPolicy::Any
            | SynthesisPolicy::Always => Opening::Wait,
        }
    }

    /// Of a deadline that counts from then: when it is.
    pub(crate) fn due(&self, began_at: Wall) -> Option<Wall> {
        self.rule.deadline.map(|length| began_at.after(length)).filter(|at| *at < Wall::MAX)
    }
}

impl Workflow {
    /// The id of the job at a place.
    #[must_use]
    pub fn member(&self, place: u32) -> JobId {
        self.id.member(place)
    }

    /// How a member ended; none: it has not.
    #[must_use]
    pub fn end(&self, place: u32) -> Option<ChildEnd> {
        self.ends.get(place as usize).copied().flatten()
    }

    /// Members that have not ended.
    #[must_use]
    pub fn unfinished(&self) -> u32 {
        u32::try_from(self.ends.iter().filter(|end| end.is_none()).count()).unwrap_or(u32::MAX)
    }

    /// Whether a gate ran, or runs, on less than its policy asks for.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.opened.values().any(|opened| opened.partial)
    }

    pub(crate) fn tally(&self, gate: &Gate) -> Tally {
        let mut tally = Tally::default();
        gate.inputs.iter().for_each(|place| tally.count(self.end(*place), 1));
        tally
    }

    /// What a gate is to do at that time.
    #[must_use]
    pub fn opening(&self, number: u32, at: Wall) -> Opening {
        let Some(gate) = self.shape.gate(number) else { return Opening::Never };
        match self.opened.get(&number) {
            Some(opened) => Opening::Open { partial: opened.partial },
            None => gate.judge(self.tally(gate), gate.due(self.began_at).is_some_and(|due| due <= at)),
        }
    }

    /// Whether a member was never to run, because others before it did not succeed.
    fn was_skipped(&self, place: u32, at: Wall) -> bool {
        let gate = self.shape.place(place).and_then(|place| place.after);
        let never = gate.is_some_and(|gate| self.opening(gate, at) == Opening::Never);
        never && self.end(place) == Some(ChildEnd::Cancelled)
    }

    /// Members among these places that did not succeed, but for those that were never to run, with their ends: as many
    /// as are named, and one more.
    #[must_use]
    pub fn failed(&self, places: Range<u32>, at: Wall) -> Vec<(u32, ChildEnd)> {
        let places = places.filter_map(|place| Some((place, self.end(place)?)));
        let failed =
            places.filter(|(place, end)| *end != ChildEnd::Succeeded && !self.was_skipped(*place, at));
        failed.take(MOST_NAMED + 1).collect()
    }

    /// Where it stands once all of its members have ended, and why.
    pub(crate) fn outcome(&self, at: Wall) -> (WorkflowState, Option<Arc<str>>) {
        let good = |place: &u32| self.end(*place) == Some(ChildEnd::Succeeded);
        if self.shape.outs().iter().all(good) {
            return (WorkflowState::Succeeded { at }, None);
        }
        if self.cancel_requested {
            return (WorkflowState::Cancelled { at }, self.reason.clone());
        }
        (WorkflowState::Dead { at }, Some(named(&self.failed(0..self.shape.size(), at)).into()))
    }

    /// Whether a member is handed something.
    #[must_use]
    pub fn has_inputs(&self, place: u32) -> bool {
        self.shape.place(place).is_some_and(|place| place.after.is_some())
    }

    /// What a member is handed: the inputs of its gate in declared order, with their ends; one without an end was not
    /// waited for. None: it is handed nothing.
    #[must_use]
    pub fn inputs(&self, place: u32) -> Option<Vec<(JobId, Option<ChildEnd>)>> {
        let number = self.shape.place(place)?.after?;
        let missing = self.opened.get(&number).map(|opened| &opened.missing[..]).unwrap_or_default();
        let input = |input: &u32| {
            let end = self.end(*input).filter(|_| missing.binary_search(input).is_err());
            (self.member(*input), end)
        };
        Some(self.shape.gate(number)?.inputs.iter().map(input).collect())
    }
}

/// "member 1 dead, member 3 cancelled", for people.
pub(crate) fn named(failed: &[(u32, ChildEnd)]) -> String {
    let first = failed.iter().take(MOST_NAMED);
    let mut text: Vec<String> = first.map(|(place, end)| format!("member {place} {}", end.name())).collect();
    if failed.len() > MOST_NAMED {
        text.push("and more".to_owned());
    }
    text.join(", ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use uuid::Uuid;

    use super::*;

    const WAIT: Opening = Opening::Wait;
    const OPEN: Opening = Opening::Open { partial: false };
    const PARTIAL: Opening = Opening::Open { partial: true };
    const NEVER: Opening = Opening::Never;

    fn gate(policy: SynthesisPolicy, deadline: bool) -> Gate {
        let deadline = deadline.then_some(Duration::from_secs(1));
        let rule = Rule { policy, deadline, on_deadline: OnDeadline::Cancel };
        Gate { inputs: vec![0, 1, 2, 3], heads: vec![4], covers: 0..4, rule }
    }

    /// Of four members: without a deadline, before it, after it.
    #[test]
    fn each_policy_opens_once_it_is_met_and_never_once_it_cannot_be() {
        use SynthesisPolicy::{All, Always, Any, AtLeast};
        for (policy, (succeeded, failed), without, before, after) in [
            (All, (3, 0), WAIT, WAIT, PARTIAL),
            (All, (4, 0), OPEN, OPEN, OPEN),
            (All, (2, 1), NEVER, WAIT, PARTIAL),
            (All, (3, 1), NEVER, PARTIAL, PARTIAL),
            (All, (0, 2), NEVER, WAIT, NEVER),
            (All, (0, 4), NEVER, NEVER, NEVER),
            (AtLeast(3), (3, 0), WAIT, WAIT, PARTIAL),
            (AtLeast(3), (3, 1), OPEN, OPEN, OPEN),
            (AtLeast(3), (2, 1), WAIT, WAIT, NEVER),
            (AtLeast(3), (0, 2), NEVER, NEVER, NEVER),
            (Any, (1, 0), OPEN, OPEN, OPEN),
            (Any, (0, 3), WAIT, WAIT, NEVER),
            (Any, (0, 4), NEVER, NEVER, NEVER),
            (Always, (0, 3), WAIT, WAIT, PARTIAL),
            (Always, (0, 4), OPEN, OPEN, OPEN),
            (Always, (0, 0), WAIT, WAIT, PARTIAL),
        ] {
            let tally = Tally { succeeded, failed };
            let judged = [
                gate(policy, false).judge(tally, true),
                gate(policy, true).judge(tally, false),
                gate(policy, true).judge(tally, true),
            ];
            assert_eq!(judged, [without, before, after], "{policy:?} {tally:?}");
        }
    }

    #[test]
    fn ids_of_members_are_of_version_7_and_sort_by_place() {
        let id = WorkflowId(Uuid::from_u128(0x0199_1234_5678_7abc_8def_0123_4567_89ab));
        let ids: Vec<JobId> = (0..10_000).map(|place| id.member(place)).collect();
        assert!(ids.is_sorted() && ids.windows(2).all(|pair| pair[0] != pair[1]));
        assert!(ids.iter().all(|job| job.0.get_version_num() == 7));
        assert!(ids.iter().all(|job| job.0.get_variant() == uuid::Variant::RFC4122));
        let other = WorkflowId(Uuid::from_u128(0x0199_1234_5678_7abc_8def_0123_4567_89ac));
        assert_ne!(ids[0], other.member(0));
    }
}
