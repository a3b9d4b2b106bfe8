//! A server of an earlier version that comes to lead, as in the middle of an upgrade: it ends the session over words that it
//! does not know.

use std::time::Duration;

use tenure_node_agent::Stop;
use tenure_proto::node::v1::{Grant, Welcome, server_message::Body};

use crate::fake::{Fake, span};
use crate::{start, token};

#[tokio::test(flavor = "multi_thread")]
async fn an_older_server_is_told_in_its_words_what_the_one_before_left_unanswered() {
    let mut server = Fake::start().await;
    let node = start(&server).await;
    let (mut stream, hello) = server.session().await;
    assert_eq!(hello.features, [tenure_proto::INPUTS_FEATURE, tenure_proto::LOGS_FEATURE]);
    stream.store = false;
    let silence = span(Duration::from_millis(300));
    stream.grant(Grant { progress_timeout: silence, ..node.gated(1) }).await;
    let words = stream.until(token(1), "finished").await;
    assert!(words.last().is_some_and(|word| word.starts_with("finished stalled")), "{words:?}");
    drop(stream);

    let (mut stream, hello) = server.stream().await;
    assert_eq!(hello.unstored.first().map(|report| report.token), Some(token(1)));
    stream.store = false;
    stream.send(Body::Welcome(Welcome { epoch: 1, anchor_seq: 1, ..Welcome::default() })).await;
    let words = stream.until(token(1), "finished").await;
    assert!(words.last().is_some_and(|word| word.starts_with("finished timed_out")), "{words:?}");
    drop(stream);

    // What is kept is what happened: the one that leads next knows more.
    let (mut stream, _) = server.session().await;
    let words = stream.until(token(1), "finished").await;
    assert!(words.last().is_some_and(|word| word.starts_with("finished stalled")), "{words:?}");
    node.stop(Stop::Drain).await;
}
