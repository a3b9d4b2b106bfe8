//! Which of the nodes that have room is taken: rare slots are spared, pressure is heeded, jobs are packed or spread.

use expect_test::expect;

use crate::support::check;

#[test]
fn small_jobs_stay_off_the_host_with_what_few_have() {
    check(
        "
        slot shell node
        slot gpu node
        kind shell needs=shell:1
        kind train needs=gpu:1,shell:1
        node big slots=shell:8,gpu:1
        node small-1 slots=shell:1
        node small-2 slots=shell:2
        enqueue a kind=shell
        enqueue b kind=shell
        enqueue c kind=shell
        enqueue d kind=shell
        tick
        enqueue e kind=train
        tick
        enqueue f kind=shell
        tick
        ",
        expect![[r#"
            granted a -> small-1 token=1.1
            granted b -> small-2 token=1.2
            granted c -> small-2 token=1.3
            granted d -> big token=1.4
            granted e -> big token=1.5
            granted f -> big token=1.6
        "#]],
    );
}

#[test]
fn what_most_nodes_have_is_not_spared() {
    // `browser` is on two of three nodes. That `c` has one free does not keep shell jobs from filling it.
    check(
        "
        slot shell node
        slot browser node
        kind shell needs=shell:1
        node a slots=shell:4,browser:1
        node b slots=shell:4
        node c slots=shell:2,browser:1
        enqueue j1 kind=shell
        enqueue j2 kind=shell
        enqueue j3 kind=shell
        tick
        ",
        expect![[r#"
            granted j1 -> c token=1.1
            granted j2 -> c token=1.2
            granted j3 -> a token=1.3
        "#]],
    );
}

#[test]
fn jobs_are_packed_on_the_fullest_node_by_default() {
    check(
        "
        slot shell node
        kind k needs=shell:1
        node n1 slots=shell:3
        node n2 slots=shell:3
        node n3 slots=shell:3
        enqueue a kind=k
        enqueue b kind=k
        enqueue c kind=k
        enqueue d kind=k
        enqueue e kind=k
        tick
        ",
        expect![[r#"
            granted a -> n3 token=1.1
            granted b -> n3 token=1.2
            granted c -> n3 token=1.3
            granted d -> n1 token=1.4
            granted e -> n1 token=1.5
        "#]],
    );
}

#[test]
fn jobs_of_a_kind_that_spreads_go_to_the_emptiest_node() {
    check(
        "
        slot shell node
        kind k needs=shell:1 placement=spread
        kind bare placement=spread
        node n1 slots=shell:3
        node n2 slots=shell:3
        node n3 slots=shell:4
        enqueue a kind=k
        enqueue b kind=k
        enqueue c kind=k
        enqueue d kind=k
        tick
        enqueue e kind=bare
        enqueue f kind=bare
        tick
        ",
        expect![[r#"
            granted a -> n3 token=1.1
            granted b -> n2 token=1.2
            granted c -> n1 token=1.3
            granted d -> n3 token=1.4
            granted e -> n1 token=1.5
            granted f -> n2 token=1.6
        "#]],
    );
}

#[test]
fn a_kind_may_begin_to_spread_while_its_jobs_wait() {
    check(
        "
        slot shell node
        kind k needs=shell:1
        node n1 slots=shell:2
        node n2 slots=shell:2
        enqueue a kind=k
        tick
        cordon n1
        cordon n2
        enqueue b kind=k
        tick
        kind k needs=shell:1 placement=spread
        uncordon n1
        uncordon n2
        tick
        ",
        expect![[r#"
            granted a -> n2 token=1.1
            deferred b nodes_cordoned: n2 cordoned
            granted b -> n1 token=1.2
        "#]],
    );
}

#[test]
fn a_node_under_strain_comes_last_but_before_one_with_what_few_have() {
    check(
        "
        slot shell node
        slot gpu node
        kind k needs=shell:1
        node n1 slots=shell:2
        node n2 slots=shell:2
        node big slots=shell:9,gpu:1
        press n1 weight=2
        press n2 weight=3
        enqueue a kind=k
        enqueue b kind=k
        enqueue c kind=k
        enqueue d kind=k
        enqueue e kind=k
        tick
        ",
        expect![[r#"
            granted a -> n1 token=1.1
            granted b -> n1 token=1.2
            granted c -> n2 token=1.3
            granted d -> n2 token=1.4
            granted e -> big token=1.5
        "#]],
    );
}
