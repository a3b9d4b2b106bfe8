//! Watches of one job: every change once and in order, the final one always, and no queue for a slow reader.

use tenure_proto::v1::{self, JobState, job_service_client::JobServiceClient};
use tokio::time::timeout;
use tonic::{Code, Status, Streaming, transport::Endpoint};

use crate::{
    node::Node,
    served::{SOON, Served, fields, no, spec},
};

struct Watch(Streaming<v1::WatchJobResponse>);

impl Watch {
    async fn open(served: &Served, id: &str) -> Self {
        Self::try_open(served, id).await.expect("a watch")
    }

    async fn try_open(served: &Served, id: &str) -> Result<Self, Status> {
        let request = v1::WatchJobRequest { job_id: id.to_owned() };
        Ok(Self(served.jobs.clone().watch_job(request).await?.into_inner()))
    }

    /// The next message; none at the end.
    async fn next(&mut self) -> Result<Option<v1::Job>, Status> {
        let message = timeout(SOON, self.0.message()).await.expect("in time")?;
        Ok(message.map(|message| message.job.expect("a message has its job")))
    }

    async fn state(&mut self) -> JobState {
        self.next().await.expect("it goes on").expect("it goes on").state()
    }
}

#[tokio::test]
async fn a_watch_tells_each_change_once_and_ends_after_the_final_state() {
    let served = Served::start().await;
    let job = served.job(spec("plain")).await;
    let mut watch = Watch::open(&served, &job.id).await;
    assert_eq!(watch.state().await, JobState::Queued);
    let mut node = Node::hello(&served.channel, "n1", &[], &["plain"]).await;
    let grant = node.granted().await;
    let running = watch.next().await.unwrap().unwrap();
    assert_eq!(
        (running.state(), running.node.as_str(), running.token),
        (JobState::Running, "n1", grant.token)
    );
    node.start(&grant).await;
    node.succeed(&grant, b"done").await;
    let last = watch.next().await.unwrap().unwrap();
    assert_eq!(last.state(), JobState::Succeeded);
    assert!(last.version > running.version);
    assert_eq!(watch.next().await.unwrap(), None, "it ends well");
    // Of what is final already there is one message.
    let mut late = Watch::open(&served, &job.id).await;
    assert_eq!(late.state().await, JobState::Succeeded);
    assert_eq!(late.next().await.unwrap(), None);
    served.end().await;
}

#[tokio::test]
async fn a_slow_reader_gets_the_newest_state_and_the_final_one() {
    const CHANGES: i32 = 400;
    let served = Served::start().await;
    let job = served.job(spec("plain")).await;
    // A reader with room for a few messages that it has not read.
    let endpoint = Endpoint::from_shared(format!("http://{}", served.addresses().grpc)).expect("an address");
    let narrow = endpoint.initial_stream_window_size(4_096).connect().await.expect("the server listens");
    let request = v1::WatchJobRequest { job_id: job.id.clone() };
    let mut watch =
        Watch(JobServiceClient::new(narrow).watch_job(request).await.expect("a watch").into_inner());
    let mut jobs = served.jobs.clone();
    for change in 1..=CHANGES {
        let request = v1::ReprioritizeJobRequest { job_id: job.id.clone(), priority: change % 90 + 1 };
        jobs.reprioritize_job(request).await.expect("it is live");
    }
    jobs.cancel_job(v1::CancelJobRequest { job_id: job.id.clone(), ..Default::default() })
        .await
        .expect("live");
    let mut told: Vec<v1::Job> = Vec::new();
    while let Some(job) = watch.next().await.unwrap() {
        assert!(told.last().is_none_or(|before| before.version < job.version), "versions rise");
        told.push(job);
    }
    assert_eq!(told.last().map(v1::Job::state), Some(JobState::Cancelled));
    assert!(told.len() < 100, "{} messages waited for a reader that read none", told.len());
    served.end().await;
}

#[tokio::test]
async fn a_watch_ends_with_its_server_and_says_to_come_back() {
    let served = Served::start().await;
    let job = served.job(spec("plain")).await;
    let mut watch = Watch::open(&served, &job.id).await;
    assert_eq!(watch.state().await, JobState::Queued);
    served.end().await;
    assert_eq!(no(watch.next().await), (Code::Unavailable, "NOT_LEADER".to_owned()));
}

#[tokio::test]
async fn a_job_that_is_deleted_under_a_watch_or_was_never_there_is_not_found() {
    let served = Served::start().await;
    let unknown = uuid::Uuid::now_v7().to_string();
    let not_found = (Code::NotFound, "JOB_NOT_FOUND".to_owned());
    assert_eq!(no(Watch::try_open(&served, &unknown).await.map(drop)), not_found);
    for id in ["", "x"] {
        assert_eq!(fields(Watch::try_open(&served, id).await.map(drop)), ["job_id"]);
    }
    served.end().await;
}

#[tokio::test]
async fn one_caller_has_a_bounded_number_of_watches_and_gets_each_back() {
    let served = Served::start().await;
    let job = served.job(spec("plain")).await;
    // As many as go over one connection at once; the bound itself is far above.
    let mut open = Vec::new();
    for _ in 0..40 {
        let mut watch = Watch::open(&served, &job.id).await;
        assert_eq!(watch.state().await, JobState::Queued);
        open.push(watch);
    }
    let cancel = v1::CancelJobRequest { job_id: job.id.clone(), ..Default::default() };
    served.jobs.clone().cancel_job(cancel).await.expect("it is live");
    for watch in &mut open {
        assert_eq!(watch.state().await, JobState::Cancelled);
        assert_eq!(watch.next().await.unwrap(), None);
    }
    served.end().await;
}

#[tokio::test]
async fn a_wait_ends_before_the_deadline_of_its_call_with_how_the_job_stands() {
    let served = Served::start().await;
    let job = served.job(spec("plain")).await;
    let wait = v1::WaitJobRequest {
        job_id: job.id.clone(),
        timeout: Some(prost_types::Duration { seconds: 600, nanos: 0 }),
    };
    let mut call = tonic::Request::new(wait);
    call.set_timeout(std::time::Duration::from_secs(4));
    let answer =
        timeout(SOON, served.jobs.clone().wait_job(call)).await.expect("in time").expect("an answer");
    let answer = answer.into_inner();
    assert!(!answer.done);
    assert_eq!(answer.job.expect("the job").state(), JobState::Queued);
    served.end().await;
}

#[tokio::test]
async fn waits_and_watches_whose_callers_went_away_keep_nobody_from_hearing_of_the_end() {
    let served = Served::start().await;
    let job = served.job(spec("plain")).await;
    for _ in 0..200 {
        let wait = v1::WaitJobRequest { job_id: job.id.clone(), timeout: None };
        let mut jobs = served.jobs.clone();
        let call = async move { jobs.wait_job(wait).await };
        // Dropped before it is answered, wherever it is by then.
        drop(timeout(std::time::Duration::from_millis(1), call).await);
        drop(Watch::open(&served, &job.id).await);
    }
    let wait = v1::WaitJobRequest { job_id: job.id.clone(), timeout: None };
    let mut jobs = served.jobs.clone();
    let mut waiting = tokio::task::JoinSet::new();
    waiting.spawn(async move { jobs.wait_job(wait).await });
    let cancel = v1::CancelJobRequest { job_id: job.id.clone(), reason: String::new() };
    served.jobs.clone().cancel_job(cancel).await.expect("it is cancelled");
    let told = timeout(SOON, waiting.join_next()).await.expect("in time").expect("one waits");
    assert!(told.expect("it ends").expect("an answer").into_inner().done);
    served.end().await;
}
