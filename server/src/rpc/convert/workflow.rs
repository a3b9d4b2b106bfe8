//! Workflows: a tree of the wire becomes a shape and the jobs of its leaves; a workflow becomes what is shown of it.

use std::{collections::BTreeMap, time::Duration};

use ring::digest::{Context, SHA256};
use tenure_proto::v1::{self, workflow_part, workflow_shape};
use tenure_scheduler::{
    Chord, Enqueue, Fingerprint, InvalidShape, MOST_NESTING, OnDeadline, Part, Rule, Shape, SynthesisPolicy,
    Workflow, WorkflowState,
};
use tenure_store::MemberState;

use super::{job, timestamp};
use crate::rpc::{
    check::{Checks, LIMITS},
    status::No,
};

/// What was asked for: the tree, its jobs by place, and the path of each in the request.
pub(crate) struct Asked {
    pub(crate) shape: Shape,
    pub(crate) jobs: Vec<(String, v1::JobSpec)>,
}

/// Lays out what was asked for.
///
/// # Errors
/// Every part that is none, or the first reason why they are no shape.
pub(crate) fn shape(part: Option<v1::WorkflowPart>) -> Result<Asked, No> {
    let mut asked = Reading { checks: Checks::default(), jobs: Vec::new() };
    let part = asked.part(part, "workflow", 0);
    asked.checks.finish()?;
    let Some(part) = part else { return Err(No::invalid_field("workflow", "is required")) };
    let shape = Shape::of(part).map_err(|InvalidShape { path, problem }| No::invalid_field(path, problem))?;
    Ok(Asked { shape, jobs: asked.jobs })
}

struct Reading {
    checks: Checks,
    jobs: Vec<(String, v1::JobSpec)>,
}

impl Reading {
    fn part(&mut self, part: Option<v1::WorkflowPart>, path: &str, depth: usize) -> Option<Part> {
        if depth > MOST_NESTING + 1 {
            self.checks.refuse(path, format!("is nested deeper than {MOST_NESTING}"));
            return None;
        }
        match part.and_then(|part| part.part) {
            None => {
                self.checks.refuse(path, "is required");
                None
            }
            Some(workflow_part::Part::Job(spec)) => {
                self.jobs.push((format!("{path}.job"), spec));
                Some(Part::Job)
            }
            Some(workflow_part::Part::Chain(chain)) => {
                Some(Part::Chain(self.parts(chain.parts, &format!("{path}.chain.parts"), depth)))
            }
            Some(workflow_part::Part::Group(group)) => {
                Some(Part::Group(self.parts(group.parts, &format!("{path}.group.parts"), depth)))
            }
            Some(workflow_part::Part::Chord(chord)) => self.chord(chord, &format!("{path}.chord"), depth),
        }
    }

    fn parts(&mut self, parts: Vec<v1::WorkflowPart>, path: &str, depth: usize) -> Vec<Part> {
        let mut all = Vec::with_capacity(parts.len());
        for (at, part) in parts.into_iter().enumerate() {
            all.extend(self.part(Some(part), &format!("{path}[{at}]"), depth + 1));
        }
        all
    }

    fn chord(&mut self, chord: v1::WorkflowChord, path: &str, depth: usize) -> Option<Part> {
        let members = self.parts(chord.members, &format!("{path}.members"), depth);
        match chord.synthesis {
            Some(spec) => self.jobs.push((format!("{path}.synthesis"), spec)),
            None => self.checks.refuse(format!("{path}.synthesis"), "is required"),
        }
        let policy = self.policy(path, chord.policy, chord.at_least);
        let deadline = self.checks.duration(&format!("{path}.deadline"), chord.deadline.as_ref(), LIMITS);
        let on_deadline = match v1::OnDeadline::try_from(chord.on_deadline) {
            Ok(v1::OnDeadline::Unspecified | v1::OnDeadline::Cancel) => OnDeadline::Cancel,
            Ok(v1::OnDeadline::Leave) => OnDeadline::Leave,
            Err(_) => {
                self.checks
                    .refuse(format!("{path}.on_deadline"), format!("{} is unknown", chord.on_deadline));
                return None;
            }
        };
        Some(Part::Chord(Box::new(Chord { members, rule: Rule { policy: policy?, deadline, on_deadline } })))
    }

    fn policy(&mut self, path: &str, policy: i32, at_least: u32) -> Option<SynthesisPolicy> {
        let known = v1::SynthesisPolicy::try_from(policy);
        let is_counted = known == Ok(v1::SynthesisPolicy::AtLeast);
        if at_least > 0 && !is_counted {
            self.checks.refuse(format!("{path}.at_least"), "stands with SYNTHESIS_POLICY_AT_LEAST alone");
        }
        match known {
            Ok(v1::SynthesisPolicy::Unspecified | v1::SynthesisPolicy::All) => Some(SynthesisPolicy::All),
            Ok(v1::SynthesisPolicy::AtLeast) => Some(SynthesisPolicy::AtLeast(at_least)),
            Ok(v1::SynthesisPolicy::Any) => Some(SynthesisPolicy::Any),
            Ok(v1::SynthesisPolicy::Always) => Some(SynthesisPolicy::Always),
            Err(_) => {
                self.checks.refuse(format!("{path}.policy"), format!("{policy} is unknown"));
                None
            }
        }
    }
}

/// What makes two submissions under one id the same: the tree, and each job as for its own id.
pub(crate) fn fingerprint(name: &str, shape: &Shape, jobs: &[Enqueue]) -> Fingerprint {
    let mut context = Context::new(&SHA256);
    let mut add = |bytes: &[u8]| {
        context.update(&(bytes.len() as u64).to_be_bytes());
        context.update(bytes);
    };
    add(name.as_bytes());
    for (place, job) in shape.places().iter().zip(jobs) {
        add(&place.after.map_or(u64::MAX, u64::from).to_be_bytes());
        add(&job.fingerprint.0);
    }
    for gate in shape.gates() {
        for input in &gate.inputs {
            add(&input.to_be_bytes());
        }
        let Rule { policy, deadline, on_deadline } = gate.rule;
        add(policy.name().as_bytes());
        if let SynthesisPolicy::AtLeast(number) = policy {
            add(&number.to_be_bytes());
        }
        add(&deadline.map_or(u128::MAX, |deadline| deadline.as_micros()).to_be_bytes());
        add(on_deadline.name().as_bytes());
    }
    let mut bytes = [0; 32];
    bytes.iter_mut().zip(context.finish().as_ref()).for_each(|(to, from)| *to = *from);
    Fingerprint(bytes)
}

/// A workflow that ended, without what would have to be counted of its members.
pub(crate) fn ended(of: &Workflow) -> v1::Workflow {
    workflow(of, &BTreeMap::new())
}

/// A workflow with what is counted of its members.
pub(crate) fn workflow(workflow: &Workflow, counts: &BTreeMap<String, u32>) -> v1::Workflow {
    let finals = ["succeeded", "dead", "cancelled", "expired"];
    let total = workflow.shape.size();
    let live: u32 =
        counts.iter().filter(|(state, _)| !finals.contains(&&***state)).map(|(_, count)| count).sum();
    v1::Workflow {
        id: workflow.id.to_string(),
        name: workflow.name.as_deref().unwrap_or_default().to_owned(),
        producer: workflow.producer.to_string(),
        state: state(workflow.state).into(),
        round: workflow.round,
        partial: workflow.is_partial(),
        cancel_requested: workflow.cancel_requested,
        create_time: Some(timestamp(workflow.created_at)),
        finish_time: workflow.state.finished_at().map(timestamp),
        reason: workflow.reason.as_deref().unwrap_or_default().to_owned(),
        total,
        done: total.saturating_sub(live),
        members_by_state: counts.clone(),
    }
}

fn state(state: WorkflowState) -> v1::WorkflowState {
    match state {
        WorkflowState::Running => v1::WorkflowState::Running,
        WorkflowState::Succeeded { .. } => v1::WorkflowState::Succeeded,
        WorkflowState::Dead { .. } => v1::WorkflowState::Dead,
        WorkflowState::Cancelled { .. } => v1::WorkflowState::Cancelled,
    }
}

/// The name of a state of the wire, as the store knows it.
pub(crate) fn state_name(state: v1::WorkflowState) -> Option<&'static str> {
    match state {
        v1::WorkflowState::Unspecified => None,
        v1::WorkflowState::Running => Some("running"),
        v1::WorkflowState::Succeeded => Some("succeeded"),
        v1::WorkflowState::Dead => Some("dead"),
        v1::WorkflowState::Cancelled => Some("cancelled"),
    }
}

/// All members by place; of one that was deleted nothing but its id is known.
pub(crate) fn members(workflow: &Workflow, stored: Vec<MemberState>) -> Vec<v1::WorkflowMember> {
    let mut stored: BTreeMap<u32, MemberState> =
        stored.into_iter().map(|member| (member.place, member)).collect();
    let member = |place: u32| {
        let job_id = workflow.member(place).to_string();
        match stored.remove(&place) {
            None => v1::WorkflowMember { place, job_id, ..v1::WorkflowMember::default() },
            Some(member) => v1::WorkflowMember {
                place,
                job_id,
                kind: member.kind.to_string(),
                state: job::state_of_name(&member.state).into(),
                reason: member.reason.as_deref().unwrap_or_default().to_owned(),
            },
        }
    };
    (0..workflow.shape.size()).map(member).collect()
}

/// The tree with the places of its members.
pub(crate) fn tree(workflow: &Workflow) -> v1::WorkflowShape {
    let mut drawing = Drawing { workflow, place: 0, gate: 0 };
    drawing.part(workflow.shape.part())
}

/// Places and gates have their numbers in the order in which the tree is walked.
struct Drawing<'a> {
    workflow: &'a Workflow,
    place: u32,
    gate: u32,
}

impl Drawing<'_> {
    fn part(&mut self, part: &Part) -> v1::WorkflowShape {
        let part = match part {
            Part::Job => workflow_shape::Part::Place(self.next_place()),
            Part::Group(parts) => workflow_shape::Part::Group(v1::WorkflowShapes { parts: self.all(parts) }),
            Part::Chain(parts) => {
                let mut all = Vec::with_capacity(parts.len());
                for (at, part) in parts.iter().enumerate() {
                    self.gate += u32::from(at > 0);
                    all.push(self.part(part));
                }
                workflow_shape::Part::Chain(v1::WorkflowShapes { parts: all })
            }
            Part::Chord(chord) => {
                let members = self.all(&chord.members);
                let gate = self.gate;
                self.gate += 1;
                workflow_shape::Part::Chord(self.chord(chord, members, gate))
            }
        };
        v1::WorkflowShape { part: Some(part) }
    }

    fn all(&mut self, parts: &[Part]) -> Vec<v1::WorkflowShape> {
        parts.iter().map(|part| self.part(part)).collect()
    }

    fn next_place(&mut self) -> u32 {
        self.place += 1;
        self.place - 1
    }

    fn chord(&mut self, chord: &Chord, members: Vec<v1::WorkflowShape>, gate: u32) -> v1::WorkflowChordShape {
        let opened = self.workflow.opened.get(&gate);
        let (policy, at_least) = match chord.rule.policy {
            SynthesisPolicy::All => (v1::SynthesisPolicy::All, 0),
            SynthesisPolicy::AtLeast(number) => (v1::SynthesisPolicy::AtLeast, number),
            SynthesisPolicy::Any => (v1::SynthesisPolicy::Any, 0),
            SynthesisPolicy::Always => (v1::SynthesisPolicy::Always, 0),
        };
        let on_deadline = match chord.rule.on_deadline {
            OnDeadline::Cancel => v1::OnDeadline::Cancel,
            OnDeadline::Leave => v1::OnDeadline::Leave,
        };
        let by = |length: Duration| timestamp(self.workflow.began_at.after(length));
        v1::WorkflowChordShape {
            members,
            policy: policy.into(),
            at_least,
            deadline: chord.rule.deadline.map(by),
            on_deadline: on_deadline.into(),
            partial: opened.is_some_and(|opened| opened.partial),
            missing: opened.map(|opened| opened.missing.clone()).unwrap_or_default(),
            synthesis: self.next_place(),
        }
    }
}
