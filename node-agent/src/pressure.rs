//! Pressure: what the host has no room for, now.
//!
//! Responsible for sampling in time and for publishing what the rules say. Not responsible for refusing grants:
//! the session asks [`Handle::reading`], and the scheduler is told by heartbeat.
//! Invariants: no read of a file can hold up the agent: one that hangs makes its signals unknown; a signal that no
//! rule uses is not read.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(any(target_os = "macos", test))]
#[cfg_attr(
    not(target_os = "macos"),
    expect(dead_code, reason = "elsewhere only its parsers are used, by tests")
)]
mod macos;
pub mod rules;
pub mod settings;
pub mod signals;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::geteuid;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, Mono};
use crate::own_rule::OwnRule;
#[cfg(target_os = "linux")]
use linux as host;
#[cfg(target_os = "macos")]
use macos as host;
use rules::{ClosedGroup, KindFacts, Reading, Rules};
use settings::{Settings, Users};
use signals::{Key, Samples, Value};

/// Every process is looked at in every so many samples.
const TASKS_EVERY: u32 = 5;

/// What to watch.
#[derive(Debug, Clone)]
pub struct Options {
    /// The node file's `[pressure]`.
    pub settings: Settings,
    /// The kinds of the node file.
    pub kinds: BTreeMap<String, KindFacts>,
    /// Directories whose file systems must have room: work, logs, temporary files.
    pub dirs: Vec<PathBuf>,
    /// The agent's clock.
    pub clock: Clock,
    /// Looks up a user by name or number, for `uid = "…"` in a condition.
    pub users: fn(&str) -> Option<u32>,
}

/// The component that samples.
#[derive(Debug)]
pub struct Pressure {
    clock: Clock,
    every: Duration,
    keys: BTreeSet<Key>,
    reader: Box<host::Reader>,
    shared: Arc<Shared>,
}

/// Asks and tells the component. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Handle {
    clock: Clock,
    shared: Arc<Shared>,
}

/// Why sampling ended or could not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The settings are wrong; each line names one violation.
    #[error("wrong pressure rules: {}", .0.join("; "))]
    Settings(Vec<String>),
    /// A reader panicked.
    #[error("reading signals ended early")]
    Reader(#[source] JoinError),
}

#[derive(Debug)]
struct Shared {
    /// Held for some microseconds at a time, never across an await.
    rules: Mutex<Rules>,
    /// What the rules say, whenever its generation changes. One value, the newest.
    published: watch::Sender<Arc<Reading>>,
    /// Whether a first sample was judged.
    sampled: watch::Sender<bool>,
}

impl Pressure {
    /// Checks the settings and takes no sample yet: until the first one, `Handle::reading` closes `*`.
    pub fn new(options: Options) -> Result<(Self, Handle), Error> {
        let Options { settings, kinds, dirs, clock, users } = options;
        let own = geteuid().as_raw();
        let rules = settings.rules(&Users { kinds: &kinds, own, lookup: users }).map_err(Error::Settings)?;
        let rules = Rules::new(rules, kinds, own, settings.stale_after, clock.now());
        let keys = rules.keys();
        let published = watch::Sender::new(Arc::new(rules.reading().clone()));
        let shared =
            Arc::new(Shared { rules: Mutex::new(rules), published, sampled: watch::Sender::new(false) });
        let reader = Box::new(host::Reader::new(dirs, settings.sample * TASKS_EVERY));
        let pressure = Self { clock, every: settings.sample, keys, reader, shared: Arc::clone(&shared) };
        Ok((pressure, Handle { clock, shared }))
    }

    /// Samples until cancelled. While a read hangs, what was read before grows old.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Error> {
        let Self { clock, every, keys, reader, shared } = self;
        let keys = Arc::new(keys);
        let mut pace = tokio::time::interval(every);
        pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut hands = Hands::Idle(reader);
        let mut warned = false;
        loop {
            let input = tokio::select! {
                biased;
                () = shutdown.cancelled() => Input::Shutdown, // cancel-safe: a token
                done = hands.done() => Input::Read(done), // cancel-safe: the task keeps its answer
                _ = pace.tick() => Input::Tick, // cancel-safe: an interval
            };
            match input {
                Input::Shutdown => return Ok(()),
                Input::Read(done) => {
                    let (reader, samples) = done.map_err(Error::Reader)?;
                    hands = Hands::Idle(reader);
                    if !std::mem::replace(&mut warned, true) {
                        warn_of_unsupported(&samples);
                    }
                    shared.judge(|rules| rules.sampled(clock.now(), samples));
                    // Nobody may be waiting for the first sample.
                    shared.sampled.send_replace(true);
                }
                Input::Tick => {
                    hands = hands.read(clock.now(), Arc::clone(&keys));
                    shared.judge(|rules| rules.tick(clock.now()));
                }
            }
        }
    }
}

/// Who reads: nobody, or a thread that may block.
enum Hands {
    Idle(Box<host::Reader>),
    Busy(JoinHandle<Done>),
}

impl Hands {
    /// Begins to read, unless the last reading still goes on.
    fn read(self, now: Mono, keys: Arc<BTreeSet<Key>>) -> Self {
        match self {
            Self::Idle(mut reader) => Self::Busy(tokio::task::spawn_blocking(move || {
                let samples = reader.read(now, &keys);
                (reader, samples)
            })),
            busy @ Self::Busy(_) => busy,
        }
    }

    /// The end of a reading; never while nobody reads.
    async fn done(&mut self) -> Result<Done, JoinError> {
        match self {
            Self::Idle(_) => std::future::pending().await,
            Self::Busy(task) => task.await,
        }
    }
}

/// What a reading brings back.
type Done = (Box<host::Reader>, Samples);

enum Input {
    Shutdown,
    Read(Result<Done, JoinError>),
    Tick,
}

impl Handle {
    /// What the rules say now.
    pub fn reading(&self) -> Arc<Reading> {
        Arc::new(self.shared.rules().reading().clone())
    }

    /// Wakes when a group opens or closes or a cap changes: when `generation` rises.
    pub fn watch(&self) -> watch::Receiver<Arc<Reading>> {
        self.shared.published.subscribe()
    }

    /// Returns once the first sample was judged: never, if the component ends before. Cancel-safe.
    pub async fn ready(&self) {
        // The sender lives as long as this handle, so this cannot fail.
        self.shared.sampled.subscribe().wait_for(|sampled| *sampled).await.ok();
    }

    /// An attempt was accepted: its kind's headroom is owed from now on. Answers the reading that follows, which
    /// the next grant must be judged by.
    pub fn accepted(&self, token: u64, kind: &str) -> Arc<Reading> {
        self.shared.judge(|rules| rules.accepted(self.clock.now(), token, kind));
        self.reading()
    }

    /// An attempt has ended: what is left of its debt is forgiven.
    pub fn ended(&self, token: u64) {
        self.shared.rules().ended(token);
    }
}

impl Shared {
    /// Rules hold no promise across a panic: each judgement starts from samples.
    fn rules(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn judge(&self, judge: impl FnOnce(&mut Rules)) {
        let mut rules = self.rules();
        judge(&mut rules);
        self.published.send_if_modified(|published| {
            let changed = published.generation != rules.reading().generation;
            if changed {
                log_changes(published, rules.reading());
                *published = Arc::new(rules.reading().clone());
            }
            changed
        });
    }
}

/// One line for each group that closed or opened: lifecycle, never per sample.
fn log_changes(before: &Reading, after: &Reading) {
    let same = |a: &ClosedGroup, b: &ClosedGroup| a.group == b.group && a.rule == b.rule;
    for closed in after.closed.iter().filter(|now| !before.closed.iter().any(|was| same(was, now))) {
        let ClosedGroup { group, rule, signal, observed, threshold, .. } = closed;
        tracing::info!(%group, rule, %signal, observed, threshold, "a pressure rule closed");
    }
    let opened = before.closed.iter().filter(|was| !after.closed.iter().any(|now| same(was, now)));
    // The first look at the host opens what every start closes: no rule of an operator's.
    for opened in opened.filter(|opened| opened.rule != OwnRule::Unsampled.as_str()) {
        tracing::info!(group = %opened.group, rule = opened.rule, "a pressure rule opened");
    }
}

/// Memory in bytes: of the host, or of the tightest ancestor cgroup. 0: unknown.
pub(crate) fn memory_ceiling() -> u64 {
    host::memory_ceiling()
}

/// Conditions on these are left out, once and for all.
fn warn_of_unsupported(samples: &Samples) {
    let names: BTreeSet<String> = samples
        .0
        .iter()
        .filter(|(_, (_, value))| *value == Value::Unsupported)
        .map(|(key, _)| key.signal.to_string())
        .collect();
    if !names.is_empty() {
        let signals = names.into_iter().collect::<Vec<_>>().join(", ");
        tracing::warn!(signals, "this host cannot give these signals; conditions on them are left out");
    }
}
