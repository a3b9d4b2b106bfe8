//! The queue of a class: its waiting jobs in order, with positions. Per priority one line, and a line is a list of
//! sorted chunks of about √n places.
//!
//! Jobs come at the end and go from the front, mostly, and both are cheap; what comes back takes its old place within
//! its chunk. A chunk that fills up at the end of its line is followed by another and stays full, so that a million
//! jobs cost 24 MB; a balanced tree that is filled in order stays half empty. "How many stand before this one" adds
//! the lengths of chunks: O(√n).

use std::{cmp::Reverse, collections::VecDeque};

use crate::{
    ids::{JobId, Sequence},
    job::Job,
};

/// Where a job stands in its queue: higher priority first, then the older enqueue.
pub(crate) type Place = (Reverse<i8>, Sequence, JobId);

/// The place of a job in the queue of its class.
pub(crate) fn place_of(job: &Job) -> Place {
    (Reverse(job.priority), job.sequence, job.id)
}

/// A chunk is split when it is longer than this and longer than the root of the length of its line.
const SHORTEST_SPLIT: usize = 64;

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Queue {
    /// The highest priority first. None is empty.
    lines: Vec<Line>,
}

/// Where a job stands within its priority.
type Spot = (Sequence, JobId);

/// The jobs of one priority.
#[derive(Debug, Clone)]
struct Line {
    priority: Reverse<i8>,
    /// None is empty.
    chunks: VecDeque<VecDeque<Spot>>,
    len: usize,
}

impl Queue {
    pub(crate) fn len(&self) -> usize {
        self.lines.iter().map(|line| line.len).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    pub(crate) fn insert(&mut self, job: &Job) {
        self.put(place_of(job));
    }

    pub(crate) fn remove(&mut self, job: &Job) {
        self.take(&place_of(job));
    }

    pub(crate) fn contains(&self, job: &Job) -> bool {
        self.holds(&place_of(job))
    }

    /// The first of each priority in use, the highest priority first.
    pub(crate) fn heads(&self) -> impl Iterator<Item = Place> {
        self.lines.iter().filter_map(|line| Some(place(line.priority, *line.chunks.front()?.front()?)))
    }

    /// All of them, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = JobId> {
        self.places().map(|(_, _, job)| job)
    }

    /// How many stand before this job, whether or not it stands there itself.
    pub(crate) fn position(&self, job: &Job) -> usize {
        self.before(&place_of(job))
    }

    fn places(&self) -> impl Iterator<Item = Place> {
        self.lines
            .iter()
            .flat_map(|line| line.chunks.iter().flatten().map(|spot| place(line.priority, *spot)))
    }

    fn holds(&self, place: &Place) -> bool {
        self.line(place.0)
            .is_ok_and(|at| self.lines.get(at).is_some_and(|line| line.find(spot(place)).is_ok()))
    }

    /// How many stand before this place.
    pub(crate) fn before(&self, place: &Place) -> usize {
        let (at, own) = match self.line(place.0) {
            Ok(at) => (at, self.lines.get(at).map_or(0, |line| line.position(spot(place)))),
            Err(at) => (at, 0),
        };
        self.lines.iter().take(at).map(|line| line.len).sum::<usize>() + own
    }

    /// False: it stood there already.
    fn put(&mut self, place: Place) -> bool {
        let at = match self.line(place.0) {
            Ok(at) => at,
            Err(at) => {
                self.lines.insert(at, Line { priority: place.0, chunks: VecDeque::new(), len: 0 });
                at
            }
        };
        self.lines.get_mut(at).is_some_and(|line| line.insert(spot(&place)))
    }

    /// False: it did not stand there.
    fn take(&mut self, place: &Place) -> bool {
        let Ok(at) = self.line(place.0) else { return false };
        let Some(line) = self.lines.get_mut(at) else { return false };
        let removed = line.remove(spot(place));
        if line.len == 0 {
            self.lines.remove(at);
        }
        removed
    }

    /// The line of a priority, or where it would stand.
    fn line(&self, priority: Reverse<i8>) -> Result<usize, usize> {
        self.lines.binary_search_by_key(&priority, |line| line.priority)
    }
}

fn place(priority: Reverse<i8>, (sequence, job): Spot) -> Place {
    (priority, sequence, job)
}

fn spot(place: &Place) -> Spot {
    (place.1, place.2)
}

impl Line {
    /// The chunk in which a spot is or would be, and its place there.
    fn find(&self, spot: Spot) -> Result<(usize, usize), (usize, usize)> {
        // The last chunk that begins at or before it; what comes before all goes into the first.
        let begins_before = |chunk: &VecDeque<Spot>| chunk.front().is_some_and(|first| *first <= spot);
        let at = self.chunks.partition_point(begins_before).saturating_sub(1);
        match self.chunks.get(at).map(|chunk| chunk.binary_search(&spot)) {
            Some(Ok(within)) => Ok((at, within)),
            Some(Err(within)) => Err((at, within)),
            None => Err((at, 0)),
        }
    }

    fn position(&self, spot: Spot) -> usize {
        let (at, within) = self.find(spot).unwrap_or_else(|nearest| nearest);
        self.chunks.iter().take(at).map(VecDeque::len).sum::<usize>() + within
    }

    fn insert(&mut self, spot: Spot) -> bool {
        let Err((at, within)) = self.find(spot) else { return false };
        self.len += 1;
        let most = self.len.isqrt().max(SHORTEST_SPLIT);
        let is_last = at + 1 >= self.chunks.len();
        match self.chunks.get_mut(at) {
            None => self.chunks.push_back(VecDeque::from([spot])),
            // The usual case: a younger one. A full chunk stays full.
            Some(chunk) if is_last && within == chunk.len() && chunk.len() >= most => {
                chunk.shrink_to_fit();
                self.chunks.push_back(VecDeque::from([spot]));
            }
            Some(chunk) => {
                chunk.insert(within, spot);
                if chunk.len() > 2 * most {
                    let half = chunk.split_off(chunk.len() / 2);
                    self.chunks.insert(at + 1, half);
                }
            }
        }
        true
    }

    fn remove(&mut self, spot: Spot) -> bool {
        let Ok((at, within)) = self.find(spot) else { return false };
        let Some(chunk) = self.chunks.get_mut(at) else { return false };
        chunk.remove(within);
        self.len -= 1;
        if chunk.is_empty() {
            self.chunks.remove(at);
        } else {
            self.join_with_next(at);
            if at > 0 {
                self.join_with_next(at - 1);
            }
        }
        true
    }

    /// Many removals in the middle must not leave many chunks of a few each.
    fn join_with_next(&mut self, at: usize) {
        let len = |at: usize| self.chunks.get(at).map(VecDeque::len);
        let (Some(here), Some(next)) = (len(at), len(at + 1)) else { return };
        if here + next > SHORTEST_SPLIT / 2 {
            return;
        }
        if let Some(mut next) = self.chunks.remove(at + 1)
            && let Some(chunk) = self.chunks.get_mut(at)
        {
            chunk.append(&mut next);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use uuid::Uuid;

    use super::*;
    use crate::retry::hash;

    fn at(priority: i8, sequence: u64) -> Place {
        (Reverse(priority), Sequence(sequence), JobId(Uuid::from_u128(u128::from(sequence))))
    }

    /// The queue and what it is compared with: a sorted set, in which positions are counted.
    #[derive(Default)]
    struct Both {
        queue: Queue,
        set: BTreeSet<Place>,
    }

    impl Both {
        fn insert(&mut self, place: Place) {
            assert_eq!(self.queue.put(place), self.set.insert(place));
        }

        fn remove(&mut self, place: &Place) {
            assert_eq!(self.queue.take(place), self.set.remove(place));
        }

        fn compare(&self, places: impl Iterator<Item = Place>) {
            assert_eq!(self.queue.places().collect::<Vec<_>>(), self.set.iter().copied().collect::<Vec<_>>());
            assert_eq!((self.queue.len(), self.queue.is_empty()), (self.set.len(), self.set.is_empty()));
            assert_eq!(self.queue.heads().next(), self.set.first().copied());
            for place in places {
                assert_eq!(self.queue.before(&place), self.set.range(..place).count());
                assert_eq!(self.queue.holds(&place), self.set.contains(&place));
            }
        }
    }

    #[test]
    fn it_is_a_sorted_set_with_positions() {
        let mut both = Both::default();
        // A pseudo-random walk that grows, then shrinks: `hash` is the scheduler's own.
        for step in 0..40_000_u64 {
            let drawn = hash(JobId(Uuid::nil()), step);
            let place = at(i8::try_from(drawn % 3).unwrap(), (drawn >> 8) % 4000);
            let grows = step < 20_000;
            if (drawn >> 40) % 3 == u64::from(grows) {
                both.remove(&place);
            } else if grows {
                both.insert(place);
            } else {
                both.remove(&place);
            }
            if step % 4001 == 0 {
                both.compare((0..4000).step_by(37).map(|sequence| at(1, sequence)));
            }
        }
        both.compare((0..4000).map(|sequence| at(0, sequence)));
    }

    #[test]
    fn a_queue_filled_in_order_has_full_chunks_and_few_of_them() {
        let mut queue = Queue::default();
        (0..250_000).for_each(|sequence| assert!(queue.put(at(0, sequence))));
        let line = &queue.lines[0];
        assert!(line.chunks.len() <= 2 * 250_000_usize.isqrt(), "{} chunks", line.chunks.len());
        let room: usize = line.chunks.iter().map(VecDeque::capacity).sum();
        assert!(room < 250_000 * 5 / 4, "room for {room}");
        assert_eq!(queue.before(&at(0, 200_000)), 200_000);
    }

    #[test]
    fn what_comes_back_takes_its_old_place() {
        let mut both = Both::default();
        (0..1000).for_each(|sequence| both.insert(at(0, sequence)));
        for sequence in 0..500 {
            both.remove(&at(0, sequence));
        }
        for sequence in (0..500).rev() {
            both.insert(at(0, sequence));
        }
        both.compare((0..1001).map(|sequence| at(0, sequence)));
        assert!(both.queue.lines[0].chunks.len() < 40);
    }

    #[test]
    fn holes_in_the_middle_leave_no_crowd_of_small_chunks() {
        let mut both = Both::default();
        (0..100_000).for_each(|sequence| both.insert(at(0, sequence)));
        for sequence in (0..100_000).filter(|sequence| sequence % 100 != 0) {
            both.remove(&at(0, sequence));
        }
        both.compare([at(0, 50_000)].into_iter());
        assert!(both.queue.lines[0].chunks.len() <= 100, "{} chunks", both.queue.lines[0].chunks.len());
    }

    #[test]
    fn heads_are_the_oldest_of_each_priority() {
        let mut queue = Queue::default();
        for place in [at(0, 7), at(50, 9), at(0, 3), at(-20, 1), at(50, 8)] {
            queue.put(place);
        }
        assert_eq!(queue.heads().collect::<Vec<_>>(), [at(50, 8), at(0, 3), at(-20, 1)]);
        queue.take(&at(0, 3));
        queue.take(&at(0, 7));
        assert_eq!(queue.heads().collect::<Vec<_>>(), [at(50, 8), at(-20, 1)]);
    }
}
