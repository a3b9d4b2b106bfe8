//! Nodes speak under the name of their certificate, through replaced certificates, until they are denied.

use std::sync::Arc;

use tenure_proto::{
    SESSION_PROTOCOL,
    node::v1::{
        BeginWaitRequest, GetChildResultsRequest, Hello, LeaseName, NodeMessage, ServerMessage, WaitTerms,
        node_message, node_service_client::NodeServiceClient, server_message::Body,
    },
};
use tenure_tls::{Connector, Role, issue};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming, transport::Channel};

use crate::desk::{Desk, SOON, leaf, reason};

/// Says Hello under a name: the stream, and the first answer.
async fn hello(channel: Channel, name: &str) -> (Stream, Result<Option<ServerMessage>, Status>) {
    let (out, messages) = mpsc::channel(4);
    let hello = Hello {
        node_name: name.to_owned(),
        instance: name.to_owned(),
        boot_id: "boot".to_owned(),
        incarnation: 1,
        stream: 1,
        protocol: SESSION_PROTOCOL,
        ..Hello::default()
    };
    let first = NodeMessage { seq: 1, seen: 0, body: Some(node_message::Body::Hello(hello)) };
    out.send(first).await.expect("there is room");
    let session = NodeServiceClient::new(channel).session(ReceiverStream::new(messages)).await;
    let mut stream = Stream { _out: out, messages: session.expect("a stream").into_inner() };
    let answer = stream.next().await;
    (stream, answer)
}

struct Stream {
    _out: mpsc::Sender<NodeMessage>,
    messages: Streaming<ServerMessage>,
}

impl Stream {
    async fn next(&mut self) -> Result<Option<ServerMessage>, Status> {
        timeout(SOON, self.messages.message()).await.expect("in time")
    }
}

fn is_welcome(answer: &Result<Option<ServerMessage>, Status>) -> bool {
    matches!(answer, Ok(Some(ServerMessage { body: Some(Body::Welcome(_)), .. })))
}

#[tokio::test]
async fn a_node_speaks_as_itself_alone() {
    let desk = Desk::new().await;
    let channel = desk.channel(Role::Node, "n1").await;
    let (_stream, answer) = hello(channel.clone(), "n2").await;
    let status = answer.unwrap_err();
    assert_eq!((status.code(), reason(&status).as_str()), (Code::PermissionDenied, "NOT_ALLOWED"));
    assert!(status.message().contains("node n1 may not speak as node n2"), "{}", status.message());
    let mut client = NodeServiceClient::new(channel.clone());
    let lease = LeaseName {
        node: "n2".to_owned(),
        job_id: "01900000-0000-7000-8000-00000000beef".to_owned(),
        token: 1,
    };
    let request =
        BeginWaitRequest { lease: Some(lease.clone()), wait_epoch: 1, terms: Some(WaitTerms::default()) };
    assert_eq!(reason(&client.begin_wait(request).await.unwrap_err()), "NOT_ALLOWED");
    let own = LeaseName { node: "n1".to_owned(), ..lease.clone() };
    for (lease, no) in [(lease, "NOT_ALLOWED"), (own, "LEASE_LOST")] {
        let request = GetChildResultsRequest { lease: Some(lease), ..GetChildResultsRequest::default() };
        assert_eq!(reason(&client.get_child_results(request).await.unwrap_err()), no);
    }
    let (_stream, answer) = hello(channel, "n1").await;
    assert!(is_welcome(&answer), "{answer:?}");
    desk.end().await;
}

#[tokio::test]
async fn a_replaced_certificate_is_shown_and_sessions_stay() {
    let desk = Desk::new().await;
    let (mut stream, answer) = hello(desk.channel(Role::Node, "n1").await, "n1").await;
    assert!(is_welcome(&answer), "{answer:?}");
    let before = shown(&desk).await;
    issue::issue(desk.certs.path(), &leaf(Role::Server, "s"), true).unwrap();
    assert_eq!(shown(&desk).await, before, "until it is told to look");
    desk.reload().apply(&desk.config).unwrap();
    assert_ne!(shown(&desk).await, before);
    // The session still hears what is said to it: that its holder is denied from now on.
    let mut denying = desk.config.clone();
    denying.deny.names.insert("node/n1".to_owned());
    desk.reload().apply(&denying).unwrap();
    let status = loop {
        match stream.next().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it ends with a reason"),
            Err(status) => break status,
        }
    };
    assert_eq!(reason(&status), "NOT_ALLOWED");
    assert!(status.message().contains("denied"), "{}", status.message());
    desk.end().await;
}

#[tokio::test]
async fn a_certificate_that_cannot_be_used_replaces_nothing() {
    let desk = Desk::new().await;
    let before = shown(&desk).await;
    let mut config = desk.config.clone();
    if let Some(tls) = &mut config.tls {
        tls.own.cert = desk.certs.path().join("missing.pem");
    }
    let error = desk.reload().apply(&config).unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("cannot read") && cause.contains("missing.pem"), "{cause}");
    if let Some(tls) = &mut config.tls {
        tls.own = desk.files(Role::Node, "n1").own.unwrap();
    }
    let error = desk.reload().apply(&config).unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("is that of node n1, and one of a server is needed"), "{cause}");
    config.tls = None;
    desk.reload().apply(&config).unwrap_err();
    assert_eq!(shown(&desk).await, before);
    desk.end().await;
}

/// The certificate that the server shows to a new connection.
async fn shown(desk: &Desk) -> Arc<[u8]> {
    let connector = Connector::new(desk.files(Role::Viewer, "v")).expect("files");
    let address = desk.address();
    let taken = connector.connect(&address.ip().to_string(), address.port()).await.expect("it is taken");
    taken.server_certificate().expect("a server shows one").into()
}
