//! Several servers on one database: whichever of them is asked, the leader answers, and agents end up with it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rustix::process::Signal;
use tenure_client::proto::{JobState, NodeState};
use tenure_client::{Client, Error, NewJob, Options, OwnCertificate, RetryPolicy, TlsFiles};
use tenure_tests::clock::Moment;
use tenure_tests::process::Process;
use tenure_tests::wait::{PATIENCE, level, until};
use tenure_tests::{Fleet, KindPlan, NodePlan, Plan, Script, scenario};
use tokio::task::JoinSet;

use crate::restart::load;

/// After a kill another server leads within this; what the machine does besides is not in it.
const TAKEOVER: Duration = Duration::from_secs(5);
/// What a machine may add that others use, too.
const SLACK: Duration = Duration::from_secs(3);

fn plan() -> Plan {
    plan_with(KindPlan::new("shell.task").need("shell", 1).lease("60s"))
}

fn plan_with(kind: KindPlan) -> Plan {
    let server = "peer_listen = \"127.0.0.1:0\"\n";
    Plan::new().postgres().server_file(server).kind(kind).node(NodePlan::new("n1").slot("shell", 4))
}

/// Another server on the database of a fleet.
struct Another {
    process: Process,
    endpoint: String,
}

impl Another {
    async fn start(fleet: &Fleet, name: &str) -> anyhow::Result<Self> {
        Self::start_at(fleet, name, "127.0.0.1:0").await
    }

    async fn start_at(fleet: &Fleet, name: &str, listen: &str) -> anyhow::Result<Self> {
        let path = |name: &str| fleet.directory().join(name).display().to_string();
        let (file, ready) = (path("server.toml"), path(&format!("ready-{name}")));
        let args = ["server", "--config", &file, "--listen", listen, "--http", "127.0.0.1:0"];
        let args = [&args[..], &["--ready-file", &ready]].concat();
        let log = fleet.directory().join("logs").join(name);
        let mut process = Process::tenure(name, &args, &log, fleet.mark())?;
        let announced = process.ready(Path::new(&ready)).await?;
        let line = announced.lines().find_map(|line| line.strip_prefix("TENURE_SERVER="));
        let endpoint = line.context("it says where it listens")?.to_owned();
        Ok(Self { process, endpoint })
    }

    /// A client of this server alone.
    fn client(&self) -> anyhow::Result<Client> {
        client(&self.endpoint, None)
    }

    /// Waits until it knows whom to hand calls on to, and does not lead itself.
    async fn follows(&self) -> anyhow::Result<()> {
        let client = self.client()?;
        until("it follows", PATIENCE, async || {
            let info = client.server_info().await.map_err(|error| error.to_string())?;
            let kinds = client.kinds().await.map_err(|error| error.to_string())?;
            level(!info.leader && !kinds.is_empty(), || format!("{info:?}"))
        })
        .await
    }

    async fn stop(mut self) -> anyhow::Result<()> {
        self.process.signal(Signal::TERM)?;
        let status = self.process.ended(PATIENCE).await?;
        ensure!(status.success(), "{status}\n{}", self.process.tail());
        Ok(())
    }
}

fn client(endpoint: &str, tls: Option<TlsFiles>) -> anyhow::Result<Client> {
    let retry = RetryPolicy { give_up_after: Duration::from_secs(30), ..RetryPolicy::default() };
    Ok(Client::connect_with(endpoint, Options { retry, tls, ..Options::default() })?)
}

/// Starts the agent of a node anew, by hand, with these servers.
async fn agent(fleet: &mut Fleet, node: &str, servers: &str) -> anyhow::Result<Process> {
    let mut before = fleet.take_agent(node)?;
    before.signal(Signal::TERM)?;
    ensure!(before.ended(PATIENCE).await?.success(), "{}", before.tail());
    start_agent(fleet, node, servers).await
}

async fn start_agent(fleet: &Fleet, node: &str, servers: &str) -> anyhow::Result<Process> {
    let path = |name: String| fleet.directory().join(name).display().to_string();
    let (file, data) = (path(format!("nodes/{node}.toml")), path(format!("nodes/{node}")));
    let args = ["agent", "--config", &file, "--data", &data, "--server", servers];
    let log = fleet.directory().join("logs").join(format!("{node}-again"));
    let mut process = Process::tenure(node, &args, &log, fleet.mark())?;
    until("the agent is welcomed", PATIENCE, async || {
        process.alive().map_err(|error| error.to_string())?;
        level(process.log().contains("the server said Welcome"), || process.tail())
    })
    .await?;
    Ok(process)
}

/// Upgrades of everything, one after the other, while work goes on.
#[tokio::test]
async fn a_rolling_restart_of_servers_and_agents_under_load_loses_and_charges_nothing() -> anyhow::Result<()>
{
    let rounds = if std::env::var_os("TENURE_TORTURE").is_some() { 10 } else { 1 };
    let plan = plan_with(KindPlan::new("shell.task").need("shell", 1).lease("60s").line("queue_cap = 40"));
    let plan = plan.node(NodePlan::new("n2").slot("shell", 4)).node(NodePlan::new("n3").slot("shell", 4));
    scenario(plan, async |fleet| {
        let mut other = Another::start(fleet, "other-0").await?;
        other.follows().await?;
        let servers = format!("{},{}", fleet.endpoint(), other.endpoint);
        let mut agents = Vec::new();
        for node in ["n1", "n2", "n3"] {
            agents.push((node, agent(fleet, node, &servers).await?));
        }
        let long = fleet.enqueue("shell.task", &Script::new().wait("go")).await?;
        let run = fleet.started(&long, 1, PATIENCE).await?;
        let stop = Arc::new(AtomicBool::new(false));
        let mut producers = JoinSet::new();
        for _ in 0..3 {
            producers.spawn(load(servers.clone(), stop.clone()));
        }
        let mut ran = 0;
        for round in 0..rounds {
            // The one of the fleet leads first; then the other one does, and is the next to go.
            fleet.stop_server().await?;
            leads(&other.endpoint).await?;
            fleet.start_server().await?;
            ran = more_ran(fleet, ran).await?;
            let listen = other.endpoint.trim_start_matches("http://").to_owned();
            other.stop().await?;
            leads(&fleet.endpoint()).await?;
            other = Another::start_at(fleet, &format!("other-{}", round + 1), &listen).await?;
            other.follows().await?;
            ran = more_ran(fleet, ran).await?;
            for (node, process) in &mut agents {
                process.signal(Signal::TERM)?;
                ensure!(process.ended(PATIENCE).await?.success(), "{}", process.tail());
                *process = start_agent(fleet, node, &servers).await?;
                ran = more_ran(fleet, ran).await?;
            }
        }
        stop.store(true, Ordering::Relaxed);
        let mut jobs = vec![long.clone()];
        while let Some(acknowledged) = producers.join_next().await {
            jobs.extend(acknowledged.context("a producer")??);
        }
        ensure!(jobs.len() > 20, "there was hardly any load: {} jobs", jobs.len());
        fleet.open("go")?;
        fleet.all_succeed(&jobs, PATIENCE * 2).await?;
        for job in &jobs {
            let found = fleet.client().get(job).await?;
            ensure!(found.failures + found.losses == 0, "{}", fleet.describe(job).await);
            ensure!(fleet.log()?.of(job).count() == 1, "{}", fleet.describe(job).await);
        }
        let found = fleet.client().get(&long).await?;
        ensure!(found.token == run.start.token, "it was not touched: {found:?}");
        for (_, process) in agents {
            end(process).await?;
        }
        other.stop().await
    })
    .await
}

/// A frozen leader keeps its connections, and says nothing: the agent does not wait for it as long as its lease lasts.
#[tokio::test]
async fn a_leader_that_freezes_costs_an_agent_that_knows_another_server_nothing() -> anyhow::Result<()> {
    let plan = plan_with(KindPlan::new("shell.task").need("shell", 1).lease("20s"));
    scenario(plan, async |fleet| {
        let other = Another::start(fleet, "other").await?;
        other.follows().await?;
        let servers = format!("{},{}", fleet.endpoint(), other.endpoint);
        let agent = agent(fleet, "n1", &servers).await?;
        let job = fleet.enqueue("shell.task", &Script::new().wait("go")).await?;
        let run = fleet.started(&job, 1, PATIENCE).await?;
        let client = other.client()?;
        fleet.server()?.signal(Signal::STOP)?;
        leads(&other.endpoint).await?;
        until("the agent is with the other server", Duration::from_secs(14), async || {
            let node = client.node("n1").await.map_err(|error| error.to_string())?;
            level(node.state() == NodeState::Live, || format!("{node:?}\n{}", agent.tail()))
        })
        .await?;
        fleet.open("go")?;
        until("the job succeeds", PATIENCE, async || {
            let found = client.get(&job).await.map_err(|error| error.to_string())?;
            level(found.state() == JobState::Succeeded, || format!("{found:?}"))
        })
        .await?;
        let found = client.get(&job).await?;
        ensure!(found.token == run.start.token && found.losses + found.returns == 0, "{found:?}");
        fleet.server()?.signal(Signal::CONT)?;
        leads(&other.endpoint).await?;
        end(agent).await?;
        other.stop().await
    })
    .await
}

/// Waits until work went on: some more executions than there were. How many there are.
async fn more_ran(fleet: &Fleet, before: usize) -> anyhow::Result<usize> {
    until("work goes on", PATIENCE, async || {
        let ran = fleet.log().map_err(|error| error.to_string())?.runs.len();
        level(ran >= before + 8, || format!("{ran} after {before}"))?;
        Ok(ran)
    })
    .await
}

/// Waits until the server at this address leads.
async fn leads(endpoint: &str) -> anyhow::Result<()> {
    let client = client(endpoint, None)?;
    until("the other server leads", TAKEOVER + SLACK, async || {
        let info = client.server_info().await.map_err(|error| error.to_string())?;
        level(info.leader, || format!("{info:?}"))
    })
    .await
}

async fn end(mut process: Process) -> anyhow::Result<()> {
    process.signal(Signal::TERM)?;
    let status = process.ended(PATIENCE).await?;
    ensure!(status.success(), "{status}\n{}", process.tail());
    Ok(())
}

#[tokio::test]
async fn any_server_takes_calls_and_an_agent_that_knows_a_follower_serves_the_leader() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let two = Another::start(fleet, "two").await?;
        two.follows().await?;
        let here = two.client()?;
        let agent = agent(fleet, "n1", &two.endpoint).await?;
        let node = here.node("n1").await?;
        ensure!(node.state() == NodeState::Live, "{node:?}");

        let job = Fleet::job("shell.task", &Script::new());
        let enqueued = here.enqueue(&job).await?;
        ensure!(!enqueued.deduplicated, "{enqueued:?}");
        ensure!(fleet.client().enqueue(&job).await?.deduplicated, "it is the same job at the leader");
        let waited = here.wait(job.id(), Some(PATIENCE)).await?;
        ensure!(waited.job.state() == JobState::Succeeded, "{waited:?}");
        let many: Vec<NewJob> = (0..60).map(|_| Fleet::job("shell.task", &Script::new())).collect();
        let stored: Vec<String> = here
            .enqueue_batch(&many)
            .await
            .into_iter()
            .map(|stored| Ok(stored?.job.id))
            .collect::<Result<_, Error>>()?;
        fleet.all_succeed(&stored, PATIENCE * 2).await?;
        let told = fleet.cli(&["--server", &two.endpoint, "kind", "list", "-o", "name"]).await?;
        ensure!(told.code == 0 && told.stdout.contains("shell.task"), "{told:?}");
        let answer = here.check_invariants().await?;
        ensure!(answer.violations.is_empty() && !answer.checked.is_empty(), "{answer:?}");
        end(agent).await?;
        two.stop().await
    })
    .await
}

#[tokio::test]
async fn when_the_leader_is_killed_callers_agents_and_watches_go_on_with_the_next() -> anyhow::Result<()> {
    // No more than the machine works off in time, whatever else it does.
    let kind = KindPlan::new("shell.task").need("shell", 1).lease("60s").line("queue_cap = 40");
    scenario(plan_with(kind), async |fleet| {
        let two = Another::start(fleet, "two").await?;
        let three = Another::start(fleet, "three").await?;
        two.follows().await?;
        three.follows().await?;
        let all = format!("{},{},{}", fleet.endpoint(), two.endpoint, three.endpoint);
        let agent = agent(fleet, "n1", &all).await?;
        let held = fleet.enqueue("shell.task", &Script::new().wait("go")).await?;
        let run = fleet.started(&held, 1, PATIENCE).await?;
        // Each by one server alone: a follower before, and perhaps after.
        let mut watches = JoinSet::new();
        for server in [&two, &three] {
            let (client, held) = (server.client()?, held.clone());
            watches.spawn(async move {
                let mut watch = client.watch(held);
                let mut versions = Vec::new();
                while let Some(job) = watch.next().await? {
                    versions.push((job.version, job.state()));
                }
                anyhow::Ok(versions)
            });
        }
        let stop = Arc::new(AtomicBool::new(false));
        let mut producers = JoinSet::new();
        for endpoints in [&all, &two.endpoint, &three.endpoint] {
            producers.spawn(load(endpoints.clone(), stop.clone()));
        }
        // Calls are under way.
        tokio::time::sleep(Duration::from_millis(700)).await;
        fleet.kill_server().await?;
        let killed = Moment::now();
        let leaders = [two.client()?, three.client()?];
        until("another server leads", PATIENCE, async || {
            for client in &leaders {
                if client.server_info().await.is_ok_and(|info| info.leader) {
                    return Ok(());
                }
            }
            Err("nobody leads".to_owned())
        })
        .await?;
        let took = killed.elapsed();
        ensure!(took < TAKEOVER + SLACK, "nobody led for {took:?}");
        let client = client(&all, None)?;
        let after = Fleet::job("shell.task", &Script::new());
        until("there is room", PATIENCE, async || {
            client.enqueue(&after).await.map(drop).map_err(|error| error.to_string())
        })
        .await?;
        let waited = client.wait(after.id(), Some(PATIENCE)).await?;
        ensure!(waited.job.state() == JobState::Succeeded, "the agent follows the new leader: {waited:?}");
        stop.store(true, Ordering::Relaxed);

        // The first server comes back, and follows.
        fleet.start_server().await?;
        fleet.open("go")?;
        let mut jobs = vec![held.clone(), after.id().to_owned()];
        while let Some(acknowledged) = producers.join_next().await {
            jobs.extend(acknowledged.context("a producer")??);
        }
        ensure!(jobs.len() > 20, "there was hardly any load: {} jobs", jobs.len());
        fleet.all_succeed(&jobs, PATIENCE * 2).await?;
        while let Some(versions) = watches.join_next().await {
            let versions = versions.context("a watch")??;
            ensure!(versions.last().is_some_and(|(_, state)| *state == JobState::Succeeded), "{versions:?}");
            ensure!(versions.is_sorted_by(|(one, _), (next, _)| one < next), "{versions:?}");
        }
        let found = fleet.client().get(&held).await?;
        ensure!(found.token == run.start.token && found.losses + found.returns == 0, "{found:?}");
        let log = fleet.log()?;
        for job in &jobs {
            ensure!(log.of(job).count() == 1, "{job} ran {} times", log.of(job).count());
        }
        println!("{} jobs, nobody led for {took:?}", jobs.len());
        end(agent).await?;
        two.stop().await?;
        three.stop().await
    })
    .await
}

#[tokio::test]
async fn over_tls_a_confined_producer_stays_confined_through_a_follower() -> anyhow::Result<()> {
    let file = "peer_listen = \"127.0.0.1:0\"\n[producers.web]\nkinds = [\"shell.task\"]\n";
    let plan = plan().kind(KindPlan::new("other.task").need("shell", 1)).server_file(file).hosts();
    scenario(plan, async |fleet| {
        let certs = fleet.directory().join("certs");
        let made = ["certs", "client", "web", "--role", "producer", "--dir", &certs.display().to_string()];
        ensure!(fleet.cli(&made).await?.code == 0);
        let files = |certs: &Path, name: &str| TlsFiles {
            ca: certs.join("ca.pem"),
            own: Some(OwnCertificate {
                cert: certs.join(format!("{name}.pem")),
                key: certs.join(format!("{name}-key.pem")),
            }),
        };
        let two = Another::start(fleet, "two").await?;
        let admin = client(&two.endpoint, Some(files(&certs, "admin-tests")))?;
        until("calls are handed on", PATIENCE, async || {
            let kinds = admin.kinds().await.map_err(|error| error.to_string())?;
            level(kinds.len() == 2, || format!("{kinds:?}"))
        })
        .await?;
        ensure!(!admin.server_info().await?.leader, "it follows");
        let web = client(&two.endpoint, Some(files(&certs, "producer-web")))?;
        let own = web.enqueue(&Fleet::job("shell.task", &Script::new())).await?.job;
        ensure!(own.producer == "web", "{own:?}");
        let refused = web.enqueue(&Fleet::job("other.task", &Script::new())).await;
        let refused = refused.err().context("that kind is not its own")?;
        ensure!(refused.refusal().is_some_and(|no| no.reason == "NOT_ALLOWED"), "{refused:?}");
        let others = admin.enqueue(&Fleet::job("other.task", &Script::new())).await?.job;
        let unseen = web.get(&others.id).await.err().context("that job is not its own")?;
        ensure!(unseen.refusal().is_some_and(|no| no.reason == "JOB_NOT_FOUND"), "{unseen:?}");
        fleet.all_succeed(&[own.id, others.id], PATIENCE).await?;
        two.stop().await
    })
    .await
}
