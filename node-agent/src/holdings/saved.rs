//! Checkpoints that the server may not have yet. Pure.
//!
//! Responsible for which are to be said, and for saying one again whose message went down with its stream. Not responsible
//! for the bytes (`runner/checkpoint.rs`): what is said is always the newest.
//!
//! Invariant: a checkpoint is forgotten here only once the server has applied it, or its lease has ended.

use std::collections::BTreeMap;

use super::lease::FencingToken;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Saved {
    /// Whether the server of this stream keeps any.
    kept: bool,
    /// By lease: the number of the message by which it is said at the latest; None: it is to be said.
    unsure: BTreeMap<FencingToken, Option<u64>>,
}

impl Saved {
    /// A new stream: nobody knows what became of what was on its way.
    pub(super) fn hello(&mut self) {
        self.kept = false;
        self.unsure.values_mut().for_each(|said_by| *said_by = None);
    }

    /// The server said whether it keeps any. What is to be said then.
    pub(super) fn welcomed(&mut self, kept: bool) -> impl Iterator<Item = FencingToken> {
        self.kept = kept;
        self.unsure.keys().copied().filter(move |_| kept)
    }

    /// A lease saved one. Answers whether it is to be said now.
    pub(super) fn add(&mut self, token: FencingToken) -> bool {
        self.unsure.insert(token, None);
        self.kept
    }

    /// It is about to be said, by the message of this number at the latest. No: it was said, or has ended.
    pub(super) fn say(&mut self, token: FencingToken, said_by: u64) -> bool {
        match self.unsure.get_mut(&token) {
            Some(unsaid @ None) if self.kept => {
                *unsaid = Some(said_by);
                true
            }
            Some(_) | None => false,
        }
    }

    /// The server has applied our messages up to this one.
    pub(super) fn applied(&mut self, seq: u64) {
        self.unsure.retain(|_, said_by| said_by.is_none_or(|said_by| said_by > seq));
    }

    /// Its end says the rest.
    pub(super) fn ended(&mut self, token: FencingToken) {
        self.unsure.remove(&token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: FencingToken = FencingToken(1);

    #[test]
    fn one_that_went_down_with_its_stream_is_said_again_and_one_that_was_applied_is_not() {
        let mut saved = Saved::default();
        saved.hello();
        assert!(!saved.add(ONE), "no server is there");
        assert_eq!(saved.welcomed(true).collect::<Vec<_>>(), [ONE]);
        assert!(saved.say(ONE, 7) && !saved.say(ONE, 8));
        saved.applied(6);
        saved.hello();
        assert_eq!(saved.welcomed(true).collect::<Vec<_>>(), [ONE]);
        assert!(saved.say(ONE, 3));
        saved.applied(3);
        saved.hello();
        assert_eq!(saved.welcomed(true).count(), 0);
    }

    #[test]
    fn a_newer_one_is_said_whatever_was_said_before() {
        let mut saved = Saved::default();
        assert_eq!(saved.welcomed(true).count(), 0);
        assert!(saved.add(ONE) && saved.say(ONE, 2));
        assert!(saved.add(ONE));
        saved.applied(2);
        assert!(saved.say(ONE, 4));
    }

    #[test]
    fn nothing_is_said_to_a_server_that_keeps_none_or_of_a_lease_that_has_ended() {
        let mut saved = Saved::default();
        assert!(!saved.add(ONE));
        assert_eq!(saved.welcomed(false).count(), 0);
        assert!(!saved.say(ONE, 2));
        saved.hello();
        saved.ended(ONE);
        assert_eq!(saved.welcomed(true).count(), 0);
    }
}
