//! What a restarted agent finds of its predecessor, with real shims and real trees.

use std::fs;
use std::time::Duration;

use crate::bench::{Bench, JOB, PATIENCE, eventually, hear_out, is_gone, signal};
use rustix::process::Signal;
use tenure_node_agent::clock::Clock;
use tenure_node_agent::leftovers::{Change, Found, Leftover, Leftovers, Options, scan};
use tenure_node_agent::shim::{Cause, ExitRecord};

const STUBBORN: &str = "setsid sh -c 'trap \"\" TERM; echo $$ > stray; while :; do sleep 1; done' & \
    while ! [ -s stray ]; do sleep 0.01; done; echo $$ > up; exec sleep 1000";

async fn scan_bench(bench: &Bench) -> (Vec<Leftover>, Leftovers) {
    let options = Options { state_dir: bench.root().to_owned(), attempts_dir: bench.attempts() };
    scan(&options).await.unwrap()
}

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
async fn a_running_attempt_is_stopped_and_its_record_brought() {
    let bench = Bench::new();
    bench.abandon(bench.script(STUBBORN)).await;
    let (found, mut leftovers) = scan_bench(&bench).await;
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
async fn a_state_of_another_boot_kills_nobody() {
    let bench = Bench::new();
    let mut shim = bench.start(bench.script("echo up > up; sleep 1000")).await;
    shim.go().unwrap();
    bench.file("up").await;
    let state = fs::read_to_string(bench.dir().join("state")).unwrap();
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let other = "00000000-0000-0000-0000-000000000000";
    fs::write(bench.dir().join("state"), state.replace(boot_id.trim(), other)).unwrap();
    let (found, mut leftovers) = scan_bench(&bench).await;
    assert!(matches!(found.as_slice(), [Leftover { found: Found::Stopping, .. }]), "{found:?}");
    assert_eq!(only_gone(&mut leftovers).await, None);
    assert!(!is_gone(shim.pid().cast_signed()));
    shim.stop(tenure_node_agent::shim::StopReason::Drained, Duration::ZERO).unwrap();
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
    shim.stop(tenure_node_agent::shim::StopReason::Drained, Duration::ZERO).unwrap();
    assert_eq!(hear_out(&mut shim).await.record.cause, Cause::Drained);
}

#[tokio::test]
async fn a_shim_that_does_not_leave_is_killed_with_its_tree() {
    let bench = Bench::new();
    // The shim is stopped so that SIGTERM alone cannot reach it; SIGCONT follows.
    let shim = bench.abandon(bench.script(STUBBORN)).await;
    signal(shim, Signal::STOP);
    let asked = Clock::Boottime.now();
    let (_, mut leftovers) = scan_bench(&bench).await;
    let record = only_gone(&mut leftovers).await;
    assert_eq!(record.unwrap().cause, Cause::Terminated);
    assert!(Clock::Boottime.now().since(asked) < Duration::from_secs(8));
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
