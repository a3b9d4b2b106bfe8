//! The real binary against a server that answers by script: exit codes, stdout and stderr.

#[path = "../../client/tests/support/fake.rs"]
mod fake;
#[path = "commands/named.rs"]
mod named;

use std::process::{Output, Stdio};
use std::time::Duration;

use fake::{Answer, Fake};
use tenure_proto::v1::{
    ApplyRequest, ApplyResponse, CheckInvariantsResponse, DeferralShare, DeleteJobRequest, EnqueueBatchItem,
    EnqueueBatchRequest, EnqueueBatchResponse, EnqueueRequest, EnqueueResponse, ExplainJobResponse,
    GetJobResponse, GetQueueHealthResponse, GetServerInfoResponse, InvariantViolation, Job, JobState, Kind,
    KindHealth, ListJobsRequest, ListJobsResponse, ListKindsResponse, RequeueJobRequest, RequeueJobResponse,
    WaitJobResponse, WatchJobResponse, enqueue_batch_item,
};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// A whole id, which is not looked up.
const ID: &str = "01990000-0000-7000-8000-000000000000";

/// Runs `tenure ARGS` with nothing but a search path in its environment, and `input` on stdin.
async fn tenure(fake: &Fake, args: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tenure"))
        .args(args)
        .env_clear()
        .env("TENURE_SERVER", fake.endpoint())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("the binary starts");
    let mut stdin = child.stdin.take().expect("stdin is a pipe");
    // A command that reads no stdin may be gone already.
    stdin.write_all(input.as_bytes()).await.unwrap_or_default();
    drop(stdin);
    tokio::time::timeout(Duration::from_secs(30), child.wait_with_output())
        .await
        .expect("it ends in time")
        .expect("it can be waited for")
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("it exits")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}

fn no(code: Code, reason: &str, retry_after: Option<Duration>) -> Answer {
    let mut details = ErrorDetails::new();
    details.set_error_info(reason, "tenure", [("nearest".to_owned(), "site.qa".to_owned())]);
    if retry_after.is_some() {
        details.set_retry_info(retry_after);
    }
    Answer::No(Status::with_error_details(code, "it cannot be done", details))
}

fn job(id: &str, state: JobState) -> Job {
    Job { id: id.to_owned(), kind: "site.qa".to_owned(), state: state.into(), attempt: 1, ..Job::default() }
}

#[tokio::test]
async fn an_enqueued_job_is_its_id_on_stdout_and_nothing_else() {
    let answer = EnqueueResponse { job: Some(job(ID, JobState::Queued)), deduplicated: true };
    let fake = Fake::start([("JobService/Enqueue", vec![Answer::ok(&answer)])]).await;
    let args = ["enqueue", "site.qa", "-", "--priority", "-7", "--dedupe-key", "a", "--need", "browser=2"];
    let output = tenure(&fake, &args, "from stdin").await;
    assert_eq!((code(&output), stdout(&output).as_str()), (0, "01990000-0000-7000-8000-000000000000\n"));
    assert!(stderr(&output).contains("deduplicated"), "{}", stderr(&output));
    let sent = fake.sent::<EnqueueRequest>("JobService/Enqueue");
    let spec = sent[0].job.as_ref().unwrap();
    assert_eq!(spec.payload.as_ref().unwrap().data.as_ref(), b"from stdin");
    assert_eq!((spec.priority, spec.dedupe_key.as_str(), spec.job_id.len()), (Some(-7), "a", 36));
    assert_eq!(spec.needs.as_ref().unwrap().slots[0].amount, 2);
}

#[tokio::test]
async fn a_full_queue_exits_75_and_tells_programs_when_to_come_back() {
    let full = no(Code::ResourceExhausted, "QUEUE_FULL", Some(Duration::from_secs(600)));
    let fake = Fake::start([("JobService/Enqueue", vec![full])]).await;
    let output = tenure(&fake, &["enqueue", "site.qa", "--json"], "").await;
    assert_eq!((code(&output), stderr(&output).as_str()), (75, ""));
    let object: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((&object["refused"], &object["retry_after_s"]), (&"QUEUE_FULL".into(), &600.into()));

    let output = tenure(&fake, &["enqueue", "site.qa"], "").await;
    assert_eq!((code(&output), stdout(&output).as_str()), (75, ""));
    assert!(stderr(&output).contains("retry_after: 10m"), "{}", stderr(&output));
}

/// What became of each job of a batch.
fn batch(answers: impl IntoIterator<Item = enqueue_batch_item::Answer>) -> Answer {
    let items = answers.into_iter().map(|answer| EnqueueBatchItem { answer: Some(answer) }).collect();
    Answer::ok(&EnqueueBatchResponse { items })
}

fn full(retry_after: Duration) -> enqueue_batch_item::Answer {
    let mut details = ErrorDetails::new();
    details.set_error_info("QUEUE_FULL", "tenure", []).set_retry_info(Some(retry_after));
    let status = Status::with_error_details(Code::ResourceExhausted, "the queue is full", details);
    // The details of a status are an encoded google.rpc.Status.
    enqueue_batch_item::Answer::Refused(prost::Message::decode(status.details()).expect("a status"))
}

#[tokio::test]
async fn a_line_that_is_refused_for_now_is_tried_again_in_time() {
    let stored = || {
        enqueue_batch_item::Answer::Enqueued(EnqueueResponse {
            job: Some(job(ID, JobState::Queued)),
            deduplicated: false,
        })
    };
    let soon = Duration::from_millis(30);
    let fake = Fake::start([(
        "JobService/EnqueueBatch",
        vec![batch([full(soon), stored()]), batch([full(soon)]), batch([stored()])],
    )])
    .await;
    let file = "{\"kind\":\"a\"}\n{\"kind\":\"b\"}\n";
    let output = tenure(&fake, &["enqueue", "--file", "-", "-o", "name"], file).await;
    assert_eq!((code(&output), stdout(&output).lines().count()), (0, 2), "{}", stderr(&output));
    let sent = fake.sent::<EnqueueBatchRequest>("JobService/EnqueueBatch");
    let kinds: Vec<Vec<&str>> =
        sent.iter().map(|batch| batch.jobs.iter().map(|job| job.kind.as_str()).collect()).collect();
    assert_eq!(kinds, [vec!["a", "b"], vec!["a"], vec!["a"]]);
    assert_eq!(sent[0].jobs[0].job_id, sent[2].jobs[0].job_id);

    // Later than the command waits: it is told, with when to come back.
    let fake =
        Fake::start([("JobService/EnqueueBatch", vec![batch([full(Duration::from_secs(600))])])]).await;
    let output = tenure(&fake, &["enqueue", "--file", "-", "--retry-for", "1s"], "{\"kind\":\"a\"}\n").await;
    assert_eq!(code(&output), 75);
    assert!(
        stderr(&output).contains("line 1: the queue is full (QUEUE_FULL); retry_after: 10m"),
        "{}",
        stderr(&output)
    );
}

#[tokio::test]
async fn a_server_that_stays_away_ends_a_file_with_the_command_that_goes_on() {
    let away = no(Code::Unavailable, "STORE_UNAVAILABLE", None);
    let fake = Fake::start([("JobService/EnqueueBatch", vec![away])]).await;
    let args = ["enqueue", "--file", "-", "--retry-for", "0s"];
    let output = tenure(&fake, &args, &"{\"kind\":\"a\"}\n".repeat(3_000)).await;
    assert_eq!(code(&output), 69, "{}", stderr(&output));
    assert!(
        stderr(&output).contains("3000 not sent") || stderr(&output).contains("not sent"),
        "{}",
        stderr(&output)
    );
    assert!(stderr(&output).contains("next: the same command with --run"), "{}", stderr(&output));
}

#[tokio::test]
async fn the_same_answer_comes_as_a_table_a_wide_one_yaml_or_names() {
    let kinds = ListKindsResponse {
        kinds: vec![
            Kind { name: "site.qa".to_owned(), max_losses: 7, ..Kind::default() },
            Kind { name: "b\u{1b}[2J".to_owned(), ..Kind::default() },
        ],
    };
    let fake = Fake::start([("FleetService/ListKinds", vec![Answer::ok(&kinds)])]).await;
    let shown = async |form| stdout(&tenure(&fake, &["kind", "list", "-o", form], "").await);
    let table = shown("table").await;
    assert!(!table.contains("LOSSES") && !table.contains('\u{1b}'), "{table}");
    let wide = shown("wide").await;
    assert!(wide.contains("LOSSES") && wide.contains("b\\u{1b}[2J"), "{wide}");
    assert_eq!(shown("name").await, "site.qa\nb\\u{1b}[2J\n");
    let yaml = shown("yaml").await;
    assert!(yaml.starts_with("---\nkinds:\n  -\n    maxLosses: 7\n    name: site.qa\n"), "{yaml}");
}

#[tokio::test]
async fn every_kind_of_no_has_its_exit_code() {
    for (grpc, reason, exit) in [
        (Code::NotFound, "JOB_NOT_FOUND", 3),
        (Code::InvalidArgument, "INVALID_FIELD", 64),
        (Code::PermissionDenied, "PERMISSION_DENIED", 77),
        (Code::FailedPrecondition, "JOB_FINAL", 1),
        (Code::Unavailable, "STORE_UNAVAILABLE", 69),
    ] {
        let fake = Fake::start([("JobService/GetJob", vec![no(grpc, reason, None)])]).await;
        let output = tenure(&fake, &["job", "get", ID, "--retry-for", "0s"], "").await;
        assert_eq!(code(&output), exit, "{reason}");
        assert!(stderr(&output).contains(reason), "{}", stderr(&output));
        assert!(stderr(&output).contains("did you mean: site.qa"), "{}", stderr(&output));
    }
}

#[tokio::test]
async fn a_job_that_has_ended_still_tells_what_it_waited_for() {
    let share = DeferralShare {
        reason: "node_pressure".to_owned(),
        message: "uid_procs on mini-1".to_owned(),
        count: 38,
        duration: Some(prost_types::Duration { seconds: 1_500, nanos: 0 }),
    };
    let ended = Job { waits: vec![share], ..job("x", JobState::Succeeded) };
    let explained = ExplainJobResponse { job: Some(ended.clone()), ..ExplainJobResponse::default() };
    let fake = Fake::start([
        ("JobService/GetJob", vec![Answer::ok(&GetJobResponse { job: Some(ended) })]),
        ("JobService/ExplainJob", vec![Answer::ok(&explained)]),
    ])
    .await;
    for (verb, words) in [
        ("get", "deferred 38 times: 25m uid_procs on mini-1"),
        ("explain", "deferred 38 times: 25m uid_procs on mini-1"),
        ("explain", "25m      38  uid_procs on mini-1"),
    ] {
        let output = tenure(&fake, &["job", verb, ID], "").await;
        assert_eq!(code(&output), 0);
        assert!(stdout(&output).contains(words), "{}", stdout(&output));
    }
    let output = tenure(&fake, &["job", "get", ID, "-o", "json"], "").await;
    let object: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(object["job"]["waits"][0]["count"], "38");
}

#[tokio::test]
async fn nobody_listening_is_69_with_the_next_step() {
    let fake = Fake::start([]).await;
    // Port 1 of the loopback interface: nothing listens there.
    let args = ["--server", "127.0.0.1:1", "--retry-for", "300ms", "health"];
    let output = tenure(&fake, &args, "").await;
    assert_eq!(code(&output), 69);
    assert!(stderr(&output).contains("tenure up"), "{}", stderr(&output));
}

#[tokio::test]
async fn a_wait_exits_with_what_became_of_the_job() {
    for (state, done, exit) in [
        (JobState::Succeeded, true, 0),
        (JobState::Dead, true, 1),
        (JobState::Cancelled, true, 1),
        (JobState::Running, false, 124),
    ] {
        let answer = WaitJobResponse { job: Some(job(ID, state)), done };
        let fake = Fake::start([("JobService/WaitJob", vec![Answer::ok(&answer)])]).await;
        let output = tenure(&fake, &["job", "wait", ID, "--timeout", "10ms"], "").await;
        assert_eq!(code(&output), exit, "{state:?}");
    }
}

#[tokio::test]
async fn a_watch_prints_a_line_per_change_and_exits_with_what_became_of_the_job() {
    let at = |version, state, reason: &str| WatchJobResponse {
        job: Some(Job { version, reason: reason.to_owned(), ..job(ID, state) }),
    };
    let changes =
        [at(1, JobState::Queued, ""), at(2, JobState::Running, ""), at(3, JobState::Dead, "boom\u{1b}[2J")];
    let fake = Fake::start([("JobService/WatchJob", vec![Answer::stream(&changes, None)])]).await;
    let output = tenure(&fake, &["job", "watch", ID], "").await;
    let text = stdout(&output);
    assert_eq!((code(&output), text.lines().count()), (1, 3), "{text}");
    assert!(text.ends_with(": boom\\u{1b}[2J\n"), "{text}");
    let output = tenure(&fake, &["job", "watch", ID, "--json"], "").await;
    let last: serde_json::Value = serde_json::from_str(stdout(&output).lines().last().unwrap()).unwrap();
    assert_eq!(last["job"]["version"], "3");
}

#[tokio::test]
async fn json_is_canonical_and_tables_are_plain_off_a_terminal() {
    let mut running = job(ID, JobState::Running);
    running.token = 1 << 40;
    let fake =
        Fake::start([("JobService/GetJob", vec![Answer::ok(&GetJobResponse { job: Some(running) })])]).await;
    let output = tenure(&fake, &["-o", "json", "job", "get", ID], "").await;
    let object: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(object["job"]["state"], "JOB_STATE_RUNNING");
    assert_eq!(object["job"]["token"], "1099511627776");
    let output = tenure(&fake, &["job", "get", ID], "").await;
    assert!(!stdout(&output).contains('\u{1b}'));
    assert!(stdout(&output).contains("running"));
}

#[tokio::test]
async fn a_flag_of_the_environment_gives_way_to_the_command_line() {
    let fake =
        Fake::start([("FleetService/ListKinds", vec![Answer::ok(&ListKindsResponse::default())])]).await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
    command.env("TENURE_SERVER", fake.endpoint()).env("TENURE_OUTPUT", "json").env("TENURE_JSON", "no");
    let json = command.args(["kind", "list"]).output().await.unwrap();
    assert_eq!(stdout(&json).trim(), "{}");
    let table = command.args(["-o", "table"]).output().await.unwrap();
    assert_eq!(stdout(&table), "");
}

#[tokio::test]
async fn an_unknown_kind_is_3_and_names_those_that_are() {
    let kinds = ListKindsResponse { kinds: vec![Kind { name: "site.qa".to_owned(), ..Kind::default() }] };
    let fake = Fake::start([("FleetService/ListKinds", vec![Answer::ok(&kinds)])]).await;
    let output = tenure(&fake, &["kind", "get", "site.q"], "").await;
    assert_eq!(code(&output), 3);
    assert!(stderr(&output).contains("site.qa"), "{}", stderr(&output));
}

#[tokio::test]
async fn a_fleet_file_comes_from_stdin_and_a_missing_one_is_bad_input() {
    let answer = ApplyResponse { changes: vec!["kind site.qa: added".to_owned()] };
    let fake = Fake::start([("FleetService/Apply", vec![Answer::ok(&answer)])]).await;
    let output = tenure(&fake, &["apply", "-", "--dry-run"], "[kinds]").await;
    assert_eq!((code(&output), stdout(&output).as_str()), (0, "kind site.qa: added\n"));
    let sent = fake.sent::<ApplyRequest>("FleetService/Apply");
    assert_eq!((sent[0].fleet.as_str(), sent[0].validate_only), ("[kinds]", true));
    assert_eq!(code(&tenure(&fake, &["apply", "no-such-file.toml"], "").await), 64);
}

#[tokio::test]
async fn a_bulk_verb_needs_a_filter_and_an_answer() {
    let dead = ListJobsResponse {
        jobs: vec![job("a", JobState::Dead), job("b", JobState::Dead)],
        next_page_token: String::new(),
    };
    let requeued = RequeueJobResponse { job: Some(job("a", JobState::Queued)), changed: true };
    let fake = Fake::start([
        ("JobService/ListJobs", vec![Answer::ok(&dead)]),
        ("JobService/RequeueJob", vec![Answer::ok(&requeued)]),
    ])
    .await;
    let calls = || fake.sent::<RequeueJobRequest>("JobService/RequeueJob").len();

    assert_eq!(code(&tenure(&fake, &["dead", "requeue", "--yes"], "").await), 2, "no filter");
    assert_eq!(code(&tenure(&fake, &["dead", "requeue", "--all"], "y\n").await), 2, "nobody to ask");
    let output = tenure(&fake, &["dead", "requeue", "--all", "--dry-run"], "").await;
    assert_eq!((code(&output), stdout(&output).contains("2 dead letters would be requeued")), (0, true));
    assert_eq!(calls(), 0);

    let output = tenure(&fake, &["dead", "requeue", "--kind", "site.qa", "--yes"], "").await;
    assert_eq!((code(&output), calls()), (0, 2));
    let filter = fake.sent::<ListJobsRequest>("JobService/ListJobs").pop().unwrap();
    assert_eq!((filter.kind.as_str(), filter.states), ("site.qa", vec![JobState::Dead.into()]));
}

#[tokio::test]
async fn a_purge_goes_on_after_a_failure_and_reports_it() {
    let dead = ListJobsResponse {
        jobs: vec![job("a", JobState::Dead), job("b", JobState::Dead), job("c", JobState::Dead)],
        next_page_token: String::new(),
    };
    let gone = no(Code::NotFound, "JOB_NOT_FOUND", None);
    let deleted = tenure_proto::v1::DeleteJobResponse { job: Some(job("a", JobState::Dead)) };
    let still = GetJobResponse { job: Some(job("a", JobState::Dead)) };
    let fake = Fake::start([
        ("JobService/ListJobs", vec![Answer::ok(&dead)]),
        ("JobService/GetJob", vec![Answer::ok(&still)]),
        ("JobService/DeleteJob", vec![gone, Answer::ok(&deleted)]),
    ])
    .await;
    let output = tenure(&fake, &["dead", "purge", "--all", "--yes", "--json"], "").await;
    assert_eq!(code(&output), 3);
    assert_eq!(fake.sent::<DeleteJobRequest>("JobService/DeleteJob").len(), 3);
    let text = stdout(&output);
    let tally: serde_json::Value =
        serde_json::Deserializer::from_str(&text).into_iter().next().unwrap().unwrap();
    assert_eq!((&tally["matched"], &tally["changed"], &tally["failed"]), (&3.into(), &2.into(), &1.into()));
}

/// Somebody requeued one while a person was asked, and it has succeeded.
#[tokio::test]
async fn a_purge_leaves_what_is_no_dead_letter_any_more() {
    let dead = ListJobsResponse {
        jobs: vec![job("a", JobState::Dead), job("b", JobState::Dead)],
        next_page_token: String::new(),
    };
    let answers = [JobState::Succeeded, JobState::Dead];
    let answers = answers.map(|state| Answer::ok(&GetJobResponse { job: Some(job("a", state)) }));
    let deleted = tenure_proto::v1::DeleteJobResponse { job: Some(job("a", JobState::Dead)) };
    let fake = Fake::start([
        ("JobService/ListJobs", vec![Answer::ok(&dead)]),
        ("JobService/GetJob", answers.into()),
        ("JobService/DeleteJob", vec![Answer::ok(&deleted)]),
    ])
    .await;
    let output = tenure(&fake, &["dead", "purge", "--all", "--yes"], "").await;
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(fake.sent::<DeleteJobRequest>("JobService/DeleteJob").len(), 1);
    assert!(stdout(&output).contains("1 of 2 dead letters purged"), "{}", stdout(&output));
}

#[tokio::test]
async fn doctor_fails_on_a_violated_invariant() {
    let violated = CheckInvariantsResponse {
        violations: vec![InvariantViolation {
            invariant: "slots_within_capacity".to_owned(),
            subject: "browser".to_owned(),
            detail: "3 of 2".to_owned(),
        }],
        checked: vec!["slots_within_capacity".to_owned()],
        findings: vec!["fsync is off".to_owned()],
    };
    let health = GetQueueHealthResponse {
        attention: vec!["kind digest.daily is stuck".to_owned()],
        ..GetQueueHealthResponse::default()
    };
    let sound = CheckInvariantsResponse { violations: Vec::new(), ..violated.clone() };
    let fake = Fake::start([
        ("AdminService/GetServerInfo", vec![Answer::ok(&GetServerInfoResponse::default())]),
        ("AdminService/CheckInvariants", vec![Answer::ok(&violated), Answer::ok(&sound)]),
        ("HealthService/GetQueueHealth", vec![Answer::ok(&health)]),
    ])
    .await;
    let output = tenure(&fake, &["doctor"], "").await;
    assert_eq!(code(&output), 1);
    assert!(stdout(&output).contains("slots_within_capacity: browser: 3 of 2"), "{}", stdout(&output));
    assert!(stdout(&output).contains("kind digest.daily is stuck"));
    assert!(stdout(&output).contains("store: fsync is off"));
    assert_eq!(code(&tenure(&fake, &["doctor", "-o", "json"], "").await), 0);
}

#[tokio::test]
async fn doctor_shows_what_it_is_told_while_nobody_leads() {
    let info = GetServerInfoResponse { standing: "following".to_owned(), ..GetServerInfoResponse::default() };
    let stored = CheckInvariantsResponse {
        checked: vec!["inv_one_live_lease".to_owned()],
        findings: vec!["no leader is to be reached".to_owned()],
        ..CheckInvariantsResponse::default()
    };
    let nobody = || no(Code::Unavailable, "NOT_LEADER", None);
    let fake = Fake::start([
        ("AdminService/GetServerInfo", vec![Answer::ok(&info)]),
        ("AdminService/CheckInvariants", vec![Answer::ok(&stored), nobody()]),
        ("HealthService/GetQueueHealth", vec![nobody()]),
    ])
    .await;
    let doctor = ["doctor", "--retry-for", "0s"];
    let output = tenure(&fake, &doctor, "").await;
    let text = stdout(&output);
    assert_eq!(code(&output), 69, "{text}");
    assert!(text.contains("follows"), "{text}");
    assert!(
        text.contains("invariants: 1 checked, 0 violated\nstore: no leader is to be reached\n"),
        "{text}"
    );
    assert!(text.ends_with("health: no answer: it cannot be done\n"), "{text}");
    let output = tenure(&fake, &[&doctor[..], &["-o", "json"]].concat(), "").await;
    assert_eq!(code(&output), 69);
    let found: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert!(found["server"].is_object() && found["invariants"].is_null(), "{found}");
    assert_eq!(found["unanswered"][0]["what"], "invariants", "{found}");
    assert_eq!(found["unanswered"][1]["what"], "health", "{found}");
}

#[tokio::test]
async fn health_shows_the_figures_of_each_kind() {
    let health = GetQueueHealthResponse {
        kinds: vec![KindHealth {
            kind: "site.qa".to_owned(),
            depth: 3,
            oldest_age: Some(prost_types::Duration { seconds: 192, nanos: 0 }),
            running: 2,
            nodes_able: 1,
            head_reason: "slot browser 2/2".to_owned(),
            signal: tenure_proto::v1::QueueSignal::Stuck.into(),
            ..KindHealth::default()
        }],
        nodes_live: 1,
        ..GetQueueHealthResponse::default()
    };
    let fake = Fake::start([("HealthService/GetQueueHealth", vec![Answer::ok(&health)])]).await;
    let output = tenure(&fake, &["health"], "").await;
    expect_test::expect![[r"
        KIND     DEPTH  OLDEST  RUNNING  SCHEDULED  DEAD TODAY  NODES ABLE  SIGNAL  WHY THE HEAD WAITS
        site.qa      3  3m12s         2          0           0           1  stuck   slot browser 2/2
        1 node live
    "]]
    .assert_eq(&stdout(&output));
}
