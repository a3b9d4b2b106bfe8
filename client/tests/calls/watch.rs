//! Watches against a server that answers by script: what is told, and what happens when the stream breaks.

use std::time::Duration;

use tenure_client::Error;
use tenure_client::proto::{Job, JobState, WatchJobRequest, WatchJobResponse};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::client;
use crate::fake::{Answer, Fake};

fn at(version: u64, state: JobState) -> WatchJobResponse {
    let job = Job { id: "x".to_owned(), version, state: state.into(), ..Job::default() };
    WatchJobResponse { job: Some(job) }
}

fn no(code: Code, reason: &str) -> Status {
    let mut details = ErrorDetails::new();
    details.set_error_info(reason, "tenure", []);
    Status::with_error_details(code, "no", details)
}

const PATIENT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_watch_goes_on_through_a_restart_and_tells_nothing_twice() {
    let stopping = || Some(no(Code::Unavailable, "NOT_LEADER"));
    let fake = Fake::start([(
        "JobService/WatchJob",
        vec![
            Answer::stream(&[at(1, JobState::Queued), at(2, JobState::Running)], stopping()),
            Answer::No(no(Code::Unavailable, "STORE_UNAVAILABLE")),
            Answer::stream(&[] as &[WatchJobResponse], stopping()),
            Answer::stream(&[at(2, JobState::Running), at(4, JobState::Succeeded)], None),
        ],
    )])
    .await;
    let mut watch = client(&fake, PATIENT).watch("x");
    let mut told = Vec::new();
    while let Some(job) = watch.next().await.unwrap() {
        told.push((job.version, job.state()));
    }
    let want = [(1, JobState::Queued), (2, JobState::Running), (4, JobState::Succeeded)];
    assert_eq!(told, want);
    assert_eq!(watch.next().await.unwrap(), None, "the end stays the end");
    let sent = fake.sent::<WatchJobRequest>("JobService/WatchJob");
    assert_eq!(sent.len(), 4);
    assert!(sent.iter().all(|request| request.job_id == "x"));
}

#[tokio::test]
async fn a_stream_that_breaks_without_a_word_is_given_up_at_the_deadline() {
    let broken = Answer::stream(&[] as &[WatchJobResponse], Some(no(Code::Unavailable, "STORE_UNAVAILABLE")));
    let fake = Fake::start([("JobService/WatchJob", vec![broken])]).await;
    let error = client(&fake, Duration::from_millis(300)).watch("x").next().await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { tries, .. } if tries > 1), "{error:?}");
    let error = client(&fake, Duration::ZERO).watch("x").next().await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { tries: 1, .. }), "{error:?}");
}

#[tokio::test]
async fn a_refusal_in_the_middle_ends_the_watch_with_its_reason() {
    let denied = Answer::stream(&[at(1, JobState::Queued)], Some(no(Code::PermissionDenied, "NOT_ALLOWED")));
    let fake = Fake::start([("JobService/WatchJob", vec![denied])]).await;
    let mut watch = client(&fake, PATIENT).watch("x");
    assert_eq!(watch.next().await.unwrap().map(|job| job.version), Some(1));
    assert_eq!(watch.next().await.unwrap_err().refusal().unwrap().reason, "NOT_ALLOWED");
    assert_eq!(fake.sent::<WatchJobRequest>("JobService/WatchJob").len(), 1, "it is not opened again");
}

#[tokio::test]
async fn a_stream_that_ends_before_the_job_does_is_no_answer() {
    let early = Answer::stream(&[at(1, JobState::Queued)], None);
    let fake = Fake::start([("JobService/WatchJob", vec![early])]).await;
    let mut watch = client(&fake, PATIENT).watch("x");
    watch.next().await.unwrap();
    let error = watch.next().await.unwrap_err();
    assert!(matches!(error, Error::Answer { missing: "final state", .. }), "{error:?}");
}
