//! The start limiter: how many jobs that take a slot may start within a time.
//!
//! Responsible for spacing starts, so that ten browsers do not open in the same second. Not responsible for whether a
//! job may start at all: a job that waits here is accepted, and its wait is no return.
//!
//! Invariant: within any window of `per`, at most `count` starts take the slot.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::clock::Mono;

/// At most `count` starts within any `per`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartRate {
    /// Starts, at least 1.
    pub count: u32,
    /// The window, above zero.
    pub per: Duration,
}

/// The limits of all slots, and their recent starts.
#[derive(Debug)]
pub(super) struct Starts {
    limited: BTreeMap<String, Limited>,
}

#[derive(Debug)]
struct Limited {
    rate: StartRate,
    /// The last `count` starts at most, oldest first.
    recent: VecDeque<Mono>,
}

impl Starts {
    pub(super) fn new(rates: BTreeMap<String, StartRate>) -> Self {
        let limited =
            rates.into_iter().map(|(slot, rate)| (slot, Limited { rate, recent: VecDeque::new() })).collect();
        Self { limited }
    }

    /// The earliest moment at which a job that takes `slots` may start, as far as starts up to now tell.
    pub(super) fn earliest<'a>(&self, slots: impl Iterator<Item = &'a String>) -> Mono {
        slots.filter_map(|slot| self.limited.get(slot)).map(Limited::earliest).max().unwrap_or(Mono::ZERO)
    }

    /// Notes that a job that takes `slots` starts now.
    pub(super) fn started<'a>(&mut self, slots: impl Iterator<Item = &'a String>, now: Mono) {
        for slot in slots {
            if let Some(limited) = self.limited.get_mut(slot) {
                if limited.is_full() {
                    limited.recent.pop_front();
                }
                limited.recent.push_back(now);
            }
        }
    }
}

impl Limited {
    fn is_full(&self) -> bool {
        u32::try_from(self.recent.len()).unwrap_or(u32::MAX) >= self.rate.count
    }

    fn earliest(&self) -> Mono {
        match self.recent.front() {
            Some(&oldest) if self.is_full() => oldest + self.rate.per,
            Some(_) | None => Mono::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Mono {
        Mono::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn starts_of_a_limited_slot_are_spaced_and_others_are_not() {
        let browser = "browser".to_owned();
        let shell = "shell".to_owned();
        let rate = StartRate { count: 2, per: Duration::from_secs(4) };
        let mut starts = Starts::new(BTreeMap::from([(browser.clone(), rate)]));
        for second in [10, 11] {
            assert!(starts.earliest([&browser].into_iter()) <= at(second));
            starts.started([&browser].into_iter(), at(second));
        }
        assert_eq!(starts.earliest([&shell, &browser].into_iter()), at(14));
        assert_eq!(starts.earliest([&shell].into_iter()), Mono::ZERO);
        starts.started([&browser].into_iter(), at(14));
        assert_eq!(starts.earliest([&browser].into_iter()), at(15));
    }
}
