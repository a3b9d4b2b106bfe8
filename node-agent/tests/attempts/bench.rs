//! What the tests of shims share: a state directory with one attempt in it, and how to wait.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tenure_node_agent::clock::Clock;
use tenure_node_agent::shim::{Event, ExitRecord, Limits, Options, Shim, Spec};

/// No wait in these tests is longer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The job of every attempt here.
pub(crate) const JOB: &str = "0198c0de-0000-7000-8000-000000000001";

/// A state directory with one attempt in it.
pub(crate) struct Bench {
    root: TempDir,
    pub(crate) options: Options,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir_all(root.path().join("attempts/7/work")).unwrap();
        let options = Options { exe: shim_host(), state_dir: root.path().to_owned() };
        Self { root, options }
    }

    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    pub(crate) fn attempts(&self) -> PathBuf {
        self.root.path().join("attempts")
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.root.path().join("attempts/7")
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.dir().join("work")
    }

    /// An hour of lease and limit, a second of grace.
    pub(crate) fn spec(&self, argv: &[&str]) -> Spec {
        let hour = Duration::from_secs(3600);
        Spec {
            job: JOB.to_owned(),
            token: 7,
            dir: self.dir(),
            argv: argv.iter().map(|&word| word.to_owned()).collect(),
            env: vec![("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())],
            workdir: self.work(),
            stdin: None,
            user: None,
            limits: Limits::default(),
            filled: vec![self.work()],
            cgroup: None,
            clock: Clock::Boottime,
            grace: Duration::from_secs(1),
            lease: hour,
            hard_time_limit: hour,
            soft_time_limit: None,
            soft_grace: hour,
            progress_timeout: None,
            gone_by: Clock::Boottime.now() + hour,
        }
    }

    pub(crate) fn script(&self, script: &str) -> Spec {
        self.spec(&["/bin/sh", "-c", script])
    }

    pub(crate) async fn start(&self, spec: Spec) -> Shim {
        Shim::start(&self.options, spec).await.unwrap()
    }

    /// Lets it go and hears it out.
    pub(crate) async fn run(&self, spec: Spec) -> Outcome {
        let mut shim = self.start(spec).await;
        shim.go().unwrap();
        let outcome = hear_out(&mut shim).await;
        assert_eq!(outcome.record.started, outcome.started.is_some());
        outcome
    }

    /// Waits until the job has written this file whole (with a final newline); answers its words.
    pub(crate) async fn file(&self, name: &str) -> Vec<String> {
        let path = self.work().join(name);
        let text =
            eventually(name, || fs::read_to_string(&path).ok().filter(|text| text.ends_with('\n'))).await;
        text.split_whitespace().map(str::to_owned).collect()
    }

    pub(crate) async fn pids(&self, name: &str) -> Vec<i32> {
        self.file(name).await.iter().map(|pid| pid.parse().unwrap()).collect()
    }

    /// Starts a shim, lets it go and hangs up, as an agent that dies does. Answers the shim's pid.
    pub(crate) async fn abandon(&self, spec: Spec) -> i32 {
        let mut shim = self.start(spec).await;
        shim.go().unwrap();
        self.file("up").await;
        shim.pid().cast_signed()
    }

    pub(crate) fn record(&self) -> Option<ExitRecord> {
        serde_json::from_slice(&fs::read(self.dir().join("exit")).ok()?).ok()
    }
}

/// What a shim said from `go` to the end.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) started: Option<u32>,
    pub(crate) record: ExitRecord,
}

pub(crate) async fn hear_out(shim: &mut Shim) -> Outcome {
    let (mut started, mut record, mut reaped) = (None, None, false);
    while let Some(event) = next(shim).await {
        assert!(!reaped, "nothing follows `Reaped`");
        match event {
            Event::Started { pid } => started = Some(pid),
            Event::Ended(ended) => assert!(record.replace(*ended).is_none(), "`Ended` comes once"),
            Event::Reaped => reaped = true,
            Event::Notified => {}
            Event::Unkillable => panic!("nothing here is unkillable"),
        }
    }
    assert!(reaped);
    Outcome { started, record: record.expect("`Ended` precedes `Reaped`") }
}

pub(crate) async fn next(shim: &mut Shim) -> Option<Event> {
    tokio::time::timeout(PATIENCE, shim.next()).await.expect("the shim must say something")
}

/// Asks again and again until there is an answer, for at most `PATIENCE`.
pub(crate) async fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Clock::Monotonic.now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Clock::Monotonic.now() < deadline, "{what} did not come");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn shim_host() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let host = test.ancestors().nth(2).unwrap().join("examples/shim_host");
    assert!(host.exists(), "{} is missing: cargo build -p tenure-node-agent --examples", host.display());
    host
}

/// The state letter of a process, if it is there: `Z` is a zombie.
pub(crate) fn state(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Whether a process has ended; a zombie has. (The reaper of an orphaned shim is not ours to judge.)
pub(crate) fn is_gone(pid: i32) -> bool {
    matches!(state(pid), None | Some('Z'))
}

/// Whether a process is listed, be it as a zombie.
pub(crate) fn is_there(pid: i32) -> bool {
    state(pid).is_some()
}

pub(crate) fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}
