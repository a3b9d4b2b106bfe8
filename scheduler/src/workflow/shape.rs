//! The shape of a workflow: what was asked for as a tree, and what that means for each member as a list.
//!
//! Members have *places*: 0, 1, 2 … in the order in which they are declared, a synthesis behind its members. Whoever
//! waits for others waits at a *gate*: it has the places whose results it hands on, in declared order, the rule by which
//! it opens, and the places that begin when it does. Each result goes to one gate at the most, so a shape is no larger
//! than its tree.

use std::{ops::Range, time::Duration};

/// Jobs of one workflow at the most.
pub const MOST_MEMBERS: usize = 10_000;

/// Chains, groups and chords in each other at the most.
pub const MOST_NESTING: usize = 16;

/// A part of a workflow, as it was declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// One job.
    Job,
    /// Each part begins when the one before it has ended well, and is handed its results.
    Chain(Vec<Part>),
    /// All parts begin at once.
    Group(Vec<Part>),
    /// A group, and one job behind it.
    Chord(Box<Chord>),
}

/// Members side by side, and the synthesis of their results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chord {
    /// The parts that begin at once. The synthesis is one job behind them.
    pub members: Vec<Part>,
    /// When the synthesis runs.
    pub rule: Rule,
}

/// When a gate opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// How many of its members must have ended, and how.
    pub policy: SynthesisPolicy,
    /// It opens then on what is there, counted from the submission or the last requeue of the workflow; none: it waits for
    /// as long as it takes.
    pub deadline: Option<Duration>,
    /// What becomes of members that have not ended when it opens.
    pub on_deadline: OnDeadline,
}

/// How many of its members a synthesis wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SynthesisPolicy {
    /// All have succeeded. With a deadline: of those that have ended by then at least one.
    All,
    /// All have ended, and so many have succeeded. At least 1.
    AtLeast(u32),
    /// One has succeeded; the others are not waited for.
    Any,
    /// All have ended, whatever their ends.
    Always,
}

/// What becomes of members that have not ended when their synthesis begins without them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OnDeadline {
    /// They are cancelled.
    Cancel,
    /// They go on; nobody waits for them but the workflow.
    Leave,
}

impl Rule {
    /// That of a chain: what is before has ended well.
    pub const CHAIN: Self =
        Self { policy: SynthesisPolicy::All, deadline: None, on_deadline: OnDeadline::Cancel };
}

/// Where members wait for others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// The places whose results it hands on, in declared order.
    pub inputs: Vec<u32>,
    /// The places that begin when it opens.
    pub heads: Vec<u32>,
    /// All places that stand before it and behind whatever is before its part.
    pub covers: Range<u32>,
    /// When it opens.
    pub rule: Rule,
}

/// One member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// The gate at which it waits; none: it begins at once.
    pub after: Option<u32>,
    /// The gate that wants its result; none: it is a result of the workflow.
    pub feeds: Option<u32>,
}

/// A workflow without its jobs: see the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    part: Part,
    places: Vec<Place>,
    gates: Vec<Gate>,
    outs: Vec<u32>,
}

/// A tree that is no shape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct InvalidShape {
    /// The part: `workflow.chain.parts[1].chord`.
    pub path: String,
    /// What is wrong with it.
    pub problem: String,
}

impl Shape {
    /// Lays a tree out.
    ///
    /// # Errors
    /// If a part is empty, they are too deep in each other or too many, or a policy asks for what cannot be.
    pub fn of(part: Part) -> Result<Self, InvalidShape> {
        let mut shape = Self { part: Part::Job, places: Vec::new(), gates: Vec::new(), outs: Vec::new() };
        shape.outs = shape.lay(&part, None, 0, &"workflow")?;
        shape.part = part;
        Ok(shape)
    }

    /// The tree that it was made of.
    #[must_use]
    pub fn part(&self) -> &Part {
        &self.part
    }

    /// Its members, by place.
    #[must_use]
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Where members wait.
    #[must_use]
    pub fn gates(&self) -> &[Gate] {
        &self.gates
    }

    /// The places whose results are those of the workflow: it has succeeded when all of them have.
    #[must_use]
    pub fn outs(&self) -> &[u32] {
        &self.outs
    }

    /// How many members it has.
    #[must_use]
    pub fn size(&self) -> u32 {
        u32::try_from(self.places.len()).unwrap_or(u32::MAX)
    }

    /// A gate by its number.
    #[must_use]
    pub fn gate(&self, gate: u32) -> Option<&Gate> {
        self.gates.get(gate as usize)
    }

    /// A member by its place.
    #[must_use]
    pub fn place(&self, place: u32) -> Option<Place> {
        self.places.get(place as usize).copied()
    }

    /// Lays out one part behind a gate. The answer is the places of its results.
    fn lay(
        &mut self,
        part: &Part,
        after: Option<u32>,
        depth: usize,
        path: &dyn std::fmt::Display,
    ) -> Result<Vec<u32>, InvalidShape> {
        let refuse = |problem: String| Err(InvalidShape { path: path.to_string(), problem });
        if depth > MOST_NESTING {
            return refuse(format!("is nested deeper than {MOST_NESTING}"));
        }
        match part {
            Part::Job => self.job(after, path).map(|place| vec![place]),
            Part::Group(parts) if parts.is_empty() => refuse("group.parts must not be empty".into()),
            Part::Group(parts) => self.side_by_side(parts, after, depth, &format_args!("{path}.group.parts")),
            Part::Chain(parts) => {
                let start = self.size();
                let mut results = None;
                for (at, part) in parts.iter().enumerate() {
                    let after = match results.take() {
                        None => after,
                        Some(inputs) => Some(self.open_gate(inputs, start, Rule::CHAIN)),
                    };
                    let path = format!("{path}.chain.parts[{at}]");
                    results = Some(self.lay(part, after, depth + 1, &path)?);
                }
                results.map_or_else(|| refuse("chain.parts must not be empty".into()), Ok)
            }
            Part::Chord(chord) if chord.members.is_empty() => {
                refuse("chord.members must not be empty".into())
            }
            Part::Chord(chord) => {
                let start = self.size();
                let members = format_args!("{path}.chord.members");
                let inputs = self.side_by_side(&chord.members, after, depth, &members)?;
                if let SynthesisPolicy::AtLeast(number) = chord.rule.policy
                    && !(1..=inputs.len()).contains(&(number as usize))
                {
                    let most = inputs.len();
                    return refuse(format!("chord.at_least must be 1 to {most}, its results, not {number}"));
                }
                let gate = self.open_gate(inputs, start, chord.rule);
                self.job(Some(gate), path).map(|place| vec![place])
            }
        }
    }

    fn side_by_side(
        &mut self,
        parts: &[Part],
        after: Option<u32>,
        depth: usize,
        path: &dyn std::fmt::Display,
    ) -> Result<Vec<u32>, InvalidShape> {
        let mut results = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            results.extend(self.lay(part, after, depth + 1, &format!("{path}[{at}]"))?);
        }
        Ok(results)
    }

    fn job(&mut self, after: Option<u32>, path: &dyn std::fmt::Display) -> Result<u32, InvalidShape> {
        if self.places.len() >= MOST_MEMBERS {
            let problem =
                format!("is job {} of the workflow, which has at most {MOST_MEMBERS}", MOST_MEMBERS + 1);
            return Err(InvalidShape { path: path.to_string(), problem });
        }
        let place = self.size();
        self.places.push(Place { after, feeds: None });
        if let Some(gate) = after.and_then(|gate| self.gates.get_mut(gate as usize)) {
            gate.heads.push(place);
        }
        Ok(place)
    }

    fn open_gate(&mut self, inputs: Vec<u32>, start: u32, rule: Rule) -> u32 {
        let number = u32::try_from(self.gates.len()).unwrap_or(u32::MAX);
        for input in &inputs {
            if let Some(place) = self.places.get_mut(*input as usize) {
                place.feeds = Some(number);
            }
        }
        let covers = start..self.size();
        self.gates.push(Gate { inputs, heads: Vec::new(), covers, rule });
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chord(members: Vec<Part>, policy: SynthesisPolicy) -> Part {
        Part::Chord(Box::new(Chord { members, rule: Rule { policy, ..Rule::CHAIN } }))
    }

    /// `inputs -> heads` of each gate.
    fn gates(part: Part) -> Vec<String> {
        let shape = Shape::of(part).unwrap();
        shape.gates().iter().map(|gate| format!("{:?} -> {:?}", gate.inputs, gate.heads)).collect()
    }

    #[test]
    fn a_chain_hands_each_result_to_the_next() {
        let shape = Shape::of(Part::Chain(vec![Part::Job, Part::Job, Part::Job])).unwrap();
        assert_eq!(shape.outs(), [2]);
        assert_eq!(gates(shape.part().clone()), ["[0] -> [1]", "[1] -> [2]"]);
    }

    #[test]
    fn nested_parts_hand_on_in_declared_order() {
        let inner = chord(vec![Part::Job, Part::Job], SynthesisPolicy::Any);
        let part = Part::Chain(vec![
            Part::Group(vec![Part::Job, Part::Chain(vec![Part::Job, Part::Job]), inner]),
            Part::Group(vec![Part::Job, Part::Job]),
            Part::Job,
        ]);
        assert_eq!(
            gates(part),
            ["[1] -> [2]", "[3, 4] -> [5]", "[0, 2, 5] -> [6, 7]", "[6, 7] -> [8]"],
            "a group hands on the results of its parts, a chord that of its synthesis"
        );
    }

    #[test]
    fn a_gate_covers_its_own_part_only() {
        let inner = chord(vec![Part::Chain(vec![Part::Job, Part::Job]), Part::Job], SynthesisPolicy::All);
        let shape = Shape::of(Part::Chain(vec![Part::Job, inner])).unwrap();
        assert_eq!(shape.gates()[2].covers, 1..4);
        assert_eq!(shape.places()[4], Place { after: Some(2), feeds: None });
    }

    #[test]
    fn what_is_no_shape_is_refused_with_its_path() {
        let mut deep = Part::Job;
        for _ in 0..=MOST_NESTING {
            deep = Part::Group(vec![deep]);
        }
        let many = Part::Group(vec![Part::Job; MOST_MEMBERS + 1]);
        for (part, path, problem) in [
            (Part::Group(vec![]), "workflow", "group.parts must not be empty"),
            (
                Part::Chain(vec![Part::Job, Part::Chain(vec![])]),
                "workflow.chain.parts[1]",
                "chain.parts must not",
            ),
            (chord(vec![], SynthesisPolicy::All), "workflow", "chord.members must not be empty"),
            (chord(vec![Part::Job], SynthesisPolicy::AtLeast(2)), "workflow", "at_least must be 1 to 1"),
            (chord(vec![Part::Job], SynthesisPolicy::AtLeast(0)), "workflow", "at_least must be 1 to 1"),
            (many, "workflow.group.parts[10000]", "which has at most 10000"),
            (deep, "workflow.group.parts[0].group", "deeper than 16"),
        ] {
            let error = Shape::of(part).unwrap_err();
            assert!(error.path.starts_with(path) && error.problem.contains(problem), "{error}");
        }
        assert_eq!(Shape::of(Part::Group(vec![Part::Job; MOST_MEMBERS])).unwrap().size(), 10_000);
    }
}
