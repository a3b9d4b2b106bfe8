//! Every way to say no on the wire: the one place where a refusal of the scheduler or a fault of the server becomes a
//! gRPC code with details.
//!
//! Responsible for: the table of errors. Not responsible for: logging the cause; that happens where it is handled.
//! Invariants: each status carries exactly one `ErrorInfo` with domain `tenure` whose metadata holds every dynamic
//! value of the message; each type of detail appears at most once; no detail carries payload or another job's data.

use std::{collections::HashMap, time::Duration};

use prost::Message as _;
use tenure_scheduler::{ImpossibleNeed, JobId, Refusal};
use tonic::{Code, Status, metadata::MetadataMap};
use tonic_types::{ErrorDetails, FieldViolation, PreconditionViolation, QuotaViolation, StatusExt as _, pb};

use crate::{
    handle::{NOT_LEADER_RETRY, SubmitError},
    leadership::Leader,
    peers::Gone,
};

mod logs;

/// The domain of every reason.
pub(crate) const DOMAIN: &str = "tenure";

/// What a caller is told to wait for one of its own watches to end.
const WATCHES_RETRY: Duration = Duration::from_secs(5);

/// Clients that read no details take the delay from this trailer, in milliseconds.
const PUSHBACK: &str = "grpc-retry-pushback-ms";

/// The delay among the metadata of an `ErrorInfo`, in milliseconds.
const RETRY_AFTER: &str = "retry_after_ms";

/// Text of violations that one status carries, in bytes: it travels in trailers, and clients take 8 KiB of those in all.
const MOST_TOLD: usize = 2560;

/// A field that is wrong: its path and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    /// As a path from the top of the request: `job.kind`, `jobs[3].labels`.
    pub(crate) field: String,
    /// A sentence without its subject: "is no name".
    pub(crate) problem: String,
}

/// A no, before it is a status. The reason is kept apart so that it can be counted.
#[derive(Debug, Clone)]
pub(crate) struct No {
    code: Code,
    reason: &'static str,
    message: String,
    metadata: Vec<(&'static str, String)>,
    details: Box<ErrorDetails>,
    retry_after: Option<Duration>,
}

impl No {
    fn new(code: Code, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            metadata: Vec::new(),
            details: Box::new(ErrorDetails::new()),
            retry_after: None,
        }
    }

    /// Fields that are wrong, all at once: of very many the first, and how many more there are.
    pub(crate) fn invalid(violations: Vec<Violation>) -> Self {
        let violations = bounded(violations);
        let message = match &violations[..] {
            [only] => format!("{}: {}", only.field, only.problem),
            [first, rest @ ..] => format!("{}: {} (and {} more)", first.field, first.problem, rest.len()),
            [] => "the request is malformed".to_owned(),
        };
        let fields: Vec<&str> = violations.iter().map(|v| v.field.as_str()).collect();
        let mut no =
            Self::new(Code::InvalidArgument, "INVALID_FIELD", message).with("fields", fields.join(","));
        no.details.set_bad_request(
            violations.into_iter().map(|v| FieldViolation::new(v.field, v.problem)).collect::<Vec<_>>(),
        );
        no
    }

    /// The same about one job of a batch: its fields begin with its place there.
    #[must_use]
    pub(crate) fn of_job(self, index: usize) -> Self {
        self.of_member(&format!("jobs[{index}]"))
    }

    /// The same about one job among others: its fields begin with its path.
    #[must_use]
    pub(crate) fn of_member(mut self, place: &str) -> Self {
        let Some(bad) = self.details.bad_request() else { return self };
        let moved = |field: &str| match field.strip_prefix("job") {
            Some(rest) if rest.is_empty() || rest.starts_with('.') => format!("{place}{rest}"),
            Some(_) | None => field.to_owned(),
        };
        let moved_bad: Vec<FieldViolation> = bad
            .field_violations
            .iter()
            .map(|bad| FieldViolation::new(moved(&bad.field), bad.description.clone()))
            .collect();
        self.details.set_bad_request(moved_bad);
        // The first that a message names is a field.
        self.message = self.message.replacen("job", place, 1);
        for (name, value) in &mut self.metadata {
            if matches!(*name, "field" | "fields") {
                *value = value.split(',').map(moved).collect::<Vec<_>>().join(",");
            }
        }
        self
    }

    /// One field that is wrong.
    pub(crate) fn invalid_field(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::invalid(vec![Violation { field: field.into(), problem: problem.into() }])
    }

    /// Bytes beyond a limit, of that field. Both it and its size are unknown if nothing was decoded.
    pub(crate) fn too_large(field: Option<(&str, usize)>, limit: usize, hint: &'static str) -> Self {
        let (what, size) = field.map_or(("message", None), |(field, size)| (field, Some(size)));
        let size_text = size.map(|size| format!("of {size} bytes ")).unwrap_or_default();
        let message = format!("the {what} {size_text}is over the limit of {limit} bytes: {hint}");
        let mut no = Self::new(Code::InvalidArgument, "PAYLOAD_TOO_LARGE", message)
            .with("limit_bytes", limit.to_string())
            .with("hint", hint);
        if let Some((field, size)) = field {
            no = no.with("field", field).with("size_bytes", size.to_string());
            no.details
                .add_bad_request_violation(field, format!("is over the limit of {limit} bytes: {hint}"));
        }
        no
    }

    /// The sentence for the caller.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// There is no such delivery, in the words of whoever asked.
    pub(crate) fn no_delivery(delivery: &str) -> Self {
        Self::new(Code::NotFound, "DELIVERY_NOT_FOUND", format!("delivery {delivery} is not known"))
            .with("delivery", delivery)
            .resource(
                "delivery",
                delivery,
                "No such delivery was made, or it arrived, or it was kept for long enough.",
            )
    }

    /// There is no such result.
    pub(crate) fn no_result(job: JobId, state: &'static str) -> Self {
        let message = match state {
            "succeeded" => format!("job {job} has succeeded, and left no result"),
            state => format!("job {job} has no result: it is {state}"),
        };
        Self::new(Code::NotFound, "RESULT_NOT_FOUND", message)
            .with("job", job.to_string())
            .with("state", state)
            .resource(
                "result",
                job.to_string(),
                "A result exists once its job has succeeded, until its ttl is over.",
            )
    }

    /// The same of a result that there was, or may have been if nobody knows: its time is over.
    #[must_use]
    pub(crate) fn expired(mut self, job: JobId, known: bool) -> Self {
        let if_any = if known { "" } else { ", if it left one," };
        self.message = format!("the result of job {job}{if_any} is not kept any more");
        self.with("expired", "true")
    }

    /// The same of a job of which it was noted that it left none.
    #[must_use]
    pub(crate) fn left_nothing(self) -> Self {
        self.with("left_nothing", "true")
    }

    /// The caller has as many watches open as it may have.
    pub(crate) fn too_many_watches(who: &str, limit: usize) -> Self {
        let message = format!("{who} has {limit} watches open, as many as it may have");
        Self::new(Code::ResourceExhausted, "TOO_MANY_WATCHES", message)
            .with("caller", who)
            .quota("watches", who, limit as u64, None)
            .retry(WATCHES_RETRY)
    }

    /// The store does not answer.
    pub(crate) fn store_away(retry_after: Duration) -> Self {
        Self::new(Code::Unavailable, "STORE_UNAVAILABLE", "the store does not answer").retry(retry_after)
    }

    /// Another server leads, or none. Its address is `leader` of the metadata, as `host:port`, if it is known.
    pub(crate) fn not_leader(leader: Option<&Leader>) -> Self {
        let no =
            |message: String| Self::new(Code::Unavailable, "NOT_LEADER", message).retry(NOT_LEADER_RETRY);
        match leader.map(|leader| &leader.addr) {
            None => no("this server does not lead, and knows of none that does".to_owned()),
            Some(None) => no("another server leads, and has not said where it is".to_owned()),
            Some(Some(addr)) => no(format!("the server at {addr} leads")).with("leader", addr.to_string()),
        }
    }

    /// Of a leader that is known: why this server could not hand the call on to it. `why` of the metadata, for programs.
    pub(crate) fn because(self, why: Gone) -> Self {
        if self.metadata.iter().all(|(name, _)| *name != "leader") {
            return self;
        }
        let message = format!("{}, but it {}", self.message, why.sentence());
        Self { message, ..self }.with("why", why.name())
    }

    /// No method has this path.
    pub(crate) fn unknown_method(path: &str) -> Self {
        Self::new(Code::Unimplemented, "METHOD_NOT_FOUND", format!("no method has the path {path}"))
            .with("path", path)
    }

    /// A request is compressed in a way that this server does not know.
    pub(crate) fn unknown_encoding() -> Self {
        let understood = "gzip";
        let message = format!("the request is compressed, and not with {understood}");
        Self::new(Code::Unimplemented, "ENCODING_UNSUPPORTED", message).with("understood", understood)
    }

    /// The caller may not do this.
    pub(crate) fn not_allowed(why: impl Into<String>) -> Self {
        Self::new(Code::PermissionDenied, "NOT_ALLOWED", why)
    }

    /// Nobody knows who the caller is.
    pub(crate) fn no_identity(why: impl Into<String>) -> Self {
        Self::new(Code::Unauthenticated, "NO_IDENTITY", why)
    }

    /// A bug or a broken promise of ours. The cause is in the log, not on the wire.
    pub(crate) fn internal() -> Self {
        Self::new(Code::Internal, "INTERNAL", "the server could not do this; its log says why")
    }

    /// The end of a session for a reason of the table of errors.
    pub(crate) fn session_ended(reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(Code::FailedPrecondition, reason, message)
    }

    /// The stable reason.
    pub(crate) fn reason(&self) -> &'static str {
        self.reason
    }

    /// As a status, with the trailer for clients that read no details.
    pub(crate) fn into_status(mut self) -> Status {
        let pairs = self.metadata.into_iter().map(|(name, value)| (name.to_owned(), value));
        self.details.set_error_info(self.reason, DOMAIN, pairs.collect::<HashMap<_, _>>());
        let mut trailers = MetadataMap::new();
        if let Some(delay) = self.retry_after {
            self.details.set_retry_info(Some(delay));
            trailers.insert(PUSHBACK, tonic::metadata::MetadataValue::from(whole_millis(delay)));
        }
        Status::with_error_details_and_metadata(self.code, self.message, *self.details, trailers)
    }

    /// As one item of a batch, with the same details as a single call would carry.
    pub(crate) fn into_item(self) -> pb::Status {
        let status = self.into_status();
        // The details of a status are an encoded google.rpc.Status, made above.
        pb::Status::decode(status.details()).unwrap_or_else(|_| pb::Status {
            code: status.code().into(),
            message: status.message().to_owned(),
            details: Vec::new(),
        })
    }

    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.metadata.push((name, value.into()));
        self
    }

    fn retry(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self.with(RETRY_AFTER, whole_millis(after).to_string())
    }

    /// The same, for a caller that should come back after this long.
    #[must_use]
    pub(crate) fn come_back_after(mut self, delay: Duration) -> Self {
        self.metadata.retain(|(name, _)| *name != RETRY_AFTER);
        self.retry(delay)
    }

    fn resource(mut self, kind: &str, name: impl Into<String>, description: &str) -> Self {
        self.details.set_resource_info(kind, name, "", description);
        self
    }

    fn quota(mut self, id: &'static str, subject: impl Into<String>, limit: u64, depth: Option<u64>) -> Self {
        let mut violation = QuotaViolation::new(subject, self.message.clone());
        violation.api_service = DOMAIN.to_owned();
        violation.quota_metric = format!("{DOMAIN}/{id}");
        violation.quota_id = id.to_owned();
        violation.quota_value = i64::try_from(limit).unwrap_or(i64::MAX);
        if let Some(depth) = depth {
            violation.quota_dimensions.insert("depth".to_owned(), depth.to_string());
            self.metadata.push(("depth", depth.to_string()));
        }
        self.details.set_quota_failure(vec![violation]);
        self.with("limit", limit.to_string())
    }

    fn precondition(mut self, subject: impl Into<String>) -> Self {
        let description = self.message.clone();
        self.details.add_precondition_failure_violation(self.reason, subject, description);
        self
    }

    fn nearest(self, names: &[impl ToString]) -> Self {
        if names.is_empty() {
            return self;
        }
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        self.with("nearest", names.join(","))
    }
}

/// Rounded up, so that nobody comes back a moment too early.
fn whole_millis(delay: Duration) -> u64 {
    u64::try_from(delay.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

impl From<Refusal> for No {
    fn from(refusal: Refusal) -> Self {
        use Code::{AlreadyExists, FailedPrecondition, NotFound, PermissionDenied, ResourceExhausted};
        let (reason, message) = (refusal.reason(), refusal.to_string());
        let no = |code| Self::new(code, reason, message);
        match refusal {
            Refusal::KindNotFound { kind, nearest } => no(NotFound)
                .with("kind", kind.as_str())
                .nearest(&nearest)
                .resource("kind", kind.as_str(), "The fleet file declares no such kind."),
            Refusal::SlotNotFound { slot, nearest } => no(NotFound)
                .with("slot", slot.as_str())
                .nearest(&nearest)
                .resource("slot", slot.as_str(), "The fleet file declares no such slot."),
            Refusal::CronNotFound { entry, nearest } => no(NotFound)
                .with("entry", entry.as_str())
                .nearest(&nearest)
                .resource("cron_entry", entry.as_str(), "The fleet file declares no such cron entry."),
            Refusal::WebhookNotFound { webhook, nearest } => no(NotFound)
                .with("webhook", webhook.as_str())
                .nearest(&nearest)
                .resource("webhook", webhook.as_str(), "The fleet file declares no such webhook."),
            Refusal::DeliveryNotFound { delivery } => Self::no_delivery(&delivery.to_string()),
            Refusal::OutboxFull { webhook, limit } => no(ResourceExhausted)
                .with("webhook", webhook.as_str())
                .quota("outbox", webhook.as_str(), limit, None),
            Refusal::WebhooksNotAllowed { changes } => no(PermissionDenied).with("changes", changes),
            Refusal::NodeNotFound { node, nearest } => no(NotFound)
                .with("node", node.as_str())
                .nearest(&nearest)
                .resource("node", node.as_str(), "No such node was ever heard of, or it was forgotten."),
            Refusal::JobNotFound { job } => no(NotFound).with("job", job.to_string()).resource(
                "job",
                job.to_string(),
                "No such job was stored, or it was deleted or swept.",
            ),
            Refusal::InvalidField { field, problem } => Self::invalid_field(field, problem),
            Refusal::JobIdReused { job } => no(AlreadyExists).with("job", job.to_string()),
            Refusal::ImpossibleNeeds { short } => impossible(no(FailedPrecondition), &short),
            Refusal::KindPaused { kind } => {
                no(FailedPrecondition).with("kind", kind.as_str()).precondition(kind.as_str())
            }
            Refusal::BudgetExhausted { kind, counter, limit, retry_after } => no(ResourceExhausted)
                .with("kind", kind.as_str())
                .with("counter", counter.as_str())
                .quota("budget", format!("{kind}/{counter}"), limit, None)
                .retry(retry_after),
            Refusal::QueueFull { kind, cap, depth, retry_after } => no(ResourceExhausted)
                .with("kind", kind.as_str())
                .quota("queue_cap", kind.as_str(), cap.into(), Some(depth.into()))
                .retry(retry_after),
            Refusal::AlreadyStale => no(FailedPrecondition).precondition("stale_after"),
            Refusal::TenantNotAllowed { producer, tenant } => {
                no(PermissionDenied).with("producer", producer.as_str()).with("tenant", tenant.as_str())
            }
            Refusal::ParentNotLive { parent } => {
                no(FailedPrecondition).with("parent", parent.to_string()).resource(
                    "job",
                    parent.to_string(),
                    "A parent is a job of the same producer that is not final.",
                )
            }
            Refusal::WouldDeadlock { slot, asked, holder } => no(FailedPrecondition)
                .with("slot", slot.to_string())
                .with("asked", asked.to_string())
                .with("holder", holder.to_string())
                .precondition(slot.as_str()),
            Refusal::TreeLimit { guard, limit } => {
                no(ResourceExhausted).with("guard", guard).quota(guard, "tree", limit.into(), None)
            }
            Refusal::ClassLimit { limit } => {
                no(ResourceExhausted).quota("classes", "fleet", limit.into(), None)
            }
            Refusal::StoreFull { limit } => {
                no(ResourceExhausted).quota("max_live_jobs", "fleet", limit, None)
            }
            Refusal::JobFinal { job, state } | Refusal::JobNotFinal { job, state } => no(FailedPrecondition)
                .with("job", job.to_string())
                .with("state", state)
                .precondition(job.to_string()),
            Refusal::WorkflowNotFound { workflow } => {
                no(NotFound).with("workflow", workflow.to_string()).resource(
                    "workflow",
                    workflow.to_string(),
                    "No such workflow was stored, or it was swept with the last of its jobs.",
                )
            }
            Refusal::WorkflowIdReused { workflow } => {
                no(AlreadyExists).with("workflow", workflow.to_string())
            }
            Refusal::WorkflowFinal { workflow, state } => no(FailedPrecondition)
                .with("workflow", workflow.to_string())
                .with("state", state)
                .precondition(workflow.to_string()),
            Refusal::JobOfWorkflow { job, workflow } => no(FailedPrecondition)
                .with("job", job.to_string())
                .with("workflow", workflow.to_string())
                .precondition(job.to_string()),
            Refusal::ResultTaken { job, by, state } => no(FailedPrecondition)
                .with("job", job.to_string())
                .with("by", by.to_string())
                .with("state", state)
                .precondition(job.to_string()),
            Refusal::MemberGone { job, workflow } => no(FailedPrecondition)
                .with("job", job.to_string())
                .with("workflow", workflow.to_string())
                .precondition(job.to_string()),
            Refusal::OfMember { place, refusal } => {
                let mut no = Self::from(*refusal).of_member(&format!("members[{place}]"));
                if no.details.bad_request().is_none() {
                    no.message = format!("member {place}: {}", no.message);
                }
                no.with("place", place.to_string())
            }
            Refusal::NotAFleetSlot { slot } => {
                no(FailedPrecondition).with("slot", slot.as_str()).precondition(slot.as_str())
            }
            Refusal::FleetConflict { conflicts } => conflict(no(FailedPrecondition), conflicts),
            Refusal::NodeHoldsLeases { node, leases } => no(FailedPrecondition)
                .with("node", node.as_str())
                .with("leases", leases.to_string())
                .precondition(node.as_str()),
            Refusal::NodeConnected { node } | Refusal::NodeNameInUse { node } => {
                no(FailedPrecondition).with("node", node.as_str()).precondition(node.as_str())
            }
            Refusal::SupersededSession => no(FailedPrecondition).precondition("session"),
            Refusal::EpochAhead { seen, epoch } => no(FailedPrecondition)
                .with("seen", seen.to_string())
                .with("epoch", epoch.to_string())
                .precondition("epoch"),
            Refusal::LeaseLost { token, cause, job_state } => {
                let no = no(FailedPrecondition)
                    .with("token", token.0.to_string())
                    .with("cause", cause.name())
                    .precondition(token.to_string());
                match job_state {
                    Some(state) => no.with("state", state),
                    None => no,
                }
            }
        }
    }
}

/// The first violations, as many as may be told, and one about the others.
fn bounded(mut violations: Vec<Violation>) -> Vec<Violation> {
    for Violation { field, problem } in &mut violations {
        clip(field, 256);
        clip(problem, 512);
    }
    let mut bytes = 0;
    // The field is told twice: with its problem, and among the fields.
    let fit = violations.iter().take_while(|violation| {
        bytes += 2 * violation.field.len() + violation.problem.len();
        bytes <= MOST_TOLD
    });
    let kept = fit.count().max(1);
    let more = violations.len().saturating_sub(kept);
    violations.truncate(kept);
    if let (Some(last), true) = (violations.last(), more > 0) {
        let problem = format!("and {more} more");
        violations.push(Violation { field: last.field.clone(), problem });
    }
    violations
}

/// Cuts a text that is longer than so many bytes.
fn clip(text: &mut String, most: usize) {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        text.push('…');
    }
}

fn impossible(mut no: No, short: &[ImpossibleNeed]) -> No {
    let mut texts = Vec::with_capacity(short.len());
    let mut violations = Vec::with_capacity(short.len());
    for need in short {
        let ImpossibleNeed { slot, asked, most } = need;
        texts.push(format!("{slot}:{asked}>{most}"));
        violations.push(PreconditionViolation::new(
            no.reason,
            slot.as_str(),
            format!("{asked} asked of slot {slot}, the most that any node or the fleet has is {most}"),
        ));
    }
    no.details.set_precondition_failure(violations);
    no.with("short", texts.join(","))
}

fn conflict(mut no: No, conflicts: Vec<String>) -> No {
    let count = conflicts.len();
    if let Some(first) = conflicts.first() {
        let more = if count > 1 { format!(" (and {} more)", count - 1) } else { String::new() };
        no.message = format!("{}: {first}{more}", no.message);
    }
    let reason = no.reason;
    let told =
        bounded(conflicts.into_iter().map(|problem| Violation { field: String::new(), problem }).collect());
    let violations = told.into_iter().map(|told| PreconditionViolation::new(reason, "fleet", told.problem));
    no.details.set_precondition_failure(violations.collect::<Vec<_>>());
    no.with("conflicts", count.to_string())
}

impl From<SubmitError> for No {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Refused(refusal) => refusal.into(),
            SubmitError::Busy { retry_after } => {
                Self::new(Code::Unavailable, "SERVER_BUSY", "the server has too many calls waiting")
                    .retry(retry_after)
            }
            SubmitError::StoreUnavailable { retry_after } => Self::store_away(retry_after),
            SubmitError::Broken => Self::internal(),
            SubmitError::ShuttingDown => {
                Self::new(Code::Unavailable, "NOT_LEADER", "this server is stopping")
                    .retry(Duration::from_secs(1))
            }
            SubmitError::NotLeader { leader } => Self::not_leader(leader.as_ref()),
        }
    }
}

mod results;
#[cfg(test)]
mod tests;
