//! Strict order: of a kind with `fifo` the jobs start in the order of their enqueues, over all of its classes. Its first
//! job, blocked, blocks that kind and nothing else.
//!
//! The order is that of the jobs that wait for their slots. One that waits for a time, for its children or for the
//! end of an earlier execution does not stand in it; it takes its old place when it comes back. A first job whose key is at
//! its limit blocks the kind like one whose slots are taken.

use std::cmp::Reverse;

use crate::{
    deferral::Deferral,
    ids::{JobId, KindName},
    job::Job,
    place::{
        ClassId,
        classes::Class,
        queue::{Place, Queue},
    },
    state::{Stand, State},
};

/// The place of a job in the line of its kind.
pub(crate) fn place_in_line(job: &Job) -> Place {
    (Reverse(0), job.sequence, job.id)
}

impl State {
    /// The jobs of a kind in strict order; none: it has none.
    pub(crate) fn line_of(&self, kind: &KindName) -> Option<&Queue> {
        self.kinds.get(kind)?.line.as_ref()
    }

    /// The first of a kind in strict order, and its class.
    pub(crate) fn first_in_line(&self, kind: &KindName) -> Option<(JobId, ClassId)> {
        let (_, _, job) = self.line_of(kind)?.heads().next()?;
        match self.jobs.get(&job)?.stand {
            Stand::Class(class) => Some((job, class)),
            Stand::NotReaped | Stand::Broken | Stand::Nowhere => None,
        }
    }

    /// Why a class does not have the turn of its kind, if that is in strict order.
    pub(crate) fn not_its_turn(&self, class: &Class) -> Option<Deferral> {
        let line = self.line_of(&class.key.kind)?;
        let (_, first) = self.first_in_line(&class.key.kind)?;
        if self.classes.get(first).is_some_and(|first| first.key == class.key) {
            return None;
        }
        let own = class.queue.heads().min_by_key(|(_, sequence, _)| *sequence);
        let jobs = own.map_or(line.len(), |(_, sequence, job)| line.before(&(Reverse(0), sequence, job)));
        Some(Deferral::Behind { jobs: jobs as u64 })
    }

    /// The reason of a job that is not the first in line of its kind, if that is in strict order.
    pub(crate) fn behind_in_line(&self, job: &Job) -> Option<Deferral> {
        let jobs = self.line_of(&job.kind)?.before(&place_in_line(job)) as u64;
        (jobs > 0).then_some(Deferral::Behind { jobs })
    }
}
