//! A whole fleet that comes back at once: it is welcomed in parts, and nobody waits in vain.

use std::collections::BTreeSet;

use tenure_proto::node::v1::{node_message, server_message::Body};
use tenure_store::memory::{Fault, Memory};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::node::{Node, hello};
use crate::reason;
use crate::served::Served;

/// Hellos that wait for the driver at once.
const ROOM: usize = 256;

async fn say_hello(served: &Served, number: usize) -> Node {
    let mut node = Node::open(served.grpc()).await;
    node.say(node_message::Body::Hello(hello(&format!("n{number}"), 1))).await;
    node
}

fn delay(status: &Status) -> u128 {
    let retry = status.get_details_retry_info().and_then(|info| info.retry_delay);
    retry.expect("it says when to come back").as_millis()
}

#[tokio::test(flavor = "multi_thread")]
async fn hellos_beyond_the_room_are_turned_away_with_delays_of_their_own_and_all_attach() {
    let store = Memory::new();
    let served = Served::on(store.clone()).await;
    store.hold_commits(true);
    let mut waiting = Vec::new();
    for number in 0..ROOM {
        waiting.push(say_hello(&served, number).await);
    }
    // The room is taken once all of them were read.
    let mut delays = BTreeSet::new();
    let mut beyond = ROOM;
    while delays.len() < 20 {
        match say_hello(&served, beyond).await.next().await {
            Ok(message) => panic!("nobody is welcomed before the commit: {message:?}"),
            Err(status) => {
                assert_eq!((status.code(), reason(&status).as_str()), (Code::Unavailable, "SERVER_BUSY"));
                assert!((100..5_200).contains(&delay(&status)), "{status:?}");
                delays.insert(delay(&status));
            }
        }
        beyond += 1;
    }
    store.hold_commits(false);
    for node in &mut waiting {
        let welcome = node.next().await.expect("a welcome");
        assert!(matches!(welcome.body, Some(Body::Welcome(_))), "{welcome:?}");
    }
    let mut late = Vec::new();
    for number in ROOM..beyond {
        late.push(Node::join(served.grpc(), hello(&format!("n{number}"), 1)).await);
    }
    served.until_sessions(beyond as u64).await;
    drop((waiting, late));
    served.until_sessions(0).await;
    served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_end_together_are_told_to_come_back_one_after_the_other() {
    let store = Memory::new();
    let served = Served::on(store.clone()).await;
    let mut nodes = Vec::new();
    for number in 0..30 {
        nodes.push(Node::join(served.grpc(), hello(&format!("n{number}"), 1)).await.0);
    }
    store.fail_next_commit(Fault::UnknownLost);
    served.try_enqueue(crate::served::spec("page", b"")).await.expect_err("its commit failed");
    let mut delays = BTreeSet::new();
    for node in &mut nodes {
        let status = node.next().await.expect_err("the state is gone");
        assert_eq!(reason(&status), "STORE_UNAVAILABLE");
        assert!((100..=500).contains(&delay(&status)), "{status:?}");
        delays.insert(delay(&status));
    }
    assert!(delays.len() > 20, "{delays:?}");
    served.end().await;
}
