//! Jobs and attempts.

use std::{collections::BTreeMap, sync::Arc};

use serde::Serialize;
use tenure_scheduler::{
    Attempt, ConcurrencyKey, DedupeKey, FencingToken, Fingerprint, Job, JobId, JobState, KindName, MemberOf,
    Needs, NodeName, OnParent, Outcome, Producer, ScheduledCause, Sequence, Tenant, TraceContext, Usage,
    Wait, Wall, WorkflowId,
};

use super::{
    At, Error, Fields, Hex, Json, Text,
    families::{DetachedJson, on_parent_of},
    int,
    json::{NeedsJson, UsageJson, WaitJson},
    json_text, length_us, positional,
    selector::RoutingJson,
};
use crate::{HeldKey, KindCutoff};

positional! {
/// The columns of a job, to be written, in the order of `job_columns`; behind them the token that its row has.
pub(crate) struct JobRow<'a> {
    id: Text<JobId>,
    sequence: i64,
    tenant: &'a str,
    producer: &'a str,
    kind: &'a str,
    state: &'static str,
    version: i64,
    priority: i8,
    needs: Option<Json>,
    selector: Json,
    labels: Json,
    dedupe_key: Option<&'a str>,
    dedupe_held: bool,
    fingerprint: Hex,
    hard_time_limit_us: Option<i64>,
    parent_id: Option<Text<JobId>>,
    root_id: Text<JobId>,
    depth: u8,
    children: u32,
    traceparent: Option<&'a str>,
    tracestate: Option<&'a str>,
    payload_size: i64,
    round: u32,
    failures: u32,
    losses: u32,
    returns: u32,
    returns_in_row: u32,
    token: i64,
    last_outcome: Option<&'static str>,
    last_node: Option<&'a str>,
    granted_at: Option<At>,
    started_at: Option<At>,
    cancel_requested: bool,
    created_at: At,
    stale_at: Option<At>,
    reason: Option<&'a str>,
    waits: Json,
    run_at: Option<At>,
    scheduled_cause: Option<&'static str>,
    queued_at: Option<At>,
    finished_at: Option<At>,
    on_parent_cancel: &'static str,
    on_parent_lost: &'static str,
    waiting_at: Option<At>,
    detached: Option<Json>,
    concurrency_key: Option<&'a str>,
    soft_time_limit_us: Option<i64>,
    workflow_id: Option<Text<JobId>>,
    workflow_place: Option<i64>,
    blocked_at: Option<At>,
    left_result: Option<bool>,
    previous: Option<i64>,
}
}

impl<'a> JobRow<'a> {
    pub(crate) fn insert(job: &'a Job) -> Self {
        Self::new(None, job)
    }

    pub(crate) fn update(previous: FencingToken, job: &'a Job) -> Self {
        Self::new(Some(int(previous.0)), job)
    }

    fn new(previous: Option<i64>, job: &'a Job) -> Self {
        let (run_at, scheduled_cause) = match job.state {
            JobState::Scheduled { until, cause } => (Some(At(until.0)), Some(cause_name(cause))),
            JobState::Blocked { .. }
            | JobState::Queued { .. }
            | JobState::Running
            | JobState::Waiting { .. }
            | JobState::Succeeded { .. }
            | JobState::Dead { .. }
            | JobState::Cancelled { .. }
            | JobState::Expired { .. } => (None, None),
        };
        let blocked_at = if let JobState::Blocked { since } = job.state { Some(At(since.0)) } else { None };
        let waiting_at = if let JobState::Waiting { since } = job.state { Some(At(since.0)) } else { None };
        let queued_at = if let JobState::Queued { since } = job.state { Some(At(since.0)) } else { None };
        Self {
            id: Text(job.id),
            sequence: int(job.sequence.0),
            tenant: job.tenant.as_str(),
            producer: job.producer.as_str(),
            kind: job.kind.as_str(),
            state: job.state.name(),
            version: int(job.version),
            priority: job.priority,
            needs: job.needs.as_ref().map(|needs| json_text(&NeedsJson::from(needs))),
            selector: json_text(&RoutingJson::from(job)),
            labels: json_text(&job.labels),
            dedupe_key: job.dedupe_key.as_ref().map(DedupeKey::as_str),
            dedupe_held: job.dedupe_held,
            fingerprint: Hex(job.fingerprint.0),
            hard_time_limit_us: job.hard_time_limit.map(length_us),
            parent_id: job.parent.map(Text),
            root_id: Text(job.root),
            depth: job.depth,
            children: job.children,
            traceparent: job.trace.as_ref().map(|trace| &*trace.parent),
            tracestate: job.trace.as_ref().and_then(|trace| trace.state.as_deref()),
            payload_size: int(job.payload_size),
            round: job.round,
            failures: job.failures,
            losses: job.losses,
            returns: job.returns,
            returns_in_row: job.returns_in_row,
            token: int(job.token.0),
            last_outcome: job.last_outcome.map(Outcome::name),
            last_node: job.last_node.as_ref().map(NodeName::as_str),
            granted_at: job.granted_at.map(At::from),
            started_at: job.started_at.map(At::from),
            cancel_requested: job.cancel_requested,
            created_at: job.created_at.into(),
            stale_at: job.stale_at.map(At::from),
            reason: job.reason.as_deref(),
            waits: json_text(&job.waits.iter().map(WaitJson::from).collect::<Vec<_>>()),
            run_at,
            scheduled_cause,
            queued_at,
            finished_at: job.state.finished_at().map(At::from),
            on_parent_cancel: job.on_parent_cancel.name(),
            on_parent_lost: job.on_parent_lost.name(),
            waiting_at,
            detached: job.detached.as_ref().map(|detached| json_text(&DetachedJson::from(&**detached))),
            concurrency_key: job.concurrency_key.as_ref().map(ConcurrencyKey::as_str),
            soft_time_limit_us: job.soft_time_limit.map(length_us),
            workflow_id: job.workflow.map(|of| Text(JobId(of.workflow.0))),
            workflow_place: job.workflow.map(|of| of.place.into()),
            blocked_at,
            left_result: job.left_result,
            previous,
        }
    }
}

/// The columns of a job, in the order of [`read_job`]. A macro, so that statements can be constants.
macro_rules! job_columns {
    () => {
        "id, sequence, tenant, producer, kind, state, version, priority, needs, selector, labels, dedupe_key, \
         dedupe_held, fingerprint, hard_time_limit_us, parent_id, root_id, depth, children, traceparent, \
         tracestate, payload_size, round, failures, losses, returns, returns_in_row, token, last_outcome, last_node, granted_at, \
         started_at, cancel_requested, created_at, stale_at, reason, waits, run_at, scheduled_cause, queued_at, \
         finished_at, on_parent_cancel, on_parent_lost, waiting_at, detached, concurrency_key, \
         soft_time_limit_us, workflow_id, workflow_place, blocked_at, left_result"
    };
}
pub(crate) use job_columns;

/// Reads a job from `job_columns`.
///
/// # Errors
/// If a column makes no sense.
pub(crate) fn read_job(row: &mut Fields<'_>) -> Result<Job, Error> {
    let id = row.id("id")?;
    row.set_key(&id);
    let sequence = Sequence(row.int("sequence")?);
    let tenant = row.name("tenant", Tenant::new)?;
    let producer = row.name("producer", Producer::new)?;
    let kind = row.name("kind", KindName::new)?;
    let state_name = row.name("state", |name| name)?;
    let prefer;
    let mut job = Job {
        id,
        sequence,
        tenant,
        producer,
        kind,
        version: row.int("version")?,
        priority: row.int("priority")?,
        needs: row.opt_json::<NeedsJson>("needs")?.map(Needs::from),
        selector: {
            let (selector, wanted) = row.json::<RoutingJson>("selector")?.into();
            prefer = wanted;
            selector
        },
        prefer,
        labels: row.json::<BTreeMap<String, String>>("labels")?,
        dedupe_key: row.opt_text("dedupe_key", |key| DedupeKey::new(key))?,
        dedupe_held: row.flag("dedupe_held")?,
        fingerprint: Fingerprint(row.bytes("fingerprint")?),
        hard_time_limit: row.opt_length("hard_time_limit_us")?,
        parent: row.opt_id("parent_id")?,
        root: row.id("root_id")?,
        depth: row.int("depth")?,
        children: row.int("children")?,
        trace: read_trace(row)?,
        payload_size: row.int("payload_size")?,
        round: row.int("round")?,
        failures: row.int("failures")?,
        losses: row.int("losses")?,
        returns: row.int("returns")?,
        returns_in_row: row.int("returns_in_row")?,
        token: row.token("token")?,
        last_outcome: read_opt_outcome(row, "last_outcome")?,
        left_result: None, // stands behind
        last_node: row.opt_name("last_node", NodeName::new)?,
        granted_at: row.opt_wall("granted_at")?,
        started_at: row.opt_wall("started_at")?,
        cancel_requested: row.flag("cancel_requested")?,
        created_at: row.wall("created_at")?,
        stale_at: row.opt_wall("stale_at")?,
        reason: row.opt_text("reason", |text| text.into())?,
        waits: row.json::<Vec<WaitJson<'_>>>("waits")?.into_iter().map(Wait::from).collect(),
        // What stands behind these columns.
        state: JobState::Running,
        on_parent_cancel: OnParent::Cancel,
        on_parent_lost: OnParent::Keep,
        detached: None,
        concurrency_key: None,
        soft_time_limit: None,
        workflow: None,
    };
    let times = StateTimes::read(row)?;
    job.on_parent_cancel = read_on_parent(row, "on_parent_cancel")?;
    job.on_parent_lost = read_on_parent(row, "on_parent_lost")?;
    job.state = times.state(row, &state_name)?;
    job.detached = row.opt_json::<DetachedJson>("detached")?.map(|json| Box::new(json.into()));
    job.concurrency_key = row.opt_text("concurrency_key", |key| ConcurrencyKey::new(key))?;
    job.soft_time_limit = row.opt_length("soft_time_limit_us")?;
    job.workflow = read_member_of(row)?;
    let blocked_at = row.opt_wall("blocked_at")?;
    if &*state_name == "blocked" {
        job.state = JobState::Blocked { since: row.some("blocked_at", blocked_at)? };
    }
    job.left_result = row.opt_flag("left_result")?;
    Ok(job)
}

fn read_on_parent(row: &mut Fields<'_>, column: &'static str) -> Result<OnParent, Error> {
    row.text(column, on_parent_of)?.ok_or_else(|| row.wrong(column, &"is none that this version knows"))
}

fn read_member_of(row: &mut Fields<'_>) -> Result<Option<MemberOf>, Error> {
    let workflow = row.opt_id("workflow_id")?.map(|id| WorkflowId(id.0));
    match (workflow, row.opt_int("workflow_place")?) {
        (Some(workflow), Some(place)) => Ok(Some(MemberOf { workflow, place })),
        (None, None) => Ok(None),
        (Some(_), None) | (None, Some(_)) => Err(row.wrong("workflow_place", &"stands without its workflow")),
    }
}

fn read_trace(row: &mut Fields<'_>) -> Result<Option<Arc<TraceContext>>, Error> {
    let parent = row.opt_text("traceparent", |text| text.into())?;
    let state = row.opt_text("tracestate", |text| text.into())?;
    match (parent, state) {
        (Some(parent), state) => Ok(Some(Arc::new(TraceContext { parent, state }))),
        (None, None) => Ok(None),
        (None, Some(_)) => Err(row.wrong("tracestate", &"stands without a traceparent")),
    }
}

/// The columns that belong to the state, but for the time of a wait.
struct StateTimes {
    run_at: Option<Wall>,
    cause: Option<ScheduledCause>,
    queued_at: Option<Wall>,
    finished_at: Option<Wall>,
}

impl StateTimes {
    fn read(row: &mut Fields<'_>) -> Result<Self, Error> {
        Ok(Self {
            run_at: row.opt_wall("run_at")?,
            cause: row.opt_text("scheduled_cause", cause_of)?.flatten(),
            queued_at: row.opt_wall("queued_at")?,
            finished_at: row.opt_wall("finished_at")?,
        })
    }

    /// The state of that name; its last column comes next.
    fn state(self, row: &mut Fields<'_>, name: &str) -> Result<JobState, Error> {
        let waiting_at = row.opt_wall("waiting_at")?;
        let at = |row: &Fields<'_>, at: Option<Wall>| row.some("the time of the state", at);
        Ok(match name {
            "scheduled" => {
                let cause = row.some("scheduled_cause", self.cause)?;
                JobState::Scheduled { until: at(row, self.run_at)?, cause }
            }
            "blocked" => JobState::Running, // Its time stands behind what comes next.
            "queued" => JobState::Queued { since: at(row, self.queued_at)? },
            "running" => JobState::Running,
            "waiting" => JobState::Waiting { since: at(row, waiting_at)? },
            "succeeded" => JobState::Succeeded { at: at(row, self.finished_at)? },
            "dead" => JobState::Dead { at: at(row, self.finished_at)? },
            "cancelled" => JobState::Cancelled { at: at(row, self.finished_at)? },
            "expired" => JobState::Expired { at: at(row, self.finished_at)? },
            _ => return Err(row.wrong("state", &"is none that this version knows")),
        })
    }
}

positional! {
/// The columns of an attempt, to be written.
pub(crate) struct AttemptRow<'a> {
    job_id: Text<JobId>,
    token: i64,
    attempt: u32,
    round: u32,
    node: &'a str,
    outcome: &'static str,
    cause: &'a str,
    error: &'a str,
    exit_code: Option<i32>,
    granted_at: At,
    started_at: Option<At>,
    ended_at: At,
    detached: bool,
    usage: Option<Json>,
    partial: bool,
    checkpoint_size: Option<i64>,
}
}

impl<'a> From<&'a Attempt> for AttemptRow<'a> {
    fn from(attempt: &'a Attempt) -> Self {
        let detached = attempt.outcome == Outcome::Detached;
        Self {
            job_id: Text(attempt.job),
            token: int(attempt.token.0),
            attempt: attempt.attempt,
            round: attempt.round,
            node: attempt.node.as_str(),
            // A return with a flag: what the version before takes it for.
            outcome: if detached { Outcome::Returned.name() } else { attempt.outcome.name() },
            cause: &attempt.cause,
            error: &attempt.error,
            exit_code: attempt.exit_code,
            granted_at: attempt.granted_at.into(),
            started_at: attempt.started_at.map(At::from),
            ended_at: attempt.ended_at.into(),
            detached,
            usage: (!attempt.usage.is_empty()).then(|| json_text(&UsageJson::from(&attempt.usage))),
            partial: attempt.partial,
            checkpoint_size: attempt.checkpoint_size.map(int),
        }
    }
}

/// Reads an attempt from job_id, token, attempt, round, node, outcome, cause, error, exit_code, granted_at,
/// started_at, ended_at, detached, usage, partial, checkpoint_size.
///
/// # Errors
/// If a column makes no sense.
pub(crate) fn read_attempt(row: &mut Fields<'_>) -> Result<Attempt, Error> {
    let job = row.id("job_id")?;
    row.set_key(&job);
    let token = row.token("token")?;
    row.set_key(&format_args!("{job} {token}"));
    let mut attempt = Attempt {
        job,
        token,
        attempt: row.int("attempt")?,
        round: row.int("round")?,
        node: row.name("node", NodeName::new)?,
        outcome: {
            let outcome = read_opt_outcome(row, "outcome")?;
            row.some("outcome", outcome)?
        },
        cause: row.name("cause", |cause| cause)?,
        error: row.text("error", |text| text.into())?,
        exit_code: row.opt_int("exit_code")?,
        granted_at: row.wall("granted_at")?,
        started_at: row.opt_wall("started_at")?,
        ended_at: row.wall("ended_at")?,
        usage: Usage::default(),
        partial: false,
        checkpoint_size: None,
    };
    if row.flag("detached")? {
        attempt.outcome = Outcome::Detached;
    }
    attempt.usage = row.opt_json::<UsageJson>("usage")?.map(Usage::from).unwrap_or_default();
    attempt.partial = row.flag("partial")?;
    attempt.checkpoint_size = row.opt_int("checkpoint_size")?;
    Ok(attempt)
}

/// A dedupe key with what it is unique in, to be asked for.
#[derive(Serialize)]
pub(crate) struct KeyRow<'a> {
    tenant: &'a str,
    kind: &'a str,
    dedupe_key: &'a str,
}

impl<'a> From<&'a HeldKey> for KeyRow<'a> {
    fn from(held: &'a HeldKey) -> Self {
        Self { tenant: held.tenant.as_str(), kind: held.kind.as_str(), dedupe_key: held.key.as_str() }
    }
}

/// When final jobs of a kind are due, to be asked for.
#[derive(Serialize)]
pub(crate) struct CutoffRow<'a> {
    kind: &'a str,
    finished_until: i64,
}

impl<'a> From<&'a KindCutoff> for CutoffRow<'a> {
    fn from(cutoff: &'a KindCutoff) -> Self {
        Self { kind: cutoff.kind.as_str(), finished_until: cutoff.finished_until.0 }
    }
}

fn read_opt_outcome(row: &mut Fields<'_>, column: &'static str) -> Result<Option<Outcome>, Error> {
    let known = |name: &str| Outcome::ALL.into_iter().find(|outcome| outcome.name() == name);
    match row.opt_text(column, known)? {
        Some(None) => Err(row.wrong(column, &"is none that this version knows")),
        Some(outcome) => Ok(outcome),
        None => Ok(None),
    }
}

fn cause_name(cause: ScheduledCause) -> &'static str {
    match cause {
        ScheduledCause::RunAt => "run_at",
        ScheduledCause::Backoff => "backoff",
    }
}

fn cause_of(name: &str) -> Option<ScheduledCause> {
    [ScheduledCause::RunAt, ScheduledCause::Backoff].into_iter().find(|cause| cause_name(*cause) == name)
}
