//! The only reader of time in this crate.

use tokio::time::Instant;

/// Now, on the monotonic clock that tokio's timers use; tests may pause it.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
