//! What producers and operators do to single jobs.

use std::sync::Arc;

use crate::{
    command::DueResult,
    effect::{Message, Reply},
    event::Event,
    ids::{FencingToken, JobId, WorkflowId},
    job::{Job, JobState},
    kind::DedupePolicy,
    lease::{RevokeReason, Stage},
    refusal::{Refusal, bounded_text},
    state::Stand,
    step::Step,
};

impl Step<'_> {
    pub(super) fn cancel(
        &mut self,
        id: JobId,
        reason: Option<Arc<str>>,
        prior: Option<&Job>,
    ) -> Result<(), Refusal> {
        let job = self.find(id, prior)?;
        let reason = bounded_text(reason.as_deref().unwrap_or("cancelled by request"));
        match job.state {
            JobState::Cancelled { .. } => return self.reply_job(id, Some(job), false),
            JobState::Succeeded { .. } | JobState::Dead { .. } | JobState::Expired { .. } => {
                return Err(Refusal::JobFinal { job: id, state: job.state.name() });
            }
            _ if self.state.has_process(&job) && job.cancel_requested => {
                return self.reply_job(id, None, false);
            }
            _ if self.state.has_process(&job) => {
                self.emit(Event::CancelRequested { job: id, reason });
                self.revoke(job.token, RevokeReason::Cancelled);
            }
            JobState::Scheduled { .. }
            | JobState::Blocked { .. }
            | JobState::Queued { .. }
            | JobState::Running
            | JobState::Waiting { .. } => {
                let state = JobState::Cancelled { at: self.now.wall };
                self.emit(Event::Ended { job: id, state, reason });
            }
        }
        self.notify(id);
        self.cancel_family(id);
        self.reply_job(id, None, true)
    }

    /// Wants a lease back, and says so to its node.
    pub(crate) fn revoke(&mut self, token: FencingToken, reason: RevokeReason) {
        let Some(entry) = self.state.leases.get(&token) else { return };
        let node = entry.lease.node.clone();
        self.emit(Event::Revoked { token, reason });
        self.send(&node, Message::Revoke { leases: vec![(token, reason)] });
    }

    pub(super) fn requeue(
        &mut self,
        id: JobId,
        (force, key_taken): (bool, bool),
        prior: Option<&Job>,
    ) -> Result<(), Refusal> {
        let job = self.find(id, prior)?;
        match job.state {
            JobState::Dead { .. } | JobState::Cancelled { .. } => {
                if let Some(member) = job.workflow {
                    return Err(Refusal::JobOfWorkflow { job: id, workflow: member.workflow });
                }
            }
            JobState::Succeeded { .. } | JobState::Expired { .. } => {
                return Err(Refusal::JobFinal { job: id, state: job.state.name() });
            }
            JobState::Scheduled { .. }
            | JobState::Blocked { .. }
            | JobState::Queued { .. }
            | JobState::Running
            | JobState::Waiting { .. } => {
                let freed = self.free_waiting(id, force);
                return self.reply_job(id, None, freed);
            }
        }
        if !self.state.kinds.contains_key(&job.kind) {
            return Err(Refusal::KindNotFound { kind: job.kind.clone(), nearest: Vec::new() });
        }
        if force {
            self.free_lease(id);
        }
        let next = self.next_round(job, key_taken);
        self.emit(Event::Requeued(Box::new(next)));
        self.notify(id);
        self.reply_job(id, None, true)
    }

    /// The job as it begins its next round. A key that it gave up comes back if nobody took it meanwhile.
    pub(super) fn next_round(&self, mut job: Job, key_taken: bool) -> Job {
        if let Some(key) = job.dedupe_key.clone().filter(|_| !job.dedupe_held) {
            let live =
                self.state.kind(&job.kind).is_some_and(|kind| kind.policy.dedupe == DedupePolicy::Live);
            job.dedupe_held = live && !key_taken && !self.state.knows_key(&job.tenant, &job.kind, &key);
        }
        job.state = JobState::Queued { since: self.now.wall };
        job.version += 1;
        job.round += 1;
        (job.failures, job.losses, job.returns, job.returns_in_row) = (0, 0, 0, 0);
        job.last_outcome = None;
        job.started_at = None;
        job.stale_at = None;
        job.cancel_requested = false;
        job.reason = None;
        job.waits = Vec::new();
        job.detached = None;
        job
    }

    /// A waiting job that was set aside, or that waits for an execution that cannot be reaped, waits for slots again.
    pub(super) fn free_waiting(&mut self, id: JobId, force: bool) -> bool {
        let Some(entry) = self.state.jobs.get(&id) else { return false };
        match entry.stand {
            Stand::NotReaped if force => self.free_lease(id),
            Stand::Broken => {
                let mut job = entry.job.clone();
                job.version += 1;
                if !matches!(job.state, JobState::Blocked { .. }) {
                    job.state = JobState::Queued { since: self.now.wall };
                }
                self.emit(Event::Requeued(Box::new(job)));
                // Its workflow may have been cancelled meanwhile.
                self.end_doomed(id);
                true
            }
            Stand::NotReaped | Stand::Class(_) | Stand::Nowhere => false,
        }
    }

    /// Ends the lease that keeps a job waiting; what its processes hold of their node stays charged.
    fn free_lease(&mut self, id: JobId) -> bool {
        let Some(token) = self.state.lease_of.get(&id).copied() else { return false };
        let lease = self.state.leases.get(&token).map(|entry| &entry.lease);
        let Some(lease) = lease.filter(|lease| lease.stage == Stage::Finished) else { return false };
        let charges = !lease.reservation.node.is_empty();
        self.emit(if charges { Event::LeaseUnreaped(token) } else { Event::LeaseGone(token) });
        true
    }

    pub(super) fn reprioritize(
        &mut self,
        id: JobId,
        priority: i8,
        prior: Option<&Job>,
    ) -> Result<(), Refusal> {
        let job = self.find(id, prior)?;
        if job.state.is_final() {
            return Err(Refusal::JobFinal { job: id, state: job.state.name() });
        }
        let changed = job.priority != priority;
        if changed {
            self.emit(Event::Reprioritized { job: id, priority });
            self.notify(id);
        }
        self.reply_job(id, None, changed)
    }

    pub(super) fn delete(
        &mut self,
        id: JobId,
        validate_only: bool,
        prior: Option<&Job>,
    ) -> Result<(), Refusal> {
        let job = self.find(id, prior)?;
        if !job.state.is_final() {
            return Err(Refusal::JobNotFinal { job: id, state: job.state.name() });
        }
        if let Some(workflow) =
            job.workflow.map(|member| member.workflow).filter(|id| self.state.flows.is_live(*id))
        {
            return Err(Refusal::JobOfWorkflow { job: id, workflow });
        }
        if !validate_only {
            self.emit(Event::Deleted(id));
            self.notify(id);
        }
        self.reply(Reply::Deleted { job: Box::new(job) });
        Ok(())
    }

    /// Removes what its reader found to be over, as far as that is still so.
    pub(super) fn sweep(&mut self, jobs: &[Job], results: &[DueResult], workflows: &[WorkflowId]) {
        let (mut swept, mut dropped, mut gone) = (0, 0, 0);
        for job in jobs {
            let still = self.find(job.id, Some(job));
            let over = still.is_ok_and(|job| job.state.is_final());
            let workflow = job.workflow.map(|member| member.workflow);
            let wanted = self.state.lease_of.contains_key(&job.id) || self.is_wanted(job.parent, workflow);
            if over && !wanted {
                self.emit(Event::Deleted(job.id));
                swept += 1;
            }
        }
        for &DueResult { job, token, parent, workflow } in results {
            let known = self.state.job(job).and_then(|job| job.detached.as_ref());
            let is_state = known.is_some_and(|detached| detached.token == token);
            if !is_state && !self.state.dirty.is_deleted(job) && !self.is_wanted(parent, workflow) {
                self.emit(Event::ResultDropped { job, token });
                dropped += 1;
            }
        }
        for workflow in
            workflows.iter().filter(|id| !self.state.knows_workflow(**id)).copied().collect::<Vec<_>>()
        {
            self.emit(Event::WorkflowDeleted(workflow));
            gone += 1;
        }
        self.reply(Reply::Swept { jobs: swept, results: dropped, workflows: gone });
    }

    /// Whether a parent or a workflow is live, and may be given what its child or member left.
    fn is_wanted(&self, parent: Option<JobId>, workflow: Option<WorkflowId>) -> bool {
        if workflow.is_some_and(|workflow| self.state.flows.is_live(workflow)) {
            return true;
        }
        let parent = parent.and_then(|id| self.state.job(id));
        parent.is_some_and(|parent| !parent.state.is_final())
    }

    pub(super) fn set_aside(&mut self, id: JobId) -> Result<(), Refusal> {
        let job = self.find(id, None)?;
        if !job.state.is_final() {
            self.emit(Event::SetAside(id));
        }
        Ok(())
    }

    fn reply_job(&mut self, id: JobId, known: Option<Job>, changed: bool) -> Result<(), Refusal> {
        let job = known.map_or_else(|| self.find(id, None), Ok)?;
        self.reply(Reply::Job { job: Box::new(job), changed });
        Ok(())
    }
}
