//! What a running job asks through its node: children, waits, and how the children ended.

use tenure_proto::{
    node::v1::{
        BeginWaitRequest, Detach, EnqueueChildrenRequest, Finished, FinishedOutcome, GetChildResultsRequest,
        Grant, HeldLease, InputResult, LeaseName, LeasePhase, ResultBytes, ResumeVerdict, Returned,
        WaitAnswer, WaitTerms, input_result::Answer, node_service_client::NodeServiceClient, report::Event,
        server_message::Body,
    },
    v1::{EnqueueResponse, JobSpec, JobState, WaitPolicy, enqueue_batch_item},
};
use tonic::{Code, Status, transport::Channel};

use crate::node::{Node, accepted, finished, held, hello, reaped, started};
use crate::reason;
use crate::served::{Served, spec};

fn lease(grant: &Grant) -> Option<LeaseName> {
    Some(LeaseName { node: "n1".to_owned(), job_id: grant.job_id.clone(), token: grant.token })
}

fn client(served: &Served) -> NodeServiceClient<Channel> {
    NodeServiceClient::new(served.channel())
}

/// A running job of the node n1.
async fn running(served: &Served) -> (Node, Grant) {
    let (mut node, _) = Node::join(served.grpc(), hello("n1", 1)).await;
    served.enqueue(JobSpec { tenant: "acme".to_owned(), ..spec("page", b"parent") }).await;
    let grant = node.grant().await;
    node.report(&grant, [accepted(), started()]).await;
    (node, grant)
}

async fn children(
    served: &Served,
    grant: &Grant,
    jobs: Vec<JobSpec>,
) -> Result<Vec<EnqueueResponse>, Status> {
    let request = EnqueueChildrenRequest { lease: lease(grant), jobs };
    let items = client(served).enqueue_children(request).await?.into_inner().items;
    let stored = items.into_iter().map(|item| match item.answer {
        Some(enqueue_batch_item::Answer::Enqueued(enqueued)) => enqueued,
        other => panic!("{other:?}"),
    });
    Ok(stored.collect())
}

fn ids(enqueued: &[EnqueueResponse]) -> Vec<String> {
    enqueued.iter().map(|one| one.job.as_ref().expect("a job").id.clone()).collect()
}

async fn begin(
    served: &Served,
    grant: &Grant,
    epoch: u64,
    job_ids: Vec<String>,
) -> Result<WaitAnswer, Status> {
    let terms = Some(WaitTerms { job_ids, ..WaitTerms::default() });
    let request = BeginWaitRequest { lease: lease(grant), wait_epoch: epoch, terms };
    Ok(client(served).begin_wait(request).await?.into_inner().answer())
}

async fn results(served: &Served, grant: &Grant, job_ids: Vec<String>) -> Vec<InputResult> {
    let request =
        GetChildResultsRequest { lease: lease(grant), job_ids, ..GetChildResultsRequest::default() };
    client(served).get_child_results(request).await.expect("results").into_inner().results
}

#[tokio::test]
async fn a_running_job_enqueues_children_of_its_producer_and_tenant() {
    let served = Served::in_memory().await;
    let (_node, grant) = running(&served).await;
    let id = uuid::Uuid::now_v7().to_string();
    let child = JobSpec { job_id: id.clone(), ..spec("page", b"a") };
    let stored = children(&served, &grant, vec![child.clone(), spec("page", b"b")]).await.unwrap();
    assert!(stored.iter().all(|one| !one.deduplicated));
    assert_eq!(ids(&stored)[0], id);
    let job = served.job(&id).await;
    assert_eq!(
        (job.parent_id.as_str(), job.root_id.as_str()),
        (grant.job_id.as_str(), grant.job_id.as_str())
    );
    assert_eq!((job.tenant.as_str(), job.producer.as_str()), ("acme", "local"));
    assert_eq!(job.priority, 1, "one more than its parent");
    let again = children(&served, &grant, vec![child]).await.unwrap();
    assert!(again[0].deduplicated, "the same call");

    let stranger = JobSpec { parent_id: id.clone(), ..spec("page", b"c") };
    let request = EnqueueChildrenRequest { lease: lease(&grant), jobs: vec![stranger] };
    let items = client(&served).enqueue_children(request).await.unwrap().into_inner().items;
    let Some(enqueue_batch_item::Answer::Refused(status)) = &items[0].answer else { panic!("{items:?}") };
    assert_eq!(Code::from(status.code), Code::FailedPrecondition, "{status:?}");
    served.end().await;
}

#[tokio::test]
async fn a_child_of_another_tenant_than_its_parents_is_refused() {
    let served = Served::in_memory().await;
    let (_node, grant) = running(&served).await;
    let of = |tenant: &str| JobSpec { tenant: tenant.to_owned(), ..spec("page", b"a") };
    let request = EnqueueChildrenRequest { lease: lease(&grant), jobs: vec![of("other"), of("acme")] };
    let items = client(&served).enqueue_children(request).await.unwrap().into_inner().items;
    let Some(enqueue_batch_item::Answer::Refused(refused)) = &items[0].answer else { panic!("{items:?}") };
    let status = refused.clone();
    assert_eq!(Code::from(status.code), Code::InvalidArgument, "{status:?}");
    assert!(status.message.starts_with("jobs[0].tenant: "), "{status:?}");
    let Some(enqueue_batch_item::Answer::Enqueued(stored)) = &items[1].answer else { panic!("{items:?}") };
    let job = served.job(&stored.job.as_ref().unwrap().id).await;
    assert_eq!((job.tenant.as_str(), job.parent_id.as_str()), ("acme", grant.job_id.as_str()));
    served.end().await;
}

#[tokio::test]
async fn who_does_not_hold_the_lease_is_told_that_it_is_lost() {
    let served = Served::in_memory().await;
    let (mut node, grant) = running(&served).await;
    let other_token = Grant { token: grant.token + 1, ..grant.clone() };
    let lost = children(&served, &other_token, vec![spec("page", b"")]).await.unwrap_err();
    assert_eq!((lost.code(), reason(&lost).as_str()), (Code::FailedPrecondition, "LEASE_LOST"));
    let other = LeaseName { node: "n2".to_owned(), ..lease(&grant).unwrap() };
    let request = EnqueueChildrenRequest { lease: Some(other.clone()), jobs: vec![spec("page", b"")] };
    assert_eq!(reason(&client(&served).enqueue_children(request).await.unwrap_err()), "LEASE_LOST");
    let request = BeginWaitRequest { lease: Some(other), wait_epoch: 1, terms: Some(WaitTerms::default()) };
    assert_eq!(reason(&client(&served).begin_wait(request).await.unwrap_err()), "LEASE_LOST");

    node.report(&grant, [finished(FinishedOutcome::Succeeded, None)]).await;
    node.answers(1).await;
    let lost = children(&served, &grant, vec![spec("page", b"")]).await.unwrap_err();
    assert_eq!(reason(&lost), "LEASE_LOST", "its outcome is recorded");
    assert_eq!(reason(&begin(&served, &grant, 1, Vec::new()).await.unwrap_err()), "LEASE_LOST");
    let request = GetChildResultsRequest { lease: lease(&grant), ..GetChildResultsRequest::default() };
    assert_eq!(reason(&client(&served).get_child_results(request).await.unwrap_err()), "LEASE_LOST");
    served.end().await;
}

#[tokio::test]
async fn a_parked_process_is_told_when_its_children_have_ended_and_reads_their_results() {
    let served = Served::in_memory().await;
    let (mut node, parent) = running(&served).await;
    let stored = children(&served, &parent, vec![spec("page", b"a"), spec("page", b"b")]).await.unwrap();
    let named = ids(&stored);
    assert_eq!(begin(&served, &parent, 1, named.clone()).await.unwrap(), WaitAnswer::Parked);
    assert_eq!(begin(&served, &parent, 1, named.clone()).await.unwrap(), WaitAnswer::Parked, "the same call");
    let waiting = served.job(&parent.job_id).await.waiting_for.expect("it waits");
    assert!(waiting.parked && waiting.unfinished == 2, "{waiting:?}");

    // Its only slot of two is given back: both children run at once.
    let mut grants = node.grants().await;
    while grants.len() < 2 {
        grants.extend(node.grants().await);
    }
    let parked = HeldLease { wait_epoch: 1, ..held(&parent, LeasePhase::Parked) };
    for (grant, result) in grants.iter().zip([FinishedOutcome::Succeeded, FinishedOutcome::FailedPermanent]) {
        let bytes = (result == FinishedOutcome::Succeeded).then_some(&b"found"[..]);
        node.report(grant, [accepted(), started(), finished(result, bytes), reaped()]).await;
        node.answers(2).await;
    }
    let resumed = |message: &tenure_proto::node::v1::ServerMessage| match &message.body {
        Some(Body::Resume(resume)) => Some(*resume),
        _ => None,
    };
    let resume = node.find(resumed).await;
    assert_eq!((resume.token, resume.wait_epoch, resume.verdict()), (parent.token, 1, ResumeVerdict::Go));
    node.heartbeat(vec![parked]).await;
    assert_eq!(node.find(resumed).await, resume, "it is said again while the node lists the wait");
    assert_eq!(begin(&served, &parent, 1, named.clone()).await.unwrap(), WaitAnswer::Go);

    let ends = results(&served, &parent, named.clone()).await;
    assert_eq!(
        ends.iter().map(|end| end.job_id.clone()).collect::<Vec<_>>(),
        named,
        "in the order asked for"
    );
    let first = grants.iter().position(|grant| grant.job_id == named[0]).unwrap();
    let (good, bad) = (&ends[first], &ends[1 - first]);
    assert_eq!(good.state(), JobState::Succeeded);
    assert!(matches!(&good.answer, Some(Answer::Result(result)) if &result.data[..] == b"found"), "{good:?}");
    assert_eq!(bad.state(), JobState::Dead);
    assert!(matches!(&bad.answer, Some(Answer::Error(error)) if !error.is_empty()), "{bad:?}");
    served.end().await;
}

#[tokio::test]
async fn a_detached_job_comes_back_with_its_state_and_the_ends_of_its_children() {
    let directory = tempfile::tempdir().unwrap();
    let served = Served::on_disk(directory.path()).await;
    let (mut node, parent) = running(&served).await;
    let named = ids(&children(&served, &parent, vec![spec("page", b"a")]).await.unwrap());
    let state = ResultBytes { data: "{\"step\":2}".into(), content_type: "application/json".to_owned() };
    let detach = Detach { job_ids: named.clone(), policy: WaitPolicy::All.into(), ..Detach::default() };
    let end = Finished {
        outcome: FinishedOutcome::Detached.into(),
        exit_code: Some(79),
        cause: "detach".to_owned(),
        result: Some(state.clone()),
        detach: Some(detach),
        ..Finished::default()
    };
    node.report(&parent, [Event::Finished(end), reaped()]).await;
    node.answers(2).await;
    assert_eq!(served.job(&parent.job_id).await.state(), JobState::Waiting);
    let child = node.grant().await;
    assert_eq!((child.job_id.clone(), child.parent_id.clone()), (named[0].clone(), parent.job_id.clone()));
    assert_eq!(child.input_results, None);
    let done = finished(FinishedOutcome::Succeeded, Some(b"found"));
    node.report(&child, [accepted(), started(), done, reaped()]).await;

    let resume = node.grant().await;
    assert_eq!((resume.job_id.as_str(), resume.attempt), (parent.job_id.as_str(), 1));
    assert!(resume.token > parent.token);
    assert_eq!(resume.input_results, Some(1));
    let request = GetChildResultsRequest { lease: lease(&resume), ..GetChildResultsRequest::default() };
    let page = client(&served).get_child_results(request).await.unwrap().into_inner();
    assert_eq!((page.state, page.next_index), (Some(state), 0));
    assert_eq!(page.results.len(), 1);
    assert_eq!(page.results[0].state(), JobState::Succeeded);
    assert!(matches!(&page.results[0].answer, Some(Answer::Result(result)) if &result.data[..] == b"found"));
    served.end().await;
}

#[tokio::test]
async fn results_come_in_pages_below_the_limit_of_a_message() {
    let served = Served::in_memory().await;
    let (mut node, parent) = running(&served).await;
    let specs = (0..6).map(|_| spec("page", b"a")).collect();
    let named = ids(&children(&served, &parent, specs).await.unwrap());
    let large = vec![7; 256 * 1024];
    for _ in 0..6 {
        let grant = node.grant().await;
        let done = finished(FinishedOutcome::Succeeded, Some(&large));
        node.report(&grant, [accepted(), started(), done, reaped()]).await;
        node.answers(2).await;
    }
    let (mut from, mut read, mut pages) = (0, Vec::new(), 0);
    loop {
        let request = GetChildResultsRequest {
            lease: lease(&parent),
            job_ids: named.clone(),
            from_index: from,
            ..GetChildResultsRequest::default()
        };
        let page = client(&served).get_child_results(request).await.unwrap().into_inner();
        assert!(prost::Message::encoded_len(&page) <= 1 << 20);
        read.extend(page.results);
        (from, pages) = (page.next_index, pages + 1);
        if from == 0 {
            break;
        }
    }
    assert_eq!(pages, 2);
    assert_eq!(read.iter().map(|end| end.job_id.clone()).collect::<Vec<_>>(), named);
    assert_eq!(read.iter().map(|end| end.index).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    served.end().await;
}

#[tokio::test]
async fn progress_is_shown_while_the_job_runs_and_usage_is_kept_of_returns_too() {
    let served = Served::in_memory().await;
    let (mut node, grant) = running(&served).await;
    let progress = tenure_proto::node::v1::Progress { percent: 40, message: "four of ten".to_owned() };
    node.report(&grant, [Event::Progress(progress)]).await;
    let shown = crate::wait_for(async || served.job(&grant.job_id).await.progress).await;
    assert_eq!((shown.percent, shown.message.as_str()), (40, "four of ten"));
    let returned = Returned {
        rule: "draining".to_owned(),
        started: true,
        usage: [("tokens".to_owned(), 12)].into(),
        ..Returned::default()
    };
    node.report(&grant, [Event::Returned(returned)]).await;
    node.answers(1).await;
    let request =
        tenure_proto::v1::ListAttemptsRequest { job_id: grant.job_id.clone(), ..Default::default() };
    let attempts = served.jobs().list_attempts(request).await.unwrap().into_inner().attempts;
    assert_eq!(attempts[0].usage, [("tokens".to_owned(), 12)].into());
    let job = served.job(&grant.job_id).await;
    assert!(job.progress.is_none(), "{job:?}");
    served.end().await;
}
