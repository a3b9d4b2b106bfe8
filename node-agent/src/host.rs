//! What this host is: the facts that Hello reports.
//!
//! Responsible for reading them once. Not responsible for how much of it is in use (`pressure`).
//! Invariant: what cannot be read is zero or empty, never a guess.

use std::fs;
use std::num::NonZero;
use std::path::Path;

use crate::cgroup::Containment;

/// The facts. Zero or empty: unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Processors that this process may use (affinity and cgroup quota).
    pub cpus: u32,
    /// Memory in bytes: of the host, or of the tightest ancestor cgroup.
    pub memory_bytes: u64,
    /// Free disk for an unprivileged user where `dir` is, in bytes.
    pub disk_free_bytes: u64,
    /// Operating system, as Rust names it.
    pub os: &'static str,
    /// Processor architecture, as Rust names it.
    pub arch: &'static str,
    /// How well a tree can be held: `full`, `partial` or `weak` (`cgroup.rs`).
    pub containment: &'static str,
    /// The random id of this boot.
    pub boot_id: String,
    /// The machine's id; empty where there is none.
    pub machine_id: String,
}

/// Reads the facts. `dir`: where attempts work; it exists. `containment`: what was found of that. Blocks for some file
/// reads.
pub fn read(dir: &Path, containment: Containment) -> Host {
    let cpus = std::thread::available_parallelism().map_or(0, NonZero::get);
    let disk = rustix::fs::statvfs(dir).ok();
    Host {
        cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
        memory_bytes: crate::pressure::memory_ceiling(),
        disk_free_bytes: disk.map_or(0, |disk| disk.f_bavail.saturating_mul(disk.f_frsize)),
        os: std::env::consts::OS,
        arch: std::env::consts::ARCH,
        containment: containment.as_str(),
        boot_id: boot_id(),
        machine_id: machine_id(),
    }
}

/// The random id of this boot.
pub fn boot_id() -> String {
    first_line("/proc/sys/kernel/random/boot_id")
}

/// The machine's id; empty where there is none.
pub fn machine_id() -> String {
    first_line("/etc/machine-id")
}

fn first_line(path: &str) -> String {
    fs::read_to_string(path).ok().and_then(|text| text.lines().next().map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let host = read(dir.path(), Containment::Partial);
        assert_eq!(host.containment, "partial");
        assert!(host.cpus > 0 && host.memory_bytes > 1 << 20 && host.disk_free_bytes > 0, "{host:?}");
        assert_eq!(host.boot_id.len(), 36, "{host:?}");
        assert_eq!(
            host,
            Host { disk_free_bytes: host.disk_free_bytes, ..read(dir.path(), Containment::Partial) }
        );
    }
}
