//! What events do to leases whose process waits for children and stays.

use crate::{
    family::{Parked, WaitVerdict},
    ids::{FencingToken, JobId},
    job::JobState,
    lease::returns_by,
    slots::Reservation,
    state::{Due, State},
    time::Now,
};

impl State {
    /// The wait of a job whose process stays, while that goes on.
    pub(crate) fn parked_wait(&self, id: JobId) -> Option<&Parked> {
        let token = self.lease_of.get(&id)?;
        self.leases.get(token)?.lease.waits()
    }

    /// Every slot that is not kept is given back at once, and charges its tenant no more. Its concurrency key it keeps, for
    /// its execution goes on: no other job with that key may run beside it. Where one that it waits for needs that key, it
    /// is told to detach (`place/hold.rs`).
    pub(super) fn parked(&mut self, token: FencingToken, parked: &Parked, now: Now) {
        let Some(entry) = self.leases.get_mut(&token) else { return };
        let lease = &mut entry.lease;
        let (id, node, kind) = (lease.job, lease.node.clone(), lease.kind.clone());
        let tenant = lease.tenant.clone();
        lease.reservation = Reservation {
            node: lease.reservation.node.without(&parked.yielded.node),
            fleet: lease.reservation.fleet.without(&parked.yielded.fleet),
        };
        lease.parked = Some(Box::new(parked.clone()));
        self.dirty.lease(token);
        self.parked.insert(token);
        if let Some(node) = self.nodes.get_mut(&node) {
            node.ledger.give_back(&parked.yielded.node);
        }
        self.credit_tenant(&tenant, &parked.yielded);
        self.free_fleet(token, &parked.yielded);
        self.gained.insert(node);
        if let Some(kind) = self.kinds.get_mut(&kind) {
            kind.running = kind.running.saturating_sub(1);
        }
        self.change(id, |job| job.state = JobState::Waiting { since: now.wall });
        self.await_children(id, now);
    }

    /// A parked process has nothing to wait for any more.
    pub(super) fn wants(&mut self, token: FencingToken, now: Now) {
        let Some(entry) = self.leases.get_mut(&token) else { return };
        entry.watch.wants = Some(now.mono);
        let timeout = self.kinds.get(&entry.lease.kind).map(|kind| kind.kind.policy.reacquire_timeout);
        self.timers.at(now.mono.after(timeout.unwrap_or_default()), Due::Reacquire(token));
    }

    /// The job runs again: with everything, or with what it kept. It starts nothing anew, so that taking back takes no
    /// tokens of a rate: its grant took them.
    pub(super) fn unparked(&mut self, token: FencingToken, verdict: WaitVerdict, now: Now) {
        let Some(lease) = self.leases.get(&token).map(|entry| entry.lease.clone()) else { return };
        if lease.waits().is_none() {
            return;
        }
        self.leave(lease.job, now);
        self.parked.remove(&token);
        let Some(entry) = self.leases.get_mut(&token) else { return };
        let Some(parked) = &mut entry.lease.parked else { return };
        parked.verdict = Some(verdict);
        entry.watch.wants = None;
        // How much of its limit it has used only its node knows.
        entry.watch.returns_by = returns_by(now.mono, entry.watch.hard_limit);
        if verdict == WaitVerdict::Go {
            let yielded = std::mem::take(&mut parked.yielded);
            let held = &mut entry.lease.reservation;
            held.node = held.node.with(&yielded.node);
            held.fleet = held.fleet.with(&yielded.fleet);
            if let Some(node) = self.nodes.get_mut(&lease.node) {
                node.ledger.take(&yielded.node);
            }
            self.charge_fleet(token, &yielded.fleet);
            self.charge_tenant(&lease.tenant, &yielded);
        }
        self.gained.insert(lease.node); // For the index: free units are others than before.
        self.dirty.lease(token);
        self.change(lease.job, |job| job.state = JobState::Running);
        if let Some(kind) = self.kinds.get_mut(&lease.kind) {
            kind.running += 1;
        }
    }

    /// The process of a lease is not parked any more, for its execution ends or nobody can tell it anything.
    pub(super) fn end_parking(&mut self, token: FencingToken) {
        self.parked.remove(&token);
        if let Some(entry) = self.leases.get_mut(&token) {
            entry.watch.wants = None;
            if entry.lease.parked.take().is_some() {
                self.dirty.lease(token);
            }
        }
    }
}
