//! The last process before the command: it limits itself, then executes the command in its own place.
//!
//! Responsible for cgroup, process group, `oom_score_adj`, resource limits, user, no_new_privs and the death signal. All of
//! it is set by a process on itself, so neither the agent nor the shim forks with work to do in between, and no
//! unsafe code is needed.
//! Not responsible for the environment, which the shim gave it, nor for the pipes, which it passes on.
//! Invariant: the command runs with every limit, or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use rustix::fs::OFlags;
use rustix::process::{
    Gid, Resource, Rlimit, Signal, Uid, getegid, geteuid, getppid, getrlimit,
    set_parent_process_death_signal, setpgid, setrlimit,
};
use rustix::thread::{set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use serde::{Deserialize, Serialize};

use crate::cgroup;
use crate::shim::{Limits, User};

/// What the shim asks for: one line of JSON on the stage's standard input, which is a socket.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// The program and its arguments.
    pub(crate) argv: Vec<String>,
    /// Where it starts.
    pub(crate) workdir: PathBuf,
    /// The file on its standard input; absent: `/dev/null`.
    pub(crate) stdin: Option<PathBuf>,
    /// Who runs it; absent: nobody else.
    pub(crate) user: Option<User>,
    /// The limits.
    pub(crate) limits: Limits,
    /// The cgroup to join; absent: none.
    pub(crate) cgroup: Option<PathBuf>,
    /// The shim: the only parent under which the command may run.
    pub(crate) shim: i32,
}

/// What the stage answers on the same socket. It closes when the command is executed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// Everything is set; only the execution itself can still fail.
    Executing,
    /// It will not run, for this reason.
    Failed(String),
}

/// A plan is never longer, in bytes.
const PLAN_LIMIT: u64 = 1024 * 1024;
/// What the kernel's OOM killer adds to the command at least: it goes before the agent and the shims.
const OOM_SCORE_ADJ: i32 = 500;

/// `tenure exec-stage`: to be called before any runtime or second thread exists. Returns only on failure.
pub fn main() -> ExitCode {
    // The copy closes on execution; descriptor 0 itself becomes the command's standard input.
    let Ok(socket) = io::stdin().as_fd().try_clone_to_owned() else { return ExitCode::FAILURE };
    let mut socket = UnixStream::from(socket);
    let failure = match read_plan(&socket).and_then(|plan| prepare(&plan, &socket)) {
        Ok(mut command) => Failure::new("cannot execute the program", command.exec()),
        Err(failure) => failure,
    };
    // The shim tells the world; without one there is nobody to tell.
    answer(&mut socket, &Answer::Failed(failure.to_string())).ok();
    ExitCode::FAILURE
}

/// One step that failed.
#[derive(Debug, thiserror::Error)]
#[error("{step}: {source}")]
struct Failure {
    step: String,
    source: io::Error,
}

impl Failure {
    fn new(step: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self { step: step.into(), source: source.into() }
    }
}

/// Names the step that fails.
trait Step<T> {
    fn step(self, step: impl Into<String>) -> Result<T, Failure>;
}

impl<T, E: Into<io::Error>> Step<T> for Result<T, E> {
    fn step(self, step: impl Into<String>) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(step, error))
    }
}

fn read_plan(socket: &UnixStream) -> Result<Plan, Failure> {
    let mut line = String::new();
    BufReader::new(socket.take(PLAN_LIMIT)).read_line(&mut line).step("cannot read the plan")?;
    if line.is_empty() {
        return Err(Failure::new("no plan came", io::ErrorKind::UnexpectedEof));
    }
    serde_json::from_str(&line).step("cannot read the plan")
}

/// Everything but the execution. The order matters: what needs privileges comes before the user, the death signal
/// after it, since a change of user clears it.
fn prepare(plan: &Plan, mut socket: &UnixStream) -> Result<Command, Failure> {
    let [program, arguments @ ..] = plan.argv.as_slice() else {
        return Err(Failure::new("the kind has no program", io::ErrorKind::InvalidInput));
    };
    let stdin = match &plan.stdin {
        Some(path) => Stdio::from(open_payload(path).step("cannot open the payload")?),
        None => Stdio::null(),
    };
    if let Some(cgroup) = &plan.cgroup {
        cgroup::join(cgroup).step("cannot join its cgroup")?;
    }
    setpgid(None, None).step("cannot make a process group")?;
    raise_oom_score().step("cannot set oom_score_adj")?;
    limit(&plan.limits)?;
    if let Some(user) = &plan.user {
        switch(user)?;
    }
    set_no_new_privs(true).step("cannot set no_new_privs")?;
    set_parent_process_death_signal(Some(Signal::KILL)).step("cannot set the death signal")?;
    // A shim that died before the line above would never be noticed.
    if getppid().is_none_or(|parent| parent.as_raw_pid() != plan.shim) {
        return Err(Failure::new("the shim is gone", io::ErrorKind::NotFound));
    }
    std::env::set_current_dir(&plan.workdir).step(format!("cannot enter {}", plan.workdir.display()))?;
    answer(&mut socket, &Answer::Executing).step("the shim is gone")?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(stdin);
    Ok(command)
}

fn open_payload(path: &std::path::Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path)
}

/// Anybody may raise it; to lower one that is higher already takes privileges, and is not wanted.
fn raise_oom_score() -> io::Result<()> {
    const PATH: &str = "/proc/self/oom_score_adj";
    let present: i32 = fs::read_to_string(PATH)?.trim().parse().map_err(io::Error::other)?;
    if present < OOM_SCORE_ADJ { fs::write(PATH, OOM_SCORE_ADJ.to_string()) } else { Ok(()) }
}

fn limit(limits: &Limits) -> Result<(), Failure> {
    let all = [
        (Resource::Nproc, limits.tasks, "tasks"),
        (Resource::Nofile, limits.files, "files"),
        (Resource::Fsize, limits.file_size, "file_size"),
        (Resource::Core, Some(0), "core"),
    ];
    for (resource, value, name) in all {
        let Some(value) = value else { continue };
        // Without privileges a limit may be lowered, not raised: one that is lower already stands.
        let value = match getrlimit(resource).maximum {
            Some(maximum) if !geteuid().is_root() => value.min(maximum),
            Some(_) | None => value,
        };
        let limit = Rlimit { current: Some(value), maximum: Some(value) };
        setrlimit(resource, limit).step(format!("cannot limit {name} to {value}"))?;
    }
    Ok(())
}

fn switch(user: &User) -> Result<(), Failure> {
    if geteuid().as_raw() == user.uid && !geteuid().is_root() {
        return Ok(());
    }
    if [user.uid, user.gid].contains(&u32::MAX) || user.groups.contains(&u32::MAX) {
        return Err(Failure::new("no such user", io::ErrorKind::InvalidInput));
    }
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    let groups: Vec<Gid> = user.groups.iter().copied().map(Gid::from_raw).collect();
    // This process has one thread, so what these set on the thread is set on the process.
    set_thread_groups(&groups).step(format!("cannot take the groups of user {}", user.uid))?;
    set_thread_res_gid(gid, gid, gid).step(format!("cannot become group {}", user.gid))?;
    set_thread_res_uid(uid, uid, uid).step(format!("cannot become user {}", user.uid))?;
    if geteuid() != uid || getegid() != gid {
        return Err(Failure::new("the user did not change", io::ErrorKind::PermissionDenied));
    }
    Ok(())
}

fn answer(mut socket: impl io::Write, answer: &Answer) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    socket.write_all(&line)
}
