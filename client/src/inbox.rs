//! The inbox of the server's database: what producers there enqueue in their own transactions.

use tenure_proto::v1::{GetInboxRequest, GetInboxResponse, InboxRefusal, ListInboxRefusalsRequest};

use crate::retry::rpc;
use crate::{Client, Error};

/// Refusals that are asked for at once.
const PAGE: i32 = 500;

impl Client {
    /// How many rows wait in the inbox, and for how long.
    ///
    /// # Errors
    /// What every call may meet.
    pub async fn inbox(&self) -> Result<GetInboxResponse, Error> {
        Ok(rpc!(self, inbox.get_inbox, GetInboxRequest {}).await?.value)
    }

    /// Rows of the inbox that became no job, the newest first, at most `limit`.
    ///
    /// # Errors
    /// What every call may meet.
    pub async fn inbox_refusals(&self, limit: usize) -> Result<Vec<InboxRefusal>, Error> {
        let mut request = ListInboxRefusalsRequest {
            page_size: i32::try_from(limit).unwrap_or(PAGE).min(PAGE),
            page_token: String::new(),
        };
        let mut all = Vec::new();
        loop {
            let answer = rpc!(self, inbox.list_inbox_refusals, request.clone()).await?.value;
            all.extend(answer.refusals);
            if all.len() >= limit || answer.next_page_token.is_empty() {
                all.truncate(limit);
                return Ok(all);
            }
            request.page_token = answer.next_page_token;
        }
    }
}
