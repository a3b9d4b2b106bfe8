//! What nodes claim of higher epochs.

use tenure_scheduler::{Command, Hello, NodeName, SessionId};
use tenure_store::{election::Trust, memory::Memory};
use tokio::time::timeout;

use super::{
    SOON,
    rig::{Driven, enqueue, hello},
};
use crate::{
    handle::SubmitError,
    sessions::{Carried, FromNode, Peer},
};

impl Driven {
    /// A node says that it saw an epoch one above the present, and is not welcomed.
    async fn claim(&self, node: &str, session: u64) {
        let node = NodeName::new(node);
        let (peer, mut messages) = Peer::of_test(&node);
        let session = SessionId(session);
        let max_epoch_seen = self.handle.info().epoch + 1;
        let command = Command::Hello(Box::new(Hello { max_epoch_seen, ..hello(&node, session) }));
        let said =
            FromNode { session, command, carried: Carried::default(), attach: Some(peer), credit: None };
        self.nodes.send(said).await.unwrap();
        let told = timeout(SOON, messages.recv()).await.expect("its session ends");
        assert!(told.is_none(), "no Welcome: {told:?}");
    }

    /// Waits until it leads with this epoch.
    async fn leads_with(&self, epoch: u64) {
        let wait = async {
            while self.handle.info().epoch != epoch || !self.handle.info().leading {
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            }
        };
        timeout(SOON, wait).await.expect("it leads with that epoch in time");
    }
}

#[tokio::test]
async fn a_node_that_claims_a_higher_epoch_again_and_again_is_refused() {
    let store = Memory::new();
    let driven = Driven::start(store.journal(), store.reader(), Trust::always()).await;
    let first = driven.handle.info();
    for session in 1..=3 {
        driven.claim("liar", session).await;
        driven.leads_with(first.epoch + 2 * session).await; // one above what it saw
    }
    for session in 4..=9 {
        driven.claim("liar", session).await;
    }
    // Whatever those had led to would have been before the answer to this.
    let known = driven.handle.submit(enqueue(1, "unknown")).await;
    assert!(matches!(known, Err(SubmitError::Refused(_))), "{known:?}");
    assert_eq!(driven.handle.info().epoch, first.epoch + 6);
    assert_eq!(driven.handle.info().reloads, first.reloads + 3);
    driven.claim("honest", 10).await;
    driven.leads_with(first.epoch + 8).await;

    let Driven { shutdown, mut tasks, .. } = driven;
    shutdown.cancel();
    timeout(SOON, tasks.join_next()).await.unwrap().unwrap().unwrap().unwrap();
}
