//! The answer in one sentence.

use crate::{deferral::Deferral, place::classes::Class, view::Explanation};

/// The answer in one sentence; empty for a job that does not wait.
pub(super) fn summary(explanation: &Explanation, class: &Class) -> String {
    let Some(deferral) = &explanation.deferral else { return String::new() };
    let mut text = waits_for(&deferral.reason, class, explanation);
    match explanation.ahead {
        0 => {}
        1 => text.push_str("; 1 job of its class is before it"),
        ahead => text.push_str(&format!("; {ahead} jobs of its class are before it")),
    }
    text.push('.');
    text
}

fn waits_for(reason: &Deferral, class: &Class, explanation: &Explanation) -> String {
    match reason {
        Deferral::SlotBusy { slot, node: None, used, capacity } => {
            let needed = class.fleet.amount(slot);
            format!("It waits for {} ({used}/{capacity} taken)", units(needed, &format!("fleet slot {slot}")))
        }
        Deferral::SlotBusy { slot, node: Some(_), .. } => {
            let needed = class.node.amount(slot);
            let total = explanation.node_slots.iter().find(|total| total.slot == *slot);
            let taken = total
                .map(|total| match total.nodes {
                    1 => format!(" ({}/{} taken on 1 node)", total.used, total.capacity),
                    nodes => format!(" ({}/{} taken on {nodes} nodes)", total.used, total.capacity),
                })
                .unwrap_or_default();
            format!("It waits for {}{taken}", units(needed, &format!("slot {slot} on one node")))
        }
        Deferral::ConcurrencyKey { .. } => "It waits for others with its key".into(),
        Deferral::Behind { .. } => "It waits for its turn".into(),
        Deferral::Ready => "The next turn looks at it".into(),
        Deferral::Backoff { .. } => "It waits between two attempts".into(),
        Deferral::RunAt { .. } => "It waits for its start time".into(),
        Deferral::WaitingChildren { children: 1 } => "It waits for 1 child".into(),
        Deferral::WaitingChildren { children } => format!("It waits for {children} children"),
        Deferral::Blocked { predecessors: 1 } => "It waits for 1 member of its workflow".into(),
        Deferral::Blocked { predecessors } => format!("It waits for {predecessors} members of its workflow"),
        Deferral::Earmarked { .. }
        | Deferral::NodePressure { .. }
        | Deferral::Masked { .. }
        | Deferral::NodeBackoff { .. }
        | Deferral::OldAgent { .. }
        | Deferral::NoMatchingNode { .. }
        | Deferral::NodesCordoned { .. }
        | Deferral::Draining { .. }
        | Deferral::Suspect { .. }
        | Deferral::Unanswered { .. }
        | Deferral::KindPaused
        | Deferral::SlotPaused { .. }
        | Deferral::RateLimit { .. }
        | Deferral::Budget { .. }
        | Deferral::NotReaped { .. }
        | Deferral::Impossible { .. }
        | Deferral::Broken
        | Deferral::WarmingUp => format!("It does not start: {}", reason.for_everybody()),
    }
}

fn units(needed: u32, of: &str) -> String {
    match needed {
        1 => format!("1 unit of {of}"),
        _ => format!("{needed} units of {of}"),
    }
}
