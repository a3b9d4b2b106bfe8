//! What a restarted agent finds of its predecessor, with real shims and real trees.

use std::fs;
use std::time::Duration;

use crate::bench::{Bench, JOB, PATIENCE, eventually, hear_out, is_gone, signal};
use rustix::process::Signal;
use tenure_node_agent::cgroup::Subtree;
use tenure_node_agent::clock::Clock;
use tenure_node_agent::leftovers::{Adopted, Change, Found, Leftover, Leftovers, Options, scan};
use tenure_node_agent::shim::{Cause, ExitRecord, StopReason};

const STUBBORN: &str = "setsid sh -c 'trap \"\" TERM; echo $$ > stray; while :; do sleep 1; done' & \
    while ! [ -s stray ]; do sleep 0.01; done; echo $$ > up; exec sleep 1000";

pub(crate) fn options(bench: &Bench) -> Options {
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    Options {
        state_dir: bench.root().to_owned(),
        attempts_dir: bench.attempts(),
        boot_id: boot_id.trim().to_owned(),
        clock: Clock::Boottime,
        copy: false,
        end_all: false,
        cgroups: Subtree::none("the test has none"),
    }
}

async fn scan_bench(bench: &Bench) -> (Vec<Leftover>, Leftovers) {
    scan(&options(bench)).await.unwrap()
}

/// Scans, and expects the attempt to be taken over and nothing else to be done.
pub(crate) async fn adopt(bench: &Bench) -> Box<Adopted> {
    let (mut found, mut leftovers) = scan_bench(bench).await;
    assert_eq!(found.len(), 1, "{found:?}");
    let Leftover { token: 7, found: Found::Adopted(adopted), .. } = found.remove(0) else {
        panic!("{found:?}")
    };
    assert!(leftovers.next().await.is_none(), "nothing is being ended");
    adopted
}

/// Rewrites the state file.
fn edit_state(bench: &Bench, edit: impl FnOnce(&mut serde_json::Value)) {
    let path = bench.dir().join("state");
    let mut state = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    edit(&mut state);
    fs::write(&path, serde_json::to_vec(&state).unwrap()).unwrap();
}

const GATED: &str = "echo $$ > up; while ! [ -e gate ]; do sleep 0.01; done; echo through; exit 4";

async fn only_gone(leftovers: &mut Leftovers) -> Option<ExitRecord> {
    let change = tokio::time::timeout(PATIENCE, leftovers.next()).await.expect("a change must come");
    let Some(Change::Gone { token: 7, record }) = change else { panic!("not gone but {change:?}") };
    assert!(leftovers.next().await.is_none());
    record.map(|record| *record)
}

#[tokio::test]
async fn a_new_state_directory_has_none() {
    let bench = Bench::new();
    fs::remove_dir_all(bench.attempts()).unwrap();
    let (found, mut leftovers) = scan_bench(&bench).await;
    assert!(found.is_empty());
    assert!(leftovers.next().await.is_none());
}

#[tokio::test]
async fn a_running_attempt_is_taken_over_again_and_again_and_heard_out() {
    let bench = Bench::new();
    let spec = bench.script(GATED);
    let gone_by = spec.gone_by;
    let before = Clock::Boottime.now();
    let pid = bench.abandon(spec).await;
    let adopted = adopt(&bench).await;
    let started = adopted.started.unwrap();
    assert!(started >= before && started <= Clock::Boottime.now());
    assert_eq!((adopted.gone_by, adopted.stopping), (gone_by, false));
    assert_eq!((adopted.lease, adopted.grace), (Duration::from_secs(3_600), Duration::from_secs(1)));
    let mut shim = adopted.shim;
    shim.renew(gone_by + Duration::from_secs(60)).unwrap();
    // The order is on its way when the second agent is gone, too: it is applied before the third is answered.
    drop(shim);
    let adopted = adopt(&bench).await;
    assert_eq!((adopted.gone_by, adopted.started), (gone_by + Duration::from_secs(60), Some(started)));
    let mut shim = adopted.shim;
    assert_eq!(shim.pid().cast_signed(), pid, "it was never started anew");
    fs::write(bench.work().join("gate"), "").unwrap();
    let outcome = hear_out(&mut shim).await;
    assert_eq!(outcome.started, None, "that is known already");
    assert_eq!((outcome.record.cause, outcome.record.exit_code), (Cause::Exit, Some(4)));
    assert_eq!(outcome.record.stdout.bytes, 8);
    assert!(is_gone(pid));
}

#[tokio::test]
async fn an_attempt_that_was_taken_over_obeys() {
    let bench = Bench::new();
    bench.abandon(bench.script(STUBBORN)).await;
    let mut shim = adopt(&bench).await.shim;
    shim.stop(StopReason::Drained, Duration::from_millis(200)).unwrap();
    assert_eq!(hear_out(&mut shim).await.record.cause, Cause::Drained);
    for name in ["up", "stray"] {
        assert!(is_gone(bench.pids(name).await[0]), "{name} lives");
    }
}

#[tokio::test]
async fn an_end_that_no_agent_has_heard_is_told_to_the_next() {
    let bench = Bench::new();
    // Its command ends, its tree does not want to for as long as the grace is.
    let spec = bench.script(
        "setsid sh -c 'trap \"\" TERM; echo $$ > stray; while :; do sleep 1; done' & \
        while ! [ -s stray ]; do sleep 0.01; done; echo $$ > up; exit 0",
    );
    let spec = tenure_node_agent::shim::Spec { grace: Duration::from_secs(2), ..spec };
    bench.abandon(spec).await;
    eventually("the record", || bench.record()).await;
    let adopted = adopt(&bench).await;
    assert!(adopted.started.is_some() && adopted.stopping);
    let mut shim = adopted.shim;
    assert_eq!(hear_out(&mut shim).await.record.exit_code, Some(0));
    assert!(is_gone(bench.pids("stray").await[0]));
}

#[tokio::test]
async fn a_lease_that_nobody_renews_ends_without_an_agent_and_with_the_next() {
    let bench = Bench::new();
    let spec = bench.script("echo $$ > up; exec sleep 1000");
    let gone_by = Clock::Boottime.now() + Duration::from_secs(7);
    bench.abandon(tenure_node_agent::shim::Spec { gone_by, ..spec }).await;
    let mut shim = adopt(&bench).await.shim;
    assert_eq!(hear_out(&mut shim).await.record.cause, Cause::CutOff);
    assert!(Clock::Boottime.now() < gone_by);
}

#[tokio::test]
async fn what_may_have_killed_the_agents_before_is_not_taken_over_and_not_asked() {
    let bench = Bench::new();
    let spec = bench.script("trap '' TERM; echo $$ > up; while :; do sleep 0.05; done");
    let shim = bench.abandon(tenure_node_agent::shim::Spec { grace: Duration::from_secs(600), ..spec }).await;
    let options = Options { end_all: true, ..options(&bench) };
    let (found, mut leftovers) = scan(&options).await.unwrap();
    assert!(matches!(found.as_slice(), [Leftover { found: Found::Stopping, .. }]), "{found:?}");
    assert_eq!(only_gone(&mut leftovers).await, None, "nobody saw how it ended: a loss");
    assert!(is_gone(shim) && is_gone(bench.pids("up").await[0]));
}

#[tokio::test]
async fn a_shim_of_another_version_or_clock_is_ended_and_its_record_brought() {
    let edits: [fn(&mut serde_json::Value); 3] = [
        |state| state["version"] = 1.into(),
        |state| state["version"] = 99.into(),
        |state| state["clock"] = "monotonic".into(),
    ];
    for edit in edits {
        let bench = Bench::new();
        bench.abandon(bench.script(STUBBORN)).await;
        edit_state(&bench, edit);
        is_ended(&bench).await;
    }
}

async fn is_ended(bench: &Bench) {
    let (found, mut leftovers) = scan_bench(bench).await;
    assert!(matches!(found.as_slice(), [Leftover { token: 7, found: Found::Stopping, .. }]), "{found:?}");
    assert_eq!(found[0].job, JOB);
    let record = only_gone(&mut leftovers).await;
    assert_eq!(record.unwrap().cause, Cause::Terminated);
    for name in ["up", "stray"] {
        assert!(is_gone(bench.pids(name).await[0]), "{name} lives");
    }
}

#[tokio::test]
async fn the_rest_of_a_dead_shim_is_killed_and_lost() {
    let bench = Bench::new();
    let shim = bench.abandon(bench.script(STUBBORN)).await;
    signal(shim, Signal::KILL);
    eventually("the death of the shim", || is_gone(shim).then_some(())).await;
    let (found, mut leftovers) = scan_bench(&bench).await;
    assert!(matches!(found.as_slice(), [Leftover { found: Found::Stopping, .. }]), "{found:?}");
    let record = only_gone(&mut leftovers).await;
    assert_eq!(record, None);
    assert!(is_gone(bench.pids("stray").await[0]));
}

#[tokio::test]
async fn a_scrubbed_rest_of_a_dead_shim_is_known_by_its_session() {
    let bench = Bench::new();
    let shim = bench
        .abandon(bench.script(
            "env -i /bin/sh -c 'echo $$ > stray; exec /bin/sleep 1000' & \
        while ! [ -s stray ]; do sleep 0.01; done; echo up > up; exec sleep 1000",
        ))
        .await;
    signal(shim, Signal::KILL);
    eventually("the death of the shim", || is_gone(shim).then_some(())).await;
    let (_, mut leftovers) = scan_bench(&bench).await;
    only_gone(&mut leftovers).await;
    assert!(is_gone(bench.pids("stray").await[0]));
}

#[tokio::test]
async fn an_attempt_that_finished_alone_is_brought_with_its_record() {
    let bench = Bench::new();
    let shim = bench.abandon(bench.script("echo up > up; exit 3")).await;
    eventually("the end of the shim", || is_gone(shim).then_some(())).await;
    let (found, mut leftovers) = scan_bench(&bench).await;
    let [Leftover { found: Found::Ended(record), .. }] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((record.cause, record.exit_code), (Cause::Exit, Some(3)));
    let record = only_gone(&mut leftovers).await;
    assert_eq!(record.unwrap().exit_code, Some(3));
}

#[tokio::test]
async fn an_attempt_without_go_never_started() {
    let bench = Bench::new();
    let shim = bench.start(bench.script("true")).await;
    let pid = shim.pid().cast_signed();
    drop(shim);
    eventually("the end of the shim", || is_gone(pid).then_some(())).await;
    let (found, mut leftovers) = scan_bench(&bench).await;
    assert!(matches!(found.as_slice(), [Leftover { found: Found::NeverStarted, .. }]), "{found:?}");
    assert_eq!(only_gone(&mut leftovers).await, None);
}

#[tokio::test]
async fn a_shim_that_does_not_see_that_its_agent_is_gone_has_started_nothing() {
    let bench = Bench::new();
    let shim = bench.start(bench.script("echo ran > ran")).await;
    let pid = shim.pid().cast_signed();
    signal(pid, Signal::STOP);
    drop(shim);
    let (found, mut leftovers) = scan_bench(&bench).await;
    assert!(matches!(found.as_slice(), [Leftover { found: Found::Stopping, .. }]), "{found:?}");
    let record = only_gone(&mut leftovers).await.unwrap();
    assert_eq!((record.cause, record.started), (Cause::Terminated, false));
    assert!(is_gone(pid) && !bench.work().join("ran").exists());
}

#[tokio::test]
async fn a_state_of_another_boot_kills_nobody() {
    let bench = Bench::new();
    let mut shim = bench.start(bench.script("echo up > up; sleep 1000")).await;
    shim.go().unwrap();
    bench.file("up").await;
    edit_state(&bench, |state| state["boot_id"] = "00000000-0000-0000-0000-000000000000".into());
    let (found, mut leftovers) = scan_bench(&bench).await;
    assert!(matches!(found.as_slice(), [Leftover { found: Found::Elsewhere, .. }]), "{found:?}");
    assert_eq!(only_gone(&mut leftovers).await, None);
    assert!(!is_gone(shim.pid().cast_signed()));
    shim.stop(StopReason::Drained, Duration::ZERO).unwrap();
    hear_out(&mut shim).await;
}

#[tokio::test]
async fn a_copy_takes_over_and_kills_nobody() {
    let bench = Bench::new();
    let pid = bench.abandon(bench.script("echo $$ > up; exec sleep 1000")).await;
    let job = bench.pids("up").await[0];
    let copy = Bench::new();
    fs::copy(bench.dir().join("state"), copy.dir().join("state")).unwrap();
    let ended = copy.attempts().join("8");
    fs::create_dir(&ended).unwrap();
    let record = format!(
        r#"{{"version":1,"job":"{JOB}","token":8,"started":true,"cause":"exit","exit_code":0,"signal":null,"error":"",
            "ran_for":{{"secs":1,"nanos":0}},"stdout":{{"bytes":0,"lines":0,"truncated":false}},
            "stderr":{{"bytes":0,"lines":0,"truncated":false}}}}"#
    );
    fs::write(ended.join("exit"), record).unwrap();
    fs::copy(bench.dir().join("state"), ended.join("state")).unwrap();
    let (found, _leftovers) = scan(&Options { copy: true, ..options(&copy) }).await.unwrap();
    assert!(matches!(found.as_slice(), [Leftover { token: 8, found: Found::Ended(_), .. }]), "{found:?}");
    assert!(
        !copy.dir().exists() && !ended.join("state").exists(),
        "the next start knows nothing of them either"
    );
    assert!(!is_gone(pid) && !is_gone(job));
    let mut shim = adopt(&bench).await.shim;
    shim.stop(StopReason::Drained, Duration::ZERO).unwrap();
    hear_out(&mut shim).await;
}

#[tokio::test]
async fn a_tree_whose_directory_is_gone_is_killed_before_the_answer() {
    let bench = Bench::new();
    let shim = bench.abandon(bench.script(STUBBORN)).await;
    let stray = bench.pids("stray").await[0];
    fs::remove_dir_all(bench.dir()).unwrap();
    let (found, _) = scan_bench(&bench).await;
    assert!(found.is_empty());
    assert!(is_gone(stray));
    eventually("the end of the shim", || is_gone(shim).then_some(())).await;
}

#[tokio::test]
async fn another_agents_trees_are_left_alone() {
    let (mine, other) = (Bench::new(), Bench::new());
    let mut shim = other.start(other.script("echo $$ > up; exec sleep 1000")).await;
    shim.go().unwrap();
    let job = other.pids("up").await[0];
    let (found, _) = scan_bench(&mine).await;
    assert!(found.is_empty());
    assert!(!is_gone(job));
    shim.stop(StopReason::Drained, Duration::ZERO).unwrap();
    assert_eq!(hear_out(&mut shim).await.record.cause, Cause::Drained);
}

#[tokio::test]
async fn a_shim_that_was_stopped_is_woken_and_taken_over() {
    let bench = Bench::new();
    let shim = bench.abandon(bench.script("echo $$ > up; exec sleep 1000")).await;
    signal(shim, Signal::STOP);
    let mut shim = adopt(&bench).await.shim;
    shim.stop(StopReason::Drained, Duration::ZERO).unwrap();
    assert_eq!(hear_out(&mut shim).await.record.cause, Cause::Drained);
}

#[tokio::test]
async fn a_shim_that_nobody_can_reach_is_ended_with_its_tree() {
    let bench = Bench::new();
    let shim = bench.abandon(bench.script(STUBBORN)).await;
    fs::remove_file(bench.dir().join("door")).unwrap();
    // SIGTERM alone cannot reach it; SIGCONT follows.
    signal(shim, Signal::STOP);
    is_ended(&bench).await;
    assert!(is_gone(shim));
}

#[tokio::test]
async fn garbage_in_the_attempts_directory_is_no_attempt() {
    let bench = Bench::new();
    fs::write(bench.attempts().join("file"), "x").unwrap();
    fs::write(bench.dir().join("state"), "{ no json").unwrap();
    let (found, mut leftovers) = scan_bench(&bench).await;
    assert!(found.is_empty());
    assert!(leftovers.next().await.is_none());
    assert!(!bench.dir().exists(), "what never started is removed");
}
