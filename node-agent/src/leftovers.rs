//! What an earlier agent left: attempt directories, exit records, process trees.
//!
//! Responsible for the scan at the agent's start, before Hello, and for ending what it finds, after it.
//! Not responsible for reporting: the caller learns each attempt, and when it is gone.
//! Invariant: a process is killed only if it carries the tag of an attempt of this state directory, or belongs to a
//! shim recorded in it under the same boot, pid and start time.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::clock::Clock;
use crate::shim::ExitRecord;
use crate::shim::files::State;
use crate::shim::killer::{Killer, Word};
use crate::shim::tag::Owner;
use crate::shim::tree;

/// What a shim may need beyond its grace to end its tree and itself.
const LATE: Duration = Duration::from_secs(10);
/// How long a shim may take to see that its agent is gone.
const SETTLED: Duration = Duration::from_secs(5);
/// How long trees without a directory may hold up the start.
const STRAYS: Duration = Duration::from_secs(10);
/// Changes that wait to be fetched. More wait in their tasks: who is slow to ask delays the telling, not the killing.
const CHANGES: usize = 64;

/// What was found in one attempt directory.
#[derive(Debug)]
pub struct Leftover {
    /// The attempt directory. The caller removes it once the attempt is gone and reported.
    pub dir: PathBuf,
    /// The job.
    pub job: String,
    /// The fencing token.
    pub token: u64,
    /// How far it had come.
    pub found: Found,
}

/// How far an attempt of an earlier agent had come.
#[derive(Debug)]
pub enum Found {
    /// Its command has ended; the record is whole. What is left of its tree is being ended.
    Ended(Box<ExitRecord>),
    /// It may have started and has no record yet: it is being ended.
    Stopping,
    /// It never started, and will not: a return.
    NeverStarted,
}

/// What came of it.
#[derive(Debug)]
pub enum Change {
    /// Nothing is left of the tree. Each leftover has exactly one, sooner or later.
    Gone {
        /// The fencing token.
        token: u64,
        /// How the command ended, if a shim has written it down: before the scan or since. Without one nobody
        /// knows: a loss, unless it was found as `NeverStarted`.
        record: Option<Box<ExitRecord>>,
    },
    /// It is still there after 60 s of SIGKILL, which goes on. At most one each.
    Unkillable {
        /// The fencing token.
        token: u64,
    },
}

/// Where to look.
#[derive(Debug, Clone)]
pub struct Options {
    /// The agent's state directory, as given to `shim::Options`. No copy of another: what a copy records is not its
    /// own to kill.
    pub state_dir: PathBuf,
    /// The directory whose entries are attempt directories. It may be missing.
    pub attempts_dir: PathBuf,
}

/// The ending of everything that was found. Dropped, the agent's part of it ends; shims go on.
#[derive(Debug)]
pub struct Leftovers {
    tasks: JoinSet<()>,
    changes: mpsc::Receiver<Change>,
}

/// Why the scan failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Something that must be readable is not.
    #[error("cannot read {}", path.display())]
    Read {
        /// Which path.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The scan itself ended early.
    #[error("the scan for leftovers ended early")]
    Scan(#[source] tokio::task::JoinError),
}

/// Looks at every attempt directory and begins to end what still lives. Processes with our tag but without a
/// directory are killed before it answers, since nobody can list them. Answers when everything is known, not when
/// everything is gone. Directories without a readable `state` or `exit` file (never started, job unknown) are
/// removed.
pub async fn scan(options: &Options) -> Result<(Vec<Leftover>, Leftovers), Error> {
    let Options { state_dir, attempts_dir } = options.clone();
    let look = move || -> Result<_, Error> {
        let owner = Owner::of(&state_dir).map_err(|source| Error::Read { path: state_dir, source })?;
        Ok((owner, look(&attempts_dir)?))
    };
    let (owner, remains) = tokio::task::spawn_blocking(look).await.map_err(Error::Scan)??;
    let known =
        remains.iter().filter_map(|remain| remain.state.as_ref()).map(|state| state.tag.clone()).collect();
    kill_strays(owner, known).await?;

    let (sender, changes) = mpsc::channel(CHANGES);
    let mut tasks = JoinSet::new();
    let mut leftovers = Vec::new();
    for remain in remains {
        leftovers.push(remain.leftover());
        tasks.spawn(finish(remain, sender.clone()));
    }
    Ok((leftovers, Leftovers { tasks, changes }))
}

impl Leftovers {
    /// The next change; `None` once everything is gone and told. Cancel-safe.
    pub async fn next(&mut self) -> Option<Change> {
        let change = self.changes.recv().await;
        while let Some(end) = self.tasks.try_join_next() {
            if let Err(error) = end {
                tracing::error!(error = %crate::Chain(&error), "the ending of a leftover ended early; its slots stay taken");
            }
        }
        change
    }
}

/// One attempt directory, as it was found.
struct Remain {
    dir: PathBuf,
    job: String,
    token: u64,
    state: Option<State>,
    record: Option<Box<ExitRecord>>,
    /// The state belongs to this boot: its pids mean something.
    same_boot: bool,
}

impl Remain {
    fn leftover(&self) -> Leftover {
        let lives = self.same_boot && self.state.as_ref().is_some_and(|state| state.shim.is_alive());
        let started = self.state.as_ref().is_none_or(|state| state.child.is_some());
        let found = match &self.record {
            Some(record) => Found::Ended(record.clone()),
            None if started || lives => Found::Stopping,
            None => Found::NeverStarted,
        };
        Leftover { dir: self.dir.clone(), job: self.job.clone(), token: self.token, found }
    }
}

fn look(attempts_dir: &Path) -> Result<Vec<Remain>, Error> {
    let unreadable = |path: &Path, source| Error::Read { path: path.to_owned(), source };
    let boot_id =
        tree::boot_id().map_err(|source| unreadable(Path::new("/proc/sys/kernel/random/boot_id"), source))?;
    let entries = match fs::read_dir(attempts_dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(attempts_dir, error)),
    };
    let mut remains = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| unreadable(attempts_dir, error))?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remains.extend(look_at(entry.path(), &boot_id));
        }
    }
    Ok(remains)
}

fn look_at(dir: PathBuf, boot_id: &str) -> Option<Remain> {
    let state = settled_state(&dir, boot_id);
    let record = said(ExitRecord::read(&dir), &dir).filter(|record| record.version == crate::shim::VERSION);
    let name = match (&state, &record) {
        (Some(state), _) => Some((state.job.clone(), state.token)),
        (None, Some(record)) => Some((record.job.clone(), record.token)),
        (None, None) => None,
    };
    let Some((job, token)) = name else {
        if let Err(error) = fs::remove_dir_all(&dir) {
            tracing::warn!(dir = %dir.display(), %error, "an attempt directory without a state cannot be removed");
        }
        return None;
    };
    let record = record.filter(|record| record.token == token).map(Box::new);
    let same_boot = state.as_ref().is_some_and(|state| state.boot_id == boot_id);
    Some(Remain { dir, job, token, state, record, same_boot })
}

/// The state once it says for good whether the command was started: a shim that was not told to go leaves as soon as
/// it sees that its agent is gone, and one that was notes the child before the command runs.
fn settled_state(dir: &Path, boot_id: &str) -> Option<State> {
    let deadline = Clock::Monotonic.now() + SETTLED;
    loop {
        let state = said(State::read(dir), dir).filter(|state| state.version == crate::shim::VERSION)?;
        let open = state.child.is_none() && state.boot_id == boot_id && state.shim.is_alive();
        if !open || Clock::Monotonic.now() >= deadline {
            return Some(state);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A file that cannot be read says nothing; its processes are found by their tag.
fn said<T>(read: io::Result<Option<T>>, dir: &Path) -> Option<T> {
    read.unwrap_or_else(|error| {
        tracing::error!(dir = %dir.display(), %error, "a file of an attempt cannot be read");
        None
    })
}

/// SIGKILL to every process of ours that no state file stands for, until two looks in a row find none.
async fn kill_strays(owner: Owner, known: BTreeSet<crate::shim::tag::Tag>) -> Result<(), Error> {
    let deadline = Clock::Monotonic.now() + STRAYS;
    let mut empty = 0;
    while empty < 2 {
        let (owner, known) = (owner.clone(), known.clone());
        let round = move || -> io::Result<usize> {
            let strays = tree::strays(&owner, &known)?;
            for stray in &strays {
                tracing::warn!(pid = stray.pid, "killing a process of an attempt whose directory is gone");
                stray.signal(Signal::KILL).ok();
            }
            Ok(strays.len())
        };
        let found = tokio::task::spawn_blocking(round).await.map_err(Error::Scan)?;
        let found = found.map_err(|source| Error::Read { path: PathBuf::from("/proc"), source })?;
        empty = if found == 0 { empty + 1 } else { 0 };
        if found > 0 {
            if Clock::Monotonic.now() >= deadline {
                tracing::error!(found, "processes of attempts whose directories are gone cannot be killed");
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    Ok(())
}

/// Ends one attempt: asks its shim, then does without it.
async fn finish(remain: Remain, changes: mpsc::Sender<Change>) {
    let token = remain.token;
    if let Some(state) = remain.state.as_ref().filter(|_| remain.same_boot) {
        dismiss(state).await;
        let mut killer = Killer::start(state.tree(), state.clock);
        while killer.next().await == Word::Unkillable {
            // A caller that has gone needs no word; the killing goes on.
            changes.send(Change::Unkillable { token }).await.ok();
        }
    }
    // It may be newer than the scan.
    let record = ExitRecord::read(&remain.dir).ok().flatten().filter(|it| it.token == token).map(Box::new);
    changes.send(Change::Gone { token, record: record.or(remain.record) }).await.ok();
}

/// Asks a shim that lives to stop its job and leave, waits for that, and kills it if it does not.
async fn dismiss(state: &State) {
    let deadline = state.clock.now() + state.grace + LATE;
    let mut pause = Duration::from_millis(5);
    if state.shim.is_alive() {
        state.shim.signal(Signal::TERM).ok();
        state.shim.signal(Signal::CONT).ok();
    }
    while state.shim.is_alive() {
        if state.clock.now() >= deadline {
            tracing::warn!(
                job.id = state.job,
                lease.token = state.token,
                "a shim of an earlier agent is late; it is killed"
            );
            state.shim.signal(Signal::KILL).ok();
            return;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(200));
    }
}
