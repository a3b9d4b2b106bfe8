//! What a script prints: events, messages and views, each as one line for people.

use std::{collections::BTreeMap, fmt::Write as _};

use tenure_scheduler::{
    ChildEnd, ClosedGroup, Effect, Event, Grant, Group, JobId, KindHealth, KindName, Message, Now, Pressure,
    Refusal, Reply, SlotName, Stored, Verdict,
};

use super::{words::Line, world::World};

/// Events that every trace shows; the rest is shown on demand, by the word beside.
pub(crate) fn event(
    event: &Event,
    classes: &BTreeMap<String, String>,
    shown: &[String],
    now: Now,
) -> Option<String> {
    let shows = |word: &str| shown.iter().any(|shown| shown == word);
    let kind = |class: &dyn ToString| classes.get(&class.to_string()).cloned().unwrap_or_default();
    let text = match event {
        Event::Deferred { job, reason, .. } => format!("deferred {job} {}: {reason}", reason.name()),
        Event::Masked { node, class, rule, .. } => format!("masked {} on {node} ({rule})", kind(class)),
        Event::Unmasked { node, class } => format!("unmasked {} on {node}", kind(class)),
        Event::Struck { until: None, .. } | Event::BackoffOver { .. } if !shows("struck") => return None,
        Event::Struck { node, kind, until: Some(until), .. } => {
            format!("{node} backs off {kind} for {:?}", until.since(now.mono))
        }
        Event::Struck { .. } | Event::BackoffOver { .. } => event.to_string(),
        Event::Renewed { token, expires } if shows("renewed") => {
            format!("renewed {token} for {:?}", expires.since(now.mono))
        }
        Event::Phased { .. } | Event::NodePressed { .. } if shows("phased") => event.to_string(),
        Event::Enqueued(_) if shows("enqueued") => event.to_string(),
        Event::SlotPut(_) if shows("slots") => event.to_string(),
        Event::Earmarked(earmark) => format!("{event} within {:?}", earmark.by.since(now.mono)),
        Event::AttemptEnded(end) | Event::LossReplaced(end) => {
            let reason = end.reason.as_ref().map(|reason| format!(" [{reason}]")).unwrap_or_default();
            format!("{event}{reason}")
        }
        Event::Ended { reason, .. } => format!("{event} [{reason}]"),
        Event::WorkflowSubmitted(_) if shows("enqueued") => event.to_string(),
        Event::Unblocked(_)
        | Event::WorkflowOpened { .. }
        | Event::WorkflowCancelRequested { .. }
        | Event::WorkflowEnded { .. }
        | Event::WorkflowRequeued(_)
        | Event::WorkflowDeleted(_)
        | Event::Ready(_)
        | Event::Granted { .. }
        | Event::CancelRequested { .. }
        | Event::WaitOver(_)
        | Event::Parked { .. }
        | Event::Unparked { .. }
        | Event::Wants(_)
        | Event::Requeued(_)
        | Event::Reprioritized { .. }
        | Event::Deleted(_)
        | Event::Checkpointed { .. }
        | Event::ResultDropped { .. }
        | Event::LeaseUnreaped(_)
        | Event::LeaseGone(_)
        | Event::SlotsFreed(_)
        | Event::LeaseOrphaned(_)
        | Event::NodeForgotten(_)
        | Event::CronRemoved(_)
        | Event::CronPaused { .. }
        | Event::CronFired { .. }
        | Event::CronMissed { .. }
        | Event::WebhookGone { .. }
        | Event::DeliveryAdded(_)
        | Event::DeliveryChanged(_)
        | Event::DeliveryRemoved { .. }
        | Event::DeliveryDropped { .. }
        | Event::NodeSuspected(_)
        | Event::NodeLeaving(_)
        | Event::Spared { .. }
        | Event::Revoked { .. }
        | Event::EarmarkDropped { .. }
        | Event::SetAside(_)
        | Event::CronSetAside(_)
        | Event::NotThrottled { .. } => event.to_string(),
        Event::KindPut(_)
        | Event::KindRemoved(_)
        | Event::KindPaused { .. }
        | Event::SlotPut(_)
        | Event::SlotRemoved(_)
        | Event::TenantPut { .. }
        | Event::TenantRemoved(_)
        | Event::CronPut(_)
        | Event::WebhookPut(_)
        | Event::WebhookRemoved(_)
        | Event::CronPlanned(_)
        | Event::CronUnplanned(_)
        | Event::Enqueued(_)
        | Event::WorkflowSubmitted(_)
        | Event::NodePut(_)
        | Event::SessionOpened { .. }
        | Event::SessionClosed { .. }
        | Event::NodeHeard { .. }
        | Event::NodePressed { .. }
        | Event::SessionBlocked { .. }
        | Event::MessageSent { .. }
        | Event::Phased { .. }
        | Event::Progressed { .. }
        | Event::Renewed { .. }
        | Event::Refilled(_)
        | Event::BudgetTurned(_)
        | Event::WarmedUp
        | Event::TimelinesSaved(_) => return None,
    };
    Some(text)
}

/// Messages to nodes are shown after `show messages`; refused reports and closed streams always.
pub(crate) fn effect(effect: &Effect, shown: &[String]) -> Option<String> {
    let all = shown.iter().any(|word| word == "messages");
    match effect {
        Effect::Send { node, message, applied, .. } => match message {
            Message::Stored(Stored { token, report, verdict: Verdict::LeaseLost(cause), job_state }) => {
                let state = job_state.unwrap_or("no such job");
                Some(format!("{node} < {report:?} {token} LEASE_LOST {} ({state})", cause.name()))
            }
            Message::Stored(stored) if all => Some(format!(
                "{node} < {:?} {} {:?} ({})",
                stored.report,
                stored.token,
                stored.verdict,
                stored.job_state.unwrap_or("no such job")
            )),
            Message::Grant(grant) if shown.iter().any(|word| word == "resumes") => resume(grant),
            Message::Resume { token, wait_epoch, verdict } => {
                Some(format!("{node} < resume {token} wait={wait_epoch} {}", verdict.name()))
            }
            message if all => Some(format!("{node} < {}", self::message(message, *applied))),
            Message::Welcome { .. }
            | Message::Grant(_)
            | Message::Renewed { .. }
            | Message::Revoke { .. }
            | Message::Stored(_)
            | Message::Drain { .. }
            | Message::Configure { .. } => None,
        },
        Effect::CloseSession { node, session, reason } => {
            Some(format!("session {session} of {node} is closed: {reason}"))
        }
        Effect::Reply(_)
        | Effect::NotifyWatchers { .. }
        | Effect::NotifyWorkflow { .. }
        | Effect::NotifyOutbox => None,
    }
}

/// What a grant goes on from.
fn resume(grant: &Grant) -> Option<String> {
    let resume = grant.resume.as_ref()?;
    let state = if resume.has_state { " with its state" } else { "" };
    let mut text = format!("{} {} resumes from {}{state}:", grant.job, grant.token, resume.token);
    for child in &resume.children {
        write!(text, " {} {}", child.job, child.end.map_or("open", ChildEnd::name)).unwrap();
    }
    Some(text)
}

fn message(message: &Message, applied: u64) -> String {
    let leases = |leases: &[(tenure_scheduler::FencingToken, std::time::Duration)]| {
        leases.iter().fold(String::new(), |mut text, (token, length)| {
            write!(text, " {token} for {length:?}").unwrap();
            text
        })
    };
    match message {
        Message::Welcome { epoch, heartbeat_interval, anchor, renewed, warnings } => {
            let mut text = format!("welcome epoch={epoch} every={heartbeat_interval:?} anchor={anchor}");
            text += &leases(renewed);
            warnings.iter().for_each(|warning| write!(text, "; {warning}").unwrap());
            text
        }
        Message::Grant(grant) => format!(
            "grant {} {} attempt={} lease={:?} first={:?} window={:?} hard={:?}{} stale_in={:?} anchor={applied}",
            grant.job,
            grant.token,
            grant.attempt,
            grant.lease,
            grant.first_lease,
            grant.start_window,
            grant.hard_time_limit,
            limits(grant),
            grant.stale_in
        ),
        Message::Renewed { anchor, leases: renewed } => format!("renewed anchor={anchor}{}", leases(renewed)),
        Message::Revoke { leases } => {
            let each = leases.iter().map(|(token, reason)| format!("{token} {}", reason.name()));
            format!("revoke {}", each.collect::<Vec<_>>().join(", "))
        }
        Message::Stored(stored) => format!("{stored:?}"),
        Message::Resume { token, wait_epoch, verdict } => {
            format!("resume {token} wait={wait_epoch} {}", verdict.name())
        }
        Message::Drain { deadline: Some(deadline) } => format!("drain within {deadline:?}"),
        Message::Drain { deadline: None } => "drain over".to_owned(),
        Message::Configure { heartbeat_interval } => format!("configure every={heartbeat_interval:?}"),
    }
}

/// What is worth a line of an answer: duplicates, and verbs that changed nothing.
pub(crate) fn reply(reply: &Reply) -> Option<String> {
    match reply {
        Reply::Enqueued { job, deduplicated: true } => {
            Some(format!("deduplicated -> {} {}", job.id, job.state.name()))
        }
        Reply::Job { changed: false, job } => Some(format!("unchanged {}", job.state.name())),
        Reply::Kind { changed: false, .. }
        | Reply::Slot { changed: false, .. }
        | Reply::Cron { changed: false, .. }
        | Reply::Delivery { changed: false, .. }
        | Reply::Webhook { changed: false, .. }
        | Reply::Node { changed: false, .. } => Some("unchanged".into()),
        Reply::Wait { answer, .. } => Some(format!("wait: {answer:?}")),
        Reply::Forgotten { ended, .. } if *ended > 0 => Some(format!("held {ended} leases")),
        Reply::Swept { jobs, results, workflows: 0 } => Some(format!("swept {jobs} jobs, {results} results")),
        Reply::Swept { jobs, results, workflows } => {
            Some(format!("swept {jobs} jobs, {results} results, {workflows} workflows"))
        }
        Reply::Workflow { changed: false, workflow } => Some(format!("unchanged {}", workflow.state.name())),
        Reply::Applied { .. }
        | Reply::Enqueued { .. }
        | Reply::Job { .. }
        | Reply::Workflow { .. }
        | Reply::Deleted { .. }
        | Reply::Kind { .. }
        | Reply::Slot { .. }
        | Reply::Cron { .. }
        | Reply::Node { .. }
        | Reply::Settled
        | Reply::Delivery { .. }
        | Reply::Webhook { .. }
        | Reply::Forgotten { .. } => None,
    }
}

/// A refusal with what helps: near names, what is short, when to come back.
pub(crate) fn refusal(refusal: &Refusal) -> String {
    let mut text = format!("{}: {refusal}", refusal.reason());
    if let Refusal::KindNotFound { nearest, .. } = refusal
        && !nearest.is_empty()
    {
        write!(text, ", near {nearest:?}").unwrap();
    } else if let Refusal::SlotNotFound { nearest, .. } = refusal {
        write!(text, ", near {nearest:?}").unwrap();
    } else if let Refusal::CronNotFound { nearest, .. } = refusal {
        write!(text, ", near {nearest:?}").unwrap();
    } else if let Refusal::WebhookNotFound { nearest, .. } = refusal {
        write!(text, ", near {nearest:?}").unwrap();
    } else if let Refusal::NodeNotFound { nearest, .. } = refusal {
        write!(text, ", near {nearest:?}").unwrap();
    } else if let Refusal::ImpossibleNeeds { short } = refusal {
        short.iter().for_each(|s| write!(text, "; {} {} of {}", s.slot, s.asked, s.most).unwrap());
    }
    if let Some(after) = refusal.retry_after() {
        write!(text, ", retry after {after:?}").unwrap();
    }
    text
}

/// `job`, `attempts`, `why`, `explain` and `groups`.
pub(crate) fn query(world: &World, verb: &str, name: &str, id: JobId) -> String {
    let now = world.now();
    match verb {
        "job" => job(world, name, id),
        "attempts" => attempts(world, name, id),
        "why" => {
            let Some(view) = world.state.live_view(now, id).and_then(|view| view.deferral) else {
                return format!("{name} does not wait");
            };
            let mut text = format!(
                "{name} waits: {} {} for {:?}, tried {}",
                view.reason.name(),
                view.reason,
                now.wall.since(view.since),
                view.count
            );
            for wait in &view.history {
                write!(
                    text,
                    "\n  {} {}: {} times, {:?}",
                    wait.reason, wait.message, wait.count, wait.duration
                )
                .unwrap();
            }
            text
        }
        "groups" => super::explained::groups(world, name, id),
        _ => super::explained::explain(world, name, id),
    }
}

fn job(world: &World, name: &str, id: JobId) -> String {
    let Some(job) = world.state.job(id).cloned().or(world.store.job(id).map(|job| *job)) else {
        return format!("{name} is not stored");
    };
    let mut text = format!("{name} {} round={} attempt={}", job.state.name(), job.round, job.attempt());
    let counters = [("failures", job.failures), ("losses", job.losses), ("returns", job.returns)];
    counters.iter().filter(|(_, n)| *n > 0).for_each(|(word, n)| write!(text, " {word}={n}").unwrap());
    if job.priority != 0 {
        write!(text, " priority={}", job.priority).unwrap();
    }
    if let Some(reason) = &job.reason {
        write!(text, " [{reason}]").unwrap();
    }
    for wait in &job.waits {
        write!(text, "\n  waited {}: {} times, {:?}", wait.message, wait.count, wait.duration).unwrap();
    }
    text
}

fn attempts(world: &World, name: &str, id: JobId) -> String {
    let rows = world.store.attempts.values().filter(|row| row.job == id);
    let lines = rows.map(|row| {
        let code = row.exit_code.map(|code| format!(" exit={code}")).unwrap_or_default();
        let mut used: String = row.usage.iter().map(|(counter, used)| format!(" {counter}={used}")).collect();
        used += if row.partial { " partial" } else { "" };
        used += &row.checkpoint_size.map(|size| format!(" saved={size}")).unwrap_or_default();
        format!(
            "{name} round={} attempt={} {} on {}: {} {}{code}{used} {}",
            row.round,
            row.attempt,
            row.token,
            row.node,
            row.outcome.name(),
            row.cause,
            row.error
        )
    });
    lines.map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

pub(crate) fn health(health: &KindHealth) -> String {
    let mut text = format!(
        "{} {:?} depth={} scheduled={} running={} able={}",
        health.kind, health.signal, health.depth, health.scheduled, health.running, health.nodes_able
    );
    if let Some(age) = health.oldest_age {
        write!(text, " oldest={age:?}").unwrap();
    }
    health.dead_by_day.iter().for_each(|(_, dead)| write!(text, " dead={dead}").unwrap());
    if let Some(head) = &health.head {
        write!(text, " head: {head}").unwrap();
    }
    text
}

/// `close=*:rule:5:3` (repeated by `;`), `caps=s:1`, `weight=2`.
pub(crate) fn pressure(line: &Line) -> Pressure {
    let closed = |text: &str| {
        let parts: Vec<&str> = text.split(':').collect();
        let (group, rest) = match parts[..] {
            ["slot", slot, ..] => (Group::Slot(SlotName::new(slot)), &parts[2..]),
            ["kind", kind, ..] => (Group::Kind(KindName::new(kind)), &parts[2..]),
            _ => (Group::All, &parts[1..]),
        };
        ClosedGroup {
            group,
            rule: rest[0].into(),
            signal: "procs.used".into(),
            observed: rest.get(1).map_or(0.0, |text| text.parse().unwrap()),
            threshold: rest.get(2).map_or(0.0, |text| text.parse().unwrap()),
            closed_for: std::time::Duration::ZERO,
        }
    };
    Pressure {
        generation: 0,
        closed: line.get("close").into_iter().flat_map(|text| text.split(';')).map(closed).collect(),
        caps: line.amounts("caps").unwrap_or_default().into_iter().collect(),
        weight: line.number("weight").unwrap_or(1),
    }
}

/// Those of its limits that few grants have.
fn limits(grant: &tenure_scheduler::Grant) -> String {
    let mut text = String::new();
    if let Some(soft) = grant.soft_time_limit {
        write!(text, " soft={soft:?}").unwrap();
    }
    if let Some(silence) = grant.progress_timeout {
        write!(text, " silence={silence:?}").unwrap();
    }
    text
}
