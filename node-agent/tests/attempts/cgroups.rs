//! Real cgroups, where this host has them: they hold what has cut every other tie.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use tenure_node_agent::cgroup::{Containment, Subtree, Wanted};
use tenure_node_agent::leftovers::{Change, Options, scan};
use tenure_node_agent::shim::{Cause, Spec};

use crate::bench::{Bench, PATIENCE, eventually, hear_out, is_gone, is_there, signal};
use crate::leftovers::{adopt, options};

/// A process that left its session, its parent and its environment, and ignores SIGTERM; then the command waits.
const ESCAPE: &str = "env -i /bin/sh -c 'setsid /bin/sh -c \"trap \\\"\\\" TERM; echo \\$\\$ > stray; \
    while :; do sleep 1; done\" &' & while ! [ -s stray ]; do sleep 0.01; done; echo $$ > up; exec sleep 1000";

/// Whether this host lets us make a cgroup and put a process into it: asked by hand, so that no mistake of the code under
/// test can pass for a host without.
fn host_lets_us() -> bool {
    const BY_HAND: &str = "mount=$(grep ' - cgroup2 ' /proc/self/mountinfo | head -n 1 | cut -d' ' -f5) &&
        [ -n \"$mount\" ] && dir=$mount$(grep ^0:: /proc/self/cgroup | cut -c4-)/by-hand-$$ && mkdir \"$dir\" || exit 1
        sh -c 'echo $$ > \"$0/cgroup.procs\"' \"$dir\"; moved=$?
        until rmdir \"$dir\"; do sleep 0.01; done; exit $moved";
    let ran = std::process::Command::new("sh").args(["-c", BY_HAND]).output().expect("a shell");
    ran.status.success()
}

/// A bench whose attempts are held by cgroups; None where the host has none for us.
struct Held {
    bench: Bench,
    subtree: Subtree,
}

impl Held {
    fn new() -> Option<Self> {
        let bench = Bench::new();
        let subtree = Subtree::prepare(Wanted::Auto, bench.root());
        if subtree.containment() == Containment::Weak {
            let why = subtree.shortfall().unwrap_or_default();
            assert!(!host_lets_us(), "this host would let us, and yet: {why}");
            eprintln!("skipped: {why}");
            return None;
        }
        Some(Self { bench, subtree })
    }

    fn script(&self, script: &str) -> Spec {
        let spec = self.bench.script(script);
        let cgroup = self.subtree.place(7, &spec.limits);
        Spec { cgroup, ..spec }
    }

    /// The attempt's cgroup, as the process that this is the pid of sees it.
    fn cgroup(&self, pid: i32) -> PathBuf {
        let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
        let path = text.lines().find_map(|line| line.strip_prefix("0::")).unwrap().to_owned();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mount = mounts.lines().find(|line| line.contains(" - cgroup2 ")).unwrap();
        Path::new(mount.split(' ').nth(4).unwrap()).join(path.trim_start_matches('/'))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.subtree.leave();
    }
}

#[tokio::test]
async fn the_command_is_in_its_cgroup_and_its_shim_is_not() {
    let Some(held) = Held::new() else { return };
    let mut shim = held.bench.start(held.script("echo $$ > up; exec sleep 1000")).await;
    shim.go().unwrap();
    let job = held.bench.pids("up").await[0];
    let (job, keeper) = (held.cgroup(job), held.cgroup(shim.pid().cast_signed()));
    assert!(job.ends_with("attempts/7") && keeper.ends_with("shims"), "{job:?} {keeper:?}");
    shim.stop(tenure_node_agent::shim::StopReason::Revoked, std::time::Duration::ZERO).unwrap();
    assert_eq!(hear_out(&mut shim).await.record.cause, Cause::Revoked);
    assert!(!job.exists(), "it is removed before its end is told");
}

#[tokio::test]
async fn what_has_cut_every_tie_dies_with_its_attempt_even_without_shim_and_agent() {
    for contained in [true, false] {
        let Some(held) = Held::new() else { return };
        let spec = Spec { cgroup: None, ..held.script(ESCAPE) };
        let spec = if contained { held.script(ESCAPE) } else { spec };
        let shim = held.bench.abandon(spec).await;
        let stray = held.bench.pids("stray").await[0];
        let cgroup = held.cgroup(stray);
        signal(shim, Signal::KILL);
        eventually("the death of the shim", || is_gone(shim).then_some(())).await;
        let (_, mut leftovers) = scan(&options(&held.bench)).await.unwrap();
        let change = tokio::time::timeout(PATIENCE, leftovers.next()).await.expect("a change must come");
        assert!(matches!(change, Some(Change::Gone { token: 7, .. })), "{change:?}");
        // Without a cgroup nothing is left by which it could be known: that is what `weak` means.
        assert_eq!(is_gone(stray), contained, "contained: {contained}");
        if contained {
            assert!(!cgroup.exists());
        } else {
            signal(stray, Signal::KILL);
        }
    }
}

#[tokio::test]
async fn an_attempt_that_is_taken_over_keeps_its_cgroup_even_if_its_shim_dies_then() {
    let Some(held) = Held::new() else { return };
    let keeper = held.bench.abandon(held.script(ESCAPE)).await;
    let stray = held.bench.pids("stray").await[0];
    let cgroup = held.cgroup(stray);
    let mut shim = adopt(&held.bench).await.shim;
    assert!(is_there(stray) && cgroup.is_dir());
    signal(keeper, Signal::KILL);
    assert_eq!(hear_out(&mut shim).await.record.cause, Cause::Lost);
    assert!(is_gone(stray) && !cgroup.exists());
}

#[tokio::test]
async fn what_nobody_looks_after_is_ended() {
    let Some(held) = Held::new() else { return };
    let shim = held.bench.abandon(held.script(ESCAPE)).await;
    let (stray, job) = (held.bench.pids("stray").await[0], held.bench.pids("up").await[0]);
    let cgroup = held.cgroup(stray);
    signal(shim, Signal::KILL);
    eventually("the death of the job", || is_gone(job).then_some(())).await;
    let end = async |kept: &[u64]| {
        let (subtree, kept) = (held.subtree.clone(), kept.iter().copied().collect());
        tokio::task::spawn_blocking(move || subtree.end_strays(&kept)).await.unwrap()
    };
    assert_eq!(end(&[7]).await, 0, "somebody looks after it");
    assert!(is_there(stray));
    assert_eq!(end(&[8]).await, 1);
    assert!(is_gone(stray) && !cgroup.exists());
    assert_eq!(end(&[]).await, 0);
}

#[tokio::test]
async fn a_state_that_cannot_be_read_stands_for_nothing() {
    let Some(held) = Held::new() else { return };
    let shim = held.bench.abandon(held.script(ESCAPE)).await;
    let (stray, job) = (held.bench.pids("stray").await[0], held.bench.pids("up").await[0]);
    let cgroup = held.cgroup(stray);
    signal(shim, Signal::KILL);
    eventually("the death of the job", || is_gone(job).then_some(())).await;
    fs::write(held.bench.dir().join("state"), "{").unwrap();
    let options = Options { cgroups: held.subtree.clone(), ..options(&held.bench) };
    let (found, _) = scan(&options).await.unwrap();
    assert!(found.is_empty() && !held.bench.dir().exists(), "nobody lists it: {found:?}");
    assert!(is_gone(stray) && !cgroup.exists(), "nothing of it lives when that is said");
}

#[tokio::test]
async fn cgroups_that_somebody_tidied_away_are_made_again() {
    let Some(held) = Held::new() else { return };
    held.subtree.leave();
    let outcome = held.bench.run(held.script("grep ^0:: /proc/self/cgroup > where")).await;
    assert_eq!(outcome.record.exit_code, Some(0), "{outcome:?}");
    assert!(fs::read_to_string(held.bench.work().join("where")).unwrap().trim().ends_with("/attempts/7"));
}

#[tokio::test]
async fn a_shim_that_starts_nothing_leaves_no_cgroup() {
    let Some(held) = Held::new() else { return };
    let spec = held.script("true");
    let shim = held.bench.start(spec).await;
    let pid = shim.pid().cast_signed();
    let cgroup = held.cgroup(pid).with_file_name("attempts").join("7");
    assert!(cgroup.is_dir());
    drop(shim);
    eventually("the end of the shim", || (!is_there(pid)).then_some(())).await;
    assert!(!cgroup.exists());
}

#[tokio::test]
async fn a_job_that_makes_cgroups_below_its_own_is_ended_with_them() {
    let Some(held) = Held::new() else { return };
    // A job of the agent's own user may do that.
    let script = "d=$(grep ' - cgroup2 ' /proc/self/mountinfo | head -n 1 | cut -d' ' -f5)$(grep ^0:: /proc/self/cgroup | cut -c4-); \
        mkdir -p $d/a/b && { echo 0 > $d/a/b/cgroup.procs; } ; grep ^0:: /proc/self/cgroup > where; exit 0";
    let mut shim = held.bench.start(held.script(&format!("(setsid sh -c 'sleep 1000' &) ; {script}"))).await;
    shim.go().unwrap();
    let outcome = hear_out(&mut shim).await;
    assert_eq!(outcome.record.exit_code, Some(0), "{outcome:?}");
    let cgroup = held.cgroup(std::process::id().cast_signed());
    let left: Vec<_> = walk(&cgroup).into_iter().filter(|dir| dir.ends_with("attempts/7/a/b")).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// The cgroups below one, a few deep.
fn walk(dir: &Path) -> Vec<PathBuf> {
    let mut found = vec![dir.to_owned()];
    let mut next = 0;
    while let Some(dir) = found.get(next).cloned() {
        next += 1;
        let below = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
        found.extend(below.filter(|path| path.is_dir()).take(1_000 - found.len().min(1_000)));
    }
    found
}
