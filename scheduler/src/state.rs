//! SKELETON: bodies are being written; the signatures stand.
#![allow(missing_docs, unused, clippy::all, clippy::todo, reason = "skeleton")]
use crate::*;
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    pub max_live_jobs: u64,
    pub max_classes: u32,
    pub tree_depth: u8,
    pub children: u32,
    pub descendants: u32,
    pub placements_per_tick: u32,
}
impl Default for Limits {
    fn default() -> Self {
        Self { max_live_jobs: 20_000_000, max_classes: 65_536, tree_depth: 16, children: 1000, descendants: 10_000, placements_per_tick: 512 }
    }
}
#[derive(Debug, Clone)]
pub struct State {}
impl State {
    pub fn load(epoch: Epoch, limits: Limits, rows: Durable, now: Now) -> Self { todo!() }
    pub fn take_changes(&mut self) -> Changes { todo!() }
    pub fn committed(&mut self) { todo!() }
    pub fn next_deadline(&self, now: Now) -> Option<Mono> { todo!() }
    pub fn epoch(&self) -> Epoch { todo!() }
    pub fn knows_job(&self, id: JobId) -> bool { todo!() }
    pub fn knows_key(&self, tenant: &Tenant, kind: &KindName, key: &DedupeKey) -> bool { todo!() }
    pub fn job(&self, id: JobId) -> Option<&Job> { todo!() }
    pub fn live_view(&self, now: Now, id: JobId) -> Option<LiveView> { todo!() }
    pub fn explain(&self, now: Now, id: JobId) -> Option<Explanation> { todo!() }
    pub fn snapshot(&self, now: Now) -> Snapshot { todo!() }
    pub fn kind(&self, name: &KindName) -> Option<&Kind> { todo!() }
    pub fn check_invariants(&self) -> Vec<Violation> { todo!() }
    pub fn durable(&self) -> Durable { todo!() }
    pub fn apply(&mut self, now: Now, command: Command) -> Result<Applied, Refusal> { todo!() }
}
