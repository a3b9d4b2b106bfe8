//! Which head of a class gets an earmark, and on which node: the one where enough units return first if every holder
//! runs to its hard limit.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{
    Dropped, Earmark, Holder, Rank,
    review::{LATE, drop_of},
};
use crate::{
    deferral::Deferral,
    event::Event,
    ids::{JobId, NodeName, SlotName},
    lease::Phase,
    node::NodeType,
    place::{ClassId, classes::Class, fit, order},
    slots::{Needs, Reservation},
    state::{Due, LeaseEntry, NodeEntry, State},
    step::Step,
    time::{Mono, Now},
};

/// A head that got none because others were before it is looked at again after this.
const SOON: Duration = Duration::from_secs(1);
/// One for which no node was found after this: then one may have opened, or a holder been reaped.
const LATER: Duration = Duration::from_secs(5);
/// Nodes looked at in one turn for all elections; then heartbeats have their turn. At least one head is looked at.
const MOST_LOOKS: usize = 20_000;

/// Looks at classes whose heads may have been blocked for long enough.
pub(crate) fn elect(step: &mut Step<'_>, due: &BTreeSet<ClassId>) {
    let mut heads: Vec<(Candidate, ClassId)> = Vec::new();
    for id in due {
        match head_of(step.state, step.now, *id) {
            Head::Due(head) => heads.push((head, *id)),
            Head::At(when) => step.state.timers.at(when, Due::Reserve(*id)),
            Head::None => {}
        }
    }
    heads.sort_unstable();
    let mut looks = 0;
    for (head, id) in heads {
        let is_short = room_is_short(step.state, id);
        let again = if looks > MOST_LOOKS || is_full(step.state, head.rank) || !is_short {
            SOON
        } else {
            looks += step.state.nodes.len();
            match choose(step.state, step.now, id, head) {
                Some((earmark, displaced)) => {
                    displaced.into_iter().for_each(|event| step.emit(event));
                    step.emit(Event::Earmarked(Box::new(earmark)));
                    continue;
                }
                None => LATER,
            }
        };
        step.state.timers.at(step.now.mono.after(again), Due::Reserve(id));
    }
}

/// A head that has been blocked for long enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    rank: Rank,
    /// Since when it has been blocked.
    since: Mono,
    job: JobId,
    /// It needs no more than one unit of anything, and has its turn before a large one: see [`its_turn`].
    small: bool,
}

enum Head {
    Due(Candidate),
    /// It will have been, then.
    At(Mono),
    /// None is blocked, or it has an earmark.
    None,
}

fn head_of(state: &State, now: Now, id: ClassId) -> Head {
    let Some(class) = state.classes.get(id) else { return Head::None };
    let Some(first) = order::standing(state, now, id, class) else { return Head::None };
    if state.earmarks.of(Holder::Class(id)).is_some() {
        return Head::None;
    }
    let Some((since, at)) = blocked_since(state, class, first.job) else { return Head::None };
    if at > now.mono {
        return Head::At(at);
    }
    let rank = Rank { lane: 1, band: first.band as u8, sequence: first.sequence };
    let head = Candidate { rank, since, job: first.job, small: false };
    let needs = &class.key.needs;
    let modest = Candidate { small: needs.iter().all(|(_, amount)| amount < 2), ..head };
    if modest.small && its_turn(state, needs, modest) {
        Head::Due(modest)
    } else if may_be_large(needs) {
        Head::Due(head)
    } else {
        Head::None
    }
}

/// Since when the head of a class has been blocked: since the last start of the class, or its first deferral, or since
/// the job was queued if that is later. And when that was for `reserve_after`. None: it is not blocked.
fn blocked_since(state: &State, class: &Class, head: JobId) -> Option<(Mono, Mono)> {
    let since = state.jobs.get(&head)?.since.mono.max(class.blocked?);
    Some((since, since.after(state.kinds.get(&class.key.kind)?.kind.policy.reserve_after)))
}

/// A small job finds its units one by one, unless large ones take turns in having all of them kept. Then it gets its turn
/// before one that is younger and was blocked later.
fn its_turn(state: &State, needs: &Needs, head: Candidate) -> bool {
    heads(state).any(|earmark| earmark.shares(needs) && is_before(head, earmark))
}

/// Whether a head may displace an earmark.
fn is_before(head: Candidate, earmark: &Earmark) -> bool {
    head.rank < earmark.rank && (!head.small || head.since < earmark.since)
}

/// Whether it needs more than one unit of something, or two slots: small jobs find their units one by one.
pub(crate) fn may_be_large(needs: &Needs) -> bool {
    needs.iter().count() > 1 || needs.iter().any(|(_, amount)| amount > 1)
}

impl State {
    /// A class could not be placed, or its next head begins to wait: that gets an earmark if it goes on.
    pub(crate) fn blocked(&mut self, id: ClassId, now: Now) {
        let Some(class) = self.classes.get_mut(id).filter(|class| !class.queue.is_empty()) else { return };
        class.blocked.get_or_insert(now.mono);
        let Some(class) = self.classes.get(id) else { return };
        if may_be_large(&class.key.needs) || heads(self).any(|earmark| earmark.shares(&class.key.needs)) {
            self.look_at_head(id, now);
        }
    }

    /// Units are kept for a job: those whose turn it may be before it are looked at in time.
    pub(crate) fn rivals_of(&mut self, earmark: &Earmark, now: Now) {
        let waits = |class: &Class| class.blocked.is_some() && earmark.shares(&class.key.needs);
        let rivals =
            self.classes.iter().filter(|(id, class)| waits(class) && Holder::Class(*id) != earmark.holder);
        let rivals: Vec<ClassId> = rivals.map(|(id, _)| id).collect();
        rivals.into_iter().for_each(|id| self.look_at_head(id, now));
    }

    /// Once the head of a class has been blocked for long enough.
    fn look_at_head(&mut self, id: ClassId, now: Now) {
        let due = self.classes.get(id).and_then(|class| {
            let first = order::standing(self, now, id, class)?;
            blocked_since(self, class, first.job).map(|(_, at)| at)
        });
        if let Some(at) = due.filter(|_| self.earmarks.of(Holder::Class(id)).is_none()) {
            self.timers.at(at.max(now.mono), Due::Reserve(id));
        }
    }
}

/// Whether units are what the head waits for: where nothing is open, there is no node to choose.
fn room_is_short(state: &State, id: ClassId) -> bool {
    let failed = state.classes.get(id).and_then(|class| class.failed.as_ref());
    failed.is_some_and(|failed| {
        matches!(
            failed.reason,
            Deferral::SlotBusy { .. } | Deferral::Earmarked { .. } | Deferral::Unanswered { .. }
        )
    })
}

/// Heads that may have an earmark at once.
fn most_heads(state: &State) -> usize {
    (state.nodes.len() / 20).max(1)
}

fn heads(state: &State) -> impl Iterator<Item = &Earmark> {
    state.earmarks.iter().filter(|earmark| matches!(earmark.holder, Holder::Class(_)))
}

/// Whether there are as many older ones as may be.
fn is_full(state: &State, rank: Rank) -> bool {
    heads(state).filter(|earmark| earmark.rank < rank).count() >= most_heads(state)
}

/// The earmark for a head, and the younger ones that it displaces.
fn choose(state: &State, now: Now, id: ClassId, head: Candidate) -> Option<(Earmark, Vec<Event>)> {
    let Candidate { rank, since, job, small } = head;
    let class = state.classes.get(id)?;
    if fit::may_not_start(state, now, class).is_some() || fit::beyond_fleet(state, class) {
        return None;
    }
    let mut contended: BTreeSet<&SlotName> = BTreeSet::new();
    let fleet = fleet_by(state, now, class, rank, &mut contended)?;
    let rivals: Vec<&Earmark> = heads(state).filter(|other| other.shares(&class.key.needs)).collect();
    let mut best: Option<(Mono, usize, &NodeName)> = None;
    for (name, node) in state.nodes.iter() {
        if fit::open(state, now, id, class, node).is_err() {
            continue;
        }
        let on_node = node_by(state, now, class, name, node, rank, &mut contended);
        let of = (!rivals.is_empty()).then(|| NodeType::of(&node.node));
        let near =
            || rivals.iter().filter(|rival| of.as_ref().is_some_and(|of| is_same_type(state, of, rival)));
        let Some(on_node) = on_node.filter(|_| near().all(|rival| is_before(head, rival))) else { continue };
        let this = (on_node.max(fleet), near().count(), name);
        best = best.filter(|best| *best <= this).or(Some(this));
    }
    let (by, _, name) = best?;
    if !small && contended.len() < 2 && class.key.needs.iter().all(|(_, amount)| amount < 2) {
        return None;
    }
    let node = state.nodes.get(name)?;
    let earmark = Earmark {
        holder: Holder::Class(id),
        job,
        rank,
        node: name.clone(),
        units: Reservation { node: class.node.clone(), fleet: class.fleet.clone() },
        by,
        since,
        until: state.would_return_by(by, &state.jobs.get(&job)?.job),
    };
    Some((earmark, displaced(state, head, node, &rivals)?))
}

/// The younger ones that go: those on nodes of the same type that share a slot, then the youngest until the number is
/// right. None: too few may.
fn displaced(state: &State, head: Candidate, node: &NodeEntry, rivals: &[&Earmark]) -> Option<Vec<Event>> {
    let of = NodeType::of(&node.node);
    let near = rivals.iter().filter(|rival| is_same_type(state, &of, rival));
    let mut gone: BTreeMap<Rank, &Earmark> = near.map(|rival| (rival.rank, *rival)).collect();
    let all: Vec<&Earmark> = heads(state).collect();
    for youngest in all.iter().rev().filter(|other| is_before(head, other)) {
        if all.len() - gone.len() < most_heads(state) {
            break;
        }
        gone.insert(youngest.rank, youngest);
    }
    let fits = all.len() - gone.len() < most_heads(state);
    fits.then(|| gone.into_values().map(|earmark| drop_of(earmark, Dropped::Superseded)).collect())
}

/// Whether an earmark is on a node like this one: at most one per slot and type of node.
fn is_same_type(state: &State, of: &NodeType, earmark: &Earmark) -> bool {
    state.nodes.get(&earmark.node).is_some_and(|other| of.is_of(&other.node))
}

/// When the fleet has enough; none: nobody knows.
fn fleet_by<'a>(
    state: &State,
    now: Now,
    class: &'a Class,
    rank: Rank,
    contended: &mut BTreeSet<&'a SlotName>,
) -> Option<Mono> {
    let older = || state.earmarks.iter().take_while(|earmark| earmark.rank < rank);
    let mut by = now.mono;
    for (slot, amount) in class.fleet.iter() {
        let count = state.fleet.count(slot);
        if count.free() < amount {
            contended.insert(slot);
        }
        let kept = older().map(|earmark| (earmark.until, earmark.units.fleet.amount(slot)));
        let held = state
            .leases
            .values()
            .map(|entry| (gone_by(entry, now), entry.lease.reservation.fleet.amount(slot)));
        by = by.max(enough_by(now, amount, i64::from(count.capacity) - i64::from(count.used), kept, held)?);
    }
    Some(by)
}

/// When a node has enough; none: nobody knows.
fn node_by<'a>(
    state: &State,
    now: Now,
    class: &'a Class,
    name: &NodeName,
    node: &NodeEntry,
    rank: Rank,
    contended: &mut BTreeSet<&'a SlotName>,
) -> Option<Mono> {
    let older =
        || state.earmarks.iter().take_while(|other| other.rank < rank).filter(|other| other.node == *name);
    let mut by = Some(now.mono);
    for (slot, amount) in class.node.iter() {
        let count = node.ledger.count(slot);
        let capacity = node.cap(slot).map_or(count.capacity, |cap| cap.min(count.capacity));
        let free = i64::from(capacity) - i64::from(count.used);
        if free < i64::from(amount) {
            contended.insert(slot);
        }
        let kept = older().map(|earmark| (earmark.until, earmark.units.node.amount(slot)));
        let leases = node.leases.iter().filter_map(|token| state.leases.get(token));
        let held = leases.map(|entry| (gone_by(entry, now), entry.lease.reservation.node.amount(slot)));
        by = by.zip(enough_by(now, amount, free, kept, held)).map(|(one, other)| one.max(other));
    }
    by
}

/// By when a lease has given back what it holds; none: it is not known to be gone, or was to be gone before now.
pub(crate) fn gone_by(entry: &LeaseEntry, now: Now) -> Option<Mono> {
    let (lease, watch) = (&entry.lease, &entry.watch);
    // One that is parked gives what it keeps back when others have ended: nobody knows when.
    let is_known =
        lease.stage.is_live() && lease.waits().is_none() && watch.phase != Phase::Unkillable && !watch.kept;
    // Nobody is left to say that one is gone of which another instance knows nothing; it runs out.
    let by = if lease.orphaned { watch.expires } else { watch.returns_by };
    is_known.then_some(by).filter(|by| by.after(LATE) >= now.mono)
}

/// When `amount` of a slot is free, of which `free` is now: what is kept for older ones goes to them first and comes back
/// with them, what is held comes back with its holders.
fn enough_by(
    now: Now,
    amount: u32,
    free: i64,
    kept: impl Iterator<Item = (Mono, u32)>,
    held: impl Iterator<Item = (Option<Mono>, u32)>,
) -> Option<Mono> {
    let kept: Vec<(Mono, u32)> = kept.filter(|(_, units)| *units > 0).collect();
    let mut free = kept.iter().fold(free, |free, (_, units)| free - i64::from(*units));
    if free >= i64::from(amount) {
        return Some(now.mono);
    }
    let held = held.filter_map(|(by, units)| Some((by.filter(|_| units > 0)?, units)));
    let mut returns: Vec<(Mono, u32)> = held.chain(kept).collect();
    returns.sort_unstable();
    for (by, units) in returns {
        free += i64::from(units);
        if free >= i64::from(amount) {
            return Some(by.max(now.mono));
        }
    }
    None
}
