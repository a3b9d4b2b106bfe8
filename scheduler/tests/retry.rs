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
fn a_requeue_begins_a_round_with_counters_at_zero_and_keeps_the_history() {
    check(
        "
        kind k max_failures=1
        node n1
        enqueue a kind=k
        tick
        run a
        finish a fail error=one
        reaped a
        job a
        requeue a
        job a
        tick
        run a
        finish a fail error=two
        reaped a
        attempts a
        health k
        reload
        requeue a
        hello n1
        tick
        run a
        done a
        job a
        attempts a
        requeue a
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 failed_retryable (exit) -> dead [one]
            lease 1.1 gone
            a dead round=1 attempt=2 failures=1 [one]
            requeued a round=2
            a queued round=2 attempt=1
            granted a -> n1 token=1.2
            ended a token=1.2 failed_retryable (exit) -> dead [two]
            lease 1.2 gone
            a round=1 attempt=1 1.1 on n1: failed_retryable exit one
            a round=2 attempt=1 1.2 on n1: failed_retryable exit two
            k Idle depth=0 scheduled=0 running=0 able=1 dead=2
            requeued a round=3
            granted a -> n1 token=2.1
            ended a token=2.1 succeeded (exit) -> succeeded
            lease 2.1 gone
            a succeeded round=3 attempt=1
            a round=1 attempt=1 1.1 on n1: failed_retryable exit one
            a round=2 attempt=1 1.2 on n1: failed_retryable exit two
            a round=3 attempt=1 2.1 on n1: succeeded exit
            refused a JOB_FINAL: job a is succeeded
        "#]],
    );
}

#[test]
fn a_requeue_of_a_live_job_changes_nothing() {
    check(
        "
        kind k
        enqueue a kind=k
        requeue a
        node n1
        tick
        requeue a
        requeue a force
        requeue nobody
        ",
        expect![[r#"
            a unchanged queued
            granted a -> n1 token=1.1
            a unchanged running
            a unchanged running
            refused nobody JOB_NOT_FOUND: job nobody is not known
        "#]],
    );
}

#[test]
fn a_requeued_job_waits_until_its_last_execution_is_gone() {
    check(
        "
        slot n node
        kind k needs=n:1 max_failures=1
        node n1 slots=n:2
        enqueue a kind=k
        tick
        run a
        finish a fail
        requeue a
        advance 3s
        why a
        requeue a
        reaped a
        tick
        job a
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 failed_retryable (exit) -> dead [exit]
            requeued a round=2
            3s: a waits: not_reaped earlier execution on n1 not gone for 3s, tried 0
            3s:   not_reaped earlier execution on n1 not gone: 1 times, 3s
            3s: a unchanged queued
            3s: lease 1.1 gone
            3s: granted a -> n1 token=1.2
            3s: a running round=2 attempt=1
            3s:   waited earlier execution on n1 not gone: 1 times, 3s
        "#]],
    );
}

#[test]
fn force_frees_a_job_from_a_process_that_will_not_die() {
    check(
        "
        slot n node
        kind k needs=n:1 max_failures=1
        node n1 slots=n:2
        enqueue a kind=k
        tick
        run a
        finish a fail
        requeue a
        requeue a force
        tick
        explain a
        run a
        done a
        enqueue b kind=k
        enqueue c kind=k
        tick
        explain c
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 failed_retryable (exit) -> dead [exit]
            requeued a round=2
            lease 1.1 unreaped
            granted a -> n1 token=1.2
            a: runs, 0 ahead
            ended a token=1.2 succeeded (exit) -> succeeded
            lease 1.2 gone
            granted b -> n1 token=1.3
            deferred c slot_busy: slot n on n1 2/2
            c: slot n on n1 2/2, 0 ahead
              slot n on n1: needs 1 of 2/2
                a holds 1 for 0ns, unreaped
                b holds 1 for 0ns
              node n1: slot n on n1 2/2
              > a holder of slot n ends, or a node with more of it joins
              > 2 leases hold slot n; they are listed
        "#]],
    );
}

#[test]
fn a_cancel_ends_what_does_not_run_at_once() {
    check(
        "
        kind k retry=10s
        node n1
        enqueue a kind=k
        enqueue b kind=k delay=1h
        enqueue c kind=k
        cancel a
        cancel b
        tick
        run c
        finish c fail
        cancel c
        cancel c
        reload
        cancel a
        cancel nobody
        advance 2h
        ",
        expect![[r#"
            ended a -> cancelled [cancelled by request]
            ended b -> cancelled [cancelled by request]
            granted c -> n1 token=1.1
            ended c token=1.1 failed_retryable (exit) -> scheduled [exit]
            ended c -> cancelled [cancelled by request]
            c unchanged cancelled
            a unchanged cancelled
            refused nobody JOB_NOT_FOUND: job nobody is not known
            128s: lease 1.1 gone
        "#]],
    );
}

#[test]
fn a_cancel_of_a_running_job_is_a_wish_that_survives_everything() {
    check(
        "
        kind k lease=100s
        node n1
        enqueue a kind=k
        enqueue b kind=k
        enqueue c kind=k
        enqueue d kind=k
        enqueue e kind=k
        tick
        run a
        run b
        run c
        show messages
        cancel a
        hide messages
        cancel a
        cancel b
        cancel c
        cancel d
        cancel e
        finish a ok
        finish b fail
        reaped c
        return d rule=draining
        mute n1
        advance 107s
        job a
        job b
        job e
        attempts b
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            granted d -> n1 token=1.4
            granted e -> n1 token=1.5
            cancel requested a
            revoked 1.1 cancelled
            n1 < revoke 1.1 cancelled
            a unchanged running
            cancel requested b
            revoked 1.2 cancelled
            cancel requested c
            revoked 1.3 cancelled
            cancel requested d
            revoked 1.4 cancelled
            cancel requested e
            revoked 1.5 cancelled
            ended a token=1.1 cancelled (exit) -> cancelled
            ended b token=1.2 cancelled (exit) -> cancelled
            ended c token=1.3 cancelled (reaped) -> cancelled
            ended d token=1.4 cancelled (draining) -> cancelled
            12s: suspect n1
            23s: ended e token=1.5 cancelled (undelivered) -> cancelled
            107s: lease 1.1 gone
            107s: lease 1.2 gone
            107s: a cancelled round=1 attempt=1 [cancelled by request]
            107s: b cancelled round=1 attempt=1 [cancelled by request]
            107s: e cancelled round=1 attempt=1 [cancelled by request]
            107s: b round=1 attempt=1 1.2 on n1: cancelled exit
        "#]],
    );
}

#[test]
fn a_success_that_was_stored_first_wins_over_a_cancel() {
    check(
        "
        kind k
        node n1
        enqueue a kind=k
        tick
        run a
        begin
        finish a ok
        cancel a
        commit
        reaped a
        cancel a
        job a
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 succeeded (exit) -> succeeded
            refused a JOB_FINAL: job a is succeeded
            lease 1.1 gone
            refused a JOB_FINAL: job a is succeeded
            a succeeded round=1 attempt=1
        "#]],
    );
}

#[test]
fn a_cancel_is_repeated_to_its_node_even_by_the_next_leader() {
    check(
        "
        kind k
        node n1
        enqueue a kind=k
        tick
        run a
        cancel a
        show messages
        beat n1
        reload
        hello n1
        beat n1
        finish a revoked
        reaped a
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            cancel requested a
            revoked 1.1 cancelled
            n1 < renewed anchor=4
            n1 < revoke 1.1 cancelled
            n1 < welcome epoch=2 every=5s anchor=1
            n1 < revoke 1.1 cancelled
            n1 < renewed anchor=2
            n1 < revoke 1.1 cancelled
            ended a token=1.1 cancelled (revoked) -> cancelled
            n1 < Finished 1.1 Stored (cancelled)
            lease 1.1 gone
            n1 < Reaped 1.1 Stored (cancelled)
        "#]],
    );
}

#[test]
fn a_stale_job_expires_while_it_waits_and_not_once_it_has_started() {
    check(
        "
        kind k stale_after=10s retry=30s
        node n1
        enqueue a kind=k
        tick
        run a
        pause kind k hold
        enqueue b kind=k
        advance 5s
        finish a fail
        reaped a
        advance 4s999999us
        advance 1us
        job b
        resume kind k
        advance 30s
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            1s: deferred b kind_paused: kind paused
            5s: ended a token=1.1 failed_retryable (exit) -> scheduled [exit]
            5s: lease 1.1 gone
            10s: ended b -> expired [not started within its stale_after]
            10s: b expired round=1 attempt=1 [not started within its stale_after]
            10s:   waited kind paused: 1 times, 9s
            35s: ready a
            35s: granted a -> n1 token=1.2
            40s: revoked 1.2 unanswered
        "#]],
    );
}

#[test]
fn a_job_that_comes_back_unstarted_after_its_time_expires() {
    check(
        "
        kind k stale_after=10s
        node n1
        enqueue a kind=k
        tick
        accepted a
        mute n1
        advance 11s
        return a rule=headroom
        tick
        job a
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            11s: ended a token=1.1 returned (headroom) -> queued [returned by its node: headroom]
            11s: masked k on n1 (headroom)
            11s: ended a -> expired [not started within its stale_after]
            11s: a expired round=1 attempt=1 returns=1 [not started within its stale_after]
        "#]],
    );
}

#[test]
fn what_is_stale_is_not_granted_whatever_its_timer_did() {
    check(
        "
        kind k stale_after=10s
        enqueue a kind=k
        wall +10s
        node n1
        tick
        ",
        expect![[r#"
            ended a -> expired [not started within its stale_after]
        "#]],
    );
}

#[test]
fn a_node_may_find_a_job_stale_but_only_one_that_can_be() {
    check(
        "
        kind k
        node n1
        enqueue a kind=k stale_after=1h
        enqueue b kind=k
        tick
        return a rule=stale
        return b rule=stale
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            ended a token=1.1 returned (stale) -> expired [not started within its stale_after, as its node found]
            ended b token=1.2 returned (stale) -> queued [returned by its node: stale]
        "#]],
    );
}

#[test]
fn results_are_kept_by_execution_and_swept_with_their_jobs() {
    check(
        "
        kind k
        node n1
        enqueue a kind=k
        enqueue b kind=k
        tick
        run a
        finish a ok result
        sweep a      # Its lease still lives.
        reaped a
        delete b
        delete a check
        sweep a b
        sweep a
        job a
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            ended a token=1.1 succeeded (exit) -> succeeded
            result dropped a token=1.1
            a swept 0 jobs, 1 results
            lease 1.1 gone
            refused b JOB_NOT_FINAL: job b is running, not final
            deleted a
            a swept 1 jobs, 0 results
            a swept 0 jobs, 0 results
            a is not stored
        "#]],
    );
}

#[test]
fn a_deleted_id_may_be_used_anew_and_waits_for_what_still_runs() {
    check(
        "
        kind k
        node n1
        enqueue a kind=k
        tick
        run a
        finish a ok
        begin
        delete a
        enqueue a kind=k payload=other
        commit
        tick
        why a
        reaped a
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 succeeded (exit) -> succeeded
            deleted a
            a waits: not_reaped earlier execution on n1 not gone for 0ns, tried 0
              not_reaped earlier execution on n1 not gone: 1 times, 0ns
            lease 1.1 gone
            granted a -> n1 token=1.2
        "#]],
    );
}

#[test]
fn a_job_that_was_set_aside_waits_for_an_operator() {
    check(
        "
        kind k
        node n1
        enqueue a kind=k
        enqueue b kind=k delay=1s
        aside a
        aside b
        advance 5s
        why a
        health k
        cancel b
        requeue a
        tick
        aside a
        ",
        expect![[r#"
            set aside a
            set aside b
            5s: a waits: broken set aside for 5s, tried 0
            5s:   broken set aside: 1 times, 5s
            5s: k Idle depth=0 scheduled=0 running=0 able=1
            5s: ended b -> cancelled [cancelled by request]
            5s: requeued a round=1
            5s: granted a -> n1 token=1.1
        "#]],
    );
}
