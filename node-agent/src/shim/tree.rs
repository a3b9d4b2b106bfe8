//! The processes of one attempt: finding them all, and killing them without hitting a stranger.
//!
//! Responsible for one look at `/proc`, for the cgroup where there is one, and for signals by pidfd and start time. Not
//! responsible for when to signal (the keeper, the agent) nor for reaping. A cgroup does not replace the look: a job of
//! the agent's own user could have left it.
//! Invariant: a signal reaches a process only if it was found to belong to the attempt under the same start time;
//! a pid that was taken again in between is left alone.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _};
use std::time::Duration;

use procfs::process::{Process, all_processes};
use procfs::{ProcError, ProcResult};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use super::tag::{self, Owner, Tag};
use crate::cgroup::Cgroup;

/// No environment is longer than this for our purpose, in bytes.
const ENVIRON_LIMIT: u64 = 4 * 1024 * 1024;

/// One process, told apart from every other that has had its pid since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// Its pid.
    pub(crate) pid: i32,
    /// When it started, in clock ticks since boot.
    pub(crate) start: u64,
}

impl Identity {
    /// Who has this pid now.
    pub(crate) fn of(pid: i32) -> io::Result<Self> {
        let stat = Process::new(pid).and_then(|process| process.stat()).map_err(io_error)?;
        Ok(Self { pid, start: stat.starttime })
    }

    /// Whether it still exists and is more than a zombie.
    pub(crate) fn is_alive(self) -> bool {
        Process::new(self.pid)
            .and_then(|process| process.stat())
            .is_ok_and(|stat| stat.starttime == self.start && !is_zombie(stat.state, stat.num_threads))
    }

    /// Returns once it has ended. Cancel-safe.
    pub(crate) async fn left(self) {
        let mut pause = Duration::from_millis(5);
        while self.is_alive() {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(200));
        }
    }

    /// Whether it has a handler of its own for a signal. No, if that cannot be read.
    pub(crate) fn catches(self, signal: Signal) -> bool {
        let status = Process::new(self.pid).and_then(|process| process.status());
        let bit = u32::try_from(signal.as_raw() - 1).ok().and_then(|bit| 1_u64.checked_shl(bit));
        status.is_ok_and(|status| bit.is_some_and(|bit| status.sigcgt & bit != 0))
    }

    /// Signals it, whoever else may have its pid by now. Answers whether it was there.
    pub(crate) fn signal(self, signal: Signal) -> io::Result<bool> {
        let Some(pid) = Pid::from_raw(self.pid) else { return Ok(false) };
        // The pidfd holds the process before its start time is compared: what is signalled is what was compared.
        let pidfd = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            Err(Errno::SRCH) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        match Self::of(self.pid) {
            Ok(found) if found == self => {}
            Ok(_) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        }
        match pidfd_send_signal(pidfd, signal) {
            Ok(()) => Ok(true),
            Err(Errno::SRCH) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// A process that belongs to the attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Member {
    /// Which.
    pub(crate) identity: Identity,
    /// Its process group.
    pub(crate) group: i32,
    /// Its session.
    pub(crate) session: i32,
    /// It has ended and waits for its parent to notice.
    pub(crate) zombie: bool,
}

/// How the processes of one attempt are known.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    /// The mark in their environment.
    pub(crate) tag: Tag,
    /// The shim. Every process of the attempt descends from it while it lives, since it is their subreaper, and
    /// its pid is the number of their session. It is no member itself.
    pub(crate) keeper: Identity,
    /// The user of the command, which a member of the bare session must have once the shim is gone. Absent: the
    /// caller's.
    pub(crate) uid: Option<u32>,
    /// Whether zombies are members. The shim reaps them; to everybody else they are gone.
    pub(crate) zombies: bool,
    /// What holds them all, if anything does.
    pub(crate) cgroup: Option<Cgroup>,
}

impl Tree {
    /// Every process of the attempt, by one look at `/proc`.
    pub(crate) fn members(&self) -> io::Result<Vec<Member>> {
        let table = Table::read(self.keeper.start)?;
        let keeper_lives = table.rows.get(&self.keeper.pid).is_some_and(|row| row.start == self.keeper.start);
        let descendants = if keeper_lives { table.descendants(self.keeper.pid) } else { BTreeSet::new() };
        // Without the shim the number of its session may belong to a stranger: then only the tag speaks.
        let session_is_ours = keeper_lives || !table.rows.contains_key(&self.keeper.pid);
        let uid = self.uid.unwrap_or_else(|| rustix::process::geteuid().as_raw());
        let held: BTreeSet<i32> = self.cgroup.iter().flat_map(Cgroup::pids).collect();
        let mut members = Vec::new();
        for (&pid, row) in &table.rows {
            let is_keeper = pid == self.keeper.pid && row.start == self.keeper.start;
            if is_keeper || row.zombie && !self.zombies {
                continue;
            }
            let ours = held.contains(&pid) || descendants.contains(&pid) || {
                let environ = row.environ();
                let marked = self.tag.marks(&environ);
                let in_session =
                    session_is_ours && row.session == self.keeper.pid && row.start >= self.keeper.start;
                marked || in_session && (keeper_lives || !tag::is_tagged(&environ) && row.runs_as(uid))
            };
            if ours {
                members.push(Member {
                    identity: Identity { pid, start: row.start },
                    group: row.group,
                    session: row.session,
                    zombie: row.zombie,
                });
            }
        }
        Ok(members)
    }

    /// Whether its cgroup holds somebody, seen in the process table or not. Without one nobody says so.
    pub(crate) fn is_held(&self) -> io::Result<bool> {
        self.cgroup.as_ref().map_or(Ok(false), Cgroup::is_populated)
    }

    /// SIGKILL to all that its cgroup holds, in one stroke.
    pub(crate) fn kill_held(&self) {
        if let Some(cgroup) = &self.cgroup {
            // A cgroup that refuses leaves the members, which are killed one by one.
            cgroup.kill().ok();
        }
    }

    /// Removes its cgroup, which is empty.
    pub(crate) fn remove_cgroup(&self) {
        self.cgroup.iter().for_each(Cgroup::remove);
    }

    /// SIGKILL to every living member, one by one.
    pub(crate) fn kill_all(&self, members: &[Member]) {
        for member in members.iter().filter(|member| !member.zombie) {
            // One that has just ended is what we want, one that refuses is met again in the next round.
            member.identity.signal(Signal::KILL).ok();
        }
    }

    /// SIGKILL to whole process groups of the shim's session: one stroke that a fork cannot escape, for trees that
    /// grow faster than they are killed one by one. Only while the shim lives, which keeps the session's number
    /// from being taken again.
    pub(crate) fn kill_groups(&self, members: &[Member]) {
        let groups: BTreeSet<i32> = members
            .iter()
            .filter(|member| member.session == self.keeper.pid && member.group != self.keeper.pid)
            .map(|member| member.group)
            .collect();
        for group in groups.into_iter().filter_map(Pid::from_raw) {
            // A group that has just ended is what we want; the next look tells.
            kill_process_group(group, Signal::KILL).ok();
        }
    }
}

/// Every living process of an attempt of `owner` whose tag is not among `known`.
pub(crate) fn strays(owner: &Owner, known: &BTreeSet<Tag>) -> io::Result<Vec<Identity>> {
    let table = Table::read(0)?;
    Ok(table
        .rows
        .iter()
        .filter(|(_, row)| !row.zombie && owner.owns_another(&row.environ(), known))
        .map(|(&pid, row)| Identity { pid, start: row.start })
        .collect())
}

/// The process table as it was read, less what started before the attempt could have made it.
struct Table {
    rows: BTreeMap<i32, Row>,
}

struct Row {
    process: Process,
    parent: i32,
    group: i32,
    session: i32,
    start: u64,
    zombie: bool,
}

impl Table {
    fn read(not_before: u64) -> io::Result<Self> {
        let mut rows = BTreeMap::new();
        for process in all_processes().map_err(io_error)? {
            // A process that ended while it was looked at is none.
            let Ok(process) = process else { continue };
            let Ok(stat) = process.stat() else { continue };
            if stat.starttime < not_before {
                continue;
            }
            let row = Row {
                parent: stat.ppid,
                group: stat.pgrp,
                session: stat.session,
                start: stat.starttime,
                zombie: is_zombie(stat.state, stat.num_threads),
                process,
            };
            rows.insert(row.process.pid(), row);
        }
        Ok(Self { rows })
    }

    fn descendants(&self, root: i32) -> BTreeSet<i32> {
        let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        for (&pid, row) in &self.rows {
            children.entry(row.parent).or_default().push(pid);
        }
        let mut found = BTreeSet::new();
        let mut open = vec![root];
        while let Some(pid) = open.pop() {
            for &child in children.get(&pid).into_iter().flatten() {
                if found.insert(child) {
                    open.push(child);
                }
            }
        }
        found
    }
}

impl Row {
    /// By its real user: the owner of its directory in `/proc` may be root, if it is not to be dumped.
    fn runs_as(&self, uid: u32) -> bool {
        self.process.status().is_ok_and(|status| status.ruid == uid)
    }

    /// The environment it was executed with; empty if that cannot be read.
    fn environ(&self) -> Vec<u8> {
        let mut environ = Vec::new();
        if let Ok(file) = self.process.open_relative("environ") {
            // What was read before a failure still counts.
            file.take(ENVIRON_LIMIT).read_to_end(&mut environ).ok();
        }
        environ
    }
}

/// A process whose first thread has ended while others run is in state Z too, and lives.
fn is_zombie(state: char, threads: i64) -> bool {
    matches!(state, 'Z' | 'X' | 'x') && threads <= 1
}

fn io_error(error: ProcError) -> io::Error {
    let kind = match &error {
        ProcError::NotFound(_) => io::ErrorKind::NotFound,
        ProcError::PermissionDenied(_) => io::ErrorKind::PermissionDenied,
        ProcError::Incomplete(_) | ProcError::Io(..) | ProcError::Other(_) | ProcError::InternalError(_) => {
            io::ErrorKind::Other
        }
    };
    io::Error::new(kind, error)
}

/// The id of this boot.
pub(crate) fn boot_id() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// How many processes the kernel has killed for memory since boot; 0 where it does not count them.
pub(crate) fn oom_kills() -> u64 {
    let vmstat: ProcResult<_> = procfs::vmstat();
    vmstat
        .ok()
        .and_then(|fields| fields.get("oom_kill").copied())
        .and_then(|count| u64::try_from(count).ok())
        .unwrap_or(0)
}
