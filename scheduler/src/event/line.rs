//! The line of an event in a trace.

use std::fmt;

use super::Event;
use crate::webhook::DeliveryState;

/// Its line in a trace.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KindPut(kind) => write!(f, "kind {} put", kind.name),
            Self::KindRemoved(kind) => write!(f, "kind {kind} removed"),
            Self::KindPaused { kind, policy: Some(policy) } => write!(f, "kind {kind} paused {policy:?}"),
            Self::KindPaused { kind, policy: None } => write!(f, "kind {kind} resumed"),
            Self::SlotPut(slot) => {
                write!(
                    f,
                    "slot {} {:?}{}{}{}",
                    slot.name,
                    slot.scope,
                    slot.rate.map(|rate| format!(" {rate}")).unwrap_or_default(),
                    if slot.paused.is_some() { " paused" } else { "" },
                    if slot.throttled_until.is_some() { " throttled" } else { "" }
                )
            }
            Self::SlotRemoved(slot) => write!(f, "slot {slot} removed"),
            Self::TenantPut { tenant, policy } => write!(f, "tenant {tenant} put weight={}", policy.weight),
            Self::TenantRemoved(tenant) => write!(f, "tenant {tenant} removed"),
            Self::CronPut(entry) => {
                write!(f, "cron {} put {} {}", entry.name, entry.policy.when, entry.policy.zone)
            }
            Self::CronRemoved(entry) => write!(f, "cron {entry} removed"),
            Self::CronPaused { entry, pause: Some(pause) } => {
                write!(f, "cron {entry} paused by {}", pause.by)
            }
            Self::CronPaused { entry, pause: None } => write!(f, "cron {entry} resumed"),
            Self::CronFired { entry, instant: Some(_), job } => write!(f, "cron {entry} fired {job}"),
            Self::CronFired { entry, instant: None, job } => write!(f, "cron {entry} run by hand {job}"),
            Self::CronMissed { entry, missed } => {
                write!(f, "cron {entry} missed {} {}: {}", missed.count, missed.reason, missed.message)
            }
            Self::WebhookPut(webhook) => write!(f, "webhook {} put", webhook.name),
            Self::WebhookRemoved(webhook) => write!(f, "webhook {webhook} removed"),
            Self::WebhookGone { webhook, gone: Some(_) } => write!(f, "webhook {webhook} gone"),
            Self::WebhookGone { webhook, gone: None } => write!(f, "webhook {webhook} resumed"),
            Self::DeliveryAdded(new) => {
                let delivery = &new.delivery;
                write!(f, "delivery {} to {} of {}", delivery.id, delivery.webhook, delivery.about.event())
            }
            Self::DeliveryChanged(delivery) => {
                let state = match delivery.state {
                    DeliveryState::Waiting { .. } => "waits",
                    DeliveryState::Failed { .. } => "failed",
                };
                write!(f, "delivery {} {state} tries={}", delivery.id, delivery.tries)
            }
            Self::DeliveryRemoved { delivery, arrived, .. } => {
                write!(f, "delivery {delivery} {}", if *arrived { "arrived" } else { "forgotten" })
            }
            Self::DeliveryDropped { webhook, about } => {
                write!(f, "delivery to {webhook} of {} dropped", about.event())
            }
            Self::CronPlanned(plan) => write!(f, "cron {} planned {}", plan.entry, plan.instants.len()),
            Self::CronUnplanned(entry) => write!(f, "cron {entry} to be planned"),
            Self::Enqueued(job) => write!(f, "enqueued {} {}", job.id, job.state.name()),
            Self::Ready(job) => write!(f, "ready {job}"),
            Self::Granted { lease, .. } => {
                write!(f, "granted {} -> {} token={}", lease.job, lease.node, lease.token)
            }
            Self::AttemptEnded(end) => write!(
                f,
                "ended {} token={} {}{} ({}) -> {}",
                end.job,
                end.token,
                if end.partial { "partial " } else { "" },
                end.outcome.name(),
                end.cause,
                end.next.name()
            ),
            Self::LossReplaced(end) => write!(
                f,
                "loss replaced {} token={} {} -> {}",
                end.job,
                end.token,
                end.outcome.name(),
                end.next.name()
            ),
            Self::CancelRequested { job, .. } => write!(f, "cancel requested {job}"),
            Self::WaitOver(job) => write!(f, "wait of {job} over"),
            Self::Ended { job, state, .. } => write!(f, "ended {job} -> {}", state.name()),
            Self::Requeued(job) => write!(f, "requeued {} round={}", job.id, job.round),
            Self::Reprioritized { job, priority } => write!(f, "reprioritized {job} {priority}"),
            Self::Unblocked(job) => write!(f, "unblocked {job}"),
            Self::WorkflowSubmitted(workflow) => {
                write!(f, "workflow {} submitted members={}", workflow.id, workflow.shape.size())
            }
            Self::WorkflowOpened { workflow, gate, opened } => write!(
                f,
                "gate {gate} of workflow {workflow} opened{} without {:?}",
                if opened.partial { " partial" } else { "" },
                opened.missing
            ),
            Self::WorkflowCancelRequested { workflow, .. } => {
                write!(f, "cancel requested workflow {workflow}")
            }
            Self::WorkflowEnded { workflow, state, reason } => {
                let why = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
                write!(f, "workflow {workflow} -> {}{why}", state.name())
            }
            Self::WorkflowRequeued(workflow) => {
                write!(f, "requeued workflow {} round={}", workflow.id, workflow.round)
            }
            Self::WorkflowDeleted(workflow) => write!(f, "deleted workflow {workflow}"),
            Self::Deleted(job) => write!(f, "deleted {job}"),
            Self::Checkpointed { job, token, size } => {
                write!(f, "checkpoint of {job} token={token} bytes={size}")
            }
            Self::ResultDropped { job, token } => write!(f, "result dropped {job} token={token}"),
            Self::Parked { job, token, parked } => {
                let yielded = parked.yielded.node.with(&parked.yielded.fleet);
                let what = if yielded.is_empty() { "nothing".to_owned() } else { yielded.to_string() };
                write!(f, "parked {job} token={token} wait={} gives back {what}", parked.epoch)
            }
            Self::Unparked { job, token, verdict } => {
                write!(f, "unparked {job} token={token} {}", verdict.name())
            }
            Self::Wants(token) => write!(f, "lease {token} wants back what it gave"),
            Self::LeaseUnreaped(token) => write!(f, "lease {token} unreaped"),
            Self::LeaseGone(token) => write!(f, "lease {token} gone"),
            Self::SlotsFreed(token) => write!(f, "slots of {token} freed"),
            Self::LeaseOrphaned(token) => write!(f, "lease {token} orphaned"),
            Self::NodePut(node) => write!(
                f,
                "node {} put{}{}",
                node.name,
                if node.cordoned { " cordoned" } else { "" },
                if node.draining.is_some() { " draining" } else { "" }
            ),
            Self::NodeForgotten(node) => write!(f, "node {node} forgotten"),
            Self::SessionOpened { node, session, .. } => write!(f, "session {session} of {node} opened"),
            Self::SessionClosed { node } => write!(f, "session of {node} closed"),
            Self::NodeHeard { node, .. } => write!(f, "heard {node}"),
            Self::NodeSuspected(node) => write!(f, "suspect {node}"),
            Self::NodeLeaving(node) => write!(f, "leaving {node}"),
            Self::NodePressed { node, pressure } => {
                write!(f, "pressure {node} generation={}", pressure.generation)?;
                for closed in &pressure.closed {
                    write!(f, " {}={}", closed.group, closed.rule)?;
                }
                Ok(())
            }
            Self::SessionBlocked { node, blocked } => write!(f, "session of {node} blocked={blocked}"),
            Self::MessageSent { node } => write!(f, "sent to {node}"),
            Self::Phased { token, phase, .. } => write!(f, "lease {token} {phase:?}"),
            // Its message is the job's own, and a line per transition is logged.
            Self::Progressed { token, percent, message: _ } => {
                write!(f, "lease {token} gets on: {percent} %")
            }
            Self::Renewed { token, .. } => write!(f, "renewed {token}"),
            Self::Spared { token, fallen, .. } => {
                write!(f, "spared {token}: {} of {} nodes fell silent at once", fallen.silent, fallen.of)
            }
            Self::Revoked { token, reason } => write!(f, "revoked {token} {}", reason.name()),
            Self::NotThrottled { token, slot } => write!(f, "slot {slot} not throttled by {token}"),
            Self::BudgetTurned(kind) => write!(f, "budget of {kind} turned"),
            Self::Refilled(slot) => write!(f, "refilled {slot}"),
            Self::Deferred { class, job, reason } => {
                write!(f, "deferred {class} at {job} {}: {reason}", reason.name())
            }
            Self::Masked { node, class, rule, .. } => write!(f, "masked {class} on {node} ({rule})"),
            Self::Unmasked { node, class } => write!(f, "unmasked {class} on {node}"),
            Self::Struck { node, kind, job, until: None } => write!(f, "struck {node} {kind} by {job}"),
            Self::Struck { node, kind, job, until: Some(_) } => {
                write!(f, "struck {node} {kind} by {job}, backs off")
            }
            Self::BackoffOver { node, kind, forgotten } => {
                write!(f, "back-off of {node} for {kind} over{}", if *forgotten { ", forgotten" } else { "" })
            }
            Self::Earmarked(earmark) => write!(f, "earmarked {earmark}"),
            Self::EarmarkDropped { job, node, why, holder: _ } => {
                write!(f, "earmark dropped of {job} on {node}: {}", why.name())
            }
            Self::SetAside(job) => write!(f, "set aside {job}"),
            Self::CronSetAside(entry) => write!(f, "cron {entry} set aside"),
            Self::WarmedUp => f.write_str("warmed up"),
            Self::TimelinesSaved(classes) => write!(f, "saved {} timelines", classes.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::FencingToken;

    #[test]
    fn what_a_job_says_of_itself_is_in_no_line() {
        let token = FencingToken(7);
        let event = Event::Progressed { token, percent: 40, message: "of Jane Doe".into() };
        assert_eq!(event.to_string(), format!("lease {token} gets on: 40 %"));
    }
}
