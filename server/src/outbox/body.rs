//! What a webhook is told, byte for byte: canonical proto3 JSON of `tenure.v1.JobEvent` and its siblings, made once, when
//! its subject ends. It goes into the commit that ends it, so that every try sends the same.

use std::sync::{Arc, LazyLock};

use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, SerializeOptions};
use tenure_proto::v1;
use tenure_scheduler::{Changes, Kind, NewDelivery, State, Subject};
use tenure_store::Beside;

use crate::{chain::Chain, rpc::convert};

static POOL: LazyLock<Result<DescriptorPool, prost_reflect::DescriptorError>> =
    LazyLock::new(|| DescriptorPool::decode(tenure_proto::FILE_DESCRIPTOR_SET));

/// Why there is no body: a bug in the descriptors.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// They are none.
    #[error("the descriptor set is malformed")]
    Descriptors(#[source] &'static prost_reflect::DescriptorError),
    /// They have no such message.
    #[error("the descriptor set has no {0}")]
    NoMessage(&'static str),
    /// The message does not fit them.
    #[error("a message does not fit its descriptor")]
    Message(#[from] prost::DecodeError),
    /// It cannot be written.
    #[error("a message cannot be written as JSON")]
    Json(#[from] serde_json::Error),
}

/// Puts what webhooks are told of what ended in a turn beside its changes. Without a body, which is a bug of ours, the
/// commit is refused.
pub(crate) fn add(state: &State, changes: &Changes, beside: &mut Beside) {
    // Those that tell the same stand one behind the other.
    let mut last: Option<(&NewDelivery, Arc<str>)> = None;
    for new in &changes.deliveries_new {
        if let Some((_, body)) = last.as_ref().filter(|(other, _)| tell_the_same(other, new)) {
            beside.bodies.insert(new.delivery.id, Arc::clone(body));
            continue;
        }
        let kind = if let Subject::Job(job) = &new.subject { state.kind(&job.kind) } else { None };
        match body(new, kind) {
            Ok(body) => {
                let body: Arc<str> = body.into();
                beside.bodies.insert(new.delivery.id, Arc::clone(&body));
                last = Some((new, body));
            }
            Err(error) => tracing::error!(error = %Chain(&error), "a webhook cannot be told what ended"),
        }
    }
}

/// They tell different webhooks of one end.
fn tell_the_same(one: &NewDelivery, other: &NewDelivery) -> bool {
    let is_one = match (&one.subject, &other.subject) {
        (Subject::Job(one), Subject::Job(other)) => Arc::ptr_eq(one, other),
        (Subject::Workflow(one), Subject::Workflow(other)) => Arc::ptr_eq(one, other),
        // A test tells which webhook it is for.
        (Subject::Job(_) | Subject::Workflow(_) | Subject::Test, _) => false,
    };
    is_one
        && (one.delivery.about, one.delivery.created_at) == (other.delivery.about, other.delivery.created_at)
}

/// The body of a new delivery; `kind` is that of its job, as it is in force.
///
/// # Errors
/// A bug in the descriptors.
fn body(new: &NewDelivery, kind: Option<&Kind>) -> Result<String, Error> {
    let r#type = new.delivery.about.event();
    let timestamp = Some(convert::timestamp(new.delivery.created_at));
    match &new.subject {
        Subject::Job(job) => {
            let data = Some(convert::job::job(job, kind, None));
            json("tenure.v1.JobEvent", &v1::JobEvent { r#type, timestamp, data })
        }
        Subject::Workflow(workflow) => {
            let data = Some(convert::workflow::ended(workflow));
            json("tenure.v1.WorkflowEvent", &v1::WorkflowEvent { r#type, timestamp, data })
        }
        Subject::Test => {
            let data = Some(v1::TestEventData { webhook: new.delivery.webhook.to_string() });
            json("tenure.v1.TestEvent", &v1::TestEvent { r#type, timestamp, data })
        }
    }
}

fn json(name: &'static str, message: &impl Message) -> Result<String, Error> {
    let pool = POOL.as_ref().map_err(Error::Descriptors)?;
    let descriptor = pool.get_message_by_name(name).ok_or(Error::NoMessage(name))?;
    let dynamic = DynamicMessage::decode(descriptor, message.encode_to_vec().as_slice())?;
    let mut bytes = Vec::new();
    let options = SerializeOptions::new();
    dynamic.serialize_with_options(&mut serde_json::Serializer::new(&mut bytes), &options)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use tenure_scheduler::{
        About, Command, Delivery, DeliveryId, DeliveryState, Durable, Ending, Enqueue, Epoch, Fleet, JobId,
        KindName, KindPolicy, Limits, Now, Tenant, Wall, WebhookName, WebhookPolicy,
    };
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_test_tells_its_type_its_time_and_its_webhook() {
        let delivery = Delivery {
            id: DeliveryId(1),
            webhook: WebhookName::new("ci"),
            about: About::Test,
            created_at: Wall(1_780_000_000_123_456),
            since: Wall(0),
            tries: 0,
            state: DeliveryState::Waiting { next: Wall(0) },
            error: None,
        };
        let body = body(&NewDelivery { delivery, subject: Subject::Test }, None).unwrap();
        assert_eq!(
            body,
            r#"{"type":"webhook.test","timestamp":"2026-05-28T20:26:40.123456Z","data":{"webhook":"ci"}}"#
        );
    }

    #[test]
    fn what_is_told_of_one_end_is_made_once_for_all_who_hear_of_it() {
        let now = Now::default();
        let mut state = State::load(Epoch(1), Limits::default(), Durable::default(), now);
        let policy = WebhookPolicy {
            url: "https://ci.test/".into(),
            secret: "ci".into(),
            events: Ending::ALL.into(),
            kinds: None,
            workflows: false,
        };
        let fleet = Fleet {
            kinds: [(KindName::new("k"), KindPolicy::default())].into(),
            webhooks: ["a", "b"].map(|name| (WebhookName::new(name), policy.clone())).into(),
            ..Fleet::default()
        };
        state.apply(now, Command::Apply { fleet: Box::new(fleet), validate_only: false }).unwrap();
        for n in 1..=2 {
            let job = JobId(Uuid::from_u128(n));
            let enqueue = Enqueue::new(job, KindName::new("k"), Tenant::new("default"));
            state.apply(now, Command::Enqueue(Box::new(enqueue))).unwrap();
            state.apply(now, Command::Cancel { job, reason: None, prior: None }).unwrap();
        }
        let (changes, mut beside) = (state.take_changes(), Beside::default());
        add(&state, &changes, &mut beside);
        let bodies: Vec<&Arc<str>> = beside.bodies.values().collect();
        let [first, second, third, fourth] = &bodies[..] else { panic!("{bodies:?}") };
        assert!(Arc::ptr_eq(first, second) && Arc::ptr_eq(third, fourth), "one for each end");
        assert_ne!(second, third);
        assert!(first.contains("job.cancelled") && third.contains(&Uuid::from_u128(2).to_string()));
    }
}
