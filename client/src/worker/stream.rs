//! One stream to the agent, from its Hello to its end.
//!
//! Invariant: an attempt is in `running` from the moment it is read until its end is on the stream.

use std::collections::BTreeMap;
use std::time::Duration;

use tenure_proto::limits;
use tenure_proto::node::v1::worker_service_client::WorkerServiceClient;
use tenure_proto::node::v1::{
    StopWork, Work, WorkEnded, WorkMessage, WorkerHello, WorkerLeaving, WorkerMessage, work_message,
    worker_message::Body,
};
use tokio::sync::mpsc;
use tokio::task::{Id, JoinError, JoinSet};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::Endpoint;
use tonic::{Status, Streaming};

use super::attempt::{Attempt, Before, Failure, StopReason};
use super::watchdog::Watchdog;
use super::{Handler, Worker};
use crate::Refusal;

/// An agent on the same machine that does not answer by then is none.
const CONNECT: Duration = Duration::from_secs(5);
/// Ends that wait to be written.
const QUEUE: usize = 64;
/// An attempt that is to stop is dropped so long before its worker would be killed.
const BEFORE_THE_KILL: Duration = Duration::from_millis(500);

/// Why a stream ended that should not have.
#[derive(Debug)]
pub(super) enum Broken {
    /// Nobody is there.
    Unreachable(tonic::transport::Error),
    /// The agent says why.
    Refused(Box<Refusal>),
}

/// The attempts of one stream.
pub(super) struct Stream<'a> {
    worker: &'a Worker,
    watchdog: &'a Watchdog,
    tasks: JoinSet<WorkEnded>,
    running: BTreeMap<Id, Attempt>,
    /// What attempts go on from whose work has not come yet, by token.
    before: BTreeMap<u64, Before>,
}

enum Input {
    Agent(Result<Option<Box<WorkMessage>>, Status>),
    Ended(Result<(Id, WorkEnded), JoinError>),
    Leave,
}

impl<'a> Stream<'a> {
    pub(super) fn new(worker: &'a Worker, watchdog: &'a Watchdog) -> Self {
        Self { worker, watchdog, tasks: JoinSet::new(), running: BTreeMap::new(), before: BTreeMap::new() }
    }

    /// Serves until the stream is over and nothing runs any more: whether it was welcomed, and how it ended.
    pub(super) async fn serve(mut self, shutdown: &CancellationToken) -> (bool, Result<(), Broken>) {
        let (say, queue) = mpsc::channel(QUEUE);
        let opened = self.open(&say, queue).await;
        let mut inbound = match opened {
            Ok(inbound) => inbound,
            Err(broken) => return (false, Err(broken)),
        };
        let mut welcomed = false;
        let ended = self.follow(&mut inbound, say, shutdown, &mut welcomed).await;
        // Nobody says any more by when they must be gone.
        for attempt in self.running.values() {
            attempt.tell(StopReason::LeaseLost);
        }
        self.tasks.abort_all();
        while self.tasks.join_next().await.is_some() {}
        for attempt in self.running.values() {
            self.watchdog.forget(attempt.token);
        }
        (welcomed, ended)
    }

    async fn open(
        &self,
        say: &mpsc::Sender<WorkerMessage>,
        queue: mpsc::Receiver<WorkerMessage>,
    ) -> Result<Streaming<WorkMessage>, Broken> {
        let endpoint = Endpoint::from_shared(format!("unix:{}", self.worker.socket.display()));
        let channel = endpoint.map_err(Broken::Unreachable)?.connect_timeout(CONNECT).connect().await;
        let hello = WorkerHello {
            kinds: self.worker.jobs.keys().cloned().collect(),
            concurrency: self.worker.concurrency,
            library: concat!("tenure-client/", env!("CARGO_PKG_VERSION")).to_owned(),
            inputs: true,
            sockets: true,
        };
        drop(say.try_send(WorkerMessage { body: Some(Body::Hello(hello)) })); // It is empty.
        let mut client = WorkerServiceClient::new(channel.map_err(Broken::Unreachable)?)
            .max_decoding_message_size(limits::DECODE_BYTES);
        Ok(client.attach(ReceiverStream::new(queue)).await?.into_inner())
    }

    async fn follow(
        &mut self,
        inbound: &mut Streaming<WorkMessage>,
        say: mpsc::Sender<WorkerMessage>,
        shutdown: &CancellationToken,
        welcomed: &mut bool,
    ) -> Result<(), Broken> {
        let mut say = Some(say);
        let (mut leaving, mut left) = (false, false);
        loop {
            if left && self.running.is_empty() {
                say = None; // The agent ends the stream.
            }
            let input = tokio::select! {
                // Cancel-safe: a message that is being read stays where it is.
                message = inbound.message() => Input::Agent(message.map(|message| message.map(Box::new))),
                // Cancel-safe: JoinSet join_next_with_id.
                Some(ended) = self.tasks.join_next_with_id() => Input::Ended(ended),
                // Cancel-safe: a cancelled token stays cancelled.
                () = shutdown.cancelled(), if !leaving => Input::Leave,
            };
            match input {
                Input::Agent(message) => match message?.map(|message| message.body) {
                    Some(Some(work_message::Body::Welcome(welcome))) => {
                        *welcomed = true;
                        self.watchdog.set_clock(welcome.clock());
                        tracing::info!(node.id = welcome.node, "attached to the agent");
                    }
                    Some(Some(work_message::Body::Work(work))) => self.begin(work),
                    Some(Some(work_message::Body::Inputs(inputs))) => {
                        let before = self.before.entry(inputs.token).or_default();
                        before.results.extend(inputs.results);
                        before.state = before.state.take().or(inputs.state);
                    }
                    Some(Some(work_message::Body::Deadline(deadline))) => {
                        self.watchdog.extend(deadline.token, deadline.gone_by_us);
                    }
                    Some(Some(work_message::Body::Stop(stop))) => self.stop(&stop),
                    Some(Some(work_message::Body::Left(_))) => left = true,
                    Some(Some(work_message::Body::WrapUp(asked))) => {
                        if let Some(attempt) = self.find(asked.token) {
                            attempt.wrap_up.cancel();
                        }
                    }
                    // A word of a newer agent.
                    Some(None) => {}
                    None => return Ok(()),
                },
                Input::Ended(ended) => self.ended(ended, say.as_ref()).await,
                Input::Leave => {
                    leaving = true;
                    let body = Some(Body::Leaving(WorkerLeaving {}));
                    tell(say.as_ref(), WorkerMessage { body }).await;
                }
            }
        }
    }

    fn begin(&mut self, work: Work) {
        self.watchdog.set(work.token, work.gone_by_us);
        let grace = work.grace.and_then(|grace| grace.try_into().ok()).unwrap_or_default();
        let handler = self.worker.jobs.get(&work.kind).cloned();
        let before = self.before.remove(&work.token).unwrap_or_default();
        let attempt = Attempt::new(work, before);
        let task = self.tasks.spawn(run(handler, attempt.clone(), grace));
        self.running.insert(task.id(), attempt);
    }

    fn stop(&mut self, stop: &StopWork) {
        // Its work will not come.
        self.before.remove(&stop.token);
        if let Some(attempt) = self.find(stop.token) {
            attempt.tell(StopReason::of(stop.reason()));
        }
    }

    fn find(&self, token: u64) -> Option<&Attempt> {
        self.running.values().find(|attempt| attempt.token == token)
    }

    async fn ended(
        &mut self,
        ended: Result<(Id, WorkEnded), JoinError>,
        say: Option<&mpsc::Sender<WorkerMessage>>,
    ) {
        let id = ended.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let Some(attempt) = self.running.remove(&id) else { return };
        let end = match ended {
            Ok((_, end)) => end,
            Err(error) if error.is_panic() => {
                attempt.ended(Some(Err(Failure::retry("its function panicked"))))
            }
            Err(_) => attempt.ended(None),
        };
        self.watchdog.forget(attempt.token);
        tell(say, WorkerMessage { body: Some(Body::Ended(end)) }).await;
    }
}

/// Says something, unless the stream is over.
async fn tell(say: Option<&mpsc::Sender<WorkerMessage>>, message: WorkerMessage) {
    if let Some(say) = say {
        drop(say.send(message).await);
    }
}

/// Runs one attempt. Told to stop, it has its grace; then its future is dropped.
async fn run(handler: Option<Handler>, attempt: Attempt, grace: Duration) -> WorkEnded {
    let Some(handler) = handler else {
        let failure = Failure::permanent(format!("this worker does not run {}", attempt.kind));
        return attempt.ended(Some(Err(failure)));
    };
    let late = async {
        attempt.stop.cancelled().await;
        tokio::time::sleep(grace.saturating_sub(BEFORE_THE_KILL)).await;
    };
    let answer = tokio::select! {
        // Cancel-safe in the sense of the attempt: it is to stop.
        answer = handler(attempt.clone()) => Some(answer),
        // Cancel-safe: only waits.
        () = late => None,
    };
    attempt.ended(answer)
}

impl From<Status> for Broken {
    fn from(status: Status) -> Self {
        Self::Refused(Box::new(Refusal::from_status(&status)))
    }
}
