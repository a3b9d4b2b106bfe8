//! What events do to workflows: which are live, what is known of their members, which gates are to be looked at.

use std::sync::Arc;

use crate::{
    family::ChildEnd,
    ids::{JobId, WorkflowId},
    job::Job,
    state::{Due, State},
    time::Now,
    workflow::{Opened, Workflow, WorkflowState},
};

impl State {
    /// A workflow is submitted, or comes back.
    pub(super) fn workflow_put(&mut self, workflow: &Workflow, is_new: bool) {
        self.dirty.workflow(workflow.id, !is_new);
        self.forget_deadlines(workflow.id);
        self.dirty.workflow_live(workflow.id);
        self.flows.put(workflow.clone());
        self.await_deadlines(workflow.id);
    }

    pub(super) fn workflow_opened(&mut self, id: WorkflowId, gate: u32, opened: &Opened) {
        self.dirty.workflow(id, true);
        self.flows.change(id, |workflow| drop(workflow.opened.insert(gate, opened.clone())));
        self.flows.woken.insert((id, gate));
    }

    pub(super) fn workflow_cancelled(&mut self, id: WorkflowId, reason: &Arc<str>) {
        self.dirty.workflow(id, true);
        self.flows.change(id, |workflow| {
            workflow.cancel_requested = true;
            workflow.reason = Some(reason.clone());
        });
    }

    pub(super) fn workflow_ended(&mut self, id: WorkflowId, state: WorkflowState, reason: Option<&Arc<str>>) {
        self.dirty.workflow(id, true);
        self.dirty.workflow_final(id);
        self.forget_deadlines(id);
        self.flows.change(id, |workflow| {
            workflow.state = state;
            workflow.reason = reason.cloned();
        });
    }

    pub(super) fn workflow_deleted(&mut self, id: WorkflowId) {
        self.dirty.delete_workflow(id);
        self.flows.remove(id);
    }

    /// The times at which gates of a workflow open whatever is there.
    pub(crate) fn await_deadlines(&mut self, id: WorkflowId) {
        for (at, due) in self.deadlines(id) {
            self.timers.at_wall(at, due);
        }
    }

    fn forget_deadlines(&mut self, id: WorkflowId) {
        for (at, due) in self.deadlines(id) {
            self.timers.forget_wall(at, due);
        }
    }

    fn deadlines(&self, id: WorkflowId) -> Vec<(crate::time::Wall, Due)> {
        let Some(entry) = self.flows.get(id) else { return Vec::new() };
        let gates = entry.workflow.shape.gates().iter().zip(0..);
        let began = entry.workflow.began_at;
        gates.filter_map(|(gate, number)| Some((gate.due(began)?, Due::Gate(id, number)))).collect()
    }

    /// A member begins to wait for others, or is loaded while it does.
    pub(crate) fn await_predecessors(&mut self, id: JobId, now: Now) {
        let Some(entry) = self.jobs.get_mut(&id) else { return };
        entry.since = now;
        if let Some(kind) = self.kinds.get_mut(&entry.job.kind) {
            kind.blocked += 1;
        }
        if let Some(member) = entry.job.workflow {
            self.flows.wake_for(member.workflow, member.place);
        }
    }

    /// A member is final: its workflow knows how it ended.
    pub(super) fn leave_workflow(&mut self, job: &Job) {
        if let Some(member) = job.workflow {
            self.flows.note(member.workflow, member.place, ChildEnd::of(&job.state));
        }
    }

    /// A final member is live again.
    pub(super) fn rejoin_workflow(&mut self, job: &Job) {
        if let Some(member) = job.workflow {
            self.flows.note(member.workflow, member.place, None);
        }
    }

    /// Members for whose ends a blocked job waits, of those that its gate wants.
    pub(crate) fn predecessors(&self, job: &Job) -> u32 {
        let Some(member) = job.workflow else { return 0 };
        let Some(entry) = self.flows.get(member.workflow) else { return 0 };
        let gate = entry.workflow.shape.place(member.place).and_then(|place| place.after);
        gate.map_or(0, |gate| entry.unfinished(gate))
    }
}
