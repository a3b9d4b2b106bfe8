//! Results over the inline limit, against a real directory: in by a node, out to a caller and to another job.

use std::pin::Pin;

use bytes::Bytes;
use futures_util::future::select_all;
use ring::digest::{SHA256, digest};
use tenure_proto::{
    node::v1::{
        EnqueueChildrenRequest, FetchResultRequest, Finished, FinishedOutcome, GetChildResultsRequest, Grant,
        InputResult, LeaseName, UploadHead, UploadResultRequest, UploadedResult, input_result::Answer,
        node_service_client::NodeServiceClient, report::Event, upload_result_request::Part,
    },
    v1::{DeleteJobRequest, GetResultRequest, JobSpec, ReadResultRequest, ResultHead, read_result_response},
};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, transport::Channel};
use tonic_types::StatusExt as _;

use crate::node::{Node, SOON, accepted, finished, hello, reaped, started};
use crate::served::{Served, spec};
use crate::{UNKNOWN, reason, wait_for};

const SIZE: usize = 300 * 1024;

fn bytes(seed: u8) -> Vec<u8> {
    (0..SIZE).map(|n| seed.wrapping_add(n.to_le_bytes()[0])).collect()
}

fn lease(grant: &Grant) -> Option<LeaseName> {
    Some(LeaseName { node: "n1".to_owned(), job_id: grant.job_id.clone(), token: grant.token })
}

fn client(served: &Served) -> NodeServiceClient<Channel> {
    NodeServiceClient::new(served.channel())
}

fn reference(bytes: &[u8]) -> UploadedResult {
    UploadedResult {
        size: bytes.len() as u64,
        content_type: "a/b".to_owned(),
        sha256: Bytes::copy_from_slice(digest(&SHA256, bytes).as_ref()),
    }
}

fn head(grant: &Grant, result: UploadedResult) -> Part {
    Part::Head(UploadHead { lease: lease(grant), result: Some(result) })
}

fn data(bytes: &[u8]) -> Vec<Part> {
    bytes.chunks(256 * 1024).map(|chunk| Part::Data(Bytes::copy_from_slice(chunk))).collect()
}

async fn send(served: &Served, parts: Vec<Part>) -> Result<(), Status> {
    let messages = parts.into_iter().map(|part| UploadResultRequest { part: Some(part) });
    client(served).upload_result(tokio_stream::iter(messages.collect::<Vec<_>>())).await.map(drop)
}

async fn upload(served: &Served, grant: &Grant, bytes: &[u8]) -> Result<(), Status> {
    let mut parts = vec![head(grant, reference(bytes))];
    parts.extend(data(bytes));
    send(served, parts).await
}

fn uploaded(bytes: &[u8]) -> Event {
    Event::Finished(Finished {
        outcome: FinishedOutcome::Succeeded.into(),
        exit_code: Some(0),
        cause: "exit".to_owned(),
        uploaded: Some(reference(bytes)),
        ..Finished::default()
    })
}

async fn running(node: &mut Node) -> Grant {
    let grant = node.grant().await;
    node.report(&grant, [accepted(), started()]).await;
    grant
}

async fn read(served: &Served, job: &str) -> Result<(ResultHead, Vec<u8>), Status> {
    let request = ReadResultRequest { job_id: job.to_owned() };
    let mut stream = served.jobs().read_result(request).await?.into_inner();
    let first = stream.message().await?.and_then(|message| message.part);
    let Some(read_result_response::Part::Head(head)) = first else { panic!("{first:?}") };
    let mut all = Vec::new();
    while let Some(message) = stream.message().await? {
        let Some(read_result_response::Part::Data(bytes)) = message.part else { panic!("a second head") };
        assert!(bytes.len() <= 256 * 1024);
        all.extend_from_slice(&bytes);
    }
    Ok((head, all))
}

fn objects(directory: &tempfile::TempDir) -> std::io::Result<Vec<std::ffi::OsString>> {
    std::fs::read_dir(directory.path().join("results"))?.map(|entry| Ok(entry?.file_name())).collect()
}

#[tokio::test]
async fn a_large_result_is_uploaded_read_and_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::on_disk(directory.path()).await;
    let (mut node, welcome) = Node::join(served.grpc(), hello("n1", 1)).await;
    assert_eq!(welcome.max_uploaded_result_bytes, 64 << 20);
    let job = served.enqueue(spec("page", b"")).await;
    let grant = running(&mut node).await;
    let bytes = bytes(0);
    // Twice is once.
    upload(&served, &grant, &bytes).await.unwrap();
    upload(&served, &grant, &bytes).await.unwrap();
    let early = read(&served, &job).await.unwrap_err();
    assert_eq!(reason(&early), "RESULT_NOT_FOUND", "nothing is said of it before its end");
    node.report(&grant, [uploaded(&bytes), reaped()]).await;
    node.answers(1).await;

    let (head, read_back) = read(&served, &job).await.unwrap();
    assert!(read_back == bytes, "other bytes");
    assert_eq!((head.size, head.content_type.as_str(), head.token), (SIZE as u64, "a/b", grant.token));
    assert_eq!(head.sha256, reference(&bytes).sha256);
    let inline = served.jobs().get_result(GetResultRequest { job_id: job.clone() }).await.unwrap_err();
    assert_eq!((inline.code(), reason(&inline).as_str()), (Code::FailedPrecondition, "RESULT_TOO_LARGE"));
    assert_eq!(objects(&directory).unwrap().len(), 1);
    let delete = |validate_only| DeleteJobRequest { job_id: job.clone(), validate_only };
    served.jobs().delete_job(delete(true)).await.unwrap();
    assert_eq!(objects(&directory).unwrap().len(), 1, "it was asked, not done");
    served.jobs().delete_job(delete(false)).await.unwrap();
    assert!(objects(&directory).unwrap().is_empty());
    served.end().await;
}

#[tokio::test]
async fn an_inline_result_is_a_stream_too() {
    let served = Served::in_memory().await;
    let (mut node, welcome) = Node::join(served.grpc(), hello("n1", 1)).await;
    assert_eq!(welcome.max_uploaded_result_bytes, 0, "there is no object storage");
    for result in [&b"small"[..], b""] {
        let job = served.enqueue(spec("page", b"")).await;
        let grant = running(&mut node).await;
        let none = upload(&served, &grant, &bytes(0)).await.unwrap_err();
        assert_eq!(reason(&none), "NO_RESULT_STORAGE");
        node.report(&grant, [finished(FinishedOutcome::Succeeded, Some(result)), reaped()]).await;
        node.answers(1).await;
        let (head, read_back) = read(&served, &job).await.unwrap();
        assert_eq!((head.size, read_back.as_slice()), (result.len() as u64, result));
        assert_eq!(head.sha256, reference(result).sha256);
    }
    served.end().await;
}

#[tokio::test]
async fn an_upload_that_is_not_right_is_refused_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::on_disk(directory.path()).await;
    let (mut node, _) = Node::join(served.grpc(), hello("n1", 1)).await;
    served.enqueue(spec("page", b"")).await;
    let grant = running(&mut node).await;
    let right = bytes(0);
    let announced = |change: fn(&mut UploadedResult)| {
        let mut result = reference(&right);
        change(&mut result);
        head(&grant, result)
    };
    let with = |first: Part, rest: Vec<Part>| [vec![first], rest].concat();
    let stranger = Grant { token: grant.token + 1, ..grant.clone() };
    let (invalid, large) = ("INVALID_FIELD", "PAYLOAD_TOO_LARGE");
    let cases = [
        ("nothing", Vec::new(), invalid),
        ("no head", data(&right), invalid),
        ("two heads", with(announced(|_| {}), vec![announced(|_| {})]), invalid),
        ("fewer bytes", with(announced(|_| {}), data(&right[1..])), invalid),
        ("more bytes", with(announced(|it| it.size -= 1), data(&right)), invalid),
        ("other bytes", with(announced(|_| {}), data(&bytes(1))), invalid),
        ("a short checksum", with(announced(|it| it.sha256.truncate(31)), data(&right)), invalid),
        ("no size", with(announced(|it| it.size = 0), Vec::new()), invalid),
        ("a long media type", with(announced(|it| it.content_type = "x".repeat(256)), Vec::new()), invalid),
        ("a large message", with(announced(|_| {}), vec![Part::Data(right.clone().into())]), invalid),
        ("too much", with(announced(|it| it.size = (64 << 20) + 1), Vec::new()), large),
        ("another lease", with(head(&stranger, reference(&right)), data(&right)), "LEASE_LOST"),
    ];
    for (what, parts, want) in cases {
        let no = send(&served, parts).await.expect_err(what);
        assert_eq!(reason(&no), want, "{what}: {no:?}");
    }
    assert!(objects(&directory).unwrap().is_empty());
    served.end().await;
}

#[tokio::test]
async fn a_job_that_goes_on_from_a_large_result_fetches_it() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::on_disk(directory.path()).await;
    let (mut node, _) = Node::join(served.grpc(), hello("n1", 1)).await;
    served.enqueue(spec("page", b"parent")).await;
    let parent = running(&mut node).await;
    let request = EnqueueChildrenRequest { lease: lease(&parent), jobs: vec![spec("page", b"child")] };
    client(&served).enqueue_children(request).await.unwrap();
    let child = running(&mut node).await;
    let fetch = async |job_id: &str| {
        let request = FetchResultRequest { lease: lease(&parent), job_id: job_id.to_owned() };
        let mut stream = client(&served).fetch_result(request).await?.into_inner();
        let mut all = Vec::new();
        while let Some(message) = stream.message().await? {
            all.extend_from_slice(&message.data);
        }
        Ok::<_, Status>(all)
    };
    assert_eq!(reason(&fetch(&child.job_id).await.unwrap_err()), "INVALID_FIELD", "it runs");
    let bytes = bytes(7);
    upload(&served, &child, &bytes).await.unwrap();
    node.report(&child, [uploaded(&bytes), reaped()]).await;
    node.answers(1).await;

    let results = async |takes_uploaded| -> InputResult {
        let job_ids = vec![child.job_id.clone()];
        let request =
            GetChildResultsRequest { lease: lease(&parent), job_ids, from_index: 0, takes_uploaded };
        client(&served).get_child_results(request).await.unwrap().into_inner().results.remove(0)
    };
    let named = results(true).await;
    assert_eq!((named.answer, named.uploaded), (None, Some(reference(&bytes))));
    let told = results(false).await;
    assert!(matches!(&told.answer, Some(Answer::Error(why)) if why.contains("ReadResult")), "{told:?}");
    assert_eq!(told.uploaded, None);
    assert!(fetch(&child.job_id).await.unwrap() == bytes, "other bytes");
    assert_eq!(reason(&fetch(UNKNOWN).await.unwrap_err()), "JOB_NOT_FOUND");
    // Somebody else's is not for it.
    served.enqueue(JobSpec { tenant: "other".to_owned(), ..spec("page", b"stranger") }).await;
    let stranger = running(&mut node).await;
    upload(&served, &stranger, &bytes).await.unwrap();
    node.report(&stranger, [uploaded(&bytes), reaped()]).await;
    node.answers(1).await;
    assert_eq!(reason(&fetch(&stranger.job_id).await.unwrap_err()), "INVALID_FIELD");
    served.end().await;
}

/// An upload whose first bytes came, and no more.
fn stalled(served: &Served, grant: &Grant, node: &str, result: UploadedResult) -> Stalled {
    let named = LeaseName { node: node.to_owned(), ..lease(grant).expect("a lease") };
    let first = Part::Head(UploadHead { lease: Some(named), result: Some(result) });
    let (more, parts) = mpsc::channel(8);
    more.try_send(UploadResultRequest { part: Some(first) }).expect("it is sent");
    let mut client = client(served);
    let answer = async move { client.upload_result(ReceiverStream::new(parts)).await.map(drop) };
    Stalled { more, answer: Box::pin(answer) }
}

struct Stalled {
    more: mpsc::Sender<UploadResultRequest>,
    answer: Pin<Box<dyn Future<Output = Result<(), Status>> + Send>>,
}

/// Why the first of these that is answered was refused; the others go on.
async fn first_refusal(stalled: &mut Vec<Stalled>) -> Status {
    let answers = stalled.iter_mut().map(|one| &mut one.answer);
    let (answer, at, _) = timeout(SOON, select_all(answers)).await.expect("one is answered");
    stalled.remove(at);
    answer.expect_err("it is refused")
}

#[tokio::test]
async fn one_node_takes_half_of_the_places_for_uploads_and_others_get_theirs() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::on_disk(directory.path()).await;
    let (mut first, _) = Node::join(served.grpc(), hello("n1", 1)).await;
    served.enqueue(spec("page", b"")).await;
    let grant = running(&mut first).await;
    let bytes = bytes(0);
    let mut held: Vec<_> = (0..6).map(|_| stalled(&served, &grant, "n1", reference(&bytes))).collect();
    for _ in 0..2 {
        let no = first_refusal(&mut held).await;
        assert_eq!((no.code(), reason(&no).as_str()), (Code::Unavailable, "SERVER_BUSY"), "{no:?}");
        assert!(no.message().contains("n1") && no.message().contains("its share"), "{no:?}");
        assert!(no.get_error_details().retry_info().is_some_and(|info| info.retry_delay.is_some()));
    }
    assert_eq!(held.len(), 4);

    let (mut second, _) = Node::join(served.grpc(), hello("n2", 1)).await;
    served.enqueue(spec("page", b"")).await;
    served.enqueue(spec("page", b"")).await;
    let other = running(&mut second).await;
    let whole = stalled(&served, &other, "n2", reference(&bytes));
    for part in data(&bytes) {
        whole.more.send(UploadResultRequest { part: Some(part) }).await.unwrap();
    }
    drop(whole.more);
    timeout(SOON, whole.answer).await.expect("it has a place").unwrap();

    // One that is given up makes room for another of its node.
    drop(held.pop());
    wait_for(async || upload(&served, &grant, &bytes).await.ok()).await;
    served.end().await;
}

#[tokio::test]
async fn a_node_that_reads_nothing_leaves_places_for_fetches_to_others() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::on_disk(directory.path()).await;
    let (mut node, _) = Node::join(served.grpc(), hello("n1", 1)).await;
    served.enqueue(spec("page", b"parent")).await;
    let parent = running(&mut node).await;
    let request = EnqueueChildrenRequest { lease: lease(&parent), jobs: vec![spec("page", b"child")] };
    client(&served).enqueue_children(request).await.unwrap();
    let child = running(&mut node).await;
    // More than what waits for a reader on the way.
    let bytes = vec![7; 4 << 20];
    upload(&served, &child, &bytes).await.unwrap();
    node.report(&child, [uploaded(&bytes), reaped()]).await;
    node.answers(1).await;

    let request = FetchResultRequest { lease: lease(&parent), job_id: child.job_id.clone() };
    let mut unread = Vec::new();
    for _ in 0..16 {
        unread.push(client(&served).fetch_result(request.clone()).await.unwrap().into_inner());
    }
    let no = client(&served).fetch_result(request.clone()).await.unwrap_err();
    assert_eq!((no.code(), reason(&no).as_str()), (Code::Unavailable, "SERVER_BUSY"), "{no:?}");
    assert!(no.message().contains("its share"), "{no:?}");
    // What is given up is free again, and read to its end it is whole.
    drop(unread.pop());
    let mut again =
        wait_for(async || client(&served).fetch_result(request.clone()).await.ok()).await.into_inner();
    drop(unread);
    let mut all = Vec::new();
    while let Some(message) = timeout(SOON, again.message()).await.expect("in time").unwrap() {
        all.extend_from_slice(&message.data);
    }
    assert!(all == bytes, "other bytes");
    served.end().await;
}
