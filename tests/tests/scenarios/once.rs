//! Work that is done once for a key: one run, and its answer for everybody who asks.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use tenure_client::proto::JobState;
use tenure_client::{Client, NewJob, Once, OnceError, new_job_id};
use tenure_tests::wait::PATIENCE;
use tenure_tests::{Fleet, KindPlan, NodePlan, Plan, Script, Step, scenario};
use tokio::task::JoinSet;

const CALLERS: usize = 8;

fn plan() -> Plan {
    // It shows what it was given, which is its result.
    Plan::new()
        .kind(KindPlan::new("charge"))
        .kind(KindPlan::new("brief").line("result_ttl = \"1ms\""))
        .node(NodePlan::new("n1"))
}

fn asks(key: &str, script: &Script) -> NewJob {
    Fleet::job("charge", script).dedupe_key(key)
}

/// The answer of each of these callers at once, each a client of its own.
async fn storm(fleet: &Fleet, job: &NewJob) -> anyhow::Result<JoinSet<Result<Once, OnceError>>> {
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (client, job) = (fleet.client().clone(), job.clone().with_id(tenure_client::new_job_id()));
        callers.spawn(async move { client.once(&job, Some(PATIENCE * 2)).await });
    }
    Ok(callers)
}

#[tokio::test]
async fn callers_at_once_killed_and_later_get_the_answer_of_one_run() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let script = Script::new().wait("go").then(Step::Result("charged".to_owned()));
        let job = asks("order:1", &script);
        // One is gone before it has heard anything.
        let lost = fleet.client().once(&job, Some(PATIENCE));
        ensure!(
            tokio::time::timeout(Duration::from_millis(300), lost).await.is_err(),
            "it waits at the gate"
        );
        let mut callers = storm(fleet, &job).await?;
        fleet.started(job.id(), 1, PATIENCE).await?;
        fleet.kill_server().await?;
        fleet.start_server().await?;
        fleet.node_live("n1").await?;
        fleet.open("go")?;
        while let Some(answer) = callers.join_next().await {
            let once = answer??;
            ensure!(once.data == "charged" && once.replayed && once.job.id == job.id(), "{once:?}");
        }
        // Later, by whoever was told of the key.
        let again = asks("order:1", &script);
        let once = fleet.client().once(&again, Some(PATIENCE)).await?;
        ensure!(once.data == "charged" && once.replayed && once.job.id == job.id(), "{once:?}");
        ensure!(fleet.log()?.of(job.id()).count() == 1, "it ran once");
        ensure!(fleet.states().await?.values().sum::<usize>() == 1, "it is one job");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn another_payload_under_the_key_is_refused_and_so_is_no_key() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let client: &Client = fleet.client();
        let job = asks("order:2", &Script::new());
        let first = client.once(&job, Some(PATIENCE)).await?;
        ensure!(!first.replayed && first.data.is_empty(), "{first:?}");
        // Who asks again later is told that it left nothing, whatever becomes of the kind.
        let again = client.once(&asks("order:2", &Script::new()), Some(PATIENCE)).await?;
        ensure!(again.replayed && again.data.is_empty() && again.job.id == first.job.id, "{again:?}");
        match client.once(&asks("order:2", &Script::new().exit(1)), Some(PATIENCE)).await {
            Err(OnceError::OtherPayload { key, job_id }) => {
                ensure!(key == "order:2" && job_id == job.id(), "{key} {job_id}");
            }
            other => bail!("{other:?}"),
        }
        // Whoever enqueued without asking for an answer said nothing that could be compared.
        client.enqueue(&asks("order:3", &Script::new())).await?;
        let other = client.once(&asks("order:3", &Script::new()), Some(PATIENCE)).await;
        ensure!(matches!(other, Err(OnceError::OtherPayload { .. })), "{other:?}");
        let none = client.once(&NewJob::new("charge"), None).await;
        ensure!(matches!(none, Err(OnceError::NoKey)), "{none:?}");
        // An answer that is kept no more is not taken for an empty one.
        let charged = Script::new().then(Step::Result("charged".to_owned()));
        let brief = Fleet::job("brief", &charged).dedupe_key("b");
        let asked = client.once(&brief, Some(PATIENCE)).await;
        let forgotten = match asked {
            // It may be read within its millisecond.
            Ok(_) => client.once(&brief, Some(PATIENCE)).await,
            other => other,
        };
        ensure!(matches!(forgotten, Err(OnceError::Forgotten { .. })), "{forgotten:?}");
        // And an empty one is none that was forgotten, however late it is asked for.
        let nothing = Fleet::job("brief", &Script::new()).dedupe_key("c");
        for replayed in [false, true] {
            let once = client.once(&nothing.clone().with_id(new_job_id()), Some(PATIENCE)).await?;
            ensure!(once.data.is_empty() && once.replayed == replayed, "{once:?}");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_bad_end_is_told_to_all_until_somebody_has_it_tried_again() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let client = fleet.client();
        let script =
            Script::new().then(Step::Require("funds".to_owned())).then(Step::Result("charged".to_owned()));
        let plain = Fleet::job("charge", &script).dedupe_key("order:4");
        let job = plain.clone();
        let cancelled = async {
            let job = fleet.job_when(job.id(), "it is there", PATIENCE, |_| true).await?;
            fleet.job_when(&job.id, "it has failed", PATIENCE, |job| job.failures > 0).await?;
            fleet.client().cancel(&job.id, "no funds").await?;
            anyhow::Ok(())
        };
        let (answer, cancelled) = tokio::join!(client.once(&plain, Some(PATIENCE)), cancelled);
        cancelled?;
        for answer in [answer, client.once(&plain, Some(PATIENCE)).await] {
            match answer {
                Err(OnceError::Ended { job }) => {
                    ensure!(job.state() == JobState::Cancelled && job.reason.contains("no funds"), "{job:?}");
                }
                other => bail!("{other:?}"),
            }
        }
        fleet.open("funds")?;
        client.requeue(plain.id(), false).await?;
        let once = client.once(&plain, Some(PATIENCE)).await?;
        ensure!(once.data == "charged" && once.job.id == plain.id() && once.job.round == 2, "{once:?}");
        // And the wait may be shorter than the work.
        // Who comes after the end is told no empty answer.
        let slow = asks("order:5", &Script::new().wait("slow").then(Step::Result("late".to_owned())));
        let late = client.once(&slow, Some(Duration::from_millis(50))).await;
        ensure!(matches!(&late, Err(OnceError::NotDone { job }) if job.id == slow.id()), "{late:?}");
        fleet.open("slow")?;
        let late = client.once(&slow, Some(PATIENCE)).await.context("the same call waits again")?;
        ensure!(late.data == "late", "{late:?}");
        Ok(())
    })
    .await
}
