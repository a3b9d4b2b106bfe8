//! The agent's words in the protocol's messages, and back: the only file of the session that knows both.
//!
//! Responsible for conversion and for refusing what a server cannot mean. Not responsible for what it means.

use std::time::Duration;

use prost_types::Duration as WireDuration;
use tenure_proto::node::v1::{
    self as wire, Accepted, HeldLease, HostInfo, LeasePhase, PressureReading, Reaped, RenewedLease, Report,
    Returned, RevokeReason, StoredAnswer, UnstoredReport, report::Event,
};

use crate::clock::Mono;
use crate::holdings::{
    End, FencingToken, Listed, Phase, Return, Statement, StopReason, Terms, Verdict, WaitVerdict,
};
use crate::host::Host;
use crate::own_rule::OwnRule;
use crate::pressure::rules::Reading;
use crate::workers::Room;

/// The longest job id: a UUID in its text form, with room to spare.
const LONGEST_JOB: usize = 64;

/// A message of the server that cannot be meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Senseless {
    /// A field that must be there is absent or out of range.
    #[error("{message}.{field} is absent or out of range")]
    Field {
        /// Which message.
        message: &'static str,
        /// Which field.
        field: &'static str,
    },
}

/// A group that this agent closes itself: its spool takes no more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SpoolFull {
    /// Bytes in use.
    pub(super) used: u64,
    /// The bound.
    pub(super) max: u64,
    /// Since when.
    pub(super) since: Mono,
}

pub(super) fn duration(length: Duration) -> Option<WireDuration> {
    length.try_into().ok()
}

/// A duration of the wire; negative ones are absent.
pub(super) fn length(field: Option<WireDuration>) -> Option<Duration> {
    field.and_then(|length| length.try_into().ok())
}

/// A lease that is held. To a server that may not know of parked ones it is started, and its wait says the rest to one that
/// does.
pub(super) fn held(listed: Listed, older: bool) -> HeldLease {
    let phase = match listed.phase {
        Phase::Granted => LeasePhase::Granted,
        Phase::Accepted | Phase::Starting => LeasePhase::Accepted,
        Phase::Started { .. } if listed.parked_in.is_some() && !older => LeasePhase::Parked,
        Phase::Started { .. } => LeasePhase::Started,
        Phase::Stopping { .. } => LeasePhase::Stopping,
        Phase::Finished { .. } => LeasePhase::Finished,
        Phase::Unkillable { .. } => LeasePhase::Unkillable,
    };
    HeldLease {
        job_id: listed.job,
        token: listed.token.0,
        phase: phase.into(),
        elapsed: duration(listed.elapsed),
        wait_epoch: listed.parked_in.unwrap_or(0),
    }
}

pub(super) fn unstored((token, job_id): (FencingToken, String)) -> UnstoredReport {
    UnstoredReport { job_id, token: token.0 }
}

pub(super) fn host(host: &Host) -> HostInfo {
    HostInfo {
        cpus: host.cpus,
        memory_bytes: host.memory_bytes,
        disk_free_bytes: host.disk_free_bytes,
        os: host.os.to_owned(),
        arch: host.arch.to_owned(),
        containment: host.containment.to_owned(),
    }
}

/// The reading of the rules, and the group that a full spool closes.
pub(super) fn pressure(reading: &Reading, now: Mono, spool: Option<SpoolFull>) -> PressureReading {
    let closed = reading.closed.iter().map(|closed| wire::ClosedGroup {
        refuse: closed.group.to_string(),
        rule: closed.rule.clone(),
        signal: closed.signal.to_string(),
        observed: closed.observed,
        threshold: closed.threshold,
        closed_for: duration(now.since(closed.since)),
    });
    let full = spool.map(|spool| wire::ClosedGroup {
        refuse: "*".to_owned(),
        rule: OwnRule::SpoolFull.to_string(),
        signal: "spool.used".to_owned(),
        observed: lossy(spool.used),
        threshold: lossy(spool.max),
        closed_for: duration(now.since(spool.since)),
    });
    PressureReading {
        generation: reading.generation,
        closed: closed.chain(full).collect(),
        caps: reading.caps.clone(),
        weight: reading.weight,
        unknown_signals: reading.unknown_signals.clone(),
    }
}

/// The groups that are closed since no worker takes an attempt of their kind.
pub(super) fn without_workers(room: &Room, now: Mono) -> Vec<wire::ClosedGroup> {
    let closed = room.closed.iter().map(|(kind, &since)| wire::ClosedGroup {
        refuse: format!("kind:{kind}"),
        rule: OwnRule::Worker.to_string(),
        signal: "workers.room".to_owned(),
        observed: 0.0,
        threshold: 1.0,
        closed_for: duration(now.since(since)),
    });
    closed.collect()
}

/// A statement whose bytes stand on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OnDisk {
    /// The whole report, in the spool.
    Spooled(FencingToken),
    /// The checkpoint of this job, in the directory of the attempt.
    Checkpoint(String, FencingToken),
}

/// The report that brings a checkpoint.
pub(super) fn checkpoint(job_id: String, token: FencingToken, bytes: Vec<u8>) -> Report {
    Report { job_id, token: token.0, event: Some(Event::Checkpoint(wire::Checkpoint { data: bytes.into() })) }
}

/// A statement as a report, unless its bytes are to be read first.
pub(super) fn report(statement: Statement) -> Result<Report, OnDisk> {
    let (job_id, token, event) = match statement {
        Statement::Spooled { token } => return Err(OnDisk::Spooled(token)),
        Statement::Checkpoint { job, token } => return Err(OnDisk::Checkpoint(job, token)),
        Statement::Accepted { job, token } => (job, token, Event::Accepted(Accepted {})),
        Statement::Started { job, token, elapsed } => {
            (job, token, Event::Started(wire::Started { elapsed: duration(elapsed) }))
        }
        Statement::Returned { job, token, give_back } => (job, token, Event::Returned(returned(give_back))),
        Statement::Progress { job, token, percent, message } => {
            (job, token, Event::Progress(wire::Progress { percent, message }))
        }
        Statement::Reaped { job, token } => (job, token, Event::Reaped(Reaped {})),
    };
    Ok(Report { job_id, token: token.0, event: Some(event) })
}

fn returned(give_back: Return) -> Returned {
    Returned {
        rule: give_back.rule,
        observed: give_back.observed,
        threshold: give_back.threshold,
        generation: give_back.generation,
        retry_after: give_back.retry_after.and_then(duration),
        started: false,
        usage: std::collections::BTreeMap::new(),
        checkpoint: None,
        result: None,
    }
}

/// What a grant says, without its payload.
pub(super) fn terms(grant: &wire::Grant) -> Result<Terms, Senseless> {
    let senseless = |field| Senseless::Field { message: "Grant", field };
    let positive = |field: Option<WireDuration>, name| {
        length(field).filter(|length| !length.is_zero()).ok_or_else(|| senseless(name))
    };
    if grant.token == 0 {
        return Err(senseless("token"));
    }
    let job = &grant.job_id;
    if job.is_empty() || job.len() > LONGEST_JOB || !job.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(senseless("job_id"));
    }
    Ok(Terms {
        job: job.clone(),
        token: FencingToken(grant.token),
        kind: grant.kind.clone(),
        slots: grant.slots.clone(),
        lease: positive(grant.lease, "lease")?,
        first_lease: positive(grant.first_lease, "first_lease")?,
        start_window: positive(grant.start_window, "start_window")?,
        stale_in: length(grant.stale_in),
    })
}

/// Renewals; a lease without a length is not renewed.
pub(super) fn renewals(renewed: &[RenewedLease]) -> Vec<(FencingToken, Duration)> {
    renewed.iter().filter_map(|lease| Some((FencingToken(lease.token), length(lease.lease)?))).collect()
}

pub(super) fn stop_reason(reason: RevokeReason) -> StopReason {
    match reason {
        RevokeReason::Unspecified | RevokeReason::NotLive => StopReason::NotLive,
        RevokeReason::Cancelled => StopReason::Cancelled,
        RevokeReason::Unanswered => StopReason::Unanswered,
        RevokeReason::Drained => StopReason::Drained,
    }
}

/// What a process that waited does.
pub(super) fn verdict(verdict: wire::ResumeVerdict) -> WaitVerdict {
    match verdict {
        wire::ResumeVerdict::Go => WaitVerdict::Go,
        wire::ResumeVerdict::MustDetach | wire::ResumeVerdict::Unspecified => WaitVerdict::MustDetach,
    }
}

/// An answer about an end. None: it is about a report that is not kept, or of an unknown verdict.
pub(super) fn answer(answer: &StoredAnswer) -> Option<(FencingToken, End, Verdict)> {
    let end = match answer.report() {
        wire::ReportKind::Finished => End::Finished,
        wire::ReportKind::Returned => End::Returned,
        wire::ReportKind::Reaped | wire::ReportKind::Unspecified => return None,
    };
    let verdict = match answer.verdict() {
        wire::StoredVerdict::Stored | wire::StoredVerdict::LeaseLost => Verdict::Done,
        wire::StoredVerdict::Broken => Verdict::Broken,
        wire::StoredVerdict::Unspecified => return None,
    };
    Some((FencingToken(answer.token), end, verdict))
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people; f64 is exact up to 8 PiB")]
fn lossy(bytes: u64) -> f64 {
    bytes as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant() -> wire::Grant {
        let seconds = |seconds| duration(Duration::from_secs(seconds));
        wire::Grant {
            job_id: "0190".to_owned(),
            token: 1 << 40 | 3,
            kind: "qa".to_owned(),
            lease: seconds(60),
            first_lease: seconds(20),
            start_window: seconds(10),
            ..wire::Grant::default()
        }
    }

    #[test]
    fn a_grant_without_sense_is_refused_with_its_field() {
        assert_eq!(terms(&grant()).unwrap().token.epoch(), 1);
        let field = |grant: &wire::Grant| match terms(grant).unwrap_err() {
            Senseless::Field { field, .. } => field,
        };
        assert_eq!(field(&wire::Grant { token: 0, ..grant() }), "token");
        assert_eq!(field(&wire::Grant { lease: None, ..grant() }), "lease");
        assert_eq!(field(&wire::Grant { job_id: "a/../b c".to_owned(), ..grant() }), "job_id");
        let negative = Some(WireDuration { seconds: -1, nanos: 0 });
        assert_eq!(field(&wire::Grant { start_window: negative, ..grant() }), "start_window");
    }

    #[test]
    fn a_parked_lease_is_started_to_who_may_not_know_better_and_names_its_wait_to_all() {
        let listed = |parked_in| Listed {
            job: "0190".to_owned(),
            token: FencingToken(7),
            phase: Phase::Started { at: Mono::ZERO },
            elapsed: Duration::ZERO,
            parked_in,
        };
        let said = |parked_in, older| {
            let held = held(listed(parked_in), older);
            (held.phase(), held.wait_epoch)
        };
        assert_eq!(said(Some(3), false), (LeasePhase::Parked, 3));
        assert_eq!(said(Some(3), true), (LeasePhase::Started, 3));
        assert_eq!(said(None, true), (LeasePhase::Started, 0));
    }

    #[test]
    fn a_full_spool_is_a_closed_group() {
        let reading = Reading { generation: 4, ..Reading::default() };
        let open = pressure(&reading, Mono::ZERO, None);
        assert_eq!((open.generation, open.closed.len()), (4, 0));
        let full = SpoolFull { used: 10, max: 8, since: Mono::ZERO };
        let closed = pressure(&reading, Mono::from_micros(3_000_000), Some(full));
        assert_eq!((closed.generation, closed.closed[0].rule.as_str()), (4, "spool_full"));
        assert_eq!(length(closed.closed[0].closed_for), Some(Duration::from_secs(3)));
    }
}
