//! What nobody waits for has its turn, however many producers are at it.

use futures_util::FutureExt;
use tenure_scheduler::{Command, Reply};
use tokio::time::timeout;

use super::{
    SOON,
    rig::{Rig, enqueue},
};
use crate::handle::{MOST_CALLS, SubmitError};

#[tokio::test]
async fn what_waits_for_its_place_is_not_sent_away_from_a_full_inbox() {
    let rig = Rig::start().await;
    rig.store.hold_commits(true);
    let first = rig.submit(enqueue(1, "a"));
    rig.store_waits_for(1).await;
    let full: Vec<_> = (2..).map_while(|n| rig.handle.submit_now(enqueue(n, "a")).ok()).collect();
    assert!(full.len() >= MOST_CALLS, "{} calls are taken", full.len());
    assert!(matches!(rig.handle.submit(enqueue(9, "a")).await, Err(SubmitError::Busy { .. })));
    let mut settled = Box::pin(rig.handle.submit_in_turn(Command::SettleDeliveries { tried: Vec::new() }));
    assert!(settled.as_mut().now_or_never().is_none(), "it waits");
    rig.store.hold_commits(false);
    let reply = timeout(SOON, settled).await.expect("it has its turn");
    assert!(matches!(reply, Ok(Reply::Settled)), "{reply:?}");
    for answer in full.into_iter().chain([first]) {
        rig.answer(answer).await.unwrap();
    }
    rig.end().await;
}
