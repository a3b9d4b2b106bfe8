//! Attempts as real processes: real shims, real commands, real trees, real deaths.

#![expect(clippy::unwrap_used, reason = "helpers of tests panic like the tests themselves")]

mod aftermath;
mod bench;
mod cgroups;
mod disk;
mod leftovers;
mod limits;
mod shim;
