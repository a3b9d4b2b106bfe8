//! Who stands before a job: of its own class exactly, of other classes as far as that can be said.
//!
//! A place in line is the order of now: lane, band, tenant's share, priority, enqueue (`place/order.rs`). Bands rise
//! while jobs wait, and shares change with every grant; so of another tenant's jobs in the same band it is only said that
//! some of them come first.

use std::{cmp::Reverse, collections::BTreeMap};

use crate::{
    ids::{JobId, KindName, Sequence, SlotName},
    job::Job,
    place::{
        ClassId,
        classes::Class,
        earmarks::{Holder, may_be_large},
        fifo::place_in_line,
        order::Band,
        queue::{PriorityLine, Queue},
    },
    slots::Needs,
    state::{JobEntry, State},
    time::Now,
    view::LineAhead,
};

/// The slot that a job waits for, and whether it is one of the fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lacking {
    pub(super) slot: SlotName,
    pub(super) of_fleet: bool,
}

/// What the other classes that are queued for the slot say, gathered class by class.
#[derive(Debug, Clone, Default)]
pub(super) struct Others {
    /// The last class that was looked at.
    pub(super) after: Option<ClassId>,
    pub(super) ahead: LineAhead,
    /// How many jobs of a kind may come first, and what the largest of them takes of the slot. A large one may get an
    /// earmark, so all of its class may.
    pub(super) runs: BTreeMap<KindName, (u64, u32)>,
    /// Of each other slot that the job needs: what all queued jobs take that do not need the slot that it lacks.
    pub(super) apart: BTreeMap<SlotName, u64>,
    /// Of each other slot that the job needs: the most that one job takes that needs both.
    pub(super) together: BTreeMap<SlotName, u32>,
    /// Units of the slot may be kept, and not be at work, for one that waits for another slot.
    pub(super) may_idle: bool,
    /// There is one that may get an earmark on a slot that the job needs.
    pub(super) rivals: bool,
}

impl Others {
    /// Takes over one other class.
    pub(super) fn add(&mut self, asker: &Asker<'_>, lacking: &Lacking, id: ClassId, other: &Class) {
        if other.queue.is_empty() {
            return;
        }
        let takes = other.key.needs.amount(&lacking.slot);
        let is_large = may_be_large(&other.key.needs);
        let own = &asker.class.key.needs;
        self.rivals |= is_large && other.key.needs.iter().any(|(slot, _)| own.amount(slot) > 0);
        for (slot, _) in asker.class.key.needs.iter().filter(|(slot, _)| **slot != lacking.slot) {
            let amount = other.key.needs.amount(slot);
            if takes == 0 {
                let all = u64::from(amount).saturating_mul(other.queue.len() as u64);
                let sum = self.apart.entry(slot.clone()).or_default();
                *sum = sum.saturating_add(all);
            } else {
                let most = self.together.entry(slot.clone()).or_default();
                *most = (*most).max(amount);
            }
        }
        if takes == 0 {
            return;
        }
        let (sure, by_share) = asker.before(id, other);
        if sure + by_share > 0 {
            self.ahead.classes += 1;
            self.ahead.jobs += sure;
            self.ahead.by_share += by_share;
        }
        self.may_idle |= is_large && !asker.needs_cover(other);
        // What waits for its key now may come first once that is free.
        let by_turns = is_large || other.ready.is_some();
        let may_come_first = if by_turns { other.queue.len() as u64 } else { sure + by_share };
        if may_come_first > 0 {
            let (count, most) = self.runs.entry(other.key.kind.clone()).or_default();
            *count += may_come_first;
            *most = (*most).max(takes);
        }
    }
}

/// Whose place it is.
pub(super) struct Asker<'a> {
    pub(super) state: &'a State,
    pub(super) now: Now,
    pub(super) class: &'a Class,
    pub(super) job: &'a Job,
    band: Band,
    /// Units are kept for it: it is the head of a class that has an earmark.
    is_kept_for: bool,
}

impl<'a> Asker<'a> {
    pub(super) fn new(
        state: &'a State,
        now: Now,
        id: ClassId,
        class: &'a Class,
        entry: &'a JobEntry,
    ) -> Self {
        let band = Band::of(entry.job.priority, state.waited(entry, now));
        let asker = Self { state, now, class, job: &entry.job, band, is_kept_for: false };
        let is_kept_for = state.earmarks.of(Holder::Class(id)).is_some() && asker.ahead() == 0;
        Self { is_kept_for, ..asker }
    }

    /// How many jobs of its own class come first; of its kind, if that is in strict order. Those whose key is at its limit
    /// are passed over, unless it is the same key.
    pub(super) fn ahead(&self) -> u64 {
        if let Some(line) = self.state.line_of(&self.job.kind) {
            return line.before(&place_in_line(self.job)) as u64;
        }
        let same_band = |band| band == self.band;
        let open = self.class.startable();
        let all = self.in_better_lines(open, same_band);
        let Some(own) = self.of_own_key() else { return all };
        // Its first of each priority stand among those that may start, too, if the key is not at its limit.
        let twice = own.heads().filter(|head| open.holds(head));
        let twice =
            twice.filter(|(priority, sequence, job)| self.leads(priority.0, *sequence, *job, same_band));
        all + self.in_better_lines(own, same_band) - twice.count() as u64
    }

    /// How many jobs of its own class may come first before it starts: a key that is at its limit may be free by then.
    pub(super) fn may_come_first(&self) -> u64 {
        if self.state.line_of(&self.job.kind).is_some() {
            return self.ahead();
        }
        self.in_better_lines(&self.class.queue, |band| band == self.band)
    }

    /// The jobs of its class that name the same key.
    fn of_own_key(&self) -> Option<&'a Queue> {
        self.class.ready.as_ref()?.of_key(self.job.concurrency_key.as_ref()?)
    }

    /// The first of them, in order.
    pub(super) fn ahead_jobs(&self, most: usize) -> Vec<JobId> {
        if let Some(line) = self.state.line_of(&self.job.kind) {
            let ahead = usize::try_from(self.ahead()).unwrap_or(usize::MAX);
            return line.iter().take(ahead.min(most)).collect();
        }
        // Each line is in order, so the first of all are among the first of each.
        let mut all: Vec<(Band, Reverse<i8>, Sequence, JobId)> = Vec::new();
        let queues = self.of_own_key().into_iter().chain([self.class.startable()]);
        for line in queues.flat_map(Queue::lines) {
            let ahead = usize::try_from(self.leading(line, |band| band == self.band)).unwrap_or(usize::MAX);
            let first = line.iter().take(ahead.min(most));
            all.extend(first.map(|(sequence, job)| {
                (self.band_of(line.priority(), job), Reverse(line.priority()), sequence, job)
            }));
        }
        all.sort_unstable();
        all.dedup();
        all.into_iter().take(most).map(|(.., job)| job).collect()
    }

    /// How many jobs of another class come first for sure, and how many more may.
    fn before(&self, id: ClassId, other: &Class) -> (u64, u64) {
        let kept = self.state.earmarks.of(Holder::Class(id)).is_some();
        if self.is_kept_for {
            // Of two for whom units are kept, the older one comes first; which that is, is not looked at.
            return (0, u64::from(kept));
        }
        if other.key.tenant == self.class.key.tenant {
            return (self.in_better_lines(other.startable(), |band| band == self.band).max(kept.into()), 0);
        }
        let sure = self.in_better_lines(other.startable(), |_| false).max(kept.into());
        let lines = other.startable().lines().iter();
        let up_to_its_band: u64 = lines
            .map(|line| line.leading(|_, job| self.band_of(line.priority(), job) <= self.band) as u64)
            .sum();
        (sure, up_to_its_band.saturating_sub(sure))
    }

    /// Those of a better band; and those of a band that counts if their priority and enqueue come first.
    fn in_better_lines(&self, queue: &Queue, counts: impl Fn(Band) -> bool + Copy) -> u64 {
        queue.lines().iter().map(|line| self.leading(line, counts)).sum()
    }

    fn leading(&self, line: &PriorityLine, counts: impl Fn(Band) -> bool + Copy) -> u64 {
        line.leading(|sequence, job| self.leads(line.priority(), sequence, job, counts)) as u64
    }

    fn leads(&self, priority: i8, sequence: Sequence, job: JobId, counts: impl FnOnce(Band) -> bool) -> bool {
        let own = (Reverse(self.job.priority), self.job.sequence);
        let band = self.band_of(priority, job);
        band < self.band || (counts(band) && (Reverse(priority), sequence) < own)
    }

    fn band_of(&self, priority: i8, job: JobId) -> Band {
        let waited = self.state.jobs.get(&job).map(|entry| self.state.waited(entry, self.now));
        Band::of(priority, waited.unwrap_or_default())
    }

    /// Whether a job of another class needs nothing that this one does not need, one unit of each, where this one does:
    /// what is kept for it is at work as soon as the slot that both lack is free.
    pub(super) fn needs_cover(&self, other: &Class) -> bool {
        let (own, key) = (&self.class.key, &other.key);
        let alike = other.node.is_empty() || (own.kind == key.kind && own.selector == key.selector);
        alike && key.needs.iter().all(|(slot, amount)| amount == 1 && own.needs.amount(slot) > 0)
    }

    /// What one job of its class takes of the slot.
    pub(super) fn takes(&self, lacking: &Lacking) -> u32 {
        self.class.key.needs.amount(&lacking.slot)
    }

    /// The slots that it needs beside the one that it lacks.
    pub(super) fn other_needs(&self, lacking: &Lacking) -> Needs {
        let others = self.class.key.needs.iter().filter(|(slot, _)| **slot != lacking.slot);
        Needs::new(others.map(|(slot, amount)| (slot.clone(), amount)))
    }
}
