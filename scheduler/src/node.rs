//! Nodes: what a host offers, what its agent says of itself, and what operators said of it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::{
    ids::{FencingToken, KindName, NodeName, SlotName},
    time::Wall,
};

/// A node as it is stored. It stays until an operator forgets it.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Its name.
    pub name: NodeName,
    /// Random, made once with the agent's state directory.
    pub instance: Arc<str>,
    /// Of its host's present boot.
    pub boot_id: Arc<str>,
    /// Plus one at each start of its agent.
    pub incarnation: u64,
    /// The count of Hellos in that incarnation.
    pub stream: u64,
    /// Routing labels.
    pub labels: BTreeMap<String, String>,
    /// Slots that it offers. Only those that the fleet declares as node slots matter.
    pub slots: BTreeMap<SlotName, Capacity>,
    /// The kinds that it runs.
    pub kinds: Vec<KindName>,
    /// What its host offers.
    pub host: Host,
    /// The version of its agent, for people.
    pub agent_version: Arc<str>,
    /// It takes no new grants.
    pub cordoned: bool,
    /// It takes no new grants, and what runs there ends within this.
    pub draining: Option<Duration>,
    /// When it was last heard, saved once a minute, for people.
    pub last_seen: Wall,
}

impl Node {
    /// The value of a label: what its host is for `os`, `arch` and `containment`, as far as its agent says, else what its
    /// node file says.
    #[must_use]
    pub fn label(&self, label: &str) -> Option<&str> {
        self.host.label(label).or_else(|| self.labels.get(label).map(String::as_str))
    }

    /// Labels of its node file that count for nothing, since its host is something else.
    pub(crate) fn overruled(&self) -> impl Iterator<Item = (&str, &str)> {
        let overruled =
            |label: &&str| self.labels.get(*label).is_some_and(|own| self.label(label) != Some(own));
        Host::LABELS.into_iter().filter(overruled).filter_map(|label| Some((label, self.host.label(label)?)))
    }

    /// Whether a selector may tell it from the other.
    pub(crate) fn is_labelled_as(&self, other: &Self) -> bool {
        self.labels == other.labels && self.host.facts() == other.host.facts()
    }
}

/// What placement tells nodes apart by: those of one type say the same to every class that waits, but for what they hold.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeType {
    labels: BTreeMap<String, String>,
    pub(crate) kinds: Vec<KindName>,
    pub(crate) slots: BTreeMap<SlotName, u32>,
    host: [Arc<str>; 3],
}

impl NodeType {
    pub(crate) fn of(node: &Node) -> Self {
        Self {
            labels: node.labels.clone(),
            kinds: node.kinds.clone(),
            slots: node.slots.iter().map(|(slot, capacity)| (slot.clone(), capacity.units)).collect(),
            host: node.host.facts().map(|(_, fact)| fact.clone()),
        }
    }

    pub(crate) fn is_of(&self, node: &Node) -> bool {
        self.kinds == node.kinds
            && self.labels == node.labels
            && self.slots.iter().eq(node.slots.iter().map(|(slot, capacity)| (slot, &capacity.units)))
            && self.host.iter().eq(node.host.facts().map(|(_, fact)| fact))
    }

    /// Its labels with what its hosts are.
    pub(crate) fn all_labels(&self) -> BTreeMap<String, String> {
        let host = Host::LABELS.into_iter().zip(&self.host).filter(|(_, fact)| !fact.is_empty());
        let host = host.map(|(label, fact)| (label.to_owned(), fact.to_string()));
        self.labels.clone().into_iter().chain(host).collect()
    }
}

/// What a node offers of one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capacity {
    /// Units.
    pub units: u32,
    /// The newest token granted before `units` last changed.
    pub since: FencingToken,
}

/// What a host offers, as its agent read it. Zero or empty: unknown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Host {
    /// Usable processors.
    pub cpus: u32,
    /// Bytes.
    pub memory_bytes: u64,
    /// Bytes free in the work directory at the start of the agent.
    pub disk_free_bytes: u64,
    /// As Rust names it.
    pub os: Arc<str>,
    /// As Rust names it.
    pub arch: Arc<str>,
    /// full, partial or weak.
    pub containment: Arc<str>,
}

impl Host {
    /// Labels that a node has by what its host is. A node file cannot name them anew.
    pub const LABELS: [&str; 3] = ["os", "arch", "containment"];

    /// Those labels with what is known of them; empty: nothing.
    pub(crate) fn facts(&self) -> [(&'static str, &Arc<str>); 3] {
        let [os, arch, containment] = Self::LABELS;
        [(os, &self.os), (arch, &self.arch), (containment, &self.containment)]
    }

    fn label(&self, label: &str) -> Option<&str> {
        let fact = self.facts().into_iter().find(|(name, fact)| *name == label && !fact.is_empty());
        fact.map(|(_, fact)| &**fact)
    }
}

/// What the pressure rules of a node say. Never stored.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Pressure {
    /// Rises when a group opens or closes, a cap changes, or headroom crosses a declared headroom.
    pub generation: u64,
    /// Closed groups. Absent ones are open.
    pub closed: Vec<ClosedGroup>,
    /// Slots capped below their capacity.
    pub caps: BTreeMap<SlotName, u32>,
    /// 1 to 3: other nodes are preferred the more.
    pub weight: u8,
}

/// A group of grants that a node refuses.
#[derive(Debug, Clone, PartialEq)]
pub struct ClosedGroup {
    /// Which grants.
    pub group: Group,
    /// The rule that closed it.
    pub rule: Arc<str>,
    /// The signal that it read.
    pub signal: Arc<str>,
    /// What it read.
    pub observed: f64,
    /// The close value.
    pub threshold: f64,
    /// For how long it has been closed, as the node says.
    pub closed_for: Duration,
}

/// Which grants a rule is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// All.
    All,
    /// Those that need a slot.
    Slot(SlotName),
    /// Those of a kind.
    Kind(KindName),
}

impl std::fmt::Display for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::All => f.write_str("*"),
            Self::Slot(slot) => write!(f, "slot:{slot}"),
            Self::Kind(kind) => write!(f, "kind:{kind}"),
        }
    }
}
