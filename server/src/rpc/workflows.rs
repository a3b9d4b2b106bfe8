//! Workflows: submitted whole, shown, watched, cancelled, requeued by member. Thin: check, submit, show.

use std::{collections::BTreeMap, sync::Arc};

use tenure_proto::v1::{self, workflow_service_server::WorkflowService};
use tenure_scheduler::{
    Command, JobId, Refusal, Reply, RequeueMember, Submit, TraceContext, Workflow, WorkflowId,
};
use tenure_store::{Payload, WorkflowCursor, WorkflowFilter};
use tonic::{Request, Response, Status, async_trait};

use super::{
    api::{Api, unexpected},
    auth::Caller,
    check::Checks,
    convert::{spec, trace, workflow as wire},
    jobs::Room,
    page::{self, Filters},
    status::No,
};
use crate::handle::Submission;

mod watch;

/// The most states of a filter.
const MOST_STATES: usize = 16;

/// The service. Its watches share the room of those of jobs.
#[derive(Debug, Clone)]
pub(crate) struct Workflows(Api, Room);

impl Workflows {
    pub(crate) fn new(api: Api, room: Room) -> Self {
        Self(api, room)
    }
}

#[async_trait]
impl WorkflowService for Workflows {
    async fn submit_workflow(
        &self,
        request: Request<v1::SubmitWorkflowRequest>,
    ) -> Result<Response<v1::SubmitWorkflowResponse>, Status> {
        let caller = Caller::of(&request)?;
        let trace = trace::of_call(request.metadata());
        self.0.answer(submit(&self.0, &caller, trace, request.into_inner()).await)
    }

    async fn get_workflow(
        &self,
        request: Request<v1::GetWorkflowRequest>,
    ) -> Result<Response<v1::GetWorkflowResponse>, Status> {
        let caller = Caller::of(&request)?;
        self.0.answer(get(&self.0, &caller, &request.into_inner()).await)
    }

    async fn list_workflows(
        &self,
        request: Request<v1::ListWorkflowsRequest>,
    ) -> Result<Response<v1::ListWorkflowsResponse>, Status> {
        let caller = Caller::of(&request)?;
        self.0.answer(list(&self.0, &caller, request.into_inner()).await)
    }

    type WatchWorkflowStream = watch::Messages;

    async fn watch_workflow(
        &self,
        request: Request<v1::WatchWorkflowRequest>,
    ) -> Result<Response<Self::WatchWorkflowStream>, Status> {
        let caller = Caller::of(&request)?;
        self.0.answer(watch::open(&self.0, &self.1, caller, &request.into_inner()).await)
    }

    async fn cancel_workflow(
        &self,
        request: Request<v1::CancelWorkflowRequest>,
    ) -> Result<Response<v1::CancelWorkflowResponse>, Status> {
        let caller = Caller::of(&request)?;
        self.0.answer(cancel(&self.0, &caller, &request.into_inner()).await)
    }

    async fn requeue_member(
        &self,
        request: Request<v1::RequeueMemberRequest>,
    ) -> Result<Response<v1::RequeueMemberResponse>, Status> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let answer = async {
            let (workflow, changed) = requeue(&self.0, &caller, &request.workflow_id, request.place).await?;
            Ok(v1::RequeueMemberResponse { workflow: Some(workflow), changed })
        };
        self.0.answer(answer.await)
    }
}

async fn submit(
    api: &Api,
    caller: &Caller,
    trace: Option<Arc<TraceContext>>,
    request: v1::SubmitWorkflowRequest,
) -> Result<v1::SubmitWorkflowResponse, No> {
    let mut checks = Checks::default();
    let id = checks.job_id("workflow_id", &request.workflow_id);
    if id.is_some_and(|id| id.0.get_version_num() != 7 || id.0.get_variant() != uuid::Variant::RFC4122) {
        checks.refuse("workflow_id", "is no UUID of version 7");
    }
    let name = checks.text("name", &request.name, 255);
    checks.finish()?;
    let Some(id) = id.map(|id| WorkflowId(id.0)) else {
        return Err(No::invalid_field("workflow_id", "is required"));
    };
    let asked = wire::shape(request.workflow)?;
    let (producer, tenant) = (caller.enqueues_as(), caller.tenant());
    let mut jobs = Vec::with_capacity(asked.jobs.len());
    let mut payloads = Vec::new();
    for (place, (path, job_spec)) in (0..).zip(asked.jobs) {
        let job: JobId = id.member(place);
        let of = |no: No| no.of_member(&path);
        check_member(&job_spec).map_err(of)?;
        let made =
            spec::submission(Some(job_spec), (&producer, &tenant), trace.clone(), || job).map_err(of)?;
        let Command::Enqueue(enqueue) = made.command else { return Err(No::internal()) };
        caller.check_enqueue(&enqueue)?;
        payloads.extend(made.payload.map(|payload| (job, payload)));
        jobs.push(*enqueue);
    }
    let submit = Submit {
        id,
        producer,
        fingerprint: wire::fingerprint(name.as_deref().unwrap_or_default(), &asked.shape, &jobs),
        name: name.filter(|name| !name.is_empty()),
        shape: Arc::new(asked.shape),
        jobs,
        validate_only: request.validate_only,
        prior: None,
    };
    let reply = stored(api, Command::SubmitWorkflow(Box::new(submit)), payloads).await?;
    let (workflow, changed) = reply;
    let deduplicated = !changed && !request.validate_only;
    Ok(v1::SubmitWorkflowResponse { workflow: Some(shown(api, &workflow).await), deduplicated })
}

/// What a job of a workflow may not say.
fn check_member(spec: &v1::JobSpec) -> Result<(), No> {
    let mut checks = Checks::default();
    let why = "stays empty: the id of the workflow makes a repeat harmless, and gives its jobs theirs";
    for (field, value) in [
        ("job.job_id", &spec.job_id),
        ("job.dedupe_key", &spec.dedupe_key),
        ("job.parent_id", &spec.parent_id),
    ] {
        if !value.is_empty() {
            checks.refuse(field, why);
        }
    }
    checks.finish()
}

async fn stored(
    api: &Api,
    command: Command,
    more: Vec<(JobId, Payload)>,
) -> Result<(Box<Workflow>, bool), No> {
    let reply = api.handle.submit(Submission { command, payload: None, more }).await?;
    let Reply::Workflow { workflow, changed } = reply else { return Err(unexpected("a workflow")) };
    Ok((workflow, changed))
}

/// A workflow as a command left it: what is done is told as done, even if its members cannot be counted.
async fn shown(api: &Api, workflow: &Workflow) -> v1::Workflow {
    let counts = api.handle.reader().member_counts(&[workflow.id]).await.unwrap_or_default();
    wire::workflow(workflow, counts.get(&workflow.id).unwrap_or(&BTreeMap::new()))
}

fn required_id(text: &str) -> Result<WorkflowId, No> {
    let mut checks = Checks::default();
    let id = checks.job_id("workflow_id", text);
    checks.finish()?;
    id.map(|id| WorkflowId(id.0)).ok_or_else(|| No::invalid_field("workflow_id", "is required"))
}

/// A workflow that is there for this caller: another producer's is not.
async fn row(api: &Api, caller: &Caller, id: WorkflowId) -> Result<Workflow, No> {
    let found = api.read(api.handle.reader().get_workflow(id).await)?;
    let only = caller.sees_only();
    let seen = found.filter(|workflow| only.as_ref().is_none_or(|own| *own == workflow.producer));
    seen.ok_or_else(|| Refusal::WorkflowNotFound { workflow: id }.into())
}

async fn get(
    api: &Api,
    caller: &Caller,
    request: &v1::GetWorkflowRequest,
) -> Result<v1::GetWorkflowResponse, No> {
    let id = required_id(&request.workflow_id)?;
    let workflow = row(api, caller, id).await?;
    let members = api.read(api.handle.reader().members(id).await)?;
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for member in &members {
        *counts.entry(member.state.to_string()).or_default() += 1;
    }
    let mut members = wire::members(&workflow, members);
    let mut bytes: usize = members.iter().map(prost::Message::encoded_len).sum();
    if bytes > page::MOST_BYTES {
        // Why each stands where it stands is told by its job.
        members.iter_mut().for_each(|member| member.reason.clear());
        bytes = members.iter().map(prost::Message::encoded_len).sum();
    }
    if bytes > page::MOST_BYTES {
        members.iter_mut().for_each(|member| member.job_id.clear());
    }
    Ok(v1::GetWorkflowResponse {
        shape: Some(wire::tree(&workflow)),
        workflow: Some(wire::workflow(&workflow, &counts)),
        members,
    })
}

async fn list(
    api: &Api,
    caller: &Caller,
    request: v1::ListWorkflowsRequest,
) -> Result<v1::ListWorkflowsResponse, No> {
    let mut checks = Checks::default();
    let size = page::size(&mut checks, request.page_size, 100);
    let bare = v1::ListWorkflowsRequest { page_size: 0, page_token: String::new(), ..request.clone() };
    let filters = Filters::of("ListWorkflows", &bare);
    let after: Option<WorkflowCursor> = page::place(&mut checks, filters, &request.page_token);
    let states = states(&mut checks, &request.states);
    checks.finish()?;
    let filter = WorkflowFilter { states, producer: caller.sees_only() };
    // One row more than the page tells whether there is another page.
    let mut rows = api.read(api.handle.reader().list_workflows(&filter, after, size + 1).await)?;
    let mut more = rows.len() > size as usize;
    rows.truncate(size as usize);
    let ids: Vec<WorkflowId> = rows.iter().map(|row| row.id).collect();
    let counts = api.read(api.handle.reader().member_counts(&ids).await)?;
    let none = BTreeMap::new();
    let all: Vec<v1::Workflow> =
        rows.iter().map(|row| wire::workflow(row, counts.get(&row.id).unwrap_or(&none))).collect();
    let fit = page::fitting(all.iter().map(prost::Message::encoded_len), size);
    more |= fit < all.len();
    let last = fit.checked_sub(1).and_then(|last| rows.get(last)).filter(|_| more).map(WorkflowCursor::after);
    Ok(v1::ListWorkflowsResponse {
        workflows: all.into_iter().take(fit).collect(),
        next_page_token: last.map(|place| page::token(filters, &place)).unwrap_or_default(),
    })
}

fn states(checks: &mut Checks, asked: &[i32]) -> Vec<&'static str> {
    if asked.len() > MOST_STATES {
        checks.refuse("states", format!("holds {} entries, at most {MOST_STATES} are allowed", asked.len()));
        return Vec::new();
    }
    let mut states = Vec::new();
    for (i, &value) in asked.iter().enumerate() {
        match v1::WorkflowState::try_from(value).ok().and_then(wire::state_name) {
            Some(name) if states.contains(&name) => {}
            Some(name) => states.push(name),
            None => checks.refuse(format!("states[{i}]"), format!("{value} is unknown")),
        }
    }
    states
}

async fn cancel(
    api: &Api,
    caller: &Caller,
    request: &v1::CancelWorkflowRequest,
) -> Result<v1::CancelWorkflowResponse, No> {
    let mut checks = Checks::default();
    let workflow = checks.job_id("workflow_id", &request.workflow_id);
    let reason = checks.text("reason", &request.reason, 1024);
    checks.finish()?;
    let Some(workflow) = workflow.map(|id| WorkflowId(id.0)) else {
        return Err(No::invalid_field("workflow_id", "is required"));
    };
    check_own(api, caller, workflow).await?;
    let command = Command::CancelWorkflow { workflow, reason, prior: None };
    let (workflow, changed) = stored(api, command, Vec::new()).await?;
    Ok(v1::CancelWorkflowResponse { workflow: Some(shown(api, &workflow).await), changed })
}

/// Takes a member of a workflow back; also what a requeue of a job that is one comes to.
async fn requeue(api: &Api, caller: &Caller, id: &str, place: u32) -> Result<(v1::Workflow, bool), No> {
    let workflow = required_id(id)?;
    check_own(api, caller, workflow).await?;
    let changed = requeue_place(api, workflow, place).await?;
    Ok((shown(api, &changed.0).await, changed.1))
}

/// The same, for a caller who was judged.
pub(super) async fn requeue_place(
    api: &Api,
    workflow: WorkflowId,
    place: u32,
) -> Result<(Box<Workflow>, bool), No> {
    let request = RequeueMember { workflow, place, prior: None, prior_jobs: Vec::new() };
    stored(api, Command::RequeueMember(Box::new(request)), Vec::new()).await
}

async fn check_own(api: &Api, caller: &Caller, id: WorkflowId) -> Result<(), No> {
    match caller.sees_only() {
        // Who submitted a workflow never changes, so that the row is as good as the committed state.
        Some(_) => row(api, caller, id).await.map(drop),
        None => Ok(()),
    }
}
