//! The only reader of time in this crate.

use std::time::{Instant, SystemTime};

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
