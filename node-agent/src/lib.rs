//! The node agent: it offers what one machine has, and runs what it is granted, under a lease.
//!
//! Responsible for everything on the node's side of the session: capacity, pressure, processes, reports. Not
//! responsible for any decision of the scheduler; of the server it knows the wire alone.
//!
//! Invariants: at most its capacity of each slot runs; only what its own configuration names; once `reaped` is said no
//! process of the attempt lives.
//!
//! Suggested reading order: [`holdings`] (what is held, and what follows), [`session`] (the loop), [`runner`] (one
//! attempt), [`shim`] (its process), [`pressure`] (when not), [`spool`] and [`state_dir`] (what outlives the agent),
//! [`config`].

pub mod cgroup;
pub mod clock;
pub mod config;
pub mod deaths;
pub mod drain;
pub mod exec_stage;
pub mod holdings;
pub mod host;
pub mod leftovers;
pub mod output;
pub mod own_rule;
mod passing;
pub mod pressure;
pub mod runner;
pub mod session;
pub mod shim;
pub mod spool;
pub mod state_dir;
pub mod trace;
pub mod workers;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tenure_tls::Connector;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::cgroup::Subtree;
use crate::clock::Clock;
use crate::config::{Advertised, Config};
use crate::deaths::Deaths;
use crate::holdings::Holdings;
use crate::host::Host;
use crate::runner::Runner;
use crate::session::{Session, Status};
use crate::spool::Spool;
use crate::state_dir::StateDir;
use crate::workers::{Door, Workers};

/// The first sample of the host may take this long; until then everything is closed.
const FIRST_SAMPLE: Duration = Duration::from_secs(5);
/// Where temporary files of jobs go, besides their own directories.
const TEMPORARY: &str = "/tmp";

/// What is not in the node file.
#[derive(Clone, Debug)]
pub struct Options {
    /// The clock of all deadlines. `tenure up`: [`Clock::Monotonic`], on both sides.
    pub clock: Clock,
    /// The executable that answers to `shim` and `exec-stage`. None: the present one.
    pub exe: Option<PathBuf>,
    /// The bound of the spool, in bytes. Default 1 GiB.
    pub spool_max_bytes: u64,
    /// Disk allocated in advance for reports, in bytes. Default 64 MiB.
    pub spool_reserve_bytes: u64,
    /// The boot that this agent is of; what another one left does not run any more. None: the host's. For tests that
    /// imitate a reboot.
    pub boot_id: Option<String>,
    /// Tells spans of attempts to the global provider of OpenTelemetry. Default: no.
    pub traces: bool,
}

impl Default for Options {
    fn default() -> Self {
        let spool = spool::Options::new(PathBuf::new());
        let (spool_max_bytes, spool_reserve_bytes) = (spool.max_bytes, spool.reserve_bytes);
        Self {
            clock: Clock::default(),
            exe: None,
            spool_max_bytes,
            spool_reserve_bytes,
            boot_id: None,
            traces: false,
        }
    }
}

/// The agent of one node.
#[derive(Debug)]
pub struct Agent;

/// An agent that runs. Dropped, it stops without waiting for anything; its shims go on until their deadlines.
#[derive(Debug)]
pub struct Running {
    handle: Handle,
    tasks: JoinSet<Ended>,
    sampler: CancellationToken,
    deaths: Option<Deaths>,
}

/// What a start stands on.
struct Ground {
    state: StateDir,
    deaths: Option<Deaths>,
    end_all: bool,
    boot_id: String,
    exe: PathBuf,
    connector: Option<Connector>,
}

/// Asks and tells a running agent. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Handle {
    status: watch::Receiver<Status>,
    drain: CancellationToken,
    hand_over: CancellationToken,
    at_once: CancellationToken,
}

/// How an agent stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// What runs goes on under its shims, until the next agent takes it over or its lease ends. What has not started is
    /// returned. Takes a second or two.
    HandOver,
    /// Nothing is left running. Jobs end or are returned: `drain_deadline` of the node file, then they are stopped.
    Drain,
    /// Nothing is left running. What runs is killed, as returns.
    AtOnce,
}

/// Why an agent does not start, or has failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The certificates cannot be used.
    #[error("the agent has no certificate")]
    Tls(#[source] tenure_tls::files::Error),
    /// The state directory cannot be used.
    #[error("the agent has no state directory")]
    State(#[source] state_dir::Error),
    /// The spool cannot be used.
    #[error("the agent has no spool")]
    Spool(#[source] spool::Error),
    /// The rules on pressure are wrong.
    #[error("the agent cannot watch its host")]
    Pressure(#[source] pressure::Error),
    /// What an earlier agent left cannot be dealt with.
    #[error("the agent cannot run anything")]
    Runner(#[source] runner::Error),
    /// The present executable cannot be found.
    #[error("the agent cannot find its own executable")]
    Exe(#[source] std::io::Error),
    /// The session cannot go on.
    #[error("the agent failed")]
    Session(#[source] session::Error),
    /// A task ended early: a bug.
    #[error("a task of the agent ended early")]
    Task(#[source] JoinError),
    /// Workers cannot attach.
    #[error("the agent takes no workers")]
    Workers(#[source] workers::Error),
    /// The sampler ended while it was needed.
    #[error("the agent no longer watches its host")]
    SamplerEnded,
}

enum Ended {
    Session(Result<(), session::Error>),
    Sampler(Result<(), pressure::Error>),
    Door(Result<(), workers::Error>),
}

impl Agent {
    /// Takes the state directory, takes over what an earlier agent left or kills it, and connects. `shutdown` drains, as
    /// [`Stop::Drain`] does.
    ///
    /// # Errors
    /// If the state directory is taken or unusable, or the rules on pressure are wrong.
    pub async fn start(
        config: Config,
        mut options: Options,
        shutdown: CancellationToken,
    ) -> Result<Running, Error> {
        config.check_certificate().map_err(Error::Tls)?;
        let secure = config.tls.clone().filter(|_| config.speaks_tls());
        let connector = secure.map(Connector::new).transpose().map_err(Error::Tls)?;
        let exe = options.exe.take().map_or_else(own_executable, Ok).map_err(Error::Exe)?;
        let own = config::own_account().uid;
        let users: Vec<u32> =
            config.kinds.values().filter_map(|kind| kind.user.as_ref()).map(|user| user.uid).collect();
        let shared = users.iter().any(|&uid| uid != own);
        let boot_id = options.boot_id.take().unwrap_or_else(host::boot_id);
        let state = StateDir::open(&config.data, &host::machine_id(), shared).map_err(Error::State)?;
        let lock = state.lock();
        let (deaths, end_all) = count_deaths(state.root(), &boot_id);
        let ground = Ground { state, deaths: deaths.clone(), end_all, boot_id, exe, connector };
        let started = Self::begin(config, options, ground, shutdown).await;
        if started.is_err() {
            withdraw(deaths.as_ref());
        }
        // The next agent finds the record as this one leaves it.
        drop(lock);
        started
    }

    /// The start, once the state directory is taken.
    async fn begin(
        config: Config,
        options: Options,
        ground: Ground,
        shutdown: CancellationToken,
    ) -> Result<Running, Error> {
        let Ground { mut state, deaths, end_all, boot_id, exe, connector } = ground;
        let lock = state.lock();
        let cgroups = Subtree::prepare(config.containment, state.root());
        tell_of_containment(&config, &cgroups);
        let host = Host { boot_id: boot_id.clone(), ..host::read(&state.attempts(), cgroups.containment()) };
        let spool = spool::Options {
            dir: state.spool(),
            max_bytes: options.spool_max_bytes,
            reserve_bytes: options.spool_reserve_bytes,
        };
        let spool = Arc::new(Spool::open(spool).map_err(Error::Spool)?);
        let advertised = advertise(&config);
        warn_of_unreachable(&config);
        let dirs = vec![state.root().to_owned(), PathBuf::from(TEMPORARY)];
        let watched = config.watched(dirs, options.clock);
        let (sampler, pressure) = pressure::Pressure::new(watched).map_err(Error::Pressure)?;
        let (calls, connection) = runner::Calls::new(config.name.clone());
        let workers = Workers::new(worker_options(&config, state.root(), options.clock));
        let runner = runner::Options {
            shim: shim::Options { exe, state_dir: state.root().to_owned() },
            attempts_dir: state.attempts(),
            clock: options.clock,
            boot_id,
            copy: state.is_copy(),
            end_all,
            kinds: config.kinds.clone(),
            programs: advertised.programs.clone(),
            indexes: config.indexes.clone(),
            cgroups: cgroups.clone(),
            calls,
            spans: trace::Spans { node: options.traces.then(|| config.name.clone()) },
            workers: workers.clone(),
        };
        let (runner, before) = Runner::start(runner, Arc::clone(&spool)).await.map_err(Error::Runner)?;
        state.forgot_original().map_err(Error::State)?;
        // After the scan: no worker has anything of an earlier agent.
        let door = Door::open(workers.clone()).map_err(Error::Workers)?;
        let graces: BTreeMap<_, _> = advertised
            .kinds()
            .iter()
            .filter_map(|name| Some((name.clone(), config.kinds.get(name)?.grace)))
            .collect();
        let longest_grace = graces.values().max().copied().unwrap_or_default();
        let held = holdings::Options { slots: config.slots.clone(), kinds: graces, starts: config.starts };
        let mut holdings = Holdings::new(held, spool.unstored(), state.max_epoch_seen());
        for adopted in before.adopted {
            holdings.adopted(adopted.token, &adopted.job, adopted.held);
        }
        for tree in before.inherited {
            holdings.left_over(tree.token, &tree.job, tree.slots);
        }
        let (status_sender, status) = watch::channel(Status::default());
        let (hand_over, at_once) = (CancellationToken::new(), CancellationToken::new());
        let parts = session::Parts {
            state,
            holdings,
            runner,
            spool,
            connection,
            pressure: pressure.clone(),
            room: workers.room(),
            hand_over: hand_over.clone(),
            at_once: at_once.clone(),
            status: status_sender,
        };
        let session = session::Options {
            name: config.name,
            servers: config.servers,
            insecure: config.insecure,
            connector,
            slots: config.slots,
            labels: config.labels,
            kinds: advertised.kinds().into_iter().collect(),
            credits: config.credits,
            host,
            clock: options.clock,
            drain_deadline: config.drain_deadline,
            longest_grace,
        };
        let session = Session::new(session, parts, shutdown.clone());
        let mut tasks = JoinSet::new();
        let stop_sampler = CancellationToken::new();
        let sampling = sampler.run(stop_sampler.clone());
        tasks.spawn(async move { Ended::Sampler(sampling.await) });
        let serving = door.run(stop_sampler.clone());
        tasks.spawn(async move { Ended::Door(serving.await) });
        let recorded = deaths.clone();
        tasks.spawn(async move {
            // Until the first sample everything is closed: a Hello before it would only be followed by another.
            drop(tokio::time::timeout(FIRST_SAMPLE, pressure.ready()).await);
            let ended = session.run().await;
            // Nobody waits for it but the end of the agent; what it cannot remove the next agent uses again.
            tokio::task::spawn_blocking(move || cgroups.leave()).await.ok();
            match (&ended, recorded) {
                (Ok(()), Some(deaths)) => deaths.forget(),
                (Err(_), deaths) => withdraw(deaths.as_ref()),
                (Ok(()), None) => {}
            }
            // Only now may the next agent begin: until here it would lose its cgroups and its record.
            drop(lock);
            Ended::Session(ended)
        });
        let handle = Handle { status, drain: shutdown, hand_over, at_once };
        Ok(Running { handle, tasks, sampler: stop_sampler, deaths })
    }
}

impl Running {
    /// Asks and tells it.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// If it could not go on, or left something running.
    pub async fn stopped(mut self) -> Result<(), Error> {
        let mut ended = None;
        while let Some(task) = self.tasks.join_next().await {
            match task.map_err(Error::Task)? {
                Ended::Session(result) => {
                    ended = Some(result.map_err(Error::Session));
                    self.sampler.cancel();
                }
                Ended::Sampler(result) => {
                    let failed = result.map_err(Error::Pressure).err();
                    let failed = failed.or(ended.is_none().then_some(Error::SamplerEnded));
                    if let Some(failed) = failed {
                        withdraw(self.deaths.as_ref());
                        return Err(failed);
                    }
                }
                Ended::Door(result) => {
                    if let Err(failed) = result {
                        withdraw(self.deaths.as_ref());
                        return Err(Error::Workers(failed));
                    }
                }
            }
        }
        ended.unwrap_or(Ok(()))
    }
}

impl Handle {
    /// How it is doing now.
    pub fn status(&self) -> Status {
        *self.status.borrow()
    }

    /// Returns once a server has said Welcome; false, if the agent ended before. Cancel-safe.
    pub async fn connected(&self) -> bool {
        self.status.clone().wait_for(|status| status.connected).await.is_ok()
    }

    /// Returns once it has no session; false, if the agent ended before. Cancel-safe.
    pub async fn cut_off(&self) -> bool {
        self.status.clone().wait_for(|status| !status.connected).await.is_ok()
    }

    /// Stops it. The first two can be hurried, a drain can become a hand-over, and nothing else can be taken back.
    pub fn stop(&self, how: Stop) {
        match how {
            Stop::HandOver => self.hand_over.cancel(),
            Stop::Drain => self.drain.cancel(),
            Stop::AtOnce => self.at_once.cancel(),
        }
    }
}

/// The kinds whose program is there; a warning for each other.
fn advertise(config: &Config) -> Advertised {
    let advertised = config.advertised();
    for (kind, why) in &advertised.missing {
        tracing::warn!(job.kind = %kind, reason = %why, "this kind is not advertised");
    }
    advertised
}

/// What workers run here, as whom, and where they find the agent.
fn worker_options(config: &Config, state_dir: &std::path::Path, clock: Clock) -> workers::Options {
    let own = config::own_account().uid;
    let kinds = config.kinds.iter().filter(|(_, kind)| kind.worker);
    let kinds = kinds.map(|(name, kind)| (name.clone(), kind.user.as_ref().map_or(own, |user| user.uid)));
    let directory = state_dir.join("workers");
    workers::Options { node: config.name.clone(), directory, clock, kinds: kinds.collect() }
}

/// Writes down that an agent starts. Answers whether so many have died here lately that this one takes nothing over.
fn count_deaths(state_dir: &std::path::Path, boot_id: &str) -> (Option<Deaths>, bool) {
    match Deaths::begin(state_dir, boot_id, Clock::Boottime.now()) {
        Ok((deaths, died)) if died < deaths::MOST => (Some(deaths), false),
        Ok((deaths, died)) => {
            tracing::error!(
                agents = died,
                "one agent after the other died here: what runs may be what kills them, and is ended, as losses"
            );
            (Some(deaths), true)
        }
        Err(error) => {
            tracing::warn!(%error, "this start cannot be written down");
            (None, false)
        }
    }
}

/// An agent that says why it ends was not killed by what runs here.
fn withdraw(deaths: Option<&Deaths>) {
    if let Some(deaths) = deaths {
        deaths.withdraw();
    }
}

/// Says how much of its promises this host lets the agent keep, and which limits of kinds nothing enforces.
fn tell_of_containment(config: &Config, cgroups: &Subtree) {
    let containment = cgroups.containment();
    match cgroups.shortfall() {
        Some(shortfall) => {
            tracing::warn!(%containment, reason = shortfall, "attempts are not fully contained")
        }
        None => tracing::info!(%containment, "attempts run in cgroups"),
    }
    let own = config::own_account().uid;
    for (kind, settings) in &config.kinds {
        let root = settings.user.as_ref().map_or(own, |user| user.uid) == 0;
        let unenforced = cgroups.unenforced(&settings.limits, root);
        if !unenforced.is_empty() {
            let limits = unenforced.join(", ");
            tracing::warn!(job.kind = %kind, limits, %containment, "limits of this kind are not enforced here");
        }
    }
}

/// Says so if the user of a kind cannot reach its own directories: every start of it would fail.
fn warn_of_unreachable(config: &Config) {
    for (kind, account) in config.kinds.iter().filter_map(|(name, kind)| Some((name, kind.user.as_ref()?))) {
        let closed = config.data.ancestors().skip(1).find(|directory| !account.may_enter(directory));
        if let Some(directory) = closed {
            tracing::warn!(
                job.kind = %kind,
                user = %account.name,
                path = %directory.display(),
                "the user of this kind cannot enter the state directory: give it search permission, or set `data`"
            );
        }
    }
}

/// The running executable, also if its file was replaced since.
fn own_executable() -> std::io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok(PathBuf::from("/proc/self/exe")) } else { std::env::current_exe() }
}

/// An error and its causes, in one line: the only way an error is logged.
pub(crate) struct Chain<'a>(pub(crate) &'a dyn std::error::Error);

impl std::fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut last = self.0.to_string();
        f.write_str(&last)?;
        for cause in std::iter::successors(self.0.source(), |error| error.source()) {
            let cause = cause.to_string();
            // Wrappers of libraries say what they wrap.
            if cause != last {
                write!(f, ": {cause}")?;
            }
            last = cause;
        }
        Ok(())
    }
}
