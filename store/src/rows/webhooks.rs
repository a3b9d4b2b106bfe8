//! Webhooks, and what waits to be told to them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use tenure_scheduler::{
    About, Delivery, DeliveryId, DeliveryState, Ending, JobId, KindName, Webhook, WebhookName, WebhookPolicy,
};

use super::{At, Error, Fields, Json, Text, int, json_text, mapped};

mapped! {
/// The columns of a webhook, to be written.
pub(crate) struct WebhookRow<'a> {
    name: &'a str,
    policy: Json,
    gone_at: Option<At>,
}
}

impl<'a> From<&'a Webhook> for WebhookRow<'a> {
    fn from(webhook: &'a Webhook) -> Self {
        Self {
            name: webhook.name.as_str(),
            policy: json_text(&WebhookPolicyJson::from(&webhook.policy)),
            gone_at: webhook.gone.map(At::from),
        }
    }
}

/// Reads a webhook from name, policy, gone_at.
///
/// # Errors
/// If a column makes no sense.
pub(crate) fn read_webhook(row: &mut Fields<'_>) -> Result<Webhook, Error> {
    let name = row.name("name", WebhookName::new)?;
    row.set_key(&name);
    let json = row.json::<WebhookPolicyJson>("policy")?;
    let ends = json.events.iter().map(|word| Ending::parse(word)).collect::<Option<BTreeSet<_>>>();
    let events = ends.ok_or_else(|| row.wrong("policy", &"has an unknown event"))?;
    let policy = WebhookPolicy {
        url: json.url.into(),
        secret: json.secret.into(),
        events,
        kinds: json.kinds.map(|kinds| kinds.into_iter().map(KindName::new).collect()),
        workflows: json.workflows,
    };
    Ok(Webhook { name, policy, gone: row.opt_wall("gone_at")? })
}

/// What the fleet file says of a webhook.
#[derive(Serialize, Deserialize)]
struct WebhookPolicyJson {
    url: String,
    secret: String,
    events: Vec<String>,
    kinds: Option<Vec<String>>,
    workflows: bool,
}

impl From<&WebhookPolicy> for WebhookPolicyJson {
    fn from(policy: &WebhookPolicy) -> Self {
        let kinds = policy.kinds.as_ref();
        Self {
            url: policy.url.to_string(),
            secret: policy.secret.to_string(),
            events: policy.events.iter().map(|ending| ending.name().to_owned()).collect(),
            kinds: kinds.map(|kinds| kinds.iter().map(ToString::to_string).collect()),
            workflows: policy.workflows,
        }
    }
}

mapped! {
/// The columns of a new delivery.
pub(crate) struct DeliveryRow<'a> {
    id: i64,
    webhook: &'a str,
    event: String,
    subject_id: Option<Text<JobId>>,
    body: &'a str,
    created_at: At,
    since_at: At,
    tries: u32,
    next_at: Option<At>,
    failed_at: Option<At>,
    error: Option<&'a str>,
}
}

impl<'a> DeliveryRow<'a> {
    pub(crate) fn new(delivery: &'a Delivery, body: &'a str) -> Self {
        let (next_at, failed_at) = times(delivery.state);
        Self {
            id: int(delivery.id.0),
            webhook: delivery.webhook.as_str(),
            event: delivery.about.event(),
            subject_id: delivery.about.subject().map(|id| Text(JobId(id))),
            body,
            created_at: delivery.created_at.into(),
            since_at: delivery.since.into(),
            tries: delivery.tries,
            next_at,
            failed_at,
            error: delivery.error.as_deref(),
        }
    }
}

mapped! {
/// What changes of a delivery.
pub(crate) struct DeliveryChangeRow<'a> {
    id: i64,
    since_at: At,
    tries: u32,
    next_at: Option<At>,
    failed_at: Option<At>,
    error: Option<&'a str>,
}
}

impl<'a> From<&'a Delivery> for DeliveryChangeRow<'a> {
    fn from(delivery: &'a Delivery) -> Self {
        let (next_at, failed_at) = times(delivery.state);
        Self {
            id: int(delivery.id.0),
            since_at: delivery.since.into(),
            tries: delivery.tries,
            next_at,
            failed_at,
            error: delivery.error.as_deref(),
        }
    }
}

fn times(state: DeliveryState) -> (Option<At>, Option<At>) {
    match state {
        DeliveryState::Waiting { next } => (Some(next.into()), None),
        DeliveryState::Failed { at } => (None, Some(at.into())),
    }
}

/// Reads a delivery from id, webhook, event, subject_id, created_at, since_at, tries, next_at, failed_at, error.
///
/// # Errors
/// If a column makes no sense.
pub(crate) fn read_delivery(row: &mut Fields<'_>) -> Result<Delivery, Error> {
    let id = DeliveryId(row.int("id")?);
    row.set_key(&id.0);
    let webhook = row.name("webhook", WebhookName::new)?;
    let event = row.name("event", |event| event)?;
    let subject = row.opt_id("subject_id")?.map(|id| id.0);
    let about = About::parse(&event, subject).ok_or_else(|| row.wrong("event", &"is not known"))?;
    let (created_at, since) = (row.wall("created_at")?, row.wall("since_at")?);
    let tries = row.int("tries")?;
    let state = match (row.opt_wall("next_at")?, row.opt_wall("failed_at")?) {
        (Some(next), None) => DeliveryState::Waiting { next },
        (None, Some(at)) => DeliveryState::Failed { at },
        (Some(_), Some(_)) | (None, None) => return Err(row.wrong("next_at", &"does not fit failed_at")),
    };
    let error = row.opt_text("error", |error| error.into())?;
    Ok(Delivery { id, webhook, about, created_at, since, tries, state, error })
}
