//! Tick: what is due by the clocks, then placement, then the savers.

use std::collections::BTreeSet;

use crate::{
    event::Event,
    ids::{FencingToken, JobId, KindName, NodeName, SlotName},
    job::{JobState, Outcome, ScheduledCause},
    lease::{RevokeReason, Stage, Watch, expiry},
    place::{self, ClassId, SAVE_EVERY, earmarks},
    slots::Slot,
    state::{
        Due, JobEntry, NodeEntry, Stand,
        breaker::{Breaker, WAITS_LONGER},
        silence,
    },
    step::{
        Step,
        outcome::{End, How},
        text,
    },
};

/// Timers that fire in one tick; then heartbeats have their turn.
const MOST_TIMERS: usize = 4096;

impl Step<'_> {
    /// True: there is more to do at once.
    pub(super) fn tick(&mut self) -> bool {
        let mut save = false;
        let mut heads = BTreeSet::new();
        let mut breaker = None;
        let mut fired = 0;
        while fired < MOST_TIMERS
            && let Some(due) = self.state.timers.pop(self.now)
        {
            fired += 1;
            match due {
                Due::Scheduled(job) => self.due_job(job),
                Due::Stale(job) => {
                    self.due_stale(job);
                }
                Due::Wait(job) => self.due_wait(job),
                Due::Gate(workflow, gate) => self.due_gate(workflow, gate),
                Due::Reacquire(token) => self.due_reacquire(token),
                Due::SlotPause(slot) => self.due_resume(&slot),
                Due::Budget(kind) => self.due_budget(kind),
                Due::Throttle(slot) => self.due_throttle(&slot),
                Due::Refill(slot) => self.due_refill(slot),
                Due::Lease(token) => self.due_lease(token, &mut breaker),
                Due::Answer(token) => self.due_answer(token),
                Due::Silence(node) => self.due_silence(node),
                Due::Mask(node, class) => self.due_mask(node, class),
                Due::Backoff(node, kind) => self.due_backoff(node, kind),
                Due::Reserve(class) => {
                    heads.insert(class);
                }
                Due::Cron(entry) => self.due_cron(&entry),
                Due::Drain(node) => self.due_drain(&node),
                Due::WarmUp => self.emit(Event::WarmedUp),
                Due::SaveTimelines => save = true,
            }
        }
        self.wake_parents();
        self.advance_workflows();
        self.reacquire();
        heads.extend(earmarks::review(self));
        self.state.earmarks.take_news(); // Placement looks now.
        let mut more = place::place(self);
        // Before all that has room is placed nobody knows who is blocked.
        if more {
            heads.iter().for_each(|class| self.state.timers.at(self.now.mono, Due::Reserve(*class)));
        } else {
            earmarks::elect(self, &heads);
        }
        more |= self.state.earmarks.take_news();
        // A child that turned out to be stale when it was to be placed: its parent may have waited for it.
        more |= !self.state.woken.is_empty() || self.state.flows.has_news();
        if save {
            self.save_timelines();
        }
        more || fired == MOST_TIMERS
    }

    fn due_job(&mut self, id: JobId) {
        let Some(entry) = self.state.jobs.get(&id) else { return };
        let JobState::Scheduled { until, cause } = entry.job.state else { return };
        let due = match cause {
            ScheduledCause::RunAt => until <= self.now.wall,
            // A back-off runs by the leader's clock; the timer is its truth. One that was put back by a second
            // failure has a timer of its own.
            ScheduledCause::Backoff => self.now.mono.since(entry.since.mono) >= until.since(entry.since.wall),
        };
        if due && entry.stand != Stand::Broken {
            self.emit(Event::Ready(id));
            self.notify(id);
        }
    }

    /// True: the job was not started in time, and has ended. One that was set aside does not: its row is what cannot be
    /// written.
    pub(crate) fn due_stale(&mut self, id: JobId) -> bool {
        let Some(JobEntry { job, stand, .. }) = self.state.jobs.get(&id) else { return false };
        let over = job.stale_at.is_some_and(|at| at <= self.now.wall);
        let expires = over && job.may_expire() && job.state.is_waiting() && *stand != Stand::Broken;
        if expires {
            let state = JobState::Expired { at: self.now.wall };
            self.emit(Event::Ended { job: id, state, reason: text("not started within its stale_after") });
            self.notify(id);
        }
        expires
    }

    fn due_resume(&mut self, name: &SlotName) {
        let Some(slot) = self.state.slots.get(name) else { return };
        let over = slot.paused.and_then(|pause| pause.until).is_some_and(|until| until <= self.now.wall);
        if over {
            self.emit(Event::SlotPut(Slot { paused: None, ..slot.clone() }));
        }
    }

    /// Another counter may be spent still; then its jobs wait again.
    fn due_budget(&mut self, kind: KindName) {
        if self.state.kinds.contains_key(&kind) {
            self.emit(Event::BudgetTurned(kind));
        }
    }

    /// A throttle that was made longer has a timer of its own.
    fn due_throttle(&mut self, name: &SlotName) {
        let over = self.state.throttles.get(name).is_some_and(|end| *end <= self.now.mono);
        if let Some(slot) = self.state.slots.get(name).filter(|_| over) {
            self.emit(Event::SlotPut(Slot { throttled_until: None, ..slot.clone() }));
        }
    }

    /// Whoever waits for this may have been overtaken; then it waits again.
    fn due_refill(&mut self, slot: SlotName) {
        if self.state.buckets.contains_key(&slot) {
            self.emit(Event::Refilled(slot));
        }
    }

    /// A lease that nobody renewed is over. An unproven one charges nothing; a proven or loaded one is a loss, for which
    /// one waits longer if many nodes fell silent at once.
    fn due_lease(&mut self, token: FencingToken, breaker: &mut Option<Breaker>) {
        let Some(entry) = self.state.leases.get(&token) else { return };
        if !entry.lease.stage.is_live() {
            return;
        }
        if entry.watch.expires > self.now.mono {
            let expires = entry.watch.expires;
            self.state.timers.at(expires, Due::Lease(token));
            return;
        }
        if entry.watch.kept {
            let expires = expiry(self.now.mono, entry.lease.length);
            self.emit(Event::Renewed { token, expires });
            self.state.timers.at(expires, Due::Lease(token));
            return;
        }
        let is_first = entry.watch.is_first() || was_refused(&entry.watch);
        if entry.lease.stage == Stage::Granted && !is_first && !entry.watch.spared {
            let breaker = breaker.get_or_insert_with(|| Breaker::of(self.state, self.now));
            if let Some(fallen) = breaker.fallen_with(self.state, &entry.lease.node, self.now) {
                let expires = self.now.mono.after(WAITS_LONGER);
                self.emit(Event::Spared { token, expires, fallen });
                self.state.timers.at(expires, Due::Lease(token));
                return;
            }
        }
        match entry.lease.stage {
            Stage::Finished | Stage::Unreaped if entry.lease.reservation.node.is_empty() => {
                self.emit(Event::LeaseGone(token));
            }
            Stage::Finished | Stage::Unreaped => self.emit(Event::LeaseUnreaped(token)),
            Stage::Granted if is_first => self.end(
                token,
                End {
                    cause: text("undelivered"),
                    error: text("its first lease ended without a word from its node"),
                    ..End::new(Outcome::Returned, How::Silent)
                },
            ),
            Stage::Granted => self.end(
                token,
                End {
                    cause: text("lease_expired"),
                    error: text("its lease ended in silence"),
                    ..End::new(Outcome::Lost, How::Silent)
                },
            ),
        }
    }

    /// A grant that was not answered in time is wanted back; it ends by what the node says, or with its first lease.
    fn due_answer(&mut self, token: FencingToken) {
        let Some(entry) = self.state.leases.get(&token) else { return };
        let watch = &entry.watch;
        let open = entry.lease.stage == Stage::Granted && watch.is_first() && watch.revoked.is_none();
        // Without a session nobody can be asked: the next Hello says whether the node has it.
        let node = self.state.nodes.get(&entry.lease.node);
        let can_hear = node.is_some_and(|node| node.live.is_some()) && watch.ordinal.is_some();
        if open && can_hear {
            self.revoke(token, RevokeReason::Unanswered);
        }
    }

    fn due_silence(&mut self, node: NodeName) {
        let Some(entry) = self.state.nodes.get(&node) else { return };
        let Some(live) = entry.live.as_ref().filter(|live| !live.suspect) else { return };
        let due = entry.heard.after(silence(live.interval));
        if due > self.now.mono {
            self.state.timers.at(due, Due::Silence(node));
        } else {
            self.emit(Event::NodeSuspected(node));
        }
    }

    fn due_mask(&mut self, node: NodeName, class: ClassId) {
        let Some(mask) = self.state.nodes.get(&node).and_then(|entry| entry.masks.get(&class)) else {
            return;
        };
        if mask.until <= self.now.mono {
            self.emit(Event::Unmasked { node, class });
        }
    }

    fn due_drain(&mut self, name: &NodeName) {
        let now = self.now.mono;
        let is_due = |entry: &&NodeEntry| entry.drain_by.is_some_and(|by| by <= now);
        let Some(entry) = self.state.nodes.get(name).filter(is_due) else {
            return; // That drain was ended; the timer of a later one is still set.
        };
        let open = entry.leases.iter().filter(|token| {
            self.state
                .leases
                .get(token)
                .is_some_and(|entry| entry.lease.stage == Stage::Granted && entry.watch.revoked.is_none())
        });
        let open: Vec<FencingToken> = open.copied().collect();
        for token in open {
            self.revoke(token, RevokeReason::Drained);
        }
    }

    fn save_timelines(&mut self) {
        let changed = self.state.classes.iter().filter(|(_, class)| class.timeline.unsaved);
        let changed: Vec<ClassId> = changed.map(|(id, _)| id).collect();
        if !changed.is_empty() {
            self.emit(Event::TimelinesSaved(changed));
        }
        self.state.timers.at(self.now.mono.after(SAVE_EVERY), Due::SaveTimelines);
    }
}

/// Whether it was wanted back before it was accepted, and never started: that charges nothing.
fn was_refused(watch: &Watch) -> bool {
    watch.revoked == Some(RevokeReason::Unanswered) && watch.started_at.is_none()
}
