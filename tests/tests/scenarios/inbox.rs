//! A producer in the same Postgres enqueues in its own transaction: a job is there if that commits, once, and only then.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use tenure_client::NewJob;
use tenure_client::proto::{JobState, ListJobsRequest};
use tenure_tests::clock::Moment;
use tenure_tests::wait::{PATIENCE, level, until};
use tenure_tests::{Fleet, KindPlan, NodePlan, Plan, Script, scenario};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// Everything of a backlog is a job by then.
const LONG: Duration = Duration::from_secs(120);

/// What the documents give to a producer.
const ROLE: &str = "
create role shop login;
grant usage on schema public to shop;
grant execute on function tenure_enqueue to shop;";

fn plan() -> Plan {
    Plan::new().postgres().kind(KindPlan::new("mail")).node(NodePlan::new("n1"))
}

/// What a role is answered by the fleet's database; an error is what it says.
async fn sql_as(fleet: &Fleet, role: &str, text: &str) -> anyhow::Result<String> {
    let cluster = fleet.postgres()?;
    let mut psql = Command::new(cluster.programs().join("psql"));
    psql.envs(cluster.environment()).env("PGUSER", role);
    psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", "test_0"]);
    psql.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut psql = psql.spawn()?;
    let mut stdin = psql.stdin.take().context("no way in")?;
    stdin.write_all(text.as_bytes()).await?;
    drop(stdin);
    let ran = psql.wait_with_output().await?;
    if !ran.status.success() {
        bail!("{}", String::from_utf8_lossy(&ran.stderr));
    }
    Ok(String::from_utf8(ran.stdout)?.trim().to_owned())
}

async fn owner(fleet: &Fleet, text: &str) -> anyhow::Result<String> {
    sql_as(fleet, "postgres", text).await
}

/// A call of the function whose job does what a script says.
fn call(script: &Script, more: &str) -> String {
    format!(
        "select tenure_enqueue('mail', convert_to($script${script}$script$, 'UTF8'), 'text/plain'{more});"
    )
}

/// Waits until so many jobs of the role are final, and none is not.
async fn all_ended(fleet: &Fleet, count: usize, within: Duration) -> anyhow::Result<BTreeSet<String>> {
    until(&format!("{count} jobs have ended"), within, async || {
        let waiting = owner(fleet, "select count(*) from inbox").await.map_err(|error| error.to_string())?;
        level(waiting == "0", || format!("{waiting} rows wait"))?;
        let filter = ListJobsRequest { page_size: 1000, ..ListJobsRequest::default() };
        let mut jobs = fleet.client().list(filter);
        let mut ended = BTreeSet::new();
        while let Some(job) = jobs.next().await.map_err(|error| error.to_string())? {
            if job.producer == "db:shop" && job.state() == JobState::Succeeded {
                ended.insert(job.id);
            }
        }
        level(ended.len() == count, || format!("{} of {count}", ended.len()))?;
        Ok(ended)
    })
    .await
}

#[tokio::test]
async fn what_commits_is_a_job_once_and_what_does_not_never_was_one() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        owner(fleet, ROLE).await?;
        let nothing = Script::new();
        sql_as(fleet, "shop", &format!("begin; {} rollback;", call(&nothing, ""))).await?;
        let id = sql_as(fleet, "shop", &format!("begin; {} commit;", call(&nothing, ""))).await?;
        let job = until("it is a job", PATIENCE, async || {
            fleet.client().get(&id).await.map_err(|error| error.to_string())
        })
        .await?;
        ensure!((job.producer.as_str(), job.tenant.as_str()) == ("db:shop", "shop"), "{job:?}");
        let ended = all_ended(fleet, 1, PATIENCE).await?;
        ensure!(ended == BTreeSet::from([id.clone()]), "{ended:?}");
        ensure!(fleet.log()?.runs.len() == 1, "it ran once");

        // The same id again is the same call.
        let again = format!(", job_id => '{id}'");
        ensure!(sql_as(fleet, "shop", &call(&nothing, &again)).await? == id, "it returns the id");
        all_ended(fleet, 1, PATIENCE).await?;
        ensure!(fleet.log()?.runs.len() == 1, "it ran once");

        // Who has no right to the function is told by the database, and the role has no other.
        owner(fleet, "create role stranger login;").await?;
        let no = sql_as(fleet, "stranger", &call(&nothing, "")).await.expect_err("no right").to_string();
        ensure!(no.contains("permission denied"), "{no}");
        let no = sql_as(fleet, "shop", "select * from inbox;").await.expect_err("no right").to_string();
        ensure!(no.contains("permission denied"), "{no}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_key_is_the_same_by_wire_and_by_sql() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        owner(fleet, ROLE).await?;
        let script = Script::new();
        let by_wire = |key: &str| Fleet::job("mail", &script).tenant("shop").dedupe_key(key);
        let first = fleet.client().enqueue(&by_wire("a")).await?.job.id;
        sql_as(fleet, "shop", &call(&script, ", dedupe_key => 'a'")).await?;
        let second = sql_as(fleet, "shop", &call(&script, ", dedupe_key => 'b'")).await?;
        until("both rows are settled", PATIENCE, async || {
            let waiting =
                owner(fleet, "select count(*) from inbox").await.map_err(|error| error.to_string())?;
            level(waiting == "0", || waiting.clone())
        })
        .await?;
        let answer = fleet.client().enqueue(&by_wire("b")).await?;
        ensure!(answer.deduplicated && answer.job.id == second, "{answer:?}");
        fleet.all_succeed(&[first, second], PATIENCE).await?;
        ensure!(fleet.log()?.runs.len() == 2, "one run for each key");
        // The one row whose producer was told an id under which there is no job; `second` is that of its row.
        until("it is counted", PATIENCE, async || {
            let counted = fleet.metric("tenure_inbox_deduplicated_total", "").await;
            let counted = counted.map_err(|error| error.to_string())?;
            level(counted == 1.0, || counted.to_string())
        })
        .await
        .map(drop)
    })
    .await
}

#[tokio::test]
async fn rows_that_become_no_job_are_listed_with_the_reason_and_stop_nobody() -> anyhow::Result<()> {
    scenario(plan().kind(KindPlan::new("full").line("queue_cap = 1")), async |fleet| {
        owner(fleet, ROLE).await?;
        let rows = "
select tenure_enqueue('nobody');
select tenure_enqueue('mail', job_id => gen_random_uuid());
select tenure_enqueue('mail', labels => '[1]');
select tenure_enqueue('No Name');
select tenure_enqueue('mail', needs => '{\"gold\": 1}');
select tenure_enqueue('full', delay => '1 day');
select tenure_enqueue('full', delay => '1 day');
select tenure_enqueue('mail', convert_to('', 'UTF8'), 'text/plain');";
        let ids = sql_as(fleet, "shop", rows).await?;
        let ids: Vec<&str> = ids.lines().collect();
        fleet.state(ids[7], JobState::Succeeded, PATIENCE).await?;
        let refusals = fleet.client().inbox_refusals(100).await?;
        let told: Vec<(&str, &str)> =
            refusals.iter().rev().map(|no| (no.reason.as_str(), no.job_id.as_str())).collect();
        let expected = [
            ("KIND_NOT_FOUND", ids[0]),
            ("INVALID_FIELD", ids[1]),
            ("INVALID_FIELD", ids[2]),
            ("INVALID_FIELD", ids[3]),
            ("SLOT_NOT_FOUND", ids[4]),
        ];
        ensure!(told == expected, "{refusals:#?}");
        ensure!(refusals.iter().all(|no| no.producer == "db:shop" && no.role == "shop"), "{refusals:#?}");
        let listed = fleet.cli(&["inbox", "refusals"]).await?;
        ensure!(listed.code == 0 && listed.stdout.contains("kind nobody is not declared"), "{listed:?}");
        ensure!(fleet.metric("tenure_inbox_refused_total", "KIND_NOT_FOUND").await? == 1.0, "counted");
        let doctor = fleet.cli(&["doctor"]).await?;
        ensure!(doctor.stdout.contains("5 rows became no job"), "{doctor:?}");

        // What waiting can cure waits, and is no refusal.
        let state = fleet.client().inbox().await?;
        ensure!((state.waiting, state.refusals) == (1, 5), "{state:?}");
        fleet.client().cancel(ids[5], "makes room").await?;
        fleet.state(ids[6], JobState::Scheduled, PATIENCE).await?;
        ensure!(fleet.client().inbox().await?.waiting == 0, "none waits");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_leader_killed_again_and_again_over_a_backlog_loses_and_doubles_nothing() -> anyhow::Result<()> {
    const ROWS: usize = 2000;
    scenario(plan(), async |fleet| {
        owner(fleet, ROLE).await?;
        // Nothing of them runs: of so many processes a test would be long.
        let rows =
            format!("select tenure_enqueue('mail', delay => '1 day') from generate_series(1, {ROWS});");
        let ids: BTreeSet<String> = sql_as(fleet, "shop", &rows).await?.lines().map(str::to_owned).collect();
        ensure!(ids.len() == ROWS, "{}", ids.len());
        let mut left = ROWS;
        let mut kills = 0;
        while left > 0 && kills < 4 {
            // In the midst of it, if it is not done already.
            let before = left;
            left = until("it goes on", PATIENCE, async || {
                let left =
                    owner(fleet, "select count(*) from inbox").await.map_err(|error| error.to_string())?;
                let left: usize = left.parse().map_err(|_| left.clone())?;
                level(left < before, || format!("{left} rows wait"))?;
                Ok(left)
            })
            .await?;
            fleet.kill_server().await?;
            fleet.start_server().await?;
            kills += 1;
        }
        until("no row waits", LONG, async || {
            let left = owner(fleet, "select count(*) from inbox").await.map_err(|error| error.to_string())?;
            level(left == "0", || left.clone())
        })
        .await?;
        let jobs = owner(fleet, "select id from jobs where producer = 'db:shop'").await?;
        let jobs: Vec<&str> = jobs.lines().collect();
        ensure!(jobs.len() == ROWS && jobs.iter().all(|job| ids.contains(*job)), "{} jobs", jobs.len());
        let refusals = fleet.client().inbox_refusals(1).await?;
        ensure!(refusals.is_empty(), "{refusals:?}");
        println!("{kills} kills");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_backlog_leaves_room_for_those_who_call() -> anyhow::Result<()> {
    const ROWS: usize = 10_000;
    const CALLS: usize = 20;
    scenario(plan(), async |fleet| {
        owner(fleet, ROLE).await?;
        let rows = format!(
            "select count(tenure_enqueue('mail', delay => '1 day')) from generate_series(1, {ROWS});"
        );
        sql_as(fleet, "shop", &rows).await?;
        let mut slowest = Duration::ZERO;
        for _ in 0..CALLS {
            let begun = Moment::now();
            fleet.client().enqueue(&NewJob::new("mail").delay(Duration::from_secs(3600))).await?;
            slowest = slowest.max(begun.elapsed());
        }
        let left = fleet.client().inbox().await?.waiting;
        println!("the slowest of {CALLS} calls took {slowest:?}; {left} rows of {ROWS} waited after them");
        // Behind the whole backlog the calls would have waited for its end.
        ensure!(left > 0, "the backlog was over before the calls, which shows nothing: {slowest:?}");
        until("no row waits", LONG, async || {
            let state = fleet.client().inbox().await.map_err(|error| error.to_string())?;
            level(state.waiting == 0, || format!("{state:?}"))
        })
        .await?;
        ensure!(fleet.metric("tenure_inbox_ingested_total", "").await? >= ROWS as f64, "all are counted");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn the_example_of_the_page_works_as_typed_in() -> anyhow::Result<()> {
    let page = include_str!("../../../docs/transactional-enqueue.md");
    let plan = Plan::new().postgres().kind(KindPlan::new("mail.confirm"));
    scenario(plan, async |fleet| {
        let mut typed = 0;
        for block in page.split("```sql\n").skip(1).filter_map(|rest| rest.split("```").next()) {
            let (role, text) = block.split_once('\n').context("an empty block")?;
            let role = role.strip_prefix("-- as ").context("a block that does not say who types it")?;
            let role = if matches!(role, "the owner" | "a superuser") { "postgres" } else { role };
            let said = sql_as(fleet, role, text).await?;
            if role == "shop" {
                // No node runs it: its payload is no script of the tests.
                let job = fleet.state(&said, JobState::Queued, PATIENCE).await?;
                ensure!(job.kind == "mail.confirm" && job.dedupe_key == "order:4711", "{job:?}");
                ensure!(
                    owner(fleet, "select item from orders where id = 4711").await? == "lamp",
                    "with its row"
                );
            }
            typed += 1;
        }
        ensure!(typed == 3, "{typed} blocks");
        Ok(())
    })
    .await
}
