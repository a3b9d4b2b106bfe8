//! Several hosts: agents elsewhere, one server on Postgres, mutual TLS between all.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tenure_client::proto::{Job, JobState};
use tenure_tests::wait::PATIENCE;
use tenure_tests::{Fleet, KindPlan, NodePlan, Plan, Script, scenario};

/// Long enough for work to be spread.
const A_WHILE: Duration = Duration::from_millis(300);

fn plan() -> Plan {
    Plan::new()
        .postgres()
        .hosts()
        .fleet_slot("anthropic", 3)
        .kind(KindPlan::new("site.qa").need("browser", 1))
        .kind(KindPlan::new("shell.task").need("shell", 1))
        .kind(KindPlan::new("digest").need("anthropic", 1))
        .node(NodePlan::new("mini-1").slot("browser", 2).slot("shell", 2).label("zone", "attic"))
        .node(
            NodePlan::new("mini-2").slot("shell", 2).label("zone", "cellar").only(&["shell.task", "digest"]),
        )
}

/// Enqueues jobs of a kind that take a while, for nodes in a zone if one is named.
async fn enqueue(fleet: &Fleet, kind: &str, zone: Option<&str>, count: u32) -> anyhow::Result<Vec<String>> {
    let mut jobs = Vec::new();
    for _ in 0..count {
        let mut job = Fleet::job(kind, &Script::new().sleep(A_WHILE));
        if let Some(zone) = zone {
            job = job.selector("zone", zone);
        }
        jobs.push(fleet.client().enqueue(&job).await?.job.id);
    }
    Ok(jobs)
}

#[tokio::test]
async fn jobs_are_spread_over_hosts_by_slots_labels_and_kinds() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let network =
            |pid: rustix::process::Pid| fs::read_link(format!("/proc/{}/ns/net", pid.as_raw_nonzero()));
        let mut networks = BTreeSet::from([network(fleet.server()?.pid()?)?]);
        for node in ["mini-1", "mini-2"] {
            networks.insert(network(fleet.agent(node)?.pid()?)?);
        }
        ensure!(
            !fleet.hosts()?.are_namespaces() || networks.len() == 3,
            "they share a network: {networks:?}"
        );

        let browser = enqueue(fleet, "site.qa", None, 6).await?;
        let shell = enqueue(fleet, "shell.task", None, 12).await?;
        let cellar = enqueue(fleet, "shell.task", Some("cellar"), 4).await?;
        let attic = enqueue(fleet, "digest", Some("attic"), 4).await?;
        let digest = enqueue(fleet, "digest", None, 6).await?;
        // Nobody has a browser in the cellar: it waits, and says for what.
        let nowhere = enqueue(fleet, "site.qa", Some("cellar"), 1).await?;

        // One server process dies on the way; the agents come back to the next one by the same certificates.
        fleet.kill_server().await?;
        fleet.start_server().await?;
        let all: Vec<String> =
            [&browser, &shell, &cellar, &attic, &digest].into_iter().flatten().cloned().collect();
        fleet.all_succeed(&all, PATIENCE * 2).await?;

        let log = fleet.log()?;
        let ran_on = |jobs: &[String]| -> anyhow::Result<BTreeMap<String, usize>> {
            let mut nodes = BTreeMap::new();
            for job in jobs {
                let runs: Vec<_> = log.of(job).collect();
                ensure!(runs.len() == 1, "{job} ran {} times", runs.len());
                *nodes.entry(runs.first().context("no run")?.start.node.clone()).or_insert(0) += 1;
            }
            Ok(nodes)
        };
        let on = |node: &str, count| BTreeMap::from([(node.to_owned(), count)]);
        ensure!(ran_on(&browser)? == on("mini-1", 6), "only one has browsers: {:?}", ran_on(&browser)?);
        ensure!(ran_on(&cellar)? == on("mini-2", 4), "by the label: {:?}", ran_on(&cellar)?);
        ensure!(ran_on(&attic)? == on("mini-1", 4), "by the label: {:?}", ran_on(&attic)?);
        ensure!(ran_on(&shell)?.len() == 2, "both have shells: {:?}", ran_on(&shell)?);
        let reason =
            |job: &Job| job.deferral.as_ref().map(|deferral| deferral.reason.clone()).unwrap_or_default();
        let reasons = ["warming_up", "no_matching_node"];
        let waits = |job: &Job| job.state() == JobState::Queued && reasons.contains(&&*reason(job));
        fleet.job_when(&nowhere[0], "waiting for a node", PATIENCE, waits).await?;
        let told = fleet.cli(&["job", "explain", &nowhere[0]]).await?;
        ensure!(
            told.code == 0 && told.stdout.contains("no node runs this kind with zone=cellar"),
            "{told:?}"
        );
        fleet.client().cancel(&nowhere[0], "seen").await?;
        Ok(())
    })
    .await
}
