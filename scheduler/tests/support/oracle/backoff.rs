//! Back-off of nodes, from the rules of `docs/placement.md`: three jobs of a kind that fail on a node one after the other
//! keep it from the kind for 10 s, each further one for twice as long, up to 10 min; then one job is tried at a time.

use std::collections::BTreeMap;

use tenure_scheduler::{
    AttemptEnd, Durable, Event, FencingToken, JobId, KindName, Lease, Mono, NodeName, Outcome,
};

#[derive(Debug, Clone, Default)]
struct Failures {
    jobs: Vec<JobId>,
    at: Mono,
    since: FencingToken,
    until: Mono,
}

impl Failures {
    fn counted(&self, now: Mono) -> usize {
        let mut counted = self.jobs.len();
        for _ in 0..(now.0 - self.at.0) / 1_800_000_000 {
            counted /= 2;
        }
        counted
    }

    fn wait(&self, now: Mono) -> Option<Mono> {
        let seconds = match self.counted(now) {
            0..3 => return None,
            3 => 10,
            4 => 20,
            5 => 40,
            6 => 80,
            7 => 160,
            8 => 320,
            _ => 600,
        };
        Some(Mono(now.0 + seconds * 1_000_000))
    }
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub(super) struct Backoffs {
    known: BTreeMap<(NodeName, KindName), Failures>,
    newest: FencingToken,
    /// Where each execution runs, and of which kind.
    places: BTreeMap<FencingToken, (NodeName, KindName)>,
    /// The execution that ended last.
    ended: Option<AttemptEnd>,
}

impl Backoffs {
    /// What a new leader finds: no failures.
    pub(super) fn found(rows: &Durable) -> Self {
        let places =
            rows.leases.values().map(|lease| (lease.token, (lease.node.clone(), lease.kind.clone())));
        Self { places: places.collect(), ..Self::default() }
    }

    pub(super) fn observe(&mut self, now: Mono, event: &Event) {
        if let Event::Granted { lease, .. } = event {
            self.newest = self.newest.max(lease.token);
            let place = (lease.node.clone(), lease.kind.clone());
            self.places.insert(lease.token, place.clone());
            if let Some(failures) = self.known.get_mut(&place)
                && let Some(until) = failures.wait(now)
            {
                assert!(failures.until <= now, "{} got a grant of {} and backs off", lease.node, lease.kind);
                failures.until = until;
            }
        } else if let Event::AttemptEnded(end) | Event::LossReplaced(end) = event {
            self.ended = Some((**end).clone());
            if let (Outcome::Succeeded, Some(place)) = (end.outcome, self.places.get(&end.token)) {
                self.known.remove(place);
            }
        } else if let Event::Struck { node, kind, job, until } = event {
            let end = self.ended.take().expect("something ended");
            assert!(
                matches!(end.outcome, Outcome::Failed | Outcome::TimedOut | Outcome::Stalled | Outcome::Lost),
                "{end:?}"
            );
            let place = (node.clone(), kind.clone());
            let ran = self.places.get(&end.token).unwrap_or(&place);
            assert!(end.job == *job && *ran == place, "{end:?} at {ran:?} does not tell of {place:?}");
            let newest = self.newest;
            let failures = self.known.entry(place).or_default();
            assert!(end.token > failures.since, "{end:?} was granted before the wait began");
            let counted = failures.counted(now);
            failures.jobs.drain(..failures.jobs.len() - counted);
            failures.jobs.retain(|known| known != job);
            failures.jobs.push(*job);
            failures.jobs.drain(..failures.jobs.len().saturating_sub(9));
            failures.at = now;
            let wait = failures.wait(now);
            assert_eq!(wait, *until, "{node} for {kind} after {failures:?}");
            if let Some(until) = wait {
                (failures.until, failures.since) = (until, newest);
            }
        } else if let Event::BackoffOver { node, kind, forgotten: true } = event {
            self.known.remove(&(node.clone(), kind.clone()));
        } else if let Event::NodeForgotten(gone) = event {
            self.known.retain(|(node, _), _| node != gone);
        } else if let Event::KindRemoved(gone) = event {
            self.known.retain(|(_, kind), _| kind != gone);
        } else if let Event::KindPut(put) = event
            && !put.policy.node_backoff
        {
            self.known.retain(|(_, kind), _| *kind != put.name);
        }
    }

    /// As it was before this grant.
    pub(super) fn take_back(&mut self, lease: &Lease) {
        if let Some(failures) = self.known.get_mut(&(lease.node.clone(), lease.kind.clone())) {
            failures.until = Mono(0);
        }
    }

    pub(super) fn keeps(&self, now: Mono, node: &NodeName, kind: &KindName) -> bool {
        self.known.get(&(node.clone(), kind.clone())).is_some_and(|failures| failures.until > now)
    }
}
