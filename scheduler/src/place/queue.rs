//! The queue of one class: its queued jobs by priority, then by the order of their enqueues.

use std::{cmp::Reverse, collections::BTreeSet};

use uuid::Uuid;

use crate::{
    ids::{JobId, Sequence},
    job::Job,
};

/// Where a job stands in its queue: higher priority first, then the older enqueue.
pub(crate) type Place = (Reverse<i8>, Sequence, JobId);

/// The place of a job in the queue of its class.
pub(crate) fn place_of(job: &Job) -> Place {
    (Reverse(job.priority), job.sequence, job.id)
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Queue {
    all: BTreeSet<Place>,
}

impl Queue {
    pub(crate) fn insert(&mut self, job: &Job) {
        self.all.insert(place_of(job));
    }

    pub(crate) fn remove(&mut self, job: &Job) {
        self.all.remove(&place_of(job));
    }

    pub(crate) fn contains(&self, job: &Job) -> bool {
        self.all.contains(&place_of(job))
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// All of them, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = JobId> {
        self.all.iter().map(|(_, _, job)| *job)
    }

    /// Those that stand before a job, in order.
    pub(crate) fn before(&self, job: &Job) -> impl Iterator<Item = JobId> {
        self.all.range(..place_of(job)).map(|(_, _, job)| *job)
    }

    /// The first of each priority in use, the highest priority first.
    pub(crate) fn heads(&self) -> impl Iterator<Item = Place> {
        std::iter::successors(self.all.first().copied(), |(Reverse(priority), _, _)| {
            let lower = priority.checked_sub(1)?;
            self.all.range((Reverse(lower), Sequence::default(), JobId(Uuid::nil()))..).next().copied()
        })
    }
}
