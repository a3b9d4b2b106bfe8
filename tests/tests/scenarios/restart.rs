//! Servers that die: jobs run on, results arrive, nothing is lost, nothing runs twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tenure_client::{Client, Options, RetryPolicy};
use tenure_tests::clock::Moment;
use tenure_tests::random::Random;
use tenure_tests::wait::{PATIENCE, level, until};
use tenure_tests::{Fleet, KindPlan, NodePlan, Plan, Script, Step, scenario};
use tokio::task::JoinSet;

#[tokio::test]
async fn jobs_run_on_while_the_server_is_dead_and_their_results_arrive() -> anyhow::Result<()> {
    let plan = Plan::new()
        .kind(KindPlan::new("shell.task").need("shell", 1))
        .node(NodePlan::new("n1").slot("shell", 2));
    scenario(plan, async |fleet| {
        let mut jobs = Vec::new();
        for i in 0..6 {
            let script = Script::new().wait("go").then(Step::Result(format!("result {i}")));
            jobs.push(fleet.enqueue("shell.task", &script).await?);
        }
        for job in &jobs[..2] {
            fleet.started(job, 1, PATIENCE).await?;
        }
        let before = fleet.client().get(&jobs[0]).await?;
        fleet.kill_server().await?;
        // While nobody hears, the two that run end.
        fleet.open("go")?;
        until("both end without a server", PATIENCE, async || {
            let log = fleet.log().map_err(|error| error.to_string())?;
            level(log.runs.iter().filter(|run| run.end.is_some()).count() == 2, || format!("{log:?}"))
        })
        .await?;
        fleet.start_server().await?;
        fleet.all_succeed(&jobs, PATIENCE).await?;
        let after = fleet.client().get(&jobs[0]).await?;
        ensure!(after.token == before.token && after.attempt == 1, "{after:?}");
        for (job, i) in jobs.iter().zip(0..) {
            let result = fleet.client().result(job).await?;
            ensure!(result.data == format!("result {i}").into_bytes(), "{result:?}");
            ensure!(fleet.log()?.of(job).count() == 1, "{job} ran once");
        }
        let info = fleet.client().server_info().await?;
        ensure!(info.epoch == 2, "{info:?}");
        Ok(())
    })
    .await
}

/// Jobs of one [`load`], at most: each is looked at in the end, and what looks is not quick. A scenario of fifty kills under
/// some minutes of it stays below.
const MOST: usize = 20_000;
/// A load ends by itself after this: the longest scenario under load takes half as long.
const LONGEST: Duration = Duration::from_secs(20 * 60);
/// Between two jobs of a load: it is to be there at every moment, and not to be as much as possible.
const PAUSE: Duration = Duration::from_millis(40);

/// Enqueues small jobs until it is told to stop, but no longer and no more than a scenario can use; returns the ids that
/// were acknowledged.
///
/// # Errors
/// If it is refused, or reaches a bound before it is told to stop: what went on then had no load.
pub(crate) async fn load(endpoint: String, stop: Arc<AtomicBool>) -> anyhow::Result<Vec<String>> {
    let retry = RetryPolicy { give_up_after: Duration::from_secs(60), ..RetryPolicy::default() };
    let client = Client::connect_with(&endpoint, Options { retry, ..Options::default() })?;
    let begun = Moment::now();
    let mut jobs = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let lasted = begun.elapsed();
        ensure!(jobs.len() < MOST && lasted < LONGEST, "nobody stopped it: {} jobs, {lasted:?}", jobs.len());
        let length = Duration::from_millis(20 + 10 * (jobs.len() as u64 % 8));
        match client.enqueue(&Fleet::job("shell.task", &Script::new().sleep(length))).await {
            Ok(enqueued) => {
                ensure!(!enqueued.deduplicated, "a new job is no duplicate");
                jobs.push(enqueued.job.id);
                tokio::time::sleep(PAUSE).await;
            }
            // Full: the load waits for as long as it was told to, at most.
            Err(error) if error.refusal().is_some_and(|refusal| refusal.reason == "QUEUE_FULL") => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(jobs)
}

#[tokio::test]
async fn a_server_killed_again_and_again_under_load_loses_nothing_and_doubles_nothing() -> anyhow::Result<()>
{
    let kills = if std::env::var_os("TENURE_TORTURE").is_some() { 50 } else { 5 };
    let mut random = Random::from_environment();
    eprintln!("{random}, {kills} kills");
    let plan = Plan::new()
        .kind(KindPlan::new("shell.task").need("shell", 1).line("queue_cap = 40"))
        .node(NodePlan::new("n1").slot("shell", 4))
        .node(NodePlan::new("n2").slot("shell", 2));
    scenario(plan, async |fleet| {
        let stop = Arc::new(AtomicBool::new(false));
        let mut producers = JoinSet::new();
        for _ in 0..3 {
            producers.spawn(load(fleet.endpoint(), stop.clone()));
        }
        for _ in 0..kills {
            // The moment of the kill is the point of this test.
            tokio::time::sleep(random.between(Duration::from_millis(100), Duration::from_millis(1_800)))
                .await;
            fleet.kill_server().await?;
            tokio::time::sleep(random.between(Duration::ZERO, Duration::from_millis(400))).await;
            fleet.start_server().await?;
            // On Postgres one that starts follows the dead one for a while: each kill is to meet a leader.
            until("the server leads", PATIENCE, async || {
                let info = fleet.client().server_info().await.map_err(|error| error.to_string())?;
                level(info.leader, || format!("{info:?}"))
            })
            .await?;
            fleet.check().await?;
        }
        stop.store(true, Ordering::Relaxed);
        let mut jobs = Vec::new();
        while let Some(acknowledged) = producers.join_next().await {
            jobs.extend(acknowledged.context("a producer")??);
        }
        ensure!(jobs.len() > kills, "there was hardly any load: {} jobs", jobs.len());
        fleet.all_succeed(&jobs, PATIENCE * 2).await?;
        let log = fleet.log()?;
        for job in &jobs {
            ensure!(log.of(job).count() == 1, "{job} ran {} times", log.of(job).count());
        }
        let info = fleet.client().server_info().await?;
        ensure!(info.epoch == u64::try_from(kills)? + 1 && info.reloads == 0, "{info:?}");
        eprintln!("{} jobs, epoch {}", jobs.len(), info.epoch);
        Ok(())
    })
    .await
}
