//! A stand-in for the `tenure` binary in this crate's tests: it answers to `shim` and `exec-stage` and to nothing
//! else. Like the real one it branches off before any runtime or second thread exists.

use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("shim") => tenure_node_agent::shim::main(),
        Some("exec-stage") => tenure_node_agent::exec_stage::main(),
        Some(_) | None => ExitCode::from(64),
    }
}
