//! Durations and instants between `std` and the wire.
//!
//! Total functions: what does not fit is clamped, what a peer sends out of range is taken as the nearest sensible value.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The largest duration that `google.protobuf.Duration` carries: 10,000 years.
const MAX_SECONDS: u64 = 315_576_000_000;

/// A length for the wire.
pub fn duration(value: Duration) -> prost_types::Duration {
    let seconds = value.as_secs().min(MAX_SECONDS);
    prost_types::Duration {
        seconds: i64::try_from(seconds).unwrap_or(i64::MAX),
        nanos: i32::try_from(value.subsec_nanos()).unwrap_or(0),
    }
}

/// A length from the wire; a negative one is zero.
pub fn std_duration(value: &prost_types::Duration) -> Duration {
    let seconds = u64::try_from(value.seconds).unwrap_or(0);
    let nanos = u32::try_from(value.nanos).unwrap_or(0).min(999_999_999);
    if value.seconds < 0 { Duration::ZERO } else { Duration::new(seconds, nanos) }
}

/// An instant for the wire; one before 1970 is 1970.
pub fn timestamp(value: SystemTime) -> prost_types::Timestamp {
    let since = value.duration_since(UNIX_EPOCH).unwrap_or_default();
    prost_types::Timestamp {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(since.subsec_nanos()).unwrap_or(0),
    }
}

/// An instant from the wire; one before 1970 is 1970, one that this host cannot hold is the last it can.
pub fn system_time(value: &prost_types::Timestamp) -> SystemTime {
    let since = std_duration(&prost_types::Duration { seconds: value.seconds, nanos: value.nanos });
    UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_survives_both_ways() {
        let length = Duration::new(600, 5_000_000);
        assert_eq!(std_duration(&duration(length)), length);
    }

    #[test]
    fn nonsense_of_a_peer_is_clamped() {
        assert_eq!(std_duration(&prost_types::Duration { seconds: -5, nanos: 3 }), Duration::ZERO);
        assert_eq!(std_duration(&prost_types::Duration { seconds: 1, nanos: -3 }), Duration::from_secs(1));
        assert_eq!(system_time(&prost_types::Timestamp { seconds: i64::MIN, nanos: 0 }), UNIX_EPOCH);
        assert_eq!(duration(Duration::MAX).seconds, 315_576_000_000);
    }
}
