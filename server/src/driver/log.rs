//! One debug line per transition, emitted in exactly this place, from the event, after its commit; and a warning for what
//! an operator should know, whatever the level is.

use tenure_scheduler::{Epoch, Event};

/// Logs what a turn did. No payload, result, label or text of a job is among it but short reasons.
pub(super) fn events(epoch: Epoch, events: &[Event]) {
    warn(epoch, events);
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    for event in events.iter().filter(|event| event.is_notable()) {
        log(epoch, event);
    }
}

/// What is no matter of one job. Many leases of one turn are one line.
fn warn(epoch: Epoch, events: &[Event]) {
    let mut spared = None;
    for event in events {
        if let Event::NotThrottled { token, slot } = event {
            tracing::warn!(%epoch, lease.token = %token, slot.name = %slot, "{event}: its lease holds no such fleet slot");
        }
        if let Event::CronMissed { entry, missed } = event {
            let (count, reason) = (missed.count, &missed.reason);
            tracing::warn!(%epoch, cron.entry = %entry, count, %reason, "firings were missed: {}", missed.message);
        }
        if let Event::CronSetAside(entry) = event {
            tracing::error!(%epoch, cron.entry = %entry, "a firing cannot be stored: the entry is paused until it is resumed");
        }
        if let Event::Spared { fallen, .. } = event {
            let (_, leases) = spared.unwrap_or((fallen, 0_usize));
            spared = Some((fallen, leases + 1));
        }
    }
    if let Some((fallen, leases)) = spared {
        let (silent, of) = (fallen.silent, fallen.of);
        tracing::warn!(%epoch, silent, of, leases, "many nodes fell silent at once: their leases wait longer");
    }
}

fn log(epoch: Epoch, event: &Event) {
    match event {
        Event::Enqueued(job) | Event::Requeued(job) => {
            tracing::debug!(%epoch, job.id = %job.id, job.kind = %job.kind, job.attempt = job.attempt(), "{event}");
        }
        Event::Granted { lease, .. } => tracing::debug!(
            %epoch,
            job.id = %lease.job,
            job.kind = %lease.kind,
            job.attempt = lease.attempt,
            lease.token = %lease.token,
            node.id = %lease.node,
            "{event}"
        ),
        Event::AttemptEnded(end) | Event::LossReplaced(end) => tracing::debug!(
            %epoch,
            job.id = %end.job,
            lease.token = %end.token,
            reason = %end.cause,
            "{event}"
        ),
        Event::Ready(job)
        | Event::WaitOver(job)
        | Event::CancelRequested { job, .. }
        | Event::Ended { job, .. }
        | Event::Reprioritized { job, .. }
        | Event::Unblocked(job)
        | Event::Deleted(job)
        | Event::SetAside(job) => tracing::debug!(%epoch, job.id = %job, "{event}"),
        Event::ResultDropped { job, token } | Event::Checkpointed { job, token, .. } => {
            tracing::debug!(%epoch, job.id = %job, lease.token = %token, "{event}");
        }
        Event::Parked { job, token, .. } | Event::Unparked { job, token, .. } => {
            tracing::debug!(%epoch, job.id = %job, lease.token = %token, "{event}");
        }
        Event::LeaseUnreaped(token)
        | Event::Wants(token)
        | Event::LeaseGone(token)
        | Event::SlotsFreed(token)
        | Event::LeaseOrphaned(token)
        | Event::Phased { token, .. }
        | Event::Progressed { token, .. }
        | Event::Spared { token, .. }
        | Event::Renewed { token, .. } => tracing::debug!(%epoch, lease.token = %token, "{event}"),
        Event::Revoked { token, reason } => {
            tracing::debug!(%epoch, lease.token = %token, reason = reason.name(), "{event}");
        }
        Event::NodePut(node) => tracing::debug!(%epoch, node.id = %node.name, "{event}"),
        Event::NodeForgotten(node)
        | Event::SessionClosed { node }
        | Event::NodeHeard { node, .. }
        | Event::NodeSuspected(node)
        | Event::NodeLeaving(node)
        | Event::NodePressed { node, .. }
        | Event::SessionBlocked { node, .. }
        | Event::MessageSent { node }
        | Event::Unmasked { node, .. }
        | Event::Struck { node, .. }
        | Event::BackoffOver { node, .. } => tracing::debug!(%epoch, node.id = %node, "{event}"),
        Event::Earmarked(earmark) => {
            tracing::debug!(%epoch, job.id = %earmark.job, node.id = %earmark.node, "{event}");
        }
        Event::EarmarkDropped { job, node, why, .. } => {
            tracing::debug!(%epoch, job.id = %job, node.id = %node, reason = why.name(), "{event}");
        }
        Event::Masked { node, rule, .. } => {
            tracing::debug!(%epoch, node.id = %node, reason = %rule, "{event}");
        }
        Event::SessionOpened { node, session, .. } => {
            tracing::debug!(%epoch, node.id = %node, session.id = %session, "{event}");
        }
        Event::SlotPut(slot) => tracing::debug!(%epoch, slot.name = %slot.name, "{event}"),
        Event::NotThrottled { token, slot } => {
            tracing::debug!(%epoch, lease.token = %token, slot.name = %slot, "{event}");
        }
        Event::SlotRemoved(slot) | Event::Refilled(slot) => {
            tracing::debug!(%epoch, slot.name = %slot, "{event}")
        }
        Event::CronFired { entry, job, .. } => {
            tracing::debug!(%epoch, cron.entry = %entry, job.id = %job, "{event}");
        }
        Event::CronMissed { entry, missed } => {
            tracing::debug!(%epoch, cron.entry = %entry, reason = %missed.reason, "{event}");
        }
        Event::CronRemoved(entry)
        | Event::CronUnplanned(entry)
        | Event::CronSetAside(entry)
        | Event::CronPaused { entry, .. } => {
            tracing::debug!(%epoch, cron.entry = %entry, "{event}");
        }
        Event::WebhookPut(webhook) => tracing::debug!(%epoch, webhook.name = %webhook.name, "{event}"),
        Event::WebhookRemoved(webhook)
        | Event::WebhookGone { webhook, .. }
        | Event::DeliveryRemoved { webhook, .. }
        | Event::DeliveryDropped { webhook, .. } => {
            tracing::debug!(%epoch, webhook.name = %webhook, "{event}");
        }
        Event::DeliveryAdded(new) => {
            tracing::debug!(%epoch, webhook.name = %new.delivery.webhook, "{event}");
        }
        Event::DeliveryChanged(delivery) => {
            tracing::debug!(%epoch, webhook.name = %delivery.webhook, "{event}");
        }
        Event::CronPut(_)
        | Event::CronPlanned(_)
        | Event::TenantPut { .. }
        | Event::TenantRemoved(_)
        | Event::KindPut(_)
        | Event::KindRemoved(_)
        | Event::WorkflowSubmitted(_)
        | Event::WorkflowOpened { .. }
        | Event::WorkflowCancelRequested { .. }
        | Event::WorkflowEnded { .. }
        | Event::WorkflowRequeued(_)
        | Event::WorkflowDeleted(_)
        | Event::BudgetTurned(_)
        | Event::KindPaused { .. }
        | Event::Deferred { .. }
        | Event::WarmedUp
        | Event::TimelinesSaved(_) => tracing::debug!(%epoch, "{event}"),
    }
}
