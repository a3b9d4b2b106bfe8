//! What becomes of a job when an attempt ends: back-off, counters and their caps, dead letters and their rounds.

use expect_test::expect;

use crate::support::check;

#[test]
fn failures_wait_for_their_intervals_and_the_third_is_the_last() {
    check(
        "
        kind k retry=10s,60s max_failures=3
        node n1
        enqueue a kind=k
        tick
        run a
        finish a fail code=1 error=boom
        reaped a
        advance 9s999999us
        why a
        advance 1us
        run a
        finish a fail code=2
        reaped a
        advance 60s
        run a
        finish a timeout error=too-long
        reaped a
        job a
        attempts a
        health k
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 failed_retryable (exit) -> scheduled [boom]
            lease 1.1 gone
            9.999999s: a waits: backoff back-off for 9.999999s, tried 0
            9.999999s:   backoff back-off: 1 times, 9.999999s
            10s: ready a
            10s: granted a -> n1 token=1.2
            10s: ended a token=1.2 failed_retryable (exit) -> scheduled [exit]
            10s: lease 1.2 gone
            70s: ready a
            70s: granted a -> n1 token=1.3
            70s: ended a token=1.3 timed_out (limit) -> dead [too-long]
            70s: lease 1.3 gone
            70s: a dead round=1 attempt=4 failures=3 [too-long]
            70s:   waited back-off: 2 times, 70s
            70s: a round=1 attempt=1 1.1 on n1: failed_retryable exit exit=1 boom
            70s: a round=1 attempt=2 1.2 on n1: failed_retryable exit exit=2
            70s: a round=1 attempt=3 1.3 on n1: timed_out limit too-long
            70s: k Idle depth=0 scheduled=0 running=0 able=1 dead=1
        "#]],
    );
}

#[test]
fn exponential_back_off_grows_within_its_jitter() {
    check(
        "
        kind k retry=exp max_failures=5
        node n1
        enqueue a kind=k
        enqueue b kind=k
        tick
        run a
        run b
        finish a fail
        finish b fail
        reaped a
        reaped b
        why a
        advance 8s
        advance 4s
        run a
        finish a fail
        reaped a
        advance 24s
        advance 12s
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            ended a token=1.1 failed_retryable (exit) -> scheduled [exit]
            ended b token=1.2 failed_retryable (exit) -> scheduled [exit]
            lease 1.1 gone
            lease 1.2 gone
            a waits: backoff back-off for 0ns, tried 0
              backoff back-off: 1 times, 0ns
            9.517021s: ready b
            9.517021s: granted b -> n1 token=1.3
            11.861269s: ready a
            11.861269s: granted a -> n1 token=1.4
            12s: ended a token=1.4 failed_retryable (exit) -> scheduled [exit]
            12s: lease 1.4 gone
            14.517021s: revoked 1.3 unanswered
            33s: ended b token=1.3 returned (undelivered) -> queued [its first lease ended without a word from its node]
            33s: granted b -> n1 token=1.5
            38s: revoked 1.5 unanswered
            44.357235s: ready a
            44.357235s: granted a -> n1 token=1.6
        "#]],
    );
}

#[test]
fn a_job_may_ask_for_a_later_retry_but_for_no_more_than_a_day() {
    check(
        "
        kind k retry=10s max_failures=9
        node n1
        enqueue a kind=k
        enqueue b kind=k
        enqueue c kind=k
        tick
        run a
        run b
        run c
        finish a fail retry_after=5s
        finish b fail retry_after=30s
        finish c fail retry_after=9999h
        reaped a
        reaped b
        reaped c
        advance 10s
        advance 20s
        mute n1
        advance 23h59m29s
        advance 1s
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            ended a token=1.1 failed_retryable (exit) -> scheduled [exit]
            ended b token=1.2 failed_retryable (exit) -> scheduled [exit]
            ended c token=1.3 failed_retryable (exit) -> scheduled [exit]
            lease 1.1 gone
            lease 1.2 gone
            lease 1.3 gone
            10s: ready a
            10s: granted a -> n1 token=1.4
            15s: revoked 1.4 unanswered
            30s: ready b
            30s: granted b -> n1 token=1.5
            35s: revoked 1.5 unanswered
            38s: ended a token=1.4 returned (undelivered) -> queued [its first lease ended without a word from its node]
            38s: deferred a unanswered: n1 behind with its messages (1 grants unanswered)
            42s: suspect n1
            42s: deferred a suspect: n1 silent
            53s: ended b token=1.5 returned (undelivered) -> queued [its first lease ended without a word from its node]
            53s: deferred a suspect: n1 silent
            86400s: ready c
        "#]],
    );
}

#[test]
fn a_permanent_error_or_exit_code_is_the_end() {
    check(
        "
        kind k
        node n1
        enqueue a kind=k
        enqueue b kind=k
        enqueue c kind=k
        tick
        run a
        run b
        run c
        finish a permanent error=bad-input
        finish b fail code=65
        finish c fail code=75
        job a
        job b
        job c
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            ended a token=1.1 failed_permanent (exit) -> dead [bad-input]
            ended b token=1.2 failed_permanent (exit) -> dead [exit]
            ended c token=1.3 failed_retryable (exit) -> scheduled [exit]
            a dead round=1 attempt=2 failures=1 [bad-input]
            b dead round=1 attempt=2 failures=1 [exit]
            c scheduled round=1 attempt=2 failures=1 [exit]
        "#]],
    );
}

#[test]
fn losses_have_a_cap_of_their_own_and_no_back_off() {
    check(
        "
        kind k max_losses=2 max_failures=2
        node n1
        enqueue a kind=k
        tick
        run a
        finish a fail
        reaped a
        advance 10s
        run a
        reaped a      # Reaped without an outcome: nobody knows how it ended.
        job a
        tick
        run a
        finish a lost
        reaped a
        job a
        attempts a
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 failed_retryable (exit) -> scheduled [exit]
            lease 1.1 gone
            10s: ready a
            10s: granted a -> n1 token=1.2
            10s: ended a token=1.2 lost (reaped) -> queued [its processes are gone and nobody knows how it ended]
            10s: a queued round=1 attempt=3 failures=1 losses=1 [its processes are gone and nobody knows how it ended]
            10s:   waited back-off: 1 times, 10s
            10s: granted a -> n1 token=1.3
            10s: ended a token=1.3 lost (shim_died) -> dead [shim_died]
            10s: lease 1.3 gone
            10s: a dead round=1 attempt=4 failures=1 losses=2 [shim_died]
            10s:   waited back-off: 1 times, 10s
            10s: a round=1 attempt=1 1.1 on n1: failed_retryable exit
            10s: a round=1 attempt=2 1.2 on n1: lost reaped its processes are gone and nobody knows how it ended
            10s: a round=1 attempt=3 1.3 on n1: lost shim_died
        "#]],
    );
}

#[test]
fn returns_are_free_and_back_off_from_the_fifth_in_a_row() {
    check(
        "
        kind k retry=10s,60s
        node n1
        enqueue a kind=k
        tick
        return a rule=draining
        tick
        return a rule=draining
        tick
        return a rule=draining
        tick
        return a rule=draining
        tick
        return a rule=draining
        advance 10s
        return a rule=draining
        job a
        advance 60s
        run a
        return a rule=cut_off started
        job a
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 returned (draining) -> queued [returned by its node: draining]
            granted a -> n1 token=1.2
            ended a token=1.2 returned (draining) -> queued [returned by its node: draining]
            granted a -> n1 token=1.3
            ended a token=1.3 returned (draining) -> queued [returned by its node: draining]
            granted a -> n1 token=1.4
            ended a token=1.4 returned (draining) -> queued [returned by its node: draining]
            granted a -> n1 token=1.5
            ended a token=1.5 returned (draining) -> scheduled [returned by its node: draining]
            10s: ready a
            10s: granted a -> n1 token=1.6
            10s: ended a token=1.6 returned (draining) -> scheduled [returned by its node: draining]
            10s: a scheduled round=1 attempt=1 returns=6 [returned by its node: draining]
            10s:   waited back-off: 1 times, 10s
            70s: ready a
            70s: granted a -> n1 token=1.7
            70s: ended a token=1.7 returned (cut_off) -> scheduled [returned by its node: cut_off]
            70s: a scheduled round=1 attempt=1 returns=7 [returned by its node: cut_off]
            70s:   waited back-off: 2 times, 70s
        "#]],
    );
}

#[test]
fn another_end_between_them_starts_the_row_of_returns_anew() {
    check(
        "
        kind k retry=10s max_failures=9
        node n1
        enqueue a kind=k
        tick
        return a rule=draining
        tick
        return a rule=draining
        tick
        return a rule=draining
        tick
        return a rule=draining
        tick
        run a
        finish a fail
        reaped a
        advance 10s
        return a rule=draining
        tick
        job a
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 returned (draining) -> queued [returned by its node: draining]
            granted a -> n1 token=1.2
            ended a token=1.2 returned (draining) -> queued [returned by its node: draining]
            granted a -> n1 token=1.3
            ended a token=1.3 returned (draining) -> queued [returned by its node: draining]
            granted a -> n1 token=1.4
            ended a token=1.4 returned (draining) -> queued [returned by its node: draining]
            granted a -> n1 token=1.5
            ended a token=1.5 failed_retryable (exit) -> scheduled [exit]
            lease 1.5 gone
            10s: ready a
            10s: granted a -> n1 token=1.6
            10s: ended a token=1.6 returned (draining) -> queued [returned by its node: draining]
            10s: granted a -> n1 token=1.7
            10s: a running round=1 attempt=2 failures=1 returns=5 [returned by its node: draining]
            10s:   waited back-off: 1 times, 10s
        "#]],
    );
}

#[test]
fn a_loaded_back_off_is_no_longer_than_it_was_whatever_the_wall_clock_was_set_to() {
    check(
        "
        kind k retry=30s
        node n1
        enqueue a kind=k
        tick
        run a
        advance 4s
        finish a fail
        reaped a
        wall -8760h
        reload
        hello n1
        advance 33s
        advance 1s
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            4s: ended a token=1.1 failed_retryable (exit) -> scheduled [exit]
            4s: lease 1.1 gone
            38s: ready a
            38s: granted a -> n1 token=2.1
        "#]],
    );
}

#[test]
fn a_back_off_that_was_stored_by_a_clock_ten_years_ahead_lasts_as_long_as_its_kind_says() {
    check(
        "
        kind k retry=30s
        node n1
        enqueue a kind=k
        tick
        run a
        wall +87600h
        finish a fail
        reaped a
        wall -87600h
        reload
        hello n1
        advance 29s
        advance 1s
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 failed_retryable (exit) -> scheduled [exit]
            lease 1.1 gone
            30s: ready a
            30s: granted a -> n1 token=2.1
        "#]],
    );
}
