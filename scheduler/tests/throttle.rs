//! A provider says "not now" to one job: the slot that stands for it is kept from everyone for that long.

use expect_test::expect;

use crate::support::{Script, check};

#[test]
fn a_provider_that_wants_no_more_is_left_alone_by_everyone() {
    check(
        "
        slot f 6
        slot g 6
        kind k needs=f:1 retry=1s
        kind other needs=g:1
        node n1
        show slots
        enqueue a kind=k
        tick
        run a
        finish a fail throttled=f:60s
        reaped a
        enqueue b kind=k
        enqueue c kind=other     # Of another slot: nobody asked it to wait.
        tick
        run c
        why b
        explain b
        advance 59s
        advance 1s
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 failed_retryable (exit) -> scheduled [exit]
            slot f Fleet { capacity: 6 } throttled
            lease 1.1 gone
            deferred b slot_paused: slot f paused
            granted c -> n1 token=1.2
            b waits: slot_paused slot f paused for 0ns, tried 1
              slot_paused slot f paused: 1 times, 0ns
            b: slot f paused, 0 ahead
              It does not start: slot f paused.
              slot f: needs 1 of 0/6
              node n1: fits
              starts earliest in 60s
              > slot f is resumed
            30s: deferred b slot_paused: slot f paused
            60s: ready a
            60s: slot f Fleet { capacity: 6 }
            60s: granted a -> n1 token=1.3
            60s: granted b -> n1 token=1.4
        "#]],
    );
}

#[test]
fn the_longest_word_counts_and_a_pause_of_an_operator_stays() {
    check(
        "
        slot f 6
        kind k needs=f:1 retry=1s
        node n1
        show slots
        enqueue a kind=k
        enqueue b kind=k
        enqueue c kind=k
        tick
        run a
        run b
        run c
        finish a fail throttled=f:60s
        finish b fail throttled=f:10s
        pause slot f 2m
        enqueue d kind=k
        advance 60s                # The throttle is over, the pause is not.
        finish c fail throttled=f:1s
        advance 10s
        advance 50s
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            ended a token=1.1 failed_retryable (exit) -> scheduled [exit]
            slot f Fleet { capacity: 6 } throttled
            ended b token=1.2 failed_retryable (exit) -> scheduled [exit]
            slot f Fleet { capacity: 6 } paused throttled
            1s: deferred d slot_paused: slot f paused
            10s: ready b
            30s: deferred d slot_paused: slot f paused
            60s: ready a
            60s: slot f Fleet { capacity: 6 } paused
            60s: deferred d slot_paused: slot f paused
            60s: ended c token=1.3 failed_retryable (exit) -> scheduled [exit]
            60s: slot f Fleet { capacity: 6 } paused throttled
            61s: ready c
            61s: slot f Fleet { capacity: 6 } paused
            61s: deferred d slot_paused: slot f paused
            120s: slot f Fleet { capacity: 6 }
            120s: granted d -> n1 token=1.4
        "#]],
    );
}

#[test]
fn an_operator_may_end_a_throttle() {
    check(
        "
        slot f 6
        kind k needs=f:1 retry=1s
        node n1
        enqueue a kind=k
        tick
        run a
        finish a fail throttled=f:60s
        enqueue b kind=k
        tick
        resume slot f
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 failed_retryable (exit) -> scheduled [exit]
            deferred b slot_paused: slot f paused
            granted b -> n1 token=1.2
        "#]],
    );
}

#[test]
fn a_job_speaks_only_in_failures_and_only_of_fleet_slots_that_it_holds() {
    check(
        "
        slot f 6
        slot g 6
        slot n node
        kind k needs=f:1,n:1
        node n1 slots=n:9
        enqueue a kind=k
        enqueue b kind=k
        enqueue c kind=k
        enqueue d kind=k
        tick
        run a
        run b
        run c
        run d
        finish a fail throttled=g:60s
        finish b fail throttled=n:60s
        finish c ok throttled=f:60s
        finish d fail throttled=nosuch:60s
        enqueue e kind=k
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            granted d -> n1 token=1.4
            slot g not throttled by 1.1
            ended a token=1.1 failed_retryable (exit) -> scheduled [exit]
            slot n not throttled by 1.2
            ended b token=1.2 failed_retryable (exit) -> scheduled [exit]
            slot f not throttled by 1.3
            ended c token=1.3 succeeded (exit) -> succeeded
            slot nosuch not throttled by 1.4
            ended d token=1.4 failed_retryable (exit) -> scheduled [exit]
            granted e -> n1 token=1.5
        "#]],
    );
}

#[test]
fn a_throttle_lasts_a_second_or_more_over_takeovers_whatever_the_wall_clock_does() {
    check(
        "
        slot f 6
        kind k needs=f:1 retry=1s max_failures=9
        node n1
        show slots
        enqueue a kind=k
        tick
        run a
        finish a fail throttled=f:0s
        reaped a
        advance 1s
        run a
        finish a fail throttled=f:60s
        reaped a
        wall +1h
        enqueue b kind=k
        advance 20s
        wall -1h                 # The row says until when, by the wall clock as it was set when that was written.
        reload
        hello n1
        advance 39s
        advance 1s
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 failed_retryable (exit) -> scheduled [exit]
            slot f Fleet { capacity: 6 } throttled
            lease 1.1 gone
            1s: ready a
            1s: slot f Fleet { capacity: 6 }
            1s: granted a -> n1 token=1.2
            1s: ended a token=1.2 failed_retryable (exit) -> scheduled [exit]
            1s: slot f Fleet { capacity: 6 } throttled
            1s: lease 1.2 gone
            2s: deferred b slot_paused: slot f paused
            22s: deferred b slot_paused: slot f paused
            51s: deferred b slot_paused: slot f paused
            61s: ready a
            61s: slot f Fleet { capacity: 6 }
            61s: granted a -> n1 token=2.1
            61s: granted b -> n1 token=2.2
        "#]],
    );
}

#[test]
fn a_slot_that_is_kept_for_a_time_is_not_stuck() {
    check(
        "
        slot f 6
        kind k needs=f:1 retry=1s
        node n1
        enqueue a kind=k
        tick
        run a
        finish a fail throttled=f:10m
        enqueue b kind=k
        advance 5m
        health k
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 failed_retryable (exit) -> scheduled [exit]
            1s: deferred b slot_paused: slot f paused
            30s: deferred b slot_paused: slot f paused
            300s: k Moving depth=1 scheduled=1 running=0 able=1 oldest=300s head: slot f paused
        "#]],
    );
}

#[test]
fn a_throttle_lasts_no_longer_than_a_day() {
    let mut run = Script::new();
    run.lines(
        "
        slot f 6
        kind k needs=f:1
        node n1
        enqueue a kind=k
        tick
        run a
        finish a fail throttled=f:100d
        ",
    );
    let now = run.world.now();
    let slots = run.world.state.snapshot(now).slots;
    let until = slots[0].slot.throttled_until.expect("it is throttled");
    assert_eq!(until.since(now.wall).as_secs(), 24 * 3600);
    assert_eq!(slots[0].slot.paused, None);
}
