//! Agents and clients of an earlier version, and a server of one: all that is newer than the baseline of the protocol is
//! left out on the way between them. What a version knew goes on working with the next.

use std::time::Duration;

use anyhow::ensure;
use tenure_client::proto::JobState;
use tenure_tests::wait::PATIENCE;
use tenure_tests::{KindPlan, NodePlan, Plan, Script, Step, scenario};

fn plan() -> Plan {
    Plan::new()
        .older_peers()
        .fleet_slot("license", 1)
        .kind(KindPlan::new("shell.task").need("shell", 1).lease("60s").line("max_failures = 3"))
        .kind(KindPlan::new("licensed").need("shell", 1).need("license", 1))
        .node(NodePlan::new("n1").slot("shell", 2))
        .node(NodePlan::new("n2").slot("shell", 2))
}

#[tokio::test]
async fn jobs_of_older_peers_run_fail_are_cancelled_and_survive_a_killed_server() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let held = fleet.enqueue("shell.task", &Script::new().wait("go")).await?;
        let run = fleet.started(&held, 1, PATIENCE).await?;
        let mut jobs = Vec::new();
        for i in 0..4 {
            jobs.push(
                fleet.enqueue("licensed", &Script::new().then(Step::Result(format!("result {i}")))).await?,
            );
        }
        jobs.push(fleet.enqueue("shell.task", &Script::new().fail_first(1).sleep(Duration::ZERO)).await?);
        let doomed = fleet.enqueue("shell.task", &Script::new().wait("never")).await?;
        fleet.started(&doomed, 1, PATIENCE).await?;
        fleet.client().cancel(&doomed, "by an older caller").await?;
        fleet.state(&doomed, JobState::Cancelled, PATIENCE).await?;

        fleet.kill_server().await?;
        fleet.start_server().await?;
        fleet.open("go")?;
        jobs.push(held.clone());
        fleet.all_succeed(&jobs, PATIENCE).await?;
        let found = fleet.client().get(&held).await?;
        ensure!(found.token == run.start.token && found.losses + found.returns == 0, "{found:?}");
        for (job, i) in jobs.iter().take(4).zip(0..) {
            let result = fleet.client().result(job).await?;
            ensure!(result.data == format!("result {i}").into_bytes(), "{result:?}");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_lost_agent_of_an_older_version_is_a_loss_and_its_drain_a_drain() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        for verb in
            [&["kind", "list"][..], &["slot", "list"], &["node", "list"], &["health"], &["server", "info"]]
        {
            let ran = fleet.cli(verb).await?;
            ensure!(ran.code == 0, "{verb:?}: {ran:?}");
        }
        let ran = fleet.cli(&["node", "drain", "n1"]).await?;
        ensure!(ran.code == 0, "{ran:?}");
        let job = fleet.enqueue("shell.task", &Script::new().wait("go")).await?;
        let run = fleet.started(&job, 1, PATIENCE).await?;
        ensure!(run.start.node == "n2", "n1 is drained: {run:?}");
        fleet.kill_agent("n2").await?;
        fleet.start_agent("n2")?;
        fleet.open("go")?;
        fleet.all_succeed(std::slice::from_ref(&job), PATIENCE * 2).await?;
        let explained = fleet.cli(&["job", "get", &job]).await?;
        ensure!(explained.code == 0, "{explained:?}");
        Ok(())
    })
    .await
}
