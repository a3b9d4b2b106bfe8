//! One look at every attempt directory: what its files say.
//!
//! Responsible for reading state and exit files, and for what they mean together. Not responsible for what is done about
//! it (`leftovers.rs`).
//! Invariants: pids of another boot mean nothing; what a copy records of the original's processes is forgotten first.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Error, Found, Leftover, Options};
use crate::clock::Clock;
use crate::output::Captured;
use crate::passing::may_pass;
use crate::shim::files::{STATE, State};
use crate::shim::{Cause, ExitRecord, OLDEST, OLDEST_ADOPTED, VERSION};

/// How long a shim may take to see that its agent is gone.
const SETTLED: Duration = Duration::from_secs(5);

/// One attempt directory, as it was found.
pub(super) struct Remain {
    pub(super) dir: PathBuf,
    job: String,
    pub(super) token: u64,
    pub(super) state: Option<State>,
    pub(super) record: Option<Box<ExitRecord>>,
    /// The state belongs to this boot: its pids mean something.
    pub(super) ours: bool,
    /// Nothing of it can live here.
    gone: bool,
    /// There is no time to ask its shim.
    pub(super) at_once: bool,
    /// The clock of this agent's deadlines.
    clock: Clock,
}

impl Remain {
    /// The state by which its shim can be taken over: it lives, it was told to go, and it speaks the same language on the
    /// same clock.
    pub(super) fn to_adopt(&self) -> Option<&State> {
        let state = self.state.as_ref().filter(|_| self.ours)?;
        let speaks = (OLDEST_ADOPTED..=VERSION).contains(&state.version)
            && state.clock == self.clock
            && state.child.is_some();
        (speaks && state.shim.is_alive()).then_some(state)
    }

    /// How far it had come, if it is not taken over.
    pub(super) fn found(&self) -> Found {
        let lives = self.state.as_ref().is_some_and(|state| state.shim.is_alive());
        let started = self.state.as_ref().is_none_or(|state| state.child.is_some());
        match &self.record {
            Some(record) => Found::Ended(record.clone()),
            None if !self.ours => Found::Elsewhere,
            None if started || lives => Found::Stopping,
            None => Found::NeverStarted,
        }
    }

    /// The record of an attempt whose shim left before it noted a child: it never started, whatever it was taken for.
    pub(super) fn never_started(&self) -> Option<Box<ExitRecord>> {
        let state = State::read(&self.dir).ok().flatten().filter(|state| state.token == self.token)?;
        let ended = self.ours && state.child.is_none() && !state.shim.is_alive();
        let error = "its agent and its shim ended before the command was started".to_owned();
        let record = ExitRecord {
            version: VERSION,
            job: self.job.clone(),
            token: self.token,
            started: false,
            cause: Cause::Terminated,
            exit_code: None,
            signal: None,
            error,
            ran_for: Duration::ZERO,
            stdout: Captured::default(),
            stderr: Captured::default(),
            notified: false,
        };
        ended.then(|| Box::new(record))
    }

    pub(super) fn leftover(&self, found: Found) -> Leftover {
        Leftover { dir: self.dir.clone(), job: self.job.clone(), token: self.token, found, gone: self.gone }
    }
}

/// Every attempt directory. Blocks.
pub(super) fn look(options: &Options) -> Result<Vec<Remain>, Error> {
    let unreadable = |path: &Path, source| Error::Read { path: path.to_owned(), source };
    let attempts_dir = &options.attempts_dir;
    let entries = match fs::read_dir(attempts_dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(attempts_dir, error)),
    };
    let mut remains = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| unreadable(attempts_dir, error))?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remains.extend(look_at(entry.path(), options)?);
        }
    }
    Ok(remains)
}

fn look_at(dir: PathBuf, options: &Options) -> Result<Option<Remain>, Error> {
    if options.copy {
        forget(&dir)?;
    }
    let state = settled_state(&dir, options)?;
    let record =
        said(ExitRecord::read(&dir), &dir)?.filter(|record| (OLDEST..=VERSION).contains(&record.version));
    let name = match (&state, &record) {
        (Some(state), _) => Some((state.job.clone(), state.token)),
        (None, Some(record)) => Some((record.job.clone(), record.token)),
        (None, None) => None,
    };
    let Some((job, token)) = name else {
        if let Err(error) = fs::remove_dir_all(&dir) {
            tracing::warn!(dir = %dir.display(), %error, "an attempt directory without a state cannot be removed");
        }
        return Ok(None);
    };
    let record = record.filter(|record| record.token == token).map(Box::new);
    let ours = state.as_ref().is_some_and(|state| is_ours(state, options));
    let gone = options.copy || state.is_some() && !ours;
    let (at_once, clock) = (options.end_all, options.clock);
    Ok(Some(Remain { dir, job, token, state, record, ours, gone, at_once, clock }))
}

/// The state once it says for good whether the command was started: a shim that was not told to go leaves as soon as
/// it sees that its agent is gone, and one that was notes the child before the command runs.
fn settled_state(dir: &Path, options: &Options) -> Result<Option<State>, Error> {
    let deadline = Clock::Monotonic.now() + SETTLED;
    loop {
        // Of a newer agent, too, if it can be read at all: it is ended, as it cannot be taken over.
        let Some(state) = said(State::read(dir), dir)? else { return Ok(None) };
        let open = state.child.is_none() && is_ours(&state, options) && state.shim.is_alive();
        if !open || Clock::Monotonic.now() >= deadline {
            return Ok(Some(state));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn is_ours(state: &State, options: &Options) -> bool {
    state.boot_id == options.boot_id
}

/// Removes the state file of a copied attempt: its processes are the original's. How it ended, if it has, is as true here.
fn forget(dir: &Path) -> Result<(), Error> {
    let path = dir.join(STATE);
    match fs::remove_file(&path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(Error::Forget { path, source }),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// A file that cannot be read says nothing; its processes are found by their tag. But for one that may be read a moment
/// later: what it is about may run soundly.
fn said<T>(read: io::Result<Option<T>>, dir: &Path) -> Result<Option<T>, Error> {
    read.or_else(|error| {
        if may_pass(&error) {
            return Err(Error::Read { path: dir.to_owned(), source: error });
        }
        tracing::error!(dir = %dir.display(), %error, "a file of an attempt cannot be read");
        Ok(None)
    })
}
