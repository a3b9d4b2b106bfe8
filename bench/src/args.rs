//! What can be asked for.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use serde::Serialize;

/// How fast Tenure is on this machine, beside what the database allows in the same run.
#[derive(Debug, Parser)]
#[command(name = "tenure-bench", version)]
pub(crate) struct Args {
    /// What to measure.
    #[arg(value_enum)]
    pub(crate) scenario: Scenario,
    /// On which store.
    #[arg(long, value_enum, default_value_t = Stores::Both)]
    pub(crate) store: Stores,
    /// How long one repetition enqueues, in seconds.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=600), conflicts_with = "jobs")]
    seconds: u64,
    /// How many jobs one repetition enqueues, instead of for how long.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    jobs: Option<u64>,
    /// How often each figure is taken.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) repetitions: u32,
    /// Simulated agents.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub(crate) agents: u32,
    /// Bytes of each payload.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) payload: u32,
    /// Sessions of fleet and explain.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=18_000))]
    pub(crate) sessions: u32,
    /// How many jobs wait: in backlog, explain and sizes 1,000,000 unless it is said, in blocked 100,000, in drain
    /// 50,000, in takeover 100,000 and 1,000,000.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    queued: Option<u64>,
    /// For how many seconds pinned holds its snapshot before it measures.
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub(crate) pinned: u64,
    /// Only these of the peers: names of directories of bench/peers.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Only install the peers, that a measurement later waits for no package.
    #[arg(long)]
    pub(crate) install_only: bool,
    /// Where the peers are.
    #[arg(long, value_name = "DIR")]
    pub(crate) peers: Option<PathBuf>,
    /// Jobs a second of the scenario latency.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) rate: u32,
    /// Also write everything as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    /// Jobs stored a second: 1, 16 and 64 callers one by one, batches of 500 and 1,000.
    Enqueue,
    /// Jobs a second from their enqueue to the stored end of their lease: 64 callers one by one, batches of 500.
    Lifecycle,
    /// How long one job takes at a low rate, beside a bare commit.
    Latency,
    /// The same rows by bare set-based SQL on one connection.
    Ceiling,
    /// Memory and processor time of an idle server and an idle agent, the size of the binary; asked for alone, also
    /// memory of a queued job and a session, and the start on a million jobs.
    Sizes,
    /// Jobs a second of 50,000 that wait before the first agent comes.
    Drain,
    /// Workflows: chords of 10, 100 and 1,000 members with a synthesis of their results.
    Fanout,
    /// 10,000 idle sessions with heartbeats.
    Fleet,
    /// A million jobs wait: start, memory, others beside them, and how fast they are taken.
    Backlog,
    /// 100,000 jobs of a higher priority wait for one slot: others beside them.
    Blocked,
    /// A snapshot is held open for minutes; Postgres only.
    Pinned,
    /// Real processes through shims, beside plain ones.
    Spawn,
    /// Why a job does not run, with a million jobs and 10,000 nodes.
    Explain,
    /// A leader is killed or resigns; Postgres only.
    Takeover,
    /// What a decision of the scheduler costs, without a server: 1,000 and 10,000 nodes, up to 10 million jobs queued.
    Placement,
    /// A server killed under a fleet of `--agents` sessions: how long until all are back, and what producers notice.
    Reattach,
    /// The first five of these: about ten minutes.
    All,
    /// All of these but reattach, each once on the stores on which it says something: about half an hour.
    Whole,
    /// Others for the same work on the same Postgres or a Redis, beside ours: see bench/peers.
    Peers,
}

/// On which stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stores {
    /// SQLite only.
    Sqlite,
    /// Postgres only.
    Postgres,
    /// One after the other.
    Both,
}

/// One store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Store {
    Sqlite,
    Postgres,
}

/// When a repetition has enqueued enough.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Amount {
    /// So many jobs.
    Jobs(u64),
    /// As many as it takes in so long.
    For(Duration),
}

impl Args {
    /// How much one repetition enqueues.
    pub(crate) fn amount(&self) -> Amount {
        self.jobs.map_or(Amount::For(Duration::from_secs(self.seconds)), Amount::Jobs)
    }

    /// On which stores: those asked for, of those on which the scenario says something.
    pub(crate) fn stores(&self) -> &'static [Store] {
        let postgres_alone = [Scenario::Pinned, Scenario::Takeover, Scenario::Peers];
        if postgres_alone.contains(&self.scenario) { &[Store::Postgres] } else { self.store.each() }
    }

    /// How many jobs wait, if that was not said so many.
    pub(crate) fn queued(&self, unless_said: u64) -> u64 {
        self.queued.unwrap_or(unless_said)
    }

    /// Whether it was said.
    pub(crate) fn is_queued_given(&self) -> bool {
        self.queued.is_some()
    }

    /// The most jobs that `placement` lets wait.
    pub(crate) fn most_queued(&self) -> u64 {
        self.jobs.unwrap_or(u64::MAX)
    }

    /// Before the first repetition, not counted: a quarter of one.
    pub(crate) fn warm_up(&self) -> Amount {
        match self.amount() {
            Amount::Jobs(jobs) => Amount::Jobs(jobs.div_ceil(4)),
            Amount::For(length) => Amount::For(length / 4),
        }
    }
}

impl Scenario {
    /// Whether asking for this one includes another on a store. `Whole` leaves out what one of the stores says as well.
    pub(crate) fn includes(self, other: Self, store: Store) -> bool {
        let basic = [Self::Enqueue, Self::Lifecycle, Self::Latency, Self::Ceiling, Self::Sizes];
        let whole: &[Self] = match store {
            Store::Postgres => &[Self::Pinned, Self::Takeover, Self::Fleet],
            Store::Sqlite => &[Self::Spawn, Self::Explain],
        };
        let loads = [Self::Drain, Self::Fanout, Self::Backlog, Self::Blocked];
        let compared = [Self::Enqueue, Self::Lifecycle, Self::Latency, Self::Drain];
        self == other
            || (self == Self::All && basic.contains(&other))
            || (self == Self::Whole
                && (basic.contains(&other) || loads.contains(&other) || whole.contains(&other)))
            || (self == Self::Peers && compared.contains(&other))
    }
}

impl Stores {
    pub(crate) fn each(self) -> &'static [Store] {
        match self {
            Self::Sqlite => &[Store::Sqlite],
            Self::Postgres => &[Store::Postgres],
            Self::Both => &[Store::Postgres, Store::Sqlite],
        }
    }
}

impl Store {
    /// For people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "SQLite",
            Self::Postgres => "Postgres",
        }
    }
}
