//! Rows of every kind in a database of the schema before the newest, and the newest binary that starts on it.
//!
//! Each job of the dump says in a label how it has to end, so that what is written into the next dump needs no word here. A
//! dump serves until a migration after it creates a table; then `a_server_with_rows_of_every_kind_is_dumped` writes the next
//! one, with a binary of the schema that it is to have.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tenure_client::proto::{Delivery, DeliveryState, Job, JobState, ListJobsRequest, PausePolicy};
use tenure_client::{NewJob, NewWorkflow, Part, RetryPolicy};
use tenure_tests::wait::{PATIENCE, level, until};
use tenure_tests::{Fleet, KindPlan, NodePlan, Plan, Script, Step, binary, pile, scenario};

use super::dumps::{Database, newest_dump};
use super::{RESULT, newest};
use crate::webhooks::receiver::Receiver;

const SECRET: &[u8] = b"32 bytes that nobody else knows!";

/// Over the inline limit, in bytes.
const LARGE: usize = 300_000;

/// How a job has to end.
const ENDS: &str = "ends";

/// What a job has left already: `text` or `pile`.
const LEFT: &str = "left";

/// What a kind of the dump may use, and no more.
const BUDGET: &str = "budget = { tokens = \"10/month\" }";

/// Nothing of a dump is ever swept: it is as old as its version.
const LONG: [&str; 2] = ["retention = \"3650d\"", "result_ttl = \"3650d\""];

fn plan(webhooks: &str) -> anyhow::Result<Plan> {
    let kind = |name| {
        let kind = KindPlan::new(name).line(LONG[0]).line(LONG[1]).line("max_losses = 5");
        kind.node_line("env_from = [\"TEST_TENURE\"]")
    };
    let file = format!(
        "{webhooks}\n[results]\ndir = \"objects\"\n[retention]\nfinal_jobs = \"3650d\"\nresults = \"3650d\"\n"
    );
    Ok(Plan::new()
        .server_file(&file)
        .variable("TEST_TENURE", &binary::tenure()?.to_string_lossy())
        .fleet_slot("license", 1)
        .kind(kind("task").need("shell", 1).line("max_failures = 1"))
        .kind(kind("licensed").need("license", 1))
        .kind(kind("parent").need("shell", 1))
        .kind(kind("keyed").line("concurrency = { key = \"account\", limit = 1 }"))
        .kind(kind("costly").line(BUDGET))
        .kind(kind("held"))
        .kind(kind("rejecting"))
        .kind(kind("tick"))
        .node(NodePlan::new("n1").slot("shell", 16).label("zone", "a").only(&[
            "task",
            "licensed",
            "parent",
            "keyed",
            "costly",
            "held",
            "rejecting",
        ])))
}

/// The fleet file: what the plan has no words for is added.
fn fleet_file(fleet: &Fleet, webhook: &str) -> String {
    format!(
        "{}\n[tenants.acme]\nweight = 2\n[cron.every-second]\nkind = \"tick\"\nwhen = \"* * * * * *\"\n{webhook}",
        fleet.plan().fleet_file()
    )
}

fn job(kind: &str, script: &Script, ends: &str) -> NewJob {
    Fleet::job(kind, script).label(ENDS, ends)
}

fn gate() -> Script {
    Script::new().wait("go")
}

/// Saves a checkpoint, from which it goes on when it is tried again.
fn saves() -> Script {
    // A file that every host has, and that is the same on each.
    let words = "checkpoint /proc/sys/kernel/ostype".to_owned();
    Script::new().then(Step::TellLeft).then(Step::Attempt(words)).wait("go")
}

/// Makes rows of every kind, and leaves most of it half-way.
async fn fill(fleet: &Fleet) -> anyhow::Result<()> {
    let client = fleet.client();
    // Nobody listens there.
    client.apply(&fleet_file(fleet, "[webhooks.ci]\nurl = \"https://localhost:9/told\"\n"), false).await?;

    let says = Script::new().then(Step::Say("a word".to_owned())).then(Step::Result(RESULT.to_owned()));
    let piles = Script::new().then(Step::Pile(LARGE));
    let spends = Script::new().then(Step::Attempt("usage tokens=12".to_owned()));
    let wraps_up = Script::new().then(Step::Heed(10)).then(Step::Result(RESULT.to_owned()));
    let done = [
        job("task", &says, "succeeded").label(LEFT, "text").dedupe_key("the-key").tenant("acme"),
        job("task", &piles, "succeeded").label(LEFT, "pile"),
        job("task", &wraps_up, "succeeded").label(LEFT, "text").soft_time_limit(Duration::from_secs(1)),
        job("task", &Script::new(), "succeeded"),
        job("costly", &spends, "succeeded"),
    ];
    let mut ids = Vec::new();
    for job in &done {
        ids.push(client.enqueue(job).await?.job.id);
    }
    fleet.all_succeed(&ids, PATIENCE).await?;
    let dead = client.enqueue(&job("task", &Script::new().exit(3), "dead")).await?.job.id;
    fleet.state(&dead, JobState::Dead, PATIENCE).await?;
    let cancelled = client.enqueue(&job("task", &Script::new(), "cancelled").delay(LONGEST)).await?.job.id;
    client.cancel(&cancelled, "not needed").await?;
    client.pause_kind("held", PausePolicy::Hold).await?;
    client.pause_kind("rejecting", PausePolicy::Reject).await?;
    let expires = job("held", &Script::new(), "expired").stale_after(Duration::from_secs(1));
    let expired = client.enqueue(&expires).await?.job.id;
    fleet.state(&expired, JobState::Expired, PATIENCE).await?;

    // What runs, and what waits behind it.
    let running = [
        job("task", &gate(), "succeeded").tenant("acme").priority(30).selector("zone", "a"),
        job("licensed", &gate(), "succeeded"),
        job("keyed", &gate(), "succeeded").concurrency_key("4711"),
        job("task", &saves(), "succeeded").label("was", "checkpoint"),
    ];
    for job in &running {
        let job = client.enqueue(job).await?.job.id;
        fleet.started(&job, 1, PATIENCE).await?;
        if running.last().is_some_and(|last| last.id() == job) {
            until("its checkpoint is stored", PATIENCE, async || {
                let stored = Database::of(fleet).rows("select job_id from checkpoints").await;
                level(stored.is_ok_and(|rows| !rows.is_empty()), || "not yet".to_owned())
            })
            .await?;
        }
    }
    client.set_capacity("license", 2).await?;
    client.set_capacity("license", 1).await?;
    let waiting = [
        job("licensed", &Script::new(), "succeeded"),
        job("keyed", &Script::new(), "succeeded").concurrency_key("4711"),
        job("costly", &Script::new(), "succeeded"),
        job("held", &Script::new(), "succeeded").dedupe_key("waits"),
        job("task", &Script::new(), "scheduled").delay(LONGEST),
    ];
    for job in &waiting {
        client.enqueue(job).await?;
    }
    for wait in [Step::Detach, Step::Park] {
        let family = Script::new().then(wait("2 task wait go".to_owned()));
        let parent = client.enqueue(&job("parent", &family, "succeeded")).await?.job.id;
        fleet.job_when(&parent, "it waits", PATIENCE, |job| job.waiting_for.is_some()).await?;
    }
    let members = [&says, &gate()].map(|script| Part::job(job("task", script, "succeeded")));
    let synthesis = job("task", &Script::new().then(Step::Gather), "succeeded");
    let after = Part::job(job("task", &Script::new(), "succeeded"));
    let half_way = NewWorkflow::new(Part::chain([Part::chord(members, synthesis).into(), after]));
    client.submit_workflow(&half_way).await?;
    let first = client.workflow(half_way.id()).await?.members.first().context("members")?.job_id.clone();
    fleet.state(&first, JobState::Succeeded, PATIENCE).await?;

    // A timetable that has begun, a message that nobody takes, and producers in the same database.
    until("it fires", PATIENCE, async || level(fired(fleet).await? > 0, || "not yet".to_owned())).await?;
    client.pause_cron_entry("every-second").await?;
    if fleet.postgres().is_ok() {
        let rows = "
select tenure_enqueue('nobody');
select tenure_enqueue('rejecting', labels => '{\"ends\": \"succeeded\"}');";
        Database::of(fleet).execute(rows).await?;
        until("one row is refused and one waits", PATIENCE, async || {
            let state = client.inbox().await.map_err(|error| error.to_string())?;
            level((state.waiting, state.refusals) == (1, 1), || format!("{state:?}"))
        })
        .await?;
    }
    until("a delivery has failed once", PATIENCE, async || {
        let left = deliveries(fleet).await?;
        level(left.iter().any(|delivery| delivery.tries > 0), || format!("{left:?}"))
    })
    .await?;
    // Timelines of classes are saved once a second.
    until("why it waits is stored", PATIENCE, async || {
        let stored = Database::of(fleet).rows("select 1 from classes").await;
        level(stored.is_ok_and(|rows| !rows.is_empty()), || "not yet".to_owned())
    })
    .await
}

/// As far off as a job may be put.
const LONGEST: Duration = Duration::from_secs(3_600 * 24 * 3_650);

async fn fired(fleet: &Fleet) -> Result<u64, String> {
    let entries = fleet.client().cron_entries().await.map_err(|error| error.to_string())?;
    entries.first().map(|entry| entry.fired).ok_or_else(|| "no entry".to_owned())
}

async fn deliveries(fleet: &Fleet) -> Result<Vec<Delivery>, String> {
    let left = fleet.client().deliveries(None, DeliveryState::Unspecified, 1000).await;
    left.map_err(|error| error.to_string())
}

async fn jobs(fleet: &Fleet) -> anyhow::Result<Vec<Job>> {
    Ok(fleet.client().list(ListJobsRequest::default()).take(1000).await?)
}

fn state(job: &Job) -> String {
    job.state().as_str_name().trim_start_matches("JOB_STATE_").to_lowercase()
}

/// Lets go of all that is held up, and waits until everything has ended as it has to.
async fn goes_on(fleet: &mut Fleet, receiver: &Receiver) -> anyhow::Result<()> {
    let client = fleet.client_with(RetryPolicy::default())?;
    let before = fired(fleet).await.map_err(anyhow::Error::msg)?;
    let file = fleet_file(fleet, &receiver.webhook("ci", "/told", "")).replace(BUDGET, "");
    client.apply(&file, false).await?;
    for kind in ["held", "rejecting"] {
        client.resume_kind(kind).await?;
    }
    client.resume_cron_entry("every-second").await?;
    fleet.open("go")?;
    until("everything ends as it has to", PATIENCE * 3, async || {
        let jobs = jobs(fleet).await.map_err(|error| error.to_string())?;
        let wrong = jobs.iter().filter(|job| job.labels.get(ENDS).is_some_and(|end| *end != state(job)));
        let wrong: Vec<String> =
            wrong.map(|job| format!("{} {} {}", job.kind, state(job), job.reason)).collect();
        level(wrong.is_empty(), || format!("{wrong:#?}"))?;
        let open = client.workflows(&[], 100).await.map_err(|error| error.to_string())?;
        level(open.iter().all(|workflow| workflow.finish_time.is_some()), || format!("{open:?}"))?;
        let inbox = client.inbox().await.map_err(|error| error.to_string())?;
        level(inbox.waiting == 0, || format!("{inbox:?}"))?;
        level(fired(fleet).await? > before, || "the timetable stands still".to_owned())
    })
    .await?;
    client.pause_cron_entry("every-second").await?;
    // It may have been given up: the dump may be old.
    for delivery in deliveries(fleet).await.map_err(anyhow::Error::msg)? {
        // One that has arrived meanwhile is not known any more.
        client.redeliver(&delivery.id).await.map(drop).or_else(|error| match error.refusal() {
            Some(_) => Ok(()),
            None => Err(error),
        })?;
    }
    until("every message arrives", PATIENCE * 2, async || {
        let left = deliveries(fleet).await?;
        level(left.is_empty(), || format!("{left:?}"))
    })
    .await?;
    for job in jobs(fleet).await?.iter().filter(|job| job.labels.contains_key(ENDS)) {
        let told = receiver.told("/told").iter().any(|told| told.id().starts_with(&job.id));
        ensure!(told || job.finish_time.is_none(), "nobody was told of {job:?}");
    }
    fleet.check().await
}

/// What had ended is as it was.
async fn is_kept(fleet: &Fleet) -> anyhow::Result<()> {
    let jobs = jobs(fleet).await?;
    for job in &jobs {
        match job.labels.get(LEFT).map(String::as_str) {
            Some("text") => ensure!(fleet.client().result(&job.id).await?.data == RESULT, "{job:?}"),
            Some("pile") => {
                let left = fleet.client().read_result(&job.id).await?.collect().await?;
                ensure!(left == pile(LARGE), "the bytes are others: {job:?}");
            }
            _ => {}
        }
    }
    ensure!(jobs.iter().any(|job| job.labels.contains_key(LEFT)), "nothing to compare");
    let again = job(
        "task",
        &Script::new().then(Step::Say("a word".to_owned())).then(Step::Result(RESULT.to_owned())),
        "succeeded",
    );
    let again = fleet.client().enqueue(&again.dedupe_key("the-key").tenant("acme")).await?;
    ensure!(again.deduplicated && again.job.state() == JobState::Succeeded, "{again:?}");
    Ok(())
}

#[tokio::test]
async fn rows_of_every_kind_in_the_schema_before_the_newest_end_as_they_have_to() -> anyhow::Result<()> {
    let kept = tempfile::tempdir()?;
    let receiver = Receiver::start(kept.path()).await?;
    scenario(plan(&receiver.server_file(true, &[("ci", SECRET)])?)?, async |fleet| {
        fleet.kill_agent("n1").await?;
        fleet.stop_server().await?;
        let before = newest()? - 1;
        let database = Database::restore(fleet, newest_dump(before)?).await?;
        database.migrate_to(before).await?;
        let empty = database.empty_tables().await?;
        // Over a SQLite file nobody but the server may write, so that there is no inbox.
        let expected = |table: &String| fleet.postgres().is_err() && table.starts_with("inbox");
        let empty: Vec<&String> = empty.iter().filter(|table| !expected(table)).collect();
        ensure!(empty.is_empty(), "nothing is tried with {empty:?}: a dump of schema {before} is due");
        for row in database
            .rows("select job_id, token, object_sha256 from results where object_size is not null")
            .await?
        {
            fs::create_dir_all(fleet.directory().join("objects"))?;
            fs::write(fleet.directory().join("objects").join(row.join(".")), pile(LARGE))?;
        }
        let stored = database.stored().await?;
        ensure!(stored.states.len() == 9, "jobs in each state: {stored:?}");

        fleet.start_server().await?;
        let info = until("the server leads", PATIENCE, async || {
            let info = fleet.client().server_info().await.map_err(|error| error.to_string())?;
            level(info.leader, || format!("{info:?}")).map(|()| info)
        })
        .await?;
        ensure!(info.schema_version == u64::from(newest()?) && info.epoch > stored.epoch, "{info:?}");
        let states = fleet.states().await?.into_iter();
        let states = states.map(|(state, count)| (state.to_lowercase(), count)).collect();
        ensure!(stored.states == states, "{states:?}, and was {stored:?}");
        fleet.check().await?;
        is_kept(fleet).await?;
        fleet.start_agent("n1")?;
        goes_on(fleet, &receiver).await?;
        let jobs = jobs(fleet).await?;
        let saved = jobs.iter().find(|job| job.labels.contains_key("was")).context("one had a checkpoint")?;
        let left = fleet.client().result(&saved.id).await?;
        ensure!(left.data.starts_with(b"Linux"), "it began anew: {left:?}");
        is_kept(fleet).await
    })
    .await
}

/// Writes the dump of this version beside the others: `TENURE_TEST_STORE=postgres` for that of Postgres.
#[tokio::test]
#[ignore = "writes into the repository: run it before the first migration after a release"]
async fn a_server_with_rows_of_every_kind_is_dumped() -> anyhow::Result<()> {
    let kept = tempfile::tempdir()?;
    let receiver = Receiver::start(kept.path()).await?;
    scenario(plan(&receiver.server_file(true, &[("ci", SECRET)])?)?, async |fleet| {
        fill(fleet).await?;
        fleet.kill_server().await?;
        Database::of(fleet).dump(newest()?).await?;
        fleet.start_server().await?;
        goes_on(fleet, &receiver).await
    })
    .await
}
