//! Processes that end at named points: those of the feature `failpoints`, which no binary has that anybody is given.
//!
//! The tests that need them are ignored; `scripts/torture points` builds such a binary and runs them. What each run shows
//! is the same: nothing that was acknowledged is lost, nothing runs twice.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tenure_tests::binary;
use tenure_tests::wait::{PATIENCE, level, until};
use tenure_tests::{Fleet, KindPlan, NodePlan, Plan, Script, scenario};
use tokio::task::JoinSet;

use crate::restart::load;

/// What the points are told by.
pub(crate) const VARIABLE: &str = "FAILPOINTS";

/// How often a server dies at its point.
const DEATHS: usize = 5;

/// How often an agent does. After five in a row the next one ends what runs: that may be what kills them.
const DEATHS_OF_AGENTS: usize = 3;

fn plan(points: &str) -> Plan {
    Plan::new()
        .variable(VARIABLE, points)
        .kind(
            KindPlan::new("shell.task")
                .need("shell", 1)
                .lease("30s")
                .line("queue_cap = 40")
                .line("max_losses = 30"),
        )
        .node(NodePlan::new("n1").slot("shell", 4))
}

/// Every point of the product, by its source.
fn points() -> anyhow::Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let mut directories: Vec<_> = ["store", "server", "node-agent", "cli"]
        .map(|part| binary::repository().join(part).join("src"))
        .into();
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let text = fs::read_to_string(&path)?;
            let calls = text.split("fail::fail_point!(").skip(1);
            found.extend(calls.filter_map(|call| call.split('"').nth(1)).map(str::to_owned));
        }
    }
    ensure!(found.len() > 5, "this no longer reads the source: {found:?}");
    Ok(found)
}

/// The names that the binary holds, and the variable. A binary is large and this profile slow: `grep` looks.
fn named_in_the_binary() -> anyhow::Result<BTreeSet<String>> {
    let mut grep = std::process::Command::new("grep");
    grep.args(["--text", "--only-matching", "--fixed-strings", "-e", VARIABLE]);
    for point in points()? {
        grep.args(["-e", &point]);
    }
    let ran = grep.arg("--").arg(binary::tenure()?).output()?;
    ensure!(ran.status.code().is_some_and(|code| code < 2), "{}", String::from_utf8_lossy(&ran.stderr));
    Ok(String::from_utf8_lossy(&ran.stdout).lines().map(str::to_owned).collect())
}

#[tokio::test]
async fn the_binary_that_everybody_has_holds_no_failpoint_and_no_variable_switches_one_on()
-> anyhow::Result<()> {
    let named = named_in_the_binary()?;
    ensure!(named.is_empty(), "built with the feature failpoints: {named:?}");
    // Each of them would end a process, or keep the fleet from starting.
    let all: Vec<String> = points()?.into_iter().map(|point| format!("{point}=return")).collect();
    scenario(plan(&all.join(";")), async |fleet| {
        let job = fleet.enqueue("shell.task", &Script::new()).await?;
        fleet.all_succeed(std::slice::from_ref(&job), PATIENCE).await?;
        ensure!(fleet.log()?.of(&job).count() == 1, "it ran once");
        Ok(())
    })
    .await
}

#[test]
#[ignore = "needs a binary with the feature failpoints: scripts/torture points"]
fn the_binary_of_a_torture_holds_every_failpoint() -> anyhow::Result<()> {
    let (named, mut all) = (named_in_the_binary()?, points()?);
    all.insert(VARIABLE.to_owned());
    ensure!(named == all, "missing: {:?}", all.difference(&named).collect::<Vec<_>>());
    Ok(())
}

/// Lets a fleet under load lose its server at a point, again and again.
async fn the_server_dies(plan: Plan) -> anyhow::Result<()> {
    scenario(plan, async |fleet| {
        let stop = Arc::new(AtomicBool::new(false));
        let mut producers = JoinSet::new();
        for _ in 0..3 {
            producers.spawn(load(fleet.endpoint(), stop.clone()));
        }
        for death in 1..=DEATHS {
            let mut server = fleet.take_server()?;
            let status = server.ended(PATIENCE).await?;
            ensure!(!status.success(), "it ended otherwise: {status}\n{}", server.tail());
            if death == DEATHS {
                fleet.set_variable(VARIABLE, "");
            }
            fleet.start_server().await?;
        }
        stop.store(true, Ordering::Relaxed);
        let mut jobs = Vec::new();
        while let Some(acknowledged) = producers.join_next().await {
            jobs.extend(acknowledged.context("a producer")??);
        }
        eprintln!("{} jobs over {DEATHS} deaths", jobs.len());
        once_each(fleet, &jobs).await
    })
    .await
}

/// Every job ends well, after one run.
async fn once_each(fleet: &Fleet, jobs: &[String]) -> anyhow::Result<()> {
    fleet.all_succeed(jobs, PATIENCE * 2).await?;
    let log = fleet.log()?;
    for job in jobs {
        ensure!(log.of(job).count() == 1, "{job} ran {} times: {log:#?}", log.of(job).count());
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs a binary with the feature failpoints: scripts/torture points"]
async fn a_server_that_dies_between_commit_and_release_loses_nothing_and_doubles_nothing()
-> anyhow::Result<()> {
    the_server_dies(plan("driver::before_release=60*off->return")).await
}

#[tokio::test]
#[ignore = "needs a binary with the feature failpoints: scripts/torture points"]
async fn a_server_that_dies_inside_its_commit_loses_nothing_and_doubles_nothing() -> anyhow::Result<()> {
    the_server_dies(plan("postgres::before_commit=60*off->return").postgres()).await
}

#[tokio::test]
#[ignore = "needs a binary with the feature failpoints: scripts/torture points"]
async fn a_commit_whose_answer_is_lost_is_found_by_the_retry() -> anyhow::Result<()> {
    // One in twenty is applied, and nobody hears of it.
    let plan = plan("postgres::after_commit=5%return").postgres();
    scenario(plan, async |fleet| {
        let stop = Arc::new(AtomicBool::new(false));
        let mut producers = JoinSet::new();
        for _ in 0..3 {
            producers.spawn(load(fleet.endpoint(), stop.clone()));
        }
        let client = fleet.client().clone();
        until("it has reloaded often", PATIENCE, async || {
            let info = client.server_info().await.map_err(|error| error.to_string())?;
            level(info.reloads >= 2 * DEATHS as u64, || format!("{info:?}"))
        })
        .await?;
        stop.store(true, Ordering::Relaxed);
        let mut jobs = Vec::new();
        while let Some(acknowledged) = producers.join_next().await {
            jobs.extend(acknowledged.context("a producer")??);
        }
        once_each(fleet, &jobs).await
    })
    .await
}

/// Lets an agent die at a point while its jobs go on, again and again; it is started anew each time.
async fn the_agent_dies(points: &str) -> anyhow::Result<()> {
    scenario(plan(""), async |fleet| {
        fleet.set_variable(VARIABLE, points);
        fleet.kill_agent("n1").await?;
        let mut jobs = Vec::new();
        for n in 0..24 {
            jobs.push(
                fleet.enqueue("shell.task", &Script::new().sleep(Duration::from_millis(n % 4 * 60))).await?,
            );
        }
        for death in 1..=DEATHS_OF_AGENTS {
            fleet.start_agent("n1")?;
            let mut agent = fleet.take_agent("n1")?;
            let status = agent.ended(PATIENCE).await.with_context(|| format!("death {death}"))?;
            ensure!(!status.success(), "it ended otherwise: {status}\n{}", agent.tail());
        }
        fleet.set_variable(VARIABLE, "");
        fleet.start_agent("n1")?;
        fleet.node_live("n1").await?;
        once_each(fleet, &jobs).await
    })
    .await
}

#[tokio::test]
#[ignore = "needs a binary with the feature failpoints: scripts/torture points"]
async fn an_agent_that_dies_before_it_spools_a_report_finds_the_end_at_its_shim() -> anyhow::Result<()> {
    the_agent_dies("spool::before_write=2*off->return").await
}

#[tokio::test]
#[ignore = "needs a binary with the feature failpoints: scripts/torture points"]
async fn an_agent_that_dies_with_a_report_in_its_spool_says_it_again() -> anyhow::Result<()> {
    the_agent_dies("spool::after_write=2*off->return").await
}

#[tokio::test]
#[ignore = "needs a binary with the feature failpoints: scripts/torture points"]
async fn an_agent_that_dies_between_hello_and_welcome_is_taken_in_the_next_time() -> anyhow::Result<()> {
    the_agent_dies("session::before_welcome=return").await
}

/// Lets most shims die at a point before their command runs, and then none: nothing ran, so nothing may count against the
/// job but a loss where nobody can know that.
async fn shims_die(point: &str) -> anyhow::Result<()> {
    let plan = plan(&format!("{point}=80%return"));
    scenario(plan, async |fleet| {
        let mut jobs = Vec::new();
        for _ in 0..12 {
            jobs.push(fleet.enqueue("shell.task", &Script::new()).await?);
        }
        let client = fleet.client().clone();
        let died = async || {
            let mut died = 0;
            for job in &jobs {
                let found = client.get(job).await?;
                ensure!(found.failures == 0, "{found:?}");
                died += found.returns + found.losses;
            }
            anyhow::Ok(died)
        };
        until("shims died", PATIENCE, async || {
            let died = died().await.map_err(|error| error.to_string())?;
            level(died > 0, || "none".to_owned())
        })
        .await?;
        // What its shims did has put the node out of the running for a while; a new agent is in it at once.
        fleet.set_variable(VARIABLE, "");
        fleet.kill_agent("n1").await?;
        fleet.start_agent("n1")?;
        once_each(fleet, &jobs).await?;
        eprintln!("{} shims died at {point}", died().await?);
        Ok(())
    })
    .await
}

#[tokio::test]
#[ignore = "needs a binary with the feature failpoints: scripts/torture points"]
async fn a_shim_that_dies_with_its_state_on_the_disk_ran_nothing() -> anyhow::Result<()> {
    shims_die("shim::after_state").await
}

#[tokio::test]
#[ignore = "needs a binary with the feature failpoints: scripts/torture points"]
async fn a_shim_that_dies_when_it_is_told_to_go_ran_nothing() -> anyhow::Result<()> {
    shims_die("shim::before_start").await
}

#[tokio::test]
#[ignore = "needs a binary with the feature failpoints: scripts/torture points"]
async fn a_shim_that_dies_before_its_command_has_a_plan_ran_nothing() -> anyhow::Result<()> {
    shims_die("shim::before_plan").await
}
