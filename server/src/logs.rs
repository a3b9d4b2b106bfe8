//! What attempts print, on its way from nodes to readers.
//!
//! Responsible for asking a node by its session, for joining the stream that it opens to the reader that waits for it, and
//! for how many readers there are. Not responsible for who may read what (`rpc/jobs/log.rs`), nor for what is kept of
//! attempts that have ended (the store).
//!
//! Invariants: pieces are handed from the node's stream to the reader's one at a time, so a slow reader stops its own node
//! stream and nothing else, and no more than a few pieces of it are in memory; a reader that goes away ends the node's
//! stream; only the node that was asked may answer, and only once.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tenure_proto::v1::{LogChunk, LogPlace, LogStream};
use tenure_scheduler::{FencingToken, JobId, NodeName, SessionId};
use tokio::sync::{mpsc, watch};

use crate::sessions::{Outgoing, Queue};

/// Pieces of one reader that wait for it, 64 KiB each.
const MOST_WAITING: usize = 2;

/// Readers of one node at once: each is a connection of it.
const MOST_OF_A_NODE: usize = 16;

/// Readers of all nodes at once.
const MOST_READERS: usize = 512;

/// A node that has not opened its stream by then is asked again …
const ASK_AGAIN: Duration = Duration::from_millis(if cfg!(test) { 20 } else { 1_000 });

/// … and so often in all.
const MOST_ASKED: u32 = 10;

/// Whom to ask, and who waits for an answer. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Logs(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    desk: Mutex<Desk>,
    /// A node can be asked, or no longer.
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Desk {
    nodes: HashMap<NodeName, Line>,
    /// Readers that wait for their node's stream, or have it, by want.
    wants: HashMap<u64, Waiting>,
}

/// The way to a node.
#[derive(Debug)]
struct Line {
    session: SessionId,
    /// None: its agent keeps its logs to itself.
    queue: Option<Queue>,
}

#[derive(Debug)]
struct Waiting {
    node: NodeName,
    job: JobId,
    token: FencingToken,
    /// None: its node has opened the stream.
    pieces: Option<mpsc::Sender<FromNode>>,
}

/// A node that can be asked for as long as this lives.
#[derive(Debug)]
pub(crate) struct Attached {
    logs: Logs,
    node: NodeName,
    session: SessionId,
}

/// What is wanted of a node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Want {
    pub(crate) job: JobId,
    pub(crate) token: FencingToken,
    /// Set by [`Logs::open`].
    pub(crate) id: u64,
    pub(crate) stream: LogStream,
    pub(crate) place: Option<LogPlace>,
    pub(crate) tail_lines: Option<u32>,
    pub(crate) follow: bool,
}

/// What a node says.
#[derive(Debug)]
pub(crate) enum FromNode {
    /// A piece.
    Chunk(LogChunk),
    /// There is nothing to be had there: why, for people.
    Nothing(String),
    /// It has said everything.
    End,
}

/// Why a node says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unasked {
    /// It is not connected.
    Away,
    /// Its agent is too old.
    TooOld,
    /// It does not open the stream.
    Silent,
    /// Too many read there, or here.
    Full,
}

impl Unasked {
    /// As the end of a sentence.
    pub(crate) fn sentence(self) -> &'static str {
        match self {
            Self::Away => "its node is not connected",
            Self::TooOld => "the agent of its node is of a version that keeps its logs to itself",
            Self::Silent => "its node does not answer",
            Self::Full => "too many read the logs of its node already",
        }
    }

    /// Whether asking again later may help.
    pub(crate) fn passes(self) -> bool {
        match self {
            Self::Away | Self::Silent | Self::Full => true,
            Self::TooOld => false,
        }
    }
}

/// A node's stream, from the reader's end. Dropped, it ends the other one.
#[derive(Debug)]
pub(crate) struct Pull {
    logs: Logs,
    id: u64,
    pieces: mpsc::Receiver<FromNode>,
    /// The first, which was waited for.
    first: Option<FromNode>,
}

/// A node's stream, from the node's end.
#[derive(Debug)]
pub(crate) struct Push {
    pieces: mpsc::Sender<FromNode>,
}

impl Logs {
    /// A session was welcomed: its node can be asked from now on.
    pub(crate) fn attach(&self, node: &NodeName, session: SessionId, queue: Option<Queue>) -> Attached {
        self.desk().nodes.insert(node.clone(), Line { session, queue });
        self.0.changed.send_replace(());
        Attached { logs: self.clone(), node: node.clone(), session }
    }

    /// Tells of changes among the nodes that can be asked.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.0.changed.subscribe()
    }

    /// Asks a node, and waits until it says something. Cancel-safe: what was begun is given up.
    ///
    /// # Errors
    /// Why it says nothing.
    pub(crate) async fn open(&self, node: &NodeName, mut want: Want) -> Result<Pull, Unasked> {
        want.id = fresh_id();
        let (pieces, received) = mpsc::channel(MOST_WAITING);
        let mut pull = self.wait_for(node, &want, pieces, received)?;
        for _ in 0..MOST_ASKED {
            self.ask(node, &want)?;
            if let Ok(first) = tokio::time::timeout(ASK_AGAIN, pull.pieces.recv()).await {
                // None: it broke before it said anything, and says so again.
                pull.first = first;
                return Ok(pull);
            }
            // It is open, and the command prints nothing: that may take for as long as it likes.
            if self.desk().wants.get(&want.id).is_some_and(|waiting| waiting.pieces.is_none()) {
                return Ok(pull);
            }
        }
        Err(Unasked::Silent)
    }

    fn wait_for(
        &self,
        node: &NodeName,
        want: &Want,
        pieces: mpsc::Sender<FromNode>,
        received: mpsc::Receiver<FromNode>,
    ) -> Result<Pull, Unasked> {
        let mut desk = self.desk();
        let of_node = desk.wants.values().filter(|waiting| waiting.node == *node).count();
        if of_node >= MOST_OF_A_NODE || desk.wants.len() >= MOST_READERS {
            return Err(Unasked::Full);
        }
        let waiting = Waiting { node: node.clone(), job: want.job, token: want.token, pieces: Some(pieces) };
        desk.wants.insert(want.id, waiting);
        Ok(Pull { logs: self.clone(), id: want.id, pieces: received, first: None })
    }

    fn ask(&self, node: &NodeName, want: &Want) -> Result<(), Unasked> {
        let desk = self.desk();
        let line = desk.nodes.get(node).ok_or(Unasked::Away)?;
        let queue = line.queue.as_ref().ok_or(Unasked::TooOld)?.upgrade().ok_or(Unasked::Away)?;
        // A queue that is full has no room for this: it is said again in a moment.
        drop(queue.try_send(Box::new(Outgoing::WantLog(want.clone()))));
        Ok(())
    }

    /// A node opens the stream that it was asked for. None: nobody waits for that, or no longer.
    pub(crate) fn push(&self, node: &NodeName, job: JobId, token: FencingToken, id: u64) -> Option<Push> {
        let mut desk = self.desk();
        let waiting = desk.wants.get_mut(&id)?;
        if waiting.node != *node || waiting.job != job || waiting.token != token {
            return None;
        }
        waiting.pieces.take().map(|pieces| Push { pieces })
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.0.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Names one reader, by chance: a node that answers another server, or an earlier one, finds nobody.
fn fresh_id() -> u64 {
    RandomState::new().hash_one(())
}

impl Pull {
    /// What the node says next; none: its stream broke. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<FromNode> {
        match self.first.take() {
            Some(first) => Some(first),
            None => self.pieces.recv().await,
        }
    }
}

impl Drop for Pull {
    fn drop(&mut self) {
        self.logs.desk().wants.remove(&self.id);
    }
}

impl Push {
    /// Hands something to the reader, once that has room for it. False: nobody reads any more.
    pub(crate) async fn say(&self, said: FromNode) -> bool {
        self.pieces.send(said).await.is_ok()
    }

    /// Returns once nobody reads any more. Cancel-safe.
    pub(crate) async fn unwanted(&self) {
        self.pieces.closed().await;
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let mut desk = self.logs.desk();
        // Another session of the node may have come meanwhile.
        if desk.nodes.get(&self.node).is_some_and(|line| line.session == self.session) {
            desk.nodes.remove(&self.node);
        }
        drop(desk);
        self.logs.0.changed.send_replace(());
    }
}

#[cfg(test)]
mod tests;
