//! Agents and shims that die, restart, or find themselves elsewhere: what runs goes on, once, and its end is stored.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use tenure_client::proto::{JobState, Outcome};
use tenure_tests::clock::Moment;
use tenure_tests::intervals::Run;
use tenure_tests::process::Process;
use tenure_tests::random::Random;
use tenure_tests::wait::{PATIENCE, level, until};
use tenure_tests::{Fleet, KindPlan, NodePlan, Plan, Script, Step, scenario, tag};

/// The long form, of `scripts/torture agents`.
fn torture() -> bool {
    std::env::var_os("TENURE_TORTURE").is_some()
}

/// One kind whose lease is the shortest, one whose lease outlives every outage here.
fn plan(slots: u32) -> Plan {
    Plan::new()
        .kind(KindPlan::new("short").need("shell", 1).lease("10s"))
        .kind(KindPlan::new("long").need("shell", 1).lease("5m"))
        .node(NodePlan::new("n1").slot("shell", slots))
}

/// It ran once, nothing was charged, and its result is there.
async fn undisturbed(fleet: &Fleet, job: &str, result: &str) -> anyhow::Result<()> {
    undisturbed_within(fleet, job, result, PATIENCE).await
}

async fn undisturbed_within(fleet: &Fleet, job: &str, result: &str, within: Duration) -> anyhow::Result<()> {
    let found = fleet.state(job, JobState::Succeeded, within).await?;
    ensure!((found.failures, found.losses, found.returns, found.attempt) == (0, 0, 0, 1), "{found:?}");
    ensure!(fleet.log()?.of(job).count() == 1, "it ran once");
    let stored = fleet.client().result(job).await?;
    ensure!(stored.data == result.as_bytes().to_vec(), "{stored:?}");
    Ok(())
}

fn gated(result: &str) -> Script {
    Script::new().wait("go").then(Step::Result(result.to_owned()))
}

/// Enqueues jobs of a kind and waits until all run.
async fn start(fleet: &Fleet, kind: &str, count: usize) -> anyhow::Result<Vec<(String, Run)>> {
    let mut jobs = Vec::new();
    for i in 0..count {
        jobs.push(fleet.enqueue(kind, &gated(&format!("{kind} {i}"))).await?);
    }
    let mut runs = Vec::new();
    for job in jobs {
        let run = fleet.started(&job, 1, PATIENCE * 2).await?;
        runs.push((job, run));
    }
    Ok(runs)
}

/// The shim of an execution: the parent of its command.
fn shim(run: &Run) -> anyhow::Result<Pid> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", run.start.pid))?;
    let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
    parent.and_then(Pid::from_raw).context("no parent")
}

/// A node is not forgotten while jobs of it may run. Once its host is known to be gone, whoever says so needs not wait for the
/// end of a lease; an agent that comes late has lost it.
#[tokio::test]
async fn a_node_is_forgotten_with_its_jobs_only_by_somebody_who_says_that_it_is_lost() -> anyhow::Result<()> {
    scenario(plan(4).node(NodePlan::new("n2").slot("shell", 4)), async |fleet| {
        fleet.client().cordon("n2").await?;
        let (job, first) = start(fleet, "long", 1).await?.pop().context("one job")?;
        fleet.kill_agent("n1").await?;
        let forget = ["node", "forget", "n1"];
        until("its connection is gone, and its lease is not", PATIENCE, async || {
            let refused = fleet.cli(&forget).await.map_err(|error| error.to_string())?;
            level(refused.code == 1 && refused.stderr.contains("NODE_HOLDS_LEASES"), || {
                format!("{refused:?}")
            })
        })
        .await?;
        ensure!(fleet.client().get(&job).await?.state() == JobState::Running, "nothing was changed");

        // Its host is gone. The job has a lease of five minutes.
        kill_process(shim(&first)?, Signal::KILL)?;
        for left in tag::of_token(fleet.mark(), first.start.token) {
            let pid = Pid::from_raw(i32::try_from(left.pid)?).context("a process")?;
            kill_process(pid, Signal::KILL)?;
        }
        fleet.client().uncordon("n2").await?;
        let lost = fleet.cli(&[&forget[..], &["--lost"]].concat()).await?;
        ensure!(lost.code == 0, "{lost:?}");
        let second = fleet.started(&job, 2, PATIENCE).await?;
        ensure!(second.start.node == "n2" && second.start.token > first.start.token, "{second:?}");

        fleet.start_agent("n1")?;
        fleet.node_live("n1").await?;
        fleet.open("go")?;
        fleet.all_succeed(std::slice::from_ref(&job), PATIENCE).await?;
        let found = fleet.client().get(&job).await?;
        ensure!((found.token, found.losses) == (second.start.token, 1), "{found:?}");
        ensure!(fleet.log()?.of(&job).count() == 2, "two executions");
        Ok(())
    })
    .await
}

/// SIGKILL and SIGTERM in turn, each time with the next agent within a second; for longer than the lease is.
#[tokio::test]
async fn what_runs_outlives_its_agents() -> anyhow::Result<()> {
    scenario(plan(4), async |fleet| {
        let stubborn = Script::new().then(Step::IgnoreTerm).then(Step::Daemon).then(Step::Spawn(3));
        let stubborn = stubborn.wait("go").then(Step::Result("stubborn".to_owned()));
        let tree = fleet.enqueue("short", &stubborn).await?;
        let run = fleet.started(&tree, 1, PATIENCE).await?;
        let mut plain = start(fleet, "short", 1).await?;
        let (plain, _) = plain.pop().context("one job")?;
        until("its children run", PATIENCE, async || {
            let found = tag::of_token(fleet.mark(), run.start.token).len();
            level(found == 5, || format!("{found} processes"))
        })
        .await?;
        let before = tag::of_token(fleet.mark(), run.start.token);
        let begun = Moment::now();
        let mut agents = 1;
        while begun.elapsed() < Duration::from_secs(13) || agents < 5 {
            if agents % 2 == 0 {
                let mut agent = fleet.take_agent("n1")?;
                let asked = Moment::now();
                agent.signal(Signal::TERM)?;
                ensure!(agent.ended(PATIENCE).await?.success(), "{}", agent.tail());
                ensure!(asked.elapsed() < Duration::from_secs(3), "it took {:?} to end", asked.elapsed());
            } else {
                fleet.kill_agent("n1").await?;
            }
            fleet.start_agent("n1")?;
            agents += 1;
            until("its Hello is applied", PATIENCE, async || {
                let node = fleet.client().node("n1").await.map_err(|error| error.to_string())?;
                level(node.incarnation == agents && node.running == 2, || format!("{node:?}"))
            })
            .await?;
            ensure!(tag::of_token(fleet.mark(), run.start.token) == before, "it is the same tree");
        }
        fleet.open("go")?;
        undisturbed(fleet, &tree, "stubborn").await?;
        undisturbed(fleet, &plain, "short 0").await?;
        fleet.gone(run.start.token, PATIENCE).await?;
        Ok(())
    })
    .await
}

/// Its shim is killed with the agent alive, and with the agent dead: either way its tree is killed and it is a loss.
#[tokio::test]
async fn a_killed_shim_takes_its_tree_along_and_is_a_loss() -> anyhow::Result<()> {
    scenario(plan(4), async |fleet| {
        let stubborn =
            Script::new().then(Step::IgnoreTerm).then(Step::Daemon).then(Step::Spawn(2)).wait("go");
        let mut runs = Vec::new();
        for _ in 0..2 {
            let job = fleet.enqueue("long", &stubborn).await?;
            let run = fleet.started(&job, 1, PATIENCE).await?;
            until("its children run", PATIENCE, async || {
                let found = tag::of_token(fleet.mark(), run.start.token).len();
                level(found == 4, || format!("{found} processes"))
            })
            .await?;
            runs.push((job, run));
        }
        kill_process(shim(&runs[0].1)?, Signal::KILL)?;
        fleet.gone(runs[0].1.start.token, PATIENCE).await?;
        fleet.started(&runs[0].0, 2, PATIENCE).await?;
        fleet.kill_agent("n1").await?;
        kill_process(shim(&runs[1].1)?, Signal::KILL)?;
        fleet.start_agent("n1")?;
        fleet.gone(runs[1].1.start.token, PATIENCE).await?;
        fleet.started(&runs[1].0, 2, PATIENCE).await?;
        for (job, _) in &runs {
            let attempts = fleet.client().attempts(job).await?;
            ensure!(attempts.len() == 1 && attempts[0].outcome() == Outcome::Lost, "{attempts:?}");
        }
        fleet.open("go")?;
        let jobs: Vec<String> = runs.into_iter().map(|(job, _)| job).collect();
        fleet.all_succeed(&jobs, PATIENCE).await
    })
    .await
}

/// The new agent knows nothing of what the old one ran, but the tags do; the server waits until the leases end.
#[tokio::test]
async fn after_the_state_directory_was_deleted_the_old_trees_are_killed_and_their_leases_run_out()
-> anyhow::Result<()> {
    scenario(plan(2), async |fleet| {
        let mut runs = start(fleet, "short", 1).await?;
        let (job, run) = runs.pop().context("one job")?;
        fleet.kill_agent("n1").await?;
        fleet.start_agent("n1")?;
        until("its second start", PATIENCE, async || {
            let node = fleet.client().node("n1").await.map_err(|error| error.to_string())?;
            level(node.incarnation == 2, || format!("{node:?}"))
        })
        .await?;
        fleet.kill_agent("n1").await?;
        fs::remove_dir_all(fleet.directory().join("nodes/n1"))?;
        fleet.start_agent("n1")?;
        let gone = fleet.gone(run.start.token, PATIENCE).await?;
        fleet.node_live("n1").await?;
        ensure!(fleet.client().node("n1").await?.incarnation == 1, "it is another instance");
        let second = fleet.started(&job, 2, PATIENCE).await?;
        ensure!(second.start.at > gone, "{second:?}");
        let found = fleet.client().get(&job).await?;
        ensure!((found.failures, found.losses, found.returns) == (0, 1, 0), "{found:?}");
        fleet.open("go")?;
        fleet.all_succeed(&[job], PATIENCE).await
    })
    .await
}

/// An agent on a copy of the directory, under the same name: it gets neither the name nor the jobs.
#[tokio::test]
async fn an_agent_on_a_copy_of_the_state_directory_disturbs_nobody() -> anyhow::Result<()> {
    scenario(plan(2), async |fleet| {
        let mut runs = start(fleet, "short", 1).await?;
        let (job, run) = runs.pop().context("one job")?;
        let (data, copy) = (fleet.directory().join("nodes/n1"), fleet.directory().join("nodes/copy"));
        copy_all(&data, &copy)?;
        let mut args = fleet.agent_args("n1")?;
        args[4] = copy.to_str().context("a path that is no UTF-8")?.to_owned();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let log = fleet.directory().join("logs/copy");
        let mut other = Process::tenure("the copy", &args, &log, fleet.mark())?;
        until("the copy is told", PATIENCE, async || {
            other.alive().map_err(|error| error.to_string())?;
            level(other.log().contains("held by another live instance"), || other.log())
        })
        .await?;
        ensure!(other.log().contains("the state directory is a copy"), "{}", other.tail());
        ensure!(!tag::of_token(fleet.mark(), run.start.token).is_empty(), "it runs on");
        other.signal(Signal::INT)?;
        ensure!(other.ended(PATIENCE).await?.success(), "{}", other.tail());
        fleet.open("go")?;
        undisturbed(fleet, &job, "short 0").await
    })
    .await
}

fn copy_all(from: &Path, to: &Path) -> anyhow::Result<()> {
    let status = std::process::Command::new("cp").arg("-a").args([from, to]).status()?;
    ensure!(status.success(), "the directory is not copied");
    Ok(())
}

/// The host comes back with another boot id: what had ended is reported first, the rest is lost once its leases end.
#[tokio::test]
async fn after_a_reboot_ends_are_reported_and_the_rest_is_lost_when_its_leases_end() -> anyhow::Result<()> {
    if !geteuid().is_root() {
        eprintln!(
            "not root: the boot id cannot be another one; `node-agent/tests/session/adoption.rs` imitates it"
        );
        return Ok(());
    }
    scenario(plan(4), async |fleet| {
        let ended =
            fleet.enqueue("short", &Script::new().wait("end").then(Step::Result("early".to_owned()))).await?;
        let first = fleet.started(&ended, 1, PATIENCE).await?;
        let mut runs = start(fleet, "short", 1).await?;
        let (job, run) = runs.pop().context("one job")?;
        // The agent dies, one job ends under its shim, and then everything is gone at once.
        fleet.kill_agent("n1").await?;
        let killed = Moment::now();
        fleet.open("end")?;
        let exit = |run: &Run| fleet.directory().join(format!("nodes/n1/attempts/{}/exit", run.start.token));
        until("its record is written", PATIENCE, async || level(exit(&first).exists(), || "none".to_owned()))
            .await?;
        kill_process(shim(&run)?, Signal::KILL)?;
        fleet.gone(run.start.token, PATIENCE).await?;
        fleet.start_agent_on_another_boot("n1")?;
        undisturbed(fleet, &ended, "early").await?;
        let second = fleet.started(&job, 2, PATIENCE).await?;
        let after = second.start.at.since(killed);
        ensure!(after > Duration::from_secs(9), "its lease had not ended {after:?} after the last heartbeat");
        let found = fleet.client().get(&job).await?;
        ensure!((found.failures, found.losses, found.returns) == (0, 1, 0), "{found:?}");
        fleet.open("go")?;
        fleet.all_succeed(&[job], PATIENCE).await
    })
    .await
}

/// Many jobs end while nobody hears, and their agent is killed before anybody does.
#[tokio::test]
async fn reports_of_an_outage_are_all_stored_and_nothing_runs_again() -> anyhow::Result<()> {
    let count = if torture() { 200 } else { 30 };
    let plan = plan(count).node(NodePlan::new("n2").slot("shell", 1));
    scenario(plan, async |fleet| {
        fleet.client().cordon("n2").await?;
        let jobs = start(fleet, "long", usize::try_from(count)?).await?;
        fleet.kill_server().await?;
        fleet.open("go")?;
        let spool = fleet.directory().join("nodes/n1/spool");
        until("every end is in the spool", PATIENCE * 2, async || {
            let names = fs::read_dir(&spool).map_err(|error| error.to_string())?;
            let reports = names
                .flatten()
                .filter(|name| name.path().extension().is_some_and(|ext| ext == "report"))
                .count();
            level(reports == usize::try_from(count).unwrap_or(0), || format!("{reports} reports"))
        })
        .await?;
        fleet.kill_agent("n1").await?;
        fleet.start_agent("n1")?;
        fleet.start_server().await?;
        for (i, (job, _)) in jobs.iter().enumerate() {
            undisturbed(fleet, job, &format!("long {i}")).await?;
        }
        until("the spool is empty", PATIENCE, async || {
            let names = fs::read_dir(&spool).map_err(|error| error.to_string())?;
            let reports = names.flatten().filter(|name| name.path().extension().is_some()).count();
            level(reports <= 1, || format!("{reports} files")) // The reserve.
        })
        .await
    })
    .await
}

/// Tables of a node file without the rules on pressure that hundreds of processes on a small machine would break.
pub(crate) fn calm() -> String {
    let rules = ["load_high", "load_busy", "mem_low", "uid_tasks", "cpu_stall"];
    rules.map(|rule| format!("[[pressure.rule]]\nid = \"{rule}\"\nenabled = false\n")).concat()
}

/// Run by `scripts/torture agents`; its figures stand in `docs/torture.md`.
#[tokio::test]
#[ignore = "500 processes"]
async fn an_agent_with_500_running_jobs_restarts_in_two_seconds() -> anyhow::Result<()> {
    let count = 500;
    let plan = Plan::new()
        .kind(KindPlan::new("long").need("shell", 1).lease("5m"))
        .node(NodePlan::new("n1").slot("shell", count).line("credits = 100").tables(&calm()));
    scenario(plan, async |fleet| {
        let mut jobs = Vec::new();
        for _ in 0..count {
            let script = Script::new().sleep(Duration::from_secs(100)).then(Step::Result("slept".to_owned()));
            jobs.push(fleet.enqueue("long", &script).await?);
        }
        until("all run", Duration::from_secs(90), async || {
            let log = fleet.log().map_err(|error| error.to_string())?;
            level(log.runs.len() == jobs.len(), || format!("{} run", log.runs.len()))
        })
        .await?;
        for (start, how) in [(2, Signal::TERM), (3, Signal::KILL), (4, Signal::TERM), (5, Signal::KILL)] {
            let asked = Moment::now();
            let mut agent = fleet.take_agent("n1")?;
            agent.signal(how)?;
            agent.ended(PATIENCE).await?;
            let ended = asked.elapsed();
            fleet.start_agent("n1")?;
            until("its Hello is applied", PATIENCE, async || {
                let node = fleet.client().node("n1").await.map_err(|error| error.to_string())?;
                level(node.incarnation == start, || format!("{node:?}"))
            })
            .await?;
            let restarted = asked.elapsed();
            let node = fleet.client().node("n1").await?;
            eprintln!("{how:?}: ended after {ended:?}, back with {} after {restarted:?}", node.running);
            ensure!(node.running == count, "{node:?}");
            ensure!(restarted < Duration::from_secs(2), "it took {restarted:?}");
        }
        for job in &jobs {
            undisturbed_within(fleet, job, "slept", PATIENCE * 4).await?;
        }
        Ok(())
    })
    .await
}

/// Three agents are restarted one after the other, as for an upgrade, again and again under load.
#[tokio::test]
async fn a_rolling_restart_under_load_loses_nothing_and_charges_nothing() -> anyhow::Result<()> {
    let rounds = if torture() { 10 } else { 2 };
    let nodes = ["n1", "n2", "n3"];
    let plan = nodes.iter().fold(
        Plan::new().kind(KindPlan::new("short").need("shell", 1).lease("10s").line("queue_cap = 100000")),
        |plan, node| plan.node(NodePlan::new(node).slot("shell", 3)),
    );
    scenario(plan, async |fleet| {
        let mut random = Random::from_environment();
        eprintln!("{random}");
        let mut jobs = Vec::new();
        for _ in 0..rounds {
            for node in nodes {
                for _ in 0..12 {
                    let length = random.between(Duration::from_millis(10), Duration::from_millis(2_500));
                    let script = Script::new().sleep(length).then(Step::Result("done".to_owned()));
                    jobs.push(fleet.enqueue("short", &script).await?);
                }
                tokio::time::sleep(random.between(Duration::ZERO, Duration::from_millis(700))).await;
                let mut agent = fleet.take_agent(node)?;
                agent.signal(Signal::TERM)?;
                ensure!(agent.ended(PATIENCE).await?.success(), "{}", agent.tail());
                tokio::time::sleep(random.between(Duration::ZERO, Duration::from_millis(300))).await;
                fleet.start_agent(node)?;
                fleet.node_live(node).await?;
            }
        }
        for job in &jobs {
            let found = fleet.state(job, JobState::Succeeded, PATIENCE * 2).await?;
            let attempts = fleet.client().attempts(job).await?;
            ensure!((found.failures, found.losses) == (0, 0), "{attempts:?}");
            ensure!(fleet.log()?.of(job).count() == 1, "it ran once");
        }
        Ok(())
    })
    .await
}

/// `tenure up` dies with its server; the next one finds its job as it left it, on its own clock.
#[tokio::test]
async fn what_a_killed_tenure_up_ran_goes_on_in_the_next() -> anyhow::Result<()> {
    scenario(plan(2).up(), async |fleet| {
        let mut runs = start(fleet, "long", 1).await?;
        let (job, run) = runs.pop().context("one job")?;
        fleet.kill_server().await?;
        ensure!(!tag::of_token(fleet.mark(), run.start.token).is_empty(), "it runs on");
        fleet.start_server().await?;
        fleet.node_live("n1").await?;
        fleet.open("go")?;
        undisturbed(fleet, &job, "long 0").await
    })
    .await
}
