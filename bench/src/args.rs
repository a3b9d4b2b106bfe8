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
    /// Memory and processor time of an idle server and an idle agent, and the size of the binary.
    Sizes,
    /// What a decision of the scheduler costs, without a server: 1,000 and 10,000 nodes, up to 10 million jobs queued.
    Placement,
    /// A server killed under a fleet of `--agents` sessions: how long until all are back, and what producers notice.
    Reattach,
    /// All of these but `placement` and `reattach`.
    All,
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
    /// Whether asking for this one includes another.
    pub(crate) fn includes(self, other: Self) -> bool {
        self == other || (self == Self::All && !matches!(other, Self::Placement | Self::Reattach))
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
