//! What each class needs, as columns and profiles; which classes are worth a look when something was gained.

use std::collections::BTreeMap;

use super::{bits::Bits, slots::Columns, types::Types};
use crate::{
    ids::{NodeName, SlotName},
    place::{
        ClassId,
        classes::Class,
        fit::{Nearness, nearness},
    },
    slots::Needs,
    state::Nodes,
};

/// See the module. The sets are of handles of classes in which something is queued.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClassSide {
    /// Never tried, or to be tried on all nodes.
    pub(super) untried: Bits,
    /// Failed for the fleet.
    pub(super) of_fleet: Bits,
    /// Failed for the nodes.
    pub(super) of_nodes: Bits,
    /// Of those: for a reason that a node which is merely full would better.
    pub(super) shallow: Bits,
    /// By fleet slot those that need it.
    needing: BTreeMap<SlotName, Bits>,
    /// By node those whose reason it gave.
    told_by: BTreeMap<NodeName, Bits>,
    aims: Vec<Option<Aim>>,
}

/// What a class needs, as it was last taken over.
#[derive(Debug, Clone)]
pub(crate) struct Aim {
    id: ClassId,
    pub(super) profile: u32,
    /// Columns and amounts.
    pub(super) node: Vec<(usize, u32)>,
    node_needs: Needs,
    fleet_needs: Needs,
    told_by: Option<NodeName>,
}

impl ClassSide {
    /// Takes over how a class stands now.
    pub(super) fn follow(
        &mut self,
        handle: u32,
        class: Option<(ClassId, &Class)>,
        nodes: &Nodes,
        slots: &mut Columns,
        types: &mut Types,
    ) {
        let at = handle as usize;
        if at >= self.aims.len() {
            self.aims.resize(at + 1, None);
        }
        let is_same = match (&self.aims[at], class) {
            (Some(aim), Some((id, class))) => {
                aim.id == id && aim.node_needs == class.node && aim.fleet_needs == class.fleet
            }
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if !is_same {
            if let Some(aim) = self.aims[at].take() {
                self.remove(handle, &aim, slots, types);
            }
            self.aims[at] = class.map(|(id, class)| self.add(handle, id, class, nodes, slots, types));
        }
        self.stand(handle, class.map(|(_, class)| class));
    }

    fn add(
        &mut self,
        handle: u32,
        id: ClassId,
        class: &Class,
        nodes: &Nodes,
        slots: &mut Columns,
        types: &mut Types,
    ) -> Aim {
        let node: Vec<(usize, u32)> =
            class.node.iter().map(|(slot, amount)| (slots.column(slot, nodes), amount)).collect();
        for (column, amount) in &node {
            slots.need(*column, *amount, handle, true);
        }
        for (slot, _) in class.fleet.iter() {
            self.needing.entry(slot.clone()).or_default().put(handle, true);
        }
        Aim {
            id,
            profile: types.add_class(handle, &class.key),
            node,
            node_needs: class.node.clone(),
            fleet_needs: class.fleet.clone(),
            told_by: None,
        }
    }

    fn remove(&mut self, handle: u32, aim: &Aim, slots: &mut Columns, types: &mut Types) {
        for (column, amount) in &aim.node {
            slots.need(*column, *amount, handle, false);
        }
        for (slot, _) in aim.fleet_needs.iter() {
            take_out(&mut self.needing, slot, handle);
        }
        if let Some(node) = &aim.told_by {
            take_out(&mut self.told_by, node, handle);
        }
        types.remove_class(handle, aim.profile);
    }

    /// Why it waits, if it does.
    fn stand(&mut self, handle: u32, class: Option<&Class>) {
        let waiting = class.filter(|class| !class.queue.is_empty());
        let reason = waiting.and_then(|class| class.failed.as_ref()).map(|failed| &failed.reason);
        let of_fleet = reason.is_some_and(|reason| reason.is_of_fleet());
        let of_nodes = reason.filter(|_| !of_fleet);
        self.untried.put(handle, waiting.is_some() && reason.is_none());
        self.of_fleet.put(handle, of_fleet);
        self.of_nodes.put(handle, of_nodes.is_some());
        self.shallow.put(handle, of_nodes.is_some_and(|reason| nearness(reason).0 < Nearness::SlotBusy));
        let Some(Some(aim)) = self.aims.get_mut(handle as usize) else { return };
        let told_by = of_nodes.and_then(|reason| reason.node());
        if aim.told_by.as_ref() != told_by {
            if let Some(node) = &aim.told_by {
                take_out(&mut self.told_by, node, handle);
            }
            aim.told_by = told_by.cloned();
            if let Some(node) = told_by {
                self.told_by.entry(node.clone()).or_default().put(handle, true);
            }
        }
    }

    /// What a class needs; none of one that is in no index.
    pub(super) fn aim(&self, class: &Class) -> Option<&Aim> {
        self.aims.get(class.handle? as usize)?.as_ref()
    }

    /// The classes that need a fleet slot.
    pub(super) fn needing(&self, slot: &SlotName) -> Option<&Bits> {
        self.needing.get(slot)
    }

    /// The classes whose reason a node gave.
    pub(super) fn told_by(&self, node: &NodeName) -> Option<&Bits> {
        self.told_by.get(node)
    }
}

/// Takes a handle out of a named set, and the set away with its last.
fn take_out<N: Ord>(sets: &mut BTreeMap<N, Bits>, name: &N, handle: u32) {
    if let Some(set) = sets.get_mut(name) {
        set.put(handle, false);
        if set.is_empty() {
            sets.remove(name);
        }
    }
}
