//! The table: a row for each, ours first, and how many times ours is as fast.

use std::io::{self, Write};

use comfy_table::{CellAlignment, ContentArrangement, Table, TableStyle};

use super::{Measure, Peer};

const HEADS: [(Measure, &str); 7] = [
    (Measure::EnqueueSingle, "enqueue 64 callers, /s"),
    (Measure::EnqueueBatch, "enqueue batches, /s"),
    (Measure::Drain, "drain, /s"),
    (Measure::LifecycleSingle, "lifecycle 64 callers, /s"),
    (Measure::LifecycleBatch, "lifecycle batches, /s"),
    (Measure::RoundTripP50, "round trip p50, ms"),
    (Measure::RoundTripP99, "p99, ms"),
];

/// What ours should be beside the fastest of the others: the measure, how many times, only among the fenced, in words.
const WANTED: [(Measure, f64, bool, &str); 5] = [
    (Measure::LifecycleBatch, 1.0, false, "lifecycle in batches: ≥ the fastest peer"),
    (Measure::LifecycleBatch, 2.5, true, "lifecycle in batches: ≥ 2.5 × the fastest fenced peer"),
    (Measure::LifecycleSingle, 5.0, false, "lifecycle, 64 callers: ≥ 5 × the fastest peer"),
    (Measure::EnqueueSingle, 5.0, false, "enqueue, 64 callers: ≥ 5 × the fastest peer"),
    (Measure::EnqueueBatch, 0.8, false, "enqueue in batches: ≥ 0.8 × the fastest peer"),
];

/// Prints it, if there are others.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn print(ours: &Peer, peers: &[Peer], mut out: impl Write) -> io::Result<()> {
    if peers.is_empty() {
        return Ok(());
    }
    writeln!(out, "\npeers    in brackets: how many times as fast ours is")?;
    let mut table = Table::new();
    table.load_style(TableStyle::new());
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["", "fenced"].into_iter().chain(HEADS.map(|(_, head)| head)));
    for peer in std::iter::once(ours).chain(peers) {
        let cells = HEADS.map(|(measure, _)| cell(ours, peer, measure));
        let fenced = match (peer.measured.is_empty(), peer.fenced) {
            (true, _) => "",
            (false, true) => "yes",
            (false, false) => "no",
        };
        table.add_row([peer.name.clone(), fenced.to_owned()].into_iter().chain(cells));
    }
    for (number, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if number > 1 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for line in table.lines() {
        writeln!(out, "{}", line.trim_end())?;
    }
    for Peer { name, about, not_measured, .. } in std::iter::once(ours).chain(peers) {
        if !about.is_empty() {
            writeln!(out, "{name}: {about}")?;
        }
        if let Some(why) = not_measured {
            writeln!(out, "{name}: not measured: {why}")?;
        }
    }
    for (measure, times, among_fenced, text) in WANTED {
        let fastest = fastest(peers, measure, among_fenced);
        let verdict = match (ours.measured.get(&measure), fastest) {
            (Some(own), Some((name, best))) => {
                let ratio = own / best;
                let word = if ratio >= times { "yes" } else { "no" };
                format!("{word}, {ratio:.2} × {name}")
            }
            _ => "nobody to compare with".to_owned(),
        };
        writeln!(out, "{text}: {verdict}")?;
    }
    Ok(())
}

fn fastest(peers: &[Peer], measure: Measure, among_fenced: bool) -> Option<(&str, f64)> {
    let peers = peers.iter().filter(|peer| peer.fenced || !among_fenced);
    let speeds = peers.filter_map(|peer| Some((peer.name.as_str(), *peer.measured.get(&measure)?)));
    speeds.max_by(|(_, a), (_, b)| a.total_cmp(b))
}

fn cell(ours: &Peer, peer: &Peer, measure: Measure) -> String {
    let Some(value) = peer.measured.get(&measure) else { return "not measured".to_owned() };
    let shown = if measure.is_length() { format!("{value:.1}") } else { format!("{value:.0}") };
    match ours.measured.get(&measure) {
        Some(own) if !std::ptr::eq(ours, peer) => {
            let times = if measure.is_length() { value / own } else { own / value };
            format!("{shown} ({times:.1})")
        }
        _ => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_is_sought_among_those_that_were_measured() {
        let peer = |name: &str, fenced, value: Option<f64>| Peer {
            name: name.to_owned(),
            fenced,
            measured: value.map(|value| (Measure::Drain, value)).into_iter().collect(),
            ..Peer::default()
        };
        let peers = [peer("a", true, Some(10.0)), peer("b", false, Some(30.0)), peer("c", true, None)];
        assert_eq!(fastest(&peers, Measure::Drain, false), Some(("b", 30.0)));
        assert_eq!(fastest(&peers, Measure::Drain, true), Some(("a", 10.0)));
        assert_eq!(fastest(&peers, Measure::EnqueueBatch, false), None);
    }

    #[test]
    fn a_row_says_how_many_times_as_fast_ours_is() {
        let with = |name: &str, drain, length| Peer {
            name: name.to_owned(),
            measured: [(Measure::Drain, drain), (Measure::RoundTripP50, length)].into(),
            ..Peer::default()
        };
        let (ours, peer) = (with("ours", 100.0, 2.0), with("theirs", 50.0, 5.0));
        assert_eq!(cell(&ours, &peer, Measure::Drain), "50 (2.0)");
        assert_eq!(cell(&ours, &peer, Measure::RoundTripP50), "5.0 (2.5)");
        assert_eq!(cell(&ours, &ours, Measure::Drain), "100");
        assert_eq!(cell(&ours, &peer, Measure::RoundTripP99), "not measured");
    }
}
