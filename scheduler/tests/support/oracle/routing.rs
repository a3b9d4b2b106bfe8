//! Where a job may go by the labels of nodes, from the rules of `docs/placement.md`.

use tenure_scheduler::{Condition, Job, Kind, Node, Requirement, Selector};

/// What a kind and its job ask for, all of which must hold.
pub(super) fn selector(job: &Job, kind: &Kind) -> Vec<Requirement> {
    kind.policy.selector.iter().chain(job.selector.iter()).cloned().collect()
}

/// The same for all jobs of a class.
pub(super) fn both(job: &Job, kind: &Kind) -> Selector {
    Selector::new(selector(job, kind))
}

/// Whether a node is what is asked for. What a host is counts before what its node file says.
pub(super) fn allows(job: &Job, kind: &Kind, node: &Node) -> bool {
    selector(job, kind).iter().all(|requirement| is_met(requirement, node))
}

fn is_met(requirement: &Requirement, node: &Node) -> bool {
    let fact = match requirement.label() {
        "os" => node.host.os.to_string(),
        "arch" => node.host.arch.to_string(),
        "containment" => node.host.containment.to_string(),
        _ => String::new(),
    };
    let value = if fact.is_empty() { node.labels.get(requirement.label()).cloned() } else { Some(fact) };
    match (requirement.condition(), value) {
        (Condition::Exists, value) => value.is_some(),
        (Condition::NotExists | Condition::NotIn(_), None) => true,
        (Condition::NotExists, Some(_)) | (Condition::In(_), None) => false,
        (Condition::In(values), Some(value)) => values.iter().any(|one| **one == *value),
        (Condition::NotIn(values), Some(value)) => values.iter().all(|one| **one != *value),
    }
}
