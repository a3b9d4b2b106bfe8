//! How a workflow stands, as a tree of lines. Members that stand alike beside each other share one.

use std::collections::BTreeMap;

use tenure_client::proto::{
    GetWorkflowResponse, JobState, SynthesisPolicy, Workflow, WorkflowChordShape, WorkflowMember,
    WorkflowShape, workflow_shape::Part,
};

use super::{sentence, state_word};
use crate::human;
use crate::output::Output;

/// So many members that stand alike are drawn as one.
const ALIKE: usize = 4;

/// Characters of a reason on a line.
const WHY_SHOWN: usize = 100;

/// The whole drawing.
pub(super) fn lines(answer: &GetWorkflowResponse, output: &Output) -> Vec<String> {
    let members = answer.members.iter().map(|member| (member.place, member)).collect();
    let mut drawing = Drawing { members, output, lines: Vec::new() };
    let workflow = answer.workflow.clone().unwrap_or_default();
    drawing.lines.push(head(&workflow));
    if let Some(shape) = &answer.shape {
        drawing.part(shape, "", "");
    }
    drawing.lines
}

fn head(workflow: &Workflow) -> String {
    let name =
        if workflow.name.is_empty() { String::new() } else { format!(" {}", human::clean(&workflow.name)) };
    let wish =
        if workflow.cancel_requested && state_word(workflow) == "running" { ", being cancelled" } else { "" };
    let round = if workflow.round > 1 { format!(", round {}", workflow.round) } else { String::new() };
    format!("{}{name}: {}{round}{wish}", workflow.id, sentence(workflow))
}

struct Drawing<'a> {
    members: BTreeMap<u32, &'a WorkflowMember>,
    output: &'a Output,
    lines: Vec<String>,
}

impl Drawing<'_> {
    /// `first` stands before the line of the part, `rest` before those of what it holds.
    fn part(&mut self, shape: &WorkflowShape, first: &str, rest: &str) {
        match &shape.part {
            None => {}
            Some(Part::Place(place)) => {
                let line = format!("{first}{}", self.member(*place));
                self.lines.push(line);
            }
            Some(Part::Chain(parts)) => {
                self.lines.push(format!("{first}chain"));
                self.all(&parts.parts, rest, true);
            }
            Some(Part::Group(parts)) => {
                self.lines.push(format!("{first}group"));
                self.all(&parts.parts, rest, true);
            }
            Some(Part::Chord(chord)) => {
                let line = format!("{first}chord {}", self.rule(chord));
                self.lines.push(line);
                self.all(&chord.members, rest, false);
                let line = format!("{rest}╘═ {}", self.member(chord.synthesis));
                self.lines.push(line);
            }
        }
    }

    fn all(&mut self, parts: &[WorkflowShape], before: &str, closes: bool) {
        let mut at = 0;
        while let Some(part) = parts.get(at) {
            let alike = self.alike(parts.get(at..).unwrap_or_default());
            let is_last = closes && at + alike.max(1) >= parts.len();
            let (corner, bar) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            if alike >= ALIKE {
                let line =
                    format!("{before}{corner}{}", self.run(parts.get(at..at + alike).unwrap_or_default()));
                self.lines.push(line);
                at += alike;
            } else {
                self.part(part, &format!("{before}{corner}"), &format!("{before}{bar}"));
                at += 1;
            }
        }
    }

    /// How many members from the first on stand alike.
    fn alike(&self, parts: &[WorkflowShape]) -> usize {
        let of = |shape: &WorkflowShape| match shape.part {
            Some(Part::Place(place)) => self.members.get(&place).copied(),
            Some(Part::Chain(_) | Part::Group(_) | Part::Chord(_)) | None => None,
        };
        let Some(first) = parts.first().and_then(of) else { return 0 };
        let same = |member: &WorkflowMember| {
            (&member.kind, member.state, &member.reason) == (&first.kind, first.state, &first.reason)
        };
        parts.iter().take_while(|part| of(part).is_some_and(same)).count()
    }

    fn run(&self, parts: &[WorkflowShape]) -> String {
        let place = |part: Option<&WorkflowShape>| match part.and_then(|part| part.part.as_ref()) {
            Some(Part::Place(place)) => *place,
            Some(Part::Chain(_) | Part::Group(_) | Part::Chord(_)) | None => 0,
        };
        let (first, last) = (place(parts.first()), place(parts.last()));
        let words = self.members.get(&first).map(|member| words(member)).unwrap_or_default();
        format!("{first}–{last} {words}, {} alike", parts.len())
    }

    fn member(&self, place: u32) -> String {
        let words = self.members.get(&place).map(|member| words(member)).unwrap_or_default();
        format!("{place} {words}")
    }

    /// `(at least 3, by 10 min ago, partial)`.
    fn rule(&self, chord: &WorkflowChordShape) -> String {
        let mut words = vec![match chord.policy() {
            SynthesisPolicy::Unspecified | SynthesisPolicy::All => "all".to_owned(),
            SynthesisPolicy::AtLeast => format!("at least {}", chord.at_least),
            SynthesisPolicy::Any => "any".to_owned(),
            SynthesisPolicy::Always => "always".to_owned(),
        }];
        if chord.deadline.is_some() {
            words.push(format!("deadline {}", self.output.when(chord.deadline.as_ref())));
        }
        if chord.partial {
            words.push("partial".to_owned());
        }
        if !chord.missing.is_empty() {
            words.push(format!("without {}", human::count(chord.missing.len(), "member")));
        }
        format!("({})", words.join(", "))
    }
}

/// `✗ search dead: exit 1`.
fn words(member: &WorkflowMember) -> String {
    let mark = match member.state() {
        JobState::Succeeded => "✓",
        JobState::Dead | JobState::Expired => "✗",
        JobState::Cancelled => "⊘",
        JobState::Running => "▶",
        JobState::Queued | JobState::Scheduled | JobState::Waiting => "…",
        JobState::Blocked => "·",
        JobState::Unspecified => return "- deleted".to_owned(),
    };
    let state = human::word(member.state().as_str_name(), "JOB_STATE_");
    let line = format!("{mark} {} {state}", human::clean(&member.kind));
    if member.reason.is_empty() {
        line
    } else {
        format!("{line}: {}", human::brief(&member.reason, WHY_SHOWN))
    }
}
