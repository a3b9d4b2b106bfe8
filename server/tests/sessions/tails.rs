//! The last lines of attempts that run: each stream begins at its own place, also if one of them is silent, or breaks.

use tenure_proto::{
    node::v1::{Grant, WantLog},
    v1::{LogPlace, LogStream, ReadLogRequest},
};

use crate::{
    logs::{Push, Reader, ended_with, keeps_logs, running, tail, wanted},
    node::{Node, reaped},
    served::Served,
};

/// The next stream that is asked for: one that was not opened in time may be asked for twice.
async fn wanted_anew(node: &mut Node, before: &WantLog) -> WantLog {
    loop {
        let again = wanted(node).await;
        if again.want_id != before.want_id {
            return again;
        }
    }
}

/// Somebody follows from the last lines on.
async fn followed(served: &Served, node: &mut Node) -> (Reader, Grant, WantLog) {
    let (job, grant) = running(served, node).await;
    let request =
        ReadLogRequest { job_id: job, follow: true, tail_lines: Some(2), ..ReadLogRequest::default() };
    let mut reader = Reader::open(served, request).await.expect("a log");
    reader.attempt().await;
    let want = wanted(node).await;
    assert_eq!((want.tail_lines, want.place), (Some(2), None));
    (reader, grant, want)
}

#[tokio::test]
async fn a_stream_that_is_silent_begins_where_its_node_says() {
    let served = Served::in_memory().await;
    let (mut node, _) = Node::join(served.grpc(), keeps_logs("n1")).await;
    let (mut reader, grant, want) = followed(&served, &mut node).await;
    let push = Push::open(&served, "n1", &grant, want.want_id).await;
    push.chunk(LogStream::Stdout, 1_000, b"").await;
    push.chunk(LogStream::Stderr, 5_000, b"").await;
    push.chunk(LogStream::Stdout, 1_000, b"a\nb\n").await;
    assert_eq!(reader.chunk().await, (LogStream::Stdout, 1_000, b"a\nb\n".to_vec(), 0));
    push.cut().await;

    // What nobody asked for is not asked for by a break either.
    let want = wanted_anew(&mut node, &want).await;
    let place = LogPlace { stdout_offset: 1_004, stderr_offset: 5_000 };
    assert_eq!((want.tail_lines, want.place), (None, Some(place)));
    let push = Push::open(&served, "n1", &grant, want.want_id).await;
    push.chunk(LogStream::Stderr, 5_003, b"x\n").await;
    assert_eq!(reader.chunk().await, (LogStream::Stderr, 5_003, b"x\n".to_vec(), 3));
    push.end().await.expect("it has said everything");
    let end = tail((1_004, b"b\n"), (5_007, b"x\ny\n"));
    node.report(&grant, [ended_with(end), reaped()]).await;
    assert_eq!(reader.chunk().await, (LogStream::Stderr, 5_005, b"y\n".to_vec(), 0));
    assert_eq!(reader.next().await.expect("it ends well"), None);
    served.end().await;
}

#[tokio::test]
async fn what_a_node_does_not_say_of_a_silent_stream_is_not_told_as_dropped() {
    let served = Served::in_memory().await;
    let (mut node, _) = Node::join(served.grpc(), keeps_logs("n1")).await;
    let (mut reader, grant, want) = followed(&served, &mut node).await;
    let push = Push::open(&served, "n1", &grant, want.want_id).await;
    push.chunk(LogStream::Stdout, 1_000, b"a\nb\n").await;
    assert_eq!(reader.chunk().await, (LogStream::Stdout, 1_000, b"a\nb\n".to_vec(), 0));
    push.cut().await;
    // The place of the other one is not known yet.
    let want = wanted_anew(&mut node, &want).await;
    assert_eq!((want.tail_lines, want.place), (Some(2), None));
    let push = Push::open(&served, "n1", &grant, want.want_id).await;
    push.chunk(LogStream::Stdout, 1_002, b"b\nc\n").await;
    assert_eq!(reader.chunk().await, (LogStream::Stdout, 1_004, b"c\n".to_vec(), 0));
    push.chunk(LogStream::Stderr, 5_000, b"x\n").await;
    assert_eq!(reader.chunk().await, (LogStream::Stderr, 5_000, b"x\n".to_vec(), 0));
    push.end().await.expect("it has said everything");
    node.report(&grant, [ended_with(tail((1_006, b"c\n"), (5_002, b"x\n"))), reaped()]).await;
    assert_eq!(reader.next().await.expect("it ends well"), None);
    served.end().await;
}
