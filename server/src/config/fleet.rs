//! The fleet file: declared slots, kinds with their policies, tenants with their weights, cron entries, and webhooks.
//!
//! Responsible for everything that the text alone tells, declared names included. What it means to jobs and nodes that
//! exist is judged by the scheduler when it is applied.

mod budget;
mod cron;
mod slot;
mod webhook;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
    time::Duration,
};

use tenure_proto::limits;
use tenure_scheduler::{
    Concurrency, DedupePolicy, Fleet, KindName, KindPolicy, MOST_WEIGHT, Needs, Placement, RateLimit,
    RetryPolicy, SHORTEST_LEASE, Scope, SlotName, Tenant, TenantPolicy, is_name,
};

use super::{
    LONGEST, Problem, Retention,
    document::{Problems, Table, Value, nearest},
    selector::{preferences, selector},
};

/// Keys of later versions, so that the answer is not "unknown".
const LATER_TABLES: &[&str] = &["budgets"];
const LATER_KIND: &[&str] = &["mask_payload"];

/// The most entries of needs.
const MOST_ENTRIES: usize = 16;
/// The most kinds, the most slots, and the most tenants.
const MOST_NAMES: usize = 10_000;
/// For how long a large job may be blocked before it gets an earmark.
const RESERVE_AFTER: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(86_400);
/// For how long a parked job may want back what it gave, before it is to detach.
const REACQUIRE_TIMEOUT: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(86_400);
/// A duration that limits something is no shorter than this.
const SHORTEST_LIMIT: Duration = Duration::from_secs(1);

/// Reads a fleet file. `defaults` count for kinds that name no retention of their own.
///
/// # Errors
/// Every mistake, by line.
pub fn parse(text: &str, defaults: &Retention) -> Result<Fleet, Vec<Problem>> {
    let (root, mut problems) = Problems::parse(text);
    let Some(mut root) = root else { return Err(problems.into_found()) };
    let (slots, rates) =
        root.take_table("slots", &mut problems).map(|table| slots(table, &mut problems)).unwrap_or_default();
    let kinds = root.take_table("kinds", &mut problems);
    let kinds = kinds.map(|table| kinds_of(table, &slots, defaults, &mut problems)).unwrap_or_default();
    let tenants = root.take_table("tenants", &mut problems);
    let tenants = tenants.map(|table| tenants_of(table, &mut problems)).unwrap_or_default();
    let crons = root.take_table("cron", &mut problems);
    let crons = crons.map(|table| cron::entries(table, &kinds, &slots, &mut problems)).unwrap_or_default();
    let webhooks = root.take_table("webhooks", &mut problems);
    let webhooks = webhooks.map(|table| webhook::webhooks(table, &kinds, &mut problems)).unwrap_or_default();
    root.finish(LATER_TABLES, &mut problems);
    let found = problems.into_found();
    if found.is_empty() {
        Ok(Fleet { slots, rates, kinds, tenants, crons, webhooks, webhooks_stay: false })
    } else {
        Err(found)
    }
}

fn slots(table: Table<'_>, problems: &mut Problems) -> (Slots, Rates) {
    let (mut slots, mut rates) = (Slots::new(), Rates::new());
    for (name, value) in table.into_entries() {
        if slots.len() >= MOST_NAMES {
            value.refuse(problems, format!("is one too many: at most {MOST_NAMES} slots"));
            break;
        }
        check_name(&name, &value, problems);
        if value.is_table() {
            let (name, (scope, rate)) = (SlotName::new(name), slot::table(value, problems));
            rates.extend(rate.map(|rate| (name.clone(), rate)));
            slots.insert(name, scope);
            continue;
        }
        let scope = match value.as_text() {
            Some("node") => Some(Scope::Node),
            Some(_) => {
                value.refuse(
                    problems,
                    "must be a whole number (units of the fleet), a table with its rate, or \"node\" (each node's own)",
                );
                None
            }
            None => value.integer(problems, 0..=limits::SLOT_UNITS).map(|capacity| Scope::Fleet { capacity }),
        };
        // A slot whose value is wrong is declared all the same: its kinds are not to blame.
        slots.insert(SlotName::new(name), scope.unwrap_or(Scope::Node));
    }
    (slots, rates)
}

type Slots = BTreeMap<SlotName, Scope>;
type Rates = BTreeMap<SlotName, RateLimit>;

fn kinds_of(
    table: Table<'_>,
    slots: &Slots,
    defaults: &Retention,
    problems: &mut Problems,
) -> BTreeMap<KindName, KindPolicy> {
    let mut kinds = BTreeMap::new();
    for (name, value) in table.into_entries() {
        if kinds.len() >= MOST_NAMES {
            value.refuse(problems, format!("is one too many: at most {MOST_NAMES} kinds"));
            break;
        }
        check_name(&name, &value, problems);
        if let Some(table) = value.table(problems) {
            kinds.insert(KindName::new(name), kind(table, slots, defaults, problems));
        }
    }
    kinds
}

fn tenants_of(table: Table<'_>, problems: &mut Problems) -> BTreeMap<Tenant, TenantPolicy> {
    let mut tenants = BTreeMap::new();
    for (name, value) in table.into_entries() {
        if tenants.len() >= MOST_NAMES {
            value.refuse(problems, format!("is one too many: at most {MOST_NAMES} tenants"));
            break;
        }
        check_name(&name, &value, problems);
        if let Some(mut table) = value.table(problems) {
            let mut policy = TenantPolicy::default();
            if let Some(value) = table.take("weight") {
                set(&mut policy.weight, value.integer(problems, 1..=MOST_WEIGHT));
            }
            table.finish(&[], problems);
            tenants.insert(Tenant::new(name), policy);
        }
    }
    tenants
}

fn kind(mut table: Table<'_>, slots: &Slots, defaults: &Retention, problems: &mut Problems) -> KindPolicy {
    let mut policy =
        KindPolicy { retention: defaults.final_jobs, result_ttl: defaults.results, ..KindPolicy::default() };
    if let Some(needs_table) = table.take_table("needs", problems) {
        policy.needs = needs(needs_table, slots, problems);
    }
    if let Some(selector_table) = table.take_table("selector", problems) {
        policy.selector = selector(selector_table, problems);
    }
    if let Some(value) = table.take("prefer") {
        set(&mut policy.prefer, preferences(value, problems));
    }
    if let Some(value) = table.take("node_backoff") {
        set(&mut policy.node_backoff, value.flag(problems));
    }
    if let Some(value) = table.take("lease") {
        set(&mut policy.lease, value.duration(problems, SHORTEST_LEASE..=LONGEST));
    }
    if let Some(value) = table.take("max_failures") {
        set(&mut policy.max_failures, value.integer(problems, 1..=1000));
    }
    if let Some(value) = table.take("max_losses") {
        set(&mut policy.max_losses, value.integer(problems, 1..=1000));
    }
    if let Some(retry_table) = table.take_table("retry", problems) {
        policy.retry = retry(retry_table, problems);
    }
    if let Some(value) = table.take("permanent_exit_codes") {
        set(&mut policy.permanent_exit_codes, exit_codes(value, problems));
    }
    if let Some(value) = table.take("hard_time_limit") {
        set(&mut policy.hard_time_limit, value.duration(problems, SHORTEST_LIMIT..=LONGEST));
    }
    soft_limit(&mut table, &mut policy, problems);
    if let Some(value) = table.take("progress_timeout") {
        policy.progress_timeout = value.duration(problems, SHORTEST_LIMIT..=LONGEST);
    }
    if let Some(value) = table.take("queue_cap") {
        policy.queue_cap = value.integer(problems, 1..=20_000_000);
    }
    if let Some(value) = table.take("max_running") {
        policy.max_running = value.integer(problems, 1..=limits::SLOT_UNITS);
    }
    if let Some(value) = table.take("concurrency") {
        policy.concurrency = concurrency(value, problems);
    }
    if let Some(value) = table.take("fifo") {
        match value.as_bool() {
            Some(fifo) => policy.fifo = fifo,
            None => value.refuse(problems, "must be true or false"),
        }
    }
    if let Some(value) = table.take("reserve_after") {
        set(&mut policy.reserve_after, value.duration(problems, RESERVE_AFTER));
    }
    if let Some(value) = table.take("budget") {
        policy.budget = budget::table(value, problems);
    }
    if let Some(value) = table.take("keep_on_wait") {
        set(&mut policy.keep_on_wait, kept_slots(value, slots, problems));
    }
    if let Some(value) = table.take("reacquire_timeout") {
        set(&mut policy.reacquire_timeout, value.duration(problems, REACQUIRE_TIMEOUT));
    }
    if let Some(value) = table.take("stale_after") {
        policy.stale_after = value.duration(problems, SHORTEST_LIMIT..=LONGEST);
    }
    if let Some(value) = table.take("dedupe") {
        let choices = [("retained", DedupePolicy::Retained), ("live", DedupePolicy::Live)];
        set(&mut policy.dedupe, value.choice(problems, &choices));
    }
    if let Some(value) = table.take("placement") {
        let choices = [("pack", Placement::Pack), ("spread", Placement::Spread)];
        set(&mut policy.placement, value.choice(problems, &choices));
    }
    if let Some(value) = table.take("priority") {
        set(&mut policy.priority, value.integer(problems, -100..=100));
    }
    if let Some(value) = table.take("result_ttl") {
        set(&mut policy.result_ttl, value.duration(problems, Duration::ZERO..=LONGEST));
    }
    if let Some(value) = table.take("retention") {
        set(&mut policy.retention, value.duration(problems, Duration::ZERO..=LONGEST));
    }
    table.finish(LATER_KIND, problems);
    policy
}

/// When an attempt is asked to wrap up: before the hard limit, which was read already.
fn soft_limit(table: &mut Table<'_>, policy: &mut KindPolicy, problems: &mut Problems) {
    let Some(value) = table.take("soft_time_limit") else { return };
    let (at, path) = (value.at(), value.path().to_owned());
    policy.soft_time_limit = value.duration(problems, SHORTEST_LIMIT..=LONGEST);
    if policy.soft_time_limit.is_some_and(|soft| soft >= policy.hard_time_limit) {
        let hard = policy.hard_time_limit.as_secs_f64();
        problems.add(at, &path, format!("must be below hard_time_limit, which is {hard} s"));
    }
}

fn needs(table: Table<'_>, slots: &Slots, problems: &mut Problems) -> Needs {
    let mut amounts = Vec::new();
    for (name, value) in table.into_entries() {
        if amounts.len() >= MOST_ENTRIES {
            value.refuse(problems, format!("is one too many: at most {MOST_ENTRIES} slots"));
            break;
        }
        let slot = SlotName::new(name);
        if !slots.contains_key(&slot) {
            undeclared(&slot, &value, slots, problems);
        }
        if let Some(units) = value.integer(problems, 1..=limits::SLOT_UNITS) {
            amounts.push((slot, units));
        }
    }
    Needs::new(amounts)
}

fn concurrency(value: Value<'_>, problems: &mut Problems) -> Option<Concurrency> {
    let (at, path) = (value.at(), value.path().to_owned());
    let mut table = value.table(problems)?;
    let [key, limit] = ["key", "limit"].map(|name| {
        let value = table.take(name);
        if value.is_none() {
            problems.add(at, &format!("{path}.{name}"), "is required");
        }
        value
    });
    table.finish(&[], problems);
    let key = key.and_then(|value| {
        let text = value.text(problems)?.to_owned();
        check_name(&text, &value, problems);
        Some(text.into())
    });
    let limit = limit.and_then(|value| value.integer(problems, 1..=limits::SLOT_UNITS));
    Some(Concurrency { key: key?, limit: limit? })
}

fn retry(mut table: Table<'_>, problems: &mut Problems) -> RetryPolicy {
    let intervals = table.take("intervals");
    let [initial, factor, max, jitter] = ["initial", "factor", "max", "jitter"].map(|key| table.take(key));
    table.finish(&[], problems);
    if let Some(value) = intervals {
        for other in [&initial, &factor, &max, &jitter].into_iter().flatten() {
            other.refuse(problems, "cannot stand beside intervals");
        }
        return RetryPolicy::Intervals(interval_list(value, problems));
    }
    let RetryPolicy::Exponential {
        initial: mut first,
        mut factor_permille,
        max: mut longest,
        mut jitter_permille,
    } = RetryPolicy::default()
    else {
        return RetryPolicy::default();
    };
    let waits = Duration::from_millis(1)..=LONGEST;
    if let Some(value) = &initial {
        set(&mut first, value.duration(problems, waits.clone()));
    }
    if let Some(value) = &factor {
        set(&mut factor_permille, value.permille(problems, 1000..=100_000));
    }
    match &max {
        Some(value) => {
            set(&mut longest, value.duration(problems, waits));
            if longest < first {
                value.refuse(
                    problems,
                    format!("is shorter than the first wait, {}", humantime::format_duration(first)),
                );
            }
        }
        None => longest = longest.max(first),
    }
    if let Some(value) = &jitter {
        set(&mut jitter_permille, value.permille(problems, 0..=1000));
    }
    RetryPolicy::Exponential { initial: first, factor_permille, max: longest, jitter_permille }
}

fn interval_list(value: Value<'_>, problems: &mut Problems) -> Vec<Duration> {
    const MOST: usize = 100;
    let place = value.at();
    let path = value.path().to_owned();
    let items = value.array(problems).unwrap_or_default();
    if items.is_empty() || items.len() > MOST {
        problems.add(place, &path, format!("must hold 1 to {MOST} waits"));
    }
    let waits =
        items.iter().filter_map(|item| item.duration(problems, Duration::ZERO..=LONGEST)).collect::<Vec<_>>();
    if waits.is_empty() { vec![Duration::ZERO] } else { waits }
}

/// Declared slots, in any order.
fn kept_slots(value: Value<'_>, slots: &Slots, problems: &mut Problems) -> Option<BTreeSet<SlotName>> {
    let mut kept = BTreeSet::new();
    for item in value.array(problems)? {
        let Some(slot) = item.text(problems).map(SlotName::new) else { continue };
        if !slots.contains_key(&slot) {
            undeclared(&slot, &item, slots, problems);
        }
        kept.insert(slot);
    }
    Some(kept)
}

fn undeclared(slot: &SlotName, value: &Value<'_>, slots: &Slots, problems: &mut Problems) {
    let hint = nearest(slot.as_str(), slots.keys().map(SlotName::as_str))
        .map_or_else(|| "declare it under [slots]".to_owned(), |near| format!("did you mean {near:?}?"));
    value.refuse(problems, format!("names a slot that is not declared; {hint}"));
}

fn exit_codes(value: Value<'_>, problems: &mut Problems) -> Option<Vec<i32>> {
    let mut codes = Vec::new();
    for item in value.array(problems)? {
        let Some(code) = item.integer(problems, 1..=255) else { continue };
        if code == 75 {
            item.refuse(problems, "75 always means \"try again\"");
        } else if !codes.contains(&code) {
            codes.push(code);
        }
    }
    Some(codes)
}

fn check_name(name: &str, value: &Value<'_>, problems: &mut Problems) {
    if !is_name(name) {
        value.refuse(problems, "is no name: use 1 to 63 of a-z, 0-9, dot, underscore and hyphen");
    }
}

fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}
