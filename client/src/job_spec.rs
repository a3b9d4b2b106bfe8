//! Describing a job before it exists.
//!
//! Invariant: a `NewJob` has its id from the start, so enqueueing the same value twice is one job.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use prost::Message;
use tenure_proto::v1::{JobSpec, Needs, OnParent, Payload, Requirement, RequirementOperator, SlotAmount};
use uuid::Uuid;

use crate::wire;

/// A job to be enqueued. Its id is made here, once: the same value enqueued again is the same job.
///
/// ```
/// use std::time::Duration;
/// use tenure_client::NewJob;
///
/// let job = NewJob::new("site.qa")
///     .payload("https://example.org")
///     .content_type("text/plain")
///     .dedupe_key("site.qa:example.org")
///     .need("browser", 1)
///     .delay(Duration::from_secs(60));
/// let again = job.clone();
/// assert_eq!(job.id(), again.id());
/// assert_ne!(job.id(), NewJob::new("site.qa").id());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct NewJob {
    spec: JobSpec,
}

/// A fresh job id: a UUID v7, which sorts by its time of birth.
///
/// ```
/// let (earlier, later) = (tenure_client::new_job_id(), tenure_client::new_job_id());
/// assert!(earlier < later);
/// ```
pub fn new_job_id() -> String {
    Uuid::now_v7().to_string()
}

impl NewJob {
    /// A job of a kind that the fleet file declares, with a fresh id.
    pub fn new(kind: impl Into<String>) -> Self {
        Self { spec: JobSpec { kind: kind.into(), job_id: new_job_id(), ..JobSpec::default() } }
    }

    /// The id that the job will have.
    pub fn id(&self) -> &str {
        &self.spec.job_id
    }

    /// Uses an id that was made before (by [`new_job_id`]), to send a call of an earlier process again.
    #[must_use]
    pub fn with_id(mut self, job_id: impl Into<String>) -> Self {
        self.spec.job_id = job_id.into();
        self
    }

    /// The input of the job. The content type is `application/octet-stream` unless [`NewJob::content_type`] names one.
    #[must_use]
    pub fn payload(mut self, data: impl Into<Bytes>) -> Self {
        self.payload_mut().data = data.into();
        self
    }

    /// The media type of the payload.
    #[must_use]
    pub fn content_type(mut self, content_type: impl Into<String>) -> Self {
        self.payload_mut().content_type = content_type.into();
        self
    }

    /// The identity of the business work: the first job with it, of this kind and tenant, answers for all others.
    #[must_use]
    pub fn dedupe_key(mut self, key: impl Into<String>) -> Self {
        self.spec.dedupe_key = key.into();
        self
    }

    /// What it shares with jobs of its kind and tenant that may not all run at once, as the kind's `concurrency` says.
    #[must_use]
    pub fn concurrency_key(mut self, key: impl Into<String>) -> Self {
        self.spec.concurrency_key = key.into();
        self
    }

    /// Whose work it is.
    #[must_use]
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.spec.tenant = tenant.into();
        self
    }

    /// −100 to 100, higher first.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.spec.priority = Some(priority);
        self
    }

    /// Not to be started before this instant. Replaces a delay.
    #[must_use]
    pub fn run_at(mut self, at: SystemTime) -> Self {
        self.spec.run_at = Some(wire::timestamp(at));
        self.spec.delay = None;
        self
    }

    /// Not to be started before this long after the enqueue. Replaces an instant.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.spec.delay = Some(wire::duration(delay));
        self.spec.run_at = None;
        self
    }

    /// Expires if not started within this long after the enqueue.
    #[must_use]
    pub fn stale_after(mut self, after: Duration) -> Self {
        self.spec.stale_after = Some(wire::duration(after));
        self
    }

    /// A label, for people and filters.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.spec.labels.insert(name.into(), value.into());
        self
    }

    /// A node label that the node must carry with exactly this value.
    #[must_use]
    pub fn selector(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.spec.selector.insert(name.into(), value.into());
        self
    }

    /// What a node label must be. Its text is `os=linux`, `os!=linux`, `gpu in (a100, h100)`, `gpu not in (a100, h100)`,
    /// `gpu` (the node has the label) or `!gpu`, and parses:
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tenure_client::NewJob;
    ///
    /// let job = NewJob::new("train").require("gpu in (a100, h100)".parse()?).require("!spot".parse()?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A label can be asked for once: the server refuses a second requirement of it. A server of an earlier version knows
    /// plain equality only, and does not look at the rest.
    #[must_use]
    pub fn require(mut self, requirement: Requirement) -> Self {
        let selector = &mut self.spec.selector;
        match (requirement.operator(), &requirement.values[..]) {
            (RequirementOperator::In, [value]) if !selector.contains_key(&requirement.label) => {
                selector.insert(requirement.label.clone(), value.clone());
            }
            _ => self.spec.requirements.push(requirement),
        }
        self
    }

    /// Which nodes it would rather have; each call adds one that counts for less than those before. It never waits for
    /// such a node.
    #[must_use]
    pub fn prefer(mut self, requirement: Requirement) -> Self {
        self.spec.prefer.push(requirement);
        self
    }

    /// Units of a slot. The first call replaces the needs of the kind; a second one of the same slot sets it anew.
    #[must_use]
    pub fn need(mut self, slot: impl Into<String>, amount: u32) -> Self {
        let slot = slot.into();
        let slots = &mut self.spec.needs.get_or_insert_with(Needs::default).slots;
        slots.retain(|need| need.slot != slot);
        slots.push(SlotAmount { slot, amount });
        self
    }

    /// Needs no slot at all, whatever the kind says.
    #[must_use]
    pub fn no_needs(mut self) -> Self {
        self.spec.needs = Some(Needs::default());
        self
    }

    /// A hard limit of each attempt; it may only shorten the kind's.
    #[must_use]
    pub fn hard_time_limit(mut self, limit: Duration) -> Self {
        self.spec.hard_time_limit = Some(wire::duration(limit));
        self
    }

    /// A soft limit of each attempt, at which it is asked to wrap up; it may only shorten the kind's, and is below the hard
    /// limit.
    #[must_use]
    pub fn soft_time_limit(mut self, limit: Duration) -> Self {
        self.spec.soft_time_limit = Some(wire::duration(limit));
        self
    }

    /// A live job of the same producer that this one belongs to.
    #[must_use]
    pub fn parent(mut self, job_id: impl Into<String>) -> Self {
        self.spec.parent_id = job_id.into();
        self
    }

    /// As a child: goes on when its parent is cancelled. Without this it is cancelled, too.
    #[must_use]
    pub fn keep_on_parent_cancel(mut self) -> Self {
        self.spec.on_parent_cancel = OnParent::Keep.into();
        self
    }

    /// As a child: is cancelled when an execution of its parent is lost. Without this it goes on.
    #[must_use]
    pub fn cancel_on_parent_lost(mut self) -> Self {
        self.spec.on_parent_lost = OnParent::Cancel.into();
        self
    }

    /// The W3C `traceparent` of the enqueue: attempts are linked to it. The server refuses a malformed one.
    #[must_use]
    pub fn traceparent(mut self, traceparent: impl Into<String>) -> Self {
        self.spec.traceparent = traceparent.into();
        self
    }

    /// The W3C `tracestate` beside it.
    #[must_use]
    pub fn tracestate(mut self, tracestate: impl Into<String>) -> Self {
        self.spec.tracestate = tracestate.into();
        self
    }

    /// What goes over the wire.
    pub fn spec(&self) -> &JobSpec {
        &self.spec
    }

    /// Its dedupe key; empty: none.
    pub(crate) fn key(&self) -> &str {
        &self.spec.dedupe_key
    }

    /// What the job is about: the bytes of its payload and their media type, empty if nobody said one.
    pub(crate) fn asked(&self) -> (&[u8], &str) {
        self.spec.payload.as_ref().map_or((&[], ""), |payload| (&payload.data, &payload.content_type))
    }

    /// Its size on the wire, in bytes, for callers that cut batches themselves.
    pub fn size(&self) -> usize {
        self.size_in_batch()
    }

    /// Its size inside a batch, in bytes: the encoded item with its tag and length.
    pub(crate) fn size_in_batch(&self) -> usize {
        let length = self.spec.encoded_len();
        length + prost::length_delimiter_len(length) + 1
    }

    fn payload_mut(&mut self) -> &mut Payload {
        self.spec.payload.get_or_insert_with(Payload::default)
    }
}

impl From<JobSpec> for NewJob {
    /// Takes a message as it is, and gives it an id if it has none.
    fn from(mut spec: JobSpec) -> Self {
        if spec.job_id.is_empty() {
            spec.job_id = new_job_id();
        }
        Self { spec }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_has_a_v7_id_before_it_is_sent() {
        let job = NewJob::new("digest.daily");
        assert_eq!(Uuid::parse_str(job.id()).unwrap().get_version_num(), 7);
        assert_ne!(NewJob::new("digest.daily").id(), job.id());
        assert_eq!(NewJob::from(JobSpec::default()).id().len(), 36);
    }

    #[test]
    fn a_delay_and_an_instant_exclude_each_other() {
        let job = NewJob::new("k").run_at(SystemTime::UNIX_EPOCH).delay(Duration::from_secs(1));
        assert!(job.spec().run_at.is_none() && job.spec().delay.is_some());
    }

    #[test]
    fn plain_equality_is_said_in_the_words_of_every_server() {
        let require = |job: NewJob, text: &str| job.require(text.parse().unwrap());
        let job = require(require(NewJob::new("k"), "os=linux"), "gpu in (a100, h100)");
        assert_eq!(job.spec().selector["os"], "linux");
        assert_eq!(job.spec().requirements[0].to_string(), "gpu in (a100, h100)");
        // Named twice: the server says so, and nothing is lost on the way.
        let job = require(require(NewJob::new("k"), "os=linux"), "os=macos");
        assert_eq!((job.spec().selector.len(), job.spec().requirements.len()), (1, 1));
    }

    #[test]
    fn no_needs_differs_from_the_needs_of_the_kind() {
        assert!(NewJob::new("k").spec().needs.is_none());
        assert!(NewJob::new("k").no_needs().spec().needs.is_some());
        let job = NewJob::new("k").need("gpu", 1).need("gpu", 2);
        assert_eq!(job.spec().needs.as_ref().unwrap().slots, [SlotAmount { slot: "gpu".into(), amount: 2 }]);
    }
}
