//! The order in which jobs are due, from the rules: among tenants band, then the share that the tenant would have with
//! the job; among the jobs of a tenant band, priority, enqueue. A job is due only after those of its class and its
//! priority that were enqueued before it.

use std::{cmp::Ordering, collections::BTreeMap, time::Duration};

use tenure_scheduler::{
    Durable, Event, FencingToken, Job, JobId, JobState, Mono, Node, Now, Scope, SlotName, Tenant, Wall,
};

use super::{key_of, needs_of};

/// Since when each job has been queued, by the clock that nobody sets, and for how long before the leader began; and
/// which were queued when the last command had been applied.
#[derive(Debug, Clone, Default)]
pub(crate) struct Queued {
    since: BTreeMap<JobId, (Wall, Mono, Duration)>,
    /// The jobs of live leases: who waits for the end of one is queued anew with it.
    leases: BTreeMap<FencingToken, JobId>,
}

impl Queued {
    /// What a new leader finds.
    pub(crate) fn found(now: Now, rows: &Durable) -> Self {
        let mut found = Self::default();
        for (job, since) in queued(rows) {
            found.since.insert(job.id, (since, now.mono, now.wall.since(since)));
        }
        found.leases = live(rows);
        found
    }

    pub(crate) fn observe(&mut self, now: Now, events: &[Event], rows: &Durable) {
        // One that became queued may have been granted in the same command.
        for event in events {
            let queued = if let Event::Ready(job) | Event::WaitOver(job) | Event::Unblocked(job) = event {
                Some(*job)
            } else if let Event::AttemptEnded(end) = event {
                matches!(end.next, JobState::Queued { .. }).then_some(end.job)
            } else if let Event::LeaseGone(token) | Event::LeaseUnreaped(token) = event {
                self.leases.get(token).copied()
            } else {
                None
            };
            self.since.extend(queued.map(|job| (job, (now.wall, now.mono, Duration::ZERO))));
        }
        self.leases = live(rows);
        for (job, since) in queued(rows) {
            if self.since.get(&job.id).is_none_or(|(known, _, _)| *known != since) {
                self.since.insert(job.id, (since, now.mono, Duration::ZERO));
            }
        }
    }

    fn waited(&self, now: Now, job: &Job) -> Duration {
        self.since.get(&job.id).map_or(Duration::ZERO, |(_, at, before)| now.mono.since(*at) + *before)
    }
}

fn live(rows: &Durable) -> BTreeMap<FencingToken, JobId> {
    let live = rows.leases.values().filter(|lease| lease.stage.is_live());
    live.map(|lease| (lease.token, lease.job)).collect()
}

fn queued(rows: &Durable) -> impl Iterator<Item = (&Job, Wall)> {
    rows.jobs.values().filter_map(|job| {
        let JobState::Queued { since } = job.state else { return None };
        Some((job, since))
    })
}

/// Among the jobs of one tenant the less comes first: band, priority, enqueue.
pub(crate) type Own = (u8, i32, u64);

pub(crate) fn own_rank(now: Now, queued: &Queued, job: &Job) -> Own {
    let quarters = queued.waited(now, job).as_secs() / 900;
    let first: u8 = match job.priority {
        50.. => 0,
        20..=49 => 1,
        -19..=19 => 2,
        _ => 3,
    };
    let risen = first.saturating_sub(u8::try_from(quarters).unwrap_or(9));
    (if first <= 1 { first } else { risen.max(1) }, -i32::from(job.priority), job.sequence.0)
}

/// Of these jobs, all of which fit, one that had to be granted before `granted`. Each tenant stands for the first of its
/// own; among tenants the share that each would have with that job comes after the band. `lane` comes before all.
pub(crate) fn first_before<'a>(
    now: Now,
    queued: &Queued,
    rows: &Durable,
    granted: &Job,
    fitting: impl Iterator<Item = &'a Job>,
    lane: impl Fn(&Job) -> bool,
) -> Option<&'a Job> {
    let own = |job: &Job| (lane(job), own_rank(now, queued, job));
    let mut firsts: BTreeMap<Tenant, &Job> = BTreeMap::new();
    for job in fitting {
        let first = firsts.entry(job.tenant.clone()).or_insert(job);
        if own(job) < own(first) {
            *first = job;
        }
    }
    let among = |job: &Job| {
        let (lane, (band, priority, sequence)) = own(job);
        (lane, band, share(rows, job), priority, sequence)
    };
    firsts.into_values().find(|first| {
        if first.tenant == granted.tenant { own(first) < own(granted) } else { among(first) < among(granted) }
    })
}

/// A fraction; compared exactly.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ratio(u128, u128);

impl Ord for Ratio {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.0 * other.1).cmp(&(other.0 * self.1))
    }
}

impl PartialOrd for Ratio {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ratio {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ratio {}

/// The largest part of any slot that the leases of the job's tenant and the job itself take, over the tenant's weight.
pub(crate) fn share(rows: &Durable, job: &Job) -> Ratio {
    let mut taken: BTreeMap<SlotName, u128> = BTreeMap::new();
    let needs = needs_of(job, &rows.kinds[&job.kind]);
    let leases = rows.leases.values().filter(|lease| lease.tenant == job.tenant);
    let held = leases.flat_map(|lease| lease.reservation.node.iter().chain(lease.reservation.fleet.iter()));
    for (slot, amount) in held.chain(needs.iter()) {
        *taken.entry(slot.clone()).or_default() += u128::from(amount);
    }
    let weight = rows.tenants.get(&job.tenant).map_or(1, |policy| u128::from(policy.weight));
    let part = |(slot, amount): (SlotName, u128)| {
        let capacity: u128 = match rows.slots.get(&slot)?.scope {
            Scope::Fleet { capacity } => u128::from(capacity),
            Scope::Node => {
                let of_node =
                    |node: &Node| node.slots.get(&slot).map_or(0, |capacity| u128::from(capacity.units));
                rows.nodes.values().map(of_node).sum()
            }
        };
        (capacity > 0).then_some(Ratio(amount, capacity * weight))
    };
    taken.into_iter().filter_map(part).max().unwrap_or(Ratio(0, 1))
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
