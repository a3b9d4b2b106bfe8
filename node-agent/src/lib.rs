//! tenure-node-agent: capacity, pressure and processes of one machine.

pub mod clock;
