//! The end of what an execution printed: it passes the scheduler by, as results do.

use bytes::Bytes;
use tenure_scheduler::Wall;

/// The end of what an execution printed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogTail {
    /// Of standard output.
    pub stdout: LogEnd,
    /// Of standard error.
    pub stderr: LogEnd,
    /// When it was stored.
    pub created_at: Wall,
}

/// The end of one stream.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct LogEnd {
    /// How many bytes there were in all; at least as many as `data` has.
    pub total: u64,
    /// The last of them: any bytes.
    pub data: Bytes,
}

impl LogEnd {
    /// The place of the first byte of `data` in the stream.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.total.saturating_sub(self.data.len() as u64)
    }
}

// What a command prints may hold secrets: its text form tells its size only.
impl std::fmt::Debug for LogEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LogEnd({} of {} bytes)", self.data.len(), self.total)
    }
}
