//! What the scheduler says to a node, in the words of the wire.

use std::time::Duration;

use tenure_proto::limits;
use tenure_proto::node::v1 as wire;
use tenure_scheduler::{
    FencingToken, Grant, Message, ReportKind, RevokeReason, Stored, Verdict, WaitVerdict,
};

use super::Settings;
use crate::{
    rpc::convert::duration,
    sessions::{Body, Frame, Joined},
};

/// One message of the scheduler for the wire.
pub(crate) fn server_message(seq: u64, frame: Frame, settings: &Settings) -> wire::ServerMessage {
    use wire::server_message::Body as Out;
    let Frame { applied, body } = frame;
    let body = match body {
        Body::Grants(grants) => Out::Grants(wire::Grants {
            anchor_seq: applied,
            grants: grants.into_iter().map(|(grant, joined)| grant_out(*grant, joined)).collect(),
        }),
        Body::Stored(answers) => {
            Out::Stored(wire::Stored { answers: answers.into_iter().map(stored_out).collect() })
        }
        Body::WantLog(want) => Out::WantLog(wire::WantLog {
            job_id: want.job.to_string(),
            token: want.token.0,
            want_id: want.id,
            stream: want.stream.into(),
            place: want.place,
            tail_lines: want.tail_lines,
            follow: want.follow,
        }),
        Body::Alone(message) => match message {
            Message::Welcome { epoch, heartbeat_interval, anchor, renewed, warnings } => {
                Out::Welcome(wire::Welcome {
                    epoch: epoch.0,
                    heartbeat_interval: Some(duration(heartbeat_interval)),
                    anchor_seq: anchor,
                    renewed: renewed.into_iter().map(renewed_out).collect(),
                    reconnect_min: Some(duration(settings.reconnect_min)),
                    reconnect_max: Some(duration(settings.reconnect_max)),
                    warnings,
                    max_result_bytes: u64::try_from(settings.max_result_bytes).unwrap_or(u64::MAX),
                    max_checkpoint_bytes: u64::try_from(limits::INLINE_BYTES).unwrap_or(u64::MAX),
                    max_uploaded_result_bytes: settings.max_uploaded_result_bytes,
                })
            }
            Message::Renewed { anchor, leases } => Out::Renewed(wire::Renewed {
                anchor_seq: anchor,
                leases: leases.into_iter().map(renewed_out).collect(),
            }),
            Message::Revoke { leases } => {
                Out::Revoke(wire::Revoke { leases: leases.into_iter().map(revoked_out).collect() })
            }
            Message::Drain { deadline } => Out::Drain(wire::Drain { deadline: deadline.map(duration) }),
            Message::Resume { token, wait_epoch, verdict } => Out::Resume(wire::Resume {
                token: token.0,
                wait_epoch,
                verdict: match verdict {
                    WaitVerdict::Go => wire::ResumeVerdict::Go,
                    WaitVerdict::MustDetach => wire::ResumeVerdict::MustDetach,
                }
                .into(),
            }),
            Message::Configure { heartbeat_interval } => Out::Configure(wire::Configure {
                heartbeat_interval: Some(duration(heartbeat_interval)),
                credits_ceiling: 0,
            }),
            // The assembly puts them into the bodies above; alone they mean the same.
            Message::Grant(grant) => Out::Grants(wire::Grants {
                anchor_seq: applied,
                grants: vec![grant_out(*grant, Joined::default())],
            }),
            Message::Stored(stored) => Out::Stored(wire::Stored { answers: vec![stored_out(stored)] }),
        },
    };
    wire::ServerMessage { seq, seen: applied, body: Some(body) }
}

fn grant_out(grant: Grant, joined: Joined) -> wire::Grant {
    let Joined { payload, left } = joined;
    let trace = grant.trace.as_deref();
    wire::Grant {
        job_id: grant.job.to_string(),
        token: grant.token.0,
        kind: grant.kind.to_string(),
        attempt: grant.attempt,
        lease: Some(duration(grant.lease)),
        first_lease: Some(duration(grant.first_lease)),
        start_window: Some(duration(grant.start_window)),
        hard_time_limit: Some(duration(grant.hard_time_limit)),
        stale_in: grant.stale_in.map(duration),
        slots: grant.slots.iter().map(|(slot, amount)| (slot.to_string(), amount)).collect(),
        payload: payload.data,
        content_type: payload.content_type,
        idempotency_key: grant.idempotency_key,
        parent_id: grant.parent.map(|parent| parent.to_string()).unwrap_or_default(),
        traceparent: trace.map(|trace| trace.parent.to_string()).unwrap_or_default(),
        tracestate: trace.and_then(|trace| trace.state.as_deref()).unwrap_or_default().to_owned(),
        tenant: grant.tenant.to_string(),
        soft_time_limit: grant.soft_time_limit.map(duration),
        progress_timeout: grant.progress_timeout.map(duration),
        checkpoint: left.checkpoint.map(|data| wire::Checkpoint { data }),
        partial: left
            .partial
            .map(|result| wire::ResultBytes { data: result.data, content_type: result.content_type }),
        input_results: grant
            .resume
            .map(|resume| u32::try_from(resume.children.len()).unwrap_or(u32::MAX))
            .or(grant.inputs),
    }
}

fn renewed_out((token, length): (FencingToken, Duration)) -> wire::RenewedLease {
    wire::RenewedLease { token: token.0, lease: Some(duration(length)) }
}

fn revoked_out((token, reason): (FencingToken, RevokeReason)) -> wire::RevokedLease {
    let reason = match reason {
        RevokeReason::NotLive => wire::RevokeReason::NotLive,
        RevokeReason::Cancelled => wire::RevokeReason::Cancelled,
        RevokeReason::Unanswered => wire::RevokeReason::Unanswered,
        RevokeReason::Drained => wire::RevokeReason::Drained,
    };
    wire::RevokedLease { token: token.0, reason: reason.into() }
}

fn stored_out(stored: Stored) -> wire::StoredAnswer {
    let report = match stored.report {
        ReportKind::Finished => wire::ReportKind::Finished,
        ReportKind::Returned => wire::ReportKind::Returned,
        ReportKind::Reaped => wire::ReportKind::Reaped,
    };
    let (verdict, cause) = match stored.verdict {
        Verdict::Stored => (wire::StoredVerdict::Stored, ""),
        Verdict::LeaseLost(cause) => (wire::StoredVerdict::LeaseLost, cause.name()),
        Verdict::Broken => (wire::StoredVerdict::Broken, ""),
    };
    wire::StoredAnswer {
        token: stored.token.0,
        report: report.into(),
        verdict: verdict.into(),
        cause: cause.to_owned(),
        job_state: stored.job_state.unwrap_or_default().to_owned(),
    }
}
