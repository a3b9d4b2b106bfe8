//! Between the words of the session's wire and those of the scheduler, both ways; the twin of `convert.rs`.
//!
//! Responsible for refusing what a node may not say, every mistake of a message at once, before any of it becomes a
//! command; of a list only up to its first bad entry, so that the answer stays short. Not for order and sequence
//! numbers (`sessions/inbound.rs`), nor for what it means (the scheduler's). What goes out is in `out`.
//! Invariant: whatever a node sends ends in commands within their bounds or in violations, never in a panic.

mod logs;
mod out;
mod uploaded;
mod waits;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tenure_proto::limits;
use tenure_proto::node::v1 as wire;
use tenure_scheduler::{
    ClosedGroup, Command, CounterName, FencingToken, Finish, FinishedHow, Group, Heartbeat, Held, Hello,
    Host, JobId, KindName, MOST_COUNTERS, MOST_USAGE, NodeName, Ordinal, Phase, Pressure, Report, ReportKind,
    Return, SessionId, SlotName, Statement, Stored, Throttled, Usage, Verdict, bounded_text,
};
use tenure_store::ResultBytes;

use self::uploaded::offloaded;
pub(crate) use self::{
    out::server_message,
    uploaded::{uploaded, uploaded_out},
    waits::{Terms, lease, lease_at, terms},
};
use super::{
    check::{ANY_LENGTH, Checks},
    status::No,
};
use crate::sessions::Carried;

/// Leases that one node may list: a heartbeat stays under 1 MiB.
const MOST_HELD: usize = 10_000;

/// Ended leases that one node may have in its spool.
const MOST_UNSTORED: usize = 50_000;

/// Labels and slots of a node.
const MOST_ENTRIES: usize = 64;

/// Kinds of a node.
const MOST_KINDS: usize = 1000;

/// Closed groups of a node.
const MOST_CLOSED: usize = 256;

/// Unanswered grants of a node. A node that asks for more gets this many.
const MOST_CREDITS: u32 = 128;

/// What a node that names none gets.
const DEFAULT_CREDITS: u32 = 16;

/// Rules, signals, causes and the like.
const MOST_WORD: usize = 128;

/// The longest back-off that a job may ask for.
const LONGEST_RETRY: Duration = Duration::from_secs(24 * 3600);

/// What the server tells every node at the begin of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Reconnect no sooner than this.
    pub(crate) reconnect_min: Duration,
    /// Reconnect no later than this.
    pub(crate) reconnect_max: Duration,
    /// Results above this are not taken, in bytes.
    pub(crate) max_result_bytes: usize,
    /// Results above that and up to this are taken by UploadResult, in bytes. 0: none.
    pub(crate) max_uploaded_result_bytes: u64,
}

/// Where a message came from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct From<'a> {
    pub(crate) node: &'a NodeName,
    pub(crate) session: SessionId,
    /// Of the message.
    pub(crate) seq: u64,
    /// What the node has applied.
    pub(crate) seen: Ordinal,
}

/// One thing that a node said.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time, and nearly all of them are commands")]
pub(crate) enum Said {
    /// For the scheduler, with the bytes that travel beside.
    Command(Command, Carried),
    /// A spooled report that cannot be taken: it is answered BROKEN, so that the node sets it aside and goes on. Ending the
    /// session would only bring it back with the next one, and take the node's other work down with it.
    Broken(Stored),
}

/// The first message of a stream.
///
/// # Errors
/// Every mistake in it.
pub(crate) fn hello(session: SessionId, seq: u64, hello: wire::Hello) -> Result<Hello, No> {
    let mut checks = Checks::default();
    if hello.protocol != tenure_proto::SESSION_PROTOCOL {
        checks.refuse(
            "hello.protocol",
            format!("is {}, this server speaks {}", hello.protocol, tenure_proto::SESSION_PROTOCOL),
        );
    }
    let node = checks.name("hello.node_name", &hello.node_name, NodeName::parse);
    let instance = required(&mut checks, "hello.instance", &hello.instance, 64);
    let boot_id = required(&mut checks, "hello.boot_id", &hello.boot_id, 64);
    if hello.stream == 0 {
        checks.refuse("hello.stream", "counts from 1");
    }
    for (field, number) in [("hello.incarnation", hello.incarnation), ("hello.stream", hello.stream)] {
        if i64::try_from(number).is_err() {
            checks.refuse(field, "is out of range");
        }
    }
    let labels = checks.labels("hello.labels", &hello.labels, MOST_ENTRIES);
    let slots = amounts(&mut checks, "hello.slots", &hello.slots);
    if hello.kinds.len() > MOST_KINDS {
        checks.refuse(
            "hello.kinds",
            format!("holds {} entries, at most {MOST_KINDS} are allowed", hello.kinds.len()),
        );
    }
    let mut kinds: Vec<KindName> = Vec::new();
    for (i, kind) in hello.kinds.iter().enumerate().take(MOST_KINDS) {
        if !checks.is_clean() {
            break;
        }
        kinds.extend(checks.name(&format!("hello.kinds[{i}]"), kind, KindName::parse));
    }
    kinds.sort_unstable();
    kinds.dedup();
    let host = host(&mut checks, hello.host.unwrap_or_default());
    let pressure = pressure(&mut checks, "hello.pressure", hello.pressure.unwrap_or_default());
    let held = held(&mut checks, "hello.held", &hello.held);
    let unstored = unstored(&mut checks, &hello.unstored);
    let agent_version = checks.text("hello.agent_version", &hello.agent_version, 64).unwrap_or_default();
    let credits = if hello.credits == 0 { DEFAULT_CREDITS } else { hello.credits.min(MOST_CREDITS) };
    checks.finish()?;
    let Some(node) = node else { return Err(No::internal()) }; // the checks would have said so
    Ok(Hello {
        node,
        session,
        seq,
        instance,
        boot_id,
        incarnation: hello.incarnation,
        stream: hello.stream,
        labels,
        slots,
        kinds,
        host,
        agent_version,
        inputs: hello.features.iter().any(|feature| feature == tenure_proto::INPUTS_FEATURE),
        pressure,
        max_epoch_seen: hello.max_epoch_seen,
        held,
        unstored,
        credits,
    })
}

/// Any later message, as what it says, in order.
///
/// # Errors
/// Every mistake in it.
pub(crate) fn said(
    from: From<'_>,
    body: Option<wire::node_message::Body>,
    most: usize,
) -> Result<Vec<Said>, No> {
    use wire::node_message::Body;
    let From { node, session, seq, seen } = from;
    let mut checks = Checks::default();
    let said = match body {
        None => {
            checks.refuse("body", "is required; a newer agent may say what this server does not know");
            Vec::new()
        }
        Some(Body::Hello(_)) => {
            checks.refuse("hello", "must be the first message of a stream, and the only one");
            Vec::new()
        }
        Some(Body::Heartbeat(heartbeat)) => {
            let held = held(&mut checks, "heartbeat.held", &heartbeat.held);
            let pressure =
                pressure(&mut checks, "heartbeat.pressure", heartbeat.pressure.unwrap_or_default());
            let heartbeat = Heartbeat { node: node.clone(), session, seq, seen, held, pressure };
            vec![Said::Command(Command::Heartbeat(Box::new(heartbeat)), Carried::default())]
        }
        Some(Body::Reports(reports)) => reports_said(&mut checks, from, reports.reports, most),
        Some(Body::Draining(draining)) => {
            checks.duration("draining.deadline", draining.deadline.as_ref(), ANY_LENGTH);
            let node = node.clone();
            vec![Said::Command(
                Command::NodeDraining { node, session, seq, seen, restart: draining.restart },
                Carried::default(),
            )]
        }
    };
    checks.finish()?;
    Ok(said)
}

fn required(checks: &mut Checks, field: &str, text: &str, most: usize) -> Arc<str> {
    if text.is_empty() {
        checks.refuse(field, "is required");
    }
    checks.text(field, text, most).unwrap_or_default()
}

fn amounts(
    checks: &mut Checks,
    field: &str,
    amounts: &std::collections::BTreeMap<String, u32>,
) -> std::collections::BTreeMap<SlotName, u32> {
    if amounts.len() > MOST_ENTRIES {
        checks.refuse(field, format!("holds {} entries, at most {MOST_ENTRIES} are allowed", amounts.len()));
        return std::collections::BTreeMap::new();
    }
    let mut named = std::collections::BTreeMap::new();
    for (name, &units) in amounts {
        // The name may be anything, so that it is shown escaped and cut.
        let shown: String = name.chars().take(63).collect();
        let path = format!("{field}[{shown:?}]");
        if units > limits::SLOT_UNITS {
            checks.refuse(&path, format!("must be at most {most}", most = limits::SLOT_UNITS));
        }
        named.extend(checks.name(&path, name, SlotName::parse).map(|name| (name, units)));
    }
    named
}

fn host(checks: &mut Checks, host: wire::HostInfo) -> Host {
    let mut word = |field, text: &str| checks.text(field, text, MOST_WORD).unwrap_or_default();
    Host {
        cpus: host.cpus,
        memory_bytes: host.memory_bytes,
        disk_free_bytes: host.disk_free_bytes,
        os: word("hello.host.os", &host.os),
        arch: word("hello.host.arch", &host.arch),
        containment: word("hello.host.containment", &host.containment),
    }
}

fn pressure(checks: &mut Checks, field: &str, reading: wire::PressureReading) -> Pressure {
    if reading.closed.len() > MOST_CLOSED {
        checks.refuse(
            format!("{field}.closed"),
            format!("holds {} entries, at most {MOST_CLOSED} are allowed", reading.closed.len()),
        );
    }
    let mut closed = Vec::new();
    for (i, group) in reading.closed.into_iter().enumerate().take(MOST_CLOSED) {
        if !checks.is_clean() {
            break;
        }
        closed.extend(closed_group(checks, &format!("{field}.closed[{i}]"), &group));
    }
    let caps = amounts(checks, &format!("{field}.caps"), &reading.caps);
    let weight = match reading.weight {
        0 | 1 => 1,
        2 => 2,
        3 => 3,
        _ => {
            checks.refuse(format!("{field}.weight"), "must be 1 to 3");
            1
        }
    };
    Pressure { generation: reading.generation, closed, caps, weight }
}

fn closed_group(checks: &mut Checks, field: &str, closed: &wire::ClosedGroup) -> Option<ClosedGroup> {
    let refuse = format!("{field}.refuse");
    let group = match closed.refuse.split_once(':') {
        None if closed.refuse == "*" => Some(Group::All),
        Some(("slot", name)) => checks.name(&refuse, name, SlotName::parse).map(Group::Slot),
        Some(("kind", name)) => checks.name(&refuse, name, KindName::parse).map(Group::Kind),
        None | Some(_) => {
            checks.refuse(refuse, "must be *, slot:NAME or kind:NAME");
            None
        }
    };
    let rule = required(checks, &format!("{field}.rule"), &closed.rule, MOST_WORD);
    let signal = checks.text(&format!("{field}.signal"), &closed.signal, MOST_WORD).unwrap_or_default();
    let observed = number(checks, &format!("{field}.observed"), closed.observed);
    let threshold = number(checks, &format!("{field}.threshold"), closed.threshold);
    let closed_for = checks
        .duration(&format!("{field}.closed_for"), closed.closed_for.as_ref(), ANY_LENGTH)
        .unwrap_or_default();
    Some(ClosedGroup { group: group?, rule, signal, observed, threshold, closed_for })
}

fn number(checks: &mut Checks, field: &str, number: f64) -> f64 {
    if !number.is_finite() {
        checks.refuse(field, "is no number");
        return 0.0;
    }
    number
}

fn token(checks: &mut Checks, field: &str, token: u64) -> FencingToken {
    if token == 0 || i64::try_from(token).is_err() {
        checks.refuse(field, "is no fencing token");
    }
    FencingToken(token)
}

fn held(checks: &mut Checks, field: &str, held: &[wire::HeldLease]) -> Vec<Held> {
    if held.len() > MOST_HELD {
        checks.refuse(field, format!("holds {} entries, at most {MOST_HELD} are allowed", held.len()));
        return Vec::new();
    }
    let mut all = Vec::with_capacity(held.len());
    for (i, lease) in held.iter().enumerate() {
        if !checks.is_clean() {
            break;
        }
        let job = checks.job_id(&format!("{field}[{i}].job_id"), &lease.job_id);
        let token = token(checks, &format!("{field}[{i}].token"), lease.token);
        // A Hello does not know yet whether who reads it knows of parked leases: it says STARTED, and which wait.
        let phase = match phase(lease.phase) {
            Some(Phase::Started) if lease.wait_epoch > 0 => Some(Phase::Parked),
            other => other,
        };
        if phase.is_none() {
            checks.refuse(format!("{field}[{i}].phase"), format!("{} is unknown", lease.phase));
        }
        let elapsed = checks.duration(&format!("{field}[{i}].elapsed"), lease.elapsed.as_ref(), ANY_LENGTH);
        if let (Some(job), Some(phase)) = (job, phase) {
            let wait_epoch = (phase == Phase::Parked).then_some(lease.wait_epoch);
            let elapsed = elapsed.unwrap_or_default();
            all.push(Held { job, token, phase, elapsed, wait_epoch });
        }
    }
    let mut tokens: Vec<FencingToken> = all.iter().map(|held| held.token).collect();
    tokens.sort_unstable();
    if tokens.windows(2).any(|pair| pair.first() == pair.last()) {
        checks.refuse(field, "lists a token twice");
    }
    all
}

fn phase(phase: i32) -> Option<Phase> {
    match wire::LeasePhase::try_from(phase).ok()? {
        wire::LeasePhase::Unspecified => None,
        wire::LeasePhase::Granted => Some(Phase::Granted),
        wire::LeasePhase::Accepted => Some(Phase::Accepted),
        wire::LeasePhase::Started => Some(Phase::Started),
        wire::LeasePhase::Parked => Some(Phase::Parked),
        wire::LeasePhase::Stopping => Some(Phase::Stopping),
        wire::LeasePhase::Finished => Some(Phase::Finished),
        wire::LeasePhase::Unkillable => Some(Phase::Unkillable),
    }
}

fn unstored(checks: &mut Checks, unstored: &[wire::UnstoredReport]) -> Vec<(JobId, FencingToken)> {
    const FIELD: &str = "hello.unstored";
    if unstored.len() > MOST_UNSTORED {
        checks
            .refuse(FIELD, format!("holds {} entries, at most {MOST_UNSTORED} are allowed", unstored.len()));
        return Vec::new();
    }
    let mut all = Vec::with_capacity(unstored.len());
    for (i, report) in unstored.iter().enumerate() {
        if !checks.is_clean() {
            break;
        }
        let token = token(checks, &format!("{FIELD}[{i}].token"), report.token);
        all.extend(checks.job_id(&format!("{FIELD}[{i}].job_id"), &report.job_id).map(|job| (job, token)));
    }
    all
}

fn reports_said(checks: &mut Checks, from: From<'_>, reports: Vec<wire::Report>, most: usize) -> Vec<Said> {
    let mut all = Vec::with_capacity(reports.len());
    for (i, report) in reports.into_iter().enumerate() {
        if !checks.is_clean() {
            break;
        }
        all.extend(report_said(checks, from, &format!("reports.reports[{i}]"), report, most));
    }
    // The message is applied with the last of its reports.
    let last = all.iter_mut().rev().find_map(|said| match said {
        Said::Command(Command::Report(report), _) => Some(report),
        Said::Command(..) | Said::Broken(_) => None,
    });
    if let Some(last) = last {
        last.seq = Some(from.seq);
    }
    all
}

fn report_said(
    checks: &mut Checks,
    from: From<'_>,
    field: &str,
    report: wire::Report,
    most: usize,
) -> Option<Said> {
    use wire::report::Event;
    let job = checks.job_id(&format!("{field}.job_id"), &report.job_id);
    let token = token(checks, &format!("{field}.token"), report.token);
    let mut carried = Carried::default();
    let statement = match report.event {
        None => {
            checks.refuse(format!("{field}.event"), "is required");
            None
        }
        Some(Event::Accepted(_)) => Some(Statement::Accepted),
        Some(Event::Started(started)) => {
            let field = format!("{field}.started.elapsed");
            let elapsed = checks.duration(&field, started.elapsed.as_ref(), ANY_LENGTH).unwrap_or_default();
            Some(Statement::Started { elapsed })
        }
        Some(Event::Progress(progress)) => {
            if progress.percent > 100 {
                checks.refuse(format!("{field}.progress.percent"), "must be 0 to 100");
            }
            let message = checks.text(&format!("{field}.progress.message"), &progress.message, 1024);
            let percent = u8::try_from(progress.percent.min(100)).unwrap_or(100);
            Some(Statement::Progress { percent, message: message.unwrap_or_default() })
        }
        Some(Event::Checkpoint(saved)) => {
            carried.checkpoint = checkpoint(from, token, Some(saved));
            // One that is not kept says at least that the job runs.
            let size = carried.checkpoint.as_ref().map(size_of_checkpoint);
            let runs = Statement::Started { elapsed: Duration::ZERO };
            Some(size.map_or(runs, |size| Statement::Checkpoint { size }))
        }
        Some(Event::Finished(mut finished)) => {
            carried.checkpoint = checkpoint(from, token, finished.checkpoint.take());
            carried.log = finished.log_tail.take().map(logs::tail);
            let result = finished.result.take();
            let mut own = Checks::default();
            inline(&mut own, &format!("{field}.finished.result"), result.as_ref(), most);
            let offloaded = offloaded(&mut own, &format!("{field}.finished"), &finished, result.is_some());
            let has_result = result.is_some() || offloaded.is_some();
            carried.result = offloaded.or_else(|| result.map(result_bytes));
            let finish = finish(&mut own, &format!("{field}.finished"), &finished, has_result);
            if !own.is_clean() {
                return broken(from, token, ReportKind::Finished, &own);
            }
            let checkpoint = carried.checkpoint.as_ref().map(size_of_checkpoint);
            finish.map(|finish| Statement::Finished(Finish { checkpoint, ..finish }))
        }
        Some(Event::Reaped(_)) => Some(Statement::Reaped),
        Some(Event::Returned(mut returned)) => {
            carried.checkpoint = checkpoint(from, token, returned.checkpoint.take());
            let checkpoint = carried.checkpoint.as_ref().map(size_of_checkpoint);
            let result = returned.result.take();
            let has_result = result.is_some();
            let mut own = Checks::default();
            inline(&mut own, &format!("{field}.returned.result"), result.as_ref(), most);
            carried.result = result.map(result_bytes);
            let returned = given_back(&mut own, &format!("{field}.returned"), &returned);
            if !own.is_clean() {
                return broken(from, token, ReportKind::Returned, &own);
            }
            Some(Statement::Returned(Return { checkpoint, has_result, ..returned }))
        }
    };
    let report = Report {
        node: from.node.clone(),
        session: from.session,
        seq: None,
        seen: from.seen,
        job: job?,
        token,
        statement: statement?,
        prior: None,
    };
    Some(Said::Command(Command::Report(Box::new(report)), carried))
}

/// Whether a result that travels in a report may.
fn inline(checks: &mut Checks, field: &str, result: Option<&wire::ResultBytes>, most: usize) {
    let Some(bytes) = result else { return };
    checks.text(&format!("{field}.content_type"), &bytes.content_type, 255);
    if bytes.data.len() > most {
        checks.refuse(format!("{field}.data"), format!("is over the limit of {most} bytes"));
    }
}

fn result_bytes(inline: wire::ResultBytes) -> ResultBytes {
    ResultBytes { data: inline.data, content_type: inline.content_type, object: None }
}

/// A mistake inside a report that stands in the node's spool: what it says is lost, and the node's other work is not. A
/// token that is none ends the session all the same, so that nobody hears this answer.
fn broken(from: From<'_>, token: FencingToken, report: ReportKind, mistakes: &Checks) -> Option<Said> {
    tracing::warn!(
        node.id = %from.node,
        lease.token = %token,
        mistakes = %mistakes,
        "a report cannot be taken; it is answered BROKEN"
    );
    Some(Said::Broken(Stored { token, report, verdict: Verdict::Broken, job_state: None }))
}

/// A checkpoint within the limit. One over it is dropped: the one before it, and all else of the report, is of more use
/// than a session that ends.
fn checkpoint(from: From<'_>, token: FencingToken, saved: Option<wire::Checkpoint>) -> Option<Bytes> {
    let data = saved?.data;
    if data.len() > limits::INLINE_BYTES {
        tracing::warn!(
            node.id = %from.node,
            lease.token = %token,
            bytes = data.len(),
            limit = limits::INLINE_BYTES,
            "a checkpoint is over the limit; it is not kept"
        );
        return None;
    }
    Some(data)
}

fn size_of_checkpoint(data: &Bytes) -> u64 {
    u64::try_from(data.len()).unwrap_or(u64::MAX)
}

fn finish(checks: &mut Checks, field: &str, finished: &wire::Finished, has_result: bool) -> Option<Finish> {
    let how = match wire::FinishedOutcome::try_from(finished.outcome) {
        Ok(wire::FinishedOutcome::Succeeded) => Some(FinishedHow::Succeeded),
        Ok(wire::FinishedOutcome::Failed) => Some(FinishedHow::Failed),
        Ok(wire::FinishedOutcome::FailedPermanent) => Some(FinishedHow::FailedPermanent),
        Ok(wire::FinishedOutcome::TimedOut) => Some(FinishedHow::TimedOut),
        Ok(wire::FinishedOutcome::Revoked) => Some(FinishedHow::Revoked),
        Ok(wire::FinishedOutcome::Lost) => Some(FinishedHow::Lost),
        Ok(wire::FinishedOutcome::Stalled) => Some(FinishedHow::Stalled),
        Ok(wire::FinishedOutcome::Detached) => Some(FinishedHow::Detached),
        Ok(wire::FinishedOutcome::Unspecified) | Err(_) => {
            checks.refuse(format!("{field}.outcome"), format!("{} is unknown", finished.outcome));
            None
        }
    };
    let cause = checks.text(&format!("{field}.cause"), &finished.cause, MOST_WORD).unwrap_or_default();
    let retry_after =
        checks.duration(&format!("{field}.retry_after"), finished.retry_after.as_ref(), ANY_LENGTH);
    checks.duration(&format!("{field}.ran_for"), finished.ran_for.as_ref(), ANY_LENGTH);
    let throttled = finished.throttled.as_ref().and_then(|said| throttled(checks, field, said));
    let usage = usage(checks, &format!("{field}.usage"), &finished.usage);
    let detach = finished.detach.as_ref().and_then(|detach| waits::detach(checks, field, detach));
    if how == Some(FinishedHow::Detached) && finished.detach.is_none() {
        checks.refuse(format!("{field}.detach"), "is required of one that detached");
    }
    // Agents cut it; what is longer is cut here. NUL would be refused by a database.
    let error = match finished.signal {
        Some(signal) if finished.error.is_empty() => format!("ended by signal {signal}").into(),
        Some(_) | None => bounded_text(&finished.error.replace('\0', "\u{fffd}")),
    };
    Some(Finish {
        how: how?,
        exit_code: finished.exit_code,
        cause,
        error,
        retry_after: retry_after.map(|after| after.min(LONGEST_RETRY)),
        throttled,
        usage,
        has_result,
        detach: detach.map(Box::new),
        partial: finished.partial,
        checkpoint: None,
    })
}

/// What the job says that it used.
fn usage(checks: &mut Checks, field: &str, used: &std::collections::BTreeMap<String, u64>) -> Usage {
    if used.len() > MOST_COUNTERS {
        checks.refuse(field, format!("holds {} counters, at most {MOST_COUNTERS}", used.len()));
        return Usage::new();
    }
    let mut usage = Usage::new();
    for (counter, amount) in used {
        let place = format!("{field}[{counter:?}]");
        if *amount > MOST_USAGE {
            checks.refuse(place, format!("is above {MOST_USAGE}"));
        } else if let Some(counter) = checks.name(&place, counter, CounterName::parse) {
            usage.insert(counter, *amount);
        }
    }
    usage
}

/// How long is too long or too short is the scheduler's to say.
fn throttled(checks: &mut Checks, field: &str, said: &wire::Throttled) -> Option<Throttled> {
    let field = format!("{field}.throttled");
    let slot = checks.name(&format!("{field}.slot"), &said.slot, SlotName::parse);
    let retry_after = checks.duration(&format!("{field}.retry_after"), said.retry_after.as_ref(), ANY_LENGTH);
    Some(Throttled { slot: slot?, retry_after: retry_after.unwrap_or_default() })
}

fn given_back(checks: &mut Checks, field: &str, returned: &wire::Returned) -> Return {
    Return {
        rule: required(checks, &format!("{field}.rule"), &returned.rule, MOST_WORD),
        observed: number(checks, &format!("{field}.observed"), returned.observed),
        threshold: number(checks, &format!("{field}.threshold"), returned.threshold),
        generation: returned.generation,
        retry_after: checks
            .duration(&format!("{field}.retry_after"), returned.retry_after.as_ref(), ANY_LENGTH)
            .map(|after| after.min(LONGEST_RETRY)),
        started: returned.started,
        usage: usage(checks, &format!("{field}.usage"), &returned.usage),
        has_result: false,
        checkpoint: None,
    }
}

#[cfg(test)]
mod tests;
