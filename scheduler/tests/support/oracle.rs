//! An oracle for placement, written from the rules and not from the code: after a tick that says that nothing is left
//! to do, no queued job fits on any node, and nothing was granted over the head of a job that came first and fitted.
//!
//! It lives on what a bystander sees: the stored rows, and the events.

mod backoff;
mod budgets;
mod earmarks;
mod explained;
mod lines;
mod order;
mod parked;
mod rates;
mod routing;
mod waits;
mod workflows;

use std::collections::{BTreeMap, BTreeSet};

use tenure_scheduler::{
    ClassId, Durable, Event, FencingToken, Group, Job, JobId, JobState, Kind, KindName, Lease, MemberOf,
    Mono, Needs, Node, NodeName, Now, Ordinal, Phase, Pressure, RevokeReason, Scope, Selector, SlotName,
    Tenant,
};

pub(crate) use self::workflows::ended_wrong;
use self::{backoff::Backoffs, earmarks::Earmarks};

/// What the jobs of a class have in common.
type Key = (KindName, Needs, Selector, Tenant, (u64, bool));

#[derive(Debug, Clone)]
struct Session {
    suspect: bool,
    leaving: bool,
    blocked: bool,
    credits: usize,
    unanswered: BTreeSet<FencingToken>,
    sent: u64,
    hold_until: Option<u64>,
    pressure: Pressure,
    pressure_at: Mono,
    /// Its agent hands an execution what it goes on from.
    inputs: bool,
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Oracle {
    sessions: BTreeMap<NodeName, Session>,
    masks: BTreeSet<(NodeName, Key)>,
    keys: BTreeMap<ClassId, Key>,
    broken: BTreeSet<JobId>,
    /// Leases that the server wants back.
    revoked: BTreeSet<FencingToken>,
    /// Parked leases that want back what they gave.
    wants: BTreeSet<FencingToken>,
    earmarks: Earmarks,
    backoffs: Backoffs,
    queued: order::Queued,
    rates: rates::Rates,
    budgets: budgets::Budgets,
}

impl Oracle {
    /// What another leader finds when it begins.
    pub(crate) fn found(now: Now, rows: &Durable) -> Self {
        let budgets = budgets::Budgets::found(rows);
        let (queued, rates) = (order::Queued::found(now, rows), rates::Rates::found(now, &rows.slots));
        let cancelled = rows.leases.values().filter(|lease| {
            rows.jobs.get(&lease.job).is_some_and(|job| job.cancel_requested && job.token == lease.token)
        });
        let revoked = cancelled.map(|lease| lease.token).collect();
        Self { queued, rates, budgets, revoked, backoffs: Backoffs::found(rows), ..Self::default() }
    }

    /// Takes over what one command did; `before` are the rows that it found, `rows` those after it.
    pub(crate) fn observe(&mut self, now: Now, events: &[Event], before: &Durable, rows: &Durable) {
        waits::none_ended_early(events, before, rows);
        self.earmarks.begin();
        for event in events {
            self.observe_one(now, event, rows);
            self.backoffs.observe(now.mono, event);
            self.earmarks.observe(now, event, rows);
            self.rates.observe(now, event);
            self.budgets.observe(now, event, rows);
        }
        self.earmarks.end(now, rows);
        self.queued.observe(now, events, rows);
    }

    fn observe_one(&mut self, now: Now, event: &Event, rows: &Durable) {
        if let Event::SessionOpened { node, credits, pressure, inputs, .. } = event {
            self.masks.retain(|(masked, _)| masked != node);
            let session = Session {
                suspect: false,
                leaving: false,
                blocked: false,
                credits: usize::try_from(*credits).unwrap(),
                unanswered: BTreeSet::new(),
                sent: 0,
                hold_until: None,
                pressure: pressure.clone(),
                pressure_at: now.mono,
                inputs: *inputs,
            };
            self.sessions.insert(node.clone(), session);
        } else if let Event::SessionClosed { node } | Event::NodeForgotten(node) = event {
            self.sessions.remove(node);
            if matches!(event, Event::NodeForgotten(_)) {
                self.masks.retain(|(masked, _)| masked != node);
            }
        } else if let Event::NodeHeard { node, seen, .. } = event {
            self.heard(node, *seen);
        } else if let Event::NodeSuspected(node) = event {
            self.with(node, |session| session.suspect = true);
        } else if let Event::NodeLeaving(node) = event {
            self.with(node, |session| session.leaving = true);
        } else if let Event::SessionBlocked { node, blocked } = event {
            self.with(node, |session| session.blocked = *blocked);
        } else if let Event::MessageSent { node } = event {
            self.with(node, |session| session.sent += 1);
        } else if let Event::NodePressed { node, pressure } = event {
            self.with(node, |session| {
                session.pressure = pressure.clone();
                session.pressure_at = now.mono;
            });
        } else if let Event::Granted { lease, .. } = event {
            self.with(&lease.node, |session| {
                session.unanswered.insert(lease.token);
            });
        } else if let Event::Phased { token, phase, .. } = event {
            if *phase >= Phase::Accepted {
                self.answered(*token);
            } else if let Some(lease) = rows.leases.get(token) {
                // One that an earlier session read takes a credit of this one, too.
                self.with(&lease.node, |session| {
                    session.unanswered.insert(*token);
                });
            }
        } else if let Event::AttemptEnded(end) = event {
            self.answered(end.token);
            // Of a running job only the lease was set aside.
            self.broken.remove(&end.job);
        } else if let Event::Revoked { token, reason } = event {
            self.revoked.insert(*token);
            if *reason == RevokeReason::Unanswered
                && let Some(lease) = rows.leases.get(token)
            {
                self.with(&lease.node, |session| session.hold_until = Some(session.sent + 1));
            }
        } else if let Event::Masked { node, class, job, .. } = event {
            if let Some(key) = rows.jobs.get(job).map(|job| key_of(job, rows)) {
                self.keys.insert(*class, key.clone());
                self.masks.insert((node.clone(), key));
            }
        } else if let Event::Unmasked { node, class } = event {
            if let Some(key) = self.keys.get(class) {
                self.masks.remove(&(node.clone(), key.clone()));
            }
        } else if let Event::Wants(token) = event {
            self.wants.insert(*token);
        } else if let Event::Unparked { token, .. } = event {
            self.wants.remove(token);
        } else if let Event::SetAside(job) = event {
            self.broken.insert(*job);
        } else if let Event::Requeued(job) = event {
            self.broken.remove(&job.id);
        } else if let Event::Ended { job, .. } = event {
            self.broken.remove(job);
        }
    }

    fn with(&mut self, node: &NodeName, change: impl FnOnce(&mut Session)) {
        if let Some(session) = self.sessions.get_mut(node) {
            change(session);
        }
    }

    fn heard(&mut self, node: &NodeName, seen: Ordinal) {
        self.with(node, |session| {
            session.suspect = false;
            let seen = seen.0.min(session.sent);
            session.hold_until = session.hold_until.filter(|until| *until > seen);
        });
    }

    fn answered(&mut self, token: FencingToken) {
        for session in self.sessions.values_mut() {
            session.unanswered.remove(&token);
        }
    }

    /// At rest nothing that is queued can be placed. What can, and where.
    pub(crate) fn lost_wake_up(&self, now: Now, rows: &Durable) -> Option<(JobId, NodeName)> {
        self.earmarks.at_rest(rows);
        let used = Used::of(rows, rows.leases.values());
        let fits = |job: &Job| {
            let fits = self.fits(now, rows, &used, &self.rates, &self.sessions, &self.earmarks, job);
            Some((job.id, fits?))
        };
        self.candidates(rows).find_map(fits)
    }

    /// At rest no parent waits for nothing, nor without knowing what is known.
    pub(crate) fn at_rest_with_children(&self, rows: &Durable) {
        let idle = waits::waits_for_nothing(rows, &self.broken);
        assert_eq!(idle, None, "a parent waits for nothing");
        self.at_rest_with_parked(rows);
    }

    /// Every grant of a tick went to the first of the jobs that could have had it. Taken back from the last.
    pub(crate) fn at_rest_with_workflows(&self, now: Now, rows: &Durable) {
        if let Some(why) = workflows::waits_for_nothing(now, rows, &self.broken) {
            panic!("a workflow stands still: {why}");
        }
    }

    pub(crate) fn in_order(&self, now: Now, events: &[Event], rows: &Durable) {
        if !events.iter().any(|event| matches!(event, Event::Granted { .. })) {
            return;
        }
        let mut rows = rows.clone();
        let (mut sessions, mut rates) = (self.sessions.clone(), self.rates.clone());
        let mut earmarks = self.earmarks.clone();
        let mut past = self.clone();
        for event in events.iter().rev() {
            earmarks.take_back(event);
            let Event::Granted { lease, .. } = event else { continue };
            rows.leases.remove(&lease.token);
            past.backoffs.take_back(lease);
            let Some(granted) = rows.jobs.get_mut(&lease.job) else { continue };
            granted.state = JobState::Queued { since: now.wall };
            let granted = granted.clone();
            if let Some(session) = sessions.get_mut(&lease.node) {
                session.unanswered.remove(&lease.token);
            }
            rates.take_back(now, lease);
            let used = Used::of(&rows, rows.leases.values());
            earmarks.kept_from_none(now, &rows, &used, lease, &granted);
            let startable = self.candidates(&rows).filter(|job| lines::has_its_key(&rows, job));
            let heads = order::heads(&rows, startable).into_iter();
            let fitting =
                heads.filter(|job| past.fits(now, &rows, &used, &rates, &sessions, &earmarks, job).is_some());
            let waits_aside = |job: &Job| earmarks.of(job, &rows).is_none();
            if let Some(job) = order::first_before(now, &self.queued, &rows, &granted, fitting, waits_aside) {
                panic!("{} was granted before {}, which was first and fitted", granted.id, job.id);
            }
        }
    }

    /// Queued jobs that nothing but slots and nodes keeps.
    fn candidates<'a>(&'a self, rows: &'a Durable) -> impl Iterator<Item = &'a Job> {
        let held: BTreeSet<JobId> =
            rows.leases.values().filter(|lease| lease.stage.is_live()).map(|lease| lease.job).collect();
        rows.jobs.values().filter(move |job| {
            matches!(job.state, JobState::Queued { .. })
                && !held.contains(&job.id)
                && !self.broken.contains(&job.id)
        })
    }

    #[expect(clippy::too_many_arguments, reason = "everything that a fit depends on")]
    fn fits(
        &self,
        now: Now,
        rows: &Durable,
        used: &Used,
        rates: &rates::Rates,
        sessions: &BTreeMap<NodeName, Session>,
        earmarks: &Earmarks,
        job: &Job,
    ) -> Option<NodeName> {
        let kind = rows.kinds.get(&job.kind)?;
        let needs = &needs_of(job, kind);
        let has_turn = lines::has_its_turn(rows, job, self.candidates(rows)) && lines::has_its_key(rows, job);
        if kind.paused.is_some() || self.budgets.is_spent(now, kind) || !has_turn {
            return None;
        }
        for (slot, amount) in needs.iter() {
            let declared = rows.slots.get(slot)?;
            if declared.paused.is_some() || declared.throttled_until.is_some() {
                return None;
            }
            if let Scope::Fleet { capacity } = declared.scope
                && used.fleet(slot) + earmarks.kept(now, rows, job, None, slot) + u64::from(amount)
                    > u64::from(capacity)
            {
                return None;
            }
            if !rates.allows(now, slot, amount) {
                return None;
            }
        }
        let fits = |node: &&Node| {
            let kept = |slot: &SlotName| earmarks.kept(now, rows, job, Some(&node.name), slot);
            let taken = |slot: &SlotName| used.node(&node.name, slot) + kept(slot);
            self.fits_on(now, rows, taken, sessions.get(&node.name), job, needs, node)
        };
        rows.nodes.values().find(fits).map(|node| node.name.clone())
    }

    #[expect(clippy::too_many_arguments, reason = "everything that a fit depends on")]
    fn fits_on(
        &self,
        now: Now,
        rows: &Durable,
        taken: impl Fn(&SlotName) -> u64,
        session: Option<&Session>,
        job: &Job,
        needs: &Needs,
        node: &Node,
    ) -> bool {
        let Some(session) = session else { return false };
        if self.backoffs.keeps(now.mono, &node.name, &job.kind) {
            return false;
        }
        let labels = routing::allows(job, &rows.kinds[&job.kind], node);
        let kinds = node.kinds.contains(&job.kind) && !node.cordoned && node.draining.is_none();
        let heard = !session.suspect && !session.leaving && !session.blocked;
        let fresh = now.mono.0 - session.pressure_at.0 <= 15_000_000;
        let credit = session.unanswered.len() < session.credits && session.hold_until.is_none();
        let open = session.pressure.closed.iter().all(|closed| match &closed.group {
            Group::All => false,
            Group::Slot(slot) => needs.amount(slot) == 0,
            Group::Kind(kind) => *kind != job.kind,
        });
        let free = needs.iter().all(|(slot, amount)| {
            if matches!(rows.slots[slot].scope, Scope::Fleet { .. }) {
                return true;
            }
            let capacity = node.slots.get(slot).map_or(0, |capacity| capacity.units);
            let cap = session.pressure.caps.get(slot).map_or(capacity, |cap| capacity.min(*cap));
            taken(slot) + u64::from(amount) <= u64::from(cap)
        });
        let masked = self.masks.contains(&(node.name.clone(), key_of(job, rows)));
        let able = session.inputs || !is_handed_something(job, rows);
        able && labels && kinds && heard && fresh && credit && open && free && !masked
    }
}

/// With the slot by which a kind limits how many of its jobs run.
fn needs_of(job: &Job, kind: &Kind) -> Needs {
    let own = job.needs.as_ref().unwrap_or(&kind.policy.needs);
    let limit = kind.policy.max_running.map(|_| (SlotName::new(format!("kind:{}", kind.name)), 1));
    Needs::new(own.iter().map(|(slot, amount)| (slot.clone(), amount)).chain(limit))
}

/// Whether it goes on from other jobs' ends: those before it in its workflow, or its children's.
fn is_handed_something(job: &Job, rows: &Durable) -> bool {
    let is_member_after_others =
        |member: MemberOf| rows.workflows[&member.workflow].inputs(member.place).is_some();
    job.detached.is_some() || job.workflow.is_some_and(is_member_after_others)
}

fn key_of(job: &Job, rows: &Durable) -> Key {
    let kind = &rows.kinds[&job.kind];
    let limit = earmarks::limit(job, kind);
    let last = (limit, is_handed_something(job, rows));
    (job.kind.clone(), needs_of(job, kind), routing::both(job, kind), job.tenant.clone(), last)
}

/// What is taken, summed over the lease rows.
struct Used {
    fleet: BTreeMap<SlotName, u64>,
    nodes: BTreeMap<(NodeName, SlotName), u64>,
}

impl Used {
    fn of<'a>(rows: &Durable, leases: impl Iterator<Item = &'a Lease>) -> Self {
        let mut used = Self { fleet: BTreeMap::new(), nodes: BTreeMap::new() };
        for lease in leases {
            for (slot, amount) in lease.reservation.fleet.iter() {
                *used.fleet.entry(slot.clone()).or_default() += u64::from(amount);
            }
            for (slot, amount) in
                lease.reservation.node.iter().filter(|_| rows.nodes.contains_key(&lease.node))
            {
                *used.nodes.entry((lease.node.clone(), slot.clone())).or_default() += u64::from(amount);
            }
        }
        used
    }

    fn fleet(&self, slot: &SlotName) -> u64 {
        self.fleet.get(slot).copied().unwrap_or(0)
    }

    fn node(&self, node: &NodeName, slot: &SlotName) -> u64 {
        self.nodes.get(&(node.clone(), slot.clone())).copied().unwrap_or(0)
    }
}
