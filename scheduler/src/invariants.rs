//! What must hold after every command. A violation is a bug of ours; nothing a peer sends can cause one.

pub(crate) mod slices;
mod workflows;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use crate::{
    ids::{ConcurrencyKey, FencingToken, JobId, KindName, SlotName},
    job::{Job, JobState},
    lease::Stage,
    place::keyed::{KeyScope, KeyUse, held_scope, scope_of},
    slots::{Ledger, Needs, Scope},
    state::{Holders, JobEntry, Stand, State},
};

/// A broken invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Its name, a fact in snake case.
    pub invariant: &'static str,
    /// The job, lease, slot, node or class that it is about.
    pub subject: String,
    /// What is wrong.
    pub detail: String,
}

/// The names of all invariants. Which of them a check evaluates, it says.
pub const NAMES: [&str; 15] = [
    "used_is_the_sum_of_reservations",
    "used_is_within_capacity",
    "running_jobs_have_one_lease",
    "leases_fit_their_jobs",
    "tokens_are_from_granted_epochs",
    "waiting_jobs_stand_somewhere",
    "queues_hold_queued_jobs",
    "kind_counts_match",
    "held_keys_are_found",
    "timers_have_live_jobs",
    "tenants_use_what_their_leases_take",
    "earmarks_are_indexed",
    "lines_and_keys_match",
    "parked_leases_hold_what_they_keep",
    "workflows_know_their_members",
];

impl State {
    /// All violations; none is the only good answer.
    #[must_use]
    pub fn check_invariants(&self) -> Vec<Violation> {
        let mut found = Vec::new();
        self.jobs.iter().for_each(|(id, entry)| self.job_holds(*id, &entry, &mut found));
        for (_, check) in slices::OF_ALL.iter().chain(&slices::OF_ALL_JOBS) {
            check(self, &mut found);
        }
        found
    }

    /// Everything that can be said of one job by itself.
    fn job_holds(&self, id: JobId, entry: &JobEntry, found: &mut Vec<Violation>) {
        self.job_has_its_lease(id, entry, found);
        self.job_stands_somewhere(id, entry, found);
        self.job_holds_its_key(id, entry, found);
    }

    fn earmarks_are_indexed(&self, found: &mut Vec<Violation>) {
        if !self.earmarks.is_consistent() {
            found.push(violation(NAMES[11], "earmarks".into(), "an index differs from them".into()));
        }
    }

    /// I7, I8: per fleet and per node.
    fn used_is_the_sum(&self, found: &mut Vec<Violation>) {
        let (mut fleet, mut holders) = (Ledger::default(), Holders::default());
        let mut nodes: BTreeMap<_, Ledger> = BTreeMap::new();
        for entry in self.leases.values() {
            fleet.take(&entry.lease.reservation.fleet);
            holders.take(entry.lease.token, &entry.lease.reservation.fleet);
            nodes.entry(&entry.lease.node).or_default().take(&entry.lease.reservation.node);
        }
        let mut compare = |place: &str, kept: &Ledger, sum: Option<&Ledger>| {
            let names: BTreeSet<&SlotName> =
                kept.iter().map(|e| e.0).chain(sum.into_iter().flat_map(|s| s.iter().map(|e| e.0))).collect();
            for slot in names {
                let (used, summed) = (kept.count(slot).used, sum.map_or(0, |sum| sum.count(slot).used));
                if used != summed {
                    let detail = format!("used {used}, reservations {summed}");
                    found.push(violation(NAMES[0], format!("{place} {slot}"), detail));
                }
            }
        };
        compare("fleet", &self.fleet, Some(&fleet));
        for (name, node) in self.nodes.iter() {
            compare(name.as_str(), &node.ledger, nodes.get(name));
        }
        if holders != self.holders {
            found.push(violation(NAMES[0], "holders".into(), "the index differs from the leases".into()));
        }
    }

    /// I7: over its capacity only holders that were granted before it was last changed.
    fn used_is_within_capacity(&self, found: &mut Vec<Violation>) {
        let newest_holder = |holds: &dyn Fn(&crate::lease::Lease) -> bool| {
            self.leases.values().rev().find(|entry| holds(&entry.lease)).map(|entry| entry.lease.token)
        };
        let mut judge = |place: String, over: bool, newest: Option<FencingToken>, since: FencingToken| {
            if over && newest.is_some_and(|newest| newest > since) {
                let detail = format!("granted up to {newest:?}, capacity since {since}");
                found.push(violation(NAMES[1], place, detail));
            }
        };
        for (name, slot) in &self.slots {
            let count = self.fleet.count(name);
            if matches!(slot.scope, Scope::Fleet { .. }) && count.used > count.capacity {
                let newest = newest_holder(&|lease| lease.reservation.fleet.amount(name) > 0);
                judge(format!("fleet {name}"), true, newest, slot.capacity_since);
            }
        }
        for (node_name, node) in self.nodes.iter() {
            for (slot, count) in node.ledger.iter().filter(|(_, count)| count.used > count.capacity) {
                let holds = |lease: &crate::lease::Lease| {
                    lease.node == *node_name && lease.reservation.node.amount(slot) > 0
                };
                let since = node.node.slots.get(slot).map(|capacity| capacity.since);
                // A slot that the node offers no more has no row to say since when.
                if let Some(since) = since {
                    judge(
                        format!("{node_name} {slot}"),
                        count.used > count.capacity,
                        newest_holder(&holds),
                        since,
                    );
                }
            }
        }
    }

    /// I4: a running job has exactly one live lease whose outcome is open, under its newest token.
    fn job_has_its_lease(&self, id: JobId, entry: &JobEntry, found: &mut Vec<Violation>) {
        let lease = self.leases.get(&entry.job.token).filter(|lease| lease.lease.job == id);
        let open = lease.is_some_and(|lease| lease.lease.stage == Stage::Granted);
        // A parked parent waits under its lease.
        let running = self.has_process(&entry.job);
        if running != open {
            let detail = format!("state {}, open lease {open}", entry.job.state.name());
            found.push(violation(NAMES[2], id.to_string(), detail));
        }
    }

    fn live_leases_are_found(&self, found: &mut Vec<Violation>) {
        let mut live: BTreeMap<JobId, FencingToken> = BTreeMap::new();
        for (token, entry) in self.leases.iter().filter(|(_, entry)| entry.lease.stage.is_live()) {
            if let Some(other) = live.insert(entry.lease.job, *token) {
                found.push(violation(
                    NAMES[2],
                    entry.lease.job.to_string(),
                    format!("live leases {other} and {token}"),
                ));
            }
        }
        if live != self.lease_of {
            found.push(violation(NAMES[2], "lease_of".into(), "the index differs from the leases".into()));
        }
    }

    /// I5, I9: no lease is newer than its job's token; a live one has all of its needs or, once freed, none.
    fn leases_fit_their_jobs(&self, found: &mut Vec<Violation>) {
        for (token, entry) in &self.leases {
            // A job that was deleted and enqueued anew is younger than the lease that it waits for.
            if let Some(job) = self.jobs.get(&entry.lease.job)
                && entry.lease.stage == Stage::Granted
                && job.job.token < *token
            {
                found.push(violation(
                    NAMES[3],
                    token.to_string(),
                    format!("newer than its job's {}", job.job.token),
                ));
            }
            // Nobody is left who could say that its process is gone, so its node slots would be charged for ever.
            if entry.lease.orphaned && !entry.lease.reservation.node.is_empty() {
                found.push(violation(NAMES[3], token.to_string(), "orphaned, and charges its node".into()));
            }
            if token.epoch() > self.epoch || (token.epoch() == self.epoch && token.count() > self.grants) {
                found.push(violation(NAMES[4], token.to_string(), "was never granted".into()));
            }
            let listed = self.nodes.get(&entry.lease.node).is_some_and(|node| node.leases.contains(token));
            if !listed && self.nodes.contains_key(&entry.lease.node) {
                found.push(violation(NAMES[3], token.to_string(), "its node does not list it".into()));
            }
        }
        for (name, node) in self.nodes.iter() {
            for token in node.leases.iter().filter(|token| !self.leases.contains_key(*token)) {
                found.push(violation(NAMES[3], token.to_string(), format!("gone, but listed by {name}")));
            }
        }
    }

    /// I14: a queued job is in exactly one place, so it can say why it waits.
    fn job_stands_somewhere(&self, id: JobId, entry: &JobEntry, found: &mut Vec<Violation>) {
        let good = match (&entry.job.state, entry.stand) {
            (JobState::Queued { .. }, Stand::Class(class)) => {
                self.classes.get(class).is_some_and(|class| class.queue.contains(&entry.job))
            }
            (JobState::Queued { .. }, Stand::NotReaped) => self.lease_of.contains_key(&id),
            (
                JobState::Queued { .. } | JobState::Scheduled { .. } | JobState::Blocked { .. },
                Stand::Broken,
            ) => true,
            (JobState::Blocked { .. }, stand) => stand == Stand::Nowhere && self.is_blocked(entry),
            (JobState::Queued { .. }, Stand::Nowhere) => false,
            (JobState::Scheduled { .. }, stand) => stand == Stand::Nowhere,
            (JobState::Waiting { .. }, Stand::Nowhere) => self.child_wait(id).is_some(),
            (JobState::Waiting { .. }, stand) => stand == Stand::Broken,
            (
                JobState::Running
                | JobState::Succeeded { .. }
                | JobState::Dead { .. }
                | JobState::Cancelled { .. }
                | JobState::Expired { .. },
                stand,
            ) => stand == Stand::Nowhere,
        };
        if !good {
            let detail = format!("state {}, stands {:?}", entry.job.state.name(), entry.stand);
            found.push(violation(NAMES[5], id.to_string(), detail));
        }
    }

    fn queues_hold_queued_jobs(&self, found: &mut Vec<Violation>) {
        for (id, class) in self.classes.iter() {
            for job in class.queue.iter() {
                if self.jobs.get(&job).is_none_or(|entry| entry.stand != Stand::Class(id)) {
                    found.push(violation(
                        NAMES[6],
                        id.to_string(),
                        format!("holds {job}, which stands elsewhere"),
                    ));
                }
            }
            let masks = self.nodes.values().filter(|node| node.masks.contains_key(&id)).count();
            if masks != class.masks as usize {
                found.push(violation(
                    NAMES[6],
                    id.to_string(),
                    format!("{masks} masks, counted {}", class.masks),
                ));
            }
        }
    }

    /// I21 rests on these counts.
    fn kind_counts_match(&self, found: &mut Vec<Violation>) {
        let aside = self.jobs.values().filter(|entry| entry.stand == Stand::Broken).count() as u64;
        if aside != self.aside {
            found.push(violation(NAMES[7], "aside".into(), format!("counted {aside}, kept {}", self.aside)));
        }
        for (name, kind) in &self.kinds {
            let of_kind =
                || self.jobs.values().filter(|entry| entry.job.kind == *name && entry.stand != Stand::Broken);
            let count =
                |want: fn(&JobState) -> bool| of_kind().filter(|entry| want(&entry.job.state)).count() as u64;
            let counted = (
                count(|state| matches!(state, JobState::Queued { .. })),
                count(|state| matches!(state, JobState::Scheduled { .. })),
                count(|state| matches!(state, JobState::Blocked { .. })),
                count(|state| matches!(state, JobState::Running)),
                count(|state| matches!(state, JobState::Waiting { .. })),
            );
            let kept = (kind.queued.len() as u64, kind.scheduled, kind.blocked, kind.running, kind.waiting);
            if counted != kept {
                found.push(violation(
                    NAMES[7],
                    name.to_string(),
                    format!("counted {counted:?}, kept {kept:?}"),
                ));
            }
        }
    }

    /// I3: a live job that holds its key is the one that answers for it.
    fn job_holds_its_key(&self, id: JobId, entry: &JobEntry, found: &mut Vec<Violation>) {
        let Some(key) = entry.job.dedupe_key.clone().filter(|_| entry.job.dedupe_held) else { return };
        let holder = self.keys.get(&(entry.job.tenant.clone(), entry.job.kind.clone(), key));
        if holder != Some(&id) {
            found.push(violation(NAMES[8], id.to_string(), format!("its key is held by {holder:?}")));
        }
    }

    fn held_keys_are_found(&self, found: &mut Vec<Violation>) {
        for (key, id) in &self.keys {
            if self.jobs.get(id).is_none_or(|entry| !entry.job.dedupe_held) {
                found.push(violation(
                    NAMES[8],
                    format!("{key:?}"),
                    format!("held by {id}, which does not hold it"),
                ));
            }
        }
    }

    /// I18, S9: a parked lease holds nothing that it gave back, and is found.
    fn parked_leases_hold_what_they_keep(&self, found: &mut Vec<Violation>) {
        for (token, entry) in &self.leases {
            let lease = &entry.lease;
            if lease.waits().is_some() != self.parked.contains(token) {
                found.push(violation(
                    NAMES[13],
                    token.to_string(),
                    "the index differs from the lease".into(),
                ));
            }
            if entry.watch.wants.is_some() && lease.waits().is_none() {
                found.push(violation(NAMES[13], token.to_string(), "wants back, and is not parked".into()));
            }
            let Some(parked) = &lease.parked else { continue };
            let both = |needs: &Needs, given: &Needs| needs.without(given) == *needs;
            let apart = both(&lease.reservation.node, &parked.yielded.node)
                && both(&lease.reservation.fleet, &parked.yielded.fleet);
            if !apart {
                found.push(violation(NAMES[13], token.to_string(), "holds what it gave back".into()));
            }
        }
        for token in self.parked.iter().filter(|token| !self.leases.contains_key(*token)) {
            found.push(violation(NAMES[13], token.to_string(), "parked, and gone".into()));
        }
    }

    /// I27: what a job leaves behind may be due in a year; it must not stay until then.
    fn timers_have_live_jobs(&self, found: &mut Vec<Violation>) {
        for id in self.timers.jobs() {
            if self.jobs.get(&id).is_none_or(|entry| entry.job.state.is_final()) {
                found.push(violation(
                    NAMES[9],
                    id.to_string(),
                    "a timer is set for it, and it is not live".into(),
                ));
            }
        }
    }

    /// Who stands in line, whose key is held, and what may start of a class.
    fn lines_and_keys_match(&self, found: &mut Vec<Violation>) {
        let mut uses: BTreeMap<KeyScope, KeyUse> = BTreeMap::new();
        for scope in self.leases.values().filter_map(|entry| held_scope(&entry.lease)) {
            uses.entry(scope).or_default().held += 1;
        }
        let mut lines: BTreeMap<&KindName, BTreeSet<JobId>> = BTreeMap::new();
        for (id, class) in self.classes.iter() {
            let jobs = || class.queue.iter().filter_map(|job| self.jobs.get(&job)).map(|entry| &entry.job);
            lines.entry(&class.key.kind).or_default().extend(class.queue.iter());
            let mut keyed: BTreeMap<ConcurrencyKey, usize> = BTreeMap::new();
            if self.key_limit(&class.key.kind).is_some() {
                for scope in jobs().filter_map(scope_of) {
                    *keyed.entry(scope.2.clone()).or_default() += 1;
                    uses.entry(scope).or_default().classes.insert(id);
                }
            }
            let kept =
                class.ready.iter().flat_map(|ready| ready.waiting().map(|(key, jobs)| (key.clone(), jobs)));
            if kept.collect::<BTreeMap<_, _>>() != keyed || class.ready.is_some() == keyed.is_empty() {
                let detail = format!("by key {keyed:?}, kept {:?}", class.ready);
                found.push(violation(NAMES[12], id.to_string(), detail));
            }
            let may_start = |job: &&Job| scope_of(job).is_none_or(|scope| self.is_key_open(&scope));
            let first = jobs().filter(may_start).min_by_key(|job| (Reverse(job.priority), job.sequence));
            let kept = class.startable().heads().next().map(|(_, _, job)| job);
            if !keyed.is_empty() && first.map(|job| job.id) != kept {
                let detail = format!("{:?} may start first, kept {kept:?}", first.map(|job| job.id));
                found.push(violation(NAMES[12], id.to_string(), detail));
            }
        }
        if uses != self.key_uses {
            let detail = format!("counted {uses:?}, kept {:?}", self.key_uses);
            found.push(violation(NAMES[12], "keys".into(), detail));
        }
        for (name, kind) in &self.kinds {
            let Some(line) = &kind.line else { continue };
            let counted = lines.remove(name).unwrap_or_default();
            if line.iter().collect::<BTreeSet<_>>() != counted || line.len() != counted.len() {
                found.push(violation(
                    NAMES[12],
                    name.to_string(),
                    "its line is not that of its queues".into(),
                ));
            }
        }
    }

    /// S6 rests on these sums.
    fn tenants_use_what_their_leases_take(&self, found: &mut Vec<Violation>) {
        let counted = self.count_tenants();
        if counted != self.tenants {
            let detail = format!("counted {counted:?}, kept {:?}", self.tenants);
            found.push(violation(NAMES[10], "tenants".into(), detail));
        }
    }
}

fn violation(invariant: &'static str, subject: String, detail: String) -> Violation {
    Violation { invariant, subject, detail }
}
