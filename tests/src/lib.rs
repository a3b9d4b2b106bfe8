//! The harness of the end-to-end tests: real servers, real agents, real jobs, on free ports of the loopback interface.
//!
//! Responsible for starting a fleet of processes from a plan, for letting a scenario kill, stop and restart them, and for
//! what must hold at the end of every scenario: the server's own invariants, the oracle over what the jobs wrote, and
//! no process left running. Not responsible for what a scenario shows (`tests/`).
//! Invariant: nothing is ever ended that the scenario did not start, and everything that it started is ended.
//!
//! Reading order: [`plan`], [`script`], [`fleet`], [`wait`], [`intervals`], [`idle`]; below them [`process`], [`tag`],
//! [`proxy`], [`python`], [`raw`], [`hosts`], [`bucket`], [`binary`], [`clock`], `wall`.

pub mod binary;
pub mod bucket;
pub mod clock;
pub mod collector;
pub mod fleet;
pub mod hosts;
pub mod idle;
pub mod intervals;
pub mod older;
pub mod plan;
pub mod process;
pub mod proxy;
pub mod python;
pub mod random;
pub mod raw;
pub mod script;
pub mod tag;
pub mod wait;
mod wall;

pub use fleet::{Fleet, Ran, scenario};
pub use plan::{KindPlan, NodePlan, Plan};
pub use script::{Script, Step, pile};
