//! The machine: a figure without it means nothing.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;
use tenure_tests::binary::repository;
use tenure_tests::clock::Moment;

use crate::figure::rate;

/// For how long the disk is measured.
const DISK_FOR: Duration = Duration::from_millis(500);

/// What is written before each flush: a page of Postgres.
const PAGE: [u8; 8192] = [7; 8192];

/// Where, and under what else, figures were taken.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    /// Usable processors.
    pub(crate) cores: usize,
    pub(crate) cpu: String,
    pub(crate) memory_mib: u64,
    pub(crate) kernel: String,
    /// Appends of 8 KiB, each with fdatasync, a second.
    pub(crate) disk_syncs_per_second: f64,
    /// Runnable processes over the last minute, at the begin: above zero, others worked meanwhile.
    pub(crate) load_before: f64,
    /// The same at the end, with what the bench itself did.
    pub(crate) load_after: f64,
    pub(crate) postgres: Option<String>,
    pub(crate) sqlite: Option<String>,
    /// Of the tree; "-dirty" behind it: with changes.
    pub(crate) commit: String,
    /// debug: figures of such a build mean nothing.
    pub(crate) profile: &'static str,
    /// Where the server under test comes from: of this tree, unless TENURE_BIN names another.
    pub(crate) tenure: &'static str,
}

impl Machine {
    /// Looks, and measures the disk under a directory.
    ///
    /// # Errors
    /// If the disk cannot be written to.
    pub(crate) fn look(directory: &Path) -> anyhow::Result<Self> {
        Ok(Self {
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            cpu: value_of("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".into()),
            memory_mib: memory_mib(),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            disk_syncs_per_second: disk_syncs(directory).context("the disk cannot be measured")?,
            load_before: load(),
            load_after: 0.0,
            postgres: None,
            sqlite: None,
            commit: commit(),
            profile: if cfg!(debug_assertions) { "debug" } else { "release" },
            tenure: if std::env::var_os("TENURE_BIN").is_some() { "of TENURE_BIN" } else { "of this tree" },
        })
    }
}

/// Runnable processes over the last minute.
pub(crate) fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or_default()
}

/// The value behind a name in a file of the kernel.
pub(crate) fn value_of(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn memory_mib() -> u64 {
    let kib =
        value_of("/proc/meminfo", "MemTotal").and_then(|kib| kib.split(' ').next()?.parse::<u64>().ok());
    kib.unwrap_or_default() / 1024
}

fn disk_syncs(directory: &Path) -> std::io::Result<f64> {
    let path = directory.join("syncs");
    let file = File::create(&path)?;
    let begun = Moment::now();
    let mut count = 0;
    while begun.elapsed() < DISK_FOR {
        file.write_all_at(&PAGE, count * PAGE.len() as u64)?;
        file.sync_data()?;
        count += 1;
    }
    let syncs = rate(count, begun.elapsed());
    fs::remove_file(&path)?;
    Ok(syncs)
}

fn commit() -> String {
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).current_dir(repository()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return "unknown".into() };
    let clean =
        git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|changed| changed.is_empty());
    if clean { commit } else { format!("{commit}-dirty") }
}
