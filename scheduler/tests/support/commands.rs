//! Script lines that become commands with many fields.

use std::{sync::Arc, time::Duration};

use tenure_scheduler::{
    BeginWait, Command, ConcurrencyKey, CounterName, DedupeKey, Detach, Enqueue, FencingToken, Fingerprint,
    Finish, FinishedHow, JobId, KindName, LeaseName, NodeName, Now, OnParent, Preferences, Prior, Producer,
    ProducerLimits, Return, SlotName, Statement, Tenant, Throttled, Usage, WaitPolicy,
};

use super::words::{Line, duration};

/// `enqueue J kind=K …`. The fingerprint is that of kind, `payload` and key.
pub(crate) fn enqueue(line: &Line, job: JobId, parent: Option<JobId>, now: Now) -> Command {
    let kind = line.get("kind").expect("kind=");
    let key = line.get("key");
    let text = format!("{kind}|{}|{}", line.get("payload").unwrap_or_default(), key.unwrap_or_default());
    let mut fingerprint = [0; 32];
    fingerprint.iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from);
    Command::Enqueue(Box::new(Enqueue {
        job,
        producer: Producer::new(line.get("producer").unwrap_or("p")),
        tenant: line.get("tenant").map(Tenant::new),
        default_tenant: Tenant::new("default"),
        kind: KindName::new(kind),
        fingerprint: Fingerprint(fingerprint),
        payload_size: 0,
        dedupe_key: key.map(DedupeKey::new),
        concurrency_key: line.get("ckey").map(ConcurrencyKey::new),
        priority: line.number("priority"),
        run_at: line.duration("run_at").map(|after| now.wall.after(after)),
        delay: line.duration("delay"),
        stale_after: line.duration("stale_after"),
        labels: Default::default(),
        selector: line.selector("selector"),
        prefer: Preferences::new(line.requirements("prefer")),
        needs: line.needs("needs"),
        hard_time_limit: line.duration("hard"),
        soft_time_limit: line.duration("soft"),
        parent,
        on_parent_cancel: on_parent(line.get("on_cancel").unwrap_or("cancel")),
        on_parent_lost: on_parent(line.get("on_lost").unwrap_or("keep")),
        lease: None,
        trace: None,
        limits: ProducerLimits {
            tenants: line.get("may").map(|names| names.split(',').map(Tenant::new).collect()),
            max_priority: line.number("most"),
        },
        prior: Prior::default(),
    }))
}

/// The reports of one line; `run` and `done` are two.
pub(crate) fn statements(line: &Line) -> Vec<Statement> {
    let started = Statement::Started { elapsed: line.duration("elapsed").unwrap_or_default() };
    match line.verb.as_str() {
        "accepted" => vec![Statement::Accepted],
        "started" => vec![started],
        "run" => vec![Statement::Accepted, started],
        "progress" => vec![Statement::Progress {
            percent: line.number("percent").unwrap_or(0),
            message: line.get("message").unwrap_or_default().into(),
        }],
        "checkpoint" => vec![Statement::Checkpoint { size: line.number("saved").unwrap_or(1) }],
        "reaped" => vec![Statement::Reaped],
        "done" => vec![Statement::Finished(finish(line, "ok")), Statement::Reaped],
        "finish" => vec![Statement::Finished(finish(line, line.name(1)))],
        _ => vec![Statement::Returned(Return {
            rule: line.get("rule").unwrap_or("headroom").into(),
            observed: line.number("observed").unwrap_or(0.0),
            threshold: line.number("threshold").unwrap_or(0.0),
            generation: line.number("generation").unwrap_or(0),
            retry_after: line.duration("retry_after"),
            started: line.has("started"),
            usage: usage(line),
            has_result: line.has("result"),
            checkpoint: line.number("saved"),
        })],
    }
}

fn finish(line: &Line, how: &str) -> Finish {
    let exit_code = line.number("code");
    let (how, cause) = match how {
        "ok" => (FinishedHow::Succeeded, "exit"),
        "fail" => (FinishedHow::Failed, "exit"),
        "permanent" => (FinishedHow::FailedPermanent, "exit"),
        "timeout" => (FinishedHow::TimedOut, "limit"),
        "stalled" => (FinishedHow::Stalled, "stalled"),
        "revoked" => (FinishedHow::Revoked, "revoked"),
        "lost" => (FinishedHow::Lost, "shim_died"),
        "detached" => (FinishedHow::Detached, "exit"),
        other => panic!("ended how? {other}"),
    };
    let error: Arc<str> = line.get("error").unwrap_or_default().into();
    let retry_after: Option<Duration> = line.duration("retry_after");
    let throttled = line.get("throttled").map(|said| {
        let (slot, length) = said.split_once(':').expect("slot:time");
        Throttled { slot: SlotName::new(slot), retry_after: duration(length) }
    });
    let has_result = line.has("result");
    let usage = usage(line);
    Finish {
        how,
        exit_code,
        cause: cause.into(),
        error,
        retry_after,
        throttled,
        usage,
        has_result,
        partial: line.has("partial"),
        checkpoint: line.number("saved"),
        detach: None,
    }
}

fn on_parent(word: &str) -> OnParent {
    match word {
        "cancel" => OnParent::Cancel,
        "keep" => OnParent::Keep,
        other => panic!("cancel or keep, not {other}"),
    }
}

/// `detach J children=a,b policy=any max_wait=1m same state`: exit code 79, with a wait file.
pub(crate) fn detached(line: &Line, children: Vec<JobId>) -> Statement {
    let detach = Detach {
        children,
        policy: wait_policy(line),
        max_wait: line.duration("max_wait"),
        same_node: line.has("same"),
        prior: Vec::new(),
    };
    Statement::Finished(Finish {
        exit_code: Some(79),
        has_result: line.has("state"),
        detach: Some(Box::new(detach)),
        ..Finish::new(FinishedHow::Detached)
    })
}

/// `park J children=a,b policy=any max_wait=1m`.
pub(crate) fn begin_wait(
    line: &Line,
    (node, job, token): (NodeName, JobId, FencingToken),
    wait_epoch: u64,
    children: Vec<JobId>,
) -> Command {
    let (policy, max_wait) = (wait_policy(line), line.duration("max_wait"));
    let prior = Vec::new();
    Command::BeginWait(Box::new(BeginWait {
        lease: LeaseName { node, job, token },
        wait_epoch,
        children,
        policy,
        max_wait,
        prior,
    }))
}

/// `policy=all`, the default, `any`, `failure`, or how many.
fn wait_policy(line: &Line) -> WaitPolicy {
    match line.get("policy") {
        None | Some("all") => WaitPolicy::All,
        Some("any") => WaitPolicy::Any,
        Some("failure") => WaitPolicy::FirstFailure,
        Some(number) => WaitPolicy::AtLeast(number.parse().expect("a number")),
    }
}

/// `usage=tokens:5,calls:1`.
fn usage(line: &Line) -> Usage {
    let used = line.list("usage").into_iter().map(|text| {
        let (counter, amount) = text.split_once(':').expect("counter:amount");
        (CounterName::new(counter), amount.parse().unwrap())
    });
    used.collect()
}
