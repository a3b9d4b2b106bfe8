//! Places for connections, whose number can change while they are taken.
//!
//! Invariant: places are given out only while fewer are taken than there are; who has one keeps it.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;

/// All places. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Room(Arc<Places>);

#[derive(Debug)]
struct Places {
    free: Semaphore,
    count: Mutex<Count>,
}

#[derive(Debug)]
struct Count {
    /// How many there are.
    all: u32,
    /// Taken ones that are not there any more: they vanish when they are given back.
    gone: u32,
}

/// A place. It is given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Taken(Arc<Places>);

impl Room {
    pub(crate) fn new(all: u32) -> Self {
        let count = Mutex::new(Count { all, gone: 0 });
        Self(Arc::new(Places { free: Semaphore::new(all as usize), count }))
    }

    /// A place, once there is one. Cancel-safe.
    pub(crate) async fn take(&self) -> Option<Taken> {
        self.0.free.acquire().await.ok()?.forget();
        Some(Taken(Arc::clone(&self.0)))
    }

    /// From now on there are that many.
    pub(crate) fn resize(&self, all: u32) {
        let mut count = self.0.count.lock().unwrap_or_else(PoisonError::into_inner);
        let (more, fewer) = (all.saturating_sub(count.all), count.all.saturating_sub(all));
        count.all = all;
        let returned = more.min(count.gone);
        count.gone -= returned;
        self.0.free.add_permits((more - returned) as usize);
        let vanished = self.0.free.forget_permits(fewer as usize);
        count.gone += fewer - u32::try_from(vanished).unwrap_or(fewer).min(fewer);
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut count = self.0.count.lock().unwrap_or_else(PoisonError::into_inner);
        if count.gone > 0 {
            count.gone -= 1;
        } else {
            self.0.free.add_permits(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free(room: &Room) -> usize {
        room.0.free.available_permits()
    }

    #[tokio::test]
    async fn fewer_places_are_there_once_those_that_are_too_many_were_given_back() {
        let room = Room::new(4);
        let mut taken = Vec::new();
        for _ in 0..3 {
            taken.push(room.take().await.unwrap());
        }
        room.resize(2);
        assert_eq!(free(&room), 0);
        drop(taken.pop());
        assert_eq!(free(&room), 0, "two are taken, and two there are");
        drop(taken.pop());
        assert_eq!(free(&room), 1);
        room.resize(5);
        assert_eq!(free(&room), 4);
        room.resize(1);
        room.resize(3);
        assert_eq!(free(&room), 2);
        drop(taken);
        assert_eq!(free(&room), 3);
    }
}
