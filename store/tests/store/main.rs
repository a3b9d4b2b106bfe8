//! Tests of the store over real files and processes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod committer;
mod conformance;
mod lived_through;
mod postgres;
mod random;
mod samples;
mod sqlite;
mod stores;
