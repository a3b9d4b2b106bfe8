//! One command at a time: check, then emit. The first half of a handler borrows the state and may refuse; the second
//! half cannot. A refusal leaves no trace.

mod cron;
mod enqueue;
mod fleet;
mod hello;
mod job;
mod node;
mod operate;
mod outcome;
mod park;
mod report;
mod throttle;
mod tick;
mod wait;
mod webhook;
mod workflow;

use std::sync::Arc;

use crate::{
    command::Command,
    effect::{Effect, Message, Reply},
    event::Event,
    ids::{JobId, NodeName, Ordinal, WorkflowId},
    job::Job,
    refusal::Refusal,
    state::State,
    time::Now,
};

/// What a command did.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Applied {
    /// What happened, in order; already applied.
    pub events: Vec<Event>,
    /// What the outside is to be told, in order.
    pub effects: Vec<Effect>,
    /// Placement stopped at its budget: tick again soon.
    pub more: bool,
    /// How often placement held a class against the fleet or a node: what its decisions cost.
    pub looked: u64,
}

/// A command being applied.
pub(crate) struct Step<'a> {
    pub(crate) state: &'a mut State,
    pub(crate) now: Now,
    events: Vec<Event>,
    effects: Vec<Effect>,
    /// See [`Applied::looked`].
    pub(crate) looked: u64,
}

impl State {
    /// Applies a command.
    ///
    /// # Errors
    /// A refusal, which has changed nothing.
    pub fn apply(&mut self, now: Now, command: Command) -> Result<Applied, Refusal> {
        let mut step = Step { state: self, now, events: Vec::new(), effects: Vec::new(), looked: 0 };
        let more = step.run(command)?;
        step.tell_webhooks();
        let Step { events, effects, looked, .. } = step;
        self.follow();
        Ok(Applied { events, effects, more, looked })
    }
}

impl Step<'_> {
    fn run(&mut self, command: Command) -> Result<bool, Refusal> {
        match command {
            Command::Apply { fleet, validate_only } => self.apply_fleet(&fleet, validate_only)?,
            Command::Enqueue(enqueue) => self.enqueue(*enqueue)?,
            Command::Cancel { job, reason, prior } => self.cancel(job, reason, prior.as_deref())?,
            Command::Requeue { job, force, prior, key_taken } => {
                self.requeue(job, (force, key_taken), prior.as_deref())?;
            }
            Command::Reprioritize { job, priority, prior } => {
                self.reprioritize(job, priority, prior.as_deref())?
            }
            Command::Delete { job, validate_only, prior } => {
                self.delete(job, validate_only, prior.as_deref())?
            }
            Command::PauseKind { kind, policy } => self.pause_kind(&kind, Some(policy))?,
            Command::ResumeKind { kind } => self.pause_kind(&kind, None)?,
            Command::PauseSlot { slot, duration } => self.pause_slot(&slot, duration)?,
            Command::ResumeSlot { slot } => self.resume_slot(&slot)?,
            Command::SetCapacity { slot, capacity } => self.set_capacity(&slot, capacity)?,
            Command::Cordon { node } => self.cordon(&node)?,
            Command::Uncordon { node } => self.uncordon(&node)?,
            Command::Drain { node, deadline } => self.drain(&node, deadline)?,
            Command::Forget { node, lost, validate_only } => self.forget(&node, lost, validate_only)?,
            Command::Hello(hello) => self.hello(*hello)?,
            Command::Heartbeat(heartbeat) => self.heartbeat(&heartbeat)?,
            Command::Report(report) => self.report(*report)?,
            Command::BeginWait(wait) => self.begin_wait(&wait)?,
            Command::NodeDraining { node, session, seq, seen, restart: _ } => {
                self.check_session(&node, session)?;
                self.emit(Event::NodeHeard { node: node.clone(), seq: Some(seq), seen });
                self.emit(Event::NodeLeaving(node));
            }
            Command::SessionClosed { node, session } => {
                self.check_session(&node, session)?;
                self.emit(Event::SessionClosed { node });
            }
            Command::SessionBlocked { node, session, blocked } => {
                self.check_session(&node, session)?;
                self.emit(Event::SessionBlocked { node, blocked });
            }
            Command::SubmitWorkflow(submit) => self.submit(*submit)?,
            Command::CancelWorkflow { workflow, reason, prior } => {
                self.cancel_workflow(workflow, reason, prior.as_deref())?;
            }
            Command::RequeueMember(request) => self.requeue_member(*request)?,
            Command::Sweep { jobs, results, workflows } => self.sweep(&jobs, &results, &workflows),
            Command::SetAside { job } => self.set_aside(job)?,
            Command::SetAsideCron { entry } => self.set_aside_cron(&entry)?,
            Command::PlanCron(plan) => self.plan_cron(*plan),
            Command::PauseCron { entry, by } => self.pause_cron(&entry, by)?,
            Command::ResumeCron { entry } => self.resume_cron(&entry)?,
            Command::RunCron { entry, job, prior } => self.run_cron(&entry, job, prior.as_deref())?,
            Command::SettleDeliveries { tried } => self.settle_deliveries(&tried),
            Command::Redeliver { delivery } => self.redeliver(delivery)?,
            Command::TestWebhook { webhook } => self.test_webhook(&webhook)?,
            Command::ResumeWebhook { webhook } => self.resume_webhook(&webhook)?,
            Command::Tick => return Ok(self.tick()),
        }
        Ok(false)
    }

    /// Says what happened, and makes it so.
    pub(crate) fn emit(&mut self, event: Event) {
        self.state.evolve(self.now, &event);
        self.events.push(event);
    }

    /// Says something to a node, if it has a session.
    pub(crate) fn send(&mut self, node: &NodeName, message: Message) {
        let Some(live) = self.state.nodes.get(node).and_then(|entry| entry.live.as_ref()) else { return };
        let (session, ordinal, applied) = (live.session, Ordinal(live.sent + 1), live.applied);
        self.emit(Event::MessageSent { node: node.clone() });
        self.effects.push(Effect::Send { node: node.clone(), session, ordinal, applied, message });
    }

    pub(crate) fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    pub(crate) fn reply(&mut self, reply: Reply) {
        self.effects.push(Effect::Reply(reply));
    }

    pub(crate) fn notify(&mut self, job: JobId) {
        self.effects.push(Effect::NotifyWatchers { job });
        if let Some(member) = self.state.jobs.get(&job).and_then(|entry| entry.job.workflow) {
            self.notify_workflow(member.workflow);
        }
    }

    /// Once in a row: a command may change many members.
    pub(crate) fn notify_workflow(&mut self, workflow: WorkflowId) {
        let others = |effect: &&Effect| !matches!(effect, Effect::NotifyWatchers { .. });
        let last = self.effects.iter().rev().find(others);
        if last != Some(&Effect::NotifyWorkflow { workflow }) {
            self.effects.push(Effect::NotifyWorkflow { workflow });
        }
    }

    /// The job as memory knows it, else as the store did before this turn.
    pub(crate) fn find(&self, id: JobId, prior: Option<&Job>) -> Result<Job, Refusal> {
        if let Some(entry) = self.state.jobs.get(&id) {
            return Ok(entry.job.clone());
        }
        let known = prior.filter(|job| job.id == id && !self.state.dirty.is_deleted(id));
        known.cloned().ok_or(Refusal::JobNotFound { job: id })
    }
}

/// A text for people made of parts.
pub(crate) fn text(parts: impl Into<Arc<str>>) -> Arc<str> {
    parts.into()
}
