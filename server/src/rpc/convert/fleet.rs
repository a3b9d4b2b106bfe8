//! Kinds, slots, tenants and nodes for the wire.

use tenure_proto::v1;
use tenure_scheduler::{
    Allowance, BackoffView, Budget, ClosedGroup, CounterName, DedupePolicy, Kind, NodeState, NodeView,
    OnExhausted, PausePolicy, Placement, RateLimit, RetryPolicy, Scope, SlotView, TenantView, Wall, Window,
};

use super::{age, duration, explain::earmark, needs, requirement, timestamp};

/// A kind with its policy in force, and what is spent of its budget now.
pub(crate) fn kind(kind: &Kind, now: Wall) -> v1::Kind {
    let policy = &kind.policy;
    let (selector, requirements) = requirement::parts(&policy.selector);
    v1::Kind {
        name: kind.name.to_string(),
        needs: Some(needs(&policy.needs)),
        selector,
        requirements,
        prefer: requirement::preferred(policy.prefer.iter()),
        node_backoff: Some(policy.node_backoff),
        lease: Some(duration(policy.lease)),
        max_failures: policy.max_failures,
        max_losses: policy.max_losses,
        retry: Some(retry(&policy.retry)),
        permanent_exit_codes: policy.permanent_exit_codes.clone(),
        hard_time_limit: Some(duration(policy.hard_time_limit)),
        soft_time_limit: policy.soft_time_limit.map(duration),
        progress_timeout: policy.progress_timeout.map(duration),
        queue_cap: policy.queue_cap,
        max_running: policy.max_running,
        budget: policy.budget.as_ref().map(|of| budget(kind, of, now)),
        concurrency: policy
            .concurrency
            .as_ref()
            .map(|by_key| v1::Concurrency { key: by_key.key.to_string(), limit: by_key.limit }),
        fifo: policy.fifo,
        reserve_after: Some(duration(policy.reserve_after)),
        keep_on_wait: policy.keep_on_wait.iter().map(ToString::to_string).collect(),
        reacquire_timeout: Some(duration(policy.reacquire_timeout)),
        stale_after: policy.stale_after.map(duration),
        dedupe: match policy.dedupe {
            DedupePolicy::Retained => v1::DedupePolicy::Retained,
            DedupePolicy::Live => v1::DedupePolicy::Live,
        }
        .into(),
        placement: match policy.placement {
            Placement::Pack => v1::Placement::Pack,
            Placement::Spread => v1::Placement::Spread,
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

fn budget(kind: &Kind, budget: &Budget, now: Wall) -> v1::Budget {
    let counter = |(name, allowance): (&CounterName, &Allowance)| {
        let (spent, until) = kind.spent_of(name, allowance.window, now);
        v1::BudgetCounter {
            name: name.to_string(),
            limit: allowance.amount,
            window: match allowance.window {
                Window::Hour => v1::BudgetWindow::Hour,
                Window::Day => v1::BudgetWindow::Day,
                Window::Week => v1::BudgetWindow::Week,
                Window::Month => v1::BudgetWindow::Month,
            }
            .into(),
            spent,
            until: Some(timestamp(until)),
        }
    };
    v1::Budget {
        counters: budget.allowances.iter().map(counter).collect(),
        on_exhausted: match budget.on_exhausted {
            OnExhausted::Defer => v1::OnExhausted::Defer,
            OnExhausted::Refuse => v1::OnExhausted::Refuse,
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
        rate: view.slot.rate.map(rate),
        throttled_until: view.slot.throttled_until.map(timestamp),
    }
}

fn rate(limit: RateLimit) -> v1::Rate {
    v1::Rate { amount: limit.tokens, per: Some(duration(limit.per)), burst: limit.burst }
}

/// A tenant with what it takes.
pub(crate) fn tenant(view: &TenantView) -> v1::Tenant {
    v1::Tenant {
        name: view.tenant.to_string(),
        weight: view.weight,
        declared: view.declared,
        share_permille: view.share_permille,
        dominant_slot: view.dominant.as_ref().map(ToString::to_string).unwrap_or_default(),
        used: view
            .used
            .iter()
            .map(|(slot, count)| v1::TenantSlot {
                slot: slot.to_string(),
                used: count.used,
                capacity: count.capacity,
            })
            .collect(),
        queued: view.queued,
        leases: view.leases,
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
        draining: node.draining.is_some() || view.leaving,
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
        backoffs: view.backoffs.iter().map(backoff).collect(),
        earmarks: view.earmarks.iter().map(earmark).collect(),
    }
}

fn backoff(view: &BackoffView) -> v1::NodeBackoff {
    v1::NodeBackoff { kind: view.kind.to_string(), failed: view.failed, until: Some(timestamp(view.until)) }
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
