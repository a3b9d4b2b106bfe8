use super::*;
use crate::sessions::Queued;

fn want(token: u64) -> Want {
    Want {
        job: JobId(uuid::Uuid::nil()),
        token: FencingToken(token),
        id: 0,
        stream: LogStream::Unspecified,
        place: None,
        tail_lines: None,
        follow: true,
    }
}

/// A node that can be asked, and what it is told.
fn node(logs: &Logs, name: &str) -> (Attached, mpsc::Sender<Queued>, mpsc::Receiver<Queued>) {
    let (queue, told) = mpsc::channel(64);
    let attached = logs.attach(&NodeName::new(name), SessionId(1), Some(queue.downgrade()));
    (attached, queue, told)
}

async fn asked(told: &mut mpsc::Receiver<Queued>) -> Want {
    match told.recv().await.map(|queued| *queued) {
        Some(Outgoing::WantLog(want)) => want,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn only_the_node_that_was_asked_may_answer_and_only_once() {
    let logs = Logs::default();
    let (_attached, _queue, mut told) = node(&logs, "n1");
    let n1 = NodeName::new("n1");
    let opening = logs.open(&n1, want(7));
    let answering = async {
        let asked = asked(&mut told).await;
        let (job, token) = (asked.job, asked.token);
        for (name, other) in [("n2", token), ("n1", FencingToken(8))] {
            assert!(logs.push(&NodeName::new(name), job, other, asked.id).is_none());
        }
        assert!(logs.push(&n1, job, token, asked.id ^ 1).is_none());
        let push = logs.push(&n1, job, token, asked.id).expect("it is wanted");
        assert!(logs.push(&n1, job, token, asked.id).is_none(), "once");
        assert!(push.say(FromNode::Nothing("why".to_owned())).await);
        push
    };
    let (pull, push) = tokio::join!(opening, answering);
    let mut pull = pull.unwrap();
    assert!(matches!(pull.next().await, Some(FromNode::Nothing(_))));
    assert!(push.say(FromNode::End).await);
    assert!(matches!(pull.next().await, Some(FromNode::End)));
    drop(pull);
    push.unwanted().await;
    assert!(!push.say(FromNode::End).await, "nobody reads any more");
    assert!(logs.desk().wants.is_empty());
}

#[tokio::test]
async fn a_node_is_asked_again_until_it_answers_and_then_given_up() {
    let logs = Logs::default();
    let (_attached, _queue, mut told) = node(&logs, "n1");
    let n1 = NodeName::new("n1");
    assert_eq!(logs.open(&n1, want(7)).await.err(), Some(Unasked::Silent));
    let mut ids = Vec::new();
    while let Ok(queued) = told.try_recv() {
        let Outgoing::WantLog(want) = *queued else { panic!("{queued:?}") };
        ids.push(want.id);
    }
    assert_eq!(ids.len(), usize::try_from(MOST_ASKED).unwrap());
    assert!(ids.iter().all(|id| *id == ids[0]), "one want, said again");
    assert!(logs.desk().wants.is_empty());
    // One that has opened its stream, and whose command prints nothing, has answered.
    let opening = logs.open(&n1, want(7));
    let answering = async {
        let asked = asked(&mut told).await;
        logs.push(&n1, asked.job, asked.token, asked.id)
    };
    let (pull, push) = tokio::join!(opening, answering);
    drop(push.expect("it is wanted"));
    assert!(pull.unwrap().next().await.is_none(), "it broke");
}

#[tokio::test]
async fn who_cannot_be_asked_is_told_apart() {
    let logs = Logs::default();
    let n1 = NodeName::new("n1");
    assert_eq!(logs.open(&n1, want(7)).await.err(), Some(Unasked::Away));
    let old = logs.attach(&n1, SessionId(1), None);
    assert_eq!(logs.open(&n1, want(7)).await.err(), Some(Unasked::TooOld));
    // Its next session comes before the end of this one is noticed.
    let (queue, _told) = mpsc::channel(1);
    let mut changes = logs.changes();
    let new = logs.attach(&n1, SessionId(2), Some(queue.downgrade()));
    drop(old);
    changes.changed().await.unwrap();
    assert!(logs.desk().nodes[&n1].queue.is_some());
    drop(queue);
    assert_eq!(logs.open(&n1, want(7)).await.err(), Some(Unasked::Away), "its session has ended");
    drop(new);
    assert!(logs.desk().nodes.is_empty());
}

#[tokio::test]
async fn a_node_serves_so_many_readers_and_no_more() {
    let logs = Logs::default();
    let (_attached, _queue, _told) = node(&logs, "n1");
    let n1 = NodeName::new("n1");
    let wait = |token| {
        let (pieces, received) = mpsc::channel(1);
        logs.wait_for(&n1, &Want { id: token, ..want(token) }, pieces, received)
    };
    let mut open: Vec<Pull> = (0..MOST_OF_A_NODE as u64).map(|token| wait(token).unwrap()).collect();
    assert_eq!(wait(99).err(), Some(Unasked::Full));
    open.pop();
    wait(99).unwrap();
}
