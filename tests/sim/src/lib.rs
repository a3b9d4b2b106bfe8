//! A simulator of Tenure: servers, nodes, their clients, their store and their network in one thread, with a time of its
//! own. One seed is one history, byte for byte.
//!
//! What is real: the scheduler, the agent's `Holdings`, the deadlines of its shims. What is a model, by the rules of the
//! documents: Postgres with its leader row, elections, the driver's turns, sessions, runners, processes and clients.
//! `docs/decisions/0019` says why. Not here: real time, threads, disks, TLS; `tests/` has those.
//!
//! Reading order: `world` → `faults` → `db` and `db/tables` → `server` and `server/*` → `net` → `host` and `host/*` →
//! `clients`, `flows`, `crons` → `oracle` and `oracle/*`.

mod agenda;
mod broken;
mod clients;
mod clock;
mod crons;
mod db;
mod faults;
mod flows;
mod host;
mod net;
mod oracle;
mod outage;
mod random;
mod server;
mod trace;
mod world;

use std::{collections::BTreeMap, fmt, time::Duration};

pub use self::{broken::Broken, faults::Fault, trace::Tracing};

/// How a history is run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// What becomes of its trace.
    pub tracing: Tracing,
    /// The rule that it does without.
    pub broken: Broken,
    /// In place of the faults of the seed: 200 jobs that run for up to 12 min under leases of 10 min, and for so long no
    /// server at all. Every job must end where it ran, and nothing may count against it.
    pub outage: Option<Duration>,
    /// Jobs alone: no workflows, no cron entries. So were the histories that early regressions name.
    pub only_jobs: bool,
}

/// What came of a history.
#[derive(Debug)]
pub struct Outcome {
    /// The rule that was broken; none: all was well, and everything has ended.
    pub violation: Option<String>,
    /// What there was.
    pub counts: Counts,
    /// Of the trace, unless that was off.
    pub hash: u64,
    /// The trace, if it was kept.
    pub trace: String,
}

/// What there was in one history or in many.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Things that happened.
    pub happenings: u64,
    /// Turns of leaders.
    pub steps: u64,
    /// Transactions.
    pub commits: u64,
    /// Jobs stored at the end.
    pub jobs: u64,
    /// Grants sent.
    pub grants: u64,
    /// Processes started: lifecycles of leases.
    pub processes: u64,
    /// Attempts that went on under the next agent.
    pub adoptions: u64,
    /// Workflows stored at the end.
    pub workflows: u64,
    /// Jobs of cron entries.
    pub firings: u64,
    /// Leaders that began.
    pub takeovers: u64,
    /// The time that passed, of all histories together.
    pub simulated: Duration,
    /// How often each fault happened.
    pub faults: BTreeMap<&'static str, u64>,
}

impl Counts {
    pub(crate) fn fault(&mut self, fault: Fault) {
        *self.faults.entry(fault.name()).or_default() += 1;
    }

    /// Adds those of another history.
    pub fn add(&mut self, other: &Self) {
        self.happenings += other.happenings;
        self.steps += other.steps;
        self.commits += other.commits;
        self.jobs += other.jobs;
        self.grants += other.grants;
        self.processes += other.processes;
        self.takeovers += other.takeovers;
        self.adoptions += other.adoptions;
        self.workflows += other.workflows;
        self.firings += other.firings;
        self.simulated += other.simulated;
        for (name, count) in &other.faults {
            *self.faults.entry(name).or_default() += count;
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} jobs, {} workflows, {} firings, {} grants, {} processes, {} commits, {} turns, {} takeovers, {} adoptions, {} happenings in {} h of simulated time",
            self.jobs,
            self.workflows,
            self.firings,
            self.grants,
            self.processes,
            self.commits,
            self.steps,
            self.takeovers,
            self.adoptions,
            self.happenings,
            self.simulated.as_secs() / 3600,
        )?;
        for fault in Fault::ALL {
            writeln!(f, "{:>10}  {}", self.faults.get(fault.name()).copied().unwrap_or(0), fault.name())?;
        }
        Ok(())
    }
}

/// Runs the history of a seed to its end.
#[must_use]
pub fn run(seed: u64, options: Options) -> Outcome {
    world::World::new(seed, &options).run()
}
