//! Explanations for the wire.

use tenure_proto::v1;
use tenure_scheduler::{
    Bracket, EarmarkView, Explanation, NodeExplanation, NodeGroup, SlotExplanation, SlotHolder, SlotTotal,
};

use super::{age, job::parameters, needs, timestamp};

/// Why a job does not run, beside the job itself and its attempts.
pub(crate) fn explanation(explanation: Explanation) -> v1::ExplainJobResponse {
    v1::ExplainJobResponse {
        job: None,
        slots: explanation.slots.iter().map(slot_explanation).collect(),
        nodes: explanation.nodes.iter().map(node_explanation).collect(),
        ahead: explanation.ahead,
        ahead_job_ids: explanation.ahead_jobs.iter().map(ToString::to_string).collect(),
        attempts: Vec::new(),
        remedies: explanation.remedies,
        summary: explanation.summary,
        node_groups: explanation.groups.iter().map(node_group).collect(),
        nodes_omitted: explanation.nodes_omitted,
        node_slots: explanation.node_slots.iter().map(slot_total).collect(),
        line: explanation.line.map(|(slot, ahead)| v1::LineAhead {
            slot: slot.to_string(),
            classes: ahead.classes,
            jobs: ahead.jobs,
            jobs_by_share: ahead.by_share,
        }),
        start: start(&explanation.bracket),
        earmarks: explanation.earmarks.iter().map(earmark).collect(),
    }
}

/// What is kept for a job that waits.
pub(super) fn earmark(earmark: &EarmarkView) -> v1::Earmark {
    v1::Earmark {
        job_id: earmark.job.to_string(),
        node: earmark.node.to_string(),
        slots: Some(needs(&earmark.slots)),
        by: Some(timestamp(earmark.by)),
    }
}

fn start(bracket: &Bracket) -> Option<v1::StartBracket> {
    (*bracket != Bracket::default()).then(|| v1::StartBracket {
        earliest: bracket.earliest.map(timestamp),
        likely: bracket.likely.map(timestamp),
        late: bracket.late.map(timestamp),
        latest: bracket.latest.map(timestamp),
        assumes: bracket.assumes.iter().map(ToString::to_string).collect(),
    })
}

fn node_group(group: &NodeGroup) -> v1::NodeGroup {
    let why_not = group.why_not.as_ref();
    v1::NodeGroup {
        labels: group.labels.clone(),
        slots: group.slots.iter().map(|(slot, units)| (slot.to_string(), *units)).collect(),
        nodes: group.nodes,
        examples: group.examples.iter().map(ToString::to_string).collect(),
        fits: why_not.is_none(),
        reason: why_not.map(|why| why.name().to_owned()).unwrap_or_default(),
        parameters: why_not.map(parameters).unwrap_or_default(),
        message: why_not.map(ToString::to_string).unwrap_or_default(),
    }
}

fn slot_total(total: &SlotTotal) -> v1::SlotTotal {
    v1::SlotTotal {
        slot: total.slot.to_string(),
        needed: total.needed,
        nodes: total.nodes,
        nodes_with_room: total.with_room,
        used: total.used,
        capacity: total.capacity,
    }
}

fn slot_explanation(slot: &SlotExplanation) -> v1::SlotExplanation {
    v1::SlotExplanation {
        slot: slot.slot.to_string(),
        node: slot.node.as_ref().map(ToString::to_string).unwrap_or_default(),
        needed: slot.needed,
        used: slot.count.used,
        capacity: slot.count.capacity,
        paused: slot.paused,
        holders: slot.holders.iter().map(holder).collect(),
    }
}

fn holder(holder: &SlotHolder) -> v1::SlotHolder {
    v1::SlotHolder {
        job_id: holder.job.to_string(),
        kind: holder.kind.to_string(),
        node: holder.node.to_string(),
        amount: holder.amount,
        held_for: Some(age(holder.held_for)),
        unreaped: holder.unreaped,
    }
}

fn node_explanation(node: &NodeExplanation) -> v1::NodeExplanation {
    let why_not = node.why_not.as_ref();
    v1::NodeExplanation {
        node: node.node.to_string(),
        fits: why_not.is_none(),
        reason: why_not.map(|why| why.name().to_owned()).unwrap_or_default(),
        parameters: why_not.map(parameters).unwrap_or_default(),
        message: why_not.map(ToString::to_string).unwrap_or_default(),
    }
}
