//! Every process of one scenario, found by the mark in its environment.
//!
//! Responsible for finding and for ending them by pid and start time. Invariant: nothing is ended that does not carry
//! the mark.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The variable that carries the mark.
pub const VARIABLE: &str = "TEST_TAG";
/// How long the killed may take to go.
const GONE: Duration = Duration::from_secs(5);

/// One process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its pid.
    pub pid: u32,
    /// Clock ticks since boot at its start.
    pub started: u64,
    /// The fencing token in its environment: it belongs to a job.
    pub token: Option<u64>,
    /// What it was called with.
    pub command: String,
}

/// Processes that live and carry the mark. Zombies have no environment and do not count.
pub fn processes(tag: &str) -> Vec<Found> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| look(pid, tag)).collect()
}

/// Processes of the job execution with this token.
pub fn of_token(tag: &str, token: u64) -> Vec<Found> {
    processes(tag).into_iter().filter(|found| found.token == Some(token)).collect()
}

/// Ends every process that carries the mark, until there is none. Returns those that it found.
pub fn end_all(tag: &str) -> Vec<Found> {
    let mut ended = BTreeMap::new();
    let begun = crate::clock::Moment::now();
    loop {
        let alive = processes(tag);
        if alive.is_empty() || begun.elapsed() > GONE {
            return ended.into_values().collect();
        }
        for found in alive {
            kill(&found);
            ended.insert(found.pid, found);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn look(pid: u32, tag: &str) -> Option<Found> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let value = |name: &str| {
        let mut entries = environment.split(|&byte| byte == 0);
        entries.find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=").map(<[u8]>::to_vec))
    };
    if value(VARIABLE)? != tag.as_bytes() {
        return None;
    }
    let token = value("TENURE_FENCE").and_then(|token| String::from_utf8(token).ok()?.parse().ok());
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let command = String::from_utf8_lossy(&command).replace('\0', " ").trim().to_owned();
    Some(Found { pid, started: start_time(pid)?, token, command })
}

fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(19)?.parse().ok()
}

fn kill(found: &Found) {
    let Some(pid) = i32::try_from(found.pid).ok().and_then(Pid::from_raw) else { return };
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    // The handle is of this process only if the start time is still the same behind it.
    if start_time(found.pid) == Some(found.started) && pidfd_send_signal(&handle, Signal::KILL).is_err() {
        // It is gone, or the next look finds it again.
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn marked_processes_are_found_and_ended_and_others_are_not() {
        let mark = format!("tag-test-{}", std::process::id());
        let mut command = Command::new("sleep");
        command.arg("60").stdin(Stdio::null());
        let mut stranger = command.env(VARIABLE, format!("{mark}-other")).spawn().unwrap();
        let mut ours = command.env(VARIABLE, &mark).env("TENURE_FENCE", "77").spawn().unwrap();
        // A process shows its environment a moment after its exec is done.
        let begun = crate::clock::Moment::now();
        let shown = || of_token(&mark, 77).len() == 1 && processes(&format!("{mark}-other")).len() == 1;
        while !shown() && begun.elapsed() < GONE {
            std::thread::yield_now();
        }
        assert_eq!(of_token(&mark, 77).len(), 1);
        assert_eq!(end_all(&mark).len(), 1);
        assert!(processes(&mark).is_empty());
        assert_eq!(processes(&format!("{mark}-other")).len(), 1);
        stranger.kill().unwrap();
        stranger.wait().unwrap();
        ours.wait().unwrap();
    }
}
