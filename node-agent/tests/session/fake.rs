//! A server that says what a test tells it to, on a real socket.
//!
//! Responsible for numbering, for waiting with a deadline, and for answering heartbeats where a test does not care. Not
//! responsible for any rule of the protocol: the test is the scheduler.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tenure_proto::node::v1::node_service_server::{NodeService, NodeServiceServer};
use tenure_proto::node::v1::{
    BeginWaitRequest, BeginWaitResponse, EnqueueChildrenRequest, EnqueueChildrenResponse, FetchResultRequest,
    FetchResultResponse, Finished, GetChildResultsRequest, GetChildResultsResponse, Grant, Grants, Hello,
    InputResult, LeasePhase, NodeMessage, PushLogRequest, PushLogResponse, Renewed, RenewedLease, Report,
    ReportKind, Returned, ServerMessage, Stored, StoredAnswer, StoredVerdict, UploadResultRequest,
    UploadResultResponse, UploadedResult, Welcome, node_message, report::Event, server_message::Body,
    upload_result_request::Part,
};
use tenure_proto::v1::JobState;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_types::{ErrorDetails, StatusExt as _};

/// Nothing that a test waits for takes this long.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// What jobs left from which others go on.
pub(crate) const INPUT: &[u8] = b"what a job left";

/// The server, and the streams that nodes have opened.
pub(crate) struct Fake {
    pub(crate) address: SocketAddr,
    streams: mpsc::Receiver<Stream>,
    /// Calls for children, none of which is ever answered; closed when the caller has given up.
    pub(crate) children: mpsc::Receiver<oneshot::Sender<()>>,
    /// Uploads whose bytes are all there. Each waits for its answer.
    pub(crate) uploads: mpsc::Receiver<Upload>,
    /// The jobs whose results were asked for, in order.
    pub(crate) fetched: Arc<std::sync::Mutex<Vec<String>>>,
    /// Ends with the test.
    _tasks: JoinSet<()>,
}

/// A result that a node has sent.
pub(crate) struct Upload {
    /// Its bytes.
    pub(crate) size: u64,
    /// Says that it is stored. Dropped: the server is away. Closed: the node has given up.
    pub(crate) stored: oneshot::Sender<()>,
}

/// One stream, from the server's side.
pub(crate) struct Stream {
    incoming: mpsc::Receiver<NodeMessage>,
    outgoing: mpsc::Sender<Result<ServerMessage, Status>>,
    seq: u64,
    /// The node's newest `seq`.
    pub(crate) seen: u64,
    /// How long leases are renewed for when a heartbeat lists them. Zero: they are not.
    pub(crate) renew: Duration,
    /// Whether ends are answered by themselves.
    pub(crate) store: bool,
    /// Reports of a message that nobody has waited for yet.
    later: VecDeque<Report>,
}

struct Service {
    streams: mpsc::Sender<Stream>,
    children: mpsc::Sender<oneshot::Sender<()>>,
    uploads: mpsc::Sender<Upload>,
    fetched: Arc<std::sync::Mutex<Vec<String>>>,
    readers: Mutex<JoinSet<()>>,
}

#[tonic::async_trait]
impl NodeService for Service {
    type SessionStream = ReceiverStream<Result<ServerMessage, Status>>;

    async fn session(
        &self,
        request: Request<Streaming<NodeMessage>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let (outgoing, answers) = mpsc::channel(64);
        let (sender, incoming) = mpsc::channel(1_024);
        let mut messages = request.into_inner();
        self.readers.lock().await.spawn(async move {
            while let Ok(Some(message)) = messages.message().await {
                if sender.send(message).await.is_err() {
                    return;
                }
            }
        });
        let stream = Stream {
            incoming,
            outgoing,
            seq: 0,
            seen: 0,
            renew: Duration::from_secs(60),
            store: true,
            later: VecDeque::new(),
        };
        self.streams.send(stream).await.map_err(|_| Status::unavailable("the test is over"))?;
        Ok(Response::new(ReceiverStream::new(answers)))
    }

    async fn enqueue_children(
        &self,
        _: Request<EnqueueChildrenRequest>,
    ) -> Result<Response<EnqueueChildrenResponse>, Status> {
        let (under_way, never) = oneshot::channel();
        self.children.send(under_way).await.map_err(|_| Status::unavailable("the test is over"))?;
        drop(never.await);
        std::future::pending().await
    }

    async fn push_log(
        &self,
        _: Request<Streaming<PushLogRequest>>,
    ) -> Result<Response<PushLogResponse>, Status> {
        Err(Status::unimplemented("no test here reads a log"))
    }

    async fn begin_wait(&self, _: Request<BeginWaitRequest>) -> Result<Response<BeginWaitResponse>, Status> {
        Err(Status::unimplemented("no test here has children"))
    }

    async fn get_child_results(
        &self,
        _: Request<GetChildResultsRequest>,
    ) -> Result<Response<GetChildResultsResponse>, Status> {
        let sha256 = ring::digest::digest(&ring::digest::SHA256, INPUT).as_ref().to_vec().into();
        let uploaded = UploadedResult { size: INPUT.len() as u64, content_type: "a/b".to_owned(), sha256 };
        let results = [(0, "first"), (1, "second")].map(|(index, job)| InputResult {
            index,
            job_id: job.to_owned(),
            state: JobState::Succeeded.into(),
            uploaded: Some(uploaded.clone()),
            ..InputResult::default()
        });
        Ok(Response::new(GetChildResultsResponse {
            results: results.into(),
            ..GetChildResultsResponse::default()
        }))
    }

    async fn upload_result(
        &self,
        request: Request<Streaming<UploadResultRequest>>,
    ) -> Result<Response<UploadResultResponse>, Status> {
        let (mut messages, mut size) = (request.into_inner(), 0);
        while let Some(message) = messages.message().await? {
            if let Some(Part::Data(bytes)) = message.part {
                size += bytes.len() as u64;
            }
        }
        let (stored, answer) = oneshot::channel();
        self.uploads
            .send(Upload { size, stored })
            .await
            .map_err(|_| Status::unavailable("the test is over"))?;
        answer.await.map_err(|_| Status::unavailable("not now"))?;
        Ok(Response::new(UploadResultResponse {}))
    }

    type FetchResultStream = ReceiverStream<Result<FetchResultResponse, Status>>;

    async fn fetch_result(
        &self,
        request: Request<FetchResultRequest>,
    ) -> Result<Response<Self::FetchResultStream>, Status> {
        let job = request.into_inner().job_id;
        let before = {
            let mut fetched = self.fetched.lock().unwrap();
            fetched.push(job.clone());
            fetched.iter().filter(|one| **one == job).count() - 1
        };
        let (out, messages) = mpsc::channel(4);
        match (job.as_str(), before) {
            ("second", 0) => return Err(Status::unavailable("there is no place")),
            // It breaks in the midst.
            ("second", 1) => {
                let half = FetchResultResponse { data: Bytes::from_static(&INPUT[..2]) };
                let broke = [Ok(half), Err(Status::unavailable("the test wants it so"))];
                for said in broke {
                    out.try_send(said).unwrap();
                }
            }
            _ => out.try_send(Ok(FetchResultResponse { data: Bytes::from_static(INPUT) })).unwrap(),
        }
        Ok(Response::new(ReceiverStream::new(messages)))
    }
}

impl Fake {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, streams) = mpsc::channel(16);
        let (asked, children) = mpsc::channel(16);
        let (sent, uploads) = mpsc::channel(16);
        let readers = Mutex::new(JoinSet::new());
        let fetched = Arc::default();
        let service = Service {
            streams: sender,
            children: asked,
            uploads: sent,
            fetched: Arc::clone(&fetched),
            readers,
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let server = tonic::transport::Server::builder().add_service(NodeServiceServer::new(service));
            server.serve_with_incoming(TcpListenerStream::new(listener)).await.unwrap();
        });
        Self { address, streams, children, uploads, fetched, _tasks: tasks }
    }

    /// The next stream that a node opens, and its Hello.
    pub(crate) async fn stream(&mut self) -> (Stream, Hello) {
        let mut stream = within(self.streams.recv()).await.expect("the server lives");
        match stream.read().await.body {
            Some(node_message::Body::Hello(hello)) => (stream, hello),
            other => panic!("a stream begins with Hello, not {other:?}"),
        }
    }

    /// The next stream, welcomed; what its Hello lists lives on.
    pub(crate) async fn session(&mut self) -> (Stream, Hello) {
        let (mut stream, hello) = self.stream().await;
        stream.welcome(&hello).await;
        (stream, hello)
    }
}

impl Stream {
    /// The node's next message, whatever it is.
    pub(crate) async fn read(&mut self) -> NodeMessage {
        let message = self.try_read().await.expect("the stream is open");
        assert_eq!(message.seq, self.seen + 1, "a message is missing");
        self.seen = message.seq;
        message
    }

    /// None at the end of the stream.
    pub(crate) async fn try_read(&mut self) -> Option<NodeMessage> {
        within(self.incoming.recv()).await
    }

    pub(crate) async fn send(&mut self, body: Body) {
        self.seq += 1;
        let message = ServerMessage { seq: self.seq, seen: self.seen, body: Some(body) };
        self.outgoing.send(Ok(message)).await.expect("the stream is open");
    }

    pub(crate) async fn welcome(&mut self, hello: &Hello) {
        self.welcome_with(hello, 0).await;
    }

    /// As [`Stream::welcome`], of a server that takes results of up to so many bytes.
    pub(crate) async fn welcome_with(&mut self, hello: &Hello, most: u64) {
        let renewed = hello.held.iter().map(|lease| RenewedLease { token: lease.token, lease: seconds(60) });
        let welcome = Welcome {
            epoch: 1,
            heartbeat_interval: span(Duration::from_millis(250)),
            anchor_seq: 1,
            renewed: renewed.collect(),
            reconnect_min: span(Duration::from_millis(20)),
            reconnect_max: span(Duration::from_millis(200)),
            warnings: Vec::new(),
            max_result_bytes: 256 * 1024,
            max_checkpoint_bytes: 256 * 1024,
            max_uploaded_result_bytes: most,
        };
        self.send(Body::Welcome(welcome)).await;
    }

    /// Ends the stream with a reason, as the server does.
    pub(crate) async fn refuse(self, reason: &str) {
        let details = ErrorDetails::with_error_info(reason, "tenure", HashMap::new());
        let status = Status::with_error_details(Code::FailedPrecondition, "no", details);
        drop(self.outgoing.send(Err(status)).await);
    }

    /// Ends the stream as a server does that follows the leader at `leader`, and wants the node back after a while.
    pub(crate) async fn follow(self, leader: Option<&str>, retry: Option<Duration>) {
        let mut details = ErrorDetails::new();
        let leader = leader.map(|leader| ("leader".to_owned(), leader.to_owned()));
        details.set_error_info("NOT_LEADER", "tenure", leader.into_iter().collect::<HashMap<_, _>>());
        details.set_retry_info(retry);
        let status = Status::with_error_details(Code::Unavailable, "not the leader", details);
        drop(self.outgoing.send(Err(status)).await);
    }

    pub(crate) async fn grant(&mut self, grant: Grant) {
        let grants = Grants { anchor_seq: self.seen, grants: vec![grant] };
        self.send(Body::Grants(grants)).await;
    }

    /// The reports of the next message that has some.
    pub(crate) async fn reports(&mut self) -> Vec<Report> {
        loop {
            let message = self.read().await;
            if let Some(reports) = self.handle(message).await {
                return reports;
            }
        }
    }

    /// Reads until a report of this lease satisfies, and returns the words of all reports about it up to then.
    pub(crate) async fn until(&mut self, token: u64, last: &str) -> Vec<String> {
        let mut words = Vec::new();
        loop {
            while let Some(report) = self.later.pop_front() {
                if report.token == token {
                    words.push(word(&report));
                    if words.last().is_some_and(|word| word.starts_with(last)) {
                        return words;
                    }
                }
            }
            self.later = self.reports().await.into();
        }
    }

    /// Reads until the node has listed a lease in this phase.
    pub(crate) async fn until_listed(&mut self, token: u64, phase: LeasePhase) {
        loop {
            let message = self.read().await;
            if let Some(node_message::Body::Heartbeat(beat)) = &message.body
                && beat.held.iter().any(|lease| lease.token == token && lease.phase() == phase)
            {
                self.handle(message).await;
                return;
            }
            self.handle(message).await;
        }
    }

    /// Reads and answers until the node ends the stream; the words of all reports on the way.
    pub(crate) async fn until_closed(&mut self) -> Vec<String> {
        let mut words = Vec::new();
        while let Some(message) = self.try_read().await {
            self.seen = message.seq;
            if let Some(node_message::Body::Draining(draining)) = &message.body {
                words.push(if draining.restart { "draining restart" } else { "draining" }.to_owned());
            }
            if let Some(reports) = self.handle(message).await {
                words.extend(reports.iter().map(word));
            }
        }
        words
    }

    /// Answers a message, if it needs it; its reports.
    pub(crate) async fn handle(&mut self, message: NodeMessage) -> Option<Vec<Report>> {
        match message.body {
            Some(node_message::Body::Heartbeat(beat)) if !self.renew.is_zero() => {
                let lease = span(self.renew);
                let leases = beat.held.iter().map(|held| RenewedLease { token: held.token, lease }).collect();
                self.send(Body::Renewed(Renewed { anchor_seq: message.seq, leases })).await;
                None
            }
            Some(node_message::Body::Reports(reports)) => {
                let answers: Vec<_> = reports.reports.iter().filter_map(answer).collect();
                if self.store && !answers.is_empty() {
                    self.send(Body::Stored(Stored { answers })).await;
                }
                Some(reports.reports)
            }
            _ => None,
        }
    }
}

fn answer(report: &Report) -> Option<StoredAnswer> {
    let kind = match report.event.as_ref()? {
        Event::Finished(_) => ReportKind::Finished,
        Event::Returned(_) => ReportKind::Returned,
        Event::Reaped(_) => ReportKind::Reaped,
        Event::Accepted(_) | Event::Started(_) | Event::Progress(_) | Event::Checkpoint(_) => return None,
    };
    let verdict = StoredVerdict::Stored.into();
    Some(StoredAnswer { token: report.token, report: kind.into(), verdict, ..StoredAnswer::default() })
}

/// One report in a few words.
pub(crate) fn word(report: &Report) -> String {
    match report.event.as_ref().expect("a report says something") {
        Event::Accepted(_) => "accepted".to_owned(),
        Event::Started(_) => "started".to_owned(),
        Event::Progress(_) => "progress".to_owned(),
        Event::Checkpoint(saved) => format!("checkpoint [{}]", String::from_utf8_lossy(&saved.data)),
        Event::Reaped(_) => "reaped".to_owned(),
        Event::Returned(Returned { rule, started, .. }) => format!("returned {rule} started={started}"),
        Event::Finished(finished) => {
            let outcome =
                finished.outcome().as_str_name().trim_start_matches("FINISHED_OUTCOME_").to_lowercase();
            let partial = if finished.partial { " partial" } else { "" };
            let saved = finished.checkpoint.as_ref().map_or_else(String::new, |saved| {
                format!(" checkpoint [{}]", String::from_utf8_lossy(&saved.data))
            });
            format!("finished {outcome} {}{partial}{}{saved}", finished.cause, result_text(finished))
        }
    }
}

fn result_text(finished: &Finished) -> String {
    let text = finished.result.as_ref().map(|result| String::from_utf8_lossy(&result.data).trim().to_owned());
    text.map_or_else(String::new, |text| format!(" [{text}]"))
}

pub(crate) fn grant(job: &str, token: u64, kind: &str) -> Grant {
    Grant {
        job_id: job.to_owned(),
        token: 1 << 40 | token,
        kind: kind.to_owned(),
        attempt: 1,
        lease: seconds(60),
        first_lease: seconds(20),
        start_window: seconds(10),
        hard_time_limit: seconds(60),
        idempotency_key: job.to_owned(),
        tenant: "default".to_owned(),
        ..Grant::default()
    }
}

pub(crate) fn seconds(seconds: u64) -> Option<prost_types::Duration> {
    span(Duration::from_secs(seconds))
}

pub(crate) fn span(length: Duration) -> Option<prost_types::Duration> {
    length.try_into().ok()
}

/// Waits, but not for ever.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.expect("it happens in time")
}
