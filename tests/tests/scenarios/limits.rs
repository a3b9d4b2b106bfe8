//! Time limits in two steps: a job is asked to wrap up, then to stop, then killed; what it has by then is not lost.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tenure_client::proto::{Attempt, JobState, Outcome};
use tenure_tests::intervals::Run;
use tenure_tests::wait::{PATIENCE, level, until};
use tenure_tests::{Fleet, KindPlan, NodePlan, Plan, Script, Step, scenario};

const NOTICE: i32 = 10; // SIGUSR1
const TERM: i32 = 15;

/// Kinds with short limits. What is not retried has one failure.
fn plan() -> Plan {
    let kind = |name: &str| KindPlan::new(name).need("shell", 1).grace("300ms");
    Plan::new()
        .kind(kind("research").line("soft_time_limit = \"1s\"").line("max_failures = 1"))
        .kind(
            kind("brief")
                .line("soft_time_limit = \"1s\"")
                .line("max_failures = 1")
                .node_line("soft_grace = \"300ms\""),
        )
        .kind(kind("killed").line("hard_time_limit = \"2s\"").line("retry = { intervals = [\"100ms\"] }"))
        .kind(kind("silent").line("progress_timeout = \"1s\"").line("max_failures = 1"))
        .kind(kind("long").line("soft_time_limit = \"4s\"").lease("5m"))
        .kind(kind("short").lease("10s"))
        .node(NodePlan::new("n1").slot("shell", 4))
}

fn eight_of_twelve() -> Script {
    Script::new().then(Step::Result("8 of 12 sources".to_owned()))
}

/// Saves a checkpoint as the agent does for a job that asks it to.
fn save(fleet: &Fleet, run: &Run, bytes: &str) -> anyhow::Result<()> {
    let dir = fleet.directory().join(format!("nodes/n1/attempts/{}", run.start.token));
    fs::write(dir.join("checkpoint.tmp"), bytes)?;
    fs::rename(dir.join("checkpoint.tmp"), dir.join("checkpoint"))?;
    Ok(())
}

async fn only_attempt(fleet: &Fleet, job: &str) -> anyhow::Result<Attempt> {
    let mut attempts = fleet.client().attempts(job).await?;
    ensure!(attempts.len() == 1, "{attempts:?}");
    attempts.pop().context("one")
}

async fn partial_result(fleet: &Fleet, job: &str, expected: &str) -> anyhow::Result<()> {
    let result = fleet.client().result(job).await?;
    ensure!(result.partial && result.data == expected.as_bytes().to_vec(), "{result:?}");
    Ok(())
}

#[tokio::test]
async fn a_research_job_that_is_asked_to_wrap_up_returns_what_it_has_as_a_partial_success()
-> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let research = fleet.enqueue("research", &eight_of_twelve().then(Step::Heed(NOTICE))).await?;
        let whole = fleet.enqueue("research", &eight_of_twelve()).await?;
        let job = fleet.state(&research, JobState::Succeeded, PATIENCE).await?;
        ensure!((job.failures, job.attempt) == (0, 1) && job.reason.contains("partial"), "{job:?}");
        ensure!(job.soft_time_limit.is_some_and(|limit| limit.seconds == 1), "{job:?}");
        let attempt = only_attempt(fleet, &research).await?;
        ensure!(attempt.outcome() == Outcome::Succeeded && attempt.partial, "{attempt:?}");
        ensure!((attempt.cause.as_str(), attempt.exit_code) == ("exit", Some(0)), "{attempt:?}");
        partial_result(fleet, &research, "8 of 12 sources").await?;
        let said = fleet.cli(&["job", "result", &research]).await?;
        ensure!(said.stdout == "8 of 12 sources" && said.stderr.contains("it is partial"), "{said:?}");
        let shown = fleet.cli(&["job", "attempts", &research]).await?;
        ensure!(shown.stdout.contains("succeeded in part"), "{shown:?}");

        // One that was done in time is whole.
        fleet.state(&whole, JobState::Succeeded, PATIENCE).await?;
        let result = fleet.client().result(&whole).await?;
        ensure!(!result.partial && !only_attempt(fleet, &whole).await?.partial, "{result:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn what_does_not_wrap_up_is_asked_to_stop_after_its_soft_grace() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        // It does not catch the notice, so that it does not get it: it would die of it.
        let deaf = fleet.enqueue("brief", &eight_of_twelve().wait("never")).await?;
        let heeds = fleet.enqueue("brief", &eight_of_twelve().then(Step::Heed(TERM))).await?;
        let empty = fleet.enqueue("brief", &Script::new().then(Step::Heed(TERM))).await?;
        fleet.state(&deaf, JobState::Dead, PATIENCE).await?;
        let attempt = only_attempt(fleet, &deaf).await?;
        ensure!(attempt.outcome() == Outcome::TimedOut && attempt.partial, "{attempt:?}");
        ensure!(attempt.cause == "soft_limit" && attempt.exit_code.is_none(), "{attempt:?}");
        partial_result(fleet, &deaf, "8 of 12 sources").await?;

        // What ends well when it is asked to stop, and leaves something, has done as it was told.
        fleet.state(&heeds, JobState::Succeeded, PATIENCE).await?;
        partial_result(fleet, &heeds, "8 of 12 sources").await?;
        // What leaves nothing was only ended.
        fleet.state(&empty, JobState::Dead, PATIENCE).await?;
        let attempt = only_attempt(fleet, &empty).await?;
        ensure!(attempt.outcome() == Outcome::TimedOut && !attempt.partial, "{attempt:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn what_is_killed_at_its_hard_limit_hands_its_checkpoint_and_partial_result_to_the_next_attempt()
-> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let stubborn = Script::new()
            .then(Step::TellLeft)
            .then(Step::IgnoreTerm)
            .then(Step::Result("8 of 12".to_owned()));
        let job = fleet.enqueue("killed", &stubborn.wait("never")).await?;
        let run = fleet.started(&job, 1, PATIENCE).await?;
        save(fleet, &run, "sources 1 to 8")?;
        let found = fleet.state(&job, JobState::Succeeded, PATIENCE).await?;
        ensure!((found.failures, found.attempt) == (1, 2), "{found:?}");
        let attempts = fleet.client().attempts(&job).await?;
        let killed = attempts.first().context("two")?;
        ensure!(killed.outcome() == Outcome::TimedOut && killed.cause == "limit", "{attempts:?}");
        ensure!(killed.partial && killed.checkpoint_size == 14, "{attempts:?}");
        let result = fleet.client().result(&job).await?;
        ensure!(result.data == "sources 1 to 8 | 8 of 12" && !result.partial, "{result:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_job_of_which_nothing_is_heard_is_stopped_as_stalled() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let job = fleet.enqueue("silent", &eight_of_twelve().wait("never")).await?;
        let dead = fleet.state(&job, JobState::Dead, PATIENCE).await?;
        ensure!(dead.failures == 1, "{dead:?}");
        let attempt = only_attempt(fleet, &job).await?;
        ensure!(attempt.outcome() == Outcome::Stalled && attempt.cause == "stalled", "{attempt:?}");
        ensure!(attempt.partial, "{attempt:?}");
        partial_result(fleet, &job, "8 of 12 sources").await
    })
    .await
}

/// The shim alone keeps the limit: while it is reached there is neither an agent nor a server.
#[tokio::test]
async fn limits_are_kept_while_agent_and_server_are_dead() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let job = fleet.enqueue("long", &eight_of_twelve().then(Step::Heed(NOTICE))).await?;
        let run = fleet.started(&job, 1, PATIENCE).await?;
        fleet.kill_agent("n1").await?;
        fleet.kill_server().await?;
        fleet.gone(run.start.token, PATIENCE).await?;
        fleet.start_server().await?;
        fleet.start_agent("n1")?;
        let found = fleet.state(&job, JobState::Succeeded, PATIENCE).await?;
        ensure!((found.failures, found.losses, found.attempt) == (0, 0, 1), "{found:?}");
        ensure!(only_attempt(fleet, &job).await?.partial, "it was asked to wrap up");
        partial_result(fleet, &job, "8 of 12 sources").await
    })
    .await
}

/// An agent that is killed before the soft limit, and another one after it: the limit counts from the start of the command.
#[tokio::test]
async fn a_limit_counts_from_the_start_whatever_restarts() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let job = fleet.enqueue("long", &eight_of_twelve().then(Step::Heed(NOTICE))).await?;
        let run = fleet.started(&job, 1, PATIENCE).await?;
        for incarnation in 2..=3 {
            fleet.kill_agent("n1").await?;
            fleet.kill_server().await?;
            fleet.start_server().await?;
            fleet.start_agent("n1")?;
            hello(fleet, incarnation).await?;
        }
        fleet.state(&job, JobState::Succeeded, PATIENCE).await?;
        partial_result(fleet, &job, "8 of 12 sources").await?;
        let log = fleet.log()?;
        let ended = log.of(&job).next().and_then(|run| run.end).context("it ended by itself")?;
        let ran = ended.since(run.start.at);
        ensure!((Duration::from_secs(3)..Duration::from_secs(10)).contains(&ran), "it ran for {ran:?}");
        Ok(())
    })
    .await
}

/// What the server has of a checkpoint outlives the node: the next agent says what the one before had no time to say.
#[tokio::test]
async fn a_checkpoint_that_was_said_outlives_its_node() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let job = fleet.enqueue("short", &Script::new().then(Step::TellLeft).wait("never")).await?;
        let run = fleet.started(&job, 1, PATIENCE).await?;
        save(fleet, &run, "page 7")?;
        fleet.kill_agent("n1").await?;
        fleet.start_agent("n1")?;
        hello(fleet, 2).await?;
        // What a node says is applied in order: its end comes after the checkpoint.
        let other = fleet.enqueue("short", &Script::new()).await?;
        fleet.state(&other, JobState::Succeeded, PATIENCE).await?;
        fleet.kill_agent("n1").await?;
        kill_process(shim(&run)?, Signal::KILL)?;
        fleet.gone(run.start.token, PATIENCE).await?;
        fs::remove_dir_all(fleet.directory().join(format!("nodes/n1/attempts/{}", run.start.token)))?;
        fleet.start_agent("n1")?;
        fleet.state(&job, JobState::Succeeded, PATIENCE).await?;
        let attempts = fleet.client().attempts(&job).await?;
        let lost = attempts.first().context("two")?;
        ensure!(lost.outcome() == Outcome::Lost && lost.checkpoint_size == 6, "{attempts:?}");
        ensure!(fleet.client().result(&job).await?.data == "page 7 | ", "the next attempt goes on from it");
        Ok(())
    })
    .await
}

async fn hello(fleet: &Fleet, incarnation: u64) -> anyhow::Result<()> {
    until("its Hello is applied", PATIENCE, async || {
        let node = fleet.client().node("n1").await.map_err(|error| error.to_string())?;
        level(node.incarnation == incarnation, || format!("{node:?}"))
    })
    .await
}

/// The shim of an execution: the parent of its command.
fn shim(run: &Run) -> anyhow::Result<Pid> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", run.start.pid))?;
    let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
    parent.and_then(Pid::from_raw).context("no parent")
}
