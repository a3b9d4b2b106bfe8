//! The one fit function: whether a class may start on a node now, and if not, why not. Every path uses it, explain too.

use std::time::Duration;

use crate::{
    deferral::Deferral,
    ids::{NodeName, SlotName},
    job::Job,
    node::{Group, Node},
    place::{
        ClassId,
        backoff::Backoff,
        classes::{Class, ClassKey},
        earmarks::Asks,
        score::{Score, Scorer},
    },
    refusal::ImpossibleNeed,
    retry::hash,
    slots::{Needs, Scope, Slot},
    state::{Live, NodeEntry, State, nodes::PRESSURE_FRESH},
    time::Now,
};

/// What the fleet says: pauses, budgets, whose turn it is, keys, its slots with what is kept of them for others, and their
/// rates.
pub(crate) fn of_fleet(state: &State, now: Now, class: &Class, asks: Asks) -> Result<(), Deferral> {
    if let Some(reason) = may_not_start(state, now, class) {
        return Err(reason);
    }
    state.fleet.check(&class.fleet, |_| None).map_err(|short| Deferral::SlotBusy {
        slot: short.slot,
        node: None,
        used: short.used,
        capacity: short.capacity,
    })?;
    let free = |slot: &SlotName| state.fleet.count(slot).free();
    match state.earmarks.short(&asks, None, &class.fleet, free) {
        Some((slot, job)) => Err(Deferral::Earmarked { slot, node: None, job: Some(job) }),
        None => rates(state, now, class),
    }
}

/// What is spent of the rates of its slots. They come last: who waits for a unit needs no token yet.
fn rates(state: &State, now: Now, class: &Class) -> Result<(), Deferral> {
    for (slot, amount) in class.fleet.iter() {
        let wait = state.token_wait(slot, amount, now);
        if wait != Some(Duration::ZERO) {
            let until = wait.map(|wait| now.wall.after(wait));
            return Err(Deferral::RateLimit { slot: slot.clone(), until });
        }
    }
    Ok(())
}

/// Why nothing of a class may start, whatever is free: it is paused, it is not its turn, or its keys are at their limit.
pub(crate) fn may_not_start(state: &State, now: Now, class: &Class) -> Option<Deferral> {
    in_order(state, now, class, || state.not_its_turn(class), || state.key_blocks(class))
}

/// The same of one job of the class. It may be behind in line, or have a key at its limit, while others of it start.
pub(crate) fn job_may_not_start(state: &State, now: Now, class: &Class, job: &Job) -> Option<Deferral> {
    in_order(state, now, class, || state.behind_in_line(job), || state.key_reason(job))
}

/// What people decided comes before what other jobs do.
fn in_order(
    state: &State,
    now: Now,
    class: &Class,
    turn: impl FnOnce() -> Option<Deferral>,
    key: impl FnOnce() -> Option<Deferral>,
) -> Option<Deferral> {
    paused(state, now, class).or_else(turn).or_else(key)
}

/// Whether an operator paused its kind or a slot that it needs, its kind's budget is spent, or a provider wants no more
/// of a slot.
pub(crate) fn paused(state: &State, now: Now, class: &Class) -> Option<Deferral> {
    let kind = &state.kinds.get(&class.key.kind)?.kind;
    if kind.paused.is_some() {
        return Some(Deferral::KindPaused);
    }
    if let Some((counter, until)) = kind.exhausted(now.wall) {
        return Some(Deferral::Budget { counter, until });
    }
    class.key.needs.iter().find_map(|(name, _)| {
        let pause = state.slots.get(name).and_then(Slot::kept)?;
        Some(Deferral::SlotPaused { slot: name.clone(), until: pause.until })
    })
}

/// Whether it needs more of a fleet slot than there is, or than its rate ever lets start at once.
pub(crate) fn beyond_fleet(state: &State, class: &Class) -> bool {
    class
        .fleet
        .iter()
        .any(|(slot, amount)| state.fleet.count(slot).capacity.min(burst_of(state, slot)) < amount)
}

/// Whether a node runs this kind, and its labels are what is asked for.
pub(crate) fn matches(class: &Class, node: &NodeEntry) -> bool {
    suits(&class.key, &node.node)
}

/// As [`matches`]. Of the node it reads what makes its type (`place/index/types.rs`), and nothing else.
pub(crate) fn suits(key: &ClassKey, node: &Node) -> bool {
    node.kinds.contains(&key.kind) && key.selector.matches(node)
}

/// Whether an empty node could ever hold it.
pub(crate) fn could_hold(class: &Class, node: &NodeEntry) -> bool {
    class.node.iter().all(|(slot, amount)| node.ledger.count(slot).capacity >= amount)
}

/// What a node says. The checks stand in this order, those of [`open`] first, and a later failure is nearer to a fit: see
/// [`nearness`].
pub(crate) fn of_node(
    state: &State,
    now: Now,
    id: ClassId,
    class: &Class,
    asks: Asks,
    node: &NodeEntry,
) -> Result<(), Deferral> {
    let live = open(state, now, id, class, node)?;
    let name = || node.node.name.clone();
    if let Err(short) = node.ledger.check(&class.node, |slot| node.cap(slot)) {
        let (used, capacity) = (short.used, short.capacity);
        return Err(Deferral::SlotBusy { slot: short.slot, node: Some(name()), used, capacity });
    }
    let short = state.earmarks.short(&asks, Some(&node.node.name), &class.node, |slot| node.free(slot));
    if let Some((slot, job)) = short {
        return Err(Deferral::Earmarked { slot, node: Some(name()), job: Some(job) });
    }
    if !live.takes_a_grant() {
        let grants = u32::try_from(live.unanswered.len()).unwrap_or(u32::MAX);
        return Err(Deferral::Unanswered { node: name(), grants });
    }
    Ok(())
}

/// Whether a node would take a class if all of its units were free.
pub(crate) fn open<'a>(
    state: &State,
    now: Now,
    id: ClassId,
    class: &Class,
    node: &'a NodeEntry,
) -> Result<&'a Live, Deferral> {
    let name = || node.node.name.clone();
    if !matches(class, node) {
        return Err(Deferral::NoMatchingNode { selector: class.key.selector.clone() });
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
    if class.key.inputs && !live.inputs {
        return Err(Deferral::OldAgent { node: name() });
    }
    if let Some(until) = node.backoffs.get(&class.key.kind).and_then(Backoff::until) {
        let until = now.wall.after(until.since(now.mono));
        return Err(Deferral::NodeBackoff { node: name(), until });
    }
    if let Some(mask) = node.masks.get(&id) {
        return Err(Deferral::Masked { node: name(), rule: mask.rule.clone() });
    }
    Ok(live)
}

/// The most that any node ever registered has of a slot.
pub(crate) fn most_of(state: &State, slot: &SlotName) -> u32 {
    state.index.most_of(slot).unwrap_or_else(|| {
        state.nodes.values().map(|node| node.ledger.count(slot).capacity).max().unwrap_or(0)
    })
}

/// The most that the rate of a slot ever allows at once.
fn burst_of(state: &State, slot: &SlotName) -> u32 {
    state.slots.get(slot).and_then(|slot| slot.rate).map_or(u32::MAX, |rate| rate.burst)
}

/// Needs beyond the fleet, or beyond every node ever registered when there is one.
pub(crate) fn impossible(state: &State, needs: &Needs) -> Vec<ImpossibleNeed> {
    let short = |(slot, asked): (&SlotName, u32)| {
        let most = match state.slots.get(slot).map(|slot| slot.scope) {
            Some(Scope::Fleet { capacity }) => capacity.min(burst_of(state, slot)),
            Some(Scope::Node) if !state.nodes.is_empty() => most_of(state, slot),
            Some(Scope::Node) | None => return None,
        };
        (most < asked).then(|| ImpossibleNeed { slot: slot.clone(), asked, most })
    };
    needs.iter().filter_map(short).collect()
}

/// Nodes that are looked at together; the best of them is taken.
const SCANNED: usize = 64;

/// Of the nodes on which the head of a class fits, the best of the first that are looked at.
pub(crate) fn best(
    state: &State,
    now: Now,
    id: ClassId,
    class: &Class,
    job: &Job,
    asks: Asks,
) -> Looked<Option<NodeName>> {
    let mut looked = 0;
    if let Some(node) = home(job).and_then(|name| state.nodes.get(name)) {
        looked += 1;
        if of_node(state, now, id, class, asks, node).is_ok() {
            return Looked { found: Some(node.node.name.clone()), looked };
        }
    }
    let scorer = Scorer::new(state, class, job);
    let mut nodes = scorer.preference.first(state, state.index.fitting(class, hash(job.id, 0)));
    loop {
        let some = nodes.by_ref().take(SCANNED).filter_map(|handle| Some((handle, state.nodes.at(handle)?)));
        let scored = some.map(|(handle, node)| (scorer.score(handle, node), node));
        let mut scored: Vec<(Score, &NodeEntry)> = scored.collect();
        if scored.is_empty() {
            return Looked { found: None, looked };
        }
        scored.sort_unstable_by_key(|(score, _)| *score);
        for (_, node) in scored {
            looked += 1;
            if of_node(state, now, id, class, asks, node).is_ok() {
                return Looked { found: Some(node.node.name.clone()), looked };
            }
        }
    }
}

/// Where a job would like to run before anywhere else: where it detached, if it asked for that.
fn home(job: &Job) -> Option<&NodeName> {
    job.last_node.as_ref().filter(|_| job.detached.as_ref().is_some_and(|detached| detached.same_node))
}

/// What was found, and how many nodes were held against the class for it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Looked<T> {
    pub(crate) found: T,
    pub(crate) looked: u64,
}

/// Why a class fits nowhere: what the fleet says, else what the node nearest to a fit says; of equally near ones the
/// one with the highest handle.
pub(crate) fn why_not(state: &State, now: Now, id: ClassId, class: &Class, asks: Asks) -> Looked<Deferral> {
    if let Err(reason) = of_fleet(state, now, class, asks) {
        return Looked { found: reason, looked: 1 };
    }
    let mut nearest: Option<((Nearness, u32), Deferral)> = None;
    let mut looked = 1;
    // Few are ever looked at: the first of a set is as near as its members can be, but for nodes that only the fit
    // function knows something of, such as masks.
    for limit in Nearness::LIMITS {
        for handle in state.index.within(class, limit, state.warm) {
            let Some(node) = state.nodes.at(handle) else { continue };
            looked += 1;
            if let Err(reason) = of_node(state, now, id, class, asks, node) {
                let near = nearness(&reason);
                if nearest.as_ref().is_none_or(|(known, _)| near > *known) {
                    nearest = Some((near, reason));
                }
                if near.0 >= limit && limit != Nearness::TooSmall {
                    break;
                }
            }
        }
        if nearest.as_ref().is_some_and(|((near, _), _)| *near >= limit) {
            break;
        }
    }
    let found = match nearest.map(|(_, reason)| reason) {
        Some(Deferral::NoMatchingNode { .. }) | None if !state.warm => Deferral::WarmingUp,
        Some(reason) => reason,
        None => Deferral::NoMatchingNode { selector: class.key.selector.clone() },
    };
    Looked { found, looked }
}

/// How many of the steps of [`of_node`] a node passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Nearness {
    NoMatch,
    WarmingUp,
    TooSmall,
    Draining,
    Cordoned,
    Suspect,
    Pressure,
    OldAgent,
    BackedOff,
    Masked,
    SlotBusy,
    Earmarked,
    Unanswered,
}

impl Nearness {
    /// The nearest that there is.
    pub(crate) const MOST: Self = Self::Unanswered;

    /// What the index can tell apart, the nearest first.
    const LIMITS: [Self; 9] = [
        Self::MOST,
        Self::Earmarked,
        Self::SlotBusy,
        Self::Pressure,
        Self::Suspect,
        Self::Cordoned,
        Self::Draining,
        Self::TooSmall,
        Self::WarmingUp,
    ];
}

/// How near to a fit a node was that gave this reason. Of nodes that are too small the largest is nearest.
pub(crate) fn nearness(reason: &Deferral) -> (Nearness, u32) {
    let steps = match reason {
        Deferral::Impossible { most, .. } => return (Nearness::TooSmall, *most),
        Deferral::NoMatchingNode { .. } => Nearness::NoMatch,
        Deferral::WarmingUp => Nearness::WarmingUp,
        Deferral::Draining { .. } => Nearness::Draining,
        Deferral::NodesCordoned { .. } => Nearness::Cordoned,
        Deferral::Suspect { .. } => Nearness::Suspect,
        Deferral::NodePressure { .. } => Nearness::Pressure,
        Deferral::OldAgent { .. } => Nearness::OldAgent,
        Deferral::NodeBackoff { .. } => Nearness::BackedOff,
        Deferral::Masked { .. } => Nearness::Masked,
        Deferral::SlotBusy { .. } => Nearness::SlotBusy,
        Deferral::Earmarked { .. } => Nearness::Earmarked,
        Deferral::Unanswered { .. } => Nearness::Unanswered,
        Deferral::Behind { .. }
        | Deferral::ConcurrencyKey { .. }
        | Deferral::KindPaused
        | Deferral::SlotPaused { .. }
        | Deferral::RateLimit { .. }
        | Deferral::Budget { .. }
        | Deferral::NotReaped { .. }
        | Deferral::Broken
        | Deferral::Backoff { .. }
        | Deferral::RunAt { .. }
        | Deferral::WaitingChildren { .. }
        | Deferral::Blocked { .. }
        | Deferral::Ready => Nearness::NoMatch,
    };
    (steps, 0)
}
