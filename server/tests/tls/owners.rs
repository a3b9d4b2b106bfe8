//! What is whose: a producer's jobs are there for it and for nobody else of its kind.

use std::time::Duration;

use tenure_proto::v1::{
    ApplyRequest, CancelJobRequest, DeleteJobRequest, EnqueueRequest, ExplainJobRequest, GetJobRequest,
    GetQueueHealthRequest, GetResultRequest, Job, JobSpec, ListAttemptsRequest, ListJobsRequest,
    ListKindsRequest, ReadLogRequest, ReadResultRequest, ReprioritizeJobRequest, RequeueJobRequest,
    WaitJobRequest, WatchJobRequest, fleet_service_client::FleetServiceClient,
    health_service_client::HealthServiceClient, job_service_client::JobServiceClient,
};
use tenure_scheduler::{KindName, Tenant};
use tenure_server::config::Producer;
use tenure_tls::Role;
use tonic::{Code, Status, transport::Channel};

use crate::{
    desk::{Desk, SOON, reason},
    node::Node,
};

type Jobs = JobServiceClient<Channel>;

async fn jobs(desk: &Desk, role: Role, name: &str) -> Jobs {
    JobServiceClient::new(desk.channel(role, name).await)
}

fn spec(kind: &str) -> JobSpec {
    JobSpec { kind: kind.to_owned(), ..JobSpec::default() }
}

async fn enqueue(jobs: &mut Jobs, spec: JobSpec) -> Result<Job, Status> {
    let answer = jobs.enqueue(EnqueueRequest { job: Some(spec) }).await?.into_inner();
    Ok(answer.job.expect("an answer has a job"))
}

async fn listed(jobs: &mut Jobs) -> Vec<String> {
    let answer = jobs.list_jobs(ListJobsRequest::default()).await.expect("a list").into_inner();
    answer.jobs.into_iter().map(|job| job.producer).collect()
}

#[tokio::test]
async fn another_producers_job_is_not_there() {
    let desk = Desk::new().await;
    let (mut one, mut other) =
        (jobs(&desk, Role::Producer, "one").await, jobs(&desk, Role::Producer, "other").await);
    let job = enqueue(&mut one, spec("page")).await.unwrap();
    assert_eq!((job.producer.as_str(), job.tenant.as_str()), ("one", "one"));
    let job_id = job.id;
    let id = || job_id.clone();
    let answers = [
        other.get_job(GetJobRequest { job_id: id() }).await.map(drop),
        other.explain_job(ExplainJobRequest { job_id: id() }).await.map(drop),
        other.wait_job(WaitJobRequest { job_id: id(), timeout: None }).await.map(drop),
        other.watch_job(WatchJobRequest { job_id: id() }).await.map(drop),
        other.list_attempts(ListAttemptsRequest { job_id: id(), ..Default::default() }).await.map(drop),
        other.get_result(GetResultRequest { job_id: id() }).await.map(drop),
        other.read_log(ReadLogRequest { job_id: id(), ..Default::default() }).await.map(drop),
        other.read_result(ReadResultRequest { job_id: id() }).await.map(drop),
        other.cancel_job(CancelJobRequest { job_id: id(), ..Default::default() }).await.map(drop),
        other.requeue_job(RequeueJobRequest { job_id: id(), force: false }).await.map(drop),
        other.reprioritize_job(ReprioritizeJobRequest { job_id: id(), priority: 1 }).await.map(drop),
        other.delete_job(DeleteJobRequest { job_id: id(), ..Default::default() }).await.map(drop),
    ];
    for (n, answer) in answers.into_iter().enumerate() {
        assert_eq!(reason(&answer.unwrap_err()), "JOB_NOT_FOUND", "call {n}");
    }
    assert!(listed(&mut other).await.is_empty());
    assert_eq!(listed(&mut one).await, ["one"]);
    let mut viewer = jobs(&desk, Role::Viewer, "v").await;
    assert_eq!(listed(&mut viewer).await, ["one"]);
    one.cancel_job(CancelJobRequest { job_id: id(), ..Default::default() }).await.expect("its own");
    desk.end().await;
}

#[tokio::test]
async fn an_operator_of_the_same_name_is_another() {
    let desk = Desk::new().await;
    let mut operator = jobs(&desk, Role::Operator, "sam").await;
    let job = enqueue(&mut operator, spec("page")).await.unwrap();
    assert_eq!((job.producer.as_str(), job.tenant.as_str()), ("operator:sam", "default"));
    assert!(listed(&mut jobs(&desk, Role::Producer, "sam").await).await.is_empty());
    desk.end().await;
}

#[tokio::test]
async fn of_a_key_that_another_holds_only_the_id_is_told() {
    let desk = Desk::new().await;
    let keyed = || JobSpec { dedupe_key: "k".to_owned(), tenant: "shared".to_owned(), ..spec("page") };
    let first = enqueue(&mut jobs(&desk, Role::Producer, "one").await, keyed()).await.unwrap();
    let seen = enqueue(&mut jobs(&desk, Role::Producer, "other").await, keyed()).await.unwrap();
    assert_eq!(seen, Job { id: first.id, ..Job::default() });
    desk.end().await;
}

/// Units are kept for a job of somebody else: that is told, wherever why a job waits is told, and not for which.
#[tokio::test]
async fn for_whose_job_units_are_kept_is_told_to_those_who_see_it_only() {
    let desk = Desk::new().await;
    let fleet = "[slots]\nbrowser = \"node\"\n[kinds.page]\nneeds = { browser = 1 }\n\
                 [kinds.large]\nneeds = { browser = 2 }\nreserve_after = \"1s\"\n";
    let request = ApplyRequest { fleet: fleet.to_owned(), validate_only: false };
    FleetServiceClient::new(desk.channel(Role::Admin, "root").await).apply(request).await.expect("a fleet");
    let channel = desk.channel(Role::Node, "n1").await;
    let mut node = Node::hello(&channel, "n1", &[("browser", 2)], &["page", "large"]).await;
    let (mut web, mut other) =
        (jobs(&desk, Role::Producer, "web").await, jobs(&desk, Role::Producer, "other").await);
    let mut viewer = jobs(&desk, Role::Viewer, "v").await;
    enqueue(&mut web, spec("page")).await.unwrap();
    let grant = node.granted().await;
    node.start(&grant).await;
    let large = enqueue(&mut other, spec("large")).await.unwrap();
    let request = || ExplainJobRequest { job_id: large.id.clone() };
    let kept = tokio::time::timeout(SOON, async {
        while viewer.explain_job(request()).await.unwrap().into_inner().earmarks.is_empty() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    kept.await.expect("an earmark in time");

    let small = enqueue(&mut web, spec("page")).await.unwrap().id;
    let get = || GetJobRequest { job_id: small.clone() };
    let deferral = tokio::time::timeout(SOON, async {
        loop {
            let job = viewer.get_job(get()).await.unwrap().into_inner().job.unwrap();
            if let Some(deferral) = job.deferral.filter(|deferral| deferral.reason == "earmarked") {
                return deferral;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let deferral = deferral.await.expect("a unit that is kept");
    assert_eq!(deferral.parameters.get("job"), Some(&large.id));
    let seen = [
        format!("{:?}", web.get_job(get()).await.unwrap().into_inner()),
        format!("{:?}", web.list_jobs(ListJobsRequest::default()).await.unwrap().into_inner()),
        format!("{:?}", web.explain_job(ExplainJobRequest { job_id: small }).await.unwrap().into_inner()),
    ];
    for seen in seen {
        assert!(seen.contains("earmarked") && !seen.contains(&large.id), "{seen}");
    }
    desk.end().await;
}

#[tokio::test]
async fn a_producer_keeps_to_what_the_server_file_gives_it() {
    let desk = Desk::with(|config| {
        let limits = Producer {
            kinds: Some([KindName::new("page")].into()),
            tenants: Some([Tenant::new("web")].into()),
            max_priority: Some(5),
            ..Producer::default()
        };
        config.producers.insert("web".to_owned(), limits);
    })
    .await;
    let channel = desk.channel(Role::Producer, "web").await;
    let mut web = JobServiceClient::new(channel.clone());
    let job = enqueue(&mut web, JobSpec { priority: Some(5), ..spec("page") }).await.unwrap();
    let child = JobSpec { parent_id: job.id.clone(), ..spec("page") };
    let status = enqueue(&mut web, child.clone()).await.map(|job| job.tenant);
    assert_eq!(status.unwrap(), "web", "it is of its parent's tenant");
    let priority = enqueue(&mut web, child.clone()).await.map(|job| job.priority);
    assert_eq!(priority.unwrap(), 5, "it is one over its parent, but for the limit");
    for (spec, words) in [
        (
            JobSpec { tenant: "other".to_owned(), ..child },
            "producer web may not enqueue jobs for tenant other",
        ),
        (spec("print"), "producer web may not enqueue jobs of kind print"),
        (spec("unheard.of"), "producer web may not enqueue jobs of kind unheard.of"),
        (
            JobSpec { tenant: "other".to_owned(), ..spec("page") },
            "producer web may not enqueue jobs for tenant other",
        ),
        (JobSpec { priority: Some(6), ..spec("page") }, "producer web may not give a priority above 5"),
    ] {
        let status = enqueue(&mut web, spec).await.unwrap_err();
        assert_eq!((status.code(), status.message()), (Code::PermissionDenied, words));
    }
    let higher = ReprioritizeJobRequest { job_id: job.id.clone(), priority: 6 };
    assert_eq!(reason(&web.reprioritize_job(higher).await.unwrap_err()), "NOT_ALLOWED");
    let unknown = "01900000-0000-7000-8000-000000000000".to_owned();
    let force = RequeueJobRequest { job_id: unknown, force: true };
    assert_eq!(reason(&web.requeue_job(force).await.unwrap_err()), "NOT_ALLOWED", "before existence");

    let kinds = FleetServiceClient::new(channel.clone()).list_kinds(ListKindsRequest {}).await.unwrap();
    assert_eq!(kinds.into_inner().kinds.len(), 1);
    let mut health = HealthServiceClient::new(channel);
    let hidden = GetQueueHealthRequest { kind: "print".to_owned() };
    assert_eq!(reason(&health.get_queue_health(hidden).await.unwrap_err()), "KIND_NOT_FOUND");
    desk.end().await;
}
