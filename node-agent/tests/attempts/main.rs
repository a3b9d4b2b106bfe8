//! Attempts as real processes: real shims, real commands, real trees, real deaths.

mod bench;
mod leftovers;
mod shim;
