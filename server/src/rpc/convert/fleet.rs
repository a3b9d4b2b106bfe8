//! Kinds, slots and nodes for the wire.

use tenure_proto::v1;
use tenure_scheduler::{
    ClosedGroup, DedupePolicy, Kind, NodeState, NodeView, PausePolicy, RetryPolicy, Scope, SlotView,
};

use super::{age, duration, needs, requirement, timestamp};

/// A kind with its policy in force.
pub(crate) fn kind(kind: &Kind) -> v1::Kind {
    let policy = &kind.policy;
    let (selector, requirements) = requirement::parts(&policy.selector);
    v1::Kind {
        name: kind.name.to_string(),
        needs: Some(needs(&policy.needs)),
        selector,
        requirements,
        lease: Some(duration(policy.lease)),
        max_failures: policy.max_failures,
        max_losses: policy.max_losses,
        retry: Some(retry(&policy.retry)),
        permanent_exit_codes: policy.permanent_exit_codes.clone(),
        hard_time_limit: Some(duration(policy.hard_time_limit)),
        queue_cap: policy.queue_cap,
        max_running: policy.max_running,
        reserve_after: Some(duration(policy.reserve_after)),
        keep_on_wait: policy.keep_on_wait.iter().map(ToString::to_string).collect(),
        reacquire_timeout: Some(duration(policy.reacquire_timeout)),
        stale_after: policy.stale_after.map(duration),
        dedupe: match policy.dedupe {
            DedupePolicy::Retained => v1::DedupePolicy::Retained,
            DedupePolicy::Live => v1::DedupePolicy::Live,
        }
        .into(),
        priority: policy.priority.into(),
        result_ttl: Some(duration(policy.result_ttl)),
        retention: Some(duration(policy.retention)),
        paused: kind.paused.is_some(),
        pause_policy: match kind.paused {
            Some(PausePolicy::Hold) => v1::PausePolicy::Hold,
            Some(PausePolicy::Reject) => v1::PausePolicy::Reject,
            None => v1::PausePolicy::Unspecified,
        }
        .into(),
    }
}

fn retry(policy: &RetryPolicy) -> v1::RetryPolicy {
    match policy {
        RetryPolicy::Intervals(intervals) => v1::RetryPolicy {
            intervals: intervals.iter().map(|&wait| duration(wait)).collect(),
            ..Default::default()
        },
        RetryPolicy::Exponential { initial, factor_permille, max, jitter_permille } => v1::RetryPolicy {
            intervals: Vec::new(),
            initial: Some(duration(*initial)),
            factor_permille: *factor_permille,
            max: Some(duration(*max)),
            jitter_permille: *jitter_permille,
        },
    }
}

/// A slot with its use.
pub(crate) fn slot(view: &SlotView) -> v1::Slot {
    v1::Slot {
        name: view.slot.name.to_string(),
        per_node: match view.slot.scope {
            Scope::Node => true,
            Scope::Fleet { .. } => false,
        },
        capacity: view.count.capacity,
        used: view.count.used,
        paused: view.slot.paused.is_some(),
        paused_until: view.slot.paused.and_then(|pause| pause.until).map(timestamp),
        waiting: view.waiting,
    }
}

/// A node with what is known of it now.
pub(crate) fn node(view: &NodeView) -> v1::Node {
    let node = &view.node;
    v1::Node {
        name: node.name.to_string(),
        state: match view.state {
            NodeState::Live => v1::NodeState::Live,
            NodeState::Suspect => v1::NodeState::Suspect,
            NodeState::Away => v1::NodeState::Away,
        }
        .into(),
        cordoned: node.cordoned,
        draining: node.draining.is_some(),
        labels: node.labels.clone(),
        kinds: node.kinds.iter().map(ToString::to_string).collect(),
        slots: view
            .slots
            .iter()
            .map(|(slot, count)| v1::NodeSlot {
                slot: slot.to_string(),
                capacity: count.capacity,
                used: count.used,
            })
            .collect(),
        running: view.running,
        unreaped: view.unreaped,
        host: Some(v1::Host {
            cpus: node.host.cpus,
            memory_bytes: node.host.memory_bytes,
            disk_free_bytes: node.host.disk_free_bytes,
            os: node.host.os.to_string(),
            arch: node.host.arch.to_string(),
            containment: node.host.containment.to_string(),
        }),
        agent_version: node.agent_version.to_string(),
        incarnation: node.incarnation,
        silent_for: view.silent_for.map(age),
        closed_groups: view.closed.iter().map(closed_group).collect(),
        warnings: view.warnings.clone(),
    }
}

/// A group of grants that a node refuses.
pub(crate) fn closed_group(closed: &ClosedGroup) -> v1::ClosedGroup {
    v1::ClosedGroup {
        refuse: closed.group.to_string(),
        rule: closed.rule.to_string(),
        signal: closed.signal.to_string(),
        observed: closed.observed,
        threshold: closed.threshold,
        closed_for: Some(duration(closed.closed_for)),
    }
}
