//! A worker: runs attempts inside this process, handed to it by the node agent of its machine.
//!
//! Responsible for the stream to the agent, for how many attempts run, and for their end in time. Not responsible for what
//! an attempt does. `docs/workers.md` tells when a worker is better than a command, and when not.
//!
//! Invariants: when the stream ends nothing runs on; the process ends itself before an attempt must be gone that has not
//! ended.
//!
//! ```no_run
//! use tenure_client::NewJob;
//! use tenure_client::worker::{Attempt, Failure, Output, Wait, Waited, Worker};
//! use tokio_util::sync::CancellationToken;
//!
//! async fn greet(attempt: Attempt) -> Result<Output, Failure> {
//!     let name = std::str::from_utf8(&attempt.payload).map_err(|_| Failure::permanent("the name is no text"))?;
//!     Ok(Output::text(format!("Hello, {name}!")))
//! }
//!
//! /// Has children, and waits for them; it comes back if it may not stay.
//! async fn family(attempt: Attempt) -> Result<Output, Failure> {
//!     attempt.progress(10, "has children").await?;
//!     let children = ["a", "b"].map(|name| NewJob::new("greet").payload(name));
//!     // An attempt that comes after this one finds these children, instead of new ones.
//!     let children: Vec<_> = (0..).zip(children).map(|(at, job)| attempt.child("names", at, job)).collect();
//!     attempt.enqueue(&children).await?.into_iter().collect::<Result<Vec<_>, _>>()?;
//!     let wait = Wait::all(children.iter().map(NewJob::id));
//!     match attempt.wait(&wait).await? {
//!         Waited::Over(ends) => Ok(Output::text(format!("{} have ended", ends.len()))),
//!         Waited::MustDetach => Ok(Output::detach(wait)),
//!     }
//! }
//!
//! # async fn example(stop: CancellationToken) -> Result<(), tenure_client::worker::Error> {
//! Worker::at("/var/lib/tenure/agent/workers/1000.sock").concurrency(8).job("greet", greet).job("family", family).run(stop).await
//! # }
//! ```

mod attempt;
mod stream;
mod voice;
mod wait;
mod watchdog;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tonic::Code;

use self::stream::{Broken, Stream};
use self::watchdog::Watchdog;
use crate::Refusal;

pub use self::attempt::{Attempt, Data, Failure, Input, Output, StopReason};
pub use self::voice::Lease;
pub use self::wait::{Wait, Waited};

/// Between two tries to attach: the first wait, which doubles, and the longest.
const AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// The most attempts at once that an agent allows one worker.
const MOST: u32 = 1_000;

/// What runs the attempts of one kind.
type Handler =
    Arc<dyn Fn(Attempt) -> Pin<Box<dyn Future<Output = Result<Output, Failure>> + Send>> + Send + Sync>;

/// A worker that is being put together. [`Worker::run`] attaches it.
#[derive(Clone)]
pub struct Worker {
    socket: PathBuf,
    concurrency: u32,
    jobs: BTreeMap<String, Handler>,
}

/// Why a worker has ended before it was told to.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No kind was given a function.
    #[error("the worker has no function to run: give it one by `job`")]
    NoJobs,
    /// The agent does not take this worker: a kind that is none of its worker kinds, say.
    #[error("the agent does not take this worker")]
    Refused(#[source] Box<Refusal>),
    /// The watchdog cannot be started; without it no promise could be kept.
    #[error("the watchdog cannot be started")]
    Watchdog(#[source] Arc<std::io::Error>),
}

impl Worker {
    /// A worker at the agent's socket for the user of this process; the agent says in its log where that is. Takes one
    /// attempt at a time.
    pub fn at(socket: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into(), concurrency: 1, jobs: BTreeMap::new() }
    }

    /// How many attempts run at once, 1 to 1,000, without those that wait for their children. One that blocks its thread and does not stop is ended by killing the
    /// process, with all others in it.
    #[must_use]
    pub fn concurrency(mut self, attempts: u32) -> Self {
        self.concurrency = attempts.clamp(1, MOST);
        self
    }

    /// What runs the attempts of a kind; a later one replaces an earlier one.
    ///
    /// A function that is to stop finds [`Attempt::stop`] cancelled; shortly before its grace is over its future is dropped
    /// at its next `await`. What blocks belongs into `spawn_blocking`, and has to look at the token itself.
    #[must_use]
    pub fn job<F, R>(mut self, kind: impl Into<String>, run: F) -> Self
    where
        F: Fn(Attempt) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Output, Failure>> + Send + 'static,
    {
        self.jobs.insert(kind.into(), Arc::new(move |attempt| Box::pin(run(attempt))));
        self
    }

    /// Attaches, and runs attempts until `shutdown`: then those that run go on to their end, and no more are taken. While no
    /// agent is there it is tried again and again. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// If the agent refuses this worker, or it can never run anything.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Error> {
        if self.jobs.is_empty() {
            return Err(Error::NoJobs);
        }
        let watchdog = Watchdog::start().map_err(|error| Error::Watchdog(Arc::new(error)))?;
        let mut pause = AGAIN.0;
        while !shutdown.is_cancelled() {
            let (welcomed, ended) = Stream::new(&self, &watchdog).serve(&shutdown).await;
            match ended {
                Ok(()) => {}
                Err(Broken::Refused(refusal)) if lasts(&refusal) => return Err(Error::Refused(refusal)),
                Err(Broken::Refused(refusal)) => {
                    tracing::warn!(socket = %self.socket.display(), error = %refusal, "no agent; trying again");
                }
                Err(Broken::Unreachable(error)) => {
                    tracing::debug!(socket = %self.socket.display(), %error, "no agent; trying again");
                }
            }
            pause = if welcomed { AGAIN.0 } else { (pause * 2).min(AGAIN.1) };
            tokio::select! {
                // Cancel-safe: a cancelled token stays cancelled.
                () = shutdown.cancelled() => {}
                // Cancel-safe: only a wait.
                () = tokio::time::sleep(pause) => {}
            }
        }
        Ok(())
    }
}

/// Whether the same worker would be refused again.
fn lasts(refusal: &Refusal) -> bool {
    matches!(refusal.code, Code::InvalidArgument | Code::FailedPrecondition | Code::Unimplemented)
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<&String> = self.jobs.keys().collect();
        f.debug_struct("Worker")
            .field("socket", &self.socket)
            .field("concurrency", &self.concurrency)
            .field("kinds", &kinds)
            .finish()
    }
}
