//! Who leads: how this server stands towards the others on its store, as everything in the process sees it.
//!
//! Responsible for the words and for publishing them. Not for deciding who leads (the store's election does), nor for
//! what a leader does (`term`, `driver`).
//! Invariant: whoever reads [`Standing::Leading`] may hear a moment later that it is over; what needs certainty goes
//! through the driver, whose commits check the epoch.

use std::{fmt, sync::Arc};

use tenure_scheduler::Epoch;
use tokio::sync::watch;
use uuid::Uuid;

use crate::{chain::BoxError, term::Term};

/// How a server stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Nobody else can lead on this store: a SQLite file, or memory. It leads as long as it runs.
    Alone,
    /// This server leads.
    Leading {
        /// Under which number. Published again when a takeover from itself raised it.
        epoch: Epoch,
    },
    /// Another server leads, or none.
    Following {
        /// Who is believed to lead, by what the store says. None: nobody is known, such as after a resignation, before
        /// the first read, or while the store is away.
        leader: Option<Leader>,
    },
}

/// Another server, by what it has written into the store at its takeover.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leader {
    /// Random for each start of its process.
    pub holder: Uuid,
    /// Where it serves clients and agents, as `host:port`. None: it was given no address that others could use.
    pub addr: Option<Arc<str>>,
    /// Where it serves other servers, as `host:port`. None: it has no listener for them.
    pub peer_addr: Option<Arc<str>>,
}

/// Follows how a server stands: a level, never an edge.
pub type Standings = watch::Receiver<Standing>;

impl Standing {
    /// Whether this server leads.
    #[must_use]
    pub fn leads(&self) -> bool {
        match self {
            Self::Alone | Self::Leading { .. } => true,
            Self::Following { .. } => false,
        }
    }

    /// The other server that is believed to lead, if one is.
    #[must_use]
    pub fn leader(&self) -> Option<&Leader> {
        match self {
            Self::Alone | Self::Leading { .. } => None,
            Self::Following { leader } => leader.as_ref(),
        }
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alone => f.write_str("alone"),
            Self::Leading { .. } => f.write_str("leading"),
            Self::Following { .. } => f.write_str("following"),
        }
    }
}

/// Leads where nobody else can, until the server ends.
///
/// # Errors
/// What ended the term otherwise: it ends the server.
pub(crate) async fn alone(term: Term) -> Result<(), BoxError> {
    Ok(term.run(std::future::pending()).await??)
}
