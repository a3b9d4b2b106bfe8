//! A workflow of fifty jobs, and what each of them must be handed and must say.
//!
//! Responsible for the tree, its places in declared order, and the results that follow from it. Not responsible for
//! running or killing anything (`fifty.rs`).

use serde_json::json;
use tenure_client::{NewJob, Part};
use tenure_tests::{Fleet, Script, Step};

/// A result longer than this is told on as its length, by the test job and by the worker of the scenarios.
const LONG: usize = 100;

/// Who runs a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// A command in a shim.
    Shell,
    /// A function in a worker process.
    Worker,
}

/// A part.
enum Tree {
    /// It says its own name.
    Job(By),
    /// It says what it was handed.
    Gather(By),
    Chain(Vec<Tree>),
    Group(Vec<Tree>),
    /// Members, and who runs the synthesis, which says what it was handed.
    Chord(Vec<Tree>, By),
}

/// A job of the workflow.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) by: By,
    /// What it waits for before it says anything.
    pub(crate) gate: String,
    /// The places whose results it is handed, in declared order.
    pub(crate) inputs: Vec<usize>,
    /// What it says.
    pub(crate) says: String,
}

/// All of it: chains in groups, chords in chains in chords, members of both kinds, a synthesis in each of both.
pub(crate) fn fifty() -> (Part, Vec<Member>) {
    use By::{Shell, Worker};
    use Tree::{Chain, Chord, Gather, Group, Job};
    let job = || Job(Shell);
    let mut pairs: Vec<Tree> = (0..6).map(|_| Chain(vec![job(), Gather(Shell)])).collect();
    pairs.extend([job(), job(), job()]);
    let research = vec![
        job(),
        Chain(vec![job(), Gather(Shell)]),
        Job(Worker),
        job(),
        Group(vec![job(), Job(Worker)]),
        job(),
        job(),
    ];
    let of_four = Chord(vec![job(), job(), job(), job()], Shell);
    let of_three = Chord(vec![job(), Chain(vec![job(), job()]), Job(Worker)], Shell);
    let report = vec![
        Chord(vec![job(), job(), job()], Shell),
        Chain(vec![Chord(vec![job(), job()], Worker), job()]),
        Group(vec![job(), job()]),
        job(),
        job(),
        Job(Worker),
    ];
    let all = Chain(vec![
        Group(pairs),
        Chord(research, Worker),
        Group(vec![of_four, of_three]),
        Chord(report, Shell),
        Gather(Shell),
    ]);
    let mut members = Vec::new();
    let (part, _) = all.place(&[], &mut members);
    (part, members)
}

impl Tree {
    /// The part as it is submitted, and the places that whatever comes behind it is handed.
    fn place(&self, before: &[usize], members: &mut Vec<Member>) -> (Part, Vec<usize>) {
        match self {
            Self::Job(by) => single(*by, false, before, members),
            Self::Gather(by) => single(*by, true, before, members),
            Self::Chain(parts) => {
                let mut outs = before.to_vec();
                let parts: Vec<Part> = parts
                    .iter()
                    .map(|part| {
                        let (part, next) = part.place(&outs, members);
                        outs = next;
                        part
                    })
                    .collect();
                (Part::chain(parts), outs)
            }
            Self::Group(parts) => {
                let (parts, outs) = side_by_side(parts, before, members);
                (Part::group(parts), outs)
            }
            Self::Chord(parts, by) => {
                let (parts, inputs) = side_by_side(parts, before, members);
                let (synthesis, place) = add(*by, true, &inputs, members);
                (Part::chord(parts, synthesis).into(), vec![place])
            }
        }
    }
}

fn side_by_side(parts: &[Tree], before: &[usize], members: &mut Vec<Member>) -> (Vec<Part>, Vec<usize>) {
    let placed: Vec<_> = parts.iter().map(|part| part.place(before, members)).collect();
    let (parts, outs): (Vec<Part>, Vec<Vec<usize>>) = placed.into_iter().unzip();
    (parts, outs.concat())
}

fn single(by: By, gathers: bool, before: &[usize], members: &mut Vec<Member>) -> (Part, Vec<usize>) {
    let (job, place) = add(by, gathers, before, members);
    (Part::job(job), vec![place])
}

/// The next job in declared order, and its place.
fn add(by: By, gathers: bool, inputs: &[usize], members: &mut Vec<Member>) -> (NewJob, usize) {
    let place = members.len();
    let (name, gate) = (format!("m{place}"), format!("g{place}"));
    let heard = inputs.iter().filter_map(|input| members.get(*input)).map(|member| &member.says);
    let said: Vec<_> =
        heard.map(|said| if said.len() > LONG { json!(said.len()) } else { json!(said) }).collect();
    let says = if gathers { json!({"resumed": true, "said": said}).to_string() } else { name.clone() };
    let job = match by {
        By::Shell => {
            let says = if gathers { Step::Gather } else { Step::Result(name) };
            Fleet::job("shell.task", &Script::new().wait(&gate).then(says))
        }
        By::Worker => {
            let says = if gathers { json!({"gather": true}) } else { json!({"result": name}) };
            let steps = json!([{"wait": gate}, says]).to_string();
            NewJob::new("py.task").payload(steps).content_type("application/json")
        }
    };
    members.push(Member { by, gate, inputs: inputs.to_vec(), says });
    (job, place)
}
