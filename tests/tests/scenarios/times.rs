//! Not before, not after, and who first.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use tenure_client::proto::JobState;
use tenure_tests::clock::Moment;
use tenure_tests::wait::PATIENCE;
use tenure_tests::{Fleet, KindPlan, NodePlan, Plan, Script, scenario};

fn plan() -> Plan {
    Plan::new().kind(KindPlan::new("shell.task").need("shell", 1)).node(NodePlan::new("n1").slot("shell", 1))
}

#[tokio::test]
async fn a_delayed_job_starts_when_its_time_has_come_also_after_a_restart() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let delay = Duration::from_secs(3);
        let asked = Moment::now();
        let job = fleet.client().enqueue(&Fleet::job("shell.task", &Script::new()).delay(delay)).await?.job;
        ensure!(job.state() == JobState::Scheduled && job.run_at.is_some(), "{job:?}");
        fleet.kill_server().await?;
        fleet.start_server().await?;
        let run = fleet.started(&job.id, 1, PATIENCE).await?;
        let waited = run.start.at.since(asked);
        ensure!(waited >= delay && waited < delay + Duration::from_secs(4), "it started after {waited:?}");
        fleet.all_succeed(&[job.id], PATIENCE).await
    })
    .await
}

#[tokio::test]
async fn a_job_that_is_not_worth_starting_any_more_expires_with_a_note() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let holder = fleet.enqueue("shell.task", &Script::new().wait("go")).await?;
        fleet.started(&holder, 1, PATIENCE).await?;
        let stale = Fleet::job("shell.task", &Script::new()).stale_after(Duration::from_secs(1));
        let stale = fleet.client().enqueue(&stale).await?.job.id;
        let expired = fleet.state(&stale, JobState::Expired, PATIENCE).await?;
        ensure!(!expired.reason.is_empty() && expired.finish_time.is_some(), "{expired:?}");
        fleet.open("go")?;
        fleet.all_succeed(&[holder], PATIENCE).await?;
        ensure!(fleet.log()?.of(&stale).count() == 0, "it never started");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn the_more_urgent_job_starts_first_and_equals_in_the_order_of_their_enqueue() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let holder = fleet.enqueue("shell.task", &Script::new().wait("go")).await?;
        fleet.started(&holder, 1, PATIENCE).await?;
        let mut jobs = Vec::new();
        for priority in [0, 0, 60, -60] {
            let job = Fleet::job("shell.task", &Script::new()).priority(priority);
            jobs.push(fleet.client().enqueue(&job).await?.job.id);
        }
        // Asked to hurry after its enqueue.
        let answer = fleet.client().reprioritize(&jobs[3], 90).await?;
        ensure!(answer.changed, "{answer:?}");
        fleet.open("go")?;
        fleet.all_succeed(&jobs, PATIENCE).await?;
        let log = fleet.log()?;
        let mut starts = Vec::new();
        for job in &jobs {
            starts.push(log.of(job).next().context("it did not run")?.start.at);
        }
        ensure!(starts[3] < starts[2] && starts[2] < starts[0] && starts[0] < starts[1], "{starts:?}");
        Ok(())
    })
    .await
}
