//! Where jobs may go by the labels of nodes.

use expect_test::expect;

use crate::support::check;

#[test]
fn a_job_goes_where_all_its_requirements_hold() {
    check(
        "
        kind k selector=os:linux
        node plain host=os:linux labels=zone:east
        node old host=os:linux labels=gpu:k80,spot:yes
        node new host=os:linux labels=gpu:h100
        node mac host=os:macos labels=gpu:h100,os:linux
        enqueue a kind=k selector=gpu:a100|h100
        enqueue b kind=k selector=gpu,spot
        enqueue c kind=k selector=!gpu
        enqueue d kind=k selector=gpu:!k80|h100
        enqueue e kind=k selector=gpu,!spot
        tick
        ",
        expect![[r#"
            granted a -> new token=1.1
            granted b -> old token=1.2
            granted c -> plain token=1.3
            granted d -> plain token=1.4
            granted e -> new token=1.5
        "#]],
    );
}

/// Its kind and the job ask for what no node can be at once: the reason names both.
#[test]
fn contradictory_requirements_match_no_node_and_are_named() {
    check(
        "
        kind k selector=os:linux,gpu
        node n1 host=os:linux labels=gpu:h100
        enqueue a kind=k selector=os:macos|windows
        enqueue b kind=k selector=!gpu
        tick
        why a
        why b
        enqueue c kind=k selector=os:linux
        tick
        ",
        expect![[r#"
            deferred a no_matching_node: no node runs this kind with gpu,os=linux,os in (macos, windows)
            deferred b no_matching_node: no node runs this kind with gpu,!gpu,os=linux
            a waits: no_matching_node no node runs this kind with gpu,os=linux,os in (macos, windows) for 0ns, tried 1
              no_matching_node no node runs this kind with gpu,os=linux,os in (macos, windows): 1 times, 0ns
            b waits: no_matching_node no node runs this kind with gpu,!gpu,os=linux for 0ns, tried 1
              no_matching_node no node runs this kind with gpu,!gpu,os=linux: 1 times, 0ns
            granted c -> n1 token=1.1
        "#]],
    );
}

#[test]
fn a_label_that_appears_or_goes_moves_what_waits_for_it() {
    check(
        "
        slot s node
        kind k needs=s:1
        node n1 slots=s:1 labels=zone:west host=os:linux
        enqueue a kind=k selector=zone:!west
        tick
        node n1 slots=s:1 labels=zone:east host=os:linux inc=2
        tick
        why a
        ",
        expect![[r#"
            deferred a no_matching_node: no node runs this kind with zone!=west
            session 1 of n1 is closed: SUPERSEDED_SESSION
            granted a -> n1 token=1.1
            a does not wait
        "#]],
    );
}

/// After an upgrade of its host a node is another; so are the jobs that it may run.
#[test]
fn a_host_that_changes_is_seen() {
    check(
        "
        kind k
        node n1 host=arch:x86_64
        enqueue a kind=k selector=arch:aarch64
        tick
        close n1
        node n1 host=arch:aarch64 inc=2
        tick
        ",
        expect![[r#"
            deferred a no_matching_node: no node runs this kind with arch=aarch64
            granted a -> n1 token=1.1
        "#]],
    );
}

/// A node file cannot make a host what it is not: a warning says so.
#[test]
fn a_label_that_its_host_overrules_is_warned_of() {
    check(
        "
        kind k
        show messages
        node n1 host=os:linux,arch:x86_64 labels=os:macos,arch:x86_64,zone:east
        ",
        expect![[r#"
            n1 < welcome epoch=1 every=5s anchor=1; label os is what the host is, linux; the node file's is ignored
        "#]],
    );
}

/// Kueue 13607: a workload had two flavors to go to, and its first one could never hold it; it was never tried on the
/// second.
#[test]
fn regress_kueue_13607_a_route_that_can_never_fit_does_not_hide_the_other() {
    check(
        "
        slot gpu node
        kind k needs=gpu:4
        node small slots=gpu:2 labels=gpu:a100
        node large slots=gpu:4 labels=gpu:h100
        enqueue a kind=k selector=gpu:a100|h100
        enqueue b kind=k selector=gpu:a100|h100
        tick
        why b
        ",
        expect![[r#"
            granted a -> large token=1.1
            deferred b slot_busy: slot gpu on large 4/4
            b waits: slot_busy slot gpu on large 4/4 for 0ns, tried 1
              slot_busy slot gpu on large 4/4: 1 times, 0ns
        "#]],
    );
}

/// Armada 4074: a job that asked for a resource that nobody has stayed queued without a word.
#[test]
fn regress_armada_4074_an_undeclared_slot_is_refused_at_once_with_the_nearest_name() {
    check(
        "
        slot gpu node
        kind k
        node n1 slots=gpu:1
        enqueue a kind=k needs=gpuu:1
        ",
        expect![[r#"
            refused a SLOT_NOT_FOUND: slot gpuu is not declared, near [gpu]
        "#]],
    );
}

/// Armada 4946: with every node cordoned, jobs were taken for such as can never run.
#[test]
fn regress_armada_4946_jobs_wait_while_every_node_is_cordoned() {
    check(
        "
        slot gpu node
        kind k needs=gpu:1
        node n1 slots=gpu:1
        node n2 slots=gpu:1
        cordon n1
        cordon n2
        enqueue a kind=k
        tick
        why a
        uncordon n2
        tick
        ",
        expect![[r#"
            deferred a nodes_cordoned: n2 cordoned
            a waits: nodes_cordoned n2 cordoned for 0ns, tried 1
              nodes_cordoned n2 cordoned: 1 times, 0ns
            granted a -> n2 token=1.1
        "#]],
    );
}
