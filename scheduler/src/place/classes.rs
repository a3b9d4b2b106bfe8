//! Classes: jobs of equal kind, needs, selector and tenant, of about the same hard time limit, and with or without inputs. Placement looks at
//! classes and their heads, never at jobs.

use std::{collections::BTreeMap, fmt, time::Duration};

use crate::{
    deferral::Deferral,
    ids::{KindName, SlotName, Tenant},
    job::Job,
    kind::Kind,
    place::{index::Touched, keyed::Ready, queue::Queue, timeline::Timeline},
    selector::Selector,
    slots::{Needs, Scope, Slot},
    time::Mono,
};

/// A class, numbered by this leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub(crate) u64);

impl fmt::Display for ClassId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{}", self.0)
    }
}

/// What the jobs of a class have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClassKey {
    pub(crate) kind: KindName,
    pub(crate) needs: Needs,
    /// The kind's and the job's, both of which must hold.
    pub(crate) selector: Selector,
    pub(crate) tenant: Tenant,
    /// The jobs end within this if they name a hard time limit of their own that is clearly shorter than the kind's; see
    /// [`within`]. Whether a job may use units that are kept for another depends on it.
    pub(crate) within: Option<Duration>,
    /// The jobs go on from other jobs' ends, or from what an execution left that waited for them. Not every agent can hand
    /// them those.
    pub(crate) inputs: bool,
}

impl ClassKey {
    /// As far as the job itself tells: of a member of a workflow [`State::class_key`](crate::State) knows more.
    pub(crate) fn of(job: &Job, kind: &Kind) -> Self {
        Self {
            kind: job.kind.clone(),
            needs: kind.policy.with_limit(&job.kind, job.needs.as_ref().unwrap_or(&kind.policy.needs)),
            selector: kind.policy.selector.and(&job.selector),
            tenant: job.tenant.clone(),
            within: job.hard_time_limit.and_then(|own| within(own, kind.policy.hard_time_limit)),
            inputs: job.detached.is_some(),
        }
    }

    /// The key of its row.
    pub(crate) fn text(&self) -> String {
        let text = format!("{}|{}|{}|{}", self.kind, self.needs, self.selector, self.tenant);
        let text = self.within.map_or(text.clone(), |within| format!("{text}|{}s", within.as_secs()));
        if self.inputs { format!("{text}|inputs") } else { text }
    }
}

/// A job's own hard time limit, rounded up to a power of two in seconds, so that there are few; none if it is no shorter
/// than its kind's then.
fn within(own: Duration, kinds: Duration) -> Option<Duration> {
    let seconds = own.as_secs().saturating_add(u64::from(own.subsec_nanos() > 0)).max(1);
    let within = Duration::from_secs(seconds.checked_next_power_of_two()?);
    (within < kinds).then_some(within)
}

/// One class.
#[derive(Debug, Clone)]
pub(crate) struct Class {
    pub(crate) key: ClassKey,
    /// The part of the needs that a node must have.
    pub(crate) node: Needs,
    /// The part that the fleet must have.
    pub(crate) fleet: Needs,
    /// Its queued jobs in order.
    pub(crate) queue: Queue,
    /// What of them may start, if its kind limits jobs by key and some of them name one.
    pub(crate) ready: Option<Ready>,
    /// Why its head was not placed when it was last tried; none: not tried, or something of it may have changed.
    pub(crate) failed: Option<Failed>,
    /// Since when its head waits: since the last start of the class, or since it was first deferred.
    pub(crate) blocked: Option<Mono>,
    /// Why it waited, since when.
    pub(crate) timeline: Timeline,
    /// How many nodes mask it.
    pub(crate) masks: u32,
    /// Whether its timeline has a row.
    pub(crate) saved: bool,
    /// The class whose timeline it took over when a new policy made it.
    pub(crate) moved_from: Option<ClassId>,
    /// A small number for the index, another class's after this one; none: it is in no index.
    pub(crate) handle: Option<u32>,
}

impl Class {
    /// An empty one, never tried.
    pub(crate) fn new(key: ClassKey, slots: &BTreeMap<SlotName, Slot>) -> Self {
        let (node, fleet) = split(&key.needs, slots);
        Self {
            key,
            node,
            fleet,
            queue: Queue::default(),
            ready: None,
            failed: None,
            blocked: None,
            timeline: Timeline::default(),
            masks: 0,
            saved: false,
            moved_from: None,
            handle: None,
        }
    }
}

/// The last failure to place a class.
#[derive(Debug, Clone)]
pub(crate) struct Failed {
    pub(crate) reason: Deferral,
    /// The sum of the gain epochs of its fleet slots then: while it is the same, none of them gained. Epochs only
    /// grow, so equal sums mean equal parts.
    pub(crate) gains: u64,
}

/// All classes. Whatever is lent out to be changed is noted, so that the index can follow.
#[derive(Debug, Clone, Default)]
pub(crate) struct Classes {
    by_key: BTreeMap<ClassKey, ClassId>,
    all: BTreeMap<ClassId, Class>,
    /// A queue that empties forgets its class, so a leader counts far more of them than there ever are at once.
    next: u64,
    /// Who has which handle.
    handles: Vec<Option<ClassId>>,
    /// Handles of nobody.
    free: Vec<u32>,
    touched: Touched,
}

impl Classes {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn get(&self, id: ClassId) -> Option<&Class> {
        self.all.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: ClassId) -> Option<&mut Class> {
        let class = self.all.get_mut(&id)?;
        class.handle.into_iter().for_each(|handle| self.touched.note(handle));
        Some(class)
    }

    pub(crate) fn find(&self, key: &ClassKey) -> Option<ClassId> {
        self.by_key.get(key).copied()
    }

    /// Who has this handle now.
    pub(crate) fn id_at(&self, handle: u32) -> Option<ClassId> {
        self.handles.get(handle as usize).copied().flatten()
    }

    /// The class that has this handle now.
    pub(crate) fn at(&self, handle: u32) -> Option<(ClassId, &Class)> {
        let id = self.id_at(handle)?;
        Some((id, self.get(id)?))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ClassId, &Class)> {
        self.all.iter().map(|(id, class)| (*id, class))
    }

    /// Those numbered after this one; none: all.
    pub(crate) fn after(&self, id: Option<ClassId>) -> impl Iterator<Item = (ClassId, &Class)> {
        use std::ops::Bound::{Excluded, Unbounded};
        self.all.range((id.map_or(Unbounded, Excluded), Unbounded)).map(|(id, class)| (*id, class))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (ClassId, &mut Class)> {
        self.touch_all();
        self.all.iter_mut().map(|(id, class)| (*id, class))
    }

    /// The index is to look at every class.
    pub(crate) fn touch_all(&mut self) {
        let handles = self.all.values().filter_map(|class| class.handle);
        handles.for_each(|handle| self.touched.note(handle));
    }

    /// The handles that were lent out, given back or taken since this was last asked.
    pub(crate) fn take_touched(&mut self) -> Vec<u32> {
        self.touched.take()
    }

    /// The class with this key, made if there is none.
    pub(crate) fn intern(&mut self, key: ClassKey, slots: &BTreeMap<SlotName, Slot>) -> ClassId {
        if let Some(id) = self.find(&key) {
            return id;
        }
        let id = ClassId(self.next);
        self.next += 1;
        let handle = self.free.pop().unwrap_or_else(|| {
            self.handles.push(None);
            u32::try_from(self.handles.len() - 1).unwrap_or(u32::MAX)
        });
        if let Some(place) = self.handles.get_mut(handle as usize) {
            *place = Some(id);
        }
        self.touched.note(handle);
        self.by_key.insert(key.clone(), id);
        self.all.insert(id, Class { handle: Some(handle), ..Class::new(key, slots) });
        id
    }

    /// Forgets a class that nothing refers to. The text of its row is given back if it had one.
    pub(crate) fn tidy(&mut self, id: ClassId) -> Option<String> {
        let class = self.all.get(&id)?;
        if !class.queue.is_empty() || class.masks > 0 {
            return None;
        }
        let class = self.all.remove(&id)?;
        self.by_key.remove(&class.key);
        if let Some(handle) = class.handle {
            self.touched.note(handle);
            self.free.push(handle);
            if let Some(place) = self.handles.get_mut(handle as usize) {
                *place = None;
            }
        }
        class.saved.then(|| class.key.text())
    }

    /// A slot was declared anew: which needs are whose may have changed, and everything is worth a try.
    pub(crate) fn split_again(&mut self, slots: &BTreeMap<SlotName, Slot>) {
        self.touch_all();
        for class in self.all.values_mut() {
            (class.node, class.fleet) = split(&class.key.needs, slots);
            class.failed = None;
        }
    }
}

/// The node's part of the needs, and the fleet's. A slot that is not declared counts as a node slot that no node has.
pub(crate) fn split(needs: &Needs, slots: &BTreeMap<SlotName, Slot>) -> (Needs, Needs) {
    let is_fleet =
        |name: &SlotName| slots.get(name).is_some_and(|slot| matches!(slot.scope, Scope::Fleet { .. }));
    let part = |fleet: bool| {
        needs
            .iter()
            .filter(move |(name, _)| is_fleet(name) == fleet)
            .map(|(name, amount)| (name.clone(), amount))
    };
    (Needs::new(part(false)), Needs::new(part(true)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_its_own_counts_rounded_up_and_only_if_it_is_shorter() {
        let minute = Duration::from_secs(60);
        for (own_ms, rounded) in [
            (1, Some(1)),
            (1000, Some(1)),
            (1001, Some(2)),
            (17_000, Some(32)),
            (32_001, None),
            (u64::MAX, None),
        ] {
            let own = Duration::from_millis(own_ms);
            assert_eq!(within(own, minute), rounded.map(Duration::from_secs), "{own_ms} ms");
        }
    }

    #[test]
    fn a_class_is_never_numbered_like_one_that_still_waits() {
        let slots = BTreeMap::new();
        let key = |tenant: &str| ClassKey {
            kind: KindName::new("k"),
            needs: Needs::default(),
            selector: Selector::default(),
            tenant: Tenant::new(tenant),
            within: None,
            inputs: false,
        };
        let mut classes = Classes::default();
        let old = classes.intern(key("old"), &slots);
        // Some days of jobs that are placed at once, each the first and last of its class.
        classes.next = u64::from(u32::MAX);
        let young: Vec<ClassId> = ["a", "b"].map(|tenant| classes.intern(key(tenant), &slots)).into();
        assert!(!young.contains(&old) && young[0] != young[1]);
        assert_eq!((classes.len(), classes.find(&key("old"))), (3, Some(old)));
        // Its handle is another's once it is gone, and tells the two apart.
        let handle = classes.get(old).and_then(|class| class.handle);
        classes.tidy(old);
        let next = classes.intern(key("next"), &slots);
        assert_eq!((classes.get(next).and_then(|class| class.handle), classes.len()), (handle, 3));
        assert_eq!(handle.and_then(|handle| classes.id_at(handle)), Some(next));
        assert!(next > old && classes.get(old).is_none());
    }
}
