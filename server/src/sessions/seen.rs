//! From the wire's `seq` to the scheduler's ordinals: what a node has applied once it says `seen`.
//!
//! A wire message may carry several neighbouring messages of the scheduler, and an answer may overtake grants that
//! wait for their payloads. So a wire `seq` *covers* an ordinal only once every ordinal up to it has left. A grant that
//! was dropped counts as left: the node's next listing that covers it does not show it, and it is returned.
//!
//! Invariant: what is translated never falls.

use std::collections::{BTreeSet, VecDeque};

use tenure_scheduler::Ordinal;

/// Wire messages that a node has not said to have applied. Beyond, its session ends.
const MOST_UNSEEN: usize = 65_536;

/// The messages of one session that were sent.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// Wire messages so far.
    seq: u64,
    /// All ordinals up to here have left.
    covered: u64,
    /// Those above that left before their turn.
    early: BTreeSet<u64>,
    /// (wire `seq`, ordinal covered by then), oldest first, of messages that the node has not seen.
    unseen: VecDeque<(u64, u64)>,
    /// What the highest `seen` so far covers.
    seen: u64,
}

/// The node claims to have applied what was never sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NeverSent;

/// The node has not said for too long that it applied anything.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooManyUnseen;

impl Sent {
    /// A message of the scheduler is part of the next wire message, or was dropped.
    pub(super) fn left(&mut self, ordinal: Ordinal) {
        self.early.insert(ordinal.0);
        while self.early.first() == Some(&(self.covered + 1)) {
            self.early.pop_first();
            self.covered += 1;
        }
    }

    /// The next wire message is about to leave. The answer is its `seq`.
    pub(super) fn next_seq(&mut self) -> Result<u64, TooManyUnseen> {
        if self.unseen.len() >= MOST_UNSEEN {
            return Err(TooManyUnseen);
        }
        self.seq += 1;
        self.unseen.push_back((self.seq, self.covered));
        Ok(self.seq)
    }

    /// The node has applied everything up to this wire `seq`.
    pub(super) fn translate(&mut self, seen: u64) -> Result<Ordinal, NeverSent> {
        if seen > self.seq {
            return Err(NeverSent);
        }
        while let Some((_, covered)) = self.unseen.pop_front_if(|(seq, _)| *seq <= seen) {
            self.seen = covered;
        }
        Ok(Ordinal(self.seen))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(sent: &mut Sent, ordinals: &[u64]) -> u64 {
        for &ordinal in ordinals {
            sent.left(Ordinal(ordinal));
        }
        sent.next_seq().unwrap()
    }

    #[test]
    fn a_wire_message_covers_all_that_it_carries() {
        let mut sent = Sent::default();
        assert_eq!(send(&mut sent, &[1]), 1);
        assert_eq!(send(&mut sent, &[2, 3, 4]), 2);
        assert_eq!(sent.translate(0), Ok(Ordinal(0)));
        assert_eq!(sent.translate(1), Ok(Ordinal(1)));
        assert_eq!(sent.translate(2), Ok(Ordinal(4)));
        assert_eq!(sent.translate(1), Ok(Ordinal(4)), "it never falls");
        assert_eq!(sent.translate(3), Err(NeverSent));
    }

    #[test]
    fn an_answer_that_overtakes_a_grant_does_not_cover_it() {
        let mut sent = Sent::default();
        send(&mut sent, &[1]);
        send(&mut sent, &[3]); // 2 waits for its payload
        assert_eq!(sent.translate(2), Ok(Ordinal(1)));
        send(&mut sent, &[2]);
        assert_eq!(sent.translate(3), Ok(Ordinal(3)));
    }

    #[test]
    fn a_dropped_grant_is_covered_by_the_next_message() {
        let mut sent = Sent::default();
        send(&mut sent, &[1]);
        sent.left(Ordinal(2));
        assert_eq!(sent.translate(1), Ok(Ordinal(1)));
        send(&mut sent, &[3]);
        assert_eq!(sent.translate(2), Ok(Ordinal(3)));
    }

    #[test]
    fn a_node_that_never_says_what_it_saw_is_bounded() {
        let mut sent = Sent::default();
        for _ in 0..MOST_UNSEEN {
            sent.next_seq().unwrap();
        }
        assert_eq!(sent.next_seq(), Err(TooManyUnseen));
        sent.translate(10).unwrap();
        assert!(sent.next_seq().is_ok());
    }
}
