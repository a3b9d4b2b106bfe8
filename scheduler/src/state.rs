//! The state: everything that the leader knows. [`State::evolve`](State) in `state/evolve.rs` is its only mutator; the
//! rest of the crate reads it. Loading the rows gives the same `durable()` as having lived through the events.

pub(crate) mod breaker;
mod dirty;
mod evolve;
pub(crate) mod flows;
mod holders;
mod jobs;
pub(crate) mod nodes;
pub(crate) mod outbox;
mod packed;
mod rates;
mod roster;
mod runs;
pub(crate) mod tenants;
mod timers;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use self::outbox::WebhookEntry;
use crate::{
    cron::CronState,
    deferral::Deferral,
    family::Child,
    ids::{
        CronName, DedupeKey, Epoch, FencingToken, JobId, KindName, NodeName, Sequence, SlotName, Tenant,
        WorkflowId,
    },
    job::{Job, JobState, ScheduledCause},
    kind::Kind,
    lease::{Lease, Phase, RevokeReason, Watch, expiry, returns_by, start_window},
    place::{
        ClassId,
        classes::{ClassKey, Classes},
        earmarks::Earmarks,
        hard_time_limit,
        index::Index,
        keyed::{KeyScope, KeyUse},
        queue::Queue,
        reacquire,
        timeline::{Joined, Timeline},
    },
    rate::Bucket,
    rows::{Changes, Durable, JobRows},
    slots::{Ledger, Scope, Slot},
    sorted::Sorted,
    time::{Mono, Now, Wall},
    workflow::Workflow,
};

pub(crate) use self::{
    dirty::Dirty,
    evolve::slots::LONGEST_THROTTLE,
    flows::Flows,
    holders::Holders,
    jobs::{Jobs, Seen},
    nodes::{Live, Mask, NodeEntry, silence},
    outbox::Outbox,
    rates::Throughput,
    roster::Nodes,
    runs::Runs,
    tenants::Tenants,
    timers::{Due, Timers},
};

/// Ceilings of the whole. Past them enqueues are refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Jobs that are not final.
    pub max_live_jobs: u64,
    /// Distinct combinations of kind, needs, selector, tenant and rounded hard time limit among queued jobs.
    pub max_classes: u32,
    /// How many parents may stand above a job.
    pub tree_depth: u8,
    /// Children ever enqueued under one parent.
    pub children: u32,
    /// Live jobs under one root.
    pub descendants: u32,
    /// Jobs placed in one tick; then heartbeats have their turn.
    pub placements_per_tick: u32,
    /// Members of workflows that their gates, a cancel or a deadline move in one turn of theirs; the rest follows.
    pub workflow_moves: u32,
    /// Jobs that memory holds as they are; of the others those that wait are packed, which makes a look at one slower.
    pub whole_jobs: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_live_jobs: 20_000_000,
            max_classes: 65_536,
            tree_depth: 16,
            children: 1000,
            descendants: 10_000,
            placements_per_tick: 512,
            workflow_moves: 1024,
            whole_jobs: 8192,
        }
    }
}

/// A job in memory: its row, and where it waits.
#[derive(Debug, Clone)]
pub(crate) struct JobEntry {
    pub(crate) job: Job,
    pub(crate) stand: Stand,
    /// When it came to wait where it waits.
    pub(crate) joined: Joined,
    pub(crate) since: Now,
}

impl JobEntry {
    /// What a scheduled job waits for.
    pub(crate) fn waiting_for_time(&self) -> Option<Deferral> {
        match self.job.state {
            JobState::Scheduled { until, cause: ScheduledCause::Backoff } => {
                Some(Deferral::Backoff { until })
            }
            JobState::Scheduled { until, cause: ScheduledCause::RunAt } => Some(Deferral::RunAt { until }),
            JobState::Blocked { .. }
            | JobState::Queued { .. }
            | JobState::Running
            | JobState::Waiting { .. }
            | JobState::Succeeded { .. }
            | JobState::Dead { .. }
            | JobState::Cancelled { .. }
            | JobState::Expired { .. } => None,
        }
    }
}

/// Where a job waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stand {
    /// In the queue of its class.
    Class(ClassId),
    /// Queued, but an earlier execution is not known to be gone.
    NotReaped,
    /// Queued or scheduled, but set aside until an operator looks at it.
    Broken,
    /// It does not wait for placement.
    Nowhere,
}

/// A kind and its figures.
#[derive(Debug, Clone)]
pub(crate) struct KindEntry {
    pub(crate) kind: Kind,
    /// Its jobs that wait in their classes, in the order of their enqueues; none: it is not in strict order.
    pub(crate) line: Option<Queue>,
    /// Jobs queued, by the time since when; the first is the oldest.
    pub(crate) queued: Sorted<(Wall, JobId)>,
    pub(crate) scheduled: u64,
    /// Members of workflows that wait for others.
    pub(crate) blocked: u64,
    pub(crate) running: u64,
    /// Parents that wait for their children.
    pub(crate) waiting: u64,
    pub(crate) arrivals: Throughput,
    pub(crate) grants: Throughput,
    pub(crate) completions: Throughput,
    pub(crate) runs: Runs,
    pub(crate) last_grant: Option<Mono>,
}

impl KindEntry {
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            line: kind.policy.fifo.then(Queue::default),
            kind,
            queued: Sorted::default(),
            scheduled: 0,
            blocked: 0,
            running: 0,
            waiting: 0,
            arrivals: Throughput::default(),
            grants: Throughput::default(),
            completions: Throughput::default(),
            runs: Runs::default(),
            last_grant: None,
        }
    }

    /// What counts towards its cap.
    pub(crate) fn depth(&self) -> u64 {
        self.queued.len() as u64 + self.scheduled + self.blocked
    }
}

/// A lease in memory: its row, and what the leader knows beside.
#[derive(Debug, Clone)]
pub(crate) struct LeaseEntry {
    pub(crate) lease: Lease,
    pub(crate) watch: Watch,
}

/// See the module.
#[derive(Debug, Clone)]
pub struct State {
    pub(crate) epoch: Epoch,
    pub(crate) limits: Limits,
    /// When this leader began.
    pub(crate) began: Now,
    /// Nodes had time to come back, or none is still to come: "impossible" may be said.
    pub(crate) warm: bool,
    /// Grants and enqueues of this epoch so far.
    pub(crate) grants: u64,
    pub(crate) enqueues: u64,
    pub(crate) kinds: BTreeMap<KindName, KindEntry>,
    pub(crate) slots: BTreeMap<SlotName, Slot>,
    /// Capacity and use of the fleet slots.
    pub(crate) fleet: Ledger,
    /// Who holds them.
    pub(crate) holders: Holders,
    /// Per fleet slot, raised whenever a unit of it becomes available.
    pub(crate) gains: BTreeMap<SlotName, u64>,
    /// Of the fleet slots with a rate.
    pub(crate) buckets: BTreeMap<SlotName, Bucket>,
    /// When the throttles of slots end.
    pub(crate) throttles: BTreeMap<SlotName, Mono>,
    pub(crate) nodes: Nodes,
    /// Who is owed how much, and takes how much.
    pub(crate) tenants: Tenants,
    /// Nodes of which something became available, or that went away, since placement last looked at all classes: what
    /// fits may fit now, and the reason of what does not may be another.
    pub(crate) gained: BTreeSet<NodeName>,
    /// Fleet slots of which something became available since then.
    pub(crate) gained_fleet: BTreeSet<SlotName>,
    pub(crate) jobs: Jobs,
    /// How many of them stand aside.
    pub(crate) aside: u64,
    pub(crate) leases: BTreeMap<FencingToken, LeaseEntry>,
    /// The live lease of a job. A job without an entry may be granted.
    pub(crate) lease_of: BTreeMap<JobId, FencingToken>,
    pub(crate) keys: BTreeMap<(Tenant, KindName, DedupeKey), JobId>,
    /// Concurrency keys that are held, or waited for.
    pub(crate) key_uses: BTreeMap<KeyScope, KeyUse>,
    /// Live jobs by the root of their tree, without the root.
    pub(crate) descendants: BTreeMap<JobId, u32>,
    /// Live jobs by their parent, which may be final.
    pub(crate) family: BTreeMap<JobId, BTreeSet<JobId>>,
    /// Leases whose process is parked.
    pub(crate) parked: BTreeSet<FencingToken>,
    /// A key may be held by leases alone that wait for whoever waits for it: the next tick looks.
    pub(crate) keys_changed: bool,
    /// How much parked leases may keep may be less than when they parked: the next tick looks.
    pub(crate) parking_changed: bool,
    /// Parents whose wait may be over: the next tick looks, and lets them go on.
    pub(crate) woken: BTreeSet<JobId>,
    pub(crate) crons: BTreeMap<CronName, CronState>,
    /// Of those: more of the timetable has to be known.
    pub(crate) unplanned: BTreeSet<CronName>,
    pub(crate) flows: Flows,
    pub(crate) outbox: Outbox,
    pub(crate) classes: Classes,
    /// Units that are kept for large jobs. None of it is stored: a new leader elects anew.
    pub(crate) earmarks: Earmarks,
    /// Over nodes and classes.
    pub(crate) index: Index,
    pub(crate) timers: Timers,
    pub(crate) dirty: Dirty,
}

impl State {
    /// What a new leader knows: the rows, and that it counts its takeover as a heartbeat from every holder.
    #[must_use]
    pub fn load(epoch: Epoch, limits: Limits, rows: Durable, now: Now) -> Self {
        let mut state = Self {
            epoch,
            limits,
            began: now,
            warm: false,
            grants: 0,
            enqueues: 0,
            kinds: rows.kinds.into_iter().map(|(name, kind)| (name, KindEntry::new(kind))).collect(),
            slots: BTreeMap::new(),
            fleet: Ledger::default(),
            holders: Holders::default(),
            gains: BTreeMap::new(),
            buckets: BTreeMap::new(),
            throttles: BTreeMap::new(),
            nodes: Nodes::default(),
            tenants: Tenants::default(),
            gained: BTreeSet::new(),
            gained_fleet: BTreeSet::new(),
            jobs: Jobs::default(),
            aside: 0,
            leases: BTreeMap::new(),
            lease_of: BTreeMap::new(),
            keys: BTreeMap::new(),
            key_uses: BTreeMap::new(),
            descendants: BTreeMap::new(),
            family: BTreeMap::new(),
            parked: BTreeSet::new(),
            keys_changed: true,
            parking_changed: true,
            woken: BTreeSet::new(),
            crons: BTreeMap::new(),
            unplanned: BTreeSet::new(),
            flows: Flows::default(),
            outbox: Outbox::default(),
            classes: Classes::default(),
            earmarks: Earmarks::default(),
            index: Index::default(),
            timers: Timers::default(),
            dirty: Dirty::default(),
        };
        for (name, slot) in rows.slots {
            if let Scope::Fleet { capacity } = slot.scope {
                state.fleet.set_capacity(&name, capacity);
            }
            if let Some(until) = slot.paused.and_then(|pause| pause.until) {
                state.timers.at_wall(until, Due::SlotPause(name.clone()));
            }
            state.load_bucket(&slot, now);
            state.throttle(&slot, now);
            state.slots.insert(name, slot);
        }
        for (name, node) in rows.nodes {
            let entry = NodeEntry::loaded(node, now);
            if let Some(by) = entry.drain_by {
                state.timers.at(by, Due::Drain(name.clone()));
            }
            state.nodes.insert(name, entry);
        }
        state.warm = state.nodes.is_empty();
        for (tenant, policy) in rows.tenants {
            state.tenants.declare(&tenant, Some(policy));
        }
        for (name, entry) in rows.crons {
            state.crons.insert(name.clone(), CronState::new(entry));
            state.follow_cron(&name);
        }
        for (name, webhook) in rows.webhooks {
            state.outbox.webhooks.insert(name, WebhookEntry::new(webhook));
        }
        rows.deliveries.into_values().for_each(|delivery| state.outbox.put(delivery));
        for lease in rows.leases.into_values() {
            state.load_lease(lease, now);
        }
        state.tenants = state.count_tenants();
        let workflows: Vec<WorkflowId> = rows.workflows.keys().copied().collect();
        rows.workflows.into_values().for_each(|workflow| state.flows.put(workflow));
        state.load_jobs(rows.jobs, &rows.classes, now);
        for id in workflows {
            state.await_deadlines(id);
            state.flows.missing(id, |job| state.jobs.contains_key(&job));
            state.flows.resume(id);
        }
        state.limit_loaded(now);
        let saved = state.classes.iter().filter(|(_, class)| class.saved);
        let saved: BTreeSet<String> = saved.map(|(_, class)| class.key.text()).collect();
        // A timeline that no queued job needs any more: its row goes with the first turn.
        let orphans = rows.classes.into_keys().filter(|text| !saved.contains(text));
        orphans.for_each(|text| state.dirty.delete_orphan_class(text));
        state.timers.at(now.mono.after(crate::place::WARM_UP), Due::WarmUp);
        state.timers.at(now.mono.after(crate::place::SAVE_EVERY), Due::SaveTimelines);
        state.index_anew();
        state.follow();
        state
    }

    /// From now on these ceilings count. What is above a lowered one stays.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Whether a parent may wait for so many children at once. A wait for more is refused, whatever they are.
    #[must_use]
    pub fn may_wait_for(&self, children: usize) -> bool {
        children as u64 <= u64::from(self.limits.children)
    }

    fn load_bucket(&mut self, slot: &Slot, now: Now) {
        let Some(rate) = slot.rate else { return };
        let bucket = slot.full_at.map_or(Bucket::full(now), |at| Bucket::loaded(rate, at, now));
        self.buckets.insert(slot.name.clone(), bucket);
    }

    /// How long until the rate of a slot allows that many units: zero if it does or there is none, none if it never
    /// will.
    pub(crate) fn token_wait(&self, slot: &SlotName, amount: u32, now: Now) -> Option<Duration> {
        let rate = self.slots.get(slot).and_then(|slot| slot.rate);
        match (rate, self.buckets.get(slot)) {
            (Some(rate), Some(bucket)) => bucket.wait(rate, amount, now),
            (Some(_) | None, _) => Some(Duration::ZERO),
        }
    }

    fn load_lease(&mut self, lease: Lease, now: Now) {
        let watch = Watch {
            phase: Phase::Granted,
            expires: expiry(now.mono, lease.length),
            since: now.mono,
            loaded: true,
            ordinal: None,
            answered: false,
            spooled: false,
            kept: false,
            spared: false,
            wants: None,
            revoked: None,
            started_at: None,
            progress: None,
            checkpoint: None,
            hard_limit: Duration::ZERO,
            returns_by: now.mono,
        };
        if lease.waits().is_some() {
            self.parked.insert(lease.token);
        }
        if lease.stage.is_live() {
            self.timers.at(watch.expires, Due::Lease(lease.token));
            self.lease_of.insert(lease.job, lease.token);
            self.charge_fleet(lease.token, &lease.reservation.fleet);
        }
        if let Some(node) = self.nodes.get_mut(&lease.node) {
            node.ledger.take(&lease.reservation.node);
            node.leases.insert(lease.token);
        }
        self.hold_key(&lease);
        self.leases.insert(lease.token, LeaseEntry { lease, watch });
    }

    /// When loaded leases give back what they take, as far as their jobs and kinds tell.
    fn limit_loaded(&mut self, now: Now) {
        for entry in self.leases.values_mut() {
            let job = self.jobs.get(&entry.lease.job).map(|entry| &entry.job);
            let policy = self.kinds.get(&entry.lease.kind).map(|kind| kind.kind.policy.clone());
            let policy = policy.unwrap_or_default();
            entry.watch.hard_limit = job.map_or(policy.hard_time_limit, |job| hard_time_limit(job, &policy));
            let start = now.mono.after(start_window(entry.lease.length));
            entry.watch.returns_by = returns_by(start, entry.watch.hard_limit);
        }
    }

    fn load_jobs(&mut self, jobs: JobRows, timelines: &BTreeMap<String, crate::rows::ClassRow>, now: Now) {
        for job in jobs {
            let id = job.id;
            let (state, created) = (job.state.clone(), job.stale_at);
            self.index_live(&job);
            if job.cancel_requested
                && let Some(lease) = self.leases.get_mut(&job.token)
            {
                lease.watch.revoked = Some(RevokeReason::Cancelled);
            }
            let entry = JobEntry { job, stand: Stand::Nowhere, joined: Joined::default(), since: now };
            self.jobs.insert(id, entry);
            if let Some(stale_at) = created {
                self.timers.at_wall(stale_at, Due::Stale(id));
            }
            match state {
                JobState::Scheduled { until, cause } => self.await_loaded(id, until, cause, now),
                JobState::Blocked { since } => {
                    self.await_predecessors(id, now);
                    if let Some(entry) = self.jobs.get_mut(&id) {
                        entry.since.wall = since;
                    }
                }
                JobState::Queued { since } => self.rejoin_loaded(id, since, timelines, now),
                JobState::Waiting { .. } => self.await_children(id, now),
                JobState::Running
                | JobState::Succeeded { .. }
                | JobState::Dead { .. }
                | JobState::Cancelled { .. }
                | JobState::Expired { .. } => {}
            }
            self.jobs.settle(self.limits.whole_jobs);
        }
    }

    /// A queued job takes its old place, and its old part of the saved timeline of its class.
    fn rejoin_loaded(
        &mut self,
        id: JobId,
        since: Wall,
        timelines: &BTreeMap<String, crate::rows::ClassRow>,
        now: Now,
    ) {
        self.join(id, now);
        let Some(entry) = self.jobs.get_mut(&id) else { return };
        entry.since.wall = since;
        let Stand::Class(class) = entry.stand else { return };
        let Some(class) = self.classes.get_mut(class) else { return };
        let is_first = class.queue.len() == 1;
        if is_first && let Some(row) = timelines.get(&class.key.text()) {
            class.timeline = Timeline::load(&row.timeline, now);
            class.saved = true;
        }
        entry.joined = class.timeline.join_loaded(since, now);
    }

    /// The epoch of this leader.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Whether a command about this job needs no `prior`: it is live, or ended or was deleted in this turn.
    #[must_use]
    pub fn knows_job(&self, id: JobId) -> bool {
        self.jobs.contains_key(&id) || self.dirty.is_deleted(id)
    }

    /// Whether the holder of this dedupe key is in memory.
    #[must_use]
    pub fn knows_key(&self, tenant: &Tenant, kind: &KindName, key: &DedupeKey) -> bool {
        self.keys.contains_key(&(tenant.clone(), kind.clone(), key.clone()))
    }

    /// A job that is live, or became final in this turn.
    #[must_use]
    pub fn job(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(&id).map(|entry| &entry.job)
    }

    /// Whether a command about this workflow needs no `prior`: it is live, or ended or was deleted in this turn.
    #[must_use]
    pub fn knows_workflow(&self, id: WorkflowId) -> bool {
        self.flows.get(id).is_some() || self.dirty.is_workflow_deleted(id)
    }

    /// A workflow that is live, or became final in this turn.
    #[must_use]
    pub fn workflow(&self, id: WorkflowId) -> Option<&Workflow> {
        self.flows.get(id).map(|entry| &entry.workflow)
    }

    /// What a member of a workflow is handed: those before it in declared order, with their ends; one without an end was
    /// not waited for. None: it waited for nobody.
    #[must_use]
    pub fn inputs_of(&self, job: &Job) -> Option<Vec<Child>> {
        let member = job.workflow?;
        let inputs = self.workflow(member.workflow)?.inputs(member.place)?;
        Some(inputs.into_iter().map(|(job, end)| Child { job, end }).collect())
    }

    /// A declared kind.
    #[must_use]
    pub fn kind(&self, name: &KindName) -> Option<&Kind> {
        self.kinds.get(name).map(|entry| &entry.kind)
    }

    /// All declared kinds, by name.
    pub fn kinds(&self) -> impl Iterator<Item = &Kind> {
        self.kinds.values().map(|entry| &entry.kind)
    }

    /// When the next [`Tick`](crate::Command::Tick) is due at the latest; none: nothing is.
    #[must_use]
    pub fn next_deadline(&self, now: Now) -> Option<Mono> {
        self.timers.next(now)
    }

    /// What this turn changed. The caller commits it, or drops this state.
    pub fn take_changes(&mut self) -> Changes {
        let dirty = self.dirty.take();
        dirty.into_changes(self)
    }

    /// The turn is durable: jobs that became final leave memory.
    pub fn committed(&mut self) {
        for id in self.dirty.end_turn() {
            if self.jobs.get(&id).is_some_and(|entry| entry.job.state.is_final())
                && let Some(entry) = self.jobs.remove(&id)
            {
                self.forget_key(&entry.job);
            }
        }
        for id in self.dirty.end_workflows() {
            if !self.flows.is_live(id) {
                self.flows.remove(id);
            }
        }
        self.jobs.settle(self.limits.whole_jobs);
    }

    /// What the store holds once this turn is committed.
    #[must_use]
    pub fn durable(&self) -> Durable {
        let live = |entry: &Seen<'_>| !entry.job.state.is_final();
        let webhooks = self.outbox.webhooks.values();
        Durable {
            kinds: self.kinds.iter().map(|(name, entry)| (name.clone(), entry.kind.clone())).collect(),
            slots: self.slots.clone(),
            nodes: self.nodes.iter().map(|(name, entry)| (name.clone(), entry.node.clone())).collect(),
            tenants: self.tenants.declared().map(|(name, policy)| (name.clone(), policy)).collect(),
            crons: self.crons.iter().map(|(name, cron)| (name.clone(), cron.entry.clone())).collect(),
            workflows: self
                .flows
                .iter()
                .filter(|(_, entry)| !entry.workflow.state.is_final())
                .map(|(id, entry)| (id, entry.workflow.clone()))
                .collect(),
            jobs: self.jobs.values().filter(live).map(|entry| entry.job.clone()).collect(),
            leases: self.leases.iter().map(|(token, entry)| (*token, entry.lease.clone())).collect(),
            webhooks: webhooks.map(|entry| (entry.webhook.name.clone(), entry.webhook.clone())).collect(),
            deliveries: self.outbox.deliveries.clone(),
            classes: BTreeMap::new(),
        }
    }

    pub(crate) fn next_token(&self) -> FencingToken {
        FencingToken::mint(self.epoch, self.grants + 1)
    }

    pub(crate) fn next_sequence(&self) -> Sequence {
        Sequence::mint(self.epoch, self.enqueues + 1)
    }

    pub(crate) fn live_jobs(&self) -> u64 {
        (self.jobs.len() - self.dirty.final_jobs()) as u64
    }

    /// Whether an execution of a job runs, or waits for children without having ended.
    pub(crate) fn has_process(&self, job: &Job) -> bool {
        matches!(job.state, JobState::Running) || self.parked_wait(job.id).is_some()
    }

    /// The class that a job is or would be in.
    pub(crate) fn class_key(&self, job: &Job) -> Option<ClassKey> {
        let own = ClassKey::of(job, &self.kinds.get(&job.kind)?.kind);
        let handed = job.workflow.is_some_and(|member| {
            self.workflow(member.workflow).is_some_and(|workflow| workflow.has_inputs(member.place))
        });
        Some(ClassKey { inputs: own.inputs || handed, ..own })
    }

    /// Why a job waits beside the queue of its class, but for a time.
    pub(crate) fn hold_reason(&self, entry: &JobEntry) -> Option<Deferral> {
        match entry.stand {
            Stand::Broken => Some(Deferral::Broken),
            Stand::NotReaped => {
                let lease = self.lease_of.get(&entry.job.id).and_then(|token| self.leases.get(token))?;
                Some(Deferral::NotReaped { node: lease.lease.node.clone() })
            }
            Stand::Nowhere => {
                if let Some(reason) = reacquire::wanting(self, entry.job.id) {
                    return Some(reason);
                }
                if matches!(entry.job.state, JobState::Blocked { .. }) {
                    return Some(Deferral::Blocked { predecessors: self.predecessors(&entry.job) });
                }
                let open = self.child_wait(entry.job.id)?.unfinished();
                Some(Deferral::WaitingChildren { children: u32::try_from(open).unwrap_or(u32::MAX) })
            }
            Stand::Class(_) => None,
        }
    }
}
