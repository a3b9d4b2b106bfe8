//! The client against a server that answers by script, over a real socket.

#[expect(dead_code, reason = "its main reads a command line")]
#[path = "../examples/come_back.rs"]
mod come_back;
#[path = "support/cutter.rs"]
mod cutter;
#[path = "support/fake.rs"]
mod fake;
#[path = "calls/once.rs"]
mod once;
#[path = "calls/several.rs"]
mod several;
#[path = "calls/watch.rs"]
mod watch;

use std::time::Duration;

use cutter::{Cut, Cutter};
use fake::{Answer, Fake};
use tenure_client::proto::{
    EnqueueBatchItem, EnqueueBatchRequest, EnqueueBatchResponse, EnqueueRequest, EnqueueResponse, Job,
    JobState, ListJobsRequest, ListJobsResponse, WaitJobRequest, WaitJobResponse, enqueue_batch_item,
};
use tenure_client::{Client, Error, NewJob, Options, RetryPolicy};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

fn client(fake: &Fake, give_up_after: Duration) -> Client {
    let retry = RetryPolicy { give_up_after, ..RetryPolicy::default() };
    Client::connect_with(&fake.endpoint(), Options { retry, ..Options::default() })
        .expect("a loopback address")
}

fn busy() -> Answer {
    let mut details = ErrorDetails::new();
    details.set_error_info("SERVER_BUSY", "tenure", []).set_retry_info(Some(Duration::from_millis(5)));
    Answer::No(Status::with_error_details(Code::Unavailable, "too many requests wait", details))
}

fn queue_full() -> Status {
    let mut details = ErrorDetails::new();
    details.set_error_info("QUEUE_FULL", "tenure", []).set_retry_info(Some(Duration::from_secs(600)));
    Status::with_error_details(Code::ResourceExhausted, "full", details)
}

fn stored(id: &str, deduplicated: bool) -> EnqueueResponse {
    EnqueueResponse { job: Some(Job { id: id.to_owned(), ..Job::default() }), deduplicated }
}

#[tokio::test]
async fn unavailable_is_retried_with_the_same_id_and_its_echo_is_no_duplicate() {
    let job = NewJob::new("k");
    let fake =
        Fake::start([("JobService/Enqueue", vec![busy(), busy(), Answer::ok(&stored(job.id(), true))])])
            .await;
    let enqueued = client(&fake, Duration::from_secs(30)).enqueue(&job).await.unwrap();
    assert!(!enqueued.deduplicated);
    let sent = fake.sent::<EnqueueRequest>("JobService/Enqueue");
    assert_eq!(sent.len(), 3);
    assert!(sent.iter().all(|request| request.job.as_ref() == Some(job.spec())));
}

#[tokio::test]
async fn a_call_whose_connection_is_cut_is_sent_again() {
    let job = NewJob::new("k");
    let fake = Fake::start([("JobService/Enqueue", vec![Answer::ok(&stored(job.id(), true))])]).await;
    let cuts = &[Cut::Closed, Cut::Reset, Cut::InAnswer, Cut::Reset];
    let cutter = Cutter::start(fake.address, cuts, job.id()).await;
    let retry = RetryPolicy { give_up_after: Duration::from_secs(30), ..RetryPolicy::default() };
    let client = Client::connect_with(&cutter.endpoint(), Options { retry, ..Options::default() }).unwrap();
    let enqueued = client.enqueue(&job).await.unwrap();
    assert_eq!(enqueued.job.id, job.id());
    assert!(!enqueued.deduplicated, "the try whose answer was cut stored it");
    assert_eq!(cutter.cuts(), cuts.len());
    let sent = fake.sent::<EnqueueRequest>("JobService/Enqueue");
    assert_eq!(sent.len(), 2, "one answer was cut, one came through");
    assert_eq!(sent[0], sent[1]);
}

#[tokio::test]
async fn a_call_that_is_cut_off_to_the_last_is_unavailable() {
    let fake = Fake::start([]).await;
    for way in [&[Cut::Closed], &[Cut::Reset]] {
        let cutter = Cutter::start(fake.address, way, "").await;
        let retry = RetryPolicy { give_up_after: Duration::ZERO, ..RetryPolicy::default() };
        let client =
            Client::connect_with(&cutter.endpoint(), Options { retry, ..Options::default() }).unwrap();
        let error = client.get("x").await.unwrap_err();
        assert!(matches!(error, Error::Unavailable { tries: 1, .. }), "{way:?}: {error:?}");
    }
}

#[tokio::test]
async fn a_refusal_is_not_retried_however_soon_it_may_succeed() {
    let fake = Fake::start([("JobService/Enqueue", vec![Answer::No(queue_full())])]).await;
    let error = client(&fake, Duration::from_secs(30)).enqueue(&NewJob::new("k")).await.unwrap_err();
    let refusal = error.refusal().expect("a refusal");
    assert_eq!(
        (refusal.reason.as_str(), refusal.retry_after),
        ("QUEUE_FULL", Some(Duration::from_secs(600)))
    );
    assert_eq!(fake.sent::<EnqueueRequest>("JobService/Enqueue").len(), 1);
}

#[tokio::test]
async fn the_example_comes_back_until_there_is_room_and_no_more_often_than_it_is_told() {
    let full = |retry_after| {
        let mut details = ErrorDetails::new();
        details.set_error_info("QUEUE_FULL", "tenure", []).set_retry_info(retry_after);
        Answer::No(Status::with_error_details(Code::ResourceExhausted, "full", details))
    };
    let soon = Some(Duration::from_millis(20));
    let answers = vec![full(soon), full(soon), Answer::ok(&stored("x", false))];
    let fake = Fake::start([("JobService/Enqueue", answers)]).await;
    let client = client(&fake, Duration::ZERO);
    let mut out = Vec::new();
    come_back::run(&client, "k", 5, &mut out).await.unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), "QUEUE_FULL: back in 20.0ms\n".repeat(2) + "enqueued x\n");
    let sent = fake.sent::<EnqueueRequest>("JobService/Enqueue");
    assert!(sent.len() == 3 && sent.iter().all(|request| *request == sent[0]), "one job, three times");

    // Waiting does not cure it: the refusal is the answer.
    let fake = Fake::start([("JobService/Enqueue", vec![full(None)])]).await;
    come_back::run(&self::client(&fake, Duration::ZERO), "k", 5, &mut Vec::new()).await.unwrap_err();
    assert_eq!(fake.sent::<EnqueueRequest>("JobService/Enqueue").len(), 1);
}

#[tokio::test]
async fn nobody_listening_ends_at_the_deadline_as_unavailable() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let retry = RetryPolicy { give_up_after: Duration::from_millis(300), ..RetryPolicy::default() };
    let client =
        Client::connect_with(&format!("http://{address}"), Options { retry, ..Options::default() }).unwrap();
    match client.get("x").await.unwrap_err() {
        Error::Unavailable { tries, last, .. } => {
            assert!(tries > 1, "{tries}");
            assert!(last.message.contains("refused"), "{last}");
        }
        other @ (Error::Endpoint { .. } | Error::Tls { .. } | Error::Refused(_) | Error::Answer { .. }) => {
            panic!("{other}")
        }
    }
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up_at_the_deadline() {
    // Accepts connections into its backlog and reads none of them.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let retry = RetryPolicy { give_up_after: Duration::from_millis(300), ..RetryPolicy::default() };
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let client = Client::connect_with(&endpoint, Options { retry, ..Options::default() }).unwrap();
    let error = client.get("x").await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { tries: 1, .. }), "{error}");
}

#[tokio::test]
async fn a_batch_answers_for_each_job_and_the_refused_one_sinks_no_other() {
    let jobs = [NewJob::new("a"), NewJob::new("b")];
    let refused = tonic_types::pb::Status {
        code: Code::ResourceExhausted as i32,
        message: "full".to_owned(),
        details: Vec::new(),
    };
    let answer = EnqueueBatchResponse {
        items: vec![
            EnqueueBatchItem { answer: Some(enqueue_batch_item::Answer::Refused(refused)) },
            EnqueueBatchItem {
                answer: Some(enqueue_batch_item::Answer::Enqueued(stored(jobs[1].id(), false))),
            },
        ],
    };
    let fake = Fake::start([("JobService/EnqueueBatch", vec![Answer::ok(&answer)])]).await;
    let answers = client(&fake, Duration::from_secs(30)).enqueue_batch(&jobs).await;
    assert_eq!(answers[0].as_ref().unwrap_err().refusal().unwrap().code, Code::ResourceExhausted);
    assert_eq!(answers[1].as_ref().unwrap().job.id, jobs[1].id());
}

#[tokio::test]
async fn an_unavailable_server_answers_for_all_jobs_that_are_left() {
    let jobs: Vec<NewJob> = (0..2_500).map(|_| NewJob::new("a")).collect();
    let fake = Fake::start([("JobService/EnqueueBatch", vec![busy()])]).await;
    let answers = client(&fake, Duration::from_millis(200)).enqueue_batch(&jobs).await;
    assert_eq!(answers.len(), jobs.len());
    assert!(answers.iter().all(|answer| matches!(answer, Err(Error::Unavailable { .. }))));
    let sent = fake.sent::<EnqueueBatchRequest>("JobService/EnqueueBatch");
    assert!(
        sent.iter().all(|request| request.jobs[0].job_id == jobs[0].id()),
        "only the first part was tried"
    );
}

#[tokio::test]
async fn a_list_walks_its_pages_and_stops_at_the_limit() {
    let page = |ids: &[&str], next: &str| {
        Answer::ok(&ListJobsResponse {
            jobs: ids.iter().map(|id| Job { id: (*id).to_owned(), ..Job::default() }).collect(),
            next_page_token: next.to_owned(),
        })
    };
    let pages = vec![page(&["a", "b"], "1"), page(&[], "2"), page(&["c", "d"], "")];
    let fake = Fake::start([("JobService/ListJobs", pages)]).await;
    let client = client(&fake, Duration::from_secs(30));
    let filter = ListJobsRequest { kind: "k".to_owned(), ..ListJobsRequest::default() };
    let jobs = client.list(filter).take(3).await.unwrap();
    assert_eq!(jobs.iter().map(|job| job.id.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
    let sent = fake.sent::<ListJobsRequest>("JobService/ListJobs");
    let tokens: Vec<&str> = sent.iter().map(|request| request.page_token.as_str()).collect();
    assert_eq!(tokens, ["", "1", "2"]);
    assert!(sent.iter().all(|request| request.kind == "k"));
}

#[tokio::test]
async fn a_wait_polls_again_until_the_job_is_final() {
    let answer = |state: JobState, done| {
        Answer::ok(&WaitJobResponse { job: Some(Job { state: state.into(), ..Job::default() }), done })
    };
    let answers = vec![
        answer(JobState::Running, false),
        busy(),
        answer(JobState::Running, false),
        answer(JobState::Succeeded, true),
    ];
    let fake = Fake::start([("JobService/WaitJob", answers)]).await;
    let waited = client(&fake, Duration::from_secs(30)).wait("x", None).await.unwrap();
    assert!(waited.done && waited.job.state() == JobState::Succeeded);
    assert_eq!(fake.sent::<WaitJobRequest>("JobService/WaitJob").len(), 4);
}

#[tokio::test]
async fn a_wait_that_runs_out_returns_the_job_as_it_stands() {
    let answer = WaitJobResponse { job: Some(Job::default()), done: false };
    let fake = Fake::start([("JobService/WaitJob", vec![Answer::ok(&answer)])]).await;
    let waited = client(&fake, Duration::from_secs(30)).wait("x", Some(Duration::ZERO)).await.unwrap();
    assert!(!waited.done);
}
