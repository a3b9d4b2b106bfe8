//! Simulated agents: the real session, jobs that finish at once.
//!
//! Responsible for the node's side of the protocol: Hello, heartbeats, one message of reports for each message of grants,
//! in which every lease is accepted, started, finished and reaped, `seen` on everything said. Not for processes: their
//! cost is the machine's, not the control plane's.
//!
//! Invariant: what counts as done is what the server answered as stored. A lease that was lost is an error: nothing here
//! is slow enough for that.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail, ensure};
use tenure_client::wire;
use tenure_proto::node::v1::{
    Accepted, Finished, FinishedOutcome, Grant, Heartbeat, Hello, NodeMessage, Reaped, Report, ReportKind,
    Reports, ServerMessage, Started, StoredAnswer, StoredVerdict, node_message::Body,
    node_service_client::NodeServiceClient, report::Event, server_message,
};
use tenure_tests::clock::Moment;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior, interval};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Channel;

use crate::rig::{KIND, SLOT};

/// Messages that wait for the transport. Full: the agent waits, as a real one does.
const OUTBOUND: usize = 4;
/// What was seen of single jobs and not read yet. Full: the agent waits; at the low rate at which it is used that
/// never happens.
const SEEN: usize = 4096;
/// Reports of one message: well below 1 MiB.
const MOST_REPORTS: usize = 4_000;

/// What to start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fleet {
    pub(crate) agents: u32,
    pub(crate) slots: u32,
    pub(crate) credits: u32,
    /// Whether every step of every job is told.
    pub(crate) observed: bool,
}

/// Running agents.
#[derive(Debug)]
pub(crate) struct Agents {
    tasks: JoinSet<anyhow::Result<()>>,
    reaped: watch::Receiver<u64>,
    seen: mpsc::Receiver<Seen>,
}

/// One step of one job.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) job: String,
    pub(crate) what: What,
    pub(crate) at: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Its grant was read.
    Granted,
    /// Its outcome was answered as stored.
    Stored,
}

impl Agents {
    /// Starts them, and waits until all are welcomed.
    ///
    /// # Errors
    /// If one is not.
    pub(crate) async fn start(endpoint: &str, fleet: &Fleet) -> anyhow::Result<Self> {
        let mut tasks = JoinSet::new();
        let (count, reaped) = watch::channel(0);
        let (tell, seen) = mpsc::channel(SEEN);
        for number in 0..fleet.agents {
            let observer = fleet.observed.then(|| tell.clone());
            let agent = Agent::join(endpoint, number, fleet, count.clone(), observer).await?;
            tasks.spawn(agent.run());
        }
        Ok(Self { tasks, reaped, seen })
    }

    /// How many leases are stored as over.
    pub(crate) fn reaped(&self) -> u64 {
        *self.reaped.borrow()
    }

    /// Waits until so many leases are stored as over. An agent that ends before that is an error.
    ///
    /// # Errors
    /// What an agent met.
    pub(crate) async fn until_reaped(&mut self, count: u64) -> anyhow::Result<()> {
        let Self { tasks, reaped, .. } = self;
        tokio::select! {
            found = reaped.wait_for(|&reaped| reaped >= count) => found.map(drop).context("all agents ended"),
            ended = tasks.join_next() => Err(ended_early(ended)), // cancel-safe
        }
    }

    /// The next step of a job.
    ///
    /// # Errors
    /// What an agent met.
    pub(crate) async fn next_seen(&mut self) -> anyhow::Result<Seen> {
        let Self { tasks, seen, .. } = self;
        tokio::select! {
            next = seen.recv() => next.context("all agents ended"), // cancel-safe
            ended = tasks.join_next() => Err(ended_early(ended)), // cancel-safe
        }
    }

    /// Cuts their streams.
    ///
    /// # Errors
    /// If one ended before.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        if let Some(ended) = self.tasks.try_join_next() {
            return Err(ended_early(Some(ended)));
        }
        self.tasks.shutdown().await;
        Ok(())
    }
}

fn ended_early(ended: Option<Result<anyhow::Result<()>, tokio::task::JoinError>>) -> anyhow::Error {
    match ended {
        Some(Ok(Err(error))) => error.context("an agent ended"),
        Some(Err(error)) => anyhow::Error::new(error).context("an agent ended"),
        Some(Ok(Ok(()))) | None => anyhow::anyhow!("an agent ended"),
    }
}

/// One agent with its open stream.
struct Agent {
    out: mpsc::Sender<NodeMessage>,
    messages: Streaming<ServerMessage>,
    seq: u64,
    /// The highest `seq` of the server that was applied.
    seen: u64,
    credits: usize,
    beat: Interval,
    /// Jobs whose outcome is not answered yet, by token.
    unstored: BTreeMap<u64, String>,
    reaped: watch::Sender<u64>,
    observer: Option<mpsc::Sender<Seen>>,
}

enum Input {
    Message(ServerMessage),
    Beat,
}

impl Agent {
    async fn join(
        endpoint: &str,
        number: u32,
        fleet: &Fleet,
        reaped: watch::Sender<u64>,
        observer: Option<mpsc::Sender<Seen>>,
    ) -> anyhow::Result<Self> {
        let channel = Channel::from_shared(endpoint.to_owned())?.tcp_nodelay(true).connect().await?;
        let (out, stream) = mpsc::channel(OUTBOUND);
        let hello = Hello {
            node_name: format!("bench-{number}"),
            instance: format!("bench-{number}"),
            boot_id: "bench".to_owned(),
            incarnation: 1,
            stream: 1,
            protocol: tenure_proto::SESSION_PROTOCOL,
            features: vec![tenure_proto::INPUTS_FEATURE.to_owned()],
            slots: [(SLOT.to_owned(), fleet.slots)].into(),
            kinds: vec![KIND.to_owned()],
            credits: fleet.credits,
            ..Hello::default()
        };
        out.send(NodeMessage { seq: 1, seen: 0, body: Some(Body::Hello(hello)) }).await?;
        let mut client = NodeServiceClient::new(channel).max_decoding_message_size(8 << 20);
        let mut messages = client.session(ReceiverStream::new(stream)).await?.into_inner();
        let first = messages.message().await?.context("the stream ended before its Welcome")?;
        let Some(server_message::Body::Welcome(welcome)) = first.body else { bail!("no Welcome: {first:?}") };
        ensure!(welcome.warnings.is_empty(), "the server warns: {:?}", welcome.warnings);
        let every =
            welcome.heartbeat_interval.as_ref().map(wire::std_duration).context("no heartbeat interval")?;
        let mut beat = interval(every);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let credits = usize::try_from(fleet.credits)?;
        let unstored = BTreeMap::new();
        Ok(Self { out, messages, seq: 1, seen: first.seq, credits, beat, unstored, reaped, observer })
    }

    /// Until it is dropped, or something is wrong.
    async fn run(mut self) -> anyhow::Result<()> {
        loop {
            let input = tokio::select! {
                biased;
                _ = self.beat.tick() => Input::Beat, // cancel-safe
                message = self.messages.message() => { // cancel-safe
                    Input::Message(message?.context("the server ended the stream")?)
                }
            };
            match input {
                Input::Beat => {
                    // Nothing is held between two messages: every lease is reaped in the answer to its grant.
                    self.say(Body::Heartbeat(Heartbeat::default())).await?;
                }
                Input::Message(message) => self.take(message).await?,
            }
        }
    }

    async fn take(&mut self, message: ServerMessage) -> anyhow::Result<()> {
        ensure!(message.seq == self.seen + 1, "message {} after {}", message.seq, self.seen);
        self.seen = message.seq;
        match message.body.context("an empty message")? {
            server_message::Body::Grants(grants) => self.granted(grants.grants).await,
            server_message::Body::Stored(stored) => self.stored(stored.answers).await,
            server_message::Body::Renewed(_) | server_message::Body::Configure(_) => Ok(()),
            other @ (server_message::Body::Welcome(_)
            | server_message::Body::Revoke(_)
            | server_message::Body::Drain(_)
            | server_message::Body::Resume(_)
            | server_message::Body::WantLog(_)) => bail!("not expected: {other:?}"),
        }
    }

    async fn granted(&mut self, grants: Vec<Grant>) -> anyhow::Result<()> {
        let at = Moment::now();
        ensure!(grants.len() <= self.credits, "{} grants for {} credits", grants.len(), self.credits);
        let mut reports = Vec::with_capacity(grants.len() * 4);
        for Grant { job_id, token, payload, .. } in grants {
            ensure!(!payload.is_empty(), "the grant of {job_id} has no payload");
            for event in events() {
                reports.push(Report { job_id: job_id.clone(), token, event: Some(event) });
            }
            self.observe(&job_id, What::Granted, at).await;
            self.unstored.insert(token, job_id);
        }
        while !reports.is_empty() {
            let rest = reports.split_off(reports.len().min(MOST_REPORTS));
            self.say(Body::Reports(Reports { reports: std::mem::replace(&mut reports, rest) })).await?;
        }
        Ok(())
    }

    async fn stored(&mut self, answers: Vec<StoredAnswer>) -> anyhow::Result<()> {
        let at = Moment::now();
        let mut reaped = 0;
        for answer in answers {
            ensure!(answer.verdict() == StoredVerdict::Stored, "not stored: {answer:?}");
            match answer.report() {
                ReportKind::Finished => {
                    let job =
                        self.unstored.remove(&answer.token).context("an answer about an unknown token")?;
                    self.observe(&job, What::Stored, at).await;
                }
                ReportKind::Reaped => reaped += 1,
                ReportKind::Returned | ReportKind::Unspecified => bail!("not expected: {answer:?}"),
            }
        }
        if reaped > 0 {
            self.reaped.send_modify(|count| *count += reaped);
        }
        Ok(())
    }

    async fn observe(&self, job: &str, what: What, at: Moment) {
        if let Some(observer) = &self.observer {
            // Who no longer listens wants to see nothing.
            drop(observer.send(Seen { job: job.to_owned(), what, at }).await);
        }
    }

    async fn say(&mut self, body: Body) -> anyhow::Result<()> {
        self.seq += 1;
        let message = NodeMessage { seq: self.seq, seen: self.seen, body: Some(body) };
        self.out.send(message).await.context("the stream is closed")
    }
}

/// The life of a lease whose job finishes at once.
fn events() -> [Event; 4] {
    let finished = Finished {
        outcome: FinishedOutcome::Succeeded.into(),
        exit_code: Some(0),
        cause: "exit".to_owned(),
        ..Finished::default()
    };
    [
        Event::Accepted(Accepted {}),
        Event::Started(Started::default()),
        Event::Finished(finished),
        Event::Reaped(Reaped {}),
    ]
}
