//! Connections that pass on only one way, at the worst moment.

use std::time::Duration;

use anyhow::ensure;
use tenure_client::proto::{JobState, Outcome};
use tenure_tests::proxy::Direction;
use tenure_tests::wait::PATIENCE;
use tenure_tests::{KindPlan, NodePlan, Plan, Script, scenario};

fn plan() -> Plan {
    Plan::new()
        .kind(KindPlan::new("shell.task").need("shell", 1))
        .node(NodePlan::new("n1").slot("shell", 1).proxied())
}

#[tokio::test]
async fn a_node_that_cannot_answer_a_grant_gives_it_back_uncharged() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        fleet.proxy("n1")?.hold(Direction::Up);
        let job = fleet.enqueue("shell.task", &Script::new().wait("go")).await?;
        let first = fleet.started(&job, 1, PATIENCE).await?;
        // Five seconds without an answer: the server takes the grant back, and the node hears that.
        fleet.gone(first.start.token, Duration::from_secs(10)).await?;
        ensure!(
            fleet.client().get(&job).await?.state() == JobState::Running,
            "nobody has said that it is gone"
        );
        fleet.proxy("n1")?.release(Direction::Up);
        let second = fleet.started(&job, 2, PATIENCE).await?;
        ensure!(second.start.token > first.start.token, "{second:?}");
        let found = fleet.client().get(&job).await?;
        ensure!((found.failures, found.losses, found.returns) == (0, 0, 1), "{found:?}");
        let attempts = fleet.client().attempts(&job).await?;
        ensure!(attempts.len() == 1 && attempts[0].outcome() == Outcome::Returned, "{attempts:?}");
        fleet.open("go")?;
        fleet.all_succeed(&[job], PATIENCE).await
    })
    .await
}

#[tokio::test]
async fn a_grant_whose_answer_was_cut_off_is_granted_elsewhere_only_after_its_first_lease()
-> anyhow::Result<()> {
    let lease = Duration::from_secs(10);
    let plan = Plan::new()
        .kind(KindPlan::new("shell.task").need("shell", 1).lease("10s"))
        .node(NodePlan::new("n1").slot("shell", 1).proxied())
        .node(NodePlan::new("n2").slot("shell", 1));
    scenario(plan, async |fleet| {
        fleet.client().cordon("n2").await?;
        fleet.proxy("n1")?.hold(Direction::Up);
        let job = fleet.enqueue("shell.task", &Script::new().wait("go")).await?;
        let first = fleet.started(&job, 1, PATIENCE).await?;
        ensure!(first.start.node == "n1", "{first:?}");
        fleet.client().uncordon("n2").await?;
        fleet.proxy("n1")?.cut();
        // Nobody has heard of its copy: it has as long as it was given, and n2 has room all the while.
        let gone = fleet.gone(first.start.token, lease + PATIENCE).await?;
        let second = fleet.started(&job, 2, lease + PATIENCE).await?;
        ensure!(second.start.node == "n2" && second.start.at > gone, "{second:?}, the first until {gone:?}");
        fleet.proxy("n1")?.release(Direction::Up);
        fleet.node_live("n1").await?;
        fleet.open("go")?;
        fleet.all_succeed(std::slice::from_ref(&job), PATIENCE).await?;
        ensure!(fleet.log()?.of(&job).count() == 2, "two executions");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_grant_that_arrives_too_late_starts_nothing() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        fleet.proxy("n1")?.hold(Direction::Down);
        let job = fleet.enqueue("shell.task", &Script::new()).await?;
        let late = fleet.state(&job, JobState::Running, PATIENCE).await?;
        // Its first lease runs out unanswered: it never started, so it is a return.
        let back = fleet.job_when(&job, "taken back", PATIENCE, |job| job.returns == 1).await?;
        ensure!((back.failures, back.losses) == (0, 0), "{back:?}");
        fleet.proxy("n1")?.release(Direction::Down);
        fleet.all_succeed(std::slice::from_ref(&job), PATIENCE).await?;
        let log = fleet.log()?;
        let runs: Vec<_> = log.of(&job).collect();
        ensure!(runs.len() == 1 && runs[0].start.token > late.token, "{runs:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_connection_that_is_cut_while_jobs_run_costs_nothing() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let job = fleet.enqueue("shell.task", &Script::new().wait("go")).await?;
        let run = fleet.started(&job, 1, PATIENCE).await?;
        for _ in 0..5 {
            fleet.proxy("n1")?.cut();
            fleet.node_live("n1").await?;
        }
        fleet.open("go")?;
        fleet.proxy("n1")?.cut();
        fleet.all_succeed(std::slice::from_ref(&job), PATIENCE).await?;
        let found = fleet.client().get(&job).await?;
        ensure!(found.token == run.start.token && found.losses + found.returns == 0, "{found:?}");
        Ok(())
    })
    .await
}
