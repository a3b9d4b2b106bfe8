//! Back-off of a node for a kind whose jobs fail there one after the other.

use expect_test::expect;

use crate::support::check;

/// Nomad 25808: a node that failed every task at once was the emptiest and so the first to be offered the next.
#[test]
fn regress_nomad_25808_one_node_that_fails_every_attempt_does_not_eat_the_jobs() {
    check(
        "
        slot s node
        kind k needs=s:1 retry=1s max_failures=9
        node hole slots=s:9
        enqueue a kind=k
        enqueue b kind=k
        enqueue c kind=k
        tick
        node sound slots=s:1
        run a
        run b
        run c
        finish a fail
        reaped a
        finish b fail
        reaped b
        finish c fail
        reaped c
        enqueue d kind=k
        tick
        advance 2s
        run d
        done d
        tick
        run a
        enqueue e kind=k
        enqueue f kind=k
        # Units for all of them are free there, and one is tried.
        advance 8s
        why c
        ",
        expect![[r#"
            granted a -> hole token=1.1
            granted b -> hole token=1.2
            granted c -> hole token=1.3
            ended a token=1.1 failed_retryable (exit) -> scheduled [exit]
            lease 1.1 gone
            ended b token=1.2 failed_retryable (exit) -> scheduled [exit]
            lease 1.2 gone
            ended c token=1.3 failed_retryable (exit) -> scheduled [exit]
            hole backs off k for 10s
            lease 1.3 gone
            granted d -> sound token=1.4
            1s: ready a
            1s: ready b
            1s: ready c
            1s: deferred a slot_busy: slot s on sound 1/1
            2s: ended d token=1.4 succeeded (exit) -> succeeded
            2s: lease 1.4 gone
            2s: granted a -> sound token=1.5
            2s: deferred b slot_busy: slot s on sound 1/1
            10s: granted b -> hole token=1.6
            10s: c waits: slot_busy slot s on sound 1/1 for 9s, tried 2
            10s:   slot_busy slot s on sound 1/1: 2 times, 9s
            10s:   backoff back-off: 1 times, 1s
        "#]],
    );
}

#[test]
fn waits_double_and_one_job_is_tried_at_a_time_until_one_succeeds() {
    check(
        "
        slot s node
        kind k needs=s:1 retry=1h
        node n1 slots=s:9
        enqueue a kind=k
        enqueue b kind=k
        enqueue c kind=k
        enqueue d kind=k
        tick
        run a
        run b
        run c
        run d
        finish a fail
        finish b timeout
        finish c lost
        # It was granted before the wait began: nothing new.
        finish d fail
        reaped a
        reaped b
        reaped c
        reaped d
        enqueue e kind=k
        enqueue f kind=k
        enqueue g kind=k
        tick
        why e
        advance 10s
        run c
        finish c fail
        reaped c
        advance 9s
        advance 11s
        run e
        finish e ok
        reaped e
        tick
        run f
        finish f fail
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            granted d -> n1 token=1.4
            ended a token=1.1 failed_retryable (exit) -> scheduled [exit]
            ended b token=1.2 timed_out (limit) -> scheduled [limit]
            ended c token=1.3 lost (shim_died) -> queued [shim_died]
            n1 backs off k for 10s
            ended d token=1.4 failed_retryable (exit) -> scheduled [exit]
            lease 1.1 gone
            lease 1.2 gone
            lease 1.3 gone
            lease 1.4 gone
            deferred c node_backoff: n1 backs off after failures
            e waits: node_backoff n1 backs off after failures for 0ns, tried 1
              node_backoff n1 backs off after failures: 1 times, 0ns
            10s: granted c -> n1 token=1.5
            10s: deferred e node_backoff: n1 backs off after failures
            10s: ended c token=1.5 failed_retryable (exit) -> scheduled [exit]
            10s: n1 backs off k for 10s
            10s: lease 1.5 gone
            11s: deferred e node_backoff: n1 backs off after failures
            20s: granted e -> n1 token=1.6
            20s: deferred f node_backoff: n1 backs off after failures
            25s: revoked 1.6 unanswered
            30s: granted f -> n1 token=1.7
            30s: deferred g node_backoff: n1 backs off after failures
            30s: ended e token=1.6 succeeded (exit) -> succeeded
            30s: lease 1.6 gone
            30s: granted g -> n1 token=1.8
            30s: ended f token=1.7 failed_retryable (exit) -> scheduled [exit]
        "#]],
    );
}

/// A kind whose back-off is switched off is offered again at once.
#[test]
fn switched_off_it_ends_the_waits_that_there_are() {
    check(
        "
        slot s node
        kind k needs=s:1 max_failures=9
        node n1 slots=s:9
        enqueue a kind=k
        enqueue b kind=k
        enqueue c kind=k
        tick
        run a
        finish a fail
        run b
        finish b fail
        run c
        finish c fail
        reaped a
        enqueue d kind=k
        tick
        kind k needs=s:1 max_failures=9 node_backoff=off
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            ended a token=1.1 failed_retryable (exit) -> scheduled [exit]
            ended b token=1.2 failed_retryable (exit) -> scheduled [exit]
            ended c token=1.3 failed_retryable (exit) -> scheduled [exit]
            n1 backs off k for 10s
            lease 1.1 gone
            deferred d node_backoff: n1 backs off after failures
            granted d -> n1 token=1.4
        "#]],
    );
}

/// What fails for good, asks for a later attempt itself, is cancelled or given back says nothing of the node; nor does one
/// job that fails again and again.
#[test]
fn only_failures_that_nothing_else_explains_count() {
    check(
        "
        slot s node
        kind k needs=s:1 retry=1s max_failures=9
        node n1 slots=s:9
        enqueue a kind=k
        enqueue b kind=k
        enqueue c kind=k
        enqueue d kind=k tenant=other
        enqueue e kind=k
        tick
        show struck
        run a
        finish a permanent
        run b
        finish b fail retry_after=1m
        run c
        cancel c
        finish c revoked
        return d rule=headroom
        run e
        finish e fail
        reaped e
        advance 2s
        run e
        finish e fail
        reaped e
        advance 2s
        run e
        finish e fail
        reaped e
        advance 2s
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted d -> n1 token=1.2
            granted b -> n1 token=1.3
            granted c -> n1 token=1.4
            granted e -> n1 token=1.5
            ended a token=1.1 failed_permanent (exit) -> dead [exit]
            ended b token=1.3 failed_retryable (exit) -> scheduled [exit]
            cancel requested c
            revoked 1.4 cancelled
            ended c token=1.4 cancelled (revoked) -> cancelled
            ended d token=1.2 returned (headroom) -> queued [returned by its node: headroom]
            masked k on n1 (headroom)
            ended e token=1.5 failed_retryable (exit) -> scheduled [exit]
            struck n1 k by e
            lease 1.5 gone
            1s: ready e
            1s: deferred d masked: returned by n1 (headroom)
            1s: granted e -> n1 token=1.6
            2s: ended e token=1.6 failed_retryable (exit) -> scheduled [exit]
            2s: struck n1 k by e
            2s: lease 1.6 gone
            3s: ready e
            3s: deferred d masked: returned by n1 (headroom)
            3s: granted e -> n1 token=1.7
            4s: ended e token=1.7 failed_retryable (exit) -> scheduled [exit]
            4s: struck n1 k by e
            4s: lease 1.7 gone
            5s: ready e
            5s: deferred d masked: returned by n1 (headroom)
            5s: granted e -> n1 token=1.8
        "#]],
    );
}

#[test]
fn other_kinds_and_other_nodes_go_on_and_every_node_in_backoff_is_a_reason() {
    check(
        "
        slot s node
        kind k needs=s:1 retry=1h
        kind other needs=s:1
        node n1 slots=s:3
        enqueue a kind=k
        enqueue b kind=k
        enqueue c kind=k
        tick
        run a
        run b
        run c
        finish a fail
        finish b fail
        finish c fail
        reaped a
        reaped b
        reaped c
        enqueue d kind=k
        enqueue o kind=other
        tick
        explain d
        # An operator vouches for it.
        uncordon n1
        uncordon n1
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            ended a token=1.1 failed_retryable (exit) -> scheduled [exit]
            ended b token=1.2 failed_retryable (exit) -> scheduled [exit]
            ended c token=1.3 failed_retryable (exit) -> scheduled [exit]
            n1 backs off k for 10s
            lease 1.1 gone
            lease 1.2 gone
            lease 1.3 gone
            deferred d node_backoff: n1 backs off after failures
            granted o -> n1 token=1.4
            d: n1 backs off after failures, 0 ahead
              It does not start: n1 backs off after failures.
              slot s on n1: needs 1 of 1/3
                o holds 1 for 0ns
              node n1: n1 backs off after failures
              > the back-off of node n1 ends (`tenure node uncordon n1` ends it at once), or another node can take it
            n1 unchanged
            granted d -> n1 token=1.5
        "#]],
    );
}

#[test]
fn failures_of_long_ago_count_half() {
    check(
        "
        slot s node
        kind k needs=s:1 retry=2h
        node n1 slots=s:9
        enqueue a kind=k
        enqueue b kind=k
        tick
        run a
        run b
        finish a fail
        finish b fail
        reaped a
        reaped b
        advance 31m
        enqueue c kind=k
        tick
        run c
        finish c fail
        reaped c
        enqueue d kind=k
        tick
        run d
        finish d fail
        reaped d
        enqueue e kind=k
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            ended a token=1.1 failed_retryable (exit) -> scheduled [exit]
            ended b token=1.2 failed_retryable (exit) -> scheduled [exit]
            lease 1.1 gone
            lease 1.2 gone
            1860s: granted c -> n1 token=1.3
            1860s: ended c token=1.3 failed_retryable (exit) -> scheduled [exit]
            1860s: lease 1.3 gone
            1860s: granted d -> n1 token=1.4
            1860s: ended d token=1.4 failed_retryable (exit) -> scheduled [exit]
            1860s: n1 backs off k for 10s
            1860s: lease 1.4 gone
            1860s: deferred e node_backoff: n1 backs off after failures
        "#]],
    );
}

/// A kind whose jobs fail as a matter of course says so in the fleet file. A new leader has forgotten all of it.
#[test]
fn it_can_be_switched_off_and_a_new_leader_begins_anew() {
    check(
        "
        slot s node
        kind k needs=s:1 retry=1h node_backoff=off
        kind l needs=s:1 retry=1h
        node n1 slots=s:9
        enqueue a kind=k
        enqueue b kind=k
        enqueue c kind=k
        enqueue d kind=l
        enqueue e kind=l
        enqueue f kind=l
        tick
        run a
        run b
        run c
        run d
        run e
        run f
        finish a fail
        finish b fail
        finish c fail
        finish d fail
        finish e fail
        finish f fail
        enqueue g kind=k
        enqueue h kind=l
        tick
        reload
        hello n1
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            granted d -> n1 token=1.4
            granted e -> n1 token=1.5
            granted f -> n1 token=1.6
            ended a token=1.1 failed_retryable (exit) -> scheduled [exit]
            ended b token=1.2 failed_retryable (exit) -> scheduled [exit]
            ended c token=1.3 failed_retryable (exit) -> scheduled [exit]
            ended d token=1.4 failed_retryable (exit) -> scheduled [exit]
            ended e token=1.5 failed_retryable (exit) -> scheduled [exit]
            ended f token=1.6 failed_retryable (exit) -> scheduled [exit]
            n1 backs off l for 10s
            granted g -> n1 token=1.7
            deferred h node_backoff: n1 backs off after failures
            granted h -> n1 token=2.1
        "#]],
    );
}
