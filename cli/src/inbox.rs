//! `tenure inbox`: what producers in the server's database enqueue in their own transactions.

use clap::Subcommand;
use tenure_client::Client;
use tenure_client::proto::{GetInboxResponse, InboxRefusal, ListInboxRefusalsResponse};

use crate::exit::{Exit, Failure};
use crate::human;
use crate::output::{Field, Output, Table, Tone, note};

/// Refusals that are shown if nobody says how many.
const LIST_LIMIT: usize = 100;

/// A row that waits for longer than this is worth a remark, in seconds.
const LONG_WAIT: i64 = 60;

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum InboxCommand {
    /// How many rows wait to become jobs, for how long, and how many became none.
    Show,
    /// Rows that became no job, with the reason, the newest first.
    Refusals {
        /// Shows at most this many.
        #[arg(long, default_value_t = LIST_LIMIT)]
        limit: usize,
    },
}

/// Runs one verb.
pub(crate) async fn run(command: InboxCommand, client: &Client, output: &Output) -> Result<Exit, Failure> {
    match command {
        InboxCommand::Show => {
            let answer = client.inbox().await?;
            output.show(&answer, ["inbox"], || {
                let mut table = Table::new(["WAITING", "OLDEST", "REFUSALS", "BROKEN"]);
                let refusals = if answer.refusals == 0 { Tone::Plain } else { Tone::Notice };
                table.row([
                    Field::figure(answer.waiting),
                    oldest(&answer).into(),
                    Field::toned_figure(answer.refusals, refusals),
                    Field::toned_figure(answer.broken, refusals),
                ]);
                output.table(&table)
            })?;
        }
        InboxCommand::Refusals { limit } => {
            let refusals = client.inbox_refusals(limit).await?;
            let answer = ListInboxRefusalsResponse { refusals, ..ListInboxRefusalsResponse::default() };
            output.show(&answer, answer.refusals.iter().map(|refusal| refusal.job_id.as_str()), || {
                if answer.refusals.is_empty() {
                    note("no rows of the inbox were refused");
                    return Ok(());
                }
                output.table(&list(&answer.refusals, output))
            })?;
        }
    }
    Ok(Exit::Ok)
}

fn list(refusals: &[InboxRefusal], output: &Output) -> Table {
    let headers = ["ROW", "REFUSED", "ROLE", "KIND", "REASON", "MESSAGE"];
    let mut table = Table::new(headers.into_iter().chain(output.wide(|| ["PRODUCER", "DEDUPE KEY", "JOB"])));
    for refusal in refusals {
        let fields = [
            Field::figure(refusal.row),
            output.when(refusal.refuse_time.as_ref()).into(),
            refusal.role.as_str().into(),
            refusal.kind.as_str().into(),
            Field::toned(&refusal.reason, Tone::Notice),
            human::brief(&refusal.message, 120).into(),
        ];
        let key = if refusal.dedupe_key.is_empty() { "-" } else { &refusal.dedupe_key };
        let more =
            output.wide(|| [refusal.producer.as_str().into(), key.into(), refusal.job_id.as_str().into()]);
        table.row(fields.into_iter().chain(more));
    }
    table
}

/// How long the first row has waited.
fn oldest(state: &GetInboxResponse) -> String {
    let age = state.oldest_age.as_ref().map(|age| u64::try_from(age.seconds).unwrap_or_default());
    age.map_or("-".to_owned(), |seconds| human::length(std::time::Duration::from_secs(seconds)))
}

/// What of the inbox needs somebody: rows that wait for long, and rows that became no job.
pub(crate) fn remarks(state: &GetInboxResponse) -> Vec<String> {
    let mut remarks = Vec::new();
    if state.oldest_age.as_ref().is_some_and(|age| age.seconds >= LONG_WAIT) {
        remarks.push(format!(
            "inbox: {} rows wait to become jobs, the first for {}: a kind is paused or full, or nobody leads",
            state.waiting,
            oldest(state)
        ));
    }
    let refused = state.refusals.saturating_sub(state.broken);
    if refused > 0 {
        remarks.push(format!("inbox: {refused} rows became no job: `tenure inbox refusals` says why"));
    }
    if state.broken > 0 {
        remarks.push(format!(
            "inbox: {} rows could not be stored by a fault of the server, and are kept whole: see its log, then bring them back",
            state.broken
        ));
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inbox_that_moves_needs_nobody() {
        let state = |waiting, seconds: i64, refusals| GetInboxResponse {
            waiting,
            oldest_age: Some(prost_types::Duration { seconds, nanos: 0 }),
            refusals,
            broken: 0,
        };
        assert_eq!(remarks(&GetInboxResponse::default()), Vec::<String>::new());
        assert_eq!(remarks(&state(1000, LONG_WAIT - 1, 0)), Vec::<String>::new());
        let both = remarks(&state(3, 90, 2));
        assert!(both.len() == 2 && both[0].contains("3 rows wait") && both[0].contains("1m30s"), "{both:?}");
        assert!(both[1].contains("2 rows became no job"), "{both:?}");
        let ours = remarks(&GetInboxResponse { refusals: 2, broken: 2, ..GetInboxResponse::default() });
        assert!(ours.len() == 1 && ours[0].contains("2 rows could not be stored"), "{ours:?}");
    }
}
