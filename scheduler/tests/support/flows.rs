//! Script lines about workflows.

use std::{fmt::Write as _, str::Chars, sync::Arc, time::Duration};

use tenure_scheduler::{
    Chord, Command, Enqueue, Fingerprint, JobId, KindName, OnDeadline, Part, Producer, RequeueMember, Rule,
    Shape, Submit, SynthesisPolicy, Tenant, WorkflowId,
};

use super::{
    script::Script,
    words::{Line, duration},
};

impl Script {
    pub(super) fn flow_line(&mut self, line: &Line) {
        let name = line.name(0).to_owned();
        match line.verb.as_str() {
            "workflow" => {
                let command = self.submit_command(line);
                self.run_named(&name, command);
            }
            "cancel-workflow" => {
                let workflow = self.flow(&name);
                self.run_named(&name, Command::CancelWorkflow { workflow, reason: None, prior: None });
            }
            "requeue-member" => {
                let job = self.id(&name);
                let of = self.world.store.job(job).and_then(|job| job.workflow).expect("a member");
                let (workflow, place) = (of.workflow, of.place);
                let request = RequeueMember { workflow, place, prior: None, prior_jobs: Vec::new() };
                self.run_named(&name, Command::RequeueMember(Box::new(request)));
            }
            "flow" => {
                let id = self.flow(&name);
                let Some(flow) = self.world.state.workflow(id).cloned().or(self.world.store.workflow(id))
                else {
                    return self.say(&format!("{name} is not stored"));
                };
                let done = flow.shape.size() - flow.unfinished();
                let mut text =
                    format!("{name} {} round={} {done}/{}", flow.state.name(), flow.round, flow.shape.size());
                if flow.is_partial() {
                    text += " partial";
                }
                flow.reason.iter().for_each(|reason| write!(text, " [{reason}]").unwrap());
                self.say(&text);
            }
            _ => {
                let job = self.id(&name);
                let of = self.world.state.job(job).and_then(|job| job.workflow).expect("a live member");
                let inputs = self.world.state.workflow(of.workflow).and_then(|flow| flow.inputs(of.place));
                let mut text = format!("{name} gets");
                for (job, end) in inputs.into_iter().flatten() {
                    write!(text, " {job} {}", end.map_or("open", |end| end.name())).unwrap();
                }
                self.say(&text);
            }
        }
    }

    fn flow(&mut self, name: &str) -> WorkflowId {
        WorkflowId(self.id(name).0)
    }

    fn submit_command(&mut self, line: &Line) -> Command {
        let id = self.flow(line.name(0));
        let mut names = Vec::new();
        let part = part(&mut line.name(1).chars(), &mut names).0;
        let kind = |name: &str| KindName::new(line.get(name).or(line.get("kind")).expect("kind="));
        let jobs = names.iter().zip(0..).map(|(name, place)| {
            let job = id.member(place);
            self.names.insert(name.clone(), job);
            self.ids.insert(job, name.clone());
            Enqueue {
                producer: Producer::new("p"),
                delay: line.duration("delay"),
                stale_after: line.duration("stale_after"),
                ..Enqueue::new(job, kind(name), Tenant::new("default"))
            }
        });
        Command::SubmitWorkflow(Box::new(Submit {
            id,
            producer: Producer::new(line.get("producer").unwrap_or("p")),
            name: None,
            fingerprint: Fingerprint([line.number("payload").unwrap_or(0); 32]),
            jobs: jobs.collect(),
            shape: Arc::new(Shape::of(part).expect("a shape")),
            validate_only: false,
            prior: None,
        }))
    }
}

/// `a`, `chain(…)`, `group(…)` or `chord(…)s:at_least:2:deadline:5s:leave`; and the character behind it.
fn part(text: &mut Chars<'_>, names: &mut Vec<String>) -> (Part, Option<char>) {
    let mut word = String::new();
    let end = loop {
        match text.next() {
            Some(end @ ('(' | ')' | ',')) => break Some(end),
            None => break None,
            Some(other) => word.push(other),
        }
    };
    if end != Some('(') {
        names.push(word);
        return (Part::Job, end);
    }
    let mut parts = Vec::new();
    loop {
        let (next, end) = part(text, names);
        parts.push(next);
        if end != Some(',') {
            break;
        }
    }
    match word.as_str() {
        "chain" => (Part::Chain(parts), text.next()),
        "group" => (Part::Group(parts), text.next()),
        _ => {
            let rest: String = text.clone().take_while(|next| !matches!(next, ',' | ')')).collect();
            let end = text.nth(rest.len());
            let mut words = rest.split(':');
            names.push(words.next().unwrap().to_owned());
            (Part::Chord(Box::new(Chord { members: parts, rule: rule(words) })), end)
        }
    }
}

fn rule<'a>(mut words: impl Iterator<Item = &'a str>) -> Rule {
    let mut rule = Rule::CHAIN;
    while let Some(word) = words.next() {
        match word {
            "at_least" => rule.policy = SynthesisPolicy::AtLeast(words.next().unwrap().parse().unwrap()),
            "any" => rule.policy = SynthesisPolicy::Any,
            "always" => rule.policy = SynthesisPolicy::Always,
            "deadline" => rule.deadline = Some(words.next().map(duration).unwrap_or(Duration::ZERO)),
            "leave" => rule.on_deadline = OnDeadline::Leave,
            other => panic!("no such rule: {other}"),
        }
    }
    rule
}

/// The ids of the members of a workflow, for histories.
pub(crate) fn members(id: WorkflowId, size: u32) -> impl Iterator<Item = JobId> {
    (0..size).map(move |place| id.member(place))
}
