//! A full queue says no, why, and until when, and stores nothing.

use std::process::Stdio;

use anyhow::{Context as _, ensure};
use serde_json::Value;
use tenure_client::proto::ListJobsRequest;
use tenure_tests::wait::{PATIENCE, level, until};
use tenure_tests::{Fleet, KindPlan, NodePlan, Plan, Script, binary, scenario};
use tokio::process::Command;

const CAP: usize = 20;

fn plan() -> Plan {
    Plan::new()
        .kind(KindPlan::new("site.qa").need("browser", 1).line(&format!("queue_cap = {CAP}")))
        .node(NodePlan::new("n1").slot("browser", 1))
}

/// One job runs and as many wait as may.
async fn fill(fleet: &Fleet) -> anyhow::Result<Vec<String>> {
    let gate = Script::new().wait("go");
    let mut jobs = vec![fleet.enqueue("site.qa", &gate).await?];
    fleet.started(&jobs[0], 1, PATIENCE).await?;
    for _ in 0..CAP {
        jobs.push(fleet.enqueue("site.qa", &gate).await?);
    }
    Ok(jobs)
}

async fn stored(fleet: &Fleet) -> anyhow::Result<usize> {
    Ok(fleet.client().list(ListJobsRequest::default()).take(1_000).await?.len())
}

#[tokio::test]
async fn the_enqueue_over_the_cap_is_refused_with_a_time_and_stores_nothing() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let jobs = fill(fleet).await?;
        let one_more = Fleet::job("site.qa", &Script::new());
        let error = fleet.client().enqueue(&one_more).await.err().context("it was taken")?;
        let refusal = error.refusal().with_context(|| format!("no refusal: {error}"))?;
        ensure!(
            refusal.code == tonic::Code::ResourceExhausted && refusal.reason == "QUEUE_FULL",
            "{refusal:?}"
        );
        ensure!(refusal.retry_after.is_some_and(|after| !after.is_zero()), "{refusal:?}");
        let [quota] = refusal.quota_violations.as_slice() else { anyhow::bail!("{refusal:?}") };
        ensure!(quota.subject.contains("site.qa") && quota.limit == i64::try_from(CAP)?, "{quota:?}");

        let batch =
            fleet.client().enqueue_batch(&[one_more.clone(), Fleet::job("site.qa", &Script::new())]).await;
        ensure!(
            batch.iter().all(|answer| matches!(answer, Err(error) if error.refusal().is_some())),
            "{batch:?}"
        );

        let told = fleet.cli(&["enqueue", "site.qa", "--json"]).await?;
        ensure!(told.code == 75, "{told:?}");
        let object: Value = serde_json::from_str(&told.stdout).with_context(|| format!("{told:?}"))?;
        ensure!(object["refused"] == "QUEUE_FULL", "{object}");
        ensure!(object["retry_after_s"].as_f64().is_some_and(|seconds| seconds >= 1.0), "{object}");

        ensure!(stored(fleet).await? == jobs.len(), "something was stored");
        // The figures are published, not asked for: they may be a moment old.
        until("health shows the depth", PATIENCE, async || {
            let health =
                fleet.client().queue_health(Some("site.qa")).await.map_err(|error| error.to_string())?;
            let depth = health.kinds.first().map(|kind| kind.depth);
            level(depth == Some(CAP as u64), || format!("{health:?}"))
        })
        .await?;
        fleet.open("go")?;
        fleet.all_succeed(&jobs, PATIENCE).await?;
        let taken = fleet.client().enqueue(&one_more).await?;
        fleet.all_succeed(&[taken.job.id], PATIENCE).await
    })
    .await
}

#[tokio::test]
async fn a_real_grpcurl_reads_the_refusal_with_all_its_details() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let jobs = fill(fleet).await?;
        let address = fleet.endpoint().trim_start_matches("http://").to_owned();
        let grpcurl = async |args: &[&str]| {
            let mut command = Command::new(binary::grpcurl()?);
            command.arg("-plaintext").args(args).stdin(Stdio::null()).kill_on_drop(true);
            let output =
                tokio::time::timeout(PATIENCE, command.output()).await.context("grpcurl hangs")??;
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            anyhow::Ok((output.status.code(), text(&output.stdout), text(&output.stderr)))
        };
        let call = "tenure.v1.JobService/Enqueue";
        let (code, out, err) = grpcurl(&["-d", r#"{"job": {"kind": "site.qa"}}"#, &address, call]).await?;
        // RESOURCE_EXHAUSTED is 8, and grpcurl adds 64.
        ensure!(code == Some(72), "{code:?}\n{out}\n{err}");
        for words in [
            "ResourceExhausted",
            "QUEUE_FULL",
            "google.rpc.ErrorInfo",
            "google.rpc.RetryInfo",
            "retryDelay",
            "google.rpc.QuotaFailure",
            "site.qa",
        ] {
            ensure!(err.contains(words), "no {words}\n{err}");
        }
        ensure!(stored(fleet).await? == jobs.len(), "something was stored");

        // By reflection alone it is an operator's tool.
        let (code, out, err) = grpcurl(&[&address, "list"]).await?;
        ensure!(code == Some(0), "{out}\n{err}");
        for service in ["JobService", "FleetService", "HealthService", "AdminService"] {
            ensure!(out.contains(&format!("tenure.v1.{service}")), "{out}");
        }
        ensure!(out.contains("grpc.health.v1.Health") && out.contains("tenure.node.v1.NodeService"), "{out}");
        let (code, out, err) = grpcurl(&[&address, "grpc.health.v1.Health/Check"]).await?;
        ensure!(code == Some(0) && out.contains("SERVING"), "{out}\n{err}");
        let method = "tenure.v1.JobService/GetJob";
        let request = format!(r#"{{"job_id": "{}"}}"#, jobs[1]);
        let (code, out, err) = grpcurl(&["-d", &request, &address, method]).await?;
        let answer: Value = serde_json::from_str(&out).with_context(|| format!("{code:?} {err}"))?;
        ensure!(answer["job"]["deferral"]["parameters"]["slot"] == "browser", "{answer}");
        fleet.open("go")?;
        fleet.all_succeed(&jobs, PATIENCE).await
    })
    .await
}
