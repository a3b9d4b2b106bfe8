//! Limits that both ends of the wire keep: servers, agents, workers and clients.
//!
//! Responsible for one value each. Not responsible for limits that one end alone keeps, which stand where they are kept, nor
//! for those of the scheduler, which knows no wire. `docs/limits.md` has the same table; a test compares them.

use std::time::Duration;

/// The most bytes of a payload, of a result inside of a report, of a checkpoint, and of the state that an execution leaves for
/// the next one. What is larger belongs into object storage, which results reach by an upload: a queue carries references.
pub const INLINE_BYTES: usize = 256 * 1024;

/// Senders keep each message below this many bytes, so that none holds up the heartbeats behind it for long.
pub const MESSAGE_BYTES: usize = 1024 * 1024;

/// The most bytes of a message that a reader decodes. Far above what senders keep to, so that newer fields break nobody.
pub const DECODE_BYTES: usize = 4 * 1024 * 1024;

/// Jobs of one batch are cut here, in bytes: whatever the last one adds, the message stays below [`MESSAGE_BYTES`].
pub const BATCH_BYTES: usize = 640 * 1024;

/// The most jobs of one batch, of one call for children, and of one question about them: one commit, or one read.
pub const BATCH_JOBS: usize = 1_000;

/// The most bytes of a large result in one message of its upload, of its fetch, or of its read.
pub const CHUNK_BYTES: usize = 256 * 1024;

/// The largest result, unless `max_bytes` of the server file says another, in bytes; and what clients hold in memory of one.
pub const RESULT_BYTES: u64 = 64 * 1024 * 1024;

/// A large result has this long at first, on its way in or out of a node ...
pub const TRANSFER_AT_FIRST: Duration = Duration::from_secs(120);

/// ... and a second more for each so many bytes that have passed: slow, but never for ever on a place that others wait for.
pub const TRANSFER_BYTES_A_SECOND: u64 = 128 * 1024;

/// Whoever sends nothing of a large result for this long is taken as away.
pub const TRANSFER_SILENCE: Duration = Duration::from_secs(30);

/// The most bytes of what an attempt prints in one message.
pub const LOG_PIECE_BYTES: usize = 64 * 1024;

/// The most bytes of all that a worker says of the end of an attempt. Below [`MESSAGE_BYTES`], with room for what is around it.
pub const WORKER_END_BYTES: usize = 1_000_000;

/// The most units of one slot, in needs and capacities: sums over a fleet stay far from what 64 bits hold.
pub const SLOT_UNITS: u32 = 1_000_000;
