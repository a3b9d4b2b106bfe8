//! The one place that reads the clock: certificates begin and end by the calendar.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970.
#[must_use]
pub fn unix_seconds() -> i64 {
    #[expect(clippy::disallowed_methods, reason = "the clock of this crate")]
    let now = SystemTime::now();
    now.duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}
