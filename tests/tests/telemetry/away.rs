//! A collector that is away, or takes and never answers, costs a warning and nothing else.

use std::time::Duration;

use anyhow::ensure;
use tenure_tests::clock::Moment;
use tenure_tests::collector::Silent;
use tenure_tests::wait::{PATIENCE, level, until};
use tenure_tests::{Script, scenario};

use crate::plan;

/// The flush at the end has three seconds; the rest is the shutdown itself, on a machine that does other things too.
const STOP_WITHIN: Duration = Duration::from_secs(10);

async fn nothing_waits(endpoint: &str) -> anyhow::Result<()> {
    scenario(plan(endpoint), async |fleet| {
        let mut jobs = Vec::new();
        for _ in 0..20 {
            jobs.push(fleet.enqueue("shell.task", &Script::new()).await?);
        }
        fleet.all_succeed(&jobs, PATIENCE).await?;
        let told = |log: &str, signal: &str| {
            let lines = log.lines().filter(|line| line.contains("the collector does not take"));
            lines.filter(|line| line.contains(signal)).count()
        };
        until("the server says so", PATIENCE, async || {
            let log = fleet.server().map_err(|error| error.to_string())?.log();
            level(told(&log, "spans") > 0 && told(&log, "figures") > 0, || log.clone())
        })
        .await?;
        until("the agent says so", PATIENCE, async || {
            let log = fleet.agent("n1").map_err(|error| error.to_string())?.log();
            level(told(&log, "spans") > 0, || log.clone())
        })
        .await?;
        let again = fleet.enqueue("shell.task", &Script::new()).await?;
        fleet.all_succeed(&[again], PATIENCE).await?;
        let log = fleet.server()?.log();
        let counts = (told(&log, "spans"), told(&log, "figures"));
        ensure!(counts == (1, 1), "it says so once a minute, not {counts:?} times");
        let begun = Moment::now();
        fleet.stop_server().await?;
        let took = Moment::now().since(begun);
        ensure!(took < STOP_WITHIN, "its stop took {took:?}");
        fleet.start_server().await?;
        fleet.node_live("n1").await
    })
    .await
}

#[tokio::test]
async fn a_collector_that_never_answers_slows_nothing() -> anyhow::Result<()> {
    let silent = Silent::start().await?;
    nothing_waits(&silent.endpoint()).await
}

#[tokio::test]
async fn a_collector_that_is_away_slows_nothing() -> anyhow::Result<()> {
    // A port that was free a moment ago, and that nobody serves.
    let free = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    nothing_waits(&format!("http://{free}")).await
}

#[tokio::test]
async fn a_protocol_that_is_not_spoken_is_told_and_costs_nothing() -> anyhow::Result<()> {
    let plan = plan("http://127.0.0.1:4318").variable("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf");
    scenario(plan, async |fleet| {
        let job = fleet.enqueue("shell.task", &Script::new()).await?;
        fleet.all_succeed(&[job], PATIENCE).await?;
        ensure!(fleet.server()?.log().contains("only grpc is spoken"), "{}", fleet.server()?.log());
        Ok(())
    })
    .await
}
