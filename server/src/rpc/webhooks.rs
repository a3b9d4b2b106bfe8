//! Operators' verbs for webhooks and for what waits to be told to them. Thin: check, submit, show.

use tenure_proto::v1::{self, webhook_service_server::WebhookService};
use tenure_scheduler::{
    Command, Delivery, DeliveryId, DeliveryState, Refusal, Reply, State, WebhookName, WebhookView,
};
use tonic::{Request, Response, Status, async_trait};

use super::{
    api::{Api, unexpected},
    auth::Caller,
    check::Checks,
    convert::webhook as show,
    page::{self, Filters},
    status::No,
};
use crate::outbox::deliver::{id_of, wire_id};

/// Deliveries of a page, if the request does not say.
const PAGE: u32 = 100;

/// The longest id of a delivery.
const MOST_ID: usize = 128;

/// Deliveries that one question looks at.
const MOST_LOOKS: usize = 2_000;

/// The service.
#[derive(Debug, Clone)]
pub(crate) struct Webhooks(pub(crate) Api);

#[async_trait]
impl WebhookService for Webhooks {
    async fn list_webhooks(
        &self,
        request: Request<v1::ListWebhooksRequest>,
    ) -> Result<Response<v1::ListWebhooksResponse>, Status> {
        let trusted = Caller::of(&request)?.operates();
        let webhooks = webhooks(&self.0, trusted).await;
        self.0.answer(webhooks.map(|webhooks| v1::ListWebhooksResponse { webhooks }))
    }

    async fn resume_webhook(
        &self,
        request: Request<v1::ResumeWebhookRequest>,
    ) -> Result<Response<v1::ResumeWebhookResponse>, Status> {
        self.0.answer(resume(&self.0, &request.into_inner()).await)
    }

    async fn test_webhook(
        &self,
        request: Request<v1::TestWebhookRequest>,
    ) -> Result<Response<v1::TestWebhookResponse>, Status> {
        self.0.answer(test(&self.0, &request.into_inner()).await)
    }

    async fn list_deliveries(
        &self,
        request: Request<v1::ListDeliveriesRequest>,
    ) -> Result<Response<v1::ListDeliveriesResponse>, Status> {
        self.0.answer(list(&self.0, &request.into_inner()).await)
    }

    async fn get_delivery(
        &self,
        request: Request<v1::GetDeliveryRequest>,
    ) -> Result<Response<v1::GetDeliveryResponse>, Status> {
        self.0.answer(get(&self.0, &request.into_inner()).await)
    }

    async fn redeliver(
        &self,
        request: Request<v1::RedeliverRequest>,
    ) -> Result<Response<v1::RedeliverResponse>, Status> {
        self.0.answer(redeliver(&self.0, &request.into_inner()).await)
    }
}

/// All webhooks. To who is `trusted`, with their whole URLs.
pub(super) async fn webhooks(api: &Api, trusted: bool) -> Result<Vec<v1::Webhook>, No> {
    let views: Vec<WebhookView> = api.query(|state, _| state.webhooks().collect()).await?;
    Ok(views.iter().map(|view| show::webhook(view, trusted)).collect())
}

async fn resume(api: &Api, request: &v1::ResumeWebhookRequest) -> Result<v1::ResumeWebhookResponse, No> {
    let webhook = named(&request.webhook)?;
    let Reply::Webhook { webhook, changed } = api.submit(Command::ResumeWebhook { webhook }).await? else {
        return Err(unexpected("resume of a webhook"));
    };
    let views: Vec<WebhookView> = api.query(|state, _| state.webhooks().collect()).await?;
    let view = views.iter().find(|view| view.webhook.name == webhook.name);
    let webhook = view.map(|view| show::webhook(view, true));
    Ok(v1::ResumeWebhookResponse { webhook, changed })
}

async fn test(api: &Api, request: &v1::TestWebhookRequest) -> Result<v1::TestWebhookResponse, No> {
    let webhook = named(&request.webhook)?;
    let Reply::Delivery { delivery, .. } = api.submit(Command::TestWebhook { webhook }).await? else {
        return Err(unexpected("test of a webhook"));
    };
    Ok(v1::TestWebhookResponse { delivery: Some(show::delivery(&delivery)) })
}

async fn list(api: &Api, request: &v1::ListDeliveriesRequest) -> Result<v1::ListDeliveriesResponse, No> {
    let mut checks = Checks::default();
    let webhook = if request.webhook.is_empty() {
        None
    } else {
        checks.name("webhook", &request.webhook, WebhookName::parse)
    };
    let state: v1::DeliveryState = checks.choice("state", request.state);
    let size = page::size(&mut checks, request.page_size, PAGE);
    let asked = v1::ListDeliveriesRequest { page_size: 0, page_token: String::new(), ..request.clone() };
    let filters = Filters::of("ListDeliveries", &asked);
    let mut after: Option<DeliveryId> = page::place(&mut checks, filters, &request.page_token);
    checks.finish()?;
    // One more than a page holds tells whether there is a next one.
    let most = size as usize + 1;
    let mut found = Vec::new();
    loop {
        let (webhook, left) = (webhook.clone(), most.saturating_sub(found.len()));
        let look = move |known: &State, _| {
            look(known.deliveries(None, after), left, |delivery| {
                webhook.as_ref().is_none_or(|name| delivery.webhook == *name) && is_in(delivery, state)
            })
        };
        let (more, last) = api.query(look).await?;
        found.extend(more);
        match last {
            Some(last) if found.len() < most => after = Some(last),
            Some(_) | None => break,
        }
    }
    let mut deliveries: Vec<v1::Delivery> = found.iter().map(show::delivery).collect();
    let keep = page::fitting(deliveries.iter().map(prost::Message::encoded_len), size);
    let more = deliveries.len() > keep;
    deliveries.truncate(keep);
    let last = keep.checked_sub(1).and_then(|at| found.get(at)).filter(|_| more);
    let next_page_token = last.map(|last| page::token(filters, &last.id)).unwrap_or_default();
    Ok(v1::ListDeliveriesResponse { deliveries, next_page_token })
}

/// Of these the first ones that are shown, at most so many, and up to which was looked; none: those were all. No more are
/// looked at than the scheduler can spare for one question: there may be hundreds of thousands of others.
fn look<'a>(
    all: impl Iterator<Item = &'a Delivery>,
    most: usize,
    shown: impl Fn(&Delivery) -> bool,
) -> (Vec<Delivery>, Option<DeliveryId>) {
    let mut found = Vec::new();
    for (delivery, looked) in all.zip(1..) {
        if shown(delivery) {
            found.push(delivery.clone());
        }
        if looked == MOST_LOOKS || found.len() >= most {
            return (found, Some(delivery.id));
        }
    }
    (found, None)
}

fn is_in(delivery: &Delivery, state: v1::DeliveryState) -> bool {
    match (state, delivery.state) {
        (v1::DeliveryState::Unspecified, _)
        | (v1::DeliveryState::Waiting, DeliveryState::Waiting { .. })
        | (v1::DeliveryState::Failed, DeliveryState::Failed { .. }) => true,
        (v1::DeliveryState::Waiting, DeliveryState::Failed { .. })
        | (v1::DeliveryState::Failed, DeliveryState::Waiting { .. }) => false,
    }
}

async fn get(api: &Api, request: &v1::GetDeliveryRequest) -> Result<v1::GetDeliveryResponse, No> {
    let known = known(api, &request.delivery).await?;
    let bodies = api.read(api.handle.reader().bodies(&[known.id]).await)?;
    let body = bodies.into_values().next().ok_or(Refusal::DeliveryNotFound { delivery: known.id })?;
    Ok(v1::GetDeliveryResponse { delivery: Some(show::delivery(&known)), body })
}

async fn redeliver(api: &Api, request: &v1::RedeliverRequest) -> Result<v1::RedeliverResponse, No> {
    let delivery = known(api, &request.delivery).await?.id;
    let Reply::Delivery { delivery, changed } = api.submit(Command::Redeliver { delivery }).await? else {
        return Err(unexpected("redelivery"));
    };
    Ok(v1::RedeliverResponse { delivery: Some(show::delivery(&delivery)), changed })
}

/// The delivery that receivers know by this id.
async fn known(api: &Api, text: &str) -> Result<Delivery, No> {
    let mut checks = Checks::default();
    if text.is_empty() {
        checks.refuse("delivery", "is required");
    }
    let id = checks.text("delivery", text, MOST_ID).and_then(|text| id_of(&text));
    if !text.is_empty() && id.is_none() {
        checks.refuse("delivery", "is no id of a delivery, such as a webhook-id");
    }
    checks.finish()?;
    let id = id.unwrap_or_default();
    let found = api.query(move |state, _| state.delivery(id).cloned()).await?;
    // The number alone might be that of another one, such as before the database was restored.
    let found = found.filter(|delivery| wire_id(delivery) == text);
    found.ok_or_else(|| No::no_delivery(text))
}

fn named(text: &str) -> Result<WebhookName, No> {
    let mut checks = Checks::default();
    let name = checks.name("webhook", text, WebhookName::parse);
    checks.finish()?;
    name.ok_or_else(|| No::invalid_field("webhook", "is required"))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tenure_scheduler::{About, Wall};

    use super::*;

    fn delivery(id: u64) -> Delivery {
        Delivery {
            id: DeliveryId(id),
            webhook: WebhookName::parse("all").expect("a name"),
            about: About::Test,
            created_at: Wall(0),
            since: Wall(0),
            tries: 0,
            state: DeliveryState::Waiting { next: Wall(0) },
            error: None,
        }
    }

    #[test]
    fn one_question_looks_at_so_many_deliveries_however_few_are_shown() {
        let all: Vec<Delivery> = (1..=MOST_LOOKS as u64 + 5).map(delivery).collect();
        let looked = Cell::new(0);
        let from = |id: usize| all.iter().skip(id).inspect(|_| looked.set(looked.get() + 1));
        let late = |delivery: &Delivery| delivery.id.0 > MOST_LOOKS as u64;
        let ids = |found: &[Delivery]| found.iter().map(|delivery| delivery.id.0).collect::<Vec<_>>();

        let (found, last) = look(from(0), 3, late);
        assert_eq!((found.len(), last, looked.get()), (0, Some(DeliveryId(2_000)), MOST_LOOKS));
        // It goes on from there, up to as many as are wanted.
        let (found, last) = look(from(2_000), 3, late);
        assert_eq!((ids(&found), last), (vec![2_001, 2_002, 2_003], Some(DeliveryId(2_003))));
        let (found, last) = look(from(2_003), 3, late);
        assert_eq!((ids(&found), last), (vec![2_004, 2_005], None));
    }
}
