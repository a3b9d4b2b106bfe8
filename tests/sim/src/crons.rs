//! Timetables of a history: one entry for each policy, and a calendar without zones, in which an entry fires at every
//! multiple of a length.

use std::{sync::Arc, time::Duration};

use tenure_scheduler::{
    Command, CronEntry, CronJob, CronName, CronPlan, CronPolicy, KindName, MissedPolicy, Selector, Tenant,
    Wall,
};

use crate::{
    clock::S,
    world::{KINDS, World},
};

/// Of what is over, a plan has no more than this.
const BACK: i64 = 120;

/// Instants beyond the present that a plan has.
const AHEAD: i64 = 4;

/// An entry of the fleet file.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    /// Between two instants, in microseconds.
    pub(crate) every: u64,
    pub(crate) missed: MissedPolicy,
    /// In microseconds.
    pub(crate) jitter: u64,
    pub(crate) singleton: bool,
}

/// All entries.
pub(crate) const ENTRIES: [Entry; 3] = [
    Entry { name: "skips", every: 35 * S, missed: MissedPolicy::Skip, jitter: 0, singleton: false },
    Entry {
        name: "coalesces",
        every: 20 * S,
        missed: MissedPolicy::Coalesce,
        jitter: 4 * S,
        singleton: true,
    },
    Entry {
        name: "catches-up",
        every: 45 * S,
        missed: MissedPolicy::CatchUp(2),
        jitter: 0,
        singleton: false,
    },
];

impl Entry {
    pub(crate) fn of(name: &CronName) -> Option<&'static Self> {
        ENTRIES.iter().find(|entry| entry.name == name.as_str())
    }

    pub(crate) fn policy(&self) -> (CronName, CronPolicy) {
        let policy = CronPolicy {
            kind: KindName::new(KINDS[0].name),
            when: format!("+{}", self.every).into(),
            zone: "UTC".into(),
            missed: self.missed,
            jitter: Duration::from_micros(self.jitter),
            singleton: self.singleton,
            job: CronJob {
                payload: Arc::default(),
                content_type: Arc::default(),
                tenant: Tenant::new("a"),
                priority: None,
                labels: Default::default(),
                needs: None,
                selector: Selector::default(),
                stale_after: None,
                hard_time_limit: None,
                concurrency_key: None,
            },
        };
        (CronName::new(self.name), policy)
    }
}

/// How a timetable goes on, and whether something of it is left out.
pub(crate) fn plan(row: &CronEntry, now: Wall) -> (CronPlan, bool) {
    let every = Entry::of(&row.name).map_or(i64::MAX, |entry| entry.every.cast_signed());
    let after = row.last_instant;
    let next = after.0.div_euclid(every) + 1;
    let present = now.0.div_euclid(every);
    let first = next.max(present - BACK);
    let instants = (first..=first.max(present) + AHEAD).map(|number| Wall(number * every)).collect();
    let (when, zone) = (row.policy.when.clone(), row.policy.zone.clone());
    (CronPlan { entry: row.name.clone(), when, zone, after, instants, ends: false }, first > next)
}

impl World {
    /// Once all heals, operators pause the entries, or nothing would ever end.
    pub(crate) fn plan_pauses(&mut self, at: u64) {
        for entry in &ENTRIES {
            self.plan_client(at, Command::PauseCron { entry: CronName::new(entry.name), by: "p".into() });
        }
    }
}
