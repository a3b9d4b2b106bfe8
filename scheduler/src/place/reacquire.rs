//! Parked leases that want back what they gave: before everything else, on their node, all or nothing.
//!
//! What each waits for is kept for it by an earmark of lane 0, the deepest job first, then the earliest, so that nobody
//! younger takes a part of it. Nothing that runs is stopped for it. Who gets back what it gave starts nothing: it kept
//! its concurrency key, takes no tokens of a rate, and no budget stops it. What an operator paused or a provider throttled
//! it does not take back either. How much parked leases may *keep* is bounded, so that
//! the largest need of any kind of every kept slot goes round among those who are not parked: children can always start.

use crate::{
    deferral::Deferral,
    ids::{FencingToken, JobId, NodeName, SlotName},
    lease::{Lease, returns_by},
    place::earmarks::{Asks, Earmark, Holder, Rank},
    slots::{Needs, Reservation, Slot},
    state::{LeaseEntry, State},
    time::{Mono, Now},
};

/// The lane before all others.
const LANE: u8 = 0;

/// Why a parked lease does not get back what it gave; none: it gets it.
pub(crate) fn short(state: &State, lease: &Lease, yielded: &Reservation) -> Option<Deferral> {
    for (slot, _) in yielded.node.iter().chain(yielded.fleet.iter()) {
        if let Some(pause) = state.slots.get(slot).and_then(Slot::kept) {
            return Some(Deferral::SlotPaused { slot: slot.clone(), until: pause.until });
        }
    }
    let asks = Asks { holder: Holder::Lease(lease.token), returns_by: Mono(u64::MAX) };
    if !yielded.node.is_empty() {
        let node = state.nodes.get(&lease.node)?;
        if let Err(short) = node.ledger.check(&yielded.node, |slot| node.cap(slot)) {
            let (slot, used, capacity) = (short.slot, short.used, short.capacity);
            return Some(Deferral::SlotBusy { slot, node: Some(lease.node.clone()), used, capacity });
        }
        let kept = state.earmarks.short(&asks, Some(&lease.node), &yielded.node, |slot| node.free(slot));
        if let Some((slot, job)) = kept {
            return Some(Deferral::Earmarked { slot, node: Some(lease.node.clone()), job: Some(job) });
        }
    }
    if let Err(short) = state.fleet.check(&yielded.fleet, |_| None) {
        let (slot, used, capacity) = (short.slot, short.used, short.capacity);
        return Some(Deferral::SlotBusy { slot, node: None, used, capacity });
    }
    let free = |slot: &SlotName| state.fleet.count(slot).free();
    let (slot, job) = state.earmarks.short(&asks, None, &yielded.fleet, free)?;
    Some(Deferral::Earmarked { slot, node: None, job: Some(job) })
}

/// Why a job that has nothing to wait for any more is still parked.
pub(crate) fn wanting(state: &State, id: JobId) -> Option<Deferral> {
    let entry = state.lease_of.get(&id).and_then(|token| state.leases.get(token))?;
    let parked = entry.lease.waits().filter(|_| entry.watch.wants.is_some())?;
    Some(short(state, &entry.lease, &parked.yielded).unwrap_or(Deferral::Ready))
}

/// What is kept for a lease that wants back what it gave; none: it gave nothing.
pub(crate) fn earmark(state: &State, now: Now, token: FencingToken) -> Option<Earmark> {
    let entry = state.leases.get(&token)?;
    let units = entry.lease.waits().map(|parked| parked.yielded.clone()).filter(|units| !units.is_empty())?;
    Some(Earmark {
        holder: Holder::Lease(token),
        job: entry.lease.job,
        rank: rank(state, entry)?,
        node: entry.lease.node.clone(),
        units,
        by: now.mono,
        since: entry.watch.wants.unwrap_or(now.mono),
        until: returns_by(now.mono, entry.watch.hard_limit),
    })
}

/// Deeper first, then earlier.
pub(crate) fn rank(state: &State, entry: &LeaseEntry) -> Option<Rank> {
    let job = state.job(entry.lease.job)?;
    Some(Rank { lane: LANE, band: u8::MAX - job.depth, sequence: job.sequence })
}

/// Where units of a slot are kept by parked leases: on a node, or in the fleet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kept {
    pub(crate) node: Option<NodeName>,
    pub(crate) slot: SlotName,
}

/// How many units of a slot parked leases may keep: all but the largest need of it, so that any job may start.
pub(crate) fn may_keep(state: &State, kept: &Kept) -> u32 {
    let capacity = match &kept.node {
        Some(node) => state.nodes.get(node).map_or(0, |node| node.ledger.count(&kept.slot).capacity),
        None => state.fleet.count(&kept.slot).capacity,
    };
    let of_kinds = state.kinds.values().map(|entry| entry.kind.policy.needs.amount(&kept.slot)).max();
    let of_queue = state.classes.iter().map(|(_, class)| class.key.needs.amount(&kept.slot)).max();
    capacity.saturating_sub(of_kinds.max(of_queue).unwrap_or(0))
}

/// What parked leases keep of a slot.
pub(crate) fn keeps(state: &State, kept: &Kept) -> u32 {
    let parked = state.parked.iter().filter_map(|token| state.leases.get(token));
    parked.map(|entry| amount(&entry.lease, kept)).fold(0, u32::saturating_add)
}

/// What a lease holds there.
pub(crate) fn amount(lease: &Lease, kept: &Kept) -> u32 {
    match &kept.node {
        Some(node) if *node == lease.node => lease.reservation.node.amount(&kept.slot),
        Some(_) => 0,
        None => lease.reservation.fleet.amount(&kept.slot),
    }
}

/// The places of what a lease holds, or would.
pub(crate) fn places<'a>(
    node: &'a NodeName,
    held: &'a Reservation,
) -> impl Iterator<Item = (Kept, u32)> + 'a {
    let of = |needs: &'a Needs, node: Option<&'a NodeName>| {
        needs.iter().map(move |(slot, amount)| (Kept { node: node.cloned(), slot: slot.clone() }, amount))
    };
    of(&held.node, Some(node)).chain(of(&held.fleet, None))
}
