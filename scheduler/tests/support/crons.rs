//! Cron entries in scripts: a timetable is a list of lengths since the world began, and the world says the plans.
//!
//! | line | does |
//! |---|---|
//! | `cron E kind=K at=1m,2m,5m` or `every=10s`, `zone=Z missed=coalesce` (`3`: catches up three) `jitter=5s singleton …`, `drop cron E` | changes the fleet file and applies it |
//! | `pause cron E`, `resume cron E`, `fire cron E J` | operators |
//! | `cron? E` | says how it stands |
//!
//! The first job of an entry is called `E.1`.

use std::time::Duration;

use tenure_scheduler::{
    ConcurrencyKey, CronEntry, CronJob, CronName, CronPlan, CronPolicy, KindName, MissedPolicy, Selector,
    Tenant, Wall,
};

use super::{
    words::{Line, duration},
    world::BEGIN,
};

/// Instants ahead that one plan has at the most.
const MOST: usize = 4;

/// What a `cron` line says.
pub(crate) fn policy(line: &Line) -> CronPolicy {
    let when =
        line.get("every").map_or_else(|| line.get("at").unwrap_or_default().into(), |e| format!("+{e}"));
    CronPolicy {
        kind: KindName::new(line.get("kind").expect("a kind")),
        when: when.into(),
        zone: line.get("zone").unwrap_or("UTC").into(),
        missed: match line.get("missed") {
            None => MissedPolicy::Skip,
            Some("coalesce") => MissedPolicy::Coalesce,
            Some(most) => MissedPolicy::CatchUp(most.parse().expect("a number")),
        },
        jitter: line.duration("jitter").unwrap_or_default(),
        singleton: line.has("singleton"),
        job: CronJob {
            payload: line.get("payload").unwrap_or_default().into(),
            content_type: "text/plain".into(),
            tenant: Tenant::new(line.get("tenant").unwrap_or("default")),
            priority: line.number("priority"),
            labels: line.texts("labels"),
            needs: line.needs("needs"),
            selector: Selector::default(),
            stale_after: line.duration("stale_after"),
            hard_time_limit: line.duration("hard"),
            concurrency_key: line.get("key").map(ConcurrencyKey::new),
        },
    }
}

/// The next instants of an entry.
pub(crate) fn plan(entry: &CronEntry, now: Wall) -> CronPlan {
    let micros = |length: Duration| i64::try_from(length.as_micros()).expect("a length");
    let after = entry.last_instant;
    let when = &*entry.policy.when;
    let (instants, ends): (Vec<Wall>, bool) = if let Some(every) = when.strip_prefix('+') {
        let every = micros(duration(every));
        let first = (after.0 - BEGIN).div_euclid(every) + 1;
        let most = i64::try_from(MOST).expect("a few");
        let last = first.max((now.0 - BEGIN).div_euclid(every)) + most;
        ((first..last).map(|n| Wall(BEGIN + n * every)).collect(), false)
    } else {
        let all = when.split(',').map(|at| Wall(BEGIN + micros(duration(at))));
        let all: Vec<Wall> = all.filter(|at| *at > after).collect();
        let over = all.iter().filter(|at| **at <= now).count();
        (all.iter().copied().take(over + MOST).collect(), all.len() <= over + MOST)
    };
    let (when, zone) = (entry.policy.when.clone(), entry.policy.zone.clone());
    CronPlan { entry: entry.name.clone(), when, zone, after, instants, ends }
}

/// How an entry stands, for people.
pub(crate) fn text(entry: &CronEntry) -> String {
    let since = |at: Wall| Duration::from_micros(u64::try_from(at.0 - BEGIN).expect("after the beginning"));
    let mut text = format!(
        "{} settled up to {:?}, fired {}, missed {}",
        entry.name,
        since(entry.last_instant),
        entry.fired,
        entry.missed
    );
    if let Some(pause) = &entry.paused {
        text += &format!(", paused by {} since {:?}", pause.by, since(pause.since));
    }
    for missed in &entry.recent {
        let (first, last) = (since(missed.first), since(missed.last));
        text += &format!(
            "\n  {} from {first:?} to {last:?}: {} ({})",
            missed.count, missed.reason, missed.message
        );
    }
    text
}

/// The name of an entry, as a script has it.
pub(crate) fn name(line: &Line, at: usize) -> CronName {
    CronName::new(line.name(at))
}
