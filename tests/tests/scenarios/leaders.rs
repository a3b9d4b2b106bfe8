//! Who leads among several servers of one database: whatever dies or freezes, one leads soon, and never two.

mod deliveries;
mod points;
mod servers;
mod timetables;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use rustix::process::Signal;
use tenure_client::{Client, Options, RetryPolicy};
use tenure_tests::clock::Moment;
use tenure_tests::intervals::Run;
use tenure_tests::process::Process;
use tenure_tests::random::Random;
use tenure_tests::wait::{PATIENCE, level, until};
use tenure_tests::{Fleet, KindPlan, NodePlan, Plan, Script, scenario};
use tokio::task::JoinSet;

use self::servers::{Door, Server};
use crate::restart::load;

/// From the death of a leader to the first commit of the next.
const TAKEOVER: Duration = Duration::from_secs(5);
/// From a resignation to that.
const HANDOVER: Duration = Duration::from_millis(700);

fn plan() -> Plan {
    Plan::new()
        .postgres()
        .kind(KindPlan::new("shell.task").need("shell", 1).lease("60s").line("queue_cap = 40"))
        .node(NodePlan::new("n1").slot("shell", 4).tables(NO_LOAD))
}

/// How busy the machine is, is no matter of these tests.
const NO_LOAD: &str = "[pressure]\nrule = [{ id = \"load_high\", enabled = false }]";

fn torture() -> bool {
    std::env::var_os("TENURE_TORTURE").is_some()
}

/// A fleet without a server of its own, with two servers of which the first leads, and an agent behind a door.
struct Pair {
    leader: Server,
    other: Server,
    door: Door,
    agent: Process,
    client: Client,
    started: usize,
}

impl Pair {
    async fn start(fleet: &mut Fleet) -> anyhow::Result<Self> {
        let mut agent_of_the_fleet = fleet.take_agent("n1")?;
        agent_of_the_fleet.signal(Signal::TERM)?;
        agent_of_the_fleet.ended(PATIENCE).await?;
        fleet.stop_server().await?;
        let leader = Server::start(fleet, "server-1").await?;
        leader.leads(PATIENCE).await?;
        let other = Server::start(fleet, "server-2").await?;
        other.follows(&leader).await?;
        let door = Door::to(&leader).await?;
        let retry = RetryPolicy { give_up_after: Duration::from_secs(60), ..RetryPolicy::default() };
        let client = Client::connect_with(&door.endpoint(), Options { retry, ..Options::default() })?;
        let agent = agent(fleet, &door)?;
        until("the agent is there", PATIENCE, async || {
            client.node("n1").await.map(drop).map_err(|error| format!("{error}\n{}", agent.tail()))
        })
        .await?;
        Ok(Self { leader, other, door, agent, client, started: 2 })
    }

    /// The other one leads now. The one that led takes its place, or a new one does.
    fn swap(&mut self) {
        std::mem::swap(&mut self.leader, &mut self.other);
        self.door.point_at(&self.leader);
    }

    async fn next(&mut self, fleet: &Fleet) -> anyhow::Result<Server> {
        self.started += 1;
        Server::start(fleet, &format!("server-{}", self.started)).await
    }

    async fn enqueue(&self, script: &Script) -> anyhow::Result<String> {
        Ok(self.client.enqueue(&Fleet::job("shell.task", script)).await?.job.id)
    }

    async fn succeed(&self, jobs: &[String]) -> anyhow::Result<()> {
        for job in jobs {
            until(&format!("{job} succeeds"), PATIENCE * 2, async || {
                let job = self.client.get(job).await.map_err(|error| error.to_string())?;
                level(job.state() == tenure_client::proto::JobState::Succeeded, || format!("{job:?}"))
            })
            .await?;
        }
        Ok(())
    }

    /// What must hold at the end, and the end.
    async fn finish(mut self, fleet: &Fleet) -> anyhow::Result<()> {
        let answer = self.client.check_invariants().await?;
        ensure!(answer.violations.is_empty(), "{:#?}", answer.violations);
        fleet.check().await?;
        self.agent.signal(Signal::TERM)?;
        ensure!(self.agent.ended(PATIENCE).await?.success(), "{}", self.agent.tail());
        self.other.stop().await?;
        self.leader.stop().await
    }
}

/// The first run of a job. (The fleet's own client asks a server that is no more.)
async fn started(fleet: &Fleet, job: &str) -> anyhow::Result<Run> {
    until("the job runs", PATIENCE, async || {
        let log = fleet.log().map_err(|error| error.to_string())?;
        log.of(job).next().cloned().ok_or_else(|| format!("{log:?}"))
    })
    .await
}

/// Runs a statement in the fleet's database, while other things go on.
async fn sql(fleet: &Fleet, statement: &str) -> anyhow::Result<()> {
    let cluster = fleet.postgres()?;
    let mut psql = tokio::process::Command::new(cluster.programs().join("psql"));
    psql.envs(cluster.environment()).args([
        "-X",
        "-q",
        "-v",
        "ON_ERROR_STOP=1",
        "-d",
        "test_0",
        "-c",
        statement,
    ]);
    let ran = psql.output().await?;
    ensure!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    Ok(())
}

/// The agent of the plan's node, whose server is the door.
fn agent(fleet: &Fleet, door: &Door) -> anyhow::Result<Process> {
    agent_of(fleet, "n1", &door.endpoint())
}

/// The agent of a node of the plan, with this server.
fn agent_of(fleet: &Fleet, node: &str, endpoint: &str) -> anyhow::Result<Process> {
    let path = |end: &str| fleet.directory().join(format!("nodes/{node}{end}")).display().to_string();
    let (file, data) = (path(".toml"), path(""));
    let args = ["agent", "--config", &file, "--data", &data, "--server", endpoint];
    fleet.process(node, &args)
}

#[tokio::test]
async fn of_three_that_start_at_once_on_a_new_database_one_leads() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        fleet.stop_server().await?;
        let url = fleet.postgres()?.database()?;
        std::fs::write(fleet.directory().join("database-url"), url)?;
        let fleet = &*fleet;
        let (a, b, c) =
            tokio::join!(Server::start(fleet, "a"), Server::start(fleet, "b"), Server::start(fleet, "c"));
        let servers = [a?, b?, c?];
        let leader = until("one leads", PATIENCE, async || {
            for (n, server) in servers.iter().enumerate() {
                if server.info().await?.leader {
                    return Ok(n);
                }
            }
            Err("nobody".to_owned())
        })
        .await?;
        ensure!(servers[leader].info().await.map_err(anyhow::Error::msg)?.epoch == 1, "the first epoch");
        for (n, server) in servers.iter().enumerate().filter(|(n, _)| *n != leader) {
            server.follows(&servers[leader]).await?;
            let info = server.info().await.map_err(anyhow::Error::msg)?;
            ensure!(info.terms == 0, "server {n} never led: {info:?}");
            // What is for the leader is answered with where it is.
            let answer = server.client.enqueue(&Fleet::job("shell.task", &Script::new())).await;
            let Err(tenure_client::Error::Unavailable { last, .. }) = &answer else { bail!("{answer:?}") };
            ensure!(last.reason == "NOT_LEADER" && last.retry_after.is_some(), "{last:?}");
            ensure!(last.message.contains(&servers[leader].grpc.to_string()), "{last:?}");
        }
        for server in servers {
            server.stop().await?;
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_leader_that_is_killed_is_followed_within_five_seconds_and_nothing_is_lost() -> anyhow::Result<()> {
    let kills = if torture() { 50 } else { 5 };
    let mut random = Random::from_environment();
    println!("{random}, {kills} kills");
    scenario(plan(), async |fleet| {
        let mut pair = Pair::start(fleet).await?;
        let long = pair.enqueue(&Script::new().wait("go")).await?;
        let run = started(fleet, &long).await?;
        let stop = Arc::new(AtomicBool::new(false));
        let mut producers = JoinSet::new();
        for _ in 0..2 {
            producers.spawn(load(pair.door.endpoint(), stop.clone()));
        }
        let mut took = Vec::new();
        let mut epoch = 0;
        for _ in 0..kills {
            // A job whose first lease runs out before its agent finds a leader is returned, and that is another test.
            until("the agent is there", PATIENCE, async || {
                let info = pair.leader.info().await?;
                level(info.sessions == 1, || format!("{info:?}"))
            })
            .await?;
            // The moment of the kill is the point of this test.
            tokio::time::sleep(random.between(Duration::from_millis(200), Duration::from_millis(1_500)))
                .await;
            pair.leader.process.kill().await?;
            took.push(pair.other.leads(TAKEOVER * 2).await?);
            pair.swap();
            let info = pair.leader.info().await.map_err(anyhow::Error::msg)?;
            ensure!(info.epoch > epoch, "{info:?}");
            epoch = info.epoch;
            pair.other = pair.next(fleet).await?;
            pair.other.follows(&pair.leader).await?;
        }
        stop.store(true, Ordering::Relaxed);
        let mut jobs = vec![long.clone()];
        while let Some(acknowledged) = producers.join_next().await {
            jobs.extend(acknowledged.context("a producer")??);
        }
        fleet.open("go")?;
        pair.succeed(&jobs).await?;
        let log = fleet.log()?;
        for job in &jobs {
            let runs: Vec<&Run> = log.of(job).collect();
            if runs.len() != 1 {
                bail!("{job} ran {} times: {runs:#?}\n{:#?}", runs.len(), pair.client.attempts(job).await?);
            }
        }
        let found = pair.client.get(&long).await?;
        ensure!(found.token == run.start.token && found.losses + found.returns == 0, "{found:?}");
        took.sort();
        println!("{} jobs; from kill to lead {took:?}", jobs.len());
        // Where the machine has time for it, all; a read of a follower that takes too long lets its patience begin anew.
        let soon = took.iter().filter(|took| **took < TAKEOVER).count();
        ensure!(soon > kills / 2 && (soon == kills || !torture()), "{took:?}");
        pair.finish(fleet).await
    })
    .await
}

#[tokio::test]
async fn a_leader_that_is_stopped_inside_a_commit_writes_nothing_when_it_goes_on() -> anyhow::Result<()> {
    let frozen = Duration::from_secs(if torture() { 30 } else { 8 });
    scenario(plan(), async |fleet| {
        let mut pair = Pair::start(fleet).await?;
        let long = pair.enqueue(&Script::new().wait("go")).await?;
        let run = started(fleet, &long).await?;
        // Commits wait at the table, inside their transaction, which holds the epoch.
        let begun = Moment::now();
        let mut caught = JoinSet::new();
        let client = pair.leader.client.clone();
        caught.spawn(async move {
            tokio::time::sleep(Duration::from_millis(200)).await; // the lock comes first
            client.enqueue(&Fleet::job("shell.task", &Script::new())).await
        });
        let stopped = async {
            // Held for a second: the statement of the commit that comes meanwhile waits for it.
            tokio::time::sleep(Duration::from_millis(700)).await;
            pair.leader.process.signal(Signal::STOP)?;
            anyhow::Ok(Moment::now())
        };
        let lock = "begin; lock table jobs in exclusive mode; select pg_sleep(1.5); commit";
        let (held, at) = tokio::join!(sql(fleet, lock), stopped);
        held?;
        let at = at?;
        let took = pair.other.leads(TAKEOVER).await?;
        println!("from stop to lead {:?}", at.elapsed());
        ensure!(at.elapsed() < TAKEOVER, "{took:?}");
        pair.swap();
        let epoch = pair.leader.info().await.map_err(anyhow::Error::msg)?.epoch;
        let mut jobs = vec![long.clone(), pair.enqueue(&Script::new()).await?];
        while begun.elapsed() < frozen {
            jobs.push(pair.enqueue(&Script::new()).await?);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        pair.other.process.signal(Signal::CONT)?;
        pair.other.follows(&pair.leader).await?;
        let answer = caught.join_next().await.context("the call")??;
        ensure!(answer.is_err(), "it acknowledged under an epoch that was over: {answer:?}");
        let info = pair.leader.info().await.map_err(anyhow::Error::msg)?;
        ensure!((info.epoch, info.reloads) == (epoch, 0), "the new leader saw nothing of it: {info:?}");
        ensure!(pair.other.process.log().contains("deposed"), "{}", pair.other.process.tail());
        fleet.open("go")?;
        pair.succeed(&jobs).await?;
        let found = pair.client.get(&long).await?;
        ensure!(found.token == run.start.token && found.losses + found.returns == 0, "{found:?}");
        // It can lead again, in the same process.
        pair.leader.process.kill().await?;
        pair.other.leads(TAKEOVER).await?;
        pair.swap();
        let info = pair.leader.info().await.map_err(anyhow::Error::msg)?;
        ensure!(info.terms == 2 && info.epoch > epoch, "{info:?}");
        pair.other = pair.next(fleet).await?;
        pair.finish(fleet).await
    })
    .await
}

#[tokio::test]
async fn a_leader_that_is_asked_to_stop_hands_over_at_once() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let mut pair = Pair::start(fleet).await?;
        let long = pair.enqueue(&Script::new().wait("go")).await?;
        let run = started(fleet, &long).await?;
        let mut took = Vec::new();
        for _ in 0..3 {
            let next = pair.next(fleet).await?;
            next.follows(&pair.leader).await?;
            let waiting = std::mem::replace(&mut pair.other, next);
            waiting.stop().await?;
            let asked = Moment::now();
            pair.leader.process.signal(Signal::TERM)?;
            pair.other.leads(TAKEOVER).await?;
            took.push(asked.elapsed());
            pair.swap();
            let next = pair.next(fleet).await?;
            let mut former = std::mem::replace(&mut pair.other, next);
            let status = former.process.ended(Duration::from_secs(10)).await?;
            ensure!(status.success(), "it ended with {status}\n{}", former.process.tail());
            println!(
                "from SIGTERM to lead {:?}, to its end {:?}\n{}",
                took.last(),
                asked.elapsed(),
                former.process.tail()
            );
        }
        // With the last turns of the one that ends, which have their own time.
        ensure!(took.iter().all(|took| *took < HANDOVER * 2), "{took:?}");
        fleet.open("go")?;
        pair.succeed(std::slice::from_ref(&long)).await?;
        let found = pair.client.get(&long).await?;
        ensure!(found.token == run.start.token && found.losses + found.returns == 0, "{found:?}");
        pair.finish(fleet).await
    })
    .await
}

#[tokio::test]
async fn after_a_restart_of_postgres_the_same_server_leads() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let pair = Pair::start(fleet).await?;
        for away in [Duration::from_millis(200), Duration::from_secs(4)] {
            fleet.postgres()?.crash()?;
            tokio::time::sleep(away).await; // how long it is away is the point
            fleet.postgres()?.start_again()?;
            pair.leader.leads(PATIENCE).await?;
            let job = pair.enqueue(&Script::new()).await?;
            pair.succeed(&[job]).await?;
            pair.other.follows(&pair.leader).await?;
        }
        let led = pair.leader.info().await.map_err(anyhow::Error::msg)?;
        let followed = pair.other.info().await.map_err(anyhow::Error::msg)?;
        ensure!((led.terms, followed.terms) == (1, 0), "{led:?} {followed:?}");
        pair.finish(fleet).await
    })
    .await
}

#[tokio::test]
async fn a_leader_that_cannot_renew_stops_although_its_commits_pass() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let mut pair = Pair::start(fleet).await?;
        // It keeps renewals out, and lets commits through, which only look at the key.
        let lock = "begin; select 1 from leader_fence for no key update; select pg_sleep(3.5); commit";
        let mut jobs = Vec::new();
        let stops = async {
            tokio::time::sleep(Duration::from_millis(300)).await; // the lock comes first
            jobs.push(pair.enqueue(&Script::new()).await?);
            let begun = Moment::now();
            until("it stops", Duration::from_secs(4), async || {
                let info = pair.leader.info().await?;
                level(!info.leader && info.reloads > 0, || format!("{info:?}"))
            })
            .await?;
            let led = pair.other.info().await.map_err(anyhow::Error::msg)?;
            ensure!(!led.leader, "the other one led before this one had stopped: {led:?}");
            anyhow::Ok(begun.elapsed())
        };
        let (held, stopped) = tokio::join!(sql(fleet, lock), stops);
        held?;
        println!("from the lock to its end as a leader {:?}", stopped?);
        let other = until("one of them leads", TAKEOVER * 2, async || {
            match (pair.leader.info().await?.leader, pair.other.info().await?.leader) {
                (true, true) => Err("both".to_owned()),
                (false, false) => Err("none".to_owned()),
                (_, other) => Ok(other),
            }
        })
        .await?;
        if other {
            pair.swap();
        }
        pair.other.follows(&pair.leader).await?;
        jobs.push(pair.enqueue(&Script::new()).await?);
        pair.succeed(&jobs).await?;
        pair.finish(fleet).await
    })
    .await
}
