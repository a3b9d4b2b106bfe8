//! The loop over the store in memory, which can be told to fail.

mod aside;
mod epochs;
mod guard;
mod in_turn;
mod rig;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tenure_scheduler::{Command, DedupeKey, Enqueue, JobState, Refusal, Reply, Tenant};
use tenure_store::{
    election::{Steady, Trust},
    memory::{Fault, Memory},
};
use tokio::time::timeout;

use self::rig::{Rig, enqueue, job_id};
use crate::handle::{Submission, SubmitError};

/// No test waits longer for anything.
const SOON: Duration = Duration::from_secs(20);

#[tokio::test]
async fn an_enqueue_is_answered_after_its_commit_and_not_before() {
    let rig = Rig::start().await;
    rig.store.hold_commits(true);
    let mut answer = rig.submit(enqueue(1, "held"));
    rig.store_waits_for(1).await;
    assert!(answer.try_recv().is_err(), "nothing leaves before the commit");
    rig.store.hold_commits(false);
    let reply = rig.answer(answer).await.unwrap();
    assert!(matches!(reply, Reply::Enqueued { deduplicated: false, job } if job.id == job_id(1)));
    rig.end().await;
}

#[tokio::test]
async fn what_arrives_during_a_commit_becomes_one_turn() {
    let rig = Rig::start().await;
    let before = rig.store.commits();
    rig.store.hold_commits(true);
    let mut answers = vec![rig.submit(enqueue(1, "a"))];
    rig.store_waits_for(1).await;
    answers.extend((2..100).map(|n| rig.submit(enqueue(n, "a"))));
    rig.store.hold_commits(false);
    for answer in answers {
        rig.answer(answer).await.unwrap();
    }
    assert_eq!(rig.store.commits() - before, 2, "one for the first, one for all that came meanwhile");
    rig.end().await;
}

#[tokio::test]
async fn a_batch_is_answered_item_by_item() {
    let rig = Rig::start().await;
    let mut items: Vec<_> = (1..=3).map(|n| enqueue(n, "a")).collect();
    items.push(enqueue(4, "unheard-of"));
    items.push(enqueue(1, "a"));
    let replies = rig.handle.submit_batch(items).await.unwrap();
    assert!(
        replies[..3].iter().all(|reply| matches!(reply, Ok(Reply::Enqueued { deduplicated: false, .. })))
    );
    assert!(matches!(replies[3], Err(SubmitError::Refused(Refusal::KindNotFound { .. }))));
    assert!(
        matches!(&replies[4], Ok(Reply::Enqueued { job, .. }) if job.id == job_id(1)),
        "a replay in one turn"
    );
    rig.end().await;
}

#[tokio::test]
async fn a_commit_that_did_not_happen_is_a_reload_and_a_repeated_call_is_stored_once() {
    let rig = Rig::start().await;
    let epoch = rig.handle.info().epoch;
    rig.store.fail_next_commit(Fault::UnknownLost);
    let reply = rig.handle.submit(enqueue(1, "a")).await;
    assert!(matches!(reply, Err(SubmitError::StoreUnavailable { .. })), "{reply:?}");
    assert!(rig.handle.submit(enqueue(1, "a")).await.is_ok());
    let info = rig.handle.info();
    assert_eq!((info.epoch, info.reloads, info.leading), (epoch + 1, 1, true));
    rig.end().await;
}

#[tokio::test]
async fn a_commit_of_unknown_outcome_that_happened_is_found_by_the_repeated_call() {
    let rig = Rig::start().await;
    rig.store.fail_next_commit(Fault::UnknownApplied);
    assert!(matches!(rig.handle.submit(enqueue(1, "a")).await, Err(SubmitError::StoreUnavailable { .. })));
    let Reply::Enqueued { job, .. } = rig.handle.submit(enqueue(1, "a")).await.unwrap() else { panic!() };
    assert_eq!(job.id, job_id(1));
    let stored = rig.handle.reader().payloads(&[job_id(1)]).await.unwrap();
    assert_eq!(stored[&job_id(1)].data, "1");
    rig.end().await;
}

/// A store whose leaders trust themselves by renewals, on a clock that the test sets, in ms.
fn where_others_may_lead() -> (Memory, Trust, Arc<AtomicU64>) {
    let now = Arc::new(AtomicU64::new(0));
    let read = Arc::clone(&now);
    let steady = Steady::new(move || Duration::from_millis(read.load(Ordering::SeqCst)));
    let (store, trust) = (Memory::new(), Trust::by_renewals(steady));
    trust.renewed(Duration::ZERO);
    store.let_trust(trust.clone());
    (store, trust, now)
}

#[tokio::test]
async fn a_leader_that_nothing_vouches_for_says_nothing_until_it_took_over_from_itself() {
    let (store, trust, now) = where_others_may_lead();
    let rig = Rig::start_on(store).await;
    now.store(2400, Ordering::SeqCst);
    // A turn without a change: no commit would find out.
    let mut answer = rig.submit(enqueue(1, "unheard-of"));
    rig.until(|| rig.handle.info().reloads > 0).await;
    let told = answer.try_recv();
    assert!(!matches!(told, Ok(Err(SubmitError::Refused(_)))), "it spoke as a leader: {told:?}");
    trust.renewed(Duration::from_millis(2400));
    assert!(matches!(rig.handle.submit(enqueue(2, "unheard-of")).await, Err(SubmitError::Refused(_))));
    rig.handle.submit(enqueue(3, "a")).await.unwrap();
    rig.end().await;
}

#[tokio::test]
async fn a_lookup_that_hangs_does_not_outlast_the_trust_nor_the_term() {
    let (store, trust, now) = where_others_may_lead();
    let rig = Rig::start_on(store).await;
    now.store(2390, Ordering::SeqCst); // the driver glances every 10 ms
    rig.store.hold_lookups(true);
    let waits = rig.submit(enqueue(1, "a"));
    rig.store_waits_for(1).await;
    now.store(2400, Ordering::SeqCst);
    let reloads = rig.until(|| rig.handle.info().reloads > 0);
    timeout(Duration::from_secs(2), reloads).await.expect("less than a slow lookup is waited for");
    trust.renewed(Duration::from_millis(2400));
    rig.leads().await;
    rig.store_waits_for(1).await;
    rig.lost.cancel();
    let ended = timeout(Duration::from_secs(2), rig.ended()).await.expect("nor when another leads");
    assert!(matches!(ended, Err(super::Error::Deposed(_))), "{ended:?}");
    assert!(!matches!(waits.await, Ok(Ok(_))), "it was not applied");
}

#[tokio::test]
async fn what_a_commit_vouches_for_is_answered_by_a_leader_that_was_frozen_meanwhile() {
    let (store, trust, now) = where_others_may_lead();
    let rig = Rig::start_on(store).await;
    rig.store.hold_commits(true);
    let answer = rig.submit(enqueue(1, "held"));
    rig.store_waits_for(1).await;
    now.store(60_000, Ordering::SeqCst);
    rig.store.hold_commits(false);
    let reply = rig.answer(answer).await.unwrap();
    assert!(matches!(reply, Reply::Enqueued { deduplicated: false, .. }));
    rig.until(|| rig.handle.info().reloads > 0).await;
    trust.renewed(Duration::from_millis(60_000));
    rig.leads().await;
    let replay = rig.handle.submit(enqueue(1, "held")).await.unwrap();
    assert!(matches!(replay, Reply::Enqueued { deduplicated: true, .. }), "{replay:?}");
    rig.end().await;
}

#[tokio::test]
async fn a_deposed_driver_ends_at_once_also_inside_a_commit() {
    let rig = Rig::start().await;
    rig.store.hold_commits(true);
    let answer = rig.submit(enqueue(1, "a"));
    rig.store_waits_for(1).await;
    rig.lost.cancel();
    assert!(matches!(rig.answer(answer).await, Err(SubmitError::StoreUnavailable { .. })));
    assert!(matches!(rig.ended().await, Err(super::Error::Deposed(_))));
}

#[tokio::test]
async fn a_deposed_driver_ends_at_once_also_inside_a_takeover() {
    let rig = Rig::start().await;
    rig.store.set_away(true);
    assert!(matches!(rig.handle.submit(enqueue(1, "a")).await, Err(SubmitError::StoreUnavailable { .. })));
    rig.until(|| !rig.handle.info().leading).await;
    rig.lost.cancel();
    assert!(matches!(rig.ended().await, Err(super::Error::Deposed(_))));
}

#[tokio::test]
async fn a_constraint_that_fires_is_told_as_a_fault_and_stops_nobody_else() {
    let rig = Rig::start().await;
    rig.store.fail_next_commit(Fault::Constraint("jobs_dedupe_held"));
    assert!(matches!(rig.handle.submit(enqueue(1, "a")).await, Err(SubmitError::Broken)));
    for n in 2..20 {
        rig.handle.submit(enqueue(n, "a")).await.unwrap();
    }
    assert_eq!(rig.handle.info().reloads, 1);
    rig.end().await;
}

#[tokio::test]
async fn a_row_of_the_inbox_is_not_blamed_for_what_its_neighbours_in_a_turn_may_have_done() {
    let rig = Rig::start().await;
    rig.store.fail_next_commit(Fault::Constraint("jobs_dedupe_held"));
    let neighbour = rig.submit(enqueue(1, "a"));
    let replies = rig.handle.submit_rows(vec![(1, enqueue(2, "a"))]).await.unwrap();
    assert!(matches!(replies[..], [Err(SubmitError::StoreUnavailable { .. })]), "{replies:?}");
    assert!(matches!(rig.answer(neighbour).await, Err(SubmitError::Broken)));
    assert_eq!(rig.handle.info().reloads, 1, "they shared the turn");

    let replies = rig.handle.submit_rows(vec![(1, enqueue(2, "a"))]).await.unwrap();
    assert!(matches!(&replies[..], [Ok(Reply::Enqueued { deduplicated: false, .. })]), "{replies:?}");
    // What fails alone is what is broken.
    rig.store.fail_next_commit(Fault::Constraint("jobs_dedupe_held"));
    let replies = rig.handle.submit_rows(vec![(2, enqueue(3, "a"))]).await.unwrap();
    assert!(matches!(replies[..], [Err(SubmitError::Broken)]), "{replies:?}");
    rig.end().await;
}

#[tokio::test]
async fn after_a_constraint_one_command_is_taken_at_a_time() {
    let rig = Rig::start().await;
    rig.store.fail_next_commit(Fault::Constraint("jobs_dedupe_held"));
    assert!(matches!(rig.handle.submit(enqueue(1, "a")).await, Err(SubmitError::Broken)));
    let before = rig.store.commits();
    let items = (2..12).map(|n| enqueue(n, "a")).collect();
    let replies = rig.handle.submit_batch(items).await.unwrap();
    assert!(replies.iter().all(Result::is_ok));
    assert!(rig.store.commits() - before >= 10, "each was committed alone");
    rig.end().await;
}

/// A server whose job 2 was set aside: its timer could not be stored.
async fn job_two_set_aside() -> Rig {
    let rig = Rig::start().await;
    rig.store.fail_next_commit(Fault::Constraint("jobs_dedupe_held"));
    assert!(matches!(rig.handle.submit(enqueue(1, "a")).await, Err(SubmitError::Broken)));
    set_aside(&rig, 2).await;
    assert_eq!(rig.handle.info().reloads, 2);
    rig
}

/// Lets the timer of a new job meet a constraint.
async fn set_aside(rig: &Rig, n: u128) {
    let reloads = rig.handle.info().reloads;
    let mut later = enqueue(n, "a");
    if let Command::Enqueue(enqueue) = &mut later.command {
        enqueue.delay = Some(Duration::from_millis(300));
    }
    rig.handle.submit(later).await.unwrap();
    rig.store.fail_next_commit(Fault::Constraint("jobs_dedupe_held"));
    rig.until(|| rig.handle.info().reloads > reloads).await;
    until_aside(rig, n).await;
}

/// What a job waits for.
async fn reason(rig: &Rig, n: u128) -> Option<&'static str> {
    let view = rig.handle.query(move |state, now| state.live_view(now, job_id(n))).await.unwrap();
    view.unwrap().deferral.map(|deferral| deferral.reason.name())
}

/// The first turn after a reload sets it aside; a query may be answered before that turn.
async fn until_aside(rig: &Rig, n: u128) {
    rig.leads().await;
    let aside = async {
        while reason(rig, n).await != Some("broken") {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), aside).await.unwrap();
}

fn requeue_job_two() -> Submission {
    rig::bare(Command::Requeue { job: job_id(2), force: false, prior: None, key_taken: false })
}

#[tokio::test]
async fn a_timer_that_cannot_be_stored_sets_its_job_aside_until_an_operator_looks() {
    let rig = job_two_set_aside().await;
    let Reply::Job { changed, .. } = rig.handle.submit(requeue_job_two()).await.unwrap() else { panic!() };
    assert!(changed);
    assert_ne!(reason(&rig, 2).await, Some("broken"));
    assert_eq!(rig.handle.info().reloads, 2, "nothing keeps a leader reloading");
    rig.end().await;
}

#[tokio::test]
async fn a_job_stays_aside_if_what_would_free_it_cannot_be_stored_either() {
    let rig = job_two_set_aside().await;
    rig.store.fail_next_commit(Fault::Constraint("jobs_dedupe_held"));
    assert!(matches!(rig.handle.submit(requeue_job_two()).await, Err(SubmitError::Broken)));
    rig.until(|| rig.handle.info().reloads == 3).await;
    until_aside(&rig, 2).await;
    let Reply::Job { changed, .. } = rig.handle.submit(requeue_job_two()).await.unwrap() else { panic!() };
    assert!(changed);
    assert_eq!(rig.handle.info().reloads, 3);
    rig.end().await;
}

/// The timers of both are due at once after a reload. One that fires between the two would fail again, for ever.
#[tokio::test]
async fn all_that_is_to_be_set_aside_is_before_a_timer_fires() {
    let rig = job_two_set_aside().await;
    set_aside(&rig, 3).await;
    rig.store.fail_next_commit(Fault::Constraint("jobs_dedupe_held"));
    assert!(matches!(rig.handle.submit(enqueue(4, "a")).await, Err(SubmitError::Broken)));
    rig.until(|| rig.handle.info().reloads == 4).await;
    for n in [2, 3] {
        until_aside(&rig, n).await;
        let state = rig.handle.query(move |state, _| state.job(job_id(n)).map(|job| job.state.name()));
        assert_eq!(state.await.unwrap(), Some("scheduled"), "the timer of job {n} has not fired");
    }
    rig.handle.submit(enqueue(5, "a")).await.unwrap();
    assert_eq!(rig.handle.info().reloads, 4, "nothing keeps a leader reloading");
    rig.end().await;
}

#[tokio::test]
async fn while_the_store_is_away_calls_and_questions_are_answered_soon() {
    let rig = Rig::start().await;
    rig.store.set_away(true);
    let mut slowest = Duration::ZERO;
    for n in 1..4 {
        let begun = rig.handle.clock().steady();
        let reply = rig.handle.submit(enqueue(n, "a")).await;
        assert!(matches!(reply, Err(SubmitError::StoreUnavailable { .. })), "{reply:?}");
        slowest = slowest.max(rig.handle.clock().steady() - begun);
    }
    assert!(slowest < Duration::from_millis(1200), "{slowest:?}");
    assert!(!rig.handle.info().leading);
    let asked = rig.handle.query(|state, _| state.epoch()).await;
    assert!(matches!(asked, Err(SubmitError::StoreUnavailable { .. })));
    rig.store.set_away(false);
    rig.leads().await;
    rig.handle.submit(enqueue(1, "a")).await.unwrap();
    rig.end().await;
}

#[tokio::test]
async fn a_call_whose_commit_hangs_is_answered_and_the_commit_goes_on() {
    let rig = Rig::start().await;
    rig.store.hold_commits(true);
    let begun = rig.handle.clock().steady();
    let reply = rig.handle.submit(enqueue(1, "a")).await;
    assert!(rig.handle.clock().steady() - begun < Duration::from_secs(4));
    assert!(matches!(reply, Err(SubmitError::StoreUnavailable { .. })), "{reply:?}");
    rig.store.hold_commits(false);
    let Reply::Enqueued { job, .. } = rig.handle.submit(enqueue(1, "a")).await.unwrap() else { panic!() };
    assert_eq!(job.version, 1, "it was stored by the first call");
    assert_eq!(rig.handle.info().reloads, 0);
    rig.end().await;
}

#[tokio::test]
async fn a_full_inbox_answers_busy_and_says_when_to_come_back() {
    let rig = Rig::start().await;
    rig.store.hold_commits(true);
    let mut waiting = Vec::new();
    let mut next = 1;
    let refused = loop {
        let items: Vec<_> = (next..next + 1000).map(|n| enqueue(n, "a")).collect();
        next += 1000;
        assert!(next < 20_000, "it is never full");
        let handle = rig.handle.clone();
        let mut batch = Box::pin(async move { handle.submit_batch(items).await });
        match futures_util::poll!(&mut batch) {
            std::task::Poll::Ready(Err(error)) => break error,
            std::task::Poll::Ready(Ok(_)) => panic!("answered before the commit"),
            std::task::Poll::Pending => waiting.push(batch),
        }
    };
    assert!(matches!(refused, SubmitError::Busy { retry_after } if !retry_after.is_zero()));
    rig.store.hold_commits(false);
    for batch in waiting {
        assert!(batch.await.unwrap().iter().all(Result::is_ok));
    }
    rig.end().await;
}

#[tokio::test]
async fn payload_bytes_in_the_inbox_are_bounded_too() {
    let rig = Rig::start().await;
    rig.store.hold_commits(true);
    let big = |n| {
        let mut submission = enqueue(n, "a");
        submission.payload =
            Some(tenure_store::Payload { data: vec![0; 256 * 1024].into(), content_type: String::new() });
        submission
    };
    let mut waiting = Vec::new();
    for n in 1..400 {
        let handle = rig.handle.clone();
        let mut call = Box::pin(async move { handle.submit(big(n)).await });
        if let std::task::Poll::Ready(answer) = futures_util::poll!(&mut call) {
            assert!(matches!(answer, Err(SubmitError::Busy { .. })), "{answer:?}");
            break;
        }
        waiting.push(call);
    }
    assert!((256..330).contains(&waiting.len()), "64 MiB, and what the turns have taken: {}", waiting.len());
    rig.store.hold_commits(false);
    rig.end().await;
}

#[tokio::test]
async fn a_shutdown_answers_what_is_in_the_inbox() {
    let rig = Rig::start().await;
    rig.store.hold_commits(true);
    let answers: Vec<_> = (1..200).map(|n| rig.submit(enqueue(n, "a"))).collect();
    rig.store_waits_for(1).await;
    rig.shutdown.cancel();
    rig.store.hold_commits(false);
    for answer in answers {
        rig.answer(answer).await.unwrap();
    }
    assert!(matches!(rig.handle.submit(enqueue(999, "a")).await, Err(SubmitError::ShuttingDown)));
    rig.end().await;
}

#[tokio::test]
async fn a_deposed_driver_ends_with_an_error() {
    let rig = Rig::start().await;
    rig.store.fail_next_commit(Fault::Deposed);
    assert!(matches!(rig.handle.submit(enqueue(1, "a")).await, Err(SubmitError::StoreUnavailable { .. })));
    assert!(matches!(rig.ended().await, Err(super::Error::Deposed(_))));
}

#[tokio::test]
async fn a_duplicate_brings_no_bytes_and_a_final_job_is_found_in_the_store() {
    let rig = Rig::start().await;
    rig.handle.submit(enqueue(1, "a")).await.unwrap();
    let cancel = Command::Cancel { job: job_id(1), reason: None, prior: None };
    rig.handle.submit(rig::bare(cancel.clone())).await.unwrap();
    // The job has left memory: everything about it is looked up.
    let Reply::Job { job, changed } = rig.handle.submit(rig::bare(cancel)).await.unwrap() else { panic!() };
    assert!(matches!(job.state, JobState::Cancelled { .. }) && !changed);
    let Reply::Enqueued { job, .. } = rig.handle.submit(enqueue(1, "a")).await.unwrap() else { panic!() };
    assert!(job.state.is_final(), "a replay gives the job as it is");
    let requeue = Command::Requeue { job: job_id(1), force: false, prior: None, key_taken: false };
    let Reply::Job { job, .. } = rig.handle.submit(rig::bare(requeue)).await.unwrap() else { panic!() };
    assert_eq!(job.round, 2);
    assert_eq!(rig.handle.info().reloads, 0);
    rig.end().await;
}

/// Which tenant a child has tells its parent, which may be enqueued in the same turn; so does which key it asks for.
#[tokio::test]
async fn a_child_finds_the_final_job_that_holds_its_key_by_the_tenant_of_a_parent_in_its_batch() {
    let rig = Rig::start().await;
    let with = |n, change: fn(&mut Enqueue)| {
        let mut submission = enqueue(n, "a");
        if let Command::Enqueue(enqueue) = &mut submission.command {
            change(enqueue);
        }
        submission
    };
    let first = with(1, |job| {
        job.tenant = Some(Tenant::new("t"));
        job.dedupe_key = Some(DedupeKey::new("x"));
    });
    rig.handle.submit(first).await.unwrap();
    let cancel = Command::Cancel { job: job_id(1), reason: None, prior: None };
    rig.handle.submit(rig::bare(cancel)).await.unwrap();
    let batch = vec![
        with(2, |job| job.tenant = Some(Tenant::new("t"))),
        with(3, |job| job.parent = Some(job_id(2))),
        with(4, |job| {
            job.parent = Some(job_id(3));
            job.dedupe_key = Some(DedupeKey::new("x"));
        }),
    ];
    let mut replies = rig.handle.submit_batch(batch).await.unwrap();
    let Ok(Reply::Enqueued { job, deduplicated: true }) = replies.pop().unwrap() else { panic!() };
    assert_eq!(job.id, job_id(1));
    let Ok(Reply::Enqueued { job, deduplicated: false }) = replies.pop().unwrap() else { panic!() };
    assert_eq!(job.tenant.as_str(), "t");
    assert_eq!(rig.handle.info().reloads, 0);
    rig.end().await;
}

#[tokio::test]
async fn a_watch_is_told_of_a_change_and_of_a_reload() {
    let rig = Rig::start().await;
    rig.handle.submit(enqueue(1, "a")).await.unwrap();
    let mut watch = rig.handle.watch_job(job_id(1)).unwrap();
    let cancel = Command::Cancel { job: job_id(1), reason: None, prior: None };
    rig.handle.submit(rig::bare(cancel)).await.unwrap();
    tokio::time::timeout(SOON, watch.changed()).await.unwrap();
    rig.store.fail_next_commit(Fault::UnknownLost);
    assert!(rig.handle.submit(enqueue(2, "a")).await.is_err());
    tokio::time::timeout(SOON, watch.changed()).await.unwrap();
    rig.end().await;
}

#[tokio::test]
async fn figures_are_published_after_a_commit() {
    let rig = Rig::start().await;
    rig.handle.submit(enqueue(1, "a")).await.unwrap();
    rig.until(|| rig.handle.snapshot().snapshot.live_jobs == 1).await;
    let health = &rig.handle.snapshot().snapshot.health;
    assert!(health.iter().any(|kind| kind.kind.as_str() == "a" && kind.depth == 1));
    rig.end().await;
}

#[tokio::test]
async fn a_restart_goes_on_where_the_last_leader_was() {
    let store = Memory::new();
    let rig = Rig::start_on(store.clone()).await;
    let epoch = rig.handle.info().epoch;
    rig.handle.submit(enqueue(1, "a")).await.unwrap();
    rig.end().await;
    let rig = Rig::start_on(store).await;
    assert_eq!(rig.handle.info().epoch, epoch + 1);
    let queued = rig.handle.query(|state, _| state.job(job_id(1)).map(|job| job.state.name())).await.unwrap();
    assert_eq!(queued, Some("queued"));
    rig.end().await;
}

#[tokio::test]
async fn what_is_past_its_retention_is_swept_and_the_rest_stays() {
    let rig = Rig::start().await;
    let cancel = |n| rig::bare(Command::Cancel { job: job_id(n), reason: None, prior: None });
    for n in 1..=3 {
        rig.handle.submit(enqueue(n, if n == 3 { "kept" } else { "a" })).await.unwrap();
    }
    for n in [1, 3] {
        rig.handle.submit(cancel(n)).await.unwrap();
    }
    let mut sweeper = rig.sweeper();
    assert_eq!(sweeper.sweep().await.unwrap(), 1, "the final one of the kind that keeps nothing");
    assert_eq!(sweeper.sweep().await.unwrap(), 0);
    let mut left = Vec::new();
    for n in 1..=3 {
        left.push(rig.handle.reader().get_job(job_id(n)).await.unwrap().is_some());
    }
    assert_eq!(left, [false, true, true]);
    rig.end().await;
}

#[tokio::test]
async fn a_sweep_that_cannot_be_stored_goes_on_item_by_item() {
    let rig = Rig::start().await;
    for n in 1..=5 {
        rig.handle.submit(enqueue(n, "a")).await.unwrap();
        let cancel = Command::Cancel { job: job_id(n), reason: None, prior: None };
        rig.handle.submit(rig::bare(cancel)).await.unwrap();
    }
    rig.store.fail_next_commit(Fault::Constraint("jobs_deleted"));
    assert_eq!(rig.sweeper().sweep().await.unwrap(), 5);
    rig.end().await;
}

#[tokio::test]
async fn a_shutdown_right_after_a_constraint_answers_everybody_too() {
    let rig = Rig::start().await;
    rig.store.fail_next_commit(Fault::Constraint("jobs_dedupe_held"));
    assert!(rig.handle.submit(enqueue(1, "a")).await.is_err());
    rig.store.hold_commits(true);
    let answers: Vec<_> = (2..20).map(|n| rig.submit(enqueue(n, "a"))).collect();
    rig.store_waits_for(1).await;
    rig.shutdown.cancel();
    rig.store.hold_commits(false);
    for answer in answers {
        rig.answer(answer).await.unwrap();
    }
    rig.end().await;
}
