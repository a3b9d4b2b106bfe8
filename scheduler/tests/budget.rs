//! Budgets of reported usage: what is charged, who waits or is refused, when a window turns.

use expect_test::expect;

use crate::support::check;

// Worlds begin at noon of 2026-09-30, a Wednesday, UTC.

#[test]
fn a_kind_whose_budget_is_spent_waits_until_its_window_turns() {
    check(
        "
        kind k budget=tokens:100/hour lease=2h hard=3h
        kind other
        node n1
        enqueue a kind=k
        enqueue b kind=k
        enqueue c kind=k
        tick
        run a
        run b
        run c
        finish a ok usage=tokens:60,pages:9     # Nobody set a budget for pages.
        enqueue d kind=k
        tick
        run d
        finish b fail usage=tokens:40           # A failure has cost as much.
        enqueue e kind=k
        enqueue f kind=other
        tick
        run f
        finish c ok usage=tokens:30             # It ran when the budget hit zero.
        why e
        explain e
        attempts a
        advance 3599s
        health k
        advance 1s
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            ended a token=1.1 succeeded (exit) -> succeeded
            granted d -> n1 token=1.4
            ended b token=1.2 failed_retryable (exit) -> scheduled [exit]
            deferred e budget: budget of tokens spent
            granted f -> n1 token=1.5
            ended c token=1.3 succeeded (exit) -> succeeded
            e waits: budget budget of tokens spent for 0ns, tried 1
              budget budget of tokens spent: 1 times, 0ns
            e: budget of tokens spent, 0 ahead
              It does not start: budget of tokens spent.
              node n1: fits
              starts earliest in 3600s
              > the window of the budget of tokens turns, or the budget is raised
            a round=1 attempt=1 1.1 on n1: succeeded exit pages=9 tokens=60
            10s: ready b
            30s: deferred e budget: budget of tokens spent
            3599s: k Moving depth=2 scheduled=0 running=1 able=1 oldest=3599s head: budget of tokens spent
            3600s: granted e -> n1 token=1.6
        "#]],
    );
}

#[test]
fn a_kind_that_refuses_says_when_to_come_back_and_its_queue_waits() {
    check(
        "
        kind k budget=tokens:100/day on_exhausted=refuse lease=2h
        node n1
        enqueue a kind=k
        tick
        run a
        enqueue b kind=k
        finish a ok usage=tokens:100
        enqueue c kind=k
        tick
        enqueue b kind=k                        # The same call again: it was taken before.
        kind k budget=tokens:200/day on_exhausted=refuse lease=2h
        enqueue c kind=k
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 succeeded (exit) -> succeeded
            refused c BUDGET_EXHAUSTED: the budget of kind k is spent: tokens, retry after 43200s
            deferred b budget: budget of tokens spent
            b deduplicated -> b queued
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
        "#]],
    );
}

#[test]
fn what_was_spent_survives_takeovers_and_is_charged_once() {
    check(
        "
        kind k budget=tokens:100/hour lease=2h
        node n1
        enqueue a kind=k
        enqueue b kind=k
        tick
        run a
        run b
        finish a ok usage=tokens:60
        finish a ok usage=tokens:60             # The answer was lost; it says it again.
        reload
        hello n1
        finish b ok usage=tokens:39
        enqueue c kind=k
        tick
        run c
        finish c ok usage=tokens:1
        enqueue d kind=k
        tick
        reload
        hello n1
        tick
        why d
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            ended a token=1.1 succeeded (exit) -> succeeded
            ended b token=1.2 succeeded (exit) -> succeeded
            granted c -> n1 token=2.1
            ended c token=2.1 succeeded (exit) -> succeeded
            deferred d budget: budget of tokens spent
            deferred d budget: budget of tokens spent
            d waits: budget budget of tokens spent for 0ns, tried 1
              budget budget of tokens spent: 1 times, 0ns
        "#]],
    );
}

#[test]
fn a_wall_clock_that_is_set_back_gives_no_second_budget_and_one_that_jumps_turns_the_window() {
    check(
        "
        kind k budget=tokens:100/hour lease=5h
        node n1
        enqueue a kind=k
        tick
        run a
        finish a ok usage=tokens:100
        enqueue b kind=k
        wall +1h
        tick
        run b
        finish b ok usage=tokens:100
        enqueue c kind=k
        wall -1h
        tick
        why c
        wall +2h
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 succeeded (exit) -> succeeded
            granted b -> n1 token=1.2
            ended b token=1.2 succeeded (exit) -> succeeded
            deferred c budget: budget of tokens spent
            c waits: budget budget of tokens spent for 0ns, tried 1
              budget budget of tokens spent: 1 times, 0ns
            granted c -> n1 token=1.3
        "#]],
    );
}

#[test]
fn a_changed_amount_counts_on_and_another_window_begins_anew() {
    check(
        "
        kind k budget=tokens:100/hour
        node n1
        enqueue a kind=k
        tick
        run a
        finish a ok usage=tokens:150
        enqueue b kind=k
        kind k budget=tokens:150/hour
        tick
        kind k budget=tokens:151/hour
        tick
        enqueue c kind=k
        run b
        finish b ok usage=tokens:1
        tick
        kind k budget=tokens:100/week
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 succeeded (exit) -> succeeded
            deferred b budget: budget of tokens spent
            granted b -> n1 token=1.2
            ended b token=1.2 succeeded (exit) -> succeeded
            deferred c budget: budget of tokens spent
            granted c -> n1 token=1.3
        "#]],
    );
}

#[test]
fn of_two_counters_the_one_that_turns_last_is_told() {
    check(
        "
        kind k budget=pages:5/hour,tokens:100/day lease=9h
        node n1
        enqueue a kind=k
        tick
        run a
        finish a ok usage=tokens:100,pages:5
        enqueue b kind=k
        tick
        why b
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 succeeded (exit) -> succeeded
            deferred b budget: budget of tokens spent
            b waits: budget budget of tokens spent for 0ns, tried 1
              budget budget of tokens spent: 1 times, 0ns
        "#]],
    );
}

#[test]
fn what_comes_after_a_loss_is_charged_in_its_place() {
    check(
        "
        kind k budget=tokens:100/day lease=10s retry=1h
        node n1
        enqueue a kind=k
        tick
        run a
        close n1
        mute n1
        advance 20s
        hello n1
        finish a fail usage=tokens:100
        attempts a
        enqueue b kind=k
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            12.5s: ended a token=1.1 lost (lease_expired) -> queued [its lease ended in silence]
            12.5s: deferred a suspect: n1 silent
            20s: loss replaced a token=1.1 failed_retryable -> scheduled [exit]
            20s: a round=1 attempt=1 1.1 on n1: failed_retryable exit tokens=100
            20s: deferred b budget: budget of tokens spent
        "#]],
    );
}
