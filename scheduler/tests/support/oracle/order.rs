//! The order in which jobs are due, from the rules: band, priority, enqueue. A job is due only after those of its class
//! and its priority that were enqueued before it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tenure_scheduler::{Durable, Job, JobId, JobState, Mono, Now, Wall};

use super::key_of;

/// Since when each job has been queued, by the clock that nobody sets, and for how long before the leader began; and
/// which were queued when the last command had been applied.
#[derive(Debug, Clone, Default)]
pub(crate) struct Queued(BTreeMap<JobId, (Wall, Mono, Duration)>, BTreeSet<JobId>);

impl Queued {
    /// What a new leader finds.
    pub(crate) fn found(now: Now, rows: &Durable) -> Self {
        let mut found = Self::default();
        for (job, since) in queued(rows) {
            found.0.insert(job.id, (since, now.mono, now.wall.since(since)));
            found.1.insert(job.id);
        }
        found
    }

    pub(crate) fn observe(&mut self, now: Now, rows: &Durable) {
        // Who was granted before this command waits anew if it comes back: nobody sees that of one that comes back and is
        // granted again within it.
        let before = std::mem::replace(&mut self.1, queued(rows).map(|(job, _)| job.id).collect());
        self.0.retain(|job, _| before.contains(job));
        for (job, since) in queued(rows) {
            if self.0.get(&job.id).is_none_or(|(known, _, _)| *known != since) {
                self.0.insert(job.id, (since, now.mono, Duration::ZERO));
            }
        }
    }

    fn waited(&self, now: Now, job: &Job) -> Duration {
        self.0.get(&job.id).map_or(Duration::ZERO, |(_, at, before)| now.mono.since(*at) + *before)
    }
}

fn queued(rows: &Durable) -> impl Iterator<Item = (&Job, Wall)> {
    rows.jobs.values().filter_map(|job| {
        let JobState::Queued { since } = job.state else { return None };
        Some((job, since))
    })
}

/// The less comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    band: u8,
    priority: i32,
    sequence: u64,
}

pub(crate) fn rank(now: Now, queued: &Queued, job: &Job) -> Rank {
    let quarters = queued.waited(now, job).as_secs() / 900;
    let first: u8 = match job.priority {
        50.. => 0,
        20..=49 => 1,
        -19..=19 => 2,
        _ => 3,
    };
    let band = if first <= 1 {
        first
    } else {
        u8::max(1, first.saturating_sub(u8::try_from(quarters).unwrap_or(9)))
    };
    Rank { band, priority: -i32::from(job.priority), sequence: job.sequence.0 }
}

/// Of these, those that none of the same class and priority was enqueued before.
pub(crate) fn heads<'a>(rows: &Durable, jobs: impl Iterator<Item = &'a Job>) -> Vec<&'a Job> {
    let mut heads = BTreeMap::new();
    for job in jobs {
        let head = heads.entry((key_of(job, rows), job.priority)).or_insert(job);
        if job.sequence < head.sequence {
            *head = job;
        }
    }
    heads.into_values().collect()
}
