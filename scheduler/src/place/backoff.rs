//! Back-off of a node for a kind: a node on which jobs of a kind fail one after the other is not offered that kind for a
//! while, so that a broken node does not eat all of its jobs because it is always the first that is free again.
//!
//! Counted are jobs, not failures: that one job fails again and again says something of the job. What was granted before
//! a wait began does not prolong it. After a wait one job at a time is tried, each followed by the same wait, until one
//! of them succeeds, which ends it all. Nothing of this is stored: a new leader begins anew.

use std::time::Duration;

use crate::{
    event::Event,
    ids::{FencingToken, JobId, KindName, NodeName},
    job::Outcome,
    lease::Lease,
    state::{Due, State},
    step::Step,
    time::{Mono, Now},
    view::BackoffView,
};

/// From so many jobs on that failed, none between having succeeded, a node backs off.
const STRIKES: usize = 3;
/// The first wait. It doubles with each further job.
const FIRST: Duration = Duration::from_secs(10);
/// The longest wait.
const LONGEST: Duration = Duration::from_secs(600);
/// The most jobs that count: with so many the wait is the longest.
const MOST: usize = STRIKES + 6;
/// The count halves in this time without a failure.
const HALVES: Duration = Duration::from_secs(30 * 60);

/// Jobs of one kind that failed on one node, one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Backoff {
    /// Each once, the newest last.
    jobs: Vec<JobId>,
    /// When the newest failed.
    at: Mono,
    /// The newest token when the last failure began a wait: what was granted until then tells nothing new.
    since: FencingToken,
    /// The node is not offered the kind before this.
    until: Option<Mono>,
}

impl Backoff {
    /// How many jobs count now.
    fn count(&self, now: Mono) -> usize {
        let halvings = now.since(self.at).as_secs() / HALVES.as_secs();
        u32::try_from(halvings).ok().and_then(|halvings| self.jobs.len().checked_shr(halvings)).unwrap_or(0)
    }

    /// Until when a wait would be that begins now; none: too few count.
    fn wait(&self, now: Mono) -> Option<Mono> {
        let further = u32::try_from(self.count(now).checked_sub(STRIKES)?).ok()?;
        let factor = 1_u32.checked_shl(further).unwrap_or(u32::MAX);
        Some(now.after(FIRST.saturating_mul(factor).min(LONGEST)))
    }

    fn strike(&mut self, job: JobId, now: Mono) {
        let forgotten = self.jobs.len() - self.count(now);
        self.jobs.drain(..forgotten);
        self.jobs.retain(|known| *known != job);
        self.jobs.push(job);
        if self.jobs.len() > MOST {
            self.jobs.remove(0);
        }
        self.at = now;
    }

    /// For who asks about the node; none: it is offered the kind.
    pub(crate) fn view(&self, kind: &KindName, now: Now) -> Option<BackoffView> {
        let until = self.until.filter(|until| *until > now.mono)?;
        let failed = u32::try_from(self.count(now.mono)).unwrap_or(u32::MAX);
        Some(BackoffView { kind: kind.clone(), failed, until: now.wall.after(until.since(now.mono)) })
    }

    /// Until when the node is not offered the kind. Its end is an event, so that whoever waits for it is woken by it.
    pub(crate) fn until(&self) -> Option<Mono> {
        self.until
    }
}

impl State {
    pub(crate) fn backoff(&self, node: &NodeName, kind: &KindName) -> Option<&Backoff> {
        self.nodes.get(node)?.backoffs.get(kind)
    }

    /// A job failed where nothing else explains it.
    pub(crate) fn struck(
        &mut self,
        (node, kind): (&NodeName, &KindName),
        job: JobId,
        until: Option<Mono>,
        now: Now,
    ) {
        let newest = FencingToken::mint(self.epoch, self.grants);
        let Some(entry) = self.nodes.get_mut(node) else { return };
        let backoff = entry.backoffs.entry(kind.clone()).or_default();
        backoff.strike(job, now.mono);
        let Some(until) = until else { return };
        (backoff.until, backoff.since) = (Some(until), newest);
        self.timers.at(until, Due::Backoff(node.clone(), kind.clone()));
        self.gained.insert(node.clone()); // Whoever waits for it waits for another reason now.
    }

    /// One job is tried after a wait: the next one only after as long again.
    pub(crate) fn tried_after_backoff(&mut self, lease: &Lease, now: Now) {
        let Some(entry) = self.nodes.get_mut(&lease.node) else { return };
        let Some(backoff) = entry.backoffs.get_mut(&lease.kind) else { return };
        let Some(until) = backoff.wait(now.mono) else { return };
        backoff.until = Some(until);
        self.timers.at(until, Due::Backoff(lease.node.clone(), lease.kind.clone()));
    }

    /// A wait is over, or with `forgotten` everything that led to it.
    pub(crate) fn backoff_over(&mut self, node: &NodeName, kind: &KindName, forgotten: bool) {
        let Some(entry) = self.nodes.get_mut(node) else { return };
        let waited = match entry.backoffs.get_mut(kind) {
            Some(backoff) if !forgotten => backoff.until.take().is_some(),
            Some(_) => entry.backoffs.remove(kind).is_some_and(|backoff| backoff.until.is_some()),
            None => false,
        };
        if waited {
            self.gained.insert(node.clone());
        }
    }
}

impl Step<'_> {
    /// What the end of an execution says of its node. A job that failed for good, or that asks for a later attempt itself,
    /// blames its payload or somebody else.
    pub(crate) fn judge_node(
        &mut self,
        (node, kind): (&NodeName, &KindName),
        (job, token): (JobId, FencingToken),
        outcome: Outcome,
        asks_for_later: bool,
    ) {
        let known = self.state.backoff(node, kind);
        match outcome {
            Outcome::Succeeded | Outcome::Detached if known.is_some() => {
                self.emit(Event::BackoffOver { node: node.clone(), kind: kind.clone(), forgotten: true });
            }
            Outcome::Failed | Outcome::TimedOut | Outcome::Stalled | Outcome::Lost if !asks_for_later => {
                let enabled = self.state.kinds.get(kind).is_some_and(|entry| entry.kind.policy.node_backoff);
                if !enabled || known.is_some_and(|known| token <= known.since) {
                    return;
                }
                let mut backoff = known.cloned().unwrap_or_default();
                backoff.strike(job, self.now.mono);
                let until = backoff.wait(self.now.mono);
                self.emit(Event::Struck { node: node.clone(), kind: kind.clone(), job, until });
            }
            Outcome::Succeeded
            | Outcome::Detached
            | Outcome::Failed
            | Outcome::TimedOut
            | Outcome::Stalled
            | Outcome::Lost
            | Outcome::FailedPermanent
            | Outcome::Returned
            | Outcome::Cancelled => {}
        }
    }

    /// A wait may be over.
    pub(crate) fn due_backoff(&mut self, node: NodeName, kind: KindName) {
        let due = |until: Mono| until <= self.now.mono; // The timer of a later one is still set.
        if self.state.backoff(&node, &kind).and_then(|backoff| backoff.until).is_some_and(due) {
            self.emit(Event::BackoffOver { node, kind, forgotten: false });
        }
    }

    /// An operator vouches for a node. True: there was something to forget.
    pub(crate) fn forget_backoffs(&mut self, node: &NodeName) -> bool {
        let known = self.state.nodes.get(node).map(|entry| entry.backoffs.keys().cloned());
        let kinds: Vec<KindName> = known.into_iter().flatten().collect();
        let any = !kinds.is_empty();
        for kind in kinds {
            self.emit(Event::BackoffOver { node: node.clone(), kind, forgotten: true });
        }
        any
    }
}
