//! When each message of this stream was sent: the moments that deadlines are counted from.
//!
//! Responsible for answering "when did I send `seq`?", never later than the truth. Bounded: messages sent within
//! [`GRAIN`] of each other share the earliest moment, and only the newest [`CAPACITY`] moments are kept.
//!
//! Invariant: an answer is at or before the real send time, so a deadline counted from it is never too late.

use std::collections::VecDeque;
use std::time::Duration;

use crate::clock::Mono;

/// Messages sent this close together share one moment.
const GRAIN: Duration = Duration::from_millis(5);

/// Moments kept. At one message each [`GRAIN`] that is 80 s, four first leases; a server that answers later than that
/// renews nothing with it.
const CAPACITY: usize = 16_384;

/// The send times of one stream.
#[derive(Debug, Default)]
pub(super) struct Anchors {
    /// (first `seq` of the moment, when), rising in both.
    sent: VecDeque<(u64, Mono)>,
    /// The newest `seq` sent. 0: none.
    last: u64,
}

/// What the server named as an anchor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    /// Sent at this moment, or a little later.
    At(Mono),
    /// Sent so long ago that the moment is forgotten.
    Forgotten,
    /// Never sent: the server is wrong.
    NeverSent,
}

impl Anchors {
    /// Notes that `seq` leaves now.
    pub(super) fn sent(&mut self, seq: u64, now: Mono) {
        self.last = self.last.max(seq);
        if self.sent.back().is_some_and(|&(_, at)| now.since(at) < GRAIN) {
            return;
        }
        if self.sent.len() == CAPACITY {
            self.sent.pop_front();
        }
        self.sent.push_back((seq, now));
    }

    /// When `seq` was sent.
    pub(super) fn of(&self, seq: u64) -> Anchor {
        if seq == 0 || seq > self.last {
            return Anchor::NeverSent;
        }
        let after = self.sent.partition_point(|&(first, _)| first <= seq);
        match after.checked_sub(1).and_then(|index| self.sent.get(index)) {
            Some(&(_, at)) => Anchor::At(at),
            None => Anchor::Forgotten,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Mono {
        Mono::from_micros(millis * 1_000)
    }

    #[test]
    fn an_anchor_is_never_later_than_the_send() {
        let mut anchors = Anchors::default();
        anchors.sent(1, ms(100));
        anchors.sent(2, ms(103));
        anchors.sent(3, ms(106));
        assert_eq!(anchors.of(1), Anchor::At(ms(100)));
        assert_eq!(anchors.of(2), Anchor::At(ms(100)), "within the grain: the earlier moment");
        assert_eq!(anchors.of(3), Anchor::At(ms(106)));
    }

    #[test]
    fn what_was_never_sent_is_told_from_what_is_forgotten() {
        let mut anchors = Anchors::default();
        assert_eq!(anchors.of(1), Anchor::NeverSent);
        for seq in 1..=(CAPACITY as u64 + 10) {
            anchors.sent(seq, ms(seq * 10));
        }
        assert_eq!(anchors.of(0), Anchor::NeverSent);
        assert_eq!(anchors.of(10), Anchor::Forgotten);
        assert_eq!(anchors.of(11), Anchor::At(ms(110)));
        assert_eq!(anchors.of(CAPACITY as u64 + 11), Anchor::NeverSent);
    }
}
