//! What a tick does at gates: those whose policy is met open, those whose policy cannot be met end what waits there, and a
//! workflow of which all members have ended takes its final state.

use std::sync::Arc;

use crate::{
    event::Event,
    ids::{JobId, WorkflowId},
    job::JobState,
    state::{Stand, flows::Ending},
    step::{Step, text},
    workflow::{Gate, OnDeadline, Opened, Opening, SynthesisPolicy, Workflow, WorkflowState, named},
};

impl Step<'_> {
    /// Gates that something happened to are looked at; what that leads to is looked at in turn.
    pub(crate) fn advance_workflows(&mut self) {
        let mut left = self.moves();
        while left > 0
            && let Some((id, gate)) = self.state.flows.woken.pop_first()
        {
            if !self.advance_gate(id, gate, &mut left) {
                self.state.flows.woken.insert((id, gate));
            }
        }
        self.end_slices(&mut left);
        for id in std::mem::take(&mut self.state.flows.over) {
            self.end_workflow(id);
        }
    }

    /// False: there was not enough room for all that is to be done.
    fn advance_gate(&mut self, id: WorkflowId, number: u32, left: &mut usize) -> bool {
        let Some(entry) = self.state.flows.get(id) else { return true };
        let workflow = &entry.workflow;
        if workflow.state.is_final() {
            return true;
        }
        let Some(gate) = workflow.shape.gate(number).cloned() else { return true };
        if workflow.cancel_requested {
            // Its members end in order, heads among them.
            if self.state.flows.is_cancelling(id) {
                return true;
            }
            // What waited was cancelled with it, but for those that were set aside then.
            let reason = text(Ending::of_cancelled(workflow).reason());
            return self.move_heads(id, &gate, left, Some(&reason));
        }
        match entry.opening(number, self.now.wall) {
            Opening::Wait => true,
            Opening::Open { partial } => {
                let is_known = workflow.opened.contains_key(&number);
                let missing = if is_known { Vec::new() } else { missing(workflow, &gate) };
                if !is_known && (partial || !missing.is_empty()) {
                    let opened = Opened { partial, missing, requeued: false };
                    self.emit(Event::WorkflowOpened { workflow: id, gate: number, opened });
                    self.end_rest(id, number, &gate, left);
                    self.notify_workflow(id);
                }
                self.move_heads(id, &gate, left, None)
            }
            Opening::Never => {
                let failed = workflow.failed(gate.covers.clone(), self.now.wall);
                let reason = unmet(&gate, &named(&failed));
                if gate.due(workflow.began_at).is_some_and(|due| due <= self.now.wall) {
                    self.end_rest(id, number, &gate, left);
                }
                self.move_heads(id, &gate, left, Some(&reason))
            }
        }
    }

    /// Members behind a gate begin, or end for this reason.
    fn move_heads(&mut self, id: WorkflowId, gate: &Gate, left: &mut usize, ends: Option<&Arc<str>>) -> bool {
        for head in &gate.heads {
            let job = id.member(*head);
            let Some(entry) = self.state.jobs.get(&job) else { continue };
            // The row of one that was set aside cannot be written; it is looked at again when it is freed.
            if !matches!(entry.job.state, JobState::Blocked { .. }) || entry.stand == Stand::Broken {
                continue;
            }
            if *left == 0 {
                return false;
            }
            *left -= 1;
            match ends {
                None => self.emit(Event::Unblocked(job)),
                Some(reason) => {
                    let state = JobState::Cancelled { at: self.now.wall };
                    self.emit(Event::Ended { job, state, reason: reason.clone() });
                }
            }
            self.notify(job);
        }
        true
    }

    /// What a synthesis that began did not wait for.
    fn end_rest(&mut self, id: WorkflowId, number: u32, gate: &Gate, left: &mut usize) {
        match gate.rule.on_deadline {
            OnDeadline::Leave => {}
            OnDeadline::Cancel => {
                self.end_members(id, Ending { places: gate.covers.clone(), gate: Some(number) }, left);
            }
        }
    }

    /// How many members of workflows may move in one go; then heartbeats have their turn.
    pub(super) fn moves(&self) -> usize {
        self.state.limits.workflow_moves.max(1) as usize
    }

    /// Cancels members that have not ended, in order, with the children that follow them. Those for whom there is no room
    /// any more follow in the next ticks; none of them begins until then.
    pub(super) fn end_members(&mut self, id: WorkflowId, ending: Ending, left: &mut usize) {
        let reason = text(ending.reason());
        for place in ending.places.clone() {
            let job = id.member(place);
            let Some(entry) = self.state.jobs.get(&job) else { continue };
            let ended = self.state.flows.get(id).is_none_or(|flow| flow.workflow.end(place).is_some());
            if ended || entry.stand == Stand::Broken || entry.job.cancel_requested {
                continue;
            }
            if *left == 0 {
                let places = place..ending.places.end;
                return self.state.flows.end_later(id, Ending { places, ..ending });
            }
            *left -= 1;
            self.end_child(job, &reason);
            self.cancel_family(job);
        }
    }

    /// What is left of ranges that were begun.
    fn end_slices(&mut self, left: &mut usize) {
        while *left > 0
            && let Some((id, ending)) = self.state.flows.next_ending()
        {
            self.end_members(id, ending, left);
        }
    }

    /// True: the job is to end with others of its workflow, and was to begin before its turn came. It has ended.
    pub(crate) fn end_doomed(&mut self, job: JobId) -> bool {
        let Some(entry) = self.state.jobs.get(&job) else { return false };
        let Some(of) = entry.job.workflow.filter(|_| entry.stand != Stand::Broken) else { return false };
        let Some(why) = self.state.flows.doom(of.workflow, of.place) else { return false };
        self.end_child(job, &text(why));
        self.cancel_family(job);
        true
    }

    /// Once all members have ended, a workflow has.
    pub(super) fn end_workflow(&mut self, id: WorkflowId) {
        let Some(entry) = self.state.flows.get(id) else { return };
        if entry.open() > 0 || entry.workflow.state != WorkflowState::Running {
            return;
        }
        let (state, reason) = entry.workflow.outcome(self.now.wall);
        self.emit(Event::WorkflowEnded { workflow: id, state, reason });
        self.notify_workflow(id);
    }

    /// Gates are looked at when their deadline passes.
    pub(in crate::step) fn due_gate(&mut self, id: WorkflowId, gate: u32) {
        self.state.flows.woken.insert((id, gate));
    }
}

fn missing(workflow: &Workflow, gate: &Gate) -> Vec<u32> {
    let mut open: Vec<u32> =
        gate.inputs.iter().copied().filter(|place| workflow.end(*place).is_none()).collect();
    open.sort_unstable();
    open
}

/// Why what waits at a gate will not run, for people.
fn unmet(gate: &Gate, failed: &str) -> Arc<str> {
    let wanted = match gate.rule.policy {
        SynthesisPolicy::All => "all before it".to_owned(),
        SynthesisPolicy::AtLeast(number) => format!("at least {number} of {} before it", gate.inputs.len()),
        SynthesisPolicy::Any => "one of those before it".to_owned(),
        SynthesisPolicy::Always => "the end of all before it".to_owned(),
    };
    let failed = if failed.is_empty() { "its deadline is over" } else { failed };
    text(format!("it wants {wanted}: {failed}"))
}
