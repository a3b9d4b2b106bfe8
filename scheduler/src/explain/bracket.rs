//! When a job may start, as far as anything is known of it.
//!
//! *Latest* rests on hard time limits. It is said only where a bound follows: the job needs one unit of the slot that it
//! lacks, so that nobody behind it can take a unit while it waits; and no other slot that it needs can run short,
//! whatever starts of what is queued. Then all units of the slot are at work, for those who hold it now and those who
//! come first, until the job starts. A job with an earmark has the earmark's
//! time, unless another job may come by one that goes first. *Likely* and *late* rest on how long
//! the runs of each kind lately took: half of them, and nineteen of twenty. What is not known is absent.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    time::Duration,
};

use super::line::{Asker, Lacking, Others};
use crate::{
    ids::{FencingToken, KindName, SlotName},
    lease::{returns_by, start_window},
    place::earmarks::{Earmark, Holder, gone_by},
    slots::Needs,
    state::{LeaseEntry, State},
    time::{Mono, Now, micros},
    view::Bracket,
};

/// In thousandths: half of the runs, nineteen of twenty.
const LIKELY: u64 = 500;
const LATE: u64 = 950;

const LIMITS_HOLD: &str = "every run is gone 10 s after its hard time limit at the latest";
const FLEET_STAYS: &str = "nodes and capacities stay as they are";

/// Jobs before this one that are followed one by one; what comes first beyond them counts by its sum.
const FOLLOWED: u64 = 1024;

/// Who holds the slot that a job lacks: all of it, or on the nodes that take its grants. Gathered lease by lease.
#[derive(Debug, Clone, Default)]
pub(super) struct Held {
    /// The last lease that was looked at, of a fleet slot.
    pub(super) after: FencingToken,
    /// How long each goes on at the most and by what its kind's runs took, and what it holds.
    limits: Vec<(Duration, u32)>,
    likely: Vec<(Duration, u32)>,
    late: Vec<(Duration, u32)>,
    /// Somebody holds it of whom it is not known when that ends; or whose kind has not run often enough.
    no_limit: bool,
    no_history: bool,
    /// Of each other slot: what they hold of it; of node slots, on the nodes that take grants of the class.
    others: BTreeMap<SlotName, u64>,
}

impl Held {
    /// Takes over one lease that holds some of the slot.
    pub(super) fn add(&mut self, state: &State, now: Now, lacking: &Lacking, entry: &LeaseEntry) {
        let held = &entry.lease.reservation;
        let part = if lacking.of_fleet { &held.fleet } else { &held.node };
        let amount = part.amount(&lacking.slot);
        if amount == 0 {
            return;
        }
        self.hold_beside(&held.fleet);
        match gone_by(entry, now) {
            Some(by) => self.limits.push((by.since(now.mono), amount)),
            None => self.no_limit = true,
        }
        let already = now.mono.since(entry.watch.since);
        // How long one that parks goes on, those that never parked do not tell.
        let is_alike = !entry.watch.loaded && entry.lease.parked.is_none();
        let runs = state.kinds.get(&entry.lease.kind).map(|kind| &kind.runs).filter(|_| is_alike);
        let rest = |permille| Some(runs?.quantile(already, permille)?.saturating_sub(already));
        match (rest(LIKELY), rest(LATE)) {
            (Some(likely), Some(late)) if entry.lease.stage.is_live() => {
                self.likely.push((likely, amount));
                self.late.push((late, amount));
            }
            _ => self.no_history = true,
        }
    }
}

impl Held {
    /// Takes over one lease on a node that takes grants of the class: what it holds there beside the slot of the fleet.
    pub(super) fn add_beside(&mut self, lacking: &Lacking, entry: &LeaseEntry) {
        let held = &entry.lease.reservation;
        if held.fleet.amount(&lacking.slot) > 0 {
            self.hold_beside(&held.node);
        }
    }

    fn hold_beside(&mut self, units: &Needs) {
        for (slot, amount) in units.iter() {
            *self.others.entry(slot.clone()).or_default() += u64::from(amount);
        }
    }
}

/// What there is of the slot that a job lacks, and of its other node slot.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Room {
    pub(super) used: u64,
    pub(super) capacity: u64,
}

/// Everything that a bracket is made of.
pub(super) struct Facts<'a> {
    pub(super) asker: &'a Asker<'a>,
    pub(super) lacking: &'a Lacking,
    pub(super) others: &'a Others,
    pub(super) held: &'a Held,
    /// Of each of its node slots, on the nodes that take grants of its class.
    pub(super) rooms: &'a BTreeMap<SlotName, Room>,
}

impl Facts<'_> {
    /// The times that are known; all absent: none is.
    pub(super) fn bracket(&self) -> Bracket {
        let wall = |after: Duration| self.asker.now.wall.after(after);
        let latest = self.kept_by().or_else(|| self.latest());
        let history = |permille, held: &[(Duration, u32)]| {
            let known = !self.held.no_history;
            let after = known.then(|| self.by_history(permille, held)).flatten()?;
            Some(latest.map_or(after, |latest| after.min(latest)))
        };
        let likely = history(LIKELY, &self.held.likely);
        let late = history(LATE, &self.held.late).filter(|_| likely.is_some());
        let mut assumes: Vec<&'static str> = Vec::new();
        if likely.is_some() {
            assumes.push("runs take as long as those of their kind lately did");
        }
        if latest.is_some() {
            assumes.push(LIMITS_HOLD);
        }
        if likely.is_some() || latest.is_some() {
            assumes.push("nothing that needs its slots is enqueued, comes back or rises above it");
            assumes.push(FLEET_STAYS);
        }
        Bracket {
            earliest: None,
            likely: likely.map(wall),
            late: likely.and(late).map(|late| wall(late.max(likely.unwrap_or_default()))),
            latest: latest.map(wall),
            assumes,
        }
    }

    /// The time of its earmark; none if it has none, or another job may come by one that goes first.
    fn kept_by(&self) -> Option<Duration> {
        let Asker { state, now, job, .. } = self.asker;
        let earmark = state.earmarks.iter().find(|earmark| earmark.job == job.id)?;
        if self.may_wait_for_more() {
            return None;
        }
        let by = earmark.by.since(now.mono);
        // A lease that wants units back comes before all others, whoever had its units kept earlier.
        let is_passed = state.earmarks.iter().any(|other| {
            matches!(other.holder, Holder::Lease(_))
                && other.needs().iter().any(|(slot, _)| earmark.needs().amount(slot) > 0)
        });
        (!self.others.rivals && !is_passed && matches!(earmark.holder, Holder::Class(_))).then_some(by)
    }

    /// Whether it may be kept waiting while its slots are free: by others of its kind, a budget, or tokens of a rate.
    fn may_wait_for_more(&self) -> bool {
        let Asker { state, job, class, .. } = self.asker;
        let Some(entry) = state.kinds.get(&job.kind) else { return true };
        let policy = &entry.kind.policy;
        let by_key = policy.concurrency.is_some() && job.concurrency_key.is_some();
        let is_rated = |slot| state.slots.get(slot).is_some_and(|slot| slot.rate.is_some());
        policy.fifo || by_key || policy.budget.is_some() || class.fleet.iter().any(|(slot, _)| is_rated(slot))
    }

    fn room(&self) -> Room {
        let slot = &self.lacking.slot;
        if self.lacking.of_fleet {
            let count = self.asker.state.fleet.count(slot);
            return Room { used: count.used.into(), capacity: count.capacity.into() };
        }
        self.rooms.get(slot).copied().unwrap_or_default()
    }

    /// By hard limits; none: no bound follows.
    fn latest(&self) -> Option<Duration> {
        let state = self.asker.state;
        if self.may_wait_for_more() {
            return None;
        }
        if self.held.no_limit || self.asker.takes(self.lacking) != 1 || !self.nothing_else_runs_short() {
            return None;
        }
        // Units that are kept are not at work, unless what they are kept for lacks the same slot and no other.
        if self.others.may_idle || state.earmarks.iter().any(|earmark| self.idles(earmark)) {
            return None;
        }
        let mut ahead = Vec::new();
        for (kind, count, most) in self.ahead() {
            ahead.push((count, most, run_limit(state, kind)?));
        }
        let room = self.room();
        let by_sum = by_sum(room, &self.held.limits, &ahead)?;
        // In whatever order those before it start, with each as long as the longest of them nothing comes later. That
        // holds while each takes one unit: a larger one could be passed by.
        let longest = ahead.iter().map(|(.., run)| *run).max().unwrap_or_default();
        let count = ahead.iter().map(|(count, ..)| count).sum::<u64>();
        if count > FOLLOWED || ahead.iter().any(|(_, most, _)| *most > 1) {
            return Some(by_sum);
        }
        let followed = follow(room, &self.held.limits, &[(count, 1, longest)], 1);
        Some(followed.map_or(by_sum, |followed| followed.min(by_sum)))
    }

    /// Whether units that this job needs may be kept and not be at work.
    fn idles(&self, earmark: &Earmark) -> bool {
        let needs = &self.asker.class.key.needs;
        let Holder::Class(id) = earmark.holder else { return true };
        let shares = earmark.needs().iter().any(|(slot, _)| needs.amount(slot) > 0);
        let class = self.asker.state.classes.get(id);
        shares && !class.is_some_and(|class| self.asker.needs_cover(class))
    }

    /// By how long runs took lately; none: that is not known of all who come first.
    fn by_history(&self, permille: u64, held: &[(Duration, u32)]) -> Option<Duration> {
        let state = self.asker.state;
        let mut ahead = Vec::new();
        for (kind, count, most) in self.ahead() {
            let run = state.kinds.get(kind)?.runs.quantile(Duration::ZERO, permille)?;
            ahead.push((count, most, run));
        }
        follow(self.room(), held, &ahead, self.asker.takes(self.lacking))
    }

    /// Who comes first: kinds, how many of each, and what the largest takes.
    fn ahead(&self) -> impl Iterator<Item = (&KindName, u64, u32)> {
        let own = (&self.asker.class.key.kind, self.asker.may_come_first(), self.asker.takes(self.lacking));
        let others = self.others.runs.iter().map(|(kind, (count, most))| (kind, *count, *most));
        std::iter::once(own).chain(others).filter(|(_, count, _)| *count > 0)
    }

    /// Whether each other slot that it needs has room for all that can ever be at work beside: those who hold or will
    /// hold both, of which there are as many as the slot that it lacks has units, and all others.
    fn nothing_else_runs_short(&self) -> bool {
        let both_at_once = self.room().capacity;
        let class = self.asker.class;
        let needs = self.asker.other_needs(self.lacking);
        // Of two slots of one node each may be free on another node.
        let node_slots = class.node.iter().filter(|(slot, _)| **slot != self.lacking.slot).count();
        if node_slots > usize::from(self.lacking.of_fleet) {
            return false;
        }
        needs.iter().all(|(slot, amount)| {
            let of_node = class.node.amount(slot) > 0;
            let room = if of_node {
                self.rooms.get(slot).copied().unwrap_or_default()
            } else {
                let count = self.asker.state.fleet.count(slot);
                Room { used: count.used.into(), capacity: count.capacity.into() }
            };
            let most = self.others.together.get(slot).copied().unwrap_or(0).max(amount);
            if of_node && most > 1 {
                return false; // One unit here and one there are no two.
            }
            let held = self.held.others.get(slot).copied().unwrap_or(0);
            let apart = room.used.saturating_sub(held) + self.others.apart.get(slot).copied().unwrap_or(0);
            apart.saturating_add(both_at_once.saturating_mul(most.into())) <= room.capacity
        })
    }
}

/// How long a job of a kind holds what it takes if it runs to its limit.
fn run_limit(state: &State, kind: &KindName) -> Option<Duration> {
    let policy = &state.kinds.get(kind)?.kind.policy;
    Some(returns_by(Mono(0).after(start_window(policy.lease)), policy.hard_time_limit).since(Mono(0)))
}

/// All units are at work until the job starts, so it starts when that work is done at the latest.
fn by_sum(room: Room, held: &[(Duration, u32)], ahead: &[(u64, u32, Duration)]) -> Option<Duration> {
    let held = held.iter().map(|(rest, units)| u128::from(micros(*rest)) * u128::from(*units));
    let ahead = ahead
        .iter()
        .map(|(count, units, run)| u128::from(*count) * u128::from(*units) * u128::from(micros(*run)));
    let work: u128 = held.chain(ahead).sum();
    let after = work.div_ceil(u128::from(room.capacity).max(1));
    (room.capacity > 0).then(|| Duration::from_micros(u64::try_from(after).unwrap_or(u64::MAX)))
}

/// Starts one after the other: those ahead, then the job. When it starts; none: never.
fn follow(
    room: Room,
    held: &[(Duration, u32)],
    ahead: &[(u64, u32, Duration)],
    needed: u32,
) -> Option<Duration> {
    let signed = |units: u64| i128::from(units);
    let mut free = signed(room.capacity) - signed(room.used);
    let mut returns: BinaryHeap<Reverse<(Duration, u32)>> = held.iter().copied().map(Reverse).collect();
    let mut at = Duration::ZERO;
    let mut take = |units: u32, run: Duration| -> Option<Duration> {
        while free < i128::from(units) {
            let Reverse((time, returned)) = returns.pop()?;
            at = at.max(time);
            free += i128::from(returned);
        }
        free -= i128::from(units);
        returns.push(Reverse((at.saturating_add(run), units)));
        Some(at)
    };
    let mut followed = 0;
    let mut rest: Vec<(u64, u32, Duration)> = Vec::new();
    for (count, units, run) in ahead {
        let now = (*count).min(FOLLOWED - followed);
        for _ in 0..now {
            take(*units, *run)?;
        }
        followed += now;
        if now < *count {
            rest.push((*count - now, *units, *run));
        }
    }
    let start = take(needed, Duration::ZERO)?;
    if rest.is_empty() {
        return Some(start);
    }
    let more = by_sum(room, &[], &rest)?;
    Some(start.saturating_add(more))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minutes(minutes: u64) -> Duration {
        Duration::from_secs(60 * minutes)
    }

    #[test]
    fn a_job_starts_when_enough_units_are_back_after_those_before_it() {
        let room = Room { used: 3, capacity: 3 };
        let held = [(minutes(30), 1), (minutes(10), 1), (minutes(20), 1)];
        assert_eq!(follow(room, &held, &[], 1), Some(minutes(10)));
        assert_eq!(follow(room, &held, &[], 2), Some(minutes(20)));
        assert_eq!(follow(room, &held, &[(1, 1, minutes(5))], 1), Some(minutes(15)));
        assert_eq!(follow(room, &held, &[(1, 2, minutes(5))], 1), Some(minutes(25)));
        assert_eq!(follow(room, &held, &[], 4), None);
        let cut = Room { used: 3, capacity: 1 };
        assert_eq!(follow(cut, &held, &[], 1), Some(minutes(30)), "two return what there is not any more");
    }

    #[test]
    fn far_back_in_line_the_sum_of_work_counts() {
        let room = Room { used: 2, capacity: 2 };
        let held = [(minutes(1), 1), (minutes(1), 1)];
        let start = follow(room, &held, &[(1_000_000, 1, minutes(1))], 1).unwrap();
        assert!(start >= minutes(500_000) && start <= minutes(500_010), "{start:?}");
        assert_eq!(by_sum(room, &held, &[(1_000_000, 1, minutes(1))]), Some(minutes(500_001)));
        assert_eq!(by_sum(Room::default(), &held, &[]), None);
    }
}
