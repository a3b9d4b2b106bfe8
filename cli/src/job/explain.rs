//! Why a job does not run yet, or what it waited for: the answer to "why is the digest late?" in one screen.

use tenure_client::proto::{ExplainJobResponse, Job, JobState, NodeExplanation, SlotExplanation};

use super::{show, state_word};
use crate::exit::Failure;
use crate::human;
use crate::output::{Field, Output, Table, Tone};

/// Holders named per slot; `-o json` has all that the server sent.
const HOLDERS_SHOWN: usize = 6;

/// Prints an explanation, the answer first, what it rests on below.
pub(super) fn print(explanation: &ExplainJobResponse, output: &Output) -> Result<(), Failure> {
    let job = explanation.job.clone().unwrap_or_default();
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
    section("nodes", nodes(&explanation.nodes), output)?;
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
