//! Reads signals on macOS, by the programs that come with it: no unsafe code, no bindings.
//!
//! Responsible for what `sysctl`, `vm_stat` and `ps` give. **Never run on a Mac so far**: only the parsers are tested,
//! on texts written after the manual pages.
//! Invariant: what these programs do not say is `Unsupported`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rustix::fs::statvfs;

use super::settings::approximate;
use super::signals::{Key, Samples, Signal, Value};
use crate::clock::Mono;

/// The reader.
#[derive(Debug)]
pub(super) struct Reader {
    dirs: Vec<PathBuf>,
    tasks_every: Duration,
    users: Option<(Mono, BTreeMap<u32, u64>)>,
}

impl Reader {
    /// `dirs` are the directories whose file systems count; processes are listed no more often than `tasks_every`.
    pub(super) fn new(dirs: Vec<PathBuf>, tasks_every: Duration) -> Self {
        Self { dirs, tasks_every, users: None }
    }

    /// Reads these signals and no others. Blocks.
    pub(super) fn read(&mut self, now: Mono, keys: &BTreeSet<Key>) -> Samples {
        Samples(keys.iter().map(|key| (key.clone(), self.sample(now, key))).collect())
    }

    fn sample(&mut self, now: Mono, key: &Key) -> (Mono, Value) {
        let value = match key.signal {
            Signal::MemHeadroomPct => memory_level(),
            Signal::MemHeadroom => match (memory_level(), memory_ceiling()) {
                (Value::Known { value, .. }, total) if total > 0 => {
                    known(value / 100.0 * approximate(total), 0.0)
                }
                _ => Value::Unknown,
            },
            Signal::SwapUsedPct => said("sysctl", &["-n", "vm.swapusage"], swap),
            Signal::ProcsUsed => return self.processes(now, &key.uids),
            Signal::DiskFree => self.disk().map_or(Value::Unknown, |(free, _)| known(free, 0.0)),
            Signal::DiskFreePct => {
                self.disk().map_or(Value::Unknown, |(free, total)| known(free / total * 100.0, total))
            }
            Signal::LoadPerCpu => said("sysctl", &["-n", "vm.loadavg"], load),
            Signal::Psi(..)
            | Signal::OomKills
            | Signal::TasksUsed
            | Signal::TasksUsedPct
            | Signal::TasksHeadroom
            | Signal::FdsUsedPct
            | Signal::InodesFreePct
            | Signal::SwapRate => Value::Unsupported,
        };
        (now, value)
    }

    fn processes(&mut self, now: Mono, uids: &[u32]) -> (Mono, Value) {
        if self.users.as_ref().is_none_or(|(at, _)| now.since(*at) >= self.tasks_every) {
            self.users = output("ps", &["-axo", "uid="]).map(|text| (now, count(&text)));
        }
        let Some((at, users)) = &self.users else { return (now, Value::Unknown) };
        let most = uids.iter().map(|uid| users.get(uid).copied().unwrap_or(0)).max();
        (*at, most.map_or(Value::Unknown, |most| known(approximate(most), 0.0)))
    }

    /// The least free bytes and the whole of that file system.
    fn disk(&self) -> Option<(f64, f64)> {
        let each = self.dirs.iter().filter_map(|dir| statvfs(dir).ok()).filter(|disk| disk.f_blocks > 0);
        let each = each.map(|disk| {
            let block = approximate(disk.f_frsize);
            (approximate(disk.f_bavail) * block, approximate(disk.f_blocks) * block)
        });
        each.min_by(|a, b| a.0.total_cmp(&b.0))
    }
}

/// Memory in bytes. 0: unknown.
pub(super) fn memory_ceiling() -> u64 {
    output("sysctl", &["-n", "hw.memsize"]).and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// `kern.memorystatus_level`: the free share that the kernel itself acts on.
fn memory_level() -> Value {
    said("sysctl", &["-n", "kern.memorystatus_level"], |text| {
        Some(known(text.trim().parse().ok()?, approximate(memory_ceiling())))
    })
}

fn said(program: &str, arguments: &[&str], parse: impl Fn(&str) -> Option<Value>) -> Value {
    output(program, arguments).and_then(|text| parse(&text)).unwrap_or(Value::Unknown)
}

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn known(value: f64, scale: f64) -> Value {
    Value::Known { value, scale }
}

/// `total = 2048.00M  used = 512.00M  free = 1536.00M  (encrypted)`
fn swap(text: &str) -> Option<Value> {
    let number = |name: &str| {
        let rest = text.split_once(name)?.1.trim_start().strip_prefix('=')?.trim_start();
        rest.split('M').next()?.parse::<f64>().ok()
    };
    let (total, used) = (number("total")?, number("used")?);
    Some(known(if total > 0.0 { used / total * 100.0 } else { 0.0 }, total * 1024.0 * 1024.0))
}

/// `{ 1.50 1.20 1.00 }`
fn load(text: &str) -> Option<Value> {
    let load: f64 = text.trim_start_matches(['{', ' ']).split_whitespace().next()?.parse().ok()?;
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Some(known(load / approximate(cpus as u64), 0.0))
}

/// One uid a line.
fn count(text: &str) -> BTreeMap<u32, u64> {
    let mut users = BTreeMap::new();
    for uid in text.lines().filter_map(|line| line.trim().parse().ok()) {
        *users.entry(uid).or_default() += 1;
    }
    users
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_of_the_manual_pages_are_understood() {
        let text = "total = 2048.00M  used = 512.00M  free = 1536.00M  (encrypted)\n";
        assert_eq!(swap(text), Some(known(25.0, 2_147_483_648.0)));
        assert!(matches!(load("{ 1.50 1.20 1.00 }\n"), Some(Value::Known { value, .. }) if value > 0.0));
        assert_eq!(count("    0\n  501\n  501\n"), BTreeMap::from([(0, 1), (501, 2)]));
        assert_eq!(swap("nothing"), None);
    }
}
