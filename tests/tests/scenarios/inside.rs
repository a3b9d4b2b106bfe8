//! What an attempt in a worker says of itself, and asks, while it runs: how it gets on, what it used, what the next one goes on
//! from, and children that it waits for, staying and not.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use tenure_client::proto::{JobState, Outcome};
use tenure_client::worker::{Attempt, Failure, Output, Wait, Waited, Worker};
use tenure_client::{NewJob, Part};
use tenure_tests::wait::PATIENCE;
use tenure_tests::{Fleet, KindPlan, NodePlan, Plan, scenario};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::workers::{CALM, attempts, enqueue, leave, left, worker_with};

const LONG: Duration = Duration::from_secs(90);
const QUICK: &str = "retry = { intervals = [\"100ms\"] }";
/// One `shell` of the four that there are.
const SHELL: &str = "shell@n1=1/4";

/// Both kinds of a worker, and a command beside them; all of them need the one slot that there is.
fn plan() -> Plan {
    let kind =
        |name: &str| KindPlan::new(name).worker().need("shell", 1).line(QUICK).line("max_failures = 2");
    Plan::new()
        .kind(kind("py.task"))
        .kind(kind("py.async"))
        .kind(KindPlan::new("child").need("shell", 1))
        .node(NodePlan::new("n1").slot("shell", 4).tables(CALM))
}

#[tokio::test]
async fn how_it_gets_on_is_shown_and_what_it_used_is_charged() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let worker = worker_with(fleet, "n1", 4, SHELL).await?;
        let steps = r#"[{"use": 5}, {"progress": 40, "message": "four of ten"}, {"lives": true}, {"wait": "go"}, {"use": 7}]"#;
        let jobs = [enqueue(fleet, "py.task", steps).await?, enqueue(fleet, "py.async", steps).await?];
        for job in &jobs {
            let shown = fleet.job_when(job, "it gets on", PATIENCE, |job| job.progress.is_some()).await?;
            let progress = shown.progress.context("progress")?;
            ensure!((progress.percent, progress.message.as_str()) == (40, "four of ten"), "{progress:?}");
        }
        fleet.open("go")?;
        fleet.all_succeed(&jobs, PATIENCE).await?;
        for job in &jobs {
            let ended = attempts(fleet, job, 1).await?;
            ensure!(ended[0].usage.get("tokens") == Some(&12), "{ended:?}");
        }
        leave(worker).await
    })
    .await
}

#[tokio::test]
async fn a_worker_that_is_killed_leaves_what_its_attempt_used_and_saved() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let first = worker_with(fleet, "n1", 1, SHELL).await?;
        let steps =
            r#"[{"use": 5}, {"save": "four of"}, {"save": "four of ten"}, {"kill": 1}, {"found": true}]"#;
        let job = enqueue(fleet, "py.task", steps).await?;
        let ended = attempts(fleet, &job, 1).await?;
        ensure!(ended[0].outcome() == Outcome::Lost && ended[0].usage.get("tokens") == Some(&5), "{ended:?}");
        drop(first);
        // The second one saves its own; what it was handed is that of the first.
        let second = worker_with(fleet, "n1", 1, SHELL).await?;
        ensure!(left(fleet, &job).await? == "four of ten");
        leave(second).await
    })
    .await
}

#[tokio::test]
async fn an_agent_that_is_killed_leaves_what_attempts_in_workers_said() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let mut first = worker_with(fleet, "n1", 1, SHELL).await?;
        let steps =
            r#"[{"use": 5}, {"save": "four of ten"}, {"progress": 40}, {"deaf": "go"}, {"found": true}]"#;
        let job = enqueue(fleet, "py.task", steps).await?;
        fleet.job_when(&job, "it gets on", PATIENCE, |job| job.progress.is_some()).await?;
        fleet.kill_agent("n1").await?;
        fleet.start_agent("n1")?;
        ensure!(!first.ended(PATIENCE).await?.success(), "it was killed");
        let second = worker_with(fleet, "n1", 1, SHELL).await?;
        let ended = attempts(fleet, &job, 1).await?;
        ensure!(ended[0].outcome() == Outcome::Lost && ended[0].usage.get("tokens") == Some(&5), "{ended:?}");
        fleet.started(&job, 2, PATIENCE).await?;
        fleet.open("go")?;
        ensure!(left(fleet, &job).await? == "four of ten");
        leave(second).await
    })
    .await
}

/// Four parents in a worker each hold `shell` (capacity 4) and wait for four commands that need `shell`.
async fn four_families(fleet: &mut Fleet, kind: &str, wait: &str, told: &str) -> anyhow::Result<()> {
    let worker = worker_with(fleet, "n1", 4, SHELL).await?;
    let steps =
        format!("[{{\"wait\": \"go\"}}, {{\"{wait}\": true, \"children\": [\"child\", 4, \"sleep 100\"]}}]");
    let mut parents = Vec::new();
    for _ in 0..4 {
        parents.push(enqueue(fleet, kind, &steps).await?);
    }
    for parent in &parents {
        fleet.started(parent, 1, PATIENCE).await?;
    }
    // All four hold the slot now; nothing is free for any child.
    fleet.open("go")?;
    fleet.all_succeed(&parents, LONG).await?;
    for parent in &parents {
        let (ends, job) = (left(fleet, parent).await?, fleet.client().get(parent).await?);
        ensure!(ends == told, "{ends}");
        ensure!((job.failures, job.losses, job.attempt) == (0, 0, 1), "{job:?}");
    }
    let children = fleet.log()?.runs.iter().filter(|run| run.start.kind == "child").count();
    ensure!(children == 16, "{children} children ran");
    leave(worker).await
}

#[tokio::test]
async fn four_plain_functions_that_hold_all_slots_end_by_parking() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| four_families(fleet, "py.task", "park", FOUR).await).await
}

#[tokio::test]
async fn four_async_functions_that_hold_all_slots_end_by_parking() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| four_families(fleet, "py.async", "park", FOUR).await).await
}

#[tokio::test]
async fn four_functions_that_hold_all_slots_end_by_detaching() -> anyhow::Result<()> {
    let told = format!("{{\"was\":\"here\"}} {FOUR}");
    scenario(plan(), async |fleet| four_families(fleet, "py.task", "detach", &told).await).await?;
    scenario(plan(), async |fleet| four_families(fleet, "py.async", "detach", &told).await).await
}

const FOUR: &str = "succeeded,succeeded,succeeded,succeeded";

#[tokio::test]
async fn who_waits_for_others_leaves_its_place_in_the_worker_to_them() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        // One attempt at a time: its children could never run beside it.
        let worker = worker_with(fleet, "n1", 1, SHELL).await?;
        let child = r#"[{\"result\": \"well\"}]"#;
        let steps = format!(r#"[{{"park": true, "children": ["py.task", 3, "{child}"]}}]"#);
        let parent = enqueue(fleet, "py.task", &steps).await?;
        fleet.all_succeed(std::slice::from_ref(&parent), LONG).await?;
        ensure!(left(fleet, &parent).await? == "well,well,well");
        leave(worker).await
    })
    .await
}

#[tokio::test]
async fn who_waits_in_a_worker_outlives_the_server_and_is_given_back_by_its_agent() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let worker = worker_with(fleet, "n1", 4, SHELL).await?;
        let steps = r#"[{"park": true, "children": ["child", 2, "wait go"]}]"#;
        let parent = enqueue(fleet, "py.async", steps).await?;
        fleet.job_when(&parent, "it waits", PATIENCE, |job| job.waiting_for.is_some()).await?;
        fleet.kill_server().await?;
        fleet.start_server().await?;
        fleet.node_live("n1").await?;
        let waits = fleet.job_when(&parent, "it waits on", PATIENCE, |job| job.waiting_for.is_some()).await?;
        ensure!(waits.attempt == 1 && waits.returns == 0, "{waits:?}");

        // What runs in workers cannot be handed to the next agent; its children are there for the execution that follows.
        let mut agent = fleet.take_agent("n1")?;
        agent.signal(rustix::process::Signal::TERM)?;
        ensure!(agent.ended(PATIENCE).await?.success(), "{}", agent.tail());
        fleet.start_agent("n1")?;
        fleet.open("go")?;
        fleet.all_succeed(std::slice::from_ref(&parent), LONG).await?;
        ensure!(left(fleet, &parent).await? == "succeeded,succeeded");
        let job = fleet.client().get(&parent).await?;
        ensure!((job.failures, job.losses, job.returns) == (0, 0, 1), "{job:?}");
        leave(worker).await
    })
    .await
}

#[tokio::test]
async fn who_may_not_stay_comes_back_and_who_does_not_go_is_stopped() -> anyhow::Result<()> {
    let kind = |name: &str| KindPlan::new(name).worker().line(QUICK).line("max_failures = 1");
    let plan = Plan::new()
        // Its number would be somebody else's meanwhile: it may never stay.
        .kind(kind("py.async").need("gpu", 1))
        // It may, but does not get back in time what it gave.
        .kind(
            kind("py.task")
                .need("shell", 2)
                .line("reacquire_timeout = \"1s\"")
                .node_line("soft_grace = \"1s\""),
        )
        .kind(KindPlan::new("child").need("shell", 1))
        .node(NodePlan::new("n1").slot("shell", 2).indexed("gpu", &[7]).tables(CALM));
    scenario(plan, async |fleet| {
        let mut worker = worker_with(fleet, "n1", 4, "-").await?;
        // It comes back for each of both, and goes on where it has waited already.
        let family = |step: &str| {
            format!(r#"{{"park": true, "step": "{step}", "children": ["child", 2, "sleep 10"]}}"#)
        };
        let steps = format!("[{}, {}]", family("one"), family("two"));
        let moved = enqueue(fleet, "py.async", &steps).await?;
        fleet.all_succeed(std::slice::from_ref(&moved), LONG).await?;
        ensure!(left(fleet, &moved).await? == "succeeded,succeeded");
        let ended = attempts(fleet, &moved, 3).await?;
        ensure!(ended.len() == 3 && ended[0].cause == "detach" && ended[1].cause == "detach", "{ended:?}");

        let family = r#""stubborn": true, "children": ["child", 1, "wait go"]"#;
        let stubborn = enqueue(fleet, "py.task", &format!("[{{\"park\": true, {family}}}]")).await?;
        fleet.job_when(&stubborn, "it waits", PATIENCE, |job| job.waiting_for.is_some()).await?;
        // Nobody's child: it holds one of both units when the wait is over.
        let other = fleet.enqueue("child", &tenure_tests::Script::new().wait("end")).await?;
        fleet.started(&other, 1, PATIENCE).await?;
        fleet.open("go")?;
        let dead = fleet.state(&stubborn, JobState::Dead, LONG).await?;
        let ended = attempts(fleet, &stubborn, 1).await?;
        ensure!(ended[0].cause == "must_detach", "{dead:?} {ended:?}");
        fleet.open("end")?;
        fleet.all_succeed(&[other], PATIENCE).await?;
        worker.alive()?;
        leave(worker).await
    })
    .await
}

#[tokio::test]
async fn who_says_nothing_is_stalled_and_who_speaks_is_not() -> anyhow::Result<()> {
    let plan = Plan::new()
        .kind(KindPlan::new("py.task").worker().line("progress_timeout = \"4s\"").line("max_failures = 1"))
        .kind(KindPlan::new("py.async").worker())
        .node(NodePlan::new("n1").tables(CALM));
    scenario(plan, async |fleet| {
        let mut worker = worker_with(fleet, "n1", 2, "-").await?;
        let speaks = enqueue(fleet, "py.task", r#"[{"chatter": "go"}]"#).await?;
        let silent = enqueue(fleet, "py.task", r#"[{"save": "half"}, {"soft": true}]"#).await?;
        fleet.state(&silent, JobState::Dead, LONG).await?;
        let ended = attempts(fleet, &silent, 1).await?;
        ensure!(ended[0].outcome() == Outcome::Stalled, "{ended:?}");
        fleet.open("go")?;
        fleet.all_succeed(std::slice::from_ref(&speaks), PATIENCE).await?;
        worker.alive()?;
        leave(worker).await
    })
    .await
}

#[tokio::test]
async fn a_program_that_an_attempt_starts_speaks_for_it() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let worker = worker_with(fleet, "n1", 1, SHELL).await?;
        let steps = r#"[{"command": "usage tokens=9"}, {"command": "fail --retry-after 1s later"}, {"fail": "OSError", "times": 1}]"#;
        let job = enqueue(fleet, "py.task", steps).await?;
        fleet.all_succeed(std::slice::from_ref(&job), PATIENCE).await?;
        let runs: Vec<_> = fleet.log()?.of(&job).map(|run| (run.start.at, run.end)).collect();
        let pause = runs[1].0.since(runs[0].1.context("its first attempt has ended")?);
        ensure!(pause >= Duration::from_millis(950), "tried again after {pause:?}");
        ensure!(attempts(fleet, &job, 2).await?[1].usage.get("tokens") == Some(&9));
        leave(worker).await
    })
    .await
}

#[tokio::test]
async fn an_async_function_is_interrupted_at_its_soft_limit_if_it_asks_for_that() -> anyhow::Result<()> {
    let limited = KindPlan::new("py.async")
        .worker()
        .line("soft_time_limit = \"1s\"")
        .line("max_failures = 1")
        .node_line("soft_grace = \"10s\"");
    let plan = Plan::new()
        .kind(limited)
        .kind(KindPlan::new("py.task").worker())
        .node(NodePlan::new("n1").tables(CALM));
    scenario(plan, async |fleet| {
        for source in 0..8 {
            fleet.open(&format!("source-{source}"))?;
        }
        let worker = worker_with(fleet, "n1", 2, "-").await?;
        let research = enqueue(fleet, "py.async", r#"[{"read": 12}]"#).await?;
        fleet.all_succeed(std::slice::from_ref(&research), PATIENCE).await?;
        let result = fleet.client().result(&research).await?;
        ensure!(result.partial && result.data == "[0,1,2,3,4,5,6,7]", "{result:?}");
        leave(worker).await
    })
    .await
}

/// Has children, says so, and tells how they ended; the second half of it comes back if it may not stay.
async fn parent(attempt: Attempt) -> Result<Output, Failure> {
    attempt.add_usage("tokens", 5).await?;
    attempt.progress(10, "has children").await?;
    attempt.save_checkpoint("some").await?;
    let ends = |ends: &[tenure_client::worker::Input]| {
        let texts = ends.iter().filter_map(|end| end.result.as_ref());
        texts.map(|result| String::from_utf8_lossy(&result.data).into_owned()).collect::<Vec<_>>().join(" ")
    };
    if let Some(state) = &attempt.state {
        let state = String::from_utf8_lossy(&state.data).into_owned();
        return Ok(Output::text(format!("{state}: {}", ends(&attempt.inputs))));
    }
    let jobs = ["a", "b", "c"].map(|name| NewJob::new("rs.child").payload(name));
    let jobs: Vec<_> = (0..).zip(jobs).map(|(index, job)| attempt.child("have", index, job)).collect();
    for enqueued in attempt.enqueue(&jobs).await? {
        enqueued?;
    }
    let wait = Wait::all(jobs.iter().map(NewJob::id)).state("came back", "text/plain");
    if attempt.payload == "detach" {
        return Ok(Output::detach(wait));
    }
    match attempt.wait(&wait).await? {
        Waited::Over(inputs) => Ok(Output::text(format!("stayed: {}", ends(&inputs)))),
        Waited::MustDetach => Ok(Output::detach(wait)),
    }
}

async fn child(attempt: Attempt) -> Result<Output, Failure> {
    if !attempt.check_lease().await?.live {
        return Err(Failure::retry("its lease is lost"));
    }
    Ok(Output::text(format!("{}!", String::from_utf8_lossy(&attempt.payload))))
}

#[tokio::test]
async fn a_worker_of_the_client_crate_has_children_and_waits_for_them() -> anyhow::Result<()> {
    let plan = Plan::new()
        .kind(KindPlan::new("rs.parent").worker().need("shell", 1))
        .kind(KindPlan::new("rs.child").worker().need("shell", 1))
        .node(NodePlan::new("n1").slot("shell", 1).tables(CALM));
    scenario(plan, async |fleet| {
        let uid = rustix::process::geteuid().as_raw();
        let socket = fleet.directory().join(format!("nodes/n1/workers/{uid}.sock"));
        let (stop, mut running) = (CancellationToken::new(), JoinSet::new());
        let worker = Worker::at(socket).job("rs.parent", parent).job("rs.child", child);
        running.spawn(worker.run(stop.clone()));
        for (how, told) in [("park", "stayed: a! b! c!"), ("detach", "came back: a! b! c!")] {
            let job = NewJob::new("rs.parent").payload(how);
            fleet.client().enqueue(&job).await?;
            let result = left(fleet, job.id()).await?;
            ensure!(result == told, "{result}");
            let ended = attempts(fleet, job.id(), 1).await?;
            ensure!(ended.iter().all(|one| one.usage.get("tokens") == Some(&5)), "{ended:?}");
        }
        // A workflow's member may wait as well.
        let member = Part::chain([
            Part::job(NewJob::new("rs.child").payload("x")),
            Part::job(NewJob::new("rs.parent")),
        ]);
        let workflow = tenure_client::NewWorkflow::new(member);
        fleet.client().submit_workflow(&workflow).await?;
        let members = fleet.client().workflow(workflow.id()).await?.members;
        let last = &members.last().context("it has members")?.job_id;
        ensure!(left(fleet, last).await? == "stayed: a! b! c!");
        stop.cancel();
        running.join_next().await.context("the worker")???;
        Ok(())
    })
    .await
}
