//! Lines of the log that somebody else can cause as often as they like: once per cause and address in a while.
//!
//! Not responsible for figures, which count every time. Invariant: whatever is done from outside, the log grows by a
//! bounded number of lines in a given time, and each line says how many it stands for.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use crate::clock::Clock;

/// Between two lines about the same.
const EVERY: Duration = Duration::from_secs(10);

/// Pairs that are told apart at once. Beyond them, all addresses count as one until older pairs are forgotten.
const MOST: usize = 256;

/// Remembers what was said.
#[derive(Debug)]
pub(crate) struct Hush {
    clock: Clock,
    said: Mutex<BTreeMap<(Option<IpAddr>, &'static str), Said>>,
}

#[derive(Debug, Clone, Copy)]
struct Said {
    /// By the steady clock.
    at: Duration,
    /// Times since.
    unsaid: u64,
}

impl Hush {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, said: Mutex::default() }
    }

    /// Whether to say it now: then how often it was not said since the last time.
    pub(crate) fn may_say(&self, address: IpAddr, what: &'static str) -> Option<u64> {
        let now = self.clock.steady();
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let mut key = (Some(address), what);
        if !said.contains_key(&key) && said.len() >= MOST {
            said.retain(|_, said| now.saturating_sub(said.at) < EVERY);
            if said.len() >= MOST {
                key.0 = None;
            }
        }
        let Some(before) = said.get_mut(&key) else {
            said.insert(key, Said { at: now, unsaid: 0 });
            return Some(0);
        };
        if now.saturating_sub(before.at) < EVERY {
            before.unsaid += 1;
            return None;
        }
        let unsaid = std::mem::take(&mut before.unsaid);
        before.at = now;
        Some(unsaid)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::clock::Options;

    #[test]
    fn the_same_is_said_once_in_a_while_whoever_says_it() {
        let hush = Hush::new(Clock::new(Options::default()));
        let mut lines = 0;
        for n in 0..10_000_u32 {
            let address = IpAddr::V4(Ipv4Addr::from_bits(n));
            lines += usize::from(hush.may_say(address, "gone").is_some());
            assert_eq!(hush.may_say(address, "gone"), None);
        }
        assert_eq!(lines, MOST + 1, "one more for all the others together");
        assert_eq!(hush.may_say(IpAddr::V4(Ipv4Addr::from_bits(1)), "gone"), None);
        assert_eq!(hush.said.lock().unwrap().len(), MOST + 1);
    }

    #[test]
    fn what_was_not_said_is_counted_in_the_next_line() {
        let hush = Hush::new(Clock::new(Options::default()));
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        assert_eq!(hush.may_say(address, "gone"), Some(0));
        assert_eq!([hush.may_say(address, "gone"), hush.may_say(address, "gone")], [None, None]);
        for said in hush.said.lock().unwrap().values_mut() {
            said.at = said.at.saturating_sub(EVERY);
        }
        assert_eq!(hush.may_say(address, "gone"), Some(2));
    }
}
