//! Figures by OTLP are those of `/metrics`: the same names, labels and values.

use std::collections::BTreeMap;

use anyhow::ensure;
use tenure_tests::collector::Collector;
use tenure_tests::wait::{PATIENCE, level, until};
use tenure_tests::{Script, scenario};

use crate::{SERVER, plan};

/// They are another figure each time they are read, or in each turn.
const RESTLESS: [&str; 5] = [
    "tenure_uptime_seconds",
    "tenure_snapshot_age_seconds",
    "tenure_commands_total",
    "tenure_turn_seconds",
    "tenure_deferrals_total",
];

/// The series of a page of `/metrics`, without the sums of histograms.
fn page(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| line.starts_with("tenure_"));
    let series = lines.filter_map(|line| line.rsplit_once(' '));
    let series = series.filter(|(key, _)| !key.split('{').next().is_some_and(|name| name.ends_with("_sum")));
    series.map(|(key, value)| (key.to_owned(), value.parse().unwrap_or(f64::NAN))).collect()
}

#[tokio::test]
async fn figures_by_otlp_are_those_of_the_page() -> anyhow::Result<()> {
    let collector = Collector::start().await?;
    scenario(plan(&collector.endpoint()), async |fleet| {
        let mut jobs = Vec::new();
        for _ in 0..3 {
            jobs.push(fleet.enqueue("shell.task", &Script::new()).await?);
        }
        fleet.all_succeed(&jobs, PATIENCE).await?;
        until("both say the same", PATIENCE, async || {
            let page = page(&fleet.http("/metrics").await.map_err(|error| error.to_string())?);
            let sent = collector.figures(SERVER);
            let restless = |key: &String| RESTLESS.iter().any(|name| key.starts_with(name));
            let missing: Vec<_> = page.keys().filter(|key| !sent.contains_key(*key)).collect();
            let unknown: Vec<_> = sent.keys().filter(|key| !page.contains_key(*key)).collect();
            level(missing.is_empty() && unknown.is_empty(), || {
                format!("missing {missing:?}, unknown {unknown:?}")
            })?;
            let differ: Vec<_> =
                page.iter().filter(|(key, value)| !restless(key) && sent.get(*key) != Some(value)).collect();
            level(differ.is_empty(), || format!("{differ:?} differ from {sent:?}"))
        })
        .await?;
        let sent = collector.figures(SERVER);
        ensure!(sent["tenure_enqueues_total{kind=\"shell.task\"}"] == 3.0, "{sent:?}");
        ensure!(sent["tenure_wait_seconds_count{kind=\"shell.task\"}"] == 3.0, "{sent:?}");
        ensure!(sent["tenure_commit_seconds_count"] >= 3.0, "{sent:?}");
        Ok(())
    })
    .await
}
