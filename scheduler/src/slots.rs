//! Slots: named, counted permits. Every limit is one; all of them are taken in one place, all or nothing.

use std::{collections::BTreeMap, fmt};

use crate::{
    ids::{FencingToken, SlotName},
    rate::RateLimit,
    time::Wall,
};

/// Where the units of a slot are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Each node reports its own.
    Node,
    /// One capacity for the whole fleet.
    Fleet {
        /// Units in all.
        capacity: u32,
    },
}

/// A declared slot. Owned by the fleet file; its capacity and pause by operators too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Its name.
    pub name: SlotName,
    /// Where it is counted.
    pub scope: Scope,
    /// Present while nothing that needs it may start.
    pub paused: Option<Pause>,
    /// The newest token granted before its capacity last changed: who holds more than the capacity since then was
    /// granted before, or there is a bug.
    pub capacity_since: FencingToken,
    /// A job said that its provider wants no more of what it stands for until then: nothing that needs it may start.
    /// Beside a pause of an operator, which it neither shortens nor ends.
    pub throttled_until: Option<Wall>,
    /// How fast its units may be granted, for a fleet slot; none: as fast as they are free.
    pub rate: Option<RateLimit>,
    /// When its bucket is full again, as the last grant left it; none: nothing was taken from it. A later leader goes
    /// on from there.
    pub full_at: Option<Wall>,
}

impl Slot {
    /// What keeps everything from starting that needs it: the pause, or the throttle, or the later of both.
    #[must_use]
    pub fn kept(&self) -> Option<Pause> {
        match (self.paused, self.throttled_until) {
            (None, None) => None,
            (Some(pause), None) => Some(pause),
            (None, Some(until)) => Some(Pause { until: Some(until) }),
            (Some(pause), Some(until)) => Some(Pause { until: pause.until.map(|end| end.max(until)) }),
        }
    }
}

/// A pause of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// When it ends by itself; none: it does not.
    pub until: Option<Wall>,
}

/// Amounts of slots, sorted by name, each named once and at least 1.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Needs(Box<[(SlotName, u32)]>);

impl Needs {
    /// Takes amounts in any order. Zeros vanish; of a name given twice the sum counts.
    #[must_use]
    pub fn new(amounts: impl IntoIterator<Item = (SlotName, u32)>) -> Self {
        let mut sums: BTreeMap<SlotName, u32> = BTreeMap::new();
        for (slot, amount) in amounts {
            let sum = sums.entry(slot).or_default();
            *sum = sum.saturating_add(amount);
        }
        Self(sums.into_iter().filter(|&(_, amount)| amount > 0).collect())
    }

    /// Names and amounts, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&SlotName, u32)> {
        self.0.iter().map(|(slot, amount)| (slot, *amount))
    }

    /// How much of one slot; 0 if it is not named.
    #[must_use]
    pub fn amount(&self, slot: &SlotName) -> u32 {
        self.0.binary_search_by(|(name, _)| name.cmp(slot)).map_or(0, |at| self.0.get(at).map_or(0, |e| e.1))
    }

    /// Without every slot that the other names.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        Self(self.0.iter().filter(|(slot, _)| other.amount(slot) == 0).cloned().collect())
    }

    /// These and those.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        Self::new(self.0.iter().chain(&other.0).cloned())
    }

    /// Whether nothing is needed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (slot, amount)) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            write!(f, "{slot}:{amount}")?;
        }
        Ok(())
    }
}

/// What a lease takes: all of the needs, or the lease does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reservation {
    /// Of its node. Charged until the process tree is known to be gone.
    pub node: Needs,
    /// Of the fleet. Charged until the lease is over.
    pub fleet: Needs,
}

impl Reservation {
    /// Whether it takes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.node.is_empty() && self.fleet.is_empty()
    }
}

/// The slot that was short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortage {
    /// Its name.
    pub slot: SlotName,
    /// Units taken.
    pub used: u32,
    /// Units in all.
    pub capacity: u32,
}

/// Capacity and use of one counted set of slots: those of a node, or those of the fleet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ledger {
    entries: BTreeMap<SlotName, Count>,
}

/// Of one slot in one ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Units in all.
    pub capacity: u32,
    /// Units taken. Above the capacity only after that was lowered.
    pub used: u32,
}

impl Count {
    /// Units free; 0 while more is taken than there is.
    #[must_use]
    pub fn free(self) -> u32 {
        self.capacity.saturating_sub(self.used)
    }
}

impl Ledger {
    /// One slot; zeros if it is not there.
    #[must_use]
    pub fn count(&self, slot: &SlotName) -> Count {
        self.entries.get(slot).copied().unwrap_or_default()
    }

    /// All slots with a capacity or a use, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&SlotName, Count)> {
        self.entries.iter().map(|(slot, count)| (slot, *count))
    }

    /// The first slot of which less is free than needed. It looks, and takes nothing. `cap` may lower a capacity.
    ///
    /// # Errors
    /// The slot that is short.
    pub fn check(&self, needs: &Needs, cap: impl Fn(&SlotName) -> Option<u32>) -> Result<(), Shortage> {
        for (slot, amount) in needs.iter() {
            let mut count = self.count(slot);
            count.capacity = cap(slot).map_or(count.capacity, |cap| cap.min(count.capacity));
            if count.free() < amount {
                return Err(Shortage { slot: slot.clone(), used: count.used, capacity: count.capacity });
            }
        }
        Ok(())
    }

    pub(crate) fn set_capacity(&mut self, slot: &SlotName, capacity: u32) {
        self.entries.entry(slot.clone()).or_default().capacity = capacity;
        self.tidy(slot);
    }

    pub(crate) fn take(&mut self, needs: &Needs) {
        for (slot, amount) in needs.iter() {
            let count = self.entries.entry(slot.clone()).or_default();
            count.used = count.used.saturating_add(amount);
        }
    }

    pub(crate) fn give_back(&mut self, needs: &Needs) {
        for (slot, amount) in needs.iter() {
            if let Some(count) = self.entries.get_mut(slot) {
                count.used = count.used.saturating_sub(amount);
            }
            self.tidy(slot);
        }
    }

    /// An entry without capacity and use is no entry, so that equal ledgers compare equal.
    fn tidy(&mut self, slot: &SlotName) {
        if self.count(slot) == Count::default() {
            self.entries.remove(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(name: &str) -> SlotName {
        SlotName::new(name)
    }

    #[test]
    fn needs_are_sorted_summed_and_without_zeros() {
        let needs = Needs::new([(slot("b"), 1), (slot("a"), 0), (slot("b"), 2)]);
        assert_eq!(needs.to_string(), "b:3");
        assert_eq!((needs.amount(&slot("b")), needs.amount(&slot("a"))), (3, 0));
    }

    #[test]
    fn a_shortage_names_the_slot_and_takes_nothing() {
        let mut ledger = Ledger::default();
        ledger.set_capacity(&slot("a"), 2);
        ledger.set_capacity(&slot("b"), 1);
        let needs = Needs::new([(slot("a"), 1), (slot("b"), 2)]);
        let before = ledger.clone();
        let short = ledger.check(&needs, |_| None).unwrap_err();
        assert_eq!((short.slot.as_str(), short.used, short.capacity), ("b", 0, 1));
        assert_eq!(ledger, before);
    }

    #[test]
    fn a_capacity_below_use_leaves_nothing_free() {
        let mut ledger = Ledger::default();
        ledger.set_capacity(&slot("a"), 3);
        ledger.take(&Needs::new([(slot("a"), 3)]));
        ledger.set_capacity(&slot("a"), 1);
        assert_eq!(ledger.count(&slot("a")).free(), 0);
        ledger.give_back(&Needs::new([(slot("a"), 3)]));
        assert_eq!(ledger.count(&slot("a")).free(), 1);
    }
}
