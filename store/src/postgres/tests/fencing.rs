//! What keeps a deposed leader out, and what a takeover waits for.

use std::{task::Poll, time::Duration};

use sqlx::Executor;
use tenure_scheduler::{Changes, Epoch};

use super::{super::journal::EPOCH_CHECK, Store, open, sql};
use crate::{Beside, Journal, journal::Error};

#[tokio::test]
async fn the_newest_start_takes_over_and_the_older_server_stays_deposed() {
    let mut store = Store::new().await;
    let first = store.journal.takeover(Epoch(0)).await.unwrap();
    let (mut newer, _) = open(&store.options).await.unwrap();
    let second = newer.takeover(Epoch(7)).await.unwrap();
    assert_eq!((first.epoch, second.epoch), (Epoch(1), Epoch(8)));
    let (nothing, beside) = (Changes::default(), Beside::default());
    let commit = store.journal.commit(first.epoch, &nothing, &beside).await;
    assert!(matches!(commit, Err(Error::Deposed { epoch: Epoch(1) })), "{commit:?}");
    // It takes over from itself only.
    let again = store.journal.takeover(Epoch(0)).await;
    assert!(matches!(again, Err(Error::Deposed { .. })), "{again:?}");
    newer.commit(second.epoch, &nothing, &beside).await.unwrap();
}

#[tokio::test]
async fn a_leader_frozen_inside_a_commit_is_cut_off() {
    let mut store = Store::new().await;
    let taken = store.journal.takeover(Epoch(0)).await.unwrap();
    // What the leader's commit connection looks like while its process is stopped, its idle limit not over yet.
    let mut frozen = store.hand().await;
    frozen.execute("set application_name = 'tenure-leader-1'; begin").await.unwrap();
    frozen.execute(sql(EPOCH_CHECK.replace("$1", "1"))).await.unwrap();
    let (mut newer, _) = open(&store.options).await.unwrap();
    let second =
        tokio::time::timeout(Duration::from_secs(5), newer.takeover(Epoch(0))).await.unwrap().unwrap();
    assert_eq!((taken.epoch, second.epoch), (Epoch(1), Epoch(2)));
    assert!(frozen.execute("commit").await.is_err(), "its connection is gone");
}

#[tokio::test]
async fn a_takeover_from_oneself_waits_for_a_commit_that_was_given_up() {
    let mut store = Store::new().await;
    let taken = store.journal.takeover(Epoch(0)).await.unwrap();
    let (nothing, beside) = (Changes::default(), Beside::default());
    // It cannot get past its first statement, however fast the database is.
    let mut lock = store.hand().await;
    lock.execute("begin; select 1 from leader_fence for update").await.unwrap();
    {
        let mut commit = Box::pin(store.journal.commit(taken.epoch, &nothing, &beside));
        // Polled once: that statement is on its way, and no clock decides how far it gets.
        let given_up = std::future::poll_fn(|context| Poll::Ready(commit.as_mut().poll(context))).await;
        assert!(given_up.is_pending(), "a commit takes a round trip");
    }
    lock.execute("rollback").await.unwrap();
    let after = store.journal.commit(taken.epoch, &nothing, &beside).await;
    assert!(matches!(after, Err(Error::Unavailable { .. })), "only a takeover helps: {after:?}");
    let again = store.journal.takeover(Epoch(0)).await.unwrap();
    store.journal.commit(again.epoch, &nothing, &beside).await.unwrap();
}
