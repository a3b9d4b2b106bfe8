//! Workflows: jobs behind and beside each other, described as a tree, stored whole.

use std::time::Duration;

use tenure_proto::v1::{
    CancelWorkflowRequest, CancelWorkflowResponse, GetWorkflowRequest, GetWorkflowResponse, JobSpec,
    ListWorkflowsRequest, OnDeadline, RequeueMemberRequest, RequeueMemberResponse, SubmitWorkflowRequest,
    SubmitWorkflowResponse, SynthesisPolicy, WatchWorkflowRequest, WatchWorkflowResponse, Workflow,
    WorkflowChain, WorkflowChord, WorkflowGroup, WorkflowPart, WorkflowState, workflow_part,
};
use tonic::{Code, Streaming};

use crate::retry::rpc;
use crate::{Client, Error, NewJob, Refusal, new_job_id, wire};

/// Workflows asked for at once.
const PAGE: i32 = 500;
/// Before a broken stream is opened again.
const AGAIN: Duration = Duration::from_millis(200);

/// A part of a workflow: a job, or several behind or beside each other.
///
/// ```
/// use std::time::Duration;
/// use tenure_client::{NewJob, NewWorkflow, Part};
///
/// let sources = ["a", "b", "c", "d"].map(|source| Part::job(NewJob::new("research").payload(source)));
/// let digest = Part::chord(sources, NewJob::new("digest"));
/// let digest = digest.at_least(3).deadline(Duration::from_secs(600));
/// let workflow = NewWorkflow::new(Part::chain([digest.into(), Part::job(NewJob::new("mail"))])).name("morning");
/// # assert_eq!(workflow.id().len(), 36);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Part(WorkflowPart);

/// Members that begin at once, and a synthesis of their results. Becomes a [`Part`] by `into`.
#[derive(Clone, Debug, PartialEq)]
pub struct Chord(WorkflowChord);

/// A workflow to be submitted. Its id is made here, so that the same value sent twice is one workflow.
#[derive(Clone, Debug, PartialEq)]
pub struct NewWorkflow {
    id: String,
    name: String,
    part: Part,
}

impl Part {
    /// One job. Its id, parent and dedupe key are left out: the workflow gives it an id, and makes repeats harmless.
    #[must_use]
    pub fn job(job: NewJob) -> Self {
        Self(WorkflowPart { part: Some(workflow_part::Part::Job(bare(&job))) })
    }

    /// Each part begins when the one before it has ended well, and is handed its results.
    #[must_use]
    pub fn chain(parts: impl IntoIterator<Item = Self>) -> Self {
        let parts = parts.into_iter().map(|part| part.0).collect();
        Self(WorkflowPart { part: Some(workflow_part::Part::Chain(WorkflowChain { parts })) })
    }

    /// All parts begin at once.
    #[must_use]
    pub fn group(parts: impl IntoIterator<Item = Self>) -> Self {
        let parts = parts.into_iter().map(|part| part.0).collect();
        Self(WorkflowPart { part: Some(workflow_part::Part::Group(WorkflowGroup { parts })) })
    }

    /// All members begin at once; the synthesis is handed their results in declared order once all have succeeded.
    #[must_use]
    pub fn chord(members: impl IntoIterator<Item = Self>, synthesis: NewJob) -> Chord {
        let members = members.into_iter().map(|part| part.0).collect();
        Chord(WorkflowChord { members, synthesis: Some(bare(&synthesis)), ..WorkflowChord::default() })
    }
}

impl Chord {
    /// The synthesis runs once all members have ended and so many have succeeded.
    #[must_use]
    pub fn at_least(mut self, members: u32) -> Self {
        (self.0.policy, self.0.at_least) = (SynthesisPolicy::AtLeast.into(), members);
        self
    }

    /// The synthesis runs once one member has succeeded.
    #[must_use]
    pub fn any(mut self) -> Self {
        (self.0.policy, self.0.at_least) = (SynthesisPolicy::Any.into(), 0);
        self
    }

    /// The synthesis runs once all members have ended, whatever their ends.
    #[must_use]
    pub fn always(mut self) -> Self {
        (self.0.policy, self.0.at_least) = (SynthesisPolicy::Always.into(), 0);
        self
    }

    /// After this long from the submission the synthesis runs on what is there.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.0.deadline = Some(wire::duration(deadline));
        self
    }

    /// Members that the synthesis did not wait for go on. Else they are cancelled.
    #[must_use]
    pub fn leave_the_rest(mut self) -> Self {
        self.0.on_deadline = OnDeadline::Leave.into();
        self
    }
}

impl From<Chord> for Part {
    fn from(chord: Chord) -> Self {
        Self(WorkflowPart { part: Some(workflow_part::Part::Chord(chord.0)) })
    }
}

impl From<WorkflowPart> for Part {
    fn from(part: WorkflowPart) -> Self {
        Self(part)
    }
}

fn bare(job: &NewJob) -> JobSpec {
    let none = String::new;
    JobSpec { job_id: none(), parent_id: none(), dedupe_key: none(), ..job.spec().clone() }
}

impl NewWorkflow {
    /// A workflow of this part, under a new id.
    #[must_use]
    pub fn new(part: impl Into<Part>) -> Self {
        Self { id: new_job_id(), name: String::new(), part: part.into() }
    }

    /// Under an id of the caller's, a UUID v7: the same content under the same id is the same workflow.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// A name for people.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    fn request(&self, validate_only: bool) -> SubmitWorkflowRequest {
        SubmitWorkflowRequest {
            workflow_id: self.id.clone(),
            name: self.name.clone(),
            workflow: Some(self.part.0.clone()),
            validate_only,
        }
    }
}

/// The changes of one workflow. Made by [`Client::watch_workflow`].
#[derive(Debug)]
pub struct WorkflowWatch {
    client: Client,
    workflow_id: String,
    stream: Option<Streaming<WatchWorkflowResponse>>,
    told: Option<Workflow>,
    at_end: bool,
}

impl WorkflowWatch {
    /// The workflow after its next change; none after its final state. Goes on through restarts of the server, as far as
    /// the retry policy reaches. Cancel-safe.
    ///
    /// # Errors
    /// WORKFLOW_NOT_FOUND, NOT_ALLOWED, TOO_MANY_WATCHES.
    pub async fn next(&mut self) -> Result<Option<Workflow>, Error> {
        while !self.at_end {
            let stream = match &mut self.stream {
                Some(stream) => stream,
                None => {
                    let request = WatchWorkflowRequest { workflow_id: self.workflow_id.clone() };
                    let opened = rpc!(self.client, workflows.watch_workflow, request).await?;
                    self.stream.insert(opened.value)
                }
            };
            match stream.message().await {
                Ok(Some(WatchWorkflowResponse { workflow: Some(workflow) })) => {
                    self.at_end = workflow.state() != WorkflowState::Running;
                    if self.told.as_ref() != Some(&workflow) {
                        self.told = Some(workflow.clone());
                        return Ok(Some(workflow));
                    }
                }
                // Nobody says that it is over: it broke.
                Ok(_) => self.break_off().await,
                Err(status)
                    if matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Internal) =>
                {
                    self.break_off().await;
                }
                Err(status) => {
                    self.stream = None;
                    return Err(Error::Refused(Box::new(Refusal::from_status(&status))));
                }
            }
        }
        Ok(None)
    }

    async fn break_off(&mut self) {
        self.stream = None;
        tokio::time::sleep(AGAIN).await;
    }
}

impl Client {
    /// Stores a workflow with all of its jobs, or refuses it whole.
    ///
    /// # Errors
    /// INVALID_FIELD, WORKFLOW_ID_REUSED, and whatever an enqueue of one of its jobs meets; the detail `place` names it.
    pub async fn submit_workflow(&self, workflow: &NewWorkflow) -> Result<SubmitWorkflowResponse, Error> {
        Ok(rpc!(self, workflows.submit_workflow, workflow.request(false)).await?.value)
    }

    /// Judges a workflow and stores nothing.
    ///
    /// # Errors
    /// As [`Client::submit_workflow`].
    pub async fn check_workflow(&self, workflow: &NewWorkflow) -> Result<SubmitWorkflowResponse, Error> {
        Ok(rpc!(self, workflows.submit_workflow, workflow.request(true)).await?.value)
    }

    /// A workflow with its shape and its members.
    ///
    /// # Errors
    /// WORKFLOW_NOT_FOUND.
    pub async fn workflow(&self, workflow_id: &str) -> Result<GetWorkflowResponse, Error> {
        let request = GetWorkflowRequest { workflow_id: workflow_id.to_owned() };
        Ok(rpc!(self, workflows.get_workflow, request).await?.value)
    }

    /// Workflows in one of these states (none: in any), the newest first, at most `limit`.
    ///
    /// # Errors
    /// What every call may meet.
    pub async fn workflows(&self, states: &[WorkflowState], limit: usize) -> Result<Vec<Workflow>, Error> {
        let mut request = ListWorkflowsRequest {
            states: states.iter().map(|state| i32::from(*state)).collect(),
            page_size: PAGE,
            ..ListWorkflowsRequest::default()
        };
        let mut all = Vec::new();
        loop {
            let answer = rpc!(self, workflows.list_workflows, request.clone()).await?.value;
            all.extend(answer.workflows);
            if all.len() >= limit || answer.next_page_token.is_empty() {
                all.truncate(limit);
                return Ok(all);
            }
            request.page_token = answer.next_page_token;
        }
    }

    /// Follows a workflow: as it stands, then after changes, until it is final.
    pub fn watch_workflow(&self, workflow_id: impl Into<String>) -> WorkflowWatch {
        let workflow_id = workflow_id.into();
        WorkflowWatch { client: self.clone(), workflow_id, stream: None, told: None, at_end: false }
    }

    /// Cancels all members that have not ended.
    ///
    /// # Errors
    /// WORKFLOW_NOT_FOUND, WORKFLOW_FINAL.
    pub async fn cancel_workflow(
        &self,
        workflow_id: &str,
        reason: &str,
    ) -> Result<CancelWorkflowResponse, Error> {
        let request =
            CancelWorkflowRequest { workflow_id: workflow_id.to_owned(), reason: reason.to_owned() };
        Ok(rpc!(self, workflows.cancel_workflow, request).await?.value)
    }

    /// Takes a dead or cancelled member back, and what is behind it.
    ///
    /// # Errors
    /// WORKFLOW_NOT_FOUND, JOB_FINAL if it has succeeded, RESULT_TAKEN, MEMBER_GONE.
    pub async fn requeue_member(
        &self,
        workflow_id: &str,
        place: u32,
    ) -> Result<RequeueMemberResponse, Error> {
        let request = RequeueMemberRequest { workflow_id: workflow_id.to_owned(), place };
        Ok(rpc!(self, workflows.requeue_member, request).await?.value)
    }
}
