//! A sorted set in few bytes. A `BTreeSet` that grows at its end, as all that is ordered by time does, leaves its leaves
//! little more than half full; here the values stand side by side in chunks, and only one that grows in its middle is split.

use std::collections::VecDeque;

/// Values of one chunk.
const CHUNK: usize = 256;

/// See the module. No chunk is empty.
#[derive(Debug, Clone)]
pub(crate) struct Sorted<T> {
    chunks: VecDeque<Chunk<T>>,
    len: usize,
}

/// Values between two chunks.
#[derive(Debug, Clone)]
struct Chunk<T> {
    /// No value here is less, and every value of the chunks before is. It stands beside those of the others, so that a
    /// search reads one chunk only.
    least: T,
    values: Vec<T>,
}

impl<T> Default for Sorted<T> {
    fn default() -> Self {
        Self { chunks: VecDeque::new(), len: 0 }
    }
}

impl<T: Ord + Copy> Sorted<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn first(&self) -> Option<&T> {
        self.chunks.front()?.values.first()
    }

    /// The chunk in which a value is or would be, and where in it.
    fn find(&self, value: &T) -> (usize, Result<usize, usize>) {
        let at = self.chunks.partition_point(|chunk| chunk.least <= *value).saturating_sub(1);
        (at, self.chunks.get(at).map_or(Err(0), |chunk| chunk.values.binary_search(value)))
    }

    /// The value in it that is equal to this one.
    pub(crate) fn get(&self, value: &T) -> Option<&T> {
        let (at, within) = self.find(value);
        self.chunks.get(at)?.values.get(within.ok()?)
    }

    /// How many at its head there are of which all are so. What is so of one is so of those before it, or it is a guess.
    pub(crate) fn leading(&self, is_so: impl Fn(&T) -> bool) -> usize {
        let begin_so = self.chunks.partition_point(|chunk| chunk.values.first().is_some_and(&is_so));
        let Some(last) = begin_so.checked_sub(1) else { return 0 };
        let within = self.chunks.get(last).map_or(0, |chunk| chunk.values.partition_point(&is_so));
        self.chunks.iter().take(last).map(|chunk| chunk.values.len()).sum::<usize>() + within
    }

    /// Puts a value in. False: an equal one is there, and stays.
    pub(crate) fn insert(&mut self, value: T) -> bool {
        let (at, Err(within)) = self.find(&value) else { return false };
        self.len += 1;
        self.insert_at(at, within, value);
        true
    }

    fn insert_at(&mut self, at: usize, within: usize, value: T) {
        let alone = || Chunk { least: value, values: vec![value] };
        let Some(chunk) = self.chunks.get_mut(at) else { return self.chunks.push_back(alone()) };
        if within == CHUNK {
            return self.chunks.insert(at + 1, alone());
        }
        chunk.least = chunk.least.min(value);
        if chunk.values.len() < CHUNK {
            return chunk.values.insert(within, value);
        }
        let mut values = chunk.values.split_off(CHUNK / 2);
        match within.checked_sub(CHUNK / 2) {
            Some(within) => values.insert(within, value),
            None => chunk.values.insert(within, value),
        }
        if let Some(least) = values.first().copied() {
            self.chunks.insert(at + 1, Chunk { least, values });
        }
    }

    /// Takes a value out, and gives it back if it was there.
    pub(crate) fn remove(&mut self, value: &T) -> Option<T> {
        let (at, Ok(within)) = self.find(value) else { return None };
        let values = &mut self.chunks.get_mut(at)?.values;
        let removed = values.remove(within);
        self.len -= 1;
        let left = values.len();
        if left == 0 {
            self.chunks.remove(at);
        } else if left < CHUNK / 4 {
            self.join_with_next(at);
            if let Some(before) = at.checked_sub(1) {
                self.join_with_next(before);
            }
        }
        Some(removed)
    }

    /// Many removals in the middle must not leave many chunks of a few each.
    fn join_with_next(&mut self, at: usize) {
        let len = |at: usize| self.chunks.get(at).map_or(CHUNK, |chunk| chunk.values.len());
        if len(at) + len(at + 1) <= CHUNK
            && let Some(next) = self.chunks.remove(at + 1)
            && let Some(chunk) = self.chunks.get_mut(at)
        {
            chunk.values.extend(next.values);
        }
    }

    /// Those that are greater than this one, the least first.
    pub(crate) fn after<'a>(&'a self, value: &T) -> impl Iterator<Item = &'a T> + use<'a, T> {
        let (at, within) = self.find(value);
        let seen = within.map_or_else(|next| next, |same| same + 1);
        let rest = self.chunks.get(at).and_then(|chunk| chunk.values.get(seen..)).unwrap_or_default();
        rest.iter().chain(self.chunks.iter().skip(at + 1).flat_map(|chunk| &chunk.values))
    }

    /// All of them, the least first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> + Clone {
        self.chunks.iter().flat_map(|chunk| &chunk.values)
    }
}

#[cfg(test)]
impl<T> Sorted<T> {
    /// How many chunks there are, and for how many values there is room in them.
    pub(crate) fn room(&self) -> (usize, usize) {
        (self.chunks.len(), self.chunks.iter().map(|chunk| chunk.values.capacity()).sum())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn it_behaves_like_a_sorted_set() {
        let mut seed = 3u64;
        let mut next = move |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        let (mut sorted, mut known) = (Sorted::default(), BTreeSet::new());
        for round in 0..6 {
            for n in 0..4000 {
                let value = if round % 2 == 0 { n * 3 } else { next(12_000) };
                if round == 4 || next(4) == 0 {
                    assert_eq!(sorted.remove(&value).is_some(), known.remove(&value));
                } else {
                    sorted.insert(value);
                    known.insert(value);
                }
            }
            assert!(sorted.iter().eq(&known), "round {round}");
            assert_eq!((sorted.len(), sorted.first()), (known.len(), known.first()));
            assert!(sorted.chunks.iter().all(|chunk| (1..=CHUNK).contains(&chunk.values.len())));
            for value in (0..12_100).step_by(7) {
                assert_eq!(sorted.get(&value), known.get(&value));
                let after = (std::ops::Bound::Excluded(value), std::ops::Bound::Unbounded);
                assert!(sorted.after(&value).take(600).eq(known.range(after).take(600)));
            }
        }
        known.iter().for_each(|value| assert_eq!(sorted.remove(value), Some(*value)));
        assert!(sorted.len() == 0 && sorted.chunks.is_empty() && sorted.first().is_none());
    }

    #[test]
    fn what_grows_at_its_end_is_full() {
        let mut sorted = Sorted::default();
        (0..10_000u32).for_each(|value| assert!(sorted.insert(value)));
        assert_eq!(sorted.chunks.len(), 10_000usize.div_ceil(CHUNK));
    }
}
