//! Webhooks and the outbox: what a delivery is written with, what changes of it, and what it cannot be without.

use std::{collections::BTreeMap, sync::Arc};

use tenure_scheduler::{
    About, Changes, Delivery, DeliveryId, DeliveryState, Ending, Epoch, KindName, NewDelivery, Subject, Wall,
    Webhook, WebhookName, WebhookPolicy, WorkflowId,
};
use tenure_store::{Beside, Journal, journal::Error};
use uuid::Uuid;

use crate::{
    samples::id,
    stores::{Led, TestStore, bytes_for},
};

fn webhooks() -> [Webhook; 2] {
    let plain = WebhookPolicy {
        url: "https://ci.test/hook".into(),
        secret: "ci".into(),
        events: Ending::ALL.into(),
        kinds: None,
        workflows: false,
    };
    let rich = WebhookPolicy {
        url: "https://xn--bcher-kva.test:8443/a?b='\"c".into(),
        secret: "other".into(),
        events: [Ending::Dead].into(),
        kinds: Some([KindName::new("a"), KindName::new("b")].into()),
        workflows: true,
    };
    [
        Webhook { name: WebhookName::new("plain"), policy: plain, gone: None },
        Webhook { name: WebhookName::new("rich"), policy: rich, gone: Some(Wall(7)) },
    ]
}

/// One of each kind.
fn deliveries() -> Vec<Delivery> {
    let plain = Delivery {
        id: DeliveryId::mint(Epoch(1), 1),
        webhook: WebhookName::new("plain"),
        about: About::Job(id(1), Ending::Succeeded),
        created_at: Wall(10),
        since: Wall(10),
        tries: 0,
        state: DeliveryState::Waiting { next: Wall(10) },
        error: None,
    };
    let failed = Delivery {
        id: DeliveryId::mint(Epoch(1), 2),
        webhook: WebhookName::new("rich"),
        about: About::Workflow(WorkflowId(Uuid::from_u128(5)), Ending::Dead),
        since: Wall(20),
        tries: 7,
        state: DeliveryState::Failed { at: Wall(30) },
        error: Some("status 500 \"ü\"".into()),
        ..plain.clone()
    };
    let test = Delivery { id: DeliveryId::mint(Epoch(2), 1), about: About::Test, ..plain.clone() };
    vec![plain, failed, test]
}

fn new(deliveries: &[Delivery]) -> Changes {
    let new = |delivery: &Delivery| NewDelivery { delivery: delivery.clone(), subject: Subject::Test };
    Changes { deliveries_new: deliveries.iter().map(new).collect(), ..Changes::default() }
}

async fn with_all<S: TestStore>() -> Led<S> {
    let mut led = Led::<S>::new().await;
    led.commit(&Changes { webhooks_put: webhooks().to_vec(), ..new(&deliveries()) }).await;
    led
}

pub(crate) async fn webhooks_and_deliveries_come_back_as_they_were<S: TestStore>() {
    let mut led = with_all::<S>().await;
    let loaded = led.reload().await;
    assert!(loaded.webhooks.into_values().eq(webhooks()));
    assert!(loaded.deliveries.into_values().eq(deliveries()));
    let ids: Vec<DeliveryId> = deliveries().iter().map(|delivery| delivery.id).collect();
    let bodies = led.store.reader().bodies(&ids).await.unwrap();
    let stored: BTreeMap<DeliveryId, Arc<str>> =
        bodies.into_iter().map(|(id, body)| (id, body.into())).collect();
    assert_eq!(stored, bytes_for(&new(&deliveries())).bodies);
    assert!(led.store.reader().bodies(&[DeliveryId(77)]).await.unwrap().is_empty());
}

pub(crate) async fn tries_change_a_delivery_and_never_what_it_tells<S: TestStore>() {
    let mut led = with_all::<S>().await;
    let [first, second, _] = &deliveries()[..] else { panic!("three") };
    let tried = Delivery {
        since: Wall(40),
        tries: 3,
        state: DeliveryState::Failed { at: Wall(50) },
        error: Some("timed out".into()),
        ..first.clone()
    };
    let again = Delivery { state: DeliveryState::Waiting { next: Wall(60) }, error: None, ..second.clone() };
    // What it tells is not in the statement.
    let written = Delivery { about: About::Test, webhook: WebhookName::new("rich"), ..tried.clone() };
    let [mut plain, rich] = webhooks();
    plain.policy = rich.policy;
    led.commit(&Changes {
        deliveries_put: vec![written, again.clone()],
        webhooks_put: vec![plain.clone()],
        ..Changes::default()
    })
    .await;
    let loaded = led.reload().await;
    assert_eq!(loaded.deliveries[&first.id], tried);
    assert_eq!(loaded.deliveries[&second.id], again);
    assert_eq!(loaded.webhooks[&plain.name], plain);
    let body = led.store.reader().bodies(&[first.id]).await.unwrap();
    assert_eq!(*body[&first.id], *bytes_for(&new(&deliveries())).bodies[&first.id]);
}

pub(crate) async fn a_webhook_goes_after_its_deliveries_and_comes_again_in_one_turn<S: TestStore>() {
    let mut led = with_all::<S>().await;
    let all = deliveries();
    led.commit(&Changes {
        deliveries_deleted: all.iter().map(|delivery| delivery.id).collect(),
        webhooks_deleted: vec![WebhookName::new("rich")],
        webhooks_put: vec![webhooks()[0].clone()],
        ..new(&[Delivery { id: DeliveryId::mint(Epoch(3), 1), ..all[0].clone() }])
    })
    .await;
    let loaded = led.reload().await;
    assert!(loaded.webhooks.keys().map(WebhookName::as_str).eq(["plain"]));
    assert!(loaded.deliveries.keys().copied().eq([DeliveryId::mint(Epoch(3), 1)]));
}

pub(crate) async fn a_delivery_has_a_webhook_a_body_and_a_row<S: TestStore>() {
    let mut led = with_all::<S>().await;
    let orphan = Delivery {
        id: DeliveryId::mint(Epoch(3), 9),
        webhook: WebhookName::new("nobody"),
        ..deliveries()[0].clone()
    };
    let bare = Changes { webhooks_deleted: vec![WebhookName::new("rich")], ..Changes::default() };
    for (changes, statement, wall) in [
        (new(std::slice::from_ref(&orphan)), "DELIVERY_INSERT", "outbox_has_a_webhook"),
        (new(&deliveries()[..1]), "DELIVERY_INSERT", "outbox_pkey"),
        (bare, "WEBHOOK_DELETE", "outbox_has_a_webhook"),
    ] {
        let refused = led.try_commit(&changes).await;
        let Err(Error::Constraint { name, statement: met, .. }) = &refused else { panic!("{refused:?}") };
        assert_eq!((name.as_str(), *met), (wall, statement));
        led.reload().await;
    }
    let missing = Changes { deliveries_put: vec![orphan.clone()], ..Changes::default() };
    let refused = led.try_commit(&missing).await;
    assert!(
        matches!(refused, Err(Error::RowsMismatch { statement: "DELIVERY_UPDATE", sent: 1, affected: 0 })),
        "{refused:?}"
    );
    led.reload().await;
    let deliveries_deleted = vec![orphan.id];
    let refused = led.try_commit(&Changes { deliveries_deleted, ..Changes::default() }).await;
    assert!(matches!(refused, Err(Error::RowsMismatch { statement: "DELIVERY_DELETE", .. })), "{refused:?}");
    led.reload().await;
    let epoch = led.epoch;
    let bodiless = Delivery { webhook: WebhookName::new("plain"), ..orphan };
    let refused = led.store.journal().commit(epoch, &new(&[bodiless]), &Beside::default()).await;
    assert!(matches!(refused, Err(Error::NoBodyBeside { .. })), "{refused:?}");
}
