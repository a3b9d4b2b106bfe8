//! The network between a server and its Postgres: commits that arrive late or not at all, answers that are lost,
//! connections that are half-open, a database without room for one more.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use tenure_client::{Error, NewJob, RetryPolicy};
use tenure_tests::clock::Moment;
use tenure_tests::proxy::{Catch, Caught};
use tenure_tests::wait::{PATIENCE, level, until};
use tenure_tests::{Fleet, KindPlan, NodePlan, Plan, Script, Step, scenario};

/// A call whose commit is not settled is answered after this.
const UNSETTLED: Duration = Duration::from_secs(3);
/// What a machine may add that others use, too.
const SLACK: Duration = Duration::from_millis(1_300);
/// What stands in the payload of the job whose commit is caught.
const MARK: &[u8] = b"the-one-that-is-caught";
/// How a leader ends its transactions.
const COMMIT: &[u8] = b"commit";

fn plan() -> Plan {
    Plan::new()
        .postgres()
        .kind(KindPlan::new("shell.task").need("shell", 1).lease("60s"))
        .node(NodePlan::new("n1").slot("shell", 4))
}

fn marked() -> NewJob {
    let mark = String::from_utf8_lossy(MARK).into_owned();
    Fleet::job("shell.task", &Script::new().then(Step::Result(mark)))
}

/// One try of an enqueue, whose commit gets caught: how long it took to say that nobody knows.
async fn unsettled(fleet: &Fleet, job: &NewJob) -> anyhow::Result<Duration> {
    let once = fleet.client_with(RetryPolicy { give_up_after: Duration::ZERO, ..RetryPolicy::default() })?;
    let begun = Moment::now();
    match once.enqueue(job).await {
        Err(Error::Unavailable { last, .. }) => {
            ensure!(last.reason == "STORE_UNAVAILABLE" && last.retry_after.is_some(), "{last:?}");
            let took = begun.elapsed();
            ensure!(took < UNSETTLED + SLACK, "it took {took:?}");
            Ok(took)
        }
        other => bail!("after {:?}: {other:?}", begun.elapsed()),
    }
}

/// Waits until the server leads under another epoch than `before`.
async fn leads_anew(fleet: &Fleet, before: u64) -> anyhow::Result<u64> {
    until("the server has taken over again", PATIENCE, async || {
        let info = fleet.client().server_info().await.map_err(|error| error.to_string())?;
        level(info.leader && info.epoch > before, || format!("{info:?}"))?;
        Ok(info.epoch)
    })
    .await
}

/// The same call again is the same job, which runs once.
async fn once_more(fleet: &Fleet, job: &NewJob) -> anyhow::Result<()> {
    let again = fleet.client().enqueue(job).await?;
    ensure!(again.job.id == job.id(), "{again:?}");
    fleet.all_succeed(&[job.id().to_owned()], PATIENCE).await?;
    let found = fleet.client().get(job.id()).await?;
    ensure!(found.attempt == 1 && found.failures + found.losses == 0, "{found:?}");
    let runs = fleet.log()?.of(job.id()).count();
    ensure!(runs == 1, "it ran {runs} times");
    Ok(())
}

/// Enqueues the marked job, and holds its commit, or the answer, as it comes by.
async fn caught(fleet: &Fleet, job: &NewJob, how: Catch) -> anyhow::Result<Caught> {
    let mut caught = fleet.database()?.catch(MARK, COMMIT, how);
    let (answer, held) = tokio::join!(unsettled(fleet, job), tokio::time::timeout(PATIENCE, caught.caught()));
    held.context("no commit came by")??;
    answer?;
    Ok(caught)
}

#[tokio::test]
async fn a_commit_that_is_held_for_5_s_is_not_applied_and_the_retry_is() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        fleet.proxy_the_database("postgres").await?;
        let epoch = fleet.client().server_info().await?.epoch;
        let job = marked();
        let held = Moment::now();
        let caught = caught(fleet, &job, Catch::Word).await?;
        leads_anew(fleet, epoch).await?;
        // The database ended the transaction by itself: what arrives now, arrives nowhere.
        tokio::time::sleep(Duration::from_secs(5).saturating_sub(held.elapsed())).await;
        caught.release();
        match fleet.client().get(job.id()).await {
            Err(Error::Refused(no)) if no.reason == "JOB_NOT_FOUND" => {}
            other => bail!("{other:?}"),
        }
        once_more(fleet, &job).await
    })
    .await
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_applied_and_the_retry_is_the_same_job() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        fleet.proxy_the_database("postgres").await?;
        let epoch = fleet.client().server_info().await?.epoch;
        let job = marked();
        let held = Moment::now();
        let caught = caught(fleet, &job, Catch::Answer).await?;
        leads_anew(fleet, epoch).await?;
        tokio::time::sleep(Duration::from_secs(12).saturating_sub(held.elapsed())).await;
        caught.cut();
        let found = fleet.client().get(job.id()).await?;
        ensure!(found.id == job.id(), "it was applied: {found:?}");
        once_more(fleet, &job).await
    })
    .await
}

#[tokio::test]
async fn a_commit_that_comes_through_while_the_leader_reloads_doubles_nothing() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        fleet.proxy_the_database("postgres").await?;
        fleet.database()?.rewrite(
            b"idle_in_transaction_session_timeout = '1500ms'",
            b"idle_in_transaction_session_timeout = '0000ms'",
        );
        // The commit connection of the present leader has the setting already.
        let before = fleet.client().server_info().await?.epoch;
        fleet.database()?.cut();
        // Whether this call meets the cut connection or the next one makes no difference.
        drop(unsettled(fleet, &Fleet::job("shell.task", &Script::new())).await);
        let epoch = leads_anew(fleet, before).await?;
        let job = marked();
        let caught = caught(fleet, &job, Catch::Word).await?;
        // The old transaction holds its lock for as long as its connection lives: the takeover waits for it.
        let waiting = "select 1 / (count(*) filter (where wait_event_type = 'Lock'))
            from pg_stat_activity where application_name like 'tenure-%'";
        until("the takeover waits for the old transaction", PATIENCE, async || {
            let waits = fleet.postgres().map_err(|error| error.to_string())?.run_sql("test_0", waiting);
            waits.map_err(|error| error.to_string())
        })
        .await?;
        caught.release();
        leads_anew(fleet, epoch).await?;
        once_more(fleet, &job).await
    })
    .await
}

#[tokio::test]
async fn half_open_connections_to_the_database_are_given_up_and_replaced() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        fleet.proxy_the_database("postgres").await?;
        let epoch = fleet.client().server_info().await?.epoch;
        let running = fleet.enqueue("shell.task", &Script::new().wait("go")).await?;
        fleet.started(&running, 1, PATIENCE).await?;
        fleet.database()?.half_open();
        let job = marked();
        unsettled(fleet, &job).await?;
        leads_anew(fleet, epoch).await?;
        once_more(fleet, &job).await?;
        // Reads go on, too, on connections of their own.
        let jobs = fleet.client().get(&running).await?;
        ensure!(jobs.losses + jobs.returns == 0, "{jobs:?}");
        fleet.open("go")?;
        fleet.all_succeed(&[running], PATIENCE).await
    })
    .await
}

#[tokio::test]
async fn a_database_without_a_free_connection_is_away_until_it_has_one() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        // A superuser has connections of its own.
        let role = "create role tenure login; grant all on schema public to tenure;
            grant all on all tables in schema public to tenure; grant all on all sequences in schema public to tenure";
        fleet.postgres()?.run_sql("test_0", role)?;
        fleet.proxy_the_database("tenure").await?;
        let epoch = fleet.client().server_info().await?.epoch;
        let running = fleet.enqueue("shell.task", &Script::new().wait("go")).await?;
        fleet.started(&running, 1, PATIENCE).await?;
        fleet.postgres()?.run_sql("postgres", "alter role tenure connection limit 0")?;
        fleet.database()?.cut();
        let job = marked();
        unsettled(fleet, &job).await?;
        fleet.postgres()?.run_sql("postgres", "alter role tenure connection limit -1")?;
        leads_anew(fleet, epoch).await?;
        once_more(fleet, &job).await?;
        fleet.open("go")?;
        fleet.all_succeed(&[running], PATIENCE).await
    })
    .await
}
