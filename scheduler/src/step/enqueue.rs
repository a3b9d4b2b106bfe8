//! Enqueue: every way to say no, in the order that callers can rely on; then the job is stored.

use std::time::Duration;

use crate::{
    budget::OnExhausted,
    command::Enqueue,
    effect::Reply,
    event::Event,
    ids::{FencingToken, KindName, Tenant},
    job::{Job, JobState, ScheduledCause},
    kind::{KindPolicy, PausePolicy},
    place::{
        classes::ClassKey,
        fit::{impossible, most_of},
        hold::{Deadlock, deadlock},
        order::Band,
    },
    refusal::{Refusal, nearest},
    slots::Needs,
    state::{KindEntry, State, Throughput},
    step::Step,
    time::{Mono, Now, Wall},
};

/// A refusal for a full queue says this when nothing is known of its drain rate.
const UNKNOWN_DRAIN: Duration = Duration::from_secs(30);

/// Bounds of the `retry_after` of a full queue.
const RETRY_AFTER: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(600));

/// A child is at most this much over the root of its tree.
const MOST_BOOST: i8 = 3;

/// The highest priority.
const HIGHEST: i8 = 100;

impl Step<'_> {
    pub(super) fn enqueue(&mut self, enqueue: Enqueue) -> Result<(), Refusal> {
        if let Some(lease) = &enqueue.lease {
            self.open_lease(lease)?;
        }
        let kind = kind_of(self.state, &enqueue.kind)?;
        if let Some(first) = self.same(&enqueue)? {
            self.reply(Reply::Enqueued { job: Box::new(first), deduplicated: true });
            return Ok(());
        }
        let job = check(self.state, self.now, kind, &enqueue, Ahead::default())?;
        self.emit(Event::Enqueued(Box::new(job.clone())));
        self.notify(job.id);
        self.reply(Reply::Enqueued { job: Box::new(job), deduplicated: false });
        Ok(())
    }

    /// The job that answers for this one: the same call came before, or its dedupe key is held.
    fn same(&self, enqueue: &Enqueue) -> Result<Option<Job>, Refusal> {
        if let Ok(job) = self.find(enqueue.job, enqueue.prior.by_id.as_deref()) {
            let same = job.fingerprint == enqueue.fingerprint && job.producer == enqueue.producer;
            return if same { Ok(Some(job)) } else { Err(Refusal::JobIdReused { job: enqueue.job }) };
        }
        let tenant = whose(self.state, enqueue)?;
        let Some(key) = &enqueue.dedupe_key else { return Ok(None) };
        let holder = self.state.keys.get(&(tenant.clone(), enqueue.kind.clone(), key.clone()));
        if let Some(id) = holder {
            return Ok(self.state.jobs.get(id).map(|entry| entry.job.clone()));
        }
        let prior = enqueue.prior.by_key.as_deref().filter(|job| {
            let same =
                job.dedupe_key.as_ref() == Some(key) && job.tenant == *tenant && job.kind == enqueue.kind;
            // Memory knows better: a job that it holds gave its key up, or it would have been found above.
            same && job.dedupe_held && !self.state.knows_job(job.id)
        });
        Ok(prior.cloned())
    }
}

/// Jobs that come before one in the same command, and are stored with it or not at all.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ahead {
    /// Of its kind.
    pub(super) of_kind: u64,
    /// Of any.
    pub(super) all: u64,
    /// Classes that nobody is in so far.
    pub(super) classes: u64,
}

/// A declared kind.
pub(super) fn kind_of<'a>(state: &'a State, name: &KindName) -> Result<&'a KindEntry, Refusal> {
    state.kinds.get(name).ok_or_else(|| Refusal::KindNotFound {
        kind: name.clone(),
        nearest: nearest(name.as_str(), state.kinds.keys(), |name| name.as_str()),
    })
}

/// Whose work it would be. Before its dedupe key is looked up, which is one of that tenant.
fn whose<'a>(state: &'a State, enqueue: &'a Enqueue) -> Result<&'a Tenant, Refusal> {
    let tenant = state.tenant_of(enqueue);
    let Some(id) = enqueue.parent else { return Ok(tenant) };
    let parent = state.jobs.get(&id).filter(|parent| parent.job.producer == enqueue.producer);
    if parent.is_none() {
        return Err(Refusal::ParentNotLive { parent: id });
    }
    if enqueue.limits.tenants.as_ref().is_some_and(|tenants| !tenants.contains(tenant)) {
        let producer = enqueue.producer.clone();
        return Err(Refusal::TenantNotAllowed { producer, tenant: tenant.clone() });
    }
    Ok(tenant)
}

/// A soft limit of its own may only shorten its kind's, and comes before the hard limit of the job.
fn check_soft_limit(policy: &KindPolicy, enqueue: &Enqueue) -> Result<(), Refusal> {
    let Some(own) = enqueue.soft_time_limit else { return Ok(()) };
    let field = "job.soft_time_limit";
    if let Some(kinds) = policy.soft_time_limit.filter(|kinds| own > *kinds) {
        let problem = format!("may only shorten the kind's, which is {} s", kinds.as_secs());
        return Err(Refusal::InvalidField { field, problem });
    }
    let hard = enqueue.hard_time_limit.unwrap_or(policy.hard_time_limit);
    if own >= hard {
        let problem = format!("must be below the hard limit, which is {} s", hard.as_secs_f64());
        return Err(Refusal::InvalidField { field, problem });
    }
    Ok(())
}

/// The job as it will be stored, or why not. That nothing is there under its id or dedupe key was checked before.
pub(super) fn check(
    state: &State,
    now: Now,
    kind: &KindEntry,
    enqueue: &Enqueue,
    ahead: Ahead,
) -> Result<Job, Refusal> {
    let policy = &kind.kind.policy;
    if enqueue.hard_time_limit.is_some_and(|own| own > policy.hard_time_limit) {
        return Err(Refusal::InvalidField {
            field: "job.hard_time_limit",
            problem: format!("may only shorten the kind's, which is {} s", policy.hard_time_limit.as_secs()),
        });
    }
    check_soft_limit(policy, enqueue)?;
    if enqueue.concurrency_key.is_some() && policy.concurrency.is_none() {
        return Err(Refusal::InvalidField {
            field: "job.concurrency_key",
            problem: format!("limits nothing: kind {} has no concurrency", enqueue.kind),
        });
    }
    let needs = enqueue.needs.as_ref().unwrap_or(&policy.needs);
    check_needs(state, needs)?;
    if kind.kind.paused == Some(PausePolicy::Reject) {
        return Err(Refusal::KindPaused { kind: enqueue.kind.clone() });
    }
    let refusing = policy.budget.as_ref().filter(|budget| budget.on_exhausted == OnExhausted::Refuse);
    if let (Some(budget), Some((counter, until))) = (refusing, kind.kind.exhausted(now.wall)) {
        let limit = budget.allowances.get(&counter).map_or(0, |allowance| allowance.amount);
        let retry_after = until.since(now.wall).max(RETRY_AFTER.0);
        return Err(Refusal::BudgetExhausted { kind: enqueue.kind.clone(), counter, limit, retry_after });
    }
    let depth = kind.depth() + ahead.of_kind;
    if let Some(cap) = policy.queue_cap.filter(|cap| depth >= u64::from(*cap)) {
        let depth = u32::try_from(depth).unwrap_or(u32::MAX);
        let retry_after = retry_after(kind, depth, cap, now.mono);
        return Err(Refusal::QueueFull { kind: enqueue.kind.clone(), cap, depth, retry_after });
    }
    let job = build(state, now, policy, enqueue)?;
    if let (Some(stale_at), JobState::Scheduled { until, .. }) = (job.stale_at, &job.state)
        && stale_at <= *until
    {
        return Err(Refusal::AlreadyStale);
    }
    if job.stale_at.is_some_and(|stale_at| stale_at <= now.wall) {
        return Err(Refusal::AlreadyStale);
    }
    check_tree(state, &job)?;
    if let Some(Deadlock { slot, asked, holder }) = deadlock(state, &job, &ClassKey::of(&job, &kind.kind)) {
        return Err(Refusal::WouldDeadlock { slot, asked, holder });
    }
    let limit = state.limits.max_classes;
    if state.classes.len() as u64 + ahead.classes >= u64::from(limit)
        && state.classes.find(&ClassKey::of(&job, &kind.kind)).is_none()
    {
        return Err(Refusal::ClassLimit { limit });
    }
    if state.live_jobs() + ahead.all >= state.limits.max_live_jobs {
        return Err(Refusal::StoreFull { limit: state.limits.max_live_jobs });
    }
    Ok(job)
}

fn check_needs(state: &State, needs: &Needs) -> Result<(), Refusal> {
    if let Some((slot, _)) = needs.iter().find(|(slot, _)| !state.slots.contains_key(*slot)) {
        return Err(Refusal::SlotNotFound {
            slot: slot.clone(),
            nearest: nearest(slot.as_str(), state.slots.keys(), |name| name.as_str()),
        });
    }
    let mut short = impossible(state, needs);
    short.iter_mut().for_each(|need| need.most = need.most.max(most_of(state, &need.slot)));
    if short.is_empty() { Ok(()) } else { Err(Refusal::ImpossibleNeeds { short }) }
}

fn check_tree(state: &State, job: &Job) -> Result<(), Refusal> {
    let limits = &state.limits;
    if job.depth > limits.tree_depth {
        return Err(Refusal::TreeLimit { guard: "depth", limit: u32::from(limits.tree_depth) });
    }
    let parent = job.parent.and_then(|parent| state.jobs.get(&parent));
    if parent.is_some_and(|parent| parent.job.children >= limits.children) {
        return Err(Refusal::TreeLimit { guard: "children", limit: limits.children });
    }
    if state.descendants.get(&job.root).is_some_and(|count| *count >= limits.descendants) {
        return Err(Refusal::TreeLimit { guard: "descendants", limit: limits.descendants });
    }
    Ok(())
}

/// The job as it will be stored.
fn build(state: &State, now: Now, policy: &KindPolicy, enqueue: &Enqueue) -> Result<Job, Refusal> {
    let parent = match enqueue.parent {
        Some(id) => {
            let live = state.jobs.get(&id).map(|entry| &entry.job);
            let open = |job: &&Job| !job.state.is_final() && !job.cancel_requested;
            let own = live.filter(|job| open(job) && job.producer == enqueue.producer);
            Some(own.ok_or(Refusal::ParentNotLive { parent: id })?)
        }
        None => None,
    };
    if let (Some(parent), Some(named)) = (parent, &enqueue.tenant)
        && *named != parent.tenant
    {
        let problem = format!("is not that of its parent, which is {}", parent.tenant);
        return Err(Refusal::InvalidField { field: "job.tenant", problem });
    }
    let run_at =
        enqueue.run_at.or(enqueue.delay.map(|delay| now.wall.after(delay))).filter(|at| *at > now.wall);
    let state_now = match run_at {
        Some(until) => JobState::Scheduled { until, cause: ScheduledCause::RunAt },
        None => JobState::Queued { since: now.wall },
    };
    let stale_after = enqueue.stale_after.or(policy.stale_after);
    Ok(Job {
        id: enqueue.job,
        sequence: state.next_sequence(),
        tenant: state.tenant_of(enqueue).clone(),
        producer: enqueue.producer.clone(),
        kind: enqueue.kind.clone(),
        state: state_now,
        version: 1,
        priority: match parent {
            Some(parent) => child_priority(state, parent, enqueue),
            None => enqueue.priority.unwrap_or(policy.priority),
        },
        needs: enqueue.needs.clone(),
        selector: enqueue.selector.clone(),
        prefer: enqueue.prefer.clone(),
        labels: enqueue.labels.clone(),
        dedupe_key: enqueue.dedupe_key.clone(),
        dedupe_held: enqueue.dedupe_key.is_some(),
        concurrency_key: enqueue.concurrency_key.clone(),
        fingerprint: enqueue.fingerprint,
        hard_time_limit: enqueue.hard_time_limit,
        soft_time_limit: enqueue.soft_time_limit,
        parent: enqueue.parent,
        root: parent.map_or(enqueue.job, |parent| parent.root),
        depth: parent.map_or(0, |parent| parent.depth.saturating_add(1)),
        children: 0,
        on_parent_cancel: enqueue.on_parent_cancel,
        on_parent_lost: enqueue.on_parent_lost,
        trace: enqueue.trace.clone(),
        payload_size: enqueue.payload_size,
        round: 1,
        failures: 0,
        losses: 0,
        returns: 0,
        returns_in_row: 0,
        token: FencingToken::NONE,
        last_outcome: None,
        left_result: None,
        last_node: None,
        granted_at: None,
        started_at: None,
        cancel_requested: false,
        created_at: now.wall,
        stale_at: stale_after.map(|after| now.wall.after(after)).filter(|at| *at < Wall::MAX),
        reason: None,
        waits: Vec::new(),
        detached: None,
        workflow: None,
    })
}

impl State {
    /// Whose work a job would be: what it names, else its parent's, else the default.
    #[must_use]
    pub fn tenant_of<'a>(&'a self, enqueue: &'a Enqueue) -> &'a Tenant {
        let parent = enqueue.parent.and_then(|id| self.jobs.get(&id)).map(|entry| &entry.job);
        let parent = parent.filter(|parent| parent.producer == enqueue.producer);
        let of_parent = parent.map(|parent| &parent.tenant);
        enqueue.tenant.as_ref().or(of_parent).unwrap_or(&enqueue.default_tenant)
    }
}

/// What a child asks for, or one more than its parent has: at most three over its root while that lives, or whoever
/// spawns much would come before everybody, and within the band of its parent at the least, or that would wait for work
/// that others of its own rank overtake. What its producer may give is a bound as well; only the band goes beyond that,
/// and only of a parent to which somebody else gave more.
fn child_priority(state: &State, parent: &Job, enqueue: &Enqueue) -> i8 {
    let root = state.jobs.get(&parent.root).map_or(parent.priority, |root| root.job.priority);
    let most =
        root.saturating_add(MOST_BOOST).min(enqueue.limits.max_priority.unwrap_or(HIGHEST)).min(HIGHEST);
    let wanted = enqueue.priority.unwrap_or(parent.priority.saturating_add(1));
    wanted.min(most).max(Band::of(parent.priority, Duration::ZERO).least())
}

/// When the depth is expected below the cap, by how fast the kind was granted lately.
fn retry_after(kind: &KindEntry, depth: u32, cap: u32, now: Mono) -> Duration {
    let granted = kind.grants.total(now);
    if granted == 0 {
        return UNKNOWN_DRAIN;
    }
    let over = u64::from(depth.saturating_sub(cap)) + 1;
    let per_job = Throughput::window(now) / u32::try_from(granted).unwrap_or(u32::MAX);
    per_job.saturating_mul(u32::try_from(over).unwrap_or(u32::MAX)).clamp(RETRY_AFTER.0, RETRY_AFTER.1)
}
