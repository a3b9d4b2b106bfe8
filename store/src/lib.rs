//! The store of Tenure: what survives a crash.
//!
//! One [`Journal`] writes: the driver of the leader hands it the rows that a turn changed, and it commits them in one
//! transaction that is fenced by the epoch. Many [`Reader`]s read what is committed. SQL decides nothing: the
//! scheduler did, and the schema is a second wall that turns a bug of ours into a refused write.
//!
//! Not here: what a server does when it leads or follows, what a turn changes, and which rows are due. Nothing here
//! reads a clock; every stored time came with the rows, and an election is handed its clock.
//!
//! Invariants: a commit is whole or absent; rows affected equal rows sent; a deposed leader writes nothing; loading
//! gives what was committed, or an error that names table and key, never a part of it.
//!
//! Reading order: `journal` → `election` → `reader` → `inbox` → `rows` → `sqlite` and `sqlite/*` → `postgres` and `postgres/*` →
//! `memory` → `objects` and `objects/*`.

pub mod election;
pub mod inbox;
pub mod journal;
mod log_tail;
pub mod memory;
pub mod objects;
pub mod postgres;
pub mod reader;
pub mod rows;
pub mod sqlite;
mod turn;

pub use journal::{Beside, HeldKey, Journal, Payload, ResultBytes, Taken};
pub use log_tail::{LogEnd, LogTail};
pub use objects::{ObjectName, Objects, ResultObject, Sha256};
pub use reader::{
    Durability, Examination, JobCursor, JobFilter, KindCutoff, Left, MemberState, Reader, StoredResult,
    Violation, WorkflowCursor, WorkflowFilter,
};
