//! What the nodes say to one job, gathered node by node: groups of equal nodes that say the same, sums of slots, and
//! which few are nearest to a fit.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::bracket::Room;
use crate::{
    deferral::Deferral,
    ids::{NodeName, SlotName},
    node::NodeType,
    place::{ClassId, classes::Class, earmarks::Asks, fit},
    slots::Count,
    state::{NodeEntry, State},
    time::Now,
    view::{NodeExplanation, NodeGroup, SlotTotal},
};

/// A fleet of more nodes is told in groups only.
const MOST_NODES: usize = 100;
/// Groups told.
const MOST_GROUPS: usize = 50;
/// Nodes of a group that are named.
const MOST_EXAMPLES: usize = 3;
/// Nodes of which each slot is told with its holders.
const MOST_DETAILED: usize = 20;

/// See the module.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    types: Vec<NodeType>,
    /// Where a type stands in `types`, by its fingerprint.
    by_print: BTreeMap<u64, usize>,
    groups: BTreeMap<(usize, String), Group>,
    each: Vec<NodeExplanation>,
    /// How many nodes were looked at.
    seen: usize,
    nearest: BTreeSet<(Reverse<Near>, NodeName)>,
    totals: Vec<SlotTotal>,
    /// Of each node slot, on the nodes that take grants of the class or would if they had room.
    rooms: BTreeMap<SlotName, Room>,
}

/// Whether it fits; if not, how near to a fit that is.
type Near = (bool, (fit::Nearness, u32));

fn near(why_not: Option<&Deferral>) -> Near {
    why_not.map_or((true, (fit::Nearness::MOST, 0)), |why_not| (false, fit::nearness(why_not)))
}

#[derive(Debug, Clone)]
struct Group {
    nodes: u64,
    examples: Vec<NodeName>,
    why_not: Option<Deferral>,
}

impl Tally {
    /// Asks one node, for a job of this class. True: it takes grants of the class, or would if it had room.
    pub(super) fn add(
        &mut self,
        state: &State,
        now: Now,
        (id, class, asks): (ClassId, &Class, Asks),
        node: &NodeEntry,
    ) -> bool {
        let name = &node.node.name;
        let mut is_open = false;
        let why_not = fit::of_node(state, now, id, class, asks, node).err();
        if fit::matches(class, node) && fit::could_hold(class, node) {
            self.sum(class, node);
            if why_not.as_ref().is_none_or(|why_not| matches!(why_not, Deferral::SlotBusy { .. })) {
                self.add_room(class, node);
                is_open = true;
            }
            self.nearest.insert((Reverse(near(why_not.as_ref())), name.clone()));
            if self.nearest.len() > MOST_DETAILED {
                self.nearest.pop_last();
            }
        }
        let says = why_not.as_ref().map(says).unwrap_or_default();
        let of_type = self.type_of(node);
        let group = self.groups.entry((of_type, says)).or_insert_with(|| Group {
            nodes: 0,
            examples: Vec::new(),
            why_not: why_not.clone(),
        });
        group.nodes += 1;
        if group.examples.len() < MOST_EXAMPLES {
            group.examples.push(name.clone());
        }
        self.seen += 1;
        if self.seen <= MOST_NODES {
            self.each.push(NodeExplanation { node: name.clone(), why_not });
        }
        is_open
    }

    fn add_room(&mut self, class: &Class, node: &NodeEntry) {
        for (slot, _) in class.node.iter() {
            let count = node.ledger.count(slot);
            let capacity = node.cap(slot).map_or(count.capacity, |cap| cap.min(count.capacity));
            let room = self.rooms.entry(slot.clone()).or_default();
            room.used += u64::from(count.used);
            room.capacity += u64::from(capacity);
        }
    }

    fn sum(&mut self, class: &Class, node: &NodeEntry) {
        if self.totals.is_empty() {
            let none = |(slot, needed): (&SlotName, u32)| SlotTotal {
                slot: slot.clone(),
                needed,
                nodes: 0,
                with_room: 0,
                used: 0,
                capacity: 0,
            };
            self.totals = class.node.iter().map(none).collect();
        }
        for total in &mut self.totals {
            let count = node.ledger.count(&total.slot);
            let capacity = node.cap(&total.slot).map_or(count.capacity, |cap| cap.min(count.capacity));
            total.nodes += 1;
            total.with_room += u64::from(Count { capacity, ..count }.free() >= total.needed);
            total.used += u64::from(count.used);
            total.capacity += u64::from(count.capacity);
        }
    }

    /// Each node; none if there are many.
    pub(super) fn each(&self) -> Vec<NodeExplanation> {
        if self.seen <= MOST_NODES { self.each.clone() } else { Vec::new() }
    }

    /// Those that are nearest to a fit, by name.
    pub(super) fn nearest(&self) -> BTreeSet<&NodeName> {
        self.nearest.iter().map(|(_, name)| name).collect()
    }

    pub(super) fn totals(&self) -> &[SlotTotal] {
        &self.totals
    }

    pub(super) fn rooms(&self) -> &BTreeMap<SlotName, Room> {
        &self.rooms
    }

    /// The groups, and how many nodes are in none of them.
    pub(super) fn groups(&self) -> (Vec<NodeGroup>, u64) {
        let mut all: Vec<(usize, &Group)> = self.groups.iter().map(|((at, _), group)| (*at, group)).collect();
        // Stable: of equally near and equally large ones the type that was met first comes first.
        all.sort_by_key(|(_, group)| (Reverse(near(group.why_not.as_ref())), Reverse(group.nodes)));
        let omitted = all.iter().skip(MOST_GROUPS).map(|(_, group)| group.nodes).sum();
        let told = all.into_iter().take(MOST_GROUPS).filter_map(|(at, group)| {
            let of_type = self.types.get(at)?;
            Some(NodeGroup {
                labels: of_type.all_labels(),
                slots: of_type.slots.clone(),
                nodes: group.nodes,
                examples: group.examples.clone(),
                why_not: group.why_not.clone(),
            })
        });
        (told.collect(), omitted)
    }

    fn type_of(&mut self, node: &NodeEntry) -> usize {
        let mut print = fingerprint(node);
        loop {
            match self.by_print.get(&print) {
                Some(&at) if self.types.get(at).is_some_and(|of_type| of_type.is_of(&node.node)) => {
                    return at;
                }
                // Another type with this fingerprint: it stands at the next.
                Some(_) => print = print.wrapping_add(1),
                None => {
                    let at = self.types.len();
                    self.types.push(NodeType::of(&node.node));
                    self.by_print.insert(print, at);
                    return at;
                }
            }
        }
    }
}

/// FNV-1a over everything that makes nodes equal.
fn fingerprint(node: &NodeEntry) -> u64 {
    let mut print: u64 = 0xcbf2_9ce4_8422_2325;
    let mut take = |bytes: &[u8]| {
        for byte in bytes.iter().chain(&[0xff]) {
            print = (print ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for (label, value) in &node.node.labels {
        take(label.as_bytes());
        take(value.as_bytes());
    }
    node.node.host.facts().iter().for_each(|(_, fact)| take(fact.as_bytes()));
    node.node.kinds.iter().for_each(|kind| take(kind.as_str().as_bytes()));
    for (slot, capacity) in &node.node.slots {
        take(slot.as_str().as_bytes());
        take(&capacity.units.to_le_bytes());
    }
    print
}

/// The reason and what it names, but for the node and its figures.
fn says(reason: &Deferral) -> String {
    let mut text = reason.name().to_owned();
    for (name, value) in reason.parameters() {
        let of_one_node =
            matches!(name, "node" | "used" | "capacity" | "observed" | "threshold" | "grants" | "until_us");
        if !of_one_node {
            text.push(' ');
            text.push_str(&value);
        }
    }
    text
}
