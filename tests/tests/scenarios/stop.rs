//! Stopping in good order.

use std::time::Duration;

use anyhow::ensure;
use rustix::process::Signal;
use tenure_client::proto::JobState;
use tenure_tests::process::Process;
use tenure_tests::wait::{PATIENCE, level, until};
use tenure_tests::{Fleet, KindPlan, NodePlan, Plan, Script, Step, scenario, tag};

fn plan() -> Plan {
    Plan::new()
        .kind(KindPlan::new("shell.task").need("shell", 1))
        .node(NodePlan::new("n1").slot("shell", 3).line("drain_deadline = \"3s\""))
}

#[tokio::test]
async fn tenure_up_drains_at_the_first_signal_and_leaves_nothing_running() -> anyhow::Result<()> {
    scenario(plan().up(), async |fleet| {
        let ends = fleet
            .enqueue("shell.task", &Script::new().wait("go").then(Step::Result("in time".to_owned())))
            .await?;
        let hangs =
            Script::new().then(Step::IgnoreTerm).then(Step::Daemon).then(Step::Spawn(2)).wait("never");
        let hangs = fleet.enqueue("shell.task", &hangs).await?;
        for job in [&ends, &hangs] {
            fleet.started(job, 1, PATIENCE).await?;
        }
        let mut up = fleet.take_server()?;
        up.signal(Signal::TERM)?;
        fleet.open("go")?;
        let status = up.ended(PATIENCE).await?;
        ensure!(status.success(), "{status}\n{}", up.tail());
        let left = tag::processes(fleet.mark());
        ensure!(left.is_empty(), "left running: {left:#?}");

        // What it knew, it kept: the one that ended has its result, the other was given back uncharged.
        fleet.start_server().await?;
        let job = fleet.state(&ends, JobState::Succeeded, PATIENCE).await?;
        ensure!(job.attempt == 1 && fleet.client().result(&ends).await?.data == "in time", "{job:?}");
        fleet.started(&hangs, 2, PATIENCE).await?;
        let job = fleet.client().get(&hangs).await?;
        ensure!((job.failures, job.losses, job.returns) == (0, 0, 1), "{job:?}");
        fleet.client().cancel(&hangs, "").await?;
        fleet.state(&hangs, JobState::Cancelled, PATIENCE).await?;
        Ok(())
    })
    .await
}

/// `tenure agent --drain` on the host of an agent.
async fn drain(fleet: &Fleet, node: &str) -> anyhow::Result<(bool, String)> {
    let mut args = fleet.agent_args(node)?;
    args.push("--drain".to_owned());
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let log = fleet.directory().join(format!("logs/drain-{node}"));
    let mut drain = Process::tenure("the drain", &args, &log, fleet.mark())?;
    Ok((drain.ended(PATIENCE).await?.success(), drain.tail()))
}

#[tokio::test]
async fn an_agent_that_is_drained_on_its_host_returns_its_jobs_and_its_node_is_away() -> anyhow::Result<()> {
    let plan = plan().node(NodePlan::new("n2").slot("shell", 3));
    scenario(plan, async |fleet| {
        fleet.client().cordon("n2").await?;
        let job = fleet.enqueue("shell.task", &Script::new().then(Step::IgnoreTerm).wait("go")).await?;
        let first = fleet.started(&job, 1, PATIENCE).await?;
        fleet.client().uncordon("n2").await?;
        let (drained, said) = drain(fleet, "n1").await?;
        ensure!(drained, "{said}");
        let mut agent = fleet.take_agent("n1")?;
        let status = agent.ended(PATIENCE).await?;
        ensure!(status.success(), "{status}\n{}", agent.tail());
        ensure!(tag::of_token(fleet.mark(), first.start.token).is_empty(), "its tree is gone");
        let second = fleet.started(&job, 2, Duration::from_secs(5)).await?;
        ensure!(second.start.node == "n2", "{second:?}");
        let found = fleet.client().get(&job).await?;
        ensure!((found.losses, found.returns, found.attempt) == (0, 1, 1), "{found:?}");
        until("the node is away", PATIENCE, async || {
            let node = fleet.client().node("n1").await.map_err(|error| error.to_string())?;
            level(node.state() == tenure_client::proto::NodeState::Away, || format!("{node:?}"))
        })
        .await?;
        fleet.open("go")?;
        fleet.all_succeed(&[job], PATIENCE).await
    })
    .await
}

/// A drain that becomes a hand-over is no drain: who asked for it goes on with it.
#[tokio::test]
async fn a_drain_whose_agent_leaves_its_jobs_is_ended_by_who_asked_for_it() -> anyhow::Result<()> {
    let plan = Plan::new()
        .kind(KindPlan::new("shell.task").need("shell", 1))
        .node(NodePlan::new("n1").slot("shell", 3).line("drain_deadline = \"60s\""));
    scenario(plan, async |fleet| {
        let job = fleet.enqueue("shell.task", &Script::new().wait("go")).await?;
        fleet.started(&job, 1, PATIENCE).await?;
        let mut agent = fleet.take_agent("n1")?;
        let handed_over = async {
            until("it drains", PATIENCE, async || {
                level(agent.tail().contains("the agent drains"), || agent.tail())
            })
            .await?;
            until("its node is shown so", PATIENCE, async || {
                let node = fleet.client().node("n1").await.map_err(|error| error.to_string())?;
                level(node.draining, || format!("{node:?}"))
            })
            .await?;
            agent.signal(Signal::TERM)?;
            ensure!(agent.ended(PATIENCE).await?.success(), "{}", agent.tail());
            until("the other drains", PATIENCE, async || {
                let log = std::fs::read_to_string(fleet.directory().join("logs/drain-n1"));
                let log = log.map_err(|error| error.to_string())?;
                level(log.contains("the agent drains"), || log.clone())
            })
            .await?;
            fleet.open("go")
        };
        let ((drained, said), ()) = tokio::try_join!(drain(fleet, "n1"), handed_over)?;
        ensure!(drained, "{said}");
        fleet.all_succeed(std::slice::from_ref(&job), PATIENCE).await?;
        ensure!(fleet.log()?.of(&job).count() == 1, "it ran once");
        ensure!(tag::processes(fleet.mark()).iter().all(|found| found.token.is_none()), "nothing is left");
        Ok(())
    })
    .await
}

/// The agent of `tenure up` is drained like any other, and a second drain hurries nothing.
#[tokio::test]
async fn tenure_up_drains_when_the_agent_in_it_is_asked_to() -> anyhow::Result<()> {
    scenario(plan().up(), async |fleet| {
        let script = Script::new().wait("go").then(Step::Result("in time".to_owned()));
        let ends = fleet.enqueue("shell.task", &script).await?;
        let hangs = fleet.enqueue("shell.task", &Script::new().then(Step::IgnoreTerm).wait("never")).await?;
        for job in [&ends, &hangs] {
            fleet.started(job, 1, PATIENCE).await?;
        }
        let mut up = fleet.take_server()?;
        let opened = async {
            until("it drains", PATIENCE, async || {
                level(up.tail().contains("the agent drains"), || up.tail())
            })
            .await?;
            up.signal(Signal::USR1)?;
            fleet.open("go")
        };
        let ((drained, said), ()) = tokio::try_join!(drain(fleet, "n1"), opened)?;
        ensure!(drained, "{said}");
        let status = up.ended(PATIENCE).await?;
        ensure!(status.success(), "{status}\n{}", up.tail());
        let left = tag::processes(fleet.mark());
        ensure!(left.is_empty(), "left running: {left:#?}");

        fleet.start_server().await?;
        let job = fleet.state(&ends, JobState::Succeeded, PATIENCE).await?;
        ensure!(job.attempt == 1 && fleet.client().result(&ends).await?.data == "in time", "{job:?}");
        fleet.started(&hangs, 2, PATIENCE).await?;
        let job = fleet.client().get(&hangs).await?;
        ensure!((job.failures, job.losses, job.returns) == (0, 0, 1), "{job:?}");
        fleet.client().cancel(&hangs, "").await?;
        fleet.state(&hangs, JobState::Cancelled, PATIENCE).await?;
        Ok(())
    })
    .await
}

/// No agent runs: the drain is one that takes over what its predecessor left, and ends with it.
#[tokio::test]
async fn a_host_is_drained_though_its_agent_was_stopped() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let script = Script::new().wait("go").then(Step::Result("in time".to_owned()));
        let job = fleet.enqueue("shell.task", &script).await?;
        let run = fleet.started(&job, 1, PATIENCE).await?;
        let mut agent = fleet.take_agent("n1")?;
        agent.signal(Signal::TERM)?;
        ensure!(agent.ended(PATIENCE).await?.success(), "{}", agent.tail());
        ensure!(!tag::of_token(fleet.mark(), run.start.token).is_empty(), "it runs on");
        let drained = drain(fleet, "n1");
        let opened = async {
            until("the drain holds it", PATIENCE, async || {
                let log = std::fs::read_to_string(fleet.directory().join("logs/drain-n1"));
                let log = log.map_err(|error| error.to_string())?;
                level(log.contains("the agent drains"), || log.clone())
            })
            .await?;
            fleet.open("go")
        };
        let ((drained, said), ()) = tokio::try_join!(drained, opened)?;
        ensure!(drained, "{said}");
        fleet.all_succeed(std::slice::from_ref(&job), PATIENCE).await?;
        ensure!(fleet.client().result(&job).await?.data == "in time" && fleet.log()?.of(&job).count() == 1);
        ensure!(tag::processes(fleet.mark()).iter().all(|found| found.token.is_none()), "nothing is left");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_server_that_is_stopped_ends_in_time_and_its_agents_keep_their_jobs() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let job = fleet.enqueue("shell.task", &Script::new().wait("go")).await?;
        let run = fleet.started(&job, 1, PATIENCE).await?;
        fleet.stop_server().await?;
        ensure!(!tag::of_token(fleet.mark(), run.start.token).is_empty(), "it runs on");
        fleet.start_server().await?;
        fleet.open("go")?;
        fleet.all_succeed(std::slice::from_ref(&job), PATIENCE).await?;
        ensure!(fleet.log()?.of(&job).count() == 1, "it ran once");
        Ok(())
    })
    .await
}
