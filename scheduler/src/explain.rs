//! Why not yet, as data: what a job waits for, slot by slot and node by node, by the same fit function that places.
//!
//! An explanation is asked for in slices ([`Explaining`]), so that one of a fleet of ten thousand nodes holds up nobody
//! for longer than a slice. Each slice looks at committed state. The nodes are seen once each, in the order of their
//! names, each as it was in its slice; what one sentence is made of (the reason, the place in line, the slots) is of
//! the last slice. A job that leaves its place meanwhile, or a takeover, makes it begin anew.

mod bracket;
mod earmarks;
mod line;
mod nodes;
mod remedies;
mod summary;

use crate::{
    deferral::Deferral,
    ids::{Epoch, FencingToken, JobId, NodeName, SlotName},
    place::{ClassId, classes::Class, fit},
    slots::Count,
    state::{JobEntry, Stand, State},
    time::Now,
    view::{Bracket, DeferralView, Explanation, LiveView, SlotExplanation, SlotHolder},
};

use self::{
    bracket::{Facts, Held},
    line::{Asker, Lacking, Others},
    nodes::Tally,
};

/// Holders listed of one slot.
const MOST_HOLDERS: usize = 20;
/// Jobs ahead that are named.
const MOST_AHEAD: usize = 10;
/// A job that leaves its place so often while it is explained is explained as it stands then, without its nodes.
const MOST_BEGINNINGS: u8 = 3;

/// An explanation on its way: what the slices so far have found.
#[derive(Debug, Clone)]
pub struct Explaining {
    job: JobId,
    /// Where the job stood when it was begun; none: it was not.
    place: Option<Begun>,
    beginnings: u8,
    /// The last node that was looked at.
    after: Option<NodeName>,
    nodes: Tally,
    /// The slot that it lacked at the beginning, and what is gathered about it.
    lacking: Option<Lacking>,
    others: Others,
    held: Held,
}

/// What must not change from slice to slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Begun {
    epoch: Epoch,
    stand: Stand,
    waiting: bool,
}

impl Explaining {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(job: JobId) -> Self {
        Self {
            job,
            place: None,
            beginnings: 0,
            after: None,
            nodes: Tally::default(),
            lacking: None,
            others: Others::default(),
            held: Held::default(),
        }
    }
}

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
            progress: lease.and_then(|entry| entry.watch.progress.as_deref().cloned()),
            waiting_for: self.child_wait(id).map(|wait| wait.view(self.parked_wait(id).is_some())),
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
        let present = || {
            let since = class.timeline.present_since().map_or(entry.since.wall, |since| since.wall);
            since.max(entry.since.wall)
        };
        if let Some(reason) = fit::job_may_not_start(self, now, class, &entry.job) {
            let of_class = class.failed.as_ref().is_some_and(|failed| failed.reason.is_same_reason(&reason));
            return Some((reason, if of_class { present() } else { entry.since.wall }));
        }
        match &class.failed {
            Some(failed) => Some((self.told_now(now, id, class, &failed.reason), present())),
            None => {
                let jobs = Asker::new(self, now, id, class, entry).ahead();
                let reason = if jobs == 0 { Deferral::Ready } else { Deferral::Behind { jobs } };
                Some((reason, entry.since.wall))
            }
        }
    }

    /// The reason why a class was not placed, with the figures of now: placement does not look again while they cannot
    /// matter.
    fn told_now(&self, now: Now, id: ClassId, class: &Class, known: &Deferral) -> Deferral {
        let told = fit::why_not(self, now, id, class, self.asks(now, id, class)).found;
        if told.is_same_reason(known) { told } else { known.clone() }
    }

    /// Why a job does not run yet; none if memory does not hold it. It takes as long as there are nodes: a driver asks
    /// for slices.
    #[must_use]
    pub fn explain(&self, now: Now, id: JobId) -> Option<Explanation> {
        let mut explaining = Explaining::new(id);
        loop {
            if let Some(answer) = self.explain_slice(now, &mut explaining, usize::MAX) {
                return answer;
            }
        }
    }

    /// Goes on with an explanation: looks at no more than about this many nodes, classes and leases. The answer once it is whole; none in it: memory
    /// does not hold the job.
    #[must_use]
    pub fn explain_slice(
        &self,
        now: Now,
        explaining: &mut Explaining,
        most: usize,
    ) -> Option<Option<Explanation>> {
        let Some(entry) = self.jobs.get(&explaining.job) else { return Some(None) };
        let Some(key) = self.class_key(&entry.job) else { return Some(None) };
        let place = Begun { epoch: self.epoch, stand: entry.stand, waiting: entry.job.state.is_waiting() };
        let beginning = explaining.place != Some(place);
        if beginning {
            *explaining = Explaining {
                place: Some(place),
                beginnings: explaining.beginnings + 1,
                ..Explaining::new(explaining.job)
            };
        }
        let alike;
        let own = match entry.stand {
            Stand::Class(id) => self.classes.get(id).map(|class| (id, class)),
            Stand::NotReaped | Stand::Broken | Stand::Nowhere => None,
        };
        let (id, class) = match own {
            Some(own) => own,
            None => {
                // It is in no queue: one like it that is empty, and that no node masks.
                alike = Class::new(key, &self.slots);
                (ClassId(u64::MAX), &alike)
            }
        };
        let asker = Asker::new(self, now, id, class, entry);
        let lacking = self.lacking(now, entry);
        if beginning {
            explaining.lacking = lacking.clone();
        }
        let whole = !place.waiting
            || explaining.beginnings > MOST_BEGINNINGS
            || self.look_around(&asker, id, explaining, most.max(1));
        if whole && explaining.lacking != lacking {
            explaining.lacking = None; // What was gathered is about another slot.
        }
        whole.then(|| Some(self.explanation(&asker, entry, explaining)))
    }

    /// The slot that keeps a job, if it is a slot.
    fn lacking(&self, now: Now, entry: &JobEntry) -> Option<Lacking> {
        let (Deferral::SlotBusy { slot, node, .. }, _) = self.reason(now, entry)? else { return None };
        Some(Lacking { slot, of_fleet: node.is_none() })
    }

    /// Goes on looking: at nodes, then at other classes, then at holders. Each costs one. True: all were looked at.
    fn look_around(&self, asker: &Asker<'_>, id: ClassId, explaining: &mut Explaining, most: usize) -> bool {
        let (now, class) = (asker.now, asker.class);
        let asks = self.asks(now, id, class);
        let mut left = most;
        let mut nodes = self.nodes.after(explaining.after.as_ref());
        let mut last = None;
        while left > 0 {
            let Some((name, node)) = nodes.next() else { break };
            let is_open = explaining.nodes.add(self, now, (id, class, asks), node);
            left -= 1;
            if let Some(lacking) = explaining.lacking.as_ref().filter(|_| is_open) {
                for lease in node.leases.iter().filter_map(|token| self.leases.get(token)) {
                    if lacking.of_fleet {
                        explaining.held.add_beside(lacking, lease);
                    } else {
                        explaining.held.add(self, now, lacking, lease);
                    }
                }
                left = left.saturating_sub(node.leases.len());
            }
            last = Some(name);
        }
        drop(nodes);
        explaining.after = last.cloned().or(explaining.after.take());
        let Some(lacking) = explaining.lacking.clone() else { return left > 0 };
        for (other, class) in self.classes.after(explaining.others.after).take(left) {
            if other != id {
                explaining.others.add(asker, &lacking, other, class);
            }
            explaining.others.after = Some(other);
            left -= 1;
        }
        if lacking.of_fleet {
            for token in self.holders.after(&lacking.slot, explaining.held.after).take(left) {
                if let Some(lease) = self.leases.get(&token) {
                    explaining.held.add(self, now, &lacking, lease);
                }
                explaining.held.after = token;
                left -= 1;
            }
        }
        left > 0
    }

    /// What was gathered, and everything else as it is now.
    fn explanation(&self, asker: &Asker<'_>, entry: &JobEntry, explaining: &Explaining) -> Explanation {
        let (now, class, nodes) = (asker.now, asker.class, &explaining.nodes);
        let deferral = self.deferral(now, entry);
        let waiting = entry.job.state.is_waiting();
        let slots = if waiting { self.slots_for(now, class, nodes) } else { Vec::new() };
        let (groups, nodes_omitted) = nodes.groups();
        let reason = deferral.as_ref().map(|view| &view.reason);
        let remedies =
            reason.map(|reason| remedies::remedies(reason, class, &slots, &groups)).unwrap_or_default();
        let mut explanation = Explanation {
            summary: String::new(),
            slots,
            node_slots: nodes.totals().to_vec(),
            nodes: nodes.each(),
            groups,
            nodes_omitted,
            ahead: if waiting { asker.ahead() } else { 0 },
            ahead_jobs: if waiting { asker.ahead_jobs(MOST_AHEAD) } else { Vec::new() },
            line: explaining.lacking.as_ref().map(|lacking| (lacking.slot.clone(), explaining.others.ahead)),
            bracket: if waiting { bracket(asker, reason, explaining) } else { Bracket::default() },
            deferral,
            earmarks: self.earmarks_for(now, &entry.job, class),
            remedies,
        };
        explanation.summary = summary::summary(&explanation, class);
        explanation
    }

    /// Fleet slots once; node slots on the nodes that are nearest to a fit.
    fn slots_for(&self, now: Now, class: &Class, nodes: &Tally) -> Vec<SlotExplanation> {
        let fleet = class.fleet.iter();
        let mut all: Vec<SlotExplanation> = fleet
            .map(|(slot, needed)| self.slot_for(now, slot, None, needed, self.fleet.count(slot)))
            .collect();
        let nearest = nodes.nearest();
        for (slot, needed) in class.node.iter() {
            for (name, node) in nearest.iter().filter_map(|name| Some((*name, self.nodes.get(name)?))) {
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
        let paused = self.slots.get(slot).is_some_and(|slot| slot.kept().is_some());
        let holder = |token: FencingToken| {
            let lease = &self.leases.get(&token)?.lease;
            let amount = match node {
                Some(_) => lease.reservation.node.amount(slot),
                None => lease.reservation.fleet.amount(slot),
            };
            (amount > 0).then(|| SlotHolder {
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
        let holders = match node {
            Some(node) => {
                let listed = self.nodes.get(node).into_iter().flat_map(|node| &node.leases);
                listed.copied().filter_map(holder).take(MOST_HOLDERS).collect()
            }
            None => {
                self.holders.after(slot, FencingToken::NONE).filter_map(holder).take(MOST_HOLDERS).collect()
            }
        };
        SlotExplanation { slot: slot.clone(), node: node.cloned(), needed, count, paused, holders }
    }
}

/// When it may start.
fn bracket(asker: &Asker<'_>, reason: Option<&Deferral>, explaining: &Explaining) -> Bracket {
    if let Some(until) = reason.and_then(Deferral::until) {
        return Bracket { earliest: Some(until.max(asker.now.wall)), ..Bracket::default() };
    }
    let Some(lacking) = &explaining.lacking else { return Bracket::default() };
    let Explaining { others, held, nodes, .. } = explaining;
    Facts { asker, lacking, others, held, rooms: nodes.rooms() }.bracket()
}
