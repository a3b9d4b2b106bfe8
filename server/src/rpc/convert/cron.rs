//! Cron entries for the wire.

use tenure_proto::v1;
use tenure_scheduler::{CronEntry, INSTANT_LABEL, Job, MissedFiring, MissedPolicy, Wall};

use super::{duration, timestamp};
use crate::calendar::Timetable;

/// How many instants that come are shown.
const SHOWN: usize = 5;

/// An entry as it stands, with the instants that come.
pub(crate) fn entry(entry: &CronEntry, now: Wall) -> v1::CronEntry {
    let policy = &entry.policy;
    let (missed_policy, catch_up) = match policy.missed {
        MissedPolicy::Skip => (v1::MissedPolicy::Skip, 0),
        MissedPolicy::Coalesce => (v1::MissedPolicy::Coalesce, 0),
        MissedPolicy::CatchUp(most) => (v1::MissedPolicy::CatchUp, most),
    };
    let last = entry.last_fired;
    v1::CronEntry {
        name: entry.name.to_string(),
        kind: policy.kind.to_string(),
        when: policy.when.to_string(),
        zone: policy.zone.to_string(),
        missed_policy: missed_policy.into(),
        catch_up,
        jitter: Some(duration(policy.jitter)),
        singleton: policy.singleton,
        paused: entry.paused.is_some(),
        paused_by: entry.paused.as_ref().map(|pause| pause.by.to_string()).unwrap_or_default(),
        pause_time: entry.paused.as_ref().map(|pause| timestamp(pause.since)),
        fired: entry.fired,
        missed: entry.missed,
        last_job_id: last.map(|fired| fired.job.to_string()).unwrap_or_default(),
        last_fire_time: last.map(|fired| timestamp(fired.at)),
        last_instant: last.and_then(|fired| fired.instant).map(timestamp),
        missed_firings: entry.recent.iter().map(missed).collect(),
        next: if entry.paused.is_some() { Vec::new() } else { next(entry, now) },
        tenant: policy.job.tenant.to_string(),
    }
}

fn next(entry: &CronEntry, now: Wall) -> Vec<v1::ComingFiring> {
    let Ok(table) = Timetable::new(&entry.policy.when, &entry.policy.zone) else { return Vec::new() };
    let coming = table.after(entry.last_instant.max(now)).take(SHOWN);
    coming.map(|at| v1::ComingFiring { instant: Some(timestamp(at)), local_time: table.local(at) }).collect()
}

fn missed(missed: &MissedFiring) -> v1::MissedFiring {
    v1::MissedFiring {
        first: Some(timestamp(missed.first)),
        last: Some(timestamp(missed.last)),
        count: missed.count,
        reason: missed.reason.to_string(),
        message: missed.message.to_string(),
        record_time: Some(timestamp(missed.at)),
    }
}

/// The entry for which a job was enqueued.
pub(crate) fn firing(job: &Job) -> Option<v1::CronFiring> {
    let entry = job.producer.cron_entry()?.to_owned();
    let instant = job.labels.get(INSTANT_LABEL).and_then(|text| text.parse::<jiff::Timestamp>().ok());
    Some(v1::CronFiring { entry, instant: instant.map(|at| timestamp(Wall(at.as_microsecond()))) })
}
