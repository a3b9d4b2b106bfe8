//! Others, for the same work on the same machine, right after ours: `bench/peers/NAME/run`.
//!
//! Responsible for what they need (a fresh database of the same durable Postgres, a private Redis that flushes every write),
//! for ending every process of theirs, and for one table. Not for how each is used: that is in its own script, by its own
//! documentation. They come from their public packages and are never a part of the product; one that cannot run is not
//! measured, and says why.
//!
//! What a script is given and what it says is told in `bench/peers/README.md`.

mod redis;
mod table;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use tenure_tests::{binary, tag};
use tokio::process::Command;
use tokio::time::timeout;

use crate::args::{Amount, Args};
use crate::bed::{Bed, Place};
use crate::figure::Figure;
use crate::report::say;

pub(crate) use table::print;

/// How long packages may take to come, and to be built.
const INSTALL: Duration = Duration::from_secs(2_400);
/// How long one may measure.
const RUN: Duration = Duration::from_secs(420);
/// Jobs that wait before the first worker comes.
const DRAIN: u64 = 50_000;
/// How long one repetition lasts if it is counted in jobs.
const SHORT: Duration = Duration::from_secs(1);

/// What is measured of everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Measure {
    /// Jobs stored a second, 64 callers one by one.
    EnqueueSingle,
    /// The same in batches of 1,000.
    EnqueueBatch,
    /// Jobs a second of many that wait before the first worker comes.
    Drain,
    /// Jobs a second from enqueue to end, 64 callers one by one.
    LifecycleSingle,
    /// The same in batches of 500.
    LifecycleBatch,
    /// Milliseconds from the call to the end of one job when there is nothing else to do.
    RoundTripP50,
    RoundTripP99,
}

impl Measure {
    pub(crate) const ALL: [Self; 7] = [
        Self::EnqueueSingle,
        Self::EnqueueBatch,
        Self::Drain,
        Self::LifecycleSingle,
        Self::LifecycleBatch,
        Self::RoundTripP50,
        Self::RoundTripP99,
    ];

    /// Whether less is better.
    fn is_length(self) -> bool {
        matches!(self, Self::RoundTripP50 | Self::RoundTripP99)
    }

    /// Whether a figure of ours is it.
    fn is_ours(self, figure: &Figure) -> bool {
        let (scenario, name) = (figure.scenario, figure.name.as_str());
        match self {
            Self::EnqueueSingle => name == "enqueue one by one, 64 callers",
            Self::EnqueueBatch => name.starts_with("enqueue batches of 1000"),
            Self::Drain => scenario == "drain",
            Self::LifecycleSingle => name.starts_with("lifecycle one by one, 64"),
            Self::LifecycleBatch => name.starts_with("lifecycle batches of 500"),
            Self::RoundTripP50 => name == "enqueue → granted → finished → stored, p50",
            Self::RoundTripP99 => name == "enqueue → granted → finished → stored, p99",
        }
    }
}

/// One of the others.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Peer {
    /// Of its directory, or of what that measures.
    pub(crate) name: String,
    /// Version and settings, in its own words.
    pub(crate) about: String,
    /// Whether a worker that lost its job can no longer say how it ended.
    pub(crate) fenced: bool,
    pub(crate) measured: BTreeMap<Measure, f64>,
    /// Why it, or a part of it, was not measured.
    pub(crate) not_measured: Option<String>,
}

/// What a script says, one object a line.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Said {
    Peer { peer: String, about: String, fenced: bool },
    Measured { measure: Measure, value: f64 },
    Not { not_measured: String },
}

/// Ours, of the figures of this run.
pub(crate) fn ours(figures: &[Figure]) -> Peer {
    let of = |measure: Measure| {
        let figure = figures.iter().find(|figure| measure.is_ours(figure))?;
        Some((measure, figure.median))
    };
    Peer {
        name: "Tenure".to_owned(),
        about: "over the real session, history kept".to_owned(),
        fenced: true,
        measured: Measure::ALL.into_iter().filter_map(of).collect(),
        not_measured: None,
    }
}

/// Lets each run, one after the other.
///
/// # Errors
/// If their directory cannot be read. That one of them fails is no error.
pub(crate) async fn run(bed: &Bed, args: &Args) -> anyhow::Result<Vec<Peer>> {
    let directory = args.peers.clone().unwrap_or_else(|| binary::repository().join("bench/peers"));
    let mut found = Vec::new();
    for script in scripts(&directory, &args.only)? {
        let name = script_name(&script);
        say(&format!("{name} …"));
        match Box::pin(one(bed, args, &script)).await {
            Ok(peers) if !peers.is_empty() => found.extend(peers),
            Ok(_) => found.push(not_measured(name, "it said nothing".to_owned())),
            Err(error) => found.push(not_measured(name, format!("{error:#}"))),
        }
    }
    Ok(found)
}

/// Only fetches and builds what each needs. One that cannot be had says so, and will again when it is to be measured.
///
/// # Errors
/// If their directory cannot be read.
pub(crate) async fn install(args: &Args) -> anyhow::Result<()> {
    let directory = args.peers.clone().unwrap_or_else(|| binary::repository().join("bench/peers"));
    for script in scripts(&directory, &args.only)? {
        let name = script_name(&script);
        let (work, mark) = prepare(&name)?;
        say(&format!("{name}: installing …"));
        if let Err(error) = finish(&mut command(&script, "install", &work, &mark), &work, INSTALL).await {
            say(&format!("{name}: {error:#}"));
        }
    }
    Ok(())
}

/// The work directory of a peer, and a mark for its processes.
fn prepare(name: &str) -> anyhow::Result<(PathBuf, Marked)> {
    let work = work_directory()?.join(name);
    fs::create_dir_all(&work)?;
    // Others may run as another user than we do.
    fs::set_permissions(&work, fs::Permissions::from_mode(0o755))?;
    Ok((work, Marked(format!("bench-peer-{}", uuid::Uuid::now_v7()))))
}

fn not_measured(name: String, why: String) -> Peer {
    say(&format!("{name}: not measured: {why}"));
    Peer { name, not_measured: Some(why), ..Peer::default() }
}

/// Where packages are installed: beside this program, which is in the target directory, so that a second run finds them,
/// and never in the tree.
fn work_directory() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let work = own.parent().context("this program is in no directory")?.join("bench-peers");
    fs::create_dir_all(&work)?;
    Ok(work)
}

/// By name. Those that are asked for must be there.
fn scripts(directory: &Path, only: &[String]) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    let mut scripts: Vec<_> = entries.flatten().map(|entry| entry.path().join("run")).collect();
    scripts.retain(|script| script.is_file());
    scripts.sort();
    for name in only {
        ensure!(scripts.iter().any(|script| script_name(script) == *name), "there is no peer {name:?}");
    }
    scripts.retain(|script| only.is_empty() || only.contains(&script_name(script)));
    Ok(scripts)
}

fn script_name(script: &Path) -> String {
    let name = script.parent().and_then(Path::file_name);
    name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

async fn one(bed: &Bed, args: &Args, script: &Path) -> anyhow::Result<Vec<Peer>> {
    let (work, mark) = prepare(&script_name(script))?;
    let work = work.as_path();
    let mut installing = command(script, "install", work, &mark);
    let installed = finish(&mut installing, work, INSTALL).await;
    installed.context("it cannot be installed")?;
    let mut running = command(script, "run", work, &mark);
    let Place::Postgres(url) = bed.place()? else { bail!("no Postgres") };
    let seconds = match args.amount() {
        Amount::For(length) => length,
        Amount::Jobs(_) => SHORT,
    };
    running.env("BENCH_POSTGRES", url).env("BENCH_SECONDS", seconds.as_secs().to_string());
    running.env("BENCH_DRAIN", args.queued(DRAIN).to_string());
    running.env("BENCH_PAYLOAD", args.payload.to_string()).env("BENCH_RATE", args.rate.to_string());
    let wants_redis = script.with_file_name("redis").exists();
    let redis = match wants_redis {
        true => Some(redis::start(script, work, &mark.0).await?),
        false => None,
    };
    if let Some(redis) = &redis {
        running.env("BENCH_REDIS", redis.socket());
    }
    let ended = finish(&mut running, work, RUN).await;
    let mut peers = read(&fs::read_to_string(work.join("stdout"))?);
    match ended {
        // What it had measured before counts.
        Err(error) if !peers.is_empty() => {
            if let Some(last) = peers.last_mut() {
                last.not_measured.get_or_insert(format!("{error:#}"));
            }
            Ok(peers)
        }
        Err(error) => Err(error),
        Ok(()) => Ok(peers),
    }
}

fn command(script: &Path, word: &str, work: &Path, mark: &Marked) -> Command {
    let mut command = std::process::Command::new(script);
    command.arg(word).env("BENCH_WORK", work).env(tag::VARIABLE, &mark.0).current_dir(work);
    // A group of its own: what a person's Ctrl-C ends is ended by the mark, in order.
    command.process_group(0);
    Command::from(command)
}

/// Runs it to its end, and ends what it left. Its output goes to files of the work directory.
async fn finish(command: &mut Command, work: &Path, within: Duration) -> anyhow::Result<()> {
    let (out, error) = (work.join("stdout"), work.join("stderr"));
    command.stdin(Stdio::null()).stdout(File::create(&out)?).stderr(File::create(&error)?);
    let mut child = command.kill_on_drop(true).spawn().context("it does not start")?;
    let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let ended = timeout(within, child.wait()).await;
    let last = || {
        let said = fs::read(&error).map(|said| String::from_utf8_lossy(&said).into_owned());
        let said = said.unwrap_or_default();
        let last = said.lines().rev().map(str::trim).find(|line| !line.is_empty());
        last.unwrap_or("it did not say why").to_owned()
    };
    match ended {
        Err(_) => {
            // It has not been waited for, so the group is still its own.
            if let Some(group) = group {
                kill_process_group(group, Signal::KILL)?;
            }
            child.wait().await?;
            bail!("not within {within:?}: {}", last())
        }
        Ok(status) => {
            let status = status?;
            ensure!(status.success(), "{status}: {}", last());
            Ok(())
        }
    }
}

/// Lines that are none of ours are somebody's chatter.
fn read(text: &str) -> Vec<Peer> {
    let mut peers: Vec<Peer> = Vec::new();
    for said in text.lines().filter_map(|line| serde_json::from_str::<Said>(line).ok()) {
        match said {
            Said::Peer { peer, about, fenced } => {
                peers.push(Peer { name: peer, about, fenced, ..Peer::default() });
            }
            Said::Measured { measure, value } => {
                if let Some(peer) = peers.last_mut().filter(|_| value.is_finite() && value > 0.0) {
                    peer.measured.insert(measure, value);
                }
            }
            Said::Not { not_measured } => {
                if let Some(peer) = peers.last_mut() {
                    peer.not_measured = Some(not_measured);
                }
            }
        }
    }
    peers
}

/// The mark in the environment of every process of a peer. When it goes, they go.
struct Marked(String);

impl Drop for Marked {
    fn drop(&mut self) {
        tag::end_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_script_says_is_read_by_peer_and_chatter_is_not() {
        let said = "hello\n\
            {\"peer\": \"a\", \"about\": \"a 1.0\", \"fenced\": true}\n\
            {\"measure\": \"drain\", \"value\": 12.5}\n\
            {\"measure\": \"drain_all\", \"value\": 1}\n\
            {\"peer\": \"b\", \"about\": \"b 2.0\", \"fenced\": false}\n\
            {\"measure\": \"round_trip_p50\", \"value\": 0}\n\
            {\"not_measured\": \"no room\"}\n";
        let peers = read(said);
        let shown: Vec<_> = peers.iter().map(|peer| (peer.name.as_str(), peer.measured.len())).collect();
        assert_eq!(shown, [("a", 1), ("b", 0)]);
        assert_eq!(peers[0].measured[&Measure::Drain].to_string(), "12.5");
        assert_eq!(peers[1].not_measured.as_deref(), Some("no room"));
    }
}
