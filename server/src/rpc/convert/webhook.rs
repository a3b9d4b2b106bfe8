//! Webhooks and deliveries for the wire.

use tenure_proto::v1;
use tenure_scheduler::{About, Delivery, DeliveryState, WebhookView};

use super::timestamp;
use crate::outbox::deliver::wire_id;

/// A webhook with its figures. To who is `trusted`, with the whole of its URL.
pub(crate) fn webhook(view: &WebhookView, trusted: bool) -> v1::Webhook {
    let policy = &view.webhook.policy;
    v1::Webhook {
        name: view.webhook.name.to_string(),
        url: if trusted { policy.url.to_string() } else { origin(&policy.url) },
        secret: policy.secret.to_string(),
        events: policy.events.iter().map(|ending| ending.name().to_owned()).collect(),
        kinds: policy.kinds.iter().flatten().map(ToString::to_string).collect(),
        workflows: policy.workflows,
        gone_time: view.webhook.gone.map(timestamp),
        waiting: view.waiting,
        oldest_wait_time: view.oldest.map(timestamp),
        failed: view.failed,
        dropped: view.dropped,
    }
}

/// Scheme, host and port of a URL.
fn origin(url: &str) -> String {
    reqwest::Url::parse(url).map(|url| url.origin().ascii_serialization()).unwrap_or_default()
}

/// A delivery that has not arrived.
pub(crate) fn delivery(delivery: &Delivery) -> v1::Delivery {
    let (job_id, workflow_id) = match delivery.about {
        About::Job(job, _) => (job.to_string(), String::new()),
        About::Workflow(workflow, _) => (String::new(), workflow.to_string()),
        About::Test => (String::new(), String::new()),
    };
    let (state, next_time, fail_time) = match delivery.state {
        DeliveryState::Waiting { next } => (v1::DeliveryState::Waiting, Some(timestamp(next)), None),
        DeliveryState::Failed { at } => (v1::DeliveryState::Failed, None, Some(timestamp(at))),
    };
    v1::Delivery {
        id: wire_id(delivery),
        webhook: delivery.webhook.to_string(),
        r#type: delivery.about.event(),
        job_id,
        workflow_id,
        state: state.into(),
        create_time: Some(timestamp(delivery.created_at)),
        tries: delivery.tries,
        next_time,
        fail_time,
        error: delivery.error.as_deref().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_url_its_origin_tells_nothing_but_the_receiver() {
        assert_eq!(origin("https://ci.test/hook/s3cret?token=s3cret"), "https://ci.test");
        assert_eq!(origin("https://ci.test:8443/s3cret"), "https://ci.test:8443");
    }
}
