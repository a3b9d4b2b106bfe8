//! One kind of the node file: the argv that runs it, as whom, within which limits.
//!
//! Responsible for checking a kind's table and for finding its program. Not responsible for starting it (`runner.rs`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::users::{self, Account};
use super::{Config, DEFAULT_PATH, Findings, is_name, not_a_name, units};
use crate::pressure::rules::Headroom;
use crate::pressure::settings::HeadroomSettings;
use crate::shim::Limits;

/// Between SIGTERM and SIGKILL, unless the kind says otherwise.
const DEFAULT_GRACE: Duration = Duration::from_secs(10);
/// Between the soft notice and SIGTERM, unless the kind says otherwise.
const DEFAULT_SOFT_GRACE: Duration = Duration::from_secs(30);
/// A longer soft grace is another soft limit.
const LONGEST_SOFT_GRACE: Duration = Duration::from_secs(3600);
/// A longer grace would hold up every drain.
const LONGEST_GRACE: Duration = Duration::from_secs(600);
/// No program starts in less memory, or does anything in less disk.
const LEAST_BYTES: u64 = 1024 * 1024;
/// The kernel gives no smaller share of a processor.
const LEAST_CPU: f64 = 0.01;
/// More processors no host has.
const MOST_CPU: f64 = 10_000.0;
/// What the agent itself sets for every job.
const RESERVED: [&str; 3] = ["TENURE_", "TRACEPARENT", "TRACESTATE"];

/// A checked kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Kind {
    /// The program and its arguments. Empty for a worker kind alone.
    pub command: Vec<String>,
    /// Its attempts run inside workers, processes of somebody else that attach.
    pub worker: bool,
    /// Set for the command.
    pub env: BTreeMap<String, String>,
    /// Passed through from the agent's environment, where set there.
    pub env_from: Vec<String>,
    /// Where the command starts, absolute. None: its fresh work directory.
    pub workdir: Option<PathBuf>,
    /// Who runs it. None: the agent's own user.
    pub user: Option<Account>,
    /// Resource limits.
    pub limits: Limits,
    /// Between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// Between the soft notice and SIGTERM.
    pub soft_grace: Duration,
    /// Where the result is found.
    pub result: ResultSource,
    /// What one attempt takes in its first moments.
    pub headroom: Option<Headroom>,
    /// Where relative programs start: the directory of the node file.
    base: PathBuf,
}

/// Where a kind's result is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResultSource {
    /// The file at `TENURE_RESULT`, if the job wrote it.
    #[default]
    File,
    /// The file at `TENURE_RESULT` if the job wrote it, else its standard output.
    Stdout,
}

/// What a node can run of what its file names.
#[derive(Clone, Debug, Default)]
pub struct Advertised {
    /// The program of each kind, absolute.
    pub programs: BTreeMap<String, PathBuf>,
    /// The kinds that workers run; they are advertised whether or not one is attached.
    pub workers: Vec<String>,
    /// Kinds that are not advertised, with the reason.
    pub missing: Vec<(String, String)>,
}

/// Who this agent is, as far as the users of kinds depend on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity {
    /// It can become any user.
    pub(super) root: bool,
    /// Every kind has to name its user.
    pub(super) must_name_user: bool,
}

/// The table as it is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KindFile {
    command: Option<Vec<String>>,
    #[serde(default)]
    worker: bool,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    env_from: Vec<String>,
    workdir: Option<PathBuf>,
    user: Option<User>,
    #[serde(default)]
    limits: LimitsFile,
    #[serde(default, deserialize_with = "units::optional_duration")]
    grace: Option<Duration>,
    #[serde(default, deserialize_with = "units::optional_duration")]
    soft_grace: Option<Duration>,
    #[serde(default)]
    result: ResultSource,
    headroom: Option<HeadroomSettings>,
}

/// By name or number.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum User {
    Number(u32),
    Name(String),
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct LimitsFile {
    #[serde(deserialize_with = "units::optional_bytes")]
    memory: Option<u64>,
    tasks: Option<u64>,
    cpu: Option<f64>,
    files: Option<u64>,
    #[serde(deserialize_with = "units::optional_bytes")]
    file_size: Option<u64>,
    #[serde(deserialize_with = "units::optional_bytes")]
    disk: Option<u64>,
}

impl KindFile {
    /// Checks everything; None if anything is wrong.
    pub(super) fn check(
        self,
        kind: &str,
        base: &Path,
        identity: Identity,
        found: &mut Findings<'_>,
    ) -> Option<Kind> {
        let before = found.violations.len();
        if !is_name(kind) {
            found.add(&["kinds", kind], &not_a_name(kind));
        }
        if self.worker {
            self.check_worker(kind, found);
        }
        let command = self.command.unwrap_or_default();
        if !self.worker && command.first().is_none_or(String::is_empty) {
            let advice = "is empty: name a program and its arguments, or set worker = true";
            found.add(&["kinds", kind, "command"], advice);
        }
        if command.iter().any(|argument| argument.contains('\0')) {
            found.add(&["kinds", kind, "command"], "must not contain NUL");
        }
        if self.workdir.as_ref().is_some_and(|dir| dir.as_os_str().as_encoded_bytes().contains(&0)) {
            found.add(&["kinds", kind, "workdir"], "must not contain NUL");
        }
        for (name, value) in &self.env {
            check_variable(kind, "env", name, found);
            if value.contains('\0') {
                found.add(&["kinds", kind, "env", name], "must not contain NUL");
            }
        }
        self.env_from.iter().for_each(|name| check_variable(kind, "env_from", name, found));
        let grace = self.grace.unwrap_or(DEFAULT_GRACE);
        if grace > LONGEST_GRACE {
            found.add(&["kinds", kind, "grace"], "must be at most 10 min");
        }
        let soft_grace = self.soft_grace.unwrap_or(DEFAULT_SOFT_GRACE);
        if soft_grace > LONGEST_SOFT_GRACE {
            found.add(&["kinds", kind, "soft_grace"], "must be at most 1 h");
        }
        let limits = self.limits.check(kind, found);
        let user = check_user(kind, self.user.as_ref(), identity, found);
        if found.violations.len() > before {
            return None;
        }
        Some(Kind {
            command,
            worker: self.worker,
            env: self.env,
            env_from: self.env_from,
            workdir: self.workdir.map(|workdir| std::path::absolute(base.join(&workdir)).unwrap_or(workdir)),
            user,
            limits,
            grace,
            soft_grace,
            result: self.result,
            headroom: self.headroom.map(Headroom::from),
            base: base.to_owned(),
        })
    }
}

impl KindFile {
    /// What only a command of the agent's can have.
    fn check_worker(&self, kind: &str, found: &mut Findings<'_>) {
        let given = [
            ("command", self.command.is_some()),
            ("env", !self.env.is_empty()),
            ("env_from", !self.env_from.is_empty()),
            ("workdir", self.workdir.is_some()),
            ("limits", self.limits != LimitsFile::default()),
            ("result", self.result != ResultSource::default()),
        ];
        for (key, _) in given.into_iter().filter(|&(_, given)| given) {
            found.add(
                &["kinds", kind, key],
                "is not for a worker kind: its attempts run in a process of yours",
            );
        }
    }
}

impl LimitsFile {
    fn check(self, kind: &str, found: &mut Findings<'_>) -> Limits {
        let Self { memory, tasks, cpu, files, file_size, disk } = self;
        for (key, bytes) in [("memory", memory), ("disk", disk)] {
            if bytes.is_some_and(|bytes| bytes < LEAST_BYTES) {
                found.add(&["kinds", kind, "limits", key], "must be at least 1MiB");
            }
        }
        if tasks == Some(0) {
            found.add(&["kinds", kind, "limits", "tasks"], "must be at least 1");
        }
        if cpu.is_some_and(|cpu| !(LEAST_CPU..=MOST_CPU).contains(&cpu)) {
            let advice = format!("must be {LEAST_CPU} to {MOST_CPU}: how many processors, such as 1.5");
            found.add(&["kinds", kind, "limits", "cpu"], &advice);
        }
        Limits { memory, tasks, cpu_millis: cpu.map(millis), files, file_size, disk }
    }
}

/// Thousandths of a number that was checked.
fn millis(cpu: f64) -> u64 {
    // By way of a duration: it rounds, and has no cast to go wrong.
    Duration::try_from_secs_f64(cpu).map_or(0, |length| u64::try_from(length.as_millis()).unwrap_or(u64::MAX))
}

impl Config {
    /// Looks for the program of each kind. A kind without one is not advertised: nothing of it could run here.
    pub fn advertised(&self) -> Advertised {
        let mut advertised = Advertised::default();
        for (name, kind) in &self.kinds {
            if kind.worker {
                advertised.workers.push(name.clone());
                continue;
            }
            match kind.program() {
                Ok(program) => {
                    advertised.programs.insert(name.clone(), program);
                }
                Err(why) => advertised.missing.push((name.clone(), why)),
            }
        }
        advertised
    }
}

impl Advertised {
    /// All kinds that are advertised, in order.
    pub fn kinds(&self) -> std::collections::BTreeSet<String> {
        self.programs.keys().chain(&self.workers).cloned().collect()
    }
}

impl Kind {
    /// The search path of its command.
    pub fn path(&self) -> &str {
        self.env.get("PATH").map_or(DEFAULT_PATH, String::as_str)
    }

    fn program(&self) -> Result<PathBuf, String> {
        let name = self.command.first().map_or("", String::as_str);
        if let Some(workdir) = self.workdir.as_deref().filter(|workdir| !workdir.is_dir()) {
            return Err(format!("its workdir {} is no directory", workdir.display()));
        }
        if name.contains('/') {
            let program = self.workdir.as_deref().unwrap_or(&self.base).join(name);
            let program = std::path::absolute(&program).unwrap_or(program);
            return if is_program(&program) {
                Ok(program)
            } else {
                Err(format!("there is no program {name}"))
            };
        }
        let absolute = self.path().split(':').map(Path::new).filter(|directory| directory.is_absolute());
        let found = absolute.map(|directory| directory.join(name)).find(|program| is_program(program));
        found.ok_or_else(|| format!("there is no program {name} in its PATH, {}", self.path()))
    }
}

fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

fn check_variable(kind: &str, table: &str, name: &str, found: &mut Findings<'_>) {
    if name.is_empty() || name.contains(['=', '\0']) {
        found.add(&["kinds", kind, table, name], "is no name of a variable");
    } else if RESERVED.iter().any(|reserved| name.starts_with(reserved)) {
        found.add(&["kinds", kind, table, name], "is set by the agent itself");
    }
}

fn check_user(
    kind: &str,
    user: Option<&User>,
    identity: Identity,
    found: &mut Findings<'_>,
) -> Option<Account> {
    let wanted = match user {
        Some(User::Number(uid)) => uid.to_string(),
        Some(User::Name(name)) => name.clone(),
        None if identity.must_name_user => {
            let advice =
                "is missing: this agent is root, so name the user that runs it, or set allow_root = true";
            found.add(&["kinds", kind, "user"], advice);
            return None;
        }
        None => return None,
    };
    let account = users::lookup(&wanted);
    match &account {
        None => found.add(&["kinds", kind, "user"], &format!("there is no user \"{wanted}\" on this host")),
        Some(account) if !identity.root && account.uid != users::own().uid => {
            found.add(
                &["kinds", kind, "user"],
                "is another user than the agent's, and only root can become another",
            );
        }
        Some(_) => {}
    }
    account
}
