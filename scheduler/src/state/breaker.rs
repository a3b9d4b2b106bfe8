//! The breaker: when many nodes fall silent at once it is the network or this server, not the nodes. What they run goes on
//! there, so their leases end later (rule 10 of the session).

use std::time::Duration;

use crate::{
    ids::NodeName,
    state::{NodeEntry, State, silence},
    time::{Mono, Now},
};

/// Nodes whose last words came within this fell silent at once.
const AT_ONCE: Duration = Duration::from_secs(10);

/// Fewer silent nodes are each their own fault.
const LEAST_NODES: usize = 3;

/// More than this many in a hundred of the nodes that were heard until then.
const MORE_THAN_PERCENT: usize = 20;

/// By how much an expiry waits longer at most.
pub(crate) const WAITS_LONGER: Duration = Duration::from_secs(30);

/// How many nodes fell silent at once, of how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fallen {
    /// Nodes whose last words came within 10 s.
    pub silent: u32,
    /// Nodes that had been heard until then, they included.
    pub of: u32,
}

/// The ten seconds in which many nodes fell silent, each by its first last word. Made once for all leases of a tick.
#[derive(Debug)]
pub(crate) struct Breaker(Vec<(Mono, Fallen)>);

impl Breaker {
    pub(crate) fn of(state: &State, now: Now) -> Self {
        let mut last_words = Vec::new();
        let mut others = 0;
        for (_, entry) in state.nodes.iter() {
            if is_silent(entry, now) { last_words.push(entry.heard) } else { others += 1 }
        }
        last_words.sort_unstable();
        Self(many_at_once(&last_words, others))
    }

    /// With how many others a node fell silent; none: it is not silent, or that is its own fault.
    pub(crate) fn fallen_with(&self, state: &State, name: &NodeName, now: Now) -> Option<Fallen> {
        let heard = state.nodes.get(name).filter(|entry| is_silent(entry, now))?.heard;
        self.around(heard)
    }

    fn around(&self, heard: Mono) -> Option<Fallen> {
        let holds = |first: &Mono| *first <= heard && heard.since(*first) <= AT_ONCE;
        self.0.iter().find(|(first, _)| holds(first)).map(|(_, fallen)| *fallen)
    }
}

fn is_silent(entry: &NodeEntry, now: Now) -> bool {
    let interval = entry.live.as_ref().map_or(Duration::from_secs(5), |live| live.interval);
    now.mono.since(entry.heard) >= silence(interval)
}

/// The windows with enough last words, which are sorted. What had been silent before does not count among all: a node
/// that is gone for good makes nobody less suspicious.
fn many_at_once(last_words: &[Mono], others: usize) -> Vec<(Mono, Fallen)> {
    let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let mut end = 0;
    let windows = last_words.iter().enumerate().filter_map(|(at, first)| {
        while last_words.get(end).is_some_and(|word| word.since(*first) <= AT_ONCE) {
            end += 1;
        }
        let (silent, of) = (end - at, last_words.len() - at + others);
        let many = silent >= LEAST_NODES && silent * 100 > of * MORE_THAN_PERCENT;
        many.then(|| (*first, Fallen { silent: small(silent), of: small(of) }))
    });
    windows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_least_three_and_more_than_a_fifth_within_ten_seconds() {
        let seconds = |at: &[u64]| at.iter().map(|at| Mono(at * 1_000_000)).collect::<Vec<_>>();
        for (words, heard, others, silent) in [
            (&[0, 0, 0][..], 0, 0, Some(3)),
            (&[0, 0], 0, 0, None),
            (&[0, 5, 10], 10, 11, Some(3)),
            (&[0, 5, 10], 10, 12, None), // Exactly a fifth.
            (&[0, 5, 11], 5, 0, None),
            (&[0, 5, 11, 15], 15, 0, Some(3)),
            (&[0, 5, 11, 15], 0, 0, None),
            // Four that are gone for long, and three now among eight others.
            (&[0, 1, 20, 40, 100, 100, 100], 100, 8, Some(3)),
        ] {
            let found = Breaker(many_at_once(&seconds(words), others)).around(Mono(heard * 1_000_000));
            assert_eq!(found.map(|fallen| fallen.silent), silent, "{words:?} {heard} {others}");
        }
    }
}
