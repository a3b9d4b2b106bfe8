//! Placement: which class next, on which node. Two directions of decision share one fit function (`place/fit.rs`):
//!
//! * *class-driven*: the class was not tried yet, or its fleet slots were short: every node is looked at;
//! * *node-driven*: no node had room when the class was last tried: only nodes that gained since are looked at.
//!
//! A class that failed for the fleet is skipped until one of its fleet slots gained, one that failed for the nodes
//! until a node gained. A class that meets a dry fleet slot before it has looked at a node that gained fails for the
//! fleet from then on, and will look at every node. There are no wait lists by reason: a class that failed for a node
//! slot, then for a dry fleet slot, would stand on the wrong one, and its wake-up would be lost.

pub(crate) mod classes;
pub(crate) mod fit;
pub(crate) mod order;
pub(crate) mod queue;
pub(crate) mod timeline;

use std::{collections::BTreeSet, time::Duration};

pub use self::classes::ClassId;
use crate::{
    deferral::Deferral,
    effect::{Grant, Message},
    event::Event,
    ids::{JobId, NodeName},
    job::{Job, Wait},
    kind::KindPolicy,
    lease::{Lease, Stage, first_lease, start_window},
    place::{
        classes::{Class, Failed},
        order::Line,
        timeline::merge,
    },
    slots::Reservation,
    state::{JobEntry, Stand, State},
    step::Step,
    time::Now,
};

/// A new leader calls nothing impossible before this.
pub(crate) const WARM_UP: Duration = Duration::from_secs(30);

/// Class timelines that changed are saved this often.
pub(crate) const SAVE_EVERY: Duration = Duration::from_secs(1);

/// Places what can be placed. True: the budget of the tick was spent, and there may be more.
pub(crate) fn place(step: &mut Step<'_>) -> bool {
    let gained = std::mem::take(&mut step.state.gained);
    let mut line = candidates(step.state, step.now, &gained);
    let mut budget = step.state.limits.placements_per_tick;
    while let Some(turn) = line.next(step, |step, class, job| fits(step, class, job, &gained)) {
        if budget == 0 {
            step.state.gained.extend(gained);
            return true;
        }
        // Whatever its timer did: what is stale does not start.
        if !step.due_stale(turn.job) {
            grant(step, turn.job, &turn.node);
        }
        budget -= 1;
        line.took(step.state, step.now, &turn);
    }
    false
}

/// Where the head of a class fits; if nowhere, that it does not is noted.
fn fits(step: &mut Step<'_>, class: ClassId, job: JobId, gained: &BTreeSet<NodeName>) -> Option<NodeName> {
    match choose(step.state, step.now, class, job, gained) {
        Choice::Place(node) => return Some(node),
        Choice::Defer(reason) => step.emit(Event::Deferred { class, job, reason }),
        Choice::Leave => {}
    }
    None
}

/// All classes that are worth a look.
fn candidates(state: &State, now: Now, gained: &BTreeSet<NodeName>) -> Line {
    let worth = |class: &Class| match &class.failed {
        None => true,
        Some(failed) if failed.reason.is_of_fleet() => failed.gains != gains(state, class),
        Some(_) => !gained.is_empty(),
    };
    let mut line = Line::default();
    let all = state.classes.iter().filter(|(_, class)| worth(class));
    all.for_each(|(id, _)| line.join(state, now, id));
    line
}

/// The sum of the gain epochs of the fleet slots of a class.
fn gains(state: &State, class: &Class) -> u64 {
    class.fleet.iter().map(|(slot, _)| state.gains.get(slot).copied().unwrap_or(0)).sum()
}

enum Choice {
    /// The head fits there.
    Place(NodeName),
    /// It fits nowhere, for this reason.
    Defer(Deferral),
    /// It fits nowhere, and the reason known is still the reason.
    Leave,
}

fn choose(state: &State, now: Now, id: ClassId, head: JobId, gained: &BTreeSet<NodeName>) -> Choice {
    let Some(class) = state.classes.get(id) else { return Choice::Leave };
    let Some(entry) = state.jobs.get(&head) else { return Choice::Leave };
    if let Err(reason) = fit::of_fleet(state, class) {
        return Choice::Defer(reason);
    }
    let known = class.failed.as_ref().map(|failed| &failed.reason).filter(|reason| !reason.is_of_fleet());
    let Some(known) = known else {
        return match fit::best(state, now, id, class, &entry.job, state.nodes.keys()) {
            Some(node) => Choice::Place(node),
            None => Choice::Defer(fit::why_not(state, now, id, class)),
        };
    };
    match fit::best(state, now, id, class, &entry.job, gained.iter()) {
        Some(node) => Choice::Place(node),
        None if fit::tells_more(state, now, id, class, gained, known) => {
            Choice::Defer(fit::why_not(state, now, id, class))
        }
        None => Choice::Leave,
    }
}

fn grant(step: &mut Step<'_>, id: JobId, node: &NodeName) {
    let Some(entry) = step.state.jobs.get(&id) else { return };
    let Some(kind) = step.state.kinds.get(&entry.job.kind) else { return };
    let Stand::Class(class) = entry.stand else { return };
    let Some(class) = step.state.classes.get(class) else { return };
    let (job, policy) = (&entry.job, &kind.kind.policy);
    let lease = Lease {
        token: step.state.next_token(),
        job: id,
        kind: job.kind.clone(),
        tenant: job.tenant.clone(),
        node: node.clone(),
        length: policy.lease,
        reservation: Reservation { node: class.node.clone(), fleet: class.fleet.clone() },
        attempt: job.attempt(),
        round: job.round,
        granted_at: step.now.wall,
        stage: Stage::Granted,
        orphaned: false,
    };
    let waits = step.state.waits(id, step.now).unwrap_or_default();
    let grant = grant_message(job, policy, &lease, step.now);
    step.emit(Event::Granted { lease: Box::new(lease), waits });
    step.send(node, Message::Grant(Box::new(grant)));
    step.notify(id);
}

fn grant_message(job: &Job, policy: &KindPolicy, lease: &Lease, now: Now) -> Grant {
    let stale_at = job.stale_at.filter(|_| job.may_expire());
    Grant {
        job: job.id,
        token: lease.token,
        kind: job.kind.clone(),
        tenant: job.tenant.clone(),
        attempt: lease.attempt,
        lease: lease.length,
        first_lease: first_lease(lease.length),
        start_window: start_window(lease.length),
        hard_time_limit: hard_time_limit(job, policy),
        stale_in: stale_at.map(|at| at.since(now.wall)),
        slots: lease.reservation.node.clone(),
        idempotency_key: job.idempotency_key(),
        parent: job.parent,
        trace: job.trace.clone(),
    }
}

/// The job's own limit may only shorten its kind's.
pub(crate) fn hard_time_limit(job: &Job, policy: &KindPolicy) -> Duration {
    job.hard_time_limit.map_or(policy.hard_time_limit, |own| own.min(policy.hard_time_limit))
}

/// Remembers that a class failed: for the skip, and in its timeline.
pub(crate) fn note_failure(state: &mut State, id: ClassId, reason: &Deferral, now: Now) {
    let Some(gains) = state.classes.get(id).map(|class| gains(state, class)) else { return };
    if let Some(class) = state.classes.get_mut(id) {
        class.failed = Some(Failed { reason: reason.clone(), gains });
        class.timeline.deferred(now, reason);
    }
}

impl State {
    /// What a waiting job waited for, before and up to now; none if it does not wait.
    pub(crate) fn waits(&self, id: JobId, now: Now) -> Option<Vec<Wait>> {
        let entry = self.jobs.get(&id)?;
        let lately = match entry.stand {
            Stand::Class(class) => self.classes.get(class)?.timeline.waits(&entry.joined, now),
            Stand::NotReaped | Stand::Broken => vec![self.hold_wait(entry, now)?],
            Stand::Nowhere if entry.job.state.is_waiting() => {
                vec![one_wait(&entry.waiting_for_time()?, entry, now)]
            }
            Stand::Nowhere => return None,
        };
        Some(merge(entry.job.waits.clone(), lately))
    }

    fn hold_wait(&self, entry: &JobEntry, now: Now) -> Option<Wait> {
        Some(one_wait(&self.hold_reason(entry)?, entry, now))
    }
}

fn one_wait(reason: &Deferral, entry: &JobEntry, now: Now) -> Wait {
    Wait {
        reason: reason.name().into(),
        message: reason.subject().into(),
        count: 1,
        duration: now.mono.since(entry.since.mono),
    }
}
