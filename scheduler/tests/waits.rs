//! Parents that wait for their children by detaching: nothing of them is held, and each wait leads to one resume.

use expect_test::expect;

use crate::support::check;

/// One gpu, and a parent on it that wants children on it.
const GPU: &str = "
    slot gpu node
    kind p needs=gpu:1
    kind c needs=gpu:1
    node n1 slots=gpu:1
    show resumes
    enqueue a kind=p
    tick
    run a
    enqueue b kind=c parent=a
    tick
";

/// ray#5790: with one gpu, a parent on it that waits for a child on it. Both finish.
#[test]
fn a_parent_that_detaches_leaves_its_slots_to_its_child() {
    check(
        &format!(
            "{GPU}
            detach a children=b state
            why a
            tick
            reaped a
            tick
            run b
            finish b ok result
            tick
            job a
            reaped b
            tick
            job a
            done a
            job a
            attempts a
            "
        ),
        expect![[r#"
            granted a -> n1 token=1.1
            deferred b slot_busy: slot gpu on n1 1/1
            ended a token=1.1 detached (exit) -> waiting
            a waits: waiting_children waits for 1 child for 0ns, tried 0
              waiting_children children: 1 times, 0ns
            lease 1.1 gone
            granted b -> n1 token=1.2
            ended b token=1.2 succeeded (exit) -> succeeded
            wait of a over
            deferred a slot_busy: slot gpu on n1 1/1
            a queued round=1 attempt=1
              waited children: 1 times, 0ns
            lease 1.2 gone
            granted a -> n1 token=1.3
            a 1.3 resumes from 1.1 with its state: b succeeded
            a running round=1 attempt=1
              waited children: 1 times, 0ns
              waited slot gpu on n1 1/1: 1 times, 0ns
            ended a token=1.3 succeeded (exit) -> succeeded
            lease 1.3 gone
            a succeeded round=1 attempt=1
              waited children: 1 times, 0ns
              waited slot gpu on n1 1/1: 1 times, 0ns
            a round=1 attempt=1 1.1 on n1: detached exit exit=79
            a round=1 attempt=1 1.3 on n1: succeeded exit
        "#]],
    );
}

/// A parent and three children that need nothing.
const FAMILY: &str = "
    kind p
    kind c max_failures=1 max_losses=1
    node n1
    show resumes
    enqueue a kind=p
    tick
    run a
    enqueue b kind=c parent=a
    enqueue c kind=c parent=a
    enqueue d kind=c parent=a
    tick
    run b
    run c
    run d
";

pub(crate) fn family(script: &str, expected: expect_test::Expect) {
    check(&format!("{FAMILY}{script}"), expected);
}

#[test]
fn a_wait_for_what_has_ended_already_is_over_at_once() {
    family(
        "
        done b
        finish c fail
        reaped c
        delete c
        cancel d
        finish d revoked
        detach a children=b,c,d,never
        reaped a
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            granted d -> n1 token=1.4
            ended b token=1.2 succeeded (exit) -> succeeded
            lease 1.2 gone
            ended c token=1.3 failed_retryable (exit) -> dead [exit]
            lease 1.3 gone
            deleted c
            cancel requested d
            revoked 1.4 cancelled
            ended d token=1.4 cancelled (revoked) -> cancelled
            ended a token=1.1 detached (exit) -> queued
            lease 1.1 gone
            granted a -> n1 token=1.5
            a 1.5 resumes from 1.1: b succeeded c missing d cancelled never missing
        "#]],
    );
}

#[test]
fn a_wait_for_all_takes_every_end_in_the_order_of_the_parent() {
    family(
        "
        detach a children=d,b,c
        reaped a
        done d
        tick
        finish b fail
        reaped b
        tick
        why a
        finish c permanent
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            granted d -> n1 token=1.4
            ended a token=1.1 detached (exit) -> waiting
            lease 1.1 gone
            ended d token=1.4 succeeded (exit) -> succeeded
            lease 1.4 gone
            ended b token=1.2 failed_retryable (exit) -> dead [exit]
            lease 1.2 gone
            a waits: waiting_children waits for 1 child for 0ns, tried 0
              waiting_children children: 1 times, 0ns
            ended c token=1.3 failed_permanent (exit) -> dead [exit]
            wait of a over
            granted a -> n1 token=1.5
            a 1.5 resumes from 1.1: d succeeded b dead c dead
        "#]],
    );
}

#[test]
fn a_wait_for_any_is_over_with_the_first_success_or_without_hope() {
    family(
        "
        detach a children=b,c,d policy=any
        finish b fail
        tick
        done c
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            granted d -> n1 token=1.4
            ended a token=1.1 detached (exit) -> waiting
            ended b token=1.2 failed_retryable (exit) -> dead [exit]
            ended c token=1.3 succeeded (exit) -> succeeded
            lease 1.3 gone
            wait of a over
        "#]],
    );
    family(
        "
        detach a children=b,c policy=any
        finish b fail
        tick
        finish c fail
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            granted d -> n1 token=1.4
            ended a token=1.1 detached (exit) -> waiting
            ended b token=1.2 failed_retryable (exit) -> dead [exit]
            ended c token=1.3 failed_retryable (exit) -> dead [exit]
            wait of a over
        "#]],
    );
}

#[test]
fn a_wait_for_two_is_over_when_two_have_succeeded_or_cannot() {
    family(
        "
        detach a children=b,c,d policy=2
        done b
        tick
        done d
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            granted d -> n1 token=1.4
            ended a token=1.1 detached (exit) -> waiting
            ended b token=1.2 succeeded (exit) -> succeeded
            lease 1.2 gone
            ended d token=1.4 succeeded (exit) -> succeeded
            lease 1.4 gone
            wait of a over
        "#]],
    );
    family(
        "
        detach a children=b,c,d policy=2
        done b
        finish c fail
        tick
        finish d fail
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            granted d -> n1 token=1.4
            ended a token=1.1 detached (exit) -> waiting
            ended b token=1.2 succeeded (exit) -> succeeded
            lease 1.2 gone
            ended c token=1.3 failed_retryable (exit) -> dead [exit]
            ended d token=1.4 failed_retryable (exit) -> dead [exit]
            wait of a over
        "#]],
    );
}

#[test]
fn a_wait_until_the_first_failure_ends_with_it() {
    family(
        "
        detach a children=b,c,d policy=failure
        done b
        tick
        finish c fail
        tick
        finish d ok
        reaped a
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            granted d -> n1 token=1.4
            ended a token=1.1 detached (exit) -> waiting
            ended b token=1.2 succeeded (exit) -> succeeded
            lease 1.2 gone
            ended c token=1.3 failed_retryable (exit) -> dead [exit]
            wait of a over
            ended d token=1.4 succeeded (exit) -> succeeded
            lease 1.1 gone
            granted a -> n1 token=1.5
            a 1.5 resumes from 1.1: b succeeded c dead d succeeded
        "#]],
    );
}

#[test]
fn a_wait_ends_after_its_longest_time_under_a_later_leader_too() {
    family(
        "
        detach a children=b,c,d max_wait=60s state
        reaped a
        advance 20s
        done b
        reload
        hello n1
        why a
        advance 39s
        advance 2s
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            granted d -> n1 token=1.4
            ended a token=1.1 detached (exit) -> waiting
            lease 1.1 gone
            20s: ended b token=1.2 succeeded (exit) -> succeeded
            20s: lease 1.2 gone
            20s: a waits: waiting_children waits for 2 children for 0ns, tried 0
            20s:   waiting_children children: 1 times, 0ns
            60s: wait of a over
            60s: granted a -> n1 token=2.1
            60s: a 2.1 resumes from 1.1 with its state: b succeeded c open d open
        "#]],
    );
}

#[test]
fn an_end_that_memory_lost_before_it_was_told_is_not_waited_for() {
    family(
        "
        detach a children=b,c
        reaped a
        aside a
        done b
        reload
        hello n1
        tick
        done c
        tick
        run a
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            granted d -> n1 token=1.4
            ended a token=1.1 detached (exit) -> waiting
            lease 1.1 gone
            set aside a
            ended b token=1.2 succeeded (exit) -> succeeded
            lease 1.2 gone
            ended c token=1.3 succeeded (exit) -> succeeded
            lease 1.3 gone
            wait of a over
            granted a -> n1 token=2.1
            a 2.1 resumes from 1.1: b open c succeeded
        "#]],
    );
}

#[test]
fn a_cancelled_parent_ends_the_children_that_follow_it_and_what_follows_those() {
    check(
        "
        kind p
        kind c
        node n1 credits=3
        enqueue a kind=p
        tick
        run a
        enqueue b kind=c parent=a
        enqueue kept kind=c parent=a on_cancel=keep
        tick
        run b
        run kept
        enqueue b1 kind=c parent=b delay=1h
        enqueue b2 kind=c parent=b delay=1h on_cancel=keep
        enqueue kept1 kind=c parent=kept delay=1h
        detach a children=b,kept
        cancel a
        cancel a
        job b
        job kept
        finish b revoked
        reaped b
        enqueue late kind=c parent=a
        enqueue late2 kind=c parent=b
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted kept -> n1 token=1.3
            ended a token=1.1 detached (exit) -> waiting
            ended a -> cancelled [cancelled by request]
            cancel requested b
            revoked 1.2 cancelled
            ended b1 -> cancelled [its parent was cancelled]
            a unchanged cancelled
            b running round=1 attempt=1 priority=1 [its parent was cancelled]
            kept running round=1 attempt=1 priority=1
            ended b token=1.2 cancelled (revoked) -> cancelled
            lease 1.2 gone
            refused late PARENT_NOT_LIVE: parent a is not a live job of this producer
            refused late2 PARENT_NOT_LIVE: parent b is not a live job of this producer
        "#]],
    );
}

#[test]
fn a_running_parent_that_is_cancelled_takes_its_children_along_at_once() {
    family(
        "
        cancel a
        enqueue e kind=c parent=a
        finish a ok
        job a
        finish b ok
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            granted d -> n1 token=1.4
            cancel requested a
            revoked 1.1 cancelled
            cancel requested b
            revoked 1.2 cancelled
            cancel requested c
            revoked 1.3 cancelled
            cancel requested d
            revoked 1.4 cancelled
            refused e PARENT_NOT_LIVE: parent a is not a live job of this producer
            ended a token=1.1 cancelled (exit) -> cancelled
            a cancelled round=1 attempt=1 [cancelled by request]
            ended b token=1.2 cancelled (exit) -> cancelled
        "#]],
    );
}

#[test]
fn children_follow_a_lost_parent_only_if_they_asked_for_it() {
    check(
        "
        kind p
        kind c
        node n1
        enqueue a kind=p
        tick
        run a
        enqueue b kind=c parent=a
        enqueue gone kind=c parent=a on_lost=cancel
        finish a lost
        tick
        job b
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            ended a token=1.1 lost (shim_died) -> queued [shim_died]
            ended gone -> cancelled [an execution of its parent was lost]
            granted b -> n1 token=1.2
            b running round=1 attempt=1 priority=1
        "#]],
    );
}

#[test]
fn a_child_that_is_requeued_is_waited_for_again() {
    family(
        "
        detach a children=b,c
        reaped a
        finish b fail
        reaped b
        requeue b
        tick
        done c
        tick
        why a
        run b
        done b
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            granted d -> n1 token=1.4
            ended a token=1.1 detached (exit) -> waiting
            lease 1.1 gone
            ended b token=1.2 failed_retryable (exit) -> dead [exit]
            lease 1.2 gone
            requeued b round=2
            granted b -> n1 token=1.5
            ended c token=1.3 succeeded (exit) -> succeeded
            lease 1.3 gone
            a waits: waiting_children waits for 1 child for 0ns, tried 0
              waiting_children children: 1 times, 0ns
            ended b token=1.5 succeeded (exit) -> succeeded
            lease 1.5 gone
            wait of a over
            granted a -> n1 token=1.6
            a 1.6 resumes from 1.1: b succeeded c succeeded
        "#]],
    );
}

#[test]
fn a_parent_that_is_requeued_begins_anew() {
    family(
        "
        detach a children=b state
        reaped a
        cancel a
        requeue a
        tick
        attempts a
        job a
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n1 token=1.3
            granted d -> n1 token=1.4
            ended a token=1.1 detached (exit) -> waiting
            lease 1.1 gone
            ended a -> cancelled [cancelled by request]
            cancel requested b
            revoked 1.2 cancelled
            cancel requested c
            revoked 1.3 cancelled
            cancel requested d
            revoked 1.4 cancelled
            requeued a round=2
            granted a -> n1 token=1.5
            a round=1 attempt=1 1.1 on n1: detached exit exit=79
            a running round=2 attempt=1
        "#]],
    );
}
