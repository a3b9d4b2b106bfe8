//! Rules of the session that no other module tells: how a return is charged, what a suspect node gets, and each cause of a
//! lost lease.

use expect_test::expect;

use crate::support::check;

/// Rule 2 (a): whatever the node says why, and whether it had started.
#[test]
fn what_a_node_returns_charges_neither_failure_nor_loss() {
    check(
        "
        kind k
        node n1
        enqueue a kind=k
        tick
        return a rule=draining
        tick
        run a
        return a rule=drained started
        job a
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 returned (draining) -> queued [returned by its node: draining]
            granted a -> n1 token=1.2
            ended a token=1.2 returned (drained) -> queued [returned by its node: drained]
            a queued round=1 attempt=1 returns=2 [returned by its node: drained]
        "#]],
    );
}

/// Rule 5: two intervals and two seconds. Any word of it ends that.
#[test]
fn a_silent_node_is_suspect_gets_nothing_and_is_trusted_at_its_next_word() {
    check(
        "
        kind k
        node n1
        enqueue a kind=k
        tick
        run a
        mute n1
        advance 11s999999us
        advance 1us
        enqueue b kind=k
        tick
        progress a
        tick
        mute n1
        advance 12s
        beat n1
        enqueue c kind=k
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            12s: suspect n1
            12s: deferred b suspect: n1 silent
            12s: granted b -> n1 token=1.2
            17s: revoked 1.2 unanswered
            24s: suspect n1
            24s: granted c -> n1 token=1.3
        "#]],
    );
}

/// Rule 8: of the job's present round only. An operator who takes a job back wants it to run again.
#[test]
fn a_late_report_of_an_earlier_round_is_lost() {
    check(
        "
        kind k max_losses=1
        node n1
        enqueue a kind=k
        tick
        run a
        mute n1
        advance 128s
        cordon n1
        requeue a
        beat n1
        finish a ok token=1.1 node=n1
        job a
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            12s: suspect n1
            128s: ended a token=1.1 lost (lease_expired) -> dead [its lease ended in silence]
            128s: requeued a round=2
            128s: n1 < Finished 1.1 LEASE_LOST EXPIRED (queued)
            128s: a queued round=2 attempt=1
        "#]],
    );
}

/// A token that nobody granted or that another followed, a lease that ran out, a cancelled job, and a process of an instance
/// that another followed.
#[test]
fn a_lease_that_is_gone_is_told_with_its_cause() {
    check(
        "
        kind k
        kind c
        node n1
        enqueue a kind=k
        enqueue b kind=k
        enqueue d kind=k
        tick
        run a
        run b
        run d
        enqueue a1 kind=c parent=a run_at=1h
        park a children=a1 token=1.9
        cancel b
        park b children=a1
        mute n1
        close n1
        hello n1 instance=other inc=1
        park a children=a1
        advance 128s
        park d children=a1 token=1.3
        park a children=a1 token=1.1
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted d -> n1 token=1.3
            refused a LEASE_LOST: lease 1.9 is gone: STALE_TOKEN
            cancel requested b
            revoked 1.2 cancelled
            refused b LEASE_LOST: lease 1.2 is gone: CANCELLED
            lease 1.1 orphaned
            lease 1.2 orphaned
            lease 1.3 orphaned
            refused a LEASE_LOST: lease 1.1 is gone: SUPERSEDED_SESSION
            12s: suspect n1
            128s: ended a token=1.1 lost (lease_expired) -> queued [its lease ended in silence]
            128s: ended b token=1.2 cancelled (lease_expired) -> cancelled
            128s: ended d token=1.3 lost (lease_expired) -> queued [its lease ended in silence]
            128s: deferred a suspect: n1 silent
            128s: refused d LEASE_LOST: lease 1.3 is gone: EXPIRED
            128s: refused a LEASE_LOST: lease 1.1 is gone: EXPIRED
        "#]],
    );
}
