//! What attempts print: from nodes by script to readers, through breaks, ends and readers that are slow or gone.

use std::time::Duration;

use tenure_proto::{
    LOGS_FEATURE,
    node::v1::{
        Finished, FinishedOutcome, Grant, Hello, LeaseName, LogEnd, LogTail, NoLog, PushLogOpening,
        PushLogRequest, WantLog, node_service_client::NodeServiceClient, push_log_request::Said,
        report::Event, server_message::Body,
    },
    v1::{
        LogAttempt, LogChunk, LogPlace, LogStream, LogTailPart, ReadLogRequest, ReadLogResponse,
        read_log_response,
    },
};
use tokio::{sync::mpsc, task::JoinSet, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming, transport::Channel};

use crate::{
    node::{Node, SOON, accepted, finished, hello, reaped, started},
    reason,
    served::{Served, spec},
};

pub(crate) fn keeps_logs(name: &str) -> Hello {
    let mut hello = hello(name, 1);
    hello.features.push(LOGS_FEATURE.to_owned());
    hello
}

/// A job that runs on this node.
pub(crate) async fn running(served: &Served, node: &mut Node) -> (String, Grant) {
    let job = served.enqueue(spec("page", b"x")).await;
    let grant = node.grant().await;
    node.report(&grant, [accepted(), started()]).await;
    (job, grant)
}

pub(crate) struct Reader(Streaming<ReadLogResponse>);

impl Reader {
    pub(crate) async fn open(served: &Served, request: ReadLogRequest) -> Result<Self, Status> {
        Ok(Self(served.jobs().read_log(request).await?.into_inner()))
    }

    async fn follow(served: &Served, job: &str) -> Self {
        let request = ReadLogRequest { job_id: job.to_owned(), follow: true, ..ReadLogRequest::default() };
        Self::open(served, request).await.expect("a log")
    }

    pub(crate) async fn next(&mut self) -> Result<Option<read_log_response::Said>, Status> {
        let message = timeout(SOON, self.0.message()).await.expect("in time")?;
        Ok(message.map(|message| message.said.expect("it says something")))
    }

    pub(crate) async fn attempt(&mut self) -> LogAttempt {
        match self.next().await {
            Ok(Some(read_log_response::Said::Attempt(attempt))) => attempt,
            other => panic!("{other:?}"),
        }
    }

    /// Stream, place, bytes and how many are missing before them.
    pub(crate) async fn chunk(&mut self) -> (LogStream, u64, Vec<u8>, u64) {
        match self.next().await {
            Ok(Some(read_log_response::Said::Chunk(chunk))) => {
                (chunk.stream(), chunk.offset, chunk.data.to_vec(), chunk.dropped)
            }
            other => panic!("{other:?}"),
        }
    }
}

/// The node is asked.
pub(crate) async fn wanted(node: &mut Node) -> WantLog {
    node.find(|message| match &message.body {
        Some(Body::WantLog(want)) => Some(want.clone()),
        _ => None,
    })
    .await
}

/// A node's stream.
pub(crate) struct Push {
    out: mpsc::Sender<PushLogRequest>,
    /// One task.
    answer: JoinSet<Result<(), Status>>,
}

impl Push {
    pub(crate) async fn open(served: &Served, node: &str, grant: &Grant, want_id: u64) -> Self {
        let (out, pieces) = mpsc::channel(1);
        let endpoint = Channel::from_shared(format!("http://{}", served.grpc())).expect("an address");
        let channel = endpoint.connect().await.expect("it listens");
        let mut answer = JoinSet::new();
        answer.spawn(async move {
            let mut client = NodeServiceClient::new(channel);
            client.push_log(ReceiverStream::new(pieces)).await.map(drop)
        });
        let push = Self { out, answer };
        let lease = LeaseName { node: node.to_owned(), job_id: grant.job_id.clone(), token: grant.token };
        push.say(Said::Opening(PushLogOpening { lease: Some(lease), want_id })).await;
        push
    }

    async fn say(&self, said: Said) {
        self.out.send(PushLogRequest { said: Some(said) }).await.expect("the stream is open");
    }

    pub(crate) async fn chunk(&self, stream: LogStream, offset: u64, data: &[u8]) {
        self.say(Said::Chunk(LogChunk {
            stream: stream.into(),
            offset,
            data: data.to_vec().into(),
            dropped: 0,
        }))
        .await;
    }

    /// The node says no more, and hears what becomes of that.
    pub(crate) async fn end(self) -> Result<(), Status> {
        self.say(Said::LogEnd(LogEnd {})).await;
        self.answered().await
    }

    /// What it hears before it has said everything.
    async fn answered(mut self) -> Result<(), Status> {
        let answer = timeout(SOON, self.answer.join_next()).await.expect("in time");
        answer.expect("one task").expect("no panic")
    }

    /// Its connection breaks.
    pub(crate) async fn cut(mut self) {
        self.answer.shutdown().await;
    }
}

pub(crate) fn tail(stdout: (u64, &'static [u8]), stderr: (u64, &'static [u8])) -> LogTail {
    let part = |(total, data): (u64, &'static [u8])| Some(LogTailPart { total, data: data.into() });
    LogTail { stdout: part(stdout), stderr: part(stderr) }
}

pub(crate) fn ended_with(log_tail: LogTail) -> Event {
    let Event::Finished(ended) = finished(FinishedOutcome::Succeeded, None) else { unreachable!() };
    Event::Finished(Finished { log_tail: Some(log_tail), ..ended })
}

#[tokio::test]
async fn a_reader_gets_each_byte_once_through_a_break_and_the_end() {
    let served = Served::in_memory().await;
    let (mut node, _) = Node::join(served.grpc(), keeps_logs("n1")).await;
    let (job, grant) = running(&served, &mut node).await;
    let mut reader = Reader::follow(&served, &job).await;
    let attempt = reader.attempt().await;
    assert_eq!((attempt.token, attempt.attempt, attempt.node.as_str()), (grant.token, 1, "n1"));
    assert!(!attempt.ended && attempt.note.is_empty(), "{attempt:?}");

    let want = wanted(&mut node).await;
    assert_eq!((want.token, want.follow, want.place), (grant.token, true, Some(LogPlace::default())));
    let push = Push::open(&served, "n1", &grant, want.want_id).await;
    push.chunk(LogStream::Stdout, 0, b"one\n").await;
    assert_eq!(reader.chunk().await, (LogStream::Stdout, 0, b"one\n".to_vec(), 0));
    push.chunk(LogStream::Stderr, 0, b"\xff\x00").await;
    assert_eq!(reader.chunk().await, (LogStream::Stderr, 0, b"\xff\x00".to_vec(), 0));
    push.cut().await;

    // It is asked again, for what comes after that.
    let want = loop {
        let again = wanted(&mut node).await;
        if again.want_id != want.want_id {
            break again;
        }
    };
    assert_eq!(want.place, Some(LogPlace { stdout_offset: 4, stderr_offset: 2 }));
    let push = Push::open(&served, "n1", &grant, want.want_id).await;
    // A stream that ends without a word has broken, too.
    drop(push.out);
    let last = want.want_id;
    let want = loop {
        let again = wanted(&mut node).await;
        if again.want_id != last {
            break again;
        }
    };
    let push = Push::open(&served, "n1", &grant, want.want_id).await;
    // What was told already is not told again, and a gap is.
    push.chunk(LogStream::Stdout, 2, b"e\ntwo\n").await;
    assert_eq!(reader.chunk().await, (LogStream::Stdout, 4, b"two\n".to_vec(), 0));
    push.chunk(LogStream::Stdout, 10, b"four\n").await;
    assert_eq!(reader.chunk().await, (LogStream::Stdout, 10, b"four\n".to_vec(), 2));
    push.end().await.expect("it has said everything");

    // The end that is kept says what the node did not come to.
    let end = tail((100, b"r\nfive, the last\n"), (2, b"\xff\x00"));
    node.report(&grant, [ended_with(end), reaped()]).await;
    let last = b"r\nfive, the last\n".to_vec();
    assert_eq!(reader.chunk().await, (LogStream::Stdout, 83, last, 68));
    assert_eq!(reader.next().await.expect("it ends well"), None);
    served.end().await;
}

#[tokio::test]
async fn the_end_of_a_log_outlives_its_node_and_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::on_disk(directory.path()).await;
    let (mut node, _) = Node::join(served.grpc(), keeps_logs("n1")).await;
    let (job, grant) = running(&served, &mut node).await;
    let end = tail((1_000, b"a\nb\nc\n"), (0, b""));
    node.report(&grant, [ended_with(end), reaped()]).await;
    node.answers(2).await;
    let quiet = running(&served, &mut node).await;
    node.report(&quiet.1, [finished(FinishedOutcome::Succeeded, None), reaped()]).await;
    node.answers(2).await;
    node.cut();
    served.end().await;

    let served = Served::on_disk_again(directory.path()).await;
    let request = |job: &str| ReadLogRequest { job_id: job.to_owned(), ..ReadLogRequest::default() };
    let read = async |request| {
        let mut reader = Reader::open(&served, request).await.expect("a log");
        let attempt = reader.attempt().await;
        assert!(attempt.ended && attempt.node == "n1", "{attempt:?}");
        let mut chunks = Vec::new();
        while let Some(said) = reader.next().await.expect("it ends well") {
            let read_log_response::Said::Chunk(chunk) = said else { panic!("{said:?}") };
            chunks.push((chunk.offset, String::from_utf8(chunk.data.to_vec()).unwrap(), chunk.dropped));
        }
        (attempt.note, chunks)
    };
    let (note, whole) = read(request(&job)).await;
    assert_eq!((note.as_str(), whole), ("", vec![(994, "a\nb\nc\n".to_owned(), 994)]));
    let lines = ReadLogRequest { tail_lines: Some(1), ..request(&job) };
    assert_eq!(read(lines).await.1, [(998, "c\n".to_owned(), 0)]);
    let place = LogPlace { stdout_offset: 997, stderr_offset: 0 };
    let on = ReadLogRequest { token: grant.token, place: Some(place), ..request(&job) };
    assert_eq!(read(on).await.1, [(997, "\nc\n".to_owned(), 0)]);
    let other = ReadLogRequest { stream: LogStream::Stderr.into(), ..request(&job) };
    assert_eq!(read(other).await.1, []);
    assert_eq!(read(ReadLogRequest { attempt: Some(1), follow: true, ..request(&job) }).await.1.len(), 1);
    let (note, nothing) = read(request(&quiet.0)).await;
    assert!(note.contains("printed nothing") && nothing.is_empty(), "{note}");

    let waits = served.enqueue(spec("page", b"x")).await;
    let unknown = [
        request(&waits),
        ReadLogRequest { token: grant.token + 99, ..request(&job) },
        ReadLogRequest { attempt: Some(2), follow: true, ..request(&job) },
    ];
    for request in unknown {
        let no = Reader::open(&served, request).await.err().expect("a no");
        assert_eq!((no.code(), reason(&no).as_str()), (Code::NotFound, "LOG_NOT_FOUND"));
    }
    served.end().await;
}

#[tokio::test]
async fn why_a_running_attempt_cannot_be_read_is_told() {
    let served = Served::in_memory().await;
    let (mut old, _) = Node::join(served.grpc(), hello("n1", 1)).await;
    let (job, grant) = running(&served, &mut old).await;
    let refused = async |request: ReadLogRequest| {
        let mut reader = Reader::open(&served, request).await.expect("it begins");
        reader.attempt().await;
        let status = reader.next().await.expect_err("a no");
        assert_eq!((status.code(), reason(&status).as_str()), (Code::FailedPrecondition, "LOG_UNAVAILABLE"));
        status.message().to_owned()
    };
    let request = ReadLogRequest { job_id: job.clone(), ..ReadLogRequest::default() };
    assert!(refused(request.clone()).await.contains("of a version that keeps its logs to itself"));
    // Who follows waits for its end.
    let mut follows = Reader::follow(&served, &job).await;
    follows.attempt().await;
    assert!(follows.attempt().await.note.contains("of a version"));

    let (mut new, _) = Node::join(served.grpc(), keeps_logs("n2")).await;
    served.enqueue(spec("page", b"x")).await;
    served.enqueue(spec("page", b"x")).await;
    let second = new.grant().await;
    new.report(&second, [accepted(), started()]).await;
    let there = ReadLogRequest { job_id: second.job_id.clone(), ..request.clone() };
    let answers = async {
        let want = wanted(&mut new).await;
        assert!(!want.follow);
        let push = Push::open(&served, "n2", &second, want.want_id).await;
        push.say(Said::NoLog(NoLog { reason: "it runs in a worker\0".to_owned() })).await;
        push.answered().await.expect("that is an answer");
    };
    let (why, ()) = tokio::join!(refused(there.clone()), answers);
    assert!(why.contains("it runs in a worker\u{fffd}"), "{why}");
    new.cut();
    served.until_sessions(1).await;
    assert!(refused(there).await.contains("its node is not connected"));

    old.report(&grant, [finished(FinishedOutcome::Succeeded, None), reaped()]).await;
    assert_eq!(follows.next().await.expect("it ends well"), None);
    served.end().await;
}

#[tokio::test]
async fn nobody_but_the_node_that_was_asked_is_heard() {
    let served = Served::in_memory().await;
    let (mut node, _) = Node::join(served.grpc(), keeps_logs("n1")).await;
    let (job, grant) = running(&served, &mut node).await;
    let mut reader = Reader::follow(&served, &job).await;
    reader.attempt().await;
    let want = wanted(&mut node).await;
    for (name, token, want_id) in
        [("n2", grant.token, want.want_id), ("n1", grant.token + 1, want.want_id), ("n1", grant.token, 7)]
    {
        let other = Grant { token, ..grant.clone() };
        let no = Push::open(&served, name, &other, want_id).await.answered().await.unwrap_err();
        assert_eq!((no.code(), reason(&no).as_str()), (Code::FailedPrecondition, "LOG_UNWANTED"));
    }
    let push = Push::open(&served, "n1", &grant, want.want_id).await;
    push.chunk(LogStream::Stdout, 0, b"ours").await;
    assert_eq!(reader.chunk().await.2, b"ours");
    push.chunk(LogStream::Stdout, 1, b"again").await;
    let no = push.answered().await.unwrap_err();
    assert_eq!((no.code(), reason(&no).as_str()), (Code::InvalidArgument, "INVALID_FIELD"));
    // A reader that goes away ends the stream of its node.
    let want = loop {
        let again = wanted(&mut node).await;
        if again.want_id != want.want_id {
            break again;
        }
    };
    let push = Push::open(&served, "n1", &grant, want.want_id).await;
    push.chunk(LogStream::Stdout, 4, b"more").await;
    assert_eq!(reader.chunk().await.2, b"more");
    drop(reader);
    push.answered().await.expect("it is told that nobody reads");
    served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_does_not_read_stops_its_own_stream_and_nothing_else() {
    const PIECE: usize = 64 * 1024;
    let served = Served::in_memory().await;
    let (mut node, _) = Node::join(served.grpc(), keeps_logs("n1")).await;
    let (job, grant) = running(&served, &mut node).await;
    // On a connection of its own, with little room.
    let endpoint = Channel::from_shared(format!("http://{}", served.grpc())).expect("an address");
    let narrow = endpoint.initial_stream_window_size(65_535).connect().await.expect("it listens");
    let mut jobs = tenure_proto::v1::job_service_client::JobServiceClient::new(narrow);
    let request = ReadLogRequest { job_id: job.clone(), follow: true, ..ReadLogRequest::default() };
    let mut slow = Reader(jobs.read_log(request).await.expect("a log").into_inner());
    slow.attempt().await;
    let want = wanted(&mut node).await;
    let push = Push::open(&served, "n1", &grant, want.want_id).await;
    let piece = vec![b'x'; PIECE];
    let mut said: u64 = 0;
    // Until it is not taken any more: what is under way is bounded.
    while timeout(Duration::from_secs(1), push.chunk(LogStream::Stdout, said, &piece)).await.is_ok() {
        said += PIECE as u64;
        assert!(said < 32 << 20, "{said} bytes were taken, and nobody reads");
    }
    // The node and another reader are served meanwhile.
    node.heartbeat(Vec::new()).await;
    node.find(|message| matches!(&message.body, Some(Body::Renewed(_))).then_some(())).await;
    let mut other = Reader::follow(&served, &job).await;
    other.attempt().await;
    let want = wanted(&mut node).await;
    let second = Push::open(&served, "n1", &grant, want.want_id).await;
    second.chunk(LogStream::Stdout, 0, b"quick").await;
    assert_eq!(other.chunk().await.2, b"quick");
    // Who reads in the end gets all of what was taken.
    let mut read = 0;
    while read < said {
        let (_, offset, data, dropped) = slow.chunk().await;
        assert_eq!((offset, dropped), (read, 0));
        read += data.len() as u64;
    }
    served.end().await;
}
