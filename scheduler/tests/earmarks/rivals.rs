//! Earmarks beside each other, and who gets one.

use std::fmt::Write as _;

use expect_test::expect;

use crate::support::{Script, check};

/// volcano#3373: two large jobs that each need the same two slots got half each, and waited for each other for ever.
#[test]
fn two_large_jobs_that_need_the_same_two_slots_never_hold_half_each() {
    check(
        "
        slot a 2
        slot b 2
        kind on-a needs=a:1 hard=100s
        kind on-b needs=b:1 hard=100s
        kind large needs=a:2,b:2 hard=100s
        kind other needs=b:2,a:2 hard=100s
        node n1
        enqueue a1 kind=on-a
        enqueue a2 kind=on-a
        enqueue b1 kind=on-b
        enqueue b2 kind=on-b
        tick
        run a1
        run a2
        run b1
        run b2
        enqueue first kind=large
        enqueue second kind=other
        tick
        advance 30s
        done a1
        done b1
        enqueue a3 kind=on-a
        enqueue b3 kind=on-b
        tick
        done a2
        tick
        done b2
        tick
        run first
        advance 40s
        done first
        tick
        run second
        done second
        tick
        ",
        expect![[r#"
            granted a1 -> n1 token=1.1
            granted a2 -> n1 token=1.2
            granted b1 -> n1 token=1.3
            granted b2 -> n1 token=1.4
            deferred first slot_busy: slot a 2/2
            deferred second slot_busy: slot a 2/2
            30s: deferred first slot_busy: slot a 2/2
            30s: deferred second slot_busy: slot a 2/2
            30s: earmarked a:2,b:2 on n1 for first within 80s
            30s: ended a1 token=1.1 succeeded (exit) -> succeeded
            30s: lease 1.1 gone
            30s: ended b1 token=1.3 succeeded (exit) -> succeeded
            30s: lease 1.3 gone
            30s: deferred first slot_busy: slot a 1/2
            30s: deferred second slot_busy: slot a 1/2
            30s: deferred a3 earmarked: slot a earmarked for first
            30s: deferred b3 earmarked: slot b earmarked for first
            30s: ended a2 token=1.2 succeeded (exit) -> succeeded
            30s: lease 1.2 gone
            30s: deferred first slot_busy: slot b 1/2
            30s: deferred second slot_busy: slot b 1/2
            30s: deferred a3 earmarked: slot a earmarked for first
            30s: ended b2 token=1.4 succeeded (exit) -> succeeded
            30s: lease 1.4 gone
            30s: granted first -> n1 token=1.5
            30s: earmark dropped of first on n1: used
            30s: deferred second slot_busy: slot a 2/2
            30s: deferred b3 slot_busy: slot b 2/2
            30s: earmarked a:2,b:2 on n1 for second within 120s
            70s: ended first token=1.5 succeeded (exit) -> succeeded
            70s: lease 1.5 gone
            70s: granted second -> n1 token=1.6
            70s: earmark dropped of second on n1: used
            70s: deferred a3 slot_busy: slot a 2/2
            70s: deferred b3 slot_busy: slot b 2/2
            70s: ended second token=1.6 succeeded (exit) -> succeeded
            70s: lease 1.6 gone
            70s: granted a3 -> n1 token=1.7
            70s: granted b3 -> n1 token=1.8
        "#]],
    );
}

/// A fleet of forty nodes of two types, so that there may be two earmarks at once.
fn forty_nodes(run: &mut Script, lines: &str) {
    let mut text = String::from("slot f 2\nslot g 2\nslot s node\nslot t node\n");
    text += "kind on-f needs=f:1 hard=100s\nkind on-g needs=g:1 hard=100s\n";
    text += "kind east needs=f:2,g:2,s:1 hard=100s\nkind west needs=f:2,g:2,t:1 hard=100s\n";
    for n in 0..40 {
        let slot = if n < 20 { "s:1" } else { "t:1" };
        writeln!(text, "node n{n} slots={slot}").unwrap();
    }
    run.lines(&text);
    run.lines(lines);
}

#[test]
fn the_older_of_two_earmarks_is_filled_first_on_every_slot_that_they_share() {
    let mut run = Script::new();
    forty_nodes(
        &mut run,
        "
        enqueue f1 kind=on-f
        enqueue f2 kind=on-f
        enqueue g1 kind=on-g
        enqueue g2 kind=on-g
        tick
        run f1
        run f2
        run g1
        run g2
        enqueue first kind=east
        enqueue second kind=west
        tick
        advance 30s
        done f1
        done g1
        tick
        done f2
        tick
        done g2
        tick
        done first
        tick
        done second
        ",
    );
    expect![[r#"
        granted f1 -> n16 token=1.1
        granted f2 -> n9 token=1.2
        granted g1 -> n29 token=1.3
        granted g2 -> n34 token=1.4
        deferred first slot_busy: slot f 2/2
        deferred second slot_busy: slot f 2/2
        30s: deferred first slot_busy: slot f 2/2
        30s: deferred second slot_busy: slot f 2/2
        30s: earmarked f:2,g:2,s:1 on n0 for first within 80s
        30s: earmarked f:2,g:2,t:1 on n20 for second within 200s
        30s: ended f1 token=1.1 succeeded (exit) -> succeeded
        30s: lease 1.1 gone
        30s: ended g1 token=1.3 succeeded (exit) -> succeeded
        30s: lease 1.3 gone
        30s: deferred first slot_busy: slot f 1/2
        30s: deferred second slot_busy: slot f 1/2
        30s: ended f2 token=1.2 succeeded (exit) -> succeeded
        30s: lease 1.2 gone
        30s: deferred first slot_busy: slot g 1/2
        30s: deferred second slot_busy: slot g 1/2
        30s: ended g2 token=1.4 succeeded (exit) -> succeeded
        30s: lease 1.4 gone
        30s: granted first -> n19 token=1.5
        30s: earmark dropped of first on n0: started elsewhere
        30s: deferred second slot_busy: slot f 2/2
        30s: ended first token=1.5 succeeded (exit) -> succeeded
        30s: lease 1.5 gone
        30s: granted second -> n25 token=1.6
        30s: earmark dropped of second on n20: started elsewhere
        30s: ended second token=1.6 succeeded (exit) -> succeeded
        30s: lease 1.6 gone
    "#]]
    .assert_eq(&run.trace);
}

/// volcano#2045: what was kept while classes looked for nodes was given away while nodes looked for classes.
#[test]
fn an_earmark_made_in_one_direction_of_decision_is_honoured_in_the_other() {
    check(
        "
        slot gpu node
        slot f 1
        kind small needs=gpu:1 hard=100s
        kind both needs=gpu:1,f:1 hard=100s
        kind on-f needs=f:1 hard=100s
        kind new needs=gpu:1 hard=100s
        kind large needs=gpu:2 hard=100s
        node n1 slots=gpu:2
        enqueue a kind=small
        enqueue b kind=small
        enqueue c kind=on-f
        tick
        run a
        run b
        run c
        enqueue big kind=large
        enqueue waits kind=small
        enqueue waits-for-both kind=both
        tick
        advance 30s
        # Node-driven: units of the node come free.
        done a
        tick
        # Class-driven: one that was never tried, and one whose fleet slot comes free.
        enqueue young kind=new
        tick
        done c
        tick
        hello n1
        tick
        done b
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            deferred big slot_busy: slot gpu on n1 2/2
            deferred waits slot_busy: slot gpu on n1 2/2
            deferred waits-for-both slot_busy: slot f 1/1
            30s: deferred big slot_busy: slot gpu on n1 2/2
            30s: deferred waits slot_busy: slot gpu on n1 2/2
            30s: deferred waits-for-both slot_busy: slot f 1/1
            30s: earmarked gpu:2 on n1 for big within 80s
            30s: ended a token=1.1 succeeded (exit) -> succeeded
            30s: lease 1.1 gone
            30s: deferred big slot_busy: slot gpu on n1 1/2
            30s: deferred waits earmarked: slot gpu on n1 earmarked for big
            30s: deferred young earmarked: slot gpu on n1 earmarked for big
            30s: ended c token=1.3 succeeded (exit) -> succeeded
            30s: lease 1.3 gone
            30s: deferred big slot_busy: slot gpu on n1 1/2
            30s: deferred waits earmarked: slot gpu on n1 earmarked for big
            30s: deferred waits-for-both earmarked: slot gpu on n1 earmarked for big
            30s: deferred young earmarked: slot gpu on n1 earmarked for big
            30s: session 1 of n1 is closed: SUPERSEDED_SESSION
            30s: deferred big slot_busy: slot gpu on n1 1/2
            30s: deferred waits earmarked: slot gpu on n1 earmarked for big
            30s: deferred waits-for-both earmarked: slot gpu on n1 earmarked for big
            30s: deferred young earmarked: slot gpu on n1 earmarked for big
            30s: ended b token=1.2 succeeded (exit) -> succeeded
            30s: lease 1.2 gone
            30s: granted big -> n1 token=1.4
            30s: earmark dropped of big on n1: used
            30s: deferred waits slot_busy: slot gpu on n1 2/2
            30s: deferred waits-for-both slot_busy: slot gpu on n1 2/2
            30s: deferred young slot_busy: slot gpu on n1 2/2
        "#]],
    );
}

/// kueue#13607: of two routes the first can never fit, and was waited for.
#[test]
fn a_node_that_can_never_hold_a_job_gets_no_earmark_for_it() {
    check(
        "
        slot gpu node
        kind small needs=gpu:1 hard=10s
        kind slow needs=gpu:1 hard=10m
        kind large needs=gpu:2 hard=10m
        node tiny slots=gpu:1 kinds=small,large
        node wide slots=gpu:2 kinds=slow,large
        enqueue a kind=small
        enqueue b kind=slow
        enqueue c kind=slow
        tick
        run a
        run b
        run c
        enqueue big kind=large
        tick
        advance 30s
        done b
        enqueue d kind=slow
        tick
        done c
        tick
        ",
        expect![[r#"
            granted a -> tiny token=1.1
            granted b -> wide token=1.2
            granted c -> wide token=1.3
            deferred big slot_busy: slot gpu on wide 2/2
            30s: deferred big slot_busy: slot gpu on wide 2/2
            30s: earmarked gpu:2 on wide for big within 580s
            30s: ended b token=1.2 succeeded (exit) -> succeeded
            30s: lease 1.2 gone
            30s: deferred big slot_busy: slot gpu on wide 1/2
            30s: deferred d earmarked: slot gpu on wide earmarked for big
            30s: ended c token=1.3 succeeded (exit) -> succeeded
            30s: lease 1.3 gone
            30s: granted big -> wide token=1.4
            30s: earmark dropped of big on wide: used
            30s: deferred d slot_busy: slot gpu on wide 2/2
        "#]],
    );
}

#[test]
fn units_that_nobody_is_known_to_give_back_are_not_waited_for() {
    // The command on n1 has ended long ago, and its tree is not gone: nobody knows when it will be.
    check(
        "
        slot gpu node
        kind small needs=gpu:1 hard=10s
        kind slow needs=gpu:1 hard=10m
        kind large needs=gpu:2 hard=100s
        node n1 slots=gpu:2
        enqueue a kind=small
        tick
        run a
        finish a ok
        advance 60s
        node n2 slots=gpu:2
        enqueue b kind=slow
        enqueue c kind=slow
        enqueue d kind=slow
        tick
        run b
        run c
        run d
        enqueue big kind=large
        tick
        advance 30s
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 succeeded (exit) -> succeeded
            60s: granted b -> n1 token=1.2
            60s: granted c -> n2 token=1.3
            60s: granted d -> n2 token=1.4
            60s: deferred big slot_busy: slot gpu on n2 2/2
            90s: earmarked gpu:2 on n2 for big within 580s
        "#]],
    );
}

#[test]
fn one_unit_each_of_two_slots_that_are_never_free_together_is_enough_for_an_earmark() {
    check(
        "
        slot browser node
        slot anthropic 1
        kind crawl needs=browser:1 hard=50s
        kind chat needs=anthropic:1 hard=100s
        kind both needs=browser:1,anthropic:1 hard=100s
        node n1 slots=browser:1
        enqueue a kind=crawl
        enqueue b kind=chat
        tick
        run a
        run b
        enqueue c kind=both
        enqueue d kind=crawl
        enqueue e kind=chat
        tick
        advance 30s
        done a
        tick
        done b
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            deferred c slot_busy: slot anthropic 1/1
            deferred d slot_busy: slot browser on n1 1/1
            deferred e slot_busy: slot anthropic 1/1
            30s: deferred c slot_busy: slot anthropic 1/1
            30s: deferred d slot_busy: slot browser on n1 1/1
            30s: deferred e slot_busy: slot anthropic 1/1
            30s: earmarked anthropic:1,browser:1 on n1 for c within 80s
            30s: ended a token=1.1 succeeded (exit) -> succeeded
            30s: lease 1.1 gone
            30s: granted d -> n1 token=1.3
            30s: ended b token=1.2 succeeded (exit) -> succeeded
            30s: lease 1.2 gone
            30s: deferred c slot_busy: slot browser on n1 1/1
            30s: deferred e earmarked: slot anthropic earmarked for c
        "#]],
    );
}

#[test]
fn a_job_that_one_slot_keeps_waiting_gets_no_earmark_for_one_unit() {
    check(
        "
        slot browser node
        slot anthropic 9
        kind both needs=browser:1,anthropic:1 hard=100s
        node n1 slots=browser:1
        enqueue a kind=both
        enqueue b kind=both
        tick
        run a
        advance 3m
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            deferred b slot_busy: slot browser on n1 1/1
            30s: deferred b slot_busy: slot browser on n1 1/1
        "#]],
    );
}

#[test]
fn an_older_job_takes_the_place_of_a_younger_one_that_waited_less() {
    check(
        "
        slot gpu node
        kind small needs=gpu:1 hard=10m
        kind patient needs=gpu:2 hard=10m reserve_after=1m
        kind hasty needs=gpu:2 hard=10m reserve_after=5s
        node n1 slots=gpu:2
        enqueue a kind=small
        enqueue b kind=small
        tick
        run a
        run b
        enqueue old kind=patient
        enqueue young kind=hasty
        tick
        advance 1m
        done a
        done b
        tick
        done old
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            deferred old slot_busy: slot gpu on n1 2/2
            deferred young slot_busy: slot gpu on n1 2/2
            5s: earmarked gpu:2 on n1 for young within 605s
            30s: deferred young slot_busy: slot gpu on n1 2/2
            30s: deferred old slot_busy: slot gpu on n1 2/2
            60s: earmark dropped of young on n1: superseded
            60s: earmarked gpu:2 on n1 for old within 550s
            60s: deferred old slot_busy: slot gpu on n1 2/2
            60s: deferred young slot_busy: slot gpu on n1 2/2
            60s: ended a token=1.1 succeeded (exit) -> succeeded
            60s: lease 1.1 gone
            60s: ended b token=1.2 succeeded (exit) -> succeeded
            60s: lease 1.2 gone
            60s: granted old -> n1 token=1.3
            60s: earmark dropped of old on n1: used
            60s: deferred young slot_busy: slot gpu on n1 2/2
            60s: ended old token=1.3 succeeded (exit) -> succeeded
            60s: lease 1.3 gone
            60s: granted young -> n1 token=1.4
        "#]],
    );
}
