//! One open stream: numbered messages out, in order, within their size.
//!
//! Responsible for batching reports, for the place of heartbeats between them, and for room in the queue. Not
//! responsible for what is said (`holdings.rs`).
//!
//! Invariants: a statement that was taken is sent before anything else; no message is larger than 1 MiB; a full queue
//! holds back, and nothing is dropped.

use prost::Message as _;
use tenure_proto::limits;
use tenure_proto::node::v1::{
    Draining, Heartbeat, NodeMessage, Report, Reports, ServerMessage, node_message::Body,
};
use tokio::sync::mpsc;
use tonic::{Status, Streaming};

use super::local::Local;
use super::older::{self, Known};
use super::wire::{self, OnDisk};
use crate::runner::checkpoint;

/// Messages that wait for the transport. When it is full, reports and heartbeats wait where they are kept anyway, in
/// the holdings. Small, so that a heartbeat never queues behind many large replays.
pub(super) const OUTBOUND: usize = 4;
/// Reports of one message, in encoded bytes: below 1 MiB with room for the envelope.
const BATCH_BYTES: usize = limits::MESSAGE_BYTES - 1_024;

/// An open stream.
#[derive(Debug)]
pub(super) struct Link {
    outbound: mpsc::Sender<NodeMessage>,
    inbound: Streaming<ServerMessage>,
    /// A report that did not fit into the last message. It goes first.
    carried: Option<Report>,
    /// A heartbeat is to be sent.
    pub(super) beat_due: bool,
    /// `Draining` is to be sent.
    pub(super) draining_due: bool,
    /// The pressure generation that the server was told.
    told_generation: u64,
    /// What the server knows.
    known: Known,
}

impl Link {
    pub(super) fn new(
        outbound: mpsc::Sender<NodeMessage>,
        inbound: Streaming<ServerMessage>,
        told_generation: u64,
        known: Known,
    ) -> Self {
        Self {
            outbound,
            inbound,
            carried: None,
            beat_due: false,
            draining_due: false,
            told_generation,
            known,
        }
    }

    /// The server's next message; None at the end of the stream. Cancel-safe.
    pub(super) async fn read(&mut self) -> Result<Option<ServerMessage>, Status> {
        self.inbound.message().await
    }

    /// Returns when the queue has room; never, if the stream has closed, which is noticed where it is read.
    /// Cancel-safe.
    pub(super) fn room(&self) -> impl Future<Output = ()> + use<> {
        let room = self.outbound.clone().reserve_owned();
        async move {
            if room.await.is_err() {
                std::future::pending().await
            }
        }
    }

    /// Whether something waits for room.
    pub(super) fn wants_room(&self, local: &Local) -> bool {
        self.carried.is_some() || self.beat_due || self.draining_due || local.holdings.has_unsaid()
    }

    /// Sends what is due, as far as there is room.
    pub(super) async fn flush(&mut self, local: &mut Local) {
        self.notice_pressure(local);
        while self.outbound.capacity() > 0 && !self.outbound.is_closed() && self.wants_room(local) {
            if self.carried.is_some() {
                self.send_reports(local).await;
            } else if std::mem::take(&mut self.beat_due) {
                self.send_heartbeat(local);
            } else if std::mem::take(&mut self.draining_due) {
                self.send_draining(local);
            } else {
                self.send_reports(local).await;
            }
            // What was said may let something start.
            local.settle();
        }
    }

    /// Ends our half, and reads what the server still says, so that everything sent arrives.
    pub(super) async fn close(self) {
        let Self { outbound, mut inbound, .. } = self;
        drop(outbound);
        while let Ok(Some(_)) = inbound.message().await {}
    }

    /// A change of what is closed goes at once; new figures wait for the next heartbeat.
    fn notice_pressure(&mut self, local: &Local) {
        self.beat_due |= local.generation() != self.told_generation;
    }

    fn send_heartbeat(&mut self, local: &mut Local) {
        let pressure = local.reading();
        self.told_generation = pressure.generation;
        let held = local.holdings.heartbeat(local.clock.now()).into_iter();
        let held = held.map(|listed| wire::held(listed, !self.known.waits)).collect();
        self.send(local, Body::Heartbeat(Heartbeat { held, pressure: Some(pressure) }));
    }

    fn send_draining(&mut self, local: &mut Local) {
        let Some(stopping) = &mut local.stopping else { return };
        stopping.told = true;
        let restart = stopping.hands_over;
        let left = stopping.deadline.since(local.clock.now());
        let deadline = if restart { None } else { wire::duration(left) };
        self.send(local, Body::Draining(Draining { restart, deadline }));
    }

    async fn send_reports(&mut self, local: &mut Local) {
        let mut reports = Vec::new();
        let mut bytes = 0;
        while let Some(report) = self.next_report(local).await {
            // One repeated field: its tag and length besides its content.
            let size = report.encoded_len() + 8;
            if !reports.is_empty() && bytes + size > BATCH_BYTES {
                self.carried = Some(report);
                break;
            }
            bytes += size;
            reports.push(report);
        }
        if !reports.is_empty() {
            self.send(local, Body::Reports(Reports { reports }));
        }
    }

    async fn next_report(&mut self, local: &mut Local) -> Option<Report> {
        if let Some(report) = self.carried.take() {
            return Some(report);
        }
        while let Some(statement) = local.holdings.next_statement(local.clock.now()) {
            let token = match wire::report(statement) {
                Ok(report) => return Some(report),
                Err(OnDisk::Spooled(token)) => token,
                Err(OnDisk::Checkpoint(job, token)) => {
                    let dir = local.runner.attempt_dir(token);
                    match tokio::task::spawn_blocking(move || checkpoint::read(&dir)).await {
                        Ok(Some(bytes)) => return Some(wire::checkpoint(job, token, bytes)),
                        // It has ended meanwhile: its end says what there is.
                        Ok(None) => continue,
                        Err(error) => {
                            tracing::error!(lease.token = token.0, %error, "reading a checkpoint ended early");
                            continue;
                        }
                    }
                }
            };
            let spool = std::sync::Arc::clone(&local.spool);
            match tokio::task::spawn_blocking(move || spool.read(token)).await {
                Ok(Ok(Some(report))) => {
                    return Some(older::reworded(report, self.known));
                }
                Ok(Ok(None)) => {}
                // It stays in the spool, and is said again on the next stream.
                Ok(Err(error)) if error.may_pass() => {
                    tracing::error!(lease.token = token.0, error = %crate::Chain(&error), "a report cannot be read now");
                }
                Ok(Err(error)) => {
                    tracing::error!(lease.token = token.0, error = %crate::Chain(&error), "a report cannot be read");
                    local.unreadable(token);
                }
                Err(error) => tracing::error!(lease.token = token.0, %error, "reading a report ended early"),
            }
        }
        None
    }

    /// Numbers and sends one message. The caller has seen that there is room; a stream that closed meanwhile is
    /// noticed where it is read.
    fn send(&mut self, local: &mut Local, body: Body) {
        let seq = local.holdings.next_seq(local.clock.now());
        let message = NodeMessage { seq, seen: local.holdings.seen(), body: Some(body) };
        drop(self.outbound.try_send(message));
    }
}
