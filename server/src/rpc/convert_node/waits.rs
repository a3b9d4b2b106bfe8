//! What a job waits for, and by which lease somebody speaks, in the words of the wire.

use std::time::Duration;

use tenure_proto::{node::v1 as wire, v1};
use tenure_scheduler::{Detach, FencingToken, JobId, LeaseName, NodeName, WaitPolicy};

use crate::rpc::check::{ANY_LENGTH, Checks};

/// Children that one wait may name, whatever a parent may have.
const MOST_NAMED: usize = 10_000;

/// A wait as somebody wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) children: Vec<JobId>,
    pub(crate) policy: WaitPolicy,
    pub(crate) max_wait: Option<Duration>,
}

/// The lease that a call is about.
pub(crate) fn lease(checks: &mut Checks, lease: Option<&wire::LeaseName>) -> Option<LeaseName> {
    lease_at(checks, "lease", lease)
}

/// The same, where it stands elsewhere in a request.
pub(crate) fn lease_at(
    checks: &mut Checks,
    field: &str,
    lease: Option<&wire::LeaseName>,
) -> Option<LeaseName> {
    let Some(lease) = lease else {
        checks.refuse(field, "is required");
        return None;
    };
    let node = checks.name(&format!("{field}.node"), &lease.node, NodeName::parse);
    let job = checks.job_id(&format!("{field}.job_id"), &lease.job_id);
    if lease.token == 0 || i64::try_from(lease.token).is_err() {
        checks.refuse(format!("{field}.token"), "is no token");
    }
    Some(LeaseName { node: node?, job: job?, token: FencingToken(lease.token) })
}

/// What somebody waits for.
pub(crate) fn terms(checks: &mut Checks, field: &str, terms: Option<&wire::WaitTerms>) -> Option<Terms> {
    let Some(terms) = terms else {
        checks.refuse(field, "is required");
        return None;
    };
    let policy = policy(checks, field, terms.policy, terms.at_least);
    Some(Terms {
        children: children(checks, field, &terms.job_ids),
        max_wait: checks.duration(&format!("{field}.max_wait"), terms.max_wait.as_ref(), ANY_LENGTH),
        policy: policy?,
    })
}

/// What an execution waits for that has ended. There is nobody left to refuse it to: a mistake makes its report broken,
/// and that of nobody else.
pub(super) fn detach(checks: &mut Checks, field: &str, detach: &wire::Detach) -> Option<Detach> {
    let field = format!("{field}.detach");
    let policy = policy(checks, &field, detach.policy, detach.at_least);
    Some(Detach {
        children: children(checks, &field, &detach.job_ids),
        max_wait: checks.duration(&format!("{field}.max_wait"), detach.max_wait.as_ref(), ANY_LENGTH),
        same_node: detach.same_node,
        prior: Vec::new(),
        policy: policy?,
    })
}

fn children(checks: &mut Checks, field: &str, ids: &[String]) -> Vec<JobId> {
    let field = format!("{field}.job_ids");
    if ids.len() > MOST_NAMED {
        checks.refuse(field, format!("holds {} entries, at most {MOST_NAMED} are allowed", ids.len()));
        return Vec::new();
    }
    let mut all = Vec::with_capacity(ids.len());
    for (i, id) in ids.iter().enumerate() {
        if !checks.is_clean() {
            break;
        }
        all.extend(checks.job_id(&format!("{field}[{i}]"), id));
    }
    all
}

fn policy(checks: &mut Checks, field: &str, policy: i32, at_least: u32) -> Option<WaitPolicy> {
    let known = v1::WaitPolicy::try_from(policy);
    match known {
        Ok(v1::WaitPolicy::AtLeast) if at_least == 0 => {
            checks.refuse(format!("{field}.policy"), "wants at_least to be at least 1");
        }
        Ok(v1::WaitPolicy::AtLeast) => {}
        Ok(_) | Err(_) if at_least > 0 => {
            checks.refuse(format!("{field}.at_least"), "stands with WAIT_POLICY_AT_LEAST alone");
        }
        Ok(_) | Err(_) => {}
    }
    match known {
        Ok(v1::WaitPolicy::Unspecified | v1::WaitPolicy::All) => Some(WaitPolicy::All),
        Ok(v1::WaitPolicy::Any) => Some(WaitPolicy::Any),
        Ok(v1::WaitPolicy::AtLeast) => Some(WaitPolicy::AtLeast(at_least)),
        Ok(v1::WaitPolicy::FirstFailure) => Some(WaitPolicy::FirstFailure),
        Err(_) => {
            checks.refuse(format!("{field}.policy"), format!("{policy} is unknown"));
            None
        }
    }
}
