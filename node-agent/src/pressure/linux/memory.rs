//! Memory and swap: of the host, and of every ancestor cgroup.
//!
//! Responsible for the tightest of them. Invariant: a host without swap has no swap in use.

use std::fs;
use std::path::Path;

use procfs::{FromRead as _, Meminfo};

use super::cgroups::{Budget, Cgroups};
use super::{Failure, Read, share};
use crate::pressure::settings::approximate;

/// What can be taken before something is reclaimed by force or killed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Headroom {
    /// The least, in bytes.
    pub(super) least: f64,
    /// The least share of a ceiling, in percent.
    pub(super) percent: f64,
    /// That ceiling, in bytes.
    pub(super) of: f64,
}

/// The least over the host and the chain of cgroups.
pub(super) fn headroom(root: &Path, cgroups: &Cgroups) -> Result<Headroom, Failure> {
    let meminfo = meminfo(root)?;
    // Before Linux 3.14; nothing that we run on.
    let available = meminfo.mem_available.ok_or(Failure::Unsupported)?;
    if meminfo.mem_total == 0 || available > meminfo.mem_total {
        return Err(Failure::Unknown);
    }
    let host = Budget { ceiling: meminfo.mem_total, room: available };
    let budgets = cgroups.memory().into_iter().filter(|budget| budget.ceiling > 0).chain([host]);
    let each = budgets.map(|budget| Headroom {
        least: approximate(budget.room),
        percent: share(budget.room, budget.ceiling),
        of: approximate(budget.ceiling),
    });
    each.reduce(|a, b| {
        let tighter = if b.percent < a.percent { b } else { a };
        Headroom { least: a.least.min(b.least), ..tighter }
    })
    .ok_or(Failure::Unknown)
}

/// The memory that this process may hope for, in bytes: of the host or of its tightest cgroup. 0: unknown.
pub(in crate::pressure) fn ceiling() -> u64 {
    let root = Path::new("/");
    let host = meminfo(root).map_or(0, |meminfo| meminfo.mem_total);
    let cgroups = Cgroups::find(root).memory().into_iter().map(|budget| budget.ceiling);
    cgroups.chain([host]).filter(|&ceiling| ceiling > 0).min().unwrap_or(0)
}

/// In percent of all swap.
pub(super) fn swap_used(root: &Path) -> Read {
    let meminfo = meminfo(root)?;
    let used = meminfo.swap_total.checked_sub(meminfo.swap_free).ok_or(Failure::Unknown)?;
    Ok((share(used, meminfo.swap_total), approximate(meminfo.swap_total)))
}

fn meminfo(root: &Path) -> Result<Meminfo, Failure> {
    let text = fs::read(root.join("proc/meminfo"))?;
    Meminfo::from_read(text.as_slice()).map_err(|_| Failure::Unknown)
}
