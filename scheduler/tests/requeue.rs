//! Jobs that come back from the dead, and ids that are used anew.

use expect_test::expect;

use crate::support::check;

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
              It waits for 1 unit of slot n on one node (2/2 taken on 1 node).
              slot n on n1: needs 1 of 2/2
                a holds 1 for 0ns, unreaped
                b holds 1 for 0ns
              node n1: slot n on n1 2/2
              > 1 more unit of slot n on node n1 or another: holders end, or a node that runs kind k and offers n:1 joins
              > 2 leases hold slot n; they are listed
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
            5s: set aside a
        "#]],
    );
}

#[test]
fn a_requeued_job_leaves_its_key_to_one_that_kept_it_from_when_keys_were_retained() {
    check(
        "
        kind k dedupe=live
        enqueue a kind=k key=x
        cancel a                     # It gives its key up.
        kind k dedupe=retained
        enqueue b kind=k key=x
        cancel b                     # It keeps its key.
        kind k dedupe=live
        requeue a
        enqueue c kind=k key=x
        ",
        expect![[r#"
            ended a -> cancelled [cancelled by request]
            ended b -> cancelled [cancelled by request]
            requeued a round=2
            c deduplicated -> b cancelled
        "#]],
    );
}
