//! A child process that commits until it is killed, and what must be left then; calls that are dropped half-way.

use std::{
    ffi::OsStr,
    future::poll_fn,
    io::{BufRead, BufReader},
    pin::pin,
    process::{Child, ChildStderr, Command, Stdio},
    task::Poll,
};

use tenure_scheduler::{Changes, Durable, Epoch, JobChange};
use tenure_store::{Journal, Reader};

use crate::{
    samples::{id, job},
    stores::bytes_for,
};

/// Commits one job after the other, and says which ones are committed.
pub(crate) async fn commit_until_killed(journal: &mut impl Journal) {
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

/// All that was acknowledged, at most one more, and no half of one. How many.
pub(crate) async fn assert_kept(durable: &Durable, reader: &Reader, acknowledged: u64, context: &str) -> u64 {
    let jobs = &durable.jobs;
    let stored = u64::try_from(jobs.len()).unwrap();
    assert!((acknowledged + 1..=acknowledged + 2).contains(&stored), "{context}: {acknowledged} {stored}");
    assert!(jobs.keys().copied().eq((0..stored).map(id)), "{context}");
    let payloads = reader.payloads(&jobs.keys().copied().collect::<Vec<_>>()).await.unwrap();
    for job in jobs.values() {
        let size = payloads.get(&job.id).map_or(0, |payload| payload.data.len());
        assert_eq!(u64::try_from(size).unwrap(), job.payload_size, "{context}");
    }
    stored
}

/// A child, and what it says on its standard error. Killed when it is dropped.
pub(crate) struct Committer {
    child: Child,
    says: std::io::Lines<BufReader<ChildStderr>>,
}

impl Committer {
    /// Runs one test of this program, with a variable that tells it that it is the child.
    pub(crate) fn start(test: &str, (variable, value): (&str, impl AsRef<OsStr>)) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(variable, value)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let says = BufReader::new(child.stderr.take().unwrap()).lines();
        Self { child, says }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Reads on until it has said this.
    pub(crate) fn wait_for(&mut self, text: &str) {
        for line in self.says.by_ref() {
            if line.unwrap() == text {
                return;
            }
        }
        panic!("the child ended before it said {text:?}");
    }

    /// Kills it at once; the number of the last job that it had said was committed.
    pub(crate) fn kill(mut self) -> Option<u64> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let said = self.says.by_ref().map(Result::unwrap);
        said.filter_map(|line| line.strip_prefix("committed ")?.parse().ok()).last()
    }
}

impl Committer {
    /// Waits until it has ended by itself; the number of the last job that it had said was committed.
    pub(crate) fn wait_for_end(mut self) -> Option<u64> {
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

/// What a future gives within so many polls; it is dropped after the last.
pub(crate) async fn poll_at_most<F: Future>(future: F, polls: u32) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| {
        let Some(next) = left.checked_sub(1) else { return Poll::Ready(None) };
        left = next;
        future.as_mut().poll(context).map(Some)
    })
    .await
}

/// A turn that enqueues these.
pub(crate) fn insert(jobs: Vec<tenure_scheduler::Job>) -> Changes {
    let jobs = jobs.into_iter().map(|job| JobChange::Insert(Box::new(job))).collect();
    Changes { jobs, ..Changes::default() }
}
