//! A node by script: one stream of the session over a real socket, every message by hand.

use std::{collections::VecDeque, net::SocketAddr, time::Duration};

use tenure_proto::node::v1::{
    Accepted, Finished, FinishedOutcome, Grant, Heartbeat, HeldLease, Hello, LeasePhase, NodeMessage, Reaped,
    Report, Reports, ResultBytes, ServerMessage, Started, StoredAnswer, Welcome, node_message,
    node_service_client::NodeServiceClient, report::Event, server_message::Body,
};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming, transport::Channel};

/// No test waits longer for anything.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// One stream of one node.
pub(crate) struct Node {
    out: mpsc::Sender<NodeMessage>,
    messages: Streaming<ServerMessage>,
    /// Read and not asked for yet.
    read: VecDeque<ServerMessage>,
    /// Of the last message said.
    pub(crate) seq: u64,
    /// Of the last message read: what it says to have applied.
    pub(crate) seen: u64,
}

/// A Hello of a node with room for everything that tests do.
pub(crate) fn hello(name: &str, incarnation: u64) -> Hello {
    Hello {
        node_name: name.to_owned(),
        instance: format!("instance of {name}"),
        boot_id: "boot".to_owned(),
        incarnation,
        stream: 1,
        protocol: tenure_proto::SESSION_PROTOCOL,
        slots: [("browser".to_owned(), 2)].into(),
        features: vec![tenure_proto::INPUTS_FEATURE.to_owned()],
        kinds: vec!["page".to_owned()],
        ..Hello::default()
    }
}

pub(crate) fn held(grant: &Grant, phase: LeasePhase) -> HeldLease {
    HeldLease {
        job_id: grant.job_id.clone(),
        token: grant.token,
        phase: phase.into(),
        ..HeldLease::default()
    }
}

pub(crate) fn accepted() -> Event {
    Event::Accepted(Accepted {})
}

pub(crate) fn started() -> Event {
    Event::Started(Started { elapsed: None })
}

pub(crate) fn reaped() -> Event {
    Event::Reaped(Reaped {})
}

pub(crate) fn finished(outcome: FinishedOutcome, result: Option<&[u8]>) -> Event {
    Event::Finished(Finished {
        outcome: outcome.into(),
        exit_code: Some(0),
        cause: "exit".to_owned(),
        result: result
            .map(|data| ResultBytes { data: data.to_vec().into(), content_type: "text/plain".to_owned() }),
        ..Finished::default()
    })
}

impl Node {
    /// Opens a stream and says nothing yet.
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let endpoint = Channel::from_shared(format!("http://{address}")).expect("an address");
        // A small window: what is not read is soon not sent.
        let channel = endpoint.initial_stream_window_size(65_535).connect().await.expect("it listens");
        let (out, stream) = mpsc::channel(64);
        let mut client = NodeServiceClient::new(channel).max_decoding_message_size(8 << 20);
        let messages = client.session(ReceiverStream::new(stream)).await.expect("a stream").into_inner();
        Self { out, messages, read: VecDeque::new(), seq: 0, seen: 0 }
    }

    /// Opens a stream, says Hello and is welcomed. While the server is away it is tried again, as an agent would.
    pub(crate) async fn join(address: SocketAddr, hello: Hello) -> (Self, Welcome) {
        let join = async {
            loop {
                let mut node = Self::open(address).await;
                node.say(node_message::Body::Hello(hello.clone())).await;
                match node.next().await.map(|message| message.body) {
                    Ok(Some(Body::Welcome(welcome))) => return (node, welcome),
                    Ok(body) => panic!("not a welcome: {body:?}"),
                    Err(status) if status.code() == Code::Unavailable => {
                        sleep(Duration::from_millis(20)).await
                    }
                    Err(status) => panic!("{status:?}"),
                }
            }
        };
        timeout(SOON, join).await.expect("it is welcomed in time")
    }

    pub(crate) async fn say(&mut self, body: node_message::Body) {
        self.seq += 1;
        self.send(NodeMessage { seq: self.seq, seen: self.seen, body: Some(body) }).await;
    }

    /// Says anything, whatever its numbers.
    pub(crate) async fn send(&self, message: NodeMessage) {
        self.out.send(message).await.expect("the stream is open");
    }

    pub(crate) async fn heartbeat(&mut self, held: Vec<HeldLease>) {
        self.say(node_message::Body::Heartbeat(Heartbeat { held, pressure: None })).await;
    }

    pub(crate) async fn report(&mut self, grant: &Grant, events: impl IntoIterator<Item = Event>) {
        let report = |event| Report { job_id: grant.job_id.clone(), token: grant.token, event: Some(event) };
        let reports = events.into_iter().map(report).collect();
        self.say(node_message::Body::Reports(Reports { reports })).await;
    }

    /// The next message, in time.
    pub(crate) async fn next(&mut self) -> Result<ServerMessage, Status> {
        if let Some(message) = self.read.pop_front() {
            return Ok(message);
        }
        let message = timeout(SOON, self.messages.message()).await.expect("a message comes in time")?;
        let message = message.ok_or_else(|| Status::ok("the stream ended"))?;
        assert_eq!(message.seq, self.seen + 1, "numbers have no gaps");
        self.seen = message.seq;
        Ok(message)
    }

    /// The first message that fits, others are kept for later in their order.
    pub(crate) async fn find<T>(&mut self, fits: impl Fn(&ServerMessage) -> Option<T>) -> T {
        if let Some(at) = self.read.iter().position(|message| fits(message).is_some()) {
            let message = self.read.remove(at).expect("it is there");
            return fits(&message).expect("it fits");
        }
        let mut passed = VecDeque::new();
        loop {
            self.read = VecDeque::new();
            let message = self.next().await.expect("a message");
            if let Some(found) = fits(&message) {
                self.read = passed;
                return found;
            }
            passed.push_back(message);
        }
    }

    /// The next grants. Their number may be less than what will come.
    pub(crate) async fn grants(&mut self) -> Vec<Grant> {
        self.find(|message| match &message.body {
            Some(Body::Grants(grants)) => Some(grants.grants.clone()),
            _ => None,
        })
        .await
    }

    pub(crate) async fn grant(&mut self) -> Grant {
        let mut grants = self.grants().await;
        assert_eq!(grants.len(), 1);
        grants.remove(0)
    }

    /// The next answers to reports.
    pub(crate) async fn answers(&mut self, count: usize) -> Vec<StoredAnswer> {
        let mut all = Vec::new();
        while all.len() < count {
            let more = self
                .find(|message| match &message.body {
                    Some(Body::Stored(stored)) => Some(stored.answers.clone()),
                    _ => None,
                })
                .await;
            all.extend(more);
        }
        all
    }

    /// How the stream ends; what still comes before that is of no interest.
    pub(crate) async fn ended(mut self) -> Status {
        self.read.clear();
        loop {
            if let Err(status) = self.next().await {
                return status;
            }
        }
    }

    /// Closes the stream, as a broken connection would.
    pub(crate) fn cut(self) {
        drop(self);
    }
}
