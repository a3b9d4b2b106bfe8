//! The same business work asked for again and again is one job.

use std::collections::BTreeSet;

use anyhow::ensure;
use tenure_client::proto::JobState;
use tenure_client::{Client, Enqueued};
use tenure_tests::wait::PATIENCE;
use tenure_tests::{Fleet, KindPlan, NodePlan, Plan, Script, scenario};
use tokio::task::JoinSet;

const CALLERS: usize = 32;
const CALLS: usize = 200;

fn plan() -> Plan {
    Plan::new()
        .kind(KindPlan::new("digest"))
        .kind(KindPlan::new("hourly").line("dedupe = \"live\""))
        .node(NodePlan::new("n1"))
}

/// The same key from many callers at once, each call a job of its own.
async fn storm(
    fleet: &Fleet,
    kind: &'static str,
    key: &'static str,
    script: &Script,
) -> anyhow::Result<Vec<Enqueued>> {
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let client = Client::connect(&fleet.endpoint())?;
        let script = script.clone();
        callers.spawn(async move {
            let mut answers = Vec::new();
            for _ in (caller..CALLS).step_by(CALLERS) {
                answers.push(client.enqueue(&Fleet::job(kind, &script).dedupe_key(key)).await?);
            }
            Ok::<_, tenure_client::Error>(answers)
        });
    }
    let mut all = Vec::new();
    while let Some(answers) = callers.join_next().await {
        all.extend(answers??);
    }
    Ok(all)
}

/// The one job that answered every call, and how often it was said to be there already.
fn one(answers: &[Enqueued]) -> anyhow::Result<(String, usize)> {
    let ids: BTreeSet<&str> = answers.iter().map(|answer| answer.job.id.as_str()).collect();
    ensure!(answers.len() == CALLS && ids.len() == 1, "{} answers name {ids:?}", answers.len());
    let duplicates = answers.iter().filter(|answer| answer.deduplicated).count();
    Ok((ids.into_iter().collect(), duplicates))
}

#[tokio::test]
async fn the_same_key_from_many_callers_is_one_job_live_final_and_after_a_restart() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let gate = Script::new().wait("go");
        let (job, duplicates) = one(&storm(fleet, "digest", "digest:1", &gate).await?)?;
        ensure!(duplicates == CALLS - 1, "{duplicates} duplicates");

        fleet.open("go")?;
        fleet.state(&job, JobState::Succeeded, PATIENCE).await?;
        let answers = storm(fleet, "digest", "digest:1", &gate).await?;
        ensure!(one(&answers)? == (job.clone(), CALLS), "final: {:?}", one(&answers)?);
        ensure!(
            answers.iter().all(|answer| answer.job.state() == JobState::Succeeded),
            "the first job's state"
        );

        fleet.kill_server().await?;
        fleet.start_server().await?;
        let answers = storm(fleet, "digest", "digest:1", &gate).await?;
        ensure!(one(&answers)? == (job.clone(), CALLS), "after a restart: {:?}", one(&answers)?);
        fleet.node_live("n1").await?;
        ensure!(fleet.log()?.of(&job).count() == 1, "it ran once");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_live_key_is_free_again_once_its_job_is_final() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let gate = Script::new().wait("go");
        let (first, duplicates) = one(&storm(fleet, "hourly", "hourly:1", &gate).await?)?;
        ensure!(duplicates == CALLS - 1, "{duplicates} duplicates");
        fleet.open("go")?;
        fleet.state(&first, JobState::Succeeded, PATIENCE).await?;

        let (second, duplicates) =
            one(&storm(fleet, "hourly", "hourly:1", &Script::new().wait("again")).await?)?;
        ensure!(second != first && duplicates == CALLS - 1, "{second} {duplicates}");
        fleet.open("again")?;
        fleet.all_succeed(&[second], PATIENCE).await
    })
    .await
}

#[tokio::test]
async fn ten_thousand_duplicates_of_final_jobs_do_not_end_the_leaders_term() -> anyhow::Result<()> {
    const JOBS: usize = 50;
    const DUPLICATES: usize = 10_000;
    scenario(plan(), async |fleet| {
        let first: Vec<_> = (0..JOBS)
            .map(|i| Fleet::job("digest", &Script::new()).dedupe_key(format!("digest:{i}")))
            .collect();
        let mut ids = Vec::new();
        for answer in fleet.client().enqueue_batch(&first).await {
            ids.push(answer?.job.id);
        }
        fleet.all_succeed(&ids, PATIENCE).await?;
        let before = fleet.client().server_info().await?;

        // By turns the same key under a new id, and the same call word for word.
        let duplicates: Vec<_> = (0..DUPLICATES)
            .filter_map(|i| {
                let job = first.get(i % JOBS)?;
                let again = Fleet::job("digest", &Script::new()).dedupe_key(format!("digest:{}", i % JOBS));
                Some(if i % 2 == 0 { again } else { job.clone() })
            })
            .collect();
        for (answer, i) in fleet.client().enqueue_batch(&duplicates).await.into_iter().zip(0..) {
            let answer = answer?;
            ensure!(answer.deduplicated, "duplicate {i} was stored");
            ensure!(answer.job.state() == JobState::Succeeded, "duplicate {i}: {:?}", answer.job);
        }

        let after = fleet.client().server_info().await?;
        ensure!((after.epoch, after.reloads) == (before.epoch, 0), "{before:?} {after:?}");
        ensure!(after.live_jobs == 0, "{after:?}");
        ensure!(fleet.log()?.runs.len() == JOBS, "each ran once");
        Ok(())
    })
    .await
}
