//! Attempts inside Python workers: how they end, who is killed for whom, and that never two run at once.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use rustix::process::Signal;
use tenure_client::proto::{Attempt, JobState, Outcome};
use tenure_client::{NewJob, NewWorkflow, Part};
use tenure_tests::process::Process;
use tenure_tests::wait::{PATIENCE, level, until};
use tenure_tests::{Fleet, KindPlan, NodePlan, Plan, binary, python, scenario};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// What the machine of a test is short of is none of its business.
pub(crate) const CALM: &str =
    "[pressure]\nrule = [{ id = \"disk_low\", enabled = false }, { id = \"load_high\", enabled = false }]";

fn plan() -> Plan {
    let quick = "retry = { intervals = [\"100ms\"] }";
    Plan::new()
        .kind(KindPlan::new("py.task").worker().line(quick).line("max_failures = 3"))
        .kind(KindPlan::new("py.async").worker().line(quick))
        .node(NodePlan::new("n1").tables(CALM))
}

/// Starts a worker of a node.
pub(crate) async fn worker(fleet: &Fleet, node: &str, concurrency: u32) -> anyhow::Result<Process> {
    worker_with(fleet, node, concurrency, "-").await
}

/// Starts a worker of a node whose attempts lock what they need: slots as a [`tenure_tests::intervals::Need`] is displayed.
pub(crate) async fn worker_with(
    fleet: &Fleet,
    node: &str,
    concurrency: u32,
    needs: &str,
) -> anyhow::Result<Process> {
    let environment = python::environment().await?;
    let script = binary::repository().join("tests/tests/scenarios/workers/worker.py");
    let text = |path: &std::path::Path| path.display().to_string();
    let uid = rustix::process::geteuid().as_raw();
    let socket = text(&fleet.directory().join(format!("nodes/{node}/workers/{uid}.sock")));
    let (script, directory) = (text(&script), text(fleet.directory()));
    Process::start(
        "a worker",
        &environment.join("bin/python"),
        &["-B", &script, &directory, node, &concurrency.to_string(), needs.trim_matches('-')],
        &fleet.directory().join("logs/worker"),
        fleet.mark(),
        None,
        &[("TENURE_WORKER_SOCKET".to_owned(), socket), ("TEST_TENURE".to_owned(), text(binary::tenure()?))],
    )
}

pub(crate) async fn enqueue(fleet: &Fleet, kind: &str, steps: &str) -> anyhow::Result<String> {
    let job = NewJob::new(kind).payload(steps.to_owned()).content_type("application/json");
    fleet.client().enqueue(&job).await?;
    Ok(job.id().to_owned())
}

/// SIGTERM: it ends what it runs, and then itself.
pub(crate) async fn leave(mut worker: Process) -> anyhow::Result<()> {
    worker.signal(Signal::TERM)?;
    let status = worker.ended(PATIENCE).await?;
    ensure!(status.success(), "the worker ended with {status}\n{}", worker.tail());
    Ok(())
}

pub(crate) async fn attempts(fleet: &Fleet, job: &str, count: usize) -> anyhow::Result<Vec<Attempt>> {
    until("its attempts", PATIENCE, async || {
        let attempts = fleet.client().attempts(job).await.map_err(|error| error.to_string())?;
        level(attempts.len() >= count, || format!("{attempts:?}")).map(|()| attempts)
    })
    .await
}

#[tokio::test]
async fn what_a_function_returns_or_raises_is_how_its_attempt_ends() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        // Nobody is there yet: the job waits, and says for what.
        let first = enqueue(fleet, "py.task", r#"[{"use": 7}, {"result": {"fine": true}}]"#).await?;
        let waits = fleet
            .job_when(&first, "it waits for a worker", PATIENCE, |job| {
                job.deferral.as_ref().is_some_and(|why| why.message.contains("worker"))
            })
            .await?;
        ensure!(waits.attempt == 1, "{waits:?}");
        // With room for all of them: one that meets a full worker is given back, which is another story.
        let worker = worker(fleet, "n1", 8).await?;
        fleet.state(&first, JobState::Succeeded, PATIENCE).await?;
        let result = fleet.client().result(&first).await?;
        ensure!(result.data == r#"{"fine":true}"# && result.content_type == "application/json", "{result:?}");
        let ended = attempts(fleet, &first, 1).await?;
        ensure!(ended[0].usage.get("tokens") == Some(&7) && ended[0].started, "{ended:?}");

        let bad = enqueue(fleet, "py.task", r#"[{"fail": "ValueError"}]"#).await?;
        let malformed = enqueue(fleet, "py.task", "no json").await?;
        let word = enqueue(fleet, "py.task", r#"[{"fail": "permanent"}]"#).await?;
        let host = enqueue(fleet, "py.task", r#"[{"fail": "OSError", "times": 2}, {"result": "x"}]"#).await?;
        let later = enqueue(fleet, "py.task", r#"[{"fail": "retry", "after": 1.5, "times": 1}]"#).await?;
        let again = enqueue(fleet, "py.async", r#"[{"fail": "LookupError", "times": 1}]"#).await?;
        for job in [&bad, &malformed, &word] {
            fleet.state(job, JobState::Dead, PATIENCE).await?;
            let ended = attempts(fleet, job, 1).await?;
            ensure!(ended.len() == 1 && ended[0].outcome() == Outcome::FailedPermanent, "{ended:?}");
        }
        ensure!(attempts(fleet, &bad, 1).await?[0].error == "ValueError: as told");
        for (job, tries) in [(&host, 3), (&later, 2), (&again, 2)] {
            fleet.state(job, JobState::Succeeded, PATIENCE).await?;
            let ended = attempts(fleet, job, tries).await?;
            ensure!(ended.len() == tries && ended[0].outcome() == Outcome::FailedRetryable, "{ended:?}");
        }
        let runs: Vec<_> = fleet.log()?.of(&later).map(|run| (run.start.at, run.end)).collect();
        let pause = runs[1].0.since(runs[0].1.context("its first attempt has ended")?);
        ensure!(pause >= Duration::from_millis(1_450), "tried again after {pause:?}");
        let told = fleet.client().result(&again).await?;
        ensure!(String::from_utf8_lossy(&told.data).contains("\"attempt\":2"), "{told:?}");
        leave(worker).await
    })
    .await
}

#[tokio::test]
async fn a_worker_that_leaves_ends_what_it_runs_and_takes_no_more() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let mut old = worker(fleet, "n1", 1).await?;
        let running = enqueue(fleet, "py.task", r#"[{"wait": "go"}]"#).await?;
        fleet.started(&running, 1, PATIENCE).await?;
        let waiting = enqueue(fleet, "py.task", "[]").await?;
        old.signal(Signal::TERM)?;
        let new = worker(fleet, "n1", 1).await?;
        fleet.state(&waiting, JobState::Succeeded, PATIENCE).await?;
        fleet.open("go")?;
        fleet.all_succeed(&[running], PATIENCE).await?;
        ensure!(old.ended(PATIENCE).await?.success(), "{}", old.tail());
        leave(new).await
    })
    .await
}

#[tokio::test]
async fn a_worker_that_is_killed_loses_what_it_had_and_another_one_runs_it() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let mut first = worker(fleet, "n1", 2).await?;
        let job = enqueue(fleet, "py.task", r#"[{"wait": "go"}]"#).await?;
        fleet.started(&job, 1, PATIENCE).await?;
        first.kill().await?;
        let ended = attempts(fleet, &job, 1).await?;
        ensure!(ended[0].outcome() == Outcome::Lost && ended[0].cause == "worker_died", "{ended:?}");
        let second = worker(fleet, "n1", 2).await?;
        fleet.started(&job, 2, PATIENCE).await?;
        fleet.open("go")?;
        fleet.all_succeed(&[job], PATIENCE).await?;
        leave(second).await
    })
    .await
}

#[tokio::test]
async fn who_is_cancelled_stops_and_who_does_not_is_killed_and_its_neighbour_is_charged_nothing()
-> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let mut first = worker(fleet, "n1", 3).await?;
        let gentle = enqueue(fleet, "py.async", r#"[{"wait": "never"}]"#).await?;
        let neighbour = enqueue(fleet, "py.task", r#"[{"wait": "go"}]"#).await?;
        let deaf = enqueue(fleet, "py.task", r#"[{"deaf": "never"}]"#).await?;
        for job in [&gentle, &neighbour, &deaf] {
            fleet.started(job, 1, PATIENCE).await?;
        }
        fleet.client().cancel(&gentle, "enough").await?;
        fleet.state(&gentle, JobState::Cancelled, PATIENCE).await?;
        first.alive()?;
        fleet.client().cancel(&deaf, "enough").await?;
        fleet.state(&deaf, JobState::Cancelled, PATIENCE).await?;
        ensure!(!first.ended(PATIENCE).await?.success(), "it was killed");
        let second = worker(fleet, "n1", 3).await?;
        fleet.started(&neighbour, 2, PATIENCE).await?;
        fleet.open("go")?;
        fleet.all_succeed(std::slice::from_ref(&neighbour), PATIENCE).await?;
        let ended = attempts(fleet, &neighbour, 2).await?;
        ensure!(ended[0].outcome() == Outcome::Returned && ended[0].cause == "terminated", "{ended:?}");
        let job = fleet.client().get(&neighbour).await?;
        ensure!((job.losses, job.failures, job.returns) == (0, 0, 1), "{job:?}");
        leave(second).await
    })
    .await
}

#[tokio::test]
async fn an_agent_that_is_killed_leaves_no_second_copy_in_a_worker() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        // It does not stop when the stream breaks: the next agent kills it before it says Hello.
        let mut deaf = worker(fleet, "n1", 1).await?;
        let job = enqueue(fleet, "py.task", r#"[{"deaf": "go"}]"#).await?;
        fleet.started(&job, 1, PATIENCE).await?;
        fleet.kill_agent("n1").await?;
        deaf.alive()?;
        fleet.start_agent("n1")?;
        ensure!(!deaf.ended(PATIENCE).await?.success(), "it was killed");
        let next = worker(fleet, "n1", 1).await?;
        fleet.started(&job, 2, PATIENCE).await?;
        fleet.open("go")?;
        fleet.all_succeed(std::slice::from_ref(&job), PATIENCE).await?;
        let ended = attempts(fleet, &job, 2).await?;
        ensure!(ended[0].outcome() == Outcome::Lost, "{ended:?}");
        leave(next).await
    })
    .await
}

#[tokio::test]
async fn an_agent_that_is_restarted_gives_back_what_workers_run_and_they_attach_again() -> anyhow::Result<()>
{
    scenario(plan(), async |fleet| {
        let worker = worker(fleet, "n1", 2).await?;
        let job = enqueue(fleet, "py.task", r#"[{"wait": "go"}]"#).await?;
        fleet.started(&job, 1, PATIENCE).await?;
        let mut agent = fleet.take_agent("n1")?;
        agent.signal(Signal::TERM)?;
        ensure!(agent.ended(PATIENCE).await?.success(), "{}", agent.tail());
        fleet.start_agent("n1")?;
        fleet.started(&job, 2, PATIENCE).await?;
        fleet.open("go")?;
        fleet.all_succeed(std::slice::from_ref(&job), PATIENCE).await?;
        let job = fleet.client().get(&job).await?;
        ensure!((job.losses, job.failures, job.returns) == (0, 0, 1), "{job:?}");
        leave(worker).await
    })
    .await
}

#[tokio::test]
async fn a_worker_that_is_cut_off_or_frozen_is_gone_before_its_job_runs_elsewhere() -> anyhow::Result<()> {
    let plan = plan().node(NodePlan::new("n2").tables(CALM));
    scenario(plan, async |fleet| {
        let mut frozen = worker(fleet, "n1", 1).await?;
        let job = enqueue(fleet, "py.task", r#"[{"deaf": "go"}]"#).await?;
        fleet.started(&job, 1, PATIENCE).await?;
        // Nobody says any more by when it must be gone, and nobody kills it: its own watchdog does.
        let agent = fleet.take_agent("n1")?;
        agent.signal(Signal::STOP)?;
        let status = frozen.ended(PATIENCE).await?;
        ensure!(status.code() == Some(70), "its watchdog ends it: {status}\n{}", frozen.tail());
        let next = worker(fleet, "n2", 1).await?;
        fleet.started(&job, 2, PATIENCE).await?;
        fleet.open("go")?;
        fleet.all_succeed(&[job], PATIENCE).await?;
        agent.signal(Signal::CONT)?;
        let mut agent = agent;
        agent.kill().await?;
        leave(next).await
    })
    .await
}

#[tokio::test]
async fn a_hard_limit_ends_an_attempt_and_kills_for_it_if_it_must() -> anyhow::Result<()> {
    let limited = KindPlan::new("py.task").worker().line("hard_time_limit = \"1s\"").line("max_failures = 1");
    let plan = Plan::new()
        .kind(limited)
        .kind(KindPlan::new("py.async").worker())
        .node(NodePlan::new("n1").tables(CALM));
    scenario(plan, async |fleet| {
        let mut first = worker(fleet, "n1", 2).await?;
        let hears = enqueue(fleet, "py.task", r#"[{"wait": "never"}]"#).await?;
        fleet.state(&hears, JobState::Dead, PATIENCE).await?;
        ensure!(attempts(fleet, &hears, 1).await?[0].outcome() == Outcome::TimedOut);
        first.alive()?;
        let deaf = enqueue(fleet, "py.task", r#"[{"deaf": "never"}]"#).await?;
        fleet.state(&deaf, JobState::Dead, PATIENCE).await?;
        ensure!(attempts(fleet, &deaf, 1).await?[0].outcome() == Outcome::TimedOut);
        ensure!(!first.ended(PATIENCE).await?.success(), "it was killed");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_soft_limit_leaves_eight_of_twelve_as_a_partial_success() -> anyhow::Result<()> {
    let limited = KindPlan::new("py.task")
        .worker()
        .line("soft_time_limit = \"1s\"")
        .line("max_failures = 1")
        .node_line("soft_grace = \"1s\"");
    let plan = Plan::new()
        .kind(limited)
        .kind(KindPlan::new("py.async").worker())
        .node(NodePlan::new("n1").tables(CALM));
    scenario(plan, async |fleet| {
        for source in 0..8 {
            fleet.open(&format!("source-{source}"))?;
        }
        let mut worker = worker(fleet, "n1", 3).await?;
        let research = enqueue(fleet, "py.task", r#"[{"read": 12}]"#).await?;
        let leaves_nothing = enqueue(fleet, "py.task", r#"[{"soft": true}]"#).await?;
        let in_time = enqueue(fleet, "py.task", r#"[{"read": 8}]"#).await?;
        fleet.all_succeed(&[research.clone(), in_time.clone()], PATIENCE).await?;
        let (partial, whole) =
            (fleet.client().result(&research).await?, fleet.client().result(&in_time).await?);
        ensure!(partial.partial && partial.data == "[0,1,2,3,4,5,6,7]", "{partial:?}");
        ensure!(!whole.partial && whole.data == partial.data, "{whole:?}");
        fleet.state(&leaves_nothing, JobState::Dead, PATIENCE).await?;
        let ended = attempts(fleet, &leaves_nothing, 1).await?;
        ensure!(ended[0].outcome() == Outcome::TimedOut && ended[0].cause == "soft_limit", "{ended:?}");
        worker.alive()?;
        leave(worker).await
    })
    .await
}

/// A member of a workflow.
fn member(steps: &str) -> NewJob {
    NewJob::new("py.task").payload(steps.to_owned()).content_type("application/json")
}

/// What a job left, which ends in time.
pub(crate) async fn left(fleet: &Fleet, job: &str) -> anyhow::Result<String> {
    fleet.state(job, JobState::Succeeded, PATIENCE).await?;
    Ok(String::from_utf8(fleet.client().result(job).await?.data.to_vec())?)
}

/// What the last member of a workflow leaves.
async fn comes_to(fleet: &Fleet, part: impl Into<Part>) -> anyhow::Result<String> {
    let workflow = NewWorkflow::new(part);
    fleet.client().submit_workflow(&workflow).await?;
    let members = fleet.client().workflow(workflow.id()).await?.members;
    left(fleet, &members.last().context("it has members")?.job_id).await
}

#[tokio::test]
async fn a_member_in_a_worker_reads_what_came_before_it_however_much_it_is() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let worker = worker(fleet, "n1", 2).await?;
        let gathers = || member(r#"[{"gather": true}]"#);
        let alone = gathers();
        fleet.client().enqueue(&alone).await?;
        ensure!(left(fleet, alone.id()).await? == r#"{"resumed":false,"said":[]}"#);
        let chain = Part::chain([member(r#"[{"result": "first"}]"#), gathers()].map(Part::job));
        let told = comes_to(fleet, chain).await?;
        ensure!(told == r#"{"resumed":true,"said":["first"]}"#, "{told}");

        // More than one message can hold, and one of them died.
        let long = (0..7).map(|_| member(r#"[{"fill": 250000}]"#));
        let all = long.chain([member(r#"[{"fail": "permanent"}]"#), member("[]")]);
        let told = comes_to(fleet, Part::chord(all.map(Part::job), gathers()).at_least(8)).await?;
        let long = ["250000"; 7].join(",");
        ensure!(told == format!(r#"{{"resumed":true,"said":[{long},"dead","succeeded"]}}"#), "{told}");
        leave(worker).await
    })
    .await
}

#[expect(dead_code, reason = "its main reads a command line")]
#[path = "../../../client/examples/worker.rs"]
mod example;

#[tokio::test]
async fn the_worker_of_the_client_crate_does_what_its_example_says() -> anyhow::Result<()> {
    let plan = Plan::new()
        .kind(
            KindPlan::new("greet")
                .worker()
                .line("retry = { intervals = [\"100ms\"] }")
                .line("max_failures = 2"),
        )
        .kind(KindPlan::new("gather").worker())
        .kind(KindPlan::new("sleepy").worker().grace("5s"))
        .node(NodePlan::new("n1").tables(CALM));
    scenario(plan, async |fleet| {
        let uid = rustix::process::geteuid().as_raw();
        let socket = fleet.directory().join(format!("nodes/n1/workers/{uid}.sock")).display().to_string();
        let stop = CancellationToken::new();
        let (mut worker, token) = (JoinSet::new(), stop.clone());
        worker.spawn(async move { example::run(&socket, token).await });

        let hello = enqueue(fleet, "greet", "you").await?;
        let (nobody, bytes) = (enqueue(fleet, "greet", "").await?, NewJob::new("greet").payload(vec![0xff]));
        fleet.client().enqueue(&bytes).await?;
        fleet.state(&hello, JobState::Succeeded, PATIENCE).await?;
        let result = fleet.client().result(&hello).await?;
        ensure!(result.data == "Hello, you!" && result.content_type.starts_with("text/plain"), "{result:?}");
        ensure!(attempts(fleet, &hello, 1).await?[0].usage.get("tokens") == Some(&12));
        fleet.state(&nobody, JobState::Dead, PATIENCE).await?;
        ensure!(attempts(fleet, &nobody, 2).await?.len() == 2, "it was tried again");
        fleet.state(bytes.id(), JobState::Dead, PATIENCE).await?;
        let ended = attempts(fleet, bytes.id(), 1).await?;
        ensure!(ended.len() == 1 && ended[0].outcome() == Outcome::FailedPermanent, "{ended:?}");

        let greets = ["you", "me"].map(|name| Part::job(NewJob::new("greet").payload(name)));
        let told = comes_to(fleet, Part::chord(greets, NewJob::new("gather"))).await?;
        ensure!(told == "Hello, you! Hello, me!", "{told}");

        let sleepy = enqueue(fleet, "sleepy", "").await?;
        fleet.state(&sleepy, JobState::Running, PATIENCE).await?;
        fleet.client().cancel(&sleepy, "enough").await?;
        fleet.state(&sleepy, JobState::Cancelled, PATIENCE).await?;
        stop.cancel();
        worker.join_next().await.context("the worker")???;
        Ok(())
    })
    .await
}
