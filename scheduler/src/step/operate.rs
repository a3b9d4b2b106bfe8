//! What operators do to kinds, slots and nodes. Repeating a verb is harmless.

use std::time::Duration;

use crate::{
    effect::{Effect, Message, Reply},
    event::Event,
    ids::{FencingToken, KindName, NodeName, SlotName},
    job::Outcome,
    kind::PausePolicy,
    lease::Stage,
    node::Node,
    refusal::{Refusal, nearest},
    slots::{Pause, Scope, Slot},
    step::{
        Step,
        fleet::newest,
        outcome::{End, How},
        text,
    },
};

impl Step<'_> {
    pub(super) fn pause_kind(&mut self, name: &KindName, policy: Option<PausePolicy>) -> Result<(), Refusal> {
        let entry = self.state.kinds.get(name).ok_or_else(|| Refusal::KindNotFound {
            kind: name.clone(),
            nearest: nearest(name.as_str(), self.state.kinds.keys(), |name| name.as_str()),
        })?;
        let changed = entry.kind.paused != policy;
        let mut kind = entry.kind.clone();
        if changed {
            kind.paused = policy;
            self.emit(Event::KindPaused { kind: name.clone(), policy });
        }
        self.reply(Reply::Kind { kind: Box::new(kind), changed });
        Ok(())
    }

    pub(super) fn pause_slot(&mut self, name: &SlotName, duration: Option<Duration>) -> Result<(), Refusal> {
        let slot = self.slot(name)?;
        let pause = Pause { until: duration.map(|length| self.now.wall.after(length)) };
        self.put_slot(Slot { paused: Some(pause), ..slot })
    }

    pub(super) fn resume_slot(&mut self, name: &SlotName) -> Result<(), Refusal> {
        let slot = self.slot(name)?;
        self.put_slot(Slot { paused: None, throttled_until: None, ..slot })
    }

    pub(super) fn set_capacity(&mut self, name: &SlotName, capacity: u32) -> Result<(), Refusal> {
        let slot = self.slot(name)?;
        match slot.scope {
            Scope::Node => Err(Refusal::NotAFleetSlot { slot: name.clone() }),
            Scope::Fleet { capacity: old } if old == capacity => self.put_slot(slot),
            Scope::Fleet { .. } => {
                let capacity_since = newest(self.state);
                self.put_slot(Slot { scope: Scope::Fleet { capacity }, capacity_since, ..slot })
            }
        }
    }

    fn put_slot(&mut self, slot: Slot) -> Result<(), Refusal> {
        let changed = self.state.slots.get(&slot.name) != Some(&slot);
        if changed {
            self.emit(Event::SlotPut(slot.clone()));
        }
        self.reply(Reply::Slot { slot: Box::new(slot), changed });
        Ok(())
    }

    fn slot(&self, name: &SlotName) -> Result<Slot, Refusal> {
        self.state.slots.get(name).cloned().ok_or_else(|| Refusal::SlotNotFound {
            slot: name.clone(),
            nearest: nearest(name.as_str(), self.state.slots.keys(), |name| name.as_str()),
        })
    }

    pub(super) fn cordon(&mut self, name: &NodeName) -> Result<(), Refusal> {
        let node = self.node(name)?;
        self.put_node(Node { cordoned: true, ..node })
    }

    pub(super) fn uncordon(&mut self, name: &NodeName) -> Result<(), Refusal> {
        let node = self.node(name)?;
        let was_draining = node.draining.is_some();
        let forgot = self.forget_backoffs(name);
        self.put_node_anew(Node { cordoned: false, draining: None, ..node }, forgot)?;
        if was_draining {
            self.send(name, Message::Drain { deadline: None });
        }
        Ok(())
    }

    pub(super) fn drain(&mut self, name: &NodeName, deadline: Duration) -> Result<(), Refusal> {
        let node = self.node(name)?;
        if node.draining.is_none() {
            self.put_node(Node { draining: Some(deadline), ..node })?;
            self.send(name, Message::Drain { deadline: Some(deadline) });
            return Ok(());
        }
        self.put_node(node)
    }

    fn put_node(&mut self, node: Node) -> Result<(), Refusal> {
        self.put_node_anew(node, false)
    }

    /// `changed`: something beside its row is changed already.
    fn put_node_anew(&mut self, node: Node, changed: bool) -> Result<(), Refusal> {
        let is_new = self.state.nodes.get(&node.name).is_none_or(|entry| entry.node != node);
        let name = node.name.clone();
        if is_new {
            self.emit(Event::NodePut(Box::new(node)));
        }
        self.reply(Reply::Node { node: name, changed: changed || is_new });
        Ok(())
    }

    fn node(&self, name: &NodeName) -> Result<Node, Refusal> {
        let entry = self.state.nodes.get(name);
        entry.map(|entry| entry.node.clone()).ok_or_else(|| Refusal::NodeNotFound {
            node: name.clone(),
            nearest: nearest(name.as_str(), self.state.nodes.keys(), |name| name.as_str()),
        })
    }

    pub(super) fn forget(&mut self, name: &NodeName, lost: bool, validate_only: bool) -> Result<(), Refusal> {
        self.node(name)?;
        let Some(entry) = self.state.nodes.get(name) else { return Ok(()) };
        let leases: Vec<FencingToken> = entry.leases.iter().copied().collect();
        let session = entry.live.as_ref().map(|live| live.session);
        if !lost && !leases.is_empty() {
            let leases = u32::try_from(leases.len()).unwrap_or(u32::MAX);
            return Err(Refusal::NodeHoldsLeases { node: name.clone(), leases });
        }
        if !lost && session.is_some() {
            return Err(Refusal::NodeConnected { node: name.clone() });
        }
        let ended = u32::try_from(leases.len()).unwrap_or(u32::MAX);
        if !validate_only {
            for token in leases {
                self.end_as_lost(token);
            }
            if let Some(session) = session {
                self.effect(Effect::CloseSession { node: name.clone(), session, reason: "NODE_FORGOTTEN" });
            }
            self.emit(Event::NodeForgotten(name.clone()));
        }
        self.reply(Reply::Forgotten { node: name.clone(), ended });
        Ok(())
    }

    /// An operator asserts that the host of a lease is dead.
    fn end_as_lost(&mut self, token: FencingToken) {
        let Some(entry) = self.state.leases.get(&token) else { return };
        match entry.lease.stage {
            Stage::Granted => self.end(
                token,
                End {
                    cause: text("node_forgotten"),
                    error: text("an operator declared the node lost"),
                    ..End::new(Outcome::Lost, How::Gone)
                },
            ),
            Stage::Finished | Stage::Unreaped => self.emit(Event::LeaseGone(token)),
        }
    }
}
