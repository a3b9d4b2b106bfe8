//! Words to the service manager that started this process: systemd's `Type=notify` and `WatchdogSec=`. If none wants to hear
//! any (`NOTIFY_SOCKET` is not set), nothing is said.
//!
//! Responsible for the form. Not responsible for when a process is ready (`server.rs`, `agent.rs`, `up.rs`).
//! Invariant: nobody else speaks for this process. Shims and jobs are started without its environment, so they know no socket.

use std::convert::Infallible;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::MissedTickBehavior;

/// It may be called, and does what it is for. `status`: one line for people.
pub(crate) fn ready(status: &str) {
    say(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// How it is doing, in one line for people.
pub(crate) fn status(status: &str) {
    say(&[NotifyState::Status(status)]);
}

/// It ends within seconds. A drain, which takes longer, says only how it is doing: a manager ends what stops too slowly.
pub(crate) fn stopping() {
    say(&[NotifyState::Stopping, NotifyState::Status("stopping")]);
}

/// Says three times in each period that the manager has set that the process still does something. Cancel-safe.
pub(crate) async fn alive() -> Infallible {
    let Some(period) = sd_notify::watchdog_enabled().filter(|period| !period.is_zero()) else {
        return std::future::pending().await;
    };
    let mut ticks = tokio::time::interval((period / 3).max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        say(&[NotifyState::Watchdog]);
    }
}

fn say(what: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(what) {
        tracing::warn!(%error, ?what, "the service manager cannot be told");
    }
}
