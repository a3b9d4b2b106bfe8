//! The examples of the client, against a real fleet; `come_back` is in the tests of the client, where nobody waits long.

#[expect(dead_code, reason = "its main reads a command line")]
#[path = "../../../client/examples/batch.rs"]
mod batch;
#[expect(dead_code, reason = "its main reads a command line")]
#[path = "../../../client/examples/enqueue.rs"]
mod enqueue;
#[expect(dead_code, reason = "its main reads a command line")]
#[path = "../../../client/examples/result.rs"]
mod result;
#[expect(dead_code, reason = "its main reads a command line")]
#[path = "../../../client/examples/watch.rs"]
mod watch;

use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use tenure_client::NewJob;
use tenure_tests::{KindPlan, NodePlan, Plan, scenario};
use tokio::time::timeout;

/// Nothing here takes this long unless it is broken.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the machine of a test is short of is none of its business.
const CALM: &str =
    "[pressure]\nrule = [{ id = \"disk_low\", enabled = false }, { id = \"load_high\", enabled = false }]";

fn plan() -> Plan {
    Plan::new()
        .kind(KindPlan::new("shell.task").need("shell", 1))
        .node(NodePlan::new("n1").slot("shell", 2).tables(CALM))
}

/// What an example printed.
async fn printed(
    run: impl AsyncFnOnce(&mut Vec<u8>) -> Result<(), Box<dyn std::error::Error>>,
) -> anyhow::Result<String> {
    let mut out = Vec::new();
    let ended = timeout(PATIENCE, run(&mut out)).await.context("an example ends in time")?;
    ended.map_err(|error| anyhow!("{error}"))?;
    Ok(String::from_utf8(out)?)
}

#[tokio::test]
async fn the_examples_of_the_client_do_what_their_heads_say() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let client = fleet.client().clone();
        let said = printed(async |out| enqueue::run(&client, "shell.task", "result done", out).await).await?;
        ensure!(said.ends_with("JOB_STATE_SUCCEEDED after attempt 1\ndone\n"), "{said}");

        let kinds = ["shell.task".to_owned(), "shell.tsak".to_owned()];
        let said = printed(async |out| batch::run(&client, 10, &kinds, out).await).await?;
        ensure!(said.ends_with("5 of 10 are stored\n") && said.contains("KIND_NOT_FOUND"), "{said}");

        let job = NewJob::new("shell.task").payload("result late").delay(Duration::from_secs(1));
        client.enqueue(&job).await?;
        let said = printed(async |out| watch::run(&client, job.id(), out).await).await?;
        ensure!(said.lines().count() >= 3 && said.contains("JOB_STATE_SCHEDULED"), "{said}");
        ensure!(said.lines().last().is_some_and(|last| last.contains("JOB_STATE_SUCCEEDED")), "{said}");
        let said = printed(async |out| result::run(&client, job.id(), out).await).await?;
        ensure!(said == "late", "{said}");

        Ok(())
    })
    .await
}
