//! Connections that pass on only one way, at the worst moment.

use std::time::Duration;

use anyhow::ensure;
use rustix::process::Signal;
use tenure_client::proto::{JobState, NodeState, Outcome};
use tenure_tests::clock::Moment;
use tenure_tests::proxy::Direction;
use tenure_tests::wait::{PATIENCE, level, until};
use tenure_tests::{Fleet, KindPlan, NodePlan, Plan, Script, scenario};

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

/// Ten seconds after the last word a peer is asked whether it lives, and has five to say so: both ends of a session do that.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// What a look, a timer and a new session may take on a busy machine.
const SLACK: Duration = Duration::from_secs(6);

/// Waits until the server takes `n1` for this. When that was seen.
async fn taken_for(fleet: &Fleet, state: NodeState, within: Duration) -> anyhow::Result<Moment> {
    until(&format!("n1 is {state:?}"), within, async || {
        let node = fleet.client().node("n1").await.map_err(|error| error.to_string())?;
        level(node.state() == state, || format!("{node:?}")).map(|()| Moment::now())
    })
    .await
}

/// Nothing passes on the connection any more, either way, and neither end hears of that: no end and no reset. There is no
/// other server to ask.
#[tokio::test]
async fn a_session_whose_line_went_silent_is_given_up_by_both_ends_and_its_job_is_kept() -> anyhow::Result<()>
{
    let plan = Plan::new()
        .kind(KindPlan::new("shell.task").need("shell", 1).lease("1m"))
        .node(NodePlan::new("n1").slot("shell", 2).proxied());
    scenario(plan, async |fleet| {
        let job = fleet.enqueue("shell.task", &Script::new().wait("go")).await?;
        let run = fleet.started(&job, 1, PATIENCE).await?;

        // The agent finds out, and comes again on a line that works.
        let silent = Moment::now();
        fleet.proxy("n1")?.half_open();
        taken_for(fleet, NodeState::Suspect, KEEPALIVE).await?;
        let back = taken_for(fleet, NodeState::Live, KEEPALIVE + SLACK).await?;
        println!("the agent was back after {:?}", back.since(silent));
        ensure!(back.since(silent) <= KEEPALIVE + SLACK, "only after {:?}", back.since(silent));
        let next = fleet.enqueue("shell.task", &Script::new()).await?;
        fleet.all_succeed(&[next], PATIENCE).await?;

        // The server finds out as well, of an agent that does nothing about it.
        fleet.agent("n1")?.signal(Signal::STOP)?;
        fleet.proxy("n1")?.half_open();
        let silent = Moment::now();
        let away = taken_for(fleet, NodeState::Away, KEEPALIVE + SLACK).await?;
        println!("the server closed after {:?}", away.since(silent));
        let found = fleet.client().get(&job).await?;
        ensure!(found.state() == JobState::Running && found.token == run.start.token, "{found:?}");
        fleet.agent("n1")?.signal(Signal::CONT)?;
        taken_for(fleet, NodeState::Live, KEEPALIVE + SLACK).await?;

        fleet.open("go")?;
        fleet.all_succeed(std::slice::from_ref(&job), PATIENCE).await?;
        let found = fleet.client().get(&job).await?;
        ensure!(found.token == run.start.token && found.losses + found.returns == 0, "{found:?}");
        ensure!(fleet.log()?.of(&job).count() == 1, "one execution");
        Ok(())
    })
    .await
}
