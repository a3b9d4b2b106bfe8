//! Who holds units of which fleet slot: an index over the leases, so that nobody walks all of them to name a few.
//! Those of a node are listed by the node.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    ids::{FencingToken, SlotName},
    slots::Needs,
};

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Holders {
    /// None is empty.
    slots: BTreeMap<SlotName, BTreeSet<FencingToken>>,
}

impl Holders {
    /// A lease holds these from now on.
    pub(crate) fn take(&mut self, token: FencingToken, taken: &Needs) {
        for (slot, _) in taken.iter() {
            self.slots.entry(slot.clone()).or_default().insert(token);
        }
    }

    /// A lease holds nothing of these any more.
    pub(crate) fn give_back(&mut self, token: FencingToken, given: &Needs) {
        for (slot, _) in given.iter() {
            let Some(tokens) = self.slots.get_mut(slot) else { continue };
            tokens.remove(&token);
            if tokens.is_empty() {
                self.slots.remove(slot);
            }
        }
    }

    /// The leases that hold a slot after this one, the oldest first: tokens only grow.
    pub(crate) fn after(&self, slot: &SlotName, token: FencingToken) -> impl Iterator<Item = FencingToken> {
        use std::ops::Bound::{Excluded, Unbounded};
        self.slots
            .get(slot)
            .into_iter()
            .flat_map(move |tokens| tokens.range((Excluded(token), Unbounded)))
            .copied()
    }
}
