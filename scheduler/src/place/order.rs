//! The order in which classes are tried: lane, band, the tenant's share, priority, enqueue. Integers, compared in that
//! order; the first is the least.
//!
//! A class stands in this order with one of its jobs, its *head*. Bands rise while a job waits, so each priority in
//! use has a head of its own, and that of the class is the best of them now. Nothing is kept up to date by timers: a
//! band is worked out when it is looked at.

use std::{cmp::Reverse, collections::BTreeSet, time::Duration};

use crate::{
    ids::{JobId, Sequence},
    place::{ClassId, classes::Class, earmarks::Holder},
    state::{JobEntry, State},
    time::Now,
};

/// A job that has waited this long stands one band higher, and another one after as long again.
pub(crate) const BAND_RISES_AFTER: Duration = Duration::from_secs(15 * 60);

/// What comes before everything else. Another lane than the normal one is for those who wait on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// Units are kept for it: see `place/earmarks.rs`.
    Earmarked,
    /// Whatever waits in the queue of its class.
    Normal,
}

/// A class of priorities. Shares of tenants count within it only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Band {
    /// From 50. Waiting leads nobody here.
    Critical,
    /// From 20, and who has waited long enough.
    High,
    /// From −19.
    Normal,
    /// The rest.
    Low,
}

impl Band {
    /// That of a priority whose job has waited for so long since it became queued.
    pub(crate) fn of(priority: i8, waited: Duration) -> Self {
        let rises = waited.as_secs() / BAND_RISES_AFTER.as_secs();
        match priority {
            50.. => Self::Critical,
            20.. => Self::High,
            -19.. if rises >= 1 => Self::High,
            -19.. => Self::Normal,
            _ if rises >= 2 => Self::High,
            _ if rises == 1 => Self::Normal,
            _ => Self::Low,
        }
    }
}

/// Where a class stands now, with the job that it stands there with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    lane: Lane,
    pub(crate) band: Band,
    priority: Reverse<i8>,
    pub(crate) sequence: Sequence,
    /// The head: the job that the class is tried with.
    pub(crate) job: JobId,
}

/// Where a class stands now; none: nothing of it is queued.
pub(crate) fn rank(state: &State, now: Now, id: ClassId, class: &Class) -> Option<Rank> {
    let earmark = state.earmarks.of(Holder::Class(id));
    let lane = if earmark.is_some() { Lane::Earmarked } else { Lane::Normal };
    let mut best: Option<Rank> = None;
    for (priority, sequence, job) in class.queue.heads() {
        // Who waits can rise to the high band at most, and stands behind a higher priority there.
        if best.is_some_and(|best| best.band <= Band::High) {
            break;
        }
        let waited = state.jobs.get(&job).map(|entry| state.waited(entry, now)).unwrap_or_default();
        let band = Band::of(priority.0, waited);
        let rank = Rank { lane, band, priority, sequence, job };
        best = Some(best.map_or(rank, |best| best.min(rank)));
    }
    best
}

/// The classes to be tried in this tick, the first first.
#[derive(Debug, Default)]
pub(crate) struct Line {
    ranked: BTreeSet<(Rank, ClassId)>,
}

impl Line {
    /// A class stands in line, if it has anything to stand there with.
    pub(crate) fn join(&mut self, state: &State, now: Now, id: ClassId) {
        if let Some(rank) = state.classes.get(id).and_then(|class| rank(state, now, id, class)) {
            self.ranked.insert((rank, id));
        }
    }

    /// Takes the first class and its head. What was placed since a class joined may have moved it back, never forward,
    /// so it is enough to look again at the first.
    pub(crate) fn next(&mut self, state: &State, now: Now) -> Option<(ClassId, JobId)> {
        while let Some((then, id)) = self.ranked.pop_first() {
            let Some(rank) = state.classes.get(id).and_then(|class| rank(state, now, id, class)) else {
                continue;
            };
            if rank > then && self.ranked.first().is_some_and(|next| *next < (rank, id)) {
                self.ranked.insert((rank, id));
                continue;
            }
            return Some((id, rank.job));
        }
        None
    }
}

impl State {
    /// For how long a job has waited since it became queued. Under this leader by the clock that nobody sets; before
    /// it, by the wall clock.
    pub(crate) fn waited(&self, entry: &JobEntry, now: Now) -> Duration {
        let loaded = entry.since.mono <= self.began.mono;
        let before = if loaded { self.began.wall.since(entry.since.wall) } else { Duration::ZERO };
        before.saturating_add(now.mono.since(entry.since.mono))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_rise_one_by_one_and_stop_at_high() {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        for (priority, bands) in [
            (100, [Band::Critical; 4]),
            (50, [Band::Critical; 4]),
            (49, [Band::High; 4]),
            (20, [Band::High; 4]),
            (19, [Band::Normal, Band::High, Band::High, Band::High]),
            (-19, [Band::Normal, Band::High, Band::High, Band::High]),
            (-20, [Band::Low, Band::Normal, Band::High, Band::High]),
            (-100, [Band::Low, Band::Normal, Band::High, Band::High]),
        ] {
            let at = [0, 15, 30, 6000].map(|waited| Band::of(priority, minutes(waited)));
            assert_eq!(at, bands, "priority {priority}");
            assert_eq!(Band::of(priority, minutes(15) - Duration::from_micros(1)), bands[0]);
        }
    }
}
