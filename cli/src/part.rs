//! A component that runs in this process: server or agent.
//!
//! Responsible for: asking it to stop, once gently and once for good, and for noticing when it ends by itself. Not
//! responsible for what a gentle stop means; that is the component's.
//! Invariant: an end that nobody asked for is a failure, never silence.

use std::future::Future;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::exit::Failure;
use crate::notify;
use crate::signals::Signals;

/// Any error that a component may end with.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How a component is asked to stop.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop {
    /// Finish what is under way.
    pub(crate) gentle: CancellationToken,
    /// Leave everything.
    pub(crate) at_once: CancellationToken,
}

/// A running component.
#[derive(Debug)]
pub(crate) struct Part {
    name: &'static str,
    stop: Stop,
    /// One task; a set, so that it ends with this value.
    task: JoinSet<Result<(), BoxError>>,
}

impl Part {
    /// Runs a component. It ends soon after `stop` says so.
    pub(crate) fn run<E: Into<BoxError>>(
        name: &'static str,
        stop: Stop,
        component: impl Future<Output = Result<(), E>> + Send + 'static,
    ) -> Self {
        let mut task = JoinSet::new();
        task.spawn(async move { component.await.map_err(Into::into) });
        Self { name, stop, task }
    }

    /// Waits for an end that nobody asked for. Cancel-safe.
    pub(crate) async fn fails(&mut self) -> Failure {
        match self.join().await {
            Err(source) => Failure::Component { what: self.name, source },
            Ok(()) => Failure::Component { what: self.name, source: "it ended by itself".into() },
        }
    }

    /// Asks it to stop and waits until it has; one more signal meanwhile makes it stop at once.
    pub(crate) async fn stop(mut self, signals: &mut Signals) -> Result<(), Failure> {
        enum Input {
            Ended(Result<(), BoxError>),
            Signal(&'static str),
        }
        self.stop.gentle.cancel();
        loop {
            let input = tokio::select! {
                biased;
                ended = self.join() => Input::Ended(ended), // cancel-safe: the task goes on
                signal = signals.next() => Input::Signal(signal), // cancel-safe
            };
            match input {
                Input::Ended(ended) => {
                    return ended.map_err(|source| Failure::Component { what: self.name, source });
                }
                Input::Signal(signal) => {
                    tracing::warn!(signal, part = self.name, "stopping at once");
                    self.stop.at_once.cancel();
                }
            }
        }
    }

    /// The end of the task; a second call says that there is none.
    async fn join(&mut self) -> Result<(), BoxError> {
        match self.task.join_next().await {
            None => Ok(()),
            Some(Ok(ended)) => ended,
            Some(Err(panicked)) => Err(panicked.into()),
        }
    }
}

/// Waits for a signal, or for the first part that ends without having been asked to.
pub(crate) async fn until_signal(
    server: Option<&mut Part>,
    agent: Option<&mut Part>,
    signals: &mut Signals,
) -> Result<(), Failure> {
    enum Input {
        Signal(&'static str),
        Failed(Failure),
    }
    let input = tokio::select! {
        biased;
        signal = signals.next() => Input::Signal(signal), // cancel-safe
        failure = failure_of(server) => Input::Failed(failure), // cancel-safe: the task goes on
        failure = failure_of(agent) => Input::Failed(failure), // cancel-safe: the task goes on
        never = notify::alive() => match never {}, // cancel-safe
    };
    match input {
        Input::Signal(signal) => {
            tracing::info!(signal, "stopping; a second signal stops at once");
            notify::stopping();
            Ok(())
        }
        Input::Failed(failure) => Err(failure),
    }
}

async fn failure_of(part: Option<&mut Part>) -> Failure {
    match part {
        Some(part) => part.fails().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_part_that_ends_by_itself_is_a_failure() {
        let mut signals = Signals::install().unwrap();
        let mut part = Part::run("the part", Stop::default(), async { Ok::<(), std::io::Error>(()) });
        let failure = until_signal(Some(&mut part), None, &mut signals).await.unwrap_err();
        assert!(crate::report::chain(&failure).contains("ended by itself"), "{failure:?}");
    }

    #[tokio::test]
    async fn a_part_is_stopped_gently_and_its_error_is_told() {
        let mut signals = Signals::install().unwrap();
        let stop = Stop::default();
        let gentle = stop.gentle.clone();
        let part = Part::run("the part", stop, async move {
            gentle.cancelled().await;
            Err(std::io::Error::other("disk full"))
        });
        let failure = part.stop(&mut signals).await.unwrap_err();
        assert_eq!(crate::report::chain(&failure), "the part: disk full");
    }

    #[tokio::test]
    async fn a_panic_of_a_part_is_a_failure() {
        let mut part = Part::run::<std::io::Error>("the part", Stop::default(), async { panic!("seen") });
        assert!(crate::report::chain(&part.fails().await).contains("panicked"));
    }
}
