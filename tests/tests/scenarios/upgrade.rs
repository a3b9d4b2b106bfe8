//! A database of an earlier version, with the rows of a busy server in it: the newest binary brings it up to date, loads it,
//! and goes on with what it finds.
//!
//! `tests/data/{sqlite,postgres}/NNNN.sql` are whole databases after migration NNNN, of a server that was killed: jobs in
//! every state, leases of a node that is no more, dead letters, results, a slot whose capacity was changed, a paused kind. Those of
//! 0015 were written by that version (see below); those of 0007 have the same rows without what came later.

mod dumps;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tenure_client::proto::{JobState, PausePolicy};
use tenure_client::{NewJob, RetryPolicy};
use tenure_tests::wait::{PATIENCE, level, until};
use tenure_tests::{Fleet, KindPlan, NodePlan, Plan, Script, Step, scenario};

use self::dumps::Database;

/// What the busy server stored as the result of each job.
const RESULT: &str = "as it was";

/// The schemas of which there is a dump.
const OLD: [u32; 2] = [7, 15];

fn plan() -> Plan {
    // Nothing of a dump is ever swept: it is as old as its version.
    let kind = |name| {
        KindPlan::new(name).need("shell", 1).line("retention = \"3650d\"").line("result_ttl = \"3650d\"")
    };
    Plan::new()
        .fleet_slot("license", 1)
        .kind(kind("shell.task").line("max_failures = 1").line("max_losses = 5"))
        .kind(kind("licensed").need("license", 1))
        .kind(kind("paused"))
        .node(NodePlan::new("n1").slot("shell", 4).label("zone", "a"))
}

/// What is the same before and after.
#[derive(Debug, PartialEq, Eq)]
struct Stored {
    /// How many jobs stand in each state.
    states: BTreeMap<String, usize>,
    /// Jobs that have a result.
    results: BTreeSet<String>,
    epoch: u64,
}

async fn upgrades(from: u32) -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        fleet.kill_agent("n1").await?;
        fleet.stop_server().await?;
        let database = Database::restore(fleet, from).await?;
        let before = database.stored().await?;
        ensure!(before.states.len() >= 6 && !before.results.is_empty() && before.epoch > 0, "{before:?}");
        fleet.start_server().await?;

        // All of it is there.
        let info = until("the server leads", PATIENCE, async || {
            let info = fleet.client().server_info().await.map_err(|error| error.to_string())?;
            // On Postgres the leader of the dump counts as dead after three seconds.
            level(info.leader, || format!("{info:?}")).map(|()| info)
        })
        .await?;
        ensure!(info.schema_version > u64::from(from) || from == newest()?, "{info:?}");
        ensure!(info.epoch > before.epoch, "{info:?} after {before:?}");
        let states = fleet.states().await?;
        let states: BTreeMap<String, usize> =
            states.into_iter().map(|(state, count)| (state.to_lowercase(), count)).collect();
        ensure!(states == before.states, "{states:?}, and was {before:?}");
        for job in &before.results {
            let result = fleet.client().result(job).await?;
            ensure!(result.data == RESULT, "{job}: {result:?}");
        }
        fleet.check().await?;

        // And goes on: what ran on a node that is no more is lost and runs again, what waited runs.
        let open = before.states.iter().filter(|(state, _)| ["queued", "running"].contains(&state.as_str()));
        let open: usize = open.map(|(_, count)| count).sum();
        fleet.client().resume_kind("paused").await?;
        fleet.open("go")?;
        fleet.start_agent("n1")?;
        until("everything that could run has run", PATIENCE * 2, async || {
            let states = fleet.states().await.map_err(|error| error.to_string())?;
            let left = |state: &str| states.get(state).copied().unwrap_or_default();
            level(left("Queued") + left("Running") == 0, || format!("{states:?}"))
        })
        .await?;
        let after = database.stored().await?;
        let succeeded = |stored: &Stored| stored.states.get("succeeded").copied().unwrap_or_default();
        ensure!(succeeded(&after) == succeeded(&before) + open, "{open} were open: {after:?}");
        let jobs = [fleet.enqueue("shell.task", &Script::new()).await?];
        fleet.all_succeed(&jobs, PATIENCE).await?;
        // A final job answers to its key, as it did.
        let again = fleet.client().enqueue(&keyed()).await?;
        ensure!(again.deduplicated && again.job.state() == JobState::Succeeded, "{again:?}");
        fleet.check().await
    })
    .await
}

#[tokio::test]
async fn a_busy_database_of_schema_7_is_migrated_loaded_and_goes_on() -> anyhow::Result<()> {
    upgrades(OLD[0]).await
}

#[tokio::test]
async fn a_busy_database_of_schema_15_is_migrated_loaded_and_goes_on() -> anyhow::Result<()> {
    upgrades(OLD[1]).await
}

fn newest() -> anyhow::Result<u32> {
    let directory = tenure_tests::binary::repository().join("migrations/sqlite");
    let names = std::fs::read_dir(directory)?.flatten();
    let numbers = names.filter_map(|entry| entry.file_name().to_str()?.get(..4)?.parse().ok());
    numbers.max().context("no migrations")
}

fn keyed() -> NewJob {
    let script = Script::new().then(Step::Result(RESULT.to_owned()));
    Fleet::job("shell.task", &script).dedupe_key("the-key").tenant("acme")
}

/// Writes the dump of this version beside the others: `TENURE_TEST_STORE=postgres` for that of Postgres.
#[tokio::test]
#[ignore = "writes into the repository: run it before the first migration after a release, and add its number above"]
async fn a_busy_server_is_dumped() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let client = fleet.client().clone();
        let kept = || Script::new().then(Step::Result(RESULT.to_owned()));
        let mut done = vec![client.enqueue(&keyed()).await?.job.id];
        for _ in 0..2 {
            done.push(fleet.enqueue("licensed", &kept()).await?);
        }
        fleet.all_succeed(&done, PATIENCE).await?;
        let dead = fleet.enqueue("shell.task", &Script::new().exit(3)).await?;
        fleet.state(&dead, JobState::Dead, PATIENCE).await?;
        client.pause_kind("paused", PausePolicy::Hold).await?;
        for kind in ["licensed", "shell.task", "shell.task", "shell.task"] {
            let job = fleet.enqueue(kind, &Script::new().wait("go")).await?;
            fleet.started(&job, 1, PATIENCE).await?;
        }
        client.set_capacity("license", 2).await?;
        let waiting = || Fleet::job("shell.task", &Script::new());
        let cancelled = client.enqueue(&waiting()).await?.job.id;
        client.cancel(&cancelled, "not needed").await?;
        fleet.enqueue("paused", &Script::new()).await?;
        fleet.enqueue("licensed", &Script::new()).await?;
        client
            .enqueue(&waiting().tenant("acme").priority(30).label("team", "a").selector("zone", "a"))
            .await?;
        client.enqueue(&waiting().dedupe_key("waits").hard_time_limit(Duration::from_secs(60))).await?;
        client.enqueue(&waiting().delay(Duration::from_secs(3_600 * 24 * 3_650))).await?;
        let expired = client.enqueue(&waiting().stale_after(Duration::from_secs(1))).await?.job.id;
        fleet.state(&expired, JobState::Expired, PATIENCE).await?;
        // Timelines of classes are saved once a second.
        tokio::time::sleep(Duration::from_secs(2)).await;
        fleet.kill_server().await?;
        Database::of(fleet).dump(newest()?).await?;
        fleet.start_server().await?;
        fleet.open("go")?;
        let client = fleet.client_with(RetryPolicy::default())?;
        client.resume_kind("paused").await?;
        until("it ends", PATIENCE * 2, async || {
            let states = fleet.states().await.map_err(|error| error.to_string())?;
            let left = |state: &str| states.get(state).copied().unwrap_or_default();
            level(left("Queued") + left("Running") == 0, || format!("{states:?}"))
        })
        .await
    })
    .await
}
