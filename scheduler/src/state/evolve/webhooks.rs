//! What events do to webhooks and to what waits to be told to them.

use crate::{
    ids::WebhookName,
    state::{State, outbox::WebhookEntry},
    time::Wall,
    webhook::{Delivery, DeliveryId, NewDelivery, Webhook},
};

impl State {
    /// A webhook is declared, or declared anew. What waits for it goes where it is now.
    pub(super) fn webhook_put(&mut self, webhook: &Webhook) {
        self.dirty.webhook(&webhook.name, self.outbox.webhooks.contains_key(&webhook.name));
        match self.outbox.webhooks.get_mut(&webhook.name) {
            Some(entry) => entry.webhook = webhook.clone(),
            None => {
                self.outbox.webhooks.insert(webhook.name.clone(), WebhookEntry::new(webhook.clone()));
            }
        }
    }

    /// A webhook is declared no more: nothing is told to it any more.
    pub(super) fn webhook_removed(&mut self, name: &WebhookName) {
        for id in self.outbox.of(name) {
            self.delivery_removed(id);
        }
        self.dirty.webhook(name, self.outbox.webhooks.remove(name).is_some());
    }

    pub(super) fn webhook_gone(&mut self, name: &WebhookName, gone: Option<Wall>) {
        let Some(entry) = self.outbox.webhooks.get_mut(name) else { return };
        entry.webhook.gone = gone;
        self.dirty.webhook(name, true);
    }

    pub(super) fn delivery_added(&mut self, new: &NewDelivery) {
        self.outbox.minted += 1;
        self.outbox.put(new.delivery.clone());
        self.dirty.new_delivery(new.delivery.id, new.subject.clone());
    }

    pub(super) fn delivery_changed(&mut self, delivery: &Delivery) {
        self.outbox.put(delivery.clone());
        self.dirty.delivery(delivery.id);
    }

    pub(super) fn delivery_removed(&mut self, id: DeliveryId) {
        if self.outbox.take(id).is_some() {
            self.dirty.delete_delivery(id);
        }
    }

    pub(super) fn delivery_dropped(&mut self, name: &WebhookName, now: Wall) {
        if let Some(entry) = self.outbox.webhooks.get_mut(name) {
            entry.dropped_at = Some(now);
            entry.dropped = entry.dropped.saturating_add(1);
        }
    }
}
