//! The order of classes: bands, ageing, priorities, age.

use expect_test::expect;

use crate::support::check;

#[test]
fn a_job_that_has_waited_a_quarter_of_an_hour_stands_one_band_higher() {
    check(
        "
        slot f 1
        kind k needs=f:1 lease=10m hard=24h
        node n1
        enqueue first kind=k
        tick
        run first
        enqueue low kind=k priority=-50
        advance 15m
        enqueue low2 kind=k priority=-20
        enqueue zero kind=k
        done first
        tick
        run zero
        enqueue zero2 kind=k
        done zero
        tick
        run zero2
        advance 15m
        enqueue high kind=k priority=20
        enqueue zero3 kind=k priority=19
        done zero2
        tick
        run high
        done high
        tick
        run low
        done low
        tick
        ",
        expect![[r#"
            granted first -> n1 token=1.1
            1s: deferred low slot_busy: slot f 1/1
            30s: deferred low slot_busy: slot f 1/1
            900s: ended first token=1.1 succeeded (exit) -> succeeded
            900s: lease 1.1 gone
            900s: granted zero -> n1 token=1.2
            900s: deferred low slot_busy: slot f 1/1
            900s: ended zero token=1.2 succeeded (exit) -> succeeded
            900s: lease 1.2 gone
            900s: granted zero2 -> n1 token=1.3
            900s: deferred low slot_busy: slot f 1/1
            1800s: ended zero2 token=1.3 succeeded (exit) -> succeeded
            1800s: lease 1.3 gone
            1800s: granted high -> n1 token=1.4
            1800s: deferred low slot_busy: slot f 1/1
            1800s: ended high token=1.4 succeeded (exit) -> succeeded
            1800s: lease 1.4 gone
            1800s: granted low -> n1 token=1.5
            1800s: deferred zero3 slot_busy: slot f 1/1
            1800s: ended low token=1.5 succeeded (exit) -> succeeded
            1800s: lease 1.5 gone
            1800s: granted zero3 -> n1 token=1.6
            1800s: deferred low2 slot_busy: slot f 1/1
        "#]],
    );
}

#[test]
fn waiting_leads_nobody_into_the_critical_band() {
    check(
        "
        slot f 1
        kind k needs=f:1 lease=10m hard=24h
        node n1
        enqueue first kind=k
        tick
        run first
        enqueue old kind=k priority=49
        advance 2h
        enqueue urgent kind=k priority=50
        done first
        tick
        run urgent
        done urgent
        tick
        ",
        expect![[r#"
            granted first -> n1 token=1.1
            1s: deferred old slot_busy: slot f 1/1
            30s: deferred old slot_busy: slot f 1/1
            7200s: ended first token=1.1 succeeded (exit) -> succeeded
            7200s: lease 1.1 gone
            7200s: granted urgent -> n1 token=1.2
            7200s: deferred old slot_busy: slot f 1/1
            7200s: ended urgent token=1.2 succeeded (exit) -> succeeded
            7200s: lease 1.2 gone
            7200s: granted old -> n1 token=1.3
        "#]],
    );
}

/// Several priorities wait in one class: its best is not its highest priority for ever.
#[test]
fn a_class_stands_where_the_best_of_its_heads_stands() {
    check(
        "
        slot f 1
        kind k needs=f:1 lease=10m hard=24h
        kind other needs=f:1
        node n1
        enqueue first kind=k
        tick
        run first
        enqueue old kind=k priority=-10
        advance 16m
        enqueue young kind=k priority=10
        enqueue between kind=other priority=15
        done first
        tick
        run old
        done old
        tick
        run between
        done between
        tick
        ",
        expect![[r#"
            granted first -> n1 token=1.1
            1s: deferred old slot_busy: slot f 1/1
            30s: deferred old slot_busy: slot f 1/1
            960s: ended first token=1.1 succeeded (exit) -> succeeded
            960s: lease 1.1 gone
            960s: granted old -> n1 token=1.2
            960s: deferred between slot_busy: slot f 1/1
            960s: ended old token=1.2 succeeded (exit) -> succeeded
            960s: lease 1.2 gone
            960s: granted between -> n1 token=1.3
            960s: deferred young slot_busy: slot f 1/1
            960s: ended between token=1.3 succeeded (exit) -> succeeded
            960s: lease 1.3 gone
            960s: granted young -> n1 token=1.4
        "#]],
    );
}

#[test]
fn what_a_job_has_waited_counts_under_the_next_leader_too() {
    check(
        "
        slot f 1
        kind k needs=f:1 lease=10m hard=24h
        node n1
        enqueue first kind=k
        tick
        run first
        enqueue old kind=k priority=-10
        advance 10m
        reload
        hello n1
        advance 6m
        enqueue young kind=k priority=10
        done first
        tick
        ",
        expect![[r#"
            granted first -> n1 token=1.1
            1s: deferred old slot_busy: slot f 1/1
            30s: deferred old slot_busy: slot f 1/1
            601s: deferred old slot_busy: slot f 1/1
            630s: deferred old slot_busy: slot f 1/1
            960s: ended first token=1.1 succeeded (exit) -> succeeded
            960s: lease 1.1 gone
            960s: granted old -> n1 token=2.1
            960s: deferred young slot_busy: slot f 1/1
        "#]],
    );
}

/// A wait begins when a job becomes queued: what it spent until its time, or between attempts, leads it nowhere.
#[test]
fn only_the_wait_in_the_queue_counts() {
    check(
        "
        slot f 1
        kind k needs=f:1 lease=10m hard=24h
        node n1
        enqueue first kind=k
        tick
        run first
        enqueue later kind=k priority=-10 delay=20m
        advance 20m
        enqueue young kind=k priority=10
        done first
        tick
        ",
        expect![[r#"
            granted first -> n1 token=1.1
            1200s: ready later
            1200s: deferred later slot_busy: slot f 1/1
            1200s: ended first token=1.1 succeeded (exit) -> succeeded
            1200s: lease 1.1 gone
            1200s: granted young -> n1 token=1.2
            1200s: deferred later slot_busy: slot f 1/1
        "#]],
    );
}
