//! What only a database elsewhere can show: kills, cut connections, standbys, calls that were dropped half-way.

use std::{collections::BTreeSet, pin::pin};

use tenure_scheduler::{Changes, Epoch};
use tenure_store::{
    Beside, Journal, journal,
    postgres::{self, Options, PostgresJournal},
    reader,
};
use tenure_test_postgres::Cluster;

use crate::{
    committer::{Committer, assert_kept, commit_until_killed, insert, poll_at_most},
    random::{Random, seeds},
    samples::{id, job},
    stores::bytes_for,
};

/// The database of a child of these tests.
const CHILD: &str = "TENURE_STORE_TEST_DATABASE";

/// The body of the child, as a test.
const TEST: &str = "postgres::child_that_commits_until_it_is_killed";

fn options(url: &str) -> Options {
    Options { migrate: true, ..Options::new(url.parse().unwrap()) }
}

/// Not a test but the body of a child.
#[tokio::test]
async fn child_that_commits_until_it_is_killed() {
    let Ok(url) = std::env::var(CHILD) else { return };
    let (mut journal, _) = postgres::open(&options(&url)).await.unwrap();
    commit_until_killed(&mut journal).await;
}

#[tokio::test]
async fn what_was_acknowledged_survives_kill_9() {
    let cluster = tenure_test_postgres::shared().unwrap();
    for seed in seeds(3) {
        let mut random = Random::new(seed);
        let url = cluster.database().unwrap();
        let mut stored = 0;
        for epoch in 1..=3 {
            let mut committer = Committer::start(TEST, (CHILD, &url));
            let enough = stored + random.below(40);
            committer.wait_for(&format!("committed {enough}"));
            let acknowledged = committer.kill().unwrap_or(enough);

            // Its last commit may be on its way in the database: the takeover waits for it.
            let (mut journal, reader) = postgres::open(&options(&url)).await.unwrap();
            let taken = journal.takeover(Epoch(0)).await.unwrap();
            assert_eq!(taken.epoch, Epoch(epoch * 2), "seed {seed}");
            stored = assert_kept(&taken.durable, &reader, acknowledged, &format!("seed {seed}")).await;
            journal.close().await;
        }
    }
}

#[tokio::test]
async fn what_was_acknowledged_survives_a_crash_of_the_database() {
    let cluster = Cluster::start().unwrap();
    let url = cluster.database().unwrap();
    let mut committer = Committer::start(TEST, (CHILD, &url));
    committer.wait_for("committed 20");
    cluster.crash().unwrap();
    // The child ends by itself: its commit failed.
    let acknowledged = committer.wait_for_end().unwrap_or(20);
    cluster.start_again().unwrap();
    let (mut journal, reader) = postgres::open(&options(&url)).await.unwrap();
    let taken = journal.takeover(Epoch(0)).await.unwrap();
    assert_kept(&taken.durable, &reader, acknowledged, "after the crash").await;
}

/// How many jobs one commit of the next two tests writes.
const MANY: u64 = 200;

#[tokio::test]
async fn a_commit_dropped_half_way_is_whole_or_absent() {
    let url = tenure_test_postgres::shared().unwrap().database().unwrap();
    let (mut journal, _) = postgres::open(&options(&url)).await.unwrap();
    let mut taken = journal.takeover(Epoch(0)).await.unwrap();
    let mut outcomes = BTreeSet::new();
    for polls in 1..40 {
        let before = taken.durable.jobs.len();
        let changes = insert((polls * MANY..(polls + 1) * MANY).map(job).collect());
        let nothing = Beside::default();
        let done =
            poll_at_most(journal.commit(taken.epoch, &changes, &nothing), polls.try_into().unwrap()).await;
        if let Some(done) = &done {
            done.as_ref().unwrap();
        } else {
            let after = journal.commit(taken.epoch, &Changes::default(), &nothing).await;
            assert!(after.is_err(), "only a takeover helps");
        }
        let epoch = taken.epoch;
        taken = journal.takeover(Epoch(0)).await.unwrap();
        assert_eq!(taken.epoch, Epoch(epoch.0 + 1));
        let stored = taken.durable.jobs.len() - before;
        assert!(stored == 200 || stored == 0 && done.is_none(), "{polls} polls: {stored}");
        outcomes.insert((done.is_some(), stored));
        // Nothing of the old commit lands after the load.
        let again = journal.takeover(Epoch(0)).await.unwrap();
        assert_eq!(again.durable.jobs.len(), before + stored, "{polls} polls");
        taken = again;
    }
    assert!(outcomes.contains(&(false, 0)) && outcomes.contains(&(true, 200)), "{outcomes:?}");
}

#[tokio::test]
async fn a_connection_cut_under_a_commit_loses_and_doubles_nothing() {
    let cluster = tenure_test_postgres::shared().unwrap();
    let url = cluster.database().unwrap();
    let name = url.split(['/', '?']).nth(3).unwrap().to_owned();
    let (mut journal, reader) = postgres::open(&options(&url)).await.unwrap();
    let mut taken = journal.takeover(Epoch(0)).await.unwrap();
    let mut outcomes = BTreeSet::new();
    for polls in 0..24 {
        let changes = insert(vec![job(polls)]);
        let beside = bytes_for(&changes);
        let outcome = {
            let mut commit = pin!(journal.commit(taken.epoch, &changes, &beside));
            let early = poll_at_most(commit.as_mut(), u32::try_from(polls).unwrap() / 2).await;
            match early {
                Some(early) => early,
                None => {
                    let cut = "select pg_terminate_backend(pid) from pg_stat_activity
                        where datname = current_database() and application_name like 'tenure-leader-%'";
                    cluster.run_sql(&name, cut).unwrap();
                    commit.await
                }
            }
        };
        if let Err(error) = &outcome {
            assert!(matches!(error, journal::Error::Unavailable { .. }), "{polls}: {error:?}");
            assert!(!error.is_ours());
        }
        taken = journal.takeover(Epoch(0)).await.unwrap();
        let stored = taken.durable.jobs.contains_key(&id(polls));
        assert!(stored || outcome.is_err(), "{polls}: acknowledged and lost");
        outcomes.insert((outcome.is_ok(), stored));
        if !stored {
            // The caller repeats its call: under the same id it is the same job.
            journal.commit(taken.epoch, &changes, &beside).await.unwrap();
            taken = journal.takeover(Epoch(0)).await.unwrap();
        }
        assert!(taken.durable.jobs.keys().copied().eq((0..=polls).map(id)), "{polls}");
        assert_eq!(reader.violations().await.unwrap(), []);
    }
    assert!(outcomes.contains(&(false, false)), "{outcomes:?}");
}

#[tokio::test]
async fn a_primary_that_became_a_standby_is_the_store_being_away() {
    let cluster = Cluster::start().unwrap();
    let options = options(&cluster.database().unwrap());
    let (mut journal, reader) = postgres::open(&options).await.unwrap();
    let taken = journal.takeover(Epoch(0)).await.unwrap();
    let commit = async |journal: &mut PostgresJournal, epoch, n| {
        let changes = insert(vec![job(n)]);
        journal.commit(epoch, &changes, &bytes_for(&changes)).await
    };
    commit(&mut journal, taken.epoch, 0).await.unwrap();
    reader.ping().await.unwrap();

    cluster.demote().unwrap();
    let failed = commit(&mut journal, taken.epoch, 1).await;
    assert!(matches!(failed, Err(journal::Error::Unavailable { .. })), "{failed:?}");
    let takeover = journal.takeover(Epoch(0)).await.expect_err("it cannot be written to");
    assert!(matches!(takeover, journal::Error::Unavailable { .. }), "{takeover:?}");
    assert!(format!("{takeover:?}").contains("Standby"), "{takeover:?}");
    let read = reader.get_job(id(0)).await.expect_err("no connection clings to a demoted primary");
    assert!(matches!(read, reader::Error::Unavailable { .. }), "{read:?}");
    let start = postgres::open(&options).await.expect_err("nor does a start");
    assert!(format!("{start:?}").contains("Standby"), "{start:?}");

    cluster.promote().unwrap();
    let taken = journal.takeover(Epoch(0)).await.unwrap();
    assert!(taken.durable.jobs.keys().copied().eq([id(0)]));
    commit(&mut journal, taken.epoch, 1).await.unwrap();
    assert!(reader.get_job(id(1)).await.unwrap().is_some());
}
