//! Two leaders at once, forced: their renewals are skipped and their trust never ends. What is left is what each commit
//! checks.

use anyhow::{Context as _, bail, ensure};
use rustix::process::Signal;
use tenure_client::proto::{Job, JobState, NodeState};
use tenure_client::{Client, Error};
use tenure_tests::process::Process;
use tenure_tests::wait::{PATIENCE, level, until};
use tenure_tests::{Fleet, KindPlan, NodePlan, Plan, Script, scenario};

use super::agent_of;
use super::servers::Server;
use crate::points;

/// Pairs of leaders, each of which ends with the second one.
const ROUNDS: usize = 3;

/// Jobs that both leaders have queued and would grant.
const QUEUED: usize = 4;

fn plan() -> Plan {
    let kind = KindPlan::new("shell.task").need("shell", 1).lease("60s");
    let spares = (1..=ROUNDS).map(|n| NodePlan::new(&format!("m{n}")).slot("shell", 2));
    spares.fold(
        Plan::new()
            .postgres()
            .variable(points::VARIABLE, "election::renew=return;election::trust=return")
            .kind(kind)
            .node(NodePlan::new("n1").slot("shell", 2)),
        Plan::node,
    )
}

async fn when(client: &Client, job: &str, wanted: JobState) -> anyhow::Result<Job> {
    until(&format!("{job} is {wanted:?}"), PATIENCE, async || {
        let found = client.get(job).await.map_err(|error| error.to_string())?;
        level(found.state() == wanted, || format!("{found:?}"))?;
        Ok(found)
    })
    .await
}

async fn live(server: &Server, node: &str, agent: &Process) -> anyhow::Result<()> {
    until(&format!("{node} is with the leader"), PATIENCE, async || match server.client.node(node).await {
        Ok(found) if found.state() == NodeState::Live => Ok(()),
        other => Err(format!("{other:?}\n{}", agent.tail())),
    })
    .await
}

async fn enqueue(client: &Client, script: &Script) -> anyhow::Result<String> {
    Ok(client.enqueue(&Fleet::job("shell.task", script)).await?.job.id)
}

fn epoch_of(job: &Job) -> u64 {
    job.token >> 40
}

#[tokio::test]
#[ignore = "needs a binary with the feature failpoints: scripts/torture points"]
async fn of_two_leaders_at_once_one_grants_and_stores_nothing() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        for node in std::iter::once("n1".to_owned()).chain((1..=ROUNDS).map(|n| format!("m{n}"))) {
            let mut agent = fleet.take_agent(&node)?;
            agent.signal(Signal::INT)?;
            agent.ended(PATIENCE).await?;
        }
        fleet.stop_server().await?;
        let mut leader = Server::start(fleet, "server-0").await?;
        leader.leads(PATIENCE).await?;
        // It knows both servers by their own addresses, and follows whoever leads.
        let mut n1 = agent_of(fleet, "n1", &format!("http://{}", leader.grpc))?;
        live(&leader, "n1", &n1).await?;
        let long = enqueue(&leader.client, &Script::new().wait("go")).await?;
        let token = when(&leader.client, &long, JobState::Running).await?.token;
        let mut jobs = vec![long.clone()];
        for round in 1..=ROUNDS {
            // n1 is full, and more waits than it will take.
            let gate = format!("go-{round}");
            let short = enqueue(&leader.client, &Script::new().wait(&gate)).await?;
            super::started(fleet, &short).await?;
            let mut queued = Vec::new();
            for _ in 0..QUEUED {
                queued.push(enqueue(&leader.client, &Script::new()).await?);
            }
            let next = Server::start(fleet, &format!("server-{round}")).await?;
            next.leads(PATIENCE).await?;
            let old = leader.info().await.map_err(anyhow::Error::msg)?;
            let new = next.info().await.map_err(anyhow::Error::msg)?;
            ensure!(old.leader && new.leader && old.epoch < new.epoch, "two leaders: {old:?} {new:?}");

            // The new one has a node of its own, and grants what the old one has queued as well.
            let node = format!("m{round}");
            let mut fresh = agent_of(fleet, &node, &format!("http://{}", next.grpc))?;
            for job in &queued {
                let done = when(&next.client, job, JobState::Succeeded).await?;
                ensure!(epoch_of(&done) == new.epoch, "{done:?} of {new:?}");
                let run = super::started(fleet, job).await?;
                ensure!(run.start.node == node && run.start.token == done.token, "{run:?} of {done:?}");
            }
            let old = leader.info().await.map_err(anyhow::Error::msg)?;
            ensure!(old.leader && old.sessions == 1, "n1 is still with the old one: {old:?}");

            // n1 has room now, by the old leader's word and by nobody else's: its next turns would grant and store.
            fleet.open(&gate)?;
            let mut refused = Vec::new();
            for _ in 0..8 {
                let job = Fleet::job("shell.task", &Script::new());
                match leader.client.enqueue(&job).await {
                    Err(Error::Unavailable { .. }) => refused.push(job.id().to_owned()),
                    other => bail!("it acknowledged in an epoch that is over: {other:?}"),
                }
            }
            leader.follows(&next).await?;
            ensure!(leader.process.log().contains("deposed"), "{}", leader.process.tail());
            for job in &refused {
                let found = next.client.get(job).await;
                let reason = found.as_ref().err().and_then(Error::refusal).map(|no| no.reason.clone());
                ensure!(reason.as_deref() == Some("JOB_NOT_FOUND"), "{job}: {found:?}");
            }
            // What ended under the old one is stored by the new one, under the token of its grant.
            live(&next, "n1", &n1).await?;
            let done = when(&next.client, &short, JobState::Succeeded).await?;
            ensure!(epoch_of(&done) == old.epoch && done.returns + done.losses == 0, "{done:?}");
            fresh.signal(Signal::INT)?;
            ensure!(fresh.ended(PATIENCE).await?.success(), "{}", fresh.tail());
            jobs.extend(queued.into_iter().chain([short]));
            std::mem::replace(&mut leader, next).stop().await?;
        }
        fleet.open("go")?;
        let done = when(&leader.client, &long, JobState::Succeeded).await?;
        ensure!(done.token == token && done.returns + done.losses == 0, "{done:?}");
        let log = fleet.log()?;
        for job in &jobs {
            let runs: Vec<_> = log.of(job).collect();
            ensure!(runs.len() == 1, "{runs:#?}");
        }
        ensure!(log.runs.len() == jobs.len(), "nothing else ran: {log:#?}");
        let answer = leader.client.check_invariants().await?;
        ensure!(answer.violations.is_empty(), "{:#?}", answer.violations);
        n1.signal(Signal::INT)?;
        ensure!(n1.ended(PATIENCE).await.context("n1")?.success(), "{}", n1.tail());
        leader.stop().await
    })
    .await
}
