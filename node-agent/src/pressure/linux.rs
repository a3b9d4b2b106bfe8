//! Reads signals on Linux: `/proc`, the own cgroups of either version, `statvfs`.
//!
//! Responsible for turning files into values, and for saying which signals this host cannot give. Not responsible
//! for when to read nor for judging.
//! Invariant: what is missing is `Unsupported`, what is there and makes no sense is `Unknown`; neither is a number.

mod cgroups;
mod memory;
mod stalls;
mod tasks;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::io;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::statvfs;

use super::settings::approximate;
use super::signals::{Key, Resource, Samples, Signal, Value};
use crate::clock::Mono;
use cgroups::Cgroups;
pub(super) use memory::ceiling as memory_ceiling;
use stalls::Stalls;
use tasks::Tasks;

/// `oom.kills` counts over this time.
const KILLS_WINDOW: Duration = Duration::from_secs(5 * 60);

/// A value and what 100 % of it is (0: it is no percentage), or why there is none.
type Read = Result<(f64, f64), Failure>;

/// Why a signal has no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    /// Never on this host.
    Unsupported,
    /// Not now.
    Unknown,
    /// Only with the next reading.
    Pending,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        // Switched off at boot, stall files are there and answer EOPNOTSUPP.
        if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::Unsupported) {
            Self::Unsupported
        } else {
            Self::Unknown
        }
    }
}

/// What several signals are made of, read once for all of them.
#[derive(Default)]
struct Once {
    memory: OnceCell<Result<memory::Headroom, Failure>>,
    /// As `Reader::disk` answers.
    disk: OnceCell<Result<(f64, f64, f64), Failure>>,
}

/// The reader, with what it must remember for rates and windows.
#[derive(Debug)]
pub(super) struct Reader {
    root: PathBuf,
    dirs: Vec<PathBuf>,
    cgroups: Cgroups,
    stalls: BTreeMap<Resource, Stalls>,
    tasks: Tasks,
    swapped: Option<(Mono, u64)>,
    kills: VecDeque<(Mono, u64)>,
}

impl Reader {
    /// Of this host. `dirs` are the directories whose file systems count; every process is looked at no more often
    /// than `tasks_every`.
    pub(super) fn new(dirs: Vec<PathBuf>, tasks_every: Duration) -> Self {
        Self::at(Path::new("/"), dirs, tasks_every)
    }

    /// Of a host whose files stand below `root`.
    fn at(root: &Path, dirs: Vec<PathBuf>, tasks_every: Duration) -> Self {
        Self {
            root: root.to_owned(),
            dirs,
            cgroups: Cgroups::find(root),
            stalls: BTreeMap::new(),
            tasks: Tasks::new(root, tasks_every),
            swapped: None,
            kills: VecDeque::new(),
        }
    }

    /// Reads these signals and no others. Blocks.
    pub(super) fn read(&mut self, now: Mono, keys: &BTreeSet<Key>) -> Samples {
        for resource in [Resource::Cpu, Resource::Memory, Resource::Io] {
            if keys.iter().any(|key| matches!(key.signal, Signal::Psi(of, ..) if of == resource)) {
                let files = [
                    Some(self.root.join("proc/pressure").join(resource.as_str())),
                    self.cgroups.stalls(resource),
                ];
                self.stalls.entry(resource).or_default().read(now, &files);
            }
        }
        if keys.iter().any(|key| key.signal.counts_a_user()) {
            self.tasks.read(now, &self.cgroups);
        }
        let once = Once::default();
        Samples(keys.iter().map(|key| (key.clone(), self.sample(now, key, &once))).collect())
    }

    fn sample(&mut self, now: Mono, key: &Key, once: &Once) -> (Mono, Value) {
        let room = || *once.memory.get_or_init(|| memory::headroom(&self.root, &self.cgroups));
        let disk = || *once.disk.get_or_init(|| self.disk());
        let read = match key.signal {
            Signal::Psi(resource, stalled, window) => match self.stalls.get(&resource) {
                Some(stalls) => stalls.average(now, stalled, window).map(|percent| (percent, 100.0)),
                None => Err(Failure::Unknown),
            },
            Signal::MemHeadroom => room().map(|room| (room.least, 0.0)),
            Signal::MemHeadroomPct => room().map(|room| (room.percent, room.of)),
            Signal::OomKills => self.kills(now),
            Signal::ProcsUsed | Signal::TasksUsed | Signal::TasksUsedPct | Signal::TasksHeadroom => {
                return (self.tasks.read_at().unwrap_or(now), value(self.tasks.value(key.signal, &key.uids)));
            }
            Signal::FdsUsedPct => self.files_used(),
            Signal::DiskFree => disk().map(|(free, _, _)| (free, 0.0)),
            Signal::DiskFreePct => disk().map(|(_, percent, of)| (percent, of)),
            Signal::InodesFreePct => self.inodes(),
            Signal::LoadPerCpu => self.load(),
            Signal::SwapUsedPct => memory::swap_used(&self.root),
            Signal::SwapRate => self.swap_rate(now),
        };
        (now, value(read))
    }

    /// How many the kernel has killed for memory lately.
    fn kills(&mut self, now: Mono) -> Read {
        let count = match field(&self.root.join("proc/vmstat"), "oom_kill") {
            Err(Failure::Unsupported) => self.cgroups.oom_kills()?,
            read => read?,
        };
        // Only changes are kept, so the list is short; its first entry stands for the beginning of the window.
        if self.kills.back().is_none_or(|(_, last)| *last != count) {
            self.kills.push_back((now, count));
        }
        while self.kills.get(1).is_some_and(|(at, _)| now.since(*at) >= KILLS_WINDOW) {
            self.kills.pop_front();
        }
        let before = self.kills.front().map_or(count, |(_, count)| *count);
        Ok((approximate(count.saturating_sub(before)), 0.0))
    }

    /// Of the whole host and of this process, whichever is nearer its ceiling.
    fn files_used(&self) -> Read {
        let host = fs::read_to_string(self.root.join("proc/sys/fs/file-nr"))?;
        let host: Vec<u64> = host.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        let [allocated, unused, maximum] = host.as_slice() else { return Err(Failure::Unknown) };
        let own = fs::read_dir(self.root.join("proc/self/fd"))?.count() as u64;
        let limits = fs::read_to_string(self.root.join("proc/self/limits"))?;
        let shares = [
            (allocated.saturating_sub(*unused), Some(*maximum)),
            (own, soft_limit(&limits, "Max open files")),
        ];
        let shares = shares.into_iter().filter_map(|(used, of)| Some((used, of.filter(|of| *of > 0)?)));
        let worst = shares.map(|(used, of)| (share(used, of), approximate(of)));
        worst.max_by(|a, b| a.0.total_cmp(&b.0)).ok_or(Failure::Unsupported)
    }

    /// The least free bytes, the least free share in percent, and how much is the whole of that one.
    fn disk(&self) -> Result<(f64, f64, f64), Failure> {
        let mut least: Option<(f64, f64, f64)> = None;
        for dir in &self.dirs {
            let disk = statvfs(dir).map_err(io::Error::from)?;
            if disk.f_blocks == 0 {
                continue;
            }
            let (free, total) =
                (disk.f_bavail.saturating_mul(disk.f_frsize), disk.f_blocks.saturating_mul(disk.f_frsize));
            let (free, percent, total) = (approximate(free), share(free, total), approximate(total));
            least = Some(least.map_or((free, percent, total), |(least_free, least_percent, of)| {
                let (percent, of) =
                    if percent < least_percent { (percent, total) } else { (least_percent, of) };
                (free.min(least_free), percent, of)
            }));
        }
        least.ok_or(Failure::Unsupported)
    }

    fn inodes(&self) -> Read {
        let mut least: Option<f64> = None;
        for dir in &self.dirs {
            let disk = statvfs(dir).map_err(io::Error::from)?;
            // btrfs and its like make them as they need them, and say 0.
            if disk.f_files > 0 {
                let percent = share(disk.f_favail, disk.f_files);
                least = Some(least.map_or(percent, |least| least.min(percent)));
            }
        }
        least.map(|percent| (percent, 0.0)).ok_or(Failure::Unsupported)
    }

    fn load(&self) -> Read {
        let text = fs::read_to_string(self.root.join("proc/loadavg"))?;
        let load: f64 =
            text.split_whitespace().next().and_then(|word| word.parse().ok()).ok_or(Failure::Unknown)?;
        let cpus = std::thread::available_parallelism().map_or(1, NonZero::get);
        Ok((load / approximate(cpus as u64), 0.0))
    }

    fn swap_rate(&mut self, now: Mono) -> Read {
        let path = self.root.join("proc/vmstat");
        let pages = field(&path, "pswpin")?.saturating_add(field(&path, "pswpout")?);
        let (at, before) = self.swapped.replace((now, pages)).ok_or(Failure::Pending)?;
        let seconds = now.since(at).as_secs_f64();
        if seconds > 0.0 {
            Ok((approximate(pages.saturating_sub(before)) / seconds, 0.0))
        } else {
            Err(Failure::Pending)
        }
    }
}

fn value(read: Read) -> Value {
    match read {
        Ok((value, scale)) => Value::Known { value, scale },
        Err(Failure::Unsupported) => Value::Unsupported,
        Err(Failure::Unknown) => Value::Unknown,
        Err(Failure::Pending) => Value::Pending,
    }
}

/// The number after `name` in a file of lines `name number`.
fn field(path: &Path, name: &str) -> Result<u64, Failure> {
    let text = fs::read_to_string(path)?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.ok_or(Failure::Unsupported)?.trim().parse().map_err(|_| Failure::Unknown)
}

/// The soft limit in a line of `/proc/self/limits`; `None` if it is unlimited or not there.
fn soft_limit(limits: &str, name: &str) -> Option<u64> {
    limits.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

/// In percent.
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { approximate(part) / approximate(whole) * 100.0 }
}

#[cfg(test)]
mod tests;
