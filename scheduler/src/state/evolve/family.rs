//! What events do to families: who is whose live child, and what the parents that wait know of their children.

use crate::{
    family::{ChildEnd, ChildWait, Detached},
    ids::JobId,
    job::{Job, JobState},
    state::{Due, Stand, State},
    time::{Now, Wall},
};

impl State {
    /// What a parent waits for, if it waits.
    pub(crate) fn child_wait(&self, id: JobId) -> Option<&ChildWait> {
        let job = &self.jobs.get(&id)?.job;
        if !matches!(job.state, JobState::Waiting { .. }) {
            return None;
        }
        match self.parked_wait(id) {
            Some(parked) => Some(&parked.wait),
            None => job.detached.as_ref().map(|detached| &detached.wait),
        }
    }

    /// A parent begins to wait for its children, or is loaded while it does.
    pub(crate) fn await_children(&mut self, id: JobId, now: Now) {
        self.keys_changed = true;
        let Some(wait) = self.child_wait(id) else { return };
        let until = wait.until;
        if let Some(until) = until {
            // By the leader's clock, as a back-off: nobody waits longer because the other one is stepped.
            self.timers.at(now.mono.after(until.since(now.wall)), Due::Wait(id));
        }
        // Looked at again by the next tick: a new leader may hold a child no more whose end its parent does not know.
        self.woken.insert(id);
        let Some(entry) = self.jobs.get_mut(&id) else { return };
        entry.since = now;
        if let Some(kind) = self.kinds.get_mut(&entry.job.kind) {
            kind.waiting += 1;
        }
    }

    /// The parent that has waited since then waits no more, whatever for.
    pub(super) fn forget_children(&mut self, id: JobId, since: Now) {
        if let Some(until) = self.child_wait(id).and_then(|wait| wait.until) {
            self.timers.forget(since.mono.after(until.since(since.wall)), Due::Wait(id));
        }
        self.woken.remove(&id);
        let kind = self.jobs.get(&id).map(|entry| entry.job.kind.clone());
        if let Some(kind) = kind.and_then(|kind| self.kinds.get_mut(&kind)) {
            kind.waiting = kind.waiting.saturating_sub(1);
        }
    }

    /// A live job is found by its parent.
    pub(super) fn join_family(&mut self, job: &Job) {
        if let Some(parent) = job.parent {
            self.family.entry(parent).or_default().insert(job.id);
        }
    }

    /// A job is final: it is no live child, and its parent knows how it ended.
    pub(super) fn leave_family(&mut self, job: &Job) {
        let Some(parent) = job.parent else { return };
        if let Some(children) = self.family.get_mut(&parent) {
            children.remove(&job.id);
            if children.is_empty() {
                self.family.remove(&parent);
            }
        }
        self.note_end(parent, job.id, ChildEnd::of(&job.state));
    }

    /// A final job is live again: a parent that still waits for it waits for its new end.
    pub(super) fn take_back_end(&mut self, job: &Job) {
        let Some(parent) = job.parent else { return };
        if self.child_wait(parent).is_some() {
            self.note_end(parent, job.id, None);
        }
    }

    /// The row of a parent tells the end of a child for as long as an execution may be given it. A row that cannot be
    /// written stays as it is.
    fn note_end(&mut self, parent: JobId, child: JobId, end: Option<ChildEnd>) {
        self.note_end_for_parked(parent, child, end);
        let Some(entry) = self.jobs.get_mut(&parent) else { return };
        if entry.stand == Stand::Broken {
            return;
        }
        let token = entry.job.token;
        let Some(detached) = &mut entry.job.detached else { return };
        if !detached.wait.note(child, end) {
            return;
        }
        entry.job.version += 1;
        let waits = matches!(entry.job.state, JobState::Waiting { .. });
        self.dirty.update_job(parent, token);
        if waits {
            self.woken.insert(parent);
        }
    }

    /// The same for a parent whose process stays: its lease tells it.
    fn note_end_for_parked(&mut self, parent: JobId, child: JobId, end: Option<ChildEnd>) {
        let Some(entry) = self.lease_of.get(&parent).and_then(|token| self.leases.get_mut(token)) else {
            return;
        };
        if entry.lease.waits().is_none() || entry.watch.kept {
            return;
        }
        let Some(parked) = &mut entry.lease.parked else { return };
        if parked.wait.note(child, end) {
            self.dirty.lease(entry.lease.token);
            self.woken.insert(parent);
        }
    }

    /// A job detaches anew, or needs no resume any more: the state that it left before goes.
    pub(super) fn drop_detached(&mut self, id: JobId, next: Option<Box<Detached>>) {
        let Some(entry) = self.jobs.get_mut(&id) else { return };
        let old = std::mem::replace(&mut entry.job.detached, next);
        if let Some(old) = old.filter(|old| old.has_state) {
            self.dirty.delete_result(id, old.token);
        }
    }
}

/// The state of an execution that detached is kept until its job needs it no more, and is dropped then. This is later.
pub(super) const STATE_KEPT_UNTIL: Wall = Wall(32_503_680_000_000_000); // 3000-01-01
