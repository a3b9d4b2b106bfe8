//! Slots that ancestors keep while they wait, seen from a child: one that could never start beside them is refused at
//! its enqueue. And keys, which whoever is parked holds: if one that it waits for needs its key, it is told to detach.

use std::collections::BTreeMap;

use crate::{
    ids::{FencingToken, JobId, NodeName, SlotName},
    job::Job,
    lease::Stage,
    place::{
        classes::{Class, ClassKey},
        fit,
        keyed::KeyScope,
    },
    slots::Needs,
    state::{LeaseEntry, Stand, State},
};

/// What a child would wait for for ever.
pub(crate) struct Deadlock {
    pub(crate) slot: SlotName,
    pub(crate) asked: u32,
    /// The nearest ancestor that keeps of it.
    pub(crate) holder: JobId,
}

/// What the ancestors of a job keep while they wait, the nearest first. Who holds no lease keeps nothing.
struct Held {
    holder: JobId,
    node: NodeName,
    needs: (Needs, Needs),
}

/// Whether a child could never start while all its ancestors wait for it; a node that could never hold it does not count.
pub(crate) fn deadlock(state: &State, child: &Job, key: &ClassKey) -> Option<Deadlock> {
    let held = ancestors(state, child);
    if held.is_empty() {
        return None;
    }
    let class = Class::new(key.clone(), &state.slots);
    let of_fleet: Vec<(&Needs, JobId)> = held.iter().map(|held| (&held.needs.1, held.holder)).collect();
    if let Some(short) = short(&class.fleet, &of_fleet, |slot| state.fleet.count(slot).capacity) {
        return Some(short);
    }
    let mut by_node: BTreeMap<&NodeName, Vec<(&Needs, JobId)>> = BTreeMap::new();
    for held in &held {
        by_node.entry(&held.node).or_default().push((&held.needs.0, held.holder));
    }
    let mut found = None;
    for (name, node) in state.nodes.iter() {
        if !fit::matches(&class, node) || !fit::could_hold(&class, node) {
            continue;
        }
        let held = by_node.get(name).map(Vec::as_slice).unwrap_or_default();
        let capacity = |slot: &SlotName| node.ledger.count(slot).capacity;
        let deadlock = short(&class.node, held, capacity)?;
        found.get_or_insert(deadlock);
    }
    found
}

fn ancestors(state: &State, child: &Job) -> Vec<Held> {
    let mut all = Vec::new();
    let mut next = child.parent;
    // The tree guards bound how many there are.
    while let Some(entry) = next.and_then(|id| state.jobs.get(&id)) {
        next = entry.job.parent;
        let lease = state.lease_of.get(&entry.job.id).and_then(|token| state.leases.get(token));
        let kind = state.kinds.get(&entry.job.kind);
        let lease = lease.filter(|entry| entry.lease.stage == Stage::Granted);
        let (Some(lease), Some(kind)) = (lease, kind) else { continue };
        let keep = |needs: &Needs| {
            let kept = needs.iter().filter(|(slot, _)| kind.kind.policy.keep_on_wait.contains(*slot));
            Needs::new(kept.map(|(slot, amount)| (slot.clone(), amount)))
        };
        let held = &lease.lease.reservation;
        let needs = (keep(&held.node), keep(&held.fleet));
        all.push(Held { holder: entry.job.id, node: lease.lease.node.clone(), needs });
    }
    all
}

/// The first need for which too little is left beside what is kept.
fn short(needs: &Needs, held: &[(&Needs, JobId)], capacity: impl Fn(&SlotName) -> u32) -> Option<Deadlock> {
    needs.iter().find_map(|(slot, asked)| {
        let kept = held.iter().map(|(needs, _)| needs.amount(slot)).fold(0, u32::saturating_add);
        let (_, holder) = held.iter().find(|(needs, _)| needs.amount(slot) > 0)?;
        let left = capacity(slot).saturating_sub(kept);
        (left < asked).then(|| Deadlock { slot: slot.clone(), asked, holder: *holder })
    })
}

/// Parked leases that hold a key for which somebody waits whom a parked lease waits for, while nobody who holds it gets
/// on: of each such key the youngest. When it has detached the key is free.
pub(crate) fn in_the_way(state: &State) -> Vec<FencingToken> {
    let mut parked: BTreeMap<KeyScope, Vec<&LeaseEntry>> = BTreeMap::new();
    for entry in state.parked.iter().filter_map(|token| state.leases.get(token)) {
        if let Some(key) = entry.lease.concurrency_key.clone() {
            let scope = (entry.lease.tenant.clone(), entry.lease.kind.clone(), key);
            parked.entry(scope).or_default().push(entry);
        }
    }
    let is_stuck = |(scope, holders): &(KeyScope, Vec<&LeaseEntry>)| {
        let all = state.key_uses.get(scope).is_some_and(|of| of.held as usize == holders.len());
        all && !state.is_key_open(scope)
            && holders.iter().all(|entry| waits_on(state, entry))
            && is_waited_for(state, scope)
    };
    let stuck = parked.into_iter().filter(is_stuck);
    stuck.filter_map(|(_, holders)| holders.iter().map(|entry| entry.lease.token).max()).collect()
}

/// Whether nothing but its children ends the wait of a parked lease.
fn waits_on(state: &State, entry: &LeaseEntry) -> bool {
    let watch = &entry.watch;
    let is_broken = state.jobs.get(&entry.lease.job).is_some_and(|entry| entry.stand == Stand::Broken);
    watch.wants.is_none() && watch.revoked.is_none() && !watch.kept && !is_broken
}

/// Whether a parked lease waits for a job that waits for a key; in a kind in strict order any job may be behind that one.
fn is_waited_for(state: &State, scope: &KeyScope) -> bool {
    let classes = state.key_uses.get(scope).into_iter().flat_map(|of| &of.classes);
    let ready = classes.filter_map(|class| state.classes.get(*class)?.ready.as_ref());
    let mut waiting = ready.flat_map(|ready| ready.with_key(&scope.2));
    if let Some(line) = state.line_of(&scope.1) {
        return waiting.next().is_some() && line.iter().any(|id| is_awaited_by_parked(state, id));
    }
    waiting.any(|id| is_awaited_by_parked(state, id))
}

/// Whether a parked lease waits for a job, or for one that waits for it.
fn is_awaited_by_parked(state: &State, id: JobId) -> bool {
    let mut child = id;
    while let Some(parent) = state.jobs.get(&child).and_then(|entry| entry.job.parent) {
        let Some(wait) = state.child_wait(parent) else { return false };
        if !wait.children.iter().any(|known| known.job == child && known.end.is_none()) {
            return false;
        }
        if state.parked_wait(parent).is_some() {
            return true;
        }
        child = parent;
    }
    false
}
