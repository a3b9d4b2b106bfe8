//! What peers may send: refused with a reason, and never the end of anything but their own call.

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use http::uri::PathAndQuery;
use tenure_client::{NewJob, Refusal};
use tenure_tests::random::Random;
use tenure_tests::raw::Raw;
use tenure_tests::{Fleet, KindPlan, NodePlan, Plan, Script, scenario};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

const ENQUEUE: &str = "/tenure.v1.JobService/Enqueue";

fn plan() -> Plan {
    Plan::new().kind(KindPlan::new("digest")).node(NodePlan::new("n1"))
}

async fn call(
    channel: &Channel,
    path: &'static str,
    bytes: Vec<u8>,
) -> anyhow::Result<Result<Bytes, Status>> {
    let mut grpc = tonic::client::Grpc::new(channel.clone()).max_encoding_message_size(64 << 20);
    grpc.ready().await.context("the server is away")?;
    let answer = grpc.unary(Request::new(Bytes::from(bytes)), PathAndQuery::from_static(path), Raw).await;
    Ok(answer.map(tonic::Response::into_inner))
}

/// One field of a message: its number, and its bytes with their length.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    prost::encoding::encode_varint(content.len() as u64, &mut bytes);
    bytes.extend_from_slice(content);
    bytes
}

async fn refused(fleet: &Fleet, job: NewJob) -> anyhow::Result<Refusal> {
    let error = fleet.client().enqueue(&job).await.err().context("it was taken")?;
    error.refusal().cloned().with_context(|| format!("no refusal: {error}"))
}

#[tokio::test]
async fn malformed_messages_are_refused_with_the_field_and_harm_nobody() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let channel = Endpoint::from_shared(fleet.endpoint())?.connect().await?;
        let no_text =
            call(&channel, ENQUEUE, field(1, &field(1, b"\xff\xfe"))).await?.err().context("taken")?;
        let refusal = Refusal::from_status(&no_text);
        ensure!(no_text.code() == Code::InvalidArgument && refusal.reason == "INVALID_FIELD", "{refusal:?}");
        ensure!(
            refusal.field_violations.iter().any(|violation| violation.field == "job.kind"),
            "{refusal:?}"
        );

        let huge = field(1, &field(2, &field(1, &vec![b'x'; 5 << 20])));
        let huge = call(&channel, ENQUEUE, huge).await?.err().context("taken")?;
        let refusal = Refusal::from_status(&huge);
        ensure!(huge.code() == Code::InvalidArgument && refusal.reason == "PAYLOAD_TOO_LARGE", "{refusal:?}");

        let nowhere =
            call(&channel, "/tenure.v1.JobService/Nothing", Vec::new()).await?.err().context("taken")?;
        ensure!(nowhere.code() == Code::Unimplemented, "{nowhere:?}");

        // Whatever the bytes are, the answer is a refusal, and the next caller is served.
        let mut random = Random::from_environment();
        eprintln!("{random}");
        for _ in 0..300 {
            let length = random.below(64);
            let noise: Vec<u8> = (0..length).map(|_| random.number().to_le_bytes()[0]).collect();
            let bytes = if random.below(2) == 0 { noise } else { field(1, &noise) };
            let answer = call(&channel, ENQUEUE, bytes.clone()).await?;
            let status = answer.err().with_context(|| format!("{random}: {bytes:?} was taken"))?;
            ensure!(
                matches!(status.code(), Code::InvalidArgument | Code::NotFound),
                "{random}: {bytes:?}: {status:?}"
            );
        }
        let job = fleet.enqueue("digest", &Script::new()).await?;
        fleet.all_succeed(&[job], tenure_tests::wait::PATIENCE).await?;
        let info = fleet.client().server_info().await?;
        ensure!((info.epoch, info.reloads) == (1, 0), "{info:?}");
        ensure!(fleet.states().await?.len() == 1, "nothing else was stored");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn every_wrong_field_is_named_at_once() -> anyhow::Result<()> {
    scenario(plan(), async |fleet| {
        let wrong =
            NewJob::new("digest").with_id("7").priority(101).dedupe_key("x".repeat(300)).label("A B", "c");
        let refusal = refused(fleet, wrong).await?;
        ensure!(refusal.code == Code::InvalidArgument && refusal.reason == "INVALID_FIELD", "{refusal:?}");
        let fields: Vec<&str> =
            refusal.field_violations.iter().map(|violation| violation.field.as_str()).collect();
        for field in ["job.job_id", "job.priority", "job.dedupe_key"] {
            ensure!(fields.contains(&field), "{field} is not in {fields:?}");
        }
        let large = refused(fleet, NewJob::new("digest").payload(vec![0; 256 * 1024 + 1])).await?;
        ensure!(
            large.reason == "PAYLOAD_TOO_LARGE" && large.metadata.values().any(|value| value == "262144"),
            "{large:?}"
        );
        let typo = refused(fleet, NewJob::new("digets")).await?;
        ensure!(
            typo.reason == "KIND_NOT_FOUND" && typo.metadata.values().any(|value| value.contains("digest")),
            "{typo:?}"
        );
        let slot = refused(fleet, NewJob::new("digest").need("gpu", 1)).await?;
        ensure!(matches!(slot.reason.as_str(), "SLOT_NOT_FOUND" | "INVALID_FIELD"), "{slot:?}");

        let twice = Fleet::job("digest", &Script::new());
        fleet.client().enqueue(&twice).await?;
        let other = refused(fleet, twice.clone().payload("another")).await?;
        ensure!(other.code == Code::AlreadyExists && other.reason == "JOB_ID_REUSED", "{other:?}");
        fleet.all_succeed(&[twice.id().to_owned()], tenure_tests::wait::PATIENCE).await
    })
    .await
}
