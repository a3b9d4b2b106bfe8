//! What a restarted agent says of what its predecessor left, with real shims and a real spool.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustix::process::Signal;
use tenure_node_agent::cgroup::Subtree;
use tenure_node_agent::clock::Clock;
use tenure_node_agent::holdings::{End, FencingToken};
use tenure_node_agent::runner::{Calls, Event, Options, Runner};
use tenure_node_agent::spool::{self, Spool};
use tenure_node_agent::trace::Spans;
use tenure_node_agent::workers::{self, Workers};
use tenure_proto::node::v1::{FinishedOutcome, report};

use crate::bench::{Bench, PATIENCE, eventually, is_gone, signal};

const TOKEN: FencingToken = FencingToken(7);

/// Starts an agent's runner on the bench, and waits until it has said how the attempt ended.
async fn end_of(bench: &Bench) -> (End, report::Event) {
    let spool_dir = bench.root().join("spool");
    std::fs::create_dir_all(&spool_dir).unwrap();
    let spool = spool::Options { reserve_bytes: 0, ..spool::Options::new(spool_dir) };
    let spool = Arc::new(Spool::open(spool).unwrap());
    let options = Options {
        shim: bench.options.clone(),
        attempts_dir: bench.attempts(),
        clock: Clock::Boottime,
        boot_id: std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().trim().to_owned(),
        copy: false,
        end_all: false,
        kinds: BTreeMap::new(),
        programs: BTreeMap::new(),
        indexes: BTreeMap::new(),
        cgroups: Subtree::none("the test has none"),
        calls: Calls::new("n1".to_owned()).0,
        spans: Spans::default(),
        workers: Workers::new(workers::Options::default()),
    };
    let (mut runner, before) = Runner::start(options, Arc::clone(&spool)).await.unwrap();
    assert_eq!(before.inherited.iter().map(|one| one.token).collect::<Vec<_>>(), [TOKEN]);
    let told = async {
        loop {
            if let Event::Ended { token: TOKEN, end, .. } = runner.next().await.unwrap() {
                return end;
            }
        }
    };
    let end = tokio::time::timeout(PATIENCE, told).await.expect("its end must be told");
    let report = spool.read(TOKEN).unwrap().expect("its end is in the spool");
    (end, report.event.unwrap())
}

#[tokio::test]
async fn what_a_host_that_shut_down_has_ended_is_a_return() {
    let bench = Bench::new();
    let shim = bench.abandon(bench.script("echo up > up; exec sleep 1000")).await;
    signal(shim, Signal::TERM);
    eventually("the end of the shim", || is_gone(shim).then_some(())).await;
    let (end, event) = end_of(&bench).await;
    assert_eq!(end, End::Returned);
    let report::Event::Returned(returned) = event else { panic!("{event:?}") };
    assert_eq!((returned.rule.as_str(), returned.started), ("terminated", true));
}

#[tokio::test]
async fn what_the_new_agent_has_to_end_itself_is_a_loss() {
    let bench = Bench::new();
    bench.abandon(bench.script("echo up > up; exec sleep 1000")).await;
    // Nobody can take it over.
    std::fs::remove_file(bench.dir().join("door")).unwrap();
    let (end, event) = end_of(&bench).await;
    assert_eq!(end, End::Finished);
    let report::Event::Finished(finished) = event else { panic!("{event:?}") };
    assert_eq!((finished.outcome(), finished.cause.as_str()), (FinishedOutcome::Lost, "lost"));
}
