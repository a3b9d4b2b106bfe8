//! One server per store, one agent per state directory, one node per name.

use std::time::Duration;

use anyhow::ensure;
use rustix::process::Signal;
use tenure_client::proto::NodeState;
use tenure_tests::process::Process;
use tenure_tests::wait::{PATIENCE, level, until};
use tenure_tests::{KindPlan, NodePlan, Plan, Script, scenario};

fn plan() -> Plan {
    Plan::new().kind(KindPlan::new("shell.task").need("shell", 1)).node(NodePlan::new("n1").slot("shell", 1))
}

#[tokio::test]
async fn a_second_process_on_the_same_directory_is_refused_with_a_sentence() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let job = fleet.enqueue("shell.task", &Script::new().wait("go")).await?;
        fleet.started(&job, 1, PATIENCE).await?;
        let path = |name: &str| fleet.directory().join(name).display().to_string();
        let (data, file, state) = (path("data"), path("nodes/n1.toml"), path("nodes/n1"));
        let server = ["server", "--data", &data, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"];
        let endpoint = fleet.endpoint();
        let agent = ["agent", "--config", &file, "--data", &state, "--server", &endpoint];
        // On Postgres there is no directory to share, and a second server follows: see leaders.rs.
        let seconds = [("server", &server[..]), ("agent", &agent[..])].into_iter();
        for (name, args) in seconds.skip(usize::from(fleet.postgres().is_ok())) {
            let log = fleet.directory().join("logs").join(format!("second-{name}"));
            let mut second = Process::tenure(name, args, &log, fleet.mark())?;
            let status = second.ended(PATIENCE).await?;
            ensure!(status.code() == Some(1), "{status}\n{}", second.tail());
            ensure!(second.log().contains("another") || second.log().contains("in use"), "{}", second.tail());
        }
        fleet.open("go")?;
        fleet.all_succeed(std::slice::from_ref(&job), PATIENCE).await?;
        ensure!(fleet.log()?.of(&job).count() == 1, "the first ones were not disturbed");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_node_name_belongs_to_the_agent_that_has_it_until_it_is_gone() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let job = fleet.enqueue("shell.task", &Script::new().wait("go")).await?;
        fleet.started(&job, 1, PATIENCE).await?;
        let path = |name: &str| fleet.directory().join(name).display().to_string();
        let (file, other, endpoint) = (path("nodes/n1.toml"), path("nodes/other"), fleet.endpoint());
        let args = ["agent", "--config", &file, "--data", &other, "--server", &endpoint];
        let log = fleet.directory().join("logs/other");
        let mut second = Process::tenure("the other agent", &args, &log, fleet.mark())?;
        until("the second agent is told", PATIENCE, async || {
            second.alive().map_err(|error| error.to_string())?;
            level(second.log().contains("held by another live instance"), || second.log())
        })
        .await?;
        let node = fleet.client().node("n1").await?;
        ensure!(node.state() == NodeState::Live && node.running == 1, "{node:?}");
        fleet.open("go")?;
        fleet.all_succeed(&[job], PATIENCE).await?;

        let mut first = fleet.take_agent("n1")?;
        first.signal(Signal::TERM)?;
        first.ended(PATIENCE).await?;
        let next = fleet.enqueue("shell.task", &Script::new()).await?;
        fleet.all_succeed(&[next], PATIENCE + Duration::from_secs(10)).await?;
        second.signal(Signal::TERM)?;
        ensure!(second.ended(PATIENCE).await?.success(), "{}", second.tail());
        Ok(())
    })
    .await
}
