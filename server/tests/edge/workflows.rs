//! Workflows over the wire: refused whole with paths, the same twice, handed on, watched.

use tenure_proto::v1::{
    self, JobState, WorkflowPart, WorkflowState, workflow_part::Part,
    workflow_service_client::WorkflowServiceClient,
};
use tokio::time::timeout;
use tonic::{Code, transport::Channel};

use crate::{
    node::Node,
    served::{SOON, Served, fields, no, spec},
};

const ID: &str = "01900000-0000-7000-8000-0000000f1001";

fn job(kind: &str) -> WorkflowPart {
    WorkflowPart { part: Some(Part::Job(spec(kind))) }
}

fn chain(parts: Vec<WorkflowPart>) -> WorkflowPart {
    WorkflowPart { part: Some(Part::Chain(v1::WorkflowChain { parts })) }
}

fn chord(members: Vec<WorkflowPart>, at_least: u32) -> WorkflowPart {
    let chord = v1::WorkflowChord {
        members,
        synthesis: Some(spec("plain")),
        policy: v1::SynthesisPolicy::AtLeast.into(),
        at_least,
        ..Default::default()
    };
    WorkflowPart { part: Some(Part::Chord(chord)) }
}

fn submit(part: WorkflowPart) -> v1::SubmitWorkflowRequest {
    v1::SubmitWorkflowRequest { workflow_id: ID.to_owned(), workflow: Some(part), ..Default::default() }
}

fn client(served: &Served) -> WorkflowServiceClient<Channel> {
    WorkflowServiceClient::new(served.channel.clone())
}

#[tokio::test]
async fn what_is_wrong_with_a_workflow_is_told_by_its_path_and_nothing_is_stored() {
    let served = Served::start().await;
    let mut flows = client(&served);
    let named = |mut spec: v1::JobSpec| {
        spec.dedupe_key = "k".to_owned();
        WorkflowPart { part: Some(Part::Job(spec)) }
    };
    let mut late = spec("plain");
    late.delay = Some(prost_types::Duration { seconds: 5, nanos: 0 });
    let late = WorkflowPart { part: Some(Part::Job(late)) };
    for (part, path) in [
        (WorkflowPart { part: None }, "workflow"),
        (chain(vec![]), "workflow"),
        (chain(vec![job("plain"), WorkflowPart { part: None }]), "workflow.chain.parts[1]"),
        (chain(vec![job("plain"), named(spec("plain"))]), "workflow.chain.parts[1].job.dedupe_key"),
        (chain(vec![job("plain"), job("no name")]), "workflow.chain.parts[1].job.kind"),
        (chain(vec![job("plain"), late]), "members[1].run_at"),
        (chord(vec![job("plain")], 2), "workflow"),
        (chord(vec![job("plain")], 0), "workflow"),
    ] {
        let answer = flows.submit_workflow(submit(part)).await;
        assert_eq!(fields(answer), [path]);
    }
    let unknown = flows.submit_workflow(submit(chain(vec![job("plain"), job("nope")]))).await;
    assert_eq!(no(unknown), (Code::NotFound, "KIND_NOT_FOUND".to_owned()));
    let listed = served.jobs.clone().list_jobs(v1::ListJobsRequest::default()).await.unwrap();
    assert_eq!(listed.into_inner().jobs.len(), 0, "nothing is stored");
    served.end().await;
}

#[tokio::test]
async fn a_workflow_runs_in_order_and_is_the_same_twice() {
    let served = Served::start().await;
    let mut flows = client(&served);
    let part = || chain(vec![job("plain"), chord(vec![job("plain"), job("plain")], 1)]);
    let judged = v1::SubmitWorkflowRequest { validate_only: true, ..submit(part()) };
    let judged = flows.submit_workflow(judged).await.unwrap().into_inner();
    assert_eq!(judged.workflow.unwrap().total, 4);
    let get = || v1::GetWorkflowRequest { workflow_id: ID.to_owned() };
    assert_eq!(no(flows.get_workflow(get()).await), (Code::NotFound, "WORKFLOW_NOT_FOUND".to_owned()));

    let first = flows.submit_workflow(submit(part())).await.unwrap().into_inner();
    let again = flows.submit_workflow(submit(part())).await.unwrap().into_inner();
    assert_eq!((first.deduplicated, again.deduplicated), (false, true));
    let other = flows.submit_workflow(submit(chain(vec![job("plain")]))).await;
    assert_eq!(no(other), (Code::AlreadyExists, "WORKFLOW_ID_REUSED".to_owned()));

    let watch = v1::WatchWorkflowRequest { workflow_id: ID.to_owned() };
    let mut watch = flows.watch_workflow(watch).await.unwrap().into_inner();
    let members = flows.get_workflow(get()).await.unwrap().into_inner().members;
    let states: Vec<JobState> = members.iter().map(v1::WorkflowMember::state).collect();
    assert_eq!(states, [JobState::Queued, JobState::Blocked, JobState::Blocked, JobState::Blocked]);

    let mut node = Node::hello(&served.channel, "n1", &[], &["plain"]).await;
    let mut order = Vec::new();
    for _ in 0..4 {
        let grant = node.granted().await;
        order.push(grant.job_id.clone());
        let waits_for = match order.len() {
            1 => None,
            2 | 3 => Some(1),
            _ => Some(2),
        };
        assert_eq!(grant.input_results, waits_for, "{order:?}");
        node.start(&grant).await;
        node.succeed(&grant, b"done").await;
    }
    let ids: Vec<String> = members.iter().map(|member| member.job_id.clone()).collect();
    assert_eq!((&order[0], &order[3]), (&ids[0], &ids[3]), "the first first, the synthesis last");
    let last = async {
        let mut last = None;
        while let Some(message) = watch.message().await.expect("it goes on") {
            last = message.workflow;
        }
        last.expect("a message")
    };
    let last = timeout(SOON, last).await.expect("in time");
    assert_eq!((last.state(), last.done, last.total), (WorkflowState::Succeeded, 4, 4));
    let listed = flows.list_workflows(v1::ListWorkflowsRequest::default()).await.unwrap().into_inner();
    assert_eq!(listed.workflows, [last]);
    let shown = served.get(&ids[3]).await.unwrap();
    assert_eq!((&*shown.workflow_id, shown.workflow_place), (ID, Some(3)));
    served.end().await;
}
