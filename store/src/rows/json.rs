//! What is a map or a list inside a row, as JSON. Fields that an older version did not write have defaults.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tenure_scheduler::{
    Allowance, Budget, Capacity, ClassEntry, Concurrency, CounterName, DedupePolicy, FencingToken, Host,
    KindPolicy, Needs, OnExhausted, Placement, Reservation, RetryPolicy, SlotName, Spent, Usage, Wait, Wall,
    Window,
};

use super::{
    int, length_us,
    selector::{PreferencesJson, SelectorJson, preferences, preferences_json},
};

/// Slot → units.
#[derive(Serialize, Deserialize, Default)]
#[serde(transparent)]
pub(super) struct NeedsJson(BTreeMap<String, u32>);

impl From<&Needs> for NeedsJson {
    fn from(needs: &Needs) -> Self {
        Self(needs.iter().map(|(slot, amount)| (slot.to_string(), amount)).collect())
    }
}

impl From<NeedsJson> for Needs {
    fn from(json: NeedsJson) -> Self {
        Self::new(json.0.into_iter().map(|(slot, amount)| (SlotName::new(slot), amount)))
    }
}

/// What a lease takes.
#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
pub(super) struct ReservationJson {
    node: NeedsJson,
    fleet: NeedsJson,
}

impl From<&Reservation> for ReservationJson {
    fn from(Reservation { node, fleet }: &Reservation) -> Self {
        Self { node: node.into(), fleet: fleet.into() }
    }
}

impl From<ReservationJson> for Reservation {
    fn from(json: ReservationJson) -> Self {
        Self { node: json.node.into(), fleet: json.fleet.into() }
    }
}

/// What one reason cost a job.
#[derive(Serialize, Deserialize)]
pub(super) struct WaitJson<'a> {
    reason: Cow<'a, str>,
    message: Cow<'a, str>,
    count: i64,
    duration_us: i64,
}

impl<'a> From<&'a Wait> for WaitJson<'a> {
    fn from(wait: &'a Wait) -> Self {
        Self {
            reason: Cow::Borrowed(&wait.reason),
            message: Cow::Borrowed(&wait.message),
            count: int(wait.count),
            duration_us: length_us(wait.duration),
        }
    }
}

impl From<WaitJson<'_>> for Wait {
    fn from(json: WaitJson<'_>) -> Self {
        Self {
            reason: json.reason.into(),
            message: json.message.into(),
            count: unsigned(json.count),
            duration: length(json.duration_us),
        }
    }
}

/// One stretch of a class timeline.
#[derive(Serialize, Deserialize)]
pub(super) struct ClassEntryJson<'a> {
    since: i64,
    reason: Cow<'a, str>,
    message: Cow<'a, str>,
    tries: i64,
    duration_us: i64,
}

impl<'a> From<&'a ClassEntry> for ClassEntryJson<'a> {
    fn from(entry: &'a ClassEntry) -> Self {
        Self {
            since: entry.since.0,
            reason: Cow::Borrowed(&entry.reason),
            message: Cow::Borrowed(&entry.message),
            tries: int(entry.tries),
            duration_us: length_us(entry.duration),
        }
    }
}

impl From<ClassEntryJson<'_>> for ClassEntry {
    fn from(json: ClassEntryJson<'_>) -> Self {
        Self {
            since: Wall(json.since),
            reason: json.reason.into(),
            message: json.message.into(),
            tries: unsigned(json.tries),
            duration: length(json.duration_us),
        }
    }
}

/// What a node offers of one slot.
#[derive(Serialize, Deserialize)]
pub(super) struct CapacityJson {
    units: u32,
    since: i64,
}

impl From<Capacity> for CapacityJson {
    fn from(capacity: Capacity) -> Self {
        Self { units: capacity.units, since: int(capacity.since.0) }
    }
}

impl From<CapacityJson> for Capacity {
    fn from(json: CapacityJson) -> Self {
        Self { units: json.units, since: FencingToken(unsigned(json.since)) }
    }
}

/// Counter → what an attempt used of it.
#[derive(Serialize, Deserialize, Default)]
#[serde(transparent)]
pub(super) struct UsageJson(BTreeMap<String, i64>);

impl From<&Usage> for UsageJson {
    fn from(usage: &Usage) -> Self {
        Self(usage.iter().map(|(counter, used)| (counter.to_string(), int(*used))).collect())
    }
}

impl From<UsageJson> for Usage {
    fn from(json: UsageJson) -> Self {
        json.0.into_iter().map(|(counter, used)| (CounterName::new(counter), unsigned(used))).collect()
    }
}

/// What was spent of a counter, in the window that began then.
#[derive(Serialize, Deserialize)]
pub(super) struct SpentJson {
    since: i64,
    amount: i64,
}

impl From<Spent> for SpentJson {
    fn from(spent: Spent) -> Self {
        Self { since: spent.since.0, amount: int(spent.amount) }
    }
}

impl From<SpentJson> for Spent {
    fn from(json: SpentJson) -> Self {
        Self { since: Wall(json.since), amount: unsigned(json.amount) }
    }
}

/// What a kind may use.
#[derive(Serialize, Deserialize)]
pub(super) struct BudgetJson {
    allowances: BTreeMap<String, AllowanceJson>,
    refuse: bool,
}

#[derive(Serialize, Deserialize)]
struct AllowanceJson {
    amount: i64,
    window: WindowJson,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WindowJson {
    Hour,
    Day,
    Week,
    Month,
}

impl From<&Budget> for BudgetJson {
    fn from(budget: &Budget) -> Self {
        let allowance = |allowance: &Allowance| AllowanceJson {
            amount: int(allowance.amount),
            window: match allowance.window {
                Window::Hour => WindowJson::Hour,
                Window::Day => WindowJson::Day,
                Window::Week => WindowJson::Week,
                Window::Month => WindowJson::Month,
            },
        };
        let all = budget.allowances.iter();
        Self {
            allowances: all.map(|(counter, each)| (counter.to_string(), allowance(each))).collect(),
            refuse: budget.on_exhausted == OnExhausted::Refuse,
        }
    }
}

impl From<BudgetJson> for Budget {
    fn from(json: BudgetJson) -> Self {
        let allowance = |json: AllowanceJson| Allowance {
            amount: unsigned(json.amount),
            window: match json.window {
                WindowJson::Hour => Window::Hour,
                WindowJson::Day => Window::Day,
                WindowJson::Week => Window::Week,
                WindowJson::Month => Window::Month,
            },
        };
        let all = json.allowances.into_iter();
        Self {
            allowances: all.map(|(counter, each)| (CounterName::new(counter), allowance(each))).collect(),
            on_exhausted: if json.refuse { OnExhausted::Refuse } else { OnExhausted::Defer },
        }
    }
}

/// What a host offers.
#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
pub(super) struct HostJson<'a> {
    cpus: u32,
    memory_bytes: i64,
    disk_free_bytes: i64,
    os: Cow<'a, str>,
    arch: Cow<'a, str>,
    containment: Cow<'a, str>,
}

impl<'a> From<&'a Host> for HostJson<'a> {
    fn from(host: &'a Host) -> Self {
        Self {
            cpus: host.cpus,
            memory_bytes: int(host.memory_bytes),
            disk_free_bytes: int(host.disk_free_bytes),
            os: Cow::Borrowed(&host.os),
            arch: Cow::Borrowed(&host.arch),
            containment: Cow::Borrowed(&host.containment),
        }
    }
}

impl From<HostJson<'_>> for Host {
    fn from(json: HostJson<'_>) -> Self {
        Self {
            cpus: json.cpus,
            memory_bytes: unsigned(json.memory_bytes),
            disk_free_bytes: unsigned(json.disk_free_bytes),
            os: json.os.into(),
            arch: json.arch.into(),
            containment: json.containment.into(),
        }
    }
}

/// What the fleet file says of a kind.
#[derive(Serialize, Deserialize)]
#[serde(default)]
pub(super) struct PolicyJson {
    needs: NeedsJson,
    selector: SelectorJson,
    prefer: PreferencesJson,
    node_backoff: bool,
    lease_us: i64,
    max_failures: u32,
    max_losses: u32,
    retry: RetryJson,
    permanent_exit_codes: Vec<i32>,
    hard_time_limit_us: i64,
    soft_time_limit_us: Option<i64>,
    progress_timeout_us: Option<i64>,
    queue_cap: Option<u32>,
    max_running: Option<u32>,
    concurrency: Option<ConcurrencyJson>,
    fifo: bool,
    reserve_after_us: i64,
    budget: Option<BudgetJson>,
    stale_after_us: Option<i64>,
    dedupe: DedupeJson,
    placement: PlacementJson,
    priority: i8,
    result_ttl_us: i64,
    retention_us: i64,
    keep_on_wait: BTreeSet<String>,
    reacquire_timeout_us: i64,
}

/// A limit by key.
#[derive(Serialize, Deserialize)]
struct ConcurrencyJson {
    key: String,
    limit: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RetryJson {
    IntervalsUs(Vec<i64>),
    Exponential { initial_us: i64, factor_permille: u32, max_us: i64, jitter_permille: u32 },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum DedupeJson {
    Retained,
    Live,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PlacementJson {
    Pack,
    Spread,
}

impl Default for PolicyJson {
    fn default() -> Self {
        Self::from(&KindPolicy::default())
    }
}

impl From<&KindPolicy> for PolicyJson {
    fn from(policy: &KindPolicy) -> Self {
        Self {
            needs: (&policy.needs).into(),
            selector: (&policy.selector).into(),
            prefer: preferences_json(&policy.prefer),
            node_backoff: policy.node_backoff,
            lease_us: length_us(policy.lease),
            max_failures: policy.max_failures,
            max_losses: policy.max_losses,
            retry: (&policy.retry).into(),
            permanent_exit_codes: policy.permanent_exit_codes.clone(),
            hard_time_limit_us: length_us(policy.hard_time_limit),
            soft_time_limit_us: policy.soft_time_limit.map(length_us),
            progress_timeout_us: policy.progress_timeout.map(length_us),
            queue_cap: policy.queue_cap,
            max_running: policy.max_running,
            concurrency: policy
                .concurrency
                .as_ref()
                .map(|by_key| ConcurrencyJson { key: by_key.key.to_string(), limit: by_key.limit }),
            fifo: policy.fifo,
            reserve_after_us: length_us(policy.reserve_after),
            budget: policy.budget.as_ref().map(BudgetJson::from),
            stale_after_us: policy.stale_after.map(length_us),
            dedupe: match policy.dedupe {
                DedupePolicy::Retained => DedupeJson::Retained,
                DedupePolicy::Live => DedupeJson::Live,
            },
            placement: match policy.placement {
                Placement::Pack => PlacementJson::Pack,
                Placement::Spread => PlacementJson::Spread,
            },
            priority: policy.priority,
            result_ttl_us: length_us(policy.result_ttl),
            retention_us: length_us(policy.retention),
            keep_on_wait: policy.keep_on_wait.iter().map(ToString::to_string).collect(),
            reacquire_timeout_us: length_us(policy.reacquire_timeout),
        }
    }
}

impl From<PolicyJson> for KindPolicy {
    fn from(json: PolicyJson) -> Self {
        Self {
            needs: json.needs.into(),
            selector: json.selector.into(),
            prefer: preferences(json.prefer),
            node_backoff: json.node_backoff,
            lease: length(json.lease_us),
            max_failures: json.max_failures,
            max_losses: json.max_losses,
            retry: json.retry.into(),
            permanent_exit_codes: json.permanent_exit_codes,
            hard_time_limit: length(json.hard_time_limit_us),
            soft_time_limit: json.soft_time_limit_us.map(length),
            progress_timeout: json.progress_timeout_us.map(length),
            queue_cap: json.queue_cap,
            max_running: json.max_running,
            concurrency: json
                .concurrency
                .map(|by_key| Concurrency { key: by_key.key.into(), limit: by_key.limit }),
            fifo: json.fifo,
            reserve_after: length(json.reserve_after_us),
            budget: json.budget.map(Budget::from),
            stale_after: json.stale_after_us.map(length),
            dedupe: match json.dedupe {
                DedupeJson::Retained => DedupePolicy::Retained,
                DedupeJson::Live => DedupePolicy::Live,
            },
            placement: match json.placement {
                PlacementJson::Pack => Placement::Pack,
                PlacementJson::Spread => Placement::Spread,
            },
            priority: json.priority,
            result_ttl: length(json.result_ttl_us),
            retention: length(json.retention_us),
            keep_on_wait: json.keep_on_wait.into_iter().map(SlotName::new).collect(),
            reacquire_timeout: length(json.reacquire_timeout_us),
        }
    }
}

impl From<&RetryPolicy> for RetryJson {
    fn from(retry: &RetryPolicy) -> Self {
        match retry {
            RetryPolicy::Intervals(waits) => {
                Self::IntervalsUs(waits.iter().copied().map(length_us).collect())
            }
            RetryPolicy::Exponential { initial, factor_permille, max, jitter_permille } => {
                Self::Exponential {
                    initial_us: length_us(*initial),
                    factor_permille: *factor_permille,
                    max_us: length_us(*max),
                    jitter_permille: *jitter_permille,
                }
            }
        }
    }
}

impl From<RetryJson> for RetryPolicy {
    fn from(json: RetryJson) -> Self {
        match json {
            RetryJson::IntervalsUs(waits) => Self::Intervals(waits.into_iter().map(length).collect()),
            RetryJson::Exponential { initial_us, factor_permille, max_us, jitter_permille } => {
                Self::Exponential {
                    initial: length(initial_us),
                    factor_permille,
                    max: length(max_us),
                    jitter_permille,
                }
            }
        }
    }
}

/// A count or size; never negative, since it was written by [`int`].
fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn length(us: i64) -> Duration {
    Duration::from_micros(unsigned(us))
}
