//! What events do to jobs: where they stand, what they wait for, what they leave behind.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    ids::{DedupeKey, JobId, KindName, Tenant},
    job::{Job, JobState, ScheduledCause},
    kind::DedupePolicy,
    place::{ClassId, queue::place_of, timeline::Joined},
    retry::{self, MOST_RETRY_AFTER},
    state::{Due, JobEntry, Stand, State},
    time::{Now, Wall},
};

/// For how many days a kind remembers its dead.
const DEAD_DAYS: usize = 8;

impl State {
    pub(super) fn enqueued(&mut self, job: &Job, now: Now) {
        self.enqueues += 1;
        self.dirty.insert_job(job.id);
        if let Some(parent) = job.parent {
            self.change(parent, |parent| parent.children = parent.children.saturating_add(1));
        }
        if let Some(entry) = self.kinds.get_mut(&job.kind) {
            entry.arrivals.count(now.mono);
        }
        self.index_live(job);
        self.take_back_end(job); // Its parent may have named it before it came.
        self.admit(job, now);
    }

    pub(super) fn requeued(&mut self, job: &Job, now: Now) {
        self.dirty.update_job(job.id, job.token);
        self.dirty.now_live(job.id);
        // A job that was set aside was live all the time.
        if self.jobs.get(&job.id).is_none_or(|entry| entry.job.state.is_final()) {
            self.index_live(job);
            self.take_back_end(job);
            self.rejoin_workflow(job);
        }
        self.leave_queue(job.id);
        self.admit(job, now);
    }

    /// A live job takes its place.
    fn admit(&mut self, job: &Job, now: Now) {
        let entry =
            JobEntry { job: job.clone(), stand: Stand::Nowhere, joined: Joined::default(), since: now };
        self.jobs.insert(job.id, entry);
        self.enter(job.id, now);
    }

    /// What must be found by a live job.
    pub(crate) fn index_live(&mut self, job: &Job) {
        if let Some(key) = job.dedupe_key.as_ref().filter(|_| job.dedupe_held) {
            self.keys.insert((job.tenant.clone(), job.kind.clone(), key.clone()), job.id);
        }
        if job.root != job.id {
            *self.descendants.entry(job.root).or_default() += 1;
        }
        self.join_family(job);
        if matches!(job.state, JobState::Running)
            && let Some(entry) = self.kinds.get_mut(&job.kind)
        {
            entry.running += 1;
        }
    }

    /// A job begins to wait, as its state says.
    fn enter(&mut self, id: JobId, now: Now) {
        if let Some(stale_at) = self.jobs.get(&id).and_then(|entry| entry.job.stale_at) {
            self.timers.at_wall(stale_at, Due::Stale(id));
        }
        match self.jobs.get(&id).map(|entry| entry.job.state.clone()) {
            Some(JobState::Scheduled { until, cause }) => self.await_time(id, until, cause, now),
            Some(JobState::Blocked { .. }) => self.await_predecessors(id, now),
            Some(JobState::Queued { .. }) => self.join(id, now),
            Some(JobState::Waiting { .. }) => self.await_children(id, now),
            Some(
                JobState::Running
                | JobState::Succeeded { .. }
                | JobState::Dead { .. }
                | JobState::Cancelled { .. }
                | JobState::Expired { .. },
            )
            | None => {}
        }
    }

    /// A scheduled job waits: for `run_at` by the wall clock, for a back-off by the leader's.
    pub(crate) fn await_time(&mut self, id: JobId, until: Wall, cause: ScheduledCause, now: Now) {
        match cause {
            ScheduledCause::RunAt => self.timers.at_wall(until, Due::Scheduled(id)),
            ScheduledCause::Backoff => {
                self.timers.at(now.mono.after(until.since(now.wall)), Due::Scheduled(id));
            }
        }
        let Some(entry) = self.jobs.get_mut(&id) else { return };
        entry.since = now;
        if let Some(kind) = self.kinds.get_mut(&entry.job.kind) {
            kind.scheduled += 1;
        }
    }

    /// A loaded job goes on waiting. The wall clock by which the end of a back-off was stored may have been set since: it
    /// lasts no longer than it can have been, and that is less than from the grant of its execution to its end. Where not
    /// even that can be (the clock was set in between), it lasts as long as its kind's longest.
    pub(crate) fn await_loaded(&mut self, id: JobId, until: Wall, cause: ScheduledCause, now: Now) {
        let Some(job) = self.jobs.get(&id).map(|entry| &entry.job) else { return };
        let policy = self.kinds.get(&job.kind).map(|entry| &entry.kind.policy);
        let longest = policy.map_or(MOST_RETRY_AFTER, |policy| retry::longest(&policy.retry));
        let runs = policy.map_or(MOST_RETRY_AFTER, |policy| policy.hard_time_limit);
        let since_grant = job.granted_at.map_or(longest, |granted| until.since(granted));
        let can_be = longest.max(MOST_RETRY_AFTER);
        let left = if since_grant > runs + can_be { longest } else { since_grant.min(can_be) };
        let wall = match cause {
            ScheduledCause::RunAt => now.wall,
            ScheduledCause::Backoff => now.wall.max(until.before(left)),
        };
        self.await_time(id, until, cause, Now { wall, ..now });
    }

    /// The job that has waited for a time since then waits for it no more, be it over or not.
    fn forget_time(&mut self, id: JobId, until: Wall, cause: ScheduledCause, since: Now) {
        match cause {
            ScheduledCause::RunAt => self.timers.forget_wall(until, Due::Scheduled(id)),
            ScheduledCause::Backoff => {
                self.timers.forget(since.mono.after(until.since(since.wall)), Due::Scheduled(id));
            }
        }
    }

    /// What a job waited for, a time or its children, is over.
    pub(super) fn ready(&mut self, id: JobId, now: Now) {
        self.leave(id, now);
        self.change(id, |job| job.state = JobState::Queued { since: now.wall });
        self.join(id, now);
    }

    /// A queued job waits for its slots, or for an earlier execution to be gone.
    pub(crate) fn join(&mut self, id: JobId, now: Now) {
        let Some(entry) = self.jobs.get_mut(&id) else { return };
        entry.since = now;
        if let JobState::Queued { since } = entry.job.state
            && let Some(kind) = self.kinds.get_mut(&entry.job.kind)
        {
            kind.queued.insert((since, id));
        }
        if self.lease_of.contains_key(&id) {
            self.stand(id, Stand::NotReaped);
        } else {
            self.join_class(id, now);
        }
    }

    pub(super) fn join_class(&mut self, id: JobId, now: Now) {
        let Some(entry) = self.jobs.get(&id) else { return };
        let Some(key) = self.class_key(&entry.job) else { return };
        self.parking_changed |= entry.job.needs.is_some(); // They may be larger than those of any kind.
        let class_id = self.classes.intern(key, &self.slots);
        let Some(class) = self.classes.get_mut(class_id) else { return };
        class.queue.insert(&entry.job);
        let joined = class.timeline.join(now);
        if let Some(entry) = self.jobs.get_mut(&id) {
            entry.stand = Stand::Class(class_id);
            entry.joined = joined;
        }
        self.joined_class(id, class_id);
    }

    /// A job that comes to stand first of its priority in its class, or leaves that place: the head of the class may be
    /// another. What is kept for large jobs may be free to one head and not to the next.
    pub(super) fn head_may_differ(&mut self, class: ClassId, job: JobId) {
        if self.earmarks.is_empty() {
            return;
        }
        if let Some(class) = self.classes.get_mut(class)
            && class.startable().heads().any(|(_, _, head)| head == job)
        {
            class.failed = None;
        }
    }

    fn stand(&mut self, id: JobId, stand: Stand) {
        if let Some(entry) = self.jobs.get_mut(&id) {
            entry.stand = stand;
        }
    }

    /// A job waits no longer; what it waited for is added to its row.
    pub(super) fn leave(&mut self, id: JobId, now: Now) {
        let waits = self.waits(id, now);
        if let Some(waits) = waits {
            self.change(id, |job| job.waits = waits);
        }
        self.leave_queue(id);
    }

    /// Its row is what could not be written, so it stays as it is.
    pub(super) fn set_aside(&mut self, id: JobId, now: Now) {
        let runs = self.jobs.get(&id).is_some_and(|entry| entry.job.state == JobState::Running);
        if runs || self.parked_wait(id).is_some() {
            let lease = self.lease_of.get(&id).and_then(|token| self.leases.get_mut(token));
            lease.into_iter().for_each(|entry| entry.watch.kept = true);
            return;
        }
        self.leave_queue(id);
        if let Some(entry) = self.jobs.get_mut(&id) {
            (entry.stand, entry.since) = (Stand::Broken, now);
            self.aside += 1;
        }
    }

    /// A job stands nowhere, and counts for its kind no more.
    pub(super) fn leave_queue(&mut self, id: JobId) {
        self.leave_class(id);
        let Some(entry) = self.jobs.get_mut(&id) else { return };
        if std::mem::replace(&mut entry.stand, Stand::Nowhere) == Stand::Broken {
            self.aside = self.aside.saturating_sub(1);
            return; // Of its kind it was counted out when it was set aside.
        }
        if matches!(entry.job.state, JobState::Waiting { .. }) {
            let since = entry.since;
            return self.forget_children(id, since);
        }
        let Some(kind) = self.kinds.get_mut(&entry.job.kind) else { return };
        match entry.job.state {
            JobState::Scheduled { until, cause } => {
                kind.scheduled = kind.scheduled.saturating_sub(1);
                let since = entry.since;
                self.forget_time(id, until, cause, since);
            }
            JobState::Blocked { .. } => kind.blocked = kind.blocked.saturating_sub(1),
            JobState::Queued { since } => {
                kind.queued.remove(&(since, id));
            }
            JobState::Waiting { .. }
            | JobState::Running
            | JobState::Succeeded { .. }
            | JobState::Dead { .. }
            | JobState::Cancelled { .. }
            | JobState::Expired { .. } => {}
        }
    }

    pub(super) fn leave_class(&mut self, id: JobId) {
        let Some(entry) = self.jobs.get_mut(&id) else { return };
        let Stand::Class(class_id) = entry.stand else { return };
        self.leaving_class(id, class_id);
        let Some(entry) = self.jobs.get_mut(&id) else { return };
        entry.stand = Stand::Nowhere;
        let Some(entry) = self.jobs.get(&id) else { return };
        if let Some(class) = self.classes.get_mut(class_id) {
            class.queue.remove(&entry.job);
        }
        self.tidy_class(class_id);
    }

    pub(super) fn tidy_class(&mut self, class: ClassId) {
        if let Some(empty) = self.classes.get_mut(class).filter(|class| class.queue.is_empty()) {
            // While nothing waits in it, gains pass it by: what it failed for is no reason to skip it later.
            empty.failed = None;
            empty.blocked = None;
        }
        if let Some(text) = self.classes.tidy(class) {
            self.dirty.delete_class(class, text);
        }
    }

    pub(super) fn reprioritized(&mut self, id: JobId, priority: i8) {
        let class = |entry: &JobEntry| match entry.stand {
            Stand::Class(class) => Some(class),
            Stand::NotReaped | Stand::Broken | Stand::Nowhere => None,
        };
        let class = self.jobs.get(&id).and_then(class);
        if let (Some(class), Some(entry)) = (class, self.jobs.get(&id)) {
            let place = place_of(&entry.job);
            self.leaving_class(id, class);
            if let Some(class) = self.classes.get_mut(class) {
                class.queue.take(&place);
            }
        }
        self.change(id, |job| job.priority = priority);
        if let Some(id_of) = class {
            if let (Some(class), Some(entry)) = (self.classes.get_mut(id_of), self.jobs.get(&id)) {
                class.queue.insert(&entry.job);
            }
            self.joined_class(id, id_of);
        }
    }

    pub(super) fn deleted(&mut self, id: JobId) {
        self.dirty.delete_job(id);
        if let Some(entry) = self.jobs.remove(&id) {
            self.forget_key(&entry.job);
        }
    }

    /// The key of a job that leaves memory, or that gives its key up.
    pub(crate) fn forget_key(&mut self, job: &Job) {
        let Some(key) = job.dedupe_key.clone() else { return };
        let key: (Tenant, KindName, DedupeKey) = (job.tenant.clone(), job.kind.clone(), key);
        if self.keys.get(&key) == Some(&job.id) {
            self.keys.remove(&key);
        }
    }

    /// Changes the row of a job.
    pub(super) fn change(&mut self, id: JobId, change: impl FnOnce(&mut Job)) {
        let Some(entry) = self.jobs.get_mut(&id) else { return };
        self.dirty.update_job(id, entry.job.token);
        change(&mut entry.job);
        entry.job.version += 1;
    }

    /// A job that waits no longer takes its next state: it waits again, or is final.
    pub(super) fn become_state(&mut self, id: JobId, state: &JobState, reason: Option<&Arc<str>>, now: Now) {
        self.change(id, |job| {
            job.state = state.clone();
            if let Some(reason) = reason {
                job.reason = Some(reason.clone());
            } else if matches!(state, JobState::Succeeded { .. }) {
                job.reason = None; // What went wrong before is told by its attempts.
            }
        });
        if state.is_final() { self.became_final(id, now) } else { self.enter(id, now) }
    }

    fn became_final(&mut self, id: JobId, now: Now) {
        self.dirty.now_final(id);
        let Some(entry) = self.jobs.get_mut(&id) else { return };
        let (job, root) = (entry.job.clone(), entry.job.root);
        if let Some(stale_at) = job.stale_at {
            self.timers.forget_wall(stale_at, Due::Stale(id));
        }
        if let Some(kind) = self.kinds.get_mut(&job.kind) {
            match job.state {
                JobState::Succeeded { .. } => kind.completions.count(now.mono),
                JobState::Dead { at } => {
                    count_dead(&mut kind.kind.dead_by_day, at);
                    self.dirty.kind(&job.kind, true);
                }
                JobState::Scheduled { .. }
                | JobState::Blocked { .. }
                | JobState::Queued { .. }
                | JobState::Running
                | JobState::Waiting { .. }
                | JobState::Cancelled { .. }
                | JobState::Expired { .. } => {}
            }
            if kind.kind.policy.dedupe == DedupePolicy::Live && job.dedupe_held {
                entry.job.dedupe_held = false;
                self.forget_key(&job);
            }
        }
        self.leave_family(&job);
        self.leave_workflow(&job);
        self.drop_detached(id, None);
        if root != id
            && let Some(count) = self.descendants.get_mut(&root)
        {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.descendants.remove(&root);
            }
        }
    }
}

/// One more job became dead on that day.
fn count_dead(days: &mut BTreeMap<i64, u64>, at: Wall) {
    *days.entry(at.day()).or_default() += 1;
    while days.len() > DEAD_DAYS {
        days.pop_first();
    }
}
