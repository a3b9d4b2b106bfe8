//! Jobs that cannot succeed: tried, buried with every error, grouped, counted, brought back.

use anyhow::{Context as _, ensure};
use serde_json::Value;
use tenure_client::proto::{JobState, Outcome};
use tenure_tests::wait::{PATIENCE, level, until};
use tenure_tests::{KindPlan, NodePlan, Plan, Script, Step, scenario};

fn plan() -> Plan {
    // The only node is not to blame.
    let retried = |name| {
        KindPlan::new(name)
            .line("max_failures = 3")
            .line("retry = { intervals = [\"100ms\"] }")
            .line("node_backoff = false")
    };
    Plan::new().kind(retried("crawl")).kind(retried("digest")).node(NodePlan::new("n1"))
}

/// Fails until somebody mends what it needs.
fn poison() -> Script {
    Script::new().then(Step::Print("the page is gone".to_owned())).then(Step::Require("mended".to_owned()))
}

#[tokio::test]
async fn a_poison_job_dies_at_its_cap_with_every_error_and_comes_back_by_requeue() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let job = fleet.enqueue("crawl", &poison()).await?;
        let dead = fleet.state(&job, JobState::Dead, PATIENCE).await?;
        ensure!((dead.failures, dead.losses, dead.round) == (3, 0, 1), "{dead:?}");
        let attempts = fleet.client().attempts(&job).await?;
        ensure!(attempts.len() == 3, "{attempts:?}");
        for (attempt, number) in attempts.iter().zip(1..) {
            ensure!(
                attempt.attempt == number && attempt.outcome() == Outcome::FailedRetryable,
                "{attempt:?}"
            );
            ensure!(attempt.exit_code == Some(1) && attempt.cause == "exit", "{attempt:?}");
            ensure!(attempt.error.contains("the gate mended is not open"), "{attempt:?}");
            ensure!(attempt.node == "n1" && attempt.started, "{attempt:?}");
        }

        fleet.open("mended")?;
        let requeued = fleet.client().requeue(&job, false).await?;
        ensure!(requeued.changed, "{requeued:?}");
        let done = fleet.state(&job, JobState::Succeeded, PATIENCE).await?;
        ensure!((done.failures, done.round, done.attempt) == (0, 2, 1), "{done:?}");
        let attempts = fleet.client().attempts(&job).await?;
        ensure!(
            attempts.len() == 4 && attempts[3].outcome() == Outcome::Succeeded,
            "history is kept: {attempts:?}"
        );
        ensure!(
            !fleet.client().requeue(&job, false).await.is_ok_and(|answer| answer.changed),
            "it succeeded"
        );
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_permanent_exit_code_is_death_at_once_and_a_signal_is_a_failure_with_its_name() -> anyhow::Result<()>
{
    scenario(plan(), async |fleet| {
        let permanent = fleet.enqueue("crawl", &Script::new().exit(65)).await?;
        let crashing = fleet.enqueue("digest", &Script::new().then(Step::Signal(6))).await?;
        let missed = fleet.enqueue("digest", &Script::new().fail_first(2)).await?;
        let dead = fleet.state(&permanent, JobState::Dead, PATIENCE).await?;
        ensure!(dead.failures == 1, "{dead:?}");
        let attempts = fleet.client().attempts(&permanent).await?;
        ensure!(attempts.len() == 1 && attempts[0].outcome() == Outcome::FailedPermanent, "{attempts:?}");
        fleet.state(&crashing, JobState::Dead, PATIENCE).await?;
        let attempts = fleet.client().attempts(&crashing).await?;
        ensure!(attempts.len() == 3, "{attempts:?}");
        ensure!(attempts[0].cause == "signal" && attempts[0].error.contains("SIGABRT"), "{attempts:?}");
        let done = fleet.state(&missed, JobState::Succeeded, PATIENCE).await?;
        ensure!((done.failures, done.attempt) == (2, 3), "{done:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn dead_letters_are_grouped_counted_by_day_and_requeued_in_bulk() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let mut jobs = Vec::new();
        for _ in 0..3 {
            jobs.push(fleet.enqueue("crawl", &poison()).await?);
        }
        jobs.push(fleet.enqueue("crawl", &Script::new().exit(66)).await?);
        jobs.push(fleet.enqueue("digest", &poison()).await?);
        for job in &jobs {
            fleet.state(job, JobState::Dead, PATIENCE).await?;
        }

        let listed = fleet.cli(&["dead", "list", "-o", "json"]).await?;
        let groups: Value = serde_json::from_str(&listed.stdout).with_context(|| format!("{listed:?}"))?;
        let mut counts: Vec<u64> = numbers(&groups["groups"], "count");
        counts.sort_unstable();
        ensure!(counts == [1, 1, 3], "{groups:#}");

        until("the day's count is published", PATIENCE, async || {
            let health = fleet.client().queue_health(None).await.map_err(|error| error.to_string())?;
            let today = |kind: &str| {
                health.kinds.iter().find(|found| found.kind == kind).map(|found| found.dead_today)
            };
            level((today("crawl"), today("digest")) == (Some(4), Some(1)), || format!("{health:?}"))?;
            let days = health.kinds.iter().map(|kind| kind.dead_by_day.first().map_or(0, |day| day.count));
            level(days.sum::<u64>() == 5, || format!("{health:?}"))
        })
        .await?;

        fleet.open("mended")?;
        let dry =
            fleet.cli(&["dead", "requeue", "--kind", "crawl", "--reason", "mended", "--dry-run"]).await?;
        ensure!(dry.code == 0 && fleet.states().await?.get("Dead") == Some(&5), "{dry:?}");
        let everything = fleet.cli(&["dead", "requeue", "--yes"]).await?;
        ensure!(everything.code == 2, "an empty filter: {everything:?}");
        let bulk = fleet.cli(&["dead", "requeue", "--kind", "crawl", "--reason", "mended", "--yes"]).await?;
        ensure!(bulk.code == 0, "{bulk:?}");
        fleet.all_succeed(&jobs[..3], PATIENCE).await?;
        ensure!(fleet.states().await?.get("Dead") == Some(&2), "{:?}", fleet.states().await?);
        let purged = fleet.cli(&["dead", "purge", "--all", "--yes"]).await?;
        ensure!(purged.code == 0 && !fleet.states().await?.contains_key("Dead"), "{purged:?}");
        ensure!(fleet.cli(&["job", "get", &jobs[4]]).await?.code == 3, "it was purged");
        Ok(())
    })
    .await
}

/// A figure of each object of a list.
fn numbers(list: &Value, name: &str) -> Vec<u64> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(|item| item[name].as_u64().or_else(|| item[name].as_str()?.parse().ok())).collect()
}
