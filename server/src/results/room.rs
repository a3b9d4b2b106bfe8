//! Places for bytes of results that are on their way, shared out among nodes.
//!
//! Responsible for how many there are at once, and for no node having so many that others get none. Not responsible for how
//! long one is held (`pace.rs`).
//!
//! Invariant: a node may take one more only while more are free than it holds. So one node alone has at most half of them,
//! the more are held the fewer one may add, and a node that holds none gets one for as long as any is free.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tenure_scheduler::NodeName;

/// All places of one kind. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Room {
    all: usize,
    held: Arc<Mutex<HashMap<NodeName, usize>>>,
}

/// A place. It is given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    room: Room,
    node: NodeName,
}

/// Why a node gets no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full {
    /// Places that this node has; 0: others have all of them.
    pub(crate) held: usize,
    /// How many there are.
    pub(crate) all: usize,
}

impl Room {
    /// So many places, at least 1.
    pub(crate) fn new(all: usize) -> Self {
        Self { all, held: Arc::default() }
    }

    /// A place for this node.
    ///
    /// # Errors
    /// If none is free, or the others are kept for other nodes.
    pub(crate) fn place(&self, node: &NodeName) -> Result<Place, Full> {
        let mut places = self.places();
        let free = self.all.saturating_sub(places.values().sum());
        let held = places.get(node).copied().unwrap_or_default();
        if held >= free {
            return Err(Full { held, all: self.all });
        }
        places.insert(node.clone(), held + 1);
        Ok(Place { room: self.clone(), node: node.clone() })
    }

    fn places(&self) -> MutexGuard<'_, HashMap<NodeName, usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut places = self.room.places();
        if let Some(held) = places.get_mut(&self.node) {
            *held -= 1;
            if *held == 0 {
                places.remove(&self.node);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(n: usize) -> NodeName {
        NodeName::new(format!("n{n}"))
    }

    #[test]
    fn one_node_gets_half_and_every_node_gets_one_while_one_is_free() {
        let room = Room::new(8);
        let mut of_first: Vec<_> = (0..4).map(|_| room.place(&node(1)).unwrap()).collect();
        assert_eq!(room.place(&node(1)).unwrap_err(), Full { held: 4, all: 8 });
        let of_second = [room.place(&node(2)).unwrap(), room.place(&node(2)).unwrap()];
        assert_eq!(
            room.place(&node(2)).unwrap_err(),
            Full { held: 2, all: 8 },
            "the last two are for others"
        );
        let others = [room.place(&node(3)).unwrap(), room.place(&node(4)).unwrap()];
        assert_eq!(room.place(&node(5)).unwrap_err(), Full { held: 0, all: 8 });
        drop(of_first.pop());
        assert_eq!(room.place(&node(1)).unwrap_err(), Full { held: 3, all: 8 }, "it has its share");
        let late = room.place(&node(5)).unwrap();
        drop((of_first, of_second, others, late));
        assert!(room.places().is_empty(), "nothing is kept of nodes that are gone");
        assert!(Room::new(1).place(&node(1)).is_ok());
    }
}
