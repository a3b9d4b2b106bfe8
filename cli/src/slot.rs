//! `tenure slot`: what there is a limited number of.

use std::time::Duration;

use clap::Subcommand;
use tenure_client::Client;
use tenure_client::proto::{ListSlotsResponse, Rate, Slot};

use crate::args;
use crate::exit::{Exit, Failure};
use crate::output::{Field, Output, Table, Tone, note};

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum SlotCommand {
    /// All slots with use and capacity.
    List,
    /// Changes the capacity of a fleet slot. Below the present use nothing is killed, and nothing more starts.
    Set {
        /// Its name.
        slot: String,
        /// Units in all.
        capacity: u32,
    },
    /// Starts no more jobs that need a slot; what runs, runs on.
    Pause {
        /// Its name.
        slot: String,
        /// The pause ends by itself after this long.
        #[arg(long = "for", value_name = "DURATION", value_parser = args::duration)]
        duration: Option<Duration>,
    },
    /// Ends the pause of a slot.
    Resume {
        /// Its name.
        slot: String,
    },
}

impl SlotCommand {
    /// Whether it changes anything on the server.
    pub(crate) fn writes(&self) -> bool {
        match self {
            Self::List => false,
            Self::Set { .. } | Self::Pause { .. } | Self::Resume { .. } => true,
        }
    }
}

/// Runs one verb.
pub(crate) async fn run(command: SlotCommand, client: &Client, output: &Output) -> Result<Exit, Failure> {
    match command {
        SlotCommand::List => {
            let slots = client.slots().await?;
            let answer = ListSlotsResponse { slots };
            output.show(&answer, answer.slots.iter().map(|slot| slot.name.as_str()), || {
                if answer.slots.is_empty() {
                    note("no slots; `tenure apply FILE` declares them");
                    return Ok(());
                }
                output.table(&list(&answer.slots, output))
            })?;
        }
        SlotCommand::Set { slot, capacity } => {
            let answer = client.set_capacity(&slot, capacity).await?;
            let verb = if answer.changed { "has now" } else { "had already" };
            output.did(&answer, &slot, format!("{slot} {verb} a capacity of {capacity}"))?;
        }
        SlotCommand::Pause { slot, duration } => {
            let answer = client.pause_slot(&slot, duration).await?;
            let verb = if answer.changed { "is paused" } else { "was paused already" };
            output.did(&answer, &slot, format!("{slot} {verb}"))?;
        }
        SlotCommand::Resume { slot } => {
            let answer = client.resume_slot(&slot).await?;
            let verb = if answer.changed { "is resumed" } else { "was not paused" };
            output.did(&answer, &slot, format!("{slot} {verb}"))?;
        }
    }
    Ok(Exit::Ok)
}

fn list(slots: &[Slot], output: &Output) -> Table {
    let headers = ["SLOT", "SCOPE", "USED", "CAPACITY", "RATE", "WAITING", "PAUSED"];
    let mut table = Table::new(headers.into_iter().chain(output.wide(|| ["FREE"])));
    for slot in slots {
        let full = slot.used >= slot.capacity;
        let paused = match (slot.paused, &slot.paused_until) {
            (false, _) => "-".into(),
            (true, None) => Field::toned("yes", Tone::Notice),
            (true, until) => Field::toned(format!("ends {}", output.when(until.as_ref())), Tone::Notice),
        };
        let fields = [
            slot.name.as_str().into(),
            if slot.per_node { "node" } else { "fleet" }.into(),
            Field::figure(slot.used),
            Field::figure(slot.capacity),
            rate(slot.rate.as_ref()).into(),
            if full && slot.waiting > 0 {
                Field::toned_figure(slot.waiting, Tone::Notice)
            } else {
                Field::figure(slot.waiting)
            },
            paused,
        ];
        let free = output.wide(|| [Field::figure(slot.capacity.saturating_sub(slot.used))]);
        table.row(fields.into_iter().chain(free));
    }
    table
}

/// As the fleet file writes it, the burst only where it is another than one.
fn rate(rate: Option<&Rate>) -> String {
    let Some(Rate { amount, per, burst }) = rate else { return "-".to_owned() };
    let unit = match per.as_ref().map_or(0, |per| per.seconds) {
        1 => "s".to_owned(),
        60 => "min".to_owned(),
        3_600 => "h".to_owned(),
        86_400 => "d".to_owned(),
        seconds => format!("{seconds}s"),
    };
    if *burst == 1 { format!("{amount}/{unit}") } else { format!("{amount}/{unit}, burst {burst}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_shown_as_the_fleet_file_writes_it() {
        let of = |amount, seconds, burst| {
            let per = Some(prost_types::Duration { seconds, nanos: 0 });
            rate(Some(&Rate { amount, per, burst }))
        };
        assert_eq!(of(50, 60, 10), "50/min, burst 10");
        assert_eq!(of(2, 86_400, 1), "2/d");
        assert_eq!(rate(None), "-");
    }
}
