//! Processes and threads by user, and how far their ceilings are.
//!
//! Responsible for one walk over `/proc`, no more often than asked for, and for the nearest of four ceilings:
//! RLIMIT_NPROC (which counts the *threads* of a real user on the whole host, root exempt), `pids.max` of every ancestor
//! cgroup, `pid_max`, `threads-max`.
//! Invariant: the counts of one walk are used together, with the moment of that walk.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::cgroups::{Budget, Cgroups};
use super::{Failure, Read, share, soft_limit};
use crate::clock::Mono;
use crate::pressure::settings::approximate;
use crate::pressure::signals::Signal;

/// The counts, and when they were taken.
#[derive(Debug)]
pub(super) struct Tasks {
    root: PathBuf,
    every: Duration,
    walk: Option<(Mono, Result<Walk, Failure>)>,
}

/// What one walk found.
#[derive(Debug, Clone, Default)]
struct Walk {
    /// By real user: processes and threads, zombies included.
    users: BTreeMap<u32, (u64, u64)>,
    /// RLIMIT_NPROC of this process.
    limit: Option<u64>,
    /// Ceilings that count everybody.
    shared: Vec<Budget>,
}

impl Tasks {
    /// Walks at most once in `every`.
    pub(super) fn new(root: &Path, every: Duration) -> Self {
        Self { root: root.to_owned(), every, walk: None }
    }

    /// Walks if it is time to.
    pub(super) fn read(&mut self, now: Mono, cgroups: &Cgroups) {
        let due = self.walk.as_ref().is_none_or(|(at, _)| now.since(*at) >= self.every);
        if due {
            self.walk = Some((now, walk(&self.root, cgroups)));
        }
    }

    /// When the counts were taken.
    pub(super) fn read_at(&self) -> Option<Mono> {
        self.walk.as_ref().map(|(at, _)| *at)
    }

    /// The worst over these users.
    pub(super) fn value(&self, signal: Signal, uids: &[u32]) -> Read {
        let walk = match &self.walk {
            Some((_, Ok(walk))) => walk,
            Some((_, Err(failure))) => return Err(*failure),
            None => return Err(Failure::Unknown),
        };
        let each = uids.iter().map(|&uid| walk.value(signal, uid)).collect::<Result<Vec<_>, _>>()?;
        let worse = |a: (f64, f64), b: (f64, f64)| if (b.0 < a.0) == signal.is_room() { b } else { a };
        each.into_iter().reduce(worse).ok_or(Failure::Unknown)
    }
}

impl Walk {
    fn value(&self, signal: Signal, uid: u32) -> Read {
        let (processes, threads) = self.users.get(&uid).copied().unwrap_or_default();
        match signal {
            Signal::ProcsUsed => Ok((approximate(processes), 0.0)),
            Signal::TasksUsed => Ok((approximate(threads), 0.0)),
            Signal::TasksHeadroom => {
                let rooms = self.budgets(uid, threads).map(|budget| budget.room);
                rooms.min().map(|room| (approximate(room), 0.0)).ok_or(Failure::Unsupported)
            }
            Signal::TasksUsedPct => {
                let shares = self.budgets(uid, threads).map(|budget| {
                    (
                        share(budget.ceiling.saturating_sub(budget.room), budget.ceiling),
                        approximate(budget.ceiling),
                    )
                });
                shares.max_by(|a, b| a.0.total_cmp(&b.0)).ok_or(Failure::Unsupported)
            }
            // The others count no user.
            Signal::Psi(..)
            | Signal::MemHeadroom
            | Signal::MemHeadroomPct
            | Signal::OomKills
            | Signal::FdsUsedPct
            | Signal::DiskFree
            | Signal::DiskFreePct
            | Signal::InodesFreePct
            | Signal::LoadPerCpu
            | Signal::SwapUsedPct
            | Signal::SwapRate => Err(Failure::Unsupported),
        }
    }

    fn budgets(&self, uid: u32, threads: u64) -> impl Iterator<Item = Budget> {
        let own = self
            .limit
            .filter(|_| uid != 0)
            .map(|ceiling| Budget { ceiling, room: ceiling.saturating_sub(threads) });
        self.shared.iter().copied().chain(own).filter(|budget| budget.ceiling > 0)
    }
}

fn walk(root: &Path, cgroups: &Cgroups) -> Result<Walk, Failure> {
    let mut walk = Walk::default();
    let mut all = 0u64;
    for entry in fs::read_dir(root.join("proc"))? {
        let Ok(entry) = entry else { continue };
        if !entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit) {
            continue;
        }
        // A process that has ended in the meantime counts no more.
        let Ok(status) = fs::read_to_string(entry.path().join("status")) else { continue };
        let Some((uid, threads)) = parse(&status) else { continue };
        let (processes, sum) = walk.users.entry(uid).or_default();
        *processes += 1;
        *sum += threads;
        all += threads;
    }
    let limits = fs::read_to_string(root.join("proc/self/limits"))?;
    walk.limit = soft_limit(&limits, "Max processes");
    walk.shared = cgroups.tasks();
    for ceiling in ["pid_max", "threads-max"] {
        let ceiling = fs::read_to_string(root.join("proc/sys/kernel").join(ceiling))?;
        let ceiling: u64 = ceiling.trim().parse().map_err(|_| Failure::Unknown)?;
        walk.shared.push(Budget { ceiling, room: ceiling.saturating_sub(all) });
    }
    Ok(walk)
}

/// The real user and the threads in a `status` file.
fn parse(status: &str) -> Option<(u32, u64)> {
    let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let uid = line("Uid:")?.split_whitespace().next()?.parse().ok()?;
    // A zombie still takes one.
    let threads = line("Threads:").and_then(|count| count.trim().parse().ok()).unwrap_or(1);
    Some((uid, threads))
}
