//! The only mutator: what each event does to the state. It cannot refuse; the handlers checked before they emitted.

mod crons;
mod earmarks;
mod family;
mod jobs;
mod leases;
mod lines;
mod nodes;
mod parked;
pub(crate) mod slots;
mod webhooks;
mod workflows;

use crate::{
    event::Event,
    ids::{JobId, KindName, Tenant},
    kind::Kind,
    lease::{Progress, Stage},
    place::{self, ClassId, classes::ClassKey},
    state::{KindEntry, Stand, State, nodes::Begin},
    tenant::TenantPolicy,
    time::Now,
};

impl State {
    /// Applies one event.
    pub(crate) fn evolve(&mut self, now: Now, event: &Event) {
        match event {
            Event::KindPut(kind) => self.kind_put(kind, now),
            Event::KindRemoved(name) => {
                self.dirty.kind(name, self.kinds.remove(name).is_some());
                self.nodes.values_mut().for_each(|node| drop(node.backoffs.remove(name)));
                self.tune_intervals(name);
            }
            Event::KindPaused { kind, policy } => {
                if let Some(entry) = self.kinds.get_mut(kind) {
                    entry.kind.paused = *policy;
                    self.dirty.kind(kind, true);
                }
                self.try_again(kind);
            }
            Event::SlotPut(slot) => self.slot_put(slot, now),
            Event::SlotRemoved(name) => {
                self.dirty.slot(name, self.slots.remove(name).is_some());
                self.fleet.set_capacity(name, 0);
                self.classes.split_again(&self.slots);
                self.index_anew();
                self.gains.remove(name); // No class remembers it any more.
                self.buckets.remove(name);
                self.recount_slot(name);
                self.throttles.remove(name);
            }
            Event::TenantPut { tenant, policy } => self.declare_tenant(tenant, Some(*policy)),
            Event::TenantRemoved(tenant) => self.declare_tenant(tenant, None),
            Event::CronPut(entry) => self.cron_put(entry),
            Event::CronRemoved(entry) => self.cron_removed(entry),
            Event::CronPaused { entry, pause } => self.cron_paused(entry, pause.as_ref(), now),
            Event::CronFired { entry, instant, job } => self.cron_fired(entry, *instant, *job, now),
            Event::CronMissed { entry, missed } => self.cron_missed(entry, missed),
            Event::CronPlanned(plan) => self.cron_planned(plan),
            Event::CronUnplanned(entry) => self.cron_unplanned(entry),
            Event::WebhookPut(webhook) => self.webhook_put(webhook),
            Event::WebhookRemoved(webhook) => self.webhook_removed(webhook),
            Event::WebhookGone { webhook, gone } => self.webhook_gone(webhook, *gone),
            Event::DeliveryAdded(new) => self.delivery_added(new),
            Event::DeliveryChanged(delivery) => self.delivery_changed(delivery),
            Event::DeliveryRemoved { delivery, .. } => self.delivery_removed(*delivery),
            Event::DeliveryDropped { webhook, about: _ } => self.delivery_dropped(webhook, now.wall),
            Event::Enqueued(job) => self.enqueued(job, now),
            Event::Ready(id) | Event::WaitOver(id) | Event::Unblocked(id) => self.ready(*id, now),
            Event::Granted { lease, waits } => self.granted(lease, waits, now),
            Event::AttemptEnded(end) => self.attempt_ended(end, now),
            Event::LossReplaced(end) => self.loss_replaced(end, now),
            Event::CancelRequested { job, reason } => self.change(*job, |job| {
                job.cancel_requested = true;
                job.reason = Some(reason.clone());
            }),
            Event::Parked { token, parked, job: _ } => self.parked(*token, parked, now),
            Event::Unparked { token, verdict, job: _ } => self.unparked(*token, *verdict, now),
            Event::Wants(token) => self.wants(*token, now),
            Event::Ended { job, state, reason } => {
                self.leave(*job, now);
                self.become_state(*job, state, Some(reason), now);
            }
            Event::Requeued(job) => self.requeued(job, now),
            Event::Reprioritized { job, priority } => self.reprioritized(*job, *priority),
            Event::Deleted(id) => self.deleted(*id),
            Event::Checkpointed { job, token, size } => self.checkpointed(*job, *token, *size, now),
            Event::ResultDropped { job, token } => self.dirty.delete_result(*job, *token),
            Event::WorkflowSubmitted(workflow) => self.workflow_put(workflow, true),
            Event::WorkflowOpened { workflow, gate, opened } => {
                self.workflow_opened(*workflow, *gate, opened);
            }
            Event::WorkflowCancelRequested { workflow, reason } => {
                self.workflow_cancelled(*workflow, reason);
            }
            Event::WorkflowEnded { workflow, state, reason } => {
                self.workflow_ended(*workflow, *state, reason.as_ref());
            }
            Event::WorkflowRequeued(workflow) => self.workflow_put(workflow, false),
            Event::WorkflowDeleted(workflow) => self.workflow_deleted(*workflow),
            Event::LeaseUnreaped(token) => self.lease_over(*token, Some(Stage::Unreaped), now),
            Event::LeaseGone(token) => self.lease_over(*token, None, now),
            Event::SlotsFreed(token) => self.slots_freed(*token, now),
            Event::LeaseOrphaned(token) => self.lease_orphaned(*token, now),
            Event::NodePut(node) => self.node_put(node, now),
            Event::NodeForgotten(name) => {
                if let Some(entry) = self.nodes.remove(name) {
                    self.dirty.node(name, true);
                    self.recount_node(Some(&entry.node), None);
                    entry.masks.keys().for_each(|class| self.unmask_class(*class));
                }
                self.classes.iter_mut().for_each(|(_, class)| class.failed = None);
                self.warm_if_all_are_back();
            }
            Event::SessionOpened { node, session, seq, credits, pressure, inputs } => {
                let (session, applied, credits, inputs) = (*session, *seq, *credits, *inputs);
                let begin = Begin { session, applied, credits, pressure: pressure.clone(), inputs };
                self.session_opened(node, begin, now);
            }
            Event::SessionClosed { node } => {
                if let Some(entry) = self.nodes.get_mut(node) {
                    entry.live = None;
                }
                self.gained.insert(node.clone());
            }
            Event::NodeHeard { node, seq, seen } => self.heard(node, *seq, *seen, now),
            Event::NodePressed { node, pressure } => self.pressed(node, pressure, now),
            Event::NodeSuspected(node) => {
                self.with_live(node, |live| live.suspect = true);
                self.gained.insert(node.clone());
            }
            Event::NodeLeaving(node) => {
                self.with_live(node, |live| live.leaving = true);
                self.gained.insert(node.clone());
            }
            Event::SessionBlocked { node, blocked } => {
                self.with_live(node, |live| live.blocked = *blocked);
                self.gained.insert(node.clone());
            }
            Event::MessageSent { node } => self.with_live(node, |live| live.sent += 1),
            Event::Phased { token, phase, started_at } => self.phased(*token, *phase, *started_at, now),
            Event::Progressed { token, percent, message } => {
                if let Some(entry) = self.leases.get_mut(token) {
                    let (percent, message, at) = (*percent, message.clone(), now.wall);
                    entry.watch.progress = Some(Box::new(Progress { percent, message, at }));
                }
            }
            Event::Renewed { token, expires } => {
                if let Some(entry) = self.leases.get_mut(token) {
                    entry.watch.expires = *expires;
                    entry.watch.spared = false;
                    // The timer of the earlier expiry is still set; it finds this one and sets it anew.
                }
            }
            Event::Spared { token, expires, fallen: _ } => {
                if let Some(entry) = self.leases.get_mut(token) {
                    entry.watch.expires = *expires;
                    entry.watch.spared = true;
                }
            }
            Event::Revoked { token, reason } => self.revoked(*token, *reason),
            Event::NotThrottled { .. } => {}
            Event::BudgetTurned(kind) => self.try_again(kind),
            Event::Refilled(slot) => self.gain_slot(slot),
            Event::Deferred { class, reason, job: _ } => {
                place::note_failure(self, *class, reason, now);
                self.wake_for(*class, reason, now);
            }
            Event::Masked { node, class, rule, generation, until, job: _ } => {
                self.mask(node, *class, rule, *generation, *until);
            }
            Event::Unmasked { node, class } => {
                if self.nodes.get_mut(node).is_some_and(|entry| entry.masks.remove(class).is_some()) {
                    self.unmask_class(*class);
                    self.gained.insert(node.clone());
                }
            }
            Event::Struck { node, kind, job, until } => self.struck((node, kind), *job, *until, now),
            Event::BackoffOver { node, kind, forgotten } => self.backoff_over(node, kind, *forgotten),
            Event::Earmarked(earmark) => self.earmarked(earmark, now),
            Event::EarmarkDropped { holder, why, job: _, node: _ } => {
                self.earmark_dropped(*holder, *why, now)
            }
            Event::SetAside(id) => self.set_aside(*id, now),
            Event::CronSetAside(entry) => self.cron_set_aside(entry, now),
            Event::WarmedUp => self.warmed_up(),
            Event::TimelinesSaved(classes) => {
                for id in classes {
                    if let Some(class) = self.classes.get_mut(*id) {
                        self.dirty.class(*id, class.saved, now);
                        class.saved = true;
                        class.timeline.unsaved = false;
                    }
                }
            }
        }
    }

    // Fleet.

    fn kind_put(&mut self, kind: &Kind, now: Now) {
        self.dirty.kind(&kind.name, self.kinds.contains_key(&kind.name));
        self.parking_changed = true;
        let Some(entry) = self.kinds.get_mut(&kind.name) else {
            self.kinds.insert(kind.name.clone(), KindEntry::new(kind.clone()));
            self.tune_intervals(&kind.name);
            return;
        };
        let before = std::mem::replace(&mut entry.kind, kind.clone());
        self.tune_intervals(&kind.name);
        if !kind.policy.node_backoff {
            self.nodes.values_mut().for_each(|node| drop(node.backoffs.remove(&kind.name)));
        }
        if (before.policy.fifo, &before.policy.concurrency) != (kind.policy.fifo, &kind.policy.concurrency) {
            self.line_up_again(&kind.name);
        }
        let Some(entry) = self.kinds.get(&kind.name) else { return };
        let queued: Vec<JobId> = entry.queued.iter().map(|(_, id)| *id).collect();
        for id in queued {
            let Some(class) = self.jobs.get(&id).map(|entry| entry.stand) else { continue };
            let Stand::Class(old) = class else { continue };
            let key = self.jobs.get(&id).and_then(|entry| self.class_key(&entry.job));
            if let Some(key) = key
                && self.classes.find(&key) != Some(old)
            {
                self.move_class(id, old, key, now);
            }
        }
        self.try_again(&kind.name);
    }

    /// A queued job changes its class. One that the move makes takes over what the old one waited for, so that its
    /// jobs keep their history.
    fn move_class(&mut self, id: JobId, old: ClassId, key: ClassKey, now: Now) {
        if self.classes.find(&key).is_none()
            && let Some(timeline) = self.classes.get(old).map(|class| class.timeline.clone())
        {
            let new = self.classes.intern(key.clone(), &self.slots);
            if let Some(class) = self.classes.get_mut(new) {
                class.timeline = timeline;
                class.timeline.unsaved = true;
                class.moved_from = Some(old);
            }
        }
        let joined = self.jobs.get(&id).map(|entry| entry.joined);
        self.leave_class(id);
        self.join_class(id, now);
        let moved = self.classes.find(&key).and_then(|new| self.classes.get(new)?.moved_from) == Some(old);
        if let (true, Some(joined), Some(entry)) = (moved, joined, self.jobs.get_mut(&id)) {
            entry.joined = joined;
        }
    }

    fn try_again(&mut self, kind: &KindName) {
        for (_, class) in self.classes.iter_mut().filter(|(_, class)| class.key.kind == *kind) {
            class.failed = None;
        }
    }

    fn declare_tenant(&mut self, tenant: &Tenant, policy: Option<TenantPolicy>) {
        let known = self.tenants.get(tenant).is_some_and(|entry| entry.declared.is_some());
        self.dirty.tenant(tenant, known);
        self.tenants.declare(tenant, policy);
    }
}
