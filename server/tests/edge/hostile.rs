//! Peers that mean harm or have gone mad: what they send is refused with a reason, nothing of it is stored, and the
//! server goes on serving the others.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use tenure_proto::{
    node::v1::{
        ClosedGroup, Heartbeat, HeldLease, Hello, LeasePhase, NodeMessage, PressureReading, UnstoredReport,
        node_message::Body as Say, node_service_client::NodeServiceClient,
    },
    v1,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::mpsc,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, body::Body, transport::Channel};
use tower::{Service as _, ServiceExt as _};

use crate::{
    fleet::http_get,
    served::{SOON, Served, fields, no, reason, spec},
};

const ENQUEUE: &str = "/tenure.v1.JobService/Enqueue";

/// What a client of gRPC says of itself.
const GRPC: [(&str, &str); 2] = [("content-type", "application/grpc"), ("te", "trailers")];

/// One request below every client of gRPC.
async fn raw(
    channel: &Channel,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &'static [u8],
) -> Response<Body> {
    let mut request = Request::builder().method(method).uri(path);
    for &(name, value) in headers {
        request = request.header(name, value);
    }
    let body = Body::new(axum::body::Body::from(Bytes::from_static(body)));
    let mut channel = channel.clone();
    let answer = channel.ready().await.expect("a connection").call(request.body(body).expect("a request"));
    tokio::time::timeout(SOON, answer).await.expect("an answer in time").expect("an answer")
}

#[tokio::test]
async fn frames_that_are_none_are_the_callers_mistake() {
    let served = Served::start().await;
    let gzip = [GRPC[0], GRPC[1], ("grpc-encoding", "gzip")];
    let cases = [
        (&GRPC[..], &b""[..]),
        (&GRPC, b"\0\0"),
        (&GRPC, b"\0\0\0\0\x09ab"),
        (&GRPC, b"\0\0\0\0\0\x07"),
        (&GRPC, b"\x02\0\0\0\x01a"),
        (&GRPC, b"\x01\0\0\0\x01a"),
        (&gzip, b"\x01\0\0\0\x03abc"),
        (&gzip, b"\x01\0\0\0\0"),
    ];
    for (headers, bytes) in cases {
        for path in [ENQUEUE, "/grpc.health.v1.Health/Check"] {
            let answer = raw(&served.channel, "POST", path, headers, bytes).await;
            let status = Status::from_header_map(answer.headers()).expect("a status");
            assert_eq!(fields::<()>(Err(status)), ["request"], "{path} {bytes:?}");
        }
    }
    served.end().await;
}

#[tokio::test]
async fn what_is_not_grpc_gets_no_further() {
    let served = Served::start().await;
    let message = b"\0\0\0\0\0";
    for method in ["GET", "PUT", "OPTIONS", "DELETE"] {
        let answer = raw(&served.channel, method, ENQUEUE, &GRPC, message).await;
        assert_eq!(answer.status(), 405, "{method}");
    }
    for kind in ["application/json", "application/grpc-web", "text/plain"] {
        let answer = raw(&served.channel, "POST", ENQUEUE, &[("content-type", kind)], message).await;
        assert_eq!(answer.status(), 415, "{kind}");
    }
    let deflate = [GRPC[0], GRPC[1], ("grpc-encoding", "deflate")];
    let answer = raw(&served.channel, "POST", ENQUEUE, &deflate, message).await;
    assert!(answer.headers()["grpc-accept-encoding"].to_str().unwrap().contains("gzip"));
    let status = Status::from_header_map(answer.headers()).expect("a status");
    assert_eq!(no::<()>(Err(status)), (Code::Unimplemented, "ENCODING_UNSUPPORTED".to_owned()));
    let long = "x".repeat(20_000);
    let large = [GRPC[0], GRPC[1], ("x-large", long.as_str())];
    assert_eq!(raw(&served.channel, "POST", ENQUEUE, &large, message).await.status(), 431);
    served.job(spec("plain")).await;
    served.end().await;
}

#[tokio::test]
async fn a_small_message_that_inflates_beyond_the_limit_is_never_inflated() {
    let served = Served::start().await;
    let mut jobs = served
        .jobs
        .clone()
        .send_compressed(tonic::codec::CompressionEncoding::Gzip)
        .max_encoding_message_size(1 << 28);
    let job = v1::JobSpec { dedupe_key: "k".repeat(64 << 20), ..spec("plain") };
    let refused = jobs.enqueue(v1::EnqueueRequest { job: Some(job) }).await;
    assert_eq!(no(refused), (Code::InvalidArgument, "PAYLOAD_TOO_LARGE".to_owned()));
    let job = v1::JobSpec { dedupe_key: "k".repeat(3_900_000), ..spec("plain") };
    assert_eq!(fields(jobs.enqueue(v1::EnqueueRequest { job: Some(job) }).await), ["job.dedupe_key"]);
    served.end().await;
}

#[tokio::test]
async fn absurd_fields_of_a_job_are_all_named_and_nothing_is_stored() {
    let served = Served::start().await;
    let duration = |seconds, nanos| Some(prost_types::Duration { seconds, nanos });
    let many = |count: usize| (0..count).map(|n| (format!("label{n}"), String::new())).collect();
    let absurd = v1::JobSpec {
        kind: "plain\0".to_owned(),
        payload: Some(v1::Payload { data: Bytes::new(), content_type: "text/\u{202e}nialp".to_owned() }),
        job_id: "00000000-0000-0000-0000-000000000000".to_owned(),
        dedupe_key: "k\0".to_owned(),
        concurrency_key: "k\0".to_owned(),
        tenant: "Ä".to_owned(),
        priority: Some(i32::MIN),
        run_at: Some(prost_types::Timestamp { seconds: i64::MAX, nanos: -1 }),
        delay: duration(i64::MIN, i32::MIN),
        stale_after: duration(-1, 1),
        labels: many(1000),
        selector: [("a b".to_owned(), "\u{1b}[31m".to_owned())].into(),
        needs: Some(v1::Needs { slots: vec![v1::SlotAmount { slot: "../x".to_owned(), amount: u32::MAX }] }),
        hard_time_limit: duration(i64::MAX, 0),
        soft_time_limit: duration(-1, 0),
        parent_id: "{}".to_owned(),
        traceparent: "\r\nx: y".to_owned(),
        tracestate: "\r\nx: y".to_owned(),
        prefer: vec![v1::Requirement { label: "a".to_owned(), operator: 3, values: vec![String::new()] }],
        on_parent_cancel: i32::MIN,
        on_parent_lost: 99,
        requirements: vec![
            v1::Requirement { label: "a b".to_owned(), operator: i32::MIN, values: Vec::new() },
            v1::Requirement { label: String::new(), operator: 1, values: vec!["\0".to_owned()] },
        ],
    };
    let named = fields(served.enqueue(absurd).await);
    assert_eq!(
        named,
        [
            "job.payload.content_type",
            "job.kind",
            "job.job_id",
            "job.dedupe_key",
            "job.concurrency_key",
            "job.tenant",
            "job.priority",
            "job.run_at",
            "job.delay",
            "job.delay",
            "job.stale_after",
            "job.labels",
            "job.selector[\"a b\"]",
            "job.selector[\"a b\"]",
            "job.requirements[0].label",
            "job.requirements[0].label",
            "job.requirements[0].operator",
            "job.requirements[1].label",
            "job.requirements[1].values[0]",
            "job.prefer[0].operator",
            "job.needs.slots[0].slot",
            "job.needs.slots[0].amount",
            "job.hard_time_limit",
            "job.soft_time_limit",
            "job.parent_id",
            "job.on_parent_cancel",
            "job.on_parent_lost",
            "job.tracestate",
            "job.traceparent",
        ]
    );
    let listed = served.jobs.clone().list_jobs(v1::ListJobsRequest::default()).await.unwrap().into_inner();
    assert!(listed.jobs.is_empty());
    // What is odd and allowed comes back as it went in.
    let odd = v1::JobSpec {
        dedupe_key: "مفتاح \u{202e}\u{feff}\u{10ffff}".to_owned(),
        run_at: Some(prost_types::Timestamp { seconds: 253_402_300_799, nanos: 999_999_999 }),
        labels: [("owner".to_owned(), "שלום\u{202e}".to_owned())].into(),
        ..spec("plain")
    };
    let stored = served.job(odd.clone()).await;
    assert_eq!((&stored.dedupe_key, &stored.labels), (&odd.dedupe_key, &odd.labels));
    assert_eq!(stored.run_at.unwrap().seconds, 253_402_300_799);
    served.end().await;
}

#[tokio::test]
async fn absurd_pages_are_refused_or_cut() {
    let served = Served::start().await;
    served.job(spec("plain")).await;
    let list = |page_size, page_token: &str| {
        let request =
            v1::ListJobsRequest { page_size, page_token: page_token.to_owned(), ..Default::default() };
        let mut jobs = served.jobs.clone();
        async move { jobs.list_jobs(request).await }
    };
    assert_eq!(list(i32::MAX, "").await.unwrap().into_inner().jobs.len(), 1);
    assert_eq!(fields(list(i32::MIN, "").await), ["page_size"]);
    for token in ["x", "00", "é", "\0", &"0".repeat(100_000), &"f".repeat(50)] {
        assert_eq!(fields(list(0, token).await), ["page_token"], "{}", token.len());
    }
    served.end().await;
}

/// What the stream of a node ends with that begins with these messages.
async fn ending(channel: &Channel, messages: Vec<NodeMessage>) -> Status {
    let (say, stream) = mpsc::channel(messages.len().max(1));
    for message in messages {
        say.send(message).await.expect("the channel has room");
    }
    let mut client = NodeServiceClient::new(channel.clone()).max_encoding_message_size(1 << 26);
    let answers = client.session(ReceiverStream::new(stream)).await;
    let mut answers = answers.expect("a stream").into_inner();
    loop {
        match tokio::time::timeout(SOON, answers.message()).await.expect("a word in time") {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the stream ended without a word"),
            Err(status) => return status,
        }
    }
}

fn hello() -> Hello {
    Hello {
        node_name: "n1".to_owned(),
        instance: "instance".to_owned(),
        boot_id: "boot".to_owned(),
        incarnation: 1,
        stream: 1,
        protocol: tenure_proto::SESSION_PROTOCOL,
        ..Default::default()
    }
}

fn held(count: u64) -> Vec<HeldLease> {
    let lease = |token| HeldLease {
        job_id: uuid::Uuid::from_u128(7 << 76 | 2 << 62 | u128::from(token)).to_string(),
        token,
        phase: LeasePhase::Started.into(),
        ..HeldLease::default()
    };
    (1..=count).map(lease).collect()
}

fn first(hello: Hello) -> NodeMessage {
    NodeMessage { seq: 1, seen: 0, body: Some(Say::Hello(hello)) }
}

#[tokio::test]
async fn an_absurd_hello_is_refused_and_leaves_no_node() {
    let served = Served::start().await;
    let labels = (0..1000).map(|n| (format!("label{n}"), String::new())).collect();
    let slots = (0..65).map(|n| (format!("slot{n}"), 1)).collect();
    let kinds = (0..1001).map(|n| format!("kind{n}")).collect();
    let closed = vec![ClosedGroup { refuse: "*".to_owned(), ..Default::default() }; 257];
    let unstored = vec![UnstoredReport { job_id: "x".repeat(36), token: 1 }; 1];
    let twice = [held(1), held(1)].concat();
    let cases = [
        (Hello { node_name: "N\u{202e}".to_owned(), ..hello() }, "hello.node_name"),
        (Hello { instance: "i\0".to_owned(), ..hello() }, "hello.instance"),
        (Hello { incarnation: u64::MAX, ..hello() }, "hello.incarnation"),
        (Hello { stream: 0, ..hello() }, "hello.stream"),
        (Hello { protocol: u32::MAX, ..hello() }, "hello.protocol"),
        (Hello { labels, ..hello() }, "hello.labels"),
        (Hello { slots, ..hello() }, "hello.slots"),
        (Hello { kinds, ..hello() }, "hello.kinds"),
        (Hello { held: held(10_001), ..hello() }, "hello.held"),
        (Hello { held: twice, ..hello() }, "hello.held"),
        (Hello { unstored, ..hello() }, "hello.unstored[0].job_id"),
        (
            Hello { pressure: Some(PressureReading { closed, ..Default::default() }), ..hello() },
            "hello.pressure.closed",
        ),
    ];
    for (hello, want) in cases {
        let status = ending(&served.channel, vec![first(hello)]).await;
        assert_eq!(fields::<()>(Err(status)), [want]);
    }
    let status = ending(&served.channel, vec![first(Hello { held: held(100_000), ..hello() })]).await;
    assert_eq!(no::<()>(Err(status)), (Code::InvalidArgument, "PAYLOAD_TOO_LARGE".to_owned()));
    let ahead = ending(&served.channel, vec![first(Hello { max_epoch_seen: u64::MAX, ..hello() })]).await;
    assert_eq!(no::<()>(Err(ahead)), (Code::FailedPrecondition, "EPOCH_AHEAD".to_owned()));
    let nodes =
        served.fleet.clone().list_nodes(v1::ListNodesRequest::default()).await.unwrap().into_inner().nodes;
    assert!(nodes.is_empty(), "{nodes:?}");
    served.end().await;
}

#[tokio::test]
async fn a_session_that_breaks_its_own_rules_is_ended_with_the_rule() {
    let served = Served::start().await;
    let beat = |seq, seen, held| {
        let heartbeat = Heartbeat { held, pressure: None };
        NodeMessage { seq, seen, body: Some(Say::Heartbeat(heartbeat)) }
    };
    let hello_again = NodeMessage { seq: 2, seen: 0, body: Some(Say::Hello(hello())) };
    let cases = [
        (hello_again, "hello"),
        (beat(1, 0, Vec::new()), "seq"),
        (beat(u64::MAX, 0, Vec::new()), "seq"),
        (beat(2, u64::MAX, Vec::new()), "seen"),
        (beat(2, 0, held(10_001)), "heartbeat.held"),
        (NodeMessage { seq: 2, seen: 0, body: None }, "body"),
    ];
    for (stream, (second, want)) in (1..).zip(cases) {
        let status = ending(&served.channel, vec![first(Hello { stream, ..hello() }), second]).await;
        assert_eq!(fields::<()>(Err(status)), [want]);
    }
    let figures = http_get(&served, "/metrics").await;
    let counted = "tenure_refusals_total{reason=\"INVALID_FIELD\"} 6";
    assert!(figures.lines().any(|line| line == counted), "{figures}");
    served.end().await;
}

#[tokio::test]
async fn streams_that_never_say_hello_and_half_prefaces_are_ended() {
    let served = Served::start().await;
    let mut halves = Vec::new();
    for _ in 0..50 {
        let mut half = TcpStream::connect(served.addresses().grpc).await.expect("it listens");
        half.write_all(b"PRI * HTTP/2").await.expect("a socket");
        halves.push(half);
    }
    let mut silent = tokio::task::JoinSet::new();
    for _ in 0..60 {
        let channel = served.channel.clone();
        silent.spawn(async move { ending(&channel, Vec::new()).await });
        // And as many that are gone before anything is said.
        let (_, stream) = mpsc::channel(1);
        drop(NodeServiceClient::new(served.channel.clone()).session(ReceiverStream::new(stream)).await);
    }
    served.job(spec("plain")).await;
    for status in silent.join_all().await {
        assert_eq!((status.code(), reason(&status).as_str()), (Code::InvalidArgument, "INVALID_FIELD"));
    }
    for mut half in halves {
        let mut rest = Vec::new();
        let end = tokio::time::timeout(SOON, half.read_to_end(&mut rest)).await;
        drop(end.expect("closed in time")); // whether the end is clean is of no interest
    }
    served.end().await;
}

#[tokio::test]
async fn silent_streams_do_not_delay_the_end() {
    let served = Served::start().await;
    let mut silent = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let channel = served.channel.clone();
        silent.spawn(async move { ending(&channel, Vec::new()).await });
    }
    served.job(spec("plain")).await;
    tokio::time::timeout(Duration::from_secs(4), served.end()).await.expect("an end in time");
    silent.abort_all();
}
