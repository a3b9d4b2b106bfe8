//! Operators: cordon, drain, forget, and verbs said twice.

use expect_test::expect;

use crate::support::check;

#[test]
fn a_cordoned_node_keeps_what_runs_and_takes_nothing_new() {
    check(
        "
        kind k
        node n1
        enqueue a kind=k
        tick
        run a
        cordon n1
        cordon n1
        enqueue b kind=k
        tick
        why b
        reload
        hello n1
        tick
        uncordon n1
        uncordon n1
        tick
        cordon nowhere
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            n1 unchanged
            deferred b nodes_cordoned: n1 cordoned
            b waits: nodes_cordoned n1 cordoned for 0ns, tried 1
              nodes_cordoned n1 cordoned: 1 times, 0ns
            deferred b nodes_cordoned: n1 cordoned
            n1 unchanged
            granted b -> n1 token=2.1
            refused nowhere NODE_NOT_FOUND: node nowhere is not known, near []
        "#]],
    );
}

#[test]
fn a_drained_node_has_until_the_deadline_then_its_leases_are_wanted_back() {
    check(
        "
        kind k
        node n1
        enqueue a kind=k
        enqueue b kind=k
        tick
        run a
        run b
        show messages
        drain n1 60s
        drain n1 5s
        hide messages
        enqueue c kind=k
        tick
        why c
        done a
        advance 59s999999us
        advance 1us
        return b rule=revoked started
        job b
        tick
        uncordon n1
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            n1 < drain within 60s
            n1 unchanged
            deferred c draining: n1 draining
            c waits: draining n1 draining for 0ns, tried 1
              draining n1 draining: 1 times, 0ns
            ended a token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
            1s: deferred c draining: n1 draining
            30s: deferred c draining: n1 draining
            60s: revoked 1.2 drained
            60s: ended b token=1.2 returned (revoked) -> queued [returned by its node: revoked]
            60s: b queued round=1 attempt=1 returns=1 [returned by its node: revoked]
            60s: deferred b draining: n1 draining
            60s: granted b -> n1 token=1.3
            60s: granted c -> n1 token=1.4
        "#]],
    );
}

#[test]
fn a_drain_that_is_ended_is_told_as_over_once_and_its_deadline_is_forgotten() {
    check(
        "
        kind k
        node n1
        enqueue a kind=k
        tick
        run a
        drain n1 60s
        advance 40s
        show messages
        uncordon n1
        uncordon n1
        cordon n1
        uncordon n1
        drain n1 60s
        hide messages
        advance 59s
        advance 1s
        close n1
        uncordon n1
        hello n1
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            40s: n1 < drain over
            40s: n1 unchanged
            40s: n1 < drain within 60s
            100s: revoked 1.1 drained
        "#]],
    );
}

#[test]
fn a_draining_node_is_told_again_when_it_comes_back() {
    check(
        "
        kind k
        node n1
        close n1
        drain n1 60s
        show messages
        hello n1
        ",
        expect![[r#"
            n1 < welcome epoch=1 every=5s anchor=1
            n1 < drain within 60s
        "#]],
    );
}

#[test]
fn a_node_is_forgotten_when_it_is_gone_and_holds_nothing() {
    check(
        "
        slot n node
        kind k needs=n:1
        node n1 slots=n:1
        enqueue a kind=k
        tick
        run a
        forget n1
        done a
        forget n1
        close n1
        forget n1 check
        forget n1
        forget n1
        enqueue b kind=k
        tick
        advance 30s
        why b
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            refused n1 NODE_HOLDS_LEASES: node n1 still holds 1 leases
            ended a token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
            refused n1 NODE_CONNECTED: node n1 is connected
            node n1 forgotten
            refused n1 NODE_NOT_FOUND: node n1 is not known, near []
            deferred b no_matching_node: no node runs this kind
            30s: deferred b no_matching_node: no node runs this kind
            30s: b waits: no_matching_node no node runs this kind for 30s, tried 2
            30s:   no_matching_node no node runs this kind: 2 times, 30s
        "#]],
    );
}

#[test]
fn a_lost_node_is_forgotten_with_its_leases_as_losses() {
    check(
        "
        slot n node
        kind k needs=n:1
        node n1 slots=n:3
        node n2 slots=n:1
        cordon n2
        enqueue a kind=k
        enqueue b kind=k
        enqueue c kind=k
        tick
        run a
        run b
        finish b ok
        uncordon n2
        forget n1 lost check
        forget n1 lost
        tick
        job a
        job b
        finish a ok token=1.1 node=n1
        show messages
        hello n1
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            ended b token=1.2 succeeded (exit) -> succeeded
            n1 held 3 leases
            ended a token=1.1 lost (node_forgotten) -> queued [an operator declared the node lost]
            lease 1.2 gone
            ended c token=1.3 lost (node_forgotten) -> queued [an operator declared the node lost]
            node n1 forgotten
            n1 held 3 leases
            session 1 of n1 is closed: NODE_FORGOTTEN
            granted a -> n2 token=1.4
            deferred c slot_busy: slot n on n2 1/1
            a running round=1 attempt=2 losses=1 [an operator declared the node lost]
            b succeeded round=1 attempt=1
            refused a SUPERSEDED_SESSION: this session is superseded
            n1 < welcome epoch=1 every=5s anchor=1
            n1 < revoke 1.1 not_live, 1.2 not_live, 1.3 not_live
        "#]],
    );
}

#[test]
fn priorities_change_while_a_job_lives() {
    check(
        "
        kind k
        enqueue a kind=k
        enqueue b kind=k delay=1h
        priority a 5
        priority a 5
        priority b -5
        cancel a
        priority a 9
        job a
        job b
        priority nobody 1
        ",
        expect![[r#"
            reprioritized a 5
            a unchanged queued
            reprioritized b -5
            ended a -> cancelled [cancelled by request]
            refused a JOB_FINAL: job a is cancelled
            a cancelled round=1 attempt=1 priority=5 [cancelled by request]
            b scheduled round=1 attempt=1 priority=-5
            refused nobody JOB_NOT_FOUND: job nobody is not known
        "#]],
    );
}

#[test]
fn a_turn_that_fails_to_commit_never_happened() {
    check(
        "
        kind k
        node n1
        enqueue a kind=k
        begin
        enqueue b kind=k
        tick
        cancel a
        lose
        job a
        job b
        hello n1
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            cancel requested a
            revoked 1.1 cancelled
            a queued round=1 attempt=1
            b is not stored
            granted a -> n1 token=2.1
        "#]],
    );
}

#[test]
fn many_commands_of_one_turn_meet() {
    check(
        "
        kind k max_failures=1
        node n1
        begin
        enqueue a kind=k
        tick
        run a
        finish a fail
        reaped a
        requeue a
        cancel a
        delete a
        enqueue a kind=k payload=again
        tick
        commit
        job a
        attempts a
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 failed_retryable (exit) -> dead [exit]
            lease 1.1 gone
            requeued a round=2
            ended a -> cancelled [cancelled by request]
            deleted a
            granted a -> n1 token=1.2
            a running round=1 attempt=1
        "#]],
    );
}

#[test]
fn what_came_and_went_in_one_turn_leaves_no_row_to_delete() {
    check(
        "
        begin
        kind k
        drop kind k
        slot s 1
        drop slot s
        node n1
        forget n1 lost
        commit
        kind k
        slot s 1
        node n1
        begin
        drop kind k
        kind k
        drop slot s
        slot s node
        forget n1 lost
        node n1
        commit
        begin
        drop kind k
        kind k
        drop kind k
        drop slot s
        slot s 2
        drop slot s
        forget n1 lost
        node n1
        forget n1 lost
        commit
        ",
        expect![[r#"
            node n1 forgotten
            session 1 of n1 is closed: NODE_FORGOTTEN
            node n1 forgotten
            session 2 of n1 is closed: NODE_FORGOTTEN
            node n1 forgotten
            node n1 forgotten
            session 3 of n1 is closed: NODE_FORGOTTEN
            session 4 of n1 is closed: NODE_FORGOTTEN
        "#]],
    );
}
