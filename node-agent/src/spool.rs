//! Reports that must not be lost: one file each, from before it is sent until the server has answered it.
//!
//! Responsible for `finished` and `returned{started}` on the disk: synced before they are said, read again for every
//! replay, deleted when answered. Not responsible for when a report is sent (`holdings.rs`). All methods block on the
//! disk; async callers use a blocking thread.
//!
//! Invariants: what [`Spool::write`] calls durable survives a crash; the files never pass the bound; a report that
//! cannot be written is kept in memory and makes the spool refuse more.

mod reserve;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use prost::Message as _;
use tenure_proto::node::v1::{Report, report::Event};

use self::reserve::Reserve;
use crate::holdings::{End, FencingToken, Unstored};
use crate::passing::may_pass;

/// Before the encoded report: the version of the format.
const MAGIC: &[u8] = b"tenure report 1\n";
/// The largest report: the state of who detaches (or an inline result), a checkpoint, the ids of ten thousand children, an
/// error text, and some room.
const LARGEST: u64 = 1 << 20;
/// Reports set aside that are kept for a person to look at; of more, the oldest go.
const MOST_BROKEN: usize = 256;
const BROKEN: &str = "broken";
const SUFFIX: &str = "report";

/// Where, and how much.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory. It exists.
    pub dir: PathBuf,
    /// All files together, in bytes.
    pub max_bytes: u64,
    /// Kept allocated, so that reports can be written when the disk is full, in bytes. 0: nothing.
    pub reserve_bytes: u64,
}

impl Options {
    /// In `dir`, with the default bounds: 1 GiB, 64 MiB of it allocated in advance.
    pub fn new(dir: PathBuf) -> Self {
        Self { dir, max_bytes: 1 << 30, reserve_bytes: 64 << 20 }
    }
}

/// The reports that wait for an answer.
#[derive(Debug)]
pub struct Spool {
    options: Options,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    entries: BTreeMap<FencingToken, Entry>,
    /// Bytes of all files.
    used: u64,
    reserve: Reserve,
}

#[derive(Debug)]
struct Entry {
    unstored: Unstored,
    bytes: u64,
    /// Set if it could not be written.
    memory: Option<Report>,
}

/// Whether a report will survive a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is on the disk.
    Durable,
    /// The disk said no: it is sent from memory, and nothing new is accepted until it is answered.
    InMemory,
}

/// Why the spool cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The disk says no.
    #[error("cannot {what} {}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On which path.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A file holds no report.
    #[error("{} holds no report", path.display())]
    Broken {
        /// Which file.
        path: PathBuf,
    },
}

impl Error {
    /// Whether the report may be sound all the same.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Self::Io { source, .. } if may_pass(source))
    }
}

impl Spool {
    /// Reads what an earlier agent left. A file that holds no report is set aside, with an error in the log.
    ///
    /// # Errors
    /// If the directory cannot be read or written.
    pub fn open(options: Options) -> Result<Self, Error> {
        let broken = options.dir.join(BROKEN);
        fs::create_dir_all(&broken).map_err(failed("create", &broken))?;
        let mut state = State { entries: BTreeMap::new(), used: 0, reserve: Reserve::new(&options) };
        for entry in fs::read_dir(&options.dir).map_err(failed("read", &options.dir))? {
            let path = entry.map_err(failed("read", &options.dir))?.path();
            match path.extension().and_then(|suffix| suffix.to_str()) {
                Some("tmp") => fs::remove_file(&path).map_err(failed("remove", &path))?,
                Some(SUFFIX) => match load(&path) {
                    Ok((token, unstored, bytes)) => {
                        state.used += bytes;
                        state.entries.insert(token, Entry { unstored, bytes, memory: None });
                    }
                    Err(error) if error.may_pass() => return Err(error),
                    Err(error) => {
                        tracing::error!(%error, "a spooled report is broken; it is set aside");
                        move_aside(&options.dir, &path)?;
                    }
                },
                Some(_) | None => {}
            }
        }
        state.reserve.fill();
        Ok(Self { options, state: Mutex::new(state) })
    }

    /// Everything that waits for an answer.
    pub fn unstored(&self) -> BTreeMap<FencingToken, Unstored> {
        self.state().entries.iter().map(|(&token, entry)| (token, entry.unstored.clone())).collect()
    }

    /// Whether the end of this lease is known already.
    pub fn contains(&self, token: FencingToken) -> bool {
        self.state().entries.contains_key(&token)
    }

    /// Whether one more lease may be accepted while `live` are held: each will leave a report, and all must fit.
    pub fn has_room(&self, live: usize) -> bool {
        let state = self.state();
        let promised = LARGEST.saturating_mul(u64::try_from(live).unwrap_or(u64::MAX).saturating_add(1));
        let in_memory = state.entries.values().any(|entry| entry.memory.is_some());
        !in_memory && state.used.saturating_add(promised) <= self.options.max_bytes
    }

    /// Bytes of all files.
    pub fn used_bytes(&self) -> u64 {
        self.state().used
    }

    /// The bound of [`Spool::used_bytes`].
    pub fn max_bytes(&self) -> u64 {
        self.options.max_bytes
    }

    /// Keeps a report until it is answered. The first one about a lease stands. A report that is neither `finished`
    /// nor `returned` is not kept.
    pub fn write(&self, report: &Report) -> Written {
        let Some((token, unstored)) = describe(report) else { return Written::Durable };
        if self.contains(token) {
            return Written::Durable;
        }
        #[cfg(feature = "failpoints")]
        fail::fail_point!("spool::before_write", |_| std::process::abort());
        let mut bytes = MAGIC.to_vec();
        bytes.extend(report.encode_to_vec());
        let path = self.path(token);
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        // The disk is used without the lock: a slow sync of one report must not hold up the others.
        let stored = if self.state().used.saturating_add(size) > self.options.max_bytes {
            Err(io::Error::from(io::ErrorKind::QuotaExceeded))
        } else {
            store(&self.options.dir, &path, &bytes)
                .or_else(|error| self.store_on_reserve(error, &path, &bytes))
        };
        // On the disk, and said to nobody.
        #[cfg(feature = "failpoints")]
        fail::fail_point!("spool::after_write", |_| std::process::abort());
        let mut state = self.state();
        match stored {
            Ok(()) => {
                state.used += size;
                state.entries.insert(token, Entry { unstored, bytes: size, memory: None });
                Written::Durable
            }
            Err(error) => {
                tracing::error!(lease.token = token.0, %error, "a report cannot be spooled; it is sent from memory");
                state.entries.insert(token, Entry { unstored, bytes: 0, memory: Some(report.clone()) });
                Written::InMemory
            }
        }
    }

    /// Reads a report again, to send it. None if it was answered meanwhile.
    ///
    /// # Errors
    /// If the file cannot be read or holds no report.
    pub fn read(&self, token: FencingToken) -> Result<Option<Report>, Error> {
        match self.state().entries.get(&token) {
            None => return Ok(None),
            Some(Entry { memory: Some(report), .. }) => return Ok(Some(report.clone())),
            Some(Entry { memory: None, .. }) => {}
        }
        decode(&self.path(token)).map(Some)
    }

    /// Deletes an answered report.
    ///
    /// # Errors
    /// If the file cannot be deleted; it is then said again by the next agent.
    pub fn remove(&self, token: FencingToken) -> Result<(), Error> {
        let Some(entry) = self.state().entries.remove(&token) else { return Ok(()) };
        if entry.memory.is_none() {
            let path = self.path(token);
            fs::remove_file(&path).map_err(failed("remove", &path))?;
        }
        let mut state = self.state();
        state.used = state.used.saturating_sub(entry.bytes);
        state.reserve.fill();
        Ok(())
    }

    /// Puts a report that the server cannot store where a person finds it.
    ///
    /// # Errors
    /// If the file cannot be moved.
    pub fn set_aside(&self, token: FencingToken) -> Result<(), Error> {
        let Some(entry) = self.state().entries.remove(&token) else { return Ok(()) };
        if entry.memory.is_none() {
            move_aside(&self.options.dir, &self.path(token))?;
            let mut state = self.state();
            state.used = state.used.saturating_sub(entry.bytes);
        }
        Ok(())
    }

    fn store_on_reserve(&self, error: io::Error, path: &Path, bytes: &[u8]) -> io::Result<()> {
        if error.kind() != io::ErrorKind::StorageFull || !self.state().reserve.release() {
            return Err(error);
        }
        tracing::warn!("the disk is full; the spool uses its reserve");
        store(&self.options.dir, path, bytes)
    }

    fn path(&self, token: FencingToken) -> PathBuf {
        self.options.dir.join(format!("{token}.{SUFFIX}"))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes beside, syncs, renames, syncs the directory.
fn store(dir: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("tmp");
    let written = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside);
    let written = written.and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    let written = written.and_then(|()| fs::rename(&beside, path)).and_then(|()| File::open(dir)?.sync_all());
    written.inspect_err(|_| drop(fs::remove_file(&beside)))
}

fn load(path: &Path) -> Result<(FencingToken, Unstored, u64), Error> {
    let report = decode(path)?;
    let bytes = fs::metadata(path).map_err(failed("look at", path))?.len();
    let (token, unstored) = describe(&report).ok_or_else(|| Error::Broken { path: path.to_owned() })?;
    let named = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok());
    if named != Some(token.0) {
        return Err(Error::Broken { path: path.to_owned() });
    }
    Ok((token, unstored, bytes))
}

fn decode(path: &Path) -> Result<Report, Error> {
    let bytes = fs::read(path).map_err(failed("read", path))?;
    let report = bytes.strip_prefix(MAGIC).and_then(|bytes| Report::decode(bytes).ok());
    report.ok_or_else(|| Error::Broken { path: path.to_owned() })
}

fn describe(report: &Report) -> Option<(FencingToken, Unstored)> {
    let end = match report.event.as_ref()? {
        Event::Finished(_) => End::Finished,
        Event::Returned(_) => End::Returned,
        Event::Accepted(_)
        | Event::Started(_)
        | Event::Progress(_)
        | Event::Checkpoint(_)
        | Event::Reaped(_) => return None,
    };
    Some((FencingToken(report.token), Unstored { job: report.job_id.clone(), end }))
}

fn move_aside(dir: &Path, path: &Path) -> Result<(), Error> {
    let broken = dir.join(BROKEN);
    let target = broken.join(path.file_name().unwrap_or_default());
    fs::rename(path, &target).map_err(failed("set aside", path))?;
    let mut kept: Vec<_> = fs::read_dir(&broken)
        .map_err(failed("read", &broken))?
        .filter_map(|entry| {
            let entry = entry.ok()?;
            Some((entry.metadata().ok()?.modified().ok()?, entry.path()))
        })
        .collect();
    kept.sort();
    for (_, oldest) in kept.iter().rev().skip(MOST_BROKEN) {
        fs::remove_file(oldest).map_err(failed("remove", oldest))?;
    }
    Ok(())
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |source| Error::Io { what, path, source }
}

#[cfg(test)]
mod tests {
    use tenure_proto::node::v1::{Checkpoint, Detach, Finished, Reaped, ResultBytes, Returned};

    use super::*;

    fn options(dir: &Path, max_bytes: u64) -> Options {
        Options { dir: dir.to_owned(), max_bytes, reserve_bytes: 1 << 20 }
    }

    fn finished(token: u64, error: &str) -> Report {
        let event = Event::Finished(Finished { error: error.to_owned(), ..Finished::default() });
        Report { job_id: format!("job-{token}"), token, event: Some(event) }
    }

    #[test]
    fn a_report_outlives_the_agent_until_it_is_answered() {
        let dir = tempfile::tempdir().unwrap();
        let spool = Spool::open(options(dir.path(), 1 << 30)).unwrap();
        let report = finished(7, "no luck");
        assert_eq!(spool.write(&report), Written::Durable);
        drop(spool);
        let spool = Spool::open(options(dir.path(), 1 << 30)).unwrap();
        let expected = Unstored { job: "job-7".to_owned(), end: End::Finished };
        assert_eq!(spool.unstored(), BTreeMap::from([(FencingToken(7), expected)]));
        assert_eq!(spool.read(FencingToken(7)).unwrap(), Some(report));
        spool.remove(FencingToken(7)).unwrap();
        assert_eq!(spool.read(FencingToken(7)).unwrap(), None);
        assert_eq!(spool.used_bytes(), 0);
        assert!(Spool::open(options(dir.path(), 1 << 30)).unwrap().unstored().is_empty());
    }

    #[test]
    fn the_first_report_about_a_lease_stands_and_others_are_not_kept() {
        let dir = tempfile::tempdir().unwrap();
        let spool = Spool::open(options(dir.path(), 1 << 30)).unwrap();
        spool.write(&finished(1, "first"));
        let returned = Event::Returned(Returned { started: true, ..Returned::default() });
        spool.write(&Report { job_id: "job-1".to_owned(), token: 1, event: Some(returned) });
        assert_eq!(spool.read(FencingToken(1)).unwrap(), Some(finished(1, "first")));
        spool.write(&Report { job_id: "x".to_owned(), token: 2, event: Some(Event::Reaped(Reaped {})) });
        assert!(!spool.contains(FencingToken(2)));
    }

    #[test]
    fn the_largest_report_is_no_larger_than_what_is_promised_to_each_lease() {
        let (kib256, id) = (256 << 10, "01900000-0000-7000-8000-000000000001".to_owned());
        let finished = Finished {
            error: "x".repeat(4 << 10),
            cause: "x".repeat(64),
            usage: (0..16).map(|number| (format!("{number:063}"), u64::MAX)).collect(),
            result: Some(ResultBytes { data: vec![0; kib256].into(), content_type: "x".repeat(255) }),
            checkpoint: Some(Checkpoint { data: vec![0; kib256].into() }),
            detach: Some(Detach { job_ids: vec![id.clone(); 10_000], ..Detach::default() }),
            ..Finished::default()
        };
        let report = Report { job_id: id.clone(), token: 1, event: Some(Event::Finished(finished)) };
        assert!(u64::try_from(MAGIC.len() + report.encoded_len()).unwrap() <= LARGEST);
    }

    #[test]
    fn a_full_spool_refuses_leases_first_and_then_keeps_reports_in_memory() {
        let dir = tempfile::tempdir().unwrap();
        let spool = Spool::open(options(dir.path(), 2 * LARGEST)).unwrap();
        assert!(spool.has_room(0) && spool.has_room(1) && !spool.has_room(2));
        spool.write(&finished(1, "small"));
        assert!(spool.has_room(0) && !spool.has_room(1));
        let tiny = Spool::open(options(&dir.path().join(BROKEN), 10)).unwrap();
        assert_eq!(tiny.write(&finished(2, "kept")), Written::InMemory);
        assert_eq!(tiny.read(FencingToken(2)).unwrap(), Some(finished(2, "kept")));
        assert!(!tiny.has_room(0));
        tiny.remove(FencingToken(2)).unwrap();
        assert!(tiny.unstored().is_empty());
    }

    #[test]
    fn what_cannot_be_stored_or_read_is_set_aside() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("5.report"), b"garbage").unwrap();
        fs::write(dir.path().join("6.tmp"), b"torn").unwrap();
        let spool = Spool::open(options(dir.path(), 1 << 30)).unwrap();
        assert!(spool.unstored().is_empty());
        spool.write(&finished(9, "broken"));
        spool.set_aside(FencingToken(9)).unwrap();
        assert!(spool.unstored().is_empty());
        let mut names: Vec<_> =
            fs::read_dir(dir.path().join(BROKEN)).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["5.report", "9.report"]);
    }
}
