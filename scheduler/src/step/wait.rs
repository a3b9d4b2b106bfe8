//! Parents that wait for their children: what a node says of it, when it is over, and what a parent's end means to them.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use crate::{
    command::{Finish, Report},
    event::Event,
    family::{Child, ChildEnd, ChildWait, Detached, OnParent, WaitPolicy},
    ids::JobId,
    job::{Job, JobState, Outcome},
    lease::RevokeReason,
    refusal::bounded_text,
    state::Stand,
    step::{
        Step,
        outcome::{End, How},
        text,
    },
    time::Wall,
};

/// The cause of an attempt that ended in order to wait for what nobody can wait for.
const BAD_WAIT: &str = "bad_wait";

impl Step<'_> {
    /// What it means that an execution ended in order to wait. One that cannot wait for what it named has failed: its
    /// process is gone, so there is nobody left to refuse it to.
    pub(super) fn detached(&self, report: &Report, finish: &Finish) -> End {
        let end = End {
            cause: bounded_text(&finish.cause),
            error: bounded_text(&finish.error),
            exit_code: finish.exit_code,
            keep_result: finish.has_result,
            usage: finish.usage.clone(),
            checkpoint: finish.checkpoint,
            ..End::new(Outcome::Detached, How::Ended)
        };
        let failed = |problem: &str| End {
            cause: text(BAD_WAIT),
            error: bounded_text(problem),
            exit_code: finish.exit_code,
            usage: finish.usage.clone(),
            checkpoint: finish.checkpoint,
            ..End::new(Outcome::Failed, How::Ended)
        };
        let Some(detach) = &finish.detach else { return failed("it detached, and does not say for what") };
        match self.judge(report.job, &detach.children, &detach.prior, detach.policy, detach.max_wait) {
            Ok(wait) => {
                let (token, has_state, same_node) = (report.token, finish.has_result, detach.same_node);
                End { detached: Some(Box::new(Detached { wait, token, has_state, same_node })), ..end }
            }
            Err(problem) => failed(&problem),
        }
    }

    /// A wait, judged against the present states of the children; or why nobody can wait for that.
    pub(super) fn judge(
        &self,
        parent: JobId,
        named: &[JobId],
        prior: &[Job],
        policy: WaitPolicy,
        max_wait: Option<Duration>,
    ) -> Result<ChildWait, String> {
        if !self.state.may_wait_for(named.len()) {
            let most = self.state.limits.children;
            return Err(format!("waits for {} children, at most {most} can be", named.len()));
        }
        if named.iter().collect::<BTreeSet<_>>().len() < named.len() {
            return Err("names a child twice".into());
        }
        let child = |id: &JobId| {
            let prior = prior.iter().find(|job| job.id == *id);
            let end = match self.find(*id, prior) {
                Ok(job) if job.parent == Some(parent) => ChildEnd::of(&job.state),
                Ok(_) => return Err(format!("job {id} is not a child of it")),
                Err(_) => Some(ChildEnd::Missing),
            };
            Ok(Child { job: *id, end })
        };
        let children = named.iter().map(child).collect::<Result<_, _>>()?;
        let until = max_wait.map(|length| self.now.wall.after(length)).filter(|at| *at < Wall::MAX);
        Ok(ChildWait { children, policy, until })
    }

    /// Parents whose wait is over by the ends of their children go on.
    pub(super) fn wake_parents(&mut self) {
        for id in std::mem::take(&mut self.state.woken) {
            if self.has_nothing_to_wait_for(id) {
                self.go_on(id);
            }
        }
    }

    /// A child that has not ended, as far as its parent knows, and that is not live either, comes to no end any more that
    /// anybody would hear of.
    fn has_nothing_to_wait_for(&self, id: JobId) -> bool {
        let Some(wait) = self.state.child_wait(id) else { return false };
        let mut wait = wait.clone();
        for child in &mut wait.children {
            if child.end.is_none() && !self.state.jobs.contains_key(&child.job) {
                child.end = Some(ChildEnd::Missing);
            }
        }
        wait.is_met()
    }

    /// A parent has waited for long enough.
    pub(super) fn due_wait(&mut self, id: JobId) {
        let Some(entry) = self.state.jobs.get(&id) else { return };
        let Some(until) = self.state.child_wait(id).and_then(|wait| wait.until) else { return };
        if self.now.mono.since(entry.since.mono) >= until.since(entry.since.wall) {
            self.go_on(id);
        }
    }

    fn go_on(&mut self, id: JobId) {
        if self.state.parked_wait(id).is_some() {
            self.want(id);
        } else if self.state.jobs.get(&id).is_some_and(|entry| entry.stand == Stand::Nowhere) {
            self.emit(Event::WaitOver(id));
            self.notify(id);
        }
    }

    /// A parent is cancelled, and so are the descendants that follow it.
    pub(super) fn cancel_family(&mut self, parent: JobId) {
        self.end_children(parent, |job| job.on_parent_cancel, "its parent was cancelled");
    }

    /// An execution of a parent was lost, and so are the children that follow it, with what follows those.
    pub(super) fn lose_family(&mut self, parent: JobId) {
        self.end_children(parent, |job| job.on_parent_lost, "an execution of its parent was lost");
    }

    /// At once, all in one turn: the guard on descendants bounds how many they are.
    fn end_children(&mut self, parent: JobId, wish: fn(&Job) -> OnParent, reason: &str) {
        let reason: Arc<str> = text(reason);
        let mut next = VecDeque::from(self.live_children(parent, wish));
        while let Some(id) = next.pop_front() {
            let Some(entry) = self.state.jobs.get(&id) else { continue };
            // The row of one that was set aside cannot be written, and would keep all others from it.
            if entry.stand == Stand::Broken || entry.job.cancel_requested {
                continue;
            }
            self.end_child(id, &reason);
            next.extend(self.live_children(id, |job| job.on_parent_cancel));
        }
    }

    fn live_children(&self, parent: JobId, wish: fn(&Job) -> OnParent) -> Vec<JobId> {
        let children = self.state.family.get(&parent).into_iter().flatten();
        let follows = |id: &&JobId| self.state.job(**id).is_some_and(|job| wish(job) == OnParent::Cancel);
        children.filter(follows).copied().collect()
    }

    pub(super) fn end_child(&mut self, id: JobId, reason: &Arc<str>) {
        let Some(job) = self.state.job(id) else { return };
        match job.state {
            _ if self.state.has_process(job) => {
                let token = job.token;
                self.emit(Event::CancelRequested { job: id, reason: reason.clone() });
                self.revoke(token, RevokeReason::Cancelled);
            }
            JobState::Scheduled { .. }
            | JobState::Blocked { .. }
            | JobState::Queued { .. }
            | JobState::Running
            | JobState::Waiting { .. } => {
                let state = JobState::Cancelled { at: self.now.wall };
                self.emit(Event::Ended { job: id, state, reason: reason.clone() });
            }
            JobState::Succeeded { .. }
            | JobState::Dead { .. }
            | JobState::Cancelled { .. }
            | JobState::Expired { .. } => return,
        }
        self.notify(id);
    }
}
