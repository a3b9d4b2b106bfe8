//! Workflows in random histories.

use std::{sync::Arc, time::Duration};

use tenure_scheduler::{
    Chord, Command, Enqueue, Fingerprint, KindName, OnDeadline, Part, Producer, RequeueMember, Rule, Shape,
    Submit, SynthesisPolicy, Tenant, WorkflowId,
};
use uuid::Uuid;

use super::fuzz::{Fuzz, KINDS, priority};
use crate::support::{Rng, members};

/// Parts in each other.
const DEEPEST: u32 = 2;

impl Fuzz {
    /// Something about a workflow: most often a new one.
    pub(super) fn workflow(&mut self) {
        let known = self.rng.pick(&self.flows);
        match known.filter(|_| self.rng.percent(60)) {
            None => {
                let again = self.rng.percent(10);
                self.submit(known.filter(|_| again));
            }
            Some(workflow) if self.rng.percent(25) => {
                self.run(Command::CancelWorkflow { workflow, reason: None, prior: None });
            }
            Some(workflow) => {
                let place = u32::try_from(self.rng.below(8)).unwrap();
                let request = RequeueMember { workflow, place, prior: None, prior_jobs: Vec::new() };
                self.run(Command::RequeueMember(Box::new(request)));
            }
        }
    }

    fn submit(&mut self, again: Option<WorkflowId>) {
        let next = 0x0199_0000_0001_7000_8000_0000_0000_0000 + self.flows.len() as u128 * 0x1_0000_0000;
        let id = again.unwrap_or(WorkflowId(Uuid::from_u128(next)));
        let part = part(&mut self.rng, 0);
        let Ok(shape) = Shape::of(part) else { return };
        self.flows.push(id);
        self.jobs.extend(members(id, shape.size()));
        let job = |place: u32, rng: &mut Rng| {
            let kind = KindName::new(rng.pick(&KINDS).unwrap());
            Enqueue {
                producer: Producer::new("p"),
                priority: rng.percent(30).then(|| priority(rng)),
                delay: rng.percent(5).then(|| Duration::from_micros(rng.below(9_000_000))),
                stale_after: rng.percent(10).then(|| Duration::from_micros(rng.below(90_000_000))),
                ..Enqueue::new(id.member(place), kind, Tenant::new("t1"))
            }
        };
        let jobs = (0..shape.size()).map(|place| job(place, &mut self.rng)).collect();
        let submit = Submit {
            id,
            producer: Producer::new("p"),
            name: None,
            fingerprint: Fingerprint([u8::from(self.rng.percent(30)); 32]),
            shape: Arc::new(shape),
            jobs,
            validate_only: false,
            prior: None,
        };
        self.run(Command::SubmitWorkflow(Box::new(submit)));
    }
}

fn part(rng: &mut Rng, depth: u32) -> Part {
    if depth > DEEPEST || rng.percent(30) {
        return Part::Job;
    }
    let parts = (0..1 + rng.below(3)).map(|_| part(rng, depth + 1)).collect();
    match rng.below(4) {
        0 => Part::Group(parts),
        1 => Part::Chain(parts),
        _ => Part::Chord(Box::new(Chord { members: parts, rule: rule(rng) })),
    }
}

fn rule(rng: &mut Rng) -> Rule {
    Rule {
        policy: match rng.below(4) {
            0 => SynthesisPolicy::All,
            1 => SynthesisPolicy::AtLeast(1 + u32::try_from(rng.below(2)).unwrap()),
            2 => SynthesisPolicy::Any,
            _ => SynthesisPolicy::Always,
        },
        deadline: rng.percent(50).then(|| Duration::from_secs(rng.below(40))),
        on_deadline: if rng.percent(50) { OnDeadline::Cancel } else { OnDeadline::Leave },
    }
}
