//! What each message of the server sets in motion.
//!
//! Responsible for handing each to the part that it is for. Not responsible for what they mean there.
//!
//! Invariant: `seen` rises when a message is applied, not when it is read.

use std::time::Duration;

use tenure_proto::node::v1::{ServerMessage, Stored, Welcome, server_message::Body};

use super::{HEARTBEAT, Lost, Session, wire};
use crate::holdings::FencingToken;

impl Session {
    /// Welcome: the stream is up.
    pub(super) fn welcome(&mut self, welcome: &Welcome) -> Result<(), Lost> {
        // The server has taken in the Hello, and this agent knows nothing of that.
        #[cfg(feature = "failpoints")]
        fail::fail_point!("session::before_welcome", |_| std::process::abort());
        let renewed = wire::renewals(&welcome.renewed);
        let holdings = &mut self.local.holdings;
        holdings.welcomed(welcome.epoch, welcome.anchor_seq, &renewed)?;
        holdings.keeps_checkpoints(welcome.max_checkpoint_bytes > 0);
        self.set_heartbeat(wire::length(welcome.heartbeat_interval));
        self.backoff.set_bounds(wire::length(welcome.reconnect_min), wire::length(welcome.reconnect_max));
        if welcome.max_result_bytes > 0 {
            self.local.runner.limit_results(welcome.max_result_bytes);
        }
        self.local.runner.limit_uploads(welcome.max_uploaded_result_bytes);
        for warning in &welcome.warnings {
            tracing::warn!(name = warning, "the fleet does not declare this name of the node file");
        }
        self.keep_epoch();
        self.local.settle();
        self.local.status.send_if_modified(|status| !std::mem::replace(&mut status.connected, true));
        tracing::info!(epoch = welcome.epoch, node.id = self.options.name, "the server said Welcome");
        Ok(())
    }

    /// Everything else, in order.
    pub(super) fn apply(&mut self, message: ServerMessage) -> Result<(), Lost> {
        let now = self.options.clock.now();
        let holdings = &mut self.local.holdings;
        holdings.receive(message.seq)?;
        holdings.applied(message.seen);
        match message.body {
            Some(Body::Welcome(_)) => return Err(Lost::WelcomedTwice),
            Some(Body::Grants(grants)) => {
                for grant in grants.grants {
                    let terms = wire::terms(&grant).map_err(Lost::Senseless)?;
                    self.local.granted(grants.anchor_seq, &terms, grant)?;
                }
                self.keep_epoch();
            }
            Some(Body::Renewed(renewed)) => {
                let leases = wire::renewals(&renewed.leases);
                holdings.renewed(renewed.anchor_seq, &leases)?;
            }
            Some(Body::Revoke(revoke)) => {
                for lease in &revoke.leases {
                    holdings.revoked(FencingToken(lease.token), wire::stop_reason(lease.reason()));
                }
            }
            Some(Body::Stored(stored)) => self.stored(&stored),
            Some(Body::Drain(drain)) => match drain.deadline {
                Some(deadline) => {
                    let deadline = wire::length(Some(deadline)).unwrap_or_default();
                    holdings.drain(now, now + deadline);
                    tracing::info!(deadline_s = deadline.as_secs(), "the server drains this node");
                }
                None => {
                    holdings.drain_over();
                    tracing::info!("the server's drain of this node is over");
                }
            },
            Some(Body::Configure(configure)) => {
                self.set_heartbeat(wire::length(configure.heartbeat_interval));
                if configure.credits_ceiling > 0 {
                    self.options.credits = self.options.credits.min(configure.credits_ceiling);
                }
            }
            Some(Body::Resume(resume)) => {
                let verdict = wire::verdict(resume.verdict());
                holdings.resumed(FencingToken(resume.token), resume.wait_epoch, verdict);
            }
            Some(Body::WantLog(want)) => {
                let source = self.local.runner.log_source(FencingToken(want.token));
                let (tasks, node) = (&self.local.errands, &self.options.name);
                self.pushes.begin(tasks, node, self.dial.as_ref(), (want, source));
            }
            // A noun of a newer server.
            None => tracing::debug!(seq = message.seq, "an unknown message of the server is passed over"),
        }
        self.local.settle();
        Ok(())
    }

    fn stored(&mut self, stored: &Stored) {
        for answer in &stored.answers {
            let Some((token, end, verdict)) = wire::answer(answer) else { continue };
            if !answer.cause.is_empty() {
                tracing::warn!(
                    lease.token = token.0,
                    reason = answer.cause,
                    "a report changed nothing: its lease is gone"
                );
            }
            self.local.holdings.answered(token, end, verdict);
        }
    }

    fn set_heartbeat(&mut self, interval: Option<Duration>) {
        if let Some(interval) = interval {
            self.heartbeat = interval.clamp(HEARTBEAT.0, HEARTBEAT.1);
        }
    }

    /// Keeps the highest epoch on the disk. It changes with a takeover only, so the write may block for a moment.
    fn keep_epoch(&mut self) {
        if let Err(error) = self.state.raise_epoch(self.local.holdings.max_epoch_seen()) {
            tracing::error!(error = %crate::Chain(&error), "the highest epoch is kept in memory only");
        }
    }
}
