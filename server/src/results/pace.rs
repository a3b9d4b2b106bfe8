//! How fast bytes of a result have to come or go, so that whoever is slow gives its place to others.

use std::time::Duration;
use tenure_proto::limits;

use tokio::time::timeout;

use crate::{clock::Clock, rpc::status::No};

/// The pace of one transfer.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    clock: Clock,
    begun: Duration,
    at_first: Duration,
}

impl Pace {
    /// One that begins now.
    pub(crate) fn begin(clock: Clock) -> Self {
        Self { begun: clock.steady(), clock, at_first: limits::TRANSFER_AT_FIRST }
    }

    /// The same, with less time at first.
    #[cfg(test)]
    pub(crate) fn hurried(clock: Clock, at_first: Duration) -> Self {
        Self { at_first, ..Self::begin(clock) }
    }

    /// Waits for the next step of a transfer of which so many bytes have passed.
    ///
    /// # Errors
    /// If it is over too late: it is cut then, in the midst of it.
    pub(crate) async fn keep<T>(&self, passed: u64, step: impl Future<Output = T>) -> Result<T, No> {
        let within = self.at_first + Duration::from_secs(passed / limits::TRANSFER_BYTES_A_SECOND);
        let left = (self.begun + within).saturating_sub(self.clock.steady());
        timeout(left, step).await.map_err(|_| No::too_few(passed, within))
    }
}
