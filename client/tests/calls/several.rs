//! Several servers: one is asked for as long as it serves, then the next one.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

use std::time::Duration;

use tenure_client::proto::{
    EnqueueRequest, GetJobRequest, GetJobResponse, Job, JobState, WatchJobRequest, WatchJobResponse,
};
use tenure_client::{Client, Error, NewJob, Options, RetryPolicy};
use tonic::Status;

use crate::fake::{Answer, Fake};
use crate::{busy, queue_full, stored};

const JOB: &str = "0199a5b2-7c00-7000-8000-000000000000";

fn client(endpoints: &[String], give_up_after: Duration) -> Client {
    let retry = RetryPolicy { give_up_after, ..RetryPolicy::default() };
    Client::connect_with(&endpoints.join(","), Options { retry, ..Options::default() }).unwrap()
}

/// An address where nobody listens.
async fn nobody() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[tokio::test]
async fn the_next_server_is_asked_for_the_same_job_and_then_stays_the_one() {
    let (job, other) = (NewJob::new("k"), NewJob::new("k"));
    let first = Fake::start([("JobService/Enqueue", vec![busy()])]).await;
    let second = Fake::start([("JobService/Enqueue", vec![Answer::ok(&stored(job.id(), true))])]).await;
    let client = client(&[nobody().await, first.endpoint(), second.endpoint()], Duration::from_secs(30));
    let enqueued = client.enqueue(&job).await.unwrap();
    assert!(!enqueued.deduplicated, "it may be the echo of the first try");
    client.enqueue(&other).await.unwrap();
    let [asked, served] = [&first, &second].map(|fake| fake.sent::<EnqueueRequest>("JobService/Enqueue"));
    assert_eq!(asked.len(), 1, "who does not serve is asked once");
    assert_eq!(asked[0], served[0], "the try at the next one is the same call");
    assert_eq!(served.len(), 2);
}

#[tokio::test]
async fn a_server_that_says_nothing_costs_its_share_of_the_time() {
    // It accepts, and never speaks.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let job = GetJobResponse { job: Some(Job { id: JOB.to_owned(), ..Job::default() }) };
    let fake = Fake::start([("JobService/GetJob", vec![Answer::ok(&job)])]).await;
    let client = client(&[endpoint, fake.endpoint()], Duration::from_secs(4));
    assert_eq!(client.get(JOB).await.unwrap().id, JOB);
    assert_eq!(fake.sent::<GetJobRequest>("JobService/GetJob").len(), 1);
}

#[tokio::test]
async fn a_refusal_is_the_answer_of_them_all_and_nobody_is_named_with_all_their_addresses() {
    let first = Fake::start([("JobService/Enqueue", vec![Answer::No(queue_full())])]).await;
    let second = Fake::start([]).await;
    let client = client(&[first.endpoint(), second.endpoint()], Duration::from_secs(30));
    assert_eq!(client.enqueue(&NewJob::new("k")).await.unwrap_err().refusal().unwrap().reason, "QUEUE_FULL");
    assert!(second.sent::<EnqueueRequest>("JobService/Enqueue").is_empty());

    let (one, other) = (nobody().await, nobody().await);
    let error = self::client(&[one.clone(), other.clone()], Duration::ZERO).get(JOB).await.unwrap_err();
    let Error::Unavailable { endpoint, tries, .. } = error else { panic!("{error:?}") };
    assert_eq!((endpoint, tries), (format!("{one},{other}"), 1));
}

#[tokio::test]
async fn a_watch_goes_on_at_the_next_server() {
    let at = |version, state: JobState| {
        let job = Job { id: JOB.to_owned(), version, state: state.into(), ..Job::default() };
        WatchJobResponse { job: Some(job) }
    };
    let (queued, running, done) =
        (at(1, JobState::Queued), at(2, JobState::Running), at(3, JobState::Succeeded));
    let cut = Answer::stream(&[queued, running.clone()], Some(Status::unavailable("the leader is gone")));
    let first = Fake::start([("JobService/WatchJob", vec![cut])]).await;
    let second = Fake::start([("JobService/WatchJob", vec![Answer::stream(&[running, done], None)])]).await;
    let client = client(&[first.endpoint(), second.endpoint()], Duration::from_secs(30));
    let mut watch = client.watch(JOB);
    let mut versions = Vec::new();
    while let Some(job) = watch.next().await.unwrap() {
        versions.push(job.version);
    }
    assert_eq!(versions, [1, 2, 3]);
    assert_eq!(first.sent::<WatchJobRequest>("JobService/WatchJob").len(), 1);
}
