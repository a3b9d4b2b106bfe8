//! What events do to leases, and to the jobs whose executions they end.

use std::time::Duration;

use crate::{
    budget::Usage,
    event::AttemptEnd,
    family::WaitVerdict,
    ids::{FencingToken, JobId, KindName, NodeName, Ordinal, SlotName},
    job::{Attempt, Job, JobState, Outcome, Wait},
    lease::{
        ANSWER_WITHIN, Lease, Phase, RevokeReason, Stage, Watch, expiry, first_lease, reaped_by, returns_by,
        start_window,
    },
    place::hard_time_limit,
    rows::{CheckpointPut, ResultPut},
    slots::{Needs, Reservation},
    state::{Due, LeaseEntry, Stand, State, evolve::family::STATE_KEPT_UNTIL},
    time::{Mono, Now, Wall, micros},
};

impl State {
    pub(super) fn granted(&mut self, lease: &Lease, waits: &[Wait], now: Now) {
        self.grants += 1;
        let id = lease.job;
        let stand = self.jobs.get(&id).map(|entry| entry.stand);
        self.leave(id, now);
        if let Some(Stand::Class(class_id)) = stand
            && let Some(class) = self.classes.get_mut(class_id)
        {
            class.blocked = None;
            self.blocked(class_id, now);
        }
        self.change(id, |job| {
            job.waits = waits.to_vec();
            job.state = JobState::Running;
            job.token = lease.token;
            job.last_outcome = None;
            job.last_node = Some(lease.node.clone());
            job.granted_at = Some(now.wall);
        });
        if let Some(kind) = self.kinds.get_mut(&lease.kind) {
            kind.running += 1;
            kind.grants.count(now.mono);
            kind.last_grant = Some(now.mono);
        }
        let hard_limit = self.hard_limit(lease);
        let mut ordinal = None;
        if let Some(node) = self.nodes.get_mut(&lease.node) {
            node.ledger.take(&lease.reservation.node);
            node.leases.insert(lease.token);
            if let Some(live) = &mut node.live {
                live.unanswered.insert(lease.token);
                ordinal = Some(Ordinal(live.sent + 1)); // The grant is the next message.
            }
        }
        self.charge_fleet(lease.token, &lease.reservation.fleet);
        self.take_tokens(&lease.reservation.fleet, now);
        self.charge_tenant(&lease.tenant, &lease.reservation);
        self.hold_key(lease);
        let watch = Watch {
            phase: Phase::Granted,
            expires: expiry(now.mono, first_lease(lease.length)),
            since: now.mono,
            loaded: false,
            ordinal,
            answered: false,
            spooled: false,
            kept: false,
            spared: false,
            wants: None,
            revoked: None,
            started_at: None,
            progress: None,
            checkpoint: None,
            hard_limit,
            returns_by: returns_by(now.mono.after(start_window(lease.length)), hard_limit),
        };
        self.tried_after_backoff(lease, now);
        self.timers.at(watch.expires, Due::Lease(lease.token));
        self.timers.at(now.mono.after(ANSWER_WITHIN), Due::Answer(lease.token));
        self.lease_of.insert(id, lease.token);
        self.dirty.new_lease(lease.token);
        self.leases.insert(lease.token, LeaseEntry { lease: lease.clone(), watch });
    }

    /// How long the attempt under a new lease may run.
    fn hard_limit(&self, lease: &Lease) -> Duration {
        let policy = self.kinds.get(&lease.kind).map(|kind| &kind.kind.policy);
        let job = self.jobs.get(&lease.job).map(|entry| &entry.job);
        job.zip(policy).map_or(Duration::ZERO, |(job, policy)| hard_time_limit(job, policy))
    }

    /// A kind has a limit now: what runs of it counts from the first.
    pub(super) fn charge_running(&mut self, slot: &SlotName) {
        let one = Needs::new([(slot.clone(), 1)]);
        for (token, entry) in &mut self.leases {
            let lease = &mut entry.lease;
            // One that was granted under an earlier limit holds it still.
            let given = lease.parked.as_ref().is_some_and(|parked| parked.yielded.fleet.amount(slot) > 0);
            let held = lease.reservation.fleet.amount(slot) > 0 || given;
            // One whose tree is gone gave its slots back and lives on for its report only.
            if lease.stage.is_live()
                && !entry.watch.spooled
                && !held
                && SlotName::of_kind(&lease.kind) == *slot
            {
                let fleet = &lease.reservation.fleet;
                let both = fleet.iter().chain(one.iter()).map(|(slot, amount)| (slot.clone(), amount));
                if let Some(parked) = lease.parked.as_mut().filter(|parked| parked.verdict.is_none()) {
                    // It has given it back already, like all that it does not keep, and wants it with the rest: its
                    // tenant is charged when it takes it.
                    parked.yielded.fleet = parked.yielded.fleet.with(&one);
                } else {
                    lease.reservation.fleet = Needs::new(both);
                    self.fleet.take(&one);
                    self.tenants.take(&lease.tenant, &one);
                    self.holders.take(*token, &one);
                }
                self.dirty.lease(*token);
            }
        }
    }

    pub(super) fn attempt_ended(&mut self, end: &AttemptEnd, now: Now) {
        let Some(lease) = self.leases.get(&end.token).map(|entry| entry.lease.clone()) else { return };
        if end.keep_row {
            let saved = self.leases.get(&end.token).and_then(|entry| entry.watch.checkpoint);
            self.dirty.attempt(Attempt {
                job: end.job,
                token: end.token,
                attempt: lease.attempt,
                round: lease.round,
                node: lease.node.clone(),
                outcome: end.outcome,
                cause: end.cause.clone(),
                error: end.error.clone(),
                exit_code: end.exit_code,
                granted_at: lease.granted_at,
                started_at: end.started_at,
                ended_at: now.wall,
                usage: end.usage.clone(),
                partial: end.partial,
                checkpoint_size: end.checkpoint.or(saved),
            });
        }
        let entry = self.leases.get(&end.token);
        // One that was parked did not hold its slots meanwhile.
        let held = entry.filter(|entry| entry.lease.parked.is_none());
        let held = held.and_then(|entry| whole_run(&entry.watch, end, now));
        if lease.waits().is_some() {
            self.leave(end.job, now);
        } else if let Some(kind) = self.kinds.get_mut(&lease.kind) {
            kind.running = kind.running.saturating_sub(1);
            held.into_iter().for_each(|held| kind.runs.count(held));
        }
        self.end_parking(end.token);
        match end.lease {
            Some(Stage::Finished) => {
                if let Some(entry) = self.leases.get_mut(&end.token) {
                    entry.lease.stage = Stage::Finished;
                    entry.watch.phase = entry.watch.phase.max(Phase::Finished);
                    entry.watch.answered = true;
                    entry.watch.returns_by = entry.watch.returns_by.min(reaped_by(now.mono));
                }
                self.answered(&lease.node, end.token);
                self.dirty.lease(end.token);
            }
            Some(Stage::Granted | Stage::Unreaped) => self.lease_over(end.token, Some(Stage::Unreaped), now),
            None => self.lease_over(end.token, None, now),
        }
        self.keep_result(end, &lease.kind, now);
        self.charge(&lease.kind, &end.usage, now);
        self.change(end.job, |job| count_outcome(job, end));
        self.detach(end);
        self.become_state(end.job, &end.next, end.reason.as_ref(), now);
    }

    /// An execution that detached says what its job waits for, and what its resume is to be given.
    fn detach(&mut self, end: &AttemptEnd) {
        if end.detached.is_some() {
            self.drop_detached(end.job, end.detached.clone());
        }
    }

    pub(super) fn loss_replaced(&mut self, end: &AttemptEnd, now: Now) {
        let Some(entry) = self.jobs.get(&end.job) else { return };
        let job = entry.job.clone();
        self.leave(end.job, now);
        self.change(end.job, |job| {
            job.take_back_loss();
            count_outcome(job, end);
        });
        self.detach(end);
        let was_lost = matches!(job.last_outcome, Some(Outcome::Lost));
        self.dirty.attempt(Attempt {
            job: end.job,
            token: end.token,
            attempt: if was_lost { job.attempt().saturating_sub(1) } else { job.attempt() },
            round: job.round,
            node: job.last_node.clone().unwrap_or_else(|| NodeName::new("")),
            outcome: end.outcome,
            cause: end.cause.clone(),
            error: end.error.clone(),
            exit_code: end.exit_code,
            granted_at: job.granted_at.unwrap_or(job.created_at),
            started_at: end.started_at,
            ended_at: now.wall,
            usage: end.usage.clone(),
            partial: end.partial,
            checkpoint_size: end.checkpoint,
        });
        self.keep_result(end, &job.kind, now);
        self.charge(&job.kind, &end.usage, now);
        self.become_state(end.job, &end.next, end.reason.as_ref(), now);
    }

    /// What an attempt used is spent of the budget of its kind.
    fn charge(&mut self, kind: &KindName, usage: &Usage, now: Now) {
        if let Some(entry) = self.kinds.get_mut(kind)
            && entry.kind.charge(usage, now.wall)
        {
            self.dirty.kind(kind, true);
        }
    }

    fn keep_result(&mut self, end: &AttemptEnd, kind: &KindName, now: Now) {
        if let Some(size) = end.checkpoint {
            self.checkpointed(end.job, end.token, size, now);
        }
        if !end.keep_result {
            return;
        }
        let of_wait = end.detached.is_some();
        let ttl = self.kinds.get(kind).map(|entry| entry.kind.policy.result_ttl).unwrap_or_default();
        let expires_at = if of_wait { STATE_KEPT_UNTIL } else { now.wall.after(ttl) };
        let (job, token, created_at) = (end.job, end.token, now.wall);
        let partial = end.partial;
        self.dirty.result(ResultPut { job, token, of_wait, partial, created_at, expires_at });
    }

    /// An execution saved what the next one is to go on from.
    pub(super) fn checkpointed(&mut self, job: JobId, token: FencingToken, size: u64, now: Now) {
        if let Some(entry) = self.leases.get_mut(&token) {
            entry.watch.checkpoint = Some(size);
        }
        self.dirty.checkpoint(CheckpointPut { job, token, created_at: now.wall });
    }

    /// A lease is over. What it charges of the fleet is free; of its node too, unless it stays unreaped.
    pub(super) fn lease_over(&mut self, token: FencingToken, stage: Option<Stage>, now: Now) {
        let Some(lease) = self.leases.get(&token).map(|entry| entry.lease.clone()) else { return };
        let waited = self.waited_for(&lease, now);
        let kept = if stage.is_some() { lease.reservation.node.clone() } else { Needs::default() };
        self.credit_tenant(&lease.tenant, &lease.reservation);
        self.tenants.take(&lease.tenant, &kept);
        if let (Some(_), Some(entry)) = (stage, self.leases.get_mut(&token)) {
            entry.lease.stage = Stage::Unreaped;
            entry.lease.reservation.fleet = Needs::default();
            entry.lease.concurrency_key = None;
            self.dirty.lease(token);
        } else {
            self.leases.remove(&token);
            self.dirty.delete_lease(token);
            if let Some(node) = self.nodes.get_mut(&lease.node) {
                node.ledger.give_back(&lease.reservation.node);
                node.leases.remove(&token);
            }
        }
        self.release_key(&lease);
        if lease.stage.is_live() {
            self.free_fleet(token, &lease.reservation);
        }
        self.answered(&lease.node, token);
        self.gained.insert(lease.node.clone());
        if self.lease_of.get(&lease.job) == Some(&token) {
            self.lease_of.remove(&lease.job);
        }
        if let Some(waits) = waited {
            self.leave_queue(lease.job);
            // It waits for its slots from now on; what it waited for so far is told by its row.
            self.change(lease.job, |job| {
                job.waits = waits;
                job.state = JobState::Queued { since: now.wall };
            });
            self.join(lease.job, now);
        }
    }

    /// What the job that waits for the end of this lease has waited for; none: no job does.
    fn waited_for(&self, lease: &Lease, now: Now) -> Option<Vec<Wait>> {
        let waiter = self.jobs.get(&lease.job).filter(|entry| entry.stand == Stand::NotReaped);
        let it = waiter.is_some() && self.lease_of.get(&lease.job) == Some(&lease.token);
        it.then(|| self.waits(lease.job, now).unwrap_or_default())
    }

    pub(super) fn slots_freed(&mut self, token: FencingToken, now: Now) {
        self.runs_out(token, now);
        self.free_node_slots(token);
        let Some(entry) = self.leases.get_mut(&token) else { return };
        entry.watch.spooled = true;
        let freed = Reservation {
            fleet: std::mem::take(&mut entry.lease.reservation.fleet),
            ..Reservation::default()
        };
        let lease = entry.lease.clone();
        entry.lease.concurrency_key = None;
        self.release_key(&lease);
        self.credit_tenant(&lease.tenant, &freed);
        self.free_fleet(token, &freed);
    }

    /// A lease takes units of the fleet.
    pub(crate) fn charge_fleet(&mut self, token: FencingToken, taken: &Needs) {
        self.fleet.take(taken);
        self.holders.take(token, taken);
    }

    /// A lease gives back all that it held of these fleet slots.
    pub(super) fn free_fleet(&mut self, token: FencingToken, freed: &Reservation) {
        self.fleet.give_back(&freed.fleet);
        self.holders.give_back(token, &freed.fleet);
        self.gain(freed);
    }

    pub(super) fn lease_orphaned(&mut self, token: FencingToken, now: Now) {
        self.runs_out(token, now);
        self.free_node_slots(token);
        if let Some(entry) = self.leases.get_mut(&token) {
            entry.lease.orphaned = true;
        }
    }

    /// Nobody is left whom anything could be told: it waits for nothing, and its lease wants nothing back.
    fn runs_out(&mut self, token: FencingToken, now: Now) {
        self.unparked(token, WaitVerdict::MustDetach, now);
        self.end_parking(token);
    }

    /// A lease charges its node no more.
    fn free_node_slots(&mut self, token: FencingToken) {
        let Some(entry) = self.leases.get_mut(&token) else { return };
        let freed = std::mem::take(&mut entry.lease.reservation.node);
        self.tenants.give_back(&entry.lease.tenant, &freed);
        self.dirty.lease(token);
        if let Some(node) = self.nodes.get_mut(&entry.lease.node) {
            node.ledger.give_back(&freed);
            self.gained.insert(entry.lease.node.clone());
        }
    }

    pub(super) fn phased(&mut self, token: FencingToken, phase: Phase, started_at: Option<Wall>, now: Now) {
        let Some(entry) = self.leases.get_mut(&token) else { return };
        entry.watch.phase = entry.watch.phase.max(phase);
        entry.watch.answered = true;
        // A listing of it by a later session is as good as a report: the node has read its grant.
        entry.watch.ordinal.get_or_insert(Ordinal(0));
        entry.watch.started_at = entry.watch.started_at.or(started_at);
        if let Some(started_at) = started_at {
            let elapsed = micros(now.wall.since(started_at));
            let start = Mono(now.mono.0.saturating_sub(elapsed));
            entry.watch.returns_by = entry.watch.returns_by.min(returns_by(start, entry.watch.hard_limit));
        }
        let node = entry.lease.node.clone();
        if entry.watch.phase >= Phase::Accepted {
            self.answered(&node, token);
        } else if let Some(live) = self.nodes.get_mut(&node).and_then(|entry| entry.live.as_mut()) {
            // Read in an earlier session, and still to be accepted: it takes one of this session's credits.
            live.unanswered.insert(token);
        }
    }

    /// The node has answered a grant: it may take another.
    fn answered(&mut self, node: &NodeName, token: FencingToken) {
        if let Some(entry) = self.nodes.get_mut(node)
            && let Some(live) = &mut entry.live
        {
            let was_full = live.is_full();
            if live.unanswered.remove(&token) && was_full {
                self.gained.insert(node.clone());
            }
        }
    }

    pub(super) fn revoked(&mut self, token: FencingToken, reason: RevokeReason) {
        let Some(entry) = self.leases.get_mut(&token) else { return };
        entry.watch.revoked = Some(reason);
        if reason == RevokeReason::Unanswered
            && let Some(live) = self.nodes.get_mut(&entry.lease.node).and_then(|node| node.live.as_mut())
        {
            live.hold_until_seen = Some(Ordinal(live.sent + 1)); // The Revoke is the next message.
        }
    }
}

/// For how long a run that came to its own end held its slots, if this leader saw all of it. One that was cut short
/// says nothing of how long others will take.
fn whole_run(watch: &Watch, end: &AttemptEnd, now: Now) -> Option<Duration> {
    let own_end = match end.outcome {
        Outcome::Succeeded
        | Outcome::Failed
        | Outcome::FailedPermanent
        | Outcome::TimedOut
        | Outcome::Stalled
        | Outcome::Detached => true,
        Outcome::Lost | Outcome::Returned | Outcome::Cancelled => false,
    };
    (own_end && !watch.loaded && end.started_at.is_some()).then(|| now.mono.since(watch.since))
}

/// What the end of an execution does to the counters of its job.
fn count_outcome(job: &mut Job, end: &AttemptEnd) {
    job.last_outcome = Some(end.outcome);
    job.left_result = (end.outcome == Outcome::Succeeded).then_some(end.keep_result);
    if end.started_at.is_some() {
        job.started_at = end.started_at;
    }
    match end.outcome {
        Outcome::Failed | Outcome::FailedPermanent | Outcome::TimedOut | Outcome::Stalled => {
            job.failures += 1;
        }
        Outcome::Lost => job.losses += 1,
        Outcome::Returned => {
            job.returns += 1;
            job.returns_in_row += 1;
            return;
        }
        // Its attempt goes on, and what went wrong before is told by its attempts.
        Outcome::Detached => (job.last_outcome, job.reason) = (None, None),
        Outcome::Succeeded | Outcome::Cancelled => {}
    }
    job.returns_in_row = 0;
}
