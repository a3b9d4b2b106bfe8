//! The sampler on this host, with real processes pushed over a rule.

#![expect(clippy::unwrap_used, reason = "helpers of tests panic like the tests themselves")]

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::time::Duration;

use tenure_node_agent::clock::Clock;
use tenure_node_agent::pressure::rules::{Group, Headroom, KindFacts, Reading};
use tenure_node_agent::pressure::{Error, Handle, Options, Pressure};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// No wait in these tests is longer.
const PATIENCE: Duration = Duration::from_secs(60);
/// A user that nobody else on a test host is.
const NOBODY_ELSE: u32 = 23_571;

/// A sampler that runs. Only the rules of the text are on.
struct Bench {
    handle: Handle,
    shutdown: CancellationToken,
    tasks: JoinSet<Result<(), Error>>,
}

impl Bench {
    fn start(rules: &str, kinds: BTreeMap<String, KindFacts>) -> Self {
        let off = "mem_low mem_stall uid_tasks io_stall cpu_stall fds disk_low inodes_low swap_full load_busy load_high";
        let off = off.split(' ').map(|id| format!("[[rule]]\nid = \"{id}\"\nenabled = false\n"));
        let text = format!("sample = \"100ms\"\n{}\n{rules}", off.collect::<String>());
        let settings = toml::from_str(&text).unwrap();
        let dirs = vec![std::env::temp_dir()];
        let users = |name: &str| name.parse().ok();
        let (pressure, handle) =
            Pressure::new(Options { settings, kinds, dirs, clock: Clock::Boottime, users }).unwrap();
        let shutdown = CancellationToken::new();
        let mut tasks = JoinSet::new();
        tasks.spawn(pressure.run(shutdown.clone()));
        Self { handle, shutdown, tasks }
    }

    async fn until(&self, what: &str, mut holds: impl FnMut(&Reading) -> bool) {
        let deadline = Clock::Monotonic.now() + PATIENCE;
        while !holds(&self.handle.reading()) {
            assert!(Clock::Monotonic.now() < deadline, "{what} did not come: {:?}", self.handle.reading());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn stop(mut self) {
        self.shutdown.cancel();
        let end = tokio::time::timeout(PATIENCE, self.tasks.join_next()).await.unwrap();
        assert!(matches!(end, Some(Ok(Ok(())))), "{end:?}");
    }
}

/// Processes of that user. They end with the test.
struct Crowd(Vec<Child>);

impl Crowd {
    fn new(count: usize) -> Self {
        let sleep = |_| Command::new("sleep").arg("600").uid(NOBODY_ELSE).spawn().unwrap();
        Self((0..count).map(sleep).collect())
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for child in &mut self.0 {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

#[tokio::test]
async fn too_many_processes_of_a_user_close_a_group_and_fewer_open_it() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can make processes of a user that has no others");
        return;
    }
    let some = Crowd::new(3);
    let bench = Bench::start(&uid_procs(23), BTreeMap::new());
    let mut watch = bench.handle.watch();
    bench.handle.ready().await;
    let open = bench.handle.reading();
    assert!(open.closed.is_empty(), "{open:?}");

    watch.mark_unchanged();
    let more = Crowd::new(30);
    bench.until("the closing", |reading| !reading.closed.is_empty()).await;
    let closed = bench.handle.reading();
    assert_eq!((&closed.closed[0].group, closed.closed[0].rule.as_str()), (&Group::All, "uid_procs"));
    assert!(closed.closed[0].observed > 23.0 && closed.closed[0].threshold == 23.0, "{closed:?}");
    assert_eq!(closed.generation, open.generation + 1);
    assert!(watch.has_changed().unwrap(), "a change wakes");

    drop(more);
    bench.until("the opening", |reading| reading.closed.is_empty()).await;
    let held = closed.closed[0].since;
    assert!(Clock::Boottime.now().since(held) >= Duration::from_secs(10), "it is held for 10 s");
    drop(some);
    bench.stop().await;
}

fn uid_procs(limit: u32) -> String {
    let condition =
        |side| format!("{{ signal = \"procs.used\", {side} = {limit}, uid = \"{NOBODY_ELSE}\" }}");
    let (close, open) = (condition("above"), condition("below"));
    format!(
        "[[rule]]\nid = \"uid_procs\"\nclose = {{ any = [{close}] }}\nopen = {{ all = [{open}] }}\n\
         effect = {{ refuse = \"*\" }}\n"
    )
}

#[tokio::test]
async fn an_accepted_attempt_counts_at_once() {
    // Of a kind that takes three quarters of what is free, one fits and two do not.
    let facts = |mem| KindFacts {
        uid: None,
        headroom: Some(Headroom { mem, ramp: PATIENCE, ..Headroom::default() }),
    };
    let probe = Bench::start("", BTreeMap::from([("probe".to_owned(), facts(u64::MAX))]));
    probe.handle.ready().await;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an amount of memory")]
    let free = probe.handle.reading().closed[0].observed as u64;
    probe.stop().await;

    let bench = Bench::start("", BTreeMap::from([("crawl".to_owned(), facts(free / 4 * 3))]));
    assert_eq!(
        bench.handle.reading().refusal("other", []).unwrap().group,
        Group::All,
        "nothing is sampled yet"
    );
    bench.handle.ready().await;
    assert_eq!(bench.handle.reading().refusal("crawl", []), None);
    let reading = bench.handle.accepted(1, "crawl");
    assert_eq!(reading.refusal("crawl", []).unwrap().rule, "headroom");
    assert_eq!(reading.refusal("other", []), None);
    bench.handle.ended(1);
    bench.until("room", |reading| reading.refusal("crawl", []).is_none()).await;
    bench.stop().await;
}

#[tokio::test]
async fn wrong_settings_are_all_named() {
    let settings = toml::from_str("sample = \"1h\"\nrule = [{ id = \"x\" }]").unwrap();
    let options = Options {
        settings,
        kinds: BTreeMap::new(),
        dirs: Vec::new(),
        clock: Clock::Boottime,
        users: |_| None,
    };
    let error = Pressure::new(options).err().unwrap().to_string();
    for part in ["pressure.sample", "close is missing", "open is missing", "effect"] {
        assert!(error.contains(part), "{error}");
    }
}
