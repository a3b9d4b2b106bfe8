//! Jobs: enqueue, and everything that is done to a single job. Thin: check, submit, show.

use std::{collections::BTreeMap, sync::Arc};

use prost::Message as _;
use tenure_proto::limits;
use tenure_proto::v1::{self, job_service_server::JobService};
use tenure_scheduler::{Command, Job, JobId, Kind, KindName, Producer, Refusal, Reply, TraceContext};
use tonic::{Request, Response, Status, async_trait};
use uuid::{NoContext, Timestamp, Uuid};

use super::{
    api::{Api, unexpected},
    auth::Caller,
    check::Checks,
    convert::{self, spec, trace},
    page,
    status::No,
    workflows,
};
use crate::{chain::Chain, handle::Submission};

mod explain;
mod log;
mod patience;
mod read;
mod result;
mod watch;

pub(super) use self::watch::{Place, Room};

/// A detail of a refusal that is kept where there is no room, in bytes.
const MOST_BRIEF: usize = 1024;

/// The service.
#[derive(Debug, Clone)]
pub(crate) struct Jobs(Api, watch::Room);

impl Jobs {
    pub(crate) fn new(api: Api, room: Room) -> Self {
        Self(api, room)
    }
}

#[async_trait]
impl JobService for Jobs {
    async fn enqueue(
        &self,
        request: Request<v1::EnqueueRequest>,
    ) -> Result<Response<v1::EnqueueResponse>, Status> {
        let caller = Caller::of(&request)?;
        let trace = trace::of_call(request.metadata());
        self.0.answer(enqueue(&self.0, &caller, trace, request.into_inner().job).await)
    }

    async fn enqueue_batch(
        &self,
        request: Request<v1::EnqueueBatchRequest>,
    ) -> Result<Response<v1::EnqueueBatchResponse>, Status> {
        let caller = Caller::of(&request)?;
        let trace = trace::of_call(request.metadata());
        self.0.answer(enqueue_batch(&self.0, &caller, trace, request.into_inner().jobs).await)
    }

    async fn get_job(
        &self,
        request: Request<v1::GetJobRequest>,
    ) -> Result<Response<v1::GetJobResponse>, Status> {
        let caller = Caller::of(&request)?;
        self.0.answer(read::get(&self.0, &caller, &request.into_inner()).await)
    }

    async fn list_jobs(
        &self,
        request: Request<v1::ListJobsRequest>,
    ) -> Result<Response<v1::ListJobsResponse>, Status> {
        let caller = Caller::of(&request)?;
        self.0.answer(read::list(&self.0, &caller, request.into_inner()).await)
    }

    async fn explain_job(
        &self,
        request: Request<v1::ExplainJobRequest>,
    ) -> Result<Response<v1::ExplainJobResponse>, Status> {
        let caller = Caller::of(&request)?;
        self.0.answer(explain::explain(&self.0, &caller, &request.into_inner()).await)
    }

    async fn wait_job(
        &self,
        request: Request<v1::WaitJobRequest>,
    ) -> Result<Response<v1::WaitJobResponse>, Status> {
        let caller = Caller::of(&request)?;
        let patience = patience::of(request.metadata());
        self.0.answer(read::wait(&self.0, &caller, &request.into_inner(), patience).await)
    }

    type WatchJobStream = watch::Messages;

    async fn watch_job(
        &self,
        request: Request<v1::WatchJobRequest>,
    ) -> Result<Response<watch::Messages>, Status> {
        let caller = Caller::of(&request)?;
        self.0.answer(watch::open(&self.0, &self.1, caller, &request.into_inner()).await)
    }

    async fn cancel_job(
        &self,
        request: Request<v1::CancelJobRequest>,
    ) -> Result<Response<v1::CancelJobResponse>, Status> {
        let caller = Caller::of(&request)?;
        let done = cancel(&self.0, &caller, &request.into_inner()).await;
        self.0.answer(done.map(|(job, changed)| v1::CancelJobResponse { job: Some(job), changed }))
    }

    async fn requeue_job(
        &self,
        request: Request<v1::RequeueJobRequest>,
    ) -> Result<Response<v1::RequeueJobResponse>, Status> {
        let caller = Caller::of(&request)?;
        let done = requeue(&self.0, &caller, &request.into_inner()).await;
        self.0.answer(done.map(|(job, changed)| v1::RequeueJobResponse { job: Some(job), changed }))
    }

    async fn reprioritize_job(
        &self,
        request: Request<v1::ReprioritizeJobRequest>,
    ) -> Result<Response<v1::ReprioritizeJobResponse>, Status> {
        let caller = Caller::of(&request)?;
        let done = reprioritize(&self.0, &caller, &request.into_inner()).await;
        self.0.answer(done.map(|(job, changed)| v1::ReprioritizeJobResponse { job: Some(job), changed }))
    }

    async fn delete_job(
        &self,
        request: Request<v1::DeleteJobRequest>,
    ) -> Result<Response<v1::DeleteJobResponse>, Status> {
        let caller = Caller::of(&request)?;
        self.0.answer(delete(&self.0, &caller, &request.into_inner()).await)
    }

    async fn get_result(
        &self,
        request: Request<v1::GetResultRequest>,
    ) -> Result<Response<v1::GetResultResponse>, Status> {
        let caller = Caller::of(&request)?;
        self.0.answer(read::result(&self.0, &caller, &request.into_inner()).await)
    }

    async fn list_attempts(
        &self,
        request: Request<v1::ListAttemptsRequest>,
    ) -> Result<Response<v1::ListAttemptsResponse>, Status> {
        let caller = Caller::of(&request)?;
        self.0.answer(read::attempts(&self.0, &caller, request.into_inner()).await)
    }

    type ReadLogStream = log::Messages;

    async fn read_log(
        &self,
        request: Request<v1::ReadLogRequest>,
    ) -> Result<Response<log::Messages>, Status> {
        let caller = Caller::of(&request)?;
        self.0.answer(log::open(&self.0, &self.1, caller, &request.into_inner()).await)
    }

    type ReadResultStream = result::Messages;

    async fn read_result(
        &self,
        request: Request<v1::ReadResultRequest>,
    ) -> Result<Response<result::Messages>, Status> {
        let caller = Caller::of(&request)?;
        self.0.answer(result::open(&self.0, &self.1, &caller, &request.into_inner()).await)
    }
}

/// The trace context of a call.
type Trace = Option<Arc<TraceContext>>;

async fn enqueue(
    api: &Api,
    caller: &Caller,
    trace: Trace,
    spec: Option<v1::JobSpec>,
) -> Result<v1::EnqueueResponse, No> {
    let submission = submission(api, caller, trace, spec)?;
    let (job, deduplicated) = enqueued(api.handle.submit(submission).await?)?;
    let job = own_or_id(caller.sees_only().as_ref(), &job, shown(api, &job).await);
    Ok(v1::EnqueueResponse { job: Some(job), deduplicated })
}

/// A spec as what its caller may enqueue.
fn submission(api: &Api, caller: &Caller, trace: Trace, spec: Option<v1::JobSpec>) -> Result<Submission, No> {
    submission_of(caller, trace, spec, || fresh_id(api))
}

/// The same, by whatever way the spec came: `fresh` makes the id of one that names none.
///
/// # Errors
/// Every mistake, or what of it is beyond its caller.
pub(crate) fn submission_of(
    caller: &Caller,
    trace: Trace,
    spec: Option<v1::JobSpec>,
    fresh: impl FnOnce() -> JobId,
) -> Result<Submission, No> {
    let whose = (&caller.enqueues_as(), &caller.tenant());
    let mut submission = spec::submission(spec, whose, trace, fresh)?;
    if let Command::Enqueue(enqueue) = &mut submission.command {
        caller.check_enqueue(enqueue)?;
        if enqueue.parent.is_some() {
            enqueue.limits = caller.limits_of_children();
        }
    }
    Ok(submission)
}

/// A dedupe key may be held by a job of another producer: then nothing but its id is told.
fn own_or_id(only: Option<&Producer>, job: &Job, shown: v1::Job) -> v1::Job {
    match only {
        Some(own) if *own != job.producer => v1::Job { id: shown.id, ..v1::Job::default() },
        Some(_) | None => shown,
    }
}

async fn enqueue_batch(
    api: &Api,
    caller: &Caller,
    trace: Trace,
    specs: Vec<v1::JobSpec>,
) -> Result<v1::EnqueueBatchResponse, No> {
    let submission = |spec| submission(api, caller, trace.clone(), Some(spec));
    let items = batch(api, caller.sees_only().as_ref(), specs, submission).await?;
    Ok(v1::EnqueueBatchResponse { items })
}

/// Stores jobs, each on its own. `only`: of a job of another producer that answers for one of them nothing but the id is
/// shown.
///
/// # Errors
/// If there are too few or too many, or none could be taken in.
pub(super) async fn batch(
    api: &Api,
    only: Option<&Producer>,
    specs: Vec<v1::JobSpec>,
    submission: impl Fn(v1::JobSpec) -> Result<Submission, No>,
) -> Result<Vec<v1::EnqueueBatchItem>, No> {
    check_count(specs.len())?;
    let mut submissions = Vec::with_capacity(specs.len());
    let mut mistakes = Vec::with_capacity(specs.len());
    for (index, spec) in specs.into_iter().enumerate() {
        match submission(spec) {
            Ok(submission) => {
                submissions.push(submission);
                mistakes.push(None);
            }
            Err(no) => mistakes.push(Some(no.of_job(index))),
        }
    }
    // What is wrong in itself was not submitted; the replies fill the other places, in order.
    let mut replies = api.handle.submit_batch(submissions).await?.into_iter();
    let answers: Vec<Result<(Box<Job>, bool), No>> = mistakes
        .into_iter()
        .enumerate()
        .map(|(index, mistake)| match mistake {
            Some(no) => Err(no),
            None => replies
                .next()
                .ok_or_else(No::internal)
                .and_then(|reply| enqueued(reply.map_err(|error| No::from(error).of_job(index))?)),
        })
        .collect();
    let kinds = kinds(api, answers.iter().flatten().map(|(job, _)| &job.kind)).await;
    let mut bytes = 0;
    let items = answers.into_iter().map(|answer| {
        let enqueued = answer.map(|(job, deduplicated)| v1::EnqueueResponse {
            job: Some(own_or_id(only, &job, convert::job::job(&job, kinds.get(&job.kind), None))),
            deduplicated,
        });
        let whole = item(api, enqueued);
        // Jobs that were there already may be larger than what was asked for, and a no larger than its cause.
        let item = if bytes > page::MOST_BYTES { brief(whole) } else { whole };
        bytes += item.encoded_len();
        item
    });
    Ok(items.collect())
}

/// Whether so many jobs may be stored by one call.
///
/// # Errors
/// If they are too few or too many.
pub(super) fn check_count(jobs: usize) -> Result<(), No> {
    if (1..=limits::BATCH_JOBS).contains(&jobs) {
        return Ok(());
    }
    Err(No::invalid_field(
        "jobs",
        format!("must hold 1 to {most} jobs, not {jobs}", most = limits::BATCH_JOBS),
    ))
}

fn enqueued(reply: Reply) -> Result<(Box<Job>, bool), No> {
    let Reply::Enqueued { job, deduplicated } = reply else { return Err(unexpected("enqueue")) };
    Ok((job, deduplicated))
}

fn item(api: &Api, answer: Result<v1::EnqueueResponse, No>) -> v1::EnqueueBatchItem {
    use v1::enqueue_batch_item::Answer;
    let answer = match answer {
        Ok(enqueued) => Answer::Enqueued(enqueued),
        Err(no) => {
            api.count(&no);
            Answer::Refused(no.into_item())
        }
    };
    v1::EnqueueBatchItem { answer: Some(answer) }
}

/// What is left of an answer where there is no room for all of it.
fn brief(item: v1::EnqueueBatchItem) -> v1::EnqueueBatchItem {
    use v1::enqueue_batch_item::Answer;
    let answer = item.answer.map(|answer| match answer {
        Answer::Enqueued(v1::EnqueueResponse { job, deduplicated }) => {
            let job = job.map(|v1::Job { id, kind, state, create_time, .. }| v1::Job {
                id,
                kind,
                state,
                create_time,
                ..v1::Job::default()
            });
            Answer::Enqueued(v1::EnqueueResponse { job, deduplicated })
        }
        Answer::Refused(mut status) => {
            status.details.retain(|detail| {
                detail.type_url.ends_with("google.rpc.ErrorInfo") && detail.value.len() <= MOST_BRIEF
            });
            Answer::Refused(status)
        }
    });
    v1::EnqueueBatchItem { answer }
}

async fn cancel(api: &Api, caller: &Caller, request: &v1::CancelJobRequest) -> Result<(v1::Job, bool), No> {
    let mut checks = Checks::default();
    let job = checks.job_id("job_id", &request.job_id);
    let reason = checks.text("reason", &request.reason, 1024);
    changed(api, caller, checks, job, |job| Command::Cancel { job, reason, prior: None }).await
}

async fn requeue(api: &Api, caller: &Caller, request: &v1::RequeueJobRequest) -> Result<(v1::Job, bool), No> {
    let mut checks = Checks::default();
    let job = checks.job_id("job_id", &request.job_id);
    let force = request.force;
    if force {
        caller.check_force()?;
    }
    let command = |job| Command::Requeue { job, force, prior: None, key_taken: false };
    match changed(api, caller, checks, job, command).await {
        Err(no) if no.reason() == "JOB_OF_WORKFLOW" => {
            let Some(id) = job else { return Err(no) };
            // It comes back through its workflow, with what is behind it.
            let row = api.read(api.handle.reader().get_job(id).await)?;
            let Some(of) = row.and_then(|row| row.workflow) else { return Err(no) };
            let (_, changed) = workflows::requeue_place(api, of.workflow, of.place).await?;
            let row = api.read(api.handle.reader().get_job(id).await)?;
            let row = row.ok_or(Refusal::JobNotFound { job: id })?;
            Ok((shown(api, &row).await, changed))
        }
        answer => answer,
    }
}

async fn reprioritize(
    api: &Api,
    caller: &Caller,
    request: &v1::ReprioritizeJobRequest,
) -> Result<(v1::Job, bool), No> {
    let mut checks = Checks::default();
    let job = checks.job_id("job_id", &request.job_id);
    let priority = checks.priority("priority", request.priority).unwrap_or_default();
    caller.check_priority(priority)?;
    changed(api, caller, checks, job, |job| Command::Reprioritize { job, priority, prior: None }).await
}

/// Submits a command about one job, once nothing is wrong with the request.
async fn changed(
    api: &Api,
    caller: &Caller,
    checks: Checks,
    job: Option<JobId>,
    command: impl FnOnce(JobId) -> Command,
) -> Result<(v1::Job, bool), No> {
    checks.finish()?;
    let Some(job) = job else { return Err(No::invalid_field("job_id", "is required")) };
    read::check_own(api, caller, job).await?;
    let reply = api.submit(command(job)).await?;
    let Reply::Job { job, changed } = reply else {
        return Err(unexpected("cancel, requeue or reprioritize"));
    };
    Ok((shown(api, &job).await, changed))
}

async fn delete(
    api: &Api,
    caller: &Caller,
    request: &v1::DeleteJobRequest,
) -> Result<v1::DeleteJobResponse, No> {
    let mut checks = Checks::default();
    let job = checks.job_id("job_id", &request.job_id);
    checks.finish()?;
    let Some(job) = job else { return Err(No::invalid_field("job_id", "is required")) };
    read::check_own(api, caller, job).await?;
    let objects = if request.validate_only {
        Vec::new()
    } else {
        api.read(api.results.of_jobs(api.handle.reader(), &[job]).await)?
    };
    let command = Command::Delete { job, validate_only: request.validate_only, prior: None };
    let Reply::Deleted { job } = api.submit(command).await? else { return Err(unexpected("delete")) };
    if let Err(error) = api.results.forget(api.handle.reader(), &objects).await {
        // The job is gone, as it was asked. The next sweep of object storage finds what is left.
        tracing::warn!(error = %Chain(&error), "the result of a deleted job is not removed yet");
    }
    Ok(v1::DeleteJobResponse { job: Some(shown(api, &job).await) })
}

/// A job as a command left it, before placement looked at it.
async fn shown(api: &Api, job: &Job) -> v1::Job {
    let kinds = kinds(api, [&job.kind]).await;
    convert::job::job(job, kinds.get(&job.kind), None)
}

/// Kinds to show beside jobs whose command is stored: what is done is told as done, even if its kind cannot be looked
/// up any more.
async fn kinds<'n>(api: &Api, names: impl IntoIterator<Item = &'n KindName>) -> BTreeMap<KindName, Kind> {
    api.kinds(names).await.unwrap_or_default()
}

/// An id for a job whose caller made none.
pub(super) fn fresh_id(api: &Api) -> JobId {
    let micros = api.now().0.max(0).unsigned_abs();
    let nanos = u32::try_from(micros % 1_000_000 * 1000).unwrap_or_default();
    JobId(Uuid::new_v7(Timestamp::from_unix(NoContext, micros / 1_000_000, nanos)))
}
