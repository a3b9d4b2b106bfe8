//! `tenure cron`: timetables that enqueue jobs.

use clap::Subcommand;
use jiff::{Timestamp, tz::TimeZone};
use tenure_client::proto::{CronEntry, ListCronEntriesResponse, MissedFiring};
use tenure_client::{Client, new_job_id};

use crate::exit::{Exit, Failure};
use crate::human;
use crate::output::{Field, Output, Table, Tone, note};

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum CronCommand {
    /// All entries with their next five firings, in the entry's zone and in the reader's, and what was missed.
    List,
    /// Fires no instant of an entry; what comes meanwhile is not made up for.
    Pause {
        /// Its name.
        entry: String,
    },
    /// Ends the pause of an entry.
    Resume {
        /// Its name.
        entry: String,
    },
    /// Enqueues a job of an entry now, also while it is paused, and prints its id.
    Run {
        /// Its name.
        entry: String,
        /// The id of the job, a UUID v7, by which a repeated call is the same call. Default: a new one.
        #[arg(long, value_name = "UUID")]
        job_id: Option<String>,
    },
}

impl CronCommand {
    /// Whether it changes anything on the server.
    pub(crate) fn writes(&self) -> bool {
        match self {
            Self::List => false,
            Self::Pause { .. } | Self::Resume { .. } | Self::Run { .. } => true,
        }
    }
}

/// Runs one verb.
pub(crate) async fn run(command: CronCommand, client: &Client, output: &Output) -> Result<Exit, Failure> {
    match command {
        CronCommand::List => {
            let answer = ListCronEntriesResponse { entries: client.cron_entries().await? };
            output.show(&answer, answer.entries.iter().map(|entry| entry.name.as_str()), || {
                if answer.entries.is_empty() {
                    note("no cron entries; `tenure apply FILE` declares them");
                    return Ok(());
                }
                output.table(&list(&answer.entries, output))?;
                let missed = missed(&answer.entries);
                if missed.is_empty() {
                    return Ok(());
                }
                output.line("")?;
                output.table(&missed)
            })?;
        }
        CronCommand::Pause { entry } => {
            let answer = client.pause_cron_entry(&entry).await?;
            let by = answer.entry.as_ref().map(|entry| entry.paused_by.clone()).unwrap_or_default();
            let verb =
                if answer.changed { "is paused".to_owned() } else { format!("was paused already, by {by}") };
            output.did(&answer, &entry, format!("{entry} {verb}"))?;
        }
        CronCommand::Resume { entry } => {
            let answer = client.resume_cron_entry(&entry).await?;
            let verb = if answer.changed { "is resumed" } else { "was not paused" };
            output.did(&answer, &entry, format!("{entry} {verb}"))?;
        }
        CronCommand::Run { entry, job_id } => {
            let answer = client.run_cron_entry(&entry, &job_id.unwrap_or_else(new_job_id)).await?;
            let id = answer.job.as_ref().map(|job| job.id.clone()).unwrap_or_default();
            output.show(&answer, [id.as_str()], || output.line(&id))?;
        }
    }
    Ok(Exit::Ok)
}

/// A row for each entry, and one more for each firing after its next.
fn list(entries: &[CronEntry], output: &Output) -> Table {
    let headers = ["ENTRY", "WHEN", "ZONE", "KIND", "NEXT", "HERE", "STATE"];
    let mut table = Table::new(headers.into_iter().chain(output.wide(|| ["FIRED", "MISSED", "LAST", "JOB"])));
    let here = TimeZone::system();
    for entry in entries {
        let mut coming = entry.next.iter().map(|firing| {
            [Field::from(&firing.local_time), Field::from(local(firing.instant.as_ref(), &here))]
        });
        let [next, in_here] = coming.next().unwrap_or_else(|| ["-".into(), "-".into()]);
        let fields = [
            entry.name.as_str().into(),
            entry.when.as_str().into(),
            entry.zone.as_str().into(),
            entry.kind.as_str().into(),
            next,
            in_here,
            state(entry, output),
        ];
        let more = output.wide(|| {
            let missed = if entry.missed == 0 { Tone::Plain } else { Tone::Notice };
            let last = output.when(entry.last_fire_time.as_ref());
            let job = if entry.last_job_id.is_empty() { "-" } else { &entry.last_job_id };
            [Field::figure(entry.fired), Field::toned_figure(entry.missed, missed), last.into(), job.into()]
        });
        table.row(fields.into_iter().chain(more));
        for [next, in_here] in coming {
            let blank = || Field::from("");
            table.row([blank(), blank(), blank(), blank(), next, in_here]);
        }
    }
    table
}

fn state(entry: &CronEntry, output: &Output) -> Field {
    if !entry.paused {
        return if entry.next.is_empty() { Field::toned("over", Tone::Notice) } else { "-".into() };
    }
    let since = output.when(entry.pause_time.as_ref());
    Field::toned(format!("paused by {}, {since}", entry.paused_by), Tone::Notice)
}

/// What was missed, the newest first; empty if nothing was.
fn missed(entries: &[CronEntry]) -> Table {
    let mut table = Table::new(["MISSED", "COUNT", "FROM", "TO", "REASON", "MESSAGE"]);
    let utc = TimeZone::UTC;
    for entry in entries {
        for MissedFiring { first, last, count, reason, message, .. } in &entry.missed_firings {
            table.row([
                entry.name.as_str().into(),
                Field::figure(count),
                local(first.as_ref(), &utc).into(),
                local(last.as_ref(), &utc).into(),
                Field::toned(reason, Tone::Notice),
                human::brief(message, 120).into(),
            ]);
        }
    }
    table
}

/// An instant in a zone, as RFC 3339 with the offset then.
fn local(at: Option<&prost_types::Timestamp>, zone: &TimeZone) -> String {
    let at = at.and_then(|at| Timestamp::new(at.seconds, at.nanos).ok());
    at.map_or_else(|| "-".to_owned(), |at| at.display_with_offset(zone.to_offset(at)).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_shown_in_the_zone_of_the_reader() {
        let at = prost_types::Timestamp { seconds: 1_774_746_000, nanos: 0 };
        let zone = TimeZone::fixed(jiff::tz::offset(-5));
        assert_eq!(local(Some(&at), &zone), "2026-03-28T20:00:00-05:00");
        assert_eq!(local(None, &zone), "-");
    }
}
