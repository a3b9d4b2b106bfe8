//! `tenure up` for real: one process, an SQLite file, jobs as processes.

#[path = "up/contexts.rs"]
mod contexts;
#[path = "up/ids.rs"]
mod ids;
#[path = "up/many.rs"]
mod many;
#[path = "up/notify.rs"]
mod notify;
#[path = "up/timetables.rs"]
mod timetables;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::process::{Child, Command};

/// Nothing here takes this long unless it is broken.
const PATIENCE: Duration = Duration::from_secs(30);

const FLEET: &str = r#"
[slots]
shell = "node"

[kinds.echo]
needs = { shell = 1 }
lease = "10s"

[kinds.slow]
needs = { shell = 1 }
lease = "10s"
"#;

const NODE: &str = r#"
name = "here"
allow_root = true

[slots]
shell = 2

[kinds.echo]
command = ["/bin/sh", "-c", "cat"]
result = "stdout"

[kinds.slow]
command = ["/bin/sh", "-c", "trap '' TERM; echo $$ > \"$PID_FILE\"; while :; do sleep 1; done"]
env = { PID_FILE = "@PID_FILE@" }
grace = "1s"

# What the machine of a test is short of is none of its business.
[[pressure.rule]]
id = "disk_low"
enabled = false

[[pressure.rule]]
id = "load_high"
enabled = false
"#;

/// A directory with the files of one machine.
struct Machine {
    directory: TempDir,
}

/// A running `tenure up`.
struct Up {
    child: Child,
    server: String,
}

impl Machine {
    fn new() -> Self {
        let directory = TempDir::new().expect("a temporary directory");
        let machine = Self { directory };
        let node = NODE.replace("@PID_FILE@", &machine.path("pid").display().to_string());
        std::fs::write(machine.path("fleet.toml"), FLEET).expect("a writable directory");
        std::fs::write(machine.path("node.toml"), node).expect("a writable directory");
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    async fn up(&self, more: &[&str]) -> Up {
        let ready = self.path("ready");
        let child = Command::new(env!("CARGO_BIN_EXE_tenure"))
            .args(["up", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data"])
            .arg(self.path("data"))
            .arg("--ready-file")
            .arg(&ready)
            .args(more)
            .stdin(Stdio::null())
            .stderr(std::fs::File::create(self.path("log")).expect("a writable directory"))
            .kill_on_drop(true)
            .spawn()
            .expect("the binary starts");
        let text = when(&ready, "the ready file").await;
        let values: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.split_once('=')).collect();
        let server = values["TENURE_SERVER"].to_owned();
        std::fs::remove_file(&ready).expect("it is there");
        Up { child, server }
    }

    async fn up_with_files(&self) -> Up {
        let (fleet, node) = (self.path("fleet.toml"), self.path("node.toml"));
        let text = |path: &Path| path.to_str().expect("a plain path").to_owned();
        self.up(&["--fleet", &text(&fleet), "--node", &text(&node)]).await
    }

    /// Waits until the process has logged something.
    async fn logged(&self, words: &str) {
        let look = async {
            while !self.log().contains(words) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, look)
            .await
            .unwrap_or_else(|_| panic!("no {words:?} in {}", self.log()));
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }
}

impl Up {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
        command.args(args).env("TENURE_SERVER", &self.server).stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    async fn ask(&self, args: &[&str]) -> Output {
        let mut command = self.command(args);
        tokio::time::timeout(PATIENCE, command.output()).await.expect("in time").expect("it starts")
    }

    fn signal(&self) {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        kill_process(pid.expect("it runs"), Signal::TERM).expect("it runs");
    }

    async fn end(&mut self) -> ExitStatus {
        tokio::time::timeout(PATIENCE, self.child.wait()).await.expect("it ends in time").expect("a status")
    }
}

/// The text of a file as soon as it has some.
async fn when(path: &Path, what: &str) -> String {
    let look = async {
        loop {
            match std::fs::read_to_string(path) {
                Ok(text) if !text.is_empty() => return text,
                Ok(_) | Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, look).await.unwrap_or_else(|_| panic!("{what} did not appear"))
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[tokio::test]
async fn a_job_runs_and_its_result_outlives_a_restart() {
    let machine = Machine::new();
    let mut up = machine.up_with_files().await;
    let enqueued = up.ask(&["enqueue", "echo", "--payload", "hello", "--wait", "--timeout", "20s"]).await;
    assert_eq!(enqueued.status.code(), Some(0), "{enqueued:?}\n{}", machine.log());
    let id = text(&enqueued);
    assert_eq!(text(&up.ask(&["job", "result", &id]).await), "hello");
    up.signal();
    assert!(up.end().await.success(), "{}", machine.log());

    let mut up = machine.up(&[]).await;
    assert_eq!(text(&up.ask(&["job", "result", &id]).await), "hello");
    assert_eq!(up.ask(&["doctor"]).await.status.code(), Some(0));
    up.signal();
    assert!(up.end().await.success(), "{}", machine.log());
}

#[tokio::test]
async fn a_watch_prints_each_change_until_the_end_of_the_job() {
    let machine = Machine::new();
    let mut up = machine.up_with_files().await;
    let id = text(&up.ask(&["enqueue", "echo", "--payload", "x", "--delay", "1s"]).await);
    let watched = up.ask(&["job", "watch", &id, "-o", "json"]).await;
    assert_eq!(watched.status.code(), Some(0), "{watched:?}\n{}", machine.log());
    let lines = text(&watched);
    let states: Vec<String> = lines
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON on each line"))
        .map(|change| change["job"]["state"].as_str().expect("a state").to_owned())
        .collect();
    assert_eq!(states.first().map(String::as_str), Some("JOB_STATE_SCHEDULED"), "{lines}");
    assert!(states.contains(&"JOB_STATE_RUNNING".to_owned()), "{lines}");
    assert_eq!(states.last().map(String::as_str), Some("JOB_STATE_SUCCEEDED"), "{lines}");
    let again = text(&up.ask(&["job", "watch", &id]).await);
    assert!(again.ends_with("succeeded  attempt 1") && again.lines().count() == 1, "{again}");

    let later = text(&up.ask(&["enqueue", "echo", "--delay", "1h"]).await);
    assert_eq!(up.ask(&["job", "watch", &later, "--timeout", "50ms"]).await.status.code(), Some(124));
    assert_eq!(up.ask(&["job", "cancel", &later]).await.status.code(), Some(0));
    assert_eq!(up.ask(&["job", "watch", &later]).await.status.code(), Some(1));
    up.signal();
    assert!(up.end().await.success(), "{}", machine.log());
}

#[tokio::test]
async fn a_second_signal_stops_at_once_and_leaves_no_process() {
    let machine = Machine::new();
    let mut up = machine.up_with_files().await;
    let enqueued = up.ask(&["enqueue", "slow"]).await;
    assert!(enqueued.status.success(), "{enqueued:?}");
    let pid = when(&machine.path("pid"), "the job's pid").await;
    up.signal();
    // Two signals at once may be seen as one. The job ignores SIGTERM, and the drain would wait for it.
    machine.logged("a second signal stops at once").await;
    up.signal();
    up.end().await;
    let alive = Path::new("/proc").join(pid.trim()).join("stat");
    let state = std::fs::read_to_string(alive).unwrap_or_default();
    assert!(state.is_empty() || state.contains(") Z "), "{state}\n{}", machine.log());
}

#[tokio::test]
async fn without_files_there_is_an_empty_fleet_and_the_next_commands_are_printed() {
    let machine = Machine::new();
    let mut up = machine.up(&[]).await;
    assert_eq!(text(&up.ask(&["kind", "list", "-o", "json"]).await), "{}");
    assert_eq!(up.ask(&["enqueue", "echo"]).await.status.code(), Some(3));
    up.signal();
    assert!(up.end().await.success());
    let log = machine.log();
    assert!(
        log.contains("tenure apply fleet.toml") && log.contains("tenure agent --config node.toml"),
        "{log}"
    );
}

#[tokio::test]
async fn a_wrong_file_stops_the_start_with_its_line() {
    let machine = Machine::new();
    std::fs::write(machine.path("node.toml"), "name = \"here\"\n[slots]\nshell = \"many\"\n").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_tenure"))
        .args(["up", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data"])
        .arg(machine.path("data"))
        .arg("--node")
        .arg(machine.path("node.toml"))
        .output()
        .await
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(64), "{stderr}");
    assert!(stderr.contains("node.toml:3"), "{stderr}");
    assert!(!machine.path("data").exists(), "nothing was made");
}

#[tokio::test]
async fn the_files_can_be_checked_without_starting_anything() {
    let machine = Machine::new();
    std::fs::write(machine.path("server.toml"), "[server]\nlisten = \"0.0.0.0:7070\"\n").unwrap();
    std::fs::write(machine.path("typo.toml"), "[slots]\nshell = \"nod\"\n[kinds.x]\nneeds = { shel = 1 }\n")
        .unwrap();
    for (what, file, exit, words) in [
        ("fleet", "fleet.toml", 0, "no mistakes"),
        ("node", "node.toml", 0, "no mistakes"),
        ("fleet", "typo.toml", 64, "typo.toml:4: kinds.x.needs.shel"),
        ("server", "server.toml", 64, "server.toml:2: server.listen"),
        ("node", "missing.toml", 64, "missing.toml"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
        let output = command.args(["config", "check", what]).arg(machine.path(file)).output().await.unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(exit), "{file}: {stderr}");
        assert!(stderr.contains(words), "{file}: {stderr}");
    }
}

#[tokio::test]
async fn beyond_loopback_is_refused() {
    let machine = Machine::new();
    let output = Command::new(env!("CARGO_BIN_EXE_tenure"))
        .args(["server", "--listen", "0.0.0.0:0", "--data"])
        .arg(machine.path("data"))
        .output()
        .await
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(64), "{stderr}");
    assert!(stderr.contains("loopback"), "{stderr}");
}
