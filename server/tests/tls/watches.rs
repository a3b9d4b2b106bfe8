//! Watches belong to whoever may see the job, for as long as that is so, and so many at once.

use tenure_proto::v1::{
    EnqueueRequest, JobSpec, ReadResultRequest, WatchJobRequest, WatchJobResponse,
    job_service_client::JobServiceClient,
};
use tenure_tls::Role;
use tokio::time::timeout;
use tonic::{Code, Status, Streaming, transport::Channel};
use tonic_types::StatusExt as _;

use crate::desk::{Desk, SOON, reason};

type Jobs = JobServiceClient<Channel>;

async fn enqueued(jobs: &mut Jobs) -> String {
    let spec = JobSpec { kind: "page".to_owned(), ..JobSpec::default() };
    let answer = jobs.enqueue(EnqueueRequest { job: Some(spec) }).await.expect("it is stored").into_inner();
    answer.job.expect("an answer has a job").id
}

async fn watch(jobs: &mut Jobs, id: &str) -> Result<Streaming<WatchJobResponse>, Status> {
    Ok(jobs.watch_job(WatchJobRequest { job_id: id.to_owned() }).await?.into_inner())
}

async fn next(watch: &mut Streaming<WatchJobResponse>) -> Result<Option<WatchJobResponse>, Status> {
    timeout(SOON, watch.message()).await.expect("in time")
}

#[tokio::test]
async fn a_denied_caller_loses_its_watches() {
    let desk = Desk::new().await;
    let mut web = Jobs::new(desk.channel(Role::Producer, "web").await);
    let id = enqueued(&mut web).await;
    let mut watched = watch(&mut web, &id).await.unwrap();
    assert!(next(&mut watched).await.unwrap().is_some());
    let mut operator = Jobs::new(desk.channel(Role::Operator, "o").await);
    let mut stays = watch(&mut operator, &id).await.unwrap();
    assert!(next(&mut stays).await.unwrap().is_some());

    let mut denying = desk.config.clone();
    denying.deny.names.insert("producer/web".to_owned());
    desk.reload().apply(&denying).unwrap();
    let status = next(&mut watched).await.unwrap_err();
    assert_eq!((status.code(), reason(&status).as_str()), (Code::PermissionDenied, "NOT_ALLOWED"));
    assert!(status.message().contains("denied"), "{}", status.message());

    let cancel = tenure_proto::v1::CancelJobRequest { job_id: id, ..Default::default() };
    operator.cancel_job(cancel).await.unwrap();
    assert!(next(&mut stays).await.unwrap().is_some(), "another's watch goes on");
    desk.end().await;
}

#[tokio::test]
async fn a_person_has_twenty_watches_and_no_more() {
    let desk = Desk::new().await;
    let mut operator = Jobs::new(desk.channel(Role::Operator, "o").await);
    let id = enqueued(&mut operator).await;
    let mut open = Vec::new();
    for _ in 0..20 {
        open.push(watch(&mut operator, &id).await.unwrap());
    }
    let status = watch(&mut operator, &id).await.unwrap_err();
    assert_eq!((status.code(), reason(&status).as_str()), (Code::ResourceExhausted, "TOO_MANY_WATCHES"));
    // Reads of results count with them, so that those who do not read what they asked for are bounded.
    let read = operator.read_result(ReadResultRequest { job_id: id.clone() }).await.unwrap_err();
    assert_eq!(reason(&read), "TOO_MANY_WATCHES");
    let quota = status.get_details_quota_failure().unwrap();
    assert_eq!((quota.violations[0].subject.as_str(), quota.violations[0].quota_value), ("operator:o", 20));
    assert!(status.get_details_retry_info().unwrap().retry_delay.is_some());
    // Another person has room of their own, and a watch that ends gives its room back.
    let mut viewer = Jobs::new(desk.channel(Role::Viewer, "v").await);
    watch(&mut viewer, &id).await.unwrap();
    drop(open.pop());
    let again = async {
        while watch(&mut operator, &id).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    timeout(SOON, again).await.expect("room in time");
    desk.end().await;
}
