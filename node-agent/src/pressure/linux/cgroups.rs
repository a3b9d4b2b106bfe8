//! The cgroups that this process is in, of version 2 and 1, from its own up to the mount's root.
//!
//! Responsible for their numbers. Not responsible for where they are (`cgroup/mounts.rs`), nor for changing them.
//! Invariant: every directory of a chain existed when it was found; a chain has no limits of its own host in it.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Failure, field};
use crate::cgroup::{self, mounts::Own};
use crate::pressure::signals::Resource;

/// The chains, each from the own cgroup up. Empty where there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Cgroups {
    unified: Vec<PathBuf>,
    memory_v1: Vec<PathBuf>,
    pids_v1: Vec<PathBuf>,
}

/// A limit of one cgroup and what is taken of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Budget {
    /// The limit.
    pub(super) ceiling: u64,
    /// What is left of it.
    pub(super) room: u64,
}

/// Version 1 writes "no limit" as the largest page count.
const UNLIMITED_V1: u64 = 1 << 62;

impl Cgroups {
    /// Of the process that `proc/self` below `root` stands for.
    pub(super) fn find(root: &Path) -> Self {
        let chain = |v1: Option<&str>| Own::find(root, v1).map(|own| own.chain()).unwrap_or_default();
        Self { unified: chain(None), memory_v1: chain(Some("memory")), pids_v1: chain(Some("pids")) }
    }

    /// The memory budgets of every ancestor that has one.
    pub(super) fn memory(&self) -> Vec<Budget> {
        let v2 = self.unified.iter().filter_map(|dir| {
            let ceiling = number(&dir.join("memory.max"))?;
            let used = number(&dir.join("memory.current"))?;
            // The kernel takes inactive file pages back before it kills anybody.
            let reclaimable = field(&dir.join("memory.stat"), "inactive_file").unwrap_or(0);
            Some(budget(ceiling, used.saturating_sub(reclaimable)))
        });
        let v1 = self.memory_v1.iter().filter_map(|dir| {
            let ceiling =
                number(&dir.join("memory.limit_in_bytes")).filter(|&ceiling| ceiling < UNLIMITED_V1)?;
            let used = number(&dir.join("memory.usage_in_bytes"))?;
            let reclaimable = field(&dir.join("memory.stat"), "total_inactive_file").unwrap_or(0);
            Some(budget(ceiling, used.saturating_sub(reclaimable)))
        });
        v2.chain(v1).collect()
    }

    /// The budgets of tasks of every ancestor that has one.
    pub(super) fn tasks(&self) -> Vec<Budget> {
        let dirs = self.unified.iter().chain(&self.pids_v1);
        dirs.filter_map(|dir| {
            let ceiling = number(&dir.join("pids.max"))?;
            Some(budget(ceiling, number(&dir.join("pids.current"))?))
        })
        .collect()
    }

    /// The stall file of the cgroup that holds the jobs, too: a leaf of the agent's own holds none.
    pub(super) fn stalls(&self, resource: Resource) -> Option<PathBuf> {
        let (own, mount) = (self.unified.first()?, self.unified.last()?);
        Some(cgroup::Subtree::base(mount, own).join(format!("{}.pressure", resource.as_str())))
    }

    /// Processes of the own cgroups that the kernel has killed for memory: the outermost one counts for all.
    pub(super) fn oom_kills(&self) -> Result<u64, Failure> {
        let counts = self.unified.iter().filter_map(|dir| field(&dir.join("memory.events"), "oom_kill").ok());
        counts.max().ok_or(Failure::Unsupported)
    }
}

fn budget(ceiling: u64, used: u64) -> Budget {
    Budget { ceiling, room: ceiling.saturating_sub(used) }
}

/// A file with one number; `max` and a missing file are none.
fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}
