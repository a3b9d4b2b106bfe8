//! What events do to the order within kinds and keys: who stands in line, whose key is free, and which classes are to be
//! looked at again because of it.

use crate::{
    deferral::Deferral,
    ids::{JobId, KindName},
    lease::Lease,
    place::{
        ClassId,
        fifo::place_in_line,
        keyed::{KeyScope, Ready, held_scope, scope_of},
        queue::Queue,
    },
    state::{Stand, State},
};

impl State {
    /// A job has joined its class.
    pub(super) fn joined_class(&mut self, id: JobId, class_id: ClassId) {
        let Some(entry) = self.jobs.get(&id) else { return };
        let job = &entry.job;
        if let Some(line) = self.kinds.get_mut(&job.kind).and_then(|kind| kind.line.as_mut()) {
            let place = place_in_line(job);
            let next = line.heads().next();
            line.put(place);
            if next.is_none_or(|next| place < next) {
                self.try_class_of(next.map(|(_, _, job)| job));
                self.try_class_of(Some(id));
            }
        }
        self.join_ready(id, class_id);
        self.head_may_differ(class_id, id);
    }

    /// A job is about to leave its class.
    pub(super) fn leaving_class(&mut self, id: JobId, class_id: ClassId) {
        self.head_may_differ(class_id, id);
        let Some(job) = self.jobs.get(&id).map(|entry| &entry.job) else { return };
        let place = place_in_line(job);
        if let Some(line) = self.kinds.get_mut(&job.kind).and_then(|kind| kind.line.as_mut()) {
            let was_first = line.heads().next().is_some_and(|(_, _, first)| first == id);
            line.take(&place);
            let next = line.heads().next().filter(|_| was_first);
            if was_first {
                self.try_class(class_id);
                self.try_class_of(next.map(|(_, _, job)| job));
            }
        }
        let Some(class) = self.classes.get_mut(class_id) else { return };
        let (Some(ready), Some(entry)) = (&mut class.ready, self.jobs.get(&id)) else { return };
        let job = &entry.job;
        if ready.remove(job) {
            return;
        }
        if !ready.has_keys() {
            class.ready = None;
            class.failed = class.failed.take().filter(|failed| !is_of_key(&failed.reason));
        }
        if let Some(scope) = scope_of(job) {
            self.change_key(&scope, |of| {
                of.classes.remove(&class_id);
            });
        }
    }

    fn join_ready(&mut self, id: JobId, class_id: ClassId) {
        let Some(job) = self.jobs.get(&id).map(|entry| &entry.job) else { return };
        if self.key_limit(&job.kind).is_none() {
            return;
        }
        let scope = scope_of(job);
        let is_open = scope.as_ref().is_none_or(|scope| self.is_key_open(scope));
        let built = scope.as_ref().and_then(|_| self.build_ready(class_id));
        let Some(class) = self.classes.get_mut(class_id) else { return };
        match &mut class.ready {
            Some(ready) => ready.insert(job, |_| is_open),
            None if scope.is_none() => return,
            None => class.ready = built,
        }
        if is_open && class.failed.as_ref().is_some_and(|failed| is_of_key(&failed.reason)) {
            class.failed = None;
        }
        if let Some(scope) = scope {
            self.change_key(&scope, |of| {
                of.classes.insert(class_id);
            });
        }
    }

    /// What of a class may start, from its queue; none: it is known already.
    fn build_ready(&self, class: ClassId) -> Option<Ready> {
        let class = self.classes.get(class).filter(|class| class.ready.is_none())?;
        let mut ready = Ready::default();
        for entry in class.queue.iter().filter_map(|id| self.jobs.get(&id)) {
            let is_open = scope_of(&entry.job).is_none_or(|scope| self.is_key_open(&scope));
            ready.insert(&entry.job, |_| is_open);
        }
        Some(ready)
    }

    /// A lease holds the key that it names.
    pub(crate) fn hold_key(&mut self, lease: &Lease) {
        if let Some(scope) = held_scope(lease) {
            self.change_key(&scope, |of| of.held += 1);
        }
    }

    /// A lease holds its key no more.
    pub(super) fn release_key(&mut self, lease: &Lease) {
        if let Some(scope) = held_scope(lease) {
            self.change_key(&scope, |of| of.held = of.held.saturating_sub(1));
        }
    }

    fn change_key(&mut self, scope: &KeyScope, change: impl FnOnce(&mut crate::place::keyed::KeyUse)) {
        self.keys_changed = true;
        let was_open = self.is_key_open(scope);
        let of = self.key_uses.entry(scope.clone()).or_default();
        change(of);
        let is_unused = of.held == 0 && of.classes.is_empty();
        let is_open = self.is_key_open(scope);
        if is_open != was_open
            && let Some(classes) = self.key_uses.get(scope).map(|of| of.classes.clone())
        {
            classes.into_iter().for_each(|class| self.open_key(class, scope, is_open));
        }
        if is_unused {
            self.key_uses.remove(scope);
        }
    }

    fn open_key(&mut self, class: ClassId, scope: &KeyScope, open: bool) {
        let any_head = !self.earmarks.is_empty();
        let Some(class) = self.classes.get_mut(class) else { return };
        if let Some(ready) = &mut class.ready {
            ready.set_open(&scope.2, open);
        }
        // Others of it wait for what they waited for before; but what is kept for large jobs may be free to this head.
        if any_head || class.failed.as_ref().is_some_and(|failed| is_of_key(&failed.reason)) {
            class.failed = None;
        }
    }

    /// A kind has another policy: whether it is in strict order, and how many jobs of one key it lets run.
    pub(super) fn line_up_again(&mut self, name: &KindName) {
        let Some(entry) = self.kinds.get_mut(name) else { return };
        entry.line = entry.kind.policy.fifo.then(Queue::default);
        let in_class = |id: &JobId| match self.jobs.get(id)?.stand {
            Stand::Class(class) => Some((*id, class)),
            Stand::NotReaped | Stand::Broken | Stand::Nowhere => None,
        };
        let queued: Vec<(JobId, ClassId)> = entry.queued.iter().filter_map(|(_, id)| in_class(id)).collect();
        if let Some(line) = &mut entry.line {
            for (id, _) in &queued {
                if let Some(entry) = self.jobs.get(id) {
                    line.put(place_in_line(&entry.job));
                }
            }
        }
        for (_, class) in self.classes.iter_mut().filter(|(_, class)| class.key.kind == *name) {
            class.ready = None;
            class.failed = None;
        }
        for of in self.key_uses.iter_mut().filter(|((_, kind, _), _)| kind == name) {
            of.1.classes.clear();
        }
        self.key_uses.retain(|_, of| of.held > 0 || !of.classes.is_empty());
        for (id, class) in queued {
            self.join_ready(id, class);
        }
    }

    fn try_class_of(&mut self, job: Option<JobId>) {
        if let Some(Stand::Class(class)) = job.and_then(|job| self.jobs.get(&job)).map(|entry| entry.stand) {
            self.try_class(class);
        }
    }

    fn try_class(&mut self, class: ClassId) {
        if let Some(class) = self.classes.get_mut(class) {
            class.failed = None;
        }
    }
}

fn is_of_key(reason: &Deferral) -> bool {
    matches!(reason, Deferral::ConcurrencyKey { .. })
}
