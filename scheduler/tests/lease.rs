//! Leases: how long they last to the microsecond, who may renew them, and what a stale token changes (nothing).

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
fn a_grant_says_the_whole_lease_the_first_one_and_the_start_window() {
    check(
        "
        kind long lease=600s
        kind short lease=10s
        node n1
        show messages
        enqueue a kind=long stale_after=1h
        enqueue b kind=short
        advance 2s
        tick
        ",
        expect![[r#"
            1s: granted a -> n1 token=1.1
            1s: granted b -> n1 token=1.2
            1s: n1 < grant a 1.1 attempt=1 lease=600s first=20s window=10s hard=3600s stale_in=Some(3599s) anchor=1
            1s: n1 < grant b 1.2 attempt=1 lease=10s first=10s window=5s hard=3600s stale_in=None anchor=1
        "#]],
    );
}

#[test]
fn an_unproven_lease_ends_as_a_return_and_charges_its_node_until_that_is_heard() {
    check(
        &format!(
            "{FLEET}
            mute n1
            deaf n1
            close n1
            advance 22s999999us
            advance 1us
            job a
            attempts a
            explain a
            hello n1
            tick
            "
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            23s: ended a token=1.1 returned (undelivered) -> queued [its first lease ended without a word from its node]
            23s: deferred a suspect: n1 silent
            23s: a queued round=1 attempt=1 returns=1 [its first lease ended without a word from its node]
            23s: a round=1 attempt=1 1.1 on n1: returned undelivered its first lease ended without a word from its node
            23s: a: n1 silent, 0 ahead
            23s:   It does not start: n1 silent.
            23s:   slot s: needs 1 of 0/1
            23s:   slot n on n1: needs 1 of 1/1
            23s:     a holds 1 for 23s, unreaped
            23s:   node n1: n1 silent
            23s:   > node n1 is heard again, or a node that runs kind k and offers n:1 joins
            23s:   > 1 lease holds slot n; it is listed
            23s: deferred a slot_busy: slot n on n1 1/1
        "#]],
    );
}

#[test]
fn a_lease_counts_whole_from_accepted_on_and_ends_after_its_length_a_twentieth_and_two_seconds() {
    check(
        &format!(
            "{FLEET}
            mute n1
            advance 3s
            show renewed
            accepted a
            advance 106s999999us
            advance 1us
            "
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            3s: renewed 1.1 for 107s
            15s: suspect n1
            110s: ended a token=1.1 lost (lease_expired) -> queued [its lease ended in silence]
            110s: deferred a suspect: n1 silent
        "#]],
    );
}

#[test]
fn one_heartbeat_renews_every_lease_that_it_lists() {
    check(
        "
        kind k lease=100s
        node n1
        enqueue a kind=k
        enqueue b kind=k
        tick
        run a
        run b
        mute n1
        advance 10s
        show renewed
        show messages
        beat n1
        advance 106s999999us
        hide messages
        advance 1us
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            10s: renewed 1.1 for 107s
            10s: renewed 1.2 for 107s
            10s: n1 < renewed anchor=6 1.1 for 100s 1.2 for 100s
            22s: suspect n1
            117s: ended a token=1.1 lost (lease_expired) -> queued [its lease ended in silence]
            117s: ended b token=1.2 lost (lease_expired) -> queued [its lease ended in silence]
            117s: deferred a suspect: n1 silent
        "#]],
    );
}

#[test]
fn until_accepted_a_heartbeat_renews_the_first_lease_only() {
    check(
        &format!(
            "{FLEET}
            mute n1
            show renewed
            show messages
            advance 2s
            beat n1
            accepted a
            beat n1
            "
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            2s: renewed 1.1 for 23s
            2s: n1 < renewed anchor=2 1.1 for 20s
            2s: renewed 1.1 for 107s
            2s: n1 < renewed anchor=4 1.1 for 100s
        "#]],
    );
}

#[test]
fn a_grant_without_an_answer_is_revoked_after_five_seconds() {
    check(
        &format!(
            "{FLEET}
            enqueue b kind=k needs=s:0
            mute n1
            deaf n1
            show messages
            advance 4s999999us
            advance 1us
            tick
            why b
            accepted a
            beat n1
            advance 17s999999us
            advance 1us
            "
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            1s: granted b -> n1 token=1.2
            1s: n1 < grant b 1.2 attempt=1 lease=100s first=20s window=10s hard=3600s stale_in=None anchor=1
            5s: revoked 1.1 unanswered
            5s: n1 < revoke 1.1 unanswered
            5s: b does not wait
            5s: n1 < renewed anchor=3
            5s: n1 < revoke 1.1 unanswered
            6s: revoked 1.2 unanswered
            6s: n1 < revoke 1.2 unanswered
            17s: suspect n1
            23s: ended a token=1.1 returned (undelivered) -> queued [its first lease ended without a word from its node]
            23s: deferred a suspect: n1 silent
        "#]],
    );
}

#[test]
fn nothing_is_granted_to_a_node_that_has_not_seen_its_revoke() {
    check(
        "
        kind k
        node n1
        enqueue a kind=k
        tick
        mute n1
        deaf n1
        advance 5s
        enqueue b kind=k
        tick
        beat n1 seen=2   # The Revoke is the third message.
        tick
        beat n1 seen=3
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            5s: revoked 1.1 unanswered
            5s: deferred b unanswered: n1 behind with its messages (1 grants unanswered)
            5s: granted b -> n1 token=1.2
        "#]],
    );
}

#[test]
fn a_covering_heartbeat_that_does_not_list_a_grant_gives_it_back() {
    check(
        &format!(
            "{FLEET}
            deaf n1
            forget-held n1
            mute n1
            beat n1 seen=1   # Welcome only.
            beat n1 seen=2   # Welcome and the grant.
            tick
            attempts a
            job a
            "
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 returned (undelivered) -> queued [its node had seen the grant and did not hold it]
            granted a -> n1 token=1.2
            a round=1 attempt=1 1.1 on n1: returned undelivered its node had seen the grant and did not hold it
            a running round=1 attempt=1 returns=1 [its node had seen the grant and did not hold it]
        "#]],
    );
}

#[test]
fn an_accepted_lease_that_a_heartbeat_does_not_list_is_not_given_back() {
    check(
        &format!(
            "{FLEET}
            accepted a
            forget-held n1
            beat n1
            job a
            "
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            a running round=1 attempt=1
        "#]],
    );
}

#[test]
fn a_job_goes_from_finished_to_reaped_with_its_slots() {
    check(
        &format!(
            "{FLEET}
            enqueue b kind=k
            run a
            finish a ok
            tick
            explain b
            reaped a
            tick
            "
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 succeeded (exit) -> succeeded
            deferred b slot_busy: slot s 1/1
            b: slot s 1/1, 0 ahead
              It waits for 1 unit of fleet slot s (1/1 taken).
              slot s: needs 1 of 1/1
                a holds 1 for 0ns
              slot n on n1: needs 1 of 1/1
                a holds 1 for 0ns
              node n1: slot n on n1 1/1
              > 1 more unit of fleet slot s: holders end, or its capacity is raised from 1 to 2
              > 1 lease holds slot n; it is listed
              > 1 lease holds slot s; it is listed
            lease 1.1 gone
            granted b -> n1 token=1.2
        "#]],
    );
}

#[test]
fn a_finished_lease_that_is_never_reaped_frees_the_fleet_and_charges_the_node() {
    check(
        &format!(
            "{FLEET}
            enqueue b kind=k
            node n2 slots=n:1
            run a
            finish a ok
            mute n1
            mute n2
            close n1
            advance 106s
            steady n2
            hello n2
            advance 1s
            forget-held n1
            hello n1
            "
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 succeeded (exit) -> succeeded
            1s: deferred b slot_busy: slot s 1/1
            12s: suspect n2
            30s: deferred b slot_busy: slot s 1/1
            106s: session 2 of n2 is closed: SUPERSEDED_SESSION
            107s: lease 1.1 unreaped
            107s: granted b -> n2 token=1.2
            107s: lease 1.1 gone
        "#]],
    );
}

#[test]
fn a_loss_is_counted_and_its_node_slots_stay_charged_until_reaped() {
    check(
        &format!(
            "{FLEET}
            run a
            mute n1
            advance 107s
            job a
            tick
            beat n1
            tick
            why a
            reaped a
            tick
            attempts a
            "
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            12s: suspect n1
            107s: ended a token=1.1 lost (lease_expired) -> queued [its lease ended in silence]
            107s: deferred a suspect: n1 silent
            107s: a queued round=1 attempt=2 losses=1 [its lease ended in silence]
            107s: deferred a slot_busy: slot n on n1 1/1
            107s: a waits: slot_busy slot n on n1 1/1 for 0ns, tried 2
            107s:   suspect n1 silent: 1 times, 0ns
            107s:   slot_busy slot n on n1 1/1: 1 times, 0ns
            107s: lease 1.1 gone
            107s: granted a -> n1 token=1.2
            107s: a round=1 attempt=1 1.1 on n1: lost lease_expired its lease ended in silence
        "#]],
    );
}

#[test]
fn a_takeover_counts_as_a_heartbeat_from_every_holder() {
    check(
        &format!(
            "{FLEET}
            run a
            advance 50s
            reload
            advance 106s999999us
            advance 1us
            "
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            157s: ended a token=1.1 lost (lease_expired) -> queued [its lease ended in silence]
            157s: deferred a suspect: n1 silent
        "#]],
    );
}

#[test]
fn a_loaded_lease_has_its_whole_length_and_ends_as_a_loss_though_it_was_never_accepted() {
    check(
        &format!(
            "{FLEET}
            reload
            advance 106s999999us
            advance 1us
            job a
            "
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            107s: ended a token=1.1 lost (lease_expired) -> queued [its lease ended in silence]
            107s: deferred a suspect: n1 silent
            107s: a queued round=1 attempt=2 losses=1 [its lease ended in silence]
        "#]],
    );
}

#[test]
fn a_lease_whose_end_could_not_be_stored_is_kept_until_its_node_speaks_or_is_forgotten() {
    check(
        &format!(
            "{FLEET}
            run a
            mute n1
            aside a
            advance 300s
            job a
            enqueue b kind=k
            tick
            close n1
            forget n1
            forget n1 lost
            "
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            set aside a
            12s: suspect n1
            300s: a running round=1 attempt=1
            300s: deferred b slot_busy: slot s 1/1
            300s: refused n1 NODE_HOLDS_LEASES: node n1 still holds 1 leases
            300s: ended a token=1.1 lost (node_forgotten) -> queued [an operator declared the node lost]
            300s: node n1 forgotten
            300s: n1 held 1 leases
        "#]],
    );
}

#[test]
fn an_expiry_does_not_hear_the_wall_clock() {
    check(
        &format!(
            "{FLEET}
            run a
            mute n1
            wall +9h
            tick
            advance 106s
            wall -99h
            advance 999999us
            advance 1us
            "
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            12s: suspect n1
            107s: ended a token=1.1 lost (lease_expired) -> queued [its lease ended in silence]
            107s: deferred a suspect: n1 silent
        "#]],
    );
}

#[test]
fn tokens_grow_over_grants_and_epochs() {
    check(
        "
        kind k max_losses=9
        node n1
        enqueue a kind=k
        tick
        return a rule=draining
        tick
        reload
        forget-held n1
        hello n1
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 returned (draining) -> queued [returned by its node: draining]
            granted a -> n1 token=1.2
            ended a token=1.2 returned (undelivered) -> queued [its node came back and had not received it]
            granted a -> n1 token=2.1
        "#]],
    );
}
