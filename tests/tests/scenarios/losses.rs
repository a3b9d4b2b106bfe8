//! Agents that die, and agents that sleep too long.

use std::time::Duration;

use anyhow::ensure;
use rustix::process::Signal;
use tenure_client::proto::Outcome;
use tenure_tests::clock::Moment;
use tenure_tests::intervals::Run;
use tenure_tests::wait::{PATIENCE, level, until};
use tenure_tests::{Fleet, KindPlan, NodePlan, Plan, Script, Step, scenario};

/// Between two heartbeats, at most: a quarter of the shortest lease.
const HEARTBEAT: Duration = Duration::from_millis(2_500);
/// What a grant, a commit and the start of a process may take on a busy machine.
const SLACK: Duration = Duration::from_secs(4);

/// Two kinds with leases of their own on two nodes; `n2` takes nothing until it is told to. The grace of one is longer
/// than its lease, and does not prolong it.
fn plan() -> Plan {
    Plan::new()
        .kind(KindPlan::new("short").need("shell", 1).lease("10s"))
        .kind(KindPlan::new("long").need("shell", 1).lease("14s").grace("1m"))
        .node(NodePlan::new("n1").slot("shell", 4))
        .node(NodePlan::new("n2").slot("shell", 4))
}

/// A job that is hard to end: it ignores SIGTERM, has children, and left a process in a session of its own.
fn stubborn() -> Script {
    Script::new().then(Step::IgnoreTerm).then(Step::Daemon).then(Step::Spawn(3)).wait("go")
}

/// Starts the job on `n1`, and waits until all of its processes run.
async fn start_on_n1(
    fleet: &Fleet,
    kind: &str,
    script: &Script,
    children: usize,
) -> anyhow::Result<(String, Run)> {
    let job = fleet.enqueue(kind, script).await?;
    let run = fleet.started(&job, 1, PATIENCE).await?;
    ensure!(run.start.node == "n1", "{run:?}");
    until("its children run", PATIENCE, async || {
        let log = fleet.log().map_err(|error| error.to_string())?;
        let found = log.children.iter().filter(|child| child.token == run.start.token).count();
        level(found == children, || format!("{found} children"))
    })
    .await?;
    Ok((job, run))
}

/// The second execution runs on `n2`, not before the server may grant it and not much later.
async fn next_on_n2(fleet: &Fleet, job: &str, silent_since: Moment, lease: Duration) -> anyhow::Result<Run> {
    let expiry = lease.mul_f64(1.05) + Duration::from_secs(2);
    let run = fleet.started(job, 2, expiry + SLACK + HEARTBEAT).await?;
    let after = run.start.at.since(silent_since);
    ensure!(run.start.node == "n2", "{run:?}");
    ensure!(
        after + HEARTBEAT >= expiry,
        "granted again {after:?} after the node went silent, before {expiry:?}"
    );
    ensure!(after <= expiry + SLACK, "granted again only {after:?} after the node went silent");
    Ok(run)
}

/// The first execution is recorded as a loss on `n1`, and that is all that was charged.
async fn lost_once(fleet: &Fleet, job: &str) -> anyhow::Result<()> {
    let found = fleet.client().get(job).await?;
    ensure!((found.failures, found.losses, found.returns, found.attempt) == (0, 1, 0, 2), "{found:?}");
    let attempts = fleet.client().attempts(job).await?;
    let [lost] = attempts.as_slice() else { anyhow::bail!("{attempts:?}") };
    ensure!(lost.outcome() == Outcome::Lost && lost.node == "n1" && lost.started, "{lost:?}");
    Ok(())
}

#[tokio::test]
async fn a_killed_agents_jobs_are_gone_before_their_leases_end_and_run_elsewhere() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        fleet.client().cordon("n2").await?;
        // The daemon and three children: four processes beside the command.
        let (short, first_short) = start_on_n1(fleet, "short", &stubborn(), 4).await?;
        let (long, first_long) = start_on_n1(fleet, "long", &stubborn(), 4).await?;
        fleet.client().uncordon("n2").await?;

        fleet.kill_agent("n1").await?;
        let killed = Moment::now();
        let follow = async |job: &str, first: &Run, lease: Duration| {
            let gone = fleet.gone(first.start.token, lease).await?;
            // The node's own deadline; the server waits for longer.
            let own = lease.mul_f64(0.95);
            ensure!(gone.since(killed) <= own, "{job} lived for {:?}", gone.since(killed));
            let second = next_on_n2(fleet, job, killed, lease).await?;
            ensure!(second.start.at > gone, "{second:?}");
            lost_once(fleet, job).await
        };
        tokio::try_join!(
            follow(&short, &first_short, Duration::from_secs(10)),
            follow(&long, &first_long, Duration::from_secs(14)),
        )?;

        // The dead come back and tell what they know: too late to change anything.
        fleet.start_agent("n1")?;
        fleet.node_live("n1").await?;
        lost_once(fleet, &short).await?;
        fleet.open("go")?;
        fleet.all_succeed(&[short.clone(), long.clone()], PATIENCE).await?;
        ensure!(fleet.log()?.runs.len() == 4, "two executions each");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn an_agent_that_slept_past_its_lease_is_told_that_it_lost_it() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        fleet.client().cordon("n2").await?;
        let (job, first) = start_on_n1(fleet, "short", &Script::new().wait("go"), 0).await?;
        fleet.client().uncordon("n2").await?;
        fleet.agent("n1")?.signal(Signal::STOP)?;
        let stopped = Moment::now();
        let lease = Duration::from_secs(10);
        let gone = fleet.gone(first.start.token, lease).await?;
        ensure!(gone.since(stopped) <= lease.mul_f64(0.95), "it lived for {:?}", gone.since(stopped));
        let second = next_on_n2(fleet, &job, stopped, lease).await?;
        let before = fleet.client().get(&job).await?;

        fleet.agent("n1")?.signal(Signal::CONT)?;
        until("the late report is refused", PATIENCE, async || {
            let refused =
                fleet.metric("tenure_stale_reports_total", "").await.map_err(|error| error.to_string())?;
            level(refused >= 1.0, || format!("{refused} stale reports"))
        })
        .await?;
        fleet.node_live("n1").await?;
        let after = fleet.client().get(&job).await?;
        ensure!(after.token == second.start.token && after.node == "n2", "{after:?}");
        ensure!(after.version == before.version, "it changed: {before:?} {after:?}");
        lost_once(fleet, &job).await?;
        fleet.open("go")?;
        fleet.all_succeed(std::slice::from_ref(&job), PATIENCE).await?;
        ensure!(fleet.log()?.of(&job).count() == 2, "two executions");
        Ok(())
    })
    .await
}
