//! Every field of everything that a node says: what is refused ends that session with the reason, and no other. A mistake in
//! a report that stands in its spool ends none: it is answered, since it would come back with the next one.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use prost::Message as _;
use prost_reflect::{DynamicMessage, MessageDescriptor};
use tenure_proto::{
    node::v1::{
        Accepted, Grant, Heartbeat, HeldLease, Hello, LeasePhase, NodeMessage, Report, Reports,
        ServerMessage, Started, StoredVerdict, node_message::Body, report::Event, server_message,
    },
    v1,
};
use tenure_tests::raw::Raw;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Status, Streaming};

use crate::{
    bases::{hello, second},
    desk::{Desk, SOON, Store, fields, reason},
    places::{Place, places, pool},
    rules::{Case, Want},
    table::rule,
    wire::{broken, no_texts, other_type},
};

/// One stream of a node, in bytes as they are.
pub(crate) struct Stream {
    out: mpsc::Sender<Bytes>,
    answers: Streaming<Bytes>,
    pub(crate) seq: u64,
    seen: u64,
}

impl Stream {
    pub(crate) async fn open(desk: &Desk) -> Self {
        let (out, messages) = mpsc::channel(16);
        let mut grpc = tonic::client::Grpc::new(desk.channel.clone());
        grpc.ready().await.expect("the server is there");
        let path = "/tenure.node.v1.NodeService/Session".parse().expect("a path");
        let opened = grpc.streaming(Request::new(ReceiverStream::new(messages)), path, Raw).await;
        Self { out, answers: opened.expect("a stream").into_inner(), seq: 0, seen: 0 }
    }

    /// Says something in good order.
    pub(crate) async fn say(&mut self, body: Body) {
        self.seq += 1;
        let message = NodeMessage { seq: self.seq, seen: self.seen, body: Some(body) };
        self.send(message.encode_to_vec()).await;
    }

    /// Says these bytes. If the stream has ended already, nobody hears them.
    pub(crate) async fn send(&mut self, bytes: Vec<u8>) {
        drop(self.out.send(bytes.into()).await);
    }

    /// The next word, or how the stream ended.
    pub(crate) async fn hear(&mut self) -> Result<server_message::Body, Status> {
        let next = tokio::time::timeout(SOON, self.answers.message()).await.expect("a word in time")?;
        let bytes = next.ok_or_else(|| Status::ok("the stream ended without a word"))?;
        let message = ServerMessage::decode(bytes).expect("a message of a server");
        self.seen = message.seq;
        Ok(message.body.expect("it says something"))
    }

    pub(crate) async fn welcomed(&mut self) {
        let first = self.hear().await;
        assert!(matches!(first, Ok(server_message::Body::Welcome(_))), "{first:?}");
    }

    /// Says a heartbeat and hears, until its answer, whether a report is to be set aside.
    async fn sets_aside(&mut self) -> Result<bool, Status> {
        self.say(Body::Heartbeat(Heartbeat::default())).await;
        let mut broken = false;
        loop {
            match self.hear().await? {
                server_message::Body::Renewed(renewed) if renewed.anchor_seq == self.seq => {
                    return Ok(broken);
                }
                server_message::Body::Stored(stored) => {
                    broken |= stored.answers.iter().any(|answer| answer.verdict() == StoredVerdict::Broken);
                }
                server_message::Body::Welcome(_)
                | server_message::Body::Grants(_)
                | server_message::Body::Renewed(_)
                | server_message::Body::Revoke(_)
                | server_message::Body::Drain(_)
                | server_message::Body::Configure(_)
                | server_message::Body::Resume(_)
                | server_message::Body::WantLog(_) => {}
            }
        }
    }

    /// Says a heartbeat and hears which tokens are renewed; or how the stream ended.
    pub(crate) async fn beat(&mut self, held: Vec<HeldLease>) -> Result<Vec<u64>, Status> {
        self.say(Body::Heartbeat(Heartbeat { held, pressure: None })).await;
        loop {
            if let server_message::Body::Renewed(renewed) = self.hear().await?
                && renewed.anchor_seq == self.seq
            {
                return Ok(renewed.leases.iter().map(|lease| lease.token).collect());
            }
        }
    }
}

/// A node that works through all of it, and must notice nothing.
pub(crate) struct Witness {
    stream: Stream,
    grant: Grant,
}

impl Witness {
    pub(crate) async fn start(desk: &Desk) -> Self {
        let mut stream = Stream::open(desk).await;
        let quiet = Hello { pressure: None, held: Vec::new(), unstored: Vec::new(), ..hello("witness", 1) };
        stream.say(Body::Hello(Hello { kinds: vec!["plain".to_owned()], ..quiet })).await;
        stream.welcomed().await;
        desk.enqueue(v1::JobSpec { kind: "plain".to_owned(), ..Default::default() }).await;
        let grant = loop {
            if let Ok(server_message::Body::Grants(mut grants)) = stream.hear().await {
                break grants.grants.remove(0);
            }
        };
        let report = |event| Report { job_id: grant.job_id.clone(), token: grant.token, event: Some(event) };
        let events = [Event::Accepted(Accepted {}), Event::Started(Started { elapsed: None })];
        stream.say(Body::Reports(Reports { reports: events.map(report).into() })).await;
        Self { stream, grant }
    }

    /// Its session and its lease live.
    pub(crate) async fn notices_nothing(&mut self) {
        let phase = LeasePhase::Started.into();
        let held = HeldLease {
            job_id: self.grant.job_id.clone(),
            token: self.grant.token,
            phase,
            ..HeldLease::default()
        };
        let renewed = self.stream.beat(vec![held]).await.expect("the witness is served");
        assert_eq!(renewed, [self.grant.token]);
    }
}

/// Every Hello is a stream of its own.
fn next_stream() -> u64 {
    static STREAM: AtomicU64 = AtomicU64::new(2);
    STREAM.fetch_add(1, Ordering::Relaxed)
}

/// Everything that a node says, by descriptor.
fn said() -> MessageDescriptor {
    pool().get_message_by_name("tenure.node.v1.NodeMessage").expect("the session")
}

fn dynamic(message: &NodeMessage) -> DynamicMessage {
    DynamicMessage::decode(said(), message.encode_to_vec().as_slice()).expect("the same message")
}

/// What a stream says of which one message is tried: a Hello of a node of its own, or what comes after a good one.
/// The answer is how it ended, or that it did not.
async fn tried(desk: &Desk, place: &Place, change: impl FnOnce(&NodeMessage) -> Vec<u8>) -> Option<Status> {
    let number = next_stream();
    let mut stream = Stream::open(desk).await;
    let names = place.names();
    if names.first() == Some(&"hello") {
        let first = hello(&format!("sweep{number}"), 1);
        let message = NodeMessage { seq: 1, seen: 0, body: Some(Body::Hello(first)) };
        stream.send(change(&message)).await;
        stream.seq = 1;
    } else {
        stream.say(Body::Hello(hello("sweep", number))).await;
        stream.welcomed().await;
        stream.send(change(&second(&names))).await;
        stream.seq = 2;
    }
    stream.beat(Vec::new()).await.err()
}

async fn every_field(store: Store) {
    let desk = Desk::start(store).await;
    let mut witness = Witness::start(&desk).await;
    let mut without = BTreeSet::new();
    for place in places(&said()) {
        let Some(rule) = rule(&place.row()) else {
            without.insert(place.row());
            continue;
        };
        // Nodes that were refused are not there afterwards; those that were welcomed are.
        let cases = rule.cases(place.field());
        let (fine, refused): (Vec<_>, Vec<_>) = cases.into_iter().partition(|case| case.want == Want::Fine);
        let before = desk.nodes().await.len();
        if is_spooled(&place) {
            set_aside(&desk, &place, &refused, true).await;
            set_aside(&desk, &place, &fine, false).await;
            witness.notices_nothing().await;
            continue;
        }
        for case in refused {
            judge(&place, &case, try_case(&desk, &place, &case).await);
        }
        let known = usize::from(desk.nodes().await.iter().any(|node| node.name == "sweep"));
        assert!(desk.nodes().await.len() <= before.max(1 + known), "{}: a node was stored", place.path());
        if place.names().len() > 1 && place.names()[0] != "hello" {
            go_on(&desk, &place, &fine).await;
        } else {
            for case in fine {
                judge(&place, &case, try_case(&desk, &place, &case).await);
            }
        }
        witness.notices_nothing().await;
    }
    assert_eq!(without, BTreeSet::new(), "say in table.rs what is right for these");
    desk.end().await;
}

/// Whether it is a field of a report that a node keeps until it is answered.
fn is_spooled(place: &Place) -> bool {
    matches!(place.names()[..], ["reports", "reports", "finished" | "returned", _, ..])
}

/// One session hears all of these, and goes on: such a report is set aside, or is not.
async fn set_aside(desk: &Desk, place: &Place, cases: &[Case], expected: bool) {
    let mut stream = Stream::open(desk).await;
    stream.say(Body::Hello(hello("sweep", next_stream()))).await;
    stream.welcomed().await;
    for case in cases {
        stream.seq += 1;
        let mut message = dynamic(&NodeMessage { seq: stream.seq, ..second(&place.names()) });
        place.set(&mut message, case.value.clone());
        stream.send(message.encode_to_vec()).await;
        let what = format!("{} is {}", place.path(), case.what);
        let answer = stream.sets_aside().await.unwrap_or_else(|end| panic!("{what}: it ended: {end:?}"));
        assert_eq!(answer, expected, "{what}");
    }
}

/// One session hears all of these, and goes on.
async fn go_on(desk: &Desk, place: &Place, cases: &[Case]) {
    let mut stream = Stream::open(desk).await;
    stream.say(Body::Hello(hello("sweep", next_stream()))).await;
    stream.welcomed().await;
    for case in cases {
        stream.seq += 1;
        let mut message = dynamic(&NodeMessage { seq: stream.seq, ..second(&place.names()) });
        place.set(&mut message, case.value.clone());
        stream.send(message.encode_to_vec()).await;
        judge(place, case, stream.beat(Vec::new()).await.err());
    }
}

async fn try_case(desk: &Desk, place: &Place, case: &Case) -> Option<Status> {
    tried(desk, place, |good| {
        let mut message = dynamic(good);
        place.set(&mut message, case.value.clone());
        message.encode_to_vec()
    })
    .await
}

#[track_caller]
fn judge(place: &Place, case: &Case, end: Option<Status>) {
    let what = format!("{} is {}", place.path(), case.what);
    let said = end.as_ref().map(|status| {
        reason(status).unwrap_or_else(|| panic!("{what}: it ended without reason: {status:?}"))
    });
    match &case.want {
        Want::Fine => assert_eq!(said, None, "{what}: {end:?}"),
        Want::No((code, reason)) => assert_eq!(said, Some((*code, (*reason).to_owned())), "{what}: {end:?}"),
        Want::Field(suffix) => {
            let named = end.as_ref().map(fields).unwrap_or_default();
            assert_eq!(said, Some((Code::InvalidArgument, "INVALID_FIELD".to_owned())), "{what}: {end:?}");
            let want = format!("{}{suffix}", place.path());
            assert!(named.iter().all(|field| *field == want) && !named.is_empty(), "{what}: {named:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_field_that_a_node_says_is_judged_by_its_row_on_sqlite() {
    every_field(Store::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_field_that_a_node_says_is_judged_by_its_row_on_postgres() {
    every_field(Store::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_of_another_kind_end_the_session_that_they_came_by() {
    let desk = Desk::start(Store::Sqlite).await;
    let mut witness = Witness::start(&desk).await;
    let invalid = |what: &str, end: Option<Status>| {
        let status = end.unwrap_or_else(|| panic!("{what}: it was taken"));
        assert_eq!(
            reason(&status),
            Some((Code::InvalidArgument, "INVALID_FIELD".to_owned())),
            "{what}: {status:?}"
        );
        fields(&status)
    };
    for place in places(&said()) {
        for bytes in no_texts(&place).into_iter().chain([other_type(&place)]) {
            let end = tried(&desk, &place, |good| [good.encode_to_vec(), bytes].concat()).await;
            assert_eq!(invalid(&place.path(), end), [place.plain()]);
        }
        witness.notices_nothing().await;
    }
    let places = places(&said());
    let beat = places.iter().find(|place| place.row() == "NodeMessage.heartbeat").expect("a heartbeat");
    for (what, bytes) in broken() {
        let end = tried(&desk, beat, |good| [good.encode_to_vec(), bytes].concat()).await;
        invalid(what, end);
    }
    let end = tried(&desk, beat, |good| {
        let mut large = good.encode_to_vec();
        prost::encoding::bytes::encode(900, &vec![b'x'; 5 << 20], &mut large);
        large
    });
    let said = end.await.and_then(|status| reason(&status));
    assert_eq!(said, Some((Code::InvalidArgument, "PAYLOAD_TOO_LARGE".to_owned())));
    witness.notices_nothing().await;
    desk.end().await;
}
