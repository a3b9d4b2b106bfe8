//! A server against nodes by script, over real sockets, from enqueue to the end of a job.

#[path = "sessions/attaching.rs"]
mod attaching;
#[path = "sessions/children.rs"]
mod children;
#[path = "sessions/logs.rs"]
mod logs;
#[path = "support/node.rs"]
mod node;
#[path = "sessions/results.rs"]
mod results;
#[path = "support/served.rs"]
mod served;
#[path = "sessions/tails.rs"]
mod tails;

use std::time::Duration;

use node::{Node, SOON, accepted, finished, held, hello, reaped, started};
use served::{FLEET, Served, spec};
use tenure_proto::{
    node::v1::{
        FinishedOutcome, Heartbeat, HeldLease, LeasePhase, NodeMessage, StoredVerdict, node_message,
        server_message::Body,
    },
    v1::{CancelJobRequest, JobState},
};
use tenure_store::memory::{Fault, Memory};
use tonic::Code;
use tonic_types::StatusExt as _;

/// A job that nobody enqueued.
const UNKNOWN: &str = "01900000-0000-7000-8000-000000000000";

/// Waits until something is there.
async fn wait_for<T>(mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let wait = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, wait).await.expect("in time")
}

/// The reason that a status gives.
fn reason(status: &tonic::Status) -> String {
    status.get_error_details().error_info().map(|info| info.reason.clone()).unwrap_or_default()
}

#[tokio::test]
async fn a_job_goes_from_enqueue_to_its_result() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::on_disk(directory.path()).await;
    let (mut node, welcome) = Node::join(served.grpc(), hello("n1", 1)).await;
    assert_eq!(
        (welcome.epoch, welcome.anchor_seq, welcome.max_result_bytes),
        (served.epoch(), 1, 256 * 1024)
    );
    assert!(welcome.renewed.is_empty() && welcome.warnings.is_empty());

    let job = served.enqueue(spec("page", b"the payload")).await;
    let grant = node.grant().await;
    assert_eq!((grant.job_id.as_str(), grant.attempt), (job.as_str(), 1));
    assert_eq!((&grant.payload[..], grant.content_type.as_str()), (&b"the payload"[..], "text/plain"));
    assert_eq!(grant.slots, [("browser".to_owned(), 1)].into());

    node.report(&grant, [accepted(), started()]).await;
    node.heartbeat(vec![held(&grant, LeasePhase::Started)]).await;
    let renewed = node
        .find(|message| match &message.body {
            Some(Body::Renewed(renewed)) => Some(renewed.clone()),
            _ => None,
        })
        .await;
    assert_eq!(renewed.anchor_seq, 3);
    assert_eq!(renewed.leases.len(), 1);
    assert_eq!(served.job(&job).await.state(), JobState::Running);

    node.report(&grant, [finished(FinishedOutcome::Succeeded, Some(b"the result")), reaped()]).await;
    let answers = node.answers(2).await;
    assert!(answers.iter().all(|answer| answer.verdict() == StoredVerdict::Stored), "{answers:?}");
    assert_eq!(served.job(&job).await.state(), JobState::Succeeded);
    assert_eq!(served.result(&job).await, b"the result");
    served.end().await;
}

#[tokio::test]
async fn two_slots_run_two_jobs_and_the_third_waits_for_reaped() {
    let served = Served::in_memory().await;
    let (mut node, _) = Node::join(served.grpc(), hello("n1", 1)).await;
    let mut jobs = Vec::new();
    for _ in 0..3 {
        jobs.push(served.enqueue(spec("page", b"")).await);
    }
    let mut grants = Vec::new();
    while grants.len() < 2 {
        grants.extend(node.grants().await);
    }
    assert_eq!(grants.len(), 2);
    let first = &grants[0];
    node.report(first, [accepted(), started(), finished(FinishedOutcome::Succeeded, None)]).await;
    node.answers(1).await;
    assert_eq!(
        served.job(&jobs[2]).await.state(),
        JobState::Queued,
        "the slot is taken until the tree is gone"
    );
    node.report(first, [reaped()]).await;
    assert_eq!(node.grant().await.job_id, jobs[2]);
    served.end().await;
}

#[tokio::test]
async fn a_cancelled_job_is_revoked_on_its_node() {
    let served = Served::in_memory().await;
    let (mut node, _) = Node::join(served.grpc(), hello("n1", 1)).await;
    let job = served.enqueue(spec("page", b"x")).await;
    let grant = node.grant().await;
    node.report(&grant, [accepted(), started()]).await;
    let request = CancelJobRequest { job_id: job.clone(), ..CancelJobRequest::default() };
    served.jobs().cancel_job(request).await.unwrap();
    let revoked = node
        .find(|message| match &message.body {
            Some(Body::Revoke(revoke)) => revoke.leases.first().copied(),
            _ => None,
        })
        .await;
    assert_eq!(revoked.token, grant.token);
    node.report(&grant, [finished(FinishedOutcome::Revoked, None), reaped()]).await;
    node.answers(2).await;
    assert_eq!(served.job(&job).await.state(), JobState::Cancelled);
    served.end().await;
}

#[tokio::test]
async fn what_begins_a_stream_must_be_a_hello_with_the_right_number() {
    let served = Served::in_memory().await;
    let heartbeat = || node_message::Body::Heartbeat(Heartbeat::default());
    let cases = [
        ("hello", NodeMessage { seq: 1, seen: 0, body: Some(heartbeat()) }),
        ("seq", NodeMessage { seq: 2, seen: 0, body: Some(node_message::Body::Hello(hello("n1", 1))) }),
        ("hello.protocol", {
            let hello = tenure_proto::node::v1::Hello { protocol: 9, ..hello("n1", 1) };
            NodeMessage { seq: 1, seen: 0, body: Some(node_message::Body::Hello(hello)) }
        }),
    ];
    for (field, message) in cases {
        let node = Node::open(served.grpc()).await;
        node.send(message).await;
        let status = node.ended().await;
        assert_eq!((status.code(), reason(&status).as_str()), (Code::InvalidArgument, "INVALID_FIELD"));
        let details = status.get_error_details();
        assert_eq!(details.bad_request().unwrap().field_violations[0].field, field);
    }
    served.end().await;
}

#[tokio::test]
async fn a_gap_in_the_numbers_and_a_claim_to_have_seen_the_unsent_end_the_session() {
    let served = Served::in_memory().await;
    for (field, seq, seen) in [("seq", 3, 1), ("seen", 2, 99)] {
        let (node, _) = Node::join(served.grpc(), hello(&format!("n-{field}"), 1)).await;
        let body = Some(node_message::Body::Heartbeat(Heartbeat::default()));
        node.send(NodeMessage { seq, seen, body }).await;
        let status = node.ended().await;
        let details = status.get_error_details();
        assert_eq!(details.bad_request().unwrap().field_violations[0].field, field);
    }
    served.until_sessions(0).await;
    served.end().await;
}

#[tokio::test]
async fn a_newer_stream_of_a_node_ends_the_older_one() {
    let served = Served::in_memory().await;
    let (older, _) = Node::join(served.grpc(), hello("n1", 1)).await;
    let (newer, _) = Node::join(served.grpc(), hello("n1", 2)).await;
    let status = older.ended().await;
    assert_eq!((status.code(), reason(&status).as_str()), (Code::FailedPrecondition, "SUPERSEDED_SESSION"));
    served.until_sessions(1).await;
    // The same Hello once more is not newer.
    let late = Node::open(served.grpc()).await;
    late.send(NodeMessage { seq: 1, seen: 0, body: Some(node_message::Body::Hello(hello("n1", 2))) }).await;
    assert_eq!(reason(&late.ended().await), "SUPERSEDED_SESSION");
    newer.cut();
    served.end().await;
}

#[tokio::test]
async fn another_instance_under_a_live_name_is_refused() {
    let served = Served::in_memory().await;
    let (mut node, _) = Node::join(served.grpc(), hello("n1", 1)).await;
    let other = Node::open(served.grpc()).await;
    let stranger = tenure_proto::node::v1::Hello { instance: "another".to_owned(), ..hello("n1", 1) };
    other.send(NodeMessage { seq: 1, seen: 0, body: Some(node_message::Body::Hello(stranger)) }).await;
    assert_eq!(reason(&other.ended().await), "NODE_NAME_IN_USE");
    node.heartbeat(Vec::new()).await;
    node.find(|message| matches!(message.body, Some(Body::Renewed(_))).then_some(())).await;
    served.end().await;
}

#[tokio::test]
async fn a_node_that_saw_a_higher_epoch_makes_the_leader_go_above_it() {
    let served = Served::in_memory().await;
    let epoch = served.epoch();
    let ahead = tenure_proto::node::v1::Hello { max_epoch_seen: epoch + 7, ..hello("n1", 1) };
    let node = Node::open(served.grpc()).await;
    node.send(NodeMessage { seq: 1, seen: 0, body: Some(node_message::Body::Hello(ahead.clone())) }).await;
    let status = node.ended().await;
    assert_eq!(status.code(), Code::Unavailable, "it comes back");
    let (_node, welcome) = Node::join(served.grpc(), ahead).await;
    assert_eq!(welcome.epoch, epoch + 8);
    let far = tenure_proto::node::v1::Hello { max_epoch_seen: epoch + 5000, ..hello("n2", 1) };
    let node = Node::open(served.grpc()).await;
    node.send(NodeMessage { seq: 1, seen: 0, body: Some(node_message::Body::Hello(far)) }).await;
    assert_eq!(reason(&node.ended().await), "EPOCH_AHEAD");
    served.end().await;
}

#[tokio::test]
async fn a_lease_survives_a_reload_and_its_end_is_stored_once() {
    let store = Memory::new();
    let served = Served::on(store.clone()).await;
    let (mut node, _) = Node::join(served.grpc(), hello("n1", 1)).await;
    let job = served.enqueue(spec("page", b"x")).await;
    let grant = node.grant().await;
    node.report(&grant, [accepted(), started()]).await;
    node.heartbeat(vec![held(&grant, LeasePhase::Started)]).await;
    node.find(|message| matches!(message.body, Some(Body::Renewed(_))).then_some(())).await;

    store.fail_next_commit(Fault::UnknownLost);
    let status = served.try_enqueue(spec("page", b"y")).await.unwrap_err();
    assert_eq!(reason(&status), "STORE_UNAVAILABLE");
    assert_eq!(node.ended().await.code(), Code::Unavailable);

    let mut again = hello("n1", 1);
    again.stream = 2;
    again.held = vec![held(&grant, LeasePhase::Started)];
    let (mut node, welcome) = Node::join(served.grpc(), again).await;
    assert_eq!(welcome.renewed.len(), 1, "it lives");
    assert_eq!(welcome.renewed[0].token, grant.token);
    node.report(&grant, [finished(FinishedOutcome::Succeeded, Some(b"r")), reaped()]).await;
    node.report(&grant, [finished(FinishedOutcome::Succeeded, Some(b"other"))]).await;
    let answers = node.answers(3).await;
    assert!(answers.iter().all(|answer| answer.verdict() == StoredVerdict::Stored), "{answers:?}");
    assert_eq!(served.result(&job).await, b"r", "the first one is kept");
    let job = served.job(&job).await;
    assert_eq!((job.state(), job.losses), (JobState::Succeeded, 0));
    served.end().await;
}

#[tokio::test]
async fn a_grant_that_never_arrived_is_granted_again_and_charges_nothing() {
    let served = Served::in_memory().await;
    let (mut node, _) = Node::join(served.grpc(), hello("n1", 1)).await;
    let job = served.enqueue(spec("page", b"x")).await;
    let lost = node.grant().await;
    node.cut(); // and forgotten: the next Hello does not list it
    let mut again = hello("n1", 1);
    again.stream = 2;
    let (mut node, _) = Node::join(served.grpc(), again).await;
    let grant = node.grant().await;
    assert_eq!((&grant.job_id, grant.attempt), (&job, 1));
    assert!(grant.token > lost.token);
    // What is still said of the lost one is stale.
    node.report(&lost, [finished(FinishedOutcome::Succeeded, Some(b"stale"))]).await;
    let answers = node.answers(1).await;
    assert_eq!((answers[0].verdict(), answers[0].cause.as_str()), (StoredVerdict::LeaseLost, "STALE_TOKEN"));
    let job = served.job(&job).await;
    assert_eq!((job.losses, job.failures, job.returns), (0, 0, 1));
    served.end().await;
}

#[tokio::test]
async fn a_heartbeat_that_covers_a_grant_and_does_not_list_it_returns_it() {
    let served = Served::in_memory().await;
    let (mut node, _) = Node::join(served.grpc(), hello("n1", 1)).await;
    let job = served.enqueue(spec("page", b"x")).await;
    let seen = node.seen;
    let lost = node.grant().await;
    // One that was sent before the grant was read says nothing about it.
    node.seq += 1;
    let body = Some(node_message::Body::Heartbeat(Heartbeat::default()));
    node.send(NodeMessage { seq: node.seq, seen, body }).await;
    node.find(|message| matches!(message.body, Some(Body::Renewed(_))).then_some(())).await;
    assert_eq!(served.job(&job).await.returns, 0);
    node.heartbeat(Vec::new()).await;
    let grant = node.grant().await;
    assert!(grant.token > lost.token);
    assert_eq!(served.job(&job).await.returns, 1);
    served.end().await;
}

#[tokio::test]
async fn a_report_that_cannot_be_stored_is_set_aside_and_the_rest_goes_on() {
    let store = Memory::new();
    let served = Served::on(store.clone()).await;
    let (mut node, _) = Node::join(served.grpc(), hello("n1", 1)).await;
    served.enqueue(spec("page", b"x")).await;
    let grant = node.grant().await;
    node.report(&grant, [accepted(), started()]).await;
    let holds = || vec![held(&grant, LeasePhase::Finished)];

    // Twice: in company nobody knows what it was, alone it is known.
    let mut node = node;
    for stream in 2..4 {
        node.heartbeat(vec![held(&grant, LeasePhase::Started)]).await;
        node.find(|message| matches!(message.body, Some(Body::Renewed(_))).then_some(())).await;
        store.fail_next_commit(Fault::Constraint("results_have_executions"));
        node.report(&grant, [finished(FinishedOutcome::Succeeded, Some(b"poison"))]).await;
        assert_eq!(node.ended().await.code(), Code::Unavailable);
        let again = tenure_proto::node::v1::Hello { stream, held: holds(), ..hello("n1", 1) };
        (node, _) = Node::join(served.grpc(), again).await;
    }
    node.report(&grant, [finished(FinishedOutcome::Succeeded, Some(b"poison"))]).await;
    let answers = node.answers(1).await;
    assert_eq!((answers[0].verdict(), answers[0].token), (StoredVerdict::Broken, grant.token));
    // The node lives on, and so does everybody else.
    node.report(&grant, [reaped()]).await;
    assert_eq!(node.answers(1).await[0].verdict(), StoredVerdict::Stored);
    served.enqueue(spec("page", b"y")).await;
    served.end().await;
}

#[tokio::test]
async fn a_result_over_the_limit_is_set_aside_and_the_session_goes_on() {
    let served = Served::in_memory().await;
    let (mut node, _) = Node::join(served.grpc(), hello("n1", 1)).await;
    served.enqueue(spec("page", b"x")).await;
    let grant = node.grant().await;
    let big = vec![0; 256 * 1024 + 1];
    node.report(&grant, [accepted(), started(), finished(FinishedOutcome::Succeeded, Some(&big))]).await;
    assert_eq!(node.answers(1).await[0].verdict(), StoredVerdict::Broken);
    let most = vec![1; 256 * 1024];
    node.report(&grant, [finished(FinishedOutcome::Succeeded, Some(&most)), reaped()]).await;
    let answers = node.answers(2).await;
    assert!(answers.iter().all(|answer| answer.verdict() == StoredVerdict::Stored), "{answers:?}");
    served.end().await;
}

#[tokio::test]
async fn large_payloads_reach_the_node_whole_and_in_frames_within_the_bound() {
    let served = Served::in_memory().await;
    let wide =
        tenure_proto::node::v1::Hello { slots: [("browser".to_owned(), 100)].into(), ..hello("n1", 1) };
    let (mut node, _) =
        Node::join(served.grpc(), tenure_proto::node::v1::Hello { credits: 100, ..wide }).await;
    let mut sent = std::collections::BTreeMap::new();
    for n in 0..20_u8 {
        let payload = vec![n; 200 * 1024];
        sent.insert(served.enqueue(spec("page", &payload)).await, payload);
    }
    let mut got = std::collections::BTreeMap::new();
    while got.len() < sent.len() {
        let grants = node.grants().await;
        let bytes: usize = grants.iter().map(prost::Message::encoded_len).sum();
        assert!(bytes <= 1 << 20, "{bytes}");
        got.extend(grants.into_iter().map(|grant| (grant.job_id, grant.payload.to_vec())));
    }
    assert_eq!(got, sent);
    served.end().await;
}

/// The messages of a node in the eyes of somebody who does not know that names are text.
#[derive(Clone, PartialEq, prost::Message)]
struct RawMessage {
    #[prost(uint64, tag = "1")]
    seq: u64,
    #[prost(message, optional, tag = "3")]
    hello: Option<RawHello>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RawHello {
    #[prost(bytes = "vec", tag = "1")]
    node_name: Vec<u8>,
}

#[tokio::test]
async fn bytes_that_do_not_decode_end_the_session_with_the_name_of_the_field() {
    use tenure_proto::node::v1::ServerMessage;
    let served = Served::in_memory().await;
    let mut client = tonic::client::Grpc::new(served.channel());
    client.ready().await.unwrap();
    let message = RawMessage { seq: 1, hello: Some(RawHello { node_name: vec![0xff, 0xfe] }) };
    let path = "/tenure.node.v1.NodeService/Session".parse().unwrap();
    let codec = tonic_prost::ProstCodec::<RawMessage, ServerMessage>::default();
    let request = tonic::Request::new(tokio_stream::once(message));
    let mut messages = client.streaming(request, path, codec).await.unwrap().into_inner();
    let status = messages.message().await.unwrap_err();
    assert_eq!((status.code(), reason(&status).as_str()), (Code::InvalidArgument, "INVALID_FIELD"));
    let details = status.get_error_details();
    assert_eq!(
        details.bad_request().unwrap().field_violations[0].field,
        "body.node_name",
        "as the decoder names it"
    );
    served.end().await;
}

#[tokio::test]
async fn a_flood_of_one_node_is_taken_in_order_and_delays_nobody_for_long() {
    let served = Served::in_memory().await;
    let (mut noisy, _) = Node::join(served.grpc(), hello("noisy", 1)).await;
    let (mut quiet, _) = Node::join(served.grpc(), hello("quiet", 1)).await;
    let job = served.enqueue(spec("page", b"x")).await;
    let (noisy_grants, quiet_grants) = (noisy.grants(), quiet.grants());
    // Whoever got it: reports about any lease are answered, live or not.
    let grant = tokio::select! {
        grants = noisy_grants => grants[0].clone(),
        grants = quiet_grants => grants[0].clone(),
    };
    assert_eq!(grant.job_id, job);
    const REPORTS: usize = 12_000;
    for _ in 0..4 {
        noisy.report(&grant, std::iter::repeat_n(reaped(), REPORTS / 4)).await;
    }
    let begun = served.steady();
    quiet.heartbeat(Vec::new()).await;
    quiet.find(|message| matches!(message.body, Some(Body::Renewed(_))).then_some(())).await;
    let took = served.steady() - begun;
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert_eq!(noisy.answers(REPORTS).await.len(), REPORTS, "none is lost");
    served.end().await;
}

#[tokio::test]
async fn a_node_that_does_not_read_gets_no_grants_until_it_does() {
    let served = Served::in_memory().await;
    let (mut node, _) = Node::join(served.grpc(), hello("n1", 1)).await;
    // Each heartbeat lists leases that do not exist, so that each is answered at length.
    let unknown = |token| HeldLease { job_id: UNKNOWN.to_owned(), token, ..HeldLease::default() };
    let listed: Vec<_> =
        (1..=200).map(|token| HeldLease { phase: LeasePhase::Started.into(), ..unknown(token) }).collect();
    for _ in 0..500 {
        node.heartbeat(listed.clone()).await;
    }
    let job = served.enqueue(spec("page", b"x")).await;
    served.until_deferred(&job, "unanswered").await;
    let grant = node.grant().await; // read after everything before it
    assert_eq!(grant.job_id, job);
    served.end().await;
}

#[tokio::test]
async fn a_shutdown_closes_sessions_and_leaves_the_jobs_to_their_agents() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::on_disk(directory.path()).await;
    let (mut node, _) = Node::join(served.grpc(), hello("n1", 1)).await;
    let job = served.enqueue(spec("page", b"x")).await;
    let grant = node.grant().await;
    node.report(&grant, [accepted(), started()]).await;
    served.shutdown.cancel();
    assert_eq!(node.ended().await.code(), Code::Unavailable);
    tokio::time::timeout(SOON, served.end()).await.expect("it ends in time");

    let served = Served::on_disk_again(directory.path()).await;
    let again = tenure_proto::node::v1::Hello {
        stream: 2,
        held: vec![held(&grant, LeasePhase::Started)],
        ..hello("n1", 1)
    };
    let (mut node, welcome) = Node::join(served.grpc(), again).await;
    assert_eq!(welcome.renewed.len(), 1);
    node.report(&grant, [finished(FinishedOutcome::Succeeded, None), reaped()]).await;
    node.answers(2).await;
    assert_eq!(served.job(&job).await.state(), JobState::Succeeded);
    served.end().await;
}

#[tokio::test]
async fn a_second_server_on_the_same_data_is_refused_with_a_sentence() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::on_disk(directory.path()).await;
    let refused = Served::try_on_disk(directory.path()).await.unwrap_err();
    let text = tenure_server::chain::Chain(&refused).to_string();
    assert!(text.contains("in use"), "{text}");
    assert!(!FLEET.is_empty());
    served.end().await;
}
