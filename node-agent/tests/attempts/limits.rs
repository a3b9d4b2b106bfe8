//! Time limits in two steps, silence and checkpoints: real shims, and the runner around them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tenure_node_agent::cgroup::Subtree;
use tenure_node_agent::clock::Clock;
use tenure_node_agent::config::{NodeFile, Overrides};
use tenure_node_agent::holdings::{End, FencingToken};
use tenure_node_agent::runner::{Calls, Event, Options, Runner, checkpoint};
use tenure_node_agent::shim::{self, Cause};
use tenure_node_agent::spool::{self, Spool};
use tenure_node_agent::trace::Spans;
use tenure_node_agent::workers::{self, Workers};
use tenure_proto::node::v1::attempt_service_client::AttemptServiceClient;
use tenure_proto::node::v1::{
    AttemptServiceEnqueueChildrenRequest, Checkpoint, FailRequest, Finished, Grant, ResultBytes,
    SaveCheckpointRequest, WaitForJobsRequest, WaitTerms, report,
};
use tokio::task::JoinSet;
use tonic::Code;
use tonic::transport::{Channel, Endpoint};

use crate::bench::{Bench, PATIENCE, hear_out, next};

const TOKEN: FencingToken = FencingToken(8);

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[tokio::test]
async fn a_command_that_catches_the_notice_hears_it_and_ends_by_itself() {
    let bench = Bench::new();
    let mut spec = bench.script("trap 'echo wrapped; exit 0' USR1; while :; do sleep 0.05; done");
    spec.soft_time_limit = Some(millis(400));
    let outcome = bench.run(spec).await;
    assert_eq!((outcome.record.cause, outcome.record.exit_code), (Cause::Exit, Some(0)));
    assert!(outcome.record.notified && outcome.record.ran_for >= millis(400), "{:?}", outcome.record);
}

#[tokio::test]
async fn a_command_that_does_not_catch_it_lives_on_until_its_soft_grace_is_over() {
    let bench = Bench::new();
    let mut spec = bench.script("exec sleep 1000");
    (spec.soft_time_limit, spec.soft_grace) = (Some(millis(200)), millis(300));
    let mut shim = bench.start(spec).await;
    shim.go().unwrap();
    assert!(matches!(next(&mut shim).await, Some(shim::Event::Started { .. })));
    assert!(matches!(next(&mut shim).await, Some(shim::Event::Notified)));
    let record = hear_out(&mut shim).await.record;
    assert_eq!((record.cause, record.signal, record.notified), (Cause::SoftLimit, Some(15), true));
    assert!(record.ran_for >= millis(500), "{record:?}");
}

#[tokio::test]
async fn a_silent_attempt_is_stopped_and_one_that_is_heard_is_not() {
    let bench = Bench::new();
    let mut spec = bench.script("echo noise; exec sleep 1000");
    spec.progress_timeout = Some(millis(800));
    let mut shim = bench.start(spec).await;
    shim.go().unwrap();
    assert!(matches!(next(&mut shim).await, Some(shim::Event::Started { .. })));
    let begun = Clock::Boottime.now();
    for word in 1..=5 {
        Clock::Boottime.sleep_until(begun + millis(300) * word).await;
        shim.heard().unwrap();
    }
    let record = hear_out(&mut shim).await.record;
    assert_eq!((record.cause, record.notified), (Cause::Stalled, false));
    assert!(record.ran_for >= millis(2_300), "{record:?}");
}

#[tokio::test]
async fn a_run_clock_that_stands_still_ends_nothing() {
    let bench = Bench::new();
    let mut spec = bench.script("exec sleep 1000");
    (spec.hard_time_limit, spec.progress_timeout) = (millis(800), Some(millis(700)));
    let mut shim = bench.start(spec).await;
    shim.go().unwrap();
    assert!(matches!(next(&mut shim).await, Some(shim::Event::Started { .. })));
    shim.pause(true).unwrap();
    let paused = tokio::time::timeout(millis(1_500), shim.next()).await;
    assert!(paused.is_err(), "{paused:?}");
    shim.pause(false).unwrap();
    let record = hear_out(&mut shim).await.record;
    assert!(matches!(record.cause, Cause::Limit | Cause::Stalled), "{record:?}");
    assert!(record.ran_for >= millis(2_200), "{record:?}");
}

/// A runner with a kind of which each attempt runs this script.
async fn runner(bench: &Bench, script: &str) -> (Runner, Arc<Spool>) {
    let text = format!(
        "name = \"n1\"\nserver = \"http://127.0.0.1:1\"\nallow_root = true\n[kinds.k]\ncommand = [\"sh\", \"-c\", {script:?}]\n"
    );
    let file = NodeFile::parse(&text, Path::new("node.toml")).unwrap();
    let config = file.validate(Overrides { data: Some("/tmp".into()), ..Overrides::default() }).unwrap();
    let spool_dir = bench.root().join("spool");
    std::fs::create_dir_all(&spool_dir).unwrap();
    let spool = spool::Options { reserve_bytes: 0, ..spool::Options::new(spool_dir) };
    let spool = Arc::new(Spool::open(spool).unwrap());
    // A server that is away, and may come: for as long as the test takes.
    let (calls, connection) = Calls::new("n1".to_owned());
    Box::leak(Box::new(connection));
    let options = Options {
        shim: bench.options.clone(),
        attempts_dir: bench.attempts(),
        clock: Clock::Boottime,
        boot_id: std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().trim().to_owned(),
        copy: false,
        end_all: false,
        programs: config.advertised().programs,
        kinds: config.kinds,
        calls,
        workers: Workers::new(workers::Options::default()),
        indexes: BTreeMap::new(),
        cgroups: Subtree::none("the test has none"),
        spans: Spans::default(),
    };
    (Runner::start(options, Arc::clone(&spool)).await.unwrap().0, spool)
}

fn grant() -> Grant {
    let seconds = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
    Grant {
        job_id: "0198c0de-0000-7000-8000-000000000002".to_owned(),
        token: TOKEN.0,
        kind: "k".to_owned(),
        attempt: 2,
        lease: seconds(60),
        hard_time_limit: seconds(60),
        ..Grant::default()
    }
}

async fn event(runner: &mut Runner) -> Event {
    tokio::time::timeout(PATIENCE, runner.next()).await.expect("it must go on").unwrap()
}

async fn start(runner: &mut Runner, grant: Grant) {
    runner.prepare(grant);
    assert_eq!(event(runner).await, Event::Prepared { token: TOKEN });
    runner.go(TOKEN, Clock::Boottime.now() + Duration::from_secs(60));
    assert_eq!(event(runner).await, Event::Started { token: TOKEN });
}

/// How it ended, as its report in the spool says.
async fn end(runner: &mut Runner, spool: &Spool) -> report::Event {
    let ended = event(runner).await;
    assert!(matches!(ended, Event::Ended { token: TOKEN, .. }), "{ended:?}");
    spool.read(TOKEN).unwrap().unwrap().event.unwrap()
}

async fn finished(runner: &mut Runner, spool: &Spool) -> Finished {
    let event = end(runner, spool).await;
    let report::Event::Finished(finished) = event else { panic!("{event:?}") };
    finished
}

#[tokio::test]
async fn what_an_earlier_attempt_left_stands_beside_the_payload() {
    let bench = Bench::new();
    let script = "cat $TENURE_CHECKPOINT $TENURE_PARTIAL_RESULT > $TENURE_RESULT; echo $TENURE_SOFT_DEADLINE_S >> $TENURE_RESULT";
    let (mut runner, spool) = runner(&bench, script).await;
    let left = Grant {
        soft_time_limit: Some(prost_types::Duration { seconds: 7, nanos: 0 }),
        checkpoint: Some(Checkpoint { data: "page 7, ".into() }),
        partial: Some(ResultBytes { data: "8 of 12, ".into(), content_type: String::new() }),
        ..grant()
    };
    start(&mut runner, left).await;
    let finished = finished(&mut runner, &spool).await;
    assert_eq!(finished.result.unwrap().data, "page 7, 8 of 12, 7\n");
    assert!(!finished.partial && finished.checkpoint.is_none());
}

#[tokio::test]
async fn a_saved_checkpoint_is_told_at_once_then_after_a_while_and_again_with_the_end() {
    let bench = Bench::new();
    let script = "while [ ! -e $TENURE_WORKDIR/end ]; do sleep 0.05; done; exit 3";
    let (mut runner, spool) = runner(&bench, script).await;
    start(&mut runner, grant()).await;
    let dir = runner.attempt_dir(TOKEN);
    checkpoint::save(&dir, b"one").unwrap();
    runner.saved(TOKEN);
    assert_eq!(event(&mut runner).await, Event::Checkpointed { token: TOKEN });
    let told = Clock::Boottime.now();
    for bytes in [&b"two"[..], b"three"] {
        checkpoint::save(&dir, bytes).unwrap();
        runner.saved(TOKEN);
    }
    assert_eq!(event(&mut runner).await, Event::Checkpointed { token: TOKEN });
    assert!(Clock::Boottime.now().since(told) >= Duration::from_secs(9), "not each is a commit");
    checkpoint::save(&dir, b"four").unwrap();
    runner.saved(TOKEN);
    std::fs::write(dir.join("work/end"), b"").unwrap();
    let finished = finished(&mut runner, &spool).await;
    assert_eq!((finished.cause.as_str(), finished.exit_code), ("exit", Some(3)));
    assert_eq!(finished.checkpoint.unwrap().data, "four");
}

#[tokio::test]
async fn a_return_brings_the_checkpoint_and_a_success_needs_none() {
    let bench = Bench::new();
    let (mut runner, spool) = runner(&bench, "exec sleep 1000").await;
    start(&mut runner, grant()).await;
    checkpoint::save(&runner.attempt_dir(TOKEN), b"page 7").unwrap();
    let reason = tenure_node_agent::holdings::StopReason::Drained;
    runner.stop(TOKEN, tenure_node_agent::holdings::Stop { reason, at_once: true });
    let report::Event::Returned(returned) = end(&mut runner, &spool).await else { panic!("not a return") };
    assert_eq!(
        (returned.rule.as_str(), returned.checkpoint.unwrap().data.as_ref()),
        ("draining", &b"page 7"[..])
    );
    assert_eq!(spool.unstored()[&TOKEN].end, End::Returned);
}

#[tokio::test]
async fn a_parked_attempt_spends_none_of_its_limits_and_a_word_keeps_it_from_being_stalled() {
    let bench = Bench::new();
    let (mut runner, spool) = runner(&bench, "exec sleep 1000").await;
    let span = |millis: u64| prost_types::Duration::try_from(Duration::from_millis(millis)).ok();
    start(&mut runner, Grant { progress_timeout: span(600), ..grant() }).await;
    let begun = Clock::Boottime.now();
    for word in 1..=4 {
        Clock::Boottime.sleep_until(begun + millis(300) * word).await;
        runner.heard(TOKEN);
    }
    runner.park(TOKEN, true);
    Clock::Boottime.sleep_until(begun + millis(2_500)).await;
    runner.park(TOKEN, false);
    let finished = finished(&mut runner, &spool).await;
    assert_eq!(finished.cause, "stalled");
    assert!(Clock::Boottime.now().since(begun) >= millis(3_000));
}

/// Speaks as the attempt.
async fn speaker(runner: &Runner) -> AttemptServiceClient<Channel> {
    let socket = runner.attempt_dir(TOKEN).join("socket");
    let endpoint = Endpoint::from_shared(format!("unix:{}", socket.display())).unwrap();
    AttemptServiceClient::new(endpoint.connect().await.unwrap())
}

/// The end of the attempt, if it comes within this.
async fn end_within(runner: &mut Runner, length: Duration) -> Option<Event> {
    let end = async {
        loop {
            if let Ok(ended @ Event::Ended { .. }) = runner.next().await {
                return ended;
            }
        }
    };
    tokio::time::timeout(length, end).await.ok()
}

#[tokio::test]
async fn who_waits_for_a_server_that_is_away_is_not_stalled() {
    let second = prost_types::Duration { seconds: 1, nanos: 0 };
    let terms = Some(WaitTerms::default());
    let wait = WaitForJobsRequest { terms, wait_id: "w".to_owned() };
    for asks_to_wait in [false, true] {
        let bench = Bench::new();
        let (mut runner, spool) = runner(&bench, "exec sleep 1000").await;
        start(&mut runner, Grant { progress_timeout: Some(second), ..grant() }).await;
        let mut speaker = speaker(&runner).await;
        let wait = wait.clone();
        let mut asked = JoinSet::new();
        asked.spawn(async move {
            if asks_to_wait {
                drop(speaker.wait_for_jobs(wait).await);
            } else {
                drop(speaker.enqueue_children(AttemptServiceEnqueueChildrenRequest::default()).await);
            }
        });
        let early = end_within(&mut runner, millis(3_000)).await;
        assert_eq!((early, asks_to_wait, asked.try_join_next().is_none()), (None, asks_to_wait, true));
        drop(asked);
        if !asks_to_wait {
            // The call is given up, and it says nothing more.
            assert!(end_within(&mut runner, PATIENCE).await.is_some());
            let Some(report::Event::Finished(finished)) = spool.read(TOKEN).unwrap().unwrap().event else {
                panic!("no end")
            };
            assert_eq!(finished.cause, "stalled");
        }
    }
}

#[tokio::test]
async fn saying_why_it_fails_is_a_word_too() {
    let bench = Bench::new();
    let (mut runner, _spool) = runner(&bench, "exec sleep 1000").await;
    let second = prost_types::Duration { seconds: 1, nanos: 0 };
    start(&mut runner, Grant { progress_timeout: Some(second), ..grant() }).await;
    let mut speaker = speaker(&runner).await;
    for _ in 0..6 {
        assert_eq!(end_within(&mut runner, millis(400)).await, None);
        speaker.fail(FailRequest::default()).await.unwrap();
    }
}

#[tokio::test]
async fn a_word_that_nobody_has_to_say_is_not_even_read() {
    let bench = Bench::new();
    let (mut runner, _spool) = runner(&bench, "exec sleep 1000").await;
    start(&mut runner, grant()).await;
    let mut speaker = speaker(&runner).await;
    let mut refused = async |bytes: usize| {
        let request = SaveCheckpointRequest { data: vec![0; bytes].into() };
        speaker.save_checkpoint(request).await.unwrap_err().code()
    };
    assert_eq!(refused(1 << 20).await, Code::InvalidArgument);
    assert_eq!(refused(1 << 21).await, Code::OutOfRange);
}
