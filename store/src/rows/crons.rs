//! Cron entries.

use std::{collections::BTreeMap, str::FromStr as _, time::Duration};

use serde::{Deserialize, Serialize};
use tenure_scheduler::{
    ConcurrencyKey, CronEntry, CronJob, CronName, CronPause, CronPolicy, Fired, JobId, KindName,
    MissedFiring, MissedPolicy, Needs, Tenant, Wall,
};

use super::{
    At, Error, Fields, Json, int, json::NeedsJson, json_text, length_us, mapped, selector::SelectorJson,
};

mapped! {
/// The columns of a cron entry, to be written.
pub(crate) struct CronRow<'a> {
    name: &'a str,
    policy: Json,
    last_instant: At,
    paused_by: Option<&'a str>,
    paused_at: Option<At>,
    fired: i64,
    missed: i64,
    last_fired: Option<Json>,
    recent: Json,
}
}

impl<'a> From<&'a CronEntry> for CronRow<'a> {
    fn from(entry: &'a CronEntry) -> Self {
        let recent: Vec<MissedJson> = entry.recent.iter().map(MissedJson::from).collect();
        Self {
            name: entry.name.as_str(),
            policy: json_text(&CronPolicyJson::from(&entry.policy)),
            last_instant: entry.last_instant.into(),
            paused_by: entry.paused.as_ref().map(|pause| &*pause.by),
            paused_at: entry.paused.as_ref().map(|pause| pause.since.into()),
            fired: int(entry.fired),
            missed: int(entry.missed),
            last_fired: entry.last_fired.map(|fired| json_text(&FiredJson::from(fired))),
            recent: json_text(&recent),
        }
    }
}

/// Reads a cron entry from name, policy, last_instant, paused_by, paused_at, fired, missed, last_fired, recent.
///
/// # Errors
/// If a column makes no sense.
pub(crate) fn read_cron(row: &mut Fields<'_>) -> Result<CronEntry, Error> {
    let name = row.name("name", CronName::new)?;
    row.set_key(&name);
    let policy = CronPolicy::from(row.json::<CronPolicyJson>("policy")?);
    let last_instant = row.wall("last_instant")?;
    let by = row.opt_text("paused_by", |by| by.into())?;
    let since = row.opt_wall("paused_at")?;
    let paused = match by {
        Some(by) => Some(CronPause { by, since: row.some("paused_at", since)? }),
        None => None,
    };
    let (fired, missed) = (row.int("fired")?, row.int("missed")?);
    let last_fired = match row.opt_json::<FiredJson>("last_fired")? {
        Some(json) => {
            let job = JobId::from_str(&json.job).map_err(|_| row.wrong("last_fired", &"names no job"))?;
            Some(Fired { instant: json.instant.map(Wall), at: Wall(json.at), job })
        }
        None => None,
    };
    let recent = row.json::<Vec<MissedJson>>("recent")?.into_iter().map(MissedFiring::from).collect();
    Ok(CronEntry { name, policy, last_instant, paused, fired, missed, last_fired, recent })
}

/// What the fleet file says of an entry.
#[derive(Serialize, Deserialize)]
struct CronPolicyJson {
    kind: String,
    when: String,
    zone: String,
    missed: MissedPolicyJson,
    jitter_us: i64,
    singleton: bool,
    payload: String,
    content_type: String,
    tenant: String,
    priority: Option<i8>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    needs: Option<NeedsJson>,
    #[serde(default)]
    selector: SelectorJson,
    stale_after_us: Option<i64>,
    hard_time_limit_us: Option<i64>,
    concurrency_key: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum MissedPolicyJson {
    Skip,
    Coalesce,
    CatchUp(u32),
}

impl From<&CronPolicy> for CronPolicyJson {
    fn from(policy: &CronPolicy) -> Self {
        let job = &policy.job;
        Self {
            kind: policy.kind.to_string(),
            when: policy.when.to_string(),
            zone: policy.zone.to_string(),
            missed: match policy.missed {
                MissedPolicy::Skip => MissedPolicyJson::Skip,
                MissedPolicy::Coalesce => MissedPolicyJson::Coalesce,
                MissedPolicy::CatchUp(most) => MissedPolicyJson::CatchUp(most),
            },
            jitter_us: length_us(policy.jitter),
            singleton: policy.singleton,
            payload: job.payload.to_string(),
            content_type: job.content_type.to_string(),
            tenant: job.tenant.to_string(),
            priority: job.priority,
            labels: job.labels.clone(),
            needs: job.needs.as_ref().map(NeedsJson::from),
            selector: (&job.selector).into(),
            stale_after_us: job.stale_after.map(length_us),
            hard_time_limit_us: job.hard_time_limit.map(length_us),
            concurrency_key: job.concurrency_key.as_ref().map(ToString::to_string),
        }
    }
}

impl From<CronPolicyJson> for CronPolicy {
    fn from(json: CronPolicyJson) -> Self {
        Self {
            kind: KindName::new(json.kind),
            when: json.when.into(),
            zone: json.zone.into(),
            missed: match json.missed {
                MissedPolicyJson::Skip => MissedPolicy::Skip,
                MissedPolicyJson::Coalesce => MissedPolicy::Coalesce,
                MissedPolicyJson::CatchUp(most) => MissedPolicy::CatchUp(most),
            },
            jitter: length(json.jitter_us),
            singleton: json.singleton,
            job: CronJob {
                payload: json.payload.into(),
                content_type: json.content_type.into(),
                tenant: Tenant::new(json.tenant),
                priority: json.priority,
                labels: json.labels,
                needs: json.needs.map(Needs::from),
                selector: json.selector.into(),
                stale_after: json.stale_after_us.map(length),
                hard_time_limit: json.hard_time_limit_us.map(length),
                concurrency_key: json.concurrency_key.map(ConcurrencyKey::new),
            },
        }
    }
}

fn length(us: i64) -> Duration {
    Duration::from_micros(u64::try_from(us).unwrap_or(0))
}

/// The newest job of an entry.
#[derive(Serialize, Deserialize)]
struct FiredJson {
    instant: Option<i64>,
    at: i64,
    job: String,
}

impl From<Fired> for FiredJson {
    fn from(fired: Fired) -> Self {
        Self { instant: fired.instant.map(|at| at.0), at: fired.at.0, job: fired.job.to_string() }
    }
}

/// Instants that did not become a job.
#[derive(Serialize, Deserialize)]
struct MissedJson {
    first: i64,
    last: i64,
    count: i64,
    reason: String,
    message: String,
    at: i64,
}

impl From<&MissedFiring> for MissedJson {
    fn from(missed: &MissedFiring) -> Self {
        Self {
            first: missed.first.0,
            last: missed.last.0,
            count: int(missed.count),
            reason: missed.reason.to_string(),
            message: missed.message.to_string(),
            at: missed.at.0,
        }
    }
}

impl From<MissedJson> for MissedFiring {
    fn from(json: MissedJson) -> Self {
        Self {
            first: Wall(json.first),
            last: Wall(json.last),
            count: u64::try_from(json.count).unwrap_or(0),
            reason: json.reason.into(),
            message: json.message.into(),
            at: Wall(json.at),
        }
    }
}
