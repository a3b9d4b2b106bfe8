//! Jobs that are not worth starting any more.

use expect_test::expect;

use crate::support::check;

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
fn a_job_that_was_set_aside_does_not_expire_until_an_operator_frees_it() {
    check(
        "
        kind k stale_after=10s
        enqueue a kind=k
        enqueue b kind=k delay=5s
        aside a
        aside b
        advance 11s
        why a
        requeue a
        requeue b
        tick
        ",
        expect![[r#"
            set aside a
            set aside b
            11s: a waits: broken set aside for 11s, tried 0
            11s:   broken set aside: 1 times, 11s
            11s: requeued a round=1
            11s: requeued b round=1
            11s: ended a -> expired [not started within its stale_after]
            11s: ended b -> expired [not started within its stale_after]
        "#]],
    );
}
