//! What would have to change for a job to start, one sentence each, with the exact amounts.

use crate::{
    deferral::{Deferral, NO_WORKER},
    place::classes::Class,
    view::{NodeGroup, SlotExplanation},
};

/// What would have to change. The first is about the reason that the job is told.
pub(super) fn remedies(
    reason: &Deferral,
    class: &Class,
    slots: &[SlotExplanation],
    groups: &[NodeGroup],
) -> Vec<String> {
    let mut all = vec![for_reason(reason, class, slots)];
    all.extend(closed_nodes(reason, groups));
    all.extend(holders(slots));
    all
}

fn for_reason(reason: &Deferral, class: &Class, slots: &[SlotExplanation]) -> String {
    match reason {
        Deferral::SlotBusy { slot, node: None, used, capacity } => {
            let needed = class.fleet.amount(slot);
            let wanted = used.saturating_add(needed);
            format!(
                "{} of fleet slot {slot}: holders end, or its capacity is raised from {capacity} to {wanted}",
                more(needed, capacity.saturating_sub(*used))
            )
        }
        Deferral::SlotBusy { slot, node: Some(node), used, capacity } => {
            let needed = class.node.amount(slot);
            format!(
                "{} of slot {slot} on node {node} or another: holders end, or {} joins",
                more(needed, capacity.saturating_sub(*used)),
                node_wanted(class)
            )
        }
        Deferral::Earmarked { slot, .. } => format!(
            "the job for which slot {slot} is kept starts or is cancelled, or a hard time limit of this one gives \
             the slot back in time"
        ),
        Deferral::NodePressure { node, rule, .. } if &**rule == NO_WORKER => {
            format!("a worker process of this kind attaches on node {node}, or another node can take it")
        }
        Deferral::NodePressure { node, rule, threshold, .. } => {
            format!(
                "rule {rule} on node {node} opens again (it closes at {threshold}), or another node can take it"
            )
        }
        Deferral::Masked { node, .. } => format!("the mask of node {node} ends, or another node can take it"),
        Deferral::OldAgent { node } => {
            format!("the agent of node {node} is upgraded, or another node can take it")
        }
        Deferral::NodeBackoff { node, .. } => format!(
            "the back-off of node {node} ends (`tenure node uncordon {node}` ends it at once), or another node can take it"
        ),
        Deferral::NoMatchingNode { .. } => format!("{} joins", node_wanted(class)),
        Deferral::NodesCordoned { node } => {
            format!("node {node} is uncordoned, or {} joins", node_wanted(class))
        }
        Deferral::Draining { node } => {
            format!("node {node} comes back or is uncordoned, or {} joins", node_wanted(class))
        }
        Deferral::Suspect { node } => format!("node {node} is heard again, or {} joins", node_wanted(class)),
        Deferral::Unanswered { node, .. } => format!("node {node} answers the grants that it has"),
        Deferral::ConcurrencyKey { key, .. } => {
            format!("a job with key {key} ends, or the limit of its kind is raised")
        }
        Deferral::Behind { jobs } => format!("the {jobs} ahead of it start"),
        Deferral::KindPaused => format!("kind {} is resumed", class.key.kind),
        Deferral::SlotPaused { slot, .. } => format!("slot {slot} is resumed"),
        Deferral::RateLimit { slot, until: Some(_) } => {
            format!("the rate of slot {slot} allows the next start, or is raised")
        }
        Deferral::Budget { counter, .. } => {
            format!("the window of the budget of {counter} turns, or the budget is raised")
        }
        Deferral::RateLimit { slot, until: None } => {
            format!("the burst of slot {slot} is raised, or the job asks for less")
        }
        Deferral::NotReaped { node } => {
            format!("node {node} reports its earlier processes gone; or requeue it with force")
        }
        Deferral::Impossible { slot, asked, most }
            if slots.iter().any(|known| known.slot == *slot && known.node.is_none()) =>
        {
            format!(
                "the capacity of fleet slot {slot} is raised from {most} to {asked}, or the job asks for less"
            )
        }
        Deferral::Impossible { slot, asked, most } => {
            format!(
                "a node with {asked} of slot {slot} joins (the most now is {most}), or the job asks for less"
            )
        }
        Deferral::Broken => "an operator requeues or deletes it; the server's log says what failed".into(),
        Deferral::WarmingUp => "the nodes come back; the server has just taken over".into(),
        Deferral::Backoff { .. } | Deferral::RunAt { .. } => "its time comes".into(),
        Deferral::WaitingChildren { .. } => {
            "its children end; they are listed by their parent, and one that is stuck says why itself".into()
        }
        Deferral::Blocked { .. } => {
            "the members of its workflow before it end; `workflow show` draws them, and one that is stuck says why itself"
                .into()
        }
        Deferral::Ready => "nothing: the next turn looks at it".into(),
    }
}

/// "2 more units", of which so many are free.
fn more(needed: u32, free: u32) -> String {
    match needed.saturating_sub(free) {
        1 => "1 more unit".into(),
        short => format!("{short} more units"),
    }
}

/// A node on which the class would fit if it were empty.
fn node_wanted(class: &Class) -> String {
    let mut parts = vec![format!("runs kind {}", class.key.kind)];
    if !class.key.selector.is_empty() {
        parts.push(format!("carries {}", class.key.selector));
    }
    if !class.node.is_empty() {
        parts.push(format!("offers {}", class.node));
    }
    let last = parts.pop().unwrap_or_default();
    if parts.is_empty() {
        return format!("a node that {last}");
    }
    format!("a node that {} and {last}", parts.join(", "))
}

/// Nodes that would do but for what an operator did, or for their silence. Not told twice: the reason names one of them
/// where it is of this sort.
fn closed_nodes(reason: &Deferral, groups: &[NodeGroup]) -> Vec<String> {
    let mut all = Vec::new();
    for (name, state, remedy) in [
        ("nodes_cordoned", "cordoned", "uncordon"),
        ("draining", "being emptied", "uncordon"),
        ("suspect", "silent", "look at"),
    ] {
        let alike =
            || groups.iter().filter(|group| group.why_not.as_ref().is_some_and(|why| why.name() == name));
        let nodes: u64 = alike().map(|group| group.nodes).sum();
        if nodes == 0 || (reason.name() == name && nodes == 1) {
            continue;
        }
        let mut names: Vec<&str> =
            alike().flat_map(|group| &group.examples).map(|name| name.as_str()).take(3).collect();
        if nodes > names.len() as u64 {
            names.push("…");
        }
        let (verb, noun) = if nodes == 1 { ("is", "node") } else { ("are", "nodes") };
        all.push(format!("{nodes} {noun} that could hold it {verb} {state}: {remedy} {}", names.join(", ")));
    }
    all
}

/// Who holds what is short.
fn holders(slots: &[SlotExplanation]) -> Vec<String> {
    let mut all: std::collections::BTreeMap<_, usize> = std::collections::BTreeMap::new();
    for slot in slots.iter().filter(|slot| slot.count.free() < slot.needed && !slot.holders.is_empty()) {
        *all.entry(&slot.slot).or_default() += slot.holders.len();
    }
    all.into_iter()
        .map(|(slot, count)| match count {
            1 => format!("1 lease holds slot {slot}; it is listed"),
            _ => format!("{count} leases hold slot {slot}; they are listed"),
        })
        .collect()
}
