//! How the inbox of the database stands, and what of it became no job. Thin: check, read, show.

use tenure_proto::v1::{self, inbox_service_server::InboxService};
use tenure_store::inbox::InboxRefusal;
use tonic::{Request, Response, Status, async_trait};

use super::{
    api::Api,
    auth::Caller,
    check::Checks,
    convert,
    page::{self, Filters, Place},
    status::No,
};

/// The service.
#[derive(Debug, Clone)]
pub(crate) struct Inbox(pub(crate) Api);

#[async_trait]
impl InboxService for Inbox {
    async fn get_inbox(
        &self,
        _: Request<v1::GetInboxRequest>,
    ) -> Result<Response<v1::GetInboxResponse>, Status> {
        self.0.answer(get(&self.0).await)
    }

    async fn list_inbox_refusals(
        &self,
        request: Request<v1::ListInboxRefusalsRequest>,
    ) -> Result<Response<v1::ListInboxRefusalsResponse>, Status> {
        let caller = Caller::of(&request)?;
        self.0.answer(list(&self.0, &caller, &request.into_inner()).await)
    }
}

/// The row with the lowest number of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Below(i64);

impl Place for Below {
    fn encode(&self) -> Vec<u8> {
        self.0.to_be_bytes().to_vec()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(|bytes| Self(i64::from_be_bytes(bytes)))
    }
}

async fn get(api: &Api) -> Result<v1::GetInboxResponse, No> {
    let state = api.read(api.handle.reader().inbox().await)?;
    Ok(v1::GetInboxResponse {
        waiting: state.waiting,
        oldest_age: state.oldest.map(convert::age),
        refusals: state.refusals,
        broken: state.broken,
    })
}

async fn list(
    api: &Api,
    caller: &Caller,
    request: &v1::ListInboxRefusalsRequest,
) -> Result<v1::ListInboxRefusalsResponse, No> {
    let mut checks = Checks::default();
    let size = page::size(&mut checks, request.page_size, 100);
    let filters = Filters::of("ListInboxRefusals", &v1::ListInboxRefusalsRequest::default());
    let below: Option<Below> = page::place(&mut checks, filters, &request.page_token);
    checks.finish()?;
    let only = caller.sees_only();
    let reading = api.handle.reader().inbox_refusals(only.as_ref(), below.map(|Below(row)| row), size + 1);
    // One row more than the page tells whether there is another page.
    let rows = api.read(reading.await)?;
    let all: Vec<v1::InboxRefusal> = rows.into_iter().map(refusal).collect();
    let fit = page::fitting(all.iter().map(prost::Message::encoded_len), size);
    let last = fit.checked_sub(1).and_then(|last| all.get(last)).filter(|_| fit < all.len());
    let next_page_token = last.map(|last| page::token(filters, &Below(last.row))).unwrap_or_default();
    Ok(v1::ListInboxRefusalsResponse { refusals: all.into_iter().take(fit).collect(), next_page_token })
}

fn refusal(kept: InboxRefusal) -> v1::InboxRefusal {
    v1::InboxRefusal {
        row: kept.seq,
        role: kept.role,
        producer: kept.producer.to_string(),
        insert_time: Some(convert::timestamp(kept.inserted_at)),
        refuse_time: Some(convert::timestamp(kept.refused_at)),
        job_id: kept.job.to_string(),
        kind: kept.kind,
        dedupe_key: kept.dedupe_key.unwrap_or_default(),
        reason: kept.reason,
        message: kept.message,
    }
}
