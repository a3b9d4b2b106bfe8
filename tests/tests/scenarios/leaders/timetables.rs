//! Leaders that are killed while an entry fires every second.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tenure_client::proto::{CronEntry, ListJobsRequest};
use tenure_tests::random::Random;
use tenure_tests::scenario;
use tenure_tests::wait::{PATIENCE, level, until};

use super::{Pair, TAKEOVER, plan, torture};

/// The plan's own, and an entry whose jobs nobody runs.
const FLEET: &str = r#"
[slots]
shell = "node"
[kinds."shell.task"]
needs = { shell = 1 }
lease = "60s"
[kinds.tick]
[cron.second]
kind = "tick"
when = "* * * * * *"
missed = { catch_up = 2 }
"#;

async fn entry(pair: &Pair) -> Result<CronEntry, String> {
    let entries = pair.client.cron_entries().await.map_err(|error| error.to_string())?;
    entries.into_iter().next().ok_or_else(|| "no entry".to_owned())
}

#[tokio::test]
async fn each_second_fires_once_or_is_missed_once_whoever_is_killed() -> anyhow::Result<()> {
    let kills = if torture() { 50 } else { 4 };
    let mut random = Random::from_environment();
    println!("{random}, {kills} kills");
    scenario(plan(), async |fleet| {
        let mut pair = Pair::start(fleet).await?;
        pair.client.apply(FLEET, false).await?;
        for _ in 0..kills {
            let before = entry(&pair).await.map_err(anyhow::Error::msg)?.fired;
            until("it fires", PATIENCE, async || {
                let entry = entry(&pair).await?;
                level(entry.fired > before, || format!("{entry:?}"))
            })
            .await?;
            // The moment of the kill is the point of this test.
            tokio::time::sleep(random.between(Duration::ZERO, Duration::from_secs(1))).await;
            pair.leader.process.kill().await?;
            pair.other.leads(TAKEOVER * 2).await?;
            pair.swap();
            pair.other = pair.next(fleet).await?;
            pair.other.follows(&pair.leader).await?;
        }
        pair.client.pause_cron_entry("second").await?;
        let entry = entry(&pair).await.map_err(anyhow::Error::msg)?;
        let filter = ListJobsRequest { kind: "tick".to_owned(), ..ListJobsRequest::default() };
        let jobs = pair.client.list(filter).take(100_000).await?;
        let mut fired = BTreeSet::new();
        for job in &jobs {
            let instant = job.cron.as_ref().and_then(|cron| cron.instant).context("an instant")?.seconds;
            ensure!(fired.insert(instant), "fired twice: {job:?}");
        }
        let missed = entry.missed_firings.iter().flat_map(|missed| [missed.first, missed.last]);
        let all: BTreeSet<i64> = fired.iter().copied().chain(missed.flatten().map(|at| at.seconds)).collect();
        let (first, last) = (all.first().context("none")?, all.last().context("none")?);
        let seconds = u64::try_from(last - first + 1)?;
        println!("{} fired and {} missed in {seconds} s", entry.fired, entry.missed);
        ensure!(entry.fired == fired.len() as u64, "{entry:?}");
        ensure!(entry.fired + entry.missed == seconds, "none is forgotten: {seconds} s, {entry:?}");
        pair.finish(fleet).await
    })
    .await
}
