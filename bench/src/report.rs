//! The report: as a table for people, as JSON for programs.

use std::io::{self, Write};

use comfy_table::{CellAlignment, ContentArrangement, Table, TableStyle};
use serde::Serialize;

use crate::args::Store;
use crate::figure::{Figure, Ratio};
use crate::machine::Machine;
use crate::peers::{self, Peer};

/// Everything of one run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Of this shape.
    pub(crate) version: u32,
    pub(crate) machine: Machine,
    pub(crate) agents: u32,
    pub(crate) payload_bytes: u32,
    /// Others, in the order of their names.
    pub(crate) peers: Vec<Peer>,
    pub(crate) figures: Vec<Figure>,
    pub(crate) checks: Vec<Check>,
}

/// What was counted behind the figures of one scenario; a run in which something does not hold is no run.
#[derive(Debug, Serialize)]
pub(crate) struct Check {
    pub(crate) scenario: &'static str,
    pub(crate) store: Store,
    /// Jobs that the server said to have stored; all are in the database, with their payloads.
    pub(crate) enqueued: u64,
    /// Of those, stored as succeeded, their leases gone.
    pub(crate) succeeded: u64,
    /// Invariants of the server that were evaluated, and hold.
    pub(crate) invariants: usize,
    /// Calls that were answered "busy, come back", and came back.
    pub(crate) busy: u64,
}

impl Report {
    /// Prints it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn print(&self, mut out: impl Write) -> io::Result<()> {
        let Machine {
            cores,
            cpu,
            memory_mib,
            kernel,
            disk_syncs_per_second: syncs,
            commit,
            profile,
            tenure,
            ..
        } = &self.machine;
        writeln!(
            out,
            "machine  {cores} cores of {cpu}, {memory_mib} MiB, Linux {kernel}, {syncs:.0} fdatasync/s"
        )?;
        let version = |name: &str, version: &Option<String>| {
            version.as_ref().map(|version| format!("{name} {version}, ")).unwrap_or_default()
        };
        let stores = version("Postgres", &self.machine.postgres) + &version("SQLite", &self.machine.sqlite);
        writeln!(
            out,
            "build    {profile}, commit {commit}, tenure {tenure}; {stores}commits flushed to the disk"
        )?;
        let (agents, bytes) = (self.agents, self.payload_bytes);
        let (before, after) = (self.machine.load_before, self.machine.load_after);
        writeln!(
            out,
            "load     {agents} agents, payloads of {bytes} bytes; load average {before} before, {after} after"
        )?;
        for Check { scenario, store, enqueued, succeeded, invariants, busy } in &self.checks {
            let store = store.name();
            writeln!(
                out,
                "checked  {scenario} on {store}: {enqueued} jobs stored, {succeeded} succeeded, \
                 {invariants} invariants hold, {busy} calls put off"
            )?;
        }
        for line in self.table().lines() {
            writeln!(out, "{}", line.trim_end())?;
        }
        peers::print(&peers::ours(&self.figures), &self.peers, out)
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(TableStyle::new());
        table.set_content_arrangement(ContentArrangement::Disabled);
        table.set_header([
            "figure",
            "store",
            "unit",
            "min",
            "median",
            "max",
            "of the ceiling",
            "to reach",
            "",
        ]);
        for figure in &self.figures {
            let (text, mark) = match &figure.target {
                None => ("", ""),
                Some(target) => (target.text, if target.reached { "yes" } else { "no" }),
            };
            table.add_row([
                figure.name.clone(),
                figure.store.map_or("", Store::name).to_owned(),
                figure.unit.to_owned(),
                number(figure.min),
                number(figure.median),
                number(figure.max),
                figure.ratio.as_ref().map(share).unwrap_or_default(),
                text.to_owned(),
                mark.to_owned(),
            ]);
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        for column in 3..6 {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
    }
}

/// Says how far the run is, on stderr.
pub(crate) fn say(text: &str) {
    // Who closed stderr wants to hear nothing.
    writeln!(io::stderr(), "{text}").unwrap_or_default();
}

fn share(ratio: &Ratio) -> String {
    format!("{:.1} % of {}", ratio.median * 100.0, ratio.to)
}

/// Three digits, or all that are whole.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
