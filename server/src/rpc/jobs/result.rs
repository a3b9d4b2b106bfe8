//! A result as a stream: what it is, then its bytes.

use std::pin::Pin;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};
use ring::digest::{SHA256, digest};
use tenure_proto::v1::{self, read_result_response::Part};
use tenure_store::StoredResult;
use tonic::Status;

use super::{read, watch::Room};
use crate::rpc::{api::Api, auth::Caller, convert, status::No};

/// The messages of one read.
pub(super) type Messages = Pin<Box<dyn Stream<Item = Result<v1::ReadResultResponse, Status>> + Send>>;

/// Opens a read. Bytes are fetched as the caller takes them. Until it ends it is one of the caller's watches, so that those
/// who do not read are bounded.
///
/// # Errors
/// As GetResult, but for the size; if the bytes cannot be had; and if the caller has too many watches open.
pub(super) async fn open(
    api: &Api,
    room: &Room,
    caller: &Caller,
    request: &v1::ReadResultRequest,
) -> Result<Messages, No> {
    let place = room.place(caller.enqueues_as().as_str(), caller.most_watches())?;
    let stored = read::stored_result(api, caller, &request.job_id).await?;
    let bytes = api.results.read(&stored).await?;
    let head = stream::iter([Ok(Part::Head(head(&stored)))]);
    let parts = head.chain(bytes.map_ok(Part::Data));
    let api = api.clone();
    let messages = parts.map_ok(move |part| {
        let _kept = &place;
        v1::ReadResultResponse { part: Some(part) }
    });
    Ok(messages
        .map_err(move |no: No| {
            api.count(&no);
            no.into_status()
        })
        .boxed())
}

fn head(stored: &StoredResult) -> v1::ResultHead {
    let sha256 = match stored.object {
        Some(object) => Bytes::copy_from_slice(&object.sha256.0),
        None => Bytes::copy_from_slice(digest(&SHA256, &stored.data).as_ref()),
    };
    v1::ResultHead {
        job_id: stored.job.to_string(),
        token: stored.token.0,
        content_type: stored.content_type.clone(),
        size: stored.size(),
        sha256,
        create_time: Some(convert::timestamp(stored.created_at)),
        expire_time: Some(convert::timestamp(stored.expires_at)),
        partial: stored.partial,
    }
}
