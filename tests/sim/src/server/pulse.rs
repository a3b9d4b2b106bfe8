//! A leader's sense of time, by the rule of the driver's own: a gap between two beats counts for at most one second.

use tenure_scheduler::Mono;

use crate::clock::{MS, S};

/// The loop beats at least this often.
pub(crate) const BEAT: u64 = 400 * MS;

/// See the module. Microseconds of the server's own clock.
#[derive(Debug)]
pub(crate) struct Pulse {
    last: u64,
    counted: u64,
    /// Each microsecond counts for so many tenths. A broken server's runs fast.
    tenths: u64,
}

impl Pulse {
    pub(crate) fn new(now: u64, tenths: u64) -> Self {
        Self { last: now, counted: 0, tenths }
    }

    pub(crate) fn beat(&mut self, now: u64) -> Mono {
        self.counted += (now.saturating_sub(self.last)).min(S) * self.tenths / 10;
        self.last = self.last.max(now);
        Mono(self.counted)
    }
}
