//! Keyed concurrency: of the jobs of one tenant and kind that name the same key, at most so many run at once.
//!
//! A key does not make a class. Within a class the jobs of one key have a queue of their own, and what placement looks
//! at ([`Ready`]) holds of each key that is below its limit only the first of each priority, and of one at its limit
//! nothing: a blocked key costs nothing however many jobs wait for it. A key is held from the grant until the lease is
//! over, as a unit of a fleet slot is.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    deferral::Deferral,
    ids::{ConcurrencyKey, JobId, KindName, Tenant},
    job::Job,
    lease::Lease,
    place::{ClassId, classes::Class, queue::Queue},
    state::State,
};

/// Whose key it is.
pub(crate) type KeyScope = (Tenant, KindName, ConcurrencyKey);

/// What of a class with keys may start.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ready {
    /// The jobs without a key, and of each key in `opened` the first of each priority.
    open: Queue,
    by_key: BTreeMap<ConcurrencyKey, Queue>,
    opened: BTreeSet<ConcurrencyKey>,
}

impl Ready {
    pub(crate) fn insert(&mut self, job: &Job, is_open: impl FnOnce(&ConcurrencyKey) -> bool) {
        let Some(key) = &job.concurrency_key else { return self.open.insert(job) };
        let is_open = is_open(key);
        self.set_open(key, false);
        self.by_key.entry(key.clone()).or_default().insert(job);
        self.set_open(key, is_open);
    }

    /// False: nothing waits for its key any more.
    pub(crate) fn remove(&mut self, job: &Job) -> bool {
        let Some(key) = &job.concurrency_key else {
            self.open.remove(job);
            return true;
        };
        let was_open = self.opened.contains(key);
        self.set_open(key, false);
        let waits = self.by_key.get_mut(key).is_some_and(|queue| {
            queue.remove(job);
            !queue.is_empty()
        });
        if waits {
            self.set_open(key, was_open);
        } else {
            self.by_key.remove(key);
        }
        waits
    }

    /// Whether jobs of a key may start from now on.
    pub(crate) fn set_open(&mut self, key: &ConcurrencyKey, open: bool) {
        let Some(queue) = self.by_key.get(key).filter(|_| self.opened.contains(key) != open) else { return };
        for head in queue.heads() {
            if open {
                self.open.put(head);
            } else {
                self.open.take(&head);
            }
        }
        if open {
            self.opened.insert(key.clone());
        } else {
            self.opened.remove(key);
        }
    }

    pub(crate) fn has_keys(&self) -> bool {
        !self.by_key.is_empty()
    }

    /// The jobs that wait and name a key.
    pub(crate) fn with_key(&self, key: &ConcurrencyKey) -> impl Iterator<Item = JobId> {
        self.of_key(key).into_iter().flat_map(Queue::iter)
    }

    /// The queue of a key; none: nobody waits who names it.
    pub(crate) fn of_key(&self, key: &ConcurrencyKey) -> Option<&Queue> {
        self.by_key.get(key)
    }

    /// How many jobs wait, by key.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (&ConcurrencyKey, usize)> {
        self.by_key.iter().map(|(key, queue)| (key, queue.len()))
    }
}

impl Class {
    /// What of its queue may start: all of it, unless its kind limits jobs by key.
    pub(crate) fn startable(&self) -> &Queue {
        self.ready.as_ref().map_or(&self.queue, |ready| &ready.open)
    }
}

/// Who holds a key, and who waits for it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct KeyUse {
    /// Leases that hold it.
    pub(crate) held: u32,
    /// Classes in which jobs wait that name it, while their kind has a limit.
    pub(crate) classes: BTreeSet<ClassId>,
}

impl State {
    /// How many jobs with one key a kind lets run; none: as many as there are.
    pub(crate) fn key_limit(&self, kind: &KindName) -> Option<u32> {
        let policy = &self.kinds.get(kind)?.kind.policy;
        policy.concurrency.as_ref().map(|concurrency| concurrency.limit)
    }

    /// Whether another job with this key may start.
    pub(crate) fn is_key_open(&self, scope: &KeyScope) -> bool {
        let held = self.key_uses.get(scope).map_or(0, |of| of.held);
        self.key_limit(&scope.1).is_none_or(|limit| held < limit)
    }

    /// Why nothing of a class may start, if that is because of keys.
    pub(crate) fn key_blocks(&self, class: &Class) -> Option<Deferral> {
        class.ready.as_ref()?;
        let first = match self.first_in_line(&class.key.kind) {
            Some((first, _)) => first,
            None if !class.startable().is_empty() => return None,
            None => class.queue.heads().next()?.2,
        };
        self.key_reason(&self.jobs.get(&first)?.job)
    }

    /// The reason of a job whose key is at its limit.
    pub(crate) fn key_reason(&self, job: &Job) -> Option<Deferral> {
        let scope = scope_of(job)?;
        let limit = self.key_limit(&job.kind)?;
        (!self.is_key_open(&scope)).then_some(Deferral::ConcurrencyKey { key: scope.2, limit })
    }
}

/// The scope of the key of a job, if it names one.
pub(crate) fn scope_of(job: &Job) -> Option<KeyScope> {
    Some((job.tenant.clone(), job.kind.clone(), job.concurrency_key.clone()?))
}

/// The scope of the key that a lease holds, if it holds one.
pub(crate) fn held_scope(lease: &Lease) -> Option<KeyScope> {
    Some((lease.tenant.clone(), lease.kind.clone(), lease.concurrency_key.clone()?))
}
