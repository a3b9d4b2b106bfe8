//! Webhooks: how they stand, what has not arrived, and trying again. Repeating a verb is harmless.

use tenure_proto::v1::{
    Delivery, DeliveryState, GetDeliveryRequest, GetDeliveryResponse, ListDeliveriesRequest,
    ListWebhooksRequest, RedeliverRequest, RedeliverResponse, ResumeWebhookRequest, ResumeWebhookResponse,
    TestWebhookRequest, TestWebhookResponse, Webhook,
};

use crate::retry::rpc;
use crate::{Client, Error};

impl Client {
    /// All webhooks, by name, with how much waits for each.
    ///
    /// # Errors
    /// What every call may meet.
    pub async fn webhooks(&self) -> Result<Vec<Webhook>, Error> {
        Ok(rpc!(self, webhooks.list_webhooks, ListWebhooksRequest {}).await?.value.webhooks)
    }

    /// Sends to a webhook again whose receiver said that it is gone.
    ///
    /// # Errors
    /// WEBHOOK_NOT_FOUND.
    pub async fn resume_webhook(&self, webhook: &str) -> Result<ResumeWebhookResponse, Error> {
        let request = ResumeWebhookRequest { webhook: webhook.to_owned() };
        Ok(rpc!(self, webhooks.resume_webhook, request).await?.value)
    }

    /// Sends a webhook an event that is about nothing. A repeated call may send it twice.
    ///
    /// # Errors
    /// WEBHOOK_NOT_FOUND; OUTBOX_FULL.
    pub async fn test_webhook(&self, webhook: &str) -> Result<TestWebhookResponse, Error> {
        let request = TestWebhookRequest { webhook: webhook.to_owned() };
        Ok(rpc!(self, webhooks.test_webhook, request).await?.value)
    }

    /// Deliveries that have not arrived, the oldest first, at most `limit`: of one webhook, or of all (none).
    ///
    /// # Errors
    /// What every call may meet.
    pub async fn deliveries(
        &self,
        webhook: Option<&str>,
        state: DeliveryState,
        limit: usize,
    ) -> Result<Vec<Delivery>, Error> {
        let mut request = ListDeliveriesRequest {
            webhook: webhook.unwrap_or_default().to_owned(),
            state: state.into(),
            ..ListDeliveriesRequest::default()
        };
        let mut all = Vec::new();
        loop {
            request.page_size = i32::try_from(limit.saturating_sub(all.len())).unwrap_or(i32::MAX);
            if request.page_size == 0 {
                return Ok(all);
            }
            let page = rpc!(self, webhooks.list_deliveries, request.clone()).await?.value;
            all.extend(page.deliveries);
            if page.next_page_token.is_empty() {
                return Ok(all);
            }
            request.page_token = page.next_page_token;
        }
    }

    /// One of them, with what is sent. `delivery` is the `webhook-id` that its receiver gets.
    ///
    /// # Errors
    /// DELIVERY_NOT_FOUND: it arrived, or was never made.
    pub async fn delivery(&self, delivery: &str) -> Result<GetDeliveryResponse, Error> {
        let request = GetDeliveryRequest { delivery: delivery.to_owned() };
        Ok(rpc!(self, webhooks.get_delivery, request).await?.value)
    }

    /// Sends one of them now, and as often as a new one.
    ///
    /// # Errors
    /// DELIVERY_NOT_FOUND.
    pub async fn redeliver(&self, delivery: &str) -> Result<RedeliverResponse, Error> {
        let request = RedeliverRequest { delivery: delivery.to_owned() };
        Ok(rpc!(self, webhooks.redeliver, request).await?.value)
    }
}
