//! Slots that ancestors keep while they wait, seen from a child: one that could never start beside them is refused at
//! its enqueue.

use std::collections::BTreeMap;

use crate::{
    ids::{JobId, NodeName, SlotName},
    job::Job,
    lease::Stage,
    place::{
        classes::{Class, ClassKey},
        fit,
    },
    slots::Needs,
    state::State,
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
        let Some(deadlock) = short(&class.node, held, capacity) else { return None };
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
