//! Reading jobs: rows come from the store, and what only memory knows is laid over them by one question to the driver.
//!
//! Invariant: a job that is shown as live was live in a committed state after the call began, and a final state is
//! never missed by a wait.

use std::{collections::BTreeMap, time::Duration};

use prost::Message as _;
use tenure_proto::v1;
use tenure_scheduler::{
    self as scheduler, DedupeKey, FencingToken, Job, JobId, JobState, Kind, KindName, LiveView, NodeName,
    Refusal, State, Tenant, WorkflowId, micros,
};
use tenure_store::{JobCursor, JobFilter, StoredResult};

use crate::rpc::{
    api::Api,
    auth::Caller,
    check::Checks,
    convert,
    page::{self, Filters},
    status::No,
};

/// How many jobs one question to the driver is about, so that it stays under a millisecond.
const JOBS_A_QUESTION: usize = 64;

/// The most states of a filter.
const MOST_STATES: usize = 64;

/// How long a wait lasts if the caller does not say, and at the most.
const WAIT_DEFAULT: Duration = Duration::from_secs(30);
const WAIT_MOST: Duration = Duration::from_secs(600);

/// A job as it stands now, with what belongs beside it.
pub(super) struct Now {
    pub(super) job: Job,
    kind: Option<Kind>,
    live: Option<LiveView>,
}

impl Now {
    /// As memory has it; none: it does not live.
    pub(super) fn seen(state: &State, now: scheduler::Now, id: JobId) -> Option<Self> {
        let job = state.job(id)?.clone();
        let kind = state.kind(&job.kind).cloned();
        Some(Self { kind, live: state.live_view(now, id), job })
    }

    /// As a caller may see it that sees only its own jobs.
    pub(super) fn confined(self) -> Self {
        Self { live: self.live.map(LiveView::without_others), ..self }
    }

    /// Its execution that runs, a parked one included: under which token, and where.
    pub(super) fn runs(&self) -> Option<(FencingToken, NodeName)> {
        let runs = match self.job.state {
            JobState::Running => true,
            // One that detached has ended.
            JobState::Waiting { .. } => self.job.detached.is_none(),
            JobState::Scheduled { .. }
            | JobState::Blocked { .. }
            | JobState::Queued { .. }
            | JobState::Succeeded { .. }
            | JobState::Dead { .. }
            | JobState::Cancelled { .. }
            | JobState::Expired { .. } => false,
        };
        let node = self.live.as_ref()?.node.clone().filter(|_| runs)?;
        Some((self.job.token, node))
    }

    /// How it gets on, if it runs and has said so.
    pub(super) fn progress(&self) -> Option<&scheduler::Progress> {
        self.live.as_ref()?.progress.as_ref()
    }

    pub(super) fn shown(&self) -> v1::Job {
        convert::job::job(&self.job, self.kind.as_ref(), self.live.as_ref())
    }
}

pub(super) async fn get(
    api: &Api,
    caller: &Caller,
    request: &v1::GetJobRequest,
) -> Result<v1::GetJobResponse, No> {
    let id = required_id(&request.job_id)?;
    Ok(v1::GetJobResponse { job: Some(look(api, caller, id).await?.shown()) })
}

pub(super) async fn wait(
    api: &Api,
    caller: &Caller,
    request: &v1::WaitJobRequest,
    patience: Option<Duration>,
) -> Result<v1::WaitJobResponse, No> {
    let mut checks = Checks::default();
    let id = checks.job_id("job_id", &request.job_id);
    let timeout = checks.duration("timeout", request.timeout.as_ref(), Duration::ZERO..=WAIT_MOST);
    checks.finish()?;
    let Some(id) = id else { return Err(No::invalid_field("job_id", "is required")) };
    let over = api.handle.ways()?.over;
    // Watch first, then read: a change between the two is told by the watch.
    let mut watch = api.handle.watch_job(id)?;
    let asked = timeout.unwrap_or(WAIT_DEFAULT);
    // How it stands is worth more to the caller than that its call ran out.
    let within = patience.map_or(asked, |patience| asked.min(patience));
    let mut deadline = std::pin::pin!(tokio::time::sleep(within));
    loop {
        let row = row(api, caller, id).await?;
        if row.state.is_final() {
            let now = at_rest(api, row).await?;
            return Ok(v1::WaitJobResponse { job: Some(now.shown()), done: true });
        }
        // All three only wait, so that losing one of them loses nothing.
        let late = tokio::select! {
            biased;
            () = over.cancelled() => return Err(api.handle.elsewhere().into()),
            () = watch.changed() => false,
            () = &mut deadline => true,
        };
        if late {
            let now = look(api, caller, id).await?;
            return Ok(v1::WaitJobResponse { done: now.job.state.is_final(), job: Some(now.shown()) });
        }
    }
}

pub(super) async fn list(
    api: &Api,
    caller: &Caller,
    request: v1::ListJobsRequest,
) -> Result<v1::ListJobsResponse, No> {
    let mut checks = Checks::default();
    let size = page::size(&mut checks, request.page_size, 50);
    let filters = Filters::of(
        "ListJobs",
        &v1::ListJobsRequest { page_size: 0, page_token: String::new(), ..request.clone() },
    );
    let after: Option<JobCursor> = page::place(&mut checks, filters, &request.page_token);
    let filter = JobFilter { producer: caller.sees_only(), ..job_filter(&mut checks, &request) };
    checks.finish()?;

    // One row more than the page tells whether there is another page.
    let mut rows = api.read(api.handle.reader().list_jobs(&filter, after, size + 1).await)?;
    let mut more = rows.len() > size as usize;
    rows.truncate(size as usize);
    let live = overlay(api, caller, &rows).await?;
    let kinds = api.kinds(rows.iter().map(|row| &row.kind)).await?;
    let mut jobs = Vec::with_capacity(rows.len());
    let mut bytes = 0;
    let mut last = None;
    for row in &rows {
        let job = convert::job::job(row, kinds.get(&row.kind), live.get(&row.id));
        bytes += job.encoded_len();
        if bytes > page::MOST_BYTES && !jobs.is_empty() {
            more = true;
            break;
        }
        jobs.push(job);
        last = Some(JobCursor::after(row));
    }
    let next = last.filter(|_| more).map(|place| page::token(filters, &place));
    Ok(v1::ListJobsResponse { jobs, next_page_token: next.unwrap_or_default() })
}

pub(super) async fn result(
    api: &Api,
    caller: &Caller,
    request: &v1::GetResultRequest,
) -> Result<v1::GetResultResponse, No> {
    let stored = stored_result(api, caller, &request.job_id).await?;
    if stored.object.is_some() {
        return Err(No::result_not_inline(stored.job, stored.size()));
    }
    Ok(v1::GetResultResponse { result: Some(convert::job::result(stored)) })
}

/// The result of a job, wherever its bytes stand.
pub(super) async fn stored_result(api: &Api, caller: &Caller, job: &str) -> Result<StoredResult, No> {
    let id = required_id(job)?;
    check_own(api, caller, id).await?;
    let stored = api.read(api.handle.reader().result(id).await)?;
    let kept = stored.filter(|result| result.expires_at > api.now());
    if let Some(whole) = kept.as_ref().filter(|result| !result.partial) {
        return Ok(whole.clone());
    }
    let row = row(api, caller, id).await?;
    match kept.filter(|result| !result.is_superseded(&row.state, row.token)) {
        Some(partial) => Ok(partial),
        None => {
            let no = No::no_result(id, row.state.name());
            Err(match row.left_result {
                Some(true) => no.expired(id, true),
                Some(false) => no.left_nothing(),
                None if is_over(api, &row).await? => no.expired(id, false),
                None => no,
            })
        }
    }
}

/// Of a job of which nobody noted whether it left a result: whether that, had there been one, would be kept no more. Of a kind that is declared no more nobody knows:
/// then it may be.
async fn is_over(api: &Api, job: &Job) -> Result<bool, No> {
    let JobState::Succeeded { at: ended } = job.state else { return Ok(false) };
    let kinds = api.kinds([&job.kind]).await?;
    let ttl = kinds.get(&job.kind).map(|kind| micros(kind.policy.result_ttl));
    Ok(ttl.is_none_or(|ttl| {
        let ttl = i64::try_from(ttl).unwrap_or(i64::MAX);
        ended.0.saturating_add(ttl) <= api.now().0
    }))
}

pub(super) async fn attempts(
    api: &Api,
    caller: &Caller,
    request: v1::ListAttemptsRequest,
) -> Result<v1::ListAttemptsResponse, No> {
    let mut checks = Checks::default();
    let id = checks.job_id("job_id", &request.job_id);
    let size = page::size(&mut checks, request.page_size, 100);
    let bound = v1::ListAttemptsRequest { page_size: 0, page_token: String::new(), ..request.clone() };
    let filters = Filters::of("ListAttempts", &bound);
    let after: Option<FencingToken> = page::place(&mut checks, filters, &request.page_token);
    checks.finish()?;
    let Some(id) = id else { return Err(No::invalid_field("job_id", "is required")) };

    let row = row(api, caller, id).await?;
    let (attempts, more) = attempts_page(api, &row, after, size).await?;
    let last = attempts.last().map(|attempt| FencingToken(attempt.token));
    let next = last.filter(|_| more).map(|place| page::token(filters, &place));
    Ok(v1::ListAttemptsResponse { attempts, next_page_token: next.unwrap_or_default() })
}

/// Ended executions of a job, the oldest first, and whether there are more.
pub(super) async fn attempts_page(
    api: &Api,
    job: &Job,
    after: Option<FencingToken>,
    size: u32,
) -> Result<(Vec<v1::Attempt>, bool), No> {
    let rows = api.read(api.handle.reader().attempts(job.id, after, size + 1).await)?;
    let mut all: Vec<v1::Attempt> = rows.iter().map(convert::job::attempt).collect();
    // An only execution that succeeded has no row; it is the newest, so it comes last.
    let only = convert::job::only_attempt(job).filter(|only| {
        let unseen = after.is_none_or(|after| after.0 < only.token);
        unseen && all.iter().all(|attempt| attempt.token < only.token)
    });
    all.extend(only);
    let mut bytes = 0;
    let fit = all.iter().take_while(|attempt| {
        bytes += attempt.encoded_len();
        bytes <= page::MOST_BYTES
    });
    let keep = fit.count().max(1).min(size as usize);
    let more = all.len() > keep;
    all.truncate(keep);
    Ok((all, more))
}

fn job_filter(checks: &mut Checks, request: &v1::ListJobsRequest) -> JobFilter {
    let mut states = Vec::new();
    let count = request.states.len();
    let looked_into = if count <= MOST_STATES { request.states.as_slice() } else { &[] };
    if looked_into.len() < count {
        checks.refuse("states", format!("holds {count} entries, at most {MOST_STATES} are allowed"));
    }
    for (i, &value) in looked_into.iter().enumerate() {
        match v1::JobState::try_from(value).ok().and_then(convert::job::state_name) {
            Some(name) if states.contains(&name) => {}
            Some(name) => states.push(name),
            None => checks.refuse(format!("states[{i}]"), format!("{value} is unknown")),
        }
    }
    JobFilter {
        kind: checks.optional_name("kind", &request.kind, KindName::parse),
        states,
        tenant: checks.optional_name("tenant", &request.tenant, Tenant::parse),
        dedupe_key: checks.text("dedupe_key", &request.dedupe_key, 255).map(DedupeKey::new),
        parent: checks.optional_job_id("parent_id", &request.parent_id),
        workflow: checks.optional_job_id("workflow_id", &request.workflow_id).map(|id| WorkflowId(id.0)),
        node: checks.optional_name("node", &request.node, NodeName::parse),
        producer: None,
        id_part: checks.optional_id_part("id_part", &request.id_part),
    }
}

/// The live part of those rows of a page that still are as the store had them.
async fn overlay(api: &Api, caller: &Caller, rows: &[Job]) -> Result<BTreeMap<JobId, LiveView>, No> {
    let live: Vec<(JobId, u64)> =
        rows.iter().filter(|row| !row.state.is_final()).map(|row| (row.id, row.version)).collect();
    let mut views = BTreeMap::new();
    if !api.leads() {
        return Ok(views);
    }
    for chunk in live.chunks(JOBS_A_QUESTION) {
        let asked = chunk.to_vec();
        let answers = api.query(move |state, now| {
            let same = asked
                .into_iter()
                .filter(|&(id, version)| state.job(id).is_some_and(|job| job.version == version));
            same.filter_map(|(id, _)| Some((id, state.live_view(now, id)?))).collect::<Vec<_>>()
        });
        views.extend(answers.await?);
    }
    if caller.sees_only().is_some() {
        views = views.into_iter().map(|(id, view)| (id, view.without_others())).collect();
    }
    Ok(views)
}

/// A job as it stands now: final ones from the store, live ones as memory has them. Where this server does not lead, all
/// from the store.
pub(super) async fn look(api: &Api, caller: &Caller, id: JobId) -> Result<Now, No> {
    let stored = row(api, caller, id).await?;
    if !stored.state.is_final()
        && api.leads()
        && let Some(now) = api.query(move |state, now| Now::seen(state, now, id)).await?
    {
        return Ok(if caller.sees_only().is_some() { now.confined() } else { now });
    }
    // Final, or it became final between the two looks: then the store has it by now.
    let job = if stored.state.is_final() || !api.leads() { stored } else { row(api, caller, id).await? };
    at_rest(api, job).await
}

/// A job as its row tells it.
async fn at_rest(api: &Api, job: Job) -> Result<Now, No> {
    let kind = api.kinds([&job.kind]).await?.remove(&job.kind);
    Ok(Now { job, kind, live: None })
}

async fn row(api: &Api, caller: &Caller, id: JobId) -> Result<Job, No> {
    let found = api.read(api.handle.reader().get_job(id).await)?;
    // Another producer's job is not there for this one: it does not even learn that there is one.
    let only = caller.sees_only();
    let seen = found.filter(|job| only.as_ref().is_none_or(|own| *own == job.producer));
    seen.ok_or_else(|| Refusal::JobNotFound { job: id }.into())
}

/// Whether a job is one that the caller may touch.
///
/// # Errors
/// If it is not there for the caller.
pub(super) async fn check_own(api: &Api, caller: &Caller, id: JobId) -> Result<(), No> {
    match caller.sees_only() {
        // Who enqueued a job never changes, so that the row is as good as the committed state.
        Some(_) => row(api, caller, id).await.map(drop),
        None => Ok(()),
    }
}

pub(super) fn required_id(text: &str) -> Result<JobId, No> {
    let mut checks = Checks::default();
    let id = checks.job_id("job_id", text);
    checks.finish()?;
    id.ok_or_else(|| No::invalid_field("job_id", "is required"))
}
