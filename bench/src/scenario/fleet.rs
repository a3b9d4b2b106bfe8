//! `fleet`: thousands of idle sessions, each with a connection of its own and heartbeats: what they take of the server, and
//! what their heartbeats ask of the database.

use std::time::Duration;

use rustix::process::Pid;
use tenure_tests::clock::Moment;
use tokio::time::sleep;

use super::Found;
use super::sizes::{SETTLE, idle_for};
use crate::args::{Args, Store};
use crate::bed::{Bed, Place};
use crate::figure::Figure;
use crate::report::say;
use crate::rig::Rig;
use crate::sitters::{Offer, Sitters};
use crate::vitals::{Memory, memory, processor_seconds};

/// How long a fleet may take to come, whatever its size.
pub(super) const GATHER: Duration = Duration::from_secs(300);
/// How many times as long as an idle process is looked at: heartbeats come every five seconds.
const LONGER: u32 = 3;
/// A backend of Postgres tells what it counted a second later at the latest, once it does something.
const TOLD: Duration = Duration::from_millis(1_500);

pub(super) async fn measure(
    bed: &Bed,
    store: Store,
    args: &Args,
    scenario: &'static str,
    found: &mut Found,
) -> anyhow::Result<()> {
    let sessions = args.sessions;
    let rig = Rig::start_for(bed, store, sessions).await?;
    let pid = rig.server().pid()?;
    let window = idle_for(args) * LONGER;
    // A server that has just begun does more than one that is idle.
    sleep(SETTLE * 2).await;
    let empty = memory(pid, Memory::Anonymous)?;
    let without = look(&rig, pid, window, None).await?;
    say(&format!("{sessions} sessions …"));
    let sitters = Sitters::start(rig.endpoint(), sessions, Offer::Nothing, GATHER).await?;
    sleep(SETTLE).await;
    let full = memory(pid, Memory::Anonymous)?;
    let with = look(&rig, pid, window, Some(&sitters)).await?;
    let each = (full - empty) / f64::from(sessions) / 1024.0;
    let asked = (with.writes - without.writes).max(0.0) / with.heartbeats.max(1.0);
    let name = format!("{sessions} idle sessions");
    let figure = |what: &str, unit, value: f64| {
        Figure::new(scenario, Some(store), format!("{name}{what}"), unit, vec![value])
    };
    let what = match store {
        Store::Postgres => "transactions",
        Store::Sqlite => "commits",
    };
    found.figures.extend([
        figure(": processor", "cores", with.cores).below(1.0, "< 1 core"),
        figure(": heartbeats", "1/s", with.heartbeats / with.length),
        figure(&format!(": {what}"), "1/s", with.writes / with.length),
        figure(&format!(": {what} without them"), "1/s", without.writes / without.length),
        figure(&format!(": {what} a heartbeat"), "", asked).below(0.01, "none"),
        figure(": memory of each", "KiB", each).below(40.0, "≤ 40 KiB"),
    ]);
    drop(sitters);
    found.checked(rig.finish(scenario, 0, 0).await?);
    Ok(())
}

/// What was seen in a while.
struct Look {
    /// Seconds.
    length: f64,
    cores: f64,
    /// On Postgres transactions of the whole database, in which all statements stand, those that read too; on SQLite
    /// commits of the server.
    writes: f64,
    heartbeats: f64,
}

async fn look(rig: &Rig, pid: Pid, window: Duration, sitters: Option<&Sitters>) -> anyhow::Result<Look> {
    let beats = || sitters.map_or(0.0, Sitters::heartbeats);
    let (began, busy) = (Moment::now(), processor_seconds(pid)?);
    let (writes, before) = (writes(rig).await?, beats());
    sleep(window).await;
    let (busy, heartbeats) = (processor_seconds(pid)? - busy, beats() - before);
    let length = began.elapsed().as_secs_f64();
    sleep(TOLD).await;
    let all = began.elapsed().as_secs_f64();
    // What came while Postgres had not told it yet is left out by the length of both.
    let writes = (self::writes(rig).await? - writes) * length / all;
    Ok(Look { length, cores: busy / length, writes, heartbeats })
}

async fn writes(rig: &Rig) -> anyhow::Result<f64> {
    match rig.place() {
        Place::Postgres(url) => crate::bed::transactions(url).await,
        Place::Sqlite(_) => Ok(rig.scrape().await?.value("tenure_commit_seconds_count")),
    }
}
