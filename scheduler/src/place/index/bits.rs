//! Sets of small numbers as bits, and the intersection of many of them, word by word.

/// A set of handles. It is as long as its highest member was ever; what lies behind its end is not in it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bits {
    words: Vec<u64>,
}

/// Where a handle is: its word, and its bit in it.
fn at(handle: u32) -> (usize, u64) {
    (handle as usize / 64, 1 << (handle % 64))
}

/// The members of one word, the lowest first.
fn members(word: usize, mut bits: u64) -> impl Iterator<Item = u32> {
    let base = u32::try_from(word * 64).unwrap_or(u32::MAX);
    std::iter::from_fn(move || {
        let bit = bits.trailing_zeros();
        bits &= bits.checked_sub(1)?;
        Some(base + bit)
    })
}

impl Bits {
    /// Puts a handle in or takes it out.
    pub(crate) fn put(&mut self, handle: u32, is_in: bool) {
        let (word, bit) = at(handle);
        if is_in {
            if word >= self.words.len() {
                self.words.resize(word + 1, 0);
            }
            self.words[word] |= bit;
        } else if let Some(word) = self.words.get_mut(word) {
            *word &= !bit;
        }
    }

    pub(crate) fn contains(&self, handle: u32) -> bool {
        let (word, bit) = at(handle);
        self.word(word) & bit != 0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Its members, the lowest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.words.iter().enumerate().flat_map(|(word, bits)| members(word, *bits))
    }

    /// Adds the members of another set.
    pub(crate) fn add(&mut self, other: &Self) {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        self.words.iter_mut().zip(&other.words).for_each(|(mine, theirs)| *mine |= theirs);
    }

    /// Adds the members of an intersection.
    pub(crate) fn add_all(&mut self, of: &Sieve<'_>) {
        for word in 0..of.length() {
            let bits = of.word(word);
            if bits != 0 {
                if word >= self.words.len() {
                    self.words.resize(word + 1, 0);
                }
                self.words[word] |= bits;
            }
        }
    }

    fn word(&self, word: usize) -> u64 {
        self.words.get(word).copied().unwrap_or(0)
    }
}

/// What is in all of some sets and in none of others. Nothing is copied: each word is worked out when it is looked at.
#[derive(Debug, Clone)]
pub(crate) struct Sieve<'a> {
    /// At least one: without, everything would be in it.
    all: Vec<&'a Bits>,
    none: Vec<&'a Bits>,
}

impl<'a> Sieve<'a> {
    pub(crate) fn new(first: &'a Bits) -> Self {
        Self { all: vec![first], none: Vec::new() }
    }

    /// Only what is in this set, too.
    pub(crate) fn and(mut self, set: &'a Bits) -> Self {
        self.all.push(set);
        self
    }

    /// Only what is in each of these sets, too.
    pub(crate) fn and_each(mut self, sets: impl IntoIterator<Item = &'a Bits>) -> Self {
        self.all.extend(sets);
        self
    }

    /// Only what is in none of these sets.
    pub(crate) fn but_none(mut self, sets: impl IntoIterator<Item = &'a Bits>) -> Self {
        self.none.extend(sets);
        self
    }

    /// How many words there are to look at.
    fn length(&self) -> usize {
        self.all.iter().map(|set| set.words.len()).min().unwrap_or(0)
    }

    fn word(&self, word: usize) -> u64 {
        let bits = self.all.iter().fold(u64::MAX, |bits, set| bits & set.word(word));
        if bits == 0 { 0 } else { self.none.iter().fold(bits, |bits, set| bits & !set.word(word)) }
    }

    /// Its members from a word on that the number chooses, around to the word before.
    pub(crate) fn iter_from(self, number: u64) -> impl Iterator<Item = u32> + use<'a> {
        let length = self.length();
        let start = usize::try_from(number % length.max(1) as u64).unwrap_or(0);
        (start..length).chain(0..start).flat_map(move |word| members(word, self.word(word)))
    }

    /// Its members, the highest first.
    pub(crate) fn iter_down(self) -> impl Iterator<Item = u32> + use<'a> {
        let length = self.length();
        let down = move |word: usize| {
            let mut bits = self.word(word);
            let base = u32::try_from(word * 64).unwrap_or(u32::MAX);
            std::iter::from_fn(move || {
                let bit = 63u32.checked_sub(bits.leading_zeros())?;
                bits &= !(1 << bit);
                Some(base + bit)
            })
        };
        (0..length).rev().flat_map(down)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn set(members: &[u32]) -> Bits {
        let mut bits = Bits::default();
        members.iter().for_each(|member| bits.put(*member, true));
        bits
    }

    #[test]
    fn bits_behave_like_a_set_of_numbers() {
        let mut seed = 7u64;
        let mut next = move |below: u32| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            u32::try_from(seed >> 33).unwrap() % below
        };
        let (mut bits, mut known) = (Bits::default(), BTreeSet::new());
        for _ in 0..10_000 {
            let (member, is_in) = (next(300), next(2) == 0);
            bits.put(member, is_in);
            if is_in {
                known.insert(member)
            } else {
                known.remove(&member)
            };
            assert_eq!(bits.contains(member), is_in);
        }
        assert!(bits.iter().eq(known.iter().copied()));
        assert_eq!(bits.is_empty(), known.is_empty());
        assert!(set(&[]).is_empty() && !bits.contains(1_000_000));
    }

    #[test]
    fn a_sieve_keeps_what_is_in_all_and_in_none() {
        let (a, b, c) = (set(&[1, 64, 65, 130, 700]), set(&[0, 1, 65, 130]), set(&[65]));
        let sieve = Sieve::new(&a).and(&b).but_none([&c]);
        assert!(sieve.clone().iter_from(0).eq([1, 130]));
        assert!(sieve.clone().iter_down().eq([130, 1]));
        assert!(sieve.and_each([&c]).iter_from(0).next().is_none());
        let empty = Bits::default();
        assert!(Sieve::new(&a).and(&empty).iter_from(5).next().is_none());
    }

    #[test]
    fn a_walk_begins_where_the_number_says_and_goes_once_around() {
        let all = set(&[3, 70, 140, 200]);
        let sieve = Sieve::new(&all);
        assert!(sieve.clone().iter_from(2).eq([140, 200, 3, 70]));
        assert!(sieve.iter_from(5).eq([70, 140, 200, 3]));
    }

    #[test]
    fn members_of_a_sieve_can_be_added() {
        let (a, b) = (set(&[1, 300]), set(&[1, 2, 300]));
        let mut sum = set(&[64]);
        sum.add_all(&Sieve::new(&a).and(&b));
        sum.add(&set(&[400]));
        assert!(sum.iter().eq([1, 64, 300, 400]));
    }
}
