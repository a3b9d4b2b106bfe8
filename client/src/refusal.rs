//! A no of the server, decoded from its `google.rpc` details.
//!
//! Responsible for: turning a status into one typed value. Not responsible for: what to do about it; that is the
//! caller's (`retry.rs` looks at one code only).
//! Invariant: decoding never fails. What is not there is empty, what is malformed is left out.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, RpcStatusExt, StatusExt, pb};

/// The server's no: nothing was stored, unless it is UNAVAILABLE. Then the outcome is not known.
///
/// ```
/// use tenure_client::Refusal;
///
/// let refusal = Refusal::from_status(&tonic::Status::not_found("no such job"));
/// assert_eq!(refusal.to_string(), "no such job");
/// assert!(refusal.retry_after.is_none() && !refusal.is_unavailable());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The gRPC code; UNAVAILABLE for every call that ended with its connection.
    pub code: Code,
    /// A stable word in upper case (`QUEUE_FULL`). Empty if the answer came from the transport and not from Tenure.
    pub reason: String,
    /// A sentence for people.
    pub message: String,
    /// When the same call may succeed. Absent: waiting alone does not cure it, or the server cannot tell.
    pub retry_after: Option<Duration>,
    /// Every dynamic value of the message, by name.
    pub metadata: BTreeMap<String, String>,
    /// Each field that was wrong, all at once.
    pub field_violations: Vec<FieldViolation>,
    /// Each limit that was reached.
    pub quota_violations: Vec<QuotaViolation>,
    /// Each condition that does not hold.
    pub precondition_violations: Vec<PreconditionViolation>,
    /// What was not found, or is in the way.
    pub resource: Option<Resource>,
}

/// One field of the request that was wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldViolation {
    /// Its path, such as `job.kind`.
    pub field: String,
    /// What is wrong with it.
    pub description: String,
}

/// One limit that was reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaViolation {
    /// Whose limit: a kind, a producer.
    pub subject: String,
    /// The limit in words.
    pub description: String,
    /// Which limit, by name; empty from older servers.
    pub quota: String,
    /// The limit as a number; 0 if the server named none.
    pub limit: i64,
    /// Further figures by name, such as the depth.
    pub dimensions: BTreeMap<String, String>,
}

/// One condition that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreconditionViolation {
    /// The kind of condition.
    pub condition: String,
    /// What it is about: a slot, a kind.
    pub subject: String,
    /// What would have to hold.
    pub description: String,
}

/// What a refusal is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Job, kind, node, slot.
    pub kind: String,
    /// Its name or id.
    pub name: String,
    /// A sentence; may be empty.
    pub description: String,
}

impl Refusal {
    /// Decodes the status of a call.
    pub fn from_status(status: &Status) -> Self {
        let details = status.get_error_details();
        if details.error_info().is_some() {
            return Self::new(status.code(), status.message().to_owned(), &details);
        }
        let code = if was_cut_off(status) { Code::Unavailable } else { status.code() };
        Self::new(code, chain(status), &details)
    }

    /// Decodes the status of one item of a batch.
    pub fn from_item(status: &pb::Status) -> Self {
        Self::new(Code::from_i32(status.code), status.message.clone(), &status.get_error_details())
    }

    fn new(code: Code, message: String, details: &ErrorDetails) -> Self {
        let info = details.error_info();
        Self {
            code,
            reason: info.map(|info| info.reason.clone()).unwrap_or_default(),
            message,
            retry_after: details.retry_info().and_then(|info| info.retry_delay),
            metadata: info.map(|info| sorted(&info.metadata)).unwrap_or_default(),
            field_violations: details
                .bad_request()
                .into_iter()
                .flat_map(|bad| &bad.field_violations)
                .map(|v| FieldViolation { field: v.field.clone(), description: v.description.clone() })
                .collect(),
            quota_violations: details
                .quota_failure()
                .into_iter()
                .flat_map(|failure| &failure.violations)
                .map(|v| QuotaViolation {
                    subject: v.subject.clone(),
                    description: v.description.clone(),
                    quota: v.quota_id.clone(),
                    limit: v.quota_value,
                    dimensions: sorted(&v.quota_dimensions),
                })
                .collect(),
            precondition_violations: details
                .precondition_failure()
                .into_iter()
                .flat_map(|failure| &failure.violations)
                .map(|v| PreconditionViolation {
                    condition: v.r#type.clone(),
                    subject: v.subject.clone(),
                    description: v.description.clone(),
                })
                .collect(),
            resource: details.resource_info().map(|info| Resource {
                kind: info.resource_type.clone(),
                name: info.resource_name.clone(),
                description: info.description.clone(),
            }),
        }
    }

    /// Whether clients try again by themselves: the server is away, not ready, or busy.
    pub fn is_unavailable(&self) -> bool {
        self.code == Code::Unavailable
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.reason.as_str(), self.message.as_str()) {
            ("", "") => write!(f, "{}", self.code),
            ("", message) => f.write_str(message),
            (reason, "") => f.write_str(reason),
            (reason, message) => write!(f, "{message} ({reason})"),
        }
    }
}

impl std::error::Error for Refusal {}

fn sorted(map: &std::collections::HashMap<String, String>) -> BTreeMap<String, String> {
    map.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Whether nobody answered the call: its connection broke, or its stream was reset, while it was in flight.
///
/// The transport gives such a call UNKNOWN, INTERNAL or CANCELLED, as the moment has it. A status that was read off the
/// wire never has a source, one that the transport made always has.
fn was_cut_off(status: &Status) -> bool {
    std::error::Error::source(status).is_some()
}

/// The message of a transport's status with its causes: "transport error" alone says nothing.
fn chain(status: &Status) -> String {
    let mut message = status.message().to_owned();
    let causes = std::iter::successors(std::error::Error::source(status), |&error| error.source());
    for cause in causes {
        let cause = cause.to_string();
        if !cause.is_empty() && !message.contains(&cause) {
            message = if message.is_empty() { cause } else { format!("{message}: {cause}") };
        }
    }
    message
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn queue_full() -> Status {
        let mut details = ErrorDetails::new();
        details
            .set_retry_info(Some(Duration::from_secs(600)))
            .set_error_info("QUEUE_FULL", "tenure", [("kind".to_owned(), "site.qa".to_owned())])
            .add_quota_failure_violation("site.qa", "20 of 20 jobs are queued");
        Status::with_error_details(Code::ResourceExhausted, "the queue of site.qa is full", details)
    }

    #[test]
    fn every_detail_of_a_refusal_is_decoded() {
        let refusal = Refusal::from_status(&queue_full());
        assert_eq!(refusal.reason, "QUEUE_FULL");
        assert_eq!(refusal.retry_after, Some(Duration::from_secs(600)));
        assert_eq!(refusal.metadata["kind"], "site.qa");
        assert_eq!(refusal.quota_violations[0].subject, "site.qa");
        assert_eq!(refusal.to_string(), "the queue of site.qa is full (QUEUE_FULL)");
    }

    #[test]
    fn violations_of_all_three_kinds_are_kept_in_order() {
        let mut details = ErrorDetails::new();
        details
            .add_bad_request_violation("job.kind", "is required")
            .add_bad_request_violation("job.priority", "is above 100")
            .add_precondition_failure_violation("SLOT", "gpu", "2 asked, 1 at most")
            .set_resource_info("kind", "site.qq", "", "unknown");
        let refusal =
            Refusal::from_status(&Status::with_error_details(Code::InvalidArgument, "bad", details));
        let fields: Vec<&str> = refusal.field_violations.iter().map(|v| v.field.as_str()).collect();
        assert_eq!(fields, ["job.kind", "job.priority"]);
        assert_eq!(refusal.precondition_violations[0].subject, "gpu");
        assert_eq!(refusal.resource.unwrap().name, "site.qq");
    }

    #[test]
    fn a_status_without_details_is_a_refusal_without_a_reason() {
        let refusal = Refusal::from_status(&Status::new(Code::Internal, "boom"));
        assert_eq!((refusal.reason.as_str(), refusal.to_string().as_str()), ("", "boom"));
    }

    #[test]
    fn a_status_that_the_transport_made_is_unavailable_whatever_its_code() {
        let mut details = ErrorDetails::new();
        details.set_error_info("LEASE_LOST", "tenure", []);
        for code in [Code::Unknown, Code::Internal, Code::Cancelled] {
            let mut status = Status::new(code, "transport error");
            status.set_source(Arc::new(std::io::Error::from(std::io::ErrorKind::ConnectionReset)));
            let refusal = Refusal::from_status(&status);
            assert!(refusal.is_unavailable(), "{code}");
            assert_eq!(refusal.to_string(), "transport error: connection reset");
            let answered = Status::with_error_details(code, "no", details.clone());
            assert!(!Refusal::from_status(&answered).is_unavailable(), "{code}");
        }
    }

    #[test]
    fn malformed_details_are_left_out() {
        let status =
            Status::with_details(Code::NotFound, "no", bytes::Bytes::from_static(&[0xff, 0x01, 0x02]));
        let refusal = Refusal::from_status(&status);
        assert_eq!(refusal.code, Code::NotFound);
        assert_eq!(refusal.reason, "");
    }
}
