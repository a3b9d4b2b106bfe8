//! The answer of work that is done once, against a server that answers by script: what is read, and what is made of a no.

use std::time::Duration;

use ring::digest::{SHA256, digest};
use tenure_client::proto::{
    EnqueueRequest, EnqueueResponse, GetResultResponse, Job, JobState, ReadResultRequest, ReadResultResponse,
    ResultHead, WaitJobResponse, read_result_response::Part,
};
use tenure_client::{NewJob, ONCE_MOST_BYTES, Once, OnceError, proto};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::fake::{Answer, Fake};
use crate::{client, stored};

const PATIENT: Duration = Duration::from_secs(30);
/// One that `GetResult` refuses.
const LARGE: usize = 600 * 1024;

fn job() -> NewJob {
    NewJob::new("charge").payload("5 EUR").dedupe_key("order:1")
}

/// A server that has done the job, and answers so when its result is read.
async fn done(job: &NewJob, read: Vec<Answer>, inline: Answer) -> Fake {
    asked(&stored(job.id(), false), job, read, inline).await
}

/// As that, which was enqueued with this answer.
async fn asked(enqueued: &EnqueueResponse, job: &NewJob, read: Vec<Answer>, inline: Answer) -> Fake {
    let over = Job { id: job.id().to_owned(), state: JobState::Succeeded.into(), ..Job::default() };
    let over = WaitJobResponse { job: Some(over), done: true };
    Fake::start([
        ("JobService/Enqueue", vec![Answer::ok(enqueued)]),
        ("JobService/WaitJob", vec![Answer::ok(&over)]),
        ("JobService/ReadResult", read),
        ("JobService/GetResult", vec![inline]),
    ])
    .await
}

fn head(size: usize, data: &[u8]) -> ReadResultResponse {
    let sha256 = digest(&SHA256, data).as_ref().to_vec().into();
    let content_type = "text/plain".to_owned();
    let head = ResultHead { size: size as u64, sha256, content_type, partial: true, ..ResultHead::default() };
    ReadResultResponse { part: Some(Part::Head(head)) }
}

fn pieces(data: &[u8]) -> Vec<ReadResultResponse> {
    let pieces = data.chunks(256 * 1024).map(|piece| Part::Data(piece.to_vec().into()));
    let pieces = pieces.map(|part| ReadResultResponse { part: Some(part) });
    [head(data.len(), data)].into_iter().chain(pieces).collect()
}

fn no(code: Code, reason: &str, told: &[(&str, &str)]) -> Status {
    let mut details = ErrorDetails::new();
    let told = told.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    details.set_error_info(reason, "tenure", told.collect::<std::collections::HashMap<_, _>>());
    Status::with_error_details(code, "no", details)
}

fn too_large() -> Answer {
    Answer::No(no(Code::FailedPrecondition, "RESULT_TOO_LARGE", &[]))
}

async fn ask(fake: &Fake, job: &NewJob) -> Result<Once, OnceError> {
    client(fake, PATIENT).once(job, Some(PATIENT)).await
}

#[tokio::test]
async fn an_answer_of_any_size_comes_whole_over_a_connection_that_breaks() {
    let data: Vec<u8> = (0..=250).cycle().take(LARGE).collect();
    let all = pieces(&data);
    let away = || Some(no(Code::Unavailable, "STORE_UNAVAILABLE", &[]));
    let read = vec![
        Answer::stream(&all[..2], away()),
        Answer::stream(&[] as &[ReadResultResponse], away()),
        Answer::stream(&all, None),
    ];
    let job = job();
    let fake = done(&job, read, too_large()).await;
    let once = ask(&fake, &job).await.unwrap();
    assert!(once.data == data, "{} bytes", once.data.len());
    assert_eq!((once.content_type.as_str(), once.partial, once.replayed), ("text/plain", true, false));
    assert_eq!(fake.sent::<ReadResultRequest>("JobService/ReadResult").len(), 3);
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_told_with_its_size_and_a_break_that_lasts_is_told() {
    let job = job();
    let size = usize::try_from(ONCE_MOST_BYTES).unwrap() + 1;
    let fake = done(&job, vec![Answer::stream(&[head(size, b"")], None)], too_large()).await;
    match ask(&fake, &job).await {
        Err(OnceError::TooLarge { job: it, size: told }) => {
            assert_eq!((it.id.as_str(), told), (job.id(), size as u64));
        }
        other => panic!("{other:?}"),
    }
    let breaks = Answer::stream(&[head(1, b"x")], Some(no(Code::Unavailable, "STORE_UNAVAILABLE", &[])));
    let fake = done(&job, vec![breaks], too_large()).await;
    assert!(matches!(ask(&fake, &job).await, Err(OnceError::Call(_))));
}

#[tokio::test]
async fn an_older_server_is_asked_as_before_and_nothing_is_an_answer() {
    let job = job();
    let result = proto::Result { data: "done".into(), ..proto::Result::default() };
    let inline = Answer::ok(&GetResultResponse { result: Some(result) });
    let unknown = || vec![Answer::No(Status::unimplemented("no such method"))];
    let fake = done(&job, unknown(), inline).await;
    assert_eq!(ask(&fake, &job).await.unwrap().data, "done");
    let nothing = || Answer::No(no(Code::NotFound, "RESULT_NOT_FOUND", &[]));
    for fake in [done(&job, vec![nothing()], too_large()).await, done(&job, unknown(), nothing()).await] {
        assert_eq!(ask(&fake, &job).await.unwrap().data, "");
    }
    // Who comes later cannot know that there was none, if nobody noted it.
    let fake = done(&job, vec![nothing()], too_large()).await;
    ask(&fake, &job).await.unwrap();
    let labels = fake.sent::<EnqueueRequest>("JobService/Enqueue").remove(0).job.unwrap_or_default().labels;
    let state = JobState::Succeeded.into();
    let before = Job { id: job.id().to_owned(), kind: "charge".to_owned(), labels, state, ..Job::default() };
    let before = EnqueueResponse { job: Some(before), deduplicated: true };
    let fake = asked(&before, &job, vec![nothing()], too_large()).await;
    assert!(matches!(ask(&fake, &job).await, Err(OnceError::Forgotten { .. })));
    // Unless the server has noted it.
    let noted = Answer::No(no(Code::NotFound, "RESULT_NOT_FOUND", &[("left_nothing", "true")]));
    let fake = asked(&before, &job, vec![noted], too_large()).await;
    assert_eq!(ask(&fake, &job).await.unwrap().data, "");
    let gone = Answer::No(no(Code::NotFound, "RESULT_NOT_FOUND", &[("expired", "true")]));
    let fake = done(&job, vec![gone], too_large()).await;
    assert!(matches!(ask(&fake, &job).await, Err(OnceError::Forgotten { .. })));
}

#[tokio::test]
async fn a_label_once_of_the_callers_own_is_not_overwritten() {
    let job = job().label("once", "mine");
    let fake = done(&job, Vec::new(), too_large()).await;
    assert!(matches!(ask(&fake, &job).await, Err(OnceError::OwnLabel)));
    assert!(fake.sent::<EnqueueRequest>("JobService/Enqueue").is_empty());
}
