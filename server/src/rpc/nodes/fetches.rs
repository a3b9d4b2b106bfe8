//! Results over the inline limit, on their way out to a node.
//!
//! Responsible for one task a stream, which gives its place back however slow its node is. Not responsible for which
//! results a job may read (`waits.rs`).

use std::pin::Pin;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream::BoxStream};
use tenure_proto::node::v1::{FetchResultRequest, FetchResultResponse};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::{
    results::{Pace, Place},
    rpc::{
        api::Api,
        auth::Caller,
        check::Checks,
        convert_node,
        nodes::{check_lease, waits},
        status::No,
    },
};

/// Messages that wait for the transport, 256 KiB each.
const MOST_WAITING: usize = 1;

/// The messages of one fetch.
pub(crate) type Fetched = Pin<Box<dyn Stream<Item = Result<FetchResultResponse, Status>> + Send>>;

/// The bytes of another job's result, for one that goes on from there.
pub(super) async fn fetch(api: &Api, caller: &Caller, request: &FetchResultRequest) -> Result<Fetched, No> {
    let mut checks = Checks::default();
    let lease = convert_node::lease(&mut checks, request.lease.as_ref());
    let job = checks.job_id("job_id", &request.job_id);
    checks.finish()?;
    let Some(lease) = lease else { return Err(No::invalid_field("lease", "is required")) };
    let Some(job) = job else { return Err(No::invalid_field("job_id", "is required")) };
    check_lease(api, caller, &lease).await?;
    let place = api.results.leaving.place(&lease.node);
    let place = place.map_err(|full| No::no_place("handed out", &lease.node, full))?;
    let stored = waits::result_for(api, &lease, job).await?;
    let bytes = api.results.read(&stored).await?;
    let pace = Pace::begin(api.handle.clock().clone());
    let (out, messages) = mpsc::channel(MOST_WAITING);
    drop(api.results.tasks.spawn(hand_out(api.clone(), bytes, out, (place, pace))));
    let messages = ReceiverStream::new(messages);
    Ok(messages.map_ok(|data: Bytes| FetchResultResponse { data }).boxed())
}

/// Hands bytes to the transport until these were all, nobody takes them any more, or they are taken too slowly. In all
/// three cases the place is free from then on, though the transport may still hold messages of a node that reads none.
async fn hand_out(
    api: Api,
    bytes: BoxStream<'static, Result<Bytes, No>>,
    out: mpsc::Sender<Result<Bytes, Status>>,
    (_place, pace): (Place, Pace),
) {
    let ended = tokio::select! {
        biased;
        // Cancel-safe: nobody takes what was read.
        () = out.closed() => return,
        ended = all(bytes, &out, &pace) => ended,
    };
    if let Err(no) = ended {
        api.count(&no);
        // The channel may be full for ever, and nobody waits for that here.
        drop(api.results.tasks.spawn(async move { out.send(Err(no.into_status())).await }));
    }
}

async fn all(
    mut bytes: BoxStream<'static, Result<Bytes, No>>,
    out: &mpsc::Sender<Result<Bytes, Status>>,
    pace: &Pace,
) -> Result<(), No> {
    let mut passed = 0;
    while let Some(next) = pace.keep(passed, bytes.try_next()).await?? {
        let count = next.len() as u64;
        if pace.keep(passed, out.send(Ok(next))).await?.is_err() {
            return Ok(());
        }
        passed += count;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::stream;
    use tokio::time::timeout;

    use super::*;
    use crate::clock::{self, Clock};

    #[tokio::test]
    async fn a_node_that_takes_next_to_nothing_is_left() {
        let pace = Pace::hurried(Clock::new(clock::Options::default()), Duration::from_millis(200));
        let endless = stream::repeat_with(|| Ok(Bytes::from_static(b"x"))).boxed();
        let (out, mut taken) = mpsc::channel(MOST_WAITING);
        let trickle = async {
            while taken.recv().await.is_some() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let handed = async { all(endless, &out, &pace).await };
        let no = tokio::select! {
            () = trickle => panic!("it is not over"),
            ended = timeout(Duration::from_secs(20), handed) => ended.expect("it is ended").unwrap_err(),
        };
        assert_eq!(no.reason(), "REQUEST_TOO_SLOW");
    }
}
