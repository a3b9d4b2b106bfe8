//! One process that the harness started: its log, its signals, its end.
//!
//! Invariant: a process of ours is signalled only while it has not been waited for, so the pid is its own.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use crate::wait::{PATIENCE, until};
use crate::{binary, tag};

/// How much of a log is shown when a test fails, in bytes.
const TAIL: usize = 6_000;

/// A running `tenure`, of any role.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `tenure` with these arguments. Its output is appended to `log`; nothing of the environment of the tests
    /// reaches it but what is named here.
    ///
    /// # Errors
    /// If it does not start.
    pub fn tenure(name: &str, args: &[&str], log: &Path, mark: &str) -> anyhow::Result<Self> {
        Self::start(name, binary::tenure()?, args, log, mark, None, &[])
    }

    /// As [`Process::tenure`], from a copy of the binary, as another user, with more variables.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start(
        name: &str,
        program: &Path,
        args: &[&str],
        log: &Path,
        mark: &str,
        uid: Option<u32>,
        variables: &[(String, String)],
    ) -> anyhow::Result<Self> {
        let file = File::options().create(true).append(true).open(log)?;
        let mut command = std::process::Command::new(program);
        command.args(args).stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        environment(&mut command, mark);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        if let Some(uid) = uid {
            command.uid(uid).gid(uid);
        }
        let child = Command::from(command).spawn().with_context(|| format!("{name} does not start"))?;
        Ok(Self { name: name.to_owned(), child, log: log.to_owned() })
    }

    /// Waits for the file that says that it is ready, and where: what stands in it.
    ///
    /// # Errors
    /// If it ends instead, or takes too long; with the end of its log.
    pub async fn ready(&mut self, file: &Path) -> anyhow::Result<String> {
        let what = format!("{} is ready", self.name);
        let announced = until(&what, PATIENCE, async || {
            self.alive().map_err(|error| error.to_string())?;
            fs::read_to_string(file).map_err(|error| error.to_string())
        })
        .await;
        announced.with_context(|| self.tail())
    }

    /// Its pid.
    ///
    /// # Errors
    /// If it has ended.
    pub fn pid(&self) -> anyhow::Result<Pid> {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        pid.with_context(|| format!("{} has ended\n{}", self.name, self.tail()))
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// If it has ended.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        kill_process(self.pid()?, signal).with_context(|| format!("{} cannot be signalled", self.name))
    }

    /// SIGKILL, and waits until it is gone.
    ///
    /// # Errors
    /// If it had ended before.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        self.signal(Signal::KILL)?;
        self.ended(Duration::from_secs(10)).await?;
        Ok(())
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// If it does not end within `within`.
    pub async fn ended(&mut self, within: Duration) -> anyhow::Result<ExitStatus> {
        match tokio::time::timeout(within, self.child.wait()).await {
            Ok(status) => Ok(status?),
            Err(_) => bail!("{} has not ended within {within:?}\n{}", self.name, self.tail()),
        }
    }

    /// An error, with its log, if it has ended by itself.
    ///
    /// # Errors
    /// If it has ended.
    pub fn alive(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("{} has ended: {status}\n{}", self.name, self.tail()),
        }
    }

    /// Everything that it logged so far.
    pub fn log(&self) -> String {
        std::fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// The end of its log, under its name.
    pub fn tail(&self) -> String {
        tail(&self.name, &self.log())
    }
}

/// The end of a text, under a name.
pub(crate) fn tail(name: &str, text: &str) -> String {
    let from =
        (text.len().saturating_sub(TAIL)..text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    format!("--- {name}\n{}", text.get(from..).unwrap_or_default())
}

/// A clean environment with the mark of the scenario.
pub(crate) fn environment(command: &mut std::process::Command, mark: &str) {
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env(tag::VARIABLE, mark);
    command.env("HOME", "/nonexistent");
    if let Some(filter) = std::env::var_os("TENURE_LOG") {
        command.env("TENURE_LOG", filter);
    }
}
