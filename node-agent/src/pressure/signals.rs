//! What can be read of a host: the names of signals, and what a reading of one is.
//!
//! Responsible for the names and their meaning. Not responsible for reading them (`linux.rs`, `macos.rs`) nor for
//! judging them (`rules.rs`).
//! Invariant: a name that parses prints as itself.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::clock::Mono;

/// One signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Signal {
    /// `psi.RESOURCE.some.avg10` and so on: percent of the window in which some (all) tasks were stalled.
    Psi(Resource, Stalled, Window),
    /// `mem.headroom`: bytes that can be taken before something is reclaimed by force or killed.
    MemHeadroom,
    /// `mem.headroom_pct`: the same in percent of its ceiling.
    MemHeadroomPct,
    /// `oom.kills`: processes that the kernel killed for memory in the last 5 minutes.
    OomKills,
    /// `procs.used`: processes of a user.
    ProcsUsed,
    /// `tasks.used`: threads of a user.
    TasksUsed,
    /// `tasks.used_pct`: in percent of the ceiling that is nearest.
    TasksUsedPct,
    /// `tasks.headroom`: threads that can be made before a ceiling is hit.
    TasksHeadroom,
    /// `fds.used_pct`: open files of the host, of the agent, or inotify watches, whichever is nearest its ceiling.
    FdsUsedPct,
    /// `disk.free`: bytes free for an unprivileged user; the least of the watched directories.
    DiskFree,
    /// `disk.free_pct`: the same in percent.
    DiskFreePct,
    /// `inodes.free_pct`: likewise; unsupported where the file system has no fixed number.
    InodesFreePct,
    /// `load.per_cpu`: one-minute load by usable processor.
    LoadPerCpu,
    /// `swap.used_pct`: percent of swap in use; 0 without swap.
    SwapUsedPct,
    /// `swap.rate`: pages swapped in and out a second.
    SwapRate,
}

/// A resource with stall information.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// Processors.
    Cpu,
    /// Memory.
    Memory,
    /// Block devices.
    Io,
}

/// Who was stalled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stalled {
    /// At least one task.
    Some,
    /// Every task that was not idle.
    Full,
}

/// Over how long a stall is averaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Window {
    /// 10 s.
    Avg10,
    /// 60 s.
    Avg60,
}

/// A signal as a rule reads it: with the users that it counts. With several, the worst of them counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The signal.
    pub signal: Signal,
    /// The users, sorted; empty for signals that count no user.
    pub uids: Vec<u32>,
}

/// What came of reading a signal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// It was read.
    Known {
        /// In the signal's own unit.
        value: f64,
        /// For a signal in percent: how much 100 % is, in bytes, tasks or files. 0: has none.
        scale: f64,
    },
    /// It should be there and was not, or was absurd.
    Unknown,
    /// Two readings are needed, and there was one.
    Pending,
    /// This host cannot give it.
    Unsupported,
}

/// The newest reading of every signal that a rule uses, with its moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Samples(pub BTreeMap<Key, (Mono, Value)>);

/// Every signal by its name.
const NAMES: [(&str, Signal); 14] = [
    ("mem.headroom", Signal::MemHeadroom),
    ("mem.headroom_pct", Signal::MemHeadroomPct),
    ("oom.kills", Signal::OomKills),
    ("procs.used", Signal::ProcsUsed),
    ("tasks.used", Signal::TasksUsed),
    ("tasks.used_pct", Signal::TasksUsedPct),
    ("tasks.headroom", Signal::TasksHeadroom),
    ("fds.used_pct", Signal::FdsUsedPct),
    ("disk.free", Signal::DiskFree),
    ("disk.free_pct", Signal::DiskFreePct),
    ("inodes.free_pct", Signal::InodesFreePct),
    ("load.per_cpu", Signal::LoadPerCpu),
    ("swap.used_pct", Signal::SwapUsedPct),
    ("swap.rate", Signal::SwapRate),
];

impl Signal {
    /// Whether it counts what one user has.
    pub fn counts_a_user(self) -> bool {
        matches!(self, Self::ProcsUsed | Self::TasksUsed | Self::TasksUsedPct | Self::TasksHeadroom)
    }

    /// Whether it is a share of 100.
    pub fn is_percentage(self) -> bool {
        match self {
            Self::Psi(..)
            | Self::MemHeadroomPct
            | Self::TasksUsedPct
            | Self::FdsUsedPct
            | Self::DiskFreePct
            | Self::InodesFreePct
            | Self::SwapUsedPct => true,
            Self::MemHeadroom
            | Self::OomKills
            | Self::ProcsUsed
            | Self::TasksUsed
            | Self::TasksHeadroom
            | Self::DiskFree
            | Self::LoadPerCpu
            | Self::SwapRate => false,
        }
    }

    /// Whether less of it is worse.
    pub fn is_room(self) -> bool {
        matches!(
            self,
            Self::MemHeadroom
                | Self::MemHeadroomPct
                | Self::TasksHeadroom
                | Self::DiskFree
                | Self::DiskFreePct
                | Self::InodesFreePct
        )
    }
}

impl Resource {
    const ALL: [(&str, Self); 3] = [("cpu", Self::Cpu), ("memory", Self::Memory), ("io", Self::Io)];

    /// Its name, in signals and in `/proc/pressure`.
    pub fn as_str(self) -> &'static str {
        name_of(&Self::ALL, self)
    }
}

impl Stalled {
    const ALL: [(&str, Self); 2] = [("some", Self::Some), ("full", Self::Full)];
}

impl Window {
    const ALL: [(&str, Self); 2] = [("avg10", Self::Avg10), ("avg60", Self::Avg60)];
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Psi(resource, stalled, window) = *self {
            let (stalled, window) = (name_of(&Stalled::ALL, stalled), name_of(&Window::ALL, window));
            write!(f, "psi.{}.{stalled}.{window}", resource.as_str())
        } else {
            f.write_str(name_of(&NAMES, *self))
        }
    }
}

impl FromStr for Signal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = named(&NAMES, text).or_else(|| {
            let mut parts = text.strip_prefix("psi.")?.split('.');
            let resource = named(&Resource::ALL, parts.next()?)?;
            let stalled = named(&Stalled::ALL, parts.next()?)?;
            let window = named(&Window::ALL, parts.next()?)?;
            parts.next().is_none().then_some(Self::Psi(resource, stalled, window))
        });
        named.ok_or_else(|| {
            let names = NAMES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            format!("there is no signal \"{text}\"; there are {names} and psi.{{cpu,memory,io}}.{{some,full}}.{{avg10,avg60}}")
        })
    }
}

/// The name of a value in its table, which names every one.
fn name_of<T: PartialEq>(table: &[(&'static str, T)], value: T) -> &'static str {
    table.iter().find(|(_, listed)| *listed == value).map_or("", |(name, _)| name)
}

fn named<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table.iter().find(|(listed, _)| *listed == name).map(|(_, value)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signal_prints_as_its_name() {
        let psi = Resource::ALL.into_iter().flat_map(|(resource, _)| {
            ["some", "full"].into_iter().flat_map(move |stalled| {
                ["avg10", "avg60"].into_iter().map(move |window| format!("psi.{resource}.{stalled}.{window}"))
            })
        });
        for name in NAMES.iter().map(|(name, _)| (*name).to_owned()).chain(psi) {
            assert_eq!(name.parse::<Signal>().unwrap().to_string(), name);
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        for name in ["mem", "psi.memory.some", "psi.memory.some.avg10.x", "psi.disk.some.avg10", ""] {
            assert!(name.parse::<Signal>().unwrap_err().contains("mem.headroom"), "{name}");
        }
    }
}
