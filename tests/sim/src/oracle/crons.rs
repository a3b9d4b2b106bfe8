//! What must hold of timetables: an instant becomes one job at the most, not before it comes and not after it is missed, and
//! each is accounted for.

use std::collections::BTreeMap;

use tenure_scheduler::{CronName, Event, JobId, MissedPolicy, Producer, Wall};

use crate::{
    clock::{S, WALL},
    crons::{ENTRIES, Entry},
    oracle::Process,
    world::World,
};

/// No instant may be later than that and still count as in time.
const LATE: i64 = 60 * S.cast_signed();

/// The job of each instant, as far as leaders said.
pub(crate) type Fired = BTreeMap<(CronName, Wall), JobId>;

impl World {
    /// What a leader decides to fire, by its own wall clock.
    pub(super) fn firings_decided(&mut self, index: usize, events: &[Event]) {
        let now = self.servers[index].clock.wall(self.now);
        let mut late: BTreeMap<&'static str, u32> = BTreeMap::new();
        for event in events {
            let Event::CronFired { entry, instant: Some(at), .. } = event else { continue };
            let Some(entry) = Entry::of(entry) else { continue };
            if at.0 > now {
                return self.violated(format!("cron: {} fires {} µs too early", entry.name, at.0 - now));
            }
            if now - at.0 > LATE + entry.jitter.cast_signed() {
                *late.entry(entry.name).or_default() += 1;
            }
        }
        for entry in &ENTRIES {
            let may = match entry.missed {
                MissedPolicy::Skip => 0,
                MissedPolicy::Coalesce => 1,
                MissedPolicy::CatchUp(most) => most,
            };
            let are = late.get(entry.name).copied().unwrap_or(0);
            if are > may {
                return self.violated(format!("cron: {} fires {are} missed instants", entry.name));
            }
        }
    }

    /// What is durable, as far as a leader hears of it.
    pub(super) fn firings_committed(&mut self, events: &[Event]) {
        for event in events {
            let Event::CronFired { entry, instant: Some(at), job } = event else { continue };
            let before = self.oracle.fired.insert((entry.clone(), *at), *job);
            if let Some(before) = before.filter(|before| before != job && !self.oracle.has_lost(*before)) {
                return self.violated(format!("cron: {entry} fires {} as {before} and as {job}", at.0));
            }
        }
    }

    /// One job of a singleton runs at once.
    pub(super) fn runs_alone(&mut self, process: &Process, others: &[(u64, Process)]) {
        let tables = &self.db.tables;
        let single = |process: &Process| {
            let name = tables.jobs.get(&process.job)?.producer.cron_entry()?;
            Entry::of(&CronName::new(name)).filter(|entry| entry.singleton).map(|entry| entry.name)
        };
        let Some(name) = single(process) else { return };
        if let Some((_, other)) = others.iter().find(|(_, other)| single(other) == Some(name)) {
            let (job, other) = (process.job, other.job);
            self.violated(format!("cron: {job} and {other} of the singleton {name} run at once"));
        }
    }

    /// At the end of everything: what was settled of a timetable has fired or was missed, each instant once.
    pub(super) fn timetables_end(&mut self) {
        let mut firings = 0;
        let mut wrong = None;
        for row in self.db.tables.crons() {
            let Some(entry) = Entry::of(&row.name) else { continue };
            firings += row.fired;
            let producer = Producer::of_cron(&row.name);
            let jobs = self.db.tables.jobs.values().filter(|job| job.producer == producer).count() as u64;
            let every = entry.every.cast_signed();
            let settled = row.last_instant.0.div_euclid(every) - WALL.div_euclid(every);
            let told = row.fired + row.missed;
            if jobs != row.fired {
                wrong = Some(format!("cron: {} fired {} and has {jobs} jobs", row.name, row.fired));
            } else if u64::try_from(settled) != Ok(told) && !self.oracle.left_out {
                wrong = Some(format!("cron: {} settled {settled} instants and tells of {told}", row.name));
            }
        }
        self.counts.firings = firings;
        if let Some(wrong) = wrong {
            self.violated(wrong);
        }
    }
}
