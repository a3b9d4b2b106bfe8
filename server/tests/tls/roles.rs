//! Every method for every role, and certificates that say nothing about their holder.

use tenure_proto::v1::{GetServerInfoRequest, admin_service_client::AdminServiceClient};
use tenure_tls::Role;
use tokio::time::timeout;
use tonic::{Code, Request, client::Grpc, transport::Channel};
use tonic_prost::ProstCodec;

use crate::desk::{Desk, reason, uri};

/// The methods that each role may call, as the design has them; one letter a role.
const MAY: &[(&str, &str)] = &[
    (
        "tenure.v1.JobService",
        "p-oa Enqueue EnqueueBatch GetResult CancelJob RequeueJob ReprioritizeJob DeleteJob",
    ),
    ("tenure.v1.JobService", "pvoa GetJob ListJobs ExplainJob WaitJob WatchJob ListAttempts"),
    ("tenure.v1.WorkflowService", "p-oa SubmitWorkflow CancelWorkflow RequeueMember"),
    ("tenure.v1.WorkflowService", "pvoa GetWorkflow ListWorkflows WatchWorkflow"),
    ("tenure.v1.FleetService", "pvoa ListKinds"),
    ("tenure.v1.HealthService", "pvoa GetQueueHealth"),
    ("tenure.v1.FleetService", "voa GetFleet ListSlots ListNodes GetNode"),
    ("tenure.v1.AdminService", "voa GetServerInfo CheckInvariants"),
    (
        "tenure.v1.FleetService",
        "oa Apply PauseKind ResumeKind SetCapacity PauseSlot ResumeSlot CordonNode UncordonNode DrainNode ForgetNode",
    ),
    ("tenure.node.v1.NodeService", "n Session EnqueueChildren BeginWait GetChildResults"),
    ("tenure.v1.CronService", "voa ListCronEntries"),
    ("tenure.v1.CronService", "oa PauseCronEntry ResumeCronEntry RunCronEntry"),
    ("tenure.v1.InboxService", "pvoa ListInboxRefusals"),
    ("tenure.v1.InboxService", "voa GetInbox"),
    ("grpc.health.v1.Health", "pnvoa Check Watch"),
    ("grpc.reflection.v1.ServerReflection", "voa ServerReflectionInfo"),
    ("grpc.reflection.v1alpha.ServerReflection", "voa ServerReflectionInfo"),
];

const LETTERS: [(Role, char); 6] = [
    (Role::Producer, 'p'),
    (Role::Node, 'n'),
    (Role::Viewer, 'v'),
    (Role::Operator, 'o'),
    (Role::Admin, 'a'),
    (Role::Server, '-'),
];

/// Calls a method with an empty message: the reason of the answer, which is empty if it was carried out.
async fn call(channel: &Channel, path: &str) -> String {
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.expect("it is there");
    let path = path.parse().expect("a path");
    let codec = ProstCodec::<(), ()>::default();
    let first = async {
        let mut messages = grpc.server_streaming(Request::new(()), path, codec).await?.into_inner();
        messages.message().await
    };
    match timeout(crate::desk::SOON, first).await.expect("in time") {
        Ok(_) => String::new(),
        Err(status) => reason(&status),
    }
}

#[tokio::test]
async fn each_role_may_call_its_rows_and_nothing_else() {
    let desk = Desk::new().await;
    let mut calls = 0;
    for (role, letter) in LETTERS {
        let channel = desk.channel(role, "someone").await;
        for (service, row) in MAY {
            let (letters, methods) = row.split_once(' ').expect("letters and methods");
            let may = role != Role::Server && letters.contains(letter);
            for method in methods.split(' ') {
                let path = format!("/{service}/{method}");
                let answer = call(&channel, &path).await;
                assert_ne!(answer, "NO_IDENTITY", "{role} {path}");
                assert_eq!(answer != "NOT_ALLOWED", may, "{role} {path}: {answer:?}");
                calls += 1;
            }
        }
        drop(channel);
    }
    assert_eq!(calls, 6 * 51, "every method, as many as the server has");
    desk.end().await;
}

#[tokio::test]
async fn a_refused_role_is_told_whose_the_method_is() {
    let desk = Desk::new().await;
    let mut client = AdminServiceClient::new(desk.channel(Role::Producer, "web").await);
    let status = client.get_server_info(GetServerInfoRequest {}).await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied);
    assert_eq!(
        status.message(),
        "producer web may not call GetServerInfo: it is for viewer, operator, admin"
    );
    drop(client);
    desk.end().await;
}

#[tokio::test]
async fn a_certificate_without_one_identity_is_nobody() {
    let desk = Desk::new().await;
    let admin = "spiffe://tenure/tenure/admin/root";
    let cases = [
        (vec![], "the common name counts for nothing"),
        (vec![uri(admin), uri("spiffe://tenure/tenure/viewer/v")], "has 2 URIs"),
        (vec![uri("spiffe://other/tenure/admin/root")], "of the trust domain \"other\""),
        (vec![uri("spiffe://tenure/tenure/root/root")], "names no role"),
        (vec![uri("spiffe://tenure/tenure/admin/root/x")], "is not of the form"),
    ];
    for (names, words) in cases {
        let files = desk.odd(|params| params.subject_alt_names = names);
        let mut client = AdminServiceClient::new(desk.channel_with(files).await);
        let status = client.get_server_info(GetServerInfoRequest {}).await.unwrap_err();
        assert_eq!(
            (status.code(), reason(&status).as_str()),
            (Code::Unauthenticated, "NO_IDENTITY"),
            "{words}"
        );
        assert!(status.message().contains(words), "{words}: {}", status.message());
    }
    desk.end().await;
}
