//! SIGINT and SIGTERM, one by one; SIGHUP; and the words that an agent understands.
//!
//! Invariant: from `install` on none of them ends the process by itself; each is an item that somebody must act on.

use tokio::signal::unix::{Signal, SignalKind, signal};

use tenure_node_agent::Stop;

use crate::exit::Failure;

/// The signals that ask a process to stop.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// That of `tenure agent --drain`, and that of a terminal that is closed, until something else was asked.
    drain: Option<(Signal, Signal)>,
}

impl Signals {
    /// Takes both over.
    pub(crate) fn install() -> Result<Self, Failure> {
        let (interrupt, terminate) = (take(SignalKind::interrupt())?, take(SignalKind::terminate())?);
        Ok(Self { interrupt, terminate, drain: None })
    }

    /// Takes SIGUSR1 over, too, by which somebody else asks an agent of this process to drain, and SIGHUP, by which a terminal
    /// says that it is closed. They count as the first signal alone, for they hurry nothing.
    pub(crate) fn install_with_drain() -> Result<Self, Failure> {
        let drain = (take(SignalKind::user_defined1())?, take(SignalKind::hangup())?);
        Ok(Self { drain: Some(drain), ..Self::install()? })
    }

    /// Waits for the next one and names it. Cancel-safe.
    pub(crate) async fn next(&mut self) -> &'static str {
        let drain = async {
            match &mut self.drain {
                Some((drain, hangup)) => tokio::select! {
                    _ = drain.recv() => "SIGUSR1", // cancel-safe: nothing is lost
                    _ = hangup.recv() => "SIGHUP", // cancel-safe: nothing is lost
                },
                None => std::future::pending().await,
            }
        };
        let name = tokio::select! {
            _ = self.interrupt.recv() => "SIGINT", // cancel-safe: nothing is lost
            _ = self.terminate.recv() => "SIGTERM", // cancel-safe: nothing is lost
            name = drain => name, // cancel-safe: nothing is lost
        };
        // They stay taken over for as long as the process lives.
        self.drain = None;
        name
    }
}

fn take(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|source| Failure::Component { what: "no signal handler", source: source.into() })
}

/// The signals by which an agent is asked to stop, and how.
#[derive(Debug)]
pub(crate) struct Orders {
    signals: Signals,
    drain: Signal,
    interrupts: u32,
}

impl Orders {
    /// Takes them over.
    pub(crate) fn install() -> Result<Self, Failure> {
        let drain = take(SignalKind::user_defined1())?;
        Ok(Self { signals: Signals::install()?, drain, interrupts: 0 })
    }

    /// Waits for the next one: who sent what, and what it means. SIGTERM is a service manager's: what runs goes on. SIGINT
    /// is a person's at a terminal, who expects that nothing is left; the second one is impatience. Cancel-safe.
    pub(crate) async fn next(&mut self) -> (&'static str, Stop) {
        let name = tokio::select! {
            name = self.signals.next() => name, // cancel-safe
            _ = self.drain.recv() => "SIGUSR1", // cancel-safe: nothing is lost
        };
        let stop = match name {
            "SIGTERM" => Stop::HandOver,
            "SIGINT" => {
                self.interrupts += 1;
                if self.interrupts > 1 { Stop::AtOnce } else { Stop::Drain }
            }
            _ => Stop::Drain,
        };
        (name, stop)
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
