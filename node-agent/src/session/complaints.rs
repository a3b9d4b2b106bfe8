//! What is wrong with the server, said often enough to be seen and seldom enough to be read.
//!
//! Responsible for which ends of streams are logged; an agent tries again several times a minute, for days if it must.
//! Invariant: the same words stand in the log once, and then once a minute with how often they would have. Numbers in
//! them do not count: times and ports change with each try.

use std::time::Duration;

use crate::clock::Mono;

/// Between two lines with the same words.
const EVERY: Duration = Duration::from_secs(60);
/// Words that are told apart. The oldest are forgotten, and said again when they come back.
const MOST: usize = 8;

/// What was said.
#[derive(Debug, Default)]
pub(super) struct Complaints(Vec<Said>);

#[derive(Debug)]
struct Said {
    words: String,
    at: Mono,
    unsaid: u64,
}

impl Complaints {
    /// Whether to say it now: then how often it was not said since the last time.
    pub(super) fn may_say(&mut self, words: &str, now: Mono) -> Option<u64> {
        let words: String = words.chars().filter(|c| !c.is_ascii_digit()).collect();
        if let Some(said) = self.0.iter_mut().find(|said| said.words == words) {
            if now.since(said.at) < EVERY {
                said.unsaid += 1;
                return None;
            }
            said.at = now;
            return Some(std::mem::take(&mut said.unsaid));
        }
        if self.0.len() >= MOST {
            self.0.remove(0);
        }
        self.0.push(Said { words, at: now, unsaid: 0 });
        Some(0)
    }

    /// A server was spoken to: whatever comes next is news.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(second: u64) -> Mono {
        Mono::from_micros(second * 1_000_000)
    }

    #[test]
    fn the_same_words_are_said_once_a_minute_with_how_often_they_were_not() {
        let mut complaints = Complaints::default();
        let said: Vec<_> = (0..=120)
            .filter_map(|at| complaints.may_say(&format!("expired {at} s ago"), second(at)))
            .collect();
        assert_eq!(said, [0, 59, 59]);
        assert_eq!(complaints.may_say("unreachable", second(121)), Some(0), "other words are news");
        assert_eq!(complaints.may_say("expired 121 s ago", second(121)), None);
        complaints.forget();
        assert_eq!(complaints.may_say("expired 122 s ago", second(122)), Some(0));
    }

    #[test]
    fn few_words_are_remembered() {
        let mut complaints = Complaints::default();
        for n in 0..100 {
            complaints.may_say(&"x".repeat(n), second(0));
        }
        assert_eq!(complaints.0.len(), MOST);
    }
}
