//! Earmarks: units that are kept for a large job until it fits, so that a stream of small ones cannot pass it by for
//! ever.
//!
//! Nothing is taken by one: an earmark only lowers what others find free of exactly its slots, on its node and of the
//! fleet ([`Earmarks::short`], which `fit.rs` asks). So no two of them can hold half each, and since the older of two
//! always finds what the younger one is kept, they cannot wait for each other. A job that has given its units back by
//! the time at which the earmark is filled may use them meanwhile (backfill).
//!
//! Large jobs are not to starve small ones either: a small one gets an earmark of its own before a younger job that was
//! blocked later.
//!
//! Who gets one, and where, is decided in `elect.rs`; whether it still holds in `review.rs`, before each placement.

mod elect;
mod review;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

pub(crate) use self::{
    elect::{elect, gone_by, may_be_large},
    review::{LATE, granted, review},
};
use crate::{
    ids::{FencingToken, JobId, NodeName, Sequence, SlotName},
    job::Job,
    lease::{returns_by, start_window},
    place::{ClassId, classes::Class, hard_time_limit},
    slots::{Needs, Reservation},
    state::State,
    time::{Mono, Now},
};

/// Who finds what is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// A class, for the job that was its head.
    Class(ClassId),
    /// A lease that wants units back which it yielded.
    Lease(FencingToken),
}

/// The place in the one order of all earmarks: the least is the oldest, and goes first on every slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// 0: a lease that wants units back; 1: the head of a class.
    pub lane: u8,
    /// The less the earlier: the band of a head when it was elected, 0 (critical) to 3 (low).
    pub band: u8,
    /// Then the earlier enqueue of the job. No two jobs have the same.
    pub sequence: Sequence,
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Earmark {
    /// Who finds the units.
    pub holder: Holder,
    /// The job for which they are kept.
    pub job: JobId,
    /// Its place among all.
    pub rank: Rank,
    /// The node whose units are kept.
    pub node: NodeName,
    /// What is kept: of the node, and of the fleet. All that the job needs.
    pub units: Reservation,
    /// It is filled by then if whoever holds the units runs to its hard limit.
    pub by: Mono,
    /// Since when the job could not start, when this was decided.
    pub since: Mono,
    /// The job, started then, has given them back by then. What a younger earmark on the same slots counts on.
    pub until: Mono,
}

impl Earmark {
    /// All units that are kept, of the node and of the fleet.
    #[must_use]
    pub fn needs(&self) -> Needs {
        let both = self.units.node.iter().chain(self.units.fleet.iter());
        Needs::new(both.map(|(slot, amount)| (slot.clone(), amount)))
    }

    /// Whether it keeps units of a slot that these needs name too.
    fn shares(&self, needs: &Needs) -> bool {
        self.units.node.iter().chain(self.units.fleet.iter()).any(|(slot, _)| needs.amount(slot) > 0)
    }
}

/// Why an earmark is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropped {
    /// Its class started a job on its node: it is used up.
    Used,
    /// Its job started on another node.
    StartedElsewhere,
    /// Its job does not wait in its class any more: cancelled, expired, set aside, moved by a new policy.
    Left,
    /// Its job asks for other units than are kept, or cannot start for now wherever there is room.
    Changed,
    /// Its node cannot run it for now: it drains, is silent, cordoned or closed, or has become too small.
    Node,
    /// An older one took its place.
    Superseded,
    /// It was not filled in its time: somebody holds units for longer than its hard limit.
    Late,
}

impl Dropped {
    /// The word for it in traces.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Used => "used",
            Self::StartedElsewhere => "started elsewhere",
            Self::Left => "left",
            Self::Changed => "changed",
            Self::Node => "node",
            Self::Superseded => "superseded",
            Self::Late => "late",
        }
    }

    /// Whether others find more free than before.
    pub(crate) fn is_gain(self) -> bool {
        match self {
            // What was kept is now taken.
            Self::Used => false,
            Self::StartedElsewhere
            | Self::Left
            | Self::Changed
            | Self::Node
            | Self::Superseded
            | Self::Late => true,
        }
    }
}

impl fmt::Display for Earmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {} for {}", self.needs(), self.node, self.job)
    }
}

/// Who asks for units, and by when it has given them back if it gets them now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asks {
    pub(crate) holder: Holder,
    pub(crate) returns_by: Mono,
}

/// All earmarks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Earmarks {
    all: BTreeMap<Rank, Earmark>,
    of: BTreeMap<Holder, Rank>,
    on: BTreeMap<NodeName, BTreeSet<Rank>>,
    fleet: BTreeMap<SlotName, BTreeSet<Rank>>,
    /// Something became available since placement last looked: it looks again at once.
    news: bool,
}

impl Earmarks {
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// All, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Earmark> {
        self.all.values()
    }

    pub(crate) fn of(&self, holder: Holder) -> Option<&Earmark> {
        self.of.get(&holder).and_then(|rank| self.all.get(rank))
    }

    /// Keeps units. A holder has one earmark: an earlier one of its own goes.
    pub(crate) fn insert(&mut self, earmark: Earmark) {
        self.remove(earmark.holder);
        let rank = earmark.rank;
        self.of.insert(earmark.holder, rank);
        self.on.entry(earmark.node.clone()).or_default().insert(rank);
        for (slot, _) in earmark.units.fleet.iter() {
            self.fleet.entry(slot.clone()).or_default().insert(rank);
        }
        self.all.insert(rank, earmark);
    }

    pub(crate) fn remove(&mut self, holder: Holder) -> Option<Earmark> {
        let rank = self.of.remove(&holder)?;
        let earmark = self.all.remove(&rank)?;
        forget(&mut self.on, &earmark.node, rank);
        for (slot, _) in earmark.units.fleet.iter() {
            forget(&mut self.fleet, slot, rank);
        }
        Some(earmark)
    }

    /// The first of these slots of which too little is left beside what is kept for others, and for whom it is kept.
    /// `node`: they are that node's, else the fleet's; `free`: the units that nobody holds.
    pub(crate) fn short(
        &self,
        asks: &Asks,
        node: Option<&NodeName>,
        needs: &Needs,
        free: impl Fn(&SlotName) -> u32,
    ) -> Option<(SlotName, JobId)> {
        if self.is_empty() || node.is_some_and(|node| !self.on.contains_key(node)) {
            return None;
        }
        needs.iter().find_map(|(slot, amount)| {
            let (kept, job) = self.kept(asks, node, slot)?;
            (free(slot).saturating_sub(kept) < amount).then(|| (slot.clone(), job))
        })
    }

    /// How much of a slot is kept for others than who asks, and for whom first. What is kept for somebody younger than
    /// its own earmark is not, nor what it would give back in time.
    fn kept(&self, asks: &Asks, node: Option<&NodeName>, slot: &SlotName) -> Option<(u32, JobId)> {
        let ranks = match node {
            Some(node) => self.on.get(node),
            None => self.fleet.get(slot),
        };
        let own = self.of.get(&asks.holder);
        let mut kept: Option<(u32, JobId)> = None;
        for rank in ranks?.iter().take_while(|rank| own.is_none_or(|own| *rank < own)) {
            let Some(earmark) = self.all.get(rank) else { continue };
            let units = if node.is_some() { &earmark.units.node } else { &earmark.units.fleet };
            let amount = units.amount(slot);
            if amount > 0 && asks.returns_by > earmark.by {
                let (sum, first) = kept.unwrap_or((0, earmark.job));
                kept = Some((sum.saturating_add(amount), first));
            }
        }
        kept
    }

    /// Placement is to look again.
    pub(crate) fn tell(&mut self) {
        self.news = true;
    }

    /// Whether placement is to look again.
    pub(crate) fn has_news(&self) -> bool {
        self.news
    }

    /// The same, asked once: it looks.
    pub(crate) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }

    /// Whether each index names exactly what there is.
    pub(crate) fn is_consistent(&self) -> bool {
        let mut again = Self { news: self.news, ..Self::default() };
        self.all.values().for_each(|earmark| again.insert(earmark.clone()));
        again.of == self.of
            && again.on == self.on
            && again.fleet == self.fleet
            && self.all.iter().all(|(rank, earmark)| *rank == earmark.rank)
    }
}

fn forget<K: Ord>(index: &mut BTreeMap<K, BTreeSet<Rank>>, key: &K, rank: Rank) {
    if let Some(ranks) = index.get_mut(key) {
        ranks.remove(&rank);
        if ranks.is_empty() {
            index.remove(key);
        }
    }
}

impl State {
    /// What a class asks: all of its jobs, granted now, have given back what they take by then.
    pub(crate) fn asks(&self, now: Now, id: ClassId, class: &Class) -> Asks {
        let policy = self.kinds.get(&class.key.kind).map(|kind| &kind.kind.policy);
        let returns_by = policy.map_or(Mono(u64::MAX), |policy| {
            let limit = class.key.within.unwrap_or(policy.hard_time_limit).min(policy.hard_time_limit);
            returns_by(now.mono.after(start_window(policy.lease)), limit)
        });
        Asks { holder: Holder::Class(id), returns_by }
    }

    /// By when a job that is granted at `at` has given back what it takes.
    pub(crate) fn would_return_by(&self, at: Mono, job: &Job) -> Mono {
        let Some(kind) = self.kinds.get(&job.kind) else { return Mono(u64::MAX) };
        let policy = &kind.kind.policy;
        returns_by(at.after(start_window(policy.lease)), hard_time_limit(job, policy))
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn slot() -> SlotName {
        SlotName::new("gpu")
    }

    fn earmark(holder: Holder, lane: u8, sequence: u64, units: u32) -> Earmark {
        Earmark {
            holder,
            job: JobId(Uuid::from_u128(u128::from(sequence))),
            rank: Rank { lane, band: 2, sequence: Sequence(sequence) },
            node: NodeName::new("n1"),
            units: Reservation { node: Needs::new([(slot(), units)]), ..Reservation::default() },
            by: Mono(100),
            since: Mono(0),
            until: Mono(200),
        }
    }

    /// How much is kept from whom.
    fn kept(all: &Earmarks, holder: Holder, returns_by: u64) -> u32 {
        let asks = Asks { holder, returns_by: Mono(returns_by) };
        all.kept(&asks, Some(&NodeName::new("n1")), &slot()).map_or(0, |(units, _)| units)
    }

    #[test]
    fn the_older_finds_what_the_younger_is_kept_and_nobody_else_does() {
        let (old, young, other) = (Holder::Class(ClassId(7)), Holder::Class(ClassId(3)), ClassId(9));
        let mut all = Earmarks::default();
        all.insert(earmark(young, 1, 2, 4));
        all.insert(earmark(old, 1, 1, 2));
        assert_eq!((kept(&all, old, 101), kept(&all, young, 101)), (0, 2));
        assert_eq!(kept(&all, Holder::Class(other), 101), 6);
        assert_eq!(kept(&all, Holder::Class(other), 100), 0, "it has given all back in time");
        let parked = Holder::Lease(FencingToken(5));
        all.insert(earmark(parked, 0, 3, 1));
        assert_eq!((kept(&all, parked, 101), kept(&all, old, 101), kept(&all, young, 101)), (0, 1, 3));
        assert!(all.is_consistent());
    }

    #[test]
    fn a_holder_has_one_earmark_and_none_is_left_of_the_one_before() {
        let holder = Holder::Class(ClassId(1));
        let mut all = Earmarks::default();
        all.insert(earmark(holder, 1, 1, 2));
        all.insert(Earmark { node: NodeName::new("n2"), ..earmark(holder, 1, 1, 2) });
        assert_eq!(all.iter().count(), 1);
        assert_eq!(kept(&all, Holder::Class(ClassId(2)), 101), 0, "n1 is free of it");
        assert!(all.is_consistent());
        all.remove(holder);
        assert!(all.is_empty() && all.is_consistent() && all.on.is_empty());
    }
}
