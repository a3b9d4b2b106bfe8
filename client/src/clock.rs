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

/// Microseconds of a clock of this host, as its agent counts them.
#[cfg(unix)]
pub(crate) fn of_host(clock: tenure_proto::node::v1::WorkClock) -> u64 {
    use rustix::time::{ClockId, clock_gettime};
    use tenure_proto::node::v1::WorkClock;
    let id = match clock {
        #[cfg(target_os = "linux")]
        WorkClock::Boottime => ClockId::Boottime,
        #[cfg(not(target_os = "linux"))]
        WorkClock::Boottime => ClockId::Monotonic,
        WorkClock::Monotonic | WorkClock::Unspecified => ClockId::Monotonic,
    };
    let time = clock_gettime(id);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000).saturating_add(u64::try_from(time.tv_nsec / 1_000).unwrap_or(0))
}
