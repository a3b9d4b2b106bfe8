//! What agent and shim say on a socket: one JSON line a message.
//!
//! Responsible for the messages and for framing on a socket that never blocks. Not responsible for what follows
//! from a message.
//! Invariant: neither side keeps more than a bounded number of bytes for the other.

use std::io::{self, Read, Write};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::spec::{ExitRecord, Spec, StopReason};
use super::tag::Tag;
use crate::clock::Mono;

/// No message is longer, in bytes; a longer one is a broken peer.
pub(super) const MESSAGE_LIMIT: usize = 1024 * 1024;
/// What may wait for a peer that does not read, in bytes beside the message that is being added. More means that
/// it has not read for hours.
const UNSENT_LIMIT: usize = 64 * 1024;

/// The first message of the agent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Opening {
    /// `spec::VERSION`.
    pub(super) version: u32,
    /// The mark of the attempt's processes.
    pub(super) tag: Tag,
    /// The attempt.
    pub(super) spec: Spec,
}

/// The first message of an agent that takes over the shim of an earlier one, at its door.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Attach {
    /// `spec::VERSION`, that of the state file: who speaks another one is not answered.
    pub(super) version: u32,
    /// The fencing token of the attempt that it means. Another one is not answered.
    pub(super) token: u64,
}

/// How an attempt stands: the answer to `Attach`. What is over already follows, as notices.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Standing {
    /// The fencing token.
    pub(super) token: u64,
    /// When everything will be gone, on the clock of the state file.
    pub(super) gone_by: Mono,
    /// When the command was executed; absent: it was not, or not yet.
    pub(super) started: Option<Mono>,
    /// It is being stopped, whatever is said now.
    pub(super) stopping: bool,
    /// For how long its run clock has stood still.
    #[serde(default)]
    pub(super) paused_for: Duration,
    /// Its run clock stands still.
    #[serde(default)]
    pub(super) paused: bool,
}

/// What the agent says after it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Order {
    /// Start the command.
    Go,
    /// The lease was renewed.
    Renew {
        /// The new end.
        gone_by: Mono,
    },
    /// The job said something: it is not stalled. Not to a shim before `spec::HEARS`.
    Heard,
    /// Its run clock is to stand still, or to go on. Not to a shim before `spec::HEARS`.
    Pause {
        /// To stand still.
        paused: bool,
    },
    /// End it.
    Stop {
        /// Why.
        reason: StopReason,
        /// Between SIGTERM and SIGKILL.
        grace: Duration,
    },
}

/// What the shim says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Notice {
    /// The state file is written.
    Ready,
    /// The agent at the door has the attempt from now on.
    Attached(Standing),
    /// The command was executed.
    Started {
        /// Its process.
        pid: i32,
    },
    /// It was asked to wrap up.
    Notified,
    /// The command has ended and its output is complete.
    Ended(Box<ExitRecord>),
    /// The tree will not go.
    Unkillable,
    /// The tree is gone.
    Reaped,
}

/// Lines that arrive in pieces.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
}

impl Inbox {
    /// Takes what a read brought.
    pub(super) fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.bytes.len() + bytes.len() > 2 * MESSAGE_LIMIT {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a message is too long"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// The next whole message.
    pub(super) fn pop<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') else {
            if self.bytes.len() > MESSAGE_LIMIT {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a message is too long"));
            }
            return Ok(None);
        };
        let message = serde_json::from_slice(self.bytes.get(..end).unwrap_or_default())?;
        self.bytes.drain(..=end);
        Ok(Some(message))
    }

    /// Reads all that is there from a socket that does not block. Answers whether more may come.
    pub(super) fn fill(&mut self, mut socket: impl Read) -> io::Result<bool> {
        let mut chunk = [0; 4096];
        loop {
            match socket.read(&mut chunk) {
                Ok(0) => return Ok(false),
                Ok(count) => self.push(chunk.get(..count).unwrap_or_default())?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Lines that may leave in pieces.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
}

impl Outbox {
    /// Adds a message. A peer that has not read for long is an error, and the message is not added.
    pub(super) fn push<T: Serialize>(&mut self, message: &T) -> io::Result<()> {
        if self.bytes.len() > UNSENT_LIMIT {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, "the peer does not read"));
        }
        serde_json::to_writer(&mut self.bytes, message)?;
        self.bytes.push(b'\n');
        Ok(())
    }

    /// Writes what the socket takes without blocking.
    pub(super) fn flush(&mut self, mut socket: impl Write) -> io::Result<()> {
        while !self.bytes.is_empty() {
            match socket.write(&self.bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => drop(self.bytes.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether something waits.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_any_cut() {
        let mut outbox = Outbox::default();
        outbox.push(&Order::Go).unwrap();
        outbox.push(&Order::Renew { gone_by: Mono::from_micros(7) }).unwrap();
        let mut bytes = Vec::new();
        outbox.flush(&mut bytes).unwrap();
        assert!(outbox.is_empty());

        let mut inbox = Inbox::default();
        let mut orders = Vec::new();
        for byte in bytes {
            inbox.push(&[byte]).unwrap();
            orders.extend(inbox.pop::<Order>().unwrap());
        }
        assert!(
            matches!(orders.as_slice(), [Order::Go, Order::Renew { gone_by }] if gone_by.as_micros() == 7)
        );
    }

    #[test]
    fn a_message_without_end_is_refused() {
        let mut inbox = Inbox::default();
        let refused = (0..100).any(|_| inbox.push(&[b'x'; 65_536]).is_err() || inbox.pop::<Order>().is_err());
        assert!(refused);
    }

    #[test]
    fn garbage_is_refused() {
        let mut inbox = Inbox::default();
        inbox.push(b"{\"go\n").unwrap();
        assert!(inbox.pop::<Order>().is_err());
    }
}
