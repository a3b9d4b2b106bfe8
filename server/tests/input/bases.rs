//! A good request of every method: each field is tried in it, with everything else as it should be.

use prost_reflect::{DynamicMessage, MethodDescriptor};
use tenure_proto::{
    node::v1::{
        Accepted, BeginWaitRequest, Checkpoint, ClosedGroup, Detach, Draining, EnqueueChildrenRequest,
        FetchResultRequest, Finished, FinishedOutcome, GetChildResultsRequest, Heartbeat, HeldLease, Hello,
        HostInfo, LeaseName, LeasePhase, LogTail, NodeMessage, PressureReading, Progress, Reaped, Report,
        Reports, ResultBytes, Returned, Started, Throttled, UnstoredReport, WaitTerms, node_message::Body,
        report::Event,
    },
    v1::{self, Payload, SlotAmount},
};
use tonic::Code;

use crate::{
    desk::{Desk, encoded},
    rules::Said,
    sessions::Stream,
};

/// What good requests are about.
pub(crate) struct Bases {
    /// A job that waits.
    pub(crate) queued: String,
    /// A job that was cancelled.
    pub(crate) cancelled: String,
    /// A workflow that waits, and one that was cancelled.
    flows: [String; 2],
    /// A node that was there and is gone, with two browsers.
    pub(crate) node: &'static str,
}

impl Bases {
    pub(crate) async fn make(desk: &Desk) -> Self {
        let node = "n1";
        let mut stream = Stream::open(desk).await;
        stream.say(Body::Hello(hello(node, 1))).await;
        stream.welcomed().await;
        drop(stream);
        let spec = || v1::JobSpec { kind: "plain".to_owned(), run_at: far(), ..Default::default() };
        let queued = desk.enqueue(spec()).await.id;
        let cancelled = desk.enqueue(spec()).await.id;
        let cancel = v1::CancelJobRequest { job_id: cancelled.clone(), reason: String::new() };
        desk.jobs().cancel_job(cancel).await.expect("it is cancelled");
        let flows = [1, 2].map(|n: u32| format!("01900000-0000-7000-8000-0000000f100{n}"));
        for flow in &flows {
            let submit = v1::SubmitWorkflowRequest {
                workflow_id: flow.clone(),
                workflow: Some(v1::WorkflowPart { part: Some(v1::workflow_part::Part::Job(spec())) }),
                ..Default::default()
            };
            desk.call("/tenure.v1.WorkflowService/SubmitWorkflow", encoded(&submit))
                .await
                .expect("it is stored");
        }
        let cancel = v1::CancelWorkflowRequest { workflow_id: flows[1].clone(), reason: String::new() };
        desk.call("/tenure.v1.WorkflowService/CancelWorkflow", encoded(&cancel))
            .await
            .expect("it is cancelled");
        Self { queued, cancelled, flows, node }
    }

    /// A good request of a method, and the no that it gets, if it gets one.
    pub(crate) fn of(&self, method: &MethodDescriptor) -> (DynamicMessage, Option<Said>) {
        let (queued, cancelled) = (self.queued.clone(), self.cancelled.clone());
        let (kind, slot) = ("web".to_owned(), "api".to_owned());
        let (node, entry) = (self.node.to_owned(), "far".to_owned());
        let [waits, ended] = self.flows.clone();
        let mut no = None;
        let bytes = match method.name() {
            "Enqueue" => encoded(&v1::EnqueueRequest { job: Some(self.job()) }),
            "EnqueueBatch" => encoded(&v1::EnqueueBatchRequest { jobs: vec![self.job()] }),
            "GetJob" => encoded(&v1::GetJobRequest { job_id: queued }),
            "ListJobs" => encoded(&v1::ListJobsRequest::default()),
            "ExplainJob" => encoded(&v1::ExplainJobRequest { job_id: queued }),
            "WatchJob" => encoded(&v1::GetJobRequest { job_id: cancelled }),
            "WaitJob" => encoded(&v1::WaitJobRequest { job_id: cancelled, timeout: None }),
            "CancelJob" => encoded(&v1::CancelJobRequest { job_id: cancelled, reason: String::new() }),
            "RequeueJob" => encoded(&v1::RequeueJobRequest { job_id: queued, force: false }),
            "ReprioritizeJob" => encoded(&v1::ReprioritizeJobRequest { job_id: queued, priority: 0 }),
            "DeleteJob" => encoded(&v1::DeleteJobRequest { job_id: cancelled, validate_only: true }),
            "GetResult" => {
                no = Some((Code::NotFound, "RESULT_NOT_FOUND"));
                encoded(&v1::GetResultRequest { job_id: cancelled })
            }
            "ReadLog" => {
                no = Some((Code::NotFound, "LOG_NOT_FOUND"));
                encoded(&v1::ReadLogRequest { job_id: cancelled, ..Default::default() })
            }
            "ReadResult" => {
                no = Some((Code::NotFound, "RESULT_NOT_FOUND"));
                encoded(&v1::ReadResultRequest { job_id: cancelled })
            }
            "ListAttempts" => encoded(&v1::ListAttemptsRequest { job_id: queued, ..Default::default() }),
            "Apply" => {
                encoded(&v1::ApplyRequest { fleet: crate::desk::FLEET.to_owned(), validate_only: true })
            }
            "PauseKind" => encoded(&v1::PauseKindRequest { kind, policy: 0 }),
            "ResumeKind" => encoded(&v1::ResumeKindRequest { kind }),
            "SetCapacity" => encoded(&v1::SetCapacityRequest { slot, capacity: Some(2) }),
            "PauseSlot" => encoded(&v1::PauseSlotRequest { slot, duration: None }),
            "ResumeSlot" => encoded(&v1::ResumeSlotRequest { slot }),
            "GetNode" => encoded(&v1::GetNodeRequest { node }),
            "CordonNode" => encoded(&v1::CordonNodeRequest { node }),
            "UncordonNode" => encoded(&v1::UncordonNodeRequest { node }),
            "DrainNode" => encoded(&v1::DrainNodeRequest { node, deadline: None }),
            "ForgetNode" => encoded(&v1::ForgetNodeRequest { node, lost: false, validate_only: true }),
            "SubmitWorkflow" => encoded(&v1::SubmitWorkflowRequest {
                workflow_id: "01900000-0000-7000-8000-0000000f1003".to_owned(),
                name: String::new(),
                workflow: Some(v1::WorkflowPart {
                    // Of a kind that no other call pauses.
                    part: Some(v1::workflow_part::Part::Job(v1::JobSpec {
                        kind: "plain".to_owned(),
                        ..self.job()
                    })),
                }),
                validate_only: true,
            }),
            "GetWorkflow" => encoded(&v1::GetWorkflowRequest { workflow_id: waits }),
            "ListWorkflows" => encoded(&v1::ListWorkflowsRequest::default()),
            "WatchWorkflow" => encoded(&v1::WatchWorkflowRequest { workflow_id: ended }),
            "CancelWorkflow" => {
                encoded(&v1::CancelWorkflowRequest { workflow_id: ended, reason: String::new() })
            }
            "RequeueMember" => encoded(&v1::RequeueMemberRequest { workflow_id: waits, place: 0 }),
            "EnqueueChildren" => {
                no = LOST;
                encoded(&EnqueueChildrenRequest { lease: lease(node), jobs: vec![self.job()] })
            }
            "BeginWait" => {
                no = LOST;
                let terms = Some(WaitTerms { job_ids: vec![queued], ..WaitTerms::default() });
                encoded(&BeginWaitRequest { lease: lease(node), wait_epoch: 1, terms })
            }
            "GetChildResults" => {
                no = LOST;
                let request = GetChildResultsRequest {
                    lease: lease(node),
                    job_ids: vec![queued],
                    ..Default::default()
                };
                encoded(&request)
            }
            "FetchResult" => {
                no = LOST;
                encoded(&FetchResultRequest { lease: lease(node), job_id: queued })
            }
            "PauseCronEntry" => encoded(&v1::PauseCronEntryRequest { entry }),
            "ResumeCronEntry" => encoded(&v1::ResumeCronEntryRequest { entry }),
            "RunCronEntry" => encoded(&v1::RunCronEntryRequest { entry, job_id: String::new() }),
            "ResumeWebhook" => encoded(&v1::ResumeWebhookRequest { webhook: "hook".to_owned() }),
            "TestWebhook" => encoded(&v1::TestWebhookRequest { webhook: "hook".to_owned() }),
            "ListDeliveries" => encoded(&v1::ListDeliveriesRequest::default()),
            // The id of one that is there is another in each run.
            "GetDelivery" => {
                no = NO_DELIVERY;
                encoded(&v1::GetDeliveryRequest { delivery: "test_1".to_owned() })
            }
            "Redeliver" => {
                no = NO_DELIVERY;
                encoded(&v1::RedeliverRequest { delivery: "test_1".to_owned() })
            }
            "ListWebhooks" | "ListCronEntries" | "GetFleet" | "ListKinds" | "ListSlots" | "ListNodes"
            | "GetQueueHealth" | "GetServerInfo" | "CheckInvariants" | "GetInbox" | "ListInboxRefusals" => {
                bytes::Bytes::new()
            }
            other => panic!("say what a good request of {other} is"),
        };
        (DynamicMessage::decode(method.input(), bytes).expect("a request of this method"), no)
    }

    fn job(&self) -> v1::JobSpec {
        v1::JobSpec {
            kind: "web".to_owned(),
            payload: Some(Payload { data: "{}".into(), content_type: "application/json".to_owned() }),
            needs: Some(v1::Needs { slots: vec![SlotAmount { slot: "browser".to_owned(), amount: 1 }] }),
            requirements: vec![requirement("gpu")],
            prefer: vec![requirement("zone")],
            traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned(),
            ..Default::default()
        }
    }
}

const NO_DELIVERY: Option<Said> = Some((Code::NotFound, "DELIVERY_NOT_FOUND"));

const LOST: Option<Said> = Some((Code::FailedPrecondition, "LEASE_LOST"));

/// A lease that is not live.
fn lease(node: String) -> Option<LeaseName> {
    Some(LeaseName { node, job_id: nobody(), token: 1 })
}

fn requirement(label: &str) -> v1::Requirement {
    v1::Requirement {
        label: label.to_owned(),
        operator: v1::RequirementOperator::In.into(),
        values: vec!["a100".to_owned()],
    }
}

/// In the year 2100: nothing is due in a test.
fn far() -> Option<prost_types::Timestamp> {
    Some(prost_types::Timestamp { seconds: 4_102_444_800, nanos: 0 })
}

/// A Hello with something in every list.
pub(crate) fn hello(node: &str, stream: u64) -> Hello {
    Hello {
        node_name: node.to_owned(),
        instance: format!("instance of {node}"),
        boot_id: "boot".to_owned(),
        incarnation: 1,
        stream,
        protocol: tenure_proto::SESSION_PROTOCOL,
        slots: [("browser".to_owned(), 2)].into(),
        kinds: vec!["web".to_owned()],
        host: Some(HostInfo::default()),
        pressure: Some(pressure()),
        held: vec![held()],
        unstored: vec![UnstoredReport { job_id: nobody(), token: 2 }],
        ..Default::default()
    }
}

fn pressure() -> PressureReading {
    let closed = ClosedGroup { refuse: "*".to_owned(), rule: "r".to_owned(), ..Default::default() };
    PressureReading { generation: 1, closed: vec![closed], ..Default::default() }
}

/// A lease that never was.
fn held() -> HeldLease {
    HeldLease { job_id: nobody(), token: 1, phase: LeasePhase::Started.into(), ..HeldLease::default() }
}

fn nobody() -> String {
    "01900000-0000-7000-8000-00000000beef".to_owned()
}

/// The second message of a stream that says this, with something in every list: `names` lead to a field of it.
pub(crate) fn second(names: &[&str]) -> NodeMessage {
    let body = match names {
        ["reports", "reports", event, ..] => {
            let event = event_of(event).unwrap_or(Event::Accepted(Accepted {}));
            let report = Report { job_id: nobody(), token: 1, event: Some(event) };
            Body::Reports(Reports { reports: vec![report] })
        }
        ["reports", ..] => Body::Reports(Reports::default()),
        ["draining", ..] => Body::Draining(Draining { restart: true, deadline: None }),
        _ => Body::Heartbeat(Heartbeat { held: vec![held()], pressure: Some(pressure()) }),
    };
    NodeMessage { seq: 2, seen: 0, body: Some(body) }
}

fn event_of(name: &str) -> Option<Event> {
    let result = ResultBytes { data: "x".into(), content_type: "text/plain".to_owned() };
    Some(match name {
        "accepted" => Event::Accepted(Accepted {}),
        "started" => Event::Started(Started { elapsed: None }),
        "progress" => Event::Progress(Progress::default()),
        "finished" => Event::Finished(Finished {
            outcome: FinishedOutcome::Succeeded.into(),
            cause: "exit".to_owned(),
            result: Some(result),
            throttled: Some(Throttled { slot: "f".to_owned(), retry_after: None }),
            detach: Some(Detach { job_ids: vec![nobody()], ..Detach::default() }),
            checkpoint: Some(Checkpoint { data: "x".into() }),
            log_tail: Some(LogTail::default()),
            ..Default::default()
        }),
        "checkpoint" => Event::Checkpoint(Checkpoint { data: "x".into() }),
        "reaped" => Event::Reaped(Reaped {}),
        "returned" => Event::Returned(Returned {
            rule: "headroom".to_owned(),
            checkpoint: Some(Checkpoint { data: "x".into() }),
            ..Default::default()
        }),
        _ => return None,
    })
}
