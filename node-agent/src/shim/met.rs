//! Which of its limits an attempt met, for the record of its end.
//!
//! Responsible for what the kernel counted and for saying it to a person, before the command's own last lines. Not
//! responsible for causes that the shim itself made (`deadlines.rs`).

use super::spec::{Cause, Limits};
use super::tree;
use super::usage::Excess;
use crate::cgroup::Cgroup;
use crate::output::cut_front;

/// Whether memory was what a SIGKILL was for: by its own cgroup if that counts, else by the host's count, which has risen
/// above `before`; there it may have been another's process.
pub(super) fn out_of_memory(cgroup: Option<&Cgroup>, before: u64) -> bool {
    let own = cgroup.and_then(Cgroup::oom_kills);
    own.map_or_else(|| tree::oom_kills() > before, |own| own > 0)
}

/// What is known of the end of a command that ran.
pub(super) struct Met<'a> {
    /// What ended it.
    pub(super) cause: Cause,
    /// Its limits.
    pub(super) limits: &'a Limits,
    /// What was too much on the disk.
    pub(super) excess: Option<&'a Excess>,
}

impl Met<'_> {
    /// The limit that it met, if any, and then these lines of its own.
    pub(super) fn before(&self, lines: String, cgroup: Option<&Cgroup>) -> String {
        match self.limit(cgroup) {
            Some(met) if lines.is_empty() => met,
            Some(met) => cut_front(format!("{met}\n{lines}")),
            None => lines,
        }
    }

    fn limit(&self, cgroup: Option<&Cgroup>) -> Option<String> {
        match self.cause {
            Cause::Disk => {
                let (excess, disk) = (self.excess?, self.limits.disk?);
                Some(format!("{excess}, limits.disk is {disk}"))
            }
            Cause::Oom => {
                cgroup.and_then(Cgroup::oom_kills)?;
                let memory = self.limits.memory?;
                Some(format!("killed for memory, limits.memory is {memory}"))
            }
            Cause::Exit | Cause::Signal => {
                let refused = cgroup.and_then(Cgroup::refused_tasks).filter(|refused| *refused > 0)?;
                let tasks = self.limits.tasks?;
                Some(format!("processes or threads were refused {refused} times, limits.tasks is {tasks}"))
            }
            Cause::Limit
            | Cause::SoftLimit
            | Cause::Stalled
            | Cause::CutOff
            | Cause::Revoked
            | Cause::Drained
            | Cause::Terminated
            | Cause::Spawn
            | Cause::Lost => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_limit_that_was_met_comes_before_the_last_lines() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("memory.events"), "oom 1\noom_kill 4\n").unwrap();
        fs::write(dir.path().join("pids.events"), "max 3\n").unwrap();
        let cgroup = Cgroup::at(dir.path().to_owned());
        let limits = Limits { memory: Some(1 << 20), tasks: Some(5), disk: Some(4_096), ..Limits::default() };
        let said = |cause: Cause, lines: &str, cgroup: Option<&Cgroup>| {
            Met { cause, limits: &limits, excess: Some(&Excess::Bytes(9_000)) }
                .before(lines.to_owned(), cgroup)
        };
        assert_eq!(said(Cause::Oom, "", Some(&cgroup)), "killed for memory, limits.memory is 1048576");
        assert_eq!(said(Cause::Oom, "lines", None), "lines", "the host was out of memory");
        let refused = "processes or threads were refused 3 times, limits.tasks is 5\nfork: failed";
        assert_eq!(said(Cause::Exit, "fork: failed", Some(&cgroup)), refused);
        assert_eq!(said(Cause::Exit, "lines", None), "lines");
        assert_eq!(said(Cause::Disk, "", None), "its directories hold 9000 bytes, limits.disk is 4096");
        assert_eq!(said(Cause::Limit, "lines", Some(&cgroup)), "lines");
        assert!(out_of_memory(Some(&cgroup), u64::MAX) && !out_of_memory(None, u64::MAX));
    }
}
