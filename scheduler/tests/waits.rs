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
