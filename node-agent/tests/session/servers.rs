//! Several servers: one leads, the others say where it is.

use std::net::SocketAddr;
use std::time::Duration;

use tenure_proto::node::v1::{Grant, LeasePhase};

use crate::fake::{Fake, grant, seconds};
use crate::{NODE, Node, start_among, token};
use tenure_node_agent::Stop;
use tenure_node_agent::clock::Clock;

async fn start(servers: &[SocketAddr]) -> Node {
    start_among(tempfile::tempdir().unwrap(), servers, NODE).await
}

/// An address where nobody listens.
async fn nobody() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_knows_a_follower_alone_ends_at_the_leader() {
    let (mut follower, mut leader) = (Fake::start().await, Fake::start().await);
    let node = start(&[follower.address]).await;
    let (stream, first) = follower.stream().await;
    stream.follow(Some(&leader.address.to_string()), Some(Duration::from_secs(20))).await;
    let (mut stream, second) = leader.session().await;
    assert_eq!((first.stream, second.stream), (1, 2), "a redirect is another stream of the same agent");
    stream.grant(grant("job-a", 1, "echo")).await;
    stream.until(token(1), "reaped").await;
    node.stop(Stop::Drain).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_name_each_other_are_left_after_three_hops() {
    let (mut one, mut other, mut leader) = (Fake::start().await, Fake::start().await, Fake::start().await);
    let node = start(&[one.address, leader.address]).await;
    let (to_one, to_other) = (one.address.to_string(), other.address.to_string());
    // The file's, then three hops.
    one.stream().await.0.follow(Some(&to_other), None).await;
    other.stream().await.0.follow(Some(&to_one), None).await;
    one.stream().await.0.follow(Some(&to_other), None).await;
    other.stream().await.0.follow(Some(&to_one), None).await;
    let (stream, hello) = leader.session().await;
    assert_eq!(hello.stream, 5, "the next of the file is asked");
    drop(stream);
    node.stop(Stop::AtOnce).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_held_follows_the_leader_and_servers_that_are_gone_are_passed_over() {
    let (mut old, mut new) = (Fake::start().await, Fake::start().await);
    let node = start(&[nobody().await, old.address, new.address]).await;
    let (mut stream, _) = old.session().await;
    let gated = node.gated(1);
    stream.grant(gated).await;
    stream.until_listed(token(1), LeasePhase::Started).await;
    drop(stream);
    drop(old);
    let (mut stream, hello) = new.session().await;
    assert_eq!(hello.held.iter().map(|held| held.token).collect::<Vec<_>>(), [token(1)]);
    node.open_gate();
    stream.until(token(1), "reaped").await;
    node.stop(Stop::Drain).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_comes_back_when_the_server_wants_it_and_not_later_than_its_leases_allow() {
    let mut server = Fake::start().await;
    let node = start(&[server.address]).await;
    let (stream, _) = server.session().await;
    let asked = Duration::from_millis(900);
    stream.follow(None, Some(asked)).await;
    let begun = Clock::Boottime.now();
    let (mut stream, _) = server.session().await;
    assert!(Clock::Boottime.now().since(begun) >= asked, "after {:?}", Clock::Boottime.now().since(begun));

    // A quarter of a lease of 12 s is nearer than what is asked for.
    stream.renew = Duration::from_secs(12);
    let gated = node.gated(1);
    stream.grant(Grant { lease: seconds(12), ..gated }).await;
    stream.until_listed(token(1), LeasePhase::Started).await;
    stream.follow(None, Some(Duration::from_secs(20))).await;
    let begun = Clock::Boottime.now();
    let (mut stream, _) = server.session().await;
    assert!(
        Clock::Boottime.now().since(begun) < Duration::from_secs(5),
        "after {:?}",
        Clock::Boottime.now().since(begun)
    );
    node.open_gate();
    stream.until(token(1), "reaped").await;
    node.stop(Stop::Drain).await;
}
