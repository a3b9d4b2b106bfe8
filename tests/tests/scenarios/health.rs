//! The figures of every kind, and a stuck head told from a burst.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value;
use tenure_client::proto::{GetQueueHealthResponse, KindHealth, QueueSignal};
use tenure_client::wire;
use tenure_tests::wait::{PATIENCE, until};
use tenure_tests::{Fleet, KindPlan, NodePlan, Plan, Script, Step, scenario};

/// A head that has not moved for this long is stuck.
const STUCK_AFTER: Duration = Duration::from_secs(30);

fn plan() -> Plan {
    Plan::new()
        .kind(KindPlan::new("hog").need("browser", 1))
        .kind(KindPlan::new("stuck").need("browser", 1))
        .kind(KindPlan::new("burst").need("shell", 1))
        .kind(KindPlan::new("nowhere").need("browser", 1))
        .kind(KindPlan::new("doomed").line("max_failures = 1"))
        .node(
            NodePlan::new("n1")
                .slot("browser", 1)
                .slot("shell", 2)
                .only(&["hog", "stuck", "burst", "doomed"]),
        )
}

fn figures<'a>(health: &'a GetQueueHealthResponse, kind: &str) -> Result<&'a KindHealth, String> {
    health.kinds.iter().find(|found| found.kind == kind).ok_or_else(|| format!("no {kind} in {health:?}"))
}

/// Waits until the published figures of a kind are as wanted.
async fn published(
    fleet: &Fleet,
    kind: &str,
    within: Duration,
    wanted: impl Fn(&KindHealth) -> bool,
) -> anyhow::Result<KindHealth> {
    until(&format!("the figures of {kind}"), within, async || {
        let health = fleet.client().queue_health(None).await.map_err(|error| error.to_string())?;
        let found = figures(&health, kind)?;
        if wanted(found) { Ok(found.clone()) } else { Err(format!("{found:?}")) }
    })
    .await
}

fn age(kind: &KindHealth) -> Duration {
    kind.oldest_age.as_ref().map(wire::std_duration).unwrap_or_default()
}

#[tokio::test]
async fn a_stuck_head_is_told_from_a_burst_and_every_figure_is_there() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let mut stuck = Vec::new();
        let hog = fleet.enqueue("hog", &Script::new().wait("go")).await?;
        fleet.started(&hog, 1, PATIENCE).await?;
        for _ in 0..3 {
            stuck.push(fleet.enqueue("stuck", &Script::new()).await?);
        }
        let doomed = fleet.enqueue("doomed", &Script::new().then(Step::Exit(1))).await?;
        let head = published(fleet, "stuck", PATIENCE, |kind| kind.depth == 3 && kind.running == 0).await?;
        ensure!(head.nodes_able == 1 && head.signal() != QueueSignal::Stuck, "{head:?}");
        ensure!(head.head_reason.contains("browser"), "{head:?}");
        let older = published(fleet, "stuck", PATIENCE, |kind| age(kind) > age(&head)).await?;
        ensure!(older.depth == 3, "it grows older, not deeper: {older:?}");
        let nowhere = published(fleet, "nowhere", PATIENCE, |_| true).await?;
        ensure!(nowhere.nodes_able == 0 && nowhere.signal() == QueueSignal::Idle, "{nowhere:?}");
        published(fleet, "doomed", PATIENCE, |kind| kind.dead_today == 1).await?;

        let head =
            published(fleet, "stuck", STUCK_AFTER + PATIENCE, |kind| kind.signal() == QueueSignal::Stuck)
                .await?;
        ensure!(head.depth == 3 && age(&head) >= STUCK_AFTER, "{head:?}");
        // Only now the burst: three hundred at once, the oldest of them young.
        let burst: Vec<_> = (0..300).map(|_| Fleet::job("burst", &Script::new())).collect();
        let mut jobs = Vec::new();
        for answer in fleet.client().enqueue_batch(&burst).await {
            jobs.push(answer?.job.id);
        }
        let crowd = published(fleet, "burst", PATIENCE, |kind| kind.depth > 100).await?;
        ensure!(crowd.signal() == QueueSignal::Burst && age(&crowd) < STUCK_AFTER, "{crowd:?}");
        let health = fleet.client().queue_health(None).await?;
        ensure!(health.attention.iter().any(|line| line.contains("stuck")), "{health:?}");
        ensure!(!health.attention.iter().any(|line| line.contains("burst")), "{health:?}");

        let told = fleet.cli(&["health", "-o", "json"]).await?;
        let object: Value = serde_json::from_str(&told.stdout).with_context(|| format!("{told:?}"))?;
        ensure!(object["kinds"].as_array().is_some_and(|kinds| kinds.len() == 5), "{object:#}");
        let told = fleet.cli(&["health"]).await?;
        ensure!(told.code == 0 && told.stdout.contains("stuck") && told.stdout.contains("burst"), "{told:?}");

        for job in jobs.iter().rev().take(200) {
            fleet.client().cancel(job, "enough was seen").await?;
        }
        fleet.open("go")?;
        stuck.push(hog);
        fleet.all_succeed(&stuck, PATIENCE).await?;
        fleet.all_succeed(&jobs[..100], PATIENCE).await?;
        ensure!(fleet.client().get(&doomed).await?.failures == 1, "it died of its failure");
        Ok(())
    })
    .await
}
