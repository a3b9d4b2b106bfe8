//! Slots whose units have numbers: every attempt has its own, whatever becomes of the agent that gave them.

use std::collections::BTreeSet;

use anyhow::ensure;
use tenure_client::proto::JobState;
use tenure_tests::wait::PATIENCE;
use tenure_tests::{Fleet, KindPlan, NodePlan, Plan, Script, Step, scenario};

const GPUS: [u32; 4] = [0, 2, 4, 6];

fn plan() -> Plan {
    Plan::new()
        .kind(KindPlan::new("train").need("gpu-a", 1).grace("10s"))
        .kind(KindPlan::new("pair").need("gpu-a", 2).grace("1s"))
        .node(NodePlan::new("n1").indexed("gpu-a", &GPUS))
}

/// Tells what it was given.
fn tell() -> Step {
    Step::Tell("TENURE_SLOT_gpu_a".to_owned())
}

/// The same, and it goes on once the gate is open.
fn told(gate: &str) -> Script {
    Script::new().then(tell()).wait(gate)
}

/// What a job that has succeeded was given.
async fn given(fleet: &Fleet, job: &str) -> anyhow::Result<Vec<u32>> {
    fleet.state(job, JobState::Succeeded, PATIENCE).await?;
    let result = fleet.client().result(job).await?.data;
    let text = String::from_utf8(result.to_vec())?;
    Ok(text.split(',').map(str::parse).collect::<Result<_, _>>()?)
}

#[tokio::test]
async fn four_attempts_at_once_have_four_numbers_and_one_may_have_two() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let mut jobs = Vec::new();
        for _ in GPUS {
            jobs.push(fleet.enqueue("train", &told("go")).await?);
        }
        for job in &jobs {
            fleet.started(job, 1, PATIENCE).await?;
        }
        fleet.open("go")?;
        let mut all = BTreeSet::new();
        for job in &jobs {
            all.extend(given(fleet, job).await?);
        }
        ensure!(all == BTreeSet::from(GPUS), "{all:?}");
        let (one, other) =
            (fleet.enqueue("pair", &told("on")).await?, fleet.enqueue("pair", &told("on")).await?);
        for job in [&one, &other] {
            fleet.started(job, 1, PATIENCE).await?;
        }
        fleet.open("on")?;
        let (one, other) = (given(fleet, &one).await?, given(fleet, &other).await?);
        ensure!(one.len() == 2 && other.len() == 2, "{one:?} {other:?}");
        ensure!(one.iter().chain(&other).collect::<BTreeSet<_>>().len() == 4, "{one:?} {other:?}");
        Ok(())
    })
    .await
}

/// The next agent takes over what the killed one had started, and nobody else gets their numbers.
#[tokio::test]
async fn after_a_killed_agent_no_number_is_given_twice() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let stubborn = Script::new().then(Step::IgnoreTerm).then(tell()).wait("go");
        let mut old = Vec::new();
        for _ in 0..2 {
            old.push(fleet.enqueue("train", &stubborn).await?);
        }
        for job in &old {
            fleet.started(job, 1, PATIENCE).await?;
        }
        fleet.kill_agent("n1").await?;
        fleet.start_agent("n1")?;
        // The old ones have the two lowest numbers still.
        let new = fleet.enqueue("pair", &Script::new().then(tell())).await?;
        let given_next = given(fleet, &new).await?;
        ensure!(given_next == GPUS[2..], "{given_next:?}");
        fleet.open("go")?;
        for job in &old {
            ensure!(given(fleet, job).await?.len() == 1 && fleet.log()?.of(job).count() == 1, "they ran on");
        }
        Ok(())
    })
    .await
}
