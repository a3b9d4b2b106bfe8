//! The one fit function: whether a class may start on a node now, and if not, why not. Every path uses it, explain too.

use std::collections::BTreeSet;

use crate::{
    deferral::Deferral,
    ids::{NodeName, SlotName},
    job::{Job, Outcome},
    node::Group,
    place::{ClassId, classes::Class},
    refusal::ImpossibleNeed,
    retry::hash,
    slots::{Needs, Scope},
    state::{NodeEntry, State, nodes::PRESSURE_FRESH},
    time::Now,
};

/// What the fleet says: pauses, and its slots.
pub(crate) fn of_fleet(state: &State, class: &Class) -> Result<(), Deferral> {
    if state.kinds.get(&class.key.kind).is_some_and(|entry| entry.kind.paused.is_some()) {
        return Err(Deferral::KindPaused);
    }
    for (name, _) in class.key.needs.iter() {
        if let Some(pause) = state.slots.get(name).and_then(|slot| slot.paused) {
            return Err(Deferral::SlotPaused { slot: name.clone(), until: pause.until });
        }
    }
    state.fleet.check(&class.fleet, |_| None).map_err(|short| Deferral::SlotBusy {
        slot: short.slot,
        node: None,
        used: short.used,
        capacity: short.capacity,
    })
}

/// Whether a node runs this kind, with these labels.
pub(crate) fn matches(class: &Class, node: &NodeEntry) -> bool {
    node.node.kinds.contains(&class.key.kind)
        && class.key.selector.iter().all(|(label, value)| node.node.labels.get(label) == Some(value))
}

/// Whether an empty node could ever hold it.
pub(crate) fn could_hold(class: &Class, node: &NodeEntry) -> bool {
    class.node.iter().all(|(slot, amount)| node.ledger.count(slot).capacity >= amount)
}

/// What a node says. The checks stand in this order, and a later failure is nearer to a fit: see [`nearness`].
pub(crate) fn of_node(
    state: &State,
    now: Now,
    id: ClassId,
    class: &Class,
    node: &NodeEntry,
) -> Result<(), Deferral> {
    let name = || node.node.name.clone();
    if !matches(class, node) {
        return Err(Deferral::NoMatchingNode { selector: class.key.selector_map() });
    }
    if let Some((slot, asked)) =
        class.node.iter().find(|(slot, amount)| node.ledger.count(slot).capacity < *amount)
    {
        // As far as this node goes. A larger one is nearer to a fit, whatever holds it.
        let most = node.ledger.count(slot).capacity;
        let impossible = Deferral::Impossible { slot: slot.clone(), asked, most };
        return Err(if state.warm { impossible } else { Deferral::WarmingUp });
    }
    if node.node.draining.is_some() {
        return Err(Deferral::Draining { node: name() });
    }
    if node.node.cordoned {
        return Err(Deferral::NodesCordoned { node: name() });
    }
    let Some(live) = &node.live else {
        return Err(if state.warm { Deferral::Suspect { node: name() } } else { Deferral::WarmingUp });
    };
    if live.leaving {
        return Err(Deferral::Draining { node: name() });
    }
    if live.suspect || now.mono.since(live.pressure_at) > PRESSURE_FRESH {
        return Err(Deferral::Suspect { node: name() });
    }
    let closes = |group: &Group| match group {
        Group::All => true,
        Group::Slot(slot) => class.key.needs.amount(slot) > 0,
        Group::Kind(kind) => *kind == class.key.kind,
    };
    if let Some(closed) = live.pressure.closed.iter().find(|closed| closes(&closed.group)) {
        return Err(Deferral::NodePressure {
            node: name(),
            rule: closed.rule.clone(),
            observed: closed.observed,
            threshold: closed.threshold,
        });
    }
    if let Some(mask) = node.masks.get(&id) {
        return Err(Deferral::Masked { node: name(), rule: mask.rule.clone() });
    }
    if let Err(short) = node.ledger.check(&class.node, |slot| node.cap(slot)) {
        let (used, capacity) = (short.used, short.capacity);
        return Err(Deferral::SlotBusy { slot: short.slot, node: Some(name()), used, capacity });
    }
    if live.blocked || live.hold_until_seen.is_some() || live.is_full() {
        let grants = u32::try_from(live.unanswered.len()).unwrap_or(u32::MAX);
        return Err(Deferral::Unanswered { node: name(), grants });
    }
    Ok(())
}

/// The most that any node ever registered has of a slot.
pub(crate) fn most_of(state: &State, slot: &SlotName) -> u32 {
    state.nodes.values().map(|node| node.ledger.count(slot).capacity).max().unwrap_or(0)
}

/// Needs beyond the fleet, or beyond every node ever registered when there is one.
pub(crate) fn impossible(state: &State, needs: &Needs) -> Vec<ImpossibleNeed> {
    let short = |(slot, asked): (&SlotName, u32)| {
        let most = match state.slots.get(slot).map(|slot| slot.scope) {
            Some(Scope::Fleet { capacity }) => capacity,
            Some(Scope::Node) if !state.nodes.is_empty() => most_of(state, slot),
            Some(Scope::Node) | None => return None,
        };
        (most < asked).then(|| ImpossibleNeed { slot: slot.clone(), asked, most })
    };
    needs.iter().filter_map(short).collect()
}

/// Of the nodes on which the head of a class fits, the best.
pub(crate) fn best<'a>(
    state: &State,
    now: Now,
    id: ClassId,
    class: &Class,
    job: &Job,
    nodes: impl Iterator<Item = &'a NodeName>,
) -> Option<NodeName> {
    let fits = |name: &&NodeName| {
        let node = state.nodes.get(*name)?;
        of_node(state, now, id, class, node).ok()?;
        Some((score(class, job, node), (*name).clone()))
    };
    nodes.filter_map(|name| fits(&name)).min().map(|(_, name)| name)
}

/// Lower is better: where a resume asked to be; not where this job just failed; few kinds of free slots that it does not need; little pressure;
/// little left over (pack); then a hash that spreads ties.
fn score(class: &Class, job: &Job, node: &NodeEntry) -> (bool, bool, u32, u8, u32, u64) {
    let here = job.last_node.as_ref() == Some(&node.node.name);
    let elsewhere = !here && job.detached.as_ref().is_some_and(|detached| detached.same_node);
    let failed_here = job.last_node.as_ref() == Some(&node.node.name)
        && matches!(job.last_outcome, Some(Outcome::Failed | Outcome::TimedOut | Outcome::Lost));
    let weight = node.live.as_ref().map_or(1, |live| live.pressure.weight);
    let (mut idle, mut left) = (0, 0);
    for (slot, count) in node.ledger.iter() {
        match class.node.amount(slot) {
            0 => idle += u32::from(count.free() > 0),
            amount => left += count.free().saturating_sub(amount),
        }
    }
    let name = node
        .node
        .name
        .as_str()
        .bytes()
        .fold(0u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
    (elsewhere, failed_here, idle, weight, left, hash(job.id, name))
}

/// Why a class fits nowhere: what the fleet says, else what the node nearest to a fit says.
pub(crate) fn why_not(state: &State, now: Now, id: ClassId, class: &Class) -> Deferral {
    if let Err(reason) = of_fleet(state, class) {
        return reason;
    }
    let reasons = state.nodes.values().filter_map(|node| of_node(state, now, id, class, node).err());
    let nearest = reasons.max_by_key(nearness);
    match nearest {
        Some(Deferral::NoMatchingNode { .. }) | None if !state.warm => Deferral::WarmingUp,
        Some(reason) => reason,
        None => Deferral::NoMatchingNode { selector: class.key.selector_map() },
    }
}

/// Whether what these nodes say may change the reason that is known: it was one of them that gave it, or one is nearer
/// to a fit.
pub(crate) fn tells_more(
    state: &State,
    now: Now,
    id: ClassId,
    class: &Class,
    nodes: &BTreeSet<NodeName>,
    known: &Deferral,
) -> bool {
    let said = nodes.iter().filter_map(|name| of_node(state, now, id, class, state.nodes.get(name)?).err());
    known.node().is_some_and(|node| nodes.contains(node))
        || said.map(|reason| nearness(&reason)).max().is_some_and(|nearest| nearest > nearness(known))
}

/// How near to a fit a node was that gave this reason: in how many steps of [`of_node`] it passed.
/// Of nodes that are too small the largest is nearest.
fn nearness(reason: &Deferral) -> (u8, u32) {
    let steps = match reason {
        Deferral::Impossible { most, .. } => return (2, *most),
        Deferral::NoMatchingNode { .. } => 0,
        Deferral::WarmingUp => 1,
        Deferral::Draining { .. } => 3,
        Deferral::NodesCordoned { .. } => 4,
        Deferral::Suspect { .. } => 5,
        Deferral::NodePressure { .. } => 6,
        Deferral::Masked { .. } => 7,
        Deferral::SlotBusy { .. } => 8,
        Deferral::Unanswered { .. } => 9,
        Deferral::Behind { .. }
        | Deferral::KindPaused
        | Deferral::SlotPaused { .. }
        | Deferral::NotReaped { .. }
        | Deferral::Broken
        | Deferral::Backoff { .. }
        | Deferral::RunAt { .. }
        | Deferral::WaitingChildren { .. }
        | Deferral::Ready => 0,
    };
    (steps, 0)
}
