//! Results that are larger than a report holds, on their way to the server.

use std::time::Duration;

use tenure_node_agent::Stop;
use tenure_proto::node::v1::{
    Drain, Grant, LeasePhase, Revoke, RevokeReason, RevokedLease, server_message::Body,
};

use crate::fake::{Fake, Stream, Upload, span, within};
use crate::{NODE, Node, pause, start, start_in, start_with, token};

/// What the server takes.
const MOST: u64 = 1 << 20;
/// What the command leaves.
const SIZE: u64 = 300_000;

/// A grant whose command leaves a large result once a file exists.
fn large(node: &Node, number: u64) -> Grant {
    Grant { kind: "gate_large".to_owned(), ..node.gated(number) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_was_left_before_the_first_welcome_waits_for_what_the_server_takes() {
    let mut server = Fake::start().await;
    let node = start(&server).await;
    let (mut stream, hello) = server.stream().await;
    stream.welcome_with(&hello, MOST).await;
    stream.grant(large(&node, 1)).await;
    stream.until(token(1), "started").await;
    let Node { home, running } = node;
    drop((running, stream));

    // Nobody welcomes the next agent while its command ends.
    let node = start_in(home, &server).await;
    node.open_gate();
    let exit = node.path("state/attempts").join(token(1).to_string()).join("exit");
    within(async {
        while !exit.exists() {
            pause().await;
        }
    })
    .await;
    let mut asked = 0;
    let (mut stream, hello) = loop {
        let (stream, hello) = server.stream().await;
        asked += u32::from(hello.incarnation == 2);
        if asked == 4 {
            break (stream, hello);
        }
    };
    assert!(hello.unstored.is_empty(), "{:?}", hello.unstored);
    assert_eq!(hello.held.first().map(|lease| lease.phase()), Some(LeasePhase::Started));
    stream.welcome_with(&hello, MOST).await;
    let upload = within(server.uploads.recv()).await.expect("the server lives");
    assert_eq!(upload.size, SIZE);
    upload.stored.send(()).expect("the node waits");
    assert_eq!(stream.until(token(1), "reaped").await, ["finished succeeded exit", "reaped"]);
    node.stop(Stop::Drain).await;
}

/// Waits for the upload of an attempt that has left its result.
async fn under_way(server: &mut Fake, node: &Node) -> (Stream, Upload) {
    let (mut stream, hello) = server.stream().await;
    stream.welcome_with(&hello, MOST).await;
    stream.grant(large(node, 1)).await;
    stream.until(token(1), "started").await;
    node.open_gate();
    let upload = within(server.uploads.recv()).await.expect("the server lives");
    (stream, upload)
}

/// An agent that finds a large result of a command which has ended while there was none, and sends it.
async fn left_over(server: &mut Fake) -> (Node, Stream, Upload) {
    let node = start(server).await;
    let (mut stream, hello) = server.stream().await;
    stream.welcome_with(&hello, MOST).await;
    stream.grant(large(&node, 1)).await;
    stream.until(token(1), "started").await;
    let Node { home, running } = node;
    drop((running, stream));
    let attempt = home.path().join("state/attempts").join(token(1).to_string());
    std::fs::write(home.path().join("gate"), "").unwrap();
    within(async {
        while !attempt.join("exit").exists() {
            pause().await;
        }
    })
    .await;
    let node = start_in(home, server).await;
    let (mut stream, hello) = server.stream().await;
    stream.welcome_with(&hello, MOST).await;
    let upload = within(server.uploads.recv()).await.expect("the server lives");
    (node, stream, upload)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_to_stop_is_heard_by_a_result_that_an_earlier_agent_left() {
    let mut server = Fake::start().await;
    let (node, mut stream, mut upload) = left_over(&mut server).await;
    let lease = RevokedLease { token: token(1), reason: RevokeReason::Cancelled.into() };
    stream.send(Body::Revoke(Revoke { leases: vec![lease] })).await;
    assert_eq!(stream.until(token(1), "reaped").await, ["finished revoked revoked", "reaped"]);
    within(upload.stored.closed()).await;
    node.until_entries("attempts", &[]).await;
    node.stop(Stop::AtOnce).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_to_end_does_not_wait_for_a_result_that_an_earlier_one_left() {
    let mut server = Fake::start().await;
    let (node, _stream, mut upload) = left_over(&mut server).await;
    node.stop(Stop::AtOnce).await;
    within(upload.stored.closed()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_drains_brings_a_result_to_the_server_within_its_grace() {
    let mut server = Fake::start().await;
    let node = start_with(tempfile::tempdir().unwrap(), &server, &NODE.replace("\"1s\"", "\"10m\"")).await;
    let (mut stream, upload) = under_way(&mut server, &node).await;
    stream.send(Body::Drain(Drain { deadline: span(Duration::ZERO) })).await;
    stream.until_listed(token(1), LeasePhase::Stopping).await;
    upload.stored.send(()).expect("the node waits");
    assert_eq!(stream.until(token(1), "reaped").await, ["finished succeeded exit", "reaped"]);
    node.stop(Stop::AtOnce).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_the_server_did_not_take_within_the_grace_of_a_drain_costs_no_attempt() {
    let mut server = Fake::start().await;
    let node = start(&server).await;
    let (mut stream, mut upload) = under_way(&mut server, &node).await;
    stream.send(Body::Drain(Drain { deadline: span(Duration::ZERO) })).await;
    assert_eq!(stream.until(token(1), "returned").await, ["returned draining started=true"]);
    within(upload.stored.closed()).await;
    node.until_entries("attempts", &[]).await;
    node.stop(Stop::AtOnce).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_cancelled_while_its_result_is_sent_is_revoked() {
    let mut server = Fake::start().await;
    let node = start(&server).await;
    let (mut stream, mut upload) = under_way(&mut server, &node).await;
    let lease = RevokedLease { token: token(1), reason: RevokeReason::Cancelled.into() };
    stream.send(Body::Revoke(Revoke { leases: vec![lease] })).await;
    assert_eq!(stream.until(token(1), "reaped").await, ["finished revoked revoked", "reaped"]);
    within(upload.stored.closed()).await;
    node.stop(Stop::AtOnce).await;
}
