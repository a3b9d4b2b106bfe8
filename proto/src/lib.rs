//! The wire, and nothing but the wire: generated messages, service traits and the descriptor set.
//!
//! `src/gen` is committed and made from the `.proto` files by `tests/bootstrap.rs`, so a build needs no protobuf
//! compiler. By hand are only the texts that fields carry in a grammar of their own (`requirement`, `trace_context`), the
//! limits that several sides share (`limits`) and how large buffers begin (`codec`).
//! This crate knows neither the scheduler nor a database.

/// Producers and operators.
pub mod v1 {
    #![allow(missing_docs, clippy::all, reason = "generated")]
    include!("gen/tenure.v1.rs");
}

/// Node agents.
pub mod node {
    /// The session.
    pub mod v1 {
        #![allow(missing_docs, clippy::all, reason = "generated")]
        include!("gen/tenure.node.v1.rs");
    }
}

mod codec;
pub mod limits;
pub mod requirement;
pub mod trace_context;

/// The encoded `FileDescriptorSet` of all packages above, comments included: for reflection and canonical JSON.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("gen/descriptor.bin");

/// Services that agents serve on the sockets of attempts, and that no server has.
pub const SERVED_BY_AGENTS: &[&str] = &["tenure.node.v1.AttemptService", "tenure.node.v1.WorkerService"];

/// In `Hello.features`: the agent hands an execution what it goes on from (`Grant.input_results`, GetChildResults).
pub const INPUTS_FEATURE: &str = "inputs";

/// In `Hello.features`: the agent answers WantLog with PushLog.
pub const LOGS_FEATURE: &str = "logs";

/// The version of the session protocol that this build speaks.
pub const SESSION_PROTOCOL: u32 = 1;
