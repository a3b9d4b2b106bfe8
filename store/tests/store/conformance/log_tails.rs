//! The ends of logs: kept by execution, any bytes, gone with their job.

use bytes::Bytes;
use tenure_scheduler::{Changes, JobChange, Wall};
use tenure_store::{Beside, Journal as _, LogEnd, LogTail};

use crate::{
    samples::{id, job, token},
    stores::{Led, TestStore, bytes_for},
};

fn tail(total: u64, stdout: &'static [u8], stderr: &'static [u8]) -> LogTail {
    let end = |data: &'static [u8]| LogEnd { total, data: Bytes::from_static(data) };
    LogTail { stdout: end(stdout), stderr: end(stderr), created_at: Wall(7) }
}

async fn commit<S: TestStore>(led: &mut Led<S>, changes: &Changes, tails: &[(u64, u64, LogTail)]) {
    let mut beside: Beside = bytes_for(changes);
    for (of, under, tail) in tails {
        beside.log_tails.insert((id(*of), token(*under)), tail.clone());
    }
    let epoch = led.epoch;
    led.store.journal().commit(epoch, changes, &beside).await.unwrap();
}

/// Two executions of a job and one of another, empty and odd bytes, a second word about one, and the ends of their jobs.
pub(crate) async fn ends_of_logs_are_kept_by_execution_and_go_with_their_job<S: TestStore>() {
    let mut led = Led::<S>::new().await;
    led.insert(&[&job(1), &job(2)]).await;
    let first = tail(9_000, b"\x00\xff\x1b[2J", b"");
    let second = tail(0, b"", b"");
    let other = tail(u64::try_from(i64::MAX).unwrap(), b"x", b"boom\n");
    let tails = [(1, 1, first.clone()), (1, 2, second.clone()), (2, 3, other.clone())];
    commit(&mut led, &Changes::default(), &tails).await;
    let reader = led.store.reader().clone();
    assert_eq!(reader.log_tail(id(1), token(1)).await.unwrap(), Some(first));
    assert_eq!(reader.log_tail(id(1), token(2)).await.unwrap(), Some(second));
    assert_eq!(reader.log_tail(id(2), token(3)).await.unwrap(), Some(other));
    assert_eq!(reader.log_tail(id(2), token(1)).await.unwrap(), None);

    let again = tail(9_001, b"more", b"and more");
    commit(&mut led, &Changes::default(), &[(1, 1, again.clone())]).await;
    assert_eq!(reader.log_tail(id(1), token(1)).await.unwrap(), Some(again.clone()));

    // A job that goes in the same turn takes along what has just come.
    let gone = Changes { jobs: vec![JobChange::Delete(id(1))], ..Changes::default() };
    commit(&mut led, &gone, &[(1, 2, again)]).await;
    for n in [1, 2] {
        assert_eq!(reader.log_tail(id(1), token(n)).await.unwrap(), None);
    }
    led.insert(&[&job(1)]).await;
    assert_eq!(reader.log_tail(id(1), token(1)).await.unwrap(), None, "a new job has nothing of it");
    assert!(reader.log_tail(id(2), token(3)).await.unwrap().is_some());
}
