//! How many files this process may have open: connections take most of them, and the store must never go without.
//!
//! Invariant: fewer connections are served than the limit allows, so that a full house leaves files for everything else.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Kept for handshakes, HTTP, the store and the log.
const KEPT: u64 = 384;

/// The least that is served, whatever the limit.
const LEAST: u32 = 8;

/// Raises the limit of this process to what it may have at the most; what it starts later inherits that. For processes
/// that only serve.
pub fn raise() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::debug!(%error, "the limit of open files stays as it is");
    }
}

/// How many connections the limit of open files allows, of those that the settings do.
pub(crate) fn connections(asked: u32) -> u32 {
    let Some(limit) = getrlimit(Resource::Nofile).current else { return asked };
    let most = u32::try_from(limit.saturating_sub(KEPT)).unwrap_or(u32::MAX).max(LEAST);
    if most < asked {
        tracing::info!(
            most,
            asked,
            limit,
            "the limit of open files allows fewer connections than the settings"
        );
    }
    most.min(asked)
}
