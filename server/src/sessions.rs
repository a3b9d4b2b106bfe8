//! Live sessions of nodes: everything about one node travels through one queue in and one queue out.
//!
//! Responsible for the bounds: a session has so many commands on their way at once ([`CREDITS`]), then it is not read;
//! its outbound queue has a soft bound, above which the scheduler is told to grant nothing, and a hard one, above which
//! the session ends, since a node that does not read its answers is as good as gone. Nobody else ever waits for it.
//! Not for what is said (`assembly`, `rpc/convert_node.rs`), nor for which stream of a node wins (the scheduler's).
//!
//! Invariants: order exists only inside one queue; a message belongs to the session in whose state it was decided and
//! dies with it; only the driver touches [`Peers`].

mod assembly;
mod delay;
mod inbound;
mod outbound;
mod seen;
mod task;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use tenure_scheduler::{Command, JobId, Message, NodeName, Ordinal, SessionId, Stored};
use tenure_store::{Left, LogTail, Payload, ResultBytes};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_util::sync::CancellationToken;
use tonic::Status;

pub(crate) use self::{
    assembly::{Body, Frame},
    delay::delay,
    task::{Lobby, MOST_WIRE, Wired},
};

/// Commands of one session that wait for the driver or its commit. Full: the session is not read.
const CREDITS: usize = 512;

/// A command with result bytes takes one more credit for so many of them: 8 MiB of one session wait at the most.
const BYTES_PER_CREDIT: usize = 16 * 1024;

/// What a job costs that a report names: its row is read by the driver. 64 of them take a credit.
const BYTES_PER_CHILD: usize = BYTES_PER_CREDIT / 64;

/// Commands of all sessions that wait for the driver. Full: sessions wait in turn; none is refused.
pub(crate) const MOST_INBOX: usize = 4096;

/// Hellos that wait for the driver or its commit, of all sessions. Beyond: SERVER_BUSY, and the node comes back.
pub(crate) const MOST_ATTACHING: usize = 256;

/// Messages that wait for one node. Full: its session ends.
const MOST_OUTBOUND: usize = 4096;

/// Above this the scheduler grants nothing to the node; below half of it, again.
const SOFT_OUTBOUND: usize = 256;

/// Payloads up to this many bytes travel with the grants of the turn that stored them: a session is granted 128 jobs at
/// once at the most, so that it holds half a MiB of them.
pub(crate) const MOST_AT_HAND: usize = 4096;

/// One command of a node on its way to the driver.
#[derive(Debug)]
pub(crate) struct FromNode {
    /// Which stream.
    pub(crate) session: SessionId,
    /// What it says.
    pub(crate) command: Command,
    /// What travels beside it.
    pub(crate) carried: Carried,
    /// With Hello: the way back.
    pub(crate) attach: Option<Peer>,
    /// Held until the command's turn is over; none for the end of a session, which must always get through.
    pub(crate) credit: Option<OwnedSemaphorePermit>,
}

/// Bytes that travel beside a command of a node.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Carried {
    /// Of a finished report.
    pub(crate) result: Option<ResultBytes>,
    /// Of a report that brings one.
    pub(crate) checkpoint: Option<Bytes>,
    /// Of a finished report: the end of what its command printed.
    pub(crate) log: Option<LogTail>,
}

impl Carried {
    /// In bytes.
    pub(crate) fn len(&self) -> usize {
        let result = self.result.as_ref().map_or(0, |result| result.data.len());
        let log = self.log.as_ref().map_or(0, |log| log.stdout.data.len() + log.stderr.data.len());
        result + log + self.checkpoint.as_ref().map_or(0, Bytes::len)
    }
}

/// What joins a grant on its way to the node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Joined {
    /// The payload of its job; empty if that has none.
    pub(crate) payload: Payload,
    /// What earlier executions left.
    pub(crate) left: Left,
}

impl Joined {
    /// In bytes.
    fn len(&self) -> usize {
        let left = self.left.checkpoint.as_ref().map_or(0, Bytes::len);
        let partial = self.left.partial.as_ref().map_or(0, |partial| partial.data.len());
        self.payload.data.len() + left + partial
    }
}

impl FromNode {
    /// There is no state that it could be said to: if it was a Hello its session ends, else that has ended already.
    pub(crate) fn refuse(self, status: Status) {
        if let Some(peer) = &self.attach {
            peer.shared.close(status);
        }
    }
}

/// The driver's end of one session.
#[derive(Debug)]
pub(crate) struct Peer {
    node: NodeName,
    queue: mpsc::Sender<Queued>,
    shared: Arc<Shared>,
}

/// What a session's task and the driver's end share.
#[derive(Debug, Default)]
struct Shared {
    /// Why the session ends; set at most once, before `end` is cancelled.
    status: OnceLock<Status>,
    end: CancellationToken,
    /// The scheduler was told that the queue is full.
    blocked: AtomicBool,
}

/// One message in the queue of a session. Boxed, since a channel has room for 32 from its begin, and most sessions are idle.
pub(crate) type Queued = Box<Outgoing>;

/// One message on its way to a node.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// By the scheduler.
    Decided(Decided),
    /// By the driver: a report cannot be stored. It has no ordinal.
    Broken(Stored),
    /// By a reader: what an attempt prints is wanted. It has no ordinal, either.
    WantLog(crate::logs::Want),
}

/// A message of the scheduler.
#[derive(Debug)]
pub(crate) struct Decided {
    /// Its place in the session.
    pub(crate) ordinal: Ordinal,
    /// The highest `seq` of the node that was applied when it was decided.
    pub(crate) applied: u64,
    /// What it says.
    pub(crate) message: Message,
    /// Of a grant: the size of the payload that joins it.
    pub(crate) payload_size: u64,
    /// Of a grant in the turn that stored its job: a small payload, which then need not be read again.
    pub(crate) payload: Option<Payload>,
}

impl Shared {
    fn close(&self, status: Status) {
        // The first reason counts.
        drop(self.status.set(status));
        self.end.cancel();
    }
}

/// All sessions that have said Hello to the present state.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    by_session: BTreeMap<SessionId, Peer>,
}

impl Peers {
    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.by_session.len()
    }

    /// A session has said Hello.
    pub(crate) fn attach(&mut self, session: SessionId, peer: Peer) {
        self.by_session.insert(session, peer);
    }

    /// The task of a session ended.
    pub(crate) fn detach(&mut self, session: SessionId) {
        self.by_session.remove(&session);
    }

    /// Whether it has said Hello to the present state and its task has not ended.
    pub(crate) fn is_known(&self, session: SessionId) -> bool {
        self.by_session.contains_key(&session)
    }

    /// Sends a message. The answer is a command for the scheduler, if the queue has just filled up.
    #[must_use]
    pub(crate) fn send(&mut self, session: SessionId, decided: Decided) -> Option<Command> {
        let peer = self.by_session.get(&session)?; // it ended: the message dies with it
        peer.push(Outgoing::Decided(decided));
        let waiting = MOST_OUTBOUND - peer.queue.capacity();
        let filled_up = waiting > SOFT_OUTBOUND && !peer.shared.blocked.swap(true, Ordering::Relaxed);
        filled_up.then(|| Command::SessionBlocked { node: peer.node.clone(), session, blocked: true })
    }

    /// Tells a node that its report cannot be stored.
    pub(crate) fn answer_broken(&mut self, session: SessionId, answer: Stored) {
        if let Some(peer) = self.by_session.get(&session) {
            peer.push(Outgoing::Broken(answer));
        }
    }

    /// Ends a session. Its task says so when it is done.
    pub(crate) fn close(&self, session: SessionId, status: Status) {
        if let Some(peer) = self.by_session.get(&session) {
            peer.shared.close(status);
        }
    }

    /// Ends all sessions and forgets them: the state that they spoke to is gone.
    pub(crate) fn close_all(&mut self, mut status: impl FnMut(&NodeName, SessionId) -> Status) {
        for (session, peer) in std::mem::take(&mut self.by_session) {
            peer.shared.close(status(&peer.node, session));
        }
    }
}

impl Peer {
    /// The driver's end of a session without a task or a wire, and what is sent there.
    #[cfg(test)]
    pub(crate) fn of_test(node: &NodeName) -> (Self, mpsc::Receiver<Queued>) {
        let (queue, messages) = mpsc::channel(MOST_OUTBOUND);
        (Self { node: node.clone(), queue, shared: Arc::default() }, messages)
    }

    fn push(&self, outgoing: Outgoing) {
        match self.queue.try_send(Box::new(outgoing)) {
            // Closed: its task has ended and says so in a moment.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => {}
            Err(mpsc::error::TrySendError::Full(_)) => self.shared.close(slow_reader()),
        }
    }
}

/// A session ends at the latest with the driver's end of it: nobody would listen to it any more.
impl Drop for Peer {
    fn drop(&mut self) {
        self.shared.end.cancel();
    }
}

/// A job whose bytes a session asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Want {
    job: JobId,
    /// The size of its payload.
    payload: u64,
    /// It was granted before: an earlier execution may have left something.
    again: bool,
}

/// The way into a session's queue for those who do not keep it open.
pub(crate) type Queue = mpsc::WeakSender<Queued>;

/// All that is asked for at once.
type Wanted = Vec<Want>;

fn slow_reader() -> Status {
    crate::rpc::status::No::session_ended("SLOW_READER", "the node does not read its messages").into_status()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer() -> (Peer, mpsc::Receiver<Queued>, Arc<Shared>) {
        let (queue, messages) = mpsc::channel(MOST_OUTBOUND);
        let shared = Arc::new(Shared::default());
        (Peer { node: NodeName::new("n1"), queue, shared: Arc::clone(&shared) }, messages, shared)
    }

    fn drain(ordinal: usize) -> Decided {
        let message = Message::Drain { deadline: None };
        Decided { ordinal: Ordinal(ordinal as u64), applied: 1, message, payload_size: 0, payload: None }
    }

    #[test]
    fn a_queue_that_fills_up_is_told_once_and_a_full_one_ends_the_session() {
        let (peer, messages, shared) = peer();
        let mut peers = Peers::default();
        peers.attach(SessionId(1), peer);
        let told = (0..MOST_OUTBOUND).filter(|&n| peers.send(SessionId(1), drain(n)).is_some()).count();
        assert_eq!(told, 1);
        assert!(!shared.end.is_cancelled());
        assert!(peers.send(SessionId(1), drain(MOST_OUTBOUND)).is_none());
        assert!(shared.end.is_cancelled() && shared.status.get().is_some());
        assert_eq!(messages.len(), MOST_OUTBOUND, "nothing was dropped before that");
    }

    #[test]
    fn the_first_reason_for_an_end_counts_and_messages_to_a_gone_session_die() {
        let (peer, _messages, shared) = peer();
        let mut peers = Peers::default();
        peers.attach(SessionId(1), peer);
        peers.close(SessionId(1), Status::aborted("first"));
        peers.close_all(|_, _| Status::aborted("second"));
        assert_eq!(shared.status.get().map(Status::message), Some("first"));
        assert_eq!(peers.len(), 0);
        assert!(peers.send(SessionId(1), drain(1)).is_none());
    }

    #[test]
    fn a_session_ends_with_the_drivers_end_of_it() {
        let (peer, _messages, shared) = peer();
        drop(peer);
        assert!(shared.end.is_cancelled());
    }
}
