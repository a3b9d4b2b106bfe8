//! What only a file and a process can show: locks, kills, calls that were dropped half-way.

use std::{
    collections::BTreeSet,
    future::poll_fn,
    io::{BufRead, BufReader},
    path::Path,
    pin::pin,
    process::{Child, ChildStderr, Command, Stdio},
    task::Poll,
};

use tempfile::TempDir;
use tenure_scheduler::{Changes, Epoch, JobChange};
use tenure_store::{Beside, Journal, sqlite};

use crate::{
    random::{Random, seeds},
    samples::{id, job},
    stores::{SqliteStore, TestStore, bytes_for},
};

/// The data directory of a child of these tests.
const CHILD: &str = "TENURE_STORE_TEST_CHILD";

/// Not a test but the body of a child: commits one job after the other, and says which ones are committed.
#[tokio::test]
async fn child_that_commits_until_it_is_killed() {
    let Ok(directory) = std::env::var(CHILD) else { return };
    let (mut journal, _) = sqlite::open(&sqlite::Options::new(directory)).await.unwrap();
    let taken = journal.takeover(Epoch(0)).await.unwrap();
    let first = u64::try_from(taken.durable.jobs.len()).unwrap();
    eprintln!("took over");
    for n in first..=u64::MAX {
        let mut new = job(n);
        new.payload_size = n % 5 * 1_000;
        let changes = insert(vec![new]);
        journal.commit(taken.epoch, &changes, &bytes_for(&changes)).await.unwrap();
        eprintln!("committed {n}");
    }
}

/// A child, and what it says on its standard error. Killed when it is dropped.
struct Committer {
    child: Child,
    says: std::io::Lines<BufReader<ChildStderr>>,
}

impl Committer {
    fn start(directory: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "sqlite::child_that_commits_until_it_is_killed", "--nocapture"])
            .env(CHILD, directory)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let says = BufReader::new(child.stderr.take().unwrap()).lines();
        Self { child, says }
    }

    /// Reads on until it has said this.
    fn wait_for(&mut self, text: &str) {
        for line in self.says.by_ref() {
            if line.unwrap() == text {
                return;
            }
        }
        panic!("the child ended before it said {text:?}");
    }

    /// Kills it at once; the number of the last job that it had said was committed.
    fn kill(mut self) -> Option<u64> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let said = self.says.by_ref().map(Result::unwrap);
        said.filter_map(|line| line.strip_prefix("committed ")?.parse().ok()).last()
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        // It has ended already if the test went well; else nobody can do more than try.
        if self.child.kill().is_ok() {
            self.child.wait().unwrap_or_default();
        }
    }
}

#[tokio::test]
async fn a_second_process_is_refused_with_a_sentence() {
    let directory = TempDir::new().unwrap();
    let mut committer = Committer::start(directory.path());
    committer.wait_for("took over");
    let pid = committer.child.id();
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
            let mut committer = Committer::start(directory.path());
            let enough = stored + random.below(40);
            committer.wait_for(&format!("committed {enough}"));
            let acknowledged = committer.kill().unwrap_or(enough);

            let (mut journal, reader) = sqlite::open(&sqlite::Options::new(directory.path())).await.unwrap();
            let taken = journal.takeover(Epoch(0)).await.unwrap();
            assert_eq!(taken.epoch, Epoch(epoch * 2), "seed {seed}");
            let jobs = taken.durable.jobs;
            stored = u64::try_from(jobs.len()).unwrap();
            // All that was acknowledged, at most one more, and no half of one.
            assert!(
                (acknowledged + 1..=acknowledged + 2).contains(&stored),
                "seed {seed}: {acknowledged} {stored}"
            );
            assert!(jobs.keys().copied().eq((0..stored).map(id)), "seed {seed}");
            let payloads = reader.payloads(&jobs.keys().copied().collect::<Vec<_>>()).await.unwrap();
            for job in jobs.values() {
                let size = payloads.get(&job.id).map_or(0, |payload| payload.data.len());
                assert_eq!(u64::try_from(size).unwrap(), job.payload_size, "seed {seed}");
            }
            journal.close().await;
        }
    }
}

#[tokio::test]
async fn a_commit_dropped_half_way_is_whole_or_absent() {
    let mut outcomes = BTreeSet::new();
    for polls in 1..40 {
        let mut store = SqliteStore::new().await;
        let taken = store.journal().takeover(Epoch(0)).await.unwrap();
        let changes = insert((0..200).map(job).collect());
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
        assert!(stored == 200 || stored == 0 && done.is_none(), "{polls} polls: {stored}");
        outcomes.insert((done.is_some(), stored));
        // Nothing of the old commit lands after the load.
        store.journal().commit(again.epoch, &Changes::default(), &nothing).await.unwrap();
        assert_eq!(store.journal().takeover(Epoch(0)).await.unwrap().durable.jobs.len(), stored);
    }
    assert!(outcomes.contains(&(false, 0)) && outcomes.contains(&(true, 200)), "{outcomes:?}");
}

/// What a future gives within so many polls; it is dropped after the last.
async fn poll_at_most<F: Future>(future: F, polls: u32) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| {
        let Some(next) = left.checked_sub(1) else { return Poll::Ready(None) };
        left = next;
        future.as_mut().poll(context).map(Some)
    })
    .await
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

fn insert(jobs: Vec<tenure_scheduler::Job>) -> Changes {
    let jobs = jobs.into_iter().map(|job| JobChange::Insert(Box::new(job))).collect();
    Changes { jobs, ..Changes::default() }
}
