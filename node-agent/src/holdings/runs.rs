//! The other half of the machine: what the runner tells, and what the passing of time does.
//!
//! Responsible for the phases of a lease between its grant and its end, for starting what was accepted, and for the
//! deadlines of drains. Not responsible for anything that the server says (`holdings.rs`).

use std::sync::Arc;
use std::time::Duration;

use super::last_word::{SOON, too_late};
use super::lease::Held;
use super::{
    Action, Drain, End, FencingToken, Holdings, LEAST_PAUSE, LONG_LEASE, Link, Listed, Phase, Return, Stop,
    StopReason, UNANSWERED_RECONNECT, Unstored, Word,
};
use crate::clock::Mono;
use crate::own_rule::OwnRule;
use crate::pressure::rules::Reading;

/// The part of a lease after which its tree must be gone on the node. The server waits for 1.05 of it and 2 s more.
const GONE_BY_PERCENT: u32 = 95;

// What the runner tells.
impl Holdings {
    /// Its directory and payload are written: it is accepted, and starts once the start limiter lets it.
    pub fn prepared(&mut self, token: FencingToken) {
        let Some(held) = self.leases.get_mut(&token) else { return };
        if held.phase == Phase::Granted && !held.gone {
            held.phase = Phase::Accepted;
            self.unsaid.push_back((token, Word::Accepted));
        }
    }

    /// It has not started and will not: its directory could not be written, or it was told to stop first. `rule`
    /// says why, unless a stop order does.
    pub fn never_started(&mut self, token: FencingToken, rule: OwnRule) {
        let Some(held) = self.leases.get(&token).filter(|held| !held.gone) else { return };
        let give_back = Return::because(held.stop.map_or(rule, |stop| stop.reason.rule()));
        self.end_unstarted(token, give_back);
    }

    /// Its process runs since `now`.
    pub fn started(&mut self, now: Mono, token: FencingToken) {
        let Some(held) = self.leases.get_mut(&token).filter(|held| held.phase == Phase::Starting) else {
            return;
        };
        held.phase = match held.stop {
            Some(_) => Phase::Stopping { started: Some(now) },
            None => Phase::Started { at: now },
        };
        self.unsaid.push_back((token, Word::Started));
    }

    /// It saved a checkpoint.
    pub fn checkpointed(&mut self, token: FencingToken) {
        let runs = self.leases.get(&token).is_some_and(|held| match held.phase {
            Phase::Starting | Phase::Started { .. } | Phase::Stopping { .. } => !held.gone,
            Phase::Granted | Phase::Accepted | Phase::Finished { .. } | Phase::Unkillable { .. } => false,
        });
        if runs && self.saved.add(token) && self.link == Link::Up {
            self.unsaid.push_back((token, Word::Checkpoint));
        }
    }

    /// Its end is in the spool: `finished`, its tree may still live; or `returned`, its tree is gone.
    pub fn ended(&mut self, token: FencingToken, job: &str, end: End) {
        self.saved.ended(token);
        // Of an adopted attempt it may stand there already, and then it is said already.
        if self.unstored.insert(token, Unstored { job: job.to_owned(), end }).is_none() {
            self.unsaid.push_back((token, Word::Spooled));
        }
        if let Some(held) = self.leases.get_mut(&token) {
            match (end, held.phase) {
                (End::Returned, _) => held.gone = true,
                (End::Finished, Phase::Unkillable { .. }) => {}
                (End::Finished, phase) => held.phase = Phase::Finished { started: phase.started() },
            }
        }
    }

    /// Nothing is left of its tree.
    pub fn reaped(&mut self, token: FencingToken) {
        if let Some(held) = self.leases.get_mut(&token).filter(|held| !held.gone) {
            held.gone = true;
            self.unsaid.push_back((token, Word::Reaped));
        }
    }

    /// Its tree is still there 60 s after it should be gone. Its slots stay taken.
    pub fn unkillable(&mut self, token: FencingToken) {
        if let Some(held) = self.leases.get_mut(&token) {
            held.phase = Phase::Unkillable { started: held.phase.started() };
        }
    }
}

// What time does, and what the agent decides.
impl Holdings {
    /// Carries out what is due now: starts, expiries of what has not started, the deadline of a drain. To be called
    /// after every other call, and at [`Holdings::next_deadline`].
    pub fn advance(&mut self, now: Mono) {
        self.expire_unstarted(now);
        self.enforce_drains(now);
        if self.link == Link::Up {
            self.start_accepted(now);
        }
    }

    /// When [`Holdings::advance`] has something to do next, if nothing happens before.
    pub fn next_deadline(&self) -> Option<Mono> {
        let waiting = self.leases.values().filter(|held| !held.phase.has_tree() && !held.gone);
        let dues = waiting.flat_map(|held| {
            let may_start = self.link == Link::Up && held.phase == Phase::Accepted && held.accepted_said;
            let start = may_start.then(|| self.starts.earliest(held.slots.keys()));
            [Some(held.start_by()), held.stale_at, start].into_iter().flatten()
        });
        let drains = self.drains().filter(|drain| !drain.enforced).map(|drain| drain.deadline);
        dues.chain(drains).min()
    }

    /// What has to be done now, in order. Empties the list.
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// A new reading of the rules.
    pub fn set_pressure(&mut self, pressure: Arc<Reading>) {
        self.pressure = pressure;
    }

    /// Whether the spool has room for one more end.
    pub fn set_spool_full(&mut self, full: bool) {
        self.spool_full = full;
    }

    /// The agent ends: as [`Holdings::drain`], and nothing that the server says takes it back.
    pub fn leave(&mut self, now: Mono, deadline: Mono) {
        self.leaving = Some(Drain::sooner(self.leaving, deadline));
        self.give_back_unstarted(now);
    }

    /// Stops everything and gives back what has not started.
    pub fn stop_all(&mut self, reason: StopReason, at_once: bool) {
        for token in self.leases.keys().copied().collect::<Vec<_>>() {
            self.stop(token, Stop { reason, at_once });
        }
    }

    /// The highest epoch that any token or Welcome named.
    pub fn max_epoch_seen(&self) -> u64 {
        self.max_epoch_seen
    }

    /// Leases whose tree is not gone, or that may still start.
    pub fn live(&self) -> usize {
        self.leases.values().filter(|held| !held.gone).count()
    }

    /// Whether nothing is held and every report is answered.
    pub fn is_idle(&self) -> bool {
        self.leases.is_empty() && self.unstored.is_empty()
    }

    /// While leases or unanswered reports are held, a reconnect may not take longer than this: a quarter of the
    /// shortest held lease, first leases included.
    pub fn reconnect_within(&self) -> Option<Duration> {
        let counted = self.leases.values().map(|held| held.counted).filter(|counted| !counted.is_zero());
        let leases = counted.min().map(|shortest| shortest / 4);
        let unanswered =
            (!self.unstored.is_empty() || !self.leases.is_empty()).then_some(UNANSWERED_RECONNECT);
        leases.or(unanswered)
    }

    /// How long a pause between two connections may be: no longer than [`Holdings::reconnect_within`], nor, of leases over
    /// two minutes that run, than a quarter of what is left until the first must be given up, but two seconds at least.
    /// So a server that comes back in time is found in time.
    pub fn pause_within(&self, now: Mono) -> Option<Duration> {
        let runs = |held: &&Held| matches!(held.phase, Phase::Starting | Phase::Started { .. });
        let long = self.leases.values().filter(runs).filter(|held| held.counted > LONG_LEASE);
        let left = long.map(|held| held.start_by().since(now)).min();
        let near = left.map(|left| (left / 4).max(LEAST_PAUSE));
        self.reconnect_within().into_iter().chain(near).min()
    }

    pub(super) fn stop(&mut self, token: FencingToken, stop: Stop) {
        let Some(held) = self.leases.get_mut(&token).filter(|held| !held.gone) else { return };
        if !held.phase.has_tree() {
            let give_back = Return::because(stop.reason.rule());
            self.end_unstarted(token, give_back);
            return;
        }
        let reason = held.stop.map_or(stop.reason, |earlier| earlier.reason);
        let stop = Stop { reason, at_once: stop.at_once };
        if held.stop.is_some_and(|earlier| earlier.at_once || !stop.at_once) {
            return;
        }
        held.stop = Some(stop);
        if let Phase::Started { at } = held.phase {
            held.phase = Phase::Stopping { started: Some(at) };
        }
        self.actions.push(Action::Stop { token, stop });
    }

    /// Gives back what has not started, for this node drains.
    pub(super) fn give_back_unstarted(&mut self, now: Mono) {
        let Some(give_back) = self.draining(now) else { return };
        let waiting = self.leases.iter().filter(|(_, held)| !held.gone && !held.phase.has_tree());
        for token in waiting.map(|(&token, _)| token).collect::<Vec<_>>() {
            self.end_unstarted(token, give_back.clone());
        }
    }

    /// What a grant is answered with while this node drains.
    pub(super) fn draining(&self, now: Mono) -> Option<Return> {
        if self.handing_over {
            return Some(Return::because(OwnRule::Draining).retry_after(SOON));
        }
        let deadline = self.drains().map(|drain| drain.deadline).max()?;
        Some(Return::because(OwnRule::Draining).retry_after(deadline.since(now).max(SOON)))
    }

    fn drains(&self) -> impl Iterator<Item = &Drain> {
        self.drain.iter().chain(&self.leaving)
    }

    /// A return counts until a newer generation than the one that it was given in.
    pub(super) fn stamped(&self, give_back: Return) -> Return {
        Return { generation: self.pressure.generation, ..give_back }
    }

    fn end_unstarted(&mut self, token: FencingToken, give_back: Return) {
        let give_back = self.stamped(give_back);
        if let Some(held) = self.leases.get_mut(&token) {
            held.gone = true;
            held.give_back = Some(give_back);
            self.unsaid.push_back((token, Word::Returned));
            self.actions.push(Action::Abandon { token });
        }
    }

    fn expire_unstarted(&mut self, now: Mono) {
        let waiting = self.leases.iter().filter(|(_, held)| !held.gone && !held.phase.has_tree());
        let late: Vec<_> =
            waiting.filter_map(|(&token, held)| too_late(now, held).map(|why| (token, why))).collect();
        for (token, why) in late {
            self.end_unstarted(token, why);
        }
    }

    fn enforce_drains(&mut self, now: Mono) {
        let drains = self.drain.iter_mut().chain(&mut self.leaving);
        let mut is_due = false;
        for drain in drains.filter(|drain| !drain.enforced && drain.deadline <= now) {
            (drain.enforced, is_due) = (true, true);
        }
        if is_due {
            self.stop_all(StopReason::Drained, false);
        }
    }

    fn start_accepted(&mut self, now: Mono) {
        for (&token, held) in &mut self.leases {
            let waits = held.phase == Phase::Accepted && held.accepted_said && !held.gone;
            if waits && self.starts.earliest(held.slots.keys()) <= now {
                held.phase = Phase::Starting;
                self.starts.started(held.slots.keys(), now);
                self.actions.push(Action::Start { token, gone_by: held.gone_by });
            }
        }
    }
}

impl Drain {
    /// A drain by `deadline`; one that is to be over sooner already stays that.
    pub(super) fn sooner(earlier: Option<Self>, deadline: Mono) -> Self {
        match earlier {
            Some(earlier) if earlier.deadline <= deadline => earlier,
            Some(_) | None => Self { deadline, enforced: false },
        }
    }
}

impl StopReason {
    /// The word for it in `returned`.
    pub fn rule(self) -> OwnRule {
        match self {
            Self::NotLive | Self::Cancelled | Self::Unanswered => OwnRule::Revoked,
            Self::Drained => OwnRule::Draining,
            Self::Superseded => OwnRule::Superseded,
        }
    }
}

/// When the tree of a lease must be gone.
pub(super) fn gone_by(anchor: Mono, lease: Duration) -> Mono {
    anchor + lease * GONE_BY_PERCENT / 100
}

pub(super) fn listed(now: Mono, token: FencingToken, held: &Held) -> Listed {
    let elapsed = held.phase.started().map_or(Duration::ZERO, |at| now.since(at));
    Listed { job: held.job.clone(), token, phase: held.phase, elapsed, parked_in: held.parked_in() }
}
