//! What events do to nodes and their sessions.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    ids::{KindName, NodeName, Ordinal},
    node::{Node, Pressure},
    place::ClassId,
    state::{
        Due, Live, Mask, NodeEntry, State,
        nodes::{Begin, PRESSURE_FRESH, heartbeat_interval, silence},
    },
    time::{Mono, Now},
};

impl State {
    pub(super) fn node_put(&mut self, node: &Node, now: Now) {
        self.dirty.node(&node.name, self.nodes.contains_key(&node.name));
        self.parking_changed = true;
        let Some(entry) = self.nodes.get_mut(&node.name) else {
            self.nodes.insert(node.name.clone(), NodeEntry::new(node.clone(), now));
            self.recount_node(None, Some(node));
            self.gained.insert(node.name.clone());
            // A node more may turn "no matching node" or "impossible" into another reason.
            self.classes.iter_mut().for_each(|(_, class)| class.failed = None);
            return;
        };
        for slot in entry.node.slots.keys().filter(|slot| !node.slots.contains_key(*slot)) {
            entry.ledger.set_capacity(slot, 0);
        }
        for (slot, capacity) in &node.slots {
            entry.ledger.set_capacity(slot, capacity.units);
        }
        let matters = entry.node.kinds != node.kinds
            || !entry.node.is_labelled_as(node)
            || entry.node.slots != node.slots
            || entry.node.cordoned != node.cordoned
            || entry.node.draining != node.draining;
        if entry.node.draining != node.draining {
            entry.drain_by = node.draining.map(|deadline| now.mono.after(deadline));
            if let Some(by) = entry.drain_by {
                self.timers.at(by, Due::Drain(node.name.clone()));
            }
        }
        let before = std::mem::replace(&mut entry.node, node.clone());
        self.recount_node(Some(&before), Some(node));
        if matters {
            self.gained.insert(node.name.clone());
            self.classes.iter_mut().for_each(|(_, class)| class.failed = None);
        }
    }

    /// Every node that comes back may be back.
    pub(super) fn warmed_up(&mut self) {
        self.warm = true;
        self.classes.iter_mut().for_each(|(_, class)| class.failed = None);
    }

    /// A node came back or will not: the leader is warm once no other that it loaded is still to come.
    pub(super) fn warm_if_all_are_back(&mut self) {
        if !self.warm && self.nodes.values().all(|entry| !entry.presumed_open) {
            self.warmed_up();
        }
    }

    pub(super) fn session_opened(&mut self, node: &NodeName, begin: Begin, now: Now) {
        let Some(entry) = self.nodes.get_mut(node) else { return };
        let policies = entry.node.kinds.iter().filter_map(|kind| self.kinds.get(kind));
        let interval = heartbeat_interval(policies.map(|entry| &entry.kind.policy));
        entry.heard = now.mono;
        entry.presumed_open = false;
        let Begin { session, applied, credits, pressure, inputs } = begin;
        entry.live = Some(Live {
            session,
            applied,
            sent: 0,
            seen: Ordinal(0),
            suspect: false,
            leaving: false,
            blocked: false,
            credits,
            unanswered: BTreeSet::new(),
            hold_until_seen: None,
            pressure,
            pressure_at: now.mono,
            interval,
            inputs,
        });
        for token in &entry.leases {
            if let Some(lease) = self.leases.get_mut(token) {
                // Nothing of this session has carried its grant. If the Hello lists it, the node has read it.
                lease.watch.ordinal = None;
            }
        }
        let masks = std::mem::take(&mut entry.masks);
        masks.keys().for_each(|class| self.unmask_class(*class));
        self.timers.at(now.mono.after(silence(interval)), Due::Silence(node.clone()));
        self.gained.insert(node.clone());
        self.warm_if_all_are_back();
    }

    pub(super) fn pressed(&mut self, node: &NodeName, pressure: &Pressure, now: Now) {
        let Some(live) = self.nodes.get_mut(node).and_then(|entry| entry.live.as_mut()) else { return };
        let was_fresh = now.mono.since(live.pressure_at) <= PRESSURE_FRESH;
        let changed = live.pressure.closed != pressure.closed || live.pressure.caps != pressure.caps;
        live.pressure = pressure.clone();
        live.pressure_at = now.mono;
        if changed || !was_fresh {
            self.gained.insert(node.clone());
        }
    }

    /// A policy changed: the nodes that advertise the kind send heartbeats at another rate, perhaps.
    pub(super) fn tune_intervals(&mut self, kind: &KindName) {
        for entry in self.nodes.values_mut().filter(|entry| entry.node.kinds.contains(kind)) {
            let policies = entry.node.kinds.iter().filter_map(|kind| self.kinds.get(kind));
            let interval = heartbeat_interval(policies.map(|entry| &entry.kind.policy));
            if let Some(live) = &mut entry.live {
                live.interval = interval;
            }
        }
    }

    pub(super) fn with_live(&mut self, node: &NodeName, change: impl FnOnce(&mut Live)) {
        if let Some(live) = self.nodes.get_mut(node).and_then(|entry| entry.live.as_mut()) {
            change(live);
        }
    }

    pub(super) fn heard(&mut self, node: &NodeName, seq: Option<u64>, seen: Ordinal, now: Now) {
        let Some(entry) = self.nodes.get_mut(node) else { return };
        entry.heard = now.mono;
        let Some(live) = &mut entry.live else { return };
        live.applied = live.applied.max(seq.unwrap_or(0));
        live.seen = live.seen.max(seen.min(Ordinal(live.sent)));
        let freed = live.hold_until_seen.is_some_and(|ordinal| ordinal <= live.seen);
        if freed {
            live.hold_until_seen = None;
        }
        if std::mem::take(&mut live.suspect) {
            self.timers.at(now.mono.after(silence(live.interval)), Due::Silence(node.clone()));
            self.gained.insert(node.clone());
        } else if freed {
            self.gained.insert(node.clone());
        }
    }

    pub(super) fn mask(
        &mut self,
        node: &NodeName,
        class: ClassId,
        rule: &Arc<str>,
        generation: u64,
        until: Mono,
    ) {
        let Some(entry) = self.nodes.get_mut(node) else { return };
        let mask = Mask { rule: rule.clone(), generation, until };
        if entry.masks.insert(class, mask).is_none()
            && let Some(class) = self.classes.get_mut(class)
        {
            class.masks += 1;
        }
        self.timers.at(until, Due::Mask(node.clone(), class));
    }

    pub(super) fn unmask_class(&mut self, id: ClassId) {
        if let Some(class) = self.classes.get_mut(id) {
            class.masks = class.masks.saturating_sub(1);
        }
        self.tidy_class(id);
    }
}
