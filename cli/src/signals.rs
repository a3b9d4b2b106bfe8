//! SIGINT and SIGTERM, one by one; and SIGHUP.
//!
//! Invariant: from `install` on neither ends the process by itself; each is an item that somebody must act on.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Failure;

/// The signals that ask a process to stop.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Takes both over.
    pub(crate) fn install() -> Result<Self, Failure> {
        let take = |kind| {
            signal(kind)
                .map_err(|source| Failure::Component { what: "no signal handler", source: source.into() })
        };
        Ok(Self { interrupt: take(SignalKind::interrupt())?, terminate: take(SignalKind::terminate())? })
    }

    /// Waits for the next one and names it. Cancel-safe.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT", // cancel-safe: nothing is lost
            _ = self.terminate.recv() => "SIGTERM", // cancel-safe: nothing is lost
        }
    }
}

/// SIGHUP: read the files again.
#[derive(Debug)]
pub(crate) struct Hangups(Signal);

impl Hangups {
    /// Takes it over.
    pub(crate) fn install() -> Result<Self, Failure> {
        let taken = signal(SignalKind::hangup());
        taken
            .map(Self)
            .map_err(|source| Failure::Component { what: "no signal handler", source: source.into() })
    }

    /// Waits for the next one. Cancel-safe.
    pub(crate) async fn next(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending().await
        }
    }
}
