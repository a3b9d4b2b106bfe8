//! Ends the process before an attempt must be gone that has not ended, whatever holds up everything else.
//!
//! Invariant: it needs nothing of the runtime, whose threads may all be blocked.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use tenure_proto::node::v1::WorkClock;

use crate::clock;

/// The process ends itself so long before an attempt must be gone.
const LAST: Duration = Duration::from_secs(1);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(200);

/// The deadlines of all attempts. Clones share them; the watch ends with the last.
#[derive(Clone, Debug)]
pub(super) struct Watchdog(Arc<Mutex<Deadlines>>);

#[derive(Debug)]
struct Deadlines {
    clock: WorkClock,
    /// Microseconds of the clock, by token.
    gone_by: BTreeMap<u64, u64>,
}

impl Watchdog {
    /// Starts its thread.
    pub(super) fn start() -> io::Result<Self> {
        let deadlines = Deadlines { clock: WorkClock::Unspecified, gone_by: BTreeMap::new() };
        let this = Self(Arc::new(Mutex::new(deadlines)));
        let watched = Arc::downgrade(&this.0);
        std::thread::Builder::new().name("tenure-watchdog".to_owned()).spawn(move || watch(&watched))?;
        Ok(this)
    }

    /// The clock that deadlines are of.
    pub(super) fn set_clock(&self, clock: WorkClock) {
        self.deadlines().clock = clock;
    }

    /// An attempt must be gone by then.
    pub(super) fn set(&self, token: u64, gone_by_us: u64) {
        self.deadlines().gone_by.insert(token, gone_by_us);
    }

    /// Another deadline of an attempt that has not ended.
    pub(super) fn extend(&self, token: u64, gone_by_us: u64) {
        if let Some(gone_by) = self.deadlines().gone_by.get_mut(&token) {
            *gone_by = gone_by_us.max(*gone_by);
        }
    }

    /// An attempt has ended.
    pub(super) fn forget(&self, token: u64) {
        self.deadlines().gone_by.remove(&token);
    }

    fn deadlines(&self) -> MutexGuard<'_, Deadlines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Deadlines {
    /// An attempt whose time is over.
    fn late(&self, now_us: u64) -> Option<u64> {
        let last = u64::try_from(LAST.as_micros()).unwrap_or(u64::MAX);
        self.gone_by
            .iter()
            .find(|&(_, &gone_by)| now_us.saturating_add(last) >= gone_by)
            .map(|(&token, _)| token)
    }
}

fn watch(deadlines: &Weak<Mutex<Deadlines>>) {
    loop {
        std::thread::sleep(LOOK);
        let Some(deadlines) = deadlines.upgrade() else { return };
        let deadlines = deadlines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(token) = deadlines.late(clock::of_host(deadlines.clock)) {
            tracing::error!(lease.token = token, "an attempt did not stop in time; this process ends");
            // No destructor and no handler may hold it up.
            kill_process(getpid(), Signal::KILL).ok();
            std::process::abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_over_a_second_before_it() {
        let watchdog = Watchdog::start().unwrap();
        watchdog.set(1, 10_000_000_000_000_000);
        watchdog.extend(1, 5);
        watchdog.extend(2, 5);
        let late = |now| watchdog.deadlines().late(now);
        assert_eq!(late(9_999_999_998_999_999), None);
        assert_eq!(late(9_999_999_999_000_000), Some(1));
        watchdog.forget(1);
        assert_eq!(late(u64::MAX), None);
    }
}
