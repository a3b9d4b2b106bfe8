//! Parents whose process stays while they wait for children: parking, going on, and getting back what they gave.

use std::collections::BTreeSet;

use crate::{
    command::{BeginWait, LeaseName},
    effect::{Message, Reply},
    event::Event,
    family::{Parked, WaitAnswer, WaitVerdict},
    ids::{FencingToken, JobId, SlotName},
    job::Outcome,
    lease::{Lease, RevokeReason, Stage},
    place::{
        earmarks::{Dropped, Holder},
        hold,
        reacquire::{self, Kept},
    },
    refusal::{LostCause, Refusal},
    slots::{Needs, Reservation},
    state::State,
    step::Step,
};

/// What both databases can keep.
const MOST_EPOCH: u64 = 1 << 62;

impl Step<'_> {
    pub(super) fn begin_wait(&mut self, wait: &BeginWait) -> Result<(), Refusal> {
        let lease = self.open_lease(&wait.lease)?.clone();
        let (job, token) = (lease.job, lease.token);
        if let Some(known) = &lease.parked {
            if known.epoch == wait.wait_epoch {
                let answer = known.verdict.map_or(WaitAnswer::Parked, WaitAnswer::Over);
                self.reply(Reply::Wait { answer, kept: lease.reservation.node });
                return Ok(());
            }
            if known.epoch > wait.wait_epoch || known.verdict.is_none() {
                let problem =
                    format!("is {}, and wait {} of this lease is known", wait.wait_epoch, known.epoch);
                return Err(Refusal::InvalidField { field: "wait_epoch", problem });
            }
            if known.verdict == Some(WaitVerdict::MustDetach) {
                // It never took back what it gave, so it cannot go on, and a new wait would not know what that was.
                let answer = WaitAnswer::Over(WaitVerdict::MustDetach);
                self.reply(Reply::Wait { answer, kept: lease.reservation.node });
                return Ok(());
            }
        }
        if wait.wait_epoch > MOST_EPOCH {
            let problem = format!("is over {MOST_EPOCH}");
            return Err(Refusal::InvalidField { field: "wait_epoch", problem });
        }
        let judged = self.judge(job, &wait.children, &wait.prior, wait.policy, wait.max_wait);
        let judged = judged.map_err(|problem| Refusal::InvalidField { field: "children", problem })?;
        let (kept, yielded) = self.kept(&lease);
        let (answer, kept) = if judged.is_met() {
            (WaitAnswer::Over(WaitVerdict::Go), lease.reservation.node)
        } else if !self.may_park(&lease, &kept) {
            (WaitAnswer::Over(WaitVerdict::MustDetach), lease.reservation.node)
        } else {
            let parked = Parked { epoch: wait.wait_epoch, wait: judged, yielded, verdict: None };
            self.emit(Event::Parked { job, token, parked: Box::new(parked) });
            self.notify(job);
            (WaitAnswer::Parked, kept.node)
        };
        self.reply(Reply::Wait { answer, kept });
        Ok(())
    }

    /// The lease under which somebody asks for something: the newest of the job, running, and not wanted back.
    pub(super) fn open_lease(&self, name: &LeaseName) -> Result<&Lease, Refusal> {
        self.state.open_lease(name)
    }
}

impl State {
    /// The lease under which a node asks for something: the newest of the job, running, and not wanted back.
    ///
    /// # Errors
    /// [`Refusal::LeaseLost`].
    pub fn open_lease(&self, name: &LeaseName) -> Result<&Lease, Refusal> {
        let token = name.token;
        let job_state = self.job(name.job).map(|job| job.state.name());
        let lost = |cause| Refusal::LeaseLost { token, cause, job_state };
        let Some(entry) = self.leases.get(&token) else { return Err(lost(self.why_gone(name))) };
        let lease = &entry.lease;
        if lease.node != name.node || lease.job != name.job {
            return Err(lost(LostCause::StaleToken));
        }
        if lease.orphaned {
            return Err(lost(LostCause::SupersededSession));
        }
        if lease.stage != Stage::Granted || entry.watch.spooled {
            return Err(lost(LostCause::Expired));
        }
        match entry.watch.revoked {
            Some(RevokeReason::Cancelled) => Err(lost(LostCause::Cancelled)),
            Some(RevokeReason::NotLive | RevokeReason::Unanswered | RevokeReason::Drained) => {
                Err(lost(LostCause::Expired))
            }
            None => Ok(lease),
        }
    }

    /// Why there is no lease of a token that somebody names: it was the newest of its job, or it was never that node's.
    fn why_gone(&self, name: &LeaseName) -> LostCause {
        let newest = self.job(name.job).filter(|job| job.token == name.token);
        let own = newest.filter(|job| job.last_node.as_ref() == Some(&name.node));
        match own.map(|job| job.last_outcome) {
            Some(Some(Outcome::Cancelled)) => LostCause::Cancelled,
            Some(_) => LostCause::Expired,
            None => LostCause::StaleToken,
        }
    }
}

impl Step<'_> {
    /// What a lease keeps while its process is parked, and what it gives back.
    fn kept(&self, lease: &Lease) -> (Reservation, Reservation) {
        let keep = self.state.kind(&lease.kind).map(|kind| &kind.policy.keep_on_wait);
        let keeps = |slot: &SlotName| keep.is_some_and(|keep| keep.contains(slot));
        let part = |needs: &Needs, kept: bool| {
            let part = needs.iter().filter(|(slot, _)| keeps(slot) == kept);
            Needs::new(part.map(|(slot, amount)| (slot.clone(), amount)))
        };
        let held = &lease.reservation;
        let both = |kept| Reservation { node: part(&held.node, kept), fleet: part(&held.fleet, kept) };
        (both(true), both(false))
    }

    /// Whether parked leases may keep this, too.
    fn may_park(&self, lease: &Lease, kept: &Reservation) -> bool {
        reacquire::places(&lease.node, kept).all(|(kept, amount)| {
            let sum = reacquire::keeps(self.state, &kept).saturating_add(amount);
            sum <= reacquire::may_keep(self.state, &kept)
        })
    }

    /// The wait of a parked process is over: its lease wants back what it gave.
    pub(super) fn want(&mut self, id: JobId) {
        let Some(token) = self.state.lease_of.get(&id).copied() else { return };
        let Some(entry) = self.state.leases.get(&token) else { return };
        if entry.watch.wants.is_some() || entry.watch.revoked.is_some() || entry.watch.kept {
            return;
        }
        self.emit(Event::Wants(token));
        self.notify(id);
        if let Some(earmark) = reacquire::earmark(self.state, self.now, token) {
            self.emit(Event::Earmarked(Box::new(earmark)));
        }
    }

    /// Lane 0: whoever finds all that it gave goes on, the first first.
    pub(super) fn reacquire(&mut self) {
        self.drop_stale_wants();
        self.bound_parking();
        self.free_keys();
        let wanting = self.state.parked.iter().filter_map(|token| {
            let entry = self.state.leases.get(token).filter(|entry| entry.watch.wants.is_some())?;
            Some((reacquire::rank(self.state, entry)?, *token))
        });
        let wanting: BTreeSet<_> = wanting.collect();
        for (_, token) in wanting {
            let Some(lease) = self.state.leases.get(&token).map(|entry| &entry.lease) else { continue };
            let Some(parked) = lease.waits() else { continue };
            if reacquire::short(self.state, lease, &parked.yielded).is_none() {
                self.unpark(token, WaitVerdict::Go);
            }
        }
    }

    /// Units that are kept for a lease that wants nothing any more: its execution has ended, however.
    fn drop_stale_wants(&mut self) {
        let wants = |token| self.state.leases.get(token).is_some_and(|entry| entry.watch.wants.is_some());
        let stale = self.state.earmarks.iter().filter_map(|earmark| match &earmark.holder {
            Holder::Lease(token) if !wants(token) => Some(*token),
            Holder::Lease(_) | Holder::Class(_) => None,
        });
        let stale: Vec<FencingToken> = stale.collect();
        stale.into_iter().for_each(|token| self.drop_wants(token, Dropped::Left));
    }

    fn drop_wants(&mut self, token: FencingToken, why: Dropped) {
        let holder = Holder::Lease(token);
        if let Some(earmark) = self.state.earmarks.of(holder) {
            let (job, node) = (earmark.job, earmark.node.clone());
            self.emit(Event::EarmarkDropped { holder, job, node, why });
        }
    }

    /// What parked leases keep is to leave enough for any child, also after a capacity fell or a need grew: the youngest
    /// are to detach.
    fn bound_parking(&mut self) {
        if !std::mem::take(&mut self.state.parking_changed) {
            return;
        }
        let mut youngest_first: Vec<(u64, FencingToken)> = Vec::new();
        for token in &self.state.parked {
            let Some(entry) = self.state.leases.get(token) else { continue };
            let since = self.state.jobs.get(&entry.lease.job).map_or(0, |entry| entry.since.mono.0);
            youngest_first.push((since, *token));
        }
        youngest_first.sort_unstable_by(|a, b| b.cmp(a));
        for (_, token) in youngest_first {
            let Some(lease) = self.state.leases.get(&token).map(|entry| &entry.lease) else { continue };
            let over = |kept: &Kept| {
                reacquire::keeps(self.state, kept) > reacquire::may_keep(self.state, kept)
                    && reacquire::amount(lease, kept) > 0
            };
            if reacquire::places(&lease.node, &lease.reservation).any(|(kept, _)| over(&kept)) {
                self.unpark(token, WaitVerdict::MustDetach);
            }
        }
    }

    /// A job that is parked may hold the key that one needs for whom somebody is parked.
    fn free_keys(&mut self) {
        if std::mem::take(&mut self.state.keys_changed) && !self.state.parked.is_empty() {
            let tokens = hold::in_the_way(self.state);
            tokens.into_iter().for_each(|token| self.unpark(token, WaitVerdict::MustDetach));
        }
    }

    pub(super) fn due_reacquire(&mut self, token: FencingToken) {
        let Some(entry) = self.state.leases.get(&token) else { return };
        let Some(since) = entry.watch.wants else { return };
        let Some(kind) = self.state.kind(&entry.lease.kind) else { return };
        if self.now.mono.since(since) >= kind.policy.reacquire_timeout {
            self.unpark(token, WaitVerdict::MustDetach);
        }
    }

    fn unpark(&mut self, token: FencingToken, verdict: WaitVerdict) {
        let Some(lease) = self.state.leases.get(&token).map(|entry| &entry.lease) else { return };
        let Some(wait_epoch) = lease.waits().map(|parked| parked.epoch) else { return };
        let (job, node) = (lease.job, lease.node.clone());
        self.emit(Event::Unparked { job, token, verdict });
        let why = if verdict == WaitVerdict::Go { Dropped::Used } else { Dropped::Left };
        self.drop_wants(token, why);
        self.send(&node, Message::Resume { token, wait_epoch, verdict });
        self.notify(job);
    }

    /// What a node that lists a process as parked in a wait is to be told; none: it waits on.
    pub(super) fn verdict_on(&self, token: FencingToken, wait_epoch: u64) -> Option<WaitVerdict> {
        match self.state.leases.get(&token)?.lease.parked.as_deref() {
            Some(parked) if parked.epoch == wait_epoch => parked.verdict,
            Some(parked) if parked.verdict.is_none() => None,
            // Nobody knows of that wait, so the lease holds what it was granted or was told to detach.
            Some(parked) => parked.verdict,
            None => Some(WaitVerdict::Go),
        }
    }
}
