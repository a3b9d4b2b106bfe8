//! The server of Tenure, a library: one loop over the pure scheduler, and the edges around it.
//!
//! `rpc` turns a request into a command → the driver applies a batch of commands to the scheduler's state → the
//! journal commits what changed → sessions, replies and watchers hear of it. Nothing flows backwards, and nothing
//! leaves before its commit.
//!
//! Reading order: `driver` and `driver/*` → `handle` → `sessions` and `sessions/*` → `snapshot`, `outbox`,
//! `retention` → `rpc` and `rpc/*` → `config`, `listener`, `http`, `metrics` → `clock`, `tasks`, `chain`.

pub mod chain;
pub mod clock;
pub mod config;
mod driver;
pub mod handle;
mod http;
mod listener;
pub mod metrics;
pub mod outbox;
mod retention;
mod rpc;
mod sessions;
pub mod snapshot;
pub mod tasks;
