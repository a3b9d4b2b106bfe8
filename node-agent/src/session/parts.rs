//! What a session is made of, and what it says about itself.
//!
//! Responsible for the nouns alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::transport::Uri;

use crate::clock::Clock;
use crate::holdings::Holdings;
use tenure_tls::Connector;

use crate::host::Host;
use crate::pressure;
use crate::runner::{self, Lines, Runner};
use crate::spool::Spool;
use crate::state_dir::{self, StateDir};
use crate::workers::Room;

/// What a session says about its node.
#[derive(Clone, Debug)]
pub struct Options {
    /// The node's name.
    pub name: String,
    /// The servers, in the order in which they are asked; all with one scheme.
    pub servers: Vec<Uri>,
    /// Whether a leader on another host may be followed without TLS.
    pub insecure: bool,
    /// Makes connections of TLS, if the addresses ask for them.
    pub connector: Option<Connector>,
    /// Capacity by slot.
    pub slots: BTreeMap<String, u32>,
    /// Routing labels.
    pub labels: BTreeMap<String, String>,
    /// The kinds that run here.
    pub kinds: Vec<String>,
    /// Unaccepted grants that the node takes at once.
    pub credits: u32,
    /// What the host offers.
    pub host: Host,
    /// The clock of all deadlines.
    pub clock: Clock,
    /// How long running jobs may go on when the agent stops.
    pub drain_deadline: Duration,
    /// The longest grace of any kind.
    pub longest_grace: Duration,
}

/// What a session works with.
#[derive(Debug)]
pub struct Parts {
    /// The state directory.
    pub state: StateDir,
    /// What is held, leftovers of an earlier agent included.
    pub holdings: Holdings,
    /// What runs.
    pub runner: Runner,
    /// What waits for an answer.
    pub spool: Arc<Spool>,
    /// Where calls of attempts find the connection.
    pub connection: watch::Sender<Option<Lines>>,
    /// How the host feels.
    pub pressure: pressure::Handle,
    /// Which kinds workers have room for.
    pub room: watch::Receiver<Room>,
    /// Ends the agent, and leaves what runs to the next one.
    pub hand_over: CancellationToken,
    /// Ends the agent at once.
    pub at_once: CancellationToken,
    /// Where it is published how things are.
    pub status: watch::Sender<Status>,
}

/// How the agent is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Whether a server has said Welcome on the present stream.
    pub connected: bool,
    /// Leases whose tree is not gone, or that may still start.
    pub live: usize,
    /// Whether the agent is ending.
    pub draining: bool,
}

/// Why the session, and with it the agent, cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What runs cannot be followed any more.
    #[error("the runner failed")]
    Runner(#[source] runner::Error),
    /// The identity cannot be kept.
    #[error("the state directory failed")]
    State(#[source] state_dir::Error),
    /// The agent has ended, and trees live on.
    #[error("these attempts could not be killed in time, by token: {tokens:?}")]
    LeftRunning {
        /// Their tokens.
        tokens: Vec<u64>,
    },
}
