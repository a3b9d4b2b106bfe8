//! What only a file and a process can show: locks, kills, calls that were dropped half-way.

use std::collections::BTreeSet;

use tempfile::TempDir;
use tenure_scheduler::{Changes, Epoch};
use tenure_store::{Beside, Journal, sqlite};

use crate::{
    committer::{Committer, assert_kept, commit_until_killed, insert, poll_at_most},
    random::{Random, seeds},
    samples::job,
    stores::{SqliteStore, TestStore},
};

/// The data directory of a child of these tests.
const CHILD: &str = "TENURE_STORE_TEST_CHILD";

/// The body of the child, as a test.
const TEST: &str = "sqlite::child_that_commits_until_it_is_killed";

/// Not a test but the body of a child: commits one job after the other, and says which ones are committed.
#[tokio::test]
async fn child_that_commits_until_it_is_killed() {
    let Ok(directory) = std::env::var(CHILD) else { return };
    let (mut journal, _) = sqlite::open(&sqlite::Options::new(directory)).await.unwrap();
    commit_until_killed(&mut journal).await;
}

#[tokio::test]
async fn a_second_process_is_refused_with_a_sentence() {
    let directory = TempDir::new().unwrap();
    let mut committer = Committer::start(TEST, (CHILD, directory.path()));
    committer.wait_for("took over");
    let pid = committer.pid();
    let error =
        sqlite::open(&sqlite::Options::new(directory.path())).await.expect_err("another process holds it");
    let text = error.to_string();
    assert!(matches!(error, sqlite::Error::InUse { .. }), "{text}");
    assert!(text.contains(&format!("in use by process {pid}")) && text.contains("stop it first"), "{text}");
    committer.kill();
    // The system gave the lock back.
    sqlite::open(&sqlite::Options::new(directory.path())).await.unwrap();
}

#[tokio::test]
async fn a_second_store_in_one_process_is_refused_until_the_first_is_closed() {
    let directory = TempDir::new().unwrap();
    let options = sqlite::Options::new(directory.path());
    let (journal, reader) = sqlite::open(&options).await.unwrap();
    assert!(matches!(sqlite::open(&options).await, Err(sqlite::Error::InUse { .. })));
    journal.close().await;
    let (_journal, _) = sqlite::open(&options).await.unwrap();
    // An old reader does no harm, and the lock of the database is not lost with it.
    reader.ping().await.unwrap();
    reader.close().await;
    assert!(reader.ping().await.is_err());
    assert!(matches!(sqlite::open(&options).await, Err(sqlite::Error::InUse { .. })));
}

#[tokio::test]
async fn what_was_acknowledged_survives_kill_9() {
    for seed in seeds(3) {
        let mut random = Random::new(seed);
        let directory = TempDir::new().unwrap();
        let mut stored = 0;
        for epoch in 1..=3 {
            let mut committer = Committer::start(TEST, (CHILD, directory.path()));
            let enough = stored + random.below(40);
            committer.wait_for(&format!("committed {enough}"));
            let acknowledged = committer.kill().unwrap_or(enough);

            let (mut journal, reader) = sqlite::open(&sqlite::Options::new(directory.path())).await.unwrap();
            let taken = journal.takeover(Epoch(0)).await.unwrap();
            assert_eq!(taken.epoch, Epoch(epoch * 2), "seed {seed}");
            stored = assert_kept(&taken.durable, &reader, acknowledged, &format!("seed {seed}")).await;
            journal.close().await;
        }
    }
}

#[tokio::test]
async fn a_commit_dropped_half_way_is_whole_or_absent() {
    // So many that they take several calls, and so few that they take fewer polls than there are tries.
    const JOBS: usize = 37;
    let mut outcomes = BTreeSet::new();
    for polls in 1..40 {
        let mut store = SqliteStore::new().await;
        let taken = store.journal().takeover(Epoch(0)).await.unwrap();
        let changes = insert((0..JOBS as u64).map(job).collect());
        let nothing = Beside::default();
        let commit = store.journal().commit(taken.epoch, &changes, &nothing);
        // The driver gives up on a commit; its statement goes on in the connection's thread.
        let done = poll_at_most(commit, polls).await;
        if done.is_none() {
            let after = store.journal().commit(taken.epoch, &Changes::default(), &nothing).await;
            assert!(after.is_err(), "only a takeover helps");
        }
        let again = store.journal().takeover(Epoch(0)).await.unwrap();
        assert_eq!(again.epoch, Epoch(2));
        let stored = again.durable.jobs.len();
        assert!(stored == JOBS || stored == 0 && done.is_none(), "{polls} polls: {stored}");
        outcomes.insert((done.is_some(), stored));
        // Nothing of the old commit lands after the load.
        store.journal().commit(again.epoch, &Changes::default(), &nothing).await.unwrap();
        assert_eq!(store.journal().takeover(Epoch(0)).await.unwrap().durable.jobs.len(), stored);
    }
    assert!(outcomes.contains(&(false, 0)) && outcomes.contains(&(true, JOBS)), "{outcomes:?}");
}

#[cfg(unix)]
#[tokio::test]
async fn the_data_directory_is_made_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let parent = TempDir::new().unwrap();
    let directory = parent.path().join("a").join("b");
    let (_journal, _) = sqlite::open(&sqlite::Options::new(&directory)).await.unwrap();
    assert_eq!(std::fs::metadata(&directory).unwrap().permissions().mode() & 0o777, 0o700);
}

#[tokio::test]
async fn a_directory_that_cannot_be_made_is_named() {
    let parent = TempDir::new().unwrap();
    let file = parent.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error =
        sqlite::open(&sqlite::Options::new(file.join("data"))).await.expect_err("a file is in the way");
    assert!(matches!(error, sqlite::Error::Directory { .. }), "{error:?}");
    assert!(error.to_string().contains("file/data"), "{error}");
}
