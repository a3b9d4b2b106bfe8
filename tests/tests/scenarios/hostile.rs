//! Jobs that do their worst: each ends within its limits, with everything that it began, and disturbs nobody.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rustix::process::geteuid;
use tenure_client::proto::{Attempt, JobState, Outcome};
use tenure_tests::clock::Moment;
use tenure_tests::wait::{PATIENCE, level, until};
use tenure_tests::{Fleet, KindPlan, NodePlan, Plan, Script, Step, scenario};

/// Nobody else's on a usual host: its threads are counted.
const UID: u32 = 54_321;
/// What an agent's memory may grow by, whatever its jobs do, in KiB.
const AGENT_GROWTH: u64 = 16 * 1024;
/// What a shim may have of its own, in KiB.
const SHIM_MOST: u64 = 8 * 1024;

/// The stated form, or one that fits in with the other tests.
fn long() -> bool {
    std::env::var_os("TENURE_TORTURE").is_some()
}

fn plan() -> Plan {
    let once = |name: &str| KindPlan::new(name).need("shell", 1).line("max_failures = 1");
    let bomb = once("bomb").node_line("limits = { tasks = 40 }");
    let bomb = if geteuid().is_root() { bomb.uid(UID) } else { bomb };
    Plan::new()
        .kind(once("calm"))
        .kind(once("wild").line("hard_time_limit = \"3s\""))
        .kind(once("flood"))
        .kind(once("fill").node_line("limits = { disk = \"32MiB\" }"))
        .kind(bomb)
        .node(NodePlan::new("n1").slot("shell", 8))
}

/// What a process has of its own, in KiB. The text of its binary, which all share, grows with what is built into it.
fn memory(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let value = text.lines().find_map(|found| found.strip_prefix("RssAnon:"))?;
    value.split_whitespace().next()?.parse().ok()
}

/// The words that a process was called with.
fn words(pid: u32) -> Vec<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).split('\0').map(str::to_owned).collect()
}

fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// What has cut every tie, and still says to the tests whose it is.
fn ghosts(directory: &Path) -> Vec<u32> {
    let ours = directory.display().to_string();
    let is_ghost = |pid: &u32| words(*pid).get(1..3) == Some(&["ghost".to_owned(), ours.clone()]);
    pids().filter(is_ghost).collect()
}

/// What the largest shim of this agent has now, in KiB.
fn shims(agent: u32) -> u64 {
    let of_agent = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        parent == Some(agent) && words(*pid).get(1).is_some_and(|role| role == "shim")
    };
    pids().filter(of_agent).filter_map(memory).max().unwrap_or(0)
}

/// The only attempt of a job that is dead.
async fn only_attempt(fleet: &Fleet, job: &str) -> anyhow::Result<Attempt> {
    let dead = fleet.state(job, JobState::Dead, PATIENCE).await?;
    ensure!((dead.failures, dead.losses, dead.returns) == (1, 0, 0), "{dead:?}");
    let attempts = fleet.client().attempts(job).await?;
    let [attempt] = attempts.as_slice() else { anyhow::bail!("{attempts:?}") };
    Ok(attempt.clone())
}

#[tokio::test]
async fn the_worst_jobs_end_within_their_limits_and_their_neighbours_notice_nothing() -> anyhow::Result<()> {
    let flood = if long() { 10 << 30 } else { 200 << 20 };
    scenario(plan(), async |fleet| {
        let calm = fleet.enqueue("calm", &Script::new().wait("go")).await?;
        fleet.started(&calm, 1, PATIENCE).await?;
        let agent = fleet.agent("n1")?.pid()?.as_raw_pid().unsigned_abs();
        let before = memory(agent).context("the agent runs")?;
        let mut peak = before;

        let wild = Script::new().then(Step::IgnoreTerm).then(Step::Daemon).then(Step::Escape);
        let wild = fleet.enqueue("wild", &wild.then(Step::Spawn(3)).wait("never")).await?;
        let flood = fleet.enqueue("flood", &Script::new().then(Step::Flood(flood))).await?;
        let fill = Script::new().then(Step::IgnoreTerm).then(Step::Fill(1 << 30)).wait("never");
        let fill = fleet.enqueue("fill", &fill).await?;
        let bomb = fleet.enqueue("bomb", &Script::new().then(Step::Bomb(200))).await?;
        let run = fleet.started(&wild, 1, PATIENCE).await?;
        until("it has escaped", PATIENCE, async || {
            level(!ghosts(fleet.directory()).is_empty(), || format!("{run:?}"))
        })
        .await?;

        let begun = Moment::now();
        let mut shims_had = 0;
        until("all have ended", Duration::from_secs(120), async || {
            shims_had = shims_had.max(shims(agent));
            peak = peak.max(memory(agent).unwrap_or(0));
            let mut open = Vec::new();
            for job in [&wild, &flood, &fill, &bomb] {
                let found = fleet.client().get(job).await.map_err(|error| error.to_string())?;
                if !matches!(found.state(), JobState::Dead | JobState::Succeeded) {
                    open.push(format!("{} {:?}", found.kind, found.state()));
                }
            }
            level(open.is_empty(), || open.join(", "))
        })
        .await?;
        eprintln!("all have ended after {:?}", begun.elapsed());

        let attempt = only_attempt(fleet, &wild).await?;
        ensure!(attempt.outcome() == Outcome::TimedOut && attempt.cause == "limit", "{attempt:?}");
        let attempt = only_attempt(fleet, &fill).await?;
        ensure!(attempt.outcome() == Outcome::FailedRetryable && attempt.cause == "disk", "{attempt:?}");
        ensure!(attempt.error.contains("limits.disk is 33554432"), "{attempt:?}");
        let attempt = only_attempt(fleet, &bomb).await?;
        ensure!(attempt.outcome() == Outcome::FailedRetryable && attempt.cause == "exit", "{attempt:?}");
        let refused = attempt.error.split(" of 200 processes were refused").next().unwrap_or_default();
        let refused: u32 =
            refused.rsplit('\n').next().unwrap_or_default().parse().context(attempt.error.clone())?;
        ensure!(!geteuid().is_root() || refused >= 160, "{attempt:?}");
        fleet.state(&flood, JobState::Succeeded, PATIENCE).await?;

        until("nothing of them is left", PATIENCE, async || {
            let left = ghosts(fleet.directory());
            level(left.is_empty(), || format!("{left:?}"))
        })
        .await?;
        let work = fleet.directory().join("nodes/n1/attempts");
        until("their directories are removed", PATIENCE, async || {
            let left = fs::read_dir(&work).map_err(|error| error.to_string())?.count();
            level(left == 1, || format!("{left} directories, the neighbour's among them"))
        })
        .await?;

        eprintln!("agent: {before} KiB before, {peak} KiB at most; shims: {shims_had} KiB at most");
        ensure!(peak <= before + AGENT_GROWTH, "the agent had {peak} KiB, after {before}");
        ensure!(shims_had > 0 && shims_had <= SHIM_MOST, "a shim had {shims_had} KiB");

        fleet.open("go")?;
        let calm = fleet.state(&calm, JobState::Succeeded, PATIENCE).await?;
        ensure!((calm.attempt, calm.failures, calm.losses, calm.returns) == (1, 0, 0, 0), "{calm:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_job_that_hunts_agents_is_taken_over_a_few_times_and_then_ended_as_a_loss() -> anyhow::Result<()> {
    let plan = Plan::new()
        .kind(KindPlan::new("hunter").lease("60s").line("max_losses = 2").line("node_backoff = false"))
        .kind(KindPlan::new("calm"))
        .node(NodePlan::new("n1"));
    scenario(plan, async |fleet| {
        let hunter = fleet.enqueue("hunter", &Script::new().then(Step::IgnoreTerm).then(Step::Hunt)).await?;
        fleet.started(&hunter, 1, PATIENCE).await?;
        let begun = Moment::now();
        let mut deaths = 0;
        while fleet.client().get(&hunter).await?.state() != JobState::Dead {
            ensure!(begun.elapsed() < Duration::from_secs(60), "{}", fleet.describe(&hunter).await);
            // As a service manager does.
            if fleet.agent_has_ended("n1")? {
                deaths += 1;
                fleet.start_agent("n1")?;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        eprintln!("{deaths} agents died in {:?}", begun.elapsed());
        let dead = fleet.client().get(&hunter).await?;
        ensure!((dead.failures, dead.losses, dead.returns) == (0, 2, 0), "{dead:?}");
        ensure!(fleet.log()?.of(&hunter).count() == 2, "it was taken over, not run again, in between");
        fleet.node_live("n1").await?;
        let calm = fleet.enqueue("calm", &Script::new()).await?;
        fleet.all_succeed(&[calm], PATIENCE).await
    })
    .await
}

#[tokio::test]
async fn a_job_that_kills_its_agent_each_time_is_dead_at_its_cap_of_losses_and_its_node_recovers()
-> anyhow::Result<()> {
    let plan = Plan::new()
        .kind(KindPlan::new("murder").line("max_losses = 3").line("retry = { intervals = [\"100ms\"] }"))
        .kind(KindPlan::new("calm"))
        .node(NodePlan::new("n1"));
    scenario(plan, async |fleet| {
        let contained = fleet.client().node("n1").await?.host.context("no host")?.containment != "weak";
        let mut script = Script::new();
        if contained {
            // Else nobody can know it once its shim and its agent are dead.
            script = script.then(Step::Escape);
        }
        let murder = fleet.enqueue("murder", &script.then(Step::KillAgent)).await?;
        for nth in 1..=3 {
            fleet.started(&murder, nth, PATIENCE).await?;
            let status = fleet.take_agent("n1")?.ended(PATIENCE).await?;
            ensure!(!status.success(), "{status}");
            let escaped = ghosts(fleet.directory());
            ensure!(escaped.len() == usize::from(contained), "of this execution alone: {escaped:?}");
            // It may be killed again before anybody sees that it lives.
            fleet.start_agent("n1")?;
            until("what it left is gone", PATIENCE, async || {
                let left = ghosts(fleet.directory());
                level(!left.iter().any(|pid| escaped.contains(pid)), || format!("{left:?}"))
            })
            .await?;
        }
        let dead = fleet.state(&murder, JobState::Dead, PATIENCE).await?;
        ensure!((dead.failures, dead.losses, dead.returns) == (0, 3, 0), "{dead:?}");
        let attempts = fleet.client().attempts(&murder).await?;
        ensure!(attempts.iter().all(|attempt| attempt.outcome() == Outcome::Lost), "{attempts:?}");
        ensure!(fleet.log()?.of(&murder).count() == 3, "three executions");
        fleet.node_live("n1").await?;
        let calm = fleet.enqueue("calm", &Script::new()).await?;
        fleet.all_succeed(&[calm], PATIENCE).await
    })
    .await
}
