//! Which of the nodes that have room for a job is the best. Nothing here decides whether it may start there.

use crate::{
    job::{Job, Outcome},
    kind::Placement,
    place::{classes::Class, index::Worth, preference::Preference},
    retry::hash,
    state::{NodeEntry, State},
};

/// What a node is worth to a job, the first that differs first. Lower is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Score {
    /// The job just failed there.
    failed_here: bool,
    /// What it would rather have and the node has not.
    unmet: u32,
    /// How rare what it has free and the job does not need is: shell jobs stay off the host with the GPU.
    rare: u32,
    /// The strain that the node says it is under, 1 to 3.
    weight: u8,
    /// To pack: thousandths of the needed slots that would be left. To spread: those that would be used.
    room: u32,
    /// To spread: what runs there.
    leases: usize,
    /// Ties are spread by a hash of both.
    tie: u64,
}

/// Scores nodes for the head of one class.
pub(crate) struct Scorer<'a> {
    state: &'a State,
    class: &'a Class,
    job: &'a Job,
    placement: Placement,
    failed_on: Option<u32>,
    pub(super) preference: Preference<'a>,
}

impl<'a> Scorer<'a> {
    pub(crate) fn new(state: &'a State, class: &'a Class, job: &'a Job) -> Self {
        let placement = state.kinds.get(&job.kind).map(|entry| entry.kind.policy.placement);
        let failed = matches!(
            job.last_outcome,
            Some(Outcome::Failed | Outcome::TimedOut | Outcome::Stalled | Outcome::Lost)
        );
        let failed_on = job.last_node.as_ref().filter(|_| failed);
        Self {
            state,
            class,
            job,
            placement: placement.unwrap_or(Placement::Pack),
            failed_on: failed_on.and_then(|node| state.nodes.handle(node)),
            preference: Preference::of(state, job),
        }
    }

    /// What a node is worth that may have room for the job.
    pub(crate) fn score(&self, handle: u32, node: &NodeEntry) -> Score {
        let Worth { rare, weight, left, number } = self.state.index.worth(self.class, handle);
        let (room, leases) = match self.placement {
            Placement::Pack => (left, 0),
            // With less left of what it needs, more is used.
            Placement::Spread => (u32::MAX - left, node.leases.len()),
        };
        Score {
            failed_here: self.failed_on == Some(handle),
            unmet: self.preference.unmet(&node.node),
            rare,
            weight,
            room,
            leases,
            tie: hash(self.job.id, number),
        }
    }
}
