//! What comes out of the machine: orders to the runner, statements to the server, lists.
//!
//! Responsible for the nouns alone. Not responsible for their encoding (`session/wire.rs`).

use std::time::Duration;

use super::lease::{FencingToken, Phase, Return, Stop};
use super::waits::WaitVerdict;
use crate::clock::Mono;

/// What the caller has to do now, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Write the directory and the payload of this grant; then say [`super::Holdings::prepared`].
    Prepare {
        /// Which lease.
        token: FencingToken,
    },
    /// It will never start: remove what was prepared.
    Abandon {
        /// Which lease.
        token: FencingToken,
    },
    /// Start it.
    Start {
        /// Which lease.
        token: FencingToken,
        /// By when its tree must be gone.
        gone_by: Mono,
    },
    /// Its deadline has moved.
    Extend {
        /// Which lease.
        token: FencingToken,
        /// By when its tree must be gone.
        gone_by: Mono,
    },
    /// Stop its tree.
    Stop {
        /// Which lease.
        token: FencingToken,
        /// Why and how.
        stop: Stop,
    },
    /// Its wait for others is over.
    Resume {
        /// Which lease.
        token: FencingToken,
        /// Which wait.
        epoch: u64,
        /// What its process does.
        verdict: WaitVerdict,
    },
    /// Its report was answered: remove it from the spool.
    Forget {
        /// Which lease.
        token: FencingToken,
    },
    /// The server cannot store its report: set it aside.
    SetAside {
        /// Which lease.
        token: FencingToken,
    },
}

/// What the node says about a lease, to be sent in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// The node will start it.
    Accepted {
        /// Its job.
        job: String,
        /// Its token.
        token: FencingToken,
    },
    /// Its process runs.
    Started {
        /// Its job.
        job: String,
        /// Its token.
        token: FencingToken,
        /// For how long already.
        elapsed: Duration,
    },
    /// It is getting on.
    Progress {
        /// Its job.
        job: String,
        /// Its token.
        token: FencingToken,
        /// 0 to 100.
        percent: u32,
        /// For people.
        message: String,
    },
    /// Its newest checkpoint, whose bytes stand in its directory.
    Checkpoint {
        /// Its job.
        job: String,
        /// Its token.
        token: FencingToken,
    },
    /// Its end, as it stands in the spool: `finished` or `returned{started}`.
    Spooled {
        /// Its token.
        token: FencingToken,
    },
    /// It never started.
    Returned {
        /// Its job.
        job: String,
        /// Its token.
        token: FencingToken,
        /// Why.
        give_back: Return,
    },
    /// Its tree is gone.
    Reaped {
        /// Its job.
        job: String,
        /// Its token.
        token: FencingToken,
    },
}

/// One line of a Hello's or heartbeat's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its job.
    pub job: String,
    /// Its token.
    pub token: FencingToken,
    /// How far it is.
    pub phase: Phase,
    /// For how long its process has been running.
    pub elapsed: Duration,
    /// The wait in which the server has parked it.
    pub parked_in: Option<u64>,
}

/// Which of the two spooled reports it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Its command has ended.
    Finished,
    /// It was stopped for a reason that is neither the job's nor the node's, and its tree is gone.
    Returned,
}

/// An end that the server has not answered yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unstored {
    /// Its job.
    pub job: String,
    /// Which report.
    pub end: End,
}

/// What the server made of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is durable, or its lease is gone: either way it is done with.
    Done,
    /// The server could not store it for a fault of its own.
    Broken,
}

/// The server said something that cannot be. The stream ends, and a new one sorts it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// It named a message of ours that we have not sent.
    #[error("the server named our message {anchor}, but we have sent only {sent}")]
    AnchorNeverSent {
        /// What it named.
        anchor: u64,
        /// Our newest.
        sent: u64,
    },
    /// Its messages do not follow each other.
    #[error("the server's message {got} follows its message {seen}")]
    OutOfOrder {
        /// What came.
        got: u64,
        /// What was applied before.
        seen: u64,
    },
}
