//! Real shims with real commands: how they start, how they end, and that nothing of them is left.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::bench::{Bench, eventually, hear_out, is_gone, is_there, next, signal};
use rustix::process::Signal;
use tenure_node_agent::clock::{Clock, Mono};
use tenure_node_agent::output::{self, HEAD_BYTES, Stream, TAIL_BYTES};
use tenure_node_agent::shim::{Cause, Error, Event, Limits, Shim, StopReason, User};

#[tokio::test]
async fn a_command_that_succeeds_is_recorded_and_reaped() {
    let bench = Bench::new();
    let outcome = bench.run(bench.script("echo out; echo err >&2")).await;
    assert!(outcome.started.is_some());
    assert_eq!(outcome.record.cause, Cause::Exit);
    assert_eq!((outcome.record.exit_code, outcome.record.signal), (Some(0), None));
    assert_eq!(outcome.record.stdout.bytes, 4);
    assert_eq!(outcome.record.error, "err");
    assert_eq!(output::read_head(&bench.dir(), Stream::Stdout).unwrap(), b"out\n");
    assert_eq!(bench.record(), Some(outcome.record), "the record on disk is what was said");
}

#[tokio::test]
async fn the_exit_code_is_the_commands_own() {
    let bench = Bench::new();
    let outcome = bench.run(bench.script("exit 75")).await;
    assert_eq!((outcome.record.cause, outcome.record.exit_code), (Cause::Exit, Some(75)));
}

#[tokio::test]
async fn a_signal_from_elsewhere_is_named() {
    let bench = Bench::new();
    let outcome = bench.run(bench.script("kill -SEGV $$")).await;
    assert_eq!((outcome.record.cause, outcome.record.signal), (Cause::Signal, Some(11)));
    assert_eq!(outcome.record.exit_code, None);
}

#[tokio::test]
async fn a_program_that_is_missing_never_starts() {
    let bench = Bench::new();
    let outcome = bench.run(bench.spec(&["/nonexistent/program"])).await;
    assert_eq!(outcome.started, None);
    assert_eq!((outcome.record.cause, outcome.record.exit_code), (Cause::Spawn, None));
    assert!(outcome.record.error.contains("No such file"), "{}", outcome.record.error);
}

#[tokio::test]
async fn a_work_directory_that_is_missing_is_named() {
    let bench = Bench::new();
    let mut spec = bench.script("true");
    spec.workdir = PathBuf::from("/nonexistent");
    let outcome = bench.run(spec).await;
    assert_eq!(outcome.record.cause, Cause::Spawn);
    assert!(outcome.record.error.contains("/nonexistent"), "{}", outcome.record.error);
}

#[tokio::test]
async fn an_environment_that_no_process_can_have_is_a_spawn_failure() {
    let bench = Bench::new();
    let mut spec = bench.script("true");
    spec.env.push(("A".to_owned(), "a\0b".to_owned()));
    let outcome = bench.run(spec).await;
    assert_eq!(outcome.record.cause, Cause::Spawn);
}

#[tokio::test]
async fn the_command_sees_its_payload_and_its_environment_and_nothing_else() {
    let bench = Bench::new();
    let payload = bench.dir().join("payload");
    fs::write(&payload, "the payload").unwrap();
    let mut spec =
        bench.script("cat; echo; env | cut -d= -f1 | sort | tr '\\n' ' '; pwd; ls /proc/self/fd | wc -l");
    spec.stdin = Some(payload);
    spec.env.push(("TENURE_FENCE".to_owned(), "7".to_owned()));
    bench.run(spec).await;
    let said = String::from_utf8(output::read_head(&bench.dir(), Stream::Stdout).unwrap()).unwrap();
    let mut lines = said.lines();
    assert_eq!(lines.next(), Some("the payload"));
    let environment = lines.next().unwrap();
    assert!(environment.starts_with("PATH PWD TENURE_ATTEMPT_TAG TENURE_FENCE "), "{environment}");
    assert!(
        environment.ends_with(&bench.work().canonicalize().unwrap().display().to_string()),
        "{environment}"
    );
    // A file that this test inherited without close-on-exec is everybody's; nothing may be added to those.
    let plain = std::process::Command::new("/bin/sh")
        .args(["-c", "ls /proc/self/fd | wc -l"])
        .stdin(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(lines.next(), Some(String::from_utf8(plain.stdout).unwrap().trim()), "open files");
}

#[tokio::test]
async fn nothing_starts_without_go() {
    let bench = Bench::new();
    let shim = bench.start(bench.script("echo ran > ran")).await;
    let pid = shim.pid().cast_signed();
    drop(shim);
    eventually("the end of the shim", || (!is_there(pid)).then_some(())).await;
    assert!(!bench.work().join("ran").exists());
    let state: serde_json::Value =
        serde_json::from_slice(&fs::read(bench.dir().join("state")).unwrap()).unwrap();
    assert_eq!(state["child"], serde_json::Value::Null, "a state without a child never started");
    assert_eq!(bench.record(), None);
}

#[tokio::test]
async fn a_shim_that_cannot_write_its_state_says_why() {
    let bench = Bench::new();
    fs::create_dir(bench.dir().join("state.tmp")).unwrap();
    let error = Shim::start(&bench.options, bench.script("true")).await.unwrap_err();
    assert!(matches!(&error, Error::NotReady(reason) if reason.contains("state file")), "{error}");
}

#[tokio::test]
async fn a_shim_that_dies_before_go_has_started_nothing() {
    let bench = Bench::new();
    let mut shim = bench.start(bench.script("echo ran > ran")).await;
    signal(shim.pid().cast_signed(), Signal::KILL);
    let outcome = hear_out(&mut shim).await;
    assert_eq!((outcome.started, outcome.record.cause), (None, Cause::Terminated));
    assert!(!outcome.record.started && !bench.work().join("ran").exists());
}

#[tokio::test]
async fn a_stop_before_go_wins() {
    let bench = Bench::new();
    let mut shim = bench.start(bench.script("echo ran > ran")).await;
    shim.stop(StopReason::Revoked, Duration::ZERO).unwrap();
    // It may have left already.
    shim.go().ok();
    let outcome = hear_out(&mut shim).await;
    assert_eq!((outcome.started, outcome.record.cause), (None, Cause::Terminated));
    assert!(!outcome.record.started && !bench.work().join("ran").exists());
}

#[tokio::test]
async fn a_stop_on_the_heels_of_go_tells_whether_the_command_had_started() {
    for _ in 0..5 {
        let bench = Bench::new();
        let mut shim = bench.start(bench.script("exec sleep 1000")).await;
        shim.go().unwrap();
        shim.stop(StopReason::Drained, Duration::ZERO).unwrap();
        let outcome = hear_out(&mut shim).await;
        assert_eq!(outcome.record.cause, Cause::Drained);
        assert_eq!(outcome.record.started, outcome.started.is_some());
        assert_eq!(outcome.record.started, outcome.record.signal.is_some(), "{:?}", outcome.record);
    }
}

#[tokio::test]
async fn the_monotonic_clock_serves_as_well() {
    let bench = Bench::new();
    let mut spec = bench.script("exec sleep 1000");
    spec.clock = Clock::Monotonic;
    spec.gone_by = Clock::Monotonic.now() + Duration::from_millis(1_500);
    spec.hard_time_limit = Duration::from_millis(200);
    spec.grace = Duration::from_millis(50);
    assert_eq!(bench.run(spec).await.record.cause, Cause::Limit);
}

#[tokio::test]
async fn many_attempts_run_side_by_side() {
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..40 {
        tasks.spawn(async move {
            let bench = Bench::new();
            let outcome = bench.run(bench.script(&format!("sleep 0.{}; exit {n}", n % 10))).await;
            assert_eq!(outcome.record.exit_code, Some(n));
        });
    }
    while let Some(end) = tasks.join_next().await {
        end.unwrap();
    }
}

#[tokio::test]
async fn a_stop_asks_first() {
    let bench = Bench::new();
    let mut shim = bench
        .start(bench.script("trap 'echo bye; exit 3' TERM; echo up > up; while :; do sleep 0.05; done"))
        .await;
    shim.go().unwrap();
    bench.file("up").await;
    shim.stop(StopReason::Revoked, Duration::from_secs(20)).unwrap();
    let outcome = hear_out(&mut shim).await;
    assert_eq!((outcome.record.cause, outcome.record.exit_code), (Cause::Revoked, Some(3)));
    assert_eq!(output::read_head(&bench.dir(), Stream::Stdout).unwrap(), b"bye\n");
}

#[tokio::test]
async fn who_ignores_sigterm_is_killed_after_the_grace() {
    let bench = Bench::new();
    let mut shim =
        bench.start(bench.script("trap '' TERM; echo up > up; while :; do sleep 0.05; done")).await;
    shim.go().unwrap();
    bench.file("up").await;
    let asked = Clock::Boottime.now();
    shim.stop(StopReason::Drained, Duration::from_millis(300)).unwrap();
    let outcome = hear_out(&mut shim).await;
    assert_eq!((outcome.record.cause, outcome.record.signal), (Cause::Drained, Some(9)));
    assert!(Clock::Boottime.now().since(asked) >= Duration::from_millis(300));
}

#[tokio::test]
async fn a_stopped_command_hears_sigterm_too() {
    let bench = Bench::new();
    let mut shim =
        bench.start(bench.script("trap 'exit 4' TERM; echo up > up; kill -STOP $$; sleep 1000")).await;
    shim.go().unwrap();
    bench.file("up").await;
    shim.stop(StopReason::Revoked, Duration::from_secs(20)).unwrap();
    assert_eq!(hear_out(&mut shim).await.record.cause, Cause::Revoked);
}

#[tokio::test]
async fn the_hard_limit_is_kept() {
    let bench = Bench::new();
    let mut spec = bench.script("exec sleep 1000");
    spec.hard_time_limit = Duration::from_millis(200);
    let outcome = bench.run(spec).await;
    assert_eq!((outcome.record.cause, outcome.record.signal), (Cause::Limit, Some(15)));
    assert!(outcome.record.ran_for >= Duration::from_millis(200));
}

#[tokio::test]
async fn an_exit_after_the_hard_limit_is_still_the_limit() {
    let bench = Bench::new();
    let mut spec = bench.script("trap 'exit 0' TERM; while :; do sleep 0.05; done");
    spec.hard_time_limit = Duration::from_millis(300);
    let outcome = bench.run(spec).await;
    assert_eq!((outcome.record.cause, outcome.record.exit_code), (Cause::Limit, Some(0)));
}

#[tokio::test]
async fn a_lease_that_is_not_renewed_ends_a_second_early() {
    let bench = Bench::new();
    let mut spec = bench.script("trap '' TERM; while :; do sleep 0.05; done");
    spec.gone_by = Clock::Boottime.now() + Duration::from_millis(2_500);
    let gone_by = spec.gone_by;
    let outcome = bench.run(spec).await;
    assert_eq!((outcome.record.cause, outcome.record.signal), (Cause::CutOff, Some(9)));
    assert!(Clock::Boottime.now() < gone_by);
}

#[tokio::test]
async fn a_renewed_lease_goes_on() {
    let bench = Bench::new();
    let mut spec = bench.script("sleep 1.5; echo done");
    spec.gone_by = Clock::Boottime.now() + Duration::from_millis(2_000);
    spec.grace = Duration::from_millis(100);
    let mut shim = bench.start(spec).await;
    shim.go().unwrap();
    shim.renew(Clock::Boottime.now() + Duration::from_secs(600)).unwrap();
    shim.renew(Mono::ZERO).unwrap();
    let outcome = hear_out(&mut shim).await;
    assert_eq!((outcome.record.cause, outcome.record.exit_code), (Cause::Exit, Some(0)));
}

#[tokio::test]
async fn what_outlives_its_command_is_killed() {
    let bench = Bench::new();
    // A background process, one in a session of its own, and one that has also dropped its environment and its parent.
    let script = "sleep 1001 & echo $! > a; \
        setsid sh -c 'echo $$ > b; trap \"\" TERM; while :; do sleep 1; done' & \
        env -i /bin/sh -c 'setsid /bin/sh -c \"trap : TERM; echo \\$\\$ > c; while :; do sleep 1; done\" & ' & \
        while ! [ -s b ] || ! [ -s c ]; do sleep 0.01; done; exit 0";
    let mut shim = bench.start(bench.script(script)).await;
    shim.go().unwrap();
    let outcome = hear_out(&mut shim).await;
    assert_eq!((outcome.record.cause, outcome.record.exit_code), (Cause::Exit, Some(0)));
    for name in ["a", "b", "c"] {
        for pid in bench.pids(name).await {
            assert!(!is_there(pid), "{name} lives");
        }
    }
    assert!(!is_there(shim.pid().cast_signed()), "the shim leaves too");
}

#[tokio::test]
async fn the_result_is_told_before_a_stubborn_rest_is_gone() {
    let bench = Bench::new();
    let mut spec = bench.script(
        "setsid sh -c 'trap \"\" TERM; echo $$ > rest; exec sleep 1000' & \
        while ! [ -s rest ]; do sleep 0.01; done; echo result",
    );
    spec.grace = Duration::from_secs(3);
    let mut shim = bench.start(spec).await;
    shim.go().unwrap();
    let rest = bench.pids("rest").await[0];
    assert!(matches!(next(&mut shim).await, Some(Event::Started { .. })));
    // The rest holds the pipes: a second is waited for the end of the output, not longer.
    let Some(Event::Ended(record)) = next(&mut shim).await else { panic!("`Ended` comes next") };
    assert_eq!(record.exit_code, Some(0));
    assert!(is_there(rest), "its grace is not over");
    assert!(matches!(next(&mut shim).await, Some(Event::Reaped)));
    assert!(!is_there(rest));
}

#[tokio::test]
async fn a_crowd_is_killed_to_the_last_and_leaves_no_zombie() {
    let bench = Bench::new();
    // 50 children that ignore SIGTERM, each with a child in a session of its own.
    let script = "trap '' TERM; i=0; while [ $i -lt 50 ]; do \
        sh -c 'echo $$ >> crowd; setsid sh -c \"echo \\$\\$ >> crowd; sleep 1000; :\" & sleep 1000; :' & i=$((i+1)); done; \
        while [ $(wc -l < crowd) -lt 100 ]; do sleep 0.05; done; echo up > up; wait";
    let mut shim = bench.start(bench.script(script)).await;
    shim.go().unwrap();
    bench.file("up").await;
    shim.stop(StopReason::Revoked, Duration::from_millis(200)).unwrap();
    let outcome = hear_out(&mut shim).await;
    assert_eq!(outcome.record.cause, Cause::Revoked);
    let crowd = bench.pids("crowd").await;
    assert_eq!(crowd.len(), 100);
    for pid in crowd {
        assert!(!is_there(pid));
    }
}

#[tokio::test]
async fn a_tree_that_keeps_forking_is_killed() {
    let bench = Bench::new();
    // Every generation starts the next and ends: no pid lives long. Bounded in case the kill fails.
    let script = "echo 'echo $1 > last; [ $1 -gt 0 ] && setsid sh ./next $(($1-1)) & exit' > next; \
        sh ./next 100000 & sh ./next 100000 & while ! [ -s last ]; do sleep 0.01; done; echo up > up; sleep 1000";
    let mut shim = bench.start(bench.script(script)).await;
    shim.go().unwrap();
    bench.file("up").await;
    shim.stop(StopReason::Revoked, Duration::ZERO).unwrap();
    assert_eq!(hear_out(&mut shim).await.record.cause, Cause::Revoked);
    let last = || fs::read_to_string(bench.work().join("last")).unwrap();
    let reached = last();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(last(), reached, "somebody goes on");
    assert!(reached.trim() != "0", "the chain had ended by itself");
}

#[tokio::test]
async fn a_flood_never_blocks_the_job() {
    let bench = Bench::new();
    let outcome = bench.run(bench.script("head -c 20000000 /dev/zero; echo end >&2")).await;
    assert_eq!(outcome.record.exit_code, Some(0));
    assert_eq!(outcome.record.stdout.bytes, 20_000_000);
    assert!(outcome.record.stdout.truncated);
    assert_eq!(output::read_head(&bench.dir(), Stream::Stdout).unwrap().len() as u64, HEAD_BYTES);
    assert_eq!(output::read_tail(&bench.dir(), Stream::Stdout).unwrap().len() as u64, TAIL_BYTES);
}

#[tokio::test]
async fn a_flood_delays_no_deadline() {
    let bench = Bench::new();
    let mut spec = bench.script("trap '' TERM; cat /dev/zero");
    spec.hard_time_limit = Duration::from_millis(200);
    spec.grace = Duration::from_millis(200);
    let outcome = bench.run(spec).await;
    assert_eq!(outcome.record.cause, Cause::Limit);
}

#[tokio::test]
async fn sigterm_to_the_shim_stops_its_job() {
    let bench = Bench::new();
    let mut shim = bench.start(bench.script("echo $$ > up; exec sleep 1000")).await;
    shim.go().unwrap();
    let job = bench.pids("up").await[0];
    signal(shim.pid().cast_signed(), Signal::TERM);
    let outcome = hear_out(&mut shim).await;
    assert_eq!(outcome.record.cause, Cause::Terminated);
    assert!(!is_there(job));
}

#[tokio::test]
async fn a_shim_that_is_killed_takes_its_tree_along() {
    let bench = Bench::new();
    let script = "setsid sh -c 'trap \"\" TERM; echo $$ > stray; while :; do sleep 1; done' & echo $$ > up; exec sleep 1000";
    let mut shim = bench.start(bench.script(script)).await;
    shim.go().unwrap();
    let (job, stray) = (bench.pids("up").await[0], bench.pids("stray").await[0]);
    signal(shim.pid().cast_signed(), Signal::KILL);
    let outcome = hear_out(&mut shim).await;
    assert_eq!(outcome.record.cause, Cause::Lost);
    for pid in [job, stray] {
        assert!(is_gone(pid), "{pid} lives");
    }
}

#[tokio::test]
async fn a_shim_that_its_job_has_stopped_is_helped() {
    let bench = Bench::new();
    let mut spec = bench.script("echo $$ > up; kill -STOP $PPID; exec sleep 1000");
    spec.gone_by = Clock::Boottime.now() + Duration::from_millis(2_500);
    let mut shim = bench.start(spec).await;
    shim.go().unwrap();
    let job = bench.pids("up").await[0];
    let outcome = hear_out(&mut shim).await;
    assert!(matches!(outcome.record.cause, Cause::CutOff | Cause::Lost), "{:?}", outcome.record.cause);
    assert!(!is_there(job));
}

#[tokio::test]
async fn a_job_that_stops_its_shim_gains_no_time_over_its_hard_limit() {
    for ends_first in [false, true] {
        let bench = Bench::new();
        let script = if ends_first {
            "setsid sh -c 'echo $$ > stray; kill -STOP '$PPID'; exec sleep 1000' & while ! [ -s stray ]; do sleep 0.01; done"
        } else {
            "echo $$ > stray; kill -STOP $PPID; exec sleep 1000"
        };
        let mut spec = bench.script(script);
        spec.hard_time_limit = Duration::from_millis(500);
        spec.grace = Duration::from_millis(200);
        let mut shim = bench.start(spec).await;
        shim.go().unwrap();
        let stray = bench.pids("stray").await[0];
        // The server hears of a job that runs, and renews its lease.
        shim.renew(Clock::Boottime.now() + Duration::from_secs(7200)).unwrap();
        let begun = Clock::Boottime.now();
        hear_out(&mut shim).await;
        assert!(is_gone(stray), "{stray} lives");
        assert!(Clock::Boottime.now().since(begun) < Duration::from_secs(20));
    }
}

#[tokio::test]
async fn without_an_agent_the_hard_limit_is_kept() {
    let bench = Bench::new();
    let mut spec = bench.script("trap '' TERM; echo $$ > up; while :; do sleep 0.05; done");
    spec.hard_time_limit = Duration::from_millis(700);
    spec.grace = Duration::from_millis(300);
    let shim = bench.abandon(spec).await;
    let record = eventually("the record", || bench.record()).await;
    assert_eq!((record.cause, record.signal), (Cause::Limit, Some(9)));
    eventually("the end of the shim", || is_gone(shim).then_some(())).await;
    assert!(!is_there(bench.pids("up").await[0]));
}

#[tokio::test]
async fn without_an_agent_the_lease_ends_in_time() {
    let bench = Bench::new();
    let mut spec = bench.script(
        "trap '' TERM; setsid sh -c 'echo $$ > stray; sleep 1000; :' & \
        while ! [ -s stray ]; do sleep 0.01; done; echo $$ > up; while :; do sleep 0.05; done",
    );
    spec.gone_by = Clock::Boottime.now() + Duration::from_millis(2_500);
    let gone_by = spec.gone_by;
    let shim = bench.abandon(spec).await;
    let record = eventually("the record", || bench.record()).await;
    assert_eq!((record.cause, record.signal), (Cause::CutOff, Some(9)));
    eventually("the end of the shim", || is_gone(shim).then_some(())).await;
    assert!(Clock::Boottime.now() < gone_by);
    for name in ["up", "stray"] {
        assert!(!is_there(bench.pids(name).await[0]), "{name} lives");
    }
}

#[tokio::test]
async fn without_an_agent_a_command_may_finish() {
    let bench = Bench::new();
    let shim = bench.abandon(bench.script("echo up > up; sleep 0.3; echo result")).await;
    let record = eventually("the record", || bench.record()).await;
    assert_eq!((record.cause, record.exit_code), (Cause::Exit, Some(0)));
    eventually("the end of the shim", || is_gone(shim).then_some(())).await;
    assert_eq!(output::read_head(&bench.dir(), Stream::Stdout).unwrap(), b"result\n");
}

#[tokio::test]
async fn limits_hold_for_the_command() {
    let bench = Bench::new();
    let mut spec = bench.script(
        "ulimit -n; ulimit -c; head -c 5000 /dev/zero > big; echo $?; grep -c . big > /dev/null; \
        grep NoNewPrivs /proc/self/status; cat /proc/self/oom_score_adj",
    );
    spec.limits = Limits { files: Some(64), file_size: Some(4096), ..Limits::default() };
    let outcome = bench.run(spec).await;
    let said = String::from_utf8(output::read_head(&bench.dir(), Stream::Stdout).unwrap()).unwrap();
    let words: Vec<&str> = said.split_whitespace().collect();
    assert_eq!(words.get(..2), Some(&["64", "0"][..]), "{said} {outcome:?}");
    assert_ne!(words[2], "0", "{said}");
    assert_eq!(words.get(3..5), Some(&["NoNewPrivs:", "1"][..]), "{said}");
    assert!(words[5].parse::<i32>().unwrap() >= 500, "{said}");
    assert_eq!(fs::metadata(bench.work().join("big")).unwrap().size(), 4096);
}

#[tokio::test]
async fn a_root_agent_switches_the_user_for_good() {
    if !is_root() {
        eprintln!("skipped: only root can switch the user");
        return;
    }
    let bench = Bench::new();
    open_to(&bench.work(), 12_345);
    let mut spec = bench.script("id -u; id -g; id -G; touch mine; cat ../exit; kill -0 $PPID; echo $?");
    spec.user = Some(User { uid: 12_345, gid: 12_346, groups: vec![12_346, 12_347] });
    spec.limits.tasks = Some(200);
    let outcome = bench.run(spec).await;
    assert_eq!(outcome.record.exit_code, Some(0), "{outcome:?}");
    let said = String::from_utf8(output::read_head(&bench.dir(), Stream::Stdout).unwrap()).unwrap();
    let mut lines = said.lines();
    assert_eq!(lines.next(), Some("12345"));
    assert_eq!(lines.next(), Some("12346"));
    assert_eq!(lines.next(), Some("12346 12347"));
    assert_ne!(lines.next(), Some("0"), "it may not signal its shim");
    assert_eq!(fs::metadata(bench.work().join("mine")).unwrap().uid(), 12_345);
}

#[tokio::test]
async fn a_user_switched_job_dies_with_its_shim() {
    if !is_root() {
        eprintln!("skipped: only root can switch the user");
        return;
    }
    let bench = Bench::new();
    open_to(&bench.work(), 12_345);
    let mut spec = bench.script("echo $$ > up; exec sleep 1000");
    spec.user = Some(User { uid: 12_345, gid: 12_345, groups: Vec::new() });
    let mut shim = bench.start(spec).await;
    shim.go().unwrap();
    let job = bench.pids("up").await[0];
    signal(shim.pid().cast_signed(), Signal::KILL);
    eventually("the death of the job", || is_gone(job).then_some(())).await;
    assert_eq!(hear_out(&mut shim).await.record.cause, Cause::Lost);
}

#[tokio::test]
async fn only_root_may_name_another_user() {
    if is_root() {
        eprintln!("skipped: root may");
        return;
    }
    let bench = Bench::new();
    let mut spec = bench.script("true");
    spec.user = Some(User { uid: 1, gid: 1, groups: Vec::new() });
    assert_eq!(bench.run(spec).await.record.cause, Cause::Spawn);
}

fn open_to(dir: &Path, uid: u32) {
    std::os::unix::fs::chown(dir, Some(uid), None).unwrap();
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
