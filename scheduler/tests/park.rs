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
        expect![[""]],
    );
}
