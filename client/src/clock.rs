//! The only reader of time in this crate.

use std::time::Duration;

use tokio::time::Instant;

/// A deadline that is further away is as good as none: no process waits that long, and no clock overflows.
const FAR: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Now, on the monotonic clock that tokio's timers use; tests may pause it.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The moment `length` from now; at most ten years.
pub(crate) fn after(length: Duration) -> Instant {
    now() + length.min(FAR)
}
