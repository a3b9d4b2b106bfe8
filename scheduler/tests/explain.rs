//! What a waiting job is told: reasons with counts and durations, its place, every node; and the health of queues.

use expect_test::expect;
use tenure_scheduler::Explaining;

use crate::support::{Script, check};

#[test]
fn the_history_still_tells_of_the_pressure_once_the_job_runs() {
    check(
        "
        kind k
        node n1
        press n1 close=*:uid_procs:600:550
        enqueue a kind=k
        tick
        advance 5s
        press n1 close=*:uid_procs:620:550
        tick
        why a
        advance 5s
        press n1
        tick
        job a
        ",
        expect![[r#"
            deferred a node_pressure: uid_procs on n1 (600, closes at 550)
            5s: deferred a node_pressure: uid_procs on n1 (620, closes at 550)
            5s: a waits: node_pressure uid_procs on n1 (620, closes at 550) for 5s, tried 2
            5s:   node_pressure uid_procs on n1 (620, closes at 550): 2 times, 5s
            10s: granted a -> n1 token=1.1
            10s: a running round=1 attempt=1
            10s:   waited uid_procs on n1 (620, closes at 550): 2 times, 10s
        "#]],
    );
}

#[test]
fn each_job_is_told_its_own_part_of_what_its_class_waited_for() {
    check(
        "
        slot f 1
        slot n node
        kind k needs=f:1,n:1
        kind fleet needs=f:1
        node n1 slots=n:1
        enqueue x kind=fleet
        tick
        run x
        enqueue a kind=k
        advance 10s
        enqueue b kind=k
        tick
        press n1 close=*:mem_low:1:2
        done x
        advance 20s
        why a
        why b
        press n1
        tick
        job a
        run a
        advance 5s
        explain b
        done a
        tick
        job b
        ",
        expect![[r#"
            granted x -> n1 token=1.1
            1s: deferred a slot_busy: slot f 1/1
            10s: ended x token=1.1 succeeded (exit) -> succeeded
            10s: lease 1.1 gone
            11s: deferred a node_pressure: mem_low on n1 (1, closes at 2)
            30s: deferred a node_pressure: mem_low on n1 (1, closes at 2)
            30s: a waits: node_pressure mem_low on n1 (1, closes at 2) for 19s, tried 3
            30s:   node_pressure mem_low on n1 (1, closes at 2): 2 times, 19s
            30s:   slot_busy slot f 1/1: 1 times, 10s
            30s: b waits: node_pressure mem_low on n1 (1, closes at 2) for 19s, tried 3
            30s:   node_pressure mem_low on n1 (1, closes at 2): 2 times, 19s
            30s:   slot_busy slot f 1/1: 1 times, 1s
            30s: granted a -> n1 token=1.2
            30s: deferred b slot_busy: slot f 1/1
            30s: a running round=1 attempt=1
            30s:   waited mem_low on n1 (1, closes at 2): 2 times, 19s
            30s:   waited slot f 1/1: 1 times, 10s
            35s: b: slot f 1/1, 0 ahead
            35s:   It waits for 1 unit of fleet slot f (1/1 taken).
            35s:   slot f: needs 1 of 1/1
            35s:     a holds 1 for 5s
            35s:   slot n on n1: needs 1 of 1/1
            35s:     a holds 1 for 5s
            35s:   node n1: slot n on n1 1/1
            35s:   > 1 more unit of fleet slot f: holders end, or its capacity is raised from 1 to 2
            35s:   > 1 lease holds slot f; it is listed
            35s:   > 1 lease holds slot n; it is listed
            35s: ended a token=1.2 succeeded (exit) -> succeeded
            35s: lease 1.2 gone
            35s: granted b -> n1 token=1.3
            35s: b running round=1 attempt=1
            35s:   waited mem_low on n1 (1, closes at 2): 2 times, 19s
            35s:   waited slot f 1/1: 2 times, 6s
        "#]],
    );
}

#[test]
fn what_a_job_waited_for_survives_a_takeover() {
    check(
        "
        slot f 1
        kind k needs=f:1
        node n1
        enqueue x kind=k
        enqueue a kind=k
        tick
        run x
        advance 10s
        reload
        hello n1
        advance 5s
        why a
        done x
        tick
        job a
        ",
        expect![[r#"
            granted x -> n1 token=1.1
            deferred a slot_busy: slot f 1/1
            11s: deferred a slot_busy: slot f 1/1
            15s: a waits: slot_busy slot f 1/1 for 4s, tried 2
            15s:   slot_busy slot f 1/1: 2 times, 14s
            15s: ended x token=1.1 succeeded (exit) -> succeeded
            15s: lease 1.1 gone
            15s: granted a -> n1 token=2.1
            15s: a running round=1 attempt=1
            15s:   waited slot f 1/1: 2 times, 14s
        "#]],
    );
}

#[test]
fn timelines_are_saved_and_go_with_their_class() {
    let mut run = Script::new();
    run.lines("slot f 1 \n kind k needs=f:1 \n node n1");
    run.lines("enqueue x kind=k \n enqueue a kind=k \n tick \n run x \n advance 2s");
    assert_eq!(run.world.store.class_rows(), 1);
    run.lines("done x \n tick");
    assert_eq!(run.world.store.class_rows(), 0, "nobody waits in it any more");
    run.lines("enqueue b kind=k \n tick \n advance 2s");
    assert_eq!(run.world.store.class_rows(), 1);
    run.lines("cancel b");
    assert_eq!(run.world.store.class_rows(), 0);
}

#[test]
fn a_saved_timeline_that_no_job_needs_after_a_takeover_is_removed() {
    let mut run = Script::new();
    run.lines("slot f 1 \n slot g 1 \n kind k needs=f:1 \n node n1");
    run.lines("enqueue x kind=k \n enqueue a kind=k \n tick \n run x \n advance 2s");
    assert_eq!(run.world.store.class_rows(), 1);
    // The leader ends with a turn that was to remove the row together with its last job.
    run.lines("begin \n cancel a \n lose \n tick");
    assert_eq!(run.world.store.class_rows(), 1, "its job still waits");
    run.lines("begin \n kind k needs=g:1 \n commit \n reload \n tick");
    assert_eq!(run.world.store.class_rows(), 0, "its job waits in another class");
}

#[test]
fn explain_names_every_node_with_its_own_reason_and_who_stands_ahead() {
    check(
        "
        slot f 2
        slot n node
        kind k needs=f:1,n:1
        kind other
        node away slots=n:1
        node busy slots=n:1
        node closed slots=n:1
        node cordoned slots=n:1
        node draining slots=n:1
        node other slots=n:1 kinds=other
        node small
        cordon cordoned
        drain draining 1h
        close away
        press closed close=*:mem_low:1:2
        enqueue h kind=k
        tick
        run h
        advance 30s
        enqueue a kind=k
        enqueue b kind=k
        enqueue c kind=k
        tick
        explain c
        explain h
        explain nobody
        ",
        expect![[r#"
            granted h -> busy token=1.1
            30s: deferred a slot_busy: slot n on busy 1/1
            30s: c: slot n on busy 1/1, 2 ahead a b
            30s:   It waits for 1 unit of slot n on one node (1/5 taken on 5 nodes); 2 jobs of its class are before it.
            30s:   slot f: needs 1 of 1/2
            30s:     h holds 1 for 30s
            30s:   slot n on away: needs 1 of 0/1
            30s:   slot n on busy: needs 1 of 1/1
            30s:     h holds 1 for 30s
            30s:   slot n on closed: needs 1 of 0/1
            30s:   slot n on cordoned: needs 1 of 0/1
            30s:   slot n on draining: needs 1 of 0/1
            30s:   node away: away silent
            30s:   node busy: slot n on busy 1/1
            30s:   node closed: mem_low on closed (1, closes at 2)
            30s:   node cordoned: cordoned cordoned
            30s:   node draining: draining draining
            30s:   node other: no node runs this kind
            30s:   node small: needs 1 of slot n, the most is 0
            30s:   > 1 more unit of slot n on node busy or another: holders end, or a node that runs kind k and offers n:1 joins
            30s:   > 1 node that could hold it is cordoned: uncordon cordoned
            30s:   > 1 node that could hold it is being emptied: uncordon draining
            30s:   > 1 node that could hold it is silent: look at away
            30s:   > 1 lease holds slot n; it is listed
            30s: h: runs, 0 ahead
            30s: nobody is not live
        "#]],
    );
}

#[test]
fn a_stuck_head_is_told_from_a_burst_and_from_a_busy_slot() {
    let mut run = Script::new();
    run.lines(
        "slot f 1 \n slot n node \n kind stuck needs=n:1 \n kind burst needs=f:1 \n kind busy needs=f:1",
    );
    run.lines("enqueue s1 kind=stuck \n enqueue s2 kind=stuck \n enqueue s3 kind=stuck \n node n1");
    run.lines("enqueue w kind=busy \n tick \n run w \n enqueue w2 kind=busy \n advance 40s");
    for n in 0..12 {
        run.lines(&format!("enqueue b{n} kind=burst"));
    }
    run.lines("tick \n advance 20s");
    run.trace.clear();
    run.lines("health stuck \n health burst \n health busy");
    run.world.state.snapshot(run.world.now()).attention.iter().for_each(|line| run.say(line));
    expect![[r#"
        60s: stuck Stuck depth=3 scheduled=0 running=0 able=0 oldest=60s head: needs 1 of slot n, the most is 0
        60s: burst Burst depth=12 scheduled=0 running=0 able=1 oldest=20s head: slot f 1/1
        60s: busy Moving depth=1 scheduled=0 running=1 able=1 oldest=60s head: slot f 1/1
        60s: kind stuck is stuck: 3 queued, needs 1 of slot n, the most is 0
    "#]]
    .assert_eq(&run.trace);
}

#[test]
fn equal_nodes_that_say_the_same_are_one_group() {
    check(
        "
        slot n node
        kind k needs=n:2
        kind other
        node a1 slots=n:2 labels=zone:a
        node a2 slots=n:2 labels=zone:a
        node a3 slots=n:2 labels=zone:a
        node a4 slots=n:2 labels=zone:a
        node b1 slots=n:2 labels=zone:b
        node c1 slots=n:1
        node c2 slots=n:1
        node d1 slots=n:2 kinds=other
        cordon a4
        close b1
        enqueue h1 kind=k
        enqueue h2 kind=k
        enqueue h3 kind=k
        enqueue j kind=k
        tick
        groups j
        ",
        expect![[r#"
            granted h1 -> a1 token=1.1
            granted h2 -> a3 token=1.2
            granted h3 -> a2 token=1.3
            deferred j slot_busy: slot n on a3 2/2
            j: It waits for 2 units of slot n on one node (6/10 taken on 5 nodes).
              slot n: needs 2, 2/5 nodes have room, 6/10 taken
              3 of n:2 zone=a: slot n on a1 2/2 (a1 a2 a3)
              1 of n:2 zone=b: b1 silent (b1)
              1 of n:2 zone=a: a4 cordoned (a4)
              2 of n:1: needs 2 of slot n, the most is 1 (c1 c2)
              1 of n:2: no node runs this kind (d1)
              > 2 more units of slot n on node a3 or another: holders end, or a node that runs kind k and offers n:2 joins
              > 1 node that could hold it is cordoned: uncordon a4
              > 1 node that could hold it is silent: look at b1
              > 3 leases hold slot n; they are listed
        "#]],
    );
}

#[test]
fn many_nodes_are_told_in_groups_only_and_few_of_them_with_their_slots() {
    let mut run = Script::new();
    run.lines("slot n node \n kind k needs=n:1");
    for n in 0..150 {
        run.lines(&format!("node n{n:03} slots=n:1"));
    }
    for n in 0..150 {
        run.lines(&format!("enqueue h{n} kind=k"));
    }
    run.lines("enqueue j kind=k \n tick \n tick");
    run.trace.clear();
    run.lines("groups j");
    expect![[r#"
        j: It waits for 1 unit of slot n on one node (150/150 taken on 150 nodes).
          slot n: needs 1, 0/150 nodes have room, 150/150 taken
          150 of n:1: slot n on n000 1/1 (n000 n001 n002)
          > 1 more unit of slot n on node n149 or another: holders end, or a node that runs kind k and offers n:1 joins
          > 20 leases hold slot n; they are listed
    "#]]
    .assert_eq(&run.trace);
    let id = run.id("j");
    let explanation = run.world.state.explain(run.world.now(), id).unwrap();
    assert!(explanation.nodes.is_empty(), "150 lines help nobody");
    assert_eq!(explanation.slots.len(), 20);
}

#[test]
fn what_changes_between_two_slices_is_told_as_it_was_in_its_slice() {
    let mut run = Script::new();
    run.lines("slot n node \n kind k needs=n:1 \n node n1 slots=n:1 \n node n2 slots=n:1");
    run.lines("enqueue h1 kind=k \n enqueue h2 kind=k \n enqueue j kind=k \n tick");
    let id = run.id("j");
    let mut explaining = Explaining::new(id);
    assert!(run.world.state.explain_slice(run.world.now(), &mut explaining, 1).is_none());
    // The node that was seen is cordoned, the one that was not is too, and one joins behind those that were seen.
    run.lines("cordon n1 \n cordon n2 \n node n0 slots=n:1");
    let answer = loop {
        if let Some(answer) = run.world.state.explain_slice(run.world.now(), &mut explaining, 1) {
            break answer.unwrap();
        }
    };
    let told: Vec<(&str, &str)> =
        answer.nodes.iter().map(|node| (node.node.as_str(), node.why_not.as_ref().unwrap().name())).collect();
    assert_eq!(told, [("n1", "slot_busy"), ("n2", "nodes_cordoned")]);
    assert_eq!(answer.deferral, run.world.state.live_view(run.world.now(), id).unwrap().deferral);
}

#[test]
fn an_explanation_begins_anew_when_its_job_moves_and_ends_when_it_runs_or_is_gone() {
    let mut run = Script::new();
    run.lines("slot n node \n kind k needs=n:1 \n node n1 slots=n:1 \n node n2 slots=n:1");
    run.lines("enqueue h1 kind=k \n enqueue h2 kind=k \n enqueue j kind=k \n tick");
    let id = run.id("j");
    let begin = |run: &Script| {
        let mut explaining = Explaining::new(id);
        assert!(run.world.state.explain_slice(run.world.now(), &mut explaining, 1).is_none());
        explaining
    };
    let finish = |run: &Script, mut explaining: Explaining| loop {
        if let Some(answer) = run.world.state.explain_slice(run.world.now(), &mut explaining, 1) {
            break answer;
        }
    };
    // Another leader: its classes have other numbers.
    let explaining = begin(&run);
    run.lines("reload \n hello n1 \n hello n2 \n tick");
    let answer = finish(&run, explaining);
    assert_eq!(answer, run.world.state.explain(run.world.now(), id));
    assert_eq!(answer.unwrap().nodes.len(), 2);
    // It runs meanwhile.
    let explaining = begin(&run);
    run.lines("run h1 \n done h1 \n tick");
    let answer = finish(&run, explaining).unwrap();
    assert_eq!((answer.deferral, answer.nodes.len()), (None, 0));
    // It is gone meanwhile.
    run.lines("enqueue i kind=k \n tick");
    let id = run.id("i");
    let mut explaining = Explaining::new(id);
    assert!(run.world.state.explain_slice(run.world.now(), &mut explaining, 1).is_none());
    run.lines("cancel i");
    assert_eq!(run.world.state.explain_slice(run.world.now(), &mut explaining, 1), Some(None));
}
