//! What is told of a node.

use std::time::Duration;

use tenure_scheduler::{KindName, NodeView, Now};

use crate::support::Script;

fn node(run: &Script, name: &str) -> (Now, NodeView) {
    let now = run.world.now();
    let found = run.world.state.snapshot(now).nodes.into_iter().find(|view| view.node.name.as_str() == name);
    (now, found.expect("a node of that name"))
}

#[test]
fn a_node_tells_the_kinds_that_it_is_not_offered_until_it_is() {
    let mut run = Script::new();
    run.lines("slot s node \n kind k needs=s:1 retry=1h \n node n1 slots=s:3 \n node n2");
    for job in ["a", "b", "c"] {
        assert_eq!(node(&run, "n1").1.backoffs, []);
        run.lines(&format!("enqueue {job} kind=k \n tick \n run {job} \n finish {job} fail \n reaped {job}"));
    }
    run.lines("advance 4s");
    let (now, n1) = node(&run, "n1");
    let [backoff] = &n1.backoffs[..] else { panic!("one kind: {:?}", n1.backoffs) };
    assert_eq!((&backoff.kind, backoff.failed), (&KindName::new("k"), 3));
    assert_eq!(backoff.until, now.wall.after(Duration::from_secs(6)));
    assert_eq!(node(&run, "n2").1.backoffs, []);
    run.lines("advance 6s");
    assert_eq!(node(&run, "n1").1.backoffs, []);
    // One is tried, and then it is not offered the kind for as long again.
    run.lines("enqueue d kind=k \n tick");
    assert_eq!(node(&run, "n1").1.backoffs.len(), 1);
    run.lines("uncordon n1");
    assert_eq!(node(&run, "n1").1.backoffs, []);
}

#[test]
fn a_node_tells_what_is_kept_on_it_and_for_whom() {
    let mut run = Script::new();
    run.lines(
        "
        slot gpu node
        kind small needs=gpu:1 hard=60s
        kind large needs=gpu:2 hard=60s
        node n1 slots=gpu:2
        node n2
        enqueue a kind=small
        tick
        run a
        enqueue big kind=large
        tick
        advance 20s
        ",
    );
    assert_eq!(node(&run, "n1").1.earmarks, []);
    run.lines("advance 15s");
    let (now, n1) = node(&run, "n1");
    let [earmark] = &n1.earmarks[..] else { panic!("one is kept: {:?}", n1.earmarks) };
    assert_eq!((earmark.job, earmark.slots.to_string()), (run.id("big"), "gpu:2".to_owned()));
    assert!(earmark.by > now.wall && earmark.by < now.wall.after(Duration::from_secs(60)));
    assert_eq!(node(&run, "n2").1.earmarks, []);
    run.lines("done a \n tick \n run big");
    assert_eq!(node(&run, "n1").1.earmarks, []);
}
