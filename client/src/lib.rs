//! The client library of Tenure: enqueue jobs, follow them, operate the fleet.
//!
//! Responsible for: one connection that heals by itself, typed refusals, job ids made before the call, batches that fit
//! the wire, retries of UNAVAILABLE and of nothing else. Not responsible for: what an answer means to the caller; a
//! refusal with `retry_after` comes back as one, and only the caller knows whether it wants to wait.
//! Invariant: a call that was sent twice is one call, because every job carries its id from the moment it is described.
//!
//! Reading order: [`NewJob`], [`Client`] (this file, then `enqueue`, `jobs`, `watch`, `fleet`, `cron`, `webhooks`, `admin`, `inbox`, `workflows`), [`Refusal`], `servers`,
//! `retry`.
//!
//! ```no_run
//! use std::time::Duration;
//! use tenure_client::{Client, NewJob};
//!
//! # async fn example() -> Result<(), tenure_client::Error> {
//! let client = Client::connect("http://127.0.0.1:7070")?;
//! let job = NewJob::new("digest.daily").dedupe_key("digest.daily:2026-09-30").payload(r#"{"edition": "morning"}"#);
//! client.enqueue(&job).await?;
//! let waited = client.wait(job.id(), Some(Duration::from_secs(600))).await?;
//! println!("{} is {:?}", waited.job.id, waited.job.state());
//! # Ok(())
//! # }
//! ```
//!
//! A refusal is a value, with everything that the server said; UNAVAILABLE was tried again before it is an error:
//!
//! ```no_run
//! # use tenure_client::{Client, Error, NewJob};
//! # async fn example(client: &Client, job: &NewJob) -> Result<(), Error> {
//! match client.enqueue(job).await {
//!     Ok(enqueued) => println!("stored {}", enqueued.job.id),
//!     Err(Error::Refused(refusal)) => println!("{}: come back in {:?}", refusal.reason, refusal.retry_after),
//!     Err(Error::Unavailable { .. }) => println!("what became of it is not known: send the same job again"),
//!     Err(other) => return Err(other),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! `examples/` has whole programs: `enqueue`, `batch`, `result` (waiting for one), `watch`, `come_back` (after a refusal),
//! `over_tls` and `worker`, which runs attempts inside itself ([`worker`]).

mod admin;
mod child;
mod clock;
mod cron;
mod endpoint;
mod enqueue;
mod fleet;
mod inbox;
mod job_spec;
mod jobs;
mod log;
mod once;
mod refusal;
mod results;
mod retry;
mod servers;
mod watch;
mod webhooks;
pub mod wire;
#[cfg(unix)]
pub mod worker;
mod workflows;

use std::sync::Arc;
use std::time::Duration;

pub use child::child_id;
pub use enqueue::Enqueued;
pub use job_spec::{NewJob, new_job_id};
pub use jobs::{Jobs, Waited};
pub use log::{Log, LogEntry, LogOptions};
pub use once::{ONCE_LABEL, ONCE_MOST_BYTES, Once, OnceError};
pub use refusal::{FieldViolation, PreconditionViolation, QuotaViolation, Refusal, Resource};
pub use results::ResultStream;
pub use retry::RetryPolicy;
/// The messages of the wire, for everything that has no nicer type here.
pub use tenure_proto::v1 as proto;
pub use watch::Watch;
pub use workflows::{Chord, NewWorkflow, Part, WorkflowWatch};

/// The address that a client uses if nobody names another.
pub const DEFAULT_ENDPOINT: &str = "http://127.0.0.1:7070";

/// The files of mutual TLS.
pub use tenure_tls::{Files as TlsFiles, files::Own as OwnCertificate};

/// How a [`Client`] behaves.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How long, and how often, a call is tried again while the servers are UNAVAILABLE.
    pub retry: RetryPolicy,
    /// For `https://`: whom to believe, and who we are. Read again for each connection.
    pub tls: Option<TlsFiles>,
    /// Speaks to other hosts without TLS, where everybody on the way can read and change what is said.
    pub insecure: bool,
}

/// A connection to a fleet of one or several servers. Cheap to clone; clones share the connections.
#[derive(Clone, Debug)]
pub struct Client {
    endpoint: String,
    options: Options,
    servers: Arc<servers::Servers>,
}

/// Why a call did not do what it was asked to.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be used. Nothing was sent.
    #[error("the address {endpoint:?} cannot be used: {reason}")]
    Endpoint {
        /// The address as it was given.
        endpoint: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The certificates cannot be used, or the server does not take them, or we not its. Nothing was sent.
    #[error("no TLS with {endpoint}")]
    Tls {
        /// The address of the server.
        endpoint: String,
        /// What is wrong, with which file.
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The server answered no. Nothing was stored, and the same call at once would meet the same answer.
    #[error(transparent)]
    Refused(#[from] Box<Refusal>),
    /// No server was to be reached, or none was ready, until the deadline of the call. Whether the last try was carried
    /// out is not known; the same call again, with the same job ids, is safe.
    #[error("no answer from {endpoint} after {tries} tries in {waited:.1?}")]
    Unavailable {
        /// The addresses of the servers.
        endpoint: String,
        /// How often the call was sent.
        tries: u32,
        /// From the first try to giving up.
        waited: Duration,
        /// What the last try met.
        #[source]
        last: Box<Refusal>,
    },
    /// The server answered well, but without a part that it always sends: it speaks another protocol.
    #[error("the answer to {rpc} has no {missing}; the server is not one that this client understands")]
    Answer {
        /// The call.
        rpc: &'static str,
        /// What the answer lacks.
        missing: &'static str,
    },
}

impl Error {
    /// The refusal, if the server answered no.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            Self::Endpoint { .. } | Self::Tls { .. } | Self::Unavailable { .. } | Self::Answer { .. } => None,
        }
    }
}

impl Client {
    /// A client of the server at `endpoint` (`http://127.0.0.1:7070`, or without the scheme), with default options.
    ///
    /// Several servers of one fleet stand between commas (`10.0.0.1:7070,10.0.0.2:7070`). The first is asked; when one
    /// is UNAVAILABLE or does not answer, the next one is asked from then on. Up to 16.
    ///
    /// Connects with the first call, and again whenever the connection is gone. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// [`Error::Endpoint`] if an address is not one that this client may speak to.
    pub fn connect(endpoint: &str) -> Result<Self, Error> {
        Self::connect_with(endpoint, Options::default())
    }

    /// As [`Client::connect`], with options.
    ///
    /// # Errors
    /// [`Error::Endpoint`] if the address is not one that this client may speak to.
    pub fn connect_with(endpoint: &str, options: Options) -> Result<Self, Error> {
        let servers = servers::Servers::new(endpoint, &options)?;
        Ok(Self { endpoint: servers.endpoints(), options, servers: Arc::new(servers) })
    }

    /// The address of the server; of several, all of them between commas.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }
}
