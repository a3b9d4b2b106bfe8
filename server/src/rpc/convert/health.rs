//! The figures of queues for the wire.

use std::collections::BTreeMap;

use jiff::{ToSpan as _, civil::date};
use tenure_proto::v1;
use tenure_scheduler::{KindHealth, KindName, NodeState, QueueSignal, Snapshot, Wall};

use super::{age, fleet};

/// The figures of every kind, or of one. `dead` counts the dead jobs that are kept, by kind.
pub(crate) fn queue_health(
    snapshot: &Snapshot,
    only: Option<&KindName>,
    dead: &BTreeMap<KindName, u64>,
    now: Wall,
) -> v1::GetQueueHealthResponse {
    let kinds = snapshot.health.iter().filter(|health| only.is_none_or(|kind| *kind == health.kind));
    let pressure = snapshot.nodes.iter().filter(|view| !view.closed.is_empty());
    let live = snapshot.nodes.iter().filter(|view| view.state == NodeState::Live).count();
    v1::GetQueueHealthResponse {
        kinds: kinds
            .map(|health| kind(health, dead.get(&health.kind).copied().unwrap_or_default(), now))
            .collect(),
        attention: snapshot.attention.iter().map(ToString::to_string).collect(),
        pressure: pressure
            .map(|view| v1::NodePressure {
                node: view.node.name.to_string(),
                closed_groups: view.closed.iter().map(fleet::closed_group).collect(),
            })
            .collect(),
        nodes_live: count(live),
        nodes_silent: count(snapshot.nodes.len() - live),
    }
}

fn kind(health: &KindHealth, dead: u64, now: Wall) -> v1::KindHealth {
    let today = health.dead_by_day.iter().find(|&&(day, _)| day == now.day());
    v1::KindHealth {
        kind: health.kind.to_string(),
        depth: health.depth,
        oldest_age: Some(age(health.oldest_age.unwrap_or_default())),
        running: health.running,
        dead_today: today.map(|&(_, count)| count).unwrap_or_default(),
        nodes_able: health.nodes_able,
        scheduled: health.scheduled,
        dead,
        signal: match health.signal {
            QueueSignal::Idle => v1::QueueSignal::Idle,
            QueueSignal::Moving => v1::QueueSignal::Moving,
            QueueSignal::Burst => v1::QueueSignal::Burst,
            QueueSignal::Stuck => v1::QueueSignal::Stuck,
        }
        .into(),
        head_reason: health.head.as_ref().map(ToString::to_string).unwrap_or_default(),
        paused: health.paused.is_some(),
        arrival_per_minute: health.arrivals_per_minute,
        grant_per_minute: health.grants_per_minute,
        completion_per_minute: health.completions_per_minute,
        last_grant_ago: health.last_grant_ago.map(age),
        dead_by_day: health
            .dead_by_day
            .iter()
            .take(8)
            .map(|&(day, count)| v1::DeadDay { date: iso_date(day), count })
            .collect(),
    }
}

/// A day since 1970 as ISO 8601; empty beyond the calendar.
fn iso_date(day: i64) -> String {
    let span = 0.days().try_days(day);
    span.and_then(|span| date(1970, 1, 1).checked_add(span)).map(|date| date.to_string()).unwrap_or_default()
}

fn count(nodes: usize) -> u32 {
    u32::try_from(nodes).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_dates() {
        assert_eq!(iso_date(0), "1970-01-01");
        assert_eq!(iso_date(-1), "1969-12-31");
        assert_eq!(iso_date(20_787), "2026-11-30");
        assert_eq!(iso_date(i64::MAX), "");
    }
}
