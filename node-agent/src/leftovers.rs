//! What an earlier agent left: attempt directories, exit records, shims, process trees.
//!
//! Responsible for the scan at the agent's start, before Hello: for taking over each shim that answers, and for ending
//! what has none, after it. Not responsible for reporting: the caller learns each attempt, and when it is gone.
//! Invariant: a process is killed only if it carries the tag of an attempt of this state directory, is in a cgroup made
//! for one, or belongs to a shim recorded in it under the same boot, pid and start time; nothing is killed that a copy of
//! another directory records.

mod look;

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use self::look::Remain;
use crate::cgroup::Subtree;
use crate::clock::{Clock, Mono};
use crate::shim::files::State;
use crate::shim::killer::{Killer, Word};
use crate::shim::tag::Owner;
use crate::shim::tree;
use crate::shim::{self, ExitRecord, Shim};

/// What a shim may need beyond its grace to end its tree and itself.
const LATE: Duration = Duration::from_secs(10);
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
    /// Nothing of it can live here: it is of another boot, or copied.
    pub gone: bool,
}

/// A shim that was taken over: its attempt goes on.
#[derive(Debug)]
pub struct Adopted {
    /// From now on this agent's. What is over already, its `next` says.
    pub shim: Shim,
    /// When everything will be gone.
    pub gone_by: Mono,
    /// When its command was executed. None: it was not, or not yet.
    pub started: Option<Mono>,
    /// It is being stopped, whatever is said now.
    pub stopping: bool,
    /// Its whole lease.
    pub lease: Duration,
    /// Between SIGTERM and SIGKILL.
    pub grace: Duration,
}

/// How far an attempt of an earlier agent had come.
#[derive(Debug)]
pub enum Found {
    /// Its shim lives and has answered: it goes on as if nothing had been. No change follows.
    Adopted(Box<Adopted>),
    /// Its command has ended; the record is whole. What is left of its tree is being ended.
    Ended(Box<ExitRecord>),
    /// It may have started, has no record yet, and its shim cannot be taken over: it is being ended.
    Stopping,
    /// Of another boot and without a record: nothing is known of it, and nothing done. Its lease runs out, for a host that
    /// was copied while it ran may be the one on which it does.
    Elsewhere,
    /// It never started, and will not: a return.
    NeverStarted,
}

/// What came of it.
#[derive(Debug)]
pub enum Change {
    /// Nothing is left of the tree. Each leftover but an adopted one has exactly one, sooner or later.
    Gone {
        /// The fencing token.
        token: u64,
        /// How the command ended, if a shim has written it down: before the scan or since. Without one nobody
        /// knows: a loss, unless it was found as `NeverStarted` or `Elsewhere`.
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
    /// The agent's state directory, as given to `shim::Options`.
    pub state_dir: PathBuf,
    /// The directory whose entries are attempt directories. It may be missing.
    pub attempts_dir: PathBuf,
    /// The boot that this agent is of.
    pub boot_id: String,
    /// The clock of this agent's deadlines: shims of another one are not taken over.
    pub clock: Clock,
    /// The state directory is a copy of another: what it records of processes is the original's, and is forgotten.
    pub copy: bool,
    /// Nothing is taken over, and nobody is asked first: what runs may be what killed the agents before this one.
    pub end_all: bool,
    /// What held the attempts together. What of it no state file stands for is ended.
    pub cgroups: Subtree,
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
    /// What a copied directory records of the original's processes cannot be forgotten.
    #[error("cannot remove {}, which a copy must not have", path.display())]
    Forget {
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

/// Looks at every attempt directory, takes over what has a shim that answers, and begins to end what still lives
/// otherwise. Processes and cgroups of ours without a state file are killed before it answers, since nobody can list them.
/// Answers when everything is known, not when everything is gone. Directories without a readable `state` or `exit` file
/// (never started, job unknown) are removed.
pub async fn scan(options: &Options) -> Result<(Vec<Leftover>, Leftovers), Error> {
    let (options, end_all) = (options.clone(), options.end_all);
    let looked = options.clone();
    let look = move || -> Result<_, Error> {
        let state_dir = looked.state_dir.clone();
        let owner = Owner::of(&state_dir).map_err(|source| Error::Read { path: state_dir, source })?;
        Ok((owner, look::look(&looked)?))
    };
    let (owner, remains) = tokio::task::spawn_blocking(look).await.map_err(Error::Scan)??;
    let states = || remains.iter().filter_map(|remain| remain.state.as_ref());
    let known = states().map(|state| state.tag.clone()).collect();
    let kept = states().map(|state| state.token).collect();
    tokio::try_join!(kill_strays(owner, known), end_strays(options.cgroups, kept))?;

    let (sender, changes) = mpsc::channel(CHANGES);
    let mut tasks = JoinSet::new();
    let mut leftovers = Vec::new();
    let mut attaching = JoinSet::new();
    for remain in remains {
        attaching.spawn(async move {
            let adopted = if end_all { None } else { take_over(&remain).await };
            (adopted, remain)
        });
    }
    while let Some(attached) = attaching.join_next().await {
        let (adopted, remain) = attached.map_err(Error::Scan)?;
        if let Some(adopted) = adopted {
            leftovers.push(remain.leftover(Found::Adopted(Box::new(adopted))));
        } else {
            let found = remain.found();
            let may_have_started = matches!(found, Found::Stopping);
            leftovers.push(remain.leftover(found));
            tasks.spawn(finish(remain, may_have_started, sender.clone()));
        }
    }
    Ok((leftovers, Leftovers { tasks, changes }))
}

/// Takes over the shim of an attempt, if there is one and it answers.
async fn take_over(remain: &Remain) -> Option<Adopted> {
    let state = remain.to_adopt()?;
    match shim::attach(state, &remain.dir).await {
        Ok(taken) => Some(Adopted {
            shim: taken.shim,
            gone_by: taken.gone_by,
            started: taken.started,
            stopping: taken.stopping,
            lease: state.lease,
            grace: state.grace,
        }),
        Err(error) => {
            let error = crate::Chain(&error).to_string();
            // One that has just ended is no trouble: its record says how.
            tracing::warn!(
                job.id = state.job,
                lease.token = state.token,
                error,
                "an attempt is not taken over"
            );
            None
        }
    }
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

/// The same for every cgroup, which also holds what has cleared its environment. Only what was kept is looked after.
async fn end_strays(cgroups: Subtree, kept: BTreeSet<u64>) -> Result<(), Error> {
    let ended = tokio::task::spawn_blocking(move || cgroups.end_strays(&kept));
    ended.await.map(drop).map_err(Error::Scan)
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

/// Ends one attempt: asks its shim, unless there is no time for that, then does without it. `may_have_started`: it was
/// listed as stopping; if its shim leaves without a child, it never started after all.
async fn finish(remain: Remain, may_have_started: bool, changes: mpsc::Sender<Change>) {
    let token = remain.token;
    if let Some(state) = remain.state.as_ref().filter(|_| remain.ours) {
        if remain.at_once {
            // Its command goes with it, by its death signal. One that has ended is what we want.
            state.shim.signal(Signal::KILL).ok();
        } else {
            dismiss(state).await;
        }
        let mut killer = Killer::start(state.tree(), state.clock);
        while killer.next().await == Word::Unkillable {
            // A caller that has gone needs no word; the killing goes on.
            changes.send(Change::Unkillable { token }).await.ok();
        }
    }
    // It may be newer than the scan.
    let record = ExitRecord::read(&remain.dir).ok().flatten().filter(|it| it.token == token).map(Box::new);
    let never = || remain.never_started().filter(|_| may_have_started);
    let record = record.or_else(never).or(remain.record);
    changes.send(Change::Gone { token, record }).await.ok();
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
