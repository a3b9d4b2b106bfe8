//! Webhooks and the outbox of the store in memory.

use std::collections::BTreeMap;

use tenure_scheduler::{Changes, Delivery, DeliveryId};

use super::{Tables, journal::each, reader::MemoryReader, tables::fired};
use crate::{journal::Error, reader, turn};

/// Deliveries, then webhooks: none of the first may be left without one of the second.
pub(super) fn delete(tables: &mut Tables, changes: &Changes) -> Result<(), Error> {
    each("DELIVERY_DELETE", &changes.deliveries_deleted, |id| tables.outbox.remove(id))?;
    for name in &changes.webhooks_deleted {
        if tables.outbox.rows().values().any(|(delivery, _)| delivery.webhook == *name) {
            return Err(fired("outbox_has_a_webhook", "WEBHOOK_DELETE"));
        }
    }
    each("WEBHOOK_DELETE", &changes.webhooks_deleted, |name| tables.webhooks.remove(name))
}

pub(super) fn put(tables: &mut Tables, changes: &Changes) -> Result<(), Error> {
    for webhook in &changes.webhooks_put {
        tables.webhooks.put(webhook.name.clone(), webhook.clone());
    }
    let mut affected = 0;
    for Delivery { id, since, tries, state, error, .. } in &changes.deliveries_put {
        let Some((old, body)) = tables.outbox.get(id).cloned() else { continue };
        let new = Delivery { since: *since, tries: *tries, state: *state, error: error.clone(), ..old };
        tables.outbox.put(*id, (new, body));
        affected += 1;
    }
    turn::expect("DELIVERY_UPDATE", turn::count(&changes.deliveries_put), affected)
}

pub(super) fn insert(tables: &mut Tables, deliveries: &[(&Delivery, &str)]) -> Result<(), Error> {
    for (delivery, body) in deliveries {
        if tables.outbox.get(&delivery.id).is_some() {
            return Err(fired("outbox_pkey", "DELIVERY_INSERT"));
        }
        if tables.webhooks.get(&delivery.webhook).is_none() {
            return Err(fired("outbox_has_a_webhook", "DELIVERY_INSERT"));
        }
        tables.outbox.put(delivery.id, ((*delivery).clone(), (*body).to_owned()));
    }
    Ok(())
}

impl MemoryReader {
    pub(crate) async fn bodies(
        &self,
        ids: &[DeliveryId],
    ) -> Result<BTreeMap<DeliveryId, String>, reader::Error> {
        self.read(|tables| {
            let body = |id: &DeliveryId| Some((*id, tables.outbox.get(id)?.1.clone()));
            ids.iter().filter_map(body).collect()
        })
    }
}
