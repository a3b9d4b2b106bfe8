//! Parents that have children and wait for them, on the local socket: by ending, and by staying.

use std::time::Duration;

use anyhow::ensure;
use tenure_client::proto::JobState;
use tenure_tests::wait::{PATIENCE, level, until};
use tenure_tests::{Fleet, KindPlan, NodePlan, Plan, Script, Step, binary, scenario};

const LONG: Duration = Duration::from_secs(90);

fn kind(name: &str) -> KindPlan {
    KindPlan::new(name).node_line("env_from = [\"TEST_TENURE\"]")
}

/// One slot, `shell`, that both parents and children need.
fn plan() -> anyhow::Result<Plan> {
    Ok(Plan::new()
        .variable("TEST_TENURE", &binary::tenure()?.to_string_lossy())
        .kind(kind("parent").need("shell", 1).line("retry = { intervals = [\"1s\"] }"))
        .kind(kind("child").need("shell", 1))
        .kind(kind("nobody"))
        .node(NodePlan::new("n1").slot("shell", 4).only(&["parent", "child"])))
}

async fn result(fleet: &Fleet, job: &str) -> anyhow::Result<String> {
    Ok(String::from_utf8(fleet.client().result(job).await?.data.to_vec())?)
}

/// Four parents each hold `shell` (capacity 4) and wait for four children that need `shell`.
async fn four_families(fleet: &mut Fleet, wait: fn(String) -> Step) -> anyhow::Result<()> {
    let family = Script::new().wait("go").then(wait("4 child sleep 100".to_owned()));
    let mut parents = Vec::new();
    for _ in 0..4 {
        parents.push(fleet.enqueue("parent", &family).await?);
    }
    for parent in &parents {
        fleet.started(parent, 1, PATIENCE).await?;
    }
    // All four hold the slot now; nothing is free for any child.
    fleet.open("go")?;
    fleet.all_succeed(&parents, LONG).await?;
    for parent in &parents {
        let ends = result(fleet, parent).await?;
        ensure!(ends == ["succeeded"; 4].join(","), "{ends}");
        let job = fleet.client().get(parent).await?;
        ensure!((job.failures, job.losses, job.attempt) == (0, 0, 1), "{job:?}");
    }
    let children = fleet.log()?.runs.iter().filter(|run| run.start.kind == "child").count();
    ensure!(children == 16, "{children} children ran");
    Ok(())
}

#[tokio::test]
async fn four_parents_that_hold_all_slots_end_by_detaching() -> anyhow::Result<()> {
    scenario(plan()?, async |fleet| four_families(fleet, Step::Detach).await).await
}

#[tokio::test]
async fn four_parents_that_hold_all_slots_end_by_parking() -> anyhow::Result<()> {
    scenario(plan()?, async |fleet| four_families(fleet, Step::Park).await).await
}

/// A parent that waits, and its children, of which none has begun yet.
async fn waiting(fleet: &mut Fleet, wait: fn(String) -> Step) -> anyhow::Result<String> {
    let parent = fleet.enqueue("parent", &Script::new().then(wait("2 child wait go".to_owned()))).await?;
    fleet.job_when(&parent, "it waits", PATIENCE, |job| job.waiting_for.is_some()).await?;
    Ok(parent)
}

async fn ends_well(fleet: &mut Fleet, parent: &str) -> anyhow::Result<()> {
    fleet.open("go")?;
    fleet.all_succeed(&[parent.to_owned()], LONG).await?;
    let ends = result(fleet, parent).await?;
    ensure!(ends == "succeeded,succeeded", "{ends}");
    let job = fleet.client().get(parent).await?;
    ensure!((job.failures, job.losses) == (0, 0), "{job:?}");
    Ok(())
}

#[tokio::test]
async fn a_parked_process_goes_on_under_the_agent_that_follows_a_killed_one() -> anyhow::Result<()> {
    scenario(plan()?, async |fleet| {
        let parent = waiting(fleet, Step::Park).await?;
        fleet.kill_agent("n1").await?;
        fleet.start_agent("n1")?;
        fleet.node_live("n1").await?;
        ends_well(fleet, &parent).await?;
        let runs = fleet.log()?.of(&parent).filter(|run| !run.resumed).count();
        ensure!(runs == 1, "it ran {runs} times");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_parked_process_goes_on_after_the_server_was_killed() -> anyhow::Result<()> {
    scenario(plan()?, async |fleet| {
        let parent = waiting(fleet, Step::Park).await?;
        fleet.kill_server().await?;
        fleet.start_server().await?;
        ends_well(fleet, &parent).await
    })
    .await
}

#[tokio::test]
async fn a_detached_job_comes_back_after_server_and_agent_were_killed() -> anyhow::Result<()> {
    scenario(plan()?, async |fleet| {
        let parent = waiting(fleet, Step::Detach).await?;
        fleet.kill_server().await?;
        fleet.kill_agent("n1").await?;
        fleet.start_server().await?;
        fleet.start_agent("n1")?;
        fleet.node_live("n1").await?;
        ends_well(fleet, &parent).await
    })
    .await
}

#[tokio::test]
async fn another_attempt_finds_the_children_of_the_one_before() -> anyhow::Result<()> {
    scenario(plan()?, async |fleet| {
        let script = Script::new().then(Step::Park("2 child sleep 1".to_owned())).fail_first(1);
        let parent = fleet.enqueue("parent", &script).await?;
        fleet.all_succeed(std::slice::from_ref(&parent), LONG).await?;
        let children = fleet.log()?.runs.iter().filter(|run| run.start.kind == "child").count();
        ensure!(children == 2, "{children} children ran");
        ensure!(result(fleet, &parent).await? == "succeeded,succeeded");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_thousand_children_are_one_call_and_follow_their_parent() -> anyhow::Result<()> {
    scenario(plan()?, async |fleet| {
        // Nobody runs them: they are there, and no more.
        let parent =
            fleet.enqueue("parent", &Script::new().then(Step::Park("1000 nobody exit 0".into()))).await?;
        let job = fleet.job_when(&parent, "it waits", LONG, |job| job.waiting_for.is_some()).await?;
        ensure!(job.waiting_for.is_some_and(|wait| wait.children == 1_000 && wait.unfinished == 1_000));
        fleet.client().cancel(&parent, "enough").await?;
        fleet.state(&parent, JobState::Cancelled, PATIENCE).await?;
        until("all children are cancelled", PATIENCE, async || {
            let states = fleet.states().await.map_err(|error| error.to_string())?;
            level(states.values().sum::<usize>() == 1_001 && states.len() == 1, || format!("{states:?}"))
        })
        .await
    })
    .await
}

#[tokio::test]
async fn a_wait_file_that_means_nothing_is_a_failure_with_its_reason() -> anyhow::Result<()> {
    scenario(plan()?, async |fleet| {
        let parent = fleet.enqueue("child", &Script::new().exit(79)).await?;
        let job = fleet.job_when(&parent, "it has failed", PATIENCE, |job| job.failures == 1).await?;
        ensure!(job.reason.contains("79"), "{job:?}");
        fleet.client().cancel(&parent, "enough").await?;
        Ok(())
    })
    .await
}
