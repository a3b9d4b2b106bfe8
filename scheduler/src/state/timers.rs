//! What is due when. An index over the state, not a part of it: an entry that fires too early is put back, one that
//! lost its reason does nothing. The entries of a job are taken out with their reason, since they may be days ahead; the
//! others are due within a lease, a mask or a pause.

use std::collections::BTreeSet;

use crate::{
    ids::{CronName, FencingToken, JobId, KindName, NodeName, SlotName, WorkflowId},
    place::ClassId,
    time::{Mono, Now, Wall},
};

/// What may be due.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    /// A scheduled job is to be queued.
    Scheduled(JobId),
    /// A job that was not started is to expire.
    Stale(JobId),
    /// A parent has waited for its children for long enough.
    Wait(JobId),
    /// A gate of a workflow opens on what is there.
    Gate(WorkflowId, u32),
    /// A parked lease has wanted back for long enough what it gave.
    Reacquire(FencingToken),
    /// A pause of a slot ends.
    SlotPause(SlotName),
    /// A window of the budget of a kind turns.
    Budget(KindName),
    /// A throttle of a slot ends.
    Throttle(SlotName),
    /// The rate of a slot allows what somebody waits for.
    Refill(SlotName),
    /// A lease may be over.
    Lease(FencingToken),
    /// A grant should have been answered.
    Answer(FencingToken),
    /// A node may have been silent for too long.
    Silence(NodeName),
    /// A mask ends.
    Mask(NodeName, ClassId),
    /// The back-off of a node for a kind ends.
    Backoff(NodeName, KindName),
    /// The head of a class may have been blocked for long enough to get an earmark, or has one that is late.
    Reserve(ClassId),
    /// An instant of a cron entry may be due.
    Cron(CronName),
    /// The drain deadline of a node is over.
    Drain(NodeName),
    /// Nodes had time to come back.
    WarmUp,
    /// Class timelines are to be saved.
    SaveTimelines,
}

impl Due {
    fn job(&self) -> Option<JobId> {
        match self {
            Self::Scheduled(job) | Self::Stale(job) | Self::Wait(job) => Some(*job),
            Self::Gate(..)
            | Self::Reacquire(_)
            | Self::SlotPause(_)
            | Self::Budget(_)
            | Self::Throttle(_)
            | Self::Refill(_)
            | Self::Lease(_)
            | Self::Answer(_)
            | Self::Silence(_)
            | Self::Mask(..)
            | Self::Backoff(..)
            | Self::Reserve(_)
            | Self::Cron(_)
            | Self::Drain(_)
            | Self::WarmUp
            | Self::SaveTimelines => None,
        }
    }
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Timers {
    mono: BTreeSet<(Mono, Due)>,
    wall: BTreeSet<(Wall, Due)>,
}

impl Timers {
    pub(crate) fn at(&mut self, when: Mono, due: Due) {
        self.mono.insert((when, due));
    }

    pub(crate) fn at_wall(&mut self, when: Wall, due: Due) {
        self.wall.insert((when, due));
    }

    /// The reason of this entry is gone.
    pub(crate) fn forget(&mut self, when: Mono, due: Due) {
        self.mono.remove(&(when, due));
    }

    /// See [`Timers::forget`].
    pub(crate) fn forget_wall(&mut self, when: Wall, due: Due) {
        self.wall.remove(&(when, due));
    }

    /// The jobs that any entry is about.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = JobId> {
        let all = self.mono.iter().map(|(_, due)| due).chain(self.wall.iter().map(|(_, due)| due));
        all.filter_map(Due::job)
    }

    /// The next thing that is due, taken out.
    pub(crate) fn pop(&mut self, now: Now) -> Option<Due> {
        if self.mono.first().is_some_and(|(when, _)| *when <= now.mono) {
            return self.mono.pop_first().map(|(_, due)| due);
        }
        if self.wall.first().is_some_and(|(when, _)| *when <= now.wall) {
            return self.wall.pop_first().map(|(_, due)| due);
        }
        None
    }

    /// When the next thing is due. A time of the wall clock is taken as that far from now.
    pub(crate) fn next(&self, now: Now) -> Option<Mono> {
        let mono = self.mono.first().map(|(when, _)| *when);
        let wall = self.wall.first().map(|(when, _)| now.mono.after(when.since(now.wall)));
        mono.into_iter().chain(wall).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_fire_in_order() {
        let mut timers = Timers::default();
        timers.at(Mono(20), Due::WarmUp);
        timers.at(Mono(10), Due::SaveTimelines);
        timers.at_wall(Wall(1005), Due::SlotPause(SlotName::new("a")));
        let now = Now { mono: Mono(0), wall: Wall(1000) };
        assert_eq!(timers.next(now), Some(Mono(5)));
        assert_eq!(timers.pop(now), None);
        let later = Now { mono: Mono(10), wall: Wall(1010) };
        assert_eq!(timers.pop(later), Some(Due::SaveTimelines));
        assert_eq!(timers.pop(later), Some(Due::SlotPause(SlotName::new("a"))));
        assert_eq!(timers.pop(later), None);
    }
}
