//! `tenure kind`: types of work and their policy.

use std::collections::BTreeMap;

use clap::Subcommand;
use tenure_client::Client;
use tenure_client::proto::{BudgetCounter, Kind, ListKindsResponse, PausePolicy, RetryPolicy};
use tenure_client::wire;

use crate::exit::{Exit, Failure};
use crate::human;
use crate::output::{Field, Output, Table, Tone, note};

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum KindCommand {
    /// All kinds.
    List,
    /// One kind with its whole policy.
    Get {
        /// Its name.
        kind: String,
    },
    /// Starts no more jobs of a kind; what runs, runs on.
    Pause {
        /// Its name.
        kind: String,
        /// Refuses new jobs too, instead of keeping them for later.
        #[arg(long)]
        reject: bool,
    },
    /// Ends the pause of a kind.
    Resume {
        /// Its name.
        kind: String,
    },
}

impl KindCommand {
    /// Whether it changes anything on the server.
    pub(crate) fn writes(&self) -> bool {
        match self {
            Self::List | Self::Get { .. } => false,
            Self::Pause { .. } | Self::Resume { .. } => true,
        }
    }
}

/// Runs one verb.
pub(crate) async fn run(command: KindCommand, client: &Client, output: &Output) -> Result<Exit, Failure> {
    match command {
        KindCommand::List => {
            let kinds = client.kinds().await?;
            let answer = ListKindsResponse { kinds };
            output.show(&answer, answer.kinds.iter().map(|kind| kind.name.as_str()), || {
                if answer.kinds.is_empty() {
                    note("no kinds; `tenure apply FILE` declares them");
                    return Ok(());
                }
                output.table(&list(&answer.kinds, output))
            })?;
        }
        KindCommand::Get { kind: name } => {
            let kinds = client.kinds().await?;
            let Some(kind) = kinds.iter().find(|kind| kind.name == name) else {
                let known = kinds.into_iter().map(|kind| kind.name).collect();
                return Err(Failure::Unknown { noun: "kind", name, known });
            };
            output.show(kind, [kind.name.as_str()], || output.table(&details(kind)))?;
        }
        KindCommand::Pause { kind, reject } => {
            let policy = if reject { PausePolicy::Reject } else { PausePolicy::Hold };
            let answer = client.pause_kind(&kind, policy).await?;
            let verb = if answer.changed { "is paused" } else { "was paused already" };
            output.did(&answer, &kind, format!("{kind} {verb}"))?;
        }
        KindCommand::Resume { kind } => {
            let answer = client.resume_kind(&kind).await?;
            let verb = if answer.changed { "is resumed" } else { "was not paused" };
            output.did(&answer, &kind, format!("{kind} {verb}"))?;
        }
    }
    Ok(Exit::Ok)
}

fn list(kinds: &[Kind], output: &Output) -> Table {
    let headers = ["KIND", "NEEDS", "LEASE", "TIME LIMIT", "FAILURES", "QUEUE CAP", "PRIORITY", "PAUSED"];
    let more = output.wide(|| ["LOSSES", "STALE AFTER", "DEDUPE", "KEPT", "SELECTOR", "RETRY", "BUDGET"]);
    let mut table = Table::new(headers.into_iter().chain(more));
    for kind in kinds {
        let fields = [
            kind.name.as_str().into(),
            human::needs(kind.needs.as_ref()).into(),
            human::wire_length(kind.lease.as_ref()).into(),
            human::wire_length(kind.hard_time_limit.as_ref()).into(),
            Field::figure(kind.max_failures),
            Field::figure(kind.queue_cap.map_or_else(|| "-".to_owned(), |cap| cap.to_string())),
            Field::figure(kind.priority),
            paused(kind),
        ];
        let more = output.wide(|| {
            [
                Field::figure(kind.max_losses),
                human::wire_length(kind.stale_after.as_ref()).into(),
                human::word(kind.dedupe().as_str_name(), "DEDUPE_POLICY_").into(),
                human::wire_length(kind.retention.as_ref()).into(),
                human::selector(&kind.selector, &kind.requirements).into(),
                retry(kind.retry.as_ref()).into(),
                budget(kind).into(),
            ]
        });
        table.row(fields.into_iter().chain(more));
    }
    table
}

fn paused(kind: &Kind) -> Field {
    match (kind.paused, kind.pause_policy()) {
        (false, _) => "-".into(),
        (true, PausePolicy::Reject) => Field::toned("yes, refuses", Tone::Notice),
        (true, PausePolicy::Hold | PausePolicy::Unspecified) => Field::toned("yes", Tone::Notice),
    }
}

fn details(kind: &Kind) -> Table {
    let mut table = Table::default();
    let mut row = |name: &str, value: Field| table.row([name.into(), value]);
    row("kind", kind.name.as_str().into());
    row("needs", human::needs(kind.needs.as_ref()).into());
    row("selector", human::selector(&kind.selector, &kind.requirements).into());
    row("prefers", human::selector(&BTreeMap::new(), &kind.prefer).into());
    let backs_off = kind.node_backoff.map_or("-", |on| if on { "yes" } else { "no" });
    row("nodes back off", backs_off.into());
    row("lease", human::wire_length(kind.lease.as_ref()).into());
    row("hard time limit", human::wire_length(kind.hard_time_limit.as_ref()).into());
    row("soft time limit", human::wire_length(kind.soft_time_limit.as_ref()).into());
    row("progress timeout", human::wire_length(kind.progress_timeout.as_ref()).into());
    row("dead after", format!("{} failures or {} losses", kind.max_failures, kind.max_losses).into());
    row("retry", retry(kind.retry.as_ref()).into());
    let codes: Vec<String> = kind.permanent_exit_codes.iter().map(i32::to_string).collect();
    row("permanent exit codes", codes.join(" ").into());
    row("queue cap", kind.queue_cap.map_or_else(|| "-".to_owned(), |cap| cap.to_string()).into());
    row("max running", kind.max_running.map_or_else(|| "-".to_owned(), |most| most.to_string()).into());
    let by_key = kind.concurrency.as_ref().map(|by_key| format!("{} for each {}", by_key.limit, by_key.key));
    row("concurrency", by_key.unwrap_or_else(|| "-".to_owned()).into());
    row("strict order", if kind.fifo { "yes" } else { "-" }.into());
    row("reserve after", human::wire_length(kind.reserve_after.as_ref()).into());
    row("budget", budget(kind).into());
    if !kind.keep_on_wait.is_empty() {
        row("keeps on wait", kind.keep_on_wait.join(", ").into());
    }
    row("reacquires within", human::wire_length(kind.reacquire_timeout.as_ref()).into());
    row("stale after", human::wire_length(kind.stale_after.as_ref()).into());
    row("dedupe", human::word(kind.dedupe().as_str_name(), "DEDUPE_POLICY_").into());
    row("placement", human::word(kind.placement().as_str_name(), "PLACEMENT_").into());
    row("priority", kind.priority.to_string().into());
    row("results kept", human::wire_length(kind.result_ttl.as_ref()).into());
    row("final jobs kept", human::wire_length(kind.retention.as_ref()).into());
    row("paused", paused(kind));
    table
}

/// What is spent of each counter.
fn budget(kind: &Kind) -> String {
    let counters: Vec<String> = kind.budget.iter().flat_map(|budget| &budget.counters).map(spent).collect();
    if counters.is_empty() { "-".to_owned() } else { counters.join(", ") }
}

/// `tokens 1500/2000000 a day until 2026-12-01T00:00:00Z`.
fn spent(counter: &BudgetCounter) -> String {
    let window = human::word(counter.window().as_str_name(), "BUDGET_WINDOW_");
    let until = counter.until.as_ref().map(wire::system_time).map(human::absolute);
    let until = until.unwrap_or_else(|| "-".to_owned());
    format!("{} {}/{} a {window} until {until}", counter.name, counter.spent, counter.limit)
}

fn retry(policy: Option<&RetryPolicy>) -> String {
    let Some(policy) = policy else { return "-".to_owned() };
    if !policy.intervals.is_empty() {
        let waits: Vec<String> = policy.intervals.iter().map(|wait| human::wire_length(Some(wait))).collect();
        return format!("after {}", waits.join(", "));
    }
    format!(
        "after {}, then × {}.{:03} up to {}, ± {} %",
        human::wire_length(policy.initial.as_ref()),
        policy.factor_permille / 1_000,
        policy.factor_permille % 1_000,
        human::wire_length(policy.max.as_ref()),
        policy.jitter_permille / 10,
    )
}

#[cfg(test)]
mod tests {
    use tenure_client::proto::{DedupePolicy, Needs, SlotAmount};

    use super::*;

    #[test]
    fn the_policy_reads_as_a_sentence() {
        let policy = RetryPolicy {
            initial: Some(prost_types::Duration { seconds: 10, nanos: 0 }),
            factor_permille: 3_000,
            max: Some(prost_types::Duration { seconds: 3_600, nanos: 0 }),
            jitter_permille: 200,
            ..RetryPolicy::default()
        };
        assert_eq!(retry(Some(&policy)), "after 10s, then × 3.000 up to 1h, ± 20 %");
        let kind = Kind {
            needs: Some(Needs { slots: vec![SlotAmount { slot: "browser".to_owned(), amount: 1 }] }),
            dedupe: DedupePolicy::Live.into(),
            ..Kind::default()
        };
        assert!(!details(&kind).is_empty());
    }
}
