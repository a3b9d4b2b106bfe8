//! `limits.disk`: who fills its directories is stopped, whatever it makes of them.

use std::time::Duration;

use tenure_node_agent::clock::Clock;
use tenure_node_agent::shim::{Cause, Spec};

use crate::bench::{Bench, Outcome};

const MIB: u64 = 1024 * 1024;

async fn run(script: &str, disk: u64) -> Outcome {
    let bench = Bench::new();
    let mut spec: Spec = bench.script(script);
    spec.limits.disk = Some(disk);
    bench.run(spec).await
}

#[tokio::test]
async fn who_fills_its_directory_is_stopped_and_that_is_the_cause() {
    let script = "trap 'echo bye >&2; exit 0' TERM; head -c 12000000 /dev/zero > a; ln a b; while :; do sleep 0.05; done";
    let outcome = run(script, 8 * MIB).await;
    assert_eq!((outcome.record.cause, outcome.record.exit_code), (Cause::Disk, Some(0)), "{outcome:?}");
    let error = &outcome.record.error;
    assert!(error.contains("limits.disk is 8388608") && error.ends_with("bye"), "{error}");
}

#[tokio::test]
async fn who_goes_far_beyond_gets_no_grace() {
    let bench = Bench::new();
    let script = "trap '' TERM; i=0; while [ $i -lt 400 ]; do head -c 1000000 /dev/zero > f$i; i=$((i+1)); done; sleep 1000";
    let mut spec = bench.script(script);
    spec.limits.disk = Some(4 * MIB);
    spec.grace = Duration::from_secs(600);
    let begun = Clock::Boottime.now();
    let outcome = bench.run(spec).await;
    assert_eq!((outcome.record.cause, outcome.record.signal), (Cause::Disk, Some(9)), "{outcome:?}");
    assert!(Clock::Boottime.now().since(begun) < Duration::from_secs(60));
}

#[tokio::test]
async fn holes_names_and_links_take_no_room() {
    // A hole of 1 GiB; one file under ten names; a link to a file and to a directory outside; a loop.
    let script = "truncate -s 1G hole; head -c 1000000 /dev/zero > f; for n in 0 1 2 3 4 5 6 7 8 9; do ln f f$n; done; \
        ln -s /proc proc; ln -s . self; ln -s /usr usr; mkdir -p a/b/c; sleep 3; exit 0";
    let outcome = run(script, 4 * MIB).await;
    assert_eq!((outcome.record.cause, outcome.record.exit_code), (Cause::Exit, Some(0)), "{outcome:?}");
}

#[tokio::test]
async fn what_is_too_deep_to_count_is_too_much() {
    let script = "trap 'exit 0' TERM; i=0; while [ $i -lt 100 ]; do mkdir d; cd d; i=$((i+1)); done; \
        while :; do sleep 0.05; done";
    let outcome = run(script, 1024 * MIB).await;
    assert_eq!(outcome.record.cause, Cause::Disk, "{outcome:?}");
    assert!(outcome.record.error.contains("64 deep"), "{outcome:?}");
}
