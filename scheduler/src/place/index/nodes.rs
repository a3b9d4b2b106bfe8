//! How far each node gets through the checks that are the same for all classes, and for which its pressure closes it.

use std::collections::BTreeMap;

use super::bits::Bits;
use crate::{ids::NodeName, node::Group, state::NodeEntry};

/// See the module. The sets are of handles.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeSide {
    /// Not being emptied by an operator.
    pub(super) undrained: Bits,
    /// Not cordoned.
    pub(super) uncordoned: Bits,
    /// With a session.
    pub(super) connected: Bits,
    /// With a session, neither silent nor on its way out. Whether its reading is fresh is for the fit function to say:
    /// that passes with time alone.
    pub(super) heard: Bits,
    /// Takes a grant more.
    pub(super) answering: Bits,
    /// How many nodes there are.
    pub(super) count: u32,
    closed: BTreeMap<Group, Bits>,
    seen: Vec<Option<Seen>>,
}

/// What was last taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    name: NodeName,
    closed: Vec<Group>,
    weight: u8,
    number: u64,
}

impl Seen {
    fn of(node: &NodeEntry) -> Self {
        let pressure = node.live.as_ref().map(|live| &live.pressure);
        let bytes = node.node.name.as_str().bytes();
        Self {
            name: node.node.name.clone(),
            closed: pressure
                .map(|pressure| pressure.closed.iter().map(|closed| closed.group.clone()).collect())
                .unwrap_or_default(),
            weight: pressure.map_or(1, |pressure| pressure.weight),
            number: bytes.fold(0u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte))),
        }
    }

    fn is_of(&self, node: &NodeEntry) -> bool {
        let pressure = node.live.as_ref().map(|live| &live.pressure);
        let closed =
            pressure.into_iter().flat_map(|pressure| pressure.closed.iter().map(|closed| &closed.group));
        self.name == node.node.name
            && self.weight == pressure.map_or(1, |pressure| pressure.weight)
            && self.closed.iter().eq(closed)
    }
}

impl NodeSide {
    /// Takes over how a node stands now.
    pub(super) fn follow(&mut self, handle: u32, node: Option<&NodeEntry>) {
        let live = node.and_then(|node| node.live.as_ref());
        self.undrained.put(handle, node.is_some_and(|node| node.node.draining.is_none()));
        self.uncordoned.put(handle, node.is_some_and(|node| !node.node.cordoned));
        self.connected.put(handle, live.is_some());
        self.heard.put(handle, live.is_some_and(|live| !live.suspect && !live.leaving));
        self.answering.put(handle, live.is_some_and(|live| live.takes_a_grant()));
        let at = handle as usize;
        if at >= self.seen.len() {
            self.seen.resize(at + 1, None);
        }
        match (node, &self.seen[at]) {
            (Some(node), Some(seen)) if seen.is_of(node) => return,
            (None, None) => return,
            (Some(_) | None, _) => {}
        }
        let before = std::mem::replace(&mut self.seen[at], node.map(Seen::of));
        self.count += u32::from(node.is_some());
        self.count -= u32::from(before.is_some());
        for group in before.into_iter().flat_map(|seen| seen.closed) {
            if let Some(closed) = self.closed.get_mut(&group) {
                closed.put(handle, false);
                if closed.is_empty() {
                    self.closed.remove(&group);
                }
            }
        }
        for group in self.seen[at].iter().flat_map(|seen| &seen.closed) {
            self.closed.entry(group.clone()).or_default().put(handle, true);
        }
    }

    /// Whether it takes grants of anything.
    pub(super) fn is_up(&self, handle: u32) -> bool {
        [&self.undrained, &self.uncordoned, &self.heard].iter().all(|set| set.contains(handle))
    }

    /// The nodes whose pressure closes this group.
    pub(super) fn closed(&self, group: &Group) -> Option<&Bits> {
        self.closed.get(group)
    }

    /// The pressure weight of a node, and the number that its name makes.
    pub(super) fn weight_and_number(&self, handle: u32) -> (u8, u64) {
        let seen = self.seen.get(handle as usize).and_then(Option::as_ref);
        seen.map_or((1, 0), |seen| (seen.weight, seen.number))
    }
}
