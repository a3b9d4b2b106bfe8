//! Everything fails at random, again and again; then nothing does any more, and all work is done.

use std::time::Duration;

use anyhow::ensure;
use rustix::process::Signal;
use tenure_tests::clock::Moment;
use tenure_tests::proxy::Direction;
use tenure_tests::random::Random;
use tenure_tests::wait::{PATIENCE, level, until};
use tenure_tests::{Fleet, KindPlan, NodePlan, Plan, Script, Step, scenario};

const NODES: [&str; 3] = ["n1", "n2", "n3"];

/// Caps that no storm reaches: a job that is lost again and again is still to be done.
fn kind(name: &str) -> KindPlan {
    KindPlan::new(name)
        .line("max_failures = 1000")
        .line("max_losses = 1000")
        .line("retry = { intervals = [\"200ms\"] }")
        .line("queue_cap = 60")
        // Nodes fail on purpose here, and are well as soon as the fault is over.
        .line("node_backoff = false")
}

fn plan() -> Plan {
    NODES.iter().fold(
        Plan::new()
            .fleet_slot("anthropic", 3)
            .kind(kind("shell.task").need("shell", 1))
            .kind(kind("digest").need("anthropic", 1))
            .kind(kind("site.qa").need("shell", 1).need("anthropic", 1)),
        |plan, node| plan.node(NodePlan::new(node).slot("shell", 2).proxied()),
    )
}

/// The long form.
fn torture() -> bool {
    std::env::var_os("TENURE_TORTURE").is_some()
}

/// Some work: short or long, well behaved or not.
fn work(random: &mut Random) -> Script {
    let length = random.between(Duration::from_millis(20), Duration::from_millis(1_500));
    let script = match random.below(6) {
        0 => Script::new().fail_first(1),
        1 => Script::new().then(Step::IgnoreTerm).then(Step::Daemon),
        2 => Script::new().then(Step::Spawn(2)),
        3 => Script::new().then(Step::Flood(1 << 20)),
        _ => Script::new(),
    };
    script.sleep(length)
}

/// One fault, healed before it returns, so that the next one meets a fleet that is getting up.
async fn fault(fleet: &mut Fleet, random: &mut Random) -> anyhow::Result<&'static str> {
    let node = NODES[usize::try_from(random.below(3))?];
    let moment = random.between(Duration::from_millis(50), Duration::from_millis(1_500));
    Ok(match random.below(7) {
        0 => {
            fleet.kill_server().await?;
            tokio::time::sleep(moment).await;
            fleet.start_server().await?;
            "server killed"
        }
        1 => {
            fleet.kill_agent(node).await?;
            tokio::time::sleep(moment).await;
            fleet.start_agent(node)?;
            "agent killed"
        }
        2 => {
            fleet.agent(node)?.signal(Signal::STOP)?;
            // Now and then for longer than its leases last.
            let long = torture() && random.below(4) == 0;
            tokio::time::sleep(if long { Duration::from_secs(14) } else { moment }).await;
            fleet.agent(node)?.signal(Signal::CONT)?;
            "agent stopped for a moment"
        }
        3 => {
            fleet.server()?.signal(Signal::STOP)?;
            tokio::time::sleep(moment).await;
            fleet.server()?.signal(Signal::CONT)?;
            "server stopped for a moment"
        }
        4 => {
            fleet.proxy(node)?.cut();
            "connection cut"
        }
        5 => {
            let mut agent = fleet.take_agent(node)?;
            agent.signal(Signal::TERM)?;
            ensure!(agent.ended(PATIENCE).await?.success(), "{}", agent.tail());
            fleet.start_agent(node)?;
            "agent restarted"
        }
        _ => {
            let direction = if random.below(2) == 0 { Direction::Up } else { Direction::Down };
            fleet.proxy(node)?.hold(direction);
            tokio::time::sleep(moment).await;
            if random.below(2) == 0 {
                fleet.proxy(node)?.cut();
            }
            fleet.proxy(node)?.release(direction);
            "connection held"
        }
    })
}

#[tokio::test]
async fn whatever_fails_nothing_runs_twice_and_once_it_heals_all_work_is_done() -> anyhow::Result<()> {
    let lasts = Duration::from_secs(if torture() { 200 } else { 20 });
    let mut random = Random::from_environment();
    eprintln!("{random}");
    scenario(plan(), async |fleet| {
        let begun = Moment::now();
        let mut jobs = Vec::new();
        while begun.elapsed() < lasts {
            for _ in 0..random.below(8) {
                let kind = ["shell.task", "digest", "site.qa"][usize::try_from(random.below(3))?];
                match fleet.client().enqueue(&Fleet::job(kind, &work(&mut random))).await {
                    Ok(enqueued) => jobs.push(enqueued.job.id),
                    Err(error) if error.refusal().is_some_and(|refusal| refusal.reason == "QUEUE_FULL") => {}
                    Err(error) => return Err(error.into()),
                }
            }
            let what = fault(fleet, &mut random).await?;
            eprintln!("{:>6.1?} {what}, {} jobs", begun.elapsed(), jobs.len());
            fleet.check().await?;
            tokio::time::sleep(random.between(Duration::ZERO, Duration::from_millis(600))).await;
        }
        for node in NODES {
            fleet.node_live(node).await?;
        }
        // A lease that was lost in the last moment runs out first.
        fleet.all_succeed(&jobs, Duration::from_secs(75)).await?;
        ensure!(jobs.len() > 10, "there was hardly any work: {}", jobs.len());
        // Nothing else was stored, and nothing is charged for what is gone.
        until("nothing lives", PATIENCE, async || {
            let info = fleet.client().server_info().await.map_err(|error| error.to_string())?;
            level((info.live_jobs, info.leases, info.reloads) == (0, 0, 0), || format!("{info:?}"))?;
            let slots = fleet.client().slots().await.map_err(|error| error.to_string())?;
            level(slots.iter().all(|slot| slot.used == 0), || format!("{slots:?}"))
        })
        .await
    })
    .await
}
