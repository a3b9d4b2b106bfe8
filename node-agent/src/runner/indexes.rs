//! Slots whose units have numbers, such as GPUs: which of them each attempt has.
//!
//! Responsible for giving each attempt its own. Not responsible for how many units are taken (`holdings.rs`), which never
//! are more than there are numbers, nor for writing down who has what (`workspace.rs`).
//!
//! Invariant: a number is given to nobody else until the tree of the attempt that has it is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::holdings::FencingToken;

/// The numbers that one attempt has, by slot.
pub(super) type Assigned = BTreeMap<String, Vec<u32>>;

/// Who has what.
#[derive(Debug, Default)]
pub(super) struct Indexes {
    all: BTreeMap<String, Vec<u32>>,
    taken: Mutex<BTreeSet<(String, u32, FencingToken)>>,
}

impl Indexes {
    pub(super) fn new(all: BTreeMap<String, Vec<u32>>) -> Self {
        Self { all, taken: Mutex::default() }
    }

    /// Gives an attempt its numbers, the lowest that are free; empty, if it takes no such slot. None: too few are free,
    /// and nothing is taken.
    pub(super) fn take(&self, token: FencingToken, slots: &BTreeMap<String, u32>) -> Option<Assigned> {
        let mut taken = self.taken();
        let mut assigned = Assigned::new();
        for (slot, &units) in slots.iter().filter(|&(_, &units)| units > 0) {
            let Some(all) = self.all.get(slot) else { continue };
            let is_free = |index: &&u32| !taken.iter().any(|(name, one, _)| name == slot && one == *index);
            let units = usize::try_from(units).unwrap_or(usize::MAX);
            let free: Vec<u32> = all.iter().filter(is_free).take(units).copied().collect();
            if free.len() < units {
                return None;
            }
            assigned.insert(slot.clone(), free);
        }
        taken.extend(entries(token, &assigned));
        Some(assigned)
    }

    /// An attempt of an earlier agent has these.
    pub(super) fn hold(&self, token: FencingToken, assigned: &Assigned) {
        self.taken().extend(entries(token, assigned));
    }

    /// The tree of an attempt is gone, or never was.
    pub(super) fn release(&self, token: FencingToken) {
        self.taken().retain(|(_, _, holder)| *holder != token);
    }

    fn taken(&self) -> MutexGuard<'_, BTreeSet<(String, u32, FencingToken)>> {
        // Each change is a single call: what a panic left is whole.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn entries(token: FencingToken, assigned: &Assigned) -> impl Iterator<Item = (String, u32, FencingToken)> {
    let of_slot = move |(slot, indexes): (&String, &Vec<u32>)| {
        let slot = slot.clone();
        indexes.clone().into_iter().map(move |index| (slot.clone(), index, token))
    };
    assigned.iter().flat_map(of_slot)
}

/// The variable that tells a command which numbers of a slot it has. Dots and hyphens, which no shell takes in a name, are
/// underscores in it.
pub(super) fn variable(slot: &str) -> String {
    format!("TENURE_SLOT_{}", crate::config::in_a_variable(slot))
}

/// Its value: `0,2`.
pub(super) fn value(indexes: &[u32]) -> String {
    indexes.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indexes() -> Indexes {
        Indexes::new(BTreeMap::from([("gpu".to_owned(), vec![0, 2, 5]), ("card".to_owned(), vec![7])]))
    }

    fn slots(all: &[(&str, u32)]) -> BTreeMap<String, u32> {
        all.iter().map(|&(slot, units)| (slot.to_owned(), units)).collect()
    }

    fn taken(indexes: &Indexes, token: u64, wanted: &[(&str, u32)]) -> Option<Vec<(String, String)>> {
        let assigned = indexes.take(FencingToken(token), &slots(wanted))?;
        Some(assigned.iter().map(|(slot, indexes)| (variable(slot), value(indexes))).collect())
    }

    #[test]
    fn each_attempt_has_its_own_until_its_tree_is_gone() {
        let indexes = indexes();
        let of = |value: &str| Some(vec![("TENURE_SLOT_gpu".to_owned(), value.to_owned())]);
        assert_eq!(taken(&indexes, 1, &[("gpu", 2), ("shell", 3)]), of("0,2"));
        assert_eq!(taken(&indexes, 2, &[("gpu", 1)]), of("5"));
        assert_eq!(taken(&indexes, 3, &[("gpu", 1)]), None);
        indexes.release(FencingToken(1));
        assert_eq!(taken(&indexes, 3, &[("gpu", 1)]), of("0"));
        assert_eq!(taken(&indexes, 4, &[("shell", 1), ("gpu", 0)]), Some(Vec::new()));
    }

    #[test]
    fn too_few_of_one_slot_take_nothing_of_another() {
        let indexes = indexes();
        assert_eq!(taken(&indexes, 1, &[("gpu", 3), ("card", 2)]), None);
        assert!(taken(&indexes, 2, &[("gpu", 3), ("card", 1)]).is_some());
    }

    #[test]
    fn what_an_earlier_agent_gave_is_taken_though_the_node_file_names_it_no_more() {
        let indexes = indexes();
        let left = BTreeMap::from([("gpu".to_owned(), vec![2, 9])]);
        indexes.hold(FencingToken(1), &left);
        assert_eq!(indexes.take(FencingToken(2), &slots(&[("gpu", 2)])).unwrap()["gpu"], [0, 5]);
        indexes.release(FencingToken(1));
        assert_eq!(indexes.take(FencingToken(3), &slots(&[("gpu", 1)])).unwrap()["gpu"], [2]);
    }
}
