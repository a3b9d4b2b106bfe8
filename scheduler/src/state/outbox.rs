//! What waits to be told to webhooks, by webhook and by when it is due. The bodies are in the store alone.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use crate::{
    ids::WebhookName,
    state::State,
    time::Wall,
    webhook::{Delivery, DeliveryId, DeliveryState, DueDelivery, LONGEST_WAIT, Webhook, WebhookView},
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
    /// When the newest of those was dropped.
    pub(crate) dropped_at: Option<Wall>,
}

impl WebhookEntry {
    pub(crate) fn new(webhook: Webhook) -> Self {
        Self {
            webhook,
            waiting: BTreeSet::new(),
            since: BTreeSet::new(),
            failed: BTreeSet::new(),
            dropped: 0,
            dropped_at: None,
        }
    }

    /// What is due, and not among these, the oldest first; then what lies further away than any wait may: the clock was ahead
    /// when it failed, and has been set back.
    fn due(&self, now: Wall, busy: &BTreeSet<DeliveryId>) -> impl Iterator<Item = DeliveryId> {
        let due = self.waiting.iter().take_while(move |(next, _)| *next <= now);
        let furthest = Bound::Excluded((now.after(LONGEST_WAIT), DeliveryId(u64::MAX)));
        let astray = self.waiting.range((furthest, Bound::Unbounded));
        due.chain(astray).map(|(_, id)| *id).filter(|id| !busy.contains(id))
    }

    /// When the first of what is not among these is due.
    fn next(&self, now: Wall, busy: &BTreeSet<DeliveryId>) -> Option<Wall> {
        let due = self.due(now, busy).next().map(|_| now);
        due.or_else(|| self.waiting.iter().find(|(_, id)| !busy.contains(id)).map(|(next, _)| *next))
    }

    /// What has waited since then or for longer, the oldest first. Nothing younger is looked at.
    pub(crate) fn waiting_since(&self, then: Wall) -> impl Iterator<Item = DeliveryId> {
        self.since.iter().take_while(move |(since, _)| *since <= then).map(|(_, id)| *id)
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
        let of = |(entry, room): (&WebhookEntry, usize)| {
            let due = entry.due(now, busy).take(room);
            let due = due.filter_map(|id| self.outbox.deliveries.get(&id));
            let policy = &entry.webhook.policy;
            let due = due.map(|delivery| DueDelivery {
                delivery: delivery.clone(),
                url: policy.url.clone(),
                secret: policy.secret.clone(),
            });
            due.collect::<Vec<_>>()
        };
        self.with_room(busy, most).flat_map(of).collect()
    }

    /// When the next delivery that is not among `busy` is due, of a webhook with fewer than `most` busy ones: of one that
    /// has so many nothing is due before one of them ends. Not after now: some are due. None: nothing waits.
    #[must_use]
    pub fn next_delivery(&self, now: Wall, busy: &BTreeSet<DeliveryId>, most: usize) -> Option<Wall> {
        self.with_room(busy, most).filter_map(|(entry, _)| entry.next(now, busy)).min()
    }

    /// Webhooks whose receivers are there, each with how many more of its deliveries may be on their way.
    fn with_room(
        &self,
        busy: &BTreeSet<DeliveryId>,
        most: usize,
    ) -> impl Iterator<Item = (&WebhookEntry, usize)> {
        let mut on_their_way: BTreeMap<&WebhookName, usize> = BTreeMap::new();
        for delivery in busy.iter().filter_map(|id| self.outbox.deliveries.get(id)) {
            *on_their_way.entry(&delivery.webhook).or_default() += 1;
        }
        let heard = self.outbox.webhooks.values().filter(|entry| entry.webhook.gone.is_none());
        let room = move |entry: &WebhookEntry| {
            most.saturating_sub(on_their_way.get(&entry.webhook.name).copied().unwrap_or(0))
        };
        heard.map(move |entry| (entry, room(entry))).filter(|(_, room)| *room > 0)
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
            failed_at: entry.failed.last().map(|(at, _)| *at),
            dropped: entry.dropped,
            dropped_at: entry.dropped_at,
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
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let all = self.outbox.deliveries.range((from, Bound::Unbounded)).map(|(_, delivery)| delivery);
        all.filter(move |delivery| webhook.is_none_or(|name| delivery.webhook == *name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ids::Epoch,
        webhook::{About, WebhookPolicy},
    };

    #[test]
    fn only_what_has_waited_for_that_long_is_given_up_whenever_it_is_due() {
        let policy = WebhookPolicy {
            url: "https://ci.test/".into(),
            secret: "ci".into(),
            events: BTreeSet::new(),
            kinds: None,
            workflows: false,
        };
        let name = WebhookName::new("ci");
        let mut entry = WebhookEntry::new(Webhook { name: name.clone(), policy, gone: None });
        // The youngest are due first.
        for n in 1..=5 {
            let id = DeliveryId::mint(Epoch(1), n);
            let next = Wall(100 - i64::try_from(n).unwrap());
            let state = DeliveryState::Waiting { next };
            let since = Wall(i64::try_from(n).unwrap());
            entry.put(&Delivery { state, ..Delivery::new(id, name.clone(), About::Test, since) });
        }
        let old: Vec<DeliveryId> = entry.waiting_since(Wall(2)).collect();
        assert_eq!(old, [1, 2].map(|n| DeliveryId::mint(Epoch(1), n)));
    }
}
