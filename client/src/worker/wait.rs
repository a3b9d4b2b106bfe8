//! What an attempt waits for, and what comes of it.

use std::time::Duration;

use bytes::Bytes;
use tenure_proto::node::v1::{Detach, ResultBytes, WaitTerms, WorkDetached};
use tenure_proto::v1::WaitPolicy;

use super::attempt::Input;
use crate::wire;

/// Children that an attempt waits for, staying ([`super::Attempt::wait`]) or not ([`super::Output::detach`]).
///
/// ```
/// use std::time::Duration;
/// use tenure_client::NewJob;
/// use tenure_client::worker::Wait;
///
/// let children = [NewJob::new("fetch"), NewJob::new("fetch")];
/// let wait = Wait::all(children.iter().map(NewJob::id)).max_wait(Duration::from_secs(600)).state("half", "text/plain");
/// assert_eq!(wait.children().len(), 2);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Wait {
    detach: Detach,
    state: Option<ResultBytes>,
}

/// What came of a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waited {
    /// It is over: how the children stand, in the order in which they were named.
    Over(Vec<Input>),
    /// The attempt may not stay: it ends with [`super::Output::detach`], within the `soft_grace` of its kind if it has given back
    /// what it held, or goes on without having waited.
    MustDetach,
}

impl Wait {
    fn new(children: impl IntoIterator<Item = impl Into<String>>, policy: WaitPolicy, at_least: u32) -> Self {
        let job_ids = children.into_iter().map(Into::into).collect();
        let detach = Detach { job_ids, policy: policy.into(), at_least, ..Detach::default() };
        Self { detach, state: None }
    }

    /// Until all have ended, whatever their ends.
    pub fn all(children: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::new(children, WaitPolicy::All, 0)
    }

    /// Until one has succeeded, or none can any more.
    pub fn any(children: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::new(children, WaitPolicy::Any, 0)
    }

    /// Until one has ended otherwise than well, or all have ended.
    pub fn first_failure(children: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::new(children, WaitPolicy::FirstFailure, 0)
    }

    /// Until so many have succeeded, or so many cannot any more.
    pub fn at_least(count: u32, children: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::new(children, WaitPolicy::AtLeast, count)
    }

    /// No longer than this: then with the ends that there are.
    #[must_use]
    pub fn max_wait(mut self, length: Duration) -> Self {
        self.detach.max_wait = Some(wire::duration(length));
        self
    }

    /// What the execution finds again with which the job comes back after it detached, at most 256 KiB, and its media type.
    #[must_use]
    pub fn state(mut self, data: impl Into<Bytes>, content_type: impl Into<String>) -> Self {
        self.state = Some(ResultBytes { data: data.into(), content_type: content_type.into() });
        self
    }

    /// After it detached it would like to come back to this node.
    #[must_use]
    pub fn same_node(mut self) -> Self {
        self.detach.same_node = true;
        self
    }

    /// Whom it waits for.
    pub fn children(&self) -> &[String] {
        &self.detach.job_ids
    }

    pub(super) fn terms(&self) -> WaitTerms {
        let Detach { job_ids, policy, at_least, max_wait, same_node: _ } = self.detach.clone();
        WaitTerms { job_ids, policy, at_least, max_wait }
    }

    pub(super) fn into_wire(self) -> WorkDetached {
        WorkDetached { detach: Some(self.detach), state: self.state }
    }
}
