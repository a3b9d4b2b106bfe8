//! The queue of a class: its waiting jobs in order, with positions. Per priority one line, and a line is a sorted set in
//! chunks (`sorted.rs`): jobs come at its end and go from its front, mostly, and a million of them cost 24 MB. "How many
//! stand before this one" adds the lengths of chunks.

use std::cmp::Reverse;

use crate::{
    ids::{JobId, Sequence},
    job::Job,
    sorted::Sorted,
};

/// Where a job stands in its queue: higher priority first, then the older enqueue.
pub(crate) type Place = (Reverse<i8>, Sequence, JobId);

/// The place of a job in the queue of its class.
pub(crate) fn place_of(job: &Job) -> Place {
    (Reverse(job.priority), job.sequence, job.id)
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Queue {
    /// The highest priority first. None is empty.
    lines: Vec<PriorityLine>,
}

/// Where a job stands within its priority.
type Spot = (Sequence, JobId);

/// The jobs of one priority.
#[derive(Debug, Clone)]
pub(crate) struct PriorityLine {
    priority: Reverse<i8>,
    spots: Sorted<Spot>,
}

impl Queue {
    pub(crate) fn len(&self) -> usize {
        self.lines.iter().map(|line| line.spots.len()).sum()
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
        self.lines.iter().filter_map(|line| Some(place(line.priority, *line.spots.first()?)))
    }

    /// All of them, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = JobId> {
        self.places().map(|(_, _, job)| job)
    }

    /// One line for each priority in use, the highest priority first.
    pub(crate) fn lines(&self) -> &[PriorityLine] {
        &self.lines
    }

    /// How many stand before this place, whether or not anybody stands there.
    pub(crate) fn before(&self, wanted: &Place) -> usize {
        let lines = self.lines.iter();
        lines.map(|line| line.leading(|sequence, job| place(line.priority, (sequence, job)) < *wanted)).sum()
    }

    fn places(&self) -> impl Iterator<Item = Place> {
        self.lines.iter().flat_map(|line| line.spots.iter().map(|spot| place(line.priority, *spot)))
    }

    /// Whether a job stands at that place.
    pub(crate) fn holds(&self, place: &Place) -> bool {
        let line = self.line(place.0).ok().and_then(|at| self.lines.get(at));
        line.is_some_and(|line| line.spots.get(&spot(place)).is_some())
    }

    /// False: it stood there already.
    pub(crate) fn put(&mut self, place: Place) -> bool {
        let at = match self.line(place.0) {
            Ok(at) => at,
            Err(at) => {
                self.lines.insert(at, PriorityLine { priority: place.0, spots: Sorted::default() });
                at
            }
        };
        self.lines.get_mut(at).is_some_and(|line| line.spots.insert(spot(&place)))
    }

    /// False: it did not stand there.
    pub(crate) fn take(&mut self, place: &Place) -> bool {
        let Ok(at) = self.line(place.0) else { return false };
        let Some(line) = self.lines.get_mut(at) else { return false };
        let removed = line.spots.remove(&spot(place)).is_some();
        if line.spots.len() == 0 {
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

impl PriorityLine {
    pub(crate) fn priority(&self) -> i8 {
        self.priority.0
    }

    /// All of them, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Sequence, JobId)> {
        self.spots.iter().copied()
    }

    /// How many stand at the head of this line of which all are so. What is so of one is so of those before it, or it is
    /// a guess.
    pub(crate) fn leading(&self, is_so: impl Fn(Sequence, JobId) -> bool) -> usize {
        self.spots.leading(|spot| is_so(spot.0, spot.1))
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
        let (chunks, room) = line.spots.room();
        assert!(chunks <= 2 * 250_000_usize.isqrt(), "{chunks} chunks");
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
        assert!(both.queue.lines[0].spots.room().0 < 40);
    }

    #[test]
    fn holes_in_the_middle_leave_no_crowd_of_small_chunks() {
        let mut both = Both::default();
        (0..100_000).for_each(|sequence| both.insert(at(0, sequence)));
        for sequence in (0..100_000).filter(|sequence| sequence % 100 != 0) {
            both.remove(&at(0, sequence));
        }
        both.compare([at(0, 50_000)].into_iter());
        let (chunks, _) = both.queue.lines[0].spots.room();
        assert!(chunks <= 100, "{chunks} chunks");
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
