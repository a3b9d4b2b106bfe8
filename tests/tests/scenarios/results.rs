//! Results over the inline limit: they reach object storage before their job has succeeded, whatever is killed meanwhile, and
//! leave it with their job.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tenure_client::proto::JobState;
use tenure_tests::wait::{PATIENCE, level, until};
use tenure_tests::{Fleet, KindPlan, NodePlan, Plan, Script, Step, binary, pile, scenario};

const LONG: Duration = Duration::from_secs(120);
/// More than two parts of an upload.
const SIZE: usize = 20_000_000;

fn plan() -> anyhow::Result<Plan> {
    let kind = |name| KindPlan::new(name).need("shell", 1).line("retry = { intervals = [\"1s\"] }");
    Ok(Plan::new()
        .server_file("[results]\ndir = \"objects\"\nmax_bytes = 30000000\nsweep = \"1s\"\n")
        .variable("TEST_TENURE", &binary::tenure()?.to_string_lossy())
        .kind(kind("large"))
        .kind(kind("brief").line("result_ttl = \"1s\""))
        .kind(kind("parent").node_line("env_from = [\"TEST_TENURE\"]"))
        .node(NodePlan::new("n1").slot("shell", 2)))
}

fn large() -> Script {
    Script::new().then(Step::Pile(SIZE))
}

fn objects(fleet: &Fleet) -> PathBuf {
    fleet.directory().join("objects")
}

/// What stands in object storage, whole and in part.
fn names(fleet: &Fleet) -> anyhow::Result<Vec<String>> {
    let entries = fs::read_dir(objects(fleet))?.collect::<Result<Vec<_>, _>>()?;
    Ok(entries.into_iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
}

/// The result of a job is whole, and its object is the only whole one of it.
async fn is_whole(fleet: &Fleet, job: &str) -> anyhow::Result<()> {
    let stream = fleet.client().read_result(job).await?;
    ensure!(stream.head().size == SIZE as u64, "{:?}", stream.head());
    ensure!(stream.collect().await? == pile(SIZE), "the bytes are others");
    let whole: Vec<String> =
        names(fleet)?.into_iter().filter(|name| name.starts_with(job) && !name.contains('#')).collect();
    ensure!(whole.len() == 1, "{whole:?}");
    Ok(())
}

async fn is_empty(fleet: &Fleet) -> anyhow::Result<()> {
    until("object storage is empty", PATIENCE, async || {
        let left = names(fleet).map_err(|error| error.to_string())?;
        level(left.is_empty(), || format!("{left:?}"))
    })
    .await
}

/// A large result comes back whole by the client and by the command line, and goes with its job.
async fn there_and_back(plan: Plan) -> anyhow::Result<()> {
    scenario(plan, async |fleet| {
        let job = fleet.enqueue("large", &large()).await?;
        fleet.all_succeed(std::slice::from_ref(&job), LONG).await?;
        is_whole(fleet, &job).await?;
        let refused = fleet.client().result(&job).await.err().context("one message holds it")?;
        let reason = refused.refusal().map(|refusal| refusal.reason.clone());
        ensure!(reason.as_deref() == Some("RESULT_TOO_LARGE"), "{refused:?}");
        let file = fleet.directory().join("out.bin");
        let ran = fleet.cli(&["job", "result", &job, "--out", &file.to_string_lossy()]).await?;
        ensure!(ran.code == 0, "{ran:?}");
        ensure!(fs::read(&file)? == pile(SIZE), "the file has other bytes");
        ensure!(
            fleet.metric("tenure_result_uploads_total", "outcome=\"stored\"").await? >= 1.0,
            "it is not counted"
        );
        // A restart finds it where it was, and sweeps nothing that is wanted.
        fleet.stop_server().await?;
        fleet.start_server().await?;
        until("the server leads", PATIENCE, async || {
            let info = fleet.client().server_info().await.map_err(|error| error.to_string())?;
            level(info.leader, || format!("{info:?}"))
        })
        .await?;
        is_whole(fleet, &job).await?;
        fleet.client().delete(&job, false).await?;
        is_empty(fleet).await?;
        ensure!(fleet.metric("tenure_result_objects_missing", "").await? == 0.0, "something is missing");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_large_result_comes_back_whole_and_goes_with_its_job() -> anyhow::Result<()> {
    there_and_back(plan()?).await
}

#[tokio::test]
async fn a_large_result_comes_back_whole_and_goes_with_its_job_on_postgres() -> anyhow::Result<()> {
    there_and_back(plan()?.postgres()).await
}

#[tokio::test]
async fn a_result_over_the_largest_size_fails_its_job_in_words_and_leaves_nothing() -> anyhow::Result<()> {
    scenario(plan()?, async |fleet| {
        let job = fleet.enqueue("large", &Script::new().then(Step::Pile(30_000_001))).await?;
        let dead = fleet.state(&job, JobState::Dead, LONG).await?;
        ensure!(dead.failures == 1, "{dead:?}");
        let attempts = fleet.client().attempts(&job).await?;
        let error = attempts.first().map(|attempt| attempt.error.clone()).unwrap_or_default();
        ensure!(error.contains("30000000 bytes"), "{error}");
        is_empty(fleet).await
    })
    .await
}

#[tokio::test]
async fn a_large_result_is_swept_when_its_time_is_over() -> anyhow::Result<()> {
    scenario(plan()?, async |fleet| {
        let job = fleet.enqueue("brief", &large()).await?;
        fleet.all_succeed(std::slice::from_ref(&job), LONG).await?;
        // The sweep of results looks every 30 s.
        until("it is swept", LONG, async || {
            let left = names(fleet).map_err(|error| error.to_string())?;
            level(left.is_empty(), || format!("{left:?}"))
        })
        .await?;
        let gone = fleet.client().read_result(&job).await.err().context("it is still there")?;
        let reason = gone.refusal().map(|refusal| refusal.reason.clone());
        ensure!(reason.as_deref() == Some("RESULT_NOT_FOUND"), "{gone:?}");
        Ok(())
    })
    .await
}

/// Puts a file where object storage was: every upload fails from here on.
fn take_away(fleet: &Fleet) -> anyhow::Result<()> {
    fs::rename(objects(fleet), fleet.directory().join("away"))?;
    Ok(fs::write(objects(fleet), "no directory")?)
}

fn give_back(fleet: &Fleet) -> anyhow::Result<()> {
    fs::remove_file(objects(fleet))?;
    Ok(fs::rename(fleet.directory().join("away"), objects(fleet))?)
}

/// A job whose command has ended, and whose result cannot be stored yet.
async fn stuck(fleet: &Fleet) -> anyhow::Result<String> {
    take_away(fleet)?;
    let job = fleet.enqueue("large", &large()).await?;
    until("an upload fails", LONG, async || {
        let failed = fleet.metric("tenure_result_uploads_total", "outcome=\"failed\"").await;
        let failed = failed.map_err(|error| error.to_string())?;
        level(failed >= 1.0, || format!("{failed} failed"))
    })
    .await?;
    Ok(job)
}

/// It ran once, and has its result.
async fn ends_once(fleet: &Fleet, job: &str) -> anyhow::Result<()> {
    fleet.all_succeed(&[job.to_owned()], LONG).await?;
    let ended = fleet.client().get(job).await?;
    ensure!((ended.failures, ended.losses, ended.attempt) == (0, 0, 1), "{ended:?}");
    is_whole(fleet, job).await
}

#[tokio::test]
async fn a_result_waits_for_object_storage_that_is_away() -> anyhow::Result<()> {
    scenario(plan()?, async |fleet| {
        let job = stuck(fleet).await?;
        let waits = fleet.client().get(&job).await?;
        ensure!(waits.state() == JobState::Running, "{waits:?}");
        give_back(fleet)?;
        ends_once(fleet, &job).await
    })
    .await
}

#[tokio::test]
async fn an_agent_that_is_killed_before_its_upload_leaves_it_to_the_next_one() -> anyhow::Result<()> {
    scenario(plan()?, async |fleet| {
        let job = stuck(fleet).await?;
        fleet.kill_agent("n1").await?;
        give_back(fleet)?;
        fleet.start_agent("n1")?;
        ends_once(fleet, &job).await
    })
    .await
}

#[tokio::test]
async fn a_server_that_is_killed_before_an_upload_gets_it_after_its_restart() -> anyhow::Result<()> {
    scenario(plan()?, async |fleet| {
        let job = stuck(fleet).await?;
        fleet.kill_server().await?;
        give_back(fleet)?;
        fleet.start_server().await?;
        ends_once(fleet, &job).await
    })
    .await
}

/// Waits until a part of an upload is on the disk, or all of it.
async fn in_the_midst(fleet: &Fleet) -> anyhow::Result<()> {
    until("an upload has begun", LONG, async || {
        let found = names(fleet).map_err(|error| error.to_string())?;
        level(!found.is_empty(), || "nothing".to_owned())
    })
    .await
}

#[tokio::test]
async fn a_server_that_is_killed_in_the_midst_of_an_upload_gets_it_again() -> anyhow::Result<()> {
    scenario(plan()?, async |fleet| {
        let job = fleet.enqueue("large", &large()).await?;
        in_the_midst(fleet).await?;
        fleet.kill_server().await?;
        fleet.start_server().await?;
        ends_once(fleet, &job).await
    })
    .await
}

#[tokio::test]
async fn an_agent_that_is_killed_in_the_midst_of_an_upload_leaves_nothing_half() -> anyhow::Result<()> {
    scenario(plan()?, async |fleet| {
        let job = fleet.enqueue("large", &large()).await?;
        in_the_midst(fleet).await?;
        fleet.kill_agent("n1").await?;
        fleet.start_agent("n1")?;
        ends_once(fleet, &job).await?;
        // The server lived: what it had of the first try is gone.
        until("no part is left", PATIENCE, async || {
            let parts = names(fleet).map_err(|error| error.to_string())?;
            level(parts.iter().all(|name| !name.contains('#')), || format!("{parts:?}"))
        })
        .await
    })
    .await
}

#[tokio::test]
async fn an_object_that_nothing_names_is_swept_and_a_lost_one_is_told() -> anyhow::Result<()> {
    scenario(plan()?, async |fleet| {
        let job = fleet.enqueue("large", &large()).await?;
        fleet.all_succeed(std::slice::from_ref(&job), LONG).await?;
        let name = names(fleet)?.pop().context("it has no object")?;
        // As a crash between a commit and a removal would leave it.
        let other = name.replacen(&job, "0199a5b2-7c00-7000-8000-000000000000", 1);
        fs::write(objects(fleet).join(&other), "orphan")?;
        fs::write(objects(fleet).join("README"), "somebody else's")?;
        until("the orphan is swept", PATIENCE, async || {
            let left = names(fleet).map_err(|error| error.to_string())?;
            level(!left.contains(&other), || format!("{left:?}"))
        })
        .await?;
        ensure!(names(fleet)?.len() == 2, "{:?}", names(fleet)?);
        fs::remove_file(objects(fleet).join(&name))?;
        until("the loss is told", PATIENCE, async || {
            let missing = fleet.metric("tenure_result_objects_missing", "").await;
            let missing = missing.map_err(|error| error.to_string())?;
            level(missing >= 1.0, || format!("{missing}"))
        })
        .await?;
        let lost = fleet.client().read_result(&job).await.err().context("it is read all the same")?;
        let reason = lost.refusal().map(|refusal| refusal.reason.clone());
        ensure!(reason.as_deref() == Some("RESULT_LOST"), "{lost:?}");
        let told = fleet.client().check_invariants().await?.violations;
        ensure!(
            told.iter().any(|it| it.invariant == "result_objects_exist" && it.subject == job),
            "{told:?}"
        );
        fleet.client().delete(&job, false).await?;
        Ok(())
    })
    .await
}
