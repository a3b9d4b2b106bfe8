//! A disk that is full under Postgres: for rows, and for its log.

use std::time::Duration;

use anyhow::ensure;
use rustix::process::geteuid;
use tenure_client::RetryPolicy;
use tenure_client::proto::NodeState;
use tenure_tests::wait::{PATIENCE, level, until};
use tenure_tests::{Fleet, Script, Step, scenario};

use super::{KNOWN, SLACK, UNSETTLED, away, back, plan, refused};

/// Room for a new cluster and a little more, in MiB.
const DISK: u32 = 160;

/// A result that no page has room for, so that the disk is asked.
const LARGE: usize = 200_000;

/// Waits until an enqueue is refused, since the pages that there are have no room left.
async fn full(fleet: &Fleet, client: &tenure_client::Client) -> anyhow::Result<Vec<String>> {
    let mut stored = Vec::new();
    until("the disk is full", PATIENCE * 2, async || {
        let payload = "x".repeat(LARGE);
        let job = Fleet::job("shell.task", &Script::new().wait("go").then(Step::Result(payload)));
        let enqueued = client.enqueue(&job).await;
        if let Ok(enqueued) = &enqueued {
            stored.push(enqueued.job.id.clone());
        }
        level(enqueued.is_err(), || format!("{} were stored", stored.len()))
    })
    .await?;
    ensure!(fleet.postgres()?.run_sql("test_0", "select 1").is_ok(), "Postgres itself goes on");
    Ok(stored)
}

#[tokio::test]
async fn while_the_disk_of_postgres_is_full_calls_are_refused_in_time_and_jobs_run_on() -> anyhow::Result<()>
{
    if !geteuid().is_root() {
        eprintln!("not root: no small disk can be mounted here, nothing was tested");
        return Ok(());
    }
    scenario(plan().postgres_on_small_disk(DISK), async |fleet| {
        let once =
            fleet.client_with(RetryPolicy { give_up_after: Duration::ZERO, ..RetryPolicy::default() })?;
        let long = fleet.enqueue("shell.task", &Script::new().wait("go")).await?;
        let ends = fleet.enqueue("shell.task", &Script::new().wait("end").sleep(Duration::ZERO)).await?;
        let runs = [fleet.started(&long, 1, PATIENCE).await?, fleet.started(&ends, 1, PATIENCE).await?];
        let mut jobs = vec![long.clone(), ends.clone()];

        fleet.postgres()?.fill_disk()?;
        jobs.extend(full(fleet, &once).await?);
        for _ in 0..5 {
            // Large, so that it is not stored in what is left of a page.
            let took = super::refused_job(
                &once,
                &Fleet::job("shell.task", &Script::new().then(Step::Result("x".repeat(LARGE)))),
            )
            .await?;
            ensure!(took < UNSETTLED + SLACK, "a call took {took:?}");
        }
        // A job that ends now is kept by its agent, if not by the server.
        fleet.open("end")?;
        until("it ended", PATIENCE, async || {
            let log = fleet.log().map_err(|error| error.to_string())?;
            level(log.of(&ends).any(|run| run.end.is_some()), || format!("{log:?}"))
        })
        .await?;
        fleet.postgres()?.free_disk()?;
        jobs.push(back(&once).await?);
        until("the node is back", PATIENCE, async || {
            let node = once.node("n1").await.map_err(|error| error.to_string())?;
            level(node.state() == NodeState::Live, || format!("{node:?}"))
        })
        .await?;

        // The log of Postgres itself: it ends at the next write, and starts only when there is room.
        fleet.postgres()?.fill_disk()?;
        drop(fleet.postgres()?.run_sql("test_0", "select pg_switch_wal()"));
        away(fleet).await?;
        for _ in 0..3 {
            let took = refused(&once).await?;
            ensure!(took < KNOWN + SLACK, "it is known to be away, and a call took {took:?}");
        }
        ensure!(fleet.log()?.of(&long).all(|run| run.end.is_none()), "it runs on");
        fleet.postgres()?.stop()?;
        fleet.postgres()?.free_disk()?;
        fleet.postgres()?.start_again()?;
        jobs.push(back(&once).await?);

        fleet.open("go")?;
        fleet.all_succeed(&jobs, PATIENCE * 2).await?;
        for (job, run) in [&long, &ends].into_iter().zip(runs) {
            let found = fleet.client().get(job).await?;
            ensure!(found.token == run.start.token && found.losses + found.returns == 0, "{found:?}");
            ensure!(fleet.log()?.of(job).count() == 1, "{job} ran once");
        }
        Ok(())
    })
    .await
}
