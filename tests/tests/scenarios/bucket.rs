//! Results in a bucket, through a real server: there, back, and away when their time is over.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tenure_tests::bucket::Bucket;
use tenure_tests::wait::{PATIENCE, level, until};
use tenure_tests::{KindPlan, NodePlan, Plan, Script, Step, pile, scenario};

const LONG: Duration = Duration::from_secs(120);
/// More than two parts of an upload.
const SIZE: usize = 20_000_000;

fn plan(server_file: &str) -> Plan {
    let kind = |name| KindPlan::new(name).need("shell", 1).line("retry = { intervals = [\"1s\"] }");
    Plan::new()
        .server_file(&format!("{server_file}sweep = \"1s\"\n"))
        .kind(kind("large"))
        .kind(kind("brief").line("result_ttl = \"1s\""))
        .node(NodePlan::new("n1").slot("shell", 2))
}

/// What stands in the bucket, without the prefix.
async fn names(bucket: &Bucket) -> Result<Vec<String>, String> {
    let names = bucket.names().await.map_err(|error| error.to_string())?;
    names
        .into_iter()
        .map(|name| name.strip_prefix("fleet/").map(str::to_owned).ok_or_else(|| format!("beside: {name}")))
        .collect()
}

#[tokio::test]
async fn large_results_stand_in_a_bucket_come_back_whole_and_are_swept_when_their_time_is_over()
-> anyhow::Result<()> {
    let Some(bucket) = Bucket::start().await? else { return Ok(()) };
    let kept = tempfile::tempdir()?;
    scenario(plan(&bucket.server_file(kept.path())?), async |fleet| {
        let large = Script::new().then(Step::Pile(SIZE));
        let stays = fleet.enqueue("large", &large).await?;
        let goes = fleet.enqueue("brief", &large).await?;
        fleet.all_succeed(&[stays.clone(), goes.clone()], LONG).await?;
        let here = names(&bucket).await.map_err(anyhow::Error::msg)?;
        ensure!(here.iter().filter(|name| name.starts_with(&stays)).count() == 1, "{here:?}");

        // The sweep of results looks every 30 s.
        until("one is swept, the other is not", LONG, async || {
            let here = names(&bucket).await?;
            level(here.len() == 1 && here.iter().all(|name| name.starts_with(&stays)), || format!("{here:?}"))
        })
        .await?;
        let gone = fleet.client().read_result(&goes).await.err().context("it is still there")?;
        let reason = gone.refusal().map(|refusal| refusal.reason.clone());
        ensure!(reason.as_deref() == Some("RESULT_NOT_FOUND"), "{gone:?}");

        // After a crash of the server as before, by the command line as by the client.
        fleet.kill_server().await?;
        fleet.start_server().await?;
        fleet.node_live("n1").await?;
        let file = fleet.directory().join("out.bin");
        let ran = fleet.cli(&["job", "result", &stays, "--out", &file.to_string_lossy()]).await?;
        ensure!(ran.code == 0 && fs::read(&file)? == pile(SIZE), "{ran:?}");
        ensure!(fleet.client().read_result(&stays).await?.collect().await? == pile(SIZE), "other bytes");

        // Who deletes the job deletes its object.
        fleet.client().delete(&stays, false).await?;
        until("the bucket is empty", PATIENCE, async || {
            let here = names(&bucket).await?;
            level(here.is_empty(), || format!("{here:?}"))
        })
        .await
    })
    .await
}

#[tokio::test]
async fn an_object_that_is_gone_from_its_bucket_is_told_and_its_job_asked_for_in_vain() -> anyhow::Result<()>
{
    let Some(bucket) = Bucket::start().await? else { return Ok(()) };
    let kept = tempfile::tempdir()?;
    scenario(plan(&bucket.server_file(kept.path())?), async |fleet| {
        let job = fleet.enqueue("large", &Script::new().then(Step::Pile(SIZE))).await?;
        fleet.all_succeed(std::slice::from_ref(&job), LONG).await?;
        let name = bucket.names().await?.pop().context("it has no object")?;
        bucket.remove(&name).await?;
        until("the loss is told", PATIENCE, async || {
            let missing = fleet.metric("tenure_result_objects_missing", "").await;
            let missing = missing.map_err(|error| error.to_string())?;
            level(missing >= 1.0, || format!("{missing}"))
        })
        .await?;
        let lost = fleet.client().read_result(&job).await.err().context("it is read all the same")?;
        let reason = lost.refusal().map(|refusal| refusal.reason.clone());
        ensure!(reason.as_deref() == Some("RESULT_LOST"), "{lost:?}");
        fleet.client().delete(&job, false).await?;
        Ok(())
    })
    .await
}
