//! Indexes over nodes and classes, so that a decision costs a few words of bits and not a walk over the fleet.
//!
//! They hold nothing that the state does not, and decide nothing: a node that they offer is judged by `place/fit.rs`
//! like any other, and what they leave out would fail there. What of the state was changed since the last look is
//! noted where it is lent out ([`Touched`]), and taken over by [`Index::follow`] before anybody asks; nobody who changes
//! the state has to think of them.
//!
//! * `slots`: per node slot and amount that any class needs, the nodes with so much free, and the classes that need it;
//! * `types`: per kind and selector, the nodes that match and the classes that ask so;
//! * `nodes`: how far each node gets through the checks that are the same for all classes;
//! * `classes`: which are untried, which failed for the fleet or for the nodes, and what their reason hangs on.

mod agree;
mod bits;
mod classes;
mod nodes;
mod slots;
mod types;

use std::{collections::BTreeSet, fmt};

pub(crate) use self::bits::Bits;
use self::{
    bits::Sieve,
    classes::{Aim, ClassSide},
    nodes::NodeSide,
    slots::Columns,
    types::Types,
};
use crate::{
    ids::{NodeName, SlotName},
    node::Group,
    place::{
        classes::{Class, Classes},
        fit::Nearness,
    },
    state::Nodes,
};

/// With more news than this everything that waits for a node is worth a look.
const MOST_NEWS: usize = 64;

/// See the module.
#[derive(Clone, Default)]
pub(crate) struct Index {
    slots: Columns,
    types: Types,
    nodes: NodeSide,
    classes: ClassSide,
}

/// Handles of what was lent out to be changed, each once, in that order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Touched {
    order: Vec<u32>,
    all: Bits,
}

impl Touched {
    pub(crate) fn note(&mut self, handle: u32) {
        if !self.all.contains(handle) {
            self.all.put(handle, true);
            self.order.push(handle);
        }
    }

    pub(crate) fn take(&mut self) -> Vec<u32> {
        self.order.iter().for_each(|handle| self.all.put(*handle, false));
        std::mem::take(&mut self.order)
    }
}

/// What placement has to look at.
#[derive(Debug, Clone, Default)]
pub(crate) struct News {
    /// Nodes of which something became available, or that went away.
    pub(crate) nodes: BTreeSet<NodeName>,
    /// Fleet slots of which something became available.
    pub(crate) fleet: BTreeSet<SlotName>,
}

/// What a score is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Worth {
    /// How rare the slots are, in sum, that it has free and that are not needed: 1 for a slot that a half of all nodes
    /// has or fewer, one more for each halving; nothing for one that most nodes have.
    pub(crate) rare: u32,
    /// Its pressure weight.
    pub(crate) weight: u8,
    /// Thousandths of its units that would be left, summed over the needed slots.
    pub(crate) left: u32,
    /// A number made of its name.
    pub(crate) number: u64,
}

/// It holds nothing that the state beside it does not say.
impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").finish_non_exhaustive()
    }
}

impl Index {
    /// Of nothing yet. These node slots are declared: units of them that a node has free count in its score.
    pub(crate) fn new<'a>(declared: impl Iterator<Item = &'a SlotName>) -> Self {
        let mut index = Self::default();
        declared.for_each(|slot| index.slots.declare(slot));
        index
    }

    /// Takes over what changed.
    pub(crate) fn follow(&mut self, nodes: &mut Nodes, classes: &mut Classes) {
        // Classes first: what they need is what is known of nodes.
        for handle in classes.take_touched() {
            let class = classes.at(handle);
            self.classes.follow(handle, class, nodes, &mut self.slots, &mut self.types);
        }
        for handle in nodes.take_touched() {
            let node = nodes.at(handle);
            self.slots.follow(handle, node);
            self.types.follow(handle, node);
            self.nodes.follow(handle, node);
        }
    }

    /// The handles of the classes that are worth a look: those that were never tried, those that failed for a fleet
    /// slot that gained, and those that failed for the nodes and may fit on one that gained, or hear of it why not.
    pub(crate) fn worth_a_look(&self, nodes: &Nodes, news: &News) -> Vec<u32> {
        let mut found = self.classes.untried.clone();
        for slot in &news.fleet {
            if let Some(needing) = self.classes.needing(slot) {
                found.add_all(&Sieve::new(needing).and(&self.classes.of_fleet));
            }
        }
        if news.nodes.len() > MOST_NEWS {
            found.add(&self.classes.of_nodes);
            return found.iter().collect();
        }
        for name in &news.nodes {
            if let Some(told) = self.classes.told_by(name) {
                found.add_all(&Sieve::new(told).and(&self.classes.of_nodes));
            }
            let Some(handle) = nodes.handle(name) else { continue };
            let too_much: Vec<&Bits> = self.slots.too_much(handle).collect();
            for asking in self.types.asking(handle) {
                found.add_all(&Sieve::new(asking).and(&self.classes.shallow));
                if self.nodes.is_up(handle) {
                    let sieve = Sieve::new(asking).and(&self.classes.of_nodes);
                    found.add_all(&sieve.but_none(too_much.iter().copied()));
                }
            }
        }
        found.iter().collect()
    }

    /// The most that any node has of a slot; none: it is not known here, which says nothing of the nodes.
    pub(crate) fn most_of(&self, slot: &SlotName) -> Option<u32> {
        self.slots.most_of(slot)
    }

    /// Whether a class with jobs has not been tried since something of it changed.
    pub(crate) fn has_untried(&self) -> bool {
        !self.classes.untried.is_empty()
    }

    /// Whether one of these nodes has so much free.
    pub(crate) fn is_room_on(&self, nodes: &Nodes, class: &Class, names: &BTreeSet<NodeName>) -> bool {
        let Some(aim) = self.classes.aim(class) else { return true };
        let room = |name: &NodeName| nodes.handle(name).is_some_and(|handle| self.slots.fits(handle, aim));
        names.len() > MOST_NEWS || names.iter().any(room)
    }

    /// The nodes on which a class may fit, from a word on that the number chooses.
    pub(crate) fn fitting(&self, class: &Class, number: u64) -> impl Iterator<Item = u32> {
        let sieve = self.classes.aim(class).map(|aim| self.with_room(class, aim).and(&self.nodes.answering));
        sieve.into_iter().flat_map(move |sieve| sieve.iter_from(number))
    }

    /// Nodes of one type are equal in labels, kinds and capacities.
    pub(crate) fn type_of(&self, handle: u32) -> Option<u32> {
        self.types.type_of(handle)
    }

    /// What a node that a class may fit on is worth to it.
    pub(crate) fn worth(&self, class: &Class, handle: u32) -> Worth {
        let aim = self.classes.aim(class);
        let (rare, left) = aim.map_or((0, 0), |aim| self.slots.rest(handle, aim, self.nodes.count));
        let (weight, number) = self.nodes.weight_and_number(handle);
        Worth { rare, weight, left, number }
    }

    /// The nodes that come so near to a fit, or may, and perhaps some that come nearer. Of those that are too small one of
    /// each type. The highest handle first.
    pub(crate) fn within(&self, class: &Class, limit: Nearness, warm: bool) -> impl Iterator<Item = u32> {
        let sieve = self.classes.aim(class).and_then(|aim| {
            let nodes = &self.nodes;
            let able = Sieve::new(self.types.matching(aim.profile)).and_each(self.slots.holding(aim));
            let wanted = || able.clone().and(&nodes.undrained).and(&nodes.uncordoned);
            Some(match limit {
                Nearness::NoMatch | Nearness::TooSmall => return None,
                // A new leader does not yet hold it against a node that it has no session.
                Nearness::WarmingUp if !warm => wanted().but_none([&nodes.connected]),
                Nearness::WarmingUp => return None,
                Nearness::Draining => able.clone().but_none([&nodes.undrained]),
                Nearness::Cordoned => able.clone().and(&nodes.undrained).but_none([&nodes.uncordoned]),
                Nearness::Suspect if !warm => wanted().and(&nodes.connected),
                Nearness::Suspect => wanted(),
                Nearness::Pressure => wanted().and(&nodes.heard),
                Nearness::OldAgent | Nearness::BackedOff | Nearness::Masked | Nearness::SlotBusy => {
                    self.open(class, wanted().and(&nodes.heard))
                }
                Nearness::Earmarked | Nearness::Unanswered => self.with_room(class, aim),
            })
        });
        let of_types = self.classes.aim(class).filter(|_| limit == Nearness::TooSmall);
        let of_types = of_types.into_iter().flat_map(|aim| self.types.examples(aim.profile));
        sieve.into_iter().flat_map(Sieve::iter_down).chain(of_types)
    }

    /// Without those whose pressure closes them for the class.
    fn open<'a>(&'a self, class: &Class, sieve: Sieve<'a>) -> Sieve<'a> {
        let slots = class.key.needs.iter().map(|(slot, _)| Group::Slot(slot.clone()));
        let groups = slots.chain([Group::All, Group::Kind(class.key.kind.clone())]);
        sieve.but_none(groups.filter_map(|group| self.nodes.closed(&group)))
    }

    /// The nodes that match, take grants, are open, and have room.
    fn with_room<'a>(&'a self, class: &Class, aim: &'a Aim) -> Sieve<'a> {
        let nodes = &self.nodes;
        let up = Sieve::new(self.types.matching(aim.profile))
            .and(&nodes.undrained)
            .and(&nodes.uncordoned)
            .and(&nodes.heard);
        self.open(class, up).and_each(self.slots.with_room(aim))
    }
}
