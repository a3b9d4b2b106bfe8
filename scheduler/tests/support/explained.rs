//! What `explain` and `groups` print.

use std::fmt::Write as _;

use tenure_scheduler::{Deferral, Explaining, Explanation, JobId, NodeName};

use super::world::World;

pub(crate) fn explain(world: &World, name: &str, id: JobId) -> String {
    let Some(explanation) = explanation(world, id) else {
        return format!("{name} is not live");
    };
    let reason = explanation.deferral.as_ref().map(|view| view.reason.to_string());
    let mut text = format!("{name}: {}, {} ahead", reason.unwrap_or("runs".into()), explanation.ahead);
    for job in &explanation.ahead_jobs {
        write!(text, " {job}").unwrap();
    }
    if !explanation.summary.is_empty() {
        write!(text, "\n  {}", explanation.summary).unwrap();
    }
    for slot in &explanation.slots {
        let place = slot.node.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
        let (used, capacity) = (slot.count.used, slot.count.capacity);
        write!(text, "\n  slot {}{place}: needs {} of {used}/{capacity}", slot.slot, slot.needed).unwrap();
        for holder in &slot.holders {
            let unreaped = if holder.unreaped { ", unreaped" } else { "" };
            write!(text, "\n    {} holds {} for {:?}{unreaped}", holder.job, holder.amount, holder.held_for)
                .unwrap();
        }
    }
    for node in &explanation.nodes {
        let why = node.why_not.as_ref().map(Deferral::to_string).unwrap_or("fits".into());
        write!(text, "\n  node {}: {why}", node.node).unwrap();
    }
    for earmark in &explanation.earmarks {
        let within = earmark.by.since(world.now().wall);
        write!(text, "\n  kept on {} within {within:?}: {} for {}", earmark.node, earmark.slots, earmark.job)
            .unwrap();
    }
    explanation.remedies.iter().for_each(|remedy| write!(text, "\n  > {remedy}").unwrap());
    text
}

/// In slices of one node and of two, and as a whole: nothing changes in between, so all are the same.
pub(crate) fn explanation(world: &World, id: JobId) -> Option<Explanation> {
    let whole = world.state.explain(world.now(), id);
    for most in [1, 2] {
        let mut explaining = Explaining::new(id);
        let merged = loop {
            if let Some(merged) = world.state.explain_slice(world.now(), &mut explaining, most) {
                break merged;
            }
        };
        assert_eq!(merged, whole, "in slices of {most}");
    }
    whole
}

pub(crate) fn groups(world: &World, name: &str, id: JobId) -> String {
    let explanation = explanation(world, id).expect("a live job");
    let mut text = format!("{name}: {}", explanation.summary);
    for total in &explanation.node_slots {
        let (used, capacity) = (total.used, total.capacity);
        write!(
            text,
            "\n  slot {}: needs {}, {}/{} nodes have room, {used}/{capacity} taken",
            total.slot, total.needed, total.with_room, total.nodes
        )
        .unwrap();
    }
    for group in &explanation.groups {
        let slots: Vec<String> = group.slots.iter().map(|(slot, units)| format!("{slot}:{units}")).collect();
        let labels: Vec<String> =
            group.labels.iter().map(|(label, value)| format!("{label}={value}")).collect();
        let examples: Vec<&str> = group.examples.iter().map(NodeName::as_str).collect();
        let why = group.why_not.as_ref().map_or("fits".to_owned(), Deferral::to_string);
        let sort = [slots.join(","), labels.join(",")].join(" ");
        write!(text, "\n  {} of {}: {why} ({})", group.nodes, sort.trim(), examples.join(" ")).unwrap();
    }
    if explanation.nodes_omitted > 0 {
        write!(text, "\n  {} nodes more", explanation.nodes_omitted).unwrap();
    }
    explanation.remedies.iter().for_each(|remedy| write!(text, "\n  > {remedy}").unwrap());
    text
}
