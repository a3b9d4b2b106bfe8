//! A node in memory: its row, its session, its slots.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use crate::{
    ids::{FencingToken, KindName, NodeName, Ordinal, SessionId, SlotName},
    kind::KindPolicy,
    lease::first_lease,
    node::{Node, Pressure},
    place::{ClassId, backoff::Backoff},
    slots::{Count, Ledger, Scope},
    state::State,
    time::{Mono, Now},
};

/// A pressure reading older than this lets nothing be granted.
pub(crate) const PRESSURE_FRESH: Duration = Duration::from_secs(15);

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct NodeEntry {
    pub(crate) node: Node,
    /// Capacity and use of its slots.
    pub(crate) ledger: Ledger,
    /// Every lease that charges it or that it may hold.
    pub(crate) leases: BTreeSet<FencingToken>,
    pub(crate) masks: BTreeMap<ClassId, Mask>,
    /// Kinds whose jobs failed here of late.
    pub(crate) backoffs: BTreeMap<KindName, Backoff>,
    pub(crate) live: Option<Live>,
    /// While it is drained: when what still runs there is wanted back.
    pub(crate) drain_by: Option<Mono>,
    /// When it was last heard; a takeover counts.
    pub(crate) heard: Mono,
    /// This leader loaded it and has not seen it yet: it may have a session that the last leader knew.
    pub(crate) presumed_open: bool,
}

impl State {
    /// The shortest lease that a node may hold, each counted as its first lease: it may not have been renewed yet. None:
    /// it holds none.
    #[must_use]
    pub fn shortest_lease(&self, node: &NodeName) -> Option<Duration> {
        let leases = self.nodes.get(node)?.leases.iter().filter_map(|token| self.leases.get(token));
        leases.map(|entry| first_lease(entry.lease.length)).min()
    }
}

/// A class that a node returned and is not offered for a while.
#[derive(Debug, Clone)]
pub(crate) struct Mask {
    pub(crate) rule: Arc<str>,
    /// Until a pressure generation above this.
    pub(crate) generation: u64,
    /// Or until then.
    pub(crate) until: Mono,
}

/// The session of a node.
#[derive(Debug, Clone)]
pub(crate) struct Live {
    pub(crate) session: SessionId,
    /// The node's highest `seq` that was applied.
    pub(crate) applied: u64,
    /// How many messages were decided for it.
    pub(crate) sent: u64,
    /// What the node has applied of them.
    pub(crate) seen: Ordinal,
    pub(crate) suspect: bool,
    /// Its agent goes away.
    pub(crate) leaving: bool,
    /// Its outbound queue is full.
    pub(crate) blocked: bool,
    pub(crate) credits: u32,
    /// Grants that it has not answered.
    pub(crate) unanswered: BTreeSet<FencingToken>,
    /// An unanswered grant was revoked: nothing is granted until the node has seen this.
    pub(crate) hold_until_seen: Option<Ordinal>,
    pub(crate) pressure: Pressure,
    pub(crate) pressure_at: Mono,
    pub(crate) interval: Duration,
    /// Its agent hands an execution what it goes on from.
    pub(crate) inputs: bool,
}

/// What a node says at the begin of a session that stays with it.
#[derive(Debug)]
pub(crate) struct Begin {
    pub(crate) session: SessionId,
    pub(crate) applied: u64,
    pub(crate) credits: u32,
    pub(crate) pressure: Pressure,
    pub(crate) inputs: bool,
}

impl Live {
    /// Whether it takes a grant more.
    pub(crate) fn takes_a_grant(&self) -> bool {
        !self.blocked && self.hold_until_seen.is_none() && !self.is_full()
    }

    /// Whether it takes no grant more until it has answered one.
    pub(crate) fn is_full(&self) -> bool {
        u32::try_from(self.unanswered.len()).unwrap_or(u32::MAX) >= self.credits
    }
}

impl NodeEntry {
    pub(crate) fn new(node: Node, now: Now) -> Self {
        let mut ledger = Ledger::default();
        for (slot, capacity) in &node.slots {
            ledger.set_capacity(slot, capacity.units);
        }
        Self {
            node,
            ledger,
            leases: BTreeSet::new(),
            masks: BTreeMap::new(),
            backoffs: BTreeMap::new(),
            live: None,
            drain_by: None,
            heard: now.mono,
            presumed_open: false,
        }
    }

    pub(crate) fn loaded(node: Node, now: Now) -> Self {
        let drain_by = node.draining.map(|deadline| now.mono.after(deadline));
        Self { presumed_open: true, drain_by, ..Self::new(node, now) }
    }

    /// Units of a slot that nobody holds, under the cap that its rules put on it.
    pub(crate) fn free(&self, slot: &SlotName) -> u32 {
        let count = self.ledger.count(slot);
        let capacity = self.cap(slot).map_or(count.capacity, |cap| cap.min(count.capacity));
        Count { capacity, ..count }.free()
    }

    /// The cap that its rules put on a slot.
    pub(crate) fn cap(&self, slot: &SlotName) -> Option<u32> {
        self.live.as_ref().and_then(|live| live.pressure.caps.get(slot).copied())
    }
}

/// How often a node that advertises these kinds sends a heartbeat: a quarter of the shortest lease, 1 s to 5 s.
pub(crate) fn heartbeat_interval<'a>(kinds: impl Iterator<Item = &'a KindPolicy>) -> Duration {
    let shortest = kinds.map(|policy| policy.lease).min().unwrap_or(Duration::from_secs(20));
    (shortest / 4).clamp(Duration::from_secs(1), Duration::from_secs(5))
}

/// After this long without a word a node is suspect.
pub(crate) fn silence(interval: Duration) -> Duration {
    2 * interval + Duration::from_secs(2)
}

/// What a node offers and the fleet does not declare, and what it says of its host in vain; one sentence each.
pub(crate) fn undeclared(state: &State, node: &Node) -> Vec<String> {
    let slot = |slot: &SlotName| match state.slots.get(slot).map(|slot| slot.scope) {
        Some(Scope::Node) => None,
        Some(Scope::Fleet { .. }) => {
            Some(format!("slot {slot} is a fleet slot; this node's units are ignored"))
        }
        None => Some(format!("slot {slot} is not declared by the fleet file")),
    };
    let kinds = node.kinds.iter().filter(|kind| !state.kinds.contains_key(*kind));
    let kinds = kinds.map(|kind| format!("kind {kind} is not declared by the fleet file"));
    let overruled =
        |(label, fact)| format!("label {label} is what the host is, {fact}; the node file's is ignored");
    node.slots.keys().filter_map(slot).chain(kinds).chain(node.overruled().map(overruled)).collect()
}
