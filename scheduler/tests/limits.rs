//! Time limits in two steps: what a grant says of them, what a partial result is, and what an execution saves for the next.

use expect_test::expect;

use crate::support::check;

#[test]
fn a_grant_names_the_limits_and_a_job_may_only_shorten_them() {
    check(
        "
        kind k hard=60s soft=50s silence=20s
        kind plain hard=60s
        node n1
        show messages
        enqueue a kind=k
        enqueue b kind=k soft=51s
        enqueue c kind=k soft=10s hard=20s
        enqueue d kind=k soft=20s hard=20s
        enqueue e kind=plain soft=59s
        enqueue f kind=plain soft=60s
        enqueue g kind=k hard=50s
        tick
        ",
        expect![[r#"
            refused b INVALID_FIELD: job.soft_time_limit: may only shorten the kind's, which is 50 s
            refused d INVALID_FIELD: job.soft_time_limit: must be below the hard limit, which is 20 s
            refused f INVALID_FIELD: job.soft_time_limit: must be below the hard limit, which is 60 s
            granted a -> n1 token=1.1
            granted c -> n1 token=1.2
            granted e -> n1 token=1.3
            granted g -> n1 token=1.4
            n1 < grant a 1.1 attempt=1 lease=120s first=20s window=10s hard=60s soft=50s silence=20s stale_in=None anchor=1
            n1 < grant c 1.2 attempt=1 lease=120s first=20s window=10s hard=20s soft=10s silence=20s stale_in=None anchor=1
            n1 < grant e 1.3 attempt=1 lease=120s first=20s window=10s hard=60s soft=59s stale_in=None anchor=1
            n1 < grant g 1.4 attempt=1 lease=120s first=20s window=10s hard=50s silence=20s stale_in=None anchor=1
        "#]],
    );
}

#[test]
fn a_stalled_attempt_is_a_failure_and_counts_towards_the_cap() {
    check(
        "
        kind k retry=10s max_failures=2
        node n1
        enqueue a kind=k
        tick
        run a
        finish a stalled error=silent
        reaped a
        advance 10s
        run a
        finish a stalled result partial
        reaped a
        job a
        attempts a
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 stalled (stalled) -> scheduled [silent]
            lease 1.1 gone
            10s: ready a
            10s: granted a -> n1 token=1.2
            10s: ended a token=1.2 partial stalled (stalled) -> dead [stalled]
            10s: lease 1.2 gone
            10s: a dead round=1 attempt=3 failures=2 [stalled]
            10s:   waited back-off: 1 times, 10s
            10s: a round=1 attempt=1 1.1 on n1: stalled stalled silent
            10s: a round=1 attempt=2 1.2 on n1: stalled stalled partial
        "#]],
    );
}

#[test]
fn a_partial_success_is_a_success_that_says_so_and_keeps_its_row() {
    check(
        "
        kind k
        node n1
        enqueue a kind=k
        enqueue b kind=k
        enqueue c kind=k
        tick
        run a
        finish a ok result partial
        reaped a
        run b
        finish b ok partial
        reaped b
        run c
        finish c ok result
        reaped c
        job a
        job b
        attempts a
        attempts b
        attempts c
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            ended a token=1.1 partial succeeded (exit) -> succeeded [its result is partial: it had been asked to wrap up]
            lease 1.1 gone
            ended b token=1.2 succeeded (exit) -> succeeded
            lease 1.2 gone
            ended c token=1.3 succeeded (exit) -> succeeded
            lease 1.3 gone
            a succeeded round=1 attempt=1 [its result is partial: it had been asked to wrap up]
            b succeeded round=1 attempt=1
            a round=1 attempt=1 1.1 on n1: succeeded exit partial
        "#]],
    );
}

#[test]
fn what_a_time_limit_left_is_kept_and_what_others_left_is_not() {
    check(
        "
        kind k retry=10s max_failures=9
        node n1
        enqueue a kind=k
        tick
        run a
        finish a timeout result partial saved=7
        reaped a
        advance 10s
        run a
        finish a lost result partial saved=8
        reaped a
        tick
        run a
        finish a fail result
        reaped a
        advance 10s
        run a
        cancel a
        finish a revoked result partial
        reaped a
        attempts a
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 partial timed_out (limit) -> scheduled [limit]
            lease 1.1 gone
            10s: ready a
            10s: granted a -> n1 token=1.2
            10s: ended a token=1.2 lost (shim_died) -> queued [shim_died]
            10s: lease 1.2 gone
            10s: granted a -> n1 token=1.3
            10s: ended a token=1.3 failed_retryable (exit) -> scheduled [exit]
            10s: lease 1.3 gone
            20s: ready a
            20s: granted a -> n1 token=1.4
            20s: cancel requested a
            20s: revoked 1.4 cancelled
            20s: ended a token=1.4 cancelled (revoked) -> cancelled
            20s: lease 1.4 gone
            20s: a round=1 attempt=1 1.1 on n1: timed_out limit partial saved=7
            20s: a round=1 attempt=2 1.2 on n1: lost shim_died saved=8
            20s: a round=1 attempt=3 1.3 on n1: failed_retryable exit
            20s: a round=1 attempt=4 1.4 on n1: cancelled revoked
        "#]],
    );
}

#[test]
fn a_checkpoint_is_kept_while_its_lease_is_live_and_by_the_end_of_it() {
    check(
        "
        kind k retry=10s max_failures=9
        node n1
        enqueue a kind=k
        tick
        run a
        checkpoint a saved=100
        checkpoint a saved=200
        return a rule=draining started
        tick
        run a
        checkpoint a saved=300
        finish a timeout
        checkpoint a saved=400
        reaped a
        checkpoint a saved=500
        advance 10s
        run a
        finish a ok saved=600
        reaped a
        attempts a
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            checkpoint of a token=1.1 bytes=100
            checkpoint of a token=1.1 bytes=200
            ended a token=1.1 returned (draining) -> queued [returned by its node: draining]
            granted a -> n1 token=1.2
            checkpoint of a token=1.2 bytes=300
            ended a token=1.2 timed_out (limit) -> scheduled [limit]
            lease 1.2 gone
            10s: ready a
            10s: granted a -> n1 token=1.3
            10s: ended a token=1.3 succeeded (exit) -> succeeded
            10s: lease 1.3 gone
            10s: a round=1 attempt=1 1.1 on n1: returned draining saved=200 returned by its node: draining
            10s: a round=1 attempt=1 1.2 on n1: timed_out limit saved=300
            10s: a round=1 attempt=2 1.3 on n1: succeeded exit
        "#]],
    );
}

#[test]
fn of_a_lost_execution_the_checkpoint_that_came_last_is_known() {
    check(
        "
        kind k lease=10s max_losses=9
        node n1
        enqueue a kind=k
        enqueue b kind=k
        tick
        run a
        checkpoint a saved=100
        run b
        checkpoint b saved=100
        mute n1
        advance 20s
        attempts a
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            checkpoint of a token=1.1 bytes=100
            checkpoint of b token=1.2 bytes=100
            7s: suspect n1
            12.5s: ended a token=1.1 lost (lease_expired) -> queued [its lease ended in silence]
            12.5s: ended b token=1.2 lost (lease_expired) -> queued [its lease ended in silence]
            12.5s: deferred a suspect: n1 silent
            20s: a round=1 attempt=1 1.1 on n1: lost lease_expired saved=100 its lease ended in silence
        "#]],
    );
}

#[test]
fn what_is_given_back_leaves_what_it_had_unless_it_never_started_or_was_cancelled() {
    check(
        "
        kind ran
        kind refused
        kind cancelled
        node n1
        enqueue a kind=ran
        enqueue b kind=refused
        enqueue c kind=cancelled
        tick
        run a
        return a rule=cut_off started result
        return b rule=headroom result
        run c
        cancel c
        return c rule=revoked started result
        attempts a
        attempts b
        attempts c
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            ended a token=1.1 partial returned (cut_off) -> queued [returned by its node: cut_off]
            ended b token=1.2 returned (headroom) -> queued [returned by its node: headroom]
            masked refused on n1 (headroom)
            cancel requested c
            revoked 1.3 cancelled
            ended c token=1.3 cancelled (revoked) -> cancelled
            a round=1 attempt=1 1.1 on n1: returned cut_off partial returned by its node: cut_off
            b round=1 attempt=1 1.2 on n1: returned headroom returned by its node: headroom
            c round=1 attempt=1 1.3 on n1: cancelled revoked returned by its node: revoked
        "#]],
    );
}
