//! Workflows: submitted whole or not at all, cancelled, requeued by member; and what a tick does at their gates.

mod advance;
mod requeue;

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    command::{Enqueue, Submit},
    effect::Reply,
    event::Event,
    ids::{KindName, WorkflowId},
    job::{Job, JobState},
    place::classes::ClassKey,
    refusal::{Refusal, bounded_text},
    state::flows::Ending,
    step::{
        Step,
        enqueue::{Ahead, check, kind_of},
    },
    workflow::{MemberOf, Place, Workflow, WorkflowState},
};

impl Step<'_> {
    /// Stores all of its jobs, each judged as by itself and as the last of those before it; or none.
    pub(super) fn submit(&mut self, submit: Submit) -> Result<(), Refusal> {
        if let Ok(known) = self.find_workflow(submit.id, submit.prior.as_deref()) {
            let same = known.fingerprint == submit.fingerprint && known.producer == submit.producer;
            if !same {
                return Err(Refusal::WorkflowIdReused { workflow: submit.id });
            }
            self.reply(Reply::Workflow { workflow: Box::new(known), changed: false });
            return Ok(());
        }
        let places = submit.shape.places();
        if places.len() != submit.jobs.len() {
            let problem = format!("has {} places and {} jobs", places.len(), submit.jobs.len());
            return Err(Refusal::InvalidField { field: "workflow", problem });
        }
        let mut jobs = Vec::with_capacity(places.len());
        let mut ahead = BTreeMap::new();
        let mut classes = std::collections::BTreeSet::new();
        for ((place, number), enqueue) in places.iter().zip(0..).zip(&submit.jobs) {
            let known = Counted { all: jobs.len() as u64, of_kind: &mut ahead, classes: &mut classes };
            let job = self.member(submit.id, (number, *place), enqueue, known);
            jobs.push(
                job.map_err(|refusal| Refusal::OfMember { place: number, refusal: Box::new(refusal) })?,
            );
        }
        let workflow = Workflow {
            id: submit.id,
            producer: submit.producer,
            name: submit.name,
            fingerprint: submit.fingerprint,
            ends: vec![None; jobs.len()],
            shape: submit.shape,
            state: WorkflowState::Running,
            version: 1,
            round: 1,
            cancel_requested: false,
            created_at: self.now.wall,
            began_at: self.now.wall,
            reason: None,
            opened: BTreeMap::new(),
        };
        if submit.validate_only {
            self.reply(Reply::Workflow { workflow: Box::new(workflow), changed: false });
            return Ok(());
        }
        self.emit(Event::WorkflowSubmitted(Box::new(workflow.clone())));
        for mut job in jobs {
            job.sequence = self.state.next_sequence();
            let id = job.id;
            self.emit(Event::Enqueued(Box::new(job)));
            self.notify(id);
        }
        self.notify_workflow(submit.id);
        self.reply(Reply::Workflow { workflow: Box::new(workflow), changed: true });
        Ok(())
    }

    /// One member as it will be stored.
    fn member(
        &self,
        workflow: WorkflowId,
        (number, place): (u32, Place),
        enqueue: &Enqueue,
        counted: Counted<'_>,
    ) -> Result<Job, Refusal> {
        let kind = kind_of(self.state, &enqueue.kind)?;
        let refuse = |field: &'static str, problem: &str| {
            Err(Refusal::InvalidField { field, problem: problem.to_owned() })
        };
        if enqueue.job != workflow.member(number) {
            return refuse("job.job_id", "is derived from the id of the workflow");
        }
        if enqueue.parent.is_some() || enqueue.dedupe_key.is_some() {
            return refuse("job", "has a parent or a dedupe key, which a member of a workflow cannot have");
        }
        if place.after.is_some() && (enqueue.run_at.is_some() || enqueue.delay.is_some()) {
            return refuse("job.run_at", "cannot be asked for by a member that waits for others");
        }
        if self.find(enqueue.job, enqueue.prior.by_id.as_deref()).is_ok() {
            return Err(Refusal::JobIdReused { job: enqueue.job });
        }
        let Counted { all, of_kind, classes } = counted;
        let same_kind = of_kind.entry(enqueue.kind.clone()).or_insert(0);
        let ahead = Ahead { of_kind: *same_kind, all, classes: classes.len() as u64 };
        let mut job = check(self.state, self.now, kind, enqueue, ahead)?;
        *same_kind += 1;
        let class = ClassKey::of(&job, &kind.kind);
        if self.state.classes.find(&class).is_none() {
            classes.insert(class.text());
        }
        job.workflow = Some(MemberOf { workflow, place: number });
        if place.after.is_some() {
            job.state = JobState::Blocked { since: self.now.wall };
        }
        Ok(job)
    }

    /// All members that have not ended are cancelled, as each would be by itself; those of a large workflow slice by slice.
    pub(super) fn cancel_workflow(
        &mut self,
        id: WorkflowId,
        reason: Option<Arc<str>>,
        prior: Option<&Workflow>,
    ) -> Result<(), Refusal> {
        let known = self.find_workflow(id, prior)?;
        let reason = bounded_text(reason.as_deref().unwrap_or("cancelled by request"));
        match known.state {
            WorkflowState::Succeeded { .. } | WorkflowState::Dead { .. } => {
                return Err(Refusal::WorkflowFinal { workflow: id, state: known.state.name() });
            }
            WorkflowState::Running if !known.cancel_requested => {}
            WorkflowState::Running | WorkflowState::Cancelled { .. } => {
                self.reply(Reply::Workflow { workflow: Box::new(known), changed: false });
                return Ok(());
            }
        }
        self.emit(Event::WorkflowCancelRequested { workflow: id, reason });
        let mut left = self.moves();
        self.end_members(id, Ending::of_cancelled(&known), &mut left);
        self.end_workflow(id);
        self.notify_workflow(id);
        let workflow = Box::new(self.find_workflow(id, None)?);
        self.reply(Reply::Workflow { workflow, changed: true });
        Ok(())
    }

    /// The workflow as memory knows it, else as the store did before this turn.
    pub(super) fn find_workflow(
        &self,
        id: WorkflowId,
        prior: Option<&Workflow>,
    ) -> Result<Workflow, Refusal> {
        if let Some(entry) = self.state.flows.get(id) {
            return Ok(entry.workflow.clone());
        }
        let known = prior.filter(|known| known.id == id && !self.state.dirty.is_workflow_deleted(id));
        known.cloned().ok_or(Refusal::WorkflowNotFound { workflow: id })
    }
}

/// Members that come before one in the same workflow.
struct Counted<'a> {
    all: u64,
    of_kind: &'a mut BTreeMap<KindName, u64>,
    /// Classes that nobody is in so far.
    classes: &'a mut std::collections::BTreeSet<String>,
}
