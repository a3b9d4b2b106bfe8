//! What happens before any handler: bytes that are no message, messages over the limit, paths that do not exist; and
//! what generic clients rely on: reflection and the health of services.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use prost::Message as _;
use prost_types::FileDescriptorProto;
use tenure_proto::v1::{EnqueueRequest, JobSpec};
use tenure_tests::raw::Raw;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_stream::iter;
use tonic::{Code, Request, Status, client::Grpc, codec::CompressionEncoding, transport::Channel};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_reflection::pb::{v1, v1alpha};
use tonic_types::StatusExt as _;

use crate::served::{SOON, Served, local, reason, spec};

async fn call(client: Grpc<Channel>, path: &'static str, message: Bytes) -> Result<Bytes, Status> {
    let mut client = client;
    client.ready().await.map_err(|error| Status::unknown(error.to_string()))?;
    let path = http::uri::PathAndQuery::from_static(path);
    client.unary(Request::new(message), path, Raw).await.map(tonic::Response::into_inner)
}

const ENQUEUE: &str = "/tenure.v1.JobService/Enqueue";

/// A field of a message: number, then bytes with their length.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u8::try_from(bytes.len()).expect("a short field");
    [&[number << 3 | 2, length][..], bytes].concat()
}

#[tokio::test]
async fn bytes_that_are_no_message_are_the_callers_mistake() {
    let served = Served::start().await;
    let needs = field(12, &field(1, &field(1, b"\xc3\x28")));
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (field(1, &field(1, b"\xff\xfe")), "job.kind"),
        (field(1, &needs), "job.needs.slots.slot"),
        (field(1, &field(10, &field(1, b"\xff"))), "job.labels"),
        // A string where a message is due, a length beyond the end, and no wire type at all.
        (vec![1 << 3, 5], "job"),
        (vec![1 << 3 | 2, 200, 1, 0], "job"),
        (vec![0xff; 12], "request"),
    ];
    for (bytes, want) in cases {
        let status =
            call(Grpc::new(served.channel.clone()), ENQUEUE, bytes.clone().into()).await.unwrap_err();
        assert_eq!(
            (status.code(), reason(&status).as_str()),
            (Code::InvalidArgument, "INVALID_FIELD"),
            "{bytes:?}"
        );
        let bad = status.get_details_bad_request().expect("the field is named");
        let fields: Vec<&str> =
            bad.field_violations.iter().map(|violation| violation.field.as_str()).collect();
        assert_eq!(fields, [want], "{status:?}");
    }
    served.end().await;
}

#[tokio::test]
async fn a_message_over_the_limit_is_refused_with_the_limit_compressed_or_not() {
    let served = Served::start().await;
    let huge = Bytes::from(vec![0; 5 * 1024 * 1024]);
    let plain = Grpc::new(served.channel.clone());
    let gzip = Grpc::new(served.channel.clone()).send_compressed(CompressionEncoding::Gzip);
    for client in [plain, gzip] {
        let status = call(client, ENQUEUE, huge.clone()).await.unwrap_err();
        assert_eq!(
            (status.code(), reason(&status).as_str()),
            (Code::InvalidArgument, "PAYLOAD_TOO_LARGE"),
            "{status:?}"
        );
        assert_eq!(status.get_details_error_info().unwrap().metadata["limit_bytes"], "4194304");
    }
    served.end().await;
}

#[tokio::test]
async fn compressed_requests_are_understood() {
    let served = Served::start().await;
    let mut jobs = served.jobs.clone().send_compressed(CompressionEncoding::Gzip);
    let job = JobSpec { dedupe_key: "k".repeat(200), ..spec("plain") };
    assert!(jobs.enqueue(EnqueueRequest { job: Some(job) }).await.is_ok());
    served.end().await;
}

#[tokio::test]
async fn only_paths_that_exist_are_let_through() {
    let served = Served::start().await;
    for path in [
        "/tenure.v1.JobService/WatchJob2",
        "/tenure.v1.JobService/enqueue",
        "/tenure.v1.JobService/Enqueue/",
        "/tenure.v1.JobService",
        "//tenure.v1.JobService/Enqueue",
        "/tenure.v2.JobService/Enqueue",
        "/grpc.health.v1.Health/Watch2",
        "/",
    ] {
        let status = call(Grpc::new(served.channel.clone()), path, Bytes::new()).await.unwrap_err();
        assert_eq!(
            (status.code(), reason(&status).as_str()),
            (Code::Unimplemented, "METHOD_NOT_FOUND"),
            "{path}"
        );
    }
    served.end().await;
}

#[tokio::test]
async fn random_bytes_are_answered_and_the_server_lives_on() {
    let served = Served::start().await;
    let seed = std::process::id();
    println!("seed {seed}");
    let mut state = u64::from(seed) | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let paths = [
        ENQUEUE,
        "/tenure.v1.JobService/EnqueueBatch",
        "/tenure.v1.JobService/ListJobs",
        "/tenure.v1.FleetService/Apply",
        "/tenure.v1.FleetService/SetCapacity",
        "/tenure.node.v1.NodeService/Session",
    ];
    for round in 0..300 {
        let bytes: Vec<u8> = (0..next() % 40).map(|_| next().to_le_bytes()[0]).collect();
        let path = paths[round % paths.len()];
        if let Err(status) = call(Grpc::new(served.channel.clone()), path, bytes.clone().into()).await {
            assert!(!matches!(status.code(), Code::Internal | Code::Unknown), "{path} {bytes:?} {status:?}");
        }
    }
    served.job(spec("plain")).await;
    served.end().await;
}

#[tokio::test]
async fn reflection_knows_every_service_and_every_error_detail_once() {
    let served = Served::start().await;
    let files = all_files(&served.channel).await;
    let mut symbols: BTreeMap<String, String> = BTreeMap::new();
    for file in files.values() {
        let messages = file.message_type.iter().map(|message| message.name());
        for name in messages.chain(file.enum_type.iter().map(|choice| choice.name())) {
            let symbol = format!("{}.{name}", file.package());
            if let Some(other) = symbols.insert(symbol.clone(), file.name().to_owned()) {
                panic!("{symbol} is in {other} and in {}", file.name());
            }
        }
        for dependency in &file.dependency {
            assert!(files.contains_key(dependency), "{} needs {dependency}", file.name());
        }
    }
    for detail in [
        "ErrorInfo",
        "RetryInfo",
        "QuotaFailure",
        "PreconditionFailure",
        "BadRequest",
        "ResourceInfo",
        "Status",
    ] {
        assert!(symbols.contains_key(&format!("google.rpc.{detail}")), "{detail}");
    }
    let listed = list_v1alpha(&served.channel).await;
    for service in ["tenure.v1.JobService", "tenure.node.v1.NodeService", "grpc.health.v1.Health"] {
        assert!(listed.iter().any(|name| name == service), "{service} in {listed:?}");
    }
    served.end().await;
}

/// All files that reflection v1 reaches from its services and from the types of error details.
async fn all_files(channel: &Channel) -> BTreeMap<String, FileDescriptorProto> {
    use v1::{
        ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
        server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
    };
    let ask = async |request: MessageRequest| {
        let request = ServerReflectionRequest { host: String::new(), message_request: Some(request) };
        let mut answers = ServerReflectionClient::new(channel.clone())
            .server_reflection_info(iter([request]))
            .await
            .expect("a stream")
            .into_inner();
        answers
            .message()
            .await
            .expect("a live stream")
            .expect("an answer")
            .message_response
            .expect("which says something")
    };
    let MessageResponse::ListServicesResponse(list) = ask(MessageRequest::ListServices(String::new())).await
    else {
        panic!("a list of services was asked for");
    };
    let mut symbols: Vec<String> = list.service.into_iter().map(|service| service.name).collect();
    assert!(symbols.iter().any(|name| name == "tenure.v1.JobService"), "{symbols:?}");
    symbols.extend(["google.rpc.ErrorInfo".to_owned(), "google.rpc.Status".to_owned()]);
    let mut asks: Vec<MessageRequest> =
        symbols.into_iter().map(MessageRequest::FileContainingSymbol).collect();
    let mut files = BTreeMap::new();
    while let Some(request) = asks.pop() {
        let shown = format!("{request:?}");
        let MessageResponse::FileDescriptorResponse(found) = ask(request).await else {
            panic!("no file for {shown}")
        };
        for bytes in found.file_descriptor_proto {
            let file = FileDescriptorProto::decode(&bytes[..]).expect("a file");
            if !files.contains_key(file.name()) {
                asks.extend(file.dependency.iter().cloned().map(MessageRequest::FileByFilename));
                files.insert(file.name().to_owned(), file);
            }
        }
    }
    files
}

async fn list_v1alpha(channel: &Channel) -> Vec<String> {
    use v1alpha::{
        ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
        server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
    };
    let message_request = Some(MessageRequest::ListServices(String::new()));
    let request = ServerReflectionRequest { host: String::new(), message_request };
    let mut answers = ServerReflectionClient::new(channel.clone())
        .server_reflection_info(iter([request]))
        .await
        .expect("a stream")
        .into_inner();
    let answer = answers
        .message()
        .await
        .expect("a live stream")
        .expect("an answer")
        .message_response
        .expect("which says something");
    let MessageResponse::ListServicesResponse(list) = answer else {
        panic!("a list of services was asked for")
    };
    list.service.into_iter().map(|service| service.name).collect()
}

#[tokio::test]
async fn services_say_whether_they_serve() {
    let served = Served::start().await;
    let check = async |want: ServingStatus| {
        let mut client = HealthClient::new(served.channel.clone());
        let look = async {
            loop {
                let mut all = Vec::new();
                for service in ["", "tenure.v1.JobService", "tenure.node.v1.NodeService"] {
                    let request = HealthCheckRequest { service: service.to_owned() };
                    all.push(client.check(request).await.unwrap().into_inner().status());
                }
                if all.iter().all(|status| *status == want) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(SOON, look).await.unwrap_or_else(|_| panic!("{want:?} in time"));
    };
    check(ServingStatus::Serving).await;
    served.store.set_away(true);
    check(ServingStatus::NotServing).await;
    served.store.set_away(false);
    check(ServingStatus::Serving).await;
    served.end().await;
}

#[tokio::test]
async fn connections_over_the_cap_wait_until_another_ends() {
    let mut config = local();
    config.limits.max_connections = 8;
    let served = Served::start_with(config).await; // its own channel is the first
    let connect =
        async || tokio::net::TcpStream::connect(served.addresses().grpc).await.expect("the backlog has room");
    let mut open = Vec::new();
    for _ in 0..7 {
        open.push(connect().await);
    }
    let mut waiting = connect().await;
    // HTTP/2's preface; the server's settings are its answer once it serves the connection.
    waiting.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let mut answer = [0; 9];
    let early = tokio::time::timeout(Duration::from_millis(200), waiting.read_exact(&mut answer)).await;
    assert!(early.is_err(), "it waits");
    drop(open.pop());
    tokio::time::timeout(SOON, waiting.read_exact(&mut answer))
        .await
        .expect("its turn comes")
        .expect("settings");
    assert_eq!(answer[3], 4, "a settings frame");
    drop((open, waiting));
    served.end().await;
}

#[tokio::test]
async fn connections_that_say_nothing_do_not_delay_the_end() {
    let served = Served::start().await;
    let addresses = served.addresses();
    let mut idle = Vec::new();
    for address in [addresses.grpc, addresses.http] {
        idle.push(tokio::net::TcpStream::connect(address).await.expect("it listens"));
    }
    // A call proves that connections made before it are accepted.
    served.job(spec("plain")).await;
    tokio::time::timeout(Duration::from_secs(4), served.end())
        .await
        .expect("an end before open calls are cut");
    for mut stream in idle {
        // The server's settings may have come; whether the end is clean is of no interest.
        let mut rest = Vec::new();
        let read = tokio::time::timeout(SOON, stream.read_to_end(&mut rest)).await;
        drop(read.expect("closed in time"));
    }
}
