//! What only a database elsewhere can do: crash, hang, refuse, be led by somebody else, be of another version.

mod disk;

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use tenure_client::{Client, Error, NewJob, Refusal, RetryPolicy};
use tenure_tests::clock::Moment;
use tenure_tests::random::Random;
use tenure_tests::wait::{PATIENCE, level, until};
use tenure_tests::{Fleet, KindPlan, NodePlan, Plan, Script, scenario};
use tokio::task::JoinSet;

use crate::restart::load;

/// Once the leader knows that the store is away, a call is answered within this.
const KNOWN: Duration = Duration::from_millis(1_200);
/// A call whose commit is not settled is answered after this.
const UNSETTLED: Duration = Duration::from_secs(3);
/// What a machine may add that others use, too.
const SLACK: Duration = Duration::from_millis(1_300);

fn plan() -> Plan {
    Plan::new()
        .postgres()
        .kind(KindPlan::new("shell.task").need("shell", 1).lease("60s").line("queue_cap = 40"))
        .node(NodePlan::new("n1").slot("shell", 4))
}

/// One try of an enqueue: it must be refused as it is while the store is away. How long that took.
async fn refused(client: &Client) -> anyhow::Result<Duration> {
    refused_job(client, &Fleet::job("shell.task", &Script::new())).await
}

/// The same of a job of one's own.
async fn refused_job(client: &Client, job: &NewJob) -> anyhow::Result<Duration> {
    let begun = Moment::now();
    let answer = client.enqueue(job).await;
    let took = begun.elapsed();
    let no: &Refusal = match &answer {
        Err(Error::Unavailable { last, .. }) => last,
        other => bail!("after {took:?}: {other:?}"),
    };
    ensure!(no.reason == "STORE_UNAVAILABLE", "{no:?}");
    ensure!(
        no.retry_after.is_some_and(|after| !after.is_zero()),
        "it does not say when to come back: {no:?}"
    );
    Ok(took)
}

/// Waits until the server itself says that it cannot serve.
async fn away(fleet: &Fleet) -> anyhow::Result<()> {
    until("the server knows", PATIENCE, async || {
        let answer = fleet.http("/readyz").await.map_err(|error| error.to_string())?;
        level(answer.contains(" 503 "), || answer.clone())
    })
    .await
}

/// Waits until an enqueue goes well, by itself.
async fn back(client: &Client) -> anyhow::Result<String> {
    until("the store is back", PATIENCE, async || {
        let answer = client.enqueue(&Fleet::job("shell.task", &Script::new())).await;
        answer.map(|enqueued| enqueued.job.id).map_err(|error| error.to_string())
    })
    .await
}

#[tokio::test]
async fn while_postgres_is_away_calls_are_answered_in_time_and_running_jobs_run_on() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let once =
            fleet.client_with(RetryPolicy { give_up_after: Duration::ZERO, ..RetryPolicy::default() })?;
        let job = fleet.enqueue("shell.task", &Script::new().wait("go")).await?;
        let run = fleet.started(&job, 1, PATIENCE).await?;

        // Gone: connections break, new ones are refused.
        fleet.postgres()?.stop()?;
        let first = refused(&once).await?;
        ensure!(first < UNSETTLED + SLACK, "the first call took {first:?}");
        away(fleet).await?;
        for _ in 0..5 {
            let took = refused(&once).await?;
            ensure!(took < KNOWN + SLACK, "it is known to be away, and a call took {took:?}");
        }
        let begun = Moment::now();
        let read = once.get(&job).await;
        ensure!(read.is_err() && begun.elapsed() < Duration::from_secs(6), "{:?}: {read:?}", begun.elapsed());
        fleet.postgres()?.start_again()?;
        let mut jobs = vec![job.clone(), back(&once).await?];

        // Hung: connections stay, and nobody answers.
        fleet.postgres()?.freeze()?;
        let first = refused(&once).await?;
        ensure!(first < UNSETTLED + SLACK, "the first call took {first:?}");
        let second = refused(&once).await?;
        ensure!(second < UNSETTLED + SLACK, "the second call took {second:?}");
        away(fleet).await?;
        for _ in 0..3 {
            let took = refused(&once).await?;
            ensure!(took < KNOWN + SLACK, "it is known to be away, and a call took {took:?}");
        }
        fleet.postgres()?.thaw()?;
        jobs.push(back(&once).await?);

        fleet.open("go")?;
        fleet.all_succeed(&jobs, PATIENCE).await?;
        let found = fleet.client().get(&job).await?;
        ensure!(found.token == run.start.token && found.losses + found.returns == 0, "{found:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_postgres_that_crashes_under_load_loses_nothing_and_doubles_nothing() -> anyhow::Result<()> {
    let long = std::env::var_os("TENURE_TORTURE").is_some();
    // The stated form: every 20 s, for five minutes.
    let (crashes, between) =
        if long { (15, Duration::from_secs(20)) } else { (3, Duration::from_millis(1_500)) };
    let mut random = Random::from_environment();
    println!("{random}, {crashes} crashes");
    scenario(plan(), async |fleet| {
        let stop = Arc::new(AtomicBool::new(false));
        let mut producers = JoinSet::new();
        for _ in 0..3 {
            producers.spawn(load(fleet.endpoint(), stop.clone()));
        }
        for _ in 0..crashes {
            // The moment of the crash is the point of this test.
            tokio::time::sleep(random.between(between / 5, between)).await;
            fleet.postgres()?.crash()?;
            tokio::time::sleep(random.between(Duration::ZERO, Duration::from_millis(1_500))).await;
            fleet.postgres()?.start_again()?;
            let client = fleet.client().clone();
            until("the server leads again", PATIENCE, async || {
                let info = client.server_info().await.map_err(|error| error.to_string())?;
                level(info.leader && info.store == "postgres", || format!("{info:?}"))
            })
            .await?;
        }
        stop.store(true, Ordering::Relaxed);
        let mut jobs = Vec::new();
        while let Some(acknowledged) = producers.join_next().await {
            jobs.extend(acknowledged.context("a producer")??);
        }
        ensure!(jobs.len() > crashes, "there was hardly any load: {} jobs", jobs.len());
        fleet.all_succeed(&jobs, PATIENCE * 2).await?;
        let log = fleet.log()?;
        for job in &jobs {
            ensure!(log.of(job).count() == 1, "{job} ran {} times", log.of(job).count());
        }
        Ok(())
    })
    .await
}

/// A password in the address of the database, which must be shown nowhere.
const PASSWORD: &str = "hunter2-of-the-database";

#[tokio::test]
async fn the_address_of_the_database_is_shown_nowhere() -> anyhow::Result<()> {
    let wrong = |text: &str| format!("[server]\ndatabase_url = \"{text}\"\n");
    scenario(plan(), async |fleet| {
        // With a role of its own, whose password the server's file holds.
        let role = format!("create role tenure login superuser password '{PASSWORD}'");
        fleet.postgres()?.run_sql("postgres", &role)?;
        fleet.stop_server().await?;
        let directory = fleet.directory().to_owned();
        let path = |name: &str| directory.join(name).display().to_string();
        let (file, url) = (path("server.toml"), fs::read_to_string(path("database-url"))?);
        let url = url.replace("postgres@", &format!("tenure:{PASSWORD}@"));
        ensure!(url.contains(PASSWORD), "the harness names its user otherwise");
        fs::write(path("database-url"), &url)?;
        fleet.start_server().await?;
        fleet.postgres()?.crash()?;
        away(fleet).await?;
        fleet.postgres()?.start_again()?;
        let job = fleet.enqueue("shell.task", &Script::new()).await?;
        fleet.all_succeed(&[job], PATIENCE).await?;
        let mut told = vec![fleet.server()?.log()];
        for args in [&["migrate", "status", "--config", &file][..], &["server", "info"], &["doctor"]] {
            let ran = fleet.cli(args).await?;
            ensure!(ran.code == 0, "{ran:?}");
            ensure!(args != ["doctor"] || ran.stdout.contains("store: fsync is off"), "{ran:?}");
            told.extend([ran.stdout, ran.stderr]);
        }
        // Where it is wrong.
        for text in [
            format!("postgres://tenure:{PASSWORD}@127.0.0.1:1/tenure"),
            format!("postgres://tenure:{PASSWORD}@host.invalid/tenure"),
            format!("postgres://tenure:{PASSWORD}@127.0.0.1:port/tenure"),
            format!("mysql://tenure:{PASSWORD}@127.0.0.1/tenure"),
            url.replace("/test_0?", "/nowhere?"),
        ] {
            fs::write(path("wrong.toml"), wrong(&text))?;
            for args in [
                &["server", "--config", &path("wrong.toml")][..],
                &["migrate", "run", "--config", &path("wrong.toml")],
            ] {
                let ran = fleet.cli(args).await?;
                ensure!(ran.code != 0 && !ran.stderr.is_empty(), "{ran:?}");
                told.extend([ran.stdout, ran.stderr]);
            }
        }
        for text in &told {
            ensure!(!text.contains(PASSWORD), "{text}");
        }
        ensure!(told.iter().any(|text| text.contains("cannot reach the database")), "{told:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_schema_of_a_later_version_is_a_sentence_for_every_verb() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        fleet.stop_server().await?;
        let file = fleet.directory().join("server.toml").display().to_string();
        let verbs: [&[&str]; 4] = [
            &["migrate", "run", "--config", &file],
            &["migrate", "run", "--dry-run", "--config", &file],
            &["server", "--config", &file, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"],
            &["server", "--migrate", "--config", &file, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"],
        ];
        let told = fleet.cli(verbs[0]).await?;
        ensure!(told.code == 0 && told.stderr.contains("up to date"), "{told:?}");
        let later = "insert into _sqlx_migrations values (9999, 'later', now(), true, '\\x00', 0)";
        fleet.postgres()?.run_sql("test_0", later)?;
        for verb in verbs {
            let told = fleet.cli(verb).await?;
            ensure!(told.code == 1 && told.stderr.contains("start the later version"), "{verb:?}: {told:?}");
        }
        let told = fleet.cli(&["migrate", "status", "--config", &file]).await?;
        ensure!(told.code == 0 && told.stdout.contains("9999  of a later version"), "{told:?}");
        fleet.postgres()?.run_sql("test_0", "delete from _sqlx_migrations where version = 9999")?;
        // And an earlier one: of no version yet.
        let url = fleet.postgres()?.database()?;
        fs::write(fleet.directory().join("database-url"), url)?;
        let told = fleet.cli(verbs[2]).await?;
        ensure!(told.code == 1 && told.stderr.contains("tenure migrate run"), "{told:?}");
        let told = fleet.cli(verbs[1]).await?;
        ensure!(
            told.code == 0 && told.stdout.contains("0001") && told.stdout.contains("missing"),
            "{told:?}"
        );
        let told = fleet.cli(verbs[0]).await?;
        ensure!(told.code == 0 && told.stdout.contains("applied"), "{told:?}");
        fleet.start_server().await
    })
    .await
}
