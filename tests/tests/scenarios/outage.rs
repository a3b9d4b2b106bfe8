//! A control plane that is away for longer than some leases while many jobs run.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tenure_client::proto::{JobState, Outcome};
use tenure_tests::clock::Moment;
use tenure_tests::intervals::Run;
use tenure_tests::wait::{PATIENCE, level, until};
use tenure_tests::{Fleet, KindPlan, NodePlan, Plan, Script, Step, scenario, tag};

use crate::adopt::calm;

/// How much there is of everything.
struct Size {
    /// Running jobs; half of them have a lease that the outage outlasts.
    jobs: usize,
    /// That lease.
    short: Duration,
    outage: Duration,
}

/// `scripts/torture agents` has the long form.
fn size() -> Size {
    match std::env::var_os("TENURE_TORTURE") {
        Some(_) => Size { jobs: 200, short: Duration::from_secs(30), outage: Duration::from_secs(60) },
        None => Size { jobs: 40, short: Duration::from_secs(10), outage: Duration::from_secs(12) },
    }
}

/// Everything runs on `n1` first, and what runs again does so on `n2`.
fn plan(size: &Size) -> anyhow::Result<Plan> {
    let slots = u32::try_from(size.jobs)?;
    let node = |name, slots| NodePlan::new(name).slot("shell", slots).line("credits = 50").tables(&calm());
    Ok(Plan::new()
        .kind(KindPlan::new("short").need("shell", 1).lease(&format!("{}s", size.short.as_secs())))
        .kind(KindPlan::new("long").need("shell", 1).lease("15m"))
        .node(node("n1", slots))
        .node(node("n2", slots)))
}

/// Enqueues jobs, and waits until each runs.
async fn start(
    fleet: &Fleet,
    kind: &str,
    count: usize,
    script: impl Fn(usize) -> Script,
) -> anyhow::Result<Vec<(String, Run)>> {
    let mut jobs = Vec::new();
    for n in 0..count {
        jobs.push(fleet.enqueue(kind, &script(n)).await?);
    }
    let mut runs = Vec::new();
    for job in jobs {
        let run = fleet.started(&job, 1, PATIENCE * 4).await?;
        ensure!(run.start.node == "n1", "{run:?}");
        runs.push((job, run));
    }
    Ok(runs)
}

fn tokens(runs: &[(String, Run)]) -> BTreeSet<u64> {
    runs.iter().map(|(_, run)| run.start.token).collect()
}

/// Which of these executions live.
fn alive(fleet: &Fleet, tokens: &BTreeSet<u64>) -> BTreeSet<u64> {
    let found = tag::processes(fleet.mark()).into_iter().filter_map(|found| found.token);
    found.filter(|token| tokens.contains(token)).collect()
}

/// Waits until so many reports of `n1` are in its spool.
async fn spooled(fleet: &Fleet, count: usize) -> anyhow::Result<()> {
    let spool = fleet.directory().join("nodes/n1/spool");
    until("every end is in the spool", PATIENCE * 2, async || {
        let names = fs::read_dir(&spool).map_err(|error| error.to_string())?;
        let reports =
            names.flatten().filter(|name| name.path().extension().is_some_and(|ext| ext == "report"));
        let found = reports.count();
        level(found >= count, || format!("{found} reports"))
    })
    .await
}

/// Leases that are long enough are kept, and what ends meanwhile waits in the spool. The others are ended by their shims in
/// time, charged nothing, and leave what they have to the next execution. The agent is killed, too, while nobody hears it.
#[tokio::test]
async fn an_outage_costs_long_leases_nothing_and_short_ones_a_return_with_what_they_had() -> anyhow::Result<()>
{
    let size = size();
    let half = size.jobs / 2;
    scenario(plan(&size)?, async |fleet| {
        fleet.client().cordon("n2").await?;
        // Every other one of these ends while nobody hears of it.
        let long = start(fleet, "long", half, |n| {
            let gate = if n % 2 == 0 { "early" } else { "late" };
            Script::new().wait(gate).then(Step::Result(format!("long {n}")))
        })
        .await?;
        let short = start(fleet, "short", half, |n| {
            let part = Step::Result(format!("8 of 12 of {n}"));
            Script::new().then(Step::TellLeft).then(part).wait("never")
        })
        .await?;
        fleet.client().cordon("n1").await?;
        fleet.client().uncordon("n2").await?;
        // Until its first renewal a lease is worth 20 s, and nothing shows one from outside: a heartbeat comes every 5 s.
        tokio::time::sleep(Duration::from_secs(6)).await;
        fleet.kill_server().await?;
        let down = Moment::now();
        fleet.open("early")?;

        let those = tokens(&short);
        until("the short leases are over", size.short, async || {
            let alive = alive(fleet, &those);
            level(alive.is_empty(), || format!("{alive:?}"))
        })
        .await?;
        let lived = down.elapsed();
        ensure!(lived <= size.short.mul_f64(0.95), "the last of them lived for {lived:?}");
        let early = long.iter().step_by(2).count();
        spooled(fleet, early + half).await?;
        fleet.kill_agent("n1").await?;
        fleet.start_agent("n1")?;
        // How long it is away is the point of this test.
        tokio::time::sleep(size.outage.saturating_sub(down.elapsed())).await;
        let kept: BTreeSet<u64> = tokens(&long).difference(&alive(fleet, &tokens(&long))).copied().collect();
        let ended: BTreeSet<u64> = long.iter().step_by(2).map(|(_, run)| run.start.token).collect();
        ensure!(kept == ended, "the others run on: {kept:?} do not");

        fleet.start_server().await?;
        fleet.open("late")?;
        for (n, (job, run)) in long.iter().enumerate() {
            let found = fleet.state(job, JobState::Succeeded, PATIENCE * 2).await?;
            ensure!((found.failures, found.losses, found.returns) == (0, 0, 0), "{found:?}");
            ensure!(found.token == run.start.token && found.attempt == 1, "{found:?}");
            let result = fleet.client().result(job).await?;
            ensure!(result.data == format!("long {n}") && !result.partial, "{result:?}");
        }
        for (n, (job, first)) in short.iter().enumerate() {
            let found = fleet.state(job, JobState::Succeeded, PATIENCE * 2).await?;
            ensure!((found.failures, found.losses, found.returns) == (0, 0, 1), "{found:?}");
            let attempts = fleet.client().attempts(job).await?;
            let returned = attempts.first().context("one that was returned")?;
            ensure!(returned.outcome() == Outcome::Returned && returned.partial, "{attempts:?}");
            ensure!(returned.token == first.start.token && returned.node == "n1", "{attempts:?}");
            // The next one, on the other node, was handed what it left.
            let result = fleet.client().result(job).await?;
            ensure!(result.data == format!(" | 8 of 12 of {n}") && !result.partial, "{result:?}");
        }
        let log = fleet.log()?;
        for (job, _) in &short {
            let nodes: Vec<&str> = log.of(job).map(|run| run.start.node.as_str()).collect();
            ensure!(nodes == ["n1", "n2"], "{job} ran on {nodes:?}");
        }
        ensure!(log.runs.len() == size.jobs + half, "{} executions", log.runs.len());
        // An operator sees it as well.
        let (job, _) = short.first().context("some")?;
        let shown = fleet.cli(&["job", "attempts", job]).await?;
        ensure!(shown.code == 0 && shown.stdout.contains("returned"), "{shown:?}");
        Ok(())
    })
    .await
}
