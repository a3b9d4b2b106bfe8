//! What a bystander knows of earmarks, and which of them are lawful.

use std::{collections::BTreeMap, time::Duration};

use tenure_scheduler::{
    Durable, Earmark, EarmarkHolder, Event, Job, JobId, JobState, Kind, Lease, Mono, Needs, Node, NodeName,
    Now, Scope, SlotName, start_window,
};

use super::{Key, Used, key_of};

/// Between the hard limit of an attempt and the end of its process tree.
const GRACE: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Earmarks {
    /// With the class that finds the units.
    pub(crate) all: BTreeMap<EarmarkHolder, (Key, Earmark)>,
    /// Those dropped by the last command, to be taken back from the last.
    dropped: Vec<(Key, Earmark)>,
    /// Since when jobs are queued, as far as this leader knows.
    queued: BTreeMap<JobId, Mono>,
}

impl Earmarks {
    /// A command is about to be observed.
    pub(crate) fn begin(&mut self) {
        self.dropped.clear();
    }

    /// A command was observed.
    pub(crate) fn end(&mut self, now: Now, rows: &Durable) {
        let is_queued =
            |id: &JobId| rows.jobs.get(id).is_some_and(|job| matches!(job.state, JobState::Queued { .. }));
        self.queued.retain(|id, _| is_queued(id));
        for id in rows.jobs.keys().filter(|id| is_queued(id)) {
            self.queued.entry(*id).or_insert(now.mono);
        }
    }

    pub(crate) fn observe(&mut self, now: Now, event: &Event, rows: &Durable) {
        if let Event::Earmarked(earmark) = event {
            self.lawful(now, earmark, rows);
            let key = key_of(&rows.jobs[&earmark.job], rows);
            self.all.insert(earmark.holder, (key, (**earmark).clone()));
        } else if let Event::EarmarkDropped { holder, .. } = event {
            self.dropped.extend(self.all.remove(holder));
        }
    }

    /// Undoes an event of the last command. The last first.
    pub(crate) fn take_back(&mut self, event: &Event) {
        if let Event::Earmarked(earmark) = event {
            self.all.remove(&earmark.holder);
        } else if let Event::EarmarkDropped { .. } = event
            && let Some((key, earmark)) = self.dropped.pop()
        {
            self.all.insert(earmark.holder, (key, earmark));
        }
    }

    /// A large job that has waited for long enough; at most one for every twentieth node, and for each slot one on nodes
    /// of one type.
    fn lawful(&self, now: Now, earmark: &Earmark, rows: &Durable) {
        if let EarmarkHolder::Lease(token) = earmark.holder {
            // It may have got it back within the command.
            if let Some(parked) = rows.leases.get(&token).and_then(|lease| lease.waits()) {
                assert_eq!(parked.yielded, earmark.units, "what it gave is kept for it");
            }
            return;
        }
        let job = rows.jobs.get(&earmark.job).expect("an earmark for a job that is not live");
        let (_, needs, _, tenant, _) = key_of(job, rows);
        assert!(
            matches!(job.state, JobState::Queued { .. }),
            "an earmark for a job that does not wait: {job:?}"
        );
        assert_eq!(
            earmark.needs(),
            needs,
            "an earmark keeps all that its job of {tenant} needs, and no more"
        );
        let units: u32 = needs.iter().map(|(_, amount)| amount).sum();
        assert!(units > 1 || self.displaces(earmark), "an earmark for a small job: {earmark}");
        let reserve_after = rows.kinds[&job.kind].policy.reserve_after;
        let since = self.queued.get(&job.id).copied().expect("it was not queued before this command");
        assert!(now.mono.since(since) >= reserve_after, "{earmark} after {:?}", now.mono.since(since));
        let others =
            || self.all.values().filter(|(_, other)| is_head(other) && other.holder != earmark.holder);
        let most = (rows.nodes.len() / 20).max(1);
        assert!(others().count() < most, "{earmark} is one too many: {:?}", self.all);
        let node = rows.nodes.get(&earmark.node).expect("an earmark on a node that nobody knows");
        for (_, other) in others().filter(|(_, other)| is_like(node, rows.nodes.get(&other.node))) {
            let shared =
                other.needs().iter().find(|(slot, _)| needs.amount(slot) > 0).map(|(s, _)| s.clone());
            assert_eq!(shared, None, "{earmark} beside {other}");
        }
        let limits = rows.kinds.values().map(|kind| kind.policy.hard_time_limit);
        let longest = limits.max().unwrap_or_default() + GRACE + Duration::from_secs(10);
        let alone = self.all.is_empty();
        assert!(!alone || earmark.by.since(now.mono) <= longest, "{earmark} by {:?} at {now:?}", earmark.by);
    }

    /// A small job has its turn before a younger one that was blocked later.
    fn displaces(&self, earmark: &Earmark) -> bool {
        let all = self.all.values().chain(&self.dropped).map(|(_, other)| other);
        all.filter(|other| is_head(other))
            .any(|other| earmark.rank < other.rank && earmark.since < other.since)
    }

    /// How much of a slot is kept for others than this job; `node`: on that node, else of the fleet.
    pub(crate) fn kept(
        &self,
        now: Now,
        rows: &Durable,
        job: &Job,
        node: Option<&NodeName>,
        slot: &SlotName,
    ) -> u64 {
        let kind = &rows.kinds[&job.kind];
        let limit = Duration::from_secs(limit(job, kind));
        let ends = now.mono.after(start_window(kind.policy.lease)).after(limit).after(GRACE);
        let own = self.of(job, rows);
        let others = self.all.values().map(|(_, other)| other).filter(|other| {
            let older = own.is_none_or(|own| other.rank < own.rank);
            older && other.by < ends && node.is_none_or(|node| *node == other.node)
        });
        let part = |other: &Earmark| -> Needs {
            if node.is_some() { other.units.node.clone() } else { other.units.fleet.clone() }
        };
        others.map(|other| u64::from(part(other).amount(slot))).sum()
    }

    /// A grant took nothing of what was kept for another. `used` and `rows` are those before it.
    pub(crate) fn kept_from_none(&self, now: Now, rows: &Durable, used: &Used, lease: &Lease, job: &Job) {
        let capacity_of = |slot: &SlotName| {
            rows.nodes.get(&lease.node).and_then(|node| node.slots.get(slot)).map_or(0, |slot| slot.units)
        };
        for (slot, amount) in lease.reservation.node.iter() {
            let kept = self.kept(now, rows, job, Some(&lease.node), slot);
            let taken = used.node(&lease.node, slot) + kept + u64::from(amount);
            let room = kept == 0 || taken <= u64::from(capacity_of(slot));
            assert!(room, "{} took {slot} on {}, which is kept: {:?}", job.id, lease.node, self.all);
        }
        for (slot, amount) in lease.reservation.fleet.iter() {
            let kept = self.kept(now, rows, job, None, slot);
            let Some(Scope::Fleet { capacity }) = rows.slots.get(slot).map(|slot| slot.scope) else {
                continue;
            };
            let taken = used.fleet(slot) + kept + u64::from(amount);
            let room = kept == 0 || taken <= u64::from(capacity);
            assert!(room, "{} took {slot}, which is kept: {:?}", job.id, self.all);
        }
    }

    /// The earmark of the class of a job.
    pub(crate) fn of(&self, job: &Job, rows: &Durable) -> Option<&Earmark> {
        if self.all.is_empty() {
            return None;
        }
        let key = key_of(job, rows);
        self.all.values().find(|(class, earmark)| is_head(earmark) && *class == key).map(|(_, own)| own)
    }

    /// At rest each is for a job that waits still, where it could run.
    pub(crate) fn at_rest(&self, rows: &Durable) {
        for (_, earmark) in self.all.values().filter(|(_, earmark)| is_head(earmark)) {
            let job = rows.jobs.get(&earmark.job);
            let waits = job.is_some_and(|job| matches!(job.state, JobState::Queued { .. }));
            assert!(waits, "an earmark for a job that waits no more: {earmark} {job:?}");
            let node = rows.nodes.get(&earmark.node);
            let open = node.is_some_and(|node| !node.cordoned && node.draining.is_none());
            assert!(open, "an earmark on a node that takes nothing: {earmark}");
        }
    }
}

/// Within how many seconds a job ends: powers of two, unless it is its kind's limit.
pub(crate) fn limit(job: &Job, kind: &Kind) -> u64 {
    let kinds = kind.policy.hard_time_limit.as_secs();
    let own = job.hard_time_limit.map_or(u64::MAX, |own| own.as_millis().div_ceil(1000).try_into().unwrap());
    (0..62).map(|power| 1 << power).find(|within| *within >= own).unwrap_or(kinds).min(kinds)
}

fn is_head(earmark: &Earmark) -> bool {
    matches!(earmark.holder, EarmarkHolder::Class(_))
}

fn is_like(node: &Node, other: Option<&Node>) -> bool {
    let units = |node: &Node| -> Vec<(SlotName, u32)> {
        node.slots.iter().map(|(slot, capacity)| (slot.clone(), capacity.units)).collect()
    };
    other.is_some_and(|other| {
        let host =
            |node: &Node| (node.host.os.clone(), node.host.arch.clone(), node.host.containment.clone());
        host(other) == host(node)
            && other.labels == node.labels
            && other.kinds == node.kinds
            && units(other) == units(node)
    })
}
