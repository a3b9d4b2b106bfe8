//! Sessions: which stream of a node wins, and what becomes of the leases that a Hello lists, or does not.

use expect_test::expect;

use crate::support::check;

/// Two nodes; one holds two jobs with leases of 100 s.
pub(crate) const HOLDER: &str = "
    slot f 2
    slot n node
    kind k needs=f:1,n:1 lease=100s
    node n1 slots=n:2
    enqueue a kind=k
    enqueue b kind=k
    tick
    run a
    run b
";

#[test]
fn a_newer_stream_of_the_same_agent_closes_the_older_one_and_keeps_what_it_lists() {
    check(
        &format!(
            "{HOLDER}
            mute n1
            advance 10s
            show messages
            show renewed
            hello n1
            beat n1 via=1
            "
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            10s: renewed 1.1 for 107s
            10s: renewed 1.2 for 107s
            10s: session 1 of n1 is closed: SUPERSEDED_SESSION
            10s: n1 < welcome epoch=1 every=5s anchor=1 1.1 for 100s 1.2 for 100s
            10s: refused n1 SUPERSEDED_SESSION: this session is superseded
        "#]],
    );
}

#[test]
fn an_older_or_equal_stream_is_refused() {
    check(
        &format!(
            "{HOLDER}
            hello n1 inc=1 stream=1
            hello n1 inc=2 stream=1
            hello n1 inc=1 stream=9
            hello n1 inc=2 stream=2
            "
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            refused n1 SUPERSEDED_SESSION: this session is superseded
            session 1 of n1 is closed: SUPERSEDED_SESSION
            refused n1 SUPERSEDED_SESSION: this session is superseded
            session 3 of n1 is closed: SUPERSEDED_SESSION
        "#]],
    );
}

#[test]
fn what_a_hello_lists_and_the_server_does_not_know_is_stopped_and_stays_charged() {
    check(
        &format!(
            "{HOLDER}
            mute n1
            close n1
            advance 107s
            show messages
            hello n1
            tick
            explain a
            reaped a
            tick
            "
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            107s: ended a token=1.1 lost (lease_expired) -> queued [its lease ended in silence]
            107s: ended b token=1.2 lost (lease_expired) -> queued [its lease ended in silence]
            107s: deferred a suspect: n1 silent
            107s: n1 < welcome epoch=1 every=5s anchor=1
            107s: n1 < revoke 1.1 not_live, 1.2 not_live
            107s: deferred a slot_busy: slot n on n1 2/2
            107s: a: slot n on n1 2/2, 0 ahead
            107s:   It waits for 1 unit of slot n on one node (2/2 taken on 1 node).
            107s:   slot f: needs 1 of 0/2
            107s:   slot n on n1: needs 1 of 2/2
            107s:     a holds 1 for 107s, unreaped
            107s:     b holds 1 for 107s, unreaped
            107s:   node n1: slot n on n1 2/2
            107s:   > 1 more unit of slot n on node n1 or another: holders end, or a node that runs kind k and offers n:1 joins
            107s:   > 2 leases hold slot n; they are listed
            107s: lease 1.1 gone
            107s: n1 < Reaped 1.1 Stored (queued)
            107s: granted a -> n1 token=1.3
            107s: deferred b slot_busy: slot n on n1 2/2
            107s: n1 < grant a 1.3 attempt=2 lease=100s first=20s window=10s hard=3600s stale_in=None anchor=2
        "#]],
    );
}

#[test]
fn what_a_hello_does_not_list_and_did_not_start_is_a_return() {
    check(
        "
        slot n node
        kind k needs=n:1
        node n1 slots=n:2
        enqueue a kind=k
        enqueue b kind=k
        tick
        accepted b
        forget-held n1
        hello n1
        job a
        job b
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            ended a token=1.1 returned (undelivered) -> queued [its node came back and had not received it]
            ended b token=1.2 returned (undelivered) -> queued [its node came back and had not received it]
            session 1 of n1 is closed: SUPERSEDED_SESSION
            a queued round=1 attempt=1 returns=1 [its node came back and had not received it]
            b queued round=1 attempt=1 returns=1 [its node came back and had not received it]
            granted a -> n1 token=1.3
            granted b -> n1 token=1.4
        "#]],
    );
}

#[test]
fn what_a_hello_does_not_list_and_had_started_is_a_loss() {
    check(
        &format!(
            "{HOLDER}
            forget-held n1
            hello n1 inc=2
            job a
            tick
            "
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            ended a token=1.1 lost (not_listed) -> queued [its node came back without it]
            ended b token=1.2 lost (not_listed) -> queued [its node came back without it]
            session 1 of n1 is closed: SUPERSEDED_SESSION
            a queued round=1 attempt=2 losses=1 [its node came back without it]
            granted a -> n1 token=1.3
            granted b -> n1 token=1.4
        "#]],
    );
}

#[test]
fn what_a_hello_does_not_list_and_was_finished_is_reaped() {
    check(
        &format!(
            "{HOLDER}
            finish a ok
            forget-held n1
            hello n1
            job a
            "
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            ended a token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
            ended b token=1.2 lost (not_listed) -> queued [its node came back without it]
            session 1 of n1 is closed: SUPERSEDED_SESSION
            a succeeded round=1 attempt=1
        "#]],
    );
}

#[test]
fn an_unstored_report_keeps_its_lease_for_one_lease_more_without_slots() {
    check(
        &format!(
            "{HOLDER}
            enqueue c kind=k
            enqueue d kind=k
            mute n1
            close n1
            spool a ok
            spool b ok
            forget-held n1
            show renewed
            hello n1
            hide renewed
            tick
            finish a ok
            job a
            advance 60s
            hello n1
            advance 46s999999us
            hello n1
            advance 1us
            job b
            "
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            slots of 1.1 freed
            renewed 1.1 for 107s
            slots of 1.2 freed
            renewed 1.2 for 107s
            granted c -> n1 token=1.3
            granted d -> n1 token=1.4
            ended a token=1.1 succeeded (exit) -> succeeded
            a succeeded round=1 attempt=1
            5s: revoked 1.3 unanswered
            5s: revoked 1.4 unanswered
            12s: suspect n1
            23s: ended c token=1.3 returned (undelivered) -> queued [its first lease ended without a word from its node]
            23s: ended d token=1.4 returned (undelivered) -> queued [its first lease ended without a word from its node]
            23s: deferred c suspect: n1 silent
            30s: deferred c suspect: n1 silent
            60s: session 2 of n1 is closed: SUPERSEDED_SESSION
            61s: deferred c slot_busy: slot n on n1 2/2
            72s: suspect n1
            72s: deferred c suspect: n1 silent
            106.999999s: session 3 of n1 is closed: SUPERSEDED_SESSION
            107s: ended b token=1.2 lost (lease_expired) -> queued [its lease ended in silence]
            107s: deferred b slot_busy: slot n on n1 2/2
            107s: b queued round=1 attempt=2 losses=1 [its lease ended in silence]
        "#]],
    );
}

#[test]
fn an_unproven_lease_with_an_unstored_report_ends_as_a_loss() {
    check(
        "
        slot n node
        kind k needs=n:1 lease=100s
        node n1 slots=n:1
        enqueue a kind=k
        tick
        spool a ok
        forget-held n1
        hello n1
        mute n1
        advance 107s
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            slots of 1.1 freed
            session 1 of n1 is closed: SUPERSEDED_SESSION
            12s: suspect n1
            107s: ended a token=1.1 lost (lease_expired) -> queued [its lease ended in silence]
            107s: deferred a suspect: n1 silent
        "#]],
    );
}

#[test]
fn a_takeover_counts_as_hearing_those_that_may_hold_something() {
    check(
        &format!(
            "{HOLDER}
            node n2 slots=n:1
            reload
            hello n2 boot=boot-2 inc=2
            hello n1 boot=boot-2 inc=2
            advance 12s
            hello n1 boot=boot-2 inc=2
            "
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            refused n1 NODE_NAME_IN_USE: node name n1 is held by another live instance
            12s: lease 1.1 orphaned
            12s: lease 1.2 orphaned
        "#]],
    );
}

#[test]
fn a_node_gets_grants_again_once_its_hello_is_reconciled_after_a_takeover() {
    check(
        &format!(
            "{HOLDER}
            enqueue c kind=k
            capacity f 9
            reload
            tick
            show messages
            hello n1
            done a
            tick
            "
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            deferred c warming_up: server warming up
            n1 < welcome epoch=2 every=5s anchor=1 1.1 for 100s 1.2 for 100s
            ended a token=1.1 succeeded (exit) -> succeeded
            n1 < Finished 1.1 Stored (succeeded)
            lease 1.1 gone
            n1 < Reaped 1.1 Stored (succeeded)
            granted c -> n1 token=2.1
            n1 < grant c 2.1 attempt=1 lease=100s first=20s window=10s hard=3600s stale_in=None anchor=3
        "#]],
    );
}

#[test]
fn a_grant_that_was_committed_and_never_sent_is_given_back_at_hello() {
    check(
        "
        kind k
        node n1
        enqueue a kind=k
        deaf n1
        tick
        reload
        forget-held n1
        hearing n1
        hello n1
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 returned (undelivered) -> queued [its node came back and had not received it]
            granted a -> n1 token=2.1
        "#]],
    );
}

#[test]
fn a_node_that_cannot_be_believed_about_epochs_is_refused() {
    check(
        "
        kind k
        node n1
        hello n1 epoch=1001
        hello n1 epoch=1002
        ",
        expect![[r#"
            session 1 of n1 is closed: SUPERSEDED_SESSION
            refused n1 EPOCH_AHEAD: the node saw epoch 1002, which is too far ahead of 1
        "#]],
    );
}

#[test]
fn an_agent_that_leaves_gets_no_grants_and_keeps_its_leases() {
    check(
        "
        kind k
        node n1
        enqueue a kind=k
        tick
        run a
        leaving n1
        enqueue b kind=k
        tick
        why b
        close n1
        hello n1 inc=2
        tick
        job a
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            leaving n1
            deferred b draining: n1 draining
            b waits: draining n1 draining for 0ns, tried 1
              draining n1 draining: 1 times, 0ns
            granted b -> n1 token=1.2
            a running round=1 attempt=1
        "#]],
    );
}

#[test]
fn a_node_is_told_what_the_fleet_does_not_declare_and_how_often_to_speak() {
    check(
        "
        slot f 1
        kind slow lease=600s
        show messages
        node n1 slots=f:1,gone:2 kinds=slow,later
        kind later lease=10s
        tick
        kind later lease=12s
        kind later lease=12s hard=5m
        drop kind later
        ",
        expect![[r#"
            n1 < welcome epoch=1 every=5s anchor=1; slot f is a fleet slot; this node's units are ignored; slot gone is not declared by the fleet file; kind later is not declared by the fleet file
            n1 < configure every=2.5s
            n1 < configure every=3s
            n1 < configure every=5s
        "#]],
    );
}

#[test]
fn absurd_numbers_in_what_a_node_says_change_nothing_for_others() {
    check(
        "
        kind k
        node a-node-with-a-name-that-is-as-long-as-a-name-of-a-node-may-ever-be
        enqueue a kind=k
        tick
        beat a-node-with-a-name-that-is-as-long-as-a-name-of-a-node-may-ever-be seen=18446744073709551615 with=7.7
        started a elapsed=99999999d
        job a
        enqueue b kind=k
        tick
        ",
        expect![[r#"
            granted a -> a-node-with-a-name-that-is-as-long-as-a-name-of-a-node-may-ever-be token=1.1
            a running round=1 attempt=1
            granted b -> a-node-with-a-name-that-is-as-long-as-a-name-of-a-node-may-ever-be token=1.2
        "#]],
    );
}

#[test]
fn a_grant_that_an_earlier_stream_read_takes_a_credit_of_the_next_one() {
    check(
        "
        kind k
        node n1 credits=1
        enqueue a kind=k
        enqueue b kind=k
        tick
        hello n1
        tick
        why b
        accepted a
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            deferred b unanswered: n1 behind with its messages (1 grants unanswered)
            session 1 of n1 is closed: SUPERSEDED_SESSION
            deferred b unanswered: n1 behind with its messages (1 grants unanswered)
            b waits: unanswered n1 behind with its messages (1 grants unanswered) for 0ns, tried 2
              unanswered n1 behind with its messages (1 grants unanswered): 2 times, 0ns
            granted b -> n1 token=1.2
        "#]],
    );
}

/// Rule 10: many nodes that fall silent at once are cut off, and what they run goes on there. One that is heard and does
/// not list its lease, and one that falls silent alone, get nothing longer.
#[test]
fn leases_of_nodes_that_fall_silent_at_once_wait_longer_and_once() {
    check(
        "
        slot s node
        kind k needs=s:1 lease=60s
        node n1 slots=s:1
        node n2 slots=s:1
        node n3 slots=s:1
        node n4 slots=s:1
        node n5 slots=s:1
        enqueue a kind=k
        enqueue b kind=k
        enqueue c kind=k
        enqueue d kind=k
        enqueue e kind=k
        tick
        run a
        run b
        run c
        run d
        run e
        steady n5
        mute n1
        mute n2
        mute n3
        mute n4
        advance 60s
        hello n4
        steady n4
        beat n4
        advance 5s
        advance 2s
        close n3
        advance 10s
        hello n3
        advance 18s
        advance 2s
        mute n5
        advance 66s
        ",
        expect![[r#"
            granted a -> n3 token=1.1
            granted b -> n2 token=1.2
            granted c -> n5 token=1.3
            granted d -> n4 token=1.4
            granted e -> n1 token=1.5
            12s: suspect n1
            12s: suspect n2
            12s: suspect n3
            12s: suspect n4
            60s: session 4 of n4 is closed: SUPERSEDED_SESSION
            65s: spared 1.1: 3 of 5 nodes fell silent at once
            65s: spared 1.2: 3 of 5 nodes fell silent at once
            65s: spared 1.5: 3 of 5 nodes fell silent at once
            89s: suspect n3
            95s: ended b token=1.2 lost (lease_expired) -> queued [its lease ended in silence]
            95s: ended e token=1.5 lost (lease_expired) -> queued [its lease ended in silence]
            95s: deferred b slot_busy: slot s on n5 1/1
            107s: suspect n5
            107s: deferred b slot_busy: slot s on n4 1/1
            142s: ended a token=1.1 lost (lease_expired) -> queued [its lease ended in silence]
            160s: ended c token=1.3 lost (lease_expired) -> queued [its lease ended in silence]
        "#]],
    );
}
