//! Secrets that producers, jobs and operators hand in are in no log, no figure and no span.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context as _, ensure};
use tenure_client::proto::JobState;
use tenure_proto::v1::{EnqueueRequest, JobSpec, Payload};
use tenure_tests::collector::Collector;
use tenure_tests::wait::{PATIENCE, level, until};
use tenure_tests::{Fleet, NodePlan, Script, Step, scenario};

use crate::{jobs, plan};

/// Each is planted in one place, so that what is found says where it came from.
const PLANTED: [&str; 12] = [
    "planted-in-a-payload-4c1f",
    "planted-in-a-result-92ab",
    "planted-on-stdout-7d03",
    "planted-on-stderr-e5b8",
    "planted-on-stderr-of-a-failure-11c7",
    "planted-in-a-label-a6d2",
    "planted-in-a-refused-selector-0b94",
    "planted-in-metadata-5f3e",
    "planted-in-the-environment-of-a-kind-c82d",
    "planted-in-headers-of-the-exporter-3a60",
    "planted-in-the-database-url-f417",
    "planted-in-a-refused-payload-d95b",
];

async fn enqueue(fleet: &Fleet, spec: JobSpec) -> anyhow::Result<String> {
    let mut client = jobs(fleet).await?;
    let mut request = tonic::Request::new(EnqueueRequest { job: Some(spec) });
    request.metadata_mut().insert("x-secret", PLANTED[7].parse()?);
    request.metadata_mut().insert("authorization", format!("Bearer {}", PLANTED[7]).parse()?);
    Ok(client.enqueue(request).await?.into_inner().job.context("no job")?.id)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn spec(script: &Script) -> JobSpec {
    let payload = Payload { data: script.to_string().into(), content_type: "text/plain".to_owned() };
    JobSpec { kind: "shell.task".to_owned(), payload: Some(payload), ..JobSpec::default() }
}

#[tokio::test]
async fn no_secret_leaves_by_a_log_a_figure_or_a_span() -> anyhow::Result<()> {
    let collector = Collector::start().await?;
    let plan = plan(&collector.endpoint())
        .postgres()
        .node(NodePlan::new("n2").slot("shell", 1).tables(&format!("API_KEY = \"{}\"", PLANTED[8])))
        .variable("OTEL_EXPORTER_OTLP_HEADERS", &format!("authorization=Bearer {}", PLANTED[9]))
        .variable("TENURE_LOG", "trace");
    scenario(plan, async |fleet| {
        // The cluster asks for no password, and takes any.
        let file = fleet.directory().join("database-url");
        let url = fs::read_to_string(&file)?;
        let with = url.replacen('@', &format!(":{}@", PLANTED[10]), 1);
        ensure!(with != url, "the URL has no user: {url}");
        fleet.stop_server().await?;
        fs::write(&file, with)?;
        fleet.start_server().await?;
        for node in ["n1", "n2"] {
            fleet.node_live(node).await?;
        }

        let script = Script::new()
            .open(PLANTED[0])
            .then(Step::Say(PLANTED[2].to_owned()))
            .then(Step::Print(PLANTED[3].to_owned()))
            .then(Step::Result(PLANTED[1].to_owned()));
        let labels: BTreeMap<String, String> = [("team".to_owned(), PLANTED[5].to_owned())].into();
        let mut jobs = Vec::new();
        for _ in 0..8 {
            jobs.push(enqueue(fleet, JobSpec { labels: labels.clone(), ..spec(&script) }).await?);
        }
        fleet.all_succeed(&jobs, PATIENCE).await?;
        ensure!(
            fleet.client().result(&jobs[0]).await?.data == PLANTED[1],
            "the result is there for its producer"
        );
        let fails = Script::new().then(Step::Print(PLANTED[4].to_owned())).exit(7);
        let dead = enqueue(fleet, spec(&fails)).await?;
        let dead = fleet.state(&dead, JobState::Dead, PATIENCE).await?;
        ensure!(dead.reason.contains(PLANTED[4]), "its last words are there for its producer: {dead:?}");
        let selector = [("n o".to_owned(), PLANTED[6].to_owned())].into();
        ensure!(enqueue(fleet, JobSpec { selector, ..spec(&script) }).await.is_err(), "a malformed selector");
        let refused = JobSpec { kind: "unknown".to_owned(), ..spec(&Script::new().open(PLANTED[11])) };
        ensure!(enqueue(fleet, refused).await.is_err(), "an unknown kind");

        until("spans of every attempt, and figures", PATIENCE, async || {
            let attempts = collector.spans().iter().filter(|span| span.name == "process shell.task").count();
            let figures = collector.figures(crate::SERVER).len();
            level(attempts > jobs.len() && figures > 0, || format!("{attempts} spans, {figures} figures"))
        })
        .await?;
        let mut places = vec![
            ("/metrics".to_owned(), fleet.http("/metrics").await?),
            ("OTLP".to_owned(), text(&collector.bytes())),
        ];
        for entry in fs::read_dir(fleet.directory().join("logs"))? {
            let entry = entry?;
            places.push((entry.file_name().to_string_lossy().into_owned(), text(&fs::read(entry.path())?)));
        }
        ensure!(places.len() >= 5, "server and two agents log, not {} places", places.len());
        let logged = places.iter().filter(|(_, text)| text.contains("TRACE")).count();
        ensure!(logged >= 3, "{logged} logs are that talkative");
        for (place, text) in &places {
            for secret in PLANTED {
                let line = text.lines().find(|line| line.contains(secret));
                ensure!(line.is_none(), "{secret} in {place}: {line:?}");
            }
        }
        Ok(())
    })
    .await
}
