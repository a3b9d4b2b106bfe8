//! A job is followed from its producer's span to its command.

use anyhow::{Context as _, ensure};
use tenure_client::NewJob;
use tenure_client::proto::JobState;
use tenure_proto::v1::{EnqueueRequest, Job, JobSpec, Payload};
use tenure_tests::collector::{Collector, Span};
use tenure_tests::wait::{PATIENCE, until};
use tenure_tests::{Fleet, Script, Step, scenario};

use crate::{AGENT, SERVER, jobs, plan};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Tells the TRACEPARENT of its command as its result.
fn tells() -> Script {
    Script::new().then(Step::Tell("TRACEPARENT".to_owned()))
}

/// Waits for a span.
async fn span(collector: &Collector, what: &str, wanted: impl Fn(&Span) -> bool) -> anyhow::Result<Span> {
    until(what, PATIENCE, async || {
        let spans = collector.spans();
        let names = || format!("{:?}", spans.iter().map(|span| span.name.as_str()).collect::<Vec<_>>());
        spans.iter().find(|span| wanted(span)).cloned().ok_or_else(names)
    })
    .await
}

async fn attempt(collector: &Collector, job: &str) -> anyhow::Result<Span> {
    span(collector, "the span of the attempt", |span| {
        span.name == "process shell.task" && span.attributes.get("job.id").is_some_and(|id| id == job)
    })
    .await
}

/// Enqueues as an instrumented gRPC client does: its span stands in the metadata.
async fn enqueue(fleet: &Fleet, metadata: &[(&'static str, &str)], spec: JobSpec) -> anyhow::Result<Job> {
    let mut client = jobs(fleet).await?;
    let mut request = tonic::Request::new(EnqueueRequest { job: Some(spec) });
    for (name, value) in metadata {
        request.metadata_mut().insert(*name, value.parse()?);
    }
    client.enqueue(request).await?.into_inner().job.context("no job in the answer")
}

fn spec() -> JobSpec {
    let payload = Payload { data: tells().to_string().into(), content_type: "text/plain".to_owned() };
    JobSpec { kind: "shell.task".to_owned(), payload: Some(payload), ..JobSpec::default() }
}

async fn result(fleet: &Fleet, job: &str) -> anyhow::Result<String> {
    fleet.all_succeed(&[job.to_owned()], PATIENCE).await?;
    Ok(String::from_utf8(fleet.client().result(job).await?.data.to_vec())?)
}

#[tokio::test]
async fn a_job_is_followed_from_its_call_to_its_command() -> anyhow::Result<()> {
    let collector = Collector::start().await?;
    scenario(plan(&collector.endpoint()), async |fleet| {
        let sent = [("traceparent", PARENT), ("tracestate", "rojo=1")];
        let job = enqueue(fleet, &sent, spec()).await?;
        ensure!((job.traceparent.as_str(), job.tracestate.as_str()) == (PARENT, "rojo=1"), "{job:?}");
        let told = result(fleet, &job.id).await?;

        // The call goes on with the caller's trace.
        let call = span(&collector, "the span of the call", |span| {
            span.name == "tenure.v1.JobService/Enqueue" && span.trace == TRACE
        })
        .await?;
        ensure!((call.kind, call.parent.as_str()) == (2, "b7ad6b7169203331"), "{call:?}");
        let said =
            ["rpc.system.name", "rpc.method", "rpc.response.status_code"].map(|key| &*call.attributes[key]);
        ensure!(said == ["grpc", "tenure.v1.JobService/Enqueue", "OK"], "{call:?}");
        ensure!(call.service == SERVER && !call.failed, "{call:?}");

        // Its turn is a trace of its own, linked to it, with the commit under it.
        let link = format!("{}-{}", call.trace, call.id);
        let turn = span(&collector, "the span of the turn", |span| {
            span.name == "turn" && span.links.contains(&link)
        })
        .await?;
        ensure!(turn.parent.is_empty() && turn.trace != TRACE, "{turn:?}");
        ensure!(
            turn.attributes.contains_key("epoch") && turn.attributes.contains_key("commands"),
            "{turn:?}"
        );
        let commit = span(&collector, "the span of the commit", |span| span.parent == turn.id).await?;
        ensure!((commit.name.as_str(), &commit.trace) == ("commit", &turn.trace), "{commit:?}");

        // The attempt, too, and its command goes on with it.
        let attempt = attempt(&collector, &job.id).await?;
        ensure!(attempt.parent.is_empty() && attempt.trace != TRACE, "{attempt:?}");
        ensure!(attempt.links == [format!("{TRACE}-b7ad6b7169203331")], "{attempt:?}");
        ensure!(attempt.link_states == ["rojo=1"], "{attempt:?}");
        ensure!((attempt.kind, attempt.service.as_str()) == (5, AGENT), "{attempt:?}");
        ensure!(attempt.events == ["started"] && !attempt.failed, "{attempt:?}");
        for (key, value) in [
            ("messaging.system", "tenure"),
            ("messaging.operation.type", "process"),
            ("messaging.destination.name", "shell.task"),
            ("messaging.message.id", job.id.as_str()),
            ("job.kind", "shell.task"),
            ("job.attempt", "1"),
            ("node.id", "n1"),
            ("outcome", "succeeded"),
        ] {
            ensure!(attempt.attributes.get(key).is_some_and(|found| found == value), "{key}: {attempt:?}");
        }
        ensure!(told == format!("00-{}-{}-01", attempt.trace, attempt.id), "{told}: {attempt:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn without_a_trace_of_its_producer_an_attempt_is_linked_to_the_call() -> anyhow::Result<()> {
    let collector = Collector::start().await?;
    scenario(plan(&collector.endpoint()), async |fleet| {
        let job = enqueue(fleet, &[("traceparent", "nonsense")], spec()).await?;
        result(fleet, &job.id).await?;
        let attempt = attempt(&collector, &job.id).await?;
        let call = span(&collector, "the span of the call", |span| {
            attempt.links == [format!("{}-{}", span.trace, span.id)]
        })
        .await?;
        ensure!(call.name == "tenure.v1.JobService/Enqueue" && call.parent.is_empty(), "{call:?}");
        ensure!(job.traceparent == format!("00-{}-{}-01", call.trace, call.id), "{job:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn what_fails_is_an_error_in_its_span() -> anyhow::Result<()> {
    let collector = Collector::start().await?;
    scenario(plan(&collector.endpoint()), async |fleet| {
        let job = fleet.enqueue("shell.task", &Script::new().exit(7)).await?;
        fleet.state(&job, JobState::Dead, PATIENCE).await?;
        let attempt = attempt(&collector, &job).await?;
        ensure!(attempt.failed && attempt.attributes["outcome"] == "failed", "{attempt:?}");
        ensure!(attempt.attributes["reason"] == "exit", "{attempt:?}");
        // A caller's mistake is no error of the server.
        ensure!(enqueue(fleet, &[], JobSpec { kind: "unknown".to_owned(), ..spec() }).await.is_err());
        let refused = span(&collector, "the span of the refused call", |span| {
            span.attributes.get("rpc.response.status_code").is_some_and(|code| code != "OK")
        })
        .await?;
        ensure!(!refused.failed, "{refused:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn in_one_process_both_sides_are_traced() -> anyhow::Result<()> {
    let collector = Collector::start().await?;
    scenario(plan(&collector.endpoint()).up(), async |fleet| {
        let job = enqueue(fleet, &[], spec()).await?;
        result(fleet, &job.id).await?;
        let attempt = attempt(&collector, &job.id).await?;
        ensure!(attempt.service == "tenure", "{attempt:?}");
        span(&collector, "the span of the call", |span| {
            attempt.links == [format!("{}-{}", span.trace, span.id)]
        })
        .await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn without_a_collector_a_command_gets_what_its_producer_sent() -> anyhow::Result<()> {
    scenario(plan("").variable("OTEL_TRACES_SAMPLER", "always_on"), async |fleet| {
        let of = |name: &str| -> NewJob {
            let script = Script::new().then(Step::Tell(name.to_owned()));
            Fleet::job("shell.task", &script).traceparent(PARENT).tracestate("rojo=1")
        };
        for (name, value) in [("TRACEPARENT", PARENT), ("TRACESTATE", "rojo=1")] {
            let job = fleet.client().enqueue(&of(name)).await?.job;
            ensure!(result(fleet, &job.id).await? == value, "{name}");
        }
        // By the command line: its flags, else its environment, in which tracing tools put it.
        let ran =
            fleet.cli(&["enqueue", "shell.task", "--traceparent", PARENT, "--tracestate", "a=1"]).await?;
        let job = fleet.client().get(ran.stdout.trim()).await?;
        ensure!((job.traceparent.as_str(), job.tracestate.as_str()) == (PARENT, "a=1"), "{ran:?} {job:?}");
        let refused = fleet.cli(&["enqueue", "shell.task", "--traceparent", "00-ab"]).await?;
        ensure!(refused.code == 64 && refused.stderr.contains("job.traceparent"), "{refused:?}");
        // It lives through a restart.
        fleet.stop_server().await?;
        fleet.start_server().await?;
        let job = fleet.client().get(&job.id).await?;
        ensure!((job.traceparent.as_str(), job.tracestate.as_str()) == (PARENT, "a=1"), "{job:?}");
        fleet.node_live("n1").await
    })
    .await
}
