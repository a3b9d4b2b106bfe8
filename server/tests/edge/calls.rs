//! The calls of producers and operators against a real server, over a real socket.

use std::{collections::BTreeSet, time::Duration};

use tenure_proto::v1::{self, JobState};
use tonic::Code;
use tonic_types::StatusExt as _;

use crate::{
    node::Node,
    served::{FLEET, Served, fields, no, reason, spec},
};

fn id(job: &v1::Job) -> String {
    job.id.clone()
}

fn state(job: &v1::Job) -> JobState {
    JobState::try_from(job.state).expect("a known state")
}

#[tokio::test]
async fn an_enqueued_job_is_shown_with_its_kinds_policy_and_its_deferral() {
    let served = Served::start().await;
    let stored = served
        .job(v1::JobSpec {
            payload: Some(v1::Payload { data: "{}".into(), content_type: "application/json".to_owned() }),
            labels: [("team".to_owned(), "a".to_owned())].into(),
            dedupe_key: "k".to_owned(),
            ..spec("web")
        })
        .await;
    assert_eq!(state(&stored), JobState::Queued);
    let job = served.until(&stored.id, "a reason", |job| {
        job.deferral.as_ref().is_some_and(|deferral| deferral.reason != "ready")
    });
    let job = job.await;
    let deferral = job.deferral.clone().unwrap();
    assert_eq!(
        (deferral.reason.as_str(), deferral.message.as_str()),
        ("no_matching_node", "no node runs this kind")
    );
    assert!(deferral.count >= 1 && deferral.since.is_some() && !deferral.history.is_empty(), "{deferral:?}");
    let needs: Vec<_> = job.needs.clone().unwrap().slots.iter().map(|s| (s.slot.clone(), s.amount)).collect();
    assert_eq!(needs, [("api".to_owned(), 1), ("browser".to_owned(), 1)]);
    assert_eq!((job.max_failures, job.max_losses, job.attempt, job.round), (3, 3, 1, 1));
    assert_eq!((job.tenant.as_str(), job.producer.as_str(), job.payload_size), ("default", "local", 2));
    assert_eq!((job.labels["team"].as_str(), job.dedupe_held, job.root_id), ("a", true, stored.id));
    served.end().await;
}

#[tokio::test]
async fn the_same_call_twice_is_one_job_and_the_same_key_is_the_first_job() {
    let served = Served::start().await;
    let spec =
        v1::JobSpec { job_id: uuid::Uuid::now_v7().to_string(), dedupe_key: "k".to_owned(), ..spec("plain") };
    let first = served.enqueue(spec.clone()).await.unwrap();
    assert!(!first.deduplicated);
    let again = served.enqueue(spec.clone()).await.unwrap();
    assert_eq!((again.deduplicated, id(&again.job.unwrap())), (true, spec.job_id.clone()));
    let other = v1::JobSpec { job_id: String::new(), ..spec.clone() };
    let by_key = served.enqueue(other).await.unwrap();
    assert_eq!((by_key.deduplicated, id(&by_key.job.unwrap())), (true, spec.job_id.clone()));
    let reused = v1::JobSpec { dedupe_key: "other".to_owned(), ..spec };
    assert_eq!(no(served.enqueue(reused).await), (Code::AlreadyExists, "JOB_ID_REUSED".to_owned()));
    served.end().await;
}

#[tokio::test]
async fn the_trace_context_of_an_enqueue_is_kept_and_tells_no_jobs_apart() {
    const OWN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const OF_THE_CALL: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
    let served = Served::start().await;
    let call = |spec: v1::JobSpec| {
        let mut request = tonic::Request::new(v1::EnqueueRequest { job: Some(spec) });
        request.metadata_mut().insert("traceparent", OF_THE_CALL.parse().unwrap());
        request.metadata_mut().insert("tracestate", "congo=1".parse().unwrap());
        let mut jobs = served.jobs.clone();
        async move { jobs.enqueue(request).await.unwrap().into_inner() }
    };
    let traces = |job: &v1::Job| (job.traceparent.clone(), job.tracestate.clone());

    // Of the spec, if that has one: whole, or not at all.
    let id = uuid::Uuid::now_v7().to_string();
    let own = v1::JobSpec { job_id: id.clone(), traceparent: OWN.to_owned(), ..spec("plain") };
    let first = call(own).await.job.unwrap();
    assert_eq!(traces(&first), (OWN.to_owned(), String::new()));
    // The same call in another span is the same call; the first trace stays.
    let again = call(v1::JobSpec { job_id: id, ..spec("plain") }).await;
    assert!(again.deduplicated);
    assert_eq!(traces(&again.job.unwrap()), (OWN.to_owned(), String::new()));
    // Else of the call.
    let ambient = call(spec("plain")).await.job.unwrap();
    assert_eq!(traces(&ambient), (OF_THE_CALL.to_owned(), "congo=1".to_owned()));
    served.end().await;
}

#[tokio::test]
async fn one_key_from_many_callers_at_once_is_one_job() {
    let served = Served::start().await;
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..32 {
        let mut jobs = served.jobs.clone();
        callers.spawn(async move {
            let mut answers = Vec::new();
            for _ in 0..7 {
                let job = Some(v1::JobSpec { dedupe_key: "digest:2026-11-30".to_owned(), ..spec("plain") });
                answers.push(jobs.enqueue(v1::EnqueueRequest { job }).await.expect("an answer").into_inner());
            }
            answers
        });
    }
    let answers: Vec<_> = callers.join_all().await.into_iter().flatten().collect();
    let first: Vec<_> = answers.iter().filter(|answer| !answer.deduplicated).collect();
    assert_eq!((answers.len(), first.len()), (224, 1));
    let ids: BTreeSet<_> =
        answers.iter().map(|answer| answer.job.as_ref().expect("a job").id.clone()).collect();
    assert_eq!(ids.len(), 1);
    served.end().await;
}

#[tokio::test]
async fn a_full_queue_is_refused_with_everything_a_client_needs() {
    let served = Served::start().await;
    for _ in 0..2 {
        served.job(spec("capped")).await;
    }
    let status = served.enqueue(spec("capped")).await.unwrap_err();
    assert_eq!((status.code(), reason(&status).as_str()), (Code::ResourceExhausted, "QUEUE_FULL"));
    let delay = status.get_details_retry_info().unwrap().retry_delay.unwrap();
    let trailer: u128 =
        status.metadata().get("grpc-retry-pushback-ms").unwrap().to_str().unwrap().parse().unwrap();
    assert_eq!(trailer, delay.as_nanos().div_ceil(1_000_000));
    let quota = status.get_details_quota_failure().unwrap();
    assert_eq!((quota.violations[0].subject.as_str(), quota.violations[0].quota_value), ("capped", 2));
    let listed = served.jobs.clone().list_jobs(v1::ListJobsRequest::default()).await.unwrap().into_inner();
    assert_eq!(listed.jobs.len(), 2, "a refusal stores nothing");
    served.end().await;
}

#[tokio::test]
async fn a_batch_answers_each_item_with_what_a_single_call_would_say() {
    let served = Served::start().await;
    let jobs = vec![
        spec("plain"),
        spec("Plain"),
        spec("plian"),
        v1::JobSpec {
            payload: Some(v1::Payload { data: vec![0; 300_000].into(), ..Default::default() }),
            ..spec("plain")
        },
        spec("capped"),
    ];
    let response =
        served.jobs.clone().enqueue_batch(v1::EnqueueBatchRequest { jobs: jobs.clone() }).await.unwrap();
    let items = response.into_inner().items;
    let mut answers = Vec::new();
    for (item, job) in items.into_iter().zip(jobs) {
        match item.answer.unwrap() {
            v1::enqueue_batch_item::Answer::Enqueued(enqueued) => answers.push(enqueued.job.unwrap().kind),
            v1::enqueue_batch_item::Answer::Refused(refused) => {
                let single = served.enqueue(job).await.unwrap_err();
                // Only that the place in the batch is named.
                let here = format!("jobs[{}]", answers.len());
                assert_eq!(
                    (refused.code, refused.message.replacen(&here, "job", 1)),
                    (single.code().into(), single.message().to_owned())
                );
                answers.push(reason(&single));
            }
        }
    }
    assert_eq!(answers, ["plain", "INVALID_FIELD", "KIND_NOT_FOUND", "PAYLOAD_TOO_LARGE", "capped"]);
    for count in [0, 1001] {
        let jobs = vec![spec("plain"); count];
        assert_eq!(
            fields(served.jobs.clone().enqueue_batch(v1::EnqueueBatchRequest { jobs }).await),
            ["jobs"]
        );
    }
    served.end().await;
}

#[tokio::test]
async fn lists_go_from_the_newest_to_the_oldest_page_by_page() {
    let served = Served::start().await;
    let mut ids = Vec::new();
    for n in 0..7 {
        ids.push(id(&served.job(spec(if n % 2 == 0 { "plain" } else { "web" })).await));
    }
    ids.reverse();
    let mut seen = Vec::new();
    let mut request = v1::ListJobsRequest { page_size: 3, ..Default::default() };
    loop {
        let page = served.jobs.clone().list_jobs(request.clone()).await.unwrap().into_inner();
        assert!(page.jobs.len() <= 3);
        seen.extend(page.jobs.iter().map(id));
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    assert_eq!(seen, ids);

    let filtered = v1::ListJobsRequest {
        kind: "web".to_owned(),
        states: vec![JobState::Queued.into(), JobState::Queued.into()],
        tenant: "default".to_owned(),
        ..Default::default()
    };
    let page = served.jobs.clone().list_jobs(filtered.clone()).await.unwrap().into_inner();
    assert_eq!(page.jobs.len(), 3);
    assert!(page.jobs.iter().all(|job| job.deferral.is_some()));
    let none = v1::ListJobsRequest { states: vec![JobState::Dead.into()], ..filtered };
    assert!(served.jobs.clone().list_jobs(none).await.unwrap().into_inner().jobs.is_empty());
    served.end().await;
}

#[tokio::test]
async fn a_list_refuses_what_it_cannot_mean() {
    let served = Served::start().await;
    for _ in 0..2 {
        served.job(spec("plain")).await;
    }
    let one = v1::ListJobsRequest { page_size: 1, ..Default::default() };
    let token = served.jobs.clone().list_jobs(one).await.unwrap().into_inner().next_page_token;
    let wrong = v1::ListJobsRequest {
        kind: "A".to_owned(),
        states: vec![0, 77],
        parent_id: "x".to_owned(),
        workflow_id: "x".to_owned(),
        page_size: -1,
        page_token: token,
        ..Default::default()
    };
    let found = fields(served.jobs.clone().list_jobs(wrong).await);
    assert_eq!(
        found,
        ["page_size", "page_token", "states[0]", "states[1]", "kind", "parent_id", "workflow_id"]
    );
    served.end().await;
}

#[tokio::test]
async fn a_job_runs_and_its_result_and_only_attempt_are_there() {
    let served = Served::start().await;
    let mut node = Node::hello(&served.channel, "n1", &[("browser", 1)], &["web", "plain"]).await;
    let stored = served.job(spec("web")).await;
    let waiting = {
        let mut jobs = served.jobs.clone();
        let job_id = stored.id.clone();
        tokio::task::JoinSet::from_iter([async move {
            jobs.wait_job(v1::WaitJobRequest { job_id, timeout: None }).await
        }])
    };
    let grant = node.granted().await;
    node.start(&grant).await;
    let running = served.until(&stored.id, "a start", |job| job.start_time.is_some()).await;
    assert_eq!(
        (state(&running), running.node.as_str(), running.token),
        (JobState::Running, "n1", grant.token)
    );
    assert!(running.deferral.is_none());
    let early = served.jobs.clone().get_result(v1::GetResultRequest { job_id: id(&stored) }).await;
    assert_eq!(no(early), (Code::NotFound, "RESULT_NOT_FOUND".to_owned()));

    node.succeed(&grant, b"done").await;
    let waited = waiting.join_all().await.remove(0).unwrap().into_inner();
    assert_eq!((waited.done, state(&waited.job.unwrap())), (true, JobState::Succeeded));
    let result = served.jobs.clone().get_result(v1::GetResultRequest { job_id: id(&stored) }).await.unwrap();
    let result = result.into_inner().result.unwrap();
    assert_eq!(
        (&result.data[..], result.content_type.as_str(), result.token),
        (&b"done"[..], "text/plain", grant.token)
    );
    let request = v1::ListAttemptsRequest { job_id: id(&stored), ..Default::default() };
    let attempts = served.jobs.clone().list_attempts(request).await.unwrap().into_inner().attempts;
    let [attempt] = &attempts[..] else { panic!("one attempt: {attempts:?}") };
    assert_eq!((attempt.token, attempt.attempt, attempt.node.as_str()), (grant.token, 1, "n1"));
    assert_eq!(
        (attempt.outcome(), attempt.exit_code, attempt.started),
        (v1::Outcome::Succeeded, Some(0), true)
    );
    served.end().await;
}

#[tokio::test]
async fn a_job_that_failed_is_dead_with_its_attempt_and_comes_back_as_a_new_round() {
    let served = Served::start().await;
    let mut node = Node::hello(&served.channel, "n1", &[], &["capped"]).await;
    let stored = served.job(spec("capped")).await;
    let job_id = id(&stored);
    let grant = node.granted().await;
    node.start(&grant).await;
    node.fail(&grant, "it broke").await;
    let dead = served.until(&job_id, "death", |job| state(job) == JobState::Dead).await;
    assert!(dead.reason.contains("it broke"), "{}", dead.reason);
    let explained =
        served.jobs.clone().explain_job(v1::ExplainJobRequest { job_id: job_id.clone() }).await.unwrap();
    let explained = explained.into_inner();
    assert_eq!(explained.attempts.len(), 1);
    assert_eq!(explained.attempts[0].error, "it broke");
    assert_eq!(explained.attempts[0].outcome(), v1::Outcome::FailedRetryable);

    let request = v1::RequeueJobRequest { job_id: job_id.clone(), force: false };
    let requeued = served.jobs.clone().requeue_job(request.clone()).await.unwrap().into_inner();
    assert_eq!((requeued.changed, requeued.job.unwrap().round), (true, 2));
    let second = node.granted().await;
    node.start(&second).await;
    let repeated = served.jobs.clone().requeue_job(request).await.unwrap().into_inner();
    assert!(!repeated.changed, "it is not final");
    node.succeed(&second, b"").await;

    // The rounds of a job are told apart by token; pages of one attempt each show both.
    let mut tokens = Vec::new();
    let mut request =
        v1::ListAttemptsRequest { job_id: job_id.clone(), page_size: 1, page_token: String::new() };
    loop {
        let page = served.jobs.clone().list_attempts(request.clone()).await.unwrap().into_inner();
        tokens.extend(page.attempts.iter().map(|attempt| attempt.token));
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    assert_eq!(tokens, [grant.token, second.token]);
    served.end().await;
}

#[tokio::test]
async fn a_wait_that_runs_out_answers_with_the_job_as_it_stands() {
    let served = Served::start().await;
    let stored = served.job(spec("plain")).await;
    let wait = |timeout| v1::WaitJobRequest { job_id: stored.id.clone(), timeout };
    let short = Some(prost_types::Duration { seconds: 0, nanos: 1_000_000 });
    let waited = served.jobs.clone().wait_job(wait(short)).await.unwrap().into_inner();
    assert!(!waited.done);
    assert_eq!(id(&waited.job.unwrap()), stored.id);
    for (seconds, nanos) in [(601, 0), (-1, 0), (0, -1)] {
        let timeout = Some(prost_types::Duration { seconds, nanos });
        assert_eq!(fields(served.jobs.clone().wait_job(wait(timeout)).await), ["timeout"]);
    }
    served.end().await;
}

#[tokio::test]
async fn a_stopping_server_ends_waits_at_once() {
    let served = Served::start().await;
    let stored = served.job(spec("plain")).await;
    let mut jobs = served.jobs.clone();
    let request = v1::WaitJobRequest { job_id: stored.id, timeout: None };
    let mut waiting = tokio::task::JoinSet::new();
    waiting.spawn(async move { jobs.wait_job(request).await });
    // Whether the wait has begun or not: it ends with a no that says to come back.
    served.end().await;
    let status = waiting.join_next().await.unwrap().unwrap().unwrap_err();
    assert!(matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Cancelled), "{status:?}");
}

#[tokio::test]
async fn cancel_reprioritize_and_delete_say_whether_they_changed_anything() {
    let served = Served::start().await;
    let job_id = id(&served.job(spec("plain")).await);
    let mut jobs = served.jobs.clone();
    let mut priorities = Vec::new();
    for priority in [5, 5] {
        let request = v1::ReprioritizeJobRequest { job_id: job_id.clone(), priority };
        let response = jobs.reprioritize_job(request).await.unwrap().into_inner();
        priorities.push((response.job.unwrap().priority, response.changed));
    }
    assert_eq!(priorities, [(5, true), (5, false)]);
    let request = v1::ReprioritizeJobRequest { job_id: job_id.clone(), priority: 101 };
    assert_eq!(fields(jobs.reprioritize_job(request).await), ["priority"]);

    let delete = |validate_only| v1::DeleteJobRequest { job_id: job_id.clone(), validate_only };
    assert_eq!(
        no(jobs.delete_job(delete(false)).await),
        (Code::FailedPrecondition, "JOB_NOT_FINAL".to_owned())
    );
    let cancel = v1::CancelJobRequest { job_id: job_id.clone(), reason: "not wanted".to_owned() };
    let cancelled = jobs.cancel_job(cancel.clone()).await.unwrap().into_inner();
    let job = cancelled.job.unwrap();
    assert_eq!((cancelled.changed, state(&job)), (true, JobState::Cancelled));
    assert!(job.reason.contains("not wanted"), "{}", job.reason);
    assert!(!jobs.cancel_job(cancel).await.unwrap().into_inner().changed);

    jobs.delete_job(delete(true)).await.unwrap();
    assert!(served.get(&job_id).await.is_ok(), "validated only");
    jobs.delete_job(delete(false)).await.unwrap();
    assert_eq!(no(served.get(&job_id).await), (Code::NotFound, "JOB_NOT_FOUND".to_owned()));
    served.end().await;
}

#[tokio::test]
async fn an_explanation_names_the_slot_and_its_holder() {
    let served = Served::start().await;
    let mut node = Node::hello(&served.channel, "n1", &[("browser", 1)], &["web"]).await;
    let first = served.job(spec("web")).await;
    let grant = node.granted().await;
    node.start(&grant).await;
    let second = served.job(spec("web")).await;
    let job = served.until(&second.id, "a busy slot", |job| {
        job.deferral.as_ref().is_some_and(|deferral| deferral.reason == "slot_busy")
    });
    let deferral = job.await.deferral.unwrap();
    assert_eq!((&*deferral.parameters["slot"], &*deferral.parameters["used"]), ("browser", "1"));
    let explained = served
        .jobs
        .clone()
        .explain_job(v1::ExplainJobRequest { job_id: id(&second) })
        .await
        .unwrap()
        .into_inner();
    let browser = explained.slots.iter().find(|slot| slot.slot == "browser").expect("the slot that it needs");
    assert_eq!((browser.node.as_str(), browser.used, browser.capacity), ("n1", 1, 1));
    assert_eq!(browser.holders[0].job_id, first.id);
    assert!(explained.nodes.iter().any(|node| node.node == "n1" && !node.fits));
    assert_eq!(explained.summary, "It waits for 1 unit of slot browser on one node (1/1 taken on 1 node).");
    assert!(explained.remedies[0].starts_with("1 more unit of slot browser on node n1"));
    let group = &explained.node_groups[0];
    assert_eq!((group.nodes, &*group.examples[0], &*group.reason), (1, "n1", "slot_busy"));
    let total = &explained.node_slots[0];
    assert_eq!((total.nodes, total.nodes_with_room, total.used, total.capacity), (1, 0, 1, 1));
    assert_eq!(explained.line.map(|line| (line.slot, line.classes)), Some(("browser".to_owned(), 0)));
    let start = explained.start.expect("its holder has a hard time limit");
    assert!(start.latest.is_some() && start.likely.is_none() && !start.assumes.is_empty());
    served.end().await;
}

#[tokio::test]
async fn an_explanation_names_for_whom_units_are_kept_and_for_how_long() {
    let served = Served::start_empty().await;
    let fleet = "[slots]\ngpu = \"node\"\n[kinds.small]\nneeds = { gpu = 1 }\n\
                 [kinds.large]\nneeds = { gpu = 2 }\nreserve_after = \"1s\"\n";
    served.apply(fleet).await.unwrap();
    let mut node = Node::hello(&served.channel, "n1", &[("gpu", 2)], &["small", "large"]).await;
    served.job(spec("small")).await;
    let grant = node.granted().await;
    node.start(&grant).await;
    let large = served.job(spec("large")).await;
    let request = v1::ExplainJobRequest { job_id: id(&large) };
    let mut jobs = served.jobs.clone();
    let looked = tokio::time::timeout(Duration::from_secs(15), async {
        loop {
            let explained = jobs.explain_job(request.clone()).await.unwrap().into_inner();
            if let Some(earmark) = explained.earmarks.into_iter().next() {
                return earmark;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    let earmark = looked.await.expect("an earmark in time");
    assert_eq!((earmark.job_id.as_str(), earmark.node.as_str()), (large.id.as_str(), "n1"));
    let kept = earmark.slots.unwrap().slots;
    assert_eq!((kept.len(), kept[0].slot.as_str(), kept[0].amount), (1, "gpu", 2));
    assert!(earmark.by.is_some());
    let small = served.job(spec("small")).await;
    let kept_back = served.until(&small.id, "a unit that is kept", |job| {
        job.deferral.as_ref().is_some_and(|deferral| deferral.reason == "earmarked")
    });
    let deferral = kept_back.await.deferral.unwrap();
    assert_eq!((&*deferral.parameters["slot"], &*deferral.parameters["job"]), ("gpu", large.id.as_str()));
    served.end().await;
}

#[tokio::test]
async fn what_does_not_exist_is_told_with_what_is_near() {
    let served = Served::start().await;
    let status = served.enqueue(spec("plian")).await.unwrap_err();
    assert_eq!(reason(&status), "KIND_NOT_FOUND");
    assert_eq!(status.get_details_error_info().unwrap().metadata["nearest"], "plain");
    let unknown = uuid::Uuid::now_v7().to_string();
    let want = (Code::NotFound, "JOB_NOT_FOUND".to_owned());
    let mut jobs = served.jobs.clone();
    assert_eq!(no(served.get(&unknown).await), want);
    assert_eq!(no(jobs.explain_job(v1::ExplainJobRequest { job_id: unknown.clone() }).await), want);
    assert_eq!(no(jobs.wait_job(v1::WaitJobRequest { job_id: unknown.clone(), timeout: None }).await), want);
    assert_eq!(no(jobs.get_result(v1::GetResultRequest { job_id: unknown.clone() }).await), want);
    let attempts = v1::ListAttemptsRequest { job_id: unknown.clone(), ..Default::default() };
    assert_eq!(no(jobs.list_attempts(attempts).await), want);
    let cancel = v1::CancelJobRequest { job_id: unknown.clone(), ..Default::default() };
    assert_eq!(no(jobs.cancel_job(cancel).await), want);
    assert_eq!(no(jobs.requeue_job(v1::RequeueJobRequest { job_id: unknown, force: false }).await), want);
    for bad in ["", "x", "0190b5f000007000800000000000000a"] {
        assert_eq!(fields(served.get(bad).await), ["job_id"]);
    }
    served.end().await;
}

#[tokio::test]
async fn reads_and_writes_are_unavailable_while_the_store_is_away() {
    let served = Served::start().await;
    let job_id = id(&served.job(spec("plain")).await);
    served.store.set_away(true);
    let status = served.get(&job_id).await.unwrap_err();
    assert_eq!((status.code(), reason(&status).as_str()), (Code::Unavailable, "STORE_UNAVAILABLE"));
    assert!(status.get_details_retry_info().unwrap().retry_delay.unwrap() > Duration::ZERO);
    let listed = served.jobs.clone().list_jobs(v1::ListJobsRequest::default()).await;
    assert_eq!(no(listed), (Code::Unavailable, "STORE_UNAVAILABLE".to_owned()));
    let stored = served.enqueue(spec("plain")).await;
    assert_eq!(no(stored), (Code::Unavailable, "STORE_UNAVAILABLE".to_owned()));
    served.store.set_away(false);
    served.until(&job_id, "the store again", |_| true).await;
    served.end().await;
}

#[tokio::test]
async fn invariants_hold_and_the_server_says_what_it_is() {
    let served = Served::start().await;
    served.job(spec("plain")).await;
    let mut admin = served.admin.clone();
    let info = admin.get_server_info(v1::GetServerInfoRequest {}).await.unwrap().into_inner();
    assert_eq!((info.store.as_str(), info.leader, info.durability.as_str()), ("memory", true, "single"));
    assert!(info.epoch >= 1 && info.start_time.is_some() && !info.version.is_empty());
    let checked = admin.check_invariants(v1::CheckInvariantsRequest {}).await.unwrap().into_inner();
    assert_eq!(checked.violations, []);
    assert!(checked.checked.len() >= 10, "{:?}", checked.checked);
    assert_eq!(served.apply(FLEET).await.unwrap(), Vec::<String>::new(), "applying twice changes nothing");
    served.end().await;
}
