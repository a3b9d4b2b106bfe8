//! A node that runs what it is granted as a test says, and always reports in good order.

use std::collections::BTreeMap;

use tenure_proto::node::v1::{
    Accepted, Finished, FinishedOutcome, Grant, Hello, NodeMessage, Reaped, Report, Reports, ResultBytes,
    ServerMessage, Started, node_message, node_service_client::NodeServiceClient, report, server_message,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Streaming, transport::Channel};

/// No test waits longer for anything.
const SOON: std::time::Duration = std::time::Duration::from_secs(20);

/// A live session.
pub(crate) struct Node {
    out: mpsc::Sender<NodeMessage>,
    incoming: Streaming<ServerMessage>,
    seq: u64,
    seen: u64,
    grants: Vec<Grant>,
}

impl Node {
    /// Says Hello and waits for Welcome.
    pub(crate) async fn hello(channel: &Channel, name: &str, slots: &[(&str, u32)], kinds: &[&str]) -> Self {
        let (out, messages) = mpsc::channel(64);
        let mut client = NodeServiceClient::new(channel.clone());
        let incoming = client.session(ReceiverStream::new(messages)).await.expect("a session").into_inner();
        let mut node = Self { out, incoming, seq: 0, seen: 0, grants: Vec::new() };
        let slots: BTreeMap<String, u32> =
            slots.iter().map(|&(slot, units)| (slot.to_owned(), units)).collect();
        node.say(node_message::Body::Hello(Hello {
            node_name: name.to_owned(),
            instance: format!("instance-{name}"),
            boot_id: "boot".to_owned(),
            incarnation: 1,
            stream: 1,
            protocol: tenure_proto::SESSION_PROTOCOL,
            features: vec![tenure_proto::INPUTS_FEATURE.to_owned()],
            slots,
            kinds: kinds.iter().map(|&kind| kind.to_owned()).collect(),
            agent_version: "scripted".to_owned(),
            ..Default::default()
        }))
        .await;
        while !matches!(node.hear().await, server_message::Body::Welcome(_)) {}
        node
    }

    /// The next grant.
    pub(crate) async fn granted(&mut self) -> Grant {
        while self.grants.is_empty() {
            if let server_message::Body::Grants(grants) = self.hear().await {
                self.grants.extend(grants.grants);
            }
        }
        self.grants.remove(0)
    }

    /// Accepts and starts what was granted.
    pub(crate) async fn start(&mut self, grant: &Grant) {
        let accepted = report::Event::Accepted(Accepted {});
        self.report(grant, [accepted, report::Event::Started(Started { elapsed: None })]).await;
    }

    /// Ends it well, with this result, and its tree is gone.
    pub(crate) async fn succeed(&mut self, grant: &Grant, result: &[u8]) {
        let result = ResultBytes { data: result.to_vec().into(), content_type: "text/plain".to_owned() };
        let finished = Finished {
            outcome: FinishedOutcome::Succeeded.into(),
            exit_code: Some(0),
            cause: "exit".to_owned(),
            result: Some(result),
            ..Default::default()
        };
        self.finish(grant, finished).await;
    }

    /// Ends it badly, and its tree is gone.
    pub(crate) async fn fail(&mut self, grant: &Grant, error: &str) {
        let finished = Finished {
            outcome: FinishedOutcome::Failed.into(),
            exit_code: Some(1),
            cause: "exit".to_owned(),
            error: error.to_owned(),
            ..Default::default()
        };
        self.finish(grant, finished).await;
    }

    async fn finish(&mut self, grant: &Grant, finished: Finished) {
        self.report(grant, [report::Event::Finished(finished), report::Event::Reaped(Reaped {})]).await;
        let mut answers = 0;
        while answers < 2 {
            let body = self.hear().await;
            if let server_message::Body::Stored(stored) = body {
                answers += stored.answers.iter().filter(|answer| answer.token == grant.token).count();
            } else if let server_message::Body::Grants(grants) = body {
                self.grants.extend(grants.grants);
            }
        }
    }

    async fn report(&mut self, grant: &Grant, events: impl IntoIterator<Item = report::Event>) {
        let reports = events.into_iter().map(|event| Report {
            job_id: grant.job_id.clone(),
            token: grant.token,
            event: Some(event),
        });
        self.say(node_message::Body::Reports(Reports { reports: reports.collect() })).await;
    }

    async fn say(&mut self, body: node_message::Body) {
        self.seq += 1;
        let message = NodeMessage { seq: self.seq, seen: self.seen, body: Some(body) };
        self.out.send(message).await.expect("the session is open");
    }

    async fn hear(&mut self) -> server_message::Body {
        let message = tokio::time::timeout(SOON, self.incoming.message()).await.expect("a message in time");
        let message = message.expect("the session lives").expect("the session goes on");
        self.seen = message.seq;
        message.body.expect("a message says something")
    }
}
