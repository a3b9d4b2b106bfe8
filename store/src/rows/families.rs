//! Waits of parents, as JSON inside a row.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use tenure_scheduler::{
    Child, ChildEnd, ChildWait, Detached, FencingToken, JobId, OnParent, Parked, WaitPolicy, WaitVerdict,
    Wall,
};

use super::{int, json::ReservationJson};

/// The newest wait for which a job detached.
#[derive(Serialize, Deserialize)]
pub(super) struct DetachedJson {
    wait: ChildWaitJson,
    token: i64,
    has_state: bool,
    same_node: bool,
}

/// The newest wait under a lease during which its process stays.
#[derive(Serialize, Deserialize)]
pub(super) struct ParkedJson {
    epoch: i64,
    wait: ChildWaitJson,
    yielded: ReservationJson,
    verdict: Option<VerdictJson>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum VerdictJson {
    Go,
    MustDetach,
}

impl From<&Parked> for ParkedJson {
    fn from(parked: &Parked) -> Self {
        Self {
            epoch: int(parked.epoch),
            wait: (&parked.wait).into(),
            yielded: (&parked.yielded).into(),
            verdict: parked.verdict.map(|verdict| match verdict {
                WaitVerdict::Go => VerdictJson::Go,
                WaitVerdict::MustDetach => VerdictJson::MustDetach,
            }),
        }
    }
}

impl From<ParkedJson> for Parked {
    fn from(json: ParkedJson) -> Self {
        Self {
            epoch: u64::try_from(json.epoch).unwrap_or(0),
            wait: json.wait.into(),
            yielded: json.yielded.into(),
            verdict: json.verdict.map(|verdict| match verdict {
                VerdictJson::Go => WaitVerdict::Go,
                VerdictJson::MustDetach => WaitVerdict::MustDetach,
            }),
        }
    }
}

/// What a parent waits for.
#[derive(Serialize, Deserialize)]
pub(super) struct ChildWaitJson {
    /// Each with its end, if it has ended.
    children: Vec<(IdJson, Option<Cow<'static, str>>)>,
    policy: PolicyJson,
    until: Option<i64>,
}

/// A job by its text.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
struct IdJson(JobId);

impl From<IdJson> for String {
    fn from(IdJson(id): IdJson) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for IdJson {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse().map(Self).map_err(|_| "is no id of a job".into())
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PolicyJson {
    All,
    Any,
    AtLeast(u32),
    FirstFailure,
}

impl From<&Detached> for DetachedJson {
    fn from(detached: &Detached) -> Self {
        Self {
            wait: (&detached.wait).into(),
            token: int(detached.token.0),
            has_state: detached.has_state,
            same_node: detached.same_node,
        }
    }
}

impl From<DetachedJson> for Detached {
    fn from(json: DetachedJson) -> Self {
        Self {
            wait: json.wait.into(),
            token: FencingToken(u64::try_from(json.token).unwrap_or(0)),
            has_state: json.has_state,
            same_node: json.same_node,
        }
    }
}

impl From<&ChildWait> for ChildWaitJson {
    fn from(wait: &ChildWait) -> Self {
        let child = |child: &Child| (IdJson(child.job), child.end.map(|end| Cow::Borrowed(end.name())));
        Self {
            children: wait.children.iter().map(child).collect(),
            policy: match wait.policy {
                WaitPolicy::All => PolicyJson::All,
                WaitPolicy::Any => PolicyJson::Any,
                WaitPolicy::AtLeast(number) => PolicyJson::AtLeast(number),
                WaitPolicy::FirstFailure => PolicyJson::FirstFailure,
            },
            until: wait.until.map(|until| until.0),
        }
    }
}

impl From<ChildWaitJson> for ChildWait {
    fn from(json: ChildWaitJson) -> Self {
        Self {
            children: json
                .children
                .into_iter()
                .map(|(IdJson(job), end)| Child { job, end: end.map(|end| end_of(&end)) })
                .collect(),
            policy: match json.policy {
                PolicyJson::All => WaitPolicy::All,
                PolicyJson::Any => WaitPolicy::Any,
                PolicyJson::AtLeast(number) => WaitPolicy::AtLeast(number),
                PolicyJson::FirstFailure => WaitPolicy::FirstFailure,
            },
            until: json.until.map(Wall),
        }
    }
}

/// An end that only a later version knows is at least no success.
fn end_of(name: &str) -> ChildEnd {
    ChildEnd::ALL.into_iter().find(|end| end.name() == name).unwrap_or(ChildEnd::Missing)
}

/// What a child does about its parent, by its word.
pub(super) fn on_parent_of(name: &str) -> Option<OnParent> {
    [OnParent::Keep, OnParent::Cancel].into_iter().find(|known| known.name() == name)
}
