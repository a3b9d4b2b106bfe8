//! What no field by itself is: batches item by item, tokens that were forged, times finer than what is stored, very many
//! mistakes at once, slots of the fleet that a node claims.

use prost::Message as _;
use ring::digest::{SHA256, digest};
use tenure_proto::{
    node::v1::{
        Finished, FinishedOutcome, Hello, Reaped, Report, ReportKind, Reports, StoredVerdict,
        node_message::Body, report::Event, server_message,
    },
    v1::{self, enqueue_batch_item::Answer},
};
use tonic::Code;
use tonic_types::StatusExt as _;

use crate::{
    bases::hello,
    desk::{Desk, Store, fields, reason},
    sessions::Stream,
};

fn spec(kind: &str) -> v1::JobSpec {
    v1::JobSpec { kind: kind.to_owned(), ..Default::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_item_of_a_batch_is_judged_by_itself_and_named_by_its_place() {
    let desk = Desk::start(Store::Sqlite).await;
    let large = v1::Payload { data: vec![0; 262_145].into(), content_type: String::new() };
    let day = Some(prost_types::Duration { seconds: 86_400, nanos: 0 });
    let jobs = vec![
        spec("plain"),
        v1::JobSpec { priority: Some(101), tenant: "A".to_owned(), ..spec("PLAIN") },
        v1::JobSpec { payload: Some(large), ..spec("plain") },
        v1::JobSpec { hard_time_limit: day, ..spec("plain") },
        spec("plian"),
        spec("plain"),
    ];
    let response = desk.jobs().enqueue_batch(v1::EnqueueBatchRequest { jobs }).await.unwrap().into_inner();
    let mut told = Vec::new();
    for item in response.items {
        told.push(match item.answer.unwrap() {
            Answer::Enqueued(_) => String::new(),
            Answer::Refused(refused) => {
                let code = Code::from(refused.code);
                let status = tonic::Status::with_details(
                    code,
                    refused.message.clone(),
                    refused.encode_to_vec().into(),
                );
                let info = status.get_details_error_info().unwrap();
                let metadata = info.metadata.get("fields").or(info.metadata.get("field"));
                assert_eq!(metadata.map_or("", String::as_str), fields(&status).join(","));
                format!("{}: {} ({})", info.reason, refused.message, fields(&status).join(" "))
            }
        });
    }
    assert_eq!(
        told,
        [
            "",
            "INVALID_FIELD: jobs[1].kind: is no name: use 1 to 63 of a-z, 0-9, dot, underscore and hyphen (and 2 more) \
             (jobs[1].kind jobs[1].tenant jobs[1].priority)",
            "PAYLOAD_TOO_LARGE: the jobs[2].payload.data of 262145 bytes is over the limit of 262144 bytes: store it \
             yourself and send a reference (jobs[2].payload.data)",
            "INVALID_FIELD: jobs[3].hard_time_limit: may only shorten the kind's, which is 3600 s \
             (jobs[3].hard_time_limit)",
            "KIND_NOT_FOUND: kind plian is not declared ()",
            "",
        ]
    );
    desk.end().await;
}

/// A token of the right form for these filters, with any place behind it.
fn forged(method: &str, request: &impl prost::Message, place: &[u8]) -> String {
    let bound = digest(&SHA256, &[method.as_bytes(), &[0], &request.encode_to_vec()].concat());
    let bytes = [&[1], &bound.as_ref()[..8], place].concat();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn forged_tokens(store: Store) {
    let desk = Desk::start(store).await;
    let job_id = desk.enqueue(spec("plain")).await.id;
    for at in [i64::MIN, i64::MIN + 1, -1, 0, i64::MAX - 1, i64::MAX] {
        for id in [[0; 16], [0xff; 16]] {
            let request = v1::ListJobsRequest::default();
            let page_token = forged("ListJobs", &request, &[&at.to_be_bytes()[..], &id].concat());
            let answer = desk.jobs().list_jobs(v1::ListJobsRequest { page_token, ..request }).await;
            assert!(answer.is_ok(), "{at}: {answer:?}");
        }
    }
    for token in [0, 1, i64::MAX as u64, 1 << 63, u64::MAX] {
        let request = v1::ListAttemptsRequest { job_id: job_id.clone(), ..Default::default() };
        let page_token = forged("ListAttempts", &request, &token.to_be_bytes());
        let answer = desk.jobs().list_attempts(v1::ListAttemptsRequest { page_token, ..request }).await;
        assert!(answer.is_ok(), "{token}: {answer:?}");
    }
    desk.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_behind_any_place_is_a_page_on_sqlite() {
    forged_tokens(Store::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_behind_any_place_is_a_page_on_postgres() {
    forged_tokens(Store::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn times_are_kept_in_whole_microseconds_from_the_first_answer_on() {
    let desk = Desk::start(Store::Sqlite).await;
    let fine = Some(prost_types::Duration { seconds: 1, nanos: 999_999_999 });
    let run_at = Some(prost_types::Timestamp { seconds: 4_102_444_800, nanos: 1_999 });
    let job = v1::JobSpec { hard_time_limit: fine, run_at, ..spec("plain") };
    let stored = desk.enqueue(job).await;
    let limit = stored.hard_time_limit.unwrap();
    assert_eq!((limit.seconds, limit.nanos), (1, 999_999_000));
    assert_eq!(stored.run_at.unwrap().nanos, 1_000);
    // The list comes from the store.
    let listed = desk.jobs().list_jobs(v1::ListJobsRequest::default()).await.unwrap().into_inner().jobs;
    assert_eq!((listed[0].hard_time_limit, listed[0].run_at), (stored.hard_time_limit, stored.run_at));
    let finer = "[kinds.plain]\nlease = \"10s 1ns\"\n".to_owned();
    let refused = desk.fleet().apply(v1::ApplyRequest { fleet: finer, validate_only: false }).await;
    let status = refused.expect_err("finer than what is stored");
    assert!(status.message().contains("line 2: kinds.plain.lease: must be whole microseconds"), "{status:?}");
    desk.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_very_many_mistakes_the_first_are_told_and_how_many_more() {
    let desk = Desk::start(Store::Sqlite).await;
    let fleet: String = (0..5_000).map(|n| format!("[kinds.\"K{n}\"]\n")).collect();
    let status = desk.fleet().apply(v1::ApplyRequest { fleet, validate_only: true }).await.unwrap_err();
    assert_eq!(reason(&status), Some((Code::InvalidArgument, "INVALID_FIELD".to_owned())));
    let bad = status.get_details_bad_request().unwrap().field_violations;
    assert!(bad[0].description.starts_with("line 1: kinds.K0: is no name"), "{bad:?}");
    let told = bad.len() - 1;
    assert!((5..100).contains(&told), "{told} are told");
    assert_eq!(bad[told].description, format!("and {} more", 5_000 - told));
    // What clients take in all of a call's trailers.
    assert!(status.details().len() * 4 / 3 + status.message().len() < 7_000, "{}", status.details().len());
    let long = format!("[kinds.plain]\ndedupe = \"{}\"", "x".repeat(500_000));
    let status = desk.fleet().apply(v1::ApplyRequest { fleet: long, validate_only: true }).await.unwrap_err();
    assert!(status.message().len() < 1_000, "{}", status.message().len());
    desk.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_would_orphan_very_much_is_refused_with_the_first_of_it() {
    let desk = Desk::start(Store::Sqlite).await;
    let kind = |n| format!("{n:0>60}");
    let fleet = (0..300).map(|n| format!("[kinds.\"{}\"]\n", kind(n))).collect();
    desk.fleet().apply(v1::ApplyRequest { fleet, validate_only: false }).await.unwrap();
    let jobs = (0..300).map(|n| spec(&kind(n))).collect();
    desk.jobs().enqueue_batch(v1::EnqueueBatchRequest { jobs }).await.unwrap();
    let none = v1::ApplyRequest { fleet: crate::desk::FLEET.to_owned(), validate_only: false };
    let status = desk.fleet().apply(none.clone()).await.unwrap_err();
    assert_eq!(reason(&status), Some((Code::FailedPrecondition, "FLEET_CONFLICT".to_owned())));
    assert_eq!(status.get_details_error_info().unwrap().metadata["conflicts"], "300");
    // So that the kind of the last check is there.
    let fleet: String =
        (0..300).map(|n| format!("[kinds.\"{}\"]\n", kind(n))).chain(["[kinds.plain]\n".into()]).collect();
    desk.fleet().apply(v1::ApplyRequest { fleet, validate_only: false }).await.unwrap();
    desk.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_of_the_fleet_that_a_node_claims_is_a_warning_and_no_capacity() {
    let desk = Desk::start(Store::Sqlite).await;
    let mut stream = Stream::open(&desk).await;
    let slots =
        [("api", 1_000_000), ("browser", 1), ("no_such", 5)].map(|(slot, n)| (slot.to_owned(), n)).into();
    let claims = Hello { slots, pressure: None, held: Vec::new(), unstored: Vec::new(), ..hello("n1", 1) };
    stream.say(Body::Hello(claims)).await;
    let Ok(server_message::Body::Welcome(welcome)) = stream.hear().await else { panic!("no welcome") };
    for slot in ["api", "no_such"] {
        assert!(welcome.warnings.iter().any(|warning| warning.contains(slot)), "{:?}", welcome.warnings);
    }
    let listed = desk.fleet().list_slots(v1::ListSlotsRequest {}).await.unwrap().into_inner().slots;
    let found: Vec<_> =
        listed.iter().map(|slot| (slot.name.as_str(), slot.per_node, slot.capacity)).collect();
    assert_eq!(found, [("api", false, 2), ("browser", true, 1)]);
    desk.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_about_leases_that_never_were_change_nothing_and_are_answered() {
    let desk = Desk::start(Store::Sqlite).await;
    let job_id = desk.enqueue(spec("plain")).await.id;
    let before = desk.standing(&[&job_id]).await;
    let mut stream = Stream::open(&desk).await;
    let empty =
        Hello { pressure: None, held: Vec::new(), unstored: Vec::new(), kinds: Vec::new(), ..hello("n1", 1) };
    stream.say(Body::Hello(empty)).await;
    stream.welcomed().await;
    let finished = Finished { outcome: FinishedOutcome::Succeeded.into(), ..Default::default() };
    let mut reports = Vec::new();
    for (job_id, token) in
        [(job_id.clone(), 1), (job_id.clone(), i64::MAX as u64), (uuid::Uuid::now_v7().to_string(), 7)]
    {
        for event in [Event::Finished(finished.clone()), Event::Reaped(Reaped {})] {
            reports.push(Report { job_id: job_id.clone(), token, event: Some(event) });
        }
    }
    let count = reports.len();
    stream.say(Body::Reports(Reports { reports })).await;
    let mut verdicts = Vec::new();
    while verdicts.len() < count {
        if let Ok(server_message::Body::Stored(stored)) = stream.hear().await {
            verdicts.extend(stored.answers.into_iter().map(|answer| (answer.report(), answer.verdict())));
        }
    }
    // A tree that is gone is gone, whoever's it was.
    let pair =
        [(ReportKind::Finished, StoredVerdict::LeaseLost), (ReportKind::Reaped, StoredVerdict::Stored)];
    assert_eq!(verdicts, pair.repeat(3));
    assert_eq!(stream.beat(Vec::new()).await.expect("the session goes on"), Vec::<u64>::new());
    let standing = desk.standing(&[&job_id]).await;
    assert!(standing.starts_with(before.split('\n').next().unwrap()), "{before}\n{standing}");
    desk.end().await;
}

async fn requeue_beside_a_kept_key(store: Store) {
    let desk = Desk::start(store).await;
    let dedupe = async |policy: &str| {
        let fleet = format!("{}[kinds.k]\ndedupe = \"{policy}\"\n", crate::desk::FLEET);
        desk.fleet().apply(v1::ApplyRequest { fleet, validate_only: false }).await.expect("a fleet file");
    };
    let ended = async || {
        let job_id = desk.enqueue(v1::JobSpec { dedupe_key: "x".to_owned(), ..spec("k") }).await.id;
        let cancel = v1::CancelJobRequest { job_id: job_id.clone(), ..Default::default() };
        desk.jobs().cancel_job(cancel).await.expect("it is cancelled");
        job_id
    };
    dedupe("live").await;
    let first = ended().await;
    dedupe("retained").await;
    let second = ended().await;
    assert_ne!(first, second);
    dedupe("live").await;
    let requeue = v1::RequeueJobRequest { job_id: first, force: false };
    let requeued = desk.jobs().requeue_job(requeue).await.expect("it is requeued").into_inner();
    assert!(requeued.changed && requeued.job.is_some_and(|job| !job.dedupe_held));
    desk.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_requeued_beside_one_that_kept_its_key_on_sqlite() {
    requeue_beside_a_kept_key(Store::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_requeued_beside_one_that_kept_its_key_on_postgres() {
    requeue_beside_a_kept_key(Store::Postgres).await;
}
