//! Kinds: what type of work there is, and the policy attached to it. Owned by the fleet file.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use crate::{
    budget::{Budget, Spent},
    cron::CronPolicy,
    ids::{CounterName, CronName, KindName, SlotName, Tenant},
    rate::RateLimit,
    selector::{Preferences, Selector},
    slots::{Needs, Scope},
    tenant::TenantPolicy,
    webhook::Webhooks,
};

/// A declared kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// Its name.
    pub name: KindName,
    /// What the fleet file says.
    pub policy: KindPolicy,
    /// Present while none of its jobs may start. Owned by operators.
    pub paused: Option<PausePolicy>,
    /// How many of its jobs became dead, by day (days since 1970, UTC), the newest eight days that had any.
    pub dead_by_day: BTreeMap<i64, u64>,
    /// What was spent of its budget, in the window in which it was.
    pub spent: BTreeMap<CounterName, Spent>,
}

/// What the fleet file says of a kind. Limits change for later grants only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindPolicy {
    /// The slots that its jobs take, unless a job names its own.
    pub needs: Needs,
    /// What the labels of its nodes must be.
    pub selector: Selector,
    /// Which nodes its jobs would rather have.
    pub prefer: Preferences,
    /// A node on which its jobs fail one after the other is not offered the kind for a while.
    pub node_backoff: bool,
    /// How long a node may go on without hearing from the server. At least 10 s.
    pub lease: Duration,
    /// How many failures make a job dead. At least 1.
    pub max_failures: u32,
    /// How many losses make a job dead. At least 1.
    pub max_losses: u32,
    /// How failed attempts are spaced.
    pub retry: RetryPolicy,
    /// Exit codes that make a job dead at once.
    pub permanent_exit_codes: Vec<i32>,
    /// An attempt is killed this long after its start.
    pub hard_time_limit: Duration,
    /// An attempt is asked to wrap up this long after its start; none: never. Below `hard_time_limit`.
    pub soft_time_limit: Option<Duration>,
    /// An attempt of which its node hears nothing for this long is stopped as stalled; none: silence is no fault.
    pub progress_timeout: Option<Duration>,
    /// Enqueues are refused while this many jobs are queued or scheduled; none: no cap.
    pub queue_cap: Option<u32>,
    /// At most this many of its jobs run at once, in the whole fleet; none: as many as have their slots. At least 1.
    /// It is the fleet slot [`SlotName::of_kind`], which each of its jobs needs beside its own.
    pub max_running: Option<u32>,
    /// A job that needs much gets an earmark after its class has been blocked for this long. 1 s to 24 h.
    pub reserve_after: Duration,
    /// What its jobs may use, as they report it; none: nothing is counted.
    pub budget: Option<Budget>,
    /// How many of its jobs that name the same key run at once; none: keys limit nothing.
    pub concurrency: Option<Concurrency>,
    /// Its jobs start in the order of their enqueues, whatever their priorities and needs: the first, blocked, blocks the
    /// others of the kind, and nothing else.
    pub fifo: bool,
    /// A job not started this long after its enqueue expires; none: never.
    pub stale_after: Option<Duration>,
    /// For how long a dedupe key answers.
    pub dedupe: DedupePolicy,
    /// Which of the nodes that have room for a job is taken.
    pub placement: Placement,
    /// The priority of jobs that name none, −100 to 100.
    pub priority: i8,
    /// How long results are kept.
    pub result_ttl: Duration,
    /// How long final jobs are kept.
    pub retention: Duration,
    /// The slots that its jobs keep while they wait for children and their process stays. The others are given back.
    pub keep_on_wait: BTreeSet<SlotName>,
    /// A parked job that does not get back what it gave within this is to detach.
    pub reacquire_timeout: Duration,
}

impl Default for KindPolicy {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(86_400);
        Self {
            needs: Needs::default(),
            selector: Selector::default(),
            prefer: Preferences::default(),
            node_backoff: true,
            lease: Duration::from_secs(120),
            max_failures: 3,
            max_losses: 3,
            retry: RetryPolicy::default(),
            permanent_exit_codes: vec![64, 65, 66, 77, 78],
            hard_time_limit: Duration::from_secs(3600),
            soft_time_limit: None,
            progress_timeout: None,
            queue_cap: None,
            max_running: None,
            concurrency: None,
            fifo: false,
            reserve_after: Duration::from_secs(30),
            budget: None,
            stale_after: None,
            dedupe: DedupePolicy::Retained,
            placement: Placement::Pack,
            priority: 0,
            result_ttl: 7 * DAY,
            retention: 7 * DAY,
            keep_on_wait: BTreeSet::new(),
            reacquire_timeout: Duration::from_secs(300),
        }
    }
}

/// A limit by key. Jobs of one tenant and kind that name the same key share it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Concurrency {
    /// What a key is, for people: conversation, account, site.
    pub key: Arc<str>,
    /// At most this many jobs with the same key run at once. 1 to 1,000,000.
    pub limit: u32,
}

/// How failed attempts are spaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetryPolicy {
    /// Fixed waits; the last repeats. Never empty.
    Intervals(Vec<Duration>),
    /// Growing waits.
    Exponential {
        /// The first wait.
        initial: Duration,
        /// Each wait is this many thousandths of the one before.
        factor_permille: u32,
        /// The longest wait.
        max: Duration,
        /// Each wait is changed by up to this many thousandths of itself, by a hash of job and attempt.
        jitter_permille: u32,
    },
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::Exponential {
            initial: Duration::from_secs(10),
            factor_permille: 3000,
            max: Duration::from_secs(3600),
            jitter_permille: 200,
        }
    }
}

/// For how long a dedupe key answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DedupePolicy {
    /// As long as the row of the job exists.
    Retained,
    /// Until the job is final.
    Live,
}

/// Which of the nodes that have room for a job is taken, where nothing that comes first tells them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// The fullest: what is left empty has room for a large job.
    Pack,
    /// The emptiest: what goes wrong with a node hits few of its jobs.
    Spread,
}

/// What enqueues of a paused kind meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PausePolicy {
    /// They are stored and wait.
    Hold,
    /// They are refused.
    Reject,
}

/// A whole fleet file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fleet {
    /// Declared slots.
    pub slots: BTreeMap<SlotName, Scope>,
    /// How fast units of some of its fleet slots may be granted.
    pub rates: BTreeMap<SlotName, RateLimit>,
    /// Declared kinds.
    pub kinds: BTreeMap<KindName, KindPolicy>,
    /// Declared tenants. The others have the default policy.
    pub tenants: BTreeMap<Tenant, TenantPolicy>,
    /// Declared cron entries.
    pub crons: BTreeMap<CronName, CronPolicy>,
    /// Declared webhooks.
    pub webhooks: Webhooks,
    /// Whoever applies it may not change webhooks: one that would is refused. Not of the file.
    pub webhooks_stay: bool,
}

impl Fleet {
    /// All slots: those that it names, one for each kind that limits how many of its jobs run, and one for each cron entry
    /// that is a singleton.
    #[must_use]
    pub fn all_slots(&self) -> BTreeMap<SlotName, Scope> {
        let limit = |(name, policy): (&KindName, &KindPolicy)| {
            Some((SlotName::of_kind(name), Scope::Fleet { capacity: policy.max_running? }))
        };
        let singles = self.crons.iter().filter(|(_, policy)| policy.singleton);
        let singles = singles.map(|(name, _)| (SlotName::of_cron(name), Scope::Fleet { capacity: 1 }));
        self.slots
            .iter()
            .map(|(name, scope)| (name.clone(), *scope))
            .chain(self.kinds.iter().filter_map(limit))
            .chain(singles)
            .collect()
    }
}

impl KindPolicy {
    /// What a job of this kind takes that needs `own`: that, and the slot of the kind if it has one.
    #[must_use]
    pub fn with_limit(&self, kind: &KindName, own: &Needs) -> Needs {
        if self.max_running.is_none() {
            return own.clone();
        }
        let limit = (SlotName::of_kind(kind), 1);
        Needs::new(own.iter().map(|(slot, amount)| (slot.clone(), amount)).chain([limit]))
    }
}
