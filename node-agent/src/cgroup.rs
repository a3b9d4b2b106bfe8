//! Control groups of version 2: what holds a tree of processes together, whatever it does, and what limits it.
//!
//! Responsible for the agent's own part of the hierarchy, `tenure-<hash of the state path>` below the cgroup that it was
//! started in: the leaves `agent` and `shims`, and one cgroup for each attempt below `attempts`. And for saying how much
//! of that this host allows. Not responsible for when something is killed (`shim/sweep.rs`), nor for limits that a
//! process sets on itself (`exec_stage.rs`).
//! Invariants: no process but the own one, a shim and the command of an attempt is ever moved; only cgroups of that part
//! are killed or removed; what is called `full` was read back from the kernel.

mod group;
pub(crate) mod mounts;
mod subtree;

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub(crate) use self::group::{Cgroup, join};
pub use self::subtree::Subtree;
use crate::shim::Limits;

/// How surely an attempt ends with everything that it began, and stays within its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Containment {
    /// A cgroup for each attempt, with the controllers of memory and processes.
    Full,
    /// A cgroup for each attempt, by which it is killed and seen to be gone; not all limits hold.
    Partial,
    /// No cgroups: descent, session and the tag in the environment.
    Weak,
}

impl Containment {
    /// The word of the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Partial => "partial",
            Self::Weak => "weak",
        }
    }
}

impl fmt::Display for Containment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether cgroups are to be used: `containment` of the node file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wanted {
    /// As far as the host allows.
    #[default]
    Auto,
    /// Not at all: no cgroup is made, no process moved.
    None,
}

/// A controller that limits of an attempt need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Controller {
    /// Memory and swap.
    Memory,
    /// Threads.
    Pids,
    /// Shares and quota of processors.
    Cpu,
    /// Shares of disks.
    Io,
}

impl Controller {
    /// All that are of use here.
    pub(crate) const ALL: [Self; 4] = [Self::Memory, Self::Pids, Self::Cpu, Self::Io];

    /// The kernel's word.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Cpu => "cpu",
            Self::Io => "io",
        }
    }
}

/// The cgroups of one attempt, as its shim is told them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Where the shim itself goes, absolute. It exists.
    pub(crate) shims: PathBuf,
    /// That of the command, absolute. The shim makes it, and removes it once it is empty.
    pub(crate) attempt: PathBuf,
    /// What is written into it before anybody joins.
    pub(crate) settings: Vec<Setting>,
}

/// A file of a cgroup and what is written into it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Setting {
    /// Its name.
    pub(crate) file: String,
    /// The new content.
    pub(crate) value: String,
    /// Whether a kernel that lacks the file is good enough.
    pub(crate) optional: bool,
}

impl Place {
    /// Whether the cgroup itself bounds the threads of the attempt.
    pub(crate) fn limits_tasks(&self) -> bool {
        self.settings.iter().any(|setting| setting.file == PIDS_MAX)
    }
}

const PIDS_MAX: &str = "pids.max";
/// The time that `cpu.max` counts in, in µs: the kernel's own default.
const CPU_PERIOD: u64 = 100_000;

/// What these limits are in the cgroup of an attempt, as far as it has the controllers.
fn settings(limits: &Limits, controllers: &[Controller]) -> Vec<Setting> {
    let setting = |file: &str, value: String, optional| Setting { file: file.to_owned(), value, optional };
    let mut settings = Vec::new();
    if controllers.contains(&Controller::Memory) {
        // A tree that lost one process to the OOM killer is of no use: all of it goes, and the cause is clear.
        settings.push(setting("memory.oom.group", "1".to_owned(), false));
        if let Some(memory) = limits.memory {
            settings.push(setting("memory.max", memory.to_string(), false));
            // Else the limit only moves the tree to the disk. Without swap accounting the file is not there.
            settings.push(setting("memory.swap.max", "0".to_owned(), true));
        }
    }
    if let Some(tasks) = limits.tasks.filter(|_| controllers.contains(&Controller::Pids)) {
        settings.push(setting(PIDS_MAX, tasks.to_string(), false));
    }
    if let Some(millis) = limits.cpu_millis.filter(|_| controllers.contains(&Controller::Cpu)) {
        let quota = millis.saturating_mul(CPU_PERIOD / 1_000);
        settings.push(setting("cpu.max", format!("{quota} {CPU_PERIOD}"), false));
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(limits: &Limits, controllers: &[Controller]) -> Vec<String> {
        settings(limits, controllers).into_iter().map(|one| format!("{} = {}", one.file, one.value)).collect()
    }

    #[test]
    fn limits_are_written_where_their_controller_is() {
        let limits =
            Limits { memory: Some(1 << 30), tasks: Some(100), cpu_millis: Some(1_500), ..Limits::default() };
        assert_eq!(
            lines(&limits, &Controller::ALL),
            [
                "memory.oom.group = 1",
                "memory.max = 1073741824",
                "memory.swap.max = 0",
                "pids.max = 100",
                "cpu.max = 150000 100000",
            ]
        );
        assert_eq!(lines(&limits, &[Controller::Pids]), ["pids.max = 100"]);
        assert_eq!(lines(&limits, &[]), Vec::<String>::new());
        assert_eq!(lines(&Limits::default(), &Controller::ALL), ["memory.oom.group = 1"]);
    }
}
