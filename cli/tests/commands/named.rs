//! What a command names: a kind, a webhook, an execution. One that does not exist is told, not taken for an empty one.

use tenure_proto::v1::{
    Kind, ListDeliveriesResponse, ListJobsResponse, ListKindsResponse, ListWebhooksResponse, ReadLogRequest,
    ReadLogResponse, Webhook,
};

use super::fake::{Answer, Fake};
use super::{ID, code, stderr, tenure};

#[tokio::test]
async fn a_bulk_verb_refuses_a_kind_that_is_not_declared() {
    let kinds = ListKindsResponse { kinds: vec![Kind { name: "site.qa".to_owned(), ..Kind::default() }] };
    let fake = Fake::start([
        ("JobService/ListJobs", vec![Answer::ok(&ListJobsResponse::default())]),
        ("FleetService/ListKinds", vec![Answer::ok(&kinds)]),
    ])
    .await;
    for verb in ["requeue", "purge"] {
        let output = tenure(&fake, &["dead", verb, "--kind", "site.q", "--yes"], "").await;
        assert_eq!(code(&output), 3, "{}", stderr(&output));
        assert!(stderr(&output).contains("site.qa"), "{}", stderr(&output));
        let output = tenure(&fake, &["dead", verb, "--kind", "site.qa", "--yes"], "").await;
        assert_eq!(code(&output), 0, "{}", stderr(&output));
    }
}

#[tokio::test]
async fn deliveries_say_that_all_has_arrived_only_where_nothing_waits() {
    let webhook = |name: &str, waiting| Webhook { name: name.to_owned(), waiting, ..Webhook::default() };
    let webhooks = ListWebhooksResponse { webhooks: vec![webhook("ci", 1), webhook("ops", 0)] };
    let fake = Fake::start([
        ("WebhookService/ListDeliveries", vec![Answer::ok(&ListDeliveriesResponse::default())]),
        ("WebhookService/ListWebhooks", vec![Answer::ok(&webhooks)]),
    ])
    .await;
    let output = tenure(&fake, &["webhook", "deliveries", "cj"], "").await;
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    assert!(stderr(&output).contains("ci"), "{}", stderr(&output));
    for (args, arrived) in [(&["ci", "--failed"][..], false), (&["--failed"], false), (&["ops"], true)] {
        let output = tenure(&fake, &[&["webhook", "deliveries"], args].concat(), "").await;
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        assert_eq!(stderr(&output).contains("everything has arrived"), arrived, "{}", stderr(&output));
        assert_eq!(stderr(&output).contains("1 wait"), !arrived, "{}", stderr(&output));
    }
}

#[tokio::test]
async fn the_log_of_an_earlier_execution_is_asked_for_by_its_token() {
    let fake =
        Fake::start([("JobService/ReadLog", vec![Answer::stream(&[ReadLogResponse::default()], None)])])
            .await;
    let output = tenure(&fake, &["job", "logs", ID, "--token", "1099511627872"], "").await;
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let sent = fake.sent::<ReadLogRequest>("JobService/ReadLog");
    assert_eq!((sent[0].token, sent[0].attempt), (1_099_511_627_872, None));
    let both = ["job", "logs", ID, "--token", "1", "--attempt", "1"];
    assert_eq!(code(&tenure(&fake, &both, "").await), 2);
}

#[tokio::test]
async fn what_is_no_id_number_or_place_is_told_in_words() {
    let fake = Fake::start([]).await;
    for (args, exit, words) in [
        (&["job", "get", "zzzz"][..], 64, "4 characters or more"),
        (&["job", "get", "41b"], 64, "4 characters or more"),
        (&["workflow", "requeue", ID, "A"], 2, "tenure workflow show"),
        (&["attempt", "progress", "40.5"], 2, "a whole number from 0 to 100"),
        (&["attempt", "progress", "101%"], 2, "a whole number from 0 to 100"),
    ] {
        let output = tenure(&fake, args, "").await;
        assert_eq!(code(&output), exit, "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(words), "{args:?}: {}", stderr(&output));
    }
}

#[tokio::test]
async fn a_file_of_a_workflow_that_is_wrong_is_bad_input() {
    let fake = Fake::start([]).await;
    for file in ["kind = ", "kinds = \"site.qa\"", "[[chord]]\nkind = \"a\"\n"] {
        let output = tenure(&fake, &["workflow", "submit", "-"], file).await;
        assert_eq!(code(&output), 64, "{file}: {}", stderr(&output));
    }
}
