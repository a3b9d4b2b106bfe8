//! Workflows: a row of their own, and the ends of their members, which are told by the rows of those.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use tenure_scheduler::{
    ChildEnd, Chord, Fingerprint, JobId, OnDeadline, Opened, Part, Producer, Rule, Shape, SynthesisPolicy,
    Workflow, WorkflowId, WorkflowState, micros,
};

use super::{At, Error, Fields, Hex, Json, Text, int, json_text, mapped};
use crate::MemberState;

mapped! {
/// The columns of a workflow, to be written.
pub(crate) struct WorkflowRow<'a> {
    id: Text<JobId>,
    producer: &'a str,
    name: Option<&'a str>,
    fingerprint: Hex,
    shape: Json,
    members: i64,
    state: &'static str,
    version: i64,
    round: u32,
    cancel_requested: bool,
    created_at: At,
    began_at: At,
    finished_at: Option<At>,
    reason: Option<&'a str>,
    opened: Json,
}
}

impl<'a> From<&'a Workflow> for WorkflowRow<'a> {
    fn from(workflow: &'a Workflow) -> Self {
        let opened: BTreeMap<u32, OpenedJson> =
            workflow.opened.iter().map(|(gate, opened)| (*gate, opened.into())).collect();
        Self {
            id: Text(JobId(workflow.id.0)),
            producer: workflow.producer.as_str(),
            name: workflow.name.as_deref(),
            fingerprint: Hex(workflow.fingerprint.0),
            shape: json_text(&PartJson::from(workflow.shape.part())),
            members: workflow.shape.size().into(),
            state: workflow.state.name(),
            version: int(workflow.version),
            round: workflow.round,
            cancel_requested: workflow.cancel_requested,
            created_at: workflow.created_at.into(),
            began_at: workflow.began_at.into(),
            finished_at: workflow.state.finished_at().map(At::from),
            reason: workflow.reason.as_deref(),
            opened: json_text(&opened),
        }
    }
}

/// The columns of a workflow, in the order of [`read_workflow`]. A macro, so that statements can be constants.
macro_rules! workflow_columns {
    () => {
        "id, producer, name, fingerprint, shape, state, version, round, cancel_requested, created_at, began_at, \
         finished_at, reason, opened"
    };
}
pub(crate) use workflow_columns;

/// Reads a workflow from `workflow_columns`, without the ends of its members.
///
/// # Errors
/// If a column makes no sense.
pub(crate) fn read_workflow(row: &mut Fields<'_>) -> Result<Workflow, Error> {
    let id = row.id("id")?;
    row.set_key(&id);
    let producer = row.name("producer", Producer::new)?;
    let name = row.opt_text("name", |name| name.into())?;
    let fingerprint = Fingerprint(row.bytes("fingerprint")?);
    let part = Part::from(row.json::<PartJson>("shape")?);
    let shape = Shape::of(part).map_err(|error| row.wrong("shape", &error))?;
    let state = row.name("state", |name| name)?;
    let version = row.int("version")?;
    let round = row.int("round")?;
    let cancel_requested = row.flag("cancel_requested")?;
    let (created_at, began_at) = (row.wall("created_at")?, row.wall("began_at")?);
    let finished_at = row.opt_wall("finished_at")?;
    let state = match (&*state, finished_at) {
        ("running", None) => WorkflowState::Running,
        ("succeeded", Some(at)) => WorkflowState::Succeeded { at },
        ("dead", Some(at)) => WorkflowState::Dead { at },
        ("cancelled", Some(at)) => WorkflowState::Cancelled { at },
        _ => return Err(row.wrong("state", &"is none that this version knows")),
    };
    let reason = row.opt_text("reason", |text| text.into())?;
    let opened = row.json::<BTreeMap<u32, OpenedJson>>("opened")?;
    Ok(Workflow {
        id: WorkflowId(id.0),
        producer,
        name,
        fingerprint,
        state,
        version,
        round,
        cancel_requested,
        created_at,
        began_at,
        reason,
        opened: opened.into_iter().map(|(gate, opened)| (gate, opened.into())).collect(),
        ends: vec![None; shape.places().len()],
        shape: Arc::new(shape),
    })
}

/// Reads an id of a workflow.
///
/// # Errors
/// If it makes no sense.
pub(crate) fn read_workflow_id(row: &mut Fields<'_>) -> Result<WorkflowId, Error> {
    row.id("id").map(|id| WorkflowId(id.0))
}

/// Reads the end of a member from workflow_id, workflow_place, state.
///
/// # Errors
/// If a column makes no sense.
pub(crate) fn read_end(row: &mut Fields<'_>) -> Result<(WorkflowId, u32, ChildEnd), Error> {
    let workflow = row.id("workflow_id")?;
    row.set_key(&workflow);
    let place = row.int("workflow_place")?;
    let end = row.text("state", |state| ChildEnd::ALL.into_iter().find(|end| end.name() == state))?;
    let end = end.ok_or_else(|| row.wrong("state", &"is not final"))?;
    Ok((WorkflowId(workflow.0), place, end))
}

/// Reads a member from workflow_place, kind, state, reason.
///
/// # Errors
/// If a column makes no sense.
pub(crate) fn read_member(row: &mut Fields<'_>) -> Result<MemberState, Error> {
    Ok(MemberState {
        place: row.int("workflow_place")?,
        kind: row.name("kind", tenure_scheduler::KindName::new)?,
        state: row.name("state", |state| state)?,
        reason: row.opt_text("reason", |reason| reason.into())?,
    })
}

/// Reads a count from workflow_id, state, count.
///
/// # Errors
/// If a column makes no sense.
pub(crate) fn read_count(row: &mut Fields<'_>) -> Result<(WorkflowId, String, u32), Error> {
    let workflow = row.id("workflow_id")?;
    Ok((WorkflowId(workflow.0), row.text("state", str::to_owned)?, row.int("count")?))
}

/// Puts the ends of members into their workflows. A member of a final one without a row was deleted.
pub(crate) fn put_ends(
    workflows: Vec<Workflow>,
    ends: impl IntoIterator<Item = (WorkflowId, u32, ChildEnd)>,
) -> BTreeMap<WorkflowId, Workflow> {
    let mut all: BTreeMap<WorkflowId, Workflow> =
        workflows.into_iter().map(|workflow| (workflow.id, workflow)).collect();
    for workflow in all.values_mut().filter(|workflow| workflow.state.is_final()) {
        workflow.ends.fill(Some(ChildEnd::Missing));
    }
    for (id, place, end) in ends {
        let known = all.get_mut(&id).and_then(|workflow| workflow.ends.get_mut(place as usize));
        known.into_iter().for_each(|known| *known = Some(end));
    }
    all
}

#[derive(Serialize, Deserialize)]
struct OpenedJson {
    partial: bool,
    missing: Vec<u32>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    requeued: bool,
}

impl From<&Opened> for OpenedJson {
    fn from(opened: &Opened) -> Self {
        Self { partial: opened.partial, missing: opened.missing.clone(), requeued: opened.requeued }
    }
}

impl From<OpenedJson> for Opened {
    fn from(json: OpenedJson) -> Self {
        Self { partial: json.partial, missing: json.missing, requeued: json.requeued }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PartJson {
    Job,
    Chain(Vec<PartJson>),
    Group(Vec<PartJson>),
    Chord(ChordJson),
}

#[derive(Serialize, Deserialize)]
struct ChordJson {
    members: Vec<PartJson>,
    policy: PolicyJson,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deadline_us: Option<u64>,
    leave: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PolicyJson {
    All,
    AtLeast(u32),
    Any,
    Always,
}

impl From<&Part> for PartJson {
    fn from(part: &Part) -> Self {
        let all = |parts: &[Part]| parts.iter().map(Self::from).collect();
        match part {
            Part::Job => Self::Job,
            Part::Chain(parts) => Self::Chain(all(parts)),
            Part::Group(parts) => Self::Group(all(parts)),
            Part::Chord(chord) => Self::Chord(ChordJson {
                members: all(&chord.members),
                policy: match chord.rule.policy {
                    SynthesisPolicy::All => PolicyJson::All,
                    SynthesisPolicy::AtLeast(number) => PolicyJson::AtLeast(number),
                    SynthesisPolicy::Any => PolicyJson::Any,
                    SynthesisPolicy::Always => PolicyJson::Always,
                },
                deadline_us: chord.rule.deadline.map(micros),
                leave: chord.rule.on_deadline == OnDeadline::Leave,
            }),
        }
    }
}

impl From<PartJson> for Part {
    fn from(json: PartJson) -> Self {
        let all = |parts: Vec<PartJson>| parts.into_iter().map(Self::from).collect();
        match json {
            PartJson::Job => Self::Job,
            PartJson::Chain(parts) => Self::Chain(all(parts)),
            PartJson::Group(parts) => Self::Group(all(parts)),
            PartJson::Chord(chord) => Self::Chord(Box::new(Chord {
                members: all(chord.members),
                rule: Rule {
                    policy: match chord.policy {
                        PolicyJson::All => SynthesisPolicy::All,
                        PolicyJson::AtLeast(number) => SynthesisPolicy::AtLeast(number),
                        PolicyJson::Any => SynthesisPolicy::Any,
                        PolicyJson::Always => SynthesisPolicy::Always,
                    },
                    deadline: chord.deadline_us.map(Duration::from_micros),
                    on_deadline: if chord.leave { OnDeadline::Leave } else { OnDeadline::Cancel },
                },
            })),
        }
    }
}
