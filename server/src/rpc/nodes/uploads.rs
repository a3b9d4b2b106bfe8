//! Results over the inline limit, on their way in from a node.

use futures_util::{Stream, TryStreamExt as _};
use tenure_proto::limits;
use tenure_proto::node::v1::{
    UploadHead, UploadResultRequest, UploadResultResponse, upload_result_request::Part,
};
use tenure_scheduler::LeaseName;
use tenure_store::{ObjectName, objects::Upload};
use tokio::time::timeout;
use tonic::{Status, Streaming};

use crate::{
    results::{Pace, Results},
    rpc::{api::Api, auth::Caller, check::Checks, convert_node, nodes::check_lease, status::No},
};

/// The messages of one upload.
trait Messages: Stream<Item = Result<UploadResultRequest, Status>> {}

impl<S: Stream<Item = Result<UploadResultRequest, Status>>> Messages for S {}

/// Takes a result in. It goes on by itself if the call is dropped, and finds that nothing more comes.
pub(super) async fn upload(
    api: &Api,
    caller: Caller,
    messages: Streaming<UploadResultRequest>,
) -> Result<UploadResultResponse, No> {
    let task = api.results.tasks.spawn(take(api.clone(), caller, messages));
    task.await.unwrap_or_else(|error| {
        tracing::error!(%error, "taking a result in ended early");
        Err(No::internal())
    })
}

async fn take(
    api: Api,
    caller: Caller,
    mut messages: Streaming<UploadResultRequest>,
) -> Result<UploadResultResponse, No> {
    let taken = taken(&api, &caller, &mut messages).await;
    let outcome = match &taken {
        Ok(_) => "stored",
        Err(no) if no.is_fault() => "failed",
        Err(_) => "refused",
    };
    api.metrics.observe_upload(outcome);
    taken
}

async fn taken(
    api: &Api,
    caller: &Caller,
    messages: &mut Streaming<UploadResultRequest>,
) -> Result<UploadResultResponse, No> {
    let Some(Part::Head(head)) = next(messages).await? else {
        return Err(No::invalid_field("head", "is required in the first message"));
    };
    let results = &api.results;
    let (lease, name, size) = announced(results, &head)?;
    check_lease(api, caller, &lease).await?;
    let place = results.coming.place(&lease.node);
    let _place = place.map_err(|full| No::no_place("taken in", &lease.node, full))?;
    let mut upload = results.objects()?.write(name, size);
    let pace = Pace::begin(api.handle.clock().clone());
    if let Err(no) = write(results, &mut upload, messages, &pace).await {
        upload.abort().await;
        return Err(no);
    }
    match upload.finish().await.map_err(|fault| results.no(&fault))? {
        Ok(()) => Ok(UploadResultResponse {}),
        Err(wrong) => Err(No::invalid_field("data", wrong.to_string())),
    }
}

/// All bytes, in order and in time. Cut in the midst of it, the upload is to be aborted like one that fails.
async fn write(
    results: &Results,
    upload: &mut Upload,
    messages: &mut (impl Messages + Unpin),
    pace: &Pace,
) -> Result<(), No> {
    let mut passed = 0;
    while let Some(part) = pace.keep(passed, next(messages)).await?? {
        let Part::Data(bytes) = part else {
            return Err(No::invalid_field("head", "belongs into the first message only"));
        };
        if bytes.is_empty() || bytes.len() > limits::CHUNK_BYTES {
            let text =
                format!("holds {} bytes, 1 to {most} are allowed", bytes.len(), most = limits::CHUNK_BYTES);
            return Err(No::invalid_field("data", text));
        }
        let count = bytes.len();
        let written = pace.keep(passed, upload.write(bytes)).await?;
        let written = written.map_err(|fault| results.no(&fault))?;
        written.map_err(|wrong| No::invalid_field("data", wrong.to_string()))?;
        results.metrics.observe_object_bytes("written", count);
        passed += count as u64;
    }
    Ok(())
}

/// The next part; none: these were all.
async fn next(messages: &mut (impl Messages + Unpin)) -> Result<Option<Part>, No> {
    let message = timeout(limits::TRANSFER_SILENCE, messages.try_next())
        .await
        .map_err(|_| No::too_slow(limits::TRANSFER_SILENCE))?;
    // Its connection broke, or it gave up: nobody hears the answer.
    let message = message.map_err(|status| No::stream_broke(&status))?;
    match message.map(|message| message.part) {
        None => Ok(None),
        Some(None) => Err(No::invalid_field("part", "is required")),
        Some(part) => Ok(part),
    }
}

/// What is announced: under which lease, and the name and size of the object.
fn announced(results: &Results, head: &UploadHead) -> Result<(LeaseName, ObjectName, u64), No> {
    let mut checks = Checks::default();
    let lease = convert_node::lease(&mut checks, head.lease.as_ref());
    let object = convert_node::uploaded(&mut checks, "result", head.result.as_ref());
    checks.finish()?;
    let (Some(lease), Some((_, object))) = (lease, object) else {
        return Err(No::invalid_field("head", "is required"));
    };
    if results.most() == 0 {
        return Err(No::no_result_storage());
    }
    if object.size > results.most() {
        return Err(No::result_too_large(object.size, results.most()));
    }
    let name = ObjectName { job: lease.job, token: lease.token, sha256: object.sha256 };
    Ok((lease, name, object.size))
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use bytes::Bytes;
    use futures_util::{StreamExt as _, stream};
    use tenure_scheduler::{FencingToken, JobId};
    use tenure_store::{Sha256, memory::Memory};

    use super::*;
    use crate::{
        clock::{self, Clock},
        config::{self, Config, ResultPlace},
        metrics::Metrics,
    };

    fn data(bytes: &'static [u8]) -> Result<UploadResultRequest, Status> {
        Ok(UploadResultRequest { part: Some(Part::Data(Bytes::from_static(bytes))) })
    }

    #[tokio::test]
    async fn an_upload_that_goes_on_and_on_is_ended() {
        let home = tempfile::tempdir().unwrap();
        let place = Some(ResultPlace::Directory(home.path().join("results")));
        let results = config::Results { place, ..config::Results::default() };
        let config = Config { results, ..Config::default() };
        let metrics = Arc::new(Metrics::new().unwrap());
        let results = Results::open(&config, &Memory::new().reader(), metrics).unwrap();
        let name = ObjectName {
            job: JobId(uuid::Uuid::from_u128(7)),
            token: FencingToken(1),
            sha256: Sha256([0; 32]),
        };
        let mut upload = results.objects().unwrap().write(name, 1 << 40);
        // Never silent, and never whole.
        let mut trickle = Box::pin(stream::repeat_with(|| data(b"x")).then(async |part| {
            tokio::time::sleep(Duration::from_millis(5)).await;
            part
        }));
        let pace = Pace::hurried(Clock::new(clock::Options::default()), Duration::from_millis(200));
        let ended = write(&results, &mut upload, &mut trickle, &pace);
        let no = timeout(Duration::from_secs(20), ended).await.expect("it is ended").unwrap_err();
        assert_eq!(no.reason(), "REQUEST_TOO_SLOW");
        // A message of nothing is no progress.
        let mut empty = stream::iter([data(b"")]);
        let no = write(&results, &mut upload, &mut empty, &pace).await.unwrap_err();
        assert_eq!(no.reason(), "INVALID_FIELD");
        upload.abort().await;
    }
}
