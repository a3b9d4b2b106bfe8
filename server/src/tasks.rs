//! The server's tasks: those that must not end before the shutdown. Sessions are a term's (`term.rs`).
//!
//! Responsible for seeing every end: a long task that ends early is an error that ends the server, never silence. Not
//! for what tasks do.

use std::{future::Future, time::Duration};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::chain::BoxError;

/// The tasks of one server.
#[derive(Debug)]
pub(crate) struct Tasks {
    long: JoinSet<(&'static str, Result<(), BoxError>)>,
    shutdown: CancellationToken,
}

/// Why the tasks ended otherwise than asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A task failed.
    #[error("the {task} failed")]
    Failed {
        /// Which.
        task: &'static str,
        /// Why.
        #[source]
        source: BoxError,
    },
    /// A task ended while it was still wanted.
    #[error("the {0} ended early")]
    EndedEarly(&'static str),
    /// A task panicked.
    #[error("a task panicked")]
    Panicked(#[source] tokio::task::JoinError),
    /// Tasks did not end in time, and were cut off.
    #[error("the server did not end within {} s of being asked", .0.as_secs())]
    TooSlow(Duration),
}

impl Tasks {
    pub(crate) fn new(shutdown: CancellationToken) -> Self {
        Self { long: JoinSet::new(), shutdown }
    }

    /// Starts a task that ends only after the shutdown has begun.
    pub(crate) fn long<E: Into<BoxError>>(
        &mut self,
        name: &'static str,
        task: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        self.long.spawn(async move { (name, task.await.map_err(Into::into)) });
    }

    /// Waits for all tasks. The first that ends early, fails or panics begins the shutdown; from its beginning on they
    /// have `patience` to end.
    ///
    /// # Errors
    /// The first fault that was seen.
    pub(crate) async fn wait(mut self, patience: Duration) -> Result<(), Error> {
        let mut fault = None;
        while !self.shutdown.is_cancelled() {
            // Cancel-safe: both only wait.
            let ended = tokio::select! {
                biased;
                ended = self.long.join_next() => ended,
                () = self.shutdown.cancelled() => continue,
            };
            fault = fault.or(match ended {
                None => None,
                Some(ended) => fault_of(ended, self.shutdown.is_cancelled()),
            });
            self.shutdown.cancel();
        }
        let rest = async {
            let mut fault = None;
            while let Some(ended) = self.long.join_next().await {
                fault = fault.or(fault_of(ended, true));
            }
            fault
        };
        let late = match tokio::time::timeout(patience, rest).await {
            Ok(fault) => fault,
            Err(_) => Some(Error::TooSlow(patience)), // dropping the set cuts them off
        };
        fault.or(late).map_or(Ok(()), Err)
    }
}

pub(crate) type Ended = Result<(&'static str, Result<(), BoxError>), tokio::task::JoinError>;

/// What the end of a task says, if it is a fault: any is, unless it was asked for.
pub(crate) fn fault_of(ended: Ended, asked: bool) -> Option<Error> {
    match ended {
        Ok((_, Ok(()))) if asked => None,
        Ok((task, Ok(()))) => Some(Error::EndedEarly(task)),
        Ok((task, Err(source))) => Some(Error::Failed { task, source }),
        Err(error) => Some(Error::Panicked(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(200);

    #[tokio::test]
    async fn a_task_that_ends_early_ends_the_server() {
        let shutdown = CancellationToken::new();
        let mut tasks = Tasks::new(shutdown.clone());
        tasks.long("sweeper", async { Ok::<(), std::io::Error>(()) });
        let other = shutdown.clone();
        tasks.long("driver", async move {
            other.cancelled().await;
            Ok::<(), std::io::Error>(())
        });
        assert!(matches!(tasks.wait(PATIENCE).await, Err(Error::EndedEarly("sweeper"))));
        assert!(shutdown.is_cancelled());
    }

    #[tokio::test]
    async fn a_failure_and_a_panic_are_told() {
        let mut tasks = Tasks::new(CancellationToken::new());
        tasks.long("driver", async { Err(std::io::Error::other("gone")) });
        assert!(matches!(tasks.wait(PATIENCE).await, Err(Error::Failed { task: "driver", .. })));
        let mut tasks = Tasks::new(CancellationToken::new());
        tasks.long::<std::io::Error>("driver", async { panic!("seen") });
        assert!(matches!(tasks.wait(PATIENCE).await, Err(Error::Panicked(_))));
    }

    #[tokio::test]
    async fn a_shutdown_waits_for_tasks_but_not_for_ever() {
        let shutdown = CancellationToken::new();
        let mut tasks = Tasks::new(shutdown.clone());
        tasks.long("driver", std::future::pending::<Result<(), std::io::Error>>());
        shutdown.cancel();
        assert!(matches!(tasks.wait(PATIENCE).await, Err(Error::TooSlow(_))));
    }
}
