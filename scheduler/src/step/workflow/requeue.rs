//! One member of a workflow comes back, with everything behind it that did not succeed.

use std::collections::{BTreeMap, VecDeque};

use crate::{
    command::RequeueMember,
    effect::Reply,
    event::Event,
    family::ChildEnd,
    ids::JobId,
    job::{Job, JobState},
    refusal::Refusal,
    step::Step,
    workflow::{Opened, Opening, Workflow, WorkflowState},
};

impl Step<'_> {
    /// A dead or cancelled member comes back as a new round; members behind it that did not succeed wait for it again.
    /// Where one of them runs or has succeeded, its result was taken already: refused. One whose gate will not open by
    /// itself runs on what is there: that is what whoever requeues it asks for. Of a workflow of which a member was deleted
    /// nobody comes back.
    pub(in crate::step) fn requeue_member(&mut self, request: RequeueMember) -> Result<(), Refusal> {
        let RequeueMember { workflow: id, place, prior, prior_jobs } = request;
        let known = self.find_workflow(id, prior.as_deref())?;
        if place >= known.shape.size() {
            let problem = format!("is none of the {} places of the workflow", known.shape.size());
            return Err(Refusal::InvalidField { field: "place", problem });
        }
        if known.cancel_requested && !known.state.is_final() {
            return Err(Refusal::WorkflowFinal { workflow: id, state: "being cancelled" });
        }
        let find = |place: u32| -> Result<Job, Refusal> {
            let job = id.member(place);
            self.find(job, prior_jobs.iter().find(|prior| prior.id == job))
        };
        let job = find(place)?;
        match job.state {
            JobState::Dead { .. } | JobState::Cancelled { .. } => {}
            JobState::Succeeded { .. } | JobState::Expired { .. } => {
                return Err(Refusal::JobFinal { job: job.id, state: job.state.name() });
            }
            JobState::Scheduled { .. }
            | JobState::Blocked { .. }
            | JobState::Queued { .. }
            | JobState::Running
            | JobState::Waiting { .. } => {
                self.free_waiting(job.id, false);
                let workflow = Box::new(known);
                self.reply(Reply::Workflow { workflow, changed: false });
                return Ok(());
            }
        }
        self.check_complete(&known)?;
        let mut next = self.next_workflow(known);
        let mut back = self.behind(&mut next, place, find)?;
        back.insert(place, (job, self.state_of(&mut next, place)));
        for (job, _) in back.values() {
            if !self.state.kinds.contains_key(&job.kind) {
                return Err(Refusal::KindNotFound { kind: job.kind.clone(), nearest: Vec::new() });
            }
        }
        self.emit(Event::WorkflowRequeued(Box::new(next)));
        for (job, state) in back.into_values() {
            let id = job.id;
            let mut job = self.next_round(job, false);
            job.state = state;
            self.emit(Event::Requeued(Box::new(job)));
            self.notify(id);
        }
        self.notify_workflow(id);
        let workflow = Box::new(self.find_workflow(id, None)?);
        self.reply(Reply::Workflow { workflow, changed: true });
        Ok(())
    }

    /// A live workflow has all of its members. Of a final one they go one by one, and how one ended that is gone nobody
    /// knows: as a failure it would open gates that wait for it on too little.
    fn check_complete(&self, workflow: &Workflow) -> Result<(), Refusal> {
        let is_gone = |place: &u32| {
            let job = workflow.member(*place);
            // Its id may have been taken anew, all in this turn.
            let taken = |job: &Job| job.workflow.is_none_or(|of| of.workflow != workflow.id);
            workflow.end(*place) == Some(ChildEnd::Missing)
                || self.state.dirty.is_deleted(job)
                || self.state.job(job).is_some_and(taken)
        };
        match (0..workflow.shape.size()).find(is_gone) {
            Some(place) => Err(Refusal::MemberGone { job: workflow.member(place), workflow: workflow.id }),
            None => Ok(()),
        }
    }

    /// The workflow as it goes on.
    fn next_workflow(&self, mut workflow: Workflow) -> Workflow {
        workflow.version += 1;
        workflow.round += u32::from(workflow.state.is_final());
        workflow.state = WorkflowState::Running;
        workflow.cancel_requested = false;
        workflow.began_at = self.now.wall;
        workflow.reason = None;
        workflow
    }

    /// The members behind one that come back with it, and wait; their gates are as if they had never opened.
    fn behind(
        &self,
        next: &mut Workflow,
        place: u32,
        find: impl Fn(u32) -> Result<Job, Refusal>,
    ) -> Result<BTreeMap<u32, (Job, JobState)>, Refusal> {
        let mut back = BTreeMap::new();
        let mut changed = VecDeque::from([place]);
        let shape = next.shape.clone();
        while let Some(place) = changed.pop_front() {
            next.ends.get_mut(place as usize).into_iter().for_each(|end| *end = None);
            let Some(number) = shape.place(place).and_then(|place| place.feeds) else { continue };
            next.opened.remove(&number);
            let heads = shape.gate(number).map(|gate| &gate.heads[..]).unwrap_or_default();
            for head in heads {
                if back.contains_key(head) {
                    continue;
                }
                let job = find(*head)?;
                match job.state {
                    JobState::Blocked { .. } => {}
                    JobState::Dead { .. } | JobState::Cancelled { .. } | JobState::Expired { .. } => {
                        back.insert(*head, (job, JobState::Blocked { since: self.now.wall }));
                        changed.push_back(*head);
                    }
                    JobState::Scheduled { .. }
                    | JobState::Queued { .. }
                    | JobState::Running
                    | JobState::Waiting { .. }
                    | JobState::Succeeded { .. } => {
                        let member: JobId = next.member(place);
                        return Err(Refusal::ResultTaken {
                            job: member,
                            by: job.id,
                            state: job.state.name(),
                        });
                    }
                }
            }
        }
        Ok(back)
    }

    /// Where the member begins that is asked for. A gate that would end it opens for it.
    fn state_of(&self, next: &mut Workflow, place: u32) -> JobState {
        let now = self.now.wall;
        let Some(number) = next.shape.place(place).and_then(|place| place.after) else {
            return JobState::Queued { since: now };
        };
        match next.opening(number, now) {
            Opening::Wait => JobState::Blocked { since: now },
            Opening::Open { .. } => JobState::Queued { since: now },
            Opening::Never => {
                let inputs = next.shape.gate(number).map(|gate| gate.inputs.clone()).unwrap_or_default();
                let mut missing: Vec<u32> =
                    inputs.into_iter().filter(|place| next.end(*place).is_none()).collect();
                missing.sort_unstable();
                next.opened.insert(number, Opened { partial: true, missing, requeued: true });
                JobState::Queued { since: now }
            }
        }
    }
}

impl crate::state::State {
    /// The jobs that a requeue of this member is about: itself and all behind it.
    #[must_use]
    pub fn members_behind(workflow: &Workflow, place: u32) -> Vec<JobId> {
        let mut places = std::collections::BTreeSet::from([place]);
        let mut next = VecDeque::from([place]);
        while let Some(place) = next.pop_front() {
            let gate = workflow.shape.place(place).and_then(|place| place.feeds);
            let heads = gate.and_then(|gate| workflow.shape.gate(gate)).map(|gate| &gate.heads[..]);
            for head in heads.unwrap_or_default() {
                if places.insert(*head) {
                    next.push_back(*head);
                }
            }
        }
        places.into_iter().map(|place| workflow.member(place)).collect()
    }
}
