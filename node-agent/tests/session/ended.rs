//! The socket of an attempt whose command has ended, for who still has a connection to it.

use tenure_proto::node::v1::attempt_service_client::AttemptServiceClient;
use tenure_proto::node::v1::{
    AttemptServiceEnqueueChildrenRequest, Finished, GetAttemptRequest, ReportUsageRequest, report::Event,
};
use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint};

use crate::fake::{Fake, Stream, within};
use crate::{Node, start, token};

/// A connection to the socket of an attempt.
async fn speak(node: &Node, number: u64) -> AttemptServiceClient<Channel> {
    let path = node.path("state/attempts").join(token(number).to_string()).join("socket");
    let endpoint = Endpoint::from_shared(format!("unix:{}", path.display())).unwrap();
    AttemptServiceClient::new(within(endpoint.connect()).await.unwrap())
}

fn tokens(amount: u64) -> ReportUsageRequest {
    ReportUsageRequest { usage: [("tokens".to_owned(), amount)].into(), ..ReportUsageRequest::default() }
}

async fn finished(stream: &mut Stream) -> Finished {
    loop {
        for report in stream.reports().await {
            if let Some(Event::Finished(finished)) = report.event {
                return finished;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_goes_on_and_nothing_is_heard_on_connections_of_an_attempt_that_has_ended() {
    let mut server = Fake::start().await;
    let node = start(&server).await;
    let (mut stream, _) = server.session().await;
    stream.grant(node.gated(1)).await;
    stream.until(token(1), "started").await;
    let mut idle = speak(&node, 1).await;
    within(idle.report_usage(tokens(5))).await.unwrap();
    let mut busy = speak(&node, 1).await;
    let mut asked = JoinSet::new();
    asked.spawn(async move {
        busy.enqueue_children(AttemptServiceEnqueueChildrenRequest::default()).await.map(drop)
    });
    let mut under_way = within(server.children.recv()).await.expect("the server is asked for children");

    node.open_gate();
    let finished = within(finished(&mut stream)).await;
    assert_eq!(finished.usage.get("tokens"), Some(&5));
    within(under_way.closed()).await;
    within(asked.join_next()).await.unwrap().unwrap().unwrap_err();
    within(idle.report_usage(tokens(7))).await.unwrap_err();
    within(idle.get_attempt(GetAttemptRequest {})).await.unwrap_err();
}
