//! Why a job does not run yet, as data.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    deferral::Deferral,
    ids::{FencingToken, JobId, KindName, NodeName, SlotName},
    slots::{Count, Needs},
    time::Wall,
    view::DeferralView,
};

/// Why a job does not run yet.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Explanation {
    /// The answer in one sentence, for people.
    pub summary: String,
    /// Its deferral, if it waits.
    pub deferral: Option<DeferralView>,
    /// Each fleet slot that it needs; and each node slot on those nodes that are nearest to a fit, at most 20, by name.
    pub slots: Vec<SlotExplanation>,
    /// Each node slot that it needs, summed over all nodes that could hold the job if they were empty.
    pub node_slots: Vec<SlotTotal>,
    /// Each node, if the fleet has at most 100; else none.
    pub nodes: Vec<NodeExplanation>,
    /// Equal nodes that say the same, the nearest to a fit first. At most 50 groups.
    pub groups: Vec<NodeGroup>,
    /// Nodes that are in none of the groups, since there were more.
    pub nodes_omitted: u64,
    /// Jobs of its class that stand before it.
    pub ahead: u64,
    /// The first of those, at most 10.
    pub ahead_jobs: Vec<JobId>,
    /// The slot that it lacks, if it lacks one, and who of other classes stands before it there. None also if it came to
    /// lack another one while the explanation was made.
    pub line: Option<(SlotName, LineAhead)>,
    /// When it may start, as far as that is known.
    pub bracket: Bracket,
    /// Units kept for a job: for this one, or for another whose slots it needs too; the oldest first, at most 20.
    pub earmarks: Vec<EarmarkView>,
    /// What would have to change, one sentence each.
    pub remedies: Vec<String>,
}

impl Explanation {
    /// The same for somebody who may know of no other job: how much stands before it is told, and not which.
    #[must_use]
    pub fn without_others(mut self) -> Self {
        self.ahead_jobs.clear();
        self.deferral = self.deferral.map(DeferralView::without_others);
        let why_nots = self.nodes.iter_mut().map(|node| &mut node.why_not);
        for why_not in why_nots.chain(self.groups.iter_mut().map(|group| &mut group.why_not)) {
            *why_not = why_not.take().map(Deferral::without_others);
        }
        self
    }
}

/// Queued jobs of other classes that need the same slot and stand before a job, in the order of now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LineAhead {
    /// Classes of which at least one job may come first.
    pub classes: u64,
    /// Jobs that come first.
    pub jobs: u64,
    /// Jobs of other tenants of which some come first, as the shares of the tenants change.
    pub by_share: u64,
}

/// When a job may start. What is not known is absent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bracket {
    /// Not before this, since it waits for a time.
    pub earliest: Option<Wall>,
    /// By then if runs take as long as half of their kind lately did.
    pub likely: Option<Wall>,
    /// By then if runs take as long as all but one of twenty of their kind lately did.
    pub late: Option<Wall>,
    /// By then if all runs take as long as they may.
    pub latest: Option<Wall>,
    /// What the last three rest on, one sentence each.
    pub assumes: Vec<&'static str>,
}

/// Units that are kept for a job until it fits.
#[derive(Debug, Clone, PartialEq)]
pub struct EarmarkView {
    /// The job.
    pub job: JobId,
    /// The node whose units are kept.
    pub node: NodeName,
    /// What is kept, of the node and of the fleet.
    pub slots: Needs,
    /// The job can start by then if whoever holds the units runs to its hard limit.
    pub by: Wall,
}

/// One needed slot.
#[derive(Debug, Clone, PartialEq)]
pub struct SlotExplanation {
    /// Its name.
    pub slot: SlotName,
    /// For a node slot.
    pub node: Option<NodeName>,
    /// What the job needs.
    pub needed: u32,
    /// Use and capacity.
    pub count: Count,
    /// Whether it is paused.
    pub paused: bool,
    /// Who holds it, at most 20, the oldest first.
    pub holders: Vec<SlotHolder>,
}

/// One lease that holds a slot.
#[derive(Debug, Clone, PartialEq)]
pub struct SlotHolder {
    /// The job.
    pub job: JobId,
    /// Its kind.
    pub kind: KindName,
    /// Where.
    pub node: NodeName,
    /// The token.
    pub token: FencingToken,
    /// How much.
    pub amount: u32,
    /// For how long already.
    pub held_for: Duration,
    /// The lease is over, its processes are not known to be gone.
    pub unreaped: bool,
}

/// One needed node slot, over all nodes that could hold the job if they were empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotTotal {
    /// Its name.
    pub slot: SlotName,
    /// What the job needs, on one node.
    pub needed: u32,
    /// How many nodes could hold the job.
    pub nodes: u64,
    /// How many of those have as much of this slot free.
    pub with_room: u64,
    /// Units taken on them.
    pub used: u64,
    /// Units that they have.
    pub capacity: u64,
}

/// One node, seen from one job.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeExplanation {
    /// Which.
    pub node: NodeName,
    /// Why not; none: it fits.
    pub why_not: Option<Deferral>,
}

/// Nodes of equal labels, kinds and capacity that say the same.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeGroup {
    /// Their labels.
    pub labels: BTreeMap<String, String>,
    /// Their slots with units.
    pub slots: BTreeMap<SlotName, u32>,
    /// How many they are.
    pub nodes: u64,
    /// The first of them by name, at most 3.
    pub examples: Vec<NodeName>,
    /// Why not, as the first of them says it; none: it fits there.
    pub why_not: Option<Deferral>,
}
