//! Webhooks: what is told when something ends, what becomes of a try, and what operators do to them.

use std::sync::Arc;

use crate::{
    effect::{Effect, Reply},
    event::Event,
    ids::WebhookName,
    refusal::{Refusal, nearest},
    step::Step,
    webhook::{
        self, About, Delivery, DeliveryId, DeliveryState, FAILED_KEPT, MOST_FAILED, MOST_TOLD_AT_ONCE,
        MOST_WAITING, NewDelivery, Subject, TRIED_FOR, Tried, Webhook,
    },
};

impl Step<'_> {
    /// At the end of a command: whatever became final by it is told to whoever wants to hear of it.
    pub(super) fn tell_webhooks(&mut self) {
        if self.state.outbox.webhooks.is_empty() {
            return;
        }
        let mut told = 0;
        for subject in self.ended() {
            let webhooks = self.state.outbox.webhooks.values().map(|entry| &entry.webhook);
            for (name, about) in webhook::wanted(webhooks, &subject) {
                // A turn is bounded, however much ends in it and whoever wants to hear of that.
                if told >= MOST_TOLD_AT_ONCE || self.is_full(&name) {
                    self.emit(Event::DeliveryDropped { webhook: name, about });
                } else {
                    told += 1;
                    self.add_delivery(&name, about, subject.clone());
                }
            }
        }
    }

    /// Jobs and workflows that this command made final, as they are now.
    fn ended(&self) -> Vec<Subject> {
        let job = |id| self.state.job(id).map(|job| Subject::Job(Arc::new(job.clone())));
        let workflow = |id| self.state.workflow(id).map(|flow| Subject::Workflow(Arc::new(flow.clone())));
        let ended = self.events.iter().filter_map(|event| {
            if let Event::AttemptEnded(end) | Event::LossReplaced(end) = event {
                end.next.is_final().then(|| job(end.job)).flatten()
            } else if let Event::Ended { job: id, .. } = event {
                job(*id)
            } else if let Event::WorkflowEnded { workflow: id, .. } = event {
                workflow(*id)
            } else {
                None
            }
        });
        ended.collect()
    }

    /// Too much waits for a webhook to add to it.
    fn is_full(&self, name: &WebhookName) -> bool {
        self.state.outbox.webhooks.get(name).is_some_and(|entry| entry.waiting.len() >= MOST_WAITING)
    }

    /// A new delivery.
    fn add_delivery(&mut self, name: &WebhookName, about: About, subject: Subject) -> Delivery {
        let id = DeliveryId::mint(self.state.epoch, self.state.outbox.minted + 1);
        let delivery = Delivery::new(id, name.clone(), about, self.now.wall);
        self.emit(Event::DeliveryAdded(Box::new(NewDelivery { delivery: delivery.clone(), subject })));
        self.wake_outbox();
        delivery
    }

    /// Once in a command is enough.
    fn wake_outbox(&mut self) {
        if !self.effects.contains(&Effect::NotifyOutbox) {
            self.effect(Effect::NotifyOutbox);
        }
    }

    /// What became of tries. What is no longer there was taken away meanwhile. What has been there for too long goes.
    pub(super) fn settle_deliveries(&mut self, tried: &[Tried]) {
        for Tried { delivery, failure } in tried {
            let Some(known) = self.state.outbox.deliveries.get(delivery).cloned() else { continue };
            let Some(failure) = failure else {
                self.emit(Event::DeliveryRemoved {
                    delivery: known.id,
                    webhook: known.webhook,
                    arrived: true,
                });
                continue;
            };
            if matches!(known.state, DeliveryState::Waiting { .. }) {
                let failed = known.after_failure(failure, self.now.wall);
                self.emit(Event::DeliveryChanged(Box::new(failed)));
            }
            let is_gone = self.state.webhook(&known.webhook).is_some_and(|webhook| webhook.gone.is_some());
            if failure.gone && !is_gone {
                let gone = Some(self.now.wall);
                self.emit(Event::WebhookGone { webhook: known.webhook.clone(), gone });
            }
        }
        self.age_deliveries();
        self.wake_outbox();
        self.reply(Reply::Settled);
    }

    /// Nothing waits for ever for a receiver that is gone, and failures are kept within bounds.
    fn age_deliveries(&mut self) {
        let now = self.now.wall;
        let (mut given_up, mut removed) = (Vec::new(), Vec::new());
        for entry in self.state.outbox.webhooks.values() {
            if entry.webhook.gone.is_some() {
                let waiting = entry.waiting_since(now.before(TRIED_FOR));
                given_up.extend(waiting.filter_map(|id| self.state.outbox.deliveries.get(&id)).cloned());
            }
            let surplus = entry.failed.len().saturating_sub(MOST_FAILED);
            let old = |at: usize, failed_at| at < surplus || now.since(failed_at) >= FAILED_KEPT;
            let failed = entry.failed.iter().enumerate();
            let over = failed.take_while(|(at, (failed_at, _))| old(*at, *failed_at));
            removed.extend(over.map(|(_, (_, id))| (*id, entry.webhook.name.clone())));
        }
        for delivery in given_up {
            self.emit(Event::DeliveryChanged(Box::new(delivery.given_up(now))));
        }
        for (delivery, webhook) in removed {
            self.emit(Event::DeliveryRemoved { delivery, webhook, arrived: false });
        }
    }

    /// Sends a delivery that has not arrived, now and as often as a new one.
    pub(super) fn redeliver(&mut self, id: DeliveryId) -> Result<(), Refusal> {
        let known = self.state.outbox.deliveries.get(&id).cloned();
        let known = known.ok_or(Refusal::DeliveryNotFound { delivery: id })?;
        let again = known.again(self.now.wall);
        let changed = matches!(known.state, DeliveryState::Failed { .. }) || known.tries > 0;
        if changed {
            self.emit(Event::DeliveryChanged(Box::new(again.clone())));
            self.wake_outbox();
        }
        self.reply(Reply::Delivery { delivery: Box::new(again), changed });
        Ok(())
    }

    /// Sends something to a webhook that is about nothing.
    pub(super) fn test_webhook(&mut self, name: &WebhookName) -> Result<(), Refusal> {
        self.declared_webhook(name)?;
        if self.is_full(name) {
            return Err(Refusal::OutboxFull { webhook: name.clone(), limit: MOST_WAITING as u64 });
        }
        let delivery = self.add_delivery(name, About::Test, Subject::Test);
        self.reply(Reply::Delivery { delivery: Box::new(delivery), changed: true });
        Ok(())
    }

    /// The receiver is there again: what waits for it is sent.
    pub(super) fn resume_webhook(&mut self, name: &WebhookName) -> Result<(), Refusal> {
        let changed = self.declared_webhook(name)?.gone.is_some();
        if changed {
            self.emit(Event::WebhookGone { webhook: name.clone(), gone: None });
            self.wake_outbox();
        }
        let webhook = Box::new(self.declared_webhook(name)?.clone());
        self.reply(Reply::Webhook { webhook, changed });
        Ok(())
    }

    fn declared_webhook(&self, name: &WebhookName) -> Result<&Webhook, Refusal> {
        self.state.webhook(name).ok_or_else(|| Refusal::WebhookNotFound {
            webhook: name.clone(),
            nearest: nearest(name.as_str(), self.state.outbox.webhooks.keys(), |name| name.as_str()),
        })
    }
}
