//! Live workflows in memory: what their rows tell, counted so that the end of a member costs the same whatever their size.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use crate::{
    family::ChildEnd,
    ids::{JobId, WorkflowId},
    time::Wall,
    workflow::{OnDeadline, Opening, Tally, Workflow},
};

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flows {
    all: BTreeMap<WorkflowId, FlowEntry>,
    /// Gates that may have something to do: the next tick looks.
    pub(crate) woken: BTreeSet<(WorkflowId, u32)>,
    /// Members that are to end, whoever of them has not, in order: the next ticks go on with them.
    ending: BTreeMap<WorkflowId, Vec<Ending>>,
    /// Workflows of which all members may have ended: the next tick looks.
    pub(crate) over: BTreeSet<WorkflowId>,
}

/// The rest of a range of members that end slice by slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) places: Range<u32>,
    /// The gate behind them that did not wait for them; none: their workflow was cancelled.
    pub(crate) gate: Option<u32>,
}

impl Ending {
    /// All members of a workflow.
    pub(crate) fn of_cancelled(workflow: &Workflow) -> Self {
        Self { places: 0..workflow.shape.size(), gate: None }
    }

    /// Why they end, for people.
    pub(crate) fn reason(&self) -> &'static str {
        match self.gate {
            None => "its workflow was cancelled",
            Some(_) => "the synthesis of its workflow began without it",
        }
    }
}

/// A workflow, and what is counted of it.
#[derive(Debug, Clone)]
pub(crate) struct FlowEntry {
    pub(crate) workflow: Workflow,
    tallies: Vec<Tally>,
    open: u32,
}

impl FlowEntry {
    fn new(workflow: Workflow) -> Self {
        let tallies = workflow.shape.gates().iter().map(|gate| workflow.tally(gate)).collect();
        let open = workflow.unfinished();
        Self { workflow, tallies, open }
    }

    /// Members that have not ended.
    pub(crate) fn open(&self) -> u32 {
        self.open
    }

    /// Inputs of a gate that have not ended.
    pub(crate) fn unfinished(&self, gate: u32) -> u32 {
        let inputs = self.workflow.shape.gate(gate).map_or(0, |gate| gate.inputs.len());
        let tally = self.tallies.get(gate as usize).copied().unwrap_or_default();
        u32::try_from(inputs).unwrap_or(u32::MAX).saturating_sub(tally.succeeded + tally.failed)
    }

    /// As [`Workflow::opening`], without counting.
    pub(crate) fn opening(&self, number: u32, at: Wall) -> Opening {
        if let Some(opened) = self.workflow.opened.get(&number) {
            return Opening::Open { partial: opened.partial };
        }
        let gate = self.workflow.shape.gate(number).zip(self.tallies.get(number as usize));
        let Some((gate, tally)) = gate else { return Opening::Never };
        gate.judge(*tally, gate.due(self.workflow.began_at).is_some_and(|due| due <= at))
    }

    /// Whether what is counted is what is there.
    pub(crate) fn is_consistent(&self) -> bool {
        let Self { workflow, tallies, open } = self;
        let counted: Vec<Tally> = workflow.shape.gates().iter().map(|gate| workflow.tally(gate)).collect();
        *tallies == counted && *open == workflow.unfinished()
    }
}

impl Flows {
    pub(crate) fn get(&self, id: WorkflowId) -> Option<&FlowEntry> {
        self.all.get(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (WorkflowId, &FlowEntry)> {
        self.all.iter().map(|(id, entry)| (*id, entry))
    }

    /// Whether it is there and not final.
    pub(crate) fn is_live(&self, id: WorkflowId) -> bool {
        self.get(id).is_some_and(|entry| !entry.workflow.state.is_final())
    }

    /// Whether there is something to look at.
    pub(crate) fn has_news(&self) -> bool {
        !self.woken.is_empty() || !self.over.is_empty() || !self.ending.is_empty()
    }

    /// The next slice: of which workflow, and what is left of the range that was begun first.
    pub(crate) fn next_ending(&mut self) -> Option<(WorkflowId, Ending)> {
        let mut first = self.ending.first_entry()?;
        let id = *first.key();
        let ending = if first.get().is_empty() { None } else { Some(first.get_mut().remove(0)) };
        if first.get().is_empty() {
            first.remove();
        }
        Some((id, ending?))
    }

    /// These members are to end: what is left of a slice that came to its bound, before what was begun after it.
    pub(crate) fn end_later(&mut self, id: WorkflowId, ending: Ending) {
        let all = self.ending.entry(id).or_default();
        all.retain(|other| other.gate != ending.gate);
        all.insert(0, ending);
    }

    /// Why a member that has not ended is to end; none: it is not.
    pub(crate) fn doom(&self, id: WorkflowId, place: u32) -> Option<&'static str> {
        let entry = self.get(id)?;
        if entry.workflow.cancel_requested {
            return Some(Ending::of_cancelled(&entry.workflow).reason());
        }
        let mut all = self.ending.get(&id)?.iter();
        all.find(|ending| ending.places.contains(&place)).map(Ending::reason)
    }

    /// Whether members of a cancelled workflow are still to be ended, in their turn.
    pub(crate) fn is_cancelling(&self, id: WorkflowId) -> bool {
        self.ending.get(&id).is_some_and(|all| all.iter().any(|ending| ending.gate.is_none()))
    }

    /// Whether a member is in a range whose end goes on.
    pub(crate) fn is_ending(&self, id: WorkflowId, place: u32) -> bool {
        self.ending.get(&id).is_some_and(|all| all.iter().any(|ending| ending.places.contains(&place)))
    }

    /// A workflow was loaded: what of it was to end, and had not by then, ends now.
    pub(crate) fn resume(&mut self, id: WorkflowId) {
        let Some(FlowEntry { workflow, .. }) = self.get(id) else { return };
        let mut all = Vec::new();
        if workflow.cancel_requested {
            all.push(Ending::of_cancelled(workflow));
        }
        for (number, opened) in &workflow.opened {
            let Some(gate) = workflow.shape.gate(*number) else { continue };
            let ends = !opened.requeued && gate.rule.on_deadline == OnDeadline::Cancel;
            if ends && !opened.missing.is_empty() {
                all.push(Ending { places: gate.covers.clone(), gate: Some(*number) });
            }
        }
        if !all.is_empty() {
            self.ending.insert(id, all);
        }
    }

    /// A workflow comes, or comes back. All of its gates are looked at.
    pub(crate) fn put(&mut self, workflow: Workflow) {
        let id = workflow.id;
        // Of a gate that is to wait again, or was opened for whoever came back, nobody ends what is before it.
        if let Some(all) = self.ending.get_mut(&id) {
            all.retain(|ending| match ending.gate {
                Some(gate) => workflow.opened.get(&gate).is_some_and(|opened| !opened.requeued),
                None => workflow.cancel_requested,
            });
        }
        let gates = u32::try_from(workflow.shape.gates().len()).unwrap_or(u32::MAX);
        self.woken.extend((0..gates).map(|gate| (id, gate)));
        self.over.insert(id);
        self.all.insert(id, FlowEntry::new(workflow));
    }

    /// A workflow goes.
    pub(crate) fn remove(&mut self, id: WorkflowId) -> Option<Workflow> {
        self.ending.remove(&id);
        self.all.remove(&id).map(|entry| entry.workflow)
    }

    /// Changes what stands in the row of a workflow.
    pub(crate) fn change(&mut self, id: WorkflowId, change: impl FnOnce(&mut Workflow)) {
        let Some(entry) = self.all.get_mut(&id) else { return };
        change(&mut entry.workflow);
        entry.workflow.version += 1;
    }

    /// A member ended, or is live again.
    pub(crate) fn note(&mut self, id: WorkflowId, place: u32, end: Option<ChildEnd>) {
        let Some(entry) = self.all.get_mut(&id) else { return };
        let Some(known) = entry.workflow.ends.get_mut(place as usize) else { return };
        let before = std::mem::replace(known, end);
        match (before, end) {
            (None, Some(_)) => entry.open = entry.open.saturating_sub(1),
            (Some(_), None) => entry.open += 1,
            (None, None) | (Some(_), Some(_)) => {}
        }
        if entry.open == 0 {
            self.over.insert(id);
        }
        let Some(gate) = entry.workflow.shape.place(place).and_then(|place| place.feeds) else { return };
        if let Some(tally) = entry.tallies.get_mut(gate as usize) {
            tally.count(before, -1);
            tally.count(end, 1);
        }
        self.woken.insert((id, gate));
    }

    /// A member waits at its gate.
    pub(crate) fn wake_for(&mut self, id: WorkflowId, place: u32) {
        let after =
            self.get(id).and_then(|entry| entry.workflow.shape.place(place)).and_then(|place| place.after);
        self.woken.extend(after.map(|gate| (id, gate)));
    }

    /// A member of which nobody knows how it ended: it is not there.
    pub(crate) fn missing(&mut self, id: WorkflowId, is_there: impl Fn(JobId) -> bool) {
        let Some(entry) = self.get(id) else { return };
        let open = (0..entry.workflow.shape.size()).filter(|place| entry.workflow.end(*place).is_none());
        let gone: Vec<u32> = open.filter(|place| !is_there(id.member(*place))).collect();
        gone.into_iter().for_each(|place| self.note(id, place, Some(ChildEnd::Missing)));
    }
}
