//! What a job may do to its node, and what a person may do to a job.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use tenure_client::proto::{JobState, Outcome, PausePolicy};
use tenure_tests::wait::{PATIENCE, level, until};
use tenure_tests::{KindPlan, NodePlan, Plan, Script, Step, scenario, tag};

fn plan() -> Plan {
    Plan::new()
        .fleet_slot("anthropic", 4)
        .kind(KindPlan::new("shell.task").need("shell", 1).need("anthropic", 1))
        .kind(KindPlan::new("brief").line("hard_time_limit = \"1s\"").line("max_failures = 1"))
        .node(NodePlan::new("n1").slot("shell", 2))
}

#[tokio::test]
async fn a_job_that_floods_forks_and_hides_a_daemon_still_ends_clean() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let wild = Script::new()
            .then(Step::IgnoreTerm)
            .then(Step::Flood(16 << 20))
            .then(Step::Daemon)
            .then(Step::Spawn(20))
            .then(Step::Result("kept".to_owned()));
        let job = fleet.enqueue("shell.task", &wild).await?;
        fleet.all_succeed(std::slice::from_ref(&job), PATIENCE).await?;
        let run = fleet.started(&job, 1, PATIENCE).await?;
        fleet.gone(run.start.token, PATIENCE).await?;
        let result = fleet.client().result(&job).await?;
        ensure!(result.data == "kept" && result.content_type.starts_with("text/plain"), "{result:?}");
        until("its slots are free", PATIENCE, async || {
            let slots = fleet.client().slots().await.map_err(|error| error.to_string())?;
            level(slots.iter().all(|slot| slot.used == 0), || format!("{slots:?}"))
        })
        .await
    })
    .await
}

#[tokio::test]
async fn a_job_over_its_hard_limit_is_killed_with_its_tree() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let endless = Script::new().then(Step::IgnoreTerm).then(Step::Spawn(2)).wait("never");
        let job = fleet.enqueue("brief", &endless).await?;
        let dead = fleet.state(&job, JobState::Dead, PATIENCE).await?;
        ensure!(dead.failures == 1, "{dead:?}");
        let attempts = fleet.client().attempts(&job).await?;
        ensure!(attempts[0].outcome() == Outcome::TimedOut && attempts[0].cause == "limit", "{attempts:?}");
        fleet.gone(attempts[0].token, PATIENCE).await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_cancelled_job_is_killed_and_ends_cancelled() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let running =
            fleet.enqueue("shell.task", &Script::new().then(Step::IgnoreTerm).wait("never")).await?;
        let run = fleet.started(&running, 1, PATIENCE).await?;
        let told = fleet.cli(&["job", "cancel", &running]).await?;
        ensure!(told.code == 0, "{told:?}");
        let job = fleet.state(&running, JobState::Cancelled, PATIENCE).await?;
        ensure!((job.failures, job.losses) == (0, 0), "{job:?}");
        fleet.gone(run.start.token, PATIENCE).await?;
        let again = fleet.cli(&["job", "cancel", &running]).await?;
        ensure!(again.code == 0, "repeating a verb is harmless: {again:?}");

        fleet.client().pause_kind("shell.task", PausePolicy::Hold).await?;
        let waiting = fleet.enqueue("shell.task", &Script::new()).await?;
        fleet
            .job_when(&waiting, "held by the pause", PATIENCE, |job| {
                job.deferral.as_ref().is_some_and(|deferral| deferral.reason == "kind_paused")
            })
            .await?;
        fleet.client().cancel(&waiting, "not today").await?;
        let job = fleet.client().get(&waiting).await?;
        ensure!(job.state() == JobState::Cancelled && job.reason.contains("not today"), "{job:?}");
        ensure!(fleet.log()?.of(&waiting).count() == 0, "it never ran");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_drained_node_finishes_what_it_can_and_returns_the_rest_uncharged() -> anyhow::Result<()> {
    let plan = plan().node(NodePlan::new("n2").slot("shell", 2));
    scenario(plan, async |fleet| {
        fleet.client().cordon("n2").await?;
        let ends = fleet.enqueue("shell.task", &Script::new().wait("go")).await?;
        let stays = fleet.enqueue("shell.task", &Script::new().wait("later")).await?;
        for job in [&ends, &stays] {
            fleet.started(job, 1, PATIENCE).await?;
        }
        fleet.client().drain("n1", Some(Duration::from_secs(3))).await?;
        fleet.client().uncordon("n2").await?;
        fleet.open("go")?;
        fleet.all_succeed(std::slice::from_ref(&ends), PATIENCE).await?;
        let second = fleet.started(&stays, 2, PATIENCE).await?;
        ensure!(second.start.node == "n2", "{second:?}");
        let job = fleet.client().get(&stays).await?;
        ensure!((job.failures, job.losses, job.returns, job.attempt) == (0, 0, 1, 1), "{job:?}");
        let attempts = fleet.client().attempts(&stays).await?;
        ensure!(attempts[0].outcome() == Outcome::Returned, "{attempts:?}");
        fleet.open("later")?;
        fleet.all_succeed(&[stays], PATIENCE).await?;
        ensure!(fleet.log()?.of(&ends).count() == 1, "it ended where it was");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_capacity_cut_while_leases_run_kills_nothing_and_starts_nothing() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let mut jobs = Vec::new();
        for _ in 0..2 {
            jobs.push(fleet.enqueue("shell.task", &Script::new().wait("go")).await?);
        }
        for job in &jobs {
            fleet.started(job, 1, PATIENCE).await?;
        }
        fleet.client().set_capacity("anthropic", 0).await?;
        let waiting = fleet.enqueue("shell.task", &Script::new()).await;
        let refused = waiting.err().context("needs beyond the capacity are impossible")?;
        ensure!(format!("{refused:#}").contains("IMPOSSIBLE_NEEDS"), "{refused:#}");
        fleet.client().set_capacity("anthropic", 1).await?;
        let waiting = fleet.enqueue("shell.task", &Script::new()).await?;
        let job = fleet
            .job_when(&waiting, "deferred", PATIENCE, |job| {
                job.deferral.as_ref().is_some_and(|deferral| deferral.reason == "slot_busy")
            })
            .await?;
        ensure!(job.state() == JobState::Queued, "{job:?}");
        for job in &jobs {
            ensure!(fleet.client().get(job).await?.state() == JobState::Running, "it runs on");
        }
        ensure!(!tag::of_token(fleet.mark(), fleet.client().get(&jobs[0]).await?.token).is_empty(), "really");
        fleet.open("go")?;
        jobs.push(waiting);
        fleet.all_succeed(&jobs, PATIENCE).await
    })
    .await
}
