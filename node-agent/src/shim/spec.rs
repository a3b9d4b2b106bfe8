//! What the agent, the shim and the state directory say to each other about one attempt.
//!
//! Responsible for the shapes alone: the spec that the shim gets, the messages of its socket, the `state` and
//! `exit` files. Not responsible for who sends them when (`handle.rs`, `keeper.rs`) or for how they reach the
//! disk (`files.rs`).
//! Invariant: everything here carries a version, since a shim may outlive the agent that started it.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cgroup::Place;
use crate::clock::{Clock, Mono};
use crate::output::Captured;

/// The version of the spec, the messages and both files. A shim refuses a spec of another one: its agent is of the same
/// executable. Version 1 had no door, so that nobody can take over a shim that speaks it; version 2 hears no word of its job,
/// and its run clock cannot be stopped.
pub const VERSION: u32 = 3;
/// The oldest version whose files an agent reads.
pub(crate) const OLDEST: u32 = 1;
/// The oldest version of a shim that can be taken over.
pub(crate) const OLDEST_ADOPTED: u32 = 2;
/// The oldest version that hears words of its job, and that its run clock is to stand still.
pub(crate) const HEARS: u32 = 3;

/// Everything that a shim needs to run one attempt without its agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Spec {
    /// The job, for people and for the scan at the agent's start.
    pub job: String,
    /// The fencing token: the identity of the lease, the name of the attempt directory.
    pub token: u64,
    /// The attempt directory, absolute: `state`, `exit` and captured output are written here. It exists.
    pub dir: PathBuf,
    /// The program and its arguments. Never empty.
    pub argv: Vec<String>,
    /// The whole environment of the command, in addition to the tag; nothing else is inherited.
    pub env: Vec<(String, String)>,
    /// Where the command starts, absolute.
    pub workdir: PathBuf,
    /// The file on its standard input; absent: `/dev/null`. Opened before the user is switched.
    pub stdin: Option<PathBuf>,
    /// Who runs it; absent: the agent's own user.
    pub user: Option<User>,
    /// What the attempt may take.
    pub limits: Limits,
    /// The directories, absolute, whose size together counts against `limits.disk`.
    #[serde(default)]
    pub filled: Vec<PathBuf>,
    /// The cgroup that holds it; absent: none does.
    #[serde(default)]
    pub cgroup: Option<Place>,
    /// The clock that every deadline is read on.
    pub clock: Clock,
    /// Between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// The whole lease; bounds the grace that is left before `gone_by`.
    pub lease: Duration,
    /// From the start of the command; SIGTERM then.
    pub hard_time_limit: Duration,
    /// From the start of the command; it is asked to wrap up then. Absent: it never is.
    pub soft_time_limit: Option<Duration>,
    /// Between that and SIGTERM.
    pub soft_grace: Duration,
    /// It is stopped as stalled after so long a silence. Absent: silence is no fault.
    pub progress_timeout: Option<Duration>,
    /// When everything must be gone. Moved by [`super::Shim::renew`].
    pub gone_by: Mono,
}

/// A user to switch to, by number: names are looked up by whoever reads the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// The user.
    pub uid: u32,
    /// Its primary group.
    pub gid: u32,
    /// Its supplementary groups.
    pub groups: Vec<u32>,
}

/// Resource limits. Core dumps are always off. Absent: as the agent has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// `memory.max`: bytes of the whole tree. Without that controller nothing enforces it.
    pub memory: Option<u64>,
    /// `pids.max`: threads of the whole tree. Without that controller RLIMIT_NPROC: threads of the real user over the whole
    /// host; root is exempt.
    pub tasks: Option<u64>,
    /// `cpu.max`: thousandths of a processor for the whole tree. Without that controller nothing enforces it.
    pub cpu_millis: Option<u64>,
    /// RLIMIT_NOFILE: open files of one process.
    pub files: Option<u64>,
    /// RLIMIT_FSIZE: bytes of one file.
    pub file_size: Option<u64>,
    /// Bytes on the disk in the attempt's own directories. Looked at every two seconds by the shim.
    pub disk: Option<u64>,
}

impl Spec {
    /// What the command limits itself to before it is executed: what its cgroup counts better is left to that.
    pub(super) fn own_limits(&self) -> Limits {
        let counted = self.cgroup.as_ref().is_some_and(Place::limits_tasks);
        Limits { tasks: self.limits.tasks.filter(|_| !counted), ..self.limits.clone() }
    }
}

/// Why an attempt is stopped on the agent's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The server took the lease back.
    Revoked,
    /// The node is being drained or its agent stopped: a return.
    Drained,
    /// The agent cannot prove that the lease lives on.
    CutOff,
}

/// What ended a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// It exited by itself; `exit_code` is set.
    Exit,
    /// A signal that was not ours; `signal` is set.
    Signal,
    /// SIGKILL that was not ours, while the kernel's count of OOM kills rose: that of its cgroup, or else of the host.
    Oom,
    /// It was stopped because its directories had grown over their limit, whatever it then exited with.
    Disk,
    /// It was stopped at its hard time limit, whatever it then exited with.
    Limit,
    /// It was stopped because its soft grace was over.
    SoftLimit,
    /// It was stopped because nothing was heard of it for too long, whatever it then exited with.
    Stalled,
    /// It was stopped because its lease ran out without a renewal.
    CutOff,
    /// It was stopped because the lease was taken back.
    Revoked,
    /// It was stopped because the node is being drained.
    Drained,
    /// It was stopped because its shim got SIGTERM: host shutdown, or an agent that could not take it over. Also of a
    /// shim that ended before the command was started.
    Terminated,
    /// It never ran: `error` says why.
    Spawn,
    /// Its shim died, so nobody saw how it ended. Never in a file: the agent says it of a shim that is gone.
    Lost,
}

impl Cause {
    /// The stable word of the protocol and the logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exit => "exit",
            Self::Signal => "signal",
            Self::Oom => "oom",
            Self::Disk => "disk",
            Self::Limit => "limit",
            Self::SoftLimit => "soft_limit",
            Self::Stalled => "stalled",
            Self::CutOff => "cut_off",
            Self::Revoked => "revoked",
            Self::Drained => "drained",
            Self::Terminated => "terminated",
            Self::Spawn => "spawn",
            Self::Lost => "lost",
        }
    }
}

/// How a command ended: the content of the `exit` file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    /// [`VERSION`].
    pub version: u32,
    /// The job.
    pub job: String,
    /// The fencing token.
    pub token: u64,
    /// Whether the command was executed, however soon it was stopped then.
    pub started: bool,
    /// What ended it.
    pub cause: Cause,
    /// If it exited, also after one of our signals.
    pub exit_code: Option<i32>,
    /// If a signal ended it, ours included.
    pub signal: Option<i32>,
    /// For people: why it could not start, else the last lines of its stderr. Valid UTF-8, at most 4 KiB.
    pub error: String,
    /// From its start to its end, on the clock of the spec.
    pub ran_for: Duration,
    /// What became of its standard output.
    pub stdout: Captured,
    /// What became of its standard error.
    pub stderr: Captured,
    /// It had been asked to wrap up before it ended: what it leaves is partial.
    #[serde(default)]
    pub notified: bool,
}
