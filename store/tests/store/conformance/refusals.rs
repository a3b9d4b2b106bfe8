//! What a store refuses, and that a refused turn leaves no trace.

use tenure_scheduler::{
    Changes, CronEntry, Epoch, FencingToken, Job, JobChange, JobState, Outcome, ResultPut, SlotName, Stage,
    Wall,
};
use tenure_store::{Beside, Journal, journal::Error};

use crate::{
    samples::{attempt, crons, id, job, keyed, lease, node, running, slots, token},
    stores::{Led, TestStore},
};

fn insert(job: &Job) -> JobChange {
    JobChange::Insert(Box::new(job.clone()))
}

fn update(previous: FencingToken, job: &Job) -> JobChange {
    JobChange::Update { previous, job: Box::new(job.clone()) }
}

fn jobs(jobs: Vec<JobChange>) -> Changes {
    Changes { jobs, ..Changes::default() }
}

pub(crate) async fn a_deposed_writer_writes_nothing<S: TestStore>() {
    let mut led = Led::<S>::new().await;
    let old = led.epoch;
    led.reload().await;
    let commit = led.store.journal().commit(old, &jobs(vec![insert(&job(1))]), &Beside::default()).await;
    assert!(matches!(commit, Err(Error::Deposed { epoch }) if epoch == old), "{commit:?}");
    assert_eq!(led.read(id(1)).await, None);
    led.reload().await;
    led.insert(&[&job(1)]).await;
}

pub(crate) async fn a_fresh_journal_wants_a_takeover<S: TestStore>() {
    let mut store = S::new().await;
    let commit = store.journal().commit(Epoch(1), &Changes::default(), &Beside::default()).await;
    assert!(matches!(commit, Err(Error::Unavailable { .. })), "{commit:?}");
    assert!(matches!(store.journal().prior(&[id(1)], &[]).await, Err(Error::Unavailable { .. })));
    store.journal().takeover(Epoch(0)).await.unwrap();
}

pub(crate) async fn after_an_error_only_a_takeover_helps<S: TestStore>() {
    let mut led = Led::<S>::new().await;
    led.insert(&[&job(1)]).await;
    assert!(led.try_commit(&jobs(vec![insert(&job(1))])).await.is_err());
    let commit = led.try_commit(&jobs(vec![insert(&job(2))])).await;
    assert!(matches!(commit, Err(Error::Unavailable { .. })), "{commit:?}");
    assert!(led.store.journal().prior(&[id(1)], &[]).await.is_err());
    assert_eq!(led.reload().await.jobs.keys().copied().collect::<Vec<_>>(), [id(1)]);
    led.insert(&[&job(2)]).await;
}

pub(crate) async fn an_update_needs_the_token_of_its_row<S: TestStore>() {
    let mut led = Led::<S>::new().await;
    led.insert(&[&running(&job(1), token(5)), &job(2)]).await;
    for (n, previous) in [(1, token(4)), (3, FencingToken::NONE)] {
        let stale = update(previous, &running(&job(n), token(6)));
        let commit =
            led.try_commit(&jobs(vec![update(FencingToken::NONE, &running(&job(2), token(7))), stale])).await;
        let Err(error @ Error::RowsMismatch { statement: "JOB_UPDATE", sent: 2, affected: 1 }) = commit
        else {
            panic!("{commit:?}")
        };
        assert!(error.is_ours());
        led.reload().await;
        assert_eq!(led.read(id(2)).await, Some(job(2)), "the other row of the turn was not written either");
    }
}

pub(crate) async fn the_last_instant_of_a_cron_entry_never_falls<S: TestStore>() {
    let mut led = Led::<S>::new().await;
    let [_, entry] = crons();
    let put = |last_instant| Changes {
        crons_put: vec![CronEntry { last_instant, ..entry.clone() }],
        ..Changes::default()
    };
    for at in [Wall(75), Wall(75), Wall(76)] {
        led.commit(&put(at)).await;
    }
    let fallen = led.try_commit(&put(Wall(75))).await;
    let mismatch =
        matches!(fallen, Err(Error::RowsMismatch { statement: "CRON_UPSERT", sent: 1, affected: 0 }));
    assert!(mismatch, "{fallen:?}");
    assert_eq!(led.reload().await.crons[&entry.name].last_instant, Wall(76));
}

pub(crate) async fn deleting_what_is_not_there_is_a_mismatch<S: TestStore>() {
    let mut led = Led::<S>::new().await;
    let gone: [Changes; 5] = [
        jobs(vec![JobChange::Delete(id(9))]),
        Changes { leases_deleted: vec![token(9)], ..Changes::default() },
        Changes { kinds_deleted: vec![job(9).kind], ..Changes::default() },
        Changes { slots_deleted: vec![SlotName::new("gpu")], ..Changes::default() },
        Changes { nodes_deleted: vec![node().name], ..Changes::default() },
    ];
    for changes in gone {
        let commit = led.try_commit(&changes).await;
        assert!(matches!(commit, Err(Error::RowsMismatch { sent: 1, affected: 0, .. })), "{commit:?}");
        led.reload().await;
    }
}

pub(crate) async fn a_missing_payload_is_refused<S: TestStore>() {
    let mut led = Led::<S>::new().await;
    let wants = Job { payload_size: 1, ..job(1) };
    let commit = led.store.journal().commit(led.epoch, &jobs(vec![insert(&wants)]), &Beside::default()).await;
    assert!(
        matches!(commit, Err(Error::NothingBeside { what: "payload", job }) if job == id(1)),
        "{commit:?}"
    );
    led.reload().await;
    led.insert(&[&job(1)]).await;
    let put = ResultPut {
        job: id(1),
        token: token(1),
        of_wait: false,
        partial: false,
        created_at: Wall(1),
        expires_at: Wall(2),
    };
    let changes = Changes { results_put: vec![put], ..Changes::default() };
    let commit = led.store.journal().commit(led.epoch, &changes, &Beside::default()).await;
    assert!(matches!(commit, Err(Error::NothingBeside { what: "result", .. })), "{commit:?}");
}

pub(crate) async fn every_second_wall_has_a_name<S: TestStore>() {
    let mut led = Led::<S>::new().await;
    let put = ResultPut {
        job: id(3),
        token: token(3),
        of_wait: false,
        partial: false,
        created_at: Wall(1),
        expires_at: Wall(2),
    };
    let succeeded = Job {
        state: JobState::Succeeded { at: Wall(9) },
        last_outcome: Some(Outcome::Succeeded),
        ..running(&keyed(3, "c"), token(3))
    };
    led.commit(&Changes {
        jobs: vec![insert(&keyed(1, "a")), insert(&running(&job(2), token(2))), insert(&succeeded)],
        leases_put: vec![lease(2, token(2), Stage::Granted)],
        results_put: vec![put.clone()],
        ..Changes::default()
    })
    .await;

    let released = Job { dedupe_held: false, version: 9, ..succeeded.clone() };
    led.commit(&jobs(vec![update(token(3), &released)])).await;

    let orphan = ResultPut { job: id(77), ..put.clone() };
    let walls: [(&str, Changes); 10] = [
        ("jobs_pkey", jobs(vec![insert(&job(1))])),
        ("jobs_dedupe_held", jobs(vec![insert(&keyed(4, "a"))])),
        ("jobs_dedupe_held", jobs(vec![insert(&keyed(4, "d")), insert(&keyed(5, "d"))])),
        ("jobs_token_never_falls", jobs(vec![update(token(2), &running(&job(2), token(1)))])),
        ("jobs_final_never_changes", jobs(vec![update(token(3), &running(&job(3), token(4)))])),
        ("jobs_final_never_changes", jobs(vec![update(token(3), &succeeded)])), // takes its key again
        (
            "leases_one_live_per_job",
            Changes { leases_put: vec![lease(2, token(4), Stage::Granted)], ..Changes::default() },
        ),
        ("results_pkey", Changes { results_put: vec![put], ..Changes::default() }),
        ("results_belong_to_a_job", Changes { results_put: vec![orphan], ..Changes::default() }),
        (
            "attempts_belong_to_a_job",
            Changes { attempts_put: vec![attempt(77, token(1), Outcome::Lost)], ..Changes::default() },
        ),
    ];
    for (wall, changes) in walls {
        let commit = led.try_commit(&changes).await;
        let Err(error) = &commit else { panic!("{wall} let it pass") };
        assert!(matches!(error, Error::Constraint { name, .. } if name == wall), "{wall}: {error:?}");
        assert!(error.is_ours());
        led.reload().await;
    }
    assert_eq!(led.read(id(3)).await, Some(released));
}

pub(crate) async fn a_refused_turn_leaves_no_trace<S: TestStore>() {
    let mut led = Led::<S>::new().await;
    let old = Job { payload_size: 3, state: JobState::Dead { at: Wall(1) }, ..keyed(1, "a") };
    led.commit(&Changes {
        jobs: vec![insert(&old), insert(&running(&job(2), token(2)))],
        leases_put: vec![lease(2, token(2), Stage::Granted)],
        slots_put: slots().to_vec(),
        attempts_put: vec![attempt(1, token(1), Outcome::Failed)],
        ..Changes::default()
    })
    .await;
    let before = led.reload().await;
    // Everything that a turn can do, and at its end a second live lease of one job.
    let commit = led
        .try_commit(&Changes {
            jobs: vec![
                JobChange::Delete(id(1)),
                update(token(2), &running(&job(2), token(3))),
                insert(&Job { payload_size: 9, ..keyed(3, "a") }),
            ],
            leases_put: vec![lease(9, token(9), Stage::Granted), lease(9, token(10), Stage::Granted)],
            leases_deleted: vec![token(2)],
            slots_deleted: vec![SlotName::new("gpu")],
            nodes_put: vec![node()],
            ..Changes::default()
        })
        .await;
    assert!(
        matches!(&commit, Err(Error::Constraint { name, .. }) if name == "leases_one_live_per_job"),
        "{commit:?}"
    );
    assert_eq!(led.reload().await, before);
    assert_eq!(led.read(id(1)).await, Some(old));
    let reader = led.store.reader();
    assert_eq!(reader.payloads(&[id(1), id(3)]).await.unwrap().into_keys().collect::<Vec<_>>(), [id(1)]);
    assert_eq!(reader.attempts(id(1), None, 9).await.unwrap().len(), 1);
}
