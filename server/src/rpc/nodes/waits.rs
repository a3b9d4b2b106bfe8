//! Parents that wait, and what they read when they go on.

use std::collections::BTreeMap;

use prost::Message as _;
use tenure_proto::{
    node::v1::{
        BeginWaitRequest, BeginWaitResponse, GetChildResultsRequest, GetChildResultsResponse, InputResult,
        ResultBytes, WaitAnswer as WireAnswer, input_result::Answer,
    },
    v1,
};
use tenure_scheduler::{
    BeginWait, Child, ChildEnd, Command, FencingToken, Job, JobId, JobState, LeaseName, Refusal, Reply,
    WaitAnswer, WaitVerdict,
};
use tenure_store::StoredResult;

use crate::rpc::{
    api::{Api, unexpected},
    auth::Caller,
    check::Checks,
    convert,
    convert_node::{self, Terms},
    nodes::check_lease,
    page,
    status::No,
};

/// Children that one request may name.
const MOST_NAMED: usize = 1000;

/// In place of a result that is over the inline limit, for who fetches none: an old agent, a worker, a command that waits.
const TOO_LARGE: &str =
    "its result is over the inline limit, and cannot be handed over here: ReadResult has it";

/// How many jobs one question to the driver is about, so that it stays under a millisecond.
const JOBS_A_QUESTION: usize = 64;

/// The process of a running job waits for children.
pub(super) async fn begin(
    api: &Api,
    caller: &Caller,
    request: &BeginWaitRequest,
) -> Result<BeginWaitResponse, No> {
    let mut checks = Checks::default();
    let lease = convert_node::lease(&mut checks, request.lease.as_ref());
    if request.wait_epoch == 0 {
        checks.refuse("wait_epoch", "counts from 1");
    }
    let terms = convert_node::terms(&mut checks, "terms", request.terms.as_ref());
    checks.finish()?;
    let (Some(lease), Some(Terms { children, policy, max_wait })) = (lease, terms) else {
        return Err(No::invalid_field("terms", "is required"));
    };
    caller.check_node(lease.node.as_str())?;
    let wait_epoch = request.wait_epoch;
    let wait = BeginWait { lease, wait_epoch, children, policy, max_wait, prior: Vec::new() };
    let reply = api.submit(Command::BeginWait(Box::new(wait))).await?;
    let Reply::Wait { answer, kept } = reply else { return Err(unexpected("begin a wait")) };
    let answer = match answer {
        WaitAnswer::Parked => WireAnswer::Parked,
        WaitAnswer::Over(WaitVerdict::Go) => WireAnswer::Go,
        WaitAnswer::Over(WaitVerdict::MustDetach) => WireAnswer::MustDetach,
    };
    let kept = kept.iter().map(|(slot, amount)| (slot.to_string(), amount)).collect();
    Ok(BeginWaitResponse { answer: answer.into(), kept })
}

/// How other jobs ended.
pub(super) async fn results(
    api: &Api,
    caller: &Caller,
    request: &GetChildResultsRequest,
) -> Result<GetChildResultsResponse, No> {
    let mut checks = Checks::default();
    let lease = convert_node::lease(&mut checks, request.lease.as_ref());
    let named = named(&mut checks, &request.job_ids);
    checks.finish()?;
    let Some(lease) = lease else { return Err(No::invalid_field("lease", "is required")) };
    check_lease(api, caller, &lease).await?;
    let is_given = named.is_empty();
    let (children, state) = if is_given {
        started_with(api, &lease).await?
    } else {
        (named.into_iter().map(|job| Child { job, end: None }).collect(), None)
    };
    let from = usize::try_from(request.from_index).unwrap_or(usize::MAX);
    let mut answer = GetChildResultsResponse::default();
    let mut bytes = 0;
    if from == 0
        && let Some(token) = state
    {
        let state = api.read(api.handle.reader().state(lease.job, token).await)?;
        answer.state = state.map(|state| bytes_of(&state));
        bytes += answer.state.as_ref().map_or(0, prost::Message::encoded_len);
    }
    let rest: Vec<(usize, &Child)> = children.iter().enumerate().skip(from).collect();
    for chunk in rest.chunks(JOBS_A_QUESTION) {
        let open: Vec<JobId> =
            chunk.iter().filter(|(_, child)| child.end.is_none()).map(|(_, child)| child.job).collect();
        // Memory first: what it does not hold any more, the store has by then.
        let live = api.query(move |state, _| {
            open.into_iter().filter_map(|id| Some((id, state.job(id)?.clone()))).collect::<BTreeMap<_, _>>()
        });
        let mut live = live.await?;
        for (index, child) in chunk {
            let asked = (&lease, is_given, request.takes_uploaded);
            let result = result_of(api, asked, (*index, child), live.remove(&child.job)).await?;
            bytes += result.encoded_len() + 8;
            if bytes > page::MOST_BYTES && !answer.results.is_empty() {
                answer.next_index = result.index;
                return Ok(answer);
            }
            answer.results.push(result);
        }
    }
    Ok(answer)
}

fn named(checks: &mut Checks, ids: &[String]) -> Vec<JobId> {
    if ids.len() > MOST_NAMED {
        checks.refuse("job_ids", format!("holds {} entries, at most {MOST_NAMED} are allowed", ids.len()));
        return Vec::new();
    }
    let mut all = Vec::with_capacity(ids.len());
    for (i, id) in ids.iter().enumerate() {
        if !checks.is_clean() {
            break;
        }
        all.extend(checks.job_id(&format!("job_ids[{i}]"), id));
    }
    all
}

/// What the running execution of a job goes on from: the ends as they were when its wait was over, and under which token a
/// state is kept; of a member of a workflow that has not waited by itself, how those before it ended.
async fn started_with(api: &Api, lease: &LeaseName) -> Result<(Vec<Child>, Option<FencingToken>), No> {
    let job = lease.job;
    let known = api.query(move |state, _| {
        let job = state.job(job)?;
        Some((job.detached.clone(), state.inputs_of(job)))
    });
    let (detached, inputs) = known.await?.unwrap_or_default();
    let Some(detached) = detached else { return Ok((inputs.unwrap_or_default(), None)) };
    let state = detached.has_state.then_some(detached.token);
    Ok((detached.wait.children, state))
}

/// One line of the answer. `child.end`: as it was when somebody went on; without one, as it is now.
async fn result_of(
    api: &Api,
    (lease, is_given, takes_uploaded): (&LeaseName, bool, bool),
    (index, child): (usize, &Child),
    live: Option<Job>,
) -> Result<InputResult, No> {
    let id = child.job;
    let job = match live {
        Some(job) => Some(job),
        None => api.read(api.handle.reader().get_job(id).await)?,
    };
    let index = u32::try_from(index).unwrap_or(u32::MAX);
    let answer = InputResult { index, job_id: id.to_string(), ..InputResult::default() };
    let Some(job) = job else {
        let error = Some(Answer::Error("there is no such job".to_owned()));
        let state = child.end.map_or(v1::JobState::Unspecified, state_of);
        return Ok(InputResult { state: state.into(), answer: error, ..answer });
    };
    if !is_given && job.parent != Some(lease.job) {
        return Err(No::invalid_field(format!("job_ids[{index}]"), format!("is no child of {}", lease.job)));
    }
    let state = match child.end {
        Some(end) => state_of(end),
        // What it did later is not what the execution was started with, so that another attempt is given the same.
        None if is_given && job.state.is_final() => v1::JobState::Running,
        None => convert::job::state(&job.state),
    };
    let stored = match state {
        v1::JobState::Succeeded => result(api, &job).await?,
        v1::JobState::Unspecified
        | v1::JobState::Scheduled
        | v1::JobState::Blocked
        | v1::JobState::Queued
        | v1::JobState::Running
        | v1::JobState::Waiting
        | v1::JobState::Dead
        | v1::JobState::Cancelled
        | v1::JobState::Expired => None,
    };
    let partial = stored.as_ref().is_some_and(|stored| stored.partial);
    let uploaded = stored.as_ref().and_then(convert_node::uploaded_out);
    let said = match state {
        v1::JobState::Succeeded if uploaded.is_some() && takes_uploaded => None,
        v1::JobState::Succeeded if uploaded.is_some() => Some(Answer::Error(TOO_LARGE.to_owned())),
        v1::JobState::Succeeded => stored.as_ref().map(|stored| Answer::Result(bytes_of(stored))),
        v1::JobState::Dead | v1::JobState::Cancelled | v1::JobState::Expired => {
            let reason = job.reason.as_deref().unwrap_or_default();
            Some(Answer::Error(reason.to_owned()))
        }
        v1::JobState::Unspecified => Some(Answer::Error("there is no such job".to_owned())),
        v1::JobState::Scheduled
        | v1::JobState::Blocked
        | v1::JobState::Queued
        | v1::JobState::Running
        | v1::JobState::Waiting => None,
    };
    let uploaded = uploaded.filter(|_| takes_uploaded);
    Ok(InputResult { state: state.into(), answer: said, partial, uploaded, ..answer })
}

/// The result of one job, for a job that goes on from there: a child of its, or one that the execution was started with.
///
/// # Errors
/// If it is neither, or has no result.
pub(super) async fn result_for(api: &Api, lease: &LeaseName, id: JobId) -> Result<StoredResult, No> {
    let live = api.query(move |state, _| state.job(id).cloned()).await?;
    let job = match live {
        Some(job) => job,
        None => api
            .read(api.handle.reader().get_job(id).await)?
            .ok_or_else(|| No::from(Refusal::JobNotFound { job: id }))?,
    };
    let is_given = || async {
        let (children, _) = started_with(api, lease).await?;
        Ok::<_, No>(children.iter().any(|child| child.job == id && child.end == Some(ChildEnd::Succeeded)))
    };
    let is_child = job.parent == Some(lease.job) && matches!(job.state, JobState::Succeeded { .. });
    if !is_child && !is_given().await? {
        let problem =
            format!("has not succeeded, or is neither a child of {} nor what it was started with", lease.job);
        return Err(No::invalid_field("job_id", problem));
    }
    let stored = result(api, &job).await?;
    stored.ok_or_else(|| No::no_result(id, job.state.name()))
}

/// What a job that succeeded wrote. One whose time is over is kept for as long as its parent lives.
async fn result(api: &Api, job: &Job) -> Result<Option<StoredResult>, No> {
    let stored = api.read(api.handle.reader().result(job.id).await)?;
    Ok(stored.filter(|stored| !stored.is_superseded(&job.state, job.token)))
}

fn bytes_of(stored: &StoredResult) -> ResultBytes {
    ResultBytes { data: stored.data.clone(), content_type: stored.content_type.clone() }
}

fn state_of(end: ChildEnd) -> v1::JobState {
    match end {
        ChildEnd::Succeeded => v1::JobState::Succeeded,
        ChildEnd::Dead => v1::JobState::Dead,
        ChildEnd::Cancelled => v1::JobState::Cancelled,
        ChildEnd::Expired => v1::JobState::Expired,
        ChildEnd::Missing => v1::JobState::Unspecified,
    }
}
