//! What the oracle says of parents whose process stays: what they keep, what they want back, and who comes first.

use std::{cmp::Reverse, collections::BTreeMap};

use tenure_scheduler::{Durable, JobState, Lease, Needs, NodeName, Parked, Scope, SlotName};

use super::{Oracle, Used, lines::has_its_key, needs_of, waits::is_over};

/// A place where units are counted: on a node, or in the fleet.
type Place = (Option<NodeName>, SlotName);

fn parked(rows: &Durable) -> impl Iterator<Item = (&Lease, &Parked)> {
    rows.leases.values().filter_map(|lease| Some((lease, lease.waits()?)))
}

fn places(node: &NodeName, of_node: &Needs, of_fleet: &Needs) -> Vec<(Place, u64)> {
    let part = |needs: &Needs, node: Option<NodeName>| -> Vec<(Place, u64)> {
        needs.iter().map(|(slot, n)| ((node.clone(), slot.clone()), u64::from(n))).collect()
    };
    [part(of_node, Some(node.clone())), part(of_fleet, None)].concat()
}

impl Oracle {
    /// At rest parked leases leave enough of every slot that they keep for the largest need of it, and nobody who finds
    /// what it gave is still parked.
    pub(super) fn at_rest_with_parked(&self, rows: &Durable) {
        self.keep_within_bounds(rows);
        self.no_key_is_in_its_own_way(rows);
        let mut wanting: Vec<(&Lease, &Parked)> =
            parked(rows).filter(|(lease, _)| self.wants(rows, lease)).collect();
        wanting.sort_by_key(|(lease, _)| {
            let job = &rows.jobs[&lease.job];
            (Reverse(job.depth), job.sequence)
        });
        let used = Used::of(rows, rows.leases.values());
        let mut kept: BTreeMap<Place, u64> = BTreeMap::new();
        for (lease, parked) in wanting {
            let all = places(&lease.node, &parked.yielded.node, &parked.yielded.fleet);
            let fits = all.iter().all(|(place, amount)| {
                let kept = kept.get(place).copied().unwrap_or(0);
                self.left(rows, &used, place).is_some_and(|left| left >= kept + amount)
            });
            assert!(!fits, "{} finds all that it gave, and is still parked", lease.job);
            for (place, amount) in all {
                *kept.entry(place).or_default() += amount;
            }
        }
    }

    /// No job whose ancestor is parked waits for a key that only those hold who wait for their children.
    fn no_key_is_in_its_own_way(&self, rows: &Durable) {
        for job in self.candidates(rows).filter(|job| !has_its_key(rows, job)) {
            let holds = |lease: &&Lease| {
                (&lease.tenant, &lease.kind, &lease.concurrency_key)
                    == (&job.tenant, &job.kind, &job.concurrency_key)
            };
            let gets_on = |lease: &Lease| {
                let aside = self.broken.contains(&lease.job) || self.revoked.contains(&lease.token);
                lease.waits().is_none() || self.wants(rows, lease) || aside
            };
            if rows.leases.values().filter(holds).any(gets_on) {
                continue;
            }
            let mut below = job;
            while let Some(above) = below.parent.and_then(|id| rows.jobs.get(&id)) {
                let stays = parked(rows).find(|(lease, _)| lease.job == above.id);
                let detached = above.detached.as_ref().filter(|_| above.state.name() == "waiting");
                let wait = stays.map(|(_, parked)| &parked.wait).or(detached.map(|detached| &detached.wait));
                let named = wait.into_iter().flat_map(|wait| &wait.children);
                if !named.into_iter().any(|child| child.job == below.id && child.end.is_none()) {
                    break;
                }
                assert!(stays.is_none(), "{} waits for a key, and {} for it", job.id, above.id);
                below = above;
            }
        }
    }

    /// Whether a wait is over by what is known, and nothing else keeps it parked.
    fn wants(&self, rows: &Durable, lease: &Lease) -> bool {
        let over = lease.waits().is_some_and(|parked| is_over(&parked.wait, rows));
        let wants = over || self.wants.contains(&lease.token);
        wants && !self.broken.contains(&lease.job) && !self.revoked.contains(&lease.token)
    }

    /// What is left of a slot; none: nobody may take of it now.
    fn left(&self, rows: &Durable, used: &Used, (node, slot): &Place) -> Option<u64> {
        let declared = rows.slots.get(slot)?;
        if declared.paused.is_some() || declared.throttled_until.is_some() {
            return None;
        }
        let Some(name) = node else {
            let Scope::Fleet { capacity } = declared.scope else { return None };
            return Some(u64::from(capacity).saturating_sub(used.fleet(slot)));
        };
        let capacity = rows.nodes.get(name)?.slots.get(slot)?.units;
        let cap = self.sessions.get(name).and_then(|session| session.pressure.caps.get(slot).copied());
        let capacity = cap.map_or(capacity, |cap| cap.min(capacity));
        Some(u64::from(capacity).saturating_sub(used.node(name, slot)))
    }

    fn keep_within_bounds(&self, rows: &Durable) {
        let mut kept: BTreeMap<Place, u64> = BTreeMap::new();
        for (lease, _) in parked(rows) {
            for (place, amount) in places(&lease.node, &lease.reservation.node, &lease.reservation.fleet) {
                *kept.entry(place).or_default() += amount;
            }
        }
        for ((node, slot), kept) in kept {
            let capacity = match &node {
                Some(name) => {
                    rows.nodes.get(name).and_then(|node| node.slots.get(&slot)).map_or(0, |c| c.units)
                }
                None => match rows.slots.get(&slot).map(|slot| slot.scope) {
                    Some(Scope::Fleet { capacity }) => capacity,
                    Some(Scope::Node) | None => 0,
                },
            };
            let queued = rows.jobs.values().filter(|job| matches!(job.state, JobState::Queued { .. }));
            let of_jobs = queued.map(|job| needs_of(job, &rows.kinds[&job.kind]).amount(&slot));
            let of_kinds = rows.kinds.values().map(|kind| kind.policy.needs.amount(&slot));
            let largest = of_jobs.chain(of_kinds).max().unwrap_or(0);
            assert!(
                kept + u64::from(largest) <= u64::from(capacity),
                "parked leases keep {kept} of {slot} on {node:?}: of {capacity} somebody needs {largest}"
            );
        }
    }
}
