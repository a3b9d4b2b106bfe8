//! What an execution goes on from, fetched from a server that has no place for it now.

use tenure_node_agent::Stop;
use tenure_proto::node::v1::Grant;

use crate::fake::{Fake, INPUT};
use crate::{start, token};

#[tokio::test(flavor = "multi_thread")]
async fn a_large_result_that_is_refused_or_breaks_is_fetched_again_and_those_before_it_are_not() {
    let mut server = Fake::start().await;
    let node = start(&server).await;
    let (mut stream, hello) = server.stream().await;
    stream.welcome(&hello).await;
    stream.grant(Grant { input_results: Some(2), ..node.gated(1) }).await;
    stream.until(token(1), "started").await;
    assert_eq!(*server.fetched.lock().unwrap(), ["first", "second", "second", "second"]);
    let inputs = node.path("state/attempts").join(token(1).to_string()).join("inputs");
    for file in ["0", "1"] {
        assert_eq!(std::fs::read(inputs.join(file)).unwrap(), INPUT, "{file}");
    }
    node.open_gate();
    stream.until(token(1), "reaped").await;
    node.stop(Stop::AtOnce).await;
}
