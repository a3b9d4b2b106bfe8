//! Between the words of the wire and those of the scheduler, both ways. Nothing else in this crate knows both, but for
//! the services that call it and `convert_node.rs`, which does the same for the session.
//!
//! Not responsible for deciding anything, or for reading state. Invariant: what goes out is complete, and what comes
//! in is checked (`spec.rs`) before it becomes a command.

use std::time::Duration;

use tenure_proto::v1;
use tenure_scheduler::{Needs, Wall};

pub(crate) mod cron;
pub(crate) mod explain;
pub(crate) mod fleet;
pub(crate) mod health;
pub(crate) mod job;
pub(crate) mod requirement;
pub(crate) mod spec;
pub(crate) mod trace;
pub(crate) mod webhook;
pub(crate) mod workflow;

/// An instant for the wire.
pub(crate) fn timestamp(at: Wall) -> prost_types::Timestamp {
    let micros = at.0.rem_euclid(1_000_000);
    prost_types::Timestamp {
        seconds: at.0.div_euclid(1_000_000),
        nanos: i32::try_from(micros * 1000).unwrap_or_default(),
    }
}

/// A length of time for the wire.
pub(crate) fn duration(length: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(length.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(length.subsec_nanos()).unwrap_or_default(),
    }
}

/// An age for people, in whole milliseconds: a JSON without nine digits of noise reads better.
pub(crate) fn age(length: Duration) -> prost_types::Duration {
    duration(Duration::new(length.as_secs(), length.subsec_millis() * 1_000_000))
}

/// Amounts of slots for the wire, by name.
pub(crate) fn needs(needs: &Needs) -> v1::Needs {
    let slots = needs.iter().map(|(slot, amount)| v1::SlotAmount { slot: slot.to_string(), amount });
    v1::Needs { slots: slots.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_before_1970_keep_their_fraction() {
        assert_eq!(timestamp(Wall(-1)), prost_types::Timestamp { seconds: -1, nanos: 999_999_000 });
        assert_eq!(timestamp(Wall(1_500_000)), prost_types::Timestamp { seconds: 1, nanos: 500_000_000 });
    }

    #[test]
    fn absurd_lengths_stay_in_range() {
        assert_eq!(duration(Duration::MAX).seconds, i64::MAX);
    }
}
