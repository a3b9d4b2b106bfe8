//! Three producers at once, three kinds of slots.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use tenure_client::Client;
use tenure_tests::clock::Moment;
use tenure_tests::idle::{self, Idle, Waiting};
use tenure_tests::wait::{PATIENCE, until};
use tenure_tests::{Fleet, KindPlan, NodePlan, Plan, Script, scenario};

/// No slot that waiting work fits stays free for longer.
const IDLE_AT_MOST: Duration = Duration::from_millis(200);
/// A machine that others use too may stall for longer than that; not again and again.
const ROUNDS: u32 = 5;
/// Every producer has fired everything by then.
const FIRE_WITHIN: Duration = Duration::from_secs(2);

fn plan() -> Plan {
    Plan::new()
        .fleet_slot("anthropic", 6)
        .kind(KindPlan::new("site.qa").need("browser", 1))
        .kind(KindPlan::new("shell.task").need("shell", 1))
        .kind(KindPlan::new("digest").need("anthropic", 1))
        .node(NodePlan::new("n1").slot("browser", 2).slot("shell", 4))
}

/// One producer: jobs of its kind, a moment apart. Returns them with the moment at which each was acknowledged.
async fn produce(endpoint: String, kind: &'static str, count: u32) -> anyhow::Result<Vec<(String, Moment)>> {
    let client = Client::connect(&endpoint)?;
    let mut jobs = Vec::new();
    for i in 0..count {
        let length = Duration::from_millis(350 + 57 * u64::from(i % 5));
        let enqueued = client.enqueue(&Fleet::job(kind, &Script::new().sleep(length))).await?;
        jobs.push((enqueued.job.id, Moment::now()));
    }
    Ok(jobs)
}

/// All three fire; every job ends; returns the longest time in which a slot was idle that waiting work fits.
async fn round(fleet: &Fleet) -> anyhow::Result<Idle> {
    let begun = Moment::now();
    let at = || fleet.endpoint();
    let (qa, shell, digest) = tokio::try_join!(
        produce(at(), "site.qa", 5),
        produce(at(), "shell.task", 10),
        produce(at(), "digest", 15),
    )?;
    ensure!(begun.elapsed() < FIRE_WITHIN, "the producers took {:?}", begun.elapsed());
    let mut waiting = Vec::new();
    for (kind, jobs) in [("site.qa", qa), ("shell.task", shell), ("digest", digest)] {
        let choices = vec![fleet.plan().needs(kind, "n1")];
        waiting.extend(jobs.into_iter().map(|(job, since)| Waiting { job, since, choices: choices.clone() }));
    }
    let jobs: Vec<String> = waiting.iter().map(|waiting| waiting.job.clone()).collect();
    fleet.all_succeed(&jobs, PATIENCE).await?;

    let mut log = fleet.log()?;
    log.runs.retain(|run| jobs.contains(&run.start.job));
    ensure!(log.runs.len() == jobs.len(), "{} executions of {} jobs", log.runs.len(), jobs.len());
    let handovers = idle::handovers(&log);
    let median = handovers.get(handovers.len() / 2);
    let idle = idle::longest(&log, &waiting).context("nothing ran")?;
    eprintln!("handovers: {}, median {median:?}, longest {:?}; {idle:?}", handovers.len(), handovers.last());
    Ok(idle)
}

#[tokio::test]
async fn three_producers_fire_at_once_and_no_slot_that_work_fits_stays_idle() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let mut idles = Vec::new();
        for _ in 0..ROUNDS {
            let idle = Box::pin(round(fleet)).await?;
            if idle.length <= IDLE_AT_MOST {
                return Ok(());
            }
            idles.push(idle);
        }
        anyhow::bail!("in each of {ROUNDS} rounds a slot was idle: {idles:#?}")
    })
    .await
}

#[tokio::test]
async fn explain_of_a_waiting_job_names_the_slot_and_its_holders() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let gate = Script::new().wait("go");
        let mut jobs = Vec::new();
        for _ in 0..3 {
            jobs.push(fleet.enqueue("site.qa", &gate).await?);
        }
        for job in &jobs[..2] {
            fleet.started(job, 1, PATIENCE).await?;
        }
        let explained = until("the third waits for the slot", PATIENCE, async || {
            let explained = fleet.client().explain(&jobs[2]).await.map_err(|error| error.to_string())?;
            let deferral = explained.job.as_ref().and_then(|job| job.deferral.clone()).unwrap_or_default();
            if deferral.reason == "slot_busy" { Ok(explained) } else { Err(format!("{explained:?}")) }
        })
        .await?;
        let deferral = explained.job.and_then(|job| job.deferral).context("no deferral")?;
        ensure!(deferral.parameters.get("slot").is_some_and(|slot| slot == "browser"), "{deferral:?}");
        ensure!(deferral.count >= 1, "{deferral:?}");
        let slot = explained.slots.iter().find(|slot| slot.slot == "browser").context("no slot browser")?;
        let mut holders: Vec<&str> = slot.holders.iter().map(|holder| holder.job_id.as_str()).collect();
        holders.sort_unstable();
        let mut expected: Vec<&str> = jobs[..2].iter().map(String::as_str).collect();
        expected.sort_unstable();
        ensure!(holders == expected && slot.used == 2 && slot.capacity == 2, "{slot:?}");
        ensure!(slot.node == "n1", "{slot:?}");
        ensure!(!explained.remedies.is_empty(), "nothing would help?");
        let told = fleet.cli(&["job", "explain", &jobs[2]]).await?;
        ensure!(
            told.code == 0 && told.stdout.contains("browser") && told.stdout.contains(&jobs[0]),
            "{told:?}"
        );
        fleet.open("go")?;
        fleet.all_succeed(&jobs, PATIENCE).await
    })
    .await
}
