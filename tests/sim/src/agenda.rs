//! What is to happen and when. Two things of the same moment happen in the order in which they were planned.

use std::{cmp::Ordering, collections::BinaryHeap};

/// See the module.
#[derive(Debug)]
pub(crate) struct Agenda<T> {
    entries: BinaryHeap<Entry<T>>,
    planned: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at: u64,
    order: u64,
    what: T,
}

impl<T> Default for Agenda<T> {
    fn default() -> Self {
        Self { entries: BinaryHeap::new(), planned: 0 }
    }
}

impl<T> Agenda<T> {
    pub(crate) fn plan(&mut self, at: u64, what: T) {
        self.planned += 1;
        self.entries.push(Entry { at, order: self.planned, what });
    }

    pub(crate) fn next(&mut self) -> Option<(u64, T)> {
        self.entries.pop().map(|entry| (entry.at, entry.what))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    /// The heap gives its greatest: that is what comes first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}
