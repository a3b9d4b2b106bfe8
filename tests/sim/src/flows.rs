//! Workflows of a history: who submits which, and what their submitter knows of them.
//!
//! Responsible for random trees, and for a reading of them that does not come from the scheduler: who waits for whom, by
//! which rule. Not responsible for what must hold (`oracle/flows.rs`).

use std::{collections::BTreeMap, ops::Range, sync::Arc, time::Duration};

use tenure_scheduler::{
    Chord, Command, Enqueue, Fingerprint, KindName, OnDeadline, Part, Producer, RequeueMember, Rule, Shape,
    Submit, SynthesisPolicy, Tenant, WorkflowId,
};
use uuid::Uuid;

use crate::{
    clock::S,
    random::Random,
    world::{KINDS, World},
};

/// Parts in each other.
const DEEPEST: u32 = 2;

/// No tree has more members.
const MOST: usize = 9;

/// A workflow, as its submitter knows it.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) id: WorkflowId,
    /// By place: what stands before each member.
    pub(crate) members: Vec<Option<Behind>>,
    /// The places whose results are those of the workflow.
    pub(crate) outs: Vec<u32>,
    /// Somebody cancels it.
    pub(crate) cancelled: bool,
    /// Somebody requeues members of it, which overrules what its gates would do.
    pub(crate) overruled: bool,
    /// A gate of it may open before all of its members have ended, and end those.
    pub(crate) hasty: bool,
}

/// What a member waits for.
#[derive(Debug, Clone)]
pub(crate) struct Behind {
    /// Whose results it is handed, in declared order.
    pub(crate) inputs: Vec<u32>,
    pub(crate) rule: Rule,
}

impl Flow {
    fn new(id: WorkflowId, part: &Part) -> Self {
        let mut members = Vec::new();
        let outs = read(part, None, &mut members);
        let hasty = members
            .iter()
            .flatten()
            .any(|behind| behind.rule.deadline.is_some() || behind.rule.policy == SynthesisPolicy::Any);
        Self { id, members, outs, cancelled: false, overruled: false, hasty }
    }

    pub(crate) fn places(&self) -> Range<u32> {
        0..u32::try_from(self.members.len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn behind(&self, place: u32) -> Option<&Behind> {
        self.members.get(place as usize)?.as_ref()
    }
}

/// The places of a part in declared order, and those whose results it has.
fn read(part: &Part, behind: Option<&Behind>, members: &mut Vec<Option<Behind>>) -> Vec<u32> {
    let mut side_by_side =
        |parts: &[Part]| -> Vec<u32> { parts.iter().flat_map(|part| read(part, behind, members)).collect() };
    match part {
        Part::Job => vec![add(behind, members)],
        Part::Group(parts) => side_by_side(parts),
        Part::Chord(chord) => {
            let inputs = side_by_side(&chord.members);
            vec![add(Some(&Behind { inputs, rule: chord.rule }), members)]
        }
        Part::Chain(parts) => {
            let mut behind = behind.cloned();
            let mut outs = Vec::new();
            for part in parts {
                outs = read(part, behind.as_ref(), members);
                behind = Some(Behind { inputs: outs.clone(), rule: Rule::CHAIN });
            }
            outs
        }
    }
}

fn add(behind: Option<&Behind>, members: &mut Vec<Option<Behind>>) -> u32 {
    members.push(behind.cloned());
    u32::try_from(members.len() - 1).unwrap_or(u32::MAX)
}

fn tree(random: &mut Random, depth: u32) -> Part {
    if depth > DEEPEST || (depth > 0 && random.percent(45)) {
        return Part::Job;
    }
    let parts: Vec<_> = (0..random.between(1, 4)).map(|_| tree(random, depth + 1)).collect();
    match random.below(4) {
        0 => Part::Group(parts),
        1 => Part::Chain(parts),
        _ => {
            let rule = rule(random, parts.len());
            Part::Chord(Box::new(Chord { members: parts, rule }))
        }
    }
}

/// One that so many members can meet.
fn rule(random: &mut Random, members: usize) -> Rule {
    let policy = match random.below(4) {
        0 => SynthesisPolicy::All,
        1 => SynthesisPolicy::AtLeast(1 + u32::from(random.percent(40) && members > 1)),
        2 => SynthesisPolicy::Any,
        _ => SynthesisPolicy::Always,
    };
    Rule {
        policy,
        deadline: random.percent(35).then(|| Duration::from_secs(random.between(1, 60))),
        on_deadline: if random.percent(50) { OnDeadline::Cancel } else { OnDeadline::Leave },
    }
}

impl World {
    /// What is submitted, cancelled and requeued until all heals. `random` is one of its own: without workflows a seed is
    /// the history that it would be if there were none.
    pub(crate) fn plan_flows(&mut self, random: &mut Random, until: u64) {
        for number in 0..random.between(1, 3) {
            let id = WorkflowId(Uuid::from_u128(
                0x0199_0000_0001_7000_8000_0000_0000_0000 + (u128::from(number) << 80),
            ));
            let part = tree(random, 0);
            let Ok(shape) = Shape::of(part.clone()) else { continue };
            let mut flow = Flow::new(id, &part);
            if flow.members.len() > MOST {
                continue;
            }
            let at = random.between(0, until * 2 / 3);
            let command = submission(random, &flow, shape);
            self.plan_client(at, command);
            if random.percent(15) {
                flow.cancelled = true;
                let at = at + random.between(0, 40 * S);
                self.plan_client(at, Command::CancelWorkflow { workflow: id, reason: None, prior: None });
            }
            if random.percent(25) {
                flow.overruled = true;
                for _ in 0..random.between(1, 4) {
                    let place = u32::try_from(random.index(flow.members.len())).unwrap_or(0);
                    let at = at + random.between(5 * S, 90 * S);
                    let request = RequeueMember { workflow: id, place, prior: None, prior_jobs: Vec::new() };
                    self.plan_client(at, Command::RequeueMember(Box::new(request)));
                }
            }
            self.flows.insert(id, flow);
        }
    }
}

fn submission(random: &mut Random, flow: &Flow, shape: Shape) -> Command {
    let jobs = flow.places().map(|place| {
        let kind = KINDS[if random.percent(80) { 0 } else { 2 }].name;
        Enqueue {
            producer: Producer::new("p"),
            stale_after: random.percent(8).then(|| Duration::from_secs(random.between(5, 60))),
            ..Enqueue::new(flow.id.member(place), KindName::new(kind), Tenant::new("a"))
        }
    });
    let jobs = jobs.collect();
    let mut fingerprint = [0; 32];
    fingerprint.iter_mut().zip(flow.id.0.as_bytes()).for_each(|(to, from)| *to = *from);
    Command::SubmitWorkflow(Box::new(Submit {
        id: flow.id,
        producer: Producer::new("p"),
        name: None,
        fingerprint: Fingerprint(fingerprint),
        shape: Arc::new(shape),
        jobs,
        validate_only: false,
        prior: None,
    }))
}

/// All workflows of a history.
pub(crate) type Flows = BTreeMap<WorkflowId, Flow>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_read_as_the_scheduler_lays_it_out() {
        let mut random = Random::new(7);
        for number in 0..500 {
            let part = tree(&mut random, 0);
            let flow = Flow::new(WorkflowId(Uuid::from_u128(number)), &part);
            let shape = Shape::of(part).unwrap();
            assert_eq!((flow.places().end, &flow.outs[..]), (shape.size(), shape.outs()));
            for place in flow.places() {
                let gate = shape.place(place).and_then(|place| shape.gate(place.after?));
                let expected = gate.map(|gate| (gate.inputs.clone(), gate.rule));
                assert_eq!(flow.behind(place).map(|it| (it.inputs.clone(), it.rule)), expected, "{shape:?}");
            }
        }
    }
}
