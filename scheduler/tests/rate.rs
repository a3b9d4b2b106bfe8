//! Rates of fleet slots: what is granted in a time, exact wake-ups, takeovers, live changes, needs that can never be met.

use expect_test::expect;

use crate::support::check;

#[test]
fn a_burst_starts_at_once_and_the_rest_evenly() {
    check(
        "
        slot f 6 rate=50/min burst=3
        kind k needs=f:1
        node n1
        enqueue a kind=k
        enqueue b kind=k
        enqueue c kind=k
        enqueue d kind=k
        enqueue e kind=k
        tick
        advance 1199999us
        advance 1us
        why e
        advance 3s
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            deferred d rate_limit: rate of slot f
            1.2s: granted d -> n1 token=1.4
            1.2s: deferred e rate_limit: rate of slot f
            1.2s: e waits: rate_limit rate of slot f for 1.2s, tried 2
            1.2s:   rate_limit rate of slot f: 2 times, 1.2s
            2.4s: granted e -> n1 token=1.5
        "#]],
    );
}

#[test]
fn a_class_that_waits_for_a_unit_is_woken_by_the_refill_after_it() {
    check(
        "
        slot f 1 rate=1/min
        kind k needs=f:1
        node n1
        enqueue a kind=k
        enqueue b kind=k
        tick
        run a
        advance 10s
        done a
        tick
        why b
        advance 50s
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            deferred b slot_busy: slot f 1/1
            10s: ended a token=1.1 succeeded (exit) -> succeeded
            10s: lease 1.1 gone
            10s: deferred b rate_limit: rate of slot f
            10s: b waits: rate_limit rate of slot f for 0ns, tried 2
            10s:   slot_busy slot f 1/1: 1 times, 10s
            10s:   rate_limit rate of slot f: 1 times, 0ns
            30s: deferred b rate_limit: rate of slot f
            60s: granted b -> n1 token=1.2
        "#]],
    );
}

#[test]
fn a_class_that_waits_for_a_node_takes_no_token_and_is_woken_for_both() {
    // Blocked on a node slot while the bucket has a token; another class spends it; the node frees (dry); the refill
    // comes.
    check(
        "
        slot f 5 rate=1/min
        slot n node
        kind both needs=f:1,n:1
        kind fleet needs=f:1
        kind node needs=n:1
        node n1 slots=n:1
        enqueue holder kind=node
        tick
        run holder
        enqueue a kind=both
        tick
        enqueue x kind=fleet
        tick
        run x
        advance 20s
        done holder
        tick
        advance 40s
        ",
        expect![[r#"
            granted holder -> n1 token=1.1
            deferred a slot_busy: slot n on n1 1/1
            granted x -> n1 token=1.2
            20s: ended holder token=1.1 succeeded (exit) -> succeeded
            20s: lease 1.1 gone
            20s: deferred a rate_limit: rate of slot f
            30s: deferred a rate_limit: rate of slot f
            60s: granted a -> n1 token=1.3
        "#]],
    );
}

#[test]
fn a_need_of_three_units_takes_three_tokens() {
    check(
        "
        slot f 6 rate=1/s burst=3
        kind k needs=f:1
        node n1
        enqueue a kind=k needs=f:3
        enqueue b kind=k needs=f:2
        enqueue c kind=k
        tick
        advance 1s
        advance 2s
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            deferred b rate_limit: rate of slot f
            deferred c rate_limit: rate of slot f
            1s: deferred b rate_limit: rate of slot f
            1s: granted c -> n1 token=1.2
            2s: deferred b rate_limit: rate of slot f
            3s: granted b -> n1 token=1.3
        "#]],
    );
}

#[test]
fn a_need_above_the_burst_is_refused_by_apply_and_by_enqueue() {
    check(
        "
        slot f 6 rate=1/s burst=2
        kind k needs=f:1
        kind large needs=f:3
        enqueue a kind=k needs=f:3
        enqueue b kind=k needs=f:2
        ",
        expect![[r#"
            conflict: kind large needs 3 of slot f, whose rate lets 2 start at once (its burst)
            refused large FLEET_CONFLICT: the fleet file cannot be applied
            refused a IMPOSSIBLE_NEEDS: no node and no fleet capacity can ever satisfy the needs; f 3 of 2
        "#]],
    );
}

#[test]
fn a_burst_lowered_below_a_queued_need_defers_it_until_it_is_raised() {
    check(
        "
        slot f 6 rate=1/s burst=3
        kind k needs=f:1
        node n1
        enqueue a kind=k needs=f:3
        slot f 6 rate=1/s burst=2
        tick
        explain a
        advance 1m
        slot f 6 rate=1/s burst=3
        advance 1s
        ",
        expect![[r#"
            deferred a rate_limit: rate of slot f
            a: rate of slot f, 0 ahead
              It does not start: rate of slot f.
              slot f: needs 3 of 0/6
              node n1: fits
              > the burst of slot f is raised, or the job asks for less
            30s: deferred a rate_limit: rate of slot f
            61s: granted a -> n1 token=1.1
        "#]],
    );
}

#[test]
fn a_rate_is_changed_live_and_tokens_are_kept() {
    check(
        "
        slot f 9 rate=1/h
        kind k needs=f:1
        node n1
        enqueue a kind=k
        enqueue b kind=k
        enqueue c kind=k
        tick
        run a
        advance 30m
        slot f 9 rate=1/min    # Half a token is there, and half a minute is missing.
        advance 30s
        slot f 9
        tick
        slot f 9 rate=1/h      # A limit that is new begins with a full bucket.
        enqueue d kind=k
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            deferred b rate_limit: rate of slot f
            30s: deferred b rate_limit: rate of slot f
            1801s: deferred b rate_limit: rate of slot f
            1830s: granted b -> n1 token=1.2
            1830s: deferred c rate_limit: rate of slot f
            1830s: granted c -> n1 token=1.3
            1830s: granted d -> n1 token=1.4
        "#]],
    );
}

#[test]
fn a_later_leader_exceeds_no_rate_and_forgets_no_token() {
    // A rate that refills slower than leaders change must not starve: the row says when the bucket is full again.
    check(
        "
        slot f 9 rate=2/h burst=2
        kind k needs=f:1
        node n1
        enqueue a kind=k
        enqueue b kind=k
        enqueue c kind=k
        tick
        run a
        run b
        advance 20m
        reload
        hello n1
        tick
        why c
        advance 9m
        reload
        hello n1
        advance 59s
        advance 1s
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            deferred c rate_limit: rate of slot f
            30s: deferred c rate_limit: rate of slot f
            1200s: deferred c rate_limit: rate of slot f
            1200s: c waits: rate_limit rate of slot f for 0ns, tried 3
            1200s:   rate_limit rate of slot f: 3 times, 1200s
            1230s: deferred c rate_limit: rate of slot f
            1741s: deferred c rate_limit: rate of slot f
            1770s: deferred c rate_limit: rate of slot f
            1800s: granted c -> n1 token=3.1
        "#]],
    );
}

#[test]
fn a_wall_clock_that_is_set_changes_no_rate_of_this_leader_and_starves_none_under_the_next() {
    check(
        "
        slot f 9 rate=1/min
        kind k needs=f:1
        node n1
        enqueue a kind=k
        enqueue b kind=k
        enqueue c kind=k
        enqueue d kind=k
        tick
        run a
        wall +1h
        advance 59s
        advance 1s
        wall -5h
        reload
        hello n1
        advance 59s
        advance 1s
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            deferred b rate_limit: rate of slot f
            30s: deferred b rate_limit: rate of slot f
            60s: granted b -> n1 token=1.2
            60s: deferred c rate_limit: rate of slot f
            61s: deferred c rate_limit: rate of slot f
            90s: deferred c rate_limit: rate of slot f
            120s: granted c -> n1 token=2.1
            120s: deferred d rate_limit: rate of slot f
        "#]],
    );
}

#[test]
fn a_returned_grant_has_spent_its_token() {
    check(
        "
        slot f 9 rate=1/min
        kind k needs=f:1
        node n1
        enqueue a kind=k
        tick
        return a rule=draining
        tick
        advance 1m
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 returned (draining) -> queued [returned by its node: draining]
            deferred a rate_limit: rate of slot f
            30s: deferred a rate_limit: rate of slot f
            60s: granted a -> n1 token=1.2
        "#]],
    );
}

#[test]
fn a_turn_that_was_lost_has_spent_nothing() {
    check(
        "
        slot f 9 rate=1/h
        kind k needs=f:1
        node n1
        enqueue a kind=k
        begin
        tick
        lose
        hello n1
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted a -> n1 token=2.1
        "#]],
    );
}

#[test]
fn a_dry_slot_is_not_stuck() {
    check(
        "
        slot f 9 rate=1/h
        kind k needs=f:1
        node n1
        enqueue a kind=k
        enqueue b kind=k
        tick
        run a
        done a
        advance 5m
        health k
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            deferred b rate_limit: rate of slot f
            ended a token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
            1s: deferred b rate_limit: rate of slot f
            30s: deferred b rate_limit: rate of slot f
            300s: k Moving depth=1 scheduled=0 running=0 able=1 oldest=300s head: rate of slot f
        "#]],
    );
}
