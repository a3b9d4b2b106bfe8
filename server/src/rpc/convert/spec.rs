//! What a producer asks for, checked: a `JobSpec` of the wire becomes an enqueue and the bytes beside it.

use std::sync::Arc;

use bytes::Bytes;
use ring::digest::{Context, SHA256};
use tenure_proto::limits;
use tenure_proto::v1;
use tenure_scheduler::{
    Command, ConcurrencyKey, DedupeKey, Enqueue, Fingerprint, INSTANT_LABEL, JobId, KindName, OnParent,
    Prior, Producer, ProducerLimits, Tenant, TraceContext,
};
use tenure_store::Payload;

use crate::{
    handle::Submission,
    rpc::{
        check::{ANY_LENGTH, Checks, LIMITS},
        convert::{requirement, trace},
        status::No,
    },
};

/// What a payload is if its producer does not say.
const OCTETS: &str = "application/octet-stream";

/// Checks a spec and makes its submission. `whose` is the tenant whose work it is if neither the
/// spec nor a parent says so, `ambient` the
/// trace context of the call for a spec that names none, `fresh` the id for a job whose caller made none.
///
/// # Errors
/// Every mistake, with paths from `job.` on.
pub(crate) fn submission(
    spec: Option<v1::JobSpec>,
    (producer, whose): (&Producer, &Tenant),
    ambient: Option<Arc<TraceContext>>,
    fresh: impl FnOnce() -> JobId,
) -> Result<Submission, No> {
    let Some(spec) = spec else { return Err(No::invalid_field("job", "is required")) };
    let mut checks = Checks::default();
    let payload = spec.payload.unwrap_or_default();
    let size = payload.data.len();
    let content_type = checks.ascii("job.payload.content_type", &payload.content_type, 255);
    let kind = checks.name("job.kind", &spec.kind, KindName::parse);
    let job = checks.optional_job_id("job.job_id", &spec.job_id);
    if job.is_some_and(|job| job.0.get_version_num() != 7 || job.0.get_variant() != uuid::Variant::RFC4122) {
        checks.refuse("job.job_id", "is no UUID of version 7");
    }
    let dedupe_key = checks.text("job.dedupe_key", &spec.dedupe_key, 255).map(DedupeKey::new);
    let concurrency_key =
        checks.text("job.concurrency_key", &spec.concurrency_key, 256).map(ConcurrencyKey::new);
    let tenant = checks.optional_name("job.tenant", &spec.tenant, Tenant::parse);
    let priority = spec.priority.and_then(|priority| checks.priority("job.priority", priority));
    let run_at = checks.timestamp("job.run_at", spec.run_at.as_ref());
    let delay = checks.duration("job.delay", spec.delay.as_ref(), ANY_LENGTH);
    if spec.run_at.is_some() && spec.delay.is_some() {
        checks.refuse("job.delay", "cannot stand beside run_at");
    }
    let stale_after = checks.duration("job.stale_after", spec.stale_after.as_ref(), LIMITS);
    let labels = checks.labels("job.labels", &spec.labels, 32);
    if labels.contains_key(INSTANT_LABEL) {
        checks.refuse(
            format!("job.labels[{INSTANT_LABEL:?}]"),
            "is the label that tells a job of a cron entry its instant",
        );
    }
    let selector = requirement::selector(&mut checks, &spec.selector, &spec.requirements);
    let prefer = requirement::preferences(&mut checks, &spec.prefer);
    let needs = checks.needs("job.needs", spec.needs.as_ref());
    let hard_time_limit = checks.duration("job.hard_time_limit", spec.hard_time_limit.as_ref(), LIMITS);
    let soft_time_limit = checks.duration("job.soft_time_limit", spec.soft_time_limit.as_ref(), LIMITS);
    let parent = checks.optional_job_id("job.parent_id", &spec.parent_id);
    let on_parent_cancel = on_parent(&mut checks, "job.on_parent_cancel", spec.on_parent_cancel);
    let on_parent_lost = on_parent(&mut checks, "job.on_parent_lost", spec.on_parent_lost);
    let own = trace::of_spec(&mut checks, &spec.traceparent, &spec.tracestate);

    if size > limits::INLINE_BYTES {
        let hint = "store it yourself and send a reference";
        if checks.is_clean() {
            return Err(No::too_large(Some(("job.payload.data", size)), limits::INLINE_BYTES, hint));
        }
        checks.refuse(
            "job.payload.data",
            format!("is over the limit of {most} bytes: {hint}", most = limits::INLINE_BYTES),
        );
    }
    checks.finish()?;
    let Some(kind) = kind else { return Err(No::invalid_field("job.kind", "is required")) };

    let content_type = content_type.unwrap_or_else(|| OCTETS.into());
    let command = Command::Enqueue(Box::new(Enqueue {
        job: job.unwrap_or_else(fresh),
        producer: producer.clone(),
        tenant,
        default_tenant: whose.clone(),
        fingerprint: fingerprint(&kind, &payload.data, &content_type, dedupe_key.as_ref()),
        kind,
        payload_size: size as u64,
        dedupe_key,
        concurrency_key,
        priority,
        run_at,
        delay,
        stale_after,
        labels,
        selector,
        prefer,
        needs,
        hard_time_limit,
        soft_time_limit,
        parent,
        on_parent_cancel: on_parent_cancel.unwrap_or(OnParent::Cancel),
        on_parent_lost: on_parent_lost.unwrap_or(OnParent::Keep),
        lease: None,
        trace: own.or(ambient),
        limits: ProducerLimits::default(),
        prior: Prior::default(),
    }));
    Ok(Submission { command, payload: bytes_beside(payload.data, &content_type), more: Vec::new() })
}

/// What becomes of a child; none: the default.
fn on_parent(checks: &mut Checks, field: &str, value: i32) -> Option<OnParent> {
    match v1::OnParent::try_from(value) {
        Ok(v1::OnParent::Unspecified) => None,
        Ok(v1::OnParent::Cancel) => Some(OnParent::Cancel),
        Ok(v1::OnParent::Keep) => Some(OnParent::Keep),
        Err(_) => {
            checks.refuse(field, format!("{value} is unknown"));
            None
        }
    }
}

fn bytes_beside(data: Bytes, content_type: &Arc<str>) -> Option<Payload> {
    (!data.is_empty()).then(|| Payload { data, content_type: content_type.to_string() })
}

/// What makes two enqueues under one job id the same. Each part goes in with its length, so that no two different
/// enqueues give the same bytes.
fn fingerprint(kind: &KindName, data: &[u8], content_type: &str, key: Option<&DedupeKey>) -> Fingerprint {
    let mut context = Context::new(&SHA256);
    let key = key.map_or("", DedupeKey::as_str);
    for part in [kind.as_str().as_bytes(), data, content_type.as_bytes(), key.as_bytes()] {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    let mut bytes = [0; 32];
    bytes.iter_mut().zip(context.finish().as_ref()).for_each(|(to, from)| *to = *from);
    Fingerprint(bytes)
}

#[cfg(test)]
mod tests;
