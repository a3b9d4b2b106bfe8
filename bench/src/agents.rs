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
    Accepted, Finished, FinishedOutcome, GetChildResultsRequest, Grant, Heartbeat, HeldLease, Hello,
    LeaseName, LeasePhase, NodeMessage, Reaped, Report, ReportKind, Reports, ServerMessage, Started,
    StoredAnswer, StoredVerdict, node_message::Body, node_service_client::NodeServiceClient, report::Event,
    server_message,
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

/// Slots of each agent: more than it is ever granted at once.
const SLOTS: u32 = 512;
/// Unanswered grants that an agent takes: the most that a server lets it have.
const CREDITS: u32 = 128;

/// What to start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fleet {
    pub(crate) agents: u32,
    /// What its nodes are called, before their number.
    pub(crate) name: &'static str,
    pub(crate) kinds: &'static [&'static str],
    /// Whether every step of every job is told.
    pub(crate) observed: bool,
    /// Whether jobs are held until the agent goes, and do not finish at once.
    pub(crate) holds: bool,
}

impl Fleet {
    /// So many agents, whose jobs finish at once.
    pub(crate) fn of(agents: u32) -> Self {
        Self { agents, name: "bench", kinds: &[KIND], observed: false, holds: false }
    }
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
    client: NodeServiceClient<Channel>,
    name: String,
    /// Only of an agent that holds.
    held: Vec<HeldLease>,
    holds: bool,
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
        let name = format!("{}-{number}", fleet.name);
        let hello = Hello {
            node_name: name.clone(),
            instance: name.clone(),
            boot_id: "bench".to_owned(),
            incarnation: 1,
            stream: 1,
            protocol: tenure_proto::SESSION_PROTOCOL,
            features: vec![tenure_proto::INPUTS_FEATURE.to_owned()],
            slots: [(SLOT.to_owned(), SLOTS)].into(),
            kinds: fleet.kinds.iter().map(|&kind| kind.to_owned()).collect(),
            credits: CREDITS,
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
        Ok(Self {
            out,
            messages,
            client,
            name,
            held: Vec::new(),
            holds: fleet.holds,
            seq: 1,
            seen: first.seq,
            credits: usize::try_from(CREDITS)?,
            beat,
            unstored: BTreeMap::new(),
            reaped,
            observer,
        })
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
                    // One that does not hold has nothing between two messages: every lease is reaped in the answer to
                    // its grant.
                    let heartbeat = Heartbeat { held: self.held.clone(), ..Heartbeat::default() };
                    self.say(Body::Heartbeat(heartbeat)).await?;
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
        for Grant { job_id, token, payload, input_results, .. } in grants {
            ensure!(!payload.is_empty(), "the grant of {job_id} has no payload");
            if let Some(count) = input_results {
                self.read_inputs(&job_id, token, count).await?;
            }
            let life = events();
            // One that holds has accepted and started, and goes no further.
            let told = if self.holds { 2 } else { life.len() };
            for event in life.into_iter().take(told) {
                reports.push(Report { job_id: job_id.clone(), token, event: Some(event) });
            }
            self.observe(&job_id, What::Granted, at).await;
            if self.holds {
                let phase = LeasePhase::Started.into();
                self.held.push(HeldLease { job_id, token, phase, ..HeldLease::default() });
            } else {
                self.unstored.insert(token, job_id);
            }
        }
        while !reports.is_empty() {
            let rest = reports.split_off(reports.len().min(MOST_REPORTS));
            self.say(Body::Reports(Reports { reports: std::mem::replace(&mut reports, rest) })).await?;
        }
        Ok(())
    }

    /// Fetches what a synthesis is handed, as one does that uses it.
    async fn read_inputs(&mut self, job: &str, token: u64, count: u32) -> anyhow::Result<()> {
        let mut read = 0;
        let mut from_index = 0;
        loop {
            let lease = LeaseName { node: self.name.clone(), job_id: job.to_owned(), token };
            let request = GetChildResultsRequest {
                lease: Some(lease),
                job_ids: Vec::new(),
                from_index,
                takes_uploaded: false,
            };
            let answer = self.client.get_child_results(request).await?.into_inner();
            read += u32::try_from(answer.results.len())?;
            match answer.next_index {
                0 => break,
                next => from_index = next,
            }
        }
        ensure!(read == count, "{job} was handed {read} results of {count}");
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
