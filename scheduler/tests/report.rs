//! Reports that come late, twice, or from the wrong one: what is still heard, and what changes nothing.

use expect_test::expect;

use crate::support::check;

/// One slot of a node, one of the fleet, leases of 100 s.
const FLEET: &str = "
    slot s 1
    slot n node
    kind k needs=s:1,n:1 lease=100s
    node n1 slots=n:1
    enqueue a kind=k
    tick
";

#[test]
fn a_late_report_that_is_still_the_newest_takes_the_loss_back() {
    check(
        &format!(
            "{FLEET}
            run a
            mute n1
            close n1
            advance 107s
            job a
            hello n1
            finish a ok
            job a
            attempts a
            reaped a
            "
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            107s: ended a token=1.1 lost (lease_expired) -> queued [its lease ended in silence]
            107s: deferred a suspect: n1 silent
            107s: a queued round=1 attempt=2 losses=1 [its lease ended in silence]
            107s: loss replaced a token=1.1 succeeded -> succeeded
            107s: a succeeded round=1 attempt=1
            107s:   waited n1 silent: 1 times, 0ns
            107s: a round=1 attempt=1 1.1 on n1: succeeded exit
            107s: lease 1.1 gone
        "#]],
    );
}

#[test]
fn a_late_failure_takes_the_loss_back_and_counts_as_a_failure() {
    check(
        &format!(
            "{FLEET}
            run a
            mute n1
            advance 107s
            beat n1
            finish a fail
            job a
            attempts a
            "
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            12s: suspect n1
            107s: ended a token=1.1 lost (lease_expired) -> queued [its lease ended in silence]
            107s: deferred a suspect: n1 silent
            107s: loss replaced a token=1.1 failed_retryable -> scheduled [exit]
            107s: a scheduled round=1 attempt=2 failures=1 [exit]
            107s:   waited n1 silent: 1 times, 0ns
            107s: a round=1 attempt=1 1.1 on n1: failed_retryable exit
        "#]],
    );
}

#[test]
fn a_late_return_or_loss_leaves_the_loss_as_it_is() {
    check(
        &format!(
            "{FLEET}
            run a
            mute n1
            advance 107s
            beat n1
            finish a revoked
            finish a lost
            return a rule=cut_off started
            job a
            "
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            12s: suspect n1
            107s: ended a token=1.1 lost (lease_expired) -> queued [its lease ended in silence]
            107s: deferred a suspect: n1 silent
            107s: n1 < Finished 1.1 LEASE_LOST EXPIRED (queued)
            107s: lease 1.1 gone
            107s: n1 < Returned 1.1 LEASE_LOST EXPIRED (queued)
            107s: a queued round=1 attempt=2 losses=1 [its lease ended in silence]
        "#]],
    );
}

#[test]
fn what_is_late_and_not_newest_is_lost_and_changes_nothing() {
    check(
        &format!(
            "{FLEET}
            node n2 slots=n:1
            run a
            mute n1
            advance 107s
            tick
            beat n1
            finish a ok token=1.1 node=n1
            return a token=1.1 node=n1 started
            reaped a token=1.1 node=n1
            job a
            run a
            done a
            job a
            "
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            12s: suspect n1
            107s: ended a token=1.1 lost (lease_expired) -> queued [its lease ended in silence]
            107s: granted a -> n2 token=1.2
            107s: n1 < Finished 1.1 LEASE_LOST STALE_TOKEN (running)
            107s: lease 1.1 gone
            107s: n1 < Returned 1.1 LEASE_LOST EXPIRED (running)
            107s: a running round=1 attempt=2 losses=1 [its lease ended in silence]
            107s: ended a token=1.2 succeeded (exit) -> succeeded
            107s: lease 1.2 gone
            107s: a succeeded round=1 attempt=2 losses=1
        "#]],
    );
}

#[test]
fn a_late_report_of_a_final_job_is_lost() {
    check(
        "
        slot n node
        kind k needs=n:1 lease=100s max_losses=1
        node n1 slots=n:3
        enqueue a kind=k
        enqueue b kind=k
        enqueue c kind=k
        tick
        run a
        run b
        run c
        mute n1
        cancel b
        advance 107s
        beat n1
        finish a ok
        finish b ok
        requeue c
        finish c ok
        job c
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            cancel requested b
            revoked 1.2 cancelled
            12s: suspect n1
            107s: ended a token=1.1 lost (lease_expired) -> dead [its lease ended in silence]
            107s: ended b token=1.2 cancelled (lease_expired) -> cancelled
            107s: ended c token=1.3 lost (lease_expired) -> dead [its lease ended in silence]
            107s: n1 < Finished 1.1 LEASE_LOST EXPIRED (dead)
            107s: n1 < Finished 1.2 LEASE_LOST CANCELLED (cancelled)
            107s: requeued c round=2
            107s: n1 < Finished 1.3 LEASE_LOST EXPIRED (queued)
            107s: c queued round=2 attempt=1
        "#]],
    );
}

#[test]
fn a_stale_token_another_node_or_another_job_is_lost_and_changes_nothing() {
    check(
        "
        kind k
        node n1
        enqueue a kind=k
        enqueue b kind=k
        tick
        node n2
        run a
        run b
        finish a ok token=1.9
        finish a ok node=n2
        reaped a node=n2
        return a node=n2
        finish a ok job=b
        reaped a job=b
        finish a ok job=never-there
        finish a ok via=99
        beat n1 via=99
        job a
        job b
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            n1 < Finished 1.9 LEASE_LOST STALE_TOKEN (running)
            n2 < Finished 1.1 LEASE_LOST STALE_TOKEN (running)
            n2 < Reaped 1.1 LEASE_LOST STALE_TOKEN (running)
            n2 < Returned 1.1 LEASE_LOST STALE_TOKEN (running)
            n1 < Finished 1.1 LEASE_LOST STALE_TOKEN (running)
            n1 < Reaped 1.1 LEASE_LOST STALE_TOKEN (running)
            n1 < Finished 1.1 LEASE_LOST STALE_TOKEN (no such job)
            refused a SUPERSEDED_SESSION: this session is superseded
            refused n1 SUPERSEDED_SESSION: this session is superseded
            a running round=1 attempt=1
            b running round=1 attempt=1
        "#]],
    );
}

#[test]
fn a_report_twice_is_answered_with_what_is_stored() {
    check(
        "
        kind k
        node n1
        enqueue a kind=k
        tick
        run a
        show messages
        finish a ok result
        finish a ok result
        reaped a
        reaped a
        finish a ok result
        delete a
        finish a ok result
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 succeeded (exit) -> succeeded
            n1 < Finished 1.1 Stored (succeeded)
            n1 < Finished 1.1 Stored (succeeded)
            lease 1.1 gone
            n1 < Reaped 1.1 Stored (succeeded)
            n1 < Reaped 1.1 Stored (succeeded)
            n1 < Finished 1.1 Stored (succeeded)
            deleted a
            n1 < Finished 1.1 LEASE_LOST STALE_TOKEN (no such job)
        "#]],
    );
}

#[test]
fn a_late_outcome_does_not_begin_before_its_grant() {
    check(
        "
        kind k retry=1s lease=10s
        node n1
        enqueue a kind=k
        tick
        run a
        advance 3s
        finish a fail
        reaped a
        advance 1s
        accepted a
        mute n1
        pause kind k hold
        advance 30s
        hello n1 stream=2
        finish a ok token=1.2
        job a
        attempts a
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            3s: ended a token=1.1 failed_retryable (exit) -> scheduled [exit]
            3s: lease 1.1 gone
            4s: ready a
            4s: granted a -> n1 token=1.2
            11s: suspect n1
            16.5s: ended a token=1.2 lost (lease_expired) -> queued [its lease ended in silence]
            16.5s: deferred a kind_paused: kind paused
            30s: deferred a kind_paused: kind paused
            34s: session 1 of n1 is closed: SUPERSEDED_SESSION
            34s: loss replaced a token=1.2 succeeded -> succeeded
            34s: a succeeded round=1 attempt=2 failures=1
            34s:   waited kind paused: 2 times, 17.5s
            34s:   waited back-off: 1 times, 1s
            34s: a round=1 attempt=1 1.1 on n1: failed_retryable exit
            34s: a round=1 attempt=2 1.2 on n1: succeeded exit
        "#]],
    );
}
