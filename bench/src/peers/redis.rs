//! A private Redis on a Unix socket, for peers that want one: every write is flushed before it is answered.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::Context as _;
use tenure_tests::tag;
use tenure_tests::wait::{PATIENCE, until};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};

/// A running Redis. It ends with the mark of its peer.
pub(super) struct Redis {
    socket: PathBuf,
    _files: tempfile::TempDir,
    _child: Child,
}

impl Redis {
    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }
}

/// Starts one by the file `redis` beside a script, which finds the program, installs it where it may, and becomes it.
pub(super) async fn start(script: &Path, work: &Path, mark: &str) -> anyhow::Result<Redis> {
    let files = tempfile::Builder::new().prefix("tenure-bench-redis-").tempdir()?;
    let socket = files.path().join("socket");
    let log = work.join("redis-log");
    let out = File::create(&log)?;
    let mut command = std::process::Command::new(script.with_file_name("redis"));
    command.arg(&socket).arg(files.path()).env(tag::VARIABLE, mark).env("BENCH_WORK", work);
    command.current_dir(work).stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out).process_group(0);
    let mut child = Command::from(command).kill_on_drop(true).spawn().context("Redis does not start")?;
    let said = || fs::read_to_string(&log).unwrap_or_default();
    let last = || said().lines().last().unwrap_or_default().to_owned();
    until("Redis answers", PATIENCE * 4, async || {
        if let Ok(Some(status)) = child.try_wait() {
            return Ok(Err(anyhow::anyhow!("Redis ended with {status}: {}", last())));
        }
        UnixStream::connect(&socket).await.map(|_| Ok(())).map_err(|error| format!("{error}: {}", last()))
    })
    .await??;
    Ok(Redis { socket, _files: files, _child: child })
}
