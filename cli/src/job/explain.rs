//! Why a job does not run yet, or what it waited for: the answer to "why is the digest late?" in one screen.

use tenure_client::proto::{
    ExplainJobResponse, Job, JobState, NodeExplanation, NodeGroup, SlotExplanation, SlotTotal,
};

use super::{show, state_word};
use crate::exit::Failure;
use crate::human;
use crate::output::{Field, Output, Table, Tone};

/// Holders named per slot; `-o json` has all that the server sent.
const HOLDERS_SHOWN: usize = 6;

/// Nodes up to this many are told one by one, more of them in groups; `-o json` has both, as far as the server sent them.
const NODES_SHOWN: usize = 8;

/// Prints an explanation, the answer first, what it rests on below.
pub(super) fn print(explanation: &ExplainJobResponse, output: &Output) -> Result<(), Failure> {
    let job = explanation.job.clone().unwrap_or_default();
    if !explanation.summary.is_empty() {
        output.line(&human::clean(&explanation.summary))?;
    }
    for line in headline(&job, output) {
        output.line(&line)?;
    }
    for remedy in &explanation.remedies {
        output.line(&format!("to change that: {}", human::clean(remedy)))?;
    }
    if job.state() == JobState::Queued {
        output.line(&line_sentence(explanation))?;
    }
    section("slots it needs", slots(&explanation.slots), output)?;
    section("node slots in all", totals(&explanation.node_slots), output)?;
    if explanation.node_groups.is_empty() || (1..=NODES_SHOWN).contains(&explanation.nodes.len()) {
        section("nodes", nodes(&explanation.nodes), output)?;
    } else {
        section("nodes, those that are alike as one", groups(&explanation.node_groups), output)?;
        if explanation.nodes_omitted > 0 {
            let others = human::count(explanation.nodes_omitted, "node");
            output.line(&format!("and {others} in smaller groups, further from a fit"))?;
        }
    }
    section("units kept for large jobs", earmarks(explanation, output), output)?;
    section("time spent waiting", history(&job), output)?;
    if !explanation.attempts.is_empty() {
        section("executions so far", show::attempts(&explanation.attempts, output), output)?;
    }
    Ok(())
}

fn section(title: &str, table: Table, output: &Output) -> Result<(), Failure> {
    if table.is_empty() {
        return Ok(());
    }
    output.line(&format!("\n{title}"))?;
    output.table(&table)
}

fn headline(job: &Job, output: &Output) -> Vec<String> {
    let mut state = format!("{} ({}) is {}", job.id, human::clean(&job.kind), state_word(job));
    if !job.node.is_empty() {
        state.push_str(&format!(" on {}", human::clean(&job.node)));
    }
    if job.state() == JobState::Running && job.start_time.is_some() {
        state.push_str(&format!(", started {}", output.when(job.start_time.as_ref())));
    }
    let mut lines = vec![state];
    if let Some(deferral) = &job.deferral {
        let mut why = format!("why: {}", human::clean(&deferral.message));
        if deferral.since.is_some() {
            why.push_str(&format!(", {}", output.since(deferral.since.as_ref())));
        }
        if deferral.count > 0 {
            why.push_str(&format!("; deferred {} in all", human::count(deferral.count, "time")));
        }
        lines.push(why);
    } else if !job.reason.is_empty() {
        lines.push(format!("why: {}", human::brief(&job.reason, 300)));
    }
    if job.deferral.is_none() && !job.waits.is_empty() {
        lines.push(format!("before that it was {}", human::clean(&show::waited(&job.waits))));
    }
    lines
}

fn line_sentence(explanation: &ExplainJobResponse) -> String {
    if explanation.ahead == 0 {
        return "in line: it is the first of its class".to_owned();
    }
    let mut sentence = format!("in line: {} ahead of it", explanation.ahead);
    if !explanation.ahead_job_ids.is_empty() {
        sentence.push_str(": ");
        sentence.push_str(&explanation.ahead_job_ids.join(" "));
    }
    sentence
}

fn slots(slots: &[SlotExplanation]) -> Table {
    let mut table = Table::new(["SLOT", "NODE", "NEEDS", "USED", "HELD BY"]);
    for slot in slots {
        let free = slot.capacity.saturating_sub(slot.used);
        let used = format!("{}/{}", slot.used, slot.capacity);
        let used = if slot.paused {
            Field::toned(format!("{used}, paused"), Tone::Notice)
        } else if free < slot.needed {
            Field::toned(used, Tone::Bad)
        } else {
            Field::toned(used, Tone::Good)
        };
        table.row([
            slot.slot.as_str().into(),
            if slot.node.is_empty() { "fleet".into() } else { slot.node.as_str().into() },
            Field::figure(slot.needed),
            used,
            holders(slot).into(),
        ]);
    }
    table
}

fn holders(slot: &SlotExplanation) -> String {
    let mut words: Vec<String> = slot
        .holders
        .iter()
        .take(HOLDERS_SHOWN)
        .map(|holder| {
            let amount = if holder.amount > 1 { format!("{} × ", holder.amount) } else { String::new() };
            let unreaped = if holder.unreaped { ", not reaped" } else { "" };
            format!(
                "{amount}{} ({}, {}{unreaped})",
                holder.job_id,
                holder.kind,
                human::wire_length(holder.held_for.as_ref())
            )
        })
        .collect();
    if slot.holders.len() > HOLDERS_SHOWN {
        words.push(format!("and {} more", slot.holders.len() - HOLDERS_SHOWN));
    }
    if words.is_empty() { "-".to_owned() } else { words.join(", ") }
}

fn nodes(nodes: &[NodeExplanation]) -> Table {
    let mut table = Table::new(["NODE", "FITS", "WHY NOT"]);
    for node in nodes {
        table.row([
            node.node.as_str().into(),
            if node.fits { Field::toned("yes", Tone::Good) } else { Field::toned("no", Tone::Notice) },
            if node.message.is_empty() { "-".into() } else { node.message.as_str().into() },
        ]);
    }
    table
}

/// With one node that could hold the job, its line above says the same.
fn totals(totals: &[SlotTotal]) -> Table {
    let mut table = Table::new(["SLOT", "NEEDS", "NODES THAT COULD HOLD IT", "WITH ROOM", "USED"]);
    for total in totals.iter().filter(|total| total.nodes > 1) {
        let room = Field::figure(total.nodes_with_room);
        table.row([
            total.slot.as_str().into(),
            Field::figure(total.needed),
            Field::figure(total.nodes),
            room,
            format!("{}/{}", total.used, total.capacity).into(),
        ]);
    }
    table
}

fn groups(groups: &[NodeGroup]) -> Table {
    let mut table = Table::new(["NODES", "SUCH AS", "THEY OFFER", "FITS", "WHY NOT"]);
    for group in groups {
        table.row([
            Field::figure(group.nodes),
            such_as(group).into(),
            offer(group).into(),
            if group.fits { Field::toned("yes", Tone::Good) } else { Field::toned("no", Tone::Notice) },
            if group.message.is_empty() { "-".into() } else { group.message.as_str().into() },
        ]);
    }
    table
}

fn such_as(group: &NodeGroup) -> String {
    let more = if group.nodes > group.examples.len() as u64 { " …" } else { "" };
    format!("{}{more}", group.examples.join(" "))
}

/// Slots with units, and labels.
fn offer(group: &NodeGroup) -> String {
    let slots = group.slots.iter().map(|(slot, units)| format!("{slot}:{units}"));
    let labels = group.labels.iter().map(|(label, value)| format!("{label}={value}"));
    let words: Vec<String> = slots.chain(labels).collect();
    if words.is_empty() { "-".to_owned() } else { words.join(" ") }
}

fn earmarks(explanation: &ExplainJobResponse, output: &Output) -> Table {
    let own = explanation.job.as_ref().map_or("", |job| job.id.as_str());
    let mut table = Table::new(["FOR", "NODE", "KEPT", "FILLED BY"]);
    for earmark in &explanation.earmarks {
        table.row([
            if earmark.job_id == own { "this job".into() } else { earmark.job_id.as_str().into() },
            earmark.node.as_str().into(),
            human::needs(earmark.slots.as_ref()).into(),
            output.when(earmark.by.as_ref()).into(),
        ]);
    }
    table
}

fn history(job: &Job) -> Table {
    let mut table = Table::new(["TIME", "TIMES", "REASON"]);
    for share in show::waits(job) {
        table.row([
            human::wire_length(share.duration.as_ref()).into(),
            Field::figure(share.count),
            show::subject(share).into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use tenure_client::proto::SlotHolder;

    use super::*;

    #[test]
    fn a_busy_slot_names_its_holders_and_how_many_more_there_are() {
        let holder = SlotHolder {
            job_id: "0198".to_owned(),
            kind: "site.qa".to_owned(),
            amount: 2,
            held_for: Some(prost_types::Duration { seconds: 75, nanos: 0 }),
            unreaped: true,
            ..SlotHolder::default()
        };
        let mut slot = SlotExplanation { holders: vec![holder.clone()], ..SlotExplanation::default() };
        assert_eq!(holders(&slot), "2 × 0198 (site.qa, 1m15s, not reaped)");
        slot.holders = vec![holder; HOLDERS_SHOWN + 3];
        assert!(holders(&slot).ends_with("and 3 more"));
    }

    #[test]
    fn a_group_shows_what_its_nodes_offer_and_that_there_are_more() {
        let group = NodeGroup {
            labels: [("zone".to_owned(), "a".to_owned())].into(),
            slots: [("gpu".to_owned(), 4), ("browser".to_owned(), 2)].into(),
            nodes: 12,
            examples: vec!["n1".to_owned(), "n2".to_owned(), "n3".to_owned()],
            ..NodeGroup::default()
        };
        assert_eq!((such_as(&group), offer(&group)), ("n1 n2 n3 …".into(), "browser:2 gpu:4 zone=a".into()));
        let one = NodeGroup { nodes: 1, examples: vec!["n9".to_owned()], ..NodeGroup::default() };
        assert_eq!((such_as(&one), offer(&one)), ("n9".into(), "-".into()));
    }

    #[test]
    fn the_place_in_line_is_told() {
        let first = ExplainJobResponse::default();
        assert_eq!(line_sentence(&first), "in line: it is the first of its class");
        let third = ExplainJobResponse {
            ahead: 2,
            ahead_job_ids: vec!["a".to_owned(), "b".to_owned()],
            ..ExplainJobResponse::default()
        };
        assert_eq!(line_sentence(&third), "in line: 2 ahead of it: a b");
    }
}
