//! Why not yet, as data: what a job waits for, slot by slot and node by node, by the same fit function that places.

use std::collections::BTreeMap;

use crate::{
    deferral::Deferral,
    ids::{JobId, NodeName, SlotName},
    job::Job,
    place::{
        ClassId,
        classes::{Class, ClassKey},
        fit,
    },
    slots::Count,
    state::{JobEntry, LeaseEntry, Stand, State},
    time::Now,
    view::{DeferralView, Explanation, Holder, LiveView, NodeExplanation, SlotExplanation},
};

/// Holders listed of one slot.
const MOST_HOLDERS: usize = 20;
/// Jobs ahead that are named.
const MOST_AHEAD: usize = 10;

impl State {
    /// The live part of a job that its row does not tell; none if memory does not hold it.
    #[must_use]
    pub fn live_view(&self, now: Now, id: JobId) -> Option<LiveView> {
        let entry = self.jobs.get(&id)?;
        let lease = self.lease_of.get(&id).and_then(|token| self.leases.get(token));
        Some(LiveView {
            deferral: self.deferral(now, entry),
            node: lease.map(|entry| entry.lease.node.clone()),
            started_at: lease.and_then(|entry| entry.watch.started_at),
        })
    }

    fn deferral(&self, now: Now, entry: &JobEntry) -> Option<DeferralView> {
        let history = self.waits(entry.job.id, now)?;
        let lately = match entry.stand {
            Stand::Class(class) => self.classes.get(class)?.timeline.waits(&entry.joined, now),
            Stand::NotReaped | Stand::Broken | Stand::Nowhere => Vec::new(),
        };
        let (reason, since) = self.reason(now, entry)?;
        let count = lately.iter().map(|wait| wait.count).sum::<u64>();
        Some(DeferralView { reason, since, count, history })
    }

    /// What holds a waiting job now, and since when.
    fn reason(&self, now: Now, entry: &JobEntry) -> Option<(Deferral, crate::time::Wall)> {
        if let Some(reason) = self.hold_reason(entry).or_else(|| entry.waiting_for_time()) {
            return Some((reason, entry.since.wall));
        }
        let Stand::Class(id) = entry.stand else { return None };
        let class = self.classes.get(id)?;
        match &class.failed {
            Some(failed) => {
                let since = class.timeline.present_since().map_or(entry.since.wall, |since| since.wall);
                Some((self.told_now(now, id, class, &failed.reason), since.max(entry.since.wall)))
            }
            None => {
                let jobs = class.queue.before(&entry.job).count() as u64;
                let reason = if jobs == 0 { Deferral::Ready } else { Deferral::Behind { jobs } };
                Some((reason, entry.since.wall))
            }
        }
    }

    /// The reason why a class was not placed, with the figures of now: placement does not look again while they cannot
    /// matter.
    fn told_now(&self, now: Now, id: ClassId, class: &Class, known: &Deferral) -> Deferral {
        let told = fit::why_not(self, now, id, class, self.head_asks(now, id, class)).found;
        if told.is_same_reason(known) { told } else { known.clone() }
    }

    /// Why a job does not run yet; none if memory does not hold it.
    #[must_use]
    pub fn explain(&self, now: Now, id: JobId) -> Option<Explanation> {
        let entry = self.jobs.get(&id)?;
        let kind = self.kinds.get(&entry.job.kind)?;
        let deferral = self.deferral(now, entry);
        let alike;
        let own = match entry.stand {
            Stand::Class(id) => self.classes.get(id).map(|class| (id, class)),
            Stand::NotReaped | Stand::Broken | Stand::Nowhere => None,
        };
        let (class_id, class) = match own {
            Some(own) => own,
            None => {
                // It is in no queue: one like it that is empty, and that no node masks.
                alike = Class::new(ClassKey::of(&entry.job, &kind.kind), &self.slots);
                (ClassId(u64::MAX), &alike)
            }
        };
        let waiting = entry.job.state.is_waiting();
        let nodes = if waiting { self.nodes_for(now, class_id, class, &entry.job) } else { Vec::new() };
        let slots = if waiting { self.slots_for(now, class) } else { Vec::new() };
        let ahead_jobs: Vec<JobId> = class.queue.before(&entry.job).take(MOST_AHEAD).collect();
        let ahead = class.queue.before(&entry.job).count() as u64;
        let remedies = deferral.as_ref().map(|view| remedies(&view.reason, &slots)).unwrap_or_default();
        Some(Explanation { deferral, slots, nodes, ahead, ahead_jobs, remedies })
    }

    fn nodes_for(&self, now: Now, id: ClassId, class: &Class, job: &Job) -> Vec<NodeExplanation> {
        let asks = self.asks(now, id, Some(job));
        let explain = |(name, node): (&NodeName, &crate::state::NodeEntry)| NodeExplanation {
            node: name.clone(),
            why_not: fit::of_node(self, now, id, class, asks, node).err(),
        };
        self.nodes.iter().map(explain).collect()
    }

    /// Fleet slots once; node slots on every node that would match.
    fn slots_for(&self, now: Now, class: &Class) -> Vec<SlotExplanation> {
        let mut all = Vec::new();
        for (slot, needed) in class.fleet.iter() {
            all.push(self.slot_for(now, slot, None, needed, self.fleet.count(slot)));
        }
        for (slot, needed) in class.node.iter() {
            let matching = self
                .nodes
                .iter()
                .filter(|(_, node)| fit::matches(class, node) && fit::could_hold(class, node));
            for (name, node) in matching {
                all.push(self.slot_for(now, slot, Some(name), needed, node.ledger.count(slot)));
            }
        }
        all
    }

    fn slot_for(
        &self,
        now: Now,
        slot: &SlotName,
        node: Option<&NodeName>,
        needed: u32,
        count: Count,
    ) -> SlotExplanation {
        let paused = self.slots.get(slot).is_some_and(|slot| slot.paused.is_some());
        let holder = |entry: &LeaseEntry| {
            let lease = &entry.lease;
            let amount = match node {
                Some(node) if *node == lease.node => lease.reservation.node.amount(slot),
                Some(_) => 0,
                None => lease.reservation.fleet.amount(slot),
            };
            (amount > 0).then(|| Holder {
                job: lease.job,
                kind: lease.kind.clone(),
                node: lease.node.clone(),
                token: lease.token,
                amount,
                held_for: now.wall.since(lease.granted_at),
                unreaped: !lease.stage.is_live(),
            })
        };
        // Tokens only grow, so the oldest come first.
        let holders = self.leases.values().filter_map(holder).take(MOST_HOLDERS).collect();
        SlotExplanation { slot: slot.clone(), node: node.cloned(), needed, count, paused, holders }
    }
}

/// What would have to change.
fn remedies(reason: &Deferral, slots: &[SlotExplanation]) -> Vec<String> {
    let mut all = vec![match reason {
        Deferral::SlotBusy { slot, node: None, .. } => {
            format!("a holder of fleet slot {slot} ends, or its capacity is raised")
        }
        Deferral::SlotBusy { slot, node: Some(_), .. } => {
            format!("a holder of slot {slot} ends, or a node with more of it joins")
        }
        Deferral::Earmarked { job, slot, .. } => {
            format!(
                "job {job}, for which slot {slot} is kept, starts or is cancelled, or a hard time limit of this one \
                 gives the slot back in time"
            )
        }
        Deferral::NodePressure { node, rule, threshold, .. } => {
            format!(
                "rule {rule} on node {node} opens again (it closes at {threshold}), or another node can take it"
            )
        }
        Deferral::Masked { node, .. } => format!("the mask of node {node} ends, or another node can take it"),
        Deferral::NoMatchingNode { .. } => "a node that runs this kind and carries the labels joins".into(),
        Deferral::NodesCordoned { node } => format!("node {node} is uncordoned, or another node joins"),
        Deferral::Draining { node } => {
            format!("node {node} comes back or is uncordoned, or another node joins")
        }
        Deferral::Suspect { node } => format!("node {node} is heard again, or another node joins"),
        Deferral::Unanswered { node, .. } => format!("node {node} answers the grants that it has"),
        Deferral::Behind { .. } => "those ahead of it start".into(),
        Deferral::KindPaused => "its kind is resumed".into(),
        Deferral::SlotPaused { slot, .. } => format!("slot {slot} is resumed"),
        Deferral::NotReaped { node } => {
            format!("node {node} reports its earlier processes gone; or requeue it with force")
        }
        Deferral::Impossible { slot, most, .. } => {
            format!(
                "a node with enough of slot {slot} joins (the most now is {most}), or the job asks for less"
            )
        }
        Deferral::Broken => "an operator requeues or deletes it; the server's log says what failed".into(),
        Deferral::WarmingUp => "the nodes come back; the server has just taken over".into(),
        Deferral::Backoff { .. } | Deferral::RunAt { .. } => "its time comes".into(),
        Deferral::Ready => "nothing: the next turn looks at it".into(),
    }];
    let holders: BTreeMap<&SlotName, usize> = slots
        .iter()
        .filter(|slot| slot.count.free() < slot.needed && !slot.holders.is_empty())
        .map(|slot| (&slot.slot, slot.holders.len()))
        .collect();
    for (slot, count) in holders {
        all.push(format!("{count} leases hold slot {slot}; they are listed"));
    }
    all
}
