//! What waits to be told to webhooks, by webhook and by when it is due. The bodies are in the store alone.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    ids::WebhookName,
    state::State,
    time::Wall,
    webhook::{Delivery, DeliveryId, DeliveryState, DueDelivery, Webhook, WebhookView},
};

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outbox {
    pub(crate) webhooks: BTreeMap<WebhookName, WebhookEntry>,
    pub(crate) deliveries: BTreeMap<DeliveryId, Delivery>,
    /// Deliveries of this epoch so far.
    pub(crate) minted: u64,
}

/// A webhook and its deliveries.
#[derive(Debug, Clone)]
pub(crate) struct WebhookEntry {
    pub(crate) webhook: Webhook,
    /// By when they are due.
    pub(crate) waiting: BTreeSet<(Wall, DeliveryId)>,
    /// The same by since when they wait: a snapshot asks for the oldest, and there may be ten thousand.
    since: BTreeSet<(Wall, DeliveryId)>,
    /// By when they failed.
    pub(crate) failed: BTreeSet<(Wall, DeliveryId)>,
    /// Since this leader began.
    pub(crate) dropped: u64,
}

impl WebhookEntry {
    pub(crate) fn new(webhook: Webhook) -> Self {
        Self {
            webhook,
            waiting: BTreeSet::new(),
            since: BTreeSet::new(),
            failed: BTreeSet::new(),
            dropped: 0,
        }
    }

    fn put(&mut self, delivery: &Delivery) {
        match delivery.state {
            DeliveryState::Waiting { next } => {
                self.waiting.insert((next, delivery.id));
                self.since.insert((delivery.since, delivery.id));
            }
            DeliveryState::Failed { at } => {
                self.failed.insert((at, delivery.id));
            }
        }
    }

    fn take(&mut self, delivery: &Delivery) {
        match delivery.state {
            DeliveryState::Waiting { next } => {
                self.waiting.remove(&(next, delivery.id));
                self.since.remove(&(delivery.since, delivery.id));
            }
            DeliveryState::Failed { at } => {
                self.failed.remove(&(at, delivery.id));
            }
        }
    }
}

impl Outbox {
    /// A delivery is new, or changed.
    pub(crate) fn put(&mut self, delivery: Delivery) {
        self.take(delivery.id);
        if let Some(entry) = self.webhooks.get_mut(&delivery.webhook) {
            entry.put(&delivery);
            self.deliveries.insert(delivery.id, delivery);
        }
    }

    /// A delivery is gone.
    pub(crate) fn take(&mut self, id: DeliveryId) -> Option<Delivery> {
        let old = self.deliveries.remove(&id)?;
        if let Some(entry) = self.webhooks.get_mut(&old.webhook) {
            entry.take(&old);
        }
        Some(old)
    }

    /// All deliveries of a webhook.
    pub(crate) fn of(&self, webhook: &WebhookName) -> Vec<DeliveryId> {
        let Some(entry) = self.webhooks.get(webhook) else { return Vec::new() };
        entry.waiting.iter().chain(&entry.failed).map(|(_, id)| *id).collect()
    }
}

impl State {
    /// Deliveries that are due and not among `busy`, so that no webhook has more than `most` of them and of the busy ones
    /// together. Of one whose receiver is gone none is due.
    #[must_use]
    pub fn due_deliveries(&self, now: Wall, busy: &BTreeSet<DeliveryId>, most: usize) -> Vec<DueDelivery> {
        let mut on_their_way: BTreeMap<&WebhookName, usize> = BTreeMap::new();
        for delivery in busy.iter().filter_map(|id| self.outbox.deliveries.get(id)) {
            *on_their_way.entry(&delivery.webhook).or_default() += 1;
        }
        let heard = self.outbox.webhooks.values().filter(|entry| entry.webhook.gone.is_none());
        let of = |entry: &WebhookEntry| {
            let room = most.saturating_sub(on_their_way.get(&entry.webhook.name).copied().unwrap_or(0));
            let due = entry.waiting.iter().take_while(|(next, _)| *next <= now);
            let due = due.filter(|(_, id)| !busy.contains(id)).take(room);
            let due = due.filter_map(|(_, id)| self.outbox.deliveries.get(id));
            let policy = &entry.webhook.policy;
            let due = due.map(|delivery| DueDelivery {
                delivery: delivery.clone(),
                url: policy.url.clone(),
                secret: policy.secret.clone(),
            });
            due.collect::<Vec<_>>()
        };
        heard.flat_map(of).collect()
    }

    /// When the next delivery that is not among `busy` is due; none: nothing waits.
    #[must_use]
    pub fn next_delivery(&self, busy: &BTreeSet<DeliveryId>) -> Option<Wall> {
        let heard = self.outbox.webhooks.values().filter(|entry| entry.webhook.gone.is_none());
        let first = |entry: &WebhookEntry| {
            entry.waiting.iter().find(|(_, id)| !busy.contains(id)).map(|(next, _)| *next)
        };
        heard.filter_map(first).min()
    }

    /// A declared webhook.
    #[must_use]
    pub fn webhook(&self, name: &WebhookName) -> Option<&Webhook> {
        self.outbox.webhooks.get(name).map(|entry| &entry.webhook)
    }

    /// All declared webhooks with their figures, by name.
    pub fn webhooks(&self) -> impl Iterator<Item = WebhookView> {
        self.outbox.webhooks.values().map(|entry| WebhookView {
            webhook: entry.webhook.clone(),
            waiting: entry.waiting.len() as u64,
            oldest: entry.since.first().map(|(since, _)| *since),
            failed: entry.failed.len() as u64,
            dropped: entry.dropped,
        })
    }

    /// A delivery that has not arrived.
    #[must_use]
    pub fn delivery(&self, id: DeliveryId) -> Option<&Delivery> {
        self.outbox.deliveries.get(&id)
    }

    /// Deliveries that have not arrived, by id from behind `after` on: of one webhook, or of all.
    pub fn deliveries(
        &self,
        webhook: Option<&WebhookName>,
        after: Option<DeliveryId>,
    ) -> impl Iterator<Item = &Delivery> {
        let from = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let all =
            self.outbox.deliveries.range((from, std::ops::Bound::Unbounded)).map(|(_, delivery)| delivery);
        all.filter(move |delivery| webhook.is_none_or(|name| delivery.webhook == *name))
    }
}
