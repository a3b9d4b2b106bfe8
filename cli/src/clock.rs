//! The only reader of time in this crate.

use std::time::{Duration, Instant, SystemTime};

/// A deadline that is further away is as good as none: nobody waits that long, and no clock overflows.
const FAR: Duration = Duration::from_secs(10 * 365 * 86_400);

/// The wall clock, for ages and for nothing that decides.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
pub(crate) fn wall() -> SystemTime {
    SystemTime::now()
}

/// The monotonic clock, for deadlines.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the monotonic clock")]
pub(crate) fn mono() -> Instant {
    Instant::now()
}

/// The moment `length` from now; at most ten years.
pub(crate) fn after(length: Duration) -> Instant {
    mono() + length.min(FAR)
}
