//! What an earmark does when its node, its job or the fleet changes.

use expect_test::expect;

use crate::support::{Script, check};

/// Two nodes of two units each, all taken; `big` needs two, and gets an earmark on n1, whose holders end first.
const TWO_NODES: &str = "
    slot gpu node
    kind small needs=gpu:1 hard=100s
    kind large needs=gpu:2 hard=100s
    node n1 slots=gpu:2
    enqueue a kind=small hard=90s
    enqueue b kind=small hard=90s
    tick
    node n2 slots=gpu:2
    enqueue c kind=small
    enqueue d kind=small
    tick
    run a
    run b
    run c
    run d
    enqueue big kind=large
    tick
    advance 30s
";

/// What follows the election on n1.
fn after(lines: &str) -> String {
    let mut run = Script::new();
    run.lines(TWO_NODES);
    assert!(run.trace.ends_with("30s: earmarked gpu:2 on n1 for big within 70s\n"), "{}", run.trace);
    run.trace.clear();
    run.lines(lines);
    run.trace
}

#[test]
fn an_earmark_moves_when_its_node_takes_no_more_grants() {
    for (change, word) in [
        ("cordon n1", ""),
        ("drain n1 5m", ""),
        ("press n1 close=slot:gpu:mem_low:1:1", ""),
        ("leaving n1", "30s: leaving n1\n"),
        ("close n1", ""),
    ] {
        let trace = after(&format!("{change}\ntick"));
        let moved = trace.contains("30s: earmark dropped of big on n1: node\n")
            && trace.ends_with("30s: earmarked gpu:2 on n2 for big within 80s\n");
        assert!(trace.starts_with(word) && moved, "{change}: {trace}");
    }
}

#[test]
fn an_earmark_moves_when_its_node_falls_silent_or_comes_back_smaller() {
    let trace = after("mute n1\nadvance 30s");
    let moved = "s: earmark dropped of big on n1: node\n";
    assert!(trace.contains(moved) && trace.contains("earmarked gpu:2 on n2 for big"), "{trace}");
    expect![[r#"
        30s: session 1 of n1 is closed: SUPERSEDED_SESSION
        30s: earmark dropped of big on n1: node
        30s: deferred big slot_busy: slot gpu on n2 2/2
        30s: earmarked gpu:2 on n2 for big within 80s
    "#]]
    .assert_eq(&after("hello n1 slots=gpu:1\ntick"));
}

#[test]
fn an_earmark_of_a_job_that_is_cancelled_wakes_those_that_it_kept_waiting() {
    expect![[r#"
        30s: ended a token=1.1 succeeded (exit) -> succeeded
        30s: lease 1.1 gone
        30s: deferred e earmarked: slot gpu on n1 earmarked for big
        30s: ended big -> cancelled [cancelled by request]
        30s: earmark dropped of big on n1: left
        30s: granted e -> n1 token=1.5
    "#]]
    .assert_eq(&after(
        "
        done a
        enqueue e kind=small
        tick
        cancel big
        tick
        ",
    ));
}

#[test]
fn an_earmark_that_is_not_filled_in_time_is_given_up() {
    // Its holders run beyond their hard limits: nobody knows when they end.
    expect![[r#"
        30s: deferred e slot_busy: slot gpu on n2 2/2
        160.000001s: earmark dropped of big on n1: late
        160.000001s: earmarked gpu:2 on n2 for big within 0ns
        161s: ended a token=1.1 succeeded (exit) -> succeeded
        161s: lease 1.1 gone
        161s: ended c token=1.3 succeeded (exit) -> succeeded
        161s: lease 1.3 gone
        161s: deferred big slot_busy: slot gpu on n2 1/2
        161s: granted e -> n1 token=1.5
        161s: ended b token=1.2 succeeded (exit) -> succeeded
        161s: lease 1.2 gone
    "#]]
    .assert_eq(&after(
        "
        enqueue e kind=small
        tick
        advance 131s
        done a
        done c
        tick
        run e
        done b
        tick
        ",
    ));
}

#[test]
fn an_earmark_follows_its_job_and_not_its_kind() {
    expect![[r#"
        30s: deferred big slot_busy: slot gpu on n2 2/2
        30s: earmark dropped of big on n1: left
        30s: deferred big slot_busy: slot gpu on n2 2/2
        30s: ended a token=1.1 succeeded (exit) -> succeeded
        30s: lease 1.1 gone
        30s: granted big -> n1 token=1.5
    "#]]
    .assert_eq(&after(
        "
        kind large needs=gpu:2 hard=50s
        tick
        kind large needs=gpu:1
        tick
        done a
        tick
        ",
    ));
}

#[test]
fn a_pause_gives_the_units_back_while_it_lasts() {
    expect![[r#"
        30s: ended a token=1.1 succeeded (exit) -> succeeded
        30s: lease 1.1 gone
        30s: earmark dropped of big on n1: changed
        30s: deferred big kind_paused: kind paused
        30s: granted e -> n1 token=1.5
        30s: deferred big slot_busy: slot gpu on n2 2/2
        30s: earmarked gpu:2 on n2 for big within 80s
    "#]]
    .assert_eq(&after(
        "
        pause kind large
        done a
        enqueue e kind=small
        tick
        run e
        resume kind large
        advance 30s
        ",
    ));
}

#[test]
fn a_new_leader_elects_anew() {
    expect![[r#"
        30s: ended a token=1.1 succeeded (exit) -> succeeded
        30s: lease 1.1 gone
        30s: granted e -> n1 token=1.5
        30s: deferred big slot_busy: slot gpu on n2 2/2
        60s: deferred big slot_busy: slot gpu on n2 2/2
        60s: earmarked gpu:2 on n1 for big within 70s
        60s: ended b token=1.2 succeeded (exit) -> succeeded
        60s: lease 1.2 gone
    "#]]
    .assert_eq(&after(
        "
        done a
        enqueue e kind=small hard=1s
        tick
        run e
        reload
        hello n1
        hello n2
        tick
        advance 30s
        done b
        tick
        ",
    ));
}

#[test]
fn a_capacity_cut_below_the_need_ends_an_earmark_of_the_fleet() {
    check(
        "
        slot f 4
        kind small needs=f:1 hard=100s
        kind large needs=f:3 hard=100s
        node n1
        enqueue a kind=small
        enqueue b kind=small
        enqueue c kind=small
        enqueue d kind=small
        tick
        enqueue big kind=large
        tick
        run a
        run b
        run c
        run d
        advance 30s
        capacity f 3
        done a
        done b
        enqueue e kind=small
        tick
        capacity f 2
        tick
        capacity f 4
        advance 6s
        done c
        done d
        done e
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            granted d -> n1 token=1.4
            deferred big slot_busy: slot f 4/4
            30s: deferred big slot_busy: slot f 4/4
            30s: earmarked f:3 on n1 for big within 80s
            30s: ended a token=1.1 succeeded (exit) -> succeeded
            30s: lease 1.1 gone
            30s: ended b token=1.2 succeeded (exit) -> succeeded
            30s: lease 1.2 gone
            30s: deferred big slot_busy: slot f 2/3
            30s: deferred e earmarked: slot f earmarked for big
            30s: earmark dropped of big on n1: changed
            30s: deferred big slot_busy: slot f 2/2
            30s: deferred e slot_busy: slot f 2/2
            30s: deferred big slot_busy: slot f 2/4
            30s: granted e -> n1 token=1.5
            30s: earmarked f:3 on n1 for big within 80s
            35s: revoked 1.5 unanswered
            36s: ended c token=1.3 succeeded (exit) -> succeeded
            36s: lease 1.3 gone
            36s: ended d token=1.4 succeeded (exit) -> succeeded
            36s: lease 1.4 gone
            36s: ended e token=1.5 succeeded (exit) -> succeeded
            36s: lease 1.5 gone
            36s: granted big -> n1 token=1.6
            36s: earmark dropped of big on n1: used
        "#]],
    );
}

#[test]
fn a_job_of_the_class_that_is_more_urgent_takes_the_units_and_the_head_gets_others() {
    expect![[r#"
        30s: ended a token=1.1 succeeded (exit) -> succeeded
        30s: lease 1.1 gone
        30s: ended b token=1.2 succeeded (exit) -> succeeded
        30s: lease 1.2 gone
        30s: granted urgent -> n1 token=1.5
        30s: earmark dropped of big on n1: used
        30s: deferred big slot_busy: slot gpu on n2 2/2
        60s: earmarked gpu:2 on n2 for big within 50s
    "#]]
    .assert_eq(&after(
        "
        done a
        enqueue urgent kind=large priority=9
        done b
        tick
        run urgent
        advance 30s
        ",
    ));
}

#[test]
fn a_job_that_starts_elsewhere_gives_back_what_was_kept_for_it() {
    expect![[r#"
        30s: ended a token=1.1 succeeded (exit) -> succeeded
        30s: lease 1.1 gone
        30s: deferred e earmarked: slot gpu on n1 earmarked for big
        30s: ended c token=1.3 succeeded (exit) -> succeeded
        30s: lease 1.3 gone
        30s: ended d token=1.4 succeeded (exit) -> succeeded
        30s: lease 1.4 gone
        30s: granted big -> n2 token=1.5
        30s: earmark dropped of big on n1: started elsewhere
        30s: granted e -> n1 token=1.6
    "#]]
    .assert_eq(&after(
        "
        done a
        enqueue e kind=small
        tick
        done c
        done d
        tick
        ",
    ));
}

#[test]
fn who_waits_for_an_earmark_and_whose_it_is_can_be_told() {
    expect![[r#"
        30s: ended a token=1.1 succeeded (exit) -> succeeded
        30s: lease 1.1 gone
        30s: deferred e earmarked: slot gpu on n1 earmarked for big
        35s: big: slot gpu on n2 2/2, 0 ahead
        35s:   It waits for 2 units of slot gpu on one node (3/4 taken on 2 nodes).
        35s:   slot gpu on n1: needs 2 of 1/2
        35s:     b holds 1 for 35s
        35s:   slot gpu on n2: needs 2 of 2/2
        35s:     c holds 1 for 35s
        35s:     d holds 1 for 35s
        35s:   node n1: slot gpu on n1 1/2
        35s:   node n2: slot gpu on n2 2/2
        35s:   starts latest in 65s
        35s:   kept on n1 within 65s: gpu:2 for big
        35s:   > 2 more units of slot gpu on node n2 or another: holders end, or a node that runs kind large and offers gpu:2 joins
        35s:   > 3 leases hold slot gpu; they are listed
        35s: e: slot gpu on n1 earmarked for big, 0 ahead
        35s:   It does not start: slot gpu on n1 earmarked.
        35s:   slot gpu on n1: needs 1 of 1/2
        35s:     b holds 1 for 35s
        35s:   slot gpu on n2: needs 1 of 2/2
        35s:     c holds 1 for 35s
        35s:     d holds 1 for 35s
        35s:   node n1: slot gpu on n1 earmarked for big
        35s:   node n2: slot gpu on n2 2/2
        35s:   kept on n1 within 65s: gpu:2 for big
        35s:   > the job for which slot gpu is kept starts or is cancelled, or a hard time limit of this one gives the slot back in time
        35s:   > 2 leases hold slot gpu; they are listed
    "#]].assert_eq(&after(
        "
        done a
        enqueue e kind=small
        tick
        advance 5s
        explain big
        explain e
        ",
    ));
}
