//! `tenure slot`: what there is a limited number of.

use std::time::Duration;

use clap::Subcommand;
use tenure_client::Client;
use tenure_client::proto::{ListSlotsResponse, Slot};

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

/// Runs one verb.
pub(crate) async fn run(command: SlotCommand, client: &Client, output: &Output) -> Result<Exit, Failure> {
    match command {
        SlotCommand::List => {
            let slots = client.slots().await?;
            if output.is_json() {
                output.message(&ListSlotsResponse { slots })?;
            } else if slots.is_empty() {
                note("no slots; `tenure apply FILE` declares them");
            } else {
                output.table(&list(&slots, output))?;
            }
        }
        SlotCommand::Set { slot, capacity } => {
            let answer = client.set_capacity(&slot, capacity).await?;
            if output.is_json() {
                output.message(&answer)?;
            } else {
                let verb = if answer.changed { "has now" } else { "had already" };
                note(format!("{slot} {verb} a capacity of {capacity}"));
            }
        }
        SlotCommand::Pause { slot, duration } => {
            let answer = client.pause_slot(&slot, duration).await?;
            if output.is_json() {
                output.message(&answer)?;
            } else {
                note(format!("{slot} {}", if answer.changed { "is paused" } else { "was paused already" }));
            }
        }
        SlotCommand::Resume { slot } => {
            let answer = client.resume_slot(&slot).await?;
            if output.is_json() {
                output.message(&answer)?;
            } else {
                note(format!("{slot} {}", if answer.changed { "is resumed" } else { "was not paused" }));
            }
        }
    }
    Ok(Exit::Ok)
}

fn list(slots: &[Slot], output: &Output) -> Table {
    let mut table = Table::new(["SLOT", "SCOPE", "USED", "CAPACITY", "WAITING", "PAUSED"]);
    for slot in slots {
        let full = slot.used >= slot.capacity;
        let paused = match (slot.paused, &slot.paused_until) {
            (false, _) => "-".into(),
            (true, None) => Field::toned("yes", Tone::Notice),
            (true, until) => Field::toned(format!("ends {}", output.when(until.as_ref())), Tone::Notice),
        };
        table.row([
            slot.name.as_str().into(),
            if slot.per_node { "node" } else { "fleet" }.into(),
            Field::figure(slot.used),
            Field::figure(slot.capacity),
            if full && slot.waiting > 0 {
                Field::toned_figure(slot.waiting, Tone::Notice)
            } else {
                Field::figure(slot.waiting)
            },
            paused,
        ]);
    }
    table
}
