//! Who may change webhooks, and what of them who sees. What is sent to one leaves the fleet.

use tenure_proto::v1::{
    ApplyRequest, GetFleetRequest, ListWebhooksRequest, fleet_service_client::FleetServiceClient,
    webhook_service_client::WebhookServiceClient,
};
use tenure_server::config::{SecretFiles, Webhooks};
use tenure_tls::Role;
use tonic::Code;

use crate::desk::{Desk, reason};

const URL: &str = "https://receiver.test:8443/hook/s3cret?token=s3cret";

fn fleet(webhooks: &str) -> ApplyRequest {
    ApplyRequest { fleet: format!("[kinds.page]\n{webhooks}"), validate_only: false }
}

async fn desk() -> Desk {
    Desk::with(|config| {
        let directory = config.tls.as_ref().expect("TLS").client_ca.with_file_name("webhook.secret");
        std::fs::write(&directory, format!("whsec_{}", "A".repeat(32))).expect("a secret");
        let secrets = [("ci".to_owned(), SecretFiles { file: directory, previous_file: None })].into();
        config.webhooks = Webhooks { secrets, ..Webhooks::default() };
    })
    .await
}

#[tokio::test]
async fn only_an_admin_changes_webhooks_and_an_operator_may_apply_what_leaves_them() {
    let desk = desk().await;
    let mut admin = FleetServiceClient::new(desk.channel(Role::Admin, "root").await);
    let mut operator = FleetServiceClient::new(desk.channel(Role::Operator, "ann").await);
    let declared = format!("[webhooks.ci]\nurl = \"{URL}\"\n");
    let refused = operator.apply(fleet(&declared)).await.unwrap_err();
    assert_eq!((refused.code(), reason(&refused).as_str()), (Code::PermissionDenied, "NOT_ALLOWED"));
    admin.apply(fleet(&declared)).await.expect("an admin may");
    operator.apply(fleet(&declared)).await.expect("it changes no webhook");
    for other in ["", "[webhooks.ci]\nurl = \"https://elsewhere.test/\"\n"] {
        let refused = operator.apply(fleet(other)).await.unwrap_err();
        assert_eq!(reason(&refused), "NOT_ALLOWED", "{other}");
        assert!(!refused.message().contains("s3cret"), "{refused:?}");
    }
    let unknown = admin.apply(fleet(&format!("[webhooks.other]\nurl = \"{URL}\"\n"))).await.unwrap_err();
    assert_eq!(reason(&unknown), "INVALID_FIELD");
    assert!(unknown.message().contains("fleet"), "{unknown:?}");
    drop((admin, operator));
    desk.end().await;
}

#[tokio::test]
async fn a_viewer_sees_of_a_url_only_whose_it_is() {
    let desk = desk().await;
    let mut admin = FleetServiceClient::new(desk.channel(Role::Admin, "root").await);
    admin.apply(fleet(&format!("[webhooks.ci]\nurl = \"{URL}\"\n"))).await.expect("an admin may");
    for (role, shown) in
        [(Role::Viewer, "https://receiver.test:8443"), (Role::Operator, URL), (Role::Admin, URL)]
    {
        let channel = desk.channel(role, "someone").await;
        let listed = WebhookServiceClient::new(channel.clone()).list_webhooks(ListWebhooksRequest {}).await;
        let fleet = FleetServiceClient::new(channel).get_fleet(GetFleetRequest {}).await;
        let all = [listed.unwrap().into_inner().webhooks, fleet.unwrap().into_inner().webhooks];
        assert!(all.iter().all(|webhooks| webhooks[0].url == shown), "{role}: {all:?}");
    }
    drop(admin);
    desk.end().await;
}

#[tokio::test]
async fn a_secret_that_cannot_be_used_keeps_the_old_settings() {
    let desk = desk().await;
    let mut config = desk.config.clone();
    let broken = config.tls.as_ref().expect("TLS").client_ca.with_file_name("broken.secret");
    std::fs::write(&broken, "s3cret").expect("a file");
    config.webhooks.secrets.insert("other".to_owned(), SecretFiles { file: broken, previous_file: None });
    let refused = desk.reload().apply(&config).unwrap_err();
    assert!(!format!("{refused:?}").contains("s3cret"), "{refused:?}");
    let mut admin = FleetServiceClient::new(desk.channel(Role::Admin, "root").await);
    admin
        .apply(fleet(&format!("[webhooks.ci]\nurl = \"{URL}\"\n")))
        .await
        .expect("its secret is still there");
    drop(admin);
    desk.end().await;
}
