//! Parents whose process stays while they wait: what they give back, what they keep, and how they get it again.

use expect_test::expect;

use crate::support::check;

/// ray#5790: with one gpu, a parent on it that waits for a child on it. Both finish.
#[test]
fn a_parent_that_parks_leaves_its_slots_to_its_child_and_gets_them_back() {
    check(
        "
        slot gpu node
        slot api 1
        kind p needs=gpu:1,api:1
        kind c needs=gpu:1,api:1
        node n1 slots=gpu:1
        enqueue a kind=p
        tick
        run a
        enqueue b kind=c parent=a
        tick
        park a children=b
        park a children=b
        job a
        why a
        tick
        run b
        finish b ok
        tick
        why a
        explain a
        reaped b
        tick
        job a
        park a children=b
        done a
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            deferred b slot_busy: slot api 1/1
            parked a token=1.1 wait=1 gives back api:1,gpu:1
            a wait: Parked
            a wait: Parked
            a waiting round=1 attempt=1
            a waits: waiting_children waits for 1 child for 0ns, tried 0
              waiting_children children: 1 times, 0ns
            granted b -> n1 token=1.2
            ended b token=1.2 succeeded (exit) -> succeeded
            lease 1.1 wants back what it gave
            earmarked api:1,gpu:1 on n1 for a within 0ns
            a waits: slot_busy slot gpu on n1 1/1 for 0ns, tried 0
              waiting_children children: 1 times, 0ns
            a: slot gpu on n1 1/1, 0 ahead
              It waits for 1 unit of slot gpu on one node.
              > 1 more unit of slot gpu on node n1 or another: holders end, or a node that runs kind p and offers gpu:1 joins
            lease 1.2 gone
            unparked a token=1.1 go
            earmark dropped of a on n1: used
            n1 < resume 1.1 wait=1 go
            a running round=1 attempt=1
              waited children: 1 times, 0ns
            a wait: Over(Go)
            ended a token=1.1 succeeded (exit) -> succeeded
            lease 1.1 gone
        "#]],
    );
}
