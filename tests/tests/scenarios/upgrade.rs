//! A database of an earlier version, with the rows of a busy server in it: the newest binary brings it up to date, loads it,
//! and goes on with what it finds.
//!
//! `tests/data/{sqlite,postgres}/NNNN.sql` are whole databases after migration NNNN, of a server that was killed: jobs in
//! every state, leases of a node that is no more, dead letters, results, a slot whose capacity was changed, a paused kind. Those of
//! 0015 were written by that version; those of 0007 have the same rows without what came later. Those of 0022 and later have
//! rows of every kind (`whole.rs`), and are what the schema before the newest is tried with.

mod dumps;
mod whole;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, ensure};
use tenure_client::NewJob;
use tenure_client::proto::JobState;
use tenure_tests::wait::{PATIENCE, level, until};
use tenure_tests::{Fleet, KindPlan, NodePlan, Plan, Script, Step, scenario};

use self::dumps::Database;

/// What the busy server stored as the result of each job.
const RESULT: &str = "as it was";

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
        ensure!(info.schema_version == u64::from(newest()?), "{info:?}");
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
    upgrades(7).await
}

#[tokio::test]
async fn a_busy_database_of_schema_15_is_migrated_loaded_and_goes_on() -> anyhow::Result<()> {
    upgrades(15).await
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

#[tokio::test]
async fn a_database_of_a_later_version_is_refused_with_a_sentence_and_left_as_it_is() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        fleet.kill_agent("n1").await?;
        fleet.stop_server().await?;
        let database = Database::of(fleet);
        let checksum = if fleet.postgres().is_ok() { "'\\x00'" } else { "x'00'" };
        let later = format!(
            "insert into _sqlx_migrations (version, description, success, checksum, execution_time) \
             values (9999, 'later', true, {checksum}, 0)"
        );
        database.execute(&later).await?;
        let epoch = database.stored().await?.epoch;
        let [file, data] = ["server.toml", "data"].map(|name| fleet.directory().join(name));
        let (file, data) = (file.to_string_lossy(), data.to_string_lossy());
        let mut args = vec!["server", "--config", &file, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"];
        let place = ["--data", &*data];
        args.extend(if fleet.postgres().is_ok() { &["--migrate"][..] } else { &place });
        let mut older = fleet.process("older", &args)?;
        let status = older.ended(PATIENCE).await?;
        let sentence = format!("the database has schema 9999, this version knows {} and older", newest()?);
        ensure!(!status.success() && older.log().contains(&sentence), "{status}: {}", older.tail());
        ensure!(database.stored().await?.epoch == epoch, "nobody led");
        Ok(())
    })
    .await
}
