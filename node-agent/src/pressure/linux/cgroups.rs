//! The cgroups that this process is in, of version 2 and 1, from its own up to the mount's root.
//!
//! Responsible for finding them by `mountinfo` and the own path (hybrid hosts mount both versions), and for their
//! numbers. Not responsible for changing them.
//! Invariant: every directory of a chain existed when it was found; a chain has no limits of its own host in it.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Failure, field};
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
        let own = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
        let mounts = fs::read_to_string(root.join("proc/self/mountinfo")).unwrap_or_default();
        let mounts: Vec<Mount> = mounts.lines().filter_map(Mount::parse).collect();
        let chain = |v1: Option<&str>| {
            let path = own_path(&own, v1)?;
            let mount = mounts.iter().find(|mount| mount.holds(v1))?;
            Some(mount.chain(root, path))
        };
        Self {
            unified: chain(None).unwrap_or_default(),
            memory_v1: chain(Some("memory")).unwrap_or_default(),
            pids_v1: chain(Some("pids")).unwrap_or_default(),
        }
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

    /// The stall file of the own cgroup.
    pub(super) fn stalls(&self, resource: Resource) -> Option<PathBuf> {
        Some(self.unified.first()?.join(format!("{}.pressure", resource.as_str())))
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

/// The own path in the hierarchy of a controller of version 1, or in that of version 2.
fn own_path<'a>(own: &'a str, v1: Option<&str>) -> Option<&'a str> {
    own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let ours = match v1 {
            None => number == "0" && controllers.is_empty(),
            Some(controller) => controllers.split(',').any(|name| name == controller),
        };
        ours.then_some(path)
    })
}

/// A line of `mountinfo` that is about cgroups.
struct Mount<'a> {
    /// Which directory of the hierarchy is mounted.
    root: &'a str,
    /// Where.
    point: &'a str,
    /// Absent for version 2.
    controllers: Option<&'a str>,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (place, kind) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (root, point) = (place.next()?, place.next()?);
        let mut kind = kind.split(' ');
        let controllers = match kind.next()? {
            "cgroup2" => None,
            "cgroup" => Some(kind.nth(1)?),
            _ => return None,
        };
        Some(Self { root, point, controllers })
    }

    fn holds(&self, v1: Option<&str>) -> bool {
        match (self.controllers, v1) {
            (None, None) => true,
            (Some(options), Some(controller)) => options.split(',').any(|option| option == controller),
            (None, Some(_)) | (Some(_), None) => false,
        }
    }

    /// From the own cgroup up to the mount point. A path outside of what is mounted (another namespace's) leaves the
    /// mount point alone.
    fn chain(&self, root: &Path, path: &str) -> Vec<PathBuf> {
        let point = root.join(self.point.trim_start_matches('/'));
        let inside = path.strip_prefix(self.root.trim_end_matches('/')).unwrap_or_default();
        let inside = if inside.split('/').any(|part| part == "..") { "" } else { inside.trim_matches('/') };
        let own = point.join(inside);
        own.ancestors()
            .take_while(|dir| dir.starts_with(&point))
            .filter(|dir| dir.is_dir())
            .map(Path::to_owned)
            .collect()
    }
}
