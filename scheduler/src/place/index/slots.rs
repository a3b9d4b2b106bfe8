//! Per node slot: what each node has of it and has free, and, for each amount that a class needs, which nodes have so
//! much and which classes need it.

use std::{
    collections::BTreeMap,
    ops::{Bound, RangeBounds},
};

use super::{bits::Bits, classes::Aim};
use crate::{
    ids::SlotName,
    state::{NodeEntry, Nodes},
};

/// So many amounts of a slot that no class needs any more are kept, since they are likely to be needed again.
const MOST_UNUSED: usize = 64;

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Columns {
    by_name: BTreeMap<SlotName, usize>,
    all: Vec<Column>,
}

/// Of one slot.
#[derive(Debug, Clone, Default)]
struct Column {
    name: Option<SlotName>,
    /// By handle of a node; what lies behind the end is nothing.
    counts: Vec<Free>,
    /// How many nodes have so many units in all; without those that have none.
    capacities: BTreeMap<u32, u32>,
    /// How many nodes have any of it.
    having: u32,
    amounts: BTreeMap<u32, Amount>,
}

/// What a node has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Free {
    /// Units in all; what the node's rules cap counts here.
    capacity: u32,
    /// Units that may be granted now.
    free: u32,
}

/// Of one amount that some class needs.
#[derive(Debug, Clone, Default)]
struct Amount {
    /// Nodes that have so many units.
    holding: Bits,
    /// Nodes that have so many units free.
    room: Bits,
    /// Classes that need exactly so many.
    classes: Bits,
}

impl Free {
    fn of(node: Option<&NodeEntry>, slot: &SlotName) -> Self {
        let Some(node) = node else { return Self::default() };
        let mut count = node.ledger.count(slot);
        let capacity = count.capacity;
        count.capacity = node.cap(slot).map_or(capacity, |cap| cap.min(capacity));
        Self { capacity, free: count.free() }
    }
}

/// The amounts that are there with one count of units and not with the other.
fn between(one: u32, other: u32) -> impl RangeBounds<u32> {
    (Bound::Excluded(one.min(other)), Bound::Included(one.max(other).max(1)))
}

impl Column {
    fn count(&self, handle: u32) -> Free {
        self.counts.get(handle as usize).copied().unwrap_or_default()
    }

    fn put(&mut self, handle: u32, now: Free) {
        let before = self.count(handle);
        if before == now {
            return;
        }
        let at = handle as usize;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, Free::default());
        }
        self.counts[at] = now;
        if before.capacity != now.capacity {
            self.count_capacity(before.capacity, now.capacity);
        }
        for (amount, sets) in self.amounts.range_mut(between(before.capacity, now.capacity)) {
            sets.holding.put(handle, now.capacity >= *amount);
        }
        for (amount, sets) in self.amounts.range_mut(between(before.free, now.free)) {
            sets.room.put(handle, now.free >= *amount);
        }
    }

    /// The capacity of a node is another one.
    fn count_capacity(&mut self, before: u32, now: u32) {
        if before > 0
            && let Some(nodes) = self.capacities.get_mut(&before)
        {
            *nodes -= 1;
            self.having -= 1;
            if *nodes == 0 {
                self.capacities.remove(&before);
            }
        }
        if now > 0 {
            *self.capacities.entry(now).or_default() += 1;
            self.having += 1;
        }
    }

    /// A class needs so much, or no longer.
    fn need(&mut self, amount: u32, class: u32, needs: bool) {
        if needs && !self.amounts.contains_key(&amount) {
            let mut sets = Amount::default();
            for (handle, count) in (0..).zip(&self.counts) {
                sets.holding.put(handle, count.capacity >= amount);
                sets.room.put(handle, count.free >= amount);
            }
            self.amounts.insert(amount, sets);
        }
        if let Some(sets) = self.amounts.get_mut(&amount) {
            sets.classes.put(class, needs);
        }
        if !needs && self.amounts.len() > MOST_UNUSED {
            self.amounts.retain(|_, sets| !sets.classes.is_empty());
        }
    }
}

impl Columns {
    /// Before any node is known.
    pub(super) fn declare(&mut self, slot: &SlotName) {
        self.by_name.insert(slot.clone(), self.all.len());
        self.all.push(Column { name: Some(slot.clone()), ..Column::default() });
    }

    /// The column of a slot that a class needs.
    pub(super) fn column(&mut self, slot: &SlotName, nodes: &Nodes) -> usize {
        if let Some(at) = self.by_name.get(slot) {
            return *at;
        }
        let mut column = Column { name: Some(slot.clone()), ..Column::default() };
        for name in nodes.keys() {
            if let Some(handle) = nodes.handle(name) {
                column.put(handle, Free::of(nodes.at(handle), slot));
            }
        }
        self.all.push(column);
        self.by_name.insert(slot.clone(), self.all.len() - 1);
        self.all.len() - 1
    }

    pub(super) fn need(&mut self, column: usize, amount: u32, class: u32, needs: bool) {
        if let Some(column) = self.all.get_mut(column) {
            column.need(amount, class, needs);
        }
    }

    /// Takes over what a node has now.
    pub(super) fn follow(&mut self, handle: u32, node: Option<&NodeEntry>) {
        for column in &mut self.all {
            if let Some(slot) = &column.name {
                let now = Free::of(node, slot);
                column.put(handle, now);
            }
        }
    }

    /// The most that any node has of a slot.
    pub(super) fn most_of(&self, slot: &SlotName) -> Option<u32> {
        let column = self.all.get(*self.by_name.get(slot)?)?;
        Some(column.capacities.last_key_value().map_or(0, |(capacity, _)| *capacity))
    }

    /// For each slot the nodes that have enough units for it.
    pub(super) fn holding(&self, aim: &Aim) -> impl Iterator<Item = &Bits> {
        self.amounts(aim).map(|sets| &sets.holding)
    }

    /// For each slot the nodes that have enough units free for it.
    pub(super) fn with_room(&self, aim: &Aim) -> impl Iterator<Item = &Bits> {
        self.amounts(aim).map(|sets| &sets.room)
    }

    fn amounts(&self, aim: &Aim) -> impl Iterator<Item = &Amount> {
        aim.node.iter().filter_map(|(column, amount)| self.all.get(*column)?.amounts.get(amount))
    }

    /// Sets of the classes that need more than a node has free.
    pub(super) fn too_much(&self, handle: u32) -> impl Iterator<Item = &Bits> {
        self.all.iter().flat_map(move |column| {
            let more = column.count(handle).free.saturating_add(1);
            column.amounts.range(more..).map(|(_, sets)| &sets.classes)
        })
    }

    pub(super) fn fits(&self, handle: u32, aim: &Aim) -> bool {
        let free = |column: usize| self.all.get(column).map_or(0, |column| column.count(handle).free);
        aim.node.iter().all(|(column, amount)| free(*column) >= *amount)
    }

    /// How rare what is free there and not needed is, and thousandths that would be left of what is needed: see
    /// [`Worth`](super::Worth).
    pub(super) fn rest(&self, handle: u32, aim: &Aim, nodes: u32) -> (u32, u32) {
        let (mut rare, mut left) = (0, 0);
        for (at, column) in self.all.iter().enumerate() {
            let Free { capacity, free } = column.count(handle);
            match aim.node.iter().find(|(needed, _)| *needed == at) {
                None if free > 0 => rare += rarity(column.having, nodes),
                None => {}
                Some((_, amount)) => left += thousandths(free.saturating_sub(*amount), capacity),
            }
        }
        (rare, left)
    }
}

/// How often the nodes must be halved until no more than have a slot are left.
fn rarity(having: u32, nodes: u32) -> u32 {
    nodes.checked_div(having).and_then(u32::checked_ilog2).unwrap_or(0)
}

fn thousandths(part: u32, of: u32) -> u32 {
    let share = (u64::from(part) * 1000).checked_div(u64::from(of)).unwrap_or(0);
    u32::try_from(share).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_the_rarer_the_fewer_nodes_have_it() {
        for (having, nodes, expected) in
            [(10, 10, 0), (6, 10, 0), (5, 10, 1), (1, 2, 1), (1, 4, 2), (3, 10_000, 11), (1, 1, 0), (0, 5, 0)]
        {
            assert_eq!(rarity(having, nodes), expected, "{having} of {nodes}");
        }
    }

    #[test]
    fn a_share_of_nothing_is_nothing() {
        assert_eq!(
            [(1, 3), (3, 3), (0, 0), (u32::MAX, u32::MAX)].map(|(a, b)| thousandths(a, b)),
            [333, 1000, 0, 1000]
        );
    }
}
