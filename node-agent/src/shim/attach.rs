//! Taking over the shim of an earlier agent.
//!
//! Responsible for the way to its door and for believing it only if it is who its state file says. Not responsible for
//! what follows (`handle.rs`), nor for finding state files (`leftovers.rs`).
//! Invariant: a shim that does not answer in time is not taken over; whoever found it ends it.

use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::files::State;
use super::handle::{Known, Shim};
use super::wire::{Attach, Notice, Standing};
use super::{Error, door};
use crate::clock::Mono;

/// How long a shim may take to answer before it is woken: its own job may have stopped it.
const PROMPT: Duration = Duration::from_secs(1);
/// How long it may take then. A Hello waits for it.
const WOKEN: Duration = Duration::from_secs(4);

/// A shim that was taken over, and how its attempt stands.
#[derive(Debug)]
pub(crate) struct Taken {
    /// The conversation. What is over already, `next` says.
    pub(crate) shim: Shim,
    /// When everything will be gone, on the clock of the state file.
    pub(crate) gone_by: Mono,
    /// When the command was executed; None: it was not, or not yet.
    pub(crate) started: Option<Mono>,
    /// It is being stopped, whatever is said now.
    pub(crate) stopping: bool,
}

/// Takes over the shim that wrote this state in `dir`.
pub(crate) async fn attach(state: &State, dir: &Path) -> Result<Taken, Error> {
    match timeout(PROMPT, knock(state, dir)).await {
        Ok(answered) => answered,
        Err(_) => {
            state.shim.signal(Signal::CONT).ok();
            let late = |_| Error::Attach(io::ErrorKind::TimedOut.into());
            timeout(WOKEN, knock(state, dir)).await.unwrap_or_else(|elapsed| Err(late(elapsed)))
        }
    }
}

async fn knock(state: &State, dir: &Path) -> Result<Taken, Error> {
    let (_held, path) = door::short(dir).map_err(Error::Attach)?;
    let socket = UnixStream::connect(path).await.map_err(Error::Attach)?;
    let known = Known {
        version: state.version,
        job: state.job.clone(),
        token: state.token,
        dir: dir.to_owned(),
        clock: state.clock,
        grace: state.grace,
        hard_time_limit: state.hard_time_limit,
        gone_by: state.gone_by,
    };
    let mut shim = Shim::new(known, state.tree(), socket);
    let attach = Attach { version: state.version, token: state.token };
    let standing = shim.ask(&attach).await.map_err(Error::Attach)?;
    shim.known.gone_by = standing.gone_by;
    shim.started = standing.started;
    if let Some(started) = standing.started {
        shim.limit_from(started + standing.paused_for);
    }
    if standing.paused {
        shim.hold_limit();
    }
    if standing.stopping {
        shim.end_within(state.grace);
    }
    // What came with the answer: the socket wakes nobody for it.
    shim.hear();
    Ok(Taken { gone_by: standing.gone_by, started: standing.started, stopping: standing.stopping, shim })
}

impl Shim {
    /// Not cancel-safe.
    async fn ask(&mut self, attach: &Attach) -> io::Result<Standing> {
        self.send(attach).await?;
        match self.receive().await? {
            Notice::Attached(standing) if standing.token == attach.token => Ok(standing),
            Notice::Attached(_)
            | Notice::Ready
            | Notice::Started { .. }
            | Notice::Notified
            | Notice::Ended(_)
            | Notice::Unkillable
            | Notice::Reaped => Err(io::Error::new(io::ErrorKind::InvalidData, "it is somebody else's")),
        }
    }
}
