//! Parking: a process stays and waits, and its lease gives back what it does not keep.
//!
//! Responsible for asking the server until it has answered, and for the end of a wait, which comes by the session. It goes
//! on whether or not the command is still there to hear of it, and under the next agent. Not responsible for what is free
//! meanwhile (`holdings`).
//!
//! Invariant: a wait is asked for under one number until its answer is known: the server takes that for one call.

use std::sync::Arc;
use std::time::Duration;

use tenure_proto::node::v1::{BeginWaitRequest, BeginWaitResponse, WaitAnswer, WaitTerms};
use tokio::sync::watch;
use tonic::Status;
use tonic_types::StatusExt as _;

use super::calls::is_away;
use super::desk::Desk;
use super::heard;
use super::said::{Stand, Terms, Wait};
use crate::holdings::WaitVerdict;
use crate::runner::Orders;

/// Between two tries to ask a server that is away: at first, and at the most.
const AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// Sees to the waits of an attempt, one after the other. Never returns while the attempt lives.
pub(super) async fn drive(desk: Arc<Desk>) {
    let mut waits = desk.waits();
    let mut orders = desk.orders();
    loop {
        let open = waits.wait_for(|wait| wait.as_ref().is_some_and(Wait::is_open)).await;
        let Some(wait) = open.ok().and_then(|wait| wait.clone()) else { return };
        let epoch = wait.epoch;
        let stand = match &wait.stand {
            Stand::Parked { kept } => {
                // An earlier agent's, too: the session is told what its lease holds.
                desk.tell_waiting(epoch, Some(kept.clone())).await;
                desk.pause(true);
                let verdict = resumed(&mut orders, epoch).await;
                if verdict == WaitVerdict::MustDetach {
                    desk.must_detach();
                }
                desk.pause(false);
                let kept = (verdict == WaitVerdict::MustDetach).then(|| kept.clone());
                Stand::Over { verdict, kept }
            }
            Stand::Asked | Stand::Over { .. } | Stand::Refused { .. } => {
                // Its command stands still, and its run clock does not before the server says so.
                let _heard = heard::while_asked(&desk);
                desk.tell_waiting(epoch, None).await;
                tokio::select! {
                    // Both only ask; the server takes the same number for the same wait.
                    verdict = resumed(&mut orders, epoch) => {
                        if verdict == WaitVerdict::MustDetach {
                            desk.must_detach();
                        }
                        Stand::Over { verdict, kept: None }
                    }
                    answer = ask(&desk, &wait) => answer,
                }
            }
        };
        desk.stands(epoch, stand.clone()).await;
        match stand {
            Stand::Over { verdict, kept } => desk.tell_over(epoch, verdict, kept).await,
            Stand::Refused { .. } => desk.tell_over(epoch, WaitVerdict::Go, None).await,
            Stand::Asked | Stand::Parked { .. } => {}
        }
    }
}

/// Waits for the end of a wait, as the session reads it.
async fn resumed(orders: &mut watch::Receiver<Orders>, epoch: u64) -> WaitVerdict {
    let told = orders.wait_for(|orders| orders.resumed.is_some_and(|(which, _)| which == epoch)).await;
    match told.ok().and_then(|orders| orders.resumed) {
        Some((_, verdict)) => verdict,
        // Nobody gives orders any more.
        None => std::future::pending().await,
    }
}

/// Asks the server, again and again while it is away.
async fn ask(desk: &Desk, wait: &Wait) -> Stand {
    let (mut pause, mut repeated) = (AGAIN.0, false);
    loop {
        let request =
            BeginWaitRequest { lease: None, wait_epoch: wait.epoch, terms: Some(wire(&wait.terms)) };
        match desk.calls().begin_wait(desk.lease(), request).await {
            Ok(answer) => {
                // It may have been parked by a call whose answer was lost.
                if repeated && matches!(answer.answer(), WaitAnswer::MustDetach) {
                    desk.must_detach();
                }
                return answered(&answer);
            }
            Err(status) if is_away(&status) => {
                tracing::debug!(%status, "the server cannot be asked to park an attempt; again soon");
                repeated = true;
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(AGAIN.1);
            }
            Err(status) => return refused(&status),
        }
    }
}

fn answered(answer: &BeginWaitResponse) -> Stand {
    let kept = answer.kept.clone();
    match answer.answer() {
        WaitAnswer::Parked => Stand::Parked { kept },
        WaitAnswer::Go => Stand::Over { verdict: WaitVerdict::Go, kept: None },
        WaitAnswer::MustDetach | WaitAnswer::Unspecified => {
            Stand::Over { verdict: WaitVerdict::MustDetach, kept: Some(kept) }
        }
    }
}

fn refused(status: &Status) -> Stand {
    let reason = status.get_details_error_info().map(|info| info.reason).unwrap_or_default();
    Stand::Refused { code: status.code().into(), message: status.message().to_owned(), reason }
}

fn wire(terms: &Terms) -> WaitTerms {
    WaitTerms {
        job_ids: terms.children.clone(),
        policy: terms.policy,
        at_least: terms.at_least,
        max_wait: terms.max_wait.and_then(|length| length.try_into().ok()),
    }
}
