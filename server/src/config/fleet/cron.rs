//! A cron entry: a timetable in a zone, and what its jobs are.

use std::{collections::BTreeMap, ops::RangeInclusive, time::Duration};

use tenure_scheduler::{
    ConcurrencyKey, CronJob, CronName, CronPolicy, INSTANT_LABEL, KindName, KindPolicy, MOST_CAUGHT_UP,
    MissedPolicy, Selector, Tenant, Wall,
};

use super::{SHORTEST_LIMIT, Slots, check_name, needs};
use crate::{
    calendar::{Invalid, Timetable},
    config::{
        LONGEST,
        document::{Problems, Table, Value, nearest},
        label_problem, label_value_problem,
        selector::selector,
    },
};

#[cfg(test)]
mod tests;

/// The most entries: each is looked at whenever a leader loads.
const MOST: usize = 1_000;

/// The most labels: one more tells the instant.
const MOST_LABELS: usize = 31;

/// The longest payload in bytes: it is configuration, and stands in memory.
const MOST_PAYLOAD: usize = 64 * 1024;

/// By how much firings may be put off.
const JITTER: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(86_400);

/// Gaps between firings that are compared with the jitter, from an instant on that is the same everywhere.
const GAPS: usize = 500;
const GAPS_FROM: Wall = Wall(1_767_225_600_000_000); // 2026-01-01

pub(super) fn entries(
    table: Table<'_>,
    kinds: &BTreeMap<KindName, KindPolicy>,
    slots: &Slots,
    problems: &mut Problems,
) -> BTreeMap<CronName, CronPolicy> {
    let mut entries = BTreeMap::new();
    for (name, value) in table.into_entries() {
        if entries.len() >= MOST {
            value.refuse(problems, format!("is one too many: at most {MOST} cron entries"));
            break;
        }
        check_name(&name, &value, problems);
        let (at, path) = (value.at(), value.path().to_owned());
        let Some(table) = value.table(problems) else { continue };
        if let Some(policy) = entry(table, (at, &path), kinds, slots, problems) {
            entries.insert(CronName::new(name), policy);
        }
    }
    entries
}

fn entry(
    mut table: Table<'_>,
    (at, path): (usize, &str),
    kinds: &BTreeMap<KindName, KindPolicy>,
    slots: &Slots,
    problems: &mut Problems,
) -> Option<CronPolicy> {
    let [kind, when] = ["kind", "when"].map(|name| {
        let value = table.take(name);
        if value.is_none() {
            problems.add(at, &format!("{path}.{name}"), "is required");
        }
        value
    });
    let kind = kind.and_then(|value| kind_of(&value, kinds, problems));
    let zone = table.take("zone");
    let timetable = when.as_ref().and_then(|when| timetable(when, zone.as_ref(), problems));
    let missed = table.take("missed").and_then(|value| missed(value, problems)).unwrap_or(MissedPolicy::Skip);
    let jitter = table.take("jitter").and_then(|value| jitter(&value, timetable.as_ref(), problems));
    let singleton = table.take("singleton").and_then(|value| value.flag(problems)).unwrap_or(false);
    let policy = kind.as_ref().and_then(|kind| kinds.get(kind));
    let job = job(&mut table, slots, policy, problems);
    table.finish(&[], problems);
    let when = when.and_then(|when| when.as_text().map(ToOwned::to_owned))?;
    let zone = zone.and_then(|zone| zone.as_text().map(ToOwned::to_owned)).unwrap_or_else(|| "UTC".into());
    timetable?;
    // Blanks between fields mean nothing, and no change.
    let when = when.split_whitespace().collect::<Vec<_>>().join(" ").into();
    Some(CronPolicy {
        kind: kind?,
        when,
        zone: zone.into(),
        missed,
        jitter: jitter.unwrap_or_default(),
        singleton,
        job,
    })
}

fn kind_of(
    value: &Value<'_>,
    kinds: &BTreeMap<KindName, KindPolicy>,
    problems: &mut Problems,
) -> Option<KindName> {
    let kind = KindName::new(value.text(problems)?);
    if !kinds.contains_key(&kind) {
        let hint = nearest(kind.as_str(), kinds.keys().map(KindName::as_str))
            .map_or_else(|| "declare it under [kinds]".to_owned(), |near| format!("did you mean {near:?}?"));
        value.refuse(problems, format!("names a kind that is not declared; {hint}"));
    }
    Some(kind)
}

fn timetable(when: &Value<'_>, zone: Option<&Value<'_>>, problems: &mut Problems) -> Option<Timetable> {
    let text = when.text(problems)?;
    let name = match zone {
        Some(zone) => zone.text(problems)?,
        None => "UTC",
    };
    match Timetable::new(text, name) {
        Ok(timetable) if timetable.after(GAPS_FROM).next().is_none() => {
            when.refuse(problems, "names no instant within 40 years");
            None
        }
        Ok(timetable) => Some(timetable),
        Err(invalid @ Invalid::When(_)) => {
            when.refuse(problems, invalid.to_string());
            None
        }
        Err(invalid @ Invalid::Zone(_)) => {
            zone.unwrap_or(when).refuse(problems, invalid.to_string());
            None
        }
    }
}

/// `"skip"`, `"coalesce"`, or `{ catch_up = 3 }`.
fn missed(value: Value<'_>, problems: &mut Problems) -> Option<MissedPolicy> {
    if !value.is_table() {
        let choices = [("skip", MissedPolicy::Skip), ("coalesce", MissedPolicy::Coalesce)];
        return match value.as_text() {
            Some("catch_up") => {
                value.refuse(problems, "needs a number: write { catch_up = 3 }");
                None
            }
            Some(_) | None => value.choice(problems, &choices),
        };
    }
    let (at, path) = (value.at(), value.path().to_owned());
    let mut table = value.table(problems)?;
    let most = table.take("catch_up");
    if most.is_none() {
        problems.add(at, &format!("{path}.catch_up"), "is required");
    }
    table.finish(&[], problems);
    most?.integer(problems, 1..=MOST_CAUGHT_UP).map(MissedPolicy::CatchUp)
}

/// Shorter than the time between two firings: else they would come in another order.
fn jitter(value: &Value<'_>, timetable: Option<&Timetable>, problems: &mut Problems) -> Option<Duration> {
    let jitter = value.duration(problems, JITTER)?;
    let instants: Vec<Wall> = timetable?.after(GAPS_FROM).take(GAPS).collect();
    let gaps = instants.iter().zip(instants.iter().skip(1)).map(|(first, next)| next.since(*first));
    if let Some(shortest) = gaps.min().filter(|shortest| jitter >= *shortest) {
        let shortest = humantime::format_duration(shortest);
        value.refuse(
            problems,
            format!("must be shorter than the time between two firings, which is {shortest}"),
        );
    }
    Some(jitter)
}

/// `kind`: the policy of its kind, if that is declared. What it would refuse at each firing is refused here.
fn job(table: &mut Table<'_>, slots: &Slots, kind: Option<&KindPolicy>, problems: &mut Problems) -> CronJob {
    let payload = table.take("payload").and_then(|value| {
        let text = value.text(problems)?.to_owned();
        if text.contains('\0') {
            value.refuse(problems, "holds a NUL character");
        }
        if text.len() > MOST_PAYLOAD {
            value.refuse(problems, format!("is longer than {MOST_PAYLOAD} bytes"));
        }
        Some(text)
    });
    let content_type = table.take("content_type").and_then(|value| {
        let text = value.text(problems)?.to_owned();
        if text.is_empty() || text.len() > 255 || !text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
            value.refuse(problems, "must be 1 to 255 characters of printable ASCII");
        }
        Some(text)
    });
    let tenant = table.take("tenant").and_then(|value| {
        let text = value.text(problems)?.to_owned();
        check_name(&text, &value, problems);
        Some(Tenant::new(text))
    });
    let concurrency_key = table.take("concurrency_key").and_then(|value| {
        let text = value.text(problems)?;
        if text.is_empty() || text.len() > 256 || text.contains('\0') {
            value.refuse(problems, "must be 1 to 256 bytes without NUL");
        } else if kind.is_some_and(|kind| kind.concurrency.is_none()) {
            value.refuse(problems, "limits nothing: its kind has no concurrency");
        }
        Some(ConcurrencyKey::new(text))
    });
    let hard_time_limit = table.take("hard_time_limit").and_then(|value| {
        let limit = value.duration(problems, SHORTEST_LIMIT..=LONGEST)?;
        if let Some(kind) = kind.filter(|kind| limit > kind.hard_time_limit) {
            let most = humantime::format_duration(kind.hard_time_limit);
            value.refuse(problems, format!("may only shorten that of its kind, which is {most}"));
        }
        Some(limit)
    });
    CronJob {
        payload: payload.unwrap_or_default().into(),
        content_type: content_type.unwrap_or_else(|| "application/octet-stream".to_owned()).into(),
        tenant: tenant.unwrap_or_else(|| Tenant::new("default")),
        priority: table.take("priority").and_then(|value| value.integer(problems, -100..=100)),
        labels: table.take_table("labels", problems).map(|table| labels(table, problems)).unwrap_or_default(),
        needs: table.take_table("needs", problems).map(|table| needs(table, slots, problems)),
        selector: table
            .take_table("selector", problems)
            .map_or_else(Selector::default, |table| selector(table, problems)),
        stale_after: table
            .take("stale_after")
            .and_then(|value| value.duration(problems, SHORTEST_LIMIT..=LONGEST)),
        hard_time_limit,
        concurrency_key,
    }
}

fn labels(table: Table<'_>, problems: &mut Problems) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    for (name, value) in table.into_entries() {
        if labels.len() >= MOST_LABELS {
            value.refuse(problems, format!("is one too many: at most {MOST_LABELS} labels"));
            break;
        }
        if name == INSTANT_LABEL {
            value.refuse(problems, "is the label that tells a job its instant");
        } else if let Some(problem) = label_problem(&name) {
            value.refuse(problems, problem);
        }
        let Some(text) = value.text(problems) else { continue };
        if let Some(problem) = label_value_problem(text) {
            value.refuse(problems, problem);
        }
        labels.insert(name, text.to_owned());
    }
    labels
}
