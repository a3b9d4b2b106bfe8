//! Cancels: at once for what does not run, a wish that survives everything for what does.

use expect_test::expect;

use crate::support::check;

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
