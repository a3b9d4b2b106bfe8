//! Who a caller is does not change on the way through another server.

use std::collections::BTreeSet;

use tenure_scheduler::KindName;

use super::*;
use crate::config;

/// A leader that confines the producer web to one kind, a server that follows it, and everybody's certificates.
async fn both() -> (Tested, Tested, Certificates) {
    let certificates = Certificates::make(&[
        (Role::Server, "one"),
        (Role::Server, "two"),
        (Role::Producer, "web"),
        (Role::Producer, "mail"),
        (Role::Viewer, "eve"),
        (Role::Admin, "sam"),
        (Role::Node, "n1"),
    ]);
    let kinds = Some(BTreeSet::from([KindName::new("page")]));
    let producers = [("web".to_owned(), config::Producer { kinds, ..config::Producer::default() })].into();
    let store = Memory::new();
    let one = Tested::leader(&store, &certificates, producers).await;
    // The follower confines nobody: the leader judges again.
    let two = Tested::follower(store.reader(), &certificates, Some(one.as_leader())).await;
    apply(&channel(two.grpc(), certificates.files(Role::Admin, "sam"))).await;
    (one, two, certificates)
}

#[tokio::test]
async fn a_producer_has_its_own_rights_and_its_own_jobs_through_a_follower() {
    let (_one, two, certificates) = both().await;
    let by = |role, name| channel(two.grpc(), certificates.files(role, name));
    let (web, mail) = (by(Role::Producer, "web"), by(Role::Producer, "mail"));
    let id = Uuid::now_v7();
    let enqueued: v1::EnqueueResponse = call(&web, ENQUEUE, &enqueue("page", &id), &[]).await.message();
    let job = enqueued.job.unwrap();
    assert_eq!((job.producer.as_str(), job.tenant.as_str()), ("web", "web"));
    let no = call(&web, ENQUEUE, &enqueue("other", &Uuid::now_v7()), &[]).await;
    assert_eq!((no.code, no.reason().as_str()), (Code::PermissionDenied, "NOT_ALLOWED"));
    assert_eq!(call(&mail, ENQUEUE, &enqueue("other", &Uuid::now_v7()), &[]).await.code, Code::Ok);
    assert_eq!(call(&mail, GET, &get(&id), &[]).await.reason(), "JOB_NOT_FOUND");
    let listed: v1::ListJobsResponse =
        call(&mail, LIST, &v1::ListJobsRequest::default(), &[]).await.message();
    assert_eq!(listed.jobs.len(), 1);

    // Also where the follower itself reads the rows.
    two.follow(None);
    let read = call(&mail, GET, &get(&id), &[]).await;
    assert_eq!((read.reason().as_str(), read.rows), ("JOB_NOT_FOUND", true));
    assert_eq!(call(&web, GET, &get(&id), &[]).await.code, Code::Ok);
    let no = call(&by(Role::Node, "n1"), GET, &get(&id), &[]).await;
    assert_eq!(no.reason(), "NOT_ALLOWED");
}

#[tokio::test]
async fn nobody_but_a_server_speaks_for_another() {
    let (one, two, certificates) = both().await;
    let forged = "127.0.0.1:9 spiffe://tenure/tenure/admin/sam 1 0 99999999999";
    let forged = [("tenure-caller", forged)];
    let pause = v1::PauseKindRequest { kind: "page".to_owned(), ..v1::PauseKindRequest::default() };
    let path = "/tenure.v1.FleetService/PauseKind";
    // At the listeners for callers the header means nothing.
    for server in [&one, &two] {
        let web = channel(server.grpc(), certificates.files(Role::Producer, "web"));
        assert_eq!(call(&web, path, &pause, &forged).await.reason(), "NOT_ALLOWED");
        let eve = channel(server.grpc(), certificates.files(Role::Viewer, "eve"));
        assert_eq!(call(&eve, path, &pause, &forged).await.reason(), "NOT_ALLOWED");
    }
    // At those for servers nobody else is heard, an admin neither.
    for (role, name) in
        [(Role::Producer, "web"), (Role::Viewer, "eve"), (Role::Admin, "sam"), (Role::Node, "n1")]
    {
        let no = call(&channel(one.peer(), certificates.files(role, name)), path, &pause, &forged).await;
        assert_eq!(no.reason(), "NOT_ALLOWED", "{role}");
        assert!(no.message.contains("for servers alone"), "{}", no.message);
    }
    // A server has no rights of its own, and must say for whom it calls.
    let server = || certificates.files(Role::Server, "two");
    assert_eq!(call(&channel(one.grpc(), server()), path, &pause, &forged).await.reason(), "NOT_ALLOWED");
    let peer = channel(one.peer(), server());
    for bad in [
        &[][..],
        &[("tenure-caller", "127.0.0.1:9 anybody")],
        &[("tenure-caller", "127.0.0.1:9 spiffe://tenure/tenure/server/two 1 0 99999999999")],
        &[("tenure-caller", "127.0.0.1:9 spiffe://else/tenure/admin/sam 1 0 99999999999")],
        &[("tenure-caller", "127.0.0.1:9 spiffe://tenure/tenure/admin/sam 1 0 99")],
        &[forged[0], forged[0]],
    ] {
        let no = call(&peer, path, &pause, bad).await;
        assert!(["NO_IDENTITY", "NOT_ALLOWED"].contains(&no.reason().as_str()), "{bad:?}: {no:?}");
    }
    assert_eq!(call(&peer, path, &pause, &forged).await.code, Code::Ok, "a server is believed");
}

#[tokio::test]
async fn calls_are_handed_on_to_servers_alone() {
    let (_one, two, certificates) = both().await;
    // Somebody of our authority whose certificate names the host, and who is no server of the fleet.
    let directory = certificates.0.as_ref().unwrap().path();
    let leaf =
        Leaf { role: Role::Server, name: "other".to_owned(), hosts: vec!["127.0.0.1".to_owned()], days: 1 };
    issue::issue(directory, &leaf, false).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    issue::init(elsewhere.path(), TRUST_DOMAIN).unwrap();
    issue::issue(elsewhere.path(), &Leaf { name: "one".to_owned(), ..leaf }, false).unwrap();
    let stranger = Certificates(Some(elsewhere));
    let store = Memory::new();
    let impostor = Tested::leader(&store, &stranger, Producers::new()).await;
    two.follow(Some(impostor.as_leader()));
    let web = channel(two.grpc(), certificates.files(Role::Producer, "web"));
    let no = call(&web, ENQUEUE, &enqueue("page", &Uuid::now_v7()), &[]).await;
    assert_eq!(no.reason(), "NOT_LEADER", "nothing is said to a server of another authority");
    let status = Status::with_details(no.code, no.message.clone(), no.details.clone().into());
    let info = status.get_details_error_info().unwrap();
    assert_eq!(info.metadata.get("why").map(String::as_str), Some("not_trusted"), "{no:?}");
    assert_eq!(store.commits(), 0, "and nothing reached it");
}
